"""The messages of a session, loaded or not, and how events change them. Pure."""

from collections.abc import Callable, Sequence

from agent_sdk.events.wire import (
    MessageInfo,
    Part,
    PartDelta,
    ReasoningPart,
    TextPart,
    ToolPart,
    ToolPending,
    ToolRunning,
)
from desktop.bridge.messages import TranscriptMessage, TranscriptPage
from desktop.gui.chat.rows import MessageState, PartState
from desktop.gui.chat.segments import Flow
from desktop.gui.chat.turns import is_human

MAX_LIVE_OUTPUT = 64 * 1024
"""Characters of a running call's output that are kept, from the end."""


class MessagesStore:
    """Messages by index; None where one is not loaded.

    Args:
        clock: Seconds, monotonic.

    Attributes:
        sizes: Characters of each message, as they were when the session was opened.
    """

    def __init__(self, *, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._messages: list[MessageState | None] = []
        self._index: dict[str, int] = {}
        self.sizes: list[int] = []

    def __len__(self) -> int:
        return len(self._messages)

    def __getitem__(self, index: int) -> MessageState | None:
        return self._messages[index]

    def loaded(self) -> list[int]:
        """Return the indices of the messages that are loaded, in order."""
        return [at for at, message in enumerate(self._messages) if message is not None]

    @property
    def last(self) -> MessageState | None:
        """The newest message."""
        return self._messages[-1] if self._messages else None

    def begin(self, count: int, sizes: Sequence[int], *, keep: int = 0) -> None:
        """Begin with ``count`` messages, of which the first ``keep`` stay as they are."""
        self._messages = self._messages[:keep]
        self._messages += [None] * (count - len(self._messages))
        self.sizes = [*sizes[:count]]
        self.sizes += [0] * (count - len(self.sizes))
        self._index = {m.info.id: at for at, m in enumerate(self._messages) if m is not None}

    def load(self, page: TranscriptPage) -> list[int]:
        """Take messages that were not loaded; return the indices of those that look different."""
        end = page.first + len(page.messages)
        loaded = []
        for at, given in enumerate(page.messages, page.first):
            if at < len(self._messages) and self._messages[at] is None:
                self._messages[at] = loaded_message(given)
                self._index[given.info.id] = at
                loaded.append(at)
        # Where a turn ends, its summary depends on the messages beside it.
        beside = [at for at in (page.first - 1, end) if 0 <= at < len(self._messages)]
        return loaded + [at for at in beside if self._messages[at] is not None]

    def updated(self, info: MessageInfo) -> tuple[int, bool]:
        """Take what is known of a message; return its index, and whether it is new."""
        at = self._index.get(info.id)
        if at is None:
            return self._append(MessageState(info)), True
        message = self._messages[at]
        if message is not None:
            message.info = info
            if info.finished:
                _finish(message)
        return at, False

    def part_updated(self, message_id: str, part: Part, session_id: str) -> tuple[int, bool]:
        """Take all of a part; return its message's index, and whether that is new."""
        at = self._index.get(message_id)
        new = at is None
        if at is None:
            info = MessageInfo(id=message_id, session_id=session_id, role="assistant")
            at = self._append(MessageState(info))
        message = self._messages[at]
        if message is None:
            return at, new
        info = message.info
        if not (info.finished and info.part_ids and part.id not in info.part_ids):
            state = message.parts.setdefault(part.id, PartState(part))
            self._set_part(state, part, finished=info.finished)
        return at, new

    def delta(self, delta: PartDelta) -> int | None:
        """Add text to a part; return its message's index, None if the part is not known.

        One that is not known is left out: its snapshot will hold all of it.
        """
        at = self._index.get(delta.message_id)
        message = self._messages[at] if at is not None else None
        state = message.parts.get(delta.part_id) if message is not None else None
        if state is None:
            return None
        if state.flow is not None:
            state.flow.append(delta.text)
        elif isinstance(state.part, ToolPart):
            state.live = (state.live + delta.text)[-MAX_LIVE_OUTPUT:]
        else:
            state.live += delta.text
        return at

    # ----------------------------------------------------------------- finding

    def call(self, call_id: str) -> tuple[int, ToolPart] | None:
        """Return index and part of the newest loaded call with this id."""
        for at in range(len(self._messages) - 1, -1, -1):
            message = self._messages[at]
            if message is None or not call_id:
                return None
            for state in message.parts.values():
                if isinstance(state.part, ToolPart) and state.part.call_id == call_id:
                    return at, state.part
        return None

    def last_turn(self) -> int:
        """Return the index of the newest prompt, or of the first loaded message after it."""
        at = len(self._messages)
        while at > 0:
            message = self._messages[at - 1]
            if message is None:
                break
            at -= 1
            if is_human(message):
                break
        return at

    def prompt_near(self, index: int, step: int) -> int | None:
        """Return the next prompt from an index on, in the direction of ``step`` (±1).

        A message that is not loaded may be one, so that it is returned too.
        """
        at = index + step
        while 0 <= at < len(self._messages):
            message = self._messages[at]
            if message is None or is_human(message):
                return at
            at += step
        return None

    # ----------------------------------------------------------------- changes

    def _append(self, message: MessageState) -> int:
        at = len(self._messages)
        self._messages.append(message)
        self.sizes.append(0)
        self._index[message.info.id] = at
        return at

    def _set_part(self, state: PartState, part: Part, *, finished: bool) -> None:
        if isinstance(part, TextPart):
            set_text(state, part.text, finished=finished)
        elif isinstance(part, ReasoningPart):
            state.live = ""
        elif isinstance(part, ToolPart):
            if isinstance(part.state, ToolRunning):
                state.live = part.state.output
                state.since = state.since or self._clock()
            elif not isinstance(part.state, ToolPending):
                state.live = ""
        state.part = part


def set_text(state: PartState, text: str, *, finished: bool) -> None:
    """Bring the segments of a text to ``text``; what is there already stays."""
    flow = state.flow
    known = flow.text if flow is not None else ""
    if flow is None or not text.startswith(known):
        state.flow = Flow(text, finished=finished)
        return
    flow.append(text[len(known) :])
    if finished:
        flow.finish()


def loaded_message(given: TranscriptMessage) -> MessageState:
    """Return a message as it was read."""
    message = MessageState(given.info)
    for part in given.parts:
        state = message.parts[part.id] = PartState(part)
        if isinstance(part, TextPart):
            set_text(state, part.text, finished=given.info.finished)
        elif isinstance(part, ToolPart) and isinstance(part.state, ToolRunning):
            state.live = part.state.output
    return message


def _finish(message: MessageState) -> None:
    """Keep the parts that a finished message has, in its order, and close their texts."""
    info = message.info
    if info.part_ids:
        order = {part_id: at for at, part_id in enumerate(info.part_ids)}
        kept = sorted((each for each in message.parts if each in order), key=order.__getitem__)
        message.parts = {part_id: message.parts[part_id] for part_id in kept}
    for state in message.parts.values():
        if state.flow is not None:
            state.flow.finish()
