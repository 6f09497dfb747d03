"""What requests have cost, from records alone."""

from typing import Any

from agent_sdk.core.usage import Usage
from agent_sdk.providers.messages import TextBlock
from agent_sdk.session.history import SessionState, fold
from agent_sdk.session.records import (
    AssistantRecord,
    CompactionRecord,
    CustomRecord,
    StoredMessage,
)
from agent_sdk.session.spending import CHILD_USAGE, Spending, child_usage
from agent_sdk.session.state_snapshot import restored_state, take_snapshot
from tests.support.session_states import chained


def answered(model: str, usage: Usage) -> AssistantRecord:
    provider, _, name = model.partition("/")
    return AssistantRecord(
        message=StoredMessage("assistant", (TextBlock("x"),)),
        api="anthropic-messages",
        provider=provider,
        model=name,
        stop_reason="end_turn",
        usage=usage,
    )


def state_of(*records: Any) -> SessionState:
    return fold(chained(*records))


ONE = Usage(input_tokens=1, output_tokens=2)
TEN = Usage(input_tokens=10, cache_read_input_tokens=5)


def test_requests_are_counted_by_model() -> None:
    state = state_of(answered("p/a", ONE), answered("p/b", TEN), answered("p/a", ONE))
    assert state.spending.models == {"p/a": ONE + ONE, "p/b": TEN}
    assert state.usage == ONE + ONE + TEN


def test_a_summary_counts_for_the_model_that_wrote_it() -> None:
    summary = CompactionRecord(summary="s", keep_from_uuid=None, usage=TEN, model="p/small")
    state = state_of(answered("p/a", ONE), summary)
    assert state.spending.models == {"p/a": ONE, "p/small": TEN}


def test_a_child_counts_once() -> None:
    child = child_usage("run-1", {"p/b": TEN})
    state = state_of(answered("p/a", ONE), child, child, child_usage("run-2", {"p/b": ONE}))
    assert state.spending.models == {"p/a": ONE, "p/b": TEN + ONE}


def test_what_tells_no_number_counts_nothing() -> None:
    spending = Spending()
    for data in (None, 3, {}, {"id": "", "modelUsage": {"m": {"input_tokens": 1}}}, {"id": "x"}):
        spending.add_child(CustomRecord(custom_type=CHILD_USAGE, data=data))
    spending.add_child(CustomRecord(custom_type="acme", data={"id": "x", "modelUsage": {}}))
    spending.add("m", Usage())
    assert spending.models == {}
    assert spending.usage == Usage()


def test_it_is_the_same_after_a_snapshot() -> None:
    child = child_usage("run-1", {"p/b": TEN})
    state = state_of(answered("p/a", ONE), child)
    again = restored_state(take_snapshot(state))
    assert again.spending.models == state.spending.models
    again.spending.add_child(child)
    assert again.spending.models == state.spending.models
