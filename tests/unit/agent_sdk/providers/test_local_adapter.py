from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from agent_sdk.core.errors import InvalidInput
from agent_sdk.core.usage import Usage
from agent_sdk.providers.base import (
    ArgsDelta,
    BlockEnd,
    BlockStart,
    ModelRequest,
    StreamDone,
    StreamEvent,
    StreamFailed,
    StreamStart,
    TextDelta,
    ToolSpec,
)
from agent_sdk.providers.local_adapter import GGUF, LocalAdapter
from agent_sdk.providers.messages import TextBlock, ToolUseBlock, UserMessage
from agent_sdk.providers.models import Model

MODEL = Model(id="small", provider="local", api="local", context_window=4096, max_output=160)
BASH = ToolSpec(
    "bash",
    "Run a command.",
    {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]},
)


def ask(text: str = "list the files", **fields: Any) -> ModelRequest:
    given = {"model": MODEL, "tools": (BASH,), **fields}
    return ModelRequest(messages=[UserMessage(content=(TextBlock(text),))], **given)


def chunk(content: str | None = None, **fields: Any) -> bytes:
    choice = {"delta": {"content": content}, "finish_reason": fields.pop("finish", None)}
    return msgspec.json.encode({"id": "r1", "choices": [choice], **fields})


def run(
    parts: Sequence[str], *, finish: str = "stop", usage: bool = True, **fields: Any
) -> list[StreamEvent]:
    decoder = LocalAdapter().decoder(ask(**fields))
    sent = [chunk(part) for part in parts]
    sent.append(chunk(finish=finish))
    if usage:
        counts = {"prompt_tokens": 30, "completion_tokens": 7}
        details = {"prompt_tokens_details": {"cached_tokens": 20}}
        sent.append(msgspec.json.encode({"choices": [], "usage": {**counts, **details}}))
    events: list[StreamEvent] = []
    for data in [*sent, b"[DONE]"]:
        events += decoder.feed(b"", data)
    return events


def failed(events: Sequence[StreamEvent]) -> StreamFailed:
    last = events[-1]
    assert isinstance(last, StreamFailed)
    return last


def test_a_call_is_told_as_any_models_call() -> None:
    parts = ['{"name": "ba', 'sh", "arguments": {"comm', 'and": "ls"}', "}"]
    start, begin, one, two, end, done = run(parts)
    assert start == StreamStart("r1")
    assert isinstance(begin, BlockStart)
    assert (begin.index, begin.kind, begin.tool_name) == (0, "tool_use", "bash")
    assert (one, two) == (ArgsDelta(0, '{"comm'), ArgsDelta(0, 'and": "ls"}'))
    assert end == BlockEnd(0, ToolUseBlock(begin.tool_id, "bash", {"command": "ls"}))
    assert isinstance(done, StreamDone)
    assert done.message.stop_reason == "tool_use"
    assert done.message.usage == Usage(10, 7, cache_read_input_tokens=20)
    assert (done.message.api, done.message.provider) == ("local", "local")


def test_an_answer_is_told_while_it_grows() -> None:
    events = run(['{"name": "answer", "arguments": {"text": "Hel', "lo", ' you\\"', '"}}'])
    deltas = [e.text for e in events if isinstance(e, TextDelta)]
    assert deltas == ["Hel", "lo", ' you"']
    assert events[-2] == BlockEnd(0, TextBlock('Hello you"'))
    done = events[-1]
    assert isinstance(done, StreamDone)
    assert done.message.stop_reason == "end_turn"


def test_an_answer_that_ran_out_of_tokens_is_kept_and_said_to_be_cut() -> None:
    done = run(['{"name": "answer", "arguments": {"text": "and so on'], finish="length")[-1]
    assert isinstance(done, StreamDone)
    assert done.message.stop_reason == "max_tokens"
    assert done.message.text == "and so on"


def test_a_call_that_ran_out_of_tokens_is_never_run() -> None:
    done = run(['{"name": "bash", "arguments": {"command": "rm -r'], finish="length")[-1]
    assert isinstance(done, StreamDone)
    (call,) = done.message.tool_calls
    assert call.input_error
    assert done.message.stop_reason == "max_tokens"


def test_a_stream_without_its_end_is_a_failure() -> None:
    decoder = LocalAdapter().decoder(ask())
    decoder.feed(b"", chunk('{"name": "answer", "arguments": {"text": "Hel'))
    last = decoder.finish()
    assert isinstance(last, StreamFailed)
    assert last.error.kind == "incomplete"
    assert last.error.retryable
    assert last.partial is not None
    assert last.partial.text == "Hel"


def test_nothing_at_all_is_an_empty_answer() -> None:
    last = LocalAdapter().decoder(ask()).finish()
    assert isinstance(last, StreamFailed)
    assert last.error.kind == "empty"


def test_a_turn_that_stops_in_its_middle_is_a_failure() -> None:
    assert failed(run(['{"name": "bash", "arguments": {"comm'])).error.kind == "incomplete"


def test_what_the_grammar_does_not_allow_is_a_failure() -> None:
    events = run(["no JSON " * 400])
    assert any(isinstance(e, StreamFailed) and e.error.kind == "protocol" for e in events)


def test_an_error_in_the_stream_is_told() -> None:
    decoder = LocalAdapter().decoder(ask())
    said = {"error": {"code": 500, "message": "the context is full", "type": "server_error"}}
    last = failed(decoder.feed(b"error", msgspec.json.encode(said)))
    assert "the context is full" in last.error.message


def test_the_body_asks_for_a_constrained_stream() -> None:
    body = msgspec.json.decode(LocalAdapter().encode(ask(extra={"seed": 3})))
    assert body["stream"] is True
    assert body["stream_options"] == {"include_usage": True}
    assert body["response_format"]["type"] == "json_schema"
    assert body["temperature"] == 0
    assert body["max_tokens"] == 160
    assert body["seed"] == 3


def test_the_key_goes_into_a_header_and_no_connection_is_kept() -> None:
    headers = LocalAdapter().headers(MODEL, "k1")
    assert headers["authorization"] == "Bearer k1"
    assert headers["connection"] == "close"


def test_a_model_file_is_asked_in_the_other_way() -> None:
    own = msgspec.structs.replace(MODEL, compat={GGUF: "/m.gguf"})
    turn = LocalAdapter().turn(ask(model=own))
    assert "coding assistant" in turn.messages[0]["content"]


def test_no_message_is_no_request() -> None:
    with pytest.raises(InvalidInput):
        LocalAdapter().encode(ModelRequest(model=MODEL, messages=[]))
