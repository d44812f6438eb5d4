"""``redisbeater.testing``: what applications use in their own tests, on an embedded server."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

import pytest
import redis
from celery import Celery
from celery.schedules import crontab
from support.pages import block_with

from redisbeater import InvalidEntry, RedisScheduleEntry, ScheduleStore, cron, rrule
from redisbeater.context import Context
from redisbeater.testing import (
    FakeClock,
    assert_not_lost,
    assert_runs_at,
    assert_scheduled,
    embedded_server,
    own_schedule,
    run_due,
    schedule,
)

pytest_plugins = ["pytester"]

UTC = timezone.utc

#: The night in which Vienna's clocks skip the hour from two to three.
SPRING = "2026-03-29 01:59"


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with embedded_server() as url:
        yield url


@pytest.fixture
def app(url: str) -> Iterator[Celery]:
    app = Celery("proj", broker="amqp://nowhere.invalid", set_as_current=False)
    app.conf.update(timezone="Europe/Vienna", redisbeater_redis_url="redis://nowhere.invalid:1/0")

    @app.task(name="proj.work", shared=False)
    def work(number: int = 0) -> int:
        return number + 1

    with own_schedule(app, url):
        yield app


# run_due and the clock


def test_what_is_due_at_a_time_is_sent_once(app: Celery) -> None:
    with FakeClock(app, "2026-05-01 08:59") as clock:
        ScheduleStore(app).create("report", "proj.work", crontab(hour=9, minute=0), args=[7])
        assert run_due(app) == []
        clock.advance(minutes=1)
        [run] = run_due(app)
        assert run_due(app) == []

    assert (run.name, run.task, run.args, run.kwargs) == ("report", "proj.work", [7], {})
    assert run.fire_time == datetime(2026, 5, 1, 7, 0, tzinfo=UTC)
    assert run.options["headers"]["scheduled_for"] == "2026-05-01T07:00:00+00:00"
    assert (run.id, run.result) == (run.options["task_id"], None)


def test_the_fire_time_that_the_clocks_skip_is_moved(app: Celery) -> None:
    with FakeClock(app, SPRING) as clock:
        ScheduleStore(app).create("report", "proj.work", cron("30 2 * * *"))
        clock.move_to("2026-03-29 03:00")
        [run] = run_due(app)

    assert run.fire_time == datetime(2026, 3, 29, 1, 0, tzinfo=UTC)


def test_a_time_may_be_passed_without_a_clock(app: Celery) -> None:
    entry = RedisScheduleEntry("report", "proj.work", 3600.0, app=app).save()
    assert entry.due_at is not None

    assert [run.name for run in run_due(app, at=entry.due_at)] == ["report"]
    assert run_due(app) == []


def test_policies_decide_what_runs_after_a_long_time(app: Celery) -> None:
    with FakeClock(app, "2026-05-01 00:00") as clock:
        store = ScheduleStore(app)
        store.create("latest", "proj.work", 3600.0)
        store.create("all", "proj.work", 3600.0, coalesce="all")
        store.create("missed", "proj.work", crontab(hour=3, minute=0), misfire_grace_time=60)
        clock.advance(hours=5)
        runs = run_due(app)

    assert sorted(run.name for run in runs) == ["all"] * 5 + ["latest"]
    assert ScheduleStore(app).get("missed").skipped["missed"].count == 1


@pytest.mark.parametrize(("argument", "state"), [(1, "SUCCESS"), ("no number", "FAILURE")])
def test_a_run_that_was_executed_has_ended_for_overlap(app: Celery, argument: object, state: str) -> None:
    app.conf.redisbeater_track_runs = True
    with FakeClock(app, "2026-05-01 09:00") as clock:
        ScheduleStore(app).create("report", "proj.work", 60, args=[argument], overlap="skip")
        sent = []
        for execute in (True, True, False, False):
            clock.advance(minutes=1)
            sent += [run_due(app, execute=execute)]

    assert [len(runs) for runs in sent] == [1, 1, 1, 0]
    assert ScheduleStore(app).runs.get(sent[0][0].id).state == state


def test_servers_that_start_at_once_have_ports_of_their_own() -> None:
    def serve() -> str:
        together.wait(60)
        with embedded_server() as url:
            together.wait(60)
            return url

    together = threading.Barrier(3)
    with ThreadPoolExecutor(3) as pool:
        urls = {begun.result() for begun in [pool.submit(serve) for _ in range(3)]}

    assert len(urls) == 3


def test_a_port_that_another_program_takes_meanwhile_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    free_port = schedule.free_port
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        taken = [other.getsockname()[1]]
        monkeypatch.setattr(schedule, "free_port", lambda: taken.pop() if taken else free_port())
        with embedded_server() as url:
            assert redis.Redis.from_url(url).ping()
            assert not taken
            assert not url.endswith(f":{other.getsockname()[1]}/0")


def test_tasks_are_executed_if_asked(app: Celery) -> None:
    with FakeClock(app, "2026-05-01 00:00") as clock:
        RedisScheduleEntry("report", "proj.work", 60.0, args=[41], app=app).save()
        RedisScheduleEntry("wrong", "proj.work", 60.0, args=["x"], app=app).save()
        clock.advance(timedelta(minutes=1))
        runs = {run.name: run for run in run_due(app, execute=True)}

    assert runs["report"].result is not None
    assert (runs["report"].result.get(), runs["report"].result.id) == (42, runs["report"].id)
    with pytest.raises(TypeError):
        runs["wrong"].result.get()  # type: ignore[union-attr]


def test_declarations_are_stored_first(app: Celery) -> None:
    app.conf.beat_schedule = {"nightly": {"task": "proj.work", "schedule": crontab(hour=3, minute=0)}}
    with FakeClock(app, "2026-05-01 02:00") as clock:
        assert run_due(app) == []
        clock.advance(hours=1)
        assert [run.name for run in run_due(app)] == ["nightly"]


def test_a_paused_schedule_runs_nothing(app: Celery) -> None:
    with FakeClock(app, "2026-05-01 00:00") as clock:
        store = ScheduleStore(app)
        store.create("report", "proj.work", 60)
        clock.advance(minutes=1)
        store.pause()
        assert run_due(app) == []
        store.resume()
        assert len(run_due(app)) == 1


@pytest.mark.parametrize("end", [timedelta(hours=1), timedelta(hours=-1)], ids=["to-come", "passed"])
def test_an_edit_that_ends_an_entry_before_its_next_fire_time_runs_nothing(app: Celery, end: timedelta) -> None:
    store = ScheduleStore(app)
    with FakeClock(app, "2026-05-01 12:00:00.5") as clock:
        store.create("report", "proj.work", crontab(hour=9, minute=0), on_finish="delete")
        ended = store.update("report", end_at=clock.now + end)
        assert (ended.due_at, list(store.upcoming("report"))) == (None, [])
        assert run_due(app) == []
        clock.advance(hours=1, seconds=1)
        assert run_due(app) == []
        assert store.count() == 0


def test_a_report_of_the_last_execution_before_the_end_runs_nothing(app: Celery) -> None:
    store = ScheduleStore(app)
    with FakeClock(app, "2026-05-01 12:00:00.5") as clock:
        end = clock.now + timedelta(minutes=90)
        store.create("poll", "proj.work", 3600, end_at=end, on_finish="disable")
        clock.advance(hours=1)
        assert [run.name for run in run_due(app)] == ["poll"]
        clock.advance(minutes=1)
        assert store.record_execution("poll").due_at is None
        assert run_due(app) == []
        clock.move_to(end + timedelta(seconds=1))
        assert run_due(app) == []
        assert store.get("poll").enabled is False


def test_a_pause_ends_by_the_clock(app: Celery) -> None:
    store = ScheduleStore(app)
    with FakeClock(app, "2026-05-01 12:00") as clock:
        store.create("poll", "proj.work", 60)
        with pytest.raises(InvalidEntry, match=r"^\$\.until: .* is out of range"):
            store.pause(until=datetime(9999, 12, 31, 23, tzinfo=ZoneInfo("America/New_York")))
        store.pause(until=timedelta(hours=2))
        clock.advance(hours=1)
        assert run_due(app) == []
        assert store.paused()
        assert store.paused().until
        assert abs(store.paused().until - clock.now - timedelta(hours=1)) < timedelta(minutes=5)
        clock.advance(hours=1)
        assert [run.name for run in run_due(app)] == ["poll"]
        assert store.paused() is None


def test_a_clock_goes_on_when_its_block_has_ended_and_never_goes_back(app: Celery) -> None:
    with FakeClock(app, "2030-01-01") as clock:
        with FakeClock(app, "2031-01-01"):
            assert Context.of(app).redis.clock()[0] == datetime(2030, 12, 31, 23, 0, tzinfo=UTC)
        assert Context.of(app).redis.clock()[0] == clock.now
        with pytest.raises(ValueError, match="lies before"):
            clock.move_to("2029-01-01")

    assert abs(Context.of(app).redis.clock()[0] - datetime.now(UTC)) < timedelta(minutes=5)


def test_a_time_is_iso_text_as_any_python_reads_it_or_a_datetime(app: Celery) -> None:
    assert FakeClock(app, "2026-05-01T09:00:00Z").now == datetime(2026, 5, 1, 9, 0, tzinfo=UTC)
    for at in ("tomorrow", 5, datetime(2026, 5, 1).date()):
        with pytest.raises(ValueError, match=r"^at: expected a datetime or an ISO 8601 text, got "):
            run_due(app, at)  # type: ignore[arg-type]


def test_an_entry_that_is_enabled_again_at_the_same_time_is_due_as_before(app: Celery) -> None:
    store = ScheduleStore(app)
    with FakeClock(app, "2026-05-01 12:00") as clock:
        first = store.create("poll", "proj.work", 60).due_at
        store.disable("poll", until=timedelta(hours=1))
        assert store.enable("poll").due_at == first == clock.now + timedelta(minutes=1)


def test_a_clock_is_advanced_by_a_timedelta_or_by_units(app: Celery) -> None:
    clock = FakeClock(app, "2026-05-01 08:00")

    assert clock.advance(timedelta(hours=1), minutes=30) == datetime(2026, 5, 1, 7, 30, tzinfo=UTC)
    with pytest.raises(TypeError, match="amount: expected a timedelta, got 60; for seconds use seconds="):
        clock.advance(60)  # type: ignore[arg-type]


# Assertions


def test_an_entry_is_found_by_its_task_and_its_schedule(app: Celery) -> None:
    ScheduleStore(app).create("report", "proj.work", crontab(hour=9, minute=0), timezone="America/New_York")
    ScheduleStore(app).create("poll", "proj.poll", 90)

    assert assert_scheduled(app, app.tasks["proj.work"], cron="0 9 * * *", timezone="America/New_York").name == "report"
    assert assert_scheduled(app, "proj.poll", every=timedelta(seconds=90), timezone="Europe/Vienna").name == "poll"
    assert assert_scheduled(app, "proj.poll", every=90, timezone=ZoneInfo("Europe/Vienna")).name == "poll"


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ({"every": "90"}, "expected seconds, a timedelta or a schedule, got '90'; for an interval pass the number 90"),
        ({"timezone": "Europe/Wien"}, "timezone: unknown time zone 'Europe/Wien'.*did you mean 'Europe/Vienna'"),
        ({"task": None}, "task: expected a task or its name, got None"),
    ],
)
def test_a_wrong_argument_is_no_missing_schedule(app: Celery, wanted: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidEntry, match=message):
        assert_scheduled(app, **{"task": "proj.poll", **wanted})


@pytest.mark.parametrize("times", ["2026-05-01 09:00", datetime(2026, 5, 1, 9, 0), []], ids=str)
def test_the_times_of_an_entry_are_a_list(app: Celery, times: Any) -> None:
    with pytest.raises(ValueError, match="times: expected a list of at least one time, got "):
        assert_runs_at(RedisScheduleEntry("poll", "proj.poll", 60, app=app), times)


def test_an_entry_is_found_by_a_text_whose_numbers_its_name_decides(app: Celery) -> None:
    ScheduleStore(app).create("report", "proj.work", cron("H H * * *"))

    assert assert_scheduled(app, "proj.work", cron="H H * * *").name == "report"
    with pytest.raises(AssertionError, match=r'proj.work is not scheduled "H 4 .*: .report. runs at '):
        assert_scheduled(app, "proj.work", cron="H 4 * * *")


def test_the_zone_of_a_rule_is_its_own(app: Celery) -> None:
    rule = rrule("FREQ=DAILY", dtstart=datetime(2026, 1, 1, 9), timezone="America/New_York")
    ScheduleStore(app).create("report", "proj.work", rule)

    assert assert_scheduled(app, "proj.work", timezone="America/New_York").name == "report"
    with pytest.raises(AssertionError, match="not scheduled in Europe/Vienna"):
        assert_scheduled(app, "proj.work", timezone="Europe/Vienna")


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ({"every": 60}, r"proj.work is not scheduled every minute: 'report' runs at 09:00.*, and is disabled"),
        ({"cron": "0 9 * * *"}, "'report' runs at 09:00.*, and is disabled"),
        ({"cron": "0 10 * * *", "timezone": "Asia/Tokyo"}, "is not scheduled at 10:00.* in Asia/Tokyo"),
    ],
)
def test_what_is_not_scheduled_is_said_with_what_is(app: Celery, wanted: dict[str, object], message: str) -> None:
    ScheduleStore(app).create("report", "proj.work", crontab(hour=9, minute=0), enabled=False)

    with pytest.raises(AssertionError, match=message):
        assert_scheduled(app, "proj.work", **wanted)  # type: ignore[arg-type]


def test_the_fire_times_of_an_entry_are_compared_without_redis() -> None:
    lone = Celery("lone", broker="memory://", set_as_current=False)
    lone.conf.update(redisbeater_redis_url="redis://nowhere.invalid:1/0", timezone="Europe/Vienna")
    entry = RedisScheduleEntry("report", "proj.work", crontab(hour=9, minute=0, day_of_week="mon-fri"), app=lone)
    every_hour = RedisScheduleEntry("poll", "proj.work", 3600.0, app=lone)

    assert_runs_at(entry, ["2026-05-01 09:00", "2026-05-04 09:00", datetime(2026, 5, 5, 7, 0, tzinfo=UTC)])
    assert_runs_at(every_hour, ["2026-10-25 01:30", "2026-10-25T02:30+02:00", "2026-10-25T02:30+01:00"])
    with pytest.raises(
        AssertionError, match=r"report runs at 2026-05-01T09:00:00\+02:00, 2026-05-04T09.*, not at 2026"
    ):
        assert_runs_at(entry, ["2026-05-01 09:00", "2026-05-02 09:00"])


def test_the_fire_times_of_an_interval_with_a_start_are_on_its_grid() -> None:
    lone = Celery("lone", broker="memory://", set_as_current=False)
    lone.conf.update(redisbeater_redis_url="redis://nowhere.invalid:1/0")
    entry = RedisScheduleEntry("poll", "proj.work", 3600.0, start_at=datetime(2026, 5, 1, 10, 0), app=lone)

    assert_runs_at(entry, ["2026-05-01 10:00", "2026-05-01 11:00"])
    assert_runs_at(entry, ["2026-05-02 12:00", "2026-05-02 13:00"])
    with pytest.raises(AssertionError, match=r"poll runs at 2026-05-02T13:00:00\+00:00, not at 2026-05-02T12:30"):
        assert_runs_at(entry, ["2026-05-02 12:30"])


def test_fire_times_that_are_left_out_are_none_at_which_an_entry_runs() -> None:
    lone = Celery("lone", broker="memory://", set_as_current=False)
    lone.conf.update(redisbeater_redis_url="redis://nowhere.invalid:1/0")
    at_nine, fields = crontab(hour=9, minute=0), {"task": "proj.work", "app": lone}
    skipping = RedisScheduleEntry("a", schedule=at_nine, skip=["2026-05-02T09:00+00:00"], **fields)
    paused = RedisScheduleEntry("b", schedule=at_nine, disabled_until=datetime(2026, 5, 3), **fields)
    disabled = RedisScheduleEntry("c", schedule=at_nine, enabled=False, **fields)

    assert_runs_at(skipping, ["2026-05-01 09:00", "2026-05-03 09:00"])
    for entry, message in ((paused, "b runs at 2026-05-03T09:00"), (disabled, "c runs at no time")):
        with pytest.raises(AssertionError, match=message):
            assert_runs_at(entry, ["2026-05-01 09:00"])


def test_nothing_is_lost_once_what_is_due_was_run(app: Celery) -> None:
    with FakeClock(app, "2026-05-01 00:00") as clock:
        RedisScheduleEntry("report", "proj.work", 60.0, app=app).save()
        assert_not_lost(app)
        clock.advance(minutes=1)
        with pytest.raises(AssertionError, match="'report' was due at 2026-04-30T22:01:00"):
            assert_not_lost(app)
        run_due(app)
        assert_not_lost(app)


def test_broken_entries_and_those_missing_from_the_schedule_are_lost(app: Celery, url: str) -> None:
    import redis

    prefix = Context.of(app).redis.keys.prefix
    with redis.Redis.from_url(url) as client:
        definition = '{"name": "orphan", "task": "t", "schedule": {"__type__": "interval", "every": 60}}'
        client.hset(f"{prefix}orphan", "definition", definition)
        client.hset(f"{prefix}bad", "definition", "{}")
        client.zadd(f"{prefix}:schedule", {f"{prefix}bad": 1})
    run_due(app)

    with pytest.raises(AssertionError, match=r"'bad' is broken: .*; 'orphan' is missing from the schedule"):
        assert_not_lost(app)


# The schedule of an app, and the fixtures


def test_an_app_has_an_empty_schedule_of_its_own_and_its_settings_back(url: str) -> None:
    import redis

    app = Celery("proj", broker="memory://", set_as_current=False)
    app.conf.redisbeater_redis_url = "redis://nowhere.invalid:1/0"
    with own_schedule(app, url) as first:
        ScheduleStore(app).create("report", "proj.work", 60)
        with own_schedule(app, url) as second:
            assert list(ScheduleStore(app).names()) == []
        assert list(ScheduleStore(app).names()) == ["report"]

    assert first != second
    assert app.conf.redisbeater_redis_url == "redis://nowhere.invalid:1/0"
    assert "redisbeater_key_prefix" not in app.conf
    with redis.Redis.from_url(url) as client:
        assert [key for key in client.scan_iter() if first.encode() in key or second.encode() in key] == []


def test_the_fixtures_are_there_where_a_conftest_asks_for_them(
    pytester: pytest.Pytester, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REDISBEATER_TESTING_REDIS_URL", url)
    pytester.makeconftest('pytest_plugins = ["redisbeater.testing.pytest_plugin"]')
    pytester.makepyfile(
        """
        import pytest
        from redisbeater import ScheduleStore
        from redisbeater.testing import assert_scheduled

        @pytest.mark.parametrize("number", range(2))
        def test_each_test_has_an_empty_schedule(redisbeater_app, number):
            ScheduleStore(redisbeater_app).create("report", "proj.work", 60)
            assert_scheduled(redisbeater_app, "proj.work", every=60)
        """
    )

    pytester.runpytest("-p", "no:xdist", "-p", "no:valkey").assert_outcomes(passed=2)


#: The application that the page on testing is about.
PROJ = block_with("testing.rst", "def remind_everybody")


def test_the_tests_on_the_page_about_testing_pass(
    pytester: pytest.Pytester, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REDISBEATER_TESTING_REDIS_URL", url)
    pytester.makeconftest(block_with("testing.rst", "pytest_plugins"))
    pytester.makepyfile(proj=PROJ, test_page=block_with("testing.rst", "FakeClock("))

    pytester.runpytest("-p", "no:xdist", "-p", "no:valkey").assert_outcomes(passed=3)


def test_the_page_about_testing_works_with_unittest(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(proj=PROJ, test_page=block_with("testing.rst", "unittest.TestCase"))

    pytester.runpytest("-p", "no:xdist", "-p", "no:valkey").assert_outcomes(passed=1)


def test_the_fixtures_are_not_there_by_themselves(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_it(redisbeater_app): ...")

    result = pytester.runpytest("-p", "no:xdist", "-p", "no:valkey")

    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*fixture 'redisbeater_app' not found"])
