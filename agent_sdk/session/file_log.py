"""What a session's records say about files: a fold over the whole session.

Files are not conversation: what a rewind of the talk put out of view has been
done all the same, so every change counts, in the order of the file.
"""

from collections.abc import Iterable, Iterator

import msgspec
from msgspec import Struct

from agent_sdk.core.errors import InvalidInput
from agent_sdk.core.fsio import storage_error
from agent_sdk.session.codec import parse_line, peek, split_lines
from agent_sdk.session.history import is_prompt, prompt_text
from agent_sdk.session.records import (
    CustomRecord,
    FileChangeRecord,
    Record,
    RewindRecord,
    UserRecord,
)
from agent_sdk.session.store import MemoryStore, StateKeeper, TranscriptStore
from agent_sdk.tools.file_state import in_thread

MARK_TYPE = "zpi.file_rewind"
"""``customType`` of the record that says that a rewind was done."""

_WANTED = frozenset({"user", "file_change", "rewind", "custom"})
_MAX_TEXT = 200  # characters of a prompt that are kept


class RewindMark(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A rewind that was done; the records of its file changes stand right before it.

    Attributes:
        id: Id of the rewind.
        files: How many files it changed.
        to: The user message that it went back to; empty for an undo.
        undoes: The rewind that it took back; empty if none.
        conversation: Where the conversation went back to, as in the record
            that follows; empty if it stayed.
    """

    id: str
    files: int
    to: str = ""
    undoes: str = ""
    conversation: str = ""


class DoneRewind(Struct):
    """A rewind, as the records tell it.

    Attributes:
        mark: What it was.
        at: Position of its mark.
        changes: What it did to files.
        talk: The record by which the conversation went back, if it did.
    """

    mark: RewindMark
    at: int
    changes: tuple[FileChangeRecord, ...]
    talk: RewindRecord | None = None


class PromptPlace(Struct, frozen=True):
    """A prompt, to which one can go back.

    Attributes:
        uuid: Id of its record.
        at: Position of its record.
        before: Id of the record before it.
        text: Beginning of the prompt.
        timestamp: When it was stored, ISO 8601.
    """

    uuid: str
    at: int
    before: str
    text: str
    timestamp: str


class FileLog:
    """All changes of files, and the prompts and rewinds between them.

    Attributes:
        changes: Each change with the position of its record, oldest first.
        prompts: The prompts by id, oldest first.
        rewinds: Rewinds that were done by their id, oldest first.
    """

    def __init__(self) -> None:
        self.changes: list[tuple[int, FileChangeRecord]] = []
        self.prompts: dict[str, PromptPlace] = {}
        self.rewinds: dict[str, DoneRewind] = {}
        self._last: DoneRewind | None = None

    def apply(self, at: int, record: Record) -> None:
        """Take the next record that may matter; ``at`` is its position in the file."""
        if isinstance(record, FileChangeRecord):
            self.changes.append((at, record))
        elif isinstance(record, UserRecord) and is_prompt(record):
            self.prompts[record.uuid] = PromptPlace(
                uuid=record.uuid,
                at=at,
                before=record.parent_uuid or "",
                text=" ".join(prompt_text(record)[:_MAX_TEXT].split()),
                timestamp=record.timestamp,
            )
        elif isinstance(record, CustomRecord) and record.custom_type == MARK_TYPE:
            self._note_mark(at, record)
        elif isinstance(record, RewindRecord) and self._last is not None:
            last, self._last = self._last, None
            if record.to_uuid == last.mark.conversation:
                last.talk = record

    def _note_mark(self, at: int, record: CustomRecord) -> None:
        mark = _mark_of(record.data)
        if mark is None:  # of a later version: its changes of files count all the same
            return
        own = self.changes[len(self.changes) - mark.files :]
        done = DoneRewind(mark, at, tuple(change for _, change in own))
        self.rewinds[mark.id] = done
        self._last = done if mark.conversation else None

    def since(self, at: int) -> Iterator[FileChangeRecord]:
        """Yield the changes behind a position, oldest first."""
        return (change for place, change in self.changes if place > at)


def mark_record(mark: RewindMark) -> CustomRecord:
    """Return the record that says that a rewind was done."""
    return CustomRecord(custom_type=MARK_TYPE, data=msgspec.to_builtins(mark))


def _mark_of(data: object) -> RewindMark | None:
    try:
        return msgspec.convert(data, RewindMark)
    except msgspec.ValidationError:
        return None


async def read_file_log(store: TranscriptStore) -> FileLog:
    """Read what a store's records say about files.

    Args:
        store: The store of an open session.

    Raises:
        InvalidInput: If the store has no way to read it again.
        StorageError: If it cannot be read.
    """
    if isinstance(store, MemoryStore) or store.path is not None:
        return await in_thread(lambda: _folded(_lines(store)))
    if not isinstance(store, StateKeeper):
        raise InvalidInput(
            "This session's store cannot be read again, so files cannot be rewound.",
            hint="Keep the session in a file, or in a store that can be.",
        )
    lines: list[bytes] = []
    await store.load_again(lambda item: lines.append(item.raw if _may_matter(item.raw) else b""))
    return await in_thread(lambda: _folded(lines))


def _folded(lines: Iterable[bytes]) -> FileLog:
    log = FileLog()
    for at, line in enumerate(lines):
        if line and _may_matter(line):
            record = parse_line(line)
            if not isinstance(record, str):
                log.apply(at, record)
    return log


def _may_matter(line: bytes) -> bool:
    """Whether a line must be parsed; most are results and answers, which need not be."""
    found = peek(line)
    if found is None:
        return True
    return found[0] in _WANTED and (found[0] != "user" or b'"origin"' in line)


def _lines(store: TranscriptStore) -> Iterator[bytes]:
    if isinstance(store, MemoryStore):
        yield from tuple(store.lines)
        return
    path = store.path
    if path is None:
        return
    try:
        with path.open("rb", buffering=1 << 18) as stream:
            for line in split_lines(stream.readline):
                if line.ended:
                    yield line.body
    except FileNotFoundError:
        return  # nothing was stored yet
    except OSError as error:
        raise storage_error(error, path, "read") from error
