"""Instructions and skills as sections of the system prompt. Pure.

The same resources give the same bytes, so that the provider's cache holds.
Texts of other people are kept in their place: a description is escaped, and a
file of instructions cannot close the element it stands in, nor open one of
ours.
"""

import re
from collections.abc import Sequence
from functools import cache

from agent_sdk.providers.base import PromptSection
from agent_sdk.resources.instructions import Instruction
from agent_sdk.resources.problems import shown
from agent_sdk.resources.skills import Skill

SKILL_BUDGET = 24_000
"""Most characters of the list of skills."""

_TAGS = ("project_context", "project_instructions", "skills", "skill")
_CUTS = (1024, 512, 256, 128, 64)

_ABOUT_INSTRUCTIONS = (
    "The user and the project have written down what you should know and keep to here. "
    "Where two of these disagree, the later one holds, and what the user says in the "
    "conversation comes before all of them."
)
_ABOUT_SKILLS = (
    "Skills are instructions for particular kinds of work. When a task fits a description, "
    "read the skill's file first and follow it; paths in it are relative to its folder."
)


def instructions_section(instructions: Sequence[Instruction]) -> PromptSection | None:
    """Return the section of instructions; None if there are none.

    A file that was left out is named with an ``[ERROR]`` line, so that the
    model does not believe that it has read it.
    """
    if not instructions:
        return None
    parts = ["<project_context>", _ABOUT_INSTRUCTIONS]
    for item in instructions:
        if item.error:
            parts.append(f"[ERROR] {escaped(item.path)} was left out: {escaped(item.error)}")
            continue
        parts.append(
            f'<project_instructions path="{escaped(item.path)}">\n{contained(item.text)}\n'
            "</project_instructions>"
        )
    parts.append("</project_context>")
    return PromptSection("project_context", "\n\n".join(parts))


def skills_section(skills: Sequence[Skill], *, budget: int = SKILL_BUDGET) -> PromptSection | None:
    """Return the section that lists the skills; None if the model is told of none.

    Args:
        skills: The skills, by name.
        budget: Most characters; where they are too many, descriptions are
            shortened, and in the end the last skills are left out and counted.
    """
    listed = [skill for skill in skills if skill.listed]
    if not listed:
        return None
    for most in _CUTS:
        lines = [_skill_line(skill, most) for skill in listed]
        if _length(lines) <= budget:
            break
    else:
        lines = _fitting([_skill_line(skill, _CUTS[-1]) for skill in listed], budget)
    text = "\n".join(["<skills>", _ABOUT_SKILLS, *lines, "</skills>"])
    return PromptSection("skills", text)


def escaped(text: str) -> str:
    """Return the text as it can stand inside an element or an attribute."""
    return (
        text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")
    )


def contained(text: str) -> str:
    """Return a text of several lines that neither opens nor closes one of our elements.

    Everything else stays as it was written.
    """
    return _tag().sub(lambda match: "&lt;" + match[0][1:], text)


@cache
def _tag() -> re.Pattern[str]:
    return re.compile(rf"<(?=[\s/]*(?:{'|'.join(_TAGS)})\b)", re.IGNORECASE)


def _skill_line(skill: Skill, most: int) -> str:
    description = skill.description
    if len(description) > most:
        description = description[: most - 1].rstrip() + "…"
    return (
        f'<skill name="{escaped(skill.name)}" path="{escaped(shown(skill.path))}">'
        f"{escaped(description)}</skill>"
    )


def _length(lines: Sequence[str]) -> int:
    return sum(map(len, lines)) + len(lines)


def _fitting(lines: list[str], budget: int) -> list[str]:
    """Return the first lines that fit, and one that says how many do not."""
    kept, used = list[str](), 0
    for line in lines:
        used += len(line) + 1
        if used > budget:
            break
        kept.append(line)
    return [*kept, f"({len(lines) - len(kept)} more skills are not listed for want of room.)"]
