"""Asking for permission on a terminal."""

import asyncio
import sys
from typing import Protocol

from agent_sdk.cli.i18n import Translator
from agent_sdk.cli.streams import Out
from agent_sdk.core.errors import Aborted
from agent_sdk.loop.types import PermissionAsked
from agent_sdk.permissions.engine import PermissionReply
from agent_sdk.tools.path_text import visible


class LineSource(Protocol):
    """Where answers come from."""

    async def line(self) -> str:
        """Return the next line without its end.

        Raises:
            Aborted: If there is none.
        """
        ...


class StandardInput:
    """Lines of standard input, read without holding up the event loop."""

    async def line(self) -> str:
        """Return the next line without its end; cancellable at once."""
        if sys.platform == "win32":
            text: str = await asyncio.to_thread(sys.stdin.readline)
        else:
            text = await self._readable()
        if not text:
            raise Aborted("standard input has ended")
        return text.rstrip("\n")

    async def _readable(self) -> str:
        loop = asyncio.get_running_loop()
        ready: asyncio.Future[None] = loop.create_future()
        fd = sys.stdin.fileno()
        # A terminal hands over whole lines, so one read is one answer.
        loop.add_reader(fd, _wake, ready)
        try:
            await ready
        finally:
            loop.remove_reader(fd)
        return sys.stdin.readline()


class TerminalAsker:
    """Puts each question to the person at the terminal, one at a time.

    Args:
        err: Where questions are written.
        lines: Where answers come from.
        tr: The user's language.
    """

    def __init__(self, *, err: Out, lines: LineSource, tr: Translator) -> None:
        self._err = err
        self._lines = lines
        self._tr = tr
        self._turn = asyncio.Lock()

    async def ask(self, asked: PermissionAsked) -> PermissionReply:
        """Put the question; what is no answer is asked again."""
        async with self._turn:
            self._err.write(self._question(asked).encode("utf-8", "replace"))
            can_always = _can_always(asked)
            while True:
                answer = (await self._lines.line()).strip()
                match answer.lower():
                    case "y" | "yes" | "是":
                        return PermissionReply(reply="once", input_hash=asked.input_hash)
                    case "a" | "always" | "总是" if can_always:
                        return PermissionReply(reply="always", input_hash=asked.input_hash)
                    case "n" | "no" | "否":
                        return PermissionReply(reply="reject", input_hash=asked.input_hash)
                    case _ if answer.lower().startswith(("n ", "no ", "否 ")):
                        reason = answer.split(" ", 1)[1]
                        return PermissionReply(
                            reply="reject", reason=reason, input_hash=asked.input_hash
                        )
                    case _:
                        self._err.write(self._choices(can_always=can_always).encode())

    def _question(self, asked: PermissionAsked) -> str:
        lines = [f"? {asked.call.name}"]
        for request in asked.requests:
            lines.append(f"  {visible(request.title or request.permission)}")
            lines += [f"    {visible(p)}" for p in request.patterns if p not in request.title]
            if request.protected:
                lines.append(self._tr("    This is protected: it is asked about every time."))
        if _can_always(asked):
            shown = ", ".join(
                f"{rule.permission} {visible(rule.pattern)}"
                for request in asked.requests
                for rule in request.always
            )
            lines.append(self._tr("  Always would allow in this session: {rules}", rules=shown))
        return "\n".join(lines) + "\n" + self._choices(can_always=_can_always(asked))

    def _choices(self, *, can_always: bool) -> str:
        if can_always:
            return self._tr("Allow? [y] once, [a] always, [n] no, or: n REASON  ")
        return self._tr("Allow? [y] once, [n] no, or: n REASON  ")


def _can_always(asked: PermissionAsked) -> bool:
    return all(request.always for request in asked.requests)


def _wake(ready: "asyncio.Future[None]") -> None:
    if not ready.done():
        ready.set_result(None)
