"""What the window shows besides transcripts: frozen view models, and state topics.

The transcript's own model (session, message, part and their events) is
``agent_sdk.events.wire``. Everything here changes for the window's reasons
only and repeats some of the SDK's fields on purpose. It loads msgspec alone.
"""

from typing import Literal, TypeAlias

from msgspec import Struct

from agent_sdk.events.wire import MessageInfo, Part, PermissionAskedEvent, SessionInfo


class _Frozen(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    pass


class ErrorInfo(_Frozen, frozen=True):
    """An error as it is shown: what happened and what to do.

    Attributes:
        code: Stable code, as in ``agent_sdk.core.errors``.
        text: What happened.
        hint: What the user can do; may be empty.
    """

    code: str
    text: str
    hint: str = ""


# ---------------------------------------------------------------- projects


class ProjectInfo(_Frozen, frozen=True):
    """A folder that the user opened.

    Attributes:
        id: Stable id.
        path: Absolute real path.
        name: Name to show.
        missing: Whether the folder cannot be reached now.
    """

    id: str
    path: str
    name: str
    missing: bool = False


SessionStatusKind: TypeAlias = Literal[
    "idle", "running", "retry", "waiting", "interrupted", "failed"
]
"""``waiting``: a permission card waits for an answer; ``interrupted``: the last
run was cut and can be continued; ``failed``: the last run ended in an error."""


class SessionRow(_Frozen, frozen=True):
    """A session in the side bar.

    Attributes:
        title: Its title, or the beginning of its first prompt; empty if new.
        last_used: UTC ISO 8601.
        unread: Whether it has ended or asked since it was last shown.
        problem: Why it can only be read; empty if it can be continued.
    """

    id: str
    project_id: str
    title: str
    status: SessionStatusKind = "idle"
    last_used: str = ""
    unread: bool = False
    problem: str = ""


class QueuedPrompt(_Frozen, frozen=True):
    """A prompt that waits for the run to end."""

    id: str
    text: str


# ------------------------------------------------------------ models and keys


class ModelView(_Frozen, frozen=True):
    """A model to choose; ``ready`` if it could be asked now."""

    key: str
    name: str
    provider: str
    ready: bool
    context_window: int = 0
    thinking: tuple[str, ...] = ()
    vision: bool = False
    local: bool = False


class ProviderView(_Frozen, frozen=True):
    """A provider on the settings page.

    Attributes:
        source: Where its key comes from; ``none`` if it has none.
        needs_key: False for servers on this machine.
        custom: Whether the user made it.
    """

    name: str
    api: str
    base_url: str
    source: Literal["none", "stored", "session", "environment", "keyless"] = "none"
    needs_key: bool = True
    custom: bool = False
    models: tuple[str, ...] = ()


class KeyStoreInfo(_Frozen, frozen=True):
    """How keys are kept.

    Attributes:
        mode: ``keyring``: encrypted, the key to them in the system's key ring;
            ``passphrase``: encrypted, the key to them made from a passphrase that
            was entered; ``session``: in memory until ZPI ends; ``pending``: not
            known yet; ``locked``: stored keys cannot be read now.
        locked_by: What is to be opened: the key ring, which is locked or does not
            answer, or the stored keys with their passphrase.
        replaced: Whether the key ring has taken the passphrase's place since the
            host began: the passphrase is not needed any more.
        text: What the user is told.
        unreadable: Providers whose stored keys must be entered again.
    """

    mode: Literal["keyring", "passphrase", "session", "pending", "locked"]
    locked_by: Literal["keyring", "passphrase"] = "keyring"
    replaced: bool = False
    text: str = ""
    unreadable: tuple[str, ...] = ()

    @property
    def wants_passphrase(self) -> bool:
        """Whether stored keys cannot be read until their passphrase is entered."""
        return self.mode == "locked" and self.locked_by == "passphrase"


# -------------------------------------------------------------------- state


class ProjectsState(_Frozen, tag_field="topic", tag="projects", frozen=True):
    """All projects, in the order of the side bar."""

    projects: tuple[ProjectInfo, ...]


class SessionsState(_Frozen, tag_field="topic", tag="sessions", frozen=True):
    """Sessions of the side bar: rows that are new or changed, and ids that have gone.

    ``reset`` says that the rows are all there are.
    """

    rows: tuple[SessionRow, ...] = ()
    removed: tuple[str, ...] = ()
    reset: bool = False


class ModelsState(_Frozen, tag_field="topic", tag="models", frozen=True):
    """Models, providers and how keys are kept; ``default`` is used for new sessions."""

    models: tuple[ModelView, ...]
    providers: tuple[ProviderView, ...]
    key_store: KeyStoreInfo
    default: str = ""


class PermissionsState(_Frozen, tag_field="topic", tag="permissions", frozen=True):
    """The questions that wait for an answer, oldest first, of all sessions."""

    waiting: tuple[PermissionAskedEvent, ...] = ()


class QueueState(_Frozen, tag_field="topic", tag="queue", frozen=True):
    """What is queued in one session."""

    session_id: str
    queued: tuple[QueuedPrompt, ...] = ()
    paused: bool = False


class SettingsState(_Frozen, tag_field="topic", tag="settings", frozen=True):
    """Settings that the host keeps.

    Attributes:
        revision: Grows with every change; a change names the one it is based on.
        permission_mode: For new sessions.
        thinking: Reasoning level for new sessions; empty for none.
        follow_up: What Enter does while a run is going on.
        problems: Settings files that cannot be used, and why.
    """

    revision: int
    permission_mode: str = "default"
    thinking: str = ""
    follow_up: Literal["queue", "steer"] = "queue"
    problems: tuple[ErrorInfo, ...] = ()


class HostState(_Frozen, tag_field="topic", tag="host", frozen=True):
    """What the host says of itself: notices to show once, and its versions."""

    notices: tuple[ErrorInfo, ...] = ()
    data_dir: str = ""
    sqlite_version: str = ""


StateBody: TypeAlias = (
    ProjectsState
    | SessionsState
    | ModelsState
    | PermissionsState
    | QueueState
    | SettingsState
    | HostState
)
TOPICS = ("projects", "sessions", "models", "permissions", "queue", "settings", "host")


# -------------------------------------------------------------- transcripts


class TranscriptMessage(_Frozen, frozen=True):
    """A message with its parts, as far as they exist now."""

    info: MessageInfo
    parts: tuple[Part, ...] = ()


class TranscriptPage(_Frozen, frozen=True):
    """Consecutive messages of a session; ``first`` is the index of the first one."""

    first: int
    messages: tuple[TranscriptMessage, ...]


class OpenedSession(_Frozen, frozen=True):
    """What opening a session gives.

    Attributes:
        count: How many messages there are.
        sizes: Characters of text of each message, for estimating heights.
        page: The last messages.
        seq: Seq of the newest event that is in what is given.
        epoch: Another epoch's seqs mean nothing.
        model: ``provider/id`` in force; empty if none is chosen yet.
        can_continue: Whether the last run was cut and can be continued.
        error: Why the last run failed; None if it did not.
        expired: Questions that a run which was cut left behind: too late to answer.
    """

    session: SessionInfo
    row: SessionRow
    count: int
    sizes: tuple[int, ...]
    page: TranscriptPage
    seq: int
    epoch: str
    model: str = ""
    thinking: str = ""
    permission_mode: str = "default"
    can_continue: bool = False
    error: ErrorInfo | None = None
    expired: tuple[PermissionAskedEvent, ...] = ()
