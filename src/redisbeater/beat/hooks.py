"""The hooks of Celery's scheduler and entries: which of them beat calls when an application overrides them."""

from __future__ import annotations

from celery.beat import Scheduler

from redisbeater.entry import RedisScheduleEntry
from redisbeater.exceptions import ImproperlyConfigured
from redisbeater.log_lines import get_logger

__all__ = ("check_entry_class", "report_unused_hooks")

logger = get_logger(__name__)

#: Methods that Celery's own scheduler calls to find out what is due. Beat asks Redis instead.
UNUSED_BY_SCHEDULER = ("is_due", "populate_heap", "adjust", "schedules_equal", "reserve")
UNUSED_BY_ENTRY = ("is_due", "next", "__next__")


def check_entry_class(scheduler_class: type[Scheduler]) -> None:
    """Check the ``Entry`` of a scheduler class.

    Raises:
        ImproperlyConfigured: it is no subclass of :class:`~redisbeater.RedisScheduleEntry`.
    """
    entry_class = scheduler_class.Entry
    if not (isinstance(entry_class, type) and issubclass(entry_class, RedisScheduleEntry)):
        raise ImproperlyConfigured(
            f"{scheduler_class.__name__}.Entry = {entry_class!r}: expected a subclass of redisbeater.RedisScheduleEntry"
        )


def report_unused_hooks(scheduler_class: type[Scheduler], base: type[Scheduler]) -> None:
    """Log which methods a scheduler class or its ``Entry`` overrides although beat never calls them.

    Arguments:
        scheduler_class: the class, perhaps of the application.
        base: redisbeater's own one.
    """
    overridden = [
        *_overridden(scheduler_class, base, UNUSED_BY_SCHEDULER),
        *_overridden(scheduler_class.Entry, RedisScheduleEntry, UNUSED_BY_ENTRY),
    ]
    if overridden:
        logger.warning(
            "beat never calls %s: Redis decides what is due; store a custom schedule, or override apply_async",
            ", ".join(overridden),
        )


def _overridden(owner: type, base: type, names: tuple[str, ...]) -> list[str]:
    return [f"{owner.__name__}.{name}" for name in names if getattr(owner, name, None) is not getattr(base, name, None)]
