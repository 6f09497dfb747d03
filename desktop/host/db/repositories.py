"""What is kept in the state database besides events: one class a table.

Each implements a protocol of ``desktop.host.ports``. A method is durable when
it returns.
"""

import asyncio
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct
from sqlalchemy import Connection, Row, delete, func, insert, select, update
from sqlalchemy.dialects.sqlite import insert as upsert

from agent_sdk.events.wire import PermissionAskedEvent
from agent_sdk.host import PERMISSION_MODES, Ids, InvalidInput, StorageError
from desktop.bridge.messages import ProjectInfo, SettingsState
from desktop.host.db import schema
from desktop.host.db.engine import Store
from desktop.host.ports import (
    PromptKind,
    PromptRow,
    ProviderRow,
    ReplyKind,
    SessionRecord,
)

# ---------------------------------------------------------------- projects


class SqlProjects:
    """The folders that the user opened (``ports.Projects``)."""

    def __init__(self, *, store: Store, ids: Ids) -> None:
        self._store = store
        self._ids = ids

    async def list(self) -> Sequence[ProjectInfo]:
        """Return the projects that are open; ``missing`` is looked up now."""
        projects = schema.projects.c
        query = select(schema.projects).where(projects.hidden == 0).order_by(projects.position)
        rows = await self._store.read(lambda connection: connection.execute(query).all())
        return await asyncio.to_thread(lambda: [_project(row) for row in rows])

    async def add(self, path: str) -> ProjectInfo:
        """Add a folder; the same real path gives the same row, closed or not.

        Raises:
            InvalidInput: If it is no folder that can be read.
        """
        real = await asyncio.to_thread(_real_folder, path)
        new_id = self._ids.new()
        projects = schema.projects.c
        same = select(schema.projects).where(projects.path == real)

        def work(connection: Connection) -> None:
            row = connection.execute(same).one_or_none()
            if row is not None and not row.hidden:
                return
            last = connection.scalar(select(func.max(projects.position))) or 0
            if row is None:
                values = {"id": new_id, "path": real, "name": Path(real).name or real}
                connection.execute(
                    insert(schema.projects).values(**values, position=last + 1, hidden=0)
                )
            else:
                connection.execute(
                    update(schema.projects)
                    .where(projects.id == row.id)
                    .values(position=last + 1, hidden=0)
                )

        def added(connection: Connection) -> Row[Any]:
            work(connection)
            return connection.execute(same).one()

        row = await self._store.write(added)
        return ProjectInfo(id=row.id, path=row.path, name=row.name)

    async def remove(self, project_id: str) -> None:
        """Take a project out of the list; its row and sessions stay. None is no error."""
        query = update(schema.projects).where(schema.projects.c.id == project_id).values(hidden=1)
        await self._store.write(lambda connection: connection.execute(query))

    async def get(self, project_id: str) -> ProjectInfo | None:
        """Return a project, open or closed."""
        query = select(schema.projects).where(schema.projects.c.id == project_id)
        row = await self._store.read(lambda connection: connection.execute(query).one_or_none())
        return None if row is None else await asyncio.to_thread(_project, row)


def _project(row: Row[Any]) -> ProjectInfo:
    return ProjectInfo(id=row.id, path=row.path, name=row.name, missing=not Path(row.path).is_dir())


def _real_folder(path: str) -> str:
    """Return the real path of a folder.

    Raises:
        InvalidInput: If it is no folder that can be read.
    """
    try:
        real = Path(path).resolve(strict=True)
        usable = real.is_dir() and os.access(real, os.R_OK | os.X_OK)
        str(real).encode()
    except FileNotFoundError:
        raise InvalidInput(f"There is no folder {path!r}.", hint="Choose another one.") from None
    except UnicodeEncodeError:
        raise InvalidInput(
            f"The name of the folder {path!r} is not valid text.", hint="Rename the folder."
        ) from None
    except (OSError, ValueError) as error:
        raise InvalidInput(f"The folder {path!r} cannot be read: {error}.") from error
    if not usable:
        raise InvalidInput(
            f"{path!r} is not a folder that can be read.",
            hint="Choose a folder, and check its permissions.",
        )
    return str(real)


