import zlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_sdk.core.errors import StorageError
from agent_sdk.core.failpoints import Faults
from agent_sdk.session.checkpoint_store import (
    CheckpointStore,
    FolderCheckpoints,
    MemoryCheckpoints,
    keep,
)
from agent_sdk.tools.file_state import sha256

LARGE = b"a line that comes again\n" * 5_000


@pytest.fixture(params=["folder", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> CheckpointStore:
    if request.param == "memory":
        return MemoryCheckpoints(limit=200_000)
    return FolderCheckpoints(tmp_path / "s" / "checkpoints", limit=200_000)


def test_contents_come_back(store: CheckpointStore) -> None:
    for content in (b"", b"\0", LARGE):
        assert store.get(sha256(content)) is None
        assert store.put(content)
        assert store.put(content)
        assert store.get(sha256(content)) == content
    assert store.get("../x") is None


def test_limit(store: CheckpointStore) -> None:
    noise = b"".join(sha256(bytes([n])).encode() for n in range(256))[:16_000]
    for n in range(12):
        assert store.put(noise + bytes([n]))
    assert not store.put(noise)
    assert store.put(noise + b"\1"), "what is kept already needs no room"
    with pytest.raises(StorageError, match=r"'a' is now cannot be kept.*limit"):
        keep(store, noise, name="a")


def test_plan(store: CheckpointStore) -> None:
    assert store.plan() is None
    store.set_plan(None)
    store.set_plan(b"{}")
    assert store.plan() == b"{}"
    store.set_plan(None)
    assert store.plan() is None


def test_large_ones_are_deflated_where_that_helps(tmp_path: Path) -> None:
    store = FolderCheckpoints(tmp_path)
    noise = b"".join(bytes.fromhex(sha256(bytes([n % 256, n // 256]))) for n in range(1_000))
    for content in (LARGE, noise, b"small " * 100):
        store.put(content)
    sizes = {path.name: path.stat().st_size for path in tmp_path.iterdir()}
    assert sizes.keys() == {f"{sha256(LARGE)}.z", sha256(noise), sha256(b"small " * 100)}
    assert sizes[f"{sha256(LARGE)}.z"] < len(LARGE) / 10
    assert FolderCheckpoints(tmp_path).get(sha256(LARGE)) == LARGE
    assert FolderCheckpoints(tmp_path, limit=sum(sizes.values())).put(LARGE)


@pytest.mark.parametrize("damage", [b"", b"x", zlib.compress(LARGE)[:-3], zlib.compress(b"other")])
def test_damaged_ones_are_not_there(tmp_path: Path, damage: bytes) -> None:
    store = FolderCheckpoints(tmp_path)
    store.put(LARGE)
    (tmp_path / f"{sha256(LARGE)}.z").write_bytes(damage)
    assert store.get(sha256(LARGE)) is None
    with pytest.raises(StorageError, match="damaged"):
        keep(store, LARGE, name="a")


def test_failed_write_keeps_nothing(tmp_path: Path) -> None:
    store = FolderCheckpoints(
        tmp_path / "c", faults=Faults(name="replace.sync", nth=1, action="eio")
    )
    with pytest.raises(StorageError):
        store.put(b"x")
    assert list((tmp_path / "c").iterdir()) == []
    assert store.put(b"x")


@given(contents=st.lists(st.binary(max_size=40), max_size=8))
def test_memory_counts_each_once(contents: list[bytes]) -> None:
    store = MemoryCheckpoints(limit=sum(map(len, set(contents))))
    assert all(store.put(content) for content in contents * 2)
    assert all(store.get(sha256(content)) == content for content in contents)


def test_nothing_is_kept_where_no_folder_can_be(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("a file")
    store = FolderCheckpoints(tmp_path / "a" / "b")
    assert store.plan() is None
    assert store.get("0" * 64) is None
