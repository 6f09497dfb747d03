"""What a compaction makes of messages: a summary in front, and results without content.

Pure, and the one place for it: the fold of a stored session and the form for
messages in memory come to the same bytes.
"""

from msgspec import Struct, structs

from agent_sdk.providers.messages import (
    Message,
    Origin,
    TextBlock,
    ToolResultBlock,
    UserMessage,
)

CLEARED = "[This result was cleared to save room.]"
"""What is left of a tool result that a compaction cleared; part of the format."""


def summary_message(summary: str, uuid: str | None = None) -> UserMessage:
    """Return the message that stands for what was summarised.

    Args:
        summary: The whole text, as ``summary_text`` makes it.
        uuid: Id of the compaction's record, where there is one.
    """
    return UserMessage(content=(TextBlock(summary),), origin=Origin("summary", uuid))


def without_results(message: Message) -> Message:
    """Return the message with its results' content cleared; itself if it has none."""
    if not any(isinstance(b, ToolResultBlock) for b in message.content):
        return message
    content = tuple(
        structs.replace(b, content=CLEARED) if isinstance(b, ToolResultBlock) else b
        for b in message.content
    )
    return structs.replace(message, content=content)


class Parts(Struct, frozen=True):
    """What a summary's text consists of.

    Attributes:
        summary: What the model wrote.
        queries: Queries of the user that it covers, word for word, oldest first.
    """

    summary: str
    queries: tuple[str, ...] = ()


_INTRO = (
    "The earlier part of this conversation was summarised to save room. "
    "The summary stands for it; go on from there."
)
_ASKED = "What the user had asked, word for word:\n"
_QUERY = '<user_message chars="'


def summary_text(parts: Parts) -> str:
    """Return the text that stands for older messages.

    Queries come first and say how long they are, so that ``parts_of`` finds
    them whatever they contain.
    """
    queries = "".join(f'{_QUERY}{len(q)}">\n{q}\n</user_message>\n' for q in parts.queries)
    said = f"{_ASKED}{queries}" if queries else ""
    return f"{_INTRO}\n\n{said}<summary>\n{parts.summary.strip()}\n</summary>"


def parts_of(text: str) -> Parts:
    """Return what a summary's text consists of.

    A text that ``summary_text`` did not make is all summary.
    """
    at = len(_INTRO) + 2
    if not text.startswith(f"{_INTRO}\n\n"):
        return Parts(text)
    queries: list[str] = []
    if text.startswith(_ASKED, at):
        at += len(_ASKED)
        while text.startswith(_QUERY, at):
            end = text.find('">\n', at, at + 60)
            count = text[at + len(_QUERY) : end]
            if end < 0 or not count.isdecimal():
                return Parts(text)
            begin = end + 3
            queries.append(text[begin : begin + int(count)])
            at = begin + int(count) + len("\n</user_message>\n")
    whole = text[at:]
    if not (whole.startswith("<summary>\n") and whole.endswith("\n</summary>")):
        return Parts(text)
    return Parts(whole[len("<summary>\n") : -len("\n</summary>")], tuple(queries))
