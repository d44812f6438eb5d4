from __future__ import annotations

from datetime import datetime, timedelta, timezone, tzinfo
from itertools import product
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from celery.schedules import BaseSchedule, crontab, schedule, solar
from dateutil.rrule import FR, MO, SA, SU, TH, TU, WE
from hypothesis import given
from hypothesis import strategies as st
from moments import utc
from support.examples import examples

from redisbeater import clocked, cron, describe, rrule
from redisbeater.schedules.crontab import is_repeating
from redisbeater.schedules.english import join_words, ordinal, zone_text

VIENNA = ZoneInfo("Europe/Vienna")
FIXED = "(fixed: once for each time of the day, also when the clocks change)"
REPEATING = "(repeating: by elapsed time, also when the clocks change)"
BY_THE_CLOCK = "(repeating: by the clock, so twice at a time that comes twice when the clocks change)"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("* * * * *", "every minute", id="every-minute"),
        pytest.param("*/5 * * * *", "every 5 minutes", id="every-5-minutes"),
        pytest.param("0,30 * * * *", "at 00 and 30 minutes past every hour", id="twice-an-hour"),
        pytest.param("@hourly", "at 00 minutes past every hour", id="hourly"),
        pytest.param("0-29 * * * *", "every minute from :00 to :29 of every hour", id="half-of-the-hour"),
        pytest.param("*/7 * * * *", "every 7 minutes from :00 to :56 of every hour", id="7-is-no-part-of-60"),
    ],
)
def test_a_crontab_that_means_elapsed_time(text: str, expected: str) -> None:
    assert describe(cron(text)) == f"{expected} {REPEATING}"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("0 */2 * * *", "every 2 hours at 00 minutes past", id="every-2-hours"),
        pytest.param("15 1-23/2 * * *", "every 2 hours from 01:15 to 23:15", id="every-odd-hour"),
        pytest.param("* 9-17 * * *", "every minute from 09:00 to 17:59", id="every-minute-of-some-hours"),
        pytest.param("* 9-17 * * 1-5", "every minute from 09:00 to 17:59 on Monday to Friday", id="office-hours"),
        pytest.param("*/15 9 * * *", "every 15 minutes from 09:00 to 09:45", id="every-15-minutes-of-an-hour"),
        pytest.param(
            "*/15 9-11,14-16 * * *",
            "every 15 minutes from 09:00 to 11:45 and from 14:00 to 16:45",
            id="morning-and-afternoon",
        ),
        pytest.param("* 22-1 * * *", "every minute from 00:00 to 01:59 and from 22:00 to 23:59", id="over-midnight"),
        pytest.param(
            "*/20 */6 * * sun",
            "every 20 minutes during the hours 00, 06, 12 and 18 on Sunday",
            id="some-hours",
        ),
        pytest.param(
            "*/7 8,10 * * *",
            "every 7 minutes from :00 to :56 of the hours 08 and 10",
            id="7-is-no-part-of-60-in-some-hours",
        ),
    ],
)
def test_a_repeating_crontab_of_some_hours(text: str, expected: str) -> None:
    assert describe(cron(text)) == f"{expected} {BY_THE_CLOCK}"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("0 9 * * *", "at 09:00 every day", id="daily"),
        pytest.param("0 9 * * 1-5", "at 09:00 on Monday to Friday", id="working-days"),
        pytest.param("0 9 * * sat,sun", "at 09:00 on Saturday and Sunday", id="week-end"),
        pytest.param("0 9 * * fri-mon", "at 09:00 on Friday to Monday", id="long-week-end"),
        pytest.param("0 9 * * sun,mon,wed", "at 09:00 on Monday, Wednesday and Sunday", id="some-days"),
        pytest.param("0 9,13,17 * * *", "at 09:00, 13:00 and 17:00 every day", id="three-times"),
        pytest.param(
            "0 9,13,17 1,15 jan,jul *",
            "at 09:00, 13:00 and 17:00 on day 1 and 15 of the month in January and July",
            id="dates",
        ),
        pytest.param("0 9 * nov-feb *", "at 09:00 every day in November to February", id="winter"),
        pytest.param(
            "0 9 1-7 * mon", "at 09:00 on Monday, when it is day 1 to 7 of the month", id="both-day-fields-must-match"
        ),
        pytest.param(
            "0 9 1-7,29 3 mon",
            "at 09:00 on Monday in March, when it is day 1 to 7 and 29 of the month",
            id="all-fields",
        ),
        pytest.param("0 9 31 * *", "at 09:00 on day 31 of the month", id="day-31"),
        pytest.param(
            "0 9 */2 * *", "at 09:00 on every second day of the month from day 1 to 31", id="every-second-date"
        ),
        pytest.param("0 9-17 * * *", "every hour from 09:00 to 17:00", id="hours"),
        pytest.param("0,30 9-17 * * *", "every 30 minutes from 09:00 to 17:30", id="half-hours"),
        pytest.param("0,30 9,13 * * *", "at 09:00, 09:30, 13:00 and 13:30 every day", id="two-minutes-of-two-hours"),
        pytest.param(
            "0,3,30 1,5,8-10 * * *",
            "at 00, 03 and 30 minutes past the hours 01, 05 and 08 to 10 every day",
            id="many-times",
        ),
        pytest.param(
            "0,1,2,3,5,8,13,21,34,55 9 * * *",
            "at 00 to 03, 05, 08, 13, 21, 34 and 55 minutes past the hour 09 every day",
            id="many-minutes",
        ),
    ],
)
def test_a_crontab_that_means_times_of_the_day(text: str, expected: str) -> None:
    assert describe(cron(text)) == f"{expected} {FIXED}"


