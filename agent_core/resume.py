"""A run that is saved after a step and goes on elsewhere as if nothing had happened."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from agent_core.errors import ConfigError
from agent_core.gears import SavedMemory
from agent_core.messages import Actions, JsonValue, Message, Step, Usage
from agent_core.tools import identify

if TYPE_CHECKING:
    from agent_core.loop import Run


class RunState(BaseModel):
    """Everything that a run has to know to go on.

    It holds the conversation as it is, tool results included: keep the file as private as those.

    Example:
        >>> from agent_core.agent import Agent
        >>> from agent_core.models import ScriptedModel
        >>> def look() -> str:
        ...     return "a cat"
        >>> saved = []
        >>> script = ['Action: {"name": "look", "parameters": {}}', "Final Answer: a cat"]
        >>> agent = Agent(ScriptedModel(script), [look])
        >>> agent.run("What is there?", on_step=lambda state: saved.append(state.to_json())).answer
        'a cat'
        >>> elsewhere = Agent(ScriptedModel(script[1:]), [look])
        >>> elsewhere.resume(RunState.from_json(saved[0])).answer
        'a cat'
    """

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)  # most runs save none

    version: Literal[1] = 1
    system: str
    question: str
    shown: tuple[str, ...]
    messages: tuple[Message, ...]
    task: int
    steps: tuple[Step, ...]
    seconds: float
    spent_steps: int
    spent_tokens: int
    aside: Usage
    format_errors: int
    empty_replies: int
    sent: tuple[Message, ...]
    prompt_tokens: int | None
    estimate_ratio: float
    memory: JsonValue = None

    def to_json(self) -> str:
        """The state as JSON, readable in Chinese too."""
        return self.model_dump_json(indent=1)

    @classmethod
    def from_json(cls, text: str) -> RunState:
        """Read what `to_json` wrote.

        Raises:
            ConfigError: it is something else, or of another version.
        """
        try:
            return cls.model_validate_json(text)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            where = ".".join(map(str, first["loc"])) or "the text"
            raise ConfigError(
                f"expected a saved run of version 1: {where}: {first['msg']}"
            ) from None

    @classmethod
    def of(cls, run: Run) -> RunState:
        """The state of a run between two steps."""
        memory, task = run.agent.memory, run.messages[run.task].content
        return cls(
            system=run.agent.system_prompt,
            question=run.question,
            shown=tuple(run.shown),
            messages=tuple(run.messages),
            task=run.task,
            steps=tuple(run.steps),
            seconds=run.budget.seconds(),
            spent_steps=run.budget.steps,
            spent_tokens=run.budget.tokens,
            aside=run.budget.aside,
            format_errors=run.format_errors,
            empty_replies=run.empty_replies,
            sent=tuple(run.asking.sent),
            prompt_tokens=run.asking.prompt_tokens,
            estimate_ratio=run.asking.estimate_ratio,
            memory=memory.saved(task) if isinstance(memory, SavedMemory) else None,
        )

    def restore(self, run: Run) -> None:
        """Put a new run where the saved one was.

        Raises:
            ConfigError: the agent has another system prompt: other tools, or another protocol.
        """
        if run.agent.system_prompt != self.system:
            raise ConfigError(
                "the saved run had another system prompt; resume it with the same tools, protocol, "
                "language, examples and instructions"
            )
        run.messages, run.task, run.steps = list(self.messages), self.task, list(self.steps)
        run.show_tools(self.shown)
        run.format_errors, run.empty_replies = self.format_errors, self.empty_replies
        for step in self.steps:
            run.usage += step.reply.usage
            _judge_again(run, step)
        budget, asking = run.budget, run.asking
        budget.started -= self.seconds
        budget.steps, budget.tokens, budget.aside = self.spent_steps, self.spent_tokens, self.aside
        asking.sent, asking.prompt_tokens = list(self.sent), self.prompt_tokens
        asking.estimate_ratio = self.estimate_ratio
        if self.memory is not None and isinstance(run.agent.memory, SavedMemory):
            run.agent.memory.restore(self.memory)


def _judge_again(run: Run, step: Step) -> None:
    """Count the actions of a step, as when they were asked for."""
    if isinstance(step.parsed.decision, Actions):
        for action in step.parsed.decision.actions:
            run.guard.judge(identify(action, run.definitions.get(action.name)), step.index)
