"""What children see of the environment: listed names, no secrets (X-C03, X-P09)."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_sdk.core.environment import child_environment, clean_path, search_path

POSIX = pytest.mark.skipif(os.name == "nt", reason="POSIX paths")


def test_listed_names_pass() -> None:
    host = {"HOME": "/h", "LC_ALL": "C", "XDG_CONFIG_HOME": "/c", "http_proxy": "http://p:1"}
    assert host.items() <= child_environment(host).items()


@pytest.mark.parametrize(
    "name",
    [
        *("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GITHUB_TOKEN", "AWS_SECRET_ACCESS_KEY"),
        *("ZPI_API_KEY", "ZPI_AUTH_TOKEN", "DB_PASSWORD", "LC_TOKEN", "XDG_SECRET_HOME"),
        *("BASH_ENV", "ENV", "LD_PRELOAD", "LD_LIBRARY_PATH", "PYTHONSTARTUP", "NODE_OPTIONS"),
        *("DYLD_INSERT_LIBRARIES", "BASH_FUNC_ls%%", "PROMPT_COMMAND", "GIT_SSH_COMMAND"),
        *("SSH_AUTH_SOCK", "DBUS_SESSION_BUS_ADDRESS", "ZPI_TASK_ID", "PERL5OPT", "IFS"),
    ],
)
def test_others_do_not(name: str) -> None:
    assert name not in child_environment({name: "canary"})


@given(st.text(min_size=1), st.sampled_from(["key", "Token", "SECRET", "password", "credential"]))
def test_no_name_that_sounds_like_a_secret_ever_passes(name: str, word: str) -> None:
    for spelled in (f"{name}{word}", f"LC_{word}".upper(), f"XDG_{word}_HOME".upper()):
        assert "canary" not in child_environment({spelled: "canary"}).values()


def test_an_address_with_a_login_does_not_pass() -> None:
    host = {"HTTPS_PROXY": "http://user:pass@proxy:1", "PIP_INDEX_URL": "https://t@host/simple"}
    assert not host.keys() & child_environment(host).keys()


def test_a_command_does_not_wait_for_a_person() -> None:
    assert child_environment({"PAGER": "less"})["PAGER"] == "cat"
    assert child_environment({})["GIT_TERMINAL_PROMPT"] == "0"


def test_tool_env_wins_and_passes_whatever_it_is_called() -> None:
    env = child_environment(
        {"HOME": "/h", "SSH_AUTH_SOCK": "/s"}, tool_env={"MY_TOKEN": "t", "PAGER": "more"}
    )
    assert (env["MY_TOKEN"], env["PAGER"], env["HOME"]) == ("t", "more", "/h")


def test_without_inheriting_nothing_else_is_left() -> None:
    host = {"PATH": "/bin", "HOME": "/h"}
    assert child_environment(host, tool_env={"A": "1"}, inherit=False) == {"A": "1"}


@POSIX
def test_path_loses_what_stands_for_the_current_folder() -> None:
    assert clean_path("/usr/bin:.::bin:./x:/bin:") == "/usr/bin:/bin"
    assert child_environment({"PATH": ":/bin:."})["PATH"] == "/bin"


@POSIX
def test_programs_are_not_looked_up_in_the_project(tmp_path: object) -> None:
    project = str(tmp_path)
    os.makedirs(f"{project}/bin")
    os.symlink(f"{project}/bin", f"{project}-link")
    try:
        env = {"PATH": f"{project}/bin:/bin:{project}-link:{project}-other:."}
        assert search_path(env, outside=[project]) == ["/bin", f"{project}-other"]
    finally:
        os.unlink(f"{project}-link")
    assert search_path({}) == []
