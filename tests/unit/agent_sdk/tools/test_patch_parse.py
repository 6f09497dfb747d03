"""Unified diffs as they come: from git, from diff, and from models."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_sdk.core.errors import InvalidToolInput
from agent_sdk.tools.patch_parse import FilePatch, Hunk, PatchLine, lines_of, parse_patch
from agent_sdk.tools.patch_paths import header_path, patched_path

HEADER = "--- a/x\n+++ b/x\n"
BODY = "@@ -1,2 +1,2 @@\n one\n-two\n+zwei\n"


def one(text: str) -> FilePatch:
    (patch,) = parse_patch(text)
    return patch


def shown(patch: FilePatch) -> list[str]:
    return [line.kind + line.text for hunk in patch.hunks for line in hunk.lines]


def test_a_file() -> None:
    assert one(HEADER + BODY) == FilePatch(
        "x",
        creates=False,
        hunks=(Hunk(1, 1, (PatchLine(" ", "one"), PatchLine("-", "two"), PatchLine("+", "zwei"))),),
    )


def test_several_files_as_git_writes_them() -> None:
    text = (
        "From 1234 Mon Sep 17 00:00:00 2001\nSubject: x\n\nrename from a to b, said somebody.\n---\n"
        " x | 2 +-\n\n"
        "diff --git a/x b/x\nindex 012..345 100644\n" + HEADER + BODY + "diff --git a/new b/new\n"
        "new file mode 100644\nindex 0000000..3b18e51\n--- /dev/null\n+++ b/new\n"
        "@@ -0,0 +1 @@\n+hello\n-- \n2.39.5\n\n"
    )
    patches = parse_patch(text)
    assert [(p.path, p.creates) for p in patches] == [("x", False), ("new", True)]
    assert shown(patches[1]) == ["+hello"]


def test_fences_of_a_model_and_blank_lines_between_files() -> None:
    text = f"```diff\n{HEADER}{BODY}\n--- a/y\n+++ b/y\n{BODY}```\n"
    assert [p.path for p in parse_patch(text)] == ["x", "y"]
    assert all(shown(p) == [" one", "-two", "+zwei"] for p in parse_patch(text))


@pytest.mark.parametrize("counts", ["-1,2 +1,2", "-1,9 +1,9", "-1 +1", "-1,1 +1,7", "-1,0 +1,0"])
def test_wrong_counts_do_not_matter(counts: str) -> None:
    body = BODY.replace("-1,2 +1,2", counts)
    text = HEADER + body + "@@ -10 +10 @@\n-a\n+b\n--- a/y\n+++ b/y\n" + body
    first, second = parse_patch(text)
    assert shown(first) == [" one", "-two", "+zwei", "-a", "+b"]
    assert shown(second) == [" one", "-two", "+zwei"]


def test_lines_that_look_like_a_header() -> None:
    body = "@@ -1,2 +1,2 @@\n a\n--- b\n+++ c\n@@ -9 +9 @@\n-d\n+e\n"
    assert shown(one(HEADER + body)) == [" a", "--- b", "+++ c", "-d", "+e"]


def test_context_that_lost_its_space() -> None:
    assert shown(one(HEADER + "@@ -1,3 +1,3 @@\n a\n\n-b\n+c\n")) == [" a", " ", "-b", "+c"]
    assert shown(one(HEADER + "@@ -1,9 +1,9 @@\n a\n-b\n+c\n\n\n")) == [" a", "-b", "+c"]


def test_no_final_newline() -> None:
    text = HEADER + "@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+b\n\\ Kein Zeilenumbruch\n"
    assert one(text).hunks[0].lines == (
        PatchLine("-", "a", bare=True),
        PatchLine("+", "b", bare=True),
    )


def test_crlf_that_carried_it_and_crlf_in_it() -> None:
    carried = one((HEADER + BODY).replace("\n", "\r\n"))
    assert not any(line.cr for line in carried.hunks[0].lines)
    inside = one(HEADER + BODY.replace("o\n", "o\r\n").replace("one\n", "one\r\n"))
    assert [(line.text, line.cr) for line in inside.hunks[0].lines] == [
        ("one", True),
        ("two", True),
        ("zwei", False),
    ]


def test_separators_of_unicode_end_no_line() -> None:
    text = HEADER + "@@ -1 +1 @@\n-a\u2028b\x85c\x0cd\n+e\n"
    assert shown(one(text)) == ["-a\u2028b\x85c\x0cd", "+e"]


def test_hunks_are_sorted() -> None:
    text = HEADER + "@@ -9 +9 @@\n-a\n+b\n@@ -1 +1 @@\n-c\n+d\n"
    assert [(h.number, h.start) for h in one(text).hunks] == [(2, 1), (1, 9)]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "has no file header"),
        ("just words\n", "has no file header"),
        ("--- a/x\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n", "deletes a file"),
        ("diff --git a/x b/x\ndeleted file mode 100644\n", "deletes a file"),
        ("diff --git a/x b/y\nsimilarity index 90%\nrename from x\nrename to y\n", "renames"),
        ("diff --git a/x b/y\ncopy from x\ncopy to y\n", "renames or copies"),
        ("diff --git a/x b/x\nold mode 100644\nnew mode 100755\n", "mode"),
        ("diff --git a/x b/x\nGIT binary patch\nliteral 3\n", "binary"),
        ("diff --git a/x b/x\nBinary files a/x and b/x differ\n", "binary"),
        ("diff --git a/x b/x\nnew file mode 120000\n--- /dev/null\n+++ b/x\n", "a link"),
        ("diff --git a/x b/x\nnew file mode 160000\n--- /dev/null\n+++ b/x\n", "submodule"),
        ("diff --git a/x b/x\nnew file mode 100755\n--- /dev/null\n+++ b/x\n", "executable"),
        ("diff --git a/x b/x\nnew file mode 100644\nindex 0..e69\n", "no line changes"),
        (
            "diff --git a/e b/e\nnew file mode 100644\ndiff --git a/x b/x\n" + HEADER + BODY,
            "no line changes",
        ),
        ("*** Begin Patch\n*** Update File: x\n", "another format"),
        ("@@@ -1 -1 +1 @@@\n", "combined diff"),
        (BODY, "without saying of which file"),
        (HEADER, "where the first hunk was expected"),
        (HEADER + "@@ def f(): @@\n-a\n+b\n", "no line numbers"),
        (HEADER + "@@ -1 +1 @@\n", "where the lines of a hunk were expected"),
        (HEADER + "@@ -1 +1 @@\n\\ No newline\n", "follows no line"),
        (HEADER + BODY + "two more\n", "no part of a unified diff"),
        (HEADER + BODY + HEADER + BODY, "two sections for 'x'"),
        ("--- a/x\n+++ b/y\n" + BODY, "two files"),
        ("--- /dev/null\n+++ b/x\n" + BODY, "one hunk of '.' lines only"),
        ('--- "a/x\n+++ b/x\n' + BODY, "no closing quote"),
        ('--- "a/\\9"\n+++ b/x\n' + BODY, "escape of no meaning"),
        ("--- \n+++ \n" + BODY, "names no file"),
        (
            "".join(f"--- a/{n}\n+++ b/{n}\n{BODY}" for n in range(101)),
            "101 files, more than 100",
        ),
    ],
)
def test_refused(text: str, says: str) -> None:
    with pytest.raises(InvalidToolInput, match=says):
        parse_patch(text)


@given(st.text(alphabet="-+@ \\\n\r/abdiff0129,.\"'*x\t", max_size=200))
def test_anything_is_parsed_or_refused(text: str) -> None:
    for prefix in ("", HEADER, HEADER + "@@ -1,2 +1,2 @@\n"):
        try:
            patches = parse_patch(prefix + text)
        except InvalidToolInput:
            continue
        assert all(hunk.lines for patch in patches for hunk in patch.hunks)


def test_lines_of() -> None:
    assert lines_of(one(HEADER + BODY).hunks[0].lines, " -") == "one\ntwo"


# ------------------------------------------------------------------------ names


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("a/x", "a/x"),
        ("x y.txt\t", "x y.txt"),
        ("x y.txt\t2024-01-01 00:00:00.000 +0000", "x y.txt"),
        ('"a/\\346\\226\\207 \\"q\\".txt"', 'a/文 "q".txt'),
        ('"a/tab\\there\\\\"', "a/tab\there\\"),
        ('"a/\\377"', "a/\udcff"),
        ('"a/文"', "a/文"),
        ("a/文.txt\r", "a/文.txt"),
    ],
)
def test_header_path(text: str, path: str) -> None:
    assert header_path(text) == path


@pytest.mark.parametrize(
    ("old", "new", "path"),
    [
        ("a/x", "b/x", "x"),
        ("i/x", "w/x", "x"),
        ("x", "x", "x"),
        ("a/x", "a/x", "a/x"),
        ("b/x", "b/x", "b/x"),
        ("a/x", "x", "x"),
        ("x", "b/x", "x"),
        ("/dev/null", "b/x", "x"),
        ("/dev/null", "x", "x"),
        ("/dev/null", "b/", "b/"),
        ("a/a/x", "b/a/x", "a/x"),
        ("/tmp/x", "/tmp/x", "/tmp/x"),
        ("x.orig", "x", ""),
        ("a/x", "b/y", ""),
    ],
)
def test_patched_path(old: str, new: str, path: str) -> None:
    assert patched_path(old, new) == path
