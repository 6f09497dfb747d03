import asyncio
import itertools
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from agent_sdk.core.ids import RandomIds, SystemClock
from desktop.host.credentials import CredentialVault
from desktop.host.db import StateDatabase, open_database
from desktop.host.keystore import KeyStore
from tests.support.key_stores import (
    HangingStore,
    LockedStore,
    LyingStore,
    NoStore,
    NullStore,
    WorkingStore,
)

KEY = "sk-test-0123456789abcdef"
OTHER = "sk-test-fedcba9876543210"
PLACE = ("anthropic", "https://api.anthropic.com:443")
ELSEWHERE = ("openai", "https://api.openai.com:443")


class Installation:
    """A data folder that vaults are opened and closed on."""

    def __init__(self, database: StateDatabase, path: Path) -> None:
        self.database = database
        self.path = path
        self.secrets: list[str] = []
        self.open: list[CredentialVault] = []

    async def vault(self, store: KeyStore, *, limit: float = 0.2) -> CredentialVault:
        made = CredentialVault(
            rows=self.database.credentials,
            store=store,
            install_id=self.database.install_id,
            ids=RandomIds(),
            clock=SystemClock(),
            on_secret=self.secrets.append,
            limit=limit,
        )
        self.open.append(made)
        await made.start()
        await settled(made)
        return made

    def on_disk(self) -> bytes:
        files = [p for p in self.path.parent.rglob("*") if p.is_file()]
        assert files
        return b"".join(p.read_bytes() for p in files)


async def settled(vault: CredentialVault) -> None:
    """Wait until the key ring was asked, at most as long as it is waited for."""
    for _ in range(100):
        if (await vault.state()).mode != "pending":
            return
        await asyncio.sleep(0.01)


async def until(holds: Callable[[], bool]) -> None:
    for _ in range(500):
        if holds():
            return
        await asyncio.sleep(0.01)
    pytest.fail("it never came to hold")


@pytest.fixture
async def here(tmp_path: Path) -> AsyncIterator[Installation]:
    path = tmp_path / "state" / "state.sqlite"
    database = await open_database(path, ids=RandomIds(), clock=SystemClock())
    made = Installation(database, path)
    yield made
    for vault in made.open:
        await vault.aclose()
    await database.aclose()


async def test_a_key_is_kept_encrypted_and_there_after_a_restart(here: Installation) -> None:
    store = WorkingStore()
    vault = await here.vault(store)
    await vault.put(*PLACE, KEY)
    await vault.put(*ELSEWHERE, OTHER)
    assert await vault.get(*PLACE) == KEY
    assert (await vault.state()).mode == "keyring"
    assert vault.source(*PLACE) == "stored"
    await vault.aclose()
    assert vault.lookup(*PLACE) is None

    again = await here.vault(store)
    assert again.lookup(*PLACE) == KEY
    assert again.lookup(*ELSEWHERE) == OTHER
    assert len(store.entries) == 1  # one entry, however many keys
    assert KEY not in next(iter(store.entries.values()))
    await here.database.aclose()
    assert KEY.encode() not in here.on_disk()
    assert set(here.secrets) == {KEY, OTHER}


async def test_a_key_is_given_for_its_provider_and_origin_only(here: Installation) -> None:
    vault = await here.vault(WorkingStore())
    await vault.put(*PLACE, KEY)
    assert await vault.get("openai", PLACE[1]) is None
    assert await vault.get(PLACE[0], "https://other.example:443") is None


async def test_a_key_is_replaced_and_removed_at_once(here: Installation) -> None:
    store = WorkingStore()
    vault = await here.vault(store)
    await vault.put(*PLACE, KEY)
    await vault.put(*PLACE, OTHER)
    assert vault.lookup(*PLACE) == OTHER
    assert len(await here.database.credentials.rows()) == 1
    await vault.put(*ELSEWHERE, KEY)
    removing = vault.remove(PLACE[0], origin="https://other.example:443")
    await removing
    assert vault.lookup(*PLACE) == OTHER
    await vault.remove(PLACE[0])
    assert vault.lookup(*PLACE) is None
    assert vault.source(*PLACE) == "none"
    again = await here.vault(store)
    assert again.lookup(*PLACE) is None
    assert again.lookup(*ELSEWHERE) == KEY


