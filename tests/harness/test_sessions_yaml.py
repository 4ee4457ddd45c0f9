"""Reading YAML from its events: the same data as from the safe loader, and the same refusals."""

from __future__ import annotations

import datetime
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from harness.sessions.cassette import load_session, render_session
from harness.sessions.errors import SessionFormatError
from harness.sessions.yamlevents import MAX_DEPTH, Meanings, NotPlain, read_events
from harness.sessions.yamlfile import dump_yaml, load_yaml

ROOT = Path(__file__).parents[2]
FILES = sorted([*(ROOT / "cassettes").glob("*.yaml"), *(ROOT / "tests/data").rglob("*.yaml")])

LOADERS = [yaml.SafeLoader, *([yaml.CSafeLoader] if yaml.__with_libyaml__ else [])]
MEANINGS = {loader: Meanings(loader("")) for loader in LOADERS}


class TextOfTimes(LOADERS[-1]):  # type: ignore[misc, valid-type]
    """The safe loader, but for times: they stay the text that they are."""


TextOfTimes.add_constructor("tag:yaml.org,2002:timestamp", lambda _, node: node.value)

# What YAML 1.1 takes for something else than text, and what only looks so.
PLAIN = [
    "~", "null", "Null", "nUll", "NULL", "y", "Y", "n", "N", "yes", "Yes", "YES", "yEs", "no",
    "on", "Off", "true", "False", "TRUE", "tRUE", "off", "0", "-0", "+0", "1", "-17", "017",
    "0o17", "08", "0x1F", "0b101", "0b", "0x_", "1_000", "_1", "1__:59", "+_", "-_", "-", "+",
    "190:20:30", "1:60", "-1:30", "20:30.15", ".5", "5.", "1.5", "-1.5", "1e3", "1.0e3",
    "1.0e+3", "1e+3", "1.5E-7", ".inf", "-.INF", "+.Inf", ".nan", ".NaN", ".", "..", "...",
    "-.nan", "1_0.5_0", "+.5", "2026-11-30", "2026-1-3", "2026-13-45", "2026-11-30T15:03:05Z",
    "2026-11-30t15:03:05.25+01:00", "0000-01-01", "2001-12-14_21:59:43", "9999-99-99T99:99:99Z",
    "12:30:45", "1.2.3", "0.1.0", "4a84b9e6", "a", "b:", "<x", "<<", "=", "==", "!x", "!", "&",
    "*", "名", "é", "text", "OK", "name", "tool", "factory", "http://h:1/api/chat?a=b&c=d",
    "a#b", "", "2026-11-30 15:03:05", "2001-12-14 21:59:43.10 -5", "a b", "0.24 x",
]  # fmt: skip
TAGS = [
    *("!", "!!str", "!!int", "!!float", "!!bool", "!!null", "!!binary", "!!timestamp", "!!seq"),
    *("!!map", "!!set", "!!omap", "!!pairs", "!!merge", "!!value", "!x", "!!python/name:os.system"),
]


def exact(value: Any, within: tuple[int, ...] = ()) -> Any:
    """The value with every type spelled out: `1`, `1.0`, `True` and two `nan` are told apart."""
    if id(value) in within:
        return ("itself", within.index(id(value)))
    within = (*within, id(value))
    if isinstance(value, dict):
        return [dict, *((exact(key), exact(each, within)) for key, each in value.items())]
    if isinstance(value, list | tuple):
        return [type(value), *(exact(each, within) for each in value)]
    if isinstance(value, set):
        return [set, sorted(map(repr, value))]
    return type(value), repr(value)


def by_events(text: str, loader: Any) -> Any:
    """What the events give; None where the safe loader is asked."""
    try:
        return exact(read_events(loader(text), MEANINGS[loader])[0])
    except Exception:
        return None


def by_nodes(text: str, loader: Any) -> Any:
    try:
        return exact(yaml.load(text, loader))
    except Exception:
        return "refused"


