import pytest

from agent_sdk.providers.base import ToolSpec
from agent_sdk.providers.local_schema import (
    answer_name,
    named_files,
    narrow,
    text_arguments,
    turn_schema,
)

READ = ToolSpec(
    "read",
    "Read a file.",
    {
        "type": "object",
        "properties": {
            "file_path": {"type": "string", "description": "Which."},
            "offset": {"type": "integer"},
        },
        "required": ["file_path"],
        "additionalProperties": False,
    },
)
BASH = ToolSpec(
    "bash",
    "Run a command.",
    {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]},
)


@pytest.mark.parametrize(
    ("prompt", "files"),
    [
        ("Read README.md and say what this project is", ["README.md"]),
        ("Read README.md.", ["README.md"]),
        ("What does src/app/main.py do?", ["src/app/main.py"]),
        ("compare a.py, b.py and a.py", ["a.py", "b.py"]),
        ("阅读README.md并说明", ["README.md"]),
        ("阅读 文档/说明.md，谢谢", ["文档/说明.md"]),
        ("打开 设计稿.txt吧", ["设计稿.txt"]),
        ("文档很好", []),
        ("Show me `my notes.txt` please", ["my notes.txt"]),
        ('open "docs/über uns.md"', ["docs/über uns.md"]),
        ("look at /etc/hosts and ./run and ~/x", ["/etc/hosts", "./run", "~/x"]),
        ("what is in .gitignore?", [".gitignore"]),
        ("show LICENSE and docs/Makefile", ["LICENSE", "docs/Makefile"]),
        ("C:/src/x.txt", ["C:/src/x.txt"]),
        ("list the files", []),
        ("What is 2+2? And 3.11 or 1.2.3?", []),
        ("see https://example.org/a.html", []),
        ("mail me at example.com", []),
        ("this and/or that, e.g. here", []),
        ("", []),
    ],
)
def test_files_are_found_in_the_users_words(prompt: str, files: list[str]) -> None:
    assert named_files(prompt) == files


def test_only_what_must_be_given_is_asked_for_and_files_are_those_named() -> None:
    schema = narrow(READ, ["README.md"])
    assert schema == {
        "type": "object",
        "properties": {"file_path": {"enum": ["README.md"]}},
        "required": ["file_path"],
        "additionalProperties": False,
    }


def test_a_tool_that_needs_a_file_is_left_out_where_none_was_named() -> None:
    assert narrow(READ, []) is None
    assert narrow(BASH, []) is not None


def test_explanations_are_left_out_of_the_grammar() -> None:
    tool = ToolSpec(
        "t",
        "",
        {
            "type": "object",
            "properties": {"a": {"type": "array", "items": {"type": "string", "title": "x"}}},
            "required": ["a"],
        },
    )
    schema = narrow(tool, [])
    assert schema is not None
    assert schema["properties"] == {"a": {"type": "array", "items": {"type": "string"}}}


def test_the_answers_name_is_no_tools_name() -> None:
    assert answer_name([READ]) == "answer"
    assert answer_name([READ, ToolSpec("answer", "", {})]) == "answer_"


def test_a_turn_is_one_of_its_branches() -> None:
    schema = turn_schema({"answer": text_arguments()})
    (branch,) = schema["oneOf"]
    assert list(branch["properties"]) == ["name", "arguments"]  # this order is the grammar's
    assert branch["properties"]["name"] == {"const": "answer"}
    assert branch["required"] == ["name", "arguments"]
