"""C1-C9: the call and its name - inline, positional, decorated, unknown, without input."""

from __future__ import annotations

from harness.fuzz.drafts import Draft, Frame, as_string, lone_text, python_call
from harness.fuzz.examples import action, final
from harness.fuzz.operators.operator import operator
from harness.fuzz.values import words

_LABELS = frozenset({"react-labels"})
_NAMED = frozenset({"react-labels", "react-json", "json", "hermes", "mistral-name", "native"})


def _one_line(draft: Draft, body: str) -> None:
    """The whole call on the action's line."""
    draft.frame = lambda each: Frame(each.label("action"))
    draft.wrap = lambda _: body


@operator("C1", "inline call", on=_LABELS, touches="name input json", needs="identifier")
def inline_call(draft: Draft) -> None:
    """Name and arguments on one line, as JSON or as keywords."""
    assert draft.arguments is not None
    choice = draft.rng.randrange(4)
    if choice == 0:
        draft.frame = lambda each: Frame(f"{each.label('action')}{each.name} ")
    elif choice == 1:
        draft.frame = lambda each: Frame(f"{each.label('action')}{each.name}(", ")")
    else:
        call = python_call(draft.name, draft.arguments)
        if choice == 3:
            call = f"{draft.name}（{call[len(draft.name) + 1 : -1]}）"
        _one_line(draft, call)
        if not draft.arguments:
            draft.needs_end()  # `f()` may be a name with an input to come
    draft.may_refuse()


@operator("C2", "positional or bracket call", on=_LABELS, touches="name input json",
          needs="string identifier", plain=True)  # fmt: skip
def positional(draft: Draft) -> None:
    """`f("x")` and `f[x]`: without names only a schema could help."""
    assert draft.arguments is not None
    values = list(draft.arguments.values())
    if draft.rng.randrange(2):
        _one_line(draft, f"{draft.name}({', '.join(map(repr, values))})")
    else:
        _one_line(draft, f"{draft.name}[{', '.join(map(str, values))}]")
    draft.must_refuse("wrong_call", draft.outcome)


_CODE = ("open('/etc/x').read()", "__import__('os').getcwd()", "2**8", "len('abc')", "lambda: 0",
         "[x for x in 'ab']", "a if b else c")  # fmt: skip


@operator("C3", "argument that is code", on=_LABELS | {"pythonic", "llama3"},
          touches="name input json", needs="string identifier", plain=True)  # fmt: skip
def code(draft: Draft) -> None:
    """An expression as an argument: never evaluated."""
    key = draft.key_of("string")
    other = next(iter(draft.tools))
    expression = draft.rng.choice((*_CODE, f"{other}()"))
    call = f"{draft.name}({key}={expression})"
    if draft.notation == "react-labels":
        _one_line(draft, call)
    elif draft.notation == "llama3":
        draft.wrap = lambda _: f"{draft.name}.call({key}={expression})"
    else:
        draft.wrap = lambda _: call
    draft.must_refuse("ran_code")


_DECORATED = ('"{}"', "'{}'", "{}()", "functions.{}", "{}.", "[{}]", "use the {} tool", "<{}>",
              "{} (reads the sea)", "the `{}` function")  # fmt: skip
_DECORATED_ZH = ('"{}"', "“{}”", "{}()", "functions.{}", "{}。", "[{}]", "使用 {} 工具", "「{}」",
                 "{}（查看海面）", "`{}`")  # fmt: skip


@operator("C4", "decorated name", on=_LABELS, touches="name")
def decorated(draft: Draft) -> None:
    """Quotes, brackets, a namespace or words around a name; two names are none."""
    options = _DECORATED if draft.language == "en" else _DECORATED_ZH
    if draft.rng.randrange(8) == 7:
        other = draft.rng.choice([each for each in draft.tools if each != draft.name])
        joint = f"{draft.name} or {other}" if draft.language == "en" else f"{draft.name} 或 {other}"
        draft.name_written = joint
        draft.must_refuse("guessed_name", action(joint, draft.arguments or {}))
        return
    form = draft.rng.choice(options)
    draft.name_written = form.format(draft.name)
    if form in {"<{}>", "the `{}` function", "{} (reads the sea)", "{}（查看海面）"}:
        draft.beyond()


