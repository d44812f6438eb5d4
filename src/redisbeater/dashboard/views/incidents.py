"""The page for the morning: what is wrong, and what has healed since somebody has looked; to acknowledge it."""

from __future__ import annotations

from datetime import datetime, timedelta

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.responses import Response

from redisbeater.dashboard.access import read_form
from redisbeater.dashboard.auth import Right
from redisbeater.dashboard.pages import Action, Page, PageRequest
from redisbeater.dashboard.views.queries import past_time, read_value
from redisbeater.dashboard.views.schedule import done
from redisbeater.exceptions import IncidentNotFound, StoreError
from redisbeater.model.incident import Incident

#: Incidents that are shown, the newest.
MOST_INCIDENTS = 500

#: Names of entries of a group that are shown.
MOST_NAMES = 50

#: What is new to somebody who has never looked.
FIRST = timedelta(days=1)


async def incidents(req: PageRequest) -> Page:
    """Show what is wrong, and what has healed and which releases came since a moment, by default the last look."""
    problems = dict[str, str]()
    asked = read_value(req, "since", lambda text: past_time(req, text, None, may_come=False), problems)
    since = asked or await _last_look(req) or req.clock.now - FIRST
    report = await req.store.incidents.report(since, limit=MOST_INCIDENTS)
    shown = sum(len(group.incidents) for group in report.open)
    values = {
        "report": report, "since": since, "is_asked": asked is not None, "asked": req.query("since"),
        "problems": problems, "more": max(sum(req.status.news.values()) - shown, 0), "MOST_NAMES": MOST_NAMES,
    }  # fmt: skip
    data = {"since": since, **report.as_dict(), **({"errors": problems} if problems else {})}
    return Page(
        template="incidents.html", values=values, data=data, fragment="content", status=422 if problems else 200
    )


async def _last_look(req: PageRequest) -> datetime | None:
    """Return when this person has looked before, and record a look; JSON, or a page drawn again by itself, is none."""
    keys, person = req.site.page_keys, req.user.name
    is_look = not (req.is_json or req.is_live) and req.request.method == "GET"
    try:
        return await run_in_threadpool(keys.new_since, person, req.status.now, is_look=is_look)
    except StoreError:  # a page that may only read shows the incidents all the same
        return None


async def acknowledge(req: PageRequest) -> Response:
    """Say that this person knows of one incident, or of several that began together."""
    form = await read_form(req.request)
    found = list[Incident]()
    for incident_id in form.all("id") or [""]:
        try:
            found.append(await req.store.incidents.acknowledge(incident_id, note=form["note"], by=req.user.name))
        except IncidentNotFound as exc:
            raise HTTPException(404, str(exc)) from exc
    what = found[0].sentence if len(found) == 1 else f"{len(found):,} incidents"
    data = found[0].as_dict() if len(found) == 1 else [each.as_dict() for each in found]
    return await done(req, f"Acknowledged: {what}.", form["next"], data, "good")


ACTIONS = (
    Action(path="/incidents", answer=incidents),
    Action(path="/incidents/acknowledge", answer=acknowledge, method="POST", right=Right.OPERATE),
)
