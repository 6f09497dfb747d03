"""Text in segments: the same however it comes, complete, and never large."""

from hypothesis import given
from hypothesis import strategies as st

from desktop.gui.chat.segments import HARD_SEGMENT, SEGMENT, Flow
from desktop.gui.text import LONGEST_LINE

LINES = st.sampled_from(
    [
        "word " * 30,
        "",
        "```python",
        "```",
        "~~~",
        "- item",
        "  ```",
        "    code",
        "# Title",
        "````",
        "`x`",
    ]
)


def shown(flow: Flow) -> list[tuple[str, str, str]]:
    return [(s.kind, s.info, s.text) for s in flow.segments]


@given(st.lists(LINES, max_size=120), st.data())
def test_the_same_however_it_is_cut(lines: list[str], data: st.DataObject) -> None:
    text = "\n".join(lines)
    flow = Flow()
    at = 0
    while at < len(text):
        step = data.draw(st.integers(1, 400))
        flow.append(text[at : at + step])
        at += step
    assert flow.text == text
    flow.finish()
    assert shown(flow) == shown(Flow(text, finished=True))


@given(st.lists(LINES, max_size=120))
def test_all_words_are_there_in_order(lines: list[str]) -> None:
    text = "\n".join(lines)
    joined = " ".join(segment.text for segment in Flow(text, finished=True).segments)
    fences = ("```", "~~~", "````")
    wanted = [w for w in text.split() if not w.startswith(fences)]
    assert [w for w in joined.split() if not w.startswith(fences)] == wanted


def test_code_is_a_segment_of_its_own() -> None:
    flow = Flow("before\n```python\nx = 1\n```\nafter", finished=True)
    assert shown(flow) == [
        ("prose", "", "before\n"),
        ("code", "python", "x = 1\n"),
        ("prose", "", "after"),
    ]


def test_code_grows_while_it_comes_and_its_closing_fence_is_never_shown() -> None:
    flow = Flow()
    for piece in ("Look:\n``", "`py\nx =", " 1\n", "``"):
        flow.append(piece)
        assert "`" not in flow.segments[-1].text
    assert shown(flow)[-1] == ("code", "py", "x = 1\n")
    assert not flow.segments[-1].closed
    flow.append("`\n")
    assert flow.segments[-1].closed


def test_a_fence_in_a_list_stays_in_the_list() -> None:
    flow = Flow("- item\n\n  ```sh\n  ls\n  ```\n- more\n", finished=True)
    assert [s.kind for s in flow.segments] == ["prose"]


def test_finished_segments_never_change() -> None:
    flow = Flow()
    seen: dict[int, str] = {}
    for _ in range(60):
        flow.append("Some words that make a line.\n" * 10 + "\n")
        for segment in flow.segments:
            if id(segment) in seen:
                assert segment.text == seen[id(segment)]
            elif segment.closed:
                seen[id(segment)] = segment.text
    assert len(seen) >= 3


def test_no_segment_is_large() -> None:
    paragraph = "word " * 40_000
    lines = "a line of an endless paragraph\n" * 3000
    items = "- an item\n" * 3000
    for text in (paragraph, lines, items, paragraph * 2 + lines):
        flow = Flow(text, finished=True)
        assert max(len(s.text) for s in flow.segments) <= HARD_SEGMENT + LONGEST_LINE
        assert "".join(s.text for s in flow.segments) == text


def test_lists_are_cut_between_items() -> None:
    flow = Flow("- an item of a long list\n" * 400, finished=True)
    assert all(s.text.startswith("- ") for s in flow.segments)
    assert all(len(s.text) < SEGMENT + 100 for s in flow.segments)


def test_long_lines_of_code_are_kept_whole() -> None:
    flow = Flow("```\n" + "x" * 9000 + "\n```\n", finished=True)
    assert flow.segments[0].source == "x" * 9000 + "\n"
