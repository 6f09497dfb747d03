"""A clock that stands still, and a network of which each answer is written down."""

import asyncio
import heapq
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Literal, TypeAlias

from agent_sdk.core.errors import ProviderError
from agent_sdk.providers.failures import broken
from agent_sdk.providers.transport import Reply

STALL: Literal["stall"] = "stall"
Step: TypeAlias = bytes | Exception | Literal["stall"]

_CYCLES = 25
"""Turns of the loop after which everything that could go on has gone on."""


async def settle() -> None:
    for _ in range(_CYCLES):
        await asyncio.sleep(0)


class ManualClock:
    """Time passes only when a test says so."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.slept: list[float] = []
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._count = 0

    def iso(self) -> str:
        return "2026-01-02T03:04:05.678Z"

    def monotonic(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        woken = asyncio.get_running_loop().create_future()
        self._count += 1
        heapq.heappush(self._sleepers, (self.now + seconds, self._count, woken))
        await woken

    async def advance(self, seconds: float) -> None:
        """Let time pass, with all that happens meanwhile."""
        end = self.now + seconds
        await settle()
        while self._sleepers and self._sleepers[0][0] <= end:
            self.now, _, woken = heapq.heappop(self._sleepers)
            if not woken.done():
                woken.set_result(None)
            await settle()
        self.now = end
        await settle()


class FakeReply:
    """An answer that goes as written: bytes, an error, or silence until it is aborted."""

    def __init__(
        self, *steps: Step, status: int = 200, headers: Mapping[str, str] | None = None
    ) -> None:
        self.status = status
        self.headers: Mapping[str, str] = headers or {}
        self.closed = False
        self._steps = steps
        self._aborted = asyncio.Event()

    async def chunks(self) -> AsyncIterator[bytes]:
        for step in self._steps:
            if step == STALL:
                await self._aborted.wait()
                raise broken("http://h", "because it was aborted")
            if isinstance(step, Exception):
                raise step
            if isinstance(step, bytes):
                yield step

    def abort(self) -> None:
        self._aborted.set()

    async def aclose(self) -> None:
        self.closed = True


class Sent:
    """One request as the fake network got it."""

    def __init__(self, url: str, headers: Mapping[str, str], body: bytes) -> None:
        self.url = url
        self.headers = headers
        self.body = body


class FakeTransport:
    """Gives the answers in order; an error stands for a request without one."""

    def __init__(self, answers: Sequence[FakeReply | ProviderError | Literal["stall"]]) -> None:
        self.sent: list[Sent] = []
        self.cancelled = 0
        self.closed = 0
        self._answers = list(answers)

    async def open(self, url: str, headers: Mapping[str, str], body: bytes) -> Reply:
        self.sent.append(Sent(url, headers, body))
        answer = self._answers.pop(0)
        if isinstance(answer, ProviderError):
            raise answer
        if isinstance(answer, FakeReply):
            return answer
        try:
            await asyncio.Event().wait()
        finally:
            self.cancelled += 1
        return FakeReply()

    async def aclose(self) -> None:
        self.closed += 1