@pytest.mark.parametrize(
    ("zone", "expected"),
    [
        pytest.param(None, f"at 09:00 every day {FIXED}", id="none"),
        pytest.param("Europe/Vienna", f"at 09:00 every day, Europe/Vienna {FIXED}", id="name"),
        pytest.param(VIENNA, f"at 09:00 every day, Europe/Vienna {FIXED}", id="zone"),
        pytest.param(timezone.utc, f"at 09:00 every day, UTC {FIXED}", id="utc"),
        pytest.param(timezone(timedelta(hours=2)), f"at 09:00 every day, UTC+02:00 {FIXED}", id="offset"),
        pytest.param(timezone(-timedelta(hours=3.5), "X"), f"at 09:00 every day, UTC-03:30 {FIXED}", id="named-offset"),
    ],
)
def test_the_zone_is_named_when_it_is_passed(zone: str | tzinfo | None, expected: str) -> None:
    assert describe(cron("0 9 * * *"), zone) == expected


def test_the_zone_that_was_passed_to_cron_is_named() -> None:
    assert describe(cron("0 9 * * *", timezone="Asia/Tokyo")) == f"at 09:00 every day, Asia/Tokyo {FIXED}"


def test_a_crontab_without_a_minute_never_fires() -> None:
    assert describe(crontab(minute=[])) == f"never {REPEATING}"


# -- intervals


@pytest.mark.parametrize(
    ("every", "expected"),
    [
        pytest.param(90, "every 90 seconds", id="seconds"),
        pytest.param(1, "every second", id="second"),
        pytest.param(1.5, "every 1.5 seconds", id="fraction"),
        pytest.param(0.000001, "every 0.000001 seconds", id="microsecond"),
        pytest.param(600, "every 10 minutes", id="minutes"),
        pytest.param(5400, "every 90 minutes", id="hour-and-a-half"),
        pytest.param(3600, "every hour", id="hour"),
        pytest.param(7200, "every 2 hours", id="hours"),
        pytest.param(86400, "every 24 hours of elapsed time", id="day"),
        pytest.param(604800, "every 168 hours of elapsed time (7 days)", id="week"),
        pytest.param(90000, "every 25 hours", id="more-than-a-day"),
    ],
)
def test_an_interval(every: float, expected: str) -> None:
    assert describe(schedule(every), "Europe/Vienna") == expected


@pytest.mark.parametrize(
    ("every", "expected"),
    [
        pytest.param(3600, "every hour, on the hour, Europe/Vienna", id="hour"),
        pytest.param(7200, "every 2 hours, on the hour, Europe/Vienna", id="hours"),
        pytest.param(5400, "every 90 minutes, rounded down to the full hour, Europe/Vienna", id="hour-and-a-half"),
        pytest.param(600, "every 10 minutes, on the minute, Europe/Vienna", id="minutes"),
        pytest.param(86400, "every day, at midnight, Europe/Vienna", id="day"),
        pytest.param(90000, "every 25 hours, rounded down to midnight, Europe/Vienna", id="more-than-a-day"),
        pytest.param(0.5, "every 0.5 seconds", id="celery-aligns-nothing-below-a-second"),
    ],
)
def test_a_relative_interval(every: float, expected: str) -> None:
    assert describe(schedule(every, relative=True), "Europe/Vienna") == expected


