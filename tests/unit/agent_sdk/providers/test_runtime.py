import subprocess
import sys
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from agent_sdk.core.errors import ConfigurationError, CredentialMissing, ModelNotFound
from agent_sdk.providers.base import ModelRequest, StreamEvent
from agent_sdk.providers.credentials import Credential
from agent_sdk.providers.endpoints import APIS, origin, secret_variables
from agent_sdk.providers.http_provider import HttpProvider
from agent_sdk.providers.models import Model
from agent_sdk.providers.registry import load_registry, parse_registry
from agent_sdk.providers.runtime import (
    ModelChoice,
    ModelRuntime,
    NothingAvailable,
    create_adapter,
)

REGISTRY = load_registry(None)
LOCAL = Model(id="tiny", provider="local", api="local")


def runtime(registry: Any = REGISTRY, **environ: str) -> ModelRuntime:
    """A runtime as the program makes it: secrets are taken out of the environment."""
    names = secret_variables(registry)
    secrets = {name: value for name, value in environ.items() if name in names}
    rest = {name: value for name, value in environ.items() if name not in names}
    return ModelRuntime(registry=registry, environ=rest, secrets=secrets)


def chosen(made: ModelRuntime, **names: Any) -> Model:
    found = made.choose(**names)
    assert isinstance(found, ModelChoice)
    return found.model


