"""The face for hosts: what a program needs that owns sessions of its own.

The desktop's host process and embedders import from here and from
``agent_sdk``, and from nowhere else below it.
"""

from agent_sdk.compaction.messages import (
    MessagesRequest,
    compact_messages,
    compact_messages_stream,
)
from agent_sdk.compaction.settings import (
    CompactionSettings,
)
from agent_sdk.core.aio import (
    AbortSignal,
    TaskOwner,
)
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
    InvalidToolInput,
    PluginConflict,
    ProviderError,
    SessionDamaged,
    SessionLocked,
    SessionNotFound,
    SessionReadOnly,
    SettingsConflict,
    SettingsDamaged,
    StorageError,
    ToolError,
    ZpiError,
)
from agent_sdk.core.filelock import (
    FileLock,
    try_lock,
)
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
from agent_sdk.core.hardening import (
    harden_process,
)
from agent_sdk.core.ids import (
    Clock,
    Ids,
    RandomIds,
    SystemClock,
)
from agent_sdk.core.process import (
    ProcessOwner,
)
from agent_sdk.core.usage import (
    Prices,
    Usage,
)
from agent_sdk.events.call_parts import (
    Change,
)
from agent_sdk.events.log import (
    EventLog,
    JsonlEventLog,
    MemoryEventLog,
    subscribe_event_log,
)
from agent_sdk.events.projection import (
    Projector,
)
from agent_sdk.loop.types import (
    AgentEvent,
    AssistantMessageAdded,
    CompactionEnded,
    CompactionStarted,
    Decision,
    Notice,
    PermissionAsked,
    PermissionReplied,
    PermissionRequest,
    Rule,
    RunEnded,
    RunStarted,
    Tool,
    ToolContext,
    ToolFinished,
    ToolMetadata,
    ToolResult,
    UserMessageAdded,
)
from agent_sdk.permissions.engine import (
    Asker,
    PermissionReply,
)
from agent_sdk.permissions.modes import (
    PERMISSION_MODES,
    PermissionMode,
    parse_mode,
)
from agent_sdk.permissions.ruleset import (
    evaluate_rules,
    ruleset_from_config,
)
from agent_sdk.plugins.hook_runner import (
    HookEvent,
    HookRunner,
)
from agent_sdk.plugins.types import (
    AddContext,
    Hook,
    PluginCommand,
    PostToolUseFailureInput,
    PostToolUseInput,
    PreCompactInput,
    PreToolUseInput,
    PromptVerdict,
    SessionEndInput,
    SessionPlugin,
    SessionStartInput,
    StopInput,
    StopVerdict,
    ToolVerdict,
    UserPromptSubmitInput,
)
from agent_sdk.providers.base import (
    ModelRequest,
    PromptSection,
    Provider,
    StreamDone,
    StreamFailed,
)
from agent_sdk.providers.endpoints import (
    CUSTOM,
    checked_url,
    origin,
    secret_variables,
    shorten,
)
from agent_sdk.providers.local_models import (
    LocalModels,
    choose_model,
)
from agent_sdk.providers.messages import (
    AssistantMessage,
    Block,
    Origin,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    UserMessage,
)
from agent_sdk.providers.models import (
    Model,
)
from agent_sdk.providers.probe import (
    Probed,
    probe_model,
)
from agent_sdk.providers.registry import (
    ModelEntry,
    ModelRegistry,
    ProviderEntry,
    ProviderInfo,
    is_provider_name,
    load_registry,
)
from agent_sdk.providers.runtime import (
    ModelChoice,
    ModelRuntime,
    NothingAvailable,
)
from agent_sdk.providers.transport import (
    is_local,
)
from agent_sdk.resources.agents import (
    AgentDefinition,
    AgentRegistry,
)
from agent_sdk.resources.loader import (
    ResourceChanges,
    ResourceLoader,
    Resources,
)
from agent_sdk.resources.problems import (
    ResourceProblem,
)
from agent_sdk.session.agent_session import (
    AgentSession,
)
from agent_sdk.session.assembly import (
    Assembly,
    PromptInput,
    ToolChoice,
    assemble_session,
)
from agent_sdk.session.builtins import (
    everyday_tools,
)
from agent_sdk.session.checkpoint_store import (
    CheckpointStore,
    FolderCheckpoints,
)
from agent_sdk.session.checkpoints import (
    FileRewind,
)
from agent_sdk.session.compacting import (
    CompactionRequest,
)
from agent_sdk.session.context_usage import (
    ContextUsage,
)
from agent_sdk.session.create import (
    CreatedSession,
    create_agent_session,
    preview_session,
)
from agent_sdk.session.current_state import (
    FileCurrentState,
    LazyTranscript,
    MemoryCurrentState,
    SavedState,
    SessionCurrentState,
)
from agent_sdk.session.history import (
    SessionState,
)
from agent_sdk.session.listing import (
    SessionSummary,
    list_sessions,
)
from agent_sdk.session.manager import (
    SessionManager,
)
from agent_sdk.session.native import (
    change_model,
    user_home,
)
from agent_sdk.session.options import (
    PreparedTools,
    SessionOptions,
)
from agent_sdk.session.paths import (
    agent_dir,
    session_path,
)
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
from agent_sdk.session.replay import (
    LastRun,
    Replay,
    in_view,
)
from agent_sdk.session.resources import (
    load_custom_agents,
    resource_loader,
    resource_watcher,
)
from agent_sdk.session.rewind_plan import (
    RewindPreview,
)
from agent_sdk.session.run_ports import (
    RequestPorts,
)
from agent_sdk.session.settings import (
    Settings,
    load_settings,
)
from agent_sdk.session.settings_file import (
    SettingsManager,
)
from agent_sdk.session.spending import (
    child_usage,
)
from agent_sdk.session.storage import (
    SessionStorage,
    open_storage,
)
from agent_sdk.session.store import (
    JsonlStore,
    MemoryStore,
    TranscriptStore,
)
from agent_sdk.session.stored_compaction import (
    compact_session,
    compact_session_stream,
)
from agent_sdk.session.stored_fork import (
    fork_in_memory,
    fork_session,
)
from agent_sdk.session.tail import (
    read_tail,
)

