"""J15-J20: JSON that is cut, badly closed, ambiguous, nested or of full width."""

from __future__ import annotations

import json
from collections.abc import Callable

from harness.fuzz.drafts import ARGUMENTS, JSON, OBJECT, Draft, as_string
from harness.fuzz.examples import action
from harness.fuzz.jsontext import Members, write_json
from harness.fuzz.operators.operator import operator

_CLOSERS = "}])｝］ \n"


@operator(
    "J15", "truncated", on=JSON | {"pythonic"}, touches="after body whole newline", uses="json"
)
def truncated(draft: Draft) -> None:
    """Cut inside the body; only closers may be missing, and only after complete values."""
    place = draft.rng.random()
    skipped = len(draft.name) + 1 if draft.notation == "pythonic" else 0  # half a name is prose
    draft.finish_reason = draft.rng.choice((None, "length"))

    def edit(text: str, start: int, end: int) -> str:
        cut = start + skipped + 1 + int(place * (end - start - skipped - 1))
        missing, kept = text[cut:end], text[start:cut].rstrip()
        if not missing.strip(_CLOSERS) and kept and not (kept[-1].isalnum() or kept[-1] == "."):
            draft.also.append(draft.outcome)
        return text[:cut]

    draft.edits.append(edit)
    draft.must_refuse("ran_cut_call")
    draft.open_ended = False


@operator("J16", "wrong or missing bracket", on=JSON, touches="braces after value", uses="json")
def brackets(draft: Draft) -> None:
    """A closer of the other kind, an inner one left out, the last one left out."""
    choice = draft.rng.randrange(3)
    if choice == 0:
        draft.wrap = lambda body: body[:-1] + "]"
        if not draft.arguments:
            draft.beyond()  # `{]` could be a list as well
    elif choice == 1:
        assert draft.arguments is not None
        draft.put("levels", [1, 2], "[1, 2")
    else:
        draft.wrap = lambda body: body[:-1]
        draft.needs_end()
        last = write_json(draft.written, draft.style)[-2:-1]
        if draft.style.trailing or not last.strip("0123456789els{"):
            # After a comma another member is missing (J15: cut); whether a number or a word
            # has ended cannot be seen.
            draft.beyond()
    draft.may_refuse()


@operator(
    "J17",
    "duplicate keys",
    on=JSON,
    touches="value members",
    uses="json",
    needs="string",
    plain=True,
)
def duplicates(draft: Draft) -> None:
    """The same value twice is one; different values, or two names, are a conflict."""
    assert draft.arguments is not None
    key = draft.key_of("string")
    pairs = tuple(draft.arguments.items())
    choice = draft.rng.randrange(3)
    if choice == 2 and draft.notation in OBJECT:
        other, _ = draft.decoy("took_conflict")
        draft.members = lambda name, raw: Members((
            (draft.name_key, name), (draft.args_key, raw), (draft.name_key, other),
        ))  # fmt: skip
        draft.must_refuse("took_conflict")
        return
    if choice == 0:
        draft.written = Members((*pairs, (key, draft.arguments[key])))
        return
    draft.written = Members((*pairs, (key, "another")))
    draft.must_refuse("took_conflict", action(draft.name, draft.arguments | {key: "another"}))


@operator("J18", "double-encoded arguments", on=JSON - {"native", "pythonic"},
          touches="quotes members", uses="json", needs="string")  # fmt: skip
def double(draft: Draft) -> None:
    """Arguments as a JSON text are decoded once; a JSON text as a value stays text."""
    if draft.rng.randrange(2):
        value = '{"port": "Tern Bay"}'
        draft.put(draft.key_of("string"), value, as_string(value))
    elif draft.notation in ARGUMENTS:
        draft.wrap = as_string
    else:
        draft.members = lambda name, raw: {draft.name_key: name, draft.args_key: raw.text}


_DEEP: tuple[Callable[[], str], ...] = (
    lambda: "[" * 20_000 + "]" * 20_000,
    lambda: '{"a":' * 20_000,
    lambda: "9" * 5_000,
)


@operator("J19", "depth and size", on=JSON, touches="value", uses="json", alone=True)
def deep(draft: Draft) -> None:
    """Forty levels are fine, twenty thousand are not, nor are five thousand digits."""
    if draft.rng.randrange(2):
        value: list[object] = []
        for _ in range(draft.rng.randrange(1, 40)):
            value = [value]
        draft.put("limit", value, json.dumps(value))
        return
    draft.put("limit", None, draft.rng.choice(_DEEP)())
    draft.must_refuse("accepted_unsafe")
    draft.open_ended = False


@operator(
    "J20", "full-width structure and digits", on=JSON, touches="braces separators", uses="json"
)
def full_width(draft: Draft) -> None:
    """Brackets, colons and commas of full width; digits too."""
    draft.style.brackets = draft.rng.choice(("｛｝［］", "{}[]"))
    draft.style.colon, draft.style.member = "：", draft.rng.choice(("，", ", "))
    if not draft.rng.randrange(3):
        draft.style.wide_digits = True
        draft.may_refuse()


OPERATORS = (truncated, brackets, duplicates, double, deep, full_width)
