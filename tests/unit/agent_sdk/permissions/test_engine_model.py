"""The engine against a slow model of it, over random histories."""

import asyncio
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from agent_sdk.core.aio import AbortSignal
from agent_sdk.loop.types import Action, Decision, Rule
from agent_sdk.permissions.engine import PermissionEngine
from agent_sdk.permissions.modes import PERMISSION_MODES
from agent_sdk.permissions.ruleset import PermissionLayers, Ruleset
from tests.support.permission_fakes import CountingIds, ManualAsker, Recorder, prepared, wants

NAMES = ("a", "b", "ab", "x/y")
LAYERS = ("builtin", "user", "agent", "project", "session")


def slow_match(pattern: str, value: str) -> bool:
    if not pattern:
        return not value
    if pattern[0] == "*":
        return any(slow_match(pattern[1:], value[at:]) for at in range(len(value) + 1))
    return bool(value) and pattern[0] in ("?", value[0]) and slow_match(pattern[1:], value[1:])


class Model:
    """What ought to happen, said as plainly as possible."""

    def __init__(self, layers: dict[str, Ruleset]) -> None:
        self.layers = layers
        self.mode = "default"
        self.granted: list[Rule] = []
        self.once: set[tuple[str, str]] = set()
        self.disposed = False

    def rule(self, key: str, value: str) -> Action:
        said: Action = "ask"
        for name in (*LAYERS, "granted"):
            last: Action | None = None
            for rule in self.granted if name == "granted" else self.layers[name]:
                if name == "project" and rule.action == "allow":
                    continue
                if slow_match(rule.permission, key) and slow_match(rule.pattern, value):
                    last = rule.action
            if last == "deny":
                return "deny"
            said = last or said
        return said

    def verdict(self, requests: list[tuple[str, str, bool]]) -> Action:
        if any(self.rule(key, value) == "deny" for key, value, _ in requests):
            return "deny"
        if self.mode == "plan":
            return "deny"
        worst: Action = "allow"
        for key, value, protected in requests:
            if not protected:
                if self.rule(key, value) == "allow" or (key, value) in self.once:
                    continue
                if self.mode == "bypassPermissions":
                    continue
            if self.mode == "dontAsk":
                return "deny"
            worst = "ask"
        return worst


keys = st.sampled_from(["todo", "task", "*"])
values = st.sampled_from(NAMES)
rule_patterns = st.sampled_from([*NAMES, "*", "a*", "?", "*/*"])
rules = st.lists(
    st.builds(Rule, keys, rule_patterns, st.sampled_from(["allow", "deny", "ask", "ask"])),
    max_size=3,
).map(tuple)
requests = st.lists(
    st.tuples(
        st.sampled_from(["todo", "task"]),
        values,
        st.sampled_from([False, False, False, True]),
        st.sampled_from(["", "*", "a*", "x/y"]),
    ),
    min_size=1,
    max_size=2,
)
operations = st.lists(
    st.one_of(
        st.tuples(st.just("call"), requests),
        st.tuples(st.just("call"), requests),
        st.tuples(st.just("call"), requests),
        st.tuples(st.sampled_from(["once", "always", "reject", "cancel"]), st.integers(0, 5)),
        st.tuples(st.just("mode"), st.sampled_from(PERMISSION_MODES)),
        st.tuples(st.sampled_from(["end_run", "dispose"]), st.none()),
    ),
    max_size=12,
)


class Machine:
    """Does the same to the engine and to the model, and compares."""

    def __init__(self, layers: dict[str, Ruleset]) -> None:
        self.model = Model(layers)
        self.asker = ManualAsker()
        self.recorder = Recorder()
        self.engine = PermissionEngine(
            layers=PermissionLayers(**layers),
            mode="default",
            roots=[],
            asker=self.asker,
            remember=self.recorder.remember,
            emit=self.recorder.emit,
            ids=CountingIds(),
        )
        self.calls = 0
        # By question: the call's requests and the task that waits.
        self.waiting: dict[str, tuple[Any, asyncio.Task[Decision]]] = {}

    async def settle(self) -> None:
        for _ in range(10):
            await asyncio.sleep(0)

    async def call(self, wanted: Any) -> None:
        self.calls += 1
        call = prepared(
            *(
                wants(key, value, always=always, protected=protected)
                for key, value, protected, always in wanted
            ),
            call_id=f"c{self.calls}",
        )
        before = len(self.recorder.asked)
        task = asyncio.get_running_loop().create_task(self.engine.authorize(call, AbortSignal()))
        await self.settle()
        verdict = self.model.verdict([request[:3] for request in wanted])
        if verdict == "ask" and not self.model.disposed:
            assert not task.done()
            assert len(self.recorder.asked) == before + 1
            self.waiting[self.recorder.asked[-1].request_id] = (wanted, task)
            return
        assert len(self.recorder.asked) == before
        decision = task.result()
        assert decision.allowed is (verdict == "allow")
        assert decision.input_hash == call.input_hash

    async def reply(self, kind: Any, number: int) -> None:
        if not self.waiting:
            return
        question = list(self.waiting)[number % len(self.waiting)]
        _, task = self.waiting.pop(question)
        if kind == "cancel":
            task.cancel()
            await self.settle()
            assert task.cancelled()
            return
        shown = {a.request_id: a for a in self.recorder.asked}[question]
        self.asker.answer(question, kind)
        await self.settle()
        assert task.result().allowed is (kind != "reject")
        if kind == "reject":
            return
        for request in shown.requests:
            if kind == "always":
                self.model.granted += request.always
            if not request.protected:
                self.model.once.update((request.permission, p) for p in request.patterns)
        self.covered()

    def covered(self) -> None:
        """Questions that have become needless must be gone, all others still there."""
        for question, (wanted, task) in tuple(self.waiting.items()):
            verdict = self.model.verdict([request[:3] for request in wanted])
            assert task.done() is (verdict != "ask")
            if verdict != "ask":
                assert task.result().allowed is (verdict == "allow")
                del self.waiting[question]

    async def end(self, how: str) -> None:
        if how == "dispose":
            self.engine.dispose()
            self.model.disposed = True
        else:
            self.engine.end_run()
        self.model.once.clear()
        await self.settle()
        for _, task in self.waiting.values():
            assert not task.result().allowed
        self.waiting.clear()

    async def step(self, name: str, value: Any) -> None:
        if name == "call":
            await self.call(value)
        elif name == "mode":
            self.model.mode = value
            self.engine.set_mode(value)
            await self.settle()
            self.covered()
        elif name in ("end_run", "dispose"):
            await self.end(name)
        else:
            await self.reply(name, value)

    def check(self) -> None:
        assert set(self.asker.open) == set(self.waiting)
        assert [a.request_id for a in self.engine.waiting] == list(self.waiting)
        assert self.recorder.stored == self.model.granted == list(self.engine.granted)
        answered = [reply.request_id for reply in self.recorder.replied]
        assert len(set(answered)) == len(answered), "a question is answered once"
        asked = {asked.request_id for asked in self.recorder.asked}
        assert set(answered) == asked - set(self.waiting)


@given(
    st.fixed_dictionaries(dict.fromkeys(LAYERS, rules)),
    operations,
)
async def test_the_engine_agrees_with_the_model(
    layers: dict[str, Ruleset], history: list[tuple[str, Any]]
) -> None:
    machine = Machine(layers)
    try:
        for name, value in history:
            await machine.step(name, value)
            machine.check()
    finally:
        await machine.engine.aclose()
        await machine.settle()
    assert machine.asker.open == {}
