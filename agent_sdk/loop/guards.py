"""Notices when a run goes in circles: the same call fails again, or an edit undoes an edit. Pure.

Nothing is ever blocked: the model is told in the result of the call, since it
may have a reason, and the user by a notice.
"""

import hashlib
from typing import Any

import msgspec
from msgspec import Struct

from agent_sdk.loop.types import ToolResult, file_changes
from agent_sdk.providers.messages import TextBlock

REPEATS = 3
"""From this time on the same failure of the same call is pointed out."""

_MOST_CALLS = 1_000
_MOST_STATES = 64
_MOST_FILES = 1_000


class GuardNotice(Struct, frozen=True):
    """What was noticed about one call.

    Attributes:
        code: ``repeated_failure`` or ``undone_edit``.
        text: What the model is told.
        fresh: Whether the user should hear of it, too: not at each repetition.
    """

    code: str
    text: str
    fresh: bool = True


class LoopGuards:
    """Remembers the calls of one run; shown each result once, in order."""

    def __init__(self) -> None:
        self._failures: dict[str, tuple[str, int]] = {}
        self._files: dict[str, list[str | None]] = {}

    def note(self, *, name: str, key: str, result: ToolResult) -> GuardNotice | None:
        """Take note of a result; return what is conspicuous about it.

        Args:
            name: The tool.
            key: The same for calls of the same tool with the same input.
            result: What the call came to; its details have the hashes of
                changed files before and after, see ``file_changes``.
        """
        if result.is_error:
            return self._failed(name, key, result)
        self._failures.pop(key, None)
        notices = [self._changed(change) for change in file_changes(result.details)]
        return next((notice for notice in notices if notice is not None), None)

    def _failed(self, name: str, key: str, result: ToolResult) -> GuardNotice | None:
        digest = _digest(result)
        last, count = self._failures.pop(key, ("", 0))
        count = count + 1 if digest == last else 1
        self._failures[key] = (digest, count)  # at the end: the oldest goes first
        _forget_oldest(self._failures, _MOST_CALLS)
        if count < REPEATS:
            return None
        text = (
            f"[This is failure {count} of the same {name} call, with the same input and the same"
            " result. Repeating it will not help: find out why it fails, try something else, or"
            " tell the user what is in the way.]"
        )
        return GuardNotice("repeated_failure", text, fresh=count % REPEATS == 0)

    def _changed(self, change: dict[str, Any]) -> GuardNotice | None:
        path, before, after = (change.get(k) for k in ("path", "beforeHash", "afterHash"))
        if not isinstance(path, str):
            return None
        states = self._files.pop(path, [])
        if not states or states[-1] != before:
            states = [before]  # somebody else has changed it since: that is no circle
        undone = len(states) - states.index(after) if after in states else 0
        states.append(after)
        self._files[path] = states[-_MOST_STATES:]
        _forget_oldest(self._files, _MOST_FILES)
        if undone < 2:
            return None  # never seen before, or a change that changed nothing
        edits = "the edit" if undone == 2 else f"the {undone - 1} edits"
        text = (
            f"[With this, the file is again exactly what it was before {edits} that came before."
            " If you did not mean to take them back, stop and think about what it shall become.]"
        )
        return GuardNotice("undone_edit", text)


def with_notice(result: ToolResult, notice: GuardNotice) -> ToolResult:
    """Return a result with what was noticed at the end of its text."""
    content = result.content
    if isinstance(content, str):
        added: Any = f"{content}\n{notice.text}" if content else notice.text
    else:
        added = (*content, TextBlock(notice.text))
    return msgspec.structs.replace(result, content=added)


def _digest(result: ToolResult) -> str:
    return hashlib.sha256(msgspec.json.encode(result.content)).hexdigest()


def _forget_oldest(kept: dict[str, Any], most: int) -> None:
    if len(kept) > most:
        del kept[next(iter(kept))]
