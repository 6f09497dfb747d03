"""Which program searches, and how it is asked. Pure but for look-ups.

ripgrep where there is one: beside the Python that runs (it comes from a wheel)
or in ``PATH``. Its engine takes linear time whatever the pattern. Otherwise
this Python in a process of its own (``grep_child``), which is ended when the
time is over. Both are told the files one by one, so that what is searched does
not depend on which of them it is.
"""

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec
from msgspec import Struct

from agent_sdk.core.environment import search_path

GrepMode: TypeAlias = Literal["content", "files", "count"]

SEARCH_MODE = "--zpi-search"
"""First argument by which a frozen program is asked to search: it then calls
``grep_child.main(sys.argv[2], sys.argv[3:])`` before it imports anything."""

_BOOT = (
    "import sys; sys.path.append(sys.argv[1]); import grep_child;"
    " sys.exit(grep_child.main(sys.argv[2], sys.argv[3:]))"
)
_NAME = "rg.exe" if sys.platform == "win32" else "rg"

_BATCH_BYTES = 24_000 if sys.platform == "win32" else 96_000
"""Bytes of paths that one command line takes; Windows has 32 KiB for all of it."""


class GrepJob(Struct, frozen=True, kw_only=True):
    """What to look for.

    Attributes:
        pattern: The expression, as ``grep_pattern`` writes it.
        mode: What to write: lines, names of files, or numbers of lines.
        before: Lines to show before each match.
        after: Lines to show behind it.
        ignore_case: Whether case makes no difference.
        multiline: Whether a match may go across lines.
        most: Matching lines of one file after which the rest of it is left out.
    """

    pattern: str
    mode: GrepMode
    before: int = 0
    after: int = 0
    ignore_case: bool = False
    multiline: bool = False
    most: int = 2_000


def find_ripgrep(env: Mapping[str, str], *, project: str) -> str:
    """Return the absolute path of ripgrep; empty if there is none.

    Args:
        env: Environment with the ``PATH`` to look in.
        project: Folder in which no program is looked up.
    """
    beside = [str(Path(sys.executable).parent)] if sys.executable else []
    for folder in (*beside, *search_path(env, outside=[project])):
        place = Path(folder, _NAME)
        if place.is_file() and os.access(place, os.X_OK):
            return str(place)
    return ""


def ripgrep_command(program: str, job: GrepJob) -> tuple[str, ...]:
    """Return the command to which the files are appended."""
    # No file of settings, and every file that is named is searched as text.
    options = ["--no-config", "--no-messages", "--no-ignore", "--hidden", "--text", "--crlf"]
    options.append(f"--regexp={job.pattern}")
    if job.ignore_case:
        options.append("--ignore-case")
    else:
        options.append("--case-sensitive")
    if job.multiline:
        options += ["--multiline", "--multiline-dotall"]
    match job.mode:
        case "content":
            options += [
                "--json",
                f"--before-context={job.before}",
                f"--after-context={job.after}",
                f"--max-count={job.most}",
            ]
        case "files":
            options += ["--files-with-matches", "--null"]
        case "count":
            options += ["--count", "--with-filename", "--null", f"--max-count={job.most}"]
    return (program, *options, "--")


def python_command(job: GrepJob) -> tuple[str, ...]:
    """Return the command of the program that stands in for ripgrep."""
    text = msgspec.json.encode(job).decode()
    if getattr(sys, "frozen", False):
        return (sys.executable, SEARCH_MODE, text)
    folder = str(Path(__file__).parent)
    return (sys.executable, "-I", "-S", "-c", _BOOT, folder, text)


def batches(paths: Sequence[str]) -> Iterator[list[str]]:
    """Yield relative paths in pieces that fit on a command line, with ``./`` in front."""
    batch: list[str] = []
    size = 0
    for path in paths:
        argument = f"./{path}"
        size += len(os.fsencode(argument)) + 1
        if batch and size > _BATCH_BYTES:
            yield batch
            batch, size = [], len(os.fsencode(argument)) + 1
        batch.append(argument)
    if batch:
        yield batch
