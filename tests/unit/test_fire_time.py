from __future__ import annotations

import pickle
from datetime import datetime, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from celery import Celery
from celery.schedules import BaseSchedule, crontab, schedule, solar
from dateutil.rrule import DAILY, FR, MO
from dateutil.rrule import rrule as dateutil_rrule
from hypothesis import assume, given
from hypothesis import strategies as st
from moments import NEW_YORK, at, local, sequence, utc
from support.examples import examples

from redisbeater import InvalidEntry, StoreUnavailable, clocked, rrule
from redisbeater.schedules.timetable import next_fire_time

UTC = timezone.utc
VIENNA = ZoneInfo("Europe/Vienna")


def upcoming(schedule_: BaseSchedule, zone: Any, after: datetime, count: int = 3) -> list[str]:
    """Return the next fire times as local times with offset."""
    found: list[str] = []
    fire_time = next_fire_time(schedule_, zone, after)
    while fire_time is not None and len(found) < count:
        found.append(local(fire_time, zone))
        fire_time = next_fire_time(schedule_, zone, fire_time)
    return found


class Tide(BaseSchedule):
    """A custom schedule by Celery's contract: every 12 h 25 min, until a last one."""

    def __init__(self, first: datetime, last: datetime, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.first, self.last = first, last

    def remaining_estimate(self, last_run_at: datetime) -> timedelta | None:
        period = timedelta(hours=12, minutes=25)
        following = self.first + ((last_run_at - self.first) // period + 1) * period
        return None if following > self.last else following - self.now()

    def is_due(self, last_run_at: datetime) -> tuple[bool, Any]:
        raise AssertionError("beat asks for the remaining time only")


# -- interval


@pytest.mark.parametrize("every", [timedelta(seconds=60), 60, 60.0], ids=["timedelta", "int", "float"])
def test_an_interval_counts_from_the_previous_fire_time(every: Any) -> None:
    fire_time = next_fire_time(schedule(every), UTC, utc("2026-01-01 00:00:07.5"))

    assert fire_time == utc("2026-01-01 00:01:07.5")


def test_an_interval_of_a_fraction_of_a_second_does_not_drift() -> None:
    fire_time = utc("2026-01-01")
    for _ in range(1000):
        fire_time = next_fire_time(schedule(timedelta(seconds=0.1)), UTC, fire_time)

    assert fire_time == utc("2026-01-01 00:01:40")


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        pytest.param("2026-03-07 12:00", "2026-03-08 13:00 -0400", id="gap"),
        pytest.param("2026-10-31 12:00", "2026-11-01 11:00 -0500", id="repeated-hour"),
    ],
)
def test_an_interval_of_a_day_is_24_elapsed_hours(after: str, expected: str) -> None:
    fire_time = next_fire_time(schedule(86400), NEW_YORK, at(after))

    assert local(fire_time, NEW_YORK) == expected


@pytest.mark.parametrize(
    ("every", "after", "expected"),
    [
        pytest.param(timedelta(days=1), "2026-01-01 09:41:07", "2026-01-02 00:00", id="days-at-midnight"),
        pytest.param(timedelta(hours=2), "2026-01-01 09:41:07", "2026-01-01 11:00", id="hours-on-the-hour"),
        pytest.param(timedelta(minutes=5), "2026-01-01 09:41:07", "2026-01-01 09:46", id="minutes-on-the-minute"),
        pytest.param(timedelta(seconds=5), "2026-01-01 09:41:07.25", "2026-01-01 09:41:12", id="whole-seconds"),
        pytest.param(timedelta(days=1), "2026-03-08 00:00", "2026-03-09 00:00", id="day-of-the-gap"),
        pytest.param(
            timedelta(days=1),
            "2026-11-01 00:00",
            "2026-11-02 00:00",
            id="day-of-the-repeated-hour",
        ),
    ],
)
def test_a_relative_interval_is_aligned_in_the_entry_s_zone(every: timedelta, after: str, expected: str) -> None:
    assert next_fire_time(schedule(every, relative=True), NEW_YORK, at(after)) == at(expected)


@pytest.mark.parametrize("seconds", [0.25, 1, 1.5, 90, 5400, 100_000])
def test_a_relative_interval_always_advances(seconds: float) -> None:
    relative = schedule(timedelta(seconds=seconds), relative=True)
    start = fire_time = utc("2026-01-01 00:00:00.5")
    for _ in range(20):
        fire_time = next_fire_time(relative, UTC, fire_time)

    assert fire_time - start >= timedelta(seconds=seconds) * 8


# -- crontab


