"""The fields of an entry: one table says of each what it is; checks, encodings and all words about it derive from it.

A new field is a line in ``FIELDS``, ``_SharedFields`` and ``StoredFields`` here, and a parameter of
:class:`redisbeater.RedisScheduleEntry`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import MAXYEAR, MINYEAR, datetime, timedelta, timezone, tzinfo
from typing import Any, NamedTuple, Protocol, TypedDict

from celery.schedules import BaseSchedule

from redisbeater.display import quoted, unsafe_character
from redisbeater.exceptions import InvalidEntry
from redisbeater.model.options import OPTIONS
from redisbeater.model.passed_values import args_advice
from redisbeater.model.policies import (
    INHERIT,
    RECEIVER_NAME,
    Anchor,
    AnchorLike,
    Coalesce,
    CoalesceLike,
    Inherit,
    OnFinish,
    OnFinishLike,
    Overlap,
    OverlapLike,
    Roll,
    RollLike,
    TextEnum,
)
from redisbeater.schedules.calendar import checked_calendar
from redisbeater.schedules.window import FIELDS as OF_SCHEDULE
from redisbeater.schedules.window import checked_between, checked_days
from redisbeater.schedules.zones import decode_datetime, encode_datetime, in_iana_zone, in_zone, read_zone
from redisbeater.times import MAX_SECONDS, duration_words, is_seconds

#: How many fire times of an entry can be left out.
MOST_SKIPPED = 100

#: Characters of a label's name, and of its value: it is a word to select by, not a place for data.
MOST_LABEL = 100

#: How many labels an entry can have.
MOST_LABELS = 50

#: A shorter grace would skip runs whenever beat is busy for a moment, and so would a shorter deadline.
MIN_GRACE_SECONDS = 1.0

#: How often a run that was lost can be sent again: a task that ends its worker must not do so for ever.
MOST_REQUEUES = 10

#: Bad ends in a row: an entry keeps the last 30 ends, and one more than these is an incident.
MOST_FAILURES = 29


class FieldKind:
    """A kind of value: how it is checked, stored and read, with an example as people write it."""

    type: type
    expected: str
    example: str = ""

    def check(self, value: Any, path: str) -> Any:
        """Return the value that a user passed or storage holds, as entries have it.

        Raises:
            InvalidEntry: it is none of this kind.
        """
        if isinstance(value, self.type):
            return value
        raise InvalidEntry(path, f"expected {self.expected}, got {quoted(value)}")

    def encode(self, value: Any) -> Any:
        """Return the stored form of a value."""
        return value

    def read(self, stored: Any) -> Any:
        """Return the part of a stored value that still counts, unchecked."""
        return stored

    def words(self, value: Any) -> str:
        """Return a value in words."""
        return "none" if value is None else str(value)

    @property
    def hint(self) -> str:
        """What people may write, as a sentence; empty where that is clear."""
        return f"Example: {self.example}." if self.example else ""

    def json_schema(self) -> dict[str, Any]:
        """Return the JSON Schema of what a file may have."""
        return {"type": "string"}


class Text(FieldKind):
    """Any text."""

    type, expected = str, "a text"


class Flag(FieldKind):
    """True or false."""

    type, expected = bool, "true or false"

    def json_schema(self) -> dict[str, Any]:
        """Return that of a boolean."""
        return {"type": "boolean"}


@dataclass(frozen=True)
class Number(FieldKind):
    """A whole number of something; without a most, the field has None where there is no limit."""

    of: str = ""
    least: int = 1
    most: int | None = None

    def check(self, value: Any, path: str) -> int:
        """Return the number."""
        if type(value) is int and self.least <= value and (self.most is None or value <= self.most):
            return value
        bounds = f", at least {self.least}, or None" if self.most is None else f" from {self.least} to {self.most}"
        of = f" of {self.of}" if self.of else ""
        raise InvalidEntry(path, f"expected a whole number{of}{bounds}, got {quoted(value)}")

    def json_schema(self) -> dict[str, Any]:
        """Return that of an integer with the bounds."""
        return {"type": "integer", "minimum": self.least, **({} if self.most is None else {"maximum": self.most})}


class Receivers(FieldKind):
    """A name of those who are told of incidents, or ``none``."""

    type, expected, example = str, "a name of redisbeater_notify, or 'none'", "ops"

    def check(self, value: Any, path: str) -> str:
        """Return the name."""
        if isinstance(value, str) and RECEIVER_NAME.fullmatch(value):
            return value
        raise InvalidEntry(path, f"expected {self.expected}, got {quoted(value)}")

    def json_schema(self) -> dict[str, Any]:
        """Return that of a name."""
        return {"type": "string", "pattern": f"^{RECEIVER_NAME.pattern}$"}


@dataclass(frozen=True)
class Duration(FieldKind):
    """Seconds, also as a timedelta."""

    least: float
    example: str

    def check(self, value: Any, path: str) -> float:
        """Return the seconds."""
        if isinstance(value, timedelta):
            value = value.total_seconds()
        if not is_seconds(value, self.least):
            expected = f"seconds or a timedelta, from {self.least:g} s to 1000 years"
            raise InvalidEntry(path, f"expected {expected}, got {quoted(value)}")
        return value

    def words(self, value: Any) -> str:
        """Return a duration as ``1 d 9 h``."""
        return "none" if value is None else duration_words(timedelta(seconds=value), units=2)

    def json_schema(self) -> dict[str, Any]:
        """Return that of seconds, or of a text such as ``5m``."""
        return {"type": ["string", "number"], "minimum": self.least, "maximum": MAX_SECONDS}


class Time(FieldKind):
    """A datetime; a naive one is local time of the entry's zone."""

    example = "2027-01-03T09:00"

    def check(self, value: Any, path: str) -> datetime:
        """Return the datetime."""
        if isinstance(value, dict):
            value = decode_datetime(value, path, default_zone=None)
        if isinstance(value, datetime) and _fits_utc(value):
            return in_iana_zone(value, path)
        years = f"{MINYEAR + 1} to {MAXYEAR - 1}"
        raise InvalidEntry(path, f"expected a datetime with a year from {years}, got {quoted(value)}")

    def encode(self, value: datetime) -> Any:
        """Return the object that is stored."""
        return encode_datetime(value)

    def words(self, value: Any) -> str:
        """Return it in the form of ISO 8601."""
        return "none" if value is None else value.isoformat()

    def json_schema(self) -> dict[str, Any]:
        """Return that of a text in the form of ISO 8601, or of the object that is stored."""
        return {"type": ["string", "object"], "pattern": "^[0-9]{4}", "required": ["__type__"]}


