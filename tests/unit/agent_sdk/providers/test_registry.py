import json
from pathlib import Path
from typing import Any

import pytest

from agent_sdk.core.errors import ModelNotFound, SettingsDamaged
from agent_sdk.providers.models import THINKING_LEVELS, clamp_thinking
from agent_sdk.providers.registry import ModelRegistry, load_registry


def with_file(tmp_path: Path, content: object) -> ModelRegistry:
    text = content if isinstance(content, str) else json.dumps(content)
    (tmp_path / "models.json").write_text(text, encoding="utf-8")
    return load_registry(tmp_path)


def provider(**fields: Any) -> dict[str, Any]:
    return {"base_url": "http://localhost:8000/v1", "api": "openai-completions", **fields}


def test_the_shipped_table_is_sound() -> None:
    registry = load_registry(None)
    keys = [model.key for model in registry.models]
    assert len(set(keys)) == len(keys)
    for model in registry.models:
        assert model.known
        assert 0 < model.max_output < model.context_window
        assert set(model.thinking) <= set(THINKING_LEVELS)
        assert bool(model.thinking) == bool(model.thinking_style)
        assert model.base_url.startswith("https://")
        assert not model.base_url.endswith("/")
        if model.prices.known:
            assert model.prices.output >= model.prices.input > 0
            assert model.prices.cache_read < model.prices.input
        if model.thinking_style == "budget":
            assert all(value.isdigit() for value in model.thinking.values())
        assert clamp_thinking("high", model) in {*model.thinking, "off"}
    for info in registry.providers:
        assert info.api_key_env
        assert info.models


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("anthropic/claude-opus-5-5", "anthropic/claude-opus-5-5"),
        ("claude-opus-5-5", "anthropic/claude-opus-5-5"),
        ("opus", "anthropic/claude-opus-5-5"),
        ("Sonnet", "anthropic/claude-sonnet-5-5"),
        ("haiku", "anthropic/claude-haiku-5-5"),
        ("claude-sonnet-4-5-20250929", "anthropic/claude-sonnet-4-5"),
        ("gpt-4.1", "openai/gpt-4.1"),
        ("openrouter/z-ai/glm-5.3", "openrouter/z-ai/glm-5.3"),
        ("z-ai/glm-5.3", "openrouter/z-ai/glm-5.3"),
    ],
)
def test_names(name: str, key: str) -> None:
    assert load_registry(None).find(name).key == key


def test_an_unknown_name_is_told_the_nearest_ones() -> None:
    with pytest.raises(ModelNotFound, match="'claude-opus-55'") as caught:
        load_registry(None).find("claude-opus-55")
    assert "claude-opus-5-5" in caught.value.hint
    with pytest.raises(ModelNotFound) as caught:
        load_registry(None).find("qqqqqqqq")
    assert "zpi models" in caught.value.hint


def test_a_name_of_several_models_lists_them(tmp_path: Path) -> None:
    registry = with_file(
        tmp_path,
        {
            "providers": {
                "here": provider(models=[{"id": "twin", "aliases": ["t"]}]),
                "there": provider(models=[{"id": "twin", "aliases": ["T"]}]),
            }
        },
    )
    for name in ("twin", "t"):
        with pytest.raises(ModelNotFound, match="several") as caught:
            registry.find(name)
        assert "here/twin, there/twin" in caught.value.hint
    assert registry.find("there/twin").provider == "there"


def test_no_file_is_fine_and_a_byte_order_mark_too(tmp_path: Path) -> None:
    assert load_registry(tmp_path).models == load_registry(None).models
    (tmp_path / "models.json").write_bytes(b"\xef\xbb\xbf{}")
    assert load_registry(tmp_path).models == load_registry(None).models


