import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from agent_sdk.core.aio import AbortSignal
from agent_sdk.core.errors import InvalidInput, StorageError
from agent_sdk.loop.types import Decision, PermissionAsked, Rule
from agent_sdk.permissions.engine import PermissionEngine, PermissionReply
from agent_sdk.permissions.modes import (
    PERMISSION_MODES,
    PermissionMode,
    is_inside,
    parse_mode,
)
from agent_sdk.permissions.ruleset import PermissionLayers
from tests.support.permission_fakes import CountingIds, ManualAsker, Recorder, prepared, wants

ROOT = "/work place/项目"


class World:
    """An engine with everything around it."""

    def __init__(self) -> None:
        self.asker = ManualAsker()
        self.recorder = Recorder()
        self.signal = AbortSignal()
        self.engines: list[PermissionEngine] = []
        self.engine = self.make()
        self.running: list[asyncio.Task[Decision]] = []

    def make(
        self,
        *,
        mode: PermissionMode = "default",
        asker: Any = "manual",
        **layers: tuple[Rule, ...],
    ) -> PermissionEngine:
        self.engine = PermissionEngine(
            layers=PermissionLayers(**layers),
            mode=mode,
            roots=[ROOT],
            asker=self.asker if asker == "manual" else asker,
            remember=self.recorder.remember,
            emit=self.recorder.emit,
            ids=CountingIds(),
        )
        self.engines.append(self.engine)
        return self.engine

    async def start(self, *requests: Any, **more: Any) -> "asyncio.Task[Decision]":
        task = asyncio.get_running_loop().create_task(
            self.engine.authorize(prepared(*requests, **more), self.signal)
        )
        self.running.append(task)
        await settle()
        return task

    async def close(self) -> None:
        for engine in self.engines:
            await engine.aclose()
        await asyncio.gather(*self.running, return_exceptions=True)


async def settle() -> None:
    for _ in range(8):
        await asyncio.sleep(0)


@pytest.fixture
async def world() -> AsyncIterator[World]:
    made = World()
    yield made
    await made.close()


# ---------------------------------------------------------------- deciding


async def test_what_the_rules_allow_or_deny_is_not_asked(world: World) -> None:
    world.make(user=(Rule("read", "*secret*", "deny"),))
    allowed = await world.engine.authorize(prepared(wants("read", f"{ROOT}/a")), world.signal)
    assert allowed == Decision(allowed=True, by="rule", input_hash="hash of c1")
    refused = await world.engine.authorize(prepared(wants("read", f"{ROOT}/secret")), world.signal)
    assert (refused.allowed, refused.by, refused.input_hash) == (False, "rule", "hash of c1")
    assert "denies read" in refused.reason
    assert world.recorder.events == []


async def test_a_call_that_needs_nothing_may_run(world: World) -> None:
    assert (await world.engine.authorize(prepared(), world.signal)).allowed


async def test_every_pattern_of_every_request_must_be_allowed(world: World) -> None:
    rules = (Rule("edit", "*/a", "allow"), Rule("edit", "*/b", "deny"), Rule("bash", "x", "allow"))
    world.make(user=rules, asker=None)
    a, b, c = f"{ROOT}/a", f"{ROOT}/b", f"{ROOT}/c"

    async def ask(*requests: Any) -> Decision:
        return await world.engine.authorize(prepared(*requests), world.signal)

    assert (await ask(wants("edit", a))).allowed
    assert (await ask(wants("edit", a), wants("bash", "x"))).allowed
    assert (await ask(wants("edit", a, b))).by == "rule"
    assert (await ask(wants("edit", a, c))).by == "no_asker"
    assert (await ask(wants("edit", a), wants("bash", "y"))).by == "no_asker"
    assert (await ask(wants("bash", "y"), wants("edit", b))).by == "rule"


async def test_decide_never_asks(world: World) -> None:
    assert world.engine.decide(prepared(wants("bash", "ls"))) is None
    decided = world.engine.decide(prepared(wants("read", f"{ROOT}/a")))
    assert decided
    assert decided.allowed
    assert world.recorder.events == []


