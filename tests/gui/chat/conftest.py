"""A chat page without a host, shown."""

from collections.abc import Callable

import pytest
from pytestqt.qtbot import QtBot

from desktop.gui.chat.chat_page import ChatPage
from desktop.gui.icons import Icons
from desktop.gui.theme import Theme
from tests.support.fake_bridge import FakeBridge


class Clock:
    """Time that the test makes pass."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


class Desk:
    """What lies around the page: the composer's text, opened links, time."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.links: list[str] = []
        self.composer = ""


@pytest.fixture
def desk() -> Desk:
    return Desk()


@pytest.fixture
def page(qtbot: QtBot, theme: Theme, fake_bridge: FakeBridge, desk: Desk) -> ChatPage:
    page = ChatPage(
        bridge=fake_bridge,
        icons=Icons(theme=theme),
        open_link=desk.links.append,
        composer_empty=lambda: not desk.composer,
        clock=desk.clock,
    )
    qtbot.addWidget(page)
    page.resize(900, 700)
    page.show()
    qtbot.waitExposed(page)
    return page


@pytest.fixture
def settle(qtbot: QtBot, page: ChatPage) -> Callable[[], None]:
    """Let the page show what has changed, now."""

    def now() -> None:
        page.view.flush()
        qtbot.waitUntil(lambda: page.view.complete)
        qtbot.wait(1)

    return now
