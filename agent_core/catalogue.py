"""Many tools, of which a run shows the model those that fit its question."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from copy import copy
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from agent_core.errors import ConfigError
from agent_core.gears import Embedder, Retriever
from agent_core.messages import Chunk, Language, Message
from agent_core.prompts import TEXTS, tool_lines
from agent_core.tools.definition import FunctionDefinition, define
from agent_core.tools.inert import QUOTE

if TYPE_CHECKING:
    from agent_core.loop import Run

MORE_TOOLS = "more_tools"

_MORE = 5  # tools that one call of `more_tools` describes
_WORDS: dict[Language, dict[str, str]] = {
    "en": {
        "description": "Find further tools when those described do not fit.",
        "categories": " There are tools for: {names}.",
        "need": "what the tool should do, in a few words",
        "found": "These tools can be used as well:",
        "nothing": "No tool does this. Try other words, or answer without a tool.",
    },
    "zh": {
        "description": "现有的工具都不合适时，查找更多工具。",
        "categories": "另有以下类别的工具：{names}。",
        "need": "工具应该做什么，几个词即可",
        "found": "还可以使用这些工具：",
        "nothing": "没有这样的工具。请换用其他词语，或不用工具直接回答。",
    },
}


class ToolCatalogue:
    """A catalogue from which each run shows a selection.

    The model sees up to `show` tools: those that fit the question best, then some of each
    category. With `more_tools` it asks for others, whose descriptions come back as an
    observation, so that the system prompt stays as it was. Every tool of the catalogue can be
    called at any time. A catalogue of no more than `show` tools is shown whole.

    Args:
        tools: plain functions or definitions.
        show: how many a run shows.
        embedder: finds tools by meaning; without one, by the words of name and description.
        language: of `more_tools`.
        name: said in traces.

    Example:
        >>> def get_weather(city: str) -> str:
        ...     "Current weather of a city."
        >>> def send_mail(to: str, text: str) -> str:
        ...     "Send an e-mail."
        >>> catalogue = ToolCatalogue([get_weather, send_mail], show=1)
        >>> catalogue.select("How is the weather in Paris?")
        ('get_weather', 'more_tools')
    """

    def __init__(
        self,
        tools: Iterable[Callable[..., Any] | FunctionDefinition],
        *,
        show: int = 12,
        embedder: Embedder | None = None,
        language: Language = "en",
        name: str = "tools",
    ) -> None:
        if show < 1:
            raise ConfigError(f"show must be at least 1 tool, got {show!r}")
        given = [each if isinstance(each, FunctionDefinition) else define(each) for each in tools]
        self.language: Language = language
        self.show = show
        self.is_whole = len(given) <= show
        self.retriever = _retriever(given, embedder, name)
        self._found = {each.name: each for each in given}
        self._in_turn = _in_turn(given)
        self.tools = tuple(given) if self.is_whole else (*given, self._more_tools())

    def select(self, question: str) -> tuple[str, ...]:
        """The names of the tools to show for a question, in the order of the catalogue."""
        if self.is_whole:
            return tuple(self._found)
        fitting = self.fitting(question, self.show)
        others = [name for name in self._in_turn if name not in fitting]
        wanted = {*fitting, *others[: self.show - len(fitting)], MORE_TOOLS}
        return tuple(each.name for each in self.tools if each.name in wanted)

    def fitting(self, need: str, most: int) -> tuple[str, ...]:
        """The names of the tools that a search finds for a need, best first."""
        hits = self.retriever.retrieve(need, most)[:most]
        return tuple(hit.chunk.id for hit in hits if hit.chunk.id in self._found)

    def described_in(self, text: str) -> tuple[str, ...]:
        """The names of the tools that a text describes, e.g. an observation of `more_tools`."""
        lines = [each.removeprefix(QUOTE) for each in text.splitlines()]
        return tuple(
            name for name in self._found if any(each.startswith(f"- {name}:") for each in lines)
        )

    def describe(self, names: Iterable[str]) -> str:
        """Tools as a message describes them; an empty text for none."""
        lines = [tool_lines(self._found[name], TEXTS[self.language]) for name in names]
        return "\n".join([_WORDS[self.language]["found"], *lines]) if lines else ""

    def with_retriever(self, retriever: Retriever) -> ToolCatalogue:
        """The same catalogue with another search for `select`: a tape, for example."""
        changed = copy(self)
        changed.retriever = retriever
        return changed

    def _more_tools(self) -> FunctionDefinition:
        words = _WORDS[self.language]

        def more_tools(need: str) -> str:
            return self.describe(self.fitting(need, _MORE)) or words["nothing"]

        description = words["description"]
        names = dict.fromkeys(each.category for each in self._found.values() if each.category)
        if names:
            description += words["categories"].format(names=", ".join(names))
        need = {"type": "string", "description": words["need"]}
        parameters = {"type": "object", "properties": {"need": need}, "required": ["need"]}
        return FunctionDefinition(MORE_TOOLS, description, parameters, function=more_tools)


def choose_tools(run: Run) -> str:
    """Choose the tools that a run shows; gives what its task has to say of them.

    A conversation keeps the system prompt it began with. What a later question needs beyond it
    is described behind that question.
    """
    agent, catalogue = run.agent, run.agent.catalogue
    if catalogue is None or catalogue.is_whole:
        run.show_tools(run.definitions)
        return ""
    listed = {each.name for each in catalogue.tools}
    always = [name for name in run.definitions if name not in listed]
    if run.former is not None and agent.protocol != "native":
        known = [*always, *catalogue.described_in(run.former.content), MORE_TOOLS]
        if agent.prompt_with(known) == run.former.content:
            run.messages[0] = run.former
            said = "\n".join(each.content for each in run.messages)
            told = [*known, *catalogue.described_in(said)]
            fitting = catalogue.fitting(run.question, catalogue.show)
            new = [name for name in fitting if name not in told]
            run.show_tools([*told, *new])
            return catalogue.describe(new)
    run.show_tools([*always, *catalogue.select(run.question)])
    run.messages[0] = Message("system", agent.prompt_with(run.shown))
    return ""


def _in_turn(tools: Sequence[FunctionDefinition]) -> list[str]:
    """The first tool of each category, then the second of each, and so on."""
    places: Counter[str | None] = Counter()
    ranked = []
    for each in tools:
        ranked.append((places[each.category], each.name))
        places[each.category] += 1
    return [name for _, name in sorted(ranked, key=itemgetter(0))]


def _retriever(
    tools: Sequence[FunctionDefinition], embedder: Embedder | None, name: str
) -> Retriever:
    from agent_core.rag.dense import DenseRetriever  # noqa: PLC0415 - brings numpy
    from agent_core.rag.lexical import LexicalRetriever  # noqa: PLC0415

    chunks = [_chunk(each) for each in tools]
    if embedder is None:
        return LexicalRetriever(chunks, name=name)
    return DenseRetriever(embedder, chunks, name=name)


def _chunk(tool: FunctionDefinition) -> Chunk:
    """What a tool is found by: its name as words, its description, what it takes."""
    properties = tool.parameters.get("properties") or {}
    about = [str(each.get("description", "")) for each in properties.values()]
    text = "\n".join([tool.name, tool.category or "", tool.description, *about])
    return Chunk(tool.name, text, "tools", 0, len(text))
