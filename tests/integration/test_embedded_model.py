"""The embedded model itself, as far as its packages are installed."""

import asyncio
import os
import signal
import sys
import time
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest

from agent_sdk.core.environment import child_environment
from agent_sdk.core.process import ProcessOwner, SpawnSpec
from agent_sdk.providers.base import (
    ModelRequest,
    StreamDone,
    StreamEvent,
    StreamFailed,
    TextDelta,
    ToolSpec,
)
from agent_sdk.providers.local import EMBEDDED_MODEL, LocalProvider, missing_parts
from agent_sdk.providers.local_child import ModelServer, server_command
from agent_sdk.providers.local_server import Said, Start, packaged_weights
from agent_sdk.providers.messages import (
    AssistantMessage,
    Message,
    TextBlock,
    ToolResultBlock,
    UserMessage,
)

if TYPE_CHECKING and sys.platform == "win32":
    raise ImportError  # signals and /proc

pytestmark = [
    pytest.mark.local_model,
    pytest.mark.slow,
    pytest.mark.timeout(240),
    pytest.mark.skipif(
        bool(missing_parts()), reason=f"the package {missing_parts()!r} is not installed"
    ),
]

ROOT = Path(__file__).resolve().parents[2]

README = """# Teapot

Teapot is a small command line program that reminds you when your tea is ready.
It knows green, black and herbal tea, and shows a notification when the time is over.

## Use

    teapot green
"""


def tool(name: str, *fields: str) -> ToolSpec:
    properties = {field: {"type": "string"} for field in fields}
    return ToolSpec(
        name, "", {"type": "object", "properties": properties, "required": list(fields)}
    )


TOOLS = (
    tool("read", "file_path"),
    tool("write", "file_path", "content"),
    tool("edit", "file_path", "old_string", "new_string"),
    tool("bash", "command"),
)


@pytest.fixture
async def processes() -> AsyncIterator[ProcessOwner]:
    async with ProcessOwner() as owner:
        yield owner


@pytest.fixture
async def provider(processes: ProcessOwner) -> AsyncIterator[LocalProvider]:
    provider = LocalProvider(processes=processes)
    yield provider
    await provider.aclose()


def weights() -> Path:
    found = packaged_weights()
    assert found is not None
    return found


def user(text: str) -> UserMessage:
    return UserMessage(content=(TextBlock(text),))


async def ask(provider: LocalProvider, *messages: Message) -> tuple[AssistantMessage, list[str]]:
    request = ModelRequest(model=EMBEDDED_MODEL, messages=messages, tools=TOOLS)
    events: list[StreamEvent] = [e async for e in provider.stream(request)]
    done = events[-1]
    assert isinstance(done, StreamDone), done
    return done.message, [e.text for e in events if isinstance(e, TextDelta)]


async def gone(pid: int, seconds: float) -> bool:
    """Whether the process ends within the time; a zombie has ended."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return True
        if state == "Z":
            return True
        await asyncio.sleep(0.02)
    return False


async def test_it_reads_a_file_and_says_what_is_in_it_runs_a_command_and_answers(
    provider: LocalProvider,
) -> None:
    asked = user("Read README.md and say what this project is")
    answer, _ = await ask(provider, asked)
    (call,) = answer.tool_calls
    assert (call.name, call.input, call.input_error) == ("read", {"file_path": "README.md"}, "")
    assert answer.stop_reason == "tool_use"
    assert answer.usage.output_tokens > 0

    numbered = "\n".join(f"{n}\t{line}" for n, line in enumerate(README.split("\n"), 1))
    result = UserMessage(content=(ToolResultBlock(call.id, numbered),))
    answer, deltas = await ask(provider, asked, answer, result)
    assert not answer.tool_calls
    assert "tea" in answer.text.lower()
    assert len(deltas) > 3  # it streams
    assert "".join(deltas) == answer.text

    asked = user("list the files")
    answer, _ = await ask(provider, asked)
    (call,) = answer.tool_calls
    assert call.name == "bash"
    assert call.input["command"].startswith("ls")
    result = UserMessage(content=(ToolResultBlock(call.id, "LICENSE\nREADME.md\n"),))
    answer, _ = await ask(provider, asked, answer, result)
    assert "LICENSE" in answer.text

    answer, _ = await ask(provider, user("What is the capital of France?"))
    assert not answer.tool_calls
    assert "Paris" in answer.text


async def status_of(port: int, key: str = "") -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    header = f"Authorization: Bearer {key}\r\n" if key else ""
    writer.write(f"GET /v1/models HTTP/1.0\r\n{header}\r\n".encode())
    line = await reader.readline()
    writer.close()
    await writer.wait_closed()
    return line.split(b" ")[1]


async def test_nobody_else_can_use_it_and_it_ends_with_its_owner(processes: ProcessOwner) -> None:
    server = ModelServer(processes=processes, environ=os.environ, gguf="", context=4096)
    address = await server.ensure()
    port, pid = int(address.url.rpartition(":")[2]), server.pid
    assert pid is not None
    assert await status_of(port) == b"401"
    assert await status_of(port, "wrong") == b"401"
    assert await status_of(port, address.key) == b"200"
    assert address.key.encode() not in Path(f"/proc/{pid}/cmdline").read_bytes()
    assert address.key.encode() not in Path(f"/proc/{pid}/environ").read_bytes()
    listening = Path("/proc/net/tcp").read_text()
    assert f"0100007F:{port:04X} 00000000:0000 0A" in listening  # loopback only
    await server.stop()
    assert await gone(pid, 2)
    with pytest.raises(OSError, match=r"Connect call failed|refused"):
        await status_of(port, address.key)


async def test_it_ends_when_it_is_idle_and_is_started_again(processes: ProcessOwner) -> None:
    server = ModelServer(processes=processes, environ=os.environ, gguf="", context=512, idle=0.3)
    await server.ensure()
    first = server.pid
    assert first is not None
    await asyncio.sleep(1)
    assert server.pid == first  # it is busy: however long an answer takes
    await server.rest()
    assert await gone(first, 10)
    while server.pid:  # until the owner has heard of it too
        await asyncio.sleep(0.01)
    again = await server.ensure()
    assert server.pid not in (None, first)
    assert await status_of(int(again.url.rpartition(":")[2]), again.key) == b"200"
    await server.stop()


async def test_leaving_in_the_middle_stops_the_model(provider: LocalProvider) -> None:
    request = ModelRequest(model=EMBEDDED_MODEL, messages=(user("tell me a long story"),))
    async with aclosing(provider.stream(request)) as events:
        async for event in events:
            if isinstance(event, TextDelta):
                break
    pid = provider.pid
    assert pid is not None
    await asyncio.sleep(1)
    before = cpu(pid)
    await asyncio.sleep(1)
    assert cpu(pid) - before < 0.3


def cpu(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


OWNER = """
import asyncio, os, sys
from agent_sdk.core.process import ProcessOwner
from agent_sdk.providers.local_child import ModelServer