# -- rrule

START = datetime(2026, 1, 5, 9, tzinfo=VIENNA)
NOT_AGAIN = "not again in a repeated hour"
FROM = "from 5 January 2026"


@pytest.mark.parametrize(
    ("freq", "parts", "expected"),
    [
        pytest.param("MONTHLY", {"byweekday": MO(+1)}, f"every month on the first Monday at 09:00, {FROM}", id="first"),
        pytest.param("MONTHLY", {"byweekday": FR(-1)}, f"every month on the last Friday at 09:00, {FROM}", id="last"),
        pytest.param(
            "MONTHLY",
            {"byweekday": MO(5)},
            f"every month on the fifth Monday (where there is one) at 09:00, {FROM}",
            id="fifth",
        ),
        pytest.param("MONTHLY", {"byweekday": MO}, f"every month on every Monday at 09:00, {FROM}", id="each-monday"),
        pytest.param("MONTHLY", {}, f"every month on day 5 at 09:00, {FROM}", id="day-of-its-start"),
        pytest.param(
            "MONTHLY",
            {"bymonthday": [1, 15, -1]},
            f"every month on days 1 and 15 and the last day at 09:00, {FROM}",
            id="dates",
        ),
        pytest.param(
            "MONTHLY",
            {"bymonthday": 31, "interval": 3},
            f"every 3 months on day 31 (where there is one) at 09:00, {FROM}",
            id="day-31",
        ),
        pytest.param(
            "MONTHLY",
            {"bymonthday": 13, "byweekday": FR},
            f"every month on Friday at 09:00, when it is day 13 of the month, {FROM}",
            id="friday-the-13th",
        ),
        pytest.param(
            "MONTHLY",
            {"byweekday": [MO, TU, WE, TH, FR], "bysetpos": -1},
            f"every month on the last day that is Monday to Friday at 09:00, {FROM}",
            id="last-working-day",
        ),
        pytest.param(
            "WEEKLY",
            {"interval": 2, "byweekday": [MO, FR]},
            f"every 2 weeks on Monday and Friday at 09:00, {FROM}",
            id="fortnight",
        ),
        pytest.param(
            "WEEKLY",
            {"interval": 2, "byweekday": [SU, MO], "wkst": SU},
            f"every 2 weeks on Monday and Sunday at 09:00, weeks beginning on Sunday, {FROM}",
            id="week-start",
        ),
        pytest.param("WEEKLY", {}, f"every week on Monday at 09:00, {FROM}", id="weekday-of-its-start"),
        pytest.param(
            "WEEKLY",
            {"byweekday": 0, "bymonth": [11, 12, 1]},
            f"every week on Monday in November to January at 09:00, {FROM}",
            id="weekly-in-winter",
        ),
        pytest.param("DAILY", {}, f"every day at 09:00, {FROM}", id="daily"),
        pytest.param("DAILY", {"byhour": [9, 12]}, f"every day at 09:00 and 12:00, {FROM}", id="hours"),
        pytest.param("DAILY", {"byhour": 0}, f"every day at 00:00, {FROM} at 09:00", id="midnight-after-its-start"),
        pytest.param("DAILY", {"bysecond": 30}, f"every day at 09:00:30, {FROM}", id="seconds"),
        pytest.param(
            "DAILY",
            {"byweekday": range(5)},
            f"every day at 09:00, when it is Monday to Friday, {FROM}",
            id="daily-on-some-days",
        ),
        pytest.param("YEARLY", {}, f"every year on 5 January at 09:00, {FROM}", id="yearly"),
        pytest.param(
            "YEARLY",
            {"bymonth": 12, "bymonthday": [24, 25]},
            f"every year on 24 and 25 December at 09:00, {FROM}",
            id="christmas",
        ),
        pytest.param(
            "YEARLY",
            {"bymonth": [1, 7]},
            f"every year on day 5 of the month in January and July at 09:00, {FROM}",
            id="twice-a-year",
        ),
        pytest.param(
            "YEARLY", {"bymonthday": 1}, f"every year on day 1 of every month at 09:00, {FROM}", id="yearly-dates"
        ),
        pytest.param(
            "YEARLY",
            {"byweekday": MO(20)},
            f"every year on the 20th Monday of the year at 09:00, {FROM}",
            id="twentieth",
        ),
        pytest.param(
            "YEARLY",
            {"byweekday": MO(2), "bymonth": 3},
            f"every year on the second Monday of the month in March at 09:00, {FROM}",
            id="second-of-a-month",
        ),
        pytest.param(
            "YEARLY",
            {"byweekday": MO, "bymonth": 3},
            f"every year on every Monday in March at 09:00, {FROM}",
            id="each-of-a-month",
        ),
        pytest.param("HOURLY", {"interval": 2}, f"every 2 hours, {FROM} at 09:00, {NOT_AGAIN}", id="hourly"),
        pytest.param(
            "MINUTELY",
            {"interval": 10, "byweekday": SA},
            f"every 10 minutes, when it is Saturday, {FROM} at 09:00, {NOT_AGAIN}",
            id="minutely",
        ),
        pytest.param("DAILY", {"count": 10}, f"every day at 09:00, {FROM}, 10 times", id="count"),
        pytest.param("DAILY", {"count": 1}, "once, on 5 January 2026 at 09:00", id="count-1"),
        pytest.param(
            "DAILY",
            {"until": datetime(2026, 12, 31, 9, tzinfo=VIENNA)},
            f"every day at 09:00, {FROM}, until 31 December 2026",
            id="until",
        ),
        pytest.param(
            "DAILY",
            {"until": datetime(2026, 12, 31, tzinfo=VIENNA)},
            f"every day at 09:00, {FROM}, until 31 December 2026 at 00:00",
            id="until-before-the-last-time",
        ),
        pytest.param(
            "DAILY",
            {"until": utc("2026-12-31 23:30")},
            f"every day at 09:00, {FROM}, until 1 January 2027 at 00:30",
            id="until-in-its-zone",
        ),
    ],
)
def test_a_recurrence_rule(freq: str, parts: dict[str, Any], expected: str) -> None:
    assert describe(rrule(freq, dtstart=START, **parts), "Asia/Tokyo") == f"{expected}, Europe/Vienna"


