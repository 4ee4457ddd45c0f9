"""What is left when all is done: a small session, and a test that is red until it is mended."""

from __future__ import annotations

import json
import re
from pathlib import Path

from harness.files import write_atomically
from harness.minimize.failure import Failure
from harness.minimize.shrink import Minimized
from harness.sessions.cassette import load_session, render_session
from harness.sessions.errors import SessionError, SessionExists

_SUFFIX = "-min"
_NO_NAME = re.compile(r"\W+")

_MEANT = """
If the change was meant and is accepted (`agentrig replay … --accept`, or recorded again), this
test has done its work: remove it and its session.
"""

_TEST = '''\
"""Fails as session {name} did; passes once the defect is mended. Made by `agentrig minimize`.

{fingerprint}
{meant}"""

from pathlib import Path

from harness.minimize import assert_mended

SESSION = Path(__file__).with_name({file})


def test_{function}() -> None:
    """The session does not fail any more."""
    assert_mended(
        SESSION,
{arguments}
    )
'''


def write(result: Minimized, folder: Path, *, agent: str) -> list[Path]:
    """Write the session and the test; each appears whole or not at all.

    Args:
        agent: factory of the agent, as the test names it.

    Raises:
        SessionExists: there is a file of this name that is not a minimized session.
        OSError: the folder cannot be written.
    """
    session = folder / f"{result.name}{_SUFFIX}.yaml"
    function = _NO_NAME.sub("_", result.name)
    test = folder / f"test_{function}{_SUFFIX.replace('-', '_')}.py"
    _check_free(session)
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(session, render_session(result.file))
    write_atomically(test, _test(result, session.name, function, agent))
    return [session, test]


def _test(result: Minimized, file: str, function: str, agent: str) -> str:
    failure = result.failure
    arguments = [f"agent={_quoted(agent)}", f"check={_quoted(failure.check)}"]
    if failure.check == "lint":
        arguments.append(f"rule={_quoted(failure.error)}")
    return _TEST.format(
        name=result.name,
        fingerprint=_in_docstring(failure),
        meant=_MEANT if failure.check == "replay" else "",
        file=_quoted(file),
        function=function.lower(),
        arguments="\n".join(f"        {each}," for each in arguments),
    )


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _in_docstring(failure: Failure) -> str:
    """The fingerprint, which may hold text of anybody, so that it cannot end the docstring."""
    return str(failure).replace("\\", "/").replace('"', "'").replace("\n", " ")


def _check_free(path: Path) -> None:
    if not path.exists():
        return
    try:
        derived = load_session(path).provenance.derived
    except SessionError:
        derived = None
    if derived is None or not derived.startswith("minimized"):
        raise SessionExists(f"{path} exists and is no minimized session; choose another --out")
