"""What may run, as the user of the command line decides it; nobody can be asked here."""

import json
from pathlib import Path
from typing import Any

import pytest

from agent_sdk.testing.mock_server import MockCall, MockScript, MockServer, MockTurn
from agent_sdk.testing.mock_wire import APIS, WireApi
from tests.support.cli import Cli, Finished
from tests.support.transcripts import checked, result_texts

READ = MockCall(name="read", input={"file_path": "a.txt"})
EDIT = MockCall(name="edit", input={"file_path": "a.txt", "old_string": "old", "new_string": "new"})
RUN = MockCall(name="bash", input={"command": "echo ran > ran.txt"})
END = MockTurn(text="That is all.")


def calling(*calls: MockCall) -> MockScript:
    """A model that makes the calls one answer after the other, then ends."""
    return MockScript(turns=(*(MockTurn(calls=(call,)) for call in calls), END))


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    cli = Cli(tmp_path)
    (cli.project / "a.txt").write_text("old\n", encoding="utf-8")
    return cli


def content(cli: Cli) -> str:
    return (cli.project / "a.txt").read_text(encoding="utf-8")


def ran(cli: Cli) -> bool:
    return (cli.project / "ran.txt").exists()


def told(server: MockServer) -> list[str]:
    """Return the last result that each request but the first held."""
    return [r.asked.last_result for r in server.requests[1:] if r.asked is not None]


# ----------------------------------------------------------------- no consent


@pytest.mark.parametrize("api", APIS)
async def test_nothing_changes_without_consent(cli: Cli, api: WireApi) -> None:
    async with MockServer(calling(READ, EDIT, RUN)) as server:
        cli.use(server, api)
        done = await cli.run("-p", "Change it.")
        results = told(server)
    assert done.code == 3
    assert done.text == "That is all.\n"
    assert (content(cli), ran(cli)) == ("old\n", False)
    # The model is told what was refused, that nothing was done, and what would allow it.
    assert results[0].endswith("old")
    assert "Permission is needed for edit" in results[1]
    assert "Nothing was done." in results[1]
    assert "--allowed-tools 'edit'" in results[1]
    assert "Permission is needed for bash 'echo ran > ran.txt'" in results[2]
    assert done.complaint.splitlines()[-1] == "2 calls were refused for want of permission."
    checked(cli.session)


async def test_refusals_are_listed_in_json(cli: Cli) -> None:
    async with MockServer(calling(READ, RUN)) as server:
        cli.use(server)
        done = await cli.run("-p", "Run it.", "--output-format", "stream-json")
    assert done.code == 3
    (denial,) = done.result["permission_denials"]
    assert denial["tool_name"] == "bash"
    assert denial["tool_input"] == RUN.input
    denied = [m for m in done.messages if m.get("subtype") == "permission_denied"]
    assert [m["tool_use_id"] for m in denied] == [denial["tool_use_id"]]
    assert done.result["is_error"] is False


async def test_file_outside_needs_consent(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "outside.txt").write_text("not yours", encoding="utf-8")
    (cli.project / "link").symlink_to(tmp_path)
    calls = [
        MockCall(name="read", input={"file_path": path})
        for path in (str(tmp_path / "outside.txt"), "../outside.txt", "link/outside.txt")
    ]
    async with MockServer(calling(*calls)) as server:
        cli.use(server)
        done = await cli.run("-p", "Read it.", "--allowed-tools", "Read")
        results = told(server)
    assert done.code == 3
    for result in results:
        assert "Permission is needed for external_directory" in result
    assert "not yours" not in cli.session.read_text(encoding="utf-8")


# --------------------------------------------------------------------- denied


@pytest.mark.parametrize("mode", ["default", "bypassPermissions"])
async def test_reason_of_a_denial_reaches_the_model(cli: Cli, mode: str) -> None:
    remove = MockCall(name="bash", input={"command": "rm -rf a.txt"})
    async with MockServer(calling(remove)) as server:
        cli.use(server)
        done = await cli.run(
            *("-p", "Remove it.", "--allowed-tools", "Bash"),
            *("--disallowed-tools", "Bash(rm *)", "--permission-mode", mode),
        )
        (result,) = told(server)
    assert done.code == 3
    assert result.startswith("A permission rule denies bash 'rm -rf a.txt'. Nothing was done.")
    assert content(cli) == "old\n"


async def test_denial_of_the_settings_is_not_lifted(cli: Cli) -> None:
    path = cli.write_settings("settings.json", json.dumps({"permissions": {"edit": "deny"}}))
    before = path.read_bytes()
    async with MockServer(calling(READ, EDIT)) as server:
        cli.use(server)
        words = ("--allowed-tools", "Edit", "--permission-mode", "bypassPermissions")
        done = await cli.run("-p", "Change it.", *words)
        results = told(server)
    assert done.code == 3
    assert "A permission rule denies edit" in results[1]
    assert content(cli) == "old\n"
    assert path.read_bytes() == before


