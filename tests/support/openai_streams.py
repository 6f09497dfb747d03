"""What tests of the two OpenAI decoders share: requests, answers, hand-made chunks."""

import json
from collections.abc import Iterable

from agent_sdk.providers.base import Decoder, ModelRequest, StreamDone, StreamFailed
from agent_sdk.providers.messages import AssistantMessage, Message, TextBlock, UserMessage
from agent_sdk.providers.models import Api, Model
from agent_sdk.providers.openai_chat import OpenAIChatAdapter
from agent_sdk.providers.openai_responses import OpenAIResponsesAdapter
from agent_sdk.testing.conformance import check_stream_contract
from tests.support.streams import play

CHAT: Api = "openai-completions"
RESPONSES: Api = "openai-responses"


def request(api: Api, *earlier: AssistantMessage) -> ModelRequest:
    model = Model(id="m", provider="p", api=api)
    messages: list[Message] = [UserMessage(content=(TextBlock("hi"),)), *earlier]
    return ModelRequest(model=model, messages=messages, thinking_level="high")


def decoder(api: Api, *earlier: AssistantMessage) -> Decoder:
    adapter = OpenAIChatAdapter() if api == CHAT else OpenAIResponsesAdapter()
    return adapter.decoder(request(api, *earlier))


def answer(api: Api, data: bytes, *earlier: AssistantMessage) -> AssistantMessage:
    events = play(decoder(api, *earlier), [data])
    check_stream_contract(events)
    assert isinstance(events[-1], StreamDone), events[-1]
    return events[-1].message


def failure(api: Api, data: bytes) -> StreamFailed:
    events = play(decoder(api), [data])
    check_stream_contract(events)
    assert isinstance(events[-1], StreamFailed), events[-1]
    return events[-1]


def chunk(delta: dict[str, object], finish: str | None = None, **more: object) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    body = {"id": "c", "model": "x", "choices": [choice], **more}
    return b"data: " + json.dumps(body).encode() + b"\n\n"


def call(index: int | None, call_id: str, name: str, arguments: object) -> dict[str, object]:
    made: dict[str, object] = {"function": {"name": name, "arguments": arguments}}
    if index is not None:
        made["index"] = index
    if call_id:
        made["id"] = call_id
    return {"tool_calls": [made]}


def joined(parts: Iterable[bytes]) -> bytes:
    return b"".join(parts) + b"data: [DONE]\n\n"
