"""The list of entries, and the page of one: why it does or does not run, its runs, definition and changes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta, tzinfo
from functools import partial
from typing import Any, NamedTuple
from urllib.parse import urlencode

from starlette.datastructures import QueryParams
from starlette.exceptions import HTTPException

from redisbeater.dashboard import words
from redisbeater.dashboard.address import begin_of_commands
from redisbeater.dashboard.auth import Right
from redisbeater.dashboard.pages import PAGES, Action, Page, PageRequest
from redisbeater.dashboard.pictures import Axis, CauseLine, Weeks, cause_line, two_weeks
from redisbeater.dashboard.views.queries import (
    MOST_ROWS,
    MOST_TYPED,
    RUN_STATES,
    Command,
    EntryQuery,
    HistoryQuery,
    past_time,
    read_command,
)
from redisbeater.editing.upcoming import UpcomingRun
from redisbeater.exceptions import EntryNotFound, ImproperlyConfigured, InvalidEntry, RunNotFound
from redisbeater.management.edit_report import revertible
from redisbeater.management.entry_view import EntryView, ViewPage
from redisbeater.management.runs.history import WHOLE_ID, item_dict, moment_of, read_recorded
from redisbeater.management.runs.results import Result
from redisbeater.management.search import RESULTS_ASKED, STATES
from redisbeater.management.shown_entries import disabled_by, read_views, view_of, views_of
from redisbeater.management.verbs import VERBS, Verb, command_line
from redisbeater.management.why.before import Before, read_before
from redisbeater.management.why.past import explain
from redisbeater.model.run import Run, RunBrief
from redisbeater.schedules.limited import flattened

#: Fire times, and runs and lines of the log, on the page.
UPCOMING, HISTORY = 10, 30

#: Fire times that the picture of two weeks has at most: more of them would be one dark bar.
MOST_MARKS = 400

#: The time that the picture of what came before shows.
DAY, WEEK = timedelta(days=1), timedelta(days=7)


async def entry(req: PageRequest) -> Page:
    """Show one entry."""
    name, store = asked_name(req), req.store
    with_secrets = req.query("secrets") == "1" and req.may(Right.EDIT)
    view = await store.ask(view_of, name, has_secrets=with_secrets)
    recorded = await store.ask(read_recorded, name)
    lines = await store.log(name)
    answer, query = await store.ask(explain, name, shown_in=req.clock.fixed), HistoryQuery.of(req, HISTORY, view.zone)
    history, runs = await query.read(req, name), (await store.runs.newest([name], HISTORY))[name]
    view = view.with_runs(runs)
    before, cause = await _before(req, view, runs)
    data = {
        **view.details(), **lateness_data(view, runs), **(recorded.as_dict() if recorded else {}),
        "why": answer,
        "history": [item_dict(item) for item in history.items],
        **({"errors": query.problems} if query.problems else {}),
    }  # fmt: skip
    values = {
        "entry": view,
        "recorded": recorded,
        "answer": answer,
        "upcoming": (upcoming := await _upcoming(req, view))[:UPCOMING],
        "weeks": _two_weeks(req, view, upcoming),
        "active": sorted(await store.runs.active(name), key=moment_of),
        "history": history,
        "query": query,
        "states": RUN_STATES,
        "changes": [line for line in lines if line.is_change],
        "revertible": [line.last for line in revertible(lines)] if req.may("edit") and view.stored else [],
        "fields": _fields(view),
        "with_secrets": with_secrets,
        "tracks_runs": store.runs.are_tracked,
        "runs": runs,
        "before": before,
        "cause": cause,
        "is_week": req.query("span") == "7d",
    }
    status = 422 if query.problems else 200
    return Page(template="entry.html", values=values, data=data, fragment="content", status=status)


async def _before(
    req: PageRequest, view: EntryView, runs: Sequence[RunBrief]
) -> tuple[Before | None, CauseLine | None]:
    """Return the events before the entry began to fail, and the picture of them, or None where runs have no records."""
    if not req.store.runs.are_tracked:
        return None, None
    result, zone = view.result, req.clock.fixed or view.zone
    is_failed = result is not None and result.result is Result.FAILED
    since = result.since if result and is_failed else None
    found = await req.store.ask(read_before, view.name, runs, since, lambda each: req.clock.words(each, view.zone))
    begin = req.clock.now - (WEEK if req.query("span") == "7d" else DAY)
    failed = f"{result.ends.times}x" if result and is_failed else ""
    return found, cause_line(view.name, found, runs, Axis(begin, req.clock.now, req.clock.now, zone), failed)


def lateness_data(view: EntryView, runs: Sequence[RunBrief]) -> dict[str, float | None]:
    """Return how late the last run of an entry was sent, as a JSON object."""
    late = view.last_late(runs)
    return {"last_late": None if late is None else round(late.total_seconds(), 3)}


def asked_name(req: PageRequest) -> str:
    """Return the name in the query.

    Raises:
        HTTPException: 400, there is none.
    """
    name = req.query("name")
    if not name:
        raise HTTPException(400, "the address names no entry: ?name=... is missing")
    return name


async def _upcoming(req: PageRequest, view: EntryView) -> Sequence[UpcomingRun]:
    if view.stored is None:
        return []
    with suppress(InvalidEntry):  # it is broken, and the page says so
        return await req.store.upcoming(view.name, MOST_MARKS)
    return []


def _two_weeks(req: PageRequest, view: EntryView, runs: Sequence[UpcomingRun]) -> Weeks | None:
    """Return the picture of the next two weeks; None where it would be one bar, or empty."""
    end = req.clock.now + timedelta(days=14)
    if not runs or (len(runs) == MOST_MARKS and runs[-1].fire_time < end):
        return None
    fire_times, held_until = [run.fire_time for run in runs], words.pause_end(req.status.pause)
    return two_weeks(view.name, fire_times, req.clock.now, req.clock.fixed or view.zone, held_until)


def _fields(view: EntryView) -> list[tuple[str, Any]]:
    """Return the definition as a table: what is set, in the order of the definition."""
    parsed = view.parsed_definition
    if not isinstance(parsed, dict):
        return []
    return [(field, value) for field, value in flattened(parsed).items() if field not in ("name", "schedule")]


async def why(req: PageRequest) -> Page:
    """Say why an entry does not run, or why it did or did not at a time."""
    name, at = asked_name(req), req.query("at").strip()
    moment, problem, zone = None, "", await zone_of(req, name)
    if at:
        try:
            moment = past_time(req, at, zone)
        except ValueError as exc:
            problem = str(exc)
    answer = await req.store.ask(explain, name, moment, shown_in=req.clock.fixed)
    values = {"name": name, "at": at, "answer": answer, "problem": problem, "zone": zone}
    status = 422 if problem else 200
    data = {"error": problem, "field": "at"} if problem else answer
    return Page(template="why.html", values=values, data=data, fragment="content", status=status)


async def zone_of(req: PageRequest, name: str) -> tzinfo | None:
    """Return the zone of an entry's local times, or None if there is no such entry."""
    with suppress(EntryNotFound, InvalidEntry):  # it was deleted, or no entry has such a name
        return (await req.store.ask(view_of, name)).zone
    return None


