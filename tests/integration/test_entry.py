from __future__ import annotations

import copy
import json
import pickle
import threading
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import celery
import pytest
import redis
from celery import Celery
from celery.beat import ScheduleEntry
from celery.schedules import crontab
from due import UTC, ago, now, save_due, stored

from redisbeater import EntryNotFound, InvalidEntry, RedisScheduleEntry, RedisScheduler, clocked, rrule
from redisbeater.context import Context
from redisbeater.store import Change

MINUTE = timedelta(minutes=1)

#: So many that two writers meet.
EDITS = 150


def make(app: Celery, name: str = "report", **fields: Any) -> RedisScheduleEntry:
    return RedisScheduleEntry(name, **{"task": "proj.report", "schedule": 60.0, "app": app, **fields})


# Save and read


def test_a_saved_entry_comes_back_as_it_was(app: Celery) -> None:
    RedisScheduleEntry("report", "proj.report", 60.0, args=[1, {"__type__": "datetime"}], app=app).save()

    entry = RedisScheduleEntry.from_key(RedisScheduleEntry.generate_key(app, "report"), app=app)

    assert (entry.task, entry.args, entry.enabled) == ("proj.report", [1, {"__type__": "datetime"}], True)


def test_options_come_back_as_they_were(app: Celery) -> None:
    options = {"queue": "q", "priority": 3, "headers": {"a": "b"}, "expires": datetime(2030, 1, 1, tzinfo=UTC)}
    make(app, options=options).save()

    assert stored(app, "report").options == options


@pytest.mark.parametrize(
    "schedule",
    [
        timedelta(seconds=0.25),
        crontab(minute="*/5", hour="8-17", day_of_week="mon-fri"),
        rrule("DAILY", dtstart=datetime(2026, 1, 1, 9, tzinfo=ZoneInfo("Europe/Vienna"))),
        clocked(datetime(2999, 1, 1, tzinfo=UTC)),
    ],
    ids=["interval", "crontab", "rrule", "clocked"],
)
def test_a_schedule_comes_back_equal(app: Celery, schedule: Any) -> None:
    entry = make(app, schedule=schedule).save()

    assert stored(app, "report").schedule == entry.schedule


@pytest.fixture
def current_app(app: Celery) -> Iterator[Celery]:
    """Celery's stand-in for the current app, which is the app of the test."""
    before = celery.current_app._get_current_object()
    app.set_current()
    yield celery.current_app
    before.set_current()


def test_an_entry_of_the_current_app_is_one_of_that_app(app: Celery, current_app: Celery) -> None:
    make(current_app, args=[1]).save()

    assert stored(app, "report").args == stored(current_app, "report").args == [1]
    assert Context.of(current_app) is Context.of(app)


def test_an_entry_that_names_no_app_is_one_of_the_current_app(app: Celery, current_app: Celery) -> None:
    RedisScheduleEntry("report", "proj.report", 60.0, args=[1]).save()

    assert stored(app, "report").args == [1]


def test_a_new_entry_first_fires_one_interval_from_now(app: Celery) -> None:
    before = now()

    entry = make(app).save()

    assert entry.due_at is not None
    assert before + MINUTE - timedelta(seconds=1) <= entry.due_at <= now() + MINUTE


def test_reading_an_entry_gives_the_same_next_fire_time_as_saving_it(app: Celery) -> None:
    saved = make(app).save()

    assert stored(app, "report").due_at == saved.due_at


def test_an_entry_that_was_not_saved_has_no_next_fire_time(app: Celery) -> None:
    entry = make(app)

    assert (entry.due_at, entry.score, entry.rank) == (None, None, None)


def test_creating_the_object_writes_nothing(app: Celery, client: redis.Redis, prefix: str) -> None:
    make(app)

    assert list(client.scan_iter(f"{prefix}*")) == []


def test_the_score_is_the_next_fire_time_in_unix_seconds(app: Celery, client: redis.Redis, prefix: str) -> None:
    entry = make(app, schedule=clocked(datetime(2999, 1, 1, 0, 0, 0, 250000, tzinfo=UTC))).save()

    assert entry.score == 32472144000.25 == client.zscore(f"{prefix}:schedule", entry.key)


