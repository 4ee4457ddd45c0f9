"""What is fuzzed: a parser as a function from a reply and its tools to an outcome."""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from typing import Any

from agent_core.messages import Actions, FinalAnswer, JsonObject, Language, ParsedReply, ToolCall
from agent_core.parsing import ReplyScanner, parse_native, parse_reply
from harness.fuzz.drafts import NOTATIONS
from harness.fuzz.examples import REFUSED, Example, Outcome, Tools, action, final

_OPTIONS = ("finish_reason", "protocol")


class TargetError(ValueError):
    """A target cannot be loaded; the message says why."""


@dataclass(frozen=True)
class Target:
    """A parser to be fuzzed.

    Attributes:
        parse: `(text, tools) -> outcome`; it is also given `finish_reason` and `protocol` if
            it has parameters of these names.
        raises: exceptions that mean "refused". Any other is a finding.
        scan: the same for a reply in pieces, `(pieces, tools) -> outcome`, if it has such a
            border; also given `finish_reason` and `protocol`.
        native: `(call, tools) -> outcome` for a call that the server reported as `name` and
            `arguments` (JSON text), if it reads those.
        notations, languages: what it claims to read; only that is fuzzed.
    """

    parse: Callable[..., Outcome]
    raises: tuple[type[Exception], ...] = ()
    scan: Callable[..., Outcome] | None = None
    native: Callable[..., Outcome] | None = None
    notations: tuple[str, ...] = tuple(sorted(NOTATIONS))
    languages: tuple[Language, ...] = ("en", "zh")
    name: str = ""

    def __post_init__(self) -> None:
        known = {each for each in self.notations if each != "native" or self.native}
        object.__setattr__(self, "notations", tuple(sorted(known)))

    @property
    def told_finish_reason(self) -> bool:
        """Whether it is told how the reply ended."""
        return "finish_reason" in _options(self.parse)

    def read(self, example: Example, text: str | None = None, *, cut: bool = False) -> Outcome:
        """Its outcome for an example, or for another text in the example's place.

        `cut` says that the text is a part: the finish reason is then unknown, or `length`.
        Exceptions in `raises` are the outcome `error`; others pass through.
        """
        known = {"finish_reason": example.finish_reason, "protocol": example.protocol}
        if cut and known["finish_reason"] == "stop":
            known["finish_reason"] = None
        try:
            if example.native is not None and text is None:
                assert self.native is not None
                return self.native(example.native, example.tools, **_chosen(self.native, known))
            given = example.text if text is None else text
            return self.parse(given, example.tools, **_chosen(self.parse, known))
        except self.raises:
            return REFUSED

    def read_pieces(self, example: Example, pieces: Sequence[str]) -> Outcome:
        """Its outcome for an example that arrives in pieces."""
        assert self.scan is not None
        known = {"finish_reason": example.finish_reason, "protocol": example.protocol}
        try:
            return self.scan(pieces, example.tools, **_chosen(self.scan, known))
        except self.raises:
            return REFUSED


@cache
def _options(function: Callable[..., Outcome]) -> frozenset[str]:
    return frozenset(_OPTIONS) & inspect.signature(function).parameters.keys()


def _chosen(function: Callable[..., Outcome], known: dict[str, Any]) -> dict[str, Any]:
    return {key: known[key] for key in _options(function)}


def load_target(spec: str) -> Target:
    """The target that `package.module:name` names.

    The name may be a `Target`, a function that takes `(text, tools)`, or one that takes nothing
    and gives a `Target`.

    Raises:
        TargetError: there is no such thing.
    """
    module_name, colon, name = spec.partition(":")
    if "" not in sys.path:
        sys.path.insert(0, "")  # targets lie where the user stands
    try:
        if not (module_name and colon and name):
            raise TargetError("it has no colon")
        found = getattr(import_module(module_name), name)
        if not isinstance(found, Target):
            found = _made(found)
    except (ImportError, AttributeError, TargetError, TypeError) as error:
        raise TargetError(
            f"expected a target as package.module:function, got {spec!r}: {error}"
        ) from error
    return replace(found, name=spec)


