"""Whatever a command does to stay alive, nothing of it outlives its owner's will (X-P01 … X-P04).

Each shape is started by the shell and leaves processes that carry a unique
word on their command line; their number is known, so that a test which found
none because nothing was started fails.
"""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from agent_sdk.core.errors import ProcessError
from agent_sdk.core.process import Child, ProcessOwner, SpawnSpec
from tests.support.processes import appear, destroy_leftovers, unique_word, vanish
from tests.support.repository import ROOT

if sys.platform != "linux":
    pytest.skip("needs /proc", allow_module_level=True)

ENV = {"PATH": "/usr/local/bin:/usr/bin:/bin", "PY": sys.executable}

DOUBLE_FORK = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        time.sleep(900)
    os._exit(0)
os.wait()
"""
DEAF = """
import signal, time
for number in range(1, 32):
    if number not in (signal.SIGKILL, signal.SIGSTOP):
        signal.signal(number, signal.SIG_IGN)
while True:
    time.sleep(900)
"""
CHAIN = """
import os, time
while True:
    if os.fork():
        os._exit(0)
    os.setsid()
    time.sleep(0.002)
"""
THREADS = """
import subprocess, sys, threading, time
def work():
    subprocess.Popen(["sleep", "900"])
    time.sleep(900)
for _ in range(3):
    threading.Thread(target=work).start()
"""


@dataclass(frozen=True)
class Shape:
    """A way to stay alive: a script in which ``$W`` is the word, and how many carry it."""

    script: str
    least: int = 1
    shell_ends: bool = True


SLEEP = "exec -a $W sleep 900"
SHAPES = {
    "background": Shape(f"({SLEEP}) & ({SLEEP}) &", least=2),
    "foreground": Shape(f"({SLEEP}); true", shell_ends=False),
    "setsid": Shape(f"setsid bash -c '{SLEEP}' $W & sleep 0.1"),
    "nohup": Shape(f"nohup bash -c '{SLEEP}' $W >/dev/null 2>&1 &"),
    "disown": Shape(f"({SLEEP}) & disown -a"),
    "double_fork": Shape('"$PY" -S -c "$DOUBLE_FORK" $W'),
    "trap": Shape("trap '' TERM INT HUP; while :; do sleep 1; done # $W", shell_ends=False),
    "deaf_daemon": Shape('setsid "$PY" -S -c "$DEAF" $W >/dev/null 2>&1 & sleep 0.2'),
    "fork_chain": Shape('"$PY" -S -c "$CHAIN" $W >/dev/null 2>&1 &'),
    "stopped": Shape("bash -c 'kill -STOP $$; sleep 900' $W & sleep 0.1"),
    "stops_itself": Shape("kill -STOP $$ # $W", shell_ends=False),
    "closed_output": Shape(f"exec >&- 2>&-; ({SLEEP}) & true"),
    "no_environment": Shape(f'env -i setsid bash -c "({SLEEP}) &" & sleep 0.1'),
    "no_environment_daemon": Shape('env -i setsid "$PY" -S -c "$DOUBLE_FORK" $W'),
    "floods": Shape("exec -a $W yes $W", shell_ends=False),
    "floods_behind": Shape("(exec -a $W yes $W) &"),
    "respawns": Shape("(while :; do sleep 0.05; done) & : $W", least=1),
    "threads": Shape('"$PY" -S -c "$THREADS" $W', shell_ends=False),
    "nested_shells": Shape(f"bash -c \"bash -c '{SLEEP} & wait' $W & wait\" $W", shell_ends=False),
}

shapes = pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES.keys())


def spec(shape: Shape, word: str, folder: Path) -> SpawnSpec:
    scripts = {"DOUBLE_FORK": DOUBLE_FORK, "DEAF": DEAF, "CHAIN": CHAIN, "THREADS": THREADS}
    return SpawnSpec(
        argv=("/bin/bash", "-c", shape.script, word),
        cwd=str(folder),
        env={**ENV, **scripts, "W": word},
    )


async def start(owner: ProcessOwner, shape: Shape, word: str, folder: Path) -> Child:
    child = await owner.spawn(spec(shape, word, folder), on_output=lambda _: None)
    if shape.shell_ends:
        async with asyncio.timeout(10):
            await child.wait()
    found = await appear(word, least=shape.least)
    assert len(found) >= shape.least, "the shape did not start"
    return child


@pytest.fixture(autouse=True)
def _clean_up() -> Iterator[None]:
    yield
    destroy_leftovers()


@pytest.fixture
async def owner() -> AsyncIterator[ProcessOwner]:
    async with ProcessOwner() as owner:
        yield owner


@shapes
async def test_stop(shape: Shape, owner: ProcessOwner, tmp_path: Path) -> None:
    word = unique_word()
    child = await start(owner, shape, word, tmp_path)
    began = time.monotonic()
    await child.kill_tree(grace=0.2)
    await vanish(word, seconds=0)
    assert time.monotonic() - began < 2


async def start_all(owner: ProcessOwner, folder: Path) -> dict[str, tuple[Child, str]]:
    words = {name: unique_word() for name in SHAPES}
    starts = [start(owner, shape, words[name], folder) for name, shape in SHAPES.items()]
    children = await asyncio.gather(*starts)
    return {name: (child, words[name]) for name, child in zip(SHAPES, children, strict=True)}


async def test_close(tmp_path: Path) -> None:
    owner = ProcessOwner()
    started = await start_all(owner, tmp_path)
    began = time.monotonic()
    await owner.aclose(grace=0.2)
    assert time.monotonic() - began < 2
    for _, word in started.values():
        await vanish(word, seconds=0)


async def test_others_live_on_when_one_is_stopped(owner: ProcessOwner, tmp_path: Path) -> None:
    started = await start_all(owner, tmp_path)
    for name in ("no_environment_daemon", "setsid", "fork_chain"):
        child, word = started.pop(name)
        await child.kill_tree(grace=0.2)
        await vanish(word, seconds=0)
    for _, other in started.values():
        assert await appear(other, seconds=1), "another tree was hit"


OWNER = """
import asyncio, sys
sys.path.insert(0, {root!r})
from pathlib import Path
from agent_sdk.core.process import ProcessOwner
from tests.faults.test_hostile_trees import SHAPES, spec

