"""Changes settings: both layers, with revisions, in files or in memory.

A file is written whole or not at all, under a lock that all ZPI programs of
the user take, and only if what would be written can be read again. A save
that did not happen raises; one that was decided upon an older state of the
file (another revision) is refused. A file that cannot be read is never
written over.

Everything here reads or writes the disk; callers on an event loop use a thread.
"""

import hashlib
import json
import os
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, Protocol, Self, TypeAlias

from msgspec import Struct

from agent_sdk.core.errors import InvalidInput, SettingsConflict, SettingsDamaged, StorageError
from agent_sdk.core.fsio import AppendLog, make_dirs, replace_file
from agent_sdk.core.strictjson import decode_strict, read_json_file
from agent_sdk.session.settings import (
    Settings,
    merged,
    project_settings,
    project_settings_path,
    user_settings,
    user_settings_path,
)

Scope: TypeAlias = Literal["user", "project"]
"""Whose settings: the user's own, or those of the folder."""

SCOPES: tuple[Scope, Scope] = ("user", "project")

_LOCK_TRIES = 250
_LOCK_WAIT_SECONDS = 0.02


class SettingsLayer(Struct, frozen=True, kw_only=True):
    """One layer as it stands.

    Attributes:
        scope: Whose it is.
        path: Its file, which may not exist.
        values: Its fields.
        revision: Stands for exactly this content; empty if there is no file.
    """

    scope: Scope
    path: Path
    values: Mapping[str, Any]
    revision: str


class SettingsStore(Protocol):
    """Keeps the bytes of the layers."""

    def path(self, scope: Scope) -> Path:
        """Return what to call the layer's file in errors."""
        ...

    def read(self, scope: Scope) -> bytes | None:
        """Return a layer's bytes; None if there is none.

        Raises:
            SettingsDamaged: If it cannot be read.
        """
        ...

    def change(self, scope: Scope, make: Callable[[bytes | None], bytes]) -> None:
        """Put new bytes in a layer's place, durably, with nobody else in between.

        Args:
            scope: The layer.
            make: Returns the new bytes for the present ones; may raise, which
                changes nothing.

        Raises:
            StorageError: If it could not be saved; nothing changed.
            InvalidInput: If there is no such layer to write to.
        """
        ...


