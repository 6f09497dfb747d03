"""The window as a whole: first start, navigation, notices, quitting, narrow, languages."""

import msgspec
import pytest
from PySide6.QtCore import QSettings, QStandardPaths, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QDialog, QFileDialog, QLabel, QWidget
from pytestqt.qtbot import QtBot

from desktop.bridge.messages import (
    ErrorInfo,
    HostState,
    ProjectsState,
    SessionsState,
    SettingsState,
)
from desktop.bridge.protocol import (
    ChangeSettings,
    CloseProject,
    DeleteSession,
    HideSession,
    NewSession,
    OpenProject,
    OpenSession,
    ProviderTested,
    RemoveProvider,
    RenameSession,
    SaveProvider,
    SetDefaultModel,
    SubmitPrompt,
    Subscribe,
    TestProvider,
)
from desktop.gui import i18n
from desktop.gui.settings.settings_page import APPEARANCE, GENERAL, MODELS
from desktop.gui.sidebar_rows import PAGE
from desktop.gui.theme import DEFAULT_FONT_SIZE, Theme
from desktop.gui.widgets.confirm import Confirmation
from tests.support.fake_bridge import FakeBridge
from tests.support.shell import EMBEDDED, OPENAI, OTHER, PROJECT, SONNET, Shell, models, row, shell


@pytest.fixture
def made(qtbot: QtBot, fake_bridge: FakeBridge, theme: Theme, store: QSettings) -> Shell:
    made = shell(bridge=fake_bridge, theme=theme, store=store)
    qtbot.addWidget(made.window)
    made.window.show()
    qtbot.waitExposed(made.window)
    return made


def confirmation(made: Shell) -> Confirmation:
    found = [each for each in made.window.findChildren(Confirmation) if each.isVisible()]
    assert len(found) == 1
    return found[0]


def shown_texts(widget: QWidget) -> str:
    return "\n".join(label.text() for label in widget.findChildren(QLabel))


def notices(made: Shell) -> str:
    return shown_texts(made.window.notices) if made.window.notices.isVisible() else ""


class TestStart:
    def test_it_asks_for_every_topic_it_shows(self, made: Shell) -> None:
        topics = {command.topic for command in made.bridge.of(Subscribe)}
        assert topics == {"projects", "sessions", "models", "queue", "settings", "host"}

    def test_it_waits_and_then_welcomes(self, made: Shell) -> None:
        assert made.window.pages.currentWidget() is made.window.empty
        made.bridge.publish(ProjectsState(projects=()), models(key="none"))
        assert made.window.pages.currentWidget() is made.window.welcome
        assert "SmolLM2" in made.window.welcome.model_text.text()

    def test_a_folder_leads_to_a_session(self, made: Shell, qtbot: QtBot) -> None:
        made.bridge.publish(ProjectsState(projects=()), models(key="none"))
        QTest.mouseClick(made.window.welcome.open, Qt.MouseButton.LeftButton)
        dialog = made.window.findChild(QFileDialog)
        assert dialog is not None
        dialog.fileSelected.emit("/home/ann/shop")
        dialog.close()
        assert made.bridge.last(OpenProject).path == "/home/ann/shop"
        assert made.bridge.last(NewSession).project_id == "p1"
        assert made.window.pages.currentWidget() is made.window.area
        assert made.window.area.upper.currentIndex() == 0

    def test_it_can_be_tried_in_an_empty_folder(
        self, made: Shell, qtbot: QtBot, tmp_path_factory: pytest.TempPathFactory
    ) -> None:
        QStandardPaths.setTestModeEnabled(True)
        try:
            made.bridge.publish(ProjectsState(projects=()), models(key="none"))
            QTest.mouseClick(made.window.welcome.trial, Qt.MouseButton.LeftButton)
            assert "zpi-trial" in made.bridge.last(OpenProject).path
        finally:
            QStandardPaths.setTestModeEnabled(False)

    def test_the_last_session_is_shown_again(
        self, made: Shell, qtbot: QtBot, theme: Theme, store: QSettings
    ) -> None:
        made.start(row("a"), row("b"))
        made.window.navigator.open("b")
        again = shell(bridge=FakeBridge(), theme=theme, store=store)
        qtbot.addWidget(again.window)
        again.start(row("a"), row("b"))
        assert again.bridge.last(OpenSession).session_id == "b"

    def test_examples_are_put_into_the_box(self, made: Shell, qtbot: QtBot) -> None:
        made.start()
        made.window.navigator.new()
        example = made.window.area.examples.examples[0]
        QTest.mouseClick(example, Qt.MouseButton.LeftButton)
        edit = made.window.area.composer.edit
        assert edit.toPlainText() == example.text()
        QTest.keyClick(edit, Qt.Key.Key_Return)
        assert made.bridge.last(SubmitPrompt).text == example.text()
        assert made.window.area.upper.currentWidget() is made.chat.widget()


