"""The vocabulary of a run: what is said, what is decided, what comes back.

Everything here is frozen: what has been recorded cannot change afterwards.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from agent_core.errors import AgentError
from agent_core.limits import StopReason

JsonValue = Any  # None | bool | int | float | str | list | dict, as json.loads gives it
JsonObject = dict[str, Any]

Role = Literal["system", "user", "assistant", "tool"]
Protocol = Literal["react-json", "react-labels", "native"]
Language = Literal["en", "zh"]


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call as a server reports it.

    `arguments` is the object the server sent, or the raw text where it sent text (the OpenAI
    route does): the parser decodes it, so that damage is a named repair and never a crash.
    """

    id: str | None
    name: str
    arguments: JsonValue


@dataclass(frozen=True, slots=True)
class Message:
    """One entry of the history, for either API."""

    role: Role
    content: str
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None
    name: str | None = None


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens. None means the server did not say; it is never 0 for "unknown"."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    estimated: bool = False

    @property
    def total(self) -> int:
        """Tokens known so far."""
        return (self.prompt_tokens or 0) + (self.completion_tokens or 0)

    def __add__(self, other: Usage) -> Usage:
        def plus(a: int | None, b: int | None) -> int | None:
            return None if a is None and b is None else (a or 0) + (b or 0)

        return Usage(
            plus(self.prompt_tokens, other.prompt_tokens),
            plus(self.completion_tokens, other.completion_tokens),
            self.estimated or other.estimated,
        )


@dataclass(frozen=True, slots=True)
class Timings:
    """Seconds, as the server reports them (Ollama does) or as the client measured."""

    total: float | None = None
    load: float | None = None
    prompt_eval: float | None = None
    eval: float | None = None
    first_chunk: float | None = None


@dataclass(frozen=True, slots=True)
class Reply:
    """What a model returned.

    Attributes:
        finish_reason: `stop`, `length`, `tool_calls`, `load`, … as the server says; None when
            it does not say.
        cut_by_client: reading stopped early because the decision was complete.
    """

    text: str
    tool_calls: tuple[ToolCall, ...] = ()
    thinking: str | None = None
    usage: Usage = Usage()
    finish_reason: str | None = None
    model: str | None = None
    timings: Timings = Timings()
    cut_by_client: bool = False


@dataclass(frozen=True, slots=True)
class Action:
    """One tool call the model asked for. `id` is the server's, or None in a text protocol."""

    name: str
    arguments: JsonObject
    id: str | None = None
    notation: str = "json"


@dataclass(frozen=True, slots=True)
class Actions:
    """One action, or several where the model made parallel native calls."""

    actions: tuple[Action, ...]


@dataclass(frozen=True, slots=True)
class FinalAnswer:
    """The answer. `labelled` is False for prose that no label marks as an answer."""

    text: str
    labelled: bool = True


FormatErrorCode = Literal[
    "empty",  # nothing visible in the reply
    "no_decision",  # labels, but neither an action nor an answer
    "truncated",  # the reply was cut inside a call, or a native call was cut by length
    "bad_json",  # arguments that are no JSON and cannot be repaired safely
    "bad_arguments",  # JSON, but not an object of arguments (a list, a schema without values)
    "bad_name",  # no tool name, or one that is not a string
    "unknown_tool",  # a name that is not registered
    "ambiguous",  # conflicting duplicates, both `arguments` and `parameters`
    "unsafe",  # code, non-finite numbers, lone surrogates
    "unclosed_thinking",  # the thinking block never ends
    "invented_observation",  # the reply opens with an observation
    "too_large",  # size or depth over the limit
    "bad_answer",  # a structured answer that does not fit its schema
]


@dataclass(frozen=True, slots=True)
class FormatError:
    """Why a reply cannot be used.

    Attributes:
        code: what kind of damage.
        message: for people; may quote the reply.
        hint: for the model, short, in its language, saying what to write instead.
    """

    code: FormatErrorCode
    message: str
    hint: str


@dataclass(frozen=True, slots=True)
class Repair:
    """One thing the parser mended. `where` is a character offset or a JSON path."""

    kind: str
    where: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class Ignored:
    """A part of the reply that was dropped, and why (`kind`), e.g. `observation`."""

    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class ParsedReply:
    """What the parser made of a reply. `reason` is the "because …" inside the thought."""

    thought: str | None
    reason: str | None
    decision: Actions | FinalAnswer | FormatError
    repairs: tuple[Repair, ...] = ()
    ignored: tuple[Ignored, ...] = ()


@dataclass(frozen=True, slots=True)
class Coercion:
    """One argument changed towards its declared type; `path` is a JSON path such as `$.n`."""

    path: str
    before: JsonValue
    after: JsonValue


ToolFailureKind = Literal[
    "unknown_tool",
    "invalid_arguments",
    "timeout",
    "exception",
    "not_approved",
    "repeated",
    "cancelled",
]


@dataclass(frozen=True, slots=True)
class ToolFailure:
    """Why a tool gave no result. `type` is the exception's name, `message` is scrubbed."""

    kind: ToolFailureKind
    type: str
    message: str


@dataclass(frozen=True, slots=True)
class Observation:
    """What came back from one action.

    Attributes:
        text: what the model reads: cleaned and capped.
        ok: the tool ran and returned.
        error: why not, else None.
        coercions: arguments changed towards their declared type.
        dropped: debug keys removed from the result, as JSON paths.
        seconds: time the tool took.
        truncated_from: characters before capping, or None.
        arguments: what the tool was really called with; None when it was not called.
    """

    action_id: str | None
    tool: str
    text: str
    ok: bool = True
    error: ToolFailure | None = None
    coercions: tuple[Coercion, ...] = ()
    dropped: tuple[str, ...] = ()
    seconds: float = 0.0
    truncated_from: int | None = None
    arguments: JsonObject | None = None


NoteKind = Literal[
    "context_truncated",  # the server dropped part of the prompt without saying so
    "output_cut",  # the server stopped at its limit of tokens: the reply is not whole
    "output_swallowed",  # tokens were generated that neither text nor calls show
    "cut_by_client",  # reading stopped early
    "history_trimmed",  # old rounds left the prompt
    "usage_estimated",  # the server gave no counts
    "tool_abandoned",  # a tool past its time runs on as a daemon thread
]


@dataclass(frozen=True, slots=True)
class StepNote:
    """Something about a step that a reader must know."""

    kind: NoteKind
    text: str


@dataclass(frozen=True, slots=True)
class Step:
    """One round of the loop: a reply, what it meant, what its actions gave."""

    index: int
    reply: Reply
    parsed: ParsedReply
    observations: tuple[Observation, ...] = ()
    seconds: float = 0.0
    notes: tuple[StepNote, ...] = ()


@dataclass(frozen=True, slots=True)
class RunResult:
    """How a run ended, with everything that happened until then.

    Attributes:
        answer: the final answer, or None.
        error: for `model_error`, what the model client raised.
        messages: the history as the model would see it next; pass it on as `history`.
        data: the answer as data, where the agent has an `answer_schema`.
    """

    answer: str | None
    stop_reason: StopReason
    steps: tuple[Step, ...] = ()
    usage: Usage = Usage()
    error: AgentError | None = None
    seconds: float = 0.0
    messages: tuple[Message, ...] = ()
    data: JsonValue = None


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of a source. `start` and `end` are code points of the decoded source."""

    id: str
    text: str
    source: str
    start: int
    end: int
    metadata: Mapping[str, JsonValue] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Hit:
    """A chunk that a search found, with its score (higher is better)."""

    chunk: Chunk
    score: float
