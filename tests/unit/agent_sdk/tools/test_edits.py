import re

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from agent_sdk.core.errors import InvalidToolInput, ToolError
from agent_sdk.tools.edits import Replacement, plan_edits
from agent_sdk.tools.text_codec import TextFile, apply, decode, splice


def edited(data: bytes, *wishes: Replacement) -> bytes:
    file = decode(data)
    assert file is not None
    splices = plan_edits(file, wishes, name="f")
    after = splice(data, file, splices)
    again = decode(after)
    assert again is not None
    assert again.text == apply(file.text, splices)
    return after


def one(data: bytes, old: str, new: str, *, everywhere: bool = False) -> bytes:
    return edited(data, Replacement(old, new, everywhere))


BOM = b"\xef\xbb\xbf"


@pytest.mark.parametrize(
    ("data", "old", "new", "after"),
    [
        (b"a\nb\nc\n", "b", "B", b"a\nB\nc\n"),
        (b"a\nb\nc", "c", "C", b"a\nb\nC"),
        (b"a\nb\nc", "b\nc", "b\nc\n", b"a\nb\nc\n"),
        (b"a\r\nb\r\nc\r\n", "a\nb", "a\nx\nb", b"a\r\nx\r\nb\r\nc\r\n"),
        (b"a\r\nb\r\n", "a\r\nb", "a\r\nB", b"a\r\nB\r\n"),
        (b"a\rb\rc\r", "b", "x\ny", b"a\rx\ry\rc\r"),
        (b"a\r\nb\nc\rd", "b", "x\ny", b"a\r\nx\ny\nc\rd"),
        (b"a\r\nb\nc\rd", "c", "x\ny", b"a\r\nb\nx\ry\rd"),
        (b"a\r\nb\nc\rd", "a\nb\nc\nd", "A\nb\nC\nd", b"A\r\nb\nC\rd"),
        (b"a\r\nb\nc\rd", "a\nb\nc\nd", "1\n2\n3\n4", b"1\r\n2\n3\r4"),
        (b"a\r\nb", "b", "b\nc", b"a\r\nb\r\nc"),
        (b"a\rb\n", "b", "\nb", b"a\r\rb\n"),
        (b"a\ra\n", "a\na\n", "\n\nX", b"\r\rX"),
        (b"\ra\n", "\na", "X\n", b"X\n\n"),
        (b"\ra\n", "a", "\n", b"\r\r\n\n"),
        (BOM + b"a\r\nb\r\n", "a", "x\ny", BOM + b"x\r\ny\r\nb\r\n"),
        (b"a\nb\n", "a\nb\n", "", b""),
        (b"a\nb\n", "a", "x\ry", b"x\ry\nb\n"),
        ("中文\nß\n".encode(), "文\nß", "文字\nß", "中文字\nß\n".encode()),
        (b"tab\tend  \n", "tab\tend  \n", "tab\n", b"tab\n"),
    ],
)
def test_edit(data: bytes, old: str, new: str, after: bytes) -> None:
    assert one(data, old, new) == after


@pytest.mark.parametrize("codec", ["utf-16-le", "utf-16-be"])
def test_utf16(codec: str) -> None:
    bom = "\ufeff".encode(codec)
    data = bom + "a\r\n中🙂\r\n".encode(codec)
    assert one(data, "中", "x\ny") == bom + "a\r\nx\r\ny🙂\r\n".encode(codec)


@pytest.mark.parametrize("codec", ["gbk", "cp1252", "shift_jis", "latin-1"])
def test_unknown_encoding_is_kept_byte_by_byte(codec: str) -> None:
    foreign = {"gbk": "中文注释", "shift_jis": "日本語ソ"}.get(codec, "café - naïve")
    data = f"# {foreign}\r\nx = 1\r\n# {foreign}".encode(codec)
    assert one(data, "x = 1", "x = 2\ny = 3") == data.replace(b"x = 1", b"x = 2\r\ny = 3")
    with pytest.raises(ToolError, match="encoding is unknown"):
        one(data, "x = 1", "x = 'é'")
    with pytest.raises(ToolError, match="encoding is unknown"):
        one(data, foreign, "x")


def test_second_byte_of_a_character_is_no_ascii() -> None:
    data = "乗".encode("gbk") + b" \n"  # its second byte is 0x5c, a backslash
    assert data[1:2] == b"\\"
    with pytest.raises(ToolError, match="behind a byte"):
        one(data, "\\", "/")


@pytest.mark.parametrize(
    "data",
    [b"a\0b", b"\xff\xfea\0\0\0", b"\xff\xfe\0\0a\0\0\0", b"\xff\xfea", b"\xfe\xff\xd8\x00"],
)
def test_binary_is_no_text(data: bytes) -> None:
    assert decode(data) is None


def test_all_are_matched_against_the_original() -> None:
    wishes = (Replacement("a", "b"), Replacement("b", "a"))
    assert edited(b"a b", *wishes) == b"b a"


def test_adjacent_ones_do_not_overlap() -> None:
    assert edited(b"abcd", Replacement("ab", "1"), Replacement("cd", "2")) == b"12"
    with pytest.raises(ToolError, match="Edits 1 and 2 overlap"):
        edited(b"abcd", Replacement("abc", "1"), Replacement("cd", "2"))


