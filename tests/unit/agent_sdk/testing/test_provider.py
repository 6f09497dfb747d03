import asyncio
from contextlib import aclosing

import pytest

from agent_sdk.core.errors import ProviderError
from agent_sdk.providers.base import (
    ArgsDelta,
    BlockStart,
    ModelRequest,
    Provider,
    StreamDone,
    StreamEvent,
    StreamFailed,
    StreamWaiting,
    TextDelta,
)
from agent_sdk.providers.messages import (
    TextBlock,
    ThinkingBlock,
    ToolUseBlock,
    UserMessage,
)
from agent_sdk.providers.models import Model
from agent_sdk.testing.conformance import check_stream_contract
from agent_sdk.testing.provider import (
    Answer,
    Gate,
    Script,
    ScriptedProvider,
    answer,
    failure,
    text,
    thinking,
    tool_call,
)

MODEL = Model(id="m", provider="p", api="openai-completions")


def ask(prompt: str = "hi") -> ModelRequest:
    return ModelRequest(model=MODEL, messages=[UserMessage(content=(TextBlock(prompt),))])


async def play(*script: Script) -> list[StreamEvent]:
    provider: Provider = ScriptedProvider(*script)
    return [event async for event in provider.stream(ask())]


async def test_an_answer_is_streamed_block_by_block() -> None:
    events = await play(
        answer(thinking("hm", signature="s"), text("Hello there", deltas=2), tool_call("read"))
    )
    check_stream_contract(events)
    done = events[-1]
    assert isinstance(done, StreamDone)
    assert done.message.content == (
        ThinkingBlock("hm", "s"),
        TextBlock("Hello there"),
        ToolUseBlock("call_1", "read"),
    )
    assert done.message.stop_reason == "tool_use"
    assert [e.text for e in events if isinstance(e, TextDelta)] == ["Hello ", "there"]


@pytest.mark.parametrize(
    "script",
    [
        answer("just text"),
        answer(""),
        answer(text("one ", "two ", "three")),
        answer(tool_call("write", {"path": "ü", "n": [1, {"a": None}]}, deltas=7)),
        answer(tool_call("write", {"path": "a"}, input_error="cut"), stop_reason="max_tokens"),
        answer(tool_call("a"), tool_call("b"), "and text"),
        answer("waited", before=(StreamWaiting(1.0, 60.0),)),
        failure("rate_limit", retryable=True, status=429),
        failure("incomplete", "half of it"),
        failure("incomplete", "half of it", tool_call("read")),
        failure("incomplete", tool_call("read")),
    ],
)
async def test_every_kind_of_script_keeps_the_contract(script: Answer) -> None:
    check_stream_contract(await play(script))


async def test_a_failure_keeps_the_text_but_not_the_calls() -> None:
    events = await play(failure("incomplete", "half", tool_call("read"), message="cut off"))
    last = events[-1]
    assert isinstance(last, StreamFailed)
    assert last.error.kind == "incomplete"
    assert last.partial is not None
    assert last.partial.content == (TextBlock("half"),)
    assert last.partial.error == "cut off"


async def test_answers_come_in_order_and_requests_are_recorded() -> None:
    provider = ScriptedProvider(answer("1"))
    provider.push(lambda request: answer(f"you said {request.messages[-1].text}"))

    async def late(request: ModelRequest) -> Answer:
        await asyncio.sleep(0)
        return answer("3")

    provider.push(late)
    said = []
    for prompt in ("a", "b", "c"):
        events = [event async for event in provider.stream(ask(prompt))]
        last = events[-1]
        assert isinstance(last, StreamDone)
        said.append(last.message.text)
    assert said == ["1", "you said b", "3"]
    assert [r.messages[-1].text for r in provider.requests] == ["a", "b", "c"]
    assert provider.left == 0


async def test_a_recorded_request_does_not_grow_with_the_callers_list() -> None:
    provider = ScriptedProvider(answer("1"))
    messages = [UserMessage(content=(TextBlock("a"),))]
    async for _ in provider.stream(ModelRequest(model=MODEL, messages=list(messages))):
        messages.append(messages[0])
    assert len(provider.requests[0].messages) == 1


