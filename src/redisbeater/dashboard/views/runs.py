"""The pages about runs: those to come, the history, one run."""

from __future__ import annotations

from collections import Counter
from datetime import datetime

from starlette.datastructures import QueryParams
from starlette.exceptions import HTTPException

from redisbeater.dashboard.pages import Action, Page, Visit
from redisbeater.dashboard.views.entry import zone_of
from redisbeater.dashboard.views.history_query import MOST, STATES, HistoryQuery, item_data, read_value
from redisbeater.dashboard.views.query import whole
from redisbeater.editing.upcoming import MOST_RUNS, UpcomingRun
from redisbeater.model.run import Run, State
from redisbeater.times import read_duration, read_time

__all__ = ("ACTIONS",)

#: Items on a page.
SIZE = 50

#: The spans of the page on runs to come.
SPANS = ("1h", "24h", "7d")


async def upcoming(visit: Visit) -> Page:
    """Show the runs to come, of one entry or of the whole schedule."""
    name, limit = visit.query("name"), whole(visit.query("n"), 1, MOST, SIZE)
    problems: dict[str, str] = {}
    within = read_value(visit, "within", read_duration, problems)
    start = read_value(visit, "at", lambda text: _coming_time(visit, text), problems)
    runs: list[UpcomingRun] = []
    if name:
        runs += await visit.store.upcoming(name, min(limit, MOST_RUNS))
    elif not problems:
        runs += await visit.store.next(within, limit, start=start)
    values = {"runs": runs, "name": name, "limit": limit, "problems": problems, "spans": SPANS}
    data = {"errors": problems} if problems else [run.as_dict() for run in runs]
    return Page(template="upcoming.html", values=values, data=data, fragment="content", status=422 if problems else 200)


async def history(visit: Visit) -> Page:
    """Show what became of runs, of one entry or of all, the newest first."""
    name = visit.query("name")
    zone = await zone_of(visit, name) if name else None
    query = HistoryQuery.of(visit, SIZE, zone)
    found = await query.read(visit, name)
    errors = Counter(_first_line(item) for item in found.items if isinstance(item, Run) and item.state is State.FAILURE)
    values = {
        "items": found.items, "before": found.before, "name": name, "zone": zone, "query": query,
        "errors": errors, "states": STATES, "tracks_runs": await visit.store.tracks_runs(),
    }  # fmt: skip
    data = {
        "items": [item_data(item) for item in found.items],
        "before": found.before and found.before.isoformat(),
        **({"errors": query.problems} if query.problems else {}),
    }
    status = 422 if query.problems else 200
    return Page(template="history.html", values=values, data=data, fragment="content", status=status)


async def run(visit: Visit) -> Page:
    """Show one run."""
    run_id = visit.query("id")
    if not run_id:
        raise HTTPException(400, "the address names no run: ?id=... is missing")
    found = await visit.store.run(run_id)
    values = {"run": found, "zone": await zone_of(visit, found.name)}
    return Page(template="run.html", values=values, data=found.as_dict(), fragment="content")


def _coming_time(visit: Visit, text: str) -> datetime:
    zone = visit.clock.now.tzinfo
    assert zone is not None, "the clock is aware"
    return read_time(text, now=visit.clock.now, zone=zone)


def _is_of_all(asked: QueryParams) -> bool:
    """Return whether the runs of all entries are asked for."""
    return not asked.get("name")


def _first_line(run: Run) -> str:
    return (run.error or "no reason").splitlines()[0]


ACTIONS = (
    Action(path="/upcoming", answer=upcoming, is_heavy=_is_of_all),
    Action(path="/history", answer=history, is_heavy=_is_of_all),
    Action(path="/run", answer=run),
)
