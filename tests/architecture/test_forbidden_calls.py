"""Files, children and tasks have one way in; errors are not swallowed."""

import ast
from pathlib import Path

import pytest

from tests.architecture.rules import forbidden_calls, swallowed_errors
from tests.support.repository import ROOT, modules

MODULES = modules()


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_module_keeps_the_rules(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    module = path.relative_to(ROOT).as_posix()
    assert forbidden_calls(tree, module) + swallowed_errors(tree) == []


def test_dev_swallows_nothing() -> None:
    assert swallowed_errors(ast.parse((ROOT / "dev.py").read_text(encoding="utf-8"))) == []


@pytest.mark.parametrize(
    "line",
    [
        "print('x')",
        "dialog.exec()",
        "eval('1')",
        "exec('1')",
        "asyncio.create_task(work())",
        "asyncio.ensure_future(work())",
        "asyncio.create_subprocess_exec('ls')",
        "import subprocess",
        "from subprocess import run",
        "os.system('ls')",
        "os.replace(a, b)",
        "os.rename(a, b)",
        "os.fsync(1)",
        "open(path, 'w')",
        "open(path, mode='ab')",
        "open(path, 'r+')",
        "path.open('x')",
        "path.write_text('x')",
        "path.write_bytes(b'x')",
        "path.replace(other)",
        "path.rename(other)",
        "os.open(path, os.O_WRONLY | os.O_CREAT)",
    ],
)
def test_rule_sees(line: str) -> None:
    assert len(forbidden_calls(ast.parse(line), "agent_sdk/loop/run.py")) == 1


@pytest.mark.parametrize(
    "line",
    [
        "open(path)",
        "open(path, 'rb')",
        "path.open()",
        "text.replace('a', 'b')",
        "moment.replace(hour=1)",
        "re.compile('x')",
        "os.open(path, os.O_RDONLY)",
        "os.open(os.devnull, os.O_WRONLY)",
        "asyncio.wait(tasks)",
        "signal.abort('print')",
    ],
)
def test_rule_lets_pass(line: str) -> None:
    assert forbidden_calls(ast.parse(line), "agent_sdk/loop/run.py") == []


@pytest.mark.parametrize(
    ("module", "line"),
    [
        ("agent_sdk/core/fsio.py", "os.replace(a, b)"),
        ("agent_sdk/core/fsio.py", "open(path, 'ab')"),
        ("agent_sdk/core/aio.py", "asyncio.create_task(work())"),
        ("agent_sdk/core/process.py", "import subprocess"),
        ("agent_sdk/core/process_posix.py", "asyncio.create_subprocess_exec('ls')"),
    ],
)
def test_owner_may(module: str, line: str) -> None:
    assert forbidden_calls(ast.parse(line), module) == []
    assert forbidden_calls(ast.parse(line), "agent_sdk/tools/bash.py") != []


@pytest.mark.parametrize(
    "handler",
    [
        "try:\n    f()\nexcept Exception:\n    pass",
        "try:\n    f()\nexcept:\n    ...",
        "try:\n    f()\nexcept (ValueError, BaseException):\n    'not important'",
        "for x in y:\n    try:\n        f()\n    except Exception:\n        continue",
        "with contextlib.suppress(Exception):\n    f()",
    ],
)
def test_swallowing_is_seen(handler: str) -> None:
    assert len(swallowed_errors(ast.parse(handler))) == 1


@pytest.mark.parametrize(
    "handler",
    [
        "try:\n    f()\nexcept OSError:\n    pass",
        "try:\n    f()\nexcept Exception:\n    logger.exception('f failed')",
        "with contextlib.suppress(ProcessLookupError):\n    f()",
    ],
)
def test_handling_is_not_swallowing(handler: str) -> None:
    assert swallowed_errors(ast.parse(handler)) == []
