import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_sdk.core.errors import (
    DiskFull,
    InvalidInput,
    SettingsConflict,
    SettingsDamaged,
    StorageError,
)
from agent_sdk.core.fsio import AppendLog
from agent_sdk.loop.types import Rule
from agent_sdk.session import settings_file
from agent_sdk.session.settings import Settings, load_settings
from agent_sdk.session.settings_file import SettingsManager
from tests.support.repository import ROOT


@pytest.fixture
def cwd(tmp_path: Path) -> Path:
    folder = Path(os.path.realpath(tmp_path)) / "项目"
    folder.mkdir()
    return folder


@pytest.fixture
def agent_dir(cwd: Path) -> Path:
    return cwd.parent / "agent"


@pytest.fixture
def manager(agent_dir: Path, cwd: Path) -> SettingsManager:
    return SettingsManager.from_files(agent_dir, cwd)


def user_file(agent_dir: Path) -> Path:
    return agent_dir / "settings.json"


def put(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
    return path


# ------------------------------------------------------------- both kinds


@pytest.fixture(params=["files", "memory"])
def either(request: pytest.FixtureRequest, agent_dir: Path, cwd: Path) -> SettingsManager:
    if request.param == "files":
        return SettingsManager.from_files(agent_dir, cwd)
    return SettingsManager.in_memory(cwd=cwd)


def test_nothing_says_nothing(either: SettingsManager) -> None:
    assert either.load() == Settings()
    assert either.problems() == ()
    layer = either.layer()
    assert (layer.values, layer.revision) == ({}, "")


def test_what_was_saved_is_in_force(either: SettingsManager, cwd: Path) -> None:
    first = either.save({"model": "opus", "thinking": "high"}, revision="")
    assert (first.values, first.scope) == ({"model": "opus", "thinking": "high"}, "user")
    assert either.layer() == first
    either.update({"permissions": {"edit": {"docs/*": "deny"}}}, scope="project")
    found = either.load()
    assert (found.model, found.thinking) == ("opus", "high")
    assert found.project_rules == (Rule("edit", f"{cwd}/docs/*", "deny"),)
    either.update({"thinking": "low"}, scope="project")
    assert either.load().thinking == "low"


def test_an_update_leaves_the_rest(either: SettingsManager) -> None:
    either.save({"model": "opus", "thinking": "high", "tool_env": {"A": "b"}}, revision="")
    after = either.update({"thinking": "low", "model": None, "local": None})
    assert list(after.values.items()) == [("thinking", "low"), ("tool_env", {"A": "b"})]
    assert either.layer() == after


def test_a_stale_revision_is_refused(either: SettingsManager) -> None:
    first = either.save({"model": "one"}, revision="")
    second = either.update({"model": "two"}, revision=first.revision)
    assert second.revision != first.revision
    with pytest.raises(SettingsConflict, match="nothing was saved") as caught:
        either.update({"model": "three"}, revision=first.revision)
    assert caught.value.hint
    for stale in (first.revision, ""):
        with pytest.raises(SettingsConflict):
            either.save({"model": "three"}, revision=stale)
    assert either.layer() == second
    with pytest.raises(SettingsConflict):
        either.save({}, scope="project", revision=second.revision)


def test_the_same_content_has_the_same_revision(either: SettingsManager) -> None:
    first = either.save({"model": "one"}, revision="")
    either.update({"model": "two"})
    assert either.update({"model": "one"}).revision == first.revision


@pytest.mark.parametrize(
    ("scope", "values", "said"),
    [
        ("user", {"modell": "x"}, "unknown field 'modell'"),
        ("user", {"model": 5}, "field 'model'"),
        ("user", {"permission_mode": "bypassPermissions"}, "cannot be set in a file"),
        ("user", {"permissions": {"bush": "ask"}}, "'permissions.bush' is no permission"),
        ("user", {"tool_env": {"A": float("nan")}}, "cannot be written as JSON"),
        ("user", {"model": "\ud800"}, "cannot be written as JSON"),
        ("user", {"model": Path("x")}, "cannot be written as JSON"),
        ("user", {1: 2}, "unknown field '1'"),
        ("project", {"model": "x"}, "'model' is refused in a project's settings"),
        ("project", {"permissions": {"bash": "allow"}}, "a project cannot allow anything"),
        ("project", {"other": 1}, "unknown field 'other'"),
    ],
)
def test_what_cannot_be_used_is_not_saved(
    either: SettingsManager, scope: Any, values: dict[str, Any], said: str
) -> None:
    before = either.update({"thinking": "low"}, scope=scope)
    with pytest.raises(InvalidInput, match=said) as caught:
        either.update(values, scope=scope)
    assert "Nothing was saved" in caught.value.hint
    with pytest.raises(InvalidInput, match=said):
        either.save(values, scope=scope, revision=before.revision)
    assert either.layer(scope) == before


# ------------------------------------------------------------------ memory


def test_a_manager_in_memory_starts_with_what_it_is_given(cwd: Path) -> None:
    manager = SettingsManager.in_memory(
        {"model": "opus", "permissions": {"read": {"~/x": "ask"}}},
        {"thinking": "low"},
        cwd=cwd,
        home=Path("/home/me"),
    )
    assert manager.load() == Settings(
        model="opus", thinking="low", user_rules=(Rule("read", "/home/me/x", "ask"),)
    )
    with pytest.raises(InvalidInput, match="modell"):
        SettingsManager.in_memory({"modell": "x"})
    assert list(cwd.parent.iterdir()) == [cwd]


# ------------------------------------------------------------------- files


def test_the_file_is_for_people_and_private(manager: SettingsManager, agent_dir: Path) -> None:
    manager.update({"model": "模型", "tool_env": {"A": "b"}})
    path = user_file(agent_dir)
    assert path.read_text("utf-8") == (
        '{\n  "model": "模型",\n  "tool_env": {\n    "A": "b"\n  }\n}\n'
    )
    if sys.platform != "win32":
        assert path.stat().st_mode & 0o777 == 0o600
    assert load_settings(agent_dir, agent_dir).model == "模型"


def test_a_file_that_somebody_edited_is_another_revision(
    manager: SettingsManager, agent_dir: Path
) -> None:
    first = manager.update({"model": "one"})
    put(user_file(agent_dir), '\ufeff{"model": "by hand"}')
    with pytest.raises(SettingsConflict):
        manager.update({"thinking": "low"}, revision=first.revision)
    assert manager.load().model == "by hand"
    manager.update({"thinking": "low"}, revision=manager.layer().revision)
    assert json.loads(user_file(agent_dir).read_bytes()) == {"model": "by hand", "thinking": "low"}


@pytest.mark.parametrize("text", ["{", '{"modell": 1}', '{"model": "a", "model": "b"}', "[]"])
def test_a_broken_file_is_reported_and_never_written_over(
    manager: SettingsManager, agent_dir: Path, cwd: Path, text: str
) -> None:
    user, project = put(user_file(agent_dir), text), put(cwd / ".zpi" / "settings.json", text)
    problems = manager.problems()
    assert [problem.message.partition(": ")[0] for problem in problems] == [
        repr(str(user)),
        repr(str(project)),
    ]
    assert all("was not changed" in problem.hint for problem in problems)
    with pytest.raises(SettingsDamaged):
        manager.load()
    with pytest.raises(SettingsDamaged):
        manager.layer()
    with pytest.raises(SettingsDamaged):
        manager.update({"model": "x"})
    with pytest.raises(SettingsDamaged):
        manager.update({"thinking": "low"}, scope="project")
    with pytest.raises(SettingsDamaged):
        manager.save({}, revision=settings_file.revision_of(text.encode()))
    assert (user.read_text("utf-8"), project.read_text("utf-8")) == (text, text)


def test_one_broken_layer_does_not_lock_the_other(manager: SettingsManager, cwd: Path) -> None:
    put(cwd / ".zpi" / "settings.json", "{")
    manager.update({"model": "x"})
    assert manager.layer().values == {"model": "x"}
    assert len(manager.problems()) == 1


@pytest.mark.parametrize("error", [DiskFull("No room."), StorageError("No.")])
def test_a_save_that_did_not_happen_raises(
    manager: SettingsManager, monkeypatch: pytest.MonkeyPatch, error: StorageError
) -> None:
    before = manager.update({"model": "one"})

    def failing(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(settings_file, "replace_file", failing)
    with pytest.raises(type(error)):
        manager.update({"model": "two"})
    assert manager.layer() == before


def test_a_lock_that_stays_held_is_an_error(
    manager: SettingsManager, agent_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    manager.update({"model": "one"})
    monkeypatch.setattr(settings_file, "_LOCK_TRIES", 2)
    holder = AppendLog.open(agent_dir / "settings.lock")
    assert holder.lock()
    try:
        with pytest.raises(StorageError, match="changing settings for too long"):
            manager.update({"model": "two"})
    finally:
        holder.close()
    assert manager.load().model == "one"
    manager.update({"model": "two"})


def test_sources_decide_what_is_read_and_written(agent_dir: Path, cwd: Path) -> None:
    put(user_file(agent_dir), '{"model": "mine"}')
    put(cwd / ".zpi" / "settings.json", '{"thinking": "low"}')
    none = SettingsManager.from_files(agent_dir, cwd, setting_sources=[])
    assert none.load() == Settings()
    project = SettingsManager.from_files(agent_dir, cwd, setting_sources=["project"])
    assert project.load() == Settings(thinking="low")
    with pytest.raises(InvalidInput, match="user's settings are not in use"):
        project.update({"model": "x"})
    with pytest.raises(InvalidInput, match="'local' is no setting source"):
        SettingsManager.from_files(agent_dir, cwd, setting_sources=["local"])


def test_in_the_home_folder_there_is_one_file(cwd: Path) -> None:
    manager = SettingsManager.from_files(cwd / ".zpi", cwd)
    manager.update({"model": "mine"})
    assert manager.load() == Settings(model="mine")
    assert manager.problems() == ()
    with pytest.raises(InvalidInput, match="project's settings are not in use"):
        manager.update({"thinking": "low"}, scope="project")


if sys.platform != "win32":

    def test_a_user_may_keep_the_file_elsewhere(manager: SettingsManager, agent_dir: Path) -> None:
        real = put(agent_dir.parent / "dotfiles" / "zpi.json", "{}")
        real.chmod(0o644)
        agent_dir.mkdir()
        user_file(agent_dir).symlink_to(real)
        manager.update({"model": "x"})
        assert user_file(agent_dir).is_symlink()
        assert json.loads(real.read_bytes()) == {"model": "x"}
        assert real.stat().st_mode & 0o777 == 0o644

    def test_a_project_cannot_have_other_files_written(manager: SettingsManager, cwd: Path) -> None:
        other = put(cwd.parent / "other.json", "{}")
        (cwd / ".zpi").mkdir()
        (cwd / ".zpi" / "settings.json").symlink_to(other)
        with pytest.raises(InvalidInput, match="leads out of the project"):
            manager.update({"thinking": "low"}, scope="project")
        assert other.read_text() == "{}"


# -------------------------------------------------------------- all at once

WRITER = """
import sys
from pathlib import Path
from agent_sdk.session.settings_file import SettingsManager
manager = SettingsManager.from_files(Path(sys.argv[1]), Path(sys.argv[2]))
for number in range(10):
    manager.update({"tool_env": {**manager.layer().values.get("tool_env", {}), sys.argv[3]: str(number)}})
    assert manager.load().tool_env
"""


def test_several_programs_at_once_leave_a_whole_file(
    manager: SettingsManager, agent_dir: Path, cwd: Path
) -> None:
    started = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(agent_dir), str(cwd), name], cwd=ROOT)
        for name in "abc"
    ]
    assert [process.wait() for process in started] == [0, 0, 0]
    assert manager.load().tool_env
    assert sorted(path.name for path in agent_dir.iterdir()) == ["settings.json", "settings.lock"]


