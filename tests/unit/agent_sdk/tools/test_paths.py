import os
import sys
import unicodedata
from pathlib import Path

import pytest

from agent_sdk.core.errors import InvalidToolInput, ToolError
from agent_sdk.tools.path_text import (
    from_portable,
    portable,
    relative_to,
    visible,
    windows_refusal,
    within,
)
from agent_sdk.tools.paths import PathGuard, ResolvedPath, Target, follow
from agent_sdk.tools.protected import ProtectedPaths

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="links and POSIX paths")

NOTHING = ProtectedPaths(write=(), secret=())


def resolve(
    given: str, cwd: Path, *, existing: bool = True, roots: tuple[str, ...] = ()
) -> ResolvedPath:
    guard = PathGuard(protected=NOTHING, home=str(cwd / "home"), roots=roots)
    return guard.resolve(given, os.path.realpath(cwd), existing=existing)


@pytest.fixture
def cwd(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / "src").mkdir(parents=True)
    (folder / "src" / "a.py").write_text("a")
    return folder


@pytest.mark.parametrize(
    "given",
    ["src/a.py", "./src/a.py", "src//a.py", "src/./a.py", "src/../src/a.py", "src/x/../a.py"],
)
def test_relative_spellings_mean_one_file(cwd: Path, given: str) -> None:
    found = resolve(given, cwd)
    assert found.real == str(cwd / "src/a.py")
    assert found.relative == "src/a.py"
    assert found.inside


def test_absolute_and_home(cwd: Path) -> None:
    assert resolve(str(cwd / "src/a.py"), cwd).relative == "src/a.py"
    assert resolve("~/x", cwd).real == str(cwd / "home/x")
    assert resolve("~", cwd).real == str(cwd / "home")
    assert resolve("~other/x", cwd).real == str(cwd / "~other/x")


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("", "empty"),
        ("  ", "empty"),
        ("a\0b", "NUL"),
        ("file:///etc/passwd", "URL"),
        ("FILE:x", "URL"),
        ("bad\ud83d", "Unicode"),
    ],
)
def test_refused(cwd: Path, given: str, says: str) -> None:
    with pytest.raises(InvalidToolInput, match=says):
        resolve(given, cwd)


def test_no_home_is_not_the_root(cwd: Path) -> None:
    guard = PathGuard(protected=NOTHING, home="")
    with pytest.raises(ToolError, match="No home folder"):
        guard.resolve("~/etc/passwd", str(cwd), existing=True)


def test_slash_at_the_end_names_a_folder(cwd: Path) -> None:
    assert resolve("src/", cwd).relative == "src"
    with pytest.raises(ToolError, match="slash"):
        resolve("src/a.py/", cwd)
    with pytest.raises(ToolError, match="slash"):
        resolve("new/", cwd, existing=False)


def test_percent_and_backslash_are_ordinary(cwd: Path) -> None:
    assert resolve("%2e%2e/x", cwd).relative == "%2e%2e/x"
    assert resolve(r"..\y", cwd).relative == r"..\y"


def test_containment_is_by_component(cwd: Path) -> None:
    assert not resolve(f"{cwd}_evil/x", cwd).inside
    assert not resolve("../project_evil/x", cwd).inside
    assert not resolve("..", cwd).inside
    assert resolve("../project/x", cwd).inside
    assert within("/a/b", "/")
    assert within("/a", "/a")
    assert not within("/ab", "/a")


def test_several_roots(cwd: Path, tmp_path: Path) -> None:
    other = str(tmp_path / "other")
    found = resolve("../other/x", cwd, roots=(str(cwd), other))
    assert (found.inside, found.root, found.relative) == (True, other, "")


