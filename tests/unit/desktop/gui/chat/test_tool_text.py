"""What cards and questions say of calls."""

import pytest

from agent_sdk.events.wire import (
    Json,
    ToolCompleted,
    ToolFailed,
    ToolPart,
    ToolPending,
    ToolRunning,
    ToolState,
)
from desktop.gui.chat.file_changes import file_changes
from desktop.gui.chat.request_text import (
    always_means,
    content,
    expired_text,
    heading,
    places,
    reason,
)
from desktop.gui.chat.rows import ToolItem
from desktop.gui.chat.tool_text import (
    FIRST_LINES,
    Section,
    argument_of,
    asked_sections,
    look_of,
    sections_of,
)
from tests.support import chat_samples as make

RISKY = "rm -rf \u202e/tmp"


def item(
    name: str, state: ToolState, *, live: str = "", active: bool = True, waiting: bool = False
) -> ToolItem:
    return ToolItem(make.tool("p", name, state), live, active, waiting)


@pytest.mark.parametrize(
    ("state", "active", "waiting", "look"),
    [
        (ToolPending(), True, False, "pending"),
        (ToolPending(), True, True, "waiting"),
        (ToolPending(), False, True, "cut"),
        (ToolRunning(), True, False, "running"),
        (ToolRunning(), False, False, "cut"),
        (ToolCompleted(), False, False, "done"),
        (ToolFailed(), False, False, "failed"),
        (ToolFailed(denied=True), True, False, "denied"),
    ],
)
def test_looks(state: ToolState, active: bool, waiting: bool, look: str) -> None:
    assert look_of(item("bash", state, active=active, waiting=waiting)) == look


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ({"command": "ls\n-l"}, "ls -l"),
        ({"file_path": "/w/a.py", "content": "x"}, "/w/a.py"),
        ({"pattern": "x", "path": "pkg"}, "x"),
        ({"n": 3, "word": "w"}, "w"),
        ({"n": 3}, ""),
        ({}, ""),
        ({"command": RISKY}, "rm -rf ‹U+202E›/tmp"),
    ],
)
def test_main_argument(given: Json, shown: str) -> None:
    assert argument_of(make.tool("p", "t", ToolPending(input=given))) == shown


def test_bash_is_a_terminal_with_live_output() -> None:
    command, output = sections_of(item("bash", ToolRunning(input={"command": "ls"}), live="a\nb\n"))
    assert command == Section("terminal", "$ ls")
    assert output == Section("terminal", "a\nb", tail=True)


def test_an_edit_is_its_diff() -> None:
    diff = "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n"
    (section,) = sections_of(item("edit", make.edited("x", diff, plus=1, minus=1)))
    assert section == Section("diff", "@@ -1 +1 @@\n-a\n+b")


def test_a_failed_edit_shows_what_it_wanted_and_why_not() -> None:
    given = {"file_path": "x", "old_string": "a\n", "new_string": "b\n"}
    wanted, told = sections_of(item("edit", ToolFailed(input=given, output="no such text")))
    assert wanted == Section("diff", "-a\n+b")
    assert told == Section("error", "no such text")


def test_others_are_json_and_output() -> None:
    given, output = sections_of(item("grep", ToolCompleted(input={"a": 1}, output="found")))
    assert (given.text, given.language) == ('{\n  "a": 1\n}', "json")
    assert output == Section("code", "found")


def test_long_sections_are_cut_at_the_end_that_matters_less() -> None:
    lines = [str(n) for n in range(100)]
    text, left = Section("terminal", "\n".join(lines), tail=True).shown(whole=False)
    assert (text.split("\n"), left) == (lines[-FIRST_LINES:], 70)
    text, left = Section("code", "\n".join(lines)).shown(whole=False)
    assert (text.split("\n"), left) == (lines[:FIRST_LINES], 70)
    assert Section("code", "\n".join(lines)).shown(whole=True)[1] == 0
    assert Section("code", "\n".join(lines[:35])).shown(whole=False)[1] == 0


