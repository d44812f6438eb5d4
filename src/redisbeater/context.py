"""``Context``: the settings of an app, the defaults of its entries, its codec, and its schedule in Redis.

One app may have several schedules, each with a key prefix and so a context of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from copy import copy
from dataclasses import dataclass, field, replace
from datetime import tzinfo
from functools import cached_property
from typing import Any

from celery import Celery
from celery.app import app_or_default
from celery.local import Proxy
from celery.utils.time import timezone as zones_of_celery

from redisbeater.broker.task_options import TaskOptions
from redisbeater.config.settings import Config
from redisbeater.config.values import present_settings
from redisbeater.exceptions import ImproperlyConfigured, InvalidEntry
from redisbeater.model.fields import INHERITED
from redisbeater.model.reader import EntryReader
from redisbeater.model.resolved_policy import Defaults
from redisbeater.schedules.calendar import Calendars
from redisbeater.schedules.kinds import ScheduleCodec
from redisbeater.schedules.zones import read_zone, zone_name
from redisbeater.store.schedule import RedisSchedule
from redisbeater.times import is_seconds

#: The attribute of an app that has its context: one context, and so one connection pool, for each app of the process. A
#: table in this module would keep the app for ever, because the context refers to the app.
_ATTRIBUTE = "_redisbeater_context"


#: How many contexts of other zones and calendars one keeps: each change of a calendar makes one more.
MOST_OTHERS = 20


@dataclass(frozen=True, kw_only=True)
class Context:
    """The parts that entries, scheduler and command line share. Building it does no I/O."""

    app: Celery
    config: Config
    #: The name of the application that owns the static entries of this app.
    application: str
    defaults: Defaults
    codec: ScheduleCodec
    reader: EntryReader
    redis: RedisSchedule
    #: What was set when it was made, of all that decides about the schedule.
    given: list[tuple[str, Any]] = field(compare=False, repr=False)
    #: The key prefix of this schedule if it is another one than that of the settings.
    prefix: str | None = None
    #: The contexts that :meth:`in_zone` has returned, by the names of their zones and the newest change of a calendar.
    _others: dict[tuple[str, str], Context] = field(default_factory=dict, compare=False, repr=False)
    #: The contexts that :meth:`with_prefix` has returned, by their prefixes.
    _schedules: dict[str, Context] = field(default_factory=dict, compare=False, repr=False)

    @cached_property
    def task_options(self) -> TaskOptions:
        """What the application and its settings know about the options of tasks."""
        return TaskOptions(app=self.app, names=self.config.task_options)

    def with_prefix(self, prefix: str) -> Context:
        """Return the context of the schedule of the same app whose keys begin with ``prefix``; itself for its own one.

        It is the same object each time, so each schedule has one connection pool.

        Raises:
            ImproperlyConfigured: the schedule cannot have that prefix.
        """
        if prefix == self.config.key_prefix:
            return self
        if prefix not in self._schedules:  # setdefault: one of several threads wins
            self._schedules.setdefault(prefix, self._of(self.app, self.config.with_prefix(prefix), prefix))
        return self._schedules[prefix]

    def in_zone(self, name: str) -> Context:
        """Return this context with the zone that is stored for all programs, and the calendars as they are known.

        It is itself where that zone is empty or none, or its own, and the calendars are those that it has.
        """
        version, calendars = self.redis.calendars.known
        found = self._others.get((name, version))
        if found is None:
            if len(self._others) > MOST_OTHERS:
                self._others.clear()
            found = self._others[name, version] = self._with(name, calendars)
        return found

    def _with(self, name: str, calendars: Calendars) -> Context:
        defaults = self.defaults
        if name not in ("", zone_name(self.zone)):
            with suppress(InvalidEntry):
                defaults = replace(defaults, zone=read_zone(name, "zone"))
        if calendars is not defaults.calendars:
            defaults = replace(defaults, calendars=calendars)
        if defaults is self.defaults:
            return self
        return replace(
            self, defaults=defaults, reader=EntryReader(self.codec, defaults, self.reader.ignored), _others={}
        )

    @property
    def zone(self) -> tzinfo:
        """The zone of entries without their own: the app's, unless this is the context :meth:`in_zone` of another."""
        return self.defaults.zone

    @classmethod
    def of(cls, app: Celery | None = None, prefix: str | None = None) -> Context:
        """Return the context of an app, of the current one by default, or of its schedule with another key prefix.

        It is the same object until a setting is changed, so that an app has one connection pool. Whoever keeps it goes
        on with what was set before.

        Raises:
            ImproperlyConfigured: a ``redisbeater_*`` setting cannot be used, or the prefix.
            TypeError: it is no app.
        """
        app = app_or_default(app)
        check_app(app)
        if isinstance(app, Proxy):  # ``celery.current_app``
            app = app._get_current_object()
        context: Context | None = vars(app).get(_ATTRIBUTE)
        if context is None or context.given != present_settings(app):
            context = vars(app)[_ATTRIBUTE] = cls._of(app, Config.from_app(app))
        return context if prefix is None else context.with_prefix(prefix)

    @classmethod
    @contextmanager
    def using(cls, app: Celery, prefix: str) -> Iterator[None]:
        """Let the schedule with a key prefix be that of the app until the block ends: a command line has one schedule.

        Raises:
            ImproperlyConfigured: the schedule cannot have that prefix.
        """
        own = cls.of(app)
        vars(own.app)[_ATTRIBUTE] = own.with_prefix(prefix)
        try:
            yield
        finally:
            vars(own.app)[_ATTRIBUTE] = own

    @classmethod
    def _of(cls, app: Celery, config: Config, prefix: str | None = None) -> Context:
        defaults, codec = _defaults(app, config), ScheduleCodec(config.schedule_classes)
        reader = EntryReader(codec, defaults)
        return cls(
            app=app,
            config=config,
            prefix=prefix,
            application=config.application or app.main or "__main__",
            defaults=defaults,
            codec=codec,
            reader=reader,
            redis=RedisSchedule(config),
            given=[(name, _kept(value)) for name, value in present_settings(app)],
        )


