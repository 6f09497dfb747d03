"""Translation of what the command line says.

English is the source text and the key. Catalogues are package data, one JSON
object a language, read only when that language is wanted.
"""

from collections.abc import Mapping
from pathlib import Path

import msgspec

CATALOGUES = Path(__file__).resolve().parent / "locale"


class Translator:
    """Says things in one language.

    Args:
        catalogue: English text to translated text; empty for English.
    """

    def __init__(self, catalogue: Mapping[str, str]) -> None:
        self._catalogue = catalogue

    def __call__(self, text: str, /, **values: object) -> str:
        """Return the text in the user's language, with ``{names}`` filled in."""
        return self._catalogue.get(text, text).format(**values)

    def error(self, code: str, text: str) -> str:
        """Return the line that tells of an error.

        The text itself is English; in another language what kind of error it
        is comes before it.

        Args:
            code: Its stable code.
            text: What it says.
        """
        return self("Error: {error}", error=self._catalogue.get(f"code:{code}", "") + text)


def language(environ: Mapping[str, str]) -> str:
    """Return ``zh`` or ``en`` from ``ZPI_LANG``, ``LC_ALL``, ``LC_MESSAGES`` or ``LANG``."""
    for name in ("ZPI_LANG", "LC_ALL", "LC_MESSAGES", "LANG"):
        value = environ.get(name, "")
        if value:
            return "zh" if value.lower().startswith("zh") else "en"
    return "en"


def load_translator(environ: Mapping[str, str]) -> Translator:
    """Return the translator for the environment's language."""
    code = language(environ)
    if code == "en":
        return Translator({})
    raw = (CATALOGUES / f"{code}.json").read_bytes()
    return Translator(msgspec.json.decode(raw, type=dict[str, str]))
