"""Cards: what they show, copy and open."""

from collections.abc import Callable

import pytest
from PySide6.QtCore import QPoint, QUrl
from PySide6.QtGui import QGuiApplication, QTextDocument
from PySide6.QtWidgets import QAbstractButton
from pytestqt.qtbot import QtBot

from agent_sdk.events.wire import SessionError, ToolCompleted, ToolFailed, ToolRunning
from desktop.bridge.protocol import ContinueRun
from desktop.gui import i18n
from desktop.gui.chat.cards import Card, FoldedCard, LineCard, SummaryCard, UserCard
from desktop.gui.chat.chat_page import ChatPage
from desktop.gui.chat.error_card import ErrorCard
from desktop.gui.chat.rich_text import RichText
from desktop.gui.chat.text_card import CodeCard, ProseCard
from desktop.gui.chat.tool_card import ToolCard
from tests.gui.chat.conftest import Desk
from tests.support import chat_samples as make
from tests.support.fake_bridge import FakeBridge

Settle = Callable[[], None]
DIFF = "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-old\n+new\n"


def card(page: ChatPage, entry: int, at: int = 0) -> Card:
    found = page.view.pool.shown(page.view.places.rows(entry)[at])
    assert found is not None
    return found


def show(page: ChatPage, settle: Settle, *messages: object) -> None:
    page.show_session(make.opened(list(messages)))  # type: ignore[arg-type]
    settle()


def clipboard() -> str:
    return QGuiApplication.clipboard().text()


def test_prose_is_rich_and_links_are_opened_by_the_opener_alone(
    page: ChatPage, settle: Settle, desk: Desk
) -> None:
    show(
        page,
        settle,
        make.answer(
            "r.1", make.text("r.1.0", "**b** [good](https://a.de) [bad](file:///etc/passwd)")
        ),
    )
    prose = card(page, 0)
    assert isinstance(prose, ProseCard)
    assert prose.body.toPlainText() == "b good bad"
    prose.body.anchorClicked.emit(QUrl("https://a.de/x"))
    prose.body.anchorClicked.emit(QUrl("file:///etc/passwd"))
    prose.body.anchorClicked.emit(QUrl("javascript:alert(1)"))
    assert desk.links == ["https://a.de/x"]
    assert prose.body.toPlainText() == "b good bad"


def test_nothing_is_ever_loaded(page: ChatPage, settle: Settle) -> None:
    show(page, settle, make.answer("r.1", make.text("r.1.0", "![i](https://a.de/i.png)")))
    body = card(page, 0).findChild(RichText)
    assert body is not None
    kind = QTextDocument.ResourceType.ImageResource
    assert body.loadResource(kind.value, QUrl("file:///etc/hostname")) is None


def test_the_menu_copies_the_message_as_it_was_written(page: ChatPage, settle: Settle) -> None:
    written = "**b**\n\n```python\nx = 1\n```\n\n- *i*"
    show(page, settle, make.answer("r.1", make.text("r.1.0", written)))
    prose = card(page, 0)
    assert isinstance(prose, ProseCard)
    menu = prose.body.menu(QPoint(0, 0))
    names = [action.text() for action in menu.actions()]
    assert names == ["Copy", "Copy message as Markdown", "Select all"]
    menu.actions()[1].trigger()
    assert clipboard() == written
    menu.close()


def test_code_is_copied_without_fences_and_coloured(
    page: ChatPage, settle: Settle, qtbot: QtBot
) -> None:
    long_line = "y = '" + "z" * 9000 + "'"
    show(
        page,
        settle,
        make.answer("r.1", make.text("r.1.0", f"```python\nx = 1  # 注释\n{long_line}\n```\n")),
    )
    code = card(page, 0)
    assert isinstance(code, CodeCard)
    assert code.label.text() == "python"
    assert code.copy_button.accessibleName() == "Copy code"
    code.copy_button.click()
    assert clipboard() == f"x = 1  # 注释\n{long_line}"
    qtbot.waitUntil(lambda: not code.view.colouring)
    assert code.view.document().firstBlock().layout().formats()