def test_the_users_file_adds_a_provider(tmp_path: Path) -> None:
    registry = with_file(
        tmp_path,
        {
            "providers": {
                "mine": provider(
                    title="Mine",
                    base_url="http://localhost:8000/v1/",
                    api_key_env="MY_KEY",
                    headers={"x-team": "blue"},
                    compat={"developer_role": True},
                    models=[
                        {
                            "id": "m",
                            "context_window": 9000,
                            "max_output": 1000,
                            "thinking": {"high": "on"},
                            "thinking_style": "effort",
                            "prices": {"input": 1.5},
                            "compat": {"stream_usage": False},
                        }
                    ],
                )
            }
        },
    )
    model = registry.find("mine/m")
    assert (model.api, model.base_url) == ("openai-completions", "http://localhost:8000/v1")
    assert model.compat == {"developer_role": True, "stream_usage": False}
    assert model.prices.input == 1.5
    info = registry.provider("mine")
    assert info
    assert info.api_key_env == ("MY_KEY",)
    assert info.headers == {"x-team": "blue"}
    assert registry.find("opus").provider == "anthropic", "what ships is still there"


def test_the_users_file_changes_single_fields(tmp_path: Path) -> None:
    registry = with_file(
        tmp_path,
        {
            "providers": {
                "anthropic": {
                    "base_url": "https://proxy.example",
                    "models": [
                        {"id": "claude-opus-5-5", "max_output": 5},
                        {"id": "claude-next", "context_window": 7},
                    ],
                }
            }
        },
    )
    opus = registry.find("opus")
    assert (opus.max_output, opus.context_window) == (5, 1_000_000)
    assert opus.base_url == "https://proxy.example"
    assert opus.prices.known
    assert registry.find("claude-next").context_window == 7
    assert registry.find("sonnet").max_output == 128_000
    info = registry.provider("anthropic")
    assert info
    assert info.api_key_env == ("ANTHROPIC_API_KEY",)
    assert info.models[0].id == "claude-next", "what the user adds is taken first"


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ('{"providers": {\n "a": {,}\n}}', "line 2, column 8"),
        ('{"providers": {"a": {"api"', "line 1"),
        ("\xff not json", "line 1, column 1"),
        ([1], "expected 'object', got 'array'"),
        ({"providers": [1]}, "'providers'"),
        ({"providers": {"a": 1}}, "'providers[...]': expected 'object', got 'int'"),
        ({"providers": {"a": {"api": "openai-completions"}}}, "missing required field 'base_url'"),
        ({"providers": {"a": provider(api="soap")}}, "'providers[...].api'"),
        ({"providers": {"a": provider(modells=[])}}, "unknown field 'modells'"),
        ({"providers": {"a": provider(models=[{"name": "x"}])}}, "missing required field 'id'"),
        ({"providers": {"a": provider(models=[{"id": 5}])}}, "models[0].id'"),
        ({"providers": {"a": provider(models={"id": "x"})}}, "models'"),
        ({"providers": {"a": provider(base_url="ftp://x")}}, "'ftp://x' is no web address"),
        ({"providers": {"a/b": provider()}}, "'providers.a/b'"),
        (
            {"providers": {"a": provider(models=[{"id": "x", "thinking": {"huge": "9"}}])}},
            "'huge' is no level",
        ),
        ({"extra": 1}, "unknown field 'extra'"),
    ],
)
def test_a_damaged_file_is_named_with_the_place(
    tmp_path: Path, content: object, expected: str
) -> None:
    with pytest.raises(SettingsDamaged) as caught:
        with_file(tmp_path, content)
    assert expected in str(caught.value)
    assert "models.json" in str(caught.value)
    assert "not changed" in caught.value.hint or "Levels" in caught.value.hint


@pytest.mark.parametrize("field", ["api_key", "apiKey", "key", "auth_token", "token", "API-KEY"])
def test_a_key_in_the_file_is_refused_and_not_repeated(tmp_path: Path, field: str) -> None:
    with pytest.raises(SettingsDamaged, match="is not allowed") as caught:
        with_file(tmp_path, {"providers": {"a": provider(**{field: "sk-canary-0123456789"})}})
    assert "environment variable" in caught.value.hint
    assert "canary" not in str(caught.value)


@pytest.mark.parametrize("header", ["Authorization", "x-api-key", "Cookie"])
def test_a_credential_in_a_header_is_refused(tmp_path: Path, header: str) -> None:
    with pytest.raises(SettingsDamaged, match="holds a credential") as caught:
        with_file(tmp_path, {"providers": {"a": provider(headers={header: "Bearer canary"})}})
    assert "canary" not in str(caught.value)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "models.json").mkdir()
    with pytest.raises(SettingsDamaged, match="no ordinary file"):
        load_registry(tmp_path)
