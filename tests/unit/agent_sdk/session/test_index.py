"""The index beside a session file: quick where it is good, refused where it is not."""

import asyncio
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from agent_sdk.core.errors import InvalidInput, SessionDamaged
from agent_sdk.session import index as index_module
from agent_sdk.session import opening as opening_module
from agent_sdk.session import store as store_module
from agent_sdk.session.history import SessionState
from agent_sdk.session.index import index_path, read_facts, read_index
from agent_sdk.session.listing import list_sessions, summarize
from agent_sdk.session.records import (
    CompactionRecord,
    RewindRecord,
    RunRecord,
    SessionInfoRecord,
)
from tests.support.session_files import (
    CWD,
    CountingIds,
    answer,
    create,
    fault,
    prompt,
    result,
    resume,
    started,
    written,
)
from tests.support.session_states import facts_of, random_records

SID = "indexed-session"
LAST = "00000000-0000-4000-8000-000000000009"  # the last record of TALK
LONG = "word " * 400
TALK = (
    prompt("  the first\nquestion"),
    answer("one", "c1"),
    started("c1"),
    result("c1", LONG),
    SessionInfoRecord(title="A title"),
    answer("two", tokens=7),
    prompt(LONG),
    answer(LONG),
)


@pytest.fixture(autouse=True)
def every_file_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_module, "MIN_FILE_BYTES", 1)


def nothing(name: str) -> bytes | None:
    """Return that there is no artifact."""


async def whole_state(root: Path) -> SessionState:
    """Return the fold of all records, whatever the index says."""
    manager = await resume(root, SID, read_only=True, observe=lambda _: None)
    await manager.close()
    assert not manager.state.partial
    return manager.state


async def quick_state(root: Path) -> SessionState:
    manager = await resume(root, SID, read_only=True)
    await manager.close()
    return manager.state


async def agrees(root: Path, *, partial: bool) -> None:
    """Check that a quick resume says what the whole file says, and whether it was quick."""
    quick = await quick_state(root)
    assert bool(quick.partial) == partial
    assert facts_of(quick) == facts_of(await whole_state(root))


async def grown(root: Path, *records: Any) -> Path:
    """Write a session that went on after its index was written, and was killed then."""
    path = await written(root, *TALK, session_id=SID)
    old = index_path(path).read_bytes()
    manager = await resume(root, SID)
    for record in records:
        await manager.append(record)
    await manager.close()
    index_path(path).write_bytes(old)
    return path


# ------------------------------------------------------------------- in use


async def test_closing_writes_an_index_from_which_the_session_resumes(tmp_path: Path) -> None:
    path = await written(tmp_path, *TALK, session_id=SID)
    assert os.name == "nt" or index_path(path).stat().st_mode & 0o777 == 0o600
    whole = await whole_state(tmp_path)
    manager = await resume(tmp_path, SID)
    assert manager.state.partial == whole.count == len(TALK) + 1
    assert facts_of(manager.state) == facts_of(whole)
    await manager.append(prompt("more"), answer("yes"))
    await manager.close()
    await agrees(tmp_path, partial=True)
    assert (await quick_state(tmp_path)).partial == len(TALK) + 3


async def test_what_came_after_the_index_is_read(tmp_path: Path) -> None:
    await grown(
        tmp_path,
        prompt("x"),
        answer("y", "c9"),
        started("c9"),
        RewindRecord(to_uuid=LAST, reason="rewind"),
    )
    quick = await quick_state(tmp_path)
    assert (quick.partial, quick.count) == (len(TALK) + 1, len(TALK) + 5)
    await agrees(tmp_path, partial=True)


async def test_a_run_that_was_cut_off_is_settled(tmp_path: Path) -> None:
    await written(tmp_path, *TALK, RunRecord(event="start", run_id="r"), session_id=SID)
    manager = await resume(tmp_path, SID)
    assert [n.code for n in manager.notices] == ["interrupted"]
    assert manager.state.open_run == ""
    await manager.close()
    await agrees(tmp_path, partial=True)


