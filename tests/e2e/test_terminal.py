"""Questions on a real terminal: a person is asked, and what they say holds."""

import asyncio
import os
import re
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from agent_sdk.testing.mock_server import MockCall, MockScript, MockServer, MockTurn
from tests.support.cli import Cli, end
from tests.support.transcripts import checked, result_texts

if sys.platform == "win32":
    pytest.skip("there are no pseudo-terminals", allow_module_level=True)

import pty

QUESTION = "Allow? "
_COLOURS = re.compile(r"\x1b\[[0-9;]*[mK]")


def running(*commands: str) -> MockTurn:
    return MockTurn(
        calls=tuple(MockCall(name="bash", input={"command": command}) for command in commands)
    )


END = MockTurn(text="That is all.")


class Terminal:
    """A person's terminal: the program's standard input and error."""

    def __init__(self, process: asyncio.subprocess.Process, master: int) -> None:
        self.process = process
        self.shown = ""
        self._master = master
        self._more = asyncio.Event()
        asyncio.get_running_loop().add_reader(master, self._read)

    def _read(self) -> None:
        try:
            data = os.read(self._master, 65536)
        except OSError:  # the program has closed its end
            data = b""
        if not data:
            asyncio.get_running_loop().remove_reader(self._master)
        self.shown += _COLOURS.sub("", data.decode("utf-8", "replace"))
        self._more.set()

    async def see(self, text: str, *, times: int = 1) -> None:
        """Wait until a text has been shown that often."""
        try:
            async with asyncio.timeout(20):
                while self.shown.count(text) < times:
                    self._more.clear()
                    await self._more.wait()
        except TimeoutError:
            pytest.fail(f"{text!r} was not shown {times} times:\n{self.shown}")

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())

    async def finish(self) -> tuple[int, str]:
        """Wait for the end; return exit code and standard output."""
        async with asyncio.timeout(20):
            out, _ = await self.process.communicate()
        assert "Traceback" not in self.shown, self.shown
        code = self.process.returncode
        assert code is not None
        return code, out.decode()

    def close(self) -> None:
        asyncio.get_running_loop().remove_reader(self._master)


@asynccontextmanager
async def terminal(cli: Cli, *words: str) -> AsyncIterator[Terminal]:
    master, slave = pty.openpty()
    try:
        async with cli.start(*words, stdin=slave, stderr=slave) as started:
            os.close(slave)
            shown = Terminal(started.process, master)
            try:
                yield shown
            finally:
                await end(started.process)
                shown.close()
    finally:
        os.close(master)


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    return Cli(tmp_path)


async def test_always_is_not_asked_again_not_even_after_a_restart(cli: Cli) -> None:
    script = MockScript(
        turns=(
            running("git --version"),
            running("git --version", "git --version"),
            END,
            running("git --version"),
            END,
            running("git --exec-path"),
            END,
        )
    )
    async with MockServer(script) as server:
        cli.use(server)
        async with terminal(cli, "-p", "Which git?") as person:
            await person.see(QUESTION)
            assert "? bash" in person.shown
            assert "git --version" in person.shown
            assert "Always would allow in this session: bash git --version" in person.shown
            person.type("a\n")
            code, out = await person.finish()
            assert (code, out) == (0, "That is all.\n")
            assert person.shown.count(QUESTION) == 1
        records = checked(cli.session)
        assert len(result_texts(records)) == 3
        assert all(text.startswith("git version") for text in result_texts(records))
        assert [r["type"] for r in records].count("permission_rule") == 1

        # After a restart nobody can be asked, and nobody has to be.
        again = await cli.run("-p", "And now?", "--continue")
        assert again.code == 0, again.complaint
        assert result_texts(checked(cli.session))[3].startswith("git version")

        # What was not allowed still is not.
        other = await cli.run("-p", "Something else?", "--continue")
        assert other.code == 3
        assert "Permission is needed for bash 'git --exec-path'" in other.complaint


