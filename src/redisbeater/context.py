"""``Context``: the settings of an app, the defaults of its entries, its codec, and its schedule in Redis."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import tzinfo
from weakref import WeakKeyDictionary

from celery import Celery
from celery.app import app_or_default
from celery.local import Proxy

from redisbeater.config.settings import Config, cron_starting_deadline
from redisbeater.model.reader import Reader
from redisbeater.model.resolved_policy import Defaults
from redisbeater.schedules import ScheduleCodec
from redisbeater.store import RedisSchedule

__all__ = ("Context",)

#: One context, and so one connection pool, for each app of the process; nothing is stored on the app itself.
_CONTEXTS: WeakKeyDictionary[Celery, Context] = WeakKeyDictionary()


@dataclass(frozen=True, kw_only=True)
class Context:
    """The parts that entries, scheduler and command line share. Building it does no I/O."""

    config: Config
    #: Whose the static entries of this app are.
    application: str
    defaults: Defaults
    codec: ScheduleCodec
    reader: Reader
    redis: RedisSchedule

    @property
    def zone(self) -> tzinfo:
        """The app's zone."""
        return self.defaults.zone

    @classmethod
    def of(cls, app: Celery | None = None) -> Context:
        """Return the context of an app, of the current one by default.

        It is created at the first call; settings that are changed after that have no effect.

        Raises:
            ImproperlyConfigured: a ``redisbeater_*`` setting cannot be used.
        """
        app = app_or_default(app)
        if isinstance(app, Proxy):  # ``celery.current_app``
            app = app._get_current_object()
        context = _CONTEXTS.get(app)
        if context is None:
            context = _CONTEXTS[app] = cls._of(app, Config.from_app(app))
        return context

    @classmethod
    def _of(cls, app: Celery, config: Config) -> Context:
        defaults, codec = _defaults(app, config), ScheduleCodec(config.schedule_classes)
        reader = Reader(codec, defaults)
        return cls(
            config=config,
            application=config.application or app.main or "__main__",
            defaults=defaults,
            codec=codec,
            reader=reader,
            redis=RedisSchedule(config),
        )


def _defaults(app: Celery, config: Config) -> Defaults:
    return Defaults(
        zone=app.timezone,
        misfire_grace_time=config.misfire_grace_time,
        crontab_grace_time=cron_starting_deadline(app),
        coalesce=config.coalesce,
        jitter=config.jitter,
    )
