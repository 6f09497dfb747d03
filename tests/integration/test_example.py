"""The examples run as they are shown."""

import subprocess
import sys

import pytest

from tests.support.repository import ROOT

pytest.importorskip("sqlalchemy")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform == "win32", reason="it kills itself by a signal"),
]


def test_a_host_of_its_own() -> None:
    path = ROOT / "examples" / "host_session.py"
    assert len(path.read_text().splitlines()) < 60
    done = subprocess.run(
        [sys.executable, str(path)], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[:4] == [
        "killed: -9",
        "resumed: ['interrupted'] rain",
        "went on: completed completed",
        "compacted: completed",
    ]
    assert lines[4].startswith("rewound: True Usage(input_tokens=50")
    assert done.stderr == ""
