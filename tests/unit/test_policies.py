from __future__ import annotations

from datetime import datetime, timezone, tzinfo
from typing import Any

import pytest
from celery.schedules import schedule
from moments import NEW_YORK, at, cron, utc

from redisbeater.definition import Definition
from redisbeater.policies import Plan
from redisbeater.policies import plan as plan_terms
from redisbeater.schedules import clocked, rrule
from redisbeater.score import Score
from redisbeater.terms import Defaults, Terms

UTC = timezone.utc
NOW = utc("2026-06-10 12:00")


def entry(schedule_: Any, **fields: Any) -> Definition:
    return Definition.checked(name="report", task="proj.report", schedule=schedule_, **fields)


def plan(definition: Definition, fire_time: datetime, now: datetime, zone: tzinfo = UTC, **more: Any) -> Plan:
    return plan_terms(Terms.of(definition, Defaults(zone=zone)), fire_time, now, **more)


def planned(run: str, following: str) -> Plan:
    return Plan(runs=(utc(run),), next=Score(fire_time=utc(following)))


@pytest.mark.parametrize(
    ("schedule_", "fire_time", "expected"),
    [
        pytest.param(schedule(60), "2026-06-10 12:00", planned("2026-06-10 12:00", "2026-06-10 12:01"), id="interval"),
        pytest.param(
            cron("0 * * * *"), "2026-06-10 12:00", planned("2026-06-10 12:00", "2026-06-10 13:00"), id="crontab"
        ),
        pytest.param(
            rrule("DAILY", dtstart=utc("2026-06-10 12:00")),
            "2026-06-10 12:00",
            planned("2026-06-10 12:00", "2026-06-11 12:00"),
            id="rrule",
        ),
    ],
)
def test_an_entry_on_time_runs_its_fire_time(schedule_: Any, fire_time: str, expected: Plan) -> None:
    assert plan(entry(schedule_), utc(fire_time), NOW, UTC) == expected


def test_a_late_run_moves_no_fire_time() -> None:
    late = plan(entry(60), utc("2026-06-10 11:59:15"), NOW, UTC)

    assert late == planned("2026-06-10 11:59:15", "2026-06-10 12:00:15")


@pytest.mark.parametrize(
    ("schedule_", "fire_time", "expected"),
    [
        pytest.param(
            schedule(60),
            "2026-06-10 09:00:30",
            planned("2026-06-10 11:59:30", "2026-06-10 12:00:30"),
            id="interval-keeps-its-phase",
        ),
        pytest.param(
            schedule(1), "2016-06-10 12:00:00.5", planned("2026-06-10 11:59:59.5", "2026-06-10 12:00:00.5"), id="years"
        ),
        pytest.param(cron("0 */5 * * *"), "2026-06-01", planned("2026-06-10 10:00", "2026-06-10 15:00"), id="crontab"),
    ],
)
def test_of_several_missed_fire_times_the_newest_runs_once(schedule_: Any, fire_time: str, expected: Plan) -> None:
    assert plan(entry(schedule_), utc(fire_time), NOW, UTC) == expected


@pytest.mark.parametrize(
    "schedule_",
    [
        pytest.param(clocked(utc("2026-06-10 11:00")), id="clocked"),
        pytest.param(rrule("DAILY", dtstart=utc("2026-06-10 11:00"), count=1), id="rrule-of-one"),
    ],
)
def test_an_entry_without_another_fire_time_is_finished(schedule_: Any) -> None:
    last = plan(entry(schedule_), utc("2026-06-10 11:00"), NOW, UTC)

    assert last == Plan(runs=(utc("2026-06-10 11:00"),), next=Score(fire_time=None, dormant=True))


def test_a_disabled_entry_becomes_dormant_and_keeps_its_fire_time() -> None:
    disabled = plan(entry(60, enabled=False), utc("2026-06-10 11:59"), NOW, UTC)

    assert disabled == Plan(runs=(), next=Score(fire_time=utc("2026-06-10 11:59"), dormant=True))


def test_local_times_are_those_of_the_app_s_zone() -> None:
    due = plan(entry(cron("0 9 * * *")), at("2026-06-10 09:00"), at("2026-06-10 09:00"), NEW_YORK)

    assert due.next.fire_time == at("2026-06-11 09:00")


def test_the_entry_s_own_zone_goes_before_the_app_s() -> None:
    vienna = entry(cron("0 9 * * *"), timezone="Europe/Vienna")

    due = plan(vienna, utc("2026-06-10 07:00"), utc("2026-06-10 07:00"), NEW_YORK)

    assert due.next.fire_time == utc("2026-06-11 07:00")


@pytest.mark.parametrize(
    ("expression", "fire_time", "expected"),
    [
        pytest.param("0 12 * * *", "2026-10-31 12:00", "2026-11-01 12:00", id="noon-stays-noon-in-autumn"),
        pytest.param("0 12 * * *", "2026-03-07 12:00", "2026-03-08 12:00", id="noon-stays-noon-in-spring"),
    ],
)
def test_a_shift_moves_no_local_time(expression: str, fire_time: str, expected: str) -> None:
    due = plan(entry(cron(expression)), at(fire_time), at(fire_time), NEW_YORK)

    assert due.next.fire_time == at(expected)