# ---------------------------------------------------------------- sessions


class SqlSessions:
    """What sessions there are (``ports.SessionIndex``)."""

    def __init__(self, *, store: Store) -> None:
        self._store = store

    async def rows(self, project_id: str | None = None) -> Sequence[SessionRecord]:
        """Return all sessions, or those of a project, last used first."""
        sessions = schema.sessions.c
        query = select(schema.sessions).order_by(sessions.last_used.desc(), sessions.id)
        if project_id is not None:
            query = query.where(sessions.project_id == project_id)
        rows = await self._store.read(lambda connection: connection.execute(query).all())
        return [_session(row) for row in rows]

    async def get(self, session_id: str) -> SessionRecord | None:
        """Return one."""
        query = select(schema.sessions).where(schema.sessions.c.id == session_id)
        row = await self._store.read(lambda connection: connection.execute(query).one_or_none())
        return None if row is None else _session(row)

    async def put(self, record: SessionRecord) -> None:
        """Add or replace one.

        Raises:
            StorageError: If its project does not exist.
        """
        values = msgspec.structs.asdict(record)
        query = upsert(schema.sessions).values(values)
        query = query.on_conflict_do_update(index_elements=["id"], set_=values)
        await self._store.write(lambda connection: connection.execute(query))

    async def delete(self, session_id: str) -> None:
        """Delete it with its prompts, events and permissions; none is no error."""

        def work(connection: Connection) -> None:
            for table in (schema.prompts, schema.events, schema.permissions):
                connection.execute(delete(table).where(table.c.session_id == session_id))
            connection.execute(delete(schema.sessions).where(schema.sessions.c.id == session_id))

        await self._store.write(work)


def _session(row: Row[Any]) -> SessionRecord:
    return SessionRecord(
        id=row.id,
        project_id=row.project_id,
        title=row.title,
        last_used=row.last_used,
        status=row.status,
        run_id=row.run_id,
        unread=bool(row.unread),
        path=row.path,
        error_code=row.error_code,
        error=row.error,
    )


# ----------------------------------------------------------------- prompts


class SqlPrompts:
    """Prompts from their acceptance to their delivery (``ports.Prompts``)."""

    def __init__(self, *, store: Store) -> None:
        self._store = store

    async def add(
        self, session_id: str, prompt_id: str, *, text: str, kind: PromptKind
    ) -> tuple[PromptRow, bool]:
        """Store a prompt; return the row, and whether it is new.

        The same id again changes nothing and returns the row that is there,
        delivered or not.

        Raises:
            InvalidInput: If another session has a prompt of that id.
        """
        same = select(schema.prompts).where(schema.prompts.c.id == prompt_id)

        def work(connection: Connection) -> tuple[Row[Any], bool]:
            row = connection.execute(same).one_or_none()
            if row is not None:
                return row, False
            connection.execute(
                insert(schema.prompts).values(
                    id=prompt_id, session_id=session_id, kind=kind, text=text, record=""
                )
            )
            return connection.execute(same).one(), True

        row, new = await self._store.write(work)
        if row.session_id != session_id:
            raise InvalidInput(f"The prompt {prompt_id!r} belongs to another session.")
        return _prompt(row), new

    async def queued(self, session_id: str | None = None) -> Sequence[PromptRow]:
        """Return the rows that are not delivered, oldest first; of all sessions for None."""
        prompts = schema.prompts.c
        query = select(schema.prompts).where(prompts.record == "").order_by(prompts.position)
        if session_id is not None:
            query = query.where(prompts.session_id == session_id)
        rows = await self._store.read(lambda connection: connection.execute(query).all())
        return [_prompt(row) for row in rows]

    async def remove(self, prompt_id: str) -> str | None:
        """Delete a row that is not delivered; return its text, None if there is none."""
        prompts = schema.prompts.c
        query = (
            delete(schema.prompts)
            .where(prompts.id == prompt_id, prompts.record == "")
            .returning(prompts.text)
        )
        return await self._store.write(lambda connection: connection.scalar(query))

    async def mark_delivered(self, prompt_id: str, record_uuid: str) -> None:
        """Note that a user record delivers it; none is no error."""
        query = (
            update(schema.prompts)
            .where(schema.prompts.c.id == prompt_id)
            .values(record=record_uuid)
        )
        await self._store.write(lambda connection: connection.execute(query))


