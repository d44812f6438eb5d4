"""What a program may write by mistake, and the sentence that it reads."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from datetime import date, datetime, timedelta, timezone
from types import MappingProxyType
from typing import Any

import pytest
from celery import Celery, Task, chain, group
from celery.app.task import Context as Request
from kombu import Queue
from support.definitions import definition_of

from redisbeater import ImproperlyConfigured, InvalidEntry, RedisScheduleEntry, ScheduleStore, clocked, cron, rrule
from redisbeater.context import Context
from redisbeater.exceptions import UnknownField, WrongType
from redisbeater.model.options import OPTIONS, check_expiry, owner_of_header
from redisbeater.testing import FakeClock

NEW_YEAR = datetime(2030, 1, 1, tzinfo=timezone.utc)


def make_app(name: str | None = "proj", **settings: Any) -> Celery:
    app = Celery(name, set_as_current=False)
    app.conf.update({"redisbeater_redis_url": "redis://localhost:1/0", "redisbeater_retry_period": 0, **settings})
    return app


APP = make_app()


@APP.task(name="proj.work", shared=False)
def work(text: str) -> None: ...


def save(**fields: Any) -> None:
    """Save an entry; what is refused is refused before anybody connects to Redis, where nobody answers."""
    RedisScheduleEntry(**{"name": "a", "task": "proj.work", "schedule": 60, "app": APP, **fields}).save()


# -- fields


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        (
            {"schedule": "*/5 * * * *"},
            "$.schedule: expected seconds, a timedelta or a schedule, got '*/5 * * * *'; for cron text use "
            "cron('*/5 * * * *')",
        ),
        (
            {"schedule": "@daily"},
            "$.schedule: expected seconds, a timedelta or a schedule, got '@daily'; for cron text use cron('@daily')",
        ),
        (
            {"schedule": "5"},
            "$.schedule: expected seconds, a timedelta or a schedule, got '5'; for an interval pass the number 5",
        ),
        (
            {"schedule": "5m"},
            "$.schedule: expected seconds, a timedelta or a schedule, got '5m'; for cron text use "
            'cron("*/5 * * * *"), for an interval timedelta(minutes=5)',
        ),
        (
            {"schedule": "FREQ=DAILY;COUNT=3"},
            "$.schedule: expected seconds, a timedelta or a schedule, got 'FREQ=DAILY;COUNT=3'; for a recurrence rule "
            "use rrule('FREQ=DAILY;COUNT=3')",
        ),
        (
            {"schedule": datetime(2030, 1, 1)},
            "$.schedule: expected seconds, a timedelta or a schedule, got datetime.datetime(2030, 1, 1, 0, 0); for one "
            "run at that time use clocked(...)",
        ),
        (
            {"schedule": date(2030, 1, 1)},
            "$.schedule: expected seconds, a timedelta or a schedule, got datetime.date(2030, 1, 1); for one run use "
            "clocked(datetime(...))",
        ),
        ({"schedule": None}, "$.schedule: expected seconds, a timedelta or a schedule, got None"),
        (
            {"schedule": None, "task": None},
            "$.schedule: this entry was not read; use ScheduleStore(app).get('a')",
        ),
        ({"task": 5}, "$.task: expected a task or its name, got 5"),
        (
            {"task": work.s("x")},
            "$.task: expected a task or its name, got a signature; pass its parts: task=s.task, args=s.args, "
            "kwargs=s.kwargs, options=s.options",
        ),
        (
            {"task": chain(work.s("x"), work.s())},
            "$.task: expected a task or its name, got a chain; schedule a task of yours that builds the chain and "
            "calls its apply_async()",
        ),
        (
            {"task": group(work.s("x"), work.s("y"))},
            "$.task: expected a task or its name, got a group; schedule a task of yours that builds the group and "
            "calls its apply_async()",
        ),
        (
            {"task": len},
            "$.task: expected a task or its name, got <built-in function len>; a function becomes a task by the "
            "decorator @app.task",
        ),
        ({"args": "hello"}, "$.args: expected a list, got 'hello'; for one argument pass ['hello']"),
        ({"last_run_at": "now"}, "$.last_run_at: expected a datetime, got 'now'"),
        ({"last_run_at": date(2026, 1, 1)}, "$.last_run_at: expected a datetime, got datetime.date(2026, 1, 1)"),
        (
            {"last_run_at": datetime(1, 1, 1), "timezone": "Asia/Tokyo"},
            "$.last_run_at: datetime.datetime(1, 1, 1, 0, 0) is out of range",
        ),
        ({"total_run_count": -1}, f"$.total_run_count: expected a whole number from 0 to {2**53}, got -1"),
        ({"total_run_count": "3"}, f"$.total_run_count: expected a whole number from 0 to {2**53}, got '3'"),
        ({"total_run_count": True}, f"$.total_run_count: expected a whole number from 0 to {2**53}, got True"),
        ({"name": 5}, "$.name: expected a str, got int 5"),
        ({"name": None}, "$.name: expected a str, got None"),
        ({"name": "a\nb"}, "$.name: holds U+000A, a control character or a mark of direction; leave it out"),
        ({"name": " "}, "$.name: expected a text that is not blank, got ' '"),
        ({"name": "\u3000\u00a0"}, r"$.name: expected a text that is not blank, got '\u3000\xa0'"),
        ({"task": "  "}, "$.task: expected a text that is not blank, got '  '"),
        ({"queue": "low"}, '$.queue: is not a field of an entry; did you mean options={"queue": ...}?'),
        ({"arg": [1]}, "$.arg: is not a field of an entry; did you mean 'args'?"),
        ({"shedule": 5}, "$.shedule: is not a field of an entry; did you mean 'schedule'?"),
        ({"xyz": 5}, "$.xyz: is not a field of an entry"),
    ],
    ids=lambda value: repr(value)[:40] if isinstance(value, dict) else "",
)
def test_a_wrong_field_is_refused_with_what_to_write_instead(fields: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InvalidEntry) as refused:
        save(**fields)

    assert str(refused.value) == sentence


def test_an_unknown_field_is_also_the_type_error_that_python_would_raise() -> None:
    with pytest.raises(TypeError) as constructed:
        RedisScheduleEntry("a", "proj.work", 60, app=APP, arg=[1])  # type: ignore[arg-type]
    with pytest.raises(TypeError) as created:
        ScheduleStore(APP).create("a", "proj.work", 60, arg=[1])  # type: ignore[call-arg]

    assert type(constructed.value) is type(created.value) is UnknownField
    assert str(constructed.value) == str(created.value) == "$.arg: is not a field of an entry; did you mean 'args'?"


def test_a_task_is_stored_by_its_name() -> None:
    entry = RedisScheduleEntry("a", work, 60, app=APP)

    assert (entry.task, definition_of(entry).task) == ("proj.work", "proj.work")
    assert definition_of(entry).changed(task=work) == definition_of(entry)


def test_arguments_may_be_a_tuple_and_options_any_mapping() -> None:
    entry = RedisScheduleEntry("a", work, 60, ("x",), MappingProxyType({"a": 1}), app=APP)

    assert (entry.args, entry.kwargs) == (["x"], {"a": 1})


# -- schedules


@pytest.mark.parametrize(
    ("call", "sentence", "also"),
    [
        (lambda: clocked("2030-01-01"), "clocked(at): expected a datetime, got '2030-01-01'", TypeError),  # type: ignore[arg-type]
        (lambda: rrule("DAILY", byhour=24), "byhour: expected numbers from 0 to 23, got 24", ValueError),
        (lambda: rrule("DAILY", until="2030"), "until: expected a datetime, got '2030'", TypeError),  # type: ignore[arg-type]
        (lambda: rrule("RRULE:FREQ=X", dtstart=NEW_YEAR), "FREQ: expected one of ", ValueError),
        (lambda: cron("61 * * * *"), "$.schedule.minute: '61' is out of range in ", ValueError),
    ],
    ids=["clocked", "rrule", "rrule-type", "rrule-text", "cron"],
)
def test_a_schedule_that_cannot_be_is_an_invalid_entry_and_the_builtin_error(
    call: Any, sentence: str, also: type[Exception]
) -> None:
    with pytest.raises(InvalidEntry) as refused:
        call()

    assert str(refused.value).startswith(sentence)
    assert isinstance(refused.value, also)


def test_an_error_of_a_wrong_type_survives_pickling() -> None:
    error = pickle.loads(pickle.dumps(WrongType("$.at", "expected a datetime")))

    assert (type(error), str(error)) == (WrongType, "$.at: expected a datetime")


# -- options


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (
            {"que": "low"},
            "$.options.que: is not an option of apply_async; did you mean 'queue'? (list one that the task's own "
            "apply_async takes in redisbeater_task_options)",
        ),
        (
            {"tenant": 1},
            "$.options.tenant: is not an option of apply_async (list one that the task's own apply_async takes in "
            "redisbeater_task_options)",
        ),
        ({"queue": 5}, "$.options.queue: expected a text that is not empty, got 5"),
        ({"queue": ""}, "$.options.queue: expected a text that is not empty, got ''"),
        ({"priority": "high"}, "$.options.priority: expected a whole number from 0 to 255, got 'high'"),
        ({"priority": 256}, "$.options.priority: expected a whole number from 0 to 255, got 256"),
        ({"expires": "soon"}, "$.options.expires: expected seconds above 0, a timedelta or a datetime, got 'soon'"),
        ({"expires": 0}, "$.options.expires: expected seconds above 0, a timedelta or a datetime, got 0"),
        (
            {"expires": timedelta(-1)},
            "$.options.expires: expected seconds above 0, a timedelta or a datetime, got -86400.0",
        ),
        (
            {"eta": NEW_YEAR},
            "$.options.eta: would hold all runs until the same moment; use countdown for a delay, or start_at or "
            "clocked()",
        ),
        (
            {"task_id": "x"},
            "$.options.task_id: cannot be set; beat computes the id of each run from the entry's name and the fire "
            "time",
        ),
        (
            {"connection": 5},
            "$.options.connection: cannot be stored; beat sends with its own connection and router",
        ),
        (
            {"serializer": "jsn"},
            "$.options.serializer: unknown serializer 'jsn'; did you mean 'json'? (one of your own must be registered "
            "with kombu in this process, too)",
        ),
        (
            {"compression": "gzp"},
            "$.options.compression: unknown compression 'gzp'; did you mean 'gzip'? (one of your own must be "
            "registered with kombu in this process, too)",
        ),
        ({"countdown": -1}, "$.options.countdown: expected seconds, 0 or more, got -1"),
        ({"time_limit": True}, "$.options.time_limit: expected seconds, more than 0, got True"),
        ({"retry": 1}, "$.options.retry: expected true or false, got 1"),
        ({"delivery_mode": 3}, "$.options.delivery_mode: expected 1 or 'transient', 2 or 'persistent', got 3"),
        (
            {"link": "proj.done"},
            "$.options.link: expected a signature, such as proj.tasks.done.s(), or a list of them, got 'proj.done'",
        ),
        (
            {"retry_policy": {"max_retry": 1}},
            "$.options.retry_policy: expected a dict of numbers, by the names max_retries, interval_start, "
            "interval_step, interval_max, got {'max_retry': 1}",
        ),
        ({"headers": []}, "$.options.headers: expected a dict, got []"),
        ({"stamped_headers": "a"}, "$.options.stamped_headers: expected a list of texts, got 'a'"),
    ],
    ids=str,
)
def test_a_wrong_option_is_refused_by_its_name(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InvalidEntry) as refused:
        save(options=options)

    assert str(refused.value) == sentence


@pytest.mark.parametrize(
    "options",
    [
        {"queue": "low", "priority": 9, "expires": timedelta(hours=1), "headers": {"a": 1}, "countdown": 0},
        {"exchange": "e", "routing_key": "r", "mandatory": True, "delivery_mode": 1, "expiration": 60},
        {"serializer": "pickle", "compression": "zstd", "ignore_result": True, "shadow": "x", "argsrepr": "(...)"},
        {"link": [work.s("x")], "link_error": work.s("y"), "time_limit": 5, "soft_time_limit": 4.5, "retry": True},
        {"retry_policy": {"max_retries": None, "interval_step": 0.2}, "expires": NEW_YEAR},
        {"stamped_headers": ["tenant"], "tenant": "a"},
        {"MessageGroupId": "a", "MessageDeduplicationId": "b", "DelaySeconds": 3},
        {"queue": None, "priority": None, "expires": None, "headers": None},
    ],
    ids=lambda options: next(iter(options)),
)
def test_what_celery_and_its_brokers_take_is_accepted(options: dict[str, Any]) -> None:
    definition = definition_of(RedisScheduleEntry("a", work, 60, options=options, app=APP))

    assert definition.options.keys() == options.keys()
    assert {name for name in options if name not in OPTIONS} <= {"tenant"}


class TenantTask(Task):
    abstract = True

    def apply_async(
        self, args: Any = None, kwargs: Any = None, *, tenant: str = "", priority: Any = 0, **options: Any
    ) -> Any:
        return super().apply_async(args, kwargs, priority=int(priority), headers={"tenant": tenant}, **options)


def test_options_that_a_task_of_the_application_names_are_its_own() -> None:
    app = make_app()

    @app.task(name="proj.tenant", base=TenantTask, shared=False)
    def of_tenant() -> None: ...

    definition = definition_of(
        RedisScheduleEntry("a", "proj.tenant", 60, options={"tenant": "a", "priority": "3"}, app=app)
    )

    assert definition.options == {"tenant": "a", "priority": "3"}
    with pytest.raises(InvalidEntry, match=r"^\$\.options\.tenant: is not an option"):
        definition_of(RedisScheduleEntry("a", "proj.other", 60, options={"tenant": "a"}, app=app))
    with pytest.raises(InvalidEntry, match=r"^\$\.options\.once: is not an option"):
        definition_of(RedisScheduleEntry("a", "proj.tenant", 60, options={"once": {}}, app=app))


def test_options_that_the_settings_list_are_accepted_whatever_the_task() -> None:
    app = make_app(redisbeater_task_options=["once"])

    assert definition_of(RedisScheduleEntry("a", "proj.other", 60, options={"once": {}}, app=app)).options == {
        "once": {}
    }


def test_a_queue_must_be_known_only_when_celery_creates_no_others() -> None:
    app = make_app(task_create_missing_queues=False, task_queues=[Queue("low"), Queue("high")])
    entry = RedisScheduleEntry("a", "proj.work", 60, options={"queue": "lwo"}, app=app)

    with pytest.raises(InvalidEntry) as refused:
        definition_of(entry)
    entry.options = {"queue": "low"}

    problem = "$.options.queue: unknown queue 'lwo'; did you mean 'low'? (task_create_missing_queues is off)"
    assert (str(refused.value), definition_of(entry).options) == (problem, {"queue": "low"})


@pytest.mark.parametrize("expires", [60, None, NEW_YEAR, datetime(2020, 1, 1)], ids=str)
def test_an_expiry_that_has_passed_is_refused(expires: Any) -> None:
    check_expiry({"expires": expires}, NEW_YEAR - timedelta(1))

    with pytest.raises(InvalidEntry) as refused:
        check_expiry({"expires": NEW_YEAR}, NEW_YEAR)
    assert str(refused.value) == (
        "$.options.expires: 2030-01-01T00:00:00+00:00 has passed: every run would have expired before it is sent; for "
        "an age pass seconds"
    )


# -- settings


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (
            {"redisbeater_redis_options": {"passwrd": "x"}},
            "redisbeater_redis_options: unknown option 'passwrd'; did you mean 'password'?",
        ),
        (
            {"redisbeater_redis_url": "redis://h?sokcet_timeout=1"},
            "redisbeater_redis_url: unknown option 'sokcet_timeout'; did you mean 'socket_timeout'?",
        ),
        (
            {"redisbeater_redis_url": "rediss://h", "redisbeater_redis_use_ssl": {"ssl_ca_cert": "x"}},
            "redisbeater_redis_use_ssl: unknown option 'ssl_ca_cert'; did you mean 'ssl_ca_certs'?",
        ),
        (
            {"redisbeater_redis_url": "redis://h?socket_timeout=abc"},
            "redisbeater_redis_url: redis-py cannot read the value of the option socket_timeout; expected a number or "
            "true or false",
        ),
        (
            {"redisbeater_redis_url": "redis://h/abc"},
            "redisbeater_redis_url: the database is not a number; end the URL as in redis://host:6379/0",
        ),
        (
            {"redisbeater_redis_use_ssl": True},
            "redisbeater_redis_use_ssl is set, but redisbeater_redis_url begins with redis://; use rediss:// in "
            "redisbeater_redis_url, or unset redisbeater_redis_use_ssl",
        ),
        ({"timezone": "Europe/Wien"}, "timezone = 'Europe/Wien': expected an IANA name such as 'Europe/Vienna'"),
        ({"timezone": 5}, "timezone: unknown time zone 5; expected an IANA name such as 'Europe/Vienna'"),
        ({"redisbeater_task_options": "once"}, "redisbeater_task_options = 'once': expected a list of names"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_a_wrong_setting_is_named(settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ImproperlyConfigured) as refused:
        Context.of(make_app(**settings))

    assert str(refused.value) == sentence


def test_a_store_says_which_app_has_no_redis() -> None:
    app = Celery("shop", broker="amqp://", set_as_current=False)

    with pytest.raises(ImproperlyConfigured) as refused:
        ScheduleStore(app).count()

    assert repr(ScheduleStore(app)) == "<ScheduleStore of the app 'shop'>"
    assert str(refused.value) == (
        "redisbeater_redis_url is not set, and the broker (amqp) of the app 'shop' is not a Redis that could keep the "
        "schedule; set redisbeater_redis_url = 'redis://host:6379/0'"
    )


@pytest.mark.parametrize("app", ["proj", "redis://:secret@localhost", APP.conf, object], ids=type)
def test_what_is_no_app_is_refused_and_not_shown(app: Any) -> None:
    calls: list[Callable[[], object]] = [
        ScheduleStore(app).count,
        ScheduleStore(app, prefix="{eu}:").count,
        RedisScheduleEntry("a", "proj.work", 60, app=app).save,
        lambda: FakeClock(app, NEW_YEAR),
    ]
    for call in calls:
        with pytest.raises(TypeError, match=f"^app: expected a Celery app, got {type(app).__name__}$"):
            call()


def test_a_store_without_an_app_says_how_to_pass_one() -> None:
    app = Celery("default", set_as_current=False, loader="celery.loaders.default:Loader")  # as Celery makes it itself

    with pytest.raises(ImproperlyConfigured) as refused:
        ScheduleStore(app).count()

    assert str(refused.value).endswith(
        "of Celery's own default app is not a Redis that could keep the schedule; pass your app: celery -A proj ... on "
        "the command line, ScheduleStore(app) in a program"
    )


def test_the_headers_that_celery_takes_for_its_own_are_known() -> None:
    message = APP.amqp.as_task_v2("id", "proj.work")
    fields = {name for name in vars(Request) if not name.startswith("__")}

    assert {name for name in {*message.headers, *fields, "compression"} if owner_of_header(name) != "Celery"} == set()
    assert owner_of_header("tenant") == ""
