import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_sdk.providers.discovery import KNOWN_SERVERS, LocalServer, discover, parse_models

OLLAMA, LM_STUDIO, LLAMA = KNOWN_SERVERS


def answer(*ids: str, owner: str = "library", status: str = "200 OK", head: str = "") -> bytes:
    listed = {
        "object": "list",
        "data": [{"id": i, "object": "model", "owned_by": owner} for i in ids],
    }
    return f"HTTP/1.1 {status}\r\n{head}\r\n".encode() + msgspec.json.encode(listed)


@asynccontextmanager
async def server(data: bytes, *, hang: bool = False) -> AsyncIterator[tuple[int, list[bytes]]]:
    asked: list[bytes] = []
    done = asyncio.Event()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(data)
        if hang:
            await done.wait()
        writer.close()

    listening = await asyncio.start_server(talk, "127.0.0.1", 0)
    try:
        yield listening.sockets[0].getsockname()[1], asked
    finally:
        done.set()
        listening.close()
        await listening.wait_closed()


def at(port: int, kind: LocalServer = OLLAMA) -> LocalServer:
    return msgspec.structs.replace(kind, port=port)


async def test_the_models_of_a_running_server_are_found() -> None:
    async with server(answer("qwen3:8b", "nomic-embed-text")) as (port, asked):
        (model,) = await discover(servers=[at(port)], patience=5)
    assert model.key == "ollama/qwen3:8b"
    assert model.api == "openai-completions"
    assert model.base_url == f"http://127.0.0.1:{port}/v1"
    assert model.name == "qwen3:8b (Ollama)"
    assert not model.known
    assert asked[0].startswith(b"GET /v1/models HTTP/1.0\r\n")


async def test_servers_are_named_in_order_whoever_is_first() -> None:
    async with server(answer("a")) as (one, _), server(answer("b")) as (two, _):
        found = await discover(servers=[at(two, LM_STUDIO), at(one)], patience=5)
    assert [m.key for m in found] == ["lmstudio/b", "ollama/a"]


async def test_nobody_there_is_no_error() -> None:
    async with server(b"") as (port, _):
        pass
    assert await discover(servers=[at(port)], patience=5) == []
    assert await discover(servers=[], patience=5) == []


async def test_who_does_not_answer_is_not_waited_for() -> None:
    async with (
        server(b"HTTP/1.1 200 OK\r\n", hang=True) as (slow, _),
        server(answer("a")) as (quick, _),
    ):
        found = await discover(servers=[at(slow, LM_STUDIO), at(quick)], patience=1)
    assert [m.key for m in found] == ["ollama/a"]


async def test_an_endless_answer_is_cut_off() -> None:
    async with server(b"HTTP/1.1 200 OK\r\n\r\n" + b" " * 2_000_000) as (port, _):
        assert await discover(servers=[at(port)], patience=5) == []


def chunked(data: bytes, size: int) -> bytes:
    parts = [data[i : i + size] for i in range(0, len(data), size)]
    return b"".join(b"%x\r\n%b\r\n" % (len(p), p) for p in [*parts, b""])


@given(st.integers(1, 40))
def test_a_chunked_answer_is_put_together(size: int) -> None:
    head, _, body = answer("a", head="Transfer-Encoding: chunked\r\n").partition(b"\r\n\r\n")
    (model,) = parse_models(head + b"\r\n\r\n" + chunked(body, size), OLLAMA)
    assert model.id == "a"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"HTTP/1.1 200 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n\r\n<html>",
        b'HTTP/1.1 200 OK\r\n\r\n{"data": [{"id": 7}]}',
        b'HTTP/1.1 200 OK\r\n\r\n{"data": null}',
        b"HTTP/1.1 200 OK\r\n\r\n\xff\xfe",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n{}",
        answer("a", status="401 Unauthorized"),
        answer("a", status="404 Not Found"),
        answer("a\nb"),
        answer("", "x" * 500),
        b"SSH-2.0-OpenSSH_9.2\r\n",
    ],
)
def test_anything_else_is_no_server(data: bytes) -> None:
    assert parse_models(data, OLLAMA) == []


@given(st.binary(max_size=80))
def test_no_answer_is_an_error(noise: bytes) -> None:
    assert parse_models(b"HTTP/1.1 200 OK\r\n\r\n" + noise, OLLAMA) == []


def test_at_a_port_that_others_use_the_server_must_say_who_it_is() -> None:
    assert parse_models(answer("a", owner="someone"), LLAMA) == []
    (model,) = parse_models(answer("/models/a.gguf", owner="llamacpp"), LLAMA)
    assert model.name == "a.gguf (llama.cpp)"


@pytest.mark.parametrize(
    ("meta", "context"), [('{"n_ctx": 2048}', 2048), ("null", 8192), ('{"n_ctx": "x"}', 8192)]
)
def test_the_context_is_the_servers_where_it_says_so(meta: str, context: int) -> None:
    body = f'{{"data": [{{"id": "a", "owned_by": "llamacpp", "meta": {meta}}}]}}'
    (model,) = parse_models(b"HTTP/1.1 200 OK\r\n\r\n" + body.encode(), LLAMA)
    assert model.context_window == context
    assert model.max_output <= context // 2


def test_only_loopback_is_ever_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    reached: list[tuple[str, int]] = []

    async def refuse(host: str, port: int, **_: object) -> None:
        reached.append((host, port))
        raise ConnectionRefusedError

    monkeypatch.setattr(asyncio, "open_connection", refuse)
    found = asyncio.run(discover())
    assert found == []
    assert sorted(reached) == [("127.0.0.1", 1234), ("127.0.0.1", 8080), ("127.0.0.1", 11434)]
