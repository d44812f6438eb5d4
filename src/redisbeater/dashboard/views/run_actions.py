"""The changes of runs: stop and restart, of one or of many."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from starlette.exceptions import HTTPException
from starlette.responses import RedirectResponse, Response

from redisbeater.dashboard.access import local_path, read_form
from redisbeater.dashboard.auth import Right
from redisbeater.dashboard.pages import Action, Page, PageRequest, flash
from redisbeater.dashboard.site import JSONAnswer
from redisbeater.dashboard.views.actions import MOST_SECONDS
from redisbeater.exceptions import RedisBeaterError, StoreError

#: Runs that one form changes at most. Stopping one may take two seconds: after ten the page asks whether to go on.
MOST_RUNS = 1_000

#: Runs that are changed at the same time; a thread of the store stays free for others.
AT_ONCE = 3

Change = Callable[..., Awaitable[Any]]


@dataclass
class RunsOutcome:
    """What became of the runs of a form, so far.

    Attributes:
        done: what was done, by id: the id of the new run, or what stopping came to.
        errors: why nothing was done, by id.
        left: the ids for which there was no time.
    """

    done: dict[str, Any] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)
    left: list[str] = field(default_factory=list)


async def act(verb: str, req: PageRequest) -> Page | Response:
    """Do what a form says to the runs that it names; say which are left after ten seconds."""
    form = await read_form(req.request)
    ids = list(dict.fromkeys(run_id for run_id in form.all("id") if run_id))
    if not ids:
        raise HTTPException(400, "no run is chosen")
    if len(ids) > MOST_RUNS:
        raise HTTPException(413, f"one form changes at most {MOST_RUNS:,} runs")
    note, change = form["note"].strip(), req.store.stop if verb == "stop" else req.store.restart
    work = await _worked(partial(change, by=req.user.name, note=note), ids)
    if req.wants_json:
        return JSONAnswer(vars(work), 409 if work.errors else 200)
    if work.errors or work.left:
        values = {"verb": verb, "work": work, "total": len(ids), "note": note, "next": form["next"]}
        return Page(template="runs_left.html", values=values, fragment="content", status=409 if work.errors else 200)
    answer = RedirectResponse(local_path(req.request, form["next"]), 303)
    await flash(req, answer, _said(verb, work))
    return answer


async def _worked(change: Change, ids: list[str]) -> RunsOutcome:
    """Change runs a few at a time; of several go on after one that cannot be changed.

    Raises:
        RedisBeaterError: the only one cannot be changed.
    """
    work, deadline = RunsOutcome(), time.monotonic() + MOST_SECONDS
    for start in range(0, len(ids), AT_ONCE):
        if time.monotonic() > deadline:
            work.left = ids[start:]
            break
        page = ids[start : start + AT_ONCE]
        for run_id, result in zip(page, await asyncio.gather(*map(change, page), return_exceptions=True)):
            if isinstance(result, RedisBeaterError) and len(ids) > 1 and not isinstance(result, StoreError):
                work.errors[run_id] = str(result)
            elif isinstance(result, BaseException):
                raise result
            else:
                work.done[run_id] = result if isinstance(result, str) else result.as_dict()
    return work


def _said(verb: str, work: RunsOutcome) -> str:
    if len(work.done) > 1:
        return f"{len(work.done):,} runs: {'sent again' if verb == 'restart' else 'asked to stop'}."
    (result,) = work.done.values()
    return f"Sent again as run {result}." if isinstance(result, str) else str(result["sentence"])


ACTIONS = tuple(
    Action(path=f"/runs/{verb}", answer=partial(act, verb), method="POST", right=Right.OPERATE)
    for verb in ("stop", "restart")
)
