"""The course of a request over a network and a clock that are made up."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import aclosing
from typing import Literal

import pytest
from msgspec import Struct
from typing_extensions import override

from agent_sdk.core.aio import TaskOwner
from agent_sdk.core.errors import CredentialMissing, InvalidInput, ProviderError
from agent_sdk.providers.anthropic import AnthropicAdapter
from agent_sdk.providers.base import (
    ModelRequest,
    StreamDone,
    StreamEvent,
    StreamFailed,
    StreamRetry,
    StreamStart,
    StreamWaiting,
    TextDelta,
)
from agent_sdk.providers.failures import broken
from agent_sdk.providers.http_provider import HttpProvider
from agent_sdk.providers.messages import TextBlock, UserMessage
from agent_sdk.providers.models import Model
from agent_sdk.providers.sse import MAX_EVENT_BYTES
from agent_sdk.providers.transport import Limits
from agent_sdk.testing.conformance import check_stream_contract
from tests.support.http_fakes import STALL, FakeReply, FakeTransport, ManualClock, Step, settle
from tests.support.streams import recorded

KEY = "sk-canary-0123456789"
RECORDED = recorded("anthropic")
TEXT = RECORDED["text"]
REMOTE = "https://api.example.com"
LOCAL = "http://127.0.0.1:9"


class Case(Struct):
    """A provider with everything around it."""

    provider: HttpProvider
    transport: FakeTransport
    clock: ManualClock


@pytest.fixture
async def cases() -> AsyncIterator[
    Callable[[Sequence[FakeReply | ProviderError | Literal["stall"]]], Case]
]:
    made = []

    def make(answers: Sequence[FakeReply | ProviderError | Literal["stall"]]) -> Case:
        transport, clock = FakeTransport(answers), ManualClock()
        provider = HttpProvider(
            adapter=AnthropicAdapter(),
            credential=lambda: KEY,
            transport=transport,
            clock=clock,
            random=lambda: 0.5,
        )
        made.append(provider)
        return Case(provider, transport, clock)

    yield make
    for provider in made:
        await provider.aclose()


Make = Callable[..., Case]


def request(base_url: str = REMOTE, thinking: str = "") -> ModelRequest:
    model = Model(id="m", provider="p", api="anthropic-messages", base_url=base_url)
    return ModelRequest(
        model=model,
        messages=[UserMessage(content=(TextBlock("hi"),))],
        thinking_level=thinking,
    )


async def collect(
    case: Case, asked: ModelRequest | None = None, *, wait: float = 0.0
) -> list[StreamEvent]:
    """Return all events of a request, while time passes."""
    events: list[StreamEvent] = []

    async def receive() -> None:
        events.extend([e async for e in case.provider.stream(asked or request())])

    async with TaskOwner(name="test") as owner:
        task = owner.start(receive(), name="receive")
        await settle()
        step = 0.25
        for _ in range(int(wait / step)):
            if task.done():
                break
            await case.clock.advance(step)
        await settle()
        assert task.done(), "still waiting"
        await task
    check_stream_contract(events)
    return events


def done(events: list[StreamEvent]) -> str:
    assert isinstance(events[-1], StreamDone), events[-1]
    return events[-1].message.text


def failed(events: list[StreamEvent]) -> ProviderError:
    assert isinstance(events[-1], StreamFailed), events[-1]
    return events[-1].error


def retries_of(events: list[StreamEvent]) -> list[StreamRetry]:
    return [e for e in events if isinstance(e, StreamRetry)]


def http(status: int, **headers: str) -> FakeReply:
    named = {k.replace("_", "-"): v for k, v in headers.items()}
    return FakeReply(b'{"error":{"message":"said"}}', status=status, headers=named)


async def test_a_whole_answer(cases: Make) -> None:
    reply = FakeReply(TEXT)
    case = cases([reply])
    assert done(await collect(case)).startswith("Hello!")
    (sent,) = case.transport.sent
    assert sent.url == "https://api.example.com/v1/messages"
    assert sent.headers["x-api-key"] == KEY
    assert reply.closed


async def test_batches_hold_what_arrived_together(cases: Make) -> None:
    case = cases([FakeReply(TEXT[:800], TEXT[800:])])
    batches = [batch async for batch in case.provider.batches(request())]
    assert len(batches) == 2
    assert all(batches)
    check_stream_contract([event for batch in batches for event in batch])


async def test_the_key_is_asked_for_at_each_attempt() -> None:
    keys = iter(["first-key", "second-key"])
    transport, clock = FakeTransport([http(500), FakeReply(TEXT)]), ManualClock()
    provider = HttpProvider(
        adapter=AnthropicAdapter(),
        credential=lambda: next(keys),
        headers={"x-extra": "1"},
        transport=transport,
        clock=clock,
    )
    await collect(Case(provider, transport, clock), wait=2)
    assert [s.headers["x-api-key"] for s in transport.sent] == ["first-key", "second-key"]
    assert transport.sent[0].headers["x-extra"] == "1"
    await provider.aclose()
    await provider.aclose()
    assert transport.closed == 2


# ----------------------------------------------------------------- retries


async def test_a_failure_before_the_answer_is_tried_again(cases: Make) -> None:
    answers = [http(500), broken("http://h", "early"), http(529), FakeReply(STALL), FakeReply(TEXT)]
    case = cases(answers)
    events = await collect(case, wait=70)
    assert done(events)
    retries = retries_of(events)
    assert [(r.attempt, r.max_attempts, r.delay) for r in retries] == [
        (2, 5, 0.25),
        (3, 5, 0.5),
        (4, 5, 1.0),
        (5, 5, 2.0),
    ]
    assert [r.error.kind for r in retries] == ["http", "network", "overloaded", "timeout"]
    assert len(case.transport.sent) == 5


async def test_five_attempts_and_no_more(cases: Make) -> None:
    case = cases([http(500) for _ in range(9)])
    assert failed(await collect(case, wait=30)).status == 500
    assert len(case.transport.sent) == 5


async def test_retry_after_is_waited_out(cases: Make) -> None:
    case = cases([http(429, retry_after="3"), FakeReply(TEXT)])
    events = await collect(case, wait=10)
    assert retries_of(events)[0].delay == 3.25
    assert done(events)


async def test_a_wait_of_hours_fails_at_once(cases: Make) -> None:
    case = cases([http(429, retry_after="99999")])
    assert "99999 seconds" in failed(await collect(case)).message


@pytest.mark.parametrize("status", [400, 401, 403, 404, 413, 422])
async def test_what_is_wrong_with_the_request_is_not_repeated(cases: Make, status: int) -> None:
    case = cases([http(status)])
    assert failed(await collect(case)).status == status
    assert len(case.transport.sent) == 1


@pytest.mark.parametrize(
    "empty",
    [b"", b"\n\n", b": ping\n\n", RECORDED["empty_text_block"]],
    ids=["nothing", "blank", "comment", "empty text"],
)
async def test_an_empty_answer_is_tried_once_more_and_is_never_a_success(
    cases: Make, empty: bytes
) -> None:
    case = cases([FakeReply(empty) for _ in range(3)])
    assert failed(await collect(case, wait=5)).kind == "empty"
    assert len(case.transport.sent) == 2
    case = cases([FakeReply(empty), FakeReply(TEXT)])
    assert done(await collect(case, wait=5))


async def test_an_overload_after_the_start_is_tried_again(cases: Make) -> None:
    start, _, rest = TEXT.partition(b"event: content_block_start")
    overloaded = RECORDED["error_event"].partition(b"event: error")[2]
    case = cases([FakeReply(start + b"event: error" + overloaded), FakeReply(TEXT)])
    assert rest
    events = await collect(case, wait=5)
    assert done(events)
    assert sum(isinstance(e, StreamStart) for e in events) == 1


async def test_nothing_is_repeated_once_something_was_shown(cases: Make) -> None:
    ends: list[tuple[Step, str]] = [
        (broken("http://h", "late"), "network"),
        (STALL, "timeout"),
        (b"", "incomplete"),
    ]
    for last, kind in ends:
        case = cases([FakeReply(RECORDED["cut_in_text"], last)])
        events = await collect(case, wait=100)
        error = failed(events)
        assert error.kind == kind
        assert error.retryable
        assert isinstance(events[-1], StreamFailed)
        partial = events[-1].partial
        assert partial is not None
        assert (partial.text, partial.stop_reason) == ("The first half", "error")
        assert partial.error == error.message
        assert len(case.transport.sent) == 1


async def test_a_cancel_ends_the_wait_for_a_retry(cases: Make) -> None:
    case = cases([http(429, retry_after="300"), FakeReply(TEXT)])
    async with TaskOwner(name="test") as owner:
        task = owner.start(collect(case, wait=1000), name="receive")
        await settle()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert len(case.transport.sent) == 1


# ------------------------------------------------------------- time limits


async def test_a_server_that_does_not_answer(cases: Make) -> None:
    case = cases(["stall"] * 5)
    events = await collect(case, wait=400)
    error = failed(events)
    assert (error.kind, error.message) == (
        "timeout",
        "api.example.com:443 sent no event for 60 seconds.",
    )
    assert case.transport.cancelled == 5
    assert not [e for e in events if isinstance(e, StreamWaiting)]


async def test_comments_and_pings_are_no_events(cases: Make) -> None:
    ping = b'event: ping\ndata: {"type": "ping"}\n\n'
    start = TEXT.partition(b"event: content_block_start")[0]

    class Pinging(FakeReply):
        @override
        async def chunks(self) -> AsyncIterator[bytes]:
            yield start
            while not self._aborted.is_set():
                await case.clock.sleep(0.5)
                yield b": keep-alive\n\n" + ping
            raise broken("http://h", "aborted")

    case = cases([Pinging(), FakeReply(TEXT)])
    events = await collect(case, wait=70)
    assert [r.error.kind for r in retries_of(events)] == ["timeout"]
    assert done(events)

    class PingingLater(Pinging):
        @override
        async def chunks(self) -> AsyncIterator[bytes]:
            yield RECORDED["cut_in_text"]
            async for chunk in super().chunks():
                yield chunk.removeprefix(start)

    case = cases([PingingLater()])
    error = failed(await collect(case, wait=100))
    assert (error.kind, error.message) == (
        "timeout",
        "api.example.com:443 sent nothing new for 90 seconds.",
    )


async def test_a_slow_answer_is_not_a_dead_one(cases: Make) -> None:
    pieces = [b"event: " + p for p in TEXT.split(b"event: ")[1:]]

    class Slow(FakeReply):
        @override
        async def chunks(self) -> AsyncIterator[bytes]:
            for piece in pieces:
                await case.clock.sleep(40 if b"_delta" in piece else 5)
                yield piece

    case = cases([Slow()])
    assert done(await collect(case, wait=600))


async def test_a_reader_that_takes_its_time_is_no_idle_server(cases: Make) -> None:
    reply = FakeReply(RECORDED["cut_in_text"], TEXT.partition(b"delta\n")[2])
    case = cases([reply])
    async with aclosing(case.provider.stream(request())) as events:
        async for event in events:
            if isinstance(event, TextDelta):
                await case.clock.advance(500)
                break
        assert not reply._aborted.is_set()


async def test_reasoning_may_take_longer(cases: Make) -> None:
    class Thinking(FakeReply):
        @override
        async def chunks(self) -> AsyncIterator[bytes]:
            await case.clock.sleep(200)
            yield TEXT

    for level in ("low", "max"):
        case = cases([Thinking()])
        assert done(await collect(case, request(thinking=level), wait=250))
    for level in ("", "off", "minimal"):
        case = cases([Thinking(), http(400)])
        assert failed(await collect(case, request(thinking=level), wait=100)).status == 400


async def test_a_local_server_gets_longer_and_the_wait_is_shown(cases: Make) -> None:
    class Loading(FakeReply):
        @override
        async def chunks(self) -> AsyncIterator[bytes]:
            await case.clock.sleep(120.1)
            yield TEXT

    case = cases([Loading()])
    events = await collect(case, request(LOCAL), wait=130)
    waits = [e for e in events if isinstance(e, StreamWaiting)]
    assert [w.seconds for w in waits] == [float(n) for n in range(1, 121)]
    assert {w.limit for w in waits} == {600.0}
    assert done(events)


async def test_limits_can_be_set() -> None:
    transport, clock = FakeTransport(["stall", http(400)]), ManualClock()
    provider = HttpProvider(
        adapter=AnthropicAdapter(),
        credential=lambda: "",
        transport=transport,
        clock=clock,
        limits=Limits(first_event=7),
    )
    events = await collect(Case(provider, transport, clock), wait=20)
    assert "7 seconds" in retries_of(events)[0].error.message
    assert "x-api-key" not in transport.sent[0].headers


# -------------------------------------------------------------- cancellation


@pytest.mark.parametrize("answer", ["stall", "headers", "text"])
async def test_a_cancel_closes_the_connection(cases: Make, answer: str) -> None:
    reply = FakeReply(*([RECORDED["cut_in_text"]] if answer == "text" else []), STALL)
    case = cases(["stall"] if answer == "stall" else [reply])
    async with TaskOwner(name="test") as owner:
        task = owner.start(collect(case), name="receive")
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert case.transport.cancelled == (answer == "stall")
    assert reply.closed == (answer != "stall")


async def test_leaving_the_stream_closes_the_connection(cases: Make) -> None:
    reply = FakeReply(TEXT[:900], STALL)
    case = cases([reply])
    async with aclosing(case.provider.stream(request())) as events:
        async for event in events:
            if isinstance(event, TextDelta):
                break
    assert reply.closed


# ---------------------------------------------------------- what is not sent


async def test_no_key_where_one_is_needed() -> None:
    def nothing() -> str:
        raise CredentialMissing("There is no key for 'p'.", hint="Set P_KEY.")

    transport, clock = FakeTransport([]), ManualClock()
    provider = HttpProvider(
        adapter=AnthropicAdapter(), credential=nothing, transport=transport, clock=clock
    )
    error = failed(await collect(Case(provider, transport, clock)))
    assert (error.kind, error.hint) == ("authentication", "Set P_KEY.")


async def test_a_request_that_cannot_be_encoded(cases: Make) -> None:
    class Refusing(AnthropicAdapter):
        @override
        def encode(self, request: ModelRequest) -> bytes:
            raise InvalidInput("No.", hint="Do this.")

    transport, clock = FakeTransport([]), ManualClock()
    provider = HttpProvider(
        adapter=Refusing(), credential=lambda: KEY, transport=transport, clock=clock
    )
    error = failed(await collect(Case(provider, transport, clock)))
    assert (error.kind, str(error)) == ("invalid_request", "No. Do this.")


# ------------------------------------------------------------- strange answers


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        (FakeReply(b"<!doctype html><p>Sign in"), "protocol"),
        (FakeReply(b'{"error":{"type":"overloaded_error","message":"x"}}'), "overloaded"),
        (FakeReply(b"  \n", b'{"id":"msg","content":[]}'), "protocol"),
        (FakeReply(b"\x1f\x8b", headers={"content-encoding": "gzip"}), "protocol"),
        (FakeReply(b"data: " + b"x" * (MAX_EVENT_BYTES + 1)), "protocol"),
        (FakeReply(b"x", status=307, headers={"location": "http://evil.example/"}), "http"),
        (FakeReply(broken("http://h", "in the error's body"), status=500), "http"),
        (FakeReply(b"never ends" * 100_000, status=400), "invalid_request"),
    ],
)
async def test_what_is_no_stream_is_a_typed_failure(
    cases: Make, reply: FakeReply, kind: str
) -> None:
    case = cases([reply, http(400)])
    events = await collect(case, wait=5)
    errors = [r.error for r in retries_of(events)] or [failed(events)]
    assert errors[0].kind == kind
    assert reply.closed


async def test_events_before_an_oversized_one_are_kept(cases: Make) -> None:
    case = cases([FakeReply(RECORDED["cut_in_text"] + b"data: " + b"x" * (MAX_EVENT_BYTES + 9))])
    events = await collect(case)
    assert failed(events).kind == "protocol"
    assert isinstance(events[-1], StreamFailed)
    assert events[-1].partial is not None


async def test_a_key_echoed_in_the_stream_is_taken_out(cases: Make) -> None:
    echo = b'event: error\ndata: {"error":{"type":"api_error","message":"bad key %s"}}\n\n'
    case = cases([FakeReply(RECORDED["cut_in_text"], echo % KEY.encode())])
    events = await collect(case)
    assert "bad key ***" in failed(events).message
    assert KEY not in repr(events)


async def test_an_answer_that_is_whole_is_whole_though_the_connection_breaks(cases: Make) -> None:
    case = cases([FakeReply(TEXT, broken("http://h", "after the end"))])
    assert done(await collect(case))