class Times(FieldKind):
    """Fire times."""

    def check(self, value: Any, path: str) -> tuple[datetime, ...]:
        """Return fire times as aware UTC, each once and in order; they are stored as ISO 8601."""
        if not isinstance(value, (list, tuple)):
            raise InvalidEntry(path, f"expected a list of fire times, got {quoted(value)}")
        if len(value) > MOST_SKIPPED:
            raise InvalidEntry(path, f"expected at most {MOST_SKIPPED} fire times, got {len(value)}")
        return tuple(sorted({_fire_time(item, f"{path}[{place}]") for place, item in enumerate(value)}))

    def encode(self, value: tuple[datetime, ...]) -> list[str]:
        """Return texts of ISO 8601."""
        return [moment.isoformat() for moment in value]

    def read(self, stored: Any) -> Any:
        """Return them without those that never come and no zone can show: they were accepted once."""
        if not isinstance(stored, list):
            return stored
        return [item for item in stored if (moment := _utc(item)) is None or _is_in_every_zone(moment)]

    def json_schema(self) -> dict[str, Any]:
        """Return that of a list of texts."""
        return {"type": "array", "items": {"type": "string", "pattern": "^[0-9]{4}"}, "maxItems": MOST_SKIPPED}


@dataclass(frozen=True)
class Word(FieldKind):
    """One of the words of an enum, which has a sentence for each."""

    choices: type[TextEnum]

    def check(self, value: Any, path: str) -> TextEnum:
        """Return the member."""
        try:
            return self.choices(value)
        except ValueError:
            words = ", ".join(repr(choice.value) for choice in self.choices)
            raise InvalidEntry(path, f"expected one of {words}, got {quoted(value)}") from None

    def encode(self, value: TextEnum) -> str:
        """Return the word."""
        return value.value

    @property
    def hint(self) -> str:
        """The words."""
        return f"One of {', '.join(self.choices)}."

    def json_schema(self) -> dict[str, Any]:
        """Return that of the words."""
        return {"type": "string", "enum": [choice.value for choice in self.choices]}


