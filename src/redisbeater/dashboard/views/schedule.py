"""The pages about the schedule as a whole: status, findings, history, upcoming runs, forecast, events; pause."""

from __future__ import annotations

import re
import secrets
from collections.abc import Sequence
from contextlib import aclosing, suppress
from dataclasses import replace
from datetime import datetime, timedelta, timezone, tzinfo
from functools import partial
from itertools import islice
from typing import Any
from urllib.parse import urlencode

from starlette.datastructures import QueryParams
from starlette.exceptions import HTTPException
from starlette.responses import RedirectResponse, Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from redisbeater.dashboard import words
from redisbeater.dashboard.access import Form, local_path, read_form
from redisbeater.dashboard.address import is_secure
from redisbeater.dashboard.auth import Right
from redisbeater.dashboard.hub import Events, TooManyStreams
from redisbeater.dashboard.pages import Action, Page, PageRequest, Tone, flash
from redisbeater.dashboard.pictures import (
    MOST_DUE,
    QUARTER,
    WAITING,
    Axis,
    busiest_words,
    histogram,
    lane,
    passed,
    seven_days,
    timeline,
)
from redisbeater.dashboard.site import CHOICES, THEME_COOKIE, TIMES_COOKIE, ZONE_COOKIE, JSONAnswer
from redisbeater.dashboard.views.entries import zone_of
from redisbeater.dashboard.views.queries import (
    MOST,
    RUN_ID,
    RUN_STATES,
    EntryQuery,
    HistoryQuery,
    not_understood,
    past_time,
    read_value,
    whole,
    whole_ids,
)
from redisbeater.display import json_form
from redisbeater.editing.upcoming import MOST_RUNS, UpcomingRun
from redisbeater.exceptions import InvalidEntry, RunNotFound, StoreError
from redisbeater.management.edit_report import acts_of, read_changes
from redisbeater.management.future import HeldRuns, read_held
from redisbeater.management.runs.history import end_of_history, is_begin, item_dict, read_hours
from redisbeater.management.runs.results import FailureGroup
from redisbeater.management.runs.work import Work, read_work
from redisbeater.management.shown_entries import read_views
from redisbeater.management.simulation import due_seconds
from redisbeater.model.run import FAILED
from redisbeater.times import FAR_FUTURE, duration_words, read_duration, read_time

#: Findings that are shown, the worst: to draw 100,000 of them would take all processor time for seconds.
MOST_FINDINGS = 500

#: In a schedule with more entries, which take seconds to read, the page comes before its findings.
MOST_AT_ONCE = 1_000

#: How long a preference is kept.
YEAR_SECONDS = 365 * 24 * 3600


async def status(req: PageRequest) -> Page:
    """Show beats, Redis, broker, the last hour, the runs in work, and the verdict of ``health``."""
    found, health = await req.site.status.get(), await req.store.health()
    runs, work, hours = await req.store.runs.active(), await req.store.ask(read_work), await req.store.ask(read_hours)
    runs.sort(key=lambda run: (run.worker, run.started_at or run.sent_at or found.now))
    data = {**found.as_dict(), "health": health, "runs": runs}
    values = {
        "status": found,
        "health": health,
        **_work_values(work),
        "week": seven_days(hours, found.now, _zone(req)) if hours else None,
        "tracks_runs": req.store.runs.are_tracked,
        "lines": await req.store.log(limit=50),
        "listed": (await req.store.ask(read_views, 1, 1)).total,
    }
    return Page(template="status.html", values=values, data=data, fragment="content")


async def workers(req: PageRequest) -> Page:
    """Show what workers execute, as they report it, and what waits in which queue."""
    work = await req.store.ask(read_work)
    values = {"status": req.status, "tracks_runs": req.store.runs.are_tracked, **_work_values(work)}
    return Page(template="workers.html", values=values, data=work, fragment="content")


def _work_values(work: Work) -> dict[str, Any]:
    return {"work": work, "waiting_states": ",".join(WAITING)}


