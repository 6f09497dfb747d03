import asyncio
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from agent_sdk.core.errors import (
    DiskFull,
    SessionDamaged,
    SessionLocked,
    SessionNotFound,
    SessionReadOnly,
    StorageError,
)
from agent_sdk.core.failpoints import Faults
from agent_sdk.session.codec import Item
from agent_sdk.session.store import JsonlStore, LoadReport, MemoryStore
from tests.support.session_files import answer, fault, prompt, result, started, written

STAMP = "20260101"


def store_for(path: Path, mode: Any = "write", faults: Faults | None = None) -> JsonlStore:
    return JsonlStore(
        path=path,
        mode=mode,
        blobs_dir=path.parent / "artifacts",
        stamp=lambda: STAMP,
        faults=faults,
    )


async def load(store: JsonlStore) -> tuple[LoadReport, list[Item]]:
    items: list[Item] = []
    report = await store.load(items.append)
    return report, items


async def reading(path: Path) -> tuple[LoadReport, list[Item]]:
    store = store_for(path, "read")
    try:
        return await load(store)
    finally:
        await store.close()


TALK = (prompt("你好 😀"), answer("b", "c1"), started("c1"), result("c1", "é" * 9), answer("end ✓"))


# ------------------------------------------------------------------ torn tail


async def test_the_last_record_cut_at_every_byte(tmp_path: Path) -> None:
    whole = (await written(tmp_path, *TALK)).read_bytes()
    last = whole.rindex(b"\n", 0, -1) + 1
    path = tmp_path / "cut.jsonl"
    for length in range(last, len(whole)):
        path.write_bytes(whole[:length])
        before, _ = await reading(path)
        assert path.read_bytes() == whole[:length]  # readers do not repair

        store = store_for(path)
        report, items = await load(store)
        await store.append([b'{"glued":false}'], {})
        await store.close()
        assert b"".join(item.raw + b"\n" for item in items) == whole[:last]
        assert path.read_bytes() == whole[:last] + b'{"glued":false}\n'
        copies = list(tmp_path.glob("cut.jsonl.torn-*"))
        if length == last:
            assert (report.torn, before.torn, copies) == (None, None, [])
        else:
            assert report.torn is not None
            assert before.torn == report.torn
            assert report.torn.length == length - last
            assert report.saved_as == copies[0]
            assert copies[0].read_bytes() == whole[last:length]
            copies[0].unlink()


@pytest.mark.parametrize("size", [1, 200, 4096, 143_000])
@pytest.mark.parametrize("style", ["after", "over", "line"])
async def test_a_tail_of_nuls_is_cut_and_kept(tmp_path: Path, size: int, style: str) -> None:
    path = await written(tmp_path, *TALK)
    whole = path.read_bytes()
    last = whole.rindex(b"\n", 0, -1) + 1
    good = len(whole)
    if style == "after":  # the file grew, its content did not arrive
        path.write_bytes(whole + b"\0" * size)
    elif style == "over":  # the end of the last record and all behind it
        good = last
        path.write_bytes(whole[:-10] + b"\0" * (size + 10))
    else:  # a record and NULs on one line
        good = last
        path.write_bytes(whole[:-1] + b"\0" * size + b"\n")
    bad = path.read_bytes()
    store = store_for(path)
    report, items = await load(store)
    await store.close()
    assert path.read_bytes() == whole[:good]
    assert len(items) == (len(TALK) + 1 if style == "after" else len(TALK))
    assert report.saved_as is not None
    assert report.saved_as.read_bytes() == bad[good:]


async def test_a_bad_last_line_with_a_fragment_behind_it_is_one_tail(tmp_path: Path) -> None:
    path = await written(tmp_path, *TALK)
    whole = path.read_bytes()
    path.write_bytes(whole + b"\0\0\n" + whole[:20])
    store = store_for(path)
    report, _ = await load(store)
    await store.close()
    assert path.read_bytes() == whole
    assert report.saved_as is not None
    assert report.saved_as.read_bytes() == b"\0\0\n" + whole[:20]


async def test_a_repair_twice_gives_the_same_bytes(tmp_path: Path) -> None:
    path = await written(tmp_path, *TALK)
    whole = path.read_bytes()
    for number in range(2):
        path.write_bytes(whole + b"torn")
        for _ in range(2):
            store = store_for(path)
            await load(store)
            await store.close()
            assert path.read_bytes() == whole
        assert len(list(path.parent.glob("*.torn-*"))) == number + 1  # none is overwritten


async def test_a_disk_too_full_to_keep_the_tail_leaves_it(tmp_path: Path) -> None:
    path = await written(tmp_path, *TALK)
    path.write_bytes(path.read_bytes() + b"torn")
    store = store_for(path, faults=fault("copy.write", "enospc"))
    with pytest.raises(DiskFull):
        await load(store)
    await store.close()
    assert path.read_bytes().endswith(b"torn")


# --------------------------------------------------------------------- damage


def zeroed(data: bytes, line: int) -> bytes:
    lines = data.splitlines(keepends=True)
    lines[line] = b"\0" * len(lines[line])
    return b"".join(lines)


