"""Named places where a test can make the machine fail.

A failpoint is armed by ``ZPI_FAILPOINT=<name>:<n>:<action>``, and only in a
process that was started with ``ZPI_TEST_BUILD=1`` too; otherwise
``PROCESS_FAULTS`` is None, and a failpoint costs one comparison. Tests in
the same process hand a ``Faults`` of their own to whatever writes.

``<name>`` is a point such as ``append.write``, or ``*`` for every point;
``<n>`` says which hit of it fails, counted from 1. The actions are ``kill``
(SIGKILL to oneself), ``torn`` (write half, then die), ``enospc`` and ``eio``
(the call fails so), ``short`` (half is written, which the call reports) and
``delay`` (50 ms).
"""

import errno
import os
import signal
import sys
import time
from collections.abc import Mapping
from typing import Literal, NoReturn, TypeAlias, get_args

from agent_sdk.core.errors import ConfigurationError

Action: TypeAlias = Literal["kill", "torn", "enospc", "eio", "short", "delay"]

_DELAY_SECONDS = 0.05


class Faults:
    """One armed failpoint, and the count of the points that were passed.

    Attributes:
        hits: How many points of that name have been passed; for ``*`` all.
    """

    def __init__(self, *, name: str, nth: int, action: Action) -> None:
        self._name = name
        self._nth = nth
        self._action = action
        self.hits = 0

    def strike(self, point: str) -> Action | None:
        """Count the point and return the action to take there, if any."""
        if self._name not in ("*", point):
            return None
        self.hits += 1
        return self._action if self.hits == self._nth else None

    def act(self, point: str) -> None:
        """Pass a point that is not a write.

        Raises:
            OSError: For ``enospc`` and ``eio``.
        """
        action = self.strike(point)
        if action in ("kill", "torn"):
            die()
        if action in ("enospc", "eio"):
            raise fault_error(action)
        if action == "delay":
            time.sleep(_DELAY_SECONDS)


def die() -> NoReturn:
    """End this process at once, as a power cut would: no clean-up runs."""
    if sys.platform != "win32":
        os.kill(os.getpid(), signal.SIGKILL)
    os._exit(137)


def fault_error(action: str) -> OSError:
    """Return the error of a device that is full, or broken."""
    number = errno.ENOSPC if action == "enospc" else errno.EIO
    return OSError(number, os.strerror(number))


def faults_from(environ: Mapping[str, str]) -> Faults | None:
    """Return the failpoint that the environment arms; None without a test build.

    Raises:
        ConfigurationError: If ``ZPI_FAILPOINT`` is not ``name:n:action``.
    """
    spec = environ.get("ZPI_FAILPOINT", "")
    if not spec or environ.get("ZPI_TEST_BUILD") != "1":
        return None
    name, _, rest = spec.partition(":")
    nth, _, action = rest.partition(":")
    for known in get_args(Action):
        if known == action and name and nth.isascii() and nth.isdigit() and int(nth) > 0:
            return Faults(name=name, nth=int(nth), action=known)
    raise ConfigurationError(
        f"ZPI_FAILPOINT is {spec!r}, which names no failpoint.",
        hint="Write <name>:<n>:<action>, such as append.write:3:kill.",
    )


PROCESS_FAULTS = faults_from(os.environ)
"""What the environment armed when this process started; None in real use."""
