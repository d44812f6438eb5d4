"""The kinds of schedules, and the codec that stores them as JSON, RedBeat's included."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta, tzinfo
from typing import Any

from celery.schedules import BaseSchedule, crontab
from celery.schedules import schedule as celery_interval
from dateutil.rrule import rrule as dateutil_rrule

from redisbeater.code_errors import EndedByCode, named
from redisbeater.display import quoted
from redisbeater.exceptions import InvalidEntry
from redisbeater.schedules.any_of import AnyOfKind
from redisbeater.schedules.cron_expression import CronKind, cron
from redisbeater.schedules.crontab import CrontabKind, is_repeating
from redisbeater.schedules.crontab_text import PATH
from redisbeater.schedules.interval import ClockedKind, IntervalKind
from redisbeater.schedules.kind import ScheduleKind
from redisbeater.schedules.limited import LimitedKind
from redisbeater.schedules.rrule.kind import RruleKind
from redisbeater.schedules.solar import SolarKind

#: All kinds but that of the application's own classes, in the order in which people read of them.
KINDS: tuple[ScheduleKind[Any], ...] = (
    IntervalKind(),
    CrontabKind(),
    CronKind(),
    AnyOfKind(),
    RruleKind(),
    ClockedKind(),
    SolarKind(),
)

#: The words for a schedule, of which an entry has one, and the kinds that read them: of two with one word, the latter.
SCHEDULE_WORDS: Mapping[str, ScheduleKind[Any]] = {kind.word: kind for kind in KINDS if kind.word}

#: What an entry makes of a schedule and its window; people write the two apart.
_LIMITED = LimitedKind()

_KIND_OF: Mapping[type, ScheduleKind[Any]] = {kind.schedule_class: kind for kind in (*KINDS, _LIMITED)}


class CustomKind(ScheduleKind[Any]):
    """The application's own classes; and what is no schedule that can be stored.

    Arguments:
        classes: the registered ones by import path. Nothing is ever imported from stored data.
    """

    __slots__ = ("_classes",)

    name = "custom"
    is_custom = True

    def __init__(self, classes: Mapping[str, type]) -> None:
        self._classes = dict(classes)

    def encode(self, schedule: Any) -> dict[str, Any]:
        """Return the path of its class, and what the class makes of it."""
        path = f"{type(schedule).__module__}.{type(schedule).__qualname__}"
        if path not in self._classes:
            raise InvalidEntry(PATH, f"{path} is not registered; add it: redisbeater_schedule_classes = [{path!r}]")
        try:
            return {"import_path": path, "data": schedule.to_redisbeater()}
        except BaseException as exc:  # the application's code: any error concerns only this entry
            raise InvalidEntry(PATH, f"{path}.to_redisbeater: {named(exc)}") from EndedByCode.of(exc)

    def decode(self, data: dict[str, Any]) -> BaseSchedule:
        """Return the schedule that the class makes of its data."""
        path = data.get("import_path")
        if not isinstance(path, str) or path not in self._classes:
            raise InvalidEntry(f"{PATH}.import_path", f"{quoted(path)} is not listed in redisbeater_schedule_classes")
        try:
            schedule: BaseSchedule = self._classes[path].from_redisbeater(data.get("data"))  # type: ignore[attr-defined]
        except BaseException as exc:  # the application's code: any error concerns only this entry
            raise InvalidEntry(f"{PATH}.data", f"{path}.from_redisbeater: {named(exc)}") from EndedByCode.of(exc)
        if not hasattr(schedule, "remaining_estimate"):
            raise InvalidEntry(f"{PATH}.data", f"{path}.from_redisbeater: expected a schedule, got {quoted(schedule)}")
        return schedule

    def fires_at(self, schedule: Any, zone: tzinfo, instant: datetime) -> bool:
        """Return True: any instant may be a fire time."""
        return True

    def means_elapsed_time(self, schedule: Any) -> bool:
        """Tell whether it is a crontab that is repeating."""
        return isinstance(schedule, crontab) and is_repeating(schedule)

    def is_cron(self, schedule: Any) -> bool:
        """Tell whether its class is one of crontabs."""
        return isinstance(schedule, crontab)


_CUSTOM = CustomKind({})

_KINDS_BY_NAME: Mapping[str, ScheduleKind[Any]] = {kind.name: kind for kind in (*KINDS, _LIMITED, _CUSTOM)}

#: What the ``__type__`` of a stored schedule can be.
STORED_TYPES = tuple(_KINDS_BY_NAME)


def kind_of(schedule: Any) -> ScheduleKind[Any]:
    """Return the kind of a schedule; that of the application's own classes for anything that is none."""
    return _KIND_OF.get(type(schedule)) or _kind_of_subclass(schedule)