class TestSidebar:
    def test_a_click_opens(self, made: Shell, qtbot: QtBot) -> None:
        made.start(row("a"), row("b", minutes=9))
        bar = made.window.sidebar
        where = bar.list.visualRect(bar.model.index(bar.model.row_of("b"))).center()
        QTest.mouseClick(bar.list.viewport(), Qt.MouseButton.LeftButton, pos=where)
        assert made.chat.shown[-1] is not None
        assert made.chat.shown[-1].session.id == "b"
        assert made.window.header.title.whole() == "Session b"

    def test_what_was_shown_is_hidden_from_the_host(self, made: Shell) -> None:
        made.start(row("a"), row("b"))
        made.window.navigator.open("a")
        made.window.navigator.open("b")
        assert made.bridge.last(HideSession).session_id == "a"

    def test_the_newest_wish_wins(self, made: Shell) -> None:
        made.start(row("a"), row("b"))
        made.bridge.hold = True
        made.window.navigator.open("a")
        made.window.navigator.open("b")
        made.bridge.hold = False
        script = made.bridge.script[OpenSession]
        assert callable(script)
        made.bridge.answer(script(OpenSession(session_id="a")))
        made.bridge.answer(script(OpenSession(session_id="b")))
        assert made.window.navigator.current_id == "b"
        assert made.bridge.last(HideSession).session_id == "a"

    def test_a_title_is_changed(self, made: Shell, qtbot: QtBot) -> None:
        made.start(row("a"))
        bar = made.window.sidebar
        bar.list.mark("a")
        bar.list.setFocus()
        QTest.keyClick(bar.list, Qt.Key.Key_F2)
        editor = bar.list.viewport().focusWidget()
        assert editor is not None
        QTest.keyClicks(editor, "  A better   title ")
        QTest.keyClick(editor, Qt.Key.Key_Return)
        qtbot.waitUntil(lambda: bool(made.bridge.of(RenameSession)))
        assert made.bridge.last(RenameSession).title == "A better title"

    def test_rows_wait_while_a_title_is_edited(self, made: Shell, qtbot: QtBot) -> None:
        made.start(row("a", minutes=5), row("b", minutes=9))
        bar = made.window.sidebar
        bar.list.mark("b")
        bar.list.edit(bar.list.currentIndex())
        made.bridge.publish(SessionsState(rows=(row("b", minutes=0), row("c", minutes=1))))
        assert bar.model.row_of("c") == -1
        editor = bar.list.viewport().focusWidget()
        assert editor is not None
        QTest.keyClick(editor, Qt.Key.Key_Escape)
        qtbot.waitUntil(lambda: bar.model.row_of("c") == 2)

    def test_deleting_asks_and_names_what_goes(self, made: Shell, qtbot: QtBot) -> None:
        made.start(row("a", title="Old plan"))
        made.window.navigator.open("a")
        made.window.sidebar.list.setFocus()
        QTest.keyClick(made.window.sidebar.list, Qt.Key.Key_Delete)
        asked = confirmation(made)
        assert "Old plan" in shown_texts(asked)
        assert PROJECT.path in shown_texts(asked)
        assert made.bridge.of(DeleteSession) == []
        QTest.mouseClick(asked.yes, Qt.MouseButton.LeftButton)
        assert made.bridge.last(DeleteSession).session_id == "a"
        assert made.chat.shown[-1] is None

    def test_enter_does_not_delete(self, made: Shell, qtbot: QtBot) -> None:
        made.start(row("a"))
        made.window.sidebar.ask_delete(row("a"))
        QTest.keyClick(confirmation(made), Qt.Key.Key_Return)
        assert made.bridge.of(DeleteSession) == []

    def test_what_runs_is_not_deleted(self, made: Shell) -> None:
        made.start(row("a", status="running"))
        made.window.sidebar.ask_delete(row("a", status="running"))
        assert confirmation(made).yes.isHidden()

    def test_a_folder_leaves_the_list_only_when_asked(self, made: Shell, qtbot: QtBot) -> None:
        made.start(row("a"))
        made.window.sidebar.ask_close(OTHER)
        assert OTHER.path in shown_texts(confirmation(made))
        QTest.mouseClick(confirmation(made).yes, Qt.MouseButton.LeftButton)
        assert made.bridge.last(CloseProject).project_id == "p2"

    def test_fifty_at_a_time(self, made: Shell, qtbot: QtBot) -> None:
        made.start(*(row(f"s{n}", minutes=n + 1) for n in range(PAGE + 3)))
        bar = made.window.sidebar
        assert bar.model.row_of(f"s{PAGE}") == -1
        more = bar.model.index(PAGE + 1)
        assert more.data() == "Load more (3)"
        bar.list.scrollTo(more)
        where = bar.list.visualRect(more).center()
        QTest.mouseClick(bar.list.viewport(), Qt.MouseButton.LeftButton, pos=where)
        assert bar.model.row_of(f"s{PAGE}") == PAGE + 1

    def test_the_glyph_turns_only_while_something_runs(self, made: Shell) -> None:
        made.start(row("a", status="waiting"), row("b", status="failed"))
        assert not made.window.sidebar.list.turning
        made.bridge.publish(SessionsState(rows=(row("a", status="running"),)))
        assert made.window.sidebar.list.turning
        made.window.toggle_sidebar()
        assert not made.window.sidebar.list.turning
        made.window.toggle_sidebar()
        assert made.window.sidebar.list.turning
        made.bridge.publish(SessionsState(rows=(row("a"),)))
        assert not made.window.sidebar.list.turning

    def test_the_same_state_again_changes_nothing(self, made: Shell, qtbot: QtBot) -> None:
        same = row("a")
        made.start(same)
        with qtbot.assertNotEmitted(made.state.sessions_changed):
            made.bridge.publish(SessionsState(rows=(same,)))

    def test_a_deleted_session_is_left(self, made: Shell) -> None:
        made.start(row("a"))
        made.window.navigator.open("a")
        made.bridge.publish(SessionsState(removed=("a",)))
        assert made.window.navigator.current is None
        assert made.window.pages.currentWidget() is made.window.empty

    def test_keys_walk_through_sessions(self, made: Shell, qtbot: QtBot) -> None:
        made.start(row("a", minutes=1), row("b", minutes=2))
        made.window.navigator.open("a")
        QTest.keyClick(made.window, Qt.Key.Key_Tab, Qt.KeyboardModifier.ControlModifier)
        assert made.window.navigator.current_id == "b"

    def test_search_filters(self, made: Shell, qtbot: QtBot) -> None:
        made.start(row("a", title="apples"), row("b", title="pears"))
        bar = made.window.sidebar
        bar.search.setText("pear")
        assert (bar.model.row_of("a"), bar.model.row_of("b")) == (-1, 1)
        bar.search.setText("nothing")
        assert bar.nothing.isVisible()


