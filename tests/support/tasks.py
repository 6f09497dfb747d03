"""Fails a test that ends while a task that it started still runs."""

import asyncio
import functools
import weakref
from collections.abc import Awaitable, Callable
from typing import Any

GRACE_CYCLES = 3
"""Turns of the loop that a task gets to end after the test, as after ``cancel()``."""


_wrapped: weakref.WeakSet[Callable[..., Awaitable[Any]]] = weakref.WeakSet()


class LeakedTasks(AssertionError):
    """Tasks were left running; whoever starts one must wait for its end."""


def without_leaks(test: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    """Wrap a test coroutine function so that leaked tasks fail it.

    Tasks that fixtures started before the test are theirs to end. Wrapping
    twice is wrapping once: parametrised cases share their function.
    """
    if test in _wrapped:
        return test

    @functools.wraps(test)
    async def checked(*args: Any, **kwargs: Any) -> Any:
        before = asyncio.all_tasks()
        result = await test(*args, **kwargs)
        for _ in range(GRACE_CYCLES):
            if not asyncio.all_tasks() - before:
                break
            await asyncio.sleep(0)
        leaked = sorted(task.get_name() for task in asyncio.all_tasks() - before)
        if leaked:
            raise LeakedTasks(f"still running at the end of the test: {', '.join(leaked)}")
        return result

    _wrapped.add(checked)
    return checked
