"""Which shell runs commands, and what may be remembered about a command. Pure but for look-ups.

Whether a stored rule covers a command is for ``permissions``; here is decided
which rules an answer of *always* may store. What is not fully understood gets
the exact command at most.
"""

import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from agent_sdk.core.environment import search_path
from agent_sdk.core.errors import ToolError
from agent_sdk.loop.types import Rule

_FIXED = ("/bin/bash", "/usr/bin/bash", "/usr/local/bin/bash")

# A word that means itself: nothing in it is special to a shell.
_PLAIN = re.compile(r"[A-Za-z0-9_./:@%+,^-]+")
_WORD = re.compile(r"(?:[A-Za-z0-9_./:@%+,^=-]+|'[^'\n]*'|\"[^\"$`\\!\n]*\")+")

_MAX_WORDS = 64

_NEVER_PREFIX = frozenset(
    {
        # shells, and words by which a shell runs other things
        *("ash", "bash", "busybox", "cmd", "csh", "dash", "elvish", "fish", "ksh", "mksh", "nu"),
        *("powershell", "pwsh", "rbash", "sh", "tcsh", "zsh", "alias", "bind", "builtin", "case"),
        *("cd", "command", "coproc", "declare", "do", "done", "elif", "else", "enable", "esac"),
        *("eval", "exec", "export", "fc", "fi", "for", "function", "hash", "if", "in", "let"),
        *("local", "mapfile", "popd", "printf", "pushd", "read", "readarray", "readonly", "select"),
        *("set", "shopt", "source", "then", "time", "trap", "typeset", "unset", "until", "while"),
        # interpreters
        *("awk", "bun", "deno", "erl", "expect", "gawk", "gdb", "guile", "iex", "irb", "java"),
        *("jshell", "julia", "lua", "m4", "mawk", "nawk", "node", "nodejs", "osascript", "perl"),
        *("php", "pypy", "python", "r", "racket", "rscript", "ruby", "sed", "tclsh", "ts-node"),
        # what starts the program that it is given
        *("ansible", "arch", "at", "batch", "chroot", "chrt", "crontab", "docker", "doas", "entr"),
        *("env", "eatmydata", "fakeroot", "fd", "fdfind", "find", "firejail", "flock", "ionice"),
        *("kubectl", "ld", "ltrace", "man", "nerdctl", "nice", "nix", "nohup", "npx", "nsenter"),
        *("parallel", "pipx", "pkexec", "podman", "prlimit", "rsync", "run0", "runuser", "script"),
        *("scp", "setpriv", "setsid", "sftp", "socat", "ssh", "stdbuf", "strace", "su", "sudo"),
        *(
            "systemd-run",
            "taskset",
            "tar",
            "timeout",
            "tmux",
            "screen",
            "unshare",
            "uvx",
            "valgrind",
        ),
        *("vi", "vim", "nvim", "emacs", "watch", "wine", "wsl", "xargs", "zip", "nc", "ncat"),
        # what deletes or overwrites whatever follows
        *("chmod", "chown", "cp", "curl", "dd", "install", "kill", "killall", "ln", "mkfs", "mv"),
        *("pkill", "rm", "rmdir", "shred", "tee", "truncate", "wget"),
    }
)

_VERSIONED = re.compile(r"(python|pypy|lua|perl|ruby|php|node)[0-9.]+(w|t)?")


class Shell(Struct, frozen=True):
    """How a command line is run: the program, and what comes before the command."""

    path: str
    options: tuple[str, ...] = ("-c",)


def find_shell(env: Mapping[str, str], *, project: str) -> Shell:
    """Return the shell, by absolute path.

    Args:
        env: Environment with the ``PATH`` to look in if no usual place has it.
        project: Folder in which no program is looked up.

    Raises:
        ToolError: If there is none.
    """
    if sys.platform == "win32":
        places = _git_bash(env, project=project)
    else:
        found = [Path(folder, "bash") for folder in search_path(env, outside=[project])]
        places = [*map(Path, _FIXED), *found, Path("/bin/sh")]
    for place in places:
        if place.is_file() and os.access(place, os.X_OK):
            return Shell(str(place))
    raise ToolError(
        "No shell was found to run commands with.",
        hint="Install Git for Windows." if sys.platform == "win32" else "Install bash.",
    )


def _git_bash(env: Mapping[str, str], *, project: str) -> list[Path]:
    # Not just any bash.exe: the one in System32 is another system's (WSL).
    upper = {name.upper(): value for name, value in env.items()}
    roots = [upper.get(name, "") for name in ("PROGRAMFILES", "PROGRAMW6432", "PROGRAMFILES(X86)")]
    if local := upper.get("LOCALAPPDATA"):
        roots.append(f"{local}/Programs")
    homes = [Path(root, "Git") for root in roots if root]
    folders = [Path(folder) for folder in search_path(upper, outside=[project])]
    homes += [folder.parent for folder in folders if (folder / "git.exe").is_file()]
    return [home / "bin" / "bash.exe" for home in homes]


def always_rules(command: str) -> tuple[Rule, ...]:
    """Return the rules that an answer of *always* to a command would store.

    The exact command, and for a simple one its leading words up to the first
    option, such as ``git status *``. A command that holds ``*`` or ``?``
    gives none, since rules cannot quote them and it would cover others too.
    """
    if "*" in command or "?" in command:
        return ()
    exact = Rule("bash", command, "allow")
    prefix = _prefix(command)
    return (exact, Rule("bash", f"{prefix} *", "allow")) if prefix else (exact,)


def _prefix(command: str) -> str:
    words = _words(command)
    if not words or _never_prefix(words[0]):
        return ""
    leading = []
    for word in words:
        if word.startswith("-") or not _PLAIN.fullmatch(word):
            break
        leading.append(word)
    if leading == ["git"]:
        return ""  # git -c can run anything, and so could "git *"
    return " ".join(leading)


def _words(command: str) -> list[str]:
    """Return the words of one simple command; none if it is anything else."""
    if not command.isprintable():
        return []
    words = []
    at = 0
    while at < len(command):
        found = _WORD.match(command, at)
        if found is None or command[found.end() : found.end() + 1] not in ("", " "):
            return []
        words.append(found[0])
        at = found.end()
        while command[at : at + 1] == " ":
            at += 1
    return words if len(words) <= _MAX_WORDS else []


def _never_prefix(program: str) -> bool:
    # A path means another program in another folder, and "=" a variable.
    if not _PLAIN.fullmatch(program) or "/" in program or program.startswith("."):
        return True
    name = program.lower().removesuffix(".exe")
    return name in _NEVER_PREFIX or bool(_VERSIONED.fullmatch(name))
