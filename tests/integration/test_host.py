"""The real host process, driven as a window drives it, on the mocked model."""

import asyncio
import os
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from agent_sdk.events.wire import (
    PartDelta,
    PermissionAskedEvent,
    SessionError,
    ToolCompleted,
    ToolFailed,
    ToolPart,
)
from agent_sdk.testing.mock_server import MockRule, MockScript, MockServer
from agent_sdk.testing.mock_wire import MockCall, MockTurn
from desktop.bridge.frames import PROTOCOL_VERSION, Hello
from desktop.bridge.messages import HostState, PermissionsState, TranscriptMessage
from desktop.bridge.protocol import (
    ChooseModel,
    ChoosePermissionMode,
    CloseProject,
    ContinueRun,
    DeleteSession,
    Done,
    Failed,
    Interrupt,
    OpenProject,
    OpenSession,
    ProjectOpened,
    QueuedRemoved,
    RemoveQueued,
    RenameSession,
    ReplyPermission,
    ResumeQueue,
    Shutdown,
    SubmitPrompt,
    Subscribe,
)
from tests.support.host import RunningHost, running_host, texts

TOPICS = ("host", "projects", "sessions", "models", "permissions", "queue", "settings")


def edit(old: str, new: str) -> MockCall:
    words = {"file_path": "a.txt", "old_string": old, "new_string": new}
    return MockCall(name="edit", input=words, id=f"edit_{new.replace(' ', '_')}")


READ = MockCall(name="read", input={"file_path": "a.txt"}, id="read_1")
SLOW = MockTurn(text="slowly " * 40, deltas=40, rate=20)

SCRIPT = MockScript(
    rules=(
        MockRule(
            when="[edit]",
            turns=(
                MockTurn(text="I look first.", calls=(READ,)),
                MockTurn(text="Now I change it.", calls=(edit("value 0", "value 1"),)),
                MockTurn(text="It is done.", deltas=4),
            ),
        ),
        MockRule(when="[slow]", turns=(SLOW,)),
        MockRule(when="[fail]", turns=(MockTurn(text="No.", fault="bad_request"),)),
        MockRule(when="[one]", turns=(MockTurn(text="First answer.", delay=0.3),)),
        MockRule(when="[two]", turns=(MockTurn(text="Second answer."),)),
        MockRule(when="[three]", turns=(MockTurn(text="Third answer."),)),
    ),
    turns=(MockTurn(text="Hello."),),
)


class World:
    """A home with a folder to work in, and a mocked model.

    Attributes:
        home: The user's home folder.
        project: The folder.
    """

    def __init__(self, root: Path, server: MockServer) -> None:
        self.server = server
        self.home = root / "home"
        self.project = self.home / "我的 project"
        self.project.mkdir(parents=True)
        (self.project / "a.txt").write_text("value 0\n")
        self.variables = {
            "ZPI_API_TYPE": "openai-completions",
            "ZPI_BASE_URL": f"{server.url}/v1",
            "ZPI_MODEL": "mock",
            "ZPI_API_KEY": "sk-test-0001",
        }

    @property
    def content(self) -> str:
        return (self.project / "a.txt").read_text()

    @asynccontextmanager
    async def host(self) -> AsyncIterator[RunningHost]:
        async with running_host(self.home, **self.variables) as host:
            yield host
        while self.server._owner.running:  # connections of the host that has ended
            await asyncio.sleep(0.01)


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with MockServer(SCRIPT) as server:
        yield World(tmp_path, server)


async def ready(host: RunningHost, world: World) -> str:
    """Greet, subscribe to everything and begin a session; return its id."""
    await host.begin(*TOPICS)
    return (await host.new_session(world.project)).session.id


async def answer(host: RunningHost, asked: PermissionAskedEvent, reply: str = "once") -> None:
    command = ReplyPermission(
        session_id=asked.session_id,
        request_id=asked.request_id,
        input_hash=asked.input_hash,
        reply=reply,  # type: ignore[arg-type]
    )
    await host.expect(command, Done)


def shown(host: RunningHost, session_id: str) -> tuple[TranscriptMessage, ...]:
    """Return the messages as a window would show them now."""
    return host.views[session_id].page(0, 10_000).messages


def tools(messages: tuple[TranscriptMessage, ...]) -> list[ToolPart]:
    return [part for m in messages for part in m.parts if isinstance(part, ToolPart)]


# ------------------------------------------------------------------- the main job