def test_what_may_be_read_without_a_question(world: World) -> None:
    deny = (Rule("read", "secret/*", "deny"),)
    expected = [True, False, False]
    paths = [f"{ROOT}/a.py", f"{ROOT}/.env", f"{ROOT}/secret/a.py"]
    assert [world.make(user=deny).reads_freely(path) for path in paths] == expected
    engine = world.make(user=deny, mode="bypassPermissions")
    assert [engine.reads_freely(path) for path in paths] == [True, True, False]
    assert [world.make(user=deny, mode="dontAsk").reads_freely(p) for p in paths] == expected
    assert world.recorder.asked == []


async def test_nobody_to_ask_is_a_denial_at_once_that_says_what_would_help(world: World) -> None:
    world.make(asker=None)
    decision = await world.engine.authorize(prepared(wants("bash", "ls; rm x")), world.signal)
    assert (decision.allowed, decision.by) == (False, "no_asker")
    for part in ("bash 'ls; rm x'", "--allowed-tools 'bash'", "permission mode", "wildcard"):
        assert part in decision.reason
    decision = await world.engine.authorize(prepared(wants("bash", "x" * 999)), world.signal)
    assert len(decision.reason) < 800


async def test_a_file_outside_needs_more_than_the_right_to_read(world: World) -> None:
    world.make(asker=None, user=(Rule("read", "*", "allow"),))
    decision = await world.engine.authorize(prepared(wants("read", "/etc/passwd")), world.signal)
    assert decision.by == "no_asker"
    assert "external_directory '/etc/passwd'" in decision.reason
    world.make(user=(Rule("external_directory", "/etc/*", "allow"),))
    assert (
        await world.engine.authorize(prepared(wants("read", "/etc/passwd")), world.signal)
    ).allowed
    world.make(user=(Rule("external_directory", "/etc/*", "deny"),), mode="bypassPermissions")
    assert not (
        await world.engine.authorize(prepared(wants("read", "/etc/passwd")), world.signal)
    ).allowed


async def test_a_tool_that_declares_the_outside_itself_is_not_asked_twice(world: World) -> None:
    outside = wants("external_directory", "/etc/passwd", always="/etc/*")
    task = await world.start(wants("read", "/etc/passwd"), outside)
    (asked,) = world.recorder.asked
    assert asked.requests == (outside,)
    world.asker.answer("q1", "always")
    assert (await task).allowed
    assert world.recorder.stored == [Rule("external_directory", "/etc/*", "allow")]


@pytest.mark.parametrize(
    ("path", "inside"),
    [
        ("/a/b", True),
        ("/a/b/c", True),
        ("/a/bc", False),
        ("/a", False),
        ("/a/b/../c", False),
        ("/A/b/c", False),
        ("", False),
    ],
)
def test_inside(path: str, inside: bool) -> None:
    assert is_inside(path, ["", "/a/b"]) is inside
    assert is_inside("/anything", ["/"])


# ----------------------------------------------------------------- answers


async def test_once_holds_for_the_same_thing_until_the_run_ends(world: World) -> None:
    first = await world.start(wants("bash", "make", always="make *"))
    (asked,) = world.recorder.asked
    assert asked.call.name == "bash"
    assert asked.input_hash == "hash of c1"
    assert world.engine.waiting == (asked,)
    world.asker.answer("q1", "once")
    assert (await first) == Decision(allowed=True, by="user", input_hash="hash of c1")
    assert not world.engine.waiting
    again = await world.engine.authorize(
        prepared(wants("bash", "make"), call_id="c2"), world.signal
    )
    assert (again.allowed, again.by, again.input_hash) == (True, "user", "hash of c2")
    assert world.recorder.stored == []
    assert [(r.request_id, r.call_id, r.reply) for r in world.recorder.replied] == [
        ("q1", "c1", "once")
    ]

    other = await world.start(wants("bash", "make install"))
    assert not other.done(), "another command is another question"
    world.engine.end_run()
    assert (await other).by == "expired"
    after = await world.start(wants("bash", "make"))
    assert not after.done(), "the next run asks again"
    await world.close()


