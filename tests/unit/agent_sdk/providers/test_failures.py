"""What status, headers and body of a failed request mean."""

import json
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from agent_sdk.core.errors import ProviderError
from agent_sdk.providers.failures import (
    address_of,
    is_overflow,
    redact,
    response_failure,
    retry_after,
)
from agent_sdk.providers.models import Model

KEY = "sk-canary-0123456789"
NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
MODEL = Model(id="claude-x", provider="anthropic", api="anthropic-messages")


def failure(
    status: int, body: object = b"", headers: dict[str, str] | None = None
) -> ProviderError:
    return response_failure(
        status=status,
        headers=headers or {},
        body=body if isinstance(body, bytes) else json.dumps(body).encode(),
        model=MODEL,
        url="https://api.example.com/v1/messages?x=1",
        key=KEY,
        now=NOW,
    )


def said(message: str, kind: str = "some_error") -> object:
    return {"type": "error", "error": {"type": kind, "message": message}}


@pytest.mark.parametrize(
    ("status", "body", "kind", "retryable"),
    [
        (400, said("messages: field required"), "invalid_request", False),
        (400, said("prompt is too long: 9 tokens > 8 maximum"), "context_overflow", False),
        (
            400,
            said("input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000"),
            "context_overflow",
            False,
        ),
        (400, said("Your credit balance is too low"), "quota", False),
        (401, said("invalid x-api-key", "authentication_error"), "authentication", False),
        (402, b"", "quota", False),
        (403, said("not allowed"), "authentication", False),
        (404, said("model: claude-x"), "invalid_request", False),
        (407, b"", "authentication", False),
        (408, b"", "http", True),
        (409, b"", "http", True),
        (413, b"<html><h1>Too large</h1></html>", "context_overflow", False),
        (422, said("bad"), "invalid_request", False),
        (429, said("Too many requests"), "rate_limit", True),
        (429, said("You exceeded your current quota, check billing"), "quota", False),
        (429, said("too many tokens per minute"), "rate_limit", True),
        (500, said("oops"), "http", True),
        (500, said("the request exceeds the available context size"), "context_overflow", False),
        (501, b"", "http", False),
        (502, b"<html>Bad gateway</html>", "http", True),
        (503, said("Service unavailable"), "overloaded", True),
        (504, b"", "http", True),
        (524, b"", "http", True),
        (529, said("Overloaded", "overloaded_error"), "overloaded", True),
        (200, said("Overloaded", "overloaded_error"), "overloaded", True),
        (200, said("bad field", "invalid_request_error"), "invalid_request", False),
        (200, b"<html>Sign in</html>", "protocol", False),
        (204, b"", "invalid_request", False),
    ],
)
def test_kinds(status: int, body: object, kind: str, retryable: bool) -> None:
    error = failure(status, body)
    assert (error.kind, error.retryable, error.status) == (kind, retryable, status)
    assert "api.example.com:443" in error.message
    assert "x=1" not in str(error)


