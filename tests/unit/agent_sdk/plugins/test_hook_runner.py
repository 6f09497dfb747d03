"""Handlers: their own copies, their time, their budget, and what is told of them."""

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from agent_sdk.core.aio import AbortSignal
from agent_sdk.core.errors import Aborted, InvalidInput
from agent_sdk.core.ids import RandomIds, SystemClock
from agent_sdk.plugins.hook_runner import (
    CONTEXT_BUDGET,
    HookEvent,
    HookReport,
    HookRunner,
    HookStarted,
)
from agent_sdk.plugins.types import (
    AddContext,
    BoundHook,
    Hook,
    HookInput,
    PreToolUseInput,
    PromptVerdict,
    SessionEndInput,
    SessionStartInput,
    StopInput,
    StopVerdict,
    ToolVerdict,
    UserPromptSubmitInput,
)
from tests.support.plugins import Says

START = SessionStartInput(session_id="s", cwd="/w")
CALL = PreToolUseInput(
    session_id="s",
    cwd="/w",
    tool_call_id="c1",
    tool_name="bash",
    tool_input={"command": "ls", "deep": {"list": [1]}},
)


def bound(handler: Any, event: Any = "SessionStart", **more: Any) -> BoundHook:
    return BoundHook(plugin_id="p", hook=Hook(event=event, handler=handler, name="h", **more))


class Bench:
    def __init__(self, grace: float = 2.0) -> None:
        self.told: list[HookEvent] = []
        self.runner = HookRunner(
            ids=RandomIds(), clock=SystemClock(), report=self.told.append, grace=grace
        )

    async def one(self, hook: BoundHook, data: HookInput = START) -> HookReport:
        outcome = await self.runner.invoke(hook, data, AbortSignal())
        assert outcome.report == self.told[-1]
        return outcome.report


async def test_no_handler_sees_what_another_does_to_its_input() -> None:
    async def spoils(data: PreToolUseInput, signal: AbortSignal) -> None:
        data.tool_input["command"] = "rm -rf /"
        data.tool_input["deep"]["list"].append(2)

    after = Says()
    bench = Bench()
    hooks = [bound(spoils, "PreToolUse"), bound(after, "PreToolUse")]
    await bench.runner.run(hooks, CALL, AbortSignal())
    assert after.told[0].tool_input == {"command": "ls", "deep": {"list": [1]}}
    assert CALL.tool_input == {"command": "ls", "deep": {"list": [1]}}


async def test_an_answer_is_a_copy_too() -> None:
    mine = {"command": "ls"}

    async def keeps(data: PreToolUseInput, signal: AbortSignal) -> ToolVerdict:
        return ToolVerdict(tool_input=mine)

    outcome = await Bench().runner.invoke(bound(keeps, "PreToolUse"), CALL, AbortSignal())
    mine["command"] = "rm -rf /"
    assert outcome.result == ToolVerdict(tool_input={"command": "ls"})
    assert outcome.report.replaced_input


async def test_input_is_spelt_in_camel_case_and_each_invocation_has_an_id() -> None:
    said = Says()
    bench = Bench()
    await bench.runner.run([bound(said, "PreToolUse")] * 2, CALL, AbortSignal())
    wire = msgspec.to_builtins(said.told[0])
    assert wire["event"] == "PreToolUse"
    assert {k: wire[k] for k in ("sessionId", "cwd", "toolCallId", "toolName", "toolInput")} == {
        "sessionId": "s",
        "cwd": "/w",
        "toolCallId": "c1",
        "toolName": "bash",
        "toolInput": {"command": "ls", "deep": {"list": [1]}},
    }
    ids = [data.invocation_id for data in said.told]
    assert len(set(ids)) == 2
    assert [event.invocation_id for event in bench.told] == [ids[0], ids[0], ids[1], ids[1]]


async def test_handlers_run_one_after_the_other_and_are_told_of() -> None:
    order: list[str] = []

    def slow(name: str) -> BoundHook:
        async def handler(data: HookInput, signal: AbortSignal) -> None:
            order.append(f"{name} begins")
            await asyncio.sleep(0)
            order.append(f"{name} ends")

        return bound(handler)

    bench = Bench()
    await bench.runner.run([slow("a"), slow("b")], START, AbortSignal())
    assert order == ["a begins", "a ends", "b begins", "b ends"]
    assert [type(event) for event in bench.told] == [HookStarted, HookReport] * 2
    assert bench.told[0] == HookStarted(
        event="SessionStart",
        plugin_id="p",
        handler="h",
        invocation_id=bench.told[0].invocation_id,
    )


async def test_a_handler_out_of_time_is_signalled_cancelled_and_told_of() -> None:
    seen: dict[str, Any] = {}

    async def hangs(data: HookInput, signal: AbortSignal) -> AddContext:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            seen["signal"] = signal.aborted
            raise
        return AddContext()

    report = await Bench().one(bound(hangs, timeout=0.02))
    assert (report.status, report.stuck) == ("timed_out", False)
    assert "0.02 seconds" in report.error
    assert seen == {"signal": True}


async def test_a_handler_that_will_not_end_is_left_behind(caplog: Any) -> None:
    let_go = asyncio.Event()

    async def deaf(data: HookInput, signal: AbortSignal) -> None:
        while not let_go.is_set():
            try:
                await let_go.wait()
            except asyncio.CancelledError:
                continue

    bench = Bench(grace=0.02)
    report = await bench.one(bound(deaf, timeout=0.02))
    assert (report.status, report.stuck) == ("timed_out", True)
    with caplog.at_level(logging.WARNING, "zpi.hooks"):
        await bench.runner.aclose()
    assert "do not end" in caplog.text
    let_go.set()
    await bench.runner.aclose()


