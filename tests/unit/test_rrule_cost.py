"""Random rules cost a bounded number of engine steps, and no work stays uncounted.

Work is the number of Python calls, which is the same on every machine. With ``REDISBEATER_EXAMPLES=200000`` in the
environment there are as many rules, and others each time.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from functools import partial
from typing import Any

import pytest
from support.examples import OWN, more_in_the_whole_run, number_of_examples

from redisbeater import rrule
from redisbeater.model.definition import Definition
from redisbeater.model.plan import plan
from redisbeater.model.resolved_policy import Defaults, ResolvedPolicy
from redisbeater.schedules.budget import COUNTING_STEPS, SEARCHING_STEPS, Steps, StepsExhausted

#: How many rules are tried.
NUMBER = number_of_examples(3_000, default=1_000)

#: How many next fire times of each rule are searched.
INSTANTS = 4

#: The calls of one rule of so many are counted, which is slow, and it is planned late, too.
MEASURED = 25

#: Calls that come with each rule, and with each step.
BASE_CALLS, CALLS_PER_STEP = 3_000, 4

START = datetime(2020, 1, 1, tzinfo=timezone.utc)
ZONES = ("UTC", "America/New_York", "Australia/Lord_Howe", "Europe/Dublin")
DAYS = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")
FREQUENCIES = ("YEARLY", "MONTHLY", "WEEKLY", "DAILY", "HOURLY", "MINUTELY", "SECONDLY")
INTERVALS = (
    1,
    1,
    1,
    1,
    1,
    1,
    1,
    1,
    2,
    3,
    7,
    11,
    59,
    60,
    99,
    1439,
    3601,
    9907,
    9908,
    86_399,
    86_400,
    604_800,
    1_000_003,
)
PARTS: dict[str, tuple[int, int]] = {
    "BYMONTH": (1, 12), "BYMONTHDAY": (-31, 31), "BYYEARDAY": (-366, 366), "BYWEEKNO": (-53, 53), "BYHOUR": (0, 23),
    "BYMINUTE": (0, 59), "BYSECOND": (0, 59), "BYSETPOS": (-5, 5), "BYEASTER": (-80, 200),
}  # fmt: skip


def random_rule(chance: random.Random) -> str:
    parts = [f"FREQ={chance.choice(FREQUENCIES)}", f"INTERVAL={chance.choice(INTERVALS)}"]
    for name, (low, high) in PARTS.items():
        if chance.random() < 0.1:
            numbers = {chance.randint(low, high) or 1 for _ in range(chance.choice((1, 1, 2, 5, 30)))}
            parts.append(f"{name}={','.join(map(str, sorted(numbers)))}")
    if chance.random() < 0.2:
        parts.append(
            f"BYDAY={','.join(chance.sample(('MO', 'TU', 'WE', 'TH', 'FR', 'SA', 'SU'), chance.randint(1, 5)))}"
        )
    if chance.random() < 0.15:
        parts.append(f"COUNT={chance.choice((1, 5, 100, 5_000, 100_000, 10**9, 10**17))}")
    return ";".join(parts)


def random_text(chance: random.Random) -> str:
    start = START + timedelta(seconds=chance.randrange(6 * 365 * 86_400))
    lines = [f"DTSTART;TZID={chance.choice(ZONES)}:{start:%Y%m%dT%H%M%S}"]
    lines += [f"RRULE:{random_rule(chance)}" for _ in range(chance.choice((1,) * 20 + (2, 6)))]
    if chance.random() < 0.05:
        first = start + timedelta(days=chance.randrange(900))
        length = chance.choice((1, 60, 3600, 86_400))
        moments = (first + timedelta(seconds=number * length) for number in range(chance.choice((3, 200))))
        lines.append(f"{chance.choice(('EXDATE', 'RDATE'))}:{','.join(f'{at:%Y%m%dT%H%M%SZ}' for at in moments)}")
    return "\n".join(lines)


class Outcome:
    """What became of random rules, and the most calls that a step stood for."""

    def __init__(self) -> None:
        self.found = self.refused = self.exhausted = 0
        self.dearest: list[tuple[int, int, str]] = []

    def add(self, calls: int, steps: int, what: str) -> None:
        if calls > BASE_CALLS + CALLS_PER_STEP * steps:
            self.dearest.append((calls, steps, what))


def calls_of(function: Callable[[], Any]) -> tuple[int, Any]:
    """Return how many Python calls a function takes, and its result or the error of its rule."""
    number = 0

    def count(frame: Any, event: str, argument: Any) -> None:
        nonlocal number
        number += event == "call"

    sys.setprofile(count)
    try:
        result = function()
    except ValueError as exc:
        result = exc
    finally:
        sys.setprofile(None)
    return number, result


def uncounted(function: Callable[[], Any]) -> tuple[int, Any]:
    """Return no number of calls, and the result of a function or the error of its rule."""
    try:
        return 0, function()
    except ValueError as exc:
        return 0, exc


def late_plan(rule: rrule, chance: random.Random) -> Any:
    definition = Definition.checked(name="n", task="t", schedule=rule)
    policy = ResolvedPolicy.of(definition, Defaults(zone=timezone.utc))
    since = START + timedelta(seconds=chance.randrange(7 * 365 * 86_400))
    return plan(policy, since, since + timedelta(hours=chance.choice((1, 30, 800, 90_000))))


@more_in_the_whole_run
@pytest.mark.timeout(600)
def test_no_rule_takes_more_work_than_its_steps_allow() -> None:
    chance, outcome = random.Random(None if OWN else 5545), Outcome()
    for number in range(NUMBER):
        measured = calls_of if number % MEASURED == 0 else uncounted
        text = random_text(chance)
        calls, rule = measured(partial(rrule, text))
        outcome.add(calls, SEARCHING_STEPS, text)
        if isinstance(rule, ValueError):
            outcome.refused += not isinstance(rule, StepsExhausted)
            outcome.exhausted += isinstance(rule, StepsExhausted)
            continue
        for _ in range(INSTANTS):
            after, steps = START + timedelta(seconds=chance.randrange(20 * 365 * 86_400)), Steps()
            calls, following = measured(partial(rule.next_fire_time, after, steps))
            outcome.add(calls, steps.taken, f"{after} {text}")
            outcome.exhausted += isinstance(following, StepsExhausted)
            outcome.found += isinstance(following, datetime)
        if measured is calls_of:
            calls, _ = calls_of(partial(late_plan, rule, chance))
            outcome.add(calls, SEARCHING_STEPS + COUNTING_STEPS, f"plan {text}")

    assert outcome.dearest == []
    assert outcome.found > NUMBER
    assert outcome.refused > NUMBER / 200
    assert 0 < outcome.exhausted < NUMBER / 2
