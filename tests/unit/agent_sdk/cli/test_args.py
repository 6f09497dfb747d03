"""The command line's words."""

import pytest

from agent_sdk.cli.args import Args, parse_args
from agent_sdk.cli.i18n import Translator, language
from agent_sdk.core.errors import InvalidInput


def parse(*argv: str) -> Args:
    return parse_args(argv, tr=Translator({}), version="1.2.3")


def test_prompt_and_options() -> None:
    args = parse(
        "-p", "do it", "--output-format", "stream-json", "--include-partial-messages",
        "--model", "m", "--allowed-tools", "Read,Bash(git *)", "--allowedTools", "Edit",
        "--max-turns", "3", "--permission-mode", "acceptEdits", "--cwd", "/x", "--continue",
    )  # fmt: skip
    assert args.prompt == "do it"
    assert args.output_format == "stream-json"
    assert args.partial
    assert args.allowed_tools == ("Read,Bash(git *)", "Edit")
    assert (args.max_turns, args.permission_mode, args.cwd) == (3, "acceptEdits", "/x")
    assert args.continue_latest


def test_options_before_the_prompt_as_the_harness_gives_them() -> None:
    args = parse("--continue", "-p", "x", "--output-format=json", "--model=m")
    assert (args.prompt, args.output_format, args.model) == ("x", "json", "m")


def test_prompt_from_standard_input() -> None:
    assert parse("-p").prompt is None
    assert parse("--print", "--model", "m").prompt is None


@pytest.mark.parametrize(
    ("argv", "named"),
    [
        ([], "no prompt"),
        (["-p", "x", "--nope"], "--nope"),
        (["-p", "x", "--max-turns", "0"], "--max-turns"),
        (["-p", "x", "--max-turns", "many"], "--max-turns"),
        (["-p", "x", "--output-format", "xml"], "xml"),
        (["-p", "x", "--permission-mode", "yolo"], "yolo"),
        (["-p", "x", "-c", "-r", "abc"], "--resume"),
        (["-p", "x", "--include-partial-messages"], "stream-json"),
        (["dance"], "dance"),
        (["-p", "x", "-r", "abc", "--no-session-persistence"], "--no-session-persistence"),
        (["-p", "x", "-c", "--no-session-persistence"], "--no-session-persistence"),
        (["-p", "x", "--all"], "--all"),
        (["sessions", "--output-format", "json"], "--cwd and --all"),
        (["models", "-p", "x"], "--cwd"),
        (["models", "--all"], "--cwd"),
        (["-p", "x", "--thinking", "hard"], "hard"),
    ],
)
def test_what_cannot_be_understood_is_named(argv: list[str], named: str) -> None:
    with pytest.raises(InvalidInput, match=named):
        parse(*argv)


def test_lists() -> None:
    assert parse("models").command == "models"
    assert parse("sessions", "--all").every_project
    assert parse("sessions", "--cwd", "/x") == Args(command="sessions", cwd="/x")


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        parse("--version")
    assert end.value.code == 0
    assert capsys.readouterr().out == "zpi 1.2.3\n"


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, "en"),
        ({"LANG": "zh_CN.UTF-8"}, "zh"),
        ({"LANG": "zh_CN.UTF-8", "LC_ALL": "C"}, "en"),
        ({"LANG": "de_DE", "ZPI_LANG": "zh"}, "zh"),
    ],
)
def test_language(environ: dict[str, str], expected: str) -> None:
    assert language(environ) == expected
