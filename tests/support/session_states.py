"""Histories by chance, and what a state says in a form that can be compared."""

from typing import Any

import msgspec
from hypothesis import strategies as st

from agent_sdk.session.history import SessionState
from agent_sdk.session.records import (
    CompactionRecord,
    CustomRecord,
    RewindRecord,
    RunRecord,
    SessionHeader,
    SessionInfoRecord,
    TodoItem,
    TodoRecord,
)
from tests.support.session_files import answer, prompt, result, started

HEADER = SessionHeader(format="zpi", version=1, cwd="/p")


def chained(*records: Any) -> list[Any]:
    """Return the records behind a header, with the ids r0, r1 …"""
    return [
        msgspec.structs.replace(
            record,
            uuid=f"r{n}",
            parent_uuid=f"r{n - 1}" if n else None,
            session_id="s",
            timestamp=f"t{n}",
        )
        for n, record in enumerate((HEADER, *records))
    ]


def facts_of(state: SessionState) -> dict[str, Any]:
    """Return all that a state says, however it came about."""
    others = ("view", "trail", "spending")
    facts = {name: value for name, value in vars(state).items() if name not in others}
    view = state.view
    return {
        **facts,
        "count": state.count,
        "spent": state.spending.models,
        "children": list(state.spending.children),
        "view": view.entries(),
        "asked": view.asked if view.unanswered else None,
        "unanswered": list(view.unanswered.items()),
        "todos": view.todos,
        "compaction": view.compaction,
        "model": state.model_messages(),
    }


@st.composite
def random_records(draw: st.DrawFn, most: int = 25) -> list[Any]:
    """Draw records in any order; pointers go to the ids that ``chained`` gives."""
    records: list[Any] = []
    for n in range(draw(st.integers(0, most))):
        older = st.integers(0, n).map(lambda at: f"r{at}")
        call = draw(st.sampled_from(["c1", "c2", "c3"]))
        kinds = {
            "prompt": prompt(f"p{n}"),
            "answer": answer(f"a{n}", tokens=n),
            "ask": answer(f"q{n}", call, draw(st.sampled_from(["c4", call]))),
            "result": result(call, f"result {n}"),
            "started": started(call),
            "start": RunRecord(event="start", run_id=f"run{n}"),
            "end": RunRecord(event="end", run_id=f"run{n - 1}", status="completed"),
            "todo": TodoRecord(items=(TodoItem(f"t{n}"),)),
            "title": SessionInfoRecord(title=f"T{n}"),
            "custom": CustomRecord(custom_type="x", data=n),
        }
        pointing = {
            "rewind": RewindRecord(to_uuid=draw(older), reason="rewind"),
            "compaction": CompactionRecord(
                summary=draw(st.sampled_from(["", f"s{n}"])),
                keep_from_uuid=draw(st.none() | older),
                clear_tool_results_before_uuid=draw(st.none() | older),
            ),
        }
        kind = draw(st.sampled_from(["prompt", "ask", "result", *kinds, *pointing]))
        records.append({**kinds, **pointing}[kind])
    return records
