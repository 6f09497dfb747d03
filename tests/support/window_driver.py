"""Drives the window program: orders to it, and what it shows."""

import asyncio
import contextlib
import sys
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from tests.support.repository import ROOT

PATIENCE = 60.0
"""Seconds after which a window that does nothing fails the test."""


class WindowDriver:
    """A real window in a process of its own, told what to do by lines."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.states: list[dict[str, Any]] = []
        self._news = asyncio.Event()
        self._reading = asyncio.create_task(self._read())

    async def _read(self) -> None:
        assert self.process.stdout is not None
        while line := await self.process.stdout.readline():
            if line.endswith(b"\n"):
                self.states.append(msgspec.json.decode(line))
            self._news.set()

    @property
    def now(self) -> dict[str, Any]:
        """The newest that is shown."""
        return self.states[-1] if self.states else {}

    def order(self, *words: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(msgspec.json.encode(words) + b"\n")

    async def until(
        self, condition: Any, what: str, *, seconds: float = PATIENCE
    ) -> dict[str, Any]:
        """Wait until the newest state fits."""
        end = time.monotonic() + seconds
        while not (self.now and condition(self.now)):
            left = end - time.monotonic()
            if left <= 0 or self.process.returncode is not None:
                raise AssertionError(f"it was not so: {what}; shown is {_short(self.now)}")
            self._news.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._news.wait(), min(left, 0.5))
        return self.now

    async def ended(self) -> None:
        """Wait for its end, and for the last that it has said."""
        await self.process.wait()
        await self._reading

    async def aclose(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()
        await self.ended()
        transport: Any = getattr(self.process, "_transport", None)
        if transport is not None:
            transport.close()


def _short(state: dict[str, Any]) -> dict[str, Any]:
    texts = [
        part.get("text", part.get("type"))
        for message in state.get("messages", {}).values()
        for part in message["parts"].values()
    ]
    return {**state, "messages": texts}


@asynccontextmanager
async def driven_window(home: Path, environ: Mapping[str, str]) -> AsyncIterator[WindowDriver]:
    """Start a window for a user with this home folder; killed at the end of the block."""
    with (home / "window.log").open("ab") as log:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "tests.support.window_program",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=log,
            env=dict(environ),
            cwd=ROOT,
            limit=1 << 24,
        )
    driver = WindowDriver(process)
    try:
        yield driver
    finally:
        await driver.aclose()
