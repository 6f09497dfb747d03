"""What starting a child takes and what comes of it, on every platform."""

import os
from collections.abc import Callable, Mapping
from typing import Literal, TypeAlias

from msgspec import Struct
from typing_extensions import override

from agent_sdk.core.errors import ProcessError

OutputSink: TypeAlias = Callable[[bytes], None]
"""Takes what a child wrote, in the order it was written; must not raise or block."""

TERM_GRACE = 1.0
"""Seconds that a process has between the polite signal and the one it cannot refuse."""

QUIET = 0.1
"""Seconds without output after which a child that has exited is taken as done."""

DRAIN = 0.5
"""Most seconds to go on reading after the exit of a child whose output stays open."""

READ_SIZE = 64 * 1024
"""Bytes taken from a child's output at once: what a pipe holds."""


class WorkingFolderError(ProcessError):
    """The child was not started because its folder cannot be entered."""

    code = "process_folder"


class SpawnSpec(Struct, frozen=True, kw_only=True):
    """What to start, and how.

    Attributes:
        argv: Program and arguments. The program is an absolute path: nothing
            is looked up in ``PATH``, so that a file of the same name in the
            project is never started by accident.
        cwd: Folder to start in, absolute.
        env: The whole environment, see ``core.environment``. The owner adds
            ``ZPI_TASK_ID``, by which its descendants can be recognised.
        stdin: ``null`` for an empty input, ``pipe`` for ``Child.write``.
        merge_stderr: Whether errors go where output goes, in the order they
            were written. Otherwise they go to ``on_stderr``, or nowhere.
    """

    argv: tuple[str, ...]
    cwd: str
    env: Mapping[str, str]
    stdin: Literal["null", "pipe"] = "null"
    merge_stderr: bool = True


class ExitStatus(Struct, frozen=True):
    """How a child ended: by itself with a code, or by a signal."""

    code: int | None = None
    signal: int | None = None

    @classmethod
    def of(cls, returncode: int) -> "ExitStatus":
        """Return the status for a code in which signals are negative."""
        return cls(signal=-returncode) if returncode < 0 else cls(code=returncode)

    @property
    def ok(self) -> bool:
        """Whether it ended by itself with code 0."""
        return self.code == 0

    @override
    def __str__(self) -> str:
        return f"exit code {self.code}" if self.signal is None else f"signal {self.signal}"


def check_spec(spec: SpawnSpec, *, isabs: Callable[[str], bool]) -> None:
    """Refuse what the operating system would misunderstand.

    Raises:
        ProcessError: If the program is not an absolute path, a variable has
            no usable name, or a string holds a NUL or cannot be encoded.
    """
    if not spec.argv or not isabs(spec.argv[0]):
        raise ProcessError(
            f"Cannot start {spec.argv[:1]!r}: the program must be an absolute path.",
            hint="Resolve it first.",
        )
    for name in spec.env:
        if not name or "=" in name:
            raise ProcessError(
                f"Cannot start {spec.argv[0]!r}: no variable can have the name {name!r}."
            )
    for text in (spec.cwd, *spec.argv, *spec.env, *spec.env.values()):
        if "\0" in text:
            raise ProcessError(
                f"Cannot start {spec.argv[0]!r}: an argument or variable holds a NUL character."
            )
        try:
            os.fsencode(text)
        except UnicodeEncodeError:
            raise ProcessError(
                f"Cannot start {spec.argv[0]!r}: {text[:60]!r} is not valid Unicode."
            ) from None
