"""Skills: folders with a ``SKILL.md`` that the model reads when it needs to.

A skill is called by its folder's name; of two the last one wins, so a
project's goes before a user's. Only the header is read when folders are
scanned; the text is read when the skill is used. ``allowed-tools`` and other
fields that would change what may be done have no effect.
"""

from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from agent_sdk.core.frontmatter import Frontmatter, parse_frontmatter
from agent_sdk.resources.arguments import expand_arguments
from agent_sdk.resources.fields import (
    bent,
    called,
    described,
    first_paragraph,
    flag_field,
    hint_field,
    text_field,
)
from agent_sdk.resources.files import is_folder, list_folder, read_head, read_text
from agent_sdk.resources.found import Found, last_wins, problem, remarks
from agent_sdk.resources.places import Folder
from agent_sdk.resources.problems import Remark, ResourceProblem, Source, Unusable, shown

FILE = "SKILL.md"
HEAD_BYTES = 64 * 1024
"""A header must end within so many bytes."""

MOST_BYTES = 512 * 1024
"""Largest skill text."""

NO_EFFECT = frozenset(
    {
        *("allowed-tools", "disallowed-tools", "tools", "model", "effort", "context", "agent"),
        *("hooks", "background", "shell", "paths", "permissionMode", "mcpServers"),
    }
)
"""Header fields that have a meaning elsewhere and none here."""


class Skill(Struct, frozen=True, kw_only=True):
    """One skill.

    Attributes:
        name: Its folder's name, by which it is called.
        description: When to use it, in one line.
        path: Its ``SKILL.md``.
        source: Whose it is.
        within: Real path that its links must not lead out of; empty for the user's.
        listed: Whether the model is told of it.
        user_invocable: Whether the user may call it.
        argument_hint: What to type behind its name; may be empty.
        no_effect: Header fields that have no effect here.
    """

    name: str
    description: str
    path: str
    source: Source = "user"
    within: str = ""
    listed: bool = True
    user_invocable: bool = True
    argument_hint: str = ""
    no_effect: tuple[str, ...] = ()


def parse_skill(
    text: str, *, name: str, path: str, source: Source = "user", within: str = ""
) -> tuple[Skill, tuple[Remark, ...]]:
    """Return the skill of a ``SKILL.md``, and what was odd about the file. Pure.

    Args:
        text: The file, or its beginning with the whole header.
        name: The folder's name.
        path: Where it came from.
        source: Whose it is.
        within: See ``Skill``.

    Raises:
        Unusable: If it cannot be used; says why.
    """
    header = parse_frontmatter(text)
    odd = list(bent(header))
    description, cut = described(header)
    odd.extend(cut)
    fields = header.fields
    skill = Skill(
        name=called(name),
        description=description or first_paragraph(header.body)[:1024],
        path=path,
        source=source,
        within=within,
        listed=not flag_field(fields, "disable-model-invocation", default=False),
        user_invocable=flag_field(fields, "user-invocable", default=True),
        argument_hint=hint_field(fields, "argument-hint"),
        no_effect=tuple(sorted(NO_EFFECT & fields.keys())),
    )
    if not skill.description:
        raise Unusable(
            "It has no description, so nobody could know when to use it.",
            hint="Add 'description: …' to its header.",
        )
    odd.extend(_about_name(header, name))
    return skill, tuple(odd)


def _about_name(header: Frontmatter, name: str) -> list[Remark]:
    declared = text_field(header.fields, "name")
    if not declared or declared == name:
        return []
    text = f"It calls itself {declared[:80]!r}, but is called by its folder: {name!r}."
    return [Remark(text, "Give both the same name.")]


def scan_skills(folders: Sequence[Folder]) -> Found[Skill]:
    """Read the headers of the skills in the folders, one level deep."""
    skills: list[Skill] = []
    problems: list[ResourceProblem] = []
    listed: list[Path] = []
    for folder in folders:
        listed.append(folder.path)
        try:
            names = list_folder(folder.path, within=folder.within)
        except Unusable as error:
            problems.append(problem("skill", folder, folder.path, about=error))
            continue
        for name in names:
            path = folder.path / name
            if name.startswith(".") or not _may_be_skill(path):
                continue  # notes and licences beside the skills
            listed.append(path)
            try:
                skill, odd = _read_skill(folder, name)
            except Unusable as error:
                problems.append(problem("skill", folder, path, about=error))
            else:
                skills.append(skill)
                problems.extend(remarks("skill", folder, path, about=odd))
    winners, overridden = last_wins("skill", skills)
    return Found(
        items=winners, overridden=overridden, problems=tuple(problems), folders=tuple(listed)
    )


def _may_be_skill(path: Path) -> bool:
    return is_folder(path) or (path.is_symlink() and not path.is_file())


def _read_skill(folder: Folder, name: str) -> tuple[Skill, tuple[Remark, ...]]:
    path = folder.path / name / FILE
    head = read_head(path, most=HEAD_BYTES, within=folder.within)
    if head is None:
        if not is_folder(folder.path / name):
            raise Unusable("It is a link that leads nowhere.", hint="Remove or mend the link.")
        raise Unusable(f"It holds no {FILE}.", hint=f"Add a {FILE}, or move the folder elsewhere.")
    within = str(folder.within) if folder.within else ""
    return parse_skill(head.text, name=name, path=str(path), source=folder.source, within=within)


def read_skill(skill: Skill, arguments: str = "") -> str:
    """Return a skill's text as the model shall read it, from the disk as it is now.

    Args:
        skill: The skill.
        arguments: What the user typed behind its name.

    Raises:
        Unusable: If its file cannot be read any more; the text names it.
    """
    within = Path(skill.within) if skill.within else None
    try:
        text = read_text(Path(skill.path), most=MOST_BYTES, within=within)
    except Unusable as error:
        raise Unusable(f"{shown(skill.path)!r}: {error.message}", hint=error.hint) from None
    if text is None:
        raise Unusable(
            f"{shown(skill.path)!r} is gone.", hint=f"Put the skill {skill.name!r} back."
        )
    return expand_skill(
        parse_frontmatter(text).body, folder=str(Path(skill.path).parent), arguments=arguments
    )


def expand_skill(body: str, *, folder: str, arguments: str = "") -> str:
    """Return a skill's text with its folder and the arguments put in. Pure."""
    place = shown(folder)
    variables = {"CLAUDE_SKILL_DIR": place, "ZPI_SKILL_DIR": place}
    return expand_arguments(body, arguments, variables=variables)
