import asyncio
import os
import stat
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from typing_extensions import override

from agent_sdk.core.errors import (
    FileConflict,
    InvalidInput,
    SessionReadOnly,
    StaleFile,
    StorageError,
    ToolError,
)
from agent_sdk.core.failpoints import Faults
from agent_sdk.core.ids import RandomIds, SystemClock
from agent_sdk.session.checkpoint_store import MemoryCheckpoints
from agent_sdk.session.manager import SessionManager
from agent_sdk.session.records import CustomRecord, FileChangeRecord, RunRecord
from agent_sdk.session.rewind_plan import UNTRACKED
from tests.support.rewinds import RewindBench, opened, without_syncs
from tests.support.session_files import answer


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    without_syncs(monkeypatch)


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[RewindBench]:
    async with opened(tmp_path) as bench:
        yield bench


async def kinds(bench: RewindBench, to: str) -> dict[str, str]:
    preview = await bench.rewind.preview(to)
    return {problem.shown: problem.kind for problem in preview.problems}


async def test_files_go_back_and_forth(bench: RewindBench) -> None:
    bench.tools.put("old", b"one\r\ntwo\r\n\xff")
    first = await bench.say("first")
    await bench.put("old", "changed")
    await bench.put("new/deep", "made\n")
    second = await bench.say("second")
    await bench.put("old", "changed again")
    after = bench.files()

    preview = await bench.rewind.preview(first)
    assert preview.possible
    assert [(f.shown, f.action) for f in preview.files] == [
        ("new/deep", "delete"),
        ("old", "restore"),
    ]
    assert bench.files() == after, "a preview touches nothing"
    undo = await bench.rewind.commit(preview)
    assert bench.files() == {"old": b"one\r\ntwo\r\n\xff"}
    assert bench.tools.at("new").is_dir(), "folders stay"

    await bench.undo(undo)
    assert bench.files() == after
    await bench.back(second)
    assert bench.files() == {"old": b"changed", "new/deep": b"made\n"}


async def test_undo_can_be_taken_back_too(bench: RewindBench) -> None:
    first = await bench.say()
    await bench.put("a", "1")
    done = await bench.back(first)
    again = await bench.undo(done)
    assert bench.files() == {"a": b"1"}
    await bench.undo(again)
    assert bench.files() == {}


async def test_each_change_is_a_record_before_it_is_made(bench: RewindBench) -> None:
    bench.tools.put("a", "old").chmod(0o640)
    await bench.say()
    await bench.put("a", "new")
    path = bench.manager.path
    assert path is not None
    line = path.read_bytes().splitlines()[-1].decode()
    assert '"type":"file_change"' in line
    assert f'"path":"{bench.tools.at("a")}","toolUseId":"call"' in line
    assert '"size":3,"mode":416' in line


async def test_what_a_preview_says(bench: RewindBench) -> None:
    bench.tools.put("a", "one\ntwo\nthree\n")
    first = await bench.say()
    await bench.put("a", "one\n2\n")
    preview = await bench.rewind.preview(first)
    assert (preview.additions, preview.deletions) == (2, 1)
    assert "+two\n" in preview.files[0].diff
    assert preview.text.splitlines() == ["Restore 'a' (+2 -1)", UNTRACKED]
    assert "bash" in UNTRACKED


async def test_nothing_to_do(bench: RewindBench) -> None:
    first = await bench.say()
    preview = await bench.rewind.preview(first)
    assert preview.text.startswith("No file changes.")
    assert await bench.rewind.commit(preview) == ""
    with pytest.raises(InvalidInput, match="no user message 'nobody'"):
        await bench.rewind.preview("nobody")
    with pytest.raises(InvalidInput, match="no rewind 'nothing'"):
        await bench.rewind.preview_undo("nothing")
    assert bench.manager.state.count == 2


async def test_unwritten_session_has_no_checkpoints(bench: RewindBench) -> None:
    assert await bench.rewind.checkpoints() == []


