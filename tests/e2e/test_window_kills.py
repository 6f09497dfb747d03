"""Kills host, window, or both, at random moments; what was shown is there again, and goes on.

Acknowledged is what reached the window's side: a frame, or the answer that a
prompt was taken. Most kills are of the real host with a driver in the window's
place, the rest of a real window with its host.
"""

import asyncio
import contextlib
import os
import random
import signal
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

import pytest

from agent_sdk.events.wire import PartDelta, PermissionAskedEvent, TextPart
from agent_sdk.testing.mock_server import MockRule, MockScript, MockServer
from agent_sdk.testing.mock_wire import MockCall, MockTurn
from desktop.bridge.messages import PermissionsState, TranscriptMessage
from desktop.bridge.protocol import ContinueRun, Done, ReplyPermission, ResumeQueue
from tests.support.host import RunningHost, running_host
from tests.support.processes import carrying, destroy_leftovers, unique_word, vanish
from tests.support.window import finished_of, hosts_of, lost, variables
from tests.support.window_driver import PATIENCE, WindowDriver, driven_window

if sys.platform != "linux":
    pytest.skip("needs /proc", allow_module_level=True)

NIGHTLY = bool(os.environ.get("ZPI_NIGHTLY"))
HOST_KILLS = 240 if NIGHTLY else 38
WINDOW_KILLS = 60 if NIGHTLY else 12
SEED = int(os.environ.get("ZPI_KILL_SEED", "") or (time.time_ns() if NIGHTLY else 20_261_130))
LANES = 2
"""Worlds in which is killed at the same time."""

GONE = 2.0
"""Seconds after which nothing of what was killed lives."""

SHOWN = 3.0
"""Seconds after which a run that was cut shows as interrupted, from the host's greeting."""


def at_most(seconds: float) -> float:
    """Return a limit for this machine as busy as it is: with n times the work, n times as long."""
    return seconds * max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))


TOPICS = ("host", "projects", "sessions", "models", "permissions", "queue", "settings")
Moment: TypeAlias = Literal["request", "stream", "permission", "bash", "end", "any"]
MOMENTS: tuple[Moment, ...] = ("request", "stream", "permission", "bash", "end", "any")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(1800 if NIGHTLY else 600),
]


def script(word: str) -> MockScript:
    """Return what the model says to any prompt: it streams, asks twice, works, and ends."""
    read = MockCall(name="read", input={"file_path": "a.txt"})
    edit = {"file_path": "a.txt", "old_string": "x|", "new_string": "xx|"}
    command = f"(exec -a {word} sleep 300) & echo began; exec -a {word} sleep 0.2"
    turns = (
        MockTurn(text="I look first. " * 5, deltas=12, rate=100, calls=(read,)),
        MockTurn(text="Now I change it.", calls=(MockCall(name="edit", input=edit),)),
        MockTurn(text="And run it.", calls=(MockCall(name="bash", input={"command": command}),)),
        MockTurn(text="This is the end.", deltas=3),
    )
    return MockScript(rules=(MockRule(when="", turns=turns),))


@dataclass
class Lane:
    """A home with a folder to work in, in which is killed again and again.

    Attributes:
        kills: How many there were.
        slowest: Seconds until something happened, at most, by what it is.
    """

    home: Path
    word: str
    url: str
    random: random.Random
    kills: int = 0
    slowest: dict[str, float] = field(default_factory=dict)

    @property
    def project(self) -> Path:
        return self.home / "我的 project"

    @property
    def data(self) -> Path:
        return self.home / "data"

    def took(self, what: str, seconds: float) -> None:
        self.slowest[what] = max(self.slowest.get(what, 0.0), round(seconds, 2))

    async def all_gone(self) -> None:
        """Fail unless no child and no host of this home is left in time."""
        begun = time.monotonic()
        await vanish(self.word, seconds=GONE)
        while (left := hosts_of(self.data)) and time.monotonic() - begun < GONE:
            await asyncio.sleep(0.02)
        assert left == [], f"hosts live on: {left}"
        self.took("gone", time.monotonic() - begun)


@asynccontextmanager
async def lanes(root: Path, seed: int, count: int) -> AsyncIterator[list[Lane]]:
    word = unique_word()
    made = []
    async with contextlib.AsyncExitStack() as stack:
        for at in range(count):
            own = f"{word}-{at}"
            server = await stack.enter_async_context(MockServer(script(own)))
            lane = Lane(root / f"home-{at}", own, server.url, random.Random(f"{seed} {at}"))
            lane.project.mkdir(parents=True)
            (lane.project / "a.txt").write_text("x|\n")
            made.append(lane)
        try:
            yield made
        finally:
            destroy_leftovers()


# ---------------------------------------------------------------- the host alone


