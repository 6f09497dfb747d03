import json
import os
import sys
from pathlib import Path

import pytest

from agent_sdk.core.errors import SettingsDamaged
from agent_sdk.loop.types import Rule
from agent_sdk.session.settings import (
    LocalSettings,
    Settings,
    load_settings,
)


@pytest.fixture
def agent_dir(tmp_path: Path) -> Path:
    folder = tmp_path / "agent"
    folder.mkdir()
    return folder


@pytest.fixture
def cwd(tmp_path: Path) -> Path:
    folder = tmp_path / "项目 one"
    (folder / ".zpi").mkdir(parents=True)
    return folder


def user_file(agent_dir: Path, content: object) -> Path:
    path = agent_dir / "settings.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content), "utf-8")
    return path


def project_file(cwd: Path, content: object) -> Path:
    path = cwd / ".zpi" / "settings.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content), "utf-8")
    return path


def test_no_files_say_nothing(agent_dir: Path, cwd: Path) -> None:
    assert load_settings(agent_dir, cwd) == Settings()
    assert load_settings(agent_dir / "missing", cwd / "missing") == Settings()


def test_everything_the_user_may_set(agent_dir: Path, cwd: Path, tmp_path: Path) -> None:
    user_file(
        agent_dir,
        {
            "model": "opus",
            "thinking": "high",
            "permission_mode": "acceptEdits",
            "permissions": {
                "bash": {"git status": "allow"},
                "read": {"*.env": "deny", "secrets/*": "deny", "~/x": "ask"},
            },
            "tool_env": {"A": "b"},
            "local": {"gguf": "/models/m.gguf"},
        },
    )
    assert load_settings(agent_dir, cwd, home=tmp_path / "home") == Settings(
        model="opus",
        thinking="high",
        permission_mode="acceptEdits",
        user_rules=(
            Rule("bash", "git status", "allow"),
            Rule("read", "*.env", "deny"),
            Rule("read", f"{cwd}/secrets/*", "deny"),
            Rule("read", f"{tmp_path}/home/x", "ask"),
        ),
        tool_env={"A": "b"},
        local=LocalSettings("/models/m.gguf"),
    )


def test_the_project_tightens_and_wins_on_thinking(agent_dir: Path, cwd: Path) -> None:
    user_file(agent_dir, {"model": "opus", "thinking": "high", "permissions": {"bash": "allow"}})
    project_file(
        cwd, {"thinking": "low", "permissions": {"bash": "ask", "edit": {"*.lock": "deny"}}}
    )
    found = load_settings(agent_dir, cwd)
    assert (found.model, found.thinking) == ("opus", "low")
    assert found.user_rules == (Rule("bash", "*", "allow"),)
    assert found.project_rules == (Rule("bash", "*", "ask"), Rule("edit", "*.lock", "deny"))
    assert found.notices == ()


def test_a_project_cannot_allow(agent_dir: Path, cwd: Path) -> None:
    path = project_file(cwd, {"permissions": {"bash": "allow", "edit": {"a": "allow", "b": "ask"}}})
    found = load_settings(agent_dir, cwd)
    assert found.project_rules == (Rule("edit", f"{cwd}/b", "ask"),)
    (notice,) = found.notices
    assert notice.code == "project_rule_refused"
    assert "bash '*'" in notice.text
    assert str(path) in notice.text


