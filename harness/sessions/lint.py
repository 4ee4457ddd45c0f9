"""Lint: what is wrong with recorded files, found without running anything.

`RULES` is the table of severities. Errors are what makes a recording harmful or false; warnings
are what its author should look at.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Literal

from agent_core.messages import JsonObject
from harness.sessions.cassette import load_session
from harness.sessions.conversion import api_of, reply_of
from harness.sessions.errors import SessionError
from harness.sessions.exchange import canonical_key, json_body
from harness.sessions.format import SessionFile
from harness.sessions.lint_replies import reply_findings
from harness.sessions.lint_secrets import secret_findings, write_scrubbed
from harness.sessions.sources import REFERENCE

_CLOCKS_DIFFER = timedelta(days=1)

Level = Literal["error", "warning", "info"]

RULES: Mapping[str, Level] = {
    "unreadable": "error",  # no session file and no cassette
    "secret": "error",  # what looks like a credential, in requests, replies or the block
    "unparsable-reply": "error",  # a reply that is no decision, and was not recorded as such
    "unknown-tool": "error",  # a call of a tool that the model was not told of
    "invalid-arguments": "error",  # arguments that the tool's schema refuses, even coerced
    "length": "warning",  # a reply that was cut at the token limit
    "prompt-not-append-only": "warning",  # a prompt that rewrites the one before: no cache holds
    "context-truncated": "warning",  # the server dropped part of the prompt without a word
    "output-swallowed": "warning",  # tokens were generated that the reply does not show
    "missing-provenance": "warning",  # which model answered, or when, is not said or cannot be
    "stale": "warning",  # recorded longer ago than allowed
    "duplicate": "warning",  # the same exchanges as in another file
    "orphan": "warning",  # recorded, but no step of the trajectory needs it
    "prompt-trimmed": "info",  # older rounds left the prompt, a summary stands in their place
    "unknown-origin": "info",  # a stock cassette: it has no provenance at all
}
"""Rule to severity. A finding of a rule never has another one."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong with one file.

    Attributes:
        where: in words, e.g. "reply 3"; empty for the file as a whole.
        fixable: `fix` mends it.
    """

    path: Path
    rule: str
    where: str
    words: str
    fixable: bool = False

    @property
    def level(self) -> Level:
        """How bad it is."""
        return RULES[self.rule]

    def as_json(self) -> JsonObject:
        """For `--json`."""
        return {
            "path": str(self.path),
            "rule": self.rule,
            "level": self.level,
            "where": self.where,
            "words": self.words,
            "fixable": self.fixable,
        }


def lint(
    paths: Sequence[Path], *, max_age: timedelta | None = None, now: datetime | None = None
) -> list[Finding]:
    """Look at files.

    Args:
        max_age: recordings older than this are stale; None accepts any age.
        now: the time to compare with, the machine's unless given.
    """
    found: list[Finding] = []
    seen: dict[tuple[bytes, ...], Path] = {}
    for path in paths:
        try:
            file = load_session(path)
        except (SessionError, OSError) as error:
            words = str(error).removeprefix(f"{path}: ")
            found.append(Finding(path, "unreadable", "", words))
            continue
        found += lint_session(file, path, max_age=max_age, now=now)
        exchanges = tuple(
            canonical_key(each.request) + each.response.body for each in file.exchanges
        )
        first = seen.setdefault(exchanges, path)
        if exchanges and first != path:
            found.append(Finding(path, "duplicate", "", f"the same exchanges as {first}"))
    return found


def lone_journals(paths: Sequence[Path]) -> Iterator[Finding]:
    """Interrupted recordings in folders that have no session beside them to be told with."""
    folders = (each for each in paths if each.is_dir())
    for path in sorted({each for folder in folders for each in folder.rglob("*.y*ml.journal")}):
        if not path.with_suffix("").exists():
            words = "a recording that has not ended; go on with `record --resume`, or remove it"
            yield Finding(path, "orphan", "", words)


def lint_session(
    file: SessionFile, path: Path, *, max_age: timedelta | None = None, now: datetime | None = None
) -> list[Finding]:
    """Look at one file that is loaded already."""
    found = [Finding(path, "secret", where, words, True) for where, words in secret_findings(file)]
    found += [Finding(path, *each) for each in reply_findings(file)]
    found += [Finding(path, *each) for each in _origin(file, max_age, now or datetime.now(UTC))]
    found += [Finding(path, "orphan", "", words) for words in _orphans(file, path)]
    return found


def fix(path: Path) -> bool:
    """Take the secrets out of a file; whether there were any.

    Nothing else is safe to mend without asking the model again. The file is written anew, so
    that its YAML may be spelled otherwise than before.

    Raises:
        SessionFormatError: no session file.
        OSError: it cannot be written; the old one is untouched.
    """
    file = load_session(path)
    if not list(secret_findings(file)):
        return False
    write_scrubbed(path, file)
    return True


def _origin(
    file: SessionFile, max_age: timedelta | None, now: datetime
) -> Iterator[tuple[str, str, str]]:
    origin = file.provenance
    if file.session is None and file.traffic is None:
        yield "unknown-origin", "", "no provenance: a cassette that another tool recorded"
    else:
        missing = [name for name in _needed(file) if not getattr(origin, name)]
        if missing:
            words = f"no {', '.join(missing)}: record it again with the server at hand"
            yield "missing-provenance", "", words
        for words in _impossible(file, now):
            yield "missing-provenance", "", words
    recorded = _moment(origin.recorded_at) or _made_at(file)
    if max_age is not None and recorded is not None and now - recorded > max_age:
        days = (now - recorded).days
        yield "stale", "", f"recorded {days} days ago, at most {max_age.days} are allowed"


def _needed(file: SessionFile) -> Iterator[str]:
    """What there is to know: a model that never replied has no digest, and `/v1` tells nothing.

    A derived session says what it was made of instead.
    """
    if file.provenance.derived:
        return
    yield "recorded_at"
    answered = [each for each in file.exchanges if reply_of(each.request, each.response)]
    if any(api_of(each.request.url) == "ollama" for each in answered):
        yield from ("server", "model_digest")


def _impossible(file: SessionFile, now: datetime) -> Iterator[str]:
    """What is said of the origin and cannot be so."""
    origin = file.provenance
    dates = [("recorded_at", origin.recorded_at)]
    dates += [(f"accepted[{n}].at", each.at) for n, each in enumerate(origin.accepted)]
    for name, text in dates:
        moment = _moment(text)
        if text and moment is None:
            yield f"{name} is no date: {text!r:.60}"
        elif moment is not None and moment - now > _CLOCKS_DIFFER:
            yield f"{name} lies in the future: {text!r:.60}"
    if file.session is not None and not REFERENCE.fullmatch(file.session.agent.factory):
        yield f"agent.factory is no module:function: {file.session.agent.factory!r:.60}"


def _made_at(file: SessionFile) -> datetime | None:
    """When the first reply was made, as Ollama says in it."""
    for exchange in file.exchanges:
        body = json_body(exchange.response.body.split(b"\n")[0])
        moment = _moment(body.get("created_at")) if isinstance(body, dict) else None
        if moment is not None:
            return moment
    return None


def _moment(text: object) -> datetime | None:
    try:
        moment = datetime.fromisoformat(text) if isinstance(text, str) else None
    except ValueError:
        return None
    return moment.astimezone(UTC) if moment is not None else None


def _orphans(file: SessionFile, path: Path) -> Iterator[str]:
    if path.with_name(f"{path.name}.journal").exists():
        yield "an interrupted recording lies beside it; go on with --resume, or remove its journal"
    session = file.session
    if session is None or not session.trajectory:
        return
    asked: dict[str, int] = {}
    for turn in session.trajectory:
        for step in turn.steps:
            for action in step.actions:
                asked[action.tool] = asked.get(action.tool, 0) + 1
    for number, call in enumerate(session.tape, start=1):
        asked[call.tool] = asked.get(call.tool, 0) - 1
        if asked[call.tool] < 0:
            yield f"taped call {number}, of {call.tool!r}: no step asks for it"
