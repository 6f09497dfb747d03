"""Forks: the same history under new ids, the source untouched."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_sdk.core.errors import (
    ForkFailed,
    InvalidInput,
    SessionDamaged,
    SessionNotFound,
    SessionReadOnly,
)
from agent_sdk.core.ids import RandomIds
from agent_sdk.providers.messages import Origin, TextBlock, UserMessage
from agent_sdk.session.codec import chain_break, encode, parse_line
from agent_sdk.session.history import SessionState, fold
from agent_sdk.session.records import (
    CompactionRecord,
    CustomRecord,
    FileChangeRecord,
    FileVersion,
    PermissionRuleRecord,
    Record,
    RewindRecord,
    StoredRule,
    user_record,
)
from agent_sdk.session.store import MemoryStore
from agent_sdk.session.stored_fork import fork_in_memory, fork_lines, fork_session
from tests.support.session_files import (
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
from tests.support.session_states import chained, random_records
from tests.support.sessions import in_memory

SID = "source-session"
UNKNOWN = (
    b'{"type":"from_2031","uuid":"u-new","parentUuid":"%b","sessionId":"source-session",'
    b'"timestamp":"t", "spaced" : [1e2,"c1","caf\\u00e9"],"to":"%b","text":"c1 and more"}'
)


def at(number: int) -> str:
    """Return the id of the record of that number, the header being 1."""
    return f"00000000-0000-4000-8000-{number:012d}"


def fork(root: Path, **more: Any) -> Path:
    options: dict[str, Any] = {"ids": CountingIds(9_000), "clock": StepClock(9_000), **more}
    new = fork_session(SID, sessions_dir=root / "sessions", **options)
    return next((root / "sessions").glob(f"*/{new}.jsonl"))


def records_of(path: Path) -> list[Record]:
    records = [parse_line(line) for line in path.read_bytes().splitlines()]
    assert not any(isinstance(record, str) for record in records)
    assert chain_break(path.read_bytes().splitlines()) is None
    return [record for record in records if not isinstance(record, str)]


def strings(value: Any) -> set[str]:
    if isinstance(value, dict):
        return set().union(*map(strings, value), *map(strings, value.values()))
    if isinstance(value, list):
        return set().union(*map(strings, value))
    return {value} if isinstance(value, str) else set()


def told(state: SessionState) -> Any:
    """Return what a state says, without ids."""
    texts = json.dumps(msgspec.to_builtins([m.content for m in state.model_messages()]))
    for number, old in enumerate(dict.fromkeys(_ids_in(state))):
        texts = texts.replace(f'id": "{old}"', f'id": "call {number}"')
    todos, title, usage = state.todos, state.title, state.usage
    open_calls = [call.name for call in state.open_calls.values()]
    rules = state.permission_rules
    return texts, todos, title, usage, rules, open_calls, state.open_run, state.model, state.cwd


def _ids_in(state: SessionState) -> list[str]:
    blocks = [block for message in state.model_messages() for block in message.content]
    names = [getattr(b, "id", "") or getattr(b, "tool_use_id", "") for b in blocks]
    return [name for name in names if name]


# -------------------------------------------------------------------- the whole


async def test_a_fork_is_a_session_of_its_own_with_the_same_history(tmp_path: Path) -> None:
    rule = PermissionRuleRecord(rules=(StoredRule("bash", "ls", "allow"),), tool_use_id="c1")
    origin = Origin("queued", "row-7")
    queued = user_record(UserMessage(content=(TextBlock("hello"),), origin=origin))
    path = await written(
        tmp_path, queued, answer("a", "c1"), started("c1"), rule, result("c1"), session_id=SID
    )
    body = path.read_bytes()
    copy = fork(tmp_path)
    assert path.read_bytes() == body
    assert copy.parent == path.parent
    records = records_of(copy)
    old = records_of(path)
    assert [type(r) for r in records[:-1]] == [type(r) for r in old]
    assert {r.uuid for r in records}.isdisjoint(r.uuid for r in old)
    assert {r.session_id for r in records} == {copy.stem}
    assert [r.timestamp for r in records[:-1]] == [r.timestamp for r in old]
    known = {*(r.uuid for r in old), "c1", "row-7"}
    for line in copy.read_bytes().replace(b'{"path":"c1"}', b"{}").splitlines():
        assert strings(json.loads(line)).isdisjoint(known)
    assert told(fold(records)) == told(fold(old))
    mark = records[-1]
    assert isinstance(mark, CustomRecord)
    assert (mark.custom_type, mark.data) == ("zpi.fork", {"sessionId": SID, "upToUuid": None})
    manager = await resume(tmp_path, copy.stem)
    assert manager.state.first_prompt == "hello"
    await manager.append(prompt("goes its own way"))
    await manager.close()
    assert path.read_bytes() == body


async def test_a_session_that_is_open_can_be_forked(tmp_path: Path) -> None:
    manager = await create(tmp_path, session_id=SID)
    await manager.append(prompt("a"), answer("b"))
    assert manager.path is not None
    with manager.path.open("ab") as stream:
        stream.write(b'{"type":"user","uuid":"to')  # a write is going on
    assert len(records_of(fork(tmp_path))) == 4
    await manager.close()


async def test_pointers_follow(tmp_path: Path) -> None:
    change = FileChangeRecord(path="/f", after=FileVersion("0" * 64, 1), tool_use_id="c1")
    mark = CustomRecord(custom_type="zpi.file_rewind", data={"id": "x", "files": 1})
    talk = [
        prompt("one"),  # 2
        change,  # 3
        prompt("two"),  # 4
        RewindRecord(to_uuid=at(3), reason="rewind"),  # 5
        mark,  # 6
        prompt("three"),  # 7
        CompactionRecord(summary="S", keep_from_uuid=at(6)),  # 8
        CompactionRecord(summary="", keep_from_uuid=at(7), previous_uuid=at(8)),  # 9
        RewindRecord(to_uuid=at(9), reason="rewind", restores=at(5)),  # 10
    ]
    path = await written(tmp_path, *talk, session_id=SID)
    records = records_of(fork(tmp_path))
    _, one, _, back, three, first, second, again, _ = records
    assert not any(isinstance(r, FileChangeRecord) for r in records)
    assert isinstance(back, RewindRecord)
    assert back.to_uuid == one.uuid
    assert isinstance(first, CompactionRecord)
    assert first.keep_from_uuid == three.uuid
    assert isinstance(second, CompactionRecord)
    assert (second.keep_from_uuid, second.previous_uuid) == (three.uuid, first.uuid)
    assert isinstance(again, RewindRecord)
    assert (again.to_uuid, again.restores) == (second.uuid, back.uuid)
    assert told(fold(records)) == told(fold(records_of(path)))


@given(st.data())
async def test_the_history_is_the_same_whatever_happened(data: st.DataObject) -> None:
    drafts = data.draw(random_records())
    kinds: list[Any] = [FileChangeRecord(path="/f"), None]
    drafts = [data.draw(st.sampled_from([draft, draft, *kinds])) or draft for draft in drafts]
    records = chained(*drafts)
    store = MemoryStore(lines=[encode(record)[0] for record in records])
    lines = await fork_lines(store, ids=RandomIds(), clock=StepClock())
    copy = [parse_line(line) for line in lines]
    assert chain_break(lines) is None
    assert told(fold(r for r in copy if not isinstance(r, str))) == told(fold(records))


async def test_what_is_not_known_stays_byte_for_byte_apart_from_ids(tmp_path: Path) -> None:
    path = await written(tmp_path, answer("a", "c1"), result("c1"), session_id=SID)
    line = UNKNOWN % (at(3).encode(), at(2).encode())
    extended = (
        b'{"type":"user","uuid":"u-more","parentUuid":"u-new","sessionId":"source-session",'
        b'"timestamp":"t","message":{"role":"user","content":[{"type":"tool_result",'
        b'"tool_use_id":"c1","hue":3},{"type":"smell","id":"c1"}]},"extra":{"b":1,"a":[]}}'
    )
    with path.open("ab") as stream:
        stream.write(line + b"\n" + extended + b"\n")
    copy = fork(tmp_path)
    lines = copy.read_bytes().splitlines()
    records = records_of(copy)
    call = json.loads(lines[1])["message"]["content"][1]["id"]
    new = (
        UNKNOWN.replace(b"u-new", records[3].uuid.encode())
        .replace(b'"c1"', f'"{call}"'.encode())
        .replace(SID.encode(), copy.stem.encode())
    )
    assert lines[3] == new % (records[2].uuid.encode(), records[1].uuid.encode())
    after = json.loads(lines[4])
    assert after["extra"] == {"b": 1, "a": []}
    assert after["message"]["content"] == [
        {"type": "tool_result", "tool_use_id": call, "hue": 3},
        {"type": "smell", "id": "c1"},
    ]


# -------------------------------------------------------------------- the cut


async def test_a_fork_ends_with_the_message_that_was_named(tmp_path: Path) -> None:
    await written(tmp_path, prompt("a"), answer("b"), prompt("c"), session_id=SID)
    records = records_of(fork(tmp_path, up_to=at(3)))
    assert [r.text for r in fold(records).messages] == ["a", "b"]
    assert isinstance(records[-1], CustomRecord)
    assert records[-1].data["upToUuid"] == at(3)


@pytest.mark.parametrize(
    ("up_to", "text"), [("nowhere", "has no message"), (at(1), "is no message")]
)
async def test_a_cut_that_is_no_message_is_refused(tmp_path: Path, up_to: str, text: str) -> None:
    path = await written(tmp_path, prompt("a"), session_id=SID)
    with pytest.raises(InvalidInput, match=text):
        fork(tmp_path, up_to=up_to)
    assert list(path.parent.iterdir()) == [path]


# ------------------------------------------------------------------- children


def child(path: Path, agent: str, *, parent: str, call: str, records: tuple[Any, ...]) -> Path:
    """Write the file of a child of the session at ``path``."""
    target = path.with_suffix("") / "subagents" / f"agent-{agent}.jsonl"
    target.parent.mkdir(parents=True, exist_ok=True)
    header, *rest = chained(*records)
    header = msgspec.structs.replace(
        header, parent_session_id=parent, parent_tool_use_id=call, agent_id=agent
    )
    lines = [
        encode(msgspec.structs.replace(r, session_id=f"child-{agent}"))[0] for r in (header, *rest)
    ]
    target.write_bytes(b"\n".join([*lines, b""]))
    return target


async def family(root: Path) -> Path:
    talk = (prompt("a"), answer("b", "c1"), result("c1"), answer("c", "c2"), result("c2"))
    path = await written(root, *talk, session_id=SID)
    child(path, "one", parent=SID, call="c1", records=(prompt("do"), answer("x", "c11")))
    child(path, "one-one", parent="child-one", call="c11", records=(prompt("deeper"),))
    child(path, "two", parent=SID, call="c2", records=(prompt("later"),))
    child(path, "lost", parent=SID, call="c99", records=(prompt("nobody called"),))
    return path


async def test_children_go_along_with_their_calls(tmp_path: Path) -> None:
    await family(tmp_path)
    copy = fork(tmp_path)
    calls = [
        block["id"]
        for line in copy.read_bytes().splitlines()
        for block in json.loads(line).get("message", {}).get("content", ())
        if block["type"] == "tool_use"
    ]
    folder = copy.with_suffix("") / "subagents"
    files = {path.name: records_of(path) for path in folder.iterdir()}
    assert set(files) == {"agent-one.jsonl", "agent-one-one.jsonl", "agent-two.jsonl"}
    heads: dict[str, Any] = {name: records[0] for name, records in files.items()}
    one, inner, two = (heads[f"agent-{n}.jsonl"] for n in ("one", "one-one", "two"))
    assert (one.parent_session_id, one.parent_tool_use_id) == (copy.stem, calls[0])
    assert (two.parent_session_id, two.parent_tool_use_id) == (copy.stem, calls[1])
    assert inner.parent_session_id == one.session_id != "child-one"
    (call,) = (b.id for r in files["agent-one.jsonl"] for b in _calls(r))
    assert inner.parent_tool_use_id == call != "c11"


def _calls(record: Any) -> list[Any]:
    content = record.message.content if hasattr(record, "message") else ()
    return [block for block in content if hasattr(block, "name")]


async def test_children_that_were_called_for_later_stay(tmp_path: Path) -> None:
    await family(tmp_path)
    copy = fork(tmp_path, up_to=at(4))
    names = sorted(path.name for path in (copy.with_suffix("") / "subagents").iterdir())
    assert names == ["agent-one-one.jsonl", "agent-one.jsonl"]


# -------------------------------------------------------------------- failure


def tree(root: Path) -> dict[str, bytes]:
    return {str(p.relative_to(root)): p.read_bytes() for p in root.rglob("*") if p.is_file()}


@pytest.mark.parametrize(
    ("point", "nth"),
    [("append.create", 1), ("append.write", 1), ("append.write", 3), ("mkdir.make", 1),
     ("publish.rename", 1), ("publish.rename", 2), ("publish.rename", 4)],
)  # fmt: skip
async def test_a_fork_that_fails_leaves_nothing_and_says_its_id(
    tmp_path: Path, point: str, nth: int
) -> None:
    await family(tmp_path)
    before = tree(tmp_path)
    with pytest.raises(ForkFailed) as caught:
        fork(tmp_path, faults=fault(point, "enospc", nth))
    assert caught.value.session_id == at(9_001)
    assert caught.value.code == "fork_failed"
    assert tree(tmp_path) == before
    assert not list((tmp_path / "sessions").glob(f"*/{at(9_001)}*"))
    fork(tmp_path)


async def test_a_broken_source_is_not_forked(tmp_path: Path) -> None:
    path = await family(tmp_path)
    inner = path.with_suffix("") / "subagents" / "agent-one-one.jsonl"
    good = inner.read_bytes()
    inner.write_bytes(good.replace(b'"parentUuid":"r0"', b'"parentUuid":"rX"'))
    before = tree(tmp_path)
    with pytest.raises(SessionDamaged, match="agent-one-one"):
        fork(tmp_path)
    inner.write_bytes(b"no header\n")
    with pytest.raises(SessionDamaged, match="has no header"):
        fork(tmp_path)
    inner.write_bytes(good)
    path.write_bytes(path.read_bytes().replace(b'"text":"b"', b'"text":b'))
    with pytest.raises(SessionDamaged, match="line 3"):
        fork(tmp_path)
    assert set(tree(tmp_path)) == set(before)


async def test_what_cannot_be_forked_is_said(tmp_path: Path) -> None:
    with pytest.raises(SessionNotFound):
        fork(tmp_path)
    path = await written(tmp_path, prompt("a"), session_id=SID)
    path.write_bytes(path.read_bytes().replace(b'"version":1', b'"version":2'))
    with pytest.raises(SessionReadOnly, match="newer"):
        fork(tmp_path)
    path.write_bytes(b'{"type":"ses')
    with pytest.raises(SessionNotFound, match="holds no session"):
        fork(tmp_path)


# ------------------------------------------------------------------ in memory


async def test_a_session_in_memory_is_forked_in_memory(tmp_path: Path) -> None:
    manager = in_memory(tmp_path)
    with pytest.raises(SessionNotFound):
        await fork_in_memory(manager, ids=RandomIds(), clock=StepClock())
    uuids = await manager.append(prompt("a"), answer("b"), prompt("c"))
    copy = await fork_in_memory(manager, ids=RandomIds(), clock=StepClock(), up_to=uuids[1])
    assert [m.text for m in copy.state.messages] == ["a", "b"]
    assert copy.session_id != manager.session_id
    await copy.append(prompt("else"))
    assert [m.text for m in manager.state.messages] == ["a", "b", "c"]
    assert copy.path is None


async def test_a_session_on_the_disk_is_not_forked_in_memory(tmp_path: Path) -> None:
    manager = await create(tmp_path, session_id=SID)
    with pytest.raises(InvalidInput, match="not in memory"):
        await fork_in_memory(manager, ids=RandomIds(), clock=StepClock())
    await manager.close()
