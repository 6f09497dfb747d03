"""A key goes to the server that it is meant for, and nowhere else."""

import os
import sys
from pathlib import Path

import pytest

from agent_sdk.testing.faults import Fault
from agent_sdk.testing.mock_server import MockCall, MockScript, MockServer, MockTurn
from agent_sdk.testing.mock_wire import APIS, WireApi
from tests.support.cli import Cli
from tests.support.transcripts import checked, result_texts

if sys.platform == "win32":
    pytest.skip("there is no /proc", allow_module_level=True)

CANARY = "sk-canary-3f1c9a7be2d84650"
OTHER = "sk-ant-canary-other-55d0c1"
KEYS = (CANARY, OTHER)

# What a command can see of itself and of those who started it, up to the program.
SPY = """\
env
pid=$$
while [ "$pid" -gt 1 ]; do
  echo "=== $pid"
  tr '\\0' '\\n' < "/proc/$pid/environ"
  said=$(tr '\\0' ' ' < "/proc/$pid/cmdline")
  echo "$said" | head -1
  case "$said" in *"Look aroun"[d]*) break;; esac
  pid=$(sed -n 's/^PPid:[[:space:]]*//p' "/proc/$pid/status")
done
"""


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    return Cli(tmp_path)


def holding(folder: Path) -> list[Path]:
    """Return the files below a folder, and names in it, that hold a key."""
    found = []
    for path in folder.rglob("*"):
        text = str(path).encode() + (path.read_bytes() if path.is_file() else b"")
        if any(key.encode() in text for key in KEYS):
            found.append(path)
    return found


@pytest.mark.parametrize(
    ("api", "output_format"), [*((api, "text") for api in APIS), (APIS[0], "stream-json")]
)
async def test_key_is_in_the_header_alone(
    cli: Cli, tmp_path: Path, api: WireApi, output_format: str
) -> None:
    calls = (
        MockCall(name="bash", input={"command": SPY}),
        MockCall(name="bash", input={"command": "export -p > seen.txt; set >> seen.txt"}),
        MockCall(name="read", input={"file_path": "/proc/self/environ"}),
        MockCall(name="bash", input={"command": "cat /proc/$PPID/environ | tr '\\0' '\\n'"}),
    )
    script = MockScript(turns=(MockTurn(calls=calls), MockTurn(text="I saw: {last_result}")))
    async with MockServer(script) as server:
        cli.use(server, api, key=CANARY)
        # A key of another provider, and a secret that no provider knows of.
        cli.variables |= {"ANTHROPIC_API_KEY": OTHER, "MY_SERVICE_TOKEN": "token-51ce"}
        words = ("--permission-mode", "bypassPermissions", "--output-format", output_format)
        done = await cli.run("-p", "Look around.", *words)
        requests = server.requests
    assert done.code in (0, 3), done.complaint
    for key in KEYS:
        assert key.encode() not in done.out
        assert key.encode() not in done.err
    assert holding(tmp_path) == []

    # The spy did look: at itself, at the supervisor, and at the program.
    seen = result_texts(checked(cli.session))[0]
    assert f"HOME={cli.home}" in seen
    assert seen.count("=== ") >= 3
    assert "Look around." in seen.splitlines()[-1]
    if os.getuid() == 0:  # to others the program's environment is closed altogether
        assert f"ZPI_BASE_URL={server.url}" in seen
        assert "\nZPI_API_KEY=\n" in seen
    own = (cli.project / "seen.txt").read_text()
    assert f"HOME={cli.home}" in own.replace("'", "").replace('"', "")
    assert "token-51ce" not in own  # what a command gets is on a list

    assert len(requests) == 2
    for request in requests:
        bearer = request.headers.get("authorization", "").removeprefix("Bearer ")
        assert CANARY in (bearer, request.headers.get("x-api-key"))
        assert [name for name, value in request.headers.items() if CANARY in value] in (
            ["authorization"],
            ["x-api-key"],
        )
        assert CANARY not in str(request.body)
        assert CANARY not in request.path
        assert OTHER not in str((request.headers, request.body, request.path))


@pytest.mark.parametrize("output_format", ["text", "json"])
async def test_server_that_repeats_the_key(cli: Cli, tmp_path: Path, output_format: str) -> None:
    fault = Fault(
        name="echo",
        expect=("authentication",),
        status=401,
        error=("authentication_error", f"Incorrect API key provided: {CANARY}."),
    )
    async with MockServer(
        MockScript(queue=(MockTurn(fault="echo"),)), faults={"echo": fault}
    ) as server:
        cli.use(server, key=CANARY)
        done = await cli.run("-p", "Hi.", "--output-format", output_format)
        assert len(server.requests) == 1
    assert done.code == 1
    assert "Incorrect API key provided" in done.text + done.complaint
    assert CANARY not in done.text + done.complaint
    assert holding(tmp_path) == []
    checked(cli.session)


async def test_key_in_a_config_file_is_refused(cli: Cli) -> None:
    settings = cli.write_settings("settings.json", f'{{"api_key": "{CANARY}"}}')
    done = await cli.run("-p", "Hi.")
    assert done.code == 2
    assert "settings.json" in done.error_line
    assert CANARY not in done.complaint
    assert CANARY in settings.read_text()  # the user's file is the user's
