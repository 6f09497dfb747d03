"""Figures of a session of 100,000 records and 250 MB: listing, tail, resume, index.

The session is synthetic, but has the shape of a real one: runs of a prompt,
answers with calls, journal entries and results of a few KiB, and a compaction
whenever about a model's context has come together. Each figure is taken in a
fresh process; the file is warm. A second, smaller session has no compaction,
so that all of it is in view: it shows what then has to be read.
"""

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from agent_sdk.core.ids import RandomIds, SystemClock
from agent_sdk.core.usage import Usage
from agent_sdk.providers.messages import (
    AssistantMessage,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
    UserMessage,
)
from agent_sdk.session.index import index_path
from agent_sdk.session.manager import SessionManager
from agent_sdk.session.records import (
    CompactionRecord,
    Record,
    RunRecord,
    ToolJournalRecord,
    assistant_record,
    user_record,
)
from agent_sdk.testing.mock_server import MockScript, MockServer
from agent_sdk.testing.mock_wire import MockTurn
from tests.bench.processes import run_once

RECORDS = 100_000
PLAIN_RECORDS = 16_000
CONTEXT_BYTES = 700_000
"""What comes together before a compaction: about 200,000 tokens."""

COPIES = 20
SMALL = 200
LINE = "    value = parse(line)  # the quick brown fox jumps over the lazy dog, and back again\n"


def run_records(number: int) -> list[Record]:
    """Return the records of one run with eight calls: 28 records, about 70 KB."""
    run_id = f"run-{number}"
    records: list[Record] = [
        RunRecord(event="start", run_id=run_id),
        user_record(UserMessage(content=(TextBlock(f"Task {number}: look through the files."),))),
    ]
    for n in range(8):
        call = ToolUseBlock(f"call-{number}-{n}", "bash", {"command": f"cat src/file{n}.py"})
        records += [
            _answer(TextBlock("I look at the next file. " * 8), call),
            ToolJournalRecord(
                status="started", tool_use_id=call.id, name="bash", input_hash="0" * 64
            ),
            user_record(
                UserMessage(content=(ToolResultBlock(call.id, LINE * (63 + 5 * n)),)),
                details={"exit_code": 0},
            ),
        ]
    records += [
        _answer(TextBlock("All files are read. " * 20)),
        RunRecord(event="end", run_id=run_id, status="completed", turns=9),
    ]
    return records


def _answer(*content: Any) -> Record:
    calls = any(isinstance(block, ToolUseBlock) for block in content)
    return assistant_record(
        AssistantMessage(
            content=content,
            api="anthropic-messages",
            provider="custom",
            model="bench-model",
            stop_reason="tool_use" if calls else "end_turn",
            usage=Usage(input_tokens=100, output_tokens=100),
        )
    )


async def build(root: Path, records: int, *, compacts: bool) -> Path:
    """Write a session below ``root`` and return its file."""
    manager = await SessionManager.create(
        cwd=root / "project",
        sessions_dir=root / "agent" / "sessions",
        ids=RandomIds(),
        clock=SystemClock(),
    )
    assert manager.path is not None
    number, start = 0, 0
    while manager.state.count < records:
        uuids = await manager.append(*run_records(number))
        number += 1
        size = manager.path.stat().st_size
        if compacts and size - start > CONTEXT_BYTES:
            start = size
            summary = CompactionRecord(
                summary="What was done so far. " * 200, keep_from_uuid=uuids[1]
            )
            await manager.append(summary)
    await manager.close()
    return manager.path


def probe(what: str, root: Path, path: Path) -> dict[str, float]:
    """Take one figure in a fresh process."""
    command = [sys.executable, "-m", "tests.bench.session_probe", what, str(root), str(path)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    found: dict[str, float] = msgspec.json.decode(done.stdout)
    return found


def median_of(what: str, root: Path, path: Path, runs: int) -> dict[str, float]:
    found = [probe(what, root, path) for _ in range(runs)]
    return sorted(found, key=lambda one: one["ms"])[len(found) // 2]


async def first_request(root: Path, resume: Sequence[str]) -> tuple[float, float]:
    """Return milliseconds from the start of ``zpi`` to its request, and its peak in MB."""
    async with MockServer(MockScript(turns=(MockTurn(text="hello"),) * 20_000)) as server:
        env = {
            "PATH": os.environ["PATH"],
            "HOME": str(root),
            "ZPI_AGENT_DIR": str(root / "agent"),
            "ZPI_API_TYPE": "anthropic-messages",
            "ZPI_BASE_URL": server.url,
            "ZPI_API_KEY": "dummy-key-for-the-bench",
            "ZPI_MODEL": "bench-model",
        }
        command = [sys.executable, "-m", "agent_sdk.cli", *resume, "-p", "Go on."]
        begun, _, _, peak = await asyncio.to_thread(run_once, command, env, root / "project")
        arrived = next(r.arrived for r in server.requests if r.api)
    return (arrived - begun) * 1000, peak


def copies(path: Path) -> None:
    """Put the same file, with its index, into the folder again and again."""
    for n in range(COPIES):
        copy = path.with_name(f"{n:08d}-copy.jsonl")
        copy.hardlink_to(path)
        index_path(copy).write_bytes(index_path(path).read_bytes())


def small_ones(path: Path) -> None:
    """Put small sessions into the folder."""
    with path.open("rb") as stream:
        head = stream.read(4096).split(b"\n")
    for n in range(SMALL):
        path.with_name(f"{n:08d}-small.jsonl").write_bytes(b"\n".join([*head[:3], b""]))


async def session_figures(runs: int) -> None:
    """Print the figures of long sessions."""
    with tempfile.TemporaryDirectory(prefix="zpi-bench-") as folder:
        root = Path(folder)
        (root / "project").mkdir()
        begun = time.monotonic()
        path = await build(root, RECORDS, compacts=True)
        size = path.stat().st_size / 1e6
        print(
            f"session of {RECORDS:,} records, {size:.0f} MB, written in {time.monotonic() - begun:.0f} s"
        )
        print(f"  index                        {index_path(path).stat().st_size / 1e6:8.1f} MB")
        await _long(root, path, runs)
        plain = await build(root / "plain", PLAIN_RECORDS, compacts=False)
        size = plain.stat().st_size / 1e6
        print(f"session of {PLAIN_RECORDS:,} records, {size:.0f} MB, never compacted")
        show("resume, all in view", median_of("resume", root, plain, runs))


async def _long(root: Path, path: Path, runs: int) -> None:
    show("tail of 50 messages", median_of("tail", root, path, runs))
    show("resume from the index", median_of("resume", root, path, runs))
    for name, more in (("zpi", ()), ("zpi --resume", ("--resume", path.stem))):
        found = sorted([await first_request(root, more) for _ in range(runs)])
        ms, peak = found[len(found) // 2]
        show(f"{name}, first request", {"ms": ms, "peak_mb": peak})
    show("resume, index rebuilt", median_of("rebuild", root, path, min(runs, 3)))
    show("rewind to the first prompt", median_of("rewind", root, path, min(runs, 3)))
    copies(path)
    show(f"list of {COPIES + 1} such sessions", median_of("list", root, path, runs))
    small_ones(path)
    show(f"the same and {SMALL} small ones", median_of("list", root, path, runs))


def show(name: str, figure: dict[str, float]) -> None:
    """Print a figure with the peak memory of its process."""
    print(f"  {name:<28} {figure['ms']:8.1f} ms   peak {figure['peak_mb']:6.1f} MB")
