import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from agent_sdk.core.errors import InvalidInput, StorageError
from agent_sdk.core.ids import RandomIds, SystemClock
from agent_sdk.events.wire import PartDelta, PermissionAskedEvent, SessionStatus
from agent_sdk.host import Change
from desktop.bridge.messages import SettingsState
from desktop.host.db import StateDatabase, open_database
from desktop.host.ports import Database, ProviderRow, SessionRecord


@pytest.fixture
async def db(tmp_path: Path) -> AsyncIterator[StateDatabase]:
    made = await open_database(tmp_path / "state.sqlite", ids=RandomIds(), clock=SystemClock())
    yield made
    await made.aclose()


def idle(session: str, run: str = "") -> Change:
    return Change(SessionStatus(session_id=session, status="idle", run_id=run), run)


def asked(request: str, session: str = "s") -> PermissionAskedEvent:
    return PermissionAskedEvent(
        session_id=session, request_id=request, call_id="c", tool="bash", title="ls", input_hash="h"
    )


async def test_it_is_what_the_host_asks_for(db: StateDatabase) -> None:
    as_port: Database = db
    assert as_port.fresh
    assert as_port.notices == ()
    assert as_port.sqlite_version.startswith("3.")


# ------------------------------------------------------------------- projects


async def test_the_same_folder_is_one_project_whatever_it_is_called(
    db: StateDatabase, tmp_path: Path
) -> None:
    folder = tmp_path / "code"
    folder.mkdir()
    (tmp_path / "link").symlink_to(folder)
    first = await db.projects.add(str(folder))
    assert first.name == "code"
    assert await db.projects.add(str(tmp_path / "link")) == first
    assert await db.projects.add(f"{folder}/../code/") == first
    assert await db.projects.list() == [first]


async def test_a_closed_project_keeps_its_id_and_comes_back_at_the_end(
    db: StateDatabase, tmp_path: Path
) -> None:
    made = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        made.append(await db.projects.add(str(tmp_path / name)))
    await db.projects.remove(made[0].id)
    await db.projects.remove("nobody")
    assert await db.projects.list() == [made[1]]
    assert await db.projects.get(made[0].id) == made[0]
    assert await db.projects.add(made[0].path) == made[0]
    assert [p.id for p in await db.projects.list()] == [made[1].id, made[0].id]


async def test_a_folder_that_has_gone_is_missing(db: StateDatabase, tmp_path: Path) -> None:
    folder = tmp_path / "code"
    folder.mkdir()
    project = await db.projects.add(str(folder))
    folder.rmdir()
    assert (await db.projects.list())[0].missing
    found = await db.projects.get(project.id)
    assert found
    assert found.missing
    assert await db.projects.get("nobody") is None


