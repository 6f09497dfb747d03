from typing import Any

import pytest

from agent_sdk.core.errors import InvalidInput
from agent_sdk.tools.registry import (
    normalise_tool_name,
    public_tool_name,
    select_tools,
    tool_specs,
    tools_by_name,
)
from tests.support.loop_fakes import FakeTool


def tool(name: str) -> Any:
    async def work(raw: object, context: object) -> str:
        return name

    return FakeTool(name, work)


ALL = [tool("read"), tool("write"), tool("edit"), tool("bash"), tool("deploy")]


@pytest.mark.parametrize(
    ("given", "native"),
    [
        ("Read", "read"),
        ("read", "read"),
        (" Bash ", "bash"),
        ("Deploy", "Deploy"),
        ("READ", "READ"),
    ],
)
def test_normalise(given: str, native: str) -> None:
    assert normalise_tool_name(given) == native


def test_public() -> None:
    assert public_tool_name("edit") == "Edit"
    assert public_tool_name("deploy") == "deploy"


def test_all_in_their_order() -> None:
    assert list(select_tools(ALL)) == ["read", "write", "edit", "bash", "deploy"]


def test_named_and_excluded() -> None:
    assert list(select_tools(ALL, names=["bash", "Read"])) == ["read", "bash"]
    assert list(select_tools(ALL, excludes=["Bash", "deploy"])) == ["read", "write", "edit"]
    assert select_tools(ALL, names=[]) == {}
    assert select_tools(ALL, no_tools=True) == {}


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"names": ["Grep"]}, "no tool 'Grep' to take"),
        ({"excludes": ["READ"]}, "no tool 'READ' to exclude"),
        ({"names": ["read", "Read"]}, "named twice"),
        ({"names": ["read"], "excludes": ["Read"]}, "both named and excluded"),
        ({"names": ["read"], "no_tools": True}, "no_tools"),
        ({"excludes": ["nope"], "no_tools": True}, "no tool 'nope'"),
    ],
)
def test_refused(options: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidInput, match=says):
        select_tools(ALL, **options)


@pytest.mark.parametrize(
    ("names", "says"),
    [
        (["x", "x"], "two tools named 'x'"),
        (["read", "Read"], "two tools named 'Read'"),
        (["Read"], "taken by the built-in"),
        ([""], "no name"),
    ],
)
def test_names_are_unique(names: list[str], says: str) -> None:
    with pytest.raises(InvalidInput, match=says):
        tools_by_name([tool(name) for name in names])


def test_specs() -> None:
    (spec,) = tool_specs({"deploy": tool("deploy")})
    assert (spec.name, spec.description) == ("deploy", "does deploy")
