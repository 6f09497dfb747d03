"""Every wire API against every network fault: each ends in a typed result.

The faults are a table in ``agent_sdk.testing.faults``; the server is the
project's own mock, the provider the real one, with its limits made short.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from typing_extensions import override

from agent_sdk.core.ids import SystemClock
from agent_sdk.providers.base import (
    ModelRequest,
    StreamDone,
    StreamEvent,
    StreamFailed,
    StreamRetry,
)
from agent_sdk.providers.http_provider import HttpProvider
from agent_sdk.providers.messages import AssistantMessage, TextBlock, UserMessage
from agent_sdk.providers.models import Model
from agent_sdk.providers.retry import RetryPolicy
from agent_sdk.providers.runtime import create_adapter
from agent_sdk.providers.transport import Limits
from agent_sdk.testing.conformance import check_stream_contract
from agent_sdk.testing.faults import FAULTS, Fault
from agent_sdk.testing.mock_server import MockCall, MockScript, MockServer, MockTurn
from agent_sdk.testing.mock_wire import APIS, PATHS, WireApi

PATIENT = Limits(first_event_local=20, idle=20, waiting=0)
HASTY = Limits(first_event_local=0.2, idle=0.15, waiting=0)
POLICY = RetryPolicy(max_attempts=3)
TURN = MockTurn(
    text="I will write the file now.",
    calls=(MockCall(name="write", input={"path": "a.txt", "content": "precious"}),),
)
CANARY = "sk-canary-0123456789abcdef"
STALLS = {name for name, fault in FAULTS.items() if "timeout" in fault.expect}
PASSING = [f.name for f in FAULTS.values() if f.retryable and not f.refuse and f.name not in STALLS]


class QuickClock(SystemClock):
    """A clock whose waits before retries take no time; they are noted instead."""

    def __init__(self) -> None:
        self.ahead = 0.0
        self.waits: list[float] = []

    @override
    def monotonic(self) -> float:
        return time.monotonic() + self.ahead

    @override
    async def sleep(self, seconds: float) -> None:
        task = asyncio.current_task()
        if task is not None and task.get_name().startswith("request/"):
            await asyncio.sleep(seconds)
            return
        self.waits.append(seconds)
        self.ahead += seconds


class Played:
    """What came of one request."""

    def __init__(self, server: MockServer, clock: QuickClock, events: list[StreamEvent]) -> None:
        self.events = events
        self.waits = clock.waits
        self.requests = server.requests
        self.retries = [e for e in events if isinstance(e, StreamRetry)]
        self.last = events[-1]

    @property
    def outcome(self) -> str:
        if isinstance(self.last, StreamFailed):
            return self.last.error.kind
        assert isinstance(self.last, StreamDone)
        return "unusable_call" if _unusable(self.last.message) else "done"


def _unusable(message: AssistantMessage) -> bool:
    return any(c.input_error for c in message.tool_calls)


@asynccontextmanager
async def provider_for(
    api: WireApi, clock: QuickClock, limits: Limits
) -> AsyncIterator[HttpProvider]:
    provider = HttpProvider(
        adapter=create_adapter(api),
        credential=lambda: CANARY,
        clock=clock,
        random=lambda: 0.5,
        policy=POLICY,
        limits=limits,
    )
    try:
        yield provider
    finally:
        await provider.aclose()


def ask(api: WireApi, url: str) -> ModelRequest:
    return ModelRequest(
        model=Model(id="mock", provider="p", api=api, base_url=url),
        messages=(UserMessage(content=(TextBlock("write it"),)),),
        max_tokens=1000,
    )


async def play(
    api: WireApi, script: MockScript, *, fault: Fault, faults: dict[str, Fault] | None = None
) -> Played:
    clock = QuickClock()
    limits = HASTY if fault.name in STALLS else PATIENT
    async with (
        MockServer(script, faults=faults) as server,
        provider_for(api, clock, limits) as provider,
    ):
        if fault.refuse:
            await server.aclose()
        async with asyncio.timeout(20):
            events = [e async for e in provider.stream(ask(api, server.url))]
        check_stream_contract(events)
        return Played(server, clock, events)


def always(fault: Fault) -> MockScript:
    return MockScript(turns=(MockTurn(text=TURN.text, calls=TURN.calls, fault=fault.name),))


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("name", sorted(FAULTS))
async def test_each_fault_ends_in_its_typed_result(api: WireApi, name: str) -> None:
    fault = FAULTS[name]
    played = await play(api, always(fault), fault=fault)
    assert played.outcome in fault.expected(api)
    _no_call_from_a_cut_answer(played)
    _retries_are_as_the_contract_says(played, fault)
    if isinstance(played.last, StreamFailed):
        error = played.last.error
        assert error.message
        assert CANARY not in str(error)
        assert (
            error.status == (fault.status if fault.status >= 300 else None) or fault.status == 200
        )


def _no_call_from_a_cut_answer(played: Played) -> None:
    """Only a whole answer may hold a call that could be run."""
    if isinstance(played.last, StreamFailed):
        assert played.last.partial is None or not played.last.partial.tool_calls
    elif played.outcome == "unusable_call":
        assert isinstance(played.last, StreamDone)
        assert all(c.input == {} for c in played.last.message.tool_calls)


def _retries_are_as_the_contract_says(played: Played, fault: Fault) -> None:
    asked = len(played.requests)
    assert asked <= POLICY.max_attempts
    assert len(played.retries) == len(played.waits)
    assert [r.delay for r in played.retries] == played.waits
    if isinstance(played.last, StreamDone):
        assert asked == 1
        return
    shown = any(not isinstance(e, StreamRetry | StreamFailed) for e in played.events)
    if fault.refuse:
        assert len(played.retries) == POLICY.max_attempts - 1
    elif shown or not fault.retryable:
        assert asked == 1
    elif played.outcome == "empty":
        assert asked == 2
    else:
        assert asked == POLICY.max_attempts
    if "retry-after" in fault.headers:
        assert all(wait >= float(fault.headers["retry-after"]) for wait in played.waits)


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("name", PASSING)
async def test_a_fault_that_passes_is_got_over_or_shown(api: WireApi, name: str) -> None:
    """It happens once: where nothing had been shown, the second attempt succeeds."""
    fault = FAULTS[name]
    turn = MockTurn(text=TURN.text, calls=TURN.calls, fault=name)
    played = await play(api, MockScript(queue=(turn,), turns=(TURN,)), fault=fault)
    if not played.retries:
        assert played.outcome in fault.expected(api)
        assert len(played.requests) == 1
        return
    assert len(played.requests) == 2
    assert isinstance(played.last, StreamDone)
    assert played.last.message.text == TURN.text
    assert [c.input for c in played.last.message.tool_calls] == [TURN.calls[0].input]


@pytest.mark.parametrize("api", APIS)
async def test_stopping_during_a_wait_is_immediate(api: WireApi) -> None:
    clock = SystemClock()
    script = always(FAULTS["rate_limit_retry_after"])
    provider = HttpProvider(adapter=create_adapter(api), credential=lambda: CANARY, clock=clock)
    async with MockServer(script) as server:
        waiting = asyncio.Event()

        async def consume() -> None:
            async for event in provider.stream(ask(api, server.url)):
                if isinstance(event, StreamRetry):
                    waiting.set()

        task = asyncio.get_running_loop().create_task(consume())
        await waiting.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            async with asyncio.timeout(1):
                await task
        await provider.aclose()
    assert len(server.requests) == 1


@pytest.mark.parametrize("api", APIS)
async def test_a_redirect_is_not_followed_and_the_key_stays_home(api: WireApi) -> None:
    async with MockServer(MockScript(turns=(TURN,))) as other:
        path = next(path for path, known in PATHS.items() if known == api)
        fault = Fault(
            name="redirect_to_other",
            expect=("http",),
            status=307,
            headers={"location": other.url + path},
            body=b"",
        )
        played = await play(api, always(fault), fault=fault, faults={fault.name: fault})
        assert played.outcome == "http"
        assert len(played.requests) == 1
        assert other.requests == []


@pytest.mark.parametrize("api", APIS)
async def test_the_key_is_sent_to_the_server_that_it_is_for(api: WireApi) -> None:
    played = await play(api, MockScript(turns=(TURN,)), fault=FAULTS["overloaded"])
    assert played.outcome == "done"
    headers = played.requests[0].headers
    assert CANARY in headers.get("x-api-key", "") + headers.get("authorization", "")
    assert headers["accept-encoding"] == "identity"


def test_the_table_is_long_enough() -> None:
    assert len(FAULTS) >= 20
