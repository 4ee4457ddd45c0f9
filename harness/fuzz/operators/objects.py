"""O1-O4 and N1-N5: the object that holds a call, and the notations of model families."""

from __future__ import annotations

import json
from typing import Any

from agent_core.messages import JsonObject
from harness.fuzz.drafts import OBJECT, REACT, Draft, Frame, python_call
from harness.fuzz.jsontext import Raw
from harness.fuzz.operators.operator import operator

_NAME_KEYS = OBJECT - {"react-fence"}


@operator(
    "O1", "arguments or parameters", on=_NAME_KEYS, touches="members", uses="json", plain=True
)
def both_keys(draft: Draft) -> None:
    """Either key, both with the same value, or both with different values."""
    choice = draft.rng.randrange(4)
    if choice < 2:
        draft.args_key = ("parameters", "arguments")[choice]
        return
    other: Any = {"harbour": "elsewhere"}
    draft.members = lambda name, raw: {
        "name": name, "parameters": raw, "arguments": raw if choice == 2 else other,
    }  # fmt: skip
    if choice == 3:
        draft.must_refuse("took_conflict")


def _wrapped(choice: int, name: str, raw: Raw, arguments: JsonObject) -> Any:
    call = {"name": name, "arguments": raw}
    return (
        {"tool_call": call},
        {"function": call},
        {"type": "function", "function": call},
        [call],
        {"tool_calls": [{"type": "function", "function": call}]},
        {name: raw},
        {"action": name, "action_input": raw},
        {"tool": name, "tool_input": raw},
        {"name": name, **arguments},
    )[choice]


@operator("O2", "wrappers", on=frozenset({"react-json", "json", "json-fence", "hermes"}),
          touches="members name quotes value", uses="json")  # fmt: skip
def wrappers(draft: Draft) -> None:
    """The call inside another object or a list, under other keys, or flat."""
    assert draft.arguments is not None
    choices = 8 if not draft.arguments or "name" in draft.arguments else 9
    choice = draft.rng.randrange(choices)
    draft.members = lambda name, raw: _wrapped(choice, name, raw, draft.written)
    draft.may_refuse()


@operator("O3", "wrong types", on=_NAME_KEYS, touches="members name value", uses="json")
def wrong_types(draft: Draft) -> None:
    """A name that is no string, arguments that are no object."""
    names: tuple[Any, ...] = (None, 7, ["find_ferry"], {"is": "find_ferry"}, True)
    values: tuple[Any, ...] = ([1, 2], 7, True, ["x"])
    if draft.rng.randrange(2):
        name = draft.rng.choice(names)
        draft.members = lambda _, raw: {"name": name, "arguments": raw}
    else:
        value = draft.rng.choice(values)
        draft.members = lambda name, _: {"name": name, "arguments": value}
    draft.must_refuse("wrong_call")


@operator("O4", "data that looks like a call", on=REACT | {"json"}, touches="data", intent="answer",
          alone=True)  # fmt: skip
def looks_like_call(draft: Draft) -> None:
    """An object with a name that is no tool: an answer where a label says so, never a call."""
    data = draft.rng.choice((
        {"name": "Tarn", "age": 4}, {"name": "Orla", "parameters": "unknown"}, {"city": "Tern Bay"},
        {"name": "青屿", "arguments": 3}, [{"name": "Tarn"}], {"action": "rest", "hours": 2},
    ))  # fmt: skip
    draft.answer = json.dumps(data, ensure_ascii=False)
    draft.optional = True
    draft.uncounted = draft.notation == "json"


@operator("N1", "Hermes tag damage", on=frozenset({"hermes"}), touches="frame after")
def hermes_tags(draft: Draft) -> None:
    """No closing tag, no opening one, a second opening one, nothing inside."""
    choice = draft.rng.randrange(5)
    opening, closing = "<tool_call>\n", "\n</tool_call>"
    if choice == 4:
        draft.thought = ""
        draft.frame = lambda _: Frame(opening, closing)
        draft.wrap = lambda _: draft.rng.choice(("", " ", "\n"))
        draft.must_refuse("wrong_call")
        return
    frame = (
        Frame(opening), Frame("", closing), Frame(opening, "\n<tool_call>"),
        Frame("<tool_call>", "</tool_call>"),
    )[choice]  # fmt: skip
    draft.frame = lambda _: frame
    if choice == 1:
        draft.thought = ""
    if choice < 3:
        draft.may_refuse()


