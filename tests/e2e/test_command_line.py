"""What the command line takes and says: formats, spellings, standard input, lists, languages."""

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest

import agent_sdk
from agent_sdk.testing.mock_server import MockCall, MockScript, MockServer, MockTurn
from agent_sdk.testing.mock_wire import APIS, WireApi
from tests.support.cli import Cli, module_program
from tests.support.transcripts import checked, result_texts

ANSWER = MockScript(turns=(MockTurn(text="Here: {last_user}"), MockTurn(text="And so on.")))
CHANGE = MockScript(
    turns=(
        MockTurn(
            text="I look.",
            thinking="Let me see.",
            calls=(MockCall(name="read", input={"file_path": "a.txt"}),),
        ),
        MockTurn(
            calls=(
                MockCall(
                    name="edit",
                    input={"file_path": "a.txt", "old_string": "old", "new_string": "new"},
                ),
            )
        ),
        MockTurn(calls=(MockCall(name="bash", input={"command": "git --version"}),)),
        MockTurn(text="All done, 世界. This is the end.", deltas=9),
    )
)


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    cli = Cli(tmp_path)
    (cli.project / "a.txt").write_text("old\n", encoding="utf-8")
    return cli


# ------------------------------------------------------------------- formats


async def test_text_is_the_answer_alone(cli: Cli) -> None:
    async with MockServer(CHANGE) as server:
        cli.use(server)
        done = await cli.run("-p", "Do it.", "--allowed-tools", "edit bash")
    assert done.code == 0
    assert done.text == "I look.\nAll done, 世界. This is the end.\n"
    assert done.complaint == "› read a.txt\n› edit a.txt\n› bash git --version\n"


async def test_json_is_one_result(cli: Cli) -> None:
    async with MockServer(CHANGE) as server:
        cli.use(server)
        done = await cli.run(
            "-p", "Do it.", "--allowed-tools", "edit,bash", "--output-format", "json"
        )
    assert (done.code, done.complaint) == (0, "")
    (result,) = done.messages
    assert result["type"] == "result"
    assert result["subtype"] == "success"
    assert result["is_error"] is False
    assert result["num_turns"] == 4
    assert result["result"] == "All done, 世界. This is the end."
    assert result["session_id"] == cli.session.stem
    assert result["usage"]["output_tokens"] == 80
    assert result["permission_denials"] == []


@pytest.mark.parametrize("api", APIS)
async def test_stream_json_tells_everything(cli: Cli, api: WireApi) -> None:
    async with MockServer(CHANGE) as server:
        cli.use(server, api)
        done = await cli.run(
            *("-p", "Do it.", "--allowed-tools", "Edit", "--allowed-tools", "Bash"),
            *("--output-format", "stream-json", "--include-partial-messages"),
        )
    assert (done.code, done.complaint) == (0, "")
    messages = done.messages
    assert {m["session_id"] for m in messages} == {cli.session.stem}
    assert len({m["uuid"] for m in messages}) == len(messages)
    assert (messages[0]["type"], messages[0]["subtype"]) == ("system", "init")
    assert messages[0]["cwd"] == os.path.realpath(cli.project)
    assert messages[0]["tools"] == ["read", "write", "edit", "bash", "glob", "grep", "todo"]
    assert [m["type"] for m in messages].count("result") == 1
    assert messages[-1]["type"] == "result"

    # The deltas of each answer join to what is said to be the answer.
    whole = [m["message"]["content"][0] for m in messages if m["type"] == "assistant"]
    assert joined(messages) == [b for b in whole if b["type"] in ("text", "tool_use")]
    assert whole[-1] == {"type": "text", "text": messages[-1]["result"]}
    deltas = [m for m in messages if m.get("event", {}).get("type") == "content_block_delta"]
    assert len(deltas) > 9

    # What was printed is in the file under the same id, results after their calls.
    stored = {record["uuid"] for record in checked(cli.session)}
    assert {m["uuid"] for m in messages if m["type"] == "user"} <= stored
    assert len({m["uuid"] for m in messages if m["type"] == "assistant"} & stored) == 4
    calls = [b["id"] for b in whole if b["type"] == "tool_use"]
    results = [m["message"]["content"][0]["tool_use_id"] for m in messages if m["type"] == "user"]
    assert calls == results