async def test_prompt_to_edited_file_and_the_same_again_after_a_restart(world: World) -> None:
    async with world.host() as host:
        session = await ready(host, world)
        assert (await host.submit(session, "[edit] Raise the value.")).became == "running"
        asked = await host.event(PermissionAskedEvent)
        await host.status(session, "waiting")
        waiting = host.states[PermissionsState]
        assert isinstance(waiting, PermissionsState)
        assert waiting.waiting == (asked,)
        assert world.content == "value 0\n"
        await answer(host, asked)
        await host.status(session, "idle")
        assert world.content == "value 1\n"
        assert host.states[PermissionsState] == PermissionsState()
        assert host.rows[session].title == "[edit] Raise the value."
        live = shown(host, session)
        assert [part.tool for part in tools(live)] == ["read", "edit"]
        assert all(isinstance(part.state, ToolCompleted) for part in tools(live))
        assert (await host.open(session)).page.messages == live
        seqs = [event.seq for event in host.events if event.seq]
        assert seqs == list(range(1, len(seqs) + 1))
        host.close()
        assert await host.end() == 0
        assert host.errors == b""
    async with world.host() as host:
        await host.begin(*TOPICS)
        opened = await host.open(session)
        assert opened.page.messages == live
        assert opened.count == len(live)
        assert opened.seq == seqs[-1]
        assert opened.row.status == "idle"
        assert opened.model == "custom/mock"
        assert not opened.can_continue


async def test_rejected_call_changes_nothing(world: World) -> None:
    async with world.host() as host:
        session = await ready(host, world)
        await host.submit(session, "[edit] Raise the value.")
        await answer(host, await host.event(PermissionAskedEvent), "reject")
        await host.status(session, "idle")
        state = tools(shown(host, session))[-1].state
        assert isinstance(state, ToolFailed)
        assert state.denied
        assert world.content == "value 0\n"
        assert await host.read_all(session) == list(shown(host, session))


async def test_answer_for_another_input_is_refused_and_the_question_waits_on(world: World) -> None:
    async with world.host() as host:
        session = await ready(host, world)
        await host.submit(session, "[edit]")
        asked = await host.event(PermissionAskedEvent)
        wrong = ReplyPermission(
            session_id=session, request_id=asked.request_id, input_hash="0" * 64, reply="once"
        )
        assert (await host.refused(wrong)).error.code == "unknown_question"
        unknown = ReplyPermission(
            session_id=session, request_id="nobody", input_hash=asked.input_hash, reply="once"
        )
        assert (await host.refused(unknown)).error.code == "unknown_question"
        await answer(host, asked)
        await host.status(session, "idle")
        again = ReplyPermission(
            session_id=session,
            request_id=asked.request_id,
            input_hash=asked.input_hash,
            reply="once",
        )
        assert (await host.refused(again)).error.code == "unknown_question"


async def test_hidden_session_sends_rows_and_no_events(world: World) -> None:
    async with world.host() as host:
        session = await ready(host, world)
        await host.submit(session, "Hi.")
        await host.status(session, "idle")
        await host.hide(session)
        seen = len(host.events)
        await host.submit(session, "[two]")
        await host.until(lambda: host.rows[session].unread and host.rows[session].status == "idle")
        assert len(host.events) == seen
        opened = await host.open(session)
        assert texts(list(opened.page.messages)) == ["Hi.", "Hello.", "[two]", "Second answer."]
        await host.until(lambda: not host.rows[session].unread)


async def test_two_sessions_run_at_once(world: World) -> None:
    async with world.host() as host:
        first = await ready(host, world)
        second = (await host.new_session(world.project)).session.id
        await host.submit(first, "[slow]")
        await host.submit(second, "[two]")
        await host.status(second, "idle")
        assert host.rows[first].status == "running"
        await host.expect(Interrupt(session_id=first), Done)
        await host.status(first, "idle")


# ------------------------------------------------------------------ queue and stop


async def test_queue_runs_in_order(world: World) -> None:
    async with world.host() as host:
        session = await ready(host, world)
        await host.submit(session, "[one]", prompt_id="p1")
        assert (await host.submit(session, "[two]", prompt_id="p2")).became == "queued"
        assert (await host.submit(session, "[three]", prompt_id="p3")).became == "queued"
        assert (await host.submit(session, "[two]", prompt_id="p2")).became == "queued"
        assert [q.id for q in host.queues[session].queued] == ["p2", "p3"]
        await host.until(lambda: len(shown(host, session)) == 6 and not host.queues[session].queued)
        await host.status(session, "idle")
        assert texts(list(shown(host, session))) == [
            *("[one]", "First answer.", "[two]", "Second answer.", "[three]", "Third answer.")
        ]


