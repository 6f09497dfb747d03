"""What can go wrong between ZPI and a model's server, written as data.

Each fault says what the mock server does and what typed outcome a provider
must make of it, for all three wire APIs. The table is closed over by a test
that runs every API against every fault.
"""

from collections.abc import Mapping
from typing import Literal, TypeAlias

import msgspec
from msgspec import Struct

from agent_sdk.providers.messages import Json, StopReason
from agent_sdk.testing.mock_wire import MockTurn, WireApi, WireEvent

Cut: TypeAlias = Literal[
    "headers", "first_event", "mid_event", "second_delta", "tool_start", "end", "terminal", "no"
]
"""Up to where the answer is sent: nothing but headers; one event; half of the
second delta; the second delta; the event that begins a tool call; everything before the event
that says why it ends; everything but the very last event; all of it."""

Then: TypeAlias = Literal["finish", "close", "reset", "stall", "flood"]
"""What follows: an orderly end, a FIN, a RST, silence, or comments for ever."""

Outcome: TypeAlias = Literal[
    "done",
    "unusable_call",
    "network",
    "timeout",
    "http",
    "rate_limit",
    "overloaded",
    "authentication",
    "protocol",
    "incomplete",
    "empty",
    "context_overflow",
    "quota",
    "refused",
    "invalid_request",
]
"""``done``: a whole answer. ``unusable_call``: an answer whose last call has
``input_error``. Everything else is a kind of ``ProviderError``."""


class Fault(Struct, frozen=True, kw_only=True):
    """One thing that goes wrong.

    Attributes:
        name: Its name in scripts.
        expect: Outcomes that are right; the first is the usual one.
        by_api: Other outcomes for some of the APIs.
        retryable: Whether the same request may be sent again.
        status: HTTP status of the answer.
        headers: Headers that are added or replaced.
        error: Type and text of an error body; none sends the turn.
        body: A body that is sent as it is instead.
        cut: Up to where the turn is streamed.
        raw: What is sent after that, as it is.
        then: What follows.
        stop: Stop reason that is put in the turn's place.
        cut_arguments: How much of the last call's arguments is sent.
        raw_arguments: What is sent in place of the last call's arguments.
        refuse: Whether the connection itself is refused.
        framed: Whether the body is sent in chunks, so that a missing end shows.
    """

    name: str
    expect: tuple[Outcome, ...]
    by_api: Mapping[WireApi, tuple[Outcome, ...]] = {}
    retryable: bool = False
    status: int = 200
    headers: Mapping[str, str] = {}
    error: tuple[str, str] | None = None
    body: bytes | None = None
    cut: Cut = "no"
    raw: bytes = b""
    then: Then = "finish"
    stop: StopReason | None = None
    cut_arguments: int | None = None
    raw_arguments: str | None = None
    refuse: bool = False
    framed: bool = True

    def expected(self, api: WireApi) -> tuple[Outcome, ...]:
        """Return the right outcomes for one API."""
        return self.by_api.get(api, self.expect)


_OVERLOADED = b'{"type":"error","error":{"type":"overloaded_error","code":"overloaded_error","message":"Overloaded"}}'
_HTML = b"<!doctype html><html><body><h1>Sign in to the hotel network</h1></body></html>"
_CUT: tuple[Outcome, ...] = ("incomplete", "network")
_FAILED: tuple[Outcome, ...] = ("protocol", "incomplete", "network")
_LINE = 16 << 20

