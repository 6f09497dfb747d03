import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from typing_extensions import override

from agent_sdk.core.errors import ConfigurationError, InvalidInput, ModelNotFound
from agent_sdk.core.ids import RandomIds, SystemClock
from agent_sdk.host import LocalModels, Model, ModelChoice, load_registry
from agent_sdk.testing.mock_server import MockScript, MockServer
from agent_sdk.testing.mock_wire import MockTurn
from desktop.bridge.messages import ModelsState, ProviderView
from desktop.bridge.protocol import SaveProvider, TestProvider
from desktop.host.credentials import CredentialVault
from desktop.host.db import StateDatabase, open_database
from desktop.host.providers import ProviderService, checked_key, checked_row
from tests.support.key_stores import NoStore, WorkingStore

REGISTRY = load_registry(None)
TINY = Model(id="tiny", provider="local", api="local")


class NoLocalModels(LocalModels):
    """Looks for nothing on this machine; gives what it was told."""

    def __init__(self) -> None:
        super().__init__(processes=None, gguf="", clock=SystemClock())
        self.models = [TINY]

    @override
    async def find(self) -> list[Model]:
        return self.models


class Desk:
    """Makes services over one database and one key ring."""

    def __init__(self, database: StateDatabase) -> None:
        self.database = database
        self.store = WorkingStore()
        self.made: list[ProviderService] = []

    async def service(
        self, *, secrets: dict[str, str] | None = None, store: Any = None, **environ: str
    ) -> ProviderService:
        vault = CredentialVault(
            rows=self.database.credentials,
            store=store or self.store,
            install_id=self.database.install_id,
            ids=RandomIds(),
            clock=SystemClock(),
            on_secret=lambda _: None,
        )
        service = ProviderService(
            registry=REGISTRY,
            environ=environ,
            secrets=secrets or {},
            local=NoLocalModels(),
            rows=self.database.providers,
            vault=vault,
        )
        self.made.append(service)
        await service.start()
        await service.find_local()
        await asyncio.sleep(0)  # the task that unlocks comes first
        await vault.unlock()
        return service


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    database = await open_database(tmp_path / "state.sqlite", ids=RandomIds(), clock=SystemClock())
    made = Desk(database)
    yield made
    for service in made.made:
        await service.aclose()
    await database.aclose()


def view(state: ModelsState, name: str) -> ProviderView:
    return next(p for p in state.providers if p.name == name)


def mine(**changes: Any) -> SaveProvider:
    given: dict[str, Any] = {
        "name": "mine",
        "api": "openai-completions",
        "base_url": "https://models.example/v1",
        "models": ("big",),
        **changes,
    }
    return SaveProvider(**given)


def ready(state: ModelsState) -> set[str]:
    return {model.key for model in state.models if model.ready}


async def test_with_nothing_set_up_the_local_model_is_what_there_is(desk: Desk) -> None:
    service = await desk.service()
    state = service.state()
    assert ready(state) == {"local/tiny"}
    assert view(state, "anthropic").source == "none"
    assert view(state, "anthropic").needs_key
    assert not view(state, "anthropic").custom


async def test_a_key_for_a_provider_of_the_table(desk: Desk) -> None:
    service = await desk.service()
    changes: list[ModelsState] = []
    service.listen(lambda: changes.append(service.state()))
    known = REGISTRY.provider("anthropic")
    assert known
    await service.save(
        SaveProvider(name="anthropic", api=known.api, base_url=known.base_url, key=" k-123 ")
    )
    assert view(changes[-1], "anthropic").source == "stored"
    assert not view(changes[-1], "anthropic").custom
    assert await desk.database.providers.list() == []
    choice = service.runtime.choose()
    assert isinstance(choice, ModelChoice)
    assert choice.model.provider == "anthropic"
    assert service.runtime.credential(choice.model).key == "k-123"

    again = await desk.service()
    assert again.runtime.credential(choice.model).key == "k-123"
    await again.save(SaveProvider(name="anthropic", api=known.api, base_url=known.base_url, key=""))
    assert ready(again.state()) == {"local/tiny"}


async def test_a_provider_of_ones_own_comes_and_goes_with_its_key(desk: Desk) -> None:
    service = await desk.service()
    await service.save(mine(key="k-mine"))
    state = service.state()
    assert view(state, "mine").custom
    assert view(state, "mine").source == "stored"
    assert "mine/big" in ready(state)
    again = await desk.service()
    model = again.runtime.resolve("mine/big")
    assert (model.base_url, model.api) == ("https://models.example/v1", "openai-completions")
    assert again.runtime.credential(model).key == "k-mine"
    await again.remove("mine")
    assert "mine" not in {p.name for p in again.state().providers}
    assert await desk.database.credentials.rows() == []


