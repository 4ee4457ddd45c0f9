"""The session file: what is written reads back, stock vcrpy agrees, strangers do no harm."""

from __future__ import annotations

import base64
import gzip
import json
from pathlib import Path
from typing import Any

import pytest
import requests
import vcr  # type: ignore[import-untyped, unused-ignore]
from hypothesis import given
from hypothesis import strategies as st
from vcr.serializers import yamlserializer  # type: ignore[import-untyped, unused-ignore]

from harness.sessions.cassette import load_session, parse_session, render_session
from harness.sessions.errors import SessionFormatError
from harness.sessions.exchange import Exchange, Request, Response
from harness.sessions.format import (
    FORMAT_VERSION,
    AgentSource,
    ErrorTake,
    ModelSource,
    Session,
    SessionFile,
    Take,
    TapedCall,
    Turn,
)
from harness.sessions.migrate import STEPS
from harness.sessions.player import Player, replay_session
from harness.sessions.replay import replay
from harness.sessions.yamlfile import dump_yaml, load_yaml
from tests.harness.sessions_support import three_steps

AWKWARD = "a 中。😀\n\t\r\x00\x85\u2028\ufeff:#'\"\\|>-%{}[]&*!?,\uffff"


@given(st.text(alphabet=AWKWARD, max_size=12), st.booleans())
def test_text_survives_the_file(text: str, long: bool) -> None:
    """Whatever a body holds reads back equal, here and in stock vcrpy."""
    data = {"a": [{"b": text + "x" * 120 * long}], "c": text}
    written = dump_yaml(data)
    assert load_yaml(written.encode().decode()) == data
    assert yamlserializer.deserialize(written) == data


def test_chinese_and_line_breaks_stay_readable() -> None:
    """A reply stands in the file as it was said (kevin1024/vcrpy#551)."""
    body = "港口的灯塔高四十一米。\n第二行 😀"
    exchange = Exchange(
        Request("POST", "http://h/", {}, body.encode()), Response(200, "OK", {}, body.encode())
    )
    text = render_session(SessionFile(None, (exchange,)))
    assert "港口的灯塔高四十一米。\n" in text
    assert "第二行 😀\n" in text
    assert parse_session(text).exchanges == (exchange,)


def test_bytes_that_are_no_text_survive() -> None:
    """A body that is no UTF-8 is kept as bytes."""
    body = b"\xff\xfe\x00binary"
    exchange = Exchange(Request("POST", "http://h/", {}, body), Response(200, "OK", {}, body))
    assert parse_session(render_session(SessionFile(None, (exchange,)))).exchanges == (exchange,)


def test_a_session_survives_the_file(tmp_path: Path) -> None:
    """Every field of a block comes back, error takes and taped values included."""
    request = {"method": "POST", "uri": "http://h/", "headers": {}, "body": "{}"}
    session = Session(
        agent=AgentSource(factory="a.b:c", language="zh", parameters={"k": [1, None, "中"]}),
        model=ModelSource(name="m", options={"temperature": 0.5}),
        turns=[Turn(question="问？"), Turn(question="2")],
        tape=[TapedCall(tool="t", arguments={"x": 1}, value={"y": [None, True, 1.5]}, at=0.25)],
        takes=[
            Take(error=ErrorTake(kind="timeout", request=request), at=0.1),
            Take(exchange=0, sizes=[1, 2], times=[0.1, 0.2], within=0),
        ],
    )
    exchange = Exchange(Request("POST", "http://h/", {}, b"{}"), Response(200, "OK", {}, b"abc"))
    file = SessionFile(session, (exchange,))
    (tmp_path / "s.yaml").write_text(render_session(file), encoding="utf-8")
    assert load_session(tmp_path / "s.yaml") == file
    assert (tmp_path / "s.yaml").read_text(encoding="utf-8").startswith("session:\n  version: 2\n")


def test_stock_vcrpy_loads_and_replays_a_recorded_session(tmp_path: Path) -> None:
    """The file is a cassette: every exchange replays through vcrpy's own patches."""
    recorded = three_steps(tmp_path / "s.yaml")
    matching = vcr.VCR(record_mode="none", match_on=["method", "uri", "body"])
    with matching.use_cassette(str(tmp_path / "s.yaml")) as cassette:
        for exchange in recorded.file.exchanges:
            sent = exchange.request
            got = requests.post(
                sent.url, data=sent.body, headers={"Content-Type": "application/json"}
            )
            assert got.content == exchange.response.body
        assert cassette.all_played


STOCK = {"method": "POST", "uri": "http://localhost:11434/api/chat", "headers": {}}
BODY = '{"model": "m", "messages": [{"role": "user", "content": "你好"}], "stream": false}'
REPLY = '{"message": {"content": "好"}, "done": true}'
OK = {"code": 200, "message": "OK"}


