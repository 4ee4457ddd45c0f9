"""Reports on suites: shards and their merge, the page, annotations of a workflow."""

from __future__ import annotations

import io
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from harness.faults.catalogue import FAULTS
from harness.faults.report import Row, SweepReport
from harness.faults.show import sweep_annotations
from harness.faults.trial import Trial
from harness.faults.verdicts import VIOLATIONS, Judgement
from harness.sessions import github
from harness.sessions.drift import Cause, Drift
from harness.sessions.lint import Finding
from harness.sessions.report import ReportedShard, SuiteReport, suite_report
from harness.sessions.report_page import report_page
from harness.sessions.session_report import Report
from harness.sessions.show import show_report, show_summary
from harness.sessions.suite import Shard, Unjudged
from tests.harness.command_line import agentrig
from tests.harness.sessions_support import three_steps

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"'&\x1b[31m"


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Five sessions: `b` has other words for a tool, and `e` is no session."""
    folder = tmp_path_factory.mktemp("suite")
    three_steps(folder / "a.yaml")
    text = (folder / "a.yaml").read_text(encoding="utf-8")
    for name in ("b", "c", "d"):
        (folder / f"{name}.yaml").write_text(text, encoding="utf-8")
    other = text.replace("Current weather of", "The weather of")
    (folder / "b.yaml").write_text(other, encoding="utf-8")
    (folder / "e.yaml").write_text("session: 5\n", encoding="utf-8")
    return folder


def printed(suite: Path, folder: Path, of: int) -> list[Path]:
    """The report of each shard, as the command prints it."""
    files = []
    for number in range(1, of + 1):
        path = folder / f"shard-{number}.json"
        done = agentrig("replay", suite, "--shard", f"{number}/{of}", "--json")
        path.write_text(done.stdout, encoding="utf-8")
        files.append(path)
    return files


def sweep_of(session: str) -> SweepReport:
    """A sweep that found one violation and could not read one file."""
    judgement = Judgement("violation", kind="crash", detail="ValueError: 5 %")
    row = Row(session, Trial(0, 1, FAULTS["429"]), judgement, answered=True)
    return SweepReport((row,), {"b.yaml": "no session"}, seed=1)


@given(st.integers(0, 60), st.integers(1, 12), st.randoms(use_true_random=False))
def test_shards_share_out_a_suite(count: int, of: int, random: Any) -> None:
    """Each file is in one shard, shards differ by one file at most, and order does not count."""
    files = [Path(f"cassettes/{number}.yaml") for number in range(count)]
    shards = [Shard(number, of).files(files) for number in range(1, of + 1)]
    assert sorted(path for shard in shards for path in shard) == sorted(files)
    sizes = [len(shard) for shard in shards]
    assert max(sizes) - min(sizes) <= 1
    random.shuffle(files)
    assert [Shard(number, of).files(files) for number in range(1, of + 1)] == shards


@pytest.mark.parametrize("text", ["0/2", "3/2", "1", "1/0", "-1/2", "a/b", "1/2/3", "½/2", ""])
def test_what_is_no_shard_is_wrong_usage(suite: Path, text: str) -> None:
    """The words say what was expected."""
    done = agentrig("replay", suite, "--shard", text)
    assert done.exit_code == 2
    assert "i/n with 1 <= i <= n" in done.output


def test_merged_shards_are_the_whole_suite(suite: Path, tmp_path: Path) -> None:
    """The same verdicts as without shards, failures and files in error included."""
    whole = json.loads(agentrig("replay", suite, "--json").stdout)
    page = tmp_path / "suite.html"
    done = agentrig("report", "merge", *printed(suite, tmp_path, 3), "--json", "--html", page)
    assert done.exit_code == 1
    told = json.loads(done.stdout)
    for each in (*whole["sessions"], *told["sessions"]):
        del each["seconds"]
    assert told == whole
    assert [each["session"] for each in told["sessions"] if not each["ok"]] == ["b"]
    assert "description of tool" in page.read_text(encoding="utf-8")
    done = agentrig("report", "merge", *(tmp_path / f"shard-{n}.json" for n in (3, 2, 1)))
    assert "FAILED b" in done.output
    assert "5 sessions, 3 ok, 1 failed, 1 could not be replayed" in done.output


def test_a_green_suite_of_shards_is_exit_0(suite: Path, tmp_path: Path) -> None:
    """More shards than sessions, and a shard with nothing to do, are no failure."""
    files = printed(suite / "a.yaml", tmp_path, 2)
    assert agentrig("report", "merge", *files).exit_code == 0


def test_shards_that_do_not_fit_are_refused(suite: Path, tmp_path: Path) -> None:
    """Missing, double, of another suite, of a whole suite, no report: each in words, exit 2."""
    one, two, three = printed(suite, tmp_path, 3)
    (tmp_path / "twin.json").write_bytes(one.read_bytes())
    (tmp_path / "other").mkdir()
    other = printed(suite / "a.yaml", tmp_path / "other", 3)[2]
    whole = tmp_path / "whole.json"
    whole.write_text(agentrig("replay", suite, "--json").stdout, encoding="utf-8")
    (tmp_path / "no.json").write_text('{"ok": true}', encoding="utf-8")
    for files, words in {
        (one, three): "of 3 shards there is no report of 2",
        (one,): "no report of 2, 3",
        (one, two, three, tmp_path / "twin.json"): "are both shard 1",
        (one, two, other): "shards of different suites",
        (one, two, whole): "report of a whole suite",
        (one, two, tmp_path / "no.json"): "expected a report of `agentrig replay --json`; sessions",
    }.items():
        done = agentrig("report", "merge", *files)
        assert done.exit_code == 2, done.output
        assert words in done.output


class Page(HTMLParser):
    """What a page holds: its elements with their attributes, and its text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data

    def of(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for each, attributes in self.elements if each == tag]


