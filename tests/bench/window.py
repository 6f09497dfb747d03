"""Figures of the window, with the real host, a real session file and a mocked model.

It needs a display; where there is none it starts an Xvfb of its own. Each run is
a fresh process in a fresh home folder, see ``window_probe``.
"""

import asyncio
import contextlib
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from agent_sdk.core.ids import RandomIds, SystemClock
from agent_sdk.core.usage import Usage
from agent_sdk.providers.messages import (
    AssistantMessage,
    Origin,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
    UserMessage,
)
from agent_sdk.session.manager import SessionManager
from agent_sdk.session.records import Record, assistant_record, user_record
from agent_sdk.testing.mock_server import MockScript, MockServer
from agent_sdk.testing.mock_wire import MockCall, MockTurn
from desktop.paths import DataPaths

ROOT = Path(__file__).resolve().parents[2]
MESSAGES = 20_000
BATCH = 1000
RATE = 200
CHARACTERS = 100 * 1024
SESSION = "00000000-0000-4000-8000-00000000beef"

PARAGRAPH = (
    "The value is read in `load()` and **checked twice**; the second check is the one that "
    "matters, as the first only looks at the form. See [the notes](https://example.com/notes).\n\n"
)
CODE = "```python\ndef load(path: str) -> int:\n    value = int(open(path).read())\n    return value + 1  # checked\n```\n\n"
LIST = "- first the form,\n- then the value,\n- and what depends on it.\n\n"


def long_text(characters: int) -> str:
    """Return markdown of this length: prose, lists and code in turn."""
    pieces: list[str] = []
    size = number = 0
    while size < characters:
        number += 1
        piece = f"## Step {number}\n\n" + PARAGRAPH * 3 + LIST + CODE
        pieces.append(piece)
        size += len(piece)
    return "".join(pieces)[:characters]


