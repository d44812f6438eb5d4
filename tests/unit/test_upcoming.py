"""The next runs of an entry, for people."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta, timezone
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from celery.schedules import schedule
from hypothesis import given
from hypothesis import strategies as st
from moments import NEW_YORK, at, cron, utc
from support.examples import examples

from redisbeater import UpcomingRun, clocked, rrule
from redisbeater.editing.stored_entry import StoredEntry
from redisbeater.editing.upcoming import MOST_RUNS, upcoming_runs
from redisbeater.model.definition import Definition
from redisbeater.model.meta import FINISHED, Meta
from redisbeater.model.resolved_policy import Defaults, ResolvedPolicy
from redisbeater.results import Score

DEFAULTS = Defaults(zone=NEW_YORK)

NOW = utc("2026-01-01")


def stored(schedule_: Any, fire_time: datetime | None = None, run_count: int = 0, **fields: Any) -> StoredEntry:
    """Return an entry whose next fire time is ``fire_time``, by default the first after New Year."""
    definition = Definition.checked(name="report", task="proj.report", schedule=schedule_, **fields)
    first = fire_time or definition.timetable(NEW_YORK).next(utc("2026-01-01"))
    score = Score.planned(first, enabled=definition.enabled)
    return StoredEntry(definition=definition, meta=Meta(total_run_count=run_count), score=score, skipped={}, now=NOW)


def upcoming(entry: StoredEntry, n: int = 5) -> list[UpcomingRun]:
    return upcoming_runs(entry, DEFAULTS, n)


def local_times(entry: StoredEntry, n: int = 5) -> list[str]:
    return [f"{run.local:%m-%d %H:%M %z}" for run in upcoming(entry, n)]


def notes(entry: StoredEntry, n: int = 5) -> list[str]:
    return [run.note for run in upcoming(entry, n)]


def test_a_run_has_its_time_in_utc_and_in_local_time() -> None:
    (run,) = upcoming(stored(cron("0 9 * * *"), timezone="Europe/Vienna"), 1)

    assert run == UpcomingRun(
        name="report",
        task="proj.report",
        fire_time=utc("2026-01-01 08:00"),
        local=datetime(2026, 1, 1, 9, tzinfo=ZoneInfo("Europe/Vienna")),
        due_at=utc("2026-01-01 08:00"),
    )
    assert run.fire_time.tzinfo is timezone.utc
    assert run.local.utcoffset() == timedelta(hours=1)


def test_local_times_are_those_of_the_app_when_the_entry_has_no_zone() -> None:
    assert local_times(stored(cron("0 9 * * *")), 2) == ["01-01 09:00 -0500", "01-02 09:00 -0500"]


def test_local_times_of_an_rrule_are_in_its_own_zone() -> None:
    rule = rrule("DAILY", dtstart=datetime(2026, 1, 1, 9, tzinfo=ZoneInfo("Europe/Vienna")))

    assert local_times(stored(rule), 1) == ["01-01 09:00 +0100"]


def test_the_next_fire_time_of_beat_comes_first() -> None:
    overdue = stored(cron("0 9 * * *"), at("2026-06-01 08:34"))

    assert local_times(overdue, 2) == ["06-01 08:34 -0400", "06-01 09:00 -0400"]


def test_an_interval_goes_on_from_its_next_fire_time() -> None:
    entry = stored(schedule(3600), utc("2026-06-01 12:07:30"))

    assert [run.fire_time for run in upcoming(entry, 2)] == [utc("2026-06-01 12:07:30"), utc("2026-06-01 13:07:30")]


@pytest.mark.parametrize("n", [1, 7, MOST_RUNS])
def test_there_are_as_many_runs_as_were_asked_for(n: int) -> None:
    assert len(upcoming(stored(60), n)) == n


@pytest.mark.parametrize("n", [0, -1, MOST_RUNS + 1, 1.0, True, "5", None], ids=repr)
def test_an_invalid_number_of_runs_is_refused(n: Any) -> None:
    with pytest.raises(ValueError, match=r"^limit: expected a whole number from 1 to 1000, got "):
        upcoming(stored(60), n)


# -- which end


@pytest.mark.parametrize(
    ("entry", "count"),
    [
        pytest.param(stored(60, enabled=False), 0, id="disabled"),
        pytest.param(replace(stored(60), score=FINISHED), 0, id="finished"),
        pytest.param(stored(clocked(utc("2026-06-01"))), 1, id="one-off"),
        pytest.param(stored(rrule("DAILY", dtstart=utc("2026-01-02"), count=3)), 3, id="rule-with-a-count"),
        pytest.param(stored(3600, end_at=utc("2026-01-01 03:00")), 3, id="end-which-counts"),
        pytest.param(stored(60, max_runs=4), 4, id="max-runs"),
        pytest.param(stored(60, max_runs=4, run_count=3), 1, id="max-runs-one-left"),
        pytest.param(stored(60, max_runs=4, run_count=4), 0, id="max-runs-none-left"),
        pytest.param(stored(60, max_runs=4, run_count=9), 0, id="max-runs-exceeded"),
        pytest.param(stored(60, max_runs=40), 5, id="max-runs-far-off"),
        pytest.param(stored(schedule(timedelta(days=365_000))), 5, id="a-thousand-years"),
    ],
)
def test_an_entry_has_no_runs_beyond_its_end(entry: StoredEntry, count: int) -> None:
    assert len(upcoming(entry)) == count


def test_runs_end_where_the_calendar_does() -> None:
    assert 0 < len(upcoming(stored(schedule(timedelta(days=365_000))), 20)) < 20


# -- jitter


def test_a_run_with_jitter_is_due_later() -> None:
    entry = stored(3600, jitter=600)

    runs = upcoming(entry, 20)

    assert all(timedelta(0) <= run.due_at - run.fire_time < timedelta(minutes=10) for run in runs)
    assert [run.due_at for run in runs] == [
        ResolvedPolicy.of(entry.definition, DEFAULTS).due_at(run.fire_time) for run in runs
    ]


def test_the_settings_jitter_holds_for_an_entry_without_its_own() -> None:
    (run,) = upcoming_runs(stored(3600), replace(DEFAULTS, jitter=600.0), 1)

    assert run.due_at > run.fire_time


# -- what the clocks do


@pytest.mark.parametrize(
    ("schedule_", "first", "zone", "expected"),
    [
        pytest.param(
            cron("30 2 * * *"),
            "2026-03-07 02:30",
            "America/New_York",
            ["", "moved from 02:30, which does not exist on 2026-03-08", ""],
            id="gap",
        ),
        pytest.param(
            cron("0,30 2 * * *"),
            "2026-03-07 02:30",
            "America/New_York",
            ["", "moved from 02:00 and 02:30, which do not exist on 2026-03-08", ""],
            id="gap-with-two-times",
        ),
        pytest.param(
            cron("0 2,3 * * *"),
            "2026-03-07 03:00",
            "America/New_York",
            ["", "moved from 02:00, which does not exist on 2026-03-08", ""],
            id="gap-and-its-end-are-one-run",
        ),
        pytest.param(
            cron("0 0 * * *"),
            "2026-09-05 00:00",
            "America/Santiago",
            ["", "moved from 00:00, which does not exist on 2026-09-06", ""],
            id="gap-at-midnight",
        ),
        pytest.param(
            cron("15 2 * * *"),
            "2026-10-03 02:15",
            "Australia/Lord_Howe",
            ["", "moved from 02:15, which does not exist on 2026-10-04", ""],
            id="gap-of-half-an-hour",
        ),
        pytest.param(
            cron("30 1 * * *"),
            "2026-10-31 01:30",
            "America/New_York",
            ["", "01:30 comes twice on 2026-11-01; this is the first", ""],
            id="repeated-fixed",
        ),
        pytest.param(
            cron("30 * * * *"),
            "2026-11-01 00:30",
            "America/New_York",
            [
                "",
                "01:30 comes twice on 2026-11-01; this is the first",
                "01:30 comes twice on 2026-11-01; this is the second",
                "",
            ],
            id="repeated-repeating",
        ),
        pytest.param(cron("0 * * * *"), "2026-03-08 01:00", "America/New_York", ["", "", ""], id="gap-repeating"),
        pytest.param(
            rrule("DAILY", dtstart=datetime(2026, 3, 7, 2, 30, tzinfo=NEW_YORK)),
            "2026-03-07 02:30",
            "America/New_York",
            ["", "moved from 02:30, which does not exist on 2026-03-08", ""],
            id="gap-rrule",
        ),
        pytest.param(
            clocked(datetime(2026, 3, 8, 2, 30)),
            "2026-03-08 03:30",
            "America/New_York",
            ["moved from 02:30, which does not exist on 2026-03-08"],
            id="gap-clocked",
        ),
        pytest.param(schedule(86400), "2026-03-07 12:00", "America/New_York", ["", "", ""], id="interval"),
        pytest.param(
            schedule(3600),
            "2026-11-01 00:30",
            "America/New_York",
            [
                "",
                "01:30 comes twice on 2026-11-01; this is the first",
                "01:30 comes twice on 2026-11-01; this is the second",
            ],
            id="repeated-interval",
        ),
    ],
)
def test_the_effect_of_a_clock_change_on_a_run_is_noted(
    schedule_: Any, first: str, zone: str, expected: list[str]
) -> None:
    entry = stored(schedule_, at(first, ZoneInfo(zone)), timezone=zone)

    assert notes(entry, len(expected)) == expected


# -- as texts


def test_a_run_as_texts_is_iso_8601() -> None:
    (run,) = upcoming(stored(cron("30 2 * * *"), at("2026-03-08 03:00"), jitter=0), 1)

    assert run.as_dict() == {
        "name": "report",
        "task": "proj.report",
        "fire_time": "2026-03-08T07:00:00+00:00",
        "local": "2026-03-08T03:00:00-04:00",
        "due_at": "2026-03-08T07:00:00+00:00",
        "note": "moved from 02:30, which does not exist on 2026-03-08",
    }


def test_the_texts_of_a_run_with_jitter_include_when_it_is_due() -> None:
    (run,) = upcoming(stored(3600, utc("2026-06-10 12:00"), jitter=600), 1)

    assert datetime.fromisoformat(run.as_dict()["due_at"]) == run.due_at


# -- properties


@examples(60)
@given(
    schedule_=st.integers(1, 10**6).map(schedule) | st.sampled_from(["*/7 * * * *", "30 2 * * *"]).map(cron),
    zone=st.sampled_from(["America/New_York", "Antarctica/Troll", "Asia/Kathmandu"]),
    jitter=st.integers(0, 10**5),
    n=st.integers(1, 50),
)
def test_runs_come_in_order_and_local_time_is_the_same_instant(schedule_: Any, zone: str, jitter: int, n: int) -> None:
    runs = upcoming(stored(schedule_, timezone=zone, jitter=jitter), n)

    assert len(runs) == n
    assert all(run.local == run.fire_time and run.fire_time <= run.due_at for run in runs)
    assert all(earlier.due_at <= later.fire_time for earlier, later in pairwise(runs))
