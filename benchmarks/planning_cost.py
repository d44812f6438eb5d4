"""Measure what it takes to plan one entry that is late, for schedules that are dear.

    python benchmarks/planning_cost.py            # a few seconds

The figures are milliseconds of processor time: first for reading the schedule, then for the plan. "at least": counting
all skipped fire times would have taken too many engine steps.
"""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from typing import Any

from celery.schedules import schedule, solar

from redisbeater import any_of, cron, rrule
from redisbeater.exceptions import InvalidEntry
from redisbeater.model import plan as planning
from redisbeater.model.definition import Definition
from redisbeater.model.resolved_policy import Defaults, ResolvedPolicy
from redisbeater.schedules.limited import limited

NOW = datetime(2026, 6, 10, 12, 0, 30, tzinfo=timezone.utc)
LONG_AGO = datetime(1970, 1, 2, tzinfo=timezone.utc)
DAY, HOUR = timedelta(days=1), timedelta(hours=1)
START = "DTSTART:19700101T000000Z\n"


def stamps(since: datetime, number: int) -> str:
    return ",".join(f"{since + timedelta(seconds=second):%Y%m%dT%H%M%SZ}" for second in range(number))


def cases() -> Iterator[tuple[str, Any, datetime]]:
    """Yield the name of a case, its schedule or the text of it, and since when it is late."""
    yield "SECONDLY;BYWEEKNO=40,41 since 1970", START + "RRULE:FREQ=SECONDLY;BYWEEKNO=40,41", LONG_AGO
    yield "SECONDLY 3 h", START + "RRULE:FREQ=SECONDLY", NOW - 3 * HOUR
    yield "MINUTELY 7 days", START + "RRULE:FREQ=MINUTELY", NOW - 7 * DAY
    yield "DAILY since 1970", START + "RRULE:FREQ=DAILY", LONG_AGO
    yield "5,000 RDATEs 1 day", START + f"RDATE:{stamps(NOW - DAY, 5_000)}", NOW - DAY
    exdates = f"RRULE:FREQ=SECONDLY\nEXDATE:{stamps(NOW - 7 * HOUR, 5_000)}"
    yield "SECONDLY, 5,000 EXDATEs 8 h", START + exdates, NOW - 8 * HOUR
    rare = "\n".join(f"RRULE:FREQ=SECONDLY;INTERVAL=99;BYHOUR=0;BYMINUTE={minute}" for minute in range(1, 21))
    yield "20 rules of a second 1 day", START + "RRULE:FREQ=DAILY\n" + rare, NOW - DAY
    yield "COUNT of 383 years", START + "RRULE:FREQ=DAILY;BYDAY=MO,TU,WE,TH,FR;COUNT=100000", NOW - DAY
    yield "sunsets since 1970", solar("sunset", 48.2, 16.4), LONG_AGO
    yield "relative second since 1970", schedule(1, relative=True), LONG_AGO
    yield "20 crons since 1970", any_of(*(f"{minute} * * * *" for minute in range(20))), LONG_AGO
    yield "20 crons, each of a second, since 1970", any_of(*(f"{each} * * * * *" for each in range(20))), LONG_AGO
    yield "every second within a window since 1970", limited(schedule(1), "09:30-16:00", "mon-fri"), LONG_AGO
    seconds = cron("* * * * * *")
    yield "cron of a second within a window", limited(seconds, "22:00-04:00", "mon-fri"), LONG_AGO


def main() -> None:
    print(f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}\n")
    print(f"{'late':<38}{'read':>8}{'plan':>8}  result")
    for name, given, since in cases():
        started = time.process_time()
        made = rrule(given) if isinstance(given, str) else given
        read = time.process_time()
        policy = ResolvedPolicy.of(
            Definition.checked(name="report", task="t", schedule=made), Defaults(zone=timezone.utc)
        )
        begun = time.process_time()
        try:
            skipped = planning.plan(policy, since, NOW).skipped
            result = ", ".join(f"{skip.reason} {skip.count_text}" for skip in skipped) or "nothing skipped"
        except InvalidEntry:
            result = "refused: too many steps"
        ended = time.process_time()
        print(f"{name:<38}{(read - started) * 1000:>8.1f}{(ended - begun) * 1000:>8.1f}  {result}")


if __name__ == "__main__":
    main()
