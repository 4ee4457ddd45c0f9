"""What the readers of one reply share: its text, the tools, where the pass stands."""

from __future__ import annotations

from agent_core.parsing.notations import CallReader
from agent_core.parsing.outcome import Refusal, RepairLog
from agent_core.parsing.places import Places
from agent_core.parsing.standing import Standing
from agent_core.parsing.toolset import Toolset
from agent_core.parsing.verdicts import Decided, Thinking, Verdicts

_OBSERVED = "<tool_response"

Step = tuple[int, bool] | Decided | None
"""Where to go on and whether a line begins there; a decision; or None for "nothing here"."""


class Reading:
    """One reply while it is read.

    Args:
        text: the reply.
        tools: the registered tools.
        log: where repairs go.
        ended: the server said that the reply is whole.
        cut: the server said that the reply was cut at the token limit.
        native: prose is the answer, so labels in the middle of prose are part of it.
    """

    def __init__(
        self, text: str, tools: Toolset, log: RepairLog, *, ended: bool, cut: bool, native: bool
    ) -> None:
        self.text = text
        self.tools = tools
        self.log = log
        self.ended = ended
        self.native = native
        self.calls = CallReader(text, tools, log, ended=ended)
        self.places = Places(text)
        self.verdicts = Verdicts(text, self.places.again(), ended=ended, cut=cut)
        self.at = Standing(text)
        self._observed = text.find(_OBSERVED)

    def observed(self, pos: int) -> None:
        """Note that an observation, a turn of the user or the answer stands in prose at `pos`."""
        if self._observed < 0 or pos < self._observed:
            self._observed = pos

    def refuse_answered(self, pos: int) -> None:
        """Refuse a call at `pos` that the answer, or what another would say, precedes."""
        for start, stop in self.at.thinking:
            if start <= self._observed < stop:
                self._observed = self.text.find(_OBSERVED, stop)
        if self.at.begin <= self._observed < pos:
            raise Refusal("invented_observation", "a call follows the answer, or what was made up")


def step_of(verdict: Decided | Thinking) -> Step:
    """A decision, or on to the end of the thinking that it turned out to be."""
    return verdict if isinstance(verdict, Decided) else (verdict.pos, False)
