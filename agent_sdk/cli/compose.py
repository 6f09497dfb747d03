"""The composition root of the command line: builds one session out of its parts."""

import logging
import os
import stat
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path

from msgspec import Struct

from agent_sdk.cli.args import Args
from agent_sdk.cli.local import LocalModels
from agent_sdk.core.diagnostics import Redactor, StderrSink, attach_logging
from agent_sdk.core.environment import child_environment
from agent_sdk.core.errors import ConfigurationError, InvalidInput
from agent_sdk.core.hardening import harden_process
from agent_sdk.core.ids import Clock, Ids, RandomIds, SystemClock
from agent_sdk.core.process import ProcessOwner
from agent_sdk.loop.types import Notice, Rule, Tool
from agent_sdk.permissions.engine import Asker, PermissionEngine
from agent_sdk.permissions.modes import PermissionMode, parse_mode
from agent_sdk.permissions.ruleset import PermissionLayers
from agent_sdk.permissions.tool_list import rules_from_tool_list
from agent_sdk.permissions.wildcard import has_wildcard
from agent_sdk.providers.endpoints import secret_variables
from agent_sdk.providers.models import Model, clamp_thinking
from agent_sdk.providers.registry import ModelRegistry, load_registry
from agent_sdk.providers.runtime import ModelRuntime, NothingAvailable
from agent_sdk.session.agent_session import AgentSession
from agent_sdk.session.bounds import ResultBounds
from agent_sdk.session.hub import EventHub
from agent_sdk.session.manager import SessionManager
from agent_sdk.session.paths import agent_dir
from agent_sdk.session.prompt import system_sections
from agent_sdk.session.records import PermissionRuleRecord, StoredRule
from agent_sdk.session.settings import Settings, load_settings
from agent_sdk.tools.bash import BashTool
from agent_sdk.tools.edit import EditTool
from agent_sdk.tools.file_state import FileReadState
from agent_sdk.tools.path_text import portable
from agent_sdk.tools.paths import PathGuard
from agent_sdk.tools.protected import load_protected
from agent_sdk.tools.read import ReadTool
from agent_sdk.tools.write import WriteTool


class Surroundings(Struct, frozen=True, kw_only=True):
    """What the program found where it was started.

    Attributes:
        environ: The environment, without secrets.
        secrets: Values of the variables that hold keys.
        agent_dir: Folder of sessions, settings and models.
        cwd: The folder to work in, absolute and real.
        registry: The models known by name.
        ids: Source of ids.
        clock: Source of time.
    """

    environ: Mapping[str, str]
    secrets: Mapping[str, str]
    agent_dir: Path
    cwd: str
    registry: ModelRegistry
    ids: Ids
    clock: Clock


def look_around(args: Args) -> Surroundings:
    """Return what the program works with; takes the keys out of its environment.

    Raises:
        InvalidInput: If the folder cannot be worked in.
        SettingsDamaged: If the model file cannot be used.
    """
    folder = agent_dir(os.environ)
    cwd = working_folder(args.cwd)
    registry = load_registry(folder)
    secrets = harden_process(secret_variables(registry))
    redactor = Redactor(secrets.values())
    sink = StderrSink(stream=sys.stderr, redactor=redactor)
    attach_logging(sink=sink, redactor=redactor, logger=logging.getLogger())
    return Surroundings(
        environ=dict(os.environ),
        secrets=secrets,
        agent_dir=folder,
        cwd=cwd,
        registry=registry,
        ids=RandomIds(),
        clock=SystemClock(),
    )


def working_folder(given: str | None) -> str:
    """Return the folder to work in, absolute and real.

    Args:
        given: The folder as the user named it; None for the process's own.

    Raises:
        InvalidInput: If it is gone, no folder, or may not be read.
    """
    try:
        path = os.path.realpath(given if given is not None else os.getcwd())  # noqa: PTH109
        mode = os.stat(path).st_mode  # noqa: PTH116 - these are all on the way to the first request
    except OSError as error:
        name = given or "the current folder"
        raise InvalidInput(
            f"Cannot work in {name!r}: {error.strerror}.", hint="Name another folder with --cwd."
        ) from error
    if not stat.S_ISDIR(mode):
        raise InvalidInput(f"{given!r} is not a folder.", hint="Name a folder with --cwd.")
    if not os.access(path, os.R_OK | os.X_OK):
        raise InvalidInput(
            f"The folder {path!r} may not be read.", hint="Check its permissions, or name another."
        )
    return path