class TestHost:
    def test_a_lost_host_is_told_until_it_is_back(self, made: Shell) -> None:
        made.start(row("a"))
        made.window.navigator.open("a")
        made.bridge.host_lost.emit("The host was killed.")
        assert "The host was killed." in notices(made)
        made.bridge.host_back.emit()
        assert notices(made) == ""
        assert len(made.bridge.of(OpenSession)) == 2
        assert made.bridge.of(HideSession) == []

    def test_it_can_be_started_at_once(self, made: Shell, qtbot: QtBot) -> None:
        made.bridge.host_lost.emit("gone")
        note = made.window.notices.notes.all()[0]
        assert note.act is not None
        note.act()
        assert made.bridge.restarts == 1

    def test_notices_are_shown_once(self, made: Shell) -> None:
        told = HostState(notices=(ErrorInfo(code="x", text="The list was rebuilt."),))
        made.bridge.publish(told)
        assert "rebuilt" in notices(made)
        made.window.notices.drop("x:The list was rebuilt.")
        made.bridge.publish(told)
        assert notices(made) == ""

    def test_settings_that_cannot_be_used_are_named(self, made: Shell) -> None:
        problem = ErrorInfo(code="settings_damaged", text="/x/settings.json: line 3")
        made.bridge.publish(SettingsState(revision=1, problems=(problem,)))
        assert "line 3" in notices(made)

    def test_a_failed_command_is_told(self, made: Shell) -> None:
        made.start(row("a"))
        made.bridge.fail(OpenSession, code="session_locked", text="In use.", hint="Close it.")
        made.window.navigator.open("a")
        assert "In use." in notices(made)
        assert "Close it." in notices(made)
        assert made.window.pages.currentWidget() is made.window.empty


