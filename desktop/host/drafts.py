"""What has been shown of an answer that is not whole yet, so that a kill does not lose it.

One file a session: what streams is in it before it is shown, and the answer's
record makes it void. An answer that was cut by a kill is put into the history
from here, as a stop would have done.
"""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

import msgspec

from agent_sdk.events.wire import (
    EventBody,
    MessageUpdated,
    PartDelta,
    PartUpdated,
    ReasoningPart,
    TextPart,
)
from agent_sdk.host import (
    AppendLog,
    AssistantMessage,
    AssistantRecord,
    Block,
    ModelChangeRecord,
    Record,
    RunRecord,
    TextBlock,
    ThinkingBlock,
    assistant_record,
    make_dirs,
)
from desktop.host.transcripts import Transcript

_Kept: TypeAlias = MessageUpdated | PartUpdated | PartDelta
_decode = msgspec.json.Decoder(_Kept).decode


class Draft:
    """The unfinished answer of one session.

    Args:
        path: Its file; made when something streams for the first time.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._log: AppendLog | None = None
        self._open = ""

    async def keep(self, bodies: Sequence[EventBody]) -> None:
        """Keep what the events add to an unfinished answer; returns when it is durable.

        Raises:
            StorageError: If it cannot be written.
        """
        begins = False
        lines: list[bytes] = []
        for body in bodies:
            if isinstance(body, MessageUpdated) and body.message.role == "assistant":
                self._open = "" if body.message.finished else body.message.id
                begins, lines = True, []
            if self._belongs(body):
                lines.append(msgspec.json.encode(body))
        if lines or begins:
            await asyncio.to_thread(self._write, b"".join(line + b"\n" for line in lines), begins)

    def _belongs(self, body: EventBody) -> bool:
        if isinstance(body, MessageUpdated):
            return bool(self._open) and body.message.id == self._open
        if isinstance(body, PartUpdated):
            text = isinstance(body.part, TextPart | ReasoningPart)
            return text and body.message_id == self._open
        return isinstance(body, PartDelta) and body.message_id == self._open

    def _write(self, data: bytes, begins: bool) -> None:  # noqa: FBT001 - on a thread
        if self._log is None:
            if not data:
                return
            make_dirs(self._path.parent)
            try:
                self._log = AppendLog.create(self._path)
            except FileExistsError:
                self._log = AppendLog.open(self._path)
        if begins and self._log.size:
            self._log.truncate_to(0)
        if data:
            self._log.append(data)

    async def aclose(self) -> None:
        """Close the file, and delete it: no answer is under way any more."""
        log, self._log = self._log, None
        if log is not None:
            log.close()
        await asyncio.to_thread(self._path.unlink, missing_ok=True)


def read_draft(path: Path) -> Transcript:
    """Return the unfinished answer that a file holds, as one message; empty if it holds none."""
    transcript = Transcript()
    try:
        lines = path.read_bytes().split(b"\n")[:-1]
    except OSError:
        return transcript
    for line in lines:
        try:
            transcript.apply(_decode(line))
        except msgspec.DecodeError:
            break  # the rest was never shown
    return transcript


def cut_answer(draft: Transcript, records: Sequence[Record]) -> AssistantRecord | None:
    """Return the record that puts a cut answer into the history.

    Args:
        draft: What was shown of it.
        records: The session's records.

    Returns:
        None if nothing was shown, or the records have the answer already.
    """
    messages = draft.page(0, 1).messages
    model = next((r for r in reversed(records) if isinstance(r, ModelChangeRecord)), None)
    if not messages or model is None or messages[0].info.id != _next_answer(records):
        return None
    blocks: list[Block] = []
    for part in messages[0].parts:
        if isinstance(part, TextPart) and part.text:
            blocks.append(TextBlock(part.text))
        elif isinstance(part, ReasoningPart) and part.text:
            blocks.append(ThinkingBlock(part.text))
    if not blocks:
        return None
    return assistant_record(
        AssistantMessage(
            content=tuple(blocks),
            api=model.api,
            provider=model.provider,
            model=model.model,
            stop_reason="aborted",
        )
    )


def _next_answer(records: Sequence[Record]) -> str:
    """Return the id that the next answer of the last run would have."""
    turn = 1
    for record in reversed(records):
        if isinstance(record, AssistantRecord):
            turn += 1
        elif isinstance(record, RunRecord) and record.event == "start":
            return f"{record.run_id}.{turn}"
    return ""
