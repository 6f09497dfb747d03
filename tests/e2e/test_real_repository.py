"""The main job on a real folder: a git repository of more than a thousand files.

Its path has spaces and Chinese characters, and the three wire APIs are spoken.
"""

import os
import subprocess
from pathlib import Path

import pytest

from agent_sdk.providers.messages import AssistantMessage
from agent_sdk.testing.mock_server import MockCall, MockRule, MockScript, MockServer, MockTurn
from agent_sdk.testing.mock_wire import APIS, WireApi
from tests.support.cli import Cli
from tests.support.transcripts import blocks, checked, read_back, result_texts

FILES = 1_040
TARGETS = {api: f"源码/包 {at}/模块_{at}.py" for at, api in enumerate(APIS)}


def git(folder: Path, *words: str) -> str:
    said = subprocess.run(
        ["git", "-c", "core.quotepath=false", *words],
        cwd=folder,
        check=True,
        capture_output=True,
        env={**os.environ, "HOME": str(folder.parent)},
    )
    return said.stdout.decode()


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository that a person might have, but for its contents."""
    folder = tmp_path_factory.mktemp("repos") / "我的 项目 (copy)"
    for at in range(FILES):
        package = folder / ("源码" if at % 2 else "src") / f"包 {at % 40}"
        package.mkdir(parents=True, exist_ok=True)
        (package / f"file_{at}.py").write_text(f"VALUE = {at}\n" * 5, encoding="utf-8")
    for path in TARGETS.values():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes('def greet():\r\n    return "helo, 世界"\r\n'.encode())
    identity = ("-c", "user.name=Test", "-c", "user.email=test@example.invalid")
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", ".")
    git(folder, *identity, "-c", "commit.gpgsign=false", "commit", "-q", "-m", "Begin")
    return folder


def script_for(target: str) -> MockScript:
    command = "git --no-pager -c core.quotepath=false diff --stat && git ls-files | wc -l"
    return MockScript(
        rules=(
            MockRule(
                when="Fix the greeting",
                turns=(
                    MockTurn(
                        text="I will look first.",
                        calls=(MockCall(name="read", input={"file_path": target}),),
                    ),
                    MockTurn(
                        calls=(
                            MockCall(
                                name="edit",
                                input={
                                    "file_path": target,
                                    "old_string": '"helo, 世界"',
                                    "new_string": '"hello, 世界"',
                                },
                            ),
                        )
                    ),
                    MockTurn(calls=(MockCall(name="bash", input={"command": command}),)),
                    MockTurn(text="Fixed. git says: {last_result}"),
                ),
            ),
            MockRule(when="What did you do", turns=(MockTurn(text="I fixed a greeting: 世界."),)),
            MockRule(when="And the file", turns=(MockTurn(text="It was a module."),)),
        )
    )


@pytest.mark.slow
@pytest.mark.parametrize("api", APIS)
async def test_reads_edits_runs_and_goes_on(api: WireApi, repository: Path, tmp_path: Path) -> None:
    target = TARGETS[api]
    cli = Cli(tmp_path, project=repository)
    git(repository, "checkout", "-q", "--", ".")
    async with MockServer(script_for(target)) as server:
        cli.use(server, api)

        # It reads, edits and runs.
        first = await cli.run("-p", "Fix the greeting", "--allowed-tools", "Read,Edit,Bash")
        assert first.code == 0, first.complaint
        assert first.text.startswith("I will look first.\nFixed. git says: ")
        assert f"{target} |" in first.text
        assert str(FILES + len(APIS)) in first.text
        assert (repository / target).read_bytes() == (
            'def greet():\r\n    return "hello, 世界"\r\n'.encode()
        )
        assert git(repository, "status", "--porcelain") == f' M "{target}"\n'
        paths = {request.path for request in server.requests}
        assert len(paths) == 1
        assert {request.api for request in server.requests} == {api}
        assert [request.status for request in server.requests] == [200] * 4

        # The session is a whole chain that says what happened.
        records = checked(cli.session)
        assert records[0]["cwd"] == os.path.realpath(repository)
        read, edited, ran = result_texts(records)
        assert "helo, 世界" in read
        assert target in edited
        assert "1 file changed" in ran
        state = await read_back(cli.session)
        assert state.cwd == os.path.realpath(repository)
        answers = [m for m in state.model_messages() if isinstance(m, AssistantMessage)]
        assert [len(answer.tool_calls) for answer in answers] == [1, 1, 1, 0]
        stored = cli.session.read_bytes()

        # --continue goes on in the same file, and the model is told what was before.
        again = await cli.run("-p", "What did you do?", "--continue")
        assert (again.code, again.text) == (0, "I fixed a greeting: 世界.\n")
        assert cli.session.read_bytes().startswith(stored)
        asked = server.requests[-1].asked
        assert asked is not None
        assert (asked.turn, asked.results, asked.last_user) == (4, 3, "What did you do?")
        conversation = str(server.requests[-1].body)
        assert "Fix the greeting" in conversation
        assert "hello, 世界" in conversation

        # So does --resume with the beginning of the id, from any folder.
        prefix = cli.session.stem[:8]
        third = await cli.run("-p", "And the file?", "--resume", prefix, cwd=tmp_path)
        assert (third.code, third.text) == (0, "It was a module.\n")
        asked = server.requests[-1].asked
        assert asked is not None
        assert (asked.turn, asked.results) == (5, 3)

    prompts = [
        block["text"]
        for record in checked(cli.session)
        if record.get("origin", {}).get("kind") == "human"
        for block in blocks(record)
    ]
    assert prompts == ["Fix the greeting", "What did you do?", "And the file?"]
    await read_back(cli.session)
