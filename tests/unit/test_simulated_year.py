"""A year of entries in ten zones, beat up and down at random: each fire time is run once or skipped for a reason.

What beat does to an entry is done here to its stored texts, with a clock that is made up. Which fire times there are is
found without the engine: a crontab's by looking at the clock of the zone every five minutes of the year, an interval's
by adding, an rrule's by the dates of the calendar. Which of them are run is found by stepping.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta, timezone
from itertools import chain, pairwise
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from celery.schedules import crontab, schedule
from dateutil.rrule import MO
from moments import cron
from stepped import by_reason, stepped

from redisbeater import rrule
from redisbeater.context import Context
from redisbeater.dispatch.job import Job
from redisbeater.model.definition import Definition
from redisbeater.model.meta import Meta
from redisbeater.model.resolved_policy import ResolvedPolicy
from redisbeater.model.skip import Reason, read_skipped
from redisbeater.results import Score
from redisbeater.store import ClaimedEntry
from redisbeater.store.claim import Commitment
from redisbeater.times import from_unix, to_unix

UTC = timezone.utc
MINUTES = timedelta(minutes=1)
STEP = 5 * MINUTES
DAY = timedelta(days=1)
LEASE = timedelta(seconds=30)
FORTY = 40

#: More fire times than any outage takes away.
MOST_MISSED = 2000

#: The zones with the year whose clock changes they are here for.
YEARS = {
    "America/New_York": 2026,
    "Europe/Vienna": 2026,
    "Europe/Dublin": 2026,  # "summer" time is the standard one
    "America/Santiago": 2026,  # the gap is at midnight
    "Australia/Lord_Howe": 2026,  # by 30 minutes
    "Antarctica/Troll": 2026,  # by two hours
    "Pacific/Chatham": 2026,  # 12:45 from UTC, at 02:45
    "Africa/Casablanca": 2026,  # Ramadan
    "America/Sao_Paulo": 2018,  # the gap is at midnight
    "Pacific/Apia": 2011,  # one date does not exist
}

#: Those of the default run: the usual shifts, those by half an hour, and a date that does not exist.
BY_DEFAULT = {"Europe/Vienna", "Australia/Lord_Howe", "Pacific/Apia"}


# -- a schedule in storage, and what beat does to it


@dataclass
class Stored:
    """One entry as Redis holds it: texts only, so that each check is a restart."""

    name: str
    definition: str
    score: str
    meta: str = ""
    skipped: str = ""
    fire_time: str = ""
    look_at: str = ""

    def claim(self, now: datetime) -> ClaimedEntry:
        """Take the entry for a lease, as ``claim.lua`` does."""
        fire_time = self.fire_time if self.fire_time and self.look_at == self.score else self.score
        self.fire_time, self.look_at = fire_time, to_unix(now + LEASE)
        self.score = self.look_at
        return ClaimedEntry(
            key=f"redisbeater:{self.name}",
            name=self.name,
            definition=self.definition,
            meta=self.meta,
            fire_time=from_unix(fire_time),
            skipped=self.skipped,
        )

    def commit(self, done: Commitment) -> None:
        """Record the outcome, as ``commit.lua`` does."""
        self.meta, self.definition = done.meta or self.meta, done.definition or self.definition
        self.skipped = done.skipped or self.skipped
        self.score = "" if done.next is None else done.next.to_text()
        self.fire_time = self.look_at = ""
        if done.next and done.next.look_at and done.next.fire_time:
            self.fire_time, self.look_at = to_unix(done.next.fire_time), self.score

    @property
    def next_look(self) -> datetime | None:
        return None if not self.score or self.score.startswith("-") else from_unix(self.score)


@dataclass
class Ledger:
    """The outcome of the fire times of an entry."""

    runs: list[datetime] = field(default_factory=list)
    skipped: dict[str, list[datetime]] = field(default_factory=dict)

    def enter(self, runs: Iterable[datetime], skipped: Mapping[Reason, list[datetime]]) -> None:
        self.runs.extend(runs)
        for reason, times in skipped.items():
            self.skipped.setdefault(reason.value, []).extend(times)

    @property
    def all(self) -> list[datetime]:
        return sorted([*self.runs, *chain.from_iterable(self.skipped.values())])

    @property
    def count(self) -> int:
        return len(self.runs) + sum(map(len, self.skipped.values()))


@dataclass
class Beat:
    """A beat that is up most of the time, over one entry."""

    context: Context
    chance: random.Random
    outages: list[tuple[datetime, datetime]]
    stored: Stored
    coming: list[datetime]
    ledger: Ledger = field(default_factory=Ledger)

    def live(self, until: datetime) -> None:
        """Check the entry whenever it is due."""
        now = datetime.min.replace(tzinfo=UTC)
        while (look := self.stored.next_look) is not None and look <= until:
            now = self._up_from(max(look, now)) + timedelta(microseconds=self.chance.randrange(2_000_000))
            claimed = self.stored.claim(now)
            if self.chance.random() < 0.02:  # killed before it has sent anything; the lease brings the entry back
                continue
            self._run(claimed, now)

    def _run(self, claimed: ClaimedEntry, now: datetime) -> None:
        job = Job.planned(claimed, now, self.context)
        position = self.ledger.count
        coming = self.coming[position : position + MOST_MISSED]
        self._check_plan(job, coming, now)
        sent = len(job.plan.runs)
        if sent > 1 and self.chance.random() < 0.3:  # the lease ends, or the broker, in the middle
            sent = self.chance.randrange(1, sent)
        job = job.first_runs(sent)
        self.ledger.enter(job.plan.runs, by_reason(job.plan.skipped, coming))
        self.stored.commit(job.commitment())

    def _check_plan(self, job: Job, coming: list[datetime], now: datetime) -> None:
        """Assert that each plan is the one that stepping finds."""
        policy = ResolvedPolicy.of(job.definition, self.context.defaults)
        left = None if policy.max_runs is None else max(policy.max_runs - job.meta.total_run_count, 0)
        expected = stepped(coming, now, policy.due_at, grace=policy.grace, coalesce=policy.coalesce, runs_left=left)
        assert list(job.plan.runs) == expected.runs
        assert by_reason(job.plan.skipped, coming) == expected.skipped
        assert all(policy.due_at(fire_time) <= now for fire_time in job.plan.runs)

    def _up_from(self, instant: datetime) -> datetime:
        return next((end for start, end in self.outages if start <= instant < end), instant)


# -- fire times without the engine


@dataclass(frozen=True)
class Clock:
    """What the clock of a zone shows, naive, every five minutes from New Year to New Year and a few days on."""

    zone: ZoneInfo
    by_time: Mapping[time, list[tuple[datetime, datetime]]]
    dates: frozenset[date]
    #: Where it jumps: the instant, what it showed five minutes before, and what it shows.
    jumps: list[tuple[datetime, datetime, datetime]]

    @classmethod
    def of(cls, zone: ZoneInfo, year: int) -> Clock:
        start = datetime(year, 1, 1, tzinfo=zone).astimezone(UTC)
        shown = [(start + k * STEP, (start + k * STEP).astimezone(zone).replace(tzinfo=None)) for k in range(375 * 288)]
        by_time: dict[time, list[tuple[datetime, datetime]]] = {}
        for instant, local in shown:
            by_time.setdefault(local.time(), []).append((instant, local))
        jumps = [(new, was, is_) for (_, was), (new, is_) in pairwise(shown) if is_ - was != STEP]
        return cls(zone, by_time, frozenset(local.date() for _, local in shown), jumps)

    @property
    def changes(self) -> list[datetime]:
        """Return the instants at which the clock is changed."""
        return [instant for instant, _, _ in self.jumps]


def crontab_times(expression: str, clock: Clock, *, repeating: bool) -> list[datetime]:
    """Return when the clock shows a time of the crontab; times in a gap fire at its end, by the rules of its kind."""
    fields = cron(expression)
    slots = [time(hour, minute) for hour in sorted(fields.hour) for minute in sorted(fields.minute)]
    found, seen = set(), set()
    for instant, local in sorted(chain.from_iterable(clock.by_time.get(slot, []) for slot in slots)):
        if _allows(fields, local.date()) and (repeating or local not in seen):
            found.add(instant)
        seen.add(local)
    for instant, was, is_ in clock.jumps:
        for day in {was.date(), is_.date()} & clock.dates:
            swallowed = [slot for slot in slots if was < datetime.combine(day, slot) < is_]
            if _allows(fields, day) and swallowed and (not repeating or swallowed == slots):
                found.add(instant)
    return sorted(found)


def _allows(fields: crontab, day: date) -> bool:
    return (
        day.month in fields.month_of_year
        and day.day in fields.day_of_month
        and day.isoweekday() % 7 in fields.day_of_week
    )


def local_times(days: Iterable[date], at: time, zone: ZoneInfo) -> list[datetime]:
    """Return the instants of a local time on dates: a gap has the offset before it, of a repeated time the first."""
    return sorted({datetime.combine(day, at, tzinfo=zone).astimezone(UTC) for day in days})


def days_of(year: int) -> list[date]:
    return [date(year, 1, 1) + k * DAY for k in range(370)]


# -- the entries


@dataclass(frozen=True, kw_only=True)
class Case:
    schedule: Any
    times: list[datetime]
    policies: dict[str, Any] = field(default_factory=dict)


def cases(zone: ZoneInfo, year: int) -> dict[str, Case]:
    """A set of entries, each with all its fire times of the year by the oracles."""
    clock = Clock.of(zone, year)
    found = {**_crontabs(clock, year), **_intervals_and_rrules(zone, year)}
    for change in clock.changes:
        around = {"start_at": change - 3 * DAY, "end_at": change + 3 * DAY}
        found.update({f"{name}, {change:%m-%d}": case for name, case in _frequent_ones(clock, around).items()})
    return found


def _crontabs(clock: Clock, year: int) -> dict[str, Case]:
    summer = {"start_at": datetime(year, 4, 1, 9), "end_at": datetime(year, 9, 30, 9)}
    return {
        "nightly, each": _cron("30 2 * * *", clock, coalesce="all"),
        "nightly, oldest": _cron("15 1,2 * * *", clock, coalesce="earliest", misfire_grace_time=5 * 3600),
        "midnight, newest, jitter": _cron("0 0 * * *", clock, jitter=5400),
        "monthly": _cron("0 0 1 * *", clock, misfire_grace_time=86400),
        "workdays in summer": _cron("0 9 * * 1-5", clock, **summer, jitter=600, coalesce="all", on_finish="disable"),
        "every eight hours": _cron("0 */8 * * *", clock, repeating=True, coalesce="earliest"),
        "at night": _cron("*/30 2 * * *", clock, repeating=True, coalesce="all", misfire_grace_time=3 * 3600),
        "forty": _cron("15 */3 * * *", clock, repeating=True, max_runs=FORTY, coalesce="all", on_finish="delete"),
    }


def _intervals_and_rrules(zone: ZoneInfo, year: int) -> dict[str, Case]:
    start, end = datetime(year, 1, 1, 7, 30, tzinfo=UTC), datetime(year + 1, 1, 5, tzinfo=UTC)
    daily = rrule("DAILY", dtstart=datetime(year, 1, 1, 2, 30, tzinfo=zone))
    monthly = rrule("MONTHLY", dtstart=datetime(year, 1, 1, 9, tzinfo=zone), byweekday=MO(+1))
    mondays = [day for day in days_of(year) if day.isoweekday() == 1 and day.day <= 7]
    return {
        "daily interval": _interval(DAY, start_at=start, end_at=end, coalesce="all", jitter=3600),
        "rrule, daily": Case(
            schedule=daily,
            times=local_times(days_of(year), time(2, 30), zone),
            policies={"coalesce": "all", "misfire_grace_time": 43200},
        ),
        "rrule, first Monday": Case(
            schedule=monthly, times=local_times(mondays, time(9), zone), policies={"jitter": 7200}
        ),
    }


def _frequent_ones(clock: Clock, around: dict[str, datetime]) -> dict[str, Case]:
    return {
        "hourly": _cron("0 * * * *", clock, repeating=True, **around, jitter=900),
        "all hours": _cron("20 0-23 * * *", clock, repeating=True, **around, coalesce="all", misfire_grace_time=21600),
        "every 15 minutes": _cron("*/15 * * * *", clock, repeating=True, **around, coalesce="all"),
        "every 53 minutes": _interval(53 * MINUTES, **around, misfire_grace_time=1800, jitter=120, on_finish="delete"),
        "every 660.25 seconds": _interval(timedelta(seconds=660.25), **around, coalesce="all", on_finish="disable"),
    }


def _cron(expression: str, clock: Clock, *, repeating: bool = False, **policies: Any) -> Case:
    times = crontab_times(expression, clock, repeating=repeating)
    start, end = (
        moment and moment.replace(tzinfo=moment.tzinfo or clock.zone)
        for moment in (policies.get("start_at"), policies.get("end_at"))
    )
    between = [at for at in times if (start is None or start <= at) and (end is None or at <= end)]
    return Case(schedule=cron(expression), times=between, policies=policies)


def _interval(every: timedelta, *, start_at: datetime, end_at: datetime, **policies: Any) -> Case:
    times = [start_at + k * every for k in range((end_at - start_at) // every + 1)]
    return Case(schedule=schedule(every), times=times, policies={"start_at": start_at, "end_at": end_at, **policies})


def outages(chance: random.Random, year: int) -> list[tuple[datetime, datetime]]:
    """Return when beat is down: for minutes, hours and days, about a tenth of the year."""
    found, instant = [], datetime(year, 1, 2, tzinfo=UTC)
    while instant.year == year:
        start = instant + timedelta(minutes=chance.randrange(60, 9 * 1440))
        length = chance.choice([3, 20, 90, 400, 1300, 3 * 1440])
        end = start + timedelta(minutes=length * chance.uniform(0.5, 1.5))
        found.append((start, end))
        instant = end
    return found


def stored(name: str, case: Case, zone: str, context: Context) -> Stored:
    definition = Definition.checked(
        name=name, task="proj.report", schedule=case.schedule, timezone=zone, **case.policies
    )
    first = Score(fire_time=definition.timetable(context.zone).first(case.times[0] - timedelta(microseconds=1)))
    return Stored(name=name, definition=definition.to_text(context.codec), score=first.to_text())


@pytest.mark.parametrize(
    "zone", [zone if zone in BY_DEFAULT else pytest.param(zone, marks=pytest.mark.deep) for zone in YEARS]
)
def test_a_year_misses_nothing_and_runs_nothing_twice(zone: str, context: Context) -> None:
    year = YEARS[zone]
    chance = random.Random(zone)
    down, until = outages(chance, year), datetime(year + 1, 1, 1, tzinfo=UTC)
    for name, case in cases(ZoneInfo(zone), year).items():
        beat = Beat(context, chance, down, stored(name, case, zone, context), case.times)
        beat.live(until)
        ledger = beat.ledger
        assert len(set(ledger.runs)) == len(ledger.runs), "a run twice"
        assert ledger.all == beat.coming[: len(ledger.all)], "each fire time once, none left out"
        assert_stored(beat, until)


def assert_stored(beat: Beat, until: datetime) -> None:
    """Assert that what beat has stored is what its ledger says."""
    ledger, coming, kept = beat.ledger, beat.coming, beat.stored
    record = read_skipped(kept.skipped)
    assert {reason: item.count for reason, item in record.items()} == Counter(
        {reason: len(times) for reason, times in ledger.skipped.items()}
    )
    assert {reason: item.last for reason, item in record.items()} == {
        reason: times[-1] for reason, times in ledger.skipped.items()
    }
    meta = Meta.from_text(kept.meta)
    assert (meta.total_run_count, meta.last_run_at) == (len(ledger.runs), ledger.runs[-1])
    if kept.next_look is None:
        assert len(ledger.runs) == FORTY or ledger.all == coming
    else:
        assert kept.next_look > until
        assert all(fire_time <= kept.next_look for fire_time in coming[ledger.count :][:1])


def test_the_oracle_knows_the_table_of_new_york() -> None:
    zone = ZoneInfo("America/New_York")
    clock = Clock.of(zone, 2026)

    def times(expression: str, repeating: bool) -> list[str]:
        found = crontab_times(expression, clock, repeating=repeating)
        return [
            f"{instant.astimezone(zone):%d %H:%M %z}" for instant in found if f"{instant:%m-%d}" in ("03-08", "11-01")
        ]

    assert times("30 2 * * *", False) == ["08 03:00 -0400", "01 02:30 -0500"]
    assert times("30 1 * * *", False) == ["08 01:30 -0500", "01 01:30 -0400"]
    assert times("*/30 2 * * *", True) == ["08 03:00 -0400", "01 02:00 -0500", "01 02:30 -0500"]
    assert times("*/30 1 * * *", True)[2:] == [
        f"01 01:{minute} {offset}" for offset in ("-0400", "-0500") for minute in ("00", "30")
    ]
