"""What people have written for the agent reaches the model, and what is wrong with it is told."""

from pathlib import Path

import pytest

from agent_sdk.testing.mock_server import MockScript, MockServer, MockTurn
from tests.support.cli import Cli
from tests.support.transcripts import checked

ANSWER = MockScript(turns=(MockTurn(text="Good."),))


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    return Cli(tmp_path)


def put(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


async def test_instructions_skills_and_commands_of_a_project(cli: Cli) -> None:
    put(cli.project / "AGENTS.md", "Use tabs, 世界.\n")
    put(
        cli.project / ".agents" / "skills" / "pdf" / "SKILL.md",
        "---\nname: pdf\ndescription: How to read PDF.\n---\nBody of the skill.\n",
    )
    put(cli.project / ".zpi" / "commands" / "greet.md", "Say hello to $1, please.\n")
    async with MockServer(ANSWER) as server:
        cli.use(server)
        done = await cli.run("-p", "/greet Ann")
        body = str(server.requests[0].body)
    assert (done.code, done.text, done.complaint) == (0, "Good.\n", "")
    assert "Use tabs, 世界." in body
    assert "How to read PDF." in body
    assert "Body of the skill." not in body
    assert "Say hello to Ann, please." in body
    prompts = [r for r in checked(cli.session) if r.get("origin", {}).get("kind") == "human"]
    assert len(prompts) == 1


async def test_what_cannot_be_used_is_told_and_stops_nothing(cli: Cli) -> None:
    put(cli.project / "AGENTS.md", "x" * (32 * 1024 + 1))
    put(cli.project / ".agents" / "skills" / "odd" / "SKILL.md", "---\nname: odd\n---\n")
    async with MockServer(ANSWER) as server:
        cli.use(server)
        done = await cli.run("-p", "Hello.")
        body = str(server.requests[0].body)
    assert (done.code, done.text) == (0, "Good.\n")
    assert "[ERROR]" in body
    assert "AGENTS.md" in done.complaint
    assert "odd" in done.complaint
