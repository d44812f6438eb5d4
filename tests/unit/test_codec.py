from __future__ import annotations

import json
from contextlib import suppress
from datetime import datetime, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from celery.schedules import BaseSchedule, crontab, schedule, solar
from dateutil.rrule import DAILY, FR, MO
from dateutil.rrule import rrule as dateutil_rrule
from hypothesis import given
from hypothesis import strategies as st
from moments import cron, utc
from redbeat.decoder import RedBeatJSONDecoder, RedBeatJSONEncoder
from redbeat.schedules import rrule as redbeat_rrule
from support.examples import examples

from redisbeater import clocked, rrule
from redisbeater.exceptions import InvalidEntry
from redisbeater.schedules.kinds import ScheduleCodec
from redisbeater.schedules.timetable import next_fire_time

UTC = timezone.utc
VIENNA = ZoneInfo("Europe/Vienna")


class Tide(BaseSchedule):
    """A custom schedule."""

    def __init__(self, minutes: int) -> None:
        super().__init__()
        self.minutes = minutes

    def to_redisbeater(self) -> dict[str, Any]:
        return {"minutes": self.minutes}

    @classmethod
    def from_redisbeater(cls, data: dict[str, Any]) -> Tide:
        return cls(data["minutes"])


class Weekend(crontab):
    """A subclass whose additions would not be stored."""


class Jittered(schedule):
    """A subclass whose additions would not be stored."""


TIDE = f"{Tide.__module__}.{Tide.__qualname__}"


def through_json(schedule_: Any, codec: ScheduleCodec) -> Any:
    """Return the schedule after storing and reading it."""
    return codec.decode(json.loads(json.dumps(codec.encode(schedule_), allow_nan=False)))


# -- round trips


@pytest.mark.parametrize(
    "schedule_",
    [
        pytest.param(schedule(60), id="interval"),
        pytest.param(schedule(timedelta(seconds=0.25)), id="interval-fraction"),
        pytest.param(schedule(timedelta(days=3), relative=True), id="interval-relative"),
        pytest.param(crontab(), id="crontab-every-minute"),
        pytest.param(cron("*/15 8-18/2 1,15 jan-mar mon-fri"), id="crontab-text"),
        pytest.param(crontab(minute=[0, 30], hour={1, 2}, day_of_month=(1, 2)), id="crontab-collections"),
        pytest.param(crontab(minute=5, hour=0), id="crontab-numbers"),
        pytest.param(rrule("DAILY", dtstart=utc("2026-01-01 09:00")), id="rrule"),
        pytest.param(rrule("DAILY", dtstart=utc("2026-01-01"), until=utc("2026-03-01")), id="rrule-until"),
        pytest.param(rrule("MONTHLY", dtstart=utc("2026-01-01"), byweekday=MO(+1)), id="rrule-first-monday"),
        pytest.param(rrule("MONTHLY", dtstart=utc("2026-01-01"), byweekday=[FR(-1), MO]), id="rrule-weekdays"),
        pytest.param(rrule("YEARLY", dtstart=utc("2026-01-01"), byeaster=0, bymonth=[3, 4]), id="rrule-easter"),
        pytest.param(rrule("WEEKLY", dtstart=utc("2026-01-01"), wkst=6, interval=2, count=5), id="rrule-count"),
        pytest.param(rrule("DAILY", dtstart=datetime(2026, 1, 1, 9, tzinfo=VIENNA)), id="rrule-in-a-zone"),
        pytest.param(clocked(datetime(2026, 1, 1, 9, 0, 0, 1)), id="clocked-naive"),
        pytest.param(clocked(datetime(2026, 1, 1, 9, tzinfo=VIENNA)), id="clocked-in-a-zone"),
        pytest.param(clocked(datetime(2026, 1, 1, 9, tzinfo=timezone(timedelta(hours=5.5)))), id="clocked-offset"),
        pytest.param(clocked(utc("2026-01-01")), id="clocked-utc"),
        pytest.param(solar("sunrise", 48.2, 16.4), id="solar"),
    ],
)
def test_a_schedule_comes_back_as_it_was(schedule_: BaseSchedule) -> None:
    codec = ScheduleCodec()

    read = through_json(schedule_, codec)

    assert read == schedule_
    assert codec.encode(read) == codec.encode(schedule_)