class SettingsManager:
    """The settings in force in one folder, and the way to change them."""

    def __init__(self, *, store: SettingsStore, cwd: Path, home: Path | None = None) -> None:
        """Create a manager; see ``from_files`` and ``in_memory``.

        Args:
            store: Keeps the layers.
            cwd: The session's folder, absolute and real; relative patterns in
                rules are relative to it.
            home: The folder that ``~/`` stands for in rules.
        """
        self._store = store
        self._folders = (str(cwd), str(home) if home else "")

    @classmethod
    def from_files(
        cls,
        agent_dir: Path,
        cwd: Path,
        *,
        home: Path | None = None,
        setting_sources: Sequence[str] | None = None,
    ) -> Self:
        """Return a manager of ``<agent dir>/settings.json`` and ``<cwd>/.zpi/settings.json``.

        Args:
            agent_dir: The user's ZPI folder.
            cwd: The session's folder, absolute and real.
            home: The folder that ``~/`` stands for in rules.
            setting_sources: ``user`` and ``project``, or some of them; None
                for all, empty for none. Others are neither read nor written.

        Raises:
            InvalidInput: If a source is unknown.
        """
        for source in setting_sources or ():
            if source not in SCOPES:
                raise InvalidInput(
                    f"{source!r} is no setting source.", hint=f"Known: {', '.join(SCOPES)}."
                )
        store = SettingsFiles(agent_dir=agent_dir, cwd=cwd, sources=setting_sources)
        return cls(store=store, cwd=cwd, home=home)

    @classmethod
    def in_memory(
        cls,
        user: Mapping[str, Any] | None = None,
        project: Mapping[str, Any] | None = None,
        *,
        cwd: Path | None = None,
        home: Path | None = None,
    ) -> Self:
        """Return a manager that reads and writes no file.

        Args:
            user: The user's fields, as in the file.
            project: The project's.
            cwd: The folder that relative patterns are relative to.
            home: The folder that ``~/`` stands for.

        Raises:
            InvalidInput: If a field cannot be used.
        """
        manager = cls(store=SettingsMemory(), cwd=cwd or Path(), home=home)
        for scope, values in (("user", user), ("project", project)):
            if values is not None:
                manager.save(values, scope="user" if scope == "user" else "project", revision="")
        return manager

    def load(self) -> Settings:
        """Return what both layers come to, as they are now.

        Raises:
            SettingsDamaged: If one cannot be used. It may hold what denies
                something, so nothing is run without it.
        """
        return merged(self._parsed("user"), self._parsed("project"))

    def problems(self) -> tuple[SettingsDamaged, ...]:
        """Return why layers cannot be used, each with the place and what to do."""
        found: list[SettingsDamaged] = []
        for scope in SCOPES:
            try:
                self._parsed(scope)
            except SettingsDamaged as error:
                found.append(error)
        return tuple(found)

    def layer(self, scope: Scope = "user") -> SettingsLayer:
        """Return a layer's own fields and its revision.

        Raises:
            SettingsDamaged: If it cannot be used.
        """
        data = self._store.read(scope)
        self._parse(scope, data)
        return SettingsLayer(
            scope=scope,
            path=self._store.path(scope),
            values=_values(data, self._store.path(scope)),
            revision=revision_of(data),
        )

    def update(
        self, changes: Mapping[str, Any], *, scope: Scope = "user", revision: str | None = None
    ) -> SettingsLayer:
        """Set fields of a layer and leave the others; see ``save``.

        Args:
            changes: Fields and their new values; None takes a field out.
            scope: The layer.
            revision: The layer's revision that this was decided upon; None to
                change whatever is there.
        """
        path = self._store.path(scope)

        def with_changes(data: bytes | None) -> Mapping[str, Any]:
            values = {**_values(data, path), **changes}
            return {key: value for key, value in values.items() if value is not None}

        return self._write(scope, with_changes, revision)

    def save(
        self, values: Mapping[str, Any], *, scope: Scope = "user", revision: str
    ) -> SettingsLayer:
        """Put these fields in the place of a layer's.

        Args:
            values: All its fields.
            scope: The layer.
            revision: The layer's revision that this was decided upon; empty if
                there was no file.

        Returns:
            The layer as it is now.

        Raises:
            SettingsConflict: If the layer is another one by now; nothing was saved.
            SettingsDamaged: If the present file cannot be used; it is left as it is.
            InvalidInput: If a field is unknown or cannot be used, or a project
                may not set it; nothing was saved.
            StorageError: If it could not be written; nothing was saved.
        """
        return self._write(scope, lambda _: values, revision)

    def _write(
        self,
        scope: Scope,
        make: Callable[[bytes | None], Mapping[str, Any]],
        revision: str | None,
    ) -> SettingsLayer:
        path = self._store.path(scope)
        written = b""

        def checked(data: bytes | None) -> bytes:
            nonlocal written
            if revision is not None and revision != revision_of(data):
                raise SettingsConflict(
                    f"{str(path)!r} was changed since it was read; nothing was saved.",
                    hint="Read it again and repeat the change.",
                )
            self._parse(scope, data)
            written = _encoded(make(data))
            self._check(scope, written)
            return written

        self._store.change(scope, checked)
        return SettingsLayer(
            scope=scope, path=path, values=_values(written, path), revision=revision_of(written)
        )

    def _check(self, scope: Scope, data: bytes) -> None:
        try:
            found = self._parse(scope, data)
        except SettingsDamaged as error:
            raise InvalidInput(error.message, hint="Nothing was saved.") from None
        if found.notices:
            raise InvalidInput(found.notices[0].text, hint="Nothing was saved.")

    def _parsed(self, scope: Scope) -> Settings:
        return self._parse(scope, self._store.read(scope))

    def _parse(self, scope: Scope, data: bytes | None) -> Settings:
        parse = user_settings if scope == "user" else project_settings
        return parse(data, path=self._store.path(scope), folders=self._folders)


