"""The definition of an entry, as the user wrote it: what runs and when, and the text that stores it."""

from __future__ import annotations

import re
from datetime import datetime, timezone, tzinfo
from typing import Any, Protocol

from celery.schedules import BaseSchedule

from redisbeater.display import quoted
from redisbeater.entry_name import check_name, refuse_confusing
from redisbeater.exceptions import InvalidEntry
from redisbeater.model import json_text
from redisbeater.model.fields import (
    FIELDS,
    POLICY_FIELDS,
    REDBEAT_FIELDS,
    StoredFields,
    checked_policies,
    read_policies,
    stored_policies,
)
from redisbeater.model.options import OptionRules, check_options, decoded_options, encoded_options, storable_options
from redisbeater.model.passed_values import (
    agreed_zone,
    as_schedule,
    as_task,
    check_new_task,
    checked_instant,
    dict_or_given,
    for_entry,
    list_or_given,
    task_advice,
    unknown_field,
    zone_of_cron,
)
from redisbeater.model.policies import Anchor
from redisbeater.schedules.calendar import NO_CALENDARS, Calendars
from redisbeater.schedules.kinds import ScheduleCodec, comparable, kind_of
from redisbeater.schedules.limited import flattened, limit, limited, unlimited
from redisbeater.schedules.timetable import Timetable
from redisbeater.schedules.window import FIELDS as OF_SCHEDULE
from redisbeater.schedules.zones import in_zone, read_zone, zone_name

#: Keywords of ``apply_async`` that beat sets itself, so that options cannot.
_SET_BY_BEAT = ("args", "kwargs", "producer")

#: RedBeat's fields; nearly every entry has these and no others.
_REDBEAT_FIELDS = frozenset(("name", "task", "schedule", *REDBEAT_FIELDS))

_ALL_FIELDS = _REDBEAT_FIELDS.union(POLICY_FIELDS)

#: What the fields hold for which None stands for an empty one in a new entry, and for nothing in a change.
_FILLED = {"args": "list", "kwargs": "dict", "options": "dict"}

#: The types of the values that nearly every entry has in RedBeat's fields: they need no closer look.
_TYPES = {name: FIELDS[name].kind.type for name in REDBEAT_FIELDS}

_REQUIRED = {
    "task": "the name of a task",
    "schedule": "an object such as {'__type__': 'interval', 'every': 60.0}",
}


class Decoder(Protocol):
    """Reads schedules from their stored form."""

    def decode(self, data: Any) -> BaseSchedule:
        """Return the schedule of a stored form."""


