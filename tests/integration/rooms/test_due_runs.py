"""The number of runs that are due soon, by queue, as a beat that leads counts it for autoscalers."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import timedelta

import pytest
import redis
from celery import Celery
from celery.schedules import crontab
from due import ago, now
from support.ports import free_port
from support.scrape import scrape
from support.waiting import wait_until

from redisbeater import RedisScheduleEntry, RedisScheduler, ScheduleStore
from redisbeater.beat import due_runs
from redisbeater.beat.due_runs import DueRuns
from redisbeater.clock import host_seconds
from redisbeater.context import Context
from redisbeater.store import contents


@pytest.fixture
def counting(app: Celery) -> DueRuns:
    return DueRuns(Context.of(app), is_wanted=True)


def counted(counting: DueRuns, queue: str = "celery") -> tuple[float, ...] | None:
    """Count to the end; return how many runs of a queue are due within 5, 15 and 60 minutes."""
    while counting.step(math.inf):
        pass
    found = counting.counted
    return found and tuple(found[queue, within] for within in ("5m", "15m", "60m"))


def save(app: Celery, name: str, *, every: float = 60.0, due_in: float = 30.0, **fields: object) -> None:
    """Store an entry that is due in so many seconds, and then every minute."""
    last_run_at = ago(seconds=every - due_in)
    RedisScheduleEntry(name, "proj.work", every, app=app, last_run_at=last_run_at, **fields).save()  # type: ignore[arg-type]


def test_the_runs_of_all_entries_are_counted_not_the_entries(app: Celery, counting: DueRuns) -> None:
    save(app, "each minute")
    save(app, "in twenty minutes", every=86_400.0, due_in=1200)
    save(app, "tomorrow", every=86_400.0, due_in=86_000)
    RedisScheduleEntry("cron", "proj.work", crontab(), app=app).save()

    assert counted(counting) == (10, 30, 121)


def test_each_queue_has_its_number_wherever_it_comes_from(app: Celery, counting: DueRuns) -> None:
    app.conf.task_routes = {"proj.slow": {"queue": "slow"}}
    save(app, "default")
    save(app, "its options", options={"queue": "fast"})
    RedisScheduleEntry("routed", "proj.slow", 60.0, app=app).save()

    assert [counted(counting, queue) for queue in ("celery", "fast", "slow")] == [(5, 15, 60)] * 3


def test_of_fire_times_that_have_passed_one_run_is_sent(app: Celery, counting: DueRuns) -> None:
    save(app, "late", due_in=-630)

    assert counted(counting) == (6, 16, 61)


def test_runs_that_will_not_be_are_left_out(app: Celery, counting: DueRuns) -> None:
    save(app, "three runs", max_runs=3)
    save(app, "ends", end_at=now() + timedelta(minutes=10))
    save(app, "disabled", enabled=False)
    save(app, "until", disabled_until=now() + timedelta(minutes=30))
    save(app, "skipped")
    ScheduleStore(app).skip_next("skipped", 4)

    assert counted(counting) == (3 + 5 + 0 + 0 + 1, 3 + 10 + 0 + 0 + 11, 3 + 10 + 0 + 30 + 56)


def test_a_broken_entry_is_none_and_stops_no_count(app: Celery, counting: DueRuns, client: redis.Redis) -> None:
    save(app, "fine")
    save(app, "odd")
    client.hset(Context.of(app).redis.keys.entry("odd"), "definition", "{")

    assert counted(counting) == (5, 15, 60)


def test_a_schedule_that_is_too_large_has_no_numbers(
    app: Celery, counting: DueRuns, monkeypatch: pytest.MonkeyPatch, let_pass: Callable[[float], None]
) -> None:
    save(app, "a")
    assert counted(counting) == (5, 15, 60)
    monkeypatch.setattr(due_runs, "MOST_ENTRIES", 1)
    save(app, "b")
    let_pass(61)

    assert counted(counting) is None


def test_it_is_counted_once_a_minute_and_shown_for_three(
    app: Celery, counting: DueRuns, let_pass: Callable[[float], None]
) -> None:
    save(app, "a")
    assert counted(counting) == (5, 15, 60)
    save(app, "b")
    assert counted(counting) == (5, 15, 60)

    let_pass(61)
    assert counted(counting) == (10, 30, 120)
    let_pass(181)
    assert counting.counted is None


def test_a_queue_without_runs_has_none_and_does_not_vanish(
    app: Celery, counting: DueRuns, let_pass: Callable[[float], None]
) -> None:
    save(app, "a", options={"queue": "slow"})
    assert counted(counting, "slow") == (5, 15, 60)
    ScheduleStore(app).delete("a")
    let_pass(61)

    assert counted(counting, "slow") == (0, 0, 0)


def test_queues_beyond_the_first_hundred_are_counted_together(
    app: Celery, counting: DueRuns, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(due_runs, "MOST_QUEUES", 1)
    for number in range(3):
        save(app, f"entry {number}", due_in=10 + number, options={"queue": f"queue {number}"})

    assert counted(counting, "other") == (10, 30, 120)
    assert counted(counting, "queue 0") == (5, 15, 60)


def test_nothing_is_counted_while_a_run_is_about_to_be_due(app: Celery, counting: DueRuns) -> None:
    save(app, "a")

    assert not counting.step(host_seconds() + 0.002)
    assert counting.counted is None
    assert counting.step(math.inf) or counting.counted


def test_a_count_goes_on_slice_by_slice(app: Celery, counting: DueRuns, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(due_runs, "SLICE_ENDS_SECONDS", 0.0)
    for number in range(40):
        save(app, f"entry {number}")

    steps = 1
    while counting.step(math.inf):
        steps += 1

    assert steps > 40
    assert counting.counted
    assert counting.counted["celery", "5m"] == 200


def test_entries_that_beat_moves_meanwhile_shift_no_others(app: Celery, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contents, "NAMED_PAGE", 3)
    for number in range(12):
        save(app, f"{number:02}", every=3600.0, due_in=60.0 + number // 4)
    store, seen = Context.of(app).redis, set[str]()

    for page in store.contents.names_until(now() + timedelta(hours=1)):
        seen.update(page)
        ScheduleStore(app).disable_many(page[:-1])  # the page ends later than anything that beat has claimed

    assert len(seen) == 12


# in a beat


@pytest.fixture
def port() -> int:
    return free_port()


@pytest.fixture
def beat(make_app: Callable[..., Celery], make_scheduler: Callable[..., RedisScheduler], port: int) -> RedisScheduler:
    """Make a beat that serves metrics, and waits in its ticks."""
    app = make_app(redisbeater_http=f"127.0.0.1:{port}", result_expires=None)
    scheduler = make_scheduler(app)
    scheduler.serve(is_embedded=False)
    return scheduler


def due(port: int, within: str = "5m") -> float | None:
    return scrape(port).value("runs_due", queue="celery", within=within)


def tick_until(beat: RedisScheduler, is_reached: Callable[[], bool]) -> None:
    def reached() -> bool:
        beat.tick()
        return is_reached()

    wait_until(reached, "the number of runs that are due")


def test_a_beat_that_leads_shows_what_is_due_soon(beat: RedisScheduler, port: int) -> None:
    save(beat.app, "report", every=600.0, due_in=200.0)

    tick_until(beat, lambda: due(port) == 1)

    assert [due(port, within) for within in ("15m", "60m")] == [2, 6]


def test_a_paused_schedule_has_no_runs_to_come(beat: RedisScheduler, port: int) -> None:
    save(beat.app, "report", every=600.0, due_in=200.0)
    tick_until(beat, lambda: due(port) == 1)

    ScheduleStore(beat.app).pause()
    tick_until(beat, lambda: due(port) is None)
    ScheduleStore(beat.app).resume()

    tick_until(beat, lambda: due(port) == 1)


def test_where_nobody_asks_for_the_numbers_nothing_is_counted(app: Celery) -> None:
    save(app, "report")

    assert not DueRuns(Context.of(app), is_wanted=False).step(math.inf)
