"""Sessions that are compacted: near the window, on overflow, by hand, and from outside."""

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typing_extensions import override

from agent_sdk.compaction.compact import SummaryDelta
from agent_sdk.compaction.rewrite import CLEARED, parts_of
from agent_sdk.compaction.settings import CompactionSettings
from agent_sdk.core.errors import InvalidInput, SessionLocked
from agent_sdk.core.ids import RandomIds, SystemClock
from agent_sdk.core.usage import Usage
from agent_sdk.events.projection import Projector
from agent_sdk.events.wire import CompactionPart, MessageUpdated, PartUpdated
from agent_sdk.loop.types import (
    AgentEvent,
    CompactionEnded,
    CompactionStarted,
    Notice,
    ToolContext,
    ToolResult,
)
from agent_sdk.providers.base import ModelRequest
from agent_sdk.providers.messages import AssistantMessage, Message
from agent_sdk.providers.openai_chat import OpenAIChatAdapter
from agent_sdk.query.adapter import SdkAdapter
from agent_sdk.session.agent_session import AgentSession
from agent_sdk.session.compacting import (
    Asking,
    CompactionRequest,
    PreCompact,
    PreCompactAnswer,
    SessionCompactor,
    fresh_from,
)
from agent_sdk.session.manager import SessionManager
from agent_sdk.session.records import RewindRecord, assistant_record, user_record
from agent_sdk.session.replay import Replay
from agent_sdk.session.stored_compaction import compact_session, compact_session_stream
from agent_sdk.testing.provider import (
    Answer,
    Gate,
    ScriptedProvider,
    answer,
    failure,
    text,
    tool_call,
)
from tests.support.loop_fakes import READ, FakeTool
from tests.support.sessions import build_session, in_memory, on_disk, reopened
from tests.support.talks import SMALL, measured, talks, turns, unpaired, words


async def _look(args: dict[str, Any], context: ToolContext) -> ToolResult | str:
    return words(int(args.get("size", 300)), f"found{args.get('n', 'x')}")


LOOK = FakeTool("look", _look, READ)


def look(n: int, size: int = 400) -> Callable[[ModelRequest], Answer]:
    return measured(tool_call("look", {"n": n, "size": size}))


def build(manager: SessionManager, provider: ScriptedProvider, **more: Any) -> AgentSession:
    return build_session(manager, provider, tools=[LOOK], allow=["look"], model=SMALL, **more)


def is_summary_request(request: ModelRequest) -> bool:
    return [s.name for s in request.system] == ["compaction"]


async def filled(manager: SessionManager, messages: list[Message]) -> None:
    for message in messages:
        if isinstance(message, AssistantMessage):
            await manager.append(assistant_record(message))
        else:
            await manager.append(user_record(message))


SIX = turns(*"abcdef", size=150)


# ------------------------------------------------------------- by threshold


async def test_a_long_run_is_compacted_between_results_and_the_next_request(
    tmp_path: Path,
) -> None:
    manager = await on_disk(tmp_path, tmp_path / "s")

    def make(request: ModelRequest) -> Answer:
        if is_summary_request(request):
            return answer("It looked at things.")
        return (
            look(len(provider.requests))(request)
            if len(provider.requests) < 30
            else answer("Done.")
        )

    provider = ScriptedProvider(*[make] * 40)
    events: list[AgentEvent] = []
    async with build(manager, provider) as session:
        session.subscribe(events.append)
        end = await session.prompt("look at all of it")
        live = list(manager.state.model_messages())
    assert end.status == "completed"
    ended = [e for e in events if isinstance(e, CompactionEnded)]
    assert len(ended) >= 2
    assert {e.status for e in ended} == {"completed"}
    assert all(e.tokens_after < e.tokens_before for e in ended)
    asked = [r for r in provider.requests if not is_summary_request(r)]
    for request in asked:
        assert not unpaired(list(request.messages))
        assert "look at all of it" in str(request.messages)
    # The second summary goes on from the first.
    updates = [r for r in provider.requests if is_summary_request(r)][1:]
    assert all("<summary>\nIt looked at things." in r.messages[0].text for r in updates)
    # It is all there again after a restart, byte for byte.
    again = await reopened(manager.session_id, tmp_path / "s")
    assert again.state.model_messages() == live
    assert again.state.compaction is not None
    assert again.state.compaction.previous_uuid is not None
    await again.close()


