"""``RedisScheduleEntry``: an entry for programs and for Celery; and the entries that the code declares."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta, timezone, tzinfo
from functools import lru_cache, partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from celery import Celery, Task
from celery.app import app_or_default
from celery.beat import ScheduleEntry
from celery.local import PromiseProxy, Proxy
from celery.schedules import BaseSchedule, schedstate

from redisbeater.context import Context
from redisbeater.display import quoted, text_of
from redisbeater.editing.changes import (
    DisableUntil,
    EntryChange,
    FieldChange,
    ReportExecution,
    Reschedule,
    SkipNext,
    Switch,
    Upsert,
)
from redisbeater.editing.compare_and_set import delete_entry, preview, write
from redisbeater.editing.edit import Author
from redisbeater.editing.stored_entry import StoredEntry, load
from redisbeater.editing.upcoming import UpcomingRun, upcoming_runs
from redisbeater.entry_name import check_name, check_stored_name
from redisbeater.exceptions import ImproperlyConfigured, InvalidEntry, RedisBeaterError, WrongType
from redisbeater.model import json_text
from redisbeater.model.definition import Definition
from redisbeater.model.fields import FIELDS as MODEL_FIELDS
from redisbeater.model.fields import MOST_SKIPPED, EntryFields, ScheduleLike, TaskLike
from redisbeater.model.meta import Failing, Meta
from redisbeater.model.passed_values import (
    check_number,
    checked_meta,
    dict_or_given,
    list_or_given,
    schedule_or_given,
    task_or_given,
    unknown_field,
)
from redisbeater.model.policies import (
    INHERIT,
    Anchor,
    AnchorLike,
    CoalesceLike,
    Inherit,
    OnFinish,
    OnFinishLike,
    OverlapLike,
    RollLike,
)
from redisbeater.model.skip import Skipped
from redisbeater.schedules.kinds import ScheduleCodec, kind_of
from redisbeater.times import to_unix

if TYPE_CHECKING:  # Python has it from 3.11 on; type checkers bring it along
    from typing_extensions import Unpack

#: The fields of its definition.
DEFINED = ("name", "task", "schedule", *MODEL_FIELDS)

#: What an entry has besides its definition.
_NOT_DEFINED = ("app", "last_run_at", "total_run_count")

#: The fields of an entry, by the names of the constructor: Celery copies them from one entry to the next.
FIELDS = (*DEFINED, *_NOT_DEFINED)

_KNOWN = frozenset(FIELDS)


class RedisScheduleEntry(ScheduleEntry):
    """An entry: what runs and when. Creating the object writes nothing; :meth:`save` does.

    Arguments:
        name: unique in the schedule; any text that does not begin with ``:``, at most 512 bytes, without control
            characters and marks of direction.
        task: the task or its name; the name without such characters.
        schedule: seconds, a timedelta, or a schedule: ``crontab``, ``cron()``, ``any_of()``, ``rrule``,
            ``solar``, ``clocked``, a registered class.
        args, kwargs: the arguments of the task; JSON values.
        options: how it is sent: queue, priority, expires (seconds, timedelta, datetime; naive: in its zone), ...;
            names that ``apply_async`` lacks are refused, unless :confval:`redisbeater_task_options` lists them.
        enabled: a disabled entry stays in the schedule and does not run.
        timezone: IANA name or ``ZoneInfo``; local times of the schedule are read in it. Default: that of a ``cron()``
            text, else the app's.
        last_run_at: for a new entry: count from a run at this time. Naive: in the entry's zone.
        start_at, end_at: no fire time lies before or after; naive: in the entry's zone. An interval begins at
            ``start_at``.
        max_runs: how many runs it may have; only those that were sent count.
        on_finish: what beat does with it when no fire time is left: ``"keep"``, ``"disable"`` or ``"delete"``.
        misfire_grace_time: seconds or timedelta; a fire time that is due longer ago is skipped as missed. None: any
            lateness is fine. Default: from the settings, as for the next two.
        coalesce: which of several fire times that have passed are run: ``"latest"``, ``"earliest"``, ``"all"``.
        jitter: seconds or timedelta; each run is delayed by a part of it, which its name and fire time decide.
        description: for people.
        labels: short texts by name, by which entries are selected: ``{"team": "billing"}``.
        disabled_until: no fire time before it runs; naive: in the entry's zone. :meth:`disable` sets it.
        skip: fire times that are left out, at most 100; :meth:`redisbeater.ScheduleStore.skip_next` sets them.
        overlap: what becomes of a fire time while a run is active: ``"allow"``, ``"skip"``, ``"buffer_one"``,
            ``"cancel_other"``. Default: from the settings, as for the next one.
        requeue_lost: how often a run whose worker died is sent again, 0 to 10.
        anchor: what an interval counts from: ``"fire_time"``, or ``"execution"``, the end of a run.
        deadline: seconds or timedelta; a run that nobody has started this long after its fire time expires.
        once: never execute a run twice; its task needs :class:`redisbeater.runs.OnceTask`.
        disable_after_failures: disable the entry after this many failures in a row.
        max_failures: this many bad ends in a row are no incident, 0 to 29.
        start_within: seconds or timedelta; a run that waits longer for a worker is an incident; None: never.
        finish_within: seconds or timedelta; that no run has ended well so long after one was sent is an incident; None:
            never.
        notify: who is told of its incidents: a name of ``redisbeater_notify``, or ``"none"``.
        between: the times of the day within which it fires, start in and end out: ``"09:30-16:00"``, several with
            commas. An interval begins anew at each start.
        days: the weekdays on which these times begin, as in cron: ``"mon-fri"``. Alone: the whole days.
        calendar: the calendar on whose days it fires, ``"at"``, or on whose other days, ``"!at"``; several with commas.
        roll: where the fire times of days that do not count are moved: ``"next"``, ``"previous"``, ``"modified"``.
        app: default: the current app.

    Example::

        RedisScheduleEntry("report", "proj.tasks.report", crontab(hour=9, minute=0), args=[1], app=app).save()
    """

    app: Celery
    name: str
    task: str
    #: A number of seconds and a timedelta become a schedule when the entry is saved.
    schedule: Any
    args: list[Any]
    kwargs: dict[str, Any]
    options: dict[str, Any]
    enabled: bool
    timezone: str | tzinfo | None
    last_run_at: datetime | None
    total_run_count: int
    start_at: datetime | None
    end_at: datetime | None
    max_runs: int | None
    on_finish: OnFinishLike
    misfire_grace_time: float | timedelta | Inherit | None
    coalesce: CoalesceLike
    jitter: float | timedelta | Inherit
    description: str
    labels: dict[str, str]
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
    # As of the last read or save; before that, nothing is known.
    _due_at: datetime | None = None
    _skipped: Mapping[str, Skipped] = MappingProxyType({})
    _state = ""
    _failing: Failing | None = None
    _late = timedelta(0)
    _version = ""
    #: The key prefix of its schedule if that is another one than the app's own.
    _prefix: str | None = None
    __hash__ = None  # type: ignore[assignment]  # it can be changed

    def __init__(
        self,
        name: str | None = None,
        task: TaskLike | None = None,
        schedule: ScheduleLike | float | timedelta | None = None,
        args: list[Any] | tuple[Any, ...] | None = None,
        kwargs: Mapping[str, Any] | None = None,
        *,
        options: Mapping[str, Any] | None = None,
        enabled: bool = True,
        app: Celery | None = None,
        timezone: str | tzinfo | None = None,
        last_run_at: datetime | None = None,
        total_run_count: int | None = None,
        relative: bool = False,
        start_at: datetime | None = None,
        end_at: datetime | None = None,
        max_runs: int | None = None,
        on_finish: OnFinishLike = OnFinish.KEEP,
        misfire_grace_time: float | timedelta | Inherit | None = INHERIT,
        coalesce: CoalesceLike = INHERIT,
        jitter: float | timedelta | Inherit = INHERIT,
        description: str = "",
        labels: Mapping[str, str] | None = None,
        disabled_until: datetime | None = None,
        skip: Sequence[datetime | str] = (),
        overlap: OverlapLike = INHERIT,
        requeue_lost: int | Inherit = INHERIT,
        anchor: AnchorLike = Anchor.FIRE_TIME,
        deadline: float | timedelta | None = None,
        once: bool = False,
        disable_after_failures: int | None = None,
        max_failures: int | Inherit = INHERIT,
        start_within: float | timedelta | Inherit | None = INHERIT,
        finish_within: float | timedelta | Inherit | None = INHERIT,
        notify: str | None = None,
        between: str | None = None,
        days: str | None = None,
        calendar: str | None = None,
        roll: RollLike | None = None,
        **unknown: NoReturn,
    ) -> None:
        if unknown:
            raise unknown_field(next(iter(unknown)), (*FIELDS, "relative"))
        # Past the check of attributes, and one by one: a bulk creates tens of thousands of entries, and any loop takes
        # a microsecond longer for each.
        own = self.__dict__
        own["name"], own["enabled"], own["timezone"], own["last_run_at"] = name, enabled, timezone, last_run_at
        own["start_at"], own["end_at"], own["max_runs"], own["on_finish"] = start_at, end_at, max_runs, on_finish
        own["misfire_grace_time"], own["coalesce"], own["jitter"] = misfire_grace_time, coalesce, jitter
        own["description"], own["disabled_until"], own["skip"] = description, disabled_until, skip
        own["overlap"], own["requeue_lost"], own["anchor"] = overlap, requeue_lost, anchor
        own["deadline"], own["once"], own["disable_after_failures"] = deadline, once, disable_after_failures
        own["max_failures"], own["start_within"], own["finish_within"] = max_failures, start_within, finish_within
        own["notify"] = notify
        own["between"], own["days"], own["calendar"], own["roll"] = between, days, calendar, roll
        # Celery's own constructor would set last_run_at to now: an entry that never ran has none.
        own["app"] = app = app_or_default(app)
        own["task"] = task_or_given(task)
        own["schedule"] = when = schedule_or_given(schedule, name, relative=relative)
        if isinstance(when, BaseSchedule):
            when.app = app
        own["total_run_count"] = total_run_count or 0
        own["args"] = list_or_given(args)
        own["kwargs"] = dict_or_given(kwargs)
        own["options"] = dict_or_given(options)
        own["labels"] = dict_or_given(labels)

    def __setattr__(self, name: str, value: Any) -> None:
        """Set a field, or an attribute that a subclass has or annotates; a method is none.

        Raises:
            InvalidEntry: an entry has no such attribute.
        """
        if name not in _KNOWN and not name.startswith("_") and not _has(type(self), name):
            raise unknown_field(name, FIELDS)
        object.__setattr__(self, name, value)

    @classmethod
    def from_key(cls, key: str, app: Celery | None = None) -> RedisScheduleEntry:
        """Read the entry with that key.

        Raises:
            EntryNotFound: there is none; a ``KeyError``.
            InvalidEntry: it is broken; the message names the field.
        """
        context = Context.of(app)
        return cls._of(load(context, check_name(context.redis.keys.name(key))), context)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], *, app: Celery | None = None) -> RedisScheduleEntry:
        """Return the entry of a definition as :meth:`as_dict` returns it; nothing is read or written.

        Raises:
            InvalidEntry: a field is missing, wrong or unknown.
        """
        if not isinstance(data, Mapping):
            raise WrongType("$", f"expected a dict, got {quoted(data)}")
        for field in data:
            if field not in DEFINED:
                raise unknown_field(field, DEFINED)
        name = data.get("name")
        if not isinstance(name, str) or not name:
            problem = f"expected a text, got {quoted(name)}" if "name" in data else "is missing; expected a text"
            raise InvalidEntry("$.name", problem)
        json_text.check_value(data, "$")
        definition = Definition.from_text(name, json_text.to_text(data), Context.of(app).codec)
        fields = {field: getattr(definition, field) for field in DEFINED}
        return cls(**{**fields, "schedule": definition.plain_schedule}, app=app)

    def as_dict(self) -> dict[str, Any]:
        """Return the definition as JSON values, as it would be stored; nothing is read or written.

        Raises:
            InvalidEntry: a field cannot be stored.
        """
        return self._definition().to_data(self._context.codec)

    @classmethod
    def _of(cls, stored: StoredEntry, context: Context) -> RedisScheduleEntry:
        """Return the object for an entry that was read from the schedule of a context."""
        return cls(stored.definition.name, app=context.app)._bind(context)._adopt(stored, context)

    def _bind(self, context: Context) -> RedisScheduleEntry:
        """Let the entry belong to the schedule of a context, and return it."""
        self.__dict__.update(app=context.app, _prefix=context.prefix)
        return self

    @staticmethod
    def generate_key(app: Celery | None, name: str) -> str:
        """Return the key of the entry with that name."""
        return Context.of(app).redis.keys.entry(name)

    @property
    def key(self) -> str:
        """The key of this entry."""
        return self._context.redis.keys.entry(check_name(self.name))

    @property
    def rank(self) -> int | None:
        """How many entries of the schedule come before this one, dormant ones included, or None; asks Redis."""
        return self._context.redis.rank(check_name(self.name))

    def save(self, *, note: str = "", by: str = "") -> RedisScheduleEntry:
        """Create the entry, or make the stored one like this one.

        The next fire time moves only when the schedule or its zone changed, and then never into the past. Run count
        and last run of an entry that exists stay as they are; use :meth:`reschedule` to count from another time.

        Arguments:
            note: why, for the entry's log; at most 500 characters. Every change takes it.
            by: who, for the log. Default: user and host of this process.

        Raises:
            InvalidEntry: a field cannot be stored; nothing was written.
            StoreUnavailable: Redis cannot be reached; it may have been written, saving again is harmless.
        """
        return self._write(self._upsert(Author.of(by, note)))

    def create(self, *, note: str = "", by: str = "") -> RedisScheduleEntry:
        """Create the entry; one of that name must not exist.

        Raises:
            EntryExists: it does; nothing was written.
            InvalidEntry, StoreUnavailable: as for :meth:`save`.
        """
        return self._write(self._upsert(Author.of(by, note), only_new=True))

    def delete(self, *, note: str = "", by: str = "") -> None:
        """Delete the entry; no error when there is none.

        A static one comes back when a beat begins to lead, with its counters and with the run that it owes by then:
        disable it instead.
        """
        delete_entry(self._context, check_stored_name(self.name), Author.of(by, note))
        self._due_at = None

    def reschedule(self, last_run_at: datetime | None = None, *, note: str = "", by: str = "") -> RedisScheduleEntry:
        """Count from a run at that time, now by default; if the entry is overdue then, it runs at once.

        Raises:
            EntryNotFound: it is not stored.
        """
        change = Reschedule(name=check_name(self.name), last_run_at=last_run_at, author=Author.of(by, note))
        return self._write(change)

    def record_execution(self, at: datetime | None = None, *, note: str = "", by: str = "") -> RedisScheduleEntry:
        """Record when its task was really executed, now by default; an interval counts from there.

        For an application that wants "every ten minutes after the last execution". A time after now counts as now; one
        before the last run changes nothing. A naive time is in the entry's zone. The log says nothing about it, unless
        ``note`` or ``by`` is passed: tasks call it after each run.

        Raises:
            EntryNotFound: it is not stored.
        """
        author = Author.of(by, note) if by or note else None
        return self._write(ReportExecution(name=check_name(self.name), executed_at=at, author=author))

    def upcoming(self, limit: int = 5) -> list[UpcomingRun]:
        """Return the next ``limit`` runs of the entry as it would be saved now, with the effect of clock changes.

        Beat's own next fire time comes first where there is one; a disabled or finished entry has none. Asks Redis,
        writes nothing. An entry that has only a name is read.

        Raises:
            InvalidEntry: it could not be saved.
            EntryNotFound: it has only a name, and is not stored.
            ValueError: ``limit`` is not from 1 to 1000.
        """
        stored = self._previewed()
        return upcoming_runs(stored, self._context.in_zone(stored.zone).defaults, limit)

    def enable(self, *, note: str = "", by: str = "") -> RedisScheduleEntry:
        """Let it run again from its next fire time on; fire times that passed while it was disabled are not run.

        Raises:
            EntryNotFound: it is not stored.
        """
        return self._write_fields({"enabled": True, "disabled_until": None}, Author.of(by, note))

    def disable(self, *, until: datetime | timedelta | None = None, note: str = "", by: str = "") -> RedisScheduleEntry:
        """Stop its runs until it is enabled again; an interval keeps its phase.

        ``until`` is the time from which on it runs again by itself, or how long that is from now; naive: in its zone.
        An entry that was disabled without a time runs then, too.

        Raises:
            EntryNotFound: it is not stored.
            InvalidEntry: that time has passed, or it has no fire time from then on.
        """
        if until is None:
            switch = Switch(name=check_stored_name(self.name), is_enabled=False, author=Author.of(by, note))
            return self._write(switch)
        return self._write(DisableUntil(name=check_name(self.name), until=until, author=Author.of(by, note)))

    def skip_next(self, n: int = 1, *, undo: bool = False, note: str = "", by: str = "") -> RedisScheduleEntry:
        """Leave out its next ``n`` runs; ``skip`` then has their fire times. A run that beat is sending is not stopped.

        If ``coalesce`` makes one run of several fire times that have passed, all of them are left out. ``undo``: leave
        out none of the fire times to come any more.

        Raises:
            EntryNotFound: it is not stored.
            InvalidEntry: it has no next fire time, or more than 100 would be left out.
            ValueError: ``n`` is not from 1 to 100.
        """
        check_number("n", n, MOST_SKIPPED)
        return self._write(SkipNext(name=check_name(self.name), count=n, undo=undo, author=Author.of(by, note)))

    def _definition(self) -> Definition:
        """Check the fields, and return them as they are stored.

        Raises:
            InvalidEntry: the message names the first field that cannot be stored.
        """
        self._check_known("schedule")
        definition = Definition.checked(**{name: getattr(self, name) for name in DEFINED})
        definition.check_texts()
        context = self._context
        definition.check_options(context.task_options)
        return definition.with_instants(context.zone)

    def _initial_meta(self) -> Meta:
        """Return the meta that the entry gets if it is new; InvalidEntry if it cannot be stored."""
        return checked_meta(self.last_run_at, self.total_run_count, self._zone)

    @property
    def due_at(self) -> datetime | None:
        """When it is next due, aware UTC, as of the last read or save: the next fire time plus its jitter.

        None: unsaved, disabled or finished.
        """
        self._check_known("due_at")
        return self._due_at

    @property
    def score(self) -> float | None:
        """:attr:`due_at` in UNIX seconds, or None."""
        self._check_known("score")
        return None if self._due_at is None else float(to_unix(self._due_at))

    @property
    def skipped(self) -> Mapping[str, Skipped]:
        """The fire times that were not run, as of the last read or save: reason -> their count, and the newest of them.

        Reasons are ``missed``, ``coalesced``, ``left_out``, ``max_runs``, ``out_of_bounds``,
        ``disabled_until``, ``skip``, ``overlap`` and ``declined``.
        """
        self._check_known("skipped")
        return self._skipped

    @property
    def state(self) -> str:
        """``enabled``, ``disabled``, ``finished``, or ``failing``: its run cannot be sent, and beat tries again.

        As of the last read or save; empty before. An entry that cannot be read at all, a broken one, has no object.
        """
        self._check_known("state")
        return self._state

    @property
    def failing(self) -> Failing | None:
        """The run that cannot be sent, as of the last read or save, or None if nothing failed.

        It has ``error``, ``tries``, ``since``, the ``fire_time`` that is owed, and ``retry_at``.
        """
        self._check_known("failing")
        return self._failing

    @property
    def last_error(self) -> str:
        """Why its run could not be sent, as of the last read or save; empty when the entry is not failing."""
        self._check_known("last_error")
        return self._failing.error if self._failing else ""

    @property
    def version(self) -> str:
        """The version of the entry as of the last read or save, 8 hex digits; a run does not change it.

        Pass it as ``if_version`` to :meth:`redisbeater.ScheduleStore.update`.
        """
        self._check_known("version")
        return self._version

    @property
    def late(self) -> timedelta:
        """How long it had been due at the last read or save; zero when it was not late."""
        self._check_known("late")
        return self._late

    @property
    def _has_only_a_name(self) -> bool:
        """Whether it stands for an entry that was not read."""
        return self.schedule is None and self.task is None

    def _check_known(self, name: str) -> None:
        if self._has_only_a_name:
            problem = f"this entry was not read; use ScheduleStore(app).get({quoted(self.name)})"
            raise InvalidEntry(f"$.{name}", problem)

    @property
    def _context(self) -> Context:
        return Context.of(self.app, self._prefix)

    def _upsert(self, author: Author | None = None, *, only_new: bool = False) -> Upsert:
        definition = self._definition()
        text = definition.to_text(self._context.codec)
        meta = self._initial_meta()
        return Upsert(definition=definition, text=text, initial_meta=meta, only_new=only_new, author=author)

    def _write_fields(self, fields: Mapping[str, Any], author: Author) -> RedisScheduleEntry:
        return self._write(FieldChange(name=check_name(self.name), fields=fields, author=author))

    def _write(self, change: EntryChange) -> RedisScheduleEntry:
        context = self._context
        return self._adopt(write(context, change), context)

    def _previewed(self) -> StoredEntry:
        if self._has_only_a_name:
            return load(self._context, check_name(self.name))
        return preview(self._context, self._upsert())

    def _adopt(self, stored: StoredEntry, context: Context) -> RedisScheduleEntry:
        definition, meta = stored.definition, stored.meta
        own = self.__dict__
        for name in DEFINED:
            own[name] = getattr(definition, name)
        own["schedule"] = schedule = definition.plain_schedule
        own["labels"], schedule.app = dict(definition.labels), self.app
        own["last_run_at"], own["total_run_count"] = meta.last_run_at, meta.total_run_count
        own["_due_at"] = due_at = stored.due_at(context.in_zone(stored.zone).defaults)
        own["_skipped"], own["_state"], own["_failing"] = stored.skipped, stored.state, stored.failing
        own["_version"], own["_late"] = stored.version, stored.late(due_at)
        return self

    def _zone(self) -> tzinfo:
        return self._definition().zone(self._context.zone) if self.schedule else self._context.zone

    # Celery's side of an entry

    def is_due(self) -> schedstate:
        """Return whether it is due by this host's clock, and the seconds until then; beat asks Redis instead."""
        self._check_known("is_due()")
        if self._due_at is None:
            return schedstate(False, None)
        remaining = (self._due_at - datetime.now(timezone.utc)).total_seconds()
        return schedstate(remaining <= 0, max(remaining, 0.0))

    def _next_instance(self, last_run_at: datetime | None = None) -> RedisScheduleEntry:
        fields = dict(self, last_run_at=last_run_at or self.default_now(), total_run_count=self.total_run_count + 1)
        following = type(self)(**fields)
        following._prefix = self._prefix
        return following

    __next__ = next = _next_instance

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        return ((name, getattr(self, name)) for name in FIELDS)

    def __reduce__(self) -> Any:
        fields = {name: value for name, value in vars(self).items() if name not in ("app", "schedule")}
        return partial(type(self), app=self.app), (self.name, None, self.schedule), fields

    def __eq__(self, other: object) -> bool:
        """Tell whether both have the same definition, name included; app, runs and state make no difference."""
        return self._compared() == other._compared() if isinstance(other, RedisScheduleEntry) else NotImplemented

    def __repr__(self) -> str:
        try:
            return f"{super().__repr__()}>"  # Celery's, which does not end
        except (AttributeError, TypeError):  # fields that cannot be stored
            return f"<{type(self).__name__}: {vars(self).get('name')!r}, whose fields cannot be shown>"

    def _compared(self) -> Any:
        try:
            return self._definition()
        except RedisBeaterError:  # what cannot be stored is compared as it was passed
            return {name: getattr(self, name) for name in DEFINED}


