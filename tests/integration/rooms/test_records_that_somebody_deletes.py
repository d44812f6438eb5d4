"""Records of runs that are deleted, or lost by Redis, between the reports about them."""

from __future__ import annotations

from datetime import timedelta

import pytest
from run_site import LEASE, RunSite, runs_of

from redisbeater.results import State


@pytest.fixture
def site(run_site: RunSite) -> RunSite:
    return run_site


@pytest.mark.parametrize("has_ended", [False, True], ids=["begun", "ended"])
def test_a_commit_does_not_say_that_a_run_waits_which_was_reported_before(site: RunSite, has_ended: bool) -> None:
    claim = site.claim()
    site.start("a")
    if has_ended:
        site.finish("a")
    site.client.delete(site.keys.run("a"))

    site.commit(claim, site.new("a"))

    assert (site.state("a"), site.runs.counts("report").sent) == (None, 1)
    site.clock.go_on(3601)
    assert (site.lose_overdue(), [entry.active for entry in site.claim().entries]) == ([], [()])


def test_a_commit_records_nothing_of_a_schedule_that_was_deleted_since(site: RunSite) -> None:
    claim = site.claim()
    site.start("a")
    site.client.delete(*(key for key in site.client.scan_iter(f"{site.keys.prefix}:*")), site.keys.entry("report"))

    result = site.commit(claim, site.new("a"))

    assert (result.fenced, runs_of(site.client, site.keys)) == (["report"], set())


@pytest.mark.parametrize("is_sent", [True, False], ids=["the-start-is-lost", "the-record-is-gone"])
def test_an_execution_whose_start_is_not_stored_learns_that_and_begins_again(site: RunSite, is_sent: bool) -> None:
    if is_sent:
        site.send("a")

    renewal = site.runs.renew({"a": "w1:1:a"})

    assert (renewal.absent, renewal.not_ours) == ({"a"}, frozenset())
    assert site.start("a") == "STARTED"
    run = site.runs.run("a")
    assert run is not None
    assert (run.state, run.lease_end, site.active()) == (
        State.STARTED,
        site.clock.now + timedelta(seconds=LEASE),
        {"a"},
    )
    assert site.runs.renew({"a": "w1:1:a"}).absent == frozenset()


def test_a_run_that_waits_to_be_sent_again_is_not_that_of_an_older_execution(site: RunSite) -> None:
    site.send("a")
    site.start("a")
    site.clock.go_on(LEASE + 1)
    site.lose_overdue(requeue_in=0)
    site.commit(site.claim(), resent=site.runs.take(token=""))

    renewal = site.runs.renew({"a": "w1:1:a"})

    assert (renewal.absent, renewal.not_ours) == (frozenset(), {"a"})
