"""What the window itself remembers: place, look, language, drafts. Everything else is the host's."""

from PySide6.QtCore import QByteArray, QSettings

from desktop.gui.i18n import LANGUAGES, Language, system_language
from desktop.gui.theme import (
    DEFAULT_FONT_SIZE,
    MAX_FONT_SIZE,
    MIN_FONT_SIZE,
    THEME_MODES,
    ThemeMode,
)

MAX_DRAFTS = 50
MAX_DRAFT = 64 * 1024
"""Characters of a draft that is kept; a longer one is kept until the window closes only."""


class WindowSettings:
    """Typed access; whatever is unusable in the file counts as not set."""

    def __init__(self, *, store: QSettings) -> None:
        self._store = store

    @property
    def theme(self) -> ThemeMode:
        """Light, dark, or as the system says."""
        stored = self._text("look/theme")
        return next((mode for mode in THEME_MODES if mode == stored), "system")

    @theme.setter
    def theme(self, mode: ThemeMode) -> None:
        self._store.setValue("look/theme", mode)

    @property
    def language(self) -> Language:
        """The user's choice, or what the system prefers."""
        stored = self._text("look/language")
        return next((known for known in LANGUAGES if known == stored), system_language())

    @language.setter
    def language(self, language: Language) -> None:
        self._store.setValue("look/language", language)

    @property
    def font_size(self) -> int:
        """Pixels of ordinary text."""
        stored = self._text("look/font_size")
        if stored.isascii() and stored.isdigit():
            return max(MIN_FONT_SIZE, min(MAX_FONT_SIZE, int(stored[:3])))
        return DEFAULT_FONT_SIZE

    @font_size.setter
    def font_size(self, size: int) -> None:
        self._store.setValue("look/font_size", size)

    @property
    def sidebar_shown(self) -> bool:
        """Whether the user wants the side bar."""
        return self._text("window/sidebar") != "hidden"

    @sidebar_shown.setter
    def sidebar_shown(self, shown: bool) -> None:
        self._store.setValue("window/sidebar", "shown" if shown else "hidden")

    @property
    def last_session(self) -> str:
        """Id of the session that was shown last; empty if none."""
        return self._text("window/session")

    @last_session.setter
    def last_session(self, session_id: str) -> None:
        self._store.setValue("window/session", session_id)

    @property
    def setup_skipped(self) -> bool:
        """Whether the user left the first page without setting a model up."""
        return self._text("window/setup") == "skipped"

    @setup_skipped.setter
    def setup_skipped(self, skipped: bool) -> None:
        self._store.setValue("window/setup", "skipped" if skipped else "")

    def geometry(self, name: str) -> QByteArray:
        """Return the state of a window or splitter; empty if none is kept."""
        stored = self._store.value(f"geometry/{name}")
        return stored if isinstance(stored, QByteArray) else QByteArray()

    def set_geometry(self, name: str, state: QByteArray) -> None:
        """Keep the state of a window or splitter."""
        self._store.setValue(f"geometry/{name}", state)

    def drafts(self) -> dict[str, str]:
        """Return session id → text that was not sent."""
        self._store.beginGroup("drafts")
        found = {key: str(self._store.value(key, "")) for key in self._store.childKeys()}
        self._store.endGroup()
        return {key: text for key, text in found.items() if text}

    def set_draft(self, session_id: str, text: str) -> None:
        """Keep a text that was not sent, or forget it when it is empty."""
        key = f"drafts/{session_id}"
        if not text.strip() or len(text) > MAX_DRAFT:
            self._store.remove(key)
            return
        self._store.beginGroup("drafts")
        known = self._store.childKeys()
        self._store.endGroup()
        if session_id in known or len(known) < MAX_DRAFTS:
            self._store.setValue(key, text)

    def save(self) -> None:
        """Write everything to disk now."""
        self._store.sync()

    def _text(self, key: str) -> str:
        value = self._store.value(key, "")
        return value if isinstance(value, str) else str(value or "")
