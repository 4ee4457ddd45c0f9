"""One HTTP layer: attempts, retries, deadlines, and errors that hold no secret."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from http.client import HTTPException
from http.cookiejar import DefaultCookiePolicy
from typing import TypeVar
from urllib.parse import urlsplit

import requests
from requests.auth import AuthBase
from urllib3.exceptions import HTTPError

from agent_core.errors import ConfigError, ConnectionFailed, ModelError, ModelTimeout
from agent_core.events import AttemptEnded, AttemptStarted, scope
from agent_core.gears import Clock
from agent_core.messages import JsonObject
from agent_core.models.address import is_loopback
from agent_core.models.deadline import Deadline, DeadlineAdapter, keeping
from agent_core.models.failures import (
    Target,
    connection_error,
    parse_retry_after,
    redirect_error,
    response_error,
)
from agent_core.models.incoming import Incoming, late_error
from agent_core.models.policy import RetryPolicy, Timeouts
from agent_core.models.secret import Secret
from agent_core.models.wire import encode_json

T = TypeVar("T")

_NAP = 1 / 16  # seconds between two looks; whole waits add up to what they are exactly
_HEADERS = {
    "Content-Type": "application/json",
    "Accept": "application/json, application/x-ndjson, text/event-stream",
    "Accept-Encoding": "identity",  # a stream must not wait for a block to compress
}
_SHORTEST = 0.001  # a timeout of 0 is an error for `requests`, not the shortest one


def authorization(api_key: str | None, userinfo: Secret | None) -> Secret | None:
    """The value of the `Authorization` header: a bearer token, or what stood in the URL.

    Raises:
        ConfigError: the key holds what a header cannot.
    """
    if api_key is not None and api_key.strip():
        key = Secret(api_key.strip())
        if not (key.reveal().isascii() and key.reveal().isprintable()):
            raise ConfigError("api_key holds characters that a header cannot carry (value hidden)")
        return Secret(f"Bearer {key.reveal()}")
    if userinfo is not None:
        return Secret("Basic " + Secret(b64encode(userinfo.reveal().encode()).decode()).reveal())
    return None


class Authorization(AuthBase):
    """Sends the given header. Without one it still keeps `requests` from reading `.netrc`."""

    def __init__(self, header: Secret | None) -> None:
        self._header = header

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        if self._header is not None:
            request.headers["Authorization"] = self._header.reveal()
        return request


@dataclass(slots=True)
class _Outcome:
    """How one attempt ended: with a value, or with an error that may be worth another one."""

    value: object = None
    error: ModelError | None = None
    retry: str | None = None
    status: int | None = None
    size: int | None = None


class HttpClient:
    """Posts JSON to one server over one session, with retries.

    Args:
        session: a session of the caller's own (a recording one, say); None makes one.
        clock: for deadlines and for the waits between attempts.
        authorization: the value of the `Authorization` header, or None.
    """

    def __init__(
        self,
        *,
        session: requests.Session | None,
        timeouts: Timeouts,
        retry: RetryPolicy,
        clock: Clock,
        authorization: Secret | None,
    ) -> None:
        self.session = session if session is not None else new_session()
        self._timeouts = timeouts
        self._retry = retry
        self._clock = clock
        self._auth = Authorization(authorization)

    def post(
        self,
        target: Target,
        payload: JsonObject,
        read: Callable[[Incoming], T],
        *,
        timeout: float | None = None,
    ) -> tuple[T, int]:
        """Send a request until it is answered; give what `read` makes of it, and the attempts.

        Args:
            target: where it goes.
            payload: the body.
            read: reads a response of status 200; may raise `ModelError`.
            timeout: seconds for everything: connecting, waiting, reading, trying again.

        Raises:
            ModelError: what the last attempt ended with.
            ConfigError: the body holds what JSON cannot.
        """
        body = _encode(payload)
        deadline = Deadline(self._clock, timeout)
        number = 0
        while True:
            if deadline.cancelled():
                raise ModelError(f"{target.url} was not asked: the run was cancelled")
            if deadline.passed():
                raise ModelTimeout(f"no time was left to ask {target.url}", attempts=number)
            number += 1
            event = AttemptStarted(number, "POST", target.url, len(body), sha256(body).hexdigest())
            with scope(event) as attempt:
                outcome = self._attempt(target, body, read, deadline)
                wait = self._next_wait(outcome, number, deadline)
                attempt.end(_attempt_ended(outcome, wait))
            if outcome.error is None:
                return outcome.value, number  # type: ignore[return-value]
            if wait is None:
                outcome.error.attempts = number
                raise outcome.error
            self._wait(wait, deadline)

    def close(self) -> None:
        """Close the session's connections."""
        self.session.close()

    def _next_wait(self, outcome: _Outcome, number: int, deadline: Deadline) -> float | None:
        """Seconds until the next attempt, or None when there is none."""
        if outcome.error is None or outcome.retry is None or number >= self._retry.attempts:
            return None
        wait = self._retry.wait_after(number, outcome.error.retry_after)
        left = deadline.left()
        return None if left is not None and wait >= left else wait

    def _wait(self, seconds: float, deadline: Deadline) -> None:
        """Wait, and inside a run look up now and then whether it goes on."""
        while seconds > 0 and not deadline.cancelled():
            nap = min(seconds, _NAP) if deadline.can_be_cancelled else seconds
            self._clock.sleep(nap)
            seconds -= nap

    def _attempt(
        self, target: Target, body: bytes, read: Callable[[Incoming], T], deadline: Deadline
    ) -> _Outcome:
        own = Deadline(self._clock, deadline.left())  # a part of the response may get less
        with keeping(own):
            response = self._send(target, body, own)
            if isinstance(response, _Outcome):
                return response
            try:
                return self._receive(Incoming(response, own, target), read)
            finally:
                response.close()

    def _send(
        self, target: Target, body: bytes, deadline: Deadline
    ) -> requests.Response | _Outcome:
        session, retry = self.session, None
        local = is_loopback(urlsplit(target.url).hostname or "")
        settings = session.merge_environment_settings(
            target.url, None if local else {}, True, None, None
        )
        if local:
            settings["proxies"] = {}
        limits = (
            max(_SHORTEST, deadline.within(self._timeouts.connect)),
            max(_SHORTEST, deadline.within(self._timeouts.read)),
        )
        try:
            request = self._prepared(target, body)
            return session.send(request, timeout=limits, allow_redirects=False, **settings)
        except requests.Timeout:
            retry = "timeout" if self._retry.timeouts else None
            error: ModelError = late_error(target, deadline)
        except (requests.RequestException, HTTPError, HTTPException, OSError, ValueError) as broken:
            error, retry = connection_error(broken, target)
        return _Outcome(error=error, retry=retry)

    def _prepared(self, target: Target, body: bytes) -> requests.PreparedRequest:
        """What the session's `prepare_request` gives for it, in half the time."""
        session, request = self.session, requests.PreparedRequest()
        request.prepare(
            "POST",
            target.url,
            headers={k: v for k, v in {**session.headers, **_HEADERS}.items() if v is not None},
            data=body,
            params=session.params or None,
            auth=self._auth,
            cookies=session.cookies,
            hooks=session.hooks,
        )
        return request

    def _receive(self, incoming: Incoming, read: Callable[[Incoming], T]) -> _Outcome:
        if not 200 <= incoming.status < 300:
            return self._refused(incoming)
        outcome = _Outcome(status=incoming.status)
        try:
            outcome.value = read(incoming)
        except ModelError as error:
            outcome.error = error
            if isinstance(error, ConnectionFailed):
                outcome.retry = "connection"
            elif isinstance(error, ModelTimeout) and self._retry.timeouts and not incoming.streamed:
                outcome.retry = "timeout"
        outcome.size = incoming.bytes_read
        return outcome

    def _refused(self, incoming: Incoming) -> _Outcome:
        """A response without a reply: what it says decides what it means."""
        status, target, body = incoming.status, incoming.target, incoming.error_body()
        outcome = _Outcome(status=status, size=incoming.bytes_read)
        if 300 <= status < 400:
            outcome.error = redirect_error(status, incoming.header("Location"), target)
            return outcome
        asked = parse_retry_after(incoming.header("Retry-After"), self._clock.now())
        outcome.error, worth = response_error(status, body, target, retry_after=asked)
        outcome.retry = f"http_{status}" if worth else None
        return outcome


def _encode(payload: JsonObject) -> bytes:
    try:
        return encode_json(payload)
    except (ValueError, TypeError, RecursionError) as error:
        raise ConfigError(f"the request cannot be written as JSON: {error}") from None


def _attempt_ended(outcome: _Outcome, wait: float | None) -> AttemptEnded:
    return AttemptEnded(
        status=outcome.status,
        response_bytes=outcome.size,
        error=type(outcome.error).__name__ if outcome.error else None,
        retry_reason=outcome.retry if wait is not None else None,
        wait=wait,
    )


class _Session(requests.Session):
    """A session that does not even look where a redirect leads."""

    def get_redirect_target(self, resp: requests.Response) -> None:
        """Say that there is none: `requests` would read the whole body to find out."""


def new_session() -> requests.Session:
    """A session that keeps deadlines, gives up when a run is cancelled, and takes no cookies."""
    session = _Session()
    session.mount("http://", DeadlineAdapter())
    session.mount("https://", DeadlineAdapter())
    session.cookies.set_policy(DefaultCookiePolicy(allowed_domains=[]))
    return session
