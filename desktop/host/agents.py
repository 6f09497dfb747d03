"""Makes a session able to run: its model, its settings, its rules, who is asked."""

import asyncio
import logging
import os
from collections.abc import Mapping
from pathlib import Path

from agent_sdk.host import (
    AgentSession,
    Asker,
    Clock,
    Ids,
    InvalidInput,
    LocalModels,
    Model,
    Notice,
    ProcessOwner,
    SessionReadOnly,
    Settings,
    SettingsDamaged,
    change_model,
    choose_model,
    create_agent_session,
    everyday_tools,
    load_settings,
    parse_mode,
    user_home,
)
from desktop.bridge.messages import ErrorInfo
from desktop.host.errors import error_info
from desktop.host.ports import ModelService
from desktop.host.session import HostSession
from desktop.host.sessions import Sessions

logger = logging.getLogger("zpi.host.agents")


class Agents:
    """Puts agent sessions together.

    Args:
        sessions: The sessions.
        models: Chooses models and connects to them.
        local: The models on this machine.
        processes: Starts commands; closed by whoever made it.
        asker: Who is asked for permission.
        environ: The environment, without secrets.
        user_dir: Folder of the user's ``settings.json``.
        data: ZPI's own data, which tools must not touch.
    """

    def __init__(
        self,
        *,
        sessions: Sessions,
        models: ModelService,
        local: LocalModels,
        processes: ProcessOwner,
        asker: Asker,
        environ: Mapping[str, str],
        user_dir: Path,
        data: Path,
        ids: Ids,
        clock: Clock,
    ) -> None:
        self._sessions = sessions
        self._models = models
        self._local = local
        self._processes = processes
        self._asker = asker
        self._environ = environ
        self._user_dir = user_dir
        self._data = data
        self._ids = ids
        self._clock = clock
        self._runtimes: dict[str, object] = {}
        self._notices: dict[str, tuple[Notice, ...]] = {}
        self._told: set[str] = set()

    async def ready(self, session: HostSession) -> AgentSession:
        """Return the session ready to run with the model that is wanted now.

        Raises:
            ConfigurationError: If there is no usable model, or settings are damaged.
            SessionReadOnly: If it can only be read.
            InvalidInput: If its folder has gone.
        """
        if session.problem or session.manager.read_only:
            raise SessionReadOnly(
                session.problem or "The session can only be read.",
                hint="Start a new session to go on.",
            )
        if not await asyncio.to_thread(os.path.isdir, session.project.path):
            raise InvalidInput(
                f"The folder {session.project.path!r} is not there.",
                hint="Bring it back, or start a session in another folder.",
            )
        settings = self.settings(session.project.path)
        model = await self.model(session, settings)
        thinking = session.thinking or session.manager.state.thinking_level or settings.thinking
        agent = session.agent
        if agent is None:
            agent = await self._make(session, settings, model=model, thinking=thinking)
        elif self._changed(session, model):
            provider = self._models.runtime.create_provider(model)
            await change_model(agent, provider=provider, model=model, thinking_level=thinking)
        self._runtimes[session.id] = (self._models.runtime, model, thinking)
        if session.created is not None and agent.is_idle:
            await session.created.refresh()  # what the user wrote in AGENTS.md since counts
        return agent

    async def model(self, session: HostSession, settings: Settings | None = None) -> Model:
        """Return the model that the session's next run would use.

        Raises:
            ConfigurationError: If the one that is named cannot be used, or there is none.
        """
        settings = settings or self.settings(session.project.path)
        return await choose_model(
            self._models.runtime,
            self._local,
            explicit=session.model or None,
            recorded=session.manager.state.model or None,
            configured=self._models.default or settings.model or None,
        )

    def settings(self, folder: str) -> Settings:
        """Return the settings in force in a folder.

        Raises:
            SettingsDamaged: If a file cannot be used.
        """
        home = user_home(self._environ)
        return load_settings(self._user_dir, Path(folder), home=Path(home) if home else None)

    def problems(self) -> tuple[ErrorInfo, ...]:
        """Return why the user's settings cannot be used; nothing if they can."""
        try:
            self.settings(str(self._user_dir))
        except SettingsDamaged as error:
            return (error_info(error),)
        return ()

    def notices(self, session: HostSession) -> tuple[Notice, ...]:
        """Return what must be said about a session once, when it runs for the first time."""
        if session.id in self._told or session.agent is None:
            return ()
        self._told.add(session.id)
        said = self._local.statement(session.agent.model)
        found = self._notices.pop(session.id, ())
        return (*found, Notice("info", "embedded_model", said)) if said else found

    def _changed(self, session: HostSession, model: Model) -> bool:
        last = self._runtimes.get(session.id)
        thinking = session.thinking or session.manager.state.thinking_level
        return not (
            isinstance(last, tuple)
            and last[0] is self._models.runtime
            and last[1] == model
            and (not thinking or last[2] == thinking)
        )

    async def _make(
        self, session: HostSession, settings: Settings, *, model: Model, thinking: str
    ) -> AgentSession:
        created = await create_agent_session(
            session_manager=session.manager,
            model_runtime=self._models.runtime,
            model=model,
            processes=self._processes,
            environ=self._environ,
            agent_dir=self._user_dir,
            settings=settings,
            tools=everyday_tools(model),
            permission_mode=parse_mode(self._sessions.mode(session)),
            asker=self._asker,
            protected=(self._data,),
            ids=self._ids,
            clock=self._clock,
            thinking_level=thinking,
        )
        created.session.subscribe(session.feed.take)
        known = session.manager.notices  # told when it was opened
        session.created = created
        self._notices[session.id] = tuple(n for n in created.notices if n not in known)
        return created.session
