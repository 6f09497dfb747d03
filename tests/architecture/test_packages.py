"""Every folder of the SDK is a package that says what it owns."""

import ast
from pathlib import Path

import pytest

from tests.support.repository import PACKAGE, ROOT, modules

FOLDERS = sorted({path.parent for path in modules()})


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: str(path.relative_to(ROOT)))
def test_package_says_what_it_owns(folder: Path) -> None:
    text = (folder / "__init__.py").read_text(encoding="utf-8")
    assert ast.get_docstring(ast.parse(text))


def test_packages_are_found() -> None:
    assert {PACKAGE, PACKAGE / "core", PACKAGE / "loop"} <= set(FOLDERS)


def test_packaging_is_no_package() -> None:
    # It would hide the library of that name from everything that runs in the root.
    assert not (ROOT / "packaging" / "__init__.py").exists()
