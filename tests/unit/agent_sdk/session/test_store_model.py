"""Stores against a list model, with crashes; see ``tests.support.store_model``."""

import os
import random
import secrets
from pathlib import Path

import pytest

from agent_sdk.session import index
from tests.support.store_model import FilePlace, Place, Run, SqlPlace

NIGHTLY = bool(os.environ.get("ZPI_NIGHTLY"))
PARTS = 4
STEPS = 50
FILE_RUNS = (2000 if NIGHTLY else 200) // PARTS
SQL_RUNS = 200 if NIGHTLY else 5
SEED = int(
    os.environ.get("ZPI_MODEL_SEED", "") or (secrets.randbits(32) if NIGHTLY else 20_261_201)
)


async def live(place: Place, seed: str, steps: int) -> Run:
    run = Run(place, random.Random(seed))
    try:
        await run.go(steps)
    except Exception as error:
        error.add_note(f"seed {seed!r}; set ZPI_MODEL_SEED={SEED} to see it again")
        raise
    await place.end()
    return run


@pytest.mark.timeout(3600 if NIGHTLY else 240)
@pytest.mark.parametrize("part", range(PARTS))
async def test_files(part: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index, "MIN_FILE_BYTES", 10_000)  # so that indexes take part
    # What a crash leaves is chosen by the test; waiting for the disk would show nothing.
    monkeypatch.setattr("os.fsync", lambda _fd: None)
    crashes = partial = 0
    for number in range(FILE_RUNS):
        seed = f"{SEED}/{part}/{number}"
        run = await live(FilePlace(tmp_path / str(number)), seed, STEPS)
        crashes, partial = crashes + run.crashes, partial + run.partial
    assert crashes > FILE_RUNS
    assert partial > FILE_RUNS


@pytest.mark.timeout(3600 if NIGHTLY else 240)
async def test_databases(tmp_path: Path) -> None:
    crashes = partial = 0
    for number in range(SQL_RUNS):
        root = tmp_path / str(number)
        root.mkdir()
        run = await live(SqlPlace(root), f"{SEED}/sql/{number}", STEPS)
        crashes, partial = crashes + run.crashes, partial + run.partial
    assert crashes > SQL_RUNS
    assert partial > SQL_RUNS
