from __future__ import annotations

import copy
import pickle
from datetime import datetime, timezone
from typing import Any
from zoneinfo import ZoneInfo

import celery
import pytest
from celery import Celery
from celery.schedules import crontab
from cronsim import CronSim
from hypothesis import assume, given
from hypothesis import strategies as st
from moments import utc
from support.examples import examples

from redisbeater import cron
from redisbeater.exceptions import InvalidEntry
from redisbeater.schedules.cron_expression import cron_expression
from redisbeater.schedules.crontab import is_repeating, next_fire_time
from redisbeater.schedules.kinds import ScheduleCodec

UTC = timezone.utc
SUN, MON, TUE, WED, THU, FRI, SAT = range(7)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("* * * * *", crontab(), id="every-minute"),
        pytest.param("0 9 * * mon-fri", crontab(0, 9, "1-5"), id="names"),
        pytest.param("0 9 * January,JUL Monday", crontab(0, 9, 1, "*", "1,7"), id="names-in-any-case-and-length"),
        pytest.param("0,30 8-18 1,15 * *", crontab("0,30", "8-18", "*", "1,15"), id="lists-and-ranges"),
        pytest.param("*/15 8-18/2 * */3 *", crontab("*/15", "8-18/2", "*", "*", "*/3"), id="steps"),
        pytest.param("0 12 ? * mon", crontab(0, 12, 1), id="question-mark-day-of-month"),
        pytest.param("0 12 1 * ?", crontab(0, 12, "*", 1), id="question-mark-day-of-week"),
        pytest.param("  0\t9  * *   1\n", crontab(0, 9, 1), id="blanks"),
        pytest.param("@yearly", crontab(0, 0, "*", 1, 1), id="yearly"),
        pytest.param("@annually", crontab(0, 0, "*", 1, 1), id="annually"),
        pytest.param("@monthly", crontab(0, 0, "*", 1), id="monthly"),
        pytest.param("@weekly", crontab(0, 0, 0), id="weekly"),
        pytest.param("@daily", crontab(0, 0), id="daily"),
        pytest.param(" @Midnight ", crontab(0, 0), id="midnight-any-case"),
        pytest.param("@HOURLY", crontab(0), id="hourly-any-case"),
    ],
)
def test_a_text_is_read_in_the_order_of_crontab_5(text: str, expected: crontab) -> None:
    assert cron(text) == expected


@pytest.mark.parametrize(
    ("days", "expected"),
    [
        pytest.param("7", {SUN}, id="7"),
        pytest.param("07", {SUN}, id="07"),
        pytest.param("0,7", {SUN}, id="0-and-7"),
        pytest.param("5-7", {FRI, SAT, SUN}, id="until-7"),
        pytest.param("fri-7", {FRI, SAT, SUN}, id="name-until-7"),
        pytest.param("0-7", {SUN, MON, TUE, WED, THU, FRI, SAT}, id="0-to-7"),
        pytest.param("1-7", {SUN, MON, TUE, WED, THU, FRI, SAT}, id="1-to-7"),
        pytest.param("7-7", {SUN}, id="7-to-7"),
        pytest.param("7-2", {SUN, MON, TUE}, id="from-7"),
        pytest.param("1-7/2", {MON, WED, FRI, SUN}, id="step-that-ends-at-7"),
        pytest.param("0-7/3", {SUN, WED, SAT}, id="step-from-0"),
        pytest.param("2,5-7/2", {TUE, FRI, SUN}, id="in-a-list"),
        pytest.param("fri-sun", {FRI, SAT, SUN}, id="names"),
        pytest.param("fri-mon", {FRI, SAT, SUN, MON}, id="over-the-week-end"),
        pytest.param("sat-tue/2", {SAT, MON}, id="over-the-week-end-with-a-step"),
    ],
)
def test_sunday_is_0_and_7_also_in_ranges(days: str, expected: set[int]) -> None:
    assert cron(f"0 0 * * {days}").day_of_week == expected


