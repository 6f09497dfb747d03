"""Drives the host: the real process over pipes, frame by frame."""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

from agent_sdk.core.ids import RandomIds, SystemClock
from agent_sdk.events.wire import Event, EventBody
from desktop.bridge.frames import (
    AnswerFrame,
    CommandFrame,
    EventFrame,
    Frame,
    FrameReader,
    Hello,
    StateFrame,
    encode,
)
from desktop.bridge.messages import OpenedSession, StateBody, TranscriptMessage
from desktop.bridge.protocol import (
    Answer,
    Command,
    Failed,
    HideSession,
    NewSession,
    OpenProject,
    OpenSession,
    ProjectOpened,
    PromptTaken,
    ReadMessages,
    SessionOpened,
    SubmitPrompt,
    Subscribe,
)
from desktop.host.transcripts import Transcript
from desktop.paths import DataPaths
from tests.support.repository import ROOT

PATIENCE = 20.0
"""Seconds after which a host that does not do what it should fails the test."""

AnswerType = TypeVar("AnswerType")
BodyType = TypeVar("BodyType")

_FROM_MACHINE = ("PATH", "SYSTEMROOT", "COVERAGE_PROCESS_START", "COVERAGE_PROCESS_CONFIG")


def environment(home: Path, more: Mapping[str, str] = {}) -> dict[str, str]:
    """Return an environment for a host whose user has this home folder."""
    return {
        **{name: os.environ[name] for name in _FROM_MACHINE if name in os.environ},
        "PYTHONPATH": str(ROOT),
        "HOME": str(home),
        "USERPROFILE": str(home),
        "ZPI_DATA_DIR": str(home / "data"),
        "LANG": "C.UTF-8",
        "PYTHON_KEYRING_BACKEND": "keyring.backends.null.Keyring",
        **more,
    }


