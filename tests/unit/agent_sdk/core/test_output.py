"""Terminal output as text: sequences go, text stays, whatever the pieces (X-U03)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_sdk.core.output import TerminalText


def clean(*pieces: bytes) -> str:
    terminal = TerminalText()
    return "".join(map(terminal.feed, pieces)) + terminal.end()


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b"plain \xc3\xa9\t\n", "plain é\t\n"),
        (b"\x1b[31mred\x1b[0m", "red"),
        (b"\x1b[38;2;1;2;3mx\x1b[?25l", "x"),
        (b"\x1b]0;title\x07shown", "shown"),
        (b"\x1b]52;c;c2VjcmV0\x1b\\shown", "shown"),
        (b"\x1b]8;;http://evil\x1b\\link\x1b]8;;\x1b\\", "link"),
        (b"\x1bP1$r0m\x1b\\dcs", "dcs"),
        (b"\x1b_apc\x1b\\\x1b^pm\x1b\\\x1bXsos\x1b\\.", "."),
        ("a\x9b31mb\x9d0;t\x9cc\x90q\x9cd".encode(), "abcd"),
        (b"\x1b(Bcharset\x1b=keypad\x1bc", "charsetkeypad"),
        (b"\x1b[2J\x1b[H\x1b[6nclear", "clear"),
        (b"bell\x07 nul\x00 del\x7f bs\x08", "bell nul del bs"),
        (b"one\r\ntwo\r\r\nthree", "one\ntwo\nthree"),
        (b" 10%\r 20%\r\x1b[K 30%\n", " 10%\n 20%\n 30%\n"),
        (b"end\r", "end"),
        (b"\xff\xfe bad \xe2\x82", "\ufffd\ufffd bad \ufffd"),
        (b"cut \x1b[3", "cut "),
        (b"\x1b]0;never ended", ""),
        (b"broken \x1b[3\n1m stays", "broken \n1m stays"),
        (b"\x1b[1\x1b[2mnested", "nested"),
        (b"\x1b]0;a\x1b[31mb", "b"),
        (b"\x1b]0;a\x18cancelled", "cancelled"),
        ("\x1b\xe9 is no sequence".encode(), "é is no sequence"),
    ],
)
def test_sequences_go_and_text_stays(raw: bytes, text: str) -> None:
    assert clean(raw) == text
    assert clean(*(raw[at : at + 1] for at in range(len(raw)))) == text


def test_a_string_that_never_ends_does_not_swallow_everything() -> None:
    assert "after" in clean(b"\x1b]0;", *[b"x" * 65536] * 20, b"after")


def test_parameters_that_never_end_are_given_up() -> None:
    assert clean(b"\x1b[" + b"1;" * 300, b"text") != ""


pieces = st.lists(
    st.one_of(
        st.binary(max_size=6),
        st.sampled_from([b"\x1b[", b"\x1b]", b"\x1b\\", b"\x1b", b"\r", b"\n", b"31m", b"\x07"]),
    ),
    max_size=12,
)


@given(pieces)
def test_any_division_gives_the_same(parts: list[bytes]) -> None:
    assert clean(*parts) == clean(b"".join(parts))


@given(pieces)
def test_nothing_invisible_is_left(parts: list[bytes]) -> None:
    text = clean(*parts)
    assert not [c for c in text if (ord(c) < 32 and c not in "\t\n") or 127 <= ord(c) < 160]
