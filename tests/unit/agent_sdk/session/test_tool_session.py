"""What tools see of their session, and the mailbox of a session."""

import asyncio
from pathlib import Path

from agent_sdk.loop.types import ToolContext
from agent_sdk.providers.messages import Json, UserMessage
from agent_sdk.testing.provider import Gate, ScriptedProvider, answer, text, tool_call
from tests.support.loop_fakes import FakeTool
from tests.support.plugins import shape, texts
from tests.support.sessions import MODEL, build_session, in_memory, on_disk, reopened


async def test_a_tool_sees_its_session_and_can_keep_something_with_it(tmp_path: Path) -> None:
    seen: list[ToolContext] = []
    kept: list[str] = []

    async def work(args: Json, context: ToolContext) -> str:
        seen.append(context)
        assert context.session is not None
        assert not context.session.is_idle()
        kept.append(await context.session.append_custom("acme.notes", {"n": [1, None]}))
        return "ok"

    manager = await on_disk(tmp_path, tmp_path / "s")
    provider = ScriptedProvider(answer(tool_call("keep", {})), answer("Done."))
    async with build_session(
        manager,
        provider,
        tools=[FakeTool("keep", work)],
        allow=["keep"],
        thinking_level="high",
    ) as session:
        await session.prompt("go")
        (context,) = seen
        handle = context.session
        assert handle is not None
        assert handle.is_idle()
        assert handle.session_id == session.session_id
        assert handle.transcript_path == str(manager.path)
        assert handle.system_prompt() == "Be good."
        assert (context.thinking_level, context.model) == ("high", MODEL)
        assert context.tool_names == ("keep",)
    lines = Path(handle.transcript_path).read_text().splitlines()
    stored = [line for line in lines if '"custom"' in line]
    assert len(stored) == 1
    assert kept[0] in stored[0]
    assert '"acme.notes"' in stored[0]
    again = await reopened(session.session_id, tmp_path / "s")
    assert shape(again.state.messages) == ["human", "assistant", "result", "assistant"]
    await again.close()


async def test_a_session_in_memory_has_no_transcript(tmp_path: Path) -> None:
    paths: list[str] = []

    async def work(args: Json, context: ToolContext) -> str:
        assert context.session is not None
        paths.append(context.session.transcript_path)
        return "ok"

    provider = ScriptedProvider(answer(tool_call("look", {})), answer("Done."))
    async with build_session(
        in_memory(tmp_path), provider, tools=[FakeTool("look", work)], allow=["look"]
    ) as session:
        await session.prompt("go")
    assert paths == [""]


async def test_mail_waits_for_a_batch_or_for_the_next_prompt(tmp_path: Path) -> None:
    async def work(args: Json, context: ToolContext) -> str:
        session.deliver("task 1 is done", origin_id="row-1")
        return "ok"

    wait = Gate()
    provider = ScriptedProvider(
        answer(tool_call("start", {})), answer(text("Final.", wait)), answer("I see.")
    )
    manager = in_memory(tmp_path)
    async with build_session(
        manager, provider, tools=[FakeTool("start", work)], allow=["start"]
    ) as session:
        run = asyncio.ensure_future(session.prompt("go"))
        await wait.reached.wait()
        session.deliver("task 2 is done")
        wait.open()
        assert (await run).turns == 2  # a final answer is not kept from being the last
        assert texts(manager.state.messages, "mailbox") == ["task 1 is done"]
        await session.prompt("next")
    assert shape(manager.state.messages) == [
        *("human", "assistant", "result", "mailbox", "assistant"),
        *("human", "mailbox", "assistant"),
    ]
    ids = [m.origin.id for m in manager.state.messages if isinstance(m, UserMessage)]
    assert "row-1" in ids
