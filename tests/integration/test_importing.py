"""Schedules of RedBeat, django-celery-beat and an app's own, moved over; their engines are the installed packages."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from types import SimpleNamespace
from typing import Any
from zoneinfo import ZoneInfo

import celery.utils.time
import pytest
import redis
from celery import Celery
from celery.beat import Service
from celery.schedules import crontab, schedule, solar
from celery.signals import beat_init
from click.testing import CliRunner, Result
from django.test import override_settings
from redbeat import RedBeatSchedulerEntry
from redbeat.schedules import rrule as redbeat_rrule
from support import django_project
from support.definitions import definition_of
from support.servers import Server

from redisbeater import RedisScheduleEntry, ScheduleStore, clocked
from redisbeater.cli import redisbeater
from redisbeater.context import Context
from redisbeater.management.migration.candidate import Candidate
from redisbeater.management.migration.comparison import Comparisons, compared
from redisbeater.management.migration.django_source import DjangoSource
from redisbeater.management.migration.importing import Import
from redisbeater.management.migration.redbeat_source import RedBeatSource
from redisbeater.model.passed_values import checked_meta

UTC = timezone.utc
NEW_YORK = ZoneInfo("America/New_York")

#: Before both changes of the clocks of a year, on a whole minute.
AUTUMN = datetime(2026, 10, 31, 16, tzinfo=UTC)
#: Fire times of a year, by the first word of a name.
OF_A_YEAR = {"daily": 366, "weekly": 53, "rule": 53, "days": 60, "sun": 20, "once": 1, "ticker": 1000}

YEAR_AGO = datetime(2026, 2, 1, 9, tzinfo=UTC)


#: Of entries whose every fire time is the same, or is different for one known reason. Celery 5.5 computes local times
#: without the clock changes between them, so that more of its own fire times are moved, each with its reason.
with_the_newest_engine = pytest.mark.skipif(
    not hasattr(celery.utils.time, "add_seconds_to_datetime"), reason="this Celery moves more of its fire times"
)


@pytest.fixture
def app(make_app: Callable[..., Celery], server: Server, client: redis.Redis, prefix: str) -> Iterator[Celery]:
    """An app in New York, whose RedBeat has another prefix."""
    yield make_app(
        timezone="America/New_York",
        result_expires=None,
        redbeat_redis_url=server.url(),
        redbeat_key_prefix=f"{prefix}old:",
        redbeat_redis_options={},
    )
    client.delete(*client.keys(f"{prefix}old:*"), "none")


@pytest.fixture
def run(app: Celery) -> Callable[..., Result]:
    def run(*arguments: str) -> Result:
        return CliRunner().invoke(redisbeater, ["import", *arguments], obj=SimpleNamespace(app=app))

    return run


def save(app: Celery, name: str, when: Any, **fields: Any) -> RedBeatSchedulerEntry:
    entry = RedBeatSchedulerEntry(name, "proj.job", when, app=app, **fields)
    return entry.save()


@pytest.fixture
def tasks() -> Any:
    """The table of periodic tasks, empty."""
    django_project.set_up()
    from django_celery_beat import models

    for model in (models.PeriodicTask, models.SolarSchedule):
        model.objects.all().delete()
    return models


def cron_row(models: Any, zone: str = "UTC", **fields: str) -> Any:
    all_fields = {"minute": "*", "hour": "*", **fields}
    return models.CrontabSchedule.objects.create(timezone=ZoneInfo(zone), **all_fields)


def task(models: Any, name: str, **fields: Any) -> Any:
    return models.PeriodicTask.objects.create(name=name, task="proj.job", **fields)


def reasons(work: Import) -> dict[str, list[str]]:
    """What is different in a year, by name; entries without a difference are left out."""
    found = {
        entry.name: compared(entry.candidate, AUTUMN, NEW_YORK, OF_A_YEAR[entry.name.split()[0]])
        for entry in work.of_state("new")
    }
    assert not [name for name, each in found.items() if each.problem], found
    return {name: [str(each) for each in found[name].differences] for name in found if found[name].differences}


# Comparing


def test_entries_of_one_schedule_are_compared_once(app: Celery) -> None:
    looks: list[str] = []

    def candidate(name: str, when: Any, key: str = "same", **fields: Any) -> Candidate:
        entry = RedisScheduleEntry(name, "proj.job", when, app=app, **fields)

        def engine(after: datetime) -> Iterator[datetime]:
            looks.append(name)
            return iter(definition_of(entry).timetable(NEW_YORK).between(after, after + timedelta(days=2000)))

        return Candidate(
            name=name,
            definition=definition_of(entry),
            meta=checked_meta(entry.last_run_at, entry.total_run_count, lambda: NEW_YORK),
            engine=engine,
            engine_key=key,
        )

    ran_at = AUTUMN - timedelta(seconds=90)
    candidates = [
        *(candidate(f"nine {each}", crontab(0, 9), args=[each]) for each in range(5)),
        *(candidate(f"tick {each}", 60, last_run_at=ran_at - timedelta(hours=each)) for each in range(3)),
        candidate("other phase", 60, last_run_at=ran_at - timedelta(seconds=7)),
        candidate("vienna", crontab(0, 9), timezone="Europe/Vienna"),
        candidate("three", crontab(0, 9), max_runs=3),
        candidate("ends", crontab(0, 9), end_at=AUTUMN + timedelta(days=9)),
        candidate("old rule", crontab(0, 9), key="other"),
        *(candidate(f"unknown {each}", crontab(0, 9), key="") for each in range(2)),
    ]
    compare = Comparisons(AUTUMN, NEW_YORK, Context.of(app).codec, limit=20)

    found = {each.name: compare(each) for each in candidates}

    looked = ["nine 0", "tick 0", "other phase", "vienna", "three", "ends", "old rule", "unknown 0", "unknown 1"]
    assert looks == looked
    assert found == {each.name: compared(each, AUTUMN, NEW_YORK, 20) for each in candidates}
    assert found["nine 4"].compared == 20


# Moving over


def test_a_schedule_of_redbeat_moves_with_its_counters(
    app: Celery, run: Callable[..., Result], client: redis.Redis, prefix: str
) -> None:
    save(app, "report", crontab(0, 9, day_of_week="1-5"), args=[1], kwargs={"pages": 3}, options={"queue": "slow"})
    save(app, "off", 30.0, enabled=False)
    entry = save(app, "ticker", 60.0)
    ran_at = datetime.now(UTC).replace(microsecond=0)
    entry.reschedule(ran_at)
    save(app, "ours", 60.0)
    client.sadd(f"{prefix}old::statics", "ours")

    result = run("redbeat", "--yes")

    assert result.exit_code == 0, result.output
    store = ScheduleStore(app)
    assert sorted(store.names()) == ["off", "report", "ticker"]
    report = store.get("report")
    assert (report.args, report.kwargs, report.options) == ([1], {"pages": 3}, {"queue": "slow"})
    assert store.get("ticker").last_run_at == ran_at
    assert store.get("ticker").due_at == ran_at + timedelta(minutes=1)
    assert not store.get("off").enabled
    assert "left out: static" in result.stdout
    assert "3 imported, 1 left out\nto undo: celery -A proj redisbeater delete -- off report ticker\n" in result.stdout
    assert store.log("report")[0].details["note"] == "imported from redbeat"


def test_a_schedule_whose_prefix_ends_with_no_colon_moves(
    app: Celery, run: Callable[..., Result], client: redis.Redis, prefix: str
) -> None:
    """RedBeat takes such a prefix, and redisbeater does not."""
    app.conf.redbeat_key_prefix = f"{prefix}old"
    entry = save(app, "report", 60.0)
    assert entry.key == f"{prefix}oldreport"

    result = run("redbeat", "--yes", "--disable-source")

    assert result.exit_code == 0, result.output
    assert list(ScheduleStore(app).names()) == ["report"]
    assert client.zscore(f"{prefix}old:schedule", entry.key) < 0


def test_the_line_that_undoes_an_import_deletes_what_was_imported_and_nothing_else(
    app: Celery, prefix: str, client: redis.Redis
) -> None:
    def run(*words: str) -> Result:
        result = CliRunner().invoke(redisbeater, words, obj=SimpleNamespace(app=app))
        assert result.exit_code == 0, result.output
        return result

    save(app, "--all", 60.0)
    RedisScheduleEntry("--all", "proj.mine", 5, app=app).save()

    undo = run("--key-prefix", f"{prefix}2:", "import", "redbeat").stdout.partition("to undo: celery -A proj ")[2]
    there = ScheduleStore(app, key_prefix=f"{prefix}2:")
    imported = list(there.names())
    run(*shlex.split(undo)[1:])
    left = [list(there.names()), list(ScheduleStore(app).names())]
    client.delete(*client.keys(f"{prefix}2:*"))

    assert (imported, left) == (["--all"], [[], ["--all"]])


def test_the_lines_that_undo_an_import_name_all_entries_however_many(app: Celery, run: Callable[..., Result]) -> None:
    names = [f"of {number:02}" for number in range(21)]
    for name in names:
        save(app, name, 60.0)

    text = run("redbeat", "--yes").stdout
    assert all(each.error is None for each in ScheduleStore(app).delete_many(names))
    undo = json.loads(run("redbeat", "--yes", "--disable-source", "--json").stdout)["undo"]

    assert text.endswith(f"to undo: {shlex.join(['celery', '-A', 'proj', 'redisbeater', 'delete', '--', *names])}\n")
    assert [shlex.split(line)[-21:] for line in undo] == [names, names]


def test_a_password_is_not_printed_in_the_lines_that_undo_an_import(app: Celery, server: Server) -> None:
    url = server.url().replace("://", "://default:secret@")

    assert RedBeatSource(app, url, "old:").place == ["--from", server.url(), "--prefix", "old:"]
    assert RedBeatSource(app, f"{server.url()}?password=secret").place == ["--from", server.url()]
    assert RedBeatSource(app, f"{server.url()}?db=2").place == ["--from", f"{server.url()}?db=2"]


def test_only_what_is_disabled_at_the_source_is_enabled_there(
    app: Celery, run: Callable[..., Result], tasks: Any
) -> None:
    minutes = tasks.IntervalSchedule.objects.create(every=5, period="minutes")
    for name, is_enabled in (("off", False), ("on", True), ("other", False)):
        task(tasks, name, interval=minutes, enabled=is_enabled)

    result = run("django-celery-beat", "--enable-source", "--", "off", "on", "gone")

    assert (result.exit_code, result.stdout) == (2, "1 enabled in django-celery-beat\n")
    assert result.stderr == "Error: not disabled in django-celery-beat, or not there: on, gone\n"
    assert set(tasks.PeriodicTask.objects.filter(enabled=True).values_list("name", flat=True)) == {"off", "on"}
    assert ScheduleStore(app).count() == 0


def test_what_was_enabled_at_the_source_is_printed_as_json(app: Celery, run: Callable[..., Result]) -> None:
    save(app, "off", 60.0, enabled=False)

    result = run("redbeat", "--enable-source", "--json", "off")

    assert json.loads(result.stdout) == {"source": "redbeat", "enabled": ["off"]}


@pytest.mark.parametrize("words", [["--enable-source"], ["--yes", "a"]], ids=["without names", "without the option"])
def test_names_belong_to_enabling_at_the_source_alone(run: Callable[..., Result], words: list[str]) -> None:
    result = run("redbeat", *words)

    assert result.exit_code == 2
    assert result.stderr == "Error: --enable-source needs the names of entries, and an import takes none\n"


def test_enabling_at_the_source_is_no_dry_run(
    app: Celery, run: Callable[..., Result], client: redis.Redis, prefix: str
) -> None:
    save(app, "off", 60.0, enabled=False)

    result = run("redbeat", "--enable-source", "--dry-run", "off")

    assert result.stderr == "Error: --enable-source goes with neither --dry-run nor --disable-source\n"
    assert not RedBeatSchedulerEntry.from_key(f"{prefix}old:off", app=app).enabled


def test_the_log_of_each_entry_says_who_imported_it_and_why(app: Celery, run: Callable[..., Result]) -> None:
    save(app, "report", 60.0)

    result = run("redbeat", "--by", "anna", "--note", "RedBeat is switched off on Monday")

    assert result.exit_code == 0, result.output
    details = ScheduleStore(app).log("report")[0].details
    assert (details["by"], details["note"]) == ("anna", "RedBeat is switched off on Monday")


@with_the_newest_engine
def test_a_dry_run_writes_nothing_and_is_drawn_as_a_table(app: Celery, run: Callable[..., Result]) -> None:
    save(app, "report", crontab(0, 9, day_of_week="1-5"))
    save(app, "ticker", 10.0)

    result = run("redbeat", "--dry-run")

    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines() == [
        "report  0 9 * * 1-5       next 1,000 fire times: the same",
        "ticker  every 10 seconds  next 1,000 fire times: the same",
        "2 to import",
    ]
    assert ScheduleStore(app).count() == 0


def test_redbeat_no_longer_looks_at_entries_that_are_disabled_there(
    app: Celery, run: Callable[..., Result], client: redis.Redis, prefix: str
) -> None:
    save(app, "a", 60.0)

    result = run("redbeat", "--yes", "--disable-source")

    assert result.exit_code == 0, result.output
    assert client.zscore(f"{prefix}old::schedule", f"{prefix}old:a") < 0
    assert not RedBeatSchedulerEntry.from_key(f"{prefix}old:a", app=app).enabled
    assert ScheduleStore(app).get("a").enabled


def test_an_entry_of_redbeat_that_was_disabled_before_the_import_is_left_as_it_is(
    app: Celery, run: Callable[..., Result], client: redis.Redis, prefix: str
) -> None:
    save(app, "a", 60.0)
    save(app, "off", 60.0, enabled=False)
    before = (client.hgetall(f"{prefix}old:off"), client.zscore(f"{prefix}old::schedule", f"{prefix}old:off"))

    result = run("redbeat", "--yes", "--disable-source")

    assert result.stdout.splitlines()[-2:] == [
        "to undo: celery -A proj redisbeater delete -- a off",
        "then: celery -A proj redisbeater import redbeat --enable-source -- a",
    ]
    assert before == (client.hgetall(f"{prefix}old:off"), client.zscore(f"{prefix}old::schedule", f"{prefix}old:off"))


def test_an_entry_that_exists_is_refused_or_skipped(app: Celery, run: Callable[..., Result]) -> None:
    save(app, "a", 60.0)
    save(app, "b", 60.0)
    RedisScheduleEntry("a", "proj.mine", 5, app=app).save()

    refused, skipped = run("redbeat", "--yes"), run("redbeat", "--yes", "--skip-existing")

    assert refused.exit_code == 2
    advice = "--skip-existing keeps it; to import it again, delete it here first"
    assert f"refused: exists in the schedule; {advice}" in refused.stdout
    assert "1 imported, 1 refused" in refused.stdout
    assert (skipped.exit_code, skipped.stdout.splitlines()[-1]) == (0, "2 skipped")
    assert ScheduleStore(app).get("a").task == "proj.mine"


def test_several_entries_are_imported_only_after_a_yes(app: Celery, run: Callable[..., Result]) -> None:
    save(app, "a", 60.0)
    save(app, "b", 60.0)

    result = run("redbeat")

    assert result.exit_code == 2
    assert "this would import 2 entries: a, b; pass --yes to do it" in result.output
    assert ScheduleStore(app).count() == 0


def test_the_own_schedule_is_no_source(run: Callable[..., Result], prefix: str) -> None:
    result = run("redbeat", "--prefix", prefix)

    assert result.exit_code == 2
    assert "is this app's own: there is nothing to import" in result.output


def test_an_error_of_the_source_names_its_own_address_and_option(run: Callable[..., Result]) -> None:
    away = run("redbeat", "--from", "redis://127.0.0.1:1/3", "--dry-run")
    odd = run("redbeat", "--from", "127.0.0.1:6379", "--dry-run")

    assert (away.exit_code, odd.exit_code) == (1, 2)
    assert away.stderr.endswith(
        "; RedBeat's schedule is looked for in redis://127.0.0.1:1/3, by --from, else redbeat_redis_url, else "
        "redisbeater_redis_url\n"
    )
    assert away.stderr.count("is looked for") == 1
    assert odd.stderr.startswith("Error: --from has the scheme ")


def test_a_broken_entry_of_redbeat_is_refused_and_the_others_move(
    app: Celery, run: Callable[..., Result], client: redis.Redis, prefix: str
) -> None:
    save(app, "a", 60.0)
    client.hset(f"{prefix}old:odd", "definition", '{"task": 5}')
    client.zadd(f"{prefix}old::schedule", {f"{prefix}old:odd": 1})

    result = run("redbeat", "--yes", "--json")

    data = {entry["name"]: entry for entry in json.loads(result.stdout)["entries"]}
    assert result.exit_code == 2
    assert (data["a"]["state"], data["odd"]["state"]) == ("imported", "refused")
    assert data["odd"]["reason"].startswith("$.")
    assert list(ScheduleStore(app).names()) == ["a"]


@with_the_newest_engine
def test_the_own_beat_schedule_becomes_dynamic(app: Celery, run: Callable[..., Result]) -> None:
    app.conf.beat_schedule = {
        "daily": {"task": "proj.job", "schedule": crontab(0, 9), "args": (1,)},
        "often": {"task": "proj.job", "schedule": 10.0},
        "odd": {"task": "proj.job", "speed": 10.0},
    }

    dry, result = run("beat-schedule", "--dry-run"), run("beat-schedule", "--yes")
    refused = run("beat-schedule", "--disable-source")

    assert "daily  0 9 * * *         next 1,000 fire times: the same" in dry.stdout
    assert (dry.exit_code, dry.stderr) == (2, "Error: 1 of 3 refused, for the reasons above\n")
    assert (result.exit_code, result.stderr) == (2, "Error: 1 of 3 refused, for the reasons above; 2 imported\n")
    assert sorted(ScheduleStore(app).names()) == ["daily", "often"]
    assert refused.exit_code == 2
    assert "--disable-source, --enable-source: beat_schedule stands in the code" in refused.output


# django-celery-beat


def test_all_columns_of_a_periodic_task_move(app: Celery, run: Callable[..., Result], tasks: Any) -> None:
    start, ran_at = datetime(2026, 1, 1, tzinfo=UTC), datetime.now(UTC).replace(microsecond=0) - timedelta(minutes=1)
    minutes = tasks.IntervalSchedule.objects.create(every=5, period="minutes")
    task(
        tasks, "all", interval=minutes, args="[1]", kwargs='{"a": 2}', queue="q", exchange="x", routing_key="r",
        priority=3, headers='{"h": 1}', expire_seconds=60, start_time=start, last_run_at=ran_at, total_run_count=7,
        description="for the board",
    )  # fmt: skip
    ends = datetime(2099, 1, 1, tzinfo=UTC)
    task(tasks, "ends", crontab=cron_row(tasks, "Europe/Vienna", minute="0", hour="9"), expires=ends, one_off=True)
    at = datetime(2098, 1, 1, tzinfo=UTC)
    task(tasks, "once", clocked=tasks.ClockedSchedule.objects.create(clocked_time=at), one_off=True, enabled=False)
    sun = tasks.SolarSchedule.objects.create(event="sunrise", latitude="48.2", longitude="16.37")
    task(tasks, "sun", solar=sun)
    task(tasks, "odd", interval=minutes, args="{")

    result = run("django-celery-beat", "--yes", "--disable-source")

    store = ScheduleStore(app)
    every, ending, once = store.get("all"), store.get("ends"), store.get("once")
    assert result.exit_code == 2
    assert "refused: $.args: is not JSON" in result.stdout
    assert sorted(store.names()) == ["all", "ends", "once", "sun"]
    assert (every.args, every.kwargs, every.start_at, every.description) == ([1], {"a": 2}, start, "for the board")
    assert every.options == {
        "queue": "q", "exchange": "x", "routing_key": "r", "priority": 3, "expires": 60,
        "headers": {"h": 1},
    }  # fmt: skip
    assert (every.last_run_at, every.total_run_count, every.due_at) == (ran_at, 7, ran_at + timedelta(minutes=5))
    assert (ending.timezone, ending.max_runs, ending.on_finish) == ("Europe/Vienna", 1, "disable")
    assert (ending.end_at, ending.options["expires"]) == (ends - timedelta(microseconds=1), ends)
    assert (once.schedule, once.enabled) == (clocked(at), False)
    assert isinstance(store.get("sun").schedule, solar)
    assert tasks.PeriodicTask.objects.filter(enabled=True).values_list("name", flat=True).get() == "odd"
    enable = "then: celery -A proj redisbeater import django-celery-beat --enable-source -- all ends sun"
    assert result.stdout.splitlines()[-1] == enable
    assert "still enabled in django-celery-beat, where only its own beat runs them: odd\n" in result.stdout


def test_what_is_refused_and_disabled_there_is_not_called_enabled(run: Callable[..., Result], tasks: Any) -> None:
    minutes = tasks.IntervalSchedule.objects.create(every=5, period="minutes")
    task(tasks, "good", interval=minutes)
    task(tasks, "odd", interval=minutes, args="{", enabled=False)
    task(tasks, "odder", interval=minutes, args="{")

    moved = json.loads(run("django-celery-beat", "--yes", "--disable-source", "--json").stdout)
    repeated = json.loads(run("django-celery-beat", "--yes", "--disable-source", "--json").stdout)

    assert moved["still_enabled"] == ["odder"]
    assert repeated["still_enabled"] == [], "nothing was imported, and nothing disabled"


def test_a_moved_row_says_so_until_it_is_enabled_again(app: Celery, run: Callable[..., Result], tasks: Any) -> None:
    minutes = tasks.IntervalSchedule.objects.create(every=5, period="minutes")
    texts = {"none": "", "some": "for the board"}
    for name, text in texts.items():
        task(tasks, name, interval=minutes, description=text)

    def descriptions() -> dict[str, str]:
        return dict(tasks.PeriodicTask.objects.values_list("name", "description"))

    run("django-celery-beat", "--yes", "--disable-source")
    moved = {name: text.strip() for name, text in descriptions().items()}
    for name, text in moved.items():
        tasks.PeriodicTask.objects.filter(name=name).update(description=text)  # as the form of the admin saves it
    for name in texts:
        ScheduleStore(app).delete(name)
    run("django-celery-beat", "--yes")
    imported = {name: ScheduleStore(app).get(name).description for name in texts}
    run("django-celery-beat", "--enable-source", "--", *texts)

    assert moved == {"none": "[moved to redisbeater]", "some": "[moved to redisbeater] for the board"}
    assert imported == texts
    assert descriptions() == texts


@pytest.mark.parametrize("has_settings", [True, False], ids=["with settings of ours", "without"])
def test_a_beat_of_django_whose_rows_were_moved_is_warned_of(
    app: Celery, run: Callable[..., Result], tasks: Any, caplog: pytest.LogCaptureFixture, has_settings: bool
) -> None:
    from django_celery_beat.schedulers import DatabaseScheduler

    minutes = tasks.IntervalSchedule.objects.create(every=5, period="minutes")
    for number in range(6):
        task(tasks, f"job {number}", interval=minutes)
    task(tasks, "off", interval=minutes, enabled=False)
    service = Service(app if has_settings else Celery("proj", set_as_current=False))
    service.scheduler = DatabaseScheduler(service.app, lazy=True)

    def lines() -> list[str]:
        caplog.clear()
        beat_init.send(sender=service)
        return [record.getMessage() for record in caplog.records if record.name.startswith("redisbeater")]

    before = lines()
    run("django-celery-beat", "--yes", "--disable-source")
    moved = lines()
    run("django-celery-beat", "--enable-source", "--", *(f"job {number}" for number in range(6)))
    undone = lines()

    assert moved == [
        "this beat runs django_celery_beat.schedulers.DatabaseScheduler, so no entry of redisbeater runs, nor do 6 "
        "tasks that were moved there and are disabled here: job 0, job 1, job 2, job 3, job 4, ...; write -S "
        "redisbeater, or for the beat of a worker --scheduler redisbeater"
    ]
    assert len(before) == len(undone) == has_settings, "the line of any other scheduler"


def test_a_beat_of_django_without_its_tables_is_not_warned_of(
    tasks: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from django_celery_beat.schedulers import DatabaseScheduler

    service = Service(Celery("proj", set_as_current=False))
    service.scheduler = DatabaseScheduler(service.app, lazy=True)
    monkeypatch.setattr(tasks.PeriodicTask._meta, "db_table", "gone")

    beat_init.send(sender=service)

    assert [record for record in caplog.records if record.name.startswith("redisbeater")] == []


def test_what_is_over_and_what_the_code_declares_is_left_out(
    app: Celery, run: Callable[..., Result], tasks: Any
) -> None:
    app.conf.beat_schedule = {"declared": {"task": "proj.job", "schedule": 60.0}}
    past = tasks.ClockedSchedule.objects.create(clocked_time=YEAR_AGO)
    task(tasks, "was", clocked=past, one_off=True, enabled=False)
    task(tasks, "expired", crontab=cron_row(tasks, minute="0"), expires=YEAR_AGO)
    task(tasks, "declared", crontab=cron_row(tasks, minute="0"))

    result = run("django-celery-beat", "--yes")

    assert result.exit_code == 0, result.output
    assert "left out: its only time, 2026-02-01T09:00:00+00:00, has passed" in result.stdout
    assert "left out: it expired at 2026-02-01T09:00:00+00:00" in result.stdout
    assert result.stdout.splitlines()[-1] == "3 left out"


# Fire times, by both engines


@with_the_newest_engine
def test_two_hundred_entries_of_redbeat_fire_as_before_but_for_the_shifts(app: Celery) -> None:
    start = datetime(2026, 1, 1, 9, tzinfo=UTC)
    for number in range(12):
        save(app, f"daily {number}", crontab(30, number % 6))
    for number in range(60):
        save(app, f"weekly {number}", crontab(number, number % 24, day_of_week=number % 7))
        save(app, f"days {number}", schedule(timedelta(hours=150 + number), relative=number % 5 == 4))
    for number in range(68):
        rule = redbeat_rrule("WEEKLY", dtstart=start, interval=1 + number % 3, byweekday=number % 7)
        save(app, f"rule {number}", rule)
    work = Import(app, RedBeatSource(app))
    work.read()

    found = reasons(work)

    assert len(work.of_state("new")) == 200
    assert found["daily 2"] == ["1 at another time: the old engine moves them around the skipped hour on 14 Mar 2027"]
    assert set(found) <= {f"{kind} {number}" for kind in ("daily", "weekly") for number in (1, 2, 7, 8, 25, 26, 50)}
    assert all("hour on" in reason for each in found.values() for reason in each)


@with_the_newest_engine
def test_two_hundred_periodic_tasks_fire_as_before_but_for_the_shifts(app: Celery, tasks: Any) -> None:
    rows = []

    def add(name: str, **fields: Any) -> None:
        rows.append(tasks.PeriodicTask(name=name, task="proj.job", **fields))

    for zone in ("America/New_York", "Europe/Vienna", "UTC"):
        for hour in range(4):
            add(f"daily {hour} {zone}", crontab=cron_row(tasks, zone, minute="30", hour=str(hour)))
        for number in range(40):
            cron = cron_row(tasks, zone, minute=str(number), hour=str(number % 24), day_of_week=str(number % 7))
            add(f"weekly {number} {zone}", crontab=cron)
    for number in range(58):
        every = tasks.IntervalSchedule.objects.create(every=150 + number, period="hours")
        add(f"days {number}", interval=every, last_run_at=YEAR_AGO)
    sun = tasks.SolarSchedule.objects.create(event="sunrise", latitude="48.2", longitude="16.37")
    for number in range(5):
        add(f"sun {number}", solar=sun)
        at = tasks.ClockedSchedule.objects.create(clocked_time=datetime(2098, 1, 1 + number, tzinfo=UTC))
        add(f"once {number}", clocked=at, one_off=True)
    tasks.PeriodicTask.objects.bulk_create(rows)
    work = Import(app, DjangoSource(app))
    work.read()

    found = reasons(work)

    assert len(work.of_state("new")) == 200
    assert not [name for name in found if not name.endswith(("America/New_York", "Europe/Vienna"))]
    assert found["daily 2 America/New_York"] == [
        "1 at another time: the old engine moves them around the skipped hour on 14 Mar 2027"
    ]
    assert all("hour on" in reason for each in found.values() for reason in each)


def test_a_project_without_time_zones_keeps_its_last_runs_in_utc(
    app: Celery, tasks: Any, run: Callable[..., Result]
) -> None:
    app.conf.timezone = "Asia/Tokyo"
    hours = tasks.IntervalSchedule.objects.create(every=12, period="hours")
    with override_settings(USE_TZ=False, DJANGO_CELERY_BEAT_TZ_AWARE=False, TIME_ZONE="Asia/Tokyo"):
        # As its engine writes it: datetime.utcnow().
        ran_at = datetime.now(UTC).replace(microsecond=0) - timedelta(hours=1)
        start = datetime(2026, 1, 1)
        task(tasks, "half a day", interval=hours, last_run_at=ran_at.replace(tzinfo=None), start_time=start)

        compared = run("django-celery-beat", "--dry-run")
        imported = run("django-celery-beat", "--yes")

    entry = ScheduleStore(app).get("half a day")
    assert imported.exit_code == 0
    assert "next 1,000 fire times: the same" in compared.stdout
    assert (entry.last_run_at, entry.due_at) == (ran_at, ran_at + timedelta(hours=12))
    assert entry.start_at == datetime(2026, 1, 1, tzinfo=ZoneInfo("Asia/Tokyo"))


def test_the_repeated_hour_is_named(app: Celery, tasks: Any) -> None:
    task(tasks, "ticker", crontab=cron_row(tasks, "America/New_York"))
    work = Import(app, DjangoSource(app))
    work.read()

    assert reasons(work) == {"ticker": ["60 more: the old engine skips the repeated hour on 1 Nov 2026"]}


def test_a_database_without_the_tables_is_an_error_in_one_line(
    run: Callable[..., Result], tasks: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tasks.PeriodicTask._meta, "db_table", "gone")

    result = run("django-celery-beat", "--dry-run")

    assert result.exit_code == 1
    assert result.stderr == "Error: the database of django-celery-beat: no such table: gone\n"
