"""The changes of entries: enable, disable, trigger, skip, delete, restore; of one, of many; and their undoing."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, tzinfo
from functools import partial
from typing import Any

from starlette.exceptions import HTTPException
from starlette.responses import RedirectResponse, Response

from redisbeater.dashboard.access import Form, local_path, read_form
from redisbeater.dashboard.auth import Right
from redisbeater.dashboard.pages import MOST_UNDONE, Action, Page, Undo, Visit, flash, keep_undo, read_undo
from redisbeater.dashboard.site import JSONAnswer
from redisbeater.dashboard.views.editing import save_form
from redisbeater.dashboard.views.queries import Chosen, Former, read_chosen
from redisbeater.display import shown
from redisbeater.exceptions import InvalidEntry, RedisBeaterError, StoreError
from redisbeater.management.bulk import Outcome
from redisbeater.management.rows import Row
from redisbeater.times import read_time

#: How long one form may take; then it says how far it came, and asks whether to go on.
MOST_SECONDS = 10.0

#: Entries that are changed in one step, where one step changes several.
PIECE = 100

#: The verb that undoes another one.
UNDO = {"enable": "disable", "disable": "enable", "delete": "restore", "skip-next": "skip-next"}

DONE = {"enable": "enabled", "disable": "disabled", "delete": "deleted", "restore": "restored", "trigger": "triggered",
        "skip-next": "the next run is skipped"}  # fmt: skip

#: The changes that ask first, always, or of more entries than this.
ASKS = {"delete": 0, "trigger": 1, "disable": 20, "enable": 20, "restore": 20, "skip-next": 20}


@dataclass
class Work:
    """What became of the entries of a form, so far.

    Attributes:
        done: what was done.
        errors: why nothing was done, by name.
        facts: the runs that were sent, by name.
        left: the entries for which there was no time.
        changed: those of ``done`` that are different now, with what brings them back.
    """

    done: list[str] = field(default_factory=list)
    errors: dict[str, str] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)
    left: list[str] = field(default_factory=list)
    changed: dict[str, Former] = field(default_factory=dict)


Change = Callable[[Visit, Chosen, Sequence[str], Work], Awaitable[None]]


async def act(verb: str, change: Change, visit: Visit) -> Page | Response:
    """Do what a form says to the entries that it names; ask first if they are many."""
    return await act_on(verb, change, visit, await read_chosen(visit))


async def act_on(verb: str, change: Change, visit: Visit, chosen: Chosen, work: Work | None = None) -> Page | Response:
    """Change entries, and report each outcome on a page, and in ``work`` for a caller who passes one."""
    work = work or Work()
    if len(chosen.names) > ASKS[verb] and not chosen.is_confirmed and not visit.wants_json:
        back = local_path(visit.request, chosen.form["next"])
        is_final = verb == "trigger" or len(chosen.names) > MOST_UNDONE
        values = {
            "verb": verb,
            "chosen": chosen,
            "work": None,
            "done_word": DONE[verb],
            "back": back,
            "is_final": is_final,
        }
        return Page(template="confirm.html", values=values, fragment="content")
    await _do(visit, chosen, change, work, PIECE if verb in ("enable", "disable", "delete") else 1)
    data = {"done": work.done, "errors": work.errors, "left": work.left, **({"runs": work.facts} if work.facts else {})}
    if visit.wants_json:
        return JSONAnswer(data, 200 if not work.errors else 409)
    if work.errors or work.left:
        again = chosen.names if chosen.form["until"] and not work.done else work.left  # most probably it is no time
        values = {"verb": verb, "chosen": chosen, "work": work, "again": again, "done_word": _done_word(verb, chosen)}
        return Page(template="confirm.html", values=values, fragment="content", status=409 if work.errors else 200)
    answer = RedirectResponse(local_path(visit.request, chosen.form["next"]), 303)
    await flash(visit, answer, _said(verb, chosen, work), _undo(verb, work))
    return answer


async def _do(visit: Visit, chosen: Chosen, change: Change, work: Work, size: int) -> None:
    deadline = time.monotonic() + MOST_SECONDS
    for start in range(0, len(chosen.names), size):
        if time.monotonic() > deadline:
            work.left = chosen.names[start:]
            break
        await change(visit, chosen, chosen.names[start : start + size], work)


def _done_word(verb: str, chosen: Chosen) -> str:
    return "skip undone" if verb == "skip-next" and _is_undo(chosen) else DONE[verb]


def _is_undo(chosen: Chosen) -> bool:
    return bool(chosen.undo_id) or chosen.form["undo"] == "1"


def _said(verb: str, chosen: Chosen, work: Work) -> str:
    names = f"{shown(work.done[0], 80)}" if len(work.done) == 1 else f"{len(work.done):,} entries"
    run = f", run {next(iter(work.facts.values()))}" if len(work.facts) == 1 else ""
    return f"{names}: {_done_word(verb, chosen)}{run}."


def _undo(verb: str, work: Work) -> Undo | None:
    """Return the undo of a change, or None if there is nothing to undo."""
    return Undo(verb=UNDO[verb], former=work.changed) if verb in UNDO and work.changed else None


def _record(work: Work, outcomes: Sequence[Outcome]) -> None:
    for outcome in outcomes:
        if isinstance(outcome.error, StoreError):
            raise outcome.error
        if outcome.error is not None:
            work.errors[outcome.name] = str(outcome.error)
            continue
        work.done.append(outcome.name)
        if outcome.is_changed:
            until = outcome.was_until.isoformat() if outcome.was_until else ""
            work.changed[outcome.name] = Former(outcome.entry.version if outcome.entry else "", until)


async def _enable(visit: Visit, chosen: Chosen, names: Sequence[str], work: Work) -> None:
    if chosen.versions:
        await _update(visit, chosen, names, work, lambda _: {"enabled": True, "disabled_until": None})
    else:
        _record(work, await visit.store.enable_many(names, **_author(visit, chosen)))


async def _disable(visit: Visit, chosen: Chosen, names: Sequence[str], work: Work) -> None:
    author, until = _author(visit, chosen), chosen.form["until"].strip()
    if chosen.versions:
        await _update(visit, chosen, names, work, lambda row: _disabled(visit, chosen.until(row.name), row))
        return
    if not until:
        _record(work, await visit.store.disable_many(names, **author))
        return

    async def disable(name: str) -> None:
        row = await visit.store.row(name)
        entry = await visit.store.disable(name, until=_until(visit, until, row.zone), **author)
        if row.is_enabled:
            work.changed[name] = Former(version=entry.version)

    await _each(names, work, disable)


def _disabled(visit: Visit, until: str, row: Row) -> dict[str, Any]:
    moment = _until(visit, until, row.zone) if until else None
    return {"enabled": moment is not None, "disabled_until": moment}


async def _update(visit: Visit, chosen: Chosen, names: Sequence[str], work: Work, fields: Callable[[Row], Any]) -> None:
    """Change fields of entries that nobody else has changed since they had their versions."""

    async def update(name: str) -> None:
        row = await visit.store.row(name)
        version, author = chosen.versions[name], _author(visit, chosen)
        await visit.store.update(name, if_version=version, **fields(row), **author)

    await _each(names, work, update)


def _until(visit: Visit, text: str, zone: tzinfo) -> datetime:
    """Return until when an entry is disabled.

    Raises:
        InvalidEntry: the text is no time.
    """
    try:
        return read_time(text, now=visit.clock.now, zone=zone)
    except ValueError as exc:
        raise InvalidEntry("$.until", str(exc)) from exc


async def _delete(visit: Visit, chosen: Chosen, names: Sequence[str], work: Work) -> None:
    _record(work, await visit.store.delete_many(names, **_author(visit, chosen)))


async def _restore(visit: Visit, chosen: Chosen, names: Sequence[str], work: Work) -> None:
    await _each(names, work, lambda name: visit.store.restore(name, **_author(visit, chosen)))


async def _skip_next(visit: Visit, chosen: Chosen, names: Sequence[str], work: Work) -> None:
    undo, author = _is_undo(chosen), _author(visit, chosen)

    async def skip(name: str) -> None:
        before = (await visit.store.get(name)).definition().skip
        if undo and (version := chosen.versions.get(name)):
            mine = chosen.former.get(name)  # of one skip: what was left out before stays so
            left = [moment for moment in before if moment.isoformat() not in mine.skipped] if mine else []
            await visit.store.update(name, if_version=version, skip=left, **author)
            return
        entry = await visit.store.skip_next(name, undo=undo, **author)
        if not undo:
            skipped = [moment.isoformat() for moment in entry.definition().skip if moment not in before]
            work.changed[name] = Former(entry.version, skipped=skipped)

    await _each(names, work, skip)


async def _trigger(visit: Visit, chosen: Chosen, names: Sequence[str], work: Work) -> None:
    async def trigger(name: str) -> None:
        work.facts[name] = await visit.store.trigger(name, **_author(visit, chosen))

    await _each(names, work, trigger)


async def _each(names: Sequence[str], work: Work, change: Callable[[str], Awaitable[Any]]) -> None:
    """Change entries one by one; go on after one that cannot be changed."""
    for name in names:
        try:
            await change(name)
        except StoreError:
            raise
        except RedisBeaterError as exc:
            work.errors[name] = str(exc)
        else:
            work.done.append(name)


def _author(visit: Visit, chosen: Chosen) -> dict[str, Any]:
    return {"by": visit.user.name, "note": chosen.form["note"].strip()}


#: The changes of entries by their verbs, and the right that each needs.
CHANGES: Mapping[str, tuple[Change, Right]] = {
    "enable": (_enable, Right.OPERATE),
    "disable": (_disable, Right.OPERATE),
    "trigger": (_trigger, Right.OPERATE),
    "skip-next": (_skip_next, Right.OPERATE),
    "delete": (_delete, Right.EDIT),
    "restore": (_restore, Right.EDIT),
}


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


ACTIONS = (
    *(
        Action(path=f"/entries/{verb}", answer=partial(act, verb, change), method="POST", right=right)
        for verb, (change, right) in CHANGES.items()
    ),
    Action(path="/undo", answer=undo, right=Right.OPERATE, method="POST"),
)
