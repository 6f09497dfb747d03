"""What the command line accepts."""

import argparse
from collections.abc import Sequence
from typing import Literal, NoReturn

from msgspec import Struct
from typing_extensions import override

from agent_sdk.cli.i18n import Translator
from agent_sdk.core.errors import InvalidInput
from agent_sdk.permissions.modes import PERMISSION_MODES

OutputFormat = Literal["text", "json", "stream-json"]


class Args(Struct, frozen=True, kw_only=True):
    """The parsed command line.

    Attributes:
        command: ``run`` (one prompt), ``models`` or ``sessions``.
        prompt: The prompt; None if it is to come from standard input.
        cwd: Folder to work in; None for the process's own.
        resume: Id, or unique start of one, of the session to go on with.
        continue_latest: Whether to go on with the folder's newest session.
        max_turns: Most requests to the model; None for no limit.
        allowed_tools: Permission rules that allow, as given.
        disallowed_tools: Permission rules that deny, as given.
        persist: Whether the session is written to disk.
    """

    command: Literal["run", "models", "sessions"] = "run"
    prompt: str | None = None
    output_format: OutputFormat = "text"
    partial: bool = False
    model: str | None = None
    thinking: str = ""
    cwd: str | None = None
    resume: str | None = None
    continue_latest: bool = False
    permission_mode: str | None = None
    max_turns: int | None = None
    allowed_tools: tuple[str, ...] = ()
    disallowed_tools: tuple[str, ...] = ()
    persist: bool = True
    every_project: bool = False


class _Parser(argparse.ArgumentParser):
    @override
    def error(self, message: str) -> NoReturn:
        raise InvalidInput(message + ".", hint="See: zpi --help")


def parse_args(argv: Sequence[str], *, tr: Translator, version: str) -> Args:
    """Parse the command line.

    Args:
        argv: The words after the program's name.
        tr: Language of the help.
        version: What ``--version`` prints.

    Raises:
        InvalidInput: If it cannot be understood.
        SystemExit: After ``--help`` and ``--version``.
    """
    parser = _build(tr, version)
    found = parser.parse_args(list(argv))
    if found.command in ("models", "sessions"):
        _check_listing(parser, found)
        return Args(command=found.command, cwd=found.cwd, every_project=found.all)
    if found.command is not None:
        raise InvalidInput(
            f"There is no command {found.command!r}.",
            hint="Commands: models, sessions. A prompt goes behind -p.",
        )
    _check_run(found)
    return Args(
        prompt=found.prompt,
        output_format=found.output_format,
        partial=found.partial,
        model=found.model,
        thinking=found.thinking or "",
        cwd=found.cwd,
        resume=found.resume,
        continue_latest=found.continue_latest,
        permission_mode=found.permission_mode,
        max_turns=found.max_turns,
        allowed_tools=tuple(found.allowed_tools or ()),
        disallowed_tools=tuple(found.disallowed_tools or ()),
        persist=not found.no_persist,
    )


def _check_run(found: argparse.Namespace) -> None:
    """Refuse options that miss something or exclude each other.

    Raises:
        InvalidInput: If there are such.
    """
    if not found.print_given:
        raise InvalidInput("There is no prompt.", hint="Give one: zpi -p 'What is this project?'")
    if found.all:
        raise InvalidInput("--all belongs to 'zpi sessions'.", hint="Leave it out.")
    if found.resume and found.continue_latest:
        raise InvalidInput("--resume and --continue exclude each other.", hint="Give one of them.")
    if found.no_persist and (found.resume or found.continue_latest):
        raise InvalidInput(
            "--no-session-persistence begins a session of its own; it cannot go on with one.",
            hint="Leave it out, or leave out --resume and --continue.",
        )
    if found.partial and found.output_format != "stream-json":
        raise InvalidInput(
            "--include-partial-messages belongs to --output-format stream-json.",
            hint="Leave it out: text comes as it is written anyway.",
        )
    if found.max_turns is not None and found.max_turns < 1:
        raise InvalidInput(f"--max-turns must be at least 1, not {found.max_turns}.")


def _check_listing(parser: argparse.ArgumentParser, found: argparse.Namespace) -> None:
    """Refuse options that a command would ignore.

    Raises:
        InvalidInput: If there is one.
    """
    takes = ("cwd", "all") if found.command == "sessions" else ("cwd",)
    for name, value in vars(found).items():
        if name not in ("command", *takes) and value != parser.get_default(name):
            shown = " and ".join(f"--{option}" for option in takes)
            raise InvalidInput(f"'zpi {found.command}' takes {shown} and nothing else.")


class _Print(argparse.Action):
    """``-p``: with a prompt, or without (it then comes from standard input)."""

    @override
    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: object,
        option_string: str | None = None,
    ) -> None:
        namespace.print_given = True
        namespace.prompt = values


def _build(tr: Translator, version: str) -> argparse.ArgumentParser:
    parser = _Parser(
        prog="zpi",
        description=tr("A coding agent that works in a folder of yours."),
        epilog=tr(
            "Commands: zpi models (models to choose from), zpi sessions (what can be resumed)."
        ),
        allow_abbrev=False,
    )
    parser.set_defaults(print_given=False, prompt=None)
    add = parser.add_argument
    add("command", nargs="?", help=argparse.SUPPRESS)
    add("--all", action="store_true", help=argparse.SUPPRESS)
    add("-p", "--print", nargs="?", action=_Print, metavar="PROMPT", dest="prompt",
        help=tr("do what PROMPT says and exit; without PROMPT it is read from standard input"))  # fmt: skip
    add("--output-format", choices=("text", "json", "stream-json"), default="text",
        help=tr("text as it comes, one JSON object at the end, or one JSON object a line"))  # fmt: skip
    add("--include-partial-messages", action="store_true", dest="partial",
        help=tr("with stream-json: also the model's text piece by piece"))  # fmt: skip
    add("--model", metavar="MODEL", help=tr("model to use; zpi models lists them"))
    add("--thinking", metavar="LEVEL",
        choices=("off", "minimal", "low", "medium", "high", "xhigh", "max"),
        help=tr("how much the model shall reason: off … max"))  # fmt: skip
    add("--cwd", metavar="FOLDER", help=tr("folder to work in (default: the current one)"))
    add("-r", "--resume", metavar="SESSION", help=tr("go on with this session"))
    add("-c", "--continue", action="store_true", dest="continue_latest",
        help=tr("go on with the newest session of the folder"))  # fmt: skip
    add("--permission-mode", choices=PERMISSION_MODES, metavar="MODE",
        help=tr("default (ask), acceptEdits, dontAsk, plan, auto, bypassPermissions"))  # fmt: skip
    add("--max-turns", type=int, metavar="N", help=tr("most requests to the model"))
    add("--allowed-tools", "--allowedTools", action="append", metavar="RULES",
        help=tr("what may run without asking, such as 'Read,Edit,Bash(git *)'"))  # fmt: skip
    add("--disallowed-tools", "--disallowedTools", action="append", metavar="RULES",
        help=tr("what must never run"))  # fmt: skip
    add("--no-session-persistence", action="store_true", dest="no_persist",
        help=tr("keep the session in memory only"))  # fmt: skip
    add("--version", action="version", version=f"zpi {version}", help=tr("say the version"))
    return parser
