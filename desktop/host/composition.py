"""The host put together: the one place that knows all of its parts."""

from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack, suppress
from pathlib import Path

from msgspec import Struct

from agent_sdk.events.wire import PartDelta, PartUpdated
from agent_sdk.host import (
    Clock,
    Ids,
    LocalModels,
    ModelRegistry,
    ProcessOwner,
    SettingsDamaged,
    load_settings,
)
from desktop.bridge.frames import Frame
from desktop.bridge.messages import ErrorInfo, HostState
from desktop.host.agents import Agents
from desktop.host.host import EventReactions, Host
from desktop.host.loading import Loader
from desktop.host.permissions import Questions
from desktop.host.ports import Database, ModelService
from desktop.host.runs import Runs
from desktop.host.session import Defaults
from desktop.host.sessions import Sessions
from desktop.host.status import Topics
from desktop.paths import DataPaths


class Surroundings(Struct, frozen=True, kw_only=True):
    """What the host finds where it was started.

    Attributes:
        paths: Where its data lies.
        environ: The environment, without secrets.
        secrets: Values of the variables that hold keys.
        user_dir: Folder of the user's settings and models.
        registry: The models known by name.
        problems: Files that say what there is and cannot be used.
        epoch: Of this host.
    """

    paths: DataPaths
    environ: Mapping[str, str]
    secrets: Mapping[str, str]
    user_dir: Path
    registry: ModelRegistry
    problems: tuple[ErrorInfo, ...] = ()
    epoch: str
    ids: Ids
    clock: Clock


def local_models(around: Surroundings, processes: ProcessOwner) -> LocalModels:
    """Return what knows the models on this machine.

    Settings that cannot be used are said where they matter: when a session runs.
    """
    gguf = around.environ.get("ZPI_LOCAL_GGUF", "")
    if not gguf:
        with suppress(SettingsDamaged):
            gguf = load_settings(around.user_dir, around.user_dir).local.gguf
    return LocalModels(processes=processes, gguf=gguf, clock=around.clock)


class PartSnapshots:
    """Knows how parts of open sessions are now (``channel.Snapshots``)."""

    def __init__(self) -> None:
        self.sessions: Sessions | None = None

    def snapshot(self, delta: PartDelta) -> PartUpdated | None:
        """Return all of the part that a delta belongs to; None if it has gone."""
        session = self.sessions.known(delta.session_id) if self.sessions else None
        return session.feed.snapshot(delta) if session else None


class Services(Struct, frozen=True, kw_only=True):
    """What was opened for the host, and is closed by whoever opened it.

    Attributes:
        database: The state database.
        models: Providers, keys and models.
        local: The models on this machine.
        processes: Starts commands.
    """

    database: Database
    models: ModelService
    local: LocalModels
    processes: ProcessOwner


class Window(Struct, frozen=True, kw_only=True):
    """The way to the window.

    Attributes:
        send: Queues a frame.
        shut_down: Ends the host.
        snapshots: Will know the sessions' parts.
        notices: What the window is told once.
    """

    send: Callable[[Frame], None]
    shut_down: Callable[[], None]
    snapshots: PartSnapshots
    notices: tuple[ErrorInfo, ...] = ()


async def build_host(
    around: Surroundings, services: Services, window: Window, *, stack: AsyncExitStack
) -> Host:
    """Build the host, and let it take up what an earlier one left.

    Args:
        around: What it finds.
        services: What was opened for it.
        window: The way to the window.
        stack: Takes what the host must close, in order.
    """
    database = services.database
    topics = Topics(send=window.send)
    questions = Questions(store=database.permissions, topics=topics)
    reactions = EventReactions(questions=questions)
    defaults = Defaults()
    sessions = Sessions(
        loader=_loader(around, database, window, reactions=reactions),
        folder=around.paths.sessions,
        database=database,
        topics=topics,
        questions=questions,
        defaults=defaults,
        epoch=around.epoch,
        clock=around.clock,
    )
    agents = _agents(around, services, sessions, asker=questions)
    runs = Runs(
        sessions=sessions,
        agents=agents,
        prompts=database.prompts,
        questions=questions,
        clock=around.clock,
    )
    reactions.sessions, reactions.runs = sessions, runs
    window.snapshots.sessions = sessions
    host = Host(
        database=database,
        models=services.models,
        sessions=sessions,
        runs=runs,
        agents=agents,
        questions=questions,
        topics=topics,
        defaults=defaults,
        state=HostState(
            notices=(*window.notices, *around.problems, *database.notices),
            data_dir=str(around.paths.data),
            sqlite_version=database.sqlite_version,
        ),
        shut_down=window.shut_down,
    )
    stack.push_async_callback(sessions.aclose)
    stack.push_async_callback(runs.aclose)
    await host.start()
    return host


def _loader(
    around: Surroundings, database: Database, window: Window, *, reactions: EventReactions
) -> Loader:
    return Loader(
        paths=around.paths,
        database=database,
        send=window.send,
        reactions=reactions,
        ids=around.ids,
        clock=around.clock,
    )


def _agents(
    around: Surroundings, services: Services, sessions: Sessions, *, asker: Questions
) -> Agents:
    return Agents(
        sessions=sessions,
        models=services.models,
        local=services.local,
        processes=services.processes,
        asker=asker,
        environ=around.environ,
        user_dir=around.user_dir,
        data=around.paths.data,
        ids=around.ids,
        clock=around.clock,
    )
