"""What a later version may write into a version-1 file stays as it is, byte for byte."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_sdk.core.errors import SessionReadOnly
from agent_sdk.providers.messages import Message
from agent_sdk.session import index
from agent_sdk.session.manager import SessionManager
from agent_sdk.session.records import CustomRecord, Record
from tests.support.session_files import CountingIds, StepClock, prompt

GOLDEN = Path(__file__).parents[3] / "data" / "session" / "v1.jsonl"
SESSION = "0f0e0d0c-0b0a-4908-8706-050403020100"
LINES = GOLDEN.read_bytes().splitlines()

values = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 2**40) | st.text(max_size=5) | st.just(2.5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=2)
    ),
    max_leaves=6,
)
names = st.sampled_from(["hue", "zpi.later", "näme", "x y"])
unknown_fields = st.dictionaries(names, values, min_size=1, max_size=3)


@st.composite
def later_lines(draw: st.DrawFn) -> list[bytes]:
    """The golden file as a later version might have written it."""
    lines = [json.loads(line) for line in LINES]
    for at in draw(st.sets(st.integers(0, len(lines) - 1), min_size=1, max_size=6)):
        more = draw(unknown_fields)
        match draw(st.sampled_from(["field", "message", "block", "kind"])):
            case "message" if "message" in lines[at]:
                lines[at]["message"].update(more)
            case "block" if "message" in lines[at]:
                block = {"type": "hologram", **more}
                content = lines[at]["message"]["content"]
                content.insert(draw(st.integers(0, len(content))), block)
            case "kind" if at:
                lines[at] = {key: lines[at][key] for key in list(lines[at])[:5]}
                lines[at].update({"type": "gravity", **more})
            case _:
                lines[at].update(more)
    return [_spelled(line, draw(st.sampled_from([0, 0, 1, 2, 3]))) for line in lines]


def _spelled(line: dict[str, Any], way: int) -> bytes:
    """Write a record in one of the ways in which JSON may be written."""
    match way:
        case 1:
            return json.dumps(line).encode()  # blanks, and letters as numbers
        case 2:
            return json.dumps(line, separators=(" ,", ": "), ensure_ascii=False).encode()
        case 3:
            return json.dumps(dict(reversed(line.items()))).encode()
    return json.dumps(line, separators=(",", ":"), ensure_ascii=False).encode()


async def opened(folder: Path, start: int, seen: list[Record] | None = None) -> SessionManager:
    return await SessionManager.resume(
        session_id=SESSION,
        sessions_dir=folder,
        ids=CountingIds(start),
        clock=StepClock(60_000),
        observe=seen.append if seen is not None else None,
    )


def file_of(tmp_path: Path, data: bytes) -> Path:
    """Put a session's file where sessions are; the folder is made anew."""
    shutil.rmtree(tmp_path / "sessions", ignore_errors=True)
    path = tmp_path / "sessions" / "project" / f"{SESSION}.jsonl"
    path.parent.mkdir(parents=True)
    path.write_bytes(data)
    return path


@pytest.mark.timeout(1800)
@settings(max_examples=settings().max_examples // 2)
@given(lines=later_lines(), indexed=st.booleans())
async def test_open_append_reopen(
    tmp_path_factory: pytest.TempPathFactory, *, lines: list[bytes], indexed: bool
) -> None:
    tmp_path = tmp_path_factory.mktemp("later")
    old = b"\n".join([*lines, b""])
    path = file_of(tmp_path, old)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(index, "MIN_FILE_BYTES", 5000 if indexed else 1 << 40)
        uuids, messages = list[str](), list[Message]()
        for turn in range(3):
            manager = await opened(path.parents[1], 100_000 * (turn + 1))
            assert not manager.read_only
            await manager.append(prompt(f"turn {turn}"), CustomRecord(custom_type="c", data=turn))
            await manager.close()
            assert path.read_bytes().startswith(old)
            uuids, messages = manager.state.message_uuids, manager.state.messages
            assert messages[-1].text == f"turn {turn}"
            old = path.read_bytes()
    seen: list[Record] = []
    whole = await opened(path.parents[1], 900_000, seen)
    assert len(seen) == old.count(b"\n")
    assert whole.state.message_uuids == uuids
    assert whole.state.messages == messages
    await whole.close()
    assert path.read_bytes() == old


@pytest.mark.parametrize("version", [2, 99, 2**40])
async def test_a_newer_version_is_read_and_not_touched(tmp_path: Path, version: int) -> None:
    new = GOLDEN.read_bytes().replace(b'"version":1', b'"version":%d' % version, 1)
    assert new != GOLDEN.read_bytes()
    path = file_of(tmp_path, new)
    before = path.stat()
    manager = await opened(path.parents[1], 100_000)
    assert manager.read_only
    assert "newer_format" in [notice.code for notice in manager.notices]
    assert len(manager.state.messages) == 8
    with pytest.raises(SessionReadOnly):
        await manager.append(prompt("more"))
    await manager.close()
    assert path.read_bytes() == new
    assert path.stat().st_mtime_ns == before.st_mtime_ns
    assert [found.name for found in path.parent.iterdir()] == [path.name]