class TestQuitting:
    def test_at_rest_it_just_closes(self, made: Shell, qtbot: QtBot) -> None:
        made.start(row("a"))
        with qtbot.waitSignal(made.window.quitting):
            made.window.close()

    def test_with_work_running_it_asks(self, made: Shell, qtbot: QtBot) -> None:
        made.start(row("a", title="Big job", status="running"))
        with qtbot.assertNotEmitted(made.window.quitting):
            made.window.close()
        assert made.window.isVisible()
        asked = confirmation(made)
        assert "Big job" in shown_texts(asked)
        QTest.mouseClick(asked.no, Qt.MouseButton.LeftButton)
        assert made.window.isVisible()
        made.window.close()
        with qtbot.waitSignal(made.window.quitting):
            QTest.mouseClick(confirmation(made).yes, Qt.MouseButton.LeftButton)

    def test_a_second_close_does_not_ask_twice(self, made: Shell) -> None:
        made.start(row("a", status="running"))
        made.window.close()
        made.window.close()
        confirmation(made)


class TestFrame:
    def test_a_narrow_window_has_no_side_bar_unless_asked(self, made: Shell) -> None:
        made.start(row("a"))
        made.window.resize(600, 700)
        assert made.window.sidebar.isHidden()
        made.window.toggle_sidebar()
        assert not made.window.sidebar.isHidden()
        made.window.sidebar.session_chosen.emit("a")
        assert made.window.sidebar.isHidden()
        made.window.resize(1000, 700)
        assert not made.window.sidebar.isHidden()

    def test_a_hidden_side_bar_stays_hidden(
        self, made: Shell, qtbot: QtBot, theme: Theme, store: QSettings
    ) -> None:
        made.window.resize(1000, 700)
        QTest.keyClick(made.window, Qt.Key.Key_B, Qt.KeyboardModifier.ControlModifier)
        assert made.window.sidebar.isHidden()
        again = shell(bridge=FakeBridge(), theme=theme, store=store)
        qtbot.addWidget(again.window)
        again.window.show()
        assert again.window.sidebar.isHidden()

    def test_text_grows_and_shrinks(self, made: Shell, qtbot: QtBot, theme: Theme) -> None:
        control = Qt.KeyboardModifier.ControlModifier
        QTest.keyClick(made.window, Qt.Key.Key_Equal, control)
        assert theme.font_size == made.settings.font_size == DEFAULT_FONT_SIZE + 1
        QTest.keyClick(made.window, Qt.Key.Key_0, control)
        QTest.keyClick(made.window, Qt.Key.Key_Minus, control)
        assert theme.font_size == DEFAULT_FONT_SIZE - 1

    def test_all_of_it_speaks_chinese_at_once(self, made: Shell) -> None:
        made.start(row("a"))
        made.window.navigator.open("a")
        made.bridge.host_lost.emit("x")
        page = made.window.settings_page.appearance
        page.language.setCurrentIndex(page.language.findData("zh"))
        page.language.activated.emit(page.language.currentIndex())
        assert i18n.language() == made.settings.language == "zh"
        assert made.window.sidebar.settings.text() == "设置"
        assert made.window.area.composer.edit.placeholderText() == "有什么要做的？"
        assert made.window.settings_page.tabs.tabText(MODELS) == "模型与密钥"
        assert made.window.area.composer.mode.text() == "询问"

    def test_dark_is_applied_at_once(self, made: Shell, theme: Theme) -> None:
        page = made.window.settings_page.appearance
        page.mode.setCurrentIndex(page.mode.findData("dark"))
        page.mode.activated.emit(page.mode.currentIndex())
        assert theme.tokens.dark
        assert made.settings.theme == "dark"

    def test_the_sheet_of_keys_opens(self, made: Shell, qtbot: QtBot) -> None:
        QTest.keyClick(made.window, Qt.Key.Key_Slash, Qt.KeyboardModifier.ControlModifier)
        sheets = [d for d in made.window.findChildren(QDialog) if d.isVisible()]
        assert len(sheets) == 1
        assert "Ctrl+N" in shown_texts(sheets[0])


