"""What a program that holds keys does to itself before it does anything else.

Children run as the same user, so without this any of them could read the
program's memory, its core dump, or its first environment in ``/proc``. The
umask stays as it is: the user's files and commands need the user's own.
"""

import os
import sys
from collections.abc import Callable, Iterable, Iterator, MutableMapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ctypes

_PR_SET_DUMPABLE = 4
_ENV_START = 47
"""Which field of ``/proc/self/stat`` after the name; field 50 counted from the pid."""


def harden_process(
    secrets: Iterable[str], *, environ: MutableMapping[str, str] = os.environ
) -> dict[str, str]:
    """Close the process to its children, and take keys out of its environment.

    Core dumps are switched off. On Linux other processes of the user can no
    longer trace this one or read its memory, environment and descriptors. Best
    called before any thread is started. Takes a few milliseconds.

    Args:
        secrets: Names of variables that hold keys.
        environ: The process's environment.

    Returns:
        The variables that were set, by name, with what they held.
    """
    captured = {name: environ[name] for name in secrets if environ.get(name)}
    if sys.platform == "win32":
        for name in captured:
            del environ[name]
        return captured
    import ctypes  # noqa: PLC0415 - 3 ms that only a whole program has to pay

    libc = ctypes.CDLL(None)
    if captured:
        # Removing a variable leaves its bytes where the kernel put them, and
        # there /proc/<pid>/environ and ps show them.
        libc.getenv.restype = ctypes.c_void_p
        for address, length in _values(libc, captured, read=ctypes.string_at):
            ctypes.memset(address, 0, length)
    for name in captured:
        del environ[name]
    import resource  # noqa: PLC0415 - as above

    hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
    resource.setrlimit(resource.RLIMIT_CORE, (0, hard))  # a command may ask for its own
    if sys.platform == "linux":
        libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    return captured


def _values(
    libc: "ctypes.CDLL", names: Iterable[str], *, read: Callable[[int, int], bytes]
) -> Iterator[tuple[int, int]]:
    """Yield address and length of what the variables held when the process began.

    Args:
        libc: The C library; its ``getenv`` returns addresses.
        names: Names of the variables.
        read: Returns the bytes at an address, up to the first NUL for length -1.
    """
    if sys.platform != "linux":
        for name in names:
            if address := libc.getenv(os.fsencode(name)):
                yield address, len(read(address, -1))
        return
    # The whole block, and not what getenv finds: a variable may be there twice,
    # or may have been replaced since.
    wanted = {os.fsencode(name) for name in names}
    with open("/proc/self/stat", "rb") as file:  # noqa: PTH123 - no pathlib before it is needed
        fields = file.read().rpartition(b")")[2].split()
    at, end = int(fields[_ENV_START]), int(fields[_ENV_START + 1])
    for pair in read(at, end - at).split(b"\0"):
        name_bytes, equals, value = pair.partition(b"=")
        if equals and name_bytes in wanted:
            yield at + len(name_bytes) + 1, len(value)
        at += len(pair) + 1
