"""Kills the real ``zpi`` while it works, and counts what was lost and what came twice.

Acknowledged is a line that the program printed. After each kill nothing of the
program lives; ``--continue`` opens the session and goes on, and is killed again
in many cases, until it has come to its end.
"""

import asyncio
import contextlib
import os
import random
import re
import shutil
import signal
import sys
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from agent_sdk.core.ids import RandomIds, SystemClock
from agent_sdk.session.manager import SessionManager
from agent_sdk.testing.mock_server import MockCall, MockScript, MockServer, MockTurn
from agent_sdk.testing.mock_wire import APIS, WireApi
from tests.support.cli import Cli, Running
from tests.support.kills import (
    PARTS,
    Output,
    Process,
    Step,
    all_gone,
    check_pairs,
    children,
    effects,
    heard,
    imprint,
    kill,
    last_words,
    missing,
    prepare,
    prompt_of,
    script,
    session_file,
    steps_of,
    stored_calls,
    whole_records,
)
from tests.support.processes import appear, destroy_leftovers, unique_word
from tests.support.transcripts import blocks, checked, read_back, result_texts

if sys.platform != "linux":
    pytest.skip("needs /proc", allow_module_level=True)

NIGHTLY = bool(os.environ.get("ZPI_NIGHTLY"))
KILLS = 500 if NIGHTLY else 50
SEED = int(os.environ.get("ZPI_KILL_SEED", "") or (time.time_ns() if NIGHTLY else 20_240_607))
AT_ONCE = 3
AGAIN = 0.85
"""How likely it is that a run which goes on is killed, too."""

OPTIONS = ("--output-format", "stream-json", "--allowed-tools", "Read,Edit,Write,Bash")
PART = re.compile(r"\[part-\d\d\]")
MOMENTS = (
    *("start", "request", "stream", "answer", "change"),
    *("bash", "effect", "result", "end", "any"),
)


@pytest.fixture(autouse=True)
def _clean_up() -> Any:
    yield
    destroy_leftovers()


# ---------------------------------------------------------------- a single run


