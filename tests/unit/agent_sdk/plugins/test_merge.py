"""Plugins put together: order, and every conflict with both its owners."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_sdk.core.errors import PluginConflict
from agent_sdk.loop.types import ToolContext
from agent_sdk.plugins.matching import matches
from agent_sdk.plugins.merge import find_problems, merge_contributions
from agent_sdk.plugins.types import (
    ANSWERS,
    EVENT_NAMES,
    INPUTS,
    Hook,
    PluginCommand,
    SessionPlugin,
    SessionStartInput,
    event_of,
)
from agent_sdk.providers.messages import Json
from tests.support.loop_fakes import FakeTool
from tests.support.plugins import Says, plugin


async def _nothing(args: Json, context: ToolContext) -> str:
    return ""


def tool(name: str) -> FakeTool:
    return FakeTool(name, _nothing)


def command(name: str, body: str = "do it") -> PluginCommand:
    return PluginCommand(name=name, body=body)


def kinds(*plugins: SessionPlugin, **more: Any) -> list[tuple[str, tuple[str, ...]]]:
    return [(p.kind, p.owners) for p in find_problems(plugins, **more)]


def test_contributions_keep_the_order_of_plugins_and_call_nothing() -> None:
    said = Says()

    def blocks() -> dict[str, str]:
        raise AssertionError("a merge asks nobody")

    b = plugin(
        "b.two",
        Hook(event="Stop", handler=said),
        Hook(event="SessionStart", handler=said),
        instructions=("second", "  "),
        tools=(tool("beta"),),
        context_instructions=blocks,
    )
    a = plugin(
        "a.one",
        Hook(event="Stop", handler=said),
        instructions=("first",),
        commands=(command("init"),),
        tool_overrides=(tool("bash"),),
    )
    merged = merge_contributions([b, a], builtins=["read", "bash"])
    assert [(i.plugin_id, i.text) for i in merged.instructions] == [
        ("b.two", "second"),
        ("a.one", "first"),
    ]
    assert [(h.plugin_id, h.hook.event, h.index) for h in merged.hooks] == [
        ("b.two", "Stop", 0),
        ("b.two", "SessionStart", 1),
        ("a.one", "Stop", 0),
    ]
    assert [t.name for t in merged.tools] == ["beta"]
    assert list(merged.overrides) == ["bash"]
    assert [p.id for p in merged.context] == ["b.two"]
    assert merged.owners == {"beta": "b.two", "/init": "a.one", "bash": "a.one"}
    assert said.told == []


@pytest.mark.parametrize(
    ("plugins", "expected"),
    [
        ([plugin("a"), plugin("a")], ("duplicate_id", ("a", "a"))),
        ([plugin("A b")], ("bad_id", ("A b",))),
        ([plugin("a/b")], ("bad_id", ("a/b",))),
        ([SessionPlugin(id="a", version=" ")], ("bad_version", ("a",))),
        (
            [plugin("a", commands=(command("x"),)), plugin("b", commands=(command("X"),))],
            ("duplicate_command", ("a", "b")),
        ),
        ([plugin("a", commands=(command("Compact"),))], ("reserved_command", ("zpi", "a"))),
        ([plugin("a", commands=(command("a/b"),))], ("bad_command", ("a",))),
        ([plugin("a", commands=(command("x", " "),))], ("bad_command", ("a",))),
        (
            [plugin("a", tools=(tool("web"),)), plugin("b", tools=(tool("web"),))],
            ("duplicate_tool", ("a", "b")),
        ),
        ([plugin("a", tools=(tool("Read"),))], ("duplicate_tool", ("zpi", "a"))),
        ([plugin("a", tools=(tool("mine"),))], ("duplicate_tool", ("customTools", "a"))),
        ([plugin("a", tools=(tool("my tool"),))], ("bad_tool", ("a",))),
        ([plugin("a", tool_overrides=(tool("web"),))], ("unknown_override", ("a",))),
        (
            [
                plugin("a", tool_overrides=(tool("read"),)),
                plugin("b", tool_overrides=(tool("read"),)),
            ],
            ("duplicate_override", ("a", "b")),
        ),
        ([plugin("a", Hook(event="Stop", handler=Says(), on_error="block"))], ("bad_hook", ("a",))),
        ([plugin("a", Hook(event="Stop", handler=Says(), matcher="read"))], ("bad_hook", ("a",))),
        ([plugin("a", Hook(event="Stop", handler=Says(), timeout=0))], ("bad_hook", ("a",))),
        ([plugin("a", Hook(event="Stop", handler=Says(), timeout=301))], ("bad_hook", ("a",))),
        (
            [plugin("a", Hook(event="PreToolUse", handler=Says(), matcher="(a+)+$"))],
            ("bad_hook", ("a",)),
        ),
    ],
)
def test_each_conflict_is_an_error_that_names_its_owners(
    plugins: list[SessionPlugin], expected: tuple[str, tuple[str, ...]]
) -> None:
    more: dict[str, Any] = {"builtins": ["read", "bash"], "taken": {"mine": "customTools"}}
    assert kinds(*plugins, **more) == [expected]
    with pytest.raises(PluginConflict) as caught:
        merge_contributions(plugins, **more)
    if len(set(expected[1])) == 2:
        named = [owner for owner in expected[1] if owner != "zpi"]
        assert all(repr(owner) in str(caught.value) for owner in named)
    assert caught.value.code == "plugin_conflict"


def test_an_unknown_event_is_refused_with_those_there_are() -> None:
    hook = Hook(event="Teleport", handler=Says())  # type: ignore[arg-type]
    with pytest.raises(PluginConflict, match=r"'Teleport'.*SessionStart"):
        merge_contributions([plugin("a", hook)])


def test_all_problems_are_found_at_once() -> None:
    with pytest.raises(PluginConflict, match=r"1 more"):
        merge_contributions([plugin("A"), SessionPlugin(id="b", version="")])


@pytest.mark.parametrize(
    ("matcher", "name", "fits"),
    [
        ("", "read", True),
        ("*", "read", True),
        ("read", "read", True),
        ("Read", "read", True),
        ("Edit | Write", "write", True),
        ("Edit|Write", "todo_write", False),
        ("read", "reader", False),
        ("mcp__*", "mcp__github__search", True),
        ("mcp__*__search", "mcp__github__search", True),
        ("mcp__*__search", "mcp__search", False),
        ("Re*", "read", True),
        ("*", "", True),
    ],
)
def test_matchers_take_names_in_either_spelling(matcher: str, name: str, fits: bool) -> None:
    assert matches(matcher, name) is fits


@given(st.lists(st.text("ab", max_size=3), min_size=2, max_size=6), st.text("ab", max_size=12))
def test_stars_stand_for_any_characters(literals: list[str], text: str) -> None:
    def model(parts: list[str], rest: str) -> bool:
        if len(parts) == 1:
            return rest.endswith(parts[0])
        return any(
            rest[at:].startswith(parts[0]) and model(parts[1:], rest[at + len(parts[0]) :])
            for at in range(len(rest) + 1)
        )

    first, *more = literals
    expected = text.startswith(first) and model(more, text[len(first) :])
    pattern = "*".join(literals)
    if pattern.strip("*"):
        assert matches(pattern, text) is expected


def test_every_event_has_its_input_and_its_answer() -> None:
    assert set(INPUTS) == set(ANSWERS) == set(EVENT_NAMES)
    for name, told in INPUTS.items():
        assert told.__struct_config__.tag == name
        assert {"sessionId", "cwd", "invocationId"} <= set(told.__struct_encode_fields__)
    for name in ("PreToolUse", "PostToolUse", "PostToolUseFailure"):
        fields = INPUTS[name].__struct_encode_fields__
        assert {"toolCallId", "toolName", "toolInput"} <= set(fields)
    start = SessionStartInput(session_id="s", cwd="/")
    assert event_of(start) == "SessionStart"
