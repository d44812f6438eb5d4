"""The tables of django-celery-beat: their rows as entries, and its own engine. Imported only when Django is set up."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from copy import copy
from datetime import datetime, timedelta, timezone
from typing import Any

from celery import Celery
from celery.schedules import crontab, schedule, solar
from django.conf import settings
from django.db import Error, transaction
from django.db.models import Value
from django.db.models.functions import Concat, Replace
from django.utils.timezone import is_naive, make_aware
from django_celery_beat.models import PeriodicTask, PeriodicTasks
from django_celery_beat.schedulers import ModelEntry

from redisbeater.display import quoted, text_of
from redisbeater.entry import RedisScheduleEntry, declared_entries
from redisbeater.exceptions import InvalidEntry
from redisbeater.management.migration.candidate import (
    Candidate,
    OldEngine,
    SimulatedClock,
    SourceError,
    engine_app,
    fire_times,
    on_clock,
)
from redisbeater.schedules import clocked
from redisbeater.schedules.zones import zone_name
from redisbeater.store import pages

#: Databases bound the parameters of a query.
NAMES_OF_A_QUERY = 500

#: What the description of a row begins with that an import has disabled: people and beats read it there.
MOVED = "[moved to redisbeater]"

#: The entry that django-celery-beat itself stores for Celery.
CLEANUP = "celery.backend_cleanup"

#: Options of the message that are columns.
_OPTIONS = ("queue", "exchange", "routing_key", "priority")

_JSON_KINDS: dict[type, str] = {list: "a list", dict: "an object"}

_KINDS = ("interval", "crontab", "solar", "clocked")


def read(app: Celery) -> Iterator[Candidate]:
    """Yield all periodic tasks, in the order of their names.

    Raises:
        SourceError: the database failed.
    """
    engines = engine_app(app)
    try:
        rows = list(PeriodicTask.objects.select_related(*_KINDS).order_by("name"))
    except Error as exc:
        raise SourceError(_failure(exc)) from exc
    for row in rows:
        yield _candidate(app, engines, row)


def moved() -> list[str]:
    """Return the names of the periodic tasks that an import has disabled, and nobody has enabled since.

    Raises:
        SourceError: the database failed.
    """
    rows = PeriodicTask.objects.filter(enabled=False, description__contains=MOVED)
    try:
        return list(rows.order_by("name").values_list("name", flat=True))
    except Error as exc:
        raise SourceError(_failure(exc)) from exc


def switch(names: Sequence[str], *, enabled: bool) -> list[str]:
    """Enable or disable periodic tasks, all or none, and let running beats read the table again.

    The description of those that are disabled says so.

    Returns:
        The names of those that were not so before.

    Raises:
        SourceError: the database failed.
    """
    rows = PeriodicTask.objects.select_for_update().filter(enabled=not enabled)
    unmarked = Replace(Replace("description", Value(f"{MOVED} ")), Value(MOVED))
    description = unmarked if enabled else Concat(Value(f"{MOVED} "), unmarked)
    switched: list[str] = []
    try:
        with transaction.atomic(using=rows.db):
            for page in pages(names, NAMES_OF_A_QUERY):
                found = list(rows.filter(name__in=page).values_list("name", flat=True))
                PeriodicTask.objects.filter(name__in=found).update(enabled=enabled, description=description)
                switched += found
        PeriodicTasks.update_changed()
    except Error as exc:
        raise SourceError(_failure(exc)) from exc
    return switched


def _failure(error: Exception) -> str:
    return f"the database of django-celery-beat: {' '.join(str(error).split())}"


def _candidate(app: Celery, engines: Celery, row: Any) -> Candidate:
    if left_out := _left_out(app, row):
        return Candidate(name=row.name, left_out=left_out)
    try:
        entry = RedisScheduleEntry(row.name, row.task, app=app, **_fields(row))
        definition, meta = entry._definition(), entry._initial_meta()
    except InvalidEntry as exc:
        return Candidate(name=row.name, refused=str(exc), is_enabled=row.enabled)
    return Candidate(
        name=row.name,
        definition=definition,
        is_enabled=row.enabled,
        meta=meta,
        engine=_engine(engines, row),
        engine_key=_engine_key(row),
    )


def _left_out(app: Celery, row: Any) -> str:
    """Return why a row need not be imported; empty if it must be."""
    if row.name == CLEANUP or row.name in declared_entries(app):
        return "static: the code declares it, and beat stores it here itself"
    now = datetime.now(timezone.utc)
    if not row.enabled and row.clocked and _aware(row.clocked.clocked_time) <= now:
        return f"its only time, {_aware(row.clocked.clocked_time).isoformat()}, has passed"
    if row.expires and _aware(row.expires) <= now:
        return f"it expired at {_aware(row.expires).isoformat()}"
    return ""


def _fields(row: Any) -> dict[str, Any]:
    """Return the fields of our entry.

    Raises:
        InvalidEntry: a column cannot be read.
    """
    is_once = row.one_off or row.clocked is not None
    # The other engine runs nothing at the very instant of ``expires``; ours would at its ``end_at``.
    end_at = None if row.expires is None else _aware(row.expires) - timedelta(microseconds=1)
    return {
        "schedule": _schedule(row),
        "timezone": _zone(row),
        "args": _json(row, "args", list),
        "kwargs": _json(row, "kwargs", dict),
        "options": _options(row),
        "enabled": row.enabled,
        "start_at": row.start_time and _aware(row.start_time),
        "end_at": end_at,
        "max_runs": 1 if is_once else None,
        "on_finish": "disable" if is_once or row.expires else "keep",
        "description": (row.description or "").replace(f"{MOVED} ", "").replace(MOVED, ""),
        "last_run_at": _last_run_at(row),
        "total_run_count": row.total_run_count,
    }


def _schedule(row: Any) -> Any:
    given = [kind for kind in _KINDS if getattr(row, kind) is not None]
    if len(given) != 1:
        raise InvalidEntry("$.schedule", f"expected one of {', '.join(_KINDS)}, got {', '.join(given) or 'none'}")
    try:
        return _one_schedule(row)
    except InvalidEntry:
        raise
    except Exception as exc:  # Celery's classes raise five types of errors
        raise InvalidEntry("$.schedule", f"{given[0]}: {' '.join(text_of(exc).split())}") from exc


def _one_schedule(row: Any) -> Any:
    if row.interval:
        return schedule(timedelta(**{row.interval.period: row.interval.every}))
    if row.crontab:
        fields = ("minute", "hour", "day_of_week", "day_of_month", "month_of_year")
        return crontab(**{name: getattr(row.crontab, name).replace(" ", "") for name in fields})
    if row.solar:
        return solar(row.solar.event, float(row.solar.latitude), float(row.solar.longitude))
    return clocked(_aware(row.clocked.clocked_time))


def _zone(row: Any) -> str | None:
    return zone_name(row.crontab.timezone) if row.crontab and _uses_zones() else None


def _uses_zones() -> bool:
    return bool(getattr(settings, "DJANGO_CELERY_BEAT_TZ_AWARE", True))


def _last_run_at(row: Any) -> datetime | None:
    moment: datetime | None = row.last_run_at
    if moment is not None and is_naive(moment) and not _uses_zones():
        return moment.replace(tzinfo=timezone.utc)  # its engine stores utcnow(); people enter the other times
    return moment and _aware(moment)


def _options(row: Any) -> dict[str, Any]:
    """Return the options; beat itself adds the name of the entry to the headers, as the other scheduler does."""
    options = {name: getattr(row, name) for name in _OPTIONS if getattr(row, name) not in (None, "")}
    if expires := (row.expires and _aware(row.expires)) or row.expire_seconds:
        options["expires"] = expires
    headers = _json(row, "headers", dict)
    headers.pop("periodic_task_name", None)
    return {**options, **({"headers": headers} if headers else {})}


def _json(row: Any, column: str, kind: type) -> Any:
    try:
        value = json.loads(getattr(row, column) or json.dumps(kind()))
    except ValueError as exc:
        raise InvalidEntry(f"$.{column}", f"is not JSON: {exc}") from exc
    if not isinstance(value, kind):
        raise InvalidEntry(f"$.{column}", f"expected {_JSON_KINDS[kind]}, got {quoted(value)}")
    return value


def _aware(moment: datetime) -> datetime:
    return (make_aware(moment) if is_naive(moment) else moment).astimezone(timezone.utc)


def _engine(app: Celery, row: Any) -> OldEngine:
    def run(after: datetime) -> Iterator[datetime]:
        clock = SimulatedClock(after, app.timezone)
        model = copy(row)
        model.enabled = True
        model.save = lambda: None
        if not row.start_time or _aware(row.start_time) <= after:
            model.last_run_at = clock()
        if row.clocked:
            model.last_run_at, model.total_run_count = None, 0
        return fire_times(_SimulatedEntry(model, app, clock), clock)

    return run


def _engine_key(row: Any) -> str:
    """Return all that the engine looks at: the columns of the schedule, and those of the task that bound its runs."""
    whens = [when for kind in _KINDS if (when := getattr(row, kind))]
    columns = [
        (type(when).__name__, column.attname, str(getattr(when, column.attname)))
        for when in whens
        for column in when._meta.fields
        if not column.primary_key
    ]
    return repr((columns, row.start_time, row.expires, row.one_off, row.total_run_count if row.one_off else 0))


class _SimulatedEntry(ModelEntry):
    """An entry of django-celery-beat that reads a simulated clock and writes nothing."""

    def __init__(self, model: Any, app: Celery, clock: SimulatedClock) -> None:
        self._clock = clock
        super().__init__(model, app)
        self.schedule: Any = on_clock(model.schedule, app, clock)

    def _default_now(self) -> datetime:
        now = self._clock()
        return now if _uses_zones() else now.astimezone(timezone.utc).replace(tzinfo=None)

    def _disable(self, model: Any) -> None:
        model.enabled = False

    @property
    def is_over(self) -> bool:
        """Whether its own engine has disabled it."""
        return not self.model.enabled

    def ran(self, now: datetime) -> None:
        """Record a run, as ``next()`` does; that would make a new entry with the app of the process."""
        self.model.last_run_at = self.last_run_at = now
        self.model.total_run_count += 1
