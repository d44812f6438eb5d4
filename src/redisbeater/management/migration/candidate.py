"""``Candidate``: one entry of another scheduler, as it would be imported, and that scheduler's engine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone, tzinfo
from typing import Any, Protocol

from celery import Celery
from celery.beat import ScheduleEntry
from celery.schedules import BaseSchedule

from redisbeater.exceptions import StoreError
from redisbeater.model.definition import Definition
from redisbeater.model.meta import NEW, Meta

#: Yields the fire times after an instant, as the other scheduler itself finds them; the zone is that of the app.
OldEngine = Callable[[datetime], Iterator[datetime]]


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """An entry of another scheduler.

    Attributes:
        name: its name there, and here.
        definition: what would be stored; None where that cannot be.
        meta: its last run and its run count.
        engine: runs its schedule as the other scheduler does; None where that cannot be done.
        engine_key: all that the engine goes by; where it is the same, so are its fire times. Empty: that is not known.
        refused: why it cannot be imported; the field first.
        left_out: why it need not be imported.
        is_enabled: whether the other scheduler runs it; an entry that cannot be read counts as enabled.
    """

    name: str
    definition: Definition | None = None
    meta: Meta = NEW
    engine: OldEngine | None = field(default=None, compare=False, repr=False)
    engine_key: str = ""
    refused: str = ""
    left_out: str = ""
    is_enabled: bool = True


class SourceError(StoreError):
    """The schedule to import cannot be read or written; the message says where it is looked for."""


class Source(Protocol):
    """A schedule that entries are imported from."""

    @property
    def name(self) -> str:
        """The word of the command line for it."""

    @property
    def place(self) -> Sequence[str]:
        """The options of the command line that say where it is, as they were given."""

    def read(self) -> Iterable[Candidate]:
        """Yield its entries, in the order of their names.

        Raises:
            ImproperlyConfigured: a package or a setting is missing; the message says which.
            StoreError: its storage failed.
        """

    def check_switching(self) -> None:
        """Refuse to enable and disable entries there, if that cannot be done.

        Raises:
            ImproperlyConfigured: with the reason.
        """

    def switch(self, names: Sequence[str], *, enabled: bool) -> list[str]:
        """Enable or disable entries there; return the names of those that were not so before.

        Raises:
            StoreError: its storage failed.
        """


#: How often an engine may be asked without a fire time before it is given up: it asks to be asked again at once.
MOST_LOOKS = 10_000

#: The least step of the clock: an engine that rounds may ask for no delay although it is not due.
_TICK = timedelta(microseconds=1)


class SimulatedClock:
    """A clock that stands still until it is set; schedules call it as their ``nowfun``."""

    def __init__(self, now: datetime, zone: tzinfo) -> None:
        self.now = now
        self._zone = zone

    def __call__(self) -> datetime:
        return self.now.astimezone(self._zone)


class SteppedEntry(Protocol):
    """An entry of the other scheduler, on a simulated clock."""

    def is_due(self) -> tuple[bool, float | None]:
        """Return whether it is due, and the seconds until it is to be asked again."""

    def ran(self, now: datetime) -> None:
        """Record a run."""

    @property
    def is_over(self) -> bool:
        """Whether it never runs again."""


def fire_times(entry: SteppedEntry, clock: SimulatedClock) -> Iterator[datetime]:
    """Yield the fire times that an entry finds while the clock is set to each instant at which it asks to be asked."""
    looks = 0
    while not entry.is_over:
        is_due, seconds = entry.is_due()
        looks += 1
        if is_due:
            looks = 0
            entry.ran(clock.now)
            yield clock.now.astimezone(timezone.utc)
        if seconds is None or looks >= MOST_LOOKS:
            return
        try:
            clock.now += max(timedelta(seconds=seconds), _TICK)
        except OverflowError:
            return


def engine_app(app: Celery) -> Celery:
    """Return an app of its own with the zone and the rules of an app, for engines that keep things on theirs."""
    mine = Celery(app.main, set_as_current=False)
    for name in ("timezone", "enable_utc", "beat_cron_starting_deadline"):
        setattr(mine.conf, name, getattr(app.conf, name))
    return mine


def on_clock(schedule: Any, app: Celery, clock: SimulatedClock) -> BaseSchedule:
    """Return a copy of a schedule that belongs to an app and reads a clock.

    ``copy()`` would call ``__reduce__``, with which RedBeat's rrule steps through all of its dates.
    """
    mine = object.__new__(type(schedule))
    mine.__dict__.update(schedule.__dict__)
    mine.app, mine.nowfun = app, clock
    return mine


def engine_of(make: Callable[..., ScheduleEntry], app: Celery) -> Callable[[datetime], Iterator[datetime]]:
    """Return a function that simulates entries of a class of Celery's kind.

    Arguments:
        make: makes the entry; it takes an app and the last run.
        app: the app of the engine.
    """

    def run(after: datetime) -> Iterator[datetime]:
        clock = SimulatedClock(after, app.timezone)
        entry = make(app=app, last_run_at=clock())
        entry.schedule = on_clock(entry.schedule, app, clock)
        return fire_times(_CeleryEntry(entry), clock)

    return run


class _CeleryEntry:
    """An entry of Celery's own kind, which counts from its last run."""

    is_over = False

    def __init__(self, entry: ScheduleEntry) -> None:
        self._entry = entry

    def is_due(self) -> tuple[bool, float | None]:
        is_due, seconds = self._entry.is_due()
        return is_due, seconds

    def ran(self, now: datetime) -> None:
        self._entry.last_run_at = now.astimezone(self._entry.last_run_at.tzinfo)
