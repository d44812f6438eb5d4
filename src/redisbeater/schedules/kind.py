"""``ScheduleKind``: all that is known of one kind of schedule. ``KINDS`` in ``kinds.py`` lists the kinds.

What a kind does not say is done by Celery's contract: the schedule is asked how long it waits.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime, timedelta, timezone, tzinfo
from typing import Any, Generic, Protocol, TypeVar

from celery.schedules import BaseSchedule, schedstate

from redisbeater.code_errors import EndedByCode, named
from redisbeater.display import quoted
from redisbeater.exceptions import InvalidEntry
from redisbeater.schedules.budget import Steps
from redisbeater.schedules.crontab_text import PATH
from redisbeater.schedules.english import unbracketed
from redisbeater.schedules.zones import in_zone

#: The version of the stored data that every beat can read.
FIRST_FORMAT = 1

#: What a call of a schedule takes that does simple arithmetic.
_STEPS = 20

S = TypeVar("S", bound=BaseSchedule)

#: Yields the fire times after one instant and up to another, in order.
Between = Callable[[datetime, datetime], Iterator[datetime]]


class BrokenByCode(InvalidEntry):
    """An entry is broken because code raised an error; that is its ``__cause__``, and its traceback is logged."""


class broken_by_code:
    """Raise any error of the block as :class:`BrokenByCode`, so that only the entry suffers from it."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if error is not None and not isinstance(error, InvalidEntry):
            raise BrokenByCode(self._path, named(error)) from EndedByCode.of(error)


#: Around what asks a class of Celery's or of the application. It keeps no state, so one serves for all entries.
PLANNING = broken_by_code(PATH)


class Reading(Protocol):
    """Where somebody writes a schedule: on a command line, or in a file, which means the same at any time."""

    @property
    def zone(self) -> tzinfo:
        """The zone of local times."""

    @property
    def start(self) -> datetime | None:
        """When a rule begins whose text does not say so, or None if the text must."""

    def time(self, text: str, path: str) -> datetime:
        """Return the time of a text.

        Raises:
            InvalidEntry: it is none; with the path.
        """


