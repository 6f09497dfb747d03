"""The tool ``edit``: exact replacements of text in a file."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import msgspec
from msgspec import Struct
from typing_extensions import override

from agent_sdk.core.errors import InvalidToolInput, ToolError
from agent_sdk.loop.types import (
    PermissionRequest,
    Tool,
    ToolContext,
    ToolMetadata,
    ToolResult,
)
from agent_sdk.providers.messages import Json
from agent_sdk.tools.edits import Replacement, plan_edits
from agent_sdk.tools.file_change import counts, diff_of, facts, result_of
from agent_sdk.tools.file_requests import requests_for
from agent_sdk.tools.file_state import FileReadState, Planned
from agent_sdk.tools.inputs import check_input
from agent_sdk.tools.paths import PathGuard, ResolvedPath, Target
from agent_sdk.tools.text_codec import TextFile, apply, decode, splice, split_lines

_DESCRIPTION = (
    "Replace text in a file that has been read. old_string must be exactly what is there,"
    " without the line numbers, and fit one place only, unless replace_all is set. Encoding"
    " and line endings are kept."
)

_REPLACEMENT: Mapping[str, Any] = {
    "old_string": {"type": "string", "description": "The text to replace."},
    "new_string": {"type": "string", "description": "What to put in its place."},
    "replace_all": {
        "type": "boolean",
        "description": "Replace every occurrence; false if left out.",
    },
}

_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "file_path": {
            "type": "string",
            "description": "The file, absolute or relative to the working folder.",
        },
        **_REPLACEMENT,
    },
    "required": ["file_path", "old_string", "new_string"],
    "additionalProperties": False,
}

# Some models send several replacements at once, in this form.
_SEVERAL: Mapping[str, Any] = {
    "properties": {"file_path": {"type": "string"}, "edits": {}},
    "required": ["file_path", "edits"],
}
_ONE_OF_SEVERAL: Mapping[str, Any] = {
    "properties": _REPLACEMENT,
    "required": ["old_string", "new_string"],
}


class EditInput(Struct):
    """Checked input: which replacements in which file."""

    target: Target
    wishes: tuple[Replacement, ...]


class EditTool(Tool):
    """Edits files; refuses to change what the model does not know."""

    def __init__(self, *, guard: PathGuard, state: FileReadState) -> None:
        self._guard = guard
        self._state = state

    @property
    @override
    def name(self) -> str:
        return "edit"

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
    def parse(self, raw: Json) -> EditInput:
        if raw.get("edits") is None:
            fields = check_input(raw, _SCHEMA, tool="edit")
            wishes: tuple[Replacement, ...] = (_replacement(fields),)
        else:
            fields = check_input(raw, _SEVERAL, tool="edit")
            wishes = tuple(
                _replacement(check_input(item, _ONE_OF_SEVERAL, tool="edit"))
                for item in _items(fields["edits"])
            )
        return EditInput(Target(fields["file_path"], existing=True), wishes)

    @override
    def permissions(self, args: EditInput, cwd: str) -> tuple[PermissionRequest, ...]:
        return requests_for(args.target.resolve(self._guard, cwd), "edit")

    @override
    async def execute(self, args: EditInput, context: ToolContext) -> ToolResult:
        resolved = args.target.confirm(self._guard, context.cwd)
        plan = partial(plan_edit, args.wishes, resolved)
        change = await self._state.change(resolved, plan, whole=False, call_id=context.call_id)
        return result_of(resolved, change)


def plan_edit(
    wishes: Sequence[Replacement], resolved: ResolvedPath, before: bytes | None
) -> Planned:
    """Return the file's contents with the replacements made.

    Args:
        wishes: The replacements, all matched against the old contents.
        resolved: The file.
        before: The old contents; None if there is no such file.

    Raises:
        ToolError: If there is no file, it is no text, or a replacement does
            not fit.
    """
    if before is None:
        raise ToolError(
            f"There is no file '{resolved.shown}'.",
            hint="Check the path with ls, or create it with write.",
        )
    file = decode(before)
    if file is None:
        raise ToolError(
            f"'{resolved.shown}' is a binary file and cannot be edited as text.",
            hint="Change it with a program in bash.",
        )
    splices = plan_edits(file, wishes, name=resolved.shown)
    data = splice(before, file, splices)
    after = TextFile(apply(file.text, splices), file.encoding)
    diff = diff_of(resolved, file.printable, after.printable)
    places = "" if len(splices) == 1 else f" in {len(splices)} places"
    return Planned(
        data=data,
        lines=len(split_lines(after.text)),
        text=f"Edited '{resolved.shown}'{places}: {counts(diff)}.",
        facts=facts(diff),
    )


def _replacement(fields: Json) -> Replacement:
    return Replacement(
        fields["old_string"], fields["new_string"], bool(fields.get("replace_all", False))
    )


def _items(edits: object) -> list[Json]:
    """Return the replacements of a list, a single object, or either as JSON text."""
    if isinstance(edits, str):
        try:
            edits = msgspec.json.decode(edits)
        except msgspec.DecodeError:
            raise InvalidToolInput("edit: 'edits' is text, but no JSON.") from None
    items = [edits] if isinstance(edits, dict) else edits
    if not isinstance(items, list) or not items:
        raise InvalidToolInput("edit: 'edits' must be a list of replacements, not empty.")
    for item in items:
        if not isinstance(item, dict):
            raise InvalidToolInput("edit: each of 'edits' must be an object.")
    return items