async def main():
    server = ModelServer(processes=ProcessOwner(), environ=os.environ, gguf="", context=512)
    await server.ensure()
    print(server.pid, flush=True)
    await asyncio.sleep(600)

asyncio.run(main())
"""


async def test_it_does_not_outlive_a_program_that_is_killed(processes: ProcessOwner) -> None:
    owner = await processes.spawn(
        SpawnSpec(
            argv=(sys.executable, "-c", OWNER), cwd=str(ROOT), env=child_environment(os.environ)
        )
    )
    lines = owner.lines()
    pid = int(await anext(lines))
    os.kill(owner.pid, signal.SIGKILL)
    assert await gone(pid, 2)


async def start(processes: ProcessOwner, start: Start, **env: str) -> Said:
    child = await processes.spawn(
        SpawnSpec(
            argv=server_command(),
            cwd=str(ROOT),
            env={**child_environment(os.environ), **env},
            stdin="pipe",
            merge_stderr=False,
        )
    )
    await child.write(msgspec.json.encode(start) + b"\n")
    async for line in child.lines():
        await child.kill_tree(grace=0)
        return msgspec.json.decode(line, type=Said)
    raise AssertionError(f"it said nothing and ended with {await child.wait()}")


async def test_a_damaged_model_file_is_told(processes: ProcessOwner, tmp_path: Path) -> None:
    damaged = tmp_path / "half a model.gguf"
    with weights().open("rb") as file:
        damaged.write_bytes(file.read(20_000_000))
    said = await start(processes, Start(key="k", gguf=str(damaged)))
    assert said.error == "load_failed"
    assert repr(str(damaged)) in said.message
    damaged.write_bytes(b"text")
    said = await start(processes, Start(key="k", gguf=str(damaged)))
    assert said.error == "weights_unreadable"
    provider = LocalProvider(
        processes=processes,
        server=ModelServer(processes=processes, environ=os.environ, gguf=str(damaged), context=512),
    )
    request = ModelRequest(model=EMBEDDED_MODEL, messages=(user("hi"),))
    (failed,) = [e async for e in provider.stream(request)]
    assert isinstance(failed, StreamFailed)
    assert "no GGUF file" in failed.error.message


async def test_a_package_that_cannot_be_loaded_is_told(
    processes: ProcessOwner, tmp_path: Path
) -> None:
    (tmp_path / "xllamacpp.py").write_text("raise ImportError('GLIBC is too old')")
    said = await start(processes, Start(key="k"), PYTHONPATH=str(tmp_path))
    assert said.error == "package_missing"
    assert "GLIBC is too old" in said.message


async def test_the_users_own_file_is_asked_in_its_own_way(processes: ProcessOwner) -> None:
    provider = LocalProvider(processes=processes, gguf=str(weights()))
    assert provider.model.context_window == 8192
    request = ModelRequest(
        model=provider.model, messages=(user("Say hello."),), tools=TOOLS[:1], max_tokens=60
    )
    events = [e async for e in provider.stream(request)]
    await provider.aclose()
    assert isinstance(events[-1], StreamDone), events[-1]
