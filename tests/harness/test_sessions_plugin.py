"""The pytest plugin: session files are tests, and fixtures find them."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from harness.cli import main
from harness.faults import FaultServer
from tests.harness.plugin_support import asked, changed, run_here

pytest_plugins = ["pytester"]


def test_session_files_are_tests(pytester: pytest.Pytester, recorded: Path) -> None:
    """A green one passes and leaves nothing; a changed one fails, and what happened is shown."""
    folder = pytester.mkdir("cassettes")
    shutil.copy(recorded, folder / "good.yaml")
    (folder / "stock.yaml").write_text("interactions: []\n", encoding="utf-8")
    assert run_here(pytester, ".")[0] == {"passed": 1}
    assert not Path(".agentrig").exists()
    text = changed(recorded)
    (folder / "changed.yaml").write_text(text, encoding="utf-8")
    Path("elsewhere.yaml").write_text(text, encoding="utf-8")
    counts, output = run_here(pytester, ".")
    assert counts == {"passed": 1, "failed": 1}
    assert "3 of 3 steps differ for one reason: description of tool `get_weather`" in output
    assert "+ Current weather of one city" in output
    way_on = re.search(r"if this is meant: agentrig (.*)", output)
    assert way_on is not None
    assert "└── step 3" in output
    page = Path(".agentrig/failed/cassettes-changed.yaml-replay.html")
    assert f"page: {page.absolute()}" in output
    shown = page.read_text(encoding="utf-8")
    assert "execute_tool get_weather" in shown
    assert "session changed changed: 3 of 3 steps differ for one reason" in shown
    assert "a replay: its times are its own" in shown
    assert "Traceback" not in output
    assert "replay - SessionChanged: session" in output
    assert shlex.split(way_on[1]) == [
        "replay", "cassettes/changed.yaml", "--accept", "description of tool get_weather"
    ]  # fmt: skip
    assert CliRunner().invoke(main, shlex.split(way_on[1])).exit_code == 0
    assert run_here(pytester, ".")[0] == {"passed": 2}


def test_a_damaged_file_is_a_red_test(pytester: pytest.Pytester, recorded: Path) -> None:
    """A session that was emptied is not skipped without a word; YAML of others is."""
    folder = pytester.mkdir("cassettes")
    shutil.copy(recorded, folder / "good.yaml")
    (folder / "empty.yaml").write_bytes(b"")
    (folder / "zeros.yaml").write_bytes(bytes(4_000))
    (folder / "wide.yaml").write_bytes(recorded.read_text(encoding="utf-8").encode("utf-16"))
    (folder / "foreign.yaml").write_text("- !tag a\n--- {b: 1}\n", encoding="utf-8")
    (folder / "dir.yaml").mkdir()
    counts, output = run_here(pytester, ".")
    assert counts == {"passed": 1, "failed": 3}
    for name in ("empty", "zeros", "wide"):
        assert f"cassettes/{name}.yaml: expected" in output
    assert "Traceback" not in output


AGENTS = """
from harness.demo.agents import assistant


def mine(*args, **kwargs):
    return assistant(*args, **kwargs)
"""

TESTS = """
import pytest
from harness.demo.agents import assistant


def test_by_name(replay):
    report = replay("three")
    assert report.results[0].answer == "It is fine 😀 and the sum is 5."


def test_with_another_agent(replay):
    with pytest.raises(AssertionError, match="diverges at step 2"):
        replay("three", factory=lambda *a, **k: assistant(*a, **k, max_steps=1))


def test_scripted(scripted_model, agent_trace):
    from agent_core.agent import Agent

    agent = agent_trace.watch(Agent(scripted_model("Final Answer: 4", name="s")))
    assert agent.run("2 + 2?").answer == "4"
    assert [span.kind for span in agent_trace.last.spans()][:2] == ["invoke_agent", "harness.step"]


@pytest.mark.agentrig("others", factory="my_agents:mine")
def test_the_marker_names_session_and_agent(replay):
    assert replay().ok


def test_no_session_is_named(replay):
    with pytest.raises(pytest.UsageError, match="no session"):
        replay()


