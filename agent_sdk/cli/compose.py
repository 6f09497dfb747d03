"""The composition root of the command line: builds one session out of its parts."""

import logging
import os
import stat
import sys
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path

from msgspec import Struct

from agent_sdk.cli.args import Args
from agent_sdk.core.diagnostics import Redactor, StderrSink, attach_logging
from agent_sdk.core.errors import InvalidInput
from agent_sdk.core.hardening import harden_process
from agent_sdk.core.ids import Clock, Ids, RandomIds, SystemClock
from agent_sdk.core.process import ProcessOwner
from agent_sdk.loop.types import Notice, Rule
from agent_sdk.permissions.engine import Asker
from agent_sdk.permissions.modes import parse_mode
from agent_sdk.permissions.tool_list import rules_from_tool_list
from agent_sdk.providers.endpoints import secret_variables
from agent_sdk.providers.local_models import LocalModels, choose_model
from agent_sdk.providers.registry import ModelRegistry, load_registry
from agent_sdk.providers.runtime import ModelRuntime
from agent_sdk.providers.transport import stop_searches
from agent_sdk.session.builtins import everyday_tools
from agent_sdk.session.create import CreatedSession, create_agent_session
from agent_sdk.session.manager import SessionManager
from agent_sdk.session.native import user_home
from agent_sdk.session.paths import agent_dir
from agent_sdk.session.settings import Settings, load_settings


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
    stop_searches()
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


def session_rules(args: Args, *, cwd: str, home: str) -> tuple[Rule, ...]:
    """Return the permission rules of the command line.

    Args:
        args: The command line.
        cwd: The session's folder; relative patterns are relative to it.
        home: The user's home folder.

    Raises:
        InvalidInput: If a rule cannot be understood.
    """
    here = {"base": cwd, "home": home}
    return (
        *rules_from_tool_list(args.allowed_tools, action="allow", **here),
        *rules_from_tool_list(args.disallowed_tools, action="deny", **here),
    )


class Built(Struct, frozen=True):
    """A session that is ready, and what its user should know first."""

    created: CreatedSession
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

    ``asker`` None means that nobody
    can be asked; ``stack`` takes what must be closed.

    Raises:
        ConfigurationError: If there is no usable model.
        InvalidInput: If a rule or mode cannot be understood.
    """
    state = manager.state
    settings = read_settings(around, manager.cwd)
    processes = ProcessOwner()
    stack.push_async_callback(processes.aclose)
    runtime, local = model_runtime(around, settings, processes=processes)
    model = await choose_model(
        runtime,
        local,
        explicit=args.model,
        recorded=state.model or None,
        configured=settings.model or None,
    )
    created = await create_agent_session(
        session_manager=manager,
        model_runtime=runtime,
        model=model,
        processes=processes,
        environ=around.environ,
        agent_dir=around.agent_dir,
        settings=settings,
        tools=everyday_tools(model),
        rules=session_rules(args, cwd=manager.cwd, home=user_home(around.environ)),
        permission_mode=parse_mode(args.permission_mode) if args.permission_mode else None,
        asker=asker,
        ids=around.ids,
        clock=around.clock,
        thinking_level=args.thinking or "",
        max_turns=args.max_turns,
    )
    stack.push_async_callback(created.session.aclose)
    statement = local.statement(model)
    told = (Notice("info", "embedded_model", statement),) if statement else ()
    return Built(created, (*created.notices, *told))
