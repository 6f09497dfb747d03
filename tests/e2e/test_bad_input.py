"""Bad input: one clear error, the right exit code, and nothing lost or changed.

Folders, models, keys, servers and settings; sessions and disks are in
``test_bad_sessions``.
"""

import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_sdk.testing.mock_server import MockScript, MockServer, MockTurn
from agent_sdk.testing.mock_wire import APIS, WireApi
from tests.support.cli import Cli, Finished, program
from tests.support.transcripts import checked

ANSWER = MockScript(turns=(MockTurn(text="Here I am."),))
DROP = ("setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups")


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    return Cli(tmp_path)


def files(cli: Cli) -> list[Path]:
    return [path for path in cli.home.rglob("*") if path.is_file()]


def could_not_start(done: Finished, *said: str) -> None:
    """Check that it ended before it began, with one line that says why and what to do."""
    assert (done.code, done.text) == (2, ""), done.complaint
    assert len(done.complaint.splitlines()) == 1
    for text in said:
        assert text in done.error_line


# ------------------------------------------------------------ keys and models


async def test_named_model_without_a_key(cli: Cli) -> None:
    words = ("--model", "claude-sonnet-5-5", "--output-format", "stream-json")
    done = await cli.run("-p", "Hi.", *words)
    could_not_start(done, "There is no key for 'anthropic'", "ANTHROPIC_API_KEY")
    assert files(cli) == []


async def test_server_without_its_key(cli: Cli) -> None:
    cli.variables |= {"ZPI_BASE_URL": "https://models.example.com/v1", "ZPI_MODEL": "mock"}
    done = await cli.run("-p", "Hi.", env={"ANTHROPIC_API_KEY": "sk-ant-not-for-others"})
    could_not_start(done, "There is no key for 'custom'", "ZPI_API_KEY")


@pytest.mark.parametrize("api", APIS)
async def test_wrong_key(cli: Cli, api: WireApi) -> None:
    async with MockServer(MockScript(key="the-right-key", turns=ANSWER.turns)) as server:
        cli.use(server, api, key="sk-the-wrong-key")
        done = await cli.run("-p", "Hi.")
        assert len(server.requests) == 1  # a wrong key does not become right by asking again
        assert (done.code, done.text) == (1, "")
        assert "401" in done.error_line or "key" in done.error_line
        assert len(done.complaint.splitlines()) == 1
        assert "sk-the-wrong-key" not in done.complaint
        checked(cli.session)


async def test_wrong_key_in_json(cli: Cli) -> None:
    async with MockServer(MockScript(key="the-right-key", turns=ANSWER.turns)) as server:
        cli.use(server)
        done = await cli.run("-p", "Hi.", "--output-format", "json")
        # The prompt is not lost: with the right key the session goes on.
        cli.use(server, key="the-right-key")
        again = await cli.run("-p", "Again.", "--continue")
        assert (again.code, again.text) == (0, "Here I am.\n")
        assert "Hi." in str(server.requests[-1].body)
    assert done.code == 1
    assert done.result["is_error"] is True
    assert done.result["subtype"] == "error_during_execution"
    assert len(done.result["errors"]) == 1
    assert done.complaint == ""


async def test_unknown_model(cli: Cli) -> None:
    done = await cli.run("-p", "Hi.", "--model", "nonsuch-9", env={"OPENAI_API_KEY": "sk-x"})
    could_not_start(done, "'nonsuch-9'")
    assert files(cli) == []


async def test_model_that_the_server_does_not_know(cli: Cli) -> None:
    turn = MockTurn(fault="no_such_model")
    async with MockServer(MockScript(queue=(turn,))) as server:
        cli.use(server)
        done = await cli.run("-p", "Hi.", "--model", "nonsuch-9")
        assert len(server.requests) == 1
        assert server.requests[0].body["model"] == "nonsuch-9"
    assert done.code == 1
    assert done.error_line


async def test_server_without_a_model(cli: Cli) -> None:
    done = await cli.run("-p", "Hi.", env={"ZPI_BASE_URL": "http://127.0.0.1:9/v1"})
    could_not_start(done, "no model", "ZPI_MODEL")


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("ZPI_BASE_URL", "not a url", "ZPI_BASE_URL"),
        ("ZPI_BASE_URL", "http://user:pass@127.0.0.1/v1", "ZPI_BASE_URL"),
        ("ZPI_API_TYPE", "soap", "'soap'"),
        ("ZPI_AGENT_DIR", "relative/folder", "ZPI_AGENT_DIR"),
    ],
)
async def test_bad_environment(cli: Cli, name: str, value: str, said: str) -> None:
    cli.variables |= {"ZPI_BASE_URL": "http://127.0.0.1:9/v1", "ZPI_MODEL": "mock"}
    done = await cli.run("-p", "Hi.", env={name: value})
    could_not_start(done, said)
    assert "pass@" not in done.complaint
    assert files(cli) == []


