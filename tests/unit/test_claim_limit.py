"""The number of entries in one claim."""

from __future__ import annotations

from redisbeater.dispatch.claim_limit import ClaimLimit


def test_it_is_the_setting_while_claims_fit_into_their_leases() -> None:
    limit = ClaimLimit(500)

    limit.record(500, ran_short=False)
    limit.record(3, ran_short=False)

    assert limit.value == 500


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
    limit.record(300, ran_short=True)

    limit.record(20, ran_short=False)
    assert limit.value == 150, "that small ones fit says nothing"

    for _ in range(2):
        limit.record(limit.value, ran_short=False)
    assert limit.value == 500
