"""Static entries: the leader stores what ``beat_schedule`` declares."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest
import redis
from celery import Celery
from celery.beat import BeatLazyFunc
from celery.schedules import BaseSchedule, crontab
from due import UTC, ago, now, save_due, stored

from redisbeater import EntryNotFound, RedisScheduleEntry, RedisScheduler, ScheduleStore, rrule
from redisbeater.beat import statics
from redisbeater.context import Context
from redisbeater.editing import compare_and_set as deletion
from redisbeater.store import SAVE_PAGE

REPORT = {"task": "proj.report", "schedule": 60.0, "args": (1,)}


@pytest.fixture
def start(make_app: Callable[..., Celery]) -> Callable[..., Celery]:
    """Start a beat of an app with these declarations, let it lead, end it, and return the app."""

    def start(name: str = "proj", *, result_expires: Any = None, **settings: Any) -> Celery:
        app = make_app(name, result_expires=result_expires, **settings)
        scheduler = RedisScheduler(app)
        scheduler.tick()
        scheduler.close()
        return app

    return start


@pytest.fixture
def leader(make_app: Callable[..., Celery]) -> Iterator[RedisScheduler]:
    """A beat of another app that leads, and goes on leading."""
    scheduler = RedisScheduler(make_app("leader"))
    scheduler.tick()
    yield scheduler
    scheduler.close()


def state(client: redis.Redis, prefix: str) -> dict[str, Any]:
    """Return all that is stored of the entries, and in which order."""
    keys = client.zrange(f"{prefix}:schedule", 0, -1)
    return {
        "entries": {key: client.hgetall(key) for key in keys},
        "scores": client.zrange(f"{prefix}:schedule", 0, -1, withscores=True),
        "statics": client.smembers(f"{prefix}:statics"),
    }


def exists(app: Celery, name: str) -> bool:
    try:
        return bool(stored(app, name))
    except EntryNotFound:
        return False


Start = Callable[..., Celery]


class Weekend(crontab):
    """Celery's crontab with something of the application's own, which is not stored."""


class Tide(BaseSchedule):
    """A custom schedule that raises in one of its methods."""

    def __init__(self, fails_in: str) -> None:
        super().__init__()
        self.fails_in = fails_in

    def to_redisbeater(self) -> str:
        return self._unless_it_fails("to_redisbeater", self.fails_in)

    @classmethod
    def from_redisbeater(cls, data: str) -> Tide:
        return cls(data)

    def remaining_estimate(self, last_run_at: datetime) -> timedelta:
        return self._unless_it_fails("remaining_estimate", timedelta(hours=12))

    def _unless_it_fails(self, method: str, value: Any) -> Any:
        if method == self.fails_in:
            raise ZeroDivisionError("the moon is down")
        return value


def test_static_entries_are_stored_by_the_first_tick_of_a_leader(start: Start) -> None:
    app = start(beat_schedule={"report": REPORT})

    entry = stored(app, "report")

    assert (entry.task, entry.args, entry.schedule.run_every.total_seconds()) == ("proj.report", [1], 60)


def test_a_static_entry_is_listed_as_static(start: Start, client: redis.Redis, prefix: str) -> None:
    start(beat_schedule={"report": REPORT})

    assert client.smembers(f"{prefix}:statics") == {"report"}


def test_periodic_tasks_that_the_code_adds_are_static_entries(
    make_app: Callable[..., Celery], make_scheduler: Callable[..., RedisScheduler]
) -> None:
    app = make_app()
    app.add_periodic_task(crontab(minute=5), app.signature("proj.report", args=(1,)), name="report", priority=3)

    make_scheduler(app).tick()

    entry = stored(app, "report")
    assert (entry.task, entry.args, entry.options["priority"]) == ("proj.report", [1], 3)


def test_entry_objects_may_be_declared(start: Start, make_app: Callable[..., Celery]) -> None:
    entry = RedisScheduleEntry("report", "proj.report", 60.0, timezone="Asia/Tokyo", app=make_app())

    app = start(beat_schedule={"report": entry})

    assert stored(app, "report").timezone == "Asia/Tokyo"


def test_a_restart_with_the_same_code_writes_nothing(start: Start, client: redis.Redis, prefix: str) -> None:
    start(beat_schedule={"report": REPORT, "daily": {"task": "proj.daily", "schedule": crontab(minute=0, hour=3)}})
    before = state(client, prefix)

    start(beat_schedule={"report": REPORT, "daily": {"task": "proj.daily", "schedule": crontab(minute=0, hour=3)}})

    assert state(client, prefix) == before


def test_a_static_entry_that_came_due_while_beat_was_down_runs_after_the_restart(start: Start) -> None:
    app = start(beat_schedule={"report": REPORT})
    stored(app, "report").reschedule(ago(seconds=61))

    start(beat_schedule={"report": REPORT})

    assert stored(app, "report").total_run_count == 1


def test_changed_arguments_in_the_code_are_stored_and_move_nothing(start: Start) -> None:
    app = start(beat_schedule={"report": REPORT})
    due_at = stored(app, "report").due_at

    start(beat_schedule={"report": {**REPORT, "args": (2,)}})

    entry = stored(app, "report")
    assert (entry.args, entry.due_at) == ([2], due_at)


def test_a_changed_schedule_in_the_code_is_stored_and_counts(start: Start) -> None:
    app = start(beat_schedule={"report": REPORT})

    start(beat_schedule={"report": {**REPORT, "schedule": crontab(minute=0, hour=3)}})

    due_at = stored(app, "report").due_at
    assert due_at is not None
    assert (due_at.hour, due_at.minute, due_at.second) == (3, 0, 0)


def test_the_run_count_survives_a_change_in_the_code(start: Start) -> None:
    app = start(beat_schedule={"report": REPORT})
    stored(app, "report").reschedule(ago(seconds=61))
    start(beat_schedule={"report": REPORT})

    start(beat_schedule={"report": {**REPORT, "args": (2,)}})

    assert stored(app, "report").total_run_count == 1


def test_an_entry_that_an_operator_disabled_stays_disabled_after_a_restart(start: Start) -> None:
    app = start(beat_schedule={"report": REPORT})
    stored(app, "report").disable()

    start(beat_schedule={"report": REPORT})

    assert not stored(app, "report").enabled


def test_an_entry_that_an_operator_edited_stays_edited_after_a_restart(start: Start) -> None:
    app = start(beat_schedule={"report": REPORT})
    entry = stored(app, "report")
    entry.args = ["operator"]
    entry.save()

    start(beat_schedule={"report": REPORT})

    assert stored(app, "report").args == ["operator"]


def test_a_change_in_the_code_wins_over_what_an_operator_did(start: Start) -> None:
    app = start(beat_schedule={"report": REPORT})
    stored(app, "report").disable()

    start(beat_schedule={"report": {**REPORT, "args": (2,)}})

    entry = stored(app, "report")
    assert (entry.args, entry.enabled) == ([2], True)


def test_an_entry_that_an_operator_deleted_comes_back_with_a_restart(start: Start) -> None:
    app = start(beat_schedule={"report": REPORT})
    stored(app, "report").delete()

    start(beat_schedule={"report": REPORT})

    assert exists(app, "report")


def test_an_entry_that_the_code_no_longer_declares_is_deleted(start: Start, client: redis.Redis, prefix: str) -> None:
    app = start(beat_schedule={"report": REPORT, "other": REPORT})

    start(beat_schedule={"other": REPORT})

    assert (exists(app, "report"), exists(app, "other")) == (False, True)
    assert client.smembers(f"{prefix}:statics") == {"other"}


def test_entries_of_another_app_are_not_touched(start: Start) -> None:
    app = start("proj", beat_schedule={"report": REPORT})

    start("other", beat_schedule={"theirs": REPORT})

    assert (exists(app, "report"), exists(app, "theirs")) == (True, True)


def test_an_entry_of_another_app_with_the_same_name_is_not_overwritten(
    start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    app = start("proj", beat_schedule={"report": REPORT})

    start("other", beat_schedule={"report": {**REPORT, "args": ("theirs",)}})

    assert stored(app, "report").args == [1]
    assert any("'report'" in record.getMessage() for record in caplog.records if record.levelname == "ERROR")


def test_a_dynamic_entry_of_the_same_name_is_not_overwritten(
    start: Start, make_app: Callable[..., Celery], caplog: pytest.LogCaptureFixture
) -> None:
    RedisScheduleEntry("report", "proj.dynamic", 3600.0, app=make_app()).save()

    app = start(beat_schedule={"report": REPORT})

    assert stored(app, "report").task == "proj.dynamic"
    assert any("'report'" in record.getMessage() for record in caplog.records if record.levelname == "ERROR")


def test_dynamic_entries_are_not_pruned(start: Start, make_app: Callable[..., Celery]) -> None:
    RedisScheduleEntry("dynamic", "proj.dynamic", 3600.0, app=make_app()).save()

    app = start(beat_schedule={"report": REPORT})

    assert exists(app, "dynamic")


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"schedule": 60.0}, "$.task: "),
        ({"task": "proj.work"}, "$.schedule: "),
        ({**REPORT, "kwargs": {"a": object()}}, "$.kwargs.a: "),
        ({**REPORT, "shedule": 1}, "$.shedule: is not a field of an entry; did you mean 'schedule'?"),
        ("daily", "$"),
        ({**REPORT, "schedule": rrule("DAILY")}, "$.schedule.dtstart: is missing"),
        (
            {**REPORT, "kwargs": {"at": BeatLazyFunc(ago)}},
            "$.kwargs.at: a BeatLazyFunc cannot be stored as JSON; compute the value in the task",
        ),
        ({**REPORT, "schedule": Weekend(minute=0)}, "$.schedule: cannot store "),
        ({**REPORT, "schedule": crontab(nowfun=now)}, "$.schedule: nowfun cannot be stored"),
    ],
    ids=[
        "no task", "no schedule", "not JSON", "unknown field", "a text",
        "a rule without start", "a value made later", "a class of its own", "a clock of its own",
    ],
)  # fmt: skip
def test_an_invalid_static_entry_is_listed_and_does_not_stop_the_others(start: Start, fields: Any, reason: str) -> None:
    app = start(beat_schedule={"bad": fields, "good": REPORT})

    assert exists(app, "good")
    assert Context.of(app).redis.broken.reports()["bad"]["reason"].startswith(reason)


@pytest.mark.parametrize(
    ("fails_in", "reason"),
    [
        ("to_redisbeater", "$.schedule: test_statics.Tide.to_redisbeater: ZeroDivisionError: the moon is down"),
        ("remaining_estimate", "$.schedule: ZeroDivisionError: the moon is down"),
    ],
)
def test_a_static_entry_whose_schedule_raises_is_listed_and_does_not_stop_the_others(
    start: Start, fails_in: str, reason: str
) -> None:
    beat_schedule = {"a": REPORT, "tide": {**REPORT, "schedule": Tide(fails_in)}, "z": REPORT}

    app = start(beat_schedule=beat_schedule, redisbeater_schedule_classes=[Tide])

    assert (exists(app, "a"), exists(app, "tide"), exists(app, "z")) == (True, False, True)
    assert Context.of(app).redis.broken.reports()["tide"]["reason"] == reason


@pytest.mark.parametrize("name", [5, None, ("a", 1), b"bytes"], ids=repr)
def test_a_static_entry_whose_name_is_not_a_text_is_listed_and_does_not_stop_the_others(
    start: Start, name: Any
) -> None:
    app = start(beat_schedule={"a": REPORT, name: REPORT, "z": REPORT})

    assert (exists(app, "a"), exists(app, "z")) == (True, True)
    assert Context.of(app).redis.broken.reports()[str(name)]["reason"].startswith("$.name: expected a str, got ")


def test_a_rule_with_a_start_is_a_static_entry_that_a_restart_does_not_move(
    start: Start, client: redis.Redis, prefix: str
) -> None:
    report = {**REPORT, "schedule": rrule("DAILY", dtstart=datetime(2026, 1, 1, 9, tzinfo=UTC))}
    start(beat_schedule={"report": report})
    before = state(client, prefix)

    start(beat_schedule={"report": report})

    assert state(client, prefix) == before


def test_an_invalid_static_entry_that_is_corrected_is_no_longer_listed(start: Start) -> None:
    start(beat_schedule={"report": {"task": "proj.report"}})

    app = start(beat_schedule={"report": REPORT})

    assert Context.of(app).redis.broken.reports() == {}
    assert exists(app, "report")


def test_an_invalid_static_entry_that_is_no_longer_declared_is_no_longer_listed(start: Start) -> None:
    start(beat_schedule={"report": {"task": "proj.report"}})

    app = start(beat_schedule={})

    assert Context.of(app).redis.broken.reports() == {}


def test_an_invalid_static_entry_of_another_app_stays_listed(start: Start) -> None:
    start("proj", beat_schedule={"report": {"task": "proj.report"}})

    app = start("other", beat_schedule={})

    assert list(Context.of(app).redis.broken.reports()) == ["report"]


def test_an_entry_whose_code_became_invalid_goes_on_as_it_was(start: Start) -> None:
    app = start(beat_schedule={"report": REPORT})

    start(beat_schedule={"report": {**REPORT, "schedule": "daily"}})

    assert stored(app, "report").schedule.run_every.total_seconds() == 60


def test_a_backend_that_does_not_expire_results_gets_celerys_cleanup(start: Start) -> None:
    app = start(result_expires=3600)

    entry = stored(app, "celery.backend_cleanup")

    assert (entry.task, entry.schedule) == ("celery.backend_cleanup", crontab(minute="0", hour="4"))


def test_a_backend_that_expires_results_gets_no_cleanup(start: Start) -> None:
    app = start(result_expires=3600, result_backend="cache+memory://")

    assert not exists(app, "celery.backend_cleanup")


def test_a_cleanup_that_celery_adds_to_two_applications_of_one_schedule_is_no_conflict(
    start: Start, client: redis.Redis, prefix: str, caplog: pytest.LogCaptureFixture
) -> None:
    start("proj", result_expires=3600)
    app = start("shop", result_expires=3600)

    assert Context.of(app).redis.broken.declarations() == {}
    assert not [record for record in caplog.records if record.levelname == "ERROR"]
    assert str(client.hget(f"{prefix}{statics.CLEANUP}", "origin")).startswith("proj ")

    start("proj", result_expires=None)
    start("shop", result_expires=3600)
    assert str(client.hget(f"{prefix}{statics.CLEANUP}", "origin")).startswith("shop ")


def test_the_cleanup_is_deleted_when_the_backend_no_longer_needs_it(start: Start) -> None:
    start(result_expires=3600)

    app = start(result_expires=3600, result_backend="cache+memory://")

    assert not exists(app, "celery.backend_cleanup")


def test_a_cleanup_that_the_code_declares_itself_is_kept(start: Start) -> None:
    own = {"task": "celery.backend_cleanup", "schedule": 60.0}

    app = start(result_expires=3600, beat_schedule={"celery.backend_cleanup": own})

    assert stored(app, "celery.backend_cleanup").schedule.run_every.total_seconds() == 60


@pytest.mark.usefixtures("leader")
def test_a_standby_stores_no_static_entries(start: Start) -> None:
    app = start(beat_schedule={"report": REPORT})

    assert not exists(app, "report")


def test_a_standby_deletes_no_static_entries(start: Start, make_app: Callable[..., Celery]) -> None:
    app = start(beat_schedule={"report": REPORT})
    leading = RedisScheduler(make_app("leader"))
    leading.tick()

    start(beat_schedule={})
    leading.close()

    assert exists(app, "report")


def test_building_a_scheduler_stores_no_static_entries(make_app: Callable[..., Celery]) -> None:
    app = make_app(beat_schedule={"report": REPORT})

    RedisScheduler(app)

    assert not exists(app, "report")


def test_static_entries_come_back_after_redis_was_flushed_and_the_lock_acquired_again(
    make_app: Callable[..., Celery], make_scheduler: Callable[..., RedisScheduler], client: redis.Redis
) -> None:
    app = make_app(beat_schedule={"report": REPORT})
    scheduler = make_scheduler(app)
    scheduler.tick()

    client.flushdb()
    scheduler.tick()
    scheduler.tick()

    assert exists(app, "report")


def test_setting_up_twice_is_harmless(scheduler: RedisScheduler, app: Celery) -> None:
    app.conf.beat_schedule = {"report": REPORT}
    scheduler.setup_schedule()
    due_at = stored(app, "report").due_at

    scheduler.setup_schedule()

    assert stored(app, "report").due_at == due_at


def test_an_overdue_dynamic_entry_is_not_held_up_by_the_statics(start: Start, make_app: Callable[..., Celery]) -> None:
    save_due(make_app(), "dynamic")

    app = start(beat_schedule={"report": REPORT})

    assert stored(app, "dynamic").total_run_count == 1


def test_many_are_stored_a_page_at_a_time_and_invalid_ones_do_not_hold_up_the_others(
    start: Start, client: redis.Redis, prefix: str
) -> None:
    declared = {f"e{number}": {**REPORT, "args": (number,)} for number in range(SAVE_PAGE + 50)}
    client.set(f"{prefix}e7", "a text")

    app = start(beat_schedule={**declared, "e9": {**REPORT, "max_runs": 1, "on_finish": "delete"}})

    statics, broken = client.smembers(f"{prefix}:statics"), Context.of(app).redis.broken.reports()
    assert statics == declared.keys() - {"e7", "e9"}
    assert (sorted(broken), client.get(f"{prefix}e7")) == (["e7", "e9"], "a text")
    assert broken["e9"]["reason"].startswith("$.on_finish: ")
    client.delete(f"{prefix}e7")
    start(beat_schedule=declared)
    assert (Context.of(app).redis.broken.reports(), client.scard(f"{prefix}:statics")) == ({}, len(declared))


def test_beat_is_notified_of_new_static_entries_once_for_a_page_and_never_of_known_ones(
    start: Start, client: redis.Redis, prefix: str
) -> None:
    declared = {f"e{number}": REPORT for number in range(SAVE_PAGE)}
    listener = client.pubsub(ignore_subscribe_messages=True)
    listener.subscribe(f"{prefix}:changes")
    listener.get_message(timeout=5)

    for _ in range(2):
        start(beat_schedule=declared)

    heard = [message["data"] for message in iter(lambda: listener.get_message(timeout=0.2), None)]
    assert [text for text in heard if text != ":lock"] == [":several"]
    listener.close()


def test_a_dynamic_entry_that_took_the_name_of_a_removed_one_stays(
    start: Start, client: redis.Redis, prefix: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    app = start(beat_schedule={"a": REPORT})
    RedisScheduleEntry("a", app=app).delete()
    client.sadd(f"{prefix}:statics", "a")
    context = Context.of(app)
    RedisScheduleEntry("a", "proj.mine", 60, app=app).save()

    statics.prune(context, "a", None)  # as it was read before the dynamic entry was created

    assert stored(app, "a").task == "proj.mine"
    assert "static entry 'a' is no longer declared; deleted" not in caplog.messages


def test_the_name_of_a_removed_entry_that_is_gone_is_forgotten_without_a_word(
    start: Start, client: redis.Redis, prefix: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    client.sadd(f"{prefix}:statics", "gone")

    start(beat_schedule={})

    assert client.smembers(f"{prefix}:statics") == set()
    assert "static entry 'gone' is no longer declared; deleted" not in caplog.messages


# Deleted at run time


def test_a_deleted_static_entry_comes_back_with_its_run_count_and_the_run_that_it_owes(start: Start) -> None:
    nightly = {"task": "proj.nightly", "schedule": crontab(minute=0, hour=3)}
    app = start(beat_schedule={"nightly": nightly})
    stored(app, "nightly").reschedule(ago(days=3))
    start(beat_schedule={"nightly": nightly})  # runs
    stored(app, "nightly").reschedule(ago(days=2))
    owed = stored(app, "nightly").due_at

    stored(app, "nightly").delete()
    app = start(beat_schedule={"nightly": nightly})

    entry = stored(app, "nightly")
    assert owed is not None
    assert owed < now()
    assert entry.total_run_count == 2
    assert entry.last_run_at is not None
    assert entry.last_run_at >= owed


def test_a_static_entry_that_is_deleted_while_its_run_is_sent_is_kept_with_the_fire_time_that_it_owes(
    start: Start, client: redis.Redis, prefix: str
) -> None:
    app = start(beat_schedule={"report": REPORT}, result_expires=None)
    owed = stored(app, "report").reschedule(ago(days=2)).due_at
    claim = Context.of(app).redis.claim(token="", limit=1)

    stored(app, "report").delete()

    assert [entry.name for entry in claim.entries] == ["report"]
    assert owed is not None
    assert float(client.hget(f"{prefix}:deleted:report", "score")) == pytest.approx(owed.timestamp(), abs=1e-5)


def test_a_deleted_static_entry_is_kept_although_many_others_are_deleted_after_it(
    start: Start, client: redis.Redis, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deletion, "KEEP_DELETED", 100)
    app = start(beat_schedule={"report": REPORT}, result_expires=None)
    others = [f"other {number}" for number in range(120)]
    store = ScheduleStore(app)
    with store.bulk() as bulk:
        for name in others:
            bulk.save(RedisScheduleEntry(name, "proj.work", 60, app=app))
    store.delete("report")

    for name in others:
        store.delete(name)

    assert client.zcard(f"{prefix}:deleted") == 100
    assert client.hexists(f"{prefix}:deleted:report", "definition")
    assert not client.exists(f"{prefix}:deleted:other 0")


def test_a_deleted_static_entry_comes_back_as_the_code_declares_it(
    start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    app = start(beat_schedule={"report": REPORT})
    due_at = stored(app, "report").due_at
    entry = stored(app, "report")
    entry.args = ["operator"]
    entry.save()
    entry.delete()

    start(beat_schedule={"report": REPORT})

    assert (stored(app, "report").args, stored(app, "report").due_at) == ([1], due_at)
    assert "'report' deleted; it is static, and the next beat that leads stores it again" in "".join(caplog.messages)
    assert any("'report' was deleted and is declared still; restored" in message for message in caplog.messages)


def test_a_static_entry_that_the_code_removes_and_declares_again_begins_again(start: Start) -> None:
    app = start(beat_schedule={"report": REPORT})
    stored(app, "report").reschedule(ago(seconds=61))
    start(beat_schedule={"report": REPORT})
    start(beat_schedule={})

    start(beat_schedule={"report": REPORT})

    assert stored(app, "report").total_run_count == 0


def test_what_was_kept_of_a_deleted_entry_ends_after_a_week_and_is_not_given_to_others(
    start: Start, client: redis.Redis, prefix: str
) -> None:
    app = start("proj", beat_schedule={"report": REPORT})
    stored(app, "report").reschedule(ago(seconds=30))
    stored(app, "report").delete()
    kept = f"{prefix}:deleted:report"

    assert 6 * 86_400 < client.ttl(kept) <= 7 * 86_400
    start("proj x", beat_schedule={"report": REPORT})

    assert client.exists(kept)
    assert stored(app, "report").last_run_at is None


def test_a_deleted_dynamic_entry_is_kept_only_to_be_restored(
    app: Celery, start: Start, client: redis.Redis, prefix: str
) -> None:
    RedisScheduleEntry("a", "proj.work", 60, app=app).save().delete()

    answers = set(client.keys(f"{prefix}:answer:*"))
    expected = {f"{prefix}:log:a", f"{prefix}:deleted", f"{prefix}:deleted:a"}
    assert set(client.keys(f"{prefix}*")) - answers == expected
    start("proj", beat_schedule={"report": REPORT})
    assert "a" not in set(ScheduleStore(app).names())


# Applications


def test_a_setting_tells_whose_static_entries_are(start: Start, caplog: pytest.LogCaptureFixture) -> None:
    app = start("proj", beat_schedule={"report": REPORT})

    start("shop", beat_schedule={"report": {**REPORT, "args": (2,)}}, redisbeater_application="proj")

    assert stored(app, "report").args == [2]
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


def test_a_renamed_application_says_what_it_leaves_behind_and_how_to_adopt_it(
    start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    app = start("proj", beat_schedule={"report": REPORT, "other": REPORT})
    caplog.clear()

    start("shop", beat_schedule={"report": REPORT})
    start("shop", beat_schedule={})

    assert Context.of(app).redis.broken.reports() == {}
    assert (
        "static entry not stored, application 'proj' has its name and 2 static entries that run on: 'report'; "
        "if it was renamed to 'shop': celery -A proj redisbeater adopt proj, else rename the entry"
    ) in caplog.messages
    assert (
        "2 static entries are of application 'proj' and run on; if it was renamed to 'shop': "
        "celery -A proj redisbeater adopt proj"
    ) in caplog.messages


def test_a_declaration_whose_name_is_taken_is_listed_as_broken(start: Start, make_app: Callable[..., Celery]) -> None:
    RedisScheduleEntry("dynamic", "proj.dynamic", 3600.0, app=make_app()).save()
    start("proj", beat_schedule={"report": REPORT})

    app = start("shop", beat_schedule={"report": REPORT, "dynamic": REPORT})

    assert {name: report["reason"] for name, report in Context.of(app).redis.broken.declarations().items()} == {
        "report": "$.name: a static entry of application 'proj' has that name",
        "dynamic": "$.name: a dynamic entry has that name",
    }


def alternations(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [message for message in caplog.messages if "alternate between two declarations" in message]


def test_declarations_that_alternate_are_reported_with_the_setting_that_ends_it(
    start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    one, other = {"a": REPORT}, {"b": REPORT, "c": REPORT}
    for declared in (one, one, other, other):
        start(beat_schedule=declared)
    before = alternations(caplog)

    start(beat_schedule=one)

    assert before == []
    [line] = alternations(caplog)
    assert line.startswith(
        "static entries of application 'proj' alternate between two declarations: 1 entries here, 2 on "
    )
    assert "set redisbeater_application for one" in line


def test_declarations_that_change_are_not_reported_as_alternating(
    start: Start, caplog: pytest.LogCaptureFixture, client: redis.Redis, prefix: str
) -> None:
    for number in range(4):
        start(beat_schedule={"a": {**REPORT, "args": (number,)}})
    client.hset(f"{prefix}:applications", "proj", "[5]")
    start(beat_schedule={"a": REPORT})

    assert alternations(caplog) == []


def test_an_application_without_static_entries_leaves_no_record(start: Start, client: redis.Redis, prefix: str) -> None:
    start(beat_schedule={})

    assert not client.exists(f"{prefix}:applications")
