import fnmatch
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_sdk.permissions.wildcard import fold, has_wildcard, matches


@pytest.mark.parametrize(
    ("pattern", "value", "expected"),
    [
        ("*", "", True),
        ("*", "a/b\nc", True),
        ("", "", True),
        ("", "a", False),
        ("a", "a", True),
        ("a", "A", False),
        ("a", "ab", False),
        ("?", "a", True),
        ("?", "/", True),
        ("?", "", False),
        ("?", "ab", False),
        ("*.env", "/home/me/.env", True),
        ("*.env", "/home/me/.env.local", False),
        ("src/*", "src/a/b.py", True),
        ("src/*", "src/", True),
        ("src/*", "src", False),
        ("a*b*c", "a--b--c", True),
        ("a*b*c", "acb", False),
        ("a**b", "ab", True),
        ("git *", "git", False),
        ("[a]", "a", False),
        ("[a]", "[a]", True),
        ("a.c", "abc", False),
        ("?*", "", False),
        ("*?", "漢", True),
    ],
)
def test_matches(pattern: str, value: str, expected: bool) -> None:
    assert matches(pattern, value) is expected


@given(st.text("ab/*?", max_size=8), st.text("ab/*?\n", max_size=10))
def test_agrees_with_another_matcher(pattern: str, value: str) -> None:
    assert matches(pattern, value) is fnmatch.fnmatchcase(value, pattern)


def test_a_hostile_pattern_costs_no_more_than_its_size() -> None:
    # A backtracking regular expression would not come back from this.
    assert not matches("*a" * 200 + "b", "a" * 2_000)
    assert not matches("*?a" * 100 + "b", "a" * 1_000)


def test_has_wildcard() -> None:
    assert has_wildcard("a*")
    assert has_wildcard("a?")
    assert not has_wildcard("a[b]")


def test_fold_makes_one_of_all_spellings() -> None:
    composed = "Caf\u00e9"
    assert fold(composed) == fold(unicodedata.normalize("NFD", composed).upper())
    assert fold("STRASSE") == fold("straße")
    assert fold("/A/b") == "/a/b"
