"""A real beat after an outage with ``redisbeater_max_rate``: runs leave at that rate, in order, and the lock stays."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from time import monotonic

import redis
from support.project import Project
from support.waiting import wait_until

from redisbeater import RedisScheduleEntry, ScheduleStore

RATE, BACKLOG = 15, 45


def test_a_backlog_leaves_at_the_rate_in_order_and_the_lock_is_kept(
    make_project: Callable[..., Project], client: redis.Redis, prefix: str
) -> None:
    project = make_project(redisbeater_max_rate=RATE, redisbeater_lock_timeout=1)
    app = project.app()
    due = {f"e{number:02}": datetime.now(timezone.utc) - timedelta(seconds=900 - number) for number in range(BACKLOG)}
    for name, moment in due.items():
        RedisScheduleEntry(name, "proj.note", 3600, app=app, last_run_at=moment - timedelta(hours=1)).save()
    store = ScheduleStore(app)

    beat = project.beat()
    beat.says("leading as")
    token, times = client.get(f"{prefix}:lock"), list[float]()

    def have_left() -> bool:
        times.extend([monotonic()] * (len(project.queued()) - len(times)))
        if len(times) >= BACKLOG // 2 and store.count() == BACKLOG:
            RedisScheduleEntry("soon", "proj.note", 3600, app=app).save().reschedule(
                datetime.now(timezone.utc) - timedelta(hours=1, seconds=1)
            )
        return len(times) == BACKLOG + 1

    wait_until(have_left, "all runs in the queue", 60)

    messages = [json.loads(text) for text in reversed(project.queued())]
    assert [message["headers"]["periodic_task_name"] for message in messages] == [*due, "soon"]
    scheduled = [datetime.fromisoformat(message["headers"]["scheduled_for"]) for message in messages]
    assert scheduled[:BACKLOG] == list(due.values())
    # What the broker got in a second; the test may have looked late, and then sees more at once.
    in_a_second = [bisect_left(times, time + 1) - place for place, time in enumerate(times)]
    assert sorted(in_a_second)[len(times) // 2] <= RATE * 1.1 + 2
    assert times[-1] - times[0] >= (BACKLOG - 2) / RATE * 0.9
    assert (client.get(f"{prefix}:lock"), beat.output().count("leading as")) == (token, 1)
    beat.says("redisbeater_max_rate delays no runs any more")
    assert "redisbeater_max_rate delays runs: more than 15 a second are due" in beat.output()
    assert beat.end() == 0