@dataclass
class Before:
    """What the window's side knew when it happened."""

    session: str
    prompts: dict[str, str]
    messages: dict[str, Any]
    seq: int
    asked: set[str]
    ended: bool
    replied: bool


class HostRounds:
    """Kills the host of one lane, one round after the other."""

    def __init__(self, lane: Lane) -> None:
        self.lane = lane
        self.session = ""
        self.prompts: dict[str, str] = {}
        self.before: Before | None = None
        self.replied: set[str] = set()

    async def run(self, kills: int) -> None:
        for number in range(kills + 1):
            lane = self.lane
            async with running_host(lane.home, **variables(lane.home, lane.url)) as host:
                try:
                    await self._round(host, number, last=number == kills)
                except (AssertionError, TimeoutError) as error:
                    said = bytes(host.errors).decode("utf-8", "replace")[-1500:]
                    raise AssertionError(
                        f"seed {SEED}, round {number}: {error!r}\n{said}"
                    ) from error
                if number < kills:
                    await lane.all_gone()
                    lane.kills += 1

    async def _round(self, host: RunningHost, number: int, *, last: bool) -> None:
        await host.until(lambda: host.hello)
        begun = time.monotonic()
        await host.begin(*TOPICS)
        if self.before is not None:
            await self._check(host, self.before, begun)
            if last or self.lane.random.random() < 0.5:
                await self._go_on(host)
        if last:
            return
        if not self.session or number % 5 == 0:
            self.session = (await host.new_session(self.lane.project)).session.id
            self.prompts = {}
        elif self.session not in host.views:
            await host.open(self.session)
        await self._until_the_kill(host, number)

    # ------------------------------------------------------------------ killing

    async def _until_the_kill(self, host: RunningHost, number: int) -> None:
        lane = self.lane
        moment: Moment = MOMENTS[number % len(MOMENTS)]
        events = len(host.events)
        text, prompt_id = f"[{number}] Do what is due.", f"{lane.word}-{number}"
        taken = await host.submit(self.session, text, prompt_id=prompt_id)
        if taken.became == "queued":  # what an earlier kill left comes first
            await host.expect(ResumeQueue(session_id=self.session), Done)
        self.prompts[prompt_id] = text
        answering = asyncio.create_task(self._answer(host, stop=moment == "permission"))
        try:
            await self._moment(host, moment, events)
        finally:
            answering.cancel()
            await asyncio.gather(answering, return_exceptions=True)
        if number % 3 == 2:
            host.close()  # the window has gone
        else:
            host.kill()
        await host.end()
        self._remember(host, events)

    async def _moment(self, host: RunningHost, moment: Moment, events: int) -> None:
        lane = self.lane
        chance = lane.random.random()
        running = set(carrying(lane.word))
        if moment == "request":
            await asyncio.sleep(chance * 0.06)
        elif moment == "stream":
            await _event_after(host, PartDelta, events)
            await asyncio.sleep(chance * 0.15)
        elif moment == "permission":
            await _event_after(host, PermissionAskedEvent, events)
            await asyncio.sleep(chance * 0.1)
        elif moment == "bash":
            await _begun(lane.word, running)
            await asyncio.sleep(chance * 0.25)
        elif moment == "end":
            await host.status(self.session, "running")
            await host.status(self.session, "idle")
            await asyncio.sleep(chance * 0.05)
        else:
            await asyncio.sleep(chance * 1.5)

    async def _answer(self, host: RunningHost, *, stop: bool = False) -> None:
        """Allow whatever is asked, as a user who clicks."""
        while not stop:
            state = await host.until(lambda: self._open_questions(host), patience=600)
            await self._allow(host, state[0])

    async def _allow(self, host: RunningHost, asked: PermissionAskedEvent) -> None:
        self.replied.add(asked.request_id)
        await host.ask(
            ReplyPermission(
                session_id=asked.session_id,
                request_id=asked.request_id,
                input_hash=asked.input_hash,
                reply="once",
            )
        )

    def _open_questions(self, host: RunningHost) -> list[PermissionAskedEvent]:
        state = host.states.get(PermissionsState)
        waiting = state.waiting if isinstance(state, PermissionsState) else ()
        return [asked for asked in waiting if asked.request_id not in self.replied]

    def _remember(self, host: RunningHost, events: int) -> None:
        seen = [event for event in host.events if event.session_id == self.session]
        asked = {
            event.body.request_id
            for event in host.events[events:]
            if isinstance(event.body, PermissionAskedEvent)
        }
        self.before = Before(
            session=self.session,
            prompts=dict(self.prompts),
            messages=finished_of(host.views[self.session].page(0, 100_000).messages),
            seq=max((event.seq for event in seen), default=0),
            asked=asked - self.replied,
            ended=host.rows[self.session].status == "idle" if self.session in host.rows else False,
            replied=bool(asked & self.replied),
        )

    # ----------------------------------------------------------------- checking

    async def _check(self, host: RunningHost, before: Before, begun: float) -> None:
        assert len(hosts_of(self.lane.data)) == 1
        row = host.rows[before.session]
        assert row.status in ("idle", "interrupted"), row
        self.lane.took("interrupted is shown", time.monotonic() - begun)
        assert time.monotonic() - begun < at_most(SHOWN)
        opened = await host.open(before.session)
        messages = await host.read_all(before.session)
        missing = lost(before.messages, finished_of(messages))
        assert not missing, missing
        assert opened.seq >= before.seq, (opened.seq, before.seq)
        assert list(opened.page.messages) == messages[opened.page.first :]
        queue = host.queues.get(before.session)
        queued = [prompt.text for prompt in queue.queued] if queue else []
        told = [_text(m) for m in messages if m.info.role == "user"]
        for prompt in before.prompts.values():
            assert (told + queued).count(prompt) == 1, (prompt, told, queued)
        if before.ended:
            assert row.status == "idle", row
            assert queued == []
        elif not queued:
            assert row.status == "interrupted" or _text(messages[-1]).endswith("the end."), row
        if row.status == "interrupted" and messages:
            assert opened.can_continue
        assert not self._open_questions(host), "a question of a run that is dead can be answered"
        expired = {asked.request_id for asked in opened.expired}
        assert before.asked <= expired, (before.asked, expired)

    async def _go_on(self, host: RunningHost) -> None:
        """Continue what was cut, to its end."""
        session = self.session
        queue = host.queues.get(session)
        if queue is not None and queue.queued:
            await host.expect(ResumeQueue(session_id=session), Done)
        elif host.rows[session].status == "interrupted":
            await host.expect(ContinueRun(session_id=session), Done)
        else:
            return
        answering = asyncio.create_task(self._answer(host))
        try:
            await host.until(
                lambda: (
                    host.rows[session].status not in ("running", "waiting", "retry")
                    and not host.queues[session].queued
                )
            )
        finally:
            answering.cancel()
            await asyncio.gather(answering, return_exceptions=True)
        assert host.rows[session].status == "idle", host.rows[session]
        messages = await host.read_all(session)
        assert _text(messages[-1]) == "This is the end."
        assert (
            finished_of(host.views[session].page(0, 100_000).messages).keys()
            <= finished_of(messages).keys()
        )


