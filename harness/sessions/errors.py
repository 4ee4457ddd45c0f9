"""What can go wrong with a session file or around it.

::

    SessionError
    ├── SessionFormatError   the file is no session and no cassette, or of a newer version
    ├── SessionExists        the name is taken, or an interrupted recording waits under it
    ├── SessionBusy          another process is recording under this name
    └── FactoryRefused       the agent's factory cannot be found, or may not be imported
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
