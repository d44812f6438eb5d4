"""The undo of a change: by the person who made it, within an hour, and with the right that it needs now."""

from __future__ import annotations

from starlette.exceptions import HTTPException
from starlette.responses import Response

from redisbeater.dashboard.flash import Undo, keep_undo, read_undo
from redisbeater.dashboard.forms import Form, read_form
from redisbeater.dashboard.pages import Action, Page, Visit
from redisbeater.dashboard.users import Right
from redisbeater.dashboard.views.actions import CHANGES, Work, act_on
from redisbeater.dashboard.views.chosen import Chosen, Former
from redisbeater.dashboard.views.editing import save_form

__all__ = ("ACTIONS",)


async def undo(visit: Visit) -> Page | Response:
    """Undo the change that a form names by its id.

    Raises:
        HTTPException: 403, the right is missing; 409, there is nothing to undo.
    """
    form = await read_form(visit.request)
    found = await read_undo(visit, form["id"])
    if found is None:
        raise HTTPException(409, "this cannot be undone any more: it is undone, or was more than an hour ago")
    _check_right(visit, Right.EDIT if found.verb == "edit" else CHANGES[found.verb][1])
    if found.verb == "edit":
        answer, left = await save_form(visit, Form(list(found.former.items()))), None
    else:
        answer, left = await _bring_back(visit, form, found)
    await keep_undo(visit, form["id"], left)
    return answer


async def _bring_back(visit: Visit, form: Form, found: Undo) -> tuple[Page | Response, Undo | None]:
    """Change entries back; return the page, and what is left to undo if that took too long."""
    former, work = {name: Former(*each) for name, each in found.former.items()}, Work()
    answer = await act_on(found.verb, CHANGES[found.verb][0], visit, Chosen.of_undo(form, former), work)
    return answer, Undo(verb=found.verb, former={name: former[name] for name in work.left}) if work.left else None


def _check_right(visit: Visit, right: Right) -> None:
    if not visit.may(right):
        raise HTTPException(403, f"the right to {right.value} is missing")


ACTIONS = (Action(path="/undo", answer=undo, right=Right.OPERATE, method="POST"),)
