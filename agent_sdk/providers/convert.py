"""What the adapters of all wire APIs need: small pure conversions.

Texts are made safe for UTF-8 and JSON, tool arguments are read strictly, ids
are put into the form that an API accepts, and error codes that servers send
inside a stream are given one of our kinds.
"""

import re
from collections.abc import Sequence
from typing import Any

import msgspec

from agent_sdk.core.errors import InvalidInput, ProviderError
from agent_sdk.providers.base import ModelRequest, PromptSection
from agent_sdk.providers.messages import AssistantMessage, Json
from agent_sdk.providers.models import Model

NO_RESULT = "No result: the call was not run, or was interrupted before it ended."
"""Stands in for the result of a call that has none; APIs refuse a call without."""

NO_IMAGE = "[An image is left out here: the model does not take images.]"
NO_DOCUMENT = "[A document is left out here: the model does not take documents.]"
NOT_LOADED = "[An attachment is left out here: its data is not at hand.]"

MAX_ERROR_TEXT = 4_000
"""Most characters of a server's own words that are kept in an error."""

_LONG_ID = 12
"""Ids of this length are random enough to be taken as unique."""

_ENCODER = msgspec.json.Encoder()
_DECODER = msgspec.json.Decoder()
_VERSIONED = re.compile(r"/v\d+[a-z0-9]*(/|$)")
_NOT_IN_IDS = re.compile(r"[^A-Za-z0-9_-]")


def encode_json(value: Any) -> bytes:  # noqa: ANN401 - any JSON value
    """Return compact, strict JSON in UTF-8; lone surrogates become U+FFFD.

    Raises:
        InvalidInput: If the value is not made of JSON types.
    """
    try:
        return _ENCODER.encode(value)
    except UnicodeEncodeError:
        return _ENCODER.encode(_clean(value))
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(f"A value cannot be sent as JSON: {error}.") from error


def clean_text(text: str) -> str:
    """Return the text with surrogate pairs joined and lone ones as U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def _clean(value: Any) -> Any:  # noqa: ANN401 - any JSON value
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, dict):
        return {_clean(k): _clean(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_clean(v) for v in value]
    return value


def parse_arguments(text: str, *, cut: bool = False) -> tuple[Json, str]:
    """Read a tool call's arguments strictly.

    Args:
        text: The JSON text as it arrived. Nothing at all means no arguments.
        cut: Whether the answer ended for want of tokens; then nothing at all
            means that the arguments had not begun.

    Returns:
        The object and an empty string, or an empty object and what is wrong.
    """
    if not text.strip():
        return ({}, "The arguments did not arrive.") if cut else ({}, "")
    try:
        value = _DECODER.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        return {}, f"The arguments are not whole: {error}."
    if not isinstance(value, dict):
        return {}, f"The arguments are {type(value).__name__!r}, not an object."
    return value, ""


def same_origin(message: AssistantMessage, model: Model) -> bool:
    """Whether the message came from exactly this model.

    Only then are its reasoning and its blocks' ``providerState`` sent back.
    """
    return (
        message.model == model.id
        and message.provider == model.provider
        and message.api == model.api
    )


def wire_id(call_id: str, limit: int = 64) -> str:
    """Return a call's id in the form all APIs accept: letters, digits, ``_-``.

    Ids that fit are not changed. Others are cut and get a check sum, so that
    two of them stay two, and a call and its result stay together.

    Args:
        call_id: The id as it is stored.
        limit: Most characters the API takes.
    """
    safe = _NOT_IN_IDS.sub("_", call_id)
    if safe == call_id and 0 < len(call_id) <= limit:
        return call_id
    digest = _fnv(call_id.encode("utf-8", "surrogatepass"))
    return f"{safe[: limit - 17]}_{digest:016x}"


def fresh_id(call_id: str, request: ModelRequest, place: str) -> str:
    """Return an id for a new call that no earlier call of the conversation has.

    Some servers send no ids, or count from zero in each answer.

    Args:
        call_id: The id that the server sent; may be empty.
        request: The request that is answered.
        place: What tells this call from others: response id and index.
    """
    if len(call_id) >= _LONG_ID or (call_id and not _used(call_id, request)):
        return call_id
    seed = f"{len(request.messages)}/{call_id}/{place}"
    return f"call_{_fnv(seed.encode('utf-8', 'surrogatepass')):016x}"


def _used(call_id: str, request: ModelRequest) -> bool:
    return any(
        c.id == call_id
        for m in request.messages
        if isinstance(m, AssistantMessage)
        for c in m.tool_calls
    )


def _fnv(data: bytes) -> int:
    """FNV-1a, 64 bits: stable between processes, and no import."""
    value = 0xCBF29CE484222325
    for byte in data:
        value = (value ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return value


def system_text(sections: Sequence[PromptSection]) -> str:
    """Return the system prompt as one text; empty sections are left out."""
    return "\n\n".join(s.text for s in sections if s.text)


def endpoint(base_url: str, path: str, *, version: str = "/v1") -> str:
    """Return the address of an endpoint for a base URL with or without version.

    A base that names a version in its path (``/v1``, ``/api/paas/v4``,
    ``/v1beta/openai``) is taken as it is, one that names the endpoint already
    too; otherwise ``version`` is put in between. A query is kept at the end.

    Args:
        base_url: Address of the API as configured.
        path: Path of the endpoint, with a leading slash.
        version: What to put in between.
    """
    base, mark, query = base_url.strip().partition("?")
    base = base.rstrip("/")
    if not base.endswith(path):
        after_host = base.partition("://")[2].partition("/")[2]
        base += path if _VERSIONED.search("/" + after_host) else version + path
    return base + mark + query


def host_of(base_url: str) -> str:
    """Return the host of an address in lower case, without port or user."""
    authority = base_url.partition("://")[2].partition("/")[0].rpartition("@")[2]
    if authority.startswith("["):
        return authority.partition("]")[0].lower() + "]"
    return authority.partition(":")[0].lower()


def is_host(base_url: str, *domains: str) -> bool:
    """Whether the address is at one of the domains, or below one."""
    host = host_of(base_url)
    return any(host == d or host.endswith("." + d) for d in domains)


def image_url(source: Json) -> str:
    """Return an image's address (``https:`` or ``data:``), or '' if not at hand."""
    match source:
        case {"type": "base64", "data": str(data)}:
            return f"data:{source.get('media_type') or 'image/png'};base64,{data}"
        case {"type": "url", "url": str(url)}:
            return url
        case _:
            return ""