def test_code_is_as_high_as_its_lines(page: ChatPage, settle: Settle) -> None:
    for lines in (["x"] * 30, ["中文"] * 30, ["x", "中文", "x" * 400]):
        show(
            page,
            settle,
            make.answer("r.1", make.text("r.1.0", "```\n" + "\n".join(lines) + "\n```")),
        )
        code = card(page, 0)
        assert isinstance(code, CodeCard)
        assert code.view.verticalScrollBar().maximum() == 0


def test_the_users_words_are_plain(page: ChatPage, settle: Settle) -> None:
    show(page, settle, make.user("u", "<b>**x**</b>\n\u202eabc"))
    words = card(page, 0)
    assert isinstance(words, UserCard)
    assert words.body.toPlainText() == "<b>**x**</b>\n‹U+202E›abc"


def test_a_long_prompt_is_cut_until_asked_for(page: ChatPage, settle: Settle) -> None:
    show(page, settle, make.user("u", "word " * 10_000))
    words = card(page, 0)
    assert isinstance(words, UserCard)
    assert len(words.body.toPlainText()) < 25_000
    words.more.click()
    settle()
    assert len(words.body.toPlainText().replace("\n", "")) == 50_000


def test_reasoning_is_folded(page: ChatPage, settle: Settle) -> None:
    show(page, settle, make.answer("r.1", make.reasoning("r.1.0", "First, look.")))
    folded = card(page, 0)
    assert isinstance(folded, FoldedCard)
    assert folded.body.isHidden()
    assert folded.header.accessibleName() == "Reasoning"
    low = folded.height()
    folded.header.click()
    settle()
    assert folded.body.toPlainText() == "First, look."
    assert folded.height() > low


class TestToolCards:
    def test_one_line_at_first(self, page: ChatPage, settle: Settle) -> None:
        change = make.edited("pkg/x.py", DIFF, plus=1, minus=1, seconds=3.21)
        show(page, settle, make.answer("r.1", make.tool("r.1.0", "edit", change)))
        tool = card(page, 0)
        assert isinstance(tool, ToolCard)
        assert tool.height() < 40
        assert tool.header.accessibleName() == "edit pkg/x.py +1 −1 3.2 s"

    def test_unfolded_it_is_a_diff_and_stays_so_when_it_comes_back(
        self, page: ChatPage, settle: Settle
    ) -> None:
        change = make.edited("pkg/x.py", DIFF, plus=1, minus=1)
        messages = [make.answer("r.0", make.tool("r.0.0", "edit", change))]
        messages += [make.user(f"u{n}", "x\n" * 30) for n in range(6)]
        show(page, settle, *messages)
        page.view.verticalScrollBar().setValue(0)
        settle()
        tool = card(page, 0)
        assert isinstance(tool, ToolCard)
        tool.header.click()
        settle()
        assert tool.sections[0].view.toPlainText() == "@@ -1 +1 @@\n-old\n+new"
        page.view.to_bottom()
        page.view.verticalScrollBar().setValue(0)
        settle()
        again = card(page, 0)
        assert isinstance(again, ToolCard)
        assert again.sections[0].view.toPlainText() == "@@ -1 +1 @@\n-old\n+new"

    def test_live_output_grows_and_time_passes(
        self, page: ChatPage, fake_bridge: FakeBridge, settle: Settle, desk: Desk
    ) -> None:
        show(page, settle)
        events = make.Events()
        running = ToolRunning(input={"command": "make"})
        fake_bridge.tell(events.running(), events.begin("r1.1"))
        fake_bridge.tell(events.part("r1.1", make.tool("r1.1.0", "bash", running)))
        settle()
        tool = card(page, 0)
        assert isinstance(tool, ToolCard)
        tool.header.click()
        fake_bridge.tell(events.delta("r1.1", "r1.1.0", "line 1\nline"))
        settle()
        fake_bridge.tell(events.delta("r1.1", "r1.1.0", " 2\n"))
        settle()
        assert tool.sections[0].view.toPlainText() == "$ make"
        assert tool.sections[1].view.toPlainText() == "line 1\nline 2"
        desk.clock.now += 75
        tool.tick()
        assert tool.header.right == [("1 m 15 s", "muted")]

    def test_long_output_shows_its_end_until_asked_for(
        self, page: ChatPage, settle: Settle
    ) -> None:
        output = "\n".join(f"line {n}" for n in range(500))
        done = ToolCompleted(input={"command": "x"}, output=output)
        show(page, settle, make.answer("r.1", make.tool("r.1.0", "bash", done)))
        tool = card(page, 0)
        assert isinstance(tool, ToolCard)
        tool.header.click()
        settle()
        section = tool.sections[1]
        assert section.view.toPlainText().startswith("line 470")
        assert section.more.text() == "Show 470 more lines"
        section.more.click()
        settle()
        assert section.view.toPlainText() == output

    @pytest.mark.parametrize(
        ("state", "word"),
        [
            (ToolFailed(denied=True), "not allowed"),
            (ToolFailed(ran=False), "not run"),
            (ToolRunning(), "interrupted"),
        ],
    )
    def test_how_it_ended_is_said(
        self, page: ChatPage, settle: Settle, state: ToolFailed | ToolRunning, word: str
    ) -> None:
        show(page, settle, make.answer("r.1", make.tool("r.1.0", "bash", state)))
        tool = card(page, 0)
        assert isinstance(tool, ToolCard)
        assert tool.header.right == [(word, "muted")]


