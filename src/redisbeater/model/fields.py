"""The policy fields of an entry: how each is checked, stored and read.

A field is stored only when it differs from its default, so that RedBeat can read every entry that uses none of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import MAXYEAR, MINYEAR, datetime, timedelta, timezone, tzinfo
from enum import Enum
from typing import Any, Protocol, TypedDict

from redisbeater.display import quoted, unsafe_character
from redisbeater.exceptions import InvalidEntry
from redisbeater.model.policies import (
    INHERIT,
    Anchor,
    AnchorLike,
    Coalesce,
    CoalesceLike,
    Inherit,
    OnFinish,
    OnFinishLike,
    Overlap,
    OverlapLike,
)
from redisbeater.schedules.zones import decode_datetime, encode_datetime, in_iana_zone, in_zone
from redisbeater.times import MAX_SECONDS

#: The fields of which null is a value; of all others it is the same as no field.
NULLABLE = frozenset({"misfire_grace_time"})

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


@dataclass(frozen=True)
class _Field:
    default: Any
    #: Returns the value of what a user passed or storage holds, or raises :class:`InvalidEntry` with the path.
    check: Callable[[Any, str], Any]
    encode: Callable[[Any], Any] = lambda value: value
    #: The value that a stored null stands for.
    null: Any = None
    #: Returns what still counts of a stored value.
    read: Callable[[Any], Any] = lambda value: value
    #: The values that do the same where runs are not recorded; empty: all do.
    untracked: tuple[Any, ...] = ()

    def stored(self, value: Any) -> Any:
        """Read a stored value, unchecked."""
        return self.null if value is None else self.read(value)


def checked_policies(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return all policy fields: the passed ones checked, the others with their defaults.

    Raises:
        InvalidEntry: naming the first field that cannot be used.
    """
    values = dict(_DEFAULTS)
    for name, default in _DEFAULTS.items():
        value = given.get(name, default)
        if value is not default:
            values[name] = POLICY_FIELDS[name].check(value, f"$.{name}")
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
    """Return the stored form of the policy fields that differ from their defaults."""
    return {
        name: None if values[name] is None else POLICY_FIELDS[name].encode(values[name])
        for name, default in _DEFAULTS.items()
        if values[name] is not default and values[name] != default
    }


def shown_value(stored: Mapping[str, Any], name: str) -> Any:
    """Return the value of a stored field, None without one; ``none`` for a null that is a value."""
    return "none" if name in NULLABLE and name in stored and stored[name] is None else stored.get(name)


def _check_order(start_at: datetime | None, end_at: datetime | None) -> None:
    if start_at is None or end_at is None or (start_at.tzinfo is None) != (end_at.tzinfo is None):
        return
    if start_at.tzinfo is None:  # the later pass of a repeated hour may have the earlier local time
        is_reversed = end_at < start_at and end_at.fold <= start_at.fold
    else:
        is_reversed = in_zone(end_at, timezone.utc) < in_zone(start_at, timezone.utc)
    if is_reversed:
        raise InvalidEntry("$.end_at", f"expected start_at ({start_at.isoformat()}) or later, got {end_at.isoformat()}")


def _datetime(value: Any, path: str) -> datetime | None:
    if isinstance(value, dict):
        value = decode_datetime(value, path, default_zone=None)
    if value is None or (isinstance(value, datetime) and _fits_utc(value)):
        return value and in_iana_zone(value, path)
    years = f"{MINYEAR + 1} to {MAXYEAR - 1}"
    raise InvalidEntry(path, f"expected a datetime with a year from {years}, got {quoted(value)}")


def _fits_utc(moment: datetime) -> bool:
    """Tell whether it can be converted to UTC, in whichever zone a naive one is read."""
    return moment.tzinfo is timezone.utc or MINYEAR < moment.year < MAXYEAR


def _count(value: Any, path: str) -> int | None:
    if value is None or (type(value) is int and value >= 1):
        return value
    raise InvalidEntry(path, f"expected a whole number of runs, at least 1, or None, got {quoted(value)}")


def _requeues(value: Any, path: str) -> int:
    if type(value) is int and 0 <= value <= MOST_REQUEUES:
        return value
    raise InvalidEntry(path, f"expected a whole number from 0 to {MOST_REQUEUES}, got {quoted(value)}")


def _flag(value: Any, path: str) -> bool:
    if type(value) is bool:
        return value
    raise InvalidEntry(path, f"expected true or false, got {quoted(value)}")


def _failures(value: Any, path: str) -> int | None:
    if value is None or (type(value) is int and value >= 1):
        return value
    raise InvalidEntry(path, f"expected a whole number of failures, at least 1, or None, got {quoted(value)}")


def _grace(value: Any, path: str) -> float | None:
    return None if value is None else _seconds(value, path, MIN_GRACE_SECONDS)


def _jitter(value: Any, path: str) -> float:
    return _seconds(value, path, 0.0)


def _seconds(value: Any, path: str, least: float) -> float:
    if isinstance(value, timedelta):
        value = value.total_seconds()
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not least <= value <= MAX_SECONDS:
        raise InvalidEntry(path, f"expected seconds or a timedelta, from {least:g} to 1000 years, got {quoted(value)}")
    return value


