"""Damaged sessions, full disks, second writers and readers that have gone: nothing is lost."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agent_sdk.testing.mock_server import MockCall, MockScript, MockServer, MockTurn
from tests.support.cli import Cli, program
from tests.support.transcripts import chained, checked, read_back, result_texts

if sys.platform == "win32":
    pytest.skip("there are no full devices and no pipes that break", allow_module_level=True)

ANSWER = MockScript(
    turns=(MockTurn(text="First answer."), MockTurn(text="Second answer."), MockTurn(text="Third."))
)


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    return Cli(tmp_path)


def beside(path: Path) -> list[Path]:
    return sorted(other for other in path.parent.iterdir() if other != path)


# --------------------------------------------------------------------- damage


@pytest.mark.parametrize(
    "torn",
    [b'{"type":"assistant","uuid":"1234', b"\0" * 512, '{"type":"user","text":"半'.encode()[:-1]],
    ids=["half a record", "NULs", "half a character"],
)
async def test_torn_tail_is_cut_kept_and_told(cli: Cli, torn: bytes) -> None:
    async with MockServer(ANSWER) as server:
        cli.use(server)
        await cli.run("-p", "First question.")
        path = cli.session
        whole = path.read_bytes()
        path.write_bytes(whole + torn)
        if torn.startswith(b"\0"):
            shown = await cli.run("sessions")
            assert "First question." in shown.text
            assert "damaged" not in shown.text
            assert path.read_bytes() == whole + torn  # a list repairs nothing
        done = await cli.run("-p", "Second question.", "--continue")
    assert (done.code, done.text) == (0, "Second answer.\n")
    assert f"was not written whole ({len(torn)} bytes) and was cut off" in done.complaint
    assert path.read_bytes().startswith(whole)
    (kept,) = beside(path)
    assert kept.read_bytes() == torn
    assert str(kept) in done.complaint
    checked(path)
    await read_back(path)


def with_nuls(data: bytes) -> bytes:
    middle = len(data) // 2
    return data[:middle] + b"\0" * 64 + data[middle + 64 :]


def without_a_line(data: bytes) -> bytes:
    lines = data.splitlines(keepends=True)
    return b"".join(lines[:4] + lines[5:])


def with_foreign_line(data: bytes) -> bytes:
    lines = data.splitlines(keepends=True)
    return b"".join([*lines[:4], b"<<<<<<< HEAD\n", *lines[4:]])


@pytest.mark.parametrize("damage", [with_nuls, without_a_line, with_foreign_line])
async def test_damage_in_the_middle_is_refused(cli: Cli, damage: Callable[[bytes], bytes]) -> None:
    async with MockServer(ANSWER) as server:
        cli.use(server)
        await cli.run("-p", "First question.")
        path = cli.session
        damaged = damage(path.read_bytes())
        path.write_bytes(damaged)
        for words in (("--continue",), ("--resume", path.stem)):
            done = await cli.run("-p", "Second question.", *words)
            assert (done.code, done.text) == (2, "")
            assert "is damaged: line " in done.error_line
            assert "The file was not changed." in done.error_line
            assert path.read_bytes() == damaged
            assert beside(path) == []
        assert len(server.requests) == 1
        # A new session is not hindered by it.
        new = await cli.run("-p", "New question.")
    assert (new.code, new.text) == (0, "First answer.\n")
    assert path.read_bytes() == damaged


async def test_newer_format_is_refused_and_left_alone(cli: Cli) -> None:
    async with MockServer(ANSWER) as server:
        cli.use(server)
        await cli.run("-p", "First question.")
        path = cli.session
        newer = path.read_bytes().replace(b'"version":1', b'"version":2', 1)
        path.write_bytes(newer)
        done = await cli.run("-p", "Second question.", "--continue")
        assert len(server.requests) == 1
    assert done.code in (1, 2)
    assert done.error_line
    assert path.read_bytes() == newer


async def test_empty_session_file(cli: Cli) -> None:
    async with MockServer(ANSWER) as server:
        cli.use(server)
        await cli.run("-p", "First question.")
        empty = cli.session.with_name("00000000-0000-4000-8000-000000000000.jsonl")
        empty.touch()
        done = await cli.run("-p", "More.", "--resume", empty.stem)
        assert done.code == 2
        assert "holds no session" in done.error_line
        again = await cli.run("-p", "More.", "--continue")
    assert (again.code, again.text) == (0, "Second answer.\n")
    assert empty.read_bytes() == b""


# ------------------------------------------------------------------ full disk


CHANGES = MockScript(
    turns=(
        MockTurn(calls=(MockCall(name="write", input={"file_path": "a", "content": "1"}),)),
        MockTurn(calls=(MockCall(name="write", input={"file_path": "b", "content": "2"}),)),
        MockTurn(text="Written."),
        MockTurn(text="Later."),
    )
)


@pytest.mark.parametrize("nth", [1, 2, 4, 5])
async def test_full_disk_at_each_append(cli: Cli, nth: int) -> None:
    """What was not stored did not happen: no request, no effect, no line that is printed."""
    fault = {"ZPI_TEST_BUILD": "1", "ZPI_FAILPOINT": f"append.write:{nth}:enospc"}
    async with MockServer(CHANGES) as server:
        cli.use(server)
        words = ("--allowed-tools", "Write", "--output-format", "stream-json")
        done = await cli.run("-p", "Write them.", *words, env=fault)
        assert done.code == 1
        assert done.result["error_code"] == "disk_full"
        assert done.complaint == ""
        # A file that never got a whole line is no session, and is left out everywhere.
        records = chained(cli.session) if cli.sessions and cli.session.stat().st_size else []
        prompts = [r for r in records if r.get("origin", {}).get("kind") == "human"]
        journal = [r["toolUseId"] for r in records if r["type"] == "tool_journal"]
        assert len(prompts) == (0 if nth == 1 else 1)
        assert len(server.requests) <= len(prompts) * (1 + len(result_texts(records)))
        written = [name for name in "ab" if (cli.project / name).exists()]
        assert len(written) <= len(journal)
        stored = {record["uuid"] for record in records}
        said = [m for m in done.messages if m["type"] in ("assistant", "user")]
        assert {m["uuid"] for m in said} <= stored
        if not prompts:
            return
        again = await cli.run("-p", "Go on.", "--continue", "--allowed-tools", "Write")
    assert again.code == 0, again.complaint
    checked(cli.session)


async def test_full_disk_where_a_change_would_be_kept(cli: Cli) -> None:
    """A change that could not be taken back is not made, and the model is told why."""
    fault = {"ZPI_TEST_BUILD": "1", "ZPI_FAILPOINT": "append.write:3:enospc"}
    async with MockServer(CHANGES) as server:
        cli.use(server)
        words = ("--allowed-tools", "Write", "--output-format", "stream-json")
        done = await cli.run("-p", "Write them.", *words, env=fault)
    assert done.code == 0
    assert not (cli.project / "a").exists()
    assert (cli.project / "b").read_text() == "2"
    first, second = result_texts(checked(cli.session))
    assert "disk" in first.lower()
    assert "disk" not in second.lower()


@pytest.fixture
def small_disk(cli: Cli) -> Iterator[Path]:
    """The sessions' folder on a device of 256 KiB."""
    if os.getuid() != 0:
        pytest.skip("must be root to mount")
    folder = cli.agent_dir / "sessions"
    folder.mkdir(parents=True)
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k,mode=700", "tmpfs", str(folder)],
        capture_output=True,
        check=False,
    )
    if mounted.returncode:
        pytest.skip(f"cannot mount here: {mounted.stderr.decode().strip()}")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.mark.needs_root
