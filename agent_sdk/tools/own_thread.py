"""Work that may hang, in a thread for which nobody waits."""

import asyncio
import contextlib
import threading
from collections.abc import Callable
from functools import partial
from typing import TypeVar

T = TypeVar("T")


async def in_own_thread(work: Callable[[], T], *, name: str) -> T:
    """Run work that may hang in a thread for which nobody waits, not even the program's end.

    The event loop's own threads are waited for when it is closed: one that
    hangs, on a network drive that is gone say, would keep the program alive.
    """
    loop = asyncio.get_running_loop()
    outcome: asyncio.Future[T] = loop.create_future()

    def run() -> None:
        settle: Callable[[], None]
        try:
            result = work()
        except BaseException as error:  # noqa: BLE001 - handed to whoever waits
            settle = partial(_fail, outcome, error)
        else:
            settle = partial(_succeed, outcome, result)
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(settle)

    threading.Thread(target=run, name=name, daemon=True).start()
    return await outcome


async def in_stoppable_thread(work: Callable[[threading.Event], T], *, name: str) -> T:
    """Run work as ``in_own_thread`` does; it is told to stop when nobody waits any more.

    Args:
        work: Gets an event that is set when its result is no longer wanted.
        name: The thread's name.
    """
    stop = threading.Event()
    try:
        return await in_own_thread(partial(work, stop), name=name)
    finally:
        stop.set()


def _succeed(outcome: asyncio.Future[T], result: T) -> None:
    if not outcome.done():
        outcome.set_result(result)


def _fail(outcome: asyncio.Future[T], error: BaseException) -> None:
    if not outcome.done():
        outcome.set_exception(error)
