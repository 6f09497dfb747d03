import os
from pathlib import Path

import pytest

from agent_sdk.resources.commands import (
    PromptCommand,
    expand_command,
    parse_command,
    scan_commands,
)
from agent_sdk.resources.places import Folder
from agent_sdk.resources.problems import Unusable


def test_everything_in_a_file() -> None:
    text = (
        "---\ndescription: Review a file\nargument-hint: [file] [focus]\n"
        "allowed-tools: Bash(git diff:*), Read Grep\nmodel: opus\n---\n\nReview $1."
    )
    found, odd = parse_command(text, name="review", path="/c/review.md", source="project")
    assert found == PromptCommand(
        name="review",
        description="Review a file",
        body="Review $1.",
        path="/c/review.md",
        source="project",
        argument_hint="[file] [focus]",
        allowed_tools=("Bash(git diff:*)", "Read", "Grep"),
        model="opus",
    )
    assert len(odd) == 1  # the hint is no YAML
    assert expand_command(found, "a.py") == "Review a.py."


def test_a_file_needs_no_header() -> None:
    found, odd = parse_command("# Fix\n\nFix the build\nnow.", name="fix", path="")
    assert (found.description, found.allowed_tools, odd) == ("Fix the build now.", None, ())


@pytest.mark.parametrize(
    ("value", "tools"),
    [
        ("", None),
        ("[]", ()),
        ("Read", ("Read",)),
        ("Read, Read,Write", ("Read", "Write")),
        ("[Read, 'Bash(npm run test:*)']", ("Read", "Bash(npm run test:*)")),
        ("\n  - Read\n  - Write", ("Read", "Write")),
        ("'*'", ("*",)),
    ],
)
def test_tools(value: str, tools: tuple[str, ...] | None) -> None:
    text = f"---\nallowed-tools: {value}\n---\nbody"
    assert parse_command(text, name="x", path="")[0].allowed_tools == tools


@pytest.mark.parametrize(
    ("text", "name", "said"),
    [
        ("body", "compact", "/compact is a command of ZPI itself"),
        ("body", "a b", "no usable name"),
        ("---\ndescription: d\n---\n\n", "x", "holds no prompt"),
        ("", "x", "holds no prompt"),
        ("---\nallowed-tools: {a: b}\n---\nbody", "x", "'allowed-tools' must be a list of names"),
        ("---\nallowed-tools: [Read, {a: b}]\n---\nbody", "x", "must be a list of names"),
        ("---\nallowed-tools: [Read\n---\nbody", "x", "'allowed-tools' is no valid YAML"),
        ("---\nmodel: [a]\n---\nbody", "x", "'model' must be text"),
    ],
)
def test_what_is_unusable_says_why(text: str, name: str, said: str) -> None:
    with pytest.raises(Unusable, match=said) as caught:
        parse_command(text, name=name, path="")
    assert caught.value.hint


@pytest.mark.parametrize("body", ["Now: !`git status`", "```!\nls\n```"])
def test_a_shell_is_never_run(body: str) -> None:
    found, odd = parse_command(body, name="x", path="")
    assert expand_command(found) == body
    assert "stays text" in odd[0].text


def test_no_shell_is_seen_where_there_is_none() -> None:
    assert parse_command("Careful!`x` and `!x`", name="x", path="")[1] == ()


def test_folders(tmp_path: Path) -> None:
    user, project = tmp_path / "user", tmp_path / "project"
    (user / "nested").mkdir(parents=True)
    project.mkdir()
    for folder, name in ((user, "both.md"), (project, "both.md"), (user, "mine.MD")):
        (folder / name).write_text(f"{folder.name} $ARGUMENTS")
    (user / "notes.txt").write_text("not one")
    (user / ".hidden.md").write_text("not one")
    (user / "compact.md").write_text("x")
    (user / "gone.md").write_bytes(b"\xff")
    os.makedirs(user / "folder.md")
    found = scan_commands(
        [Folder(user, "user"), Folder(project, "project", Path(os.path.realpath(project)))]
    )
    assert [(each.name, each.source) for each in found.items] == [
        ("both", "project"),
        ("mine", "user"),
    ]
    assert [(each.name, each.by) for each in found.overridden] == [
        ("both", str(project / "both.md"))
    ]
    assert {Path(each.path).name: each.level for each in found.problems} == {
        "compact.md": "error",
        "gone.md": "error",
        "nested": "warning",
        "folder.md": "warning",
    }


def test_a_folder_that_cannot_be_read_is_said(tmp_path: Path) -> None:
    (tmp_path / "commands").write_text("x")
    found = scan_commands([Folder(tmp_path / "commands", "user")])
    assert [each.text for each in found.problems] == ["It is no folder."]
    assert scan_commands([Folder(tmp_path / "missing", "user")]).problems == ()