async def test_disk_really_is_full(cli: Cli, small_disk: Path) -> None:
    async with MockServer(ANSWER) as server:
        cli.use(server)
        await cli.run("-p", "First question.")
        filler = small_disk / "filler"
        with filler.open("wb", buffering=0) as stream:
            while True:
                try:
                    if stream.write(b"x" * 4096) < 4096:
                        break
                except OSError:
                    break
        before = cli.session.read_bytes()
        # The last page of the file may have room left, but not for this.
        long = "Second question? " * 1000
        done = await cli.run("-p", long, "--continue")
        assert (done.code, done.text) == (1, "")
        assert "No space left" in done.error_line or "full" in done.error_line
        assert len(server.requests) == 1
        assert cli.session.read_bytes().startswith(before)
        chained(cli.session)
        new = await cli.run("-p", long)
        assert new.code == 1
        assert new.error_line
        assert len(server.requests) == 1
        filler.unlink()
        again = await cli.run("-p", "Second question.", "--resume", cli_session(cli))
    assert (again.code, again.text) == (0, "Second answer.\n")


def cli_session(cli: Cli) -> str:
    """Return the id of the one session that holds anything."""
    (path,) = [path for path in cli.sessions if path.stat().st_size]
    checked(path)
    return path.stem


# -------------------------------------------------------------- second writer


