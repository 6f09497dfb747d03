"""Frames: whatever pieces they arrive in they are the same, and what is unknown is named."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from desktop.bridge.frames import (
    MAX_FRAME,
    AnswerFrame,
    CommandFrame,
    Frame,
    FrameError,
    FrameReader,
    Hello,
    StateFrame,
    encode,
)
from desktop.bridge.messages import ErrorInfo, QueuedPrompt, QueueState, SessionsState
from desktop.bridge.protocol import Failed, QueuedRemoved, SubmitPrompt

FRAMES: list[Frame] = [
    Hello(version="1", epoch="e", language="zh"),
    CommandFrame(id=1, command=SubmitPrompt(session_id="s", prompt_id="p", text="a\nb\u2028c")),
    AnswerFrame(id=1, answer=Failed(error=ErrorInfo(code="c", text="t", hint="h"))),
    StateFrame(
        version=3, state=QueueState(session_id="s", queued=(QueuedPrompt(id="1", text="x"),))
    ),
    AnswerFrame(id=2, answer=QueuedRemoved(text='"\\🙂' * 100_000)),
    StateFrame(version=4, state=SessionsState(removed=("a",), reset=True)),
]
WIRE = b"".join(encode(f) for f in FRAMES)


def test_no_line_is_longer_than_a_frame() -> None:
    assert max(len(line) + 1 for line in WIRE.split(b"\n")) <= MAX_FRAME


@given(st.lists(st.integers(1, 200_000), max_size=30))
def test_any_pieces_give_the_same_frames(sizes: list[int]) -> None:
    reader, out, at = FrameReader(), [], 0
    for size in [*sizes, len(WIRE)]:
        out += reader.feed(WIRE[at : at + size])
        at += size
    assert out == FRAMES


@pytest.mark.parametrize(
    "line",
    [
        b"no json\n",
        b"[]\n",
        b'{"frame":"weather"}\n',
        b'{"frame":"hello","more":1}\n',
        b'{"frame":"command","id":1,"command":{"command":"fly"}}\n',
        b'{"frame":"chunk","text":"{}","last":true}\n',
        b"\xff\xfe\n",
        b"x" * (MAX_FRAME + 1),
    ],
)
def test_what_is_no_frame_is_named(line: bytes) -> None:
    with pytest.raises(FrameError):
        FrameReader().feed(line)


def test_chunks_must_not_be_interrupted() -> None:
    reader = FrameReader()
    big = encode(FRAMES[4])
    reader.feed(big[: big.index(b"\n") + 1])
    with pytest.raises(FrameError, match="middle"):
        reader.feed(encode(FRAMES[0]))


@pytest.mark.parametrize(
    "line",
    [
        b'{"frame":"command","id":1,"command":{"command":"unlock_keys","passphrase":"SECRET","x":1}}',
        b'{"frame":"command","id":1,"command":{"command":"save_provider","key":"SECRET"}}',
        b'{"passphrase" : "a\\\\SECRET","new_passphrase":"\\"SECRET","frame":"?"}',
        b'{"frame":"command","id":1,"command":{"command":"unlock_keys","passphrase":"SECRET and no',
    ],
)
def test_what_is_refused_does_not_show_secrets(line: bytes) -> None:
    with pytest.raises(FrameError) as refused:
        FrameReader().feed(line + b"\n")
    assert "SECRET" not in str(refused.value)
    assert "passphrase" in str(refused.value) or "key" in str(refused.value)
