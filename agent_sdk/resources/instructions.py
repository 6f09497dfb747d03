"""``AGENTS.md``: what the user and the project want the agent to know.

The user's own comes first, then those from the repository's root down to the
session's folder, so that the nearest one speaks last. In a folder without
``AGENTS.md`` a ``CLAUDE.md`` is read, since many repositories have only that.
A file over 32 KiB is left out, and the prompt says so.
"""

import os

from msgspec import Struct

from agent_sdk.resources.files import read_text
from agent_sdk.resources.found import problem
from agent_sdk.resources.places import Folder
from agent_sdk.resources.problems import ResourceProblem, Source, Unusable, shown

NAMES = ("AGENTS.md", "CLAUDE.md")
"""File names that are looked for; the first one of a folder is read."""

MOST_BYTES = 32 * 1024


class Instruction(Struct, frozen=True, kw_only=True):
    r"""One file of instructions.

    Attributes:
        path: The file, as text that can be shown.
        source: Whose it is.
        text: What it says, with ``\n`` as line end; empty if it was left out.
        error: Why it was left out, for the prompt; empty if it was not.
    """

    path: str
    source: Source
    text: str = ""
    error: str = ""


class FoundInstructions(Struct, frozen=True):
    """The files in order, and what is wrong with those that were left out."""

    items: tuple[Instruction, ...]
    problems: tuple[ResourceProblem, ...]


def scan_instructions(folders: tuple[Folder, ...]) -> FoundInstructions:
    """Read the files of instructions, in the order of their folders."""
    items: list[Instruction] = []
    problems: list[ResourceProblem] = []
    seen: set[str] = set()
    for folder in folders:
        for name in NAMES:
            path = folder.path / name
            try:
                text = read_text(path, most=MOST_BYTES, within=folder.within)
            except Unusable as error:
                problems.append(problem("instructions", folder, path, about=error))
                items.append(
                    Instruction(path=shown(path), source=folder.source, error=error.message)
                )
                break
            if text is None:
                continue
            real = os.path.realpath(path)
            text = text.replace("\r\n", "\n").replace("\r", "\n").strip()
            if text and real not in seen:
                items.append(Instruction(path=shown(path), source=folder.source, text=text))
            seen.add(real)
            break
    return FoundInstructions(tuple(items), tuple(problems))
