"""What is entered about a provider is checked before it goes anywhere."""

import pytest

from desktop.bridge.messages import ErrorInfo
from desktop.bridge.protocol import ProviderTested
from desktop.gui.settings.provider_draft import ProviderDraft, steps_of
from tests.support.shell import ANTHROPIC


def own(**changes: str) -> ProviderDraft:
    values = {
        "name": "mine",
        "api": "openai-completions",
        "base_url": "https://models.example/v1",
        "key": "secret-key",
        "model": "big",
    }
    return ProviderDraft(known=None, **{**values, **changes})


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"key": ""},
        {"base_url": "http://localhost:8080/v1"},
        {"base_url": "http://127.0.0.1:8080"},
        {"base_url": "http://[::1]:8080"},
        {"base_url": "http://box.lan/v1", "key": ""},
        {"base_url": " https://models.example "},
        {"name": "a-b_c.1"},
    ],
)
def test_good_entries(changes: dict[str, str]) -> None:
    assert own(**changes).problem() == ""


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"name": ""}, "name"),
        ({"name": "Mine"}, "small letters"),
        ({"name": "a/b"}, "name"),
        ({"name": "我的"}, "name"),
        ({"name": "x" * 65}, "name"),
        ({"base_url": ""}, "https://"),
        ({"base_url": "models.example"}, "https://"),
        ({"base_url": "ftp://models.example"}, "https://"),
        ({"base_url": "https://"}, "https://"),
        ({"base_url": "https://[bad"}, "web address"),
        ({"base_url": "https://a b/v1"}, "https://"),
        ({"base_url": "https://ann:pw@models.example"}, "password"),
        ({"base_url": "http://models.example/v1"}, "unencrypted"),
        ({"key": "abc\x00def"}, "key"),
        ({"key": "abc\ndef"}, "key"),
        ({"model": "  "}, "model"),
    ],
)
def test_bad_entries_are_told(changes: dict[str, str], word: str) -> None:
    assert word in own(**changes).problem()


def test_a_name_is_taken_once() -> None:
    assert "already" in own().problem(taken=frozenset({"mine"}))


def preset(**changes: str) -> ProviderDraft:
    values = {
        "name": ANTHROPIC.name,
        "api": ANTHROPIC.api,
        "base_url": ANTHROPIC.base_url,
        "key": " sk-1 ",
        "model": ANTHROPIC.models[0],
    }
    return ProviderDraft(known=ANTHROPIC, **{**values, **changes})


def test_commands_carry_what_was_entered() -> None:
    saved = preset(model="claude-new").save()
    assert (saved.name, saved.api, saved.key) == ("anthropic", "anthropic-messages", "sk-1")
    assert saved.models == (*ANTHROPIC.models, "claude-new")
    assert preset().save().models == ANTHROPIC.models
    tried = preset().test()
    assert (tried.model, tried.key) == (ANTHROPIC.models[0], "sk-1")
    assert preset(model=" m ").model_key == "anthropic/m"


def test_an_empty_key_leaves_what_is_stored() -> None:
    assert preset(key="").save().key is None
    assert preset(key="").test().key is None


ERROR = ErrorInfo(code="provider", text="401: no such key", hint="Check the key.")


def test_a_test_is_told_step_by_step() -> None:
    failed = steps_of(ProviderTested(reached=False, answered=False, error=ERROR))
    assert [(step.good, step.hint) for step in failed] == [(False, "Check the key.")]
    assert "401: no such key" in failed[0].text
    half = steps_of(ProviderTested(reached=True, answered=False, error=ERROR))
    assert [step.good for step in half] == [True, False]
    whole = steps_of(ProviderTested(reached=True, answered=True, text="Hello\n there" + "!" * 200))
    assert [step.good for step in whole] == [True, True]
    assert "Hello there!" in whole[1].text
    assert len(whole[1].text) < 120
    assert len(steps_of(ProviderTested(reached=True, answered=True))) == 2