def test_a_relative_interval_comes_back_relative() -> None:
    assert through_json(schedule(60, relative=True), ScheduleCodec()).relative is True


def test_first_monday_comes_back_as_first_monday() -> None:
    rule = through_json(rrule("MONTHLY", dtstart=utc("2026-01-01"), byweekday=MO(+1)), ScheduleCodec())

    assert next_fire_time(rule, UTC, utc("2026-01-06")) == utc("2026-02-02")


def test_an_rrule_comes_back_in_its_zone() -> None:
    rule = through_json(rrule("DAILY", dtstart=datetime(2026, 1, 1, 9, tzinfo=VIENNA)), ScheduleCodec())

    assert next_fire_time(rule, UTC, utc("2026-07-01")) == utc("2026-07-01 07:00")


def test_a_repeated_time_comes_back_in_its_pass() -> None:
    once = clocked(datetime(2026, 10, 25, 2, 30, fold=1, tzinfo=VIENNA))

    assert through_json(once, ScheduleCodec()).fire_time(UTC) == utc("2026-10-25 01:30")


def test_a_registered_custom_schedule_comes_back() -> None:
    assert through_json(Tide(7), ScheduleCodec({TIDE: Tide})).minutes == 7


# -- as RedBeat


@pytest.mark.parametrize(
    "schedule_",
    [
        pytest.param(schedule(60), id="interval"),
        pytest.param(schedule(timedelta(seconds=0.5), relative=True), id="interval-relative"),
        pytest.param(crontab(), id="crontab-every-minute"),
        pytest.param(cron("*/15 8-18 1 jan mon-fri"), id="crontab-text"),
        pytest.param(crontab(minute=5, hour=0), id="crontab-numbers"),
    ],
)
def test_celery_s_schedules_are_stored_as_redbeat_stores_them(schedule_: BaseSchedule) -> None:
    assert json.dumps(ScheduleCodec().encode(schedule_)) == json.dumps(schedule_, cls=RedBeatJSONEncoder)


@pytest.mark.parametrize(
    "parts",
    [
        pytest.param({"freq": "DAILY"}, id="plain"),
        pytest.param({"freq": "WEEKLY", "interval": 2, "wkst": 6, "count": 10}, id="interval-and-count"),
        pytest.param({"freq": "MONTHLY", "byweekday": MO, "until": utc("2027-01-01")}, id="weekday-and-until"),
        pytest.param({"freq": "YEARLY", "bymonth": [1, 6], "byhour": 9, "bysetpos": -1}, id="lists"),
    ],
)
def test_an_rrule_in_utc_is_stored_as_redbeat_stores_it(parts: dict[str, Any]) -> None:
    start = utc("2026-01-01 09:00")
    theirs = json.dumps(redbeat_rrule(dtstart=start, **parts), cls=RedBeatJSONEncoder)

    assert json.dumps(ScheduleCodec().encode(rrule(dtstart=start, **parts))) == theirs


@pytest.mark.parametrize(
    "schedule_",
    [
        pytest.param(schedule(60), id="interval"),
        pytest.param(cron("*/15 8-18 1 jan mon-fri"), id="crontab"),
        pytest.param(crontab(minute=[0, 30]), id="crontab-list"),
    ],
)
def test_redbeat_reads_what_redisbeater_stores(schedule_: BaseSchedule) -> None:
    stored = json.dumps(ScheduleCodec().encode(schedule_))

    assert json.loads(stored, cls=RedBeatJSONDecoder) == schedule_


