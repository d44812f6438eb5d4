"""The ``beat_schedule`` of an app itself, for entries that are to be changed at run time from now on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from celery import Celery
from celery.beat import ScheduleEntry
from celery.schedules import crontab, schedule

from redisbeater.context import Context
from redisbeater.entry import RedisScheduleEntry
from redisbeater.exceptions import ImproperlyConfigured, InvalidEntry
from redisbeater.management.migration.candidate import Candidate, OldEngine
from redisbeater.management.migration.old_engine import engine_app, engine_of
from redisbeater.model import json_text

__all__ = ("BeatScheduleSource",)

#: What Celery's own entries know.
_CELERYS = ("task", "schedule", "args", "kwargs", "options", "relative")


class BeatScheduleSource:
    """The static entries that an app declares."""

    name = "beat-schedule"
    place = ()

    def __init__(self, app: Celery) -> None:
        self._app = app
        self._engine_app = engine_app(app)

    def read(self) -> Iterator[Candidate]:
        """Yield its entries; see :class:`Source`."""
        declared = self._app.conf.beat_schedule or {}
        for name in sorted(declared, key=str):
            yield self._candidate(str(name), declared[name])

    def check_switching(self) -> None:
        """Refuse it; see :class:`Source`."""
        problem = "beat_schedule stands in the code, and only you can change its entries there"
        raise ImproperlyConfigured(f"--disable-source, --enable-source: {problem}; import without them")

    def switch(self, names: Sequence[str], *, enabled: bool) -> list[str]:
        """Refuse it; see :class:`Source`."""
        self.check_switching()
        return []

    def _candidate(self, name: str, fields: Any) -> Candidate:
        try:
            entry = fields if isinstance(fields, RedisScheduleEntry) else self._entry(name, fields)
            definition, meta = entry.definition(), entry.initial_meta()
        except (InvalidEntry, TypeError) as exc:
            return Candidate(name=name, refused=str(exc).replace("RedisScheduleEntry.__init__()", "$:"))
        engine, key = self._engine(name, fields), ""
        if engine is not None and type(entry.schedule) in (schedule, crontab):  # its engine goes by nothing else
            stored = Context.of(self._app).codec.encode(entry.schedule)
            key = json_text.canonical([stored, bool(fields.get("relative"))])
        return Candidate(name=name, definition=definition, meta=meta, engine=engine, engine_key=key)

    def _entry(self, name: str, fields: Mapping[str, Any]) -> RedisScheduleEntry:
        return RedisScheduleEntry(name, app=self._app, **fields)

    def _engine(self, name: str, fields: Any) -> OldEngine | None:
        if not isinstance(fields, Mapping) or not set(fields) <= set(_CELERYS):
            return None

        def make(app: Celery, last_run_at: Any) -> ScheduleEntry:
            return ScheduleEntry(name, app=app, last_run_at=last_run_at, **fields)

        return engine_of(make, self._engine_app)
