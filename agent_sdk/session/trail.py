"""The way through a session's records: what each did, and which came before it.

A rewind makes the way leave the file's order. The beginning of a long session
need not be in memory: then the trail starts with the view that the beginning
came to, and says which record points further back than it can see.
"""

from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

from agent_sdk.providers.messages import Message
from agent_sdk.session.records import CompactionRecord, Record, RewindRecord, TodoRecord
from agent_sdk.session.view import View

Effect: TypeAlias = Message | CompactionRecord | TodoRecord
"""What a record does to the conversation."""


class Step(NamedTuple):
    """A record on the trail.

    Attributes:
        uuid: Its id.
        before: Position of the record before it in the conversation.
        effect: What it does to the conversation, if anything.
    """

    uuid: str
    before: int
    effect: Effect | None


class Trail:
    """One entry a record, from a base on.

    Args:
        base: How many records before are not in memory.
        known: Positions of those of them that are known all the same: the
            records in view, and the last one.
        view: What they come to; it is not changed. None for nothing.

    Attributes:
        at: Position of each known record, by id.
        steps: The records from the base on.
    """

    def __init__(
        self, *, base: int = 0, known: Mapping[str, int] | None = None, view: View | None = None
    ) -> None:
        self.base = base
        self._base_view = view or View()
        self.at: dict[str, int] = dict(known or {})
        self.steps: list[Step] = []

    @property
    def count(self) -> int:
        """How many records there are, those before the base included."""
        return self.base + len(self.steps)

    def knows(self, uuid: str) -> bool:
        """Whether there is a record of that id, as far as is known."""
        return uuid in self.at

    def find(self, uuid: str | None, default: int) -> int:
        """Return a record's position; the default if there is none of that id."""
        return default if uuid is None else self.at.get(uuid, default)

    def lacks(self, record: Record) -> bool:
        """Whether the record points to something before the base that is not known."""
        if not self.base:
            return False
        if isinstance(record, RewindRecord):
            at = self.at.get(record.to_uuid)
            return at is None or at < self.base - 1  # views before the base's are not known
        if isinstance(record, CompactionRecord):
            pointers = (record.keep_from_uuid, record.clear_tool_results_before_uuid)
            return any(uuid is not None and uuid not in self.at for uuid in pointers)
        return False

    def add(self, uuid: str, effect: Effect | None, *, before: int) -> int:
        """Take the next record and return its position.

        Args:
            uuid: Its id.
            effect: What it does.
            before: Position of the record before it in the conversation.
        """
        at = self.count
        self.at[uuid] = at
        self.steps.append(Step(uuid, before, effect))
        return at

    def act(self, at: int, view: View) -> None:
        """Let the record at a position do to the view what it does."""
        uuid, _, effect = self.steps[at - self.base]
        if isinstance(effect, CompactionRecord):
            view.compact(
                effect,
                keep_from=self.find(effect.keep_from_uuid or "", at),
                clear_before=self.find(effect.clear_tool_results_before_uuid or "", -1),
            )
        elif isinstance(effect, TodoRecord):
            view.todos = effect.items
        elif effect is not None:
            view.add(effect, uuid=uuid, at=at)

    def view_at(self, at: int) -> View:
        """Return the view along the records that lead to a position."""
        path = []
        while at >= self.base:
            step = self.steps[at - self.base]
            if step.effect is not None:
                path.append(at)
            at = step.before
        view = self._base_view.copy()
        for position in reversed(path):
            self.act(position, view)
        return view

    def put_before(self, head: "Trail") -> None:
        """Put what lies before the base into memory.

        Args:
            head: The trail of exactly those records, from the first on.
        """
        self.at = {**head.at, **self.at}
        self.steps = head.steps + self.steps
        self.base, self._base_view = 0, View()