def _prompt(row: Row[Any]) -> PromptRow:
    return PromptRow(
        session_id=row.session_id, id=row.id, text=row.text, kind=row.kind, record=row.record
    )


# ------------------------------------------------------------- permissions


class SqlPermissions:
    """Questions, owned by a run (``ports.Permissions``)."""

    def __init__(self, *, store: Store) -> None:
        self._store = store

    async def put(self, asked: PermissionAskedEvent, *, run_id: str) -> None:
        """Store a question that waits."""
        query = insert(schema.permissions).values(
            request_id=asked.request_id,
            session_id=asked.session_id,
            run_id=run_id,
            asked=msgspec.json.encode(asked),
            reply="",
            reason="",
        )
        await self._store.write(lambda connection: connection.execute(query))

    async def settle(self, request_id: str, reply: ReplyKind, *, reason: str = "") -> bool:
        """Settle a question; return whether it was waiting."""
        asked = schema.permissions.c
        query = (
            update(schema.permissions)
            .where(asked.request_id == request_id, asked.reply == "")
            .values(reply=reply, reason=reason)
        )
        return await self._store.write(lambda connection: connection.execute(query).rowcount > 0)

    async def waiting(self) -> Sequence[PermissionAskedEvent]:
        """Return the questions that wait, oldest first."""
        return _questions(await self._store.read(_waiting))

    async def expire_all(self, reason: str) -> Sequence[PermissionAskedEvent]:
        """Expire whatever waits, and return it."""
        query = (
            update(schema.permissions)
            .where(schema.permissions.c.reply == "")
            .values(reply="expired", reason=reason)
        )

        def work(connection: Connection) -> Sequence[bytes]:
            expired = _waiting(connection)
            connection.execute(query)
            return expired

        return _questions(await self._store.write(work))


def _waiting(connection: Connection) -> Sequence[bytes]:
    asked = schema.permissions.c
    query = select(asked.asked).where(asked.reply == "").order_by(asked.position)
    return connection.scalars(query).all()


def _questions(rows: Sequence[bytes]) -> Sequence[PermissionAskedEvent]:
    try:
        return [msgspec.json.decode(row, type=PermissionAskedEvent) for row in rows]
    except msgspec.DecodeError as error:
        raise StorageError("A stored question cannot be understood.") from error


# ---------------------------------------------------------------- settings


class _HostSettings(Struct, frozen=True):
    """The fields that this version knows."""

    permission_mode: str = "default"
    thinking: str = ""
    follow_up: Literal["queue", "steer"] = "queue"


_SCOPE = "host"


