"""The rounds of a recording: each chat request with the reply that it got, if that is one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from agent_core.limits import StopReason
from agent_core.messages import JsonObject, Reply
from harness.sessions.conversion import api_of, is_stream, records_of, reply_of
from harness.sessions.exchange import canonical_json, json_body
from harness.sessions.format import Api, SessionFile, Take

_OK = 200


@dataclass(frozen=True)
class Round:
    """A chat request and what the model replied.

    Attributes:
        number: of the exchange, from 1.
        aside: a tool sent it, not the agent.
    """

    number: int
    body: JsonObject
    reply: Reply
    messages: list[JsonObject]
    aside: bool = False

    @cached_property
    def keys(self) -> list[str]:
        """Its messages, each in one spelling."""
        return [canonical_json(each) for each in self.messages]

    @cached_property
    def counts(self) -> Counter[str]:
        """How often each message stands in it."""
        return Counter(self.keys)

    def is_main(self, first: Round) -> bool:
        """Whether the agent itself asked, not one in a tool or a summary of its history."""
        return _system(self.messages) == _system(first.messages)


def rounds_of(file: SessionFile) -> Iterator[Round]:
    """All of a recording, in their order."""
    for take in file.takes:
        if take.exchange is None:
            continue
        exchange = file.exchanges[take.exchange]
        body = json_body(exchange.request.body)
        if api_of(exchange.request.url) is None or not isinstance(body, dict):
            continue
        messages = body.get("messages")
        reply = reply_of(exchange.request, exchange.response)
        if reply is not None and isinstance(messages, list):
            dicts = [each for each in messages if isinstance(each, dict)]
            yield Round(take.exchange + 1, body, reply, dicts, take.within is not None)


def unreadable_replies(file: SessionFile) -> Iterator[tuple[int, str]]:
    """Responses of status 200 that hold no reply: the number of each, and what is wrong.

    A session whose run ended with an error of the model may have recorded just that.
    """
    turns = () if file.session is None else file.session.trajectory
    if any(turn.stop_reason == StopReason.MODEL_ERROR for turn in turns):
        return
    for take in file.takes:
        words = None if take.exchange is None else _no_reply(file, take, take.exchange)
        if take.exchange is not None and words is not None:
            yield take.exchange + 1, words


def _no_reply(file: SessionFile, take: Take, number: int) -> str | None:
    request, response = file.exchanges[number].request, file.exchanges[number].response
    api = api_of(request.url)
    if api is None or response.status != _OK:
        return None
    text = response.body.strip()
    if not text:
        return "the body is empty"
    records = records_of(api, response)
    if records is None:
        return None if _tells_error(text) else f"the body is {_kind(text)}"
    if not any(_says(api, each) for each in records):
        return "JSON that is no reply of this API"
    if is_stream(api, response) and not take.closed and not _has_end(api, records, text):
        return "the stream stops before its end"
    return None


def _tells_error(text: bytes) -> bool:
    """Whether the server says in the body what went wrong: that is read as it is meant."""
    lines = (json_body(each.removeprefix(b"data:")) for each in (text, *text.splitlines()))
    return any(isinstance(each, dict) and each.get("error") for each in lines)


def _kind(text: bytes) -> str:
    if text.startswith(b"<"):
        return "HTML, not JSON"
    if text.startswith((b"{", b"data:")) and json_body(text) is None:
        return "JSON that is damaged or was cut"
    return "JSON, but no object" if json_body(text) is not None else "not JSON"


def _says(api: Api, record: JsonObject) -> bool:
    """Whether a record is one of this API."""
    if api == "openai":
        return isinstance(record.get("choices"), list)
    return isinstance(record.get("message"), dict) or isinstance(record.get("response"), str)


def _has_end(api: Api, records: Sequence[JsonObject], text: bytes) -> bool:
    if api == "ollama":
        return any(each.get("done") or each.get("done_reason") for each in records)
    choices = (each.get("choices") for each in records)
    return text.endswith(b"[DONE]") or any(
        isinstance(one, dict) and one.get("finish_reason")
        for listed in choices if isinstance(listed, list) for one in listed
    )  # fmt: skip


def _system(messages: Sequence[JsonObject]) -> list[Any]:
    return [each.get("content") for each in messages if each.get("role") == "system"]
