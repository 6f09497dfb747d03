"""The loop: order, limits, failures, steering, and what a stop leaves behind."""

import asyncio
from collections.abc import Callable

import pytest

from agent_sdk.core.aio import AbortSignal
from agent_sdk.core.errors import DiskFull
from agent_sdk.core.usage import Usage
from agent_sdk.loop.run import CONTINUE
from agent_sdk.loop.tool_calls import INTERRUPTED, NOT_RUN
from agent_sdk.loop.types import Notice, ToolContext, ToolFinished, ToolStarted
from agent_sdk.providers.messages import AssistantMessage, Json, UserMessage
from agent_sdk.testing.provider import (
    Gate,
    ScriptedProvider,
    answer,
    failure,
    text,
    tool_call,
)
from tests.support.loop_fakes import READ, FakePorts, FakeTool, run_loop, user


async def quick(args: Json, context: ToolContext) -> str:
    return f"did {args.get('n', '')}"


async def test_plain_answer_is_stored_before_it_is_published() -> None:
    ports = FakePorts()
    end = await run_loop(ScriptedProvider(answer("Hello")), ports)
    assert end.status == "completed"
    assert end.turns == 1
    assert end.usage == Usage(10, 5)
    assert ports.log == [
        "RunStarted",
        "user human",
        "UserMessageAdded",
        "request 1",
        "TurnStarted",
        "assistant end_turn",
        "AssistantMessageAdded",
        "TurnEnded",
    ]


async def test_side_effects_are_journaled_first_and_results_come_before_the_next_request() -> None:
    ports = FakePorts()
    provider = ScriptedProvider(answer(tool_call("bash", {"n": 1})), answer("done"))
    await run_loop(provider, ports, FakeTool("bash", quick))
    order = [x for x in ports.log if x.split()[0] in ("assistant", "journal", "result", "request")]
    assert order == [
        "request 1",
        "assistant tool_use",
        "journal call_1",
        "result call_1",
        "request 2",
        "assistant end_turn",
    ]
    assert ports.results() == {"call_1": "did 1"}


async def test_reads_need_no_journal() -> None:
    ports = FakePorts()
    provider = ScriptedProvider(answer(tool_call("read", {"n": 1})), answer("done"))
    await run_loop(provider, ports, FakeTool("read", quick, READ))
    assert not any(x.startswith("journal") for x in ports.log)
    ports.assert_paired()


async def test_eight_reads_overlap_and_two_writes_do_not() -> None:
    running, most = 0, {"read": 0, "write": 0}

    def overlapping(name: str, barrier: int) -> FakeTool:
        all_here = asyncio.Event()

        async def work(args: Json, context: ToolContext) -> str:
            nonlocal running
            running += 1
            most[name] = max(most[name], running)
            if running == barrier:
                all_here.set()
            if barrier > 1:
                await all_here.wait()  # never comes if they do not overlap
            else:
                await asyncio.sleep(0.01)
            running -= 1
            return "ok"

        return FakeTool(name, work, READ if name == "read" else FakeTool("x", quick).metadata)

    ports = FakePorts()
    provider = ScriptedProvider(
        answer(*(tool_call("read", {"n": i}) for i in range(8))),
        answer(tool_call("write", {"n": 1}), tool_call("write", {"n": 2})),
        answer("done"),
    )
    end = await run_loop(
        provider, ports, overlapping("read", 8), overlapping("write", 1), early_execution=False
    )
    assert end.status == "completed"
    assert most == {"read": 8, "write": 1}
    ports.assert_paired()


async def test_order_across_readers_and_writers_is_the_models() -> None:
    seen: list[str] = []

    async def note(args: Json, context: ToolContext) -> str:
        await asyncio.sleep(0.02 if args["n"] == "slow" else 0)
        seen.append(args["n"])
        return "ok"

    ports = FakePorts()
    provider = ScriptedProvider(
        answer(
            tool_call("read", {"n": "slow"}),
            tool_call("write", {"n": "w"}),
            tool_call("read", {"n": "after"}),
        ),
        answer("done"),
    )
    tools = FakeTool("read", note, READ), FakeTool("write", note)
    await run_loop(provider, ports, *tools, early_execution=False)
    assert seen == ["slow", "w", "after"]


