"""``celery beat -S redisbeater`` from outside, as users see it."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import datetime

import pytest
import redis
from celery.schedules import crontab
from support.project import Project, leading
from support.servers import Server, running
from support.waiting import WAIT_SECONDS, wait_until

from redisbeater import RedisScheduleEntry

#: Seconds of a lock that a test waits to end: short, but longer than a busy machine delays the leader's renewals.
LOCK_SECONDS = 5


def interval(every: float, **fields: object) -> str:
    schedule = {"__type__": "interval", "every": every}
    return json.dumps({"name": "raw", "task": "proj.note", "schedule": schedule, **fields})


def test_the_short_name_of_the_scheduler_works(project: Project) -> None:
    RedisScheduleEntry("hello", "proj.note", 1.0, app=project.app()).save()
    project.beat(scheduler="redisbeater")

    assert '"periodic_task_name": "hello"' in wait_until(project.queued, "a message")[0]


def test_static_entries_of_the_configuration_run(make_project: Callable[..., Project]) -> None:
    project = make_project(beat_schedule={"static": {"task": "proj.note", "schedule": 1.0}})
    project.beat()
    assert '"periodic_task_name": "static"' in wait_until(project.queued, "a message")[0]


def test_the_banner_shows_where_the_schedule_is_and_hides_passwords(make_project: Callable[..., Project]) -> None:
    url = "redis://user:secret@127.0.0.1:1/0"
    beat = make_project(redisbeater_redis_url=url).beat()
    beat.says("beat: Starting")
    assert "127.0.0.1:1" in beat.output()
    assert "secret" not in beat.output()


def test_twenty_entries_saved_while_beat_sleeps_are_each_sent_at_once(make_project: Callable[..., Project]) -> None:
    project = make_project(redisbeater_lock_timeout=3600)  # its renewals wake no beat
    leading(project.beat("--max-interval", "3600"))
    app = project.app()
    latencies = []
    for number in range(20):
        entry = RedisScheduleEntry(f"due-{number}", "proj.note", 3600.0, app=app)
        entry.last_run_at = datetime.fromtimestamp(time.time() - 3600).astimezone()
        saved_at = time.monotonic()
        entry.save()
        wait_until(lambda: len(project.queued()) > number, f"message {number}")  # noqa: B023
        latencies.append(time.monotonic() - saved_at)
    # Without a wake-up beat would sleep for an hour; a wake-up takes milliseconds, on a busy machine some more.
    assert sorted(latencies)[10] < 5.0, latencies


FROZEN_HEADER = """
import gc
from celery.signals import before_task_publish

@before_task_publish.connect
def add_header(headers, **_):
    headers["frozen"] = gc.get_freeze_count()