@pytest.mark.parametrize(
    ("text", "field", "expected"),
    [
        pytest.param("50-10/5 * * * *", "minute", {50, 55, 0, 5, 10}, id="minute"),
        pytest.param("0 22-2 * * *", "hour", {22, 23, 0, 1, 2}, id="hour"),
        pytest.param("0 22-2/2 * * *", "hour", {22, 0, 2}, id="hour-with-a-step"),
        pytest.param("0 0 30-2 * *", "day_of_month", {30, 31, 1, 2}, id="day-of-month"),
        pytest.param("0 0 * nov-feb *", "month_of_year", {11, 12, 1, 2}, id="month"),
    ],
)
def test_ranges_may_wrap_around_the_end(text: str, field: str, expected: set[int]) -> None:
    assert getattr(cron(text), field) == expected


@pytest.mark.parametrize(
    ("text", "repeating"),
    [
        pytest.param("30 2 * * *", False, id="fixed"),
        pytest.param("@daily", False, id="daily"),
        pytest.param("*/10 * * * *", True, id="repeating"),
        pytest.param("@hourly", True, id="hourly"),
    ],
)
def test_a_text_is_fixed_or_repeating_like_the_same_crontab(text: str, repeating: bool) -> None:
    assert is_repeating(cron(text)) is repeating


def test_it_is_stored_like_any_crontab() -> None:
    made = cron("*/15 9 ? * mon-7")

    assert type(made) is crontab
    assert ScheduleCodec().encode(made) == {
        "__type__": "crontab",
        "minute": "*/15",
        "hour": "9",
        "day_of_week": "mon-0",
        "day_of_month": "*",
        "month_of_year": "*",
    }
    assert ScheduleCodec().decode(ScheduleCodec().encode(made)) == made


# -- the zone


def test_the_zone_is_kept_with_the_crontab() -> None:
    made = cron("0 9 * * *", timezone="Europe/Vienna")

    assert (made.timezone, made.tz) == ("Europe/Vienna", ZoneInfo("Europe/Vienna"))


@pytest.mark.parametrize("zone", ["Europe/Vienna", None])
def test_copies_and_pickles_keep_the_zone(zone: str | None) -> None:
    made = cron("*/15 9 1 * mon-7", timezone=zone)

    for again in (copy.copy(made), copy.deepcopy({"schedule": made})["schedule"], pickle.loads(pickle.dumps(made))):
        assert type(again) is crontab
        assert (again, again.timezone) == (made, zone)
        assert zone is None or again.tz == ZoneInfo(zone)
        assert copy.copy(again).timezone == zone


def test_without_a_zone_the_zone_of_the_app_counts() -> None:
    made = cron("0 9 * * *")
    made.app = Celery(set_as_current=False, timezone="Asia/Tokyo")

    assert made.timezone is None
    assert str(made.tz) == "Asia/Tokyo"


@pytest.mark.skipif(celery.VERSION < (5, 7), reason="Celery before 5.7 matches an aware time in its own zone")
def test_celery_s_own_beat_uses_the_zone() -> None:
    made = cron("0 9 * * *", timezone="Europe/Vienna")
    now = utc("2026-07-01 06:00")
    made.app, made.nowfun = Celery(set_as_current=False, timezone="America/New_York"), lambda: now

    assert now + made.remaining_estimate(now) == utc("2026-07-01 07:00")


@pytest.mark.parametrize(
    "zone",
    ["Mars/Base", "", "Europe/Wien", 1, object()],
    ids=["no-such", "empty", "not-in-english", "number", "object"],
)
def test_an_unknown_zone_is_refused(zone: Any) -> None:
    with pytest.raises(InvalidEntry, match=r"^\$.timezone: unknown time zone .* such as 'Europe/Vienna'"):
        cron("0 9 * * *", timezone=zone)


