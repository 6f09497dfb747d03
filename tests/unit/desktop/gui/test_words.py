"""Errors, theme and other small decisions without a window."""

from pathlib import Path

import pytest
from PySide6.QtCore import QLocale, QSettings, Qt

from desktop.bridge.messages import ErrorInfo
from desktop.gui import i18n
from desktop.gui.error_text import error_text
from desktop.gui.i18n import system_language
from desktop.gui.palette import DARK, LIGHT
from desktop.gui.text import below_home
from desktop.gui.theme import (
    DEFAULT_FONT_SIZE,
    MAX_FONT_SIZE,
    dark_wanted,
    fill_sheet,
    font_families,
)
from desktop.gui.widgets.notices import Note, NoticeList
from desktop.gui.widgets.plain import plain_action, plain_tip
from desktop.gui.window_settings import MAX_DRAFT, MAX_DRAFTS, WindowSettings


def test_errors_speak_the_language_of_the_user() -> None:
    error = ErrorInfo(code="disk_full", text="No space left on 'x'.", hint="Make room.")
    assert error_text(error).title == "No space left on 'x'."
    assert error_text(error).hint == "Make room."
    i18n.set_language("zh")
    shown = error_text(error)
    assert shown.title == "磁盘已满。"
    assert shown.detail == "No space left on 'x'. Make room."
    unknown = error_text(ErrorInfo(code="new_code", text="What?", hint="So."))
    assert (unknown.title, unknown.hint) == ("What?", "So.")


@pytest.mark.parametrize(
    ("mode", "scheme", "dark"),
    [
        ("light", Qt.ColorScheme.Dark, False),
        ("dark", Qt.ColorScheme.Light, True),
        ("system", Qt.ColorScheme.Dark, True),
        ("system", Qt.ColorScheme.Light, False),
        ("system", Qt.ColorScheme.Unknown, False),
    ],
)
def test_dark_or_light(mode: str, scheme: Qt.ColorScheme, dark: bool) -> None:
    assert dark_wanted(mode, scheme) is dark  # type: ignore[arg-type]


def test_chinese_fonts_come_after_the_systems_own() -> None:
    installed = frozenset({"WenQuanYi Micro Hei", "DejaVu Sans Mono", "DejaVu Sans"})
    assert font_families("DejaVu Sans", installed, mono=False) == [
        "DejaVu Sans",
        "WenQuanYi Micro Hei",
    ]
    assert font_families("Courier", installed, mono=True) == [
        "DejaVu Sans Mono",
        "Courier",
        "WenQuanYi Micro Hei",
    ]
    assert font_families("", frozenset(), mono=False) == []


def test_a_sheet_that_names_what_there_is_not_is_refused() -> None:
    assert fill_sheet("a { color: @{text} }", LIGHT, {}) == f"a {{ color: {LIGHT.text} }}"
    assert "arrow-down-dark" in fill_sheet("@{arrow_down}", DARK, {})
    with pytest.raises(KeyError):
        fill_sheet("@{nothing}", LIGHT, {})


@pytest.mark.parametrize(
    ("name", "language"), [("zh_CN", "zh"), ("zh_TW", "zh"), ("en_GB", "en"), ("de_DE", "en")]
)
def test_the_systems_language(name: str, language: str) -> None:
    assert system_language(QLocale(name)) == language


def test_mark_up_in_names_is_text() -> None:
    assert plain_tip("<b>a</b>\nb") == "<qt>&lt;b&gt;a&lt;/b&gt;<br>b</qt>"
    assert plain_tip("") == ""
    assert plain_action("A&B") == "A&&B"


def test_the_newest_note_of_a_kind_takes_the_place_of_the_older() -> None:
    notes = NoticeList()
    for key, text in (("a", "1"), ("b", "2"), ("a", "3")):
        notes.put(Note(key=key, level="info", text=text))
    assert [note.text for note in notes.all()] == ["3", "2"]
    notes.drop("a")
    notes.drop("unknown")
    assert [note.text for note in notes.all()] == ["2"]


class TestWindowSettings:
    @pytest.fixture
    def file(self, tmp_path: Path) -> Path:
        return tmp_path / "window.ini"

    def opened(self, file: Path) -> WindowSettings:
        return WindowSettings(store=QSettings(str(file), QSettings.Format.IniFormat))

    def test_are_kept(self, file: Path) -> None:
        first = self.opened(file)
        first.theme, first.language, first.font_size = "dark", "zh", 17
        first.sidebar_shown, first.last_session = False, "s1"
        first.set_draft("s1", 'Grüße\n你好 "x"')
        first.save()
        again = self.opened(file)
        assert (again.theme, again.language, again.font_size) == ("dark", "zh", 17)
        assert (again.sidebar_shown, again.last_session) == (False, "s1")
        assert again.drafts() == {"s1": 'Grüße\n你好 "x"'}

    def test_have_defaults(self, file: Path) -> None:
        fresh = self.opened(file)
        assert (fresh.theme, fresh.font_size, fresh.sidebar_shown) == (
            "system",
            DEFAULT_FONT_SIZE,
            True,
        )
        assert fresh.drafts() == {}
        assert fresh.geometry("window").isEmpty()

    def test_what_is_unusable_counts_as_not_set(self, file: Path) -> None:
        file.write_text(
            "[look]\ntheme=pink\nlanguage=xx\nfont_size=huge\n[geometry]\nwindow=5\n", "utf-8"
        )
        read = self.opened(file)
        assert (read.theme, read.font_size) == ("system", DEFAULT_FONT_SIZE)
        assert read.language in i18n.LANGUAGES
        assert read.geometry("window").isEmpty()

    def test_sizes_have_limits(self, file: Path) -> None:
        file.write_text("[look]\nfont_size=99999999999\n", "utf-8")
        assert self.opened(file).font_size == MAX_FONT_SIZE

    def test_drafts_are_bounded(self, file: Path) -> None:
        made = self.opened(file)
        for number in range(MAX_DRAFTS + 5):
            made.set_draft(f"s{number}", "x")
        assert len(made.drafts()) == MAX_DRAFTS
        made.set_draft("s0", "x" * (MAX_DRAFT + 1))
        assert "s0" not in made.drafts()
        made.set_draft("s1", "  ")
        assert "s1" not in made.drafts()


@pytest.mark.parametrize(
    ("path", "home", "shown"),
    [
        ("/home/ann/code", "/home/ann", "~/code"),
        ("/home/ann", "/home/ann/", "~"),
        ("/home/anna/code", "/home/ann", "/home/anna/code"),
        ("/srv/code", "/home/ann", "/srv/code"),
        ("/srv/code", "/", "/srv/code"),
        ("/srv/code", "", "/srv/code"),
    ],
)
def test_a_folder_is_shown_below_the_home_folder(path: str, home: str, shown: str) -> None:
    assert below_home(path, home) == shown
