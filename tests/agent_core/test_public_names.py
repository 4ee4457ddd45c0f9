"""What `agent_core` offers, what importing it costs, and what it must not know."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import agent_core

ROOT = Path(agent_core.__file__).parent
FORBIDDEN = {"harness", "opentelemetry", "structlog"}


@pytest.mark.parametrize("name", agent_core.__all__)
def test_every_public_name_is_there(name: str) -> None:
    """And is what its own module calls by that name."""
    assert getattr(agent_core, name).__name__.endswith(name)


def test_an_unknown_name_is_an_attribute_error() -> None:
    """A name that the package does not have raises what any module raises."""
    with pytest.raises(AttributeError, match="Agnet"):
        _ = agent_core.Agnet


def test_agent_core_imports_nothing_of_the_harness_or_its_libraries() -> None:
    """Not at the top of a module, and not inside a function."""
    for path in ROOT.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.module:
                names.append(node.module)
            assert not {name.split(".")[0] for name in names} & FORBIDDEN, path


def test_importing_an_agent_is_light() -> None:
    """No torch, no numpy, nothing that watches; no output, no `.env`."""
    code = (
        "import agent_core, sys; agent_core.Agent; agent_core.OllamaChat;"
        "heavy = {'torch', 'numpy', 'sentence_transformers', 'opentelemetry', 'structlog',"
        " 'harness', 'dotenv'} & {name.split('.')[0] for name in sys.modules};"
        "assert not heavy, heavy"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
