"""Static entries: those that ``beat_schedule`` declares; the leader stores them in the schedule.

Each static entry carries its origin: the application whose code declares it, and a digest of the declaration. While
the declaration is the same, changes that operators made at run time stay; when it changes, the code wins. Entries of
other applications, and dynamic ones, are not touched.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Any

from celery import Celery

from redisbeater.context import Context
from redisbeater.editing.author import Author
from redisbeater.editing.changes import Upsert
from redisbeater.editing.compare_and_set import write_page
from redisbeater.entry import RedisScheduleEntry
from redisbeater.entry_name import is_unreserved
from redisbeater.exceptions import InvalidEntry, RedisBeaterError
from redisbeater.log_lines import get_logger
from redisbeater.schedules import rrule
from redisbeater.store import SAVE_PAGE, pages
from redisbeater.store.snapshot import sha1

__all__ = ("CLEANUP", "application_of", "reconcile")

#: The entry that Celery itself declares: it deletes expired results.
CLEANUP = "celery.backend_cleanup"

logger = get_logger(__name__)


def reconcile(
    app: Celery, declared: Mapping[str, Any], entry_class: type[RedisScheduleEntry] = RedisScheduleEntry
) -> None:
    """Store the new and changed declarations of an app, and delete the entries that it no longer declares.

    A declaration that cannot be stored is listed as broken and logged; it does not hold up the others.
    """
    context = Context.of(app)
    statics = context.redis.contents.statics()
    origins = context.redis.contents.origins(list(filter(is_unreserved, {*statics, *map(str, declared)})))
    ours = [name for name in map(str, declared) if name not in statics and _is_ours(app, origins.get(name) or "")]
    context.redis.contents.add_statics(ours)
    changes, failures = _changes(context, app, declared, origins, statics, entry_class)
    failures.update(_store(context, changes))
    for name, failure in failures.items():
        _report(context, app, name, failure)
    for name in statics - declared.keys():
        _prune(context, app, name, origins[name])
    _forget_repaired(context, app, failures.keys())


def application_of(origin: str) -> str:
    """Return the application that declares a static entry of this origin."""
    return origin.rpartition(" ")[0]


def _changes(
    context: Context,
    app: Celery,
    declared: Mapping[Any, Any],
    origins: Mapping[str, str | None],
    statics: Set[str],
    entry_class: type[RedisScheduleEntry],
) -> tuple[dict[str, Upsert], dict[str, Exception]]:
    """Return by name the upserts of new and changed declarations, and why others cannot be stored."""
    changes: dict[str, Upsert] = {}
    failures: dict[str, Exception] = {}
    for name, fields in declared.items():
        stored_name = str(name)
        try:
            entry = _entry(app, name, fields, entry_class)
            upsert = _upsert(context, app, entry, origins.get(stored_name), stored_name in statics)
        except Exception as exc:  # a custom schedule is the application's code: only its own entry may suffer
            failures[stored_name] = exc
        else:
            if upsert is not None:
                changes[stored_name] = upsert
    return changes, failures


def _upsert(
    context: Context, app: Celery, entry: RedisScheduleEntry, origin: str | None, is_static: bool
) -> Upsert | None:
    """Return the upsert of a declared entry; None: the declaration has not changed, or another entry has the name."""
    definition = entry.definition()
    text = definition.to_text(context.codec)
    declared = f"{_application(app)} {sha1(text)}"
    if origin == declared:
        return None
    # RedBeat stores no origin, and does not even mark Celery's own clean-up as static.
    is_unclaimed = origin == "" and (is_static or entry.name == CLEANUP)
    if origin is not None and not _is_ours(app, origin) and not is_unclaimed:
        logger.error(
            "static entry %r is not stored: a dynamic entry or another app has that name; rename one", entry.name
        )
        return None
    return Upsert(
        definition=definition,
        text=text,
        initial_meta=entry.initial_meta(),
        origin=declared,
        author=_author(app),
    )


def _store(context: Context, changes: Mapping[str, Upsert]) -> dict[str, Exception]:
    """Store entries, a page at a time; return by name why some could not be stored."""
    failures: dict[str, Exception] = {}
    for names in pages(list(changes), SAVE_PAGE):
        result = write_page(context, [changes[name] for name in names])
        failures.update(result.failures)
        for name in result.written:
            logger.info("static entry %r stored", name)
    return failures


def _report(context: Context, app: Celery, name: str, failure: Exception) -> None:
    reason = str(failure)
    if isinstance(failure, RedisBeaterError):
        logger.error("static entry %r cannot be stored: %s", name, reason)
    else:
        logger.error("static entry %r cannot be planned", name, exc_info=failure)
        reason = f"$.schedule: {type(failure).__name__}: {reason}"
    context.redis.broken.report_declaration(name, reason, application=_application(app))


def _prune(context: Context, app: Celery, name: str, origin: str | None) -> None:
    """Delete an entry that is not declared any more, unless it has become another one since its origin was read."""
    if origin is not None and not _is_ours(app, origin):
        return
    # Where there was no entry, no origin matches one that was created since; only what is left of the old one goes.
    line = _author(app).line("deleted")
    if context.redis.delete(name, origin=origin or f"{_application(app)} -", log=line):
        logger.info("static entry %r is no longer declared; deleted", name)


def _forget_repaired(context: Context, app: Celery, failed: Set[str]) -> None:
    """Remove reports of declarations that were repaired or removed."""
    for name, report in context.redis.broken.reports().items():
        if name not in failed and report.get("application") == _application(app):
            context.redis.broken.forget_declaration(name)


def _entry(app: Celery, name: str, fields: Any, entry_class: type[RedisScheduleEntry]) -> RedisScheduleEntry:
    try:
        entry = fields if isinstance(fields, RedisScheduleEntry) else entry_class(name, app=app, **fields)
    except TypeError as exc:
        raise InvalidEntry("$", str(exc).removeprefix("RedisScheduleEntry.__init__() ")) from exc
    if isinstance(entry.schedule, rrule) and not entry.schedule.has_explicit_start:
        raise InvalidEntry("$.schedule.dtstart", "is missing: without it the rule starts over whenever beat starts")
    return entry


def _is_ours(app: Celery, origin: str) -> bool:
    return bool(origin) and application_of(origin) == _application(app)


def _author(app: Celery) -> Author:
    return Author(by=f"code of {_application(app)}")


def _application(app: Celery) -> str:
    """Return the name passed to ``Celery(...)``, which distinguishes applications that share a schedule."""
    return app.main or "__main__"
