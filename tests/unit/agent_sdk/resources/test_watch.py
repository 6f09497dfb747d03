import asyncio
import os
from collections.abc import AsyncGenerator, Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from agent_sdk.core.aio import TaskOwner
from agent_sdk.resources.loader import ResourceChanges, ResourceLoader
from agent_sdk.resources.watch import ResourceWatcher, Watch
from agent_sdk.session.resources import resource_loader

if TYPE_CHECKING:
    from agent_sdk.resources.problems import ResourceProblem


class FakeWatch:
    """A file system that says what the test tells it to say."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.begun: list[frozenset[Path]] = []
        self.closed = 0
        self._paths: asyncio.Queue[set[str]] = asyncio.Queue()
        self._relevant: Callable[[str], bool] = lambda _: False

    async def __call__(
        self, folders: Iterable[Path], relevant: Callable[[str], bool]
    ) -> AsyncGenerator[set[str], None]:
        if self.errors:
            raise self.errors.pop(0)
        self.begun.append(frozenset(folders))
        self._relevant = relevant
        try:
            while True:
                yield await self._paths.get()
        finally:
            self.closed += 1

    def say(self, *paths: Path) -> bool:
        """Report the relevant ones of these; return whether there are any."""
        relevant = {str(path) for path in paths if self._relevant(str(path))}
        if relevant:
            self._paths.put_nowait(relevant)
        return bool(relevant)


class Watched:
    """A watcher at work, and what it has said."""

    def __init__(self, loader: ResourceLoader, owner: TaskOwner, watch: Watch | None) -> None:
        self.changes: asyncio.Queue[ResourceChanges] = asyncio.Queue()
        self.problems: list[ResourceProblem] = []
        ResourceWatcher(
            loader=loader,
            owner=owner,
            changed=self.changes.put_nowait,
            failed=self.problems.append,
            watch=watch,
        ).start()

    async def change(self) -> ResourceChanges:
        async with asyncio.timeout(60):
            return await self.changes.get()


@pytest.fixture
def work(tmp_path: Path) -> Path:
    work = Path(os.path.realpath(tmp_path)) / "work"
    (work / ".git").mkdir(parents=True)
    return work


@pytest.fixture
def loader(work: Path) -> ResourceLoader:
    loader = resource_loader(cwd=work, agent_dir=work.parent / "agent")
    loader.load()
    return loader


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.005)


def command(work: Path, name: str) -> Path:
    path = work / ".zpi" / "commands" / f"{name}.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("prompt")
    return path


async def test_a_change_is_read_and_told(loader: ResourceLoader, work: Path) -> None:
    command(work, "one")
    loader = resource_loader(cwd=work, agent_dir=work.parent / "agent")
    loader.load()
    watch = FakeWatch()
    async with TaskOwner(name="test") as owner:
        watched = Watched(loader, owner, watch)
        await until(lambda: len(watch.begun) == 1)
        expected = {work.parent, work, work / ".zpi", work / ".zpi" / "commands"}
        assert watch.begun[0] == expected
        assert watch.say(command(work, "two"))
        assert await watched.change() == ResourceChanges(commands=("two",))
        (work / "AGENTS.md").write_text("rules")
        assert watch.say(work / "AGENTS.md", work / "main.py")
        assert await watched.change() == ResourceChanges(instructions=True)
    assert (len(watch.begun), watch.closed, watched.problems) == (1, 1, [])


async def test_other_files_are_none_of_its_business(loader: ResourceLoader, work: Path) -> None:
    watch = FakeWatch()
    async with TaskOwner(name="test") as owner:
        Watched(loader, owner, watch)
        await until(lambda: len(watch.begun) == 1)
        assert not watch.say(work / "main.py", work / ".git" / "index", work / ".zpi" / "x.json")
        assert not watch.say(work.parent / "AGENTS.md.tmp", work / ".git")
        assert watch.say(work / ".zpi")


async def test_what_came_before_watching_began_is_not_missed(
    loader: ResourceLoader, work: Path
) -> None:
    (work / "AGENTS.md").write_text("rules")
    async with TaskOwner(name="test") as owner:
        watched = Watched(loader, owner, FakeWatch())
        assert (await watched.change()).instructions


async def test_new_folders_are_watched_too(loader: ResourceLoader, work: Path) -> None:
    watch = FakeWatch()
    async with TaskOwner(name="test") as owner:
        watched = Watched(loader, owner, watch)
        await until(lambda: len(watch.begun) == 1)
        assert watch.begun[0] == {work.parent, work}
        command(work, "one")
        watch.say(work / ".zpi")
        assert (await watched.change()).commands == ("one",)
        await until(lambda: len(watch.begun) == 2)
        assert work / ".zpi" / "commands" in watch.begun[1]
        assert watch.closed == 1


async def test_a_folder_that_was_replaced_is_watched_anew(work: Path) -> None:
    command(work, "one")
    loader = resource_loader(cwd=work, agent_dir=work.parent / "agent")
    loader.load()
    watch = FakeWatch()
    async with TaskOwner(name="test") as owner:
        Watched(loader, owner, watch)
        await until(lambda: len(watch.begun) == 1)
        watch.say(work / ".zpi" / "commands")
        await until(lambda: len(watch.begun) == 2)
        assert watch.begun[0] == watch.begun[1]


async def test_a_folder_that_goes_at_the_wrong_moment_is_tried_again(
    loader: ResourceLoader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agent_sdk.resources.watch._RETRY_SECONDS", 0.001)
    watch = FakeWatch(FileNotFoundError())
    async with TaskOwner(name="test") as owner:
        watched = Watched(loader, owner, watch)
        await until(lambda: len(watch.begun) == 1)
    assert watched.problems == []


async def test_a_system_that_cannot_watch_is_said_once(loader: ResourceLoader, work: Path) -> None:
    async with TaskOwner(name="test") as owner:
        watched = Watched(loader, owner, FakeWatch(OSError(28, "no watches left")))
        await until(lambda: owner.running == 0)
    (problem,) = watched.problems
    assert (problem.kind, problem.level, problem.path) == ("source", "warning", str(work))
    assert "no watches left" in problem.text


async def test_the_real_file_system(loader: ResourceLoader, work: Path) -> None:
    async with TaskOwner(name="test") as owner:
        watched = Watched(loader, owner, None)
        await until(lambda: owner.running == 2)
        command(work, "one")
        assert (await watched.change()).commands == ("one",)
        path = work / "AGENTS.md"
        path.write_text("rules")
        assert (await watched.change()).instructions
        path.unlink()
        assert (await watched.change()).instructions
    assert watched.problems == []
