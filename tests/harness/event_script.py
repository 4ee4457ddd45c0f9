"""Tells an observer of a run, event by event, without an agent: every fault can be had."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from agent_core import events
from agent_core.errors import AgentError
from agent_core.events import Observer, scope, watching
from agent_core.limits import StopReason
from agent_core.messages import (
    Action,
    Actions,
    Chunk,
    Coercion,
    FinalAnswer,
    FormatError,
    Hit,
    Ignored,
    Message,
    Observation,
    ParsedReply,
    Repair,
    Reply,
    RunResult,
    Step,
    StepNote,
    Timings,
    ToolFailure,
    Usage,
)

TOOLS = {"get_weather": {"type": "object"}, "search": {"type": "object"}}


@dataclass
class PlannedStep:
    """What happens in one step. The last step of a run answers, the others call a tool."""

    text: str = "Thought: look\nAction: get_weather"
    usage: Usage = field(default_factory=lambda: Usage(100, 20))
    timings: Timings = field(default_factory=lambda: Timings(load=0.01, eval=0.5))
    finish_reason: str | None = "stop"
    window: int | None = 8192
    attempts: Sequence[events.AttemptEnded] = (events.AttemptEnded(200, 500),)
    tool: str = "get_weather"
    arguments: dict[str, Any] = field(default_factory=lambda: {"city": "北京"})
    observation: str = "Sunny, 25°C"
    failure: ToolFailure | None = None
    coercions: tuple[Coercion, ...] = ()
    truncated_from: int | None = None
    repairs: tuple[Repair, ...] = ()
    ignored: tuple[Ignored, ...] = ()
    format_error: FormatError | None = None
    notes: tuple[StepNote, ...] = ()
    repeat_of: int | None = None
    hits: Sequence[Hit] = ()
    shown: str | None = None  # what of the hits the prompt of the next step holds
    in_tool: Callable[[], None] = lambda: None
    raises: BaseException | None = None


def hit(identity: str, text: str, score: float = 0.5) -> Hit:
    """A hit of a search."""
    return Hit(Chunk(identity, text, "kb.md", 0, len(text)), score)


def drive(
    observer: Observer,
    steps: Sequence[PlannedStep],
    *,
    stop: StopReason = StopReason.FINAL_ANSWER,
    error: AgentError | None = None,
    agent: str = "weather",
    system: str = "You are helpful.",
    question: str = "天气如何？",
    answer: str = "晴，25°C",
    history: int = 0,
) -> RunResult:
    """Tell the observer of a run of these steps."""
    started = events.RunStarted(
        agent, question, "qwen", "react-json", "zh", TOOLS, system, {"max_steps": 10}
    )
    messages = [Message("system", system), Message("user", question)]
    messages += [Message("user", f"earlier {n}") for n in range(history)]
    done: list[Step] = []
    with watching(observer), scope(started) as run:
        for index, plan in enumerate(steps, start=1):
            last = index == len(steps) and stop is StopReason.FINAL_ANSWER
            done.append(_step(index, plan, messages, final=answer if last else None))
        usage = sum((each.reply.usage for each in done), Usage())
        final = answer if stop is StopReason.FINAL_ANSWER else None
        result = RunResult(final, stop, tuple(done), usage, error)
        run.end(events.RunEnded(result))
    return result


def _step(index: int, plan: PlannedStep, messages: list[Message], *, final: str | None) -> Step:
    with scope(events.StepStarted(index)) as step:
        reply = _ask(plan, messages)
        decision: Any = FinalAnswer(final) if final is not None else None
        action = Action(plan.tool, plan.arguments, id=f"call_{index}")
        decision = plan.format_error or decision or Actions((action,))
        parsed = ParsedReply("look", None, decision, plan.repairs, plan.ignored)
        with scope(events.ParseStarted(reply, "react-json")) as parse:
            parse.end(events.ParseEnded(parsed))
        observations: tuple[Observation, ...] = ()
        if isinstance(decision, Actions):
            observations = (_act(plan, action),)
            messages += [Message("assistant", plan.text)]
            messages += [Message("user", plan.observation if plan.shown is None else plan.shown)]
        done = Step(index, reply, parsed, observations, 0.1, plan.notes)
        acted = isinstance(decision, Actions)
        step.end(
            events.StepEnded(
                done, (f"fp{index}",) if acted else (), (plan.repeat_of,) if acted else ()
            )
        )
    return done


def _ask(plan: PlannedStep, messages: list[Message]) -> Reply:
    call = events.ModelCallStarted(
        "qwen", "ollama", "http://127.0.0.1:11434/api/chat", list(messages), (),
        {"temperature": 0, "seed": 7, "num_predict": 512}, False, plan.window,
    )  # fmt: skip
    with scope(call) as chat:
        for number, attempt in enumerate(plan.attempts, start=1):
            sent = events.AttemptStarted(
                number, "POST", "http://127.0.0.1:11434/api/chat", 900, "sha256:00"
            )
            with scope(sent) as http:
                http.end(attempt)
        if plan.raises is not None:
            raise plan.raises
        reply = Reply(
            plan.text, usage=plan.usage, finish_reason=plan.finish_reason, model="qwen:1.5b",
            timings=plan.timings,
        )  # fmt: skip
        chat.end(events.ModelCallEnded(reply, len(plan.attempts)))
    return reply


def _act(plan: PlannedStep, action: Action) -> Observation:
    with scope(events.ToolStarted(action, "fp")) as tool:
        plan.in_tool()
        if plan.hits:
            with scope(events.RetrievalStarted("kb", "query", 3)) as search:
                with scope(events.EmbeddingStarted("minilm", 1, 5)) as embedding:
                    embedding.end(events.EmbeddingEnded(384))
                search.end(events.RetrievalEnded(plan.hits, "v1"))
        seen = Observation(
            action.id, action.name, plan.observation, plan.failure is None, plan.failure,
            plan.coercions, truncated_from=plan.truncated_from, arguments=plan.arguments,
        )  # fmt: skip
        tool.end(events.ToolEnded(seen))
    return seen
