"""Keys protected by a passphrase where there is no key ring: never in clear, and never lost unasked."""

import asyncio
import logging
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest
from typing_extensions import override

from agent_sdk.core.errors import InvalidInput, StorageError
from agent_sdk.core.ids import RandomIds, SystemClock
from desktop.bridge.protocol import (
    LEAST_PASSPHRASE,
    MOST_PASSPHRASE,
    ChangePassphrase,
    SaveProvider,
    SetPassphrase,
    TestProvider,
    UnlockKeys,
)
from desktop.host import vault as crypto
from desktop.host.credentials import CredentialVault
from desktop.host.db import StateDatabase, open_database
from desktop.host.db.repositories import WrappedKey
from desktop.host.errors import WrongPassphrase
from desktop.host.keystore import KeyStore
from desktop.host.passphrase import NoMemory, checked_passphrase, passphrase_bytes
from tests.support.key_stores import HangingStore, LockedStore, NoStore, NullStore, WorkingStore

KEY = "sk-test-0123456789abcdef"
OTHER = "sk-test-fedcba9876543210"
PLACE = ("anthropic", "https://api.anthropic.com:443")
ELSEWHERE = ("openai", "https://api.openai.com:443")
PHRASE = "vier Worte, die keiner kennt"
NEW_PHRASE = "四个没有人知道的词语组成的口令"
CHEAP = crypto.Cost(n=1 << 8)


class Ring(WorkingStore):
    """A key ring that is there, or not."""

    def __init__(self) -> None:
        super().__init__()
        self.there = False

    @override
    def name(self) -> str:
        return super().name() if self.there else NoStore().name()


class Installation:
    """A data folder that vaults are opened and closed on, one after the other."""

    def __init__(self, database: StateDatabase, folder: Path) -> None:
        self.database = database
        self.folder = folder
        self.ring = Ring()
        self.secrets: list[str] = []
        self.open: list[CredentialVault] = []

    async def vault(
        self,
        store: KeyStore | None = None,
        *,
        cost: crypto.Cost = CHEAP,
        wrong_seconds: float = 0.0,
    ) -> CredentialVault:
        """Return a vault as a start of the program has it."""
        for earlier in self.open:
            await earlier.aclose()
        made = CredentialVault(
            rows=self.database.credentials,
            store=store or self.ring,
            install_id=self.database.install_id,
            ids=RandomIds(),
            clock=SystemClock(),
            on_secret=self.secrets.append,
            limit=0.2,
            cost=cost,
            wrong_seconds=wrong_seconds,
        )
        self.open.append(made)
        await made.start()
        await made.unlock()
        return made

    async def on_disk(self) -> bytes:
        """Return whatever lies in the data folder, with the database open and closed."""
        live = self._files()
        await self.database.aclose()
        return live + self._files()

    def _files(self) -> bytes:
        files = [p for p in self.folder.rglob("*") if p.is_file()]
        assert files
        return b"".join(p.read_bytes() for p in files)


@pytest.fixture
async def here(tmp_path: Path) -> AsyncIterator[Installation]:
    database = await open_database(
        tmp_path / "state" / "state.sqlite", ids=RandomIds(), clock=SystemClock()
    )
    made = Installation(database, tmp_path)
    yield made
    for vault in made.open:
        await vault.aclose()
    await database.aclose()


async def protected(here: Installation) -> CredentialVault:
    """Return a vault whose key has been protected."""
    vault = await here.vault()
    await vault.put(*PLACE, KEY)
    await vault.set_passphrase(PHRASE)
    return vault


# --------------------------------------------------------------- round trips


