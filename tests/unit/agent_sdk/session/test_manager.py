import asyncio
import base64
import json
import os
from pathlib import Path
from typing import Any

import pytest
from typing_extensions import override

from agent_sdk.core.errors import (
    DiskFull,
    InvalidInput,
    SessionDamaged,
    SessionLocked,
    SessionNotFound,
    SessionReadOnly,
    StorageError,
)
from agent_sdk.providers.messages import ImageBlock, TextBlock, ToolResultBlock, UserMessage
from agent_sdk.session.codec import chain_break, parse_line
from agent_sdk.session.history import fold
from agent_sdk.session.manager import SessionManager
from agent_sdk.session.paths import project_key
from agent_sdk.session.records import (
    CompactionRecord,
    CustomRecord,
    RewindRecord,
    RunRecord,
    SessionHeader,
    SessionInfoRecord,
    UnknownRecord,
    user_record,
)
from agent_sdk.session.store import MemoryStore
from tests.support.session_files import (
    CWD,
    CountingIds,
    StepClock,
    answer,
    create,
    fault,
    prompt,
    result,
    resume,
    started,
    written,
)

SID = "abcdefgh-1234"


def lines_of(path: Path) -> list[dict[str, Any]]:
    raw = path.read_bytes()
    assert raw.endswith(b"\n")
    assert chain_break(raw.splitlines()) is None
    return [json.loads(line) for line in raw.splitlines()]


# ---------------------------------------------------------- create and append


async def test_the_file_is_made_with_the_first_append(tmp_path: Path) -> None:
    manager = await create(tmp_path)
    assert manager.path is not None
    assert manager.path == tmp_path / "sessions" / project_key(CWD) / f"{manager.session_id}.jsonl"
    assert not manager.path.parent.exists()
    uuids = await manager.append(prompt("a"), answer("b"))
    header, first, second = lines_of(manager.path)
    assert (header["format"], header["version"], header["cwd"]) == ("zpi", 1, manager.cwd)
    assert [first["uuid"], second["uuid"]] == uuids
    assert {line["sessionId"] for line in (header, first, second)} == {manager.session_id}
    assert header["parentUuid"] is None
    assert manager.state.message_uuids == uuids
    await manager.close()
    if os.name == "posix":
        assert manager.path.stat().st_mode & 0o777 == 0o600
        assert manager.path.parent.stat().st_mode & 0o777 == 0o700


async def test_a_session_that_was_never_written_leaves_nothing(tmp_path: Path) -> None:
    manager = await create(tmp_path)
    assert await manager.append() == []
    await manager.close()
    assert list(tmp_path.iterdir()) == []


async def test_concurrent_appends_keep_one_chain(tmp_path: Path) -> None:
    manager = await create(tmp_path, faults=fault("append.sync", "delay", 2))
    await manager.append(prompt("0"))
    groups = await asyncio.gather(
        *(manager.append(prompt(f"{n} a"), prompt(f"{n} b")) for n in range(40))
    )
    await manager.close()
    assert manager.path is not None
    lines = lines_of(manager.path)
    assert [line["uuid"] for line in lines[2:]] == [uuid for group in groups for uuid in group]
    assert manager.state.message_uuids == [line["uuid"] for line in lines[1:]]
    texts = [message.text for message in manager.state.messages]
    assert texts == ["0", *(f"{n} {x}" for n in range(40) for x in "ab")]


async def test_the_state_has_only_what_is_durable(tmp_path: Path) -> None:
    manager = await create(tmp_path, faults=fault("append.sync", "delay", 2))
    await manager.append(prompt("a"))
    task = asyncio.ensure_future(manager.append(prompt("b")))
    await asyncio.sleep(0.01)
    assert len(manager.state.messages) == 1
    await task
    assert len(manager.state.messages) == 2
    await manager.close()


async def test_a_cancelled_append_leaves_the_chain_whole(tmp_path: Path) -> None:
    manager = await create(tmp_path, faults=fault("append.sync", "delay", 2))
    await manager.append(prompt("a"))
    writing = asyncio.ensure_future(manager.append(prompt("b")))
    await asyncio.sleep(0.01)
    waiting = asyncio.ensure_future(manager.append(prompt("never")))
    last = asyncio.ensure_future(manager.append(prompt("c")))
    await asyncio.sleep(0)
    writing.cancel()
    waiting.cancel()
    await last
    for task in (writing, waiting):
        with pytest.raises(asyncio.CancelledError):
            await task
    await manager.close()
    assert manager.path is not None
    assert len(lines_of(manager.path)) == 4
    assert [message.text for message in manager.state.messages] == ["a", "b", "c"]


