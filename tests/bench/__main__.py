"""Figures of the whole program against the project's own mock: ``python3 dev.py bench``.

    python -m tests.bench [--runs 5] [--api anthropic-messages] [--only zpi|session|window]

Each run is a fresh process of ``zpi`` in a fresh home folder, of a part of the SDK
(see ``session``), or of the window on a display of its own (see ``window``). Printed are
medians; compare them with figures of the same run on the same machine only.
Nothing here passes or fails.
"""

import argparse
import asyncio
import os
import statistics
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import msgspec

from agent_sdk.testing.mock_server import MockRequest, MockScript, MockServer
from agent_sdk.testing.mock_wire import APIS, MockCall, MockTurn, WireApi
from tests.bench.processes import run_once
from tests.bench.session import session_figures
from tests.bench.window import window_figures

FILES = 1000
TURNS = 50
DELTAS = 20_000


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """One run: when it began, what it cost, what the server saw."""

    begun: float
    seconds: float
    cpu: float
    peak_mb: float
    requests: list[MockRequest]


def read_turns(folder: Path) -> list[MockTurn]:
    calls = [MockCall(name="read", input={"file_path": f"data/f{n:04d}.txt"}) for n in range(TURNS)]
    return [*(MockTurn(calls=(call,)) for call in calls), MockTurn(text="done")]


def bash_turns(folder: Path) -> list[MockTurn]:
    calls = [MockCall(name="bash", input={"command": f"true {n}"}) for n in range(TURNS)]
    return [*(MockTurn(calls=(call,)) for call in calls), MockTurn(text="done")]


def edit_turns(folder: Path) -> list[MockTurn]:
    (folder / "edit.txt").write_text("value 0\n")
    calls = [
        MockCall(
            name="edit",
            input={
                "file_path": "edit.txt",
                "old_string": f"value {n}",
                "new_string": f"value {n + 1}",
            },
        )
        for n in range(TURNS)
    ]
    read = MockCall(name="read", input={"file_path": "edit.txt"})
    return [
        MockTurn(calls=(read,)),
        *(MockTurn(calls=(call,)) for call in calls),
        MockTurn(text="done"),
    ]


def hello(folder: Path) -> list[MockTurn]:
    return [MockTurn(text="hello")]


def stream(folder: Path) -> list[MockTurn]:
    return [MockTurn(text="some words " * (DELTAS // 2), deltas=DELTAS)]


async def measure(
    make: Callable[[Path], list[MockTurn]], *, api: WireApi, project: Path, home: Path
) -> Figures:
    async with MockServer(MockScript(turns=tuple(make(project)))) as server:
        env = {
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "ZPI_AGENT_DIR": str(home / "agent"),
            "ZPI_API_TYPE": api,
            "ZPI_BASE_URL": server.url,
            "ZPI_API_KEY": "dummy-key-for-the-bench",
            "ZPI_MODEL": "bench-model",
        }
        command = [
            sys.executable, "-m", "agent_sdk.cli", "-p", "Do the bench task.",
            "--output-format", "stream-json", "--include-partial-messages",
            "--allowed-tools", "Read,Edit,Bash",
        ]  # fmt: skip
        begun, seconds, cpu, peak = await asyncio.to_thread(run_once, command, env, project)
        requests = [r for r in server.requests if r.api]
    return Figures(begun=begun, seconds=seconds, cpu=cpu, peak_mb=peak, requests=requests)


def gaps(figures: Figures) -> list[float]:
    """Milliseconds from an answer's last byte to the arrival of the next request."""
    pairs = zip(figures.requests, figures.requests[1:], strict=False)
    return [(b.arrived - a.finished) * 1000 for a, b in pairs if a.finished is not None]


def median(values: list[float]) -> float:
    return statistics.median(values)


async def zpi_figures(runs: int, api: WireApi) -> None:
    """Print the figures of the command line."""
    scenarios = {
        "hello": hello, "read": read_turns, "bash": bash_turns, "edit": edit_turns, "stream": stream,
    }  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        project = Path(folder) / "project"
        (project / "data").mkdir(parents=True)
        for n in range(FILES):
            lines = (
                f"line {k:02d} of file {n:04d}: the quick brown fox jumps\n" for k in range(22)
            )
            (project / f"data/f{n:04d}.txt").write_text("".join(lines))
        found: dict[str, list[Figures]] = {name: [] for name in scenarios}
        for turn in range(runs):
            for name, make in scenarios.items():
                home = Path(folder) / f"home-{name}-{turn}"
                found[name].append(await measure(make, api=api, project=project, home=home))
    base = median([f.cpu for f in found["hello"]])
    first = median([(f.requests[0].arrived - f.begun) * 1000 for f in found["hello"]])
    print(f"{api}, {runs} runs each, medians")
    print(f"  start to first request       {first:8.1f} ms")
    for name in ("read", "edit", "bash"):
        turn_gap = median([median(gaps(f)) for f in found[name]])
        print(f"  between turns, {name:<5}         {turn_gap:8.2f} ms")
    cpu = median([(f.cpu - base) / DELTAS * 1e6 for f in found["stream"]])
    print(f"  CPU per 1,000 deltas         {cpu:8.2f} ms")
    for name, figures in found.items():
        print(f"  peak memory, {name:<10}      {median([f.peak_mb for f in figures]):8.1f} MB")


async def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--api", choices=APIS, default="anthropic-messages")
    parser.add_argument("--only", choices=("zpi", "session", "window"), help="measure this alone")
    args = parser.parse_args()
    if args.only in (None, "zpi"):
        await zpi_figures(args.runs, args.api)
    if args.only in (None, "session"):
        await session_figures(args.runs)
    if args.only in (None, "window"):
        await window_figures(args.runs)


if __name__ == "__main__":
    asyncio.run(main())
