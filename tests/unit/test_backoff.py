"""Delays between two tries."""

from __future__ import annotations

import pytest

from redisbeater.clock import MAX_THINGS, Backoff


@pytest.fixture
def backoff() -> Backoff:
    return Backoff(first=0.5, limit=30.0)


def test_delays_double_up_to_the_limit_with_jitter(backoff: Backoff) -> None:
    delays = [backoff.failed("report") for _ in range(50)]

    for failures, delay in enumerate(delays):
        longest = min(0.5 * 2**failures, 30.0)
        assert longest / 2 <= delay <= longest


def test_a_success_is_a_new_start_for_that_thing_alone(backoff: Backoff) -> None:
    for name in ("report", "report", "other"):
        backoff.failed(name)

    assert backoff.succeeded("report")
    assert not backoff.succeeded("report")
    assert ("report" in backoff.failing, "other" in backoff.failing) == (False, True)
    assert backoff.failed("report") <= 0.5


def test_what_failed_longest_ago_is_forgotten_before_memory_is_full(backoff: Backoff) -> None:
    backoff.failed("first")
    backoff.failed("deleted")
    backoff.failed("first")
    for number in range(MAX_THINGS - 1):
        backoff.failed(f"entry-{number}")

    assert ("deleted" in backoff.failing, "first" in backoff.failing) == (False, True)
    assert len(backoff.failing) == MAX_THINGS
