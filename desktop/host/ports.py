"""What the host needs of the state database, the key store and the providers.

The host core is written against these protocols; ``desktop.host.db``,
``desktop.host.credentials`` and ``desktop.host.providers`` implement them, and
tests have fakes in memory. Every method is durable when it returns, and none
holds up the event loop. Failures are ``ZpiError``.
"""

from collections.abc import Callable, Sequence
from typing import Literal, Protocol, TypeAlias

from msgspec import Struct

from agent_sdk.events.wire import Event, PermissionAskedEvent
from agent_sdk.host import Change, ModelRuntime
from desktop.bridge.messages import (
    ErrorInfo,
    KeyStoreInfo,
    ModelsState,
    ProjectInfo,
    SessionStatusKind,
    SettingsState,
)
from desktop.bridge.protocol import (
    PassphraseCommand,
    ProviderTested,
    SaveProvider,
    TestProvider,
)


class _Row(Struct, frozen=True, kw_only=True):
    pass


# ------------------------------------------------------------ projects, sessions


class Projects(Protocol):
    """The folders that the user opened, in the order of the side bar."""

    async def list(self) -> Sequence[ProjectInfo]:
        """Return the projects that are open; ``missing`` is looked up now."""
        ...

    async def add(self, path: str) -> ProjectInfo:
        """Add a folder; the same real path gives the same row, closed or not.

        Raises:
            InvalidInput: If it is no folder that can be read.
        """
        ...

    async def remove(self, project_id: str) -> None:
        """Take a project out of the list; its row and sessions stay. None is no error."""
        ...

    async def get(self, project_id: str) -> ProjectInfo | None:
        """Return a project, open or closed."""
        ...


class SessionRecord(_Row, frozen=True):
    """A session in the index.

    Attributes:
        title: As shown; empty if it has no prompt yet.
        last_used: UTC ISO 8601.
        run_id: The run that is going on, or was cut; empty for none.
        unread: Whether it has ended or asked since it was last shown.
        path: Its file, relative to the sessions folder, with ``/``.
        error_code: Why the last run failed; empty if it did not.
        error: Its text.
    """

    id: str
    project_id: str
    title: str = ""
    last_used: str = ""
    status: SessionStatusKind = "idle"
    run_id: str = ""
    unread: bool = False
    path: str = ""
    error_code: str = ""
    error: str = ""


class SessionIndex(Protocol):
    """What sessions there are; can be rebuilt from their files."""

    async def rows(self, project_id: str | None = None) -> Sequence[SessionRecord]:
        """Return all sessions, or those of a project, last used first."""
        ...

    async def get(self, session_id: str) -> SessionRecord | None:
        """Return one."""
        ...

    async def put(self, record: SessionRecord) -> None:
        """Add or replace one."""
        ...

    async def delete(self, session_id: str) -> None:
        """Delete it with its prompts, events and permissions; none is no error."""
        ...


# ---------------------------------------------------------------------- prompts

PromptKind: TypeAlias = Literal["human", "queued", "steered"]
"""As in the ``origin`` of the user record that delivers it."""


class PromptRow(_Row, frozen=True):
    """A prompt that the window handed over.

    Attributes:
        record: Id of the user record that delivered it; empty until then.
    """

    session_id: str
    id: str
    text: str
    kind: PromptKind = "human"
    record: str = ""


class Prompts(Protocol):
    """Prompts from their acceptance to their delivery, first in first out."""

    async def add(
        self, session_id: str, prompt_id: str, *, text: str, kind: PromptKind
    ) -> tuple[PromptRow, bool]:
        """Store a prompt; return the row, and whether it is new.

        The same id again changes nothing and returns the row that is there,
        delivered or not.
        """
        ...

    async def queued(self, session_id: str | None = None) -> Sequence[PromptRow]:
        """Return the rows that are not delivered, oldest first; of all sessions for None."""
        ...

    async def remove(self, prompt_id: str) -> str | None:
        """Delete a row that is not delivered; return its text, None if there is none."""
        ...

    async def mark_delivered(self, prompt_id: str, record_uuid: str) -> None:
        """Note that a user record delivers it; none is no error."""
        ...


# ----------------------------------------------------------------------- events


class Events(Protocol):
    """Events of sessions; ``seq`` counts from 1 within each, without gaps.

    Only durable bodies come here; transient ones are the host's affair.
    """

    async def append(self, session_id: str, changes: Sequence[Change]) -> Sequence[Event]:
        """Store events together, and return them with their seqs, ids and times."""
        ...

    async def read(self, session_id: str, *, since: int = 0, limit: int = 1000) -> Sequence[Event]:
        """Return at most ``limit`` events with a seq above ``since``, in order."""
        ...

    async def last_seq(self, session_id: str) -> int:
        """Return the seq of the newest event; 0 if there is none."""
        ...

    async def last_record(self, session_id: str) -> str:
        """Return the record of the newest event that has one; empty if none has."""
        ...

    async def delete(self, session_id: str) -> None:
        """Delete a session's events; none is no error."""
        ...


