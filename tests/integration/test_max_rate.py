"""``redisbeater_max_rate``: what is due leaves at most so fast, the oldest first."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import pairwise

from celery import Celery
from due import save_due, stored
from outbox import Sent, names, run_due, take
from support.waiting import wait_until

from redisbeater import RedisScheduler, ScheduleStore
from redisbeater.context import Context


def ticks(scheduler: RedisScheduler, seconds: float) -> None:
    """Tick for so long, as often as the scheduler asks for."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        time.sleep(min(scheduler.tick(), max(until - time.monotonic(), 0.0)))


def sent_by_ticking(scheduler: RedisScheduler, number: int) -> list[Sent]:
    """Tick until so many runs are sent; return them."""
    sent: list[Sent] = []

    def are_sent() -> bool:
        ticks(scheduler, 0.05)
        sent.extend(take(scheduler.app))
        return len(sent) >= number

    wait_until(are_sent, f"{number} runs")
    return sent


def test_due_entries_leave_one_by_one_in_the_order_in_which_they_were_due(make_app: Callable[..., Celery]) -> None:
    app = make_app(redisbeater_max_rate=25)
    scheduler = RedisScheduler(app)
    order = [f"e{number:02}" for number in range(20)]
    for place, name in enumerate(reversed(order)):
        save_due(app, name, late=100.0 + place, every=3600.0)

    began = time.monotonic()
    ticks(scheduler, 0.3)
    early = take(app)
    save_due(app, "new", late=0.5, every=3600.0)
    while len(early) < 21:
        ticks(scheduler, 0.05)
        early += take(app)
        assert time.monotonic() - began < 30

    assert names(early) == [*order, "new"]
    assert time.monotonic() - began >= 20 / 25 - 0.1
    assert all(run.fire_time == stored(app, run.name).last_run_at for run in early)


def test_what_waits_for_the_rate_is_not_claimed(make_app: Callable[..., Celery]) -> None:
    app = make_app(redisbeater_max_rate=0.1)
    for number in range(5):
        save_due(app, f"e{number}", late=10.0 - number)

    ticks(RedisScheduler(app), 0.2)

    assert names(take(app)) == ["e0"]
    waiting = [entry for entry in ScheduleStore(app).list() if entry.name != "e0"]
    assert [entry.total_run_count for entry in waiting] == [0] * 4
    assert not any(Context.of(app).redis.load(entry.name).is_claimed for entry in waiting)


def test_each_run_that_catches_up_counts(make_app: Callable[..., Celery]) -> None:
    app = make_app(redisbeater_max_rate=10)
    save_due(app, "steady", late=300.0, every=10.0, coalesce="all")

    began = time.monotonic()
    sent = sent_by_ticking(RedisScheduler(app), 6)

    assert len(sent) <= 10 * (time.monotonic() - began) + 2
    times = [run.fire_time for run in sent]
    assert times == sorted(set(times))
    assert {later - earlier for earlier, later in pairwise(times)} == {times[1] - times[0]}


def test_a_skipped_fire_time_does_not_count(make_app: Callable[..., Celery]) -> None:
    app = make_app(redisbeater_max_rate=0.1)
    for number in range(5):
        save_due(app, f"late{number}", late=40.0, every=3600.0, misfire_grace_time=30)
    save_due(app, "report", late=1.0, every=3600.0)

    assert names(sent_by_ticking(RedisScheduler(app), 1)) == ["report"]
    assert all(stored(app, f"late{number}").skipped["missed"].count == 1 for number in range(5))


def test_why_names_the_rate_of_a_run_that_is_late(make_app: Callable[..., Celery]) -> None:
    app = make_app(redisbeater_max_rate=1)
    scheduler = RedisScheduler(app)
    for number in range(3):
        save_due(app, f"e{number}", late=10.0 - number)
    scheduler.tick()

    answer = ScheduleStore(app).why("e2")

    assert answer.verdict == "late"
    assert answer.sentence.endswith(" leads, and sends at most 1 run a second (max_rate).")


def test_the_end_of_a_backlog_is_a_line_of_the_schedules_log(make_app: Callable[..., Celery]) -> None:
    app = make_app(redisbeater_max_rate=20)
    for number in range(6):
        save_due(app, f"e{number}", late=60.0, every=3600.0)

    scheduler = RedisScheduler(app)
    assert len(sent_by_ticking(scheduler, 6)) == 6
    assert run_due(scheduler) == []
    line = ScheduleStore(app).log()[0]
    assert line.what == "held_back"
    assert line.first
    assert line.last
    assert line.first < line.last
