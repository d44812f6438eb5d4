"""The fields of an entry as programs pass them, for type checkers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta, tzinfo
from typing import Any, Protocol, TypedDict

from redisbeater.model.policies import AnchorLike, CoalesceLike, Inherit, OnFinishLike, OverlapLike

__all__ = ("EntryChanges", "EntryFields", "ScheduleLike", "TaskLike", "TaskObject")


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
