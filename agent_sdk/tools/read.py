"""The tool ``read``: lines of a text file with their numbers, or an image."""

import asyncio
import binascii
import os
from collections.abc import Mapping
from typing import Any

from msgspec import Struct
from typing_extensions import override

from agent_sdk.core.errors import ToolError
from agent_sdk.core.fsio_at import TooLarge, read_regular
from agent_sdk.loop.types import (
    PermissionRequest,
    Tool,
    ToolContext,
    ToolMetadata,
    ToolResult,
)
from agent_sdk.providers.messages import ImageBlock, Json, TextBlock
from agent_sdk.providers.models import Model
from agent_sdk.tools.artifacts import output_limit
from agent_sdk.tools.file_errors import explain
from agent_sdk.tools.file_requests import requests_for
from agent_sdk.tools.file_state import MAX_FILE, FileReadState, sha256
from agent_sdk.tools.inputs import check_input
from agent_sdk.tools.line_view import MAX_LINES, page
from agent_sdk.tools.own_thread import in_own_thread
from agent_sdk.tools.path_text import portable
from agent_sdk.tools.paths import PathGuard, ResolvedPath, Target
from agent_sdk.tools.text_codec import TextFile, decode, split_lines

MAX_IMAGE = 3_932_160
"""Most bytes of an image, 3.75 MiB: 5 MiB as base64."""

_INLINE = 64 * 1024
"""Files up to this size are read at once; a thread would take longer."""

_DEADLINE_SECONDS = 5.0

_DESCRIPTION = (
    "Read a text file or an image (PNG, JPEG, GIF, WebP). Lines are numbered from 1 and"
    f" separated from their number by a tab; at most {MAX_LINES:,} lines or 48 KiB are shown,"
    " and a notice says how to continue. For folders use ls in bash."
)

_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "file_path": {
            "type": "string",
            "description": "The file, absolute or relative to the working folder.",
        },
        "offset": {
            "type": "integer",
            "minimum": 1,
            "description": "Number of the first line to show; 1 if left out.",
        },
        "limit": {
            "type": "integer",
            "minimum": 1,
            "description": "Most lines to show.",
        },
    },
    "required": ["file_path"],
    "additionalProperties": False,
}


class ReadInput(Struct):
    """Checked input: which lines of which file."""

    target: Target
    offset: int
    limit: int


class ReadTool(Tool):
    """Reads files, and remembers in ``state`` what the model has seen of them."""

    def __init__(self, *, guard: PathGuard, state: FileReadState) -> None:
        self._guard = guard
        self._state = state

    @property
    @override
    def name(self) -> str:
        return "read"

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
        return ToolMetadata(read_only=True, concurrent=True, side_effects="none")

    @override
    def parse(self, raw: Json) -> ReadInput:
        fields = check_input(raw, _SCHEMA, tool="read")
        return ReadInput(
            target=Target(fields["file_path"], existing=True),
            offset=fields.get("offset", 1),
            limit=fields.get("limit", MAX_LINES),
        )

    @override
    def permissions(self, args: ReadInput, cwd: str) -> tuple[PermissionRequest, ...]:
        return requests_for(args.target.resolve(self._guard, cwd), "read")

    @override
    async def execute(self, args: ReadInput, context: ToolContext) -> ToolResult:
        resolved = args.target.confirm(self._guard, context.cwd)
        try:
            result, seen = _read(resolved, args, model=context.model, limit=_INLINE)
        except TooLarge:
            result, seen = await _read_in_thread(resolved, args, context.model)
        except OSError as error:
            raise explain(error, resolved) from error
        self._state.note_read(
            resolved.real,
            digest=seen.digest,
            status=seen.status,
            lines=seen.total,
            seen=(seen.first, seen.last),
        )
        return result


class _Seen(Struct, frozen=True):
    digest: str
    status: os.stat_result
    first: int = 1
    last: int = 0
    total: int = 0


async def _read_in_thread(
    resolved: ResolvedPath, args: ReadInput, model: Model
) -> tuple[ToolResult, _Seen]:
    try:
        async with asyncio.timeout(_DEADLINE_SECONDS):
            return await in_own_thread(
                lambda: _read(resolved, args, model=model, limit=MAX_FILE), name="zpi-read"
            )
    except TimeoutError:
        raise ToolError(
            f"'{resolved.shown}' could not be read within {_DEADLINE_SECONDS:g} seconds."
        ) from None
    except OSError as error:
        raise explain(error, resolved) from error


def _read(
    resolved: ResolvedPath, args: ReadInput, *, model: Model, limit: int
) -> tuple[ToolResult, _Seen]:
    data, status = read_regular(resolved.real, limit)
    seen = _Seen(digest=sha256(data), status=status)
    media_type = image_type(data)
    if media_type:
        return _image(resolved, data, media_type=media_type, model=model), seen
    file = decode(data)
    if file is None:
        raise ToolError(
            f"'{resolved.shown}' is a binary file of {len(data):,} bytes.",
            hint="Look at it with file, xxd or strings in bash.",
        )
    shown = page(
        split_lines(file.printable),
        name=resolved.shown,
        offset=args.offset,
        limit=args.limit,
        budget=output_limit(model),
    )
    details: Json = {
        "path": portable(resolved.real),
        "firstLine": shown.first,
        "lastLine": shown.last,
        "totalLines": shown.total,
        "bytes": len(data),
    }
    result = ToolResult(content=shown.text + _encoding_notice(file), details=details)
    return result, _Seen(seen.digest, status, shown.first, shown.last, shown.total)


def _encoding_notice(file: TextFile) -> str:
    if file.encoding != "unknown":
        return ""
    return (
        "\n[Not UTF-8: unknown bytes are shown as \N{REPLACEMENT CHARACTER}. Edits of its ASCII"
        " text keep them; to see them, convert the file with iconv in bash.]"
    )


def image_type(data: bytes) -> str:
    """Return the media type of an image that models take; empty for anything else."""
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if data.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if data.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    if data.startswith(b"RIFF") and data[8:12] == b"WEBP":
        return "image/webp"
    return ""


def _image(resolved: ResolvedPath, data: bytes, *, media_type: str, model: Model) -> ToolResult:
    facts = f"'{resolved.shown}': {media_type}, {len(data):,} bytes"
    details: Json = {
        "path": portable(resolved.real),
        "mediaType": media_type,
        "bytes": len(data),
    }
    if "image" not in model.modalities:
        return ToolResult(content=f"[{facts}. This model cannot see images.]", details=details)
    if len(data) > MAX_IMAGE:
        raise ToolError(
            f"{facts}, is larger than {MAX_IMAGE:,} bytes.",
            hint="Make a smaller copy first, for instance with ImageMagick.",
        )
    encoded = binascii.b2a_base64(data, newline=False).decode("ascii")
    image = ImageBlock({"type": "base64", "media_type": media_type, "data": encoded})
    return ToolResult(content=(TextBlock(f"[{facts}]"), image), details=details)
