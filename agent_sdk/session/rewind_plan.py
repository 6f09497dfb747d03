"""What a rewind would do to files: pure rules, and what is shown before it is done.

Each change of a file says what the file was before it and after. So the
changes of one file are a chain, and a rewind goes back to what the first of
them found. A change that was recorded may not have come to be (the process
ended just then); the next one then found what the first had found. Anything
else that a change found is somebody else's work, and so is anything on the
disk that the last change neither found nor left.
"""

from collections.abc import Iterable
from typing import Literal, TypeAlias

from msgspec import Struct

from agent_sdk.core.errors import InvalidInput
from agent_sdk.session.file_log import DoneRewind, FileLog, PromptPlace
from agent_sdk.session.records import FileChangeRecord, FileVersion
from agent_sdk.tools.file_state import path_key

UNTRACKED = (
    "Only changes that this session's file tools made are taken back. What commands (bash) or "
    "other programs changed is not known here and stays as it is, and so do folders that were made."
)
"""What a person should know before a rewind; part of what is shown."""

Action: TypeAlias = Literal["restore", "recreate", "delete"]
Problem: TypeAlias = Literal[
    "changed", "changed_between", "changed_later", "not_kept", "not_a_file", "read_only", "outside"
]

What: TypeAlias = Literal["files", "conversation", "both"]
"""What goes back."""

Hash: TypeAlias = str | None
"""SHA-256 of a file's contents in hex; None for no file."""


class Chain(Struct, frozen=True):
    """What the changes of one file come to.

    Attributes:
        path: As in the records.
        target: What the file was before them; None if there was none.
        expected: What may be there now.
        problem: Why they cannot be taken back, if that can be seen from them.
    """

    path: str
    target: FileVersion | None
    expected: tuple[Hash, ...]
    problem: Problem | None = None


class FileToRewind(Struct, frozen=True, kw_only=True):
    """What a rewind does to one file.

    Attributes:
        path: Its absolute real path.
        shown: A short name, to show.
        action: ``restore`` older contents, ``recreate`` a file that was
            deleted, or ``delete`` one that was made.
        now: Hash of its contents now; None if there is no file.
        target: Hash of its contents afterwards; None for no file.
        mode: Permission bits that it gets; 0 for those that it has.
        additions: Lines added; 0 for what is no text.
        deletions: Lines removed.
        diff: The unified diff from now to afterwards, at most 64 KiB.
    """

    path: str
    shown: str
    action: Action
    now: Hash
    target: Hash
    mode: int = 0
    additions: int = 0
    deletions: int = 0
    diff: str = ""


class RewindProblem(Struct, frozen=True, kw_only=True):
    """Why a file keeps the rewind from being done.

    Attributes:
        path: Its absolute real path.
        shown: A short name, to show.
        kind: Which problem it is.
        text: One sentence about it.
    """

    path: str
    shown: str
    kind: Problem
    text: str


class RewindPreview(Struct, frozen=True, kw_only=True):
    """What a rewind would do.

    Attributes:
        what: What goes back.
        to: The user message that it goes back to; empty for an undo.
        undoes: The rewind that it takes back; empty if none.
        conversation: The last record that stays in the conversation; empty
            if that stays as it is.
        restores: The record of a conversation's rewind that is taken back.
        files: What happens to which file.
        problems: What keeps it from being done; it is done only without any.
    """

    what: What
    to: str = ""
    undoes: str = ""
    conversation: str = ""
    restores: str = ""
    files: tuple[FileToRewind, ...] = ()
    problems: tuple[RewindProblem, ...] = ()

    @property
    def possible(self) -> bool:
        """Whether it can be done."""
        return not self.problems

    @property
    def additions(self) -> int:
        """Lines added, in all files."""
        return sum(file.additions for file in self.files)

    @property
    def deletions(self) -> int:
        """Lines removed, in all files."""
        return sum(file.deletions for file in self.files)

    @property
    def text(self) -> str:
        """All of it in words, a line each."""
        lines = [
            f"{_VERBS[f.action]} '{f.shown}' (+{f.additions} -{f.deletions})" for f in self.files
        ]
        lines += [f"Conflict: {problem.text}" for problem in self.problems]
        if not lines:
            lines = ["No file changes."]
        if self.conversation:
            lines.append("The conversation goes back, too.")
        return "\n".join([*lines, UNTRACKED])


_VERBS: dict[Action, str] = {"restore": "Restore", "recreate": "Recreate", "delete": "Delete"}


def chains_since(log: FileLog, at: int) -> list[Chain]:
    """Return what all changes behind a position come to, file by file."""
    groups: dict[str, list[FileChangeRecord]] = {}
    for change in log.since(at):
        groups.setdefault(path_key(change.path), []).append(change)
    return [chain_of(changes) for changes in groups.values()]


def chains_of(log: FileLog, done: DoneRewind) -> list[Chain]:
    """Return what the changes of a rewind come to, each the last of its file or a problem."""
    later = {path_key(change.path) for change in log.since(done.at)}
    return [
        Chain(change.path, change.before, (), "changed_later")
        if path_key(change.path) in later
        else chain_of((change,))
        for change in done.changes
    ]


def chain_of(changes: Iterable[FileChangeRecord]) -> Chain:
    """Return what the changes of one file come to, oldest first."""
    first, *rest = changes
    expected = _either(first)
    problem: Problem | None = None
    for change in rest:
        if hash_of(change.before) not in expected:
            problem = "changed_between"
        expected = _either(change)
    return Chain(first.path, first.before, expected, problem)


def _either(change: FileChangeRecord) -> tuple[Hash, Hash]:
    return hash_of(change.after), hash_of(change.before)


def hash_of(version: FileVersion | None) -> Hash:
    """Return what two versions of a file are compared by."""
    return None if version is None else version.sha256


def prompt_place(log: FileLog, uuid: str) -> PromptPlace:
    """Return where a prompt is.

    Raises:
        InvalidInput: If there is no such prompt.
    """
    place = log.prompts.get(uuid)
    if place is None:
        raise InvalidInput(
            f"The session has no user message {uuid!r} to rewind to.",
            hint="Name the id of a prompt's record.",
        )
    return place


def rewind_to_undo(log: FileLog, rewind_id: str) -> DoneRewind:
    """Return a rewind that was done.

    Raises:
        InvalidInput: If there is no such rewind, or the conversation that it
            took back has gone on another way.
    """
    done = log.rewinds.get(rewind_id)
    if done is None:
        raise InvalidInput(f"The session has no rewind {rewind_id!r} to take back.")
    if done.talk is not None and any(place.at > done.at for place in log.prompts.values()):
        raise InvalidInput(
            f"The conversation has gone on since the rewind {rewind_id!r}, which took a part of it"
            " back; that cannot be taken back any more.",
            hint="Rewind to a user message instead.",
        )
    return done