async def test_checkpoints_are_the_prompts(bench: RewindBench) -> None:
    first = await bench.say("first")
    await bench.manager.append(answer("hello"))
    await bench.put("a", "1")
    await bench.put("a", "2")
    await bench.put("b", "1")
    second = await bench.say("second\nline")
    found = await bench.rewind.checkpoints()
    assert [(c.uuid, c.text, c.files) for c in found] == [
        (first, "first", 2),
        (second, "second line", 0),
    ]


# ------------------------------------------------------------------- conflicts


async def test_edit_by_somebody_else_is_never_overwritten(bench: RewindBench) -> None:
    bench.tools.put("a", "old")
    first = await bench.say()
    await bench.put("a", "ours")
    await bench.put("b", "ours")
    bench.tools.put("a", "theirs")
    assert await kinds(bench, first) == {"a": "changed"}
    with pytest.raises(FileConflict, match=r"'a' was changed by somebody else since.*Nothing"):
        await bench.back(first)
    assert bench.files() == {"a": b"theirs", "b": b"ours"}


async def test_edit_between_two_of_ours(bench: RewindBench) -> None:
    first = await bench.say()
    await bench.put("a", "ours")
    bench.tools.put("a", "theirs")
    second = await bench.say()
    await bench.put("a", "ours, after reading theirs")
    assert await kinds(bench, first) == {"a": "changed_between"}
    await bench.back(second)
    assert bench.files() == {"a": b"theirs"}


async def test_deleted_made_replaced_or_locked_by_somebody_else(bench: RewindBench) -> None:
    for name in ("gone", "linked", "folder", "locked", "large"):
        bench.tools.put(name, "old")
    first = await bench.say()
    for name in ("gone", "linked", "folder", "locked", "large", "made"):
        await bench.put(name, "ours")
    bench.tools.at("gone").unlink()
    bench.tools.at("linked").unlink()
    bench.tools.at("linked").symlink_to("gone")
    bench.tools.at("folder").unlink()
    bench.tools.at("folder").mkdir()
    bench.tools.at("locked").chmod(0o400)
    with bench.tools.at("large").open("r+b") as file:
        file.truncate(11 << 20)
    bench.tools.at("made").unlink()  # what we made is gone already: nothing to do
    assert await kinds(bench, first) == {
        "gone": "changed",
        "linked": "not_a_file",
        "folder": "not_a_file",
        "locked": "read_only",
        "large": "changed",
    }


async def test_folder_that_became_a_link_leads_nowhere(bench: RewindBench, tmp_path: Path) -> None:
    first = await bench.say()
    await bench.put("sub/a", "ours")
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "a").write_bytes(b"ours")
    bench.tools.at("sub/a").unlink()
    bench.tools.at("sub").rmdir()
    bench.tools.at("sub").symlink_to(outside)
    assert await kinds(bench, first) == {"sub/a": "not_a_file"}
    assert (outside / "a").read_bytes() == b"ours"


async def test_changed_back_by_hand_is_no_conflict(bench: RewindBench) -> None:
    bench.tools.put("a", "old")
    first = await bench.say()
    await bench.put("a", "ours")
    await bench.put("a", "ours 2")
    bench.tools.put("a", "ours")
    await bench.back(first)
    assert bench.files() == {"a": b"old"}
    bench.tools.put("a", "old")
    assert (await bench.rewind.preview(first)).files == ()


async def test_changed_after_the_preview(bench: RewindBench) -> None:
    first = await bench.say()
    await bench.put("a", "1")
    await bench.put("b", "1")
    preview = await bench.rewind.preview(first)
    bench.tools.put("b", "theirs")
    with pytest.raises(FileConflict, match="not what its preview showed"):
        await bench.rewind.commit(preview)
    assert bench.files() == {"a": b"1", "b": b"theirs"}


