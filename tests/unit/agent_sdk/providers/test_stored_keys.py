import pytest

from agent_sdk.core.errors import CredentialMissing, InvalidInput
from agent_sdk.providers.registry import (
    ModelEntry,
    ProviderEntry,
    is_provider_name,
    load_registry,
)
from agent_sdk.providers.runtime import ModelChoice, ModelRuntime, NothingAvailable

REGISTRY = load_registry(None)
ANTHROPIC = "https://api.anthropic.com:443"


class Keys(dict[tuple[str, str], str]):
    """What the user stored: (provider, origin) to key."""

    def lookup(self, provider: str, origin: str) -> str | None:
        return self.get((provider, origin))


def made(keys: Keys, secrets: dict[str, str] | None = None, **environ: str) -> ModelRuntime:
    return ModelRuntime(
        registry=REGISTRY, environ=environ, secrets=secrets or {}, stored=keys.lookup
    )


def test_a_stored_key_makes_its_provider_the_one_that_is_taken() -> None:
    keys = Keys()
    runtime = made(keys)
    assert isinstance(runtime.choose(), NothingAvailable)
    keys["openai", "https://api.openai.com:443"] = "sk-stored"
    choice = runtime.choose()
    assert isinstance(choice, ModelChoice)
    assert choice.model.provider == "openai"
    assert runtime.credential(choice.model).key == "sk-stored"


def test_it_is_looked_up_for_each_request_and_gone_when_it_is_removed() -> None:
    keys = Keys({("anthropic", ANTHROPIC): "first"})
    runtime = made(keys)
    model = runtime.resolve("sonnet")
    assert runtime.credential(model).key == "first"
    keys["anthropic", ANTHROPIC] = "second"
    assert runtime.credential(model).key == "second"
    keys.clear()
    with pytest.raises(CredentialMissing):
        runtime.credential(model)


def test_it_goes_before_the_environment_and_is_not_sent_as_a_token() -> None:
    secrets = {"ANTHROPIC_AUTH_TOKEN": "token"}
    keys = Keys({("anthropic", ANTHROPIC): "stored"})
    runtime = made(keys, secrets)
    model = runtime.resolve("sonnet")
    assert runtime.credential(model).key == "stored"
    assert "auth" not in model.compat
    keys.clear()
    again = runtime.resolve("sonnet")
    assert runtime.credential(again).key == "token"
    assert again.compat["auth"] == "bearer"


def test_it_never_goes_to_another_origin_of_the_same_provider() -> None:
    keys = Keys({("anthropic", ANTHROPIC): "stored"})
    runtime = made(keys, ANTHROPIC_BASE_URL="https://collector.example")
    model = runtime.resolve("sonnet")
    assert model.base_url == "https://collector.example"
    with pytest.raises(CredentialMissing):
        runtime.credential(model)


def test_it_never_goes_to_another_provider_of_the_same_origin() -> None:
    keys = Keys({("mine", "https://api.openai.com:443"): "stored"})
    assert isinstance(made(keys).choose(), NothingAvailable)


def own(*, needs_key: bool) -> ModelRuntime:
    entry = ProviderEntry(
        base_url="https://models.example/v1",
        api="openai-completions",
        needs_key=needs_key,
        models=(ModelEntry(id="big"), ModelEntry(id="small")),
    )
    registry = REGISTRY.with_providers({"mine": entry})
    keys = Keys({("mine", "https://models.example:443"): "own"}) if needs_key else Keys()
    return ModelRuntime(registry=registry, environ={}, secrets={}, stored=keys.lookup)


@pytest.mark.parametrize(("needs_key", "key"), [(True, "own"), (False, "")])
def test_a_provider_of_the_users_own_comes_first(needs_key: bool, key: str) -> None:
    runtime = own(needs_key=needs_key)
    choice = runtime.choose()
    assert isinstance(choice, ModelChoice)
    assert choice.model.key == "mine/big"
    assert runtime.credential(choice.model).key == key
    assert runtime.resolve("mine/other").base_url == "https://models.example/v1"
    assert runtime.resolve("sonnet").provider == "anthropic"  # short names still work


def test_a_provider_that_needs_a_key_is_not_asked_without_one() -> None:
    entry = ProviderEntry(
        base_url="https://models.example/v1",
        api="openai-completions",
        needs_key=True,
        models=(ModelEntry(id="big"),),
    )
    registry = REGISTRY.with_providers({"mine": entry})
    runtime = ModelRuntime(registry=registry, environ={}, secrets={}, stored=Keys().lookup)
    assert isinstance(runtime.choose(), NothingAvailable)
    with pytest.raises(CredentialMissing, match="'mine'"):
        runtime.choose(explicit="mine/big")


def test_one_with_a_known_name_takes_its_place() -> None:
    entry = ProviderEntry(base_url="https://other.example", api="openai-responses")
    registry = REGISTRY.with_providers({"openai": entry})
    assert len(registry.providers) == len(REGISTRY.providers)
    found = registry.provider("openai")
    assert found
    assert (found.base_url, found.models) == ("https://other.example", ())


@pytest.mark.parametrize("name", ["", "a/b", "a b", "a\nb", "x" * 65])
def test_names_that_cannot_be_used(name: str) -> None:
    assert not is_provider_name(name)
    with pytest.raises(InvalidInput):
        REGISTRY.with_providers(
            {name: ProviderEntry(base_url="https://a.b", api="openai-responses")}
        )


def test_an_address_that_cannot_be_used() -> None:
    with pytest.raises(InvalidInput, match="ftp"):
        REGISTRY.with_providers({"a": ProviderEntry(base_url="ftp://a", api="openai-responses")})