def _has(cls: type, name: str) -> bool:
    """Return whether a class has an attribute that is no method, or announces it by an annotation."""
    if hasattr(cls, name):
        return not callable(getattr(cls, name))
    return any(name in vars(each).get("__annotations__", ()) for each in cls.__mro__)


DecoratedTask = TypeVar("DecoratedTask")

#: What the tasks of this process declare: the task, the name of the entry, and its fields.
AT_TASKS: list[tuple[Any, str | None, dict[str, Any]]] = []


def scheduled(
    schedule: ScheduleLike | float | timedelta, /, *, name: str | None = None, **fields: Unpack[EntryFields]
) -> Callable[[DecoratedTask], DecoratedTask]:
    """Declare a static entry at its task: a decorator above ``@app.task`` or ``@shared_task``.

    Arguments:
        schedule: when it runs, as for :class:`~redisbeater.RedisScheduleEntry`.
        name: the name of the entry; default: that of the task. A second entry of a task needs one.
        fields: other fields of :class:`~redisbeater.RedisScheduleEntry`.

    Raises:
        InvalidEntry: a field cannot be stored; the message names it, and the task.
        ImproperlyConfigured: it stands below ``@app.task``, or above something else.

    Example::

        @redisbeater.scheduled(crontab(hour=3, minute=0), options={"queue": "slow"})
        @app.task
        def clean_up(): ...
    """
    if callable(schedule):
        problem = "expected a schedule: write @redisbeater.scheduled(3600) above @app.task"
        raise ImproperlyConfigured(f"redisbeater.scheduled: {problem}")

    def declare(task: DecoratedTask) -> DecoratedTask:
        # Nothing of the task is read yet: Celery creates it when its app is complete.
        if not issubclass(type(task), (Proxy, Task)):
            found = f"{getattr(task, '__module__', '')}.{getattr(task, '__qualname__', quoted(task))}"
            problem = f"{found} is no task yet; write @redisbeater.scheduled(...) above @app.task or @shared_task"
            raise ImproperlyConfigured(f"redisbeater.scheduled: {problem}")
        declared: dict[str, Any] = {"schedule": schedule, **fields}
        try:
            entry = RedisScheduleEntry(name or "task", "task", app=_no_app(), **declared)
            definition = Definition.checked(**{field: getattr(entry, field) for field in DEFINED})
            kind, is_own = kind_of(definition.schedule), hasattr(definition.schedule, "to_redisbeater")
            if not kind.is_custom and not is_own:  # the settings of the app name the classes of the others
                definition.to_text(ScheduleCodec())
        except InvalidEntry as exc:
            of_task = text_of(task, lambda each: each.name)
            raise type(exc)(exc.path, f"{exc.problem} (redisbeater.scheduled at task {of_task})") from None
        AT_TASKS.append((task, name, declared))
        return task

    return declare


