"""What a failed request means: status, body and sockets to ``ProviderError``.

Pure. Every text is the server's own or ours, never an exception's of the HTTP
library, since those quote headers; the key is taken out of what servers echo.
"""

import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from agent_sdk.core.diagnostics import secret_forms
from agent_sdk.core.errors import ProviderError
from agent_sdk.providers.convert import MAX_ERROR_TEXT, clean_text, stream_error
from agent_sdk.providers.models import Model

_SHORTEST_KEY: Final = 6
"""Keys below this length are not looked for: they would match ordinary words."""

_RETRIED: Final = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529}) | frozenset(
    range(520, 528)
)
_NEVER_RETRIED: Final = frozenset({400, 401, 402, 403, 404, 405, 407, 413, 422})
_REQUEST_IDS: Final = ("request-id", "x-request-id", "x-amzn-requestid", "cf-ray")

# Compiled when they are needed: a request that succeeds needs none of them.
_OVERFLOW: Final = (
    r"(?i)prompt (is )?too (long|large)|too many (input )?tokens"
    r"|context[ _-](length|window|limit|size)|maximum context"
    r"|max(imum)? (input|prompt) (length|tokens)"
    r"|input (token count|length|is too long)|request_too_large|reduce the length"
    r"|exceed\w* .{0,40}(tokens|token limit|context)|range of input length"
)
_THROTTLED: Final = r"(?i)rate[ _-]?limit|too many requests|per (minute|second|day)|throttl"


def is_overflow(text: str) -> bool:
    """Whether a server's words say that the conversation does not fit the model."""
    return bool(re.search(_OVERFLOW, text)) and not re.search(_THROTTLED, text)


def redact(text: str, key: str) -> str:
    """Return the text without the key, in every spelling that it may have there."""
    if len(key) < _SHORTEST_KEY:
        return text
    text = re.sub("".join(map(_spelled, key)), "***", text)
    # The longest first: a shorter one may be a part of it, and its rest would be left.
    for form in sorted(secret_forms(key), key=len, reverse=True):
        text = text.replace(form, "***")
    return text


def _spelled(char: str) -> str:
    """Return a pattern: the character, behind a backslash, or percent-encoded in any case."""
    encoded = "".join(f"%{byte:02x}" for byte in char.encode("utf-8", "surrogatepass"))
    return rf"(?:\\?{re.escape(char)}|(?i:{encoded}))"


def without_key(error: ProviderError, key: str) -> ProviderError:
    """Return an error that a server sent inside a stream, without the key."""
    said = redact(error.message, key)
    if said == error.message:
        return error
    return ProviderError(
        said,
        kind=error.kind,
        hint=error.hint,
        status=error.status,
        retryable=error.retryable,
        retry_after=error.retry_after,
        request_id=error.request_id,
    )


def address_of(url: str) -> str:
    """Return ``host:port`` of an address, without user, path and query."""
    try:
        parts = urlsplit(url)
        port = parts.port or {"https": 443, "http": 80}.get(parts.scheme)
    except ValueError:
        return "an address that cannot be read"
    host = parts.hostname or ""
    shown = f"[{host}]" if ":" in host else host
    return f"{shown}:{port}" if port else shown


def response_failure(
    *,
    status: int,
    headers: Mapping[str, str],
    body: bytes,
    model: Model,
    url: str,
    key: str,
    now: datetime,
) -> ProviderError:
    """Return the error for an answer that is not a stream.

    Args:
        status: HTTP status; 200 for an error that came in place of a stream.
        headers: Headers; names in lower case.
        body: The body, or its beginning.
        model: The model that was asked.
        url: Where it was asked.
        key: The credential, to be taken out of the text.
        now: The wall clock, for dates in ``retry-after``.
    """
    code, said = _words(body, headers)
    said = redact(said, key)
    where = address_of(url)
    if 300 <= status < 400:
        return _redirect(where, headers, status=status)
    kind = _kind(status, code, said)
    retryable = _retryable(status, kind, headers)
    return ProviderError(
        _sentence(status, code, said, where=where),
        kind=kind,
        hint=_hint(status, kind, model),
        status=status,
        retryable=retryable,
        retry_after=retry_after(headers, now) if retryable else None,
        request_id=next((headers[n][:200] for n in _REQUEST_IDS if headers.get(n)), None),
    )


def _sentence(status: int, code: str, said: str, *, where: str) -> str:
    label = f" ({code})" if code and code not in said else ""
    if status == 200:
        return f"{where} answered with no event stream{label}: {said or 'an empty body'}"
    return f"{where} answered {status}{label}: {said or 'no reason given'}"


def _kind(status: int, code: str, said: str) -> str:
    text = f"{code} {said}"
    by_text = stream_error(code, said).kind
    if status == 402 or by_text == "quota":
        return "quota"
    if status == 429:
        return "rate_limit"
    if status == 413 or is_overflow(text):
        return "context_overflow"
    if status in {401, 403, 407}:
        return "authentication"
    if status in {503, 529} or (status >= 500 and by_text == "overloaded"):
        return "overloaded"
    if status >= 500 or status in _RETRIED:
        return "http"
    if by_text == "refused":
        return "refused"
    if status == 200:
        return by_text if code else "protocol"
    return "invalid_request"


