r"""From the hunks of a patch to splices of a file. Pure.

A hunk fits where the file has exactly its old lines. It is taken at the line
that it names, moved by as much as the hunk before it was; otherwise at the one
place within 300 lines that it fits. Where it fits several, nothing is guessed.

Line endings are the file's: they make no difference to whether a line fits,
and what is inserted gets the ending of the line that it replaces, or of the
one beside it. Whether the last line has one stays as it is, unless the patch
says otherwise (``\ No newline at end of file``).
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

from msgspec import Struct

from agent_sdk.core.errors import ToolError
from agent_sdk.tools.edit_hints import explain_miss
from agent_sdk.tools.patch_parse import Hunk, PatchLine, lines_of
from agent_sdk.tools.text_codec import Splice, TextFile, apply, encode

DRIFT = 300
"""Most lines between where a hunk says it belongs and where it is looked for."""

_MAX_SHOWN = 5
_ANY_ENDING = re.compile(r"\r\n|\n|\r")
_LF_ENDING = re.compile(r"\r?\n")


class Line(NamedTuple):
    """A line of the file: its text, its ending (``""`` at most for the last), where it begins."""

    text: str
    ending: str
    start: int

    @property
    def end(self) -> int:
        """Where the next line begins."""
        return self.start + len(self.text) + len(self.ending)


class Placed(Struct, frozen=True):
    """A hunk that fits, and the index of the line at which it does.

    Attributes:
        hunk: The hunk.
        at: Index, from 0.
        drift: By how many lines that is off from what the hunk says.
    """

    hunk: Hunk
    at: int
    drift: int


def plan_hunks(
    file: TextFile, hunks: Sequence[Hunk], *, name: str
) -> tuple[list[Splice], list[Placed]]:
    """Return the changes that the hunks make, and where each of them fits.

    Args:
        file: The original.
        hunks: In ascending order.
        name: The file's name, for messages.

    Raises:
        ToolError: If a hunk does not fit, or not in one place only; all that
            do not are named. Also if nothing would change, or what is inserted
            cannot be written in the file's encoding.
    """
    hunks = [_without_mark(hunk) for hunk in hunks] if file.bom else hunks
    for hunk in hunks:
        for line in hunk.lines:
            encode(line.text, file)  # raises for what the file cannot contain
    lines = split_file(file.text, hunks)
    placed = _place_all(lines, hunks, file=file, name=name)
    splices: list[Splice] = []
    expected: list[str] = []
    done = 0
    for one in placed:
        expected += [line.text for line in lines[done : one.at]]
        splices += _Hunk(one, lines, name=name).splices()
        expected += [line.text for line in one.hunk.lines if line.kind != "-"]
        done = one.at + len(one.hunk.old)
    expected += [line.text for line in lines[done:]]
    splices = [s for s in splices if file.text[s.start : s.end] != s.text]
    if not splices:
        raise ToolError(
            f"The patch would change nothing in '{name}'.",
            hint="Line endings are kept as they are in the file; a patch cannot change them.",
        )
    if [line.text for line in split_file(apply(file.text, splices), hunks)] != expected:
        raise ToolError(
            f"'{name}' mixes line endings in such a way that the lines of the patch would run"
            " into each other.",
            hint="Use edit, or give the file one kind of line ending first.",
        )
    return splices, placed


def new_text(hunk: Hunk) -> str:
    """Return the contents of a file that a patch creates."""
    return "".join(
        line.text + ("" if line.bare else "\r\n" if line.cr else "\n") for line in hunk.lines
    )


def split_file(text: str, hunks: Sequence[Hunk]) -> list[Line]:
    """Return the lines of a file.

    A bare CR ends a line, as it does for the tool that reads, unless the
    patch has one inside a line: then it was made by a program that sees it
    differently.
    """
    inner = any("\r" in line.text for hunk in hunks for line in hunk.lines)
    lines: list[Line] = []
    at = 0
    for found in (_LF_ENDING if inner else _ANY_ENDING).finditer(text):
        lines.append(Line(text[at : found.start()], found[0], at))
        at = found.end()
    if at < len(text):
        lines.append(Line(text[at:], "", at))
    return lines


def _without_mark(hunk: Hunk) -> Hunk:
    """Take off the byte order mark, which other programs count to the first line."""
    lines = tuple(
        PatchLine(line.kind, line.text.removeprefix("\ufeff"), line.cr, line.bare)
        for line in hunk.lines
    )
    return Hunk(hunk.number, hunk.start, lines)


# ------------------------------------------------------------------- where they fit


def _place_all(
    lines: Sequence[Line], hunks: Sequence[Hunk], *, file: TextFile, name: str
) -> list[Placed]:
    placed: list[Placed] = []
    problems: list[tuple[str, str]] = []
    first, drift = 0, 0
    for hunk in hunks:
        found = _places(lines, hunk, first=first, drift=drift)
        if len(found) != 1:
            problems.append(_problem(lines, hunk, found, file=file, first=first))
            continue
        named = hunk.start - 1 if hunk.old else hunk.start
        drift = found[0] - named
        placed.append(Placed(hunk, found[0], drift))
        first = found[0] + len(hunk.old)
    if problems:
        shown = problems[:_MAX_SHOWN]
        more = f" and {len(problems) - len(shown)} more" if len(problems) > len(shown) else ""
        texts = "; ".join(text for text, _ in shown)
        raise ToolError(
            f"The patch does not fit '{name}', and nothing was written: {texts}{more}.",
            hint=next((hint for _, hint in shown if hint), ""),
        )
    return placed


def _places(lines: Sequence[Line], hunk: Hunk, *, first: int, drift: int) -> list[int]:
    """Return the index where the hunk belongs; none or several if that is not clear."""
    old = hunk.old
    if not old:
        return [0] if not lines else []  # without lines around it there is nothing to go by
    named = hunk.start - 1
    if _fits(lines, old, named + drift, first=first):
        return [named + drift]
    nearby = range(max(first, named - DRIFT), min(len(lines), named + DRIFT) + 1)
    return [at for at in nearby if _fits(lines, old, at, first=first)]


def _fits(lines: Sequence[Line], old: Sequence[PatchLine], at: int, *, first: int) -> bool:
    if at < first or at + len(old) > len(lines):
        return False
    for line, wanted in zip(lines[at : at + len(old)], old, strict=True):
        if line.text != wanted.text or (wanted.bare and line.ending):
            return False
    return True


def _problem(
    lines: Sequence[Line], hunk: Hunk, found: Sequence[int], *, file: TextFile, first: int
) -> tuple[str, str]:
    """Return what is wrong with a hunk, and what would help."""
    label = f"hunk {hunk.number} (line {hunk.start})"
    if not hunk.old:
        return (
            f"{label} has no lines of the file to go by",
            "Give at least one line of context, with a space before it.",
        )
    if found:
        at = ", ".join(str(n + 1) for n in found[:_MAX_SHOWN])
        return (
            f"{label} fits at lines {at}{' …' if len(found) > _MAX_SHOWN else ''} alike",
            "Add lines of context, or give the line at which it begins.",
        )
    text = lines_of(hunk.lines, " -")
    far = [n for n in range(len(lines)) if _fits(lines, hunk.old, n, first=0)]
    if far:
        at = ", ".join(str(n + 1) for n in far[:_MAX_SHOWN])
        reason = (
            "only where an earlier hunk has been already"
            if any(n < first for n in far)
            else f"only at line {at}, more than {DRIFT} lines away"
        )
        return f"{label} fits {reason}", "Read the file again and give the right lines."
    if any(line.bare for line in hunk.old):
        return (
            f"{label} was not found",
            "It says that the file ends without a line ending there; check whether it does.",
        )
    return f"{label} was not found", explain_miss(file.printable, text)


# ------------------------------------------------------------------ what they change


class _Run(Struct):
    """Neighbouring lines that go and come, and the index in the file where they do."""

    at: int
    removed: list[PatchLine]
    added: list[PatchLine]
    last: bool


class _Hunk:
    """The changes of one hunk that has its place."""

    def __init__(self, placed: Placed, lines: Sequence[Line], *, name: str) -> None:
        self._placed = placed
        self._lines = lines
        self._name = name

    def splices(self) -> list[Splice]:
        return [self._splice(run) for run in self._runs()]

    def _runs(self) -> list[_Run]:
        runs: list[_Run] = []
        at = self._placed.at
        open_run: _Run | None = None
        for line in self._placed.hunk.lines:
            if line.kind == " ":
                open_run = None
            elif open_run is None:
                open_run = _Run(at, [], [], last=False)
                runs.append(open_run)
            if open_run is not None:
                (open_run.removed if line.kind == "-" else open_run.added).append(line)
            at += line.kind != "+"
        if runs:
            final = runs[-1]
            final.last = final.at + len(final.removed) == len(self._lines)
        return runs

    def _splice(self, run: _Run) -> Splice:
        gone = self._lines[run.at : run.at + len(run.removed)]
        start = gone[0].start if gone else self._start_of(run.at)
        end = gone[-1].end if gone else start
        self._check_bare(run)
        text = "".join(
            line.text + self._ending(run, gone, number) for number, line in enumerate(run.added)
        )
        before = self._lines[run.at - 1] if run.at else None
        if before is not None and not before.ending and text:
            text = self._near(run) + text  # the line that was the last one is so no longer
        return Splice(start, end, text)

    def _check_bare(self, run: _Run) -> None:
        for number, line in enumerate(run.added, 1):
            if line.bare and not (run.last and number == len(run.added)):
                raise ToolError(
                    f"Hunk {self._placed.hunk.number} says that a line it adds to '{self._name}'"
                    " ends the file, but more lines follow.",
                    hint="Leave out '\\ No newline at end of file'.",
                )

    def _ending(self, run: _Run, gone: Sequence[Line], number: int) -> str:
        """Return the ending for an added line of a run."""
        line = run.added[number]
        if run.last and number == len(run.added) - 1:
            return self._last_ending(run, line)
        if number < len(gone) and gone[number].ending:
            return gone[number].ending
        return self._near(run)

    def _last_ending(self, run: _Run, line: PatchLine) -> str:
        """Return the ending for the line that will be the file's last one."""
        if line.bare:
            return ""
        old = self._lines[-1] if self._lines else None
        if old is None or old.ending:
            return self._near(run)
        said = next((one for one in reversed(self._placed.hunk.lines) if one.kind != "+"), None)
        # Only a patch that knows of the missing ending can mean to add one.
        return self._near(run) if said is not None and said.bare else ""

    def _near(self, run: _Run) -> str:
        """Return the line ending that is used around a run."""
        after = run.at + len(run.removed)
        around = [*self._lines[run.at : after][::-1], *self._lines[max(0, run.at - 1) : run.at]]
        around += [*self._lines[after : after + 1], *self._lines[:1]]
        for line in around:
            if line.ending:
                return line.ending
        return "\r\n" if any(line.cr for line in run.added) else "\n"

    def _start_of(self, at: int) -> int:
        if at < len(self._lines):
            return self._lines[at].start
        return self._lines[-1].end if self._lines else 0
