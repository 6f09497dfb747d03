"""Dies at every step of every durable operation, and looks at what is left.

A child process works with one failpoint armed; what it was told is durable,
it says through a pipe. The parent then opens what the child left: nothing
that was acknowledged may be missing, everything must open, and opening twice
must give the same bytes.
"""

import asyncio
import gc
import os
import shutil
import signal
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from agent_sdk.core.errors import SessionNotFound
from agent_sdk.core.failpoints import Action, Faults
from agent_sdk.core.fsio import replace_file
from agent_sdk.providers.messages import ImageBlock, UserMessage
from agent_sdk.session.codec import chain_break, parse_line
from agent_sdk.session.manager import SessionManager
from agent_sdk.session.records import (
    RunRecord,
    ToolJournalRecord,
    UserRecord,
    user_record,
)
from tests.support.session_files import (
    CountingIds,
    StepClock,
    answer,
    create,
    prompt,
    result,
    resume,
    started,
)

if sys.platform == "win32":
    pytest.skip("needs fork and SIGKILL", allow_module_level=True)

SID = "killed-session"

Say = Callable[[str], None]
Work = Callable[[Path, Faults, Say], None]


class Killed:
    """What is left of a child: what it had said, and whether it died."""

    def __init__(self, work: Work, root: Path, faults: Faults) -> None:
        reading, writing = os.pipe()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a fork beside other threads is fine here
            child = os.fork()
        if child == 0:
            gc.disable()
            code = 3
            try:
                os.close(reading)
                work(root, faults, lambda text: _say(writing, text))
                _say(writing, f"hits {faults.hits}")
                code = 0
            finally:
                os._exit(code)
        os.close(writing)
        with os.fdopen(reading, "rb") as stream:
            self.said = stream.read().decode().splitlines()
        _, status = os.waitpid(child, 0)
        self.died = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
        assert self.died or os.waitstatus_to_exitcode(status) == 0, self.said


def _say(fd: int, text: str) -> None:
    os.write(fd, text.encode() + b"\n")


def acknowledged(killed: Killed, word: str) -> list[str]:
    return [line.removeprefix(f"{word} ") for line in killed.said if line.startswith(f"{word} ")]


# -------------------------------------------------- a session that is worked in


async def turns(manager: SessionManager, root: Path, say: Say, first: int) -> None:
    """Two turns with a side effect each, a picture and a plain answer."""

    async def keep(*records: Any) -> None:
        for uuid in await manager.append(*records):
            say(f"durable {uuid}")

    picture = ImageBlock({"type": "base64", "media_type": "image/png", "data": "AAAA" * 17_000})
    for turn in range(first, first + 2):
        call = f"call{turn}"
        await keep(RunRecord(event="start", run_id=f"run{turn}"), prompt(f"prompt {turn}"))
        await keep(answer("", call))
        await keep(started(call))
        with (root / "effects").open("a") as stream:  # the side effect
            stream.write(f"{call}\n")
        await keep(result(call))
        await keep(answer(f"done {turn}"))
        if turn == first:
            await keep(user_record(UserMessage(content=(picture,))))
        await keep(RunRecord(event="end", run_id=f"run{turn}", status="completed"))


def new_session(root: Path, faults: Faults, say: Say) -> None:
    async def work() -> None:
        manager = await create(root, session_id=SID, faults=faults)
        await turns(manager, root, say, 1)
        await manager.close()

    asyncio.run(work())


def interrupted_session(root: Path, faults: Faults, say: Say) -> None:
    """Open a session with open calls, an open run and a torn tail; work on."""

    async def work() -> None:
        manager = await resume(root, SID, faults=faults, ids=CountingIds(os.getpid() * 1000))
        await turns(manager, root, say, 100)
        await manager.close()

    asyncio.run(work())


async def interrupt(root: Path) -> None:
    """Write what a process that was killed in the middle of a turn leaves."""
    manager = await create(root, session_id=SID)
    await manager.append(
        RunRecord(event="start", run_id="run0"), prompt("prompt 0"), answer("", "call0", "call00")
    )
    await manager.append(started("call0"))
    await manager.close()
    assert manager.path is not None
    with manager.path.open("ab") as stream:
        stream.write(b'{"type":"user","uuid":"never acknowledged')
    (root / "effects").write_text("call0\n")