@pytest.mark.parametrize(
    ("freq", "parts", "text"),
    [
        pytest.param("YEARLY", {"byeaster": 0}, "FREQ=YEARLY;BYEASTER=0", id="easter"),
        pytest.param("YEARLY", {"byweekno": 20}, "FREQ=YEARLY;BYWEEKNO=20", id="week-number"),
        pytest.param("YEARLY", {"byyearday": 100}, "FREQ=YEARLY;BYYEARDAY=100", id="day-of-the-year"),
        pytest.param("MONTHLY", {"byweekday": [MO(1), FR]}, "FREQ=MONTHLY;BYDAY=FR,+1MO", id="first-and-each"),
        pytest.param("HOURLY", {"byminute": [0, 30]}, "FREQ=HOURLY;BYMINUTE=0,30", id="minutes-of-the-hour"),
        pytest.param("DAILY", {"byminute": range(9)}, "FREQ=DAILY;BYMINUTE=0,1,2,3,4,5,6,7,8", id="many-times"),
        pytest.param("WEEKLY", {"bymonthday": 1}, "FREQ=WEEKLY;BYMONTHDAY=1", id="dates-of-weeks"),
        pytest.param(
            "DAILY", {"bysetpos": 1, "byhour": [1, 2]}, "FREQ=DAILY;BYSETPOS=1;BYHOUR=1,2", id="positions-of-times"
        ),
    ],
)
def test_a_rule_without_exact_words_is_described_by_its_text(freq: str, parts: dict[str, Any], text: str) -> None:
    expected = f"by the recurrence rule {text} from 5 January 2026 at 09:00, Europe/Vienna"

    assert describe(rrule(freq, dtstart=START, **parts)) == expected


class Recurrence(rrule):
    """A rule that has a text and no parts."""

    def __init__(self, text: str) -> None:
        BaseSchedule.__init__(self)
        self.text = text

    def __repr__(self) -> str:
        return f"<rrule: {self.text}>"


def test_a_rule_without_parts_is_described_by_its_repr() -> None:
    rule = Recurrence("DTSTART:20260105T090000\nRRULE:FREQ=DAILY\nEXDATE:20260106T090000")

    expected = "by the recurrence rule DTSTART:20260105T090000 RRULE:FREQ=DAILY EXDATE:20260106T090000"
    assert describe(rule) == expected


# -- clocked, solar, custom


