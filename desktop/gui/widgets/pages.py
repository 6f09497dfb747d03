"""Several pages in one place, of which one is shown."""

from PySide6.QtWidgets import QVBoxLayout, QWidget


class Pages(QWidget):
    """As high as the page that is shown; a ``QStackedWidget`` is as high as its highest."""

    def __init__(self, *, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._pages: list[QWidget] = []
        self._layout = QVBoxLayout(self)
        self._layout.setContentsMargins(0, 0, 0, 0)

    def add(self, page: QWidget) -> None:
        """Add a page; the first one is shown."""
        page.setHidden(bool(self._pages))
        self._pages.append(page)
        self._layout.addWidget(page)

    def currentIndex(self) -> int:
        """Return which page is shown, from 0."""
        return next(at for at, page in enumerate(self._pages) if not page.isHidden())

    def setCurrentIndex(self, index: int) -> None:
        """Show another page."""
        self._pages[index].show()
        for at, page in enumerate(self._pages):
            page.setHidden(at != index)
