"""Which shell commands a wildcard rule may speak for. Pure.

``git *`` is meant to say "any git command". It must not also say "any git
command, and then whatever follows a semicolon", so an allowing wildcard covers
plain commands only: one program, no shell syntax, and none of the options by
which otherwise harmless programs run others or write files. Everything that is
not understood here counts as not plain, and is asked about.

Denying works the other way round: a rule against ``rm *`` looks at every part
of a compound command. Neither is a sandbox; a command that may run can do what
the user can do.
"""

import re

from agent_sdk.permissions.wildcard import has_wildcard, matches

COMMAND_KEYS = frozenset({"bash", "terminal", "local"})
"""Permission keys whose patterns are shell commands."""

_SHELL_SYNTAX = frozenset(";&|<>`$(){}\n\r\\")

# Options by which a program that people allow as harmless runs another program,
# or writes where it was not told to. An entry that ends in ``*`` is a prefix;
# one letter also counts among others (``-uo``), and a long option shortened.
_RISKY: dict[str, tuple[str, ...]] = {
    "awk": ("-f*", "--file*", "-i*", "--include*", "-l*", "--load*"),
    "curl": ("-o*", "-O*", "--output*", "--remote-name*", "-K*", "--config*", "-T*", "--upload*"),
    "fd": ("-x*", "-X*", "--exec*"),
    "find": ("-exec*", "-ok*", "-delete", "-fprint*", "-fls"),
    "git": (
        *("-c*", "-C*", "--config-env*", "--git-dir*", "--work-tree*", "--exec-path*"),
        *("-x*", "--exec*", "--ext-diff*", "--textconv*", "-O*", "--open-files-in-pager*"),
        *("--output*", "--upload-pack*", "--receive-pack*"),
        # subcommands, and words of such, that run what they are given or set what will be run
        *("bisect", "config", "difftool", "filter-branch", "foreach", "mergetool"),
    ),
    "go": ("-exec*", "-toolexec*", "--exec*", "--toolexec*"),
    "man": ("-P*", "--pager*", "-H*", "--html*"),
    "rg": ("--pre*", "--hostname-bin*"),
    "sed": ("*",),  # its scripts can run and write, and only sed can read them
    "sort": ("-o*", "--output*", "--compress-program*"),
    "ssh": ("-o*", "-F*"),
    "tar": ("--to-command*", "--checkpoint-action*", "-I*", "--use-compress-program*", "-F*"),
}

# Programs whose arguments are programs: a remembered prefix of them is a blank cheque.
_LAUNCHERS = frozenset(
    {
        *("ash", "bash", "busybox", "cmd", "cmd.exe", "csh", "dash", "fish", "ksh", "powershell"),
        *("powershell.exe", "pwsh", "sh", "tcsh", "zsh"),
        *("awk", "bun", "deno", "node", "perl", "php", "python", "python3", "ruby", "lua", "sed"),
        *("chroot", "command", "doas", "env", "eval", "exec", "find", "nice", "nohup", "npx"),
        *("parallel", "ssh", "sudo", "su", "timeout", "time", "uvx", "watch", "xargs"),
    }
)


def is_plain(command: str) -> bool:
    """Return whether an allowing wildcard rule may cover the command."""
    if not command.isprintable() or not _SHELL_SYNTAX.isdisjoint(command):
        return False  # control, bidirectional and other invisible characters too
    program, *words = _unquoted(command).split(" ")
    risky = _RISKY.get(program.rsplit("/", 1)[-1], ())
    return not any(_is_option(word, option) for word in words for option in risky)


def _is_option(word: str, option: str) -> bool:
    """Return whether a program may take the word for the option."""
    if matches(option, word):
        return True
    name = option.rstrip("*")
    if name.startswith("--"):
        short = word.partition("=")[0]
        return len(short) > 2 and name.startswith(short)
    return len(name) == 2 and name[0] == "-" and word[:1] == "-" != word[1:2] and name[1] in word


def may_remember(pattern: str) -> bool:
    """Return whether an answer of *always* may store the pattern for commands.

    An exact command may be stored; a wildcard only behind a program that is
    not itself a way to run any other (``sh``, ``python``, ``env``, ``xargs``…).
    """
    if not has_wildcard(pattern):
        return True
    program = pattern.split(" ", 1)[0]
    return not has_wildcard(program) and program.rsplit("/", 1)[-1] not in _LAUNCHERS


def parts(command: str) -> tuple[str, ...]:
    """Return the pieces of a compound command, for rules that tighten.

    Too many pieces are better than too few here: quotes are ignored, and what
    leads a command (variables, ``!``, keywords, redirections, opening brackets)
    is cut off. Each piece is also there without quotes and backslashes, and
    with its program without a folder. A command that is in one piece, and
    written plainly, gives nothing.
    """
    pieces = set()
    for text in (command, _unquoted(command).replace("\\", "")):
        for piece in _MARKS.split(text):
            bare = _bare(piece)
            program, space, rest = bare.partition(" ")
            pieces |= {bare, program.rpartition("/")[2] + space + rest}
    pieces.discard("")
    pieces.discard(command)
    return tuple(sorted(pieces))


def _unquoted(command: str) -> str:
    # An option is the same option when it is written in quotes.
    return command.replace("'", "").replace('"', "")


_MARKS = re.compile(r"(?<![<>])[&|]|[;`()\n\r{}]")
_REDIRECTION = re.compile(r"\d*(?:[<>]+[&|]?|&>+)")
_LEADING = frozenset(
    {"!", "$", "do", "then", "else", "if", "while", "until", "elif", "exec", "time", "command"}
)


def _bare(piece: str) -> str:
    words = piece.split()
    while words:
        redirection = _REDIRECTION.match(words[0])
        if redirection:
            del words[: 1 if redirection.end() < len(words[0]) else 2]
        elif words[0] in _LEADING or _is_assignment(words[0]):
            del words[0]
        else:
            break
    return " ".join(words)


def _is_assignment(word: str) -> bool:
    name, equals, _ = word.partition("=")
    return bool(equals) and name.isidentifier()