@pytest.mark.parametrize(
    ("once", "zone", "expected"),
    [
        pytest.param(
            clocked(datetime(2027, 1, 1, 9), timezone="Europe/Vienna"),
            "Asia/Tokyo",
            "once, on 1 January 2027 at 09:00, Europe/Vienna",
            id="own-zone",
        ),
        pytest.param(
            clocked(datetime(2027, 1, 1, 9)), VIENNA, "once, on 1 January 2027 at 09:00, Europe/Vienna", id="given-zone"
        ),
        pytest.param(clocked(datetime(2027, 1, 1, 9)), None, "once, on 1 January 2027 at 09:00", id="no-zone"),
        pytest.param(clocked(datetime(2027, 1, 1, 9, 0, 5)), None, "once, on 1 January 2027 at 09:00:05", id="seconds"),
        pytest.param(
            clocked(datetime(2027, 1, 1, 9, tzinfo=timezone(timedelta(hours=2)))),
            None,
            "once, on 1 January 2027 at 09:00, UTC+02:00",
            id="offset",
        ),
        pytest.param(
            clocked(datetime(2026, 10, 25, 2, 30, fold=1), "Europe/Vienna"),
            None,
            "once, on 25 October 2026 at 02:30, Europe/Vienna (UTC+01:00)",
            id="the-second-of-a-repeated-time",
        ),
    ],
)
def test_a_clocked_schedule(once: clocked, zone: str | tzinfo | None, expected: str) -> None:
    assert describe(once, zone) == expected


@pytest.mark.parametrize(
    ("event", "lat", "lon", "expected"),
    [
        pytest.param("sunset", 48.2, 16.37, "at sunset at 48.2 N, 16.37 E", id="north-east"),
        pytest.param("dawn_astronomical", -48, -16.5, "at astronomical dawn at 48 S, 16.5 W", id="south-west"),
        pytest.param("solar_noon", 0, 0, "at solar noon at 0 N, 0 E", id="zero"),
    ],
)
def test_a_solar_schedule(event: str, lat: float, lon: float, expected: str) -> None:
    assert describe(solar(event, lat, lon), "Europe/Vienna") == expected


class Tide(BaseSchedule):
    def __repr__(self) -> str:
        return "<high tide\n  in Trieste>"


class StoredTide(crontab):
    """A custom class, whatever it inherits."""

    def to_redisbeater(self) -> dict[str, Any]:
        return {}

    def __repr__(self) -> str:
        return "<low tide>"


class Unshowable(BaseSchedule):
    def __repr__(self) -> str:
        raise RuntimeError


@pytest.mark.parametrize(
    ("custom", "expected"),
    [
        pytest.param(Tide(), "high tide in Trieste", id="repr"),
        pytest.param(StoredTide(), "low tide", id="registered"),
        pytest.param(BaseSchedule(), "celery.schedules.BaseSchedule", id="no-repr"),
        pytest.param(Unshowable(), f"{__name__}.Unshowable", id="repr-that-fails"),
    ],
)
def test_a_custom_class(custom: BaseSchedule, expected: str) -> None:
    assert describe(custom, "Europe/Vienna") == expected


# -- properties


def _spelt(values: list[int], style: int) -> Any:
    """Return the same numbers in one of four notations, none of which has a star or a step."""
    runs = [[values[0]]]
    for value in values[1:]:
        runs[-1].append(value) if value == runs[-1][-1] + 1 else runs.append([value])
    spans = [f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs]
    return (values, set(values), ",".join(map(str, reversed(values))), ",".join(spans))[style]


def _values(low: int, high: int) -> st.SearchStrategy[list[int]]:
    one_by_one = st.sets(st.integers(low, high), min_size=1)
    evenly = st.tuples(st.integers(low, high), st.integers(1, high)).map(
        lambda drawn: range(drawn[0], high + 1, drawn[1])
    )
    return st.one_of(one_by_one, evenly, st.just(range(low, high + 1))).map(sorted)


FIELDS = ("minute", "hour", "day_of_week", "day_of_month", "month_of_year")
numbers = st.tuples(_values(0, 59), _values(0, 23), _values(0, 6), _values(1, 29), _values(1, 12))
styles = st.tuples(*[st.integers(0, 3)] * 5)


@examples(300)
@given(values=numbers, one=styles, other=styles)
def test_every_notation_of_a_crontab_reads_the_same(
    values: tuple[list[int], ...], one: tuple[int, ...], other: tuple[int, ...]
) -> None:
    first, second = (
        crontab(**{name: _spelt(value, style) for name, value, style in zip(FIELDS, values, drawn)})
        for drawn in (one, other)
    )

    assert is_repeating(first) == is_repeating(second)
    assert describe(first) == describe(second)


