"""The tool ``todo``: the session's list of things to do, replaced as a whole."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol, TypeAlias, get_args

from msgspec import Struct
from typing_extensions import override

from agent_sdk.core.errors import InvalidToolInput
from agent_sdk.loop.types import (
    PermissionRequest,
    Tool,
    ToolContext,
    ToolMetadata,
    ToolResult,
)
from agent_sdk.providers.messages import Json
from agent_sdk.tools.inputs import check_input

TodoStatus: TypeAlias = Literal["pending", "in_progress", "completed", "cancelled"]

MAX_ITEMS = 200
MAX_TEXT = 2_000
"""Characters of an item's text."""

_STATUSES: dict[str, TodoStatus] = {status: status for status in get_args(TodoStatus)}

_DESCRIPTION = (
    "Keep the list of things to do, which the user sees. Each call replaces the whole list, so"
    " send every item, also the finished ones. Use it for work of several steps: put the steps"
    " down before you begin, set one to in_progress when you start with it and to completed as"
    " soon as it is done and checked, and cancel what has become needless. Not for a single"
    " simple step."
)

_ITEM: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "content": {"type": "string", "description": "What is to be done."},
        "status": {
            "type": "string",
            "enum": list(_STATUSES),
            "description": "pending if left out.",
        },
        "active_form": {
            "type": "string",
            "description": "What is shown while it is being done, such as 'Running the tests'.",
        },
        "id": {"type": "string", "description": "Its id, to change its text later on."},
    },
    "required": ["content"],
    "additionalProperties": False,
}

_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "todos": {
            "type": "array",
            "items": _ITEM,
            "description": "The whole list, in order; empty to clear it.",
        }
    },
    "required": ["todos"],
    "additionalProperties": False,
}

_SPELLINGS: Mapping[str, Any] = {"activeForm": {"type": "string"}}


class TodoEntry(Struct, frozen=True):
    """One thing to do.

    Attributes:
        content: What is to be done.
        status: How far it is.
        active_form: What is shown while it is being done; may be empty.
        id: Unique in the list; given by the tool where the model gives none.
    """

    content: str
    status: TodoStatus = "pending"
    active_form: str = ""
    id: str = ""


class TodoStore(Protocol):
    """Where a session keeps its list."""

    def items(self) -> tuple[TodoEntry, ...]:
        """Return the list as it is."""
        ...

    async def replace(self, items: Sequence[TodoEntry]) -> None:
        """Store another list in its place; returns when it is durable.

        Raises:
            ZpiError: If it could not be stored; the list is then unchanged.
        """
        ...


class TodoTool(Tool):
    """Replaces the list that ``store`` keeps."""

    def __init__(self, *, store: TodoStore) -> None:
        self._store = store

    @property
    @override
    def name(self) -> str:
        return "todo"

    @property
    @override
    def description(self) -> str:
        return _DESCRIPTION

    @property
    @override
    def parameters(self) -> Mapping[str, Any]:
        return _SCHEMA

    @property
    @override
    def metadata(self) -> ToolMetadata:
        return ToolMetadata(side_effects="session")

    @override
    def parse(self, raw: Json) -> tuple[TodoEntry, ...]:
        given = check_input(raw, _SCHEMA, tool="todo")["todos"]
        if len(given) > MAX_ITEMS:
            raise InvalidToolInput(
                f"todo: the list has {len(given)} items; at most {MAX_ITEMS} are taken.",
                hint="Join small steps, and leave out what has long been done.",
            )
        entries = tuple(_entry(item, f"todo: todos[{at}]") for at, item in enumerate(given))
        for name, count in Counter(entry.id for entry in entries if entry.id).items():
            if count > 1:
                raise InvalidToolInput(f"todo: {count} items have the id {name!r}.")
        return entries

    @override
    def permissions(self, args: tuple[TodoEntry, ...], cwd: str) -> tuple[PermissionRequest, ...]:
        return (
            PermissionRequest(
                permission="todo", patterns=("*",), title="Change the list of things to do"
            ),
        )

    @override
    async def execute(self, args: tuple[TodoEntry, ...], context: ToolContext) -> ToolResult:
        before = self._store.items()
        entries = with_ids(args, before)
        await self._store.replace(items=entries)
        return ToolResult(
            content=summary(entries),
            details={"todos": [_stored(entry) for entry in entries]},
        )


def with_ids(entries: Sequence[TodoEntry], before: Sequence[TodoEntry]) -> tuple[TodoEntry, ...]:
    """Return the entries with an id each: that of the same text before, or a new one. Pure."""
    taken = {entry.id for entry in entries}
    known = {entry.content: entry.id for entry in reversed(before) if entry.id}
    numbers = (int(name) for name in taken | set(known.values()) if name.isdecimal())
    last = max((number for number in numbers if number < 10**9), default=0)
    found = []
    for entry in entries:
        name = entry.id or known.get(entry.content, "")
        if not entry.id and (not name or name in taken):
            last += 1
            name = str(last)
        taken.add(name)
        found.append(TodoEntry(entry.content, entry.status, entry.active_form, name))
    return tuple(found)


def summary(entries: Sequence[TodoEntry]) -> str:
    """Return what the model is told about its list. Pure."""
    if not entries:
        return "The list is empty now."
    counts = Counter(entry.status for entry in entries)
    parts = [f"{counts[s]} {s.replace('_', ' ')}" for s in _STATUSES.values() if counts[s]]
    items = "1 item" if len(entries) == 1 else f"{len(entries)} items"
    text = f"The list has {items} now: {', '.join(parts)}."
    if counts["in_progress"] > 1:
        text += " Better have one in progress at a time, so that the user sees what is going on."
    return text


def _entry(item: object, label: str) -> TodoEntry:
    if not isinstance(item, dict):
        raise InvalidToolInput(
            f"{label} must be an object, not {type(item).__name__}.",
            hint="Write items like {'content': 'Run the tests', 'status': 'pending'}.",
        )
    fields = check_input(item, _ITEM, tool=label, also=_SPELLINGS)
    given = fields.get("status", "pending")
    status = _STATUSES.get(given)
    if status is None:
        known = ", ".join(_STATUSES)
        raise InvalidToolInput(f"{label}: there is no status {given!r}.", hint=f"Known: {known}.")
    forms = {fields[name] for name in ("active_form", "activeForm") if name in fields}
    if len(forms) > 1:
        raise InvalidToolInput(f"{label}: 'active_form' is given twice, differently.")
    content, active = fields["content"].strip(), "".join(forms).strip()
    if not content:
        raise InvalidToolInput(f"{label}: 'content' must not be empty.")
    if len(content) > MAX_TEXT or len(active) > MAX_TEXT or len(fields.get("id", "")) > MAX_TEXT:
        raise InvalidToolInput(f"{label}: a text is longer than {MAX_TEXT:,} characters.")
    return TodoEntry(content, status, active, fields.get("id", "").strip())


def _stored(entry: TodoEntry) -> Json:
    return {
        "content": entry.content,
        "status": entry.status,
        "activeForm": entry.active_form,
        "id": entry.id,
    }
