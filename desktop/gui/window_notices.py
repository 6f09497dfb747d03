"""What host and channel have to say, turned into banners. Pure but for the bar it fills."""

from collections.abc import Iterable

from desktop.bridge.messages import ErrorInfo
from desktop.gui.bridge_like import BridgeLike
from desktop.gui.error_text import error_text
from desktop.gui.i18n import tr
from desktop.gui.state import ShellState
from desktop.gui.widgets.notices import Level, Note, NoticeBar

HOST = "host"


class WindowNotices:
    """Fills the bar; what was put away is not shown again."""

    def __init__(self, *, bar: NoticeBar, bridge: BridgeLike, state: ShellState) -> None:
        self._bar = bar
        self._bridge = bridge
        self._state = state
        self._told: set[str] = set()
        bridge.host_lost.connect(self._lost)
        bridge.host_back.connect(lambda: bar.drop(HOST))
        state.host_changed.connect(lambda: self._tell_all(state.host.notices, "info"))
        state.settings_changed.connect(self._settings)

    def fail(self, error: ErrorInfo) -> None:
        """Tell that a command was not carried out."""
        self._bar.tell(_note(error, level="error", key=f"failed:{error.code}"))

    def _lost(self, why: str) -> None:
        self._bar.tell(
            Note(
                key=HOST,
                level="warning",
                text=tr(
                    "ZPI's background process has ended and is started again. "
                    "Nothing that was saved is lost."
                ),
                hint=_reason(why),
                sticky=True,
                action=tr("Start it now"),
                act=self._bridge.restart,
            )
        )

    def _settings(self) -> None:
        settings = self._state.settings
        self._tell_all(settings.problems if settings else (), "warning")

    def _tell_all(self, errors: Iterable[ErrorInfo], level: Level) -> None:
        for error in errors:
            key = f"{error.code}:{error.text}"
            if key not in self._told:
                self._told.add(key)
                self._bar.tell(_note(error, level=level, key=key))


def _note(error: ErrorInfo, *, level: Level, key: str) -> Note:
    shown = error_text(error)
    hint = " ".join(part for part in (shown.detail, shown.hint) if part)
    return Note(key=key, level=level, text=shown.title, hint=hint)


def _reason(why: str) -> str:
    """Return what the bridge says of a host that has ended, as far as it is a known sentence."""
    sentences = {
        "The host was killed or crashed.": tr("It was killed, or it crashed."),
        "Another ZPI is using the data folder.": tr("Another ZPI is using the data folder."),
        "The host and the window are of different versions.": tr(
            "It is of another version than this window."
        ),
        "The data folder cannot be used.": tr("The data folder cannot be used."),
        "It is not started again by itself.": tr("It is not started again by itself."),
    }
    for english, shown in sentences.items():
        why = why.replace(english, shown)
    return why
