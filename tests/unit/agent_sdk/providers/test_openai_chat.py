import json
from typing import Any

import msgspec
import pytest

from agent_sdk.core.errors import InvalidInput
from agent_sdk.providers.base import ModelRequest, PromptSection, ToolSpec
from agent_sdk.providers.convert import NO_DOCUMENT, NO_IMAGE, NO_RESULT, NOT_LOADED
from agent_sdk.providers.messages import (
    AssistantMessage,
    Block,
    DocumentBlock,
    ImageBlock,
    Json,
    Message,
    OpaqueBlock,
    RedactedThinkingBlock,
    StopReason,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    UserMessage,
)
from agent_sdk.providers.models import Model
from agent_sdk.providers.openai_chat import OpenAIChatAdapter

LOCAL = "http://127.0.0.1:8000"
PNG: Json = {"type": "base64", "media_type": "image/png", "data": "iVBORw0="}


def model(base_url: str = LOCAL, **more: Any) -> Model:
    return Model(id="m", provider="p", api="openai-completions", base_url=base_url, **more)


def user(*content: Block | str) -> UserMessage:
    return UserMessage(content=tuple(TextBlock(c) if isinstance(c, str) else c for c in content))


def answer(
    *content: Block | str, by: Model | None = None, stop: StopReason = "end_turn"
) -> AssistantMessage:
    made = by or model()
    return AssistantMessage(
        content=tuple(TextBlock(c) if isinstance(c, str) else c for c in content),
        api=made.api,
        provider=made.provider,
        model=made.id,
        stop_reason=stop,
    )


def encode(*messages: Message, to: Model | None = None, **more: Any) -> Json:
    request = ModelRequest(model=to or model(), messages=list(messages), **more)
    data = OpenAIChatAdapter().encode(request)
    body: Json = json.loads(data.decode("utf-8"))
    assert data == msgspec.json.encode(body)  # compact, and no name twice
    return body


def test_the_smallest_request() -> None:
    assert encode(user("hi")) == {
        "model": "m",
        "stream": True,
        "stream_options": {"include_usage": True},
        "messages": [{"role": "user", "content": "hi"}],
    }


def test_addresses_and_headers() -> None:
    adapter = OpenAIChatAdapter()
    assert adapter.url(model()) == f"{LOCAL}/v1/chat/completions"
    assert adapter.url(model("")) == "https://api.openai.com/v1/chat/completions"
    assert adapter.headers(model(), "key")["authorization"] == "Bearer key"
    assert "authorization" not in adapter.headers(model(), "")


def test_a_whole_conversation() -> None:
    call = ToolUseBlock("call_1", "read", {"path": "ü"})
    body = encode(
        user("a"),
        user("b"),
        answer("Reading.", call, ToolUseBlock("call_2", "list")),
        user(ToolResultBlock("call_2", "x")),
        user(ToolResultBlock("call_1", "y")),
        user("and now"),
        system=(PromptSection("one", "You are."), PromptSection("two", "Be kind.")),
        tools=(ToolSpec("read", "Reads.", {"type": "object"}),),
    )
    assert body["messages"] == [
        {"role": "system", "content": "You are.\n\nBe kind."},
        {"role": "user", "content": "a\n\nb"},
        {
            "role": "assistant",
            "content": "Reading.",
            "tool_calls": [
                {
                    "id": "call_1",
                    "type": "function",
                    "function": {"name": "read", "arguments": '{"path":"ü"}'},
                },
                {
                    "id": "call_2",
                    "type": "function",
                    "function": {"name": "list", "arguments": "{}"},
                },
            ],
        },
        {"role": "tool", "tool_call_id": "call_1", "content": "y"},
        {"role": "tool", "tool_call_id": "call_2", "content": "x"},
        {"role": "user", "content": "and now"},
    ]
    assert body["tools"] == [
        {
            "type": "function",
            "function": {"name": "read", "description": "Reads.", "parameters": {"type": "object"}},
        }
    ]


def test_a_lost_result_is_made_up_and_says_so() -> None:
    body = encode(user("a"), answer(ToolUseBlock("call_1", "read")), user("b"))
    assert body["messages"][2:] == [
        {"role": "tool", "tool_call_id": "call_1", "content": NO_RESULT},
        {"role": "user", "content": "b"},
    ]


def test_answers_that_were_cut_before_anything_came_are_left_out() -> None:
    body = encode(user("a"), answer(ThinkingBlock("hm"), stop="aborted"), user("b"))
    assert body["messages"] == [{"role": "user", "content": "a\n\nb"}]


def test_what_a_cut_answer_said_is_kept() -> None:
    body = encode(user("a"), answer("half", stop="error"), user("b"))
    assert [m["content"] for m in body["messages"]] == ["a", "half", "b"]


def test_images_of_results_follow_the_batch() -> None:
    seeing = model(modalities=("image",))
    body = encode(
        answer(ToolUseBlock("1", "shot"), ToolUseBlock("2", "read")),
        user(ToolResultBlock("1", (TextBlock("a picture"), ImageBlock(PNG)))),
        user(ToolResultBlock("2", "text")),
        user("what is it?"),
        to=seeing,
    )
    first, second, third = body["messages"][1:]
    assert first["role"] == second["role"] == "tool"
    assert first["content"].startswith("a picture")
    assert third["role"] == "user"
    assert [p["type"] for p in third["content"]] == ["text", "image_url", "text"]
    assert third["content"][1]["image_url"]["url"] == "data:image/png;base64,iVBORw0="


