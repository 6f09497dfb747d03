"""Model servers that already run on this machine.

Three kinds are looked for, each at its usual port of the loopback address and
nowhere else: Ollama, LM Studio and the server of llama.cpp. Each is asked for
its list of models with one short request over a plain socket; who does not
answer at once is not there.
"""

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct

from agent_sdk.core.aio import TaskOwner
from agent_sdk.providers.models import Model

HOST = "127.0.0.1"

PATIENCE = 0.3
"""Seconds for all of them together."""

_MAX_ANSWER = 512 * 1024
_MAX_MODELS = 100
_MAX_NAME = 200
_CONTEXT = 8_192
_MAX_OUTPUT = 4_096


class LocalServer(Struct, frozen=True):
    """A kind of server, and where it is looked for.

    Attributes:
        provider: Name of the provider that its models get.
        title: Its own name.
        port: Its usual port.
        owner: What its models must be owned by; empty for anything. Asked for
            where other programs commonly use the same port.
    """

    provider: str
    title: str
    port: int
    owner: str = ""


KNOWN_SERVERS = (
    LocalServer("ollama", "Ollama", 11434),
    LocalServer("lmstudio", "LM Studio", 1234),
    LocalServer("llamacpp", "llama.cpp", 8080, owner="llamacpp"),
)


async def discover(
    *, servers: Sequence[LocalServer] = KNOWN_SERVERS, patience: float = PATIENCE
) -> list[Model]:
    """Return the models of the servers that answer, in the order of the servers.

    Never raises, apart from being cancelled: whatever else answers on these
    ports is no model server.

    Args:
        servers: Where to look.
        patience: Seconds for all of them together; they are asked at once.
    """
    async with TaskOwner(name="discovery") as owner:
        tasks = [owner.start(_ask(server), name=server.provider) for server in servers]
        if tasks:
            await asyncio.wait(tasks, timeout=patience)
        return [m for task in tasks if task.done() and not task.exception() for m in task.result()]


async def _ask(server: LocalServer) -> list[Model]:
    try:
        reader, writer = await asyncio.open_connection(HOST, server.port, limit=64 * 1024)
    except OSError:
        return []
    try:
        # HTTP/1.0: the answer ends with the connection.
        writer.write(
            b"GET /v1/models HTTP/1.0\r\nHost: %s:%d\r\nAccept: application/json\r\n"
            b"Connection: close\r\n\r\n" % (HOST.encode(), server.port)
        )
        answer = bytearray()
        while len(answer) <= _MAX_ANSWER and (data := await reader.read(64 * 1024)):
            answer += data
    except OSError:
        return []
    finally:
        writer.transport.abort()
    return parse_models(bytes(answer), server) if len(answer) <= _MAX_ANSWER else []


def parse_models(answer: bytes, server: LocalServer) -> list[Model]:
    """Return the models that an HTTP answer lists; none if it is anything else.

    Args:
        answer: Head and body as received.
        server: Who was asked.
    """
    head, _, body = answer.partition(b"\r\n\r\n")
    status = head.split(b"\r\n", 1)[0].split(b" ")
    if not status[0].startswith(b"HTTP/1.") or status[1:2] != [b"200"]:
        return []
    if b"\r\ntransfer-encoding: chunked" in head.lower():
        body = _joined(body)
    try:
        listed = msgspec.json.decode(body, type=_Listed).data
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return []
    return [_model(m, server) for m in listed[:_MAX_MODELS] if _usable(m, server)]


class _Entry(Struct):
    id: str
    owned_by: str = ""
    meta: dict[str, Any] | None = None


class _Listed(Struct):
    data: list[_Entry]


def _usable(entry: _Entry, server: LocalServer) -> bool:
    if server.owner and entry.owned_by != server.owner:
        return False
    # Those turn text into numbers; they cannot be talked to.
    speaks = "embed" not in entry.id.lower()
    return speaks and 0 < len(entry.id) <= _MAX_NAME and entry.id.isprintable()


def _model(entry: _Entry, server: LocalServer) -> Model:
    # A server that loaded the model with a context of its own says so.
    said = (entry.meta or {}).get("n_ctx")
    context = said if isinstance(said, int) and said > 0 else _CONTEXT
    short = entry.id.replace("\\", "/").rpartition("/")[2]
    return Model(
        id=entry.id,
        provider=server.provider,
        api="openai-completions",
        base_url=f"http://{HOST}:{server.port}/v1",
        name=f"{short} ({server.title})",
        context_window=context,
        max_output=min(_MAX_OUTPUT, max(1, context // 2)),
        known=False,
    )


def _joined(body: bytes) -> bytes:
    """Return a chunked body in one piece; empty if it is not well formed."""
    parts: list[bytes] = []
    while True:
        size, mark, body = body.partition(b"\r\n")
        try:
            length = int(size.partition(b";")[0], 16)
        except ValueError:
            return b""
        if not mark or length < 0 or len(body) < length:
            return b""
        if length == 0:
            return b"".join(parts)
        parts.append(body[:length])
        body = body[length + 2 :]
