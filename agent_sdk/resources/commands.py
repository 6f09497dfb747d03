"""Prompt commands: Markdown files whose text is the prompt behind ``/name``.

A command is called by its file's name; the project's go before the user's.
Its text is a prompt and nothing else: shell interpolation is never run.
"""

import re
from collections.abc import Sequence
from functools import cache

from msgspec import Struct

from agent_sdk.core.frontmatter import parse_frontmatter
from agent_sdk.resources.arguments import expand_arguments
from agent_sdk.resources.fields import (
    bent,
    called,
    described,
    first_paragraph,
    hint_field,
    names_field,
    text_field,
)
from agent_sdk.resources.found import Found, last_wins, problem, remarks
from agent_sdk.resources.markdown import markdown_files
from agent_sdk.resources.places import Folder
from agent_sdk.resources.problems import Remark, ResourceProblem, Source, Unusable

RESERVED = frozenset({"compact"})
"""Names of commands that the session itself understands."""

MOST_BYTES = 256 * 1024


class PromptCommand(Struct, frozen=True, kw_only=True):
    """One prompt command.

    Attributes:
        name: Its file's name without ``.md``.
        description: What it does, in one line; may be empty.
        body: The prompt, with placeholders.
        path: Its file.
        source: Whose it is.
        argument_hint: What to type behind its name; may be empty.
        allowed_tools: The only tools that its prompt may use; None for all.
        model: The model for its prompt; empty for the session's.
    """

    name: str
    description: str
    body: str
    path: str = ""
    source: Source = "user"
    argument_hint: str = ""
    allowed_tools: tuple[str, ...] | None = None
    model: str = ""


def parse_command(
    text: str, *, name: str, path: str, source: Source = "user"
) -> tuple[PromptCommand, tuple[Remark, ...]]:
    """Return the command of a file, and what was odd about the file. Pure.

    Args:
        text: The file.
        name: The file's name without ``.md``.
        path: Where it came from.
        source: Whose it is.

    Raises:
        Unusable: If it cannot be used; says why.
    """
    if called(name) in RESERVED:
        raise Unusable(f"/{name} is a command of ZPI itself.", hint="Rename the file.")
    header = parse_frontmatter(text)
    # A list of tools narrows what may be done: half understood it would widen it.
    odd = list(bent(header, strict={"allowed-tools"}))
    description, cut = described(header)
    odd.extend(cut)
    if not header.body.strip():
        raise Unusable("It holds no prompt.", hint="Write the prompt below its header.")
    if _shell().search(header.body):
        odd.append(
            Remark(
                "It holds !`…`, which other programs run in a shell; here it stays text.",
                "Ask for the command in the prompt instead.",
            )
        )
    command = PromptCommand(
        name=name,
        description=description or first_paragraph(header.body)[:200],
        body=header.body,
        path=path,
        source=source,
        argument_hint=hint_field(header.fields, "argument-hint"),
        allowed_tools=names_field(header.fields, "allowed-tools"),
        model=text_field(header.fields, "model"),
    )
    return command, tuple(odd)


@cache
def _shell() -> re.Pattern[str]:
    return re.compile(r"(?:^|\s)!`[^`]+`|^```!", re.MULTILINE)


def expand_command(command: PromptCommand, arguments: str = "") -> str:
    """Return the prompt of a command with the arguments in it. Pure."""
    return expand_arguments(command.body, arguments)


def scan_commands(folders: Sequence[Folder]) -> Found[PromptCommand]:
    """Read the commands in the folders, one level deep."""
    commands: list[PromptCommand] = []
    problems: list[ResourceProblem] = []
    for folder in folders:
        for path, text in markdown_files(folder, "command", most=MOST_BYTES, problems=problems):
            try:
                command, odd = parse_command(
                    text, name=path.stem, path=str(path), source=folder.source
                )
            except Unusable as error:
                problems.append(problem("command", folder, path, about=error))
            else:
                commands.append(command)
                problems.extend(remarks("command", folder, path, about=odd))
    winners, overridden = last_wins("command", commands)
    return Found(
        items=winners,
        overridden=overridden,
        problems=tuple(problems),
        folders=tuple(folder.path for folder in folders),
    )
