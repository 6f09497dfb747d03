"""Locks and failpoints where processes fork and die."""

import os
import signal
import sys
import time
from pathlib import Path

import pytest

from agent_sdk.core.failpoints import Faults
from agent_sdk.core.fsio import AppendLog

if sys.platform == "win32":
    pytest.skip("needs fork and SIGKILL", allow_module_level=True)


def test_one_owner_at_a_time(tmp_path: Path) -> None:
    first = AppendLog.create(tmp_path / "log")
    second = AppendLog.open(tmp_path / "log")
    assert first.lock()
    assert first.lock()  # it has it already
    assert not second.lock()
    first.close()
    assert second.lock()
    second.close()


def test_a_forked_copy_does_not_keep_the_lock(tmp_path: Path) -> None:
    log = AppendLog.create(tmp_path / "log")
    assert log.lock()
    ready, tell = os.pipe()
    child = os.fork()
    if child == 0:  # outlives the owner's handle
        os.write(tell, b"x")
        time.sleep(30)
        os._exit(0)
    try:
        os.read(ready, 1)
        log.close()
        other = AppendLog.open(tmp_path / "log")
        assert other.lock()
        other.close()
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(ready)
        os.close(tell)


def test_a_killed_owner_lets_go(tmp_path: Path) -> None:
    AppendLog.create(tmp_path / "log").close()
    ready, tell = os.pipe()
    child = os.fork()
    if child == 0:
        mine = AppendLog.open(tmp_path / "log")
        os.write(tell, b"1" if mine.lock() else b"0")
        time.sleep(30)
        os._exit(0)
    try:
        assert os.read(ready, 1) == b"1"
        log = AppendLog.open(tmp_path / "log")
        assert not log.lock()
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(ready)
        os.close(tell)
    assert log.lock()
    log.close()


def test_a_program_that_is_started_does_not_inherit_the_descriptor(tmp_path: Path) -> None:
    log = AppendLog.create(tmp_path / "log")
    assert log.lock()
    assert not os.get_inheritable(log._fd)
    log.close()


def test_torn_writes_half_and_dies(tmp_path: Path) -> None:
    path = tmp_path / "log"
    AppendLog.create(path).close()
    child = os.fork()
    if child == 0:
        log = AppendLog.open(path, faults=Faults(name="append.write", nth=1, action="torn"))
        log.append(b"12345678")
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.WTERMSIG(status) == signal.SIGKILL
    assert path.read_bytes() == b"1234"