#: Runs in the bars of each entry, from which its result is read, too.
RUNS = 30

#: What the filters offer: states, and rows of a page.
CHOICES = {"states": (*STATES, "deleted"), "results": RESULTS_ASKED, "sizes": (50, 100, MOST_ROWS)}

#: Rows that a page on screen may ask for again at once.
MOST_NAMED = 50


async def entries(req: PageRequest) -> Page:
    """Show a page of the entries; with ``name``, only those of these names, for a page that is live."""
    query = EntryQuery.of(req.request.query_params)
    if query.state == "deleted":
        return await _deleted(req, query)
    if names := req.queries("name"):
        named = await req.store.ask(views_of, names[:MOST_NAMED])
        found = ViewPage(entries=named, total=len(named), number=1, pages=1)
    else:
        found = await req.store.ask(read_views, query.page, query.size, **query.filters)
    runs = await req.store.runs.newest([view.name for view in found.entries], RUNS)
    found = replace(found, entries=[view.with_runs(runs[view.name]) for view in found.entries])
    return Page(
        template="entries.html",
        values={
            "query": query,
            "found": found,
            "runs": runs,
            **CHOICES,
            "tracks_runs": req.store.runs.are_tracked,
            "notes": await _notes(req, found.entries),
            "forecast": await req.site.forecasts.known(query.selection, words.pause_end(req.status.pause)),
        },
        data=_data(found, runs),
        fragment="rows" if names else "content",
    )