async def test_a_small_file_gets_no_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_module, "MIN_FILE_BYTES", 1 << 20)
    path = await written(tmp_path, *TALK, session_id=SID)
    assert not index_path(path).exists()
    await agrees(tmp_path, partial=False)


async def test_a_reader_writes_no_index(tmp_path: Path) -> None:
    path = await written(tmp_path, *TALK, session_id=SID)
    index_path(path).unlink()
    await quick_state(tmp_path)
    assert not index_path(path).exists()
    await (await resume(tmp_path, SID)).close()
    assert index_path(path).exists()


async def test_whoever_observes_gets_every_record(tmp_path: Path) -> None:
    await written(tmp_path, *TALK, session_id=SID)
    seen: list[Any] = []
    await (await resume(tmp_path, SID, observe=seen.append)).close()
    assert len(seen) == len(TALK) + 1


async def test_the_index_is_written_while_a_session_grows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_module, "INDEX_EVERY_BYTES", 5_000)
    manager = await create(tmp_path, session_id=SID)
    assert manager.path is not None
    await manager.append(prompt("a"))
    assert not index_path(manager.path).exists()
    for _ in range(5):
        await manager.append(prompt(LONG))
    first = index_path(manager.path).read_bytes()
    await manager.append(prompt("b"))
    assert index_path(manager.path).read_bytes() == first
    assert manager.state.partial == 4  # what is out of view may be forgotten
    await agrees(tmp_path, partial=True)
    await asyncio.gather(*(manager.append(prompt(LONG)) for _ in range(40)))
    await manager.append(prompt("c"))  # it waits until the index is written
    assert index_path(manager.path).read_bytes() != first
    await manager.close()
    await agrees(tmp_path, partial=True)


