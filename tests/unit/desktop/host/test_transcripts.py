"""Transcripts: live and replayed are the same, pages, sizes, what has gone."""

from agent_sdk.events.wire import (
    EventBody,
    MessageInfo,
    MessageUpdated,
    PartDelta,
    PartUpdated,
    TextPart,
    ToolPart,
    ToolRunning,
)
from agent_sdk.host import Projector, Record
from agent_sdk.providers.messages import (
    AssistantMessage,
    Origin,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
    UserMessage,
)
from agent_sdk.session.records import (
    KnownRecord,
    RewindRecord,
    RunRecord,
    assistant_record,
    user_record,
)
from agent_sdk.session.replay import Replay
from desktop.bridge.messages import TranscriptMessage
from desktop.host.transcripts import MAX_LIVE_OUTPUT, MAX_PAGE_MESSAGES, Transcript, replayed

SESSION = "s"


def begun(message_id: str = "r.1") -> list[EventBody]:
    info = MessageInfo(id=message_id, session_id=SESSION, role="assistant")
    part = TextPart(id=f"{message_id}.0")
    return [
        MessageUpdated(message=info),
        PartUpdated(session_id=SESSION, message_id=message_id, part=part),
    ]


def delta(text: str, part_id: str = "r.1.0") -> PartDelta:
    return PartDelta(session_id=SESSION, message_id="r.1", part_id=part_id, text=text)


def applied(*bodies: EventBody) -> Transcript:
    transcript = Transcript()
    for body in bodies:
        transcript.apply(body)
    return transcript


def only(transcript: Transcript) -> TranscriptMessage:
    (message,) = transcript.page(0, 10).messages
    return message


def test_deltas_are_joined_and_a_snapshot_replaces_them() -> None:
    transcript = applied(*begun(), delta("one "), delta("two"))
    assert only(transcript).parts == (TextPart(id="r.1.0", text="one two"),)
    assert transcript.sizes() == (7,)
    transcript.apply(delta("!"))
    assert transcript.part("r.1", "r.1.0") == TextPart(id="r.1.0", text="one two!")
    whole = TextPart(id="r.1.0", text="all")
    transcript.apply(PartUpdated(session_id=SESSION, message_id="r.1", part=whole))
    assert only(transcript).parts == (whole,)
    assert transcript.sizes() == (3,)


def test_finished_message_keeps_the_parts_that_it_names_in_their_order() -> None:
    late = TextPart(id="r.1.1", text="b")
    info = MessageInfo(
        id="r.1",
        session_id=SESSION,
        role="assistant",
        finished=True,
        part_ids=("r.1.1", "r.1.0"),
    )
    gone = TextPart(id="r.1.2", text="gone")
    transcript = applied(
        *begun(),
        PartUpdated(session_id=SESSION, message_id="r.1", part=late),
        PartUpdated(session_id=SESSION, message_id="r.1", part=gone),
        MessageUpdated(message=info),
    )
    assert [part.id for part in only(transcript).parts] == ["r.1.1", "r.1.0"]


def test_answer_of_which_nothing_came_goes() -> None:
    info = MessageInfo(id="r.1", session_id=SESSION, role="assistant", finished=True)
    assert applied(*begun(), MessageUpdated(message=info)).count == 0


def test_live_output_is_kept_to_its_end() -> None:
    part = ToolPart(id="r.1.0", call_id="c", tool="bash", state=ToolRunning(output="x"))
    transcript = applied(
        *begun(),
        PartUpdated(session_id=SESSION, message_id="r.1", part=part),
        delta("y" * MAX_LIVE_OUTPUT),
    )
    shown = transcript.part("r.1", "r.1.0")
    assert isinstance(shown, ToolPart)
    assert isinstance(shown.state, ToolRunning)
    assert shown.state.output == "y" * MAX_LIVE_OUTPUT


def test_delta_of_an_unknown_part_changes_nothing() -> None:
    transcript = applied(*begun(), delta("x", part_id="other"))
    assert only(transcript).parts == (TextPart(id="r.1.0"),)
    assert transcript.part("r.1", "other") is None
    assert transcript.part("nobody", "r.1.0") is None