def test_red(replay):
    replay("three")
    raise AssertionError("the test's own")
"""


def test_the_fixtures_and_the_ini_option(pytester: pytest.Pytester, recorded: Path) -> None:
    """`replay` finds sessions by name; `agentrig_allow` lets a session name its own agent."""
    folder = pytester.mkdir("cassettes")
    shutil.copy(recorded, folder / "three.yaml")
    text = recorded.read_text(encoding="utf-8")
    text = text.replace("harness.demo.agents:assistant", "my_agents:mine")
    (folder / "mine.yaml").write_text(text, encoding="utf-8")
    text = text.replace("my_agents:mine", "other_agents:others")
    (folder / "others.yaml").write_text(text, encoding="utf-8")
    pytester.makepyfile(my_agents=AGENTS, test_mine=TESTS)
    pytester.makeini("[pytest]\nagentrig_allow = my_agents\n")
    counts, output = run_here(pytester, ".", "--strict-markers")
    assert counts == {"failed": 2, "passed": 7}, output
    assert "--allow other_agents" in output
    assert "list it in the ini option agentrig_allow" in output
    assert "page: " in output.partition("the test's own")[2]


TOLD = """
import pytest


def test_served(serve_session):
    with serve_session("theirs"):
        pass


def test_damaged(serve_session):
    with serve_session("damaged"):
        pass


def test_strange_fault(serve_session):
    with serve_session("stock", faults=["nonsense"]):
        pass


def test_strange_factory(replay):
    replay("strange")


def test_nothing_to_judge(replay):
    replay("traffic")
"""


def test_what_our_own_code_says_is_told_without_our_own_code(
    pytester: pytest.Pytester, recorded: Path, named: FaultServer
) -> None:
    """A server that is gone, a damaged file, a factory that may not be imported: words only."""
    named.__exit__()
    folder = pytester.mkdir("cassettes")
    (folder / "damaged.yaml").write_bytes(b"")
    (folder / "stock.yaml").write_text("interactions: []\n", encoding="utf-8")
    (folder / "traffic.yaml").write_text("traffic: {}\ninteractions: []\n", encoding="utf-8")
    text = recorded.read_text(encoding="utf-8")
    strange = text.replace("harness.demo.agents:assistant", "others:agent")
    (folder / "strange.yaml").write_text(strange, encoding="utf-8")
    pytester.makepyfile(test_it=TOLD)
    counts, output = run_here(pytester, "test_it.py")
    assert counts == {"failed": 4, "skipped": 1}
    assert "cannot serve damaged.yaml: " in output
    assert "cannot serve stock.yaml: expected a fault as CODE" in output
    assert "list it in the ini option agentrig_allow" in output
    _, more = run_here(pytester, "test_it.py", "--agentrig-record=rewrite", "-k", "served")
    assert f"cannot record theirs.yaml: nothing answers at {named.url}" in more
    _, skipped = run_here(pytester, "test_it.py", "-k", "judge", "-rs")
    assert "not judged: a proxy recorded it" in skipped
    for each in (output, more):
        assert "Error" not in each
        assert "harness/sessions" not in each


def test_the_examples_of_the_documentation_run(
    pytester: pytest.Pytester, named: FaultServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Recorded once against a live server, then without one; another question is told."""
    text = (Path(__file__).parents[2] / "docs" / "pytest.md").read_text(encoding="utf-8")
    for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
        Path(block.partition("\n")[0].removeprefix("# ")).write_text(block, encoding="utf-8")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    counts, output = run_here(pytester, "--agentrig-record=once")
    assert counts == {"passed": 3}, output
    times = asked(named)
    assert run_here(pytester)[0] == {"passed": 4}  # with the session file of the first
    agent = Path("their_agent.py")
    agent.write_text(agent.read_text(encoding="utf-8").replace("2 + 3", "3 + 3"), encoding="utf-8")
    counts, output = run_here(pytester, "test_their_agent.py")
    assert counts == {"failed": 1}
    assert "request 1 comes nearest and differs in: question" in output
    assert "    + 3 + 3? Only the number." in output
    assert asked(named) == times