async def test_a_restart_goes_on_with_the_same_bytes(tmp_path: Path) -> None:
    manager = await on_disk(tmp_path, tmp_path / "s")
    gate = Gate()
    looks = [look(n, 1_200) for n in range(3)]
    provider = ScriptedProvider(*looks, answer("It looked."), answer(text("Half", gate)))
    session = build(manager, provider)
    task = asyncio.ensure_future(session.prompt("look at all of it"))
    async with asyncio.timeout(20):
        await gate.reached.wait()
    assert manager.state.compaction is not None
    session.abort()
    await task
    await session.aclose()

    again = await reopened(manager.session_id, tmp_path / "s")
    more = ScriptedProvider(answer("Done."))
    async with build(again, more) as session:
        await session.go_on()
    first, last = encoded(list(provider.requests[-1].messages)), more.requests[0].messages
    assert encoded(list(last)).startswith(first.removesuffix(b"]}"))
    assert not any(map(is_summary_request, more.requests))


async def test_it_is_not_done_where_it_is_switched_off(tmp_path: Path) -> None:
    provider = ScriptedProvider(look(1, 3_000), look(2, 3_000), answer("Done."))
    async with build(in_memory(tmp_path), provider) as session:
        session.context.compactor.settings = CompactionSettings(enabled=False)
        await session.prompt("look")
    assert not any(map(is_summary_request, provider.requests))


async def test_a_summary_that_may_not_be_used_changes_nothing_and_is_asked_for_once(
    tmp_path: Path,
) -> None:
    provider = ScriptedProvider(
        look(1, 4_000),
        answer("half", stop_reason="max_tokens"),
        look(2, 1_000),
        answer("Done."),
    )
    events: list[AgentEvent] = []
    manager = in_memory(tmp_path)
    async with build(manager, provider) as session:
        session.subscribe(events.append)
        end = await session.prompt("look")
    assert (end.status, provider.left) == ("completed", 0)
    assert manager.state.compaction is None
    [notice] = [e for e in events if isinstance(e, Notice)]
    assert (notice.level, notice.code) == ("warning", "compaction_failed")
    assert "cut off" in notice.text
    # What was asked was the conversation as it was.
    assert provider.requests[2].messages == provider.requests[3].messages[:3]


async def test_a_growing_summary_is_not_stored(tmp_path: Path) -> None:
    manager = in_memory(tmp_path)
    await filled(manager, SIX)
    provider = ScriptedProvider(answer(words(900)))
    async with build(manager, provider) as session:
        ended = await session.context.compact()
    assert (ended.status, ended.error_code) == ("failed", "compaction_failed")
    assert manager.state.messages == SIX


async def test_too_many_queries_are_halved(tmp_path: Path) -> None:
    manager = in_memory(tmp_path)
    await filled(manager, turns(*"abcd", size=5))
    provider = ScriptedProvider(answer("Four."), answer("ok"))
    async with build(manager, provider) as session:
        session.context.compactor.settings = CompactionSettings(
            protected_queries=2, max_session_queries=4
        )
        await session.prompt("e")
    assert [m.text for m in provider.requests[1].messages[1:] if m.text] == [
        "d", "answer to d", "e",
    ]  # fmt: skip


# --------------------------------------------------------------- on overflow


