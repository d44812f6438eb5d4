"""Cron expressions against a naive oracle that looks at every second or minute, and against cronsim and croniter.

``REDISBEATER_CRON_ROUNDS=100`` draws a hundred times as many expressions for each zone, from other seeds.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from cron_oracle import ZONES, Drawn, draw, fire_times, shifts
from croniter import croniter
from cronsim import CronSim

from redisbeater.exceptions import InvalidEntry
from redisbeater.schedules.cron_expression import cron_expression
from redisbeater.schedules.timetable import Timetable

UTC = timezone.utc
SECOND, MINUTE = timedelta(seconds=1), timedelta(minutes=1)
MICROSECOND = timedelta(microseconds=1)

ROUNDS = int(os.environ.get("REDISBEATER_CRON_ROUNDS", "1"))

#: Expressions with fire times, around one instant of one zone in one round.
NUMBER = 2


def readable(rng: random.Random, *, with_seconds: bool, hours: tuple[int, ...]) -> tuple[Drawn, cron_expression]:
    """Draw until an expression can fire."""
    while True:
        drawn = draw(rng, with_seconds=with_seconds, hours=hours)
        with suppress(InvalidEntry):  # the 31st of February
            return drawn, cron_expression(drawn.text)


def compared(rng: random.Random, zone: ZoneInfo, at: datetime, around: timedelta, step: timedelta) -> int:
    """Compare expressions with the oracle from ``around`` before an instant until after it.

    Return the number of fire times. Expressions are drawn until so many have fire times, or most have none.
    """
    start, end = at - around, at + around
    hours = tuple({(at + timedelta(hours=nearby)).astimezone(zone).hour for nearby in (-1, 0, 1)})
    found: list[int] = []
    while len(found) < 5 * NUMBER and sum(map(bool, found)) < NUMBER:
        drawn, made = readable(rng, with_seconds=step == SECOND, hours=hours)
        expected = [instant for instant in fire_times(drawn, zone, start - MINUTE, end, step) if start <= instant]
        compare(drawn, made, zone, start, at, end, expected)
        found.append(len(expected))
    return sum(found)


def compare(
    drawn: Drawn,
    made: cron_expression,
    zone: ZoneInfo,
    start: datetime,
    at: datetime,
    end: datetime,
    expected: list[datetime],
) -> None:
    """Compare next, newest and count with the fire times that the oracle found between two instants."""
    timetable, case = Timetable(schedule=made, zone=zone).afresh(10_000_000), (drawn.text, zone.key, at)
    assert made.slots.is_repeating is drawn.is_repeating, case
    following = timetable.next(start - MICROSECOND)
    if not expected:
        assert following is None or following >= end, case
        return
    assert following == expected[0], case
    # A very long list says no more than its ends and the part around the instant itself.
    middle = [instant for instant in expected if abs(instant - at) <= timedelta(minutes=90)]
    for part in filter(None, (expected[:100], middle[:100], middle[-100:], expected[-100:])):
        assert list(timetable.between(part[0] - MICROSECOND, part[-1])) == part, case
    assert timetable.newest(expected[0], end - MICROSECOND) == expected[-1], case
    assert timetable.count(expected[0], end - MICROSECOND).number == len(expected), case


def instants(rng: random.Random, zone: ZoneInfo) -> list[datetime]:
    """Return the shifts of a year, and the end of a month."""
    year, month = rng.randint(1975, 2036), rng.randint(1, 12)
    found = shifts(zone, year) or shifts(zone, 2018)
    return [*rng.sample(found, min(len(found), 2)), datetime(year, month, 1, tzinfo=zone).astimezone(UTC)]


@pytest.mark.parametrize("name", ZONES)
@pytest.mark.parametrize(
    ("around", "step"),
    [(timedelta(days=2), MINUTE), (timedelta(hours=2), SECOND)],
    ids=["minutes", "seconds"],
)
@pytest.mark.parametrize("round_", range(ROUNDS))
def test_around_shifts_and_month_ends_it_fires_when_a_naive_look_at_each_step_of_the_clock_finds_it(
    name: str, around: timedelta, step: timedelta, round_: int
) -> None:
    rng, zone = random.Random(f"{name} {step} {round_}"), ZoneInfo(name)

    total = sum(compared(rng, zone, at, around, step) for at in instants(rng, zone))

    assert total > 0


# -- against cronsim and croniter


def following(step: Callable[[], datetime], number: int) -> list[datetime]:
    return [step() for _ in range(number)]


#: Fields that cronsim reads as we do, with only one of the day fields restricted: it takes either of two.
CRONSIM_DAYS = (
    ("L", "*"), ("LW", "*"), ("1,L", "*"), ("10-20", "*"), ("*", "5L"), ("*", "1L,4L"), ("*", "fri#1"), ("*", "mon#5"),
    ("*", "0#2,3#4"), ("*", "2,6L"), ("*", "7#1"), ("*", "*"),
)  # fmt: skip


@pytest.mark.parametrize(("dates", "weekdays"), CRONSIM_DAYS, ids=map(" ".join, CRONSIM_DAYS))
def test_in_utc_it_agrees_with_cronsim(dates: str, weekdays: str) -> None:
    rng = random.Random(f"{dates} {weekdays}")
    for _ in range(20 * ROUNDS):
        time = " ".join(rng.choice(["*", "0", "7,20", "*/20", "5-15"]) for _ in range(3))
        month = rng.choice(["*", "*", "2", "jan-mar", "*/5"])
        text = f"{time} {dates} {month} {weekdays}"
        after = datetime(2000, 1, 1, tzinfo=UTC) + rng.random() * timedelta(days=30_000)
        timetable, oracle = Timetable(schedule=cron_expression(text), zone=UTC), CronSim(text, after)
        expected = following(lambda oracle=oracle: next(oracle), 4)  # type: ignore[misc]

        assert list(timetable.between(after, expected[-1])) == expected, text


# croniter takes 29W to 31W for the last day of a shorter month; here they have no run in it, as 29 to 31 have none.
@pytest.mark.parametrize("day", range(1, 29))
def test_in_utc_the_nearest_workday_is_that_of_croniter(day: int) -> None:
    after = datetime(2024, 1, 1, tzinfo=UTC)
    oracle = croniter(f"30 9 {day}W * *", after)
    expected = following(lambda: oracle.get_next(datetime), 40)

    timetable = Timetable(schedule=cron_expression(f"30 9 {day}W * *"), zone=UTC)

    assert list(timetable.between(after, expected[-1])) == expected
