"""Handlers of calls: real tools, the real gate, a scripted model."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from agent_sdk.core.aio import AbortSignal
from agent_sdk.core.ids import RandomIds, SystemClock
from agent_sdk.loop.tool_calls import input_hash
from agent_sdk.loop.types import PermissionAsked, ToolContext, ToolFinished, ToolStarted
from agent_sdk.permissions.engine import PermissionReply
from agent_sdk.plugins.types import AddContext, Hook, HookInput, PromptVerdict, ToolVerdict
from agent_sdk.providers.messages import AssistantMessage, Json, ToolResultBlock, result_text
from agent_sdk.session.manager import SessionManager
from agent_sdk.session.records import ToolJournalRecord
from agent_sdk.session.replay import Replay
from agent_sdk.testing.provider import Gate, ScriptedProvider, answer, text, tool_call
from tests.support.loop_fakes import READ, FakeTool
from tests.support.plugins import Hooked, Says, plugin, shape, texts
from tests.support.sessions import file_tools, in_memory, on_disk, reopened


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "a.txt").write_text("alpha\n")
    (folder / "b.txt").write_text("beta\n")
    return folder.resolve()


def pre(handler: Any, **more: Any) -> Hook:
    return Hook(event="PreToolUse", handler=handler, **more)


def post(handler: Any, **more: Any) -> Hook:
    return Hook(event="PostToolUse", handler=handler, **more)


def failed(handler: Any, **more: Any) -> Hook:
    return Hook(event="PostToolUseFailure", handler=handler, **more)


def read(path: str = "a.txt") -> Any:
    return tool_call("read", {"file_path": path})


def write(path: str = "new.txt", content: str = "new\n") -> Any:
    return tool_call("write", {"file_path": path, "content": content})


def hooked(
    project: Path, *plugins: Any, calls: Any, allow: Any = ("read", "edit"), **more: Any
) -> Hooked:
    provider = ScriptedProvider(answer(*calls), answer("Done."))
    more.setdefault("tools", file_tools(project.parent))
    return Hooked(in_memory(project), provider, *plugins, allow=allow, **more)


def results(hooked: Hooked) -> list[ToolResultBlock]:
    return [
        block
        for message in hooked.manager.state.messages
        for block in message.content
        if isinstance(block, ToolResultBlock)
    ]


class Asker:
    def __init__(self) -> None:
        self.asked: list[PermissionAsked] = []

    async def ask(self, asked: PermissionAsked) -> PermissionReply:
        self.asked.append(asked)
        return PermissionReply(reply="once", input_hash=asked.input_hash)


# ---------------------------------------------------------------------- denials


async def test_a_refusal_is_the_calls_result_and_nothing_is_run(project: Path) -> None:
    guard = Says(ToolVerdict(decision="deny", reason="Not on Fridays."))
    one = hooked(project, plugin("friday", pre(guard, matcher="Write")), calls=[write()])
    async with one.session as session:
        end = await session.prompt("go")
    assert (end.status, end.denials) == ("completed", 1)
    (result,) = results(one)
    assert (result.is_error, result_text(result)) == (True, "Not on Fridays.")
    assert not (project / "new.txt").exists()
    assert one.shape == ["human", "assistant", "result", "assistant"]
    (finished,) = [e for e in one.events if isinstance(e, ToolFinished)]
    assert (finished.ran, finished.denied) == (False, True)
    assert not [e for e in one.events if isinstance(e, ToolStarted)]


@pytest.mark.parametrize("order", [("allow", "deny"), ("deny", "allow"), ("replace", "deny")])
async def test_deny_wins_wherever_it_stands(project: Path, order: tuple[str, ...]) -> None:
    verdicts = {
        "allow": ToolVerdict(decision="allow"),
        "deny": ToolVerdict(decision="deny", reason="No."),
        "replace": ToolVerdict(tool_input={"file_path": "x.txt", "content": "x"}),
    }
    plugins = [plugin(name, pre(Says(verdicts[name]))) for name in order]
    one = hooked(project, *plugins, calls=[write()])
    async with one.session as session:
        await session.prompt("go")
    assert [result_text(r) for r in results(one)] == ["No."]
    assert sorted(p.name for p in project.iterdir()) == ["a.txt", "b.txt"]


async def test_allow_lifts_no_permission(project: Path) -> None:
    allows = plugin("a", pre(Says(ToolVerdict(decision="allow"))))
    one = hooked(project, allows, calls=[write()], allow=())
    async with one.session as session:
        end = await session.prompt("go")
    assert end.denials == 1
    assert results(one)[0].is_error
    assert not (project / "new.txt").exists()


@pytest.mark.parametrize("on_error", ["report", "block"])
async def test_a_failing_gate_refuses_only_if_it_says_so(project: Path, on_error: Any) -> None:
    gate = pre(Says(ValueError("secret")), name="gate", on_error=on_error)
    one = hooked(project, plugin("acme", gate), calls=[write()])
    async with one.session as session:
        await session.prompt("go")
    assert (project / "new.txt").exists() is (on_error == "report")
    assert [(n.level, n.code) for n in one.notices] == [("warning", "hook_failed")]
    assert "secret" not in one.notices[0].text
    if on_error == "block":
        said = result_text(results(one)[0])
        assert all(part in said for part in ("'gate'", "'acme'", "PreToolUse", "not run"))


async def test_a_gate_out_of_time_refuses_if_it_says_so(project: Path) -> None:
    async def hangs(data: HookInput, signal: AbortSignal) -> None:
        await asyncio.Event().wait()

    gate = pre(hangs, on_error="block", timeout=0.02)
    one = hooked(project, plugin("a", gate), calls=[write()])
    async with one.session as session:
        await session.prompt("go")
    assert not (project / "new.txt").exists()
    assert [r.status for r in one.reports] == ["timed_out"]


# ----------------------------------------------------------------- replacements


async def test_each_handler_sees_what_the_one_before_left_and_the_last_input_runs(
    project: Path,
) -> None:
    seen: list[Json] = []

    def adds(letter: str) -> Hook:
        async def handler(data: Any, signal: AbortSignal) -> ToolVerdict:
            seen.append(data.tool_input)
            content = data.tool_input["content"] + letter
            return ToolVerdict(tool_input={**data.tool_input, "content": content})

        return pre(handler)

    after = Says()
    one = hooked(
        project, plugin("a", adds("1"), adds("2")), plugin("b", post(after)), calls=[write()]
    )
    async with one.session as session:
        await session.prompt("go")
    assert [s["content"] for s in seen] == ["new\n", "new\n1"]
    assert (project / "new.txt").read_text() == "new\n12"
    # What the model said stays; what was run is told to whoever comes after.
    said = one.manager.state.messages[1]
    assert isinstance(said, AssistantMessage)
    assert said.tool_calls[0].input["content"] == "new\n"
    assert after.told[0].tool_input["content"] == "new\n12"
    (finished,) = [e for e in one.events if isinstance(e, ToolFinished)]
    assert finished.call.input["content"] == "new\n12"


async def test_a_replaced_input_is_authorised_as_what_it_is(project: Path) -> None:
    outside = project.parent / "outside.txt"
    evil = {"file_path": str(outside), "content": "x"}
    one = hooked(
        project, plugin("a", pre(Says(ToolVerdict(tool_input=evil)))), calls=[write()], allow=()
    )
    async with one.session as session:
        end = await session.prompt("go")
    assert end.denials == 1
    assert not outside.exists()


async def test_who_is_asked_sees_the_replaced_input(project: Path) -> None:
    asker = Asker()
    other = {"file_path": "other.txt", "content": "other"}
    one = hooked(
        project,
        plugin("a", pre(Says(ToolVerdict(decision="allow", tool_input=other)))),
        calls=[write()],
        allow=("read",),
        asker=asker,
    )
    async with one.session as session:
        await session.prompt("go")
    assert [a.call.input for a in asker.asked] == [other]
    assert (project / "other.txt").read_text() == "other"
    assert not (project / "new.txt").exists()


@pytest.mark.parametrize(
    "bad", [{"file_path": "x.txt"}, {"file_path": 1, "content": "x"}, {}], ids=str
)
async def test_a_replacement_that_does_not_fit_refuses_the_call(project: Path, bad: Json) -> None:
    after = Says()
    one = hooked(
        project,
        plugin("acme", pre(Says(ToolVerdict(tool_input=bad))), pre(after)),
        calls=[write()],
    )
    async with one.session as session:
        await session.prompt("go")
    (result,) = results(one)
    assert result.is_error
    assert "'acme'" in result_text(result)
    assert after.told == []
    assert sorted(p.name for p in project.iterdir()) == ["a.txt", "b.txt"]


async def test_handlers_come_after_the_check_of_the_models_own_input(project: Path) -> None:
    gate = Says()
    one = hooked(project, plugin("a", pre(gate)), calls=[tool_call("write", {"nope": 1})])
    async with one.session as session:
        await session.prompt("go")
    assert gate.told == []
    assert results(one)[0].is_error


async def test_live_and_replayed_are_the_same_after_a_replacement(
    project: Path, tmp_path: Path
) -> None:
    other = {"file_path": "other.txt", "content": "other"}
    manager = await on_disk(project, tmp_path / "s")
    provider = ScriptedProvider(answer(write()), answer("Done."))
    one = Hooked(
        manager,
        provider,
        plugin("a", pre(Says(ToolVerdict(tool_input=other)))),
        tools=file_tools(tmp_path),
        allow=("read", "edit"),
    )
    async with one.session as session:
        await session.prompt("go")
    journal: list[Any] = []
    replay, replayed = Replay(), []

    def look(record: Any) -> None:
        replayed.extend(replay.events(record))
        if isinstance(record, ToolJournalRecord):
            journal.append(record)

    again = await SessionManager.resume(
        session_id=session.session_id,
        sessions_dir=tmp_path / "s",
        ids=RandomIds(),
        clock=SystemClock(),
        observe=look,
    )
    await again.close()
    live = [e for e in one.events if isinstance(e, ToolFinished)]
    assert [e for e in replayed if isinstance(e, ToolFinished)] == live
    assert live[0].call.input == other
    ran = input_hash(live[0].call)
    assert [record.input_hash for record in journal] == [ran]


# ------------------------------------------------------------------------- post


async def test_context_comes_behind_the_whole_batch_in_the_order_of_the_calls(
    project: Path,
) -> None:
    second_done = asyncio.Event()

    async def slow_first(data: Any, signal: AbortSignal) -> AddContext:
        path = data.tool_input["file_path"]
        if path == "a.txt":
            await second_done.wait()
        else:
            second_done.set()
        return AddContext(context=(f"about {path}",))

    one = hooked(project, plugin("a", post(slow_first)), calls=[read("a.txt"), read("b.txt")])
    async with one.session as session:
        await session.prompt("go")
    sent = one.manager.state.messages
    assert shape(sent) == [
        "human",
        "assistant",
        "result",
        "result",
        "hook",
        "hook",
        "assistant",
    ]
    told = texts(sent, "hook")
    assert ["about a.txt" in told[0], "about b.txt" in told[1]] == [True, True]


async def test_what_a_post_handler_does_leaves_the_result_the_file_and_the_journal(
    project: Path, tmp_path: Path
) -> None:
    async def spoils(data: Any, signal: AbortSignal) -> AddContext:
        data.tool_response["content"] = "changed"
        data.tool_response["details"].clear()
        raise RuntimeError

    manager = await on_disk(project, tmp_path / "s")
    one = Hooked(
        manager,
        ScriptedProvider(answer(write()), answer("Done.")),
        plugin("a", post(spoils), post(Says())),
        tools=file_tools(tmp_path),
        allow=("read", "edit"),
    )
    async with one.session as session:
        assert (await session.prompt("go")).status == "completed"
    (finished,) = [e for e in one.events if isinstance(e, ToolFinished)]
    assert (finished.ran, finished.result.is_error) == (True, False)
    assert finished.details
    assert (project / "new.txt").read_text() == "new\n"
    again = await reopened(session.session_id, tmp_path / "s")
    assert again.state.open_calls == {}
    assert [result_text(r) for r in results(one)] == [result_text(finished.result)]
    await again.close()
    assert [r.status for r in one.reports] == ["failed", "completed"]


async def test_the_result_is_durable_before_a_post_handler_hears_of_it(project: Path) -> None:
    stored: list[int] = []

    async def looks(data: Any, signal: AbortSignal) -> None:
        stored.append(len(results(one)))

    one = hooked(project, plugin("a", post(looks)), calls=[write("x.txt"), write("y.txt")])
    async with one.session as session:
        await session.prompt("go")
    assert stored == [1, 2]


async def test_success_and_failure_are_told_apart(project: Path) -> None:
    good, bad = Says(), Says(AddContext(context=("try another",)))
    one = hooked(
        project, plugin("a", post(good), failed(bad)), calls=[read("a.txt"), read("missing.txt")]
    )
    async with one.session as session:
        await session.prompt("go")
    assert [t.tool_input["file_path"] for t in good.told] == ["a.txt"]
    assert "alpha" in str(good.told[0].tool_response["content"])
    assert [t.tool_input["file_path"] for t in bad.told] == ["missing.txt"]
    assert bad.told[0].error == result_text(results(one)[1])
    assert one.shape == ["human", "assistant", "result", "result", "hook", "assistant"]


async def test_denied_calls_are_no_failures_of_the_tool(project: Path) -> None:
    bad = Says()
    one = hooked(project, plugin("a", failed(bad)), calls=[write()], allow=())
    async with one.session as session:
        await session.prompt("go")
    assert bad.told == []


async def test_matchers_choose_by_tool(project: Path) -> None:
    reads, writes, all_of_them = Says(), Says(), Says()
    one = hooked(
        project,
        plugin(
            "a", pre(reads, matcher="Read"), pre(writes, matcher="write|edit"), pre(all_of_them)
        ),
        calls=[read(), write()],
    )
    async with one.session as session:
        await session.prompt("go")
    assert [t.tool_name for t in reads.told] == ["read"]
    assert [t.tool_name for t in writes.told] == ["write"]
    assert [t.tool_name for t in all_of_them.told] == ["read", "write"]
    facts = {(t.session_id, t.cwd) for t in all_of_them.told}
    assert facts == {(session.session_id, str(project))}


# ------------------------------------------------------------- early, and stops


@pytest.mark.parametrize("event", ["PreToolUse", "PostToolUse", "PostToolUseFailure", None])
async def test_no_call_starts_early_where_handlers_look_at_calls(project: Path, event: Any) -> None:
    wait, ran = Gate(), asyncio.Event()

    async def work(args: Json, context: ToolContext) -> str:
        ran.set()
        return "looked"

    plugins = [plugin("a", Hook(event=event or "Stop", handler=Says()))]
    provider = ScriptedProvider(answer(tool_call("look", {}), text("And …", wait)), answer("Done."))
    one = Hooked(
        in_memory(project), provider, *plugins, tools=[FakeTool("look", work, READ)], allow=["look"]
    )
    async with one.session as session:
        run = asyncio.ensure_future(session.prompt("go"))
        await wait.reached.wait()
        for _ in range(20):
            await asyncio.sleep(0)
        assert ran.is_set() is (event is None)
        wait.open()
        assert (await run).status == "completed"
    assert ran.is_set()


@pytest.mark.parametrize("where", ["before", "after"])
async def test_a_stop_during_a_handler_leaves_every_call_with_a_result(
    project: Path, where: str
) -> None:
    begun = asyncio.Event()

    async def hangs(data: Any, signal: AbortSignal) -> None:
        begun.set()
        await asyncio.Event().wait()

    hook = pre(hangs) if where == "before" else post(hangs)
    one = hooked(project, plugin("a", hook), calls=[write("x.txt"), write("y.txt")])
    async with one.session as session:
        run = asyncio.ensure_future(session.prompt("go"))
        await begun.wait()
        session.abort()
        assert (await run).status == "aborted"
    assert one.shape == ["human", "assistant", "result", "result"]
    assert (project / "x.txt").exists() is (where == "after")
    assert not (project / "y.txt").exists()
    assert [r.is_error for r in results(one)] == [where == "before", True]


async def test_context_given_before_a_refusal_stays(project: Path) -> None:
    one = hooked(
        project,
        plugin(
            "a",
            Hook(event="UserPromptSubmit", handler=Says(PromptVerdict(context=("p",)))),
            pre(Says(ToolVerdict(context=("seen",)))),
            pre(Says(ToolVerdict(decision="deny", reason="no", context=("why",)))),
        ),
        calls=[write()],
    )
    async with one.session as session:
        await session.prompt("go")
    assert one.shape == ["human", "hook", "assistant", "result", "hook", "hook", "assistant"]
