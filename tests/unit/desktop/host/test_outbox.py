"""The queue of frames: nothing durable is left out, deltas give way to a snapshot."""

import asyncio
from collections import defaultdict

from agent_sdk.events.wire import Event, EventBody, PartDelta, PartUpdated, SessionError, TextPart
from agent_sdk.host import RandomIds, SystemClock
from desktop.bridge.frames import EventFrame, Frame, FrameReader
from desktop.host.channel import MAX_LAG, MAX_QUEUED, Outbox

TEXT = "x" * 2000


class Snapshots:
    """Knows what all deltas of each part come to."""

    def __init__(self) -> None:
        self.pieces: defaultdict[str, list[str]] = defaultdict(list)
        self.gone = False

    @property
    def texts(self) -> dict[str, str]:
        return {part_id: "".join(pieces) for part_id, pieces in self.pieces.items()}

    def snapshot(self, delta: PartDelta) -> PartUpdated | None:
        if self.gone:
            return None
        part = TextPart(id=delta.part_id, text="".join(self.pieces[delta.part_id]))
        return PartUpdated(session_id="s", message_id=delta.message_id, part=part)


class Window:
    """Puts frames in, and applies what comes out as a window does."""

    def __init__(self) -> None:
        self.snapshots = Snapshots()
        self.outbox = Outbox(snapshots=self.snapshots, ids=RandomIds(), clock=SystemClock())
        self.seq = 0
        self.frames: list[Frame] = []
        self.shown: defaultdict[str, list[str]] = defaultdict(list)
        self.reader = FrameReader()

    def put(self, body: EventBody) -> None:
        self.seq += 1
        event = Event(seq=self.seq, id=str(self.seq), at="", session_id="s", body=body)
        self.outbox.put(EventFrame(event=event))

    def delta(self, part_id: str, text: str = TEXT) -> None:
        self.snapshots.pieces[part_id].append(text)
        self.put(PartDelta(session_id="s", message_id="m", part_id=part_id, text=text))

    async def read(self) -> None:
        while self.outbox.size or not self.frames:
            for frame in self.reader.feed(await self.outbox.take()):
                self.frames.append(frame)
                assert isinstance(frame, EventFrame)
                body = frame.event.body
                if isinstance(body, PartDelta):
                    self.shown[body.part_id].append(body.text)
                elif isinstance(body, PartUpdated) and isinstance(body.part, TextPart):
                    self.shown[body.part.id] = [body.part.text]

    @property
    def texts(self) -> dict[str, str]:
        return {part_id: "".join(pieces) for part_id, pieces in self.shown.items()}


def error(text: str) -> SessionError:
    return SessionError(session_id="s", code="c", text=text)


async def test_frames_come_in_order() -> None:
    window = Window()
    window.delta("a", "1")
    window.put(error("e"))
    window.delta("a", "2")
    await window.read()
    assert [f.event.seq for f in window.frames if isinstance(f, EventFrame)] == [1, 2, 3]
    assert window.texts == {"a": "12"}


async def test_take_waits_for_a_frame() -> None:
    window = Window()
    taking = asyncio.ensure_future(window.outbox.take())
    await asyncio.sleep(0)
    assert not taking.done()
    window.put(error("e"))
    assert b'"e"' in await taking


async def test_deltas_of_a_slow_window_collapse_and_the_text_is_whole() -> None:
    window = Window()
    for at in range(3 * MAX_QUEUED // len(TEXT)):
        window.delta("a" if at % 3 else "b")
        if at % 1000 == 0:
            window.put(error(str(at)))
    assert window.outbox.size < 2 * MAX_QUEUED
    assert not window.outbox.overflown
    window.delta("b", "the end")
    await window.read()
    assert window.texts == window.snapshots.texts
    told = [
        f.event.body.text
        for f in window.frames
        if isinstance(f, EventFrame) and isinstance(f.event.body, SessionError)
    ]
    assert told == [str(at) for at in range(0, 3 * MAX_QUEUED // len(TEXT), 1000)]
    before = len(window.frames)
    window.delta("a", "live again")
    await window.read()
    assert len(window.frames) == before + 1
    assert window.texts == window.snapshots.texts


async def test_part_that_has_gone_is_left_out() -> None:
    window = Window()
    for _ in range(MAX_QUEUED // len(TEXT) + 100):
        window.delta("a")
    window.snapshots.gone = True
    window.put(error("e"))
    await window.read()
    assert len(window.frames) == 1


async def test_window_that_never_reads_counts_as_gone() -> None:
    window = Window()
    big = "x" * (8 * 1024 * 1024)
    for _ in range(MAX_LAG // len(big)):
        window.put(error(big))
    assert window.outbox.overflown
