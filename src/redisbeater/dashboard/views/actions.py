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
from redisbeater.dashboard.pages import MOST_UNDONE, Action, Page, PageRequest, Undo, flash, keep_undo, read_undo
from redisbeater.dashboard.site import JSONAnswer
from redisbeater.dashboard.views.editing import save_form
from redisbeater.dashboard.views.queries import Chosen, StateBefore, read_chosen
from redisbeater.display import shown
from redisbeater.exceptions import InvalidEntry, RedisBeaterError, StoreError
from redisbeater.management.bulk import Outcome
from redisbeater.management.entry_view import EntryView
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
class EntriesOutcome:
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
    changed: dict[str, StateBefore] = field(default_factory=dict)


Change = Callable[[PageRequest, Chosen, Sequence[str], EntriesOutcome], Awaitable[None]]


async def act(verb: str, change: Change, req: PageRequest) -> Page | Response:
    """Do what a form says to the entries that it names; ask first if they are many."""
    return await act_on(verb, change, req, await read_chosen(req))


async def act_on(
    verb: str, change: Change, req: PageRequest, chosen: Chosen, work: EntriesOutcome | None = None
) -> Page | Response:
    """Change entries, and report each outcome on a page, and in ``work`` for a caller who passes one."""
    work = work or EntriesOutcome()
    if len(chosen.names) > ASKS[verb] and not chosen.is_confirmed and not req.wants_json:
        back = local_path(req.request, chosen.form["next"])
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
    await _do(req, chosen, change, work, PIECE if verb in ("enable", "disable", "delete") else 1)
    data = {"done": work.done, "errors": work.errors, "left": work.left, **({"runs": work.facts} if work.facts else {})}
    if req.wants_json:
        return JSONAnswer(data, 200 if not work.errors else 409)
    if work.errors or work.left:
        again = chosen.names if chosen.form["until"] and not work.done else work.left  # most probably it is no time
        values = {"verb": verb, "chosen": chosen, "work": work, "again": again, "done_word": _done_word(verb, chosen)}
        return Page(template="confirm.html", values=values, fragment="content", status=409 if work.errors else 200)
    answer = RedirectResponse(local_path(req.request, chosen.form["next"]), 303)
    await flash(req, answer, _said(verb, chosen, work), _undo(verb, work))
    return answer


async def _do(req: PageRequest, chosen: Chosen, change: Change, work: EntriesOutcome, size: int) -> None:
    deadline = time.monotonic() + MOST_SECONDS
    for start in range(0, len(chosen.names), size):
        if time.monotonic() > deadline:
            work.left = chosen.names[start:]
            break
        await change(req, chosen, chosen.names[start : start + size], work)


def _done_word(verb: str, chosen: Chosen) -> str:
    return "skip undone" if verb == "skip-next" and _is_undo(chosen) else DONE[verb]


def _is_undo(chosen: Chosen) -> bool:
    return bool(chosen.undo_id) or chosen.form["undo"] == "1"


def _said(verb: str, chosen: Chosen, work: EntriesOutcome) -> str:
    names = f"{shown(work.done[0], 80)}" if len(work.done) == 1 else f"{len(work.done):,} entries"
    run = f", run {next(iter(work.facts.values()))}" if len(work.facts) == 1 else ""
    return f"{names}: {_done_word(verb, chosen)}{run}."


def _undo(verb: str, work: EntriesOutcome) -> Undo | None:
    """Return the undo of a change, or None if there is nothing to undo."""
    return Undo(verb=UNDO[verb], former=work.changed) if verb in UNDO and work.changed else None


def _record(work: EntriesOutcome, outcomes: Sequence[Outcome]) -> None:
    for outcome in outcomes:
        if isinstance(outcome.error, StoreError):
            raise outcome.error
        if outcome.error is not None:
            work.errors[outcome.name] = str(outcome.error)
            continue
        work.done.append(outcome.name)
        if outcome.is_changed:
            until = outcome.was_until.isoformat() if outcome.was_until else ""
            work.changed[outcome.name] = StateBefore(outcome.entry.version if outcome.entry else "", until)


async def _enable(req: PageRequest, chosen: Chosen, names: Sequence[str], work: EntriesOutcome) -> None:
    if chosen.versions:
        await _update(req, chosen, names, work, lambda _: {"enabled": True, "disabled_until": None})
    else:
        _record(work, await req.store.enable_many(names, **_author(req, chosen)))


async def _disable(req: PageRequest, chosen: Chosen, names: Sequence[str], work: EntriesOutcome) -> None:
    author, until = _author(req, chosen), chosen.form["until"].strip()
    if chosen.versions:
        await _update(req, chosen, names, work, lambda entry: _disabled(req, chosen.until(entry.name), entry))
        return
    if not until:
        _record(work, await req.store.disable_many(names, **author))
        return

    async def disable(name: str) -> None:
        before = await req.store.view(name)
        entry = await req.store.disable(name, until=_until(req, until, before.zone), **author)
        if before.is_enabled:
            work.changed[name] = StateBefore(version=entry.version)

    await _each(names, work, disable)