async def test_a_bad_record_fails_alone(tmp_path: Path) -> None:
    manager = await create(tmp_path)
    outcome = await asyncio.gather(
        manager.append(prompt("a")),
        manager.append(prompt("never"), RunRecord(event="pause", run_id="r")),
        manager.append(prompt("b")),
        return_exceptions=True,
    )
    assert [type(each).__name__ for each in outcome] == ["list", "InvalidInput", "list"]
    await manager.close()
    assert manager.path is not None
    assert len(lines_of(manager.path)) == 3


async def test_what_may_not_be_appended(tmp_path: Path) -> None:
    manager = await create(tmp_path)
    unknown = UnknownRecord(
        type="x", uuid="u", parent_uuid=None, session_id="s", timestamp="t", data={}
    )
    header = SessionHeader(format="zpi", version=1, cwd="/")
    for record in (
        unknown,
        header,
        RewindRecord(to_uuid="nowhere", reason="edit"),
        CompactionRecord(summary="s", keep_from_uuid="nowhere"),
        CompactionRecord(summary="s", keep_from_uuid=None, clear_tool_results_before_uuid="x"),
    ):
        with pytest.raises(InvalidInput):
            await manager.append(record)
    await manager.close()
    assert list(tmp_path.iterdir()) == []


async def test_a_closed_session_takes_nothing(tmp_path: Path) -> None:
    manager = await create(tmp_path)
    await manager.append(prompt("a"))
    await manager.close()
    await manager.close()
    assert manager.read_only
    with pytest.raises(SessionReadOnly):
        await manager.append(prompt("b"))


async def test_a_given_id(tmp_path: Path) -> None:
    manager = await create(tmp_path, session_id=SID)
    await manager.append(prompt("a"))
    await manager.close()
    with pytest.raises(StorageError, match="already"):
        await create(tmp_path, session_id=SID)


@pytest.mark.parametrize(
    "bad", ["../x", "a/b", "a\\b", "", "é", "x" * 129, "a b", ".", "..", "C:x", "a\0b", "a*"]
)
async def test_an_id_cannot_leave_the_folder(tmp_path: Path, bad: str) -> None:
    (tmp_path / "x.jsonl").write_bytes(b"")
    with pytest.raises(InvalidInput, match="not a session id"):
        await resume(tmp_path, bad)
    if bad:
        with pytest.raises(InvalidInput, match="not a session id"):
            await create(tmp_path, session_id=bad)


# ------------------------------------------------------------------ resume


async def test_resume_goes_on_where_it_was(tmp_path: Path) -> None:
    await written(tmp_path, prompt("a"), answer("b"), session_id=SID)
    manager = await resume(tmp_path, SID)
    assert (manager.session_id, manager.cwd) == (SID, os.path.realpath(CWD))
    assert manager.notices == ()
    assert [message.text for message in manager.state.messages] == ["a", "b"]
    await manager.append(prompt("c"))
    await manager.close()
    assert manager.path is not None
    records = [parse_line(line) for line in manager.path.read_bytes().splitlines()]
    assert manager.state.messages == fold(r for r in records if not isinstance(r, str)).messages


async def test_a_beginning_of_the_id_is_enough(tmp_path: Path) -> None:
    await written(tmp_path, prompt("a"), session_id="12345678-aaaa")
    await written(tmp_path, prompt("b"), session_id="12345678-abbb", cwd="/elsewhere")
    with pytest.raises(InvalidInput, match="fits 2 sessions"):
        await resume(tmp_path, "12345678-a")
    with pytest.raises(SessionNotFound):
        await resume(tmp_path, "1234567")  # too short to stand for anything
    with pytest.raises(SessionNotFound, match="87654321"):
        await resume(tmp_path, "87654321")
    manager = await resume(tmp_path, "12345678-ab")
    assert manager.state.first_prompt == "b"
    await manager.close()


async def test_an_interrupted_session_is_settled_once(tmp_path: Path) -> None:
    path = await written(
        tmp_path,
        prompt("a"),
        RunRecord(event="start", run_id="run"),
        answer("b", "c1", "c2"),
        started("c1"),
        session_id=SID,
    )
    manager = await resume(tmp_path, SID)
    assert [notice.code for notice in manager.notices] == ["interrupted"]
    assert not manager.state.unanswered
    assert manager.state.model_messages() is manager.state.messages
    await manager.close()
    after = path.read_bytes()
    assert [line["type"] for line in lines_of(path)[-3:]] == ["user", "user", "run"]
    again = await resume(tmp_path, SID)
    assert again.notices == ()
    await again.close()
    assert path.read_bytes() == after


async def test_a_torn_tail_is_reported(tmp_path: Path) -> None:
    path = await written(tmp_path, prompt("a"), session_id=SID)
    path.write_bytes(path.read_bytes() + b'{"type":"us')
    reader = await resume(tmp_path, SID, read_only=True)
    assert [notice.code for notice in reader.notices] == ["torn_tail"]
    with pytest.raises(SessionReadOnly):
        await reader.append(prompt("b"))
    await reader.close()
    manager = await resume(tmp_path, SID)
    (notice,) = manager.notices
    assert notice.code == "torn_tail"
    (copy,) = path.parent.glob("*.torn-*")
    assert repr(str(copy)) in notice.text
    await manager.append(prompt("b"))
    await manager.close()
    assert len(lines_of(path)) == 3


