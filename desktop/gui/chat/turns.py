"""What a turn came to: from a person's prompt to the end of the answer. Pure."""

from typing import Protocol

from agent_sdk.events.wire import ToolPart
from desktop.gui.chat.file_changes import file_changes
from desktop.gui.chat.rows import MessageState, SummaryItem


class Messages(Protocol):
    """Messages by index; None where one is not loaded."""

    def __getitem__(self, index: int, /) -> MessageState | None: ...


_PROMPTS = ("", "human", "queued", "retry")


def is_human(message: MessageState) -> bool:
    """Return whether a message is a person's prompt that begins a turn."""
    return message.info.role == "user" and message.info.origin in _PROMPTS


def summary_of(messages: Messages, last: int) -> SummaryItem | None:
    """Return what the turn that ends at index ``last`` came to.

    None if its beginning is not loaded, or if there is nothing to tell: a
    short answer in words needs no summary.
    """
    tools = additions = deletions = 0
    files: set[str] = set()
    at = last
    while at >= 0:
        message = messages[at]
        if message is None:
            return None
        if is_human(message):
            break
        for part in (state.part for state in message.parts.values()):
            if isinstance(part, ToolPart):
                tools += 1
                for change in file_changes(part):
                    additions += change.additions
                    deletions += change.deletions
                    files.add(change.path)
        at -= 1
    final = messages[last]
    seconds = final.seconds if final is not None else 0.0
    if not tools:
        return None
    return SummaryItem(seconds, len(files), additions, deletions, tools)
