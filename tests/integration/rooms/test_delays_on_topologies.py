"""Delays behind Sentinels and on a cluster: kept, sent and cancelled, also after a failover."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from delay_site import due, message
from support.topologies import FAILOVER_SECONDS, Cluster, Sentinels, app_with, wait_for_replicas
from support.waiting import wait_until

from redisbeater import RedisScheduler
from redisbeater.context import Context
from redisbeater.store.delays import KEPT

pytestmark = pytest.mark.topology

#: The key that says on which node of the cluster the schedule is.
SCHEDULE = "{redisbeater}::schedule"


def sent_before_and_after(settings: dict[str, Any], fail_over: Callable[[], None]) -> None:
    app = app_with(redisbeater_lock_timeout=2 * FAILOVER_SECONDS, **settings)
    redis, scheduler = Context.of(app).redis, RedisScheduler(app)
    scheduler.tick()
    for task_id, seconds in (("now", -1), ("later", 3600), ("cancelled", 3600)):
        assert redis.delays.keep(task_id, due(seconds), message(task_id).to_text()) == KEPT
    wait_until(lambda: scheduler.tick() and len([*redis.delays.each()]) == 2, "the first delay")
    assert redis.delays.cancel([("cancelled", "")]).keys() == {"cancelled"}

    fail_over()

    (stored,) = redis.delays.each()
    assert redis.delays.keep("later", due(-1), stored.text, seen=stored.text) == KEPT
    wait_until(lambda: scheduler.tick() and len([*redis.delays.each()]) == 0, "the second delay")
    scheduler.close()


def test_delays_behind_sentinels_survive_a_failover(sentinels: Sentinels) -> None:
    def fail_over() -> None:
        wait_for_replicas(sentinels.master)
        sentinels.fail_over()

    sent_before_and_after(sentinels.settings(), fail_over)


def test_delays_on_a_cluster_survive_a_failover(cluster: Cluster) -> None:
    def fail_over() -> None:
        wait_for_replicas(cluster.owner(SCHEDULE))
        cluster.fail_over(SCHEDULE)

    sent_before_and_after({"redisbeater_redis_url": f"redis-cluster://{cluster.owner(SCHEDULE).address}"}, fail_over)
