"""Text that can be selected, with links, in the colours of the theme; nothing is ever loaded."""

from collections.abc import Callable

from PySide6.QtCore import QEvent, QPoint, Qt, QUrl
from PySide6.QtGui import (
    QContextMenuEvent,
    QGuiApplication,
    QHelpEvent,
    QTextCursor,
    QTextOption,
    QWheelEvent,
)
from PySide6.QtWidgets import QFrame, QMenu, QTextBrowser, QToolTip, QWidget
from typing_extensions import override

from desktop.gui.chat.markdown import allowed_link, link_target
from desktop.gui.i18n import tr
from desktop.gui.theme import Theme


class RichText(QTextBrowser):
    """A piece of text as high as its contents; it never scrolls by itself.

    Attributes:
        markdown_source: Returns what *Copy as Markdown* copies; None if there is no such.
    """

    def __init__(
        self,
        theme: Theme,
        open_link: Callable[[str], None],
        parent: QWidget,
        *,
        tint: str = "text",
    ) -> None:
        super().__init__(parent)
        self.theme = theme
        self._tint = tint
        self._open_link = open_link
        self.markdown_source: Callable[[], str] | None = None
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setTextInteractionFlags(
            Qt.TextInteractionFlag.TextSelectableByMouse
            | Qt.TextInteractionFlag.LinksAccessibleByMouse
            | Qt.TextInteractionFlag.LinksAccessibleByKeyboard
        )
        self.setFocusPolicy(Qt.FocusPolicy.ClickFocus)
        self.setWordWrapMode(QTextOption.WrapMode.WrapAtWordBoundaryOrAnywhere)
        self.setUndoRedoEnabled(False)
        self.setOpenLinks(False)
        self.viewport().setAutoFillBackground(False)
        self.document().setDocumentMargin(0)
        self.setStyleSheet("background: transparent; border: none;")
        self.anchorClicked.connect(self._clicked)
        self.restyle()

    def restyle(self) -> None:
        """Take fonts and colours of the theme; the text must be set again after it."""
        self.document().setDefaultFont(self.theme.font())
        self.document().setDefaultStyleSheet(sheet(self.theme, self._tint))

    def show_html(self, html: str) -> None:
        """Show HTML of our own making; what is selected stays selected."""
        cursor = self.textCursor()
        anchor, position = cursor.anchor(), cursor.position()
        self.setHtml(html.rstrip())
        if anchor != position:
            end = self.document().characterCount() - 1
            cursor = self.textCursor()
            cursor.setPosition(min(anchor, end))
            cursor.setPosition(min(position, end), QTextCursor.MoveMode.KeepAnchor)
            self.setTextCursor(cursor)

    def show_plain(self, text: str) -> None:
        """Show text as it is."""
        self.setPlainText(text)
        self._colour_all()

    def append_plain(self, text: str) -> None:
        """Add text at the end; what is there is not laid out again."""
        cursor = QTextCursor(self.document())
        cursor.movePosition(QTextCursor.MoveOperation.End)
        cursor.insertText(text)

    def _colour_all(self) -> None:
        cursor = QTextCursor(self.document())
        cursor.select(QTextCursor.SelectionType.Document)
        layout = cursor.charFormat()
        layout.setForeground(self.theme.colour(self._tint))
        cursor.mergeCharFormat(layout)

    def height_for(self, width: int) -> int:
        """Return how high the text is when it is ``width`` pixels wide."""
        document = self.document()
        if document.textWidth() != width:
            document.setTextWidth(width)
        return int(document.size().height() + 0.999)

    def natural_width(self, most: int) -> int:
        """Return the width that the text would take, at most ``most``."""
        document = self.document()
        document.setTextWidth(most)
        return min(most, int(document.idealWidth() + 1.999))

    # --------------------------------------------------------------- behaviour

    @override
    def loadResource(self, type: int, name: QUrl | str, /) -> object:
        return None

    @override
    def wheelEvent(self, event: QWheelEvent, /) -> None:
        event.ignore()

    @override
    def viewportEvent(self, event: QEvent, /) -> bool:
        if event.type() == QEvent.Type.ToolTip and isinstance(event, QHelpEvent):
            self._tip(event.pos(), event.globalPos())
            return True
        return super().viewportEvent(event)

    @override
    def contextMenuEvent(self, event: QContextMenuEvent, /) -> None:
        self.menu(event.pos()).popup(event.globalPos())

    def menu(self, at: QPoint) -> QMenu:
        """Return the menu for a place in the text."""
        menu = QMenu(self)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        copy = menu.addAction(tr("Copy"))
        copy.setEnabled(self.textCursor().hasSelection())
        copy.triggered.connect(self.copy)
        if self.markdown_source is not None:
            source = self.markdown_source
            menu.addAction(tr("Copy message as Markdown")).triggered.connect(
                lambda: QGuiApplication.clipboard().setText(source())
            )
        url = self.anchorAt(at)
        if url and allowed_link(url):
            menu.addAction(tr("Copy link")).triggered.connect(
                lambda: QGuiApplication.clipboard().setText(url)
            )
        menu.addAction(tr("Select all")).triggered.connect(self.selectAll)
        return menu

    def _tip(self, at: QPoint, where: QPoint) -> None:
        url = self.anchorAt(at)
        if url:
            QToolTip.showText(where, link_target(url), self)
        else:
            QToolTip.hideText()

    def _clicked(self, url: QUrl) -> None:
        address = url.toString(QUrl.ComponentFormattingOption.FullyEncoded)
        if allowed_link(address):
            self._open_link(address)


def sheet(theme: Theme, tint: str = "text") -> str:
    """Return the style sheet of a document of our HTML."""
    tokens = theme.tokens
    colour = getattr(tokens, tint)
    mono = ", ".join(f"'{name}'" for name in theme.mono_families())
    size = theme.font_size
    return f"""
    body, p, li, td, th, span {{ color: {colour}; }}
    p {{ margin: 0 0 {round(size * 0.6)}px 0; line-height: 140%; }}
    p.plain {{ margin: 0; }}
    p.h1, p.h2, p.h3, p.h4, p.h5, p.h6 {{ font-weight: 600; margin: {round(size * 0.9)}px 0 {round(size * 0.4)}px 0; }}
    p.h1 {{ font-size: {round(size * 1.4)}px; }}
    p.h2 {{ font-size: {round(size * 1.2)}px; }}
    p.h3 {{ font-size: {round(size * 1.08)}px; }}
    p.h4, p.h5, p.h6 {{ font-size: {size}px; }}
    ul, ol {{ margin: 0 0 {round(size * 0.6)}px 0; }}
    li {{ margin: 0 0 {round(size * 0.2)}px 0; line-height: 140%; }}
    a {{ color: {tokens.accent}; text-decoration: underline; }}
    code {{ font-family: {mono}; font-size: {round(size * 0.93)}px; background-color: {tokens.code}; }}
    pre {{ font-family: {mono}; font-size: {round(size * 0.93)}px; background-color: {tokens.code};
           margin: {round(size * 0.3)}px 0; white-space: pre-wrap; color: {colour}; }}
    blockquote {{ margin: 0 0 {round(size * 0.6)}px {round(size * 1.2)}px; color: {tokens.muted}; }}
    blockquote p {{ color: {tokens.muted}; }}
    table {{ border-collapse: collapse; border-style: solid; border-color: {tokens.border}; margin: 0 0 {round(size * 0.6)}px 0; }}
    td, th {{ border: 1px solid {tokens.border}; }}
    th {{ background-color: {tokens.raised}; font-weight: 600; text-align: left; }}
    hr {{ background-color: {tokens.border}; }}
    """
