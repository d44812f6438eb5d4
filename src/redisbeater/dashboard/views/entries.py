"""The first page: the entries, with filters, orders and pages; and those that were deleted and can be restored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from starlette.datastructures import QueryParams

from redisbeater.dashboard.pages import Action, Page, Visit
from redisbeater.dashboard.views.entry import lateness_data
from redisbeater.dashboard.views.query import EntryQuery
from redisbeater.exceptions import EntryNotFound
from redisbeater.management.rows import Row, RowPage
from redisbeater.management.search import STATES
from redisbeater.model.run import RunBrief

__all__ = ("ACTIONS",)

#: Entries on a page, and runs in the bar of each.
SIZE, RUNS = 50, 30

#: Rows that a page on screen may ask for again at once.
MOST_NAMED = 50


async def entries(visit: Visit) -> Page:
    """Show a page of the entries; with ``name``, only those of these names, for a page that is live."""
    query = EntryQuery.of(visit.request.query_params)
    if query.state == "deleted":
        return await _deleted(visit, query)
    if names := visit.queries("name"):
        rows = await _named(visit, names[:MOST_NAMED])
        found = RowPage(rows=rows, total=len(rows), number=1, pages=1)
    else:
        found = await visit.store.rows(query.page, SIZE, **query.filters)
    runs = await visit.store.newest_runs([row.name for row in found.rows], RUNS)
    return Page(
        template="entries.html",
        values={
            "query": query,
            "found": found,
            "runs": runs,
            "states": (*STATES, "deleted"),
            "forecast": await visit.site.forecasts.known(query.selection),
        },
        data=_data(found, runs),
        fragment="rows" if names else "content",
    )


async def _named(visit: Visit, names: Sequence[str]) -> list[Row]:
    rows = []
    for name in names:
        try:
            rows.append(await visit.store.row(name))
        except EntryNotFound:
            continue
    return rows


async def _deleted(visit: Visit, query: EntryQuery) -> Page:
    text = query.q.casefold()
    deleted = {name: at for name, at in (await visit.store.deleted()).items() if text in name.casefold()}
    pages = max(-(-len(deleted) // SIZE), 1)
    found = RowPage(rows=[], total=len(deleted), number=min(query.page, pages), pages=pages)
    shown = dict(list(deleted.items())[(found.number - 1) * SIZE : found.number * SIZE])
    return Page(
        template="deleted.html",
        values={"query": query, "deleted": shown, "found": found, "states": (*STATES, "deleted")},
        data={**_data(found, {}), "entries": [_deleted_data(name, at) for name, at in shown.items()]},
        fragment="content",
    )


def _deleted_data(name: str, at: datetime) -> dict[str, Any]:
    return {"name": name, "state": "deleted", "deleted_at": at.isoformat(timespec="seconds")}


def _data(found: RowPage, runs: Mapping[str, Sequence[RunBrief]]) -> dict[str, Any]:
    return {
        "entries": [{**row.as_dict(), **lateness_data(row, runs[row.name])} for row in found.rows],
        "total": found.total,
        "is_about": found.is_about,
        "page": found.number,
        "pages": found.pages,
    }


def _is_heavy(asked: QueryParams) -> bool:
    """Return whether many entries are read; a page that is live asks for a few by their names."""
    return "name" not in asked and EntryQuery.of(asked).is_heavy


ACTIONS = (Action(path="/", answer=entries, is_heavy=_is_heavy),)