# -- refused


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param(
            "0 9 * * l",
            """$.schedule.day_of_week: cannot read 'l' in "0 9 * * >l<"; for Saturday write 'sat'""",
            id="last-day-of-the-week",
        ),
        pytest.param(
            "60 9 * * *",
            """$.schedule.minute: '60' is out of range in ">60< 9 * * *"; expected 0 to 59""",
            id="out-of-range",
        ),
        pytest.param(
            "0 9 * * 1,8",
            """$.schedule.day_of_week: '8' is out of range in "0 9 * * >1,8<"; expected 0 to 7""",
            id="day-8",
        ),
        pytest.param(
            "5/15 9 * * *",
            """$.schedule.minute: cannot read '5/15' in ">5/15< 9 * * *"; """
            "a step needs a range, as in '5-59/15'",
            id="step-without-a-range",
        ),
        pytest.param(
            "0 0 30 feb *",
            """$.schedule.day_of_month: no month of the crontab has such a day in "0 0 >30< feb *"; """
            "change day_of_month or month_of_year",
            id="no-such-date",
        ),
        pytest.param(
            "0 0 * * 7/2",
            """$.schedule.day_of_week: cannot read '7/2' in "0 0 * * >7/2<"; a step needs a range, as in '7-6/2'""",
            id="step-of-7-without-a-range",
        ),
        pytest.param(
            "0 0 * * 7-x",
            """$.schedule.day_of_week: cannot read 'x' in "0 0 * * >7-x<"; expected a number or a name such as 'mon'""",
            id="range-from-7-to-nothing",
        ),
        pytest.param(
            "0 0 9 * * * 2026",
            "$.schedule: a cron text has no year, got '2026'; leave it out, and set end_at",
            id="seven-fields",
        ),
        pytest.param(
            "@reboot",
            "$.schedule: @reboot is not a time; send the task from a handler of Celery's signal worker_ready",
            id="reboot",
        ),
    ],
)
def test_a_field_that_cannot_be_read_is_quoted_with_the_way_to_write_it(text: str, message: str) -> None:
    with pytest.raises(InvalidEntry) as caught:
        cron(text)

    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("", r"^\$.schedule: expected 5 fields, or 6 .* got 0 ", id="empty"),
        pytest.param("0 9 * *", r"^\$.schedule: expected 5 fields, or 6 .* got 4 ", id="four-fields"),
        pytest.param(
            "0 9 * * * 2026", r"^\$.schedule: a cron text has no year, got '2026'; leave it out, and", id="a-year"
        ),
        pytest.param("0 0 0 9 * * mon", r"^\$.schedule: expected 5 fields, or 6 .* got 7 in ", id="seven-fields"),
        pytest.param(
            "0 22 * * 1-5 America/Chicago",
            r"^\$.schedule: a cron text has no zone, got 'America/Chicago'; .* of the entry: 'America/Chicago'",
            id="a-zone-behind",
        ),
        pytest.param(
            "CRON_TZ=UTC 0 5 * * *", r"^\$.schedule: a cron text has no zone.* entry: 'UTC'", id="a-zone-in-front"
        ),
        pytest.param("0 0 L-3W * *", r"^\$.schedule.day_of_month: cannot read 'L-3W' .*expected L, L-2", id="l-with-w"),
        pytest.param("0 0 * * fri#L", r"cannot read 'fri#L' .*for the last one write 'friL'", id="the-last-by-number"),
        pytest.param("0 0 * * L-5", r"cannot read 'L-5' .* write 'friL'", id="l-in-front"),
        pytest.param("@every 5m", r"^\$.schedule: unknown macro '@every 5m'; expected one of @yearly", id="macro"),
        pytest.param(None, r"^\$.schedule: expected a text such as .*, got None", id="none"),
        pytest.param(300, r"^\$.schedule: expected a text such as .*, got 300", id="number"),
        pytest.param("? 9 * * *", r"^\$.schedule.minute: cannot read '\?' in", id="question-mark-minute"),
        pytest.param("0 9 ?/2 * *", r"^\$.schedule.day_of_month: cannot read '\?/2' in", id="question-mark-step"),
        pytest.param("0 9 * mon *", r"^\$.schedule.month_of_year: cannot read 'mon' in", id="weekday-as-month"),
        pytest.param("0 9 * * jan", r"^\$.schedule.day_of_week: cannot read 'jan' in", id="month-as-weekday"),
        pytest.param("0 9 * * monkey", r"^\$.schedule.day_of_week: cannot read 'monkey' in", id="monkey"),
        pytest.param("0 9 * * mon#6", r"^\$.schedule.day_of_week: cannot read 'mon#6' in", id="sixth-monday"),
        pytest.param("0 9 * * day#1", r"^\$.schedule.day_of_week: cannot read 'day#1' in", id="no-weekday"),
        pytest.param("0 9 * * mon/2", r"^\$.schedule.day_of_week: .*a step needs a range", id="step-of-a-day"),
        pytest.param("0 9 * * 7/2", r"^\$.schedule.day_of_week: .*a step needs a range", id="step-of-7"),
        pytest.param(
            "0 9 * * 1,,2",
            r"^\$.schedule.day_of_week: cannot read '1,,2': a comma too many in .*; leave it out",
            id="empty-part",
        ),
        pytest.param("*/0 9 * * *", r"^\$.schedule.minute: the step in '\*/0' must be", id="step-0"),
        pytest.param("-1 9 * * *", r"^\$.schedule.minute: cannot read '-1' in", id="negative"),
        pytest.param("0 24 * * *", r"^\$.schedule.hour: '24' is out of range in", id="hour-24"),
        pytest.param("0 0 0 * *", r"^\$.schedule.day_of_month: '0' is out of range in", id="day-0"),
        pytest.param("0 0 * 13 *", r"^\$.schedule.month_of_year: '13' is out of range in", id="month-13"),
        pytest.param(f"{'9' * 5000} 9 * * *", r"^\$.schedule.minute: cannot read '999", id="endless-number"),
        pytest.param(f"*/{'9' * 5000} 9 * * *", r"^\$.schedule.minute: cannot read '\*/999", id="endless-step"),
        pytest.param(f"0 9 * * {'7' * 5000}", r"^\$.schedule.day_of_week: cannot read '777", id="endless-day"),
    ],
)
def test_an_error_names_the_field(text: Any, message: str) -> None:
    with pytest.raises(InvalidEntry, match=message):
        cron(text)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("\u0663 * * * *", id="arabic"),
        pytest.param("*/\u0661\u0665 * * * *", id="arabic-step"),
        pytest.param("\uff11 * * * *", id="full-width"),
        pytest.param("0 0 * * \u0665L", id="arabic-last-weekday"),
        pytest.param("0 0 L-\u0662 * *", id="arabic-distance"),
        pytest.param("0 0 \u0661\u0665W * *", id="arabic-nearest-workday"),
        pytest.param("0 0 * * fri#\u0661", id="arabic-position"),
        pytest.param("H(\u0660-9) * * * *", id="arabic-range-of-h"),
    ],
)
def test_digits_of_other_scripts_are_refused(text: str) -> None:
    with pytest.raises(InvalidEntry, match="cannot read"):
        cron(text)