async def findings(req: PageRequest) -> Page:
    """Show the worst of what ``lint`` finds, and of the entries that are broken; of many entries only with ``wait``."""
    is_part = req.query("wait") == "1"
    if req.status.entries > MOST_AT_ONCE and not is_part and not req.is_json:
        return Page(template="findings.html", values={"findings": None}, fragment="content")
    found = await req.site.heavy_reads.read(req.request, req.user, lambda store: store.lint())
    broken = await req.store.broken()
    shown, total = found[:MOST_FINDINGS], len(found)
    values = {"findings": shown, "total": total, "broken": broken}
    few = dict(islice(broken.items(), MOST_FINDINGS))
    data = {"findings": shown, "total": total, "broken": few}
    return Page(template="findings.html", values=values, data=data, fragment="found" if is_part else "content")


async def ask_to_pause(req: PageRequest) -> Page:
    """Ask whether to pause the schedule, or to resume it, with the end and the note that the address has."""
    form = Form([("until", req.query("until")), ("note", req.query("note")), ("next", f"{req.root}/")])
    coming = ""
    with suppress(InvalidEntry):  # the form says it
        until = _until(req, form["until"])
        coming = words.at_its_end(await req.store.ask(read_held, until)) if until and not req.status.pause else ""
    values = {"form": form, "problem": "", "back": form["next"], "coming": coming}
    return Page(template="pause.html", values=values, fragment="content")


async def pause(req: PageRequest) -> Page | Response:
    """Pause the whole schedule; show the form again if its end cannot be read."""
    form = await read_form(req.request)
    try:
        begun = await req.store.pause(until=_until(req, form["until"]), note=form["note"], by=req.user.name)
    except InvalidEntry as exc:
        if req.wants_json:
            raise
        values = {"form": form, "problem": exc.problem, "back": local_path(req.request, form["next"]), "coming": ""}
        return Page(template="pause.html", values=values, fragment="content", status=422)
    left = f" {begun.still_claimed:,} entries are still being sent." if begun.still_claimed else ""
    until = f" until {req.clock.words(begun.until)}" if begun.until else ""
    coming = f" {words.at_its_end(await req.store.ask(read_held, begun.until))}".rstrip() if begun.until else ""
    text = f"The schedule is paused: no beat sends anything{until}.{coming}{left}"
    return await done(req, text, form["next"], begun.as_dict(), "warn" if left else "good")


async def resume(req: PageRequest) -> Response:
    """End the pause."""
    form = await read_form(req.request)
    is_said = req.status.pause and not req.wants_json
    held = await req.store.ask(read_held) if is_said else HeldRuns(entries=0, fire_times=0)
    ended = await req.store.resume(note=form["note"], by=req.user.name)
    text = "The schedule is not paused." if ended.pause is None else words.resumed(held)
    data = {"was_paused": ended.pause is not None, "held": ended.held}
    return await done(req, text, form["next"], data, "good" if ended.pause else "warn")


async def prefer(req: PageRequest) -> Response:
    """Remember the zone, the theme and the kind of times that a reader chose, in cookies."""
    form = await read_form(req.request)
    answer = RedirectResponse(local_path(req.request, form["next"]), 303)
    for cookie, value, known in (
        (ZONE_COOKIE, form["zone"], (*CHOICES, req.site.time_zone)),
        (THEME_COOKIE, form["theme"], ("light", "dark", "auto")),
        (TIMES_COOKIE, form["times"], ("relative", "clock")),
    ):
        if value in known:
            path, secure = req.root or "/", is_secure(req.request)
            answer.set_cookie(cookie, value, max_age=YEAR_SECONDS, path=path, samesite="lax", secure=secure)
    return answer


def _until(req: PageRequest, text: str) -> datetime | None:
    """Return when a pause ends by itself.

    Raises:
        InvalidEntry: the text is no time.
    """
    zone = req.clock.now.tzinfo
    assert zone is not None, "the clock is aware"
    try:
        return read_time(text, now=req.clock.now, zone=zone) if text.strip() else None
    except ValueError as exc:
        raise InvalidEntry("$.until", not_understood(text)) from exc


async def done(req: PageRequest, text: str, target: str, data: object, tone: Tone) -> Response:
    """Return to where a form was, with a sentence about what it has done; or to a program with its data."""
    if req.wants_json:
        return JSONAnswer(data)
    answer = RedirectResponse(local_path(req.request, target), 303)
    await flash(req, answer, text, tone=tone)
    return answer


#: Items on a page.
SIZE = 50

#: Groups of failures on a page.
MOST_GROUPS = 10

#: The spans of the page on runs to come.
SPANS = ("1h", "24h", "7d")


