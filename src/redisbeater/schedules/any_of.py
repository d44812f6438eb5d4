"""``any_of``: several crons in one entry, which fires at the times of each.

A time of two parts is one run. Each part keeps what it does when the clocks change: one is fixed, another repeating.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta, tzinfo
from typing import Any

from celery.schedules import BaseSchedule, crontab

from redisbeater.display import quoted
from redisbeater.exceptions import InvalidEntry
from redisbeater.schedules import crontab as engine
from redisbeater.schedules.budget import Steps
from redisbeater.schedules.cron_expression import CronKind, cron, cron_expression
from redisbeater.schedules.crontab import CrontabKind
from redisbeater.schedules.crontab_text import PATH
from redisbeater.schedules.english import zone_text
from redisbeater.schedules.kind import OwnSchedule, Reading, ScheduleKind, check_fields
from redisbeater.schedules.zones import read_zone

#: How many parts one may have: a next fire time looks at each.
FEWEST_PARTS, MOST_PARTS = 2, 20

#: What looking for a fire time of one part takes, where they are counted one by one.
_STEPS = 10

#: How far back the fire times of parts are counted to find the densest one.
_LATELY = timedelta(days=60)

_MICROSECOND = timedelta(microseconds=1)

#: The kinds of crons.
CRONS: Mapping[type, ScheduleKind[Any]] = {crontab: CrontabKind(), cron_expression: CronKind()}

#: The fields of a cron text in the order of the hands of a clock, by which parts are sorted.
_ORDER = ("hour", "minute", "second", "day_of_month", "month_of_year", "day_of_week")


class any_of(OwnSchedule):
    """Fire at the times of each of several crons: weekdays at nine, Saturdays at noon.

    A time of two parts is one run. ``H`` in a part is decided by the name of the entry.

    Arguments:
        parts: 2 to 20 different crons, each a text, a ``crontab``, what ``cron()`` returns, or another ``any_of``,
            whose parts they become.

    Raises:
        InvalidEntry: a part is none of these or cannot be read, there are too few or too many different ones, or two
            have different zones.

    Example::

        any_of("0 9 * * mon-fri", "0 12 * * sat")
    """

    def __init__(self, *parts: str | BaseSchedule, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        found = {cron_text(part): part for part in _flat(parts)}
        if not FEWEST_PARTS <= len(found) <= MOST_PARTS:
            raise InvalidEntry(PATH, f"expected {FEWEST_PARTS} to {MOST_PARTS} different crons, got {len(found)}")
        #: The crons, in the order of their times.
        self.parts: tuple[BaseSchedule, ...] = tuple(sorted(found.values(), key=_sorted_by))
        zones = sorted({zone for part in self.parts if (zone := kind_of_part(part).zone_name(part))})
        if len(zones) > 1:
            raise InvalidEntry("$.timezone", f"the parts of any_of() have {' and '.join(zones)}; an entry has one zone")
        #: The zone that was passed to ``cron()``; None: none was.
        self.timezone = zones[0] if zones else None
        if self.timezone is not None:
            self.tz = read_zone(self.timezone, "$.timezone")

    def for_entry(self, name: str) -> any_of:
        """Return it as the entry of that name has it: with the numbers that the name decides for ``H``.

        Raises:
            InvalidEntry: with these no date matches a part.
        """
        bound = [kind_of_part(part).for_entry(part, name) for part in self.parts]
        if all(one is other for one, other in zip(bound, self.parts)):
            return self
        return type(self)(*bound, nowfun=self.nowfun, app=self._app)

    def _following(self, after: datetime) -> datetime | None:
        return next_fire_time(self.parts, self.tz, after)

    def __repr__(self) -> str:
        return f"<any_of: {'; '.join(map(cron_text, self.parts))}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, any_of) and self.parts == other.parts

    def __hash__(self) -> int:
        return hash(tuple(map(cron_text, self.parts)))

    def __reduce__(self) -> tuple[type, tuple[BaseSchedule, ...]]:
        return type(self), self.parts


def kind_of_part(part: BaseSchedule) -> ScheduleKind[Any]:
    """Return the kind of a cron."""
    return CRONS[type(part)]


def cron_text(part: BaseSchedule) -> str:
    """Return the text of a cron."""
    return str(kind_of_part(part).text(part))


def next_fire_time(parts: Iterable[BaseSchedule], zone: tzinfo, after: datetime) -> datetime | None:
    """Return the first fire time of any part after an instant, both aware UTC; None when there is none."""
    return min(filter(None, (engine.next_fire_time(part, zone, after) for part in parts)), default=None)


def counted(
    parts: Sequence[BaseSchedule], zone: tzinfo, first: datetime, last: datetime, steps: Steps
) -> Iterator[int]:
    """Yield numbers whose sum is that of the fire times between two instants, both included.

    The densest part is counted by days; of the others, the fire times that no earlier part has, one by one.
    """
    lately = max(first, last - _LATELY)
    by_number = sorted(parts, key=lambda part: -engine.count(part, zone, lately, last))
    yield engine.count(by_number[0], zone, first, last)
    for place, part in enumerate(by_number[1:], 1):
        fire_time = engine.next_fire_time(part, zone, first - _MICROSECOND)
        while fire_time is not None and fire_time <= last:
            steps.take(_STEPS * (place + 2))
            yield int(not fires_at(by_number[:place], zone, fire_time))
            fire_time = engine.next_fire_time(part, zone, fire_time)


def fires_at(parts: Iterable[BaseSchedule], zone: tzinfo, instant: datetime) -> bool:
    """Tell whether an instant, aware UTC, is a fire time of any part."""
    return any(engine.fires_at(part, zone, instant) for part in parts)


def _flat(parts: Iterable[Any]) -> Iterator[BaseSchedule]:
    for part in parts:
        if isinstance(part, any_of):
            yield from part.parts
        elif isinstance(part, str):
            yield cron(part)
        elif type(part) in CRONS and getattr(part, "nowfun", None) is None:
            yield part
        else:
            raise InvalidEntry(PATH, f"any_of() takes cron texts, crontab() and cron(), got {quoted(part)}")


def _sorted_by(part: BaseSchedule) -> Any:
    """Return a key that sorts crons by their times: 9 comes before 12, and a number before ``*``."""
    fields = kind_of_part(part).cron_fields(part)
    return [_natural(fields.get(name, "0")) for name in _ORDER]


def _natural(text: str) -> list[tuple[int, int, str]]:
    return [(0, int(piece), "") if piece.isdecimal() else (1, 0, piece) for piece in re.findall(r"\d+|\D+", text)]


class AnyOfKind(CrontabKind):
    """Several crons, and the word of all crons: one text is a crontab or a cron expression, several are these."""

    __slots__ = ()

    schedule_class: type[BaseSchedule] = any_of
    name = "any_of"
    passed_as = "any_of()"
    sentence = f"{CrontabKind.sentence} Several run at the times of each."
    expected = f"{CrontabKind.expected}; several, one a line"
    presets = CronKind.presets
    has_lines = True
    foreign = None
    is_plain = False
    format = 2

    def encode(self, schedule: Any) -> dict[str, Any]:
        """Return the texts."""
        return {"crons": [cron_text(part) for part in schedule.parts]}

    def decode(self, data: dict[str, Any]) -> BaseSchedule:
        """Return the schedule of some texts."""
        check_fields(data, ("crons",))
        return any_of(*_texts(data.get("crons"), f"{PATH}.crons"))

    def comparable(self, data: Mapping[str, Any]) -> Any:
        """Return the texts as they are."""
        return dict(data)

    def next(self, schedule: Any, zone: tzinfo, after: datetime, steps: Steps | None = None) -> datetime | None:
        """Return the next fire time."""
        return next_fire_time(schedule.parts, zone, after)

    def counted(self, schedule: Any, zone: tzinfo, after: datetime, until: datetime, steps: Steps) -> Iterable[int]:
        """Return numbers whose sum is that of the fire times between."""
        return counted(schedule.parts, zone, after + _MICROSECOND, until, steps)

    def fires_at(self, schedule: Any, zone: tzinfo, instant: datetime) -> bool:
        """Tell whether an instant is a fire time of any part."""
        return fires_at(schedule.parts, zone, instant)

    def nominal_times(self, schedule: Any, zone: tzinfo, fire_time: datetime) -> tuple[datetime, ...]:
        """Return the local times of all parts that fire at an instant, in order."""
        found = {nominal for part in schedule.parts for nominal in engine.nominal_times(part, zone, fire_time)}
        return tuple(sorted(found))

    def parts(self, schedule: Any) -> tuple[BaseSchedule, ...]:
        """Return the crons."""
        found: tuple[BaseSchedule, ...] = schedule.parts
        return found

    def means_elapsed_time(self, schedule: Any) -> bool:
        """Tell whether all parts are repeating; each is asked where that matters."""
        return all(map(engine.is_repeating, schedule.parts))

    def for_entry(self, schedule: Any, name: str) -> BaseSchedule:
        """Return it with the numbers that the name decides."""
        bound: BaseSchedule = schedule.for_entry(name)
        return bound

    def depends_on_entry(self, schedule: Any) -> bool:
        """Tell whether a part has ``H``."""
        return any(kind_of_part(part).depends_on_entry(part) for part in schedule.parts)

    def describe(self, schedule: Any, zone: str | tzinfo | None) -> str:
        """Describe the times and days of each part, and in which zone if it is known."""
        named = zone_text(zone) or schedule.timezone
        behind = f", {named}" if named else ""  # said once, behind all parts
        texts = [kind_of_part(part).describe(part, named).removesuffix(behind) for part in schedule.parts]
        return "; or ".join(texts) + behind

    def describe_clock_changes(self, schedule: Any) -> str:
        """Describe whether the parts are repeating: once if all do the same, else of each."""
        return joined_clock_changes(
            {cron_text(part): kind_of_part(part).describe_clock_changes(part) for part in schedule.parts}
        )

    def cron_text(self, schedule: Any) -> str:
        """Return the texts, each with the numbers that the name decides."""
        return "; ".join(kind_of_part(part).cron_text(part) for part in schedule.parts)

    def cron_fields(self, schedule: Any) -> dict[str, str]:
        """Return none: each part has its own."""
        return {}

    def text(self, schedule: Any) -> Any:
        """Return the texts."""
        return [cron_text(part) for part in schedule.parts]

    def read(self, text: Any, reading: Reading) -> BaseSchedule:
        """Return the schedule of a text, or of several in a list or one a line."""
        texts = _texts(text.splitlines() or [text] if isinstance(text, str) else text, PATH)
        return cron(texts[0]) if len(texts) == 1 else any_of(*texts)


def joined_clock_changes(of_parts: Mapping[str, str]) -> str:
    """Return the words for what parts do when the clocks change: once if it is the same for all, or for each."""
    words = set(of_parts.values())
    return (
        words.pop() if len(words) == 1 else "; ".join(f"{text} is {words}" for text, words in of_parts.items() if words)
    )


def _texts(given: Any, path: str) -> list[str]:
    if isinstance(given, (list, tuple)) and given and all(isinstance(text, str) for text in given):
        return [text for text in given if text.strip()] or [given[0]]
    raise InvalidEntry(path, f'expected a cron text such as "0 9 * * mon-fri", or a list of them, got {quoted(given)}')
