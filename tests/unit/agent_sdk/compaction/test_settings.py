"""Settings of compaction are checked when they are made."""

from typing import Any

import pytest

from agent_sdk.compaction.settings import CompactionSettings
from agent_sdk.core.errors import InvalidInput
from agent_sdk.providers.models import Model


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("reserve_tokens", -1),
        ("reserve_tokens", 1.5),
        ("keep_recent_tokens", "many"),
        ("protected_queries", 0),
        ("protected_queries", True),
        ("tool_protected_queries", -1),
        ("max_session_queries", 7),
    ],
)
def test_what_is_out_of_range_is_named(field: str, value: Any) -> None:
    with pytest.raises(InvalidInput, match=f"'{field}' is {value!r}"):
        CompactionSettings(**{field: value})


def test_zero_is_a_value() -> None:
    settings = CompactionSettings(reserve_tokens=0, tool_protected_queries=0)
    assert settings.limit(Model(id="m", provider="p", api="local", context_window=9_000)) == 9_000


def test_the_reserve_leaves_a_small_window_its_use() -> None:
    model = Model(id="m", provider="p", api="openai-completions", context_window=8_000)
    assert CompactionSettings().limit(model) == 6_000
    assert CompactionSettings().kept(model) == 2_000


def test_an_embedded_model_is_not_asked_by_itself() -> None:
    assert not CompactionSettings().automatic(Model(id="m", provider="p", api="local"))
    other = Model(id="m", provider="p", api="openai-completions")
    assert CompactionSettings().automatic(other)
    assert not CompactionSettings(enabled=False).automatic(other)


def test_overrides_are_checked_too() -> None:
    settings = CompactionSettings(max_session_queries=8)
    assert settings.protecting(queries=2, tool_queries=1).protected_queries == 2
    assert settings.protecting(queries=9).max_session_queries is None
    with pytest.raises(InvalidInput, match="protected_queries"):
        settings.protecting(queries=0)
