"""What all tests of the window share: no screen, no warning of Qt's, settings in a file of their own."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

os.environ["QT_QPA_PLATFORM"] = "offscreen"

from PySide6.QtCore import QEvent, QSettings
from PySide6.QtWidgets import QApplication

from desktop.gui import i18n
from desktop.gui.theme import Theme
from tests.support.fake_bridge import FakeBridge

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Fail a test of the window in which Qt warns."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.qt_log_level_fail("WARNING"))
            item.add_marker(pytest.mark.qt_log_ignore("does not support propagateSizeHints"))


@pytest.fixture(autouse=True)
def english() -> Iterator[None]:
    """Begin and leave in English."""
    i18n.set_language("en")
    yield
    i18n.set_language("en")


@pytest.fixture
def theme(qapp: QApplication) -> Iterator[Theme]:
    """The light theme, applied."""
    theme = Theme(app=qapp, mode="light")
    yield theme
    # Windows of this test are gone before the next one dresses all there are.
    qapp.sendPostedEvents(None, QEvent.Type.DeferredDelete)
    qapp.setStyleSheet("")
    theme.setParent(None)
    theme.deleteLater()


@pytest.fixture
def fake_bridge(qapp: QApplication) -> FakeBridge:
    """A bridge that the test answers for."""
    return FakeBridge()


@pytest.fixture
def store(tmp_path: Path, qapp: QApplication) -> QSettings:
    """Settings of the window, in a file of the test."""
    return QSettings(str(tmp_path / "window.ini"), QSettings.Format.IniFormat)
