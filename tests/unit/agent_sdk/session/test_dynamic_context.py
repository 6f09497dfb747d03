"""Context that changes: told once, told again, taken back, and never rewritten."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_sdk.core.errors import InvalidInput
from agent_sdk.plugins.types import SessionPlugin
from agent_sdk.providers.messages import Message, Origin, TextBlock, UserMessage
from agent_sdk.session.dynamic_context import (
    MOST_CHARACTERS,
    DynamicContext,
    changes,
    shown_blocks,
    told_blocks,
)
from agent_sdk.session.records import CompactionRecord, RewindRecord
from agent_sdk.testing.provider import ScriptedProvider, answer, tool_call
from tests.support.plugins import Hooked, plugin, shape, texts
from tests.support.sessions import file_tools, in_memory, on_disk, reopened


class Changing:
    """Context instructions that a test changes."""

    def __init__(self, **blocks: str) -> None:
        self.blocks: Mapping[str, str] = blocks
        self.fails = False

    def __call__(self) -> Mapping[str, str]:
        if self.fails:
            raise ValueError
        return self.blocks

    def plugin(self, plugin_id: str = "zpi.memory") -> SessionPlugin:
        return plugin(plugin_id, context_instructions=self)


def script(count: int) -> ScriptedProvider:
    return ScriptedProvider(*[answer(f"{n}") for n in range(count)])


async def test_blocks_are_told_once_and_again_only_when_they_change(tmp_path: Path) -> None:
    blocks = Changing(agents="a: explores", memory="likes tea")
    provider = script(4)
    one = Hooked(in_memory(tmp_path), provider, blocks.plugin())
    async with one.session as session:
        await session.prompt("1")
        await session.prompt("2")
        blocks.blocks = {"agents": "a: explores", "memory": "likes coffee"}
        await session.prompt("3")
        blocks.blocks = {"agents": "a: explores"}
        await session.prompt("4")
    assert one.shape == [
        *("human", "context", "context", "assistant"),
        *("human", "assistant"),
        *("human", "context", "assistant"),
        *("human", "context", "assistant"),
    ]
    told = texts(one.manager.state.messages, "context")
    assert 'name="zpi.memory/agents"' in told[0]
    assert "likes tea" in told[1]
    assert "likes coffee" in told[2]
    assert 'name="zpi.memory/memory" withdrawn="true"' in told[3]
    # Each request begins with the one before it, byte for byte.
    for before, after in zip(provider.requests, provider.requests[1:], strict=False):
        assert after.messages[: len(before.messages)] == before.messages


async def test_two_plugins_do_not_meet_in_one_name(tmp_path: Path) -> None:
    one = Hooked(
        in_memory(tmp_path),
        script(1),
        Changing(notes="from a").plugin("a"),
        Changing(notes="from b").plugin("b"),
    )
    async with one.session as session:
        await session.prompt("1")
    told = texts(one.manager.state.messages, "context")
    assert ['"a/notes"' in told[0], '"b/notes"' in told[1]] == [True, True]


async def test_a_change_during_a_call_waits_for_the_results_of_all(tmp_path: Path) -> None:
    blocks = Changing(memory="old")
    (tmp_path / "a.txt").write_text("x")

    def changes_while_asked() -> Mapping[str, str]:
        # As if the calls had changed it: the second request is the first to see it.
        if "assistant" in shape(one.manager.state.messages):
            return {"memory": "new"}
        return blocks()

    provider = ScriptedProvider(
        answer(
            tool_call("read", {"file_path": "a.txt"}), tool_call("read", {"file_path": "b.txt"})
        ),
        answer("Done."),
    )
    one = Hooked(
        in_memory(tmp_path),
        provider,
        plugin("m", context_instructions=changes_while_asked),
        tools=file_tools(tmp_path),
        allow=["read"],
    )
    async with one.session as session:
        await session.prompt("go")
    assert one.shape == [
        *("human", "context", "assistant"),
        *("result", "result", "context", "assistant"),
    ]


async def test_nothing_is_repeated_after_a_restart(tmp_path: Path) -> None:
    blocks = Changing(memory="likes tea", agents="x")
    manager = await on_disk(tmp_path, tmp_path / "s")
    async with Hooked(manager, script(1), blocks.plugin()).session as session:
        await session.prompt("1")
    blocks.blocks = {"memory": "likes tea"}
    manager = await reopened(session.session_id, tmp_path / "s")
    one = Hooked(manager, script(1), blocks.plugin())
    async with one.session as session:
        await session.prompt("2")
    assert shape(manager.state.messages)[4:] == ["human", "context", "assistant"]
    assert 'agents" withdrawn' in texts(manager.state.messages, "context")[-1]
    manager = await reopened(session.session_id, tmp_path / "s")
    one = Hooked(manager, script(1))  # the plugin has gone
    async with one.session as session:
        await session.prompt("3")
    assert shape(manager.state.messages)[7:] == ["human", "context", "assistant"]
    assert 'memory" withdrawn' in texts(manager.state.messages, "context")[-1]


async def test_what_a_rewind_or_a_compaction_puts_out_of_view_is_told_again(
    tmp_path: Path,
) -> None:
    blocks = Changing(memory="likes tea")
    manager = in_memory(tmp_path)
    provider = script(4)
    one = Hooked(manager, provider, blocks.plugin())
    async with one.session as session:
        await session.prompt("1")
        first = manager.state.message_uuids[0]
        await manager.append(RewindRecord(to_uuid=first, reason="rewind"))
        await session.prompt("2")
        assert shape(provider.requests[1].messages) == ["human", "human", "context"]
        await manager.append(CompactionRecord(summary="All so far.", keep_from_uuid=None))
        await session.prompt("3")
        assert shape(provider.requests[2].messages) == ["summary", "human", "context"]
        await session.prompt("4")
        assert shape(provider.requests[3].messages)[3:] == ["assistant", "human"]


async def test_a_plugin_that_fails_keeps_its_blocks_and_the_user_is_told_once(
    tmp_path: Path,
) -> None:
    bad, good = Changing(memory="likes tea"), Changing(x="1")
    one = Hooked(in_memory(tmp_path), script(4), bad.plugin("bad"), good.plugin("good"))
    async with one.session as session:
        await session.prompt("1")
        bad.fails = True
        good.blocks = {"x": "2"}
        await session.prompt("2")
        await session.prompt("3")
        assert [(n.code, "'bad'" in n.text) for n in one.notices] == [("context_failed", True)]
        bad.fails, bad.blocks = False, {}
        await session.prompt("4")
    told = texts(one.manager.state.messages, "context")
    assert len(told) == 4
    assert 'name="good/x"' in told[2]
    assert 'name="bad/memory" withdrawn' in told[3]


@pytest.mark.parametrize("blocks", [{"a\nb": "x"}, {'a"b': "x"}, {"": "x"}, {"a": 1}, {1: "a"}])
def test_blocks_that_cannot_be_told_are_errors(blocks: Any) -> None:
    with pytest.raises(InvalidInput):
        told_blocks("p", blocks)


def test_blocks_stay_within_their_tags_and_their_budget() -> None:
    (told,) = told_blocks("p", {"k": "x</context>y" + "z" * 30_000}).values()
    assert told.count("</context>") == 1
    assert told.endswith("</context>")
    assert "[Cut:" in told
    assert len(told) < MOST_CHARACTERS + 100
    assert told_blocks("p", {"k": "  \n"}) == {}


Keys = st.sampled_from(["a", "b", "c"])
States = st.dictionaries(Keys, st.sampled_from(["1", "2", " ", "withdrawn"]), max_size=3)


@given(st.lists(st.tuples(States, st.integers(0, 3), st.integers(0, 4)), max_size=8))
def test_what_is_told_always_comes_to_what_is(
    steps: list[tuple[dict[str, str], int, int]],
) -> None:
    """However the view is cut in between, the model ends up with exactly what holds."""
    messages: list[Message] = []
    uuids: list[str] = []
    now: dict[str, str] = {}
    context = DynamicContext(
        plugins=[plugin("p", context_instructions=lambda: now)],
        messages=lambda: messages,
        uuids=lambda: uuids,
        emit=lambda notice: None,
    )
    count = 0
    for state, cut, others in steps:
        now.clear()
        now.update(state)
        if cut:
            del messages[-cut:], uuids[-cut:]
        prompts = [UserMessage(content=(TextBlock("hi"),), origin=Origin("human"))] * others
        for message in prompts:
            count += 1
            messages.append(message)
            uuids.append(f"u{count}")
        added = context.updates()
        for message in added:
            count += 1
            messages.append(message)
            uuids.append(f"u{count}")
        assert shown_blocks(messages, {}) == told_blocks("p", state)
        assert context.updates() == ()
        assert len({m.origin.id for m in added}) == len(added)


def test_context_of_others_is_left_alone() -> None:
    def context(name: str | None) -> UserMessage:
        return UserMessage(content=(TextBlock("x"),), origin=Origin("context", name))

    messages = [context("block:p/a"), context(None), context("other")]
    assert list(shown_blocks(messages, {})) == ["block:p/a"]
    assert changes({}, {}) == ()
