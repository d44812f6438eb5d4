"""Start, end, additional and excluded dates of a rule are instants, whatever the clock shows then."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator
from datetime import date, datetime, timedelta, timezone
from functools import cache
from itertools import islice
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from dateutil.rrule import DAILY, HOURLY, MINUTELY, MONTHLY, WEEKLY, YEARLY, weekday
from hypothesis import assume, given
from hypothesis import strategies as st
from moments import NEW_YORK, utc
from rrule_oracle import SHIFTS, WallClock, expected, from_any
from support.examples import same_examples

from redisbeater import rrule
from redisbeater.exceptions import InvalidEntry
from redisbeater.schedules.budget import Count, Steps
from redisbeater.schedules.kinds import ScheduleCodec
from redisbeater.schedules.timetable import Timetable

UTC = timezone.utc

#: How many fire times of a rule are compared from its start on.
MOST = 60

many = same_examples(60)


def of(*lines: str) -> rrule:
    return rrule("\n".join(lines))


def saved(rule: rrule) -> Any:
    codec = ScheduleCodec()
    return codec.decode(json.loads(json.dumps(codec.encode(rule))))


def fire_times(rule: rrule, after: datetime) -> Iterator[datetime]:
    following = rule.next_fire_time(after)
    while following is not None:
        yield following
        following = rule.next_fire_time(following)


def shown(rule: rrule, after: str, count: int) -> list[str]:
    """Return the next fire times in UTC; assert that the saved rule has the same."""
    found = list(islice(fire_times(rule, utc(after)), count))
    assert list(islice(fire_times(saved(rule), utc(after)), count)) == found
    assert pickle.loads(pickle.dumps(rule)) == saved(rule) == rule
    return [f"{instant:%m-%d %H:%M}" for instant in found]


# -- the start

GAP_START = datetime(2027, 3, 14, 2, 30)
SECOND_PASS = utc("2026-11-01 06:30")


def in_new_york(freq: str, dtstart: datetime, **parts: Any) -> rrule:
    return rrule(freq, dtstart=dtstart, timezone="America/New_York", **parts)


@pytest.mark.parametrize(
    ("rule", "after", "times"),
    [
        pytest.param(in_new_york("DAILY", GAP_START), "2027-03-01", ["03-14 07:30", "03-15 06:30"], id="gap-parts"),
        pytest.param(in_new_york("FREQ=DAILY", GAP_START), "2027-03-01", ["03-14 07:30", "03-15 06:30"], id="gap-text"),
        pytest.param(
            rrule("DAILY", dtstart=GAP_START.replace(tzinfo=NEW_YORK, fold=1)),
            "2027-03-01",
            ["03-14 07:30", "03-15 06:30"],
            id="gap-by-the-later-offset",
        ),
        pytest.param(
            in_new_york("FREQ=MINUTELY;INTERVAL=30", GAP_START),
            "2027-03-14",
            ["03-14 07:30", "03-14 08:00"],
            id="03:00-is-before-a-start-at-02:30",
        ),
        pytest.param(
            in_new_york("DAILY", SECOND_PASS), "2026-10-01", ["11-01 06:30", "11-02 06:30"], id="second-parts"
        ),
        pytest.param(
            in_new_york("FREQ=DAILY", SECOND_PASS), "2026-10-01", ["11-01 06:30", "11-02 06:30"], id="second-text"
        ),
        pytest.param(
            in_new_york("DAILY", datetime(2026, 11, 1, 1, 30, fold=1)),
            "2026-10-01",
            ["11-01 06:30", "11-02 06:30"],
            id="second-by-fold",
        ),
        pytest.param(
            in_new_york("FREQ=MINUTELY;INTERVAL=20", SECOND_PASS),
            "2026-10-01",
            ["11-01 06:30", "11-01 06:50", "11-01 07:10"],
            id="second-pass-goes-on",
        ),
        pytest.param(
            in_new_york("FREQ=MINUTELY;INTERVAL=20;COUNT=2", SECOND_PASS),
            "2026-10-01",
            ["11-01 06:30", "11-01 06:50"],
            id="second-pass-counts",
        ),
        pytest.param(
            in_new_york("FREQ=DAILY", datetime(2026, 11, 1, 1, 30)),
            "2026-10-01",
            ["11-01 05:30", "11-02 06:30"],
            id="first",
        ),
        pytest.param(
            of("DTSTART:20260102T090000Z", "RRULE:FREQ=DAILY;COUNT=1", "RDATE:20260101T090000Z"),
            "2025-12-01",
            ["01-02 09:00"],
            id="rdate-before-the-start",
        ),
    ],
)
def test_a_start_is_an_instant_before_which_nothing_fires(rule: rrule, after: str, times: list[str]) -> None:
    assert shown(rule, after, len(times)) == times
    assert f"{rule.first_occurrence():%m-%d %H:%M}" == times[0]


def test_a_start_that_the_clock_skips_is_stored_with_its_local_time() -> None:
    stored = ScheduleCodec().encode(in_new_york("DAILY", GAP_START))

    assert stored["dtstart"] == utc("2027-03-14 07:30").timestamp()
    assert (stored["dtstart_local"], stored["timezone"]) == ("20270314T023000", "America/New_York")


def test_a_start_that_exists_is_stored_in_the_form_of_redbeat() -> None:
    stored = ScheduleCodec().encode(in_new_york("DAILY", datetime(2027, 3, 13, 2, 30)))

    assert "dtstart_local" not in stored


def test_a_start_in_a_second_pass_is_stored_in_utc_with_its_zone() -> None:
    assert ScheduleCodec().encode(in_new_york("FREQ=DAILY", SECOND_PASS)) == {
        "__type__": "rrule",
        "text": "DTSTART:20261101T063000Z\nRRULE:FREQ=DAILY",
        "timezone": "America/New_York",
    }


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"dtstart_local": "20270314T033001"}, r"\$.schedule.dtstart_local: is not the instant of dtstart"),
        ({"dtstart_local": "soon"}, r"\$.schedule.dtstart_local: local time: expected a time such as"),
        ({"dtstart_local": 5}, r"\$.schedule.dtstart_local: "),
    ],
)
def test_a_local_start_that_is_not_the_start_is_refused(fields: dict[str, Any], message: str) -> None:
    stored = {**ScheduleCodec().encode(in_new_york("DAILY", GAP_START)), **fields}

    with pytest.raises(InvalidEntry, match=message):
        ScheduleCodec().decode(stored)


@pytest.mark.parametrize("zone", ["Mars/Olympus", 5, ["UTC"]])
def test_a_wrong_zone_beside_a_text_is_refused(zone: Any) -> None:
    with pytest.raises(InvalidEntry, match=r"\$.schedule.timezone: unknown time zone"):
        ScheduleCodec().decode({"__type__": "rrule", "text": "DTSTART:20261101T063000Z\nFREQ=DAILY", "timezone": zone})


def test_starts_in_the_two_passes_differ() -> None:
    first, second = (in_new_york("DAILY", datetime(2026, 11, 1, 1, 30, fold=fold)) for fold in (0, 1))

    assert first != second
    assert saved(second) == second


# -- the end

DAILY_0230 = "DTSTART;TZID=America/New_York:20260306T023000"
DAILY_0130 = "DTSTART;TZID=America/New_York:20261030T013000"


@pytest.mark.parametrize(
    ("lines", "times"),
    [
        pytest.param(
            (DAILY_0230, "RRULE:FREQ=DAILY;UNTIL=20260308T070000Z"), ["03-06 07:30", "03-07 07:30"], id="gap-before"
        ),
        pytest.param(
            (DAILY_0230, "RRULE:FREQ=DAILY;UNTIL=20260308T073000Z"),
            ["03-06 07:30", "03-07 07:30", "03-08 07:30"],
            id="gap-at",
        ),
        pytest.param(
            (DAILY_0230, "RRULE:FREQ=DAILY;UNTIL=20260308T023000"),
            ["03-06 07:30", "03-07 07:30", "03-08 07:30"],
            id="gap-in-local-time",
        ),
        pytest.param(
            (DAILY_0230, "RRULE:FREQ=DAILY;BYHOUR=2,3;BYMINUTE=10;UNTIL=20260308T070000Z"),
            ["03-06 08:10", "03-07 07:10", "03-07 08:10"],
            id="gap-hides-nothing-that-follows",
        ),
        pytest.param(
            (DAILY_0230, "RRULE:FREQ=DAILY;BYHOUR=2,3;BYMINUTE=0;UNTIL=20260308T070000Z"),
            ["03-06 08:00", "03-07 07:00", "03-07 08:00", "03-08 07:00"],
            id="gap-both-at-once",
        ),
        pytest.param(
            (DAILY_0130, "RRULE:FREQ=DAILY;UNTIL=20261101T060000Z"),
            ["10-30 05:30", "10-31 05:30", "11-01 05:30"],
            id="second-pass",
        ),
        pytest.param(
            (DAILY_0130, "RRULE:FREQ=DAILY;UNTIL=20261101T052900Z"), ["10-30 05:30", "10-31 05:30"], id="first-pass"
        ),
        pytest.param(
            (DAILY_0130, "RRULE:FREQ=DAILY;UNTIL=20261031T000000Z", "RRULE:FREQ=DAILY;INTERVAL=2;COUNT=2"),
            ["10-30 05:30", "11-01 05:30"],
            id="each-rule-has-its-own",
        ),
    ],
)
def test_until_is_an_instant(lines: tuple[str, ...], times: list[str]) -> None:
    assert shown(of(*lines), "2026-01-01", len(times) + 1) == times


def test_until_by_parts_is_an_instant() -> None:
    gap = in_new_york("DAILY", datetime(2026, 3, 6, 2, 30), until=utc("2026-03-08 07:00"))
    repeated = in_new_york("DAILY", datetime(2026, 10, 30, 1, 30), until=utc("2026-11-01 06:00"))

    assert shown(gap, "2026-01-01", 3) == ["03-06 07:30", "03-07 07:30"]
    assert shown(repeated, "2026-01-01", 4) == ["10-30 05:30", "10-31 05:30", "11-01 05:30"]


# -- dates


@pytest.mark.parametrize(
    ("lines", "times"),
    [
        pytest.param(
            (DAILY_0130, "RRULE:FREQ=DAILY;COUNT=4", "EXDATE:20261101T063000Z"),
            ["10-30 05:30", "10-31 05:30", "11-01 05:30", "11-02 06:30"],
            id="second-pass-excluded",
        ),
        pytest.param(
            (DAILY_0130, "RRULE:FREQ=DAILY;COUNT=4", "EXDATE:20261101T053000Z"),
            ["10-30 05:30", "10-31 05:30", "11-02 06:30"],
            id="first-pass-excluded",
        ),
        pytest.param(
            (DAILY_0130, "RDATE:20261101T053000Z,20261101T063000Z", "EXDATE:20261101T053000Z"),
            ["11-01 06:30"],
            id="one-of-two-dates-excluded",
        ),
        pytest.param(
            (DAILY_0130, "RDATE:20261101T053000Z,20261101T063000Z", "EXDATE:20261101T063000Z"),
            ["11-01 05:30"],
            id="the-other-of-two-dates-excluded",
        ),
        pytest.param(
            (DAILY_0130, "RRULE:FREQ=DAILY;COUNT=3", "RDATE:20261101T063000Z"),
            ["10-30 05:30", "10-31 05:30", "11-01 05:30", "11-01 06:30"],
            id="date-in-the-second-pass",
        ),
        pytest.param(
            (DAILY_0230, "RRULE:FREQ=DAILY;COUNT=4", "EXDATE:20260308T073000Z"),
            ["03-06 07:30", "03-07 07:30", "03-09 06:30"],
            id="moved-by-the-gap-excluded-in-utc",
        ),
        pytest.param(
            (DAILY_0230, "RRULE:FREQ=DAILY;COUNT=4", "EXDATE;TZID=America/New_York:20260308T033000"),
            ["03-06 07:30", "03-07 07:30", "03-09 06:30"],
            id="moved-by-the-gap-excluded-by-what-the-clock-shows",
        ),
        pytest.param(
            (DAILY_0230, "RRULE:FREQ=DAILY;COUNT=4", "EXDATE;TZID=America/New_York:20260308T023000"),
            ["03-06 07:30", "03-07 07:30", "03-09 06:30"],
            id="moved-by-the-gap-excluded-by-its-local-time",
        ),
        pytest.param(
            (DAILY_0230, "RRULE:FREQ=DAILY;COUNT=3;BYHOUR=2,3", "EXDATE:20260308T073000Z"),
            ["03-06 07:30", "03-06 08:30", "03-07 07:30"],
            id="counted-all-the-same",
        ),
        pytest.param(
            (DAILY_0230, "RRULE:FREQ=DAILY;COUNT=2", "RDATE;TZID=America/New_York:20260308T023000"),
            ["03-06 07:30", "03-07 07:30", "03-08 07:30"],
            id="date-in-the-gap",
        ),
    ],
)
def test_dates_are_instants(lines: tuple[str, ...], times: list[str]) -> None:
    assert shown(of(*lines), "2026-01-01", len(times) + 1)[: len(times)] == times


def test_an_excluded_second_pass_is_stored_in_utc() -> None:
    rule = of(DAILY_0130, "RRULE:FREQ=DAILY", "EXDATE:20261101T053000Z,20261101T063000Z")

    assert (rule.text or "").splitlines()[2:] == [
        "EXDATE;TZID=America/New_York:20261101T013000",
        "EXDATE:20261101T063000Z",
    ]


# -- wherever one starts to look


@pytest.mark.parametrize("after", ["1993-08-21 00:00", "1993-08-21 12:00", "1993-08-22 03:00", "1993-08-22 03:02:59"])
def test_a_date_that_does_not_exist_fires_wherever_one_starts_to_look(after: str) -> None:
    rule = rrule("FREQ=WEEKLY;INTERVAL=5;COUNT=1", dtstart=datetime(1993, 8, 21, 15, 3), timezone="Pacific/Kwajalein")

    assert rule.next_fire_time(utc(after)) == utc("1993-08-22 03:03")


def test_a_second_pass_in_which_nothing_fires_costs_no_more_than_any_other_hour() -> None:
    steps = Steps()
    rule = rrule("SECONDLY", dtstart=datetime(2026, 1, 1), timezone="America/New_York")

    assert rule.next_fire_time(utc("2026-11-01 06:00"), steps) == utc("2026-11-01 07:00")
    assert steps.taken < 500


# -- weeks


@cache
def weeks_of(year: int, wkst: int) -> list[list[date]]:
    """Return the weeks of a year: the first is the one with four days or more in it."""
    day = date(year, 1, 1) - timedelta(days=6)
    while day.weekday() != wkst or sum((day + timedelta(days=k)).year == year for k in range(7)) < 4:
        day += timedelta(days=1)
    weeks = []
    while (day + timedelta(days=3)).year == year:
        weeks.append([day + timedelta(days=k) for k in range(7)])
        day += timedelta(days=7)
    return weeks


@pytest.mark.parametrize("freq", ["YEARLY", "WEEKLY", "DAILY"])
@pytest.mark.parametrize("wkst", range(7), ids=["MO", "TU", "WE", "TH", "FR", "SA", "SU"])
@pytest.mark.parametrize("number", [53, 52, 1, -1, -52, -53])
def test_weeks_at_the_turn_of_the_year_are_those_of_rfc_5545(number: int, wkst: int, freq: str) -> None:
    rule = rrule(freq, dtstart=datetime(2018, 6, 1), timezone="UTC", byweekno=number, wkst=wkst, byweekday=[4, 0, 6])
    weeks = [weeks_of(year, wkst) for year in range(2017, 2080)]
    listed = [of_year[number - (number > 0)] for of_year in weeks if len(of_year) >= abs(number)]
    days = sorted(day for week in listed for day in week if day.weekday() in (4, 0, 6))

    found = [moment.date() for moment in islice(fire_times(rule, utc("2018-06-01")), 24)]

    assert found == [day for day in days if day > date(2018, 6, 1)][:24]


@pytest.mark.parametrize(
    ("rule", "after", "days"),
    [
        ("WKST=SU;BYWEEKNO=52;BYDAY=FR,SA", "2026-12-28", ["2027-01-01", "2027-01-02", "2027-12-31"]),
        ("WKST=SU;BYWEEKNO=53;BYDAY=FR,SA", "2026-12-28", ["2032-01-02", "2032-01-03"]),
        ("BYWEEKNO=53;BYDAY=SA", "2021-12-01", ["2027-01-02", "2033-01-01"]),
        ("BYWEEKNO=-53;BYDAY=MO,TU", "2025-06-01", ["2025-12-29", "2025-12-30"]),
    ],
)
def test_week_52_ends_in_january(rule: str, after: str, days: list[str]) -> None:
    found = fire_times(rrule(f"FREQ=YEARLY;{rule}", dtstart=datetime(2020, 1, 1), timezone="UTC"), utc(after))

    assert [f"{moment:%Y-%m-%d}" for moment in islice(found, len(days))] == days


# -- against an oracle that reads the clock

minutes = st.one_of(st.sampled_from([0, 30, 59]), st.integers(0, 59))
hours_of_day = st.lists(st.one_of(st.integers(0, 4), st.integers(0, 23)), min_size=1, max_size=4, unique=True)
minutes_of_hour = st.lists(minutes, min_size=1, max_size=3, unique=True)
some_days = st.lists(st.integers(0, 6), min_size=2, max_size=6, unique=True)


def parts_of(freq: int, longest: int, **optional: st.SearchStrategy[Any]) -> Any:
    by_time = {"byhour": hours_of_day, "byminute": minutes_of_hour, "count": st.integers(1, 60)}
    return st.fixed_dictionaries(
        {"freq": st.just(freq), "interval": st.integers(1, longest), "bysecond": st.just(0)},
        optional={**by_time, **optional},
    )


rule_parts = st.one_of(
    parts_of(MINUTELY, 90).map(lambda parts: {**parts, "interval": parts["interval"] + 9}),
    parts_of(MINUTELY, 20).map(lambda parts: {**parts, "byhour": [1, 2]}),
    parts_of(HOURLY, 3, byweekday=some_days),
    parts_of(DAILY, 2, byweekday=some_days),
    parts_of(DAILY, 1, bysetpos=st.sampled_from([-1, 2])),
    parts_of(WEEKLY, 1, byweekday=some_days),
    parts_of(MONTHLY, 1, bymonthday=st.just(range(1, 32))),
    parts_of(YEARLY, 1, byweekday=st.just([weekday(day) for day in range(7)])),
)
near = st.integers(-30 * 60, 30 * 60).map(lambda number: timedelta(minutes=number))


@cache
def wall_of(where: tuple[str, str]) -> WallClock:
    return WallClock.around(*where)


def text_of(zone: str, start: datetime, rules: Any, rdates: list[datetime], exdates: list[datetime]) -> str:
    made = [rrule(dtstart=start, timezone=zone, **parts) for parts, _ in rules]
    lines = [line for rule in made for line in repr(rule).split() if line.startswith("RRULE:")]
    ends = ["" if until is None else f";UNTIL={until:%Y%m%dT%H%M%SZ}" for _, until in rules]
    return "\n".join(
        [
            *(f"{line}{end}" for line, end in zip(lines, ends)),
            *(f"RDATE:{moment:%Y%m%dT%H%M%SZ}" for moment in rdates),
            *(f"EXDATE:{moment:%Y%m%dT%H%M%SZ}" for moment in exdates),
        ]
    )


@st.composite
def cases(draw: st.DrawFn) -> tuple[rrule, list[datetime], datetime]:
    """Return a rule near a shift, all its fire times by the oracle, and an instant near the shift."""
    where = draw(st.sampled_from(SHIFTS))
    wall, middle = wall_of(where), utc(where[1]) + timedelta(hours=12)
    at = st.one_of(near, st.sampled_from([gap[0] - middle for gap in wall.gaps] or [timedelta()])).map(
        lambda delta: middle + delta
    )
    local = draw(at).astimezone(ZoneInfo(where[0])).replace(tzinfo=None)
    start = draw(st.sampled_from([local, *(gap[1] for gap in wall.gaps)])) - draw(
        st.sampled_from([0, 1, 2])
    ) * timedelta(1)
    start = start.replace(fold=local.fold if start == local else 0)
    assume(wall.start(start, start.fold) is not None)
    rules = draw(st.lists(st.tuples(rule_parts, st.none() | at), min_size=0, max_size=2))
    rules = [({k: v for k, v in parts.items() if k != "count" or until is None}, until) for parts, until in rules]
    rdates = draw(st.lists(at, max_size=3)) if rules else draw(st.lists(at, min_size=1, max_size=3))
    plain = expected(wall, start, rules, rdates)
    exdates = draw(st.lists(st.sampled_from(plain) | at if plain else at, max_size=4))
    try:
        rule = rrule(text_of(where[0], start, rules, rdates, exdates), dtstart=start, timezone=where[0])
    except ValueError:
        assert any(not expected(wall, start, [(parts, None)]) for parts, _ in rules), "refused, but matches"
        assume(False)
    return rule, expected(wall, start, rules, rdates, exdates), draw(at)


@many
@given(case=cases())
def test_fire_times_near_shifts_are_those_of_the_oracle(case: tuple[rrule, list[datetime], datetime]) -> None:
    rule, times, after = case
    begin = utc("1990-01-01")
    beginning = times[:MOST]

    assert list(islice(fire_times(rule, begin), len(beginning))) == beginning
    assert list(islice(fire_times(saved(rule), begin), len(beginning))) == beginning
    for instant in (after, *times[-3:]):
        for since in (instant, instant - timedelta(microseconds=1)):
            if (coming := from_any(times, since)) is not None:
                assert rule.next_fire_time(since) == coming


@many
@given(case=cases(), limit=st.integers(1, 20))
def test_counts_near_shifts_are_those_of_the_oracle(case: tuple[rrule, list[datetime], datetime], limit: int) -> None:
    rule, times, until = case
    plenty = {"searching": Steps(10**8), "counting": Steps(10**8)}
    due = [moment for moment in times if moment <= until]
    assume(due)
    table = Timetable(schedule=rule, zone=rule.zone, **plenty)

    for first in {due[0], due[len(due) // 2], due[-1]}:
        assert table.count(first, due[-1]) == Count(len(due) - due.index(first))
        assert table.newest_of(limit, first, until) == due[due.index(first) :][-limit:]
