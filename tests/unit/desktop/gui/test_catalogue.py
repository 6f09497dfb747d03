"""Every text of the window has its Chinese, with the same places; no text is left over."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from desktop.gui import i18n
from desktop.gui.i18n import LANGUAGES, load_catalogue, set_language, tr
from tests.support.repository import ROOT

PLACES = re.compile(r"{(\w*)}")


def calls(tree: ast.AST) -> Iterator[ast.Call]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "tr":
            yield node


def sources() -> dict[Path, ast.Module]:
    found = sorted((ROOT / "desktop" / "gui").rglob("*.py"))
    return {path: ast.parse(path.read_text("utf-8")) for path in found}


def texts() -> dict[str, str]:
    """Text → the file in which it stands."""
    return {
        str(node.args[0].value): path.name
        for path, tree in sources().items()
        for node in calls(tree)
        if isinstance(node.args[0], ast.Constant)
    }


def test_every_text_is_a_literal() -> None:
    loose = [
        f"{path.name}:{node.lineno}"
        for path, tree in sources().items()
        for node in calls(tree)
        if len(node.args) != 1
        or not isinstance(node.args[0], ast.Constant)
        or not isinstance(node.args[0].value, str)
    ]
    assert loose == []


def test_every_text_is_given_what_its_places_need() -> None:
    wrong = []
    for path, tree in sources().items():
        for node in calls(tree):
            text = node.args[0]
            assert isinstance(text, ast.Constant)
            given = {each.arg for each in node.keywords}
            if set(PLACES.findall(str(text.value))) != given:
                wrong.append(f"{path.name}:{node.lineno} {text.value!r} {given}")
    assert wrong == []


@pytest.mark.parametrize("language", [each for each in LANGUAGES if each != "en"])
class TestCatalogue:
    def test_is_complete(self, language: i18n.Language) -> None:
        catalogue = load_catalogue(language)
        missing = {text: where for text, where in texts().items() if text not in catalogue}
        assert missing == {}

    def test_holds_nothing_that_is_not_used(self, language: i18n.Language) -> None:
        assert sorted(load_catalogue(language).keys() - texts().keys()) == []

    def test_has_the_same_places(self, language: i18n.Language) -> None:
        wrong = {
            text: shown
            for text, shown in load_catalogue(language).items()
            if sorted(PLACES.findall(text)) != sorted(PLACES.findall(shown))
        }
        assert wrong == {}

    def test_says_something(self, language: i18n.Language) -> None:
        assert [text for text, shown in load_catalogue(language).items() if not shown.strip()] == []


def test_the_language_is_chosen() -> None:
    assert tr("Settings") == "Settings"
    set_language("zh")
    assert tr("Settings") == "设置"
    assert tr("{hours} h", hours=3) == "3 小时"
    set_language("en")
    assert tr("{hours} h", hours=3) == "3 h"


def test_braces_in_values_are_text() -> None:
    assert tr("Ready: {model}.", model="{x} {") == "Ready: {x} {."