async def test_changed_in_the_last_moment(bench: RewindBench, tmp_path: Path) -> None:
    """Between the check of the preview and the first replacement, and even after that."""

    class Late(Faults):
        @override
        def act(self, point: str) -> None:
            if self.strike(point):
                bench.tools.put("b", "theirs")

    for name, nth in (("replace.open", 1), ("at.check", 1), ("at.check", 2)):
        first = await bench.say()
        await bench.put("a", "ours")
        await bench.put("b", "ours")
        preview = await bench.rewind.preview(first)
        late = Late(name=name, nth=nth, action="delay")
        bench.store._faults = bench.tools.state._faults = late  # type: ignore[attr-defined]
        with pytest.raises(StorageError):
            await bench.rewind.commit(preview)
        bench.store._faults = bench.tools.state._faults = None  # type: ignore[attr-defined]
        assert bench.files() == {"a": b"ours", "b": b"theirs"}, (name, nth)
        assert bench.store.plan() is None
        for left in ("a", "b"):
            bench.tools.at(left).unlink()


async def test_undo_of_what_was_changed_since(bench: RewindBench) -> None:
    bench.tools.put("a", "old")
    first = await bench.say()
    await bench.put("a", "ours")
    done = await bench.back(first)
    await bench.say()
    await bench.put("a", "newer")
    preview = await bench.rewind.preview_undo(done)
    assert [problem.kind for problem in preview.problems] == ["changed_later"]
    await bench.put("a", "ours")  # even if it happens to be what it was
    preview = await bench.rewind.preview_undo(done)
    assert [problem.kind for problem in preview.problems] == ["changed_later"]


async def test_undo_spares_what_came_later(bench: RewindBench) -> None:
    first = await bench.say()
    await bench.put("a", "ours")
    done = await bench.back(first)
    await bench.put("b", "newer")
    await bench.undo(done)
    assert bench.files() == {"a": b"ours", "b": b"newer"}


