"""What holds for every test.

- It has a home and a ZPI folder of its own and sees no key of the machine.
- It reaches no network but loopback.
- A log record of level ERROR or above that it does not expect fails it
  (fixture ``expect_log``).
- A task that it leaves running fails it.
"""

import inspect
import logging
import os
import tempfile
from collections.abc import Callable, Generator, Iterator

import pytest
from hypothesis import HealthCheck, settings

from tests.support.environment import isolated_environment, personal_variables
from tests.support.logs import LogGuard
from tests.support.network import NetworkGuard
from tests.support.tasks import without_leaks

# The same examples every time, so that a failure is the change's and nobody else's.
settings.register_profile(
    "default",
    derandomize=True,
    database=None,
    deadline=None,
    max_examples=60,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "nightly",
    derandomize=False,
    database=None,
    deadline=None,
    max_examples=3000,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("nightly" if os.environ.get("ZPI_NIGHTLY") else "default")

log_guard_key = pytest.StashKey[LogGuard]()
network = NetworkGuard()


def pytest_configure(config: pytest.Config) -> None:
    """Close the way out before any test module is imported."""
    patch = pytest.MonkeyPatch()
    network.install(patch)
    config.add_cleanup(patch.undo)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Watch the tasks of each test coroutine, also below hypothesis."""
    for item in items:
        if not isinstance(item, pytest.Function):
            continue
        below = getattr(item.obj, "hypothesis", None)
        if below is not None:
            if inspect.iscoroutinefunction(below.inner_test):
                below.inner_test = without_leaks(below.inner_test)
        elif inspect.iscoroutinefunction(item.obj):
            item.obj = without_leaks(item.obj)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Judge the logs while the test can still fail as itself."""
    result = yield
    complaints = item.stash[log_guard_key].verdict(final=False)
    if complaints:
        pytest.fail(complaints, pytrace=False)
    return result


@pytest.fixture(autouse=True)
def _log_guard(request: pytest.FixtureRequest) -> Iterator[LogGuard]:
    guard = LogGuard()
    request.node.stash[log_guard_key] = guard
    logging.getLogger().addHandler(guard)
    yield guard
    logging.getLogger().removeHandler(guard)
    complaints = guard.verdict(final=True)
    if complaints:
        pytest.fail(complaints, pytrace=False)


@pytest.fixture
def expect_log(_log_guard: LogGuard) -> Callable[..., None]:
    """Allow, and ask for, an error record: ``expect_log(regex, level=...)``."""
    return _log_guard.expect


@pytest.fixture(autouse=True)
def _no_network() -> Iterator[None]:
    network.attempts.clear()
    yield
    if network.attempts:
        pytest.fail(f"the test tried to reach {', '.join(network.attempts)}", pytrace=False)


@pytest.fixture(scope="session")
def _homes() -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="zpi-homes-") as folder:
        yield folder


@pytest.fixture(autouse=True)
def _own_home(_homes: str) -> Iterator[None]:
    # Not the monkeypatch fixture: a test that undoes its own patches must not undo this.
    with pytest.MonkeyPatch.context() as patch:
        for name in personal_variables(os.environ):
            patch.delenv(name)
        for name, value in isolated_environment(tempfile.mkdtemp(dir=_homes)).items():
            patch.setenv(name, value)
        yield
