"""Planning takes a bounded number of engine steps, whatever the schedule is and however late."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from itertools import islice
from zoneinfo import ZoneInfo

import pytest
from celery.schedules import BaseSchedule, schedule, solar
from hypothesis import assume, given
from hypothesis import strategies as st
from moments import utc
from support.examples import examples

from redisbeater import rrule
from redisbeater.exceptions import InvalidEntry
from redisbeater.model.definition import Definition
from redisbeater.model.plan import Plan, plan
from redisbeater.model.policies import Coalesce
from redisbeater.model.resolved_policy import Defaults, ResolvedPolicy
from redisbeater.model.skip import Reason, Skip, add_skips, read_skipped
from redisbeater.schedules.budget import Count, Steps, StepsExhausted
from redisbeater.schedules.timetable import Timetable

UTC = timezone.utc
NOW = utc("2026-06-10 12:00:30")
LONG_AGO = utc("1970-01-02")


def of(*texts: str) -> rrule:
    return rrule("\n".join(texts))


def seconds_from(start: datetime, number: int) -> str:
    return ",".join(f"{start + timedelta(seconds=second):%Y%m%dT%H%M%SZ}" for second in range(number))


def planned(schedule_: BaseSchedule, late_since: datetime, coalesce: Coalesce = Coalesce.LATEST) -> Plan:
    definition = Definition.checked(name="report", task="proj.report", schedule=schedule_)
    return plan(ResolvedPolicy.of(definition, Defaults(zone=UTC, coalesce=coalesce)), late_since, NOW)


@pytest.mark.parametrize("coalesce", list(Coalesce), ids=str)
@pytest.mark.parametrize(
    ("schedule_", "late_since"),
    [
        pytest.param(
            of("DTSTART:19700101T000000Z", "RRULE:FREQ=SECONDLY;BYWEEKNO=40,41"), LONG_AGO, id="seconds-of-two-weeks"
        ),
        pytest.param(of("DTSTART:19700101T000000Z", "RRULE:FREQ=DAILY"), LONG_AGO, id="days-since-1970"),
        pytest.param(rrule("MINUTELY", dtstart=LONG_AGO), NOW - timedelta(days=7), id="minutes-of-a-week"),
        pytest.param(rrule("SECONDLY", dtstart=LONG_AGO), NOW - timedelta(hours=3), id="seconds-of-three-hours"),
        pytest.param(
            of("DTSTART:20260609T120030Z", f"RDATE:{seconds_from(NOW - timedelta(days=1), 5_000)}"),
            NOW - timedelta(days=1),
            id="five-thousand-rdates",
        ),
        pytest.param(solar("sunset", 48.2, 16.4), LONG_AGO, id="sunsets-since-1970"),
        pytest.param(schedule(1, relative=True), LONG_AGO, id="relative-seconds-since-1970"),
    ],
)
def test_a_long_history_is_planned_within_the_steps(
    schedule_: BaseSchedule, late_since: datetime, coalesce: Coalesce
) -> None:
    got = planned(schedule_, late_since, coalesce)

    assert got.runs
    assert got.next.is_finished or got.next.fire_time is not None


def steps_of(schedule_: rrule, after: datetime = NOW) -> int:
    steps = Steps()
    schedule_.next_fire_time(after, steps)
    return steps.taken


@pytest.mark.parametrize(
    ("text", "most"),
    [
        pytest.param("FREQ=DAILY", 500, id="daily"),
        pytest.param("FREQ=SECONDLY", 1000, id="secondly"),
        pytest.param("FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=29;BYDAY=MO", 6000, id="leap-day-on-a-monday"),
        pytest.param("FREQ=DAILY;BYDAY=MO,TU,WE,TH,FR;COUNT=10000", 20_000, id="count-of-38-years"),
    ],
)
def test_a_next_fire_time_takes_few_steps(text: str, most: int) -> None:
    assert steps_of(of("DTSTART:20200101T000000Z", f"RRULE:{text}")) <= most


def test_a_minutely_rule_late_by_a_week_counts_what_was_missed_exactly() -> None:
    [skipped] = planned(rrule("MINUTELY", dtstart=LONG_AGO), NOW - timedelta(days=7, seconds=30)).skipped

    assert (skipped.reason, skipped.count_text) == (Reason.COALESCED, "10080")


def test_a_count_that_takes_too_long_is_refused_with_what_to_write_instead() -> None:
    with pytest.raises(InvalidEntry, match=r"\$\.schedule: .*too many steps.*UNTIL"):
        of("DTSTART:19700101T000000Z", "RRULE:FREQ=SECONDLY;INTERVAL=86399;BYSECOND=13;COUNT=100000").next_fire_time(
            NOW
        )


def test_several_rules_share_the_steps() -> None:
    idle = [f"RRULE:FREQ=SECONDLY;INTERVAL=9907;BYHOUR=1;BYMINUTE=1;BYSECOND={second};COUNT=99" for second in range(9)]

    with pytest.raises(StepsExhausted):
        of("DTSTART:20240118T124952Z", *idle).next_fire_time(NOW)


def test_the_steps_do_not_depend_on_what_is_remembered() -> None:
    rule = of("DTSTART:20200101T000000Z", "RRULE:FREQ=DAILY;BYDAY=MO,SA;BYYEARDAY=1,50;COUNT=30")

    assert steps_of(rule) == steps_of(rule) == steps_of(of(*(rule.text or "").splitlines()))


def test_what_is_too_much_to_count_is_at_least_so_much() -> None:
    table = Timetable(schedule=rrule("SECONDLY", dtstart=LONG_AGO, byweekday=0), zone=UTC, counting=Steps(2000))

    counted = table.count(LONG_AGO, NOW)

    assert counted.is_at_least
    assert 1 < counted.number < 500_000_000


# -- skips


def test_a_skip_that_was_not_counted_to_its_end_is_stored_and_read() -> None:
    first = add_skips("", [Skip(reason=Reason.MISSED, count=5, first=NOW, last=NOW, is_at_least=True)])
    both = add_skips(first, [Skip(reason=Reason.MISSED, count=2, first=NOW, last=NOW)])

    assert read_skipped(both)["missed"].count_text == "at least 7"


def test_a_stored_record_without_the_flag_is_exact() -> None:
    stored = '{"missed":{"count":3,"last":"2026-01-01T00:00:00+00:00"}}'

    assert read_skipped(stored)["missed"].count_text == "3"


# -- against stepping

RULES = [
    "FREQ=HOURLY", "FREQ=HOURLY;INTERVAL=5", "FREQ=MINUTELY;INTERVAL=37", "FREQ=MINUTELY;BYMINUTE=0,30", "FREQ=DAILY",
    "FREQ=DAILY;INTERVAL=3;BYHOUR=1,2,3;BYMINUTE=0,30", "FREQ=WEEKLY;BYDAY=SU,MO;BYHOUR=2", "FREQ=WEEKLY;INTERVAL=2",
    "FREQ=MONTHLY;BYDAY=2SU,1SU", "FREQ=MONTHLY;BYDAY=SU;BYSETPOS=1,-1", "FREQ=DAILY;COUNT=300", "FREQ=YEARLY",
    "FREQ=SECONDLY;INTERVAL=1801", "FREQ=HOURLY;BYMINUTE=1,2,3;BYSETPOS=-1", "FREQ=DAILY;UNTIL=20260901T000000Z",
]  # fmt: skip
ZONES = ["UTC", "America/New_York", "Australia/Lord_Howe", "America/Santiago", "Antarctica/Troll"]
days = st.dates(date(2026, 1, 1), date(2026, 12, 31))


@examples(150)
@given(
    rules=st.lists(st.sampled_from(RULES), max_size=2),
    zone=st.sampled_from(ZONES),
    rdates=st.lists(days, max_size=3),
    exdates=st.lists(days, max_size=5),
    start=st.datetimes(datetime(2026, 1, 1), datetime(2026, 11, 30), timezones=st.just(UTC)),
    hours=st.integers(1, 1200),
    limit=st.integers(1, 30),
)
def test_newest_and_count_of_a_rule_equal_those_found_by_stepping(
    rules: list[str],
    zone: str,
    rdates: list[datetime],
    exdates: list[datetime],
    start: datetime,
    hours: int,
    limit: int,
) -> None:
    assume(rules or rdates)
    schedule_ = of(
        f"DTSTART;TZID={zone}:20260101T023000",
        *(f"RRULE:{rule}" for rule in rules),
        *(f"RDATE;TZID={zone}:{day:%Y%m%d}T020000" for day in rdates),
        *(f"EXDATE;TZID={zone}:{day:%Y%m%d}T023000" for day in exdates),
    )
    plenty = {"searching": Steps(10**8), "counting": Steps(10**8)}
    table = Timetable(schedule=schedule_, zone=ZoneInfo(zone), **plenty)
    first, now = table.next(start), start + timedelta(hours=hours)
    assume(first is not None and first <= now)
    coming = [first, *islice(table.between(first, now), 3000)]
    assume(len(coming) < 3000)

    assert table.newest_of(limit, first, now) == coming[-limit:]
    assert table.count(first, coming[-1]) == Count(len(coming))
