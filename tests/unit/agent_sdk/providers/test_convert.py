import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_sdk.core.errors import InvalidInput
from agent_sdk.providers.base import ModelRequest, PromptSection
from agent_sdk.providers.convert import (
    clean_text,
    encode_json,
    endpoint,
    fresh_id,
    host_of,
    image_url,
    is_host,
    parse_arguments,
    stream_error,
    system_text,
    wire_id,
)
from agent_sdk.providers.models import Model

_ANY_TEXT = st.text(st.characters(codec=None, exclude_categories=()), max_size=20)


@given(
    st.recursive(
        _ANY_TEXT | st.integers() | st.none(), lambda x: st.lists(x) | st.dictionaries(_ANY_TEXT, x)
    )
)
def test_json_is_always_strict_utf8(value: object) -> None:
    json.loads(encode_json(value).decode("utf-8"))


def test_numbers_that_json_does_not_have_become_null() -> None:
    assert encode_json([float("nan"), float("inf")]) == b"[null,null]"


def test_values_that_are_no_json_are_refused() -> None:
    with pytest.raises(InvalidInput, match="JSON"):
        encode_json({"a": object()})


@given(_ANY_TEXT)
def test_clean_text_can_be_encoded_and_keeps_what_is_good(text: str) -> None:
    clean = clean_text(text)
    clean.encode()
    if not any("\ud800" <= c <= "\udfff" for c in text):
        assert clean == text


def test_a_surrogate_pair_in_two_halves_is_joined() -> None:
    assert clean_text("a\ud83d\ude80b\ud83d") == "a🚀b\ufffd"


@given(st.dictionaries(st.text(max_size=5), st.integers() | st.text(max_size=5), max_size=4))
def test_objects_are_read_and_their_beginnings_are_not(value: dict[str, object]) -> None:
    text = json.dumps(value)
    assert parse_arguments(text) == (value, "")
    for end in range(1, len(text)):
        read, wrong = parse_arguments(text[:end])
        assert (read, bool(wrong)) == ({}, True)


def test_nothing_means_no_arguments_unless_the_answer_was_cut() -> None:
    assert parse_arguments("") == ({}, "")
    assert parse_arguments(" ", cut=True)[1]


@given(_ANY_TEXT, st.sampled_from([40, 64]))
def test_ids_fit_the_wire(call_id: str, limit: int) -> None:
    made = wire_id(call_id, limit)
    assert 0 < len(made) <= limit
    assert made.isascii()
    assert made.replace("_", "").replace("-", "").isalnum() or not made.strip("_-")
    assert wire_id(made, limit) == made


def test_ids_stay_apart_when_they_are_cut() -> None:
    long = "x" * 100
    assert wire_id(long + "a") != wire_id(long + "b")
    assert wire_id("a|b") != wire_id("a_b") == "a_b"


def test_an_id_that_is_missing_is_made_of_its_place() -> None:
    request = ModelRequest(model=Model(id="m", provider="p", api="local"), messages=())
    assert fresh_id("", request, "r/0") == fresh_id("", request, "r/0")
    assert fresh_id("", request, "r/0") != fresh_id("", request, "r/1")
    assert fresh_id("call_1", request, "r/0") == "call_1"


@pytest.mark.parametrize(
    ("base", "url"),
    [
        ("https://api.openai.com/v1", "https://api.openai.com/v1/x/y"),
        ("https://api.openai.com/v1/", "https://api.openai.com/v1/x/y"),
        ("https://api.deepseek.com", "https://api.deepseek.com/v1/x/y"),
        ("http://127.0.0.1:11434", "http://127.0.0.1:11434/v1/x/y"),
        ("https://openrouter.ai/api/v1", "https://openrouter.ai/api/v1/x/y"),
        ("https://openrouter.ai/api", "https://openrouter.ai/api/v1/x/y"),
        ("https://z.ai/api/paas/v4", "https://z.ai/api/paas/v4/x/y"),
        ("https://g.com/v1beta/openai", "https://g.com/v1beta/openai/x/y"),
        ("https://h/v1/x/y", "https://h/v1/x/y"),
        (
            "https://a.azure.com/openai/v1?api-version=1",
            "https://a.azure.com/openai/v1/x/y?api-version=1",
        ),
        ("http://v1.example", "http://v1.example/v1/x/y"),
    ],
)
def test_base_urls_with_and_without_version(base: str, url: str) -> None:
    assert endpoint(base, "/x/y") == url


def test_hosts_are_compared_whole() -> None:
    assert host_of("https://user:pw@API.OpenAI.com:443/v1") == "api.openai.com"
    assert host_of("http://[::1]:80/v1") == "[::1]"
    assert is_host("https://api.openai.com/v1", "api.openai.com")
    assert is_host("https://eu.api.openai.com", "api.openai.com")
    assert not is_host("https://api.openai.com.evil.example", "api.openai.com")
    assert not is_host("https://evil.example/api.openai.com", "api.openai.com")


def test_images_become_addresses() -> None:
    assert (
        image_url({"type": "base64", "media_type": "image/gif", "data": "QQ"})
        == "data:image/gif;base64,QQ"
    )
    assert image_url({"type": "url", "url": "https://x/y.png"}) == "https://x/y.png"
    assert image_url({"type": "artifact", "sha256": "0"}) == ""


def test_empty_sections_are_left_out_of_the_prompt() -> None:
    assert (
        system_text([PromptSection("a", "A"), PromptSection("b", ""), PromptSection("c", "C")])
        == "A\n\nC"
    )


@pytest.mark.parametrize(
    ("code", "message", "kind", "retryable"),
    [
        ("rate_limit_exceeded", "Rate limit reached", "rate_limit", True),
        ("insufficient_quota", "You exceeded your current quota", "quota", False),
        ("overloaded_error", "Overloaded", "overloaded", True),
        ("server_error", "The server had an error", "http", True),
        ("502", "Provider returned error", "http", True),
        ("context_length_exceeded", "too many", "context_overflow", False),
        ("", "This model's maximum context length is 8192 tokens", "context_overflow", False),
        ("", "the request exceeds the available context size", "context_overflow", False),
        ("invalid_api_key", "no", "authentication", False),
        ("content_policy_violation", "no", "refused", False),
        ("invalid_prompt", "tools[0] is wrong", "invalid_request", False),
    ],
)
def test_errors_in_a_stream_get_a_kind(code: str, message: str, kind: str, retryable: bool) -> None:
    error = stream_error(code, message)
    assert (error.kind, error.retryable) == (kind, retryable)
    assert message in error.message


def test_a_servers_words_are_shortened() -> None:
    assert len(stream_error("x", "y" * 100_000).message) < 5_000
