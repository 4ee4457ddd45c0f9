"""The error tree.

::

    AgentError
    ├── ConfigError              a gear or an argument was built wrong (also a ValueError)
    ├── ModelError               the model could not be asked, or did not answer
    │   ├── ConnectionFailed     nothing listens there, or the connection broke
    │   ├── ModelTimeout         connect or read took longer than allowed
    │   ├── AuthenticationFailed 401 or 403
    │   ├── ModelNotFound        the server does not have this model
    │   ├── BadRequest           the server refuses this request and always will
    │   ├── ContextOverflow      the prompt is longer than the context window
    │   ├── RateLimited          429, after the allowed retries
    │   ├── ServerError          5xx, after the allowed retries
    │   ├── StreamError          the server reported an error inside a 200 stream
    │   ├── StreamCut            the stream ended before its end was announced
    │   ├── BadResponse          a body that is not what the API promises (HTML, no JSON)
    │   └── ScriptExhausted      a scripted model was asked more often than it has replies
    ├── ToolError                raised by a tool to tell the model something (also by built-ins)
    └── RetrievalError           an index or an embedder cannot do what was asked

A message names what was expected, what came, and what to do next. None holds a secret: the
HTTP layer scrubs credentials before it builds one.
"""

from __future__ import annotations


class AgentError(Exception):
    """Base of every error that agent_core raises on purpose."""


class ConfigError(AgentError, ValueError):
    """A gear or an argument was built wrong; nothing has run yet."""


class ModelError(AgentError):
    """The model could not be asked, or its answer could not be used.

    Attributes:
        status: HTTP status, or None when no response arrived.
        retry_after: seconds the server asked to wait, or None.
        attempts: HTTP attempts made before giving up.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        retry_after: float | None = None,
        attempts: int = 1,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.retry_after = retry_after
        self.attempts = attempts


class ConnectionFailed(ModelError):
    """Nothing listens at the address, or the connection broke before a response."""


class ModelTimeout(ModelError):
    """Connecting or reading took longer than allowed."""


class AuthenticationFailed(ModelError):
    """401 or 403: the key is missing, wrong, or not allowed to do this."""


class ModelNotFound(ModelError):
    """The server does not have this model; the message says how to get it."""


class BadRequest(ModelError):
    """The server refuses this request; sending it again would not help."""


class ContextOverflow(BadRequest):
    """The prompt is longer than the model's context window."""


class RateLimited(ModelError):
    """429, still there after the allowed retries."""


class ServerError(ModelError):
    """5xx, still there after the allowed retries, or not worth retrying."""


class StreamError(ModelError):
    """The server reported an error inside a stream that began with status 200."""


class StreamCut(ModelError):
    """The stream ended before the server announced its end."""


class BadResponse(ModelError):
    """A body that is not what the API promises: HTML, no JSON, a missing field."""


class ScriptExhausted(ModelError):
    """A scripted model was asked more often than it has replies."""


class ToolError(AgentError):
    """Raise it in a tool: its message goes to the model as the observation."""


class RetrievalError(AgentError):
    """An index or an embedder cannot do what was asked."""