def test_redbeat_reads_an_rrule_of_redisbeater() -> None:
    rule = rrule("MONTHLY", dtstart=utc("2026-01-01 09:00"), byweekday=MO(+1), until=utc("2027-01-01"))

    theirs = json.loads(json.dumps(ScheduleCodec().encode(rule)), cls=RedBeatJSONDecoder)

    assert theirs.rrule.after(utc("2026-01-06")) == utc("2026-02-02 09:00")


def test_an_rrule_with_an_offset_that_redbeat_stored_is_read() -> None:
    start = datetime(2026, 1, 1, 9, tzinfo=timezone(timedelta(hours=2)))
    stored = json.dumps(redbeat_rrule("DAILY", dtstart=start, byweekday=[MO, FR]), cls=RedBeatJSONEncoder)

    assert ScheduleCodec().decode(json.loads(stored)) == rrule("DAILY", dtstart=start, byweekday=[MO, FR])


def test_fields_of_a_crontab_may_be_left_out() -> None:
    assert ScheduleCodec().decode({"__type__": "crontab", "minute": 0}) == crontab(minute=0)


def test_relative_may_be_left_out() -> None:
    assert ScheduleCodec().decode({"__type__": "interval", "every": 60}) == schedule(60)


# -- refused


@pytest.mark.parametrize(
    ("stored", "message"),
    [
        pytest.param(None, r"\$.schedule: expected an object with __type__, got None", id="null"),
        pytest.param(60, r"\$.schedule: expected an object with __type__, got 60", id="number"),
        pytest.param([], r"\$.schedule: expected an object", id="list"),
        pytest.param({}, r"\$.schedule.__type__: unknown type None", id="no-type"),
        pytest.param(
            {"__type__": "lunar"}, r"\$.schedule.__type__: unknown type 'lunar'.*interval, crontab", id="type"
        ),
        pytest.param({"__type__": ["interval"]}, r"\$.schedule.__type__: unknown type", id="type-is-a-list"),
        pytest.param({"__type__": "datetime"}, r"\$.schedule.__type__: unknown type 'datetime'", id="datetime"),
        pytest.param({"__type__": "clocked"}, r"\$.schedule.at: expected an object", id="clocked-without-at"),
        pytest.param(
            {"__type__": "clocked", "at": {"__type__": "datetime", "year": 2026, "month": 2, "day": 30}},
            r"\$.schedule.at: day is out of range for month|\$.schedule.at: day 30 must be in range",
            id="impossible-date",
        ),
        pytest.param(
            {
                "__type__": "clocked",
                "at": {"__type__": "datetime", "year": 2026, "month": 2, "day": 3, "timezone": "Europe/Wien"},
            },
            r"^\$.schedule.at.timezone: unknown time zone 'Europe/Wien'",
            id="unknown-zone",
        ),
        pytest.param(
            {"__type__": "solar", "event": "tea", "lat": 0, "lon": 0}, r"\$.schedule: solar: .*tea", id="solar"
        ),
        pytest.param({"__type__": "solar", "event": "sunset"}, r"\$.schedule: solar: ", id="solar-without-place"),
        pytest.param({"__type__": "solar", "nowfun": 1}, r"\$.schedule.nowfun: unknown field", id="solar-clock"),
        pytest.param({"__type__": "rrule", "freq": 3}, r"\$.schedule.dtstart: is missing", id="rrule-without-dtstart"),
        pytest.param({"__type__": "rrule", "freq": 9, "dtstart": 0}, r"\$.schedule: rrule: freq", id="rrule-freq"),
        pytest.param(
            {"__type__": "rrule", "freq": 3, "dtstart": 0, "interval": 0},
            r"\$.schedule: rrule: interval: expected a whole number above 0",
            id="rrule-that-never-advances",
        ),
        pytest.param(
            {"__type__": "rrule", "freq": 3, "dtstart": 0, "timezone": "Mars"},
            r"\$.schedule.timezone: unknown time zone 'Mars'",
            id="rrule-zone",
        ),
        pytest.param({"__type__": "rrule", "freq": 3, "dtstart": "x"}, r"\$.schedule: rrule: ", id="rrule-dtstart"),
        pytest.param({"__type__": "rrule", "freq": 3, "app": 1}, r"\$.schedule.app: unknown field", id="rrule-field"),
        pytest.param(
            {"__type__": "rrule", "freq": 3, "dtstart": 0, "byweekday": [{"n": 1}]},
            r"\$.schedule: rrule: 'wkday'",
            id="rrule-weekday",
        ),
        pytest.param(
            {"__type__": "rrule", "freq": {"wkday": 7}, "dtstart": 0},
            r"\$\.schedule\.freq: a weekday is no value of this part",
            id="rrule-weekday-as-freq",
        ),
        pytest.param(
            {"__type__": "rrule", "freq": 3, "dtstart": 0, "byyearday": [{"wkday": 7}]},
            r"\$\.schedule\.byyearday: a weekday is no value of this part",
            id="rrule-weekday-as-day",
        ),
        pytest.param(
            {"__type__": "rrule", "freq": 3, "dtstart": 0, "byweekday": [0, {"wkday": 7}]},
            r"\$\.schedule\.byweekday\.wkday: expected 0 \(Monday\) to 6, got 7",
            id="rrule-weekday-7",
        ),
        pytest.param(
            {"__type__": "rrule", "freq": 3, "dtstart": 0, "wkst": {"wkday": "x"}},
            r"\$\.schedule\.wkst\.wkday: expected 0 \(Monday\) to 6, got 'x'",
            id="rrule-weekday-text",
        ),
        pytest.param(
            {"__type__": "rrule", "freq": 3, "dtstart": 0, "byweekday": {"wkday": 1, "n": [1]}},
            r"\$\.schedule\.byweekday\.n: expected a whole number, got \[1\]",
            id="rrule-weekday-number",
        ),
    ],
)
def test_a_stored_schedule_that_cannot_be_read_is_refused(stored: Any, message: str) -> None:
    with pytest.raises(InvalidEntry, match=message):
        ScheduleCodec().decode(stored)


