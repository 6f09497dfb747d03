"""Tool output is bounded, and what is left out is counted and saved (L11, X-D02)."""

import os
import stat
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_sdk.core.fsio_capture import CaptureFile
from agent_sdk.providers.models import Model
from agent_sdk.tools.artifacts import OutputCollector, bound_text, output_limit


def model(window: int) -> Model:
    return Model(id="m", provider="p", api="local", context_window=window)


def test_limit_is_48_kib_and_a_quarter_of_a_small_window() -> None:
    assert output_limit(model(200_000)) == 48 * 1024
    assert output_limit(model(4096)) == 3072


def test_what_fits_is_unchanged_and_nothing_is_saved(tmp_path: Path) -> None:
    result = bound_text("a\nü\n" * 100, limit=2000, folder=tmp_path / "artifacts")
    assert (result.text, result.omitted, result.artifact) == ("a\nü\n" * 100, 0, "")
    assert not list(tmp_path.rglob("*.log"))


def test_head_and_tail_are_kept_at_ends_of_lines(tmp_path: Path) -> None:
    text = "".join(f"line {n}\n" for n in range(5000))
    result = bound_text(text, limit=4000, folder=tmp_path / "new" / "artifacts", name="grep")
    lines = result.text.splitlines()
    assert (lines[0], lines[-1]) == ("line 0", "line 4999")
    notice = next(line for line in lines if line.startswith("[…"))
    assert all(line in text for line in lines if line is not notice)
    assert len(result.text.encode()) <= 4000
    assert len(result.text) > 3000
    assert result.omitted == len(text) - (len(result.text) - len(notice) - 1)
    assert str(result.omitted) in notice
    assert result.artifact in notice
    saved = Path(result.artifact)
    assert saved.read_text() == text
    assert saved.name.startswith("grep-")
    assert stat.S_IMODE(saved.stat().st_mode) == 0o600


def test_the_file_has_the_raw_bytes(tmp_path: Path) -> None:
    raw = b"\x1b[31mred\x1b[0m \xff\r\n" * 1000
    collector = OutputCollector(limit=2000, folder=tmp_path)
    for at in range(0, len(raw), 777):
        collector.feed(raw[at : at + 777])
    result = collector.finish()
    assert Path(result.artifact).read_bytes() == raw
    assert "\x1b" not in result.text


def test_no_file_stays_when_only_control_sequences_were_too_many(tmp_path: Path) -> None:
    collector = OutputCollector(limit=2000, folder=tmp_path)
    collector.feed(b"\x1b[0m" * 5000 + b"short")
    result = collector.finish()
    assert (result.text, result.artifact) == ("short", "")
    assert list(tmp_path.iterdir()) == []


def test_without_a_folder_it_says_so() -> None:
    result = bound_text("x" * 10_000, limit=2000, folder=None)
    assert "not saved" in result.text
    assert result.artifact == ""
    assert result.omitted > 8000


def test_trouble_with_the_file_is_said_and_nothing_else(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    result = bound_text("x" * 10_000, limit=2000, folder=blocked)
    assert "saving it failed" in result.text
    assert result.artifact == ""


def test_a_write_that_fails_later_names_what_there_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    collector = OutputCollector(limit=2000, folder=tmp_path)
    collector.feed(b"a" * 3000)

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    collector.feed(b"b" * 3000)
    monkeypatch.undo()
    result = collector.finish()
    assert "its first 3000 bytes" in result.text
    assert "saving it failed" in result.text
    assert result.text.endswith("b" * 1000)


def test_the_file_is_limited(tmp_path: Path) -> None:
    capture = CaptureFile(tmp_path, prefix="x", suffix=".log", limit=10)
    capture.write(b"123456")
    assert not capture.full
    capture.write(b"7890ABC")
    capture.write(b"DEF")
    capture.close()
    assert capture.full
    assert Path(capture.path).read_bytes() == b"1234567890"


def test_the_path_is_the_real_one(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    result = bound_text("x" * 10_000, limit=2000, folder=tmp_path / "link")
    assert Path(result.artifact).parent == (tmp_path / "real").resolve()


def test_memory_stays_bounded() -> None:
    collector = OutputCollector(limit=48 * 1024, folder=None)
    chunk = b"0123456789abcde\n" * 4096
    collector.feed(chunk)
    tracemalloc.start()
    for _ in range(300):  # 19 MiB
        collector.feed(chunk)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2_000_000
    result = collector.finish()
    assert result.omitted > 19_000_000
    assert len(result.text) <= 48 * 1024


@given(st.lists(st.binary(max_size=300), max_size=30), st.integers(600, 3000))
def test_never_longer_than_the_limit_and_nothing_miscounted(parts: list[bytes], limit: int) -> None:
    seen: list[str] = []
    collector = OutputCollector(limit=limit, folder=None, on_text=seen.append)
    for part in parts:
        collector.feed(part)
    result = collector.finish()
    text = "".join(seen)
    assert len(result.text.encode()) <= limit
    if result.omitted == 0:
        assert result.text == text
    else:
        head, _, rest = result.text.partition("[… ")
        tail = rest.partition("…]\n")[2]
        assert text.endswith(tail)
        assert text.startswith(head.removesuffix("\n"))
