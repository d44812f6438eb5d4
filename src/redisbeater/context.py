"""What the schedule of an app is made of: its settings, its zone, its codec and the schedule in Redis."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import tzinfo
from weakref import WeakKeyDictionary

from celery import Celery
from celery.app import app_or_default
from celery.local import Proxy

from redisbeater.config import Config
from redisbeater.schedules import ScheduleCodec
from redisbeater.store import RedisSchedule

__all__ = ("Context",)

#: One context, and so one connection pool, for each app of the process; nothing is stored on the app itself.
_CONTEXTS: WeakKeyDictionary[Celery, Context] = WeakKeyDictionary()


@dataclass(frozen=True, kw_only=True)
class Context:
    """The parts that entries, scheduler and command line share. Building it does no I/O."""

    config: Config
    zone: tzinfo
    codec: ScheduleCodec
    redis: RedisSchedule

    @classmethod
    def of(cls, app: Celery | None = None) -> Context:
        """The context of an app, of the current one by default.

        It is made at its first use; settings that are changed after that are not seen.

        Raises:
            ImproperlyConfigured: a ``redisbeater_*`` setting cannot be used.
        """
        app = app_or_default(app)
        if isinstance(app, Proxy):  # ``celery.current_app``
            app = app._get_current_object()
        context = _CONTEXTS.get(app)
        if context is None:
            config = Config.from_app(app)
            codec = ScheduleCodec(config.schedule_classes)
            context = cls(config=config, zone=app.timezone, codec=codec, redis=RedisSchedule(config))
            _CONTEXTS[app] = context
        return context