def cassette(request: dict[str, Any], response: dict[str, Any]) -> SessionFile:
    interaction = {
        "request": {**STOCK, "body": BODY, **request},
        "response": {"status": OK, "headers": {}, "body": {"string": REPLY}, **response},
    }
    return parse_session(dump_yaml({"interactions": [interaction], "version": 1}))


LOOK_ALIKES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "plain": ({}, {}),
    "host spelled in numbers": ({"uri": "http://127.0.0.1:11434/api/chat"}, {}),
    "compact JSON": ({"body": BODY.replace(": ", ":").replace(", ", ",")}, {}),
    "escaped JSON": ({"body": json.dumps(json.loads(BODY))}, {}),
    "empty defaults": (
        {"body": BODY[:-1] + ', "tools": [], "format": "", "options": {}, "keep_alive": null}'},
        {},
    ),
    "parsed_body": ({"body": None, "parsed_body": json.loads(BODY)}, {}),
    "parsed_body of the reply": ({}, {"body": None, "parsed_body": json.loads(REPLY)}),
    "body as bytes": ({"body": BODY.encode()}, {"body": {"string": REPLY.encode()}}),
    "gzip reply": (
        {},
        {
            "headers": {"Content-Encoding": ["gzip"], "Content-Length": ["55"]},
            "body": {"string": gzip.compress(REPLY.encode())},
        },
    ),
    "gzip request": (
        {"headers": {"Content-Encoding": ["gzip"]}, "body": gzip.compress(BODY.encode())},
        {},
    ),
    "gzip header over a plain reply": ({}, {"headers": {"content-encoding": ["gzip"]}}),
    "base64 reply": ({}, {"body": {"base64_string": base64.b64encode(REPLY.encode()).decode()}}),
    "headers as text": ({"headers": {"accept": "*/*"}}, {"headers": {"Content-Length": "3"}}),
    "chunked reply": ({}, {"headers": {"Transfer-Encoding": ["chunked"]}}),
}


@pytest.mark.parametrize("name", LOOK_ALIKES)
def test_cassettes_of_others_answer_the_same_request(name: str) -> None:
    """However a cassette is spelled, the request it holds gets the reply it holds."""
    player = Player(cassette(*LOOK_ALIKES[name]))
    with replay_session(player) as http:
        got = http.post("http://localhost:11434/api/chat", data=BODY.encode())
    assert got.json() == json.loads(REPLY)
    assert got.text == REPLY or "parsed" in name
    assert [each.sent for each in player.served] == [None]
    assert player.unused == []


@pytest.mark.parametrize("name", LOOK_ALIKES)
def test_cassettes_of_others_replay(name: str) -> None:
    """A cassette without a session block is replayed by sending its own requests again."""
    report = replay(cassette(*LOOK_ALIKES[name]))
    assert report.ok
    assert report.drift.total == 1


def test_python_tags_of_old_cassettes_are_plain_data() -> None:
    """What vcrpy itself writes loads; nothing is constructed but data."""
    text = (
        "interactions:\n- request:\n    method: POST\n    uri: http://h/\n    headers: {}\n"
        "    body: !!python/unicode 'x'\n  response:\n    status: {code: 200, message: OK}\n"
        "    headers: {}\n    body:\n      string: !!python/str 'y'\nversion: 1\n"
    )
    assert parse_session(text).exchanges[0].request.body == b"x"


@pytest.mark.parametrize(
    "payload",
    [
        "!!python/object/apply:os.system ['touch {marker}']",
        "!!python/object/new:os.system ['touch {marker}']",
        "!!python/name:os.system",
        "!!python/object/new:_io.BytesIO"
        " {{state: !!python/object/apply:os.system ['touch {marker}']}}",
    ],
)
def test_a_file_cannot_run_code(tmp_path: Path, payload: str) -> None:
    """Tags that would build objects are refused, and nothing has run."""
    marker = tmp_path / "ran"
    text = f"session: {payload.format(marker=marker)}\ninteractions: []\n"
    with pytest.raises(SessionFormatError):
        parse_session(text)
    assert not marker.exists()


def test_aliases_that_multiply_are_refused() -> None:
    """A few lines that unfold to billions of values are no session."""
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 10)]
    with pytest.raises(SessionFormatError, match="aliases"):
        parse_session("\n".join(lines) + "\ninteractions: *a9\n")