@operator("N2", "Llama 3 forms", on=frozenset({"llama3"}), touches="frame members json body after")
def llama(draft: Draft) -> None:
    """`parameters`, an end token, a method call; raw code after the tag is never run."""
    assert draft.arguments is not None
    choice = draft.rng.randrange(4)
    if choice == 0:
        draft.args_key = "parameters"
    elif choice == 1:
        draft.after = "<|eom_id|>"
    elif choice == 2:
        call = python_call(draft.name + ".call", draft.arguments)
        draft.wrap = lambda _: call
        draft.may_refuse()
    else:
        code = f"import os\n{draft.name}_result = os.listdir('/')\nprint({draft.name}_result)"
        draft.wrap = lambda _: code
        draft.must_refuse("ran_code")


@operator("N3", "Mistral forms", on=frozenset({"mistral", "mistral-name"}), touches="frame after")
def mistral(draft: Draft) -> None:
    """With and without a blank, with `[ARGS]`; without a call it is none."""
    if not draft.rng.randrange(5):
        nothing = draft.rng.choice(("[TOOL_CALLS] no json here", "[TOOL_CALLS][]", "[TOOL_CALLS]"))
        draft.frame = lambda _: Frame("")
        draft.wrap = lambda _: nothing
        draft.must_refuse("wrong_call")
    elif draft.notation == "mistral":
        head = draft.rng.choice(("[TOOL_CALLS][", "[TOOL_CALLS] [", "[TOOL_CALLS]\n["))
        draft.frame = lambda _: Frame(head, "]")
    else:
        middle = draft.rng.choice(("", "[ARGS]", " "))
        draft.frame = lambda each: Frame(f"[TOOL_CALLS]{each.name_written}{middle}")


@operator("N4", "DeepSeek forms", on=frozenset({"deepseek"}), touches="frame after body")
def deepseek(draft: Draft) -> None:
    """V3 and V3.1, a missing inner token, tokens in ASCII."""
    name = draft.name_written
    old = Frame(
        f"<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>{name}\n```json\n",
        "\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
    )
    new = Frame(
        f"<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>{name}<｜tool▁sep｜>",
        "<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
    )
    choice = draft.rng.randrange(4)
    frame = (old, new, old, draft.rng.choice((old, new)))[choice]
    if choice == 2:
        frame = Frame(frame.head.replace("<｜tool▁call▁begin｜>", ""), "\n```<｜tool▁calls▁end｜>")
    elif choice == 3:
        blank = draft.rng.choice(("_", "▁"))
        frame = Frame(*(part.replace("｜", "|").replace("▁", blank) for part in frame))
    draft.frame = lambda _: frame
    if choice > 1:
        draft.may_refuse()


@operator("N5", "pythonic calls", on=frozenset({"pythonic"}), touches="frame name json body after",
          needs="string identifier", plain=True)  # fmt: skip
def pythonic(draft: Draft) -> None:
    """Negative numbers are fine; unpacking, repeated keywords, bytes, f-strings are not."""
    assert draft.arguments is not None
    choice = draft.rng.randrange(7)
    key, name = draft.key_of("string"), draft.name
    if choice < 3:
        draft.arguments["limit"] = draft.rng.choice((-1.5, -3, 0.25))
        if choice == 1:
            draft.frame = lambda _: Frame("")  # no list round the call
            draft.may_refuse()
        elif choice == 2:
            draft.frame = lambda _: Frame("```python\n[", "]\n```")
            draft.may_refuse()
        return
    text = (
        f"{name}(**{draft.arguments!r})",
        f"{name}({key}='one', {key}='two')",
        f"{name}({key}=b'x')",
        f"{name}({key}=f'{{1+1}}')",
    )[choice - 3]
    draft.wrap = lambda _: text
    also = [draft.outcome] if choice == 3 else []
    draft.must_refuse("took_conflict" if choice == 4 else "ran_code", *also)


OPERATORS = (
    both_keys,
    wrappers,
    wrong_types,
    looks_like_call,
    hermes_tags,
    llama,
    mistral,
    deepseek,
    pythonic,
)
