"""The bash tool: input, permission, output, time-out, stop."""

import asyncio
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from agent_sdk.core.aio import AbortSignal
from agent_sdk.core.environment import child_environment
from agent_sdk.core.errors import InvalidToolInput, ToolError
from agent_sdk.core.process import ProcessOwner
from agent_sdk.loop.types import Tool, ToolContext, ToolResult
from agent_sdk.providers.models import Model
from agent_sdk.tools.bash import BashTool
from tests.support.processes import appear, unique_word, vanish

if sys.platform == "win32":
    pytest.skip("runs POSIX commands", allow_module_level=True)

MODEL = Model(id="m", provider="p", api="anthropic-messages")


class Bench:
    """A tool with everything that it needs, and what it has shown."""

    def __init__(self, owner: ProcessOwner, folder: Path) -> None:
        self.folder = folder
        self.updates: list[str] = []
        self.tool = BashTool(
            processes=owner,
            environment=child_environment(os.environ, tool_env={"GIVEN": "yes"}),
            artifacts=folder / "artifacts",
        )

    def context(self, model: Model = MODEL) -> ToolContext:
        return ToolContext(
            call_id="call",
            cwd=str(self.folder),
            model=model,
            signal=AbortSignal(),
            update=self.updates.append,
        )

    async def run(self, command: str, *, model: Model = MODEL, **more: Any) -> ToolResult:
        args = self.tool.parse({"command": command, **more})
        return await self.tool.execute(args, self.context(model))


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    async with ProcessOwner() as owner:
        yield Bench(owner, tmp_path)


def test_it_is_a_tool() -> None:
    tool: Tool = BashTool(processes=ProcessOwner(), environment={}, artifacts=None)
    assert not tool.metadata.read_only
    assert not tool.metadata.early
    assert not tool.metadata.concurrent


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        ({}, "'command' is missing"),
        ({"command": "  "}, "must not be empty"),
        ({"command": "a\0b"}, "NUL"),
        ({"command": 3}, "'command'"),
        ({"command": "ls", "timeout": 0}, "at least 1"),
        ({"command": "ls", "timeout": 600_001}, "at most 600000"),
        ({"command": "ls", "timeout": "soon"}, "'timeout'"),
        ({"command": "ls", "cwd": "/"}, "no field 'cwd'"),
        ({"command": "x" * 100_001}, "longer than"),
    ],
)
async def test_bad_input_is_named(bench: Bench, raw: dict[str, Any], text: str) -> None:
    with pytest.raises(InvalidToolInput, match=text):
        bench.tool.parse(raw)


async def test_permission_is_for_exactly_this_command(bench: Bench) -> None:
    command = "git status --short"
    (request,) = bench.tool.permissions(bench.tool.parse({"command": command}), "/")
    assert (request.permission, request.patterns) == ("bash", (command,))
    assert [rule.pattern for rule in request.always] == [command, "git status *"]
    assert request.title == command


async def test_title_hides_nothing(bench: Bench) -> None:
    command = "ls \x1b[2K\u202egpj.x\u200b\r\nrm -rf x"
    (request,) = bench.tool.permissions(bench.tool.parse({"command": command}), "/")
    assert request.title.isprintable()
    assert "rm -rf x" in request.title
    assert request.patterns == (command,)


async def test_output_and_code(bench: Bench) -> None:
    result = await bench.run("echo out; echo err >&2; pwd; echo $GIVEN")
    assert result.content == f"out\nerr\n{bench.folder}\nyes\n"
    assert not result.is_error
    assert result.details["exitCode"] == 0
    failed = await bench.run("printf no; exit 4")
    assert failed.content == "no\nexit code 4"
    assert failed.is_error
    assert failed.details["exitCode"] == 4
    assert (await bench.run("true")).content == "(no output)"


async def test_end_by_a_signal(bench: Bench) -> None:
    result = await bench.run("kill -9 $$")
    assert result.is_error
    assert result.details["signal"] == signal.SIGKILL
    assert "signal 9" in str(result.content)