def test_a_crontab_is_in_the_entry_s_zone() -> None:
    assert next_fire_time(crontab(minute=0, hour=9), VIENNA, utc("2026-07-01")) == utc("2026-07-01 07:00")


# -- clocked


@pytest.mark.parametrize(
    ("moment", "expected"),
    [
        pytest.param(datetime(2026, 7, 1, 9, tzinfo=VIENNA), "2026-07-01 07:00", id="aware"),
        pytest.param(datetime(2026, 7, 1, 9), "2026-07-01 13:00", id="naive-in-the-entry-s-zone"),
        pytest.param(datetime(2026, 3, 8, 2, 30), "2026-03-08 07:30", id="in-a-gap-the-offset-before-it"),
        pytest.param(datetime(2026, 11, 1, 1, 30), "2026-11-01 05:30", id="repeated-the-first"),
        pytest.param(datetime(2026, 7, 1, 9, 0, 0, 1), "2026-07-01 13:00:00.000001", id="microseconds"),
    ],
)
def test_a_clocked_entry_fires_at_its_time(moment: datetime, expected: str) -> None:
    assert next_fire_time(clocked(moment), NEW_YORK, utc("2026-01-01")) == utc(expected)


def test_a_clocked_entry_fires_once() -> None:
    once = clocked(datetime(2026, 7, 1, tzinfo=UTC))

    assert next_fire_time(once, UTC, utc("2026-07-01")) is None


def test_a_clocked_schedule_needs_a_datetime() -> None:
    with pytest.raises(TypeError, match="expected a datetime, got '2026-07-01'"):
        clocked("2026-07-01")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("now", "last_run_at", "due"),
    [
        pytest.param("2026-06-30", "2026-01-01", False, id="before"),
        pytest.param("2026-07-01", "2026-01-01", True, id="at-its-moment"),
        pytest.param("2026-07-02", "2026-07-01", False, id="already-run"),
    ],
)
def test_celery_learns_when_a_clocked_schedule_is_due(now: str, last_run_at: str, due: bool) -> None:
    app = Celery(set_as_current=False)
    once = clocked(datetime(2026, 7, 1, tzinfo=UTC), nowfun=lambda: utc(now), app=app)

    assert once.is_due(utc(last_run_at)).is_due is due


# -- rrule


def test_the_first_occurrence_of_an_rrule_counts() -> None:
    rule = rrule("DAILY", dtstart=utc("2026-01-05 09:00"))

    assert next_fire_time(rule, UTC, utc("2026-01-05 08:59:59")) == utc("2026-01-05 09:00")


def test_first_monday_stays_first_monday() -> None:
    rule = rrule("MONTHLY", dtstart=datetime(2026, 1, 1, 9, tzinfo=VIENNA), byweekday=MO(+1))

    assert upcoming(rule, VIENNA, utc("2026-01-01")) == [
        "2026-01-05 09:00 +0100",
        "2026-02-02 09:00 +0100",
        "2026-03-02 09:00 +0100",
    ]


def test_an_rrule_keeps_the_local_time_of_dtstart_across_a_shift() -> None:
    rule = rrule("DAILY", dtstart=datetime(2026, 3, 28, 9, tzinfo=VIENNA))

    assert upcoming(rule, VIENNA, utc("2026-03-28 08:00"), 2) == ["2026-03-29 09:00 +0200", "2026-03-30 09:00 +0200"]


def test_an_rrule_has_the_zone_of_dtstart_whatever_the_entry_s() -> None:
    rule = rrule("DAILY", dtstart=datetime(2026, 7, 1, 9, tzinfo=VIENNA))

    assert next_fire_time(rule, NEW_YORK, utc("2026-07-01 12:00")) == utc("2026-07-02 07:00")


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        pytest.param(
            datetime(2026, 3, 7, 2, 30, tzinfo=NEW_YORK),
            ["2026-03-07 02:30 -0500", "2026-03-08 03:30 -0400", "2026-03-09 02:30 -0400"],
            id="in-a-gap-the-offset-before-it",
        ),
        pytest.param(
            datetime(2026, 10, 31, 1, 30, tzinfo=NEW_YORK),
            ["2026-10-31 01:30 -0400", "2026-11-01 01:30 -0400", "2026-11-02 01:30 -0500"],
            id="repeated-the-first",
        ),
    ],
)
def test_an_rrule_reads_local_times_as_rfc_5545_does(start: datetime, expected: list[str]) -> None:
    before = start.astimezone(UTC) - timedelta(seconds=1)

    assert upcoming(rrule("DAILY", dtstart=start), NEW_YORK, before) == expected