def _kept(value: Any) -> Any:
    """Return the value of a setting as it stays if somebody changes it in place."""
    return copy(value) if isinstance(value, (dict, list, set)) else value


def check_app(app: object) -> None:
    """Refuse what is no Celery app.

    Raises:
        TypeError: it is none, such as a name. Its text may hold passwords.
    """
    if not isinstance(app, Celery):
        raise TypeError(f"app: expected a Celery app, got {type(app).__name__}; import it: from proj import app")


def _zone(app: Celery) -> tzinfo:
    """Return the zone of an app.

    Raises:
        ImproperlyConfigured: it has no IANA name, so that other programs cannot use the same.
    """
    try:
        return read_zone(_present_zone(app), "timezone")
    except InvalidEntry as exc:
        raise ImproperlyConfigured(str(exc)) from exc
    except (KeyError, ValueError, TypeError, OSError) as exc:  # as zoneinfo raises them
        problem = f"timezone = {app.conf.timezone!r}: expected an IANA name such as 'Europe/Vienna'"
        raise ImproperlyConfigured(problem) from exc


def _present_zone(app: Celery) -> tzinfo:
    """Return the zone by the settings as they are now; Celery computes ``app.timezone`` only once."""
    if app.conf.timezone:
        return zones_of_celery.get_timezone(app.conf.timezone)
    return zones_of_celery.utc if app.conf.enable_utc else zones_of_celery.local


def _defaults(app: Celery, config: Config) -> Defaults:
    return Defaults(
        zone=_zone(app),
        crontab_grace_time=_cron_starting_deadline(app),
        track_runs=config.track_runs,
        **{name: getattr(config, name) for name in INHERITED},
    )


def _cron_starting_deadline(app: Celery) -> float | None:
    """Return Celery's own setting ``beat_cron_starting_deadline`` in seconds; None if it is not set.

    Raises:
        ImproperlyConfigured: it is not a number of seconds, or it is below 1: a short pause of beat would drop runs.
    """
    deadline = app.conf.beat_cron_starting_deadline
    if deadline is None or is_seconds(deadline, 1):
        return deadline
    raise ImproperlyConfigured(f"beat_cron_starting_deadline = {deadline!r}: expected seconds, at least 1, or None")
