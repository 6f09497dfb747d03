"""The event stream parser against the text of the standard, whatever the cuts."""

import itertools
import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agent_sdk.providers.sse import SseParser


def parse(*chunks: bytes, limit: int = 1 << 20) -> list[tuple[bytes, bytes]]:
    parser = SseParser(max_event_bytes=limit)
    return [event for chunk in chunks for event in parser.feed(chunk)]


def by_the_standard(stream: bytes) -> list[tuple[bytes, bytes]]:
    """The steps of the standard, one after the other, without thought of speed."""
    lines = re.split(rb"\r\n|\n|\r", stream.removeprefix(b"\xef\xbb\xbf"))
    events, name, data = [], b"", list[bytes]()
    for line in lines[:-1]:  # the last one has no end
        if not line:
            if data:
                events.append((name, b"\n".join(data)))
            name, data = b"", []
            continue
        field, colon, value = line.partition(b":")
        if not field and colon:
            continue
        value = value.removeprefix(b" ")
        if field == b"data":
            data.append(value)
        elif field == b"event":
            name = value
    return events


def cut(stream: bytes, places: list[int]) -> list[bytes]:
    points = sorted({0, len(stream), *(p % (len(stream) + 1) for p in places)})
    return [stream[a:b] for a, b in itertools.pairwise(points)]


PIECES = st.sampled_from(
    [
        b"event: a",
        b"event:b",
        b"event",
        b"data: x",
        b"data:y",
        b"data:  two spaces",
        b"data",
        b"data:",
        b": comment",
        b":",
        b"id: 7",
        b"retry: 1",
        b"data: \xe2\x80\xa8 \xc2\x85 \x0b \x0c \x1c",
        b"\xef\xbb\xbf",
        b"\n",
        b"\r",
        b"\r\n",
        b"\n\n",
        b"\r\r",
        b"\r\n\r\n",
    ]
)
STREAMS = st.lists(PIECES, max_size=30).map(b"".join)


@given(STREAMS, st.lists(st.integers(0, 500), max_size=20))
@example(b"\xef\xbb\xbfdata: x\n\n", [1, 2, 3])
@example(b"data: x\r\n\r\ndata: y\r\r", list(range(40)))
@example(b"data: x\n\n\n\n\ndata: y\n\n\n", list(range(40)))
def test_any_cut_of_any_stream_gives_the_events_of_the_standard(
    stream: bytes, places: list[int]
) -> None:
    expected = by_the_standard(stream)
    assert parse(*cut(stream, places)) == expected
    assert parse(*(stream[i : i + 1] for i in range(len(stream)))) == expected


@pytest.mark.parametrize(
    ("stream", "events"),
    [
        (b"event: e\ndata: 1\n\n", [(b"e", b"1")]),
        (b"data: 1\ndata: 2\n\n", [(b"", b"1\n2")]),
        (b"data: 1\nevent: late\n\n", [(b"late", b"1")]),
        (b"event: no data\n\ndata: 1\n\n", [(b"", b"1")]),
        (b"data\n\n", [(b"", b"")]),
        (b": ping\n\n", []),
        (b"data: not ended\n", []),
        (b"data: \xc2\x85\xe2\x80\xa8\x1c\n\n", [(b"", b"\xc2\x85\xe2\x80\xa8\x1c")]),
    ],
)
def test_forms(stream: bytes, events: list[tuple[bytes, bytes]]) -> None:
    assert parse(stream) == events


def test_a_thousand_events_in_one_chunk() -> None:
    assert len(parse(b"event: e\ndata: x\n\n" * 1000)) == 1000


@given(st.integers(0, 40), st.lists(st.integers(0, 200), max_size=8))
def test_an_event_over_the_limit_stops_the_parser_after_those_before_it(
    more: int, places: list[int]
) -> None:
    stream = b"data: ok\n\ndata: " + b"x" * (34 + more) + b"\n\ndata: never\n\n"
    parser = SseParser(max_event_bytes=40)
    events = [e for chunk in cut(stream, places) for e in parser.feed(chunk)]
    if more:
        assert (events, parser.overflow) == ([(b"", b"ok")], True)
        assert parser.feed(b"data: y\n\n") == []
    else:
        assert [data for _, data in events] == [b"ok", b"x" * 34, b"never"]
        assert not parser.overflow


def test_an_endless_line_takes_no_more_memory_than_the_limit() -> None:
    parser = SseParser(max_event_bytes=10_000)
    for _ in range(100):
        assert parser.feed(b"x" * 1000) == []
    assert parser.overflow
    assert sum(map(len, parser._pieces)) == 0