async def test_a_provider_without_a_key_is_not_ready_unless_it_is_on_this_machine(
    desk: Desk,
) -> None:
    service = await desk.service()
    await service.save(mine())
    await service.save(mine(name="home", base_url="http://127.0.0.1:9999/v1"))
    state = service.state()
    assert view(state, "mine").source == "none"
    assert view(state, "home").source == "keyless"
    assert not view(state, "home").needs_key
    assert ready(state) == {"local/tiny", "home/big"}


async def test_a_key_does_not_follow_its_provider_to_another_server(desk: Desk) -> None:
    service = await desk.service()
    await service.save(mine(key="k-mine"))
    await service.save(mine(base_url="https://collector.example/v1"))
    assert view(service.state(), "mine").source == "none"
    await service.save(mine())
    assert view(service.state(), "mine").source == "none"  # nor does it come back with it
    await service.save(mine(key="k-new"))
    await service.save(mine(models=("big", "small")))
    assert view(service.state(), "mine").source == "stored"  # same server, same key


async def test_a_table_provider_at_another_address_takes_no_key_of_the_environment(
    desk: Desk,
) -> None:
    service = await desk.service(secrets={"ANTHROPIC_API_KEY": "k-env"})
    assert view(service.state(), "anthropic").source == "environment"
    await service.save(
        SaveProvider(
            name="anthropic",
            api="anthropic-messages",
            base_url="https://gateway.example",
            models=("own-model",),
        )
    )
    state = service.state()
    assert view(state, "anthropic").custom
    assert view(state, "anthropic").source == "none"
    assert ready(state) == {"local/tiny"}
    await service.remove("anthropic")
    assert view(service.state(), "anthropic").source == "environment"


async def test_another_model_of_a_table_provider_keeps_the_rest(desk: Desk) -> None:
    service = await desk.service(secrets={"OPENAI_API_KEY": "k-env"})
    known = REGISTRY.provider("openai")
    assert known
    ids = tuple(model.id for model in known.models)
    await service.save(
        SaveProvider(
            name="openai", api=known.api, base_url=known.base_url, models=(*ids, "brand-new")
        )
    )
    state = service.state()
    assert {f"openai/{model}" for model in (*ids, "brand-new")} <= ready(state)
    assert view(state, "openai").source == "environment"
    found = service.runtime.resolve(f"openai/{ids[0]}")
    assert found.context_window == known.models[0].context_window
    assert dict(found.thinking) == dict(known.models[0].thinking)


async def test_the_model_that_the_environment_names_is_shown(desk: Desk) -> None:
    service = await desk.service(
        secrets={"ZPI_API_KEY": "k"}, ZPI_BASE_URL="http://127.0.0.1:9/v1", ZPI_MODEL="mock"
    )
    assert "custom/mock" in ready(service.state())


async def test_the_default_model(desk: Desk) -> None:
    service = await desk.service()
    with pytest.raises(ModelNotFound):
        await service.set_default("nobody-knows-this")
    await service.save(mine(key="k"))
    await service.set_default("mine/big")
    assert service.default == "mine/big"
    again = await desk.service()
    assert again.default == again.state().default == "mine/big"


async def test_without_a_key_ring_the_window_is_told_where_the_key_is(desk: Desk) -> None:
    service = await desk.service(store=NoStore())
    await service.save(mine(key="k-mine"))
    state = service.state()
    assert state.key_store.mode == "session"
    assert view(state, "mine").source == "session"
    assert "mine/big" in ready(state)


@pytest.mark.parametrize(
    "changes",
    [
        {"name": ""},
        {"name": "a/b"},
        {"name": "custom"},
        {"name": "local"},
        {"name": "ollama"},
        {"api": "local"},
        {"api": "soap"},
        {"base_url": "models.example"},
        {"base_url": "ftp://models.example"},
        {"base_url": "https://user:pw@models.example"},
        {"base_url": "https://models.example/?key=1"},
        {"models": ("",)},
        {"models": ("a\nb",)},
        {"models": ("x" * 201,)},
    ],
)
def test_what_cannot_be_saved(changes: dict[str, Any]) -> None:
    with pytest.raises((InvalidInput, ConfigurationError)):
        checked_row(mine(**changes))


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        ("https://models.example/v1/", "https://models.example/v1"),
        (" https://models.example/v1/chat/completions ", "https://models.example/v1"),
    ],
)
def test_addresses_are_stored_without_the_endpoint(given: str, stored: str) -> None:
    assert checked_row(mine(base_url=given)).base_url == stored