def test_shared_headers_of_stock_cassettes_load() -> None:
    """vcrpy writes an alias where two requests share a list."""
    one = "- request: {method: GET, uri: 'http://h/1', headers: &h {A: [b]}, body: null}\n"
    two = "- request: {method: GET, uri: 'http://h/2', headers: *h, body: null}\n"
    reply = "  response: {status: {code: 200, message: OK}, headers: {}, body: {string: x}}\n"
    file = parse_session(f"interactions:\n{one}{reply}{two}{reply}version: 1\n")
    assert [each.request.headers for each in file.exchanges] == [{"A": ["b"]}] * 2


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "expected `session:` or `interactions:`"),
        ("just text", "expected `session:` or `interactions:`"),
        ("a: [1", "expected a YAML file"),
        ("interactions: 5", "list of interactions"),
        ("interactions: [5]", r"interactions\[0\]"),
        ("interactions: [{request: {uri: 5}}]", r"interactions\[0\]\.request"),
        ("interactions: [{request: {uri: x, body: 5}}]", "expected text or bytes"),
        ("interactions: [{request: {uri: x}, response: {}}]", r"response\.status"),
        ("http_interactions: []", "Ruby"),
        ("session: {version: 99}", "newer agentrig"),
        ("session: 5", "expected `session:` to hold a block of keys such as `version:`, got 5"),
        ("session: {version: 0}", "expected session version 1 to 2, got 0"),
        ("session: {version: two}", "expected session version 1 to 2, got 'two'"),
        ("session: {agent: {factory: 'a:b'}}", r"session\.model"),
        ("session: {agent: {factory: 'a:b'}, model: {name: m}, turns: []}", r"session\.turns"),
        ("session: {agent: {factory: 'a:b'}, model: {name: m}, turns: [{question: q}], x: 1}", "x"),
        (
            "session: {agent: {factory: 'a:b'}, model: {name: m}, turns: [{question: q}],"
            " takes: [{exchange: 4}]}",
            "each of the 0 interactions once",
        ),
        (
            "session: {agent: {factory: 'a:b'}, model: {name: m}, turns: [{question: q}],"
            " takes: [{at: 4}]}",
            "either an `exchange` or an `error`",
        ),
    ],
)
def test_what_is_no_session_is_refused_in_words(text: str, words: str) -> None:
    """The error says where and what was expected."""
    with pytest.raises(SessionFormatError, match=words):
        parse_session(text)


def test_a_refused_file_is_named(tmp_path: Path) -> None:
    """The path is in the error, also for what is no text."""
    (tmp_path / "bad.yaml").write_bytes(b"\xff\xfe")
    with pytest.raises(SessionFormatError, match=r"bad\.yaml.*UTF-8"):
        load_session(tmp_path / "bad.yaml")


def test_json_cassettes_load() -> None:
    """vcrpy's JSON serializer writes the same structure."""
    interaction = {
        "request": {**STOCK, "body": BODY},
        "response": {"status": OK, "headers": {}, "body": {"string": REPLY}},
    }
    text = json.dumps({"version": 1, "interactions": [interaction]})
    assert parse_session(text).exchanges[0].response.body == REPLY.encode()


def test_every_version_that_was_written_has_its_step() -> None:
    """None is skipped on the way to today's."""
    assert list(STEPS) == list(range(1, FORMAT_VERSION))


def test_a_session_of_an_older_version_is_read_and_written_as_todays() -> None:
    """A file of version 1 loads whole, and what is written of it is of today's version."""
    old = Path(__file__).parents[1] / "data" / "sessions" / "version-1.yaml"
    text = old.read_text(encoding="utf-8")
    assert text.startswith("session:\n  version: 1\n")
    file = parse_session(text)
    assert file.session is not None
    assert file.session.version == FORMAT_VERSION
    assert file.session.turns[0].question
    assert file.session.trajectory[0].stop_reason
    assert file.provenance.accepted == []
    written = render_session(file)
    assert written.startswith(f"session:\n  version: {FORMAT_VERSION}\n")
    assert parse_session(written) == file


def test_traffic_of_an_older_version_is_read() -> None:
    """What a proxy recorded is as old as any other file."""
    file = parse_session(
        "traffic: {version: 1, provenance: {server: ollama 0.1}}\ninteractions: []"
    )
    assert file.traffic is not None
    assert file.traffic.version == FORMAT_VERSION


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("session: {a: 1}\nversion: 1\nsession: {a: 2}\n", "line 3: the key 'session' .* line 1 "),
        ("a:\n  b:\n    温度: 1\n    温度: 1\n", "line 4: the key '温度' stands in line 3 "),
        ('{"a": 1, "a": 2}', "line 1: the key 'a'"),
        ("- &x {k: 1}\n- {<<: *x, j: 1, j: 2}\n", "line 2: the key 'j'"),
    ],
)
def test_a_key_that_is_there_twice_is_refused(text: str, words: str) -> None:
    """As a bad merge leaves it: neither of the two wins without a word."""
    with pytest.raises(SessionFormatError, match=words):
        load_yaml(text)


def test_a_merged_key_may_be_replaced() -> None:
    """`<<` gives what is used unless the mapping says otherwise, once or through two anchors."""
    text = "- &x {k: 1, j: 1}\n- &y {<<: *x, k: 2}\n- {<<: [*x, *y], k: 3}\n- *y\n"
    assert load_yaml(text) == [
        {"k": 1, "j": 1}, {"k": 2, "j": 1}, {"k": 3, "j": 1}, {"k": 2, "j": 1},
    ]  # fmt: skip