# ------------------------------------------------------------------------ replay


def stored(*drafts: KnownRecord) -> list[Record]:
    import msgspec

    return [msgspec.structs.replace(d, uuid=f"u{at}") for at, d in enumerate(drafts)]


def said(text: str, prompt_id: str = "") -> KnownRecord:
    origin = Origin("human", prompt_id or None)
    return user_record(UserMessage(content=(TextBlock(text),), origin=origin))


def answered(text: str, *calls: ToolUseBlock) -> KnownRecord:
    return assistant_record(
        AssistantMessage(
            content=(TextBlock(text), *calls),
            api="anthropic-messages",
            provider="p",
            model="m",
            stop_reason="tool_use" if calls else "end_turn",
        )
    )


def a_run(number: int) -> list[KnownRecord]:
    call = ToolUseBlock(id=f"c{number}", name="read", input={"file_path": "a"})
    result = ToolResultBlock(tool_use_id=call.id, content="text")
    return [
        RunRecord(event="start", run_id=f"r{number}"),
        said(f"prompt {number}", f"p{number}"),
        answered("I look.", call),
        user_record(
            UserMessage(content=(result,)), details={"call": {"ran": True, "seconds": 0.25}}
        ),
        answered(f"answer {number}"),
        RunRecord(event="end", run_id=f"r{number}", status="completed"),
    ]


def at_once(records: list[Record]) -> tuple[TranscriptMessage, ...]:
    """Return the messages by the plain fold, without reading run by run."""
    transcript, replay, projector = Transcript(), Replay(), Projector(session_id=SESSION)
    for record in records:
        for event in replay.events(record):
            for change in projector.fold(event, 0.0):
                transcript.apply(change.body)
    return transcript.page(0, 10_000).messages


def test_reading_run_by_run_gives_the_same_as_the_plain_fold() -> None:
    records = stored(*(record for number in range(40) for record in a_run(number)))
    replay = replayed(SESSION, records, logged="")
    whole = at_once(records)
    assert replay.transcript.count == len(whole) == 120
    assert replay.transcript.tail().messages == whole[-MAX_PAGE_MESSAGES:]
    assert replay.transcript.page(7, 2).messages == whole[7:9]
    assert replay.transcript.page(0, 1000).messages == whole
    assert len(replay.transcript.sizes()) == 120
    assert replay.last_run is not None
    assert (replay.last_run.run_id, replay.last_run.status) == ("r39", "completed")
    assert replay.delivered == {f"p{n}": f"u{n * 6 + 1}" for n in range(40)}


def test_a_call_comes_back_with_what_was_shown_of_it() -> None:
    (_, answer, _) = replayed(SESSION, stored(*a_run(0)), logged="").transcript.tail().messages
    (part,) = (p for p in answer.parts if isinstance(p, ToolPart))
    assert part.state.__class__.__name__ == "ToolCompleted"
    assert getattr(part.state, "seconds", None) == 0.25
    assert getattr(part.state, "details", None) == {}


def test_what_the_log_was_not_told_is_made_up_for() -> None:
    records = stored(*a_run(0), *a_run(1))
    whole = replayed(SESSION, records, logged="u4").missing
    assert {change.record for change in whole if change.record} == {"u7", "u8", "u9", "u10"}
    assert replayed(SESSION, records, logged="u10").missing == ()
    assert replayed(SESSION, records, logged="").missing == ()
    assert replayed(SESSION, records, logged="unknown").missing == ()


def test_a_rewind_takes_messages_out_of_view() -> None:
    records = stored(*a_run(0), *a_run(1), RewindRecord(to_uuid="u5", reason="rewind"))
    assert replayed(SESSION, records, logged="").transcript.count == 3


def test_pages_are_bounded_and_hold_at_least_one() -> None:
    records = stored(*(said("x" * 200_000) for _ in range(4)))
    transcript = replayed(SESSION, records, logged="").transcript
    assert len(transcript.page(0, 10).messages) == 1
    tail = transcript.tail()
    assert (tail.first, len(tail.messages)) == (3, 1)
    assert transcript.page(99, 5).messages == ()
    assert transcript.page(0, -1).messages == ()
