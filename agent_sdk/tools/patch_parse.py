r"""Unified diffs, as git and ``diff -u`` write them and as models do. Pure.

What the lines say is taken at its word; the counts in the ``@@`` lines, which
models get wrong, only decide where a body ends that could go on. Whatever
cannot be done to a text file by lines (deleting, renaming, copying, modes,
links, binary files) is refused by name, before anything is tried.

A patch in which every line ends in CRLF was carried that way, so its CRs are
no part of it. Otherwise a CR at the end of a line is noted, and whoever
applies the patch decides about line endings.
"""

import re
from collections.abc import Sequence
from typing import Literal, NoReturn, TypeAlias

from msgspec import Struct

from agent_sdk.core.errors import InvalidToolInput
from agent_sdk.tools.patch_paths import NULL, header_path, patched_path

MAX_FILES = 100
"""Most files that one patch may touch."""

Kind: TypeAlias = Literal[" ", "-", "+"]


class PatchLine(Struct, frozen=True):
    """A line of a hunk.

    Attributes:
        kind: A space for context, ``-`` for removed, ``+`` for added.
        text: The line without its ending.
        cr: Whether it ends in CRLF in the patch.
        bare: Whether it is the last line of its file, without a line ending.
    """

    kind: Kind
    text: str
    cr: bool = False
    bare: bool = False


class Hunk(Struct, frozen=True):
    """Lines that belong together.

    Attributes:
        number: Which one of its file it is, from 1.
        start: Line of the old file that it begins at, from 1; for a hunk
            without old lines the one that it follows, so 0 is possible.
        lines: What it consists of.
    """

    number: int
    start: int
    lines: tuple[PatchLine, ...]

    @property
    def old(self) -> tuple[PatchLine, ...]:
        """The lines that must be there."""
        return tuple(line for line in self.lines if line.kind != "+")


class FilePatch(Struct, frozen=True):
    """What a patch does to one file.

    Attributes:
        path: The file, without the prefixes that git puts before it.
        creates: Whether it must not exist yet.
        hunks: In ascending order.
    """

    path: str
    creates: bool
    hunks: tuple[Hunk, ...]


def parse_patch(text: str) -> tuple[FilePatch, ...]:
    """Return what a unified diff does, file by file.

    Args:
        text: The diff; lines before its first header, such as a commit
            message, are skipped.

    Raises:
        InvalidToolInput: If it is no unified diff, or does what is not
            supported; the text gives the line of the patch.
    """
    patches = _Parser(text).parse()
    seen: set[str] = set()
    for patch in patches:
        if patch.path in seen:
            raise InvalidToolInput(
                f"The patch has two sections for {patch.path!r}.",
                hint="Put all its hunks under one pair of --- and +++ lines.",
            )
        seen.add(patch.path)
    if len(patches) > MAX_FILES:
        raise InvalidToolInput(
            f"The patch touches {len(patches)} files, more than {MAX_FILES}.", hint="Split it."
        )
    return patches


_HUNK = re.compile(r"@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@")
_EXTENDED = re.compile(r"index [0-9a-f]+\.\.[0-9a-f]+( [0-7]{6})?|(dis)?similarity index \d+%")
_NEW_MODE = re.compile(r"new file mode ([0-7]+)")
_SIGNATURE = ("-- ", "--")
"""What git format-patch puts between a patch and its version."""

_REFUSED: tuple[tuple[re.Pattern[str], str, str], ...] = (
    (
        re.compile(r"deleted file mode "),
        "deletes a file, which apply_patch does not do",
        "Leave that file out and delete it with bash.",
    ),
    (
        re.compile(r"(rename|copy) (from|to) "),
        "renames or copies a file, which apply_patch does not do",
        "Move or copy it with bash first, then patch it under its new name.",
    ),
    (
        re.compile(r"(old|new) mode "),
        "changes a file's mode, which apply_patch does not do",
        "Leave that out and use chmod in bash.",
    ),
    (
        re.compile(r"GIT binary patch|Binary files .* differ"),
        "changes a binary file, which apply_patch does not do",
        "Leave that file out; change it with a program in bash.",
    ),
)
"""What git writes above the hunks of a file."""

