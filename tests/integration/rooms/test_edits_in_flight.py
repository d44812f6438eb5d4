"""Edits between claim and commit: the edit wins, and the run is recorded."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
import redis
from celery import Celery
from celery.schedules import crontab
from celery.signals import after_task_publish, before_task_publish
from due import ago, now, save_due, stored
from flight import mark_in_flight
from outbox import names, run_due
from support.claims import is_claimed

from redisbeater import RedisScheduleEntry, RedisScheduler, ScheduleStore, clocked
from redisbeater.context import Context

MakeApp = Callable[..., Celery]

MINUTE = timedelta(minutes=1)

#: A jitter of this length makes no run due while a test runs: of 1,000 seconds it does so once in a few hundred times.
CENTURY = timedelta(days=36_525)


@pytest.fixture
def app(make_app: MakeApp) -> Celery:
    """An app without a lock, so that the test can be a beat, and without Celery's own entry."""
    return make_app(redisbeater_lock_key=None)


@contextmanager
def meanwhile(signal: Any, edit: Callable[[], Any]) -> Iterator[list[str]]:
    """Make an edit while each message is sent; yield the names of the tasks during whose sending it was made."""
    made: list[str] = []

    def handle(sender: str, **_: Any) -> None:
        edit()
        made.append(sender)

    signal.connect(handle)
    try:
        yield made
    finally:
        signal.disconnect(handle)


def due(entry: RedisScheduleEntry) -> Any:
    assert entry.due_at is not None
    return entry.due_at


# What wins is the edit: between claim and commit, and in the middle of a real tick


Edit = Callable[[ScheduleStore], Any]


class Moment:
    """Makes an edit at one moment between claim and commit of the only entry that is due."""

    def __init__(self, name: str, app: Celery, scheduler: RedisScheduler) -> None:
        self.name, self.app, self.scheduler = name, app, scheduler

    def edit(self, edit: Edit) -> None:
        store = ScheduleStore(self.app)
        if self.name == "between":
            flight = mark_in_flight(self.app)
            edit(store)
            flight.confirm()
            return
        signal = before_task_publish if self.name == "before_publish" else after_task_publish
        with meanwhile(signal, lambda: edit(store)) as made:
            self.scheduler.tick()
        assert made == ["proj.work"]


@pytest.fixture(params=["between", "before_publish", "after_publish"])
def moment(request: pytest.FixtureRequest, app: Celery, scheduler: RedisScheduler) -> Moment:
    return Moment(request.param, app, scheduler)


def test_max_runs_that_is_raised_while_the_last_run_is_sent_lets_the_entry_go_on(app: Celery, moment: Moment) -> None:
    first = due(save_due(app, "report", max_runs=1, on_finish="delete"))

    moment.edit(lambda store: store.update("report", max_runs=2))

    entry = stored(app, "report")
    assert (entry.due_at, entry.total_run_count, entry.last_run_at) == (first + MINUTE, 1, first)


def test_max_runs_that_is_reached_by_the_run_that_is_sent_ends_the_entry(app: Celery, moment: Moment) -> None:
    save_due(app, "report")

    moment.edit(lambda store: store.update("report", max_runs=1))

    assert (stored(app, "report").due_at, stored(app, "report").total_run_count) == (None, 1)


def test_end_at_that_is_extended_while_the_last_run_is_sent_lets_the_entry_go_on(app: Celery, moment: Moment) -> None:
    first = due(save_due(app, "report", end_at=now(), on_finish="disable"))

    moment.edit(lambda store: store.update("report", end_at=now() + 10 * MINUTE))

    entry = stored(app, "report")
    assert (entry.due_at, entry.enabled, entry.total_run_count) == (first + MINUTE, True, 1)


def test_end_at_that_is_brought_forward_ends_the_entry_and_its_run_counts(app: Celery, moment: Moment) -> None:
    first = due(save_due(app, "report"))

    moment.edit(lambda store: store.update("report", end_at=now()))

    entry = stored(app, "report")
    assert (entry.due_at, entry.total_run_count, entry.last_run_at) == (None, 1, first)


@pytest.mark.parametrize("on_finish", ["keep", "disable"])
def test_an_entry_that_is_no_longer_to_be_deleted_is_not(app: Celery, moment: Moment, on_finish: str) -> None:
    save_due(app, "report", max_runs=1, on_finish="delete")

    moment.edit(lambda store: store.update("report", on_finish=on_finish))

    entry = stored(app, "report")
    assert (entry.due_at, entry.total_run_count, entry.enabled) == (None, 1, on_finish == "keep")


