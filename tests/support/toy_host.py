"""A host that does as it is told: for tests of the window's end of the channel.

It answers every command with ``Done``, except prompts, whose text says what
to do: ``die``, ``garbage``, ``strange``, ``silence``, ``flood N``, ``big``.
"""

import os
import sys

from agent_sdk.events.wire import Event, PartDelta
from desktop.bridge.frames import (
    PROTOCOL_VERSION,
    AnswerFrame,
    CommandFrame,
    EventFrame,
    FrameReader,
    Hello,
    StateFrame,
    encode,
)
from desktop.bridge.messages import HostState, ProjectInfo, ProjectsState, SettingsState
from desktop.bridge.protocol import (
    Answer,
    Done,
    PromptTaken,
    QueuedRemoved,
    RemoveQueued,
    Shutdown,
    SubmitPrompt,
    Subscribe,
)


def put(frame: object) -> None:
    os.write(1, encode(frame))  # type: ignore[arg-type]


def delta(n: int) -> EventFrame:
    body = PartDelta(session_id="s", message_id="m", part_id="p", text=str(n))
    return EventFrame(event=Event(seq=0, id=str(n), at="t", session_id="s", body=body))


def obey(frame: CommandFrame, text: str) -> None:
    word, _, rest = text.partition(" ")
    match word:
        case "die":
            os.kill(os.getpid(), 9)
        case "garbage":
            os.write(1, b"this is no frame\n")
        case "strange":
            os.write(1, b'{"frame":"state","version":1,"state":{"topic":"weather"}}\n')
        case "silence":
            return
        case "flood":
            for n in range(int(rest)):
                put(delta(n))
        case _:
            pass
    put(AnswerFrame(id=frame.id, answer=PromptTaken(prompt_id="p", became="running")))


def answer(command: object) -> Answer:
    if isinstance(command, RemoveQueued):
        return QueuedRemoved(text="字" * 300_000)
    return Done()


def main(protocol: int) -> None:
    reader = FrameReader()
    put(Hello(protocol=protocol, epoch=str(os.getpid()), version="toy"))
    while data := os.read(0, 65536):
        for frame in reader.feed(data):
            if not isinstance(frame, CommandFrame):
                continue
            command = frame.command
            if isinstance(command, SubmitPrompt):
                obey(frame, command.text)
                continue
            put(AnswerFrame(id=frame.id, answer=answer(command)))
            if isinstance(command, Subscribe):
                state = {
                    "projects": ProjectsState(projects=(ProjectInfo(id="1", path="/p", name="p"),)),
                    "settings": SettingsState(revision=1),
                }.get(command.topic, HostState(data_dir="/d"))
                put(StateFrame(version=1, state=state))  # type: ignore[arg-type]
            if isinstance(command, Shutdown):
                sys.exit(0)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else PROTOCOL_VERSION)
