"""A mold: what many entries have in common, checked, encoded and planned once; they differ in name and arguments."""

from __future__ import annotations

import marshal
from copy import deepcopy
from datetime import datetime
from typing import Any, NamedTuple

from celery.schedules import crontab, schedule

from redisbeater.context import Context
from redisbeater.editing.rescheduling import score_of_new
from redisbeater.entry import RedisScheduleEntry
from redisbeater.model import json_text
from redisbeater.model.definition import Definition, check_name, checked_args, checked_kwargs
from redisbeater.model.meta import NEW
from redisbeater.model.policy_fields import given_policies
from redisbeater.model.score import FINISHED, Score
from redisbeater.schedules.crontab.field import field_texts

__all__ = ("RenderedEntry", "EntryTemplate", "EntryTemplates")

#: How many molds are kept.
MOST_MOLDS = 10_000


class RenderedEntry(NamedTuple):
    """One entry as it came out of a mold, with its text as it is stored."""

    mold: EntryTemplate
    name: str
    args: list[Any]
    kwargs: dict[str, Any]
    text: str

    def definition(self) -> Definition:
        """What is stored of this entry."""
        return self.mold.definition._replace(name=self.name, args=self.args, kwargs=self.kwargs)


class EntryTemplate:
    """Casts entries that are like a definition, but for name, args and kwargs."""

    def __init__(self, definition: Definition, context: Context) -> None:
        # Options that the caller goes on changing are not ours to keep.
        self.definition = (
            definition._replace(options=deepcopy(definition.options)) if definition.options else definition
        )
        self._context = context
        self._data = self.definition.to_data(context.codec)
        self._first = FINISHED
        self._planned_at: datetime | None = None

    def cast(self, entry: RedisScheduleEntry) -> RenderedEntry:
        """RenderedEntry one that was found to be alike.

        Raises:
            InvalidEntry: its name or its arguments cannot be stored.
        """
        name, args, kwargs = check_name(entry.name), checked_args(entry.args), checked_kwargs(entry.kwargs)
        return RenderedEntry(
            self, name, args, kwargs, json_text.to_text({**self._data, "name": name, "args": args, "kwargs": kwargs})
        )

    def first_score(self, now: datetime) -> Score:
        """The score of one that begins now.

        Raises:
            InvalidEntry: it never fires.
        """
        # The next fire time of a crontab is the same until it comes.
        is_steady = type(self.definition.schedule) is crontab and (self._first.fire_time or now) > now
        if self._planned_at != now and not is_steady:
            self._first = score_of_new(self.definition, NEW, now, self._context.defaults)
            self._planned_at = now
        return self._first


class EntryTemplates:
    """The molds of the entries that came by so far."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._molds: dict[bytes, EntryTemplate] = {}

    def cast(self, entry: RedisScheduleEntry) -> RenderedEntry:
        """RenderedEntry an entry, in a mold that there is, or in a new one.

        Raises:
            InvalidEntry: a field cannot be stored.
        """
        likeness = _template_key(entry)
        mold = None if likeness is None else self._molds.get(likeness)
        if mold is None:
            mold = EntryTemplate(entry.definition(), self._context)
            if likeness is not None:
                self._keep(likeness, mold)
        return mold.cast(entry)

    def _keep(self, likeness: bytes, mold: EntryTemplate) -> None:
        if len(self._molds) >= MOST_MOLDS:
            self._molds.clear()
        self._molds[likeness] = mold


def _template_key(entry: RedisScheduleEntry) -> bytes | None:
    """What two entries have in common that only differ in name and arguments, exactly, types included.

    None: it holds more than plain values, and nothing is taken to be like it.
    """
    timing = _timing(entry.schedule)
    if timing is None:
        return None
    alike: Any = (entry.task, timing, entry.options, entry.enabled, entry.timezone, given_policies(vars(entry)))
    try:
        return marshal.dumps(alike, 0)
    except ValueError:
        return None


def _timing(given: Any) -> tuple[Any, ...] | None:
    """What a plain interval or crontab says."""
    if getattr(given, "nowfun", None) is not None:
        return None
    if type(given) is schedule:
        every = given.run_every
        return every.days, every.seconds, every.microseconds, given.relative
    if type(given) is crontab:
        return *field_texts(given).values(), getattr(given, "timezone", None)
    return None
