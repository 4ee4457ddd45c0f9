"""Drift by cause: the differences of all requests, grouped, roots told from consequences.

Forty requests that repeat one changed sentence differ for one reason; the report names it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from agent_core.messages import JsonObject, Observation
from harness.plain import counted
from harness.sessions.differences import (
    LANGUAGE,
    Difference,
    Kind,
    compare_parts,
    compare_tools,
    tools_moved,
)
from harness.sessions.format import ToolDefinition
from harness.sessions.parts import parts_of
from harness.sessions.player import Player
from harness.sessions.styles import other_script
from harness.sessions.volatile import mask_of

Severity = Literal["ignorable", "volatile", "warn", "fail"]

SEVERITY: dict[Kind, Severity] = {
    "description": "warn",  # the words the model reads: answers may change
    "system": "warn",
    "tool_text": "warn",
    "order": "warn",
    "tool": "warn",
    "schema": "warn",
    "message": "fail",  # the conversation is another one
    "history": "fail",
    "style": "fail",  # every message is spelled in another way
    "option": "fail",  # the model is asked in another way
    "model": "fail",
    "url": "fail",
    "body": "fail",
    "protocol": "fail",  # a request too many, too few, or out of its turn
}
"""How bad a difference is by what it is in.

Below these are two that depend on the difference itself: `ignorable` (the same value spelled in
other bytes) and `volatile` (only times, ids and the like differ).
"""

_TRANSLATED = frozenset({"description", "schema", "system", "user message"})
_RANK: dict[Severity, int] = {"ignorable": 0, "volatile": 1, "warn": 2, "fail": 3}


@dataclass(frozen=True, slots=True)
class Cause:
    """One reason for differences.

    Attributes:
        part: what changed, in words.
        requests: numbers of the requests it is seen in, from 1.
        before, after: what was and what is, at its first place.
        consequences: other parts that differ only because of this.
        mask: for a volatile one, an expression that would hide it.
    """

    kind: Kind
    part: str
    severity: Severity
    requests: tuple[int, ...]
    before: str | None = None
    after: str | None = None
    consequences: tuple[str, ...] = ()
    mask: str | None = None

    def as_json(self) -> JsonObject:
        """For `--json`."""
        return {
            "part": self.part,
            "kind": self.kind,
            "severity": self.severity,
            "requests": list(self.requests),
            "before": self.before,
            "after": self.after,
            "consequences": list(self.consequences),
            "mask": self.mask,
        }


@dataclass(frozen=True, slots=True)
class Drift:
    """What changed between a recording and its replay.

    Attributes:
        total: requests that were sent.
        causes: the reasons, worst first.
    """

    total: int
    causes: tuple[Cause, ...] = ()

    @property
    def severity(self) -> Severity:
        """The worst there is."""
        worst: Severity = "ignorable"
        for cause in self.causes:
            worst = max(worst, cause.severity, key=_RANK.__getitem__)
        return worst

    def reaches(self, level: Severity) -> bool:
        """Whether anything is at least this bad."""
        return any(_RANK[cause.severity] >= _RANK[level] for cause in self.causes)

    def in_words(self) -> list[str]:
        """A sentence for the whole, or for each cause where there are several."""
        shown = [cause for cause in self.causes if cause.severity != "ignorable"]
        if not shown:
            return []
        if len(shown) == 1:
            return [self.sentence(shown[0], "for one reason: ")]
        touched = {number for cause in shown for number in cause.requests}
        head = f"{self._of(touched)} for {len(shown)} reasons:"
        return [head, *(f"  {self.sentence(cause)}" for cause in shown)]

    def sentence(self, cause: Cause, why: str = "") -> str:
        """A cause in words: what changed and where it is seen."""
        also = f" (and with it: {', '.join(cause.consequences)})" if cause.consequences else ""
        if not cause.requests:
            return f"not seen in any request: {cause.part}{also}"
        if cause.kind == "protocol":
            return f"{cause.part}{also}"
        if not why:
            seen = f"{len(cause.requests)} of {counted(self.total, 'step')}"
            return f"{cause.part}: {seen}{also}"
        return f"{self._of(cause.requests)} {why}{cause.part}{also}"

    def _of(self, requests: Collection[int]) -> str:
        verb = "differs" if len(requests) == 1 else "differ"
        return f"{len(requests)} of {counted(self.total, 'step')} {verb}"


@dataclass
class _Group:
    first: Difference
    requests: list[int] = field(default_factory=list)
    consequences: dict[str, None] = field(default_factory=dict)


def drift_of(
    player: Player,
    *,
    recorded_tools: Sequence[ToolDefinition] = (),
    tools: Sequence[ToolDefinition] | None = None,
    refused: Collection[Observation] = (),
    diverged: bool = False,
) -> Drift:
    """Explain what a replay has shown.

    Args:
        recorded_tools: the definitions when it was recorded.
        tools: the definitions now; None when they are not known.
        refused: observations of now, of calls that were not run as recorded.
        diverged: the run left its way, so that requests too many or too few are no news.
    """
    roots = compare_tools(recorded_tools, tools) if tools is not None else []
    groups = {_key(root): _Group(root) for root in roots}
    known = (*recorded_tools, *(tools or ()))
    for number, served in enumerate(player.served, start=1):
        if served.sent is None or served.number is None:
            continue
        old, new = parts_of(player.request(served.number)), parts_of(served.sent)
        found = compare_parts(old, new, known)
        if tools_moved(found):  # what changed in a tool is seen wherever the tool stands
            found += roots
        for difference in found:
            _file(groups, _by_schema(difference, refused), number)
    causes = [_cause(group) for group in _without_translations([*groups.values()])]
    causes += _respelled(player)
    causes += [] if diverged else _protocol(player)
    causes.sort(key=lambda cause: -_RANK[cause.severity])
    return Drift(len(player.served), tuple(causes))


def _by_schema(difference: Difference, refused: Collection[Observation]) -> Difference:
    """The difference, with its tool where it is that a call was not run as it was recorded."""
    if difference.kind != "message" or difference.part != "observation":
        return difference
    after = difference.after or ""
    return replace(difference, tool=next((e.tool for e in refused if e.text in after), None))


def _file(groups: dict[tuple[str, bool], _Group], difference: Difference, number: int) -> None:
    """Put a difference under its cause: the changes that it only repeats, or itself."""
    under = [each for each in groups.values() if _repeats(difference, each.first)]
    for group in under:
        if group.first.part != difference.part:
            group.consequences.setdefault(difference.part)
    if not under:
        if difference.kind == "tool_text":  # the tool is the same: the prompt says it otherwise
            difference = replace(difference, kind="system", part="system text", tool=None)
        under = [groups.setdefault(_key(difference), _Group(difference))]
    for group in under:
        if number not in group.requests[-1:]:
            group.requests.append(number)


def _repeats(difference: Difference, root: Difference) -> bool:
    """Whether a difference follows from another: a tool's text, a message that quotes one."""
    if difference is root:
        return True
    if difference.kind == "tool_text":
        return root.tool == difference.tool
    if difference.kind == "message" and difference.tool is not None and root.kind == "schema":
        return root.tool == difference.tool
    if difference.kind != "message" or root.kind != "message" or root.part == difference.part:
        return False
    was, now = root.before or "", root.after or ""
    return bool(was) and (difference.before or "").replace(was, now) == difference.after


