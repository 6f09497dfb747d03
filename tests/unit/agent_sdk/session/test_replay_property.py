"""What was shown live of a session, and what its records give back, are the same."""

import asyncio
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_sdk.core.ids import RandomIds, SystemClock
from agent_sdk.events.projection import Projector
from agent_sdk.loop.types import AgentEvent, ToolContext, ToolResult
from agent_sdk.providers.messages import Json
from agent_sdk.session.hub import EventHub
from agent_sdk.session.manager import SessionManager
from agent_sdk.session.records import Record
from agent_sdk.session.replay import Replay
from agent_sdk.testing.provider import (
    Answer,
    Gate,
    ScriptedProvider,
    answer,
    failure,
    text,
    thinking,
    tool_call,
)
from tests.support.loop_fakes import READ, FakeTool
from tests.support.session_graph import SessionGraph
from tests.support.sessions import build_session


async def work(args: Json, context: ToolContext) -> ToolResult:
    context.update("some output")
    await asyncio.sleep(0)
    if args.get("fail"):
        return ToolResult(content="broken", is_error=True)
    return ToolResult(content=f"did {args}", details={"n": 1})


TOOLS = (FakeTool("look", work, READ), FakeTool("act", work))

texts = st.text(st.characters(codec="utf-8"), min_size=1, max_size=20)
calls = st.builds(
    lambda name, fail: tool_call(name, {"fail": fail}),
    st.sampled_from(["look", "act", "nope"]),
    st.booleans(),
)
blocks = texts.map(text) | texts.map(lambda t: thinking(t, signature="s")) | calls
asking = st.builds(lambda first, rest: answer(*rest, first), calls, st.lists(blocks, max_size=3))
last = st.lists(texts.map(text), min_size=1, max_size=2).map(lambda parts: answer(*parts))
broken = st.builds(lambda part: failure("bad_request", part), texts.map(text))
prompts = st.lists(
    st.tuples(st.lists(asking, max_size=2), st.one_of(last, last, broken), st.booleans()),
    min_size=1,
    max_size=4,
)


class Shown:
    """Folds events as a front end sees them."""

    def __init__(self) -> None:
        self._projector = Projector(session_id="s")
        self._graph = SessionGraph()
        self._now = 0.0

    def take(self, event: AgentEvent) -> None:
        self._now += 0.01
        for change in self._projector.fold(event, self._now):
            self._graph.apply(change.body)

    def all(self) -> list[Any]:
        for change in self._projector.flush():
            self._graph.apply(change.body)
        return self._graph.shown()


def replayed(records: list[Record]) -> list[Any]:
    replay, shown = Replay(), Shown()
    for record in records:
        for event in replay.events(record):
            shown.take(event)
    return shown.all()


async def live(root: Path, script: list[tuple[list[Answer], Answer, bool]]) -> list[Any]:
    """Run the prompts, opening the session anew where the script says so."""
    shown, manager = Shown(), None
    for number, (asks, end, again) in enumerate(script):
        if manager is not None and again:
            await manager.close()
        if manager is None:
            manager = await SessionManager.create(
                cwd=root,
                sessions_dir=root / "sessions",
                ids=RandomIds(),
                clock=SystemClock(),
                session_id="s",
            )
        elif again:
            manager = await reopened(root)
        hub = EventHub()
        hub.subscribe(shown.take)
        session = build_session(
            manager, ScriptedProvider(*asks, end), tools=TOOLS, allow=["*"], hub=hub
        )
        await session.prompt(f"prompt {number}")
    assert manager is not None
    await manager.close()
    return shown.all()


async def reopened(root: Path, seen: list[Record] | None = None) -> SessionManager:
    return await SessionManager.resume(
        session_id="s",
        sessions_dir=root / "sessions",
        ids=RandomIds(),
        clock=SystemClock(),
        observe=seen.append if seen is not None else None,
    )


@pytest.mark.timeout(1800)
@settings(max_examples=settings().max_examples // 2)
@given(prompts)
def test_live_equals_replayed_from_the_file(script: Any) -> None:
    async def go(root: Path) -> None:
        shown = await live(root, script)
        seen: list[Record] = []
        await (await reopened(root, seen)).close()
        assert shown == replayed(seen)
        assert len(shown) >= 2 * len(script) - 1

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(go(Path(folder)))


async def test_a_run_that_was_stopped_in_the_middle(tmp_path: Path) -> None:
    gate, shown, hub = Gate(), Shown(), EventHub()
    hub.subscribe(shown.take)
    manager = await SessionManager.create(
        cwd=tmp_path,
        sessions_dir=tmp_path / "sessions",
        ids=RandomIds(),
        clock=SystemClock(),
        session_id="s",
    )
    script = answer(tool_call("act", {}), text("half ", gate, "never"))
    session = build_session(manager, ScriptedProvider(script), tools=TOOLS, allow=["*"], hub=hub)
    run = asyncio.ensure_future(session.prompt("go"))
    await gate.reached.wait()
    assert session.abort()
    await run
    await manager.close()
    seen: list[Record] = []
    await (await reopened(tmp_path, seen)).close()
    assert shown.all() == replayed(seen)