@pytest.mark.parametrize(
    "every",
    [None, "60", True, 0, -1, 1e-9, float("nan"), float("inf"), 1e300, 10**400, [60]],
    ids=["missing", "text", "true", "zero", "negative", "tiny", "nan", "inf", "huge", "huge-int", "list"],
)
def test_an_impossible_interval_is_refused(every: Any) -> None:
    with pytest.raises(InvalidEntry, match=r"^\$.schedule.every: expected seconds"):
        ScheduleCodec().decode({"__type__": "interval", "every": every})


@pytest.mark.parametrize(
    ("field", "value", "problem"),
    [
        pytest.param("minute", "60", "", id="minute-60"),
        pytest.param("minute", 60, "", id="minute-60-number"),
        pytest.param("minute", -1, "", id="minute-negative"),
        pytest.param("minute", "", "cannot read ''", id="empty"),
        pytest.param("minute", "x", "expected a number", id="letters"),
        pytest.param("minute", "1,,2", "cannot read '1,,2': a comma too many; leave it out", id="empty-part"),
        pytest.param("minute", "*/5,", r"cannot read '\*/5,': a comma too many; leave it out", id="last-comma"),
        pytest.param("minute", "*/0", "step in '\\*/0' must be", id="step-zero"),
        pytest.param("minute", "*/x", "step in '\\*/x' must be", id="step-letters"),
        pytest.param("minute", "*-5", "a range has two ends", id="range-from-star"),
        pytest.param("minute", "5 ", "cannot read", id="blank"),
        pytest.param("minute", 1.5, "expected a number, a text or a list", id="fraction"),
        pytest.param("minute", None, "expected a number, a text or a list", id="null"),
        pytest.param("minute", True, "expected a number, a text or a list", id="true"),
        pytest.param("minute", [], "expected a list of numbers", id="empty-list"),
        pytest.param("minute", ["5"], "expected a list of numbers", id="list-of-texts"),
        pytest.param("minute", [True], "expected a list of numbers", id="list-of-true"),
        pytest.param("minute", [61], "", id="list-out-of-range"),
        pytest.param("hour", "24", "", id="hour-24"),
        pytest.param("day_of_week", "MON#1", "cannot read 'MON#1'", id="first-monday-of-quartz"),
        pytest.param("day_of_week", "monkey", "expected a number or a name such as 'mon'", id="monkey"),
        pytest.param("day_of_week", "7", "", id="day-7"),
        pytest.param("day_of_month", "0", "", id="day-0"),
        pytest.param("day_of_month", "L", "expected a number", id="last-day-of-quartz"),
        pytest.param("month_of_year", "13", "", id="month-13"),
        pytest.param("month_of_year", "mon", "expected a number or a name such as 'feb'", id="weekday-as-month"),
        pytest.param("second", "0", "unknown field; a crontab has minute, hour", id="unknown-field"),
    ],
)
def test_a_crontab_field_that_cannot_be_read_is_named(field: str, value: Any, problem: str) -> None:
    with pytest.raises(InvalidEntry, match=rf"^\$\.schedule\.{field}: .*{problem}"):
        ScheduleCodec().decode({"__type__": "crontab", field: value})