async def _notes(req: PageRequest, found: Sequence[EntryView]) -> Mapping[str, str]:
    """Return who disabled entries, and why, by the names of those that are disabled."""
    disabled = [view.name for view in found if view.state == "disabled"]
    return await req.store.ask(disabled_by, disabled) if disabled else {}


async def _deleted(req: PageRequest, query: EntryQuery) -> Page:
    text = query.q.casefold()
    deleted = {name: at for name, at in (await req.store.deleted()).items() if text in name.casefold()}
    pages = max(-(-len(deleted) // query.size), 1)
    found = ViewPage(entries=[], total=len(deleted), number=min(query.page, pages), pages=pages)
    shown = dict(list(deleted.items())[(found.number - 1) * query.size : found.number * query.size])
    return Page(
        template="deleted.html",
        values={"query": query, "deleted": shown, "found": found, "tracks_runs": False, **CHOICES},
        data={**_data(found, {}), "entries": [_deleted_data(name, at) for name, at in shown.items()]},
        fragment="content",
    )


def _deleted_data(name: str, at: datetime) -> dict[str, Any]:
    return {"name": name, "state": "deleted", "deleted_at": at.isoformat(timespec="seconds")}


def _data(found: ViewPage, runs: Mapping[str, Sequence[RunBrief]]) -> dict[str, Any]:
    return {
        "entries": [{**view.as_dict(), **lateness_data(view, runs[view.name])} for view in found.entries],
        "total": found.total,
        "is_about": found.is_about,
        "page": found.number,
        "pages": found.pages,
    }


#: Entries, labels, runs and actions of each kind that are found.
MOST_FOUND = 8


class FoundAction(NamedTuple):
    """A change that somebody may mean: its words, its command, and the form that asks before anything is done."""

    words: str
    line: str
    path: str
    fields: Mapping[str, str]


async def find(req: PageRequest) -> Page:
    """Find pages, entries, labels, runs and actions; of a part of an id runs are searched at Enter alone."""
    text = " ".join(req.query("q")[:MOST_TYPED].split())
    folded, command = text.casefold(), read_command(text)
    listed = await req.store.ask(read_views, 1, MOST_ROWS, text=text) if text else None
    found = listed.entries if listed else []
    target = command.target if command else text
    runs = await _runs_with(req, target)
    entries = _nearest(text, found)[:MOST_FOUND]
    newest = await req.store.runs.newest([entry.name for entry in entries], RUNS)
    labels = dict.fromkeys("=".join(label) for entry in found for label in entry.labels.items())
    values: dict[str, Any] = {
        "q": text,
        "pages": [(path, name) for path, name in _pages_of(req) if folded in name.casefold()],
        "entries": [entry.with_runs(newest[entry.name]) for entry in entries],
        "listed": listed,
        "labels": [label for label in labels if folded in label.casefold()][:MOST_FOUND],
        "runs": [run if isinstance(run, str) else run.id for run in runs],
        "found_runs": [run for run in runs if isinstance(run, Run)],
        "is_short_id": bool(re.fullmatch(r"(?=.*[0-9])[0-9a-f]{4,7}", folded)),
        "actions": await _actions(req, command, runs) if command else [],
        "command": command,
    }
    data = {
        **{key: values[key] for key in ("q", "labels", "runs")},
        "pages": [path for path, _ in values["pages"]],
        "entries": [entry.name for entry in values["entries"]],
        "actions": [{"words": action.words, "command": action.line} for action in values["actions"]],
    }
    return Page(template="find.html", values=values, data=data, fragment="found")


def _pages_of(req: PageRequest) -> list[tuple[str, str]]:
    return [(path, name) for path, _, name in PAGES] + ([("/new", "New entry")] if req.may("edit") else [])


def _nearest(text: str, found: Sequence[EntryView]) -> list[EntryView]:
    """Return entries, those first that have the text at the begin of their name, then those that have it in that."""
    folded, names = text.casefold(), {entry.name: entry.name.casefold() for entry in found}
    return sorted(
        found, key=lambda entry: (folded not in (name := names[entry.name]), name.find(folded), len(name), name)
    )


async def _runs_with(req: PageRequest, text: str) -> Sequence[Run | str]:
    """Return the run with an id, or the ids that begin so, for which Redis is searched for up to a second."""
    is_typing = req.request.headers.get("HX-Request") == "true"
    if not re.fullmatch(r"[0-9a-fA-F-]{8,36}", text) or (is_typing and len(text) < WHOLE_ID):
        return []
    try:
        return [await req.store.runs.get(text)]
    except RunNotFound as exc:
        return exc.runs[:MOST_FOUND]
    except ImproperlyConfigured:  # runs are not recorded
        return []


async def _actions(req: PageRequest, asked: Command, runs: Sequence[Run | str]) -> list[FoundAction]:
    """Return the actions that a command may mean and this person may do."""
    verb, target, make = VERBS.get(asked.verb), asked.target, partial(_action, begin_of_commands(req.request), asked)
    if verb is None:  # it changes the schedule as a whole
        is_pause = asked.verb == "pause"
        is_able = req.may("operate") and is_pause != bool(req.status.pause)
        given = {"until": asked.given.get("until") or target} if is_pause else {}
        return [make(f"{asked.verb.capitalize()} the schedule", "/pause", given=given)] if is_able else []
    if not target or not req.may(verb.right):
        return []
    about, found, path = verb.question or verb.label, list[FoundAction](), f"/entries/{verb.name}"
    if verb.of == "runs":
        able = [run.id for run in runs if isinstance(run, Run) and verb in words.verbs(run, req.user)]
        return [make(f"{about} run {run_id}", "/run", run_id, id=run_id) for run_id in able]
    key, is_label, value = target.partition("=")
    if is_label and not verb.is_single and verb.when != "deleted":
        state = verb.when if verb.when in STATES else ""
        total = (await req.store.ask(read_views, 1, 1, labels={key: value}, states=[state] if state else [])).total
        what = f"{about} {total:,} {'entry' if total == 1 else 'entries'} with {target}"
        link = f"{req.root}/?{urlencode({'label': target}, errors='replace')}"
        found += [make(what, path, label=target, all="1", state=state, next=link)] if total else []
    for name in await _names(req, verb, target):
        link = f"{req.root}/entry?{urlencode({'name': name}, errors='replace')}"
        found.append(make(f"{about} {name}", path, name, next=link))
    return found


async def _names(req: PageRequest, verb: Verb, text: str) -> list[str]:
    """Return the names of entries with a text that a person may do a verb to, the nearest ones."""
    if verb.when == "deleted":
        return [name for name in await req.store.deleted() if text.casefold() in name.casefold()][:MOST_FOUND]
    found = _nearest(text, (await req.store.ask(read_views, 1, MOST_ROWS, text=text)).entries)
    named = [entry for entry in found if text.casefold() in entry.name.casefold()]
    return [entry.name for entry in named or found if verb in words.verbs(entry, req.user)][:MOST_FOUND]


def _action(
    begin: Sequence[str],
    asked: Command,
    what: str,
    path: str,
    name: str = "",
    label: str = "",
    given: Mapping[str, str] | None = None,
    **more: str,
) -> FoundAction:
    given = asked.given if given is None else given
    options = {"label": label, **given, "note": asked.note}
    return FoundAction(
        words=" ".join([what, *(f"{name} {text}" for name, text in given.items() if text)]),
        line=command_line(begin, asked.verb, *filter(None, [name]), **options),
        path=path,
        fields={"name": name, "ask": "1", **options, **more},
    )


def _is_heavy(asked: QueryParams) -> bool:
    """Return whether many entries are read; a page that is live asks for a few by their names."""
    return "name" not in asked and EntryQuery.of(asked).is_heavy


ACTIONS = (
    Action(path="/", answer=entries, is_heavy=_is_heavy),
    Action(path="/entry", answer=entry),
    Action(path="/find", answer=find, is_heavy=lambda asked: bool(asked.get("q"))),
    Action(path="/why", answer=why),
)