class Labels(FieldKind):
    """Short texts by name."""

    example = "customer=weiss"

    def check(self, value: Any, path: str) -> dict[str, str]:
        """Return a copy of them."""
        if not isinstance(value, Mapping):
            raise InvalidEntry(path, f"expected texts by name, such as {{'team': 'billing'}}, got {quoted(value)}")
        if len(value) > MOST_LABELS:
            raise InvalidEntry(path, f"expected at most {MOST_LABELS} labels, got {len(value)}")
        for name, text in value.items():
            _check_label(name, path, "a name")
            _check_label(text, f"{path}.{name}", "a text")
        return dict(value)

    def json_schema(self) -> dict[str, Any]:
        """Return that of an object of short texts."""
        text = {"type": "string", "minLength": 1, "maxLength": MOST_LABEL}
        return {
            "type": "object", "additionalProperties": text, "propertyNames": text, "maxProperties": MOST_LABELS,
        }  # fmt: skip


@dataclass(frozen=True)
class JSON(FieldKind):
    """A list or an object of JSON values."""

    type: type[list[Any]] | type[dict[str, Any]]
    example: str

    @property
    def noun(self) -> str:
        """What JSON calls it."""
        return "list" if self.type is list else "object"

    def check(self, value: Any, path: str) -> Any:
        """Return it."""
        if isinstance(value, self.type):
            return value
        advice = args_advice(value) if self.type is list else ""
        raise InvalidEntry(path, f"expected a {self.type.__name__}, got {quoted(value)}{advice}")

    def json_schema(self) -> dict[str, Any]:
        """Return that of any list or object."""
        return {"type": "array" if self.type is list else "object"}


class Options(JSON):
    """The options of ``apply_async``."""

    def json_schema(self) -> dict[str, Any]:
        """Return that of an object, with the known names; an application may know others, and other values."""
        known = {name: {"description": expected} for name, (_, expected) in OPTIONS.items()}
        return {**super().json_schema(), "properties": known}


class Zone(FieldKind):
    """The name of a time zone."""

    example = "Europe/Vienna"

    def check(self, value: Any, path: str) -> Any:
        """Return the name."""
        read_zone(value, path)
        return value


class Windows(FieldKind):
    """Times of the day from which and to which an entry fires."""

    example = "09:30-16:00"

    def check(self, value: Any, path: str) -> str:
        """Return them in their one form."""
        return checked_between(value, path)


class Weekdays(FieldKind):
    """Weekdays, as in a cron text."""

    example = "mon-fri"

    def check(self, value: Any, path: str) -> str:
        """Return them without blanks."""
        return checked_days(value, path)


class CalendarNames(FieldKind):
    """Names of calendars, each perhaps with ``!``."""

    example = "at"

    def check(self, value: Any, path: str) -> str:
        """Return them without blanks."""
        return checked_calendar(value, path)


