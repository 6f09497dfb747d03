"""Blocks of context that may change: told once, told again when they change, taken back.

What the model has been told is read off the conversation itself, so that it
is right after a restart, a rewind or a compaction, whatever these put out of
view. Earlier messages are never touched: a change is a new message, and the
bytes before it stay as they are.
"""

import logging
from collections.abc import Callable, Mapping, Sequence

from agent_sdk.core.errors import InvalidInput
from agent_sdk.loop.types import Notice
from agent_sdk.plugins.types import SessionPlugin
from agent_sdk.providers.messages import Message, Origin, TextBlock, UserMessage

MOST_CHARACTERS = 24_000
"""Most characters of one block; the rest is cut, and the block says so."""
CUT = "\n[Cut: a block of context has at most 24,000 characters.]"
_PREFIX = "block:"
_MOST_NAME = 128

logger = logging.getLogger("zpi.session")

Blocks = Mapping[str, str]


class DynamicContext:
    """The blocks of a session's plugins, as the model knows them and as they are.

    Args:
        plugins: Asked in order; those without context instructions say nothing.
        messages: Returns the conversation in view, oldest first.
        uuids: Returns the id of each of its messages' records.
        emit: Takes notices for the user.
    """

    def __init__(
        self,
        *,
        plugins: Sequence[SessionPlugin],
        messages: Callable[[], Sequence[Message]],
        uuids: Callable[[], Sequence[str]],
        emit: Callable[[Notice], None],
    ) -> None:
        self._plugins = tuple(p for p in plugins if p.context_instructions is not None)
        self._messages = messages
        self._uuids = uuids
        self._emit = emit
        self._told: dict[str, str] = {}
        self._seen = 0
        self._last = ""  # record of the last message that was looked at
        self._failing: set[str] = set()

    def updates(self) -> tuple[UserMessage, ...]:
        """Return the messages that bring the model up to date; often none.

        A plugin that fails keeps its blocks as they are; the user is told once.
        """
        told = self._known()
        now: dict[str, str] = {}
        for plugin in self._plugins:
            blocks = self._blocks(plugin)
            if blocks is None:
                mine = f"{_PREFIX}{plugin.id}/"
                blocks = {key: text for key, text in told.items() if key.startswith(mine)}
            now.update(blocks)
        return changes(told, now)

    def _blocks(self, plugin: SessionPlugin) -> dict[str, str] | None:
        """Return a plugin's blocks as they are told; None if it fails."""
        if plugin.context_instructions is None:  # pragma: no cover - left out above
            return {}
        try:
            blocks = told_blocks(plugin.id, plugin.context_instructions())
        except Exception as error:
            logger.debug("context of plugin %r failed", plugin.id, exc_info=True)
            if plugin.id not in self._failing:
                self._failing.add(plugin.id)
                why = error if isinstance(error, InvalidInput) else type(error).__name__
                text = f"The plugin {plugin.id!r} failed to give its context: {why}"
                self._emit(Notice("warning", "context_failed", text))
            return None
        self._failing.discard(plugin.id)
        return blocks

    def _known(self) -> dict[str, str]:
        """Return what the model has been told, looking only at what is new where possible."""
        messages, uuids = self._messages(), self._uuids()
        behind = self._seen and self._seen <= len(uuids) and uuids[self._seen - 1] == self._last
        if not behind:
            self._told, self._seen = {}, 0
        self._told = shown_blocks(messages[self._seen :], self._told)
        self._seen = len(messages)
        self._last = uuids[-1] if uuids else ""
        return self._told


def told_blocks(plugin_id: str, blocks: Blocks) -> dict[str, str]:
    """Return a plugin's blocks as the model is told them, by their names in the session.

    Empty blocks are none. Pure.

    Raises:
        InvalidInput: If one of them is not a text with a usable name.
    """
    told = {}
    for key, text in blocks.items():
        if not isinstance(key, str) or not isinstance(text, str):
            raise InvalidInput(f"The block {key!r} is not a text with a name.")
        if not key.isprintable() or not 0 < len(key) <= _MOST_NAME or set(key) & set('"<>'):
            raise InvalidInput(
                f"{key!r} cannot be the name of a block.",
                hint=f"Use at most {_MOST_NAME} characters on one line, without quotes.",
            )
        if text.strip():
            inside = text.replace("</context", "<\\/context")
            if len(inside) > MOST_CHARACTERS:
                inside = inside[: MOST_CHARACTERS - len(CUT)] + CUT
            name = f"{plugin_id}/{key}"
            told[_PREFIX + name] = f'<context name="{name}">\n{inside}\n</context>'
    return told


def shown_blocks(messages: Sequence[Message], before: Blocks) -> dict[str, str]:
    """Return the blocks that hold after some more messages. Pure.

    Args:
        messages: What has come.
        before: Blocks that held before them.
    """
    told = dict(before)
    for message in messages:
        if not isinstance(message, UserMessage) or message.origin.kind != "context":
            continue
        name = message.origin.id or ""
        if not name.startswith(_PREFIX):
            continue
        text = "".join(b.text for b in message.content if isinstance(b, TextBlock))
        if text == _withdrawal(name):
            told.pop(name, None)
        else:
            told[name] = text
    return told


def changes(told: Blocks, now: Blocks) -> tuple[UserMessage, ...]:
    """Return the messages that lead from one state to the other, withdrawals first. Pure."""
    gone = [_message(name, _withdrawal(name)) for name in told if name not in now]
    new = [_message(name, text) for name, text in now.items() if told.get(name) != text]
    return (*gone, *new)


def _withdrawal(name: str) -> str:
    shown = name.removeprefix(_PREFIX)
    return f'<context name="{shown}" withdrawn="true">This no longer applies.</context>'


def _message(name: str, text: str) -> UserMessage:
    return UserMessage(content=(TextBlock(text),), origin=Origin("context", name))
