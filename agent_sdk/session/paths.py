"""Where sessions lie on the disk.

``<agent dir>/sessions/<project key>/<session id>.jsonl``, and large binary
content in ``<agent dir>/artifacts/``.
"""

import os
import re
import zlib
from collections.abc import Mapping
from pathlib import Path

from agent_sdk.core.errors import InvalidInput, SessionNotFound

_ID = re.compile(r"[A-Za-z0-9_-]{1,128}")
_OTHER = re.compile(r"[^A-Za-z0-9]")
_MAX_KEY = 200
MIN_PREFIX = 8
"""Characters of a session id that are enough to name it, if they are unique."""


def agent_dir(environ: Mapping[str, str]) -> Path:
    """Return the folder for sessions and settings of the command line and SDK.

    Args:
        environ: Environment: ``ZPI_AGENT_DIR``, or the user's home folder.

    Raises:
        InvalidInput: If ``ZPI_AGENT_DIR`` is not an absolute path, or it is not
            set and there is no home folder.
    """
    named = environ.get("ZPI_AGENT_DIR", "")
    home = environ.get("USERPROFILE" if os.name == "nt" else "HOME", "")
    try:
        path = Path(named or home or "~").expanduser()
    except RuntimeError:  # the home of an unknown user, or of one that has none
        raise InvalidInput(
            f"ZPI_AGENT_DIR is {named!r}, and there is no such home folder.",
            hint="Give the whole path.",
        ) from None
    if not named:
        return path / ".zpi" / "agent"
    if not path.is_absolute():
        raise InvalidInput(
            f"ZPI_AGENT_DIR is {named!r}, which is not an absolute path.",
            hint="Give the whole path.",
        )
    return path


def real_folder(cwd: str | Path) -> str:
    """Return the folder's real, absolute path; it need not exist."""
    return os.path.realpath(cwd)


def same_folder(one: str, other: str) -> bool:
    """Whether two real paths name one folder, however Unicode was composed."""
    return one == other or _composed(one) == _composed(other)


def project_key(cwd: str | Path) -> str:
    """Return the name of a folder's sessions folder.

    Letters and digits of ASCII stay, everything else becomes ``-``. A long
    path, or one with other letters, ends with a checksum, so that folders
    with Chinese names do not share a key. Folders that differ in ASCII
    punctuation only do: readers compare the header's ``cwd`` too.
    """
    path = _composed(real_folder(cwd))
    key = _OTHER.sub("-", path)
    if path.isascii() and len(key) <= _MAX_KEY:
        return key
    return f"{key[:_MAX_KEY]}-{zlib.crc32(path.encode('utf-8', 'surrogatepass')):08x}"


def _composed(path: str) -> str:
    if path.isascii():
        return path
    import unicodedata  # noqa: PLC0415 - a large table, for few paths

    return unicodedata.normalize("NFC", path)


def check_session_id(session_id: str) -> str:
    """Return the id if it may be a file's name.

    Raises:
        InvalidInput: If it holds anything but letters, digits, ``_`` and ``-``.
    """
    if not _ID.fullmatch(session_id):
        raise InvalidInput(
            f"{session_id!r} is not a session id.",
            hint="An id has letters, digits, '-' and '_' only; `zpi sessions` lists them.",
        )
    return session_id


def session_path(sessions_dir: str | Path, cwd: str | Path, session_id: str) -> Path:
    """Return where a session's file is, or will be.

    Raises:
        InvalidInput: If the id may not be a file's name.
    """
    return Path(sessions_dir) / project_key(cwd) / f"{check_session_id(session_id)}.jsonl"


def find_session(sessions_dir: str | Path, session_id: str) -> Path:
    """Return the file of a session by its id, or a unique beginning of it.

    Raises:
        InvalidInput: If the id may not be a file's name, or its beginning
            fits several sessions.
        SessionNotFound: If there is none.
    """
    check_session_id(session_id)
    root = Path(sessions_dir)
    exact = sorted(root.glob(f"*/{session_id}.jsonl"))
    found = exact or (
        sorted(root.glob(f"*/{session_id}*.jsonl")) if len(session_id) >= MIN_PREFIX else []
    )
    if not found:
        raise SessionNotFound(
            f"There is no session {session_id!r}.", hint="`zpi sessions` lists them."
        )
    if len(found) > 1:
        names = ", ".join(path.stem for path in found[:5])
        raise InvalidInput(
            f"{session_id!r} fits {len(found)} sessions: {names}.", hint="Give more of the id."
        )
    return found[0]