async def test_steered_prompt_joins_the_run(world: World) -> None:
    async with world.host() as host:
        session = await ready(host, world)
        await host.submit(session, "[one]")
        await host.until(lambda: shown(host, session))
        taken = await host.submit(session, "[two]", follow_up="steer")
        assert taken.became == "steered"
        await host.until(lambda: len(shown(host, session)) == 4)
        await host.status(session, "idle")
        assert [m.info.origin for m in shown(host, session)] == ["human", "", "steered", ""]
        assert host.queues[session].queued == ()


async def test_stop_pauses_the_queue_which_can_be_changed_and_resumed(world: World) -> None:
    async with world.host() as host:
        session = await ready(host, world)
        await host.submit(session, "[slow]")
        await host.submit(session, "[two]", prompt_id="p2")
        await host.submit(session, "[three]", prompt_id="p3")
        await host.event(PartDelta)
        await host.expect(Interrupt(session_id=session), Done)
        await host.status(session, "idle")
        await host.until(lambda: host.queues[session].paused)
        cut = shown(host, session)[-1]
        assert cut.info.error == "aborted"
        assert texts([cut])[0].startswith("slowly")
        removed = await host.expect(RemoveQueued(session_id=session, prompt_id="p2"), QueuedRemoved)
        assert removed.text == "[two]"
        gone = await host.refused(RemoveQueued(session_id=session, prompt_id="p2"))
        assert gone.error.code == "not_found"
        await host.expect(ResumeQueue(session_id=session), Done)
        await host.until(lambda: texts(list(shown(host, session)))[-1] == "Third answer.")
        await host.status(session, "idle")
        assert await host.read_all(session) == list(shown(host, session))


async def test_stop_withdraws_the_question(world: World) -> None:
    async with world.host() as host:
        session = await ready(host, world)
        await host.submit(session, "[edit]")
        await host.event(PermissionAskedEvent)
        await host.status(session, "waiting")
        await host.expect(Interrupt(session_id=session), Done)
        await host.status(session, "idle")
        assert host.states[PermissionsState] == PermissionsState()
        assert world.content == "value 0\n"


async def test_failed_run_is_shown_and_continued(world: World) -> None:
    async with world.host() as host:
        session = await ready(host, world)
        await host.submit(session, "[fail]")
        await host.status(session, "failed")
        error = host.bodies(SessionError)[-1]
        opened = await host.open(session)
        assert opened.can_continue
        assert opened.error is not None
        assert (opened.error.code, opened.error.text) == (error.code, error.text)
        await host.expect(ContinueRun(session_id=session), Done)
        await host.until(lambda: len(host.bodies(SessionError)) == 2)
        await host.status(session, "failed")
        assert texts(list(shown(host, session))) == ["[fail]"]


# ------------------------------------------------------------------- end and death


async def test_window_that_goes_interrupts_the_run(world: World) -> None:
    async with world.host() as host:
        session = await ready(host, world)
        await host.submit(session, "[slow]")
        await host.event(PartDelta)
        begun = time.monotonic()
        host.close()
        assert await host.end() == 0
        assert time.monotonic() - begun < 5
        assert host.errors == b""
    async with world.host() as host:
        await host.begin(*TOPICS)
        assert host.rows[session].status == "interrupted"
        opened = await host.open(session)
        assert opened.can_continue
        assert texts(list(opened.page.messages))[-1].startswith("slowly")


async def test_killed_while_an_answer_streams_keeps_what_was_shown(world: World) -> None:
    async with world.host() as host:
        session = await ready(host, world)
        await host.submit(session, "[slow]")
        await host.event(PartDelta, count=5)
        host.kill()
        await host.end()
        before = texts(list(shown(host, session)))
    assert before[-1].startswith("slowly slowly")
    async with world.host() as host:
        await host.begin(*TOPICS)
        assert host.rows[session].status == "interrupted"
        opened = await host.open(session)
        assert texts(list(opened.page.messages)) == before
        assert opened.page.messages[-1].info.error == "aborted"
        assert opened.can_continue
        host.kill()
        await host.end()
    async with world.host() as host:  # and once only
        await host.begin(*TOPICS)
        assert texts(list((await host.open(session)).page.messages)) == before