async def test_an_overflow_compacts_and_asks_once_more(tmp_path: Path) -> None:
    manager = await on_disk(tmp_path, tmp_path / "s")
    await filled(manager, SIX)
    provider = ScriptedProvider(failure("context_overflow"), answer("Sum."), answer("Done."))
    events: list[AgentEvent] = []
    async with build(manager, provider) as session:
        session.subscribe(events.append)
        end = await session.prompt("go")
    assert (end.status, end.turns) == ("completed", 1)
    [started] = [e for e in events if isinstance(e, CompactionStarted)]
    assert started.reason == "overflow"
    assert len(provider.requests[2].messages) < len(provider.requests[0].messages)
    assert provider.requests[2].messages[-1].text == "go"


async def test_a_second_overflow_ends_the_run(tmp_path: Path) -> None:
    manager = in_memory(tmp_path)
    await filled(manager, SIX)
    provider = ScriptedProvider(
        failure("context_overflow"), answer("Sum."), failure("context_overflow")
    )
    async with build(manager, provider) as session:
        end = await session.prompt("go")
    assert (end.status, end.error_code, provider.left) == ("error", "provider", 0)


async def test_an_overflow_with_nothing_to_fold_ends_the_run(tmp_path: Path) -> None:
    provider = ScriptedProvider(failure("context_overflow"), answer("never"))
    async with build(in_memory(tmp_path), provider) as session:
        end = await session.prompt("go")
    assert (end.status, provider.left) == ("error", 1)


async def test_a_failed_summary_leaves_the_overflow_as_the_error(tmp_path: Path) -> None:
    manager = in_memory(tmp_path)
    await filled(manager, SIX)
    provider = ScriptedProvider(failure("context_overflow", message="too big"), answer(""))
    async with build(manager, provider) as session:
        end = await session.prompt("go")
    assert (end.status, "too big" in end.error) == ("error", True)


# -------------------------------------------------------------------- by hand


async def test_by_hand_with_what_it_should_heed(tmp_path: Path) -> None:
    manager = await on_disk(tmp_path, tmp_path / "s")
    await filled(manager, SIX)
    provider = ScriptedProvider(answer("Sum.", usage=Usage(90, 9)))
    async with build(manager, provider) as session:
        before = manager.state.usage
        request = CompactionRequest(
            protected_queries=2, tool_protected_queries=1, instructions="Mind the tests."
        )
        async with aclosing(session.context.compact_stream(request)) as stream:
            events = [event async for event in stream]
        assert session.is_idle
    assert isinstance(events[0], CompactionStarted)
    assert "".join(e.text for e in events if isinstance(e, SummaryDelta)) == "Sum."
    ended = events[-1]
    assert isinstance(ended, CompactionEnded)
    assert (ended.status, ended.usage) == ("completed", Usage(90, 9))
    assert "Mind the tests." in str(provider.requests[0].messages)
    again = await reopened(manager.session_id, tmp_path / "s")
    assert [m.text for m in again.state.messages if m.text][1:] == [
        "e", "answer to e", "f", "answer to f",
    ]  # fmt: skip
    assert again.state.usage == before + Usage(90, 9)
    record = again.state.compaction
    assert record is not None
    assert (record.uuid, record.model) == (ended.uuid, "p/m")
    await again.close()


async def test_nothing_to_do_is_said(tmp_path: Path) -> None:
    async with build(in_memory(tmp_path), ScriptedProvider()) as session:
        ended = await session.context.compact()
    assert (ended.status, "nothing" in ended.error) == ("skipped", True)


async def test_a_session_does_one_thing_at_a_time(tmp_path: Path) -> None:
    manager = in_memory(tmp_path)
    await filled(manager, SIX)
    gate = Gate()
    provider = ScriptedProvider(answer(text("half", gate, " rest")), answer("ok"))
    async with build(manager, provider) as session:
        task = asyncio.ensure_future(session.context.compact())
        await gate.reached.wait()
        with pytest.raises(InvalidInput, match="busy"):
            await session.prompt("now")
        with pytest.raises(InvalidInput, match="busy"):
            await session.context.compact()
        session.queue("later")
        gate.open()
        assert (await task).status == "completed"
        assert [m.text for m in session.queued] == ["later"]
        await session.prompt("go on")