async def test_always_is_stored_before_the_call_runs(world: World) -> None:
    order: list[str] = []

    async def remember(rules: Any) -> None:
        await asyncio.sleep(0)
        order.append("stored")

    world.recorder.remember = remember  # type: ignore[method-assign]
    world.make()
    task = await world.start(wants("edit", f"{ROOT}/a", always=f"{ROOT}/*"))
    task.add_done_callback(lambda _: order.append("decided"))
    world.asker.answer("q1", "always")
    await task
    await settle()
    assert order == ["stored", "decided"]
    assert world.engine.granted == (Rule("edit", f"{ROOT}/*", "allow"),)
    assert world.recorder.replied[0].reply == "always"
    decision = await world.engine.authorize(prepared(wants("edit", f"{ROOT}/b")), world.signal)
    assert (decision.allowed, decision.by) == (True, "rule")
    world.engine.end_run()
    assert (
        await world.engine.authorize(prepared(wants("edit", f"{ROOT}/b")), world.signal)
    ).allowed


async def test_always_of_an_earlier_session_holds(world: World) -> None:
    world.make(asker=None, granted=(Rule("bash", "make *", "allow"),))
    assert (await world.engine.authorize(prepared(wants("bash", "make all")), world.signal)).allowed
    assert not (
        await world.engine.authorize(prepared(wants("bash", "make all; rm x")), world.signal)
    ).allowed


async def test_always_that_cannot_be_stored_does_not_let_the_call_run(world: World) -> None:
    world.recorder.fail = True
    task = await world.start(wants("edit", f"{ROOT}/a", always=f"{ROOT}/*"))
    world.asker.answer("q1", "always")
    with pytest.raises(StorageError):
        await task
    assert world.engine.granted == ()
    assert [reply.reply for reply in world.recorder.replied] == ["expired"]


async def test_always_settles_the_questions_that_it_covers(world: World) -> None:
    first = await world.start(wants("edit", f"{ROOT}/a", always=f"{ROOT}/*"), call_id="c1")
    second = await world.start(wants("edit", f"{ROOT}/b"), call_id="c2")
    third = await world.start(wants("bash", "ls"), call_id="c3")
    both = await world.start(wants("edit", f"{ROOT}/d"), wants("bash", "ls"), call_id="c4")
    world.asker.answer("q1", "always")
    assert (await first).allowed
    decision = await second
    assert (decision.allowed, decision.input_hash) == (True, "hash of c2")
    await settle()
    assert world.asker.withdrawn == ["q2"]
    assert not third.done()
    assert not both.done()
    assert [(r.request_id, r.reply) for r in world.recorder.replied] == [
        ("q1", "always"),
        ("q2", "always"),
    ]
    assert "q1" in world.recorder.replied[1].reason
    world.asker.answer("q3", "once")
    assert (await third).allowed
    assert (await both).allowed, "once covers the same thing in a waiting call, too"


async def test_a_denial_is_not_lifted_by_always(world: World) -> None:
    world.make(user=(Rule("edit", "*.lock", "deny"),))
    task = await world.start(wants("edit", f"{ROOT}/a", always="*"))
    world.asker.answer("q1", "always")
    assert (await task).allowed
    decision = await world.engine.authorize(prepared(wants("edit", f"{ROOT}/x.lock")), world.signal)
    assert (decision.allowed, decision.by) == (False, "rule")


async def test_a_rejection_gives_its_reason_to_the_model(world: World) -> None:
    task = await world.start(wants("bash", "rm x"))
    world.asker.answer("q1", "reject", reason="use git rm")
    decision = await task
    assert (decision.allowed, decision.by) == (False, "user")
    assert "use git rm" in decision.reason
    assert world.recorder.replied[0].reason == "use git rm"
    again = await world.start(wants("bash", "rm x"))
    assert not again.done(), "a rejection is no rule"
    await world.close()


@pytest.mark.parametrize("reply", ["once", "always"])
async def test_an_answer_for_another_input_is_refused(world: World, reply: Any) -> None:
    task = await world.start(wants("bash", "make", always="make *"))
    _, future = world.asker.open["q1"]
    future.set_result(PermissionReply(reply=reply, input_hash="hash of another"))
    decision = await task
    assert (decision.allowed, decision.by) == (False, "expired")
    assert "another input" in decision.reason
    assert world.recorder.stored == []
    assert world.engine.decide(prepared(wants("bash", "make"))) is None


# ------------------------------------------------------- what is offered


