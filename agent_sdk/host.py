"""The face for hosts: what a program needs that owns sessions of its own.

The desktop's host process and embedders import from here and from
``agent_sdk``, and from nowhere else below it.
"""

from agent_sdk.core.aio import AbortSignal, TaskOwner
from agent_sdk.core.diagnostics import (
    Diagnostic,
    DiagnosticsSink,
    Redactor,
    StderrSink,
    attach_logging,
)
from agent_sdk.core.errors import (
    Aborted,
    ConfigurationError,
    CredentialMissing,
    DiskFull,
    InvalidInput,
    ProviderError,
    SessionDamaged,
    SessionLocked,
    SessionNotFound,
    SessionReadOnly,
    SettingsDamaged,
    StorageError,
    ZpiError,
)
from agent_sdk.core.filelock import FileLock, try_lock
from agent_sdk.core.fsio import (
    AppendLog,
    create_file,
    make_dirs,
    move_file,
    publish_file,
    replace_file,
    storage_error,
    sync_dir,
)
from agent_sdk.core.hardening import harden_process
from agent_sdk.core.ids import Clock, Ids, RandomIds, SystemClock
from agent_sdk.core.process import ProcessOwner
from agent_sdk.core.usage import Prices, Usage
from agent_sdk.events.call_parts import Change
from agent_sdk.events.log import EventLog, subscribe_event_log
from agent_sdk.events.projection import Projector
from agent_sdk.loop.types import (
    AgentEvent,
    AssistantMessageAdded,
    Notice,
    PermissionAsked,
    PermissionReplied,
    Rule,
    RunEnded,
    RunStarted,
    ToolFinished,
    UserMessageAdded,
)
from agent_sdk.permissions.engine import Asker, PermissionReply
from agent_sdk.permissions.modes import PERMISSION_MODES, PermissionMode, parse_mode
from agent_sdk.providers.base import ModelRequest, Provider, StreamDone, StreamFailed
from agent_sdk.providers.endpoints import (
    CUSTOM,
    checked_url,
    origin,
    secret_variables,
    shorten,
)
from agent_sdk.providers.local_models import LocalModels, choose_model
from agent_sdk.providers.messages import (
    AssistantMessage,
    Block,
    Origin,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    UserMessage,
)
from agent_sdk.providers.models import Model
from agent_sdk.providers.probe import Probed, probe_model
from agent_sdk.providers.registry import (
    ModelEntry,
    ModelRegistry,
    ProviderEntry,
    ProviderInfo,
    is_provider_name,
    load_registry,
)
from agent_sdk.providers.runtime import ModelChoice, ModelRuntime, NothingAvailable
from agent_sdk.providers.transport import is_local
from agent_sdk.session.agent_session import AgentSession
from agent_sdk.session.history import SessionState
from agent_sdk.session.listing import SessionSummary, list_sessions
from agent_sdk.session.manager import SessionManager
from agent_sdk.session.native import change_model, native_session, user_home
from agent_sdk.session.paths import agent_dir, session_path
from agent_sdk.session.records import (
    AssistantRecord,
    CustomRecord,
    ModelChangeRecord,
    PermissionModeChangeRecord,
    Record,
    RunRecord,
    SessionInfoRecord,
    ThinkingLevelChangeRecord,
    UserRecord,
    assistant_record,
)
from agent_sdk.session.replay import LastRun, Replay, in_view
from agent_sdk.session.settings import Settings, load_settings

__all__ = [
    "CUSTOM",
    "PERMISSION_MODES",
    "AbortSignal",
    "Aborted",
    "AgentEvent",
    "AgentSession",
    "AppendLog",
    "Asker",
    "AssistantMessage",
    "AssistantMessageAdded",
    "AssistantRecord",
    "Block",
    "Change",
    "Clock",
    "ConfigurationError",
    "CredentialMissing",
    "CustomRecord",
    "Diagnostic",
    "DiagnosticsSink",
    "DiskFull",
    "EventLog",
    "FileLock",
    "Ids",
    "InvalidInput",
    "LastRun",
    "LocalModels",
    "Model",
    "ModelChangeRecord",
    "ModelChoice",
    "ModelEntry",
    "ModelRegistry",
    "ModelRequest",
    "ModelRuntime",
    "NothingAvailable",
    "Notice",
    "Origin",
    "PermissionAsked",
    "PermissionMode",
    "PermissionModeChangeRecord",
    "PermissionReplied",
    "PermissionReply",
    "Prices",
    "Probed",
    "ProcessOwner",
    "Projector",
    "Provider",
    "ProviderEntry",
    "ProviderError",
    "ProviderInfo",
    "RandomIds",
    "Record",
    "Redactor",
    "Replay",
    "Rule",
    "RunEnded",
    "RunRecord",
    "RunStarted",
    "SessionDamaged",
    "SessionInfoRecord",
    "SessionLocked",
    "SessionManager",
    "SessionNotFound",
    "SessionReadOnly",
    "SessionState",
    "SessionSummary",
    "Settings",
    "SettingsDamaged",
    "StderrSink",
    "StorageError",
    "StreamDone",
    "StreamFailed",
    "SystemClock",
    "TaskOwner",
    "TextBlock",
    "ThinkingBlock",
    "ThinkingLevelChangeRecord",
    "ToolFinished",
    "ToolResultBlock",
    "Usage",
    "UserMessage",
    "UserMessageAdded",
    "UserRecord",
    "ZpiError",
    "agent_dir",
    "assistant_record",
    "attach_logging",
    "change_model",
    "checked_url",
    "choose_model",
    "create_file",
    "harden_process",
    "in_view",
    "is_local",
    "is_provider_name",
    "list_sessions",
    "load_registry",
    "load_settings",
    "make_dirs",
    "move_file",
    "native_session",
    "origin",
    "parse_mode",
    "probe_model",
    "publish_file",
    "replace_file",
    "secret_variables",
    "session_path",
    "shorten",
    "storage_error",
    "subscribe_event_log",
    "sync_dir",
    "try_lock",
    "user_home",
]
