"""Static entries: what ``beat_schedule`` says, brought into the schedule by the leader.

Each static entry carries its origin: the application whose code it came from, and a digest of what that code
said. While the code says the same, changes that operators made at run time stay; when it changes, the code wins.
Entries of other applications, and dynamic ones, are not touched.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from celery import Celery

from redisbeater import edit
from redisbeater.context import Context
from redisbeater.entry import RedisScheduleEntry
from redisbeater.exceptions import EditConflict, InvalidEntry, StoreError
from redisbeater.schedules import rrule
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
    statics = context.redis.statics()
    origins = context.redis.origins([*{*statics, *map(str, declared)}])
    failed = {
        str(name)
        for name, fields in declared.items()
        if not _declare(context, app, name, fields, origins[str(name)], is_static=name in statics)
    }
    for name in statics - declared.keys():
        _prune(context, app, name, origins[name])
    _forget_mended(context, app, failed)


def application_of(origin: str) -> str:
    """The application that a static entry of this origin came from."""
    return origin.rpartition(" ")[0]


def _declare(context: Context, app: Celery, name: str, fields: Any, origin: str | None, *, is_static: bool) -> bool:
    """Whether a declared entry could be stored; why not, is listed."""
    try:
        _store(context, app, _entry(app, name, fields), origin, is_static=is_static)
    except StoreError:
        raise
    except (InvalidEntry, EditConflict) as exc:
        logger.error("static entry %r cannot be stored: %s", name, exc)
        context.redis.report_declaration(str(name), str(exc), application=_application(app))
        return False
    except Exception as exc:  # a custom schedule is the application's code: only its own entry may suffer
        logger.exception("static entry %r cannot be planned", name)
        reason = f"$.schedule: {type(exc).__name__}: {exc}"
        context.redis.report_declaration(str(name), reason, application=_application(app))
        return False
    return True


def _store(context: Context, app: Celery, entry: RedisScheduleEntry, origin: str | None, *, is_static: bool) -> None:
    definition = entry.definition()
    declared = f"{_application(app)} {sha1(definition.to_text(context.codec))}"
    if origin == declared:
        return
    # RedBeat notes no origin, and of Celery's own clean-up not even that it is static.
    is_unclaimed = origin == "" and (is_static or entry.name == CLEANUP)
    if origin is not None and not _is_ours(app, origin) and not is_unclaimed:
        logger.error("static entry %r is not stored: an entry of that name exists that is not ours", entry.name)
        return
    edit.upsert(context, definition, entry.initial_meta(), origin=declared)
    logger.info("static entry %r stored", entry.name)


def _prune(context: Context, app: Celery, name: str, origin: str | None) -> None:
    if origin is None or _is_ours(app, origin):
        context.redis.delete(name, origin=origin or "")
        logger.info("static entry %r is no longer declared: deleted", name)


def _forget_mended(context: Context, app: Celery, failed: set[str]) -> None:
    """Declarations that are stored by now, or are no more."""
    for name, report in context.redis.broken().items():
        if name not in failed and report.get("application") == _application(app):
            context.redis.forget_declaration(name)


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