def hostile() -> SuiteReport:
    """A report whose every text is an attack."""
    cause = Cause("description", HOSTILE, "warn", (1,), HOSTILE, HOSTILE, (HOSTILE,))
    report = Report(HOSTILE, False, Drift(1, (cause,)), withheld=(HOSTILE,), path=Path(HOSTILE))
    pages = {Path(HOSTILE): ["javascript:alert(1)", '"><script>.html']}
    return suite_report([report], [Unjudged(Path(HOSTILE), HOSTILE, crashed=True)], traces=pages)


def test_hostile_text_stays_text() -> None:
    """Nothing that a session, a file name or a sweep says becomes an element or a request."""
    row = dict.fromkeys(("session", "operator", "verdict", "detail", "means"), HOSTILE)
    sweep = {"rows": [row], "violations": [row], "errors": {HOSTILE: HOSTILE}, "seed": HOSTILE,
             "trials": HOSTILE, "formula": HOSTILE, "recovered": 1, "counted": 2}  # fmt: skip
    page = Page(report_page(hostile(), sweep))
    tags = {tag for tag, _ in page.elements}
    assert not tags & {"script", "img", "iframe", "object", "form", "base"}
    assert not any(name.startswith("on") for _, attributes in page.elements for name in attributes)
    assert page.text.count("<script>alert(1)</script>") >= 8
    assert "\x1b" not in page.text
    hrefs = [each["href"] or "" for each in (*page.of("a"), *page.of("link"))]
    assert not [each for each in hrefs if each.startswith("javascript:")]
    (policy,) = [each for each in page.of("meta") if "http-equiv" in each]
    assert "default-src 'none'" in str(policy["content"])


def test_hostile_text_does_not_steer_the_terminal(tmp_path: Path) -> None:
    """Nor does what a merged report says."""
    report = hostile().model_copy(update={"shard": ReportedShard(number=1, of=1, suite="x")})
    (tmp_path / "one.json").write_text(json.dumps(report.as_json()), encoding="utf-8")
    done = agentrig("report", "merge", tmp_path / "one.json")
    assert done.exit_code == 1
    assert "onerror" in done.output
    assert "\x1b" not in done.output


def test_a_name_of_several_lines_stays_on_its_line(tmp_path: Path) -> None:
    """A tool of a stranger's session is called like a line of ours: it passes for none."""
    name = "x`\n2 sessions, 2 ok in 0.00 s\n    warn: `y"
    cause = Cause("description", f"description of tool `{name}`", "warn", (1,), "a\nb", "c")
    out = io.StringIO()
    report = Report("s", ok=False, drift=Drift(1, (cause,)), withheld=(cause.part,))
    show_report(Console(file=out, width=1_000), report)
    show_summary(Console(file=out, width=1_000), [report], 0)
    lines = out.getvalue().splitlines()
    assert [each.strip()[:6] for each in lines] == [
        "FAILED", "1 of 1", "nothin", "warn: ", "- a", "- b", "+ c", "1 sess"
    ]  # fmt: skip
    assert sum("2 sessions, 2 ok" in each for each in lines) == 3


