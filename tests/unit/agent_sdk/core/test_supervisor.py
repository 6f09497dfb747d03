"""The parts of the supervisor that can be tried without starting one."""

import itertools
import os
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_sdk.core import supervisor
from agent_sdk.core.process_link import SUPERVISOR_MODE, default_supervisor
from agent_sdk.core.supervisor import Frames, descendants, frame, mark_of, scan

if sys.platform == "win32":
    pytest.skip("POSIX only", allow_module_level=True)

linux = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")

fields = st.lists(st.binary(max_size=40).map(lambda b: b.replace(b"\0", b"")), min_size=1)


@given(st.lists(fields, max_size=6), st.lists(st.integers(0, 400), max_size=8))
def test_frames_survive_any_division(sent: list[list[bytes]], cuts: list[int]) -> None:
    stream = b"".join(frame(*each) for each in sent)
    frames = Frames()
    got = []
    marks = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    for start, end in itertools.pairwise(marks):
        got += frames.feed(stream[start:end])
    assert got == sent


@linux
def test_this_process_is_found() -> None:
    table = {proc.pid: proc for proc in scan()}
    me = table[os.getpid()]
    assert (me.ppid, me.pgid, me.sid) == (os.getppid(), os.getpgrp(), os.getsid(0))
    assert not me.dead


@linux
@pytest.mark.parametrize("thorough", [True, False])
def test_descendants_begin_with_the_children(thorough: bool) -> None:
    above = descendants(os.getppid(), thorough=thorough)
    pids = [proc.pid for proc in above]
    assert os.getpid() in pids
    assert os.getppid() not in pids
    seen = {os.getppid()}
    for proc in above:
        assert proc.ppid in seen
        seen.add(proc.pid)


@linux
def test_unmarked_process_has_no_mark() -> None:
    assert mark_of(1) == 0
    assert mark_of(2**22 + 1) == 0  # no such process


def test_a_frozen_program_is_its_own_supervisor(monkeypatch: pytest.MonkeyPatch) -> None:
    assert default_supervisor()[0] == sys.executable
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    assert default_supervisor() == (sys.executable, SUPERVISOR_MODE)


def test_supervisor_imports_nothing_that_is_slow() -> None:
    # It runs by itself, without the package and without site-packages.
    names = set(supervisor.__dict__) & set(sys.modules)
    assert names <= {"_signal", "_socket", "errno", "os", "resource", "select", "sys", "time"}