async def test_killed_while_it_asked(world: World) -> None:
    async with world.host() as host:
        session = await ready(host, world)
        await host.submit(session, "[edit]", prompt_id="p1")
        await host.submit(session, "[three]", prompt_id="p3")
        asked = await host.event(PermissionAskedEvent)
        before = texts(list(shown(host, session)))
        host.kill()
        await host.end()
    async with world.host() as host:
        await host.begin(*TOPICS)
        assert host.rows[session].status == "interrupted"
        assert host.states[PermissionsState] == PermissionsState()
        assert [q.id for q in host.queues[session].queued] == ["p3"]
        assert host.queues[session].paused
        opened = await host.open(session)
        assert texts(list(opened.page.messages)) == before
        assert opened.expired == (asked,)
        late = ReplyPermission(
            session_id=session,
            request_id=asked.request_id,
            input_hash=asked.input_hash,
            reply="once",
        )
        assert (await host.refused(late)).error.code == "unknown_question"
        again = SubmitPrompt(session_id=session, prompt_id="p1", text="[edit]")
        await host.ask(again)  # acknowledged before: taken once
        assert opened.can_continue
        await host.expect(ContinueRun(session_id=session), Done)
        await host.status(session, "idle")
        assert texts(list(shown(host, session))).count("[edit]") == 1


async def test_second_host_waits_says_so_and_gives_up(world: World) -> None:
    async with world.host() as first:
        await first.begin("host")
        async with world.host() as second:
            second.greet()
            await second.until(lambda: HostState in second.states)
            state = second.states[HostState]
            assert isinstance(state, HostState)
            assert [notice.code for notice in state.notices] == ["host_waiting"]
            assert await second.end(patience=12) == 3
            (complaint,) = second.complaints
            assert isinstance(complaint, Failed)
            assert complaint.error.code == "host_occupied"


async def test_second_host_takes_over_when_the_first_is_killed(world: World) -> None:
    async with world.host() as first:
        await first.begin("host")
        async with world.host() as second:
            second.greet()
            await second.until(lambda: HostState in second.states)
            first.kill()
            assert isinstance(await second.ask(Subscribe(topic="projects")), Done)


# --------------------------------------------------------------- what is refused


async def test_another_version_is_refused_by_name(world: World) -> None:
    async with world.host() as host:
        host.greet(Hello(protocol=PROTOCOL_VERSION + 7))
        assert await host.end() == 4
        (complaint,) = host.complaints
        assert isinstance(complaint, Failed)
        assert complaint.error.code == "protocol_mismatch"
        assert str(PROTOCOL_VERSION + 7) in complaint.error.text
        assert f"protocol {PROTOCOL_VERSION} " in complaint.error.text


async def test_what_is_not_understood_is_answered(world: World) -> None:
    async with world.host() as host:
        await host.begin()
        host.raw(b'{"frame":"command","id":77,"command":{"command":"levitate"}}\n')
        host.raw(b"nonsense\n")
        host.raw(b'{"frame":"state","version":1,"state":{"topic":"host"}}\n')
        host.raw(b'{"frame":"command","id":78,"command":{"command":"shutdown","now":true}}\n')
        await host.until(lambda: len(host.complaints) == 4)
        codes = [c.error.code for c in host.complaints if isinstance(c, Failed)]
        assert codes == ["unknown_command", "unknown_frame", "unexpected_frame", "unknown_command"]
        named = host.complaints[0]
        assert isinstance(named, Failed)
        assert "levitate" in named.error.text
        assert isinstance(await host.ask(Subscribe(topic="projects")), Done)


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (Subscribe(topic="weather"), "invalid_input"),
        (OpenProject(path="/nowhere/at/all"), "invalid_input"),
        (OpenSession(session_id="nobody"), "not_found"),
        (SubmitPrompt(session_id="nobody", prompt_id="p", text="x"), "not_found"),
        (RenameSession(session_id="nobody", title="x"), "not_found"),
    ],
)
async def test_bad_commands_fail_by_code(world: World, command: object, code: str) -> None:
    async with world.host() as host:
        await host.begin()
        failed = await host.refused(command)  # type: ignore[arg-type]
        assert failed.error.code == code


async def test_choices_and_titles_last(world: World) -> None:
    async with world.host() as host:
        session = await ready(host, world)
        await host.submit(session, "Hi.")
        await host.status(session, "idle")
        await host.expect(RenameSession(session_id=session, title="  My\ntitle "), Done)
        await host.expect(ChoosePermissionMode(session_id=session, mode="acceptEdits"), Done)
        await host.expect(ChooseModel(session_id=session, model="other", thinking=""), Done)
        assert host.rows[session].title == "My title"
        empty = await host.refused(RenameSession(session_id=session, title=" "))
        assert empty.error.code == "invalid_input"
        bad = await host.refused(ChoosePermissionMode(session_id=session, mode="yolo"))
        assert bad.error.code == "invalid_input"
        await host.expect(Shutdown(), Done)
        assert await host.end() == 0
    async with world.host() as host:
        await host.begin(*TOPICS)
        opened = await host.open(session)
        assert opened.row.title == "My title"
        assert opened.permission_mode == "acceptEdits"
        assert opened.model == "custom/other"
        await host.submit(session, "[edit] Raise the value.")
        await host.status(session, "idle")
        assert world.content == "value 1\n"  # nobody was asked