class ScheduleKind(Generic[S]):
    """One kind of schedule: how it is stored, when it fires, and how people write it. It has no state.

    Attributes:
        schedule_class: the class of its schedules.
        name: the ``__type__`` of its stored form.
        passed_as: what programs pass, if that is not its name.
        word: what people write in front of its text; empty: they cannot write it.
        title: the word as a heading.
        placeholder: what stands for the text.
        sentence: what it does, with examples.
        expected: what the text is, with examples.
        presets: usual texts, each with what it means.
        stores_subclasses: whether a subclass is stored as its class.
        foreign: the fields of its stored form that RedBeat cannot read; None: RedBeat can read none.
        is_interval: whether each fire time counts from the one before, and so from a run.
        is_endless: whether its schedules always have a next fire time.
        is_plain: whether plain values say all of it, for entries in bulk.
        is_memoryless: whether the fire time after an instant does not depend on the one before, for searches.
        is_custom: whether the application's code decides, so that equal data may mean something else each time.
        has_lines: whether several of its texts may be written, one a line.
        format: the version of the stored data from which on beats can read it.
    """

    __slots__ = ()

    schedule_class: type[BaseSchedule]
    name: str
    passed_as = ""
    word = ""
    title = ""
    placeholder = "TEXT"
    sentence = ""
    expected = ""
    presets: tuple[tuple[str, str], ...] = ()
    stores_subclasses = False
    foreign: tuple[str, ...] | None = None
    is_interval = False
    is_endless = False
    is_plain = False
    is_memoryless = False
    is_custom = False
    has_lines = False
    format = FIRST_FORMAT

    # How it is stored

    def encode(self, schedule: S) -> dict[str, Any]:
        """Return the stored form without its ``__type__``, made of JSON values.

        Raises:
            InvalidEntry: a value is out of range.
        """
        raise NotImplementedError

    def decode(self, data: dict[str, Any]) -> BaseSchedule:
        """Return the schedule of a stored form without its ``__type__``.

        Raises:
            InvalidEntry: a field is wrong.
        """
        raise NotImplementedError

    def comparable(self, data: Mapping[str, Any]) -> Any:
        """Return a value of a stored form that is equal for what is read alike."""
        return dict(data)

    def plain_values(self, schedule: S) -> tuple[Any, ...]:
        """Return the values that say all of a schedule of a plain kind."""
        raise NotImplementedError

    # When it fires

    def next(self, schedule: S, zone: tzinfo, after: datetime, steps: Steps) -> datetime | None:
        """Return the first fire time after an instant, aware UTC; None when there is none.

        A schedule that does not wait would not advance either, so it has finished.

        Raises:
            BrokenByCode: its class raised something, or returned what is no wait.
        """
        steps.take(_STEPS)
        local = after.astimezone(zone)
        with PLANNING:
            remaining = ask(copy.copy(schedule), local)
            if remaining is None or remaining <= timedelta():
                return None
        return after + remaining

    def period(self, schedule: S) -> timedelta | None:
        """Return the time between two fire times, if they lie on a grid that any of them fixes; else None."""
        return None

    def first(self, schedule: S, zone: tzinfo, steps: Steps) -> datetime | None:
        """Return the first fire time that the schedule itself gives, as an instant; None when it gives none."""
        return None

    def newest_of(
        self, schedule: S, limit: int, fire_time: datetime, until: datetime, steps: Steps, between: Between
    ) -> list[datetime] | None:
        """Return the newest fire times from one up to an instant, at most ``limit``, or None to search."""
        return None

    def counted(
        self, schedule: S, zone: tzinfo, after: datetime, until: datetime, steps: Steps
    ) -> Iterable[int] | None:
        """Return numbers whose sum is that of the fire times between, or None to count them singly."""
        return None

    def fires_at(self, schedule: S, zone: tzinfo, instant: datetime) -> bool | None:
        """Tell whether an instant is a fire time, or None to search it."""
        return None

    def local_zone(self, schedule: S, zone: tzinfo) -> tzinfo:
        """Return the zone of its local times, where ``zone`` is that of the entry."""
        return zone

    def has_local_times(self, schedule: S) -> bool:
        """Tell whether its fire times are local times of the entry's zone."""
        return True

    def zones(self, schedule: S, zone: tzinfo) -> tuple[tzinfo, ...]:
        """Return the zone whose local times it means, if any, where ``zone`` is that of the entry."""
        return (zone,) if self.has_local_times(schedule) else ()

    def nominal_times(self, schedule: S, zone: tzinfo, fire_time: datetime) -> tuple[datetime, ...]:
        """Return the naive local times of the schedule that fire at an instant, as its fields give them."""
        return ()

    def parts(self, schedule: S) -> tuple[BaseSchedule, ...]:
        """Return the schedules at whose times it fires; most have only themselves."""
        return (schedule,)

    def means_elapsed_time(self, schedule: S) -> bool:
        """Tell whether it means elapsed time, which another zone does not move."""
        return False

    def starts_over(self, schedule: S) -> bool:
        """Tell whether it begins when it is created, so that code or a file that is read again moves it."""
        return False

    # What it is in an entry

    def for_entry(self, schedule: S, name: str) -> BaseSchedule:
        """Return the schedule as the entry of that name has it.

        Raises:
            InvalidEntry: it never fires there.
        """
        return schedule

    def depends_on_entry(self, schedule: S) -> bool:
        """Tell whether another entry with the same stored form may have other fire times."""
        return self.is_custom

    def zone_name(self, schedule: S) -> str | None:
        """Return the name of the zone that was passed with the schedule, for its entry."""
        return None

    def is_cron(self, schedule: S) -> bool:
        """Tell whether it is a crontab to Celery's ``beat_cron_starting_deadline``."""
        return False

    # How people read and write it

    def describe(self, schedule: S, zone: str | tzinfo | None) -> str:
        """Describe when it fires, clock changes aside; ``zone`` is named for its local times.

        Without words of its own it is the repr; if that has a memory address, only the name of the class.
        """
        try:
            return unbracketed(repr(schedule)).partition(" object at 0x")[0]
        except Exception:  # the application's code: one bad repr must not break a list of entries
            return f"{type(schedule).__module__}.{type(schedule).__qualname__}"

    def describe_clock_changes(self, schedule: S) -> str:
        """Describe what it does when the clocks change; empty if that is clear."""
        return ""

    def cron_text(self, schedule: S) -> str:
        """Return its cron text, and that with the numbers that the name decides; empty if it has none."""
        return ""

    def cron_fields(self, schedule: S) -> dict[str, str]:
        """Return the fields of its cron text by Celery's names, in the order of the text; none if it has none."""
        return {}

    def text(self, schedule: S) -> Any:
        """Return the text or number after its word, or None if none means exactly this."""
        return None

    def read(self, text: Any, reading: Reading) -> BaseSchedule:
        """Return the schedule of what somebody wrote after its word, a text or a number.

        Raises:
            ValueError: it cannot be read; an InvalidEntry names the field.
        """
        raise NotImplementedError

    def json_schema(self) -> dict[str, Any]:
        """Return the JSON Schema of what a file may have after its word."""
        if self.has_lines:
            texts = {"if": {"type": "array"}, "then": {"items": {"type": "string"}}}  # editors would write a list first
            return {"type": ["string", "array"], "minItems": 1, **texts}
        return {"type": "string"}


class OwnSchedule(BaseSchedule):
    """A schedule that finds its fire times itself, as Celery's own beat asks it."""

    def _following(self, after: datetime) -> datetime | None:
        """Return the first fire time after an instant, aware UTC; None when there is none."""
        raise NotImplementedError

    def remaining_estimate(self, last_run_at: datetime) -> timedelta | None:
        """Return the time until the next fire time, for Celery; None when there is none."""
        following = self._following(in_zone(last_run_at, timezone.utc))
        return None if following is None else following - self.maybe_make_aware(self.now())

    def is_due(self, last_run_at: datetime) -> tuple[bool, Any]:
        """Return whether a fire time has passed since the last run and the seconds to the next one, for Celery."""
        remaining = self.remaining_estimate(last_run_at)
        is_due = remaining is not None and remaining <= timedelta()
        following = self.remaining_estimate(self.now()) if is_due else remaining
        return schedstate(is_due, None if following is None else max(following.total_seconds(), 0))


def ask(asked: BaseSchedule, local: datetime) -> timedelta | None:
    """Return how long a schedule waits whose clock shows a local time; it keeps that clock."""
    asked.nowfun = lambda: local
    remaining: timedelta | None = asked.remaining_estimate(local)
    return remaining


def check_fields(data: Iterable[str], known: tuple[str, ...]) -> None:
    """Refuse unknown fields: Celery's classes also accept an app and a clock, which stored data must not set.

    Raises:
        InvalidEntry: naming the first one.
    """
    for name in data:
        if name not in known:
            raise InvalidEntry(f"{PATH}.{name}", f"unknown field; expected {', '.join(known)}")


def checked_text(text: Any, expected: str) -> str:
    """Return the value after a word, if it is a text.

    Raises:
        InvalidEntry: it is none.
    """
    if isinstance(text, str):
        return text
    raise InvalidEntry(PATH, f"expected {expected}, got {quoted(text)}")