async def upcoming(req: PageRequest) -> Page:
    """Show the runs to come, of one entry or of the whole schedule."""
    name, problems = req.query("name"), dict[str, str]()
    within = read_value(req, "within", read_duration, problems)
    start = read_value(req, "at", lambda text: coming_time(req, text), problems)
    end = None
    if start is not None and within is not None:
        within = min(within, max(FAR_FUTURE - start, timedelta()))
        end = start + within
    limit = whole(req.query("n"), 1, MOST, SIZE if end is None else MOST)
    runs: list[UpcomingRun] = []
    if not problems:
        number = min(limit, MOST_RUNS) if name else limit
        runs += await req.store.upcoming(name or None, number, within=within, start=start)
    runs = [run for run in runs if end is None or run.due_at < end]
    values = {
        "runs": runs, "name": name, "limit": limit, "problems": problems, "spans": SPANS,
        "at": req.query("at") if start is None else words.typed(req.query("at"), req.clock.local(start)),
        "span": words.between(req.clock, start, end) if end else "", "length": within and duration_words(within),
    }  # fmt: skip
    data = {"errors": problems} if problems else runs
    return Page(template="upcoming.html", values=values, data=data, fragment="content", status=422 if problems else 200)


async def history(req: PageRequest) -> Page | Response:
    """Show what became of runs, of one entry, of some or of all, the newest first; go to the one that an id names."""
    name, tracks_runs = req.query("name"), req.store.runs.are_tracked
    zone = await zone_of(req, name) if name else None
    query, unknown = HistoryQuery.of(req, SIZE, zone), ""
    if tracks_runs and RUN_ID.fullmatch(query.q) and not query.ids and not req.is_live:
        ids, unknown = await _ids_like(req, query.q)
        if ids and not req.is_json:
            return _to_runs(req, query.q, ids)
        query = replace(query, ids=ids)
    names = None if query.ids else await query.names(req)
    found = await query.read(req, name, names)
    groups, begin = await _failures(req, query, name, names)
    is_end = bool(name) and not (found.before or query.is_filtered)
    end = await req.store.ask(end_of_history, name, found.items) if is_end else ("", None)
    values = {
        "items": found.items, "before": found.before, "name": name, "zone": zone, "query": query,
        "groups": groups, "begin": begin, "unknown": unknown, "end": end,
        "MOST_GROUPS": len(groups) if req.query("groups") == "all" else MOST_GROUPS,
        "states": RUN_STATES, "tracks_runs": tracks_runs,
    }  # fmt: skip
    data = {
        "items": [item_dict(item) for item in found.items],
        "before": found.before,
        "failures": groups,
        "failures_begin": begin,
        **({"errors": query.problems} if query.problems else {}),
    }
    status = 422 if query.problems else 200
    return Page(template="history.html", values=values, data=data, fragment="content", status=status)


async def _ids_like(req: PageRequest, text: str) -> tuple[Sequence[str], str]:
    """Return the ids of the runs that a text may mean, and why there is none."""
    try:
        return [(await req.store.runs.get(text)).id], ""
    except RunNotFound as exc:
        return exc.runs, _said(exc)


def _said(error: RunNotFound) -> str:
    """Return in a sentence that no run has an id, and for how long runs are kept."""
    return f"{error.problem[:1].upper()}{error.problem[1:]}."


def _to_runs(req: PageRequest, text: str, ids: Sequence[str]) -> Response:
    """Go to the run that a text means, or to those that it may mean: their address needs no further search."""
    pairs = urlencode([("q", text), *(("id", run_id) for run_id in ids)])
    page = f"run?{urlencode({'id': ids[0]})}" if len(ids) == 1 else f"history?{pairs}"
    return RedirectResponse(f"{req.root}/{page}", 303)


async def _failures(
    req: PageRequest, query: HistoryQuery, name: str, names: Sequence[str] | None
) -> tuple[list[FailureGroup], datetime | None]:
    """Return the failures of the asked entries in groups, for the first page, and when the oldest known one ended.

    An open page keeps those that it has: to read a thousand with each change takes too long.
    """
    is_apart = query.before or query.ids or query.error or query.task or query.worker or query.problems
    if req.is_live or is_apart or (query.states and FAILED.isdisjoint(query.states)):
        return [], None
    found = await req.store.runs.failures(since=query.start)
    return [each for each in found if name in ("", each.name) and (names is None or each.name in names)], found.begin


