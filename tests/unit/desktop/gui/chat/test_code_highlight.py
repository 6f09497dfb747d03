"""Colours of code."""

import subprocess
import sys

import pytest

from desktop.gui.chat.code_highlight import MAX_LINES, Span, language, language_of_path, spans
from tests.support.repository import ROOT

CODE = 'def f(x):  # why\n    return "s" + str(1)\n'


def test_runs_lie_in_the_code_and_do_not_overlap() -> None:
    found = [span for span in spans(CODE, "python") if span is not None]
    assert Span(0, 3, "keyword") in found
    assert Span(CODE.index("#"), 5, "comment") in found
    assert Span(CODE.index("1"), 1, "number") in found
    end = 0
    for span in found:
        assert span.start >= end
        end = span.start + span.length
    assert end <= len(CODE)


@pytest.mark.parametrize("info", ["", "no-such-language", "!?"])
def test_unknown_languages_have_no_colours(info: str) -> None:
    assert list(spans(CODE, info)) == []


def test_long_code_has_no_colours() -> None:
    assert list(spans("x = 1\n" * (MAX_LINES + 1), "python")) == []
    assert any(span for span in spans("x = 1\n" * MAX_LINES, "python"))


def test_it_can_pause_in_long_runs_without_colour() -> None:
    assert None in list(spans("a b c d", "python"))


@pytest.mark.parametrize(
    ("info", "found"),
    [
        ("Python", "python"),
        ("py title=x", "py"),
        ("{.rust}", "rust"),
        ("ts,ignore", "ts"),
        ("c:a.c", "c"),
        ("", ""),
    ],
)
def test_language(info: str, found: str) -> None:
    assert language(info) == found


def test_language_of_path() -> None:
    assert language_of_path("/a/b.py") == "python"
    assert language_of_path("no-suffix-at-all") == ""


def test_warming_up_loads_usual_languages_one_at_a_time() -> None:
    script = (
        "import sys\n"
        "from desktop.gui.chat.code_highlight import USUAL, warm_up\n"
        "steps = warm_up()\n"
        "assert 'pygments' not in sys.modules\n"
        "next(steps)\n"
        "assert 'pygments.lexers' in sys.modules and 'pygments.lexers.python' not in sys.modules\n"
        "assert len(list(steps)) == len(USUAL) - 1 and 'pygments.lexers.python' in sys.modules\n"
    )
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
