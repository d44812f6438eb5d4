"""How many runs there will be: the command simulate and ScheduleStore.simulate()."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest
from celery import Celery
from celery.schedules import crontab
from click.testing import CliRunner, Result
from due import UTC

from redisbeater import RedisScheduleEntry, ScheduleStore
from redisbeater.cli import redisbeater

#: A Saturday, 23:00 in Vienna, long after now.
START = datetime(2032, 11, 20, 22, tzinfo=UTC)
DAY = timedelta(days=1)


@pytest.fixture
def vienna(make_app: Callable[..., Celery]) -> Celery:
    return make_app("shop", timezone="Europe/Vienna")


@pytest.fixture
def run(vienna: Celery) -> Callable[..., Result]:
    def run(*arguments: str, charset: str = "utf-8") -> Result:
        return CliRunner(charset=charset).invoke(redisbeater, list(arguments), obj=SimpleNamespace(app=vienna))

    return run


def add(app: Celery, name: str, schedule: object, **fields: object) -> None:
    RedisScheduleEntry(name, "shop.work", schedule, app=app, **fields).save()  # type: ignore[arg-type]


def test_a_simulation_is_drawn(run: Callable[..., Result], vienna: Celery) -> None:
    for number in range(110):
        add(vienna, f"report-{number}", crontab(minute=0, hour=3))
    for number in range(2):
        add(vienna, f"backup {number}", crontab(minute="0,30", hour=3))
    add(vienna, "ping", crontab(minute=15))
    add(vienna, "off", crontab(), enabled=False)

    result = run("simulate", "--now", "2032-11-20T23:00", "--to", "+24h")

    assert result.stdout.splitlines() == [
        "24 h from Sat 23:00 Europe/Vienna: 138 runs of 113 entries; "
        "busiest minute 03:00 (112), busiest second 03:00:00 (112)",
        "23 ▁▁▁▁█▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁ 22     112 at 03:00: report* 110, backup* 2    lint: herd",
    ]
    ascii_bars = run("simulate", "--now", "2032-11-20T23:00", charset="ascii").stdout.splitlines()[1]
    assert ascii_bars.startswith("23 ....@................... 22")
    _, *drawn = run("simulate", "--now", "2032-11-20T23:18", charset="ascii").stdout.splitlines()
    assert drawn == ["Sat 23  ...@.................... Sun 23     112 at 03:00: report* 110, backup* 2    lint: herd"]


def test_a_simulation_as_json_has_the_keys_of_the_api(run: Callable[..., Result], vienna: Celery) -> None:
    add(vienna, "ping", crontab(minute=15))

    found = json.loads(run("simulate", "--from", "2032-11-20T23:00", "--to", "+2d", "--per", "day", "--json").stdout)

    assert list(found) == [
        "start", "end", "runs", "is_at_least", "entries", "busiest_minute", "busiest_second", "peak", "per", "counts",
    ]  # fmt: skip
    assert (found["runs"], found["peak"]) == (48, {"ping": 1})
    assert found["counts"] == [
        {"at": "2032-11-20T00:00:00+01:00", "runs": 1},
        {"at": "2032-11-21T00:00:00+01:00", "runs": 24},
        {"at": "2032-11-22T00:00:00+01:00", "runs": 23},
    ]


def test_each_day_counts_its_own_hours_when_the_clocks_change(vienna: Celery) -> None:
    add(vienna, "ping", crontab(minute="*/30"))
    start = datetime(2032, 3, 26, 23, tzinfo=UTC)  # a Saturday's midnight; on Sunday 02:00 becomes 03:00

    found = ScheduleStore(vienna).simulate(start, start + 3 * DAY)

    assert [count.runs for count in found.counts("day")] == [48, 46, 48, 2]
    assert len(found.counts("hour")) == 72


def test_policies_bound_what_is_counted(vienna: Celery) -> None:
    store = ScheduleStore(vienna)
    every = timedelta(minutes=10)
    add(vienna, "three", every, start_at=START, max_runs=3)
    add(vienna, "half", every, start_at=START, end_at=START + timedelta(minutes=30))
    add(vienna, "spread", every, start_at=START, jitter=300)

    assert store.simulate(START, START + timedelta(hours=1), prefix="three").runs == 3
    assert store.simulate(START, START + timedelta(hours=1), prefix="half").runs == 4
    spread = store.simulate(START, START + timedelta(hours=1), prefix="spread")
    assert spread.runs in (5, 6)
    assert any(second % 600 for second in spread.per_second)


def test_entries_that_are_not_stored_can_be_simulated(
    vienna: Celery, run: Callable[..., Result], tmp_path: Path
) -> None:
    entry = RedisScheduleEntry("new", "shop.work", crontab(minute=0), app=vienna)
    file = tmp_path / "schedule.json"
    file.write_text(json.dumps({"redisbeater": 1, "entries": {"a": {"task": "t", "cron": "0 * * * *"}}}))

    assert ScheduleStore(vienna).simulate(START, START + DAY, entries=[entry]).runs == 24
    drawn = run("simulate", "--file", str(file), "--from", "2032-11-20T23:00").stdout
    assert drawn.splitlines()[0].startswith("24 h from 20 Nov 2032 23:00 Europe/Vienna: 24 runs of 1 entry; ")


def test_many_entries_of_one_schedule_are_simulated_at_once(vienna: Celery) -> None:
    store = ScheduleStore(vienna)
    with store.bulk() as bulk:
        for number in range(2000):
            bulk.save(RedisScheduleEntry(f"e-{number}", "t", timedelta(minutes=1), start_at=START, app=vienna))

    found = store.simulate(START, START + DAY)

    assert (found.runs, found.entries) == (2000 * 1440, 2000)
    assert found.peak == {"e*": 2000}


def test_an_empty_schedule_has_no_runs(run: Callable[..., Result]) -> None:
    result = run("simulate", "--now", "2032-11-20T23:00")

    assert result.stdout == "24 h from Sat 23:00 Europe/Vienna: 0 runs of 0 entries\n"


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--to", "yesterday"], "--to 'yesterday': expected a time after --from 'now'"),
        (["--from", "soon"], "--from 'soon': expected a time such as"),
        (["--file", "none.json"], "none.json: cannot be read"),
    ],
)
def test_what_is_no_span_is_refused(run: Callable[..., Result], arguments: list[str], problem: str) -> None:
    result = run("simulate", *arguments)

    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f"Error: {problem}")


def test_a_simulation_counts_the_runs_that_upcoming_shows(vienna: Celery) -> None:
    store, end = ScheduleStore(vienna), START + DAY
    add(vienna, "left out", crontab(minute=0), skip=[START + timedelta(hours=n) for n in (3, 4)])
    add(vienna, "resumed", crontab(minute=0), disabled_until=START + timedelta(hours=6))
    add(vienna, "bounded", crontab(minute=0), start_at=START, max_runs=15)
    add(vienna, "spread", crontab(minute=0), jitter=3000)
    since = START + timedelta(hours=12, minutes=10)

    shown = {
        name: [run.due_at for run in store.upcoming(within=2 * DAY, limit=1000, start=START - DAY) if run.name == name]
        for name in ("left out", "resumed", "bounded", "spread")
    }

    for first in (START, since):
        expected = {name: sum(1 for due_at in dues if first <= due_at < end) for name, dues in shown.items()}
        assert {name: store.simulate(first, end, prefix=name).runs for name in shown} == expected
    assert store.simulate(START, end).runs == 22 + 18 + 15 + 24
    new = RedisScheduleEntry("new", "t", crontab(minute=0), app=vienna, disabled_until=START + timedelta(hours=6))
    assert store.simulate(START, end, entries=[new]).runs == 18


def test_what_a_change_would_move_is_said_beside_the_simulation(run: Callable[..., Result], vienna: Celery) -> None:
    for number in range(53):
        add(vienna, f"report-{number:02}", crontab(minute=0, hour=3))
    start = ("simulate", "--from", "2032-11-20T23:00")
    result = run(*start, "--set", "report-00", "cron=30 3 * * *", "--set", "report-01", "enabled=no")
    assert result.exit_code == 2, "enabled is no option of update"
    moved = run(*start, "--set", "report-00", "cron=30 3 * * *", "--set", "report-01", "cron=0 3 1 1 *").stdout
    assert moved.splitlines()[-1] == "with --set: 1 run moves, 1 vanish; busiest minute 53 -> 51"
    found = json.loads(run(*start, "--set", "report-00", "cron=30 3 * * *", "--json").stdout)["moves"]
    assert (found["moved"], found["vanish"], found["busiest_minute"][1][1]) == (1, 0, 52)
    assert ScheduleStore(vienna).get("report-00").schedule == crontab(minute=0, hour=3), "nothing is written"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("report", "cron"), "expected FIELD=VALUE"),
        (("report", "corn=0 3 * * *"), "did you mean 'cron'"),
        (("nothing", "cron=0 3 * * *"), "nothing"),
        (("report", "cron=99 3 * * *"), "99"),
    ],
)
def test_a_change_that_cannot_be_simulated_is_refused(
    run: Callable[..., Result], vienna: Celery, change: tuple[str, str], said: str
) -> None:
    add(vienna, "report", crontab(minute=0, hour=3))
    result = run("simulate", "--set", *change)
    assert result.exit_code != 0
    assert said in result.output


def test_the_busiest_minute_names_what_exceeds_the_others(vienna: Celery) -> None:
    add(vienna, "steady", 1.0)
    for number in range(30):
        add(vienna, f"report-{number:02}", crontab(minute=0, hour=3))
    found = ScheduleStore(vienna).simulate(START, START + DAY)
    assert list(found.peak.items()) == [("report*", 30), ("steady", 60)]