async def test_read_starts_before_the_answer_ends_and_its_result_is_used_once() -> None:
    gate = Gate()
    count = 0

    async def work(args: Json, context: ToolContext) -> str:
        nonlocal count
        count += 1
        gate.open()  # the answer goes on only once the read has run
        return "early"

    ports = FakePorts()
    provider = ScriptedProvider(answer(tool_call("read"), gate, "and more"), answer("done"))
    await asyncio.wait_for(run_loop(provider, ports, FakeTool("read", work, READ)), 10)
    assert count == 1
    assert ports.results() == {"call_1": "early"}
    started = [e for e in ports.events if isinstance(e, ToolStarted)]
    assert [e.early for e in started] == [True]


async def test_calls_that_would_be_asked_for_do_not_start_early() -> None:
    ports = FakePorts()
    ports.asks = {"read"}
    ports.answer.set()
    provider = ScriptedProvider(answer(tool_call("read")), answer("done"))
    await run_loop(provider, ports, FakeTool("read", quick, READ))
    assert [e.early for e in ports.events if isinstance(e, ToolStarted)] == [False]


@pytest.mark.parametrize("early", [True, False])
async def test_unknown_tool_bad_input_and_refusal_are_told_to_the_model(early: bool) -> None:
    ports = FakePorts()
    ports.denied = {"write"}
    provider = ScriptedProvider(
        answer(
            tool_call("nope"),
            tool_call("read", {"bad": 1}),
            tool_call("write"),
            tool_call("read", input_error="cut off at byte 3."),
        ),
        answer("done"),
    )
    end = await run_loop(
        provider,
        ports,
        FakeTool("read", quick, READ),
        FakeTool("write", quick),
        early_execution=early,
    )
    assert end.denials == 1
    told = ports.results()
    assert "no tool 'nope'" in told["call_1"]
    assert "'bad' is not known" in told["call_2"]
    assert told["call_3"] == "write is not wanted."
    assert told["call_4"].startswith("TRUNCATED_ARGUMENTS")
    assert not any(isinstance(e, ToolStarted) for e in ports.events)
    ports.assert_paired()


async def test_a_decision_for_another_input_does_not_count() -> None:
    ports = FakePorts()
    ports.wrong_hash = True
    provider = ScriptedProvider(answer(tool_call("write")), answer("done"))
    await run_loop(provider, ports, FakeTool("write", quick))
    assert "another input" in ports.results()["call_1"]


async def test_a_bug_in_a_tool_is_reported_without_its_text(
    expect_log: Callable[..., None],
) -> None:
    expect_log("tool 'write' failed")

    async def broken(args: Json, context: ToolContext) -> str:
        raise ValueError("secret-inside")

    ports = FakePorts()
    provider = ScriptedProvider(answer(tool_call("write")), answer("done"))
    end = await run_loop(provider, ports, FakeTool("write", broken))
    assert end.status == "completed"
    assert ports.results()["call_1"] == "The tool failed unexpectedly (ValueError)."


async def test_answer_cut_at_the_output_limit_runs_no_call() -> None:
    ports = FakePorts()
    provider = ScriptedProvider(
        answer(tool_call("write"), stop_reason="max_tokens"), answer("done")
    )
    await run_loop(provider, ports, FakeTool("write", quick))
    assert "Not run" in ports.results()["call_1"]
    assert not any(isinstance(e, ToolStarted) for e in ports.events)


async def test_two_turns_of_broken_calls_end_the_run() -> None:
    ports = FakePorts()
    bad = answer(tool_call("write", input_error="cut."))
    end = await run_loop(ScriptedProvider(bad, bad, bad), ports, FakeTool("write", quick))
    assert end.status == "error"
    assert "incomplete twice" in end.error
    assert end.turns == 2
    ports.assert_paired()


async def test_max_turns() -> None:
    ports = FakePorts()
    provider = ScriptedProvider(*(answer(tool_call("write")) for _ in range(5)))
    end = await run_loop(provider, ports, FakeTool("write", quick), max_turns=3)
    assert (end.status, end.turns) == ("max_turns", 3)
    ports.assert_paired()


async def test_failure_before_anything_ends_the_run_with_its_error() -> None:
    ports = FakePorts()
    end = await run_loop(ScriptedProvider(failure("http", status=500, retryable=True)), ports)
    assert (end.status, end.error_code) == ("error", "provider")
    assert [type(m) for m in ports.history] == [UserMessage]