def test_the_rank_counts_the_entries_that_come_before(app: Celery) -> None:
    make(app, "hourly", schedule=3600.0).save()
    make(app, "minutely", schedule=60.0).save()

    assert (stored(app, "minutely").rank, stored(app, "hourly").rank) == (0, 1)


def test_the_key_is_prefix_and_name(app: Celery, prefix: str) -> None:
    assert make(app).key == RedisScheduleEntry.generate_key(app, "report") == f"{prefix}report"


def test_reading_what_does_not_exist_is_a_key_error_that_names_it(app: Celery) -> None:
    with pytest.raises(KeyError) as raised:
        stored(app, "nobody")

    assert isinstance(raised.value, EntryNotFound)
    assert "'nobody'" in str(raised.value)


def test_a_deleted_entry_leaves_its_log_and_a_copy_for_a_week(app: Celery, client: redis.Redis, prefix: str) -> None:
    entry = make(app).save()

    entry.delete()

    answers = set(client.scan_iter(f"{prefix}:answer:*"))
    kept = {f"{prefix}:log:report", f"{prefix}:deleted", f"{prefix}:deleted:report"}
    assert set(client.scan_iter(f"{prefix}*")) - answers == kept
    assert 0 < client.ttl(f"{prefix}:deleted:report") <= 7 * 86_400
    assert 0 < client.ttl(f"{prefix}:log:report") <= 7 * 86_400


def test_deleting_twice_is_no_error(app: Celery) -> None:
    entry = make(app).save()
    entry.delete()

    entry.delete()

    assert entry.due_at is None


# Upsert


def test_editing_arguments_does_not_move_the_next_fire_time(app: Celery) -> None:
    due_at = make(app).save().due_at

    make(app, args=[1]).save()

    entry = stored(app, "report")
    assert (entry.args, entry.due_at) == ([1], due_at)


def test_an_overdue_entry_stays_overdue_when_its_arguments_are_edited(app: Celery) -> None:
    due_at = save_due(app, "report").due_at

    assert make(app, args=[1]).save().due_at == due_at


def test_saving_keeps_the_counters_of_the_stored_entry(app: Celery, scheduler: RedisScheduler) -> None:
    due_at = save_due(app, "report").due_at
    scheduler.tick()

    entry = make(app, args=[2]).save()

    assert (entry.total_run_count, entry.last_run_at) == (1, due_at)
    assert stored(app, "report").total_run_count == 1


def test_a_changed_interval_is_counted_from_the_last_run(app: Celery, scheduler: RedisScheduler) -> None:
    due_at = save_due(app, "report").due_at
    scheduler.tick()
    assert due_at is not None

    entry = make(app, schedule=3600.0).save()

    assert entry.due_at == due_at + timedelta(hours=1)


def test_a_changed_schedule_never_fires_in_the_past(app: Celery) -> None:
    make(app, schedule=86400.0, last_run_at=ago(hours=20)).save()

    entry = make(app, schedule=60.0).save()

    assert entry.due_at is not None
    assert now() - timedelta(seconds=1) < entry.due_at <= now() + MINUTE


def test_a_changed_zone_moves_the_next_fire_time(app: Celery) -> None:
    schedule = crontab(minute=0, hour=9)
    vienna = make(app, schedule=schedule, timezone="Europe/Vienna").save().due_at

    tokyo = make(app, schedule=schedule, timezone="Asia/Tokyo").save().due_at

    assert tokyo is not None
    assert tokyo != vienna
    assert tokyo.astimezone(ZoneInfo("Asia/Tokyo")).hour == 9


def test_unknown_fields_of_the_stored_definition_survive_a_save(app: Celery, client: redis.Redis) -> None:
    entry = make(app).save()
    definition = json.loads(client.hget(entry.key, "definition"))
    client.hset(entry.key, "definition", json.dumps({**definition, "owner": {"team": "data"}}))

    make(app, args=[1]).save()

    assert json.loads(client.hget(entry.key, "definition"))["owner"] == {"team": "data"}


def test_saving_an_older_copy_of_an_entry_does_not_reset_its_counters(app: Celery, scheduler: RedisScheduler) -> None:
    older_copy = save_due(app, "report")
    scheduler.tick()

    older_copy.save()

    assert stored(app, "report").total_run_count == 1


# A last run that is passed before the first save


