"""Static entries: those that the code declares; the leader stores them in the schedule.

Each static entry carries its origin: the application whose code declares it, and a digest of the declaration. While
the declaration is the same, changes that operators made at run time stay; when it changes, the code wins. Entries of
other applications, and dynamic ones, are not touched.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import Any

from celery import Celery
from celery.schedules import crontab

from redisbeater.beat.applications import declared_digest, forget_declarations, record_declared, report_taken
from redisbeater.context import Context
from redisbeater.display import shown, text_of
from redisbeater.editing.changes import Upsert
from redisbeater.editing.compare_and_set import write_page
from redisbeater.editing.edit import Author, announce
from redisbeater.entry import RedisScheduleEntry
from redisbeater.entry_name import check_name, is_unreserved
from redisbeater.exceptions import InvalidEntry
from redisbeater.log_lines import event, get_logger
from redisbeater.model.meta import application_of
from redisbeater.schedules.kind import PLANNING, BrokenByCode
from redisbeater.schedules.kinds import kind_of
from redisbeater.signals import entry_broken
from redisbeater.store import SAVE_PAGE, pages
from redisbeater.store.snapshot import sha1

#: The entry that Celery itself declares: it deletes expired results.
CLEANUP = "celery.backend_cleanup"

logger = get_logger(__name__)


def add_cleanup(app: Celery, declared: dict[str, Any]) -> None:
    """Add Celery's own task that deletes old results to what is declared, for backends that do not expire them."""
    if app.conf.result_expires and not app.backend.supports_autoexpire:
        entry = {"task": CLEANUP, "schedule": crontab("0", "4", "*"), "options": {"expires": 12 * 3600}}
        declared.setdefault(CLEANUP, entry)


def reconcile(
    context: Context, declared: Mapping[str, Any], entry_class: type[RedisScheduleEntry] = RedisScheduleEntry
) -> None:
    """Store the new and changed declarations of an app, and delete the entries that it no longer declares.

    A declaration that cannot be stored is listed as broken and logged; the others are stored all the same.
    """
    statics = context.redis.contents.statics()
    origins = dict(context.redis.contents.origins(list(filter(is_unreserved, {*statics, *map(str, declared)}))))
    ours = [name for name in map(str, declared) if name not in statics and _is_ours(context, origins.get(name))]
    context.redis.contents.add_statics(ours)
    upserts, failures = _upserts(context, declared, entry_class)
    _restore(context, upserts, origins)
    theirs = {name: origins[name] or "" for name in upserts if _is_taken(context, name, origins[name], statics)}
    taken = {name: origin for name, origin in theirs.items() if not _is_same_cleanup(upserts[name], origin)}
    changes = {name: each for name, each in upserts.items() if name not in theirs and each.origin != origins[name]}
    failures.update(_store(context, changes))
    for name, failure in failures.items():
        _report(context, name, failure)
    report_taken(context, taken, origins)
    for name in statics - declared.keys():
        prune(context, name, origins[name])
    forget_declarations(context, context.application, but={*failures, *taken})
    record_declared(context, declared_digest(upserts, failures), len(declared))


def _upserts(
    context: Context, declared: Mapping[Any, Any], entry_class: type[RedisScheduleEntry]
) -> tuple[dict[str, Upsert], dict[str, Exception]]:
    """Return by name the upserts of all declarations, and why some cannot be stored."""
    upserts: dict[str, Upsert] = {}
    failures: dict[str, Exception] = {}
    for name, fields in declared.items():
        try:
            with PLANNING:  # the class of entries may be the application's own
                upserts[str(name)] = _upsert(context, _entry(context.app, name, fields, entry_class))
        except InvalidEntry as exc:
            failures[str(name)] = exc
    return upserts, failures


def _upsert(context: Context, entry: RedisScheduleEntry) -> Upsert:
    check_name(entry.name, advice="; give it a short one: add_periodic_task(..., name='...')")
    definition = entry._definition()
    text = definition.to_text(context.codec)
    origin = f"{context.application} {sha1(text)}"
    return Upsert(
        definition=definition,
        text=text,
        initial_meta=entry._initial_meta(),
        origin=origin,
        author=_author(context),
    )