def test_an_entry_that_is_to_be_deleted_by_now_is(app: Celery, moment: Moment, client: redis.Redis) -> None:
    entry = save_due(app, "report", max_runs=1)

    moment.edit(lambda store: store.update("report", on_finish="delete"))

    assert client.exists(entry.key) == 0


def test_arguments_edited_meanwhile_do_not_keep_an_entry_that_is_to_be_deleted(
    app: Celery, moment: Moment, client: redis.Redis
) -> None:
    entry = save_due(app, "report", max_runs=1, on_finish="delete")

    moment.edit(lambda store: store.update("report", args=["new"]))

    assert client.exists(entry.key) == 0


def test_an_entry_that_is_disabled_does_not_run_again_and_its_run_counts(app: Celery, moment: Moment) -> None:
    first = due(save_due(app, "report"))

    moment.edit(lambda store: store.disable("report"))

    entry = stored(app, "report")
    assert (entry.enabled, entry.due_at, entry.total_run_count, entry.last_run_at) == (False, None, 1, first)


def test_an_entry_that_is_disabled_with_its_last_run_in_flight_is_not_deleted(app: Celery, moment: Moment) -> None:
    save_due(app, "report", max_runs=1, on_finish="delete")

    moment.edit(lambda store: store.disable("report"))

    assert (stored(app, "report").enabled, stored(app, "report").total_run_count) == (False, 1)


def test_an_entry_that_is_disabled_and_enabled_is_not_sent_again(app: Celery, moment: Moment) -> None:
    first = due(save_due(app, "report"))

    def edit(store: ScheduleStore) -> None:
        store.disable("report")
        store.enable("report")

    moment.edit(edit)

    assert (stored(app, "report").due_at, stored(app, "report").total_run_count) == (first + MINUTE, 1)


@pytest.mark.parametrize("on_finish", ["keep", "delete"])
def test_a_schedule_that_is_changed_is_the_one_that_counts(app: Celery, moment: Moment, on_finish: str) -> None:
    first = due(save_due(app, "report", on_finish=on_finish))
    edited: list[RedisScheduleEntry] = []

    moment.edit(lambda store: edited.append(store.update("report", schedule=crontab(minute=0, hour=0))))

    entry = stored(app, "report")
    assert (entry.schedule, entry.due_at) == (crontab(minute=0, hour=0), edited[0].due_at)
    assert (entry.total_run_count, entry.last_run_at) == (1, first)


def test_a_one_off_that_is_moved_while_it_is_sent_is_not_deleted(app: Celery, moment: Moment) -> None:
    later = now() + timedelta(hours=1)
    RedisScheduleEntry("report", "proj.work", clocked(ago(seconds=1)), app=app, on_finish="delete").save()

    moment.edit(lambda store: store.update("report", schedule=clocked(later)))

    assert (stored(app, "report").due_at, stored(app, "report").total_run_count) == (later, 1)


def test_a_deleted_entry_stays_deleted(app: Celery, moment: Moment, client: redis.Redis, prefix: str) -> None:
    entry = save_due(app, "report", max_runs=1, on_finish="disable")

    moment.edit(lambda store: store.delete("report"))

    assert client.exists(entry.key, f"{prefix}:schedule", f"{prefix}:broken") == 0


def test_an_entry_that_is_deleted_and_created_again_has_no_record_of_the_run(app: Celery, moment: Moment) -> None:
    save_due(app, "report", max_runs=1, on_finish="delete")

    def edit(store: ScheduleStore) -> None:
        store.delete("report")
        store.create("report", "proj.work", 3600.0)

    moment.edit(edit)

    assert (stored(app, "report").total_run_count, stored(app, "report").due_at is None) == (0, False)


def test_what_was_skipped_is_counted_once_however_often_the_commit_is_tried(app: Celery, moment: Moment) -> None:
    save_due(app, "report", late=270.0)

    moment.edit(lambda store: store.update("report", args=["new"]))

    entry = stored(app, "report")
    assert {reason: record.count for reason, record in entry.skipped.items()} == {"coalesced": 4}
    assert (entry.args, entry.total_run_count) == (["new"], 1)