async def test_a_key_is_there_after_a_restart_once_the_passphrase_is_entered(
    here: Installation, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    vault = await here.vault(cost=crypto.COST)  # the real cost, once
    await vault.put(*PLACE, KEY)
    assert (vault.info().mode, vault.source(*PLACE)) == ("session", "session")
    await vault.set_passphrase(PHRASE)
    assert (vault.info().mode, vault.info().locked_by) == ("passphrase", "passphrase")
    assert vault.source(*PLACE) == "stored"
    await vault.put(*ELSEWHERE, OTHER)  # the passphrase is not asked for again
    assert vault.source(*ELSEWHERE) == "stored"

    again = await here.vault()
    assert (again.info().mode, again.info().locked_by) == ("locked", "passphrase")
    assert "passphrase" in again.info().text
    assert await again.get(*PLACE) is None
    assert again.source(*PLACE) == "stored"
    assert again.info().unreadable == ()  # locked is not lost
    changes: list[str] = []
    again.listen(lambda: changes.append(again.info().mode))
    await again.unlock_with(PHRASE)
    assert changes == ["passphrase"]
    assert again.lookup(*PLACE) == KEY
    assert again.lookup(*ELSEWHERE) == OTHER

    (key,) = await here.database.credentials.keys()
    assert crypto.read_derivation(key.derivation).cost == crypto.Cost(n=131072, r=8, p=1)
    everything = await here.on_disk()
    for secret in (KEY, OTHER, PHRASE):
        assert secret.encode() not in everything
        assert secret not in caplog.text
        assert secret in here.secrets  # taken out of logs, wherever it might come up


async def test_keys_entered_while_locked_are_stored_when_it_is_opened(here: Installation) -> None:
    await protected(here)
    vault = await here.vault()
    await vault.put(*ELSEWHERE, OTHER)
    assert vault.source(*ELSEWHERE) == "session"
    assert vault.lookup(*ELSEWHERE) == OTHER
    await vault.unlock_with(PHRASE)
    assert vault.source(*ELSEWHERE) == "stored"
    again = await here.vault()
    await again.unlock_with(PHRASE)
    assert (again.lookup(*PLACE), again.lookup(*ELSEWHERE)) == (KEY, OTHER)


async def test_the_same_passphrase_opens_however_its_characters_are_composed(
    here: Installation,
) -> None:
    vault = await here.vault()
    await vault.set_passphrase("Ga\u0308rten und Stra\u00dfen")
    again = await here.vault()
    await again.unlock_with("G\u00e4rten und Stra\u00dfen")
    assert again.info().mode == "passphrase"


async def test_a_row_of_this_version_is_opened_by_all_later_ones(here: Installation) -> None:
    derivation = (
        b'{"salt":"AAECAwQFBgcICQoLDA0ODw==","cost":{"n":256,"r":8,"p":1},"later":"ignored"}'
    )
    here.database.install_id = "install-1"
    wrapped = bytes.fromhex(GOLDEN)
    await here.database.credentials.add_key(WrappedKey("key-1", wrapped, derivation))
    vault = await here.vault()
    await vault.unlock_with(PHRASE)
    assert vault.info().mode == "passphrase"


GOLDEN = (
    "7a703183be993d4d8e07fc233d6de0d71cb7e331852c42980388ebd290abcd1b038f6d61a7d32e58e89de29d0"
    "db7bdbb2f2cb21f816396dc540f22376358f8"
)


# --------------------------------------------------------- wrong, changed, forgotten


async def test_a_wrong_passphrase_opens_nothing_says_so_late_and_locks_nobody_out(
    here: Installation,
) -> None:
    await protected(here)
    vault = await here.vault(wrong_seconds=0.05)
    loop = asyncio.get_running_loop()
    begun = loop.time()
    for wrong in ("", PHRASE[:-1], PHRASE + " ", PHRASE.upper(), "x" * 5000):
        with pytest.raises(WrongPassphrase) as caught:
            await vault.unlock_with(wrong)
        assert wrong == "" or wrong not in f"{caught.value} {caught.value.__cause__}"
        assert vault.lookup(*PLACE) is None
        assert vault.info().mode == "locked"
    assert loop.time() - begun >= 5 * 0.05
    await vault.unlock_with(PHRASE)
    assert vault.lookup(*PLACE) == KEY


async def test_guesses_at_the_same_time_wait_for_each_other(here: Installation) -> None:
    await protected(here)
    vault = await here.vault(wrong_seconds=0.05)
    loop = asyncio.get_running_loop()
    begun = loop.time()
    guesses = (vault.unlock_with(f"guess number {n}") for n in range(4))
    outcomes = await asyncio.gather(*guesses, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [WrongPassphrase] * 4
    assert loop.time() - begun >= 4 * 0.05


async def test_only_the_new_passphrase_opens_after_a_change(here: Installation) -> None:
    vault = await protected(here)
    (before,) = await here.database.credentials.keys()
    with pytest.raises(WrongPassphrase):
        await vault.set_passphrase(PHRASE, old=NEW_PHRASE)
    with pytest.raises(InvalidInput, match="at least 12"):
        await vault.set_passphrase("short", old=PHRASE)
    assert await here.database.credentials.keys() == [before]
    await vault.set_passphrase(NEW_PHRASE, old=PHRASE)
    assert vault.lookup(*PLACE) == KEY
    (after,) = await here.database.credentials.keys()
    assert (
        crypto.read_derivation(after.derivation).salt
        != crypto.read_derivation(before.derivation).salt
    )

    again = await here.vault()
    with pytest.raises(WrongPassphrase):
        await again.unlock_with(PHRASE)
    await again.unlock_with(NEW_PHRASE)
    assert again.lookup(*PLACE) == KEY
    everything = await here.on_disk()
    for secret in (KEY, PHRASE, NEW_PHRASE):
        assert secret.encode() not in everything
    assert before.wrapped not in everything.split(b"SQLite format 3")[-1]


@pytest.mark.parametrize("locked", [True, False])
async def test_forgetting_deletes_the_stored_keys_and_nothing_else(
    here: Installation, *, locked: bool
) -> None:
    here.ring.there = True
    first = await here.vault()
    await first.put(*ELSEWHERE, OTHER)  # of the time when there was a key ring
    here.ring.there = False
    vault = await protected(here)
    if locked:
        vault = await here.vault()
        await vault.put("mine", "http://localhost:80", "entered-meanwhile")
    await vault.forget_passphrase()
    assert vault.lookup(*PLACE) is None
    assert vault.source(*PLACE) == "none"
    assert (vault.info().mode, vault.info().locked_by) == ("session", "keyring")
    assert [row.provider for row in await here.database.credentials.rows()] == ["openai"]
    if locked:
        assert vault.source("mine", "http://localhost:80") == "session"
    for refused in (vault.forget_passphrase(), vault.unlock_with(PHRASE)):
        with pytest.raises(InvalidInput, match="protected by a passphrase"):
            await refused
    await vault.set_passphrase(NEW_PHRASE)  # and it can begin anew
    await vault.put(*PLACE, KEY)
    again = await here.vault()
    await again.unlock_with(NEW_PHRASE)
    assert again.lookup(*PLACE) == KEY
    here.ring.there = True
    await again.unlock()
    assert again.lookup(*ELSEWHERE) == OTHER


# ------------------------------------------------------------------ key rings


async def test_a_key_ring_that_appears_takes_the_passphrases_place(here: Installation) -> None:
    await protected(here)
    here.ring.there = True
    vault = await here.vault()
    # The ring cannot open what the passphrase protects: it is asked for a last time.
    assert (vault.info().mode, vault.info().locked_by) == ("locked", "passphrase")
    assert here.ring.entries == {}
    await vault.unlock_with(PHRASE)
    info = vault.info()
    assert (info.mode, info.locked_by, info.replaced) == ("keyring", "keyring", True)
    assert "not needed any more" in info.text
    assert vault.lookup(*PLACE) == KEY

    again = await here.vault()
    assert (again.info().mode, again.info().replaced) == ("keyring", False)
    assert again.lookup(*PLACE) == KEY
    (key,) = await here.database.credentials.keys()
    assert key.derivation == b""
    with pytest.raises(InvalidInput):
        await again.unlock_with(PHRASE)
    assert PHRASE.encode() not in await here.on_disk()


async def test_a_key_ring_that_appears_while_it_is_open_takes_over_by_itself(
    here: Installation,
) -> None:
    vault = await protected(here)
    here.ring.there = True
    await vault.put(*ELSEWHERE, OTHER)
    assert (vault.info().mode, vault.info().replaced) == ("keyring", True)
    again = await here.vault()
    assert (again.lookup(*PLACE), again.lookup(*ELSEWHERE)) == (KEY, OTHER)


async def test_changing_the_passphrase_with_a_key_ring_there_only_moves_the_keys(
    here: Installation,
) -> None:
    vault = await protected(here)
    here.ring.there = True
    await vault.set_passphrase(NEW_PHRASE, old=PHRASE)
    assert (vault.info().mode, vault.info().replaced) == ("keyring", True)
    again = await here.vault()
    assert again.lookup(*PLACE) == KEY


@pytest.mark.parametrize("kind", [NullStore, LockedStore, HangingStore, NoStore])
async def test_a_key_ring_that_is_of_no_use_leaves_the_passphrase_in_force(
    here: Installation, kind: type[WorkingStore]
) -> None:
    await protected(here)
    vault = await here.vault(kind())
    assert (vault.info().mode, vault.info().locked_by) == ("locked", "passphrase")
    await vault.unlock_with(PHRASE)
    assert (vault.info().mode, vault.lookup(*PLACE)) == ("passphrase", KEY)
    again = await here.vault()
    await again.unlock_with(PHRASE)
    assert again.lookup(*PLACE) == KEY
    for store in (vault, again):
        await store.aclose()


@pytest.mark.parametrize("kind", [WorkingStore, LockedStore])
async def test_where_there_is_a_key_ring_no_passphrase_is_offered(
    here: Installation, kind: type[WorkingStore]
) -> None:
    vault = await here.vault(kind())
    await vault.put(*PLACE, KEY)
    with pytest.raises(InvalidInput, match="this one has one"):
        await vault.set_passphrase(PHRASE)
    assert vault.lookup(*PLACE) == KEY
    assert [key.derivation for key in await here.database.credentials.keys()] in ([], [b""])


async def test_a_key_ring_that_keeps_nothing_is_none(here: Installation) -> None:
    vault = await here.vault(NullStore())
    await vault.put(*PLACE, KEY)
    await vault.set_passphrase(PHRASE)
    assert (vault.info().mode, vault.source(*PLACE)) == ("passphrase", "stored")


async def test_there_is_one_passphrase_at_a_time(here: Installation) -> None:
    vault = await protected(here)
    with pytest.raises(InvalidInput, match="passphrase already"):
        await vault.set_passphrase(NEW_PHRASE)
    again = await here.vault()
    with pytest.raises(InvalidInput, match="passphrase already"):
        await again.set_passphrase(NEW_PHRASE)
    await again.unlock_with(PHRASE)
    assert again.lookup(*PLACE) == KEY


# ------------------------------------------------------------------ bad input


async def test_a_passphrase_has_a_least_and_a_greatest_length(here: Installation) -> None:
    for text in ("", "brief", "x" * (LEAST_PASSPHRASE - 1), "x" * (MOST_PASSPHRASE + 1)):
        with pytest.raises(InvalidInput) as caught:
            checked_passphrase(text)
        assert not text or text not in str(caught.value)
        assert str(len(text)) in str(caught.value)
        assert caught.value.hint
    assert checked_passphrase("十二个汉字也是足够长的口令") == passphrase_bytes(
        "十二个汉字也是足够长的口令"
    )
    vault = await here.vault()
    await vault.put(*PLACE, KEY)
    with pytest.raises(InvalidInput):
        await vault.set_passphrase("short")
    assert (vault.info().mode, vault.lookup(*PLACE)) == ("session", KEY)


async def test_too_little_memory_is_said_and_changes_nothing(
    here: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    vault = await here.vault()
    await vault.put(*PLACE, KEY)

    def derive(_passphrase: bytes, _how: crypto.Derivation) -> bytes:
        raise MemoryError

    with monkeypatch.context() as patched:
        patched.setattr(crypto, "derive", derive)
        with pytest.raises(NoMemory, match="MiB") as caught:
            await vault.set_passphrase(PHRASE)
        assert caught.value.hint
    assert vault.info().mode == "session"
    assert await here.database.credentials.keys() == []
    await vault.set_passphrase(PHRASE)
    assert vault.info().mode == "passphrase"


@pytest.mark.parametrize(
    "cost",
    [
        crypto.Cost(n=1 << 30),  # 1 TiB
        crypto.Cost(n=0),
        crypto.Cost(n=1000),
        crypto.Cost(n=-2),
        crypto.Cost(r=0),
        crypto.Cost(p=1 << 20),
        None,
    ],
)
async def test_damaged_numbers_are_refused_before_any_memory_is_taken(
    here: Installation, cost: crypto.Cost | None
) -> None:
    await protected(here)
    (key,) = await here.database.credentials.keys()
    encoded = msgspec.json.encode(crypto.Derivation(salt=b"s", cost=cost)) if cost else b"{"
    await here.database.credentials.replace_key(WrappedKey(key.key_id, key.wrapped, encoded))
    vault = await here.vault()
    assert vault.info().mode == "locked"
    with pytest.raises(StorageError, match="damaged") as caught:
        await vault.unlock_with(PHRASE)
    assert "Forget" in caught.value.hint
    await vault.forget_passphrase()
    assert vault.info().mode == "session"


async def test_cheaper_numbers_put_in_by_somebody_else_open_nothing(here: Installation) -> None:
    await protected(here)
    (key,) = await here.database.credentials.keys()
    how = crypto.read_derivation(key.derivation)
    cheaper = msgspec.json.encode(crypto.Derivation(salt=how.salt, cost=crypto.Cost(n=2)))
    await here.database.credentials.replace_key(WrappedKey(key.key_id, key.wrapped, cheaper))
    vault = await here.vault()
    with pytest.raises(WrongPassphrase):
        await vault.unlock_with(PHRASE)


def test_a_wrapped_key_is_bound_to_how_its_key_is_made() -> None:
    key = crypto.new_key()
    how = crypto.new_derivation(CHEAP)
    given = {"install_id": "i", "key_id": "k"}
    wrapped = crypto.wrap(key, crypto.new_key(), derivation=how, **given)
    crypto.unwrap(key, wrapped, derivation=how, **given)
    for other in (b"", crypto.new_derivation(CHEAP)):
        with pytest.raises(crypto.Unreadable):
            crypto.unwrap(key, wrapped, derivation=other, **given)


@pytest.mark.parametrize(
    "command",
    [
        SetPassphrase(passphrase=PHRASE),
        UnlockKeys(passphrase=PHRASE),
        ChangePassphrase(passphrase=PHRASE, new_passphrase=PHRASE),
        SaveProvider(name="n", api="a", base_url="b", key=PHRASE),
        TestProvider(name="n", api="a", base_url="b", model="m", key=PHRASE),
    ],
    ids=lambda command: type(command).__name__,
)
def test_what_carries_a_secret_does_not_show_it(command: msgspec.Struct) -> None:
    for shown in (repr(command), str(command), f"{command}", repr([command])):
        assert PHRASE not in shown
        assert type(command).__name__ in shown
