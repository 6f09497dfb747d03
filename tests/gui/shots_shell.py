"""Renders the window's shell to PNG files, to be looked at: ``python tests/gui/shots_shell.py [FOLDER]``."""

import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from PySide6.QtCore import QSettings
from PySide6.QtWidgets import QApplication

from desktop.bridge.messages import (
    ErrorInfo,
    HostState,
    KeyStoreInfo,
    ProjectsState,
    QueuedPrompt,
    QueueState,
    SessionsState,
    SettingsState,
)
from desktop.bridge.protocol import ProviderTested, TestProvider, UnlockKeys
from desktop.gui import i18n
from desktop.gui.settings.settings_page import APPEARANCE, GENERAL, MODELS
from desktop.gui.theme import Theme
from tests.support.fake_bridge import FakeBridge
from tests.support.shell import Shell, locked_models, models, row, shell

ROWS = (
    row("a", title="Fix the rounding of prices in the basket", status="running", minutes=0),
    row("b", title="Add an index to orders", status="waiting", minutes=12),
    row("c", title="Upgrade to Python 3.13", status="failed", minutes=75),
    row("d", title="把结算页面的错误信息翻译成中文", unread=True, minutes=200),
    row("e", title="Why is the import slow?", status="interrupted", minutes=60 * 30),
    row(
        "f",
        title="A very long title that certainly does not fit into the side bar at all",
        minutes=60 * 24 * 3,
    ),
    row("g", title="Meeting notes", project_id="p2", minutes=60 * 24 * 20),
    row(
        "h", title="Old file", project_id="p2", minutes=60 * 24 * 50, problem="Its file is damaged."
    ),
)


def first_start(made: Shell) -> None:
    made.bridge.publish(
        ProjectsState(projects=()),
        models(key="none"),
        SettingsState(revision=1),
        SessionsState(reset=True),
    )


def set_up(made: Shell) -> None:
    first_start(made)
    made.window.welcome.open_form()


def tested(made: Shell) -> None:
    set_up(made)
    form = made.window.welcome.form
    form.key.setText("sk-0123456789")
    made.bridge.script[TestProvider] = ProviderTested(
        reached=True,
        answered=False,
        error=ErrorInfo(
            code="provider",
            text="401: invalid x-api-key",
            hint="Check the key on the provider's page.",
        ),
    )
    form.test.click()


def no_session(made: Shell) -> None:
    made.start()


def new_session(made: Shell) -> None:
    made.start(*ROWS)
    made.window.navigator.new("p1")


def sessions(made: Shell) -> None:
    made.start(*ROWS)
    made.window.navigator.open("c")


def running(made: Shell) -> None:
    made.start(*ROWS)
    made.window.navigator.open("a")
    made.bridge.publish(
        QueueState(
            session_id="a",
            paused=False,
            queued=(
                QueuedPrompt(
                    id="1", text="Then run the tests again and tell me which of them are slow"
                ),
                QueuedPrompt(id="2", text="And update the changelog"),
            ),
        )
    )
    made.window.area.composer.edit.setPlainText("\n".join(f"line {n}" for n in range(1, 15)))


def blocked(made: Shell) -> None:
    made.start(*ROWS, models_state=models(key="none"))
    made.window.navigator.open("c")
    made.bridge.publish(
        HostState(
            notices=(
                ErrorInfo(code="x", text="The session list was rebuilt.", hint="Nothing was lost."),
            )
        )
    )
    made.bridge.host_lost.emit("The host was killed or crashed.")


def settings_models(made: Shell) -> None:
    made.start(*ROWS, models_state=models(store=KeyStoreInfo(mode="session")))
    made.window.show_settings(MODELS)


def passphrase_set(made: Shell) -> None:
    settings_models(made)
    box = made.window.settings_page.models.passphrase
    box.begin.click()
    box.phrase.setText("four words")
    box.submit.click()


def passphrase_locked(made: Shell) -> None:
    made.start(*ROWS, models_state=locked_models())
    made.window.show_keys()
    box = made.window.settings_page.models.passphrase
    made.bridge.fail(
        UnlockKeys, code="wrong_passphrase", text="The passphrase is not the right one."
    )
    box.phrase.setText("not the right one")
    box.submit.click()


def passphrase_open(made: Shell) -> None:
    made.start(*ROWS, models_state=models(store=KeyStoreInfo(mode="passphrase")))
    made.window.show_settings(MODELS)


def passphrase_change(made: Shell) -> None:
    passphrase_open(made)
    made.window.settings_page.models.passphrase.change.click()


def keys_locked(made: Shell) -> None:
    made.start(*ROWS, models_state=locked_models())
    made.window.navigator.open("c")


def settings_general(made: Shell) -> None:
    made.start(*ROWS)
    made.window.show_settings(GENERAL)


def settings_appearance(made: Shell) -> None:
    made.start(*ROWS)
    made.window.show_settings(APPEARANCE)


def settings_form(made: Shell) -> None:
    made.start(*ROWS)
    made.window.show_settings(MODELS)
    page = made.window.settings_page.models
    page.edit(None)
    page.form.preset.setCurrentIndex(page.form.preset.count() - 1)


def asked(made: Shell) -> None:
    made.start(*ROWS)
    made.window.sidebar.ask_delete(ROWS[2])


SCENES: tuple[Callable[[Shell], None], ...] = (
    first_start,
    set_up,
    tested,
    no_session,
    new_session,
    sessions,
    running,
    blocked,
    settings_models,
    passphrase_set,
    passphrase_locked,
    passphrase_open,
    passphrase_change,
    keys_locked,
    settings_form,
    settings_general,
    settings_appearance,
)
LOOKS = (("light", "en", 1400), ("dark", "en", 900), ("light", "zh", 900), ("dark", "zh", 480))


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    app = QApplication([])
    theme = Theme(app=app, mode="light")
    with tempfile.TemporaryDirectory() as scratch:
        for mode, language, width in LOOKS:
            theme.set_mode("dark" if mode == "dark" else "light")
            i18n.set_language("zh" if language == "zh" else "en")
            for number, scene in enumerate(SCENES):
                store = QSettings(
                    f"{scratch}/{mode}{language}{number}.ini", QSettings.Format.IniFormat
                )
                made = shell(bridge=FakeBridge(), theme=theme, store=store)
                made.window.resize(width, 800)
                made.window.show()
                scene(made)
                for _ in range(5):
                    app.processEvents()
                name = f"{scene.__name__}-{mode}-{language}-{width}.png"
                made.window.grab().save(str(folder / name))
                made.window.hide()
                made.window.deleteLater()
                app.processEvents()


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "build/shots/shell"))
