"""Event logs: one suite for all of them, and what a file adds."""

import asyncio
import contextlib
import subprocess
import sys
from pathlib import Path

import pytest

from agent_sdk.core.errors import InvalidInput, SessionLocked, StorageError
from agent_sdk.core.ids import RandomIds, SystemClock
from agent_sdk.events.log import EventLog, JsonlEventLog, MemoryEventLog, subscribe_event_log
from agent_sdk.events.wire import (
    Event,
    PartDelta,
    SessionError,
    decode_event,
    encode_event,
)


def told(n: int) -> SessionError:
    return SessionError(session_id="s", code="c", text=str(n))


DELTA = PartDelta(session_id="s", message_id="m", part_id="p", text="x")


def jsonl(folder: Path) -> JsonlEventLog:
    return JsonlEventLog(folder=folder / "events", ids=RandomIds(), clock=SystemClock())


@pytest.fixture(params=["memory", "jsonl"])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> EventLog:
    if request.param == "memory":
        return MemoryEventLog(ids=RandomIds(), clock=SystemClock())
    return jsonl(tmp_path)


def texts(events: list[Event]) -> list[str]:
    return [e.body.text for e in events if isinstance(e.body, SessionError)]


async def test_seq_counts_durable_events_of_each_session(log: EventLog) -> None:
    seqs = [(await log.append("s", body)).seq for body in (told(1), DELTA, told(2))]
    assert seqs == [1, 0, 2]
    assert (await log.append("other", told(9))).seq == 1
    assert await log.count("s") == 2
    assert texts(await log.read("s")) == ["1", "2"]
    assert texts(await log.read("s", since=1)) == ["2"]
    assert texts(await log.read("s", limit=1)) == ["1"]
    assert await log.read("nothing") == []


async def test_subscription_replays_then_goes_on_live(log: EventLog) -> None:
    for n in range(3):
        await log.append("s", told(n))
    seen: list[Event] = []
    async with contextlib.aclosing(subscribe_event_log(log, "s", since=1)) as events:
        async for event in events:
            seen.append(event)
            if len(seen) == 2:
                await log.append("s", DELTA)
                await log.append("s", told(3))
            if event.seq == 4:
                break
    assert [e.seq for e in seen] == [2, 3, 0, 4]


async def test_many_writers_keep_the_order(log: EventLog) -> None:
    await asyncio.gather(*(log.append("s", told(n)) for n in range(50)))
    events = await log.read("s")
    assert [e.seq for e in events] == list(range(1, 51))


async def test_file_survives_a_restart_and_a_torn_tail(tmp_path: Path) -> None:
    first = jsonl(tmp_path)
    for n in range(3):
        await first.append("s", told(n))
    await first.aclose()
    path = tmp_path / "events" / "s.events.jsonl"
    with path.open("ab") as stream:
        stream.write(b'{"seq":4,"id":"tor')
    second = jsonl(tmp_path)
    assert texts(await second.read("s")) == ["0", "1", "2"]
    assert (await second.append("s", told(3))).seq == 4
    assert texts(await second.read("s", since=2)) == ["2", "3"]
    await second.aclose()


async def test_one_writer_and_any_reader(tmp_path: Path) -> None:
    first, second = jsonl(tmp_path), jsonl(tmp_path)
    await first.append("s", told(1))
    with pytest.raises(SessionLocked):
        await second.append("s", told(2))
    assert texts(await second.read("s")) == ["1"]
    await first.append("s", told(2))
    assert texts(await second.read("s", since=1)) == ["2"]
    await first.aclose()


async def test_follows_what_another_process_writes(tmp_path: Path) -> None:
    reader = jsonl(tmp_path)
    line = encode_event(
        Event(seq=1, id="i", at="2026-01-01T00:00:00.000Z", session_id="s", body=told(7))
    )
    (tmp_path / "events").mkdir()

    async def first() -> Event:
        async with contextlib.aclosing(subscribe_event_log(reader, "s", poll_seconds=0.01)) as it:
            async for event in it:
                return event
        raise AssertionError

    waiting = asyncio.ensure_future(first())
    await asyncio.sleep(0.03)
    (tmp_path / "events" / "s.events.jsonl").write_bytes(line + b"\n")
    assert (await asyncio.wait_for(waiting, 10)).seq == 1


async def test_damage_and_strange_ids_are_named(tmp_path: Path) -> None:
    log = jsonl(tmp_path)
    (tmp_path / "events").mkdir()
    (tmp_path / "events" / "s.events.jsonl").write_bytes(b"{}\n")
    with pytest.raises(StorageError, match="damaged"):
        await log.read("s")
    for bad in ("../x", "", "a/b"):
        with pytest.raises(InvalidInput):
            await log.read(bad)


def test_events_refuse_unknown_fields_and_come_back_equal() -> None:
    event = Event(seq=1, id="i", at="t", session_id="s", body=told(1), record="r")
    assert decode_event(encode_event(event)) == event
    with pytest.raises(Exception, match="unknown field"):
        decode_event(encode_event(event).replace(b'"seq"', b'"more":1,"seq"'))


def test_wire_stands_alone() -> None:
    code = (
        "import sys, agent_sdk.events.wire;"
        "print([m for m in ('httpx', 'pydantic', 'asyncio', 'agent_sdk.loop') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=Path.cwd()
    )
    assert done.stdout.strip() == "[]"
