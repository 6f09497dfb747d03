"""Languages: English in the code, other languages in catalogues of this package.

``tr`` is the one place in the window with state of its own, because a text is
needed wherever a widget is made; ``set_language`` changes it. Qt is told with
``LanguageChange`` events (see ``announce``): a widget sets its texts again in
``changeEvent``.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec
from PySide6.QtCore import QCoreApplication, QEvent, QLocale
from PySide6.QtWidgets import QApplication

Language: TypeAlias = Literal["en", "zh"]
LANGUAGES: tuple[Language, ...] = ("en", "zh")
NAMES: Mapping[Language, str] = {"en": "English", "zh": "中文"}
"""What each language calls itself; shown like this in every language."""

_LOCALE = Path(__file__).with_name("locale")


class _Current:
    """The catalogue in force."""

    language: Language = "en"
    texts: Mapping[str, str] = {}


def load_catalogue(language: Language) -> dict[str, str]:
    """Return English text → text of the language; empty for English."""
    if language == "en":
        return {}
    return msgspec.json.decode((_LOCALE / f"{language}.json").read_bytes(), type=dict[str, str])


def set_language(language: Language) -> None:
    """Use a language for every text that is made from now on."""
    _Current.texts = load_catalogue(language)
    _Current.language = language


def language() -> Language:
    """Return the language in force."""
    return _Current.language


def tr(text: str, /, **values: object) -> str:
    """Return the text in the language in force, with its ``{name}`` places filled.

    Args:
        text: English text, a literal, so that the catalogue can be checked.
        values: What goes into the places.
    """
    shown = _Current.texts.get(text, text)
    return shown.format(**values) if values else shown


def system_language(locale: QLocale | None = None) -> Language:
    """Return the language that the user's system prefers, of those there are."""
    for name in (locale or QLocale.system()).uiLanguages():
        for known in LANGUAGES:
            if name.lower().startswith(known):
                return known
    return "en"


def announce() -> None:
    """Tell every widget that the language has changed."""
    for window in QApplication.topLevelWidgets():
        QCoreApplication.sendEvent(window, QEvent(QEvent.Type.LanguageChange))