STORES_THAT_KEEP_NOTHING = {
    "none": (NoStore, "session"),
    "null": (NullStore, "session"),
    "lying": (LyingStore, "session"),
    "locked": (LockedStore, "locked"),
    "hanging": (HangingStore, "locked"),
}


@pytest.mark.parametrize("kind", list(STORES_THAT_KEEP_NOTHING))
async def test_without_a_key_ring_keys_are_in_memory_and_the_user_is_told(
    here: Installation, kind: str
) -> None:
    make, mode = STORES_THAT_KEEP_NOTHING[kind]
    store = make()
    vault = await here.vault(store)
    await vault.put(*PLACE, KEY)
    info = await vault.state()
    assert info.mode == mode
    assert "in memory" in info.text
    assert await vault.get(*PLACE) == KEY
    assert vault.source(*PLACE) == "session"
    assert await here.database.credentials.rows() == []
    if isinstance(store, HangingStore):
        store.entries.clear()
    await vault.aclose()
    await here.database.aclose()
    assert KEY.encode() not in here.on_disk()


async def test_a_hanging_key_ring_holds_nothing_up_and_is_not_asked_twice_at_once(
    here: Installation,
) -> None:
    store = HangingStore()
    vault = await here.vault(store, limit=0.05)
    assert (await vault.state()).mode == "locked"
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await asyncio.sleep(0.005)
            ticks += 1

    beside = asyncio.ensure_future(tick())
    for key in (KEY, OTHER):
        await vault.put(*PLACE, key)
    await asyncio.sleep(0.05)
    beside.cancel()
    await asyncio.wait({beside})
    assert ticks >= 2
    assert store.calls == 1
    store.released.set()


async def test_keys_are_stored_when_the_dialog_is_answered_after_all(here: Installation) -> None:
    store = HangingStore()
    vault = await here.vault(store, limit=0.05)
    changes: list[str] = []
    vault.listen(lambda: changes.append(vault.info().mode))
    await vault.put(*PLACE, KEY)
    assert changes == ["locked"]
    store.released.set()
    await until(lambda: vault.source(*PLACE) == "stored")
    assert changes[-1] == "keyring"
    again = await here.vault(store)
    assert again.lookup(*PLACE) == KEY


async def test_a_locked_key_ring_can_be_tried_again(here: Installation) -> None:
    store = WorkingStore()
    first = await here.vault(store)
    await first.put(*PLACE, KEY)
    await first.aclose()

    locked = LockedStore(store.entries)
    vault = await here.vault(locked)
    assert vault.lookup(*PLACE) is None
    assert vault.source(*PLACE) == "stored"  # it is there, and cannot be read now
    assert (await vault.state()).mode == "locked"
    await vault.put(*ELSEWHERE, OTHER)
    locked.locked = False
    await vault.unlock()
    assert vault.lookup(*PLACE) == KEY
    assert vault.source(*ELSEWHERE) == "stored"
    assert (await vault.state()).mode == "keyring"


async def test_replacing_a_key_under_a_locked_ring_never_brings_the_old_one_back(
    here: Installation,
) -> None:
    store = WorkingStore()
    first = await here.vault(store)
    await first.put(*PLACE, KEY)
    await first.aclose()
    second = await here.vault(LockedStore(store.entries))
    await second.put(*PLACE, OTHER)
    assert second.lookup(*PLACE) == OTHER
    await second.aclose()
    third = await here.vault(store)
    assert third.lookup(*PLACE) is None


