"""The guards that hold for every test do fail a test."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.repository import ROOT

BAD_TESTS = """
import asyncio, logging, os, socket
import pytest
from hypothesis import given, strategies as st

log = logging.getLogger("zpi.bad")

def test_logs_an_error(): log.error("went wrong")
def test_misses_its_log(expect_log): expect_log("never written")
async def test_leaks_a_task():
    asyncio.get_running_loop().leaked = asyncio.create_task(asyncio.sleep(60))
@given(st.integers())
async def test_leaks_below_hypothesis(number):
    asyncio.get_running_loop().leaked = asyncio.create_task(asyncio.sleep(60))
def test_reaches_out():
    with pytest.raises(RuntimeError):
        socket.create_connection(("192.0.2.1", 80), timeout=0.1)
def test_looks_up():
    with pytest.raises(RuntimeError):
        socket.getaddrinfo("example.com", 80)
"""

GOOD_TESTS = """
import asyncio, logging, os, socket
import pytest

log = logging.getLogger("zpi.good")

def test_expects_its_error(expect_log):
    expect_log("went wrong")
    log.error("it went wrong")
def test_warnings_pass(): log.warning("hm")
async def test_ends_its_task():
    task = asyncio.create_task(asyncio.sleep(60))
    task.cancel()
async def test_reaches_loopback():
    server = await asyncio.start_server(lambda r, w: w.close(), "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    assert await reader.read() == b""
    writer.close()
    server.close()
def test_unknown_host():
    with pytest.raises(socket.gaierror):
        socket.getaddrinfo("no-such-host.invalid", 80)
def test_sees_no_key():
    assert "OPENAI_API_KEY" not in os.environ and "HTTPS_PROXY" not in os.environ
def test_has_a_home():
    assert os.path.isdir(os.path.expanduser("~"))
    assert os.environ["ZPI_AGENT_DIR"].startswith(os.path.expanduser("~"))
    open(os.path.expanduser("~/left"), "w").close()
def test_has_another_home():
    assert not os.path.exists(os.path.expanduser("~/left"))
"""


def run_tests(folder: Path, text: str) -> dict[str, str]:
    """Run a test file under the project's conftest; return outcome by test."""
    path = folder / "test_seeded.py"
    path.write_text(text, encoding="utf-8")
    options = ["-p", "tests.conftest", "-p", "no:xdist", "--rootdir", str(ROOT), "-rA", "--tb=no"]
    output = subprocess.run(
        [sys.executable, "-m", "pytest", "-c", str(ROOT / "pyproject.toml"), *options, str(path)],
        cwd=ROOT,
        env={**os.environ, "OPENAI_API_KEY": "canary", "HTTPS_PROXY": "http://192.0.2.1:1"},
        capture_output=True,
        text=True,
        check=False,
    ).stdout
    outcomes: dict[str, str] = {}
    for line in output.splitlines():
        outcome, _, name = line.partition(" ")
        if outcome in ("PASSED", "FAILED", "ERROR") and "::" in name:
            test = name.split("::")[1].split(" ")[0]
            outcomes[test] = "bad" if outcome != "PASSED" else outcomes.get(test, "good")
    assert outcomes, output
    return outcomes


@pytest.mark.parametrize(("text", "verdict"), [(BAD_TESTS, "bad"), (GOOD_TESTS, "good")])
def test_guards(text: str, verdict: str, tmp_path: Path) -> None:
    outcomes = run_tests(tmp_path, text)
    assert set(outcomes.values()) == {verdict}, outcomes
    assert len(outcomes) == text.count("def test_")
