"""Modules import where Unix's own modules are missing, and the face imports next to nothing."""

import json
import subprocess
import sys

import pytest

from tests.support.repository import ROOT, module_name, modules

MODULES = [module_name(path) for path in modules() if path.stem != "__main__"]

BLOCKED = frozenset({"fcntl", "termios", "resource", "pwd", "grp", "pty", "tty"})

# First everything as it is here, so that all foreign modules are loaded; then our own
# again, as on a platform without the blocked modules.
IMPORT_WITHOUT_UNIX = """
import importlib, json, sys, traceback

names = json.load(sys.stdin)
blocked = {blocked!r}

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name in blocked:
            raise ModuleNotFoundError("No module named " + name, name=name)

def import_all():
    failed = dict()
    for name in names:
        try:
            importlib.import_module(name)
        except Exception:
            failed[name] = traceback.format_exc()
    return failed

failed = import_all()
for name in [name for name in sys.modules if name.partition(".")[0] == "agent_sdk"]:
    del sys.modules[name]
for name in blocked:
    sys.modules.pop(name, None)
sys.meta_path.insert(0, Blocker())
sys.platform = {platform!r}

failed |= import_all()
sys.stdout.write(json.dumps(failed))
"""

SHOW_LOADED = """
import json, sys
before = set(sys.modules)
import {module}
sys.stdout.write(json.dumps(sorted(set(sys.modules) - before)))
"""


def python(code: str, stdin: str = "") -> str:
    return subprocess.run(
        [sys.executable, "-c", code],
        input=stdin,
        cwd=ROOT,
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    ).stdout


@pytest.mark.parametrize("platform", sorted({sys.platform, "win32"}))
def test_every_module_imports_without_unix_modules(platform: str) -> None:
    code = IMPORT_WITHOUT_UNIX.format(blocked=set(BLOCKED), platform=platform)
    failed = json.loads(python(code, json.dumps(MODULES)))
    assert {name: trace.splitlines()[-1] for name, trace in failed.items()} == {}


@pytest.mark.parametrize(
    "module", [name for name in MODULES if name in ("agent_sdk", "agent_sdk.events.wire")]
)
def test_face_is_light(module: str) -> None:
    loaded = {
        name.partition(".")[0] for name in json.loads(python(SHOW_LOADED.format(module=module)))
    }
    heavy = {
        "asyncio",
        "httpx",
        "pydantic",
        "subprocess",
        "ssl",
        "socket",
        "email",
        "http",
        "logging",
    }
    assert loaded & heavy == set()
