"""A session at work: real history, real gate, real file tools, scripted model."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from agent_sdk.core.errors import InvalidInput, StorageError
from agent_sdk.loop.types import (
    AgentEvent,
    AssistantMessageAdded,
    PermissionAsked,
    PermissionReplied,
    RunEnded,
    ToolFinished,
    UserMessageAdded,
)
from agent_sdk.permissions.engine import PermissionReply
from agent_sdk.providers.messages import AssistantMessage, UserMessage
from agent_sdk.session.records import (
    ModelChangeRecord,
    RunRecord,
    SystemRecord,
    ToolJournalRecord,
)
from agent_sdk.testing.provider import (
    Gate,
    ScriptedProvider,
    answer,
    failure,
    text,
    tool_call,
)
from tests.support.sessions import (
    build_session,
    file_tools,
    in_memory,
    on_disk,
    reopened,
)

if TYPE_CHECKING:
    from agent_sdk.session.manager import SessionManager


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "项目 one"
    folder.mkdir()
    (folder / "a.txt").write_text("value 0\n")
    return folder.resolve()


def edit(old: str, new: str) -> dict[str, str]:
    return {"file_path": "a.txt", "old_string": old, "new_string": new}


class Answers:
    """An asker that gives the same answer, and remembers what it was asked."""

    def __init__(self, reply: str, reason: str = "") -> None:
        self.reply = reply
        self.reason = reason
        self.asked: list[PermissionAsked] = []

    async def ask(self, asked: PermissionAsked) -> PermissionReply:
        self.asked.append(asked)
        return PermissionReply(
            reply=self.reply,  # type: ignore[arg-type]
            reason=self.reason,
            input_hash=asked.input_hash,
        )


async def test_read_edit_and_answer_on_disk(project: Path, tmp_path: Path) -> None:
    manager = await on_disk(project, tmp_path / "s")
    provider = ScriptedProvider(
        answer(tool_call("read", {"file_path": "a.txt"})),
        answer(tool_call("edit", edit("value 0", "value 1"))),
        answer("Changed."),
    )
    events: list[AgentEvent] = []
    async with build_session(
        manager, provider, tools=file_tools(tmp_path), allow=["edit"]
    ) as session:
        session.subscribe(events.append)
        end = await session.prompt("raise the value")
    assert (end.status, end.denials) == ("completed", 0)
    assert (project / "a.txt").read_text() == "value 1\n"
    again = await reopened(manager.session_id, tmp_path / "s")
    assert [type(m) for m in again.state.messages] == [
        UserMessage, AssistantMessage, UserMessage, AssistantMessage, UserMessage, AssistantMessage,
    ]  # fmt: skip
    assert again.state.model == "p/m"
    assert again.state.tools == ("read", "write", "edit")
    assert not again.state.open_run
    assert again.state.usage.total_tokens == 45
    await again.close()
    [finished] = [e for e in events if isinstance(e, ToolFinished) and e.call.name == "edit"]
    assert finished.details["fileChange"]["additions"] == 1


async def test_without_consent_nothing_changes_and_the_model_hears_why(
    project: Path, tmp_path: Path
) -> None:
    provider = ScriptedProvider(
        answer(tool_call("read", {"file_path": "a.txt"})),
        answer(tool_call("edit", edit("value 0", "value 1"))),
        answer("I could not."),
    )
    async with build_session(in_memory(project), provider, tools=file_tools(tmp_path)) as session:
        end = await session.prompt("raise it")
    assert end.denials == 1
    assert (project / "a.txt").read_text() == "value 0\n"
    told = provider.requests[2].messages[-1]
    assert isinstance(told, UserMessage)
    assert "--allowed-tools" in str(told.content)


async def test_reason_of_a_rejection_reaches_the_model(project: Path, tmp_path: Path) -> None:
    provider = ScriptedProvider(
        answer(tool_call("write", {"file_path": "b.txt", "content": "x"})), answer("ok")
    )
    asker = Answers("reject", "use the other folder")
    async with build_session(
        in_memory(project), provider, tools=file_tools(tmp_path), asker=asker
    ) as session:
        await session.prompt("write")
    assert "use the other folder" in str(provider.requests[1].messages[-1].content)
    assert not (project / "b.txt").exists()


async def test_always_is_not_asked_again_also_after_a_restart(
    project: Path, tmp_path: Path
) -> None:
    asker = Answers("always")
    manager = await on_disk(project, tmp_path / "s")
    script = [
        answer(tool_call("read", {"file_path": "a.txt"})),
        answer(tool_call("edit", edit("value 0", "value 1"))),
        answer(tool_call("edit", edit("value 1", "value 2"))),
        answer("done"),
    ]
    async with build_session(
        manager, ScriptedProvider(*script), tools=file_tools(tmp_path), asker=asker
    ) as session:
        await session.prompt("raise it twice")
    assert len(asker.asked) == 1
    again = await reopened(manager.session_id, tmp_path / "s")
    script = [
        answer(tool_call("read", {"file_path": "a.txt"})),
        answer(tool_call("edit", edit("value 2", "value 3"))),
        answer("done"),
    ]
    async with build_session(
        again, ScriptedProvider(*script), tools=file_tools(tmp_path)
    ) as session:
        end = await session.prompt("once more")
    assert end.denials == 0
    assert (project / "a.txt").read_text() == "value 3\n"


async def test_records_come_in_the_order_that_holds(project: Path, tmp_path: Path) -> None:
    manager = await on_disk(project, tmp_path / "s")
    provider = ScriptedProvider(
        answer(tool_call("write", {"file_path": "b.txt", "content": "x"})), answer("ok")
    )
    async with build_session(
        manager, provider, tools=file_tools(tmp_path), allow=["edit"]
    ) as session:
        await session.prompt("write")
    assert manager.path is not None
    kinds = [line.split(b'"', 4)[3].decode() for line in manager.path.read_bytes().splitlines()]
    assert kinds == [
        "session", "model_change", "permission_mode_change", "system", "run",
        "user", "assistant", "tool_journal", "user", "assistant", "run",
    ]  # fmt: skip


async def test_each_event_comes_after_its_record(project: Path, tmp_path: Path) -> None:
    manager = await on_disk(project, tmp_path / "s")
    seen: list[str] = []

    def check(event: AgentEvent) -> None:
        if isinstance(event, UserMessageAdded | AssistantMessageAdded | ToolFinished):
            assert manager.path is not None
            assert event.uuid.encode() in manager.path.read_bytes()
            seen.append(type(event).__name__)

    provider = ScriptedProvider(answer(tool_call("read", {"file_path": "a.txt"})), answer("ok"))
    async with build_session(manager, provider, tools=file_tools(tmp_path)) as session:
        session.subscribe(check)
        await session.prompt("read")
    assert seen == [
        "UserMessageAdded", "AssistantMessageAdded", "ToolFinished", "AssistantMessageAdded",
    ]  # fmt: skip


async def test_second_prompt_says_nothing_again_that_has_not_changed(
    project: Path, tmp_path: Path
) -> None:
    manager = await on_disk(project, tmp_path / "s")
    async with build_session(
        manager, ScriptedProvider(answer("1"), answer("2")), tools=file_tools(tmp_path)
    ) as session:
        await session.prompt("one")
        await session.prompt("two")
    assert manager.path is not None
    data = manager.path.read_bytes()
    for record in ("model_change", "system", "permission_mode_change"):
        assert data.count(f'{{"type":"{record}"'.encode()) == 1


async def test_busy_session_queues_and_steers(project: Path, tmp_path: Path) -> None:
    gate = Gate()
    provider = ScriptedProvider(answer(gate, "first"), answer("second"), answer("third"))
    async with build_session(in_memory(project), provider, tools=file_tools(tmp_path)) as session:
        run = asyncio.ensure_future(session.prompt("one"))
        await gate.reached.wait()
        with pytest.raises(InvalidInput, match="busy"):
            await session.prompt("two")
        session.queue("queued")
        session.steer("steered")
        assert not session.is_idle
        gate.open()
        end = await run
    assert end.turns == 3
    texts = [
        (m.text, m.origin.kind)
        for m in provider.requests[-1].messages
        if isinstance(m, UserMessage)
    ]
    assert texts == [("one", "human"), ("steered", "steered"), ("queued", "queued")]


async def test_abort_keeps_what_was_there_and_the_next_prompt_goes_on(
    project: Path, tmp_path: Path
) -> None:
    gate = Gate()
    provider = ScriptedProvider(answer(text("half", gate, "never")), answer("whole"))
    async with build_session(in_memory(project), provider, tools=file_tools(tmp_path)) as session:
        run = asyncio.ensure_future(session.prompt("one"))
        await gate.reached.wait()
        assert session.abort()
        assert (await run).status == "aborted"
        assert not session.abort()
        assert (await session.prompt("two")).status == "completed"
    texts = [m.text for m in session.manager.state.messages]
    assert texts == ["one", "half", "two", "whole"]


async def test_failed_subscriber_is_a_diagnostic(
    project: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    calls = 0

    def broken(event: AgentEvent) -> None:
        nonlocal calls
        calls += 1
        raise RuntimeError("display")

    async with build_session(
        in_memory(project), ScriptedProvider(answer("fine")), tools=file_tools(tmp_path)
    ) as session:
        session.subscribe(broken)
        assert (await session.prompt("one")).status == "completed"
    assert calls == 1
    assert "a subscriber failed" in caplog.text


async def test_failing_history_stops_the_run(project: Path, tmp_path: Path) -> None:
    manager = await on_disk(project, tmp_path / "s")
    provider = ScriptedProvider(answer(tool_call("read", {"file_path": "a.txt"})), answer("never"))
    session = build_session(manager, provider, tools=file_tools(tmp_path))
    real, count = manager.append, 0

    async def failing(*drafts: object) -> list[str]:
        nonlocal count
        count += 1
        if count > 1:
            raise StorageError("The disk is gone.")
        return await real(*drafts)  # type: ignore[arg-type]

    manager.append = failing  # type: ignore[method-assign]
    end = await session.prompt("read")
    assert (end.status, end.error_code) == ("error", "storage")
    assert provider.left == 1
    manager.append = real  # type: ignore[method-assign]
    await session.aclose()


async def test_error_of_the_model_is_kept_with_the_run(project: Path, tmp_path: Path) -> None:
    manager = await on_disk(project, tmp_path / "s")
    provider = ScriptedProvider(failure("authentication", message="wrong key", status=401))
    async with build_session(manager, provider, tools=file_tools(tmp_path)) as session:
        end = await session.prompt("hi")
    assert (end.status, end.error_code) == ("error", "provider")
    assert manager.path is not None
    assert b'"status":"error"' in manager.path.read_bytes()
    assert b"wrong key" in manager.path.read_bytes()


async def test_two_tools_of_one_name_are_refused(project: Path, tmp_path: Path) -> None:
    manager = await on_disk(project, tmp_path / "s")
    twice = (*file_tools(tmp_path), *file_tools(tmp_path))
    with pytest.raises(InvalidInput, match="two tools named 'read'"):
        async with build_session(manager, ScriptedProvider(), tools=twice):
            pass
    await manager.close()


async def test_empty_prompts_are_refused(project: Path, tmp_path: Path) -> None:
    async with build_session(
        in_memory(project), ScriptedProvider(), tools=file_tools(tmp_path)
    ) as session:
        for prompt in ("", " \n"):
            with pytest.raises(InvalidInput, match="empty"):
                await session.prompt(prompt)


async def test_every_result_is_bounded(project: Path, tmp_path: Path) -> None:
    (project / "big.txt").write_text("x" * 99 + "\n" * 1)
    big = "".join(f"line {n} {'x' * 90}\n" for n in range(1900))
    (project / "big.txt").write_text(big)
    provider = ScriptedProvider(answer(tool_call("read", {"file_path": "big.txt"})), answer("ok"))
    async with build_session(in_memory(project), provider, tools=file_tools(tmp_path)) as session:
        await session.prompt("read")
    content = str(provider.requests[1].messages[-1].content)
    assert len(content.encode()) < 50 * 1024


async def test_a_run_cut_by_a_crash_is_recovered_and_not_repeated(
    project: Path, tmp_path: Path
) -> None:
    """As if the process had died while a write ran: the journal is all there is."""
    manager = await on_disk(project, tmp_path / "s")
    call = tool_call("write", {"file_path": "b.txt", "content": "x"}, id="call_9").block
    assistant = AssistantMessage(
        content=(call,), api="anthropic-messages", provider="p", model="m", stop_reason="tool_use"
    )
    from agent_sdk.session.records import assistant_record, user_record
    from tests.support.loop_fakes import user

    await manager.append(
        ModelChangeRecord(provider="p", model="m"),
        SystemRecord(tools_added=("read", "write", "edit")),
        RunRecord(event="start", run_id="r1"),
        user_record(user("write it")),
        assistant_record(assistant),
        ToolJournalRecord(status="started", tool_use_id="call_9", name="write"),
    )
    await manager.close()
    again: SessionManager = await reopened(manager.session_id, tmp_path / "s")
    assert not again.state.unanswered
    assert not again.state.open_run
    provider = ScriptedProvider(answer("I see it was interrupted."))
    events: list[AgentEvent] = []
    async with build_session(again, provider, tools=file_tools(tmp_path)) as session:
        session.subscribe(events.append)
        await session.prompt("go on")
    assert not (project / "b.txt").exists()
    assert "not run again" in str(provider.requests[0].messages).lower() or "outcome" in str(
        provider.requests[0].messages
    )
    assert not any(isinstance(e, ToolFinished | PermissionReplied) for e in events)
    assert next(e for e in events if isinstance(e, RunEnded)).status == "completed"


async def test_run_whose_start_could_not_be_stored_leaves_no_end(
    project: Path, tmp_path: Path
) -> None:
    manager = await on_disk(project, tmp_path / "s")
    session = build_session(manager, ScriptedProvider(answer("x")), tools=file_tools(tmp_path))
    real, calls = manager.append, 0

    async def full_once(*drafts: object) -> list[str]:
        nonlocal calls
        calls += 1
        if calls == 1:
            raise StorageError("There is no room.")
        return await real(*drafts)  # type: ignore[arg-type]

    manager.append = full_once  # type: ignore[method-assign]
    end = await session.prompt("hello")
    assert (end.status, end.error_code, calls) == ("error", "storage", 1)
    assert not manager.state.count
    await session.aclose()


async def test_what_was_queued_is_not_lost_when_it_cannot_be_stored(
    project: Path, tmp_path: Path
) -> None:
    manager = await on_disk(project, tmp_path / "s")
    provider = ScriptedProvider(answer("one"), answer("two"), answer("three"))
    session = build_session(manager, provider, tools=file_tools(tmp_path))
    session.queue("second")
    session.queue("third")
    real = manager.append

    async def full(*drafts: object) -> list[str]:
        if "second" in str(drafts):
            raise StorageError("There is no room.")
        return await real(*drafts)  # type: ignore[arg-type]

    manager.append = full  # type: ignore[method-assign]
    assert (await session.prompt("first")).status == "error"
    assert [m.text for m in session.queued] == ["second", "third"]
    manager.append = real  # type: ignore[method-assign]
    await session.aclose()