def _disabled(req: PageRequest, until: str, entry: EntryView) -> dict[str, Any]:
    moment = _until(req, until, entry.zone) if until else None
    return {"enabled": moment is not None, "disabled_until": moment}


async def _update(
    req: PageRequest, chosen: Chosen, names: Sequence[str], work: EntriesOutcome, fields: Callable[[EntryView], Any]
) -> None:
    """Change fields of entries that nobody else has changed since they had their versions."""

    async def update(name: str) -> None:
        entry = await req.store.view(name)
        version, author = chosen.versions[name], _author(req, chosen)
        await req.store.update(name, if_version=version, **fields(entry), **author)

    await _each(names, work, update)


def _until(req: PageRequest, text: str, zone: tzinfo) -> datetime:
    """Return until when an entry is disabled.

    Raises:
        InvalidEntry: the text is no time.
    """
    try:
        return read_time(text, now=req.clock.now, zone=zone)
    except ValueError as exc:
        raise InvalidEntry("$.until", str(exc)) from exc


async def _delete(req: PageRequest, chosen: Chosen, names: Sequence[str], work: EntriesOutcome) -> None:
    _record(work, await req.store.delete_many(names, **_author(req, chosen)))


async def _restore(req: PageRequest, chosen: Chosen, names: Sequence[str], work: EntriesOutcome) -> None:
    await _each(names, work, lambda name: req.store.restore(name, **_author(req, chosen)))


async def _skip_next(req: PageRequest, chosen: Chosen, names: Sequence[str], work: EntriesOutcome) -> None:
    undo, author = _is_undo(chosen), _author(req, chosen)

    async def skip(name: str) -> None:
        before = (await req.store.get(name)).definition().skip
        if undo and (version := chosen.versions.get(name)):
            mine = chosen.former.get(name)  # of one skip: what was left out before stays so
            left = [moment for moment in before if moment.isoformat() not in mine.skipped] if mine else []
            await req.store.update(name, if_version=version, skip=left, **author)
            return
        entry = await req.store.skip_next(name, undo=undo, **author)
        if not undo:
            skipped = [moment.isoformat() for moment in entry.definition().skip if moment not in before]
            work.changed[name] = StateBefore(entry.version, skipped=skipped)

    await _each(names, work, skip)


async def _trigger(req: PageRequest, chosen: Chosen, names: Sequence[str], work: EntriesOutcome) -> None:
    async def trigger(name: str) -> None:
        work.facts[name] = await req.store.trigger(name, **_author(req, chosen))

    await _each(names, work, trigger)


async def _each(names: Sequence[str], work: EntriesOutcome, change: Callable[[str], Awaitable[Any]]) -> None:
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


def _author(req: PageRequest, chosen: Chosen) -> dict[str, Any]:
    return {"by": req.user.name, "note": chosen.form["note"].strip()}


#: The changes of entries by their verbs, and the right that each needs.
CHANGES: Mapping[str, tuple[Change, Right]] = {
    "enable": (_enable, Right.OPERATE),
    "disable": (_disable, Right.OPERATE),
    "trigger": (_trigger, Right.OPERATE),
    "skip-next": (_skip_next, Right.OPERATE),
    "delete": (_delete, Right.EDIT),
    "restore": (_restore, Right.EDIT),
}


async def undo(req: PageRequest) -> Page | Response:
    """Undo the change that a form names by its id.

    Raises:
        HTTPException: 403, the right is missing; 409, there is nothing to undo.
    """
    form = await read_form(req.request)
    found = await read_undo(req, form["id"])
    if found is None:
        raise HTTPException(409, "this cannot be undone any more: it is undone, or was more than an hour ago")
    _check_right(req, Right.EDIT if found.verb == "edit" else CHANGES[found.verb][1])
    if found.verb == "edit":
        answer, left = await save_form(req, Form(list(found.former.items()))), None
    else:
        answer, left = await _bring_back(req, form, found)
    await keep_undo(req, form["id"], left)
    return answer


async def _bring_back(req: PageRequest, form: Form, found: Undo) -> tuple[Page | Response, Undo | None]:
    """Change entries back; return the page, and what is left to undo if that took too long."""
    former, work = {name: StateBefore(*each) for name, each in found.former.items()}, EntriesOutcome()
    answer = await act_on(found.verb, CHANGES[found.verb][0], req, Chosen.of_undo(form, former), work)
    return answer, Undo(verb=found.verb, former={name: former[name] for name in work.left}) if work.left else None


def _check_right(req: PageRequest, right: Right) -> None:
    if not req.may(right):
        raise HTTPException(403, f"the right to {right.value} is missing")


ACTIONS = (
    *(
        Action(path=f"/entries/{verb}", answer=partial(act, verb, change), method="POST", right=right)
        for verb, (change, right) in CHANGES.items()
    ),
    Action(path="/undo", answer=undo, right=Right.OPERATE, method="POST"),
)