async def test_project_can_only_tighten(cli: Cli) -> None:
    settings = cli.project / ".zpi" / "settings.json"
    settings.parent.mkdir()
    rules = {"permissions": {"bash": "allow", "edit": {"a.txt": "deny"}}, "model": "evil"}
    settings.write_text(json.dumps(rules), encoding="utf-8")
    async with MockServer(calling(READ, RUN, EDIT)) as server:
        cli.use(server)
        done = await cli.run("-p", "Change it.", "--allowed-tools", "Edit")
        results = told(server)
        assert server.requests[0].body["model"] == "mock"
    assert done.code == 3
    assert (content(cli), ran(cli)) == ("old\n", False)
    assert "Permission is needed for bash" in results[1]
    assert "A permission rule denies edit" in results[2]
    assert "'model' is refused in a project's settings" in done.complaint
    assert "a project cannot allow anything" in done.complaint


# ---------------------------------------------------------------------- modes


@pytest.mark.parametrize(
    ("mode", "words", "edited", "executed", "code"),
    [
        ("bypassPermissions", (), True, True, 0),
        ("acceptEdits", (), True, False, 3),
        ("plan", ("--allowed-tools", "Edit,Bash"), False, False, 3),
        ("dontAsk", ("--allowed-tools", "Edit"), True, False, 3),
        ("dontAsk", (), False, False, 3),
        ("auto", (), False, False, 3),
    ],
)
async def test_modes(
    cli: Cli, mode: str, words: tuple[str, ...], edited: bool, executed: bool, code: int
) -> None:
    async with MockServer(calling(READ, EDIT, RUN)) as server:
        cli.use(server)
        done = await cli.run("-p", "Change it.", "--permission-mode", mode, *words)
        results = told(server)
    assert done.code == code, done.complaint
    assert (content(cli), ran(cli)) == ("new\n" if edited else "old\n", executed)
    assert results[0].endswith("old")  # reading is allowed in all of them
    assert ("Nothing was" in results[1], "Nothing was" in results[2]) == (not edited, not executed)
    if mode == "plan":
        assert "plan mode" in results[1]
    if mode == "auto":
        assert "Permission mode 'auto'" in done.complaint
    modes = [r["mode"] for r in checked(cli.session) if r["type"] == "permission_mode_change"]
    assert modes == [mode]


async def test_bypass_is_told(cli: Cli) -> None:
    async with MockServer(calling(RUN)) as server:
        cli.use(server)
        done = await cli.run("-p", "Run it.", "--permission-mode", "bypassPermissions")
    assert (done.code, ran(cli)) == (0, True)
    assert "Permission mode 'bypassPermissions'" in done.complaint


async def test_bypass_ends_with_its_run(cli: Cli) -> None:
    async with MockServer(
        MockScript(turns=(MockTurn(calls=(RUN,)), END, MockTurn(calls=(RUN,)), END))
    ) as server:
        cli.use(server)
        first = await cli.run("-p", "Run it.", "--permission-mode", "bypassPermissions")
        assert (first.code, ran(cli)) == (0, True)
        (cli.project / "ran.txt").unlink()
        second = await cli.run("-p", "Run it again.", "--continue")
    assert (second.code, ran(cli)) == (3, False)


# ------------------------------------------------------------ protected files


def protected_calls(path: str) -> list[MockCall]:
    return [
        MockCall(name="write", input={"file_path": path, "content": "[core]\n"}),
        MockCall(name="read", input={"file_path": path}),
        MockCall(
            name="edit", input={"file_path": path, "old_string": "bare", "new_string": "evil"}
        ),
    ]


@pytest.mark.parametrize("path", [".git/config", "harmless.txt", ".GIT/config"])
async def test_protected_file_is_not_written_even_with_bypass(cli: Cli, path: str) -> None:
    config = cli.project / ".git" / "config"
    config.parent.mkdir()
    config.write_text("[core]\n\tbare = false\n", encoding="utf-8")
    if path == "harmless.txt":
        (cli.project / path).symlink_to(config)
    before = tree(cli.project)
    async with MockServer(calling(*protected_calls(path))) as server:
        cli.use(server)
        words = ("--permission-mode", "bypassPermissions", "--allowed-tools", "*")
        done = await cli.run("-p", "Set it.", *words)
        results = told(server)
    assert done.code == 3
    assert tree(cli.project) == before
    assert "This is protected: only a person can allow it" in results[0]


def tree(folder: Path) -> dict[str, Any]:
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in sorted(folder.rglob("*"))
    }


async def test_own_settings_are_protected(cli: Cli) -> None:
    path = cli.write_settings("settings.json", "{}")
    call = MockCall(name="write", input={"file_path": str(path), "content": '{"model": "evil"}'})
    async with MockServer(calling(call)) as server:
        cli.use(server)
        words = ("--permission-mode", "bypassPermissions", "--allowed-tools", "*")
        done: Finished = await cli.run("-p", "Set it.", *words)
    assert done.code == 3
    assert path.read_text() == "{}"
    assert "protected" in result_texts(checked(cli.session))[0]
