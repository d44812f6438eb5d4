"""Measure one evaluation of a schedule, from an instant to the next fire time, against Celery and cronsim.

    python benchmarks/evaluation.py                    # about half a minute
    python benchmarks/evaluation.py --quick            # a few seconds, wider spreads
    python benchmarks/evaluation.py --json FILE        # write the figures as well

Processor time is measured. Every round measures everything once, so that a busy machine affects all contenders.
Schedules are created beforehand, except for cronsim, which parses its expression for each start. Needs no server, but
``pip install ".[test]"``.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import time
import timeit
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from importlib.metadata import version
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from celery import Celery
from celery.schedules import BaseSchedule, crontab, schedule
from cronsim import CronSim

from redisbeater.schedules import crontab as crontab_engine
from redisbeater.schedules.cron_expression import cron_expression
from redisbeater.schedules.timetable import next_fire_time

ZONE = ZoneInfo("America/New_York")
APP = Celery("evaluation", set_as_current=False)

CRONTABS = ("* * * * *", "*/5 * * * *", "0 9 * * *", "0 9 * * mon-fri", "0 9 1 * *", "0 0 29 2 *")
#: A crontab could hold the first one: it shows what the other schedule costs.
EXPRESSIONS = ("0 9 * * mon-fri", "*/10 * * * * *", "0 9 L * *", "0 9 15W * *", "0 9 * * fri#1", "0 0 29 2 fri")
ANY_DAY = datetime(2026, 6, 10, 16, 7, 3, tzinfo=timezone.utc)
AROUND_SHIFTS = {
    "before a gap": datetime(2026, 3, 8, 5, 7, 3, tzinfo=timezone.utc),
    "in a repeated hour": datetime(2026, 11, 1, 5, 37, 3, tzinfo=timezone.utc),
    "after it": datetime(2026, 11, 1, 12, 7, 3, tzinfo=timezone.utc),
}
INTERVALS = {
    "interval of 60 s": schedule(60),
    "relative interval of 60 s": schedule(60, relative=True),
    "relative interval of a day": schedule(86_400, relative=True),
}
YEAR = timedelta(days=365)

CONTENDERS = ("redisbeater", "celery", "cronsim")

#: One contender's share of a round: long enough for the clock, short enough to be fair.
SHARE_SECONDS = 0.005


@dataclass(frozen=True, kw_only=True)
class Case:
    """A row of the table: an evaluation for each contender."""

    name: str
    evaluations: dict[str, Callable[[], Any]]


def cases() -> Iterator[Case]:
    """Yield the cases, in the order of the table."""
    for expression in CRONTABS:
        yield Case(name=expression, evaluations=_next_of_crontab(expression, ANY_DAY))
    for expression in EXPRESSIONS:
        ours = _bound(cron_expression(expression).next_fire_time, ZONE, ANY_DAY)
        yield Case(name=f"{expression:<17} as cron expression", evaluations={"redisbeater": ours})
    for when, after in AROUND_SHIFTS.items():
        for expression in CRONTABS[:3]:
            yield Case(name=f"{expression:<17} {when}", evaluations=_next_of_crontab(expression, after))
    for name, interval in INTERVALS.items():
        ours = _bound(next_fire_time, interval, ZONE, ANY_DAY)
        yield Case(name=name, evaluations={"redisbeater": ours, "celery": _celery(interval, ANY_DAY)})
    every_second = _bound(crontab_engine.count, cron_expression("* * * * * *"), ZONE, ANY_DAY, ANY_DAY + YEAR)
    yield Case(name="* * * * * *       counted over a year", evaluations={"redisbeater": every_second})
    for expression in CRONTABS[:3]:
        count = _bound(crontab_engine.count, _crontab(expression), ZONE, ANY_DAY, ANY_DAY + YEAR)
        yield Case(name=f"{expression:<17} counted over a year", evaluations={"redisbeater": count})


def _next_of_crontab(expression: str, after: datetime) -> dict[str, Callable[[], Any]]:
    local = after.astimezone(ZONE)
    return {
        "redisbeater": _bound(crontab_engine.next_fire_time, _crontab(expression), ZONE, after),
        "celery": _celery(_crontab(expression), after),
        "cronsim": lambda: next(CronSim(expression, local)),
    }


def _crontab(expression: str) -> crontab:
    minute, hour, day_of_month, month_of_year, day_of_week = expression.split()
    return crontab(minute, hour, day_of_week, day_of_month, month_of_year)


def _celery(original: BaseSchedule, after: datetime) -> Callable[[], Any]:
    """Return an evaluation by Celery itself, with a clock that shows that instant."""
    local = after.astimezone(ZONE)
    rebuild, arguments = original.__reduce__()[:2]
    copy = rebuild(*arguments)
    copy.app, copy.tz, copy.nowfun = APP, ZONE, lambda: local
    return _bound(copy.remaining_estimate, local)


def _bound(function: Callable[..., Any], *arguments: Any) -> Callable[[], Any]:
    return lambda: function(*arguments)


def measure(measured: list[Case], rounds: int) -> dict[str, dict[str, list[float]]]:
    """Return the microseconds of one evaluation by case and contender, one figure for each round."""
    timers = {
        (case.name, contender): timeit.Timer(evaluation, timer=time.process_time)
        for case in measured
        for contender, evaluation in case.evaluations.items()
    }
    repetitions = {key: _repetitions(timer) for key, timer in timers.items()}
    figures: dict[str, dict[str, list[float]]] = {case.name: {} for case in measured}
    for _ in range(rounds):
        for (name, contender), timer in timers.items():
            number = repetitions[name, contender]
            figures[name].setdefault(contender, []).append(timer.timeit(number) / number * 1e6)
    return figures


def _repetitions(timer: timeit.Timer) -> int:
    """Return how often an evaluation fits into its share of a round."""
    return max(1, int(SHARE_SECONDS / (timer.timeit(100) / 100)))


def machine() -> str:
    """Return the machine and the versions in one line."""
    versions = ", ".join(f"{package} {version(package)}" for package in ("redisbeater", "celery", "cronsim"))
    return f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, {versions}"


def table(figures: dict[str, dict[str, list[float]]]) -> str:
    """Return a table with the median of the rounds in microseconds, and the range of their middle half."""
    lines = ["".join([f"{'microseconds: median (middle half)':<38}", *(f"{name:<22}" for name in CONTENDERS)])]
    for case, by_contender in figures.items():
        cells = [_cell(by_contender[name]) if name in by_contender else "-" for name in CONTENDERS]
        lines.append("".join([f"{case:<38}", *(f"{cell:<22}" for cell in cells)]))
    return "\n".join(line.rstrip() for line in lines)


def _cell(rounds: list[float]) -> str:
    low, median, high = statistics.quantiles(rounds, n=4)
    return f"{median:.1f} ({low:.1f}-{high:.1f})"


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--quick", action="store_true", help="5 rounds instead of 60")
    options.add_argument(
        "--json", type=Path, metavar="FILE", help="write the figures of every round to this file as well"
    )
    arguments = options.parse_args()
    figures = measure(list(cases()), 5 if arguments.quick else 60)
    print(machine(), table(figures), sep="\n")
    if arguments.json:
        arguments.json.write_text(json.dumps({"machine": machine(), "microseconds": figures}, indent=2) + "\n")


if __name__ == "__main__":
    main()
