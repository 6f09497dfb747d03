"""The host: carries out the window's commands. It sequences and delegates."""

import logging
from collections.abc import Awaitable, Callable
from typing import get_args

from msgspec import structs

from agent_sdk.events.wire import (
    EventBody,
    PartDelta,
    PartUpdated,
    PermissionAskedEvent,
    PermissionRepliedEvent,
    SessionStatus,
)
from agent_sdk.host import (
    ModelChangeRecord,
    PermissionModeChangeRecord,
    ThinkingLevelChangeRecord,
    ZpiError,
    parse_mode,
)
from desktop.bridge import protocol as p
from desktop.bridge.messages import ErrorInfo, HostState, ModelsState, ProjectsState, SettingsState
from desktop.host.agents import Agents
from desktop.host.errors import error_info
from desktop.host.permissions import Questions
from desktop.host.ports import Database, ModelService
from desktop.host.runs import Runs
from desktop.host.session import Defaults, HostSession
from desktop.host.sessions import Sessions
from desktop.host.status import Topics

logger = logging.getLogger("zpi.host")


class Host:
    """Carries out commands (``CommandHandler``), each to its one answer.

    Args:
        database: The state database.
        models: Providers, keys and models.
        sessions: The sessions.
        runs: Their runs.
        agents: Makes sessions able to run.
        questions: What runs have asked.
        topics: Tells the window of state.
        defaults: What new sessions begin with; kept up to date here.
        state: What the host says of itself.
        shut_down: Ends the host.
    """

    def __init__(
        self,
        *,
        database: Database,
        models: ModelService,
        sessions: Sessions,
        runs: Runs,
        agents: Agents,
        questions: Questions,
        topics: Topics,
        defaults: Defaults,
        state: HostState,
        shut_down: Callable[[], None],
    ) -> None:
        self._database = database
        self._models = models
        self._sessions = sessions
        self._runs = runs
        self._agents = agents
        self._questions = questions
        self._topics = topics
        self._defaults = defaults
        self._state = state
        self._shut_down = shut_down
        self._commands: dict[type[p.Command], Callable[..., Awaitable[p.Answer]]] = {
            p.Subscribe: self._subscribe,
            p.OpenProject: self._open_project,
            p.CloseProject: self._close_project,
            p.NewSession: self._new_session,
            p.OpenSession: self._open_session,
            p.HideSession: self._hide_session,
            p.ReadMessages: self._read_messages,
            p.SubmitPrompt: self._submit,
            p.RemoveQueued: self._remove_queued,
            p.ResumeQueue: self._resume_queue,
            p.Interrupt: self._interrupt,
            p.ContinueRun: self._continue_run,
            p.ReplyPermission: self._reply_permission,
            p.RenameSession: self._rename,
            p.DeleteSession: self._delete,
            p.ChooseModel: self._choose_model,
            p.ChoosePermissionMode: self._choose_mode,
            p.SaveProvider: self._save_provider,
            p.RemoveProvider: self._remove_provider,
            p.TestProvider: self._models.test,
            p.SetDefaultModel: self._set_default_model,
            **dict.fromkeys(get_args(p.PassphraseCommand), self._passphrase),
            p.ChangeSettings: self._change_settings,
            p.Shutdown: self._shutdown,
        }
        topics.offer("projects", self._projects_state)
        topics.offer("sessions", sessions.rows.state)
        topics.offer("models", self._models_state)
        topics.offer("permissions", questions.state)
        topics.offer("queue", sessions.rows.queues)
        topics.offer("settings", self._settings_state)
        topics.offer("host", self._own_state)
        models.listen(lambda: topics.publish("models", models.state()))

    async def start(self) -> None:
        """Take up what an earlier host left: its questions expire, its runs were cut."""
        settings = await self._database.settings.get()
        self._apply(settings)
        await self._questions.start()
        await self._sessions.start()
        await self._models.start()

    async def handle(self, command: p.Command) -> p.Answer:
        """Carry out a command; failures are ``Failed``, never raised."""
        try:
            return await self._commands[type(command)](command)
        except ZpiError as error:
            return p.Failed(error=error_info(error))
        except Exception:
            name = type(command).__name__
            logger.exception("the command %s failed", name)
            text = f"The command {name} failed unexpectedly."
            return p.Failed(
                error=ErrorInfo(code="unexpected", text=text, hint="ZPI's log says more.")
            )

    # -------------------------------------------------------------------- state

    async def _projects_state(self) -> list[ProjectsState]:
        return [ProjectsState(projects=tuple(await self._database.projects.list()))]

    async def _settings_state(self) -> list[SettingsState]:
        return [self._shown(await self._database.settings.get())]

    def _shown(self, settings: SettingsState) -> SettingsState:
        return structs.replace(settings, problems=self._agents.problems())

    async def _own_state(self) -> list[HostState]:
        return [self._state]

    def _apply(self, settings: SettingsState) -> None:
        self._defaults.permission_mode = settings.permission_mode
        self._defaults.thinking = settings.thinking

    async def _subscribe(self, command: p.Subscribe) -> p.Answer:
        await self._topics.subscribe(command.topic)
        return p.Done()

    # ----------------------------------------------------------------- projects

    async def _open_project(self, command: p.OpenProject) -> p.Answer:
        project = await self._database.projects.add(command.path)
        await self._topics.refresh("projects")
        await self._topics.refresh("sessions")
        return p.ProjectOpened(project=project)

    async def _close_project(self, command: p.CloseProject) -> p.Answer:
        await self._database.projects.remove(command.project_id)
        await self._topics.refresh("projects")
        await self._topics.refresh("sessions")
        return p.Done()

    # ----------------------------------------------------------------- sessions

    async def _new_session(self, command: p.NewSession) -> p.Answer:
        return await self._show(await self._sessions.new(command.project_id))

    async def _open_session(self, command: p.OpenSession) -> p.Answer:
        session = await self._sessions.get(command.session_id)
        if session.record.unread:
            await self._sessions.rows.note(session, unread=False)
        return await self._show(session)

    async def _show(self, session: HostSession) -> p.Answer:
        try:
            model = (await self._agents.model(session)).key
        except ZpiError:
            model = session.model or session.manager.state.model  # said when it is to run
        self._sessions.rows.publish_queue(session)
        return p.SessionOpened(opened=self._sessions.show(session, model=model))

    async def _hide_session(self, command: p.HideSession) -> p.Answer:
        session = self._sessions.known(command.session_id)
        if session is not None:
            await self._sessions.hide(session)
        return p.Done()

    async def _read_messages(self, command: p.ReadMessages) -> p.Answer:
        session = await self._sessions.get(command.session_id)
        return p.MessagesRead(page=session.feed.transcript.page(command.first, command.count))

    async def _rename(self, command: p.RenameSession) -> p.Answer:
        session = await self._sessions.get(command.session_id)
        async with session.lock:
            await self._sessions.retitle(session, command.title)
        return p.Done()

    async def _delete(self, command: p.DeleteSession) -> p.Answer:
        session = await self._sessions.get(command.session_id)
        async with session.lock:
            await self._sessions.delete(session)
        return p.Done()

    # --------------------------------------------------------------------- runs

    async def _submit(self, command: p.SubmitPrompt) -> p.Answer:
        session = await self._sessions.get(command.session_id)
        async with session.lock:
            return await self._runs.submit(session, command)

    async def _remove_queued(self, command: p.RemoveQueued) -> p.Answer:
        session = await self._sessions.get(command.session_id)
        async with session.lock:
            text = await self._runs.remove_queued(session, command.prompt_id)
        return p.QueuedRemoved(text=text)

    async def _resume_queue(self, command: p.ResumeQueue) -> p.Answer:
        session = await self._sessions.get(command.session_id)
        async with session.lock:
            await self._runs.resume_queue(session)
        return p.Done()

    async def _interrupt(self, command: p.Interrupt) -> p.Answer:
        session = await self._sessions.get(command.session_id)
        self._runs.interrupt(session)  # without the lock: a stop never waits
        return p.Done()

    async def _continue_run(self, command: p.ContinueRun) -> p.Answer:
        session = await self._sessions.get(command.session_id)
        async with session.lock:
            await self._runs.go_on(session)
        return p.Done()

    async def _reply_permission(self, command: p.ReplyPermission) -> p.Answer:
        self._questions.reply(command)
        return p.Done()

    # ----------------------------------------------------- choices for a session

    async def _choose_model(self, command: p.ChooseModel) -> p.Answer:
        session = await self._sessions.get(command.session_id)
        async with session.lock:
            before = session.model
            session.model = command.model
            try:
                model = await self._agents.model(session)
            except ZpiError:
                session.model = before
                raise
            session.thinking = command.thinking
            if session.manager.state.count and not session.running:
                await session.manager.append(
                    ModelChangeRecord(provider=model.provider, model=model.id, api=model.api),
                    ThinkingLevelChangeRecord(thinking_level=command.thinking),
                )
        return p.Done()

    async def _choose_mode(self, command: p.ChoosePermissionMode) -> p.Answer:
        session = await self._sessions.get(command.session_id)
        mode = parse_mode(command.mode)
        async with session.lock:
            session.mode = mode
            if session.agent is not None:
                session.agent.permissions.set_mode(mode)
            if session.manager.state.count:
                await session.manager.append(PermissionModeChangeRecord(mode=mode))
        return p.Done()

    # ---------------------------------------------------------------- providers

    async def _models_state(self) -> list[ModelsState]:
        return [self._models.state()]

    async def _save_provider(self, command: p.SaveProvider) -> p.Answer:
        await self._models.save(command)
        return p.Done()

    async def _remove_provider(self, command: p.RemoveProvider) -> p.Answer:
        await self._models.remove(command.name)
        return p.Done()

    async def _set_default_model(self, command: p.SetDefaultModel) -> p.Answer:
        await self._models.set_default(command.model)
        return p.Done()

    async def _passphrase(self, command: p.PassphraseCommand) -> p.Answer:
        await self._models.passphrase(command)
        return p.Done()

    async def _change_settings(self, command: p.ChangeSettings) -> p.Answer:
        settings = await self._database.settings.change(
            command.revision,
            permission_mode=command.permission_mode,
            thinking=command.thinking,
            follow_up=command.follow_up,
        )
        self._apply(settings)
        self._topics.publish("settings", self._shown(settings))
        return p.Done()

    async def _shutdown(self, command: p.Shutdown) -> p.Answer:
        self._shut_down()
        return p.Done()