# -------------------------------------------------------------------- servers


@pytest.mark.slow
async def test_unreachable_host(cli: Cli) -> None:
    with socket.socket() as taken:  # bound but not listening: whoever connects is refused
        taken.bind(("127.0.0.1", 0))
        cli.variables |= {
            "ZPI_BASE_URL": f"http://127.0.0.1:{taken.getsockname()[1]}/v1",
            "ZPI_API_TYPE": "openai-completions",
            "ZPI_MODEL": "mock",
        }
        done = await cli.run("-p", "Hi.")
    assert (done.code, done.text) == (1, "")
    assert "127.0.0.1" in done.error_line
    retries = [line for line in done.complaint.splitlines() if "Trying again in" in line]
    assert len(retries) == 4
    assert done.seconds < 20  # waits of at most 0.5, 1, 2 and 4 s, and the start
    checked(cli.session)


@pytest.mark.parametrize("fault", ["html_page", "bad_request", "quota"])
async def test_useless_answers_are_told_once(cli: Cli, fault: str) -> None:
    async with MockServer(MockScript(queue=(MockTurn(text="never", fault=fault),))) as server:
        cli.use(server)
        done = await cli.run("-p", "Hi.")
        assert done.code == 1
        assert done.error_line
        checked(cli.session)
        server.push(MockTurn(text="Better."))
        again = await cli.run("-p", "Again.", "--continue")
    assert (again.code, again.text) == (0, "Better.\n")


async def test_failure_that_passes_is_told_and_survived(cli: Cli) -> None:
    queue = (MockTurn(fault="overloaded"), MockTurn(text="Now I can."))
    async with MockServer(MockScript(queue=queue)) as server:
        cli.use(server)
        done = await cli.run("-p", "Hi.")
        assert len(server.requests) == 2
    assert (done.code, done.text) == (0, "Now I can.\n")
    assert "Trying again in" in done.complaint


# -------------------------------------------------------------------- folders


async def test_folder_is_gone(cli: Cli) -> None:
    cli.variables |= {"ZPI_BASE_URL": "http://127.0.0.1:9/v1", "ZPI_MODEL": "mock"}
    done = await cli.run("-p", "Hi.", "--cwd", str(cli.project / "没有"))
    could_not_start(done, "Cannot work in", "没有", "--cwd")
    assert files(cli) == []


async def test_folder_is_a_file(cli: Cli) -> None:
    path = cli.project / "a.txt"
    path.write_text("x")
    done = await cli.run("-p", "Hi.", "--cwd", str(path))
    could_not_start(done, "is not a folder", "a.txt")
    assert path.read_text() == "x"


@pytest.mark.skipif(sys.platform == "win32", reason="the folder of a process cannot be removed")
async def test_current_folder_is_gone(cli: Cli) -> None:
    gone = cli.project / "gone"
    gone.mkdir()
    shell = ("sh", "-c", 'rmdir "$PWD" && exec "$@"', "sh")
    done = await cli.run("-p", "Hi.", before=shell, cwd=gone)
    could_not_start(done, "Cannot work in", "--cwd")


async def test_folder_of_a_session_is_gone(cli: Cli) -> None:
    async with MockServer(ANSWER) as server:
        cli.use(server)
        await cli.run("-p", "Hi.")
        before = cli.session.read_bytes()
        cli.project.rmdir()
        done = await cli.run("-p", "More.", "--resume", cli.session.stem, cwd=cli.home)
        assert len(server.requests) == 1
    could_not_start(done, "Cannot work in", cli.project.name)
    assert cli.session.read_bytes() == before


@pytest.fixture
def nobody() -> Iterator[Cli]:
    """A user who is not allowed everything."""
    if sys.platform == "win32":
        pytest.skip("there are no privileges to drop")
    if os.getuid() != 0 or not shutil.which("setpriv"):
        pytest.skip("must be root, and have setpriv, to drop privileges")
    # Not below tmp_path, which belongs to root alone.
    folder = Path(tempfile.mkdtemp(prefix="zpi-nobody-"))
    try:
        cli = Cli(folder)
        for path in (folder, cli.home, cli.project):
            os.chown(path, 65534, 65534)
        starts = subprocess.run([*DROP, *program(), "--version"], capture_output=True, check=False)
        if starts.returncode:
            pytest.skip("the program itself cannot be read by others here")
        yield cli
    finally:
        shutil.rmtree(folder)


