"""The fire times of an entry between its bounds: the first, the newest missed ones, the one at which it resumes."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone, tzinfo
from itertools import islice
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from celery.schedules import BaseSchedule, crontab, schedule
from hypothesis import given
from hypothesis import strategies as st
from moments import NEW_YORK, at, cron, sequence, utc
from support.examples import examples

from redisbeater import clocked, rrule
from redisbeater.schedules.budget import COUNTING_STEPS, SEARCHING_STEPS, Count, Steps
from redisbeater.schedules.timetable import Timetable, next_fire_time

UTC = timezone.utc
NOW = utc("2026-06-10 12:00")
MICROSECOND = timedelta(microseconds=1)


class Tide(BaseSchedule):
    """A custom schedule by Celery's contract: every 12 h 25 min, until a last one."""

    def __init__(self, first: datetime, last: datetime) -> None:
        super().__init__()
        self.first, self.last = first, last

    def remaining_estimate(self, last_run_at: datetime) -> timedelta | None:
        period = timedelta(hours=12, minutes=25)
        following = self.first + ((last_run_at - self.first) // period + 1) * period
        return None if following > self.last else following - self.now()


class Workdays(crontab):
    """A registered schedule of the application: a crontab that skips some dates."""

    rests = (datetime(2026, 6, 3).date(), datetime(2026, 6, 4).date())

    def remaining_estimate(self, last_run_at: datetime) -> timedelta:
        following = next_fire_time(crontab(minute=self._orig_minute, hour=self._orig_hour), self.tz, last_run_at)
        while following is not None and following.date() in self.rests:
            following = next_fire_time(crontab(minute=self._orig_minute, hour=self._orig_hour), self.tz, following)
        assert following is not None
        return following - self.now()

    def to_redisbeater(self) -> Any: ...


def timetable(schedule_: BaseSchedule, zone: tzinfo = UTC, start: str = "", end: str = "") -> Timetable:
    """Return a timetable for many searches."""
    return Timetable(
        schedule=schedule_,
        zone=zone,
        start_at=utc(start) if start else None,
        end_at=utc(end) if end else None,
        searching=Steps(100 * SEARCHING_STEPS),
        counting=Steps(1000 * COUNTING_STEPS),
    )


def following(table: Timetable, after: str, count: int = 3) -> list[datetime]:
    return list(islice(table.between(utc(after), utc("2100-01-01")), count))


# -- bounds


@pytest.mark.parametrize(
    ("schedule_", "start", "expected"),
    [
        pytest.param(schedule(3600), "2026-07-01 10:07", ["10:07", "11:07"], id="interval-begins-at-its-start"),
        pytest.param(cron("0 * * * *"), "2026-07-01 10:00", ["10:00", "11:00"], id="crontab-at-its-start"),
        pytest.param(cron("0 * * * *"), "2026-07-01 10:00:00.000001", ["11:00", "12:00"], id="crontab-just-before-it"),
        pytest.param(rrule("HOURLY", dtstart=utc("2026-01-01")), "2026-07-01 10:00", ["10:00", "11:00"], id="rrule"),
        pytest.param(clocked(utc("2026-07-01 10:00")), "2026-07-01 10:00", ["10:00"], id="clocked"),
        pytest.param(clocked(utc("2026-07-01 09:59")), "2026-07-01 10:00", [], id="clocked-before-it"),
        pytest.param(
            schedule(3600, relative=True), "2026-07-01 10:00", ["10:00", "11:00"], id="relative-interval-at-its-start"
        ),
    ],
)
def test_fire_times_begin_at_the_start_inclusive(schedule_: BaseSchedule, start: str, expected: list[str]) -> None:
    table = timetable(schedule_, start=start)

    assert following(table, "2026-06-10", len(expected) or 1) == [utc(f"2026-07-01 {time}") for time in expected]


@pytest.mark.parametrize(
    ("schedule_", "end", "expected"),
    [
        pytest.param(schedule(3600), "2026-06-10 14:00", ["13:00", "14:00"], id="interval-at-its-end"),
        pytest.param(schedule(3600), "2026-06-10 13:59:59.999999", ["13:00"], id="interval-just-past-it"),
        pytest.param(cron("0 * * * *"), "2026-06-10 14:00", ["13:00", "14:00"], id="crontab"),
        pytest.param(rrule("HOURLY", dtstart=utc("2026-01-01")), "2026-06-10 14:00", ["13:00", "14:00"], id="rrule"),
        pytest.param(clocked(utc("2026-06-10 14:00")), "2026-06-10 14:00", ["14:00"], id="clocked"),
        pytest.param(clocked(utc("2026-06-10 14:00")), "2026-06-10 13:59", [], id="clocked-past-it"),
        pytest.param(schedule(3600), "2026-06-10 11:00", [], id="past"),
    ],
)
def test_fire_times_end_at_the_end_inclusive(schedule_: BaseSchedule, end: str, expected: list[str]) -> None:
    assert following(timetable(schedule_, end=end), "2026-06-10 12:00") == [
        utc(f"2026-06-10 {time}") for time in expected
    ]


def test_bounds_that_hold_one_instant_hold_one_fire_time() -> None:
    one = timetable(schedule(3600), start="2026-07-01 10:07", end="2026-07-01 10:07")

    assert following(one, "2026-06-10") == [utc("2026-07-01 10:07")]


@pytest.mark.parametrize(
    ("instant", "includes", "is_past_end"),
    [
        pytest.param("2026-06-30 23:59:59.999999", False, False, id="before"),
        pytest.param("2026-07-01", True, False, id="at-the-start"),
        pytest.param("2026-07-02", True, False, id="at-the-end"),
        pytest.param("2026-07-02 00:00:00.000001", False, True, id="after"),
    ],
)
def test_which_instants_lie_between_the_bounds(instant: str, includes: bool, is_past_end: bool) -> None:
    bounded = timetable(schedule(60), start="2026-07-01", end="2026-07-02")

    assert (bounded.includes(utc(instant)), bounded.is_past_end(utc(instant))) == (includes, is_past_end)


@pytest.mark.parametrize("relative", [False, True])
def test_an_interval_fires_on_the_grid_of_its_start_whether_it_is_aligned_or_not(relative: bool) -> None:
    bounded = timetable(schedule(3600, relative=relative), start="2026-07-01 00:30")

    assert [bounded.is_on_given_grid(utc(f"2026-07-01 {time}")) for time in ("02:30", "03:00")] == [True, False]


def test_an_rrule_s_local_times_are_in_its_own_zone() -> None:
    vienna = ZoneInfo("Europe/Vienna")
    rule = rrule("DAILY", dtstart=datetime(2026, 7, 1, 9, tzinfo=vienna))

    assert timetable(rule, NEW_YORK).local_zone is vienna
    assert timetable(crontab(), NEW_YORK).local_zone is NEW_YORK


# -- the first fire time of a new entry


@pytest.mark.parametrize(
    ("schedule_", "expected"),
    [
        pytest.param(schedule(60), "2026-06-10 12:01", id="interval-after-one-interval"),
        pytest.param(cron("0 * * * *"), "2026-06-10 13:00", id="crontab-is-later-than-now"),
        pytest.param(clocked(utc("2026-06-11")), "2026-06-11", id="clocked-to-come"),
        pytest.param(clocked(utc("2026-06-10 11:59")), "2026-06-10 11:59", id="clocked-that-just-passed"),
        pytest.param(rrule("DAILY", dtstart=utc("2026-06-12")), "2026-06-12", id="rrule-to-come"),
        pytest.param(rrule("DAILY", dtstart=NOW), "2026-06-10 12:00", id="rrule-that-starts-now"),
        pytest.param(rrule("DAILY", dtstart=utc("2026-06-10 11:00")), "2026-06-10 11:00", id="rrule-just-started"),
        pytest.param(rrule("DAILY", dtstart=utc("2026-01-01")), "2026-06-11", id="rrule-going-for-long"),
        pytest.param(rrule("DAILY", dtstart=utc("2026-06-10"), count=1), "2026-06-10", id="rrule-of-one-just-passed"),
    ],
)
def test_the_first_fire_time_of_a_new_entry(schedule_: BaseSchedule, expected: str) -> None:
    assert timetable(schedule_).first(NOW) == utc(expected)


@pytest.mark.parametrize(
    ("schedule_", "start", "expected"),
    [
        pytest.param(schedule(3600), "2026-07-01 10:07", "2026-07-01 10:07", id="interval-to-come"),
        pytest.param(schedule(3600), "2026-06-10 12:00", "2026-06-10 12:00", id="interval-now"),
        pytest.param(schedule(3600), "2026-06-10 11:07", "2026-06-10 11:07", id="interval-just-begun"),
        pytest.param(schedule(3600), "2026-06-10 11:00", "2026-06-10 13:00", id="interval-with-a-second-one-now"),
        pytest.param(schedule(3600), "2026-06-01 10:07", "2026-06-10 12:07", id="interval-going-for-long"),
        pytest.param(cron("0 * * * *"), "2026-07-01 10:00", "2026-07-01 10:00", id="crontab-to-come"),
        pytest.param(cron("0 * * * *"), "2026-06-10 12:00", "2026-06-10 13:00", id="crontab-now-is-later-than-now"),
        pytest.param(cron("0 * * * *"), "2026-06-01", "2026-06-10 13:00", id="crontab-going-for-long"),
        pytest.param(
            rrule("DAILY", dtstart=utc("2026-06-10 11:00")),
            "2026-06-10 11:30",
            "2026-06-11 11:00",
            id="rrule-whose-first-lies-before-the-start",
        ),
    ],
)
def test_the_first_fire_time_with_a_start(schedule_: BaseSchedule, start: str, expected: str) -> None:
    assert timetable(schedule_, start=start).first(NOW) == utc(expected)


@pytest.mark.parametrize(
    ("schedule_", "end"),
    [
        pytest.param(rrule("DAILY", dtstart=utc("2026-01-01"), until=utc("2026-02-01")), "", id="rule-has-ended"),
        pytest.param(
            rrule("DTSTART:20260701T090000Z\nRRULE:FREQ=DAILY;COUNT=1\nEXDATE:20260701T090000Z"),
            "",
            id="rule-without-occurrences",
        ),
        pytest.param(schedule(3600), "2026-06-10 12:59", id="interval-ends-before"),
        pytest.param(cron("0 * * * *"), "2026-06-10 12:59", id="crontab-ends-before"),
        pytest.param(clocked(utc("2026-06-11")), "2026-06-10 23:59", id="one-off-past-the-end"),
    ],
)
def test_an_entry_that_never_fires_has_no_first_fire_time(schedule_: BaseSchedule, end: str) -> None:
    assert timetable(schedule_, end=end).first(NOW) is None


# -- late runs


@pytest.mark.parametrize(
    ("schedule_", "fire_time", "expected"),
    [
        pytest.param(schedule(60), "2026-06-10 11:58:30", "2026-06-10 11:59:30", id="interval"),
        pytest.param(schedule(60), "2026-06-10 11:59:30", "2026-06-10 11:59:30", id="interval-none-missed"),
        pytest.param(schedule(60), "2026-06-10 11:58:00", "2026-06-10 12:00", id="interval-due-this-instant"),
        pytest.param(schedule(1), "1996-06-10 12:00:00.5", "2026-06-10 11:59:59.5", id="a-second-for-thirty-years"),
        pytest.param(cron("*/10 * * * *"), "2020-01-01", "2026-06-10 12:00", id="crontab"),
        pytest.param(cron("0 0 29 2 *"), "2016-02-29", "2024-02-29", id="crontab-leap-day"),
        pytest.param(cron("0 9 * * *"), "2026-06-10 09:00", "2026-06-10 09:00", id="crontab-none-missed"),
        pytest.param(rrule("SECONDLY", dtstart=utc("1996-01-01")), "1996-01-01", "2026-06-10 12:00", id="rrule"),
        pytest.param(rrule("DAILY", dtstart=utc("2026-01-01"), count=9), "2026-01-01", "2026-01-09", id="rrule-ended"),
        pytest.param(clocked(utc("2026-01-01")), "2026-01-01", "2026-01-01", id="clocked"),
        pytest.param(Tide(utc("2026-06-01"), utc("2027-01-01")), "2026-06-01", "2026-06-10 07:30", id="custom"),
    ],
)
def test_the_newest_fire_time_that_has_passed(schedule_: BaseSchedule, fire_time: str, expected: str) -> None:
    assert timetable(schedule_).newest(utc(fire_time), NOW) == utc(expected)


@pytest.mark.parametrize("schedule_", [schedule(3600), cron("0 * * * *")], ids=["interval", "crontab"])
def test_the_newest_fire_time_is_not_past_the_end(schedule_: BaseSchedule) -> None:
    assert timetable(schedule_, end="2026-06-10 10:59").newest(utc("2026-06-10 08:00"), NOW) == utc("2026-06-10 10:00")


TABLES = pytest.mark.parametrize(
    "schedule_",
    [
        pytest.param(schedule(timedelta(minutes=97)), id="interval"),
        pytest.param(schedule(timedelta(hours=1), relative=True), id="relative-hour"),
        pytest.param(schedule(timedelta(hours=2), relative=True), id="relative-two-hours"),
        pytest.param(schedule(timedelta(days=2), relative=True), id="relative-two-days"),
        pytest.param(cron("0,30 1,2 * * *"), id="fixed-crontab"),
        pytest.param(cron("*/20 * * * *"), id="repeating-crontab"),
        pytest.param(rrule("DAILY", dtstart=datetime(2026, 1, 1, 2, 30, tzinfo=NEW_YORK)), id="rrule"),
        pytest.param(Tide(utc("2026-01-01"), utc("2027-01-01")), id="custom"),
        pytest.param(Workdays(minute="0", hour="9,10"), id="custom-crontab"),
    ],
)


@TABLES
@pytest.mark.parametrize("limit", [1, 3, 100, 1000])
def test_the_newest_fire_times_are_the_last_ones_found_by_stepping(schedule_: BaseSchedule, limit: int) -> None:
    table, now = timetable(schedule_, NEW_YORK), utc("2026-11-02 11:11")
    first = table.next(utc("2026-10-20"))
    assert first is not None
    coming = [first, *table.between(first, now)]

    assert table.newest_of(limit, first, now) == coming[-limit:]
    assert table.newest(first, now) == coming[-1]


@TABLES
def test_the_count_equals_the_number_found_by_stepping(schedule_: BaseSchedule) -> None:
    table, first = timetable(schedule_, NEW_YORK), utc("2026-10-20")
    coming = [first, *table.between(first, utc("2026-11-10"))]

    assert [table.count(first, last) for last in coming] == [Count(number) for number in range(1, len(coming) + 1)]


@pytest.mark.parametrize(
    ("schedule_", "first", "last", "expected"),
    [
        pytest.param(schedule(1), "1996-01-01", "2026-01-01", 30 * 365 * 86400 + 8 * 86400 + 1, id="interval"),
        pytest.param(cron("* * * * *"), "1996-01-01", "2026-01-01", 30 * 365 * 1440 + 8 * 1440 + 1, id="crontab"),
        pytest.param(
            rrule("SECONDLY", dtstart=utc("1996-01-01")),
            "1996-01-01",
            "2026-01-01",
            30 * 365 * 86400 + 8 * 86400 + 1,
            id="rrule",
        ),
        pytest.param(cron("0 * * * *"), "2026-06-10 09:34", "2026-06-10 11:00", 3, id="first-off-the-grid"),
        pytest.param(clocked(NOW), "2026-06-10 12:00", "2026-06-10 12:00", 1, id="one"),
    ],
)
def test_fire_times_are_counted_without_stepping(schedule_: BaseSchedule, first: str, last: str, expected: int) -> None:
    assert timetable(schedule_).count(utc(first), utc(last)) == Count(expected)


EXPRESSIONS = [
    "*/7 * * * *", "0 */5 * * *", "30 2 * * *", "0 0 1 * *", "30 1 * * 0", "0 0-23 * * *", "*/15 2 * * *",
    "0,30 0-3 * * *",
]  # fmt: skip
ZONES = [
    "America/New_York", "Europe/Dublin", "America/Santiago", "Australia/Lord_Howe", "Africa/Casablanca",
    "Antarctica/Troll", "Asia/Gaza", "Pacific/Chatham",
]  # fmt: skip


@examples(100)
@given(
    expression=st.sampled_from(EXPRESSIONS),
    zone=st.sampled_from(ZONES).map(ZoneInfo),
    start=st.datetimes(datetime(2026, 1, 1), datetime(2027, 1, 1), timezones=st.just(UTC)),
    hours=st.integers(0, 2000),
)
def test_newest_and_count_of_a_crontab_equal_those_found_by_stepping(
    expression: str, zone: ZoneInfo, start: datetime, hours: int
) -> None:
    now = start + timedelta(hours=hours)
    coming = [start, *sequence(lambda after: next_fire_time(cron(expression), zone, after), start, now + MICROSECOND)]

    table = timetable(cron(expression), zone)

    assert (table.newest(start, now), table.count(start, coming[-1])) == (coming[-1], Count(len(coming)))


@pytest.mark.parametrize(
    "schedule_",
    [
        pytest.param(schedule(timedelta(minutes=7), relative=True), id="relative-seven-minutes"),
        pytest.param(schedule(timedelta(seconds=7), relative=True), id="relative-seven-seconds"),
    ],
)
def test_a_restart_at_any_fire_time_does_not_change_the_following_ones(schedule_: BaseSchedule) -> None:
    table, first, now = timetable(schedule_), utc("2026-06-10 11:00"), utc("2026-06-10 12:34:56")

    newest = {table.newest(fire_time, now) for fire_time in [first, *table.between(first, now)]}

    assert len(newest) == 1


# -- resumed


def test_an_interval_is_brought_back_to_a_time_after_now() -> None:
    """Also where a whole number of intervals lies between, as under a clock that stands still."""
    brought_back = timetable(schedule(60)).brought_back(NOW + timedelta(hours=1), NOW)
    before_start = timetable(schedule(60), start="2026-06-10 12:05").brought_back(NOW + timedelta(hours=1), NOW)

    assert (brought_back, before_start) == (utc("2026-06-10 12:01"), utc("2026-06-10 12:05"))


@pytest.mark.parametrize(
    ("schedule_", "anchor", "expected"),
    [
        pytest.param(schedule(60), "2026-06-10 11:00:20", "2026-06-10 12:00:20", id="interval-on-its-old-grid"),
        pytest.param(schedule(1), "1996-06-10 12:00:00.5", "2026-06-10 12:00:00.5", id="a-second-for-thirty-years"),
        pytest.param(schedule(60), "2026-06-10 11:00:00", "2026-06-10 12:01", id="interval-not-at-this-instant"),
        pytest.param(schedule(3600), "2026-06-10 12:30", "2026-06-10 12:30", id="interval-planned-for-later"),
        pytest.param(cron("0 9 * * *"), "2026-01-01 09:00", "2026-06-11 09:00", id="crontab"),
        pytest.param(cron("0 9 * * *"), "2026-08-01 09:00", "2026-06-11 09:00", id="crontab-planned-for-later"),
        pytest.param(rrule("DAILY", dtstart=utc("2026-01-01")), "2026-01-01", "2026-06-11", id="rrule"),
        pytest.param(clocked(utc("2026-06-11")), "2026-06-11", "2026-06-11", id="clocked-to-come"),
    ],
)
def test_an_entry_resumes_after_now(schedule_: BaseSchedule, anchor: str, expected: str) -> None:
    assert timetable(schedule_).resumed(utc(anchor), NOW) == utc(expected)


@pytest.mark.parametrize(
    ("start", "end", "anchor", "expected"),
    [
        pytest.param("2026-06-10 08:07", "", "2026-06-10 09:07", "2026-06-10 12:07", id="on-the-grid-of-its-start"),
        pytest.param("2026-07-01 08:07", "", "2026-06-10 09:30", "2026-07-01 08:07", id="start-to-come"),
        pytest.param("2026-07-01 08:07", "", "2026-06-20 09:30", "2026-07-01 08:07", id="planned-before-its-start"),
        pytest.param("", "2026-06-10 12:30", "2026-06-10 09:45", None, id="ends-before"),
        pytest.param("", "2026-06-10 12:30", "2026-06-10 09:15", "2026-06-10 12:15", id="just-before-its-end"),
        pytest.param("", "2026-06-10 12:30", "2026-06-10 12:45", None, id="planned-past-its-end"),
        pytest.param("", "2026-06-10 11:00", "2026-06-10 09:15", None, id="has-ended"),
    ],
)
def test_an_interval_resumes_between_its_bounds(start: str, end: str, anchor: str, expected: str | None) -> None:
    resumed = timetable(schedule(3600), start=start, end=end).resumed(utc(anchor), NOW)

    assert resumed == (utc(expected) if expected else None)


def test_an_entry_without_an_earlier_plan_resumes_like_a_new_one() -> None:
    assert timetable(schedule(60)).resumed(None, NOW) == utc("2026-06-10 12:01")


def test_a_one_off_that_passed_does_not_resume() -> None:
    assert timetable(clocked(utc("2026-06-01"))).resumed(utc("2026-06-01"), NOW) is None


# -- restarted


@pytest.mark.parametrize(
    ("schedule_", "start", "last_run_at", "expected"),
    [
        pytest.param(schedule(3600), "", "2026-06-10 09:15", "2026-06-10 12:15", id="from-the-last-run"),
        pytest.param(schedule(3600), "2026-06-01 10:07", "2026-06-10 09:15", "2026-06-10 12:07", id="from-the-start"),
        pytest.param(schedule(3600), "2026-07-01 10:07", "2026-06-10 09:15", "2026-07-01 10:07", id="start-to-come"),
        pytest.param(cron("0 * * * *"), "2026-06-01", "2026-06-10 09:15", "2026-06-10 13:00", id="crontab"),
        pytest.param(cron("0 * * * *"), "2026-07-01", "2026-06-10 09:15", "2026-07-01", id="crontab-start-to-come"),
    ],
)
def test_a_changed_timetable_restarts_at(schedule_: BaseSchedule, start: str, last_run_at: str, expected: str) -> None:
    assert timetable(schedule_, start=start).restarted(utc(last_run_at), NOW) == utc(expected)


def test_a_start_in_the_middle_of_a_repeated_hour_is_that_instant() -> None:
    table = Timetable(schedule=cron("30 1 * * *"), zone=NEW_YORK, start_at=utc("2026-11-01 06:00"))

    assert table.next(utc("2026-10-31 12:00")) == at("2026-11-02 01:30")
