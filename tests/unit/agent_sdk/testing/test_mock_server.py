import asyncio
import json
import os
import sys
from pathlib import Path

import httpx
import pytest

from agent_sdk.core.usage import Usage
from agent_sdk.providers.base import (
    ModelRequest,
    StreamDone,
    StreamEvent,
    StreamFailed,
    ToolSpec,
)
from agent_sdk.providers.messages import (
    AssistantMessage,
    Message,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    UserMessage,
)
from agent_sdk.providers.models import Model
from agent_sdk.providers.runtime import create_adapter
from agent_sdk.providers.sse import SseParser
from agent_sdk.testing.conformance import check_stream_contract
from agent_sdk.testing.mock_server import (
    MockCall,
    MockRule,
    MockScript,
    MockServer,
    MockTurn,
    load_script,
)
from agent_sdk.testing.mock_wire import APIS, PATHS, WireApi, understand

READ = ToolSpec("read", "Read a file", {"type": "object", "properties": {}})


def model(server: MockServer, api: WireApi) -> Model:
    return Model(id="mock", provider="p", api=api, base_url=server.url, thinking={"high": "high"})


def user(said: str) -> UserMessage:
    return UserMessage(content=(TextBlock(said),))


async def ask(server: MockServer, api: WireApi, messages: list[Message]) -> AssistantMessage:
    adapter = create_adapter(api)
    request = ModelRequest(model=model(server, api), messages=messages, tools=(READ,))
    decoder, parser, events = adapter.decoder(request), SseParser(), list[StreamEvent]()
    async with httpx.AsyncClient(trust_env=False) as client:
        answer = await client.post(
            adapter.url(request.model),
            content=adapter.encode(request),
            headers=adapter.headers(request.model, "key-canary"),
        )
    assert answer.status_code == 200, answer.text
    for name, data in parser.feed(answer.content):
        events.extend(decoder.feed(name, data))
        if isinstance(events[-1] if events else None, StreamDone | StreamFailed):
            break
    else:
        events.append(decoder.finish())
    check_stream_contract(events)
    done = events[-1]
    assert isinstance(done, StreamDone), done
    return done.message


SCRIPT = MockScript(
    turns=(
        MockTurn(
            thinking="let me see",
            text="Reading: {last_user}",
            calls=(
                MockCall(name="read", input={"path": "a ü.txt"}),
                MockCall(name="read", input={"path": "b"}),
            ),
            usage=Usage(input_tokens=70, output_tokens=9, cache_read_input_tokens=30),
        ),
        MockTurn(text="It says {last_result}."),
    )
)


@pytest.mark.parametrize("api", APIS)
async def test_one_script_serves_a_conversation(api: WireApi) -> None:
    async with MockServer(SCRIPT) as server:
        messages: list[Message] = [user("please")]
        first = await ask(server, api, messages)
        assert first.text == "Reading: please"
        assert [c.input for c in first.tool_calls] == [{"path": "a ü.txt"}, {"path": "b"}]
        assert first.stop_reason == "tool_use"
        assert first.usage == Usage(70, 9, 30)
        assert isinstance(first.content[0], ThinkingBlock)
        assert first.content[0].thinking == "let me see"
        messages += [
            first,
            *(
                UserMessage(content=(ToolResultBlock(c.id, f"content {i}"),))
                for i, c in enumerate(first.tool_calls)
            ),
        ]
        second = await ask(server, api, messages)
        assert second.text == "It says content 1."
        assert second.stop_reason == "end_turn"
        noted = server.requests
        assert [r.asked.turn for r in noted if r.asked] == [0, 1]
        assert [r.asked.results for r in noted if r.asked] == [0, 2]
        assert noted[0].asked is not None
        assert noted[0].asked.tools == ("read",)
        sent = noted[0].headers
        assert "key-canary" in sent.get("authorization", "") + sent.get("x-api-key", "")
        assert noted[0].arrived <= noted[1].arrived
        assert all(r.finished is not None for r in noted)


@pytest.mark.parametrize("api", APIS)
async def test_rules_go_by_the_last_user_text(api: WireApi) -> None:
    script = MockScript(
        rules=(
            MockRule(
                when="colour",
                turns=(MockTurn(calls=(MockCall(name="read"),)), MockTurn(text="blue")),
            ),
            MockRule(when="", turns=(MockTurn(text="what?"),)),
        )
    )
    async with MockServer(script) as server:
        assert (await ask(server, api, [user("hello")])).text == "what?"
        messages: list[Message] = [user("hello"), user("which colour")]
        call = await ask(server, api, messages)
        assert [c.name for c in call.tool_calls] == ["read"]
        messages += [call, UserMessage(content=(ToolResultBlock(call.tool_calls[0].id, "x"),))]
        assert (await ask(server, api, messages)).text == "blue"


async def test_queued_turns_come_first_and_once() -> None:
    script = MockScript(
        queue=(MockTurn(text="queued"),), rules=(MockRule(when="", turns=(MockTurn(text="rule"),)),)
    )
    async with MockServer(script) as server:
        server.push(MockTurn(text="pushed"))
        said = [(await ask(server, "openai-completions", [user("x")])).text for _ in range(3)]
        assert said == ["queued", "pushed", "rule"]


