"""The house rules that no ready-made tool checks, as pure functions over source text.

Each takes a module's syntax tree or text and returns complaints, one a line,
that begin with the line number.
"""

import ast
import io
import re
import tokenize
from dataclasses import dataclass, field
from pathlib import PurePosixPath

FILE_LINES = 600
TEST_FILE_LINES = 800
FUNCTION_LINES = 60
CLASS_LINES = 300
PUBLIC_METHODS = 15

# ------------------------------------------------------------------- sizes


def oversized(text: str, *, file_lines: int) -> list[str]:
    """Complain about a file, its functions and its classes that have grown too big."""
    count = len(text.splitlines())
    found = [f"1: file of {count} lines, at most {file_lines}"] if count > file_lines else []
    if file_lines == TEST_FILE_LINES:
        return found
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            found += _longer(node, FUNCTION_LINES)
        elif isinstance(node, ast.ClassDef):
            found += _longer(node, CLASS_LINES)
            methods = len(_public_methods(node))
            if methods > PUBLIC_METHODS:
                found.append(
                    f"{node.lineno}: {node.name} has {methods} public methods,"
                    f" at most {PUBLIC_METHODS}"
                )
    return found


def _longer(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef, most: int) -> list[str]:
    lines = (node.end_lineno or node.lineno) - node.lineno + 1
    return [f"{node.lineno}: {node.name} of {lines} lines, at most {most}"] if lines > most else []


def _public_methods(node: ast.ClassDef) -> set[str]:
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    # A property is a fact to read, as an attribute is.
    names = {
        each.name
        for each in node.body
        if isinstance(each, functions) and not any(map(_is_property, each.decorator_list))
    }
    return {name for name in names if not name.startswith("_")}


def _is_property(decorator: ast.expr) -> bool:
    name = dotted(decorator)
    return name == "property" or name.endswith((".setter", "cached_property"))


# --------------------------------------------------------- forbidden calls


@dataclass(frozen=True)
class Ban:
    """Calls that only some modules may make.

    Attributes:
        names: Dotted names as written, such as ``os.replace``.
        instead: What to use.
        allowed: Shell patterns of the modules that may, from the repository's root.
    """

    names: frozenset[str]
    instead: str
    allowed: tuple[str, ...] = ()


FSIO = ("agent_sdk/core/fsio*.py",)
PROCESS = ("agent_sdk/core/process*.py", "agent_sdk/core/supervisor*.py")
BANS = (
    Ban(frozenset({"print", "builtins.print"}), "the front end's own writer or a logger"),
    Ban(frozenset({"eval", "exec", "compile", "__import__"}), "code that can be read"),
    Ban(
        frozenset({"asyncio.create_task", "asyncio.ensure_future"}),
        "agent_sdk.core.aio.TaskOwner",
        ("agent_sdk/core/aio.py",),
    ),
    Ban(
        frozenset(
            {
                "asyncio.create_subprocess_exec",
                "asyncio.create_subprocess_shell",
                "os.system",
                "os.popen",
                "os.fork",
                "os.posix_spawn",
            }
        ),
        "agent_sdk.core.process",
        PROCESS,
    ),
    Ban(
        frozenset(
            f"os.{name}"
            for name in (
                "replace",
                "rename",
                "renames",
                "link",
                "fsync",
                "fdatasync",
                "truncate",
                "ftruncate",
            )
        ),
        "agent_sdk.core.fsio",
        FSIO,
    ),
)
IMPORT_BANS = (
    Ban(frozenset({"subprocess", "multiprocessing"}), "agent_sdk.core.process", PROCESS),
)
WRITING_METHODS = frozenset({"write_text", "write_bytes", "rename"})
WRITING_FLAGS = frozenset({"O_WRONLY", "O_RDWR", "O_CREAT", "O_APPEND", "O_TRUNC"})


def forbidden_calls(tree: ast.AST, module: str) -> list[str]:
    """Complain about calls that belong to another module than ``module``.

    Args:
        tree: The module's syntax tree.
        module: Its path from the repository's root, with ``/``.
    """
    bans = {name: ban.instead for ban in BANS if not _may(module, ban) for name in ban.names}
    imports = {
        name: ban.instead for ban in IMPORT_BANS if not _may(module, ban) for name in ban.names
    }
    writes_files = any(PurePosixPath(module).match(pattern) for pattern in FSIO)
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = dotted(node.func)
            if name in bans:
                found.append(f"{node.lineno}: {name}(); use {bans[name]}")
            elif not writes_files and opens_for_writing(node):
                found.append(f"{node.lineno}: writes a file; use agent_sdk.core.fsio")
            main_loop = name == "app.exec" and module == "desktop/app.py"
            if isinstance(node.func, ast.Attribute) and node.func.attr == "exec" and not main_loop:
                found.append(f"{node.lineno}: .exec() runs a nested event loop; use open()")
        elif isinstance(node, ast.Import | ast.ImportFrom):
            found += [
                f"{node.lineno}: imports {name}; use {imports[name]}"
                for name in imported(node)
                if name in imports
            ]
    return found


