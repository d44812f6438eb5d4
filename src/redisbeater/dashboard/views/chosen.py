"""The entries that a form names: one, the chosen ones, or all that match its filters."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from starlette.exceptions import HTTPException

from redisbeater.dashboard.forms import Form, read_form
from redisbeater.dashboard.pages import Visit
from redisbeater.dashboard.views.query import EntryQuery

__all__ = ("MOST_ENTRIES", "Chosen", "read_chosen")

#: Entries that one form changes at most.
MOST_ENTRIES = 1_000


@dataclass(frozen=True, kw_only=True)
class Chosen:
    """What a form about entries says.

    Attributes:
        form: all of its fields.
        names: the entries.
        total: how many match, where that are more than one form changes.
        is_about: whether that may be some too high.
    """

    form: Form
    names: list[str]
    total: int
    is_about: bool = False

    @property
    def is_confirmed(self) -> bool:
        """Whether the person has seen what is about to happen."""
        return self.form["confirm"] == "1"

    @cached_property
    def one(self) -> str:
        """The name, if there is one; else empty."""
        return self.names[0] if len(self.names) == 1 else ""


async def read_chosen(visit: Visit) -> Chosen:
    """Read the form of a change: ``name`` in its address or once or many in the form; or ``all=1`` with filters.

    Raises:
        HTTPException: 400, it names no entry; 413, too many.
    """
    form = await read_form(visit.request)
    names = list(dict.fromkeys(name for name in [*visit.queries("name"), *form.all("name")] if name))
    total, is_about = len(names), False
    if form["all"] == "1":
        query = EntryQuery.of(form.flat)
        if query.state == "deleted":
            deleted = [name for name in await visit.store.deleted() if query.q.casefold() in name.casefold()]
            names, total = deleted[:MOST_ENTRIES], len(deleted)
        else:
            found = await visit.store.rows(1, MOST_ENTRIES, **query.filters)
            names = [row.name for row in found.rows if row.fields or row.definition]
            total, is_about = found.total, found.is_about
    if not names:
        raise HTTPException(400, "no entry is chosen")
    if len(names) > MOST_ENTRIES:
        raise HTTPException(413, f"one form changes at most {MOST_ENTRIES:,} entries")
    return Chosen(form=form, names=names, total=total, is_about=is_about)
