"""Where rows are: nothing moves but what the reader moves."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from desktop.gui.chat.row_layout import MARGIN, Anchor, RowLayout
from desktop.gui.chat.rows import LineItem, Row

VIEW = 300


class World:
    """Entries with rows whose true heights differ from their estimates."""

    def __init__(self, entries: list[list[tuple[int, int]]]) -> None:
        self.true: dict[str, int] = {}
        self.made: list[list[Row]] = []
        for at, sizes in enumerate(entries):
            rows = []
            for n, (estimate, true) in enumerate(sizes):
                row = Row(f"{at}/{n}", "line", LineItem("notice"))
                row.height = estimate
                self.true[row.key] = true
                rows.append(row)
            self.made.append(rows)
        self.measured: list[str] = []
        self.layout = RowLayout(make=lambda at: self.made[at], measure=self.measure)
        self.layout.width, self.layout.view = 800, VIEW
        self.layout.reset([sum(row.height for row in rows) for rows in self.made])

    def measure(self, row: Row, _width: int) -> int:
        self.measured.append(row.key)
        return self.true[row.key]

    def screen(self) -> dict[str, int]:
        self.layout.settle()
        return {placed.row.key: placed.y for placed in self.layout.visible()}


row_sizes = st.tuples(st.integers(1, 200), st.integers(1, 200))
worlds = st.lists(st.lists(row_sizes, max_size=4), min_size=1, max_size=25).map(World)


@settings(max_examples=150)
@given(worlds, st.lists(st.integers(-250, 250), max_size=25))
def test_scrolling_moves_everything_by_what_was_scrolled(world: World, steps: list[int]) -> None:
    before = world.screen()
    for step in steps:
        world.layout.scroll_by(step)
        after = world.screen()
        moved = {before[key] - after[key] for key in before.keys() & after.keys()}
        assert len(moved) <= 1  # all together, and by no more than was asked for
        assert all(abs(by) <= abs(step) for by in moved)
        before = after


@given(worlds, st.integers(0, 10_000))
def test_the_screen_is_filled_without_gaps(world: World, position: int) -> None:
    world.layout.scroll_to(position)
    shown = world.screen()
    edge = None
    for key, y in shown.items():
        assert edge is None or y == edge
        edge = y + world.true[key]
    total = sum(sum(world.true[row.key] for row in rows) for rows in world.made)
    if total + MARGIN >= VIEW and edge is not None:
        assert min(shown.values()) <= 0
        assert edge + MARGIN >= VIEW


@given(worlds)
def test_at_the_bottom_the_end_is_at_the_bottom_edge(world: World) -> None:
    shown = world.screen()
    total = sum(world.true.values())
    if total + MARGIN > VIEW:
        key, y = list(shown.items())[-1]
        assert y + world.true[key] == VIEW - MARGIN


def big(count: int = 2000) -> World:
    return World([[(100, 120)] for _ in range(count)])


def test_only_what_is_seen_is_measured() -> None:
    world = big(20_000)
    world.screen()
    assert len(world.measured) <= VIEW // 120 + 2
    world.layout.scroll_to(700_000)
    world.screen()
    assert len(world.measured) <= 2 * (VIEW // 120 + 3)


def test_growing_below_moves_nothing_unless_at_the_bottom() -> None:
    world = big()
    world.screen()
    world.layout.scroll_by(-1000)
    before = world.screen()
    row = Row("new", "line", LineItem("notice"))
    row.height, world.true["new"] = 50, 70
    world.made.append([row])
    world.layout.append(1)
    world.layout.rebuild(len(world.made) - 1)
    assert world.screen() == before
    world.layout.sticks = True
    assert "new" in world.screen()


@pytest.mark.parametrize("added", [1, 3])
def test_rows_of_the_end_that_have_gone_are_told_though_entries_were_added(added: int) -> None:
    world = World([[(100, 120)], [(40, 40), (20, 20)]])
    gone, stays = world.layout.rows(1)
    new = [[Row(f"new/{n}", "line", LineItem("notice"))] for n in range(added)]
    world.made[1:] = [*new, [stays]]
    world.layout.append(added)
    told = [row for entry in range(1, added + 2) for row in world.layout.rebuild(entry)]
    assert told == [gone]  # whoever gave it a card must take that back


def test_rows_above_may_change_without_moving_what_is_read() -> None:
    world = big(200)
    world.layout.go_to(Anchor(100, 0, 30))
    before = world.screen()
    extra = Row("50/1", "line", LineItem("notice"))
    extra.height, world.true["50/1"] = 400, 300
    world.made[50].append(extra)
    world.layout.rebuild(50)
    assert world.screen() == before


def test_an_entry_at_the_top_edge_that_is_replaced_keeps_what_is_below() -> None:
    world = big(200)
    world.layout.go_to(Anchor(100, 0, 30))
    before = world.screen()
    loaded = []
    for n in range(3):
        row = Row(f"loaded{n}", "line", LineItem("notice"))
        row.height, world.true[row.key] = 10, 90
        loaded.append(row)
    world.made[100] = loaded
    gone = world.layout.rebuild(100)
    after = world.screen()
    assert [row.key for row in gone] == ["100/0"]
    assert after["101/0"] == before["101/0"]


def test_scrolling_up_leaves_the_bottom_and_down_to_it_sticks_again() -> None:
    world = big()
    world.screen()
    world.layout.scroll_by(-1)
    world.screen()
    assert not world.layout.sticks
    world.layout.scroll_by(100)
    world.screen()
    assert world.layout.sticks
    assert world.layout.position == world.layout.range


@pytest.mark.parametrize(("height", "sticks"), [(VIEW - MARGIN, True), (VIEW - MARGIN + 1, False)])
def test_what_just_fits_is_at_its_bottom(height: int, *, sticks: bool) -> None:
    world = World([[(50, height - 100)], [(50, 100)]])
    world.layout.sticks = False
    world.screen()
    assert world.layout.sticks == sticks