def test_a_stored_crontab_with_digits_of_other_scripts_is_refused() -> None:
    with pytest.raises(InvalidEntry, match=r"^\$.schedule.minute: cannot read"):
        ScheduleCodec().decode({"__type__": "crontab", "minute": "\u0663"})


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("9" * 100_000, id="one-field"),
        pytest.param(f"{'9' * 100_000} * * * *", id="digits"),
        pytest.param(f"* * * * {'x,' * 50_000}", id="list"),
        pytest.param(f"0 9 * * {'9' * 100_000}#1", id="weekday"),
        pytest.param(f"0 9 * * fri#{'9' * 100_000}", id="position"),
        pytest.param(f"H{'(' * 100_000} * * * *", id="h"),
        pytest.param(f"0,{',' * 100_000} 9 {'L,' * 50_000}1 * *", id="many-parts"),
        pytest.param("@" + "x" * 100_000, id="macro"),
        pytest.param(["x" * 100_000], id="no-text"),
    ],
)
def test_an_error_quotes_little_of_a_long_text(text: Any) -> None:
    with pytest.raises(InvalidEntry) as caught:
        cron(text)

    assert len(str(caught.value)) < 700


@pytest.mark.parametrize(
    "fields",
    [
        {"minute": "9" * 100_000},
        {"minute": ["x" * 100_000]},
        {"minute": [1, *range(100_000)]},
        {"x" * 100_000: 1},
        {"minute": {"x" * 100_000: 1}},
    ],
    ids=["text", "list-of-text", "long-list", "name", "object"],
)
def test_an_error_quotes_little_of_a_long_stored_field(fields: dict[str, Any]) -> None:
    with pytest.raises(InvalidEntry) as caught:
        ScheduleCodec().decode({"__type__": "crontab", **fields})

    assert len(str(caught.value)) < 700