# ------------------------------------------------------------------ permissions

ReplyKind: TypeAlias = Literal["once", "always", "reject", "expired"]


class Permissions(Protocol):
    """Questions, owned by a run; a question that is settled stays as history."""

    async def put(self, asked: PermissionAskedEvent, *, run_id: str) -> None:
        """Store a question that waits."""
        ...

    async def settle(self, request_id: str, reply: ReplyKind, *, reason: str = "") -> bool:
        """Settle a question; return whether it was waiting."""
        ...

    async def waiting(self) -> Sequence[PermissionAskedEvent]:
        """Return the questions that wait, oldest first."""
        ...

    async def expire_all(self, reason: str) -> Sequence[PermissionAskedEvent]:
        """Expire whatever waits, and return it."""
        ...


# --------------------------------------------------------------------- settings


class SettingsStore(Protocol):
    """The settings that the window changes."""

    async def get(self) -> SettingsState:
        """Return them; ``problems`` are left out."""
        ...

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
        ...


# --------------------------------------------------------- providers and their keys


class ProviderRow(_Row, frozen=True):
    """A provider of the user's own."""

    name: str
    api: str
    base_url: str
    models: tuple[str, ...] = ()


class Providers(Protocol):
    """The user's providers, in the order in which they were made."""

    async def list(self) -> Sequence[ProviderRow]:
        """Return them."""
        ...

    async def put(self, row: ProviderRow) -> None:
        """Add or replace one."""
        ...

    async def remove(self, name: str) -> None:
        """Remove one; none is no error."""
        ...

    async def default_model(self) -> str:
        """Return ``provider/id`` for new sessions; empty if none was chosen."""
        ...

    async def set_default_model(self, model: str) -> None:
        """Choose it."""
        ...


class Vault(Protocol):
    """Keys, each bound to a provider and an origin (``scheme://host:port``)."""

    async def state(self) -> KeyStoreInfo:
        """Return how keys are kept."""
        ...

    async def get(self, provider: str, origin: str) -> str | None:
        """Return a key; None if there is none, or the key store does not answer."""
        ...

    async def put(self, provider: str, origin: str, key: str) -> None:
        """Keep a key."""
        ...

    async def remove(self, provider: str, *, origin: str | None = None) -> None:
        """Forget the provider's key of that origin, or all of them."""
        ...


class ModelService(Protocol):
    """Providers, keys and models put together (``desktop.host.providers``)."""

    @property
    def runtime(self) -> ModelRuntime:
        """What chooses models and connects to them; replaced when providers change."""
        ...

    @property
    def default(self) -> str:
        """``provider/id`` that the user chose for new sessions; empty if none."""
        ...

    async def start(self) -> None:
        """Load providers and keys, as far as that is quick; the rest follows by itself."""
        ...

    async def find_local(self) -> None:
        """Offer the models on this machine to the runtime: servers, the embedded one."""
        ...

    def state(self) -> ModelsState:
        """Return what the window shows."""
        ...

    def listen(self, changed: Callable[[], None]) -> None:
        """Call back, on the event loop, whenever ``state`` has changed."""
        ...

    async def save(self, command: SaveProvider) -> None:
        """Add or change a provider, and its key."""
        ...

    async def remove(self, name: str) -> None:
        """Remove a provider of the user's own, and its key."""
        ...

    async def test(self, command: TestProvider) -> ProviderTested:
        """Reach the server, then ask the model; failures are part of the answer."""
        ...

    async def set_default(self, model: str) -> None:
        """Choose the model for new sessions.

        Raises:
            ModelNotFound: If there is none of that name.
        """
        ...

    async def passphrase(self, command: PassphraseCommand) -> None:
        """Set, enter, change or forget the passphrase that protects stored keys.

        Raises:
            InvalidInput: If that cannot be done now, or with this passphrase.
            WrongPassphrase: If it is another one.
        """
        ...

    async def aclose(self) -> None:
        """Stop what is going on; may be called twice."""
        ...


# --------------------------------------------------------------------- together


class Database(Protocol):
    """The state database, open (``desktop.host.db.open_database(path, ids=, clock=)``).

    Attributes:
        sqlite_version: Version of the library.
        notices: What the user should know about how it was opened, such as a
            damaged file that was put aside and made anew.
        fresh: Whether it has just been made, so that the index must be rebuilt.
    """

    sqlite_version: str
    notices: tuple[ErrorInfo, ...]
    fresh: bool

    @property
    def projects(self) -> Projects:
        """The projects."""
        ...

    @property
    def sessions(self) -> SessionIndex:
        """The sessions."""
        ...

    @property
    def prompts(self) -> Prompts:
        """The prompts."""
        ...

    @property
    def events(self) -> Events:
        """The events."""
        ...

    @property
    def permissions(self) -> Permissions:
        """The questions."""
        ...

    @property
    def settings(self) -> SettingsStore:
        """The settings."""
        ...

    @property
    def providers(self) -> Providers:
        """The user's providers."""
        ...

    async def aclose(self) -> None:
        """Write what waits and close; may be called twice."""
        ...