async def test_a_lost_entry_means_enter_again_and_no_new_key_by_itself(here: Installation) -> None:
    store = WorkingStore()
    first = await here.vault(store)
    await first.put(*PLACE, KEY)
    await first.put(*ELSEWHERE, OTHER)
    await first.aclose()
    lost = dict(store.entries)
    store.entries.clear()

    vault = await here.vault(store)
    assert vault.lookup(*PLACE) is None
    assert vault.source(*PLACE) == "none"
    info = await vault.state()
    assert info.unreadable == ("anthropic", "openai")
    assert store.entries == {}  # nothing was made in its place
    assert len(await here.database.credentials.keys()) == 1

    await vault.put(*PLACE, "entered-again-123")
    assert vault.lookup(*PLACE) == "entered-again-123"
    assert (await vault.state()).unreadable == ("openai",)
    await vault.aclose()

    store.entries |= lost  # the entry has come back, from a backup of the ring
    again = await here.vault(store)
    assert again.lookup(*PLACE) == "entered-again-123"
    assert again.lookup(*ELSEWHERE) == OTHER


async def test_an_entry_that_is_not_ours_opens_nothing(here: Installation) -> None:
    store = WorkingStore()
    first = await here.vault(store)
    await first.put(*PLACE, KEY)
    await first.aclose()
    entry = next(iter(store.entries))
    for value in ("", "not base64!", "AAAA", "A" * 43 + "="):
        store.entries[entry] = value
        vault = await here.vault(store)
        assert vault.lookup(*PLACE) is None
        assert vault.source(*PLACE) == "none"
        assert store.entries[entry] == value
        await vault.aclose()


async def test_a_changed_or_moved_row_is_unreadable_and_the_others_are_fine(
    here: Installation,
) -> None:
    store = WorkingStore()
    vault = await here.vault(store)
    await vault.put(*PLACE, KEY)
    await vault.put(*ELSEWHERE, OTHER)
    await vault.aclose()
    rows = {row.provider: row for row in await here.database.credentials.rows()}
    good = rows["openai"].sealed
    # The one key in the other's place: it would be sent to the other's server.
    await here.database.credentials.put(
        "anthropic", PLACE[1], key_id=rows["openai"].key_id, seal=lambda _: good
    )
    again = await here.vault(store)
    assert again.lookup(*PLACE) is None
    assert again.lookup(*ELSEWHERE) == OTHER
    assert (await again.state()).unreadable == ("anthropic",)


async def test_every_bit_counts(here: Installation) -> None:
    store = WorkingStore()
    vault = await here.vault(store)
    await vault.put(*PLACE, KEY)
    row = (await here.database.credentials.rows())[0]
    for at, bit in itertools.product((0, 3, 15, len(row.sealed) - 1), (1, 128)):
        flipped = bytearray(row.sealed)
        flipped[at] ^= bit

        def seal(_: object, data: bytes = bytes(flipped)) -> bytes:
            return data

        await here.database.credentials.put(*PLACE, key_id=row.key_id, seal=seal)
        again = await here.vault(store)
        assert again.lookup(*PLACE) is None
        await again.aclose()


async def test_a_database_without_its_own_install_id_opens_nothing(here: Installation) -> None:
    store = WorkingStore()
    vault = await here.vault(store)
    await vault.put(*PLACE, KEY)
    here.database.install_id = "another installation"
    again = await here.vault(store)
    assert again.lookup(*PLACE) is None


async def test_starting_waits_half_a_second_at_most(here: Installation) -> None:
    store = WorkingStore()
    vault = await here.vault(store)
    await vault.put(*PLACE, KEY)
    await vault.aclose()
    hanging = HangingStore(store.entries)
    slow = CredentialVault(
        rows=here.database.credentials,
        store=hanging,
        install_id=here.database.install_id,
        ids=RandomIds(),
        clock=SystemClock(),
        on_secret=here.secrets.append,
        limit=30,
    )
    async with asyncio.timeout(10):
        await slow.start()
    assert slow.info().mode == "pending"
    assert slow.source(*PLACE) == "stored"
    hanging.released.set()
    await until(lambda: slow.lookup(*PLACE) == KEY)
    await slow.aclose()


async def test_removing_while_a_key_is_being_stored_wins(here: Installation) -> None:
    store = WorkingStore()
    vault = await here.vault(store)
    putting = asyncio.ensure_future(vault.put(*PLACE, KEY))
    await asyncio.sleep(0)
    await vault.remove(PLACE[0])
    await putting
    assert vault.lookup(*PLACE) is None
    assert await here.database.credentials.rows() == []
