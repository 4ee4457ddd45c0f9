"""J8-J14: values as models write them into JSON."""

from __future__ import annotations

from harness.fuzz.drafts import JSON, Draft
from harness.fuzz.operators.operator import operator
from harness.fuzz.values import words


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


OPERATORS = (literals, not_finite, numbers, raw_newline, escapes, surrogates, inner_quotes)
