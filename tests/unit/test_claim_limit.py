"""The number of entries in one claim."""

from __future__ import annotations

from redisbeater.dispatch.pace import FIRST_CLAIM, ClaimLimit


def test_it_begins_small_and_doubles_with_full_claims_up_to_the_setting() -> None:
    limit = ClaimLimit(500)
    values = []
    for _ in range(5):
        values.append((limit.value, limit.oldest_only))
        limit.record(limit.value, ran_short=False)

    assert values == [(100, True), (200, False), (400, False), (500, False), (500, False)]


def test_the_next_burst_begins_small_again() -> None:
    limit = ClaimLimit(500)
    for _ in range(3):
        limit.record(limit.value, ran_short=False)

    limit.record(3, ran_short=False)

    assert (limit.value, limit.oldest_only) == (FIRST_CLAIM, True)


def test_members_without_an_entry_fill_a_claim_too() -> None:
    limit = ClaimLimit(500)

    limit.record(40, removed=60, ran_short=False)

    assert (limit.value, limit.oldest_only) == (200, False)


def test_a_small_setting_is_the_limit_of_every_claim() -> None:
    limit = ClaimLimit(20)
    for claimed in (20, 3, 20):
        limit.record(claimed, ran_short=False)

        assert (limit.value, limit.oldest_only) == (20, False)


def test_it_halves_with_each_claim_that_ran_short_and_stays_at_one() -> None:
    limit = ClaimLimit(5)
    values = []
    for _ in range(4):
        limit.record(limit.value, ran_short=True)
        values.append(limit.value)

    assert values == [2, 1, 1, 1]


def test_half_of_what_was_claimed_is_less_than_half_of_the_setting() -> None:
    limit = ClaimLimit(500)

    limit.record(20, ran_short=True)

    assert limit.value == 10


def test_it_grows_back_with_full_claims_that_fit() -> None:
    limit = ClaimLimit(500)
    limit.record(40, ran_short=True)

    limit.record(10, ran_short=False)
    assert limit.value == 20, "that small ones fit says nothing"

    for _ in range(5):
        limit.record(limit.value, ran_short=False)
    assert limit.value == 500