"""


def test_a_process_that_only_runs_beat_is_tuned_for_it(project: Project) -> None:
    project.add_source(FROZEN_HEADER)
    project.beat()
    RedisScheduleEntry("hello", "proj.note", 1.0, app=project.app()).save()

    message = json.loads(wait_until(project.queued, "a message")[0])

    assert message["headers"]["frozen"] > 10_000


def test_two_hundred_entries_run_every_second_on_their_grids(project: Project) -> None:
    app = project.app()
    for number in range(200):
        RedisScheduleEntry(f"entry-{number}", "proj.note", 1.0, app=app).save()
    leading(project.beat())

    wait_until(lambda: len(project.queued()) >= 200 * 5, "five runs of each")

    fire_times: dict[str, list[datetime]] = {}
    for message in project.queued():
        headers = json.loads(message)["headers"]
        fire_times.setdefault(headers["periodic_task_name"], []).append(
            datetime.fromisoformat(headers["scheduled_for"])
        )
    assert len(fire_times) == 200
    for times in fire_times.values():
        phases = {moment.microsecond for moment in times}
        assert len(phases) == 1, "an entry left its grid"
        assert len(set(times)) == len(times), "a fire time was sent twice"


def test_a_raw_writer_needs_no_more_than_hset_and_zadd(project: Project, client: redis.Redis, prefix: str) -> None:
    leading(project.beat("--max-interval", "1"))
    client.hset(f"{prefix}raw", "definition", interval(3600, args=[{"__type__": "datetime"}]))
    client.zadd(f"{prefix}:schedule", {"raw": 0})

    message = json.loads(wait_until(project.queued, "a message")[0])

    assert message["headers"]["argsrepr"] == "[{'__type__': 'datetime'}]"
    members = client.zrange(f"{prefix}:schedule", 0, -1)
    assert f"{prefix}raw" in members
    assert "raw" not in members


def test_a_raw_entry_with_a_score_in_the_future_does_not_run_before_it(
    project: Project, client: redis.Redis, prefix: str
) -> None:
    leading(project.beat("--max-interval", "1"))
    due_at = time.time() + 3
    client.hset(f"{prefix}raw", "definition", interval(3600))
    client.zadd(f"{prefix}:schedule", {f"{prefix}raw": due_at})
    wait_until(project.queued, "a message")
    assert time.time() >= due_at


def test_broken_entries_do_not_delay_the_others(project: Project, client: redis.Redis, prefix: str) -> None:
    broken = {
        "no-json": "{",
        "no-task": '{"schedule": {"__type__": "interval", "every": 1}}',
        "no-date": '{"task": "t", "schedule": {"__type__": "crontab", "day_of_month": "31", "month_of_year": "2"}}',
        "no-type": '{"task": "t", "schedule": {"__type__": "moon"}}',
        "no-object": "[1]",
        "no-text": b"\xff\xfe",
    }
    for name, definition in broken.items():
        client.hset(f"{prefix}{name}", "definition", definition)
        client.zadd(f"{prefix}:schedule", {f"{prefix}{name}": 0})
    client.hset(f"{prefix}good", "definition", interval(1))
    client.zadd(f"{prefix}:schedule", {f"{prefix}good": 1})

    beat = leading(project.beat())

    wait_until(lambda: len(project.queued()) >= 3, "runs of the good entry")
    assert set(client.hkeys(f"{prefix}:broken")) == set(broken)
    assert beat.popen.poll() is None
    assert beat.output().count(f"{len(broken)} entries are broken") == 1


@pytest.fixture
def broker(server: Server) -> Iterator[Server]:
    """A separate server for the messages, which a test can keep from answering."""
    with running(server.program) as broker:
        yield broker


def test_sigterm_ends_a_beat_whose_broker_hangs_in_the_middle_of_a_send(
    make_project: Callable[..., Project], broker: Server, client: redis.Redis, prefix: str
) -> None:
    project = make_project(broker_url=broker.url())
    RedisScheduleEntry("hello", "proj.note", 0.2, app=project.app()).save()
    beat = leading(project.beat())
    admin = broker.client()
    wait_until(lambda: admin.exists("celery"), "a message")
    admin.client_pause(60 * 60 * 1000, all=False)
    wait_until(lambda: admin.info("clients")["blocked_clients"], "a send that does not return")

    assert beat.end() == 0

    assert client.get(f"{prefix}:lock") is None


def test_a_standby_takes_over_at_once_when_the_leader_ends(make_project: Callable[..., Project]) -> None:
    project = make_project(redisbeater_lock_timeout=10 * WAIT_SECONDS)
    leader = leading(project.beat())
    standby = project.beat()
    standby.says("standing by; the leader is")
    started = time.monotonic()
    leader.end()
    standby.says("leading as")
    assert time.monotonic() - started < WAIT_SECONDS, "the lock lasts far longer: the release was not heard"


def test_a_leader_that_was_paused_past_its_lock_sends_nothing_and_exits(make_project: Callable[..., Project]) -> None:
    project = make_project(redisbeater_lock_timeout=LOCK_SECONDS)
    RedisScheduleEntry("hello", "proj.note", 0.5, app=project.app()).save()
    first = leading(project.beat())
    first.says("Sending due task hello")
    second = project.beat()
    second.says("standing by")
    first.pause()
    second.says("leading as")
    sent_before = first.output().count("Sending due task")
    first.resume()

    assert first.popen.wait(WAIT_SECONDS) != 0

    assert first.output().count("LockNotOwnedError: lost the lock to") == 1, "no line but Celery's"
    assert "WARNING/MainProcess]" not in first.output()
    assert first.output().count("Sending due task") - sent_before <= 1, "one may have been in flight"


def test_the_error_of_a_service_that_a_program_runs_itself_is_printed(
    make_project: Callable[..., Project], client: redis.Redis, prefix: str
) -> None:
    project = make_project(redisbeater_lock_timeout=LOCK_SECONDS)
    program = "import proj, celery.beat; celery.beat.Service(proj.app, scheduler_cls='redisbeater').start()"
    popen = subprocess.Popen([sys.executable, "-c", program], cwd=project.folder, stderr=subprocess.PIPE, text=True)
    try:
        wait_until(lambda: client.get(f"{prefix}:lock"), "the lock")
        client.set(f"{prefix}:lock", "ops2:1:abc", px=60_000)
        errors = popen.communicate(timeout=WAIT_SECONDS)[1]
    finally:
        popen.kill()

    assert (popen.returncode, "LockNotOwnedError: lost the lock to ops2:1:abc" in errors) == (1, True)


def test_a_leader_that_lost_its_lock_becomes_a_standby_when_the_setting_says_so(
    make_project: Callable[..., Project],
) -> None:
    project = make_project(redisbeater_lock_timeout=LOCK_SECONDS, redisbeater_lock_lost="standby")
    first = leading(project.beat())
    second = project.beat()
    second.says("standing by")
    first.pause()
    second.says("leading as")
    first.resume()
    first.says("lost the lock to")
    second.end()
    wait_until(lambda: first.output().count("leading as") == 2, "the first to lead again")
    assert "LockNotOwnedError" not in first.output()


def test_without_a_lock_two_beats_share_the_work_and_send_nothing_twice(make_project: Callable[..., Project]) -> None:
    project = make_project(redisbeater_lock_key=None, redisbeater_batch_size=5)
    app = project.app()
    beats = [project.beat(), project.beat()]
    for beat in beats:
        beat.says("leading without a lock")
    for number in range(50):
        RedisScheduleEntry(f"entry-{number}", "proj.note", 0.5, app=app).save()

    wait_until(lambda: all("Sending due task" in beat.output() for beat in beats), "both to send")
    wait_until(lambda: len(project.queued()) > 300, "messages")

    ids = Counter(json.loads(message)["headers"]["id"] for message in project.queued())
    assert max(ids.values()) == 1


def test_an_embedded_beat_runs_entries(project: Project) -> None:
    RedisScheduleEntry("hello", "proj.note", 1.0, app=project.app()).save()
    project.worker("--beat", "--scheduler", "redisbeater")

    assert wait_until(project.runs, "a run")[0]["name"] == "hello"


def test_beat_starts_without_redis_and_waits_for_it(make_project: Callable[..., Project]) -> None:
    beat = make_project(redisbeater_redis_url="redis://127.0.0.1:1/0").beat()
    beat.says("Redis unavailable, retrying")
    assert beat.end() == 0
    assert "Traceback" not in beat.output()


def test_a_mistyped_setting_ends_beat_with_the_nearest_name(make_project: Callable[..., Project]) -> None:
    beat = make_project(redisbeater_lock_timout=3).beat()
    assert beat.popen.wait(WAIT_SECONDS) != 0
    assert "did you mean redisbeater_lock_timeout?" in beat.output()


def test_a_crontab_is_due_on_the_minute(project: Project) -> None:
    entry = RedisScheduleEntry("cron", "proj.note", crontab(), app=project.app()).save()
    assert entry.due_at is not None
    assert (entry.due_at.second, entry.due_at.microsecond) == (0, 0)
