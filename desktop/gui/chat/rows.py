"""What the transcript draws: a message as a list of rows, each of one kind. Pure.

Rows are made again whenever a message changes, but a row that is still there
keeps its object, and with it the height that was measured and whether it is
unfolded.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias, TypeVar, assert_never

from agent_sdk.events.wire import (
    CompactionPart,
    FilePart,
    MessageInfo,
    Part,
    ReasoningPart,
    StepFinishPart,
    StepStartPart,
    SubtaskPart,
    TextPart,
    ToolPart,
)
from desktop.gui.chat.segments import Flow, Segment

RowKind: TypeAlias = Literal[
    "blank", "user", "prose", "code", "reasoning", "tool", "line", "error", "summary", "working"
]

Folded: TypeAlias = Literal["reasoning", "thinking", "hook", "context", "compaction"]
LineCode: TypeAlias = Literal[
    "subagent", "attached", "encrypted", "limit", "declined", "aborted", "interrupted", "notice"
]

_HUMAN = ("", "human", "queued", "steered", "retry", "mailbox")


@dataclass(frozen=True)
class BlankItem:
    """A message that is not loaded; ``size`` is the number of its characters."""

    size: int


@dataclass(frozen=True)
class UserItem:
    """What a person wrote."""

    text: str
    origin: str


@dataclass(frozen=True)
class FoldedItem:
    """Text that is folded until someone wants it: reasoning, context, a summary.

    Attributes:
        what: What it is; the card has the words.
        text: The text.
        active: Whether it is still growing.
    """

    what: Folded
    text: str
    active: bool = False


@dataclass(frozen=True)
class ToolItem:
    """A call.

    Attributes:
        part: The call as it is known.
        live: Output so far, while it runs.
        active: Whether its run is going on; if not, what has no result was cut.
        waiting: Whether someone is asked for permission.
        since: When it began to run, seconds on a monotonic clock; 0 if unknown.
    """

    part: ToolPart
    live: str = ""
    active: bool = False
    waiting: bool = False
    since: float = 0.0


@dataclass(frozen=True)
class LineItem:
    """One quiet line.

    Attributes:
        code: What it says; the card has the words.
        text: What goes into them: a title, a type, the words of a notice.
        notice: Code of a notice of the host.
    """

    code: LineCode
    text: str = ""
    level: Literal["info", "warning"] = "info"
    notice: str = ""


@dataclass(frozen=True)
class ErrorItem:
    """Something failed; ``can_retry`` if the run can be made to go on from here."""

    code: str
    text: str
    hint: str = ""
    can_retry: bool = False


@dataclass(frozen=True)
class SummaryItem:
    """What a turn came to; 0 and empty where it is not known."""

    seconds: float = 0.0
    files: int = 0
    additions: int = 0
    deletions: int = 0
    tools: int = 0


@dataclass(frozen=True)
class WorkingItem:
    """The run is going on and nothing else on the screen says so."""

    since: float
    retry: str = ""


RowItem: TypeAlias = (
    BlankItem
    | UserItem
    | Segment
    | FoldedItem
    | ToolItem
    | LineItem
    | ErrorItem
    | SummaryItem
    | WorkingItem
)


class Row:
    """One row.

    Attributes:
        key: Unique within its message, stable.
        height: Pixels, gap included; an estimate while ``width`` is 0.
        width: At which width it was measured.
        gap: Pixels above it.
        expanded: Whether it is unfolded.
        owner: The message it belongs to; None for rows of the session's own.
    """

    __slots__ = ("expanded", "gap", "height", "item", "key", "kind", "owner", "revision", "width")

    def __init__(self, key: str, kind: RowKind, item: RowItem) -> None:
        self.key = key
        self.kind: RowKind = kind
        self.item: RowItem = item
        self.owner: MessageState | None = None
        self.revision: object = None
        self.gap = 0
        self.height = 0
        self.width = 0
        self.expanded = False


T = TypeVar("T")


def item_of(row: Row, kind: type[T]) -> T:
    """Return what a row shows, which is of this kind.

    Raises:
        TypeError: If it is not; a row was given to the card of another kind.
    """
    if not isinstance(row.item, kind):
        raise TypeError(f"the row {row.key!r} holds no {kind.__name__}")
    return row.item


class PartState:
    """A part and what has come since its last snapshot.

    Attributes:
        flow: For texts, the same text in segments.
        live: For running calls, their output.
        since: When a call began to run, on a monotonic clock; 0 if unknown.
    """

    __slots__ = ("flow", "live", "part", "since")

    def __init__(self, part: Part) -> None:
        self.part = part
        self.flow: Flow | None = None
        self.live = ""
        self.since = 0.0


class MessageState:
    """A loaded message.

    Attributes:
        parts: Its parts by id, in order.
        notices: Rows that follow it: errors and notices of the session.
        rows: What is drawn; made by ``build``.
    """

    __slots__ = ("info", "notices", "parts", "rows", "seconds")

    def __init__(self, info: MessageInfo) -> None:
        self.info = info
        self.parts: dict[str, PartState] = {}
        self.notices: list[LineItem | ErrorItem] = []
        self.rows: list[Row] = []
        self.seconds = 0.0

    def markdown(self) -> str:
        """Return the text of the message as it was written."""
        texts = [
            state.flow.text if state.flow is not None else state.part.text
            for state in self.parts.values()
            if isinstance(state.part, TextPart)
        ]
        return "\n\n".join(text.strip("\n") for text in texts if text.strip())


@dataclass(frozen=True)
class Context:
    """What drawing a message needs besides the message.

    Attributes:
        active: Whether the run that it belongs to is going on.
        waiting: Calls that someone is asked about.
        last: Whether it is the last message.
        can_retry: Whether a run can be continued.
        summary: What its turn came to, below it.
    """

    active: bool = False
    waiting: frozenset[str] = frozenset()
    last: bool = False
    can_retry: bool = False
    summary: SummaryItem | None = None


def build(message: MessageState, context: Context) -> list[Row]:
    """Make the rows of a message again, keep what is the same, and return them."""
    before = {row.key: row for row in message.rows}
    message.rows = [
        keep(before, Row(key, kind, item), message) for key, kind, item in _specs(message, context)
    ]
    return message.rows


_Spec: TypeAlias = tuple[str, RowKind, RowItem]


def keep(before: Mapping[str, Row], row: Row, owner: MessageState | None) -> Row:
    """Return the row that was there before with the new contents, or the new one."""
    row.owner = owner
    row.revision = row.item.revision if isinstance(row.item, Segment) else row.item
    old = before.get(row.key)
    if old is None or old.kind != row.kind:
        return row
    if old.revision != row.revision or old.item is not row.item:
        old.width = 0 if old.revision != row.revision else old.width
        old.item, old.revision = row.item, row.revision
    return old


def _specs(message: MessageState, context: Context) -> Iterator[_Spec]:
    if message.info.role == "user":
        yield from _user(message)
    else:
        for part_id, state in message.parts.items():
            yield from _part(part_id, state, context, growing=not message.info.finished)
    yield from _after(message, context)


def _user(message: MessageState) -> Iterator[_Spec]:
    info = message.info
    text = message.markdown()
    if info.origin not in _HUMAN:
        yield ("note", "reasoning", FoldedItem(_folded(info.origin), text))
        return
    if text:
        yield ("user", "user", UserItem(text, info.origin))
    for part_id, state in message.parts.items():
        if isinstance(state.part, FilePart):
            yield from _part(part_id, state, Context(), growing=False)


def _folded(origin: str) -> Folded:
    if origin == "hook":
        return "hook"
    return "compaction" if origin == "summary" else "context"


def _part(part_id: str, state: PartState, context: Context, *, growing: bool) -> Iterator[_Spec]:
    part = state.part
    growing = growing and context.active
    match part:
        case TextPart():
            for at, segment in enumerate(state.flow.segments if state.flow else ()):
                yield (f"{part_id}/{at}", segment.kind, segment)
        case ReasoningPart():
            yield from _reasoning(part_id, part, state.live, growing=growing)
        case ToolPart():
            waiting = part.call_id in context.waiting
            item = ToolItem(part, state.live, context.active, waiting, state.since)
            yield (part_id, "tool", item)
        case SubtaskPart():
            yield (part_id, "line", LineItem("subagent", part.title))
        case FilePart():
            yield (part_id, "line", LineItem("attached", part.media_type))
        case CompactionPart():
            yield (part_id, "reasoning", FoldedItem("compaction", part.summary))
        case StepFinishPart():
            yield from _stopped(part_id, part)
        case StepStartPart():
            return
        case _:
            assert_never(part)


def _reasoning(part_id: str, part: ReasoningPart, live: str, *, growing: bool) -> Iterator[_Spec]:
    text = part.text + live
    if part.redacted:
        yield (part_id, "line", LineItem("encrypted"))
    elif text.strip() or growing:
        what: Folded = "thinking" if growing else "reasoning"
        yield (part_id, "reasoning", FoldedItem(what, text, growing))


def _stopped(part_id: str, part: StepFinishPart) -> Iterator[_Spec]:
    if part.stop_reason == "max_tokens":
        yield (part_id, "line", LineItem("limit", level="warning"))
    elif part.stop_reason == "refusal":
        yield (part_id, "line", LineItem("declined", level="warning"))


def _after(message: MessageState, context: Context) -> Iterator[_Spec]:
    told = [item for item in message.notices if isinstance(item, ErrorItem)]
    error = message.info.error
    if error == "aborted":
        yield ("cut", "line", LineItem("aborted"))
    elif error and not any(error in item.text or item.text in error for item in told):
        can_retry = context.last and context.can_retry and not told
        yield ("error", "error", ErrorItem("", error, can_retry=can_retry))
    for at, item in enumerate(message.notices):
        if isinstance(item, ErrorItem):
            last = context.last and at == len(message.notices) - 1
            shown = replace(item, can_retry=last and context.can_retry)
            yield (f"notice/{at}", "error", shown)
        else:
            yield (f"notice/{at}", "line", item)
    if context.summary is not None:
        yield ("summary", "summary", context.summary)
