"""A state out of a snapshot against the fold of all records."""

import base64
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_sdk.providers.messages import ImageBlock, OpaqueBlock, UserMessage
from agent_sdk.session.artifacts import split_artifacts
from agent_sdk.session.history import OlderNeeded, SessionState, fold
from agent_sdk.session.records import (
    CompactionRecord,
    ModelChangeRecord,
    PermissionModeChangeRecord,
    PermissionRuleRecord,
    RewindRecord,
    RunRecord,
    SessionInfoRecord,
    StoredRule,
    StoredSection,
    SystemRecord,
    ThinkingLevelChangeRecord,
    TodoItem,
    TodoRecord,
    user_record,
)
from agent_sdk.session.state_snapshot import (
    UnusableSnapshot,
    restored_state,
    snapshot_from_bytes,
    snapshot_to_bytes,
    take_snapshot,
)
from tests.support.session_files import answer, prompt, result, started
from tests.support.session_states import chained, facts_of, random_records


def nothing(name: str) -> bytes | None:
    """Return that there is no artifact."""


def through_bytes(state: SessionState, blobs: dict[str, bytes] | None = None) -> SessionState:
    data = snapshot_to_bytes(take_snapshot(state))
    assert data is not None
    return restored_state(snapshot_from_bytes(data, (blobs or {}).get))


@given(st.data())
def test_a_snapshot_and_the_records_after_it_equal_the_fold_of_all(data: st.DataObject) -> None:
    records = chained(*data.draw(random_records()))
    cut = data.draw(st.integers(1, len(records)))
    state = through_bytes(fold(records[:cut]))
    assert facts_of(state) == facts_of(fold(records[:cut]))
    assert state.partial == cut
    for number, record in enumerate(records[cut:], cut):
        if state.lacks(record):
            before = facts_of(state)
            with pytest.raises(OlderNeeded):
                state.apply(record)
            assert facts_of(state) == before
            state.put_before(fold(records[:cut]))
            assert state.partial == 0
        state.apply(record)
        assert facts_of(state) == facts_of(fold(records[: number + 1]))
        if data.draw(st.integers(0, 4)) == 0:
            state.forget()
            cut = number + 1
            assert state.partial == cut
            assert facts_of(state) == facts_of(fold(records[:cut]))
    again = through_bytes(state)
    assert facts_of(again) == facts_of(state)


EVERYTHING = (
    SystemRecord(sections=(StoredSection("a", "b"),), tools_added=("read", "bash")),
    ModelChangeRecord(provider="p", model="m"),
    ThinkingLevelChangeRecord(thinking_level="high"),
    PermissionModeChangeRecord(mode="plan"),
    PermissionRuleRecord(rules=(StoredRule("bash", "ls", "allow"),)),
    SessionInfoRecord(title="T", tag="x"),
    RunRecord(event="start", run_id="run"),
    prompt("first"),
    TodoRecord(items=(TodoItem("do"),)),
    answer("one", "c1", "c2", tokens=3),
    started("c1"),
    result("c2", "r"),
)


def test_everything_that_a_state_says_is_in_it() -> None:
    state = fold(chained(*EVERYTHING))
    empty = vars(SessionState())
    same = [
        name
        for name, value in vars(state).items()
        if value == empty[name] and name not in ("view", "trail")
    ]
    assert not same, "the test below would not notice if the snapshot left these out"
    compacted = fold(chained(*EVERYTHING, CompactionRecord(summary="s", keep_from_uuid="r8")))
    for one in (state, compacted):
        assert facts_of(through_bytes(one)) == facts_of(one)
    assert list(through_bytes(state).open_calls) == ["c1"]
    assert list(through_bytes(state).unanswered) == ["c1"]


def test_an_old_record_is_asked_for_only_where_it_is_needed() -> None:
    records = chained(prompt("a"), answer("b"), prompt("c"), answer("d"))
    state = through_bytes(fold(records))
    fits: list[Any] = [
        RewindRecord(to_uuid="r4", reason="rewind"),
        CompactionRecord(summary="s", keep_from_uuid="r2"),
        CompactionRecord(summary="s", keep_from_uuid=None, clear_tool_results_before_uuid="r4"),
    ]
    assert not any(state.lacks(record) for record in fits)
    assert state.lacks(RewindRecord(to_uuid="r2", reason="rewind"))
    assert state.lacks(RewindRecord(to_uuid="nowhere", reason="rewind"))
    assert state.lacks(CompactionRecord(summary="s", keep_from_uuid="nowhere"))
    assert not fold(records).lacks(RewindRecord(to_uuid="r2", reason="rewind"))


def test_unknown_blocks_and_images_come_back() -> None:
    text = base64.b64encode(b"x" * 100_000).decode()
    image = ImageBlock({"type": "base64", "media_type": "image/png", "data": text})
    record = user_record(UserMessage(content=(image, OpaqueBlock({"type": "new", "n": [1]}))))
    state = fold(chained(record))
    _, artifacts = split_artifacts(record)
    data = snapshot_to_bytes(take_snapshot(state))
    assert data is not None
    assert len(data) < 2_000
    blobs = {artifact.sha256: artifact.data for artifact in artifacts}
    assert facts_of(through_bytes(state, blobs)) == facts_of(state)
    with pytest.raises(UnusableSnapshot, match="artifact"):
        snapshot_from_bytes(data, nothing)


@pytest.mark.parametrize("at", range(0, 100, 7))
def test_a_changed_or_cut_snapshot_is_refused(at: int) -> None:
    data = snapshot_to_bytes(take_snapshot(fold(chained(*EVERYTHING))))
    assert data is not None
    place = len(data) * at // 100
    changed: Any = bytearray(data)
    changed[place] ^= 0x80
    for bad in (data[:place], bytes(changed), data + b"x"):
        with pytest.raises(UnusableSnapshot):
            restored_state(snapshot_from_bytes(bad, nothing))


@pytest.mark.parametrize(("name", "value"), [("version", 0), ("program", "0.0.1")])
def test_another_version_is_refused(name: str, value: Any) -> None:
    data = snapshot_to_bytes(take_snapshot(fold(chained(prompt("a")))))
    assert data is not None
    head = msgspec.json.decode(data.split(b"\n")[0])
    assert head[name] != value
    other = msgspec.json.encode(head | {name: value}) + b"\n" + data.split(b"\n", 1)[1]
    with pytest.raises(UnusableSnapshot, match="version"):
        snapshot_from_bytes(other, nothing)


def test_a_session_without_a_header_has_no_snapshot() -> None:
    with pytest.raises(ValueError, match="header"):
        take_snapshot(SessionState())