class Group(TextEnum):
    """What fields are about, in the order in which people read of them; the sentence is the heading, if any."""

    TIMES = "times"
    ARGUMENTS = "arguments"
    BOUNDS = "bounds", "From when, until when"
    LATE = "late", "Late runs"
    RUNS = "runs", "Runs that overlap, hang or fail"
    PROMISES = "promises", "What is an incident"
    SENDING = "sending", "How it is sent, and what it belongs to"
    PEOPLE = "people"
    #: Set by verbs of their own, such as disable.
    STATE = "state"


#: The groups of the fields that decide which fire times run.
POLICIES = (Group.BOUNDS, Group.LATE, Group.RUNS)


@dataclass(frozen=True)
class Field:
    """A field of entries.

    Attributes:
        default: its value where it is not set; INHERIT: what the setting of that name says.
        sentence: what it means, for people who choose a value.
        untracked: the values that do the same where runs are not recorded, the default first, last the one that counts
            then; empty: all do.
        nullable: whether None is a value; of all other fields it is the same as no field.
        former: what people who write it call it, if that is not the name.
        since: the version of redisbeater that brought it.
    """

    name: str
    kind: FieldKind
    default: Any
    group: Group
    sentence: str
    untracked: tuple[Any, ...] = ()
    nullable: bool = False
    former: str = ""
    since: str = "1.0"

    @property
    def word(self) -> str:
        """What people call it who write it."""
        return self.former or self.name

    @property
    def help(self) -> str:
        """Its sentence, and what people may write."""
        return f"{self.sentence} {self.kind.hint}".rstrip()

    def check(self, value: Any) -> Any:
        """Return the value of what a user passed or storage holds.

        Raises:
            InvalidEntry: it cannot be used.
        """
        return None if value is None and self.nullable else self.kind.check(value, f"$.{self.name}")

    def json_schema(self) -> dict[str, Any]:
        """Return the JSON Schema of what a file may have, with what people read of it."""
        schema, text = self.kind.json_schema(), self.help
        if self.nullable or self.default is None:
            types = schema["type"]
            schema["type"] = [*([types] if isinstance(types, str) else types), "null"]
            if "enum" in schema:
                schema["enum"] = [*schema["enum"], None]
        if self.default is INHERIT:
            return {"description": f"{text} Without it the setting redisbeater_{self.name} counts.", **schema}
        has_default = self.default is not None and not isinstance(self.default, (dict, tuple))
        default = {"default": self.kind.encode(self.default)} if has_default else {}
        return {"description": text, **schema, **default}

    def stored(self, value: Any) -> Any:
        """Read a stored value, unchecked."""
        if value is None:
            return None if self.nullable else self.default
        return self.kind.read(value)


#: The labels of an entry that has none; never changed.
NO_LABELS: dict[str, str] = {}

