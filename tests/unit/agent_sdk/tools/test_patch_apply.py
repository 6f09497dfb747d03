"""Where hunks fit, and what they change."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_sdk.core.errors import ToolError
from agent_sdk.tools.diff import unified
from agent_sdk.tools.patch_apply import new_text, plan_hunks
from agent_sdk.tools.patch_parse import parse_patch
from agent_sdk.tools.text_codec import decode, splice


def patched(data: bytes, hunks: str) -> bytes:
    file = decode(data)
    assert file is not None
    (patch,) = parse_patch("--- a/x\n+++ b/x\n" + hunks)
    splices, _ = plan_hunks(file, patch.hunks, name="x")
    return splice(data, file, splices)


def numbered(count: int, ending: str = "\n") -> bytes:
    return "".join(f"line {n}{ending}" for n in range(1, count + 1)).encode()


# ------------------------------------------------------------------------ places


@pytest.mark.parametrize("start", [1, 50, 200, 350])
def test_line_numbers_may_be_off(start: int) -> None:
    data = numbered(400)
    after = patched(
        data, f"@@ -{start},3 +{start},3 @@\n line 99\n-line 100\n+hundred\n line 101\n"
    )
    assert after == data.replace(b"line 100\n", b"hundred\n")


def test_more_than_300_lines_off() -> None:
    hunk = "@@ -1,3 +1,3 @@\n line 399\n-line 400\n+x\n line 401\n"
    with pytest.raises(ToolError, match="only at line 399, more than 300 lines away"):
        patched(numbered(500), hunk)
    assert b"x\n" in patched(numbered(500), hunk.replace("-1,3", "-99,3"))


def test_named_place_is_taken_though_others_fit() -> None:
    data = b"a\nb\n" * 5
    assert (
        patched(data, "@@ -5,2 +5,2 @@\n a\n-b\n+B\n") == b"a\nb\n" * 2 + b"a\nB\n" + b"a\nb\n" * 2
    )


def test_ambiguous_is_not_guessed() -> None:
    with pytest.raises(ToolError, match=r"hunk 1 \(line 2\) fits at lines 1, 3, 5, 7, 9 alike"):
        patched(b"a\nb\n" * 5, "@@ -2,2 +2,2 @@\n a\n-b\n+B\n")


def test_later_hunks_move_with_earlier_ones() -> None:
    data = b"new\n" * 3 + b"a\nb\n" * 20
    hunks = "@@ -1,3 +1,3 @@\n new\n-a\n+A\n b\n@@ -8,2 +8,2 @@\n a\n-b\n+B\n"
    lines = patched(data, hunks).split(b"\n")
    # The first is two lines further down than it says, so the second is, too,
    # though it would fit where it says.
    assert [n for n, line in enumerate(lines, 1) if line.isupper()] == [4, 11]


def test_all_hunks_that_do_not_fit_are_named() -> None:
    hunks = "".join(f"@@ -{n} +{n} @@\n-no {n}\n+x\n" for n in range(1, 8))
    with pytest.raises(ToolError, match=r"hunk 1 \(line 1\).*hunk 5 \(line 5\).* and 2 more"):
        patched(numbered(10), hunks)


def test_miss_is_explained() -> None:
    with pytest.raises(ToolError, match="only in white space"):
        patched(b"a\n    indented = 1\n", "@@ -2 +2 @@\n-  indented = 1\n+x\n")
    with pytest.raises(ToolError, match=r"was not found.*Line 1 fits, but the lines around it"):
        patched(b"a\nb\n", "@@ -1,2 +1,2 @@\n a\n-c\n+x\n")


def test_hunks_do_not_overlap() -> None:
    hunks = "@@ -1,2 +1,2 @@\n a\n-b\n+B\n@@ -2,2 +2,2 @@\n b\n-c\n+C\n"
    with pytest.raises(ToolError, match="earlier hunk"):
        patched(b"a\nb\nc\n", hunks)


def test_without_context_only_into_an_empty_file() -> None:
    assert patched(b"", "@@ -0,0 +1 @@\n+a\n") == b"a\n"
    with pytest.raises(ToolError, match="no lines of the file to go by"):
        patched(b"a\nb\n", "@@ -1,0 +2 @@\n+x\n")


def test_nothing_to_do() -> None:
    with pytest.raises(ToolError, match="would change nothing"):
        patched(b"a\n", "@@ -1 +1 @@\n-a\n+a\n")
    with pytest.raises(ToolError, match="Line endings are kept"):
        patched(b"a\r\n", "@@ -1 +1 @@\n-a\r\n+a\n")


# ----------------------------------------------------------------- line endings


@pytest.mark.parametrize(
    ("data", "hunk", "after"),
    [
        (b"a\r\nb\r\n", "@@ -1,2 +1,3 @@\n a\n-b\n+B\n+C\n", b"a\r\nB\r\nC\r\n"),
        (b"a\r\nb\r\n", "@@ -1,2 +1,3 @@\n a\r\n-b\r\n+B\r\n+C\r\n", b"a\r\nB\r\nC\r\n"),
        (b"a\nb\n", "@@ -1,2 +1,2 @@\n a\r\n-b\r\n+B\r\n", b"a\nB\n"),
        (b"a\rb\r", "@@ -1,2 +1,3 @@\n a\n-b\n+B\n+C\n", b"a\rB\rC\r"),
        (b"a\nb\r\nc\rd\n", "@@ -2,2 +2,3 @@\n-b\n-c\n+B\n+C\n+X\n", b"a\nB\r\nC\rX\rd\n"),
        (b"a\nb\r\nc\n", "@@ -2,2 +2,3 @@\n b\n+new\n c\n", b"a\nb\r\nnew\r\nc\n"),
        # A program that ends lines at LF only has shown a bare CR inside of one.
        (b"a\rb\nc\n", "@@ -1,2 +1,2 @@\n-a\rb\n+x\n c\n", b"x\nc\n"),
        # the end of the file
        (b"a\nb", "@@ -1,2 +1,2 @@\n a\n-b\n+B\n", b"a\nB"),
        (b"a\nb\n", "@@ -1,2 +1,2 @@\n a\n-b\n+B\n\\ No newline\n", b"a\nB"),
        (b"a\nb", "@@ -1,2 +1,2 @@\n a\n-b\n\\ No newline\n+B\n", b"a\nB\n"),
        (b"a\nb", "@@ -1,2 +1,2 @@\n a\n-b\n\\ No newline\n+b\n", b"a\nb\n"),
        (b"a\nb", "@@ -1,2 +1,3 @@\n a\n b\n+c\n", b"a\nb\nc"),
        (b"a\r\nb", "@@ -1,2 +1,3 @@\n a\n b\n+c\n", b"a\r\nb\r\nc"),
        (b"a\nb", "@@ -1,2 +1 @@\n a\n-b\n", b"a\n"),
        (b"a", "@@ -1 +1,2 @@\n-a\n\\ No newline\n+a\n+b\n\\ No newline\n", b"a\nb"),
        (b"a", "@@ -1 +1,2 @@\n-a\r\n+x\r\n+y\r\n", b"x\r\ny"),
        (b"a\n", "@@ -1 +0,0 @@\n-a\n", b""),
    ],
)
def test_endings_are_kept(data: bytes, hunk: str, after: bytes) -> None:
    assert patched(data, hunk) == after


def test_marks_that_are_not_true() -> None:
    with pytest.raises(ToolError, match="says that the file ends without"):
        patched(b"a\nb\n", "@@ -1,2 +1,2 @@\n a\n-b\n\\ No newline\n+B\n")
    with pytest.raises(ToolError, match="but more lines follow"):
        patched(b"a\nb\nc\n", "@@ -1,2 +1,2 @@\n a\n-b\n+B\n\\ No newline\n")


def test_lines_that_would_run_together_are_refused() -> None:
    with pytest.raises(ToolError, match="run into each other"):
        patched(b"a\rb\n\nc\n", "@@ -1,3 +1,2 @@\n a\n-b\n \n")


@pytest.mark.parametrize("bom", [b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_byte_order_mark(bom: bytes, mark: str) -> None:
    codec = {b"\xef\xbb\xbf": "utf-8", b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"}[bom]
    data = bom + "eins\r\nzwei €\r\n".encode(codec)
    after = patched(data, f"@@ -1,2 +1,2 @@\n-{mark}eins\n+{mark}één\n zwei €\n")
    assert after == bom + "één\r\nzwei €\r\n".encode(codec)


def test_unknown_encoding_is_kept_or_refused() -> None:
    data = "文件\nname = 1\n注释\n".encode("gbk")
    assert patched(data, "@@ -2 +2 @@\n-name = 1\n+name = 2\n") == data.replace(b"1", b"2")
    with pytest.raises(ToolError, match="encoding is unknown"):
        patched(data, "@@ -2 +2 @@\n-name = 1\n+名 = 2\n")


def test_new_text() -> None:
    (patch,) = parse_patch("--- /dev/null\n+++ b/x\n@@ -0,0 +1,2 @@\n+a\r\n+b\n\\ No newline\n")
    assert new_text(patch.hunks[0]) == "a\r\nb"


# ------------------------------------------------------------------- properties

LINES = st.lists(
    st.sampled_from(["a", "b", "c", "", "}", "-- x", "++ y", " z", "日本"]), max_size=30
)


@settings(max_examples=150)
@given(LINES, LINES, st.sampled_from(["\n", "\r\n", "\r"]), st.booleans(), st.booleans())
def test_what_diff_writes_gives_the_new_text(
    old: list[str], new: list[str], ending: str, bare_old: bool, bare_new: bool
) -> None:
    before = "\n".join(old) + ("" if bare_old or not old else "\n")
    after = "\n".join(new) + ("" if bare_new or not new else "\n")
    if before == after or "\n" not in before or not after:
        return  # nothing to do, or no line ending to keep
    data = before.replace("\n", ending).encode()
    diff = unified(before, after, path="x").text
    assert patched(data, diff.split("\n", 2)[2]) == after.replace("\n", ending).encode()


@settings(max_examples=100)
@given(
    st.lists(
        st.tuples(st.binary(max_size=6), st.sampled_from([b"\n", b"\r\n", b"\r"])), max_size=20
    ),
    st.integers(0, 20),
)
def test_all_other_bytes_stay(parts: list[tuple[bytes, bytes]], where: int) -> None:
    clean = [(text.translate(None, b"\0\r\n") or b"x", ending) for text, ending in parts]
    at = min(where, len(clean))
    lines = [text + ending for text, ending in clean]
    lines.insert(at, b"needle" + (b"\r\n" if at % 2 else b"\n"))
    data = b"".join(lines)
    if decode(data) is None or data.startswith((b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")):
        return
    after = patched(data, f"@@ -{at + 1} +{at + 1} @@\n-needle\n+thread\n")
    assert after == data.replace(b"needle", b"thread", 1)
