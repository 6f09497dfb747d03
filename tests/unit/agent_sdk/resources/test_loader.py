import os
import sys
from pathlib import Path

import pytest

from agent_sdk.resources.loader import ResourceChanges, ResourceLoader, Resources, changes
from agent_sdk.session.resources import resource_loader


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = Path(os.path.realpath(tmp_path))
    (root / "work" / ".git").mkdir(parents=True)
    (root / "home").mkdir()
    return root


@pytest.fixture
def loader(root: Path) -> ResourceLoader:
    return resource_loader(
        cwd=root / "work", agent_dir=root / "home" / ".zpi" / "agent", home=str(root / "home")
    )


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")


def fill(root: Path) -> None:
    write(root / "work" / "AGENTS.md", "rules")
    write(root / "home" / ".agents" / "skills" / "tidy" / "SKILL.md", "---\ndescription: d\n---\n")
    write(root / "work" / ".zpi" / "skills" / "tidy" / "SKILL.md", "---\ndescription: e\n---\n")
    write(root / "work" / ".zpi" / "commands" / "fix.md", "fix it")
    write(root / "work" / ".zpi" / "commands" / "bad.md", "")
    write(root / "home" / ".zpi" / "agent" / "agents" / "Explore.md", "---\ndescription: f\n---\n")


def test_nothing_is_found_where_nothing_is(loader: ResourceLoader) -> None:
    found = loader.load()
    assert (found.instructions, found.skills, found.commands, found.agents) == ((), (), (), ())
    assert (found.overridden, found.problems) == ((), ())
    assert found.registry.get("Explore").source == "builtin"


def test_everything_is_found(loader: ResourceLoader, root: Path) -> None:
    fill(root)
    found = loader.load()
    assert [each.text for each in found.instructions] == ["rules"]
    skill, command = found.skill("tidy"), found.command("fix")
    assert skill is not None
    assert skill.source == "project"
    assert command is not None
    assert command.body == "fix it"
    assert (found.skill("fix"), found.command("bad")) == (None, None)
    assert found.registry.get("Explore").description == "f"
    assert [(each.kind, each.name) for each in found.overridden] == [
        ("skill", "tidy"),
        ("agent", "Explore"),
    ]
    assert [each.path for each in found.problems] == [str(root / "work/.zpi/commands/bad.md")]


async def test_it_is_scanned_once_and_again_on_demand(loader: ResourceLoader, root: Path) -> None:
    before = loader.load()
    fill(root)
    assert loader.load() is before
    assert await loader.refresh() == ResourceChanges(
        instructions=True, skills=("tidy",), commands=("fix",), agents=("Explore",), problems=True
    )
    assert loader.load().command("fix")
    assert not await loader.refresh()
    write(root / "work" / ".zpi" / "commands" / "fix.md", "fix it well")
    write(root / "work" / ".zpi" / "commands" / "new.md", "new")
    (root / "home" / ".zpi" / "agent" / "agents" / "Explore.md").unlink()
    found = await loader.refresh()
    assert found
    assert found == ResourceChanges(commands=("fix", "new"), agents=("Explore",))
    assert loader.load().registry.get("Explore").source == "builtin"


async def test_a_refresh_may_come_first(loader: ResourceLoader, root: Path) -> None:
    fill(root)
    found = await loader.refresh()
    assert found.skills == ("tidy",)
    assert loader.load().skills


async def test_a_text_below_its_header_is_no_change(loader: ResourceLoader, root: Path) -> None:
    fill(root)
    loader.load()
    path = root / "work" / ".zpi" / "skills" / "tidy" / "SKILL.md"
    write(path, "---\ndescription: e\n---\nmore")
    assert not await loader.refresh()


async def test_a_loser_that_goes_is_no_change_of_the_winner(
    loader: ResourceLoader, root: Path
) -> None:
    fill(root)
    loader.load()
    (root / "home" / ".agents" / "skills" / "tidy" / "SKILL.md").unlink()
    found = await loader.refresh()
    assert (found.skills, found.problems) == ((), True)
    assert [each.kind for each in loader.load().overridden] == ["agent"]


def test_changes_of_nothing_are_none() -> None:
    assert not changes(Resources(), Resources())


def test_what_is_watched(loader: ResourceLoader, root: Path) -> None:
    work, agent_dir = root / "work", root / "home" / ".zpi" / "agent"
    before = loader.watched
    assert before[work] == frozenset({"AGENTS.md", "CLAUDE.md", ".zpi", ".agents"})
    assert before[agent_dir] == frozenset(
        {"AGENTS.md", "CLAUDE.md", "skills", "commands", "agents"}
    )
    assert before[root / "home" / ".agents"] == frozenset({"skills"})
    assert before[work / ".zpi"] == frozenset({"skills", "commands", "agents"})
    fill(root)
    loader.load()
    after = loader.watched
    assert after[work / ".zpi" / "skills"] is None
    assert after[work / ".zpi" / "skills" / "tidy"] is None
    assert after[work / ".zpi" / "commands"] is None
    assert after[work] == before[work]


if sys.platform != "win32":

    def test_a_hostile_project_changes_nothing_for_the_user(
        loader: ResourceLoader, root: Path
    ) -> None:
        fill(root)
        zpi = root / "work" / ".zpi"
        for name in ("skills", "commands", "agents"):
            (zpi / name).mkdir(exist_ok=True)
            (zpi / name / "loop.md").symlink_to("loop.md")
            (zpi / name / "out.md").symlink_to(root / "home" / ".zpi")
            os.mkfifo(zpi / name / "pipe.md")
            (zpi / name / "big.md").write_bytes(b"---\n" + b"[" * 1_000_000)
        (root / "work" / "AGENTS.md").unlink()
        os.mkfifo(root / "work" / "AGENTS.md")
        found = loader.load()
        assert [each.name for each in found.skills] == ["tidy"]
        assert [each.name for each in found.commands] == ["fix"]
        assert [each.name for each in found.agents] == ["Explore"]
        assert found.instructions[0].error
        assert len(found.problems) == 12
        assert all(each.text and each.hint and each.path for each in found.problems)
