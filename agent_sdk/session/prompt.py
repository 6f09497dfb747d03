"""The system prompt, in named sections that stay the same between requests.

Sections that differ from machine to machine come last, so that the part
before them is one prefix for the provider's cache. The text is package data
(``agent_sdk/prompts``).
"""

import sys
from collections.abc import Sequence
from pathlib import Path

from agent_sdk.loop.types import Tool
from agent_sdk.providers.base import PromptSection

PROMPTS = Path(__file__).resolve().parent.parent / "prompts"
SYSTEMS = {"linux": "Linux", "darwin": "macOS", "win32": "Windows"}


def read_prompt(name: str) -> str:
    """Return a packaged prompt without its final newline.

    Args:
        name: File name without ``.md``.
    """
    return (PROMPTS / f"{name}.md").read_text(encoding="utf-8").rstrip("\n")


def system_sections(*, cwd: str, tools: Sequence[Tool]) -> tuple[PromptSection, ...]:
    """Return the sections of the default system prompt.

    Args:
        cwd: The session's folder.
        tools: The tools in force; those without any leave out the talk of calls.
    """
    environment = (
        "# Where you are\n"
        f"- Folder: {cwd}\n"
        f"- System: {SYSTEMS.get(sys.platform, sys.platform)}\n"
        f"- Tools: {', '.join(tool.name for tool in tools) or 'none'}"
    )
    return (
        PromptSection("instructions", read_prompt("system")),
        PromptSection("environment", environment),
    )
