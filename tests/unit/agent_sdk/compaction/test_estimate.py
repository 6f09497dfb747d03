"""Estimates of tokens: scripts, blocks, and what a provider has measured."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_sdk.compaction.estimate import (
    IMAGE_TOKENS,
    context_tokens,
    message_tokens,
    system_tokens,
    text_tokens,
    tools_tokens,
)
from agent_sdk.core.usage import Usage
from agent_sdk.providers.base import PromptSection, ToolSpec
from agent_sdk.providers.messages import (
    DocumentBlock,
    ImageBlock,
    Message,
    OpaqueBlock,
    RedactedThinkingBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    UserMessage,
)
from agent_sdk.providers.models import Model
from tests.support.talks import SMALL, ask, got, say


@pytest.mark.parametrize(
    ("text", "least", "most"),
    [
        ("", 0, 0),
        ("The quick brown fox jumps over the lazy dog.", 9, 15),
        ("def f(x):\n    return x + 1\n", 7, 14),
        ("请把这个函数改成异步的，并补上测试。", 14, 22),
        ("Привет, как дела?", 5, 12),
        ("😀😀😀", 6, 9),
        ("改 foo.py", 2, 6),
    ],
)
def test_an_estimate_is_near_what_tokenizers_say(text: str, least: int, most: int) -> None:
    assert least <= text_tokens(text) <= most


@given(st.text(st.characters(), max_size=200), st.text(max_size=200))
def test_longer_text_never_has_fewer_tokens(one: str, two: str) -> None:
    both = text_tokens(one + two)
    assert both >= text_tokens(one)
    assert 0 <= both <= text_tokens(one) + text_tokens(two) + 2


def test_lone_surrogates_are_counted_too() -> None:
    assert text_tokens("a\ud800b") >= 1


def test_every_kind_of_block_counts() -> None:
    document = DocumentBlock({"type": "text", "data": "word " * 100})
    blocks = (
        TextBlock("x" * 100),
        ThinkingBlock("x" * 100),
        RedactedThinkingBlock("x" * 100),
        document,
        DocumentBlock({"type": "base64", "data": "x"}),
        ToolResultBlock("c", (TextBlock("x" * 100), ImageBlock({}))),
        OpaqueBlock({"type": "new", "text": "x" * 100}),
    )
    sizes = [message_tokens(UserMessage(content=(b,))) for b in blocks]
    assert all(size > 20 for size in sizes)
    assert sizes[3] > 100
    assert sizes[5] > IMAGE_TOKENS


def test_system_and_tools_count() -> None:
    assert system_tokens([PromptSection("a", "x" * 360)]) == 101
    assert tools_tokens([ToolSpec("read", "Reads a file.", {"type": "object"})]) > 10


# ------------------------------------------------------------------- measured

USAGE = Usage(input_tokens=500, output_tokens=100, cache_read_input_tokens=400)


def test_what_came_after_a_measured_answer_is_estimated() -> None:
    messages: list[Message] = [ask("x" * 9_000), say("", "c", usage=USAGE), got("c", "y" * 360)]
    tokens = context_tokens(messages, model=SMALL, system=[PromptSection("a", "x" * 999)])
    assert (tokens.measured, tokens.measured_at) == (1_000, 1)
    assert 100 <= tokens.estimated <= 120
    assert tokens.total == tokens.measured + tokens.estimated


def test_figures_from_before_a_compaction_do_not_count() -> None:
    messages: list[Message] = [ask("summary", "summary"), say("", "c", usage=USAGE), got("c")]
    tokens = context_tokens(messages, model=SMALL, fresh_from=3)
    assert (tokens.measured, tokens.measured_at) == (0, -1)
    assert tokens.estimated < 100


def test_figures_of_another_model_do_not_count() -> None:
    other = Model(id="other", provider="p", api="openai-completions")
    assert context_tokens([ask("a"), say("b", usage=USAGE)], model=other).measured == 0


def test_a_server_that_tells_only_its_output_has_not_measured() -> None:
    messages: list[Message] = [ask("a"), say("b", usage=Usage(output_tokens=7))]
    assert context_tokens(messages, model=SMALL).measured == 0


def test_without_figures_system_and_tools_are_estimated_too() -> None:
    bare = context_tokens([ask("a")], model=SMALL).total
    more = context_tokens([ask("a")], model=SMALL, system=[PromptSection("a", "x" * 360)]).total
    assert more == bare + 101