def without_line(data: bytes, line: int) -> bytes:
    lines = data.splitlines(keepends=True)
    del lines[line]
    return b"".join(lines)


def twice(data: bytes, line: int) -> bytes:
    lines = data.splitlines(keepends=True)
    return b"".join([*lines[: line + 1], lines[line], *lines[line + 1 :]])


def torn_in_the_middle(data: bytes, line: int) -> bytes:
    """Two writers: half a record, with another one glued to it."""
    lines = data.splitlines(keepends=True)
    lines[line] = lines[line][:40]
    return b"".join(lines)


@pytest.mark.parametrize(
    ("hurt", "good", "numbers"),
    [
        (zeroed, [0, 1, 4, 5], [3, 4]),  # with its newline, so that the next is lost too
        (without_line, [0, 1, 3, 4, 5], [3]),
        (twice, [0, 1, 2, 3, 4, 5], [4]),
        (torn_in_the_middle, [0, 1, 4, 5], [3, 4]),
    ],
)
async def test_damage_in_the_middle_can_be_read_but_not_written(
    tmp_path: Path, hurt: Any, good: list[int], numbers: list[int]
) -> None:
    path = await written(tmp_path, *TALK)
    whole = path.read_bytes()
    lines = whole.splitlines()
    bad = hurt(whole, 2)
    path.write_bytes(bad)

    store = store_for(path)
    with pytest.raises(SessionDamaged) as caught:
        await load(store)
    await store.close()
    assert f"line {numbers[0]} " in caught.value.message
    assert repr(str(path)) in caught.value.message
    assert "read" in caught.value.hint
    assert path.read_bytes() == bad
    assert os.listdir(path.parent) == [path.name]

    report, items = await reading(path)
    assert [item.raw for item in items] == [lines[n] for n in good]
    assert [line.number for line in report.damage] == numbers


async def test_several_bad_lines_at_the_end_are_damage(tmp_path: Path) -> None:
    path = await written(tmp_path, *TALK)
    path.write_bytes(path.read_bytes() + b"bad\nworse\n")
    store = store_for(path)
    with pytest.raises(SessionDamaged, match=r"line 7 .*line 8 "):
        await load(store)
    await store.close()


@pytest.mark.parametrize("coded", ["utf-16", "utf-8-sig", "crlf"])
async def test_a_file_that_an_editor_changed_is_refused(tmp_path: Path, coded: str) -> None:
    path = await written(tmp_path, *TALK)
    text = path.read_bytes().decode()
    data = text.replace("\n", "\r\n").encode() if coded == "crlf" else text.encode(coded)
    path.write_bytes(data)
    store = store_for(path)
    with pytest.raises(SessionDamaged):
        await load(store)
    await store.close()
    assert path.read_bytes() == data


# ------------------------------------------------------------------ one owner


async def test_two_openers_and_readers_beside_them(tmp_path: Path) -> None:
    path = await written(tmp_path, *TALK)
    first, second = store_for(path), store_for(path)
    await load(first)
    with pytest.raises(SessionLocked) as caught:
        await load(second)
    assert repr(str(path)) in caught.value.message
    assert caught.value.hint
    assert len((await reading(path))[1]) == len(TALK) + 1
    await first.append([b"{}"], {})
    await first.close()
    third = store_for(path)
    with pytest.raises(StorageError):
        await second.append([b"{}"], {})
    assert (await load(third))[0].torn is not None  # "{}" is no record
    await third.close()
    await second.close()


