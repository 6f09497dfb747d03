"""Key stores as they are met: one that works, none, locked, hanging, and two that lie."""

import threading

from typing_extensions import override

from desktop.host.keystore import KeyStoreLocked, NoKeyStore


class WorkingStore:
    """Keeps what it is given; ``asked`` says what was done."""

    def __init__(self) -> None:
        self.entries: dict[str, str] = {}
        self.asked: list[str] = []

    def name(self) -> str:
        self.asked.append("name")
        return "a key ring"

    def get(self, entry: str) -> str | None:
        self.asked.append(f"get {entry}")
        return self.entries.get(entry)

    def set(self, entry: str, secret: str) -> None:
        self.asked.append(f"set {entry}")
        self.entries[entry] = secret


class NoStore(WorkingStore):
    """There is none."""

    @override
    def name(self) -> str:
        raise NoKeyStore("this system has no key ring that works")


class LockedStore(WorkingStore):
    """Refuses until it is unlocked."""

    def __init__(self, entries: dict[str, str] | None = None) -> None:
        super().__init__()
        self.entries = entries if entries is not None else {}
        self.locked = True

    @override
    def get(self, entry: str) -> str | None:
        if self.locked:
            raise KeyStoreLocked("it is locked")
        return super().get(entry)

    @override
    def set(self, entry: str, secret: str) -> None:
        if self.locked:
            raise KeyStoreLocked("it is locked")
        super().set(entry, secret)


class HangingStore(WorkingStore):
    """Answers nothing until it is released, like a dialog that nobody sees."""

    def __init__(self, entries: dict[str, str] | None = None) -> None:
        super().__init__()
        self.entries = entries if entries is not None else {}
        self.released = threading.Event()
        self.calls = 0

    @override
    def name(self) -> str:
        self.calls += 1
        if not self.released.wait(50):
            raise KeyStoreLocked("never released")
        return super().name()


class NullStore(WorkingStore):
    """Takes everything and keeps nothing."""

    @override
    def set(self, entry: str, secret: str) -> None:
        self.asked.append(f"set {entry}")


class LyingStore(WorkingStore):
    """Gives back something else than it was given."""

    @override
    def get(self, entry: str) -> str | None:
        return "AAAA" if entry in self.entries else None
