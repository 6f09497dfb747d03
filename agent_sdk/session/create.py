"""A native session, created. What it is made of is decided in ``assembly``.

The order: options, history, settings, model, permissions, built-in tools,
resources (read once; refreshed by the same loader), assembly, session. A
history that is opened here has settled its interrupted calls by then.
What is made here is closed with the session; what is given stays the caller's.
"""

import asyncio
import os
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Unpack

from msgspec import Struct

from agent_sdk.core.errors import ConfigurationError, InvalidInput
from agent_sdk.core.ids import Clock, Ids, RandomIds, SystemClock
from agent_sdk.core.process import ProcessOwner
from agent_sdk.loop.types import Notice
from agent_sdk.permissions.engine import PermissionEngine
from agent_sdk.permissions.modes import parse_mode
from agent_sdk.providers.base import Provider
from agent_sdk.providers.endpoints import secret_variables
from agent_sdk.providers.models import Model, clamp_thinking
from agent_sdk.providers.registry import load_registry
from agent_sdk.providers.runtime import ModelRuntime, NothingAvailable
from agent_sdk.resources.loader import ResourceChanges, ResourceLoader, Resources
from agent_sdk.session.agent_session import AgentSession
from agent_sdk.session.assembly import Assembly, ToolChoice, assemble_session
from agent_sdk.session.bounds import ResultBounds
from agent_sdk.session.builtins import (
    Builtins,
    builtin_tools,
    checkpoint_store,
    outputs_folder,
)
from agent_sdk.session.checkpoints import FileRewind
from agent_sdk.session.hub import EventHub
from agent_sdk.session.manager import SessionManager
from agent_sdk.session.native import permission_engine, session_layers, user_home
from agent_sdk.session.options import PreparedTools, SessionOptions, check_options
from agent_sdk.session.paths import agent_dir, real_folder
from agent_sdk.session.plugin_parts import plugin_parts
from agent_sdk.session.resources import resource_loader
from agent_sdk.session.settings import Settings, load_settings
from agent_sdk.session.storage import open_storage


class CreatedSession(Struct, frozen=True, kw_only=True):
    """A session that is ready to run, and its parts.

    Attributes:
        session: The session; close it.
        manager: Its history; the one that was given, if one was.
        loader: Its resources.
        assembly: What it was made of when it was created.
        checkpoints: Takes back what it does to files.
        notices: What its user should know first.
        assemble: Returns what it would be made of with other resources.
    """

    session: AgentSession
    manager: SessionManager
    loader: ResourceLoader
    assembly: Assembly
    checkpoints: FileRewind
    notices: tuple[Notice, ...]
    assemble: Callable[[Resources], Assembly]

    async def refresh(self) -> ResourceChanges:
        """Read the resources again and use them from the next run on.

        Returns:
            What changed; false if nothing did.

        Raises:
            InvalidInput: If a run is going on.
        """
        changes = await self.loader.refresh()
        if changes:
            self.reassemble()
        return changes

    def reassemble(self) -> None:
        """Use the resources as the loader has them now, from the next run on.

        Raises:
            InvalidInput: If a run is going on.
        """
        self.session.use_prompt(self.assemble(self.loader.load()).sections)


async def create_agent_session(**options: Unpack[SessionOptions]) -> CreatedSession:
    """Create a session that is ready to run; nothing is asked of a model.

    Args:
        **options: See ``SessionOptions``.

    Raises:
        InvalidInput: If an option is unknown or cannot be used.
        PluginConflict: If a plugin is not usable or two are in each other's way.
        ModelNotFound: If the model, or the one that the session recorded, is
            not available.
        CredentialMissing: If it needs a key and there is none.
        ConfigurationError: If there is no model, or a settings file is damaged.
        StorageError: If the history cannot be used.
    """
    check_options(options)
    async with AsyncExitStack() as made:
        place = _place(options)
        manager = await _history(options, place, made)
        settings = _settings(options, place, manager.cwd)
        model, provider = _model(options, place, manager=manager, settings=settings)
        made.push_async_callback(provider.aclose)  # twice does no harm
        parts = await _parts(options, place, made, manager=manager, settings=settings)
        recovered = None if manager.read_only else await parts.checkpoints.recover()
        thinking = (
            options.get("thinking_level") or manager.state.thinking_level or settings.thinking
        )
        session = _session(options, place, parts, provider=provider, model=model, thinking=thinking)
        session.owned = made.pop_all()
        notices = (*settings.notices, *manager.notices, *parts.assembly.notices)
        return CreatedSession(
            session=session,
            manager=manager,
            loader=parts.loader,
            assembly=parts.assembly,
            checkpoints=parts.checkpoints,
            notices=(*notices, recovered) if recovered else notices,
            assemble=parts.assemble,
        )