async def changes(req: PageRequest) -> Page:
    """Show who changed what, of all entries, the newest first."""
    problems: dict[str, str] = {}
    asked = {key: req.query(key).strip() for key in ("name", "by", "since")}
    since = read_value(req, "since", lambda text: past_time(req, text, None, may_come=False), problems)
    before = read_value(req, "before", _aware, problems)
    number = whole(req.query("n"), 1, MOST, SIZE)
    found = await req.store.ask(read_changes, asked["name"], asked["by"], since=since, before=before, limit=number)
    shown = [] if problems else found.changes
    data = {
        "changes": [{"name": name, **json_form(line)} for name, line in shown],
        "before": found.before, "unread": found.unread, **({"errors": problems} if problems else {}),
    }  # fmt: skip
    values = {"found": found, "acts": acts_of(shown), "asked": asked, "problems": problems}
    return Page(template="changes.html", values=values, data=data, fragment="content", status=422 if problems else 200)


def _aware(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError(f"{text!r}: expected a time with its zone")
    return moment


async def run(req: PageRequest) -> Page | Response:
    """Show one run, with all that belongs to it."""
    run_id = req.query("id")
    if not run_id:
        raise HTTPException(400, "the address names no run: ?id=... is missing")
    try:
        found = await req.store.runs.details(run_id)
    except RunNotFound as exc:
        if exc.runs and not req.is_json:
            return _to_runs(req, run_id, exc.runs)
        raise HTTPException(404, _said(exc)) from exc
    values = {"run": found.run, "details": found, "zone": await zone_of(req, found.run.name)}
    return Page(template="run.html", values=values, data=found, fragment="content")


def coming_time(req: PageRequest, text: str) -> datetime:
    """Return the time that a text means in the zone of a page: one to come, where it may be both.

    Raises:
        ValueError: it is none.
    """
    return read_time(text, now=req.clock.now, zone=_zone(req))


def _zone(req: PageRequest) -> tzinfo:
    """Return the zone of the times of the whole schedule on a page."""
    return req.clock.fixed or req.clock.now.tzinfo or timezone.utc


def _is_of_all(asked: QueryParams) -> bool:
    """Return whether the runs of all entries are asked for."""
    return not asked.get("name")


def _is_searched(asked: QueryParams) -> bool:
    """Return whether more than the runs of one entry, or some by their ids, are asked for."""
    return not whole_ids(asked) and bool(_is_of_all(asked) or asked.get("q"))


#: Lanes on a page.
MOST_LANES = 30

#: Runs of a week, going by its first day, that are counted at most while somebody waits for the page.
MOST_OF_A_WEEK = 200_000


async def forecast(req: PageRequest) -> Page:
    """Show the timeline of the entries that the filters of the list select."""
    held_until = words.pause_end(req.status.pause)
    found = await req.site.forecasts.get(EntryQuery.of(req.request.query_params).selection, held_until=held_until)
    data = {
        "start": found.start,
        "runs": found.runs,
        "is_at_least": found.is_at_least,
        "held": sum(found.held.values()),
        "quarters": [found.counts.get(place, 0) for place in range(round((found.end - found.start) / QUARTER))],
        "peak": found.peak and [*found.peak],
        "past": None if found.minutes is None else [dict(part.tones) for part in passed(found).values()],
        "words": timeline(found, _zone(req)).words,
    }
    return Page(template="forecast.html", values={"forecast": found}, data=data, fragment="forecast")


async def bands(req: PageRequest) -> Page:
    """Show a lane for each entry, those with the fewest runs first, of 24 hours, or with ``within`` of 1h or 7d.

    A week with too many runs is not counted: a day is shown.
    """
    everything, within = EntryQuery().selection, req.query("within") if req.query("within") in SPANS else "24h"
    span, now = read_duration(within), req.clock.now
    held_until = words.pause_end(req.status.pause)
    day = timedelta(days=1)
    found = await req.site.forecasts.get(everything, min(span, day), held_until)
    is_cut = span > day and (found.is_at_least or span.days * found.runs > MOST_OF_A_WEEK)
    if span > day and not is_cut:
        found = await req.site.forecasts.get(everything, span, held_until)
    length = found.end - found.now
    begin = found.now - (length / 4 if req.store.runs.are_tracked else timedelta())  # what comes is shown as a whole
    total = len(found.bands)
    pages = max(-(-total // MOST_LANES), 1)
    number = whole(req.query("page"), 1, pages)
    shown = found.bands[(number - 1) * MOST_LANES : number * MOST_LANES]
    names = [band.name for band in shown]
    due = await req.store.ask(due_seconds, names, now, found.end, MOST_DUE)
    runs = await req.store.runs.newest(names)
    axis = Axis(begin, found.end, now, _zone(req))
    lanes = [lane(band, due.get(band.name, []), runs[band.name], axis, held_until) for band in shown]
    data = {
        "start": begin, "now": now, "end": found.end, "is_at_least": found.is_at_least, "total": total,
        "entries": [
            {"name": band.name, "alike": band.entries - 1, "runs": each.runs, "due": due.get(band.name, [])}
            for band, each in zip(shown, lanes)
        ],
    }  # fmt: skip
    values = {
        "columns": histogram(found, axis), "busiest": busiest_words(found, axis.zone),
        "lanes": lanes, "axis": axis, "is_at_least": found.is_at_least, "is_cut": is_cut,
        "number": number, "pages": pages, "total": total, "first": (number - 1) * MOST_LANES + 1,
        "address": f"{req.root}/bands?within={within}&", "entries": sum(band.entries for band in found.bands),
    }  # fmt: skip
    return Page(template="bands.html", values=values, data=data, fragment="bands")


async def events(req: PageRequest) -> Response:
    """Stream what changes: ``entries``, ``runs``, ``status``.

    Raises:
        HTTPException: 503, there are too many streams; the page asks every ten seconds then.
    """
    headers = {"X-Accel-Buffering": "no"}  # nginx passes it on at once
    if req.request.method == "HEAD":  # its answer has no end that anybody would wait for
        return Response(media_type="text/event-stream", headers=headers)
    try:
        since, session = req.request.query_params.get("since"), req.site.session(req.request)
        is_known = partial(_is_known, req, is_by_header=req.site.can_log_out and session is None)
        known = req.request.cookies.get(BROWSER_COOKIE, "")
        browser = known if _BROWSER.fullmatch(known) else ""
        stream = req.site.hub.open(since, session.id if session else "", is_known, browser=browser)
    except TooManyStreams:
        raise HTTPException(503, "too many pages are live; this one asks every ten seconds") from None
    answer = _Streaming(stream, media_type="text/event-stream", headers=headers)
    if not browser:
        cookie: Any = {"path": req.root or "/", "httponly": True, "samesite": "strict"}
        answer.set_cookie(BROWSER_COOKIE, secrets.token_urlsafe(9), secure=is_secure(req.request), **cookie)
    return answer


#: The cookie that tells the windows of one browser from those of others, until it is closed.
BROWSER_COOKIE, _BROWSER = "redisbeater_window", re.compile(r"[\w-]{12}")


class _Streaming(StreamingResponse):
    """Closes its events when it ends, also those of a browser that is gone before the first."""

    body_iterator: Events

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with aclosing(self.body_iterator):
            await super().__call__(scope, receive, send)


async def _is_known(req: PageRequest, *, is_by_header: bool) -> bool:
    """Return whether the person may still see the page: sessions end, and people lose their rights."""
    if is_by_header:
        return True  # credentials in a header never expire, and take long to check
    try:
        user = await req.site.user(req.request)
    except StoreError:  # an outage of Redis logs nobody out
        return True
    return user is not None and Right.VIEW in user.rights


ACTIONS = (
    Action(path="/status", answer=status),
    Action(path="/workers", answer=workers),
    Action(path="/findings", answer=findings),
    Action(path="/pause", answer=ask_to_pause, right=Right.OPERATE, has_json=False),
    Action(path="/pause", answer=pause, method="POST", right=Right.OPERATE),
    Action(path="/resume", answer=resume, method="POST", right=Right.OPERATE),
    Action(path="/preferences", answer=prefer, method="POST"),
    Action(path="/upcoming", answer=upcoming, is_heavy=_is_of_all),
    Action(path="/history", answer=history, is_heavy=_is_searched),
    Action(path="/changes", answer=changes, is_heavy=lambda _: True),
    Action(path="/run", answer=run, is_heavy=lambda asked: is_begin(asked.get("id", ""))),
    Action(path="/forecast", answer=forecast, is_heavy=lambda _: True),
    Action(path="/bands", answer=bands, is_heavy=lambda _: True),
    Action(path="/events", answer=events, has_json=False),
)
