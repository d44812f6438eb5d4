"""A real beat of RedBeat ends, and ours goes on with its schedule."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from datetime import datetime, timedelta, timezone

import pytest
from redbeat import RedBeatSchedulerEntry
from redbeat.schedules import rrule as redbeat_rrule
from support.project import Project
from support.servers import Server
from support.waiting import wait_until

from redisbeater import RedisScheduleEntry

#: Longer than a hand-over takes: our beat leads before the second that RedBeat has stored.
SECONDS = 6


@pytest.fixture
def shared(server: Server, prefix: str, make_project: Callable[..., Project]) -> Project:
    """A project whose schedule both packages run."""
    theirs = {"redis_url": server.url(), "key_prefix": prefix, "redis_options": {}, "lock_key": f"{prefix}:lock"}
    return make_project(beat_max_loop_interval=1, **{f"redbeat_{name}": value for name, value in theirs.items()})


@pytest.mark.needs("redis-cli")
def test_what_keeps_our_beat_waiting_for_a_redbeat_that_was_killed_is_said_everywhere_with_the_way_out(
    shared: Project, prefix: str
) -> None:
    RedBeatSchedulerEntry("job", "proj.note", 3600.0, app=shared.app()).save()
    redbeat = shared.beat("--max-interval", "300", scheduler="redbeat.RedBeatScheduler")
    redbeat.says("Acquired lock")
    redbeat.kill()
    beat = shared.beat()
    beat.says("standing by; the leader is")
    shared.broker.delete("celery")

    said = [shared.celery("redisbeater", *words) for words in (["status"], ["health"], ["why", "job"])]
    codes = [command.popen.wait() for command in said]

    pattern = (
        rf"the lock {prefix}:lock is RedBeat's and ends in 1\d\d\d s unless its beat renews it; if that beat has "
        rf"ended, one that stands by leads at once after (redis-cli -u \S+ DEL {prefix}:lock)"
    )
    found = [re.search(pattern, each.output()) for each in (*said, beat)]
    assert (codes, [match is not None for match in found]) == ([0, 1, 0], [True] * 4), [each.output() for each in said]
    [release] = {match[1] for match in found if match}
    subprocess.run(release.split(), check=True, capture_output=True)
    beat.says("leading as")


def test_our_beat_goes_on_where_that_of_redbeat_ended(shared: Project) -> None:
    project, app = shared, shared.app()
    redbeat = project.beat(scheduler="redbeat.RedBeatScheduler")
    redbeat.says("Acquired lock")
    beat = project.beat()
    beat.says("standing by; the leader is")
    start = datetime.now(timezone.utc).replace(microsecond=0)
    rule = redbeat_rrule("SECONDLY", interval=SECONDS, dtstart=start)
    entry = RedBeatSchedulerEntry("job", "proj.note", rule, app=app)
    entry.last_run_at = None  # RedBeat runs it when it next looks
    key = entry.save().key
    wait_until(lambda: RedisScheduleEntry.from_key(key, app).total_run_count, "a run of RedBeat")
    redbeat.end()
    sent_by_redbeat = RedisScheduleEntry.from_key(key, app)
    project.broker.delete("celery")

    queue = wait_until(project.queued, "a run of ours")

    assert beat.end() == 0
    fire_times = sorted(datetime.fromisoformat(json.loads(run)["headers"]["scheduled_for"]) for run in queue)
    assert sent_by_redbeat.last_run_at is not None
    assert fire_times[0] > sent_by_redbeat.last_run_at, "RedBeat has sent that one"
    assert {(fire_time - start) % timedelta(seconds=SECONDS) for fire_time in fire_times} == {timedelta()}, (
        "each is a fire time of the rule"
    )
    assert len(set(fire_times)) == len(fire_times)
    assert "ERROR" not in beat.output()