def test_an_rrule_still_fires_a_time_in_a_gap_just_after_the_gap() -> None:
    rule = rrule("DAILY", dtstart=datetime(2026, 3, 7, 2, 30, tzinfo=NEW_YORK))

    assert next_fire_time(rule, NEW_YORK, at("2026-03-08 03:05")) == at("2026-03-08 03:30")


def test_an_rrule_fires_in_order_around_a_gap() -> None:
    rule = rrule("DAILY", dtstart=datetime(2026, 3, 8, 2, 0, tzinfo=NEW_YORK), byhour=[2, 3], byminute=[10, 50])
    found = sequence(lambda after: next_fire_time(rule, NEW_YORK, after), utc("2026-03-08"), utc("2026-03-08 09:00"))

    assert [local(fire_time, NEW_YORK)[11:16] for fire_time in found] == ["03:10", "03:50"]


def test_an_rrule_ends_after_its_count() -> None:
    rule = rrule("DAILY", dtstart=utc("2026-01-01"), count=3)

    assert next_fire_time(rule, UTC, utc("2026-01-03")) is None


def test_until_of_an_rrule_is_inclusive() -> None:
    rule = rrule("DAILY", dtstart=utc("2026-01-01"), until=utc("2026-01-03"))

    assert upcoming(rule, UTC, utc("2026-01-01 12:00")) == ["2026-01-02 00:00 +0000", "2026-01-03 00:00 +0000"]


def test_the_next_occurrence_of_an_old_rule_is_found_without_stepping() -> None:
    rule = rrule("SECONDLY", dtstart=utc("1970-01-01"), interval=7)
    after = utc("2026-01-01")

    fire_time = next_fire_time(rule, UTC, after)  # 250 million occurrences on: hours, one by one

    assert 0 < (fire_time - after).total_seconds() <= 7
    assert (fire_time - utc("1970-01-01")).total_seconds() % 7 == 0


rules = st.one_of(
    st.fixed_dictionaries(
        {"freq": st.just("WEEKLY"), "interval": st.integers(1, 5)},
        optional={
            "byweekday": st.lists(st.integers(0, 6), min_size=1, max_size=3, unique=True),
            "wkst": st.integers(0, 6),
            "bymonth": st.integers(1, 12),
            "byhour": st.lists(st.integers(0, 23), min_size=1, max_size=2, unique=True),
        },
    ),
    st.fixed_dictionaries(
        {"freq": st.just("DAILY"), "interval": st.integers(1, 40)},
        optional={
            "byweekday": st.lists(st.integers(0, 6), min_size=4, max_size=6, unique=True),
            "byhour": st.lists(st.integers(0, 23), min_size=2, max_size=3, unique=True),
            "bysetpos": st.just(-1),
        },
    ),
    st.fixed_dictionaries(
        {"freq": st.just("HOURLY"), "interval": st.integers(1, 50)},
        optional={"byminute": st.lists(st.integers(0, 59), min_size=1, max_size=2, unique=True)},
    ),
    st.fixed_dictionaries({"freq": st.just("MINUTELY"), "interval": st.integers(30, 2000)}),
    st.fixed_dictionaries({"freq": st.sampled_from(["MONTHLY", "YEARLY"]), "interval": st.integers(1, 3)}),
)


@examples(150)
@given(parts=rules, minutes=st.integers(0, 400 * 24 * 60))
def test_a_rule_has_the_occurrences_that_dateutil_finds_from_its_start(parts: dict[str, Any], minutes: int) -> None:
    if "bysetpos" in parts and "byhour" not in parts:
        del parts["bysetpos"]
    start = utc("2025-01-03 04:05:06")
    after = start + timedelta(minutes=minutes)
    if parts["freq"] == "DAILY" and parts["interval"] % 7 == 0:
        assume(start.weekday() in parts.get("byweekday", range(7)))  # refused otherwise: it never matches
    rule = rrule(dtstart=start, **parts)

    oracle = dateutil_rrule(rule.freq, dtstart=start, **{k: v for k, v in parts.items() if k != "freq"})
    assert next_fire_time(rule, UTC, after) == oracle.after(after)


@pytest.mark.parametrize("interval", [0, -1, 1.5, "2", True], ids=repr)
def test_an_rrule_without_a_positive_interval_is_refused(interval: Any) -> None:
    with pytest.raises(ValueError, match="interval: expected a whole number above 0"):
        rrule("DAILY", dtstart=utc("2026-01-01"), interval=interval)


@pytest.mark.parametrize("freq", ["FORTNIGHTLY", "", 7, -1, True, None], ids=repr)
def test_an_unknown_frequency_is_refused(freq: Any) -> None:
    with pytest.raises(ValueError, match="expected one of YEARLY, MONTHLY"):
        rrule(freq, dtstart=utc("2026-01-01"))