def test_the_page_shows_the_suite(suite: Path, tmp_path: Path) -> None:
    """Verdicts, the cause with what was and is, the sweep; each link leads to a page that is there."""
    swept = tmp_path / "sweep.json"
    swept.write_text(json.dumps(sweep_of("a").as_json()), encoding="utf-8")
    target = tmp_path / "out.html"
    done = agentrig("replay", suite, "--html", target, "--sweep", swept)
    assert done.exit_code == 1
    page = Page(target.read_text(encoding="utf-8"))
    for words in ("✗ red", "5 sessions, 3 ok, 1 failed, 1 could not be replayed", "✗ failed",
                  "! warn description of tool `get_weather`", "Sweep of faults", "a, step 2",
                  "expected `session:` to hold a block"):  # fmt: skip
        assert words in page.text
    assert len(page.of("del")) == len(page.of("ins")) == 2  # once by cause, once by session
    links = [str(each["href"]) for each in page.of("a")]
    assert len(links) == 4
    for link in links:
        assert "Waterfall" in (tmp_path / link).read_text(encoding="utf-8")
    assert [each for each in page.of("meta") if each.get("name") == "viewport"]


def test_a_sweep_needs_its_page_and_its_json(suite: Path, tmp_path: Path) -> None:
    """Told before anything is replayed."""
    no_sweep = tmp_path / "x.json"
    no_sweep.write_text("[]", encoding="utf-8")
    assert agentrig("replay", suite, "--sweep", no_sweep).exit_code == 2
    done = agentrig("replay", suite, "--sweep", no_sweep, "--html", tmp_path / "x.html")
    assert done.exit_code == 2
    assert "expected what `sweep --json` prints" in done.output


COMMAND = re.compile(
    r"::(?P<level>error|warning|notice) (?:file=(?P<file>[^,:]*),)?title=(?P<title>[^,:]*)"
    r"::(?P<words>.*)"
)


def unescaped(text: str) -> str:
    for code, sign in (("%3A", ":"), ("%2C", ","), ("%0A", "\n"), ("%0D", "\r"), ("%25", "%")):
        text = text.replace(code, sign)
    return text


@given(words=st.text(), path=st.text(st.characters(exclude_characters="/\\"), min_size=1),
       title=st.text())  # fmt: skip
def test_an_annotation_is_one_command_that_says_what_it_was_given(
    words: str, path: str, title: str
) -> None:
    """Whatever is in it: line breaks, percent signs, colons, commas, other commands."""
    line = github.annotation("error", words, path=path, title=title)
    found = COMMAND.fullmatch(line)
    assert found is not None
    assert "\n" not in line
    assert unescaped(found["title"]) == title
    assert unescaped(found["file"]) == Path(path).as_posix()
    assert unescaped(found["words"]) == words


def test_annotations_of_a_replay(suite: Path) -> None:
    """What a session failed for is an error at its file; in JSON mode they keep off the output."""
    done = agentrig("replay", suite, "--annotations", "github", "--json")
    json.loads(done.stdout)
    found = [COMMAND.fullmatch(line) for line in done.stderr.splitlines()]
    assert [(each["level"], Path(each["file"]).name) for each in found if each] == [
        ("error", "b.yaml"), ("error", "e.yaml"),
    ]  # fmt: skip
    assert found[0]
    assert "%0A- The weather of one city" in found[0]["words"]
    warned = agentrig("replay", suite / "b.yaml", "--annotations", "github", "--fail-on", "fail")
    assert warned.exit_code == 0
    assert "\n::warning file=" in warned.output


def test_annotations_of_lint(suite: Path) -> None:
    """Each finding at its file, as bad as it is."""
    done = agentrig("lint", suite / "e.yaml", "--annotations", "github")
    assert "::error file=" in done.output
    found = [
        Finding(Path("a.yaml"), rule, "reply 1", "50 %\nx") for rule in ("stale", "unknown-origin")
    ]
    assert list(github.of_lint(found)) == [
        "::warning file=a.yaml,title=lint stale::reply 1: 50 %25%0Ax",
        "::notice file=a.yaml,title=lint unknown-origin::reply 1: 50 %25%0Ax",
    ]


def test_annotations_of_a_sweep(tmp_path: Path) -> None:
    """A violation stands at the session it was found in; what could not be swept at its file."""
    report = sweep_of("a")
    assert list(sweep_annotations(report, [Path("in/a.yaml")])) == [
        "::error file=in/a.yaml,title=sweep violation::step 2, 429: "
        f"{VIOLATIONS['crash']}%0AValueError: 5 %25",
        "::error file=b.yaml,title=not swept::no session",
    ]
    (tmp_path / "b.yaml").write_text("session: 5\n", encoding="utf-8")
    done = agentrig("sweep", tmp_path / "b.yaml", "--annotations", "github", "--workers", "1")
    assert "title=not swept::" in done.output
