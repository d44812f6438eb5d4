"""Runs that go on after their entry was deleted: what is written about them does not stay for ever."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from run_site import LEASE, RunSite

from redisbeater import ScheduleStore

#: What is done to a run, which adds a line to the log of its entry.
LOGGED: dict[str, Callable[[RunSite], object]] = {
    "lost": lambda site: site.lose_overdue(),
    "requeued": lambda site: site.lose_overdue(requeue_in=10),
    "stopped": lambda site: site.runs.stop("a"),
}


@pytest.mark.parametrize("what", LOGGED)
def test_the_log_of_a_deleted_entry_still_expires_when_a_run_of_it_is(run_site: RunSite, what: str) -> None:
    run_site.send("a")
    run_site.start("a")
    ScheduleStore(run_site.app).delete("report")
    run_site.clock.go_on(LEASE + 1)

    LOGGED[what](run_site)

    log = run_site.keys.log_of("report")
    assert f" {what} " in run_site.client.lindex(log, 0)
    assert 0 < run_site.client.ttl(log) <= 7 * 86_400


def test_a_record_that_another_program_deleted_leaves_no_run_active(run_site: RunSite, prefix: str) -> None:
    for run_id in ("gone", "a"):
        run_site.send(run_id)
        run_site.start(run_id)
    run_site.client.delete(f"{prefix}:run:gone")
    run_site.clock.go_on(LEASE + 1)
    assert run_site.runs.overdue(10)  # what has no record is removed there

    run_site.finish("a")

    assert run_site.client.smembers(f"{prefix}:active:report") == set()
    assert run_site.client.pttl(f"{prefix}:runs:report") > 0, "the history of an entry without runs ends"
