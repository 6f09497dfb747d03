"""Checkers are switched off seldom, for one rule at a time, and not more often than before."""

import pytest

from tests.architecture.rules import IgnoreMarks, ignore_marks
from tests.support.repository import ROOT, modules

# The ratchet: lower it when a mark goes away. Raising it needs a reason in the commit.
MOST_TYPE_MARKS = 10
MOST_LINT_MARKS = 90


def all_marks() -> dict[str, IgnoreMarks]:
    paths = [ROOT / "dev.py", *modules()]
    return {
        str(path.relative_to(ROOT)): ignore_marks(path.read_text(encoding="utf-8"))
        for path in paths
    }


def test_every_mark_names_its_rule() -> None:
    tests = {str(path): ignore_marks(path.read_text("utf-8")) for path in modules(ROOT / "tests")}
    assert {name: marks.bare for name, marks in (all_marks() | tests).items() if marks.bare} == {}


def test_marks_do_not_grow() -> None:
    found = all_marks()
    types = {name: marks.types for name, marks in found.items() if marks.types}
    lints = {name: marks.lints for name, marks in found.items() if marks.lints}
    assert sum(map(len, types.values())) <= MOST_TYPE_MARKS, types
    assert sum(map(len, lints.values())) <= MOST_LINT_MARKS, lints


@pytest.mark.parametrize(
    ("line", "types", "lints", "bare"),
    [
        ("x = 1  # type: " + "ignore[arg-type]", 1, 0, 0),
        ("x = 1  # type: " + "ignore", 1, 0, 1),
        ("x = 1  # no" + "qa: PLC0415 - start-up cost", 0, 1, 0),
        ("x = 1  # no" + "qa", 0, 1, 1),
        ("# ruff: no" + "qa", 0, 1, 1),
        ("x = '# type: " + "ignore'", 0, 0, 0),
    ],
)
def test_marks_are_counted(line: str, types: int, lints: int, bare: int) -> None:
    marks = ignore_marks(line + "\n")
    assert (len(marks.types), len(marks.lints), len(marks.bare)) == (types, lints, bare)
