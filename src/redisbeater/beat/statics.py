"""Static entries: what ``beat_schedule`` says, brought into the schedule by the leader.

Each static entry carries its origin: the application whose code it came from, and a digest of what that code
said. While the code says the same, changes that operators made at run time stay; when it changes, the code wins.
Entries of other applications, and dynamic ones, are not touched.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Set
from typing import Any

from celery import Celery

from redisbeater.context import Context
from redisbeater.editing import edit
from redisbeater.editing.compare_and_set import Editor, write_page
from redisbeater.entry import RedisScheduleEntry
from redisbeater.exceptions import InvalidEntry, RedisBeaterError
from redisbeater.schedules import rrule
from redisbeater.store import SAVE_PAGE, pages
from redisbeater.store.snapshot import sha1

__all__ = ("CLEANUP", "application_of", "reconcile")

#: The entry that Celery itself declares.
CLEANUP = "celery.backend_cleanup"

logger = logging.getLogger(__name__)


def reconcile(app: Celery, declared: Mapping[str, Any]) -> None:
    """Make the static entries of an app what its code declares: new and changed ones written, removed ones deleted.

    A declared entry that cannot be stored is listed as broken and logged; the others are not held up.
    """
    context = Context.of(app)
    statics = context.redis.contents.statics()
    origins = context.redis.contents.origins([*{*statics, *map(str, declared)}])
    editors, failures = _changed(context, app, declared, origins, statics)
    failures.update(_store(context, editors))
    for name, failure in failures.items():
        _report(context, app, name, failure)
    for name in statics - declared.keys():
        _prune(context, app, name, origins[name])
    _forget_mended(context, app, failures.keys())


def application_of(origin: str) -> str:
    """The application that a static entry of this origin came from."""
    return origin.rpartition(" ")[0]


def _changed(
    context: Context, app: Celery, declared: Mapping[Any, Any], origins: Mapping[str, str | None], statics: Set[str]
) -> tuple[dict[str, Editor], dict[str, Exception]]:
    """How to store what the code says otherwise than before, and what is the matter with what cannot be stored."""
    editors: dict[str, Editor] = {}
    failures: dict[str, Exception] = {}
    for name, fields in declared.items():
        stored_name = str(name)
        try:
            editor = _editor(context, app, _entry(app, name, fields), origins[stored_name], stored_name in statics)
        except Exception as exc:  # a custom schedule is the application's code: only its own entry may suffer
            failures[stored_name] = exc
        else:
            if editor is not None:
                editors[stored_name] = editor
    return editors, failures


def _editor(
    context: Context, app: Celery, entry: RedisScheduleEntry, origin: str | None, is_static: bool
) -> Editor | None:
    """How to store an entry; None: the code says the same as before, or the name is another's."""
    definition = entry.definition()
    text = definition.to_text(context.codec)
    declared = f"{_application(app)} {sha1(text)}"
    if origin == declared:
        return None
    # RedBeat notes no origin, and of Celery's own clean-up not even that it is static.
    is_unclaimed = origin == "" and (is_static or entry.name == CLEANUP)
    if origin is not None and not _is_ours(app, origin) and not is_unclaimed:
        logger.error("static entry %r is not stored: an entry of that name exists that is not ours", entry.name)
        return None
    return edit.upserting(context, definition, text, entry.initial_meta(), origin=declared)


def _store(context: Context, editors: Mapping[str, Editor]) -> dict[str, Exception]:
    """Store entries, a page at a time; those that cannot be, and why."""
    failures: dict[str, Exception] = {}
    for names in pages(list(editors), SAVE_PAGE):
        page = write_page(context, {name: editors[name] for name in names})
        failures.update(page.failures)
        for name in page.done:
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
    if origin is None or _is_ours(app, origin):
        context.redis.delete(name, origin=origin or "")
        logger.info("static entry %r is no longer declared: deleted", name)


def _forget_mended(context: Context, app: Celery, failed: Set[str]) -> None:
    """Declarations that are stored by now, or are no more."""
    for name, report in context.redis.broken.reports().items():
        if name not in failed and report.get("application") == _application(app):
            context.redis.broken.forget_declaration(name)


def _entry(app: Celery, name: str, fields: Any) -> RedisScheduleEntry:
    try:
        entry = fields if isinstance(fields, RedisScheduleEntry) else RedisScheduleEntry(name, app=app, **fields)
    except TypeError as exc:
        raise InvalidEntry("$", str(exc).removeprefix("RedisScheduleEntry.__init__() ")) from exc
    if isinstance(entry.schedule, rrule) and not entry.schedule.has_explicit_start:
        raise InvalidEntry("$.schedule.dtstart", "is missing: the rule would begin anew at each start of beat")
    return entry


def _is_ours(app: Celery, origin: str) -> bool:
    return bool(origin) and application_of(origin) == _application(app)


def _application(app: Celery) -> str:
    """What tells applications apart that share a schedule: the name given to ``Celery(...)``."""
    return app.main or "__main__"
