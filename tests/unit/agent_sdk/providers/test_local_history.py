import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_sdk.providers.local_history import (
    Exchange,
    Step,
    cut,
    cut_middle,
    exchanges,
    newest,
    plain,
    tokens,
)
from agent_sdk.providers.messages import (
    AssistantMessage,
    ImageBlock,
    Message,
    Origin,
    OriginKind,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
    UserMessage,
)


def user(text: str, kind: OriginKind = "human") -> UserMessage:
    return UserMessage(content=(TextBlock(text),), origin=Origin(kind))


def said(text: str, *calls: ToolUseBlock) -> AssistantMessage:
    return AssistantMessage(
        content=(*([TextBlock(text)] if text else []), *calls),
        api="local",
        provider="local",
        model="m",
        stop_reason="tool_use" if calls else "end_turn",
    )


def result(call: ToolUseBlock, text: str, *, failed: bool = False) -> UserMessage:
    return UserMessage(content=(ToolResultBlock(call.id, text, failed),))


CALL = ToolUseBlock("c1", "read", {"file_path": "a.txt"})
OTHER = ToolUseBlock("c2", "bash", {"command": "ls"})


def test_a_conversation_falls_into_exchanges() -> None:
    talk: list[Message] = [
        user("first"),
        said("", CALL, OTHER),
        result(OTHER, "files"),
        result(CALL, "text", failed=True),
        said("done"),
        user("second"),
    ]
    assert exchanges(talk, with_context=True) == [
        Exchange("first", (Step(CALL, "text", failed=True), Step(OTHER, "files")), "done"),
        Exchange("second"),
    ]


def test_user_messages_in_a_row_are_one_request() -> None:
    talk = [user("context", "context"), user("one"), user("two", "steered")]
    assert exchanges(talk, with_context=True) == [Exchange("context\n\none\n\ntwo")]
    assert exchanges(talk, with_context=False) == [Exchange("one\n\ntwo")]


def test_a_call_without_a_result_has_failed() -> None:
    ((step,),) = (e.steps for e in exchanges([user("x"), said("", CALL)], with_context=True))
    assert step.failed
    assert "not run" in step.result


def test_an_image_is_named() -> None:
    message = UserMessage(content=(TextBlock("look"), ImageBlock({"type": "base64"})))
    assert exchanges([message], with_context=True) == [Exchange("look\n[an image]")]


@given(st.text(), st.integers(0, 50))
def test_a_cut_text_fits_and_says_that_it_was_cut(text: str, room: int) -> None:
    short = cut(text, room, mark="[cut]")
    if short == text:
        assert tokens(text) <= room or not text.strip()
    else:
        assert short.endswith("\n[cut]")
        kept = short.removesuffix("\n[cut]")
        assert text.startswith(kept)
        assert tokens(kept) <= max(room, 1)


def test_the_middle_is_cut_out_of_a_long_request() -> None:
    text = "begin " + "x " * 5_000 + "end"
    short = cut_middle(text, 100, mark="[cut]")
    assert short.startswith("begin")
    assert short.endswith("end")
    assert "[cut]" in short
    assert tokens(short) < 110
    assert cut_middle("short", 100, mark="[cut]") == "short"


@given(st.lists(st.integers(0, 400), max_size=8), st.integers(0, 600))
def test_the_newest_exchanges_are_kept_whole(sizes: list[int], room: int) -> None:
    talk = [
        Exchange(f"{n}", (Step(CALL, "word " * size),), "answer") for n, size in enumerate(sizes)
    ]
    kept = newest(talk, room, share=100)
    assert kept == talk[len(talk) - len(kept) :]
    if len(kept) < len(talk):
        left_out = talk[len(talk) - len(kept) - 1]
        one_more = [left_out, *kept]
        cost = sum(40 + tokens(e.prompt) + min(100, tokens(e.steps[0].result)) for e in one_more)
        assert cost + 20 * len(one_more) > room - 16


@pytest.mark.parametrize("text", ["日本語" * 50, "plain words " * 50, "émigré " * 50])
def test_other_scripts_count_for_more(text: str) -> None:
    assert tokens(text) >= len(text) // 4


def test_markup_that_says_nothing_is_left_out_of_prose() -> None:
    text = (
        "1\t# Title\n2\t[![build](https://x/b.svg)](https://x)\n3\t\n"
        "4\t<p align=center>A [library](https://x) for tea,\n5\tand coffee.</p>\n"
        "6\t.. image:: https://x/y.png\n7\t    :alt: y\n8\t=====\n9\tSee https://x/y.\n"
    )
    assert plain(text, prose=True) == "# Title\nA library for tea, and coffee.\nSee"


def test_other_results_lose_only_line_numbers_and_blank_lines() -> None:
    assert plain("1\ta [x](y)\n2\t\n3\t<b>\n", prose=False) == "a [x](y)\n<b>"