async def test_deleted_and_closed(world: World) -> None:
    async with world.host() as host:
        session = await ready(host, world)
        await host.submit(session, "[slow]")
        busy = await host.refused(DeleteSession(session_id=session))
        assert busy.error.code == "session_busy"
        await host.expect(Interrupt(session_id=session), Done)
        await host.status(session, "idle")
        files = list((world.home / "data").rglob("*.jsonl"))
        assert len(files) == 1
        await host.expect(DeleteSession(session_id=session), Done)
        assert session not in host.rows
        assert not files[0].exists()
        other = (await host.new_session(world.project)).session.id
        await host.submit(other, "Hi.")
        await host.status(other, "idle")
        opened = await host.expect(OpenProject(path=str(world.project)), ProjectOpened)
        await host.expect(CloseProject(project_id=opened.project.id), Done)
        assert host.rows == {}


async def test_lost_database_is_made_again_from_the_files(world: World) -> None:
    async with world.host() as host:
        session = await ready(host, world)
        await host.submit(session, "Hi.")
        await host.status(session, "idle")
        live = shown(host, session)
        host.close()
        await host.end()
    for path in (world.home / "data" / "generations" / "1").glob("state.sqlite*"):
        path.unlink()
    async with world.host() as host:
        await host.begin(*TOPICS)
        assert host.rows[session].title == "Hi."
        assert (await host.open(session)).page.messages == live


@pytest.mark.skipif(sys.platform == "win32", reason="looks into /proc")
async def test_nothing_that_was_started_outlives_a_kill(world: World) -> None:
    from tests.support.processes import appear, unique_word, vanish

    word = unique_word()
    command = MockCall(name="bash", input={"command": f"exec -a {word} sleep 300"}, id="b1")
    script = MockScript(turns=(MockTurn(calls=(command,)), MockTurn(text="Done.")))
    async with MockServer(script) as server:
        world.variables["ZPI_BASE_URL"] = f"{server.url}/v1"
        async with world.host() as host:
            session = await ready(host, world)
            mode = ChoosePermissionMode(session_id=session, mode="bypassPermissions")
            await host.expect(mode, Done)
            await host.submit(session, "Sleep.")
            await appear(word)
            os.kill(host.process.pid, 9)
            await host.end()
            await vanish(word, seconds=2)
        async with world.host() as host:
            await host.begin(*TOPICS)
            assert host.rows[session].status == "interrupted"
            opened = await host.open(session)
            state = tools(opened.page.messages)[0].state
            assert isinstance(state, ToolFailed)
            assert state.ran
            assert opened.permission_mode == "default"  # a bypass does not outlive its host


@pytest.mark.parametrize("moment", range(8))
async def test_killed_at_any_moment(world: World, moment: int) -> None:
    """Nothing that was acknowledged is lost, and a prompt is delivered once."""
    async with world.host() as host:
        session = await ready(host, world)
        await host.expect(ChoosePermissionMode(session_id=session, mode="acceptEdits"), Done)
        command = SubmitPrompt(session_id=session, prompt_id="p1", text="[edit] Raise the value.")
        answered = host.post(command)
        if moment:
            await answered
            await asyncio.sleep((moment - 1) * 0.02)
        host.kill()
        await host.end()
        seen = shown(host, session)
    async with world.host() as host:
        await host.begin(*TOPICS)
        if session not in host.rows:
            assert moment == 0  # it was not acknowledged
            return
        opened = await host.open(session)
        status = opened.row.status
        assert status in ("idle", "interrupted")
        if host.queues.get(session) is not None and host.queues[session].queued:
            assert [q.id for q in host.queues[session].queued] == ["p1"]
            await host.expect(ResumeQueue(session_id=session), Done)
        elif status == "interrupted":
            await host.expect(ContinueRun(session_id=session), Done)
        after = {m.info.id: m for m in opened.page.messages}
        for message in seen:
            if message.info.finished:
                assert after[message.info.id].info == message.info
            if texts([message]) != [""]:
                assert texts([after[message.info.id]])[0].startswith(texts([message])[0])
        await host.until(lambda: not host.queues[session].queued)
        await host.status(session, "idle")
        assert texts(list(shown(host, session))).count("[edit] Raise the value.") == 1
        assert texts(list(shown(host, session)))[-1] == "It is done."