class Victim:
    """One run of the program, which may be killed.

    Attributes:
        out: Everything that it printed.
        err: Everything that it said besides.
        known: Its children when it was killed.
        died_at: When that was; for a run that was not killed, when it had ended.
    """

    def __init__(self, cli: Cli, server: MockServer, running: Running) -> None:
        self._cli = cli
        self._server = server
        self._pid = running.process.pid
        self._first = len(server.requests)
        self.process = running.process
        self.out = bytearray()
        self.err = bytearray()
        self.known: set[Process] = set()
        self.died_at = 0.0
        self._file: Path | None = None
        self._seen = 0
        assert running.process.stdout is not None
        assert running.process.stderr is not None
        self._readers = asyncio.gather(
            _gather(running.process.stdout, self.out), _gather(running.process.stderr, self.err)
        )

    @property
    def requests(self) -> list[Any]:
        """The requests that it has made."""
        return self._server.requests[self._first :]

    @property
    def ended(self) -> bool:
        return self.process.returncode is not None

    def stored(self) -> bytes:
        """Return what has come to the session's file since it was last looked at."""
        if self._file is None:
            self._file = session_file(self._cli)
            self._seen = 0
        if self._file is None:
            return b""
        with self._file.open("rb") as stream:
            stream.seek(max(0, self._seen - 200))  # a record may have been read in two pieces
            data = stream.read()
            self._seen = stream.tell()
        return data

    def has_done(self, number: int) -> bool:
        """Whether the effect of a call can be seen."""
        steps = (step for steps in steps_of(number // 10, "") for step in steps)
        (step,) = (step for step in steps if step.number == number)
        return effects(self._cli.project, step) > 0

    async def die(self, when: "Moment") -> bool:
        """Kill it at the moment; return whether it had not ended before."""
        async with asyncio.timeout(30):
            while not self.ended and not when.has_come(self):
                await asyncio.sleep(0.003)
        until = time.monotonic() + when.pause
        while not self.ended and time.monotonic() < until:
            await asyncio.sleep(min(0.001, max(0.0, until - time.monotonic())))
        if not self.ended:
            with contextlib.suppress(ProcessLookupError):  # it ended just now
                self.known = kill(self._pid, frozen=when.frozen)
                self.died_at = time.monotonic()
        await self.end()
        return self.process.returncode == -signal.SIGKILL

    async def end(self) -> None:
        """Wait for its end and for all that it has printed."""
        async with asyncio.timeout(30):
            await self.process.wait()
        async with asyncio.timeout(2):  # nothing that it started may hold its output open
            await self._readers
        self.died_at = self.died_at or time.monotonic()
        assert b"Traceback" not in self.err, bytes(self.err)


async def _gather(stream: asyncio.StreamReader, into: bytearray) -> None:
    while data := await stream.read(1 << 16):
        into += data


@dataclass(frozen=True)
class Moment:
    """When a run is killed: a while after something has come to pass.

    Attributes:
        name: One of ``MOMENTS``.
        needle: What must have been printed or stored, the number of the request
            that must have been made, or of the call whose effect must be seen.
        place: Which of these it is; empty for none.
        pause: Seconds between that and the kill.
        frozen: Whether it is stopped before, see ``kill``.
    """

    name: str
    needle: bytes
    place: str
    pause: float
    frozen: bool

    def has_come(self, victim: Victim) -> bool:
        if self.place == "request":
            return len(victim.requests) >= int(self.needle)
        if self.place == "printed":
            return self.needle in victim.out
        if self.place == "stored":
            return self.needle in victim.stored()
        if self.place == "done":
            return victim.has_done(int(self.needle))
        return True


def moment(name: str, part: int, rng: random.Random, usual: "Usual") -> Moment:
    """Return a moment of that kind in a part's run."""
    steps = [step for steps in steps_of(part, "") for step in steps]
    step = rng.choice([s for s in steps if (s.tool == "bash") == (name == "bash")])
    needle, place, most = {
        "start": (b"", "", 0.8 * usual.first_request),
        "request": (b"%d" % rng.choice((1, 2, 3)), "request", 0.015),
        "stream": (b"%d" % rng.choice((1, 2)), "request", 0.2),
        "answer": (f'"id":"{step.call_id}"'.encode(), "printed", 0.004),
        "change": (f'"toolUseId":"{step.call_id}"'.encode(), "stored", 0.012),
        "bash": (f'"toolUseId":"{step.call_id}"'.encode(), "stored", 0.3),
        "effect": (b"%d" % rng.choice(steps).number, "done", 0.03),
        "result": (f'"tool_use_id":"{rng.choice(steps).call_id}"'.encode(), "printed", 0.006),
        "end": (last_words(part).encode(), "printed", 0.06),
        "any": (b"", "", usual.whole),
    }[name]
    return Moment(name, needle, place, rng.uniform(0, most), rng.random() < 0.5)


class Usual:
    """How long things take on this machine, learnt on the way (in seconds)."""

    first_request = 0.4
    whole = 1.5

    def learn(self, victim: Victim, begun: float) -> None:
        if victim.requests:
            self.first_request = victim.requests[0].arrived - begun
        if victim.process.returncode == 0:
            self.whole = time.monotonic() - begun


# ------------------------------------------------------------------- a session


class Session:
    """One session that is killed again and again; see ``Campaign``."""

    def __init__(self, root: Path, api: WireApi, server: MockServer, *, word: str) -> None:
        self.api = api
        self.server = server
        self.word = word
        folder = root / word
        folder.mkdir()
        self.cli = Cli(folder)
        self.cli.use(server, api)
        prepare(self.cli.project)
        self.session_id = ""
        self.effects = 0
        self.acknowledged: list[Output] = []
        self._open: set[str] = set()
        self._imprint: dict[str, tuple[int, int, int]] = {}
        self._steps: list[Step] = []

    def words(self, part: int, *, short: bool) -> tuple[str, ...]:
        """Return the command line of a part's run; a short one has less to do."""
        go_on = ("--continue",) if session_file(self.cli) else ()
        partial = ("--include-partial-messages",) if part % 2 == 0 else ()
        return ("-p", prompt_of(part, short=short), *OPTIONS, *go_on, *partial)

    async def refuse_to_go_on(self) -> None:
        """Check what is said where nothing was stored before the kill."""
        done = await self.cli.run("--continue", "-p", "Go on.")
        assert done.code == 2
        assert "There is no session to continue" in done.error_line

    def check(self, victim: Victim, part: int) -> Counter[str]:
        """Check everything that can be said after a run, whether it was killed or not."""
        path = session_file(self.cli)
        records = whole_records(path)
        output = Output.of(bytes(victim.out))
        self.acknowledged.append(output)
        if path and output.session_id:
            self.session_id = self.session_id or path.stem
            assert output.session_id == path.stem == self.session_id
        for each in self.acknowledged:
            assert missing(each, records) == []
        self._steps += [step for steps in steps_of(part, self.word) for step in steps]
        self.effects = self._check_effects(records)
        self._check_old_files(part)
        for number, request in enumerate(victim.requests):
            self._check_request(request.body, records, first=number == 0)
        asked, begun, results = stored_calls(records)
        self._open = {name for name in asked if name not in results}
        self._imprint = imprint(self.cli.project)
        return Counter(
            acknowledged=len(output.acknowledged),
            open=len(self._open),
            open_begun=len(self._open & begun),
            silent=len({*results} - {r for each in self.acknowledged for r in each.results}),
        )

    def _check_effects(self, records: list[dict[str, Any]]) -> int:
        """Check each call's effect against what was said about it; return how many there were."""
        _, begun, results = stored_calls(records)
        printed = {name for output in self.acknowledged for name in output.results}
        happened = 0
        for step in self._steps:
            name, count = step.call_id, effects(self.cli.project, step)
            assert count <= 1, f"{name} came {count} times"
            happened += count
            if name not in begun:
                assert count == 0, f"{name} ran before its start was stored"
            if name in results:
                result = results[name]
                if (result.get("details") or {}).get("interrupted"):
                    assert name not in printed
                    assert result["details"]["started"] == (name in begun)
                    assert result["block"]["is_error"] is True
                else:
                    assert not result["block"].get("is_error"), result
                    assert count == 1, f"{name} is lost: {result}"
            assert name in results or name not in printed
        return happened

    def _check_old_files(self, part: int) -> None:
        """Check that no file of an earlier part was written again."""
        now = imprint(self.cli.project)
        for name, before in self._imprint.items():
            number = int(name.partition("-")[2].removesuffix(".txt"))
            assert number // 10 >= part or now[name] == before, f"{name} was written again"

    def _check_request(
        self, body: dict[str, Any], records: list[dict[str, Any]], *, first: bool
    ) -> None:
        """Check that the model was told nothing that was not stored, and of each open call."""
        said = heard(self.api, body)
        check_pairs(said)
        asked, _, results = stored_calls(records)
        told = {name: text for kind, name, text in said if kind == "result"}
        assert told.keys() <= set(asked)
        assert told.keys() <= results.keys()
        prompts = "".join(text for kind, _, text in said if kind == "user")
        stored = "".join(b["text"] for r in records if "origin" in r for b in blocks(r))
        assert PART.findall(prompts) == PART.findall(stored)
        if first:
            for name in self._open:
                assert told[name].startswith("Interrupted"), told[name]
                assert (results[name].get("details") or {}).get("interrupted")

    async def settle_twice(self) -> None:
        """Check that opening what the kill has left, and opening it again, gives the same bytes."""
        path = session_file(self.cli)
        if path is None:
            return
        copy = self.cli.home / "copy" / path.parent.name / path.name
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, copy)
        contents = []
        notices = []
        for _ in range(2):
            manager = await SessionManager.resume(
                session_id=path.stem,
                sessions_dir=copy.parent.parent,
                ids=RandomIds(),
                clock=SystemClock(),
            )
            await manager.close()
            contents.append(copy.read_bytes())
            notices.append(manager.notices)
        assert contents[0] == contents[1]
        assert notices[1] == ()
        checked(copy)

    async def finish(self) -> None:
        """Check the session when it has come to its end."""
        path = session_file(self.cli)
        assert path is not None
        records = checked(path)
        asked, _, results = stored_calls(records)
        assert sorted(asked) == sorted(results)
        assert len(asked) == len(set(asked))
        assert [r["status"] for r in records if r["type"] == "run" and r["event"] == "end"][
            -1
        ] == "completed"
        await read_back(path)


# ------------------------------------------------------------------ the campaign


class Campaign:
    """Kills runs of many sessions, some at a time, and adds up what it saw."""

    def __init__(self, root: Path, *, kills: int, seed: int) -> None:
        self.rng = random.Random(seed)
        self.counts: Counter[str] = Counter()
        self.deaths: Counter[str] = Counter()
        self.survived: list[float] = []
        self._root = root
        self._usual = Usual()
        self._sessions = 0
        self._moments = [MOMENTS[at % len(MOMENTS)] for at in range(kills)]
        self.rng.shuffle(self._moments)

    async def run(self) -> None:
        """Go on until every kill has hit."""
        async with asyncio.TaskGroup() as group:
            for _ in range(AT_ONCE):
                group.create_task(self._work())

    async def _work(self) -> None:
        while self._moments:
            api = APIS[self._sessions % len(APIS)]
            self._sessions += 1
            word = unique_word()
            async with MockServer(script(word)) as server:
                await self._session(Session(self._root, api, server, word=word))

    async def _session(self, session: Session) -> None:
        name: str | None = None
        for part in range(1, PARTS + 1):
            name = self._take(part)
            begun = time.monotonic()
            words = session.words(part, short=name is None)
            async with session.cli.start(*words) as running:
                victim = Victim(session.cli, session.server, running)
                if name:
                    killed = await victim.die(moment(name, part, self.rng, self._usual))
                else:
                    killed = False
                    await victim.end()
            self._usual.learn(victim, begun)
            self.survived.append(await all_gone(session.word, victim.known, since=victim.died_at))
            seen = session.check(victim, part)
            self.counts.update(seen)
            if not killed:
                assert victim.process.returncode == 0, bytes(victim.err)
                break
            self.counts["kills"] += 1
            self.deaths[_state(victim, seen)] += 1
            name = None
            await session.settle_twice()
            if session_file(session.cli) is None:
                assert not Output.of(bytes(victim.out)).acknowledged
                self.counts["unborn"] += 1
                if self.counts["unborn"] <= 2 or NIGHTLY:
                    await session.refuse_to_go_on()
        if name:  # it had ended before it could be killed
            self._moments.append(name)
        await session.finish()
        self._look_for_litter(session)

    def _take(self, part: int) -> str | None:
        if not self._moments or part == PARTS or (part > 1 and self.rng.random() > AGAIN):
            return None
        return self._moments.pop()

    def _look_for_litter(self, session: Session) -> None:
        """Count what kills leave: the file of an unfinished change, a torn tail's copy."""
        self.counts["temporary files"] += len(list(session.cli.project.glob(".zpi-*.tmp")))
        self.counts["torn tails"] += len(list(session.cli.agent_dir.glob("sessions/*/*torn*")))
        self.counts["sessions"] += 1
        self.counts["effects"] += session.effects
        self.counts[session.api] += 1


def _state(victim: Victim, seen: Counter[str]) -> str:
    """Return in which state a run was when it was killed."""
    output = Output.of(bytes(victim.out))
    if not victim.requests:
        return "before the first request"
    if any(message["type"] == "result" for message in output.lines):
        return "after the result"
    if seen["open_begun"]:
        return "in a call"
    if seen["open"]:
        return "between answer and call"
    return "between calls or in the stream"


@pytest.mark.slow
@pytest.mark.timeout(1800 if NIGHTLY else 240)
async def test_kills(tmp_path: Path) -> None:
    campaign = Campaign(tmp_path, kills=KILLS, seed=SEED)
    begun = time.monotonic()
    try:
        await campaign.run()
    finally:
        print(f"seed {SEED}, {time.monotonic() - begun:.0f} s: {dict(campaign.counts)}")
        print(
            f"killed {dict(campaign.deaths)}; gone after {max(campaign.survived, default=0):.2f} s"
        )
    assert campaign.counts["kills"] == KILLS
    assert campaign.counts["acknowledged"] > KILLS
    assert campaign.counts["effects"] > KILLS
    assert set(campaign.deaths) >= {
        "before the first request",
        "in a call",
        "between calls or in the stream",
    }
    assert all(campaign.counts[api] for api in APIS)


# --------------------------------------------------------------- the supervisor


def bash(command: str) -> MockCall:
    return MockCall(name="bash", input={"command": command})


def stubborn(word: str) -> str:
    """A command line that leaves three processes of different kinds in the background."""
    sleep = f"exec -a {word} sleep 600"
    return (
        f"({sleep}) > /dev/null 2>&1 & env -i setsid bash -c '{sleep}' > /dev/null 2>&1 &"
        f" setsid bash -c 'trap \"\" TERM HUP INT; while :; do sleep 1; done' {word}"
        " > /dev/null 2>&1 &"
    )


def supervisor_of(running: Running) -> int:
    ((pid, _),) = children(running.process.pid)
    return pid


async def end_of_supervisor(running: Running, word: str) -> None:
    """Kill the supervisor alone; check that nothing it had started lives 2 s later."""
    os.kill(supervisor_of(running), signal.SIGKILL)
    await all_gone(word, set())


@pytest.mark.parametrize("api", APIS)
async def test_supervisor_killed_in_a_command(api: WireApi, tmp_path: Path) -> None:
    word = unique_word()
    command = f"echo begun >> effects.log; {stubborn(word)} exec -a {word} sleep 600"
    turns = (
        MockTurn(calls=(bash(command), bash("echo second | tee -a effects.log"))),
        MockTurn(calls=(bash("echo third | tee -a effects.log"),)),
        MockTurn(text="That is all."),
    )
    cli = Cli(tmp_path)
    async with MockServer(MockScript(turns=turns)) as server:
        cli.use(server, api)
        async with cli.start("-p", "Run it.", *OPTIONS) as running:
            assert len(await appear(word, least=4)) >= 4
            await end_of_supervisor(running, word)
            done = await running.finish()
        assert (done.code, done.result["subtype"]) == (0, "success")
        first, second, third = result_texts(checked(cli.session))
        assert first.startswith("The command was lost: ")
        assert (second, third) == ("second\n", "third\n")
        assert (cli.project / "effects.log").read_text() == "begun\nsecond\nthird\n"
        server.push(MockTurn(text="Here I am again."))
        again = await cli.run("-p", "Go on.", "--continue")
        assert (again.code, again.text) == (0, "Here I am again.\n")


async def test_supervisor_killed_while_the_model_speaks(tmp_path: Path) -> None:
    word = unique_word()
    turns = (
        MockTurn(calls=(bash(stubborn(word)),)),
        MockTurn(calls=(bash("echo second"),), delay=2.5),
        MockTurn(text="That is all."),
    )
    cli = Cli(tmp_path)
    async with MockServer(MockScript(turns=turns)) as server:
        cli.use(server)
        async with cli.start("-p", "Run it.", *OPTIONS) as running:
            assert len(await appear(word, least=3)) >= 3
            async with asyncio.timeout(20):
                while len(server.requests) < 2:
                    await asyncio.sleep(0.005)
            await end_of_supervisor(running, word)
            assert running.process.returncode is None
            done = await running.finish()
    assert done.code == 0
    assert result_texts(checked(cli.session)) == ["(no output)", "second\n"]


# ---------------------------------------------------------------- other deaths


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGABRT])
async def test_twenty_trees_end_with_the_program(number: int, tmp_path: Path) -> None:
    word = unique_word()
    calls = tuple(bash(stubborn(word)) for _ in range(20))
    cli = Cli(tmp_path)
    turns = (MockTurn(calls=calls), MockTurn(delay=600))
    async with MockServer(MockScript(queue=turns)) as server:
        cli.use(server)
        async with cli.start("-p", "Run them.", *OPTIONS) as running:
            assert len(await appear(word, least=60, seconds=30)) >= 60
            known = children(running.process.pid)
            assert len(known) == 1
            running.send(number)
            await running.process.wait()
            await all_gone(word, known)
        assert running.process.returncode == -number
        server.push(MockTurn(text="Here I am again."))
        again = await cli.run("-p", "Go on.", "--continue")
        assert (again.code, again.text) == (0, "Here I am again.\n")
    checked(cli.session)
    assert list(cli.project.iterdir()) == []  # no core file either