async def test_a_damaged_session_is_shown_read_only(tmp_path: Path) -> None:
    path = await written(tmp_path, prompt("a"), prompt("b"), prompt("c"), session_id=SID)
    lines = path.read_bytes().splitlines(keepends=True)
    lines[2] = b"\0" * 100 + b"\n"
    path.write_bytes(b"".join(lines))
    with pytest.raises(SessionDamaged, match="line 3"):
        await resume(tmp_path, SID)
    manager = await resume(tmp_path, SID, read_only=True)
    assert manager.read_only
    assert [message.text for message in manager.state.messages] == ["a", "c"]
    (notice,) = manager.notices
    assert (notice.level, notice.code) == ("error", "damaged")
    assert "line 3" in notice.text
    await manager.close()
    assert path.read_bytes() == b"".join(lines)


async def test_a_newer_format_opens_read_only(tmp_path: Path) -> None:
    path = await written(
        tmp_path, prompt("a"), RunRecord(event="start", run_id="r"), session_id=SID
    )
    data = path.read_bytes().replace(b'"version":1', b'"version":2', 1)
    path.write_bytes(data + b'{"type":"torn')
    manager = await resume(tmp_path, SID)
    assert manager.read_only
    assert "newer_format" in [notice.code for notice in manager.notices]
    assert [message.text for message in manager.state.messages] == ["a"]
    with pytest.raises(SessionReadOnly):
        await manager.append(prompt("b"))
    other = await resume(tmp_path, SID)  # it holds no lock
    await other.close()
    await manager.close()
    assert path.read_bytes() == data + b'{"type":"torn'


async def test_a_session_in_use_is_locked(tmp_path: Path) -> None:
    await written(tmp_path, prompt("a"), session_id=SID)
    manager = await resume(tmp_path, SID)
    with pytest.raises(SessionLocked, match=SID):
        await resume(tmp_path, SID)
    await manager.close()
    again = await resume(tmp_path, SID)
    await again.close()


async def test_a_full_disk_while_settling_is_said(tmp_path: Path) -> None:
    path = await written(tmp_path, prompt("a"), answer("", "c1"), session_id=SID)
    before = path.read_bytes()
    with pytest.raises(DiskFull):
        await resume(tmp_path, SID, faults=fault("append.write", "enospc"))
    assert path.read_bytes() == before
    manager = await resume(tmp_path, SID)
    assert not manager.state.unanswered
    await manager.close()


# ---------------------------------------------------------------- continue


async def test_continue_takes_the_one_used_last(tmp_path: Path) -> None:
    old = await written(tmp_path, prompt("old"), session_id="first", clock=StepClock(1000))
    await written(tmp_path, prompt("new"), session_id="second", clock=StepClock(9000))
    await written(tmp_path, prompt("other"), cwd="/elsewhere", clock=StepClock(20_000))
    os.utime(old)  # its time on the disk decides nothing

    async def latest(cwd: str) -> SessionManager:
        return await SessionManager.continue_latest(
            cwd=cwd, sessions_dir=tmp_path / "sessions", ids=CountingIds(900), clock=StepClock(12_000)
        )  # fmt: skip

    manager = await latest(CWD)
    assert manager.session_id == "second"
    await manager.close()
    first = await resume(tmp_path, "first", clock=StepClock(15_000), ids=CountingIds(77))
    await first.append(CustomRecord(custom_type="x"))
    await first.close()
    manager = await latest(CWD)
    assert manager.session_id == "first"
    await manager.close()
    with pytest.raises(SessionNotFound, match="nowhere"):
        await latest("/nowhere")


async def test_continue_is_not_fooled_by_a_shared_key(tmp_path: Path) -> None:
    assert project_key("/a-b") == project_key("/a/b")
    await written(tmp_path, prompt("x"), cwd="/a-b", session_id="one")
    with pytest.raises(SessionNotFound):
        await SessionManager.continue_latest(
            cwd="/a/b", sessions_dir=tmp_path / "sessions", ids=CountingIds(), clock=StepClock()
        )


# ------------------------------------------------------------------- failure


async def test_a_full_disk_costs_only_what_was_asked_then(tmp_path: Path) -> None:
    for name in ("append.write", "append.create", "mkdir.make"):
        root = tmp_path / name
        nth = 2 if name == "append.write" else 1
        manager = await create(root, faults=fault(name, "enospc", nth))
        if nth == 2:
            await manager.append(prompt("a"))
        with pytest.raises(DiskFull):
            await manager.append(prompt("lost"))
        assert not manager.read_only
        await manager.append(prompt("b"))
        await manager.close()
        assert manager.path is not None
        assert len(lines_of(manager.path)) == nth + 1
        assert [m.text for m in manager.state.messages] == ["a", "b"][2 - nth :]


