"""The bridge against a host process of its own: greeting, commands, death and restart."""

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pytestqt.qtbot import QtBot

from desktop.bridge.client import Bridge
from desktop.bridge.messages import ProjectsState
from desktop.bridge.protocol import (
    Answer,
    Done,
    Failed,
    PromptTaken,
    QueuedRemoved,
    RemoveQueued,
    SubmitPrompt,
    Subscribe,
)

if TYPE_CHECKING:
    from agent_sdk.events.wire import Event

Make = Callable[..., Bridge]


@pytest.fixture
def make(qtbot: QtBot, tmp_path: Path) -> Iterator[Make]:
    made: list[Bridge] = []

    def make(*arguments: str) -> Bridge:
        bridge = Bridge(
            program=sys.executable,
            arguments=["-m", "tests.support.toy_host", *arguments],
            log_file=tmp_path / "host.log",
            version="1",
            language="en",
        )
        made.append(bridge)
        return bridge

    yield make
    for bridge in made:
        end(qtbot, bridge)


def end(qtbot: QtBot, bridge: Bridge) -> None:
    gone: list[bool] = []
    bridge.stop(lambda: gone.append(True))
    qtbot.waitUntil(lambda: bool(gone), timeout=15_000)


def ask(qtbot: QtBot, bridge: Bridge, command: object) -> Answer:
    got: list[Answer] = []
    bridge.send(command, got.append)  # type: ignore[arg-type]
    qtbot.waitUntil(lambda: bool(got), timeout=20_000)
    return got[0]


def prompt(text: str) -> SubmitPrompt:
    return SubmitPrompt(session_id="s", prompt_id="p", text=text)


def test_commands_given_before_the_greeting_are_answered_later(qtbot: QtBot, make: Make) -> None:
    bridge = make()
    states: list[object] = []
    bridge.state.connect(states.append)
    got: list[Answer] = []
    bridge.start()
    bridge.send(Subscribe(topic="projects"), got.append)
    bridge.send(prompt("hello"), got.append)
    assert got == []
    qtbot.waitUntil(lambda: len(got) == 2 and bool(states), timeout=20_000)
    assert [type(a) for a in got] == [Done, PromptTaken]
    assert isinstance(states[0], ProjectsState)
    assert bridge.epoch


def test_events_come_in_order_and_large_answers_whole(qtbot: QtBot, make: Make) -> None:
    bridge = make()
    seen: list[Event] = []
    bridge.wire_event.connect(seen.append)
    bridge.start()
    ask(qtbot, bridge, prompt("flood 5000"))
    assert [e.id for e in seen] == [str(n) for n in range(5000)]
    answer = ask(qtbot, bridge, RemoveQueued(session_id="s", prompt_id="p"))
    assert isinstance(answer, QueuedRemoved)
    assert answer.text == "字" * 300_000


@pytest.mark.parametrize("how", ["die", "garbage", "strange"])
def test_host_that_dies_or_breaks_the_protocol_is_told_and_started_again(
    qtbot: QtBot, make: Make, how: str
) -> None:
    bridge = make()
    states: list[object] = []
    lost: list[str] = []
    bridge.state.connect(states.append)
    bridge.host_lost.connect(lost.append)
    bridge.start()
    bridge.send(Subscribe(topic="projects"))
    qtbot.waitUntil(lambda: bool(states), timeout=20_000)
    first = bridge.epoch
    with qtbot.waitSignal(bridge.host_back, timeout=20_000):
        answer = ask(qtbot, bridge, prompt(how))
    if how == "die":
        assert isinstance(answer, Failed)
        assert answer.error.code == "host_lost"
    assert len(lost) == 1
    if how == "strange":
        assert "weather" in lost[0]
    qtbot.waitUntil(lambda: len(states) == 2, timeout=20_000)  # subscribed again by itself
    assert bridge.epoch != first
    with pytest.raises(ProcessLookupError):
        os.kill(int(first), 0)


def test_what_waits_for_a_host_that_died_fails(qtbot: QtBot, make: Make) -> None:
    bridge = make()
    bridge.start()
    ask(qtbot, bridge, prompt("hello"))
    got: list[Answer] = []
    bridge.send(prompt("silence"), got.append)
    bridge.send(prompt("die"), got.append)
    qtbot.waitUntil(lambda: len(got) == 2, timeout=20_000)
    assert all(isinstance(a, Failed) and a.error.code == "host_lost" for a in got)


def test_another_protocol_is_named_and_not_tried_again(qtbot: QtBot, make: Make) -> None:
    bridge = make("99")
    with qtbot.waitSignal(bridge.host_lost, timeout=20_000) as lost:
        bridge.start()
    assert "99" in lost.args[0]
    assert "not started again" in lost.args[0]
    qtbot.wait(300)
    got: list[Answer] = []
    bridge.send(prompt("x"), got.append)
    qtbot.waitUntil(lambda: bool(got), timeout=5_000)
    assert isinstance(got[0], Failed)


def test_program_that_is_not_there_is_told(qtbot: QtBot, tmp_path: Path) -> None:
    bridge = Bridge(
        program=str(tmp_path / "nothing"),
        arguments=[],
        log_file=tmp_path / "host.log",
        version="1",
        language="en",
    )
    with qtbot.waitSignal(bridge.host_lost, timeout=20_000) as lost:
        bridge.start()
    assert "could not be started" in lost.args[0]


def test_stop_ends_the_host(qtbot: QtBot, make: Make) -> None:
    bridge = make()
    bridge.start()
    ask(qtbot, bridge, prompt("hello"))
    pid = int(bridge.epoch)
    end(qtbot, bridge)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
