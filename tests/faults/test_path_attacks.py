"""Paths that want out of the session's folder, and folders that turn into links meanwhile."""

import asyncio
import contextlib
import ctypes
import os
import sys
import threading
import time
import unicodedata
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from agent_sdk.core.environment import child_environment
from agent_sdk.core.errors import ToolError
from agent_sdk.core.process import ProcessOwner
from agent_sdk.loop.types import PermissionRequest, Rule
from agent_sdk.permissions.ruleset import BUILTIN_RULES, evaluate_layers
from agent_sdk.tools.glob import GlobTool
from agent_sdk.tools.grep import GrepTool
from tests.support.file_tools import Workbench

if sys.platform == "win32":
    pytest.skip("links, and paths of POSIX", allow_module_level=True)

SECRET = "the secret\n"


class Attack:
    """A session's folder, and beside it what must not be reached."""

    def __init__(self, folder: Path, owner: ProcessOwner) -> None:
        self.outside = folder / "root_evil"  # begins like the session's folder
        self.outside.mkdir()
        (self.outside / "secret").write_text(SECRET)
        (folder / "root").mkdir()
        self.home = folder / "home"
        self.home.mkdir()
        (self.home / "secret").write_text(SECRET)
        self.bench = Workbench(folder / "root", home=str(self.home))
        self.bench.put("inside", "mine\n")
        for tool in (
            GlobTool(guard=self.bench.guard),
            GrepTool(
                guard=self.bench.guard,
                may_read=lambda path: True,
                processes=owner,
                environment=child_environment(os.environ),
            ),
        ):
            self.bench.tools[tool.name] = tool
        self._before = self._picture()

    def _picture(self) -> dict[str, tuple[str, int]]:
        return {
            str(path): (path.read_text(), path.stat().st_ino)
            for folder in (self.outside, self.home)
            for path in folder.rglob("*")
            if path.is_file()
        }

    def untouched(self) -> bool:
        """Whether nothing outside was changed, created or replaced."""
        return self._picture() == self._before

    def calls(self, path: str) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield a call of every tool with a path."""
        yield "read", {"file_path": path}
        yield "write", {"file_path": path, "content": "x\n"}
        yield "edit", {"file_path": path, "old_string": "secret", "new_string": "x"}
        yield "apply_patch", {"patch": f"--- {path}\n+++ {path}\n@@ -1 +1 @@\n-the secret\n+x\n"}
        yield "apply_patch", {"patch": f"--- /dev/null\n+++ {path}\n@@ -0,0 +1 @@\n+x\n"}
        yield "glob", {"pattern": "*", "path": path}
        yield "grep", {"pattern": "secret", "path": path}

    def ask(self, tool: str, raw: dict[str, Any]) -> tuple[Any, tuple[PermissionRequest, ...]]:
        return self.bench.prepare(tool, **raw)

    async def without_a_question(self, path: str) -> list[str]:
        """Call every tool as often as the built-in rules alone allow it; return what it said.

        Editing is allowed in the session's folder here, so that only the way
        out is in question.
        """
        rules = (*BUILTIN_RULES, Rule("edit", f"{self.bench.cwd}/*", "allow"))
        said: list[str] = []
        for tool, raw in self.calls(path):
            with contextlib.suppress(ToolError):
                args, requests = self.ask(tool, raw)
                if all(
                    evaluate_layers([rules], r) == "allow" and not r.protected for r in requests
                ):
                    said.append(str((await self.bench.run(tool, args)).content))
        return said


@pytest.fixture
async def attack(tmp_path: Path) -> AsyncIterator[Attack]:
    async with ProcessOwner() as owner:
        yield Attack(tmp_path, owner)


# ------------------------------------------------------------------------- spellings


@pytest.mark.parametrize(
    "path",
    [
        "../root_evil/secret",
        "./../root_evil/secret",
        "a/../../root_evil/secret",
        "inside/../../root_evil/secret",
        "..//root_evil///secret",
        "../root_evil/./secret",
        "../root_evil/secret/",
        "../root_evil",
        "../root/../root_evil/secret",
        "{root}_evil/secret",
        "{root}/../root_evil/secret",
        "//{root}_evil/secret",
        "/{root}/../root_evil/secret",
        "~/secret",
        "~/../root_evil/secret",
        "@../root_evil/secret",
        "@{root}_evil/secret",
        "/proc/self/root{root}_evil/secret",
        "/proc/self/cwd/../../../../../../../..{root}_evil/secret",
        "/proc/thread-self/root{root}_evil/secret",
        "/dev/fd/../../..{root}_evil/secret",
    ],
)
async def test_ways_out(attack: Attack, path: str) -> None:
    path = path.format(root=attack.bench.cwd)
    said = await attack.without_a_question(path)
    assert not any("secret" in text for text in said)
    assert attack.untouched()
    # And whoever may be asked is shown where it leads.
    for tool, raw in attack.calls(path):
        with contextlib.suppress(ToolError):
            _, requests = attack.ask(tool, raw)
            real = [p for r in requests for p in r.patterns]
            if any(not p.startswith(f"{attack.bench.cwd}/") for p in real):
                assert "external_directory" in [r.permission for r in requests]


@pytest.mark.parametrize(
    "path",
    [
        "%2e%2e/root_evil/secret",
        "..%2froot_evil%2fsecret",
        "..\\root_evil\\secret",
        "C:\\secret",
        "C:secret",
        "\\\\server\\share\\secret",
        "\\\\?\\C:\\secret",
        "inside::$DATA",
        "CON",
        "nul.txt",
        "．．／root_evil／secret",
        "..\u200b/secret",
        "$HOME/secret",
        "~root/secret",
        "~+/secret",
        "-rf",
        "...",
    ],
)
async def test_what_is_special_elsewhere_is_an_ordinary_name_here(
    attack: Attack, path: str
) -> None:
    said = await attack.without_a_question(path)
    assert not any(SECRET in text for text in said)
    assert attack.untouched()
    created = [p for p in attack.bench.at("").rglob("*") if p.name != "inside"]
    assert all(p.is_relative_to(attack.bench.cwd) for p in created)


@pytest.mark.parametrize(
    "path", ["", " ", "a\0b", "a\0/../../root_evil/secret", "file:///etc/passwd"]
)
def test_what_means_nothing_is_refused(attack: Attack, path: str) -> None:
    tools = ["read", "write", "edit"]
    if path:  # for a search it is as good as none
        tools += ["glob", "grep"]
    for tool in tools:
        raw = dict(next(raw for name, raw in attack.calls(path) if name == tool))
        with pytest.raises(ToolError):
            attack.ask(tool, raw)


# ----------------------------------------------------------------------------- links


def a_file(attack: Attack) -> str:
    attack.bench.at("link").symlink_to(attack.outside / "secret")
    return "link"


def a_folder(attack: Attack) -> str:
    attack.bench.at("link").symlink_to(attack.outside)
    return "link/secret"


def relative(attack: Attack) -> str:
    attack.bench.at("deep").mkdir()
    attack.bench.at("deep/link").symlink_to("../../root_evil")
    return "deep/link/secret"


def chain(attack: Attack) -> str:
    attack.bench.at("c").symlink_to(attack.outside)
    attack.bench.at("b").symlink_to("c")
    attack.bench.at("a").symlink_to(f"{attack.bench.cwd}/b")
    return "a/secret"


def dots_after_a_link(attack: Attack) -> str:
    (attack.outside / "deep").mkdir()
    attack.bench.at("link").symlink_to(attack.outside / "deep")
    return "link/../secret"


def through_proc(attack: Attack) -> str:
    attack.bench.at("link").symlink_to(f"/proc/self/root{attack.outside}")
    return "link/secret"


def dangling(attack: Attack) -> str:
    attack.bench.at("link").symlink_to(attack.outside / "new")
    return "link"


def dangling_folder(attack: Attack) -> str:
    attack.bench.at("link").symlink_to(attack.outside / "new")
    return "link/deeper/file"


def circle(attack: Attack) -> str:
    attack.bench.at("a").symlink_to("b")
    attack.bench.at("b").symlink_to("a")
    return "a/secret"


LINKS = (
    *(a_file, a_folder, relative, chain, dots_after_a_link, through_proc),
    *(dangling, dangling_folder, circle),
)


@pytest.mark.parametrize("link", LINKS)
async def test_links(attack: Attack, link: Any) -> None:
    path = link(attack)
    said = await attack.without_a_question(path)
    assert not any("secret\n" in text for text in said)
    assert attack.untouched()
    for tool, raw in attack.calls(path):
        with contextlib.suppress(ToolError):
            _, requests = attack.ask(tool, raw)
            assert "external_directory" in [r.permission for r in requests]
            assert all("→" in r.title and "root_evil" in r.title for r in requests)


async def test_walking_does_not_follow_links_out(attack: Attack) -> None:
    attack.bench.at("link").symlink_to(attack.outside)
    attack.bench.at("file").symlink_to(attack.outside / "secret")
    attack.bench.at("up").symlink_to("..")
    attack.bench.at("self").symlink_to(".")
    for tool, raw in (
        ("glob", {"pattern": "**/*secret*"}),
        ("glob", {"pattern": "link/*"}),
        ("grep", {"pattern": "secret"}),
        ("grep", {"pattern": "secret", "glob": "**/secret"}),
    ):
        text = str((await attack.bench.call(tool, **raw)).content)
        assert "the secret" not in text
        assert "root_evil" not in text
        assert "link/secret" not in text


# ----------------------------------------------------------- what a rule denies stays denied


def spellings(attack: Attack) -> Iterator[str]:
    """Yield the ways to a file that is denied by name."""
    bench = attack.bench
    bench.put("prod.env", SECRET)
    bench.at("link").symlink_to("prod.env")
    os.link(bench.at("prod.env"), bench.at("hard"))
    bench.at("folder").symlink_to(".")
    yield from ("prod.env", "./prod.env", "folder/prod.env", "link", "hard", "folder/hard")
    yield f"{bench.cwd}/prod.env"
    yield f"/proc/self/root{bench.cwd}/prod.env"
    yield f"/proc/self/cwd{'/..' * 20}{bench.cwd}/prod.env"
    yield "PROD.ENV"
    yield "prod.Env"
    yield "prod.env/"
    yield "@prod.env"


def test_denied_in_every_spelling(attack: Attack) -> None:
    rules = tuple(Rule(key, "*.env", "deny") for key in ("read", "edit"))
    allow = tuple(Rule(key, "*", "allow") for key in ("read", "edit", "grep", "glob"))
    layers = (rules, allow)
    for path in spellings(attack):
        for tool, raw in attack.calls(path):
            if tool == "glob":
                continue
            try:
                _, requests = attack.ask(tool, raw)
            except ToolError:
                continue
            assert "deny" in [evaluate_layers(layers, r) for r in requests], (tool, path)


def test_denied_by_its_number(attack: Attack) -> None:
    attack.bench.put("prod.env", SECRET)
    layers = ((Rule("read", "*.env", "deny"),), (Rule("read", "*", "allow"),))
    with attack.bench.at("prod.env").open() as file:
        for path in (f"/dev/fd/{file.fileno()}", f"/proc/self/fd/{file.fileno()}"):
            _, requests = attack.ask("read", {"file_path": path})
            assert "deny" in [evaluate_layers(layers, r) for r in requests]


def test_denied_however_it_is_composed(attack: Attack) -> None:
    composed, apart = (unicodedata.normalize(form, "geheim-é") for form in ("NFC", "NFD"))
    for stored, denied in ((composed, apart), (apart, composed)):
        attack.bench.put(stored, SECRET)
        layers = ((Rule("read", f"*{denied}", "deny"),), (Rule("read", "*", "allow"),))
        _, requests = attack.ask("read", {"file_path": stored})
        assert "deny" in [evaluate_layers(layers, r) for r in requests]


# ----------------------------------------------------------------- what is no plain file


async def test_special_files_are_neither_read_nor_replaced(attack: Attack) -> None:
    bench = attack.bench
    os.mkfifo(bench.at("pipe"))
    bench.at("folder").mkdir()
    bench.at("null").symlink_to("/dev/null")
    bench.at("zero").symlink_to("/dev/zero")
    begun = time.monotonic()
    for path in ("pipe", "folder", "null", "zero", "/dev/zero", "/dev/tty", "/proc/kmsg"):
        for tool, raw in attack.calls(path):
            if tool in ("glob", "grep"):
                continue
            with pytest.raises(ToolError):
                await bench.call(tool, **raw)
    assert time.monotonic() - begun < 60  # it hangs, or it does not
    assert bench.at("pipe").is_fifo()
    assert bench.at("folder").is_dir()
    assert Path("/dev/null").is_char_device()


@pytest.mark.skipif(sys.platform != "linux", reason="/proc")
def test_memory_and_environment_are_secrets(attack: Attack) -> None:
    for path in ("/proc/self/environ", "/proc/self/mem", "/proc/1/environ", "/proc/kcore"):
        _, requests = attack.ask("read", {"file_path": path})
        assert all(r.protected for r in requests), path


# ------------------------------------------------------------------------------- races


class Swapper:
    """Exchanges two names over and over in a thread, so that neither is ever missing."""

    def __init__(self, *pairs: tuple[Path, Path]) -> None:
        self.swaps = 0
        self._pairs = [(os.fsencode(one), os.fsencode(other)) for one, other in pairs]
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        exchange = ctypes.CDLL(None, use_errno=True).renameat2
        while not self._stop.is_set():
            for one, other in self._pairs:
                # One of them may be gone for a moment, when a tool gives up a file.
                if exchange(-100, one, -100, other, 2) == 0:
                    self.swaps += 1
            if self.swaps % 7 == 0:  # let the others meet either state
                time.sleep(0.0003)

    def __enter__(self) -> "Swapper":
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        self._thread.join()


async def attempt(attack: Attack, tool: str, raw: dict[str, Any]) -> str:
    """Make a call if it needs nothing outside; return what it said, empty if refused."""
    try:
        args, requests = attack.ask(tool, raw)
        if any(r.permission == "external_directory" for r in requests):
            return ""
        return str((await attack.bench.run(tool, args)).content) or "done"
    except ToolError:
        return ""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="renameat2")
@pytest.mark.parametrize("swaps", [10_000, pytest.param(200_000, marks=pytest.mark.nightly)])
async def test_ten_thousand_swaps(attack: Attack, swaps: int) -> None:
    """A folder and a file become links out of the session's folder, and folder and file again."""
    bench = attack.bench
    bench.put("dir/secret", "mine 0\n")
    bench.put("dir/deep/secret", "mine\n")
    (attack.outside / "deep").mkdir()
    (attack.outside / "deep" / "secret").write_text(SECRET)
    bench.at("linked").symlink_to(attack.outside)
    bench.put("file", "mine\n")
    bench.at("other").symlink_to(attack.outside / "secret")
    attack._before = attack._picture()
    worked: dict[str, int] = {}
    seen: list[str] = []
    turn = 0

    def patch(path: str, old: str) -> str:
        return f"--- a/{path}\n+++ b/{path}\n@@ -1 +1 @@\n-{old}\n+mine {turn}\n"

    pairs = ((bench.at("dir"), bench.at("linked")), (bench.at("file"), bench.at("other")))
    tools = {"read", "write", "edit", "apply_patch", "glob", "grep", "create"}
    with Swapper(*pairs) as swapper:
        while swapper.swaps < swaps or set(worked) != tools:
            turn += 1
            path = ("dir/secret", "file", "dir/deep/secret")[turn % 3]
            text = await attempt(attack, "read", {"file_path": path})
            seen.append(text)
            current = text.partition("\t")[2].split("\n")[0]
            calls: list[tuple[str, str, dict[str, Any]]] = [
                ("read", "read", {"file_path": path}),
                ("write", "write", {"file_path": path, "content": f"mine {turn}\n"}),
                ("create", "write", {"file_path": f"dir/new/{turn}", "content": "mine\n"}),
                ("glob", "glob", {"pattern": "**/*"}),
            ]
            if current:
                edit = {"file_path": path, "old_string": current, "new_string": f"mine {turn}"}
                calls += [
                    ("edit", "edit", edit),
                    ("apply_patch", "apply_patch", {"patch": patch(path, current)}),
                ]
            if turn % 20 == 0:
                calls.append(("grep", "grep", {"pattern": "mine|secret"}))
            name, tool, raw = calls[turn % len(calls)]
            text = await attempt(attack, tool, raw)
            if text:
                worked[name] = worked.get(name, 0) + 1
                seen.append(text)
            await asyncio.sleep(0)
    assert attack.untouched()
    assert not any("the secret" in text for text in seen)
    assert not any("root_evil" in text for text in seen)
    assert set(worked) == tools  # each has worked at least once in the turmoil