def _restore(context: Context, upserts: Mapping[str, Upsert], origins: dict[str, str | None]) -> None:
    """Put declared entries back that were deleted, so that they keep their counters and the run that they owe.

    Their new origin differs from the declared one: the code wins over what operators changed before they deleted them.
    """
    missing = [name for name in upserts if origins[name] is None]
    origin = f"{context.application} -"
    for name in context.redis.deleted.restore_statics(missing, application=context.application, origin=origin):
        logger.info("static entry %r was deleted and is declared still; restored with its run count and due time", name)
        origins[name] = origin


def _is_taken(context: Context, name: str, origin: str | None, statics: Set[str]) -> bool:
    """Return whether a dynamic entry, or that of another application, has the name."""
    # RedBeat stores no origin, and does not even mark Celery's own clean-up as static.
    is_unclaimed = origin == "" and (name in statics or name == CLEANUP)
    return origin is not None and not _is_ours(context, origin) and not is_unclaimed


def _is_same_cleanup(upsert: Upsert, origin: str) -> bool:
    """Return whether Celery adds the same clean-up to two applications, so that the entry of one serves both."""
    return upsert.definition.name == CLEANUP and upsert.origin.rpartition(" ")[2] == origin.rpartition(" ")[2]


def _store(context: Context, changes: Mapping[str, Upsert]) -> dict[str, Exception]:
    """Store entries, a page at a time; return by name why some could not be stored."""
    failures: dict[str, Exception] = {}
    for names in pages(list(changes), SAVE_PAGE):
        result = write_page(context, [changes[name] for name in names])
        failures.update(result.failures)
        for name, edit in result.written.items():
            logger.info("static entry %r stored", name, extra=_event(context, name, edit.kind, edit.changed_fields))
    return failures


def _report(context: Context, name: str, failure: Exception) -> None:
    reason = text_of(failure)
    extra = event("entry_broken", name=name, reason=reason)
    if isinstance(failure, BrokenByCode):
        logger.error("static entry %r cannot be planned", name, exc_info=failure.__cause__, extra=extra)
    else:
        logger.error("static entry %r cannot be stored: %s", name, reason, extra=extra)
    context.redis.broken.report_declaration(name, reason, application=context.application)
    entry_broken.send(name, name=name, reason=shown(reason))


def prune(context: Context, name: str, origin: str | None) -> None:
    """Delete an entry that is not declared any more, unless it has become another one since its origin was read."""
    if origin is not None and not _is_ours(context, origin):
        return
    # Where there was no entry, this origin matches none that was created since: only what is left of the old one goes.
    line = _author(context).line("deleted")
    if context.redis.delete(name, origin=origin or f"{context.application} -", log=line):
        logger.info("static entry %r is no longer declared; deleted", name, extra=_event(context, name, "deleted"))
        announce([name], "deleted", by=_author(context).by)


def _entry(app: Celery, name: str, fields: Any, entry_class: type[RedisScheduleEntry]) -> RedisScheduleEntry:
    if isinstance(fields, InvalidEntry):
        raise fields
    try:
        entry = fields if isinstance(fields, RedisScheduleEntry) else entry_class(name, app=app, **fields)
    except InvalidEntry:
        raise
    except TypeError as exc:
        raise InvalidEntry("$", str(exc).removeprefix("RedisScheduleEntry.__init__() ")) from exc
    if kind_of(entry.schedule).starts_over(entry.schedule):
        raise InvalidEntry("$.schedule.dtstart", "is missing: without it the rule starts over whenever beat starts")
    return entry


def _is_ours(context: Context, origin: str | None) -> bool:
    return application_of(origin) == context.application


def _event(context: Context, name: str, change: str, fields: Sequence[str] = ()) -> dict[str, Any]:
    by = _author(context).by
    return event("entry_changed", name=name, change=change, fields=list(fields), by=by, renamed_from="")


def _author(context: Context) -> Author:
    return Author(by=f"code of {context.application}")