def test_everywhere() -> None:
    assert one(b"aaa b aa", "aa", "x", everywhere=True) == b"xa b x"
    assert one(b"a\r\nb\na\nb", "a\nb", "c", everywhere=True) == b"c\nc"


def test_several_places_are_refused() -> None:
    with pytest.raises(ToolError, match=r"several places.*lines 1 and 3"):
        one(b"a\nb\na\n", "a", "x")
    with pytest.raises(ToolError, match="several places"):
        one(b"aaa", "aa", "x")  # they overlap, and it is not clear which is meant


def test_nothing_to_do() -> None:
    with pytest.raises(InvalidToolInput, match="same"):
        one(b"a", "a", "a")
    with pytest.raises(InvalidToolInput, match="empty"):
        one(b"a", "", "b")
    with pytest.raises(ToolError, match="change nothing"):
        one(b"a\r\nb", "a\nb", "a\r\nb")


@pytest.mark.parametrize(
    ("data", "old", "says"),
    [
        ("def f():\n\treturn 1\n", "def f():\n    return 1", "Lines 1 to 2.*white space"),
        ("x = 1  # here\n", "x = 1 # here", "Line 1 differs.*white space"),
        ("say “hi”\n", 'say "hi"', "quotes"),
        ("caf\u0065\u0301\n", "caf\u00e9", "composed"),
        ("one\ntwo\nthree\n", "zero\nthree\nfour", "Line 3 fits"),
        ("def compute_total(items):\n", "def compute_totals(item):", "nearest is line 1"),
        ("a\nb\n", "1\ta\n2\tb", "line numbers"),
        ("a\n", "something entirely different", "Nothing like it"),
        ("", "x", "Nothing like it"),
    ],
)
def test_miss_is_explained(data: str, old: str, says: str) -> None:
    with pytest.raises(ToolError, match=r"not found in 'f'") as caught:
        one(data.encode(), old, "new")
    assert re.search(says, caught.value.hint)


def test_miss_in_a_large_file_is_quick() -> None:
    with pytest.raises(ToolError, match="not found"):
        one(b"some line of text\n" * 200_000, "missing", "new")


def test_million_columns() -> None:
    data = b"x" * 500_000 + b"needle" + b"y" * 500_000 + b"\r\nend"
    after = one(data, "needle", "pin\nneedle")
    assert after == data.replace(b"needle", b"pin\r\nneedle")


def test_invalid_characters_are_refused() -> None:
    with pytest.raises(ToolError, match="no valid character"):
        one(b"a", "a", "\ud83d")


def test_too_many_places() -> None:
    with pytest.raises(ToolError, match="more than"):
        one(b"a" * 200_001, "a", "b", everywhere=True)


# ------------------------------------------------------------ properties

ENDINGS = ("\n", "\r\n", "\r")
lines = st.lists(
    st.tuples(st.text("ab é中🙂\t", max_size=4), st.sampled_from(ENDINGS)), min_size=1, max_size=8
)


def plain(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


@given(
    lines=lines,
    last=st.text("abé", max_size=3),
    cut=st.tuples(st.integers(0, 40), st.integers(1, 12)),
    new=st.text("abXé\n", max_size=8),
    encoding=st.sampled_from(["utf-8", "utf-8-sig", "utf-16-le", "utf-16-be"]),
)
@example([("a", "\r"), ("b", "\n")], "", (2, 1), "\nb", "utf-8")
def test_what_is_not_edited_stays_as_it_is(
    lines: list[tuple[str, str]], last: str, cut: tuple[int, int], new: str, encoding: str
) -> None:
    text = "".join(line + ending for line, ending in lines) + last
    bom = "\ufeff" if encoding.startswith("utf-16") else ""
    data = (bom + text).encode(encoding)
    old = plain(text)[cut[0] : cut[0] + cut[1]]
    assume(old and old != new and old in plain(text))
    # "aa" in "aaa" is found twice, which is refused.
    assume(plain(text).find(old, plain(text).find(old) + 1) < 0)
    after = edited(data, Replacement(old, new))
    file = decode(after)
    assert file is not None
    used = set(re.findall("\r\n|\r|\n", text))
    if not {"\r", "\n"} <= used:
        # A CR and an LF that a deletion leaves side by side would become one line break.
        assert plain(file.text) == plain(text).replace(old, new)
        assert set(re.findall("\r\n|\r|\n", file.text)) <= (used or {"\n"})
    assert after.startswith(bom.encode(encoding))
    # The bytes before and after the place are those of the original.
    place = re.search(r"(?:\r\n|(?<!\r)\n|\r(?!\n))".join(map(re.escape, old.split("\n"))), text)
    assert place is not None
    head = (bom + text[: place.start()]).encode(encoding)
    tail = text[place.end() :].encode(encoding.removesuffix("-sig"))
    assert after.startswith(head)
    assert after.endswith(tail)


@given(data=st.binary(max_size=60), at=st.integers(0, 60))
def test_any_bytes_survive_an_edit(data: bytes, at: int) -> None:
    data = data[:at] + b" <mark> " + data[at:]
    file = decode(data)
    assume(file is not None and file.encoding in ("utf-8", "unknown"))
    assume(data.count(b"<mark>") == 1)
    assert one(data, " <mark> ", " <other> ") == data.replace(b"<mark>", b"<other>")


def test_splices_of_a_plain_text() -> None:
    file = TextFile("abc", "utf-8")
    assert splice(b"abc", file, []) == b"abc"