@examples(500)
@given(values=numbers)
def test_every_crontab_can_be_described(values: tuple[list[int], ...]) -> None:
    text = describe(crontab(**dict(zip(FIELDS, values))), "Europe/Vienna")

    assert text.endswith((f", Europe/Vienna {FIXED}", f", Europe/Vienna {REPEATING}"))
    assert "  " not in text


@examples(300)
@given(one=numbers, other=numbers, same=st.sets(st.sampled_from(range(5)), max_size=4))
def test_crontabs_that_differ_read_differently(
    one: tuple[list[int], ...], other: tuple[list[int], ...], same: set[int]
) -> None:
    other = tuple(one[index] if index in same else value for index, value in enumerate(other))
    first, second = (crontab(**dict(zip(FIELDS, values))) for values in (one, other))

    assert (describe(first) == describe(second)) is (one == other)


def test_no_two_sets_of_times_of_the_day_read_the_same() -> None:
    minutes = {
        ",".join(map(str, range(first, last, step)))
        for first in (0, 1, 5)
        for last in (6, 31, 60)
        for step in (1, 2, 5, 7, 15, 30)
    }
    hours = {
        ",".join(map(str, range(first, last, step)))
        for first in (0, 1, 9)
        for last in (10, 13, 24)
        for step in (1, 2, 3, 4, 6, 12)
    }

    text = {describe(crontab(minute, hour)).partition(" (")[0] for minute, hour in product(minutes, hours)}

    assert len(text) == len(minutes) * len(hours)


PARTS = {
    "interval": st.integers(1, 5),
    "count": st.integers(1, 20),
    "wkst": st.integers(0, 6),
    "bysetpos": st.sampled_from([1, -1, [1, 2]]),
    "bymonth": st.lists(st.integers(1, 12), min_size=1, max_size=3),
    "bymonthday": st.lists(st.integers(-31, 31).filter(bool), min_size=1, max_size=3),
    "byweekday": st.lists(st.sampled_from([MO, TU(+1), FR(-1), SU(+5), 2, 6]), min_size=1, max_size=3),
    "byhour": st.lists(st.integers(0, 23), min_size=1, max_size=4),
    "byminute": st.lists(st.integers(0, 59), min_size=1, max_size=4),
}
rules = st.tuples(
    st.sampled_from(["YEARLY", "MONTHLY", "WEEKLY", "DAILY", "HOURLY", "MINUTELY", "SECONDLY"]),
    st.fixed_dictionaries({}, optional=PARTS),
)


@examples(500)
@given(drawn=rules)
def test_every_recurrence_rule_can_be_described(drawn: tuple[str, dict[str, Any]]) -> None:
    freq, parts = drawn
    try:
        rule = rrule(freq, dtstart=START, **parts)
    except ValueError:  # dateutil knows that it has no occurrence
        return

    assert describe(rule).endswith(", Europe/Vienna")


# -- words


@pytest.mark.parametrize(
    ("position", "expected"),
    [
        (1, "first"),
        (5, "fifth"),
        (12, "12th"),
        (21, "21st"),
        (53, "53rd"),
        (111, "111th"),
        (-1, "last"),
        (-2, "second last"),
    ],
)
def test_positions_have_names(position: int, expected: str) -> None:
    assert ordinal(position) == expected


@pytest.mark.parametrize(
    ("texts", "expected"), [(["a"], "a"), (["a", "b"], "a and b"), (["a", "b", "c"], "a, b and c")], ids=len
)
def test_a_list_ends_with_and(texts: list[str], expected: str) -> None:
    assert join_words(texts) == expected


def test_a_zone_without_a_name_and_a_fixed_offset_is_its_text() -> None:
    class Local(tzinfo):
        def utcoffset(self, moment: datetime | None) -> timedelta | None:
            return moment and timedelta(hours=1)

        def __str__(self) -> str:
            return "local"

    assert zone_text(Local()) == "local"


def test_a_single_time_has_no_fraction_of_a_second() -> None:
    at = datetime(2026, 1, 1, 2, 3, 4, 567_891, tzinfo=timezone.utc)

    assert describe(clocked(at)) == "once, on 1 January 2026 at 02:03:04, UTC"


@pytest.mark.parametrize("given", [90, 90.0, timedelta(seconds=90)], ids=str)
def test_an_interval_may_be_seconds_or_a_timedelta(given: Any) -> None:
    assert describe(given) == describe(schedule(90))
