"""J1-J20: JSON as models write it."""

from __future__ import annotations

import json
from collections.abc import Callable

from harness.fuzz.drafts import ARGUMENTS, JSON, OBJECT, UNLABELLED, Draft, as_string
from harness.fuzz.examples import action
from harness.fuzz.jsontext import Members, write_json
from harness.fuzz.operators.operator import operator
from harness.fuzz.values import words

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


@operator("J8", "literals of Python and JavaScript", on=JSON, touches="literals value", uses="json")
def literals(draft: Draft) -> None:
    """`True`, `False`, `None`; `undefined` is no value."""
    assert draft.arguments is not None
    if not draft.rng.randrange(4):
        draft.put("limit", None, "undefined")
        draft.must_refuse("wrong_call")
        return
    draft.arguments |= {"deep": True, "limit": None, "old": False}
    draft.written |= {"deep": True, "limit": None, "old": False}
    draft.style.literals = draft.rng.choice((("True", "False", "None"), ("TRUE", "FALSE", "NULL")))
    if draft.style.literals[0] == "TRUE":
        draft.beyond()


@operator("J9", "NaN and infinities", on=JSON, touches="value", uses="json")
def not_finite(draft: Draft) -> None:
    """Numbers that JSON does not have."""
    words_ = ("NaN", "Infinity", "-Infinity", "1e999", "-1e400")
    draft.put("limit", None, draft.rng.choice(words_))
    draft.must_refuse("accepted_unsafe")


@operator("J10", "spellings of numbers", on=JSON, touches="value", uses="json")
def numbers(draft: Draft) -> None:
    """A plus sign, no leading digit, a thousands comma; digits in a string stay a string."""
    choice = draft.rng.randrange(5)
    if choice == 4:
        draft.put("limit", None, "1,500")
        draft.must_refuse("wrong_call")
        return
    spellings = (("007", '"007"'), (5, "+5"), (0.5, ".5"), (-0.25, "-.25"))
    draft.put("limit", *spellings[choice])
    if choice:
        draft.may_refuse()


@operator("J11", "raw newline and tab in a string", on=JSON, touches="value newline", uses="json",
          needs="string")  # fmt: skip
def raw_newline(draft: Draft) -> None:
    """The value keeps the character."""
    rng, key = draft.rng, draft.key_of("string")
    value = rng.choice(("\n", "\t", "\n\n", "\r\n")).join((
        words(rng, draft.language),
        words(rng, draft.language),
    ))
    draft.put(key, value, f'"{value}"')


@operator("J12", "illegal escapes", on=JSON, touches="value quotes", uses="json", needs="string")
def escapes(draft: Draft) -> None:
    r"""`\'`, `\d`; in a Windows path `\n` may be anything."""
    options = (("\\d+ 箱", "\\d+ 箱"), ("D:\\quay\\salt", "D:\\quay\\salt"), ("O'Dell", "O\\'Dell"),
               ("D:\\new\\table", "D:\\new\\table"))  # fmt: skip
    value, text = draft.rng.choice(options)
    draft.put(draft.key_of("string"), value, f'"{text}"')
    if value == "D:\\new\\table":
        draft.must_refuse("wrong_call", draft.outcome)
    else:
        draft.may_refuse()


@operator("J13", "surrogates", on=JSON, touches="value quotes", uses="json", needs="string")
def surrogates(draft: Draft) -> None:
    """A pair is one character; half of one cannot be kept."""
    key = draft.key_of("string")
    if draft.rng.randrange(2):
        draft.put(key, "船 🚢", '"船 \\ud83d\\udea2"')
    else:
        draft.put(key, "", draft.rng.choice(('"\\ud83d"', '"a\\udea2b"', '"\\udea2\\ud83d"')))
        draft.must_refuse("accepted_unsafe")


@operator("J14", "unescaped quotes", on=JSON, touches="value quotes literals", uses="json",
          needs="string",          plain=True)  # fmt: skip
def inner_quotes(draft: Draft) -> None:
    """The exact text, or an error; never a value that is cut."""
    value = 'say "ahoy" to Orla' if draft.language == "en" else '对她说"你好"然后走'
    draft.put(draft.key_of("string"), value, f'"{value}"')


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


OPERATORS = (
    fences,
    prose,
    residue,
    quotes,
    bare,
    commas,
    comments,
    literals,
    not_finite,
    numbers,
    raw_newline,
    escapes,
    surrogates,
    inner_quotes,
    truncated,
    brackets,
    duplicates,
    double,
    deep,
    full_width,
)
