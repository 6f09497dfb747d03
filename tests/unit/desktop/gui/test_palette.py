"""Text can be read on every ground it stands on, light and dark."""

import pytest

from desktop.gui.palette import DARK, LIGHT, Tokens, contrast

GROUNDS = ("window", "sidebar", "surface", "raised", "hover", "selected", "code")
ON_ALL = ("text", "muted")
PAIRS = (
    ("on_accent", "accent"),
    ("on_accent", "accent_hover"),
    ("text", "selection"),
    ("accent", "window"),
    ("accent", "surface"),
    ("accent", "sidebar"),
    ("accent", "raised"),
    ("success", "success_soft"),
    ("warning", "warning_soft"),
    ("danger", "danger_soft"),
    ("accent", "warning_soft"),
    ("accent", "danger_soft"),
    ("text", "warning_soft"),
    ("text", "danger_soft"),
    ("success", "window"),
    ("warning", "window"),
    ("danger", "window"),
    ("danger", "surface"),
    ("success", "surface"),
    ("text", "added"),
    ("text", "removed"),
    ("added_text", "added"),
    ("removed_text", "removed"),
    ("syntax_keyword", "code"),
    ("syntax_string", "code"),
    ("syntax_comment", "code"),
    ("syntax_number", "code"),
    ("syntax_name", "code"),
)
SCHEMES = pytest.mark.parametrize("tokens", [LIGHT, DARK], ids=["light", "dark"])


@SCHEMES
@pytest.mark.parametrize(
    ("ink", "ground"), [*PAIRS, *((ink, ground) for ink in ON_ALL for ground in GROUNDS)]
)
def test_text_has_contrast(tokens: Tokens, ink: str, ground: str) -> None:
    assert contrast(getattr(tokens, ink), getattr(tokens, ground)) >= 4.5


@SCHEMES
@pytest.mark.parametrize(
    ("mark", "ground"),
    [
        ("accent", "window"),
        ("border_strong", "window"),
        ("border_strong", "surface"),
        ("disabled", "window"),
        ("unread", "sidebar"),
        ("warning", "sidebar"),
        ("danger", "sidebar"),
        ("warning", "selected"),
        ("unread", "selected"),
    ],
)
def test_marks_have_contrast(tokens: Tokens, mark: str, ground: str) -> None:
    assert contrast(getattr(tokens, mark), getattr(tokens, ground)) >= 3.0


def test_contrast_is_that_of_the_standard() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)
    assert contrast("#123456", "#123456") == 1


@SCHEMES
def test_every_token_is_a_colour(tokens: Tokens) -> None:
    for name, colour in tokens.colours().items():
        assert len(colour) == 7, name
        assert int(colour[1:], 16) >= 0, name
