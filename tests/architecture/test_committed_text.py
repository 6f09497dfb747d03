"""What is committed names no machine, no registry and no workplace."""

import re

import pytest

from tests.support.repository import ROOT, committed_files

# Written so that this file does not match itself.
FORBIDDEN = re.compile(rb"/wor[k]/|\.librar[y]/|pypi[.]org|pythonhoste[d]|npmjs[.]|deb[.]debian")
LARGEST = 1 << 20


def findings(text: bytes) -> list[str]:
    return [match[0].decode() for match in FORBIDDEN.finditer(text)]


def test_nothing_committed_names_a_machine_or_a_registry() -> None:
    found = {}
    for path in committed_files():
        data = path.read_bytes()
        if b"\0" not in data[:8192] and len(data) <= LARGEST and (names := findings(data)):
            found[str(path.relative_to(ROOT))] = names
    assert found == {}


def test_repository_is_seen() -> None:
    assert {ROOT / "pyproject.toml", ROOT / "agent_sdk" / "__init__.py"} <= set(committed_files())


@pytest.mark.parametrize(
    "text",
    [
        "/wor" + "k/main",
        "https://pypi" + ".org/simple",
        "deb" + ".debian.example",
        "npmjs" + ".com",
    ],
)
def test_names_are_found(text: str) -> None:
    assert findings(f"see {text} for more".encode()) != []


def test_plain_text_passes() -> None:
    assert findings(b"Work in the library; install from the package index.") == []