_OVERFLOW = re.compile(
    r"context[ _-]?(length|window)|maximum context|too long for|prompt is too long"
    r"|input token count|reduce the length|exceed\w* .{0,40}(tokens|token limit)"
    r"|request_too_large|available context",
    re.IGNORECASE,
)
_QUOTA = re.compile(
    r"insufficient[ _]quota|exceeded your current quota|quota exceeded|billing|out of budget"
    r"|insufficient (balance|credit)|available balance|credit balance|usage limit",
    re.IGNORECASE,
)
_RATE = re.compile(r"rate[ _-]?limit|too many requests|\b429\b", re.IGNORECASE)
_BUSY = re.compile(r"overload|\bbusy\b|capacity|unavailable|\b(503|529)\b", re.IGNORECASE)
_AUTH = re.compile(
    r"authentication|unauthori[sz]ed|invalid[ _]api[ _]key|permission_error|\b(401|403)\b",
    re.IGNORECASE,
)
_SERVER = re.compile(
    r"server[ _]error|api_error|internal|upstream|provider returned|timed? ?out|timeout"
    r"|try again|retry|connection|\b(500|502|504|520|524)\b",
    re.IGNORECASE,
)
_REFUSED = re.compile(r"content[ _](filter|policy)|safety|moderation|refus", re.IGNORECASE)

_KINDS: tuple[tuple[re.Pattern[str], str, bool], ...] = (
    (_QUOTA, "quota", False),
    (_RATE, "rate_limit", True),
    (_OVERFLOW, "context_overflow", False),
    (_BUSY, "overloaded", True),
    (_AUTH, "authentication", False),
    (_REFUSED, "refused", False),
    (_SERVER, "http", True),
)


def stream_error(code: str, message: str, *, request_id: str | None = None) -> ProviderError:
    """Return the error for one that the server sent inside a stream.

    Args:
        code: The server's code, type or both; may be empty.
        message: The server's own words; shortened if long.
        request_id: The server's id of the request.
    """
    said = clean_text(message.strip())[:MAX_ERROR_TEXT]
    kind, retryable = "invalid_request", False
    for pattern, name, again in _KINDS:
        if pattern.search(code) or pattern.search(said):
            kind, retryable = name, again
            break
    label = f" ({code})" if code and code not in said else ""
    return ProviderError(
        f"The model's server reported an error{label}: {said or 'no reason given'}",
        kind=kind,
        retryable=retryable,
        request_id=request_id,
    )


def protocol_error(what: str, data: bytes) -> ProviderError:
    """Return the error for an event that breaks the wire format.

    Args:
        what: What is wrong with it.
        data: The event; its first 200 bytes are quoted.
    """
    shown = data[:200].decode("utf-8", "replace")
    return ProviderError(
        f"The model's server sent an event that cannot be read ({what}): {shown!r}",
        kind="protocol",
        retryable=True,
    )
