"""What ``benchmarks/chaos.py`` reads of the records of runs: those that would stay for ever, and no others."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from run_site import RunSite

sys.path.append(str(Path(__file__).parents[3] / "benchmarks"))
from chaos.records import Stored, read_stored

from redisbeater.results import State


@pytest.fixture
def site(run_site: RunSite) -> RunSite:
    return run_site


def read(site: RunSite) -> Stored:
    return read_stored(site.client, site.keys.prefix, site.clock.now)


def test_runs_that_wait_are_executed_or_have_ended_are_right(site: RunSite) -> None:
    for run_id in ("waits", "is executed", "has ended"):
        site.send(run_id)
    for run_id in ("is executed", "has ended"):
        site.start(run_id)
    site.finish("has ended")

    stored = read(site)

    assert {record.id: record.state for record in stored.records} == {
        "waits": "SENT", "is executed": "STARTED", "has ended": "SUCCESS",
    }  # fmt: skip
    assert {record.fire_time for record in stored.records} == {site.clock.now}
    assert (stored.forever, stored.overdue, stored.sent) == ([], {}, {"report": 3})
    assert stored.histories == {"report": {"waits", "is executed", "has ended"}}


def test_what_has_no_time_to_live_is_found(site: RunSite) -> None:
    site.send("a")
    site.start("a")
    site.finish("a", State.FAILURE)
    keys = site.keys
    unlimited = [keys.run("a"), keys.payload_of("a"), keys.runs_of("report")]
    for key in unlimited:
        assert site.client.persist(key)
    site.client.set(keys.answer("b"), "1")
    site.client.rpush(keys.log_of("of a deleted entry"), "line")

    assert read(site).forever == sorted([*unlimited, keys.answer("b"), keys.log_of("of a deleted entry")])


def test_a_lease_that_ended_long_ago_is_found(site: RunSite) -> None:
    site.send("a")
    site.clock.go_on(7200)

    assert read(site).overdue == {"a": pytest.approx(3600, abs=1)}
