import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent_sdk.core.errors import DiskFull, StorageError
from agent_sdk.core.failpoints import Faults
from agent_sdk.core.fsio import (
    AppendLog,
    copy_aside,
    create_file,
    make_dirs,
    move_file,
    publish_file,
    replace_file,
)

posix = pytest.mark.skipif(sys.platform == "win32", reason="permission bits")


def fault(name: str, action: Any, nth: int = 1) -> Faults:
    return Faults(name=name, nth=nth, action=action)


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


@pytest.fixture
def umask() -> Iterator[None]:
    old = os.umask(0o277)
    yield
    os.umask(old)


# ------------------------------------------------------------- replace_file


def test_replace_makes_and_replaces(tmp_path: Path) -> None:
    path = tmp_path / "名 字"
    replace_file(path, b"one")
    replace_file(path, b"two")
    assert path.read_bytes() == b"two"
    assert os.listdir(tmp_path) == ["名 字"]


@posix
def test_modes_do_not_depend_on_the_umask(tmp_path: Path, umask: None) -> None:
    replace_file(tmp_path / "file", b"")
    make_dirs(tmp_path / "a" / "b")
    create_file(tmp_path / "a" / "b" / "new", b"")
    log = AppendLog.create(tmp_path / "log")
    log.close()
    assert [mode_of(tmp_path / n) for n in ("file", "log", "a/b/new")] == [0o600] * 3
    assert [mode_of(tmp_path / n) for n in ("a", "a/b")] == [0o700] * 2


@posix
def test_replace_can_keep_the_mode(tmp_path: Path) -> None:
    path = tmp_path / "script"
    path.write_bytes(b"#!")
    path.chmod(0o2754)
    replace_file(path, b"#!/bin/sh", keep_mode=True)
    assert mode_of(path) == 0o2754
    replace_file(path, b"#!/bin/sh", mode=0o640)
    assert mode_of(path) == 0o640


@posix
@pytest.mark.needs_root
@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="gives files away")
def test_replace_keeps_the_owner_where_it_may(tmp_path: Path) -> None:
    path = tmp_path / "theirs"
    path.write_bytes(b"1")
    if sys.platform != "win32":
        os.chown(path, 1234, 4321)
    replace_file(path, b"2", keep_mode=True)
    assert (path.stat().st_uid, path.stat().st_gid) == (1234, 4321)


@posix
def test_replace_does_not_follow_a_link(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_bytes(b"theirs")
    link = tmp_path / "link"
    link.symlink_to(target)
    replace_file(link, b"ours", keep_mode=True)
    assert target.read_bytes() == b"theirs"
    assert not link.is_symlink()
    assert link.read_bytes() == b"ours"


@pytest.mark.parametrize("action", ["enospc", "eio"])
@pytest.mark.parametrize("point", ["open", "write", "sync", "rename"])
def test_a_failed_replace_leaves_the_old_file_alone(
    tmp_path: Path, point: str, action: str
) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    with pytest.raises(StorageError) as caught:
        replace_file(path, b"new" * 1000, faults=fault(f"replace.{point}", action))
    assert isinstance(caught.value, DiskFull) == (action == "enospc")
    assert repr(str(path)) in caught.value.message
    assert caught.value.hint
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["file"]


def test_replace_goes_on_after_short_writes(tmp_path: Path) -> None:
    faults = fault("replace.write", "short")
    replace_file(tmp_path / "file", bytes(range(256)) * 40, faults=faults)
    assert (tmp_path / "file").read_bytes() == bytes(range(256)) * 40
    assert faults.hits == 2


def test_replace_names_a_folder_that_is_missing(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="nowhere") as caught:
        replace_file(tmp_path / "nowhere" / "file", b"")
    assert "folder" in caught.value.hint


def test_replace_syncs_file_then_renames_then_syncs_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []
    real_sync, real_replace = os.fsync, os.replace

    def fsync(fd: int) -> None:
        calls.append("folder" if stat.S_ISDIR(os.fstat(fd).st_mode) else "file")
        real_sync(fd)

    def rename(source: Any, target: Any) -> None:
        calls.append("rename")
        real_replace(source, target)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "replace", rename)
    replace_file(tmp_path / "file", b"1")
    if sys.platform == "linux":
        assert calls == ["file", "rename", "folder"]
    else:
        assert calls.index("rename") >= 0