@pytest.mark.parametrize(
    ("key", "pattern", "always", "offered"),
    [
        ("bash", "make all", "make *", True),
        ("bash", "make all", "make all", True),
        ("bash", "rm *.log", "rm *.log", False),
        ("bash", "python x.py", "python *", False),
        ("bash", "sh -c ls", "sh *", False),
        ("edit", f"{ROOT}/a?b", f"{ROOT}/a?b", False),
        ("edit", f"{ROOT}/a", f"{ROOT}/*", True),
    ],
)
async def test_always_is_offered_only_where_it_means_what_is_shown(
    world: World, key: str, pattern: str, always: str, offered: bool
) -> None:
    task = await world.start(wants(key, pattern, always=always))
    (asked,) = world.recorder.asked
    assert bool(asked.requests[0].always) is offered
    world.asker.answer("q1", "always")
    assert (await task).allowed
    assert bool(world.recorder.stored) is offered
    assert world.recorder.replied[0].reply == ("always" if offered else "once")


# ---------------------------------------------------------------- protected


@pytest.mark.parametrize("mode", PERMISSION_MODES)
async def test_what_is_protected_is_asked_each_time_whatever_rules_and_mode_say(
    world: World, mode: PermissionMode
) -> None:
    everything = (Rule("*", "*", "allow"),)
    world.make(mode=mode, user=everything, session=everything, granted=everything)
    request = wants("edit", f"{ROOT}/.git/config", always="*", protected=True)
    call: dict[str, Any] = {"read_only": True}  # so that plan mode, too, comes to the question
    assert world.engine.decide(prepared(request)) != Decision(allowed=True)
    for number in (1, 2):
        task = await world.start(request, **call)
        if mode == "dontAsk":
            assert (await task).by == "mode"
            continue
        assert not task.done()
        assert world.recorder.asked[-1].requests[0].always == ()
        world.asker.answer(f"q{number}", "always")
        decision = await task
        assert (decision.allowed, decision.by) == (True, "user")
    assert world.recorder.stored == []


async def test_what_is_protected_is_refused_where_nobody_can_be_asked(world: World) -> None:
    world.make(mode="bypassPermissions", asker=None)
    request = wants("edit", f"{ROOT}/.git/config", protected=True)
    decision = await world.engine.authorize(prepared(request), world.signal)
    assert (decision.allowed, decision.by) == (False, "protected")
    assert "--allowed-tools" not in decision.reason


# -------------------------------------------------------------------- modes


@pytest.mark.parametrize(
    ("mode", "inside", "outside", "command", "reading"),
    [
        ("default", "ask", "ask", "ask", "allow"),
        ("auto", "ask", "ask", "ask", "allow"),
        ("acceptEdits", "allow", "ask", "ask", "allow"),
        ("dontAsk", "deny", "deny", "deny", "allow"),
        ("bypassPermissions", "allow", "allow", "allow", "allow"),
        ("plan", "deny", "deny", "deny", "allow"),
    ],
)
async def test_modes(
    world: World, mode: PermissionMode, inside: str, outside: str, command: str, reading: str
) -> None:
    world.make(mode=mode, user=(Rule("bash", "never", "deny"), Rule("bash", "fine", "allow")))

    def judged(*requests: Any, read_only: bool = False) -> str:
        decision = world.engine.decide(prepared(*requests, read_only=read_only))
        if decision is None:
            return "ask"
        return "allow" if decision.allowed else "deny"

    assert judged(wants("edit", f"{ROOT}/a")) == inside
    assert judged(wants("edit", "/elsewhere/a")) == outside
    assert judged(wants("edit", f"{ROOT}/a", "/elsewhere/a")) == outside
    assert judged(wants("bash", "ls")) == command
    assert judged(wants("read", f"{ROOT}/a"), read_only=True) == reading
    assert judged(wants("bash", "never")) == "deny", "no mode lifts a denial"
    assert judged(wants("bash", "fine")) == ("deny" if mode == "plan" else "allow")


async def test_plan_mode_tells_the_model(world: World) -> None:
    world.make(mode="plan")
    decision = await world.engine.authorize(prepared(wants("edit", f"{ROOT}/a")), world.signal)
    assert decision.by == "mode"
    assert "plan mode" in decision.reason
    asked = await world.start(wants("read", "/elsewhere"), read_only=True)
    assert not asked.done(), "reading is asked about as ever"
    await world.close()