def test_an_error_can_be_retried_and_copied(
    page: ChatPage, fake_bridge: FakeBridge, settle: Settle
) -> None:
    show(page, settle, make.user("u", "Hi"))
    events = make.Events()
    fake_bridge.tell(events.running())
    fake_bridge.tell(
        events.of(SessionError(session_id="s1", code="provider", text="529: overloaded"))
    )
    fake_bridge.tell(events.idle("error"))
    settle()
    error = card(page, 0, 1)
    assert isinstance(error, ErrorCard)
    assert error.detail.text() == "529: overloaded"
    error.copy.click()
    assert clipboard() == "provider: 529: overloaded"
    error.retry.click()
    assert fake_bridge.last(ContinueRun).session_id == "s1"
    fake_bridge.tell(events.running("r2"))
    settle()
    assert error.retry.isHidden()


def test_an_interrupted_run_is_continued(
    page: ChatPage, fake_bridge: FakeBridge, settle: Settle
) -> None:
    page.show_session(make.opened([make.user("u", "Hi")], status="interrupted", can_continue=True))
    settle()
    line = card(page, 1)
    assert isinstance(line, LineCard)
    assert line.label.text() == "The last run was interrupted."
    line.action.click()
    assert fake_bridge.of(ContinueRun)


def test_in_chinese(page: ChatPage, settle: Settle) -> None:
    words = "已经找到原因:服务器**从不关闭**套接字。"
    done = make.edited("甲.py", DIFF, plus=1, minus=1)
    show(
        page,
        settle,
        make.user("u", "请修复"),
        make.answer("r.1", make.text("r.1.0", words), make.tool("r.1.1", "edit", done)),
    )
    i18n.set_language("zh")
    page.view.restyle()
    settle()
    prose, summary = card(page, 1), card(page, 1, 2)
    assert isinstance(prose, ProseCard)
    assert isinstance(summary, SummaryCard)
    assert prose.body.toPlainText() == "已经找到原因:服务器从不关闭套接字。"
    assert summary.label.text() == "1 个文件 +1 −1 · 1 次工具调用"


def test_every_button_has_a_name(page: ChatPage, settle: Settle) -> None:
    show(
        page,
        settle,
        make.user("u", "x"),
        make.answer(
            "r.1",
            make.reasoning("r.1.0", "y"),
            make.text("r.1.1", "```\nx\n```"),
            make.tool("r.1.2", "bash", ToolCompleted()),
        ),
    )
    buttons = [b for b in page.findChildren(QAbstractButton) if b.isVisible()]
    assert len(buttons) >= 3
    assert [b for b in buttons if not (b.text() or b.accessibleName())] == []