@pytest.mark.needs_root
async def test_folder_may_not_be_read(nobody: Cli) -> None:
    secret = nobody.project / "secret"
    secret.mkdir(mode=0o700)  # root's
    done = await nobody.run("-p", "Hi.", "--cwd", str(secret), before=DROP)
    could_not_start(done, "may not be read", "secret")
    assert files(nobody) == []


@pytest.mark.needs_root
async def test_home_may_not_be_written(nobody: Cli) -> None:
    shutil.chown(nobody.home, "root", "root")
    async with MockServer(ANSWER) as server:
        nobody.use(server)
        done = await nobody.run("-p", "Hi.", before=DROP)
        assert server.requests == []  # nothing is asked that could not be kept
    assert done.code == 1
    assert "Permission denied" in done.error_line


# ------------------------------------------------------------------- settings

DAMAGED = {
    "cut off": b'{"model": "cla',
    "not JSON": b"model = claude\n",
    "not an object": b'["model"]',
    "unknown field": b'{"modle": "claude"}',
    "wrong type": b'{"model": 5}',
    "twice": b'{"model": "a", "model": "b"}',
    "NULs": b"\0" * 64,
    "not UTF-8": b'{"model": "\xff\xfe"}',
    "bypass": b'{"permission_mode": "bypassPermissions"}',
    "bad rule": b'{"permissions": {"bash": "perhaps"}}',
}


@pytest.mark.parametrize("damage", list(DAMAGED))
async def test_damaged_settings(cli: Cli, damage: str) -> None:
    path = cli.write_settings("settings.json", DAMAGED[damage])
    async with MockServer(ANSWER) as server:
        cli.use(server)
        done = await cli.run("-p", "Hi.")
        assert server.requests == []
    could_not_start(done, "settings.json")
    assert path.read_bytes() == DAMAGED[damage]
    assert files(cli) == [path]


@pytest.mark.parametrize(
    ("damage", "command"),
    [("cut off", ("-p", "Hi.")), ("unknown field", ("models",)), ("NULs", ("-p", "Hi."))],
)
async def test_damaged_models(cli: Cli, damage: str, command: tuple[str, ...]) -> None:
    path = cli.write_settings("models.json", DAMAGED[damage])
    cli.variables |= {"ZPI_BASE_URL": "http://127.0.0.1:9/v1", "ZPI_MODEL": "mock"}
    done = await cli.run(*command)
    could_not_start(done, "models.json")
    assert path.read_bytes() == DAMAGED[damage]
    assert files(cli) == [path]


async def test_damaged_settings_of_a_project(cli: Cli) -> None:
    path = cli.project / ".zpi" / "settings.json"
    path.parent.mkdir()
    path.write_bytes(b'{"permissions": ')
    async with MockServer(ANSWER) as server:
        cli.use(server)
        done = await cli.run("-p", "Hi.")
        assert server.requests == []  # a rule that cannot be read might be one that denies
    could_not_start(done, "settings.json", cli.project.name)
    assert path.read_bytes() == b'{"permissions": '


@pytest.mark.skipif(sys.platform != "linux", reason="names that are no UTF-8")
async def test_a_folder_whose_name_is_no_text_can_be_told_of(tmp_path: Path) -> None:
    cli = Cli(tmp_path, project=tmp_path / os.fsdecode(b"old\xff"))
    listed = await cli.run("sessions")
    assert (listed.code, listed.text) == (0, f"There are no sessions for {tmp_path}/old\\xff.\n")
    async with MockServer(ANSWER) as server:
        cli.use(server)
        done = await cli.run("-p", "Hi.", "--output-format", "stream-json")
    assert (done.code, done.complaint) == (0, "")
    assert done.messages[0]["cwd"] == f"{tmp_path}/old\ufffd"


async def test_a_home_of_nobody_is_said(cli: Cli) -> None:
    done = await cli.run("sessions", env={"ZPI_AGENT_DIR": "~no-such-user/zpi"})
    assert done.code == 2
    assert "~no-such-user/zpi" in done.complaint
    assert "Traceback" not in done.complaint