async def test_a_mode_that_needs_a_word_gives_one_once(world: World) -> None:
    world.make(mode="auto")
    for _ in range(2):
        await world.engine.authorize(prepared(wants("read", f"{ROOT}/a")), world.signal)
    assert [notice.code for notice in world.recorder.notices] == ["permission_mode_auto"]
    world.engine.set_mode("bypassPermissions")
    world.engine.set_mode("default")
    assert [n.code for n in world.recorder.notices][1:] == ["permission_mode_bypass"]


async def test_a_change_of_mode_settles_questions(world: World) -> None:
    edit = await world.start(wants("edit", f"{ROOT}/a"), call_id="c1")
    command = await world.start(wants("bash", "ls"), call_id="c2")
    world.engine.set_mode("acceptEdits")
    assert world.engine.mode == "acceptEdits"
    assert (await edit).allowed
    assert not command.done()
    world.engine.set_mode("dontAsk")
    decision = await command
    assert (decision.allowed, decision.by) == (False, "expired")
    assert "dontAsk" in decision.reason


def test_modes_are_named() -> None:
    assert [parse_mode(mode) for mode in PERMISSION_MODES] == list(PERMISSION_MODES)
    with pytest.raises(InvalidInput, match="'yolo'") as caught:
        parse_mode("yolo")
    assert "acceptEdits" in caught.value.hint


# ---------------------------------------------------------------- the ends


END: list[Callable[[World], None]] = [
    lambda world: world.signal.abort("stopped by the user"),
    lambda world: world.engine.dispose(),
    lambda world: world.engine.end_run(),
]


@pytest.mark.parametrize("end", END)
async def test_every_question_ends(world: World, end: Callable[[World], None]) -> None:
    tasks = [await world.start(wants("bash", f"c{n}"), call_id=f"c{n}") for n in range(20)]
    end(world)
    decisions = await asyncio.wait_for(asyncio.gather(*tasks), timeout=5)
    assert {(d.allowed, d.by) for d in decisions} == {(False, "expired")}
    assert all("withdrawn" in d.reason for d in decisions)
    await settle()
    assert len(world.asker.withdrawn) == 20
    assert [reply.reply for reply in world.recorder.replied] == ["expired"] * 20
    assert world.engine.waiting == ()


async def test_an_asker_that_does_not_let_go_delays_nobody(world: World) -> None:
    release = asyncio.Event()

    class Stubborn:
        async def ask(self, asked: PermissionAsked) -> PermissionReply:
            while not release.is_set():
                try:
                    await release.wait()
                except asyncio.CancelledError:
                    continue
            return PermissionReply(reply="once", input_hash=asked.input_hash)

    world.make(asker=Stubborn())
    task = await world.start(wants("bash", "ls"))
    world.engine.dispose()
    decision = await asyncio.wait_for(task, timeout=5)
    assert decision.by == "expired"
    release.set()
    await world.engine.aclose()


async def test_after_the_end_nothing_is_asked(world: World) -> None:
    world.engine.dispose()
    decision = await world.engine.authorize(prepared(wants("bash", "ls")), world.signal)
    assert decision.by == "expired"
    assert (
        await world.engine.authorize(prepared(wants("read", f"{ROOT}/a")), world.signal)
    ).allowed
    world.make()
    world.signal.abort()
    decision = await world.engine.authorize(prepared(wants("bash", "ls")), world.signal)
    assert decision.by == "expired"
    assert world.recorder.asked == []


async def test_a_cancelled_call_withdraws_its_question(world: World) -> None:
    task = await world.start(wants("bash", "ls"))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await settle()
    assert world.asker.withdrawn == ["q1"]
    assert world.engine.waiting == ()
    assert [reply.reply for reply in world.recorder.replied] == ["expired"]


async def test_an_asker_that_fails_or_goes_counts_as_gone(world: World) -> None:
    class Failing:
        def __init__(self, error: BaseException) -> None:
            self.error = error

        async def ask(self, asked: PermissionAsked) -> PermissionReply:
            raise self.error

    for error in (RuntimeError("canary text"), asyncio.CancelledError()):
        world.make(asker=Failing(error))
        decision = await world.engine.authorize(prepared(wants("bash", "ls")), world.signal)
        assert (decision.allowed, decision.by) == (False, "expired")
        assert "canary" not in decision.reason
        assert world.recorder.replied[-1].reply == "expired"