def conversation(messages: int) -> Iterator[Record]:
    """Yield records of a session: prompts, answers, calls and their results."""
    for number in range(messages // 4):
        call = f"call_{number}"
        usage = Usage(input_tokens=100, output_tokens=20)
        common: dict[str, Any] = {"api": "openai-completions", "provider": "custom"}
        common |= {"model": "mock", "usage": usage}
        text = f"Question {number}: what does the loader do with a value that is not a number?"
        yield user_record(UserMessage(content=(TextBlock(text),), origin=Origin("human")))
        use = ToolUseBlock(call, "bash", {"command": f"grep -n value file{number}.py"})
        yield assistant_record(
            AssistantMessage(
                content=(TextBlock("I look at it."), use), stop_reason="tool_use", **common
            )
        )
        found = "\n".join(f"{line}: value = {number}" for line in range(number % 12))
        yield user_record(UserMessage(content=(ToolResultBlock(call, found),)))
        for part in range(2):
            text = PARAGRAPH * (1 + (number + part) % 4) + (CODE if number % 3 == part else "")
            yield assistant_record(
                AssistantMessage(content=(TextBlock(text),), stop_reason="end_turn", **common)
            )


async def write_session(paths: DataPaths, project: Path) -> None:
    """Write a session of ``MESSAGES`` messages as the SDK writes one."""
    manager = await SessionManager.create(
        cwd=project,
        sessions_dir=paths.sessions,
        artifacts_dir=paths.artifacts,
        session_id=SESSION,
        ids=RandomIds(),
        clock=SystemClock(),
    )
    records = list(conversation(MESSAGES))
    for first in range(0, len(records), BATCH):
        await manager.append(*records[first : first + BATCH])
    await manager.close()


@contextlib.contextmanager
def display() -> Iterator[str]:
    """Give an X display of the bench's own; an empty text where there is none to have."""
    program = shutil.which("Xvfb")
    if program is None:
        yield os.environ.get("DISPLAY", "")
        return
    reading, writing = os.pipe()
    server = subprocess.Popen(
        [program, "-displayfd", str(writing), "-screen", "0", "1600x1000x24", "-nolisten", "tcp"],
        pass_fds=(writing,),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(writing)
    with os.fdopen(reading) as stream:
        number = stream.readline().strip()
    try:
        yield f":{number}" if number else ""
    finally:
        server.terminate()
        server.wait()


class Bench:
    """Runs scenarios in folders below one.

    Args:
        root: The folder.
        screen: X display.
    """

    def __init__(self, *, root: Path, screen: str) -> None:
        self._root = root
        self._screen = screen
        self.project = root / "project"
        self.project.mkdir()
        (self.project / "a.txt").write_text("value 0\n")

    async def run(
        self, scenario: str, *turns: MockTurn, home: str = "", **more: str
    ) -> dict[str, Any]:
        """Run one scenario and return what it found.

        Raises:
            SystemExit: If the window ends without a figure.
        """
        folder = self._root / (home or f"home-{scenario}-{time.monotonic_ns()}")
        folder.mkdir(exist_ok=True)
        async with MockServer(MockScript(turns=turns or (MockTurn(text="hello"),))) as server:
            environment = {
                "PATH": os.environ["PATH"],
                "HOME": str(folder),
                "LANG": "C.UTF-8",
                "DISPLAY": self._screen,
                "QT_QPA_PLATFORM": "xcb",
                "PYTHONPATH": str(ROOT),
                "PYTHON_KEYRING_BACKEND": "keyring.backends.null.Keyring",
                "ZPI_DATA_DIR": str(folder / "data"),
                "ZPI_API_TYPE": "openai-completions",
                "ZPI_BASE_URL": f"{server.url}/v1",
                "ZPI_API_KEY": "dummy-key-for-the-bench",
                "ZPI_MODEL": "mock",
                "BENCH_PROJECT": str(self.project),
                **more,
            }
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "tests.bench.window_probe", scenario, str(time.monotonic()),
                env=environment, cwd=self.project, stdout=asyncio.subprocess.PIPE, limit=2**22,
            )  # fmt: skip
            output, _ = await process.communicate()
        lines = output.decode().splitlines()
        if process.returncode or not lines:
            raise SystemExit(f"the window ended with {process.returncode}: {lines}")
        found: dict[str, Any] = msgspec.json.decode(lines[-1])
        if "trouble" in found:
            raise SystemExit(f"{scenario}: {found['trouble']}")
        return found

    async def start(self, runs: int) -> None:
        """Print how long it takes to be there."""
        await self.run("start", home="home-start")  # what is done once, at the first start
        found = [await self.run("start", home="home-start") for _ in range(runs)]
        print(f"  start, medians of {runs}")
        names = {
            "first_paint_ms": "to the first paint",
            "first_paint_cpu_ms": "CPU until then",
            "greeted_ms": "to the host's greeting",
            "first_prompt_ms": "to when a prompt can be sent",
        }
        for name, label in names.items():
            print(f"    {label:<32}{statistics.median([f[name] for f in found]):8.0f} ms")

    async def ordinary(self) -> None:
        """Print what a window costs that rests after an ordinary session."""
        call = MockCall(name="read", input={"file_path": "a.txt"})
        found = await self.run(
            "ordinary", MockTurn(text="I look.", calls=(call,)), MockTurn(text=long_text(4000))
        )
        print(f"  at rest for 3 s after an ordinary session (focus: {found['focus'] or 'none'})")
        print(f"    paints                          {found['paints']:8}")
        print(f"    timer events                    {found['timers']:8}")
        for each in found["whose"]:
            print(f"      of a {each}")
        print(f"    CPU, window                     {found['gui_rest_cpu_ms']:8.0f} ms")
        print(f"    CPU, host                       {found['host_rest_cpu_ms']:8.0f} ms")
        print(f"    memory, window (PSS)            {found['gui_mb']:8.1f} MB")
        print(f"    memory, host (PSS)              {found['host_mb']:8.1f} MB")
        print(f"    memory, both                    {found['gui_mb'] + found['host_mb']:8.1f} MB")

    async def long(self) -> None:
        """Print how a long session opens and scrolls."""
        home = self._root / "home-long"
        home.mkdir()
        await write_session(DataPaths(data=home / "data"), self.project)
        found = await self.run("long", home=home.name, BENCH_SESSION=SESSION)
        print(f"  a session of {found['messages']:,} messages")
        print(f"    open to first painted frame     {found['open_ms']:8.0f} ms")
        _print_pulse("opening", found["open"])
        _print_pulse("scrolling top to bottom", found["scroll"])
        _print_frames(found["scroll"])

    async def stream(self) -> None:
        """Print how an answer of 100 KB arrives."""
        text = long_text(CHARACTERS)
        seconds = 10
        turn = MockTurn(text=text, deltas=RATE * seconds, rate=RATE)
        found = await self.run("stream", turn)
        same = "yes" if found["text"] == text else "NO"
        print(f"  {RATE} deltas a second into an answer of {found['characters']:,} characters")
        print(f"    text equals what was sent       {same:>8}")
        _print_pulse("streaming", found["stream"])
        _print_frames(found["stream"])
        print(f"    CPU, window                     {found['gui_cpu']:8.0%}")
        print(f"    CPU, host                       {found['host_cpu']:8.0%}")


def _print_pulse(what: str, pulse: dict[str, float]) -> None:
    print(f"    {what}")
    print(f"      largest gap of the event loop {pulse['largest_gap_ms']:8.1f} ms")
    print(f"      its gaps over 50 ms           {pulse['gaps_over_50']:8}")
    print(f"      most CPU time in one turn     {pulse['largest_work_ms']:8.1f} ms")


def _print_frames(frames: dict[str, float]) -> None:
    print(f"      painted frames                {frames['frames']:8}")
    print(f"      a second                      {frames['frames_per_second']:8.1f}")
    print(f"      median gap between frames     {frames['median_frame_gap_ms']:8.1f} ms")
    print(f"      largest gap between frames    {frames['largest_frame_gap_ms']:8.1f} ms")
    print(f"      such gaps over 50 ms          {frames['frame_gaps_over_50']:8}")


SCENARIOS = ("start", "ordinary", "long", "stream")


async def window_figures(runs: int, scenarios: tuple[str, ...] = SCENARIOS) -> None:
    """Print the figures of the window; say so where there is no display for one."""
    with display() as screen, tempfile.TemporaryDirectory() as folder:
        if not screen:
            print("window: not measured, as there is no display here and no Xvfb to make one")
            return
        print("window, real host, mocked model")
        bench = Bench(root=Path(folder), screen=screen)
        if "start" in scenarios:
            await bench.start(runs)
        if "ordinary" in scenarios:
            await bench.ordinary()
        if "long" in scenarios:
            await bench.long()
        if "stream" in scenarios:
            await bench.stream()


if __name__ == "__main__":
    asyncio.run(window_figures(3, tuple(sys.argv[1:]) or SCENARIOS))
