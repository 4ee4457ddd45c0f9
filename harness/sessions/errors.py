"""What can go wrong with a session file or around it.

::

    SessionError
    ├── SessionFormatError   the file is no session and no cassette, or of a newer version
    ├── SessionExists        the name is taken, or an interrupted recording waits under it
    ├── SessionBusy          another process is recording under this name
    ├── FactoryRefused       the agent's factory cannot be found, or may not be imported
    ├── ServerRefused        the file names a server that the user did not
    └── NotReplaced          the model failed where the session that is there ended well
"""

from __future__ import annotations


class SessionError(Exception):
    """Base of every error about sessions; its message says what to do next."""


class SessionFormatError(SessionError):
    """The file is not what a session file has to be."""


class SessionExists(SessionError):
    """There is something under this name that would be lost."""


class SessionBusy(SessionError):
    """Another process holds this session's journal."""


class FactoryRefused(SessionError):
    """The factory of an agent cannot be used."""


class ServerRefused(SessionError):
    """A session would have a server asked that nobody has named."""


class NotReplaced(SessionError):
    """A session stays as it was, since the model failed while it was recorded again.

    The cause is the error of the model.
    """