@given(
    text=st.text(st.characters(max_codepoint=0x250), max_size=25)
    | st.text("0123456789*/-,#?LWHmonfri()@ ", max_size=25)
)
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        made = cron(text)
    except InvalidEntry:
        return

    assert type(made) in (crontab, cron_expression)


# -- against Celery and cronsim


def _field(low: int, high: int, names: tuple[str, ...] = ()) -> st.SearchStrategy[str]:
    """Return a field that all three read; the ends of a range differ, because cronsim reads 5-5/2 as 5-59/2."""
    number = st.integers(low, high)
    pair = st.tuples(number, number).filter(lambda ends: ends[0] != ends[1]).map(sorted)
    simple = st.one_of(
        number.map(str),
        pair.map(lambda ends: f"{ends[0]}-{ends[1]}"),
        st.tuples(pair, st.integers(1, 5)).map(lambda drawn: f"{drawn[0][0]}-{drawn[0][1]}/{drawn[1]}"),
        st.integers(2, high).map(lambda step: f"*/{step}"),
        *([st.sampled_from(names)] if names else []),
    )
    return st.one_of(st.just("*"), st.lists(simple, min_size=1, max_size=3).map(",".join))


MONTHS = _field(1, 12, ("jan", "Feb", "JUL", "dec"))
DAYS_OF_MONTH = _field(1, 31)
DAYS_OF_WEEK = _field(0, 6, ("sun", "Mon", "FRI", "mon-fri", "tue-sat/2"))
#: With what Celery lacks.
DAYS_UNTIL_7 = _field(0, 7, ("sun", "Mon", "FRI", "mon-fri", "5-7", "0-7/2", "7"))

instants = st.datetimes(datetime(2000, 1, 1), datetime(2090, 1, 1), timezones=st.just(UTC))


def _readable(text: str) -> crontab:
    try:
        return cron(text)
    except InvalidEntry:  # the 30th of February
        assume(False)
        raise


def _by_celery(text: str) -> crontab:
    minute, hour, day_of_month, month_of_year, day_of_week = text.split()
    return crontab(minute, hour, day_of_week, day_of_month, month_of_year)


@pytest.fixture(scope="module")
def celery_app() -> Celery:
    return Celery("oracle", set_as_current=False, broker="memory://")


@examples(300)
@given(fields=st.tuples(_field(0, 59), _field(0, 23), DAYS_OF_MONTH, MONTHS, DAYS_OF_WEEK), after=instants)
def test_in_utc_a_text_fires_when_celery_s_crontab_does(
    celery_app: Celery, fields: tuple[str, ...], after: datetime
) -> None:
    made = _readable(" ".join(fields))
    oracle = _by_celery(" ".join(fields))
    oracle.app, oracle.nowfun = celery_app, lambda: after
    try:
        expected = after + oracle.remaining_estimate(after)
    except RuntimeError:  # Celery gives up on day and weekday that rarely meet
        assume(False)
        raise

    assert next_fire_time(made, UTC, after) == expected


@examples(300)
@given(
    time=st.tuples(_field(0, 59), _field(0, 23)),
    days=st.one_of(
        st.tuples(DAYS_OF_MONTH, st.just("*")),
        st.tuples(st.just("*"), DAYS_UNTIL_7),
    ),
    month=MONTHS,
    after=instants,
)
def test_in_utc_a_text_fires_when_cronsim_says(
    time: tuple[str, str], days: tuple[str, str], month: str, after: datetime
) -> None:
    text = f"{time[0]} {time[1]} {days[0]} {month} {days[1]}"
    made, oracle = _readable(text), CronSim(text, after)

    found, fire_time = [], after
    for _ in range(3):
        following = next_fire_time(made, UTC, fire_time)
        assert following is not None
        fire_time = following
        found.append(fire_time)

    assert found == [next(oracle) for _ in range(3)]
