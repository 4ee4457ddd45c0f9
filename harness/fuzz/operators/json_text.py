"""J1-J7: what stands around and between the parts of a JSON text."""

from __future__ import annotations

import json

from harness.fuzz.drafts import JSON, UNLABELLED, Draft
from harness.fuzz.operators.operator import operator

_LABELLED = frozenset({"react-json", "react-labels"})


@operator("J1", "fences", on=_LABELLED | {"hermes"}, touches="body after fence", uses="json")
def fences(draft: Draft) -> None:
    """A fence round the JSON, an open one, a lone `json`, backticks."""
    forms = (("```json\n", "\n```"), ("```\n", "\n```"), ("json\n", ""), ("\n```json\n", "\n```"),
             ("```json\n", ""), ("`", "`"))  # fmt: skip
    draft.body_before, draft.body_after = draft.rng.choice(forms)
    draft.open_ended = not draft.body_before.endswith("\n") or bool(draft.body_after)


@operator("J2", "prose around, a second object", on=_LABELLED, touches="body after", uses="json")
def prose(draft: Draft) -> None:
    """Prose before or after the JSON, with braces of its own."""
    other = json.dumps({"port": "Tern Bay"})
    after = (
        (" I wait for {port}.", "\nThen I fill in {port}.", f" (that is {other} otherwise)",
         " <!-- kept -->", f"\n{other}", " // done")
        if draft.language == "en"
        else (" 我等 {港口}。", "\n然后填入 {港口}。", f"（否则是 {other}）", " <!-- 备注 -->",
              f"\n{other}", "。")
    )  # fmt: skip
    if draft.notation == "react-labels" and not draft.rng.randrange(4):
        draft.body_before = "Here it is: " if draft.language == "en" else "如下： "
    else:
        draft.body_after = draft.rng.choice(after)


@operator("J3", "residue", on=_LABELLED | UNLABELLED | {"hermes", "llama3", "mistral", "deepseek"},
          touches="after", uses="json")  # fmt: skip
def residue(draft: Draft) -> None:
    """Half a stop word, end tokens, one bracket too many."""
    ends = ["<|im_end|>", "</s>", "<|eot_id|>", "\n<|endoftext|>"]
    if draft.notation in _LABELLED:
        ends += ["\nObserv", "\n观", "}", "\n}"]
    draft.after = draft.rng.choice(ends)
    draft.open_ended = False


@operator("J4", "single, curly, full-width quotes", on=JSON, touches="quotes", uses="json")
def quotes(draft: Draft) -> None:
    """Other quotes round strings; quotes inside a legal string are left alone."""
    text = json.dumps(draft.arguments, ensure_ascii=False)
    hard = any(mark in text for mark in "'“”‘’＂\\")
    options = (("'", "'"),) if hard else (("'", "'"), ("“", "”"), ("＂", "＂"), ("‘", "’"))
    draft.style.quotes = draft.rng.choice(options)


@operator("J5", "bare keys and values, doubled braces", on=JSON, touches="quotes braces",
          uses="json",          needs="string", plain=True)  # fmt: skip
def bare(draft: Draft) -> None:
    """Keys or values without quotes, template braces."""
    choice = draft.rng.randrange(3)
    if choice < 2:
        draft.style.bare_keys = True
        if choice == 1:
            key = draft.key_of("string")
            word = draft.rng.choice(("Varnby", "Orla")) if draft.language == "en" else "青屿"
            draft.put(key, word, word)
            draft.may_refuse()
    else:
        draft.wrap = lambda body: f"{{{body}}}"
        draft.may_refuse()


@operator("J6", "commas and separators", on=JSON, touches="separators", uses="json")
def commas(draft: Draft) -> None:
    """A trailing comma, a missing one, a semicolon, an equals sign."""
    assert draft.arguments is not None
    choice = draft.rng.randrange(4)
    if choice == 0 or (choice < 3 and len(draft.arguments) < 2):
        draft.style.trailing = draft.rng.choice((",", ", "))
        return
    if choice < 3:
        draft.style.member = (" ", "; ")[choice - 1]
    else:
        draft.style.colon = draft.rng.choice((" = ", "="))
    draft.may_refuse()


@operator("J7", "comments", on=JSON, touches="comment", uses="json")
def comments(draft: Draft) -> None:
    """A comment; slashes inside a string are none."""
    note = "as asked" if draft.language == "en" else "按要求"
    draft.style.comment = draft.rng.choice((f" /* {note} */", f" // {note}\n", "/**/"))


OPERATORS = (fences, prose, residue, quotes, bare, commas, comments)