_FIELDS = (
    Field("args", JSON(list, '["orders"]'), None, Group.ARGUMENTS, "Positional arguments of the task."),
    Field("kwargs", JSON(dict, '{"pages": 3}'), None, Group.ARGUMENTS, "Arguments of the task by name."),
    Field("options", Options(dict, '{"expires": 60}'), None, Group.SENDING, "Options of apply_async."),
    Field("enabled", Flag(), True, Group.STATE, "Whether it runs. A disabled entry is kept in the schedule."),
    Field("timezone", Zone(), None, Group.TIMES, "The zone of local times."),
    Field("start_at", Time(), None, Group.BOUNDS, "The entry does not fire before this time."),
    Field("end_at", Time(), None, Group.BOUNDS, "The entry does not fire after this time."),
    Field("max_runs", Number("runs"), None, Group.BOUNDS,
          "The entry ends after so many runs. Only sent runs count."),
    Field("on_finish", Word(OnFinish), OnFinish.KEEP, Group.BOUNDS,
          "What happens to the entry after its last fire time."),
    Field("misfire_grace_time", Duration(MIN_GRACE_SECONDS, "30m"), INHERIT, Group.LATE,
          "How late a fire time may still run. None means no limit.",
          nullable=True, former="grace"),
    Field("coalesce", Word(Coalesce), INHERIT, Group.LATE, "Which runs are sent if several fire times are late."),
    Field("jitter", Duration(0.0, "30s"), INHERIT, Group.LATE, "Each run is delayed by up to this."),
    Field("description", Text(), "", Group.PEOPLE, "A text for people."),
    Field("labels", Labels(), NO_LABELS, Group.SENDING, "Short texts by name, by which entries are selected."),
    Field("disabled_until", Time(), None, Group.STATE, "Fire times before this do not run."),
    Field("skip", Times(), (), Group.STATE, "Fire times that are skipped."),
    Field("overlap", Word(Overlap), INHERIT, Group.RUNS,
          "What happens to a fire time while a run of the entry is active.", untracked=(INHERIT, Overlap.ALLOW)),
    Field("requeue_lost", Number(least=0, most=MOST_REQUEUES), INHERIT, Group.RUNS,
          f"How often a run whose worker died is sent again, at most {MOST_REQUEUES} times.", untracked=(INHERIT, 0)),
    Field("anchor", Word(Anchor), Anchor.FIRE_TIME, Group.RUNS,
          "What an interval counts from.", untracked=(Anchor.FIRE_TIME,)),
    Field("deadline", Duration(MIN_GRACE_SECONDS, "1h"), None, Group.RUNS,
          "A run expires if no worker has started it within this time after its fire time."),
    Field("once", Flag(), False, Group.RUNS,
          "No run is executed twice, even if its message is delivered twice; its task needs the class OnceTask.",
          untracked=(False,)),
    Field("disable_after_failures", Number("failures"), None, Group.RUNS,
          "The entry is disabled after so many failed runs in a row.", untracked=(None,)),
    Field("max_failures", Number(least=0, most=MOST_FAILURES), INHERIT, Group.PROMISES,
          f"How many failures in a row are tolerated, at most {MOST_FAILURES}: failed, lost or expired.",
          untracked=(INHERIT, 0)),
    Field("start_within", Duration(MIN_GRACE_SECONDS, "5m"), INHERIT, Group.PROMISES,
          "A run that waits longer for a worker is an incident. None means never.",
          untracked=(INHERIT, None), nullable=True),
    Field("finish_within", Duration(MIN_GRACE_SECONDS, "24h"), INHERIT, Group.PROMISES,
          "If no run succeeds within this time after one was sent, that is an incident. None means never.",
          untracked=(INHERIT, None), nullable=True),
    Field("notify", Receivers(), None, Group.PROMISES, "Who is told of incidents of the entry. none means nobody."),
    Field("between", Windows(), None, Group.TIMES,
          "The hours in which it runs, with the start and without the end. An interval begins anew when they begin."),
    Field("days", Weekdays(), None, Group.TIMES,
          "The weekdays on which these hours begin. Without hours: the whole days."),
    Field("calendar", CalendarNames(), None, Group.TIMES,
          "Run only on the days of this calendar; !at means the other days. Separate several by commas; a day must "
          "satisfy each."),
    Field("roll", Word(Roll), None, Group.TIMES, "Where a fire time is moved if its day does not count."),
    # A new field stands last: what is stored keeps its order.
)  # fmt: skip

#: The fields besides name, task and schedule, in the order in which they are stored.
FIELDS: Mapping[str, Field] = {field.name: field for field in _FIELDS}

#: Those that RedBeat has too: they are always stored.
REDBEAT_FIELDS = ("args", "kwargs", "options", "enabled")

#: Those that are stored only when they differ from their defaults, so that RedBeat can read entries that use none.
POLICY_FIELDS: Mapping[str, Field] = {name: field for name, field in FIELDS.items() if name not in REDBEAT_FIELDS}

#: The fields that people write, by what they call them, in the order in which they read of them.
WORDS: dict[str, Field] = {
    field.word: field for group in Group for field in _FIELDS if field.group is group is not Group.STATE
}