class HostClient:
    """A window without a window: sends commands, remembers what came.

    Attributes:
        hello: The host's greeting.
        frames: Every frame in order of arrival.
        states: The newest state of each topic; of ``sessions`` and ``queue``,
            see ``rows`` and ``queues``.
        events: Every event.
        complaints: Answers that belong to no command.
    """

    def __init__(self, write: Callable[[bytes], None]) -> None:
        self._write = write
        self._reader = FrameReader()
        self._next = 0
        self._answers: dict[int, asyncio.Future[Answer]] = {}
        self._news = asyncio.Event()
        self.ended = asyncio.Event()
        self.hello: Hello | None = None
        self.frames: list[Frame] = []
        self.states: dict[type, StateBody] = {}
        self.rows: dict[str, Any] = {}
        self.queues: dict[str, Any] = {}
        self.events: list[Event] = []
        self.complaints: list[Answer] = []
        self.views: dict[str, Transcript] = {}

    # --------------------------------------------------------------- receiving

    def feed(self, data: bytes) -> None:
        """Take what the host wrote; nothing is the end."""
        if not data:
            self.ended.set()
            for future in self._answers.values():
                if not future.done():
                    future.set_exception(ConnectionError("the host has ended"))
                    future.exception()
        for frame in self._reader.feed(data) if data else ():
            self._take(frame)
        news, self._news = self._news, asyncio.Event()
        news.set()

    def _take(self, frame: Frame) -> None:
        self.frames.append(frame)
        if isinstance(frame, Hello):
            self.hello = frame
        elif isinstance(frame, AnswerFrame):
            if isinstance(frame.answer, SessionOpened):
                self._begin_view(frame.answer.opened)
            future = self._answers.pop(frame.id, None)
            if future is None:
                self.complaints.append(frame.answer)
            elif not future.done():
                future.set_result(frame.answer)
        elif isinstance(frame, StateFrame):
            self._state(frame.state)
        elif isinstance(frame, EventFrame):
            self.events.append(frame.event)
            view = self.views.get(frame.event.session_id)
            if view is not None:
                view.apply(frame.event.body)

    def _begin_view(self, opened: OpenedSession) -> None:
        view = self.views[opened.session.id] = Transcript()
        for message in opened.page.messages:
            view.restore(message)

    def _state(self, state: Any) -> None:
        self.states[type(state)] = state
        name = type(state).__name__
        if name == "SessionsState":
            if state.reset:
                self.rows.clear()
            self.rows.update({row.id: row for row in state.rows})
            for gone in state.removed:
                self.rows.pop(gone, None)
        elif name == "QueueState":
            self.queues[state.session_id] = state

    async def until(self, condition: Callable[[], Any], *, patience: float = PATIENCE) -> Any:
        """Wait until the condition holds, and return what it gave."""
        async with asyncio.timeout(patience):
            while not (found := condition()):
                if self.ended.is_set():
                    raise AssertionError(f"the host has ended: {self.complaints}")
                await self._news.wait()
        return found

    def bodies(self, kind: type[BodyType]) -> list[BodyType]:
        """Return the bodies of that kind of all events."""
        return [event.body for event in self.events if isinstance(event.body, kind)]

    async def event(self, kind: type[BodyType], *, count: int = 1) -> BodyType:
        """Wait for the ``count``-th event of a kind."""
        await self.until(lambda: len(self.bodies(kind)) >= count)
        return self.bodies(kind)[count - 1]

    async def status(self, session_id: str, status: str) -> None:
        """Wait until the session's row says so; subscribe to ``sessions`` first."""
        await self.until(lambda: session_id in self.rows and self.rows[session_id].status == status)

    # ----------------------------------------------------------------- sending

    def raw(self, data: bytes) -> None:
        """Send bytes."""
        self._write(data)

    def post(self, command: Command) -> "asyncio.Future[Answer]":
        """Send a command and return its answer to come."""
        self._next += 1
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._answers[self._next] = future
        self._write(encode(CommandFrame(id=self._next, command=command)))
        return future

    async def ask(self, command: Command) -> Answer:
        """Send a command and wait for its answer, whatever it is."""
        async with asyncio.timeout(PATIENCE):
            return await self.post(command)

    async def expect(self, command: Command, kind: type[AnswerType]) -> AnswerType:
        """Send a command that must be answered with this kind."""
        answer = await self.ask(command)
        assert isinstance(answer, kind), answer
        return answer

    async def refused(self, command: Command) -> Failed:
        """Send a command that must fail."""
        return await self.expect(command, Failed)

    def greet(self, hello: Hello | None = None) -> None:
        """Send the window's greeting."""
        self._write(encode(hello or Hello(version="test", language="en")))

    async def begin(self, *topics: str) -> None:
        """Greet and subscribe."""
        self.greet()
        for topic in topics:
            await self.ask(Subscribe(topic=topic))

    # ------------------------------------------------------------------ working

    async def new_session(self, folder: Path) -> OpenedSession:
        """Open a folder and begin a session in it."""
        project = (await self.expect(OpenProject(path=str(folder)), ProjectOpened)).project
        return (await self.expect(NewSession(project_id=project.id), SessionOpened)).opened

    async def submit(
        self, session_id: str, text: str, *, prompt_id: str = "", **more: Any
    ) -> PromptTaken:
        """Send a prompt that must be taken."""
        command = SubmitPrompt(
            session_id=session_id, prompt_id=prompt_id or os.urandom(8).hex(), text=text, **more
        )
        return await self.expect(command, PromptTaken)

    async def open(self, session_id: str) -> OpenedSession:
        """Show a session."""
        return (await self.expect(OpenSession(session_id=session_id), SessionOpened)).opened

    async def hide(self, session_id: str) -> None:
        """Hide a session."""
        await self.ask(HideSession(session_id=session_id))

    async def read_all(self, session_id: str) -> list[TranscriptMessage]:
        """Return all messages of a session, page by page."""
        from desktop.bridge.protocol import MessagesRead

        found: list[TranscriptMessage] = []
        while True:
            command = ReadMessages(session_id=session_id, first=len(found), count=1000)
            page = (await self.expect(command, MessagesRead)).page
            if not page.messages:
                return found
            found += page.messages


