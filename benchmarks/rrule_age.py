"""Measure the next fire time of an rrule by the age of its dtstart, against celery-redbeat.

    python benchmarks/rrule_age.py                # less than a minute

The figures are milliseconds of processor time for one fire time. "first": the first one of a rule that was just
decoded, which includes finding the last occurrence of a count. "again": every later one, also if the rule is decoded
again. Needs ``pip install ".[test]"``.
"""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from importlib.metadata import version
from itertools import product
from typing import Any

from dateutil.rrule import DAILY, HOURLY, MINUTELY, MO, MONTHLY, SECONDLY, TH, WEEKLY, YEARLY
from redbeat.schedules import rrule as redbeat_rrule

from redisbeater import rrule
from redisbeater.schedules.kinds import ScheduleCodec

NOW = datetime(2026, 6, 10, 12, 0, 30, tzinfo=timezone.utc)

AGES = {
    "1 day": timedelta(days=1),
    "1 month": timedelta(days=30),
    "1 year": timedelta(days=365),
    "20 years": timedelta(days=7305),
}

#: The name of a rule, its parts, and its occurrences per day.
RULES: tuple[tuple[str, dict[str, Any], float], ...] = (
    ("YEARLY", {"freq": YEARLY}, 1 / 365),
    ("MONTHLY first Monday", {"freq": MONTHLY, "byweekday": MO(+1)}, 1 / 30),
    ("WEEKLY Mondays, Thursdays", {"freq": WEEKLY, "byweekday": [MO, TH]}, 2 / 7),
    ("DAILY work days", {"freq": DAILY, "byweekday": [0, 1, 2, 3, 4]}, 5 / 7),
    ("HOURLY", {"freq": HOURLY}, 24),
    ("HOURLY work days", {"freq": HOURLY, "byweekday": [0, 1, 2, 3, 4]}, 24 * 5 / 7),
    ("MINUTELY", {"freq": MINUTELY}, 1440),
    ("MINUTELY work days", {"freq": MINUTELY, "byweekday": [0, 1, 2, 3, 4]}, 1440 * 5 / 7),
    ("SECONDLY", {"freq": SECONDLY}, 86_400),
)

#: RedBeat computes each occurrence since dtstart. With more occurrences it would take more than about a second.
MOST_STEPS = 200_000


def main() -> None:
    print(f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()},", end=" ")
    print(f"celery-redbeat {version('celery-redbeat')}, python-dateutil {version('python-dateutil')}; milliseconds\n")
    print(f"{'':<28}{'':<6} {'':<19}", *(f"{age:>10}" for age in AGES))
    for (name, parts, per_day), has_count in product(RULES, (False, True)):
        for contender, costs in rows(parts, per_day, has_count):
            print(f"{name:<28}{'count' if has_count else '':<6} {contender:<19}", *(f"{cost:>10}" for cost in costs))
        print()


def rows(parts: dict[str, Any], per_day: float, has_count: bool) -> Iterator[tuple[str, list[str]]]:
    """Yield each contender's cost by age. A rule with a count still has occurrences left."""
    steps = [int(age.days * per_day) for age in AGES.values()]
    rules = [
        {**parts, "dtstart": NOW - age, "count": step + 1000 if has_count else None}
        for age, step in zip(AGES.values(), steps)
    ]
    ours = [of_ours(rule) for rule in rules]
    yield "redisbeater, first", [f"{first:.3f}" for first, _ in ours]
    yield "redisbeater, again", [f"{again:.3f}" for _, again in ours]
    yield "celery-redbeat", [of_redbeat(rule) if step < MOST_STEPS else "not tried" for rule, step in zip(rules, steps)]


def of_ours(parts: dict[str, Any]) -> tuple[float, float]:
    codec = ScheduleCodec()
    rule: Any = codec.decode(codec.encode(rrule(**parts)))
    first = took(lambda: rule.next_fire_time(NOW))
    return first, min(took(lambda: rule.next_fire_time(NOW)) for _ in range(200))


def of_redbeat(parts: dict[str, Any]) -> str:
    rule = redbeat_rrule(**parts, nowfun=lambda: NOW)
    return f"{min(took(lambda: rule.remaining_estimate(NOW)) for _ in range(2)):.3f}"


def took(evaluation: Callable[[], Any]) -> float:
    started = time.process_time()
    evaluation()
    return (time.process_time() - started) * 1000


if __name__ == "__main__":
    main()