@pytest.mark.parametrize("api", APIS)
async def test_nothing_scripted_is_said_clearly(api: WireApi) -> None:
    path = next(p for p, a in PATHS.items() if a == api)
    async with MockServer() as server, httpx.AsyncClient(trust_env=False) as client:
        answer = await client.post(server.url + path, json={"model": "m", "stream": True})
    assert answer.status_code == 400
    assert "Nothing is scripted for turn 1" in answer.text


@pytest.mark.parametrize("api", APIS)
async def test_answers_can_come_whole(api: WireApi) -> None:
    path = next(p for p, a in PATHS.items() if a == api)
    async with MockServer(SCRIPT) as server, httpx.AsyncClient(trust_env=False) as client:
        answer = await client.post(server.url + path, json={"model": "m"})
        body = answer.json()
    assert answer.headers["content-type"] == "application/json"
    whole = json.dumps(body)
    for part in ("let me see", "Reading: ", "a \\u00fc.txt"):
        assert part in whole.replace("\\\\u00fc", "\\u00fc")


async def test_models_are_listed_and_other_paths_are_not_there() -> None:
    script = MockScript(models=("a", "b"))
    async with MockServer(script) as server, httpx.AsyncClient(trust_env=False) as client:
        listed = (await client.get(f"{server.url}/v1/models")).json()
        missing = await client.get(f"{server.url}/v1/nothing")
    assert [m["id"] for m in listed["data"]] == ["a", "b"]
    assert missing.status_code == 404
    assert server.connections == 1


async def test_a_wrong_key_is_refused() -> None:
    script = MockScript(key="right", turns=(MockTurn(text="ok"),))
    async with MockServer(script) as server, httpx.AsyncClient(trust_env=False) as client:
        url, body = f"{server.url}/v1/messages", {"model": "m"}
        wrong = await client.post(url, json=body, headers={"x-api-key": "wrong"})
        right = await client.post(url, json=body, headers={"x-api-key": "right"})
        bearer = await client.post(url, json=body, headers={"authorization": "Bearer right"})
    assert [wrong.status_code, right.status_code, bearer.status_code] == [401, 200, 200]


async def test_deltas_are_paced_on_the_given_clock() -> None:
    class Clock:
        def __init__(self) -> None:
            self.now = 0.0
            self.slept: list[float] = []

        def iso(self) -> str:
            return ""

        def monotonic(self) -> float:
            return self.now

        async def sleep(self, seconds: float) -> None:
            self.slept.append(seconds)
            self.now += seconds

    clock = Clock()
    turn = MockTurn(text="abcd", deltas=4, rate=10, delay=3)
    async with MockServer(MockScript(turns=(turn,)), clock=clock) as server:
        await ask(server, "openai-completions", [user("x")])
    assert clock.slept == [3, *[pytest.approx(0.1)] * 4]
    assert server.requests[0].first_sent == 3
    assert server.requests[0].finished == pytest.approx(3.4)


@pytest.mark.parametrize(
    ("api", "body", "turn", "since", "last_user"),
    [
        ("openai-responses", {"input": "hi"}, 0, 0, "hi"),
        (
            "openai-responses",
            {
                "input": [
                    {"role": "user", "content": [{"type": "input_text", "text": "a"}]},
                    {"type": "reasoning", "summary": []},
                    {"type": "message", "role": "assistant", "content": []},
                    {"type": "function_call", "call_id": "1"},
                    {"type": "function_call_output", "call_id": "1", "output": "r"},
                    {"type": "function_call", "call_id": "2"},
                    {"type": "function_call_output", "call_id": "2", "output": "r"},
                    {"role": "user", "content": "b"},
                ]
            },
            2,
            0,
            "b",
        ),
        (
            "anthropic-messages",
            {
                "messages": [
                    {"role": "user", "content": "a"},
                    {"role": "assistant", "content": [{"type": "tool_use", "id": "1"}]},
                    {
                        "role": "user",
                        "content": [{"type": "tool_result", "tool_use_id": "1", "content": "r"}],
                    },
                ]
            },
            1,
            1,
            "a",
        ),
    ],
)
def test_requests_are_understood(
    api: WireApi, body: dict[str, object], turn: int, since: int, last_user: str
) -> None:
    asked = understand(api, body)
    assert (asked.turn, asked.turn_since_user, asked.last_user) == (turn, since, last_user)


def test_a_script_file_with_an_unknown_name_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "s.json"
    file.write_text('{"turns": [{"txet": "typo"}]}')
    with pytest.raises(Exception, match="txet"):
        load_script(file)


@pytest.mark.skipif(sys.platform == "win32", reason="a terminated child writes nothing there")
async def test_it_runs_on_its_own_and_writes_its_log(tmp_path: Path) -> None:
    script, log = tmp_path / "script.json", tmp_path / "log.jsonl"
    script.write_text('{"turns": [{"text": "alone", "calls": [{"name": "read"}]}]}')
    arguments = ["--port", "0", "--script", str(script), "--log", str(log)]
    child = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "agent_sdk.testing.mock_server",
        *arguments,
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
    )
    try:
        assert child.stdout is not None
        port = int(await child.stdout.readline())
        async with httpx.AsyncClient(trust_env=False) as client:
            url = f"http://127.0.0.1:{port}/v1/messages"
            answer = await client.post(url, json={"model": "m"})
        assert "alone" in answer.text
    finally:
        child.terminate()
        await child.wait()
    lines = log.read_text().splitlines()
    assert [json.loads(line)["path"] for line in lines] == ["/v1/messages"]