class Definition(StoredFields):
    """What runs and when. Its schedule is the one that fires: that of the entry, within its window."""

    __slots__ = ()

    @classmethod
    def checked(
        cls, *, schedule: Any, args: Any = None, kwargs: Any = None, options: Any = None, **others: Any
    ) -> Definition:
        """Return a definition of the values that a user passed, after checking every field.

        Raises:
            InvalidEntry: naming the first field that cannot be stored.
        """
        if type(schedule) is limited:
            schedule, others = schedule.schedule, {**{name: getattr(schedule, name) for name in OF_SCHEDULE}, **others}
        schedule = for_entry(as_schedule(schedule), others.get("name"))
        others["task"] = as_task(others.get("task"))
        others["timezone"] = agreed_zone(others.get("timezone"), schedule)
        others.update(checked_policies(others))
        definition = cls(
            schedule=limit(schedule, others),
            args=list_or_given(args),
            kwargs=dict_or_given(kwargs),
            options=storable_options(options),
            **{"extra": {}, **others},
        )
        check_name(definition.name, advice="")
        _check(definition)
        return definition

    def check_texts(self) -> None:
        """Refuse a name, a task or a description that another program may store, but ours must not.

        Raises:
            InvalidEntry: it is blank, or holds a control character or a mark of direction; of a description only the
                former, as it may have lines and any language; or no worker can execute the task.
        """
        refuse_confusing(self.name)
        check_new_task(self.task)
        _refuse_controls("$.description", self.description)

    def check_options(self, rules: OptionRules) -> None:
        """Refuse options that another program may store, but that no broker could take.

        Raises:
            InvalidEntry: as for :func:`redisbeater.model.options.check_options`.
        """
        check_options(self.options, self.task, rules)

    @classmethod
    def from_text(cls, name: str, text: str, codec: Decoder, *, has_any_name: bool = False) -> Definition:
        """Read the definition that is stored under a name; the name in the key counts, not one in the text.

        ``has_any_name``: the name may be too long, as that of an entry which another program stored.

        Raises:
            InvalidEntry: the text is not JSON, a field is missing or wrong, or the name is not valid.
        """
        if not has_any_name:
            check_name(name)
        data = json_text.from_text(text, "$")
        if not isinstance(data, dict):
            raise InvalidEntry("$", f"expected an object, got {type(data).__name__}")
        for needed in _REQUIRED:
            if needed not in data:
                raise InvalidEntry(f"$.{needed}", f"is missing; expected {_REQUIRED[needed]}")
        data = flattened(data)
        policies = {} if _REDBEAT_FIELDS.issuperset(data) else read_policies(data)
        schedule = for_entry(codec.decode(data["schedule"]), name)
        definition = cls(
            name=name,
            task=data["task"],
            schedule=limit(schedule, policies) if policies else schedule,
            args=_or(data.get("args"), []),
            kwargs=_or(data.get("kwargs"), {}),
            options=decoded_options(_or(data.get("options"), {})),
            enabled=_or(data.get("enabled"), True),
            **policies,
            extra={key: value for key, value in data.items() if key not in _ALL_FIELDS},
        )
        _check(definition)
        return definition

    def to_text(self, codec: ScheduleCodec) -> str:
        """Return the text that is stored.

        Raises:
            InvalidEntry: as for :meth:`to_data`.
        """
        return json_text.to_text(self.to_data(codec))

    def to_data(self, codec: ScheduleCodec) -> dict[str, Any]:
        """Return the JSON values to store; RedBeat can read them unless the entry uses what RedBeat lacks.

        Raises:
            InvalidEntry: the schedule or another value cannot be stored.
        """
        stored = {
            "name": self.name,
            "task": self.task,
            "args": self.args,
            "kwargs": self.kwargs,
            "options": self.options and encoded_options(self.options),
            "schedule": codec.encode(self.schedule),
            "enabled": self.enabled,
        }
        stored.update(stored_policies(self._asdict()))
        stored.update(self.extra)
        # The other fields have checked types, so a quick look at these is nearly always enough.
        unchecked = [self.task, self.args, self.kwargs, stored["options"], self.description, self.labels, self.extra]
        if not kind_of(self.schedule).is_plain:
            unchecked.append(stored["schedule"])
        if not json_text.is_plain([value for value in unchecked if value]):
            json_text.check_value(stored, "$")
        return stored

    def with_instants(self, default_zone: tzinfo) -> Definition:
        """Return it with a naive ``expires`` read in its zone; stored without one, it would mean UTC.

        Raises:
            InvalidEntry: it is too near to an end of the calendar.
        """
        expires = self.options.get("expires")
        if not isinstance(expires, datetime) or expires.tzinfo is not None:
            return self
        instant = checked_instant(expires, self.zone(default_zone), "$.options.expires")
        return self._replace(options={**self.options, "expires": instant})

    @property
    def plain_schedule(self) -> Any:
        """The schedule of the entry, which its window is no part of."""
        return unlimited(self.schedule)

    def zone(self, default: tzinfo) -> tzinfo:
        """Return the zone of the entry's local times: its own, else the app's."""
        return default if self.timezone is None else read_zone(self.timezone, "$.timezone")

    def timetable(self, default_zone: tzinfo, calendars: Calendars = NO_CALENDARS) -> Timetable:
        """Return its timetable; naive bounds are local times of its zone. It needs the calendars it names."""
        zone, schedule = self.zone(default_zone), self.schedule
        return Timetable(
            schedule=schedule.on_days_of(calendars) if type(schedule) is limited else schedule,
            zone=zone,
            start_at=None if self.start_at is None else in_zone(self.start_at, zone),
            end_at=None if self.end_at is None else in_zone(self.end_at, zone),
        )

    @property
    def calendars(self) -> list[str]:
        """The names of the calendars on which its fire times depend."""
        return self.schedule.calendars if type(self.schedule) is limited else []

    @property
    def is_interval(self) -> bool:
        """Whether each fire time counts from the one before, and so from a run that the application reports."""
        return kind_of(self.schedule).is_interval

    @property
    def follows_app_zone(self) -> bool:
        """Whether its fire times are local times of the app's zone; those of an rrule and of solar never are."""
        if self.timezone is not None:
            return False
        bounds = (self.start_at, self.end_at, self.disabled_until)
        has_local_bound = any(bound is not None and bound.tzinfo is None for bound in bounds)
        return has_local_bound or kind_of(self.schedule).has_local_times(self.schedule)

    def zones(self, default: tzinfo) -> set[str]:
        """Return the names of the zones on whose rules its fire times depend; UTC has none."""
        zones = kind_of(self.schedule).zones(self.schedule, self.zone(default))
        bounds = (self.start_at, self.end_at, self.disabled_until)
        of_bounds = (bound.tzinfo or self.zone(default) for bound in bounds if bound is not None)
        return {name for zone in (*zones, *of_bounds) if (name := zone_name(zone)) not in (None, "UTC")}

    @property
    def never_ends(self) -> bool:
        """Whether it certainly has a next fire time, always; other entries may have one."""
        return self.end_at is None and kind_of(self.schedule).is_endless and not self.calendars

    def changed(self, rules: OptionRules | None = None, /, **changes: Any) -> Definition:
        """Return a copy with some fields changed, checked like a new definition.

        ``rules`` checks changed options; without it any names are accepted.

        Raises:
            InvalidEntry: naming the first field that cannot be stored, or does not exist.
        """
        fields_ = self._asdict()
        if "schedule" in changes and zone_of_cron(changes["schedule"]) is not None:
            fields_["timezone"] = None
        for name in changes:
            if name == "name":
                raise InvalidEntry("$.name", "cannot be changed")
            if name not in _ALL_FIELDS:
                raise unknown_field(name, _ALL_FIELDS)
            if changes[name] is None and name in _FILLED:
                raise InvalidEntry(f"$.{name}", f"expected a {_FILLED[name]}, got None")
        after = Definition.checked(**{**fields_, **changes})
        if "task" in changes:
            check_new_task(after.task)
        if "description" in changes:
            _refuse_controls("$.description", after.description)
        if "options" in changes and rules is not None:
            after.check_options(rules)
        return after

    def has_same_fire_times_as(self, other: Definition, codec: ScheduleCodec) -> bool:
        """Tell whether both have the same fire times, apart from their ends, so that the change moves no fire time."""
        return (
            self.timezone == other.timezone
            and _comparable(self.start_at) == _comparable(other.start_at)
            and (self.schedule is other.schedule or has_same_form(self.schedule, other.schedule, codec))
        )


