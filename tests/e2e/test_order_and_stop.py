"""Calls side by side and one after the other, and a stop at any moment.

Processes are found by a word that only they carry in their arguments.
"""

import asyncio
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from agent_sdk.testing.mock_server import MockCall, MockScript, MockServer, MockTurn
from agent_sdk.testing.mock_wire import APIS, WireApi
from tests.support.cli import Cli, Finished, Running
from tests.support.processes import appear, unique_word, vanish
from tests.support.transcripts import blocks, chained, checked, result_texts

if sys.platform == "win32":
    pytest.skip("there are no signals to send", allow_module_level=True)

import fcntl
import termios

END = MockTurn(text="That is all.")
STOP_SECONDS = 3.0


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    return Cli(tmp_path)


def bash(command: str) -> MockCall:
    return MockCall(name="bash", input={"command": command})


# --------------------------------------------------------------------- order


async def test_commands_do_not_overlap(cli: Cli) -> None:
    timed = "date +%s%N > {0}.begun; sleep 0.3; date +%s%N > {0}.ended"
    calls = tuple(bash(timed.format(name)) for name in "abc")
    async with MockServer(MockScript(turns=(MockTurn(calls=calls), END))) as server:
        cli.use(server)
        done = await cli.run("-p", "Run them.", "--allowed-tools", "Bash")
    assert done.code == 0, done.complaint
    times = [
        int((cli.project / f"{name}.{what}").read_text())
        for name in "abc"
        for what in ("begun", "ended")
    ]
    assert times == sorted(times)


async def test_effects_come_in_the_order_of_the_calls(cli: Cli) -> None:
    (cli.project / "a.txt").write_text("old\n")
    calls = (
        MockCall(name="read", input={"file_path": "a.txt"}),
        MockCall(name="write", input={"file_path": "a.txt", "content": "written\n"}),
        MockCall(name="read", input={"file_path": "a.txt"}),
        bash("cat a.txt; echo appended >> a.txt"),
        MockCall(name="read", input={"file_path": "a.txt"}),
    )
    async with MockServer(MockScript(turns=(MockTurn(calls=calls), END))) as server:
        cli.use(server)
        done = await cli.run("-p", "Do it.", "--allowed-tools", "Write,Bash")
    assert done.code == 0
    results = result_texts(checked(cli.session))
    assert results[0] == "1\told"
    assert results[2] == "1\twritten"
    assert results[3] == "written\n"
    assert results[4] == "1\twritten\n2\tappended"


async def test_reads_begin_side_by_side(cli: Cli) -> None:
    names = [f"missing_{at}" for at in range(8)]
    calls = tuple(MockCall(name="read", input={"file_path": name}) for name in names)
    async with MockServer(MockScript(turns=(MockTurn(calls=calls), END))) as server:
        cli.use(server)
        done = await cli.run("-p", "Read them.")
    assert done.code == 0
    # A line with › is written when a call begins, one with ✗ when it has failed.
    lines = done.complaint.splitlines()
    assert sorted(lines[:8]) == [f"› read {name}" for name in names]
    assert len(lines) == 16
    assert all(line.startswith("✗ read: ") for line in lines[8:])


# ---------------------------------------------------------------------- stop


async def stopped(cli: Cli, running: Running, *, number: int = signal.SIGINT) -> Finished:
    """Send a signal and return how the run ended, which must be soon."""
    begun = time.monotonic()
    running.send(number)
    done = await running.finish()
    assert time.monotonic() - begun < STOP_SECONDS
    assert done.code == 128 + number
    return done


async def goes_on(cli: Cli, server: MockServer) -> list[dict[str, Any]]:
    """Check that ``--continue`` goes on; return the session's records."""
    server.push(MockTurn(text="Here I am again."))
    before = cli.session.read_bytes()
    done = await cli.run("-p", "Go on.", "--continue")
    assert (done.code, done.text) == (0, "Here I am again.\n")
    assert cli.session.read_bytes().startswith(before)
    return checked(cli.session)


def two_sleepers(word: str, extra: str = "") -> str:
    """A command line that leaves one process behind and stays in another."""
    return f"{extra} (exec -a {word} sleep 600) & exec -a {word} sleep 600"


@pytest.mark.parametrize(
    ("api", "number"), [*((api, signal.SIGINT) for api in APIS), (APIS[0], signal.SIGTERM)]
)
async def test_stop_while_a_command_runs(cli: Cli, api: WireApi, number: int) -> None:
    word = unique_word()
    calls = (bash("echo first"), bash(two_sleepers(word)), bash("echo > never"))
    async with MockServer(MockScript(queue=(MockTurn(calls=calls),))) as server:
        cli.use(server, api)
        async with cli.start("-p", "Run it.", "--allowed-tools", "Bash") as running:
            assert len(await appear(word, least=2)) == 2
            done = await stopped(cli, running, number=number)
            await vanish(word, seconds=2)
        assert "Stopped. zpi --continue goes on from here." in done.complaint
        results = result_texts(checked(cli.session))
        assert results[0] == "first\n"
        assert results[1].startswith("Interrupted while it ran: stopped by a signal.")
        assert results[2].startswith("Not run: ")
        assert not (cli.project / "never").exists()
        records = await goes_on(cli, server)
    assert [r["status"] for r in records if r["type"] == "run" and r["event"] == "end"] == [
        "aborted",
        "completed",
    ]


