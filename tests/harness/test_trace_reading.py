"""Traces are read without a server: tree, difference, page, and the commands for them."""

from __future__ import annotations

import html
import io
import json
import re
from collections.abc import Sequence
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from agent_core.errors import ServerError
from agent_core.events import AttemptEnded
from agent_core.limits import StopReason
from agent_core.messages import Coercion, FormatError, Ignored, Repair, ToolFailure
from harness.cli import main
from harness.content import Capture, ContentMode
from harness.observer import RunObserver
from harness.trace.diff import causes, compare, render
from harness.trace.explain import explain
from harness.trace.html import page
from harness.trace.spans import Trace, traces
from harness.trace.tree import print_trace
from tests.harness.agents import Spans
from tests.harness.event_script import PlannedStep, drive, hit


def traced(plans: Sequence[PlannedStep], content: ContentMode = "full", **how: Any) -> Trace:
    """The trace of a run, as it was exported."""
    spans = Spans()
    drive(RunObserver(spans.provider, None, Capture(content)), plans, **how)
    return spans.traces()[0]


def rendered(thing: Any) -> str:
    """What the terminal shows."""
    written = io.StringIO()
    Console(file=written, width=200, highlight=False).print(thing)
    return written.getvalue()


def shown(trace: Trace, **how: Any) -> str:
    """The tree as text."""
    written = io.StringIO()
    print_trace(trace, Console(file=written, width=200, highlight=False), **how)
    return written.getvalue()


def test_a_terminal_of_one_column_gets_no_column_of_letters() -> None:
    """Below some width the lines run over it."""
    written = io.StringIO()
    print_trace(traced(RICH), Console(file=written, width=1, highlight=False))
    assert max(map(len, written.getvalue().splitlines())) > 20


RICH = [
    PlannedStep(
        hits=[hit("c1", "chunk one", 0.9), hit("c2", "chunk two", 0.4)],
        observation="chunk one and chunk two",
        repairs=(Repair("fence", "0", "```json", ""), Repair("comma", "$.a", "1,}", "1}")),
    ),
    PlannedStep(
        coercions=(Coercion("$.days", "3", 3),),
        ignored=(Ignored("observation", "Observation: rain"),),
        failure=ToolFailure("exception", "RuntimeError", "no route"),
    ),
    PlannedStep(),
]


def test_the_tree_shows_time_tokens_repairs_coercions_and_chunks() -> None:
    """All of it, without the texts."""
    said = shown(traced(RICH))
    for fact in ("100→20 tokens", "repaired fence@0, comma@$.a", "coerced $.days:str>int",
                 "c1 0.90, c2 0.40", "✗ execute_tool get_weather", "exception: RuntimeError",
                 "ignored observation", "40 tokens/s", "final_answer · 3 steps"):  # fmt: skip
        assert fact in said
    assert "no route" not in said


def test_the_failed_step_is_expanded() -> None:
    """Its texts are shown; those of the good steps only when asked for."""
    error = ServerError("the server is on fire", status=503, attempts=3)
    plans = [PlannedStep(arguments={"city": "GOOD_STEP"}), PlannedStep(arguments={"city": "BAD"})]
    trace = traced(plans, stop=StopReason.MAX_STEPS, error=error)
    assert "BAD" in shown(trace)
    assert "GOOD_STEP" not in shown(trace)
    assert "GOOD_STEP" in shown(trace, content=True)


def test_texts_of_a_model_cannot_drive_the_terminal() -> None:
    """Escape sequences and markup stay inert."""
    evil = "\x1b[31mred\x07[bold]x[/bold]"
    said = shown(traced([PlannedStep(observation=evil), PlannedStep()]), content=True)
    assert "\x1b" not in said
    assert "\x07" not in said
    assert "[bold]x[/bold]" in said


def test_a_trace_without_its_root_is_shown_as_incomplete() -> None:
    """A process that was killed leaves spans whose parent is missing."""
    whole = traced(RICH)
    lines = [_otlp(span) for span in whole.spans() if span.kind != "invoke_agent"]
    (trace,) = traces(lines)
    assert not trace.complete
    assert "incomplete" in shown(trace)
    assert any("spans are missing" in line for line in explain(trace))


def _otlp(span: Any) -> dict[str, Any]:
    encoded = {
        "traceId": span.trace_id, "spanId": span.span_id, "parentSpanId": span.parent_id,
        "name": span.name, "startTimeUnixNano": str(span.start),
        "endTimeUnixNano": str(span.end), "status": {},
    }  # fmt: skip
    return {"resourceSpans": [{"scopeSpans": [{"spans": [encoded]}]}]}


