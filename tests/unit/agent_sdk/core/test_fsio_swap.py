"""Two names exchanged at once, and turns in a folder."""

import os
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_sdk.core.fsio_swap import swap_names, taking_turns

if sys.platform == "win32":
    pytest.skip("folders have no descriptors", allow_module_level=True)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[int]:
    fd = os.open(tmp_path, os.O_RDONLY)
    yield fd
    os.close(fd)


def test_swap(tmp_path: Path, folder: int) -> None:
    (tmp_path / "a").write_text("A")
    (tmp_path / "b").mkdir()
    if not swap_names(folder, "a", "b"):
        pytest.skip("this file system cannot exchange names")
    assert (tmp_path / "a").is_dir()
    assert (tmp_path / "b").read_text() == "A"
    with pytest.raises(FileNotFoundError):
        swap_names(folder, "a", "missing")
    assert sorted(os.listdir(tmp_path)) == ["a", "b"]


def test_where_it_cannot_be_done(
    tmp_path: Path, folder: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not swap_names(None, "a", "b")
    monkeypatch.setattr(sys, "platform", "plan9")
    assert not swap_names(folder, "a", "b")


def test_turns(folder: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []
    inside = threading.Event()

    def other() -> None:
        with taking_turns(folder):
            order.append("other begins")
            inside.set()
            time.sleep(0.05)
            order.append("other ends")

    thread = threading.Thread(target=other)
    thread.start()
    inside.wait()
    with taking_turns(folder):
        order.append("we")
    thread.join()
    assert order == ["other begins", "other ends", "we"]


def test_nobody_is_waited_for_without_end(folder: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agent_sdk.core.fsio_swap._WAIT_SECONDS", 0.01)
    with taking_turns(folder), taking_turns(folder):
        pass
    with taking_turns(None):
        pass


def test_a_failure_inside_is_not_hidden(folder: int) -> None:
    with pytest.raises(OSError, match="mine"), taking_turns(folder):
        raise OSError("mine")
    with taking_turns(folder):
        pass
