"""The projection: live and replayed it gives the same messages and parts."""

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_sdk.core.aio import AbortSignal
from agent_sdk.events.projection import JOIN_BYTES, Projector
from agent_sdk.events.wire import (
    ArtifactCreated,
    FileEdited,
    MessageUpdated,
    PartDelta,
    PartUpdated,
    PermissionAskedEvent,
    SessionError,
    SessionStatus,
    StepFinishPart,
    ToolCompleted,
    ToolFailed,
    ToolPart,
    ToolRunning,
)
from agent_sdk.loop.types import (
    AgentEvent,
    Notice,
    PermissionAsked,
    PermissionRequest,
    Rule,
    RunEnded,
    StreamProgress,
    ToolContext,
    ToolProgress,
    ToolResult,
    ToolStarted,
)
from agent_sdk.providers.base import BlockStart, TextDelta
from agent_sdk.providers.messages import Json, ToolUseBlock
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
from tests.support.loop_fakes import READ, FakePorts, FakeTool, run_loop
from tests.support.session_graph import SessionGraph


async def work(args: Json, context: ToolContext) -> ToolResult:
    context.update("some output ")
    await asyncio.sleep(0)
    context.update("more output")
    if args.get("fail"):
        return ToolResult(content="broken", is_error=True)
    return ToolResult(content=f"did {args}", details={"n": 1})


TOOLS = (FakeTool("read", work, READ), FakeTool("write", work))


def fold(events: list[AgentEvent], *, step: float = 0.001) -> SessionGraph:
    projector, graph, now = Projector(session_id="s"), SessionGraph(), 0.0
    for event in events:
        now += step
        for change in projector.fold(event, now):
            graph.apply(change.body)
    for change in projector.flush():
        graph.apply(change.body)
    return graph


def durable(events: list[AgentEvent]) -> list[AgentEvent]:
    """What a stored history can give back."""
    gone = StreamProgress | ToolProgress | ToolStarted
    return [e for e in events if not isinstance(e, gone)]


async def live(*script: Answer) -> FakePorts:
    ports = FakePorts()
    ports.events.append(RunEnded(run_id="before", status="completed", turns=0))
    end = await run_loop(ScriptedProvider(*script), ports, *TOOLS)
    ports.events.append(end)
    return ports


blocks = st.one_of(
    st.text(min_size=1, max_size=30).map(text),
    st.text(min_size=1, max_size=30).map(lambda t: thinking(t, signature="s")),
    st.sampled_from(["read", "write", "nope"]).flatmap(
        lambda name: st.booleans().map(lambda fail: tool_call(name, {"fail": fail}))
    ),
)
answers = st.one_of(
    st.lists(blocks, min_size=1, max_size=4).map(lambda b: answer(*b)),
    st.lists(blocks, min_size=1, max_size=3).map(lambda b: failure("network", *b, retryable=True)),
)


@settings(deadline=None)
@given(st.lists(answers, max_size=5), st.sampled_from([0.0, 0.001, 0.05]))
def test_live_equals_replayed(script: list[Answer], step: float) -> None:
    ports = asyncio.run(live(*script, answer("end")))
    shown = fold(ports.events, step=step).shown()
    assert shown == fold(durable(ports.events)).shown()
    assert shown


async def test_stop_in_the_middle_equals_replayed() -> None:
    gate, signal, ports = Gate(), AbortSignal(), FakePorts()
    provider = ScriptedProvider(answer(tool_call("write"), text("half ", gate, "never")))
    run = asyncio.ensure_future(run_loop(provider, ports, *TOOLS, signal=signal))
    await gate.reached.wait()
    signal.abort()
    ports.events.append(await run)
    shown = fold(ports.events).shown()
    assert shown == fold(durable(ports.events)).shown()
    assert shown[-1][0].error == "aborted"


async def test_tool_goes_through_its_states() -> None:
    ports = await live(answer(tool_call("write")), answer("done"))
    projector = Projector(session_id="s")
    bodies = [c.body for e in ports.events for c in projector.fold(e, 0.0)]
    states = [
        b.part.state for b in bodies if isinstance(b, PartUpdated) and isinstance(b.part, ToolPart)
    ]
    kinds = [type(s).__name__ for s in states]
    assert kinds == ["ToolPending", "ToolPending", "ToolPending", "ToolRunning", "ToolCompleted"]
    assert isinstance(states[-1], ToolCompleted)
    assert states[-1].details == {"n": 1}
    deltas = [b for b in bodies if isinstance(b, PartDelta)]
    assert "".join(d.text for d in deltas if d.part_id == "r.1.0") == "some output more output"


async def test_refused_and_failed_calls_show_as_errors() -> None:
    ports = FakePorts()
    ports.denied = {"write"}
    script = answer(tool_call("write"), tool_call("read", {"fail": True}))
    ports.events.append(await run_loop(ScriptedProvider(script, answer("done")), ports, *TOOLS))
    parts = [p for _, ps in fold(ports.events).shown() for p in ps if isinstance(p, ToolPart)]
    first, second = (p.state for p in parts)
    assert isinstance(first, ToolFailed)
    assert (first.denied, first.ran) == (True, False)
    assert isinstance(second, ToolFailed)
    assert (second.denied, second.ran, second.output) == (False, True, "broken")


