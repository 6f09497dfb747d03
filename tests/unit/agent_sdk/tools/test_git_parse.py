"""What git writes for programs."""

from hypothesis import given
from hypothesis import strategies as st

from agent_sdk.tools.git_parse import (
    Commit,
    Entry,
    NumStat,
    Setting,
    filter_names,
    is_true,
    last_value,
    parse_attributes,
    parse_config,
    parse_log,
    parse_names,
    parse_numstat,
    parse_status,
)

STATUS = b"\0".join(
    [
        b"# branch.oid 0123456789abcdef",
        b"# branch.head main",
        b"# branch.upstream origin/main",
        b"# branch.ab +2 -1",
        b"1 M. N... 100644 100644 100644 aaa bbb staged file",
        b"1 .D N... 100644 100644 000000 aaa aaa gone",
        b"1 AM N... 000000 100644 100644 000 bbb both",
        b"2 R. N... 100644 100644 100644 aaa aaa R100 new name",
        b"old name",
        b"u UU N... 100644 100644 100644 100644 aaa bbb ccc in conflict",
        b"? \xe6\x96\x87 and \xff",
        b"? folder/",
        b"! ignored",
        b"",
    ]
)


def test_status() -> None:
    status = parse_status(STATUS)
    assert (status.branch, status.commit, status.upstream) == (
        "main",
        "0123456789abcdef",
        "origin/main",
    )
    assert (status.ahead, status.behind) == (2, 1)
    assert status.staged == (
        Entry("staged file", "modified"),
        Entry("both", "added"),
        Entry("new name", "renamed", "old name"),
    )
    assert status.unstaged == (Entry("gone", "deleted"), Entry("both", "modified"))
    assert status.conflicts == ("in conflict",)
    assert status.untracked == ("文 and \udcff", "folder/")


def test_status_without_a_branch_or_commit() -> None:
    status = parse_status(b"# branch.oid (initial)\0# branch.head (detached)\0")
    assert (status.branch, status.commit, status.upstream, status.ahead) == ("", "", "", None)


def test_numstat() -> None:
    data = b"1\t2\ta b\0-\t-\tbinary\0000\t0\t\0old\0new\0"
    assert parse_numstat(data) == (
        NumStat("a b", 1, 2),
        NumStat("binary", None, None),
        NumStat("new", 0, 0, "old"),
    )


def test_log() -> None:
    data = "aa\x1fa\x1fÄnn\x1f2026-01-01\x1fHEAD -> x\x1fsubject\0bad\0".encode()
    assert parse_log(data) == (Commit("aa", "a", "Änn", "2026-01-01", "HEAD -> x", "subject"),)


def test_config() -> None:
    data = (
        b"global\0user.name\nAnn\0local\0core.bare\0local\0filter.a.b.clean\nx\ny\0"
        b"local\0filter.c.required\ntrue\0command\0safe.barerepository\nexplicit\0"
    )
    settings = parse_config(data)
    assert settings == (
        Setting("user.name", "Ann", "outer"),
        Setting("core.bare", "true", "repository"),
        Setting("filter.a.b.clean", "x\ny", "repository"),
        Setting("filter.c.required", "true", "repository"),
    )
    assert filter_names(settings) == ("a.b", "c")
    assert last_value(settings, "user.name") == "Ann"
    assert last_value(settings, "user.email") == ""


def test_small_ones() -> None:
    assert parse_names(b"a\0b c\0") == ("a", "b c")
    assert parse_attributes(b"x\0filter\0lfs\0y\0filter\0unspecified\0") == {
        "x": "lfs",
        "y": "unspecified",
    }
    assert [is_true(v) for v in ("true", "YES", "on", "1", "0", "false", "")] == [True] * 4 + [
        False
    ] * 3


@given(st.binary(max_size=80))
def test_nothing_breaks_them(data: bytes) -> None:
    for parse in (parse_status, parse_numstat, parse_log, parse_config, parse_attributes):
        for prefix in (b"", b"1 ", b"2 R. ", b"u ", b"# branch.ab ", b"1\t"):
            parse(prefix + data)
