import json
from typing import Any

import msgspec
import pytest

from agent_sdk.providers.base import ModelRequest, PromptSection, StreamDone, ToolSpec
from agent_sdk.providers.convert import NO_IMAGE, NO_RESULT
from agent_sdk.providers.messages import (
    AssistantMessage,
    Block,
    DocumentBlock,
    ImageBlock,
    Json,
    Message,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    UserMessage,
)
from agent_sdk.providers.models import Model
from agent_sdk.providers.openai_responses import OpenAIResponsesAdapter
from tests.support.streams import play, recorded

PNG: Json = {"type": "base64", "media_type": "image/png", "data": "iVBORw0="}
REASONING: Json = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"}


def model(base_url: str = "", **more: Any) -> Model:
    return Model(id="m", provider="p", api="openai-responses", base_url=base_url, **more)


def user(*content: Block | str) -> UserMessage:
    return UserMessage(content=tuple(TextBlock(c) if isinstance(c, str) else c for c in content))


def answer(*content: Block | str, by: Model | None = None) -> AssistantMessage:
    made = by or model()
    return AssistantMessage(
        content=tuple(TextBlock(c) if isinstance(c, str) else c for c in content),
        api=made.api,
        provider=made.provider,
        model=made.id,
        stop_reason="end_turn",
    )


def encode(*messages: Message, to: Model | None = None, **more: Any) -> Json:
    request = ModelRequest(model=to or model(), messages=list(messages), **more)
    data = OpenAIResponsesAdapter().encode(request)
    body: Json = json.loads(data.decode("utf-8"))
    assert data == msgspec.json.encode(body)
    return body


def test_the_smallest_request() -> None:
    said = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]}
    assert encode(user("hi")) == {"model": "m", "stream": True, "store": False, "input": [said]}


def test_addresses_and_headers() -> None:
    adapter = OpenAIResponsesAdapter()
    assert adapter.url(model()) == "https://api.openai.com/v1/responses"
    assert adapter.url(model("http://localhost:1234")) == "http://localhost:1234/v1/responses"
    assert adapter.headers(model(), "key")["authorization"] == "Bearer key"
    assert "authorization" not in adapter.headers(model(), "")


def test_a_whole_conversation() -> None:
    call = ToolUseBlock("call_1", "read", {"path": "ü"}, providerState={"id": "fc_1"})
    body = encode(
        user("a"),
        answer(
            ThinkingBlock("why", providerState=REASONING),
            TextBlock("Reading.", {"id": "msg_1", "phase": "commentary"}),
            call,
        ),
        user(ToolResultBlock("call_1", "content")),
        user("and now"),
        system=(PromptSection("one", "You are."), PromptSection("two", "Be kind.")),
        tools=(ToolSpec("read", "Reads.", {"type": "object"}),),
    )
    assert body["instructions"] == "You are.\n\nBe kind."
    assert body["tools"] == [
        {
            "type": "function",
            "name": "read",
            "description": "Reads.",
            "parameters": {"type": "object"},
            "strict": False,
        }
    ]
    assert body["input"][1:] == [
        REASONING,
        {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "Reading.", "annotations": []}],
            "id": "msg_1",
            "phase": "commentary",
        },
        {
            "type": "function_call",
            "call_id": "call_1",
            "name": "read",
            "arguments": '{"path":"ü"}',
            "id": "fc_1",
        },
        {"type": "function_call_output", "call_id": "call_1", "output": "content"},
        {
            "type": "message",
            "role": "user",
            "content": [{"type": "input_text", "text": "and now"}],
        },
    ]


@pytest.mark.parametrize(
    "by",
    [
        Model(id="other", provider="p", api="openai-responses"),
        Model(id="m", provider="other", api="openai-responses"),
        Model(id="m", provider="p", api="openai-completions"),
    ],
)
def test_reasoning_and_ids_go_back_only_to_the_model_that_made_them(by: Model) -> None:
    said = answer(
        ThinkingBlock("why", providerState=REASONING),
        TextBlock("a", {"id": "msg_1", "phase": "commentary"}),
        ToolUseBlock("call_1", "read", providerState={"id": "fc_1"}),
        by=by,
    )
    items = encode(said)["input"]
    assert [i["type"] for i in items] == ["message", "function_call", "function_call_output"]
    assert all("id" not in i and "phase" not in i for i in items)


def test_ids_are_left_out_when_their_reasoning_cannot_go_back() -> None:
    lost = ThinkingBlock("why", providerState={"type": "reasoning", "id": "rs_1"})
    call = ToolUseBlock("call_1", "read", providerState={"id": "fc_1"})
    items = encode(answer(lost, call))["input"]
    assert [i["type"] for i in items] == ["function_call", "function_call_output"]
    assert "id" not in items[0]