@pytest.mark.parametrize("key", ["a b", "a\nb", "clé", "x" * 8193])
def test_keys_that_cannot_be_sent(key: str) -> None:
    with pytest.raises(InvalidInput):
        checked_key(key, "https://models.example")


def test_a_key_is_not_sent_where_others_read_it() -> None:
    with pytest.raises(InvalidInput, match="unencrypted"):
        checked_key("k", "http://models.example/v1")
    assert checked_key(" k ", "http://127.0.0.1:8000/v1") == "k"
    assert checked_key("", "http://models.example/v1") == ""
    assert checked_key(None, "http://models.example/v1") is None


# ------------------------------------------------------------------------ testing


def serving() -> MockServer:
    return MockServer(MockScript(turns=(MockTurn(text="OK"),), key="right-key"))


def asked(url: str, **changes: Any) -> TestProvider:
    given: dict[str, Any] = {
        "name": "mine",
        "api": "openai-completions",
        "base_url": url,
        "model": "mock",
        "key": "right-key",
        **changes,
    }
    return TestProvider(**given)


@pytest.mark.parametrize(
    ("api", "path"),
    [
        ("openai-completions", "/v1"),
        ("openai-responses", "/v1"),
        ("anthropic-messages", ""),
    ],
)
async def test_a_good_provider(desk: Desk, api: str, path: str) -> None:
    async with serving() as server:
        service = await desk.service()
        tested = await service.test(asked(f"{server.url}{path}", api=api))
        assert (tested.reached, tested.answered, tested.text, tested.error) == (
            True,
            True,
            "OK",
            None,
        )
        first, second = server.requests
        assert "right-key" not in str(first.headers)  # the first step needs no key
        assert "right-key" in str(second.headers)
        assert desk.store.entries == {}  # nothing is kept by trying


async def test_a_wrong_key(desk: Desk) -> None:
    async with serving() as server:
        service = await desk.service()
        tested = await service.test(asked(f"{server.url}/v1", key="wrong-key"))
        assert (tested.reached, tested.answered) == (True, False)
        assert tested.error
        assert tested.error.code == "provider_wrong_key"
        assert "wrong-key" not in tested.error.text
        assert "ZPI_API_KEY" not in tested.error.hint


async def test_no_key(desk: Desk) -> None:
    async with serving() as server:
        service = await desk.service()
        tested = await service.test(asked(f"{server.url}/v1", key=None))
        assert tested.error
        assert tested.error.code == "provider_no_key"


async def test_the_stored_key_is_used_for_its_own_server_only(desk: Desk) -> None:
    async with serving() as server:
        service = await desk.service()
        await service.save(mine(base_url=f"{server.url}/v1", key="right-key"))
        assert (await service.test(asked(f"{server.url}/v1", key=None))).answered
        async with MockServer(MockScript(turns=(MockTurn(text="OK"),))) as other:
            assert (await service.test(asked(f"{other.url}/v1", key=None))).answered
            assert all("right-key" not in str(request.headers) for request in other.requests)


async def test_a_server_that_is_not_there(desk: Desk) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    service = await desk.service()
    tested = await service.test(asked(f"http://127.0.0.1:{port}/v1"))
    assert (tested.reached, tested.answered) == (False, False)
    assert tested.error
    assert tested.error.code == "provider_unreachable"
    assert "refused" in tested.error.text
    assert tested.error.hint


async def test_an_address_where_something_else_answers(desk: Desk) -> None:
    async with serving() as server:
        service = await desk.service()
        tested = await service.test(asked(f"{server.url}/wrong/path"))
        assert (tested.reached, tested.answered) == (True, False)
        assert tested.error
        assert tested.error.code == "provider_no_model"
        assert "address" in tested.error.hint


async def test_encryption_that_is_not_trusted(
    desk: Desk, tls_server: Callable[[], str], tmp_path: Path
) -> None:
    service = await desk.service()
    tested = await service.test(asked(tls_server()))
    assert not tested.reached
    assert tested.error
    assert tested.error.code == "provider_unreachable"
    assert "certificate" in tested.error.text


@pytest.fixture
async def tls_server() -> AsyncIterator[Callable[[], str]]:

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(Path(__file__).parents[3] / "data" / "tls" / "server.pem")

    async def serve(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    made = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    yield lambda: f"https://127.0.0.1:{made.sockets[0].getsockname()[1]}/v1"
    made.close()
    await made.wait_closed()