class TestSettings:
    def test_a_change_names_its_revision(self, made: Shell) -> None:
        made.start()
        made.bridge.publish(SettingsState(revision=7))
        page = made.window.settings_page.general
        made.window.show_settings(GENERAL)
        page.follow_up.setCurrentIndex(page.follow_up.findData("steer"))
        page.follow_up.activated.emit(0)
        sent = made.bridge.last(ChangeSettings)
        assert (sent.revision, sent.follow_up, sent.permission_mode) == (7, "steer", None)

    def test_a_stale_change_is_told_and_what_holds_is_shown(self, made: Shell) -> None:
        made.start()
        made.bridge.fail(ChangeSettings, code="settings_stale", text="Changed elsewhere.")
        page = made.window.settings_page.general
        made.window.show_settings(GENERAL)
        page.mode.setCurrentIndex(page.mode.findData("plan"))
        page.mode.activated.emit(0)
        assert "Changed elsewhere." in notices(made)
        assert page.mode.currentData() == "default"

    def test_the_form_is_as_high_as_the_form(self, made: Shell, qtbot: QtBot) -> None:
        state = models(key="none")
        many = tuple(msgspec.structs.replace(OPENAI, name=f"server-{n}") for n in range(40))
        made.start(models_state=msgspec.structs.replace(state, providers=many))
        made.window.show_settings(MODELS)
        page = made.window.settings_page.models
        listed = page.sizeHint().height()
        page.edit(None)
        qtbot.waitUntil(lambda: page.sizeHint().height() < listed / 2)
        page.form.cancelled.emit()
        qtbot.waitUntil(lambda: page.sizeHint().height() == listed)

    def test_a_provider_is_tested_and_saved(self, made: Shell, qtbot: QtBot) -> None:
        made.start(models_state=models(key="none"))
        made.window.show_settings(MODELS)
        page = made.window.settings_page.models
        page.edit(None)
        form = page.form
        form.key.setText("sk-1")
        made.bridge.script[TestProvider] = ProviderTested(reached=True, answered=True, text="Hi")
        QTest.mouseClick(form.test, Qt.MouseButton.LeftButton)
        tried = made.bridge.last(TestProvider)
        assert (tried.name, tried.key, tried.model) == ("anthropic", "sk-1", "claude-sonnet-5-5")
        assert form.result.count() == 2
        QTest.mouseClick(form.save, Qt.MouseButton.LeftButton)
        assert made.bridge.last(SaveProvider).key == "sk-1"
        assert made.bridge.last(SetDefaultModel).model == SONNET.key
        assert form.key.text() == ""
        assert page.stack.currentIndex() == 0

    def test_a_result_goes_with_the_first_change(self, made: Shell, qtbot: QtBot) -> None:
        made.start()
        form = made.window.settings_page.models.form
        form.begin()
        made.bridge.script[TestProvider] = ProviderTested(reached=True, answered=True)
        form.key.setText("a")
        form.test.click()
        assert form.result.count() == 2
        form.key.setText("b")
        assert form.result.count() == 0

    def test_an_answer_to_what_was_changed_meanwhile_is_not_shown(self, made: Shell) -> None:
        made.start()
        form = made.window.settings_page.models.form
        form.begin()
        made.bridge.hold = True
        form.key.setText("a")
        form.test.click()
        assert not form.test.isEnabled()
        form.key.setText("b")
        made.bridge.answer(ProviderTested(reached=True, answered=True))
        assert form.result.count() == 0
        assert form.test.isEnabled()

    def test_bad_entries_go_nowhere(self, made: Shell) -> None:
        made.start()
        form = made.window.settings_page.models.form
        form.begin()
        form.address.setText("nonsense")
        form.test.click()
        form.save.click()
        assert "https://" in form.problem.text()
        assert made.bridge.of(TestProvider) == []
        assert made.bridge.of(SaveProvider) == []

    def test_what_is_typed_survives_news_of_models(self, made: Shell) -> None:
        made.start()
        form = made.window.settings_page.models.form
        form.begin()
        form.key.setText("half a k")
        made.bridge.publish(models(default=EMBEDDED.key))
        assert form.key.text() == "half a k"

    def test_a_good_default_is_not_replaced(self, made: Shell) -> None:
        made.start()
        form = made.window.settings_page.models.form
        form.begin()
        form.save.click()
        assert len(made.bridge.of(SaveProvider)) == 1
        assert made.bridge.of(SetDefaultModel) == []

    def test_removing_a_key_asks(self, made: Shell, qtbot: QtBot) -> None:
        made.start()
        page = made.window.settings_page.models
        made.window.show_settings(MODELS)
        provider = made.state.provider("anthropic")
        assert provider is not None
        page._ask_remove(provider)
        assert made.bridge.of(SaveProvider) == []
        QTest.mouseClick(confirmation(made).yes, Qt.MouseButton.LeftButton)
        assert made.bridge.last(SaveProvider).key == ""
        assert made.bridge.of(RemoveProvider) == []

    def test_escape_leads_back(self, made: Shell, qtbot: QtBot) -> None:
        made.start(row("a"))
        made.window.navigator.open("a")
        made.window.show_settings(APPEARANCE)
        QTest.keyClick(made.window.settings_page.tabs, Qt.Key.Key_Escape)
        assert made.window.pages.currentWidget() is made.window.area
