"""Tasks with an owner, and a signal by which work is stopped.

No other module creates tasks: a task that nobody owns loses its exception and
outlives what it belongs to. Whoever needs concurrency gets a ``TaskOwner``,
which names, watches, cancels and drains what it started.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Coroutine
from types import TracebackType
from typing import Any, Self, TypeVar

from agent_sdk.core.errors import Aborted

T = TypeVar("T")

logger = logging.getLogger("zpi.tasks")


class TaskOwner:
    """Starts tasks and answers for their end.

    Use it as an async context manager: leaving the block cancels what still
    runs and waits for it. A task that fails without being awaited by someone
    is logged once, with its name.
    """

    def __init__(self, *, name: str) -> None:
        self._name = name
        self._tasks: set[asyncio.Task[Any]] = set()
        self._closed = False

    @property
    def running(self) -> int:
        """How many tasks have not ended yet."""
        return len(self._tasks)

    def start(self, work: Coroutine[Any, Any, T], *, name: str) -> asyncio.Task[T]:
        """Start a task.

        Args:
            work: The coroutine to run.
            name: What it does, for logs.

        Returns:
            The task; its result may be awaited, but need not be.

        Raises:
            Aborted: If the owner has been closed already.
        """
        if self._closed:
            work.close()
            raise Aborted(f"{self._name!r} is closed; cannot start {name!r}.")
        task = asyncio.create_task(work, name=f"{self._name}/{name}")
        self._tasks.add(task)
        task.add_done_callback(self._on_done)
        return task

    def _on_done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if task.cancelled():
            return
        error = task.exception()  # marks it as retrieved: we are the ones who look
        if error is not None and not isinstance(error, Aborted):
            logger.debug("task %s ended with %s", task.get_name(), type(error).__name__)

    def cancel(self) -> None:
        """Ask every task to stop; does not wait."""
        for task in tuple(self._tasks):
            task.cancel()

    async def drain(self) -> None:
        """Wait until every task has ended, whatever its outcome."""
        while self._tasks:
            await asyncio.wait(tuple(self._tasks))

    async def aclose(self) -> None:
        """Cancel and drain; nothing can be started afterwards."""
        self._closed = True
        self.cancel()
        await self.drain()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()


class AbortSignal:
    """Says that work should stop, and why; can be waited for.

    A signal is set once and stays set. A child signal is set with its parent,
    or alone.
    """

    def __init__(self) -> None:
        self._reason: str | None = None
        self._waiters: list[Callable[[], None]] = []

    @property
    def aborted(self) -> bool:
        """Whether the signal is set."""
        return self._reason is not None

    @property
    def reason(self) -> str:
        """Why it was set; empty while it is not."""
        return self._reason or ""

    def abort(self, reason: str = "stopped by the user") -> None:
        """Set the signal. Doing it again changes nothing."""
        if self._reason is not None:
            return
        self._reason = reason or "stopped"
        waiters, self._waiters = self._waiters, []
        for wake in waiters:
            wake()

    def raise_if_aborted(self) -> None:
        """Raise ``Aborted`` if the signal is set."""
        if self._reason is not None:
            raise Aborted(self._reason)

    def on_abort(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call back once when the signal is set (at once if it is already).

        Returns:
            A function that withdraws the callback; it may be called twice.
        """
        if self._reason is not None:
            callback()
            return lambda: None
        self._waiters.append(callback)

        def withdraw() -> None:
            with contextlib.suppress(ValueError):
                self._waiters.remove(callback)

        return withdraw

    def child(self) -> "AbortSignal":
        """Return a signal that is set with this one."""
        signal = AbortSignal()
        self.on_abort(lambda: signal.abort(self.reason))
        return signal

    async def guard(self, work: Awaitable[T]) -> T:
        """Await ``work``, but stop it when the signal is set.

        The work is cancelled and waited for, so that its clean-up has run
        before this returns. A result that was ready first wins.

        Raises:
            Aborted: If the signal stopped it.
        """
        if self._reason is not None and asyncio.iscoroutine(work):
            work.close()
        self.raise_if_aborted()
        task = asyncio.ensure_future(work)
        withdraw = self.on_abort(lambda: _cancel(task))
        try:
            return await task
        except asyncio.CancelledError:
            if not task.done():  # we ourselves were cancelled, not the work
                task.cancel()
                await asyncio.wait([task])
                raise
            current = asyncio.current_task()
            if self._reason is not None and not (current and current.cancelling()):
                raise Aborted(self._reason) from None
            raise
        finally:
            withdraw()


def _cancel(task: asyncio.Future[Any]) -> None:
    task.cancel()
