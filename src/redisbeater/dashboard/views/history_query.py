"""Which runs and lines of a log a page shows, all of it in its address: state, task, worker, since, how many."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, tzinfo
from typing import Any

from redisbeater.dashboard.pages import Visit
from redisbeater.dashboard.views.query import whole
from redisbeater.exceptions import InvalidEntry
from redisbeater.model.log_line import LogLine
from redisbeater.model.run import Run, State
from redisbeater.times import read_time

__all__ = ("MOST", "STATES", "FoundHistory", "HistoryQuery", "item_data", "past_time", "read_value")

#: Items that may be asked for, and runs that are read where a page filters by task or worker.
MOST, MOST_READ = 200, 1_000

#: What ``state`` may be.
STATES = (*map(str, State), "skipped")


@dataclass(frozen=True, kw_only=True)
class FoundHistory:
    """Runs and lines of a log, the newest first, and what gets the next page; None: there is none."""

    items: list[Run | LogLine]
    before: datetime | None


@dataclass(frozen=True, kw_only=True)
class HistoryQuery:
    """Which runs and lines a page shows.

    Attributes:
        state, task, worker, since: the filters as they were written.
        states, start, before: what they mean.
        limit: how many.
        problems: what is wrong with them, by name.
    """

    state: str
    task: str
    worker: str
    since: str
    limit: int
    states: list[str]
    start: datetime | None
    before: datetime | None
    problems: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, visit: Visit, size: int, zone: tzinfo | None = None) -> HistoryQuery:
        """Read it from an address.

        Arguments:
            visit: the request.
            size: how many items a page has where the address does not say.
            zone: that of local times; default: the zone of the schedule.
        """
        problems: dict[str, str] = {}
        before = read_value(visit, "before", datetime.fromisoformat, problems)
        if before is not None and before.tzinfo is None:
            before = before.replace(tzinfo=visit.clock.now.tzinfo)
        return cls(
            state=", ".join(_words(visit)),
            task=visit.query("task").strip(),
            worker=visit.query("worker").strip(),
            since=visit.query("since").strip(),
            limit=whole(visit.query("n"), 1, MOST, size),
            states=_states(visit, problems),
            start=read_value(visit, "since", lambda text: past_time(visit, text, zone), problems),
            before=before,
            problems=problems,
        )

    @property
    def is_filtered(self) -> bool:
        """Whether anything is left out."""
        return bool(self.pairs)

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """The filters that are set, for links."""
        names = ("state", "task", "worker", "since")
        return [(name, getattr(self, name)) for name in names if getattr(self, name)]

    async def read(self, visit: Visit, name: str) -> FoundHistory:
        """Read the history of an entry, or of all for an empty name."""
        is_searched = bool(self.task or self.worker)
        limit = MOST_READ if is_searched else self.limit
        found = await visit.store.history(name or None, limit, self.before, since=self.start, states=self.states)
        items = [item for item in found if self._is_wanted(item)]
        if is_searched:
            return FoundHistory(items=items[: self.limit], before=None)
        return FoundHistory(items=items, before=found.before)

    def _is_wanted(self, item: Run | LogLine) -> bool:
        if isinstance(item, LogLine):
            return not (self.task or self.worker)
        return self.task in ("", item.task) and self.worker in ("", item.worker)


def read_value(visit: Visit, name: str, read: Callable[[str], Any], problems: dict[str, str]) -> Any:
    """Return what a text in the address means; None: there is none, or it cannot be read, which is a problem then."""
    text = visit.query(name).strip()
    try:
        return read(text) if text else None
    except (ValueError, InvalidEntry) as exc:
        problems[name] = str(exc)
        return None


def item_data(item: Run | LogLine) -> dict[str, object]:
    """Return what JSON has of a run, or of a line of a log."""
    if isinstance(item, Run):
        return {"type": "run", **item.as_dict()}
    times = {name: moment and moment.isoformat() for name, moment in (("first", item.first), ("last", item.last))}
    return {"type": "log", "what": item.what, "count": item.count, **times, "details": dict(item.details)}


def past_time(visit: Visit, text: str, zone: tzinfo | None = None) -> datetime:
    """Return the time that a text means in a zone, that of the schedule by default: the newest one that has passed.

    Raises:
        ValueError: it is none.
    """
    zone = zone or visit.clock.now.tzinfo
    assert zone is not None, "the clock is aware"
    return read_time(text, now=visit.clock.now, zone=zone, is_past=True)


def _words(visit: Visit) -> list[str]:
    return [word.strip() for text in visit.queries("state") for word in text.split(",") if word.strip()]


def _states(visit: Visit, problems: dict[str, str]) -> list[str]:
    known, words = {state.lower(): state for state in STATES}, [word.lower() for word in _words(visit)]
    if any(word not in known for word in words):
        problems["state"] = f"expected {', '.join(known.values())}"
    return [known[word] for word in words if word in known]