def _without_translations(groups: list[_Group]) -> list[_Group]:
    """Put texts that are Chinese on one side only under the change of language, if there is one."""
    language = next((each for each in groups if each.first.part == LANGUAGE), None)
    if language is None:
        return groups
    kept = []
    for group in groups:
        first = group.first
        translated = {first.kind, first.part} & _TRANSLATED
        if translated and other_script(first.before or "", first.after or ""):
            language.consequences |= {first.part: None, **group.consequences}
        else:
            kept.append(group)
    return kept


def _key(difference: Difference) -> tuple[str, bool]:
    return difference.part, mask_of(difference.before, difference.after) is not None


def _cause(group: _Group) -> Cause:
    first = group.first
    mask = mask_of(first.before, first.after)
    return Cause(
        kind=first.kind,
        part=first.part,
        severity=SEVERITY[first.kind] if mask is None else "volatile",
        requests=tuple(group.requests),
        before=first.before,
        after=first.after,
        consequences=tuple(group.consequences),
        mask=mask,
    )


def _respelled(player: Player) -> Iterable[Cause]:
    requests = tuple(n for n, each in enumerate(player.served, start=1) if each.respelled)
    if requests:
        part = "spelling of the JSON (spaces, order of keys, empty defaults)"
        yield Cause("body", part, "ignorable", requests)


def _protocol(player: Player) -> Iterable[Cause]:
    """Requests too many, too few, or out of their turn."""
    extra = [n for n, each in enumerate(player.served, start=1) if each.number is None]
    if extra:
        part = f"request {extra[0]} is one more than was recorded"
        yield Cause("protocol", part, "fail", tuple(extra))
    early = [
        (n, each) for n, each in enumerate(player.served, start=1)
        if each.number is not None and each.expected is not None and each.number > each.expected
        and not _together(player, each.number, each.expected)
    ]  # fmt: skip
    if early:
        number, served = early[0]
        assert served.number is not None
        assert served.expected is not None
        part = (
            f"request {number} is the recorded request {served.number + 1}, "
            f"before request {served.expected + 1}"
        )
        yield Cause("protocol", part, "fail", tuple(n for n, _ in early))
    unused = player.unused
    if unused:
        verb = "was" if len(unused) == 1 else "were"
        part = (
            f"{counted(len(unused), 'recorded request')} {verb} not sent, "
            f"the first is request {unused[0] + 1}"
        )
        yield Cause("protocol", part, "fail", tuple(each + 1 for each in unused))


def _together(player: Player, one: int, other: int) -> bool:
    """Whether two requests were under way at the same time when they were recorded."""
    first, second = sorted((player.takes[one], player.takes[other]), key=lambda take: take.at)
    return first.seconds > 0 and second.at < first.at + first.seconds