@pytest.mark.parametrize(
    ("block", "modalities", "part"),
    [
        (ImageBlock(PNG), (), {"type": "text", "text": NO_IMAGE}),
        (
            ImageBlock({"type": "artifact", "sha256": "0"}),
            ("image",),
            {"type": "text", "text": NOT_LOADED},
        ),
        (
            ImageBlock({"type": "url", "url": "https://x/y.png"}),
            ("image",),
            {"type": "image_url", "image_url": {"url": "https://x/y.png"}},
        ),
        (DocumentBlock({"type": "text", "data": "plain"}), (), {"type": "text", "text": "plain"}),
        (
            DocumentBlock({"type": "base64", "data": "JVBERi0="}),
            ("image",),
            {"type": "text", "text": NO_DOCUMENT},
        ),
        (
            DocumentBlock({"type": "base64", "data": "JVBERi0="}, title="a.pdf"),
            ("document",),
            {
                "type": "file",
                "file": {
                    "filename": "a.pdf",
                    "file_data": "data:application/pdf;base64,JVBERi0=",
                },
            },
        ),
    ],
)
def test_images_and_documents(block: Block, modalities: tuple[str, ...], part: Json) -> None:
    body = encode(user("look", block), to=model(modalities=modalities))
    content = body["messages"][0]["content"]
    if part["type"] == "text":
        assert content == f"look\n\n{part['text']}"
    else:
        assert content == [{"type": "text", "text": "look"}, part]


def test_blocks_for_other_apis_are_left_out() -> None:
    body = encode(
        user("a", OpaqueBlock({"type": "new"})),
        answer("b", RedactedThinkingBlock("x"), OpaqueBlock({"type": "server_tool_use"})),
    )
    assert [m["content"] for m in body["messages"]] == ["a", "b"]


def test_lone_surrogates_are_replaced_everywhere() -> None:
    bad = "x\ud800y"
    body = encode(
        user(bad),
        answer(bad, ToolUseBlock("1", "t", {bad: [bad]})),
        user(ToolResultBlock("1", bad)),
        system=(PromptSection("s", bad),),
        tools=(ToolSpec("t", bad, {"type": "object", "title": bad}),),
    )
    assert "\ud800" not in json.dumps(body, ensure_ascii=False)
    assert body["messages"][0]["content"] == "x\ufffdy"


def test_ids_of_other_apis_are_fitted_on_both_sides() -> None:
    long = "call_" + "x" * 60 + "|fc_1"
    body = encode(answer(ToolUseBlock(long, "t")), user(ToolResultBlock(long, "ok")))
    sent = body["messages"][0]["tool_calls"][0]["id"]
    assert len(sent) <= 40
    assert body["messages"][1]["tool_call_id"] == sent


def test_reasoning_is_sent_back_only_where_the_server_wants_it_and_made_it() -> None:
    deepseek = model("https://api.deepseek.com")
    other = msgspec.structs.replace(deepseek, id="other")
    said: list[Block] = [ThinkingBlock("because"), TextBlock("yes")]
    own, foreign = encode(
        user("a"), answer(*said, by=deepseek), user("b"), answer(*said, by=other), to=deepseek
    )["messages"][1::2]
    assert own == {"role": "assistant", "content": "yes", "reasoning_content": "because"}
    assert foreign["reasoning_content"] == ""
    plain = encode(user("a"), answer(*said))["messages"][1]
    assert plain == {"role": "assistant", "content": "yes"}


OPENAI = model("https://api.openai.com/v1", thinking={"off": "none", "high": "high"})


@pytest.mark.parametrize(
    ("to", "level", "fields"),
    [
        (OPENAI, "", {}),
        (OPENAI, "high", {"reasoning_effort": "high"}),
        (OPENAI, "off", {"reasoning_effort": "none"}),
        (model(thinking={"high": "high"}), "off", {}),
        (model(), "high", {}),
        (
            model("https://openrouter.ai/api/v1", thinking={"high": "high"}),
            "high",
            {"reasoning": {"effort": "high"}},
        ),
        (
            model("https://openrouter.ai/api/v1", thinking={"off": "none"}),
            "off",
            {"reasoning": {"effort": "none"}},
        ),
        (
            model("https://api.deepseek.com", thinking={"max": "max"}, thinking_style="effort"),
            "max",
            {"thinking": {"type": "enabled"}, "reasoning_effort": "max"},
        ),
        (
            model("https://api.deepseek.com", thinking={"max": "max"}, thinking_style="effort"),
            "off",
            {"thinking": {"type": "disabled"}},
        ),
        (
            model("https://api.z.ai/api/paas/v4", thinking={"high": "high"}),
            "high",
            {"thinking": {"type": "enabled"}},
        ),
        (
            model("https://dashscope.aliyuncs.com/compatible-mode/v1", thinking={"high": "high"}),
            "off",
            {"enable_thinking": False},
        ),
        (
            model(thinking={"high": "high"}, compat={"thinking_format": "qwen_template"}),
            "high",
            {"chat_template_kwargs": {"enable_thinking": True}},
        ),
        (
            model("https://api.together.xyz/v1", thinking={"high": "high"}),
            "high",
            {"reasoning": {"enabled": True}},
        ),
        (model(thinking={"high": "high"}, compat={"thinking_format": "none"}), "high", {}),
    ],
)
def test_reasoning_is_asked_for_as_the_server_wants_it(to: Model, level: str, fields: Json) -> None:
    names = {"reasoning_effort", "reasoning", "thinking", "enable_thinking", "chat_template_kwargs"}
    body = encode(user("a"), to=to, thinking_level=level)
    assert {k: v for k, v in body.items() if k in names} == fields