HOMOGLYPHS = str.maketrans("aceopxAE", "асеорхАЕ")


def near_names(draft: Draft) -> list[str]:
    """Names that look like the one that is meant and are not registered."""
    name = draft.name
    near = [
        "book_zeppelin" if draft.language == "en" else "预订飞艇",
        f"{name}_archive",
        f"my_{name}",
        name[:-1],
        name[0] + name[2:],
        name.translate(HOMOGLYPHS),
        name.replace("_", "-"),
        name.swapcase(),
    ]
    return [each for each in near if each not in draft.tools and each.strip()]


@operator("C5", "unknown or near name", on=_NAMED, touches="name")
def unknown(draft: Draft) -> None:
    """A name of no tool; it may go unchanged to the executor, and is never mapped."""
    draft.name_written = draft.rng.choice(near_names(draft))
    assert draft.arguments is not None
    draft.must_refuse("guessed_name", action(draft.name_written, draft.arguments))


_NOTHING = ("None", "N/A", "none", "null", "No action needed", "-")
_NOTHING_ZH = ("无", "不需要", "None", "N/A", "无需行动")


@operator("C6", "no action named", on=_LABELS, touches="name input json after", intent="call")
def nothing(draft: Draft) -> None:
    """`Action: None`, alone or with an answer after it."""
    word = draft.rng.choice(_NOTHING if draft.language == "en" else _NOTHING_ZH)
    given = draft.rng.choice(("", f"\n{draft.label('input')}{word}"))
    _one_line(draft, word + given)
    if draft.rng.randrange(2):
        draft.must_refuse("phantom_call")
        return
    draft.arguments, draft.answer = None, words(draft.rng, draft.language)
    draft.after = f"\n{draft.label('answer')}{draft.answer}"
    draft.may_refuse()


@operator("C7", "final answer as a tool", on=_LABELS | {"react-json"},
          touches="name input json after", intent="answer")  # fmt: skip
def answer_tool(draft: Draft) -> None:
    """`Action: Final Answer` with the answer as input."""
    name = draft.rng.choice((draft.words["answer"], "final_answer"))
    answer = draft.answer or ""
    if draft.notation == "react-json":
        key = draft.rng.choice(("answer", "text"))
        body = f'{{"name": {as_string(name)}, "arguments": {{"{key}": {as_string(answer)}}}}}'
        draft.also += [action(name, {key: answer}), final(f'{{"{key}": {as_string(answer)}}}')]
        draft.beyond()
    else:
        body = f"{name}\n{draft.label('input')}{answer}"
    _one_line(draft, body)
    draft.may_refuse()


@operator("C8", "no input", on=_LABELS, touches="input json several", needs="optional")
def no_input(draft: Draft) -> None:
    """A tool that needs nothing, and nothing, or the word for it, as input."""
    draft.arguments = draft.written = {}
    nothing = "None" if draft.language == "en" else "无"
    choice = draft.rng.randrange(4)
    if choice == 0:
        draft.frame = lambda each: Frame(f"{each.label('action')}{each.name_written}")
        draft.wrap = lambda _: ""
    else:
        draft.wrap = lambda _: ("", nothing, "null")[choice - 1]
    draft.may_refuse()
    draft.needs_end()


@operator("C9", "bare text or a list as input", on=_LABELS, touches="input json", needs="string",
          plain=True)  # fmt: skip
def bare_text(draft: Draft) -> None:
    """Text is an input only where the tool has one required parameter, a string."""
    lone = lone_text(draft.tools[draft.name])
    text = words(draft.rng, draft.language)
    if lone is None or not draft.rng.randrange(4):
        listed = lone is not None or draft.rng.randrange(2)
        draft.wrap = lambda _: f"[{as_string(text)}]" if listed else text
        draft.must_refuse()
        if lone:  # a list for a lone parameter: text all the same, to a lenient parser
            draft.also.append(action(draft.name, {lone: f"[{as_string(text)}]"}))
        return
    draft.arguments = draft.written = {lone: text}
    draft.wrap = lambda _: text
    draft.may_refuse()
    draft.needs_end()


OPERATORS = (
    inline_call,
    positional,
    code,
    decorated,
    unknown,
    nothing,
    answer_tool,
    no_input,
    bare_text,
)
