"""Keys with a real Secret Service: gnome-keyring on a D-Bus session of its own.

Each session is a process tree of its own with its own home, so that nothing
of the user's key ring is touched. Needs Debian's ``dbus`` and ``gnome-keyring``.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

MISSING = [
    name for name in ("dbus-run-session", "gnome-keyring-daemon") if shutil.which(name) is None
]
pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="the Secret Service is Linux'"),
    pytest.mark.skipif(
        bool(MISSING),
        reason=f"{', '.join(MISSING)} not installed (Debian packages dbus, gnome-keyring)",
    ),
    pytest.mark.slow,
]

ROOT = Path(__file__).parents[2]
PASSWORD = "a password of the key ring"
KEY = "sk-real-0123456789abcdef"
PROVIDER = "anthropic"
ORIGIN = "https://api.anthropic.com:443"

PROGRAM = """
import asyncio, json, logging, sys, time
from pathlib import Path
from agent_sdk.core.ids import RandomIds, SystemClock
from desktop.host.credentials import CredentialVault
from desktop.host.db import open_database
from desktop.host.keystore import SystemKeyRing
import os

async def main():
    path, steps = Path(sys.argv[1]), json.loads(sys.argv[2])
    clock = SystemClock()
    db = await open_database(path, ids=RandomIds(), clock=clock)
    vault = CredentialVault(
        rows=db.credentials, store=SystemKeyRing(environ=os.environ), install_id=db.install_id,
        ids=RandomIds(), clock=clock, on_secret=lambda s: None,
    )
    said = []
    begun = time.monotonic()
    await vault.start()
    while vault.info().mode == "pending":
        await asyncio.sleep(0.01)
    seconds = time.monotonic() - begun
    for step, *args in steps:
        said.append(await getattr(vault, step)(*args))
    info = vault.info()
    print(json.dumps({
        "said": said, "mode": info.mode, "text": info.text, "seconds": seconds,
        "source": vault.source(%r, %r),
    }))
    await vault.aclose()
    await db.aclose()

asyncio.run(main())
""" % (PROVIDER, ORIGIN)  # noqa: UP031 - the program is full of braces

UNLOCKED = "gnome-keyring-daemon --unlock --components=secrets >/dev/null 2>&1"


class Desk:
    """A home with a data folder, used by one session after the other."""

    def __init__(self, home: Path) -> None:
        self.home = home
        home.mkdir(mode=0o700)
        self.data = home / "data" / "state.sqlite"

    def session(
        self, *steps: list[str], password: str | None = PASSWORD, bus: bool = True
    ) -> dict[str, object]:
        """Run the steps in a new session; without a password no key ring is running."""
        environ = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("DBUS", "XDG", "DISPLAY", "WAYLAND", "GNOME", "SSH_AUTH"))
        }
        environ |= {
            "HOME": str(self.home),
            "XDG_RUNTIME_DIR": str(self.home),
            "XDG_DATA_HOME": str(self.home / "share"),
            "PYTHONPATH": str(ROOT),
        }
        if not bus:
            environ["DBUS_SESSION_BUS_ADDRESS"] = f"unix:path={self.home}/nowhere"
        program = [
            sys.executable,
            "-c",
            PROGRAM,
            str(self.data),
            msgspec.json.encode(steps).decode(),
        ]
        command = program
        if bus:
            begin = "" if password is None else f'printf %s "$0" | {UNLOCKED}; '
            shell = f'{begin}exec "$@"'
            command = ["dbus-run-session", "--", "sh", "-c", shell, password or "", *program]
        done = subprocess.run(command, env=environ, capture_output=True, timeout=50, check=False)
        assert done.returncode == 0, done.stderr.decode()
        found: dict[str, object] = msgspec.json.decode(done.stdout.splitlines()[-1])
        return found

    def everything(self) -> bytes:
        return b"".join(p.read_bytes() for p in self.home.rglob("*") if p.is_file())


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path / "home")


def get() -> list[str]:
    return ["get", PROVIDER, ORIGIN]


def put(key: str = KEY) -> list[str]:
    return ["put", PROVIDER, ORIGIN, key]


def test_there_and_back_in_another_session_and_gone(desk: Desk) -> None:
    first = desk.session(put(), get())
    assert first["said"] == [None, KEY]
    assert (first["mode"], first["source"]) == ("keyring", "stored")
    assert KEY.encode() not in desk.everything()
    second = desk.session(get(), ["remove", PROVIDER], get())
    assert second["said"] == [KEY, None, None]
    assert desk.session(get())["said"] == [None]


def test_a_ring_with_another_password_is_locked_and_open_again_later(desk: Desk) -> None:
    desk.session(put())
    locked = desk.session(get(), password="wrong")
    assert locked["said"] == [None]
    assert (locked["mode"], locked["source"]) == ("locked", "stored")
    assert desk.session(get())["said"] == [KEY]


def test_a_new_key_under_a_locked_ring_is_in_memory_only(desk: Desk) -> None:
    desk.session(put("the first key 123".replace(" ", "-")))
    locked = desk.session(put(), get(), password="wrong")
    assert locked["said"] == [None, KEY]
    assert (locked["mode"], locked["source"]) == ("locked", "session")
    assert KEY.encode() not in desk.everything()
    assert desk.session(get())["said"] == [None]


@pytest.mark.parametrize("bus", [True, False], ids=["no-service", "no-bus"])
def test_without_a_service_keys_are_in_memory_and_nothing_hangs(desk: Desk, bus: bool) -> None:
    # The service can be started by the bus where it is installed; it is then
    # locked for want of a screen. Either way nothing is on the disk.
    said = desk.session(put(), get(), password=None, bus=bus)
    assert said["said"] == [None, KEY]
    assert said["mode"] in ({"session", "locked"} if bus else {"session"})
    assert "in memory" in str(said["text"])
    assert KEY.encode() not in desk.everything()


def test_a_key_ring_that_is_no_key_ring_is_refused(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = "keyring.backends.null.Keyring"
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", backend)
    said = desk.session(put(), get())
    assert said["said"] == [None, KEY]
    assert said["mode"] == "session"
    assert backend in str(said["text"])
    assert KEY.encode() not in desk.everything()
