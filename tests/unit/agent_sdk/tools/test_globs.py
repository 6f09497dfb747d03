"""Patterns for paths, and what ignore files leave out."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_sdk.core.errors import InvalidToolInput
from agent_sdk.tools.gitignore import IgnoreLevel, is_ignored, parse_ignore
from agent_sdk.tools.globs import compile_glob, compile_name, compile_parts, match_parts


@pytest.mark.parametrize(
    ("pattern", "path", "fits"),
    [
        ("*.py", "a.py", True),
        ("*.py", "deep/in/a.py", True),
        ("./*.py", "a.py", True),
        ("./*.py", "in/a.py", False),
        ("**/*.py", "a.py", True),
        ("**/*.py", "x/y/a.py", True),
        ("**/*.py", "x/y/a.pyc", False),
        ("src/**/*.ts", "src/a.ts", True),
        ("src/**/*.ts", "src/x/y/a.ts", True),
        ("src/**/*.ts", "lib/src/a.ts", False),
        ("src/*/a.ts", "src/x/a.ts", True),
        ("src/*/a.ts", "src/x/y/a.ts", False),
        ("src/**", "src/a", True),
        ("src/**", "src", False),
        ("**/test/**", "a/test/b/c", True),
        ("**/test/**", "a/testing/b", False),
        ("a/**/b/**/c", "a/x/b/b/y/c", True),
        ("a/**/b/**/c", "a/x/c", False),
        ("*.{yml,yaml}", "ci.yaml", True),
        ("*.{yml,yaml}", "ci.json", False),
        ("{src,lib}/*.{c,h}", "lib/x.h", True),
        ("a{,b}c", "ac", True),
        ("{a,{b,c}}d", "cd", True),
        ("[ab]?.txt", "bx.txt", True),
        ("[!ab]x", "ax", False),
        ("[^ab]x", "cx", True),
        ("[a-c]x", "bx", True),
        ("[]x]", "]", True),
        ("\\*.txt", "*.txt", True),
        ("\\*.txt", "a.txt", False),
        ("测试*.md", "docs/测试一.md", True),
        ("*a*b*c", "xaybzc", True),
        ("*a*b*c", "xbyazc", False),
        ("*ab", "aab", True),
        ("a*a", "a", False),
        ("no\nline", "no\nline", True),
        ("x*", "x\n", True),
    ],
)
def test_pattern(pattern: str, path: str, fits: bool) -> None:
    assert compile_glob(pattern).matches(path.split("/")) is fits


@pytest.mark.parametrize("pattern", ["", "/", "a{b", "[ab", "a\\", "{a,b}" * 7, "x" * 2_000])
def test_a_bad_pattern_is_refused(pattern: str) -> None:
    with pytest.raises(InvalidToolInput):
        compile_glob(pattern)


def test_only_folders_that_may_hold_something_are_entered() -> None:
    glob = compile_glob("src/*/a.py")
    assert glob.may_contain(["src"])
    assert glob.may_contain(["src", "x"])
    assert not glob.may_contain(["src", "x", "y"])
    assert not glob.may_contain(["lib"])
    assert compile_glob("src/**/a.py").may_contain(["src", "x", "y"])
    assert compile_glob("a.py").may_contain(["anywhere"])


def test_hostile_patterns_take_no_time() -> None:
    begun = time.process_time()
    assert not compile_name("*a" * 64 + "b")("a" * 250)
    assert not compile_name("*[ab]?" * 60 + "x")("ab" * 120)
    deep = compile_parts(["**", "a"] * 40 + ["b"])
    assert not match_parts(deep, ["a"] * 200)
    assert time.process_time() - begun < 5  # a matcher that tries again takes years


def slow(pattern: str, text: str) -> bool:
    """Return whether a pattern of ``*``, ``?`` and letters fits, in the plainest way."""
    if not pattern:
        return not text
    if pattern[0] == "*":
        return slow(pattern[1:], text) or (bool(text) and slow(pattern, text[1:]))
    return bool(text) and pattern[0] in ("?", text[0]) and slow(pattern[1:], text[1:])


@given(st.text("ab*?", min_size=1, max_size=8), st.text("ab", max_size=10))
def test_stars_mean_what_they_mean(pattern: str, text: str) -> None:
    assert bool(compile_name(pattern)(text)) is slow(pattern, text)


@given(st.lists(st.sampled_from(["**", "a", "b", "*"]), max_size=6), st.text("ab", max_size=7))
def test_double_stars_mean_what_they_mean(names: list[str], path: str) -> None:
    def plain(left: tuple[str, ...], rest: str) -> bool:
        if not left:
            return not rest
        if left == ("**",):
            return bool(rest)
        if left[0] == "**":
            return plain(left[1:], rest) or (bool(rest) and plain(left, rest[1:]))
        return bool(rest) and left[0] in ("*", rest[0]) and plain(left[1:], rest[1:])

    once = [n for at, n in enumerate(names) if n != "**" or names[at - 1 : at] != ["**"]]
    assert match_parts(compile_parts(names), list(path)) is plain(tuple(once), path)


# ----------------------------------------------------------------- ignore files


def ignored(text: str, path: str) -> bool:
    """Return whether a path is ignored; one with a slash at its end is a folder."""
    file = parse_ignore(text.encode(errors="surrogateescape"))
    names = path.removesuffix("/").split("/")
    return is_ignored([IgnoreLevel(0, {".gitignore": file})], names, folder=path.endswith("/"))


@pytest.mark.parametrize(
    ("text", "path", "out"),
    [
        ("build", "build", True),
        ("build", "a/b/build", True),
        ("build/", "build", False),
        ("build/", "build/", True),
        ("/build", "build", True),
        ("/build", "a/build", False),
        ("a/b", "a/b", True),
        ("a/b", "x/a/b", False),
        ("*.log", "x/y.log", True),
        ("*.tar.gz", "y.tar.gz", True),
        ("*.tar.gz", "y.gz", False),
        ("doc/*.txt", "doc/a.txt", True),
        ("doc/*.txt", "doc/x/a.txt", False),
        ("**/logs", "a/b/logs", True),
        ("logs/**", "logs/x", True),
        ("logs/**", "logs/", False),
        ("a/**/b", "a/b", True),
        ("a/**/b", "a/x/y/b", True),
        ("*.py[cod]", "x.pyc", True),
        ("*", "anything", True),
        ("**", "any/thing", True),
        ("# no", "# no", False),
        ("\\#yes", "#yes", True),
        ("\\!yes", "!yes", True),
        ("name   ", "name", True),
        ("name\\ ", "name ", True),
        ("crlf\r\n", "crlf", True),
        ("*.log\n!keep.log", "keep.log", False),
        ("!keep.log\n*.log", "keep.log", True),
        ("[oops", "[oops", False),
        ("", "a", False),
        ("垃圾/", "a/垃圾/", True),
        ("bad\udcff", "bad\udcff", True),
        ("\ufeffbom", "bom", True),
        ("a//b", "a/b", False),
    ],
)
def test_ignore_line(text: str, path: str, out: bool) -> None:
    assert ignored(text, path) is out


def test_deeper_files_and_the_other_kind_come_first() -> None:
    outer = IgnoreLevel(0, {".gitignore": parse_ignore(b"*.log\n/top\n")})
    inner = IgnoreLevel(1, {".gitignore": parse_ignore(b"!a.log\n/here\n")})
    levels = [outer, inner]
    assert is_ignored(levels, ["in", "b.log"], folder=False)
    assert not is_ignored(levels, ["in", "a.log"], folder=False)
    assert is_ignored(levels, ["in", "here"], folder=False)
    assert not is_ignored(levels, ["in", "top"], folder=False)
    other = IgnoreLevel(0, {".ignore": parse_ignore(b"a.log\n!b.log")})
    assert is_ignored([outer, other, inner], ["in", "a.log"], folder=False)
    assert not is_ignored([outer, other, inner], ["in", "b.log"], folder=False)
