"""When a request is made again, and how long that waits."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_sdk.core.errors import ProviderError
from agent_sdk.providers.retry import Retries, RetryPlan, RetryPolicy


def error(
    kind: str = "http", *, retryable: bool = True, retry_after: float | None = None
) -> ProviderError:
    return ProviderError("no.", kind=kind, retryable=retryable, retry_after=retry_after)


def retries(value: float = 0.999999, *, max_attempts: int = 5) -> Retries:
    return Retries(policy=RetryPolicy(max_attempts=max_attempts), random=lambda: value)


def plans(each: Retries, failure: ProviderError) -> list[float]:
    delays = []
    while isinstance(plan := each.after(failure), RetryPlan):
        delays.append(plan.delay)
        assert plan.attempt == len(delays) + 1
    assert plan is failure
    return delays


def test_waits_grow_up_to_a_cap() -> None:
    assert [round(d, 2) for d in plans(retries(), error())] == [0.5, 1, 2, 4]
    many = plans(Retries(policy=RetryPolicy(max_attempts=9), random=lambda: 1.0), error())
    assert many == [0.5, 1, 2, 4, 8, 8, 8, 8]


def test_the_wait_is_random_over_its_whole_range() -> None:
    source = random.Random(1)
    firsts = []
    for _ in range(400):
        plan = Retries(policy=RetryPolicy(), random=source.random).after(error())
        assert isinstance(plan, RetryPlan)
        firsts.append(plan.delay)
    assert min(firsts) < 0.05
    assert max(firsts) > 0.45


def test_what_may_not_be_retried_ends_at_once() -> None:
    failure = error("authentication", retryable=False)
    assert retries().after(failure) is failure


@given(st.floats(0, 600), st.floats(0, 0.999))
def test_the_servers_wish_is_never_undercut(asked: float, value: float) -> None:
    plan = retries(value).after(error(retry_after=asked))
    assert isinstance(plan, RetryPlan)
    assert asked <= plan.delay <= asked + 0.5


@pytest.mark.parametrize("asked", [600.5, 99_999.0, 1e12])
def test_a_wait_that_nobody_sits_through_is_told(asked: float) -> None:
    outcome = retries().after(error("rate_limit", retry_after=asked))
    assert isinstance(outcome, ProviderError)
    assert f"{asked:.0f} seconds" in outcome.message
    assert (outcome.kind, outcome.retryable) == ("rate_limit", False)


def test_an_empty_answer_is_asked_for_once_more() -> None:
    each, failure = retries(), error("empty")
    assert isinstance(each.after(failure), RetryPlan)
    assert each.after(failure) is failure


def test_an_empty_answer_among_others_counts_as_an_attempt_too() -> None:
    each = retries(max_attempts=3)
    assert isinstance(each.after(error()), RetryPlan)
    assert isinstance(each.after(error("empty")), RetryPlan)
    last = error()
    assert each.after(last) is last
