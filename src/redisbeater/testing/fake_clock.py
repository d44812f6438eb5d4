"""``FakeClock``: the clock of a schedule, as far as this process sees it, stands still until a test moves it."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime, timedelta, tzinfo
from types import TracebackType

from celery import Celery

from redisbeater.context import Context
from redisbeater.display import quoted
from redisbeater.schedules.local_time import in_zone

__all__ = ("FakeClock", "read_moment")


class FakeClock:
    """The time of a schedule, which a test sets.

    Within its block, all that this process asks of the schedule of that app happens at that time: creating entries,
    :func:`run_due`, ``upcoming()``, pauses. Only redisbeater sees it; a task that asks for the time gets the real one.

    Arguments:
        app: the Celery app.
        at: a datetime or an ISO 8601 text; a naive one is in the app's zone.

    Example::

        with FakeClock(app, "2026-03-29 01:59") as clock:
            ScheduleStore(app).create("report", "proj.report", cron("0 3 * * *"))
            clock.advance(hours=2)
            assert [run.name for run in run_due(app)] == ["report"]
    """

    def __init__(self, app: Celery, at: datetime | str) -> None:
        self._context = Context.of(app)
        #: The time that it shows, aware UTC.
        self.now = read_moment(at, self._context.zone)
        self._before: datetime | None = None
        self._is_on = False

    def __enter__(self) -> FakeClock:
        self._before = self._context.redis.contents.fix_clock(self.now)
        self._is_on = True
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._is_on = False
        self._context.redis.contents.fix_clock(self._before)

    def advance(
        self,
        amount: timedelta | None = None,
        *,
        weeks: float = 0,
        days: float = 0,
        hours: float = 0,
        minutes: float = 0,
        seconds: float = 0,
        milliseconds: float = 0,
    ) -> datetime:
        """Move it forward by a timedelta, by ``hours=2, minutes=5``, or by both; return the time that it shows then.

        Raises:
            TypeError: ``amount`` is no timedelta.
        """
        if amount is not None and not isinstance(amount, timedelta):
            raise TypeError(f"amount: expected a timedelta, got {quoted(amount)}; for seconds use seconds=...")
        further = timedelta(
            weeks=weeks, days=days, hours=hours, minutes=minutes, seconds=seconds, milliseconds=milliseconds
        )
        return self.move_to(self.now + further + (amount or timedelta(0)))

    def move_to(self, at: datetime | str) -> datetime:
        """Set it to a time; return that as aware UTC.

        Raises:
            ValueError: the time lies before the one that it shows; a clock that goes back is another test.
        """
        moment = read_moment(at, self._context.zone)
        if moment < self.now:
            raise ValueError(f"at: {moment.isoformat()} lies before {self.now.isoformat()}, which the clock shows")
        if self._is_on:
            self._context.redis.contents.fix_clock(moment)
            self._context.redis.pause.let_pass((moment - self.now).total_seconds())
        self.now = moment
        return moment


def read_moment(at: datetime | str, zone: tzinfo, path: str = "at") -> datetime:
    """Return a time as aware UTC; a naive one is in the zone.

    Raises:
        ValueError: it is neither a datetime nor an ISO 8601 text; the message begins with ``path``.
    """
    moment: object = at
    if isinstance(at, str):
        with suppress(ValueError):
            moment = datetime.fromisoformat(at.replace("Z", "+00:00"))  # Python 3.10 does not read the Z
    if not isinstance(moment, datetime):
        raise ValueError(f"{path}: expected a datetime or an ISO 8601 text, got {quoted(at)}")
    return in_zone(moment, zone)