def joined(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Put the text and the calls together from the stream events alone."""
    found: list[dict[str, Any]] = []
    open_blocks: dict[int, dict[str, Any]] = {}
    arguments: dict[int, str] = {}
    for message in messages:
        event: dict[str, Any] = message.get("event", {})
        match event.get("type"):
            case "content_block_start":
                open_blocks[event["index"]] = dict(event["content_block"])
                arguments[event["index"]] = ""
            case "content_block_delta":
                delta = event["delta"]
                if delta["type"] == "text_delta":
                    open_blocks[event["index"]]["text"] += delta["text"]
                elif delta["type"] == "input_json_delta":
                    arguments[event["index"]] += delta["partial_json"]
            case "content_block_stop":
                block = open_blocks.pop(event["index"])
                if block["type"] == "tool_use":
                    block["input"] = json.loads(arguments[event["index"]])
                if block["type"] in ("text", "tool_use"):
                    found.append(block)
    assert open_blocks == {}
    return found


async def test_deltas_are_left_out_unless_wanted(cli: Cli) -> None:
    async with MockServer(ANSWER) as server:
        cli.use(server)
        done = await cli.run("-p", "Hi.", "--output-format", "stream-json")
    assert [m["type"] for m in done.messages] == ["system", "assistant", "result"]


async def test_max_turns_ends_the_run(cli: Cli) -> None:
    async with MockServer(CHANGE) as server:
        cli.use(server)
        words = ("-p", "Do it.", "--allowed-tools", "*", "--max-turns", "2")
        done = await cli.run(*words, "--output-format", "json")
        assert len(server.requests) == 2
    assert done.code == 4
    assert done.result["subtype"] == "error_max_turns"
    assert (cli.project / "a.txt").read_text() == "new\n"
    checked(cli.session)


async def test_session_in_memory_leaves_no_file(cli: Cli) -> None:
    async with MockServer(ANSWER) as server:
        cli.use(server)
        done = await cli.run("-p", "Hi.", "--no-session-persistence")
    assert (done.code, done.text) == (0, "Here: Hi.\n")
    assert [path for path in cli.home.rglob("*") if path.is_file()] == []


# ----------------------------------------------------------------- spellings


@pytest.mark.parametrize(
    "rules",
    ["Read,Edit,Bash", "read,edit,bash(git *)", "Edit Bash(git:*)"],
)
async def test_spellings_of_tools(cli: Cli, rules: str) -> None:
    async with MockServer(CHANGE) as server:
        cli.use(server)
        done = await cli.run("-p", "Do it.", "--allowedTools", rules)
    assert done.code == 0, done.complaint
    assert (cli.project / "a.txt").read_text() == "new\n"
    assert result_texts(checked(cli.session))[2].startswith("git version")


async def test_pattern_that_does_not_fit_allows_nothing(cli: Cli) -> None:
    async with MockServer(CHANGE) as server:
        cli.use(server)
        done = await cli.run("-p", "Do it.", "--allowed-tools", "Edit,Bash(hg *)")
    assert done.code == 3
    assert "Permission is needed for bash 'git --version'" in done.complaint


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("-p", "x", "--allowed-tools", "Reed"), "'Reed' is no tool."),
        (("-p", "x", "--allowed-tools", "Bash(git *"), "not closed"),
        (("-p", "x", "--permission-mode", "yolo"), "yolo"),
        (("-p", "x", "--output-format", "xml"), "xml"),
        (("-p", "x", "--max-turns", "0"), "--max-turns"),
        (("-p", "x", "--max-turns", "many"), "many"),
        (("-p", "x", "--resume", "abcdefgh", "--continue"), "exclude each other"),
        (("-p", "x", "--resume", "../../etc"), "'../../etc' is not a session id"),
        (("-p", "x", "--resume", "nosuchsession"), "There is no session 'nosuchsession'"),
        (("-p", "x", "--continue"), "no session to continue"),
        (("-p", "  "), "The prompt is empty."),
        (("--nonsense",), "--nonsense"),
        (("chat",), "There is no command 'chat'."),
        ((), "There is no prompt."),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
async def test_wrong_words_are_told(cli: Cli, words: tuple[str, ...], said: str) -> None:
    cli.variables |= {"ZPI_BASE_URL": "http://127.0.0.1:9/v1", "ZPI_MODEL": "mock"}
    done = await cli.run(*words)
    assert (done.code, done.text) == (2, "")
    assert said in done.error_line
    assert len(done.complaint.splitlines()) == 1
    assert cli.sessions == []


# ------------------------------------------------------------ standard input


async def test_prompt_from_standard_input(cli: Cli) -> None:
    async with MockServer(ANSWER) as server:
        cli.use(server)
        done = await cli.run("-p", stdin="Erkläre 世界.\n".encode())
    assert (done.code, done.text) == (0, "Here: Erkläre 世界.\n")


async def test_piped_text_goes_behind_the_prompt(cli: Cli) -> None:
    async with MockServer(ANSWER) as server:
        cli.use(server)
        done = await cli.run("-p", "Review this.", stdin=b"+ added\n- gone\n")
    assert (done.code, done.text) == (0, "Here: Review this.\n\n+ added\n- gone\n")


async def test_silent_pipe_is_left_alone(cli: Cli) -> None:
    async with MockServer(ANSWER) as server:
        cli.use(server)
        async with cli.start("-p", "Hi.", stdin=asyncio.subprocess.PIPE) as running:
            out, err = running.process.stdout, running.process.stderr
            assert out is not None
            assert err is not None
            said = await asyncio.wait_for(asyncio.gather(out.read(), err.read()), 20)
            assert await running.process.wait() == 0
    assert said[0] == b"Here: Hi.\n"
    assert b"Nothing came on standard input for 3 s" in said[1]


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "The prompt on standard input is empty."),
        (b" \n\n", "The prompt on standard input is empty."),
        (b"abc\xff\xfe", "Standard input is not UTF-8 text (byte 3)."),
    ],
    ids=["nothing", "blank", "binary"],
)
async def test_useless_standard_input(cli: Cli, data: bytes, said: str) -> None:
    cli.variables |= {"ZPI_BASE_URL": "http://127.0.0.1:9/v1", "ZPI_MODEL": "mock"}
    done = await cli.run("-p", stdin=data)
    assert done.code == 2
    assert said in done.error_line
    assert cli.sessions == []


# --------------------------------------------------------------------- lists


async def test_version_and_help(cli: Cli) -> None:
    version = await cli.run("--version")
    assert (version.code, version.text) == (0, f"zpi {agent_sdk.__version__}\n")
    assert version.complaint == ""
    shown = await cli.run("--help", argv=module_program())
    assert (shown.code, shown.complaint) == (0, "")
    for word in ("--continue", "--resume", "--allowed-tools", "zpi models", "zpi sessions"):
        assert word in shown.text
    assert [path for path in cli.home.rglob("*") if path.is_file()] == []


async def test_models_are_listed(cli: Cli) -> None:
    done = await cli.run("models", env={"ANTHROPIC_API_KEY": "sk-ant-test"})
    assert (done.code, done.complaint) == (0, "")
    lines = done.text.splitlines()
    assert any(line.startswith("* anthropic/claude-sonnet-5-5") for line in lines)
    assert any(line.startswith("  openai/gpt-6-luna") and "$0.1 in" in line for line in lines)
    assert "sk-ant-test" not in done.text


async def test_sessions_are_listed(cli: Cli, tmp_path: Path) -> None:
    empty = await cli.run("sessions")
    assert (empty.code, "There are no sessions" in empty.text) == (0, True)
    other = tmp_path / "other"
    other.mkdir()
    async with MockServer(ANSWER) as server:
        cli.use(server)
        await cli.run("-p", "First question?\nWith a second line.")
        await cli.run("-p", "Elsewhere?", cwd=other)
        await cli.run("-p", "第二个问题")
    here = await cli.run("sessions")
    lines = here.text.splitlines()
    assert [line.split("  ")[2] for line in lines] == [
        "第二个问题",
        "First question? With a second line.",
    ]
    everywhere = await cli.run("sessions", "--all")
    assert len(everywhere.text.splitlines()) == 3
    assert str(other) in everywhere.text
    # A listed id can be given to --resume.
    async with MockServer(ANSWER) as server:
        cli.use(server)
        done = await cli.run("-p", "More.", "--resume", lines[1].split()[0])
        assert "First question?" in str(server.requests[0].body)
    assert (done.code, done.text) == (0, "And so on.\n")


# ------------------------------------------------------------------ language


def is_chinese(text: str) -> bool:
    return any("\u4e00" <= char <= "\u9fff" for char in text)


async def test_speaks_chinese(cli: Cli) -> None:
    chinese = {"LANG": "zh_CN.UTF-8"}
    shown = await cli.run("--help", env=chinese)
    assert shown.code == 0
    assert is_chinese(shown.text)
    wrong = await cli.run("-p", "x", "--allowed-tools", "Reed", env=chinese)
    assert wrong.code == 2
    assert is_chinese(wrong.complaint)
    assert "'Reed'" in wrong.complaint
    assert "Error:" not in wrong.complaint
    async with MockServer(CHANGE) as server:
        cli.use(server)
        refused = await cli.run("-p", "改一下", env=chinese)
    assert refused.code == 3
    assert is_chinese(refused.complaint.splitlines()[-1])
