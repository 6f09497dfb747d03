"""Files, functions and classes stay small enough to be read."""

from pathlib import Path

import pytest

from tests.architecture.rules import FILE_LINES, TEST_FILE_LINES, oversized
from tests.support.repository import ROOT, modules

SOURCES = [ROOT / "dev.py", *modules()]
TESTS = modules(ROOT / "tests")


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_source_is_small_enough(path: Path) -> None:
    assert oversized(path.read_text(encoding="utf-8"), file_lines=FILE_LINES) == []


@pytest.mark.parametrize("path", TESTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_test_file_is_small_enough(path: Path) -> None:
    assert oversized(path.read_text(encoding="utf-8"), file_lines=TEST_FILE_LINES) == []


def test_limits_are_exact() -> None:
    function = "def f():\n" + "    x = 1\n" * 59
    assert oversized(function, file_lines=FILE_LINES) == []
    assert oversized(function + "    x = 1\n", file_lines=FILE_LINES) == [
        "1: f of 61 lines, at most 60"
    ]
    assert oversized("x = 1\n" * 600, file_lines=FILE_LINES) == []
    assert oversized("x = 1\n" * 601, file_lines=FILE_LINES) == [
        "1: file of 601 lines, at most 600"
    ]
    assert oversized("x = 1\n" * 801, file_lines=TEST_FILE_LINES) != []


def test_public_methods_are_counted_once() -> None:
    def source(count: int) -> str:
        methods = "".join(f"    def m{number}(self): ...\n" for number in range(count))
        fact = "    @property\n    def fact(self): ...\n"
        return f"class C:\n{methods}    def m0(self): ...\n    def _private(self): ...\n{fact}"

    assert oversized(source(15), file_lines=FILE_LINES) == []
    assert oversized(source(16), file_lines=FILE_LINES) == [
        "1: C has 16 public methods, at most 15"
    ]
