"""Checks that hold for every transcript store, storage and event log.

An embedder hands over how his stores are made and runs each check:

    @pytest.mark.parametrize("check", TRANSCRIPT_CHECKS, ids=lambda c: c.__name__)
    async def test_my_store(check, tmp_path):
        await check(MyHarness(tmp_path))

A check raises ``ContractBroken``, which names the promise that was not kept.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, TypeAlias

import msgspec

from agent_sdk.core.errors import (
    SessionDamaged,
    SessionLocked,
    SessionNotFound,
    StorageError,
)
from agent_sdk.core.ids import RandomIds, SystemClock
from agent_sdk.events.log import EventLog, subscribe_event_log
from agent_sdk.events.wire import Event, PartDelta, SessionError
from agent_sdk.providers.messages import AssistantMessage, Origin, TextBlock, UserMessage
from agent_sdk.session.batch import Batch
from agent_sdk.session.codec import parse_line
from agent_sdk.session.history import SessionState
from agent_sdk.session.manager import SessionManager
from agent_sdk.session.records import (
    CustomRecord,
    Record,
    RewindRecord,
    SessionInfoRecord,
    ThinkingLevelChangeRecord,
    assistant_record,
    user_record,
)
from agent_sdk.session.storage import SessionStorage, open_storage
from agent_sdk.session.store import LoadReport, TranscriptStore
from agent_sdk.testing.conformance import ContractBroken

SESSION = "conformance-1"
OTHER = "conformance-2"
_CWD = "/conformance"


class TranscriptHarness(Protocol):
    """How the checks get at stores; each check gets a harness of its own.

    Attributes:
        exclusive: Whether a second writer of one session is refused; only a
            store that no other program can reach may do without.
    """

    exclusive: bool

    async def open(self, session_id: str, *, begin: bool = False) -> TranscriptStore:
        """Return a store that writes the session; nothing was called on it yet.

        Args:
            session_id: The session; what an earlier store of that id kept is there.
            begin: Whether the session is new.
        """
        ...

    async def reader(self, session_id: str) -> TranscriptStore:
        """Return a store that only reads the session, also while it is written."""
        ...


class StorageHarness(Protocol):
    """How the checks get at storages; each check gets a harness of its own."""

    async def storage(self, session_id: str) -> SessionStorage:
        """Return the storage of a session; what was kept under that id is there.

        Its parts are the embedder's own, and may be looked into by him.
        """
        ...


StorageCheck: TypeAlias = Callable[[StorageHarness], Awaitable[None]]
TranscriptCheck: TypeAlias = Callable[[TranscriptHarness], Awaitable[None]]
EventLogCheck: TypeAlias = Callable[[EventLog], Awaitable[None]]


def lines_of(*texts: str, session_id: str = SESSION, after: Sequence[bytes] = ()) -> list[bytes]:
    """Return lines as a session has them: a header first, then one a text.

    Args:
        texts: What the records say.
        session_id: Their session.
        after: Lines that they follow; then there is no header.
    """
    state = SessionState()
    for line in after:
        record = parse_line(line)
        if isinstance(record, str):
            raise ContractBroken(f"a line {record}")
        state.apply(record)
    batch = Batch(
        state=state, session_id=session_id, cwd=_CWD, ids=RandomIds(), clock=SystemClock()
    )
    batch.add([CustomRecord(custom_type="conformance", data=text) for text in texts])
    return batch.lines


# ------------------------------------------------------------- transcripts


async def keeps_lines_in_order(harness: TranscriptHarness) -> None:
    """What was appended is there again, byte for byte and in order."""
    lines = lines_of("one", "two", "三", "\u0000 \u2028 \U0001f600")
    store = await harness.open(SESSION, begin=True)
    await store.append(lines[:2], {})
    await store.append(lines[2:], {})
    await store.close()
    await _holds(harness, SESSION, lines)


async def keeps_what_it_does_not_know(harness: TranscriptHarness) -> None:
    """Fields, blocks and record types of a later version are kept as they are."""
    lines = lines_of("one")
    last = msgspec.json.decode(lines[-1])
    for number in range(3):
        last = {
            "type": "hologram" if number else "custom",
            "uuid": f"later-{number}",
            "parentUuid": last["uuid"],
            "sessionId": last["sessionId"],
            "timestamp": last["timestamp"],
            "customType": "conformance",
            "depth": [1, 2.50, {"é": None}],
        }
        raw = msgspec.json.encode(last).replace(b"2.5,", b"2.50, ")
        lines.append(raw)
    store = await harness.open(SESSION, begin=True)
    await store.append(lines, {})
    await store.close()
    await _holds(harness, SESSION, lines)


async def tells_what_is_not_there(harness: TranscriptHarness) -> None:
    """A session that was never written is not found, or empty."""
    reader = await harness.reader("conformance-none")
    with contextlib.suppress(SessionNotFound):
        report = await reader.load(_ignore)
        _need(report.count == 0, f"a session that is not there has {report.count} records")
    await reader.close()


async def goes_on_where_it_was(harness: TranscriptHarness) -> None:
    """A store that was opened again appends behind what is there."""
    lines = lines_of("one")
    store = await harness.open(SESSION, begin=True)
    await store.append(lines, {})
    await store.close()
    for text in ("two", "three"):
        more = lines_of(text, after=lines)
        store = await harness.open(SESSION)
        report = await store.load(_ignore)
        _need(report.count == len(lines), f"{report.count} records are there, not {len(lines)}")
        _need(store.writable, "a good session can be written to")
        await store.append(more, {})
        await store.close()
        lines = [*lines, *more]
    await _holds(harness, SESSION, lines)


async def an_append_of_nothing_is_nothing(harness: TranscriptHarness) -> None:
    """Appending no lines succeeds and leaves no session behind."""
    store = await harness.open(SESSION, begin=True)
    await store.append([], {})
    await store.close()
    reader = await harness.reader(SESSION)
    with contextlib.suppress(SessionNotFound):
        _need((await reader.load(_ignore)).count == 0, "nothing was appended")
    await reader.close()


async def durable_when_append_returns(harness: TranscriptHarness) -> None:
    """Whoever reads after an append has returned sees it, while it is open."""
    lines = lines_of(*(f"record {n}" for n in range(50)))
    store = await harness.open(SESSION, begin=True)
    for end in range(1, len(lines), 7):
        await store.append(lines[max(0, end - 7) : end], {})
        await _holds(harness, SESSION, lines[:end], exclusive_reader=False)
    await store.close()


async def keeps_artifacts(harness: TranscriptHarness) -> None:
    """Artifacts are there when their lines are, and only by their names."""
    name, content = "ab" * 32, b"\x00\xff picture \n" * 5000
    lines = lines_of("one")
    store = await harness.open(SESSION, begin=True)
    await store.append(lines, {name: content})
    await store.append(lines_of("two", after=lines), {name: content})
    _need(store.blob(name) == content, "an artifact is not what was stored")
    await store.close()
    again = await harness.open(SESSION)
    seen: list[bytes | None] = []
    await again.load(lambda _item: seen.append(again.blob(name)))
    _need(seen == [content] * 3, "artifacts cannot be read while the lines are")
    _need(again.blob("cd" * 32) is None, "an artifact that nobody stored is there")
    _need(again.blob("../../etc/passwd") is None, "a name that is no hash found something")
    await again.close()


async def large_appends_are_whole(harness: TranscriptHarness) -> None:
    """An append of a thousand lines and a line of megabytes come back."""
    lines = lines_of("x" * 3_000_000, *(f"n{n}" for n in range(1000)))
    store = await harness.open(SESSION, begin=True)
    await store.append(lines, {})
    await store.close()
    await _holds(harness, SESSION, lines)


async def sessions_are_apart(harness: TranscriptHarness) -> None:
    """Two sessions that are written at once do not mix."""
    first, second = lines_of("a", "b"), lines_of("c", session_id=OTHER)
    one, two = await harness.open(SESSION, begin=True), await harness.open(OTHER, begin=True)
    await asyncio.gather(one.append(first, {}), two.append(second, {}))
    await asyncio.gather(one.close(), two.close())
    await _holds(harness, SESSION, first)
    await _holds(harness, OTHER, second)


async def one_writer_only(harness: TranscriptHarness) -> None:
    """A second writer is refused for as long as the first is open; readers are not."""
    if not harness.exclusive:
        return
    lines = lines_of("one")
    store = await harness.open(SESSION, begin=True)
    await store.append(lines, {})
    second = await harness.open(SESSION)
    try:
        await second.load(_ignore)
    except SessionLocked:
        pass
    else:
        raise ContractBroken("two stores may write one session at the same time")
    finally:
        await second.close()
    await store.append(lines_of("two", after=lines), {})
    await store.close()
    third = await harness.open(SESSION)
    report = await third.load(_ignore)
    _need(report.count == 3, "what the first writer kept is not all there")
    await third.close()


async def a_closed_store_takes_nothing(harness: TranscriptHarness) -> None:
    """Closing twice is harmless; appending afterwards is an error, and is not stored."""
    lines = lines_of("one")
    store = await harness.open(SESSION, begin=True)
    await store.append(lines, {})
    await store.close()
    await store.close()
    _need(not store.writable, "a closed store says that it can be written to")
    try:
        await store.append(lines_of("two", after=lines), {})
    except StorageError:
        pass
    else:
        raise ContractBroken("a closed store took an append")
    await _holds(harness, SESSION, lines)


async def a_reader_does_not_write(harness: TranscriptHarness) -> None:
    """A store that was opened for reading refuses appends."""
    lines = lines_of("one")
    store = await harness.open(SESSION, begin=True)
    await store.append(lines, {})
    await store.close()
    reader = await harness.reader(SESSION)
    await reader.load(_ignore)
    if not reader.writable:
        try:
            await reader.append(lines_of("two", after=lines), {})
        except StorageError:
            pass
        else:
            raise ContractBroken("a store that cannot be written to took an append")
    await reader.close()


async def a_newer_format_is_read_only(harness: TranscriptHarness) -> None:
    """A session of a newer version can be read; nothing can be added."""
    lines = lines_of("one")
    lines[0] = lines[0].replace(b'"version":1', b'"version":99')
    store = await harness.open(SESSION, begin=True)
    await store.append(lines, {})
    await store.close()
    again = await harness.open(SESSION)
    report = await again.load(_ignore)
    _need(report.newer, "the report does not say that the format is newer")
    _need(report.count == len(lines), "a newer session is not all read")
    if harness.exclusive:
        _need(not again.writable, "a session of a newer format can be written to")
    await again.close()


async def damage_is_told(harness: TranscriptHarness) -> None:
    """Records that do not follow one another are reported, not hidden or mended."""
    lines = lines_of("one", "two", "three")
    broken = [lines[0], lines[1], lines[3]]  # a record is missing
    store = await harness.open(SESSION, begin=True)
    await store.append(broken, {})
    await store.close()
    writer = await harness.open(SESSION)
    damaged = False
    try:
        damaged = bool((await writer.load(_ignore)).damage)
    except SessionDamaged:
        damaged = True
    finally:
        await writer.close()
    _need(damaged, "a gap in the records was not told of")
    await _holds(harness, SESSION, broken)


async def a_manager_goes_on_with_it(harness: TranscriptHarness) -> None:
    """A session manager over it resumes, settles and appends."""
    store = await harness.open(SESSION, begin=True)
    await store.append(lines_of("one"), {})
    await store.close()
    store = await harness.open(SESSION)
    manager = await SessionManager.from_store(store, ids=RandomIds(), clock=SystemClock())
    many = (manager.append(CustomRecord(custom_type="c", data=n)) for n in range(20))
    await asyncio.gather(*many)
    state = manager.state
    await manager.close()
    again = await SessionManager.from_store(
        await harness.open(SESSION), ids=RandomIds(), clock=SystemClock()
    )
    _need(again.session_id == SESSION, "the session's id changed")
    _need(
        (again.state.count, again.state.last_uuid) == (state.count, state.last_uuid),
        "the state is another one after it was opened again",
    )
    await again.close()


TRANSCRIPT_CHECKS: tuple[TranscriptCheck, ...] = (
    keeps_lines_in_order,
    keeps_what_it_does_not_know,
    tells_what_is_not_there,
    goes_on_where_it_was,
    an_append_of_nothing_is_nothing,
    durable_when_append_returns,
    keeps_artifacts,
    large_appends_are_whole,
    sessions_are_apart,
    one_writer_only,
    a_closed_store_takes_nothing,
    a_reader_does_not_write,
    a_newer_format_is_read_only,
    damage_is_told,
    a_manager_goes_on_with_it,
)


async def _holds(
    harness: TranscriptHarness,
    session_id: str,
    lines: Sequence[bytes],
    *,
    exclusive_reader: bool = True,
) -> None:
    """Assert that the session is exactly these lines, for a reader and for a writer."""
    found, report = await _read(await harness.reader(session_id))
    _need(found == list(lines), f"{len(found)} lines are there and not the {len(lines)} of before")
    _need(report.count == len(lines), f"the report counts {report.count}, not {len(lines)}")
    _need(report.torn is None, "a tail is torn though every append returned")
    if not exclusive_reader:
        return
    with contextlib.suppress(SessionDamaged):
        found, _ = await _read(await harness.open(session_id))
        _need(found == list(lines), "a writer reads other lines than a reader")


async def _read(store: TranscriptStore) -> tuple[list[bytes], LoadReport]:
    found: list[bytes] = []
    try:
        report = await store.load(lambda item: found.append(item.raw))
    finally:
        await store.close()
    return found, report


def _ignore(_item: object) -> None:
    """Visit nothing."""


def _need(holds: object, what: str) -> None:
    if not holds:
        raise ContractBroken(what)


# ------------------------------------------------------------- storages


async def begins_and_goes_on(harness: StorageHarness) -> None:
    """A storage that is empty begins a session; opened again it goes on with it."""
    first = await _manager(harness)
    _need(first.state.count == 0, "a new storage holds records")
    await first.append(CustomRecord(custom_type="c", data=1))
    session_id, before = first.session_id, first.state.last_uuid
    await first.close()
    again = await _manager(harness)
    _need(again.session_id == session_id, "the session has another id")
    _need(again.state.last_uuid == before, "the session is not where it was")
    await again.close()


async def state_is_saved_before_append_returns(harness: StorageHarness) -> None:
    """When the append of a setting returns, the current state has it."""
    manager = await _manager(harness)
    await manager.append(SessionInfoRecord(title="Weather"))
    await manager.append(ThinkingLevelChangeRecord(thinking_level="high"))
    storage = await harness.storage(SESSION)
    saved = await storage.current_state.load()
    await storage.current_state.close()
    facts = saved.facts if saved else None
    _need(facts is not None, "no state was saved")
    if facts is not None:
        _need((facts.title, facts.thinking_level) == ("Weather", "high"), "the state is an old one")
        _need(facts.last_uuid == manager.state.last_uuid, "the state is not of the last record")
    await manager.close()


async def only_what_came_later_is_read(harness: StorageHarness) -> None:
    """A session with a saved state is opened from it, and means the same."""
    manager = await _manager(harness)
    for number in range(5):
        await manager.append(*_talk(number))
    await manager.append(SessionInfoRecord(title="T"))  # saves
    await manager.append(*_talk(9))
    await manager.close()
    opened = await _manager(harness)
    _need(opened.state.partial > 0, "all records were read though there was a state")
    seen: list[Record] = []
    await opened.close()
    whole = await open_storage(
        await harness.storage(SESSION),
        cwd=_CWD,
        ids=RandomIds(),
        clock=SystemClock(),
        observe=seen.append,
    )
    _need(len(seen) == opened.state.count, "reading all and reading the rest differ in number")
    _need(whole.state.messages == opened.state.messages, "the messages are other ones")
    _need(whole.state.message_uuids == opened.state.message_uuids, "the ids are other ones")
    _need(whole.state.title == opened.state.title == "T", "the title is another one")
    await whole.close()


async def goes_back_behind_the_state(harness: StorageHarness) -> None:
    """A rewind to a record that was not read when it was opened works."""
    manager = await _manager(harness)
    uuids = [uuid for number in range(4) for uuid in await manager.append(*_talk(number))]
    await manager.close()
    opened = await _manager(harness)
    await opened.append(RewindRecord(to_uuid=uuids[1], reason="rewind"))
    _need(opened.state.message_uuids == uuids[:2], "the rewind did not go where it should")
    await opened.close()
    again = await _manager(harness)
    _need(again.state.message_uuids == uuids[:2], "the rewind is gone")
    await again.close()


async def a_state_of_other_records_is_not_used(harness: StorageHarness) -> None:
    """A state that does not fit the transcript is passed over, and all is read."""
    manager = await _manager(harness)
    await manager.append(*_talk(1))
    count = manager.state.count
    await manager.close()
    storage = await harness.storage(SESSION)
    transcript = storage.transcript
    await transcript.load(_ignore)  # becomes the owner, where there is one
    saved = await storage.current_state.load()
    _need(saved is not None, "nothing was saved at the end")
    if saved is not None:
        facts = msgspec.structs.replace(saved.facts, last_uuid="of-another-session")
        await storage.current_state.save(msgspec.structs.replace(saved, facts=facts))
    await transcript.close()
    await storage.current_state.close()
    again = await _manager(harness)
    _need(again.state.count == count, "records are missing")
    _need(len(again.state.messages) == 2, "messages are missing")
    await again.close()


STORAGE_CHECKS: tuple[StorageCheck, ...] = (
    begins_and_goes_on,
    state_is_saved_before_append_returns,
    only_what_came_later_is_read,
    goes_back_behind_the_state,
    a_state_of_other_records_is_not_used,
)


async def _manager(harness: StorageHarness) -> SessionManager:
    storage = await harness.storage(SESSION)
    return await open_storage(storage, cwd=_CWD, ids=RandomIds(), clock=SystemClock())


def _talk(number: int) -> list[Record]:
    """Return a prompt and its answer."""
    asked = UserMessage(content=(TextBlock(f"question {number}"),), origin=Origin("human"))
    said = AssistantMessage(
        content=(TextBlock(f"answer {number}"),),
        api="anthropic-messages",
        provider="test",
        model="test",
        stop_reason="end_turn",
    )
    return [user_record(asked), assistant_record(said)]


# -------------------------------------------------------------- event logs


async def counts_durable_events(log: EventLog) -> None:
    """Each session counts from 1 without gaps; transient events get 0 and are not kept."""
    seqs = [(await log.append("s", body)).seq for body in (_told(1), _DELTA, _told(2))]
    _need(seqs == [1, 0, 2], f"the events got {seqs}, not 1, 0 and 2")
    _need((await log.append("other", _told(9))).seq == 1, "another session begins at 1")
    _need(await log.count("s") == 2, "the count is not the newest seq")
    _need(await log.count("nothing") == 0, "a session without events has a count")
    _need(_texts(await log.read("s")) == ["1", "2"], "what was kept is not read")
    _need(_texts(await log.read("s", since=1)) == ["2"], "reading since a seq begins behind it")
    _need(_texts(await log.read("s", limit=1)) == ["1"], "a limit takes the oldest")
    _need(await log.read("nothing") == [], "a session without events reads as none")


async def replays_then_goes_on(log: EventLog) -> None:
    """A subscription gets what is kept, then what comes, each once and in order."""
    for n in range(3):
        await log.append("s", _told(n))
    seen: list[Event] = []
    async with contextlib.aclosing(subscribe_event_log(log, "s", since=1)) as events:
        async for event in events:
            seen.append(event)
            if len(seen) == 1:
                await log.append("s", _DELTA)
                await log.append("s", _told(3))
            if event.seq == 4:
                break
    kept = [event.seq for event in seen if event.seq]
    _need(kept == [2, 3, 4], f"the subscription saw {kept}, not 2, 3 and 4")


async def many_writers_keep_the_order(log: EventLog) -> None:
    """Appends at once get different seqs, and are read in their order."""
    told = await asyncio.gather(*(log.append("s", _told(n)) for n in range(30)))
    _need(sorted(e.seq for e in told) == list(range(1, 31)), "seqs have gaps or come twice")
    by_seq = [event.id for event in sorted(told, key=lambda e: e.seq)]
    _need([e.id for e in await log.read("s")] == by_seq, "events are not in the order of seq")


async def listeners_hear_once(log: EventLog) -> None:
    """Who listens hears each event after it was kept, and nothing once he stopped."""
    heard: list[int] = []
    stop = log.listen("s", lambda event: heard.append(event.seq))
    await log.append("s", _told(1))
    await log.append("other", _told(1))
    await log.append("s", _DELTA)
    stop()
    stop()
    await log.append("s", _told(2))
    _need(heard == [1, 0], f"a listener heard {heard}, not 1 and 0")


EVENT_LOG_CHECKS: tuple[EventLogCheck, ...] = (
    counts_durable_events,
    replays_then_goes_on,
    many_writers_keep_the_order,
    listeners_hear_once,
)

_DELTA = PartDelta(session_id="s", message_id="m", part_id="p", text="x")


def _told(number: int) -> SessionError:
    return SessionError(session_id="s", code="c", text=str(number))


def _texts(events: Sequence[Event]) -> list[str]:
    return [event.body.text for event in events if isinstance(event.body, SessionError)]
