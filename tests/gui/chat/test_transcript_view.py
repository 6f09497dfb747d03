"""The transcript as it is seen: bounded work, and nothing moves that should not."""

from collections.abc import Callable

import pytest
from PySide6.QtCore import QEvent, QObject, Qt, QTimer
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QApplication, QWidget
from pytestqt.qtbot import QtBot
from typing_extensions import override

from agent_sdk.events.projection import JOIN_SECONDS
from desktop.bridge.messages import TranscriptMessage, TranscriptPage
from desktop.bridge.protocol import MessagesRead, ReadMessages
from desktop.gui.chat.cards import Card
from desktop.gui.chat.chat_page import ChatPage
from desktop.gui.chat.row_layout import Anchor
from desktop.gui.chat.segments import HARD_SEGMENT
from desktop.gui.chat.text_card import ProseCard
from desktop.gui.chat.transcript_view import FRAME_MS
from desktop.gui.theme import Theme
from tests.support import chat_samples as make
from tests.support.fake_bridge import FakeBridge

Settle = Callable[[], None]

PROSE = "Some *words* that are said, and `code` between them.\n\n"


def turns(count: int) -> list[TranscriptMessage]:
    found = []
    for n in range(count):
        found.append(make.user(f"u{n}", f"prompt {n}"))
        found.append(make.answer(f"r{n}.1", make.text(f"r{n}.1.0", PROSE * 8)))
    return found


def places(page: ChatPage) -> dict[int, int]:
    """Where each card is that can be seen, by its row."""
    return {
        id(card.row): card.y()
        for card in page.view.pool.visible()
        if card.row is not None and not card.isHidden()
    }


def moved(before: dict[int, int], after: dict[int, int]) -> set[int]:
    assert before.keys() & after.keys()
    return {after[row] - before[row] for row in before.keys() & after.keys()}


def start_answer(bridge: FakeBridge, events: make.Events) -> None:
    bridge.tell(events.running(), events.begin("live.1"))
    bridge.tell(events.part("live.1", make.text("live.1.0", "")))


def test_twenty_thousand_messages_open_by_their_sizes_alone(
    page: ChatPage, fake_bridge: FakeBridge, settle: Settle
) -> None:
    fake_bridge.hold = True
    page.show_session(make.opened(turns(25), before=[500] * 19_950))
    settle()
    assert page.model.count == 20_000
    assert page.view.pool.size < 40
    made = sum(1 for at in range(20_000) if at in page.view.places._rows)
    assert made <= 51  # the tail page and the end; no row was made for the rest
    assert page.view.verticalScrollBar().maximum() > 1_000_000
    assert page.view.verticalScrollBar().value() == page.view.verticalScrollBar().maximum()
    assert fake_bridge.of(ReadMessages) == []


def test_what_arrives_is_shown_within_a_frame_of_fifty_milliseconds() -> None:
    # The host joins deltas first, then the view waits; painting needs some of the rest.
    assert JOIN_SECONDS * 1000 + FRAME_MS <= 45


