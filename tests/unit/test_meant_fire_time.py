"""The fire time that a score means, when RedBeat may have written it."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from celery.schedules import BaseSchedule, schedule, solar
from hypothesis import given
from hypothesis import strategies as st
from moments import NEW_YORK, cron, utc
from support.examples import examples

from redisbeater import clocked, rrule
from redisbeater.model.definition import Definition
from redisbeater.model.meta import NEW, Meta
from redisbeater.model.plan import meant_fire_time
from redisbeater.model.resolved_policy import Defaults, ResolvedPolicy

UTC = timezone.utc
SECOND = timedelta(seconds=1)
LAST = utc("2026-06-10 12:00")
DAILY, MINUTELY = cron("0 12 * * *"), cron("* * * * *")
SECONDLY = rrule("SECONDLY", dtstart=utc("2026-01-01"))
NOON = rrule("DAILY", dtstart=utc("2026-01-01 12:00"))


class Custom(BaseSchedule):
    """A schedule of the application, which may count from anything."""

    def to_redisbeater(self) -> dict[str, Any]:
        return {}


def policy(schedule_: Any, zone: Any = UTC, **fields: Any) -> ResolvedPolicy:
    definition = Definition.checked(name="job", task="proj.job", schedule=schedule_, **{"enabled": True, **fields})
    return ResolvedPolicy.of(definition, Defaults(zone=zone))


def ours(last_run_at: datetime) -> Meta:
    """The meta after a run of ours, whose fire time it holds."""
    return NEW.after_run(last_run_at)


def theirs(last_run_at: datetime) -> Meta:
    """The meta after a run of RedBeat, which holds when it was sent."""
    return Meta(last_run_at=last_run_at, total_run_count=1)


def score(text: str) -> datetime:
    return utc(f"2026-06-{text}")


@pytest.mark.parametrize(
    ("schedule_", "score", "meta", "expected"),
    [
        pytest.param(
            MINUTELY, score("10 12:00:59"), theirs(LAST + SECOND / 50), score("10 12:01"), id="a second early"
        ),
        pytest.param(
            NOON, score("11 11:59:59"), theirs(LAST + SECOND / 50), score("11 12:00"), id="rule a second early"
        ),
        pytest.param(DAILY, score("10 18:30:17"), ours(LAST), score("11 12:00"), id="edit"),
        pytest.param(NOON, score("10 18:30:17"), ours(LAST), score("11 12:00"), id="edit of a rule"),
        pytest.param(DAILY, score("10 18:30"), ours(LAST), score("11 12:00"), id="edit at a whole minute"),
        pytest.param(DAILY, score("13 15:20:07"), ours(LAST), score("11 12:00"), id="edit while it is overdue"),
        pytest.param(MINUTELY, LAST, ours(LAST), score("10 12:01"), id="edit in the last second of a minute"),
        pytest.param(SECONDLY, LAST, theirs(LAST + SECOND / 50), LAST + SECOND, id="every second, and RedBeat ran it"),
        pytest.param(schedule(60), score("10 12:00:59"), ours(LAST), score("10 12:01"), id="edit of an interval"),
        pytest.param(schedule(3600), LAST, ours(LAST + SECOND / 4), utc("2026-06-10 13:00") + SECOND / 4, id="at once"),
        pytest.param(clocked(LAST), score("10 12:00:01"), ours(LAST), None, id="nothing is left"),
        pytest.param(schedule(3600, relative=True), score("10 12:30"), ours(LAST), score("10 13:00"), id="relative"),
    ],
)
def test_a_score_of_redbeat_means_what_follows_the_last_run(
    schedule_: Any, score: datetime, meta: Meta, expected: datetime | None
) -> None:
    assert meant_fire_time(policy(schedule_), score, meta) == expected


@pytest.mark.parametrize(
    ("schedule_", "score", "meta"),
    [
        pytest.param(DAILY, score("11 12:00"), ours(LAST), id="on the grid"),
        pytest.param(DAILY, score("14 12:00"), ours(LAST), id="on the grid, after skipped fire times"),
        pytest.param(MINUTELY, score("10 11:30"), theirs(LAST + 5 * SECOND), id="a backlog, executed since"),
        pytest.param(MINUTELY, score("10 12:05"), ours(score("10 12:05") + SECOND / 2), id="executed in its second"),
        pytest.param(SECONDLY, LAST + SECOND, theirs(LAST), id="every second"),
        pytest.param(DAILY, LAST + SECOND / 2, ours(LAST - 86400 * SECOND), id="a fraction: another program means it"),
        pytest.param(DAILY, datetime(1970, 1, 1, tzinfo=UTC), ours(LAST), id="0: now"),
        pytest.param(DAILY, score("10 18:30:17"), NEW, id="never ran"),
        pytest.param(schedule(60), score("10 12:01"), ours(LAST), id="interval"),
        pytest.param(schedule(60), score("10 15:20:07"), ours(LAST), id="interval moved by another program"),
        pytest.param(schedule(60), score("10 11:59"), ours(LAST), id="interval sent back by another program"),
        pytest.param(schedule(3600, relative=True), score("10 13:00"), ours(LAST), id="relative interval"),
        pytest.param(Custom(), score("10 18:30:17"), ours(LAST), id="custom schedule"),
        pytest.param(clocked(score("10 18:30:17")), score("10 18:30:17"), ours(LAST), id="clocked"),
    ],
)
def test_every_other_score_is_the_fire_time(schedule_: Any, score: datetime, meta: Meta) -> None:
    assert meant_fire_time(policy(schedule_), score, meta) == score


def test_an_interval_keeps_to_the_grid_of_its_start() -> None:
    edited = policy(schedule(90), start_at=LAST - 60 * SECOND)

    assert meant_fire_time(edited, LAST + 30 * SECOND, ours(LAST)) == LAST + 30 * SECOND


ZONES = ["America/New_York", "Australia/Lord_Howe", "Africa/Casablanca", "America/Santiago", "Asia/Kathmandu"]
CRONTABS = ["30 2 * * *", "0,30 1 * * *", "*/15 2 * * *", "0 * * * *", "0 0 * * *", "7-59/13 * * * mon"]


@examples(150)
@given(
    text=st.sampled_from(CRONTABS),
    zone=st.sampled_from(ZONES).map(ZoneInfo),
    start=st.datetimes(datetime(2026, 1, 1), datetime(2026, 12, 1)),
)
def test_the_quick_look_at_a_crontab_agrees_with_the_search(text: str, zone: ZoneInfo, start: datetime) -> None:
    timetable = policy(cron(text), zone).timetable
    fire_time = timetable.next(start.replace(tzinfo=UTC))
    assert fire_time is not None

    assert timetable.fires_at(fire_time)
    for minutes in (-60, -30, -15, -1, 1, 15, 30, 60):
        moment = fire_time + timedelta(minutes=minutes)
        assert timetable.fires_at(moment) == (timetable.next(moment - SECOND / 1_000_000) == moment)


@pytest.mark.parametrize(
    ("moment", "fires"),
    [(utc("2026-11-01 05:30"), True), (utc("2026-11-01 06:30"), False)],
    ids=["first pass", "second pass"],
)
def test_the_second_pass_of_a_repeated_hour_is_no_fire_time_of_a_fixed_crontab(moment: datetime, fires: bool) -> None:
    timetable = policy(cron("30 1 * * *"), NEW_YORK).timetable

    assert timetable.fires_at(moment) == fires


def test_a_solar_event_is_on_its_grid_and_other_seconds_are_not() -> None:
    sunset = policy(solar("sunset", 48.2, 16.4))
    first = sunset.timetable.next(LAST)
    assert first is not None
    whole = first.replace(microsecond=0)

    assert meant_fire_time(sunset, whole - 60 * SECOND, ours(LAST)) == first
