"""Where the desktop keeps what it must remember.

``<data>/`` is ``ZPI_DATA_DIR``, or the platform's folder for a user's data::

    generations/1/state.sqlite     index, queue, events, settings, encrypted keys
    generations/1/owner.lock       held by the one host
    generations/1/sessions/        ``<project>/<id>.jsonl``
    generations/1/artifacts/       large content of sessions
    generations/1/drafts/          answers that are being shown and are not whole

A new layout is a new generation beside the old one.
"""

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

GENERATION = 1


class DataPaths(Struct, frozen=True):
    """The folders and files below one data folder; none of them need exist.

    Attributes:
        data: The data folder, absolute.
    """

    data: Path

    @property
    def generation(self) -> Path:
        """Folder of the layout in use."""
        return self.data / "generations" / str(GENERATION)

    @property
    def database(self) -> Path:
        """The state database."""
        return self.generation / "state.sqlite"

    @property
    def lock(self) -> Path:
        """The file whose lock makes a process the host."""
        return self.generation / "owner.lock"

    @property
    def sessions(self) -> Path:
        """Folder of all session files."""
        return self.generation / "sessions"

    @property
    def drafts(self) -> Path:
        """Folder of what is shown of answers before they are whole."""
        return self.generation / "drafts"

    @property
    def artifacts(self) -> Path:
        """Folder of sessions' large content."""
        return self.generation / "artifacts"


def data_dir(environ: Mapping[str, str]) -> Path:
    """Return the data folder.

    Args:
        environ: The environment: ``ZPI_DATA_DIR`` wins, where it is set.

    Raises:
        ValueError: If ``ZPI_DATA_DIR`` is not an absolute path, or there is
            neither that nor a home folder.
    """
    named = environ.get("ZPI_DATA_DIR", "")
    if named:
        path = Path(named)
        if not path.is_absolute():
            raise ValueError(
                f"ZPI_DATA_DIR is {named!r}, which is not an absolute path. Give the whole path."
            )
        return path
    return _platform_data(environ) / "zpi"


def _platform_data(environ: Mapping[str, str]) -> Path:
    if sys.platform == "win32":
        local = environ.get("LOCALAPPDATA", "")
        return Path(local) if local else _home(environ) / "AppData" / "Local"
    if sys.platform == "darwin":
        return _home(environ) / "Library" / "Application Support"
    given = environ.get("XDG_DATA_HOME", "")
    # The standard says that a relative path there is to be ignored.
    return Path(given) if given and Path(given).is_absolute() else _home(environ) / ".local/share"


def _home(environ: Mapping[str, str]) -> Path:
    home = environ.get("USERPROFILE" if os.name == "nt" else "HOME", "")
    if not home:
        raise ValueError("There is no home folder. Set ZPI_DATA_DIR to an absolute path.")
    return Path(home)
