"""What a tool card says of a call: its line, and what is shown when it is unfolded. Pure."""

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, assert_never

import msgspec

from agent_sdk.events.wire import ToolCompleted, ToolFailed, ToolPart, ToolPending, ToolRunning
from desktop.gui.chat.diff_text import diff_lines, replacement_diff
from desktop.gui.chat.file_changes import file_changes
from desktop.gui.chat.rows import ToolItem
from desktop.gui.text import one_line, soft_split, visible

Look: TypeAlias = Literal["pending", "waiting", "running", "done", "failed", "denied", "cut"]
SectionKind: TypeAlias = Literal["code", "terminal", "diff", "error"]

FIRST_LINES = 30
"""Lines of a section that are shown before someone asks for all of them."""

_MAIN = ("command", "file_path", "pattern", "query", "url", "path", "description", "title")


@dataclass(frozen=True)
class Section:
    """One piece of an unfolded card.

    Attributes:
        kind: How it is drawn.
        text: Fit to be shown.
        language: Of code.
        tail: Whether its end matters more than its beginning.
    """

    kind: SectionKind
    text: str
    language: str = ""
    tail: bool = False

    def shown(self, *, whole: bool) -> tuple[str, int]:
        """Return what is shown at first, or all of it, and how many lines are left out."""
        lines = self.text.split("\n")
        left = len(lines) - FIRST_LINES
        if whole or left <= FIRST_LINES // 3:
            return self.text, 0
        kept = lines[-FIRST_LINES:] if self.tail else lines[:FIRST_LINES]
        return "\n".join(kept), left


def look_of(item: ToolItem) -> Look:
    """Return the state that a card shows."""
    state = item.part.state
    match state:
        case ToolPending():
            if not item.active:
                return "cut"
            return "waiting" if item.waiting else "pending"
        case ToolRunning():
            if not item.active:
                return "cut"
            return "waiting" if item.waiting else "running"
        case ToolCompleted():
            return "done"
        case ToolFailed():
            return "denied" if state.denied else "failed"
        case _:
            assert_never(state)


def argument_of(part: ToolPart, workspace: str = "") -> str:
    """Return the call's main argument in one line."""
    given = part.state.input
    patch = given.get("patch")
    if isinstance(patch, str) and patch:
        return one_line(", ".join(_shorter(path, workspace) for path in _patched(part, patch)))
    for name in _MAIN:
        value = given.get(name)
        if isinstance(value, str) and value:
            return one_line(_shorter(value, workspace) if "path" in name else value)
    texts = [value for value in given.values() if isinstance(value, str) and value]
    return one_line(texts[0]) if texts else ""


def _patched(part: ToolPart, patch: str) -> list[str]:
    """Return the files that a patch changed, or else those that it names."""
    changed = [change.path for change in file_changes(part) if change.path]
    named = [line[4:].partition("\t")[0] for line in patch.split("\n") if line.startswith("+++ ")]
    return changed or named


def sections_of(item: ToolItem) -> list[Section]:
    """Return what an unfolded card shows."""
    part = item.part
    if part.tool == "bash":
        return _bash(item)
    if part.tool in ("edit", "write", "apply_patch"):
        return _edit(part)
    if part.tool == "read":
        return _read(part)
    return _other(item)


def asked_sections(part: ToolPart) -> list[Section]:
    """Return exactly what a call would do, for the person who is asked about it."""
    given = part.state.input
    if part.tool == "bash" and isinstance(given.get("command"), str):
        return [Section("terminal", soft_split(visible(given["command"], exact=True)))]
    if part.tool in ("edit", "write", "apply_patch"):
        planned = _planned(given, exact=True)
        if planned:
            return planned
    return [Section("code", _json(given, exact=True), "json")]


def _bash(item: ToolItem) -> list[Section]:
    command = str(item.part.state.input.get("command", ""))
    sections = [Section("terminal", "$ " + soft_split(visible(command, exact=True)))]
    output = _output(item)
    if output.strip():
        sections.append(Section("terminal", _plain(output), tail=True))
    return sections


def _edit(part: ToolPart) -> list[Section]:
    state = part.state
    changes = [change for change in file_changes(part) if change.diff]
    if len(changes) == 1:
        return [Section("diff", diff_lines(changes[0].diff))]
    if changes:
        return [
            Section("diff", f"@@ {one_line(change.path)}\n{diff_lines(change.diff)}")
            for change in changes
        ]
    sections = _planned(state.input, exact=False)
    return sections + _told(part)


def _planned(given: dict[str, Any], *, exact: bool) -> list[Section]:
    """What an edit, a write or a patch would do, as far as its input says."""
    patch = given.get("patch")
    if isinstance(patch, str) and patch:
        return [Section("diff", soft_split(visible(patch.removesuffix("\n"), exact=exact)))]
    content = given.get("content")
    if isinstance(content, str):
        return [Section("diff", replacement_diff("", content, exact=exact))]
    edits = given.get("edits", [given])
    pieces = [
        replacement_diff(
            str(edit.get("old_string", "")), str(edit.get("new_string", "")), exact=exact
        )
        for edit in (edits if isinstance(edits, list) else [])
        if isinstance(edit, dict) and ("old_string" in edit or "new_string" in edit)
    ]
    return [Section("diff", "\n@\n".join(pieces))] if pieces else []


def _read(part: ToolPart) -> list[Section]:
    state = part.state
    if isinstance(state, ToolCompleted):
        return [Section("code", _plain(state.output))]
    return _told(part)


def _other(item: ToolItem) -> list[Section]:
    sections = (
        [Section("code", _json(item.part.state.input), "json")] if item.part.state.input else []
    )
    output = _output(item)
    if output.strip():
        kind: SectionKind = "error" if isinstance(item.part.state, ToolFailed) else "code"
        sections.append(Section(kind, _plain(output)))
    return sections


def _told(part: ToolPart) -> list[Section]:
    state = part.state
    if isinstance(state, ToolFailed):
        return [Section("error", _plain(state.output))]
    if isinstance(state, ToolCompleted):
        return [Section("code", _plain(state.output))]
    return []


def _output(item: ToolItem) -> str:
    state = item.part.state
    return state.output if isinstance(state, ToolCompleted | ToolFailed) else item.live


def _plain(text: str) -> str:
    return soft_split(visible(text.removesuffix("\n")))


def _json(value: object, *, exact: bool = False) -> str:
    raw = msgspec.json.format(msgspec.json.encode(value), indent=2).decode("utf-8", "replace")
    return soft_split(visible(raw, exact=exact))


def _shorter(path: str, workspace: str) -> str:
    """Return a path seen from the session's folder, if it lies in it."""
    root = workspace.replace("\\", "/").rstrip("/") + "/"
    plain = path.replace("\\", "/")
    return plain.removeprefix(root) if workspace else path