async def open_history(args: Args, around: Surroundings) -> SessionManager:
    """Return the history to work on: a new one, a named one, or the newest.

    Raises:
        SessionNotFound: If there is none to go on with.
        SessionLocked: If another program works on it.
        SessionDamaged: If it cannot be continued.
        StorageError: If it cannot be opened.
    """
    ids, clock = around.ids, around.clock
    folder = around.agent_dir / "sessions"
    if not args.persist:
        return SessionManager.in_memory(cwd=around.cwd, ids=ids, clock=clock)
    if args.resume:
        manager = await SessionManager.resume(
            session_id=args.resume, sessions_dir=folder, ids=ids, clock=clock
        )
        if args.cwd is not None and manager.cwd != around.cwd:
            await manager.close()
            raise InvalidInput(
                f"The session belongs to {manager.cwd!r}, not to {around.cwd!r}.",
                hint="Leave --cwd out, or start a new session.",
            )
        working_folder(manager.cwd)
        return manager
    if args.continue_latest:
        return await SessionManager.continue_latest(
            cwd=around.cwd, sessions_dir=folder, ids=ids, clock=clock
        )
    return await SessionManager.create(cwd=around.cwd, sessions_dir=folder, ids=ids, clock=clock)


def read_settings(around: Surroundings, cwd: str) -> Settings:
    """Return the user's settings with those of the folder laid over them.

    Raises:
        SettingsDamaged: If a file cannot be used; it is left as it is.
    """
    home = user_home(around.environ)
    return load_settings(around.agent_dir, Path(cwd), home=Path(home) if home else None)


def user_home(environ: Mapping[str, str]) -> str:
    """Return the user's home folder; empty if it is not known."""
    return environ.get("USERPROFILE" if os.name == "nt" else "HOME", "")


def model_runtime(
    around: Surroundings, settings: Settings, *, processes: ProcessOwner | None
) -> tuple[ModelRuntime, LocalModels]:
    """Return what knows the models, and what knows those on this machine.

    Args:
        around: What the program found.
        settings: Settings in force.
        processes: Starts the embedded model; None if none will be started.
    """
    local = LocalModels(
        processes=processes,
        gguf=around.environ.get("ZPI_LOCAL_GGUF") or settings.local.gguf,
        clock=around.clock,
    )
    runtime = ModelRuntime(
        registry=around.registry,
        environ=around.environ,
        secrets=around.secrets,
        local=local.provider,
    )
    return runtime, local


async def choose_model(
    args: Args, settings: Settings, *, recorded: str, runtime: ModelRuntime, local: LocalModels
) -> Model:
    """Return the model to use.

    Without any name and any key, a local server's model is taken if one
    answers, and else the embedded one.

    Raises:
        ConfigurationError: If the named model cannot be used, or there is none.
    """
    configured = settings.model or None
    named = args.model or recorded or configured or ""
    if named.startswith(local.prefixes):
        runtime.offer(await local.find())
    choice = runtime.choose(explicit=args.model, recorded=recorded or None, configured=configured)
    if not isinstance(choice, NothingAvailable):
        return choice.model
    found = await local.find()
    if not found:
        raise ConfigurationError(
            "There is no key for any model, no local server answers, and the embedded model "
            "is not installed.",
            hint=choice.hint,
        )
    runtime.offer(found)
    return found[0]


