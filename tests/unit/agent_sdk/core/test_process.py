"""Starting children: what they get, what they say, how they end."""

import asyncio
import os
import signal
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Literal

import pytest

from agent_sdk.core.errors import ProcessError
from agent_sdk.core.process import (
    Child,
    ExitStatus,
    ProcessOwner,
    SpawnSpec,
    WorkingFolderError,
)

if sys.platform == "win32":
    pytest.skip("starts POSIX programs", allow_module_level=True)

ENV = {"PATH": "/usr/bin:/bin", "NAME": "värde"}


@pytest.fixture
async def owner() -> AsyncIterator[ProcessOwner]:
    async with ProcessOwner() as owner:
        yield owner


def bash(
    script: str,
    *,
    cwd: str = "/",
    stdin: Literal["null", "pipe"] = "null",
    merge_stderr: bool = True,
) -> SpawnSpec:
    argv = ("/bin/bash", "-c", script)
    return SpawnSpec(argv=argv, cwd=cwd, env=ENV, stdin=stdin, merge_stderr=merge_stderr)


async def run(owner: ProcessOwner, spec: SpawnSpec) -> tuple[str, ExitStatus]:
    chunks: list[bytes] = []
    async with asyncio.timeout(10):
        child = await owner.spawn(spec, on_output=chunks.append)
        status = await child.wait()
    return b"".join(chunks).decode(), status


async def test_output_in_the_order_it_was_written(owner: ProcessOwner) -> None:
    text, status = await run(owner, bash("echo a; echo b >&2; echo c; exit 7"))
    assert (text, status) == ("a\nb\nc\n", ExitStatus(code=7))
    assert not status.ok


async def test_signal_is_told_apart_from_a_code(owner: ProcessOwner) -> None:
    _, status = await run(owner, bash("kill -USR1 $$"))
    assert status == ExitStatus(signal=signal.SIGUSR1)


async def test_environment_is_the_given_one_and_the_mark(owner: ProcessOwner) -> None:
    text, _ = await run(owner, SpawnSpec(argv=("/usr/bin/env",), cwd="/", env=ENV))
    given = dict(line.split("=", 1) for line in text.splitlines())
    assert given.pop("ZPI_TASK_ID")
    assert given == ENV


async def test_only_the_standard_descriptors_are_inherited(
    owner: ProcessOwner, tmp_path: Path
) -> None:
    stray = os.open(tmp_path / "stray", os.O_CREAT | os.O_RDWR)
    os.set_inheritable(stray, True)  # before the supervisor starts: the worst case
    try:
        text, _ = await run(owner, bash("cd /dev/fd; echo *"))
    finally:
        os.close(stray)
    # The shell's own listing of the folder is the fourth.
    assert text.split() == ["0", "1", "2", "3"]


async def test_no_terminal_no_input_and_default_signals(owner: ProcessOwner) -> None:
    text, _ = await run(owner, bash("cat; tty; (: </dev/tty) 2>&1; trap"))
    assert "not a tty" in text
    assert "No such device" in text
    assert "trap" not in text  # a signal that is ignored on entry would be listed


async def test_folder_and_arguments_arrive_byte_for_byte(
    owner: ProcessOwner, tmp_path: Path
) -> None:
    folder = tmp_path / "mit Leerzeichen\nund Zeile"
    folder.mkdir()
    odd = "a\udcffb\n*"  # a byte that is no UTF-8
    spec = SpawnSpec(
        argv=("/bin/bash", "-c", 'pwd; printf "%s|" "$@"', "x", odd, ""), cwd=str(folder), env=ENV
    )
    chunks: list[bytes] = []
    child = await owner.spawn(spec, on_output=chunks.append)
    await child.wait()
    assert b"".join(chunks) == os.fsencode(f"{folder}\n{odd}||")


async def test_long_arguments_pass(owner: ProcessOwner) -> None:
    words = tuple("x" * 100_000 for _ in range(9))
    argv = ("/bin/bash", "-c", 'for w in "$@"; do echo ${#w}; done', "-", *words)
    text, _ = await run(owner, SpawnSpec(argv=argv, cwd="/", env=ENV))
    assert text.split() == ["100000"] * 9


