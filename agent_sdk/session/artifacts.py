"""Large binary content is kept beside the session file, named by its hash.

A record whose blocks carry more than 64 KiB of base64 is stored with a
pointer, ``{"type":"artifact","sha256":…,"media_type":…,"size":…}``; reading
puts the content back. Pure: whoever calls writes and loads the bytes.
"""

from binascii import a2b_base64, b2a_base64
from collections.abc import Callable
from typing import TypeVar

import msgspec
from msgspec import Struct

from agent_sdk.providers.messages import (
    Block,
    DocumentBlock,
    ImageBlock,
    Json,
    TextBlock,
    ToolResultBlock,
)
from agent_sdk.session.records import AssistantRecord, Record, StoredMessage, UserRecord

LIMIT = 64 * 1024
"""Longest base64 text that stays in a record."""

MAX_ARTIFACT_BYTES = 64 * 1024 * 1024
"""Largest artifact that is read back."""

T = TypeVar("T")


class Artifact(Struct, frozen=True):
    """Content that goes into a file of its own; the name is its SHA-256 in hex."""

    sha256: str
    data: bytes


def digest(data: bytes) -> str:
    """Return the SHA-256 of the data in hex."""
    import hashlib  # noqa: PLC0415 - costs 3 ms, and few sessions have artifacts

    return hashlib.sha256(data).hexdigest()


def split_artifacts(record: T) -> tuple[T, tuple[Artifact, ...]]:
    """Return the record with pointers for large content, and that content."""
    found: list[Artifact] = []

    def take(source: Json) -> Json | None:
        if set(source) != {"type", "media_type", "data"} or source["type"] != "base64":
            return None
        text = source["data"]
        if not isinstance(text, str) or len(text) <= LIMIT:
            return None
        try:
            data = a2b_base64(text, strict_mode=True)
        except ValueError:
            return None  # not base64 at all: it stays as it is
        artifact = Artifact(digest(data), data)
        found.append(artifact)
        return {
            "type": "artifact",
            "sha256": artifact.sha256,
            "media_type": source["media_type"],
            "size": len(data),
        }

    return _with_sources(record, take), tuple(found)


def restore_artifacts(
    record: Record, load: Callable[[str], bytes | None]
) -> tuple[Record, tuple[str, ...]]:
    """Return the record with its content back, and the hashes that are missing.

    Args:
        record: As it was read.
        load: Returns the content for a hash, or None if it is not there.

    A block whose content is gone says so as text.
    """
    missing: list[str] = []

    def give(source: Json) -> Json | None:
        name = source.get("sha256")
        if source.get("type") != "artifact" or not isinstance(name, str):
            return None
        data = load(name)
        if data is None or digest(data) != name:
            missing.append(name)
            return {"type": "missing", "sha256": name}
        text = b2a_base64(data, newline=False).decode("ascii")
        return {"type": "base64", "media_type": source.get("media_type", ""), "data": text}

    return _with_sources(record, give), tuple(missing)


def _with_sources(record: T, change: Callable[[Json], Json | None]) -> T:
    """Return the record with each block's source changed where ``change`` says so."""
    if not isinstance(record, UserRecord | AssistantRecord):
        return record
    old = record.message.content
    new = tuple(_block(block, change) for block in old)
    if all(a is b for a, b in zip(old, new, strict=True)):
        return record
    message = StoredMessage(record.message.role, new)
    return msgspec.structs.replace(record, message=message)


def _block(block: Block, change: Callable[[Json], Json | None]) -> Block:
    if isinstance(block, ImageBlock | DocumentBlock):
        return _leaf(block, change)
    if isinstance(block, ToolResultBlock) and not isinstance(block.content, str):
        inner = tuple(
            part if isinstance(part, TextBlock) else _leaf(part, change) for part in block.content
        )
        if any(a is not b for a, b in zip(block.content, inner, strict=True)):
            return msgspec.structs.replace(block, content=inner)
    return block


def _leaf(
    block: ImageBlock | DocumentBlock, change: Callable[[Json], Json | None]
) -> ImageBlock | DocumentBlock | TextBlock:
    source = change(block.source)
    if source is None:
        return block
    if source["type"] == "missing":
        kind = "image" if isinstance(block, ImageBlock) else "document"
        return TextBlock(f"[The {kind} that was here is no longer on the disk.]")
    return msgspec.structs.replace(block, source=source)