class RunningHost(HostClient):
    """The real host process; see ``running_host``."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None
        super().__init__(process.stdin.write)
        self.process = process
        self.errors = bytearray()
        self._reading = asyncio.create_task(self._read())
        self._listening = asyncio.create_task(self._listen())

    async def _read(self) -> None:
        assert self.process.stdout is not None
        while data := await self.process.stdout.read(1 << 16):
            self.feed(data)
        self.feed(b"")

    async def _listen(self) -> None:
        assert self.process.stderr is not None
        while data := await self.process.stderr.read(1 << 16):
            self.errors += data

    def kill(self) -> None:
        """Kill the process at once (kill -9)."""
        self.process.kill()

    def close(self) -> None:
        """Close its standard input, as a window that has gone does."""
        assert self.process.stdin is not None
        self.process.stdin.close()

    async def end(self, *, patience: float = 6.0) -> int:
        """Wait for its end and return its exit code."""
        async with asyncio.timeout(patience):
            code = await self.process.wait()
            await self._reading
            await self._listening
        return code

    async def aclose(self) -> None:
        """Kill it if it still runs, and let go of everything."""
        with contextlib.suppress(ProcessLookupError):
            if self.process.returncode is None:
                if sys.platform == "win32":
                    self.process.kill()
                else:
                    os.killpg(self.process.pid, signal.SIGKILL)
        await self.process.wait()
        await self._reading
        await self._listening
        transport: Any = getattr(self.process, "_transport", None)
        if transport is not None:
            transport.close()


@asynccontextmanager
async def running_host(home: Path, **variables: str) -> AsyncIterator[RunningHost]:
    """Start the real host for a user with this home folder; killed at the end of the block."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-P",
        "-m",
        "desktop.host",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=environment(home, variables),
        cwd=home,
        start_new_session=True,
    )
    host = RunningHost(process)
    try:
        yield host
    finally:
        await host.aclose()


def texts(messages: list[TranscriptMessage]) -> list[str]:
    """Return the text of each message."""
    from agent_sdk.events.wire import TextPart

    return [
        "".join(part.text for part in message.parts if isinstance(part, TextPart))
        for message in messages
    ]


def body_kinds(events: list[Event]) -> list[type[EventBody]]:
    """Return the kinds of the events, in order."""
    return [type(event.body) for event in events]


class MemoryChannel:
    """The host's end of a channel within one process (``channel.Channel``).

    Attributes:
        stalled: While set, nothing that the host sends is taken.
    """

    def __init__(self) -> None:
        self.incoming: asyncio.Queue[bytes] = asyncio.Queue()
        self.flowing = asyncio.Event()
        self.flowing.set()
        self.deliver: Callable[[bytes], None] = lambda data: None

    async def receive(self) -> bytes:
        return await self.incoming.get()

    async def send(self, data: bytes) -> bool:
        await self.flowing.wait()
        self.deliver(data)
        return True

    async def aclose(self) -> None:
        self.deliver(b"")


class LocalHost(HostClient):
    """A host in this process; see ``local_host``."""

    def __init__(self, channel: MemoryChannel) -> None:
        super().__init__(channel.incoming.put_nowait)
        self.channel = channel
        channel.deliver = self.feed

    def close(self) -> None:
        """Go, as a window does."""
        self.channel.incoming.put_nowait(b"")


@asynccontextmanager
async def local_host(home: Path, **variables: str) -> AsyncIterator[LocalHost]:
    """Run the host in this process, over a channel in memory; closed at the end of the block."""
    from agent_sdk.host import Redactor, load_registry, secret_variables
    from desktop.host.__main__ import Program
    from desktop.host.composition import Surroundings

    environ = environment(home, variables)
    registry = load_registry(None)
    names = secret_variables(registry)
    channel = MemoryChannel()
    around = Surroundings(
        paths=DataPaths(home / "data"),
        environ={name: value for name, value in environ.items() if name not in names},
        secrets={name: environ[name] for name in names if name in environ},
        user_dir=home / ".zpi" / "agent",
        registry=registry,
        epoch="epoch",
        ids=RandomIds(),
        clock=SystemClock(),
    )
    program = Program(around=around, redactor=Redactor(), channel=channel, hard_end=lambda _: None)
    host = LocalHost(channel)
    life = asyncio.create_task(program.run())
    try:
        yield host
    finally:
        channel.flowing.set()
        host.close()
        async with asyncio.timeout(PATIENCE):
            await life
