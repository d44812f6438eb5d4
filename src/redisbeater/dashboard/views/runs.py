"""The pages about runs: those to come, the history, one run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from typing import Any

from starlette.exceptions import HTTPException

from redisbeater.dashboard.pages import Action, Page, Visit
from redisbeater.dashboard.views.query import whole
from redisbeater.editing.upcoming import MOST_RUNS, UpcomingRun
from redisbeater.exceptions import InvalidEntry
from redisbeater.model.log_line import LogLine
from redisbeater.model.run import Run, State
from redisbeater.time_words import read_duration, read_time

__all__ = ("ACTIONS", "item_data")

#: Items on a page, and how many may be asked for.
SIZE, MOST = 50, 200

#: Runs that are read where a page filters by task or worker.
MOST_READ = 1_000

#: The spans of the page on runs to come.
SPANS = ("1h", "24h", "7d")


async def upcoming(visit: Visit) -> Page:
    """Show the runs to come, of one entry or of the whole schedule."""
    name, limit = visit.query("name"), whole(visit.query("n"), 1, MOST, SIZE)
    problems: dict[str, str] = {}
    within = _read(visit, "within", read_duration, problems)
    start = _read(visit, "at", lambda text: _time(visit, text, is_past=False), problems)
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
    name, task, worker = visit.query("name"), visit.query("task"), visit.query("worker")
    limit = whole(visit.query("n"), 1, MOST, SIZE)
    problems: dict[str, str] = {}
    before = _read(visit, "before", datetime.fromisoformat, problems)
    if before is not None and before.tzinfo is None:
        before = before.replace(tzinfo=visit.clock.now.tzinfo)
    since = _read(visit, "since", lambda text: _time(visit, text, is_past=True), problems)
    states = _states(visit, problems)
    read = MOST_READ if task or worker else limit
    found = await visit.store.history(name or None, read, before, since=since, states=states)
    items = [item for item in found if _is_wanted(item, task, worker)]
    items = items[:limit] if task or worker else items
    errors = Counter(_first_line(item) for item in items if isinstance(item, Run) and item.state is State.FAILURE)
    values = {
        "items": items, "name": name, "task": task, "worker": worker, "problems": problems, "errors": errors,
        "before": found.before if not (task or worker) else None, "state": visit.query("state"),
        "since": visit.query("since"), "states": [*map(str, State), "skipped"], "limit": limit,
        "tracks_runs": await visit.store.tracks_runs(),
    }  # fmt: skip
    data = {
        "items": [item_data(item) for item in items],
        "before": found.before and found.before.isoformat(),
        **({"errors": problems} if problems else {}),
    }
    return Page(template="history.html", values=values, data=data, fragment="content", status=422 if problems else 200)


async def run(visit: Visit) -> Page:
    """Show one run."""
    run_id = visit.query("id")
    if not run_id:
        raise HTTPException(400, "the address names no run: ?id=... is missing")
    found = await visit.store.run(run_id)
    zone = visit.clock.now.tzinfo
    with suppress(Exception):  # its entry may be deleted or broken
        zone = (await visit.store.row(found.name)).zone
    return Page(template="run.html", values={"run": found, "zone": zone}, data=found.as_dict(), fragment="content")


def item_data(item: Run | LogLine) -> dict[str, object]:
    """Return what JSON has of a run, or of a line of a log."""
    if isinstance(item, Run):
        return {"type": "run", **item.as_dict()}
    times = {name: moment and moment.isoformat() for name, moment in (("first", item.first), ("last", item.last))}
    return {"type": "log", "what": item.what, "count": item.count, **times, "details": dict(item.details)}


def _read(visit: Visit, name: str, read: Callable[[str], Any], problems: dict[str, str]) -> Any:
    text = visit.query(name).strip()
    try:
        return read(text) if text else None
    except (ValueError, InvalidEntry) as exc:
        problems[name] = str(exc)
        return None


def _time(visit: Visit, text: str, *, is_past: bool) -> datetime:
    zone = visit.clock.now.tzinfo
    assert zone is not None, "the clock is aware"
    return read_time(text, now=visit.clock.now, zone=zone, is_past=is_past)


def _states(visit: Visit, problems: dict[str, str]) -> list[str]:
    known = {str(state).lower(): str(state) for state in State} | {"skipped": "skipped"}
    words = [word.strip().lower() for text in visit.queries("state") for word in text.split(",") if word.strip()]
    for word in words:
        if word not in known:
            problems["state"] = f"expected {', '.join(known.values())}"
    return [known[word] for word in words if word in known]


def _is_wanted(item: Run | LogLine, task: str, worker: str) -> bool:
    if isinstance(item, LogLine):
        return not (task or worker)
    return (not task or item.task == task) and (not worker or item.worker == worker)


def _first_line(run: Run) -> str:
    return (run.error or "no reason").splitlines()[0]


ACTIONS = (
    Action(path="/upcoming", answer=upcoming),
    Action(path="/history", answer=history),
    Action(path="/run", answer=run),
)