async def test_errors_apart_or_dropped(owner: ProcessOwner) -> None:
    out: list[bytes] = []
    err: list[bytes] = []
    spec = bash("echo out; echo err >&2", merge_stderr=False)
    child = await owner.spawn(spec, on_output=out.append, on_stderr=err.append)
    await child.wait()
    assert (out, err) == ([b"out\n"], [b"err\n"])
    text, _ = await run(owner, spec)
    assert text == "out\n"


@pytest.mark.parametrize(
    ("argv", "text"),
    [
        (("bash", "-c", "true"), "absolute path"),
        ((), "absolute path"),
        (("/bin/echo", "a\0b"), "NUL"),
        (("/bin/echo", "a\ud800b"), "not valid Unicode"),
        (("/no/such/program",), "No such file"),
        (("/etc/passwd",), "Permission denied"),
        (("/bin/echo", "x" * 3_000_000), "Argument list too long"),
    ],
)
async def test_what_cannot_be_started_is_named(
    owner: ProcessOwner, argv: tuple[str, ...], text: str
) -> None:
    with pytest.raises(ProcessError, match=text) as caught:
        await owner.spawn(SpawnSpec(argv=argv, cwd="/", env=ENV))
    assert not argv or argv[0] in str(caught.value)
    assert (await run(owner, bash("echo on")))[0] == "on\n"


@pytest.mark.parametrize("name", ["", "A=B"])
async def test_a_variable_without_a_usable_name_harms_no_other_child(
    owner: ProcessOwner, name: str
) -> None:
    other = await owner.spawn(bash("sleep 60"))
    with pytest.raises(ProcessError, match=f"name {name!r}"):
        await owner.spawn(SpawnSpec(argv=("/bin/true",), cwd="/", env={name: "x"}))
    assert (await run(owner, bash("echo on")))[0] == "on\n"
    assert other.running


async def test_missing_folder_is_told_apart(owner: ProcessOwner, tmp_path: Path) -> None:
    with pytest.raises(WorkingFolderError, match="gone"):
        await owner.spawn(bash("true", cwd=str(tmp_path / "gone")))


async def test_a_grandchild_that_holds_the_output_does_not_hold_the_result(
    owner: ProcessOwner,
) -> None:
    began = time.monotonic()
    child = await owner.spawn(bash("sleep 60 & echo started"), on_output=lambda _: None)
    assert (await child.wait()).ok
    assert time.monotonic() - began < 1
    assert child.output_held


async def test_nor_does_one_that_goes_on_writing(owner: ProcessOwner) -> None:
    script = "(while echo tick; do sleep 0.02; done) & echo $!"
    chunks: list[bytes] = []
    child = await owner.spawn(bash(script), on_output=chunks.append)
    async with asyncio.timeout(5):
        await child.wait()
    # The first tick may come before the number.
    writer = next(int(word) for word in b"".join(chunks).split() if word != b"tick")
    await asyncio.sleep(0.2)
    os.kill(writer, 0)  # not ended by a closed pipe either


async def test_what_is_written_before_the_exit_is_all_delivered(owner: ProcessOwner) -> None:
    text, _ = await run(owner, bash("sleep 60 & seq 1 100000"))
    assert text.endswith("100000\n")


async def test_lines_and_input(owner: ProcessOwner) -> None:
    spec = bash('while read -r l; do echo "<$l>"; done; printf "rest"', stdin="pipe")
    child = await owner.spawn(spec)
    lines = child.lines()
    await child.write(b"one\n")
    assert await anext(lines) == b"<one>"
    await child.write("zwei ü\n".encode())
    assert (await anext(lines)).decode() == "<zwei ü>"
    child.close_stdin()
    assert [line async for line in lines] == [b"rest"]
    assert (await child.wait()).ok
    with pytest.raises(ProcessError, match="no longer reads"):
        await child.write(b"late\n")


async def test_more_input_than_a_pipe_holds(owner: ProcessOwner) -> None:
    child = await owner.spawn(bash("sleep 0.1; wc -c", stdin="pipe"))
    await child.write(b"x" * 3_000_000)
    child.close_stdin()
    assert [line.strip() async for line in child.lines()] == [b"3000000"]


