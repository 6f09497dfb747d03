"""Checks of session files that know nothing of the code that wrote them."""

import json
from pathlib import Path
from typing import Any

from agent_sdk.core.ids import RandomIds, SystemClock
from agent_sdk.session.history import SessionState
from agent_sdk.session.manager import SessionManager

ENVELOPE = ["type", "uuid", "parentUuid", "sessionId", "timestamp"]


def checked(path: Path) -> list[dict[str, Any]]:
    """Return the records of a session file whose every run has ended.

    Raises:
        AssertionError: If it is no strict chain, or a call has not exactly
            one result, or a run no end.
    """
    records = chained(path)
    assert (path.stat().st_mode & 0o077) == 0
    open_calls: list[str] = []
    seen: set[str] = set()
    run = ""
    for record in records:
        for block in blocks(record):
            if block["type"] == "tool_use":
                assert block["id"] not in seen
                seen.add(block["id"])
                open_calls.append(block["id"])
            elif block["type"] == "tool_result":
                open_calls.remove(block["tool_use_id"])
        if record["type"] == "run":
            assert bool(run) == (record["event"] == "end")
            assert not run or run == record["runId"]
            run = record["runId"] if record["event"] == "start" else ""
    assert open_calls == []
    assert run == ""
    return records


def chained(path: Path) -> list[dict[str, Any]]:
    """Return the records of a file, each of which must follow the one before."""
    data = path.read_bytes()
    assert data.endswith(b"\n")
    records = [json.loads(line) for line in data.decode().split("\n")[:-1]]
    parent = None
    for record in records:
        assert list(record)[:5] == ENVELOPE
        assert record["parentUuid"] == parent
        assert record["sessionId"] == path.stem
        parent = record["uuid"]
    assert len({record["uuid"] for record in records}) == len(records)
    header = records[0]
    assert (header["type"], header["format"], header["version"]) == ("session", "zpi", 1)
    return records


def blocks(record: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the content of a message's record; nothing for other records."""
    found: list[dict[str, Any]] = record.get("message", {}).get("content", [])
    return found


def result_texts(records: list[dict[str, Any]]) -> list[str]:
    """Return the text of each tool result, in order."""
    return [
        block["content"]
        for record in records
        for block in blocks(record)
        if block["type"] == "tool_result"
    ]


async def read_back(path: Path) -> SessionState:
    """Return what the project's own reader makes of the file; it must find no fault."""
    manager = await SessionManager.resume(
        session_id=path.stem,
        sessions_dir=path.parent.parent,
        ids=RandomIds(),
        clock=SystemClock(),
        read_only=True,
    )
    await manager.close()
    assert manager.notices == ()
    return manager.state