def has_same_form(one: BaseSchedule, other: BaseSchedule, codec: ScheduleCodec) -> bool:
    """Tell whether two schedules are stored alike, apart from what is read alike."""
    return bool(comparable(codec.encode(one)) == comparable(codec.encode(other)))


#: Control characters but tabs and ends of lines: they drive terminals.
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")


def _refuse_controls(path: str, text: str) -> None:
    if found := _CONTROL.search(text):
        raise InvalidEntry(path, f"holds U+{ord(found[0]):04X}, a control character; leave it out")


def _comparable(moment: datetime | None) -> Any:
    """Return a value that is equal for one instant in two zones, and differs between the passes of a repeated hour."""
    if moment is None or moment.tzinfo is not None:
        return moment and moment.astimezone(timezone.utc)
    return moment, moment.fold


def _or(value: Any, default: Any) -> Any:
    return default if value is None else value


def _check(definition: Definition) -> None:
    if not isinstance(definition.task, str) or not definition.task:
        raise InvalidEntry(
            "$.task", f"expected a task or its name, got {quoted(definition.task)}{task_advice(definition.task)}"
        )
    for name, expected in _TYPES.items():
        value = getattr(definition, name)
        if type(value) is not expected:
            FIELDS[name].check(value)
    if definition.options:
        _check_options(definition.options)
    if definition.anchor is Anchor.EXECUTION and not definition.is_interval:
        problem = "'execution' is for intervals: the fire times of this schedule do not depend on its runs"
        raise InvalidEntry("$.anchor", problem)


def _check_options(options: dict[str, Any]) -> None:
    for name in _SET_BY_BEAT:
        if name in options:
            raise InvalidEntry(f"$.options.{name}", "is not an option of a task; beat sets it itself")
    if not isinstance(options.get("headers"), (dict, type(None))):
        raise InvalidEntry("$.options.headers", f"expected a dict, got {quoted(options['headers'])}")
