"""Cards that are used again: a few of each kind, whatever the length of the transcript."""

from collections.abc import Iterable, Iterator

from PySide6.QtWidgets import QWidget

from desktop.gui.chat.cards import (
    BlankCard,
    Card,
    CardTools,
    FoldedCard,
    LineCard,
    SummaryCard,
    UserCard,
    WorkingCard,
)
from desktop.gui.chat.error_card import ErrorCard
from desktop.gui.chat.rows import Row, RowKind
from desktop.gui.chat.text_card import CodeCard, ProseCard
from desktop.gui.chat.tool_card import ToolCard

_CARDS: dict[RowKind, type[Card]] = {
    "blank": BlankCard,
    "user": UserCard,
    "prose": ProseCard,
    "code": CodeCard,
    "reasoning": FoldedCard,
    "tool": ToolCard,
    "line": LineCard,
    "error": ErrorCard,
    "summary": SummaryCard,
    "working": WorkingCard,
}

SPARE = 12
"""Cards of a kind that wait; more than that are deleted."""


class CardPool:
    """Gives rows cards and takes them back."""

    def __init__(self, *, tools: CardTools, parent: QWidget) -> None:
        self._tools = tools
        self._parent = parent
        self._used: dict[int, Card] = {}
        self._spare: dict[RowKind, list[Card]] = {kind: [] for kind in _CARDS}

    @property
    def size(self) -> int:
        """How many cards there are, used and spare."""
        return len(self._used) + sum(len(spare) for spare in self._spare.values())

    def card_for(self, row: Row) -> Card:
        """Return the card of a row, bound to it as it is now."""
        card = self._used.get(id(row))
        if card is None:
            spare = self._spare[row.kind]
            card = spare.pop() if spare else _CARDS[row.kind](self._tools, self._parent)
            self._used[id(row)] = card
        card.bind(row)
        return card

    def shown(self, row: Row) -> Card | None:
        """Return the card of a row, if it has one."""
        return self._used.get(id(row))

    def visible(self) -> Iterator[Card]:
        """Yield the cards in use."""
        yield from self._used.values()

    def keep_only(self, rows: Iterable[Row]) -> None:
        """Take back the cards of all other rows.

        A card that has the keyboard keeps its row, out of sight: its selection
        and focus are the reader's.
        """
        kept = {id(row) for row in rows}
        for key in [key for key in self._used if key not in kept]:
            card = self._used[key]
            focus = card.window().focusWidget()
            if focus is not None and card.isAncestorOf(focus):
                card.move(card.x(), -card.height() - 10)
            else:
                self._take_back(key)

    def release(self, rows: Iterable[Row]) -> None:
        """Take back the cards of rows that have gone."""
        for row in rows:
            if id(row) in self._used:
                self._take_back(id(row))

    def release_all(self) -> None:
        """Take back all cards."""
        for key in list(self._used):
            self._take_back(key)

    def refresh(self) -> None:
        """Let every card make its contents again."""
        for card in self._used.values():
            card.refresh()
        for spare in self._spare.values():
            for card in spare:
                card.refresh()

    def _take_back(self, key: int) -> None:
        card = self._used.pop(key)
        kind = card.row.kind if card.row is not None else None
        card.unbind()
        if kind is not None and len(self._spare[kind]) < SPARE:
            self._spare[kind].append(card)
        else:
            card.setParent(None)
            card.deleteLater()
