"""``EntryTemplate``: the fields that many entries share, checked, encoded and planned once."""

from __future__ import annotations

import marshal
from copy import deepcopy
from datetime import datetime
from typing import Any, NamedTuple

from celery.schedules import crontab, schedule

from redisbeater.context import Context
from redisbeater.display import quoted
from redisbeater.editing.rescheduling import score_of_new
from redisbeater.entry import RedisScheduleEntry
from redisbeater.entry_name import check_new_name
from redisbeater.exceptions import WrongType
from redisbeater.model import json_text
from redisbeater.model.definition import Definition
from redisbeater.model.fields import given_policies
from redisbeater.model.meta import FINISHED, NEW, Score
from redisbeater.model.passed_values import checked_args, checked_kwargs
from redisbeater.model.resolved_policy import Defaults
from redisbeater.schedules.crontab_text import field_texts

__all__ = ("EntryTemplate", "EntryTemplates", "RenderedEntry", "checked_entry")

#: How many templates are kept at most: a bulk whose entries share nothing must not hold them all in memory.
MOST_TEMPLATES = 10_000


class RenderedEntry(NamedTuple):
    """One entry of a template, with its stored text."""

    template: EntryTemplate
    name: str
    args: list[Any]
    kwargs: dict[str, Any]
    text: str

    def definition(self) -> Definition:
        """Return the definition of this entry."""
        return self.template.definition._replace(name=self.name, args=self.args, kwargs=self.kwargs)


class EntryTemplate:
    """Renders entries that differ from a definition only in name, args and kwargs."""

    def __init__(self, definition: Definition, context: Context) -> None:
        self.definition = definition
        self._data = definition.to_data(context.codec)
        if definition.options:  # a copy that was checked: the caller may change the options later
            self.definition = definition._replace(options=deepcopy(definition.options))
            self._data = self.definition.to_data(context.codec)
        self._first = FINISHED
        self._planned_at: datetime | None = None

    def render(self, entry: RedisScheduleEntry) -> RenderedEntry:
        """Render an entry whose template key is that of this template.

        Raises:
            InvalidEntry: its name or its arguments cannot be stored.
        """
        name, args, kwargs = check_new_name(entry.name), checked_args(entry.args), checked_kwargs(entry.kwargs)
        return RenderedEntry(
            self, name, args, kwargs, json_text.to_text({**self._data, "name": name, "args": args, "kwargs": kwargs})
        )

    def first_score(self, now: datetime, defaults: Defaults) -> Score:
        """Return the score of a new entry of this template.

        Raises:
            InvalidEntry: the entry never fires.
        """
        # The next fire time of a crontab is the same for every entry until it has passed.
        is_still_next = type(self.definition.schedule) is crontab and (self._first.fire_time or now) > now
        if self._planned_at != now and not is_still_next:
            self._first = score_of_new(self.definition, NEW, now, defaults)
            self._planned_at = now
        return self._first


class EntryTemplates:
    """The templates of the entries that were rendered so far, by their keys."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._templates: dict[bytes, EntryTemplate] = {}

    def render(self, entry: RedisScheduleEntry) -> RenderedEntry:
        """Render an entry with the template that has its key, or with a new one.

        Raises:
            InvalidEntry: a field cannot be stored.
        """
        key = _template_key(entry)
        template = None if key is None else self._templates.get(key)
        if template is None:
            template = EntryTemplate(entry.definition(), self._context)
            if key is not None:
                self._keep(key, template)
        return template.render(entry)

    def _keep(self, key: bytes, template: EntryTemplate) -> None:
        if len(self._templates) >= MOST_TEMPLATES:
            self._templates.clear()
        self._templates[key] = template


def checked_entry(given: object) -> RedisScheduleEntry:
    """Return what was passed as an entry.

    Raises:
        InvalidEntry: it is none, such as a name.
    """
    if isinstance(given, RedisScheduleEntry):
        return given
    raise WrongType("entry", f"expected a RedisScheduleEntry, got {quoted(given)}")


def _template_key(entry: RedisScheduleEntry) -> bytes | None:
    """Return a key that two entries share when they differ only in name and arguments; 1 and true are different.

    None: the entry holds other than plain values, and gets a template of its own.
    """
    timing = _timing(entry.schedule)
    if timing is None:
        return None
    shared: Any = (entry.task, timing, entry.options, entry.enabled, entry.timezone, given_policies(vars(entry)))
    try:
        return marshal.dumps(shared, 0)
    except ValueError:
        return None


def _timing(value: Any) -> tuple[Any, ...] | None:
    """Return the fields of a plain interval or crontab; None for any other schedule."""
    if getattr(value, "nowfun", None) is not None:
        return None
    if type(value) is schedule:
        every = value.run_every
        return every.days, every.seconds, every.microseconds, value.relative
    if type(value) is crontab:
        return *field_texts(value).values(), getattr(value, "timezone", None)
    return None
