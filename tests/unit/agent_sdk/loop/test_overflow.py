"""A request that does not fit the model: the owner may make room, once for each turn."""

from typing_extensions import override

from agent_sdk.core.aio import AbortSignal
from agent_sdk.core.errors import ProviderError
from agent_sdk.testing.provider import ScriptedProvider, answer, failure, text, tool_call
from tests.support.loop_fakes import READ, FakePorts, FakeTool, run_loop


async def test_the_request_is_made_again_when_there_is_room() -> None:
    ports = FakePorts()
    ports.makes_room = True
    provider = ScriptedProvider(failure("context_overflow"), answer("done"))
    end = await run_loop(provider, ports)
    assert (end.status, end.turns) == ("completed", 1)
    assert ports.log.count("request 1") == 1
    assert ports.log.count("overflow context_overflow") == 1


async def test_without_room_the_run_ends_with_the_error() -> None:
    ports = FakePorts()
    provider = ScriptedProvider(failure("context_overflow", message="too big"), answer("never"))
    end = await run_loop(provider, ports)
    assert (end.status, end.error_code, provider.left) == ("error", "provider", 1)
    assert "too big" in end.error


async def test_a_turn_gets_room_once() -> None:
    ports = FakePorts()
    ports.makes_room = True
    provider = ScriptedProvider(*[failure("context_overflow")] * 3)
    end = await run_loop(provider, ports)
    assert (end.status, provider.left) == ("error", 1)


async def test_each_turn_may_get_room() -> None:
    ports = FakePorts()
    ports.makes_room = True
    tool = FakeTool("look", lambda args, context: _text("seen"), READ)
    provider = ScriptedProvider(
        failure("context_overflow"),
        answer(tool_call("look")),
        failure("context_overflow"),
        answer("done"),
    )
    end = await run_loop(provider, ports, tool)
    assert (end.status, end.turns) == ("completed", 2)
    ports.assert_paired()


async def test_what_had_arrived_of_it_is_not_kept() -> None:
    ports = FakePorts()
    ports.makes_room = True
    ran: list[str] = []
    tool = FakeTool("look", lambda args, context: _text("seen", ran), READ)
    provider = ScriptedProvider(
        failure("context_overflow", text("half"), tool_call("look")), answer("done")
    )
    end = await run_loop(provider, ports, tool)
    assert end.status == "completed"
    assert [line for line in ports.log if line.startswith("assistant")] == ["assistant end_turn"]


async def test_other_failures_ask_for_no_room() -> None:
    ports = FakePorts()
    ports.makes_room = True
    end = await run_loop(ScriptedProvider(failure("quota")), ports)
    assert (end.status, [line for line in ports.log if "overflow" in line]) == ("error", [])


async def test_a_stop_while_room_is_made_ends_the_run() -> None:
    signal = AbortSignal()

    class Stopping(FakePorts):
        @override
        async def on_overflow(self, error: ProviderError) -> bool:
            signal.abort("enough")
            return True

    provider = ScriptedProvider(failure("context_overflow"), answer("never"))
    end = await run_loop(provider, Stopping(), signal=signal)
    assert (end.status, provider.left) == ("aborted", 1)


async def _text(text: str, ran: list[str] | None = None) -> str:
    if ran is not None:
        ran.append(text)
    return text
