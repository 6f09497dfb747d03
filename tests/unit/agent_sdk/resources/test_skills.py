import os
import sys
from pathlib import Path

import pytest

from agent_sdk.resources.places import Folder
from agent_sdk.resources.problems import Overridden, Unusable
from agent_sdk.resources.skills import Skill, expand_skill, parse_skill, read_skill, scan_skills


@pytest.fixture
def user(tmp_path: Path) -> Path:
    return Path(os.path.realpath(tmp_path)) / "user"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return Path(os.path.realpath(tmp_path)) / "project"


def folders(user: Path, project: Path) -> tuple[Folder, Folder]:
    return Folder(user, "user"), Folder(project / "skills", "project", project)


def skill(folder: Path, name: str, text: str = "---\ndescription: d\n---\nbody") -> Path:
    path = folder / name / "SKILL.md"
    path.parent.mkdir(parents=True)
    path.write_text(text, "utf-8")
    return path


def parsed(header: str, body: str = "body", *, name: str = "tidy") -> Skill:
    return parse_skill(f"---\n{header}\n---\n{body}", name=name, path="/s/SKILL.md")[0]


def test_everything_in_a_header() -> None:
    text = (
        "---\nname: tidy\ndescription: >\n  Use it\n  when asked.\nargument-hint: [file]\n"
        "disable-model-invocation: yes\nuser-invocable: 'off'\nallowed-tools: Read, Write\n"
        "version: 1.0\nhooks: {}\n---\nbody"
    )
    found, odd = parse_skill(text, name="tidy", path="/s/SKILL.md", source="project", within="/s")
    assert found == Skill(
        name="tidy",
        description="Use it when asked.",
        path="/s/SKILL.md",
        source="project",
        within="/s",
        listed=False,
        user_invocable=False,
        argument_hint="[file]",
        no_effect=("allowed-tools", "hooks"),
    )
    assert odd == ()


@pytest.mark.parametrize(
    ("text", "description"),
    [
        ("---\nname: tidy\n---\n# Title\n\nFirst line\nsecond.\n\nMore", "First line second."),
        ("# Title\n\nOnly a body.", "Only a body."),
        ("---\ndescription: Use when: asked\n---\n", "Use when: asked"),
    ],
)
def test_descriptions_are_found(text: str, description: str) -> None:
    assert parse_skill(text, name="tidy", path="/s")[0].description == description


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no description"),
        ("# Only a title", "no description"),
        ("---\ndescription: [a]\n---\n", "'description' must be text"),
        ("---\ndescription: d\nuser-invocable: maybe\n---\n", "must be true or false"),
        ("---\ndescription: d\n", "never closed"),
    ],
)
def test_what_is_unusable_says_why(text: str, said: str) -> None:
    with pytest.raises(Unusable, match=said) as caught:
        parse_skill(text, name="tidy", path="/s")
    assert caught.value.hint


@pytest.mark.parametrize("name", ["a b", "a:b", "-a", "", "a/b", "x" * 65, "a\ud8ff", "$a"])
def test_names_that_cannot_be_typed(name: str) -> None:
    with pytest.raises(Unusable, match="no usable name"):
        parsed("description: d", name=name)


@pytest.mark.parametrize("name", ["a", "x" * 64, "pdf-2.0_b", "整理"])
def test_names_that_can_be_typed(name: str) -> None:
    assert parsed("description: d", name=name).name == name


def test_another_name_and_a_long_description_are_remarked() -> None:
    text = f"---\nname: Other\ndescription: {'x' * 1025}\n---\nbody"
    found, odd = parse_skill(text, name="tidy", path="/s")
    assert (len(found.description), found.description[-1]) == (1024, "…")
    assert len(odd) == 2
    assert "'Other'" in odd[1].text


def test_the_last_one_wins_and_losers_are_listed(user: Path, project: Path) -> None:
    lost = skill(user, "tidy", "---\ndescription: mine\n---\n")
    skill(user, "alone")
    won = skill(project / "skills", "tidy", "---\ndescription: theirs\n---\n")
    found = scan_skills(folders(user, project))
    assert [(each.name, each.source) for each in found.items] == [
        ("alone", "user"),
        ("tidy", "project"),
    ]
    assert found.items[1].description == "theirs"
    assert found.overridden == (
        Overridden(kind="skill", name="tidy", path=str(lost), source="user", by=str(won)),
    )
    assert found.problems == ()