#: The fields that take the value of the setting of the same name where an entry has none.
INHERITED = tuple(field.name for field in _FIELDS if field.default is INHERIT)

#: Those that say from when on something is an incident: no run follows from them.
PROMISES = tuple(field.name for field in _FIELDS if field.group is Group.PROMISES)

#: The fields of which null is a value.
NULLABLE = frozenset(field.name for field in _FIELDS if field.nullable)

_DEFAULTS = {name: field.default for name, field in POLICY_FIELDS.items()}

#: Those of the fields that are not stored with the schedule.
_OWN_DEFAULTS = {name: default for name, default in _DEFAULTS.items() if name not in OF_SCHEDULE}


def checked_policies(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return all policy fields: the passed ones checked, the others with their defaults.

    Raises:
        InvalidEntry: naming the first field that cannot be used.
    """
    values = dict(_DEFAULTS)
    for name, default in _DEFAULTS.items():
        value = given.get(name, default)
        # False equals 0, which is no flag: only a value of the same type needs no check.
        if value is not default and not (type(value) is type(default) and value == default):
            values[name] = POLICY_FIELDS[name].check(value)
    if values["start_at"] is not None and values["end_at"] is not None:
        _check_order(values["start_at"], values["end_at"])
    return values


def given_policies(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the policy fields that are not left at their defaults, unchecked."""
    return {name: fields[name] for name, default in _DEFAULTS.items() if fields[name] is not default}


def read_policies(stored: Mapping[str, Any]) -> dict[str, Any]:
    """Return the policy fields of a stored definition.

    Raises:
        InvalidEntry: as for :func:`checked_policies`.
    """
    present = {name: stored[name] for name in POLICY_FIELDS if name in stored}
    if not present:
        return dict(_DEFAULTS)
    return checked_policies({name: POLICY_FIELDS[name].stored(value) for name, value in present.items()})


def stored_policies(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the stored form of the policy fields that differ from their defaults, and are not in the schedule's."""
    return {
        name: None if values[name] is None else POLICY_FIELDS[name].kind.encode(values[name])
        for name, default in _OWN_DEFAULTS.items()
        if values[name] is not default and values[name] != default
    }


def shown_value(stored: Mapping[str, Any], name: str) -> Any:
    """Return the value of a stored field, None without one; ``none`` for a null that is a value."""
    return "none" if name in NULLABLE and name in stored and stored[name] is None else stored.get(name)


def _check_order(start_at: datetime, end_at: datetime) -> None:
    if (start_at.tzinfo is None) != (end_at.tzinfo is None):
        return
    if start_at.tzinfo is None:  # the later pass of a repeated hour may have the earlier local time
        is_reversed = end_at < start_at and end_at.fold <= start_at.fold
    else:
        is_reversed = in_zone(end_at, timezone.utc) < in_zone(start_at, timezone.utc)
    if is_reversed:
        raise InvalidEntry("$.end_at", f"expected start_at ({start_at.isoformat()}) or later, got {end_at.isoformat()}")


def _fits_utc(moment: datetime) -> bool:
    """Tell whether it can be converted to UTC, in whichever zone a naive one is read."""
    return moment.tzinfo is timezone.utc or MINYEAR < moment.year < MAXYEAR


def _check_label(text: Any, path: str, expected: str) -> None:
    if not isinstance(text, str) or not text or len(text) > MOST_LABEL:
        raise InvalidEntry(path, f"expected {expected} of 1 to {MOST_LABEL} characters, got {quoted(text, at=path)}")
    if unsafe := unsafe_character(text):
        raise InvalidEntry(path, f"holds {unsafe}, a control character or a mark of direction; leave it out")


def _fire_time(value: Any, path: str) -> datetime:
    moment = _utc(value)
    if moment is None:
        raise InvalidEntry(path, f"expected a datetime with a zone, or 2026-11-23T08:00:00+00:00, got {quoted(value)}")
    if not _is_in_every_zone(moment):
        raise InvalidEntry(path, f"expected a year from {MINYEAR + 1} to {MAXYEAR - 1}, got {quoted(value)}")
    return moment


def _utc(value: Any) -> datetime | None:
    """Return a passed or stored fire time as aware UTC, or None for what is none."""
    try:
        # Python 3.10 does not read the Z that other languages write.
        moment = datetime.fromisoformat(value.replace("Z", "+00:00")) if isinstance(value, str) else value
        if isinstance(moment, datetime) and moment.tzinfo is not None:
            return moment.astimezone(timezone.utc)
    except (ValueError, OverflowError):
        pass
    return None


def _is_in_every_zone(moment: datetime) -> bool:
    return MINYEAR < moment.year < MAXYEAR


class TaskObject(Protocol):
    """A task of Celery; its name is stored."""

    @property
    def name(self) -> Any:
        """The name of the task."""

    def apply_async(self, *args: Any, **kwargs: Any) -> Any:
        """Send the task."""


#: Callable: without types of Celery, some type checkers take a task for the function that it was.
TaskLike = str | TaskObject | Callable[..., Any]


class ScheduleLike(Protocol):
    """A schedule: ``crontab``, ``cron()``, ``rrule``, ``solar``, ``clocked`` or a registered class."""

    def is_due(self, last_run_at: datetime) -> Any:
        """Return whether it is due and the seconds until it is next, for Celery."""


class _SharedFields(TypedDict, total=False):
    enabled: bool
    timezone: str | tzinfo | None
    start_at: datetime | None
    end_at: datetime | None
    max_runs: int | None
    on_finish: OnFinishLike
    misfire_grace_time: float | timedelta | Inherit | None
    coalesce: CoalesceLike
    jitter: float | timedelta | Inherit
    description: str
    disabled_until: datetime | None
    skip: Sequence[datetime | str]
    overlap: OverlapLike
    requeue_lost: int | Inherit
    anchor: AnchorLike
    deadline: float | timedelta | None
    once: bool
    disable_after_failures: int | None
    max_failures: int | Inherit
    start_within: float | timedelta | Inherit | None
    finish_within: float | timedelta | Inherit | None
    notify: str | None
    between: str | None
    days: str | None
    calendar: str | None
    roll: RollLike | None


class EntryFields(_SharedFields, total=False):
    """What :meth:`redisbeater.ScheduleStore.create` takes besides name, task and schedule."""

    args: list[Any] | tuple[Any, ...] | None
    kwargs: Mapping[str, Any] | None
    options: Mapping[str, Any] | None
    labels: Mapping[str, str] | None
    last_run_at: datetime | None
    total_run_count: int | None
    relative: bool


class EntryChanges(_SharedFields, total=False):
    """What :meth:`redisbeater.ScheduleStore.update` can change."""

    args: list[Any] | tuple[Any, ...]
    kwargs: Mapping[str, Any]
    options: Mapping[str, Any]
    labels: Mapping[str, str]
    task: TaskLike
    schedule: ScheduleLike | float | timedelta


class StoredFields(NamedTuple):
    """The fields of a definition, checked; a tuple because a frozen dataclass takes three times as long to create.

    ``extra`` holds stored fields that this version does not know; they are kept when the entry is saved.
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
    labels: Mapping[str, str] = NO_LABELS
    disabled_until: datetime | None = None
    skip: tuple[datetime, ...] = ()
    overlap: Overlap | Inherit = INHERIT
    requeue_lost: int | Inherit = INHERIT
    anchor: Anchor = Anchor.FIRE_TIME
    deadline: float | None = None
    once: bool = False
    disable_after_failures: int | None = None
    max_failures: int | Inherit = INHERIT
    start_within: float | Inherit | None = INHERIT
    finish_within: float | Inherit | None = INHERIT
    notify: str | None = None
    between: str | None = None
    days: str | None = None
    calendar: str | None = None
    roll: Roll | None = None
