"""The tool ``write``: a file with new contents, whole."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from msgspec import Struct
from typing_extensions import override

from agent_sdk.loop.types import (
    PermissionRequest,
    Tool,
    ToolContext,
    ToolMetadata,
    ToolResult,
)
from agent_sdk.providers.messages import Json
from agent_sdk.tools.diff import Diff
from agent_sdk.tools.file_change import counts, diff_of, facts, result_of
from agent_sdk.tools.file_requests import requests_for
from agent_sdk.tools.file_state import FileReadState, Planned
from agent_sdk.tools.inputs import check_input
from agent_sdk.tools.paths import PathGuard, ResolvedPath, Target
from agent_sdk.tools.text_codec import TextFile, decode, encode, only_ending, split_lines

_DESCRIPTION = (
    "Create a file, or replace all of its contents. Missing folders are made. A file that"
    " exists must have been read first, whole. To change a part of a file use edit."
)

_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "file_path": {
            "type": "string",
            "description": "The file, absolute or relative to the working folder.",
        },
        "content": {"type": "string", "description": "The new contents."},
    },
    "required": ["file_path", "content"],
    "additionalProperties": False,
}

_ENDINGS = {"\r\n": "CRLF", "\r": "CR"}
_NEW = TextFile("", "utf-8")


class WriteInput(Struct):
    """Checked input: what is to be written where."""

    target: Target
    content: str


class WriteTool(Tool):
    """Writes files; refuses to replace what the model does not know."""

    def __init__(self, *, guard: PathGuard, state: FileReadState) -> None:
        self._guard = guard
        self._state = state

    @property
    @override
    def name(self) -> str:
        return "write"

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
    def parse(self, raw: Json) -> WriteInput:
        fields = check_input(raw, _SCHEMA, tool="write")
        return WriteInput(Target(fields["file_path"], existing=False), fields["content"])

    @override
    def permissions(self, args: WriteInput, cwd: str) -> tuple[PermissionRequest, ...]:
        return requests_for(args.target.resolve(self._guard, cwd), "edit")

    @override
    async def execute(self, args: WriteInput, context: ToolContext) -> ToolResult:
        resolved = args.target.confirm(self._guard, context.cwd)
        plan = partial(plan_write, args.content, resolved)
        change = await self._state.change(resolved, plan, whole=True, call_id=context.call_id)
        return result_of(resolved, change)


def plan_write(content: str, resolved: ResolvedPath, before: bytes | None) -> Planned:
    """Return the new contents in the encoding and with the line endings of the old.

    Args:
        content: What the model wrote.
        resolved: The file.
        before: The old contents; None for a new file.

    Raises:
        ToolError: If it cannot be written in the file's encoding.
    """
    old = decode(before) if before is not None else None
    like = old if old is not None and old.encoding != "unknown" else _NEW
    ending = only_ending(like.text)
    kept: list[str] = []
    if ending in _ENDINGS and "\n" in content and "\r" not in content:
        content = content.replace("\n", ending)
        kept.append(f"{_ENDINGS[ending]} line endings")
    if like.bom:
        content = content.removeprefix("\ufeff")
        kept.append(f"{like.encoding.upper()} with byte order mark")
    data = like.bom + encode(content, like)
    lines = len(split_lines(content))
    if before is not None and old is None:
        diff = Diff("", 0, 0)  # binary: there are no lines to compare
    else:
        diff = diff_of(resolved, old.printable if old else None, content)
    if before is None:
        text = f"Created '{resolved.shown}' ({lines} lines)."
    else:
        text = f"Wrote '{resolved.shown}': {counts(diff)}."
    if kept:
        text += f" Kept: {', '.join(kept)}."
    return Planned(data=data, lines=lines, text=text, facts=facts(diff))
