"""The next runs of the whole schedule, in the order of their times."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from types import SimpleNamespace

import pytest
import redis
from celery import Celery
from celery.schedules import crontab
from click.testing import CliRunner, Result

from redisbeater import RedisScheduleEntry, ScheduleStore
from redisbeater.cli import redisbeater
from redisbeater.context import Context
from redisbeater.management.future import next_runs


def run(app: Celery, *arguments: str) -> Result:
    return CliRunner().invoke(redisbeater, ["upcoming", *arguments], obj=SimpleNamespace(app=app))


def test_runs_of_all_entries_come_in_the_order_of_their_times(store: ScheduleStore) -> None:
    store.create("slow", "proj.slow", 50)
    store.create("fast", "proj.fast", 20)
    store.create("never", "proj.never", 1, enabled=False)

    runs = store.upcoming(limit=6)

    assert [run.name for run in runs] == ["fast", "fast", "slow", "fast", "fast", "slow"]
    assert [run.due_at for run in runs] == sorted(run.due_at for run in runs)
    assert runs[2].task == "proj.slow"


def test_only_runs_within_a_time_are_returned(store: ScheduleStore) -> None:
    store.create("often", "proj.often", 60)
    store.create("daily", "proj.daily", 86_400)

    assert {run.name for run in store.upcoming(within=timedelta(minutes=5))} == {"often"}
    assert len(store.upcoming(within=301)) == 5


def test_an_entry_ends_with_its_last_run(store: ScheduleStore) -> None:
    store.create("thrice", "proj.work", 60, max_runs=3)

    assert [run.name for run in store.upcoming()] == ["thrice"] * 3


def test_a_broken_entry_hides_no_other(store: ScheduleStore, client: redis.Redis, prefix: str) -> None:
    store.create("whole", "proj.work", 60, max_runs=1)
    store.create("odd", "proj.work", 60)
    client.hset(f"{prefix}odd", "definition", "no JSON")

    assert [run.name for run in store.upcoming()] == ["whole"]


@pytest.mark.parametrize("arguments", [{"limit": 0}, {"limit": 10_001}, {"limit": True}, {"within": -1}])
def test_wrong_arguments_are_refused(store: ScheduleStore, arguments: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=f"{next(iter(arguments))}: expected"):
        store.upcoming(**arguments)


def test_of_a_big_schedule_only_the_first_pages_are_read(store: ScheduleStore, app: Celery) -> None:
    with store.bulk() as bulk:
        for number in range(3000):
            bulk.save(RedisScheduleEntry(f"e{number}", "proj.work", 3600 + number, app=app))
    read: list[int] = []

    runs = next_runs(Context.of(app), limit=3, progress=read.append)

    assert [run.name for run in runs] == ["e0", "e1", "e2"]
    assert read == [500]


def test_runs_from_a_later_time_on(make_app: Callable[..., Celery]) -> None:
    app = make_app(timezone="Europe/Vienna")
    store = ScheduleStore(app)
    store.create("often", "proj.often", crontab(minute="*/15"))
    store.create("nightly", "proj.nightly", crontab(hour=2, minute=0))

    result = run(app, "--at", "2030-01-03 01:50", "--within", "20m", "--json")

    found = [json.loads(line) for line in result.output.splitlines()]
    assert [(item["name"], item["local"][11:16]) for item in found] == [("nightly", "02:00"), ("often", "02:00")]


def test_the_command_shows_the_names_of_the_entries(store: ScheduleStore, app: Celery) -> None:
    store.create("report", "proj.report", crontab(hour=9, minute=0))
    store.create("digest", "proj.digest", crontab(hour=10, minute=0))

    lines = run(app, "-n", "4", "--at", "2030-01-01 00:00").output.splitlines()

    assert [line.split()[-1] for line in lines] == ["NAME", "report", "digest", "report", "digest"]
    assert lines[1].startswith("2030-01-01 09:00:00  Tue 1 Jan 2030 09:00:00 UTC")


def test_the_command_shows_runs_of_one_entry_from_a_time_on(store: ScheduleStore, app: Celery) -> None:
    store.create("report", "proj.report", crontab(hour=9, minute=0))

    lines = run(app, "report", "--at", "2030-01-01 10:00", "-n", "2").output.splitlines()

    assert [line[:19] for line in lines[1:]] == ["2030-01-02 09:00:00", "2030-01-03 09:00:00"]
    assert run(app, "report", "--at", "2030-01-01 10:00", "--within", "1h").output == "none in that time\n"


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("--within", "soon"), "Error: --within 'soon': expected a duration"),
        (("--at", "soon"), "Error: --at 'soon': expected a time"),
    ],
)
def test_wrong_input_is_one_line(app: Celery, arguments: tuple[str, ...], problem: str) -> None:
    result = run(app, *arguments)

    assert (result.exit_code, result.output.startswith(problem)) == (2, True), result.output
