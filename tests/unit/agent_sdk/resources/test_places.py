import os
import sys
from pathlib import Path
from typing import Any

import pytest

from agent_sdk.core.errors import InvalidInput
from agent_sdk.resources.places import Folder, Places, find_places, repository_root


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return Path(os.path.realpath(tmp_path)) / "home"


@pytest.fixture
def repository(home: Path) -> Path:
    (home / "repo" / ".git").mkdir(parents=True)
    (home / "repo" / "pkg" / "deep").mkdir(parents=True)
    return home / "repo"


def places(home: Path, cwd: Path, **more: Any) -> Places:
    return find_places(cwd=cwd, agent_dir=home / ".zpi" / "agent", home=home, **more)


def paths(folders: tuple[Folder, ...]) -> list[Path]:
    return [folder.path for folder in folders]


def test_every_folder_in_order(home: Path, repository: Path) -> None:
    extra = home / "extra"
    found = places(home, repository / "pkg" / "deep", extra_skill_folders=[extra])
    deep, agent_dir = repository / "pkg" / "deep", home / ".zpi" / "agent"
    assert (found.cwd, found.root) == (deep, repository)
    assert paths(found.instructions) == [agent_dir, repository, repository / "pkg", deep]
    assert paths(found.skills) == [
        home / ".agents" / "skills",
        agent_dir / "skills",
        extra,
        deep / ".agents" / "skills",
        deep / ".zpi" / "skills",
    ]
    assert paths(found.commands) == [agent_dir / "commands", deep / ".zpi" / "commands"]
    assert paths(found.agents) == [agent_dir / "agents", deep / ".zpi" / "agents"]
    assert [folder.source for folder in found.skills] == ["user"] * 3 + ["project"] * 2
    assert {folder.within for folder in found.skills} == {None, repository}


def test_sources_can_be_chosen(home: Path, repository: Path) -> None:
    nothing = places(home, repository, setting_sources=[])
    assert (nothing.instructions, nothing.skills, nothing.commands, nothing.agents) == ((),) * 4
    everything = places(home, repository)
    for source in ("user", "project"):
        some = places(home, repository, setting_sources=[source])
        for kind in ("instructions", "skills", "commands", "agents"):
            expected = [each for each in getattr(everything, kind) if each.source == source]
            assert list(getattr(some, kind)) == expected != []


def test_extra_folders_are_the_users(home: Path, repository: Path) -> None:
    found = places(
        home, repository, setting_sources=["project"], extra_skill_folders=[home / "extra"]
    )
    assert home / "extra" not in paths(found.skills)
    (problem,) = found.problems
    assert (problem.kind, problem.level, problem.path) == (
        "source",
        "warning",
        str(home / "extra"),
    )


def test_unknown_sources_and_relative_folders_are_refused(home: Path, repository: Path) -> None:
    with pytest.raises(InvalidInput, match="'local' is no setting source"):
        places(home, repository, setting_sources=["local"])
    with pytest.raises(InvalidInput, match="'skills' is no absolute path"):
        places(home, repository, extra_skill_folders=["skills"])


def test_without_a_repository_only_the_folder_counts(home: Path) -> None:
    (home / "plain" / "sub").mkdir(parents=True)
    found = places(home, home / "plain" / "sub")
    assert found.root == home / "plain" / "sub"
    assert len(found.instructions) == 2


def test_a_worktree_is_a_repository(home: Path) -> None:
    (home / "tree" / "sub").mkdir(parents=True)
    (home / "tree" / ".git").write_text("gitdir: elsewhere")
    assert repository_root(home / "tree" / "sub") == home / "tree"


def test_in_the_home_folder_a_folder_is_the_users(home: Path) -> None:
    home.mkdir()
    found = places(home, home)
    assert [(each.path, each.source) for each in found.skills] == [
        (home / ".agents" / "skills", "user"),
        (home / ".zpi" / "agent" / "skills", "user"),
        (home / ".zpi" / "skills", "project"),
    ]


if sys.platform != "win32":

    def test_the_folder_is_the_real_one(home: Path, repository: Path) -> None:
        (home / "link").symlink_to(repository / "pkg")
        assert places(home, home / "link").cwd == repository / "pkg"
