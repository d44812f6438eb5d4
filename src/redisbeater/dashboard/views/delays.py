"""The page of delays: tasks that wait in the schedule for their eta; to send, move and cancel them."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from starlette.exceptions import HTTPException
from starlette.responses import Response

from redisbeater.dashboard.access import local_path, read_form
from redisbeater.dashboard.auth import Right
from redisbeater.dashboard.pages import Action, Page, PageRequest
from redisbeater.dashboard.site import JSONAnswer
from redisbeater.dashboard.views.queries import MOST_TYPED, read_value
from redisbeater.dashboard.views.schedule import coming_time, done
from redisbeater.exceptions import InvalidEntry
from redisbeater.management.delays.changing import MOST_UNASKED, DelayOutcome

#: Delays that are shown, those that are due first.
MOST_DELAYS = 200

#: What can be done to delays: the label of each, and what became of them.
CHANGES = {"send": ("Send now", "sent"), "move": ("Move", "moved"), "cancel": ("Cancel", "cancelled")}

_TEXTS, _TIMES = ("task", "queue", "args"), ("after", "before")


async def delays(req: PageRequest) -> Page:
    """Show the delays that filters select, in the order in which they are due."""
    problems = dict[str, str]()
    wanted: dict[str, Any] = {name: req.query(name)[:MOST_TYPED] or None for name in _TEXTS}
    wanted |= {name: read_value(req, name, lambda text: coming_time(req, text), problems) for name in _TIMES}
    found = [] if problems else await req.store.delays.list(**wanted, limit=MOST_DELAYS + 1)
    values = {
        "found": found[:MOST_DELAYS], "has_more": len(found) > MOST_DELAYS, "problems": problems, "changes": CHANGES,
        "asked": {name: req.query(name) for name in (*_TEXTS, *_TIMES)},
    }  # fmt: skip
    data = {"delays": [each.as_dict() for each in found[:MOST_DELAYS]], **({"errors": problems} if problems else {})}
    return Page(template="delays.html", values=values, data=data, fragment="content", status=422 if problems else 200)


async def change(req: PageRequest) -> Page | Response:
    """Send, move or cancel the delays that a form names; cancelling, and changing many, asks first."""
    form = await read_form(req.request)
    wanted, ids, text = form["do"], form.all("id"), form["at"].strip()
    if wanted not in CHANGES or not ids:
        raise HTTPException(422, "expected do=send, move or cancel, and an id=... for each delay")
    problems, at = dict[str, str](), None
    if wanted == "move":
        try:
            at = coming_time(req, text)
        except ValueError as exc:
            problems["at"] = str(exc)
    is_asked = wanted == "cancel" or len(ids) > MOST_UNASKED
    if not req.wants_json and (problems or (is_asked and form["confirm"] != "1")):
        values = {
            "wanted": wanted, "label": CHANGES[wanted][0], "ids": ids, "at": text, "problems": problems,
            "back": local_path(req.request, form["next"]),
        }  # fmt: skip
        return Page(template="delays_confirm.html", values=values, fragment="content", status=422 if problems else 200)
    if problems:
        raise InvalidEntry("$.at", problems["at"])
    outcomes = await _change(req, wanted, ids, at, form["note"])
    changed = [each.id for each in outcomes if each.error is None]
    errors = {each.id: str(each.error) for each in outcomes if each.error is not None}
    if req.wants_json:
        return JSONAnswer({"done": changed, "errors": errors}, 409 if errors else 200)
    number = "1 delay" if len(changed) == 1 else f"{len(changed):,} delays"
    said = f"{number} {CHANGES[wanted][1]}."
    if errors:
        said += f" {len(errors):,} not: {next(iter(errors.values()))}."
    return await done(req, said, form["next"], None, "warn" if errors else "good")


async def _change(req: PageRequest, wanted: str, ids: list[str], at: datetime | None, note: str) -> list[DelayOutcome]:
    room, by = req.store.delays, req.user.name
    if wanted == "move":
        return await room.move(ids, at=at, note=note, by=by)
    return await (room.send if wanted == "send" else room.cancel)(ids, note=note, by=by)


ACTIONS = (
    Action(path="/delays", answer=delays, is_heavy=lambda query: any(name in query for name in _TEXTS)),
    Action(path="/delays/change", answer=change, method="POST", right=Right.OPERATE),
)
