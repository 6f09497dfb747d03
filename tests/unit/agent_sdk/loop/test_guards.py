"""A run that goes in circles is told so, and never stopped."""

from agent_sdk.loop.guards import REPEATS, GuardNotice, LoopGuards, with_notice
from agent_sdk.loop.types import Notice, ToolContext, ToolMetadata, ToolResult
from agent_sdk.providers.messages import Json, TextBlock
from agent_sdk.testing.provider import ScriptedProvider, answer, tool_call
from tests.support.loop_fakes import READ, WRITE, FakePorts, FakeTool, run_loop


def failed(text: str = "no such file") -> ToolResult:
    return ToolResult(content=text, is_error=True)


def changed(before: str | None, after: str | None, path: str = "/p/a.py") -> ToolResult:
    change: Json = {"path": path, "beforeHash": before, "afterHash": after}
    return ToolResult(content="done", details={"fileChange": change})


class Watch:
    def __init__(self) -> None:
        self.guards = LoopGuards()

    def fail(self, key: str = "k", text: str = "no such file") -> GuardNotice | None:
        return self.guards.note(name="bash", key=key, result=failed(text))

    def edit(self, before: str | None, after: str | None, path: str = "/p/a.py") -> str:
        result = changed(before, after, path)
        notice = self.guards.note(name="edit", key=f"{before}{after}", result=result)
        return notice.code if notice else ""


def test_the_same_failure_is_pointed_out_from_the_third_time_on() -> None:
    watch = Watch()
    assert [watch.fail() for _ in range(REPEATS - 1)] == [None, None]
    third, fourth = watch.fail(), watch.fail()
    assert third
    assert third.code == "repeated_failure"
    assert "failure 3 of the same bash call" in third.text
    assert fourth
    assert (third.fresh, fourth.fresh) == (True, False)


def test_another_input_another_result_and_a_success_begin_anew() -> None:
    watch = Watch()
    for _ in range(2):
        watch.fail()
        watch.fail("other")
    assert watch.fail(text="line 7 instead") is None
    assert watch.fail() is None
    assert watch.fail() is None
    watch.guards.note(name="bash", key="k", result=ToolResult(content="ok"))
    assert watch.fail() is None
    assert watch.fail("other") is not None


def test_each_file_of_a_patch_counts() -> None:
    guards = LoopGuards()

    def patch(one: tuple[str, str], other: tuple[str, str]) -> GuardNotice | None:
        changes = [
            {"path": path, "beforeHash": before, "afterHash": after}
            for path, (before, after) in (("/p/a", one), ("/p/b", other))
        ]
        result = ToolResult(content="done", details={"fileChanges": changes})
        return guards.note(name="apply_patch", key=f"{one}{other}", result=result)

    assert patch(("a", "b"), ("x", "y")) is None
    notice = patch(("b", "c"), ("y", "x"))
    assert notice is not None
    assert notice.code == "undone_edit"


def test_an_edit_that_undoes_itself_is_noticed() -> None:
    watch = Watch()
    assert watch.edit("a", "b") == ""
    assert watch.edit("x", "y", "/p/other.py") == ""
    assert watch.edit("b", "a") == "undone_edit"


def test_a_longer_circle_and_a_file_that_goes_away_again() -> None:
    watch = Watch()
    assert [watch.edit("a", "b"), watch.edit("b", "c"), watch.edit("c", "a")] == [
        "",
        "",
        "undone_edit",
    ]
    assert [watch.edit(None, "n", "/p/new"), watch.edit("n", None, "/p/new")] == [
        "",
        "undone_edit",
    ]


def test_what_others_changed_in_between_is_no_circle() -> None:
    watch = Watch()
    watch.edit("a", "b")
    assert watch.edit("from outside", "a") == ""
    assert watch.edit("a", "a") == ""


def test_memory_is_bounded() -> None:
    watch = Watch()
    watch.fail("first")
    watch.fail("first")
    for number in range(2_000):
        watch.fail(str(number))
    assert watch.fail("first") is None


def test_blocks_keep_their_form() -> None:
    notice = GuardNotice("c", "[told]")
    result = with_notice(ToolResult(content=(TextBlock("a"),)), notice)
    assert result.content == (TextBlock("a"), TextBlock("[told]"))
    assert with_notice(ToolResult(content="", is_error=True), notice).content == "[told]"


async def always_fails(args: Json, context: ToolContext) -> ToolResult:
    return failed()


async def looped(metadata: ToolMetadata, times: int = 4) -> FakePorts:
    ports = FakePorts()
    turns = [answer(tool_call("t", {"n": 1}, id=f"c{turn}")) for turn in range(times)]
    await run_loop(
        ScriptedProvider(*turns, answer("I give up")), ports, FakeTool("t", always_fails, metadata)
    )
    ports.assert_paired()
    return ports


async def test_the_model_and_the_user_are_told_and_the_call_still_runs() -> None:
    ports = await looped(WRITE)
    told = ["failure" in text for text in ports.results().values()]
    assert told == [False, False, True, True]
    codes = [event.code for event in ports.events if isinstance(event, Notice)]
    assert codes == ["repeated_failure"]
    assert ports.log.count("ToolStarted") == 4


async def test_calls_that_ran_early_are_watched_too() -> None:
    ports = await looped(READ)
    told = ["failure" in text for text in ports.results().values()]
    assert told == [False, False, True, True]


async def test_bad_input_over_and_over_is_a_circle() -> None:
    ports = FakePorts()
    turns = [answer(tool_call("t", {"bad": 1}, id=f"c{turn}")) for turn in range(3)]
    tool = FakeTool("t", always_fails)
    await run_loop(ScriptedProvider(*turns, answer("done")), ports, tool)
    assert "failure 3 of the same t call" in ports.results()["c2"]
