import asyncio
import sys
import threading
from pathlib import Path
from types import ModuleType
from typing import ClassVar

import pytest

from desktop.host.keystore import (
    KeyStoreLocked,
    NoKeyStore,
    Patience,
    SystemKeyRing,
    configured_backend,
)

SECRET_SERVICE = "keyring.backends.SecretService"
KWALLET = "keyring.backends.kwallet"


class Backend:
    """A backend as ``keyring`` has them."""

    priority = 5.0
    kept: ClassVar[dict[tuple[str, str], str]] = {}
    fails: ClassVar[Exception | None] = None

    def get_password(self, service: str, name: str) -> str | None:
        if self.fails:
            raise self.fails
        return self.kept.get((service, name))

    def set_password(self, service: str, name: str, secret: str) -> None:
        if self.fails:
            raise self.fails
        self.kept[service, name] = secret


class NotHere:
    """One that says by its priority that it cannot be used."""

    priority = "none"


def install(patch: pytest.MonkeyPatch, name: str, **members: object) -> None:
    module = ModuleType(name)
    for member, value in members.items():
        setattr(module, member, value)
    patch.setitem(sys.modules, name, module)


@pytest.fixture
def works(monkeypatch: pytest.MonkeyPatch) -> type[Backend]:
    class Working(Backend):
        kept: ClassVar[dict[tuple[str, str], str]] = {}

    install(monkeypatch, SECRET_SERVICE, Keyring=Working)
    install(monkeypatch, KWALLET)
    return Working


def ring(**environ: str) -> SystemKeyRing:
    return SystemKeyRing(environ=environ, platform="linux")


def test_there_and_back(works: type[Backend]) -> None:
    ours = ring()
    assert ours.name() == "the Secret Service key ring"
    assert ours.get("a") is None
    ours.set("a", "secret")
    assert ours.get("a") == "secret"
    assert works.kept == {("zpi", "a"): "secret"}


@pytest.mark.parametrize("priority", [0, 0.5, 0.99, -1])
def test_a_ring_of_low_priority_is_none(
    works: type[Backend], monkeypatch: pytest.MonkeyPatch, priority: float
) -> None:
    monkeypatch.setattr(works, "priority", priority)
    with pytest.raises(NoKeyStore):
        ring().name()


def test_the_better_of_two_is_taken(works: type[Backend], monkeypatch: pytest.MonkeyPatch) -> None:
    class Better(Backend):
        priority = 5.1

    install(monkeypatch, KWALLET, DBusKeyring=Better, DBusKeyringKWallet4=NotHere)
    assert ring().name() == "KWallet"


@pytest.mark.parametrize(
    "backend",
    [
        "keyring.backends.null.Keyring",
        "keyring.backends.fail.Keyring",
        "keyring.backends.chainer.ChainerBackend",
        "keyrings.alt.file.PlaintextKeyring",
        "evil.module.Keyring",
    ],
)
def test_a_backend_that_is_not_the_systems_is_refused_and_never_loaded(
    works: type[Backend], monkeypatch: pytest.MonkeyPatch, backend: str
) -> None:
    loaded = set(sys.modules)
    with pytest.raises(NoKeyStore, match=backend):
        ring(PYTHON_KEYRING_BACKEND=backend).name()
    assert backend.rpartition(".")[0] not in set(sys.modules) - loaded


def test_the_file_that_switches_it_off_is_honoured(
    works: type[Backend], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder = tmp_path / "config" / "python_keyring"
    folder.mkdir(parents=True)
    monkeypatch.setattr("keyring.util.platform_.config_root", lambda: str(folder))
    config = folder / "keyringrc.cfg"
    config.write_text("[backend]\ndefault-keyring=keyring.backends.null.Keyring\n")
    with pytest.raises(NoKeyStore, match="null"):
        ring().name()
    config.write_text(f"[backend]\ndefault-keyring={SECRET_SERVICE}.Keyring\n")
    assert ring().name() == "the Secret Service key ring"
    for broken in ("no section", "[backend]\n", "\0"):
        config.write_text(broken)
        assert configured_backend({}) == ""


def test_what_it_raises_is_locked_and_its_words_are_not_passed_on(
    works: type[Backend], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(works, "fails", ValueError("the secret is sk-123"))
    with pytest.raises(KeyStoreLocked) as reading:
        ring().get("a")
    with pytest.raises(KeyStoreLocked) as writing:
        ring().set("a", "b")
    assert "sk-123" not in f"{reading.value} {writing.value}"


def test_other_systems_have_their_own() -> None:
    for platform in ("darwin", "win32"):
        with pytest.raises(NoKeyStore):
            SystemKeyRing(environ={}, platform=platform).name()


# --------------------------------------------------------------------- patience


async def test_a_call_gives_what_the_work_gives() -> None:
    patience = Patience(limit=20, freed=lambda: None)
    assert await patience.call(lambda: 3) == 3
    with pytest.raises(KeyStoreLocked, match="mine"):
        await patience.call(lambda: _raise(KeyStoreLocked("mine")))
    assert await patience.call(threading.get_ident) != threading.get_ident()


def _raise(error: Exception) -> None:
    raise error


async def test_a_call_that_hangs_is_given_up_and_none_is_made_beside_it() -> None:
    freed = asyncio.Event()
    patience = Patience(limit=0.05, freed=freed.set)
    release = threading.Event()
    with pytest.raises(KeyStoreLocked, match="has not answered"):
        await patience.call(lambda: release.wait(30))
    with pytest.raises(KeyStoreLocked, match="does not answer"):
        await patience.call(lambda: pytest.fail("called beside another"))
    assert not freed.is_set()
    release.set()
    await asyncio.wait_for(freed.wait(), 20)
    assert await patience.call(lambda: 1) == 1


async def test_a_call_that_nobody_waits_for_any_more() -> None:
    freed = asyncio.Event()
    patience = Patience(limit=30, freed=freed.set)
    release = threading.Event()
    calling = asyncio.ensure_future(patience.call(lambda: release.wait(30)))
    await asyncio.sleep(0.01)
    calling.cancel()
    await asyncio.wait({calling})
    assert calling.cancelled()
    release.set()
    await asyncio.wait_for(freed.wait(), 20)
