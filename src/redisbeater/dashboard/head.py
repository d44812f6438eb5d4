"""The head of every page: who leads, what is late, broken or failing, and whether the schedule is paused."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from redisbeater.dashboard.pages import Visit
from redisbeater.management.held import Held
from redisbeater.management.search import LATE
from redisbeater.management.status import Status
from redisbeater.management.why.leadership import lead_ended

__all__ = ("Head", "read_head")

#: Lines of the schedule's log that may say since when nobody leads.
LINES = 50


@dataclass(frozen=True, kw_only=True)
class Head:
    """What the head of a page says.

    Attributes:
        status: the status of the schedule.
        pass_age: seconds since the leader's last pass; None: nobody has written one.
        lead_ended: since when nobody leads; None: somebody does, or the log does not say.
        late: how many entries are late; while the schedule is paused, they wait.
        held: the fire times that wait for the end of a pause; None: the schedule is not paused.
    """

    status: Status
    pass_age: float | None
    lead_ended: datetime | None
    late: int
    held: Held | None


async def read_head(visit: Visit) -> Head:
    """Read what the head of a page says."""
    status = await visit.store.status()
    ages = [(status.now - beat.last_pass).total_seconds() for beat in status.leaders]
    ended = None if status.is_led else lead_ended(await visit.store.log(limit=LINES))
    held, late = None, 0
    if status.pause:
        held = await visit.site.held.get(status)
    elif status.oldest >= LATE:
        late = (await visit.store.late(LATE)).entries
    age = max(min(ages), 0.0) if ages else None
    return Head(status=status, pass_age=age, lead_ended=ended, late=late, held=held)