async def test_call_ids_are_unique_over_all_answers() -> None:
    provider = ScriptedProvider(
        answer(tool_call("a"), tool_call("b", id="mine")), answer(tool_call("a"))
    )
    ids = []
    for _ in range(2):
        async for event in provider.stream(ask()):
            if isinstance(event, BlockStart):
                ids.append(event.tool_id)  # noqa: PERF401
    assert ids == ["call_1", "mine", "call_2"]


async def test_nothing_scripted_is_a_clear_failure() -> None:
    events = await play()
    check_stream_contract(events)
    last = events[-1]
    assert isinstance(last, StreamFailed)
    assert last.error.kind == "invalid_request"
    assert "Nothing is scripted for request 1" in str(last.error)


async def test_a_gate_stops_the_answer_until_it_is_opened() -> None:
    gate = Gate()
    provider = ScriptedProvider(answer(text("a", gate, "b")))
    seen: list[StreamEvent] = []

    async def consume() -> None:
        async for event in provider.stream(ask()):
            seen.append(event)  # noqa: PERF401 - watched while it grows

    async with asyncio.TaskGroup() as group:
        group.create_task(consume())
        await gate.reached.wait()
        assert [e.text for e in seen if isinstance(e, TextDelta)] == ["a"]
        gate.open()
    assert isinstance(seen[-1], StreamDone)


async def test_pauses_in_seconds_run_on_the_given_clock() -> None:
    slept: list[float] = []

    class Clock:
        def iso(self) -> str:
            return ""

        def monotonic(self) -> float:
            return 0.0

        async def sleep(self, seconds: float) -> None:
            slept.append(seconds)

    provider = ScriptedProvider(answer(2.5, text("a", 3600.0, "b")), clock=Clock())
    async for _ in provider.stream(ask()):
        pass
    assert slept == [2.5, 3600.0]


async def test_cancellation_passes_through_and_frees_the_provider() -> None:
    gate = Gate()
    provider = ScriptedProvider(answer("a", gate), answer("b"))

    async def consume() -> None:
        async for _ in provider.stream(ask()):
            pass

    task = asyncio.get_running_loop().create_task(consume())
    await gate.reached.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert provider.cancelled == 1
    events = [event async for event in provider.stream(ask())]
    assert isinstance(events[-1], StreamDone)


async def test_leaving_a_stream_early_frees_the_provider() -> None:
    provider = ScriptedProvider(answer("abc"), answer("b"))
    async with aclosing(provider.stream(ask())) as stream:
        async for event in stream:
            if isinstance(event, TextDelta):
                break
    assert provider.cancelled == 1
    events = [event async for event in provider.stream(ask())]
    assert isinstance(events[-1], StreamDone)
    assert provider.cancelled == 1


async def test_overlapping_requests_are_refused() -> None:
    provider = ScriptedProvider(answer("a"), answer("b"))
    async with aclosing(provider.stream(ask())) as first:
        await anext(first)
        with pytest.raises(RuntimeError, match="overlap"):
            await anext(provider.stream(ask()))


async def test_a_closed_provider_takes_no_request() -> None:
    provider = ScriptedProvider(answer("a"))
    await provider.aclose()
    await provider.aclose()
    with pytest.raises(RuntimeError, match="closed"):
        await anext(provider.stream(ask()))


async def test_arguments_are_streamed_as_json() -> None:
    events = await play(answer(tool_call("write", {"path": "a b"}, deltas=4)))
    parts = [e.text for e in events if isinstance(e, ArgsDelta)]
    assert len(parts) == 4
    assert "".join(parts) == '{"path":"a b"}'


async def test_an_error_says_what_it_was_told_to_say() -> None:
    events = await play(failure("overloaded", message="busy", retryable=True, status=529))
    last = events[-1]
    assert isinstance(last, StreamFailed)
    assert isinstance(last.error, ProviderError)
    assert (last.error.kind, last.error.status, last.error.retryable) == ("overloaded", 529, True)
    assert last.partial is None