def test_a_frequency_may_be_a_name_or_dateutil_s_number() -> None:
    assert rrule("daily", dtstart=utc("2026-01-01")) == rrule(DAILY, dtstart=utc("2026-01-01"))


def test_celery_gets_the_time_until_the_next_occurrence() -> None:
    app = Celery(set_as_current=False)
    rule = rrule("DAILY", dtstart=utc("2026-01-01"), nowfun=lambda: utc("2026-01-01 18:00"), app=app)

    assert rule.is_due(utc("2026-01-01")) == (False, 6 * 3600)


@pytest.mark.parametrize(
    "schedule_",
    [
        pytest.param(rrule("MONTHLY", dtstart=utc("2026-01-01"), byweekday=FR(-1)), id="rrule"),
        pytest.param(clocked(datetime(2026, 1, 1, 9)), id="clocked"),
    ],
)
def test_clocked_and_rrule_survive_pickling(schedule_: BaseSchedule) -> None:
    assert pickle.loads(pickle.dumps(schedule_)) == schedule_


# -- solar and custom


def test_the_sun_rises_once_a_day() -> None:
    sunrise = solar("sunrise", 48.2, 16.4)
    found = sequence(lambda after: next_fire_time(sunrise, UTC, after), utc("2026-03-01"), utc("2026-04-01"))

    assert [fire_time.day for fire_time in found] == list(range(1, 32))
    assert {fire_time.hour for fire_time in found} == {4, 5}


def test_a_custom_schedule_is_asked_by_celery_s_contract() -> None:
    tide = Tide(utc("2026-01-01"), utc("2026-01-02 02:00"))

    assert upcoming(tide, UTC, utc("2026-01-01")) == ["2026-01-01 12:25 +0000", "2026-01-02 00:50 +0000"]


def test_asking_a_custom_schedule_does_not_change_its_clock() -> None:
    tide = Tide(utc("2026-01-01"), utc("2027-01-01"), nowfun=lambda: utc("2020-01-01"))

    next_fire_time(tide, UTC, utc("2026-01-01"))

    assert tide.now() == utc("2020-01-01")


def test_a_custom_schedule_that_does_not_advance_has_finished() -> None:
    class Once(BaseSchedule):
        def remaining_estimate(self, last_run_at: datetime) -> timedelta:
            return datetime(2026, 1, 1, tzinfo=timezone.utc) - self.now()

    before, after = datetime(2025, 12, 31, tzinfo=timezone.utc), datetime(2026, 1, 2, tzinfo=timezone.utc)
    assert next_fire_time(Once(), timezone.utc, before) == datetime(2026, 1, 1, tzinfo=timezone.utc)
    assert next_fire_time(Once(), timezone.utc, datetime(2026, 1, 1, tzinfo=timezone.utc)) is None
    assert next_fire_time(Once(), timezone.utc, after) is None


class Answering(BaseSchedule):
    """A custom schedule that raises, or returns something, when it is asked how long it waits."""

    def __init__(self, answer: Any) -> None:
        super().__init__()
        self.answer = answer

    def remaining_estimate(self, last_run_at: datetime) -> Any:
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer


@pytest.mark.parametrize(
    "error", [ZeroDivisionError("no tide"), OverflowError("no tide"), StoreUnavailable("no tide")], ids=repr
)
def test_whatever_the_class_of_a_schedule_raises_is_an_invalid_schedule(error: Exception) -> None:
    with pytest.raises(InvalidEntry, match=rf"^\$\.schedule: {type(error).__name__}: no tide$") as raised:
        next_fire_time(Answering(error), UTC, utc("2026-01-01"))

    assert raised.value.__cause__ is error


@pytest.mark.parametrize("answer", ["soon", 60, float("nan")], ids=repr)
def test_a_schedule_that_returns_no_wait_is_invalid(answer: Any) -> None:
    with pytest.raises(InvalidEntry, match=r"^\$\.schedule: TypeError: "):
        next_fire_time(Answering(answer), UTC, utc("2026-01-01"))


def test_what_celery_raises_for_a_solar_schedule_is_an_invalid_schedule() -> None:
    with pytest.raises(InvalidEntry, match=r"^\$\.schedule: ValueError: year 10000"):
        next_fire_time(solar("sunset", 48.2, 16.4), UTC, datetime(9999, 12, 31, 23, tzinfo=timezone.utc))


def test_an_interrupt_within_the_class_of_a_schedule_is_no_error_of_it() -> None:
    with pytest.raises(KeyboardInterrupt):
        next_fire_time(Answering(KeyboardInterrupt()), UTC, utc("2026-01-01"))