def _retryable(status: int, kind: str, headers: Mapping[str, str]) -> bool:
    if kind in {"quota", "context_overflow", "refused"} or status in _NEVER_RETRIED:
        return False
    told = headers.get("x-should-retry", "").strip().lower()
    if told in {"true", "false"}:
        return told == "true"
    if status == 200:  # an error in place of a stream: what it says decides
        return kind in {"rate_limit", "overloaded", "http"}
    return status in _RETRIED


def _hint(status: int, kind: str, model: Model) -> str:
    match kind:
        case "authentication" if status == 407:
            return "The proxy asks for a login; check HTTPS_PROXY."
        case "authentication":
            return (
                f"Check ZPI_API_KEY or the key of {model.provider!r},"
                " and that it may use this model."
            )
        case "quota":
            return f"Check the plan and the balance at {model.provider!r}."
        case "context_overflow":
            return "Compact the conversation, or use a model with a larger context window."
        case "protocol":
            return "Check the base URL and the API type."
        case _ if status == 404:
            return (
                f"Check the model's name {model.id!r} and the base URL; 'zpi models' lists names."
            )
        case _:
            return ""


def _redirect(where: str, headers: Mapping[str, str], *, status: int) -> ProviderError:
    target = headers.get("location", "")
    named = address_of(target) if "://" in target or target.startswith("//") else where
    return ProviderError(
        f"{where} redirects to {named or 'nowhere'} ({status}); redirects are not followed.",
        kind="http",
        hint="Set the base URL to the address that is meant, if you trust it with the key.",
        status=status,
    )


def _words(body: bytes, headers: Mapping[str, str]) -> tuple[str, str]:
    """Return the server's error code and its words, at most 4,000 characters."""
    encoding = headers.get("content-encoding", "identity").strip().lower()
    if encoding not in {"", "identity"}:
        return "", f"a body compressed as {encoding[:40]!r}, though none was asked for"
    try:
        value = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        text = body.decode("utf-8", "replace")
        if text.lstrip()[:1] == "<":
            text = re.sub(r"<[^<>]{0,1000}>", " ", text)
        return "", " ".join(text[: 4 * MAX_ERROR_TEXT].split())[:MAX_ERROR_TEXT]
    code, said = _error_fields(value)
    return code[:200], clean_text(said.strip())[:MAX_ERROR_TEXT]


def _error_fields(value: Any) -> tuple[str, str]:  # noqa: ANN401 - any JSON value
    """Find code and message in the shapes that servers use."""
    if isinstance(value, list) and value:
        value = value[0]
    if not isinstance(value, dict):
        return "", str(value)
    error = value.get("error", value)
    if not isinstance(error, dict):
        return "", str(error)
    codes = (str(error[n]) for n in ("type", "code") if error.get(n))
    said = error.get("message") or error.get("detail") or value.get("message")
    if said is None:
        said = msgspec.json.encode(error).decode()
    return " ".join(dict.fromkeys(codes)), str(said)


def retry_after(headers: Mapping[str, str], now: datetime) -> float | None:
    """Return the seconds that the server asks to wait, or None.

    Understands ``retry-after-ms`` and ``retry-after`` as seconds or as a date;
    what is negative or in the past is 0, what cannot be read is None.

    Args:
        headers: Headers; names in lower case. A ``date`` among them is taken
            for the server's clock.
        now: Our wall clock, with a time zone.
    """
    for name, scale in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        try:
            seconds = float(headers.get(name, "")) / scale
        except ValueError:
            continue
        if math.isfinite(seconds):
            return max(0.0, seconds)
    date = _http_date(headers.get("retry-after", ""))
    if date is None:
        return None
    return max(0.0, (date - (_http_date(headers.get("date", "")) or now)).total_seconds())


def _http_date(text: str) -> datetime | None:
    if not text.strip():
        return None
    from email.utils import parsedate_to_datetime  # noqa: PLC0415 - start-up cost, rarely needed

    try:
        date = parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    return date if date.tzinfo else date.replace(tzinfo=UTC)


def unreachable(url: str, reason: str, *, hint: str = "", retryable: bool = True) -> ProviderError:
    """Return the error for a server to which no connection could be made."""
    return ProviderError(
        f"Cannot connect to {address_of(url)}: {reason}.",
        kind="network",
        hint=hint or "Check the base URL and the network.",
        retryable=retryable,
    )


def broken(url: str, when: str) -> ProviderError:
    """Return the error for a connection that broke; ``when`` says at what."""
    return ProviderError(
        f"The connection to {address_of(url)} broke {when}.", kind="network", retryable=True
    )


def timed_out(url: str, what: str, seconds: float) -> ProviderError:
    """Return the error for something that did not come in time."""
    return ProviderError(
        f"{address_of(url)} sent {what} for {seconds:g} seconds.", kind="timeout", retryable=True
    )


def empty(url: str) -> ProviderError:
    """Return the error for an answer that is whole and holds nothing."""
    return ProviderError(f"{address_of(url)} sent an empty answer.", kind="empty", retryable=True)


def not_connected(url: str, seconds: float) -> ProviderError:
    """Return the error for a connection that was not made in time."""
    return ProviderError(
        f"Cannot connect to {address_of(url)} within {seconds:g} seconds.",
        kind="timeout",
        hint="Check the base URL and the network.",
        retryable=True,
    )


def malformed(url: str, what: str) -> ProviderError:
    """Return the error for an answer that breaks HTTP or the event stream."""
    return ProviderError(
        f"{address_of(url)} sent {what}.",
        kind="protocol",
        hint="Check the base URL and the API type.",
    )