__all__ = [
    "CUSTOM",
    "PERMISSION_MODES",
    "AbortSignal",
    "Aborted",
    "AddContext",
    "AgentDefinition",
    "AgentEvent",
    "AgentRegistry",
    "AgentSession",
    "AppendLog",
    "Asker",
    "Assembly",
    "AssistantMessage",
    "AssistantMessageAdded",
    "AssistantRecord",
    "Block",
    "Change",
    "CheckpointStore",
    "Clock",
    "CompactionEnded",
    "CompactionRequest",
    "CompactionSettings",
    "CompactionStarted",
    "ConfigurationError",
    "ContextUsage",
    "CreatedSession",
    "CredentialMissing",
    "CustomRecord",
    "Decision",
    "Diagnostic",
    "DiagnosticsSink",
    "DiskFull",
    "EventLog",
    "FileCurrentState",
    "FileLock",
    "FileRewind",
    "FolderCheckpoints",
    "Hook",
    "HookEvent",
    "HookRunner",
    "Ids",
    "InvalidInput",
    "InvalidToolInput",
    "JsonlEventLog",
    "JsonlStore",
    "LastRun",
    "LazyTranscript",
    "LocalModels",
    "MemoryCurrentState",
    "MemoryEventLog",
    "MemoryStore",
    "MessagesRequest",
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
    "PermissionRequest",
    "PluginCommand",
    "PluginConflict",
    "PostToolUseFailureInput",
    "PostToolUseInput",
    "PreCompactInput",
    "PreToolUseInput",
    "PreparedTools",
    "Prices",
    "Probed",
    "ProcessOwner",
    "Projector",
    "PromptInput",
    "PromptSection",
    "PromptVerdict",
    "Provider",
    "ProviderEntry",
    "ProviderError",
    "ProviderInfo",
    "RandomIds",
    "Record",
    "Redactor",
    "Replay",
    "RequestPorts",
    "ResourceChanges",
    "ResourceLoader",
    "ResourceProblem",
    "Resources",
    "RewindPreview",
    "Rule",
    "RunEnded",
    "RunRecord",
    "RunStarted",
    "SavedState",
    "SessionCurrentState",
    "SessionDamaged",
    "SessionEndInput",
    "SessionInfoRecord",
    "SessionLocked",
    "SessionManager",
    "SessionNotFound",
    "SessionOptions",
    "SessionPlugin",
    "SessionReadOnly",
    "SessionStartInput",
    "SessionState",
    "SessionStorage",
    "SessionSummary",
    "Settings",
    "SettingsConflict",
    "SettingsDamaged",
    "SettingsManager",
    "StderrSink",
    "StopInput",
    "StopVerdict",
    "StorageError",
    "StreamDone",
    "StreamFailed",
    "SystemClock",
    "TaskOwner",
    "TextBlock",
    "ThinkingBlock",
    "ThinkingLevelChangeRecord",
    "Tool",
    "ToolChoice",
    "ToolContext",
    "ToolError",
    "ToolFinished",
    "ToolMetadata",
    "ToolResult",
    "ToolResultBlock",
    "ToolVerdict",
    "TranscriptStore",
    "Usage",
    "UserMessage",
    "UserMessageAdded",
    "UserPromptSubmitInput",
    "UserRecord",
    "ZpiError",
    "agent_dir",
    "assemble_session",
    "assistant_record",
    "attach_logging",
    "change_model",
    "checked_url",
    "child_usage",
    "choose_model",
    "compact_messages",
    "compact_messages_stream",
    "compact_session",
    "compact_session_stream",
    "create_agent_session",
    "create_file",
    "evaluate_rules",
    "everyday_tools",
    "fork_in_memory",
    "fork_session",
    "harden_process",
    "in_view",
    "is_local",
    "is_provider_name",
    "list_sessions",
    "load_custom_agents",
    "load_registry",
    "load_settings",
    "make_dirs",
    "move_file",
    "open_storage",
    "origin",
    "parse_mode",
    "preview_session",
    "probe_model",
    "publish_file",
    "read_tail",
    "replace_file",
    "resource_loader",
    "resource_watcher",
    "ruleset_from_config",
    "secret_variables",
    "session_path",
    "shorten",
    "storage_error",
    "subscribe_event_log",
    "sync_dir",
    "try_lock",
    "user_home",
]