class SettingsFiles:
    """The layers as files."""

    def __init__(self, *, agent_dir: Path, cwd: Path, sources: Sequence[str] | None = None) -> None:
        """Create a store.

        Args:
            agent_dir: The user's ZPI folder.
            cwd: The session's folder, absolute and real.
            sources: The layers there are; None for both.
        """
        self._agent_dir = agent_dir
        self._cwd = cwd
        self._paths: dict[Scope, Path] = {
            "user": user_settings_path(agent_dir),
            "project": project_settings_path(cwd),
        }
        self._sources = set(SCOPES if sources is None else sources)
        if self._paths["user"] == self._paths["project"]:  # a session in the home folder
            self._sources.discard("project")

    def path(self, scope: Scope) -> Path:
        """Return the layer's file."""
        return self._paths[scope]

    def read(self, scope: Scope) -> bytes | None:
        """Return a file's bytes; see ``SettingsStore``."""
        return read_json_file(self._paths[scope]) if scope in self._sources else None

    def change(self, scope: Scope, make: Callable[[bytes | None], bytes]) -> None:
        """Replace a file under the lock; see ``SettingsStore``."""
        target = self._target(scope)
        with self._locked():
            before = read_json_file(target)
            after = make(before)
            if after != before:
                make_dirs(target.parent)
                replace_file(target, after, keep_mode=True)

    def _target(self, scope: Scope) -> Path:
        """Return the file behind the path: a user may keep it elsewhere, a project not."""
        path = self._paths[scope]
        if scope not in self._sources:
            raise InvalidInput(
                f"The {scope}'s settings are not in use here, so nothing was saved.",
                hint="Choose the other layer, or add it to the setting sources.",
            )
        real = Path(os.path.realpath(path))
        if scope == "project" and not real.is_relative_to(os.path.realpath(self._cwd)):
            raise InvalidInput(
                f"{str(path)!r} is a link that leads out of the project; nothing was saved.",
                hint="Put the file itself there.",
            )
        return real

    @contextmanager
    def _locked(self) -> Generator[None]:
        make_dirs(self._agent_dir)
        path = self._agent_dir / "settings.lock"
        try:
            log = AppendLog.create(path)
        except FileExistsError:
            log = AppendLog.open(path)
        try:
            for _ in range(_LOCK_TRIES):
                if log.lock():
                    break
                time.sleep(_LOCK_WAIT_SECONDS)
            else:
                raise StorageError(
                    f"Another program has been changing settings for too long ({str(path)!r}).",
                    hint="End it, and try again; nothing was saved.",
                )
            yield
        finally:
            log.close()


class SettingsMemory:
    """The layers in memory, for tests and for programs that bring their own."""

    def __init__(self) -> None:
        self._layers: dict[Scope, bytes] = {}

    def path(self, scope: Scope) -> Path:
        """Return a name for the layer."""
        return Path(f"<{scope} settings in memory>")

    def read(self, scope: Scope) -> bytes | None:
        """Return a layer's bytes."""
        return self._layers.get(scope)

    def change(self, scope: Scope, make: Callable[[bytes | None], bytes]) -> None:
        """Replace a layer's bytes."""
        self._layers[scope] = make(self._layers.get(scope))


def revision_of(data: bytes | None) -> str:
    """Return what stands for exactly these bytes; empty for no file."""
    return "" if data is None else hashlib.sha256(data).hexdigest()


def _values(data: bytes | None, path: Path) -> dict[str, Any]:
    return {} if data is None else decode_strict(data, dict[str, Any], path=path)


def _encoded(values: Mapping[str, Any]) -> bytes:
    try:
        text = json.dumps(dict(values), indent=2, ensure_ascii=False, allow_nan=False)
        return f"{text}\n".encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(
            f"These settings cannot be written as JSON ({error}).", hint="Nothing was saved."
        ) from None