def test_link_to_file_and_folder_and_chain(cwd: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_text("s")
    (cwd / "one").symlink_to("two")
    (cwd / "two").symlink_to(outside)
    found = resolve("one/secret", cwd)
    assert found.real == str(outside / "secret")
    assert found.links == (str(cwd / "one"), str(cwd / "two"))
    assert not found.inside


def test_dots_after_a_link_mean_the_parent_of_its_target(cwd: Path, tmp_path: Path) -> None:
    (tmp_path / "deep" / "er").mkdir(parents=True)
    (cwd / "link").symlink_to(tmp_path / "deep" / "er")
    assert resolve("link/../x", cwd).real == str(tmp_path / "deep" / "x")


def test_dangling_link_is_resolved(cwd: Path, tmp_path: Path) -> None:
    (cwd / "innocent.txt").symlink_to(tmp_path / "elsewhere" / "new")
    found = resolve("innocent.txt", cwd, existing=False)
    assert found.real == str(tmp_path / "elsewhere" / "new")
    assert not found.inside


def test_links_in_a_circle(cwd: Path) -> None:
    (cwd / "a").symlink_to("b")
    (cwd / "b").symlink_to("a")
    with pytest.raises(ToolError, match="circle"):
        resolve("a", cwd)


@pytest.mark.skipif(sys.platform != "linux", reason="/proc")
def test_magic_links_are_resolved_by_name(cwd: Path) -> None:
    assert resolve("/proc/self/root/etc/passwd", cwd).real == "/etc/passwd"
    assert resolve("/proc/self/cwd", cwd).real == os.path.realpath(os.getcwd())
    with (cwd / "src/a.py").open() as file:
        assert resolve(f"/dev/fd/{file.fileno()}", cwd).real == str(cwd / "src/a.py")


def test_cwd_that_became_a_link_is_no_longer_inside(cwd: Path, tmp_path: Path) -> None:
    before = os.path.realpath(cwd)
    cwd.rename(tmp_path / "moved")
    (tmp_path / "project").symlink_to("/etc")
    guard = PathGuard(protected=NOTHING, home="/")
    found = guard.resolve("passwd", before, existing=True)
    assert found.real == "/etc/passwd"
    assert not found.inside


def test_mention_sign(cwd: Path) -> None:
    assert resolve("@src/a.py", cwd).relative == "src/a.py"
    assert resolve("@src/new.py", cwd, existing=False).relative == "src/new.py"
    (cwd / "@scope").mkdir()
    assert resolve("@scope/new.py", cwd, existing=False).relative == "@scope/new.py"
    (cwd / "@file").write_text("x")
    assert resolve("@file", cwd).relative == "@file"


@pytest.mark.parametrize(
    ("name", "asked"),
    [
        ("Screenshot 3.15\u202fPM.png", "Screenshot 3.15 PM.png"),
        (unicodedata.normalize("NFD", "Übung.txt"), unicodedata.normalize("NFC", "Übung.txt")),
        ("it\u2019s.txt", "it's.txt"),
        ("全角\u3000空格.txt", "全角 空格.txt"),
    ],
)
def test_other_spellings_of_an_existing_file(cwd: Path, name: str, asked: str) -> None:
    (cwd / name).write_text("x")
    assert resolve(asked, cwd).real == str(cwd / name)
    # A new file gets the very name that was asked for.
    assert resolve(asked, cwd, existing=False).real == str(cwd / asked)


def test_ambiguous_spelling_is_not_guessed(cwd: Path) -> None:
    (cwd / "a\u00a0b").write_text("x")
    (cwd / "a\u202fb").write_text("x")
    assert resolve("a b", cwd).relative == "a b"


def test_name_that_is_no_utf8(cwd: Path) -> None:
    name = os.fsdecode(b"caf\xe9")
    (cwd / name).write_text("x")
    found = resolve(r"caf\xe9", cwd)
    assert found.real == str(cwd / name)
    assert found.shown == r"caf\xe9"
    found.relative.encode()  # can be stored


def test_hard_link_beside_it_is_named(cwd: Path) -> None:
    (cwd / ".env").write_text("KEY=1")
    os.link(cwd / ".env", cwd / "src/notes.txt")
    found = resolve("src/notes.txt", cwd)
    assert found.names == (str(cwd / ".env"),)
    assert resolve("src/a.py", cwd).names == ()


def test_target_stays_what_it_was(cwd: Path) -> None:
    guard = PathGuard(protected=NOTHING, home="/")
    (cwd / "link").symlink_to("src")
    target = Target("link/a.py", existing=True)
    real = os.path.realpath(cwd)
    first = target.resolve(guard, real)
    assert target.confirm(guard, real) is first
    (cwd / "link").unlink()
    (cwd / "link").symlink_to("/etc")
    assert target.resolve(guard, real) is first
    with pytest.raises(ToolError, match="leads elsewhere"):
        target.confirm(guard, real)


def test_follow_root_and_missing() -> None:
    assert follow("/") == ("/", ())
    assert follow("/nope/../x/") == ("/x", ())


def test_portable_is_injective_and_reversible() -> None:
    paths = ["a", r"a\b", r"a\xff", r"a\\xff", "a\udcff", "a\\\udcff", r"\x", "日本\udc80", "é"]
    forms = [portable(path) for path in paths]
    assert len(set(forms)) == len(paths)
    for path, form in zip(paths, forms, strict=True):
        form.encode()
        if "\\x" in form:
            assert from_portable(form) == path
    assert portable(r"a\b") == r"a\b"


def test_relative_to() -> None:
    assert relative_to("/a/b/c", "/a") == "b/c"
    assert relative_to("/a", "/a") == "."
    assert relative_to("/a/b", "/") == "a/b"
    assert relative_to("/ab", "/a") == ""


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain name.txt", "plain name.txt"),
        ("中文 é 🙂", "中文 é 🙂"),
        ("a\x1b[31mb", r"a\x1b[31mb"),
        ("a\nb", r"a\x0ab"),
        ("a\u202egnp.exe", r"a\u{202e}gnp.exe"),
        ("a\u200bb", r"a\u{200b}b"),
        ("a\U000e0041b", r"a\u{e0041}b"),
        ("a\u2028b", r"a\u{2028}b"),
        ("a\udcffb", r"a\xffb"),
    ],
)
def test_visible(text: str, shown: str) -> None:
    assert visible(text) == shown


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("src/a.py", ""),
        (r"C:\src\a.py", ""),
        ("../a", ""),
        (r"\\host\share\x", "network"),
        ("//host/share", "network"),
        (r"\\?\C:\x", "network or device"),
        (r"\\.\pipe\x", "network or device"),
        ("C:a.py", "drive"),
        (r"a.txt::$DATA", "stream"),
        (r"C:\a.txt:hidden", "stream"),
        ("src/CON", "device"),
        ("nul.txt", "device"),
        ("com1 .log", "device"),
        ("a./b", "dot"),
        ("b ", "space"),
    ],
)
def test_windows_refusals(path: str, says: str) -> None:
    refusal = windows_refusal(path)
    assert says in refusal
    assert bool(says) == bool(refusal)
