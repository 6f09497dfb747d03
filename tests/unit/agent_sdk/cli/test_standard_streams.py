"""Standard streams as other programs hand them over: pipes, sockets, set not to wait."""

import os
import socket
import sys
import threading
import time
from collections.abc import Iterator

import pytest

from agent_sdk.cli.stdin import read_prompt
from agent_sdk.cli.streams import Out
from agent_sdk.core.errors import InvalidInput

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="pipes of POSIX")


def not_waiting(fd: int) -> None:
    if sys.platform != "win32":
        os.set_blocking(fd, False)


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    ends = os.pipe()
    yield ends
    for fd in ends:
        os.close(fd)


def test_text_from_a_socket_follows_the_words_of_the_command_line() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(b"some text")
        theirs.shutdown(socket.SHUT_WR)
        assert read_prompt("Review this.", fd=ours.fileno()) == ("Review this.\n\nsome text", False)


def test_a_pipe_that_does_not_wait_is_waited_for(pipe: tuple[int, int]) -> None:
    reader, writer = pipe
    not_waiting(reader)
    late = os.dup(writer)
    os.write(writer, b"one ")
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, writer)  # the late one is the last writer
    os.close(null)

    def write() -> None:
        time.sleep(0.05)
        os.write(late, b"two")
        os.close(late)

    thread = threading.Thread(target=write)
    thread.start()
    assert read_prompt(None, fd=reader) == ("one two", False)
    thread.join()


def test_input_that_cannot_be_read_is_said(pipe: tuple[int, int]) -> None:
    with pytest.raises(InvalidInput, match="cannot be read"):
        read_prompt(None, fd=pipe[1])  # open for writing only


def test_output_is_written_whole_to_a_pipe_that_does_not_wait(pipe: tuple[int, int]) -> None:
    reader, writer = pipe
    not_waiting(writer)
    data = bytes(range(256)) * 1024  # more than a pipe holds
    received = bytearray()

    def read() -> None:
        while len(received) < len(data):
            received.extend(os.read(reader, 1 << 16))

    thread = threading.Thread(target=read)
    thread.start()
    Out(writer).write(data)
    thread.join()
    assert received == data
