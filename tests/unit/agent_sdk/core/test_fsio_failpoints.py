from pathlib import Path

import pytest

from agent_sdk.core import failpoints
from agent_sdk.core.errors import ConfigurationError
from agent_sdk.core.failpoints import Faults, faults_from
from agent_sdk.core.fsio import replace_file


def test_failpoints_are_off_in_this_process() -> None:
    assert failpoints.PROCESS_FAULTS is None


@pytest.mark.parametrize(
    "environ",
    [
        {},
        {"ZPI_TEST_BUILD": "1"},
        {"ZPI_FAILPOINT": "append.write:1:kill"},
        {"ZPI_FAILPOINT": "append.write:1:kill", "ZPI_TEST_BUILD": "0"},
    ],
)
def test_the_environment_alone_arms_nothing(environ: dict[str, str]) -> None:
    assert faults_from(environ) is None


def test_a_test_build_arms_what_is_named() -> None:
    faults = faults_from({"ZPI_FAILPOINT": "append.write:2:eio", "ZPI_TEST_BUILD": "1"})
    assert faults is not None
    assert [faults.strike(p) for p in ("append.write", "other", "append.write")] == [
        None,
        None,
        "eio",
    ]


@pytest.mark.parametrize("spec", ["x", "x:1", "x:0:kill", "x:-1:kill", ":1:kill", "x:1:melt"])
def test_a_wrong_spec_is_refused(spec: str) -> None:
    with pytest.raises(ConfigurationError, match="ZPI_FAILPOINT"):
        faults_from({"ZPI_FAILPOINT": spec, "ZPI_TEST_BUILD": "1"})


def test_a_star_counts_every_point(tmp_path: Path) -> None:
    faults = Faults(name="*", nth=10**9, action="kill")
    replace_file(tmp_path / "file", b"x", faults=faults)
    # open, write, sync, rename, dirsync, done
    assert faults.hits == 6
