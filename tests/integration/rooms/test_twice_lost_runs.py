"""Runs that are lost and come back, or are lost once more: states, counts and records that must agree afterwards."""

from __future__ import annotations

from datetime import timedelta

import pytest
from run_site import LEASE, QUEUE, RunSite

from redisbeater import Run, ScheduleStore
from redisbeater.model.run import Payload
from redisbeater.results import RunCounts, State

S = State


@pytest.fixture
def site(run_site: RunSite) -> RunSite:
    return run_site


def stored(site: RunSite, run_id: str = "a") -> Run:
    run = site.runs.run(run_id)
    assert run is not None
    return run


def lose(site: RunSite, run_id: str = "a", *, requeue_in: float | None = None) -> None:
    """Let a worker start a run and die."""
    site.start(run_id, acks_late=True)
    site.clock.go_on(LEASE + 1)
    assert site.lose_overdue(requeue_in) == [run_id]


def test_a_run_that_is_lost_again_before_the_commit_of_its_send_is_not_forgotten(site: RunSite) -> None:
    site.send("a")
    lose(site, requeue_in=0)
    [second] = site.runs.take(token="")
    site.start("a", "w2:2:b", attempt=2)
    site.clock.go_on(LEASE + 1)
    assert site.lose_overdue(requeue_in=0) == ["a"]

    site.commit(site.claim(), resent=[second])

    assert [run.attempt for run in site.runs.take(token="")] == [3]


@pytest.mark.parametrize("comes_back", ["renewed", "delivered-again"])
def test_a_run_that_was_lost_and_then_fails_is_one_failure(site: RunSite, comes_back: str) -> None:
    site.send("a")
    lose(site)
    assert site.runs.counts("report").failures == 1
    holder = "w1:1:a"
    if comes_back == "renewed":
        site.runs.renew({"a": holder})
    else:
        site.start("a", holder := "w2:2:b", is_redelivered=True)
    assert site.state("a") is S.STARTED

    site.finish("a", S.FAILURE, holder)

    assert site.runs.counts("report") == RunCounts(sent=1, failure=1, lost=1, failures=1)


def test_a_run_that_was_lost_and_is_to_be_tried_again_is_kept_like_any_other(site: RunSite) -> None:
    site.send("a")
    lose(site)

    assert site.finish("a", S.RETRY, retry_in=300) == "FINISHED"

    run = stored(site)
    assert (run.state, run.finished_at, run.is_final) == (S.RETRY, None, False)
    keys = (site.keys.run("a"), site.keys.payload_of("a"), site.keys.runs_of("report"))
    assert [site.client.ttl(key) for key in keys] == [-1, -1, -1]


def test_a_lost_run_that_waits_for_beat_is_kept_for_a_year_and_then_without_a_limit(site: RunSite) -> None:
    site.send("a")
    lose(site, requeue_in=0)
    keys = (site.keys.run("a"), site.keys.payload_of("a"))
    waiting = [site.client.ttl(key) for key in keys]

    site.commit(site.claim(), resent=site.runs.take(token=""))

    assert all(365 * 86_400 < seconds <= 366 * 86_400 for seconds in waiting)
    assert (site.state("a"), [site.client.ttl(key) for key in keys]) == (S.SENT, [-1, -1])


def test_a_run_that_is_sent_again_may_wait_for_its_countdown_as_well(site: RunSite) -> None:
    payload = Payload(task="proj.work", args=[], kwargs={}, options={"countdown": 7200}).to_text()
    site.send("a", payload=payload)
    lose(site, requeue_in=0)

    site.commit(site.claim(), resent=site.runs.take(token=""))

    assert stored(site).lease_end == site.clock.now + timedelta(seconds=7200 + QUEUE)


def test_a_copy_of_a_message_that_expires_does_not_end_a_run_that_is_to_be_sent_again(site: RunSite) -> None:
    site.send("a")
    lose(site, requeue_in=10)

    assert site.finish("a", S.EXPIRED, "") == "LATE"

    run = stored(site)
    assert (run.state, run.note, run.attempt, run.resend_at is not None) == (S.LOST, "", 2, True)


def test_but_one_that_nobody_has_begun_has_expired(site: RunSite) -> None:
    site.send("a")
    site.clock.go_on(QUEUE + 1)
    site.lose_overdue()

    assert (site.finish("a", S.EXPIRED, ""), site.state("a")) == ("FINISHED", S.EXPIRED)


def test_no_run_ends_in_the_future_when_its_start_was_written_late(site: RunSite) -> None:
    site.send("a")
    site.clock.go_on(300)  # Redis was away
    site.start("a")
    site.clock.go_on(5)

    site.finish("a", seconds=305.0)

    run = stored(site)
    assert (run.finished_at, run.took) == (site.clock.now, 305.0)
    assert site.runs.totals()["ms proj.work"] == 305_000


def test_a_message_that_comes_again_does_not_take_the_lease_of_the_try_after_it(site: RunSite) -> None:
    site.send("a")
    site.start("a")
    site.finish("a", S.RETRY)
    site.start("a", "w2:2:b", step=1)

    assert site.start("a", "w3:3:c", is_redelivered=True) == "RUNNING"

    assert (stored(site).holder, site.finish("a", holder="w2:2:b", step=1)) == ("w2:2:b", "FINISHED")


def test_a_run_that_waits_for_another_of_a_deleted_entry_is_sent_all_the_same(site: RunSite) -> None:
    site.send("a")
    site.start("a")
    ScheduleStore(site.app).delete("report")

    assert site.runs.reserve(site.new("b"), "buffer_one").outcome == "BUFFERED"

    site.clock.go_on(6)
    assert site.runs.take(token="") == []  # it waits for the other
    site.finish("a")
    site.clock.go_on(6)
    assert [run.id for run in site.runs.take(token="")] == ["b"]


def test_the_history_outlives_a_run_that_takes_longer_than_the_one_before(site: RunSite) -> None:
    history = site.keys.runs_of("report")
    site.send("a")
    site.start("a")
    site.finish("a")
    between = site.client.ttl(history)
    site.send("b")
    site.start("b")
    during = site.client.ttl(history)
    site.send("c")
    site.start("c", "w2:2:c")
    site.finish("c", holder="w2:2:c")
    beside = site.client.ttl(history)
    site.finish("b")

    assert (between > 0, during, beside, site.client.ttl(history) > 0) == (True, -1, -1, True)


def test_a_buffered_run_has_the_time_of_its_send_in_the_history(site: RunSite) -> None:
    site.send("a")
    site.send("b", state=S.BUFFERED)
    site.clock.go_on(30)
    site.start("a")
    site.finish("a")
    site.commit(site.claim(), resent=site.runs.take(token=""))

    sent_at = stored(site, "b").sent_at

    assert sent_at == site.clock.now
    assert [run.id for run in site.runs.history("report", at=sent_at)] == ["b"]
    assert [run.id for run in site.runs.history("report", before=sent_at)] == ["a"]


def test_the_end_of_a_lost_run_is_not_before_its_start_when_a_clock_goes_back(site: RunSite) -> None:
    site.send("a")
    site.start("a")
    site.clock.go_on(-30)

    site.finish("a", S.REVOKED, "w1:1:")

    assert site.client.hget(site.keys.totals, "ms proj.work") == "0"
    assert stored(site).took == 0.0