def permission_layers(
    args: Args,
    settings: Settings,
    *,
    cwd: str,
    home: str,
    granted: Sequence[Rule],
    outputs: Path | None,
) -> PermissionLayers:
    """Return the rules in force, by who made them.

    Args:
        args: The command line.
        settings: Settings in force.
        cwd: The session's folder; relative patterns are relative to it.
        home: The user's home folder.
        granted: What answers of *always* have stored with the session.
        outputs: Folder of the session's long outputs, which the model may read.

    Raises:
        InvalidInput: If a rule of the command line cannot be understood.
    """
    here = {"base": cwd, "home": home}
    given = (
        *rules_from_tool_list(args.allowed_tools, action="allow", **here),
        *rules_from_tool_list(args.disallowed_tools, action="deny", **here),
    )
    own: tuple[Rule, ...] = ()
    if outputs is not None:
        pattern = portable(os.path.realpath(outputs))
        if not has_wildcard(pattern):  # a rule has no way to quote one
            own = (Rule("external_directory", f"{pattern}/*", "allow"),)
    return PermissionLayers(
        agent=own,
        user=settings.user_rules,
        project=settings.project_rules,
        session=given,
        granted=tuple(granted),
    )


def permission_mode(args: Args, settings: Settings, recorded: str) -> PermissionMode:
    """Return the mode: as given, as the session has it, as set, or to ask.

    A session's bypass does not outlive the run it was given for.
    """
    if args.permission_mode:
        return parse_mode(args.permission_mode)
    if recorded and recorded != "bypassPermissions":
        return parse_mode(recorded)
    return settings.permission_mode or "default"


def build_tools(
    around: Surroundings, settings: Settings, *, processes: ProcessOwner, outputs: Path | None
) -> list[Tool]:
    """Return the native tools, in the order in which they are declared."""
    home = user_home(around.environ)
    guard = PathGuard(protected=load_protected([os.path.realpath(around.agent_dir)]), home=home)
    state = FileReadState()
    environment = child_environment(around.environ, tool_env=settings.tool_env)
    return [
        ReadTool(guard=guard, state=state),
        WriteTool(guard=guard, state=state),
        EditTool(guard=guard, state=state),
        BashTool(processes=processes, environment=environment, artifacts=outputs),
    ]


class Built(Struct, frozen=True):
    """A session that is ready, and what its user should know first."""

    session: AgentSession
    notices: tuple[Notice, ...]


async def build_session(
    args: Args,
    around: Surroundings,
    *,
    manager: SessionManager,
    asker: Asker | None,
    stack: AsyncExitStack,
) -> Built:
    """Build the session of a history that is open for writing.

    The history is closed with the session; ``asker`` None means that nobody
    can be asked; ``stack`` takes what must be closed.

    Raises:
        ConfigurationError: If there is no usable model.
        InvalidInput: If a rule or mode cannot be understood.
    """
    state = manager.state
    settings = read_settings(around, manager.cwd)
    outputs = manager.path.with_suffix("") / "outputs" if manager.path else None
    hub = EventHub()
    permissions = PermissionEngine(
        layers=permission_layers(
            args,
            settings,
            cwd=manager.cwd,
            home=user_home(around.environ),
            granted=state.permission_rules,
            outputs=outputs,
        ),
        mode=permission_mode(args, settings, state.permission_mode),
        roots=(manager.cwd,),
        asker=asker,
        remember=_remember(manager),
        emit=hub.emit,
        ids=around.ids,
    )
    processes = ProcessOwner()
    stack.push_async_callback(processes.aclose)
    runtime, local = model_runtime(around, settings, processes=processes)
    model = await choose_model(args, settings, recorded=state.model, runtime=runtime, local=local)
    tools = build_tools(around, settings, processes=processes, outputs=outputs)
    level = args.thinking or state.thinking_level or settings.thinking
    session = AgentSession(
        manager=manager,
        provider=runtime.create_provider(model),
        model=model,
        tools=tools,
        permissions=permissions,
        hub=hub,
        system=system_sections(cwd=manager.cwd, tools=tools),
        bound=ResultBounds(model=model, folder=outputs),
        ids=around.ids,
        clock=around.clock,
        thinking_level=clamp_thinking(level, model),
        max_turns=args.max_turns,
    )
    stack.push_async_callback(session.aclose)
    notices = (*settings.notices, *manager.notices, *local.notices(model))
    return Built(session, notices)


def _remember(manager: SessionManager) -> Callable[[Sequence[Rule]], Awaitable[None]]:
    async def remember(rules: Sequence[Rule]) -> None:
        stored = tuple(StoredRule(r.permission, r.pattern, r.action) for r in rules)
        await manager.append(PermissionRuleRecord(rules=stored))

    return remember
