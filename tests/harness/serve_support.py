"""Cassettes as other projects record them, made up here, and a client that is not ours."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import requests
import yaml

from harness.sessions.serve import SessionServer

QUESTION = {"role": "user", "content": "北京天气如何？"}
CALL = {"function": {"name": "get_weather", "arguments": {"city": "北京"}}}
ASKED = {"role": "assistant", "content": "", "tool_calls": [CALL]}
SEEN = {"role": "tool", "content": "晴，25 度", "tool_name": "get_weather"}
ANSWER = "北京晴，25 度。"
FIRST: dict[str, Any] = {"model": "m", "messages": [QUESTION], "stream": False}
SECOND: dict[str, Any] = {**FIRST, "messages": [QUESTION, ASKED, SEEN]}
STREAMED: dict[str, Any] = {**FIRST, "stream": True}


def record(content: str = "", *, done: bool = True, at: str = "00.000", **more: Any) -> Any:
    """One object of `/api/chat`; `more` goes into the message."""
    value: dict[str, Any] = {
        "model": "m",
        "created_at": f"2026-08-07T06:08:{at}Z",
        "message": {"role": "assistant", "content": content, **more},
        "done": done,
    }
    counters = {"total_duration": 5_000_000, "prompt_eval_count": 20, "eval_count": 7}
    return value | ({"done_reason": "stop", **counters} if done else {})


def ndjson(*records: Any) -> str:
    return "".join(json.dumps(each, ensure_ascii=False) + "\n" for each in records)


def sse(*chunks: Any) -> str:
    data = [json.dumps(each, ensure_ascii=False) for each in chunks]
    return "".join(f"data: {each}\n\n" for each in [*data, "[DONE]"])


def interaction(body: Any, reply: str, *, path: str = "/api/chat", **how: Any) -> dict[str, Any]:
    kind = "application/x-ndjson" if reply.count("\n") > 1 else "application/json"
    return {
        "request": {
            "method": how.get("method", "POST"),
            "uri": f"{how.get('host', 'http://127.0.0.1:11434')}{path}",
            "headers": {},
            "body": how.get("text") or json.dumps(body, separators=(",", ":")),
        },
        "response": {
            "status": {"code": how.get("status", 200), "message": "OK"},
            "headers": how.get("headers", {"Content-Type": [kind]}),
            "body": {"string": reply},
        },
    }


def cassette(path: Path, *interactions: Any) -> Path:
    text = yaml.safe_dump({"interactions": list(interactions), "version": 1}, allow_unicode=True)
    path.write_text(text, encoding="utf-8")
    return path


def tool_turn(path: Path, *, seen: str = "晴，25 度", answer: str = ANSWER) -> Path:
    """Two requests: a native call, then the answer to its result."""
    base = {"model": "m", "stream": False}
    first = {**base, "messages": [QUESTION], "tools": []}
    second = {
        **base,
        "messages": [QUESTION, ASKED, {**SEEN, "content": seen}],
        "options": {},
        "keep_alive": None,
    }
    return cassette(
        path,
        interaction(first, json.dumps(record(tool_calls=[CALL]))),
        interaction(second, json.dumps(record(answer))),
    )


def ask(server: SessionServer, body: Any, path: str = "/api/chat", **how: Any) -> Any:
    """Send a request as some client would."""
    with requests.Session() as http:
        http.trust_env = False
        return http.post(f"{server.url}{path}", json=body, timeout=10, **how)
