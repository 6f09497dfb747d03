"""Searching contents: the same results from ripgrep and without it, bounds, secrets, stops."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_sdk.core.environment import child_environment
from agent_sdk.core.errors import InvalidToolInput, ToolError
from agent_sdk.core.process import ProcessOwner
from agent_sdk.permissions.ruleset import PermissionLayers, evaluate_layers
from agent_sdk.tools import grep as grep_module
from agent_sdk.tools import grep_output, grep_program
from agent_sdk.tools.grep import GrepTool
from agent_sdk.tools.grep_output import GrepOutput, shown_text
from agent_sdk.tools.grep_pattern import read_expression
from agent_sdk.tools.grep_program import GrepJob, batches, find_ripgrep
from tests.support.file_tools import Workbench

POSIX = pytest.mark.skipif(sys.platform == "win32", reason="names that Windows has not")
RIPGREP = find_ripgrep(os.environ, project="/nowhere")
ENGINES = [
    pytest.param("", id="python"),
    pytest.param(
        RIPGREP, id="ripgrep", marks=pytest.mark.skipif(not RIPGREP, reason="no ripgrep here")
    ),
]


class Searcher(Workbench):
    def __init__(self, folder: Path, processes: ProcessOwner, *, ripgrep: str) -> None:
        super().__init__(folder)
        self.asked: list[str] = []
        self.tools["grep"] = GrepTool(
            guard=self.guard,
            may_read=self._may_read,
            processes=processes,
            environment=child_environment(os.environ),
            ripgrep=ripgrep,
        )

    def _may_read(self, path: str) -> bool:
        self.asked.append(path)
        return not path.endswith(".env")

    async def grep(self, pattern: str, **raw: Any) -> str:
        return str((await self.call("grep", pattern=pattern, **raw)).content)

    async def lines(self, pattern: str, **raw: Any) -> list[str]:
        return (await self.grep(pattern, output_mode="content", **raw)).splitlines()


@pytest.fixture
async def processes() -> AsyncIterator[ProcessOwner]:
    async with ProcessOwner() as owner:
        yield owner


@pytest.fixture(params=ENGINES)
def bench(tmp_path: Path, processes: ProcessOwner, request: pytest.FixtureRequest) -> Searcher:
    return Searcher(tmp_path, processes, ripgrep=request.param)


@pytest.fixture
def slow_bench(tmp_path: Path, processes: ProcessOwner) -> Searcher:
    return Searcher(tmp_path, processes, ripgrep="")


async def test_three_ways_to_show_what_matches(bench: Searcher) -> None:
    bench.put("b.py", "def one():\n    pass\ndef two():\n")
    bench.put("a/c.py", "x = 1\ndef three(): ...")
    bench.put("d.txt", "define\n")
    assert await bench.grep(r"def \w+") == "a/c.py\nb.py"
    assert await bench.lines(r"def \w+") == [
        "a/c.py:2:def three(): ...",
        "b.py:1:def one():",
        "b.py:3:def two():",
    ]
    assert await bench.grep("def", output_mode="count") == "a/c.py:1\nb.py:2\nd.txt:1"
    result = await bench.call("grep", pattern="def", output_mode="count")
    assert result.details["numMatches"] == 4
    assert await bench.grep("nowhere") == "Nothing matches in '.'."


async def test_context_lines_and_the_gaps_between_them(bench: Searcher) -> None:
    bench.put("a", "1\n2\nX\n4\n5\n6\n7\nX\nX\n10\n")
    assert await bench.lines("X", context=1) == [
        *("a-2-2", "a:3:X", "a-4-4", "--"),
        *("a-7-7", "a:8:X", "a:9:X", "a-10-10"),
    ]
    assert await bench.lines("X", **{"-A": 1, "-B": 0}, head_limit=2) == [
        "a:3:X",
        "a-4-4",
        "[Shown: 1-2 of 6 lines. Continue with offset=2.]",
    ]


@pytest.mark.parametrize(
    ("pattern", "raw", "numbers"),
    [
        ("hello", {}, [1]),
        ("hello", {"-i": True}, [1, 2]),
        ("(?i)HELLO", {}, [1, 2]),
        (r"^\s*$", {}, [3]),
        (r"end$", {}, [4, 5]),
        (r"interface{}", {}, [6]),
        (r"[[:digit:]]{2,}", {}, [7]),
        (r"\bcat\b", {}, [8]),
        ("中.国", {}, [9]),
        (r"\u4e2d", {}, [9]),
        (r"[^\x00-\x7f]", {}, [9, 10]),
        (r"34|b(?:d|$)", {}, [7, 8]),
        (r"\$\{x\}|\(y\)", {}, [11]),
        (r"(?P<n>l)l", {}, [1, 11]),
        (r"x{1,2}y", {}, [12]),
        (r"É", {"-i": True}, [10]),
    ],
)
async def test_a_pattern_means_the_same_to_both(
    bench: Searcher, pattern: str, raw: dict[str, Any], numbers: list[int]
) -> None:
    lines = ["hello", "HELLO a", " ", "the end", "end\r", "var x interface{}", "a12 34", "a cat b"]
    lines += ["中文国", "café é", "call ${x} (y)", "xxxy"]
    bench.put("f", "\n".join(lines) + "\n")
    found = await bench.lines(pattern, **raw)
    assert [int(line.split(":")[1]) for line in found] == numbers


async def test_matches_across_lines(bench: Searcher) -> None:
    bench.put("f", "start {\n  one\n}\nother\nstart {\n  two\n}\n")
    assert await bench.lines(r"start \{\n.*?one", multiline=True) == [
        "f:1:start {",
        "f:2:  one",
    ]
    assert await bench.grep(r"one.*other", multiline=True) == "f"
    with pytest.raises(InvalidToolInput, match="Set multiline"):
        await bench.grep(r"a\nb")


async def test_only_files_that_fit(bench: Searcher) -> None:
    for name in ("a.py", "b.ts", "src/c.tsx", "src/d.py", "Makefile", "e.PY"):
        bench.put(name, "word\n")
    assert await bench.grep("word", glob="*.{ts,tsx}") == "b.ts\nsrc/c.tsx"
    assert await bench.grep("word", glob="src/**") == "src/c.tsx\nsrc/d.py"
    assert await bench.grep("word", type="py") == "a.py\ne.PY\nsrc/d.py"
    assert await bench.grep("word", type="python", glob="src/*") == "src/d.py"
    assert await bench.grep("word", type="make") == "Makefile"
    assert await bench.grep("word", path="src") == "src/c.tsx\nsrc/d.py"
    assert await bench.lines("word", path="src/d.py") == ["src/d.py:1:word"]


async def test_ignored_hidden_binary_and_odd_files(bench: Searcher) -> None:
    bench.put(".git/HEAD", "word")
    bench.put(".gitignore", "*.min.js\n")
    bench.put("x.min.js", "word")
    bench.put(".github/ci.yml", "word")
    bench.put("bin", b"\0\1\2 word\n")
    bench.put("wide.txt", "word".encode("utf-16"))
    bench.put("marked.txt", b"\xef\xbb\xbfword\n")
    bench.put("latin.txt", b"caf\xe9 word\n")
    bench.put("empty", "")
    assert await bench.lines("^word|word$") == [
        ".github/ci.yml:1:word",
        "latin.txt:1:caf\N{REPLACEMENT CHARACTER} word",
        "marked.txt:1:word",
        "wide.txt:1:word",
        "[1 binary files that match are left out.]",
    ]
    assert "x.min.js" in await bench.grep("word", include_ignored=True)


@POSIX
async def test_odd_names_and_links(tmp_path: Path, bench: Searcher) -> None:
    for name in (b"-e", b"new\nline", b"\xff", "中 文".encode(), b"a:1:b", b"-"):
        path = os.path.join(os.fsencode(bench.cwd), name)
        with open(path, "wb") as file:
            file.write(b"word\n")
    outside = tmp_path.parent / f"{tmp_path.name}-outside"
    outside.mkdir()
    (outside / "secret").write_text("word\n")
    bench.at("folder").symlink_to(outside)
    bench.at("file").symlink_to(outside / "secret")
    found = ["-", "-e", "a:1:b", "new\\x0aline", "中 文", "\\xff"]
    assert (await bench.grep("word")).splitlines() == found
    assert (await bench.grep("word", output_mode="count")).splitlines() == [f"{n}:1" for n in found]
    assert await bench.lines("word") == [f"{name}:1:word" for name in found]


async def test_long_lines_are_cut_around_the_match(bench: Searcher) -> None:
    bench.put("long", "é" * 5_000 + "needle" + "z" * 5_000 + "\n")
    (line,) = await bench.lines("needle")
    assert line.startswith("long:1:[4,850 characters…]é")
    assert "needle" in line
    assert line.endswith("[…4,656 characters]")


async def test_pages_are_honest(bench: Searcher) -> None:
    for number in range(12):
        bench.put(f"f{number:02}", "word\nword\n")
    lines = await bench.lines("word", head_limit=3, offset=4)
    assert lines == [
        *("f02:1:word", "f02:2:word", "f03:1:word"),
        "[Shown: 5-7 of 24 lines. Continue with offset=7.]",
    ]
    assert (await bench.grep("word", head_limit=5)).endswith(
        "[Shown: 1-5 of 12 files. Continue with offset=5.]"
    )
    with pytest.raises(ToolError, match="only 24 results"):
        await bench.lines("word", offset=24)


async def test_all_lines_are_counted_though_few_are_kept(
    bench: Searcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grep_output, "_KEPT", 5)
    for number in range(9):
        bench.put(f"f{number}", "word\nx\nword\n")
    shown = "[Shown: 4-5 of 18 lines. Continue with offset=5.]"
    page = {"head_limit": 2, "offset": 3}
    assert await bench.lines("word", **page) == ["f1:3:word", "f2:1:word", shown]
    around = await bench.lines("word", context=1, **page)
    assert "of at least" in around[-1]


async def test_no_more_programs_are_started_when_there_is_enough(
    bench: Searcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grep_module, "MAX_RESULTS", 3)
    monkeypatch.setattr(grep_program, "_BATCH_BYTES", 12)
    for number in range(8):
        bench.put(f"f{number}", "word\n")
    text = await bench.grep("word", head_limit=2)
    assert text.splitlines() == [
        *("f0", "f1", "[Shown: 1-2 of at least 4 files. Continue with offset=2.]"),
        "[Not all files were searched: there were enough results before.]",
    ]


# ------------------------------------------------------------------ permissions


async def test_files_that_may_not_be_read_are_not_searched(bench: Searcher) -> None:
    for name in ("app.py", ".env", ".ssh/config", "id_rsa"):
        bench.put(name, "word\n")
    text = await bench.grep("word")
    assert text.splitlines()[0] == "app.py"
    assert "Left out, since reading them needs the user's consent: '.env', '.ssh/config'" in text
    # The same is said whether or not they match: it tells nothing of what is in them.
    assert text.splitlines()[1:] == (await bench.grep("nowhere")).splitlines()[1:]
    assert await bench.grep("word", path=".env") == ".env"


def test_a_single_file_needs_what_reading_it_needs(slow_bench: Searcher) -> None:
    layers = PermissionLayers().in_order()
    slow_bench.put(".env", "x")
    slow_bench.put("src/a.py", "x")
    (folder,) = slow_bench.requests("grep", pattern="x")
    assert (folder.permission, folder.patterns) == ("grep", (slow_bench.cwd,))
    assert evaluate_layers(layers, folder) == "allow"
    grep, read = slow_bench.requests("grep", pattern="x", path=".env")
    assert (grep.permission, read.permission) == ("grep", "read")
    assert evaluate_layers(layers, read) == "ask"
    keys = [r.permission for r in slow_bench.requests("grep", pattern="x", path="/etc/passwd")]
    assert keys == ["grep", "read", "external_directory"]
    keys = [r.permission for r in slow_bench.requests("grep", pattern="x", path="/etc")]
    assert keys == ["grep", "external_directory"]


async def test_a_folder_that_became_a_file_is_refused(slow_bench: Searcher) -> None:
    slow_bench.at("x").mkdir()
    args, _ = slow_bench.prepare("grep", pattern="word", path="x")
    slow_bench.at("x").rmdir()
    slow_bench.put("x", "word")
    with pytest.raises(ToolError, match="leads elsewhere now"):
        await slow_bench.run("grep", args)


async def test_what_is_not_there_is_an_error(slow_bench: Searcher) -> None:
    with pytest.raises(ToolError, match="There is no file 'gone'"):
        await slow_bench.grep("x", path="gone")


if sys.platform != "win32":

    async def test_a_pipe_is_not_opened(slow_bench: Searcher) -> None:
        os.mkfifo(slow_bench.at("pipe"))
        assert await slow_bench.grep("x") == "Nothing matches in '.'."
        with pytest.raises(ToolError, match="neither a folder nor a regular file"):
            await slow_bench.grep("x", path="pipe")


# --------------------------------------------------------------- bounds and stops


async def test_a_pattern_that_never_ends_is_ended(
    slow_bench: Searcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grep_module, "MAX_SEARCH_SECONDS", 0.5)
    slow_bench.put("a", "first\n")
    slow_bench.put("b", "a" * 64 + "!\n")
    text = await slow_bench.grep("first|(a+)+$")
    assert text.splitlines()[0] == "a"
    assert "Not all files were searched" in text


@pytest.mark.skipif(not RIPGREP, reason="no ripgrep here")
async def test_ripgrep_takes_linear_time(tmp_path: Path, processes: ProcessOwner) -> None:
    fast = Searcher(tmp_path, processes, ripgrep=RIPGREP)
    fast.put("b", "a" * 2_000 + "b\n")
    assert await fast.grep("(a|aa)+c") == "Nothing matches in '.'."


async def test_a_stop_ends_the_program(slow_bench: Searcher, processes: ProcessOwner) -> None:
    slow_bench.put("b", "a" * 64 + "!\n")
    task = asyncio.ensure_future(slow_bench.grep("(a+)+$"))
    async with asyncio.timeout(20):
        while not any(child.pid for child in processes._children.values()):
            await asyncio.sleep(0.01)
    (child,) = processes._children.values()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not child.running


@pytest.mark.skipif(not RIPGREP, reason="no ripgrep here")
async def test_a_program_that_refuses_is_quoted(tmp_path: Path, processes: ProcessOwner) -> None:
    fast = Searcher(tmp_path, processes, ripgrep=RIPGREP)
    fast.put("a", "x")
    with pytest.raises(ToolError, match=r"The search failed: .*size limit"):
        await fast.grep(r"(?:\w{1000}){1000}")


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grep_output, "_KEPT", 10)
    monkeypatch.setattr(grep_output, "MAX_LINE", 300)
    output = GrepOutput(mode="content", need=3, is_text=lambda path: True)
    for name in ("c", "a", "b", "d"):
        for number in range(1, 6):
            line = (
                b'{"type":"match","data":{"path":{"text":"./%s"},"lines":{"text":"x\\n"},'
                b'"line_number":%d,"submatches":[{"start":0}]}}\n' % (name.encode(), number)
            )
            output.feed(line[:20])
            output.feed(line[20:])
    output.feed(b'{"type":"match","data":' + b"x" * 1_000 + b"\n" + b'{"type":"summary"}\n')
    kept = {path: file.lines is not None for path, file in output.in_order()}
    assert kept["a"]
    assert not all(kept.values())
    assert [file.matches for _, file in output.in_order()] == [5, 5, 5, 5]
    assert (output.results, output.too_long) == (20, 1)


def test_command_lines_stay_within_their_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grep_program, "_BATCH_BYTES", 20)
    paths = [f"file{number}" for number in range(7)] + ["x" * 50]
    found = list(batches(paths))
    assert [len(batch) for batch in found] == [2, 2, 2, 1, 1]
    assert [p.removeprefix("./") for batch in found for p in batch] == paths


def test_no_ripgrep_of_the_project_is_run(tmp_path: Path) -> None:
    planted = tmp_path / grep_program._NAME
    planted.write_text("")
    planted.chmod(0o755)
    env = {"PATH": os.pathsep.join([str(tmp_path), "."])}
    assert find_ripgrep(env, project=str(tmp_path)) != str(planted)
    assert find_ripgrep(env, project="/elsewhere") in (str(planted), RIPGREP)
    command = grep_program.ripgrep_command("/rg", GrepJob(pattern="-e", mode="content"))
    assert "--regexp=-e" in command
    assert command[-1] == "--"


# --------------------------------------------------------------------- the input


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        ({"pattern": ""}, "must not be empty"),
        ({"pattern": "a" * 2_000}, "longer than"),
        ({"pattern": "(?=x)"}, "Look-around"),
        ({"pattern": r"(a)\1"}, "back-reference"),
        ({"pattern": r"\p{Han}"}, "Name a range"),
        ({"pattern": "(a"}, "is not closed"),
        ({"pattern": "a)"}, "was not opened"),
        ({"pattern": "[a"}, "is not closed"),
        ({"pattern": "[b-a]"}, "ends before it begins"),
        ({"pattern": "*a"}, "nothing that '\\*' could repeat"),
        ({"pattern": "a{5,2}"}, "ends before it begins"),
        ({"pattern": "a{2000}"}, "more than 1,000 times"),
        ({"pattern": "a\\"}, "nothing follows"),
        ({"pattern": "[[:nope:]]"}, "no class"),
        ({"pattern": r"\x{110000}"}, "is no character"),
        ({"pattern": "(" * 60 + ")" * 60}, "deep"),
        ({"pattern": "a", "type": "cobol"}, "no file type 'cobol'"),
        ({"pattern": "a", "output_mode": "lines"}, "no output_mode 'lines'"),
        ({"pattern": "a", "context": 1_000}, "at most 50"),
        ({"pattern": "a", "head_limit": 100_000}, "at most 5,000"),
        ({"pattern": "a", "-n": False}, "leave out '-n'"),
        ({"pattern": "a", "-i": True, "case_insensitive": False}, "given twice"),
        ({"pattern": "a", "-o": True}, "no field '-o'"),
    ],
)
def test_bad_input_is_explained(slow_bench: Searcher, raw: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidToolInput, match=said):
        slow_bench.tools["grep"].parse(raw)


@given(st.text("ab(){}[]|*+?^$\\.-,:<>&~nd1P#! \n中", max_size=20))
def test_any_pattern_is_either_read_or_refused(text: str) -> None:
    try:
        expression = read_expression(text)
    except InvalidToolInput:
        return
    # What was written is in the dialect itself, and is not written otherwise.
    assert read_expression(expression.text).text == expression.text


@given(st.text(max_size=1_500), st.integers(0, 1_500))
def test_a_shown_line_is_short_and_holds_the_match(text: str, place: int) -> None:
    line = text.replace("\n", " ").encode(errors="replace")
    start = len(text[:place].replace("\n", " ").encode(errors="replace"))
    assert len(shown_text(line, min(start, len(line)))) <= grep_output.MAX_COLUMNS + 60