SCALARS = (
    st.sampled_from(PLAIN)
    | st.text("a中1:-#'\"\n\t .é😀&*", max_size=9)
    | st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.binary(max_size=9)
    | st.dates()
    | st.datetimes(timezones=st.just(datetime.UTC) | st.none())
)
DATA = st.recursive(
    SCALARS,
    lambda inside: (
        st.lists(inside, max_size=4)
        | st.dictionaries(SCALARS, inside, max_size=4)
        | inside.map(lambda shared: [shared, {"again": shared}])
    ),
    max_leaves=12,
)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_recorded_sessions_are_read_from_events_alone(path: Path) -> None:
    """Every session here is as plain as can be, and the same either way."""
    text = path.read_text(encoding="utf-8")
    assert by_events(text, LOADERS[-1]) == by_nodes(text, LOADERS[-1])
    assert load_yaml(text).keys() >= {"session", "interactions"}


@given(DATA, st.sampled_from([None, True, False]), st.sampled_from([None, '"', "'", "|", ">"]))
def test_data_that_was_dumped_is_the_same_from_events(data: Any, flow: Any, style: Any) -> None:
    """Whatever PyYAML writes, in any style, shared parts and bytes included."""
    text = yaml.safe_dump(data, default_flow_style=flow, default_style=style, allow_unicode=True)
    for loader in LOADERS:
        assert by_events(text, loader) == by_nodes(text, loader)


@given(DATA)
def test_data_that_we_dumped_is_the_same_from_events(data: Any) -> None:
    """And what this project writes."""
    text = dump_yaml(data)
    for loader in LOADERS:
        assert by_events(text, loader) == by_nodes(text, loader)


