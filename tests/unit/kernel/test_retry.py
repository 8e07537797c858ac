"""The retry policy: which errors, how often, after how long."""

import random
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proctor.kernel.retry import MAX_RETRY_AFTER_S, RetryPolicy


@pytest.mark.parametrize(
    ("patterns", "error", "retry", "matched"),
    [
        (None, "anything", True, "*"),
        (None, "", False, None),
        ([], "anything", False, None),
        (["rate limit"], "hit a rate limit", True, "rate limit"),
        (["rate limit"], "Rate Limit", False, None),
        (["(?i)rate limit"], "Rate Limit", True, "(?i)rate limit"),
        (["first", "second"], "the second", True, "second"),
        (["^exact$"], "not exact", False, None),
        (["x"], "", False, None),
    ],
)
def test_patterns(patterns, error, retry, matched):
    decision = RetryPolicy.build(3, patterns).decide(error, 0)
    assert (decision.retry, decision.matched) == (retry, matched)
    assert decision.reason


def test_a_bad_pattern_is_told():
    with pytest.raises(re.error):
        RetryPolicy.build(1, ["("])


def test_the_budget_ends():
    policy = RetryPolicy.build(2, None)
    assert [policy.decide("x", done).retry for done in range(4)] == [True, True, False, False]
    assert policy.decide("x", 2).reason == "retries used up (2)"
    assert not RetryPolicy.build(0, None).decide("x", 0).retry


def test_a_permanent_error_needs_a_pattern_of_its_own():
    assert not RetryPolicy.build(3, None).decide("x", 0, permanent=True).retry
    assert "permanent" in RetryPolicy.build(3, None).decide("x", 0, permanent=True).reason
    assert RetryPolicy.build(3, ["x"]).decide("x", 0, permanent=True).retry
    assert not RetryPolicy.build(3, ["y"]).decide("x", 0, permanent=True).retry


@given(st.integers(0, 10_000), st.floats(0.001, 1000), st.integers())
def test_back_off_doubles_up_to_its_ceiling(done, base_s, seed):
    policy = RetryPolicy.build(10, None, base_s)
    ceiling = min(60.0, base_s * 2.0 ** min(done, 30))
    wait = policy.backoff(done, random.Random(seed))
    assert ceiling / 2 <= wait <= ceiling


def test_jitter_spreads_the_waits():
    policy = RetryPolicy.build(10, None, 1.0)
    waits = {policy.decide("x", 0, rng=random.Random(seed)).delay_s for seed in range(50)}
    assert len(waits) > 40


@pytest.mark.parametrize(
    ("asked_s", "least_s", "most_s"),
    [
        (3.0, 3.0, 3.0),
        (0.0, 0.5, 1.0),
        (-5.0, 0.5, 1.0),
        (float("nan"), 0.5, 1.0),
        (None, 0.5, 1.0),
        (MAX_RETRY_AFTER_S, MAX_RETRY_AFTER_S, MAX_RETRY_AFTER_S),
    ],
)
def test_a_longer_wait_that_was_asked_for_is_honoured(asked_s, least_s, most_s):
    decision = RetryPolicy.build(3, None, 1.0).decide("x", 0, retry_after_s=asked_s)
    assert decision.retry
    assert least_s <= decision.delay_s <= most_s


@pytest.mark.parametrize("asked_s", [MAX_RETRY_AFTER_S + 1, 86_400.0, float("inf")])
def test_nobody_sleeps_for_hours(asked_s):
    decision = RetryPolicy.build(3, None).decide("x", 0, retry_after_s=asked_s)
    assert (decision.retry, decision.delay_s) == (False, 0.0)
    assert "more than 300 s" in decision.reason
