"""Every text of the command line has its translation, with the same places to fill in."""

import ast
import re
from pathlib import Path

import pytest

import agent_sdk.cli
from agent_sdk.cli.i18n import load_translator
from agent_sdk.core import errors

FOLDER = Path(agent_sdk.cli.__file__).parent
NAMES = ("tr", "_tr", "_")


def texts() -> set[str]:
    found: set[str] = set()
    for path in FOLDER.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call) or not node.args:
                continue
            name = getattr(node.func, "id", getattr(node.func, "attr", ""))
            first = node.args[0]
            if name in NAMES and isinstance(first, ast.Constant) and isinstance(first.value, str):
                found.add(first.value)
    return found


def catalogue() -> dict[str, str]:
    return dict(load_translator({"LANG": "zh_CN.UTF-8"})._catalogue)


def test_the_catalogue_is_complete_and_has_nothing_else() -> None:
    wanted = texts() | {"Error: {error}"}
    assert len(wanted) > 20
    assert {k for k in catalogue() if not k.startswith("code:")} == wanted


@pytest.mark.parametrize("text", sorted(texts()))
def test_places_to_fill_in_are_the_same(text: str) -> None:
    places = re.compile(r"\{[a-z]+\}")
    assert sorted(places.findall(text)) == sorted(places.findall(catalogue()[text]))


def test_every_kind_of_error_has_a_name() -> None:
    kinds = [
        kind
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, errors.ZpiError)
    ]
    shown = {
        kind.code
        for kind in kinds
        if kind is not errors.ZpiError and not issubclass(kind, errors.ToolError)
    }
    assert {k.removeprefix("code:") for k in catalogue() if k.startswith("code:")} == shown


def test_errors_are_told_in_the_language() -> None:
    zh = load_translator({"LANG": "zh_CN.UTF-8"})
    en = load_translator({"LANG": "C"})
    assert zh.error("disk_full", "No room.") == "错误：磁盘已满，已保存的内容没有丢失。No room."
    assert en.error("disk_full", "No room.") == "Error: No room."