@st.composite
def documents(draw: st.DrawFn) -> str:
    """YAML as no program writes it: tags, anchors, merge keys, directives, several documents."""
    before = st.sampled_from(["", "", "", "", "&a ", "&b ", *(f"{tag} " for tag in TAGS)])
    scalars = st.sampled_from([*PLAIN, "*a", "*b", '"q\\n"', "'s'", "<<", "{}", "[]"])

    def inside(parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        lists = st.lists(parts, max_size=4).map(lambda each: f"[{', '.join(each)}]")
        pairs = st.tuples(scalars | parts, parts).map(": ".join)
        maps = st.lists(pairs, max_size=4).map(lambda each: f"{{{', '.join(each)}}}")
        return st.tuples(before, lists | maps).map("".join)

    flow = st.recursive(st.tuples(before, scalars).map("".join), inside, max_leaves=8)
    lines = st.tuples(
        st.sampled_from(["", "", "", "- ", "  ", "? ", ": ", "--- ", "... "]),
        st.sampled_from(["", "k: ", "j: ", "<<: ", "a: |-\n  b\n", "? x\n", "%YAML 1.1\n", "- "]),
        flow,
    ).map("".join)
    return "\n".join(draw(st.lists(lines, min_size=1, max_size=4)))


@given(documents() | st.text("a:-[]{},&*!?|>'\"%#\n ~<0", max_size=25))
@example("- &a [1]\n- *a\n- &a 2\n")
@example("- &a {<<: *a}\n")
@example("&a [*a]")
@example("--- 1\n--- 2\n")
@example("--- 1\n...\n")
@example("{[1]: 2}")
@example("{k: 1, k: 2}")
@example("")
def test_documents_of_any_kind_are_the_same_or_refused(text: str) -> None:
    """Either the events give what the safe loader gives, or it is asked; none ends in a crash."""
    for loader in LOADERS:
        assert by_events(text, loader) in (None, by_nodes(text, loader))
    try:
        got = load_yaml(text)
    except SessionFormatError:
        return
    assert exact(got) == by_nodes(text, TextOfTimes)


@pytest.mark.parametrize(
    "text",
    [
        "!!bool maybe",
        "!!int ''",
        "{!!python/tuple [[]]: 1}",
        "!!python/object/new:_io.BytesIO {state: 5}",
        "!!python/object/apply:builtins.iter {args: [[5]]}",
    ],
)
def test_a_tag_over_what_it_does_not_fit_is_refused(text: str) -> None:
    """A file of a stranger is refused in words, whatever its tags are put over."""
    with pytest.raises(SessionFormatError, match="does not fit its tag"):
        load_yaml(text)


def test_numbers_and_words_mean_what_the_safe_loader_says() -> None:
    """One by one, once as a value and once as a key."""
    for word in PLAIN:
        for text in (f"- {word}\n", f"{word}: 1\n"):
            for loader in LOADERS:
                assert by_events(text, loader) in (None, by_nodes(text, loader))


@pytest.mark.parametrize(
    "time", ["2026-11-30T23:14:20", "2026-11-30T23:14:20+01:00", "2026-11-30 23:14:20.5 +1",
             "2026-11-30", "2026-13-45"],
)  # fmt: skip
def test_a_time_without_quotes_is_its_text(tmp_path: Path, time: str) -> None:
    """Wherever it stands in a session that an editor or another program wrote anew."""
    text = FILES[0].read_text(encoding="utf-8")
    named = re.sub(r"recorded_at: .*", f"recorded_at: {time}", text, count=1)
    named = re.sub(r"question: .*", f"question: {time}", named, count=1)
    assert named.count(time) >= 2
    path = tmp_path / "again.yaml"
    path.write_text(named, encoding="utf-8")
    file = load_session(path)
    assert file.session is not None
    assert file.session.provenance.recorded_at == time
    assert file.session.turns[0].question == time
    assert load_yaml(render_session(file))["session"]["provenance"]["recorded_at"] == time
    assert load_yaml(f"{time}: 1\nbig: [!!timestamp {time!r}]\n") == {time: 1, "big": [time]}


def test_bodies_as_stock_vcrpy_writes_them_need_no_tree() -> None:
    """Bytes, and a list of headers that two requests share."""
    text = "- {body: !!binary aGkh, headers: &id001 [a]}\n- {body: x, headers: *id001}\n"
    for loader in LOADERS:
        data, shared = read_events(loader(text), MEANINGS[loader])
        assert data == [{"body": b"hi!", "headers": ["a"]}, {"body": "x", "headers": ["a"]}]
        assert shared


def test_what_is_known_of_scalars_stays_small() -> None:
    """Many different numbers, or long text, do not pile up over the files of a suite."""
    known = Meanings(yaml.SafeLoader(""))
    assert [known[str(number)] for number in range(20_000)] == list(range(20_000))
    assert known["x" * 1000] == "x" * 1000
    assert len(known) < 5000
    assert max(map(len, known)) < 100


@pytest.mark.parametrize("tail", ["x", "*x"])
@pytest.mark.parametrize("levels", [MAX_DEPTH - 2, MAX_DEPTH + 2, 1100])
def test_depth_is_bounded(levels: int, tail: str) -> None:
    """By brackets as by anchors that build on each other."""
    nested = ["&x 1", f"{'[' * levels}{tail}{']' * levels}"]
    chained = ["&a0 [1]", *(f"&a{n} [*a{n - 1}]" for n in range(1, levels))]
    for lines in (nested, chained):
        text = "".join(f"- {line}\n" for line in lines)
        if levels < MAX_DEPTH:
            assert isinstance(load_yaml(text), list)
        else:
            with pytest.raises(SessionFormatError, match=r"inside each other|nesting depth"):
                load_yaml(text)


def test_a_key_that_is_there_twice_is_not_taken_from_events() -> None:
    """Keys that are equal as data are one key, however they are written."""
    for text in ("{a: 1, a: 2}", "{1: x, 0x1: x}", "{1: x, 1.0: x}", "- &a k\n- {k: 1, *a : 2}"):
        with pytest.raises(NotPlain):
            read_events(yaml.SafeLoader(text), MEANINGS[yaml.SafeLoader])
        with pytest.raises(SessionFormatError, match="line"):
            load_yaml(text)


def test_sessions_load_without_libyaml() -> None:
    """Where PyYAML is pure Python, the same is read."""
    path = FILES[0]
    program = (
        "import sys; sys.modules['yaml._yaml'] = None\n"
        "import yaml; assert not yaml.__with_libyaml__\n"
        "from harness.sessions.cassette import load_session, render_session\n"
        "print(ascii(render_session(load_session(sys.argv[1]))))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=True,
        cwd=ROOT, env={**os.environ, "PYTHONIOENCODING": "utf-8"},
    )  # fmt: skip
    assert done.stdout.strip() == ascii(render_session(load_session(path)))
