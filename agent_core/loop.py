"""The ReAct loop, top to bottom in the order it happens."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from threading import Event
from typing import TYPE_CHECKING, TypeAlias

from agent_core.acting import Round
from agent_core.asking import Asking
from agent_core.budget import Budget
from agent_core.catalogue import MORE_TOOLS, choose_tools
from agent_core.errors import ModelError, RetrievalError
from agent_core.events import ParseEnded, ParseStarted, RunStarted, StepEnded, StepStarted, scope
from agent_core.gears import OnText
from agent_core.limits import RepeatGuard, StopReason
from agent_core.messages import (
    Actions,
    FinalAnswer,
    FormatError,
    JsonObject,
    JsonValue,
    Message,
    Observation,
    ParsedReply,
    Reply,
    RunResult,
    Step,
    StepNote,
    Usage,
)
from agent_core.parsing import ReplyScanner
from agent_core.prompts import (
    STOP_STRINGS,
    TEXTS,
    action_message,
    answer_message,
    observation_text,
)
from agent_core.resume import RunState
from agent_core.structured import answer_as_data
from agent_core.task import task_text

if TYPE_CHECKING:
    from agent_core.agent import Agent

_BRIEF_CHARS = 300  # a question as a hint repeats it
_RAW_REPLY_CHARS = 2_000  # of a reply that could not be used, this much stays in the history


OnStep: TypeAlias = Callable[[RunState], None]
"""Gets the state after each step from which the run could be resumed."""


class Run:
    """One run of an agent: its state, and its steps in the order they happen."""

    def __init__(
        self,
        agent: Agent,
        question: str,
        history: Sequence[Message],
        cancel: Event,
        on_step: OnStep | None,
    ) -> None:
        self.agent = agent
        self.question = question
        self.cancel = cancel
        self.on_step = on_step
        self.definitions = agent.executor.definitions
        self.schemas = {name: each.parameters for name, each in self.definitions.items()}
        self.shown: list[str] = []  # tools that the model has been told of
        self.api_tools: list[JsonObject] = []
        self.budget = Budget(agent.limits, agent.clock)
        shown = [each for each in agent.examples if isinstance(each, Message)]
        earlier = [each for each in history if each.role != "system"] or shown
        self.former = next((each for each in history if each.role == "system"), None)
        self.system = agent.system_prompt
        self.messages = [Message("system", self.system), *earlier]
        self.task = len(self.messages)
        self.steps: list[Step] = []
        self.usage = Usage()
        self.guard = RepeatGuard(agent.limits)
        self.format_errors = 0
        self.empty_replies = 0
        self.asking = Asking(agent, self.budget)

    def started_event(self) -> RunStarted:
        agent = self.agent
        return RunStarted(
            agent=agent.name,
            question=self.question,
            model=agent.model.name,
            protocol=agent.protocol,
            language=agent.language,
            tools=self.schemas,
            system=self.system,
            limits=asdict(agent.limits),
        )

    def loop(self) -> RunResult:
        """Run steps until something ends the run."""
        try:
            if len(self.messages) == self.task:  # a resumed run has its tools and its task
                more = choose_tools(self)
                text = task_text(self.agent, self.question)
                self.messages.append(Message("user", f"{text}\n\n{more}" if more else text))
            while True:
                reason = self.take_step()
                if reason is not None:
                    return self.result(reason)
                outcome = self._step(len(self.steps) + 1)
                if isinstance(outcome, FinalAnswer):
                    return self._finish(outcome.text)
                if outcome is not None:
                    return self.result(outcome)
                if self.on_step is not None:
                    self.on_step(RunState.of(self))
        except (ModelError, RetrievalError) as error:
            if self.cancel.is_set():
                return self.result(StopReason.CANCELLED)
            if self.budget.seconds_left() == 0.0:
                return self.result(StopReason.TIME_LIMIT, error=error)
            return self.result(StopReason.MODEL_ERROR, error=error)

    def show_tools(self, names: Iterable[str]) -> None:
        """Note that the model knows these tools; native ones are sent, the new ones last."""
        for name in names:
            if name not in self.shown:
                self.shown.append(name)
                if self.agent.protocol == "native":
                    self.api_tools.append(self.definitions[name].as_api_tool())

    def take_step(self) -> StopReason | None:
        """Take one of the steps that are left, or say why there is none."""
        if self.cancel.is_set() or self.budget.called_off():
            return StopReason.CANCELLED
        return self.budget.take_step()

    def _finish(self, answer: str) -> RunResult:
        """End with the answer; as data, too, where a schema asks for it."""
        if self.agent.answer_schema is None:
            return self.result(StopReason.FINAL_ANSWER, answer=answer)
        return answer_as_data(self, self.agent.answer_schema, answer)

    def result(
        self,
        reason: StopReason,
        *,
        answer: str | None = None,
        data: JsonValue = None,
        error: ModelError | RetrievalError | None = None,
    ) -> RunResult:
        """Put together what there is."""
        return RunResult(
            answer=answer,
            data=data,
            stop_reason=reason,
            steps=tuple(self.steps),
            usage=self.usage + self.budget.aside,
            error=error,
            seconds=self.budget.seconds(),
            messages=tuple(self.messages),
        )

    def _step(self, index: int) -> FinalAnswer | StopReason | None:
        """Ask, parse, decide, execute, record. None means that the run goes on."""
        began = self.agent.clock.monotonic()
        with scope(StepStarted(index)) as step_scope:
            reply, notes = self._ask()
            parsed = self._parse(reply)
            decision = parsed.decision
            asked = Round(self, decision.actions if isinstance(decision, Actions) else (), index)
            try:
                if self.cancel.is_set():  # a reply that the cancellation cut decides nothing
                    outcome: FinalAnswer | StopReason | None = StopReason.CANCELLED
                else:
                    outcome = self._decide(reply, parsed, asked)
            finally:  # a step that Ctrl-C interrupts is part of the partial result
                seconds = self.agent.clock.monotonic() - began
                all_notes = (*notes, *asked.notes)
                step = Step(index, reply, parsed, asked.observations, seconds, all_notes)
                self.steps.append(step)
            step_scope.end(StepEnded(step, asked.keys, asked.repeats))
        return outcome

    def _ask(self) -> tuple[Reply, list[StepNote]]:
        """Call the model with what memory shows of the history; keep count of the tokens."""
        native = self.agent.protocol == "native"
        stop = () if native else STOP_STRINGS
        reply, notes = self.asking.ask(
            self.messages, self.task, tools=self.api_tools, stop=stop, on_text=self._watch_stream()
        )
        self.usage += reply.usage
        return reply, notes

    def _watch_stream(self) -> OnText:
        """Stop reading once an action is complete, or the run is cancelled.

        The first piece is read with the second: it may be the whole reply, and that is parsed.
        """
        if self.agent.protocol == "native":
            return lambda _piece: self.cancel.is_set()
        first: str | None = None
        scanner: ReplyScanner | None = None

        def on_text(piece: str) -> bool:
            nonlocal first, scanner
            if first is None:
                first = piece
                return self.cancel.is_set()
            if scanner is None:
                scanner = ReplyScanner(tools=self.schemas, protocol=self.agent.protocol)
                scanner.feed(first)
            scanner.feed(piece)
            return scanner.complete or self.cancel.is_set()

        return on_text

    def _parse(self, reply: Reply) -> ParsedReply:
        with scope(ParseStarted(reply, self.agent.protocol)) as parse:
            parsed = self.agent.parser.parse(reply, self.schemas)
            schema = self.agent.answer_schema
            if schema is not None and reply.finish_reason != "length":
                parsed = schema.recognised(parsed, self.agent.language)
            parse.end(ParseEnded(parsed))
        return parsed

    def _decide(
        self, reply: Reply, parsed: ParsedReply, asked: Round
    ) -> FinalAnswer | StopReason | None:
        """Follow the decision; append to the history what the model has to see of it."""
        agent, decision = self.agent, parsed.decision
        if isinstance(decision, Actions):
            self.format_errors = self.empty_replies = 0
            return self._act(asked, parsed.thought)
        if isinstance(decision, FinalAnswer) and (decision.labelled or agent.protocol == "native"):
            said = answer_message(
                decision.text, parsed.thought, protocol=agent.protocol, language=agent.language
            )
            self.messages.append(said)
            return decision
        return self._ask_again(reply, decision)

    def _ask_again(self, reply: Reply, decision: FinalAnswer | FormatError) -> StopReason | None:
        """Tell the model what was wrong; end the run when it was so too often in a row."""
        limits, texts = self.agent.limits, TEXTS[self.agent.language]
        if isinstance(decision, FormatError) and decision.code == "empty":
            self.empty_replies += 1
            hint = texts.empty
            if self.agent.protocol == "native":
                hint = texts.empty_native.format(question=_brief(self.question))
            over = self.empty_replies >= limits.max_empty_replies
            reason = StopReason.EMPTY_REPLIES
        else:
            self.format_errors += 1
            hint = texts.unlabelled.format(question=_brief(self.question))
            if isinstance(decision, FormatError):
                hint = decision.hint
            over = self.format_errors >= limits.max_format_errors
            reason = StopReason.FORMAT_ERRORS
        said = reply.text.strip()[:_RAW_REPLY_CHARS] or texts.no_reply
        self.messages += [Message("assistant", said), Message("user", hint)]
        return reason if over else None

    def _act(self, asked: Round, thought: str | None) -> StopReason | None:
        """Run the actions and answer every one of them in the history."""
        agent = self.agent
        said = action_message(
            asked.actions, thought, protocol=agent.protocol, language=agent.language
        )
        try:
            reason = asked.act()
        finally:  # also when Ctrl-C comes while a tool runs: the history stays well-formed
            self._append_round(said, asked.observations)
        for seen in asked.observations:
            if agent.catalogue is not None and seen.tool == MORE_TOOLS and seen.ok:
                self.show_tools(agent.catalogue.described_in(seen.text))
        return reason

    def _append_round(self, said: Message, observations: Sequence[Observation]) -> None:
        self.messages.append(said)
        if self.agent.protocol == "native":
            self.messages += [
                Message("tool", each.text, tool_call_id=each.action_id, name=each.tool)
                for each in observations
            ]
        else:
            text = observation_text([each.text for each in observations], self.agent.language)
            self.messages.append(Message("user", text))


def _brief(question: str) -> str:
    """A question as a hint repeats it: one line, not too long."""
    line = " ".join(question.split())
    return line if len(line) <= _BRIEF_CHARS else line[:_BRIEF_CHARS] + "…"