@lru_cache(1)
def _no_app() -> Celery:
    """Return an app for entries that are only checked: that of their task may have no settings yet."""
    return Celery("redisbeater.scheduled", set_as_current=False)


def declared_entries(app: Celery) -> dict[str, Any]:
    """Return by name the fields of the entries that the code of an app declares, in ``beat_schedule`` or at tasks.

    An error stands for those of a name that is declared twice.
    """
    declared: dict[str, Any] = dict(app.conf.beat_schedule or {})
    places = dict.fromkeys(declared, "in beat_schedule")
    if AT_TASKS:
        app.finalize()
    for task, name, fields in AT_TASKS:
        if not _is_of(app, task):
            continue
        name = name or task.name
        place = f"by redisbeater.scheduled at task {task.name}"
        if name in declared:
            problem = f"{quoted(name)} is declared {places[name]} and {place}; give one of them another name"
            declared[name] = InvalidEntry("$.name", problem)
        else:
            declared[name], places[name] = {"task": task.name, **fields}, place
    return declared


def _is_of(app: Celery, task: Any) -> bool:
    """Return whether an app has a task; that of another one is not created for that, as its settings may be missing."""
    if type(task) is Proxy:  # of shared_task: every app has it
        return True
    return (type(task) is not PromiseProxy or task.__evaluated__()) and task.app is app