def test_secret_variables_name_every_key() -> None:
    names = secret_variables(REGISTRY)
    assert {
        *("ZPI_API_KEY", "ZPI_AUTH_TOKEN", "ZERONE_AGENT_API_KEY", "ZERONE_AGENT_AUTH_TOKEN"),
        *("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "OPENAI_API_KEY", "DEEPSEEK_API_KEY"),
        "OPENROUTER_API_KEY",
    } <= set(names)
    assert not any(name.endswith(("_URL", "_MODEL", "_TYPE")) for name in names)


# ------------------------------------------------------------------ order


def test_the_order_is_explicit_recorded_environment_settings_first() -> None:
    made = runtime(ANTHROPIC_API_KEY="a", OPENAI_API_KEY="o", ZPI_MODEL="opus")
    everything: dict[str, Any] = {
        "explicit": "haiku",
        "recorded": "openai/gpt-5",
        "configured": "sonnet",
    }
    found = []
    for name in ("explicit", "recorded", None, "configured", None):
        choice = made.choose(**everything)
        assert isinstance(choice, ModelChoice)
        found.append((choice.how, choice.model.id))
        if name:
            everything.pop(name)
        else:
            made = runtime(ANTHROPIC_API_KEY="a", OPENAI_API_KEY="o")
    assert found == [
        ("explicit", "claude-haiku-5-5"),
        ("recorded", "gpt-5"),
        ("environment", "claude-opus-5-5"),
        ("settings", "claude-sonnet-5-5"),
        ("first_available", "claude-sonnet-5-5"),
    ]


def test_first_available_goes_by_the_credentials() -> None:
    assert chosen(runtime(OPENAI_API_KEY="o")).provider == "openai"
    assert chosen(runtime(DEEPSEEK_API_KEY="d", OPENROUTER_API_KEY="r")).provider == "deepseek"


def test_with_nothing_at_all_the_caller_is_told() -> None:
    found = runtime().choose()
    assert isinstance(found, NothingAvailable)
    assert "ANTHROPIC_API_KEY" in found.variables
    assert "OPENAI_API_KEY" in found.hint


def test_an_empty_key_is_no_key() -> None:
    assert isinstance(runtime(ANTHROPIC_API_KEY="  ").choose(), NothingAvailable)


def test_offered_models_are_taken_when_nothing_else_is_there() -> None:
    made = runtime()
    made.offer([LOCAL])
    assert made.choose() == ModelChoice(LOCAL, "first_available")
    assert chosen(made, explicit="tiny") is LOCAL
    assert chosen(made, recorded="local/tiny") is LOCAL
    assert made.credential(LOCAL) == Credential("")
    assert (LOCAL, True) in made.available()

    with_key = runtime(ANTHROPIC_API_KEY="a")
    with_key.offer([LOCAL])
    assert chosen(with_key).provider == "anthropic"


# --------------------------------------------------------------- recorded


def test_a_recorded_model_that_is_gone_is_an_error_that_names_it() -> None:
    made = runtime(ANTHROPIC_API_KEY="a")
    for name in ("nowhere/model", "custom/mock", "local/tiny"):
        with pytest.raises(ModelNotFound, match=f"'{name}'") as caught:
            made.choose(recorded=name)
        assert "--model" in caught.value.hint
    with pytest.raises(CredentialMissing, match="'openai/gpt-5'") as missing:
        made.choose(recorded="openai/gpt-5")
    assert "OPENAI_API_KEY" in missing.value.hint
    assert "--model" in missing.value.hint
    assert chosen(made, explicit="opus", recorded="openai/gpt-5").provider == "anthropic"


def test_a_recorded_model_never_moves_to_another_server() -> None:
    made = runtime(ZPI_BASE_URL="https://proxy.example", ZPI_API_KEY="z", ANTHROPIC_API_KEY="a")
    model = chosen(made, recorded="anthropic/claude-opus-5")
    assert model.base_url == "https://api.anthropic.com"
    assert made.credential(model).key == "a"
    mock = chosen(made, recorded="custom/mock")
    assert (mock.id, mock.base_url) == ("mock", "https://proxy.example")


def test_a_recorded_model_that_only_its_provider_knows_is_found_again() -> None:
    made = runtime(OPENROUTER_API_KEY="r")
    model = chosen(made, explicit="openrouter/some/new-model")
    assert not model.known
    assert chosen(made, recorded=model.key) == model


# -------------------------------------------------------------- a base URL


@pytest.mark.parametrize("prefix", ["ZPI", "ZERONE_AGENT"])
def test_with_a_base_url_an_unknown_model_is_used_as_it_is(prefix: str) -> None:
    made = runtime(
        **{
            f"{prefix}_BASE_URL": "http://127.0.0.1:9000/",
            f"{prefix}_API_TYPE": "openai-completions",
            f"{prefix}_API_KEY": "z",
            f"{prefix}_MODEL": "mock-1",
        }
    )
    model = chosen(made)
    assert model == Model(
        id="mock-1",
        provider="custom",
        api="openai-completions",
        base_url="http://127.0.0.1:9000",
        known=False,
    )
    assert not model.prices.known
    assert made.credential(model).key == "z"


def test_what_the_table_knows_about_a_model_holds_at_a_custom_server() -> None:
    made = runtime(ZPI_BASE_URL="https://proxy.example", ZPI_API_KEY="z")
    model = chosen(made, explicit="sonnet")
    assert (model.provider, model.id, model.known) == ("custom", "claude-sonnet-5-5", True)
    assert model.context_window == 1_000_000
    assert model.base_url == "https://proxy.example"
    dated = chosen(made, explicit="claude-sonnet-4-5-20250929")
    assert dated.id == "claude-sonnet-4-5-20250929"
    listed = chosen(made, explicit="anthropic/claude-opus-5-5")
    assert listed.id == "anthropic/claude-opus-5-5", "the proxy's own name is kept"


@pytest.mark.parametrize(
    ("url", "model", "api", "base"),
    [
        ("http://h.example:1", "x", "anthropic-messages", "http://h.example:1"),
        ("http://h.example/v1", "x", "openai-completions", "http://h.example/v1"),
        ("http://h.example/v1/chat/completions", "x", "openai-completions", "http://h.example/v1"),
        ("http://h.example/v1/responses", "x", "openai-responses", "http://h.example/v1"),
        ("http://h.example/v1/messages", "x", "anthropic-messages", "http://h.example"),
        ("http://h.example/anthropic", "x", "anthropic-messages", "http://h.example/anthropic"),
        ("http://h.example", "gpt-4.1", "openai-responses", "http://h.example"),
        ("https://api.deepseek.com", "x", "openai-completions", "https://api.deepseek.com"),
        (
            "https://api.deepseek.com/anthropic",
            "deepseek-flash",
            "anthropic-messages",
            "https://api.deepseek.com/anthropic",
        ),
    ],
)
def test_the_api_is_detected(url: str, model: str, api: str, base: str) -> None:
    found = chosen(runtime(ZPI_BASE_URL=url, ZPI_API_KEY="z"), explicit=model)
    assert (found.api, found.base_url) == (api, base)


def test_the_api_type_is_explicit_then_environment_then_the_models() -> None:
    made = runtime(OPENAI_API_KEY="o")
    assert chosen(made, explicit="gpt-4.1").api == "openai-responses"
    assert chosen(made, explicit="gpt-4.1", api="openai-completions").api == "openai-completions"
    typed = runtime(ZPI_API_KEY="z", ZPI_API_TYPE="openai-completions", ANTHROPIC_API_KEY="a")
    assert chosen(typed).provider == "openai"
    assert chosen(typed, explicit="gpt-4.1").api == "openai-completions"
    assert chosen(typed, explicit="opus").api == "anthropic-messages"


def test_a_server_without_a_model_says_so() -> None:
    with pytest.raises(ConfigurationError, match="no model") as caught:
        runtime(ZPI_BASE_URL="http://127.0.0.1:9", ANTHROPIC_API_KEY="a").choose()
    assert "ZPI_MODEL" in caught.value.hint


@pytest.mark.parametrize(
    ("environ", "variable"),
    [
        ({"ZPI_BASE_URL": "127.0.0.1:9000"}, "ZPI_BASE_URL"),
        ({"ZPI_BASE_URL": "https://"}, "ZPI_BASE_URL"),
        ({"ZPI_BASE_URL": "https://h:99999999"}, "ZPI_BASE_URL"),
        ({"ZPI_BASE_URL": "https://user:canary@h.example"}, "ZPI_BASE_URL"),
        ({"ANTHROPIC_BASE_URL": "nonsense"}, "ANTHROPIC_BASE_URL"),
        ({"ZPI_API_TYPE": "soap", "ZPI_API_KEY": "z"}, "ZPI_API_TYPE"),
    ],
)
def test_an_unusable_variable_is_named(environ: dict[str, str], variable: str) -> None:
    with pytest.raises(ConfigurationError, match=variable) as caught:
        runtime(**environ)
    assert "canary" not in str(caught.value)


# -------------------------------------------------------- keys and origins


def test_the_general_key_wins_over_the_providers_own() -> None:
    made = runtime(ZPI_API_KEY="z", ANTHROPIC_API_KEY="a", ZERONE_AGENT_API_KEY="s")
    assert made.credential(chosen(made)).key == "z"
    made = runtime(ANTHROPIC_API_KEY="a", ZERONE_AGENT_API_KEY="s")
    assert made.credential(chosen(made)).key == "a"
    made = runtime(ZERONE_AGENT_API_KEY="s")
    assert made.credential(chosen(made)).key == "s"


def test_a_general_key_without_an_address_is_one_providers_only() -> None:
    made = runtime(ZPI_API_KEY="z", ZPI_MODEL="deepseek-flash")
    assert made.credential(chosen(made)).key == "z"
    with pytest.raises(CredentialMissing):
        made.choose(explicit="opus")


def test_the_providers_own_base_url_gets_the_providers_own_key() -> None:
    made = runtime(
        ANTHROPIC_BASE_URL="https://proxy.example/v1/", ANTHROPIC_API_KEY="a", ZPI_API_KEY=""
    )
    model = chosen(made)
    assert model.base_url == "https://proxy.example"
    assert made.credential(model).key == "a"


def test_a_base_url_never_gets_a_key_that_was_not_meant_for_it() -> None:
    made = runtime(
        ZPI_BASE_URL="https://evil.example",
        ANTHROPIC_API_KEY="a",
        OPENAI_API_KEY="o",
        ZPI_MODEL="opus",
    )
    with pytest.raises(CredentialMissing, match=r"evil\.example") as caught:
        made.choose()
    assert caught.value.hint == "Set ZPI_API_KEY or ZPI_AUTH_TOKEN."

    made = runtime(ANTHROPIC_BASE_URL="https://evil.example", ZPI_API_KEY="z", OPENAI_API_KEY="o")
    model = chosen(made, explicit="opus")
    assert model.base_url == "https://api.anthropic.com", "the pair of the general key"
    crafted = msgspec.structs.replace(model, base_url="https://evil.example")
    with pytest.raises(CredentialMissing):
        made.credential(crafted)


@pytest.mark.parametrize(
    "url",
    [
        *("https://api.anthropic.com.evil.example", "http://api.anthropic.com"),
        *("https://api.anthropic.com:8443", "https://evil.example/api.anthropic.com"),
        "https://API.openai.com",
    ],
)
def test_a_key_goes_to_its_origin_only(url: str) -> None:
    made = runtime(ANTHROPIC_API_KEY="a")
    model = msgspec.structs.replace(made.resolve("opus"), base_url=url)
    with pytest.raises(CredentialMissing):
        made.credential(model)


def test_origins_ignore_case_and_the_usual_port() -> None:
    assert origin("https://A.example") == origin("https://a.example:443/v1")
    assert origin("http://a.example") != origin("https://a.example")
    assert origin("") == ""


def test_taking_a_key_away_works_at_the_next_request() -> None:
    secrets = {"ANTHROPIC_API_KEY": "a"}
    made = ModelRuntime(registry=REGISTRY, environ={}, secrets=secrets)
    model = chosen(made)
    assert made.credential(model).key == "a"
    secrets["ANTHROPIC_API_KEY"] = "b"
    assert made.credential(model).key == "b"
    del secrets["ANTHROPIC_API_KEY"]
    with pytest.raises(CredentialMissing, match="'anthropic'") as caught:
        made.credential(model)
    assert caught.value.hint == "Set ANTHROPIC_API_KEY or ANTHROPIC_AUTH_TOKEN."


def test_a_token_is_sent_as_bearer() -> None:
    made = runtime(ANTHROPIC_AUTH_TOKEN="t")
    model = chosen(made)
    assert made.credential(model) == Credential("t", bearer=True)
    assert model.compat["auth"] == "bearer"
    both = runtime(ANTHROPIC_AUTH_TOKEN="t", ANTHROPIC_API_KEY="a")
    assert "auth" not in chosen(both).compat
    assert both.credential(chosen(both)).key == "a"


def test_a_credential_does_not_show_itself() -> None:
    assert "canary" not in repr(Credential("canary-0123"))
    assert "canary" not in f"{[Credential('canary-0123')]}"


def test_local_addresses_need_no_key() -> None:
    for url in ("http://127.0.0.1:8080/v1", "http://192.168.1.5/v1", "http://gpu-box:8000/v1"):
        made = runtime(ZPI_BASE_URL=url)
        assert made.credential(chosen(made, explicit="llama")) == Credential("")
    made = runtime(OPENAI_BASE_URL="http://localhost:1234/v1")
    model = chosen(made, explicit="my-model")
    assert (model.provider, model.known) == ("openai", False)
    assert made.credential(model) == Credential("")
    assert isinstance(made.choose(), NothingAvailable), "an address alone names no model"


def test_a_provider_of_the_users_file_may_want_no_key() -> None:
    table = (
        b'{"providers": {"box": {"base_url": "http://box.example/v1", '
        b'"api": "openai-completions", "models": [{"id": "m"}]}}}'
    )
    shipped = (Path(__file__).parents[4] / "agent_sdk/providers/models.json").read_bytes()
    made = runtime(parse_registry(shipped, table, path=Path("models.json")))
    assert chosen(made).key == "box/m"
    assert made.credential(chosen(made)) == Credential("")


# ------------------------------------------------------------------- names


def test_unknown_names() -> None:
    made = runtime(ANTHROPIC_API_KEY="a")
    with pytest.raises(ModelNotFound, match="'nope'"):
        made.choose(explicit="nope")
    with pytest.raises(CredentialMissing, match="'openai'"):
        made.choose(explicit="gpt-5")
    new = chosen(made, explicit="anthropic/claude-next")
    assert (new.id, new.known, new.prices.known) == ("claude-next", False, False)


def test_a_name_of_two_providers_goes_to_the_one_with_a_key() -> None:
    table = (
        b'{"providers": {"box": {"base_url": "https://box.example/v1", "api_key_env": "BOX_KEY",'
        b'"api": "openai-completions", "models": [{"id": "gpt-4.1"}]}}}'
    )
    shipped = (Path(__file__).parents[4] / "agent_sdk/providers/models.json").read_bytes()
    registry = parse_registry(shipped, table, path=Path("models.json"))
    assert chosen(runtime(registry, BOX_KEY="b"), explicit="gpt-4.1").provider == "box"
    assert chosen(runtime(registry, OPENAI_API_KEY="o"), explicit="gpt-4.1").provider == "openai"
    for environ in ({}, {"BOX_KEY": "b", "OPENAI_API_KEY": "o"}):
        with pytest.raises(ModelNotFound, match="several"):
            runtime(registry, **environ).choose(explicit="gpt-4.1")


def test_available_lists_every_model_with_its_state() -> None:
    listed = {model.key: ready for model, ready in runtime(OPENAI_API_KEY="o").available()}
    assert listed["openai/gpt-5"] is True
    assert listed["anthropic/claude-opus-5-5"] is False
    assert len(listed) == len(REGISTRY.models)


# --------------------------------------------------------------- providers


class FakeProvider:
    async def stream(self, request: ModelRequest) -> AsyncGenerator[StreamEvent, None]:
        raise NotImplementedError
        yield

    async def aclose(self) -> None: ...


def test_a_local_model_goes_to_the_injected_factory() -> None:
    fake = FakeProvider()
    made = ModelRuntime(registry=REGISTRY, environ={}, secrets={}, local=lambda model: fake)
    assert made.create_provider(LOCAL) is fake
    with pytest.raises(ConfigurationError, match="'local/tiny'") as caught:
        runtime().create_provider(LOCAL)
    assert "extra 'local'" in caught.value.hint
    with pytest.raises(ConfigurationError):
        create_adapter("local")


@pytest.mark.parametrize("api", APIS)
async def test_every_wire_api_has_its_adapter(api: Any) -> None:
    assert create_adapter(api).api == api
    made = runtime(ZPI_BASE_URL="http://127.0.0.1:9", ZPI_API_TYPE=api, ZPI_MODEL="m")
    provider = made.create_provider(chosen(made))
    assert isinstance(provider, HttpProvider)
    await provider.aclose()


def test_choosing_a_model_loads_no_network_library() -> None:
    code = (
        "import sys; from agent_sdk.providers.registry import load_registry;"
        "from agent_sdk.providers.runtime import ModelRuntime;"
        "made = ModelRuntime(registry=load_registry(None), environ={}, "
        "secrets={'ANTHROPIC_API_KEY': 'a'}); made.choose();"
        "print(sorted({'httpx', 'httpcore', 'ssl', 'subprocess', 'email', 'importlib.resources'}"
        " & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[4],
    )
    assert done.stdout.strip() == "[]"
