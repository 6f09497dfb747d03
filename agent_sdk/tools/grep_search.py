"""Runs the programs of one search, one after the other, within a time."""

import asyncio
import logging
import os
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Literal

from msgspec import Struct

from agent_sdk.core.errors import ProcessError, ToolError
from agent_sdk.core.fsio_at import Folder
from agent_sdk.core.process import Child, ProcessOwner, SpawnSpec
from agent_sdk.tools.grep_output import GrepOutput
from agent_sdk.tools.grep_program import batches

logger = logging.getLogger("zpi.tools")

MAX_RESULTS = 10_000
"""Results after which no further files are searched."""

_HEAD = 8 * 1024
"""Bytes at the start of a file in which a NUL makes it a binary one, as git has it."""

_GRACE = 0.2
_ERROR_BYTES = 4_096
_BYTE_ORDER_MARKS = (b"\xff\xfe", b"\xfe\xff")


class SearchEnd(Struct):
    """How a search ended.

    Attributes:
        cut: Why not all files were searched; empty if they were.
        unreadable: Whether some files could not be opened.
    """

    cut: Literal["", "time", "enough"] = ""
    unreadable: bool = False


async def run_search(
    command: Sequence[str],
    paths: Sequence[str],
    *,
    processes: ProcessOwner,
    environment: Mapping[str, str],
    folder: str,
    output: GrepOutput,
    enough: int,
    seconds: float,
) -> SearchEnd:
    """Search files until all are done, there is enough, or the time is over.

    Args:
        command: The program and its options; files are appended.
        paths: The files, relative to ``folder``, in order.
        processes: Starts the programs.
        environment: Their environment.
        folder: Real path of the folder.
        output: Gets what they write.
        enough: Results after which no further program is started.
        seconds: Most time for all of them.

    Raises:
        ToolError: If a program cannot be started, or refuses the pattern.
    """
    end = SearchEnd()
    deadline = asyncio.get_running_loop().time() + seconds
    for batch in batches(paths):
        if output.results >= enough:
            end.cut = "enough"
            break
        spec = SpawnSpec(argv=(*command, *batch), cwd=folder, env=environment, merge_stderr=False)
        errors = bytearray()
        try:
            child = await processes.spawn(
                spec, on_output=output.feed, on_stderr=partial(_keep, errors)
            )
            code = await _finish(child, deadline)
        except ProcessError as error:
            raise ToolError(f"The search failed: {error.message}", hint=error.hint) from error
        finally:
            output.end_program()
        if code is None:
            end.cut = "time"
            break
        if errors and code != 0:
            said = errors.decode(errors="replace").strip().splitlines() or ["no reason given"]
            raise ToolError(f"The search failed: {said[-1][:300]}")
        end.unreadable = end.unreadable or code not in (0, 1)
    return end


def is_text(folder: str, path: str) -> bool:
    """Return whether a file is no binary one; one that cannot be looked at is none.

    Args:
        folder: Real path of the folder.
        path: The file, relative to it, with ``/``.
    """
    below, _, name = path.rpartition("/")
    parent = f"{folder.rstrip(os.sep)}{os.sep}{below.replace('/', os.sep)}" if below else folder
    try:
        with Folder.open(parent) as opened:
            descriptor = opened.open_file(name)
    except OSError:
        return False
    try:
        head = os.read(descriptor, _HEAD)
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return head.startswith(_BYTE_ORDER_MARKS) or b"\0" not in head


def _keep(errors: bytearray, data: bytes) -> None:
    errors += data[: max(0, _ERROR_BYTES - len(errors))]


async def _finish(child: Child, deadline: float) -> int | None:
    """Wait for the program; return its exit code, None if the time was over."""
    try:
        async with asyncio.timeout_at(deadline):
            status = await child.wait()
    except TimeoutError:
        await child.kill_tree(grace=_GRACE)
        return None
    except asyncio.CancelledError:
        try:
            await child.kill_tree(grace=_GRACE)
        except ProcessError as error:
            logger.warning("a stopped search left something behind: %s", error.message)
        raise
    if status.code is None:
        raise ProcessError(f"the program was ended by {status}")
    return status.code
