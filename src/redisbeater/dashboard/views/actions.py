"""The verbs on entries and on runs, of one or of many; and their undoing."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone, tzinfo
from functools import partial
from typing import Any

from starlette.exceptions import HTTPException
from starlette.responses import RedirectResponse, Response

from redisbeater.context import Context
from redisbeater.dashboard.access import Form, local_path, read_form
from redisbeater.dashboard.auth import Right
from redisbeater.dashboard.page_store import PageStore
from redisbeater.dashboard.pages import (
    TOO_MUCH,
    Action,
    Page,
    PageRequest,
    Rest,
    StateBefore,
    Tone,
    Undo,
    flash,
    is_too_much,
    keep_rest,
    keep_undo,
    read_undo,
)
from redisbeater.dashboard.site import JSONAnswer
from redisbeater.dashboard.template_environment import quote_name
from redisbeater.dashboard.views.editing import known_minutes, save_form
from redisbeater.dashboard.views.entries import asked_name, zone_of
from redisbeater.dashboard.views.queries import (
    Chosen,
    FoundHistory,
    HistoryQuery,
    not_understood,
    past_time,
    read_chosen,
    whole,
)
from redisbeater.dashboard.words import is_for
from redisbeater.display import shown
from redisbeater.editing.edit import Author
from redisbeater.exceptions import EntryNotFound, InvalidEntry, RedisBeaterError, RunNotFound, StoreError
from redisbeater.management.async_store import AsyncRuns
from redisbeater.management.bulk import Outcome, disable_many
from redisbeater.management.edit_report import leave_out_next, revert_change
from redisbeater.management.entry_view import EntryView
from redisbeater.management.moved import Moved, moved_by_leaving
from redisbeater.management.runs.backfill import MOST_FIRE_TIMES, Backfill
from redisbeater.management.runs.history import is_begin
from redisbeater.management.shown_entries import view_of
from redisbeater.management.verbs import VERBS, Change, ChangeOfMany, Verb
from redisbeater.model.run import Run
from redisbeater.times import read_time

#: How long one form of a program may take, or one about runs; then it says what is left. And how long each form of a
#: person about entries, which the next one follows by itself.
MOST_SECONDS, STEP_SECONDS = 10.0, 3.0

#: Entries that a question sends back in its form; of more Redis keeps the names.
MOST_IN_FORM = 100

#: Entries that are changed in one step, where one step changes several.
PIECE = 100

#: Entries of which a question says what their change moves.
MOST_FORESEEN = 1_000

#: Runs that one form changes at most. Stopping one may take two seconds: after ten the page asks whether to go on.
MOST_RUNS = 1_000

#: Runs that are changed at the same time; a thread of the store stays free for others.
AT_ONCE = 3


@dataclass
class EntriesOutcome:
    """What became of the entries of a form, so far.

    Attributes:
        done: what was done.
        kept: why an entry was left as it was, by name.
        errors: why nothing was done, by name.
        facts: the runs that were sent, by name.
        left: the entries for which there was no time.
        changed: those of ``done`` that are different now, with what brings them back.
    """

    done: list[str] = field(default_factory=list)
    kept: dict[str, str] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)
    left: list[str] = field(default_factory=list)
    changed: dict[str, StateBefore] = field(default_factory=dict)


async def act(verb: Verb, req: PageRequest) -> Page | Response:
    """Do what a form says to the entries that it names; ask first if they are many."""
    return await act_on(verb, req, await read_chosen(req, verb.name))


async def act_on(verb: Verb, req: PageRequest, chosen: Chosen, work: EntriesOutcome | None = None) -> Page | Response:
    """Change entries, and report each outcome on a page, and in ``work`` for a caller who passes one."""
    work, rest_id = work or EntriesOutcome(), chosen.rest_id
    problems = {} if req.wants_json else _problems(verb, req, chosen)
    is_asked = chosen.form["ask"] == "1" or len(chosen.names) > verb.most_unasked
    if problems or (is_asked and not chosen.is_confirmed and not req.wants_json):
        if not rest_id and len(chosen.names) > MOST_IN_FORM:
            rest_id = await keep_rest(req, chosen.rest)
        return await _question(verb, req, chosen, rest_id, problems)
    if chosen.form["step"] == "stop":
        work.left = chosen.names
    else:
        await _do(verb, req, chosen, work)
    if req.wants_json:
        data = {"done": work.done, "kept": work.kept, "errors": work.errors, "left": work.left}
        return JSONAnswer({**data, **({"runs": work.facts} if work.facts else {})}, 200 if not work.errors else 409)
    return await _answer(verb, req, chosen, work)


async def _question(verb: Verb, req: PageRequest, chosen: Chosen, rest_id: str, problems: Mapping[str, str]) -> Page:
    values = {
        "moved": None if problems else await _moved(verb, req, chosen),
        "verb": verb, "chosen": chosen, "rest": None, "rest_id": rest_id, "problems": problems,
        "back": local_path(req.request, chosen.form["next"]),
        "is_final": not verb.undo or is_too_much(chosen.names),
    }  # fmt: skip
    return Page(template="confirm.html", values=values, fragment="content", status=422 if problems else 200)


async def _moved(verb: Verb, req: PageRequest, chosen: Chosen) -> Moved | None:
    """Return the runs that fall away by a verb, or None if it moves none, is about too many, or nobody knows."""
    if verb.name not in ("disable", "delete") or len(chosen.names) > MOST_FORESEEN:
        return None
    known, until = await known_minutes(req), None
    if known is None:
        return None
    if text := chosen.form["until"].strip() if verb.name == "disable" else "":
        until = _until(req, text, req.clock.now.tzinfo or timezone.utc)
    return await req.store.ask(moved_by_leaving, chosen.names, until, known.per_minute, known.now, known.end)


def _problems(verb: Verb, req: PageRequest, chosen: Chosen) -> dict[str, str]:
    """Return the problems of the arguments of a verb, by their names."""
    problems, given = dict[str, str](), verb.given(chosen.form.flat)
    for name, text in given.items():
        try:
            verb.read({name: text}, req.clock.now, timezone.utc)
        except InvalidEntry as exc:
            problems[name] = not_understood(text) if verb.is_local({name: text}) else exc.problem
    return problems


async def _answer(verb: Verb, req: PageRequest, chosen: Chosen, work: EntriesOutcome) -> Page | Response:
    """Say what was done: on the page that the person came from, or on one that says what is left, or was not done."""
    rest, is_stopped, rest_id = _rest_after(chosen.rest, work), chosen.form["step"] == "stop", chosen.rest_id
    is_over = is_stopped or not rest.names
    if chosen.undo_id:  # who undoes keeps the rest
        undo = None
    else:
        undo = None
        if verb.undo and rest.former and is_over:
            left = rest.done - len(rest.former) + sum(rest.kept.values())
            undo = Undo(verb=verb.undo, former=rest.former, left=left)
        if not is_over or rest_id:
            rest_id = await keep_rest(req, None if is_over else rest, rest_id)
    if is_over and not rest.errors:
        answer = RedirectResponse(local_path(req.request, chosen.form["next"]), 303)
        text = await _said(verb, req, chosen, work, rest) + (TOO_MUCH if rest.former is None else "")
        await flash(req, answer, text, undo, "warn" if rest.names or rest.former is None else "good")
        return answer
    values = {
        "verb": verb, "chosen": chosen, "rest": rest, "is_over": is_over, "done_word": _done_word(verb, chosen),
        "rest_id": rest_id, "undo_id": await keep_undo(req, undo) if undo else "",
    }  # fmt: skip
    return Page(template="confirm.html", values=values, fragment="content", status=409 if is_over else 200)


def _rest_after(before: Rest, work: EntriesOutcome) -> Rest:
    """Return the rest of a change after a form, without its undo if that is too much."""
    former = None if before.former is None else {**before.former, **work.changed}
    if former is not None and is_too_much(former):
        former = None
    done, errors = before.done + len(work.done), {**before.errors, **work.errors}
    kept = dict(Counter(before.kept) + Counter(work.kept.values()))
    return Rest(verb=before.verb, names=work.left, done=done, kept=kept, errors=errors, former=former)


async def _do(verb: Verb, req: PageRequest, chosen: Chosen, work: EntriesOutcome) -> None:
    change, size = OWN.get(verb.name, _change), PIECE if verb.many else 1
    deadline = time.monotonic() + (MOST_SECONDS if req.wants_json else STEP_SECONDS)
    for end in range(size, len(chosen.names) + size, size):  # some are changed, however late it is
        await change(verb, req, chosen, chosen.names[end - size : end], work)
        if time.monotonic() > deadline:
            work.left = chosen.names[end:]
            break


def _done_word(verb: Verb, chosen: Chosen) -> str:
    if chosen.former and verb.name in ("enable", "disable"):
        return "restored the former state of"
    return "restored the next run of" if verb.name == "skip-next" and _is_undo(chosen) else verb.done


def _is_undo(chosen: Chosen) -> bool:
    return bool(chosen.undo_id) or chosen.form["undo"] == "1"


async def _said(verb: Verb, req: PageRequest, chosen: Chosen, work: EntriesOutcome, rest: Rest) -> str:
    """Say what happened, and of one entry what comes next."""
    word = _done_word(verb, chosen).capitalize()
    if rest.total != 1 or not work.done:
        number = f"{rest.done:,} of {rest.total:,}" if rest.names else f"{rest.done:,}"
        return f"{word} {number} {'entry' if number == '1' else 'entries'}{rest.kept_words}."
    name = work.done[0]
    if name in chosen.former and verb.name in ("enable", "disable"):
        word = "Enabled" if chosen.former[name].is_enabled else "Disabled"
    said, next_run = f"{word} {shown(name, 80)}", ""
    if name in work.facts:
        said = f"{word} {shown(name, 80)}: run {work.facts[name]}"
    with suppress(EntryNotFound):  # deleted, by this or meanwhile
        entry = await req.store.ask(view_of, name)
        if entry.disabled_until:
            said += f" until {req.clock.words(entry.disabled_until, entry.zone)}"
            said += _no_longer(req, work.changed.get(name), entry.zone)
        if verb.name == "skip-next" and (skipped := work.changed.get(name)):
            moments = map(datetime.fromisoformat, skipped.skipped)
            said = f"Skipped {', '.join(req.clock.words(each, entry.zone) for each in moments)} of {shown(name, 80)}"
        if entry.next and entry.is_enabled and not work.facts:
            next_run = f" Next run: {req.clock.words(entry.next, entry.zone)}."
    return f"{said}.{next_run}"


def _no_longer(req: PageRequest, before: StateBefore | None, zone: tzinfo) -> str:
    """Say how else an entry was disabled that is disabled until a time now."""
    if before is None or before.is_enabled:
        return ""
    end = req.clock.words(datetime.fromisoformat(before.until), zone) if before.until else ""
    return f", no longer {f'until {end}' if end else 'for good'}"


async def _change(
    verb: Verb, req: PageRequest, chosen: Chosen, names: Sequence[str], work: EntriesOutcome, **more: Any
) -> None:
    """Do a verb to entries, to all of them at once where the store can."""
    given = verb.given(chosen.form.flat)
    is_local = verb.is_local(given)
    passed = {**more, **verb.read(given, req.clock.now, timezone.utc), **_author(req, chosen)}
    if verb.many and not is_local:
        _record(work, await _awaited(req.store, verb.many)(names, **passed))
        return

    async def change(name: str) -> None:
        zone = await zone_of(req, name) if is_local else None
        local = verb.read(given, req.clock.now, zone) if zone else {}
        result = await _awaited(req.store, verb.one)(name, **{**passed, **local})
        if isinstance(result, str):
            work.facts[name] = result

    await _each(names, work, change)


def _awaited(owner: PageStore | AsyncRuns, method: Change | ChangeOfMany) -> Callable[..., Awaitable[Any]]:
    """Return the method of an awaitable store, or of its runs, that does what the method of a verb does."""
    return getattr(owner, method.__name__)


def _record(work: EntriesOutcome, outcomes: Sequence[Outcome]) -> None:
    for outcome in outcomes:
        if isinstance(outcome.error, StoreError):
            raise outcome.error
        if outcome.error is not None:
            work.errors[outcome.name] = str(outcome.error)
            continue
        if outcome.left:
            work.kept[outcome.name] = outcome.left
            continue
        work.done.append(outcome.name)
        if outcome.is_changed:
            until = outcome.was_until.isoformat() if outcome.was_until else ""
            version = outcome.entry.version if outcome.entry else ""
            work.changed[outcome.name] = StateBefore(version, outcome.was_enabled, until)


async def _trigger(verb: Verb, req: PageRequest, chosen: Chosen, names: Sequence[str], work: EntriesOutcome) -> None:
    """Start runs; a program says the id of the only one, so that it can ask again."""
    task_id = chosen.form["task_id"]
    await _change(verb, req, chosen, names, work, **({"task_id": task_id} if task_id else {}))


async def _switch(verb: Verb, req: PageRequest, chosen: Chosen, names: Sequence[str], work: EntriesOutcome) -> None:
    """Enable or disable entries: those that have their versions, until a time, or all at once."""
    until = chosen.form["until"].strip() if verb.name == "disable" else ""
    if chosen.versions:
        await _update(req, chosen, names, work, partial(_switched, verb, req, chosen))
    elif until:
        given, is_one = partial(_until, req, until), chosen.is_one_act
        author = Author.of(**_author(req, chosen))

        def disable(context: Context) -> list[Outcome]:
            return list(disable_many(context, names, author=author, until=given, keeps_longer=not is_one))

        _record(work, await req.store.ask(disable))
    else:
        await _change(verb, req, chosen, names, work)


def _switched(verb: Verb, req: PageRequest, chosen: Chosen, entry: EntryView) -> dict[str, Any]:
    """Return the fields that an undo brings back, or that a form with versions asks for."""
    before, text = chosen.former.get(entry.name), chosen.form["until"].strip()
    if before is None:
        moment = _until(req, text, entry.zone) if text and verb.name == "disable" else None
        return {"enabled": verb.name == "enable" or moment is not None, "disabled_until": moment}
    end = datetime.fromisoformat(before.until) if before.until else None
    is_ahead = end is not None and end > req.clock.now
    return {"enabled": before.is_enabled or end is not None, "disabled_until": end if is_ahead else None}


async def _update(
    req: PageRequest, chosen: Chosen, names: Sequence[str], work: EntriesOutcome, fields: Callable[[EntryView], Any]
) -> None:
    """Change fields of entries that nobody else has changed since they had their versions."""

    async def update(name: str) -> None:
        entry = await req.store.ask(view_of, name)
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


async def _skip_next(verb: Verb, req: PageRequest, chosen: Chosen, names: Sequence[str], work: EntriesOutcome) -> None:
    undo, author = _is_undo(chosen), _author(req, chosen)

    async def skip(name: str) -> None:
        if not undo:
            skipped, version = await req.store.ask(leave_out_next, name, **author)
            work.changed[name] = StateBefore(version, skipped=[moment.isoformat() for moment in skipped])
        elif version := chosen.versions.get(name, ""):
            before, mine = (await req.store.get(name))._definition().skip, chosen.former.get(name)
            # of one skip: what was left out before stays so
            left = [moment for moment in before if moment.isoformat() not in mine.skipped] if mine else []
            await req.store.update(name, if_version=version, skip=left, **author)
        else:
            await req.store.skip_next(name, undo=True, **author)

    await _each(names, work, skip)


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
    undone = next((verb.done for verb in VERBS.values() if verb.undo == chosen.rest.verb), "") if chosen.undo_id else ""
    return {"by": req.user.name, "note": chosen.form["note"].strip() or (f"undo: {undone}" if undone else "")}


#: The verbs that do more than :func:`_change`: with an id, or with a version and what an undo brings back.
OWN: Mapping[str, Callable[[Verb, PageRequest, Chosen, Sequence[str], EntriesOutcome], Awaitable[None]]] = {
    "trigger": _trigger,
    "enable": _switch,
    "disable": _switch,
    "skip-next": _skip_next,
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
    right = "edit" if found.verb == "edit" else VERBS[found.verb].right
    if not req.may(right):
        raise HTTPException(403, f"the right to {right} is missing")
    if found.verb == "edit":
        answer, left = await save_form(req, Form(list(found.former.items()))), None
    else:
        answer, left = await _bring_back(req, form, found)
    await keep_undo(req, left, form["id"])
    return answer


async def _bring_back(req: PageRequest, form: Form, found: Undo) -> tuple[Page | Response, Undo | None]:
    """Change entries back; return the page, and what is left to undo if that takes more than one form."""
    chosen, work = Chosen.of_undo(form, found), EntriesOutcome()
    answer = await act_on(VERBS[found.verb], req, chosen, work)
    rest = _rest_after(chosen.rest, work)
    former = {name: found.former[name] for name in rest.names}
    return answer, replace(found, former=former, done=rest.done, errors=rest.errors) if former else None


async def ask_to_revert(req: PageRequest) -> Page:
    """Ask whether to revert a change of the log; say what that does to the entry as it is now."""
    name, at = asked_name(req), _moment_of(req.query("at"))
    version = (await req.store.ask(view_of, name)).version
    report = await req.store.ask(revert_change, name, at)
    values = {"name": name, "at": at, "version": version, "report": report, "zone": await zone_of(req, name)}
    return Page(template="revert.html", values=values, data=report.as_dict(), fragment="content")


async def revert(req: PageRequest) -> Response:
    """Revert the change of the log that a form names, if the entry is still the one that the question was about."""
    form = await read_form(req.request)
    name, author = form["name"], {"by": req.user.name, "note": form["note"].strip()}
    if not (name and form["if_version"]):
        raise HTTPException(400, "expected name, at and if_version")
    report = await req.store.ask(revert_change, name, _moment_of(form["at"]), version=form["if_version"], **author)
    if req.wants_json:
        return JSONAnswer(report.as_dict())
    answer = RedirectResponse(f"{req.root}/entry?name={quote_name(name)}", 303)
    await flash(req, answer, f"{shown(name, 80)}: reverted {', '.join(report.changed)}.")
    return answer


def _moment_of(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise HTTPException(400, "at: expected the time of a change in the log, ISO 8601 with its zone")
    return moment


#: Fire times whose runs a backfill sends in one step.
PIECE_OF_BACKFILL = 50


async def ask_to_backfill(req: PageRequest) -> Page:
    """Show the form of a backfill."""
    name = (await req.store.get(asked_name(req))).name
    return _backfill_form(name, {}, tracks_runs=req.store.runs.are_tracked, zone=await zone_of(req, name))


async def backfill(req: PageRequest) -> Page | Response:
    """Show which runs of a span in the past are missing, or send them once that is confirmed, for some seconds."""
    form = await read_form(req.request)
    name, zone, errors, span = form["name"], await zone_of(req, form["name"]), dict[str, str](), list[datetime]()
    for end in ("from", "to"):
        try:
            span.append(past_time(req, form[end], zone, may_come=False))
        except ValueError as exc:
            errors[end] = str(exc)
    planned = None
    if not errors:
        try:
            planned = await req.store.backfill(name, *span, dry_run=True)
        except ValueError as exc:
            errors["from"] = str(exc).removeprefix("start, end: ")
    if errors and req.wants_json:
        raise InvalidEntry(*next((f"$.{end}", problem) for end, problem in errors.items()))
    if planned is None or form["confirm"] != "1":
        if planned and req.wants_json:
            return JSONAnswer(planned.as_dict())
        more = {"tracks_runs": req.store.runs.are_tracked, "zone": zone}
        return _backfill_form(name, form.flat, errors, planned, **more)
    return await _send_missing(req, form, planned)


def _backfill_form(
    name: str, form: Mapping[str, str], errors: Mapping[str, str] | None = None, planned: Any = None, **more: Any
) -> Page:
    values = {"name": name, "form": form, "errors": errors or {}, "planned": planned, "left": (), "sent": 0, **more}
    return Page(template="backfill.html", values=values, fragment="content", status=422 if errors else 200)


async def _send_missing(req: PageRequest, form: Form, planned: Backfill) -> Page | Response:
    """Send the runs that are missing, the oldest first; say how many are left if that takes more than one form."""
    missing, sent = planned.missing, dict[datetime, str]()
    deadline = time.monotonic() + (MOST_SECONDS if req.wants_json else STEP_SECONDS)
    author: Any = {"by": req.user.name, "note": form["note"].strip()}
    left = list(missing)
    while left:
        piece, left = left[:PIECE_OF_BACKFILL], left[PIECE_OF_BACKFILL:]
        sent |= (await req.store.backfill(planned.name, piece[0], piece[-1], overlap="allow", **author)).sent
        if time.monotonic() > deadline:
            break
    if req.wants_json:
        return JSONAnswer({**replace(planned, sent=sent).as_dict(), "left": left})
    total = whole(form["sent"], 0, MOST_FIRE_TIMES) + len(sent)
    if left:
        return _backfill_form(planned.name, form.flat, planned=planned, left=left, sent=total)
    answer = RedirectResponse(f"{req.root}/entry?name={quote_name(planned.name)}", 303)
    word = "run" if total == 1 else "runs"
    await flash(req, answer, f"Sent {total:,} {word} of {shown(planned.name, 80)}.", tone="good" if total else "warn")
    return answer


#: Runs that a question says more of than their number.
MOST_TOLD = 5


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


async def act_on_runs(verb: Verb, req: PageRequest) -> Page | Response:
    """Do what a form says to the runs that it names; say which are left after ten seconds."""
    form = await read_form(req.request)
    ids = list(dict.fromkeys(run_id for run_id in form.all("id") if run_id))
    if form["all"] == "1":
        ids = await _runs_that_match(verb, req)
    if not ids:
        raise HTTPException(400, "no run is chosen")
    if verb.when == "ended" and (form["all"] == "1" or not (req.wants_json or form["confirm"] == "1")):
        ids.reverse()  # a list has the newest first; each new run may push the oldest out of those that are kept
    if len(ids) > MOST_RUNS:
        raise HTTPException(413, f"one form changes at most {MOST_RUNS:,} runs")
    note = form["note"].strip()
    if len(ids) > verb.most_unasked and form["confirm"] != "1" and not req.wants_json:
        back = local_path(req.request, form["next"])
        values: dict[str, Any] = {"verb": verb, "work": None, "ids": ids, "total": len(ids), "note": note, "next": back}
        values["runs"] = await _known(req, ids[:MOST_TOLD])
        return Page(template="runs_left.html", values=values, fragment="content")

    found = await _found(req, ids)

    async def change(run_id: str) -> Any:
        if isinstance(run := found[run_id], RunNotFound):
            raise run
        return await _awaited(req.store.runs, verb.one)(run, by=req.user.name, note=note)

    work = await _worked(change, list(found))
    work.left += [run_id for run_id in ids if run_id not in found]
    if req.wants_json:
        return JSONAnswer(vars(work), 409 if work.errors else 200)
    if work.errors or work.left:
        values = {"verb": verb, "work": work, "ids": work.left, "total": len(ids), "note": note, "next": form["next"]}
        return Page(template="runs_left.html", values=values, fragment="content", status=409 if work.errors else 200)
    answer = RedirectResponse(local_path(req.request, form["next"]), 303)
    text, tone = _said_of_runs(verb, work)
    await flash(req, answer, text, tone=tone)
    return answer


async def _known(req: PageRequest, ids: Sequence[str]) -> list[Run]:
    """Return those of some runs that are kept, for a question about them."""
    found = await asyncio.gather(*map(req.store.runs.get, ids), return_exceptions=True)
    return [run for run in found if isinstance(run, Run)]


async def _runs_that_match(verb: Verb, req: PageRequest) -> list[str]:
    """Return the ids of the newest runs that the filters in the address select, of those that a verb is for."""
    name = req.query("name")
    zone = await zone_of(req, name) if name else None
    query = replace(HistoryQuery.of(req, MOST_RUNS, zone), limit=MOST_RUNS, before=None)
    if query.problems:
        raise HTTPException(422, "; ".join(f"{field}: {problem}" for field, problem in query.problems.items()))

    async def read(store: PageStore) -> FoundHistory:
        heavy = replace(req, store=store)
        return await query.read(heavy, name, await query.names(heavy))

    found = await req.site.heavy_reads.read(req.request, req.user, read)
    return [run.id for run in found.items if isinstance(run, Run) and is_for(verb, run)][:MOST_RUNS]


async def _found(req: PageRequest, ids: Sequence[str]) -> dict[str, str | RunNotFound]:
    """Return the whole ids of runs by what a form calls them, as far as there is time to search for their begins."""
    found: dict[str, str | RunNotFound] = {run_id: run_id for run_id in ids if not is_begin(run_id)}

    async def search(store: PageStore) -> None:
        deadline = time.monotonic() + MOST_SECONDS
        for run_id in (each for each in ids if each not in found):
            try:
                found[run_id] = (await store.runs.get(run_id)).id
            except RunNotFound as exc:
                found[run_id] = exc
            if time.monotonic() > deadline:
                break

    if len(found) < len(ids):
        await req.site.heavy_reads.read(req.request, req.user, search)
    return {run_id: found[run_id] for run_id in ids if run_id in found}


async def _worked(change: Callable[[str], Awaitable[Any]], ids: list[str]) -> RunsOutcome:
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


#: What became of a run that was to stop, the worst first: its word, and the tone of the message.
_STOPPED: Mapping[str, tuple[str, Tone]] = {
    "CANNOT": ("Not stopped", "bad"),
    "ASKED": ("Asked to stop", "warn"),
    "REVOKED": ("Stopped", "good"),
}


def _said_of_runs(verb: Verb, work: RunsOutcome) -> tuple[str, Tone]:
    results = list(work.done.values())
    if isinstance(results[0], str):
        one = f"Re-run started: {results[0]}."
        return one if len(results) == 1 else f"{len(results):,} runs: {verb.done}.", "good"
    counts = Counter(result["outcome"] for result in results)
    worst = next(outcome for outcome in _STOPPED if outcome in counts)
    word, tone = _STOPPED[worst]
    if len(results) == 1:
        return f"{word}: {results[0]['sentence'].removeprefix(f'{worst}: ')}.", tone
    of = "" if len(counts) == 1 else f" of {len(results):,}"
    said = [f"{counts[each]:,}{of} runs: {_STOPPED[each][0].lower()}." for each in _STOPPED if counts[each]]
    return " ".join(said), tone


ACTIONS = (
    *(
        Action(
            path=f"/{verb.of}/{verb.name}",
            answer=partial(act_on_runs if verb.of == "runs" else act, verb),
            method="POST",
            right=Right(verb.right),
        )
        for verb in VERBS.values()
    ),
    Action(path="/undo", answer=undo, right=Right.OPERATE, method="POST"),
    Action(path="/entry/backfill", answer=ask_to_backfill, right=Right.OPERATE, has_json=False),
    Action(path="/entry/backfill", answer=backfill, right=Right.OPERATE, method="POST"),
    Action(path="/entry/revert", answer=ask_to_revert, right=Right.EDIT),
    Action(path="/entry/revert", answer=revert, right=Right.EDIT, method="POST"),
)
