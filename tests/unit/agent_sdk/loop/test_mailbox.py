"""What others send into a run, and what the owner tells the model before a request."""

import asyncio
from typing import Any

import pytest
from typing_extensions import override

from agent_sdk.core.aio import AbortSignal
from agent_sdk.core.errors import StorageError
from agent_sdk.loop.answer import has_final_text
from agent_sdk.loop.types import AgentEvent, AssistantMessageAdded, ToolContext
from agent_sdk.providers.messages import (
    AssistantMessage,
    Block,
    Json,
    TextBlock,
    ThinkingBlock,
    UserMessage,
)
from agent_sdk.testing.provider import ScriptedProvider, answer, thinking, tool_call
from tests.support.loop_fakes import FakePorts, FakeTool, run_loop, user


def mail(what: str) -> UserMessage:
    return user(what, "mailbox")


async def test_mail_is_taken_with_the_prompt_and_after_each_whole_batch() -> None:
    ports = FakePorts()
    ports.mailbox = [mail("from before")]

    async def work(args: Json, context: ToolContext) -> str:
        ports.mailbox.append(mail("from a task"))
        return "ok"

    provider = ScriptedProvider(
        answer(tool_call("a", {}), tool_call("a", {"n": 2})), answer("Done.")
    )
    end = await run_loop(provider, ports, FakeTool("a", work))
    assert end.status == "completed"
    kinds = [line for line in ports.log if line.startswith(("user", "result", "assistant"))]
    assert [k.split()[0] + " " + k.split()[1][:7] for k in kinds][:3] == [
        "user human",
        "user mailbox",
        "assistant tool_us",
    ]
    assert [k.split()[0] for k in kinds[3:]] == ["result", "result", "user", "user", "assistant"]
    assert len(provider.requests) == 2


@pytest.mark.parametrize(
    ("first", "goes_on"),
    [
        (answer(thinking("Hm.")), True),
        (answer(thinking("Hm."), "Done."), False),
        (answer("Done."), False),
    ],
)
async def test_only_an_answer_without_final_text_goes_on_for_mail(
    first: Any, goes_on: bool
) -> None:
    class Late(FakePorts):
        """Gets mail as soon as the first answer is stored."""

        @override
        def emit(self, event: AgentEvent) -> None:
            if isinstance(event, AssistantMessageAdded) and len(provider.requests) == 1:
                self.mailbox.append(mail("result"))
            super().emit(event)

    ports = Late()
    provider = ScriptedProvider(first, answer("Thanks."))
    end = await run_loop(provider, ports)
    assert end.status == "completed"
    assert end.turns == (2 if goes_on else 1)
    assert [m.origin.kind for m in ports.mailbox] == ([] if goes_on else ["mailbox"])


async def test_no_mail_no_turn() -> None:
    ports = FakePorts()
    end = await run_loop(ScriptedProvider(answer(thinking("Hm."))), ports)
    assert (end.status, end.turns) == ("completed", 1)


@pytest.mark.parametrize(
    ("blocks", "final"),
    [
        ([TextBlock("Done.")], True),
        ([TextBlock("  \n")], False),
        ([ThinkingBlock("Hm.")], False),
        ([TextBlock("Looking.", {"phase": "commentary"})], False),
        ([TextBlock("So far.", {"phase": "partial_answer"})], False),
        ([TextBlock("Looking.", {"phase": "commentary"}), TextBlock("Done.")], True),
        ([TextBlock("Done.", {"phase": "final_answer"})], True),
        ([TextBlock("Done.", {"id": "m1"})], True),
        ([], False),
    ],
)
def test_final_text_is_text_that_is_not_marked_otherwise(blocks: list[Block], final: bool) -> None:
    message = AssistantMessage(
        content=tuple(blocks), api="a", provider="p", model="m", stop_reason="end_turn"
    )
    assert has_final_text(message) is final


async def test_mail_that_cannot_be_stored_is_there_for_the_next_run() -> None:
    class Full(FakePorts):
        @override
        async def add_user(self, *messages: UserMessage) -> list[str]:
            if any(m.origin.kind == "mailbox" for m in messages):
                raise StorageError("The disk is full.")
            return await super().add_user(*messages)

    ports = Full()
    ports.mailbox = [mail("one"), mail("two")]
    end = await run_loop(ScriptedProvider(), ports)
    assert end.error_code == "storage"
    assert [m.content for m in ports.steering] == [mail("one").content, mail("two").content]


async def test_a_stopped_run_takes_no_mail() -> None:
    ports = FakePorts()
    began = asyncio.Event()

    async def work(args: Json, context: ToolContext) -> str:
        began.set()
        await asyncio.Event().wait()
        return ""

    signal = AbortSignal()
    provider = ScriptedProvider(answer(tool_call("a", {})))
    run = asyncio.ensure_future(run_loop(provider, ports, FakeTool("a", work), signal=signal))
    await began.wait()
    ports.mailbox.append(mail("late"))
    signal.abort()
    assert (await run).status == "aborted"
    assert len(ports.mailbox) == 1
    ports.assert_paired()


async def test_context_is_told_before_a_request_and_behind_all_results() -> None:
    ports = FakePorts()
    ports.told = [user("now", "context")]

    async def work(args: Json, context: ToolContext) -> str:
        ports.told.append(user("then", "context"))
        return "ok"

    provider = ScriptedProvider(
        answer(tool_call("a", {"n": 1}), tool_call("a", {"n": 2})), answer(".")
    )
    await run_loop(provider, ports, FakeTool("a", work))
    order = [line.split()[0:2] for line in ports.log if line.startswith(("user", "result"))]
    assert [" ".join(o) if o[0] == "user" else o[0] for o in order] == [
        *("user human", "user context"),
        *("result", "result"),
        *("user context", "user context"),
    ]
