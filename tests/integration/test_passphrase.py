"""A passphrase in place of a key ring, through the real host process: commands, files, log, memory."""

import sys
from pathlib import Path

from desktop.bridge.messages import KeyStoreInfo, ModelsState
from desktop.bridge.protocol import (
    ChangePassphrase,
    Done,
    ForgetPassphrase,
    SaveProvider,
    SetPassphrase,
    Shutdown,
    UnlockKeys,
)
from tests.support.host import RunningHost, running_host

KEY = "sk-test-0123456789abcdef"
PHRASE = "four words that nobody knows"
NEW_PHRASE = "and four others that nobody knows"
SAVE = SaveProvider(
    name="mine",
    api="openai-completions",
    base_url="https://models.example/v1",
    models=("big",),
    key=KEY,
)


def key_store(host: RunningHost) -> KeyStoreInfo:
    state = host.states[ModelsState]
    assert isinstance(state, ModelsState)
    return state.key_store


def is_ready(host: RunningHost) -> bool:
    state = host.states[ModelsState]
    assert isinstance(state, ModelsState)
    return any(model.key == "mine/big" and model.ready for model in state.models)


async def begin(host: RunningHost, mode: str) -> None:
    await host.begin("models")
    await host.until(lambda: key_store(host).mode == mode)


async def end(host: RunningHost) -> bytes:
    await host.expect(Shutdown(), Done)
    assert await host.end() == 0
    return bytes(host.errors)


def peak_and_now(pid: int) -> tuple[int, int]:
    """Return MiB of memory that a process had at most, and has now."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    found = {name: rest for name, _, rest in (line.partition(":") for line in lines)}
    peak, now = (int(found[name].split()[0]) >> 10 for name in ("VmHWM", "VmRSS"))
    return peak, now


async def test_from_setting_it_to_forgetting_it_over_restarts(tmp_path: Path) -> None:
    logs = []
    async with running_host(tmp_path) as host:
        await begin(host, "session")
        await host.expect(SAVE, Done)
        short = await host.refused(SetPassphrase(passphrase="short"))
        assert short.error.code == "invalid_input"
        assert short.error.hint
        await host.expect(SetPassphrase(passphrase=PHRASE), Done)
        await host.until(lambda: key_store(host).mode == "passphrase")
        if sys.platform == "linux":
            peak, now = peak_and_now(host.process.pid)
            assert now < peak - 64  # what a try takes is given back
        logs.append(await end(host))
    async with running_host(tmp_path) as host:
        await begin(host, "locked")
        assert key_store(host).locked_by == "passphrase"
        assert not is_ready(host)
        wrong = await host.refused(UnlockKeys(passphrase=NEW_PHRASE))
        assert wrong.error.code == "wrong_passphrase"
        assert NEW_PHRASE not in wrong.error.text + wrong.error.hint
        await host.expect(UnlockKeys(passphrase=PHRASE), Done)
        await host.until(lambda: is_ready(host))
        await host.expect(ChangePassphrase(passphrase=PHRASE, new_passphrase=NEW_PHRASE), Done)
        host.raw(
            b'{"frame":"command","id":70,'
            b'"command":{"command":"unlock_keys","passphrase":"%s","x":1}}\n'
            b'{"frame":"command","command":{"command":"unlock_keys","passphrase":"%s"}}\n'
            % (NEW_PHRASE.encode(), PHRASE.encode())
        )
        await host.until(lambda: len(host.complaints) == 2)
        assert NEW_PHRASE not in repr(host.complaints)
        assert PHRASE not in repr(host.complaints)
        logs.append(await end(host))
    async with running_host(tmp_path) as host:
        await begin(host, "locked")
        assert (await host.refused(UnlockKeys(passphrase=PHRASE))).error.code == "wrong_passphrase"
        await host.expect(ForgetPassphrase(), Done)
        await host.until(lambda: key_store(host).mode == "session")
        again = await host.refused(ForgetPassphrase())
        assert again.error.code == "invalid_input"
        logs.append(await end(host))
    everything = b"".join([*logs, *(p.read_bytes() for p in tmp_path.rglob("*") if p.is_file())])
    for secret in (KEY, PHRASE, NEW_PHRASE):
        assert secret.encode() not in everything