def kind_named(name: object) -> ScheduleKind[Any] | None:
    """Return the kind of a ``__type__``, or None if there is none."""
    return _KINDS_BY_NAME.get(name) if isinstance(name, str) else None


def _kind_of_subclass(schedule: Any) -> ScheduleKind[Any]:
    """Return the kind of its class's base, unless it computes its fire times itself."""
    for kind in () if hasattr(schedule, "to_redisbeater") else KINDS:
        if isinstance(schedule, of := kind.schedule_class) and (
            kind.stores_subclasses or type(schedule).remaining_estimate is of.remaining_estimate
        ):
            return kind
    return _CUSTOM


class ScheduleCodec:
    """Encodes and decodes schedules, including those of custom classes that the application registered.

    Arguments:
        classes: registered custom classes by import path.
    """

    def __init__(self, classes: Mapping[str, type] | None = None) -> None:
        self._custom = CustomKind(classes or {})

    def encode(self, schedule: Any) -> dict[str, Any]:
        """Return the stored form of a schedule, made of JSON values.

        Raises:
            InvalidEntry: its type cannot be stored, or one of its values is out of range.
        """
        kind = kind_of(schedule)
        if hasattr(schedule, "to_redisbeater"):
            kind = self._custom
        elif getattr(schedule, "nowfun", None) is not None:
            raise InvalidEntry(PATH, "nowfun cannot be stored; give the entry a timezone='Europe/Vienna' instead")
        elif kind.is_custom or not (kind.stores_subclasses or type(schedule) is kind.schedule_class):
            raise _unknown(schedule)
        return {"__type__": kind.name, **kind.encode(schedule)}

    def decode(self, data: Any) -> BaseSchedule:
        """Return the schedule of a stored form.

        Raises:
            InvalidEntry: its type is unknown, or one of its fields is wrong.
        """
        if not isinstance(data, dict):
            raise InvalidEntry(PATH, f"expected an object with __type__, got {quoted(data)}")
        kind = kind_named(data.get("__type__"))
        if kind is None:
            problem = f"unknown type {quoted(data.get('__type__'))}; expected one of {', '.join(_KINDS_BY_NAME)}"
            raise InvalidEntry(f"{PATH}.__type__", problem)
        fields = {key: value for key, value in data.items() if key != "__type__"}
        return (self._custom if kind.is_custom else kind).decode(fields)


def comparable(stored: Any) -> Any:
    """Return a value of a stored schedule that is equal for what is read alike; anything else unchanged."""
    kind = kind_named(stored.get("__type__")) if isinstance(stored, Mapping) else None
    return stored if kind is None else kind.comparable(stored)


def _unknown(given: Any) -> InvalidEntry:
    """Return the error for what is no schedule, with how to make one of it if that is known."""
    advice = ""
    if isinstance(given, type):
        advice = f"; it is a class: pass {given.__name__}(...)"
    elif isinstance(given, dateutil_rrule):
        advice = "; for a rule of dateutil use rrule(str(rule)) of redisbeater"
    expected = ", ".join(kind.passed_as or kind.name for kind in KINDS)
    return InvalidEntry(
        PATH,
        f"cannot store {quoted(given)} ({type(given).__qualname__}); "
        f"expected {expected}, or a class that is listed in redisbeater_schedule_classes{advice}",
    )


def describe(schedule: BaseSchedule | float | timedelta | str, timezone: str | tzinfo | None = None) -> str:
    """Describe when a schedule fires, in words that need no knowledge of its notation.

    Arguments:
        schedule: any schedule that an entry can have, also seconds or a timedelta; a text is read as by ``cron()``.
        timezone: the zone of its local times, named in the text; default: the one that was passed to ``cron()``. An
            rrule and an aware ``clocked`` have their own.

    Raises:
        InvalidEntry: the text is no cron expression, or there is no such zone.
    """
    if isinstance(schedule, str):
        schedule = cron(schedule)
    if isinstance(schedule, (int, float, timedelta)):
        schedule = celery_interval(schedule)
    brief, at_clock_changes = describe_in_brief(schedule, timezone), kind_of(schedule).describe_clock_changes(schedule)
    return f"{brief} ({at_clock_changes})" if at_clock_changes else brief


def describe_in_brief(schedule: BaseSchedule, timezone: str | tzinfo | None = None) -> str:
    """Describe when a schedule fires, as :func:`describe`, without what happens when the clocks change."""
    return kind_of(schedule).describe(schedule, timezone)