@pytest.mark.parametrize(
    "key",
    [
        *("model", "permission_mode", "permissionMode", "tool_env", "local", "env"),
        *("base_url", "baseURL", "BASE-URL", "api_key", "apiKeyHelper", "providers", "headers"),
        *("hooks", "mcpServers", "authToken", "http_proxy"),
    ],
)
def test_a_project_cannot_say_where_keys_go_or_what_runs(
    agent_dir: Path, cwd: Path, key: str
) -> None:
    project_file(cwd, {key: "https://evil.example", "thinking": "low"})
    found = load_settings(agent_dir, cwd)
    assert found == Settings(thinking="low", notices=found.notices)
    (notice,) = found.notices
    assert (notice.level, notice.code) == ("error", "project_setting_refused")
    assert repr(key) in notice.text
    assert "evil" not in notice.text


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ('{\n  "model": "opus",\n}', "line 3, column 1"),
        ('{"model": "opus"', "line 1"),
        ("", "line 1"),
        ("[]", "expected 'object', got 'array'"),
        ('{"model": 5}', "field 'model': expected 'str', got 'int'"),
        ('{"modell": "x"}', "unknown field 'modell'"),
        ('{"thinking": "enormous"}', "field 'thinking'"),
        ('{"permission_mode": "yolo"}', "field 'permission_mode'"),
        ('{"permission_mode": "bypassPermissions"}', "cannot be set in a file"),
        ('{"permissions": "ask"}', "field 'permissions'"),
        ('{"permissions": {"bush": "ask"}}', "'permissions.bush' is no permission"),
        ('{"permissions": {"bash": "maybe"}}', "'permissions.bash' must be allow, deny or ask"),
        ('{"permissions": {"bash": {"git *": 1}}}', "'permissions.bash.git *'"),
        ('{"permissions": {"bash": ["git *"]}}', "'permissions.bash'"),
        ('{"tool_env": {"A": 1}}', "field 'tool_env[...]'"),
        ('{"local": {"guff": ""}}', "unknown field 'guff'"),
        ('{"model": "\udc80"}', "is no valid JSON"),
    ],
)
def test_a_damaged_user_file_is_named_with_the_place_and_left_alone(
    agent_dir: Path, cwd: Path, content: str, expected: str
) -> None:
    path = agent_dir / "settings.json"
    before = content.encode("utf-8", "surrogateescape")
    path.write_bytes(before)
    with pytest.raises(SettingsDamaged) as caught:
        load_settings(agent_dir, cwd)
    assert repr(str(path)) in caught.value.message
    assert expected in caught.value.message
    assert caught.value.hint
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("{", "line 1"),
        ('{"unknown_thing": 1}', "unknown field 'unknown_thing'"),
        ('{"permissions": {"bash": "no"}}', "permissions.bash"),
        ('{"thinking": 1}', "field 'thinking'"),
    ],
)
def test_a_damaged_project_file_is_named(
    agent_dir: Path, cwd: Path, content: str, expected: str
) -> None:
    path = project_file(cwd, content)
    with pytest.raises(SettingsDamaged) as caught:
        load_settings(agent_dir, cwd)
    assert repr(str(path)) in caught.value.message
    assert expected in caught.value.message


def test_a_byte_order_mark_is_no_damage(agent_dir: Path, cwd: Path) -> None:
    (agent_dir / "settings.json").write_bytes(b'\xef\xbb\xbf{"model": "opus"}')
    assert load_settings(agent_dir, cwd).model == "opus"


def test_what_is_no_file_is_not_opened(agent_dir: Path, cwd: Path) -> None:
    (cwd / ".zpi" / "settings.json").mkdir()
    with pytest.raises(SettingsDamaged, match="no ordinary file"):
        load_settings(agent_dir, cwd)
    (agent_dir / "settings.json").mkdir()
    with pytest.raises(SettingsDamaged, match="no ordinary file"):
        load_settings(agent_dir, cwd)


if sys.platform != "win32":

    def test_a_pipe_is_not_waited_for(agent_dir: Path, cwd: Path) -> None:
        os.mkfifo(cwd / ".zpi" / "settings.json")
        with pytest.raises(SettingsDamaged, match="no ordinary file"):
            load_settings(agent_dir, cwd)


def test_a_huge_file_is_refused(agent_dir: Path, cwd: Path) -> None:
    (agent_dir / "settings.json").write_bytes(b" " * 1_048_577)
    with pytest.raises(SettingsDamaged, match="larger than"):
        load_settings(agent_dir, cwd)


def test_a_file_that_is_both_is_read_as_the_users(tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / ".zpi").mkdir(parents=True)
    (home / ".zpi" / "settings.json").write_text('{"model": "opus"}')
    found = load_settings(home / ".zpi", home)
    assert (found.model, found.notices) == ("opus", ())
