"""Runs that end before beat has committed them: an entry catches up, and its workers are quick."""

from __future__ import annotations

from datetime import timedelta

import pytest
from run_site import RunSite, runs_of

from redisbeater import Run, ScheduleStore
from redisbeater.model.run import NewRun
from redisbeater.results import State

#: More than the history of an entry keeps.
MANY = 8


@pytest.fixture
def site(run_site: RunSite) -> RunSite:
    return run_site


def executed(site: RunSite, count: int = MANY) -> list[NewRun]:
    """Let workers execute so many runs of the entry that beat has sent, and not committed."""
    new = [site.new(f"run-{i}", fire_time=site.clock.now + timedelta(seconds=i)) for i in range(count)]
    for run in new:
        assert site.start(run.id, fire_time=run.fire_time) == "STARTED"
        assert site.finish(run.id) == "FINISHED"
    return new


def test_the_history_keeps_them_until_their_commit(site: RunSite) -> None:
    claim = site.claim()
    new = executed(site)

    site.commit(claim, *new)

    assert {site.state(run.id) for run in new} == {State.SUCCESS}
    assert site.active() == set()
    counts = site.runs.counts("report")
    assert (counts.sent, counts.success) == (MANY, MANY)


def test_the_history_is_cut_at_the_next_end(site: RunSite) -> None:
    claim = site.claim()
    site.commit(claim, *executed(site))

    site.clock.go_on(60)
    site.send("last")
    site.start("last")
    site.finish("last")

    assert runs_of(site.client, site.keys) == {"last", *(f"run-{i}" for i in range(MANY - 4, MANY))}


def test_those_that_are_never_committed_do_not_stay_long(site: RunSite) -> None:
    site.claim()
    executed(site)

    site.clock.go_on(7200)
    site.send("last")
    site.start("last")
    site.finish("last")

    assert len(runs_of(site.client, site.keys)) == 5


def test_pages_of_the_history_have_each_of_them_once(site: RunSite) -> None:
    claim = site.claim()
    new = [site.new(f"run-{number}") for number in range(4)]
    for run in new:
        site.start(run.id)
        site.finish(run.id)
        site.clock.go_on(1)
    site.commit(claim, *new)
    runs = [run for run in site.runs.history("report") if run.sent_at and run.started_at]
    assert [run.id for run in runs if run.sent_at > run.started_at] == []  # type: ignore[operator]
    store, seen, before, pages = ScheduleStore(site.app), [], None, 0
    while (before or not pages) and pages < 10:
        page = store.history("report", 1, before)
        seen += [item.id for item in page if isinstance(item, Run)]
        before, pages = page.before, pages + 1

    assert seen == ["run-3", "run-2", "run-1", "run-0"]
