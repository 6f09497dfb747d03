"""What a session is created with, and the check that nothing else is given."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import TypeAlias, TypedDict

from msgspec import Struct

from agent_sdk.compaction.settings import CompactionSettings
from agent_sdk.core.errors import InvalidInput
from agent_sdk.core.ids import Clock, Ids
from agent_sdk.core.process import ProcessOwner
from agent_sdk.loop.types import Rule, Tool
from agent_sdk.permissions.engine import Asker
from agent_sdk.permissions.modes import PermissionMode
from agent_sdk.plugins.hook_runner import HookEvent
from agent_sdk.plugins.types import SessionPlugin
from agent_sdk.providers.base import Provider
from agent_sdk.providers.models import Model
from agent_sdk.providers.runtime import ModelRuntime
from agent_sdk.resources.loader import ResourceLoader
from agent_sdk.session.assembly import SystemPrompt
from agent_sdk.session.checkpoint_store import CheckpointStore
from agent_sdk.session.manager import SessionManager
from agent_sdk.session.run_ports import RequestPorts
from agent_sdk.session.settings import Settings
from agent_sdk.session.storage import SessionStorage


class PreparedTools(Struct, frozen=True, kw_only=True):
    """What is known of a session's tools only when its resources have been read.

    Attributes:
        custom_tools: Added to the option of that name.
        tools: Takes the place of the option of that name; None leaves it.
    """

    custom_tools: Sequence[Tool] = ()
    tools: Sequence[str] | None = None


PrepareTools: TypeAlias = Callable[[ResourceLoader], Awaitable[PreparedTools]]


class SessionOptions(TypedDict, total=False):
    """Everything that ``create_agent_session`` takes; all of it may be left out.

    Where and with what it works:
        cwd: Its folder; by default the manager's, else the process's own.
        agent_dir: The user's ZPI folder; ``~/.zpi/agent`` by default.
        environ: The environment; the process's own by default.
        session_manager: Its history, which stays the caller's to close.
        storage: Where it is kept, by a store of the host's own; what is there
            is gone on with. Excludes ``session_manager``.
        checkpoints: Where contents of files are kept before tools change them;
            by default beside the session's file, or in memory if it has none.
        persist: False keeps a new session in memory only.
        settings: Settings in force; by default those of the files.
        processes: Starts commands; stays the caller's to close.
        ids: Source of ids.
        clock: Source of time.

    The model:
        model_runtime: Knows models and keys; by default made of ``environ``.
        model: The model, or its name; by default the recorded one, else the
            first that is available.
        provider: The connection to ``model``; closed with the session. By
            default the runtime makes it.
        thinking_level: Reasoning level; by default the recorded one, else
            that of the settings. It is clamped to what the model knows.
        max_turns: Most requests of one run; None for no limit.
        compaction: When the conversation is compacted, and what stays.
        requests: A check before each request, and options for it.

    Tools and prompt, see ``assembly.ToolChoice``:
        tools, exclude_tools, no_tools, custom_tools, tool_overrides
        prepare_tools: Asked once when the resources have been read.
        plugins: In the order in which they count.
        hook_report: Told of each invocation of a plugin's handler.
        system_prompt: A text in the place of ZPI's own instructions, or what
            makes the whole prompt.
        custom_instructions: Text that is added to the prompt.
        resource_loader: Where resources come from; read once. By default it is
            made of the next two.
        setting_sources: ``user`` and ``project``, or some of them; None for
            all, empty for none.
        extra_skill_folders: Further folders of the user's skills, absolute.

    Permission:
        permission_mode: By default the recorded one, else that of the
            settings, else to ask. A recorded bypass does not count.
        rules: Rules for this session.
        asker: Who is asked; None for nobody, so that what would be asked is denied.
        protected: Folders of the caller's own data, which tools must not touch.
    """

    cwd: str | Path | None
    agent_dir: Path | None
    environ: Mapping[str, str]
    session_manager: SessionManager
    storage: SessionStorage
    checkpoints: CheckpointStore
    persist: bool
    settings: Settings
    processes: ProcessOwner
    ids: Ids
    clock: Clock
    model_runtime: ModelRuntime
    model: Model | str | None
    provider: Provider
    thinking_level: str
    max_turns: int | None
    compaction: CompactionSettings
    requests: RequestPorts
    tools: Sequence[str] | None
    exclude_tools: Sequence[str]
    no_tools: bool
    custom_tools: Sequence[Tool]
    tool_overrides: Sequence[Tool]
    prepare_tools: PrepareTools | None
    plugins: Sequence[SessionPlugin]
    hook_report: Callable[[HookEvent], None] | None
    system_prompt: str | SystemPrompt | None
    custom_instructions: str
    resource_loader: ResourceLoader
    setting_sources: Sequence[str] | None
    extra_skill_folders: Sequence[str | Path]
    permission_mode: PermissionMode | None
    rules: Sequence[Rule]
    asker: Asker | None
    protected: Sequence[str | Path]


def check_options(options: SessionOptions) -> None:
    """Refuse what is no option, and options that exclude each other.

    Raises:
        InvalidInput: Names the option and what to do.
    """
    known = SessionOptions.__annotations__
    for name in options:
        if name not in known:
            close = get_close_matches(name, known, n=1)
            hint = f"Did you mean {close[0]!r}?" if close else f"Options: {', '.join(known)}."
            raise InvalidInput(f"{name!r} is no option of a session.", hint=hint)
    if "session_manager" in options and "storage" in options:
        raise InvalidInput(
            "'storage' and 'session_manager' exclude each other.",
            hint="A manager has its storage: give one of them.",
        )
    if "storage" in options and not options.get("persist", True):
        raise InvalidInput(
            "A storage is given, so 'persist' cannot be chosen.",
            hint="Give a storage that is in memory.",
        )
    if "session_manager" in options and not options.get("persist", True):
        raise InvalidInput(
            "A session manager is given, so 'persist' cannot be chosen.",
            hint="Give a manager that is in memory.",
        )
    if "provider" in options and not isinstance(options.get("model"), Model):
        raise InvalidInput(
            "A provider is given without the model that it connects to.",
            hint="Give 'model' as a Model.",
        )
    if "resource_loader" in options:
        for name in ("setting_sources", "extra_skill_folders"):
            if name in options:
                raise InvalidInput(
                    f"A resource loader is given, so {name!r} cannot be chosen.",
                    hint="Make the loader with it.",
                )
