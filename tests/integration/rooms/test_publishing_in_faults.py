"""Publish batches whatever happens in the middle of them: no fire time is lost, early, or has two ids.

A case has up to 120 entries that are due, what becomes of some of them, and faults that come while one of them is
being sent: of the broker, of the lock, of the lease, of what is stored. Of an entry that is refused nothing is expected
but that it holds up no other.

The examples are the same in each run. With ``REDISBEATER_EXAMPLES=500`` in the environment there are as many others.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from datetime import datetime

import pytest
from faulty_site import CHANGES, FATES, FAULTS, NEVER, Case, Site, site_of
from hypothesis import HealthCheck, example, given
from hypothesis import strategies as st
from support.examples import same_examples
from support.rabbitmq import RabbitMQ
from support.servers import Server
from support.waiting import wait_until

pytestmark = pytest.mark.deep

NUMBERS = st.integers(0, 119)
CASES = st.builds(
    Case,
    count=st.sampled_from([5, 40, 120]),
    fates=st.dictionaries(NUMBERS, st.sampled_from(FATES), max_size=8),
    runs=st.dictionaries(NUMBERS, st.integers(2, 40), max_size=4),
    events=st.dictionaries(NUMBERS, st.sampled_from([*FAULTS, *CHANGES]), max_size=3),
    at_run=st.sampled_from([1, 3, 30]),
    gather_seconds=st.sampled_from([0.0005, 0.005, 5.0]),
    has_lock=st.booleans(),
    tracks_runs=st.booleans(),
)


def send_all(site: Site) -> None:
    """Let the beats make passes until all runs have arrived and are counted."""

    def tick() -> bool:
        site.tick_all()
        return site.is_done()

    wait_until(tick, f"all runs of {site.case}")


def check(site: Site) -> None:
    """Assert that each fire time that is expected has arrived, at its time and with one id, and no other has."""
    arrived: dict[str, set[datetime]] = defaultdict(set)
    ids: dict[tuple[str, datetime], set[str]] = defaultdict(set)
    for run in site.sent:
        arrived[run.name].add(run.fire_time)
        ids[run.name, run.fire_time].add(run.id)
    assert {name: arrived[name] for name in site.expected()} == site.expected()
    assert all(fire_times <= site.owed[name] for name, fire_times in arrived.items())
    assert {len(each) for each in ids.values()} <= {1}
    assert not site.early
    if site.case.tracks_runs:
        assert site.counted() == {name: len(fire_times) for name, fire_times in site.expected().items()}


cases = same_examples(4, suppress_health_check=list(HealthCheck))


@pytest.mark.parametrize("in_one_step", [False, True], ids=["in two steps", "in one step"])
@cases
@given(case=CASES)
@example(
    case=Case(
        count=120,
        events={7: "reply lost", 60: "lock lost"},
        fates={3: "too much", 20: "refused once"},
        tracks_runs=True,
    )
)
@example(case=Case(count=40, runs={2: 40, 9: 5}, events={2: "taken over", 9: "cut"}, at_run=30, has_lock=False))
def test_nothing_is_lost_early_or_sent_with_two_ids_whatever_happens(
    server: Server, in_one_step: bool, case: Case
) -> None:
    with site_of(server, replace(case, in_one_step=in_one_step)) as site:
        send_all(site)
        check(site)
        if in_one_step:
            assert len(site.sent) == len({run.id for run in site.sent})


@cases
@given(case=CASES)
def test_nothing_is_lost_early_or_sent_with_two_ids_by_rabbitmq(server: Server, rabbitmq: RabbitMQ, case: Case) -> None:
    with site_of(server, case, rabbitmq) as site:
        send_all(site)
        check(site)


@pytest.mark.parametrize("in_one_step", [False, True], ids=["in two steps", "in one step"])
@cases
@given(case=CASES)
@example(
    case=Case(
        count=100, fates={1: "too much", 2: "refused", 40: "slow", 41: "too much", 99: "too much"}, gather_seconds=5.0
    )
)
def test_an_entry_that_is_refused_or_slow_holds_up_no_other_for_longer_than_one_pass(
    server: Server, in_one_step: bool, case: Case
) -> None:
    changes = CHANGES[1:] if in_one_step else CHANGES  # in one step, an entry that is edited is planned again
    events = {number: event for number, event in case.events.items() if event in changes}
    case = replace(case, count=min(case.count, 100), events=events, in_one_step=in_one_step)
    with site_of(server, case) as site:
        site.tick()

        late = [
            number for number in range(case.count) if case.fates.get(number) not in (*NEVER, "refused once", "soon")
        ]
        sent = {run.name for run in site.sent}
        assert {site.names[number] for number in late} - site.deleted <= sent
        assert len({run.id for run in site.sent}) == len({(run.name, run.fire_time) for run in site.sent})