async def test_it_can_be_stopped_and_then_nothing_is_stored(tmp_path: Path) -> None:
    manager = in_memory(tmp_path)
    await filled(manager, SIX)
    gate = Gate()
    provider = ScriptedProvider(answer(text("half", gate, " rest")))
    events: list[AgentEvent] = []
    async with build(manager, provider) as session:
        session.subscribe(events.append)
        task = asyncio.ensure_future(session.context.compact())
        await gate.reached.wait()
        assert session.abort()
        assert (await task).status == "aborted"
        assert session.is_idle
    assert manager.state.compaction is None
    assert [e.status for e in events if isinstance(e, CompactionEnded)] == ["aborted"]


async def test_leaving_the_stream_stops_it(tmp_path: Path) -> None:
    manager = in_memory(tmp_path)
    await filled(manager, SIX)
    provider = ScriptedProvider(answer(text("half", Gate(), " rest")))
    async with build(manager, provider) as session:
        async with aclosing(session.context.compact_stream()) as stream:
            async for event in stream:
                if isinstance(event, SummaryDelta):
                    break
        assert session.is_idle
        assert provider.cancelled == 1


async def test_stopping_the_run_stops_its_compaction(tmp_path: Path) -> None:
    gate = Gate()
    provider = ScriptedProvider(look(1, 4_000), answer(text("half", gate)))
    manager = in_memory(tmp_path)
    async with build(manager, provider) as session:
        task = asyncio.ensure_future(session.prompt("look"))
        await gate.reached.wait()
        session.abort()
        assert (await task).status == "aborted"
    assert manager.state.compaction is None
    assert not unpaired(manager.state.messages)


# ----------------------------------------------------------------------- hooks


class Hook:
    def __init__(self, block: str = "") -> None:
        self.block = block
        self.before_events: list[PreCompact] = []
        self.after_events: list[CompactionEnded] = []

    async def before(self, event: PreCompact) -> PreCompactAnswer:
        self.before_events.append(event)
        return PreCompactAnswer(block=self.block, instructions="Say it in Dutch.")

    async def after(self, event: CompactionEnded) -> None:
        self.after_events.append(event)


async def test_a_hook_hears_before_and_after_and_may_add(tmp_path: Path) -> None:
    manager = in_memory(tmp_path)
    await filled(manager, SIX)
    provider = ScriptedProvider(answer("Som."))
    hook = Hook()
    async with build(manager, provider) as session:
        session.context.compactor.hook = hook
        ended = await session.context.compact(CompactionRequest(instructions="Be short."))
    [event] = hook.before_events
    assert (event.reason, event.instructions) == ("manual", "Be short.")
    assert hook.after_events == [ended]
    assert "Be short.\nSay it in Dutch." in provider.requests[0].messages[0].text


async def test_a_hook_may_refuse(tmp_path: Path) -> None:
    manager = in_memory(tmp_path)
    await filled(manager, SIX)
    async with build(manager, ScriptedProvider()) as session:
        session.context.compactor.hook = Hook(block="not now")
        ended = await session.context.compact()
    assert (ended.status, ended.error) == ("skipped", "not now")


async def test_a_hook_that_fails_changes_nothing(tmp_path: Path) -> None:
    class Failing(Hook):
        @override
        async def before(self, event: PreCompact) -> PreCompactAnswer:
            raise InvalidInput("The hook is broken.")

    manager = in_memory(tmp_path)
    await filled(manager, SIX)
    async with build(manager, ScriptedProvider()) as session:
        session.context.compactor.hook = Failing()
        ended = await session.context.compact()
    assert (ended.status, ended.error_code) == ("failed", "invalid_input")
    assert manager.state.messages == SIX


# ----------------------------------------------------------- a stored session


def options(tmp_path: Path, provider: ScriptedProvider) -> dict[str, Any]:
    return {
        "sessions_dir": tmp_path / "s",
        "provider": provider,
        "model": SMALL,
        "ids": RandomIds(),
        "clock": SystemClock(),
    }