def test_coalesce_that_is_changed_while_all_are_sent_leaves_no_fire_time_uncounted(
    app: Celery, scheduler: RedisScheduler, store: ScheduleStore
) -> None:
    first = due(save_due(app, "report", late=270.0, coalesce="all"))

    with meanwhile(before_task_publish, lambda: store.update("report", coalesce="latest")) as made:
        sent = run_due(scheduler)

    assert [run.fire_time for run in sent] == [first, first + 4 * MINUTE]
    assert len(made) == 2
    entry = stored(app, "report")
    assert (entry.total_run_count, entry.due_at) == (2, first + 5 * MINUTE)
    assert {reason: record.count for reason, record in entry.skipped.items()} == {"coalesced": 3}


def test_an_entry_that_is_deleted_while_all_are_sent_stays_deleted(
    app: Celery, scheduler: RedisScheduler, client: redis.Redis
) -> None:
    entry = save_due(app, "report", late=270.0, coalesce="all")

    with meanwhile(before_task_publish, entry.delete):
        run_due(scheduler)

    assert client.exists(entry.key) == 0


def test_a_raw_edit_of_the_definition_meanwhile_wins_too(app: Celery, moment: Moment, client: redis.Redis) -> None:
    entry = save_due(app, "report", max_runs=1, on_finish="delete")
    first = due(entry)
    definition = json.loads(client.hget(entry.key, "definition"))

    moment.edit(lambda _: client.hset(entry.key, "definition", json.dumps({**definition, "max_runs": 5})))

    after = stored(app, "report")
    assert (after.due_at, after.total_run_count, after.max_runs) == (first + MINUTE, 1, 5)


def test_a_raw_score_that_is_set_meanwhile_stays_and_the_entry_is_not_deleted(
    app: Celery, moment: Moment, client: redis.Redis, prefix: str
) -> None:
    entry = save_due(app, "report", max_runs=1, on_finish="delete")
    score = now().timestamp() + 1000

    moment.edit(lambda _: client.zadd(f"{prefix}:schedule", {entry.key: score}))

    assert client.zscore(f"{prefix}:schedule", entry.key) == pytest.approx(score)
    assert stored(app, "report").total_run_count == 1


@pytest.mark.parametrize(
    "schedule",
    [
        {"__type__": "interval", "every": 8e13},
        {"__type__": "interval", "every": 4e11},
        {"__type__": "crontab", "day_of_month": "31", "month_of_year": "2"},
    ],
    ids=["out-of-range", "too-late", "impossible-date"],
)
def test_a_schedule_without_a_next_fire_time_that_is_written_meanwhile_does_not_stop_the_commit(
    app: Celery, moment: Moment, client: redis.Redis, schedule: dict[str, Any]
) -> None:
    entry = save_due(app, "report")
    definition = {"task": "proj.work", "schedule": schedule}

    moment.edit(lambda _: client.hset(entry.key, "definition", json.dumps(definition)))

    assert json.loads(client.hget(entry.key, "meta"))["total_run_count"] == 1
    assert not is_claimed(client, entry.key)


# An entry that is only moved


def test_an_edit_while_an_entry_is_moved_to_its_jitter_is_kept(app: Celery, store: ScheduleStore) -> None:
    fire_time = ago(seconds=1)
    RedisScheduleEntry("report", "proj.work", clocked(fire_time), app=app, jitter=CENTURY).save()
    flight = mark_in_flight(app)

    store.update("report", args=["new"])
    flight.confirm()

    entry = stored(app, "report")
    assert (entry.args, entry.total_run_count) == (["new"], 0)
    assert entry.upcoming(1)[0].fire_time == fire_time


def test_an_entry_that_is_disabled_while_it_is_moved_to_its_jitter_does_not_run(
    app: Celery, store: ScheduleStore
) -> None:
    RedisScheduleEntry("report", "proj.work", clocked(ago(seconds=1)), app=app, jitter=CENTURY).save()
    flight = mark_in_flight(app)

    store.disable("report")
    flight.confirm()

    assert stored(app, "report").due_at is None


def test_an_entry_that_is_only_moved_keeps_its_count(app: Celery, scheduler: RedisScheduler) -> None:
    RedisScheduleEntry("report", "proj.work", clocked(ago(seconds=1)), app=app, jitter=CENTURY).save()

    for _ in range(3):
        assert names(run_due(scheduler)) == []

    assert (stored(app, "report").total_run_count, stored(app, "report").skipped) == (0, {})
    assert Context.of(app).redis.broken.reports() == {}
