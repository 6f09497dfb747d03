"""The tool ``apply_patch``: a unified diff over one or several files, all of it or nothing."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from msgspec import Struct
from typing_extensions import override

from agent_sdk.core.errors import InvalidToolInput, StaleFile, ToolError
from agent_sdk.loop.types import (
    PermissionRequest,
    Tool,
    ToolContext,
    ToolMetadata,
    ToolResult,
)
from agent_sdk.providers.messages import Json
from agent_sdk.tools.file_change import change_details, counts, diff_of, facts
from agent_sdk.tools.file_requests import requests_for
from agent_sdk.tools.file_state import FileChange, FileReadState, Planned, Wanted, path_key
from agent_sdk.tools.inputs import check_input
from agent_sdk.tools.patch_apply import Placed, new_text, plan_hunks
from agent_sdk.tools.patch_parse import FilePatch, parse_patch
from agent_sdk.tools.paths import PathGuard, ResolvedPath, Target
from agent_sdk.tools.text_codec import TextFile, apply, decode, encode, splice, split_lines

MAX_PATCH = 2 * 1024 * 1024
"""Most characters of a patch."""

_MAX_NOTES = 5

_DESCRIPTION = """\
Apply a unified diff to one or several files; either all of it is applied or nothing.
Each file begins with '--- a/PATH' and '+++ b/PATH' (PATH relative to the working folder), each \
hunk with '@@ -LINE,COUNT +LINE,COUNT @@'; '--- /dev/null' creates a file. Files that exist must \
have been read. A hunk may be up to 300 lines off, as long as its lines fit one place only. \
Files cannot be deleted or renamed, nor modes changed. Encoding and line endings are kept."""

_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {"patch": {"type": "string", "description": "The unified diff."}},
    "required": ["patch"],
    "additionalProperties": False,
}

_EMPTY = TextFile("", "utf-8")


class PatchInput(Struct):
    """Checked input: what is done to which file."""

    files: tuple[tuple[Target, FilePatch], ...]


class ApplyPatchTool(Tool):
    """Applies patches to files that the model knows."""

    def __init__(self, *, guard: PathGuard, state: FileReadState) -> None:
        self._guard = guard
        self._state = state

    @property
    @override
    def name(self) -> str:
        return "apply_patch"

    @property
    @override
    def description(self) -> str:
        return _DESCRIPTION

    @property
    @override
    def parameters(self) -> Mapping[str, Any]:
        return _SCHEMA

    @property
    @override
    def metadata(self) -> ToolMetadata:
        return ToolMetadata(destructive=True)

    @override
    def parse(self, raw: Json) -> PatchInput:
        patch: str = check_input(raw, _SCHEMA, tool="apply_patch")["patch"]
        if len(patch) > MAX_PATCH:
            raise InvalidToolInput(
                f"apply_patch: the patch has more than {MAX_PATCH:,} characters.", hint="Split it."
            )
        try:
            patch.encode()
        except UnicodeEncodeError as error:
            wrong = patch[error.start]
            raise InvalidToolInput(f"apply_patch: {wrong!r} is no valid character.") from None
        files = parse_patch(patch)
        return PatchInput(tuple((Target(f.path, existing=not f.creates), f) for f in files))

    @override
    def permissions(self, args: PatchInput, cwd: str) -> tuple[PermissionRequest, ...]:
        return tuple(
            request
            for target, _ in args.files
            for request in requests_for(target.resolve(self._guard, cwd), "edit")
        )

    @override
    async def execute(self, args: PatchInput, context: ToolContext) -> ToolResult:
        wanted: list[Wanted] = []
        for target, patch in args.files:
            resolved = target.confirm(self._guard, context.cwd)
            wanted.append(Wanted(resolved=resolved, plan=partial(plan_patch, patch, resolved)))
        _check_distinct(wanted)
        changes = await self._state.change_all(wanted, call_id=context.call_id)
        return _result(wanted, changes)


def plan_patch(patch: FilePatch, resolved: ResolvedPath, before: bytes | None) -> Planned:
    """Return a file's contents with its part of the patch applied.

    Args:
        patch: The part of the patch.
        resolved: The file.
        before: The old contents; None if there is no such file.

    Raises:
        ToolError: If it does not apply.
    """
    if patch.creates:
        return _plan_new(patch, resolved, before)
    if before is None:
        raise ToolError(
            f"There is no file '{resolved.shown}'; nothing was written.",
            hint="Check the path with ls. To create it, put '--- /dev/null' above its +++ line.",
        )
    file = decode(before)
    if file is None:
        raise ToolError(
            f"'{resolved.shown}' is a binary file and cannot be patched; nothing was written.",
            hint="Change it with a program in bash.",
        )
    splices, placed = plan_hunks(file, patch.hunks, name=resolved.shown)
    after = TextFile(apply(file.text, splices), file.encoding)
    diff = diff_of(resolved, file.printable, after.printable)
    return Planned(
        data=splice(before, file, splices),
        lines=len(split_lines(after.text)),
        text=f"Patched '{resolved.shown}': {counts(diff)}.{_drifts(placed)}",
        facts=facts(diff),
    )


def _plan_new(patch: FilePatch, resolved: ResolvedPath, before: bytes | None) -> Planned:
    if before is not None:
        raise StaleFile(
            f"The patch creates '{resolved.shown}', which exists already; nothing was written.",
            hint="To change it, read it and name it in the --- line, too.",
        )
    text = new_text(patch.hunks[0])
    diff = diff_of(resolved, None, text)
    lines = len(split_lines(text))
    return Planned(
        data=encode(text, _EMPTY),
        lines=lines,
        text=f"Created '{resolved.shown}' ({lines} lines).",
        facts=facts(diff),
    )


def _drifts(placed: Sequence[Placed]) -> str:
    """Say where hunks went that did not belong where they said."""
    moved = [one for one in placed if one.drift]
    notes = [f"hunk {one.hunk.number} at line {one.at + 1}" for one in moved[:_MAX_NOTES]]
    if not notes:
        return ""
    more = " and others" if len(moved) > len(notes) else ""
    return f" Line numbers were off: {', '.join(notes)}{more}."


def _check_distinct(wanted: Sequence[Wanted]) -> None:
    known: dict[str, ResolvedPath] = {}
    for one in wanted:
        resolved = one.resolved
        other = known.setdefault(path_key(resolved.real), resolved)
        if other is not resolved:
            raise ToolError(
                f"'{other.given}' and '{resolved.given}' are the same file,"
                f" '{resolved.shown}'; nothing was written.",
                hint="Put all its hunks under one pair of --- and +++ lines.",
            )


def _result(wanted: Sequence[Wanted], changes: Sequence[FileChange]) -> ToolResult:
    """Return the result; its details hold ``fileChanges``, one for each file."""
    texts: list[str] = []
    details: list[Json] = []
    for one, change in zip(wanted, changes, strict=True):
        text = change.planned.text
        if change.links > 1:
            text += f" It was one of {change.links} hard links; the others keep the old contents."
        texts.append(text)
        details.append(change_details(one.resolved, change))
    return ToolResult(content="\n".join(texts), details={"fileChanges": details})