async def test_second_writer_is_refused(cli: Cli) -> None:
    async with MockServer(ANSWER) as server:
        cli.use(server)
        await cli.run("-p", "First question.")
        path = cli.session
        server.push(MockTurn(text="never", delay=600))
        async with cli.start("-p", "Slow question.", "--continue") as first:
            async with asyncio.timeout(20):
                while len(server.requests) < 2:
                    await asyncio.sleep(0.01)
            before = path.read_bytes()
            for words in (("--continue",), ("--resume", path.stem)):
                second = await cli.run("-p", "Me too.", *words)
                assert (second.code, second.text) == (2, "")
                assert "Another process is writing the session" in second.error_line
            assert path.read_bytes() == before
            first.send(signal.SIGTERM)
            assert (await first.finish()).code == 143
        third = await cli.run("-p", "And now?", "--continue")
    assert (third.code, third.text) == (0, "Second answer.\n")
    assert "Me too." not in json.dumps(checked(path))


async def test_sessions_of_one_folder_run_side_by_side(cli: Cli) -> None:
    async with MockServer(ANSWER) as server:
        cli.use(server)
        done = await asyncio.gather(*(cli.run("-p", f"Question {at}.") for at in range(3)))
    assert [(d.code, d.text) for d in done] == [(0, "First answer.\n")] * 3
    assert len(cli.sessions) == 3
    for path in cli.sessions:
        checked(path)


# ---------------------------------------------------------- output that is gone


@pytest.mark.parametrize("output_format", ["text", "stream-json"])
async def test_reader_goes_early(cli: Cli, output_format: str) -> None:
    long = MockTurn(text="line\n" * 400, deltas=400, rate=400)
    calls = MockTurn(text="First.\n", calls=(MockCall(name="bash", input={"command": "true"}),))
    async with MockServer(MockScript(turns=(calls, long, MockTurn(text="Here.")))) as server:
        cli.use(server)
        pipe = ("bash", "-c", 'set -o pipefail; "$@" | head -1', "bash", *program())
        words = ("--allowed-tools", "Bash", "--output-format", output_format)
        partial = ("--include-partial-messages",) if output_format == "stream-json" else ()
        done = await cli.run("-p", "Go.", *words, *partial, argv=list(pipe), timeout=20)
        assert len(done.out.splitlines()) == 1
        assert done.code == 1  # of zpi, not of head
        records = checked(cli.session)
        ends = [r["status"] for r in records if r["type"] == "run" and r["event"] == "end"]
        assert ends == ["aborted"]
        again = await cli.run("-p", "Go on.", "--continue")
    assert again.code == 0


@pytest.mark.parametrize("words", [("--help",), ("--version",), ("sessions",), ("models",)])
async def test_nobody_reads_a_list(cli: Cli, words: tuple[str, ...]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = await cli.run(*words, stdout=writer)
    finally:
        os.close(writer)
    assert done.code in (0, 1)
    assert done.complaint == ""


@pytest.mark.parametrize("output_format", ["text", "json", "stream-json"])
async def test_output_device_is_full(cli: Cli, output_format: str) -> None:
    async with MockServer(ANSWER) as server:
        cli.use(server)
        with open("/dev/full", "wb") as full:
            done = await cli.run("-p", "Go.", "--output-format", output_format, stdout=full)
        assert len(server.requests) == (0 if output_format == "stream-json" else 1)
    assert done.code == 1
    assert "Standard output cannot be written: No space left on device." in done.error_line
    if output_format == "stream-json":
        assert cli.sessions == []
    else:
        checked(cli.session)


@pytest.mark.parametrize(
    ("closed", "code"), [("<&-", 0), (">&-", 1), ("2>&-", 0), ("<&- >&- 2>&-", 1)]
)
async def test_closed_standard_streams(cli: Cli, closed: str, code: int) -> None:
    async with MockServer(ANSWER) as server:
        cli.use(server)
        shell = ("bash", "-c", f'exec "$@" {closed}', "bash", *program())
        done = await cli.run("-p", "Go.", argv=list(shell))
        assert len(server.requests) == 1
    assert done.code == code, done.complaint
    assert done.out == (b"" if code else b"First answer.\n")
    # No file has taken the place of a stream: what was printed is not in the session.
    records = checked(cli.session)
    assert [r["type"] for r in records].count("assistant") == 1
