"""A session's list of things to do, as its records keep it."""

from collections.abc import Sequence

from agent_sdk.session.manager import SessionManager
from agent_sdk.session.records import TodoItem, TodoRecord
from agent_sdk.tools.todo import TodoEntry, TodoStatus

_STATUSES: dict[str, TodoStatus] = {
    "in_progress": "in_progress",
    "completed": "completed",
    "cancelled": "cancelled",
}


class SessionTodos:
    """Fulfils ``tools.todo.TodoStore`` over a session's history."""

    def __init__(self, *, manager: SessionManager) -> None:
        self._manager = manager

    def items(self) -> tuple[TodoEntry, ...]:
        """Return the list in view; a status that this version does not know is pending."""
        return tuple(
            TodoEntry(
                item.content, _STATUSES.get(item.status, "pending"), item.active_form, item.id
            )
            for item in self._manager.state.todos
        )

    async def replace(self, items: Sequence[TodoEntry]) -> None:
        """Append the whole list; returns when it is durable.

        Raises:
            StorageError: As ``SessionManager.append``.
        """
        stored = tuple(TodoItem(e.content, e.status, e.active_form, e.id) for e in items)
        await self._manager.append(TodoRecord(items=stored))