class EventReactions:
    """What the host does about sessions' events (``feed.Reactions``).

    Args:
        questions: Keeps what is asked.
    """

    def __init__(self, *, questions: Questions) -> None:
        self._questions = questions
        self.sessions: Sessions | None = None
        self.runs: Runs | None = None

    async def before(self, session_id: str, body: EventBody, *, run_id: str) -> None:
        """Keep a question before it is shown."""
        if isinstance(body, PermissionAskedEvent):
            await self._questions.asked(body, run_id=run_id)

    async def after(self, session_id: str, body: EventBody) -> None:
        """Bring the session's row into line with what was shown."""
        session = self.sessions.known(session_id) if self.sessions else None
        if session is None or self.sessions is None:
            return
        status = session.record.status
        if isinstance(body, SessionStatus) and body.status != "idle":
            await self._status(session, body)
        elif isinstance(body, PartDelta | PartUpdated) and status == "retry":
            await self.sessions.rows.note(session, status="running")
        elif isinstance(body, PermissionRepliedEvent):
            await self._questions.replied(body)
            self.sessions.rows.publish(session)
        elif isinstance(body, PermissionAskedEvent):
            await self.sessions.rows.note(session, unread=not session.feed.shown)

    async def _status(self, session: HostSession, body: SessionStatus) -> None:
        if self.sessions is not None and (session.record.status, session.record.run_id) != (
            body.status,
            body.run_id,
        ):
            await self.sessions.rows.note(session, status=body.status, run_id=body.run_id)

    async def delivered(self, session_id: str, prompt_id: str, record: str) -> None:
        """Take a delivered prompt out of the queue."""
        session = self.sessions.known(session_id) if self.sessions else None
        if session is not None and self.runs is not None:
            await self.runs.delivered(session, prompt_id, record)
