"""What is sent to Messages: addresses, headers and bodies."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_sdk.core.errors import InvalidInput
from agent_sdk.providers.anthropic import AnthropicAdapter
from agent_sdk.providers.base import ModelRequest, PromptSection, ToolSpec
from agent_sdk.providers.convert import NO_DOCUMENT, NO_IMAGE, NO_RESULT, NOT_LOADED, encode_json
from agent_sdk.providers.messages import (
    AssistantMessage,
    Block,
    DocumentBlock,
    ImageBlock,
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

MODEL = Model(
    id="claude-x", provider="anthropic", api="anthropic-messages", modalities=("image", "document")
)
BUDGETS = Model(
    id="b",
    provider="anthropic",
    api="anthropic-messages",
    max_output=20_000,
    thinking={"low": "2048", "high": "16384"},
    thinking_style="budget",
)
ADAPTIVE = Model(
    id="a",
    provider="anthropic",
    api="anthropic-messages",
    thinking={"low": "low", "xhigh": "extra"},
    thinking_style="adaptive",
)
MARK = {"type": "ephemeral"}
PNG = {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}


def user(*blocks: Block | str) -> UserMessage:
    return UserMessage(content=tuple(TextBlock(b) if isinstance(b, str) else b for b in blocks))


def said(
    *blocks: Block | str, model: Model = MODEL, stop: StopReason = "end_turn"
) -> AssistantMessage:
    return AssistantMessage(
        content=tuple(TextBlock(b) if isinstance(b, str) else b for b in blocks),
        api=model.api,
        provider=model.provider,
        model=model.id,
        stop_reason=stop,
    )


def call(name: str, **fields: Any) -> ToolUseBlock:
    return ToolUseBlock(name, "read", fields)


def body(
    *messages: Message,
    model: Model = MODEL,
    adapter: AnthropicAdapter | None = None,
    **options: Any,
) -> Any:
    request = ModelRequest(model=model, messages=messages or (user("hi"),), **options)
    return json.loads((adapter or AnthropicAdapter()).encode(request))


def messages(*sent: Message, model: Model = MODEL) -> list[tuple[str, Any]]:
    return [(m["role"], m["content"]) for m in body(*sent, model=model)["messages"]]


def text(value: str) -> dict[str, str]:
    return {"type": "text", "text": value}


# ------------------------------------------------------------------ envelope


@pytest.mark.parametrize(
    ("base", "url"),
    [
        ("", "https://api.anthropic.com/v1/messages"),
        ("https://api.anthropic.com", "https://api.anthropic.com/v1/messages"),
        ("https://api.anthropic.com/v1/", "https://api.anthropic.com/v1/messages"),
        ("https://api.deepseek.com/anthropic", "https://api.deepseek.com/anthropic/v1/messages"),
    ],
)
def test_urls(base: str, url: str) -> None:
    model = Model(id="m", provider="p", api="anthropic-messages", base_url=base)
    assert AnthropicAdapter().url(model) == url


def test_headers() -> None:
    headers = AnthropicAdapter().headers(MODEL, "key")
    assert headers.pop("user-agent").startswith("zpi/")
    assert headers == {
        "content-type": "application/json",
        "accept": "text/event-stream",
        "anthropic-version": "2023-06-01",
        "x-api-key": "key",
    }
    bearer = Model(id="m", provider="p", api="anthropic-messages", compat={"auth": "bearer"})
    headers = AnthropicAdapter().headers(bearer, "token")
    assert headers["authorization"] == "Bearer token"
    assert "x-api-key" not in headers
    assert not {"x-api-key", "authorization"} & set(AnthropicAdapter().headers(MODEL, ""))


def test_the_smallest_request() -> None:
    assert body(user("hi")) == {
        "model": "claude-x",
        "max_tokens": MODEL.max_output,
        "stream": True,
        "messages": [{"role": "user", "content": [text("hi")]}],
    }


def test_a_full_request() -> None:
    tools = (
        ToolSpec("read", "Reads.", {"type": "object", "properties": {"path": {"type": "string"}}}),
        ToolSpec("any", "Odd.", {"anyOf": [{}], "properties": {}}),
    )
    sent = body(
        user("one"),
        said("two"),
        user("three", ImageBlock(PNG)),
        system=(PromptSection("a", "You are."), PromptSection("b", ""), PromptSection("c", "Be.")),
        tools=tools,
        session_id="s",
        max_tokens=500,
        output_schema={"type": "object"},
        extra={"temperature": 0.5, "max_tokens": 600},
    )
    assert sent == {
        "model": "claude-x",
        "max_tokens": 600,
        "stream": True,
        "output_config": {"format": {"type": "json_schema", "schema": {"type": "object"}}},
        "system": [text("You are."), {**text("Be."), "cache_control": MARK}],
        "tools": [
            {
                "name": "read",
                "description": "Reads.",
                "input_schema": {"type": "object", "properties": {"path": {"type": "string"}}},
            },
            {
                "name": "any",
                "description": "Odd.",
                "input_schema": {"type": "object", "properties": {}},
                "cache_control": MARK,
            },
        ],
        "messages": [
            {"role": "user", "content": [{**text("one"), "cache_control": MARK}]},
            {"role": "assistant", "content": [text("two")]},
            {
                "role": "user",
                "content": [
                    text("three"),
                    {"type": "image", "source": PNG, "cache_control": MARK},
                ],
            },
        ],
        "temperature": 0.5,
    }


def test_extra_messages_replace_the_conversation() -> None:
    assert body(user("a"), extra={"messages": []})["messages"] == []
    assert body(user("a"), extra={"messages": [1, 2]})["messages"] == [1, 2]


@pytest.mark.parametrize(
    "options", [{}, {"session_id": "s", "model": MODEL}], ids=["one-off", "server without"]
)
def test_no_marks_where_nobody_reads_the_cache(options: dict[str, Any]) -> None:
    if options:
        options["model"] = Model(
            id="m", provider="p", api="anthropic-messages", compat={"prompt_cache": False}
        )
    system = (PromptSection("a", "You are."),)
    sent = body(user("hi"), system=system, tools=(ToolSpec("t", "d", {}),), **options)
    assert "cache_control" not in json.dumps(sent)


# ----------------------------------------------------------------- messages


def test_neighbours_are_joined_results_first_in_the_order_of_the_calls() -> None:
    assert messages(
        user("go"),
        said("reading", call("c1", path="a"), call("c2"), stop="tool_use"),
        user(ToolResultBlock("c2", "two")),
        user("by the way"),
        user(ToolResultBlock("c1", (TextBlock("one"), ImageBlock(PNG)), is_error=False)),
        user("thanks"),
    ) == [
        ("user", [text("go")]),
        (
            "assistant",
            [
                text("reading"),
                {"type": "tool_use", "id": "c1", "name": "read", "input": {"path": "a"}},
                {"type": "tool_use", "id": "c2", "name": "read", "input": {}},
            ],
        ),
        (
            "user",
            [
                {
                    "type": "tool_result",
                    "tool_use_id": "c1",
                    "content": [text("one"), {"type": "image", "source": PNG}],
                },
                {"type": "tool_result", "tool_use_id": "c2", "content": "two"},
                text("by the way"),
                text("thanks"),
            ],
        ),
    ]


def test_a_call_without_a_result_gets_one() -> None:
    sent = messages(user("go"), said(call("c1"), stop="tool_use"), user("never mind"))
    assert sent[2] == (
        "user",
        [
            {
                "type": "tool_result",
                "tool_use_id": "c1",
                "content": NO_RESULT,
                "is_error": True,
            },
            text("never mind"),
        ],
    )
    assert messages(user("go"), said(call("c1"), stop="tool_use"))[2][0] == "user"


def test_a_failed_call_has_text_only_its_pictures_follow() -> None:
    result = ToolResultBlock("c1", (ImageBlock(PNG), TextBlock("oops")), is_error=True)
    empty = ToolResultBlock("c2", "", is_error=True)
    sent = messages(user("go"), said(call("c1"), call("c2")), user(result), user(empty))
    assert sent[2][1] == [
        {"type": "tool_result", "tool_use_id": "c1", "content": [text("oops")], "is_error": True},
        {
            "type": "tool_result",
            "tool_use_id": "c2",
            "content": "(no output)",
            "is_error": True,
        },
        {"type": "image", "source": PNG},
    ]


def test_reasoning_goes_back_to_the_same_model_only() -> None:
    thought: tuple[Block, ...] = (
        ThinkingBlock("hm", "sig"),
        ThinkingBlock("unsigned"),
        RedactedThinkingBlock("enc"),
        TextBlock("so"),
    )
    (_, own) = messages(user("go"), said(*thought), user("on"))[1]
    assert own == [
        {"type": "thinking", "thinking": "hm", "signature": "sig"},
        {"type": "redacted_thinking", "data": "enc"},
        text("so"),
    ]
    others = [
        Model(id="other", provider="anthropic", api="anthropic-messages"),
        Model(id="claude-x", provider="proxy", api="anthropic-messages"),
        Model(id="claude-x", provider="anthropic", api="openai-responses"),
    ]
    for other in others:
        assert messages(user("go"), said(*thought, model=other), user("on"))[1][1] == [text("so")]


def test_what_cannot_be_sent_is_left_out() -> None:
    assert messages(
        user("", "  \n", "go", OpaqueBlock({"type": "future"})),
        said(ThinkingBlock("cut", "s"), stop="aborted"),
        said("", stop="error"),
        user(" "),
        said("half an answ", OpaqueBlock({"type": "server_tool_use"}), stop="error"),
        user("on"),
    ) == [
        ("user", [text("go")]),
        ("assistant", [text("half an answ")]),
        ("user", [text("on")]),
    ]


def test_pictures_and_documents() -> None:
    blocks: tuple[Block, ...] = (
        ImageBlock({"type": "base64", "data": "AA"}),
        ImageBlock({"type": "url", "url": "https://x/y.png"}),
        ImageBlock({"type": "artifact", "sha256": "00"}),
        DocumentBlock({"type": "base64", "data": "AA"}, "T"),
        DocumentBlock({"type": "text", "data": "plain"}),
        DocumentBlock({"type": "artifact"}, "lost"),
    )
    assert messages(user(*blocks))[0][1] == [
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA"}},
        {"type": "image", "source": {"type": "url", "url": "https://x/y.png"}},
        text(NOT_LOADED),
        {
            "type": "document",
            "source": {"type": "base64", "media_type": "application/pdf", "data": "AA"},
            "title": "T",
        },
        {
            "type": "document",
            "source": {"type": "text", "media_type": "text/plain", "data": "plain"},
        },
        text(NOT_LOADED),
    ]
    blind = Model(id="b", provider="p", api="anthropic-messages")
    sent = messages(user(blocks[0], blocks[3]), model=blind)
    assert sent[0][1] == [text(NO_IMAGE), text(NO_DOCUMENT)]


def test_ids_fit_and_calls_keep_their_results() -> None:
    odd = "call_1|fc_abc/é" + "x" * 90
    sent = messages(user("go"), said(call(odd)), user(ToolResultBlock(odd, "r")))
    tool_id = sent[1][1][0]["id"]
    assert len(tool_id) <= 64
    assert tool_id.replace("_", "").isalnum()
    assert sent[2][1][0]["tool_use_id"] == tool_id


def test_strict_json() -> None:
    assert messages(user("a\ud83d b"))[0][1] == [text("a\ufffd b")]
    with pytest.raises(InvalidInput):
        body(user("hi"), extra={"x": object()})


# ---------------------------------------------------------------- reasoning


@pytest.mark.parametrize(
    ("model", "level", "options", "expected"),
    [
        (BUDGETS, "", {}, {}),
        (BUDGETS, "off", {}, {"thinking": {"type": "disabled"}}),
        (BUDGETS, "low", {}, {"thinking": {"type": "enabled", "budget_tokens": 2048}}),
        (
            BUDGETS,
            "high",
            {"thinking_budget": 5000},
            {"thinking": {"type": "enabled", "budget_tokens": 5000}},
        ),
        (
            BUDGETS,
            "high",
            {"max_tokens": 4000},
            {"thinking": {"type": "enabled", "budget_tokens": 2976}},
        ),
        (
            BUDGETS,
            "low",
            {"thinking_budget": 10},
            {"thinking": {"type": "enabled", "budget_tokens": 1024}},
        ),
        (BUDGETS, "high", {"max_tokens": 2000}, {}),
        (ADAPTIVE, "", {}, {}),
        (ADAPTIVE, "off", {}, {}),
        (
            ADAPTIVE,
            "xhigh",
            {},
            {
                "thinking": {"type": "adaptive", "display": "summarized"},
                "output_config": {"effort": "extra"},
            },
        ),
        (MODEL, "off", {}, {}),
        (MODEL, "high", {}, {}),
    ],
)
def test_reasoning(
    model: Model, level: str, options: dict[str, Any], expected: dict[str, Any]
) -> None:
    sent = body(user("hi"), model=model, thinking_level=level, **options)
    assert {k: v for k, v in sent.items() if k in {"thinking", "output_config"}} == expected


def test_reasoning_can_be_switched_off_where_the_model_has_a_word_for_it() -> None:
    model = Model(
        id="a",
        provider="p",
        api="anthropic-messages",
        thinking={"off": "disabled", "low": "low"},
        thinking_style="adaptive",
    )
    assert body(model=model, thinking_level="off")["thinking"] == {"type": "disabled"}


def test_a_budget_that_is_no_number_is_said_to_be_wrong() -> None:
    model = Model(
        id="m",
        provider="p",
        api="anthropic-messages",
        thinking={"low": "much"},
        thinking_style="budget",
    )
    with pytest.raises(InvalidInput, match=r"'much', not a number"):
        body(model=model, thinking_level="low")


def test_no_budget_while_calls_of_another_model_are_answered() -> None:
    def thinks(*blocks: Block, then: Message | None = None) -> bool:
        sent: list[Message] = [
            user("go"),
            said(*blocks, model=BUDGETS),
            user(ToolResultBlock("c", "r")),
        ]
        return "thinking" in body(
            *sent, *([then] if then else []), model=BUDGETS, thinking_level="low"
        )

    assert not thinks(call("c"))
    assert not thinks(TextBlock("t"), call("c"))
    assert thinks(ThinkingBlock("t", "sig"), call("c"))
    assert thinks(call("c"), then=user("a new question"))


# ------------------------------------------------------------- stable bytes


def test_what_was_sent_is_sent_again_to_the_byte() -> None:
    adapter = AnthropicAdapter()
    system, tools = (PromptSection("a", "You are."),), (ToolSpec("t", "d", {}),)
    history: list[Message] = []

    def sent() -> bytes:
        request = ModelRequest(
            model=MODEL, messages=tuple(history), system=system, tools=tools, session_id="s"
        )
        return adapter.encode(request).replace(b',"cache_control":{"type":"ephemeral"}', b"")

    before = b""
    for turn in range(8):
        history.append(user(f"question {turn}"))
        now = sent()
        assert now.startswith(before[: -len(b"]}")])
        history.append(said(f"reading {turn}", call(f"c{turn}")))
        history.append(user(ToolResultBlock(f"c{turn}", "r" * turn)))
        later = sent()
        assert later.startswith(now[: -len(b"]}")])
        history.append(said(f"answer {turn}"))
        before = later
    fresh = AnthropicAdapter().encode(
        ModelRequest(model=MODEL, messages=history, system=system, tools=tools, session_id="s")
    )
    assert fresh.replace(b',"cache_control":{"type":"ephemeral"}', b"") == sent()


def test_only_what_is_new_is_encoded(monkeypatch: pytest.MonkeyPatch) -> None:
    encoded: list[Any] = []

    def counting(value: Any) -> bytes:
        encoded.append(value)
        return encode_json(value)

    monkeypatch.setattr("agent_sdk.providers.anthropic.encode_json", counting)
    adapter = AnthropicAdapter()
    history: list[Message] = [user("go")]
    for n in range(50):
        history += [said(call(f"c{n}")), user(ToolResultBlock(f"c{n}", "r"))]
    body(*history, adapter=adapter)
    encoded.clear()
    history += [said(call("new")), user(ToolResultBlock("new", "r"))]
    body(*history, adapter=adapter)
    assert sum(isinstance(v, dict) for v in encoded) == 2


def test_another_model_or_history_is_encoded_afresh() -> None:
    adapter = AnthropicAdapter()
    first = said(ThinkingBlock("t", "sig"), TextBlock("x"))
    history: list[Message] = [user("go"), first, user("on")]
    other = Model(id="other", provider="anthropic", api="anthropic-messages")
    assert len(body(*history, adapter=adapter)["messages"][1]["content"]) == 2
    assert len(body(*history, adapter=adapter, model=other)["messages"][1]["content"]) == 1
    assert len(body(*history, adapter=adapter)["messages"][1]["content"]) == 2
    compacted = body(user("summary"), *history[2:], adapter=adapter)["messages"]
    assert [b["text"] for b in compacted[0]["content"]] == ["summary", "on"]


def test_at_most_four_marks_and_the_last_block_has_one() -> None:
    history: list[Message] = []
    for n in range(6):
        history += [
            user(f"q{n}"),
            said(f"a{n}", call(f"c{n}")),
            user(ToolResultBlock(f"c{n}", "r")),
        ]
        history.append(said("done"))
    sent = body(
        *history,
        user("last"),
        system=(PromptSection("a", "x"),),
        tools=(ToolSpec("t", "d", {}),),
        session_id="s",
    )
    assert json.dumps(sent).count("cache_control") == 4
    assert sent["messages"][-1]["content"][-1]["cache_control"] == MARK
    assert "cache_control" not in json.dumps(
        [m for m in sent["messages"] if m["role"] == "assistant"]
    )


TEXTS = st.text(max_size=6)
BLOCKS = st.one_of(
    TEXTS.map(TextBlock),
    st.builds(ThinkingBlock, TEXTS, TEXTS),
    st.sampled_from("abc").map(lambda c: ToolUseBlock(c, "t", {})),
    st.sampled_from("abc").map(lambda c: ToolResultBlock(c, "r")),
    st.just(ImageBlock(PNG)),
    st.just(OpaqueBlock({"type": "x"})),
)
CONVERSATIONS = st.lists(
    st.one_of(
        st.lists(BLOCKS, max_size=4).map(lambda b: user(*b)),
        st.lists(BLOCKS, max_size=4).map(lambda b: said(*b)),
    ),
    max_size=10,
)


@given(CONVERSATIONS)
def test_any_conversation_is_one_that_the_api_accepts(conversation: list[Message]) -> None:
    sent = body(user("start"), *conversation, session_id="s")["messages"]
    pending: list[str] = []
    for message in sent:
        assert message["content"]
        kinds = [b["type"] for b in message["content"]]
        assert all(b["text"].strip() for b in message["content"] if b["type"] == "text")
        if message["role"] == "assistant":
            assert not pending
            pending = [b["id"] for b in message["content"] if b["type"] == "tool_use"]
            assert not {"tool_result", "image"} & set(kinds)
        else:
            results = [b["tool_use_id"] for b in message["content"] if b["type"] == "tool_result"]
            assert kinds[: len(results)] == ["tool_result"] * len(results)
            assert results == pending
            pending = []
    assert not pending