async def test_what_is_no_folder_is_refused(db: StateDatabase, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    odd = os.fsdecode(os.fsencode(tmp_path) + b"/\xff")
    Path(odd).mkdir()
    for path in (tmp_path / "file", tmp_path / "none", odd, "a\0b"):
        with pytest.raises(InvalidInput):
            await db.projects.add(str(path))
    assert await db.projects.list() == []


# ------------------------------------------------------------------- sessions


async def test_sessions_are_put_replaced_and_listed_last_used_first(
    db: StateDatabase, tmp_path: Path
) -> None:
    project = await db.projects.add(str(tmp_path))
    old = SessionRecord(id="a", project_id=project.id, last_used="2026-01-01T00:00:00.000Z")
    new = SessionRecord(
        id="b",
        project_id=project.id,
        title="Title · 标题",
        last_used="2026-02-01T00:00:00.000Z",
        status="interrupted",
        run_id="r",
        unread=True,
        path="p/b.jsonl",
        error_code="provider",
        error="It failed.",
    )
    await db.sessions.put(old)
    await db.sessions.put(new)
    assert await db.sessions.rows() == [new, old]
    assert await db.sessions.rows(project.id) == [new, old]
    assert await db.sessions.rows("other") == []
    changed = msgspec.structs.replace(new, unread=False, status="idle")
    await db.sessions.put(changed)
    assert await db.sessions.get("b") == changed
    assert await db.sessions.get("nobody") is None


async def test_a_session_needs_a_project(db: StateDatabase) -> None:
    with pytest.raises(StorageError):
        await db.sessions.put(SessionRecord(id="a", project_id="nobody"))


async def test_deleting_a_session_takes_all_of_it_and_nothing_else(
    db: StateDatabase, tmp_path: Path
) -> None:
    project = await db.projects.add(str(tmp_path))
    for name in ("a", "b"):
        await db.sessions.put(SessionRecord(id=name, project_id=project.id))
        await db.prompts.add(name, f"prompt-{name}", text="t", kind="queued")
        await db.events.append(name, [idle(name)])
        await db.permissions.put(asked(f"ask-{name}", name), run_id="r")
    await db.sessions.delete("a")
    await db.sessions.delete("a")
    assert [row.id for row in await db.sessions.rows()] == ["b"]
    assert [row.id for row in await db.prompts.queued()] == ["prompt-b"]
    assert await db.events.last_seq("a") == 0
    assert await db.events.last_seq("b") == 1
    assert [q.request_id for q in await db.permissions.waiting()] == ["ask-b"]


# -------------------------------------------------------------------- prompts


async def test_prompts_are_taken_once_and_leave_in_order(db: StateDatabase) -> None:
    first, new = await db.prompts.add("s", "1", text="one", kind="queued")
    assert new
    assert await db.prompts.add("s", "1", text="changed", kind="steered") == (first, False)
    await db.prompts.add("s", "2", text="two", kind="steered")
    await db.prompts.add("other", "3", text="three", kind="human")
    assert [row.text for row in await db.prompts.queued("s")] == ["one", "two"]
    assert [row.id for row in await db.prompts.queued()] == ["1", "2", "3"]
    await db.prompts.mark_delivered("1", "record-1")
    await db.prompts.mark_delivered("nobody", "record-1")
    assert [row.id for row in await db.prompts.queued("s")] == ["2"]
    again, new = await db.prompts.add("s", "1", text="one", kind="queued")
    assert (again.record, new) == ("record-1", False)
    assert await db.prompts.remove("1") is None  # it is delivered
    assert await db.prompts.remove("2") == "two"
    assert await db.prompts.remove("2") is None


async def test_a_prompt_of_another_session_is_refused(db: StateDatabase) -> None:
    await db.prompts.add("s", "1", text="one", kind="queued")
    with pytest.raises(InvalidInput):
        await db.prompts.add("t", "1", text="one", kind="queued")


async def test_the_same_prompt_at_the_same_moment_is_one_row(db: StateDatabase) -> None:
    adding = [db.prompts.add("s", "1", text="one", kind="queued") for _ in range(8)]
    news = [new for _, new in await asyncio.gather(*adding)]
    assert news.count(True) == 1


# --------------------------------------------------------------------- events


async def test_events_count_from_one_within_each_session(db: StateDatabase) -> None:
    assert await db.events.last_seq("s") == 0
    assert await db.events.last_record("s") == ""
    first = await db.events.append("s", [idle("s", "r1"), idle("s"), idle("s", "r2")])
    other = await db.events.append("t", [idle("t")])
    last = await db.events.append("s", [idle("s")])
    assert [e.seq for e in (*first, *last)] == [1, 2, 3, 4]
    assert [e.seq for e in other] == [1]
    assert await db.events.read("s") == [*first, *last]
    assert await db.events.read("s", since=2, limit=1) == [first[2]]
    assert await db.events.read("s", since=4) == []
    assert await db.events.last_seq("s") == 4
    assert await db.events.last_record("s") == "r2"
    assert len({e.id for e in await db.events.read("s")}) == 4
    assert await db.events.append("s", []) == []
    await db.events.delete("s")
    assert await db.events.read("s") == []
    assert await db.events.last_seq("t") == 1


async def test_appends_at_the_same_moment_leave_no_gap(db: StateDatabase) -> None:
    batches = [[idle("s", f"{n}.{k}") for k in range(n % 4 + 1)] for n in range(40)]
    given = await asyncio.gather(*[db.events.append("s", batch) for batch in batches])
    total = sum(map(len, batches))
    assert sorted(e.seq for events in given for e in events) == list(range(1, total + 1))
    for events in given:  # a batch stays together
        assert [e.seq for e in events] == list(range(events[0].seq, events[0].seq + len(events)))
    stored = await db.events.read("s", limit=total)
    assert {e.seq: e for events in given for e in events} == {e.seq: e for e in stored}


async def test_transient_events_are_never_stored(db: StateDatabase) -> None:
    delta = PartDelta(session_id="s", message_id="m", part_id="p", text="t")
    with pytest.raises(InvalidInput):
        await db.events.append("s", [idle("s"), Change(delta)])
    assert await db.events.last_seq("s") == 0


async def test_an_event_that_cannot_be_understood_is_said(db: StateDatabase) -> None:
    await db.events.append("s", [idle("s")])
    engine: Any = db._engine
    await engine.write(lambda c: c.exec_driver_sql("UPDATE events SET body = x'7b7d'"))
    with pytest.raises(StorageError, match="Event 1"):
        await db.events.read("s")


@pytest.mark.parametrize("text", ["", "\0", "a\0b", "'; --", "\u2028", "🧑‍💻", "x" * 300_000])
async def test_any_text_comes_back_as_it_was(db: StateDatabase, text: str) -> None:
    row, _ = await db.prompts.add("s", "1", text=text, kind="queued")
    assert row.text == text
    assert [r.text for r in await db.prompts.queued()] == [text]
    body = SessionStatus(session_id="s", status="idle", reason=text)
    (event,) = await db.events.append("s", [Change(body)])
    assert (await db.events.read("s")) == [event]


async def test_text_that_is_none_is_refused_and_harms_nothing(db: StateDatabase) -> None:
    results = await asyncio.gather(
        db.prompts.add("s", "1", text="\ud800", kind="queued"),
        db.prompts.add("s", "2", text="good", kind="queued"),
        return_exceptions=True,
    )
    assert isinstance(results[0], InvalidInput)
    assert [row.text for row in await db.prompts.queued()] == ["good"]


# ---------------------------------------------------------------- permissions


async def test_questions_wait_are_settled_once_and_expire(db: StateDatabase) -> None:
    for name in ("1", "2", "3"):
        await db.permissions.put(asked(name), run_id="r")
    assert await db.permissions.settle("2", "once")
    assert not await db.permissions.settle("2", "reject", reason="too late")
    assert not await db.permissions.settle("nobody", "once")
    assert await db.permissions.waiting() == [asked("1"), asked("3")]
    assert await db.permissions.expire_all("restart") == [asked("1"), asked("3")]
    assert await db.permissions.waiting() == []
    assert await db.permissions.expire_all("restart") == []
    assert not await db.permissions.settle("1", "once")


async def test_a_question_is_asked_once(db: StateDatabase) -> None:
    await db.permissions.put(asked("1"), run_id="r")
    with pytest.raises(StorageError):
        await db.permissions.put(asked("1"), run_id="r")


# ------------------------------------------------------- settings and providers


async def test_settings_change_from_the_newest_revision_only(db: StateDatabase) -> None:
    assert await db.settings.get() == SettingsState(revision=0)
    first = await db.settings.change(0, permission_mode="plan")
    assert first == SettingsState(revision=1, permission_mode="plan")
    with pytest.raises(InvalidInput, match="changed meanwhile"):
        await db.settings.change(0, thinking="high")
    second = await db.settings.change(1, thinking="high", follow_up="steer")
    assert second == await db.settings.get()
    assert second == SettingsState(
        revision=2, permission_mode="plan", thinking="high", follow_up="steer"
    )


@pytest.mark.parametrize("changes", [{"permission_mode": "sure"}, {"follow_up": "never"}])
async def test_unknown_values_are_refused(db: StateDatabase, changes: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        await db.settings.change(0, **changes)
    assert (await db.settings.get()).revision == 0


async def test_of_changes_at_the_same_moment_one_wins(db: StateDatabase) -> None:
    changing = [db.settings.change(0, thinking=str(n)) for n in range(6)]
    results = await asyncio.gather(*changing, return_exceptions=True)
    assert sum(isinstance(r, SettingsState) for r in results) == 1
    assert (await db.settings.get()).revision == 1


async def test_settings_of_a_newer_version_are_kept(db: StateDatabase) -> None:
    await db.settings.change(0, thinking="low")
    engine: Any = db._engine
    body = b'{"thinking":"low","sound":"loud"}'
    await engine.write(lambda c: c.exec_driver_sql("UPDATE settings SET body = ?", (body,)))
    assert (await db.settings.change(1, thinking="high")).thinking == "high"
    kept = await engine.read(lambda c: c.exec_driver_sql("SELECT body FROM settings").scalar_one())
    assert msgspec.json.decode(kept) == {"thinking": "high", "sound": "loud"}


async def test_providers_and_the_default_model(db: StateDatabase) -> None:
    row = ProviderRow(name="b", api="openai-completions", base_url="https://b", models=("x", "y"))
    other = ProviderRow(name="a", api="openai-responses", base_url="https://a")
    await db.providers.put(row)
    await db.providers.put(other)
    changed = msgspec.structs.replace(row, models=("z",))
    await db.providers.put(changed)
    assert await db.providers.list() == [changed, other]
    await db.providers.remove("b")
    await db.providers.remove("nobody")
    assert await db.providers.list() == [other]
    assert await db.providers.default_model() == ""
    await db.providers.set_default_model("a/x")
    await db.providers.set_default_model("a/y")
    assert await db.providers.default_model() == "a/y"