async def test_once_holds_until_the_run_ends(cli: Cli) -> None:
    once = "echo x >> log.txt"
    script = MockScript(turns=(running(once), running(once), END, running(once), END))
    async with MockServer(script) as server:
        cli.use(server)
        async with terminal(cli, "-p", "Log it.") as person:
            await person.see(QUESTION)
            person.type("y\n")
            assert (await person.finish())[0] == 0
            assert person.shown.count(QUESTION) == 1
        assert (cli.project / "log.txt").read_text() == "x\nx\n"
        assert "permission_rule" not in {r["type"] for r in checked(cli.session)}
        again = await cli.run("-p", "Again.", "--continue")
    assert again.code == 3
    assert (cli.project / "log.txt").read_text() == "x\nx\n"


async def test_rejection_with_a_reason(cli: Cli) -> None:
    script = MockScript(turns=(running("echo x > log.txt"), MockTurn(text="Then not.")))
    async with MockServer(script) as server:
        cli.use(server)
        async with terminal(cli, "-p", "Log it.") as person:
            await person.see(QUESTION)
            person.type("what?\n")  # no answer: it is asked again
            await person.see(QUESTION, times=2)
            person.type("n 请写到 notes.txt\n")
            code, out = await person.finish()
        asked = server.requests[-1].asked
        assert asked is not None
    assert (code, out) == (3, "Then not.\n")
    assert asked.last_result == (
        "The user refused this call. Nothing was done. They said: 请写到 notes.txt"
    )
    assert not (cli.project / "log.txt").exists()


async def test_questions_come_one_after_the_other(cli: Cli) -> None:
    script = MockScript(turns=(running("echo 1 > one", "echo 2 > two"), END))
    async with MockServer(script) as server:
        cli.use(server)
        async with terminal(cli, "-p", "Do both.") as person:
            await person.see(QUESTION)
            assert "echo 2" not in person.shown
            person.type("n\n")
            await person.see(QUESTION, times=2)
            person.type("y\n")
            assert (await person.finish())[0] == 3
    assert not (cli.project / "one").exists()
    assert (cli.project / "two").read_text() == "2\n"


async def test_end_of_input_at_a_question_refuses(cli: Cli) -> None:
    script = MockScript(turns=(running("echo x > log.txt"), END))
    async with MockServer(script) as server:
        cli.use(server)
        async with terminal(cli, "-p", "Log it.") as person:
            await person.see(QUESTION)
            person.type("\x04")
            code, out = await person.finish()
        asked = server.requests[-1].asked
        assert asked is not None
    assert (code, out) == (3, "That is all.\n")
    assert "Whoever could have answered is gone. Nothing was done." in asked.last_result
    assert not (cli.project / "log.txt").exists()


async def test_stop_at_a_question(cli: Cli) -> None:
    script = MockScript(turns=(running("echo x > log.txt"), END))
    async with MockServer(script) as server:
        cli.use(server)
        async with terminal(cli, "-p", "Log it.") as person:
            await person.see(QUESTION)
            person.process.send_signal(signal.SIGINT)
            code, _ = await person.finish()
        assert len(server.requests) == 1
    assert code == 130
    assert not (cli.project / "log.txt").exists()
    (result,) = result_texts(checked(cli.session))
    assert result


async def test_protected_file_can_be_allowed_once_only(cli: Cli) -> None:
    call = MockCall(name="write", input={"file_path": ".envrc", "content": "export A=1\n"})
    async with MockServer(MockScript(turns=(MockTurn(calls=(call,)), END))) as server:
        cli.use(server)
        async with terminal(cli, "-p", "Write it.", "--allowed-tools", "Write") as person:
            await person.see(QUESTION)
            assert "This is protected: it is asked about every time." in person.shown
            person.type("a\n")  # is not on offer
            await person.see(QUESTION, times=2)
            assert not (cli.project / ".envrc").exists()
            person.type("y\n")
            assert (await person.finish())[0] == 0
    assert (cli.project / ".envrc").read_text() == "export A=1\n"
    assert "permission_rule" not in {r["type"] for r in checked(cli.session)}


@pytest.mark.parametrize("output_format", ["json", "stream-json"])
async def test_machines_are_not_asked(cli: Cli, output_format: str) -> None:
    script = MockScript(turns=(running("echo x > log.txt"), END))
    async with MockServer(script) as server:
        cli.use(server)
        words = ("--output-format", output_format)
        async with terminal(cli, "-p", "Log it.", *words) as person:
            code, _ = await person.finish()
    assert code == 3
    assert QUESTION not in person.shown
