"""Prefix sums against plain sums."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from desktop.gui.chat.heights import Heights, text_height

sizes = st.lists(st.integers(0, 500), max_size=40)
changes = st.lists(st.tuples(st.integers(0, 39), st.integers(0, 500)), max_size=30)


@given(sizes, changes, sizes)
def test_like_plain_sums(first: list[int], changed: list[tuple[int, int]], more: list[int]) -> None:
    plain, heights = list(first), Heights(first)
    for height in more:
        heights.append(height)
        plain.append(height)
    for index, height in changed:
        if index < len(plain):
            assert heights.set(index, height) == height - plain[index]
            plain[index] = height
    assert heights.total == sum(plain)
    assert [heights.top(i) for i in range(len(plain) + 1)] == [
        sum(plain[:i]) for i in range(len(plain) + 1)
    ]
    for y in range(0, sum(plain), 37):
        index, offset = heights.at(y)
        assert sum(plain[:index]) + offset == y
        assert 0 <= offset < plain[index]


def test_outside_is_the_edge() -> None:
    heights = Heights([10, 20])
    assert heights.at(-5) == (0, 0)
    assert heights.at(99) == (1, 19)
    with pytest.raises(IndexError):
        Heights().at(0)


def test_steps_grow_with_the_logarithm() -> None:
    """A change touches as many sums as the number has bits, not all that follow."""
    heights = Heights([1] * 20_000)
    before = list(heights._tree)
    heights.set(0, 2)
    assert sum(a != b for a, b in zip(before, heights._tree, strict=True)) <= 15


def test_text_height() -> None:
    assert text_height(100, per_line=40, line_height=10) == 30
    assert text_height(5, lines=4, per_line=40, line_height=10) == 40