def test_a_new_entry_counts_from_a_last_run_passed_to_it(app: Celery) -> None:
    last_run_at = ago(seconds=20)

    entry = make(app, last_run_at=last_run_at).save()

    assert entry.due_at == last_run_at + MINUTE
    assert stored(app, "report").last_run_at == last_run_at


def test_a_new_entry_counts_from_a_last_run_set_on_the_object(app: Celery) -> None:
    entry = make(app)
    entry.last_run_at = ago(seconds=20)

    assert entry.save().due_at == entry.last_run_at + MINUTE


def test_a_naive_last_run_is_local_time_of_the_entry(app: Celery) -> None:
    entry = make(app, schedule=86400.0, timezone="Asia/Tokyo", last_run_at=datetime(2026, 1, 1, 9)).save()

    assert entry.last_run_at == datetime(2026, 1, 1, 0, tzinfo=UTC)


# Reschedule, enable, disable


def test_rescheduling_counts_from_now(app: Celery) -> None:
    entry = make(app, schedule=3600.0, last_run_at=ago(minutes=50)).save()
    before = now()

    entry.reschedule()

    assert entry.due_at is not None
    assert abs(entry.due_at - before - timedelta(hours=1)) < timedelta(seconds=5)
    assert stored(app, "report").due_at == entry.due_at


def test_rescheduling_to_a_time_long_past_makes_the_entry_due(app: Celery, scheduler: RedisScheduler) -> None:
    entry = make(app, schedule=3600.0).save()

    entry.reschedule(ago(hours=2))
    scheduler.tick()

    assert stored(app, "report").total_run_count == 1


def test_rescheduling_keeps_the_run_count(app: Celery, scheduler: RedisScheduler) -> None:
    entry = save_due(app, "report")
    scheduler.tick()

    assert entry.reschedule().total_run_count == 1


def test_a_disabled_entry_stays_in_the_schedule_with_a_negative_score(
    app: Celery, client: redis.Redis, prefix: str
) -> None:
    entry = make(app).save().disable()

    assert client.zscore(f"{prefix}:schedule", entry.key) < 0
    assert (stored(app, "report").enabled, entry.due_at) == (False, None)


def test_an_entry_enabled_again_in_time_keeps_its_next_fire_time(app: Celery) -> None:
    due_at = make(app).save().due_at

    assert stored(app, "report").disable().enable().due_at == due_at


def test_fire_times_that_passed_while_an_entry_was_disabled_are_not_run(app: Celery) -> None:
    entry = save_due(app, "report", late=600.0)
    overdue = entry.due_at
    assert overdue is not None

    entry.disable().enable()

    assert entry.due_at is not None
    assert now() - timedelta(seconds=1) < entry.due_at <= now() + MINUTE
    assert (entry.due_at - overdue) % MINUTE == timedelta()


def test_an_entry_saved_disabled_does_not_run(app: Celery, scheduler: RedisScheduler) -> None:
    save_due(app, "report", enabled=False)

    scheduler.tick()

    assert stored(app, "report").total_run_count == 0


@pytest.mark.parametrize("verb", ["enable", "disable", "reschedule"])
def test_changing_what_is_not_stored_is_refused(app: Celery, client: redis.Redis, prefix: str, verb: str) -> None:
    with pytest.raises(EntryNotFound):
        getattr(make(app), verb)()

    assert list(client.scan_iter(f"{prefix}*")) == []


# Names and fields


@pytest.mark.parametrize(
    "name",
    [
        "with spaces",
        "with:colons:",
        "{braces}",
        "a{b}c:d",
        "prüfung-テスト-🕰",
        "x" * 512,
        "é" * 256,
        "schedule",
        "*",
        "%s %(name)s",
    ],
)
def test_any_text_is_a_name(app: Celery, scheduler: RedisScheduler, name: str) -> None:
    save_due(app, name)

    scheduler.tick()

    entry = stored(app, name)
    assert (entry.name, entry.total_run_count) == (name, 1)