async def test_stop_ends_what_hides_in_its_own_session(cli: Cli) -> None:
    word = unique_word()
    command = two_sleepers(
        word, f"setsid bash -c 'trap \"\" TERM INT HUP; exec -a {word} sleep 600' &"
    )
    async with MockServer(MockScript(queue=(MockTurn(calls=(bash(command),)),))) as server:
        cli.use(server)
        async with cli.start("-p", "Run it.", "--allowed-tools", "Bash") as running:
            assert len(await appear(word, least=3)) == 3
            await stopped(cli, running)
            await vanish(word, seconds=2)
        await goes_on(cli, server)


async def test_end_of_the_program_ends_what_was_left_in_the_background(cli: Cli) -> None:
    word = unique_word()
    call = bash(f"(exec -a {word} sleep 600) > /dev/null 2>&1 & echo started")
    async with MockServer(MockScript(turns=(MockTurn(calls=(call,)), END))) as server:
        cli.use(server)
        done = await cli.run("-p", "Start it.", "--allowed-tools", "Bash")
        assert done.code == 0
        await vanish(word, seconds=2)
    assert result_texts(checked(cli.session)) == ["started\n"]


async def test_second_signal_ends_at_once(cli: Cli) -> None:
    word = unique_word()
    turn = MockTurn(calls=(bash(two_sleepers(word)),))
    async with MockServer(MockScript(queue=(turn,))) as server:
        cli.use(server)
        async with cli.start("-p", "Run it.", "--allowed-tools", "Bash") as running:
            assert len(await appear(word, least=2)) == 2
            running.send(signal.SIGINT)
            running.send(signal.SIGINT)
            done = await running.finish()
            await vanish(word, seconds=2)
        assert done.code in (-signal.SIGINT, 130)
        chained(cli.session)
        records = await goes_on(cli, server)
    assert "nterrupted" in result_texts(records)[0]


@pytest.mark.parametrize(
    ("turn", "number"),
    [
        (MockTurn(text="never", delay=600), signal.SIGINT),
        (MockTurn(text="Half of this comes.", fault="stall_mid_answer"), signal.SIGINT),
        (MockTurn(text="Half of this comes.", fault="stall_mid_answer"), signal.SIGTERM),
    ],
    ids=["before the first event", "in the middle", "in the middle, SIGTERM"],
)
async def test_stop_while_the_model_hangs(cli: Cli, turn: MockTurn, number: int) -> None:
    async with MockServer(MockScript(queue=(turn,))) as server:
        cli.use(server)
        async with cli.start("-p", "Hello.") as running:
            async with asyncio.timeout(20):
                while not server.requests or (turn.fault and server.requests[0].first_sent is None):
                    await asyncio.sleep(0.01)
            if turn.fault:
                assert running.process.stdout is not None
                shown = await running.process.stdout.readexactly(1)
                assert shown == b"H"
            await stopped(cli, running, number=number)
        records = checked(cli.session)
        answers = [r for r in records if r["type"] == "assistant"]
        if turn.fault:
            (answer,) = answers
            assert answer["stopReason"] == "aborted"
            (block,) = blocks(answer)
            assert "Half of this comes.".startswith(block["text"])
        else:
            assert answers == []
        await goes_on(cli, server)


async def test_stop_between_attempts(cli: Cli) -> None:
    turn = MockTurn(text="never", fault="rate_limit_retry_after")
    async with MockServer(MockScript(queue=(turn,))) as server:
        cli.use(server)
        async with cli.start("-p", "Hello.") as running:
            assert running.process.stderr is not None
            line = await asyncio.wait_for(running.process.stderr.readline(), 20)
            assert b"Trying again in" in line
            await stopped(cli, running)
        await goes_on(cli, server)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_stop_while_waiting_for_standard_input(cli: Cli, number: int) -> None:
    reader, writer = os.pipe()
    try:
        async with cli.start("-p", stdin=reader) as running:
            os.close(reader)
            os.write(writer, b"The beginning of a prompt")
            async with asyncio.timeout(20):
                while not taken(writer):
                    await asyncio.sleep(0.01)
            running.send(number)
            done = await running.finish(timeout=STOP_SECONDS)
    finally:
        os.close(writer)
    assert done.code == -number  # nothing had begun; a shell makes 128 + number of it
    assert (done.out, done.err) == (b"", b"")
    assert cli.sessions == []


def taken(pipe: int) -> bool:
    """Whether all that was written to a pipe has been read."""
    left = fcntl.ioctl(pipe, termios.FIONREAD, bytes(4))
    return int.from_bytes(left, sys.byteorder) == 0