async def open_and_check(root: Path, killed: Killed) -> None:
    durable = acknowledged(killed, "durable")
    try:
        manager = await resume(root, SID, clock=StepClock(90_000))
    except SessionNotFound:
        assert not durable  # it died before anything was promised
        manager = await create(root, session_id=SID)
        await manager.append(prompt("again"))
        await manager.close()
        return
    await manager.close()
    path = manager.path
    assert path is not None
    once = path.read_bytes()
    lines = once.splitlines()
    assert chain_break(lines) is None
    records = [parse_line(line) for line in lines]
    uuids = {record.uuid for record in records if not isinstance(record, str)}
    assert uuids.issuperset(durable)

    state = manager.state
    assert (state.open_run, state.open_calls, state.unanswered) == ("", {}, {})
    assert state.model_messages() is state.messages
    effects = (root / "effects").read_text().split() if (root / "effects").exists() else []
    journal = [r.tool_use_id for r in records if isinstance(r, ToolJournalRecord)]
    results = [
        block.tool_use_id
        for record in records
        if isinstance(record, UserRecord)
        for block in record.message.content
        if hasattr(block, "tool_use_id")
    ]
    assert len(effects) == len(set(effects))
    assert len(results) == len(set(results))
    assert set(effects) <= set(journal) <= set(results)
    assert not [n for n in manager.notices if n.code == "missing_artifact"]

    again = await resume(root, SID, clock=StepClock(90_000))
    await again.close()
    assert path.read_bytes() == once
    assert again.notices == ()


# ------------------------------------------------------------- a file replaced


def replaced_file(root: Path, faults: Faults, say: Say) -> None:
    for version in range(1, 6):
        say(f"begun {version}")
        replace_file(root / "settings", b"%d" % version * 9000, keep_mode=True, faults=faults)
        say(f"durable {version}")


def check_replaced(root: Path, killed: Killed) -> None:
    done = int(acknowledged(killed, "durable")[-1]) if acknowledged(killed, "durable") else 0
    begun = int(acknowledged(killed, "begun")[-1])
    path = root / "settings"
    content = path.read_bytes() if path.exists() else b""
    assert content in (b"%d" % done * 9000 if done else b"", b"%d" % begun * 9000)
    replace_file(path, b"works")
    assert path.read_bytes() == b"works"


# -------------------------------------------------------------------- the test


@pytest.fixture
def fast_disk(tmp_path: Path) -> Iterator[Path]:
    """Return a folder in memory where there is one.

    What a dead process has written is there either way; syncing a thousand
    sessions to a real disk would take minutes and show nothing more.
    """
    memory = Path("/dev/shm")
    if not os.access(memory, os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir=memory, prefix="zpi-kill-") as folder:
        yield Path(folder)


class Scenario(NamedTuple):
    """Work to die in, what there is before it, and the look at what is left."""

    name: str
    work: Work
    before: Callable[[Path], None]
    check: Callable[[Path, Killed], None]


def look(root: Path, killed: Killed) -> None:
    asyncio.run(open_and_check(root, killed))


def nothing(root: Path) -> None:
    """Begin in an empty folder."""


def interrupted(root: Path) -> None:
    template = root.parents[1] / "template"
    if not template.exists():
        asyncio.run(interrupt(template))
    shutil.copytree(template, root, dirs_exist_ok=True)


@pytest.mark.slow
@pytest.mark.timeout(180)
@pytest.mark.parametrize(
    ("scenario", "wanted"),
    [
        (Scenario("new", new_session, nothing, look), 400),
        (Scenario("interrupted", interrupted_session, interrupted, look), 400),
        (Scenario("replaced", replaced_file, nothing, check_replaced), 200),
    ],
    ids=lambda value: value.name if isinstance(value, Scenario) else None,
)
def test_a_thousand_deaths(fast_disk: Path, scenario: Scenario, wanted: int) -> None:
    deaths = 0
    gc.freeze()  # children share what there is, so that a fork is cheap
    try:
        while deaths < wanted:
            deaths += die_everywhere(scenario, fast_disk / f"{deaths}")
    finally:
        gc.unfreeze()


def die_everywhere(scenario: Scenario, root: Path) -> int:
    """Die at each point, and in the middle of each write; return how often."""
    whole = root / "whole"
    whole.mkdir(parents=True)
    scenario.before(whole)
    alive = Killed(scenario.work, whole, Faults(name="*", nth=10**9, action="kill"))
    assert not alive.died
    points = int(acknowledged(alive, "hits")[0])
    assert points > 20
    actions: tuple[Action, ...] = ("kill", "torn")
    for action in actions:
        for nth in range(1, points + 1):
            folder = root / f"{action}{nth}"
            folder.mkdir()
            scenario.before(folder)
            killed = Killed(scenario.work, folder, Faults(name="*", nth=nth, action=action))
            assert killed.died, (scenario.name, action, nth)
            scenario.check(folder, killed)
            shutil.rmtree(folder)
    return points * len(actions)