class Unregistered:
    def to_redisbeater(self) -> dict[str, Any]:
        return {}


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"name": ""}, "$.name"),
        ({"name": None}, "$.name"),
        ({"name": ":statics"}, "$.name"),
        ({"name": "x" * 513}, "$.name"),
        ({"name": "\udcff"}, "$.name"),
        ({"task": None}, "$.task"),
        ({"task": ""}, "$.task"),
        ({"task": 1}, "$.task"),
        ({"schedule": None}, "$.schedule"),
        ({"schedule": "daily"}, "$.schedule"),
        ({"schedule": True}, "$.schedule"),
        ({"schedule": Unregistered()}, "$.schedule"),
        ({"schedule": 0}, "$.schedule.every"),
        ({"schedule": -1.0}, "$.schedule.every"),
        ({"schedule": float("nan")}, "$.schedule.every"),
        ({"schedule": float("inf")}, "$.schedule.every"),
        ({"schedule": rrule("DAILY", dtstart=datetime(2026, 1, 2), until=datetime(2026, 1, 1))}, "$.schedule"),
        ({"args": "abc"}, "$.args"),
        ({"args": [{1, 2}]}, "$.args[0]"),
        ({"args": [float("nan")]}, "$.args[0]"),
        ({"kwargs": {"when": datetime(2026, 1, 1)}}, "$.kwargs.when"),
        ({"kwargs": {1: 2}}, "$.kwargs"),
        ({"options": {"headers": "none"}}, "$.options.headers"),
        ({"options": {"link": object()}}, "$.options.link"),
        ({"enabled": "yes"}, "$.enabled"),
        ({"timezone": "Mars/Olympus"}, "$.timezone"),
    ],
    ids=lambda value: value if isinstance(value, str) else repr(value)[:40],
)
def test_what_cannot_be_stored_is_refused_before_anything_is_written(
    app: Celery, client: redis.Redis, prefix: str, fields: dict[str, Any], path: str
) -> None:
    with pytest.raises(InvalidEntry) as raised:
        make(app, **fields).save()

    assert raised.value.path == path
    assert list(client.scan_iter(f"{prefix}*")) == []


def test_an_interval_that_ends_after_the_last_year_is_refused(app: Celery, client: redis.Redis, prefix: str) -> None:
    with pytest.raises(InvalidEntry) as raised:
        make(app, schedule=1e13).save()

    assert raised.value.path.startswith("$.schedule")
    assert list(client.scan_iter(f"{prefix}*")) == []


def test_a_last_run_at_the_end_of_time_is_refused(app: Celery, client: redis.Redis, prefix: str) -> None:
    with pytest.raises(InvalidEntry, match=r"^\$\.schedule: "):
        make(app, last_run_at=datetime.max.replace(tzinfo=UTC)).save()

    assert list(client.scan_iter(f"{prefix}*")) == []


def test_a_refused_edit_leaves_the_stored_entry_as_it_was(app: Celery, client: redis.Redis) -> None:
    entry = make(app, args=[1]).save()
    before = client.hgetall(entry.key)

    with pytest.raises(InvalidEntry):
        make(app, args=[object()]).save()

    assert client.hgetall(entry.key) == before


# Celery's side of an entry


def test_an_entry_is_one_of_celery(app: Celery) -> None:
    assert isinstance(make(app), ScheduleEntry)


def test_an_entry_can_be_rebuilt_from_its_fields(app: Celery) -> None:
    entry = make(app, args=[1], kwargs={"a": 2}, options={"queue": "q"}, timezone="Asia/Tokyo", enabled=False)

    rebuilt = RedisScheduleEntry(**dict(entry))

    assert dict(rebuilt) == dict(entry)


def test_the_next_entry_has_run_once_more(app: Celery) -> None:
    entry = make(app, args=[1], total_run_count=4)

    following = next(entry)

    assert (following.total_run_count, following.args, following.name) == (5, [1], "report")
    assert abs(following.last_run_at - now()) < timedelta(seconds=5)


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda entry: pickle.loads(pickle.dumps(entry))])
def test_a_copy_of_an_entry_is_equal_and_can_be_saved(
    app: Celery, copied: Callable[[RedisScheduleEntry], RedisScheduleEntry]
) -> None:
    entry = make(app, args=[1], options={"queue": "q"}, timezone="Asia/Tokyo").save()

    twin = copied(entry)

    assert twin == entry
    assert twin is not entry
    assert twin.timezone == "Asia/Tokyo"
    assert (twin.due_at, twin.state, twin.version) == (entry.due_at, "enabled", entry.version)
    assert twin.save().due_at == entry.due_at