_TABLE = (
    # the connection
    Fault(name="connection_refused", expect=("network",), retryable=True, refuse=True),
    Fault(
        name="reset_after_headers", expect=("network",), retryable=True, cut="headers", then="reset"
    ),
    Fault(
        name="reset_mid_event",
        expect=("network", "incomplete"),
        retryable=True,
        cut="mid_event",
        then="reset",
    ),
    Fault(
        name="fin_after_headers",
        expect=("empty", "network"),
        retryable=True,
        cut="headers",
        then="close",
        framed=False,
    ),
    Fault(
        name="fin_mid_event",
        expect=_CUT,
        retryable=True,
        cut="mid_event",
        then="close",
        framed=False,
    ),
    Fault(
        name="fin_mid_chunk",
        expect=("network", "incomplete"),
        retryable=True,
        cut="mid_event",
        then="close",
    ),
    Fault(
        name="fin_after_tool_start",
        expect=_CUT,
        retryable=True,
        cut="tool_start",
        then="close",
        framed=False,
    ),
    Fault(
        name="stall_after_headers", expect=("timeout",), retryable=True, cut="headers", then="stall"
    ),
    Fault(
        name="stall_after_event",
        expect=("timeout",),
        retryable=True,
        cut="first_event",
        then="stall",
    ),
    Fault(
        name="stall_mid_answer", expect=("timeout",), retryable=True, cut="mid_event", then="stall"
    ),
    Fault(
        name="comment_flood", expect=("timeout",), retryable=True, cut="first_event", then="flood"
    ),
    Fault(
        name="not_http",
        expect=("protocol", "network"),
        status=0,
        raw=b"220 smtp.example ESMTP\r\n",
    ),
    # the end of the stream
    Fault(name="terminal_missing", expect=("incomplete",), retryable=True, cut="end"),
    Fault(
        name="last_event_missing",
        expect=("incomplete",),
        by_api={"openai-completions": ("done",)},  # the finish reason says that it is whole
        retryable=True,
        cut="terminal",
    ),
    Fault(
        name="done_marker_alone",
        expect=("incomplete",),
        by_api={"anthropic-messages": ("protocol", "incomplete")},  # which knows no such marker
        retryable=True,
        cut="end",
        raw=b"data: [DONE]\n\n",
    ),
    Fault(name="empty_stream", expect=("empty",), retryable=True, cut="headers"),
    Fault(
        name="comments_only",
        expect=("empty",),
        retryable=True,
        cut="headers",
        raw=b": keep-alive\n\n" * 3,
    ),
    # what is in the stream
    Fault(
        name="error_event",
        expect=("overloaded",),
        retryable=True,
        cut="first_event",
        raw=b"event: error\ndata: " + _OVERLOADED + b"\n\n",
    ),
    Fault(
        name="error_event_late",
        expect=("overloaded",),
        retryable=True,
        cut="second_delta",
        raw=b"event: error\ndata: " + _OVERLOADED + b"\n\n",
    ),
    Fault(
        name="invalid_json",
        expect=("protocol",),
        retryable=True,
        cut="first_event",
        raw=b'data: {"type": "content_block_\n\n',
    ),
    Fault(
        name="endless_line",
        expect=("protocol",),
        cut="first_event",
        raw=b"data: " + b"x" * _LINE + b"\n\n",
    ),
    Fault(
        name="html_page", expect=("protocol",), headers={"content-type": "text/html"}, body=_HTML
    ),
    Fault(
        name="gzip",
        expect=_FAILED,
        headers={"content-encoding": "gzip"},
        body=b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03",
    ),
    Fault(
        name="truncated_arguments_length",
        expect=("unusable_call",),
        stop="max_tokens",
        cut_arguments=9,
    ),
    Fault(
        name="truncated_arguments_tool_use",
        expect=("unusable_call",),
        stop="tool_use",
        cut_arguments=9,
    ),
    Fault(
        name="arguments_not_an_object",
        expect=("unusable_call",),
        stop="tool_use",
        raw_arguments='["rm", "-rf"]',
    ),
    # HTTP
    Fault(
        name="rate_limit_retry_after",
        expect=("rate_limit",),
        retryable=True,
        status=429,
        headers={"retry-after": "3"},
        error=("rate_limit_error", "Too many requests"),
    ),
    Fault(
        name="rate_limit",
        expect=("rate_limit",),
        retryable=True,
        status=429,
        error=("rate_limit_error", "Too many requests"),
    ),
    Fault(
        name="rate_limit_for_days",
        expect=("rate_limit",),
        status=429,
        headers={"retry-after": "99999"},
        error=("rate_limit_error", "Too many requests"),
    ),
    Fault(
        name="quota",
        expect=("quota",),
        status=429,
        error=(
            "insufficient_quota",
            "You exceeded your current quota, please check your plan and billing details.",
        ),
    ),
    Fault(
        name="overloaded",
        expect=("overloaded",),
        retryable=True,
        status=529,
        error=("overloaded_error", "Overloaded"),
    ),
    Fault(
        name="unavailable",
        expect=("overloaded", "http"),
        retryable=True,
        status=503,
        error=("api_error", "Service unavailable"),
    ),
    Fault(
        name="server_error",
        expect=("http", "overloaded"),
        retryable=True,
        status=500,
        error=("api_error", "Internal server error"),
    ),
    Fault(
        name="unauthorized",
        expect=("authentication",),
        status=401,
        error=("authentication_error", "invalid api key"),
    ),
    Fault(
        name="forbidden",
        expect=("authentication",),
        status=403,
        error=("permission_error", "not allowed"),
    ),
    Fault(
        name="no_such_model",
        expect=("invalid_request", "http"),
        status=404,
        error=("not_found_error", "model: no such model"),
    ),
    Fault(
        name="bad_request",
        expect=("invalid_request",),
        status=400,
        error=("invalid_request_error", "messages: field required"),
    ),
    Fault(
        name="context_overflow",
        expect=("context_overflow",),
        status=400,
        error=(
            "invalid_request_error",
            "prompt is too long: 300000 tokens > 200000 maximum context length",
        ),
    ),
    Fault(
        name="too_large",
        expect=("context_overflow", "invalid_request"),
        status=413,
        error=("request_too_large", "Request exceeds the maximum size"),
    ),
    Fault(
        name="redirect",
        expect=("http", "protocol", "invalid_request"),
        status=307,
        headers={"location": "http://other.invalid/v1/steal"},
        body=b"",
    ),
)

