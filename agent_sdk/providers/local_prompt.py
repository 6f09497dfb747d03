"""The words with which the embedded model is asked; package data, not code."""

from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

PROMPT_FILE = Path(__file__).with_name("local_prompt.json")


class Choose(Struct, frozen=True, forbid_unknown_fields=True):
    """How the small model is asked what to do.

    Attributes:
        system: First lines of the system prompt.
        answer: What the branch without a tool is for.
        tools: What each tool is for; tools that are not here are described by
            the beginning of their own description.
        examples: Request, name of the branch and its arguments. The model
            copies what it sees last, so their order matters: see the tests.
    """

    system: str
    answer: str
    tools: dict[str, str]
    examples: tuple[tuple[str, str, dict[str, Any]], ...]


class Explain(Struct, frozen=True, forbid_unknown_fields=True):
    """How the small model is asked about a tool's result.

    Attributes:
        system: System prompt.
        whole: A file that is shown whole.
        part: A file of which the beginning is shown.
        question: What is wanted.
        sentences: Grammar of one or two sentences; left to itself, a model of
            this size does not stop.
        output: How an answer about a command begins.
        failed: How an answer about a call that failed begins.
        nothing: Stands for a result without a line.
    """

    system: str
    whole: str
    part: str
    question: str
    sentences: tuple[str, ...]
    output: str
    failed: str
    nothing: str


class Chat(Struct, frozen=True, forbid_unknown_fields=True):
    """How a model of the user's own is asked."""

    system: str
    answer: str
    plain: str
    result: str
    failed: str


class LocalPrompt(Struct, frozen=True, forbid_unknown_fields=True):
    """All of it; ``cut`` stands where a text was shortened."""

    choose: Choose
    explain: Explain
    chat: Chat
    cut: str


def load_prompt() -> LocalPrompt:
    """Read the words that ship with ZPI."""
    return msgspec.json.decode(PROMPT_FILE.read_bytes(), type=LocalPrompt)
