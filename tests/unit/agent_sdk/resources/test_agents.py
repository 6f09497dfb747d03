import contextlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_sdk.core.errors import InvalidInput
from agent_sdk.loop.types import Rule
from agent_sdk.permissions.ruleset import KEYS
from agent_sdk.resources.agents import (
    AgentDefinition,
    AgentRegistry,
    builtin_agents,
    parse_agent,
    scan_agents,
)
from agent_sdk.resources.places import Folder
from agent_sdk.resources.problems import Remark, Source, Unusable
from agent_sdk.session.resources import load_custom_agents, rule_parser

RULES = rule_parser(cwd="/here", home="/home/me")

WRITER = """---
name: ppt-writer
description: PPT 生成专家
mode: primary
steps: 20
model: deepseek/desv3
permission:
  bash: allow
  edit: {"docs/*": allow, "*": deny}
---
你是 PPT 生成专家。
"""


def parse(
    text: str, *, name: str = "file", source: Source = "user"
) -> tuple[AgentDefinition, tuple[Remark, ...]]:
    return parse_agent(text, name=name, rules=RULES, path="/a/file.md", source=source)


def test_everything_in_a_file() -> None:
    found, odd = parse(WRITER)
    assert found == AgentDefinition(
        name="ppt-writer",
        description="PPT 生成专家",
        prompt="你是 PPT 生成专家。",
        mode="primary",
        steps=20,
        model="deepseek/desv3",
        rules=(
            Rule("bash", "*", "allow"),
            Rule("edit", "/here/docs/*", "allow"),
            Rule("edit", "*", "deny"),
        ),
        source="user",
        path="/a/file.md",
    )
    assert odd == ()


def test_a_short_file() -> None:
    found, odd = parse("---\ndescription: d\n---\n")
    assert found == AgentDefinition(name="file", description="d", source="user", path="/a/file.md")
    assert (found.steps, found.mode, found.tools, found.rules, odd) == (
        12,
        "subagent",
        None,
        (),
        (),
    )


def test_a_project_cannot_allow() -> None:
    found, odd = parse(WRITER, source="project")
    assert found.rules == (Rule("edit", "*", "deny"),)
    (remark,) = odd
    assert "bash '*', edit '/here/docs/*'" in remark.text


@pytest.mark.parametrize(
    ("header", "tools", "disallowed"),
    [
        ("tools: Read, Grep", ("Read", "Grep"), ()),
        ("tools: [Read, mcp__a__b]", ("Read", "mcp__a__b"), ()),
        ("tools:", None, ()),
        ("tools: {write: false, read: true}", None, ("write",)),
        ("tools: Read\ndisallowedTools: Bash", ("Read",), ("Bash",)),
        ("disallowedTools: [Bash]\ntools: {edit: off}", None, ("Bash", "edit")),
    ],
)
def test_tools(header: str, tools: tuple[str, ...] | None, disallowed: tuple[str, ...]) -> None:
    found, _ = parse(f"---\ndescription: d\n{header}\n---\n")
    assert (found.tools, found.disallowed_tools) == (tools, disallowed)


@pytest.mark.parametrize(
    ("header", "steps", "model"),
    [
        ("steps: 3\nmaxTurns: 5", 3, ""),
        ("maxTurns: 5\nmodel: inherit", 5, ""),
        ("model: sonnet", 12, "sonnet"),
    ],
)
def test_other_spellings(header: str, steps: int, model: str) -> None:
    found, _ = parse(f"---\ndescription: d\n{header}\n---\n")
    assert (found.steps, found.model) == (steps, model)


def test_a_description_that_is_no_yaml_is_no_reason_to_refuse() -> None:
    found, odd = parse("---\ndescription: Use when: x\ncolor: red\ntools: Read\n---\nbody")
    assert (found.description, found.tools) == ("Use when: x", ("Read",))
    assert len(odd) == 1


def test_fields_without_effect_are_said() -> None:
    _, odd = parse("---\ndescription: d\npermissionMode: plan\nhooks: {}\n---\n")
    assert [remark.text for remark in odd] == [
        "'hooks' has no effect here.",
        "'permissionMode' has no effect here.",
    ]