def _one_of(choices: type[Enum]) -> Callable[[Any, str], Any]:
    def check(value: Any, path: str) -> Any:
        try:
            return choices(value)
        except ValueError:
            words = ", ".join(repr(choice.value) for choice in choices)
            raise InvalidEntry(path, f"expected one of {words}, got {quoted(value)}") from None

    return check


def _labels(value: Any, path: str) -> dict[str, str]:
    if not isinstance(value, Mapping):
        raise InvalidEntry(path, f"expected texts by name, such as {{'team': 'billing'}}, got {quoted(value)}")
    if len(value) > MOST_LABELS:
        raise InvalidEntry(path, f"expected at most {MOST_LABELS} labels, got {len(value)}")
    for name, text in value.items():
        _check_label(name, path, "a name")
        _check_label(text, f"{path}.{name}", "a text")
    return dict(value)


def _check_label(text: Any, path: str, expected: str) -> None:
    if not isinstance(text, str) or not text or len(text) > MOST_LABEL:
        raise InvalidEntry(path, f"expected {expected} of 1 to {MOST_LABEL} characters, got {quoted(text, at=path)}")
    if unsafe := unsafe_character(text):
        raise InvalidEntry(path, f"holds {unsafe}, a control character or a mark of direction; leave it out")


def _fire_times(value: Any, path: str) -> tuple[datetime, ...]:
    """Return fire times as aware UTC, each once and in order; they are stored as ISO 8601."""
    if not isinstance(value, (list, tuple)):
        raise InvalidEntry(path, f"expected a list of fire times, got {quoted(value)}")
    if len(value) > MOST_SKIPPED:
        raise InvalidEntry(path, f"expected at most {MOST_SKIPPED} fire times, got {len(value)}")
    return tuple(sorted({_fire_time(item, f"{path}[{place}]") for place, item in enumerate(value)}))


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


def _without_far(stored: Any) -> Any:
    """Return stored fire times without those that never come and no zone can show: they were accepted once."""
    if not isinstance(stored, list):
        return stored
    return [item for item in stored if (moment := _utc(item)) is None or _is_in_every_zone(moment)]


def _iso_texts(moments: tuple[datetime, ...]) -> list[str]:
    return [moment.isoformat() for moment in moments]


def _checked_text(value: Any, path: str) -> str:
    if isinstance(value, str):
        return value
    raise InvalidEntry(path, f"expected a text, got {quoted(value)}")


def _word(choice: Enum) -> Any:
    return choice.value


#: The labels of an entry that has none; never changed.
NO_LABELS: dict[str, str] = {}

POLICY_FIELDS: Mapping[str, _Field] = {
    "start_at": _Field(None, _datetime, encode_datetime),
    "end_at": _Field(None, _datetime, encode_datetime),
    "max_runs": _Field(None, _count),
    "on_finish": _Field(OnFinish.KEEP, _one_of(OnFinish), _word, null=OnFinish.KEEP),
    "misfire_grace_time": _Field(INHERIT, _grace),
    "coalesce": _Field(INHERIT, _one_of(Coalesce), _word, null=INHERIT),
    "jitter": _Field(INHERIT, _jitter, null=INHERIT),
    "description": _Field("", _checked_text, null=""),
    "labels": _Field(NO_LABELS, _labels, null=NO_LABELS),
    "disabled_until": _Field(None, _datetime, encode_datetime),
    "skip": _Field((), _fire_times, _iso_texts, null=(), read=_without_far),
    "overlap": _Field(INHERIT, _one_of(Overlap), _word, null=INHERIT, untracked=(INHERIT, Overlap.ALLOW)),
    "requeue_lost": _Field(INHERIT, _requeues, null=INHERIT, untracked=(INHERIT, 0)),
    "anchor": _Field(Anchor.FIRE_TIME, _one_of(Anchor), _word, null=Anchor.FIRE_TIME, untracked=(Anchor.FIRE_TIME,)),
    "deadline": _Field(None, _grace),
    "once": _Field(False, _flag, null=False, untracked=(False,)),
    "disable_after_failures": _Field(None, _failures, untracked=(None,)),
}

_DEFAULTS = {name: field.default for name, field in POLICY_FIELDS.items()}


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
    args: list[Any] | tuple[Any, ...] | None
    kwargs: Mapping[str, Any] | None
    options: Mapping[str, Any] | None
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
    labels: Mapping[str, str] | None
    disabled_until: datetime | None
    skip: Sequence[datetime | str]
    overlap: OverlapLike
    requeue_lost: int | Inherit
    anchor: AnchorLike
    deadline: float | timedelta | None
    once: bool
    disable_after_failures: int | None


class EntryFields(_SharedFields, total=False):
    """What :meth:`redisbeater.ScheduleStore.create` takes besides name, task and schedule."""

    last_run_at: datetime | None
    total_run_count: int | None
    relative: bool


class EntryChanges(_SharedFields, total=False):
    """What :meth:`redisbeater.ScheduleStore.update` can change."""

    task: TaskLike
    schedule: ScheduleLike | float | timedelta