async def test_cut_answer_is_kept_and_continued_once() -> None:
    ports = FakePorts()
    cut = failure("network", "half an ans", retryable=True)
    end = await run_loop(ScriptedProvider(cut, answer("wer")), ports)
    assert end.status == "completed"
    kept = [m for m in ports.history if isinstance(m, AssistantMessage)]
    assert [(m.text, m.stop_reason) for m in kept] == [
        ("half an ans", "error"),
        ("wer", "end_turn"),
    ]
    synthetic = ports.history[2]
    assert isinstance(synthetic, UserMessage)
    assert synthetic.text == CONTINUE
    assert synthetic.origin.kind == "retry"
    assert any(isinstance(e, Notice) and e.code == "stream_cut" for e in ports.events)


async def test_second_cut_in_a_run_is_an_error() -> None:
    ports = FakePorts()
    cut = failure("network", "part", retryable=True)
    end = await run_loop(ScriptedProvider(cut, cut, answer("never")), ports)
    assert end.status == "error"


async def test_call_of_a_cut_answer_is_never_run_nor_stored() -> None:
    ran = False

    async def work(args: Json, context: ToolContext) -> str:
        nonlocal ran
        ran = True
        return ""

    ports = FakePorts()
    cut = failure("network", "I will", tool_call("write"), retryable=True)
    await run_loop(ScriptedProvider(cut, answer("ok")), ports, FakeTool("write", work))
    assert not ran
    ports.assert_paired()


async def test_steered_message_comes_after_the_batch_and_before_the_next_request() -> None:
    ports = FakePorts()

    async def work(args: Json, context: ToolContext) -> str:
        ports.steering.append(user("also this", "steered"))
        return "ok"

    provider = ScriptedProvider(answer(tool_call("write"), tool_call("read")), answer("done"))
    await run_loop(provider, ports, FakeTool("write", work), FakeTool("read", quick, READ))
    order = [x for x in ports.log if x.split()[0] in ("result", "user", "request")]
    assert order == [
        "user human",
        "request 1",
        "result call_1",
        "result call_2",
        "user steered",
        "request 2",
    ]
    assert provider.requests[1].messages[-1] == ports.history[-2]


async def test_queued_prompts_follow_one_by_one() -> None:
    ports = FakePorts()
    ports.follow_up = [user("second", "queued"), user("third", "queued")]
    provider = ScriptedProvider(answer("1"), answer("2"), answer("3"))
    end = await run_loop(provider, ports)
    assert end.turns == 3
    assert [m.text for m in ports.history if isinstance(m, UserMessage)] == [
        "go",
        "second",
        "third",
    ]


async def test_stop_in_the_stream_keeps_the_text_and_no_call() -> None:
    gate, signal = Gate(), AbortSignal()
    ports = FakePorts()
    provider = ScriptedProvider(answer(text("so f", "ar", gate, "never"), tool_call("write")))
    run = asyncio.ensure_future(run_loop(provider, ports, signal=signal))
    await gate.reached.wait()
    signal.abort("enough")
    end = await run
    assert (end.status, end.error) == ("aborted", "enough")
    message = ports.history[-1]
    assert isinstance(message, AssistantMessage)
    assert (message.text, message.stop_reason) == ("so far", "aborted")
    assert provider.cancelled == 1
    ports.assert_paired()


async def test_stop_in_a_call_pairs_everything() -> None:
    signal, here, cleaned = AbortSignal(), asyncio.Event(), False

    async def hang(args: Json, context: ToolContext) -> str:
        nonlocal cleaned
        here.set()
        try:
            await asyncio.sleep(60)
        finally:
            cleaned = True
        return ""

    ports = FakePorts()
    provider = ScriptedProvider(
        answer(tool_call("read"), tool_call("write"), tool_call("write"), tool_call("read"))
    )
    tools = FakeTool("read", quick, READ), FakeTool("write", hang)
    run = asyncio.ensure_future(
        run_loop(provider, ports, *tools, signal=signal, early_execution=False)
    )
    await here.wait()
    signal.abort()
    end = await run
    assert end.status == "aborted"
    assert cleaned
    told = ports.results()
    assert told["call_1"] == "did "
    assert told["call_2"] == INTERRUPTED.format(reason="stopped by the user")
    not_run = NOT_RUN.format(reason="stopped by the user")
    assert told["call_3"] == told["call_4"] == not_run
    ports.assert_paired()


