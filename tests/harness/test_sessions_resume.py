"""A recorded run, saved after any of its steps, goes on elsewhere to the recorded end."""

from __future__ import annotations

from pathlib import Path

from agent_core.agent import Agent
from agent_core.resume import RunState
from harness.demo import gears
from harness.sessions.clocks import ReplayClock
from harness.sessions.format import Session, SessionFile
from harness.sessions.player import Player, replay_session
from harness.sessions.record import Recorded
from harness.sessions.sources import Factory, build_agent, build_model, named_factory
from harness.sessions.tape import call_tape
from harness.sessions.taped import TapedRunner, exchange_runner
from harness.sessions.trajectory import golden_turn
from tests.harness.sessions_support import (
    ASSISTANT,
    WEATHER,
    ollama_reply,
    record_scripted,
    three_steps,
)


def offline(file: SessionFile, factory: Factory) -> tuple[Agent, Session]:
    """The agent of a session on recorded replies and tool results, as a replay builds it."""
    session = file.session
    assert session is not None
    clock = ReplayClock(session.clock.now)
    http = replay_session(Player(file, clock=clock))
    model = build_model(session.model, session=http, clock=clock)
    agent = build_agent(factory, session.agent, model, clock, http)
    tape = call_tape(session.tape)
    executor = exchange_runner(agent.executor, lambda _live: TapedRunner(tape, clock))
    return agent.replace(executor=executor, clock=clock), session


def assert_resumes(done: Recorded, factory: Factory, steps: int) -> None:
    """From the state after each step the run ends as it was recorded."""
    states: list[str] = []
    agent, session = offline(done.file, factory)
    question = session.turns[0].question
    agent.run(question, on_step=lambda state: states.append(state.to_json()))
    assert len(states) == steps
    for state in states:
        elsewhere, _ = offline(done.file, factory)
        result = elsewhere.resume(RunState.from_json(state))
        assert golden_turn(result) == session.trajectory[0]
        assert result.usage == done.results[0].usage


def test_from_every_step(tmp_path: Path) -> None:
    """Requests of what is left are the recorded ones, to the byte."""
    done = three_steps(tmp_path / "s.yaml")
    assert_resumes(done, named_factory(ASSISTANT), steps=2)


def test_with_a_summary_by_the_model(tmp_path: Path) -> None:
    """What was summed up before is not asked for again."""

    def act(number: int) -> str:
        expression = f'{{"expression": "{number} + {number}"}}'
        return f'Action: {{"name": "calculator", "parameters": {expression}}}'

    replies = [act(1), act(2), act(3), "So far: 2, 4.", act(4), "Final Answer: 2, 4, 6, 8"]
    done = record_scripted(
        tmp_path / "s.yaml", *map(ollama_reply, replies), factory=gears.summarising
    )
    assert_resumes(done, gears.summarising, steps=4)


def test_with_an_answer_as_data(tmp_path: Path) -> None:
    """The request for the data follows the answer, wherever the run goes on."""
    data = '{"city": "Lisbon", "temperature": 19, "condition": "sunny"}'
    replies = [WEATHER, "Final Answer: Sunny, 19 degrees.", data]
    done = record_scripted(
        tmp_path / "s.yaml", *map(ollama_reply, replies), factory=gears.weather_data
    )
    assert done.results[0].data is not None
    assert_resumes(done, gears.weather_data, steps=1)