def test_reasoning_that_nothing_came_of_is_left_out() -> None:
    kept = ThinkingBlock("", providerState=REASONING)
    items = encode(user("a"), answer(TextBlock("b"), kept), user("c"))["input"]
    assert [i["type"] for i in items] == ["message"] * 3


def test_a_lost_result_is_made_up_and_says_so() -> None:
    items = encode(answer(ToolUseBlock("call_1", "read")), user("b"))["input"]
    assert items[1] == {"type": "function_call_output", "call_id": "call_1", "output": NO_RESULT}


def test_what_was_received_is_sent_back_as_it_came() -> None:
    data = recorded("openai_responses")["reasoning_and_calls"]
    request = ModelRequest(model=model(), messages=())
    adapter = OpenAIResponsesAdapter()
    done = play(adapter.decoder(request), [data])[-1]
    assert isinstance(done, StreamDone)
    final = next(
        json.loads(line[6:])["response"]["output"]
        for line in data.split(b"\n")
        if line.startswith(b'data: {"type":"response.completed"')
    )
    sent = encode(user("a"), done.message)["input"][1:5]
    assert sent[0] == final[0]
    assert [i.get("id") for i in sent] == [i["id"] for i in final]
    assert sent[1]["phase"] == final[1]["phase"]
    assert sent[2]["arguments"] == final[2]["arguments"]


def test_images_in_results_and_messages() -> None:
    seeing = model(modalities=("image",))
    image = {"type": "input_image", "image_url": "data:image/png;base64,iVBORw0=", "detail": "auto"}
    items = encode(
        answer(ToolUseBlock("call_1", "shot"), by=seeing),
        user(ToolResultBlock("call_1", (TextBlock("here"), ImageBlock(PNG)))),
        user(ImageBlock(PNG)),
        to=seeing,
    )["input"]
    assert items[1]["output"] == [{"type": "input_text", "text": "here"}, image]
    assert items[2]["content"] == [image]
    blind = encode(answer(ToolUseBlock("1", "s")), user(ToolResultBlock("1", (ImageBlock(PNG),))))
    assert blind["input"][1]["output"] == NO_IMAGE


def test_documents() -> None:
    reading = model(modalities=("document",))
    pdf = DocumentBlock({"type": "base64", "data": "JVBERi0="}, title="a.pdf")
    link = DocumentBlock({"type": "url", "url": "https://x/y.pdf"})
    assert encode(user(pdf, link), to=reading)["input"][0]["content"] == [
        {
            "type": "input_file",
            "filename": "a.pdf",
            "file_data": "data:application/pdf;base64,JVBERi0=",
        },
        {"type": "input_file", "file_url": "https://x/y.pdf"},
    ]


@pytest.mark.parametrize(
    ("thinking", "level", "reasoning"),
    [
        ({"high": "high"}, "", None),
        ({"high": "high"}, "high", {"effort": "high", "summary": "auto"}),
        ({"max": "xhigh"}, "max", {"effort": "xhigh", "summary": "auto"}),
        ({"high": "high"}, "off", None),
        ({"off": "none"}, "off", {"effort": "none"}),
        ({}, "off", None),
    ],
)
def test_reasoning_levels(
    thinking: dict[str, str], level: str, reasoning: dict[str, str] | None
) -> None:
    body = encode(user("a"), to=model(thinking=thinking), thinking_level=level)
    assert body.get("reasoning") == reasoning
    wanted = ["reasoning.encrypted_content"] if thinking else None
    assert body.get("include") == wanted


def test_limits_caching_and_schema() -> None:
    schema = {"type": "object"}
    body = encode(user("a"), max_tokens=3, session_id="s" * 80, output_schema=schema)
    assert body["max_output_tokens"] == 16
    assert body["prompt_cache_key"] == "s" * 64
    assert body["text"] == {
        "format": {"type": "json_schema", "name": "answer", "schema": schema, "strict": False}
    }
    other = encode(user("a"), to=model("http://localhost:1"), max_tokens=300, session_id="s")
    assert other["max_output_tokens"] == 300
    assert "prompt_cache_key" not in other


def test_extra_fields_win() -> None:
    body = encode(user("a"), extra={"store": True, "temperature": 0.5})
    assert body["store"] is True


def test_history_is_kept_and_still_right() -> None:
    adapter = OpenAIResponsesAdapter()
    messages: list[Message] = [user("go")]
    for turn in range(10):
        call = ToolUseBlock(f"call_{turn}", "read", {"n": turn})
        messages += [answer(f"turn {turn}", call), user(ToolResultBlock(call.id, "x" * turn))]
        for to in (model(), model(modalities=("image",))) if turn == 5 else (model(),):
            request = ModelRequest(model=to, messages=list(messages))
            assert adapter.encode(request) == OpenAIResponsesAdapter().encode(request)


def test_lone_surrogates_are_replaced() -> None:
    body = encode(user("x\ud800y"))
    assert body["input"][0]["content"][0]["text"] == "x\ufffdy"
