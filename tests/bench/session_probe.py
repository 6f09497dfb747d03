"""One figure of a long session, in a process of its own; prints JSON."""

import asyncio
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from agent_sdk.core.ids import RandomIds, SystemClock
from agent_sdk.session.index import index_path
from agent_sdk.session.listing import list_sessions
from agent_sdk.session.manager import SessionManager
from agent_sdk.session.records import RewindRecord
from agent_sdk.session.tail import read_tail
from tests.bench.processes import high_water_kb


async def resumed(root: Path, path: Path, *, read_only: bool = False) -> SessionManager:
    return await SessionManager.resume(
        session_id=path.stem,
        sessions_dir=path.parents[1],
        ids=RandomIds(),
        clock=SystemClock(),
        read_only=read_only,
    )


def listing(root: Path, path: Path) -> float:
    begun = time.perf_counter()
    found = list_sessions(path.parents[1])
    seconds = time.perf_counter() - begun
    assert len(found) > 1
    return seconds


def tail(root: Path, path: Path) -> float:
    begun = time.perf_counter()
    assert len(read_tail(path, messages=50)) >= 50
    return time.perf_counter() - begun


def resume(root: Path, path: Path) -> float:
    async def measure() -> float:
        begun = time.perf_counter()
        manager = await resumed(root, path)
        seconds = time.perf_counter() - begun
        assert manager.state.messages
        await manager.close()
        return seconds

    return asyncio.run(measure())


def rebuild(root: Path, path: Path) -> float:
    kept = index_path(path).read_bytes()
    index_path(path).unlink()

    async def measure() -> float:
        begun = time.perf_counter()
        manager = await resumed(root, path)
        await manager.close()  # which writes it
        return time.perf_counter() - begun

    seconds = asyncio.run(measure())
    assert abs(index_path(path).stat().st_size - len(kept)) < 10_000
    return seconds


def rewind(root: Path, path: Path) -> float:
    """Time a rewind that needs what is not in memory; it is undone."""
    kept = index_path(path).read_bytes()
    status = path.stat()

    async def measure() -> float:
        manager = await resumed(root, path)
        assert manager.state.partial
        with path.open("rb") as stream:
            uuid = msgspec.json.decode([stream.readline() for _ in range(3)][2])["uuid"]
        begun = time.perf_counter()
        await manager.append(RewindRecord(to_uuid=uuid, reason="rewind"))
        seconds = time.perf_counter() - begun
        assert len(manager.state.messages) == 1
        await manager.close()
        return seconds

    seconds = asyncio.run(measure())
    with path.open("r+b") as stream:
        stream.truncate(status.st_size)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))  # or the index is refused
    index_path(path).write_bytes(kept)
    return seconds


FIGURES: dict[str, Callable[[Path, Path], float]] = {
    "list": listing,
    "tail": tail,
    "resume": resume,
    "rebuild": rebuild,
    "rewind": rewind,
}


def main() -> None:
    what, root, path = sys.argv[1:]
    seconds = FIGURES[what](Path(root), Path(path))
    peak = high_water_kb("self") / 1024
    print(msgspec.json.encode({"ms": seconds * 1000, "peak_mb": peak}).decode())


if __name__ == "__main__":
    main()
