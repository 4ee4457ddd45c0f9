"""The agent: a model, its tools, and the gears between them."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import copy
from threading import Event
from typing import TYPE_CHECKING, Any, Self

from agent_core.cancellation import cancelled_by
from agent_core.catalogue import ToolCatalogue
from agent_core.clock import SystemClock
from agent_core.delegation import agent_tool
from agent_core.errors import ConfigError, RetrievalError
from agent_core.events import Observer, RunEnded, scope, watching
from agent_core.gears import (
    REQUIRED,
    ChatModel,
    Clock,
    LongTerm,
    Memory,
    ReplyParser,
    Retriever,
    ToolExecutor,
    check_gear,
)
from agent_core.limits import Limits, StopReason
from agent_core.loop import OnStep, Run
from agent_core.memory import WindowMemory
from agent_core.messages import Language, Message, Protocol, RunResult
from agent_core.parsing import StandardParser
from agent_core.prompts import TEXTS, system_prompt
from agent_core.resume import RunState
from agent_core.structured import AnswerSchema, Schema
from agent_core.tools import FunctionCallExecutor, FunctionDefinition, running_call

if TYPE_CHECKING:
    from agent_core.streaming import StreamEvent


class Agent:
    """A model, its tools and the gears between them.

    Args:
        model: the chat model.
        tools: plain functions or `FunctionDefinition`s; or use `executor`.
        parser: reply to decision; the standard parser of the protocol unless given.
        executor: runs actions; built from `tools` unless given.
        catalogue: many tools, of which each run shows a selection (`agent_core.catalogue`).
        retriever: when given, passages for the question are put before it.
        longterm: what is known from earlier runs is put behind the question, within
            `recall_tokens`, and answered questions are kept (`agent_core.longterm`).
        memory: which part of the history the model sees.
        protocol: `react-json`, `react-labels`, or `native` tool calls.
        language: of prompts, hints and labels.
        examples: worked examples: texts stand in the system prompt (`prompts.worked_example`),
            messages (`prompts.worked_turns`, for native calls) go ahead of a first question.
        instructions: your own text, put at the end of the system prompt.
        answer_schema: a JSON Schema or pydantic model; `RunResult.data` then holds the answer
            as data that fits it.
        observers: who is told what happens (`agent_core.events`).

    Raises:
        ConfigError: a gear does not fit; nothing has run.
    """

    def __init__(
        self,
        model: ChatModel,
        tools: Iterable[Callable[..., Any] | FunctionDefinition] = (),
        *,
        parser: ReplyParser | None = None,
        executor: ToolExecutor | None = None,
        catalogue: ToolCatalogue | None = None,
        retriever: Retriever | None = None,
        memory: Memory | None = None,
        longterm: LongTerm | None = None,
        recall_tokens: int = 400,
        limits: Limits | None = None,
        protocol: Protocol = "react-json",
        language: Language = "en",
        clock: Clock | None = None,
        observers: Sequence[Observer] = (),
        name: str = "agent",
        examples: Sequence[str | Message] = (),
        instructions: str = "",
        answer_schema: Schema | AnswerSchema | None = None,
        top_k: int = 3,
    ) -> None:
        if protocol not in {"react-json", "react-labels", "native"}:
            raise ConfigError(
                f"protocol must be 'react-json', 'react-labels' or 'native', got {protocol!r}"
            )
        if language not in TEXTS:
            raise ConfigError(f"language must be one of {sorted(TEXTS)}, got {language!r}")
        if callable(tools) or isinstance(tools, str | Mapping) or not isinstance(tools, Iterable):
            raise ConfigError(f"tools must be a list of functions, got a {type(tools).__name__}")
        tools = tuple(tools)
        if executor is not None and tools:
            raise ConfigError("give either tools or an executor that has them, not both")
        self.model = model
        self.limits = Limits() if limits is None else limits
        if not isinstance(self.limits, Limits):
            raise ConfigError(f"limits must be Limits(…), got a {type(limits).__name__}")
        if not (catalogue is None or isinstance(catalogue, ToolCatalogue)):
            raise ConfigError(
                f"catalogue must be a ToolCatalogue, got a {type(catalogue).__name__}"
            )
        self.protocol: Protocol = protocol
        self.language: Language = language
        self.parser = StandardParser(protocol, language) if parser is None else parser
        self.catalogue = catalogue
        if executor is None:
            executor = FunctionCallExecutor(
                (*tools, *(catalogue.tools if catalogue else ())),
                language=language,
                timeout=self.limits.tool_timeout,
                max_chars=self.limits.observation_chars,
            )
        self.executor = executor
        self.retriever = retriever
        self.memory = WindowMemory(language=language) if memory is None else memory
        self.longterm = longterm
        self.recall_tokens = recall_tokens
        self.clock = SystemClock() if clock is None else clock
        self.observers = tuple(observers)
        self.name = name
        self.examples = tuple(examples)
        self.instructions = instructions
        self.answer_schema = (
            answer_schema
            if answer_schema is None or isinstance(answer_schema, AnswerSchema)
            else AnswerSchema(answer_schema)
        )
        self.top_k = top_k
        for gear in REQUIRED:
            check_gear(gear, getattr(self, gear))
        if type(top_k) is not int or top_k < 1:
            raise ConfigError(f"top_k must be a positive whole number, got {top_k!r}")

    def replace(self, **changes: Any) -> Self:
        """Give a copy with some gears changed: any argument of the constructor but `tools`.

        The standard gears follow a change of protocol or language. A subclass stays what it is;
        its own constructor is not called again.
        """
        arguments = {"model", *(Agent.__init__.__kwdefaults__ or ())}
        kept = {key: getattr(self, key) for key in arguments - changes.keys()}
        if {"protocol", "language"} & changes.keys() and isinstance(self.parser, StandardParser):
            kept.pop("parser", None)
        if "language" in changes and isinstance(self.executor, FunctionCallExecutor):
            kept["executor"] = self.executor.replace(language=changes["language"])
        twin = copy(self)
        Agent.__init__(twin, **{**kept, **changes})
        return twin

    @property
    def system_prompt(self) -> str:
        """The system prompt with all tools."""
        return self.prompt_with(self.executor.definitions)

    def prompt_with(self, names: Container[str]) -> str:
        """The system prompt with the tools of these names."""
        return system_prompt(
            {name: each for name, each in self.executor.definitions.items() if name in names},
            protocol=self.protocol,
            language=self.language,
            examples=[each for each in self.examples if isinstance(each, str)],
            extra=self.instructions,
        )

    def as_tool(
        self, name: str, description: str, *, timeout: float | None = None
    ) -> FunctionDefinition:
        """Make this agent a tool of another one.

        The outer run's limits hold for it too: its steps, tokens and seconds count for both.
        When it finds no answer, the outer model is told why.

        Args:
            description: what the outer model is told that this agent can do.
            timeout: seconds it may take; what the outer run has left unless given.

        Example:
            >>> from agent_core.models import ScriptedModel
            >>> helper = Agent(ScriptedModel(["Final Answer: 42"]), name="helper")
            >>> ask = 'Action: {"name": "ask", "parameters": {"task": "6 * 7?"}}'
            >>> outer = Agent(
            ...     ScriptedModel([ask, "Final Answer: It is 42."]),
            ...     [helper.as_tool("ask", "Knows numbers.")],
            ... )
            >>> result = outer.run("What is 6 * 7?")
            >>> result.steps[0].observations[0].text, result.answer
            ('42', 'It is 42.')
        """
        return agent_tool(self, name, description, timeout=timeout)

    def run(
        self,
        question: str,
        history: Sequence[Message] = (),
        *,
        cancel: Event | None = None,
        on_step: OnStep | None = None,
    ) -> RunResult:
        """Answer a question.

        Args:
            history: `messages` of an earlier result, to go on with a conversation.
            cancel: set it from anywhere; the run then returns with `cancelled`.
            on_step: gets a `RunState` after each step that is not the last, to save it and
                go on from it with `resume`.

        Returns:
            The result, with every step, whatever happened.

        Raises:
            KeyboardInterrupt: re-raised with the partial result as `partial_result`.
        """
        return self._go(self._new_run(question, history, cancel, on_step))

    def resume(
        self, state: RunState, *, cancel: Event | None = None, on_step: OnStep | None = None
    ) -> RunResult:
        """Go on with a run that was saved by `on_step`, here or in another process.

        Returns:
            The result of the whole run, with the steps from before.

        Raises:
            ConfigError: the agent is not the one that the run was saved from.
            KeyboardInterrupt: as for `run`.
        """
        run = self._new_run(state.question, (), cancel, on_step)
        state.restore(run)
        return self._go(run)

    def _new_run(
        self,
        question: str,
        history: Sequence[Message],
        cancel: Event | None,
        on_step: OnStep | None,
    ) -> Run:
        if not isinstance(question, str):
            raise ConfigError(f"question must be a text, got a {type(question).__name__}")
        for each in (history,) if isinstance(history, RunResult | str) else history:
            if not isinstance(each, Message):
                raise ConfigError(
                    "history must hold Messages, such as `result.messages`, "
                    f"got a {type(each).__name__}"
                )
        call = running_call()  # inside a tool: to give up on it is to give up on this run
        return Run(self, question, history, cancel or (call.cancel if call else Event()), on_step)

    def _go(self, run: Run) -> RunResult:
        try:
            with (
                watching(*self.observers),
                run.budget.in_use(),
                cancelled_by(run.cancel),
                scope(run.started_event()) as end,
            ):
                result = run.loop()
                self._keep(run.question, result)
                end.end(RunEnded(result))
        except KeyboardInterrupt as interrupt:
            interrupt.partial_result = run.result(StopReason.CANCELLED)  # type: ignore[attr-defined]
            raise
        return result

    def _keep(self, question: str, result: RunResult) -> None:
        """Let long-term memory have the conversation; an answer is never lost over it."""
        if self.longterm is not None and result.answer is not None:
            with suppress(RetrievalError):  # its scope has told the observers
                self.longterm.keep_conversation(question, result.answer)

    def stream(
        self, question: str, history: Sequence[Message] = (), *, cancel: Event | None = None
    ) -> Iterator[StreamEvent]:
        """Answer a question and tell what happens meanwhile.

        Yields thoughts, actions, observations, pieces of the answer, and last the result.
        Leaving the loop early cancels the run, and so does setting `cancel`. Pieces arrive
        while the model writes if it streams (`stream=True`).

        Raises:
            Exception: whatever `run` raises.

        Example:
            >>> from agent_core.models import ScriptedModel
            >>> agent = Agent(ScriptedModel(["Thought: easy.\\nFinal Answer: forty-two"]))
            >>> for event in agent.stream("What is 6 * 7?"):
            ...     print(type(event).__name__)
            Thought
            AnswerPiece
            AnswerPiece
            AnswerPiece
            RunResult
        """
        from agent_core.streaming import stream_run  # noqa: PLC0415 - few runs are streamed

        return stream_run(self, question, history, cancel or Event())
