import unicodedata

import pytest

from agent_sdk.tools.protected import components, fold, load_protected

LISTS = load_protected(["/srv/zpi-data"])


@pytest.mark.parametrize(
    "path",
    [
        "/p/.git",
        "/p/.git/hooks/post-commit",
        "/p/sub/.git/config",
        "/p/.GIT/config",
        "/p/.git./config",
        "/p/.git::$INDEX_ALLOCATION/config",
        "/p/GIT~1/config",
        "/p/.g\u200cit/config",
        "C:\\p\\.git\\config",
        "/p/.zpi/settings.json",
        "/p/.claude/settings.local.json",
        "/p/.mcp.json",
        "/p/.vscode/tasks.json",
        "/p/.idea/workspace.xml",
        "/p/x.code-workspace",
        "/home/u/.bashrc",
        "/home/u/.zshrc",
        "/home/u/.profile",
        "/home/u/.ssh/authorized_keys",
        "/elsewhere/authorized_keys",
        "/home/u/.config/autostart/x.desktop",
        "/home/u/Library/LaunchAgents/x.plist",
        "/p/.npmrc",
        "/home/u/.pypirc",
        "/home/u/.netrc",
        "/var/spool/cron/crontabs/root",
        "/etc/profile.d/x.sh",
        "/srv/zpi-data",
        "/srv/zpi-data/sessions/x.jsonl",
        "/SRV/ZPI-Data/x",
    ],
)
def test_writing_is_protected(path: str) -> None:
    assert LISTS.write(path)


@pytest.mark.parametrize(
    "path",
    [
        "/p/src/a.py",
        "/p/.github/README.md",
        "/p/.gitignore",
        "/p/git/config",
        "/p/docs/.bashrc.md",
        "/p/my.git",
        "/p/etc/passwd",
        "/p/vscode/x",
        "/srv/zpi-data-2/x",
        "/p/autostart/readme.md",
        "/",
    ],
)
def test_writing_is_free(path: str) -> None:
    assert not LISTS.write(path)


@pytest.mark.parametrize(
    ("path", "secret"),
    [
        ("/home/u/.ssh/id_ed25519", True),
        ("/p/id_rsa", True),
        ("/proc/self/environ", True),
        ("/proc/1/task/1/environ", True),
        ("/home/u/.aws/credentials", True),
        ("/home/u/.netrc", True),
        ("/proc/cpuinfo", False),
        ("/p/.git/HEAD", False),
        ("/home/u/.bashrc", False),
        ("/p/environ", False),
    ],
)
def test_secrets(path: str, *, secret: bool) -> None:
    assert LISTS.secret(path) is secret


def test_every_secret_is_protected_against_writing() -> None:
    assert LISTS.write("/home/u/.ssh/new")


def test_fold() -> None:
    assert fold("ÉCOLE") == fold(unicodedata.normalize("NFD", "école"))
    assert fold("Straße") == fold("STRASSE")
    assert components("/A//b\\c/") == ("a", "b", "c")
