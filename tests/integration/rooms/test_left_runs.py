"""Runs that had not ended when their records were switched off: beat ends them, and leaves those that still go on."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest
import redis
from celery import Celery
from outbox import run_due
from run_site import LEASE, QUEUE, TRACKED, RunSite
from support.servers import Server

from redisbeater import RedisScheduler
from redisbeater.beat.monitor import LOOK_SECONDS, OVER_SECONDS
from redisbeater.results import State

HOUR = int(OVER_SECONDS)


MakeBeat = Callable[..., RedisScheduler]
Look = Callable[[RedisScheduler], None]


@pytest.fixture
def make_beat(make_app: Callable[..., Celery], make_scheduler: Callable[..., RedisScheduler]) -> MakeBeat:
    """Make a beat of the same schedule that does not record runs."""

    def make(**settings: Any) -> RedisScheduler:
        off = {**TRACKED, "redisbeater_track_runs": False, "result_expires": None}
        return make_scheduler(make_app(**{**off, **settings}))

    return make


@pytest.fixture
def beat(run_site: RunSite, make_beat: MakeBeat) -> RedisScheduler:
    return make_beat()


@pytest.fixture
def look(let_pass: Callable[[float], None]) -> Look:
    """Let an hour of a beat pass."""

    def look(beat: RedisScheduler) -> None:
        let_pass(LOOK_SECONDS)
        run_due(beat)

    return look


def test_they_are_lost_once_their_leases_are_over_for_long(
    run_site: RunSite, beat: RedisScheduler, look: Look, caplog: pytest.LogCaptureFixture
) -> None:
    for run_id in ("sent", "started", "retry"):
        run_site.send(run_id)
    run_site.start("started")
    run_site.start("retry")
    run_site.finish("retry", State.RETRY, retry_in=100)
    run_site.clock.go_on(QUEUE + HOUR + 101)

    with caplog.at_level(logging.WARNING, "redisbeater"):
        look(beat)

    assert {run_site.state(run_id) for run_id in ("sent", "started", "retry")} == {State.LOST}
    assert "3 runs are lost: redisbeater_track_runs was switched off before their ends were reported" in caplog.text
    keys = run_site.keys
    kept = [*(keys.run(run_id) for run_id in ("sent", "started", "retry")), keys.runs_of("report")]
    assert all(0 < run_site.client.ttl(key) <= 7 * 86_400 for key in kept)
    assert not run_site.client.exists(keys.active, keys.active_of("report"), keys.resend)


def test_those_that_may_still_end_are_left_alone(run_site: RunSite, beat: RedisScheduler, look: Look) -> None:
    run_site.send("executed")
    run_site.start("executed")
    run_site.send("waits")
    for _ in range(3):
        run_site.clock.go_on(LEASE - 1)
        run_site.runs.renew({"executed": "w1:1:a"})
    run_site.clock.go_on(HOUR - 1)

    look(beat)

    states = (run_site.state("executed"), run_site.state("waits"))
    assert states == (State.STARTED, State.SENT)


def test_a_beat_without_the_rights_for_runs_says_so_and_looks_no_more(
    run_site: RunSite,
    make_beat: MakeBeat,
    look: Look,
    server: Server,
    client: redis.Redis,
    caplog: pytest.LogCaptureFixture,
) -> None:
    run_site.send("a")
    run_site.clock.go_on(QUEUE + HOUR + 1)
    rights = ["+@all", "-strlen"]
    client.acl_setuser("left", enabled=True, nopass=True, keys=["*"], channels=["*"], commands=rights)
    beat = make_beat(redisbeater_redis_url=f"redis://left:any@127.0.0.1:{server.port}/0")
    try:
        for _ in range(2):
            look(beat)
    finally:
        client.acl_deluser("left")

    assert caplog.text.count("runs are left from when redisbeater_track_runs was on, and their records stay") == 1
