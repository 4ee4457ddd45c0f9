"""A secret that a command was given, or that a tool returned, is in nothing that it leaves."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from click.testing import CliRunner

from harness.cli import main
from tests.harness.otlp_receiver import otlp_receiver
from tests.harness.sessions_support import ASSISTANT, ollama_reply, response, serving
from tests.harness.sessions_support import version_scripts as facts

TOOLS = """
import json
from pathlib import Path
from agent_core import Agent

def look_up() -> dict:
    '''Look the account up.'''
    return json.loads(Path("account.json").read_text("utf-8"))

def agent(model, **settings):
    return Agent(model, [look_up], **settings)
"""


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything that is kept is kept under the current directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)


def left_behind(output: str) -> str:
    """All that a command printed or wrote, except what the test itself wrote."""
    files = [p for p in Path().rglob("*") if p.is_file() and p.suffix not in {".py", ".pyc"}]
    kept = [p.read_text("utf-8", "replace") for p in files if p.name != "account.json"]
    assert kept
    return output + "\n".join(kept)


@pytest.mark.parametrize("command", ["run", "record"])
@pytest.mark.parametrize(
    "password", ["Tr0ub4dor", "zebra42", "p@ss/w0rd&x", "schlüssel-7", "密码一二三四"]
)
def test_the_password_of_a_base_url(command: str, password: str) -> None:
    """Neither where the server repeats it in its replies, nor where its errors quote it."""
    credentials = f"bob:{password}"
    forms = {password, quote(password, safe=""), json.dumps(password)[1:-1]}
    forms.add(base64.b64encode(credentials.encode()).decode())
    echo = "; ".join(sorted(forms))
    call = {"name": "get_weather", "parameters": {"city": f"err {password}"}}
    scripts: list[Any] = [[response(404, b"")], *facts()] if command == "record" else []
    scripts += [
        ollama_reply(f"Thought: {echo}\nAction: {json.dumps(call, ensure_ascii=False)}"),
        ollama_reply(f"Thought: {echo}\nFinal Answer: {echo}"),
        [response(401, json.dumps({"error": echo}).encode())],
    ]
    extra = ["--name", "s", "--dir", "kept"] if command == "record" else []
    with serving(*scripts) as server, otlp_receiver() as receiver:
        url = server.url.replace("://", f"://bob:{quote(password, safe='')}@")
        done = CliRunner().invoke(
            main,
            [command, ASSISTANT, "?", "--model", "m", "--base-url", url, "--log", "run.log",
             "--otlp", receiver.url, "--content", "full", *extra],
        )  # fmt: skip
        assert done.exit_code == 0, done.output
        refused = CliRunner().invoke(
            main, ["run", ASSISTANT, "?", "--model", "m", "--base-url", url, "--log", "run.log"]
        )
        assert refused.exit_code == 1, refused.output
        sent = receiver.text()
    everything = left_behind(done.output + refused.output) + sent
    found = [form for form in forms if form in everything]
    assert found == []


@pytest.mark.parametrize(
    "key",
    ["awssecret", "aws_secret_access_key", "awsSecretAccessKey", "AWSSECRETACCESSKEY",
     "dbpassword", "clientsecret", "userPassphrase", "authtoken", "api-key", "数据库密码"],
)  # fmt: skip
def test_what_a_tool_returns_under_the_name_of_a_secret(key: str) -> None:
    """In the observation, in the tape of the session, in spans and records: by its key alone."""
    secret = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
    Path("secretive.py").write_text(TOOLS, encoding="utf-8")
    account = {"user": "bob", key: secret, "more": [{key: secret}, {"name": key, "value": secret}]}
    Path("account.json").write_text(json.dumps(account), encoding="utf-8")
    scripts: list[Any] = [
        [response(404, b"")],
        *facts(),
        ollama_reply('Thought: t\nAction: {"name": "look_up", "parameters": {}}'),
        ollama_reply("Thought: I know.\nFinal Answer: done"),
    ]
    with serving(*scripts) as server:
        done = CliRunner().invoke(
            main,
            ["record", "secretive:agent", "?", "--name", "s", "--dir", "kept", "--model", "m",
             "--base-url", server.url, "--log", "run.log"],
        )  # fmt: skip
    assert done.exit_code == 0, done.output
    assert "bob" in left_behind(done.output)
    assert secret not in left_behind(done.output)
