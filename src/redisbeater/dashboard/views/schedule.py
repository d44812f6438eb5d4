"""The pages about the schedule as a whole: status and findings; pause and resume; what a reader prefers."""

from __future__ import annotations

from datetime import datetime
from itertools import islice

from starlette.responses import RedirectResponse, Response

from redisbeater.dashboard.access import local_path
from redisbeater.dashboard.address import is_secure
from redisbeater.dashboard.clock import CHOICES
from redisbeater.dashboard.flash import flash
from redisbeater.dashboard.forms import read_form
from redisbeater.dashboard.pages import Action, Page, Visit
from redisbeater.dashboard.site import THEME_COOKIE, ZONE_COOKIE, JSONAnswer
from redisbeater.dashboard.users import Right
from redisbeater.exceptions import InvalidEntry
from redisbeater.management.search import STATES
from redisbeater.times import read_time

__all__ = ("ACTIONS",)

#: Findings that are shown, the worst: to draw 100,000 of them would take all processor time for seconds.
MOST_FINDINGS = 500

#: How long a preference is kept.
YEAR_SECONDS = 365 * 24 * 3600


async def status(visit: Visit) -> Page:
    """Show beats, Redis, broker, the last hour, the runs in work, and the verdict of ``health``."""
    found, health = await visit.site.status.get(), await visit.store.health()
    runs = await visit.store.active_runs()
    runs.sort(key=lambda run: (run.worker, run.started_at or run.sent_at or found.now))
    data = {**found.as_dict(), "health": health.as_dict(), "runs": [run.as_dict() for run in runs]}
    values = {
        "status": found,
        "health": health,
        "active": runs,
        "tracks_runs": await visit.store.tracks_runs(),
        "lines": await visit.store.log(limit=50),
    }
    return Page(template="status.html", values=values, data=data, fragment="content")


async def findings(visit: Visit) -> Page:
    """Show the worst of what ``lint`` finds, and of the entries that are broken."""
    found, broken = await visit.store.lint(), await visit.store.broken()
    shown, total = found[:MOST_FINDINGS], len(found)
    names = {finding.name for finding in shown if finding.name and not finding.name.endswith("*")} | set(broken)
    values = {"findings": shown, "total": total, "broken": broken, "names": names, "states": STATES}
    few = dict(islice(broken.items(), MOST_FINDINGS))
    data = {"findings": [vars(finding) for finding in shown], "total": total, "broken": few}
    return Page(template="findings.html", values=values, data=data, fragment="content")


async def pause(visit: Visit) -> Page | Response:
    """Pause the whole schedule; show the form again where its end is none."""
    form = await read_form(visit.request)
    try:
        begun = await visit.store.pause(form["note"], visit.user.name, _until(visit, form["until"]))
    except InvalidEntry as exc:
        if visit.wants_json:
            raise
        values = {"form": form, "problem": str(exc), "back": local_path(visit.request, form["next"])}
        return Page(template="pause.html", values=values, fragment="content", status=422)
    left = f" {begun.still_claimed:,} entries are still being sent." if begun.still_claimed else ""
    return await _done(visit, f"The schedule is paused: no beat sends anything.{left}", form["next"], begun.as_dict())


async def resume(visit: Visit) -> Response:
    """End the pause."""
    form = await read_form(visit.request)
    ended = await visit.store.resume(form["note"], visit.user.name)
    text = "The schedule is not paused." if ended.pause is None else f"Resumed; {ended.held:,} entries run now."
    return await _done(visit, text, form["next"], {"was_paused": ended.pause is not None, "held": ended.held})


async def prefer(visit: Visit) -> Response:
    """Remember the zone and the theme that a reader chose, in cookies."""
    form = await read_form(visit.request)
    answer = RedirectResponse(local_path(visit.request, form["next"]), 303)
    for cookie, value, known in (
        (ZONE_COOKIE, form["zone"], (*CHOICES, visit.site.time_zone)),
        (THEME_COOKIE, form["theme"], ("light", "dark", "auto")),
    ):
        if value in known:
            path, secure = visit.root or "/", is_secure(visit.request)
            answer.set_cookie(cookie, value, max_age=YEAR_SECONDS, path=path, samesite="lax", secure=secure)
    return answer


def _until(visit: Visit, text: str) -> datetime | None:
    """Return when a pause ends by itself.

    Raises:
        InvalidEntry: the text is no time.
    """
    zone = visit.clock.now.tzinfo
    assert zone is not None, "the clock is aware"
    try:
        return read_time(text, now=visit.clock.now, zone=zone) if text.strip() else None
    except ValueError as exc:
        raise InvalidEntry("$.until", str(exc)) from exc


async def _done(visit: Visit, text: str, target: str, data: object) -> Response:
    if visit.wants_json:
        return JSONAnswer(data)
    answer = RedirectResponse(local_path(visit.request, target), 303)
    await flash(visit, answer, text)
    return answer


ACTIONS = (
    Action(path="/status", answer=status),
    Action(path="/findings", answer=findings, is_heavy=lambda _: True),
    Action(path="/pause", answer=pause, method="POST", right=Right.OPERATE),
    Action(path="/resume", answer=resume, method="POST", right=Right.OPERATE),
    Action(path="/preferences", answer=prefer, method="POST"),
)