async def main():
    owner = ProcessOwner()
    for shape in SHAPES.values():
        await owner.spawn(spec(shape, {word!r}, Path({folder!r})), on_output=lambda _: None)
    print(owner.supervisor_pid, flush=True)
    await asyncio.sleep(600)

asyncio.run(main())
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV])
async def test_owner_dies(number: int, tmp_path: Path) -> None:
    word = unique_word()
    code = OWNER.format(root=str(ROOT), word=word, folder=str(tmp_path))
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        supervisor = int(await asyncio.to_thread(process.stdout.readline))
        await appear(word, least=len(SHAPES))
        process.send_signal(number)
    await vanish(word)
    assert _dead(supervisor)


def _dead(pid: int) -> bool:
    end = time.monotonic() + 2
    while time.monotonic() < end:
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except OSError:
            return True
        time.sleep(0.01)
    return False


async def test_supervisor_dies(owner: ProcessOwner, tmp_path: Path) -> None:
    started = await start_all(owner, tmp_path)
    assert owner.supervisor_pid is not None
    os.kill(owner.supervisor_pid, signal.SIGKILL)
    for name, (child, word) in started.items():
        await vanish(word)
        if not SHAPES[name].shell_ends:
            with pytest.raises(ProcessError, match="supervisor died"):
                await child.wait()
    again = await owner.spawn(SpawnSpec(argv=("/bin/true",), cwd=str(tmp_path), env={}))
    assert (await again.wait()).ok
    await owner.aclose()


async def test_supervisor_is_stopped(owner: ProcessOwner, tmp_path: Path) -> None:
    # A child of the same user can do that; nobody may wait for ever.
    word = unique_word()
    child = await start(owner, SHAPES["trap"], word, tmp_path)
    assert owner.supervisor_pid is not None
    os.kill(owner.supervisor_pid, signal.SIGSTOP)
    await child.kill_tree(grace=0.1)
    await vanish(word, seconds=0)


@pytest.mark.parametrize("how", ["stop", "kill the supervisor"])
async def test_an_owner_below_a_child(how: str, owner: ProcessOwner, tmp_path: Path) -> None:
    # ZPI run by a command of ZPI: its own supervisor and marks are below ours.
    word = unique_word()
    code = OWNER.format(root=str(ROOT), word=word, folder=str(tmp_path))
    spec = SpawnSpec(argv=(sys.executable, "-c", code), cwd=str(tmp_path), env=ENV)
    child = await owner.spawn(spec)
    supervisor = int(await anext(child.lines()))
    await appear(word, least=len(SHAPES))
    if how == "stop":
        await child.kill_tree(grace=0.2)
    else:
        os.kill(owner.supervisor_pid or 0, signal.SIGKILL)
    await vanish(word)
    assert _dead(supervisor)
    await owner.aclose()


async def test_child_kills_everything_it_may(owner: ProcessOwner, tmp_path: Path) -> None:
    word = unique_word()
    shape = Shape("sleep 0.05; kill -KILL $PPID; sleep 900 # $W", shell_ends=False)
    child = await owner.spawn(spec(shape, word, tmp_path), on_output=lambda _: None)
    with pytest.raises(ProcessError, match="supervisor died"):
        await child.wait()
    await vanish(word)