@pytest.mark.parametrize(("day", "month"), [("30", "2"), ("31", "4,6"), (31, "feb"), ("30-31", [2])])
def test_a_crontab_without_a_possible_date_is_refused(day: Any, month: Any) -> None:
    with pytest.raises(InvalidEntry, match=r"^\$.schedule.day_of_month: "):
        ScheduleCodec().decode({"__type__": "crontab", "day_of_month": day, "month_of_year": month})


@pytest.mark.parametrize(("day", "month"), [("29", "2"), ("31", "2,3"), ("30,1", 2)])
def test_a_crontab_with_a_date_in_some_year_is_accepted(day: Any, month: Any) -> None:
    read = ScheduleCodec().decode({"__type__": "crontab", "day_of_month": day, "month_of_year": month})

    assert read == crontab(day_of_month=day, month_of_year=month)


def test_a_field_that_celery_reads_differently_is_refused_when_it_is_stored() -> None:
    with pytest.raises(InvalidEntry, match=r"^\$.schedule.day_of_week: cannot read 'monkey'"):
        ScheduleCodec().encode(crontab(day_of_week="monkey"))


@pytest.mark.parametrize(
    ("schedule_", "message"),
    [
        pytest.param("every day", r"\$.schedule: cannot store 'every day' \(str\); expected seconds", id="text"),
        pytest.param(None, r"\$.schedule: cannot store None", id="none"),
        pytest.param(crontab, r"\$.schedule: cannot store .*; it is a class: pass crontab\(...\)$", id="class"),
        pytest.param(
            dateutil_rrule(DAILY, dtstart=datetime(2026, 1, 1)),
            r"cannot store .*; for a rule of dateutil use rrule\(str\(rule\)\) of redisbeater$",
            id="dateutil",
        ),
        pytest.param(schedule(timedelta(0)), r"\$.schedule.every: expected seconds above 0", id="interval-zero"),
        pytest.param(schedule(timedelta(seconds=-5)), r"\$.schedule.every: ", id="interval-negative"),
        pytest.param(schedule(timedelta.max), r"\$.schedule.every: ", id="interval-endless"),
        pytest.param(BaseSchedule(), r"\$.schedule: cannot store .*redisbeater_schedule_classes", id="base-class"),
        pytest.param(
            Tide(7), r"\$.schedule: .*Tide is not registered; add it: redisbeater_schedule", id="unregistered"
        ),
        pytest.param(Weekend(minute=0), r"^\$.schedule: cannot store .*\(Weekend\); .*classes", id="own-crontab"),
        pytest.param(Jittered(60), r"^\$.schedule: cannot store .*\(Jittered\); .*classes", id="own-interval"),
        pytest.param(crontab(nowfun=Tide), r"^\$.schedule: nowfun .*give the entry a timezone=", id="crontab-nowfun"),
        pytest.param(schedule(60, nowfun=Tide), r"^\$.schedule: nowfun .*a timezone=", id="interval-nowfun"),
        pytest.param(
            rrule("DAILY", dtstart=datetime(2026, 1, 1, tzinfo=timezone.utc), nowfun=Tide),
            r"^\$.schedule: nowfun .*a timezone=",
            id="rrule-nowfun",
        ),
    ],
)
def test_a_schedule_that_cannot_be_stored_is_refused(schedule_: Any, message: str) -> None:
    with pytest.raises(InvalidEntry, match=message):
        ScheduleCodec().encode(schedule_)


