"""The host put together: the one place that knows all of its parts."""

from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from pathlib import Path

from msgspec import Struct

from agent_sdk.events.wire import PartDelta, PartUpdated
from agent_sdk.host import (
    Clock,
    Ids,
    LocalModels,
    ModelRegistry,
    ProcessOwner,
    load_settings,
    user_home,
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
        epoch: Of this host.
    """

    paths: DataPaths
    environ: Mapping[str, str]
    secrets: Mapping[str, str]
    user_dir: Path
    registry: ModelRegistry
    epoch: str
    ids: Ids
    clock: Clock


def local_models(around: Surroundings, processes: ProcessOwner) -> LocalModels:
    """Return what knows the models on this machine.

    Raises:
        SettingsDamaged: If the user's settings cannot be used.
    """
    gguf = around.environ.get("ZPI_LOCAL_GGUF", "")
    if not gguf:
        home = user_home(around.environ)
        settings = load_settings(around.user_dir, around.user_dir, home=Path(home or "/"))
        gguf = settings.local.gguf
    return LocalModels(processes=processes, gguf=gguf, clock=around.clock)


async def build_host(
    around: Surroundings,
    *,
    database: Database,
    models: ModelService,
    local: LocalModels,
    processes: ProcessOwner,
    send: Callable[[Frame], None],
    shut_down: Callable[[], None],
    notices: tuple[ErrorInfo, ...],
    snapshots: "PartSnapshots",
    stack: AsyncExitStack,
) -> Host:
    """Build the host; what it must close in order goes onto the stack.

    Args:
        around: What it finds.
        database: The state database; closed by whoever opened it.
        models: Providers, keys and models; closed by the caller too.
        local: The models on this machine.
        processes: Starts commands.
        send: Queues a frame for the window.
        shut_down: Ends the host.
        notices: What the window is told once.
        snapshots: Will know the sessions.
        stack: Takes what must be closed.
    """
    ids, clock = around.ids, around.clock
    topics = Topics(send=send)
    questions = Questions(store=database.permissions, topics=topics)
    reactions = EventReactions(questions=questions)
    defaults = Defaults()
    loader = Loader(
        paths=around.paths,
        database=database,
        send=send,
        reactions=reactions,
        ids=ids,
        clock=clock,
    )
    sessions = Sessions(
        loader=loader,
        folder=around.paths.sessions,
        database=database,
        topics=topics,
        questions=questions,
        defaults=defaults,
        epoch=around.epoch,
        clock=clock,
    )
    agents = Agents(
        sessions=sessions,
        models=models,
        local=local,
        processes=processes,
        asker=questions,
        environ=around.environ,
        user_dir=around.user_dir,
        data=around.paths.data,
        ids=ids,
        clock=clock,
    )
    runs = Runs(
        sessions=sessions,
        agents=agents,
        prompts=database.prompts,
        questions=questions,
        clock=clock,
    )
    reactions.sessions, reactions.runs = sessions, runs
    snapshots.sessions = sessions
    state = HostState(
        notices=(*notices, *database.notices),
        data_dir=str(around.paths.data),
        sqlite_version=database.sqlite_version,
    )
    host = Host(
        database=database,
        models=models,
        sessions=sessions,
        runs=runs,
        agents=agents,
        questions=questions,
        topics=topics,
        defaults=defaults,
        host_state=lambda: state,
        shut_down=shut_down,
    )
    stack.push_async_callback(sessions.aclose)
    stack.push_async_callback(runs.aclose)
    await host.start()
    return host


class PartSnapshots:
    """Knows how parts of open sessions are now (``channel.Snapshots``)."""

    def __init__(self) -> None:
        self.sessions: Sessions | None = None

    def snapshot(self, delta: PartDelta) -> PartUpdated | None:
        """Return all of the part that a delta belongs to; None if it has gone."""
        session = self.sessions.known(delta.session_id) if self.sessions else None
        return session.feed.snapshot(delta) if session else None
