"""Settings: the user's ``settings.json``, and a project's, which may only tighten.

``<agent dir>/settings.json`` is the user's:

- ``model``: name of the model to use where none is given;
- ``thinking``: reasoning level, ``off`` … ``max``;
- ``permissions``: rules, ``{"bash": "ask", "read": {"*.env": "deny"}}``;
- ``permission_mode``: a permission mode, except ``bypassPermissions``;
- ``tool_env``: variables that commands get in addition;
- ``local``: ``{"gguf": path}`` of a model file to run instead of the embedded one.

``<folder>/.zpi/settings.json`` comes with a project that somebody else may
have written: it may hold ``thinking`` and ``permissions`` that deny or ask.
Whatever else the user's file may hold, and anything that decides where
requests or keys go, is refused there and said in a notice.

Neither file is ever written here; ``session.settings_file`` does that.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct

from agent_sdk.core.errors import ConfigurationError, SettingsDamaged
from agent_sdk.core.strictjson import convert_strict, damaged, decode_strict, read_json_file
from agent_sdk.loop.types import Notice
from agent_sdk.permissions.modes import PermissionMode
from agent_sdk.permissions.ruleset import Ruleset, ruleset_from_config, tightening_rules

ThinkingLevel = Literal["", "off", "minimal", "low", "medium", "high", "xhigh", "max"]


class LocalSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """The embedded model: ``gguf`` is the path of a model file, empty for the own one."""

    gguf: str = ""


class Settings(Struct, frozen=True, kw_only=True):
    """What both files come to.

    Attributes:
        model: Model to use where none is given; empty if not said.
        thinking: Reasoning level; empty if not said.
        permission_mode: Mode to start with; None if not said.
        user_rules: The user's permission rules.
        project_rules: The project's; they only deny or ask.
        tool_env: Variables that commands get in addition.
        local: The embedded model.
        notices: What was refused in the project's file.
    """

    model: str = ""
    thinking: ThinkingLevel = ""
    permission_mode: PermissionMode | None = None
    user_rules: Ruleset = ()
    project_rules: Ruleset = ()
    tool_env: Mapping[str, str] = {}
    local: LocalSettings = LocalSettings()
    notices: tuple[Notice, ...] = ()


class _UserFile(Struct, frozen=True, forbid_unknown_fields=True):
    model: str = ""
    thinking: ThinkingLevel = ""
    permissions: dict[str, Any] = {}
    permission_mode: PermissionMode | None = None
    tool_env: dict[str, str] = {}
    local: LocalSettings = LocalSettings()


class _ProjectFile(Struct, frozen=True, forbid_unknown_fields=True):
    thinking: ThinkingLevel = ""
    permissions: dict[str, Any] = {}


def user_settings_path(agent_dir: Path) -> Path:
    """Return where the user's settings are."""
    return agent_dir / "settings.json"


def project_settings_path(cwd: Path) -> Path:
    """Return where a project's settings are."""
    return cwd / ".zpi" / "settings.json"


def load_settings(agent_dir: Path, cwd: Path, *, home: Path | None = None) -> Settings:
    """Read both files; one that is not there says nothing.

    Args:
        agent_dir: The user's ZPI folder.
        cwd: The session's folder, absolute and real; relative patterns in
            either file are relative to it.
        home: The folder that ``~/`` stands for in patterns.

    Raises:
        SettingsDamaged: If a file cannot be used; names it and the place.
    """
    user_path, project_path = user_settings_path(agent_dir), project_settings_path(cwd)
    folders = (str(cwd), str(home) if home else "")
    user = user_settings(read_json_file(user_path), path=user_path, folders=folders)
    if project_path == user_path:  # a session in the home folder: one file, read once
        return user
    project = project_settings(read_json_file(project_path), path=project_path, folders=folders)
    return merged(user, project)


def merged(user: Settings, project: Settings) -> Settings:
    """Return the user's settings with the project's laid over them."""
    return msgspec.structs.replace(
        user,
        thinking=project.thinking or user.thinking,
        project_rules=project.project_rules,
        notices=(*user.notices, *project.notices),
    )


def user_settings(data: bytes | None, *, path: Path, folders: tuple[str, str]) -> Settings:
    """Return what a user's file says. Pure.

    Args:
        data: The file; None if there is none.
        path: Where it came from, for errors.
        folders: What relative patterns and ``~/`` stand for; the latter may be empty.

    Raises:
        SettingsDamaged: If it cannot be used; names the field or the place.
    """
    if data is None:
        return Settings()
    found = decode_strict(data, _UserFile, path=path)
    if found.permission_mode == "bypassPermissions":
        raise damaged(
            path,
            "field 'permission_mode': 'bypassPermissions' cannot be set in a file",
            hint="Give --permission-mode bypassPermissions each time it is wanted.",
        )
    return Settings(
        model=found.model,
        thinking=found.thinking,
        permission_mode=found.permission_mode,
        user_rules=_rules(found.permissions, path=path, folders=folders),
        tool_env=found.tool_env,
        local=found.local,
    )


def project_settings(data: bytes | None, *, path: Path, folders: tuple[str, str]) -> Settings:
    """Return what a project's file may say, with what it may not in notices; see ``user_settings``."""
    if data is None:
        return Settings()
    table = decode_strict(data, dict[str, Any], path=path)
    notices = [_refused(path, key) for key in table if _is_users(key)]
    allowed = {key: value for key, value in table.items() if not _is_users(key)}
    found = convert_strict(allowed, _ProjectFile, path=path)
    rules, loosening = tightening_rules(_rules(found.permissions, path=path, folders=folders))
    if loosening:
        listed = ", ".join(f"{rule.permission} {rule.pattern!r}" for rule in loosening)
        notices.append(
            Notice(
                "warning",
                "project_rule_refused",
                f"{str(path)!r}: a project cannot allow anything; refused: {listed}. "
                "Put such rules into your own settings.",
            )
        )
    return Settings(thinking=found.thinking, project_rules=rules, notices=tuple(notices))


# What the user's own file or the environment decides, and what other programs
# let a project decide: where requests go, with which key, and what runs.
_USERS = frozenset(
    {
        *("model", "permissionmode", "toolenv", "local", "env", "environment", "providers"),
        *("provider", "models", "baseurl", "apibase", "apiurl", "endpoint", "url", "proxy"),
        *("httpproxy", "apikey", "apikeyenv", "apikeyhelper", "authtoken", "authhelper"),
        *("token", "headers", "hooks", "mcpservers", "plugins", "apitype"),
    }
)


def _is_users(key: str) -> bool:
    return key.lower().replace("_", "").replace("-", "") in _USERS


def _refused(path: Path, key: str) -> Notice:
    return Notice(
        "error",
        "project_setting_refused",
        f"{str(path)!r}: {key!r} is refused in a project's settings and has no effect. "
        "If you want it, put it into your own settings.",
    )


def _rules(config: dict[str, Any], *, path: Path, folders: tuple[str, str]) -> Ruleset:
    base, home = folders
    try:
        return ruleset_from_config(config, source=repr(str(path)), base=base, home=home)
    except ConfigurationError as error:
        raise SettingsDamaged(
            error.message, hint="Correct the file, or move it away; it was not changed."
        ) from None