async def test_a_stored_session_is_compacted_by_its_id(tmp_path: Path) -> None:
    manager = await on_disk(tmp_path, tmp_path / "s")
    await filled(manager, SIX)
    given = options(tmp_path, ScriptedProvider(answer("Sum."), answer("Sum 2.")))
    with pytest.raises(SessionLocked):
        await compact_session(manager.session_id, **given)
    assert given["provider"].requests == []
    await manager.close()
    ended = await compact_session(manager.session_id, **given)
    assert ended.status == "completed"
    again = await reopened(manager.session_id, tmp_path / "s")
    assert parts_of(again.state.messages[0].text).summary == "Sum."
    await filled(again, turns(*"ghij", size=150))
    await again.close()
    stream = compact_session_stream(
        manager.session_id, **given, request=CompactionRequest(tool_protected_queries=9)
    )
    async with aclosing(stream) as events:
        told = [event async for event in events]
    assert isinstance(told[-1], CompactionEnded)
    last = await reopened(manager.session_id, tmp_path / "s")
    assert parts_of(last.state.messages[0].text).summary == "Sum 2."
    results = str(last.state.messages)
    assert CLEARED not in results
    await last.close()


async def test_what_goes_wrong_comes_out_of_the_stream(tmp_path: Path) -> None:
    manager = await on_disk(tmp_path, tmp_path / "s")
    await filled(manager, SIX)
    stream = compact_session_stream(manager.session_id, **options(tmp_path, ScriptedProvider()))
    with pytest.raises(SessionLocked):
        await anext(stream)
    await manager.close()


# ---------------------------------------------------------------- how it shows


async def test_a_compaction_shows_live_as_after_a_restart(tmp_path: Path) -> None:
    manager = await on_disk(tmp_path, tmp_path / "s")
    await filled(manager, SIX)
    provider = ScriptedProvider(failure("context_overflow"), answer("Sum."), answer("Done."))
    live: list[AgentEvent] = []
    async with build(manager, provider) as session:
        session.subscribe(live.append)
        await session.prompt("go")
    replay = Replay()
    stored: list[AgentEvent] = []
    again = await SessionManager.resume(
        session_id=manager.session_id,
        sessions_dir=tmp_path / "s",
        ids=RandomIds(),
        clock=SystemClock(),
        observe=lambda record: stored.extend(replay.events(record)),
    )
    await again.close()

    def shown(events: list[AgentEvent]) -> list[object]:
        projector = Projector(session_id="s")
        changes = [c.body for e in events for c in projector.fold(e, 0.0)]
        at = next(i for i, b in enumerate(changes) if _is_compaction(b))
        return [b for b in changes[at - 1 : at + 1] if isinstance(b, PartUpdated | MessageUpdated)]

    assert shown(live) == shown(stored)
    assert len(shown(live)) == 2


def _is_compaction(body: object) -> bool:
    return isinstance(body, PartUpdated) and isinstance(body.part, CompactionPart)


async def test_sdk_messages_tell_of_the_boundary(tmp_path: Path) -> None:
    adapter = SdkAdapter(session_id="s", model=SMALL, ids=RandomIds(), partial=False)
    done = CompactionEnded(status="completed", uuid="u", tokens_before=9, tokens_after=3)
    [status] = adapter.fold(CompactionStarted("overflow", 9))
    assert (status["subtype"], status["status"]) == ("status", "compacting")
    [status, boundary] = adapter.fold(done)
    assert (status["status"], status["compact_result"]) == (None, "success")
    assert (boundary["subtype"], boundary["uuid"]) == ("compact_boundary", "u")
    assert boundary["compact_metadata"] == {"trigger": "auto", "pre_tokens": 9, "post_tokens": 3}
    [status] = adapter.fold(CompactionEnded(status="failed", error="no"))
    assert (status["compact_result"], status["compact_error"]) == ("failed", "no")


# --------------------------------------------------------------- stable bytes


