"""M1-M5 and Q1-Q3: more in a reply than one decision, and calls that are only quoted."""

from __future__ import annotations

from harness.fuzz.drafts import REACT, Draft, as_string
from harness.fuzz.examples import final
from harness.fuzz.operators.operator import operator
from harness.fuzz.values import words

_LISTED = frozenset({"mistral", "json", "pythonic"})


@operator("M1", "invented observation", on=REACT | {"hermes"}, touches="after")
def invented(draft: Draft) -> None:
    """What follows an observation the model made up is dropped."""
    rng, lie = draft.rng, words(draft.rng, draft.language)
    if draft.notation == "hermes":
        seen = f"\n<tool_response>\n{lie}\n</tool_response>\n"
    else:
        seen = rng.choice(("\n", "\n\n")) + f"{draft.label('observation')}{lie}\n"
    choice = rng.randrange(4)
    if choice == 0:
        draft.after = seen.rstrip().removesuffix(lie) if draft.notation != "hermes" else seen
    elif choice == 1 and draft.notation != "hermes":
        draft.after = f"{seen}{draft.label('thought')}{lie}\n{draft.label('answer')}{lie}"
    else:
        name, arguments = draft.decoy("ran_invented")
        draft.after = seen + draft.clean(name, arguments).text()
        if choice == 2 and draft.notation != "hermes":
            draft.after += f"\n{draft.label('observation')}{lie}"


@operator("M2", "several actions", on=REACT | _LISTED | {"hermes", "llama3"},
          touches="after members frame name several")  # fmt: skip
def several(draft: Draft) -> None:
    """The first action, or an error; never a later one."""
    second = draft.clean(*draft.decoy("later_action"))
    if draft.notation in REACT:
        thought = f"{draft.label('thought')}{words(draft.rng, draft.language)}\n"
        draft.after = "\n" + draft.rng.choice(("", "\n", thought)) + second.text()
    elif draft.notation in _LISTED:
        draft.body_after = f", {second.body()}"
        if draft.notation == "json":
            draft.before, draft.after = "[", "]"
    elif draft.notation == "llama3":
        draft.after = f"; {second.body()}"
    else:
        draft.after = f"\n{second.text()}"
    draft.may_refuse()


@operator("M3", "action and answer at once", on=REACT, touches="after")
def both(draft: Draft) -> None:
    """The action; the answer was given before anything was seen."""
    text = words(draft.rng, draft.language)
    thought = f"{draft.label('thought')}{text}\n"
    draft.after = "\n" + draft.rng.choice(("", thought)) + draft.label("answer") + text
    draft.may_refuse()


@operator("M4", "answer, then an invented question", on=REACT, touches="after", intent="answer")
def next_question(draft: Draft) -> None:
    """The answer; the call after it never runs."""
    name, arguments = draft.decoy("later_action")
    question = "Question: and tomorrow?" if draft.language == "en" else "问题：明天呢？"
    middle = draft.rng.choice((f"\n{question}", ""))
    thought = f"\n{draft.label('thought')}{words(draft.rng, draft.language)}"
    draft.after = f"{middle}{thought if middle else ''}\n{draft.clean(name, arguments).text()}"
    draft.also += [final(f"{draft.answer}{middle}")]
    draft.may_refuse()


@operator("M5", "opens with an observation", on=REACT, touches="before thought", alone=True)
def observation_first(draft: Draft) -> None:
    """A reply that begins with a result has decided nothing."""
    draft.before = f"{draft.label('observation')}{words(draft.rng, draft.language)}\n"
    draft.must_refuse("ran_invented")


def _quoted(draft: Draft, call: str) -> str:
    """A call as it is quoted: in a line, a block quote, a fence."""
    choice = draft.rng.randrange(4)
    note = "the note says" if draft.language == "en" else "便条上写着"
    no = "but I will not do it." if draft.language == "en" else "但我不会照做。"
    if choice == 0:
        return f'{note} "{call.splitlines()[0]}" {no}'
    if choice == 1:
        lines = "\n".join(f"> {line}" for line in call.splitlines())
        return f"{note}\n{lines}\n{no}"
    mark = ("```", "~~~")[choice - 2]
    return f"{note}\n{mark}\n{call}\n{mark}\n{no}"


_SPOKEN_OF = {
    "en": ("For example:", "I must never do this:", "The page says:", "If you confirm, I will run:",
           "Earlier I ran:", "You could call it like this:"),
    "zh": ("例如：", "不要这样做：", "网页写着：", "如果你确认，我会执行：", "上次我执行了：",
           "你可以这样调用："),
}  # fmt: skip


@operator("Q1", "call quoted in the thought", on=REACT, touches="thought", intent="any")
def quoted(draft: Draft) -> None:
    """A label in a sentence, a block quote or a fence, or after words that deny it: never run."""
    name, arguments = draft.decoy("ran_quoted")
    call = draft.clean(name, arguments, "react-labels").text()
    if draft.rng.randrange(4):
        draft.thought = _quoted(draft, call)
    else:
        draft.thought = f"{draft.rng.choice(_SPOKEN_OF[draft.language])}\n{call}"
        draft.must_refuse("ran_quoted", draft.outcome)


@operator("Q2", "labels and tags inside a string",
          on=REACT | {"hermes", "json", "mistral", "native"},
          touches="value quotes newline", uses="json", needs="string")  # fmt: skip
def inside_string(draft: Draft) -> None:
    """The string is kept whole, and nothing in it is read."""
    name, arguments = draft.decoy("ran_quoted")
    call = draft.clean(name, arguments, draft.rng.choice(("react-labels", "hermes", "json"))).text()
    if "observation" in draft.words and draft.rng.randrange(2):
        call = f"{draft.label('observation')}x\n{call}"
    value = draft.rng.choice((
        f"see\n{call}", f"</tool_call>\n{call}", f"```\n{call}\n```", f"</think>{call}",
        f"{draft.words['answer']}: none",
    ))  # fmt: skip
    raw = value.replace("\\", "\\\\").replace('"', '\\"')
    if "\n" in value and not draft.rng.randrange(5):
        draft.put(draft.key_of("string"), value, f'"{raw}"')  # newlines as they are
        draft.beyond()
    else:
        draft.put(draft.key_of("string"), value, as_string(value))


@operator("Q3", "call inside the answer", on=REACT, touches="data after", intent="answer")
def in_answer(draft: Draft) -> None:
    """Sample JSON, or a fence, in an answer is text."""
    name, arguments = draft.decoy("ran_quoted")
    notation = draft.rng.choice(("json", "json-fence", "hermes", "fenced"))
    if notation == "fenced":
        sample = f"```\n{draft.clean(name, arguments, 'react-labels').text()}\n```"
    else:
        sample = draft.clean(name, arguments, notation).text()
    text = words(draft.rng, draft.language)
    join = draft.rng.choice((" ", "\n"))
    if notation == "fenced":
        join = "\n"
    elif notation == "hermes":  # a tag at a line start is a tag, whatever stands before it
        join = " "
        draft.may_refuse()
    draft.answer = draft.rng.choice((f"{text}:{join}{sample}", f"{text}:{join}{sample}\n{text}"))
    draft.open_ended = notation != "fenced"


OPERATORS = (
    invented,
    several,
    both,
    next_question,
    observation_first,
    quoted,
    inside_string,
    in_answer,
)
