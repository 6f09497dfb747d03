"""The colours of the window, by purpose. No Qt, so that contrast is a plain test."""

from dataclasses import dataclass, fields


@dataclass(frozen=True, kw_only=True)
class Tokens:
    """One scheme; each colour is ``#rrggbb``.

    Attributes:
        window: Ground of the chat area.
        sidebar: Ground of the side bar.
        surface: Cards, the composer, fields.
        raised: Ground of headers of cards, buttons, tool output.
        hover: Row or button under the pointer.
        selected: Chosen row.
        border: Lines around cards and fields; decoration.
        border_strong: Lines that mark a control.
        text: Text.
        muted: Text of less weight, at least 4.5:1 on all grounds.
        disabled: Text of what cannot be used.
        accent: Links, focus, the primary button's ground.
        accent_hover: The same under the pointer.
        on_accent: Text on ``accent``.
        selection: Ground of selected text.
        success, warning, danger: Text and glyphs of that meaning.
        success_soft, warning_soft, danger_soft: Grounds of that meaning.
        unread: Dot of an unread session.
        code: Ground of code blocks.
        added, removed: Grounds of lines of a diff.
        added_text, removed_text: Signs and counts of a diff.
        syntax_keyword … syntax_name: Text of highlighted code.
    """

    dark: bool
    window: str
    sidebar: str
    surface: str
    raised: str
    hover: str
    selected: str
    border: str
    border_strong: str
    text: str
    muted: str
    disabled: str
    accent: str
    accent_hover: str
    on_accent: str
    selection: str
    success: str
    success_soft: str
    warning: str
    warning_soft: str
    danger: str
    danger_soft: str
    unread: str
    code: str
    added: str
    added_text: str
    removed: str
    removed_text: str
    syntax_keyword: str
    syntax_string: str
    syntax_comment: str
    syntax_number: str
    syntax_name: str

    def colours(self) -> dict[str, str]:
        """Return name → colour."""
        return {
            field.name: getattr(self, field.name) for field in fields(self) if field.name != "dark"
        }


LIGHT = Tokens(
    dark=False,
    window="#ffffff",
    sidebar="#f5f5f3",
    surface="#ffffff",
    raised="#f5f5f3",
    hover="#ebebe8",
    selected="#e2e4ea",
    border="#e0e0dc",
    border_strong="#8b8b86",
    text="#1d1d1b",
    muted="#5c5c58",
    disabled="#8b8b86",
    accent="#3056c8",
    accent_hover="#2848ad",
    on_accent="#ffffff",
    selection="#c3d3fb",
    success="#1b6e3a",
    success_soft="#e3f3e8",
    warning="#875000",
    warning_soft="#fdf1dc",
    danger="#b3261e",
    danger_soft="#fdeceb",
    unread="#3056c8",
    code="#f5f5f3",
    added="#e3f6e8",
    added_text="#1b6e3a",
    removed="#fdeaea",
    removed_text="#b3261e",
    syntax_keyword="#8b2a9b",
    syntax_string="#1b6e3a",
    syntax_comment="#686863",
    syntax_number="#9a4a00",
    syntax_name="#2a55c0",
)

DARK = Tokens(
    dark=True,
    window="#1b1c1e",
    sidebar="#151618",
    surface="#232528",
    raised="#2a2c30",
    hover="#2e3034",
    selected="#363a43",
    border="#383b40",
    border_strong="#7c8087",
    text="#ebebe9",
    muted="#a9abaf",
    disabled="#7c8087",
    accent="#8fb0ff",
    accent_hover="#a9c2ff",
    on_accent="#10182b",
    selection="#35508f",
    success="#79d296",
    success_soft="#1e3326",
    warning="#f0b556",
    warning_soft="#382c17",
    danger="#ff938a",
    danger_soft="#3d2422",
    unread="#8fb0ff",
    code="#151618",
    added="#1c3425",
    added_text="#79d296",
    removed="#402223",
    removed_text="#ff938a",
    syntax_keyword="#d9a3f0",
    syntax_string="#8fd6a4",
    syntax_comment="#9a9ca1",
    syntax_number="#f0b57a",
    syntax_name="#93b6ff",
)


def contrast(first: str, second: str) -> float:
    """Return the contrast ratio of two colours, 1 to 21, as WCAG 2 defines it."""
    bright, dim = sorted((_luminance(first), _luminance(second)), reverse=True)
    return (bright + 0.05) / (dim + 0.05)


def _luminance(colour: str) -> float:
    parts = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    red, green, blue = (
        part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
