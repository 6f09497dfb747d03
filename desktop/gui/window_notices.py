"""What host and channel have to say, turned into banners. Pure but for the bar it fills."""

from collections.abc import Callable, Iterable

from desktop.bridge.messages import ErrorInfo, ModelsState
from desktop.gui.bridge_like import BridgeLike
from desktop.gui.error_text import error_text
from desktop.gui.i18n import tr
from desktop.gui.mode_text import is_key_locked
from desktop.gui.state import ShellState
from desktop.gui.widgets.notices import Level, Note, NoticeBar

HOST = "host"
LOCKED = "keys_locked"
REPLACED = "passphrase_replaced"


class WindowNotices:
    """Fills the bar; what was put away is not shown again."""

    def __init__(
        self,
        *,
        bar: NoticeBar,
        bridge: BridgeLike,
        state: ShellState,
        show_keys: Callable[[], None],
    ) -> None:
        """Begin to listen.

        Args:
            bar: What is filled.
            bridge: Where the host is lost and found.
            state: What the host tells.
            show_keys: Shows where keys are unlocked.
        """
        self._bar = bar
        self._bridge = bridge
        self._state = state
        self._show_keys = show_keys
        self._told: set[str] = set()
        bridge.host_lost.connect(self._lost)
        bridge.host_back.connect(lambda: bar.drop(HOST))
        state.host_changed.connect(lambda: self._tell_all(state.host.notices, "info"))
        state.settings_changed.connect(self._settings)
        state.models_changed.connect(self._keys)

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

    def _keys(self) -> None:
        models = self._state.models
        if models is None:
            return
        if not _locked(models):
            self._told.discard(LOCKED)
            self._bar.drop(LOCKED)
        elif LOCKED not in self._told:
            self._told.add(LOCKED)
            note = Note(
                key=LOCKED,
                level="warning",
                text=tr("Your stored keys are locked."),
                hint=tr("Enter your passphrase to use them."),
                action=tr("Unlock…"),
                act=self._show_keys,
            )
            self._bar.tell(note)
        if models.key_store.replaced and REPLACED not in self._told:
            self._told.add(REPLACED)
            text = tr("Your keys are in the system key ring's care now.")
            hint = tr("Your passphrase is not needed any more.")
            self._bar.tell(Note(key=REPLACED, level="info", text=text, hint=hint))

    def _tell_all(self, errors: Iterable[ErrorInfo], level: Level) -> None:
        for error in errors:
            key = f"{error.code}:{error.text}"
            if key not in self._told:
                self._told.add(key)
                self._bar.tell(_note(error, level=level, key=key))


def _locked(models: ModelsState) -> bool:
    """Return whether there are stored keys that wait for their passphrase."""
    return any(is_key_locked(each, models.key_store) for each in models.providers)


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
