"""A model server that does everything wrong: what `FaultServer` is to answer in a soak."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from itertools import count
from typing import Any

from harness.faults import Received, Response

Answer = Callable[[random.Random, Any, str], Response]

TEXTS = [
    'Thought: go\nAction: {"name": "look", "parameters": {"query": "%s"}}',
    'Thought: go\nAction: look\nAction Input: {"query": "%s"}\nObservation: invented',
    '思考：查\n行动：look\n行动输入：{"query": "%s"}',
    'Action: {"name": "hang", "parameters": {"seconds": 0.3}}',
    'Action: {"name": "fail", "parameters": {"query": "%s"}}',
    'Action: {"name": "leave", "parameters": {}}',
    'Action: {"name": "circle", "parameters": {}}',
    'Action: {"name": "missing", "parameters": {}}',
    'Action: {"name": "look", "parameters": {"query": "%s',
    "Final Answer: done %s",
    "最终答案：完成 %s",
    "Prose about %s without a label.",
    "<think>never closed %s",
    "",
]


class Hostile:
    """Answers each request in a way drawn from a seed."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._numbers = count()

    def __call__(self, request: Received) -> Response:
        draw = random.Random(f"{self._seed} {next(self._numbers)}")
        asked = request.json()
        if draw.random() < 0.7:
            return _reply(draw, asked, request.path)
        return draw.choice(_FAULTS)(draw, asked, request.path)


def _reply(draw: random.Random, asked: Any, path: str) -> Response:
    """A reply that HTTP has nothing against, in random chunks where it is streamed."""
    body = _body(draw, asked, path)
    if not asked["stream"]:
        return Response(body=body)
    size = draw.choice([1 << 16, 200, 37])
    return Response(
        chunks=[body[at : at + size] for at in range(0, len(body), size)],
        headers={"Content-Type": _stream_type(path)},
    )


def _body(draw: random.Random, asked: Any, path: str) -> bytes:
    text = draw.choice(TEXTS).replace("%s", f"{draw.randrange(4)} 北京😀")
    message: dict[str, Any] = {"role": "assistant", "content": text}
    if asked.get("tools") and draw.random() < 0.6:
        message["tool_calls"] = [_call(draw, path) for _ in range(draw.randint(1, 3))]
    reason = draw.choice(["stop", "stop", "length", None])
    if path.startswith("/v1"):
        return _openai_body(message, reason, asked["stream"])
    end: dict[str, Any] = {
        "done": True,
        "done_reason": reason,
        "prompt_eval_count": 9,
        "eval_count": 3,
    }
    if not asked["stream"]:
        return _json({"model": "m", "message": message, **end})
    last: Any = {**message, "content": ""}
    lines: list[Any] = [{"message": {"content": each}, "done": False} for each in text]
    return b"".join(_json(each) + b"\n" for each in [*lines, {"message": last, **end}])


def _openai_body(message: dict[str, Any], reason: str | None, stream: bool) -> bytes:
    if not stream:
        return _json({"choices": [{"message": message, "finish_reason": reason}]})
    calls = [{**call, "index": n} for n, call in enumerate(message.get("tool_calls", []))]
    pieces: list[Any] = [{"delta": {"content": each}} for each in message["content"]]
    pieces.append({"delta": {"tool_calls": calls}, "finish_reason": reason})
    events = [b"data: " + _json({"choices": [each]}) + b"\n\n" for each in pieces]
    return b"".join([*events, b"data: [DONE]\n\n"])


def _call(draw: random.Random, path: str) -> dict[str, Any]:
    name = draw.choice(["look", "look", "fail", "hang", "circle", "missing"])
    arguments: Any = {"seconds": 0.3} if name == "hang" else {"query": f"q{draw.randrange(3)}"}
    if path.startswith("/v1"):
        arguments = json.dumps(arguments)[: draw.choice([9, 99, 99])]
    return {"id": f"c{draw.random()}", "function": {"name": name, "arguments": arguments}}


def _status(draw: random.Random, asked: Any, path: str) -> Response:
    status = draw.choice([302, 400, 401, 404, 418, 429, 500, 502, 503])
    headers = {"Retry-After": draw.choice(["0", "1", "soon"]), "Location": "http://127.0.0.1:9/"}
    body = draw.choice([b"", b"<html>no</html>", b'{"error": "no"}', b'{"error": {"message": 7}}'])
    return Response(status, body, headers=headers)


def _cut(draw: random.Random, asked: Any, path: str) -> Response:
    body = _body(draw, asked, path)
    after = draw.randrange(len(body) + 1)
    return Response(body=body, cut_after=after, reset=draw.random() < 0.5)


def _strange(draw: random.Random, asked: Any, path: str) -> Response:
    body = draw.choice([
        b"", b"null", b"[]", b"{}", b"7", b"\xff\xfe{", b'{"message": 3, "done": true}',
        b'{"choices": []}', b'{"error": "in the stream"}\n', b"data: {\n\n", b"x" * 200_000,
    ])  # fmt: skip
    kind = draw.choice(["application/json", "text/html", "application/json; charset=utf-16", ""])
    return Response(body=body, headers={"Content-Type": kind}, close=draw.random() < 0.3)


_FAULTS: list[Answer] = [
    _status, _status, _cut, _cut, _strange, _strange,
    lambda *_: Response(reset=True),
    lambda *_: Response(raw=b"no HTTP at all\r\n\r\n"),
    lambda draw, asked, path: Response(body=_body(draw, asked, path), close=True),
    lambda draw, asked, path: Response(body=_body(draw, asked, path), delay=0.05),
    lambda draw, *_: Response(silent=draw.random() < 0.5, reset=True),
]  # fmt: skip


def _stream_type(path: str) -> str:
    return "text/event-stream" if path.startswith("/v1") else "application/x-ndjson"


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()