async def test_input_that_is_never_read_does_not_hang(owner: ProcessOwner) -> None:
    child = await owner.spawn(bash("sleep 0.2", stdin="pipe"))
    with pytest.raises(ProcessError, match="no longer reads"):
        async with asyncio.timeout(5):
            await child.write(b"x" * 3_000_000)


async def test_unread_lines_stop_the_writer_not_the_memory(
    owner: ProcessOwner, tmp_path: Path
) -> None:
    mark = tmp_path / "done"
    line = "x" * 999
    script = f"yes {line} | head -n 5000; echo end; touch {mark}"
    child = await owner.spawn(bash(script))
    await asyncio.sleep(0.3)
    assert not mark.exists()
    lines = [line async for line in child.lines()]
    assert len(lines) == 5001
    assert lines[-1] == b"end"


async def test_a_line_without_end_is_refused(owner: ProcessOwner) -> None:
    child = await owner.spawn(bash("head -c 20000000 /dev/zero"))
    with pytest.raises(ProcessError, match="longer than"):
        async for _ in child.lines():
            pass


async def test_a_server_lives_until_the_owner_closes() -> None:
    owner = ProcessOwner()
    child = await owner.spawn(bash("echo ready; read -r; echo never", stdin="pipe"))
    lines = child.lines()
    assert await anext(lines) == b"ready"
    for _ in range(80):  # more children than the supervisor remembers without looking
        await run(owner, bash("true"))
    assert child.running
    await owner.aclose()
    assert [line async for line in lines] == []
    assert (await child.wait()).signal == signal.SIGTERM
    with pytest.raises(ProcessError, match="closed"):
        await owner.spawn(bash("true"))


async def test_kill_asks_before_it_forces(owner: ProcessOwner, tmp_path: Path) -> None:
    mark = tmp_path / "asked"
    script = f"trap 'touch {mark}; exit 3' TERM; echo on; while :; do sleep 0.01; done"
    child = await owner.spawn(bash(script))
    assert await anext(child.lines()) == b"on"
    await child.kill_tree()
    assert mark.exists()
    assert await child.wait() == ExitStatus(code=3)
    await child.kill_tree()  # once more changes nothing


async def test_cancelled_spawn_leaves_nothing(owner: ProcessOwner, tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    owner.warm_up()
    work = asyncio.ensure_future(owner.spawn(bash(f"sleep 0.3; touch {mark}")))
    await asyncio.sleep(0)
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    await asyncio.sleep(0.5)
    assert not mark.exists()


async def test_many_at_once(owner: ProcessOwner) -> None:
    results = await asyncio.gather(*(run(owner, bash(f"echo {n}")) for n in range(40)))
    assert [text.strip() for text, _ in results] == [str(n) for n in range(40)]


async def test_no_descriptor_is_left_open(tmp_path: Path) -> None:
    before = set(os.listdir("/dev/fd"))
    async with ProcessOwner() as owner:
        await run(owner, bash("echo a"))
        await run(owner, bash("sleep 60 & echo b"))
        with pytest.raises(WorkingFolderError):
            await owner.spawn(bash("true", cwd=str(tmp_path / "gone")))
        held = await owner.spawn(bash("sleep 60", stdin="pipe", merge_stderr=False))
        assert held.pid > 0
    assert set(os.listdir("/dev/fd")) == before


async def test_supervisor_that_cannot_start_is_named() -> None:
    owner = ProcessOwner(supervisor=["/no/such/python"])
    with pytest.raises(ProcessError, match="/no/such/python"):
        owner.warm_up()
    await owner.aclose()


async def test_supervisor_that_ends_at_once_fails_the_spawn() -> None:
    async with ProcessOwner(supervisor=["/bin/true"]) as owner:
        with pytest.raises(ProcessError, match="supervisor died"):
            await owner.spawn(bash("true"))


async def test_a_child_that_is_not_read_keeps_its_type(owner: ProcessOwner) -> None:
    child: Child = await owner.spawn(bash("true"), on_output=lambda _: None)
    with pytest.raises(ProcessError, match="callback"):
        child.lines()
    with pytest.raises(ProcessError, match="without an input"):
        await child.write(b"x")
    await child.wait()