def test_spans_that_are_each_others_parents_do_not_hang_the_reader() -> None:
    """A file may hold anything."""
    spans = [
        {"traceId": "a" * 32, "spanId": one * 16, "parentSpanId": two * 16, "name": "x"}
        for one, two in ("12", "21", "33")
    ]
    (trace,) = traces([{"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}])
    assert len(trace.spans()) == 3


def test_the_same_run_twice_does_not_differ() -> None:
    """Ids, times and tokens are no difference."""
    difference = compare(traced(RICH).root, traced(RICH).root)
    assert difference.same
    assert causes(difference) == []


def test_the_order_of_siblings_is_no_difference() -> None:
    """Parallel tools end in any order; of those with one name the most alike belong together."""
    twice = PlannedStep(attempts=(AttemptEnded(503, 9, "503", "http_503"), AttemptEnded(200, 500)))
    first, second = traced([*RICH, twice]).root, traced([*RICH, twice]).root
    for span in second.walk():
        span.children.reverse()
    assert compare(first, second).same


@pytest.mark.parametrize(
    ("change", "cause", "detail"),
    [
        ({"system": "Be terse."}, "cause: the system prompt changed", "harness.system.sha256"),
        ({"question": "另一个"}, "cause: the question changed", "harness.question.sha256"),
        ({"at": {"text": "Thought: other"}}, "the same prompt, another reply", "harness.reply"),
        ({"at": {"observation": "Rain"}}, "execute_tool get_weather", "harness.observation"),
        ({"at": {"arguments": {"city": "x"}}}, "execute_tool get_weather", "harness.arguments"),
        ({"at": {"repairs": (Repair("fence", "1", "", ""),)}}, "parse", "fence@1"),
        (
            {"at": {"failure": ToolFailure("exception", "ValueError", "no")}},
            "execute_tool get_weather",
            "no error → failed",
        ),
    ],
)
def test_a_difference_names_its_cause_first(
    change: dict[str, Any], cause: str, detail: str
) -> None:
    """Then the spans that changed, and how."""
    plans = [PlannedStep(), PlannedStep(**change.pop("at", {})), PlannedStep()]
    difference = compare(traced([PlannedStep()] * 3).root, traced(plans, **change).root)
    assert not difference.same
    assert cause in causes(difference)[0]
    assert detail in rendered(render(difference))


def test_added_and_removed_spans_are_marked() -> None:
    """A span of one trace only stands with a plus or a minus."""
    short, long = traced([PlannedStep()] * 2).root, traced([PlannedStep()] * 3).root
    assert "+ step 3" in rendered(render(compare(short, long)))
    assert "- step 3" in rendered(render(compare(long, short)))


class _Page(HTMLParser):
    """What a browser would make of it: tags, attributes, and text."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.names: set[str] = set()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.names |= {name for name, _ in attrs}
        if tag not in {"meta", "link", "br"}:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def read_page(text: str) -> _Page:
    """Parse a page and check that every tag is closed."""
    parsed = _Page()
    parsed.feed(text)
    assert parsed.open == []
    return parsed


EVIL = "</script><script>alert(1)</script><img src=x onerror=alert(1)>\"'><style>*{}</style>"


def test_foreign_text_stays_text_on_the_page(tmp_path: Path) -> None:
    """In every place where the model, a tool, a source or a log may write."""
    plans = [
        PlannedStep(
            text=EVIL, arguments={EVIL: EVIL}, observation=EVIL,
            repairs=(Repair(EVIL, EVIL, EVIL, EVIL),),
            coercions=(Coercion(EVIL, EVIL, EVIL),), ignored=(Ignored(EVIL, EVIL),),
            hits=[hit(EVIL, EVIL)],
        ),
        PlannedStep(),
    ]  # fmt: skip
    trace = traced(plans, agent=EVIL, question=EVIL, answer=EVIL)
    logs = tmp_path / "run.jsonl"
    logs.write_text(json.dumps({"event": EVIL, "trace_id": trace.trace_id, EVIL: EVIL}), "utf-8")
    parsed = read_page(page(trace, logs=logs))
    assert parsed.tags.count("script") == parsed.tags.count("img") == 0
    assert parsed.tags.count("style") == 1
    assert not [name for name in parsed.names if name.startswith("on")]
    assert html.escape(EVIL) in page(trace)


@given(st.text(max_size=60))
@settings(max_examples=12, deadline=None)
def test_any_text_makes_a_page(text: str) -> None:
    """Control characters, surrogates, markup: the page stays well-formed UTF-8."""
    made = page(traced([PlannedStep(text=text, observation=text), PlannedStep()], question=text))
    made.encode("utf-8")
    read_page(made)


def test_the_page_needs_nothing_else() -> None:
    """No script, no address that a browser would fetch, and a policy that forbids it."""
    made = page(traced(RICH))
    assert "default-src 'none'" in made
    assert not re.search(r"""(?:src|href|action)="(?!data:,)""", made)
    assert not re.search(r"@import|url\(", made)


def test_the_page_shows_what_happened() -> None:
    """Thought, action, observation, repairs, chunks, prompt growth."""
    made = page(traced(RICH))
    for fact in ("Waterfall", "Prompt growth", "<del>```json</del>", "chunk two", "北京",
                 "<del>3</del>", "What the model saw", "no route"):  # fmt: skip
        assert fact in made


def test_a_page_without_texts_says_so() -> None:
    """Sizes and digests are still there."""
    made = page(traced(RICH, content="none"))
    assert "This trace holds no texts" in made
    assert "harness.reply.sha256" in made
    assert "北京" not in made


def test_failure_is_said_in_words_and_marks_not_only_in_colour() -> None:
    """For people who see no red."""
    made = page(traced(RICH, stop=StopReason.MAX_STEPS))
    assert "✗ failed" in made
    assert "error: step 3: the run ended with max_steps" in made


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Two traces of a run; the second had to repair a reply."""
    from harness import telemetry

    for plans in ([PlannedStep()] * 2, [PlannedStep(repairs=RICH[0].repairs), PlannedStep()]):
        with telemetry.session(directory=tmp_path, say=lambda _: None) as watch:
            drive(watch.observer, plans)
    return tmp_path


def invoke(directory: Path, command: str, *arguments: object) -> Any:
    """Run `agentrig trace …` on a directory."""
    return CliRunner().invoke(
        main, ["trace", command, *map(str, arguments), "--dir", str(directory)]
    )


def test_list_names_every_trace_newest_first(directory: Path) -> None:
    """JSON has a line for each trace, and the text names them too."""
    lines = invoke(directory, "list", "--json").output.splitlines()
    newest, oldest = map(json.loads, lines)
    assert newest["started"] >= oldest["started"]
    assert newest["stop_reason"] == "final_answer"
    assert newest["agent"] == "weather"
    assert newest["trace_id"] in invoke(directory, "list").output


def test_a_trace_is_named_by_id_position_or_file(directory: Path) -> None:
    """The beginning of an id is enough."""
    newest = json.loads(invoke(directory, "list", "--json").output.splitlines()[0])
    by_id = invoke(directory, "show", newest["trace_id"][:12]).output
    assert by_id == invoke(directory, "show").output == invoke(directory, "show", "last").output
    assert by_id == invoke(directory, "show", newest["file"]).output
    assert by_id != invoke(directory, "show", "last~1").output


@pytest.mark.parametrize("name", ["nothere", "last~9", "last~x"])
def test_a_name_without_a_trace_is_refused(directory: Path, name: str) -> None:
    """In one line, as wrong usage."""
    result = invoke(directory, "show", name)
    assert result.exit_code == 2
    assert name in result.output


def test_without_traces_the_commands_say_where_they_come_from(tmp_path: Path) -> None:
    """Nothing to show is said, not raised."""
    result = invoke(tmp_path, "explain")
    assert result.exit_code == 2
    assert "agentrig run" in result.output


def test_explain_and_diff_on_the_command_line(directory: Path) -> None:
    """The repaired run against the good one."""
    assert "nothing abnormal" in invoke(directory, "explain", "last~1").output
    found = [
        json.loads(line)
        for line in invoke(directory, "explain", "last", "--json").output.splitlines()
    ]
    assert [each["question"] for each in found] == ["repairs"]
    differing = invoke(directory, "diff", "last~1", "last")
    assert differing.exit_code == 1
    assert differing.output.startswith("first difference: parse")
    assert invoke(directory, "diff", "last", "last").exit_code == 0


def test_html_writes_a_file(directory: Path, tmp_path: Path) -> None:
    """The command prints where the page lies."""
    out = tmp_path / "run.html"
    result = invoke(directory, "html", "last", "-o", out)
    assert result.output.strip() == str(out)
    read_page(out.read_text("utf-8"))


def test_a_format_error_is_explained_with_its_message_when_there_is_content() -> None:
    """The code alone, otherwise."""
    plans = [PlannedStep(format_error=FormatError("bad_json", "no } after 北京", "hint"))]
    plans.append(PlannedStep())
    assert any("no } after 北京" in line for line in explain(traced(plans)))
    assert not any("北京" in line for line in explain(traced(plans, content="none")))


@pytest.mark.parametrize("command", ["list", "show", "explain", "diff", "html", "send"])
def test_every_help_has_an_example(command: str) -> None:
    """A command explains itself."""
    said = CliRunner().invoke(main, ["trace", command, "--help"]).output
    assert f"agentrig trace {command}" in said
