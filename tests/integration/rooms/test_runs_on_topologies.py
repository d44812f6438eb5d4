"""Tracked runs on a Redis Cluster and with Sentinels: a failover in the middle costs no run, and starts none twice."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timezone
from typing import Any

import pytest
from celery import Celery
from due import ago, save_due, stored
from outbox import run_due
from support.topologies import FAILOVER_SECONDS, Cluster, Sentinels, app_with, wait_for_replicas
from support.waiting import wait_until

from redisbeater import RedisScheduler, RunNotFound, ScheduleStore, StoreUnavailable
from redisbeater.context import Context
from redisbeater.model.run import NewRun
from redisbeater.results import State
from redisbeater.store import Execution

SETTINGS: dict[str, Any] = {"redisbeater_track_runs": True, "redisbeater_lock_timeout": 2 * FAILOVER_SECONDS}


def test_a_run_of_a_cluster_ends_well_although_its_node_failed_over(cluster: Cluster) -> None:
    url = f"redis-cluster://{cluster.owner('{redisbeater}::schedule').address}"
    app = app_with(redisbeater_redis_url=url, **SETTINGS)

    def fail_over() -> None:
        wait_for_replicas(cluster.owner("{redisbeater}::schedule"))
        cluster.fail_over("{redisbeater}::schedule")

    skipped = started_once_while(app, fail_over)

    assert skipped == 1


@pytest.mark.usefixtures("short_retries")
def test_a_run_that_starts_while_the_slot_moves_is_not_written_on_both_nodes(cluster: Cluster) -> None:
    """A cluster would not end the move of a slot while both nodes have a key of it."""
    schedule = "{redisbeater}::schedule"
    app = app_with(redisbeater_redis_url=f"redis-cluster://{cluster.owner(schedule).address}", **SETTINGS)
    runs = Context.of(app).redis.runs
    first, second = (Execution(run_id=id, name="report", task="proj.work", holder=f"w1:1:{id}") for id in "ab")
    assert runs.start(first)[0] == "STARTED"

    target = cluster.other_master(schedule)
    with cluster.moving(schedule, [], target), pytest.raises(StoreUnavailable, match="moves the slot"):
        runs.start(second)

    assert runs.start(second)[0] == "STARTED"
    active = cluster.owner(schedule).ask("ZRANGE", "{redisbeater}::active", 0, -1)
    assert set(active) == {"{redisbeater}::run:a", "{redisbeater}::run:b"}


def test_a_run_of_a_cluster_is_found_by_the_begin_of_its_id(cluster: Cluster) -> None:
    url = f"redis-cluster://{cluster.other_master('{redisbeater}::schedule').address}"
    app = app_with(redisbeater_redis_url=url, **SETTINGS)
    store = ScheduleStore(app)
    store.create("report", "proj.work", 3600)
    run_id = store.trigger("report")

    assert store.runs.get(run_id[:8]).id == run_id
    with pytest.raises(RunNotFound, match="is kept; runs are kept"):
        store.runs.get("no such run")


def test_a_run_ends_well_although_the_master_failed_over(sentinels: Sentinels) -> None:
    app = app_with(**sentinels.settings(), **SETTINGS)

    def fail_over() -> None:
        wait_for_replicas(sentinels.master)
        sentinels.fail_over()

    skipped = started_once_while(app, fail_over)

    assert skipped == 1


def started_once_while(app: Celery, fail_over: Callable[[], object]) -> int:
    """Start a run of a ``skip`` entry before a failover and end it after; return how many fire times it skipped."""
    runs, scheduler = Context.of(app).redis.runs, RedisScheduler(app)
    save_due(app, "report", overlap="skip")
    try:
        sent = wait_until(lambda: run_due(scheduler), "a run")
        run_id = sent[0].id
        execution = Execution(run_id=run_id, name="report", task="proj.work", holder="w1:1:a")
        assert runs.start(execution)[0] == "STARTED"
        assert runs.renew({run_id: "w1:1:a"}).not_ours == frozenset()

        fail_over()
        assert wait_until(lambda: runs.start(execution), "the run on the new master")[0] == "STARTED"
        stored(app, "report").reschedule(ago(seconds=61))
        wait_until(lambda: run_due(scheduler) == [] and runs.counts("report").skipped, "the skipped fire time")

        assert runs.finish(execution, State.SUCCESS) == "FINISHED"
        assert [(run.id, run.state, run.starts) for run in runs.history("report")] == [(run_id, State.SUCCESS, 1)]
        now = datetime.now(timezone.utc)
        after = NewRun(id="after", name="report", task="proj.work", fire_time=now, payload="{}")
        assert runs.reserve(after, "skip").outcome == "RESERVED"
        return runs.counts("report").skipped
    finally:
        scheduler.close()