# ----------------------------------------------------- create, folders, copy


def test_create_refuses_what_is_there(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"theirs")
    with pytest.raises(FileExistsError):
        create_file(path, b"ours")
    assert path.read_bytes() == b"theirs"


@pytest.mark.parametrize("point", ["create.open", "replace.write", "replace.rename"])
def test_a_failed_create_leaves_nothing(tmp_path: Path, point: str) -> None:
    with pytest.raises(DiskFull):
        create_file(tmp_path / "file", b"ours", faults=fault(point, "enospc"))
    assert os.listdir(tmp_path) == []


def test_make_dirs_refuses_a_file_in_the_way(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"")
    with pytest.raises(StorageError, match="make the folder"):
        make_dirs(tmp_path / "a" / "b")


@posix
def test_make_dirs_leaves_what_exists(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir(mode=0o755)
    make_dirs(tmp_path / "a" / "b")
    assert mode_of(tmp_path / "a") == 0o755


def test_copy_aside_copies_the_tail(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x" * 3_000_000 + b"tail")
    copy_aside(tmp_path / "file", tmp_path / "copy", start=3_000_000)
    assert (tmp_path / "copy").read_bytes() == b"tail"
    with pytest.raises(FileExistsError):
        copy_aside(tmp_path / "file", tmp_path / "copy")


def test_a_failed_copy_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"tail")
    with pytest.raises(DiskFull):
        copy_aside(tmp_path / "file", tmp_path / "copy", faults=fault("copy.write", "enospc"))
    assert os.listdir(tmp_path) == ["file"]


# ---------------------------------------------------------------- AppendLog


def test_the_log_grows(tmp_path: Path) -> None:
    path = tmp_path / "log"
    log = AppendLog.create(path)
    log.append(b"one\n")
    log.append(b"two\n")
    log.close()
    log.close()
    again = AppendLog.open(path)
    assert again.size == 8
    again.append(b"three\n")
    again.close()
    assert path.read_bytes() == b"one\ntwo\nthree\n"
    with pytest.raises(FileExistsError):
        AppendLog.create(path)
    with pytest.raises(StorageError, match="closed"):
        again.append(b"four\n")


@pytest.mark.parametrize("action", ["short", "enospc"])
def test_a_full_disk_leaves_nothing_half_written(tmp_path: Path, action: str) -> None:
    log = AppendLog.create(tmp_path / "log", faults=fault("append.write", action, 2))
    log.append(b"one\n")
    with pytest.raises(DiskFull) as caught:
        log.append(b"two, which is long\n")
    assert "space" in caught.value.hint
    assert (tmp_path / "log").read_bytes() == b"one\n"
    log.append(b"three\n")  # there is room again
    log.close()
    assert (tmp_path / "log").read_bytes() == b"one\nthree\n"


def test_a_failed_sync_ends_the_log(tmp_path: Path) -> None:
    faults = fault("append.sync", "eio", 2)
    log = AppendLog.create(tmp_path / "log", faults=faults)
    log.append(b"one\n")
    with pytest.raises(StorageError, match="durable"):
        log.append(b"two\n")
    for _ in range(2):
        with pytest.raises(StorageError, match="not written to any more"):
            log.append(b"three\n")
        with pytest.raises(StorageError, match="not written to any more"):
            log.truncate_to(0)
    assert faults.hits == 2  # it was not tried again
    assert log.failure
    log.close()


def test_a_log_that_someone_else_wrote_to_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "log"
    log = AppendLog.create(path)
    log.append(b"one\n")
    with path.open("ab") as other:
        other.write(b"theirs")
    with pytest.raises(StorageError, match="another program"):
        log.append(b"two\n")
    assert path.read_bytes() == b"one\ntheirs"
    log.close()


@posix
def test_a_deleted_log_says_so(tmp_path: Path) -> None:
    log = AppendLog.create(tmp_path / "log")
    log.append(b"one\n")
    (tmp_path / "log").unlink()
    with pytest.raises(StorageError, match="deleted"):
        log.append(b"two\n")
    log.close()


def test_truncate_cuts(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b"one\ntw")
    log = AppendLog.open(tmp_path / "log")
    log.truncate_to(4)
    log.append(b"two\n")
    log.close()
    assert (tmp_path / "log").read_bytes() == b"one\ntwo\n"


@posix
def test_the_log_does_not_follow_a_link(tmp_path: Path) -> None:
    (tmp_path / "target").write_bytes(b"")
    (tmp_path / "log").symlink_to(tmp_path / "target")
    with pytest.raises(StorageError, match="log"):
        AppendLog.open(tmp_path / "log")
    with pytest.raises(FileExistsError):
        AppendLog.create(tmp_path / "log")


def test_an_append_is_synced_before_it_returns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[bytes] = []
    name = "fdatasync" if sys.platform == "linux" else "fsync"
    real = getattr(os, name)

    def sync(fd: int) -> None:
        if not stat.S_ISDIR(os.fstat(fd).st_mode):
            synced.append((tmp_path / "log").read_bytes())
        real(fd)

    log = AppendLog.create(tmp_path / "log")
    monkeypatch.setattr(os, name, sync)
    log.append(b"one\n")
    log.append(b"two\n")
    log.close()
    if sys.platform != "darwin":  # there it is an fcntl
        assert synced == [b"one\n", b"one\ntwo\n"]


@posix
@pytest.mark.needs_root
@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="mounts a small disk")
@pytest.mark.skipif(sys.platform != "linux", reason="tmpfs")
def test_a_disk_that_is_really_full(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    if os.system(f"mount -t tmpfs -o size=256k none '{disk}' 2>/dev/null") != 0:
        pytest.skip("no right to mount here")
    try:
        filler = disk / "filler"
        filler.write_bytes(b"x" * 120_000)
        log = AppendLog.create(disk / "log")
        kept = b""
        line = b"y" * 5000 + b"\n"
        while len(kept) < 100 * len(line):
            try:
                log.append(line)
            except DiskFull:
                break
            kept += line
        assert 0 < len(kept) < 100 * len(line)
        assert (disk / "log").read_bytes() == kept
        replaced = disk / "settings"
        replaced.write_bytes(b"")
        with pytest.raises(DiskFull):
            replace_file(replaced, b"z" * 200_000)
        assert sorted(os.listdir(disk)) == ["filler", "log", "settings"]
        filler.unlink()
        log.append(b"room again\n")
        assert (disk / "log").read_bytes() == kept + b"room again\n"
        log.close()
    finally:
        os.system(f"umount '{disk}'")


def test_finished_file_takes_the_targets_place(tmp_path: Path) -> None:
    target, temp = tmp_path / "copy.sqlite", tmp_path / "copy.tmp"
    target.write_bytes(b"old")
    temp.write_bytes(b"new")
    publish_file(temp, target)
    assert (target.read_bytes(), temp.exists()) == (b"new", False)
    with pytest.raises(StorageError, match=r"copy\.sqlite"):
        publish_file(temp, target)
    assert target.read_bytes() == b"new"


def test_file_is_moved_or_was_not_there(tmp_path: Path) -> None:
    (tmp_path / "aside").mkdir()
    (tmp_path / "a").write_bytes(b"x")
    assert move_file(tmp_path / "a", tmp_path / "aside" / "a")
    assert (tmp_path / "aside" / "a").read_bytes() == b"x"
    assert not move_file(tmp_path / "a", tmp_path / "aside" / "b")