def _made(found: Any) -> Target:
    if not callable(found):
        raise TargetError(f"it is a {type(found).__name__}, not a function")
    needed = [
        each
        for each in inspect.signature(found).parameters.values()
        if each.default is each.empty
        and each.kind in {each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD}
    ]
    if len(needed) == 2:
        return Target(found)
    made = found() if not needed else None
    if isinstance(made, Target):
        return made
    raise TargetError("it takes neither (text, tools) nor nothing to give a Target")


def _outcome(parsed: ParsedReply, protocol: str | None = None) -> Outcome:
    """The decision as the loop takes it: in a text protocol prose without a label is no answer."""
    decision = parsed.decision
    if isinstance(decision, Actions):
        first = decision.actions[0]
        return action(first.name, first.arguments)
    if isinstance(decision, FinalAnswer) and (decision.labelled or protocol in {None, "native"}):
        return final(decision.text)
    return REFUSED


def _parse_ours(
    text: str, tools: Tools, finish_reason: str | None = None, protocol: Any = None
) -> Outcome:
    parsed = parse_reply(text, tools=tools, finish_reason=finish_reason, protocol=protocol)
    return _outcome(parsed, protocol)


def _scan_ours(
    pieces: Sequence[str], tools: Tools, finish_reason: str | None = None, protocol: Any = None
) -> Outcome:
    """As the loop reads: it stops as soon as the decision is complete."""
    scanner = ReplyScanner(tools=tools, protocol=protocol)
    for piece in pieces:
        scanner.feed(piece)
        if scanner.complete:
            return _outcome(scanner.finish(), protocol)
    return _outcome(scanner.finish(finish_reason), protocol)


def _native_ours(call: JsonObject, tools: Tools, finish_reason: str | None = None) -> Outcome:
    asked = ToolCall("call_1", call["name"], call["arguments"])
    return _outcome(parse_native([asked], tools=tools, finish_reason=finish_reason))


ours = Target(_parse_ours, scan=_scan_ours, native=_native_ours)
"""The parser of `agent_core`."""


def from_langchain(parser: Any, loads: Callable[[str], Any] = json.loads) -> Target:
    """A target out of one of LangChain's agent output parsers.

    Their input is a string where the notation is text; `loads` decodes it, and what it cannot
    decode counts as refused.
    """

    def parse(text: str, _: Tools) -> Outcome:
        step = parser.parse(text)
        if not hasattr(step, "tool"):
            return final(step.return_values["output"])
        given = step.tool_input
        arguments = loads(given) if isinstance(given, str) else given
        return action(step.tool, arguments) if isinstance(arguments, dict) else REFUSED

    return Target(parse, raises=(ValueError,), notations=("react-labels",), languages=("en",))


def langchain_react() -> Target:
    """LangChain's `ReActSingleInputOutputParser`, with its own tolerant JSON reader."""
    module = _first("langchain_classic.agents.output_parsers", "langchain.agents.output_parsers")
    read = import_module("langchain_core.utils.json").parse_json_markdown
    return from_langchain(module.ReActSingleInputOutputParser(), read)


def from_llamaindex(parser: Any) -> Target:
    """A target out of LlamaIndex's ReAct output parser."""

    def parse(text: str, _: Tools) -> Outcome:
        step = parser.parse(text)
        if hasattr(step, "action"):
            return action(step.action, step.action_input)
        return final(step.response)

    return Target(parse, raises=(ValueError,), notations=("react-labels",), languages=("en",))


def llamaindex_react() -> Target:
    """LlamaIndex's `ReActOutputParser`."""
    return from_llamaindex(_first("llama_index.core.agent.react.output_parser").ReActOutputParser())


def _first(*names: str) -> Any:
    for name in names:
        try:
            return import_module(name)
        except ImportError:
            continue
    raise TargetError(f"none of {', '.join(names)} is installed; install it beside agentrig")