async def test_stop_while_a_question_is_open() -> None:
    signal = AbortSignal()
    ports = FakePorts()
    ports.asks = {"write"}
    provider = ScriptedProvider(answer(tool_call("write")))
    run = asyncio.ensure_future(run_loop(provider, ports, FakeTool("write", quick), signal=signal))
    await ports.asking.wait()
    signal.abort()
    assert (await run).status == "aborted"
    assert ports.results() == {"call_1": NOT_RUN.format(reason="stopped by the user")}


async def test_failing_storage_ends_the_run() -> None:
    ports = FakePorts()
    ports.fail_on_result = DiskFull("No room left.")
    provider = ScriptedProvider(answer(tool_call("read"), tool_call("read")), answer("never"))
    end = await run_loop(provider, ports, FakeTool("read", quick, READ))
    assert (end.status, end.error_code) == ("error", "disk_full")
    assert provider.left == 1


async def test_results_are_published_after_they_are_stored() -> None:
    ports = FakePorts()
    provider = ScriptedProvider(answer(tool_call("write")), answer("done"))
    await run_loop(provider, ports, FakeTool("write", quick))
    at = ports.log.index("result call_1")
    assert ports.log[at + 1] == "ToolFinished"
    finished = [e for e in ports.events if isinstance(e, ToolFinished)]
    assert finished[0].ran


async def test_cancelling_the_task_is_not_swallowed() -> None:
    gate = Gate()
    run = asyncio.ensure_future(run_loop(ScriptedProvider(answer(gate, "x")), FakePorts()))
    await gate.reached.wait()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run


async def test_answer_and_early_results_are_stored_together() -> None:
    gate = Gate()

    async def work(args: Json, context: ToolContext) -> str:
        gate.open()
        return "early"

    ports = FakePorts()
    provider = ScriptedProvider(answer(tool_call("read"), gate), answer("done"))
    await run_loop(provider, ports, FakeTool("read", work, READ))
    at = ports.log.index("assistant tool_use")
    assert ports.log[at : at + 4] == [
        "assistant tool_use",
        "result call_1",
        "AssistantMessageAdded",
        "ToolFinished",
    ]
    ports.assert_paired()


async def test_answer_and_the_start_of_an_allowed_call_are_stored_together() -> None:
    ports = FakePorts()
    ports.asks = {"write"}
    ports.answer.set()
    provider = ScriptedProvider(
        answer(tool_call("bash"), tool_call("bash")), answer(tool_call("write")), answer("done")
    )
    await run_loop(provider, ports, FakeTool("bash", quick), FakeTool("write", quick))
    kinds = ("assistant", "journal", "AssistantMessageAdded", "result")
    order = [x for x in ports.log if x.split()[0] in kinds]
    assert order == [
        "assistant tool_use", "journal call_1", "AssistantMessageAdded", "result call_1",
        "journal call_2", "result call_2",
        "assistant tool_use", "AssistantMessageAdded", "journal call_3", "result call_3",
        "assistant end_turn", "AssistantMessageAdded",
    ]  # fmt: skip


async def test_answer_cut_off_starts_nothing_with_it() -> None:
    ports = FakePorts()
    provider = ScriptedProvider(answer(tool_call("bash"), stop_reason="max_tokens"), answer("done"))
    await run_loop(provider, ports, FakeTool("bash", quick))
    assert not any(x.startswith("journal") for x in ports.log)


async def test_nothing_starts_early_behind_a_call_with_side_effects() -> None:
    value = "old"

    async def change(args: Json, context: ToolContext) -> str:
        nonlocal value
        value = "new"
        return "changed"

    async def look(args: Json, context: ToolContext) -> str:
        return value

    ports = FakePorts()
    provider = ScriptedProvider(
        answer(tool_call("read"), tool_call("write"), tool_call("read"), text("so", "o", "on")),
        answer("done"),
    )
    await run_loop(provider, ports, FakeTool("read", look, READ), FakeTool("write", change))
    assert ports.results() == {"call_1": "old", "call_2": "changed", "call_3": "new"}
    assert [e.early for e in ports.events if isinstance(e, ToolStarted)] == [True, False, False]