def test_only_one_level_is_read(user: Path, project: Path) -> None:
    skill(user / "group", "deep")
    (user / "README.md").write_text("notes")
    (user / ".git").mkdir()
    found = scan_skills(folders(user, project))
    assert found.items == ()
    (problem,) = found.problems
    assert (problem.path, problem.source, problem.level) == (str(user / "group"), "user", "error")
    assert "holds no SKILL.md" in problem.text


def test_one_bad_skill_does_not_hide_the_others(user: Path, project: Path) -> None:
    skill(user, "a", "---\ndescription: [\n")
    skill(user, "b b")
    skill(user, "c")
    (user / "d" / "SKILL.md").mkdir(parents=True)
    skill(user, "e").write_bytes(b"\xff\xff")
    skill(user, "f", "---\ndescription: x\n" + "k: v\n" * 20_000 + "---\n")
    found = scan_skills(folders(user, project))
    assert [each.name for each in found.items] == ["c"]
    assert [Path(each.path).name for each in found.problems] == ["a", "b b", "d", "e", "f"]


def test_a_skill_is_used_though_its_header_was_bent(user: Path, project: Path) -> None:
    skill(user, "a", "---\ndescription: Use when: asked\n---\n")
    found = scan_skills(folders(user, project))
    assert found.items[0].description == "Use when: asked"
    assert [each.level for each in found.problems] == ["warning"]


def test_a_long_text_is_not_read_when_scanning(user: Path, project: Path) -> None:
    skill(user, "a", "---\ndescription: d\n---\n" + "中" * 60_000)
    (found,) = scan_skills(folders(user, project)).items
    assert len(read_skill(found)) == 60_000


def test_the_text_is_read_as_it_is_now(user: Path, project: Path) -> None:
    path = skill(user, "a")
    (found,) = scan_skills(folders(user, project)).items
    path.write_text("---\ndescription: d\n---\nnew $1 ${CLAUDE_SKILL_DIR}/x")
    assert read_skill(found, "word") == f"new word {path.parent}/x"
    path.unlink()
    with pytest.raises(Unusable, match="is gone"):
        read_skill(found)
    path.write_bytes(b"\xff")
    with pytest.raises(Unusable, match="no UTF-8") as caught:
        read_skill(found)
    assert str(path) in caught.value.message


def test_arguments_without_a_place_come_last() -> None:
    assert expand_skill("text", folder="/f", arguments="a b") == "text\n\nARGUMENTS: a b"
    assert expand_skill("in ${ZPI_SKILL_DIR}", folder="/f") == "in /f"


if sys.platform != "win32":

    def test_a_skill_by_a_link_is_no_loser(user: Path, project: Path) -> None:
        real = skill(project / "skills", "tidy").parent
        user.mkdir()
        (user / "tidy").symlink_to(real)
        found = scan_skills(folders(user, project))
        assert ([each.source for each in found.items], found.overridden) == (["project"], ())

    def test_links_loops_and_pipes(user: Path, project: Path) -> None:
        skill(user, "good")
        (project / "skills").mkdir(parents=True)
        (project / "skills" / "out").symlink_to(user / "good")
        (project / "skills" / "loop").symlink_to("loop")
        (project / "skills" / "nowhere").symlink_to("missing")
        (project / "skills" / "pipe").mkdir()
        os.mkfifo(project / "skills" / "pipe" / "SKILL.md")
        (project / "skills" / "note").symlink_to(user / "good" / "SKILL.md")
        found = scan_skills(folders(user, project))
        assert [each.name for each in found.items] == ["good"]
        assert {Path(each.path).name: each.text for each in found.problems} == {
            "loop": "It is a link that leads back to itself.",
            "nowhere": "It is a link that leads nowhere.",
            "out": "It is a link that leads out of the project.",
            "pipe": "It is no ordinary file.",
        }

    def test_a_link_that_is_swapped_later_is_not_followed(user: Path, project: Path) -> None:
        path = skill(project / "skills", "tidy")
        (found,) = scan_skills(folders(user, project)).items
        user.mkdir()
        (user / "secret").write_text("secret")
        path.unlink()
        path.symlink_to(user / "secret")
        with pytest.raises(Unusable, match="leads out of the project"):
            read_skill(found)
