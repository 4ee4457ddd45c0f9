"""T1-T2, U1-U2, E1-E2: thinking, invisible characters, nothing at all."""

from __future__ import annotations

from harness.fuzz.drafts import NOTATIONS, REACT, Draft, Frame
from harness.fuzz.examples import action
from harness.fuzz.operators.calls import HOMOGLYPHS
from harness.fuzz.operators.operator import operator
from harness.fuzz.values import words

_TEXT = NOTATIONS - {"native"}


def _musing(draft: Draft) -> str:
    """Thinking, with a call in it more often than not."""
    rng, text = draft.rng, words(draft.rng, draft.language)
    choice = rng.randrange(4)
    if choice == 0:
        return f"{text}\n"
    if choice == 1:
        return f"{text}\n{draft.words['answer']}: {text}\n"
    name, arguments = draft.decoy("ran_thinking")
    notation = rng.choice(("react-labels", "hermes", "json", draft.notation))
    return f"{text}\n{draft.clean(name, arguments, notation).text()}\n{text}\n"


@operator("T1", "thinking block", on=_TEXT, touches="before", intent="any")
def thinking(draft: Draft) -> None:
    """What follows the block counts; its opening tag may be missing."""
    opening = draft.rng.choice(("<think>\n", "<think>", ""))
    draft.before = f"{opening}{_musing(draft)}</think>" + draft.rng.choice(("\n", "\n\n"))
    if not opening:
        draft.prefix_calls = None  # without its end nothing shows that it is thinking


@operator(
    "T2", "thinking never ends", on=_TEXT, touches="before after value", intent="any", plain=True
)
def endless(draft: Draft) -> None:
    """Nothing was said yet; a native call inside is a matter of taste."""
    draft.before = f"<think>\n{words(draft.rng, draft.language)}\n"
    also = [] if draft.notation in REACT else [draft.outcome]
    draft.must_refuse("ran_thinking", *also)
    draft.open_ended = False


@operator("U1", "byte-order mark, line ends, blanks", on=REACT | {"json", "hermes", "json-fence"},
          touches="newline marks whole", intent="any")  # fmt: skip
def blanks(draft: Draft) -> None:
    """Invisible characters between the words; values are not normalised."""
    choice = draft.rng.randrange(7 if draft.notation in REACT else 2)

    def edit(text: str, _: int, __: int) -> str:
        if choice == 0:
            return "\ufeff" + text
        return text.replace("\n", ("\r\n", "\r\n", "\r")[choice - 1] if choice < 4 else "\n")

    draft.edits.append(edit)
    if choice == 3:
        draft.may_refuse()
    elif choice > 3:
        key = "answer" if draft.arguments is None else "action"
        before, after = draft.marks.get(key, ("", draft.colon))
        draft.marks[key] = (
            (before, after.rstrip() + "\u00a0"),
            ("\u200e" + before, after),
            (before, after + "\u2009"),
        )[choice - 4]  # fmt: skip
        draft.may_refuse()
    if choice in {1, 2, 3} and draft.answer is not None:
        draft.also.append({"kind": "final", "answer": edit(draft.answer, 0, 0)})


@operator(
    "U2", "zero-width and look-alike characters", on=REACT, touches="words name", intent="any"
)
def look_alikes(draft: Draft) -> None:
    """In a label, and invisible in a name, it may be seen through; other letters are others."""
    rng, zero_width = draft.rng, draft.rng.choice(("\u200b", "\u200d", "\u2060"))
    key = "answer" if draft.arguments is None else "action"
    word, name, choice = draft.words[key], draft.name, rng.randrange(4)
    alike = name.translate(HOMOGLYPHS)
    if choice == 0 and draft.arguments is not None and alike != name:
        draft.name_written = alike
        draft.must_refuse("guessed_name", action(alike, draft.arguments))
        return
    if choice == 1 and draft.arguments is not None:
        draft.name_written = f"{name[:1]}{zero_width}{name[1:]}"
        draft.also.append(action(draft.name_written, draft.arguments))
        draft.beyond()
    elif choice < 3 or draft.language == "zh":
        draft.words[key] = word[:1] + zero_width + word[1:]
    else:
        draft.words[key] = word.replace("A", "А", 1)
    draft.may_refuse()


_EMPTY = ("", " ", "\n\n", "\u200b", "\ufeff", "<|im_end|>", "</s>", "```json\n```", "```\n\n```",
          "<think></think>", "\u3000", "<think>\n\n</think>\n\n")  # fmt: skip


@operator(
    "E1", "nothing", on=frozenset({"react-labels"}), touches="all", alone=True, intent="answer"
)
def empty(draft: Draft) -> None:
    """Blank, invisible, an end token, an empty fence."""
    nothing = draft.rng.choice(_EMPTY)
    draft.edits.append(lambda *_: nothing)
    draft.must_refuse("wrong_call")
    draft.open_ended = False
    draft.prefix_calls = None


_PROSE = (
    "I would call {name} first, and then {other}.", "The {name} tool takes {{city}} as input.",
    "[express parcel]", "Write <tool_call> tags only when needed. No call here.", "See above.",
    "Action is needed before the tide turns.", "{name}", "def {name}():\n    return None",
)  # fmt: skip
_PROSE_ZH = (
    "我会先调用 {name}，然后是 {other}。", "工具 {name} 需要 {{城市}} 作为输入。", "今天渡轮停航。",
    "行动要快，潮水就要退了。", "思考一下再说吧。", "（见上文）", "{name}",
)  # fmt: skip


@operator("E2", "plain prose", on=frozenset({"json"}), touches="all", alone=True, intent="answer")
def prose(draft: Draft) -> None:
    """An answer, or an error, as the loop decides; never a call."""
    name = draft.rng.choice(list(draft.tools))
    options = _PROSE if draft.language == "en" else _PROSE_ZH
    draft.answer = draft.rng.choice(options).format(name=name, other=next(iter(draft.tools)))
    draft.frame = lambda _: Frame("")
    draft.beyond()
    draft.open_ended = False


OPERATORS = (thinking, endless, blanks, look_alikes, empty, prose)