class SqlSettings:
    """The settings that the window changes (``ports.SettingsStore``)."""

    def __init__(self, *, store: Store) -> None:
        self._store = store

    async def get(self) -> SettingsState:
        """Return them; ``problems`` are left out."""
        return _settings(*await self._store.read(_stored_settings))

    async def change(
        self,
        revision: int,
        *,
        permission_mode: str | None = None,
        thinking: str | None = None,
        follow_up: Literal["queue", "steer"] | None = None,
    ) -> SettingsState:
        """Change what is not None.

        Raises:
            InvalidInput: If ``revision`` is not the newest, or a value is unknown.
        """
        if permission_mode is not None and permission_mode not in PERMISSION_MODES:
            raise InvalidInput(
                f"{permission_mode!r} is no permission mode.",
                hint=f"There are {', '.join(PERMISSION_MODES)}.",
            )
        if follow_up not in (None, "queue", "steer"):
            raise InvalidInput(f"{follow_up!r} is not 'queue' or 'steer'.")
        given = {
            "permission_mode": permission_mode,
            "thinking": thinking,
            "follow_up": follow_up,
        }
        wanted = {name: value for name, value in given.items() if value is not None}

        def work(connection: Connection) -> tuple[int, dict[str, Any]]:
            newest, body = _stored_settings(connection)
            if newest != revision:
                raise InvalidInput(
                    f"The settings were changed meanwhile (revision {newest}, not {revision}).",
                    hint="Look at them again and repeat the change.",
                )
            values = {"revision": newest + 1, "body": msgspec.json.encode({**body, **wanted})}
            query = upsert(schema.settings).values(scope=_SCOPE, **values)
            connection.execute(query.on_conflict_do_update(index_elements=["scope"], set_=values))
            return newest + 1, {**body, **wanted}

        return _settings(*await self._store.write(work))


def _stored_settings(connection: Connection) -> tuple[int, dict[str, Any]]:
    settings = schema.settings.c
    query = select(settings.revision, settings.body).where(settings.scope == _SCOPE)
    row = connection.execute(query).one_or_none()
    if row is None:
        return 0, {}
    return row.revision, msgspec.json.decode(row.body, type=dict[str, Any])


def _settings(revision: int, body: dict[str, Any]) -> SettingsState:
    known = msgspec.convert(body, _HostSettings)
    return SettingsState(
        revision=revision,
        permission_mode=known.permission_mode,
        thinking=known.thinking,
        follow_up=known.follow_up,
    )


# --------------------------------------------------------------- providers

_DEFAULT_MODEL = "default_model"


class SqlProviders:
    """The user's own providers (``ports.Providers``)."""

    def __init__(self, *, store: Store) -> None:
        self._store = store

    async def list(self) -> Sequence[ProviderRow]:
        """Return them, in the order in which they were made."""
        query = select(schema.providers).order_by(schema.providers.c.position)
        rows = await self._store.read(lambda connection: connection.execute(query).all())
        return [
            ProviderRow(
                name=row.name,
                api=row.api,
                base_url=row.base_url,
                models=msgspec.json.decode(row.models, type=tuple[str, ...]),
            )
            for row in rows
        ]

    async def put(self, row: ProviderRow) -> None:
        """Add or replace one."""
        values = {
            "api": row.api,
            "base_url": row.base_url,
            "models": msgspec.json.encode(row.models),
        }
        query = upsert(schema.providers).values(name=row.name, **values)
        query = query.on_conflict_do_update(index_elements=["name"], set_=values)
        await self._store.write(lambda connection: connection.execute(query))

    async def remove(self, name: str) -> None:
        """Remove one; none is no error."""
        query = delete(schema.providers).where(schema.providers.c.name == name)
        await self._store.write(lambda connection: connection.execute(query))

    async def default_model(self) -> str:
        """Return ``provider/id`` for new sessions; empty if none was chosen."""
        query = select(schema.meta.c.value).where(schema.meta.c.name == _DEFAULT_MODEL)
        found = await self._store.read(lambda connection: connection.scalar(query))
        return found or ""

    async def set_default_model(self, model: str) -> None:
        """Choose it."""
        query = upsert(schema.meta).values(name=_DEFAULT_MODEL, value=model)
        query = query.on_conflict_do_update(index_elements=["name"], set_={"value": model})
        await self._store.write(lambda connection: connection.execute(query))


# ------------------------------------------------------------- credentials