def test_a_budget_is_sent_where_it_is_understood() -> None:
    url = "https://dashscope.aliyuncs.com/compatible-mode/v1"
    qwen = model(url, thinking={"high": "high"}, thinking_style="budget")
    body = encode(user("a"), to=qwen, thinking_level="high", thinking_budget=2048)
    assert (body["enable_thinking"], body["thinking_budget"]) == (True, 2048)


def test_what_only_openai_itself_gets() -> None:
    body = encode(
        user("a"),
        to=OPENAI,
        max_tokens=100,
        session_id="s" * 80,
        system=(PromptSection("s", "Be brief."),),
    )
    assert body["max_completion_tokens"] == 100
    assert body["prompt_cache_key"] == "s" * 64
    assert body["store"] is False
    assert body["messages"][0]["role"] == "developer"
    other = encode(
        user("a"), max_tokens=100, session_id="s", system=(PromptSection("s", "Be brief."),)
    )
    assert other["max_tokens"] == 100
    assert {"prompt_cache_key", "store", "max_completion_tokens"}.isdisjoint(other)
    assert other["messages"][0]["role"] == "system"


def test_compat_overrules_the_host() -> None:
    to = msgspec.structs.replace(
        OPENAI,
        compat={"developer_role": False, "stream_usage": False, "max_tokens_field": "max_tokens"},
    )
    body = encode(user("a"), to=to, max_tokens=1, system=(PromptSection("s", "x"),))
    assert body["messages"][0]["role"] == "system"
    assert body["max_tokens"] == 1
    assert "stream_options" not in body


@pytest.mark.parametrize("compat", [{"max_token_field": "x"}, {"thinking_format": "psychic"}])
def test_compat_that_is_not_understood_is_refused(compat: dict[str, str]) -> None:
    with pytest.raises(InvalidInput, match="p/m") as raised:
        encode(user("a"), to=model(compat=compat))
    assert "thinking_format" in raised.value.hint


def test_an_output_schema_is_asked_for() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string"}}}
    body = encode(user("a"), output_schema=schema)
    assert body["response_format"] == {
        "type": "json_schema",
        "json_schema": {"name": "answer", "schema": schema, "strict": False},
    }


def test_extra_fields_win() -> None:
    body = encode(user("a"), extra={"temperature": 0, "stream_options": {}})
    assert body["temperature"] == 0
    assert body["stream_options"] == {}
    assert encode(user("a"), extra={"messages": [1]})["messages"] == [1]


def test_a_conversation_may_be_empty() -> None:
    assert encode()["messages"] == []


def test_a_value_that_is_no_json_is_refused() -> None:
    with pytest.raises(InvalidInput):
        encode(user("a"), extra={"x": object()})


def test_history_is_encoded_once_and_still_right(monkeypatch: pytest.MonkeyPatch) -> None:
    adapter = OpenAIChatAdapter()
    messages: list[Message] = [user("go")]
    for turn in range(10):
        call = ToolUseBlock(f"call_{turn}", "read", {"n": turn})
        messages += [answer(f"turn {turn}", call), user(ToolResultBlock(call.id, "x" * turn))]
        request = ModelRequest(model=model(), messages=list(messages))
        assert adapter.encode(request) == OpenAIChatAdapter().encode(request)
    count = 0
    real = msgspec.json.Encoder.encode

    class Counting:
        def encode(self, value: object) -> bytes:
            nonlocal count
            count += isinstance(value, dict) and "role" in value
            return real(msgspec.json.Encoder(), value)

    monkeypatch.setattr("agent_sdk.providers.convert._ENCODER", Counting())
    messages += [answer("more", ToolUseBlock("last", "read")), user(ToolResultBlock("last", "y"))]
    adapter.encode(ModelRequest(model=model(), messages=list(messages)))
    assert count == 2


def test_another_model_gets_the_history_in_its_own_form() -> None:
    adapter = OpenAIChatAdapter()
    messages: list[Message] = [user("look", ImageBlock(PNG)), answer("ok"), user("and?")]
    blind, seeing = model(), model(modalities=("image",))
    for to in (blind, seeing, blind):
        request = ModelRequest(model=to, messages=messages)
        assert adapter.encode(request) == OpenAIChatAdapter().encode(request)
