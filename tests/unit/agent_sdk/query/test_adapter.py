"""Loop events as SDK messages."""

from typing import Any

from agent_sdk.core.ids import RandomIds
from agent_sdk.core.usage import Prices
from agent_sdk.loop.types import Notice, RunEnded
from agent_sdk.providers.messages import Json
from agent_sdk.providers.models import Model
from agent_sdk.query.adapter import SdkAdapter
from agent_sdk.testing.provider import ScriptedProvider, answer, text, thinking, tool_call
from tests.support.loop_fakes import READ, FakePorts, FakeTool, run_loop

PRICED = Model(id="m", provider="p", api="anthropic-messages", prices=Prices(input=1.0, output=2.0))


async def fold(*script: Any, partial: bool = False, denied: str = "") -> list[Json]:
    async def work(args: Json, context: Any) -> str:
        return "read it"

    ports = FakePorts()
    ports.denied = {denied}
    end = await run_loop(ScriptedProvider(*script), ports, FakeTool("read", work, READ))
    adapter = SdkAdapter(session_id="s", model=PRICED, ids=RandomIds(), partial=partial)
    messages = [m for e in ports.events for m in adapter.fold(e)]
    return [*messages, adapter.result(end, seconds=1.5, spent={PRICED.key: end.usage})]


async def test_one_assistant_message_a_block_and_results_as_user_messages() -> None:
    messages = await fold(
        answer(thinking("hm", signature="x"), text("Let me see."), tool_call("read", {"a": 1})),
        answer("It says so."),
    )
    kinds = [m["type"] for m in messages]
    assert kinds == ["assistant", "assistant", "assistant", "user", "assistant", "result"]
    first, second, third = messages[:3]
    assert first["message"]["content"] == [{"type": "thinking", "thinking": "hm", "signature": "x"}]
    assert second["message"]["content"] == [{"type": "text", "text": "Let me see."}]
    assert third["message"]["content"] == [
        {"type": "tool_use", "id": "call_1", "name": "read", "input": {"a": 1}}
    ]
    assert first["message"]["id"] == second["message"]["id"] == third["message"]["id"]
    assert len({m["uuid"] for m in messages}) == len(messages)
    result = messages[3]["message"]["content"][0]
    assert result == {"type": "tool_result", "tool_use_id": "call_1", "content": "read it"}
    assert all(m["session_id"] == "s" for m in messages)


async def test_result_has_the_text_usage_and_cost() -> None:
    result = (await fold(answer("Hello")))[-1]
    assert result["subtype"] == "success"
    assert result["is_error"] is False
    assert result["result"] == "Hello"
    assert result["num_turns"] == 1
    assert result["usage"]["input_tokens"] == 10
    assert result["total_cost_usd"] == (10 * 1.0 + 5 * 2.0) / 1e6
    assert result["modelUsage"]["p/m"]["outputTokens"] == 5
    assert result["stop_reason"] == "end_turn"
    assert result["duration_ms"] == 1500


async def test_deltas_come_only_where_they_are_wanted_and_in_the_form_of_the_messages_api() -> None:
    script = answer(text("a", "b"), tool_call("read", {"x": 1}, deltas=2)), answer("end")
    assert not [m for m in await fold(*script) if m["type"] == "stream_event"]
    events = [m["event"] for m in await fold(*script, partial=True) if m["type"] == "stream_event"]
    kinds = [e["type"] for e in events]
    assert kinds[0] == "message_start"
    assert kinds[-1] == "message_stop"
    texts = [e["delta"]["text"] for e in events if e.get("delta", {}).get("type") == "text_delta"]
    assert texts[:2] == ["a", "b"]
    args = [
        e["delta"]["partial_json"]
        for e in events
        if e.get("delta", {}).get("type") == "input_json_delta"
    ]
    assert "".join(args) == '{"x":1}'
    starts = [e["content_block"]["type"] for e in events if e["type"] == "content_block_start"]
    assert starts == ["text", "tool_use", "text"]
    assert next(e for e in events if e["type"] == "message_delta")["delta"] == {
        "stop_reason": "tool_use",
        "stop_sequence": None,
    }


async def test_refused_calls_are_told_and_listed() -> None:
    messages = await fold(answer(tool_call("read", {"a": 1})), answer("ok"), denied="read")
    told = [m for m in messages if m.get("subtype") == "permission_denied"]
    assert [(m["tool_name"], m["message"]) for m in told] == [("read", "read is not wanted.")]
    assert messages[-1]["permission_denials"] == [
        {"tool_name": "read", "tool_use_id": "call_1", "tool_input": {"a": 1}}
    ]


def test_ends_have_their_subtypes() -> None:
    adapter = SdkAdapter(session_id="s", model=PRICED, ids=RandomIds(), partial=False)
    ends = {
        status: adapter.result(
            RunEnded(run_id="r", status=status, turns=1, error_code="provider", error="no"),
            seconds=0,
            spent={},
        )
        for status in ("completed", "aborted", "error", "max_turns")
    }
    assert {k: (v["subtype"], v["terminal_reason"]) for k, v in ends.items()} == {
        "completed": ("success", "completed"),
        "aborted": ("error_during_execution", "aborted_streaming"),
        "error": ("error_during_execution", "api_error"),
        "max_turns": ("error_max_turns", "max_turns"),
    }
    assert ends["error"]["errors"] == ["no"]
    assert "result" not in ends["error"]


def test_notices_are_informational() -> None:
    adapter = SdkAdapter(session_id="s", model=PRICED, ids=RandomIds(), partial=False)
    [message] = adapter.fold(Notice("warning", "output_limit", "cut"))
    assert (message["subtype"], message["level"], message["content"]) == (
        "informational",
        "warning",
        "cut",
    )