class SealedRow(Struct, frozen=True, kw_only=True):
    """A credential as it is stored, encrypted.

    Attributes:
        row_id: Its id, fixed.
        key_id: Which data key it is encrypted with.
        counter: How often it was written, from 1.
        sealed: The encrypted text.
    """

    row_id: str
    provider: str
    origin: str
    key_id: str
    counter: int
    sealed: bytes


class WrappedKey(Struct, frozen=True):
    """A data key, encrypted with a key that lies in the system's key ring.

    Attributes:
        derivation: Not empty if that key is made from a passphrase instead: how.
    """

    key_id: str
    wrapped: bytes
    derivation: bytes = b""


class SqlCredentials:
    """Encrypted credentials and data keys; knows nothing of what is in them."""

    def __init__(self, *, store: Store, ids: Ids) -> None:
        self._store = store
        self._ids = ids

    async def keys(self) -> Sequence[WrappedKey]:
        """Return the data keys, oldest first."""
        vault = schema.vault.c
        query = select(vault.key_id, vault.wrapped, vault.derivation).order_by(vault.position)
        rows = await self._store.read(lambda connection: connection.execute(query).all())
        return [WrappedKey(row.key_id, row.wrapped, row.derivation) for row in rows]

    async def add_key(self, key: WrappedKey) -> None:
        """Store another data key."""
        query = insert(schema.vault).values(msgspec.structs.asdict(key))
        await self._store.write(lambda connection: connection.execute(query))

    async def replace_key(self, key: WrappedKey) -> None:
        """Store the data key of that id as it is encrypted now."""
        query = (
            update(schema.vault)
            .where(schema.vault.c.key_id == key.key_id)
            .values(wrapped=key.wrapped, derivation=key.derivation)
        )
        await self._store.write(lambda connection: connection.execute(query))

    async def drop_key(self, key_id: str) -> None:
        """Delete a data key with all credentials that are encrypted with it."""

        def work(connection: Connection) -> None:
            for table in (schema.credentials, schema.vault):
                connection.execute(delete(table).where(table.c.key_id == key_id))

        await self._store.write(work)

    async def rows(self) -> Sequence[SealedRow]:
        """Return all credentials."""
        query = select(schema.credentials).order_by(schema.credentials.c.row_id)
        rows = await self._store.read(lambda connection: connection.execute(query).all())
        return [_sealed(row) for row in rows]

    async def put(
        self, provider: str, origin: str, *, key_id: str, seal: Callable[[SealedRow], bytes]
    ) -> SealedRow:
        """Add or replace a credential, and return it.

        Args:
            provider: Whose it is.
            origin: Where it may be sent.
            key_id: Which data key ``seal`` uses.
            seal: Given the row without its sealed text, returns that text.
        """
        new_id = self._ids.new()
        rows = schema.credentials.c
        same = select(schema.credentials).where(rows.provider == provider, rows.origin == origin)

        def work(connection: Connection) -> SealedRow:
            old = connection.execute(same).one_or_none()
            plan = SealedRow(
                row_id=old.row_id if old else new_id,
                provider=provider,
                origin=origin,
                key_id=key_id,
                counter=old.counter + 1 if old else 1,
                sealed=b"",
            )
            row = msgspec.structs.replace(plan, sealed=seal(plan))
            values = msgspec.structs.asdict(row)
            query = upsert(schema.credentials).values(values)
            connection.execute(query.on_conflict_do_update(index_elements=["row_id"], set_=values))
            return row

        return await self._store.write(work)

    async def remove(self, provider: str, *, origin: str | None = None) -> None:
        """Delete the provider's credential of that origin, or all of them."""
        rows = schema.credentials.c
        query = delete(schema.credentials).where(rows.provider == provider)
        if origin is not None:
            query = query.where(rows.origin == origin)
        await self._store.write(lambda connection: connection.execute(query))


def _sealed(row: Row[Any]) -> SealedRow:
    return SealedRow(
        row_id=row.row_id,
        provider=row.provider,
        origin=row.origin,
        key_id=row.key_id,
        counter=row.counter,
        sealed=row.sealed,
    )
