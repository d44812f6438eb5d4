"""``explain``: read the facts about an entry, and answer."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, tzinfo

from redisbeater.context import Context
from redisbeater.display import quoted
from redisbeater.exceptions import WrongType
from redisbeater.management.why.answer import Answer
from redisbeater.management.why.facts import read_facts
from redisbeater.management.why.past import answer_at
from redisbeater.management.why.present import answer_now
from redisbeater.schedules.zones import in_zone

__all__ = ("explain",)


def explain(
    context: Context,
    name: str,
    at: datetime | None = None,
    *,
    now: datetime | None = None,
    max_interval: float = 0.0,
    shown_in: tzinfo | None = None,
) -> Answer:
    """Return why an entry did or did not run; :meth:`redisbeater.ScheduleStore.why`.

    Arguments:
        context: the app whose schedule it is.
        name: the name of the entry.
        at: the time that is asked about; None: now.
        now: what takes the place of the server's time.
        max_interval: seconds, the ``beat_max_loop_interval`` of the app.
        shown_in: the zone of the times in the answer; None: that of the entry.

    Raises:
        EntryNotFound: nothing is known of that name.
    """
    if at is not None and not isinstance(at, datetime):
        raise WrongType("$.at", f"expected a datetime, got {quoted(at)}")
    facts = replace(read_facts(context, name, now, max_interval), shown_in=shown_in)
    return answer_now(facts) if at is None else answer_at(facts, in_zone(at, facts.zone))