@pytest.mark.parametrize(
    ("status", "told", "retryable"),
    [
        (500, "false", False),
        (429, "false", False),
        (501, "true", True),
        (401, "true", False),
        (400, "true", False),
        (500, "maybe", True),
    ],
)
def test_the_server_may_say_if_a_retry_helps(status: int, told: str, retryable: bool) -> None:
    assert failure(status, headers={"x-should-retry": told}).retryable == retryable


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "3"}, 3),
        ({"retry-after": " 2.5 "}, 2.5),
        ({"retry-after-ms": "1500", "retry-after": "9"}, 1.5),
        ({"retry-after-ms": "soon", "retry-after": "9"}, 9),
        ({"retry-after": "-5"}, 0),
        ({"retry-after": "99999"}, 99_999),
        ({"retry-after": "1e300"}, 1e300),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "later"}, None),
        ({"retry-after": ""}, None),
        ({"retry-after": format_datetime(NOW + timedelta(seconds=30), usegmt=True)}, 30),
        ({"retry-after": format_datetime(NOW - timedelta(seconds=30), usegmt=True)}, 0),
        (
            {  # a server whose clock is an hour ahead
                "date": format_datetime(NOW + timedelta(hours=1), usegmt=True),
                "retry-after": format_datetime(NOW + timedelta(hours=1, seconds=7), usegmt=True),
            },
            7,
        ),
        ({"retry-after": "Fri, 99 Foo 2026 99:99:99 GMT"}, None),
    ],
)
def test_retry_after(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(headers, NOW) == seconds
    assert failure(429, headers=headers).retry_after == seconds
    assert failure(401, headers=headers).retry_after is None


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ({"error": {"message": "openai says", "type": "t", "code": "c"}}, "(t c): openai says"),
        ({"error": "just text"}, ": just text"),
        ({"message": "at the top"}, ": at the top"),
        ({"detail": "fastapi"}, ": fastapi"),
        ([{"error": {"message": "in a list"}}], ": in a list"),
        ({"other": 1}, '{"other":1}'),
        (b"plain   text\n", ": plain text"),
        (b"<html><b>bold</b> page</html>", ": bold page"),
        (b"\xff\xfe", ": \ufffd\ufffd"),
        (b"", "no reason given"),
        (b"[" * 50_000, "[["),
    ],
)
def test_the_servers_words_are_found(body: object, text: str) -> None:
    assert text in failure(400, body).message


def test_the_servers_words_are_cut() -> None:
    assert len(failure(400, said("x" * 10_000)).message) < 4_200
    assert len(failure(400, b"x" * 60_000).message) < 4_200


def test_the_key_is_in_no_text() -> None:
    error = failure(401, said(f"Incorrect API key provided: {KEY}. Or {KEY}!"))
    assert KEY not in repr(error)
    assert KEY not in str(error)
    assert "***" in error.message
    assert redact("a%2Fb-c-d", "a/b-c-d") == "***"
    assert redact("a cat", "cat") == "a cat"  # too short to be a key


def test_a_redirect_names_its_target_and_nothing_else_of_it() -> None:
    location = "https://user:pw@evil.example/steal?key=1"
    error = failure(307, headers={"location": location})
    assert "evil.example:443" in error.message
    assert "pw" not in str(error)
    assert (error.kind, error.retryable) == ("http", False)
    assert "api.example.com:443" in failure(301, headers={"location": "/v2"}).message
    assert not failure(302).retryable


def test_hints_say_what_to_do() -> None:
    assert "ZPI_API_KEY" in failure(401).hint
    assert "'anthropic'" in failure(401).hint
    assert "'claude-x'" in failure(404).hint
    assert "balance" in failure(402).hint
    assert "window" in failure(413).hint
    assert "base URL" in failure(200, b"<html>").hint


def test_request_ids() -> None:
    assert failure(500, headers={"request-id": "req_1"}).request_id == "req_1"
    assert failure(500, headers={"x-request-id": "r2"}).request_id == "r2"
    assert failure(500).request_id is None


def test_a_compressed_body_is_not_read() -> None:
    error = failure(500, b"\x1f\x8b\x08", {"content-encoding": "gzip"})
    assert "'gzip'" in error.message


@pytest.mark.parametrize(
    ("text", "overflow"),
    [
        ("This model's maximum context length is 8192 tokens", True),
        ("Input token count exceeds the limit", True),
        ("Please reduce the length of the messages", True),
        ("exceeded your tokens per minute rate limit", False),
        ("Too many requests", False),
        ("the file is too long", False),
    ],
)
def test_overflow(text: str, overflow: bool) -> None:
    assert is_overflow(text) == overflow


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("https://a.b/c?d", "a.b:443"),
        ("http://u:p@a.b:81/c", "a.b:81"),
        ("http://[::1]:8080/v1", "[::1]:8080"),
        ("ftp://a.b", "a.b"),
        ("http://a:99999", "an address that cannot be read"),
    ],
)
def test_addresses(url: str, address: str) -> None:
    assert address_of(url) == address
