"""L1-L9: labels that are dressed up, misspelt, translated, out of line."""

from __future__ import annotations

from agent_core.messages import Language
from harness.fuzz.drafts import FAMILIES, REACT, Draft, as_string
from harness.fuzz.examples import final
from harness.fuzz.operators.operator import operator

_KEYS = ("thought", "action", "input", "answer")
_MARKUP = ("**{}:** ", "**{}**: ", "__{}:__ ", "***{}:*** ", "### {}: ", "**{}：**")
_SURE_MARKUP = 2  # the taxonomy names the first two


@operator("L1", "markdown labels", on=REACT, touches="marks", intent="any")
def markdown(draft: Draft) -> None:
    """Bold and other markup, or a name in backticks."""
    choice = draft.rng.randrange(len(_MARKUP) + 1)
    if choice == len(_MARKUP):
        if draft.notation == "react-labels" and draft.arguments is not None:
            draft.name_written = f"`{draft.name_written}`"
        choice = 0
    before, after = _MARKUP[choice].split("{}")
    draft.marks = dict.fromkeys(_KEYS, (before, after))
    if choice >= _SURE_MARKUP:
        draft.beyond()


@operator("L2", "numbered labels", on=REACT, touches="marks", intent="any")
def numbered(draft: Draft) -> None:
    """`Action 1:`, `Action 1 Input:`; a digit that ends a tool's name is none of it."""
    number = str(draft.rng.randrange(1, 10))
    blank = draft.rng.choice((" ", ""))
    draft.marks = dict.fromkeys(
        ("thought", "action", "input"), ("", f"{blank}{number}{draft.colon}")
    )
    if draft.language == "en" and draft.rng.randrange(2):
        draft.words["input"] = f"Action {number} Input"
        draft.marks["input"] = ("", draft.colon)


_SPELLINGS: tuple[tuple[str, str, str, str], ...] = (
    ("thought", "action", "action input", "final answer"),
    ("THOUGHT", "ACTION", "ACTION INPUT", "FINAL ANSWER"),
    ("Thought", "Tool", "Tool Input", "Answer"),
    ("Thought", "Action", "Action_Input", "Final_Answer"),
    ("Thought", "Action", "ActionInput", "FinalAnswer"),
    ("Thought", "Action", "Action input", "Final answer"),
)
_SPELLINGS_ZH = (
    ("想法", "工具", "工具输入", "答案"),
    ("思考", "操作", "操作输入", "最终回复"),
    ("思考", "行动", "行动参数", "回答"),
)


@operator("L3", "case, variant, spelling", on=REACT, touches="words", intent="any")
def variant(draft: Draft) -> None:
    """Another spelling of the labels."""
    options = _SPELLINGS if draft.language == "en" else _SPELLINGS_ZH
    draft.words |= dict(zip(_KEYS, draft.rng.choice(options), strict=True))
    draft.may_refuse()
    if draft.language == "zh":
        draft.beyond()  # words that no prompt asks for


@operator("L4", "no colon, equals sign, own line", on=REACT, touches="marks words", intent="any")
def no_colon(draft: Draft) -> None:
    """A blank, a sign or a line end where the colon should be."""
    after = draft.rng.choice((":\n", " ", " = ", "\n", " : "))
    draft.marks = dict.fromkeys(_KEYS, ("", after))
    if after not in {":\n", " : "}:
        draft.may_refuse()


@operator("L5", "inline after the thought", on=REACT - {"react-fence"}, touches="thought marks",
          intent="any")  # fmt: skip
def inline(draft: Draft) -> None:
    """The decision follows on the thought's line."""
    first = "action" if draft.answer is None else "answer"
    stop = "." if draft.language == "en" else "。"
    blank = " " if draft.language == "en" else ""
    thought = (draft.thought or draft.words["thought"]).rstrip(".。")
    draft.marks[first] = (f"{draft.label('thought')}{thought}{stop}{blank}", draft.colon)
    draft.thought = ""
    draft.may_refuse()


@operator("L6", "mixed languages, brackets", on=REACT, touches="words marks", intent="any")
def mixed(draft: Draft) -> None:
    """A label with its translation, in brackets, or in the other language."""
    other: Language = "zh" if draft.language == "en" else "en"
    translated = dict(zip(("thought", "action", "input", "observation", "answer"),
                          draft.rng.choice(FAMILIES[other]), strict=True))  # fmt: skip
    choice = draft.rng.randrange(4)
    for key in _KEYS:
        if choice == 0:
            draft.words[key] += f"（{translated[key]}）"
        elif choice == 1:
            draft.words[key] += f" ({translated[key]})"
        elif choice == 2:
            draft.marks[key] = ("【", "】" + draft.rng.choice((draft.colon, "")))
        elif key in {"input", "answer"}:
            draft.words[key] = translated[key]
            draft.marks[key] = ("", ": " if draft.language == "zh" else "：")
    draft.may_refuse()


_TRADITIONAL = ("思考", "動作", "動作輸入", "最終答案")


@operator("L7", "Chinese label families", on=REACT, touches="words", intent="any")
def chinese(draft: Draft) -> None:
    """Both families, mixed, or in traditional characters."""
    choice = draft.rng.randrange(3)
    words = _TRADITIONAL if choice == 2 else FAMILIES["zh"][choice][:3] + FAMILIES["zh"][choice][4:]
    draft.words |= dict(zip(_KEYS, words, strict=True))
    if choice == 2:
        draft.may_refuse()
    elif draft.rng.randrange(2):
        draft.words["input"] = FAMILIES["zh"][1 - choice][2]
        draft.words["answer"] = FAMILIES["zh"][1 - choice][4]


@operator("L8", "colon of the other width", on=REACT, touches="marks", intent="any")
def other_colon(draft: Draft) -> None:
    """A full-width colon after English labels, an ASCII one after Chinese."""
    colons = ("：", "： ") if draft.language == "en" else (":", ": ")
    draft.marks = dict.fromkeys(_KEYS, ("", draft.rng.choice(colons)))


@operator("L9", "whole reply escaped, fenced or a string", on=REACT - {"react-fence"},
          touches="whole newline before after words marks", intent="any", plain=True)  # fmt: skip
def whole(draft: Draft) -> None:
    """The reply arrives in a wrapping of its own."""
    choice = draft.rng.randrange(3)

    def edit(text: str, _: int, __: int) -> str:
        if choice == 0:
            return f"```\n{text}\n```"
        return as_string(text) if choice == 1 else text.replace("\n", "\\n")

    draft.edits.append(edit)
    draft.may_refuse()
    draft.open_ended = False
    if choice == 2 and draft.answer is not None:  # the escapes may be meant
        draft.also.append(final(draft.answer.replace("\n", "\\n")))


OPERATORS = (markdown, numbered, variant, no_colon, inline, mixed, chinese, other_colon, whole)