async def test_an_index_that_cannot_be_written_costs_nothing_else(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = await written(tmp_path, *TALK, session_id=SID, faults=fault("replace.write", "enospc"))
    assert not index_path(path).exists()
    assert "no index of" in caplog.text
    await agrees(tmp_path, partial=False)


# ----------------------------------------------------- old records are needed


async def test_going_back_further_than_the_view_reads_the_rest(tmp_path: Path) -> None:
    path = await written(tmp_path, *TALK, session_id=SID)
    first_prompt = "00000000-0000-4000-8000-000000000002"
    manager = await resume(tmp_path, SID)
    await manager.append(prompt("new"))
    assert manager.state.partial
    await manager.append(RewindRecord(to_uuid=first_prompt, reason="rewind"))
    assert not manager.state.partial
    assert manager.state.message_uuids == [first_prompt]
    await manager.close()
    await agrees(tmp_path, partial=True)
    index_path(path).unlink()
    await agrees(tmp_path, partial=False)


async def test_reading_a_long_session_forgets_what_is_out_of_view(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opening_module, "_FORGET_AFTER", 5)
    compaction = CompactionRecord(summary="s", keep_from_uuid=None)
    path = await written(tmp_path, *TALK, compaction, prompt("x"), answer("y"), session_id=SID)
    index_path(path).unlink()
    manager = await resume(tmp_path, SID)
    assert manager.state.partial == len(TALK) + 2
    assert facts_of(manager.state) == facts_of(await whole_state(tmp_path))
    await asyncio.gather(manager.recall(), manager.recall())
    assert not manager.state.partial
    assert facts_of(manager.state) == facts_of(await whole_state(tmp_path))
    await manager.close()


async def test_a_pointer_to_nowhere_is_still_refused(tmp_path: Path) -> None:
    await written(tmp_path, *TALK, session_id=SID)
    manager = await resume(tmp_path, SID)
    with pytest.raises(InvalidInput, match="no record 'nowhere'"):
        await manager.append(RewindRecord(to_uuid="nowhere", reason="rewind"))
    await manager.append(prompt("goes on"))
    await manager.close()


async def test_all_is_read_if_a_later_record_goes_far_back(tmp_path: Path) -> None:
    to_uuid = "00000000-0000-4000-8000-000000000003"
    path = await grown(tmp_path, prompt("x"), RewindRecord(to_uuid=to_uuid, reason="rewind"))
    with path.open("ab") as stream:
        stream.write(b'{"type":"user","uu')
    manager = await resume(tmp_path, SID, ids=CountingIds(7_000))
    assert not manager.state.partial
    assert "torn_tail" in [notice.code for notice in manager.notices]
    await manager.close()
    await agrees(tmp_path, partial=True)


async def test_a_file_that_changed_while_it_was_open_is_not_read_again(tmp_path: Path) -> None:
    path = await written(tmp_path, *TALK, session_id=SID)
    manager = await resume(tmp_path, SID)
    body = path.read_bytes()
    path.write_bytes(body.replace(b"-000000000003", b"-00000000000x", 1))
    with pytest.raises(SessionDamaged, match="changed while it was open"):
        await manager.recall()
    assert manager.state.partial
    await manager.close()


# ------------------------------------------------------------ what is refused


def edited(path: Path, change: Callable[[bytes], bytes]) -> None:
    """Change a file in place, as some editors do."""
    changed = change(path.read_bytes())
    with path.open("r+b") as stream:
        stream.write(changed)
        stream.truncate()


def swap(old: bytes, new: bytes) -> Callable[[Path], None]:
    def change(path: Path) -> None:
        edited(path, lambda body: body.replace(old, new, 1))

    return change


def copied(path: Path) -> None:
    shutil.copy2(path, path.with_suffix(".copy"))
    path.with_suffix(".copy").replace(path)


def touched(path: Path) -> None:
    os.utime(path, ns=(0, 0))


def without_last(path: Path) -> None:
    edited(path, lambda body: body[: body.rindex(b"\n", 0, -1) + 1])


EDITS: dict[str, Callable[[Path], None]] = {
    "same length": swap(b"one", b"eno"),
    "longer": swap(b"question", b"a longer question"),
    "shorter": swap(b"question", b"q"),
    "copied": copied,
    "touched": touched,
    "last record cut off": without_last,
    "last record changed": lambda path: edited(
        path, lambda b: b[:-200].replace(b"word", b"WORD") + b[-200:]
    ),
}


@pytest.mark.parametrize("name", EDITS)
async def test_an_index_of_another_file_is_refused(tmp_path: Path, name: str) -> None:
    path = await written(tmp_path, *TALK, session_id=SID)
    EDITS[name](path)
    assert read_index(path, nothing) is None
    assert read_facts(path) is None
    await agrees(tmp_path, partial=False)
    await (await resume(tmp_path, SID)).append(prompt("x"))


@pytest.mark.parametrize("name", ["same length", "longer", "copied", "last record changed"])
async def test_growth_does_not_hide_an_edit(tmp_path: Path, name: str) -> None:
    path = await grown(tmp_path, prompt("later"))
    assert read_index(path, nothing) is not None
    EDITS[name](path)
    assert read_index(path, nothing) is None
    await agrees(tmp_path, partial=False)


@pytest.mark.parametrize("at", range(0, 100, 9))
async def test_a_broken_index_is_refused(tmp_path: Path, at: int) -> None:
    path = await written(tmp_path, *TALK, session_id=SID)
    data = index_path(path).read_bytes()
    start = data.index(b"\n") + 1
    place = start + (len(data) - start) * at // 100
    for broken in (data[:place], data[:place] + b"\0" + data[place + 1 :], data + b"x", b""):
        index_path(path).write_bytes(broken)
        await agrees(tmp_path, partial=False)


async def test_an_index_of_another_version_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = await written(tmp_path, *TALK, session_id=SID)
    monkeypatch.setattr(index_module, "INDEX_VERSION", 2)
    assert read_index(path, nothing) is None
    assert read_facts(path) is None


async def test_damage_behind_the_index_is_found(tmp_path: Path) -> None:
    path = await grown(tmp_path, prompt("one more"), prompt("and more"), prompt("the last"))
    swap(b"one more", b'one" more')(path)
    with pytest.raises(SessionDamaged, match=f"line {len(TALK) + 2} "):
        await resume(tmp_path, SID)
    manager = await resume(tmp_path, SID, read_only=True)
    assert [n.code for n in manager.notices] == ["damaged"]
    await manager.close()


# -------------------------------------------------------------------- listing


async def test_a_list_is_made_of_indexes(tmp_path: Path) -> None:
    many = [prompt(LONG) for _ in range(200)]
    path = await written(tmp_path, *many, *TALK, *many, session_id=SID)
    (found,) = list_sessions(tmp_path / "sessions", CWD)
    assert (found.title, found.session_id, found.cwd) == ("A title", SID, CWD)
    index_path(path).unlink()
    (without,) = list_sessions(tmp_path / "sessions", CWD)
    assert without.title == ""  # it is in the middle, which is not read
    for field in ("session_id", "path", "cwd", "first_prompt", "created", "last_used", "size"):
        assert getattr(found, field) == getattr(without, field)


async def test_a_list_does_not_believe_an_old_index(tmp_path: Path) -> None:
    path = await grown(tmp_path, SessionInfoRecord(title="Newer"))
    summary = summarize(path)
    assert summary is not None
    assert summary.title == "Newer"
    index_path(path).write_bytes(b"{}\n")
    assert summarize(path) == summary


# ---------------------------------------------------------------- by chance

STEPS = st.lists(
    st.tuples(
        st.sampled_from(["append", "append", "append", "kill", "tear", "edit", "copy", "close"]),
        st.integers(0, 1 << 16),
        random_records(6),
    ),
    max_size=8,
)


async def live(root: Path, steps: list[tuple[str, int, list[Any]]]) -> None:
    """One session through appends, kills, torn writes and foreign hands."""
    manager = await create(root, session_id=SID)
    await manager.append(*TALK)
    path = manager.path
    assert path is not None
    for number, (step, chance, records) in enumerate(steps, 1):
        if step == "append":
            uuids = list((await whole_state(root)).trail.at)
            for record in records:
                await manager.append(pointing(record, uuids))
            continue
        before = index_path(path).read_bytes() if index_path(path).exists() else b""
        await manager.close()
        if step in ("kill", "tear"):  # the index is what it was
            index_path(path).write_bytes(before)
        if step == "tear":
            with path.open("ab") as stream:
                stream.write(b'{"type":"user","uuid":"t'[: chance % 25])
        elif step == "edit":
            edited(path, lambda body: body.replace(b"first", b"1st  "))
        elif step == "copy":
            copied(path)
        whole = await whole_state(root)
        assert facts_of(await quick_state(root)) == facts_of(whole)
        ids = CountingIds(number * 1_000)
        manager = await resume(root, SID, ids=ids)
        assert facts_of(manager.state) == facts_of(await whole_state(root))
    await manager.close()
    assert facts_of(await quick_state(root)) == facts_of(await whole_state(root))


def pointing(record: Any, uuids: list[str]) -> Any:
    """Return the record with its pointers to records that exist."""

    def real(name: str | None) -> str | None:
        return None if name is None else uuids[int(name[1:]) % len(uuids)]

    if isinstance(record, RewindRecord):
        return structs.replace(record, to_uuid=real(record.to_uuid))
    if isinstance(record, CompactionRecord):
        keep, clear = record.keep_from_uuid, record.clear_tool_results_before_uuid
        return structs.replace(
            record, keep_from_uuid=real(keep), clear_tool_results_before_uuid=real(clear)
        )
    return record


@settings(max_examples=25)
@given(steps=STEPS)
def test_a_quick_resume_equals_the_fold_of_all(steps: list[tuple[str, int, list[Any]]]) -> None:
    with (
        tempfile.TemporaryDirectory(prefix="zpi-index-") as folder,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setattr(store_module, "INDEX_EVERY_BYTES", 10_000)
        patch.setattr(opening_module, "_FORGET_AFTER", 2)
        asyncio.run(live(Path(folder), steps))