def test_with_revisions_no_change_of_several_threads_is_lost(
    manager: SettingsManager, agent_dir: Path, cwd: Path
) -> None:
    conflicts: list[int] = []

    def add(name: str) -> None:
        mine = SettingsManager.from_files(agent_dir, cwd)
        for number in range(5):
            while True:
                layer = mine.layer()
                variables = {**layer.values.get("tool_env", {}), f"{name}{number}": "x"}
                try:
                    mine.update({"tool_env": variables}, revision=layer.revision)
                except SettingsConflict:
                    conflicts.append(1)
                else:
                    break

    threads = [threading.Thread(target=add, args=(name,)) for name in "abc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(manager.load().tool_env) == 15


@given(
    st.lists(
        st.dictionaries(
            st.sampled_from(["model", "thinking", "modell"]),
            st.sampled_from(["low", "high", None, "opus", 3]),
        ),
        max_size=6,
    )
)
def test_a_layer_is_always_what_was_saved_last(changes: list[dict[str, Any]]) -> None:
    manager = SettingsManager.in_memory()
    expected: dict[str, Any] = {}
    for change in changes:
        try:
            layer = manager.update(change)
        except InvalidInput:
            continue
        expected = {k: v for k, v in {**expected, **change}.items() if v is not None}
        assert dict(layer.values) == expected
    assert dict(manager.layer().values) == expected
    manager.load()