FAULTS: Mapping[str, Fault] = {fault.name: fault for fault in _TABLE}


def error_body(api: WireApi, error: tuple[str, str]) -> Json:
    """Return the body with which an API reports an error."""
    kind, message = error
    if api == "anthropic-messages":
        return {"type": "error", "error": {"type": kind, "message": message}}
    return {"error": {"message": message, "type": kind, "code": kind, "param": None}}


def disturbed(turn: MockTurn, fault: Fault) -> MockTurn:
    """Return the turn as the fault lets it be said."""
    changes: dict[str, object] = {}
    if fault.stop is not None:
        changes["stop"] = fault.stop
    if fault.cut_arguments is not None:
        changes["cut_arguments"] = fault.cut_arguments
    if fault.raw_arguments is not None:
        changes["raw_arguments"] = fault.raw_arguments
    return msgspec.structs.replace(turn, **changes) if changes else turn


def what_is_sent(events: list[WireEvent], fault: Fault) -> list[bytes]:
    """Return the pieces of the body that go out before the fault strikes."""
    sent: list[bytes] = []
    deltas = 0
    for event in events:
        deltas += event.kind == "delta"
        if _ends_before(event, fault.cut):
            break
        if fault.cut == "mid_event" and deltas == 2:
            sent.append(event.raw[: len(event.raw) // 2])
            break
        sent.append(event.raw)
        if _ends_after(event, fault.cut, deltas):
            break
    return [*sent, fault.raw] if fault.raw else sent


def _ends_before(event: WireEvent, cut: Cut) -> bool:
    match cut:
        case "headers":
            return True
        case "end":
            return event.kind in {"end", "terminal"}
        case "terminal":
            return event.kind == "terminal"
        case _:
            return False


def _ends_after(event: WireEvent, cut: Cut, deltas: int) -> bool:
    match cut:
        case "first_event":
            return True
        case "second_delta":
            return deltas == 2
        case "tool_start":
            return event.kind == "tool_start"
        case _:
            return False