def test_a_deep_copy_of_an_entry_has_arguments_of_its_own(app: Celery) -> None:
    entry = make(app, args=[1], kwargs={"a": {}}, labels={"a": "b"})

    twin = copy.deepcopy(entry)
    twin.args.append(2)
    twin.kwargs["a"]["x"] = 1
    twin.labels["c"] = "d"

    assert (entry.args, entry.kwargs, entry.labels) == ([1], {"a": {}}, {"a": "b"})
    assert twin.app is twin.schedule.app is entry.app


@pytest.mark.parametrize(
    "fields",
    [{"name": "b"}, {"args": [1]}, {"enabled": False}, {"timezone": "Asia/Tokyo"}, {"max_runs": 3}, {"args": "x"}],
    ids=str,
)
def test_entries_are_equal_when_their_definitions_are(app: Celery, fields: dict[str, Any]) -> None:
    assert make(app, jitter=60) == make(app, jitter=timedelta(minutes=1), total_run_count=7)
    assert make(app) != make(app, **fields)
    assert make(app, **fields) == make(app, **fields)


def test_an_entry_differs_from_what_is_no_entry(app: Celery) -> None:
    assert make(app) not in (None, 5, "report")


def test_the_repr_shows_name_call_and_schedule(app: Celery) -> None:
    shown = repr(make(app, args=[7]))

    assert all(part in shown for part in ("report", "proj.report", "7", "1.00 minute"))


def test_the_repr_of_wrong_fields_raises_nothing(app: Celery) -> None:
    assert repr(make(app, kwargs=5)) == "<RedisScheduleEntry: 'report', whose fields cannot be shown>"
    assert repr(make(app, task=5, schedule="x")) == "<RedisScheduleEntry: report 5() x>"


def test_an_entry_is_due_when_its_fire_time_has_come(app: Celery) -> None:
    is_due, remaining = save_due(app, "report").is_due()

    assert (is_due, remaining) == (True, 0)


def test_an_entry_is_not_due_before_its_fire_time(app: Celery) -> None:
    is_due, remaining = make(app).save().is_due()

    assert not is_due
    assert 55 < remaining <= 60


def test_an_unsaved_entry_is_not_due(app: Celery) -> None:
    assert make(app).is_due() == (False, None)


# Two writers


def test_writers_at_the_same_time_lose_nothing_of_each_other(make_app: Callable[..., Celery]) -> None:
    make(make_app()).save()
    start = threading.Barrier(2)
    failures: list[BaseException] = []

    def together(work: Callable[[Celery], None]) -> threading.Thread:
        def run() -> None:
            try:
                app = make_app()
                start.wait(10)
                work(app)
            except BaseException as exc:
                failures.append(exc)

        thread = threading.Thread(target=run)
        thread.start()
        return thread

    def edit(app: Celery) -> None:
        for number in range(EDITS):
            make(app, args=[number], enabled=False).save()
            assert stored(app, "report").args == [number]

    def toggle(app: Celery) -> None:
        entry = make(app)
        for _ in range(EDITS):
            entry.enable()
            entry.disable()

    for thread in [together(edit), together(toggle)]:
        thread.join(30)

    entry = stored(make_app(), "report")
    assert failures == []
    assert (entry.args, entry.enabled) == ([EDITS - 1], False)


def test_enabling_an_entry_keeps_what_another_writer_changed_since_it_was_read(app: Celery) -> None:
    mine = make(app, enabled=False).save()
    make(app, args=["theirs"], enabled=False).save()

    mine.enable()

    assert (stored(app, "report").args, stored(app, "report").enabled) == (["theirs"], True)


def test_an_edit_of_what_was_changed_meanwhile_writes_nothing(app: Celery) -> None:
    store = Context.of(app).redis
    make(app).save()
    read = store.load("report")
    make(app, args=["theirs"]).save()

    assert store.save([Change.of(read, read.definition)]) == {"report": "CONFLICT"}
    assert stored(app, "report").args == ["theirs"]


def test_an_edit_of_an_entry_that_was_deleted_meanwhile_does_not_create_it_again(
    app: Celery, client: redis.Redis, prefix: str
) -> None:
    store = Context.of(app).redis
    entry = make(app).save()
    read = store.load("report")
    entry.delete()

    assert store.save([Change.of(read, read.definition, score=read.score)]) == {"report": "CONFLICT"}
    assert not client.exists(entry.key)
    assert client.zcard(Context.of(app).redis.keys.schedule) == 0
