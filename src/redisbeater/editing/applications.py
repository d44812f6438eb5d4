"""The application that owns static entries: another one takes them over, and its reports about declarations go."""

from __future__ import annotations

from collections.abc import Set

from redisbeater.context import Context
from redisbeater.editing.changes import FieldChange
from redisbeater.editing.compare_and_set import write_page
from redisbeater.editing.edit import Author
from redisbeater.model.meta import application_of
from redisbeater.store import SAVE_PAGE, pages


def adopt(context: Context, application: str, author: Author) -> tuple[list[str], dict[str, Exception]]:
    """Make this application the owner of another one's static entries; changes that operators made to them stay.

    Return their names, and by name why some could not be changed. ``author``: who does this, for the entries' logs.
    """
    origins = context.redis.contents.origins(sorted(context.redis.contents.statics()))
    theirs = {name: origin or "" for name, origin in origins.items() if application_of(origin) == application}
    changes = [
        FieldChange(name=name, origin=_renamed(context, origin), author=author) for name, origin in theirs.items()
    ]
    written: list[str] = []
    failures: dict[str, Exception] = {}
    for page in pages(changes, SAVE_PAGE):
        result = write_page(context, page)
        written += result.written
        failures.update(result.failures)
    return sorted(written), failures


def owners(context: Context) -> list[str]:
    """Return the applications that own static entries, by name."""
    origins = context.redis.contents.origins(sorted(context.redis.contents.statics()))
    return sorted({owner for owner in map(application_of, origins.values()) if owner})


def forget_declarations(context: Context, application: str, *, but: Set[str] = frozenset()) -> list[str]:
    """Remove the reports about an application's broken declarations, except for some names. Return what was removed."""
    reports = context.redis.broken.declarations()
    forgotten = [name for name in reports if name not in but and reports[name].get("application") == application]
    for name in forgotten:
        context.redis.broken.forget_declaration(name)
    return forgotten


def _renamed(context: Context, origin: str) -> str:
    return f"{context.application} {origin.rpartition(' ')[2]}"
