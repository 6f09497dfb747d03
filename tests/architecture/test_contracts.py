"""The import contracts hold, and each of them would notice a violation."""

import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.support.repository import PACKAGES, ROOT

LINTER = Path(sys.executable).with_name("lint-imports")

# For each contract, files that break it and nothing else.
SEEDS = {
    "sdk-layers": {"agent_sdk/core/seeded.py": "import agent_sdk.loop\n"},
    "packages": {"agent_sdk/core/seeded.py": "import desktop.bridge\n"},
    "sdk-surface": {"desktop/host/seeded.py": "import agent_sdk.session.manager\n"},
    "desktop-layers": {"desktop/host/seeded.py": "import desktop.gui\n"},
    "gui-via-bridge": {"desktop/gui/seeded.py": "import sqlalchemy\n"},
    "qt-edge": {"desktop/host/seeded.py": "import PySide6\n"},
    "no-cycles": {
        "agent_sdk/core/seeded.py": "import agent_sdk.core.seeded_too\n",
        "agent_sdk/core/seeded_too.py": "import agent_sdk.core.seeded\n",
    },
    "sdk-is-lean": {"agent_sdk/core/seeded.py": "import PySide6\n"},
    "loop-knows-ports-only": {"agent_sdk/loop/seeded.py": "import httpx\n"},
}


def contracts() -> list[str]:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    return [contract["id"] for contract in settings["tool"]["importlinter"]["contracts"]]


def lint(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [LINTER, "--no-cache", *arguments], cwd=folder, capture_output=True, text=True, check=False
    )


def test_contracts_hold() -> None:
    outcome = lint(ROOT)
    assert outcome.returncode == 0, outcome.stdout


def test_every_contract_has_a_seed() -> None:
    assert sorted(SEEDS) == sorted(contracts())


@pytest.mark.parametrize("contract", sorted(SEEDS))
def test_seeded_violation_is_caught(contract: str, tmp_path: Path) -> None:
    for package in PACKAGES:
        ignored = shutil.ignore_patterns("__pycache__", "*.gguf")
        shutil.copytree(package, tmp_path / package.name, ignore=ignored)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    for name, text in SEEDS[contract].items():
        (tmp_path / name).write_text(text, encoding="utf-8")

    outcome = lint(tmp_path, "--contract", contract)

    assert outcome.returncode == 1, outcome.stdout
    assert "seeded" in outcome.stdout
