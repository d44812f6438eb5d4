"""The definition of an entry: what runs and when, as the user wrote it; and its stored text."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta, timezone, tzinfo
from typing import Any, NamedTuple, Protocol

from celery.schedules import BaseSchedule, crontab, schedule

from redisbeater.exceptions import InvalidEntry
from redisbeater.model import json_text
from redisbeater.model.policies import INHERIT, Coalesce, Inherit, OnFinish
from redisbeater.model.policy_fields import POLICY_FIELDS, checked_policies, read_policies, stored_policies
from redisbeater.schedules import Timetable
from redisbeater.schedules.codec import ScheduleCodec
from redisbeater.schedules.datetime_codec import decode_datetime, encode_datetime, read_zone
from redisbeater.schedules.local_time import in_zone

__all__ = ("Definition", "as_schedule", "check_name", "checked_args", "checked_kwargs")

#: Longer names are refused: Redis would take them, people and logs would not.
MAX_NAME_BYTES = 512

#: Task options that hold a moment, stored in RedBeat's form.
_MOMENTS = ("eta", "expires")

#: What beat passes to ``apply_async`` beside the options.
_ARGUMENTS = ("args", "kwargs", "producer")

#: RedBeat's fields: of nearly every entry these are stored and no others.
_COMMON = frozenset(("name", "task", "args", "kwargs", "options", "schedule", "enabled"))

_OURS = _COMMON.union(("timezone", *POLICY_FIELDS))

#: The object of the entry lies around its arguments.
_MAX_ARGUMENT_DEPTH = json_text.MAX_DEPTH - 1

_KINDS = (
    ("args", list, "a list"),
    ("kwargs", dict, "a dict"),
    ("options", dict, "a dict"),
    ("enabled", bool, "true or false"),
)


def check_name(name: Any) -> str:
    """The name of an entry, if it can be one.

    Raises:
        InvalidEntry: it is empty, too long, not text, or begins with ``:`` like our own keys.
    """
    if not isinstance(name, str) or not name:
        raise InvalidEntry("$.name", f"expected a text that is not empty, got {name!r}")
    json_text.check_value(name, "$.name")
    if name.startswith(":"):
        raise InvalidEntry("$.name", f"{name!r} begins with ':', which is kept for redisbeater's own keys")
    if len(name.encode()) > MAX_NAME_BYTES:
        raise InvalidEntry("$.name", f"longer than {MAX_NAME_BYTES} bytes: {name[:40]!r}...")
    return name


def as_schedule(given: Any, *, relative: bool = False) -> Any:
    """The interval that a number of seconds or a timedelta stands for; anything else as it is.

    Raises:
        InvalidEntry: it can be no schedule, or no such interval exists.
    """
    if isinstance(given, bool) or given is None:
        raise InvalidEntry("$.schedule", f"expected seconds, a timedelta or a schedule, got {given!r}")
    if isinstance(given, (int, float)):
        given = _interval(given)
    return schedule(given, relative) if isinstance(given, timedelta) else given


class Decoder(Protocol):
    """What reads schedules."""

    def decode(self, data: Any) -> BaseSchedule: ...


def checked_args(args: Any) -> list[Any]:
    """The positional arguments of a task, if they can be stored.

    Raises:
        InvalidEntry: they are no list, or hold what JSON would not give back.
    """
    checked = _list(args)
    if type(checked) is not list:
        raise InvalidEntry("$.args", f"expected a list, got {args!r}")
    json_text.check_value(checked, "$.args", max_depth=_MAX_ARGUMENT_DEPTH)
    return checked


def checked_kwargs(kwargs: Any) -> dict[str, Any]:
    """The named arguments of a task, if they can be stored.

    Raises:
        InvalidEntry: they are no dict, or hold what JSON would not give back.
    """
    checked = _dict(kwargs)
    if type(checked) is not dict:
        raise InvalidEntry("$.kwargs", f"expected a dict, got {kwargs!r}")
    json_text.check_value(checked, "$.kwargs", max_depth=_MAX_ARGUMENT_DEPTH)
    return checked


class Definition(NamedTuple):
    """What runs and when.

    ``extra`` holds stored fields that this version does not know; they are kept when the entry is saved. A tuple: of
    so many fields a frozen dataclass takes three times as long to make.
    """

    name: str
    task: str
    schedule: BaseSchedule
    args: list[Any]
    kwargs: dict[str, Any]
    options: dict[str, Any]
    extra: Mapping[str, Any]
    enabled: bool = True
    timezone: str | None = None
    start_at: datetime | None = None
    end_at: datetime | None = None
    max_runs: int | None = None
    on_finish: OnFinish = OnFinish.KEEP
    misfire_grace_time: float | Inherit | None = INHERIT
    coalesce: Coalesce | Inherit = INHERIT
    jitter: float | Inherit = INHERIT
    description: str = ""

    @classmethod
    def checked(
        cls, *, schedule: Any, args: Any = None, kwargs: Any = None, options: Any = None, **others: Any
    ) -> Definition:
        """A definition from what a user gave, every field checked.

        Raises:
            InvalidEntry: naming the first field that cannot be stored.
        """
        schedule = as_schedule(schedule)
        others.update(checked_policies(others), timezone=_agreed_zone(others.get("timezone"), schedule))
        definition = cls(
            schedule=schedule,
            args=_list(args),
            kwargs=_dict(kwargs),
            options=_storable_options(options),
            **{"extra": {}, **others},
        )
        check_name(definition.name)
        _check(definition)
        return definition

    @classmethod
    def from_text(cls, name: str, text: str, codec: Decoder) -> Definition:
        """The definition that is stored under a name; the name in the key counts, not one in the text.

        Raises:
            InvalidEntry: the text is not JSON, a field is missing or cannot be read, or the name cannot be one.
        """
        check_name(name)
        data = json_text.from_text(text, "$")
        if not isinstance(data, dict):
            raise InvalidEntry("$", f"expected an object, got {type(data).__name__}")
        for needed in ("task", "schedule"):
            if needed not in data:
                raise InvalidEntry(f"$.{needed}", "is missing")
        definition = cls(
            name=name,
            task=data["task"],
            schedule=codec.decode(data["schedule"]),
            args=_or(data.get("args"), []),
            kwargs=_or(data.get("kwargs"), {}),
            options=_decoded_options(_or(data.get("options"), {})),
            enabled=_or(data.get("enabled"), True),
            **({"extra": {}} if _COMMON.issuperset(data) else _further_fields(data)),
        )
        _check(definition)
        return definition

    def to_text(self, codec: ScheduleCodec) -> str:
        """The stored text.

        Raises:
            InvalidEntry: as for :meth:`to_data`.
        """
        return json_text.to_text(self.to_data(codec))

    def to_data(self, codec: ScheduleCodec) -> dict[str, Any]:
        """What is stored: JSON values, as RedBeat writes them unless the entry uses what RedBeat lacks.

        Raises:
            InvalidEntry: the schedule, or a value that it stores, cannot be stored.
        """
        stored = {
            "name": self.name,
            "task": self.task,
            "args": self.args,
            "kwargs": self.kwargs,
            "options": _encoded_options(self.options),
            "schedule": codec.encode(self.schedule),
            "enabled": self.enabled,
        }
        if self.timezone is not None:
            stored["timezone"] = self.timezone
        stored.update(stored_policies(self._asdict()))
        stored.update(self.extra)
        # The rest was checked as what it is; here a glance is enough, nearly always.
        given = [self.task, self.args, self.kwargs, stored["options"], self.description, self.extra]
        if not json_text.is_plain(
            given if type(self.schedule) in (schedule, crontab) else [*given, stored["schedule"]]
        ):
            json_text.check_value(stored, "$")
        return stored

    def zone(self, default: tzinfo) -> tzinfo:
        """The zone of the entry's local times: its own, else the app's."""
        return default if self.timezone is None else read_zone(self.timezone, "$.timezone")

    def timetable(self, default_zone: tzinfo) -> Timetable:
        """Its fire times; naive bounds are local times of its zone."""
        zone = self.zone(default_zone)
        return Timetable(
            schedule=self.schedule,
            zone=zone,
            start_at=None if self.start_at is None else in_zone(self.start_at, zone),
            end_at=None if self.end_at is None else in_zone(self.end_at, zone),
        )

    @property
    def is_interval(self) -> bool:
        """Whether its fire times count from one to the next, and so from a run that the application tells of."""
        return type(self.schedule) is schedule

    @property
    def goes_on_for_ever(self) -> bool:
        """Whether there is always a next fire time; of other entries there may be."""
        return self.end_at is None and type(self.schedule) in (schedule, crontab)

    def changed(self, **changes: Any) -> Definition:
        """The same definition with some fields changed, checked like a new one.

        Raises:
            InvalidEntry: naming the first field that cannot be stored, or that there is not.
        """
        fields_ = {name: getattr(self, name) for name in (*_OURS, "extra")}
        if "schedule" in changes and _zone_of_text(changes["schedule"]) is not None:
            fields_["timezone"] = None
        for name in changes:
            if name not in fields_ or name in ("name", "extra"):
                raise InvalidEntry(f"$.{name}", "cannot be changed" if name == "name" else "is no field of an entry")
        return Definition.checked(**{**fields_, **changes})

    def fires_like(self, other: Definition, codec: ScheduleCodec) -> bool:
        """Whether both have the same fire times up to their ends, so that going from one to the other moves nothing."""
        return (
            self.timezone == other.timezone
            and _told_apart(self.start_at) == _told_apart(other.start_at)
            and codec.encode(self.schedule) == codec.encode(other.schedule)
        )


def _told_apart(moment: datetime | None) -> Any:
    """What is the same for one moment said in two zones, and another for the two passes of a repeated hour."""
    if moment is None or moment.tzinfo is not None:
        return moment and moment.astimezone(timezone.utc)
    return moment, moment.fold


def _zone_of_text(schedule_: Any) -> str | None:
    """The zone that a ``cron()`` text came with."""
    return getattr(schedule_, "timezone", None) if type(schedule_) is crontab else None


def _agreed_zone(given: Any, schedule_: Any) -> Any:
    with_text = _zone_of_text(schedule_)
    if given is not None and with_text is not None and given != with_text:
        raise InvalidEntry("$.timezone", f"is {given!r}, but the schedule was given in {with_text!r}; say one of them")
    return with_text if given is None else given


def _list(given: Any) -> Any:
    return list(given) if isinstance(given, (list, tuple)) else given or []


def _dict(given: Any) -> Any:
    return dict(given) if isinstance(given, Mapping) else given or {}


def _further_fields(data: dict[str, Any]) -> dict[str, Any]:
    """The fields beside the common ones, by our names; those that are not stored have their defaults."""
    return {
        "timezone": data.get("timezone"),
        **read_policies(data),
        "extra": {key: value for key, value in data.items() if key not in _OURS},
    }


def _or(value: Any, default: Any) -> Any:
    return default if value is None else value


def _interval(seconds: float) -> timedelta:
    try:
        return timedelta(seconds=seconds)
    except (ValueError, OverflowError) as exc:
        raise InvalidEntry("$.schedule.every", f"expected seconds above 0, got {seconds!r}") from exc


def _check(definition: Definition) -> None:
    if not isinstance(definition.task, str) or not definition.task:
        raise InvalidEntry("$.task", f"expected the name of a task, got {definition.task!r}")
    for name, kind, word in _KINDS:
        value = getattr(definition, name)
        if not isinstance(value, kind):
            raise InvalidEntry(f"$.{name}", f"expected {word}, got {value!r}")
    if definition.options:
        _check_options(definition.options)
    if definition.timezone is not None:
        read_zone(definition.timezone, "$.timezone")


def _check_options(options: dict[str, Any]) -> None:
    for name in _ARGUMENTS:
        if name in options:
            raise InvalidEntry(f"$.options.{name}", "is no option of a task; beat passes it itself")
    if not isinstance(options.get("headers"), (dict, type(None))):
        raise InvalidEntry("$.options.headers", f"expected a dict, got {options['headers']!r}")


def _storable_options(options: Any) -> Any:
    """Options with a relative ``expires`` in seconds; Celery takes both."""
    if not isinstance(options, Mapping):
        return options or {}
    expires = options.get("expires")
    return {**options, "expires": expires.total_seconds()} if isinstance(expires, timedelta) else dict(options)


def _encoded_options(options: dict[str, Any]) -> dict[str, Any]:
    if not options:
        return options
    return {
        key: encode_datetime(value) if key in _MOMENTS and isinstance(value, datetime) else value
        for key, value in options.items()
    }


def _decoded_options(options: Any) -> Any:
    if not isinstance(options, dict) or not options:
        return options
    return {
        key: decode_datetime(value, f"$.options.{key}") if key in _MOMENTS and isinstance(value, dict) else value
        for key, value in options.items()
    }