async def preview_session(**options: Unpack[SessionOptions]) -> Assembly:
    """Return what a session would be made of, by the same rules; run and write nothing.

    Args:
        **options: As for ``create_agent_session``; no model is needed.

    Raises:
        InvalidInput: If an option is unknown or cannot be used.
        PluginConflict: If a plugin is not usable or two are in each other's way.
        ConfigurationError: If a settings file is damaged.
    """
    check_options(options)
    place = _place(options)
    if "storage" in options:
        raise InvalidInput(
            "A preview opens no storage.",
            hint="Leave 'storage' out, or open it and give the 'session_manager'.",
        )
    manager = options.get("session_manager") or SessionManager.in_memory(
        cwd=_folder(options), ids=place.ids, clock=place.clock
    )
    settings = _settings(options, place, manager.cwd)
    async with AsyncExitStack() as made:
        parts = await _parts(options, place, made, manager=manager, settings=settings)
    return parts.assembly


# ------------------------------------------------------------- the steps


class _Place(Struct, frozen=True, kw_only=True):
    environ: Mapping[str, str]
    home: str
    agent_dir: Path
    ids: Ids
    clock: Clock


class _Parts(Struct, frozen=True, kw_only=True):
    manager: SessionManager
    hub: EventHub
    permissions: PermissionEngine
    builtins: Builtins
    loader: ResourceLoader
    assemble: Callable[[Resources], Assembly]
    assembly: Assembly
    checkpoints: FileRewind


def _place(options: SessionOptions) -> _Place:
    environ = options.get("environ")
    environ = os.environ if environ is None else environ
    return _Place(
        environ=environ,
        home=user_home(environ),
        agent_dir=options.get("agent_dir") or agent_dir(environ),
        ids=options.get("ids") or RandomIds(),
        clock=options.get("clock") or SystemClock(),
    )


def _folder(options: SessionOptions) -> str:
    cwd = real_folder(options.get("cwd") or Path.cwd())
    if not Path(cwd).is_dir():
        raise InvalidInput(f"{str(cwd)!r} is no folder.", hint="Give one that exists as 'cwd'.")
    return cwd


async def _history(options: SessionOptions, place: _Place, made: AsyncExitStack) -> SessionManager:
    given, cwd = options.get("session_manager"), options.get("cwd")
    if given is not None:
        if cwd is not None and real_folder(cwd) != given.cwd:
            raise InvalidInput(
                f"The session belongs to {given.cwd!r}, not to {str(cwd)!r}.",
                hint="Leave 'cwd' out, or start a new session.",
            )
        return given
    if "storage" in options:
        return await _stored(options, place, made)
    folder = _folder(options)
    if options.get("persist", True):
        manager = await SessionManager.create(
            cwd=folder,
            sessions_dir=place.agent_dir / "sessions",
            ids=place.ids,
            clock=place.clock,
        )
    else:
        manager = SessionManager.in_memory(cwd=folder, ids=place.ids, clock=place.clock)
    made.push_async_callback(manager.close)
    return manager


async def _stored(options: SessionOptions, place: _Place, made: AsyncExitStack) -> SessionManager:
    """Open a storage of the host's; its session keeps its folder."""
    cwd = options.get("cwd")
    manager = await open_storage(
        options["storage"], cwd=cwd or Path.cwd(), ids=place.ids, clock=place.clock
    )
    made.push_async_callback(manager.close)
    if cwd is not None and real_folder(cwd) != manager.cwd:
        raise InvalidInput(
            f"The session belongs to {manager.cwd!r}, not to {str(cwd)!r}.",
            hint="Leave 'cwd' out, or give the storage of another session.",
        )
    return manager


def _settings(options: SessionOptions, place: _Place, cwd: str) -> Settings:
    given = options.get("settings")
    if given is not None:
        return given
    home = Path(place.home) if place.home else None
    return load_settings(place.agent_dir, Path(cwd), home=home)


def _model(
    options: SessionOptions, place: _Place, *, manager: SessionManager, settings: Settings
) -> tuple[Model, Provider]:
    """Return the model and a connection to it: as given, as recorded, or the first available."""
    wanted, provider = options.get("model"), options.get("provider")
    if isinstance(wanted, Model) and provider is not None:
        return wanted, provider
    runtime = options.get("model_runtime") or _runtime(place)
    if isinstance(wanted, Model):
        model = wanted
        if model.api != "local":
            runtime.credential(model)  # now, and not in the middle of the first run
    else:
        choice = runtime.choose(
            explicit=wanted,
            recorded=manager.state.model or None,
            configured=settings.model or None,
        )
        if isinstance(choice, NothingAvailable):
            raise ConfigurationError("There is no key for any model.", hint=choice.hint)
        model = choice.model
    return model, runtime.create_provider(model)