@pytest.mark.parametrize("cooperative", [True, False])
async def test_a_stop_of_the_run_ends_the_handler_and_raises(cooperative: bool) -> None:
    signal, begun, ended = AbortSignal(), asyncio.Event(), asyncio.Event()

    async def handler(data: HookInput, own: AbortSignal) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            assert own.aborted
            ended.set()
            if not cooperative:
                return  # swallows its cancellation
            raise

    bench = Bench()
    never = Says()
    running = asyncio.ensure_future(bench.runner.run([bound(handler), bound(never)], START, signal))
    await begun.wait()
    signal.abort("enough")
    with pytest.raises(Aborted, match="enough"):
        await running
    assert ended.is_set()
    assert never.told == []
    assert isinstance(bench.told[-1], HookReport)
    assert bench.told[-1].status == "aborted"
    with pytest.raises(Aborted):
        await bench.runner.invoke(bound(never), START, signal)
    assert never.told == []


async def test_cancelling_the_caller_is_never_swallowed() -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    async def handler(data: HookInput, signal: AbortSignal) -> AddContext:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return AddContext()

    bench = Bench()
    running = asyncio.ensure_future(bench.runner.invoke(bound(handler), START, AbortSignal()))
    await begun.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert ended.is_set()


async def test_failures_are_outcomes_that_do_not_tell_what_a_bug_held() -> None:
    async def cancels_itself(data: HookInput, signal: AbortSignal) -> None:
        raise asyncio.CancelledError

    def not_async(data: HookInput, signal: AbortSignal) -> None:
        return None

    bench = Bench()
    bug = await bench.one(bound(Says(ValueError("secret"))))
    assert (bug.status, bug.error) == ("failed", "It failed unexpectedly (ValueError).")
    known = await bench.one(bound(Says(InvalidInput("No such file 'x'."))))
    assert (known.status, known.error) == ("failed", "No such file 'x'.")
    assert (await bench.one(bound(cancels_itself))).error == "It cancelled itself."
    assert (await bench.one(bound(not_async))).error == "It is not an async function."
    after = Says(AddContext(context=("still here",)))
    outcomes = await bench.runner.run([bound(Says(KeyError())), bound(after)], START, AbortSignal())
    assert [o.failed for o in outcomes] == [True, False]


@pytest.mark.parametrize(
    ("event", "data", "answer", "why"),
    [
        ("SessionStart", START, StopVerdict(feedback="x"), "takes AddContext"),
        ("SessionStart", START, {"context": ["x"]}, "takes AddContext"),
        ("SessionStart", START, AddContext(context="abc"), "not usable"),  # type: ignore[arg-type]
        ("PreToolUse", CALL, ToolVerdict(tool_input=[1]), "not usable"),  # type: ignore[arg-type]
        ("PreToolUse", CALL, ToolVerdict(tool_input={"a": object()}), "not usable"),
        ("PreToolUse", CALL, ToolVerdict(decision="ask"), "not usable"),  # type: ignore[arg-type]
        ("SessionEnd", SessionEndInput(session_id="s", cwd="/"), AddContext(), "only observed"),
    ],
)
async def test_answers_are_checked(event: str, data: HookInput, answer: Any, why: str) -> None:
    report = await Bench().one(bound(Says(answer), event), data)
    assert report.status == "failed"
    assert why in report.error


async def test_a_refusal_is_seen_in_the_report() -> None:
    bench = Bench()
    prompt = UserPromptSubmitInput(session_id="s", cwd="/", prompt="hi")
    deny, allow = ToolVerdict(decision="deny", reason="no"), ToolVerdict(decision="allow")
    assert (await bench.one(bound(Says(deny), "PreToolUse"), CALL)).status == "denied"
    assert (await bench.one(bound(Says(allow), "PreToolUse"), CALL)).status == "completed"
    refuse = bound(Says(PromptVerdict(refuse="no")), "UserPromptSubmit")
    assert (await bench.one(refuse, prompt)).status == "denied"


@pytest.mark.parametrize(
    ("event", "data", "answer"),
    [
        ("SessionStart", START, AddContext(context=("a" * 20_000, "b" * 20_000, "c"))),
        ("Stop", StopInput(session_id="s", cwd="/"), StopVerdict(feedback="a" * 30_000)),
        ("PreToolUse", CALL, ToolVerdict(decision="deny", reason="a" * 24_001)),
        ("PreToolUse", CALL, ToolVerdict(context=("a" * 24_000, "b"))),
    ],
)
async def test_what_goes_over_the_budget_is_cut_and_says_so(
    event: str, data: HookInput, answer: Any
) -> None:
    report = await Bench().one(bound(Says(answer), event), data)
    assert report.cut
    assert report.context_characters == CONTEXT_BUDGET


async def test_the_budget_itself_is_not_over_it() -> None:
    exact = AddContext(context=("a" * (CONTEXT_BUDGET - 1), "b"))
    outcome = await Bench().runner.invoke(bound(Says(exact)), START, AbortSignal())
    assert outcome.result == exact
    assert not outcome.report.cut


async def test_who_fails_to_show_a_report_does_not_harm_the_run(
    expect_log: Callable[..., None],
) -> None:
    expect_log("a report of a handler could not be shown")

    def broken(event: HookEvent) -> None:
        raise RuntimeError

    runner = HookRunner(ids=RandomIds(), clock=SystemClock(), report=broken)
    said = Says(AddContext(context=("x",)))
    assert (await runner.invoke(bound(said), START, AbortSignal())).result is not None
