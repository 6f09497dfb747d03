"""Just enough HTTP/1.1 for the mock server: requests in, heads and chunks out."""

import asyncio
from collections.abc import Mapping

import msgspec
from msgspec import Struct

from agent_sdk.providers.messages import Json

_MAX_BODY = 256 << 20
_REASONS = {
    200: "OK",
    307: "Temporary Redirect",
    400: "Bad Request",
    401: "Unauthorized",
    403: "Forbidden",
    404: "Not Found",
    413: "Content Too Large",
    429: "Too Many Requests",
    500: "Internal Server Error",
    503: "Service Unavailable",
}


class BadRequest(Exception):
    """The client sent something that is no request; the text says what."""


class HttpRequest(Struct, frozen=True, kw_only=True):
    """One request; header names are in lower case."""

    method: str
    path: str
    headers: dict[str, str]
    body: Json


async def read_request(reader: asyncio.StreamReader) -> HttpRequest | None:
    """Read one request; None if the client has closed the connection.

    Raises:
        BadRequest: If it is not HTTP, too large or not JSON.
    """
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
    except asyncio.LimitOverrunError as error:
        raise BadRequest("the head is too long") from error
    lines = head.decode("latin-1").split("\r\n")
    parts = lines[0].split(" ")
    if len(parts) != 3:
        raise BadRequest(f"no request line: {lines[0]!r}")
    headers: dict[str, str] = {}
    for line in lines[1:]:
        name, colon, value = line.partition(":")
        if colon:
            headers[name.strip().lower()] = value.strip()
    raw = await _read_body(reader, headers)
    try:
        body = msgspec.json.decode(raw, type=dict) if raw else {}
    except msgspec.DecodeError as error:
        raise BadRequest(f"the body is not a JSON object: {error}") from error
    return HttpRequest(method=parts[0], path=parts[1], headers=headers, body=body)


async def _read_body(reader: asyncio.StreamReader, headers: Mapping[str, str]) -> bytes:
    if headers.get("transfer-encoding", "").lower() == "chunked":
        whole = bytearray()
        while size := int(await reader.readline(), 16):
            if len(whole) + size > _MAX_BODY:
                raise BadRequest("the body is too large")
            whole += await reader.readexactly(size)
            await reader.readline()
        await reader.readline()
        return bytes(whole)
    length = int(headers.get("content-length", "0"))
    if length > _MAX_BODY:
        raise BadRequest("the body is too large")
    return await reader.readexactly(length)


def answer_head(status: int, headers: Mapping[str, str], *, framed: bool) -> bytes:
    """Return the head of an answer.

    Args:
        status: HTTP status.
        headers: Headers to send.
        framed: Whether the body comes in chunks. If not, and there is no
            ``content-length``, the end of the connection is its end.
    """
    all_headers = dict(headers)
    if framed:
        all_headers["transfer-encoding"] = "chunked"
    elif "content-length" not in all_headers:
        all_headers["connection"] = "close"
    lines = [f"HTTP/1.1 {status} {_REASONS.get(status, 'Unknown')}"]
    lines += [f"{name}: {value}" for name, value in all_headers.items()]
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


def chunk(data: bytes) -> bytes:
    """Return the data as one chunk of a chunked body; nothing for no data."""
    return b"%x\r\n%s\r\n" % (len(data), data) if data else b""


async def write_json(
    writer: asyncio.StreamWriter,
    status: int,
    body: Json,
    *,
    headers: Mapping[str, str] | None = None,
) -> None:
    """Send a whole JSON answer."""
    data = msgspec.json.encode(body)
    sent = {
        "content-type": "application/json",
        "content-length": str(len(data)),
        **(headers or {}),
    }
    writer.write(answer_head(status, sent, framed=False) + data)
    await writer.drain()