@pytest.mark.parametrize("path", ["this.changed", "os.system", None, ["x"]], ids=repr)
def test_nothing_is_imported_from_data(path: Any, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "this_would_run.py").write_text("raise SystemExit")
    monkeypatch.syspath_prepend(tmp_path)
    stored = {"__type__": "custom", "import_path": path or "this_would_run.Tide", "data": {}}

    with pytest.raises(InvalidEntry, match=r"^\$.schedule.import_path: .* is not listed"):
        ScheduleCodec({TIDE: Tide}).decode(stored)


def test_an_error_of_a_custom_class_on_storing_is_reported_with_its_name() -> None:
    unfinished = Tide(7)
    del unfinished.minutes

    with pytest.raises(InvalidEntry, match=r"^\$.schedule: .*Tide.to_redisbeater: AttributeError: "):
        ScheduleCodec({TIDE: Tide}).encode(unfinished)


def test_an_error_of_a_custom_class_on_reading_is_reported_with_its_name() -> None:
    stored = {"__type__": "custom", "import_path": TIDE, "data": {}}

    with pytest.raises(InvalidEntry, match=r"^\$.schedule.data: .*Tide.from_redisbeater: KeyError: 'minutes'"):
        ScheduleCodec({TIDE: Tide}).decode(stored)


def test_a_custom_class_that_returns_no_schedule_is_named() -> None:
    class Forgetful(Tide):
        @classmethod
        def from_redisbeater(cls, data: Any) -> Any:
            cls(data)

    stored = {"__type__": "custom", "import_path": TIDE, "data": 5}

    with pytest.raises(
        InvalidEntry, match=r"^\$.schedule.data: .*Tide.from_redisbeater: expected a schedule, got None"
    ):
        ScheduleCodec({TIDE: Forgetful}).decode(stored)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-100, 100) | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda children: st.lists(children, max_size=3) | st.dictionaries(st.text(max_size=5), children, max_size=2),
    max_leaves=4,
)
fields = {
    "interval": ["every", "relative"],
    "crontab": ["minute", "hour", "day_of_week", "day_of_month", "month_of_year"],
    "rrule": ["freq", "dtstart", "dtstart_tz", "until", "interval", "count", "byhour", "byweekday", "timezone"],
    "clocked": ["at"],
    "solar": ["event", "lat", "lon", "nowfun", "app"],
    "custom": ["import_path", "data"],
}
stored_schedules = st.sampled_from(sorted(fields)).flatmap(
    lambda kind: st.dictionaries(st.sampled_from(fields[kind]), json_values).map(
        lambda data: {"__type__": kind, **data}
    )
)


@examples(400)
@given(stored=stored_schedules)
def test_whatever_is_stored_is_read_or_refused(stored: dict[str, Any]) -> None:
    codec = ScheduleCodec()
    with suppress(InvalidEntry):
        assert codec.encode(codec.decode(stored))["__type__"] == stored["__type__"]
