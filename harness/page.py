"""What every page of this project has: one style, no script, no request, foreign text inert.

Colours only repeat what words and marks say, so that a page reads the same without them.
"""

from __future__ import annotations

import html
from collections.abc import Iterable
from importlib.resources import files
from typing import Any

from harness.plain import visible

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


def document(title: str, parts: Iterable[str], *, language: str = "en", style: str = "") -> str:
    """A whole page.

    Args:
        title: any text; it is escaped.
        parts: markup of the body.
        style: rules that only this page needs.
    """
    shared = files("harness").joinpath("page.css").read_text("utf-8")
    return "\n".join([
        "<!doctype html>",
        f'<html lang="{language}"><head><meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<link rel="icon" href="data:,">',
        f"<title>{escaped(title)}</title><style>{shared}{style}</style></head><body><main>",
        *parts,
        "</main></body></html>",
        "",
    ])  # fmt: skip


def escaped(value: Any) -> str:
    """Foreign text, inert; control characters become pictures of themselves."""
    shown = "".join(
        chr(0x2400 + ord(c)) if ord(c) < 32 and c not in "\n\t" else c for c in str(value)
    )
    return html.escape(visible(shown))
