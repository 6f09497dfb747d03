import subprocess
import sys
import time

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from agent_sdk.core import yaml_subset
from agent_sdk.core.frontmatter import MOST_CHARACTERS, Frontmatter, parse_frontmatter


def fields(header: str) -> dict[str, object]:
    return dict(parse_frontmatter(f"---\n{header}\n---\nbody").fields)


@pytest.mark.parametrize(
    "text", ["", "body", "# Title\n---\na: b\n---\n", "--- a\nb: c\n---", "----\n", "\n\nbody"]
)
def test_a_text_without_header_is_all_body(text: str) -> None:
    assert parse_frontmatter(text) == Frontmatter(body=text.lstrip("\n"))


@pytest.mark.parametrize(
    "text",
    [
        "---\nname: a\n---\n\nfirst\nsecond\n",
        "\ufeff---\r\nname: a\r\n---\r\n\r\nfirst\r\nsecond\r\n",
        "---\rname: a\r---\r\rfirst\rsecond\r",
        "---  \nname: a\n...\n\n\nfirst\nsecond\n",
        "\n\n---\nname: a\n---\nfirst\nsecond\n",
        "---\nname:   a  \n\n---\nfirst\nsecond\n",
    ],
)
def test_header_and_body_come_apart(text: str) -> None:
    found = parse_frontmatter(text)
    assert (found.fields, found.body) == ({"name": "a"}, "first\nsecond\n")
    assert (found.present, found.problems) == (True, ())


def test_an_empty_header_is_a_header() -> None:
    assert parse_frontmatter("---\n---\nx") == Frontmatter(body="x", present=True)
    assert parse_frontmatter("---\n# note\n---\nx") == Frontmatter(body="x", present=True)


def test_a_header_that_never_closes_is_said() -> None:
    found = parse_frontmatter("---\nname: a\n")
    assert (found.present, found.fields, found.body) == (False, {}, "---\nname: a\n")
    (problem,) = found.problems
    assert problem.line == 1
    assert "never closed" in problem.text


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("a: plain text, with [some] {signs}", "plain text, with [some] {signs}"),
        ("a: 1.10", "1.10"),
        ("a: true", "true"),
        ("a: 2026-11-08", "2026-11-08"),
        ("a:", None),
        ("a: ~", None),
        ("a: null", None),
        ('a: "null"', "null"),
        ("a: ''", ""),
        ('a: "x: y # z"', "x: y # z"),
        ("a: 'it''s'", "it's"),
        (r'a: "tab\tquote\""', 'tab\tquote"'),
        ("a: x # note", "x"),
        ("a: one\n  two", "one two"),
        ("a: |\n  one\n  two", "one\ntwo\n"),
        ("a: >-\n  one\n  two", "one two"),
        ("a: [x, 'y z', 3]", ["x", "y z", "3"]),
        ("a:\n- x\n- y", ["x", "y"]),
        ("a:\n  - x\n  -", ["x", None]),
        ("a:\n\t- x\n\t- y", ["x", "y"]),
        ("a:\n  b: {c: d}\n  '*': ask", {"b": {"c": "d"}, "*": "ask"}),
        ("a: 中文：说明", "中文：说明"),
        ("a: 👩‍👩‍👧", "👩‍👩‍👧"),
    ],
)
def test_values(header: str, expected: object) -> None:
    assert fields(header) == {"a": expected}


@pytest.mark.parametrize(
    ("header", "expected", "said"),
    [
        ("a: Use when: x\nb: y", {"a": "Use when: x", "b": "y"}, "'a' is no valid YAML"),
        ("a: [x] [y]\nb: y", {"a": "[x] [y]", "b": "y"}, "taken as plain text"),
        ("a: *bold*\nb: y", {"a": "*bold*", "b": "y"}, "'a' is no valid YAML"),
        ("a: *b\nb: &b y", {"a": "*b", "b": "&b y"}, "alias"),
        (
            "a: !!python/object/new:os.system [ls]",
            {"a": "!!python/object/new:os.system [ls]"},
            "tag",
        ),
        ("a: @file\nb: y", {"a": "@file", "b": "y"}, "plain text"),
        ('a: "no end\nb: y', {"a": '"no end', "b": "y"}, "plain text"),
        (r'a: "bad \d escape"', {"a": r"bad \d escape"}, "plain text"),
        (
            "a: Like this\nContext: the user asks: x\nuser: 'do: it'\nassistant: ok\nb: y",
            {"a": "Like this\nContext: the user asks: x\nuser: 'do: it'\nassistant: ok", "b": "y"},
            "plain text",
        ),
        ("a: x\na: y", {"a": "x"}, "twice; the first one holds"),
        ("a:\n  b: 1\n  b: 2\nc: z", {"a": "b: 1\nb: 2", "c": "z"}, "has 'b' twice"),
        ("  stray\na: b: c", {"a": "b: c"}, "belongs to no field"),
    ],
)
def test_what_is_no_yaml_is_taken_apart(header: str, expected: object, said: str) -> None:
    found = parse_frontmatter(f"---\n{header}\n---\n")
    assert found.fields == expected
    assert any(said in problem.text for problem in found.problems)
    assert all(1 < problem.line < 20 for problem in found.problems)


