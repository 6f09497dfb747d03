"""One thread that does a session's blocking work, in order.

Batches that are queued while it is busy go down together; a call runs
between two batches. Outcomes are handed back on the event loop.
"""

import asyncio
import logging
import queue
import threading
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from msgspec import Struct

T = TypeVar("T")

logger = logging.getLogger("zpi.session")


class _Job(Struct, eq=False):
    """Something for the thread: a batch to commit, or a call."""

    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[Any]
    data: bytes = b""
    blobs: Mapping[str, bytes] = {}
    work: Callable[[], Any] | None = None
    last: bool = False


class WriterThread:
    """A thread that is started with its first job and commits in batches."""

    def __init__(self, commit: Callable[[bytes, Mapping[str, bytes]], None], *, name: str) -> None:
        self._commit = commit
        self._name = name
        self._jobs: queue.SimpleQueue[_Job] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    async def commit(self, data: bytes, blobs: Mapping[str, bytes]) -> None:
        """Have data committed; return when it is durable."""
        await self._put(data=data, blobs=blobs)

    async def call(self, work: Callable[[], T]) -> T:
        """Run something between two batches."""
        result: T = await self._put(work=work)
        return result

    async def close(self, work: Callable[[], None]) -> None:
        """Run something last, and end the thread."""
        if self._thread is None:
            work()
            return
        await asyncio.shield(self._put(work=work, last=True))
        self._thread.join()

    def _put(
        self,
        *,
        data: bytes = b"",
        blobs: Mapping[str, bytes] | None = None,
        work: Callable[[], Any] | None = None,
        last: bool = False,
    ) -> asyncio.Future[Any]:
        loop = asyncio.get_running_loop()
        job = _Job(loop, loop.create_future(), data, blobs or {}, work, last)
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            self._thread.start()
        self._jobs.put(job)
        return job.future

    def _run(self) -> None:
        waiting: list[_Job] = []
        while True:
            waiting = waiting or [self._jobs.get()]
            while not self._jobs.empty():
                waiting.append(self._jobs.get_nowait())
            if waiting[0].work is not None:
                job = waiting.pop(0)
                self._finish([job], *_outcome(job.work))
                if job.last:
                    return
                continue
            batch = []
            while waiting and waiting[0].work is None:
                batch.append(waiting.pop(0))
            self._commit_batch(batch)

    def _commit_batch(self, batch: list[_Job]) -> None:
        data = b"".join([job.data for job in batch])
        blobs = {name: content for job in batch for name, content in job.blobs.items()}
        self._finish(batch, *_outcome(lambda: self._commit(data, blobs)))

    def _finish(self, jobs: list[_Job], result: object, error: BaseException | None) -> None:
        for job in jobs:
            try:
                job.loop.call_soon_threadsafe(_resolve, job.future, result, error)
            except RuntimeError:  # the loop is closed: nobody waits any more
                logger.debug("a commit ended after its event loop")


def _outcome(work: Callable[[], Any] | None) -> tuple[Any, BaseException | None]:
    try:
        return (work() if work else None), None
    except BaseException as error:  # noqa: BLE001 - handed to whoever waits
        return None, error


def _resolve(future: asyncio.Future[Any], result: object, error: BaseException | None) -> None:
    if future.done():  # its waiter was cancelled
        return
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)