def _runtime(place: _Place) -> ModelRuntime:
    registry = load_registry(place.agent_dir)
    secrets = {name: place.environ.get(name, "") for name in secret_variables(registry)}
    return ModelRuntime(registry=registry, environ=place.environ, secrets=secrets)


async def _parts(
    options: SessionOptions,
    place: _Place,
    made: AsyncExitStack,
    *,
    manager: SessionManager,
    settings: Settings,
) -> _Parts:
    hub = EventHub()
    loader = options.get("resource_loader") or resource_loader(
        cwd=manager.cwd,
        agent_dir=place.agent_dir,
        home=place.home,
        setting_sources=options.get("setting_sources"),
        extra_skill_folders=options.get("extra_skill_folders", ()),
    )
    resources = await asyncio.to_thread(loader.load)
    permissions = _gate(options, place, hub, manager=manager, settings=settings, found=resources)
    processes = options.get("processes")
    if processes is None:
        processes = ProcessOwner()
        made.push_async_callback(processes.aclose)
    builtins = builtin_tools(
        manager=manager,
        processes=processes,
        environ=place.environ,
        tool_env=settings.tool_env,
        protected=[real_folder(f) for f in (place.agent_dir, *options.get("protected", ()))],
        home=place.home,
        reads_freely=permissions.reads_freely,
        checkpoints=options.get("checkpoints") or checkpoint_store(manager),
    )
    choice = await _choice(options, loader)

    def assemble(found: Resources) -> Assembly:
        return assemble_session(
            cwd=manager.cwd,
            builtins=builtins.tools,
            choice=choice,
            plugins=options.get("plugins", ()),
            resources=found,
            system_prompt=options.get("system_prompt"),
            custom_instructions=options.get("custom_instructions", ""),
        )

    return _Parts(
        manager=manager,
        hub=hub,
        permissions=permissions,
        builtins=builtins,
        loader=loader,
        assemble=assemble,
        assembly=assemble(resources),
        checkpoints=FileRewind(
            manager=manager, store=builtins.checkpoints, state=builtins.state, ids=place.ids
        ),
    )


def _gate(
    options: SessionOptions,
    place: _Place,
    hub: EventHub,
    *,
    manager: SessionManager,
    settings: Settings,
    found: Resources,
) -> PermissionEngine:
    layers = session_layers(
        settings=settings,
        rules=options.get("rules", ()),
        granted=manager.state.permission_rules,
        readable=_readable(manager, found),
    )
    recorded = manager.state.permission_mode
    mode = options.get("permission_mode")
    if mode is None and recorded and recorded != "bypassPermissions":
        mode = parse_mode(recorded)
    return permission_engine(
        manager,
        layers,
        mode=mode or settings.permission_mode or "default",
        asker=options.get("asker"),
        hub=hub,
        ids=place.ids,
    )


async def _choice(options: SessionOptions, loader: ResourceLoader) -> ToolChoice:
    prepare = options.get("prepare_tools")
    prepared = await prepare(loader) if prepare is not None else PreparedTools()
    return ToolChoice(
        tools=options.get("tools") if prepared.tools is None else prepared.tools,
        exclude_tools=options.get("exclude_tools", ()),
        no_tools=options.get("no_tools", False),
        custom_tools=(*options.get("custom_tools", ()), *prepared.custom_tools),
        tool_overrides=options.get("tool_overrides", ()),
    )


def _readable(manager: SessionManager, resources: Resources) -> list[str | Path]:
    """Return the folders that the model is sent to by ZPI itself."""
    skills = [Path(skill.path).parent for skill in resources.skills if skill.source == "user"]
    outputs = outputs_folder(manager)
    return [*skills, outputs] if outputs is not None else [*skills]


def _session(
    options: SessionOptions,
    place: _Place,
    parts: _Parts,
    *,
    provider: Provider,
    model: Model,
    thinking: str,
) -> AgentSession:
    manager = parts.manager
    plugins = plugin_parts(
        parts.assembly.contributions,
        manager=manager,
        hub=parts.hub,
        ids=place.ids,
        clock=place.clock,
        report=options.get("hook_report"),
    )
    session = AgentSession(
        manager=manager,
        provider=provider,
        model=model,
        tools=parts.assembly.tools,
        permissions=parts.permissions,
        hub=parts.hub,
        system=parts.assembly.sections,
        bound=ResultBounds(model=model, folder=outputs_folder(manager)),
        ids=place.ids,
        clock=place.clock,
        thinking_level=clamp_thinking(thinking, model),
        max_turns=options.get("max_turns"),
        hooks=plugins.hooks,
        blocks=plugins.blocks,
    )
    session.requests = options.get("requests", session.requests)
    compaction = options.get("compaction")
    if compaction is not None:
        session.context.compactor.settings = compaction
    return session