async def _event_after(host: RunningHost, kind: type, events: int) -> None:
    await host.until(lambda: any(isinstance(e.body, kind) for e in host.events[events:]))


async def _begun(word: str, before: set[int]) -> None:
    """Wait until a command runs that did not before."""
    async with asyncio.timeout(PATIENCE):
        while not set(carrying(word)) - before:
            await asyncio.sleep(0.01)


def _text(message: TranscriptMessage) -> str:
    return "".join(part.text for part in message.parts if isinstance(part, TextPart))


async def test_nothing_shown_is_lost_when_the_host_or_its_window_dies(tmp_path: Path) -> None:
    begun = time.monotonic()
    async with lanes(tmp_path, SEED, LANES) as made:
        async with asyncio.TaskGroup() as group:
            for lane in made:
                group.create_task(HostRounds(lane).run(HOST_KILLS // LANES))
        assert sum(lane.kills for lane in made) == HOST_KILLS // LANES * LANES
        for lane in made:
            print(f"{lane.kills} kills, slowest: {lane.slowest}")
    print(f"seed {SEED}: {time.monotonic() - begun:.0f} s")


# ---------------------------------------------------------------- the real window


Victim: TypeAlias = Literal["host", "window", "both"]
VICTIMS: tuple[Victim, ...] = ("host", "window", "both")


class WindowRounds:
    """Kills windows and their hosts, one round after the other, in one session."""

    def __init__(self, lane: Lane) -> None:
        self.lane = lane
        self.prompts: list[str] = []

    async def run(self, kills: int) -> None:
        number = 0
        before: dict[str, Any] = {}
        while True:
            async with driven_window(
                self.lane.home, variables(self.lane.home, self.lane.url)
            ) as driver:
                try:
                    if before:
                        await self._reopened(driver, before, back=0)
                    else:
                        driver.order("folder", str(self.lane.project))
                    while number < kills:
                        number += 1
                        victim = VICTIMS[number % 3]
                        before = await self._kill(driver, number, victim)
                        if victim != "host":
                            break
                        await self._reopened(driver, before, back=before["back"] + 1)
                    else:
                        return
                except (AssertionError, TimeoutError) as error:
                    log = (self.lane.home / "window.log").read_text()[-1500:]
                    raise AssertionError(f"seed {SEED}, window {number}: {error}\n{log}") from error

    async def _kill(self, driver: WindowDriver, number: int, victim: Victim) -> dict[str, Any]:
        lane, chance = self.lane, self.lane.random.random()
        moment = MOMENTS[(number + number // 3) % 5]
        text = f"[{number}] Do it, please."
        taken = len(driver.now.get("taken", ()))
        driver.order("send", text)
        await driver.until(lambda s: len(s["taken"]) > taken, "the prompt is taken")
        self.prompts.append(text)
        await self._moment(driver, moment)
        await asyncio.sleep(chance * 0.1)
        host = driver.now["host"]
        assert hosts_of(lane.data) == [host]
        if victim != "window":
            os.kill(host, signal.SIGKILL)
        if victim != "host":
            driver.process.kill()
            await driver.ended()
            await lane.all_gone()
        else:
            await vanish(lane.word, seconds=GONE)
            await driver.until(lambda s: s["host"] != host, "the host's end is noticed")
        lane.kills += 1
        return [state for state in driver.states if state["host"] == host][-1]

    async def _moment(self, driver: WindowDriver, moment: Moment) -> None:
        if moment == "request":
            return
        running = set(carrying(self.lane.word))
        deltas = driver.now["deltas"]
        await driver.until(
            lambda s: s["asked"] or (moment == "stream" and s["deltas"] > deltas), moment
        )
        if moment in ("stream", "permission"):
            return
        driver.order("allow")
        driver.order("allow")
        if moment == "bash":
            await _begun(self.lane.word, running)
            return
        await driver.until(lambda s: s["status"] == "idle" and not s["asked"], "the end")

    async def _reopened(self, driver: WindowDriver, before: dict[str, Any], *, back: int) -> None:
        lane = self.lane
        await driver.until(lambda s: s["epoch"] and s["epoch"] != before["epoch"], "a new host")
        begun = time.monotonic()
        await driver.until(
            lambda s: (
                s["session"] == before["session"]
                and s["status"] in ("idle", "interrupted")
                and s["back"] >= back
                and (s["messages"] or s["queued"])
            ),
            "what was there is shown again",
            seconds=at_most(SHOWN),
        )
        now = await driver.until(
            lambda s: s["can_continue"] or s["status"] == "idle" or s["queued"],
            "it can be continued",
            seconds=at_most(SHOWN),
        )
        lane.took("interrupted is shown", time.monotonic() - begun)
        assert len(hosts_of(lane.data)) == 1
        missing = lost(before["messages"], now["messages"])
        assert not missing, missing
        told = [_shown_text(m) for m in now["messages"].values() if m["role"] == "user"]
        for prompt in self.prompts:
            assert (told + now["queued"]).count(prompt) == 1, (prompt, told, now["queued"])
        if before["asked"] and now["status"] == "interrupted":
            await driver.until(
                lambda s: s["expired"], "the question shows as expired", seconds=at_most(SHOWN)
            )
        if now["status"] == "interrupted" and not now["queued"]:
            await driver.until(
                lambda s: any("interrupted" in text for text in s["offers"]),
                "it says so",
                seconds=at_most(SHOWN),
            )
        if now["queued"] or (now["status"] == "interrupted" and lane.random.random() < 0.5):
            await self._go_on(driver)

    async def _go_on(self, driver: WindowDriver) -> None:
        driver.order("continue")
        await driver.until(lambda s: s["status"] in ("running", "waiting"), "it goes on")
        end = time.monotonic() + PATIENCE
        while True:
            state = await driver.until(
                lambda s: (
                    (s["asked"] and not s["expired"] and s["status"] == "waiting")
                    or (s["status"] not in ("running", "waiting", "retry") and not s["queued"])
                ),
                "it comes to its end",
            )
            if state["status"] != "waiting":
                break
            asked = state["asked"]
            driver.order("allow")
            await driver.until(lambda s, asked=asked: s["asked"] != asked, "it is allowed")
            assert time.monotonic() < end
        assert driver.now["status"] == "idle"
        last = list(driver.now["messages"].values())[-1]
        assert _shown_text(last) == "This is the end."


def _shown_text(message: dict[str, Any]) -> str:
    return "".join(p["text"] for p in message["parts"].values() if p["type"] == "text")


async def test_nothing_shown_is_lost_when_a_real_window_or_its_host_dies(tmp_path: Path) -> None:
    begun = time.monotonic()
    async with lanes(tmp_path, SEED + 1, LANES) as made:
        async with asyncio.TaskGroup() as group:
            for lane in made:
                group.create_task(WindowRounds(lane).run(WINDOW_KILLS // LANES))
        for lane in made:
            print(f"{lane.kills} kills, slowest: {lane.slowest}")
            assert carrying(lane.word) == []
    print(f"seed {SEED}: {time.monotonic() - begun:.0f} s")
