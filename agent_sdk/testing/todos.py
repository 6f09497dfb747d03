"""A list of things to do that is kept in memory only."""

from collections.abc import Sequence

from agent_sdk.tools.todo import TodoEntry


class MemoryTodos:
    """Fulfils ``tools.todo.TodoStore`` without a session.

    Attributes:
        history: Every list that was stored, oldest first.
        failure: Raised by ``replace`` instead of storing, if it is set.
    """

    def __init__(self, items: Sequence[TodoEntry] = ()) -> None:
        self.history: list[tuple[TodoEntry, ...]] = [tuple(items)]
        self.failure: Exception | None = None

    def items(self) -> tuple[TodoEntry, ...]:
        """Return the list that was stored last."""
        return self.history[-1]

    async def replace(self, items: Sequence[TodoEntry]) -> None:
        """Store another list.

        Raises:
            Exception: The ``failure`` that was set.
        """
        if self.failure is not None:
            raise self.failure
        self.history.append(tuple(items))
