"""What the side bar lists, and how one list becomes another."""

from hypothesis import given
from hypothesis import strategies as st

from desktop.bridge.messages import ProjectInfo, SessionRow
from desktop.gui.sidebar_rows import (
    PAGE,
    EmptyEntry,
    Entry,
    MoreEntry,
    ProjectEntry,
    SessionEntry,
    build,
    difference,
)

SHOP = ProjectInfo(id="p1", path="/shop", name="Shop")
NOTES = ProjectInfo(id="p2", path="/notes", name="Notes")


def row(name: str, *, at: int = 0, project: str = "p1", title: str = "") -> SessionRow:
    return SessionRow(
        id=name, project_id=project, title=title or name, last_used=f"2026-01-{at:02}"
    )


def keys(entries: list[Entry]) -> list[str]:
    return [entry.key for entry in entries]


def test_newest_first_under_its_project() -> None:
    rows = [row("a", at=1), row("b", at=3), row("c", at=2, project="p2"), row("d", project="gone")]
    assert keys(build((SHOP, NOTES), rows, limits={})) == [
        "project:p1",
        "session:b",
        "session:a",
        "project:p2",
        "session:c",
    ]


def test_a_project_without_sessions_says_so() -> None:
    assert build((SHOP,), (), limits={}) == [ProjectEntry(SHOP), EmptyEntry("p1")]


def test_a_page_at_a_time() -> None:
    rows = [row(f"s{n:03}", at=n % 28) for n in range(PAGE + 1)]
    entries = build((SHOP,), rows, limits={})
    assert len(entries) == 1 + PAGE + 1
    assert entries[-1] == MoreEntry("p1", 1)
    assert len(build((SHOP,), rows, limits={"p1": 2 * PAGE})) == 1 + PAGE + 1
    assert len(build((SHOP,), rows[:PAGE], limits={})) == 1 + PAGE


def test_words_are_looked_for_in_titles_and_names_of_projects() -> None:
    rows = [row("a", title="Fix the Basket"), row("b", title="Other", project="p2")]
    assert keys(build((SHOP, NOTES), rows, needle=" basket FIX", limits={})) == [
        "project:p1",
        "session:a",
    ]
    assert keys(build((SHOP, NOTES), rows, needle="notes", limits={})) == [
        "project:p2",
        "session:b",
    ]
    assert build((SHOP, NOTES), rows, needle="nowhere", limits={}) == []


def test_chinese_is_found() -> None:
    rows = [row("a", title="把错误信息翻译成中文")]
    assert len(build((SHOP,), rows, needle="翻译", limits={})) == 2


def entries_of(ids: list[int]) -> list[Entry]:
    return [SessionEntry(row(str(each), title=f"t{each % 3}")) for each in ids]


def applied(old: list[Entry], new: list[Entry]) -> list[Entry]:
    change = difference(old, new)
    made = list(old)
    del made[change.at : change.at + change.removed]
    made[change.at : change.at] = new[change.at : change.at + change.added]
    for place in change.changed:
        made[place] = new[place]
    return made


@given(
    st.lists(st.integers(0, 8), unique=True),
    st.lists(st.integers(0, 8), unique=True),
    st.sets(st.integers(0, 8)),
)
def test_a_difference_leads_from_one_list_to_the_other(
    old: list[int], new: list[int], renamed: set[int]
) -> None:
    before = entries_of(old)
    after: list[Entry] = [
        SessionEntry(row(str(each), title="renamed" if each in renamed else f"t{each % 3}"))
        for each in new
    ]
    assert applied(before, after) == after


def test_what_only_looks_different_stays_in_its_place() -> None:
    old = entries_of([1, 2, 3])
    new = [old[0], SessionEntry(row("2", title="new")), old[2]]
    change = difference(old, new)
    assert (change.removed, change.added, change.changed) == (0, 0, (1,))


def test_nothing_changes_nothing() -> None:
    change = difference(entries_of([1, 2]), entries_of([1, 2]))
    assert (change.removed, change.added, change.changed) == (0, 0, ())