class TestQuestions:
    def test_a_command_is_shown_exactly(self) -> None:
        part = make.tool("p", "bash", ToolPending(input={"command": RISKY}))
        asked = make.asked("bash", part.call_id, patterns=(RISKY,))
        assert content(asked, part) == Section("terminal", "rm -rf ‹U+202E›/tmp")
        assert heading(asked) == "Run this command?"
        assert places(asked) == ""

    def test_without_the_call_the_question_says_what_it_is_about(self) -> None:
        asked = make.asked("bash", "c", patterns=(RISKY,))
        assert content(asked, None).text == "rm -rf ‹U+202E›/tmp"

    def test_an_edit_is_a_diff_of_its_input(self) -> None:
        given = {"file_path": "x", "old_string": "a", "new_string": "b"}
        (section,) = asked_sections(make.tool("p", "edit", ToolPending(input=given)))
        assert section == Section("diff", "-a\n+b")
        several = {
            "file_path": "x",
            "edits": [
                {"old_string": "a", "new_string": "b"},
                {"old_string": "c", "new_string": ""},
            ],
        }
        (section,) = asked_sections(make.tool("p", "edit", ToolPending(input=several)))
        assert section.text == "-a\n+b\n@\n-c"

    @pytest.mark.parametrize(
        "given", [{"edits": "what?"}, {"edits": [1]}, {"old_string": None}, {"command": 3}]
    )
    def test_strange_input_is_shown_as_it_is(self, given: Json) -> None:
        for name in ("edit", "write", "bash", "other"):
            assert asked_sections(make.tool("p", name, ToolPending(input=given)))[0].text

    def test_why_and_what_always_means(self) -> None:
        asked = make.asked("edit", "c", patterns=("/p/a",), can_always=True, always=("edit /p/*",))
        assert "edit /p/*" in always_means(asked)
        assert reason(asked) == "No rule allows this yet."
        protected = make.asked("edit", "c", patterns=("/p/.git/x",), protected=True)
        assert "protected" in reason(protected)
        assert always_means(protected) == ""
        outside = make.asked(
            "read", "c", patterns=("/etc/x",), permissions=("read", "external_directory")
        )
        assert "outside" in reason(outside)
        assert "expired" in expired_text("")


PATCH = "--- a/x.py\n+++ b/x.py\n@@ -1 +1 @@\n-a\n+b\n"


def patched() -> ToolPart:
    changes = [
        {"path": "x.py", "diff": PATCH, "additions": 1, "deletions": 1},
        {
            "path": "new.py",
            "diff": "--- /dev/null\n+++ b/new.py\n@@ -0,0 +1 @@\n+c\n",
            "additions": 1,
        },
        "nonsense",
    ]
    state = ToolCompleted(
        input={"patch": PATCH}, output="Changed.", details={"fileChanges": changes}
    )
    return make.tool("r.0.0", "apply_patch", state)


def test_a_patch_shows_each_of_its_files() -> None:
    sections = sections_of(ToolItem(patched(), "", True, False))
    assert [section.text for section in sections] == [
        "@@ x.py\n@@ -1 +1 @@\n-a\n+b",
        "@@ new.py\n@@ -0,0 +1 @@\n+c",
    ]
    assert {section.kind for section in sections} == {"diff"}
    assert [(c.path, c.additions, c.deletions) for c in file_changes(patched())] == [
        ("x.py", 1, 1),
        ("new.py", 1, 0),
    ]


def test_a_patch_is_named_by_its_files() -> None:
    assert argument_of(patched()) == "x.py, new.py"
    asked = make.tool("r.0.0", "apply_patch", ToolPending(input={"patch": PATCH}))
    assert argument_of(asked) == "b/x.py"


def test_a_patch_that_is_asked_about_is_shown_as_it_is() -> None:
    part = make.tool("r.0.0", "apply_patch", ToolPending(input={"patch": PATCH + "+\u202ex\n"}))
    (section,) = asked_sections(part)
    assert section.kind == "diff"
    assert section.text == PATCH + "+‹U+202E›x"