def test_pages_are_asked_for_where_the_reader_is_and_only_once(
    page: ChatPage, fake_bridge: FakeBridge, settle: Settle, qtbot: QtBot
) -> None:
    fake_bridge.hold = True
    page.show_session(make.opened(turns(5), before=[500] * 990))
    page.view.verticalScrollBar().setValue(page.view.verticalScrollBar().maximum() // 2)
    qtbot.waitUntil(lambda: bool(fake_bridge.of(ReadMessages)))
    asked = fake_bridge.last(ReadMessages)
    seen = page.view.places.anchor.entry
    assert asked.first <= seen < asked.first + asked.count <= 990
    page.view.relayout()
    qtbot.wait(100)
    assert len(fake_bridge.of(ReadMessages)) == 1

    before = places(page)
    messages = tuple(
        make.answer(f"old{n}", make.text(f"old{n}.0", PROSE * 9))
        for n in range(asked.first, asked.first + asked.count)
    )
    fake_bridge.answer(MessagesRead(page=TranscriptPage(first=asked.first, messages=messages)))
    settle()
    assert before
    assert all(c.row is not None and c.row.kind != "blank" for c in page.view.pool.visible())


def test_a_page_that_fails_is_asked_for_again(
    page: ChatPage, fake_bridge: FakeBridge, qtbot: QtBot
) -> None:
    fake_bridge.fail(ReadMessages, code="storage", text="no")
    page.show_session(make.opened(turns(1), before=[500] * 300))
    page.view.go_to(Anchor(100, 0, 0))
    qtbot.waitUntil(lambda: bool(fake_bridge.of(ReadMessages)))
    first = len(fake_bridge.of(ReadMessages))
    page.view.relayout()
    qtbot.waitUntil(lambda: len(fake_bridge.of(ReadMessages)) > first)


def test_cards_are_used_again_while_scrolling(page: ChatPage, settle: Settle) -> None:
    page.show_session(make.opened(turns(300)))
    settle()
    bar = page.view.verticalScrollBar()
    largest = 0
    for _ in range(120):
        bar.setValue(bar.value() - 240)
        largest = max(largest, page.view.pool.size)
    assert largest < 40
    assert len(page.view.viewport().findChildren(Card)) < 60


@pytest.mark.parametrize("back", [1, 400, 3000])
def test_a_stream_does_not_move_what_is_read_above_it(
    page: ChatPage, fake_bridge: FakeBridge, settle: Settle, back: int
) -> None:
    page.show_session(make.opened(turns(20)))
    events = make.Events()
    start_answer(fake_bridge, events)
    fake_bridge.tell(events.delta("live.1", "live.1.0", PROSE * 40))
    settle()
    bar = page.view.verticalScrollBar()
    bar.setValue(bar.value() - back)
    before = places(page)
    for _ in range(15):
        fake_bridge.tell(events.delta("live.1", "live.1.0", PROSE * 3))
        settle()
        assert moved(before, places(page)) == {0}
    assert not page.view.places.sticks
    assert not page.jump.isHidden()


def test_at_the_bottom_the_end_stays_in_view(
    page: ChatPage, fake_bridge: FakeBridge, settle: Settle
) -> None:
    page.show_session(make.opened(turns(20)))
    events = make.Events()
    start_answer(fake_bridge, events)
    for _ in range(15):
        fake_bridge.tell(events.delta("live.1", "live.1.0", PROSE * 3))
        settle()
        bar = page.view.verticalScrollBar()
        assert bar.value() == bar.maximum()
        assert page.jump.isHidden()


def test_the_way_back_counts_what_is_new(
    page: ChatPage, fake_bridge: FakeBridge, settle: Settle
) -> None:
    page.show_session(make.opened(turns(20)))
    settle()
    page.view.verticalScrollBar().setValue(10)
    events = make.Events()
    for n in range(3):
        fake_bridge.tell(*events.message(make.answer(f"x{n}", make.text(f"x{n}.0", "more"))))
    settle()
    assert page.jump.text() == "↓ Jump to latest (3 new)"
    page.jump.click()
    assert page.view.places.sticks
    assert page.jump.isHidden()


def test_sending_goes_back_to_the_end(
    page: ChatPage, fake_bridge: FakeBridge, settle: Settle
) -> None:
    page.show_session(make.opened(turns(20)))
    settle()
    page.view.verticalScrollBar().setValue(10)
    fake_bridge.tell(*make.Events().message(make.user("new", "Go on.")))
    settle()
    assert page.view.places.sticks


def test_a_session_is_found_again_where_it_was_left(page: ChatPage, settle: Settle) -> None:
    page.show_session(make.opened(turns(20)))
    settle()
    page.view.verticalScrollBar().setValue(700)
    left = page.view.places.anchor
    page.show_session(make.opened(turns(3), session_id="s2"))
    settle()
    page.show_session(make.opened(turns(20)))
    settle()
    assert page.view.places.anchor == left


class TestStreaming:
    def test_a_long_answer_comes_in_pieces_that_stay_small(
        self,
        page: ChatPage,
        fake_bridge: FakeBridge,
        settle: Settle,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        """100 KB: each frame parses and lays out its end only, and few rows are made again."""
        parsed: list[int] = []
        shown: list[str] = []
        show = ProseCard.show_row

        def watch(card: ProseCard, row: object) -> None:
            show(card, row)  # type: ignore[arg-type]
            parsed.append(card.blocks.parsed)
            shown.append(card.body.toPlainText())

        monkeypatch.setattr(ProseCard, "show_row", watch)
        page.show_session(make.opened([make.user("u", "Write a lot.")]))
        events = make.Events()
        start_answer(fake_bridge, events)
        text = (PROSE * 3 + "```python\nprint('x')\n```\n\n- item\n- item\n\n") * 450
        text = text[:100_000]
        for at in range(0, len(text), 800):
            before = len(parsed)
            fake_bridge.tell(events.delta("live.1", "live.1.0", text[at : at + 400]))
            fake_bridge.tell(events.delta("live.1", "live.1.0", text[at + 400 : at + 800]))
            assert len(parsed) == before  # events alone draw nothing
            page.view.flush()
            assert len(parsed) - before <= 12
        assert max(parsed) <= HARD_SEGMENT
        assert max(len(each) for each in shown) <= HARD_SEGMENT + 4096
        message = page.model.message(1)
        assert message is not None
        assert message.markdown() == text.strip("\n")
        assert page.view.pool.size < 60
        settle()

    def test_many_deltas_make_one_frame(
        self,
        page: ChatPage,
        fake_bridge: FakeBridge,
        settle: Settle,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        page.show_session(make.opened([]))
        events = make.Events()
        start_answer(fake_bridge, events)
        settle()
        frames = []
        monkeypatch.setattr(page.view, "relayout", lambda: frames.append(1))
        for _ in range(200):
            fake_bridge.tell(events.delta("live.1", "live.1.0", "word "))
        assert frames == []
        page.view.flush()
        assert frames == [1]

    def test_what_is_selected_stays_selected(
        self, page: ChatPage, fake_bridge: FakeBridge, settle: Settle
    ) -> None:
        page.show_session(make.opened([]))
        events = make.Events()
        start_answer(fake_bridge, events)
        fake_bridge.tell(events.delta("live.1", "live.1.0", "Choose these words. "))
        settle()
        card = page.view.pool.shown(page.view.places.rows(0)[0])
        assert isinstance(card, ProseCard)
        card.body.selectAll()
        chosen = card.body.textCursor().selectedText()
        fake_bridge.tell(events.delta("live.1", "live.1.0", "And more."))
        settle()
        assert card.body.textCursor().selectedText() == chosen
        assert "And more." in card.body.toPlainText()


class Paints(QObject):
    """Counts the paints of all widgets."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    @override
    def eventFilter(self, watched: QObject, event: QEvent, /) -> bool:
        if event.type() in (QEvent.Type.Paint, QEvent.Type.UpdateRequest):
            self.count += 1
        return False


def test_at_rest_nothing_is_painted_and_no_timer_runs(
    page: ChatPage, fake_bridge: FakeBridge, settle: Settle, qtbot: QtBot, qapp: QApplication
) -> None:
    page.show_session(make.opened(turns(20), status="running"))
    events = make.Events()
    start_answer(fake_bridge, events)
    code = "```python\n" + "x = 1\n" * 100 + "```\n"
    fake_bridge.tell(events.delta("live.1", "live.1.0", code + PROSE))
    fake_bridge.tell(events.finish("live.1", ["live.1.0"]), events.idle())
    settle()
    qtbot.waitUntil(lambda: not active_timers(page))
    qtbot.wait(150)
    paints = Paints()
    qapp.installEventFilter(paints)
    qtbot.wait(1000)
    qapp.removeEventFilter(paints)
    assert paints.count == 0
    assert active_timers(page) == []


def active_timers(page: QWidget) -> list[QTimer]:
    return [timer for timer in page.findChildren(QTimer) if timer.isActive()]


def test_while_a_run_goes_on_one_timer_counts_the_seconds(
    page: ChatPage, fake_bridge: FakeBridge, settle: Settle
) -> None:
    page.show_session(make.opened([]))
    events = make.Events()
    fake_bridge.tell(events.running())
    settle()
    assert len(active_timers(page)) == 1
    fake_bridge.tell(events.idle())
    settle()
    assert active_timers(page) == []


def test_theme_and_width_are_followed(page: ChatPage, theme: Theme, settle: Settle) -> None:
    page.show_session(make.opened(turns(10)))
    settle()
    theme.set_mode("dark")
    theme.set_font_size(20)
    settle()
    for width in (480, 1400, 380, 900):
        page.resize(width, 600)
        settle()
        for card in page.view.pool.visible():
            assert card.width() <= min(860, width - 40)
            assert card.arrange(card.width()) == card.height()


def test_prompts_are_reached_by_keys(page: ChatPage, settle: Settle) -> None:
    page.show_session(make.opened(turns(20)))
    settle()

    def press(key: Qt.Key) -> None:
        event = QKeyEvent(QEvent.Type.KeyPress, key, Qt.KeyboardModifier.ControlModifier)
        QApplication.sendEvent(page.view, event)

    press(Qt.Key.Key_Up)
    first = page.view.places.anchor
    assert (first.entry % 2, first.offset) == (0, 0)
    press(Qt.Key.Key_Up)
    assert page.view.places.anchor.entry == first.entry - 2
    press(Qt.Key.Key_Down)
    assert page.view.places.anchor == first
    for _ in range(20):
        press(Qt.Key.Key_Down)
    assert page.view.places.sticks
