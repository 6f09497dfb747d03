"""Recorded answers of model servers, and how they are played through a decoder."""

from collections.abc import Iterable
from pathlib import Path

from agent_sdk.providers.base import Decoder, StreamDone, StreamEvent, StreamFailed
from agent_sdk.providers.sse import SseParser

STREAMS = Path(__file__).parents[1] / "data" / "streams"


def recorded(folder: str) -> dict[str, bytes]:
    """Return the recordings of one folder by name."""
    found = {p.stem: p.read_bytes() for p in sorted((STREAMS / folder).glob("*.sse"))}
    assert found, f"no recordings in {folder!r}"
    return found


def play(decoder: Decoder, chunks: Iterable[bytes]) -> list[StreamEvent]:
    """Return all events of an answer that arrives in the given chunks."""
    parser, events = SseParser(), list[StreamEvent]()
    for chunk in chunks:
        for name, data in parser.feed(chunk):
            events.extend(decoder.feed(name, data))
            if events and isinstance(events[-1], StreamDone | StreamFailed):
                return events
    return [*events, decoder.finish()]


def shown(events: Iterable[StreamEvent]) -> list[str]:
    """Return events in a form that can be compared; errors have no equality."""
    return [repr(e) for e in events]
