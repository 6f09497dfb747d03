"""A conversation as a small model can take it: whole exchanges, newest first kept. Pure."""

import re
from collections.abc import Iterable, Sequence

from msgspec import Struct

from agent_sdk.providers.convert import NO_RESULT
from agent_sdk.providers.messages import (
    AssistantMessage,
    ImageBlock,
    Message,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
    UserMessage,
    result_text,
)


class Step(Struct, frozen=True):
    """One call and what came of it."""

    call: ToolUseBlock
    result: str
    failed: bool = False


class Exchange(Struct, frozen=True):
    """What the user asked, the calls that were made for it, and the answer, if there is one."""

    prompt: str
    steps: tuple[Step, ...] = ()
    answer: str = ""


class _Open:
    """An exchange that is being put together."""

    def __init__(self) -> None:
        self.prompts: list[str] = []
        self.calls: list[ToolUseBlock] = []
        self.results: dict[str, ToolResultBlock] = {}
        self.answers: list[str] = []

    def close(self) -> Exchange:
        return Exchange(
            prompt="\n\n".join(self.prompts),
            steps=tuple(_step(call, self.results.get(call.id)) for call in self.calls),
            answer="\n\n".join(self.answers),
        )


def _step(call: ToolUseBlock, result: ToolResultBlock | None) -> Step:
    if result is None:
        return Step(call, NO_RESULT, failed=True)
    return Step(call, result_text(result), failed=result.is_error)


def exchanges(messages: Iterable[Message], *, with_context: bool) -> list[Exchange]:
    """Return the conversation as exchanges; the last one is to be answered.

    Args:
        messages: The conversation.
        with_context: Whether blocks of context that the program added are
            kept; a very small model takes them for the request.
    """
    done: list[Exchange] = []
    current = _Open()
    for message in messages:
        if isinstance(message, AssistantMessage):
            current.calls += message.tool_calls
            if message.text.strip():
                current.answers.append(message.text.strip())
            continue
        for block in message.content:
            if isinstance(block, ToolResultBlock):
                current.results[block.tool_use_id] = block
        said = _said(message)
        if not said or (message.origin.kind == "context" and not with_context):
            continue
        if current.calls or current.answers:
            done.append(current.close())
            current = _Open()
        current.prompts.append(said)
    return [*done, current.close()]


def _said(message: UserMessage) -> str:
    parts = [
        block.text if isinstance(block, TextBlock) else "[an image]"
        for block in message.content
        if isinstance(block, TextBlock | ImageBlock)
    ]
    return "\n".join(parts).strip()


def tokens(text: str) -> int:
    """Estimate the tokens of a text, rather too many than too few."""
    plain = sum(map(str.isascii, text))
    return plain * 2 // 7 + (len(text) - plain) * 2 + 1


def cut(text: str, room: int, *, mark: str) -> str:
    """Return the beginning of the text that has at most ``room`` tokens.

    Args:
        text: Any text.
        room: Tokens; what is cut off is replaced by the mark.
        mark: Stands for the rest.
    """
    if tokens(text) <= room:
        return text
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if tokens(text[:middle]) <= room else (low, middle - 1)
    kept = text[:low]
    # The last line is whole if that does not cost much.
    at = kept.rfind("\n")
    if at > len(kept) * 3 // 4:
        kept = kept[:at]
    return f"{kept.rstrip()}\n{mark}" if mark else kept.rstrip()


def cut_middle(text: str, room: int, *, mark: str) -> str:
    """Return the text with at most ``room`` tokens: its beginning and its end."""
    if tokens(text) <= room:
        return text
    begin = cut(text, room * 2 // 3, mark="")
    end = cut(text[::-1], room // 3, mark="")[::-1]
    return f"{begin}\n{mark}\n{end}"


def newest(older: Sequence[Exchange], room: int, *, share: int) -> list[Exchange]:
    """Return the newest exchanges that fit, whole, in order.

    Args:
        older: Finished exchanges.
        room: Tokens for all of them.
        share: Tokens that each result may have; longer ones are cut before.
    """
    kept: list[Exchange] = []
    for exchange in reversed(older):
        room -= 16 + tokens(exchange.prompt) + tokens(exchange.answer)
        room -= sum(24 + min(share, tokens(s.result)) + _size(s.call) for s in exchange.steps)
        if room < 0:
            break
        kept.append(exchange)
    return kept[::-1]


def _size(call: ToolUseBlock) -> int:
    return tokens(str(call.input))


_LINE_NUMBER = re.compile(r"(?m)^[ ]*\d+\t")
_MARKUP = (
    (re.compile(r"<!--.*?-->", re.DOTALL), ""),
    (re.compile(r"\[?!\[[^\]\n]*\]\([^)\n]*\)(?:\]\([^)\n]*\))?"), ""),  # pictures, badges
    (re.compile(r"\[([^\]\n]*)\](?:\([^)\n]*\)|\[[^\]\n]*\])"), r"\1"),  # links
    (re.compile(r"</?[A-Za-z][^<>\n]{0,200}>"), ""),
    (re.compile(r"(?m)^\.\. (?:image|_|\|).*\n(?:[ \t]+:.*\n)*"), ""),  # the same in rst
    (re.compile(r"(?m)^[ \t]*[=\-~#*_`]{3,}\w*[ \t]*$"), ""),  # rules and fences
    (re.compile(r"https?://\S+"), ""),
)
_WRAPPED = re.compile(r"(?<=[\w,;:.)])\n(?=[a-z(])")
_BLANK = re.compile(r"[ \t]*\n\s*\n")


def plain(text: str, *, prose: bool) -> str:
    """Return a result without what only costs a small model tokens.

    Args:
        text: The result.
        prose: Whether pictures, addresses, markup and the breaks of wrapped
            lines go too; else only the numbers of lines and blank lines.
    """
    text = _LINE_NUMBER.sub("", text)
    for pattern, instead in _MARKUP if prose else ():
        text = pattern.sub(instead, text)
    text = _BLANK.sub("\n", text).strip()
    return _WRAPPED.sub(" ", text) if prose else text
