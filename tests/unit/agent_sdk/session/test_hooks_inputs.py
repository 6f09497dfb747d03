"""Handlers of inputs: SessionStart, UserPromptSubmit and Stop, on real sessions."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from agent_sdk.compaction.settings import CompactionSettings
from agent_sdk.core.aio import AbortSignal
from agent_sdk.core.errors import StorageError
from agent_sdk.plugins.types import (
    AddContext,
    Hook,
    HookInput,
    PromptVerdict,
    StopVerdict,
)
from agent_sdk.providers.messages import AssistantMessage
from agent_sdk.session.compacting import CompactionRequest
from agent_sdk.session.manager import SessionManager
from agent_sdk.testing.provider import Gate, ScriptedProvider, answer, failure, text
from tests.support.plugins import Hooked, Says, plugin, shape, texts
from tests.support.sessions import in_memory, on_disk, reopened


def start(handler: Any, **more: Any) -> Hook:
    return Hook(event="SessionStart", handler=handler, **more)


def submit(handler: Any, **more: Any) -> Hook:
    return Hook(event="UserPromptSubmit", handler=handler, **more)


def stop(handler: Any, **more: Any) -> Hook:
    return Hook(event="Stop", handler=handler, **more)


def says_context(*context: str) -> Says:
    return Says(AddContext(context=context))


# ----------------------------------------------------------------- SessionStart


async def test_session_start_comes_once_before_the_first_input(tmp_path: Path) -> None:
    greeting = says_context("Branch: main.", "Two files changed.")
    provider = ScriptedProvider(answer("One."), answer("Two."))
    hooked = Hooked(in_memory(tmp_path), provider, plugin("a", start(greeting)))
    async with hooked.session as session:
        await session.prompt("first")
        await session.prompt("second")
    assert hooked.shape == ["hook", "human", "assistant", "human", "assistant"]
    (told,) = greeting.told
    assert (told.session_id, told.cwd, told.source) == (
        session.session_id,
        hooked.manager.cwd,
        "startup",
    )
    (context,) = texts(provider.requests[0].messages, "hook")
    assert 'event="SessionStart"' in context
    assert "Branch: main.\n\nTwo files changed." in context


async def test_session_start_does_not_come_again_after_a_restart(tmp_path: Path) -> None:
    greeting = says_context("Hello.")
    manager = await on_disk(tmp_path, tmp_path / "s")
    async with Hooked(
        manager, ScriptedProvider(answer("One.")), plugin("a", start(greeting))
    ).session as session:
        await session.prompt("first")
    manager = await reopened(session.session_id, tmp_path / "s")
    hooked = Hooked(manager, ScriptedProvider(answer("Two.")), plugin("a", start(greeting)))
    async with hooked.session as session:
        await session.prompt("second")
    assert len(greeting.told) == 1
    assert hooked.shape == ["hook", "human", "assistant", "human", "assistant"]


async def test_a_retry_asks_only_those_that_failed_and_adds_nothing_twice(tmp_path: Path) -> None:
    good, bad = says_context("good"), Says(ValueError(), AddContext(context=("late",)))
    refuses = Says(PromptVerdict(refuse="Not yet."), PromptVerdict())
    hooked = Hooked(
        in_memory(tmp_path),
        ScriptedProvider(answer("Yes."), answer("Again.")),
        plugin("a", start(good)),
        plugin("b", start(bad), submit(refuses)),
    )
    async with hooked.session as session:
        first = await session.prompt("hi")
        assert (first.status, first.error_code, hooked.shape) == ("error", "input_refused", [])
        assert (await session.prompt("hi")).status == "completed"
        assert (await session.prompt("more")).status == "completed"
    assert hooked.shape == ["hook", "hook", "human", "assistant", "human", "assistant"]
    contexts = texts(hooked.manager.state.messages, "hook")
    assert ["good" in contexts[0], "late" in contexts[1]] == [True, True]
    assert (len(good.told), len(bad.told)) == (1, 2)
    assert [n.code for n in hooked.notices] == ["hook_failed"]


async def test_context_that_could_not_be_stored_is_stored_by_the_retry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    greeting = says_context("Hello.")
    manager = in_memory(tmp_path)
    hooked = Hooked(manager, ScriptedProvider(answer("Yes.")), plugin("a", start(greeting)))
    with monkeypatch.context() as patch:

        async def full(self: SessionManager, *drafts: Any) -> list[str]:
            raise StorageError("The disk is full.")

        patch.setattr(SessionManager, "append", full)
        assert (await hooked.session.prompt("hi")).error_code == "storage"
    async with hooked.session as session:
        assert (await session.prompt("hi")).status == "completed"
    assert hooked.shape == ["hook", "human", "assistant"]
    assert len(greeting.told) == 1


async def test_a_stop_during_session_start_stores_nothing_and_the_retry_is_whole(
    tmp_path: Path,
) -> None:
    begun, calls = asyncio.Event(), 0

    async def slow_once(data: HookInput, signal: AbortSignal) -> AddContext:
        nonlocal calls
        calls += 1
        if calls == 1:
            begun.set()
            await asyncio.Event().wait()
        return AddContext(context=("Hello.",))

    hooked = Hooked(
        in_memory(tmp_path), ScriptedProvider(answer("Yes.")), plugin("a", start(slow_once))
    )
    async with hooked.session as session:
        run = asyncio.ensure_future(session.prompt("hi"))
        await begun.wait()
        session.abort()
        assert (await run).status == "aborted"
        assert hooked.shape == []
        assert (await session.prompt("hi")).status == "completed"
    assert hooked.shape == ["hook", "human", "assistant"]


# ------------------------------------------------------------- UserPromptSubmit


async def test_prompt_context_is_separate_and_the_prompt_is_not_rewritten(tmp_path: Path) -> None:
    first, second = Says(PromptVerdict(context=("one",))), Says(PromptVerdict(context=("two",)))
    provider = ScriptedProvider(answer("Yes."))
    hooked = Hooked(
        in_memory(tmp_path), provider, plugin("a", submit(first)), plugin("b", submit(second))
    )
    async with hooked.session as session:
        await session.prompt("  as it is  ")
    sent = provider.requests[0].messages
    assert shape(sent) == ["human", "hook", "hook"]
    assert texts(sent, "human") == ["  as it is  "]
    assert ["one" in texts(sent, "hook")[0], "two" in texts(sent, "hook")[1]] == [True, True]
    assert [first.told[0].prompt, second.told[0].prompt] == ["  as it is  "] * 2


async def test_a_refused_prompt_is_not_stored_and_the_model_is_not_asked(tmp_path: Path) -> None:
    after = Says(PromptVerdict(context=("never",)))
    hooked = Hooked(
        in_memory(tmp_path),
        ScriptedProvider(),
        plugin("guard", submit(Says(PromptVerdict(refuse="No secrets here.", context=("x",))))),
        plugin("late", submit(after)),
    )
    async with hooked.session as session:
        end = await session.prompt("the key is 123")
    assert (end.status, end.error_code) == ("error", "input_refused")
    assert "'guard'" in end.error
    assert "No secrets here." in end.error
    assert hooked.manager.state.count == 0
    assert after.told == []


async def test_steered_and_queued_inputs_pass_the_same_gate(tmp_path: Path) -> None:
    async def gate(data: Any, signal: AbortSignal) -> PromptVerdict:
        return PromptVerdict(refuse="bad" if "bad" in data.prompt else "", context=(data.origin,))

    wait = Gate()
    provider = ScriptedProvider(answer(text("One.", wait)), answer("Two."), answer("Three."))
    hooked = Hooked(in_memory(tmp_path), provider, plugin("a", submit(gate)))
    async with hooked.session as session:
        run = asyncio.ensure_future(session.prompt("start"))
        await wait.reached.wait()
        session.steer("bad steer")
        session.steer("good steer")
        session.queue("bad queue")
        session.queue("good queue")
        wait.open()
        assert (await run).status == "completed"
    assert texts(hooked.manager.state.messages, "steered") == ["good steer"]
    assert texts(hooked.manager.state.messages, "queued") == ["good queue"]
    assert [n.code for n in hooked.notices] == ["input_refused"] * 2
    assert len(provider.requests) == 3


async def test_a_run_whose_follow_ups_are_all_refused_ends(tmp_path: Path) -> None:
    verdicts = Says(PromptVerdict(), PromptVerdict(refuse="no"))
    wait = Gate()
    provider = ScriptedProvider(answer(text("One.", wait)))
    hooked = Hooked(in_memory(tmp_path), provider, plugin("a", submit(verdicts)))
    async with hooked.session as session:
        run = asyncio.ensure_future(session.prompt("start"))
        await wait.reached.wait()
        session.queue("one")
        session.queue("two")
        wait.open()
        assert (await run).status == "completed"
    assert session.queued == ()
    assert hooked.shape == ["human", "assistant"]


@pytest.mark.parametrize("on_error", ["report", "block"])
async def test_a_failing_gate_lets_through_unless_it_says_otherwise(
    tmp_path: Path, on_error: Any
) -> None:
    hooked = Hooked(
        in_memory(tmp_path),
        ScriptedProvider(answer("Yes.")),
        plugin("a", submit(Says(ValueError("secret")), on_error=on_error, name="gate")),
    )
    async with hooked.session as session:
        end = await session.prompt("hi")
    assert [(n.code, "secret" in n.text) for n in hooked.notices] == [("hook_failed", False)]
    if on_error == "report":
        assert end.status == "completed"
    else:
        assert end.error_code == "input_refused"
        assert all(name in end.error for name in ("'gate'", "'a'", "UserPromptSubmit"))
        assert hooked.shape == []


# ------------------------------------------------------------------------- Stop


async def test_feedback_is_the_next_turns_input_and_the_answer_stays(tmp_path: Path) -> None:
    wants = Says(StopVerdict(feedback="Run the tests."), StopVerdict())
    provider = ScriptedProvider(answer("Done."), answer("Tests pass."))
    hooked = Hooked(in_memory(tmp_path), provider, plugin("a", stop(wants)))
    async with hooked.session as session:
        end = await session.prompt("fix it")
    assert (end.status, end.turns) == ("completed", 2)
    assert hooked.shape == ["human", "assistant", "hook", "assistant"]
    first = provider.requests[1].messages[1]
    assert isinstance(first, AssistantMessage)
    assert first.text == "Done."
    assert "Run the tests." in texts(provider.requests[1].messages, "hook")[0]
    assert [t.stop_hook_active for t in wants.told] == [False, True]
    assert [t.last_assistant_message for t in wants.told] == ["Done.", "Tests pass."]


async def test_at_most_three_in_a_row_and_the_user_is_told(tmp_path: Path) -> None:
    never_enough = Says(StopVerdict(feedback="More."))
    provider = ScriptedProvider(*[answer(f"{n}") for n in range(8)])
    hooked = Hooked(in_memory(tmp_path), provider, plugin("a", stop(never_enough)))
    async with hooked.session as session:
        assert (await session.prompt("go")).turns == 4
        assert [n.code for n in hooked.notices] == ["stop_limit"]
        assert (await session.prompt("again")).turns == 4
    assert [t.stop_hook_active for t in never_enough.told] == [False, True, True, True] * 2


async def test_a_new_prompt_begins_a_new_row(tmp_path: Path) -> None:
    provider = ScriptedProvider(*[answer(f"{n}") for n in range(8)])
    hooked = Hooked(
        in_memory(tmp_path),
        provider,
        plugin("a", stop(Says(StopVerdict(feedback="More.")))),
        max_turns=3,
    )
    async with hooked.session as session:
        assert (await session.prompt("go")).status == "max_turns"
        assert (await session.prompt("again")).status == "max_turns"
    assert hooked.notices == []


async def test_several_handlers_speak_in_order_before_a_queued_prompt(tmp_path: Path) -> None:
    wait = Gate()
    provider = ScriptedProvider(answer(text("One.", wait)), answer("Two."), answer("Three."))
    once = Says(StopVerdict(feedback="b"), None)
    hooked = Hooked(
        in_memory(tmp_path),
        provider,
        plugin("a", stop(Says(StopVerdict(feedback="a"), None)), stop(Says(RuntimeError()))),
        plugin("b", stop(once)),
    )
    async with hooked.session as session:
        run = asyncio.ensure_future(session.prompt("start"))
        await wait.reached.wait()
        session.queue("next")
        wait.open()
        await run
    assert hooked.shape == [
        "human",
        "assistant",
        "hook",
        "hook",
        "assistant",
        "queued",
        "assistant",
    ]
    assert ['plugin="a"' in t for t in texts(hooked.manager.state.messages, "hook")] == [
        True,
        False,
    ]
    assert {n.code for n in hooked.notices} == {"hook_failed"}
    assert len(once.told) == 3


@pytest.mark.parametrize(
    ("script", "status"),
    [
        (answer("Cut of", stop_reason="max_tokens"), "completed"),
        (answer("I will not.", stop_reason="refusal"), "completed"),
        (failure("network", retryable=False), "error"),
    ],
)
async def test_stop_is_only_for_a_normal_last_answer(
    tmp_path: Path, script: Any, status: str
) -> None:
    wants = Says(StopVerdict(feedback="More."))
    hooked = Hooked(in_memory(tmp_path), ScriptedProvider(script), plugin("a", stop(wants)))
    async with hooked.session as session:
        assert (await session.prompt("go")).status == status
    assert wants.told == []


async def test_a_stopped_run_does_not_go_on(tmp_path: Path) -> None:
    wants, wait = Says(StopVerdict(feedback="More.")), Gate()
    provider = ScriptedProvider(answer(text("One.", wait)))
    hooked = Hooked(in_memory(tmp_path), provider, plugin("a", stop(wants)))
    async with hooked.session as session:
        run = asyncio.ensure_future(session.prompt("go"))
        await wait.reached.wait()
        session.abort()
        assert (await run).status == "aborted"
    assert wants.told == []


async def test_a_stop_while_stop_is_being_told_ends_the_run(tmp_path: Path) -> None:
    begun = asyncio.Event()

    async def slow(data: HookInput, signal: AbortSignal) -> StopVerdict:
        begun.set()
        await asyncio.Event().wait()
        return StopVerdict(feedback="More.")

    hooked = Hooked(in_memory(tmp_path), ScriptedProvider(answer("Done.")), plugin("a", stop(slow)))
    async with hooked.session as session:
        run = asyncio.ensure_future(session.prompt("go"))
        await begun.wait()
        session.abort()
        assert (await run).status == "aborted"
    assert hooked.shape == ["human", "assistant"]
    assert [r.status for r in hooked.reports] == ["aborted"]


# ------------------------------------------------------- SessionEnd, PreCompact


async def test_compactions_are_told_of_and_handlers_only_observe(tmp_path: Path) -> None:
    watching = Says(ValueError())
    provider = ScriptedProvider(answer("One. " * 400), answer("Two."), answer("Three."))
    hooked = Hooked(
        in_memory(tmp_path),
        provider,
        plugin("a", Hook(event="PreCompact", handler=watching)),
    )
    hooked.session.context.compactor.settings = CompactionSettings(
        protected_queries=1, keep_recent_tokens=0
    )
    async with hooked.session as session:
        await session.prompt("first " * 400)
        await session.prompt("second")
        ended = await session.context.compact(CompactionRequest(instructions="Keep the names."))
    assert ended.status == "completed"
    (told,) = watching.told
    assert (told.trigger, told.custom_instructions) == ("manual", "Keep the names.")
    assert [r.status for r in hooked.reports] == ["failed"]


async def test_session_end_is_told_once_and_cannot_keep_the_session_open(tmp_path: Path) -> None:
    ends = Says(ValueError())
    hooked = Hooked(
        in_memory(tmp_path), ScriptedProvider(), plugin("a", Hook(event="SessionEnd", handler=ends))
    )
    await hooked.session.aclose()
    await hooked.session.aclose()
    assert len(ends.told) == 1
    assert [r.status for r in hooked.reports] == ["failed"]
