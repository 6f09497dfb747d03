"""Joining chunks must not change what an HTTP parser reads."""

import itertools

import h11
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agent_sdk.providers.netstream import ChunkJoiner

HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


def read(pieces: list[bytes]) -> tuple[list[str], bytes]:
    """Return what h11 makes of a response: kinds of events, and the body."""
    connection = h11.Connection(h11.CLIENT)
    connection.send(h11.Request(method="POST", target="/", headers=[("host", "h")]))
    connection.send(h11.EndOfMessage())
    kinds, body = list[str](), b""
    try:
        for piece in [*pieces, b""]:
            connection.receive_data(piece)
            while True:
                event = connection.next_event()
                if event is h11.NEED_DATA:
                    break
                if event is h11.PAUSED:
                    return kinds, body
                if isinstance(event, h11.Data):
                    body += bytes(event.data)
                else:
                    kinds.append(type(event).__name__)
                if isinstance(event, h11.ConnectionClosed):
                    return kinds, body
    except h11.RemoteProtocolError:
        kinds.append("error")
    return kinds, body


def joined(pieces: list[bytes]) -> list[bytes]:
    joiner = ChunkJoiner()
    joiner.expect_response()
    return [out for piece in pieces if piece and (out := joiner.feed(piece))]


def cut(stream: bytes, places: list[int]) -> list[bytes]:
    points = sorted({0, len(stream), *(p % (len(stream) + 1) for p in places)})
    return [stream[a:b] for a, b in itertools.pairwise(points)]


def chunked(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


BODIES = st.lists(st.binary(min_size=1, max_size=40), max_size=8).map(
    lambda parts: b"".join(map(chunked, parts))
)
ENDS = st.sampled_from(
    [
        b"0\r\n\r\n",
        b"0\r\nx-trailer: 1\r\n\r\n",
        b"",
        b"5\r\nab",
        b"zz\r\n",
        b"5;ext=1\r\nabcde\r\n0\r\n\r\n",
        b"5 \r\nabcde\r\n0\r\n\r\n",
        b"+5\r\nabcde\r\n0\r\n\r\n",
        b"5\r\nabcdeXX",
        b"5\nabcde\n",
        b"\r\n",
    ]
)
HEADS = st.sampled_from(
    [
        HEAD,
        b"HTTP/1.1 100 Continue\r\n\r\n" + HEAD,
        b"HTTP/1.1 200 OK\r\ntransfer-encoding:chunked\r\nx: y\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n\r\n",
        b"HTTP/1.0 200 OK\r\n\r\n",
        b"nonsense\r\n\r\n",
    ]
)


@given(HEADS, BODIES, ENDS, st.lists(st.integers(0, 600), max_size=15))
@example(HEAD, chunked(b"abc") + chunked(b"def"), b"0\r\n\r\n", list(range(90)))
def test_the_parser_reads_the_same(head: bytes, body: bytes, end: bytes, places: list[int]) -> None:
    pieces = cut(head + body + end, places)
    plain_kinds, plain_body = read(pieces)
    kinds, read_body = read(joined(pieces))
    assert (kinds, read_body) == (plain_kinds, plain_body)


def test_one_read_of_many_chunks_becomes_one() -> None:
    joiner = ChunkJoiner()
    joiner.expect_response()
    assert joiner.feed(HEAD) == HEAD
    assert joiner.feed(chunked(b"ab") * 3) == chunked(b"ababab")


def test_nothing_is_kept_back_but_half_a_size() -> None:
    joiner = ChunkJoiner()
    joiner.expect_response()
    joiner.feed(HEAD)
    assert joiner.feed(b"3\r\nab") == chunked(b"ab")
    assert joiner.feed(b"c") == chunked(b"c")
    assert joiner.feed(b"\r\n1") == b""
    assert joiner.feed(b"\r\nx") == chunked(b"x")


@pytest.mark.parametrize("size", [1_000, 200_000])
def test_an_endless_head_or_size_goes_through_for_the_parser_to_refuse(size: int) -> None:
    joiner = ChunkJoiner()
    joiner.expect_response()
    assert b"".join(joiner.feed(b"x" * 100) for _ in range(size // 100)) == b"x" * size
    joiner.expect_response()
    joiner.feed(HEAD)
    out = b"".join(joiner.feed(b"1" * 100) for _ in range(size // 100))
    assert len(out) == (0 if size < 1024 else size)


def test_the_next_response_is_read_afresh() -> None:
    joiner = ChunkJoiner()
    for _ in range(2):
        joiner.expect_response()
        pieces = [joiner.feed(HEAD + chunked(b"a") + chunked(b"b")), joiner.feed(b"0\r\n\r\n")]
        assert pieces == [HEAD + chunked(b"ab"), b"0\r\n\r\n"]
