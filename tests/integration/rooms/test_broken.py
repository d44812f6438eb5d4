"""An entry that cannot be read or planned: it alone is quarantined, with the reason."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
import redis
from celery import Celery
from celery.schedules import BaseSchedule
from due import save_due
from outbox import names, run_due

from redisbeater import InvalidEntry, RedisScheduleEntry, RedisScheduler
from redisbeater.context import Context
from redisbeater.model.log_line import LogLine

GOOD: dict[str, Any] = {"task": "proj.work", "schedule": {"__type__": "interval", "every": 86_400}}


def definition(**changes: Any) -> str:
    return json.dumps({**GOOD, **changes})


def without(field: str) -> str:
    return json.dumps({name: value for name, value in GOOD.items() if name != field})


def an_impossible_date() -> str:
    date = {"__type__": "datetime", "year": 2026, "month": 2, "day": 30}
    return definition(schedule={"__type__": "clocked", "at": date})


BROKEN = {
    "not JSON": ({"definition": '{"task": '}, "$: not JSON"),
    "empty": ({"definition": " "}, "$: not JSON"),
    "not UTF-8": ({"definition": b"\xff\xfe"}, "$: "),
    "NaN": ({"definition": definition().replace("86400", "NaN")}, "$: not JSON: NaN"),
    "a list": ({"definition": "[1, 2]"}, "$: expected an object, got list"),
    "nested too deep": ({"definition": "[" * 100_000}, "$: nested too deeply"),
    "no task": ({"definition": without("task")}, "$.task: is missing"),
    "task is a number": ({"definition": definition(task=1)}, "$.task: "),
    "no schedule": ({"definition": without("schedule")}, "$.schedule: is missing"),
    "schedule is a text": ({"definition": definition(schedule="daily")}, "$.schedule: "),
    "unknown schedule": ({"definition": definition(schedule={"__type__": "moon"})}, "$.schedule.__type__: "),
    "no interval": ({"definition": definition(schedule={"__type__": "interval"})}, "$.schedule.every: "),
    "interval 0": ({"definition": definition(schedule={"__type__": "interval", "every": 0})}, "$.schedule.every: "),
    "minute 61": ({"definition": definition(schedule={"__type__": "crontab", "minute": "61"})}, "$.schedule.minute: "),
    "impossible date": ({"definition": an_impossible_date()}, "$.schedule.at: "),
    "rule without start": ({"definition": definition(schedule={"__type__": "rrule", "freq": 3})}, "$.schedule"),
    "unregistered class": (
        {"definition": definition(schedule={"__type__": "custom", "import_path": "os.system", "data": "true"})},
        "$.schedule.import_path: ",
    ),
    "args is a text": ({"definition": definition(args="abc")}, "$.args: "),
    "kwargs is a list": ({"definition": definition(kwargs=[1])}, "$.kwargs: "),
    "options is a text": ({"definition": definition(options="queue")}, "$.options: "),
    "headers is a list": ({"definition": definition(options={"headers": [1]})}, "$.options.headers: "),
    "impossible expiry": ({"definition": definition(options={"expires": {"__type__": "date"}})}, "$.options.expires: "),
    "enabled is a text": ({"definition": definition(enabled="yes")}, "$.enabled: "),
    "unknown zone": ({"definition": definition(timezone="Mars/Olympus")}, "$.timezone: "),
    "meta is not JSON": ({"definition": definition(), "meta": "{"}, "meta: "),
    "meta is a list": ({"definition": definition(), "meta": "[]"}, "meta: "),
    "meta has an impossible date": (
        {"definition": definition(), "meta": json.dumps({"last_run_at": {"__type__": "datetime", "year": 99999}})},
        "meta.last_run_at: ",
    ),
    "meta has a count that is none": ({"definition": definition(), "meta": '{"total_run_count": "x"}'}, "meta.total_"),
}

every_kind = pytest.mark.parametrize(("fields", "reason"), BROKEN.values(), ids=BROKEN)


@pytest.fixture
def write(client: redis.Redis, prefix: str) -> Callable[[str, dict[str, Any]], str]:
    """Write an entry that is due, unchecked."""

    def write(name: str, fields: dict[str, Any]) -> str:
        client.hset(prefix + name, mapping=fields)
        client.zadd(f"{prefix}:schedule", {prefix + name: 1})
        return prefix + name

    return write


Write = Callable[[str, dict[str, Any]], str]


def broken(app: Celery) -> dict[str, dict[str, str]]:
    return Context.of(app).redis.broken.reports()


@every_kind
def test_a_broken_entry_alone_is_quarantined_with_the_reason(
    app: Celery, scheduler: RedisScheduler, write: Write, fields: dict[str, Any], reason: str
) -> None:
    write("bad", fields)
    save_due(app, "good")

    assert names(run_due(scheduler)) == ["good"]
    assert list(broken(app)) == ["bad"]
    assert broken(app)["bad"]["reason"].startswith(reason)


@every_kind
def test_a_broken_entry_saved_again_runs(
    app: Celery, scheduler: RedisScheduler, write: Write, fields: dict[str, Any], reason: str
) -> None:
    write("bad", fields)
    run_due(scheduler)

    save_due(app, "bad", every=86400.0)
    RedisScheduleEntry("bad", "proj.work", 86400.0, app=app).reschedule(datetime(2026, 1, 1))

    assert broken(app) == {}
    assert names(run_due(scheduler)) == ["bad"]


def test_a_broken_entry_stays_in_the_schedule_dormant(
    scheduler: RedisScheduler, write: Write, client: redis.Redis, prefix: str
) -> None:
    key = write("bad", {"definition": "{"})

    run_due(scheduler)

    assert client.zscore(f"{prefix}:schedule", key) < 0
    assert client.hget(key, "definition") == "{"


def test_a_broken_entry_is_logged_once(
    scheduler: RedisScheduler, write: Write, caplog: pytest.LogCaptureFixture
) -> None:
    write("bad", {"definition": "{"})

    run_due(scheduler)
    run_due(scheduler)

    of_dispatch = [record for record in caplog.records if record.name != "redisbeater.beat.incidents"]
    assert len([record for record in of_dispatch if "'bad'" in record.getMessage()]) == 1


def test_the_report_says_since_when_an_entry_is_broken(app: Celery, scheduler: RedisScheduler, write: Write) -> None:
    before = datetime.now().astimezone() - timedelta(seconds=5)
    write("bad", {"definition": "{"})

    run_due(scheduler)

    assert datetime.fromisoformat(broken(app)["bad"]["since"]) > before


def test_reading_a_broken_entry_names_the_field(app: Celery, write: Write) -> None:
    key = write("bad", {"definition": without("task")})

    with pytest.raises(InvalidEntry, match=r"^\$\.task: is missing"):
        RedisScheduleEntry.from_key(key, app=app)


def test_a_broken_entry_that_is_deleted_is_no_longer_listed(
    app: Celery, scheduler: RedisScheduler, write: Write
) -> None:
    write("bad", {"definition": "{"})
    run_due(scheduler)

    RedisScheduleEntry("bad", app=app).delete()

    assert broken(app) == {}


def test_a_broken_entry_that_a_raw_writer_repairs_runs_and_is_no_longer_listed(
    app: Celery, scheduler: RedisScheduler, write: Write
) -> None:
    write("bad", {"definition": "{"})
    run_due(scheduler)

    write("bad", {"definition": definition()})

    assert names(run_due(scheduler)) == ["bad"]
    assert broken(app) == {}


def test_an_entry_replaced_while_it_was_claimed_gets_another_try(
    make_app: Callable[..., Celery], make_scheduler: Callable[..., RedisScheduler], write: Write, client: redis.Redis
) -> None:
    app = make_app(redisbeater_lock_key=None)
    key = write("bad", {"definition": "{"})
    store = Context.of(app).redis
    claim = store.claim(token="", limit=1)
    client.hset(key, "definition", definition())

    assert not store.quarantine(claim, [(claim.entries[0], "not JSON")])
    assert names(run_due(make_scheduler(app))) == ["bad"]


def test_a_name_that_is_not_utf8_is_quarantined(
    app: Celery, scheduler: RedisScheduler, client: redis.Redis, prefix: str
) -> None:
    key = prefix.encode() + b"\xff"
    client.hset(key, "definition", definition())
    client.zadd(f"{prefix}:schedule", {key: 1})
    save_due(app, "good")

    try:
        assert names(run_due(scheduler)) == ["good"]
        assert len(broken(app)) == 1
        lines = [LogLine.from_text(text) for text in client.lrange(f"{prefix}:log:".encode() + b"\xff", 0, -1)]
        assert [line.what for line in lines].count("broken") == 1
    finally:
        client.delete(key, f"{prefix}:schedule", f"{prefix}:broken", f"{prefix}:log:".encode() + b"\xff")


class Temperamental(BaseSchedule):
    """A custom schedule that works, until it is asked to plan."""

    def __init__(self, fails: bool) -> None:
        super().__init__()
        self.fails = fails

    def to_redisbeater(self) -> dict[str, Any]:
        return {"fails": self.fails}

    @classmethod
    def from_redisbeater(cls, data: dict[str, Any]) -> Temperamental:
        return cls(data["fails"])

    def remaining_estimate(self, last_run_at: datetime) -> timedelta:
        if self.fails:
            raise ZeroDivisionError("the moon is down")
        return timedelta(minutes=1)


def custom(data: Any) -> str:
    path = f"{Temperamental.__module__}.{Temperamental.__qualname__}"
    return definition(schedule={"__type__": "custom", "import_path": path, "data": data})


@pytest.fixture
def custom_app(make_app: Callable[..., Celery]) -> Celery:
    return make_app(redisbeater_schedule_classes=[Temperamental])


def test_a_registered_class_is_planned_by_its_own_rule(
    custom_app: Celery, make_scheduler: Callable[..., RedisScheduler], write: Write
) -> None:
    write("moon", {"definition": custom({"fails": False})})

    assert names(run_due(make_scheduler(custom_app))) == ["moon"]
    assert broken(custom_app) == {}


@pytest.mark.parametrize(
    ("data", "reason"),
    [({"fails": True}, "$.schedule: ZeroDivisionError: the moon is down"), ({}, "$.schedule.data: ")],
    ids=["raises while planning", "raises while reading"],
)
def test_a_class_that_raises_costs_only_its_own_entry(
    custom_app: Celery,
    make_scheduler: Callable[..., RedisScheduler],
    write: Write,
    data: dict[str, Any],
    reason: str,
) -> None:
    write("moon", {"definition": custom(data)})
    save_due(custom_app, "good")

    assert names(run_due(make_scheduler(custom_app))) == ["good"]
    assert broken(custom_app)["moon"]["reason"].startswith(reason)
