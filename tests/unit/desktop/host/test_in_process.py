"""The whole host in this process, over a channel in memory: what pipes cannot show."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agent_sdk.events.wire import PartDelta, PartUpdated, TextPart
from agent_sdk.testing.mock_server import MockScript, MockServer
from agent_sdk.testing.mock_wire import MockTurn
from desktop.bridge.messages import HostState, SettingsState
from desktop.bridge.protocol import ChangeSettings, Done, MessagesRead, ReadMessages
from desktop.host import channel as channel_module
from tests.support.host import LocalHost, local_host, texts

LONG = "word " * 40_000


@pytest.fixture
async def home(tmp_path: Path) -> Path:
    (tmp_path / "project").mkdir()
    return tmp_path


async def finished(server: MockServer) -> None:
    while server._owner.running:
        await asyncio.sleep(0.01)


async def begun(host: LocalHost, home: Path) -> str:
    await host.begin("host", "sessions", "settings", "queue")
    return (await host.new_session(home / "project")).session.id


def mocked(server: MockServer) -> dict[str, str]:
    return {
        "ZPI_API_TYPE": "openai-completions",
        "ZPI_BASE_URL": f"{server.url}/v1",
        "ZPI_MODEL": "mock",
        "ZPI_API_KEY": "sk-test-0001",
    }


@pytest.fixture
async def server() -> AsyncIterator[MockServer]:
    script = MockScript(turns=(MockTurn(text=LONG, deltas=600, rate=800),))
    async with MockServer(script) as server:
        yield server


async def test_window_that_lags_gets_snapshots_and_the_whole_text(
    home: Path, server: MockServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(channel_module, "MAX_QUEUED", 16 * 1024)
    async with local_host(home, **mocked(server)) as host:
        session = await begun(host, home)
        await host.submit(session, "Speak.")
        await host.event(PartDelta)
        host.channel.flowing.clear()
        await asyncio.sleep(0.5)
        host.channel.flowing.set()
        await host.status(session, "idle")
        messages = host.views[session].page(0, 10).messages
        assert texts(list(messages)) == ["Speak.", LONG]
        sent = sum(len(body.text) for body in host.bodies(PartDelta))
        assert sent < len(LONG)
        snapshots = [
            event
            for event in host.events
            if isinstance(event.body, PartUpdated)
            and isinstance(event.body.part, TextPart)
            and event.seq == 0
        ]
        assert snapshots
    await finished(server)


async def test_large_answers_come_in_chunks(home: Path, server: MockServer) -> None:
    async with local_host(home, **mocked(server)) as host:
        session = await begun(host, home)
        await host.submit(session, "Speak.")
        await host.status(session, "idle")
        assert texts(await host.read_all(session)) == ["Speak.", LONG]
        behind = ReadMessages(session_id=session, first=99, count=5)
        assert (await host.expect(behind, MessagesRead)).page.messages == ()
    await finished(server)


async def test_damaged_files_of_the_user_are_told_and_keep_nothing_from_working(
    home: Path, server: MockServer
) -> None:
    folder = home / ".zpi" / "agent"
    folder.mkdir(parents=True)
    (folder / "settings.json").write_text("{")
    async with local_host(home, **mocked(server)) as host:
        session = await begun(host, home)
        settings = host.states[SettingsState]
        assert isinstance(settings, SettingsState)
        assert [problem.code for problem in settings.problems] == ["settings_damaged"]
        (folder / "settings.json").write_text("{}")
        await host.submit(session, "Speak.")
        await host.status(session, "idle")
    await finished(server)


async def test_settings_change_by_revision_and_hold_for_new_sessions(home: Path) -> None:
    async with local_host(home) as host:
        await begun(host, home)
        before = host.states[SettingsState]
        assert isinstance(before, SettingsState)
        change = ChangeSettings(revision=before.revision, permission_mode="plan")
        await host.expect(change, Done)
        assert (await host.refused(change)).error.code == "invalid_input"
        opened = await host.new_session(home / "project")
        assert opened.permission_mode == "plan"
        state = host.states[HostState]
        assert isinstance(state, HostState)
        assert state.data_dir == str(home / "data")
        assert state.notices == ()