def test_deltas_are_joined_by_size_and_time() -> None:
    projector = Projector(session_id="s")
    projector.fold(StreamProgress(BlockStart(0, "text")), 0.0)
    out: list[str] = []

    def feed(piece: str, now: float) -> None:
        changes = projector.fold(StreamProgress(TextDelta(0, piece)), now)
        out.extend(c.body.text for c in changes if isinstance(c.body, PartDelta))

    feed("a", 1.0)
    feed("b", 1.01)
    assert out == []
    assert projector.due == pytest.approx(1.033)
    feed("c", 1.04)
    assert out == ["abc"]
    assert projector.due is None
    feed("x" * JOIN_BYTES, 1.05)
    assert out[-1] == "x" * JOIN_BYTES
    feed("y", 1.06)
    assert [c.body.text for c in projector.flush() if isinstance(c.body, PartDelta)] == ["y"]


async def test_files_artifacts_and_usage_are_told() -> None:
    async def edit(args: Json, context: ToolContext) -> ToolResult:
        change = {"path": "/a", "operation": "created", "additions": 2, "deletions": 1}
        return ToolResult(content="ok", details={"fileChange": change, "artifact": "/t/out.txt"})

    ports = FakePorts()
    script = ScriptedProvider(answer(tool_call("write")), answer("done"))
    await run_loop(script, ports, FakeTool("write", edit))
    projector = Projector(session_id="s")
    changes = [c for e in ports.events for c in projector.fold(e, 0.0)]
    edited = [c.body for c in changes if isinstance(c.body, FileEdited)]
    assert [(e.path, e.operation, e.additions, e.deletions) for e in edited] == [
        ("/a", "created", 2, 1)
    ]
    assert [c.body.path for c in changes if isinstance(c.body, ArtifactCreated)] == ["/t/out.txt"]
    steps = [
        c.body.part
        for c in changes
        if isinstance(c.body, PartUpdated) and isinstance(c.body.part, StepFinishPart)
    ]
    assert [s.usage.total_tokens for s in steps] == [15, 15]


async def test_every_file_of_a_patch_is_told() -> None:
    async def patch(args: Json, context: ToolContext) -> ToolResult:
        changes = [
            {"path": "/a", "operation": "modified", "additions": 2, "deletions": 1},
            {"path": "/b", "operation": "created", "additions": 3, "deletions": 0},
        ]
        return ToolResult(content="ok", details={"fileChanges": changes})

    ports = FakePorts()
    script = ScriptedProvider(answer(tool_call("write")), answer("done"))
    await run_loop(script, ports, FakeTool("write", patch))
    projector = Projector(session_id="s")
    changes = [c for e in ports.events for c in projector.fold(e, 0.0)]
    edited = [c.body for c in changes if isinstance(c.body, FileEdited)]
    assert [(e.path, e.operation, e.additions) for e in edited] == [
        ("/a", "modified", 2),
        ("/b", "created", 3),
    ]


def test_messages_carry_the_id_of_their_record() -> None:
    ports = asyncio.run(live(answer("hi")))
    projector = Projector(session_id="s")
    changes = [c for e in ports.events for c in projector.fold(e, 0.0)]
    finished = [
        (c.body.message.id, c.record)
        for c in changes
        if isinstance(c.body, MessageUpdated) and c.body.message.finished
    ]
    assert finished == [("u1", "u1"), ("r.1", "u2")]


@pytest.mark.parametrize("protected", [False, True])
def test_a_question_says_what_always_would_allow(protected: bool) -> None:
    request = PermissionRequest(
        permission="edit",
        patterns=("/p/a.py",),
        always=(Rule("edit", "/p/*", "allow"),),
        protected=protected,
    )
    asked = PermissionAsked(
        request_id="q",
        call=ToolUseBlock(id="c", name="edit", input={}),
        requests=(request,),
        input_hash="h",
    )
    (change,) = Projector(session_id="s").fold(asked, 0.0)
    assert isinstance(change.body, PermissionAskedEvent)
    assert change.body.protected is protected
    assert change.body.can_always is not protected
    assert change.body.always == (() if protected else ("edit /p/*",))


def test_question_notice_and_end() -> None:
    projector = Projector(session_id="s")
    asked = PermissionAsked(
        request_id="q",
        call=ToolUseBlock(id="c", name="bash", input={}),
        requests=(PermissionRequest(permission="bash", patterns=("ls",), title="ls"),),
        input_hash="h",
    )
    bodies = [
        c.body
        for e in (
            asked,
            Notice("warning", "x", "careful"),
            RunEnded(run_id="r", status="error", turns=1, error_code="provider", error="no"),
        )
        for c in projector.fold(e, 0.0)
    ]
    question, notice, error, idle = bodies
    assert isinstance(question, PermissionAskedEvent)
    assert (question.title, question.input_hash, question.can_always) == ("ls", "h", False)
    assert isinstance(notice, SessionError)
    assert notice.level == "warning"
    assert isinstance(error, SessionError)
    assert error.code == "provider"
    assert isinstance(idle, SessionStatus)
    assert (idle.status, idle.reason) == ("idle", "error")


def test_running_output_is_bounded() -> None:
    projector = Projector(session_id="s")
    call = ToolUseBlock(id="c", name="bash", input={})
    projector.fold(StreamProgress(BlockStart(0, "tool_use", "c", "bash")), 0.0)
    projector.fold(ToolStarted(call), 0.0)
    for _ in range(200):
        projector.fold(ToolProgress("c", "x" * 1000), 0.0)
    part = projector._calls._known["c"][1]
    assert isinstance(part.state, ToolRunning)
    assert len(part.state.output) == 64 * 1024
