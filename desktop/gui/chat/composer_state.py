"""What the composer knows and decides: whether it can send, history, drafts. No widgets."""

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

from agent_sdk.events.wire import TextPart
from desktop.bridge.messages import (
    ModelsState,
    OpenedSession,
    ProjectInfo,
    SessionRow,
    TranscriptMessage,
)
from desktop.gui.mode_text import is_key_locked

MAX_HISTORY = 200
MAX_PROMPT_KEPT = 8 * 1024
"""Characters; longer prompts are not kept for walking back."""

BlockKind: TypeAlias = Literal[
    "host",
    "session",
    "loading",
    "folder",
    "read_only",
    "no_models",
    "no_model",
    "unknown",
    "no_key",
    "key_locked",
]


@dataclass(frozen=True)
class Block:
    """Why nothing can be sent.

    Attributes:
        kind: The reason.
        about: What it is about: a folder, a model, a provider, or the host's words.
    """

    kind: BlockKind
    about: str = ""


def block(
    *,
    host_up: bool,
    opened: OpenedSession | None,
    row: SessionRow | None,
    project: ProjectInfo | None,
    models: ModelsState | None,
    model: str,
) -> Block | None:
    """Return why nothing can be sent now, or None if something can.

    Args:
        host_up: Whether there is a host.
        opened: The session that is shown, if any.
        row: The newest that is known of it.
        project: Its project.
        models: All models.
        model: Key of the model in force, ``provider/id``; empty if none.
    """
    if not host_up:
        return Block("host")
    if opened is None:
        return Block("session")
    problem = row.problem if row else opened.row.problem
    if problem:
        return Block("read_only", problem)
    if project is not None and project.missing:
        return Block("folder", project.path)
    if models is None:
        return Block("loading")
    return _model_block(models, model)


def _model_block(models: ModelsState, model: str) -> Block | None:
    found = next((each for each in models.models if each.key == model), None)
    if found is not None and not found.ready and _is_locked(models, found.provider):
        return Block("key_locked", found.provider)
    if not any(each.ready for each in models.models):
        return Block("no_models")
    if not model:
        return Block("no_model")
    if found is None:
        return Block("unknown", model)
    return None if found.ready else Block("no_key", found.provider)


def _is_locked(models: ModelsState, provider: str) -> bool:
    own = (each for each in models.providers if each.name == provider)
    return any(is_key_locked(each, models.key_store) for each in own)


class History:
    """The prompts of one session, for walking with Up and Down.

    What was typed before walking is given back at the lower end.
    """

    def __init__(self) -> None:
        self._prompts: list[str] = []
        self._at: int | None = None
        self._typed = ""

    def fill(self, prompts: list[str]) -> None:
        """Begin with the prompts of a session, oldest first."""
        self._prompts = [text for text in prompts if 0 < len(text) <= MAX_PROMPT_KEPT]
        del self._prompts[:-MAX_HISTORY]
        self._at = None

    def add(self, text: str) -> None:
        """Note a prompt that was sent."""
        self._at = None
        if len(text) <= MAX_PROMPT_KEPT and (not self._prompts or self._prompts[-1] != text):
            self._prompts.append(text)
            del self._prompts[:-MAX_HISTORY]

    def edited(self) -> None:
        """The text was changed by hand: walking begins again from it."""
        self._at = None

    def older(self, typed: str) -> str | None:
        """Return the prompt before; None if there is none.

        Args:
            typed: What stands in the box now.
        """
        if self._at is None:
            self._typed = typed
            at = len(self._prompts) - 1
        else:
            at = self._at - 1
        if at < 0:
            return None
        self._at = at
        return self._prompts[at]

    def newer(self) -> str | None:
        """Return the prompt after, at the end what was typed; None if one is not walking."""
        if self._at is None:
            return None
        at = self._at + 1
        if at >= len(self._prompts):
            self._at = None
            return self._typed
        self._at = at
        return self._prompts[at]


def prompts_of(messages: tuple[TranscriptMessage, ...]) -> list[str]:
    """Return what a person wrote in these messages, oldest first."""
    return [text for text in map("\n".join, _human(messages)) if text]


def _human(messages: tuple[TranscriptMessage, ...]) -> Iterator[list[str]]:
    for message in messages:
        if message.info.role == "user" and message.info.origin in {
            "",
            "human",
            "queued",
            "steered",
        }:
            yield [part.text for part in message.parts if isinstance(part, TextPart)]


@dataclass(frozen=True)
class Outgoing:
    """A prompt on its way: not lost until the host says that it is durable."""

    prompt_id: str
    session_id: str
    text: str


class Outbox:
    """Gives prompts their ids; a text that failed and is sent again unchanged keeps its own."""

    def __init__(self) -> None:
        self._failed: dict[str, Outgoing] = {}

    def take(self, session_id: str, text: str) -> Outgoing:
        """Return the prompt to send."""
        failed = self._failed.pop(session_id, None)
        if failed is not None and failed.text == text:
            return failed
        return Outgoing(uuid.uuid4().hex, session_id, text)

    def failed(self, outgoing: Outgoing) -> None:
        """Keep the id of a prompt that may or may not have arrived."""
        self._failed[outgoing.session_id] = outgoing


def joined(before: str, text: str) -> str:
    """Return a text put back into a box in which something else was written meanwhile."""
    return f"{before.rstrip()}\n\n{text}" if before.strip() else text