_NO_PATCH: tuple[tuple[re.Pattern[str], str, str], ...] = (
    (
        re.compile(r"\*\*\* (Begin Patch|End Patch|(Update|Add|Delete) File:)"),
        "is in another format than a unified diff",
        "Begin each file with '--- a/PATH' and '+++ b/PATH', each hunk with '@@ -N,M +N,M @@'.",
    ),
    (
        re.compile(r"@@@"),
        "is a combined diff of a merge, which cannot be applied",
        "Make a diff against one version.",
    ),
)


class _Parser:
    """Goes through the lines once."""

    def __init__(self, text: str) -> None:
        lines = text.split("\n")
        if lines[-1] == "":
            lines.pop()
        if lines and all(line.endswith("\r") for line in lines):
            lines = [line[:-1] for line in lines]
        self._lines = lines
        self._at = 0
        self._in_diff = False  # before that it may be a commit's message

    def parse(self) -> tuple[FilePatch, ...]:
        patches: list[FilePatch] = []
        while self._at < len(self._lines):
            line = self._lines[self._at]
            if self._is_header(self._at):
                patches.append(self._file())
            elif line in _SIGNATURE and patches:
                break
            else:
                self._between(line, started=bool(patches))
                self._at += 1
        if not patches:
            raise InvalidToolInput(
                "The patch has no file header.",
                hint="Each file begins with the lines '--- a/PATH' and '+++ b/PATH'.",
            )
        return tuple(patches)

    # ------------------------------------------------------------ around the hunks

    def _is_header(self, at: int) -> bool:
        return self._starts(at, "--- ") and self._starts(at + 1, "+++ ")

    def _starts(self, at: int, prefix: str) -> bool:
        return at < len(self._lines) and self._lines[at].startswith(prefix)

    def _between(self, line: str, *, started: bool) -> None:
        """Look at a line outside of hunks; most before the first header are a commit's text."""
        plain = line.rstrip("\r")
        self._in_diff = self._in_diff or started or plain.startswith("diff ")
        for pattern, what, hint in (*_NO_PATCH, *(_REFUSED if self._in_diff else ())):
            if pattern.match(plain):
                self._fail(what, hint)
        if _HUNK.match(plain):
            self._fail(
                "begins a hunk without saying of which file",
                "Put '--- a/PATH' and '+++ b/PATH' before it.",
            )
        if plain.startswith("diff --git ") and not self._has_hunks():
            self._fail(
                "is about a file of which no line changes",
                "Leave it out; create an empty file with write.",
            )
        mode = _NEW_MODE.fullmatch(plain)
        if mode is not None:
            self._check_new_mode(mode[1])
        elif started and not self._known(plain):
            self._fail(
                "is no part of a unified diff", "Every line of a hunk begins with ' ', '-' or '+'."
            )

    def _known(self, line: str) -> bool:
        known = line.startswith(("diff ", "```", "Index: ", "====")) or not line.strip()
        return known or _EXTENDED.fullmatch(line) is not None

    def _has_hunks(self) -> bool:
        """Return whether a header follows, before the next file begins."""
        for at in range(self._at + 1, min(self._at + 12, len(self._lines))):
            if self._is_header(at):
                return True
            if self._starts(at, "diff --git "):
                return False
            if any(pattern.match(self._lines[at]) for pattern, _, _ in _REFUSED):
                return True  # the better reason comes when that line is reached
        return False

    def _check_new_mode(self, mode: str) -> None:
        if mode == "100644":
            return
        if mode == "100755":
            self._fail(
                "creates an executable file, and apply_patch sets no modes",
                "Leave that line out and use chmod in bash afterwards.",
            )
        self._fail(
            "creates a link or a submodule, which apply_patch does not do", "Use bash for that."
        )

    def _fail(self, what: str, hint: str) -> NoReturn:
        shown = self._lines[self._at][:80] if self._at < len(self._lines) else "the end"
        raise InvalidToolInput(f"Line {self._at + 1} of the patch ({shown!r}) {what}.", hint=hint)

    # ----------------------------------------------------------------- one file

    def _file(self) -> FilePatch:
        old, new = (header_path(self._lines[self._at + n][4:]) for n in (0, 1))
        if new == NULL:
            self._fail(
                "deletes a file, which apply_patch does not do",
                "Leave that file out and delete it with bash.",
            )
        path = patched_path(old, new)
        if not path:
            self._fail(
                f"and the next name two files ({old!r} and {new!r}); apply_patch renames nothing",
                "Move it with bash first, then patch it under its new name.",
            )
        self._at += 2
        hunks: list[Hunk] = []
        while self._starts(self._at, "@@"):
            hunks.append(self._hunk(len(hunks) + 1))
        creates = old == NULL
        if not hunks:
            self._fail(
                "stands where the first hunk was expected",
                "After the --- and +++ lines comes '@@ -N,M +N,M @@'.",
            )
        if creates and (len(hunks) > 1 or hunks[0].old):
            raise InvalidToolInput(
                f"The patch creates {path!r}, so it must be one hunk of '+' lines only.",
                hint="To change a file that exists, name it in the --- line.",
            )
        return FilePatch(path, creates, tuple(sorted(hunks, key=lambda hunk: hunk.start)))

    def _hunk(self, number: int) -> Hunk:
        found = _HUNK.match(self._lines[self._at])
        if found is None:
            self._fail(
                "gives no line numbers that can be read",
                "Write '@@ -OLD_LINE,COUNT +NEW_LINE,COUNT @@'; the first number matters most.",
            )
        start, old, _, new = (int(part or 1) for part in found.groups())
        self._at += 1
        return Hunk(number, start, tuple(self._body(old, new)))

    def _body(self, old: int, new: int) -> list[PatchLine]:
        """Take the lines of a hunk; the counts are believed only where they must be."""
        lines: list[PatchLine] = []
        blank = 0  # empty lines at the end: context, or merely between two hunks
        while self._at < len(self._lines):
            line = self._lines[self._at]
            if line.startswith("\\"):
                self._mark_bare(lines)
            elif self._body_ends(line, old, new):
                break
            else:
                kind, text = _KINDS.get(line[:1], " "), line[1:]
                cr = text.endswith("\r") or line == "\r"
                blank = blank + 1 if line in ("", "\r") else 0
                lines.append(PatchLine(kind, text.removesuffix("\r"), cr))
                old, new = old - (kind != "+"), new - (kind != "-")
            self._at += 1
        if blank and (old or new):
            del lines[-blank:]
        if not lines:
            self._fail("stands where the lines of a hunk were expected", "Give its lines.")
        return lines

    def _body_ends(self, line: str, old: int, new: int) -> bool:
        over = old <= 0 and new <= 0
        if line in ("", "\r"):
            return over  # a context line that lost its space, while some are missing
        if line[0] not in _KINDS:
            return True
        if line in _SIGNATURE and over:
            return True
        if not self._is_header(self._at):
            return False
        # "-- x" removed and "++ y" added look like a header, too.
        return over or (self._starts(self._at + 2, "@@ -") and (old, new) != (1, 1))

    def _mark_bare(self, lines: list[PatchLine]) -> None:
        if not lines or lines[-1].bare:
            self._fail("follows no line that it could be about", "Put it after that line.")
        last = lines[-1]
        lines[-1] = PatchLine(last.kind, last.text, last.cr, bare=True)


_KINDS: dict[str, Kind] = {" ": " ", "-": "-", "+": "+"}


def lines_of(lines: Sequence[PatchLine], kinds: str) -> str:
    """Return the text of the lines of some kinds, joined with LF."""
    return "\n".join(line.text for line in lines if line.kind in kinds)