def test_a_problem_names_its_line() -> None:
    found = parse_frontmatter("---\nname: x\ndescription: Use when: y\n---\n")
    assert [(problem.key, problem.line) for problem in found.problems] == [("description", 3)]


@pytest.mark.parametrize("header", ["- a\n- b", "just words", "[]", "a: b\n---\nc: d"])
def test_a_header_of_something_else_has_no_more_fields(header: str) -> None:
    found = parse_frontmatter(f"---\n{header}\n---\n")
    assert set(found.fields) <= {"a"}
    assert found.problems or found.body == "c: d\n---\n"


@pytest.mark.parametrize(
    "header",
    [
        "a: " + "[" * 20_000,
        "a: " + "{a: " * 10_000,
        "".join(f"{' ' * depth}k:\n" for depth in range(300)),
        "a: &x [" + "*x," * 20_000 + "]",
        "a: [" + "x," * 20_000 + "]",
        "a: &a [x]\n" + "\n".join(f"b{n}: &b{n} [*a, *a]" for n in range(30)),
        "k" * 60_000 + ": v",
        "a: '" + "''" * 30_000,
        "\n".join("a b: c" for _ in range(5_000)),
        "\n".join(f"k{n}: x: y" for n in range(3_000)),
    ],
)
def test_bombs_are_refused_soon(header: str) -> None:
    start = time.process_time()
    found = parse_frontmatter(f"---\n{header}\n---\nbody")
    assert time.process_time() - start < 30  # not about speed: about not exploding
    assert found.body == "body"
    assert found.problems or len(found.fields) == 1


def test_a_header_that_is_too_long_is_not_read() -> None:
    found = parse_frontmatter("---\na: " + "x" * MOST_CHARACTERS + "\n---\nbody")
    assert (found.fields, found.body) == ({}, "body")
    assert "longer than" in found.problems[0].text


@given(st.text(max_size=200))
@example("---\n\x00: \ud800\n---")
@example("---\n? [a]\n: b\n---")
@example("---\n: x\n---")
@example('---\na: "\\UFFFFFFFF"\n---')
@example("---\n%YAML 9.9\n---\n---")
def test_no_text_raises(text: str) -> None:
    parse_frontmatter(text)
    parse_frontmatter("---\n" + text + "\n---\n")


_SIGNS = st.text(alphabet=" :#-[]{}\"'\\|>&*!%@`~?,.abcnul01\t\n\r\ud800é中", max_size=60)


@given(_SIGNS)
@settings(max_examples=400)
def test_no_mixture_of_signs_raises(text: str) -> None:
    found = parse_frontmatter("---\n" + text + "\n---\n")
    assert all(problem.text and problem.line >= 1 for problem in found.problems)


_LINES = st.lists(
    st.one_of(
        st.just(""),
        st.builds(
            "{}:{}{}".format,
            st.sampled_from(["a", "b", "description", "null", "allowed-tools"]),
            st.sampled_from([" ", "  ", ""]),
            st.text(alphabet=" :#-[]{}\"',.anul01x/*&", max_size=16),
        ),
    ),
    max_size=4,
)


@given(_LINES)
@settings(max_examples=600)
def test_the_quick_way_reads_what_yaml_reads(lines: list[str]) -> None:
    found = parse_frontmatter("---\n" + "\n".join(lines) + "\n---\n")
    loaded = yaml_subset.load_yaml("\n".join(lines) + "\n", line=2)
    if not loaded.error and isinstance(loaded.value, dict):
        assert (found.fields, found.problems) == (loaded.value, ())


def test_text_agrees_with_the_library() -> None:
    header = "a: >\n  one\n  two\n\n  three\nb: |+\n  x\n\nc: 'y'\nd: [e, {f: g}]\n"
    expected = yaml.load(header, Loader=yaml.BaseLoader)
    assert fields(header) == expected


def test_an_ordinary_header_does_not_load_the_library() -> None:
    code = (
        "import sys; from agent_sdk.core.frontmatter import parse_frontmatter as parse\n"
        "parse('---\\nname: x\\ndescription: \"Use: it\"\\n---\\nbody')\n"
        "assert 'yaml' not in sys.modules\n"
        "parse('---\\nname: [x]\\n---\\nbody')\n"
        "assert 'yaml' in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
