"""The session file: a `session:` block, and below it a plain vcrpy cassette.

The block says who asked what of which model and what came of it; the cassette holds the
exchanges. Stock vcrpy loads the file and replays it; a stock cassette loads here and is a file
without the block. `FORMAT_VERSION` counts changes of the block that older readers would
misread; `harness.sessions.migrate` reads the versions before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from agent_core.messages import JsonObject, JsonValue, Language, Protocol, Role, ToolFailureKind
from harness.sessions.exchange import Exchange

FORMAT_VERSION = 2

Api = Literal["ollama", "openai"]
ErrorKind = Literal["refused", "connect_timeout", "timeout", "reset", "cut"]


class _Block(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class AgentSource(_Block):
    """Where the agent comes from: `module:function`, and what the function is given.

    Attributes:
        tools: those of its tools that it keeps; all unless given.
    """

    factory: str
    language: Language = "en"
    protocol: Protocol = "react-json"
    parameters: JsonObject = {}
    tools: list[str] | None = None


class ModelSource(_Block):
    """How the model was reached."""

    api: Api = "ollama"
    name: str
    base_url: str | None = None
    stream: bool = False
    options: JsonObject = {}


class SavedCall(_Block):
    """A tool call inside a saved message."""

    id: str | None = None
    name: str
    arguments: JsonValue = None


class SavedMessage(_Block):
    """A message of the history that a session began with."""

    role: Role
    content: str
    tool_calls: list[SavedCall] = []
    tool_call_id: str | None = None
    name: str | None = None


class Turn(_Block):
    """One question. Each turn goes on from the one before; only the first has a `history`."""

    question: str
    history: list[SavedMessage] = []


class Acceptance(_Block):
    """A change of the agent that was taken over offline: the model was not asked again."""

    at: str
    causes: list[str]


class Provenance(_Block):
    """Where the recording comes from.

    Attributes:
        accepted: what was taken over without asking the model again, the oldest first.
        derived: says what was done to a recording when it is not as the server sent it.
    """

    recorded_at: str | None = None
    agentrig: str | None = None
    server: str | None = None
    model_digest: str | None = None
    derived: str | None = None
    accepted: list[Acceptance] = []


class ToolDefinition(_Block):
    """A tool as the model was told of it."""

    name: str
    description: str = ""
    parameters: JsonObject = {}


class Failure(_Block):
    """Why a tool gave no result."""

    kind: ToolFailureKind
    type: str
    message: str


class TapedCall(_Block):
    """What a tool gave, before cleaning and capping.

    Attributes:
        arguments: as the tool got them: coerced, validated, defaults filled in.
        at, seconds: when it ended, from the start of the session, and how long it ran.
        steps, tokens: what agents inside the tool spent of the run's limits.
    """

    tool: str
    arguments: JsonObject = {}
    value: JsonValue = None
    failure: Failure | None = None
    at: float = 0.0
    seconds: float = 0.0
    steps: int = 0
    tokens: int = 0


class TapedHit(_Block):
    """A passage that a search found."""

    id: str
    text: str
    source: str
    start: int
    end: int
    score: float
    metadata: JsonObject = {}


class TapedSearch(_Block):
    """What the retriever gave."""

    query: str
    top_k: int
    hits: list[TapedHit] = []
    at: float = 0.0


class ErrorTake(_Block):
    """A request that got no complete response.

    Attributes:
        kind: `refused` and `connect_timeout` before anything was sent; `timeout`, `reset` and
            `cut` after `after` bytes of the body (none if there is no `response`).
        request, response: as in the cassette; the response holds what arrived.
    """

    kind: ErrorKind
    after: int = 0
    request: JsonObject
    response: JsonObject | None = None


class Take(_Block):
    """One request as it happened, in the order of sending.

    Attributes:
        exchange: number of its interaction in the cassette, or None when it failed.
        at: when it was sent, in seconds from the start of the session.
        seconds: until the response was read whole, or failed.
        sizes, times: bytes of each chunk as it was read, and seconds after `at`.
        closed: the client stopped reading because it had all it wanted.
        within: number of the taped call or search that sent the request, if any.
    """

    exchange: int | None = None
    error: ErrorTake | None = None
    at: float = 0.0
    seconds: float = 0.0
    sizes: list[int] = []
    times: list[float] = []
    closed: bool = False
    within: int | None = None

    @model_validator(mode="after")
    def _one_outcome(self) -> Take:
        if (self.exchange is None) == (self.error is None):
            raise ValueError("a take has either an `exchange` or an `error`")
        return self


class GoldenAction(_Block):
    """An action the model asked for, with canonical arguments, and what came of it.

    `observation` is a digest of the text the model read, None if the action was never reached.
    """

    tool: str
    arguments: JsonObject = {}
    observation: str | None = None
    ok: bool = True


class GoldenStep(_Block):
    """What one step decided: `actions`, `final_answer`, or the code of a format error."""

    decision: str
    actions: list[GoldenAction] = []


class GoldenTurn(_Block):
    """How one turn went: what a replay has to repeat."""

    steps: list[GoldenStep] = []
    stop_reason: str
    answer: str | None = None
    data: JsonValue = None
    error: str | None = None


class Clocks(_Block):
    """Every reading of the wall clock, in order. Monotonic time is in takes and tape."""

    now: list[str] = []


class Session(_Block):
    """The `session:` block."""

    version: int = FORMAT_VERSION
    agent: AgentSource
    model: ModelSource
    turns: list[Turn] = Field(min_length=1)
    provenance: Provenance = Provenance()
    clock: Clocks = Clocks()
    seed: int = 0
    tools: list[ToolDefinition] = []
    tape: list[TapedCall] = []
    searches: list[TapedSearch] = []
    takes: list[Take] = []
    trajectory: list[GoldenTurn] = []


class Traffic(_Block):
    """The `traffic:` block: what a proxy saw of an agent that is not ours."""

    version: int = FORMAT_VERSION
    provenance: Provenance = Provenance()
    takes: list[Take] = []


@dataclass(frozen=True, slots=True)
class SessionFile:
    """A session with its exchanges; `session` is None for a stock cassette and for traffic."""

    session: Session | None
    exchanges: tuple[Exchange, ...]
    order: tuple[Take, ...] = ()
    traffic: Traffic | None = None

    @property
    def provenance(self) -> Provenance:
        """Where it comes from, as far as it says."""
        block = self.session or self.traffic
        return Provenance() if block is None else block.provenance

    @property
    def takes(self) -> Sequence[Take]:
        """Every request in the order of sending; those of a stock cassette just follow."""
        block = self.session or self.traffic
        known = self.order or (block.takes if block is not None else ())
        return known or [Take(exchange=number) for number in range(len(self.exchanges))]
