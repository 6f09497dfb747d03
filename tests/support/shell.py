"""A whole window without a host, and the states to fill it with."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from msgspec import structs
from PySide6.QtCore import QSettings, Qt
from PySide6.QtWidgets import QLabel, QWidget

from agent_sdk.events.wire import MessageInfo, SessionInfo, TextPart
from desktop.bridge.messages import (
    KeyStoreInfo,
    ModelsState,
    ModelView,
    OpenedSession,
    ProjectInfo,
    ProjectsState,
    ProviderView,
    SessionRow,
    SessionsState,
    SessionStatusKind,
    SettingsState,
    TranscriptMessage,
    TranscriptPage,
)
from desktop.bridge.protocol import (
    NewSession,
    OpenProject,
    OpenSession,
    ProjectOpened,
    SessionOpened,
)
from desktop.gui.icons import Icons
from desktop.gui.main_window import MainWindow
from desktop.gui.state import ShellState
from desktop.gui.theme import Theme
from desktop.gui.window_settings import WindowSettings
from tests.support.fake_bridge import FakeBridge

PROJECT = ProjectInfo(id="p1", path="/home/ann/shop", name="shop")
OTHER = ProjectInfo(id="p2", path="/home/ann/notes", name="notes")
SONNET = ModelView(
    key="anthropic/claude-sonnet-5-5",
    name="Claude Sonnet 5.5",
    provider="anthropic",
    ready=True,
    context_window=1_000_000,
    thinking=("low", "medium", "high"),
)
GPT = ModelView(key="openai/gpt-6", name="GPT-6", provider="openai", ready=False)
EMBEDDED = ModelView(
    key="local/smollm2-135m-instruct",
    name="SmolLM2 135M (embedded)",
    provider="local",
    ready=True,
    local=True,
)
ANTHROPIC = ProviderView(
    name="anthropic",
    api="anthropic-messages",
    base_url="https://api.anthropic.com",
    models=("claude-sonnet-5-5",),
)
OPENAI = ProviderView(
    name="openai", api="openai-responses", base_url="https://api.openai.com/v1", models=("gpt-6",)
)
LOCAL = ProviderView(
    name="local",
    api="local",
    base_url="",
    source="keyless",
    needs_key=False,
    models=("smollm2-135m-instruct",),
)
KEYRING = KeyStoreInfo(mode="keyring")


def models(
    *,
    key: str = "stored",
    default: str = SONNET.key,
    store: KeyStoreInfo = KEYRING,
) -> ModelsState:
    """All models, with or without a key of Anthropic's."""
    ready = key != "none"
    return ModelsState(
        models=(
            SONNET
            if ready
            else ModelView(key=SONNET.key, name=SONNET.name, provider="anthropic", ready=False),
            GPT,
            EMBEDDED,
        ),
        providers=(
            ProviderView(
                name=ANTHROPIC.name,
                api=ANTHROPIC.api,
                base_url=ANTHROPIC.base_url,
                models=ANTHROPIC.models,
                source="environment" if key == "environment" else "stored" if ready else "none",
            ),
            OPENAI,
            LOCAL,
        ),
        key_store=store,
        default=default if ready else "",
    )


def locked_models() -> ModelsState:
    """All models; Anthropic's key is stored, and waits for its passphrase."""
    unlocked = models(store=KeyStoreInfo(mode="locked", locked_by="passphrase"))
    locked = tuple(structs.replace(each, ready=each.local) for each in unlocked.models)
    return structs.replace(unlocked, models=locked)


def row(
    name: str,
    *,
    status: SessionStatusKind = "idle",
    minutes: int = 5,
    unread: bool = False,
    title: str = "",
    project_id: str = "p1",
    problem: str = "",
) -> SessionRow:
    """A session that was used some minutes ago."""
    when = datetime.now(UTC) - timedelta(minutes=minutes)
    return SessionRow(
        id=name,
        project_id=project_id,
        title=title or f"Session {name}",
        status=status,
        last_used=when.isoformat(timespec="milliseconds"),
        unread=unread,
        problem=problem,
    )


def opened(
    of: SessionRow, *, model: str = SONNET.key, prompts: tuple[str, ...] = ()
) -> OpenedSession:
    """What opening a session gives."""
    messages = tuple(
        TranscriptMessage(
            info=MessageInfo(id=f"m{n}", session_id=of.id, role="user", origin="human"),
            parts=(TextPart(id=f"m{n}.0", text=text),),
        )
        for n, text in enumerate(prompts)
    )
    return OpenedSession(
        session=SessionInfo(id=of.id, workspace=PROJECT.path),
        row=of,
        count=len(messages),
        sizes=tuple(len(text) for text in prompts),
        page=TranscriptPage(first=0, messages=messages),
        seq=0,
        epoch="e1",
        model=model,
    )


class FakeChat:
    """A page of a transcript that shows nothing."""

    def __init__(self) -> None:
        self._label = QLabel("transcript")
        self._label.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self.shown: list[OpenedSession | None] = []

    def widget(self) -> QWidget:
        return self._label

    def show_session(self, opened: OpenedSession) -> None:
        self.shown.append(opened)

    def clear(self) -> None:
        self.shown.append(None)


@dataclass
class Shell:
    """A window with all that stands behind it."""

    window: MainWindow
    bridge: FakeBridge
    state: ShellState
    chat: FakeChat
    settings: WindowSettings
    theme: Theme

    def start(self, *rows: SessionRow, models_state: ModelsState | None = None) -> None:
        """Let the host tell of one project with these sessions."""
        self.bridge.publish(
            ProjectsState(projects=(PROJECT, OTHER)),
            models_state or models(),
            SettingsState(revision=1),
            SessionsState(rows=rows, reset=True),
        )


def shell(*, bridge: FakeBridge, theme: Theme, store: QSettings) -> Shell:
    """Return a window that nothing has been told to yet; sessions open when asked for."""
    state = ShellState(bridge=bridge)
    settings = WindowSettings(store=store)
    chat = FakeChat()

    def open_session(command: OpenSession) -> SessionOpened:
        return SessionOpened(opened=opened(state.sessions[command.session_id], prompts=("Hello",)))

    def new_session(command: NewSession) -> SessionOpened:
        number = len(bridge.of(NewSession))
        fresh = SessionRow(id=f"new{number}", project_id=command.project_id, title="")
        return SessionOpened(opened=opened(fresh, model=""))

    bridge.script[OpenSession] = open_session
    bridge.script[NewSession] = new_session
    bridge.script[OpenProject] = ProjectOpened(project=PROJECT)
    window = MainWindow(
        bridge=bridge, state=state, icons=Icons(theme=theme), settings=settings, chat=chat
    )
    return Shell(
        window=window, bridge=bridge, state=state, chat=chat, settings=settings, theme=theme
    )