async def test_a_failed_sync_ends_writing_but_not_reading(tmp_path: Path) -> None:
    manager = await create(tmp_path, faults=fault("append.sync", "eio", 2), session_id=SID)
    await manager.append(prompt("a"))
    with pytest.raises(StorageError):
        await manager.append(prompt("b"))
    assert manager.read_only
    assert [message.text for message in manager.state.messages] == ["a"]
    with pytest.raises(SessionReadOnly):
        await manager.append(prompt("c"))
    await manager.close()
    again = await resume(tmp_path, SID)
    assert not again.read_only
    await again.close()


async def test_a_store_that_breaks_is_not_written_to_again(tmp_path: Path) -> None:
    class Broken(MemoryStore):
        @override
        async def append(self, lines: Any, blobs: Any) -> None:
            raise RuntimeError("bug")

    lines = (await written(tmp_path, prompt("a"))).read_bytes().splitlines()
    manager = await SessionManager.from_store(
        Broken(lines=lines), ids=CountingIds(50), clock=StepClock()
    )
    with pytest.raises(RuntimeError):
        await manager.append(prompt("b"))
    with pytest.raises(SessionReadOnly):
        await manager.append(prompt("c"))
    await manager.close()


# ------------------------------------------------------------------- memory


async def test_memory_writes_nothing(tmp_path: Path) -> None:
    manager = SessionManager.in_memory(cwd=tmp_path, ids=CountingIds(), clock=StepClock())
    assert manager.path is None
    await manager.append(prompt("a"), answer("b", "c1"))
    await manager.append(result("c1"), SessionInfoRecord(title="t"))
    assert manager.state.title == "t"
    assert len(manager.state.messages) == 3
    await manager.close()
    assert list(tmp_path.iterdir()) == []


async def test_a_store_of_the_hosts_own(tmp_path: Path) -> None:
    path = await written(tmp_path, prompt("a"), answer("", "c1"))
    store = MemoryStore(lines=path.read_bytes().splitlines())
    manager = await SessionManager.from_store(store, ids=CountingIds(50), clock=StepClock())
    assert not manager.state.unanswered
    assert len(store.lines) == 4
    await manager.close()
    with pytest.raises(SessionNotFound):
        await SessionManager.from_store(MemoryStore(), ids=CountingIds(), clock=StepClock())


# ---------------------------------------------------------------- artifacts


async def test_large_pictures_lie_beside_the_file(tmp_path: Path) -> None:
    data = bytes(range(256)) * 300
    source = {
        "type": "base64",
        "media_type": "image/png",
        "data": base64.b64encode(data).decode("ascii"),
    }
    small = ImageBlock({**source, "data": "AAAA"})
    shown = UserMessage(content=(TextBlock("look"), ImageBlock(source), small))
    found = UserMessage(content=(ToolResultBlock("c1", (TextBlock("x"), ImageBlock(source))),))
    manager = await create(tmp_path, session_id=SID)
    await manager.append(user_record(shown), answer("", "c1"))
    await manager.append(user_record(found))
    assert manager.state.messages[0] == shown
    await manager.close()

    assert manager.path is not None
    _, first, _, last = lines_of(manager.path)
    pointer = first["message"]["content"][1]["source"]
    (file,) = (tmp_path / "artifacts").iterdir()
    assert pointer == {
        "type": "artifact", "sha256": file.name, "media_type": "image/png", "size": len(data)
    }  # fmt: skip
    assert last["message"]["content"][0]["content"][1]["source"] == pointer
    assert file.read_bytes() == data

    again = await resume(tmp_path, SID)
    assert again.notices == ()
    assert [again.state.messages[0], again.state.messages[2]] == [shown, found]
    await again.close()

    file.write_bytes(data[:-1] + b"!")  # not what its name says
    again = await resume(tmp_path, SID)
    assert [notice.code for notice in again.notices] == ["missing_artifact"]
    content = again.state.messages[0].content
    assert isinstance(content[1], TextBlock)
    assert "no longer" in content[1].text
    assert content[2] == small
    await again.close()


async def test_surrogates_and_pictures_together(tmp_path: Path) -> None:
    source = {"type": "base64", "media_type": "image/png", "data": "AAAA" * 20_000}
    manager = await create(tmp_path)
    await manager.append(
        user_record(UserMessage(content=(TextBlock("a\ud800"), ImageBlock(source))))
    )
    assert manager.state.messages[0].content == (TextBlock("a\ufffd"), ImageBlock(source))
    await manager.close()
