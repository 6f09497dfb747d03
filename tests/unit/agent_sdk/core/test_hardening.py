"""A hardened process shows its keys to no other process of the same user (X-C03)."""

import json
import os
import subprocess
import sys

import pytest

from tests.support.repository import ROOT

if sys.platform != "linux":
    pytest.skip("needs /proc", allow_module_level=True)

PROGRAM = """
import json, os, resource, sys
from agent_sdk.core.hardening import harden_process
if "before" in sys.argv:
    os.environ["FIRST_KEY"] = "replaced"
captured = harden_process(["FIRST_KEY", "SECOND_TOKEN", "EMPTY", "MISSING"])
child = os.popen("cat /proc/$PPID/environ 2>/dev/null; env").read()
print(json.dumps({
    "captured": captured,
    "own": open("/proc/self/environ").read(),
    "child": child,
    "names": sorted(os.environ),
    "core": resource.getrlimit(resource.RLIMIT_CORE)[0],
    "owner": os.stat("/proc/self/mem").st_uid,
}))
"""
AS_NOBODY = """
import ctypes, os, resource
from agent_sdk.core.hardening import harden_process
os.setgid(65534)
os.setuid(65534)
ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)  # changing the user has closed it already
script = "cat /proc/$PPID/environ >/dev/null && echo readable"
os.system(script)
harden_process([])
os.system(script)
"""
ENV = {"FIRST_KEY": "canary-1", "SECOND_TOKEN": "canary=2", "EMPTY": "", "OTHER": "kept"}


def run(*options: str) -> dict[str, object]:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *options],
        env={**ENV, "PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)},
        check=True,
        capture_output=True,
        text=True,
    )
    report: dict[str, object] = json.loads(done.stdout)
    return report


def test_keys_are_captured_and_gone() -> None:
    report = run()
    assert report["captured"] == {"FIRST_KEY": "canary-1", "SECOND_TOKEN": "canary=2"}
    assert "canary" not in str(report["own"]) + str(report["child"])
    assert "FIRST_KEY" not in str(report["names"])
    assert "OTHER=kept" in str(report["own"])
    assert report["core"] == 0


def test_the_first_environment_is_wiped_even_if_the_variable_was_replaced() -> None:
    report = run("before")
    assert report["captured"] == {"FIRST_KEY": "replaced", "SECOND_TOKEN": "canary=2"}
    assert "canary" not in str(report["own"])


@pytest.mark.needs_root
@pytest.mark.skipif(os.geteuid() != 0, reason="drops privileges")
def test_another_process_of_the_user_cannot_look_in() -> None:
    # Root may look into everything, so this proves something only for another user.
    done = subprocess.run(
        [sys.executable, "-c", AS_NOBODY],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)},
        check=True,
        capture_output=True,
        text=True,
    )
    assert done.stdout == "readable\n"
    assert "Permission denied" in done.stderr