async def test_two_that_make_the_same_file(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    first, second = store_for(path, "new"), store_for(path, "new")
    await first.append([b"1"], {})
    with pytest.raises(SessionLocked):
        await second.append([b"2"], {})
    await first.close()
    with pytest.raises(StorageError):  # not its own
        await second.append([b"2"], {})
    await second.close()
    assert path.read_bytes() == b"1\n"


async def test_a_new_session_does_not_take_one_that_exists(tmp_path: Path) -> None:
    path = await written(tmp_path, *TALK)
    whole = path.read_bytes()
    store = store_for(path, "new")
    with pytest.raises(StorageError, match="exists already"):
        await store.append([b"1"], {})
    await store.close()
    assert path.read_bytes() == whole


@pytest.mark.parametrize("left", [b"", b'{"type":"session","uu'])
async def test_a_new_session_takes_a_file_that_was_never_begun(tmp_path: Path, left: bytes) -> None:
    path = tmp_path / "s.jsonl"
    path.write_bytes(left)
    for mode in ("write", "read"):
        store = store_for(path, mode)
        if mode == "write":
            with pytest.raises(SessionNotFound):
                await load(store)
        else:
            assert (await load(store))[0].count == 0
        await store.close()
    store = store_for(path, "new")
    await store.append([b"1"], {})
    await store.close()
    assert path.read_bytes() == b"1\n"
    assert [p.read_bytes() for p in tmp_path.glob("*.torn-*")] == ([left] if left else [])


async def test_a_file_that_is_missing(tmp_path: Path) -> None:
    for mode in ("write", "read"):
        store = store_for(tmp_path / "none.jsonl", mode)
        with pytest.raises(SessionNotFound):
            await load(store)
        await store.close()


# ----------------------------------------------------------------- the barrier


async def test_what_is_queued_goes_down_with_one_sync(tmp_path: Path) -> None:
    faults = fault("append.sync", "delay", 1)
    store = store_for(tmp_path / "s.jsonl", "new", faults)
    await asyncio.gather(*(store.append([b"%d" % n, b"x"], {}) for n in range(50)))
    await store.close()
    assert faults.hits < 10  # the first, and what was queued while it was delayed
    expected = b"".join(b"%d\nx\n" % n for n in range(50))
    assert (tmp_path / "s.jsonl").read_bytes() == expected


async def test_artifacts_are_there_before_the_line(tmp_path: Path) -> None:
    store = store_for(tmp_path / "s.jsonl", "new", fault("append.write", "enospc"))
    with pytest.raises(DiskFull):
        await store.append([b"line"], {"ab" * 32: b"picture"})
    assert store.blob("ab" * 32) == b"picture"
    await store.append([b"line"], {"ab" * 32: b"picture"})
    assert store.blob("cd" * 32) is None
    assert store.blob("../s.jsonl") is None
    await store.close()


async def test_a_full_disk_is_usable_again(tmp_path: Path) -> None:
    for action in ("enospc", "short"):
        path = tmp_path / f"{action}.jsonl"
        store = store_for(path, "new", fault("append.write", action, 2))
        await store.append([b"one"], {})
        with pytest.raises(DiskFull):
            await store.append([b"two"], {})
        assert store.writable
        await store.append([b"three"], {})
        await store.close()
        assert path.read_bytes() == b"one\nthree\n"


@pytest.mark.parametrize("point", ["mkdir.make", "append.create", "append.write"])
async def test_a_disk_that_is_full_at_the_first_append(tmp_path: Path, point: str) -> None:
    path = tmp_path / "new" / "s.jsonl"
    store = store_for(path, "new", fault(point, "enospc"))
    with pytest.raises(DiskFull):
        await store.append([b"one"], {})
    await store.append([b"two"], {})
    await store.close()
    assert path.read_bytes() == b"two\n"


async def test_a_failed_sync_makes_it_read_only(tmp_path: Path) -> None:
    faults = fault("append.sync", "eio", 2)
    store = store_for(tmp_path / "s.jsonl", "new", faults)
    await store.append([b"one"], {})
    with pytest.raises(StorageError):
        await store.append([b"two"], {})
    assert not store.writable
    with pytest.raises(SessionReadOnly):
        await store.append([b"three"], {})
    assert faults.hits == 2
    await store.close()


async def test_closing_finishes_what_is_queued_and_ends_the_thread(tmp_path: Path) -> None:
    before = threading.active_count()
    store = store_for(tmp_path / "s.jsonl", "new", fault("append.sync", "delay"))
    waiting = asyncio.gather(*(store.append([b"%d" % n], {}) for n in range(5)))
    await asyncio.sleep(0)
    await store.close()
    await store.close()
    await waiting
    assert threading.active_count() == before
    assert (tmp_path / "s.jsonl").read_bytes() == b"0\n1\n2\n3\n4\n"
    with pytest.raises(StorageError, match="closed"):
        await store.append([b"5"], {})


async def test_a_cancelled_waiter_stops_nobody_else(tmp_path: Path) -> None:
    store = store_for(tmp_path / "s.jsonl", "new", fault("append.sync", "delay"))
    first = asyncio.ensure_future(store.append([b"1"], {}))
    second = asyncio.ensure_future(store.append([b"2"], {}))
    await asyncio.sleep(0)
    first.cancel()
    await second
    with pytest.raises(asyncio.CancelledError):
        await first
    await store.close()
    assert (tmp_path / "s.jsonl").read_bytes() == b"1\n2\n"


async def test_a_loop_that_ends_first_harms_nothing(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    store = store_for(path, "new", fault("append.sync", "delay"))

    def elsewhere() -> None:
        async def begin() -> None:
            task = asyncio.ensure_future(store.append([b"1"], {}))
            await asyncio.sleep(0)
            task.cancel()

        asyncio.run(begin())

    await asyncio.to_thread(elsewhere)
    await store.append([b"2"], {})
    await store.close()
    assert path.read_bytes() == b"1\n2\n"


# -------------------------------------------------------------------- memory


async def test_memory_keeps_and_reads_lines(tmp_path: Path) -> None:
    lines = (await written(tmp_path, *TALK)).read_bytes().splitlines()
    store = MemoryStore(lines=lines)
    items: list[Item] = []
    report = await store.load(items.append)
    assert (report.count, report.damage, report.torn) == (len(lines), (), None)
    assert [item.raw for item in items] == lines
    await store.append([b"x"], {"a": b"1"})
    assert store.lines[-1] == b"x"
    assert store.blob("a") == b"1"
    await store.close()
    with pytest.raises(StorageError):
        await store.append([b"x"], {})