def encoded(messages: list[Message]) -> bytes:
    request = ModelRequest(model=SMALL, messages=messages)
    body = OpenAIChatAdapter().encode(request)
    return body[body.index(b'"messages":[') :]


@given(talks(most=5), st.sampled_from([1, 2, 4]), st.integers(0, 4))
async def test_the_prefix_keeps_its_bytes_between_two_compactions(
    messages: list[Message], keep: int, tools: int
) -> None:
    manager = in_memory(Path("/"))
    asking = Asking(provider=ScriptedProvider(*[answer("Sum.")] * 40), model=SMALL)
    settings = CompactionSettings(protected_queries=keep, tool_protected_queries=tools)
    compactor = SessionCompactor(manager=manager, settings=settings, emit=lambda event: None)
    last = b""
    for message in messages:
        if isinstance(message, AssistantMessage):  # so a request was made
            before = manager.state.compaction
            await compactor.before_request(asking, manager.append)
            asked = list(manager.state.model_messages())
            assert not unpaired(asked)
            if manager.state.compaction is before:
                assert encoded(asked).startswith(last)
            last = encoded(asked).removesuffix(b"]}")
        await filled(manager, [message])
    await manager.close()


async def test_a_rewind_behind_a_compaction_brings_the_messages_back(tmp_path: Path) -> None:
    manager = in_memory(tmp_path)
    await filled(manager, SIX)
    back = manager.state.message_uuids[-1]
    async with build(manager, ScriptedProvider(answer("Sum."))) as session:
        await session.context.compact()
        assert manager.state.messages != SIX
        await manager.append(RewindRecord(to_uuid=back, reason="rewind"))
        assert manager.state.messages == SIX
        assert session.context.usage().measured is None


# --------------------------------------------------------------- context usage


async def test_what_fills_the_context_is_told_without_the_model(tmp_path: Path) -> None:
    manager = in_memory(tmp_path)
    provider = ScriptedProvider(
        answer(tool_call("look", {"n": 1}), usage=Usage(300, 20)),
        answer("Done.", usage=Usage(700, 30, 100)),
        answer("Sum."),
    )
    async with build(manager, provider) as session:
        empty = session.context.usage()
        assert (empty.measured, {c.kind for c in empty.categories}) == (None, {"system", "tools"})
        await session.prompt("look")
        usage = session.context.usage()
        assert usage.measured is not None
        assert usage.measured.usage == Usage(700, 30, 100)
        assert usage.measured.uuid == manager.state.message_uuids[-1]
        assert (usage.used, usage.free, usage.estimated_newer) == (830, 7_170, 0)
        assert usage.compacts_at == 6_000
        kinds = {(c.kind, c.name) for c in usage.categories}
        assert kinds == {
            ("system", "instructions"), ("tools", ""), ("messages", ""), ("tool_results", ""),
        }  # fmt: skip
        await filled(manager, SIX)
        assert (await session.context.compact()).status == "completed"
        after = session.context.usage()
        assert after.measured is None
        assert "summary" in {c.kind for c in after.categories}
        assert after.used == sum(c.estimated_tokens for c in after.categories)
    assert len(provider.requests) == 3


async def test_figures_from_before_a_compaction_tell_nothing_about_what_is_left(
    tmp_path: Path,
) -> None:
    manager = await on_disk(tmp_path, tmp_path / "s")
    await filled(manager, SIX)
    provider = ScriptedProvider(
        answer("Fine.", usage=Usage(5_000, 500)),
        answer("Sum."),
        answer("Now.", usage=Usage(900, 9)),
    )
    async with build(manager, provider) as session:
        await session.prompt("how is it?")
        assert session.context.usage().used == 5_500
        await session.context.compact()
        after = session.context.usage()
        assert after.measured is None
        assert after.used < 2_500
        await session.prompt("and now?")
        assert session.context.usage().used == 909
    again = await reopened(manager.session_id, tmp_path / "s")
    assert fresh_from(again.state) == len(again.state.messages) - 2
    await again.close()