async def test_outside(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    roots = (str(tmp_path / "project" / "inner"),)
    async with opened(tmp_path, roots=roots) as bench:
        first = await bench.say()
        await bench.put("inner/a", "1")
        await bench.put("b", "1")
        assert await kinds(bench, first) == {"b": "outside"}


async def test_content_that_is_gone_or_damaged(bench: RewindBench) -> None:
    for name in ("a", "b"):
        bench.tools.put(name, name * 20_000)
    first = await bench.say()
    await bench.put("a", "1")
    await bench.put("b", "1")
    assert bench.manager.path is not None
    kept = sorted((bench.manager.path.with_suffix("") / "checkpoints").iterdir())
    assert [p.suffix for p in kept] == [".z", ".z"]
    assert {stat.S_IMODE(p.stat().st_mode) for p in kept} == {0o600}
    kept[0].unlink()
    kept[1].write_bytes(b"x")
    assert await kinds(bench, first) == {"a": "not_kept", "b": "not_kept"}


async def test_no_room(tmp_path: Path) -> None:
    async with opened(tmp_path, limit=10) as bench:
        bench.tools.put("large", "12345678901")
        bench.tools.put("small", "12345")
        first = await bench.say()
        await bench.put("large", "1")
        await bench.put("small", "1")
        assert await kinds(bench, first) == {"large": "not_kept"}
        second = await bench.say()
        await bench.put("other", "123456")
        with pytest.raises(StorageError, match="keeps its limit already"):
            await bench.back(second)
        assert bench.files()["other"] == b"123456"


# --------------------------------------------------------------------- failures


async def test_a_change_that_cannot_be_kept_is_not_made(tmp_path: Path) -> None:
    async with opened(tmp_path, faults=Faults(name="replace.write", nth=1, action="enospc")) as b:
        b.tools.put("a", "old")
        await b.say()
        with pytest.raises(ToolError, match=r"Nothing was changed.*No space"):
            await b.put("a", "new")
        assert b.files() == {"a": b"old"}
        await b.put("a", "new")


@pytest.mark.parametrize(
    "point", ["at.write", "at.rename", "at.dirsync", "at.remove", "append.write"]
)
@pytest.mark.parametrize("nth", [1, 2, 3])
async def test_all_or_nothing(tmp_path: Path, point: str, nth: int) -> None:
    """Every step of every file can fail; the files are then as they were."""
    async with opened(tmp_path) as bench:
        for name in ("a", "b", "c"):
            bench.tools.put(name, f"old {name}")
        first = await bench.say()
        for name in ("a", "b", "c", "d", "e", "f"):
            await bench.put(name, f"new {name}")
        before = bench.files()
        preview = await bench.rewind.preview(first)
        faults = Faults(name=point, nth=nth, action="enospc")
        bench.tools.state._faults = faults
        bench.manager.store._log._faults = faults  # type: ignore[attr-defined]
        if point == "append.write" and nth > 1:
            await bench.rewind.commit(preview)
            return
        with pytest.raises(StorageError):
            await bench.rewind.commit(preview)
        assert bench.files() == before
        assert bench.store.plan() is None
        await bench.rewind.commit(await bench.rewind.preview(first))
        assert bench.files() == {n: f"old {n}".encode() for n in ("a", "b", "c")}


async def test_a_caller_that_goes_away_does_not_stop_it(bench: RewindBench) -> None:
    first = await bench.say()
    for name in "abcdef":
        await bench.put(name, "1")
    preview = await bench.rewind.preview(first)
    for turns in (1, 3, 6):
        task = asyncio.ensure_future(bench.rewind.commit(preview))
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert bench.files() == {}
        assert bench.store.plan() is None
        (done,) = list((await bench.rewind._log()).rewinds)[-1:]
        await bench.undo(done)
        preview = await bench.rewind.preview(first)


async def test_not_while_a_run_goes_on_or_when_read_only(bench: RewindBench) -> None:
    first = await bench.say()
    await bench.put("a", "1")
    preview = await bench.rewind.preview(first)
    await bench.manager.append(RunRecord(event="start", run_id="r"))
    with pytest.raises(InvalidInput, match="busy with a run"):
        await bench.rewind.commit(preview)
    await bench.manager.append(RunRecord(event="end", run_id="r", status="completed"))
    await bench.manager.close()
    with pytest.raises(SessionReadOnly):
        await bench.rewind.commit(preview)
    assert bench.files() == {"a": b"1"}


# ------------------------------------------------------------------- the rest


async def test_modes_are_restored(bench: RewindBench) -> None:
    bench.tools.put("script", "#!/bin/sh\n").chmod(0o755)
    bench.tools.put("kept", "x").chmod(0o600)
    first = await bench.say()
    for name in ("script", "kept", "new"):
        await bench.put(name, "new")
    bench.tools.at("script").chmod(0o644)
    bench.tools.at("new").chmod(0o711)
    done = await bench.back(first)
    mode = {n: stat.S_IMODE(bench.tools.at(n).stat().st_mode) for n in ("script", "kept")}
    assert mode == {"script": 0o755, "kept": 0o600}
    await bench.undo(done)
    assert stat.S_IMODE(bench.tools.at("new").stat().st_mode) == 0o711
    assert stat.S_IMODE(bench.tools.at("script").stat().st_mode) == 0o644


async def test_the_model_must_read_again(bench: RewindBench) -> None:
    bench.tools.put("a", "old")
    first = await bench.say()
    await bench.put("a", "new")
    await bench.back(first)
    with pytest.raises(StaleFile, match="has not been read"):
        await bench.tools.write("a", "blind")
    await bench.put("a", "seen")


async def test_odd_names(bench: RewindBench) -> None:
    first = await bench.say()
    for name in ("小明.txt", "back\\xslash", "a\\\\x41b", "line\nbreak", os.fsdecode(b"\xff\xfe")):
        await bench.put(name, "made")
    assert len(bench.files()) == 5
    await bench.back(first)
    assert bench.files() == {}


async def test_in_memory(tmp_path: Path) -> None:
    manager = SessionManager.in_memory(cwd=tmp_path, ids=RandomIds(), clock=SystemClock())
    bench = RewindBench(tmp_path, manager)
    assert isinstance(bench.store, MemoryCheckpoints)
    bench.tools.put("a", "old")
    first = await bench.say()
    await bench.put("a", "new")
    done = await bench.back(first)
    assert bench.files() == {"a": b"old"}
    await bench.undo(done)
    assert bench.files() == {"a": b"new"}
    await manager.close()


async def test_after_a_restart(tmp_path: Path) -> None:
    async with opened(tmp_path) as bench:
        bench.tools.put("a", "old")
        first = await bench.say()
        await bench.put("a", "new")
        done = await bench.back(first)
    async with opened(tmp_path) as bench:
        assert await bench.rewind.recover() is None
        await bench.undo(done)
        assert bench.files() == {"a": b"new"}
        await bench.back(first)
        assert bench.files() == {"a": b"old"}


async def test_change_that_was_recorded_and_not_made(bench: RewindBench) -> None:
    bench.tools.put("a", "old")
    first = await bench.say()
    await bench.put("a", "new")
    bench.tools.state._faults = Faults(name="at.rename", nth=1, action="eio")
    with pytest.raises(ToolError):
        await bench.put("a", "newer")
    await bench.put("b", "1")
    assert [f.shown for f in (await bench.rewind.preview(first)).files] == ["a", "b"]
    await bench.put("a", "newest")
    await bench.back(first)
    assert bench.files() == {"a": b"old"}


# --------------------------------------------------------------- conversation


async def test_conversation_alone_or_with_files(bench: RewindBench) -> None:
    await bench.say("zero")
    first = await bench.say("first")
    await bench.put("a", "1")
    await bench.manager.append(answer("done"))
    state = bench.manager.state
    before = list(state.message_uuids)

    done = await bench.back(first, what="conversation")
    assert state.message_uuids == before[:1]
    assert bench.files() == {"a": b"1"}
    await bench.undo(done)
    assert state.message_uuids == before

    preview = await bench.rewind.preview(first, what="both")
    assert "The conversation goes back, too." in preview.text
    done = await bench.rewind.commit(preview)
    assert (state.message_uuids, bench.files()) == (before[:1], {})
    await bench.undo(done)
    assert (state.message_uuids, bench.files()) == (before, {"a": b"1"})

    await bench.back(first)
    assert (state.message_uuids, bench.files()) == (before, {})


async def test_conversation_that_has_gone_on_cannot_be_taken_back(bench: RewindBench) -> None:
    first = await bench.say("first")
    await bench.put("a", "1")
    done = await bench.back(first, what="both")
    await bench.say("another way")
    with pytest.raises(InvalidInput, match="gone on since"):
        await bench.rewind.preview_undo(done)


async def test_store_that_cannot_be_read_again(tmp_path: Path) -> None:
    class Elsewhere:
        path = None

    async with opened(tmp_path) as bench:
        store, bench.manager._store = bench.manager._store, Elsewhere()  # type: ignore[assignment]
        with pytest.raises(InvalidInput, match="store cannot be read again"):
            await bench.rewind.checkpoints()
        bench.manager._store = store


async def test_marks_of_later_versions_are_left_alone(bench: RewindBench) -> None:
    first = await bench.say()
    await bench.put("a", "1")
    await bench.manager.append(CustomRecord(custom_type="zpi.file_rewind", data={"id": 1}))
    await bench.manager.append(FileChangeRecord(path="/nowhere/x"))
    log = await bench.rewind._log()
    assert log.rewinds == {}
    await bench.back(first)
    assert bench.files() == {}
