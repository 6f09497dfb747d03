"""The system prompt, in named sections that stay the same between requests.

Sections that differ from machine to machine come last, so that the part
before them is one prefix for the provider's cache. The text is package data
(``agent_sdk/prompts``).
"""

import sys
from collections.abc import Sequence
from pathlib import Path

from agent_sdk.loop.types import Tool
from agent_sdk.plugins.merge import Instruction
from agent_sdk.providers.base import PromptSection
from agent_sdk.resources.loader import Resources
from agent_sdk.resources.sections import instructions_section, skills_section

PROMPTS = Path(__file__).resolve().parent.parent / "prompts"
SYSTEMS = {"linux": "Linux", "darwin": "macOS", "win32": "Windows"}


def read_prompt(name: str) -> str:
    """Return a packaged prompt without its final newline.

    Args:
        name: File name without ``.md``.
    """
    return (PROMPTS / f"{name}.md").read_text(encoding="utf-8").rstrip("\n")


def system_sections(
    *,
    cwd: str,
    tools: Sequence[Tool],
    base: str | None = None,
    instructions: Sequence[Instruction] = (),
    custom_instructions: str = "",
    resources: Resources | None = None,
) -> tuple[PromptSection, ...]:
    """Return the sections of the default system prompt.

    Args:
        cwd: The session's folder.
        tools: The tools in force; those without any leave out the talk of calls.
        base: Text in the place of ZPI's own instructions.
        instructions: The plugins' static texts, a section for each plugin.
        custom_instructions: The caller's own text; left out if empty.
        resources: Instructions and skills that were found.
    """
    resources = resources or Resources()
    texts: dict[str, list[str]] = {}
    for each in instructions:
        texts.setdefault(each.plugin_id, []).append(each.text)
    environment = (
        "# Where you are\n"
        f"- Folder: {cwd}\n"
        f"- System: {SYSTEMS.get(sys.platform, sys.platform)}\n"
        f"- Tools: {', '.join(tool.name for tool in tools) or 'none'}"
    )
    sections = (
        PromptSection("instructions", read_prompt("system") if base is None else base),
        *(PromptSection(f"plugin:{name}", "\n\n".join(parts)) for name, parts in texts.items()),
        PromptSection("custom_instructions", custom_instructions),
        instructions_section(resources.instructions),
        skills_section(resources.skills) if any(t.name == "read" for t in tools) else None,
        PromptSection("environment", environment),
    )
    return tuple(each for each in sections if each is not None and each.text.strip())