def _may(module: str, ban: Ban) -> bool:
    return any(PurePosixPath(module).match(pattern) for pattern in ban.allowed)


def dotted(node: ast.expr) -> str:
    """Return ``a.b.c`` for an expression of names, else nothing."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and (owner := dotted(node.value)):
        return f"{owner}.{node.attr}"
    return ""


def imported(node: ast.Import | ast.ImportFrom) -> list[str]:
    """Return the top-level packages that a statement imports."""
    if isinstance(node, ast.ImportFrom):
        return [(node.module or "").partition(".")[0]]
    return [alias.name.partition(".")[0] for alias in node.names]


def opens_for_writing(call: ast.Call) -> bool:
    """Whether a call opens, writes or renames a file."""
    name = dotted(call.func)
    attribute = call.func.attr if isinstance(call.func, ast.Attribute) else ""
    if call.args and dotted(call.args[0]) == "os.devnull":
        return False
    if name == "os.open":
        return any(
            isinstance(each, ast.Attribute) and each.attr in WRITING_FLAGS
            for each in ast.walk(call)
        )
    if name in ("open", "io.open", "os.fdopen"):
        return _writing_mode(call, position=1)
    if attribute == "open":  # Path.open
        return _writing_mode(call, position=0)
    # Path.replace takes one argument; str.replace takes two, datetime.replace takes keywords.
    moves = attribute == "replace" and len(call.args) == 1 and not call.keywords
    return moves or attribute in WRITING_METHODS


def _writing_mode(call: ast.Call, *, position: int) -> bool:
    modes = [keyword.value for keyword in call.keywords if keyword.arg == "mode"]
    modes += call.args[position : position + 1]
    return any(
        isinstance(mode, ast.Constant)
        and isinstance(mode.value, str)
        and set("wax+") & set(mode.value)
        for mode in modes
    )


# -------------------------------------------------------- swallowed errors


def swallowed_errors(tree: ast.AST) -> list[str]:
    """Complain about handlers of every error that do nothing about it."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ExceptHandler) and _catches_all(node.type):
            if all(_does_nothing(each) for each in node.body):
                found.append(f"{node.lineno}: an error of any kind is swallowed")
        elif isinstance(node, ast.Call) and _suppresses_all(node):
            found.append(f"{node.lineno}: errors of every kind are suppressed")
    return found


def _catches_all(node: ast.expr | None) -> bool:
    if isinstance(node, ast.Tuple):
        return any(_catches_all(each) for each in node.elts)
    return node is None or dotted(node) in ("Exception", "BaseException")


def _does_nothing(node: ast.stmt) -> bool:
    constant = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    return constant or isinstance(node, ast.Pass | ast.Continue)


def _suppresses_all(node: ast.Call) -> bool:
    suppress = dotted(node.func) in ("suppress", "contextlib.suppress")
    return suppress and any(_catches_all(argument) for argument in node.args)


# ------------------------------------------------------------ ignore marks


@dataclass
class IgnoreMarks:
    """Comments that switch a checker off.

    Attributes:
        types: Lines with a mark for mypy.
        lints: Lines with a mark for ruff.
        bare: Complaints about marks that do not say which rule they are about.
        code_lines: Lines with code on them.
    """

    types: list[int] = field(default_factory=list)
    lints: list[int] = field(default_factory=list)
    bare: list[str] = field(default_factory=list)
    code_lines: int = 0


TYPE_MARK = re.compile(r"#\s*type:\s*ignore(?P<code>\[[a-z0-9, -]+\])?")
LINT_MARK = re.compile(r"#\s*(?:ruff:\s*)?noqa(?P<code>:\s*[A-Z]+[0-9]+)?")
LAYOUT = frozenset(
    {
        tokenize.COMMENT,
        tokenize.NL,
        tokenize.NEWLINE,
        tokenize.INDENT,
        tokenize.DEDENT,
        tokenize.ENDMARKER,
    }
)


def ignore_marks(text: str) -> IgnoreMarks:
    """Collect the comments by which a module switches checkers off."""
    marks = IgnoreMarks()
    code: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in LAYOUT:
            code.update(range(token.start[0], token.end[0] + 1))
        if token.type == tokenize.COMMENT:
            for pattern, lines in ((TYPE_MARK, marks.types), (LINT_MARK, marks.lints)):
                for match in pattern.finditer(token.string):
                    lines.append(token.start[0])
                    if not match["code"]:
                        marks.bare.append(f"{token.start[0]}: {match[0]!r} names no rule")
    marks.code_lines = len(code)
    return marks