@pytest.mark.parametrize(
    ("header", "said"),
    [
        (None, "has no header"),
        ("name: x", "'description' is missing"),
        ("description: d\nname: [x]", "'name' must be text"),
        ("description: d\nname: a/b", "'name' is no usable name"),
        ("description: d\nname: '<x>'", "no usable name"),
        ("description: d\nmode: both", "'mode' must be primary, subagent or all, not 'both'"),
        ("description: d\nsteps: 0", "'steps' must be a whole number from 1 to 1000, not '0'"),
        ("description: d\nsteps: many", "'steps'"),
        ("description: d\nsteps: 9999999999", "'steps'"),
        ("description: d\nmodel: {a: b}", "'model' must be text"),
        ("description: d\ntools: {write: maybe}", "'write' must be true or false"),
        ("description: d\nenabled: false", "switched off"),
        ("description: d\npermission: yes", "'permissions' must be an object"),
        ("description: d\npermission:\n  bush: ask", "'permissions.bush' is no permission"),
        ("description: d\npermission:\n  bash: maybe", "must be allow, deny or ask"),
        ("description: d\npermission:\n  bash: {x: [y]}", "must be allow, deny or ask"),
        ("description: d\npermission:\n  *: deny", "'permission' is no valid YAML"),
        ("description: d\npermission: {bash: deny}\npermission: {}", "'permission' is there twice"),
        ("description: d\npermission:\n  bash: deny\n  bash: allow", "has 'bash' twice"),
        ("- a", "header must be fields"),
    ],
)
def test_what_is_unusable_says_why(header: str | None, said: str) -> None:
    with pytest.raises(Unusable, match=said.replace("(", r"\(")) as caught:
        parse("# Notes" if header is None else f"---\n{header}\n---\nbody")
    assert caught.value.hint


@given(st.text(max_size=80))
def test_no_file_does_more_than_be_unusable(text: str) -> None:
    for whole in (text, f"---\ndescription: d\npermission: {text}\n---\n"):
        with contextlib.suppress(Unusable):
            found, _ = parse(whole)
            assert found.description


# ---------------------------------------------------------------- registry


def test_the_presets() -> None:
    registry = AgentRegistry()
    assert [agent.name for agent in registry.agents] == [
        "Explore",
        "build",
        "general-purpose",
        "plan",
    ]
    assert [agent.name for agent in registry.primary] == ["build", "plan"]
    assert [agent.name for agent in registry.subagents] == ["Explore", "general-purpose"]
    assert {agent.steps for agent in registry.subagents} == {12}
    assert all(agent.description and agent.source == "builtin" for agent in registry.agents)
    assert {rule.permission for agent in builtin_agents() for rule in agent.rules} <= set(KEYS)
    assert Rule("edit", "*", "deny") in registry.get("Explore").rules


def test_deriving_changes_nothing() -> None:
    base = AgentRegistry()
    mine = AgentDefinition(name="Explore", description="mine", mode="all")
    derived = base.derive([mine])
    assert derived.find("Explore") == mine
    assert mine in derived.primary
    assert mine in derived.subagents
    assert base.get("Explore").source == "builtin"
    assert base.get("Explore") != mine
    assert AgentRegistry([]).agents == ()


def test_an_unknown_agent_is_an_error_that_lists_the_others() -> None:
    assert AgentRegistry().find("explore") is None
    with pytest.raises(InvalidInput, match="no agent 'explore'") as caught:
        AgentRegistry().get("explore")
    assert "Explore, build" in caught.value.hint


# ------------------------------------------------------------------- files


def agent(folder: Path, name: str, text: str = "---\ndescription: d\n---\nbody") -> str:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text, "utf-8")
    return str(folder / name)


def test_a_broken_file_leaves_what_was_there(tmp_path: Path) -> None:
    agent(tmp_path, "Explore.md", "---\ndescription: d\npermission: allow\n---\n")
    agent(tmp_path, "README.md", "# About these agents")
    agent(tmp_path, "good.md")
    found = scan_agents([Folder(tmp_path, "project", tmp_path)], rules=RULES)
    assert [each.name for each in found.items] == ["good"]
    assert [Path(each.path).name for each in found.problems] == ["Explore.md", "README.md"]
    assert AgentRegistry().derive(found.items).get("Explore").source == "builtin"


def test_the_last_one_wins_over_builtin_and_user(tmp_path: Path) -> None:
    mine = agent(tmp_path / "user", "Explore.md")
    theirs = agent(tmp_path / "project", "Explore.md")
    folders = [Folder(tmp_path / "user", "user"), Folder(tmp_path / "project", "project", tmp_path)]
    found = scan_agents(folders, rules=RULES)
    assert [(each.name, each.path) for each in found.items] == [("Explore", theirs)]
    assert [(each.source, each.path, each.by) for each in found.overridden] == [
        ("builtin", "", theirs),
        ("user", mine, theirs),
    ]


def test_agents_of_a_workspace(tmp_path: Path) -> None:
    agent(tmp_path / "w" / ".zpi" / "agents", "a.md", WRITER)
    agent(tmp_path / "w" / ".zpi" / "agents", "b.md", "no header")
    agent(tmp_path / "mine" / "agents", "c.md")
    found = load_custom_agents(tmp_path / "w")
    assert [each.name for each in found.agents] == ["ppt-writer"]
    assert found.agents[0].rules == (Rule("edit", "*", "deny"),)
    assert [each.level for each in found.errors] == ["warning", "error"]
    both = load_custom_agents(tmp_path / "w", agent_dir=tmp_path / "mine")
    assert [(each.name, each.source) for each in both.agents] == [
        ("c", "user"),
        ("ppt-writer", "project"),
    ]
    assert load_custom_agents(tmp_path / "missing").agents == ()
