"""Which environment variables a test may see."""

import os
import re
from collections.abc import Iterable

# Keys, addresses and settings of the person or machine that runs the tests.
PERSONAL = re.compile(
    r".*(API_?KEY|ACCESS_KEY|SECRET|TOKEN|CREDENTIAL|PASSWORD).*"
    r"|(ZPI|ANTHROPIC|OPENAI|CLAUDE|OLLAMA|LMSTUDIO|XDG|GIT|AWS|AZURE|GOOGLE|GEMINI|MISTRAL|GROQ"
    r"|DEEPSEEK|OPENROUTER|MOONSHOT|DASHSCOPE)_.*"
    r"|(ALL|HTTPS?|NO|FTP)_PROXY"
)
KEPT = frozenset({"ZPI_NIGHTLY", "ZPI_TEST_POSTGRES_URL"})


def personal_variables(names: Iterable[str]) -> list[str]:
    """Return those names that a test must not inherit."""
    return [name for name in names if name not in KEPT and PERSONAL.fullmatch(name.upper())]


def isolated_environment(home: str) -> dict[str, str]:
    """Return the variables that put all that a test stores under ``home``."""
    return {
        "HOME": home,
        "USERPROFILE": home,
        "ZPI_AGENT_DIR": os.path.join(home, ".zpi", "agent"),
        # Neither the machine's git settings nor a prompt for a password.
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_AUTHOR_NAME": "Test",
        "GIT_AUTHOR_EMAIL": "test@example.invalid",
        "GIT_COMMITTER_NAME": "Test",
        "GIT_COMMITTER_EMAIL": "test@example.invalid",
    }
