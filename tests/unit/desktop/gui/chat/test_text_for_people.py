"""Text fit to be shown: nothing hides, nothing is endless."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from desktop.gui.chat.durations import duration, elapsed
from desktop.gui.text import one_line, pieces, soft_split, visible


@pytest.mark.parametrize(
    ("hidden", "shown"),
    [
        ("\u202e", "‹U+202E›"),
        ("\u2066", "‹U+2066›"),
        ("\x1b", "‹U+001B›"),
        ("\x00", "‹U+0000›"),
        ("\u200b", "‹U+200B›"),
        ("\U000e0041", "‹U+E0041›"),
        ("\ud800", "‹U+D800›"),
        ("\r", "‹U+000D›"),
        ("\u2028", "‹U+2028›"),
    ],
)
def test_what_hides_is_shown(hidden: str, shown: str) -> None:
    assert visible(f"a{hidden}b") == f"a{shown}b"


def test_ordinary_text_stays() -> None:
    text = "服务器 naïve\té\n👩\u200d💻 مرحبا\u00a0!"
    assert visible(text) == text
    assert visible("a\r\nb") == "a\nb"


def test_commands_show_odd_spaces_and_joiners_too() -> None:
    assert visible("rm\u00a0-rf\u200d", exact=True) == "rm‹U+00A0›-rf‹U+200D›"


@given(st.text(alphabet=st.characters(codec=None), max_size=200))
def test_nothing_invisible_is_left(text: str) -> None:
    shown = visible(text, exact=True)
    assert all(c.isprintable() or c in "\n\t" for c in shown if ord(c) < 0x300)


@given(st.text(alphabet="ab \n", max_size=300), st.integers(3, 50))
def test_lines_are_split_and_nothing_is_lost(text: str, limit: int) -> None:
    split = soft_split(text, limit)
    assert all(len(line) <= limit for line in split.split("\n"))
    assert split.replace("\n", "") == text.replace("\n", "")


@given(st.text(max_size=200), st.integers(1, 40))
def test_pieces_are_the_line(line: str, limit: int) -> None:
    assert "".join(pieces(line, limit)) == line


def test_one_line() -> None:
    assert one_line("a\n  b\u202e") == "a b‹U+202E›"
    assert one_line("x" * 500, 10) == "x" * 10 + "…"


def test_durations() -> None:
    assert [duration(s) for s in (0.04, 9.94, 9.96, 72, 3700)] == [
        "0.0 s", "9.9 s", "10 s", "1 m 12 s", "1 h 1 m",
    ]  # fmt: skip
    assert elapsed(3.4) == "3 s"
    assert elapsed(-1) == "0 s"
