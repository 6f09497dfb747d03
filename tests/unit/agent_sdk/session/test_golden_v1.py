"""The released format: this file must read the same for ever."""

import io
import shutil
from pathlib import Path

from agent_sdk.compaction.rewrite import CLEARED
from agent_sdk.core.usage import Usage
from agent_sdk.loop.types import Rule
from agent_sdk.providers.messages import OpaqueBlock, Origin, TextBlock, ToolResultBlock
from agent_sdk.session.codec import Chain, Item, chain_break, encode, read_items
from agent_sdk.session.history import fold
from agent_sdk.session.manager import SessionManager
from agent_sdk.session.records import RECORD_TYPES, UnknownRecord, UserRecord
from tests.support.session_files import CountingIds, StepClock

GOLDEN = Path(__file__).parents[3] / "data" / "session" / "v1.jsonl"
SESSION = "0f0e0d0c-0b0a-4908-8706-050403020100"
NOT_EXACT = (26, 27, 28)  # lines of a later version


def items() -> list[Item]:
    found = []
    for line, ended in read_items(io.BytesIO(GOLDEN.read_bytes()).readline):
        assert ended
        assert isinstance(line, Item), line
        found.append(line)
    return found


def uuid(number: int) -> str:
    return f"00000000-0000-4000-8000-{number:012d}"


def test_every_type_is_there_and_round_trips() -> None:
    seen = set()
    for item in items():
        assert item.record.uuid == uuid(item.number)
        if item.number not in NOT_EXACT:
            assert not isinstance(item.record, UnknownRecord)
            assert encode(item.record) == (item.raw, item.record)
            seen.add(item.record.__struct_config__.tag)
    assert seen == set(RECORD_TYPES)


def test_what_is_not_known_is_kept_byte_for_byte() -> None:
    assert b"\n".join([*(item.raw for item in items()), b""]) == GOLDEN.read_bytes()
    user, gravity, run = (items()[number - 1] for number in NOT_EXACT)
    assert isinstance(user.record, UserRecord)
    assert user.record.message.content == (
        OpaqueBlock({"type": "text", "text": "new", "weight": 3}),
        OpaqueBlock({"type": "hologram", "depth": [1, 2.5]}),
        TextBlock("old"),
    )
    assert isinstance(gravity.record, UnknownRecord)
    assert gravity.record.data["note"] == "a record type of a later version é"
    assert not isinstance(run.record, UnknownRecord)


def test_both_chain_checks_agree() -> None:
    chain = Chain()
    assert [chain.step(item.record) for item in items()] == [""] * 28
    assert chain_break(GOLDEN.read_bytes().splitlines(keepends=True)) is None


def test_the_fold() -> None:
    state = fold(item.record for item in items())
    assert state.cwd == "/home/小明/my project"
    assert state.model == "openai/gpt"
    assert state.thinking_level == "high"
    assert state.permission_mode == "default"
    assert state.permission_rules == [Rule("bash", "git status*", "allow")]
    assert (state.title, state.tag) == ("Mend a.py", "")
    assert state.first_prompt == 'Mend "a.py"\n\tplease 😀'
    assert state.usage == Usage(111, 71, 30, 40)
    assert [section.name for section in state.sections] == ["base", "project"]
    assert state.tools == ("read", "edit")
    assert [todo.status for todo in state.todos] == ["completed", "pending"]
    assert (state.open_run, state.open_calls, state.unanswered) == ("", {}, {})
    assert state.last_uuid == uuid(28)
    assert state.message_uuids == [uuid(n) for n in (22, 8, 11, 13, 15, 17, 23, 26)]
    summary, answer, first, second, third, _, tests, _ = state.messages
    assert summary.text == "The user asked to mend a.py; it was done."
    assert len(answer.content) == 6
    assert first.content == (ToolResultBlock("call_1", CLEARED),)
    assert isinstance(second.content[0], ToolResultBlock)
    assert isinstance(second.content[0].content, tuple)
    assert third.content == (
        ToolResultBlock("call_3", "The arguments did not arrive whole.", True),
    )
    assert tests.text == "Now the tests"


async def test_it_can_be_continued_without_changing_what_is_there(tmp_path: Path) -> None:
    folder = tmp_path / "sessions" / "project"
    folder.mkdir(parents=True)
    path = folder / f"{SESSION}.jsonl"
    shutil.copyfile(GOLDEN, path)
    manager = await SessionManager.resume(
        session_id=SESSION,
        sessions_dir=tmp_path / "sessions",
        ids=CountingIds(100),
        clock=StepClock(),
    )
    assert [notice.code for notice in manager.notices] == ["missing_artifact"]
    last = items()[5].record
    assert not isinstance(last, UnknownRecord)
    await manager.append(last)
    await manager.close()
    old = GOLDEN.read_bytes()
    assert path.read_bytes()[: len(old)] == old
    assert chain_break(path.read_bytes().splitlines()) is None
    assert Origin("context", "t1") in [
        message.origin for message in manager.state.messages if hasattr(message, "origin")
    ]
