"""The list of things to do: what is taken, what is refused, and what the session keeps of it."""

from pathlib import Path
from typing import Any

import pytest

from agent_sdk.core.aio import AbortSignal
from agent_sdk.core.errors import InvalidToolInput, StorageError
from agent_sdk.core.ids import RandomIds, SystemClock
from agent_sdk.loop.types import ToolContext, ToolResult
from agent_sdk.permissions.ruleset import PermissionLayers, evaluate_layers
from agent_sdk.providers.models import Model
from agent_sdk.session.manager import SessionManager
from agent_sdk.session.records import RewindRecord, TodoItem, TodoRecord
from agent_sdk.session.todos import SessionTodos
from agent_sdk.testing.todos import MemoryTodos
from agent_sdk.tools.todo import MAX_ITEMS, MAX_TEXT, TodoEntry, TodoStore, TodoTool, with_ids

MODEL = Model(id="m", provider="p", api="anthropic-messages")


async def call(store: TodoStore, todos: Any) -> ToolResult:
    tool = TodoTool(store=store)
    context = ToolContext(
        call_id="c", cwd="/", model=MODEL, signal=AbortSignal(), update=lambda text: None
    )
    return await tool.execute(tool.parse({"todos": todos}), context)


async def test_a_list_replaces_the_one_before_and_ids_stay() -> None:
    store = MemoryTodos()
    first = await call(store, [{"content": "Read"}, {"content": "Write", "status": "pending"}])
    assert first.content == "The list has 2 items now: 2 pending."
    await call(
        store,
        [
            {"content": "Look first", "status": "in_progress", "active_form": "Looking"},
            {"content": "Write", "status": "completed"},
        ],
    )
    assert store.items() == (
        TodoEntry("Look first", "in_progress", "Looking", "3"),
        TodoEntry("Write", "completed", "", "2"),
    )
    assert (await call(store, [])).content == "The list is empty now."
    assert store.items() == ()


async def test_several_in_progress_get_advice_and_no_error() -> None:
    items = [{"content": str(n), "status": "in_progress"} for n in range(2)]
    result = await call(MemoryTodos(), items)
    assert not result.is_error
    assert "one in progress at a time" in str(result.content)


async def test_details_hold_the_list_in_the_public_spelling() -> None:
    result = await call(MemoryTodos(), [{"content": " Test ", "activeForm": "Testing", "id": "t"}])
    assert result.details == {
        "todos": [{"content": "Test", "status": "pending", "activeForm": "Testing", "id": "t"}]
    }


@pytest.mark.parametrize(
    ("todos", "said"),
    [
        ("Read", "'todos' must be a list"),
        (["Read"], "todos[0] must be an object, not str"),
        ([{"content": "a"}, {"status": "pending"}], "todos[1]: the field 'content' is missing"),
        ([{"content": "  "}], "'content' must not be empty"),
        ([{"content": "a", "status": "done"}], "no status 'done'"),
        ([{"content": "a", "priority": "high"}], "no field 'priority'"),
        ([{"content": "a", "id": "1"}, {"content": "b", "id": "1"}], "2 items have the id '1'"),
        ([{"content": "a" * (MAX_TEXT + 1)}], "longer than"),
        ([{"content": "a"}] * (MAX_ITEMS + 1), f"at most {MAX_ITEMS}"),
        ([{"content": "a", "active_form": "x", "activeForm": "y"}], "given twice"),
    ],
)
def test_bad_input_names_the_field(todos: Any, said: str) -> None:
    with pytest.raises(InvalidToolInput) as caught:
        TodoTool(store=MemoryTodos()).parse({"todos": todos})
    assert said in str(caught.value)


def test_ids_are_unique_whatever_was_there_before() -> None:
    before = (TodoEntry("a", id="1"), TodoEntry("a", id="2"), TodoEntry("b", id="x"))
    entries = with_ids([TodoEntry("a"), TodoEntry("a"), TodoEntry("b"), TodoEntry("c")], before)
    assert [entry.id for entry in entries] == ["1", "2", "x", "3"]
    assert [e.id for e in with_ids([TodoEntry("n", id="1"), TodoEntry("a")], before)] == ["1", "2"]


async def test_what_cannot_be_stored_is_not_in_the_list() -> None:
    store = MemoryTodos([TodoEntry("old")])
    store.failure = StorageError("The disk is gone.")
    with pytest.raises(StorageError):
        await call(store, [{"content": "new"}])
    assert store.items() == (TodoEntry("old"),)


def test_the_baseline_allows_it() -> None:
    tool = TodoTool(store=MemoryTodos())
    (request,) = tool.permissions(tool.parse({"todos": []}), "/")
    assert evaluate_layers(PermissionLayers().in_order(), request) == "allow"


# ------------------------------------------------------------------ the session


async def test_a_session_keeps_the_list_and_a_rewind_takes_it_back(tmp_path: Path) -> None:
    ids, clock = RandomIds(), SystemClock()
    folder, work = tmp_path / "sessions", tmp_path / "work"
    work.mkdir()
    manager = await SessionManager.create(cwd=work, sessions_dir=folder, ids=ids, clock=clock)
    store = SessionTodos(manager=manager)
    await call(store, [{"content": "one", "status": "cancelled"}])
    marked = manager.state.last_uuid
    await call(store, [{"content": "两"}])
    assert [entry.content for entry in store.items()] == ["两"]
    await manager.append(RewindRecord(to_uuid=str(marked), reason="rewind"))
    assert store.items() == (TodoEntry("one", "cancelled", "", "1"),)
    await manager.close()
    again = await SessionManager.resume(
        session_id=manager.session_id, sessions_dir=folder, ids=ids, clock=clock
    )
    assert SessionTodos(manager=again).items() == (TodoEntry("one", "cancelled", "", "1"),)
    await again.close()


async def test_a_status_of_a_later_version_reads_as_pending(tmp_path: Path) -> None:
    manager = SessionManager.in_memory(cwd=tmp_path, ids=RandomIds(), clock=SystemClock())
    await manager.append(TodoRecord(items=(TodoItem("x", "blocked"),)))
    assert SessionTodos(manager=manager).items() == (TodoEntry("x"),)