async def test_control_sequences_are_for_nobody(bench: Bench) -> None:
    result = await bench.run(r"printf '\033]52;c;eA==\a\033[31mred\033[0m\n'")
    assert result.content == "red\n"
    assert "".join(bench.updates) == "red\n"


async def test_no_key_reaches_a_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "canary")
    monkeypatch.setenv("BASH_ENV", str(tmp_path / "canary"))
    async with ProcessOwner() as owner:
        bench = Bench(owner, tmp_path)
        result = await bench.run("env; tr '\\0' '\\n' </proc/$PPID/environ; cat /proc/self/environ")
    assert "canary" not in str(result.content)
    assert "PATH=" in str(result.content)


async def test_long_output_is_cut_and_saved(bench: Bench) -> None:
    result = await bench.run("seq 1 50000")
    text = str(result.content)
    assert len(text.encode()) <= 48 * 1024
    assert text.startswith("1\n2\n")
    assert text.endswith("\n50000\n")
    artifact = Path(result.details["artifact"])
    assert str(artifact) in text
    assert artifact.read_text().splitlines() == [str(n) for n in range(1, 50_001)]
    assert str(result.details["omittedBytes"]) in text


async def test_a_small_model_gets_a_quarter_of_its_window(bench: Bench) -> None:
    small = Model(id="s", provider="p", api="local", context_window=4096)
    result = await bench.run("seq 1 50000", model=small)
    assert len(str(result.content).encode()) <= 4096 * 3 // 4


async def test_time_out_ends_everything(bench: Bench) -> None:
    word = unique_word()
    began = time.monotonic()
    script = f"(exec -a {word} sleep 90) & echo started; exec -a {word} sleep 90"
    result = await bench.run(script, timeout=300)
    assert time.monotonic() - began < 3
    await vanish(word, seconds=0)
    assert result.is_error
    assert "started" in str(result.content)
    assert "300 milliseconds" in str(result.content)
    assert result.details["timedOut"] is True


async def test_a_flood_is_bounded_everywhere(bench: Bench) -> None:
    result = await bench.run("yes flood", timeout=700)
    assert len(str(result.content).encode()) <= 48 * 1024
    assert len(bench.updates) <= result.details["durationMs"] / 100 + 2
    assert max(map(len, bench.updates)) < 10_000
    assert Path(result.details["artifact"]).stat().st_size <= 64 * 1024 * 1024


async def test_stopping_ends_everything_and_stays_a_stop(bench: Bench) -> None:
    word = unique_word()
    work = asyncio.ensure_future(
        bench.run(f"trap '' TERM; (exec -a {word} sleep 90) & exec -a {word} sleep 90")
    )
    await appear(word, least=2)
    began = time.monotonic()
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    assert time.monotonic() - began < 2
    await vanish(word, seconds=0)


async def test_what_goes_on_behind_lives_until_the_session_ends(tmp_path: Path) -> None:
    word = unique_word()
    async with ProcessOwner() as owner:
        bench = Bench(owner, tmp_path)
        began = time.monotonic()
        result = await bench.run(f"(exec -a {word} sleep 90) & echo started")
        assert time.monotonic() - began < 1
        assert not result.is_error
        assert "background" in str(result.content)
        assert (await bench.run("true")).content == "(no output)"
        assert await appear(word, seconds=0)
    await vanish(word, seconds=0)


async def test_progress_is_shown_while_it_runs(bench: Bench) -> None:
    work = asyncio.ensure_future(bench.run("echo first; sleep 0.4; echo second"))
    await _eventually(lambda: bench.updates == ["first\n"])
    assert not work.done()
    await work
    assert "".join(bench.updates) == "first\nsecond\n"


async def test_a_folder_that_is_gone_is_named(bench: Bench, tmp_path: Path) -> None:
    bench.folder = tmp_path / "gone"
    with pytest.raises(ToolError, match="gone"):
        await bench.run("true")


async def test_a_lost_supervisor_is_an_error_of_the_call(bench: Bench) -> None:
    with pytest.raises(ToolError, match="lost"):
        await bench.run("sleep 0.05; kill -KILL $PPID; sleep 9")
    assert (await bench.run("echo on")).content == "on\n"


async def _eventually(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not true():
            await asyncio.sleep(0.01)
