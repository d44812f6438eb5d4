"""The entries that a form names: one, the chosen ones, or all that match its filters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate
from typing import NamedTuple
from urllib.parse import quote_plus

from starlette.exceptions import HTTPException

from redisbeater.dashboard.forms import MOST_BYTES, Form, read_form
from redisbeater.dashboard.pages import Visit
from redisbeater.dashboard.views.query import EntryQuery
from redisbeater.management.search import checked_states

__all__ = ("MOST_ENTRIES", "Chosen", "Former", "read_chosen")

#: Entries that one form changes at most.
MOST_ENTRIES = 1_000

#: Bytes of their names at most, where all that match are chosen: the form that asks sends them back, with a note.
MOST_NAME_BYTES = MOST_BYTES - 8 * 1024


class Former(NamedTuple):
    """What an undo of a change needs to know.

    Attributes:
        version: the version that the entry must still have; empty: it was deleted.
        until: until when it was disabled.
        skipped: the fire times that were left out.
    """

    version: str = ""
    until: str = ""
    skipped: Sequence[str] = ()


@dataclass(frozen=True, kw_only=True)
class Chosen:
    """What a form about entries says.

    Attributes:
        form: all of its fields.
        names: the entries.
        total: how many match, where that are more than one form changes.
        is_about: whether that may be some too high.
        versions: by name, the one that an entry must still have; an entry that is not here may have any.
        former: of an undo, by name, what it brings back. No form has it, but only what Redis kept of the change.
        undo_id: of an undo, its id.
    """

    form: Form
    names: list[str]
    total: int
    is_about: bool = False
    versions: Mapping[str, str] = field(default_factory=dict)
    former: Mapping[str, Former] = field(default_factory=dict)
    undo_id: str = ""

    @classmethod
    def of_undo(cls, form: Form, former: Mapping[str, Former]) -> Chosen:
        """Return the entries that an undo brings back; the person has confirmed it by the button."""
        versions = {name: each.version for name, each in former.items() if each.version}
        return cls(
            form=Form([("confirm", "1"), ("next", form["next"])]), names=list(former), total=len(former),
            versions=versions, former=former, undo_id=form["id"],
        )  # fmt: skip

    def until(self, name: str) -> str:
        """Return until when an entry is to be disabled; empty: until it is enabled."""
        return self.former[name].until if name in self.former else self.form["until"].strip()

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
        HTTPException: 400, it names no entry, or not each with its version; 413, too many; 422, there is no such state.
    """
    form = await read_form(visit.request)
    given = [name for name in [*visit.queries("name"), *form.all("name")] if name]
    names, versions = list(dict.fromkeys(given)), _versions(form, given)
    total, is_about = len(names), False
    if form["all"] == "1":
        query = _query(form)
        if query.state == "deleted":
            deleted = [name for name in await visit.store.deleted() if query.q.casefold() in name.casefold()]
            names, total = deleted[:MOST_ENTRIES], len(deleted)
        else:
            found = await visit.site.heavy_reads.read(
                visit.request, visit.user, lambda store: store.rows(1, MOST_ENTRIES, **query.filters)
            )
            names = [row.name for row in found.rows if row.fields or row.definition]
            total, is_about = found.total, found.is_about
        names = _that_fit(names)
    if not names:
        raise HTTPException(400, "no entry is chosen")
    if len(names) > MOST_ENTRIES:
        raise HTTPException(413, f"one form changes at most {MOST_ENTRIES:,} entries")
    return Chosen(form=form, names=names, total=total, is_about=is_about, versions=versions)


def _versions(form: Form, names: list[str]) -> dict[str, str]:
    """Return the versions that a form names, one for each name and in their order; none, if it has none."""
    versions = form.all("if_version")
    if versions and len(versions) != len(names):
        raise HTTPException(400, f"if_version: expected one for each name, got {len(versions)} for {len(names)}")
    return dict(zip(names, versions))


def _query(form: Form) -> EntryQuery:
    """Return the filters of a form. What is no state would select all entries: it is refused."""
    state = form["state"].strip()
    try:
        checked_states([state] if state not in ("", "deleted") else [])
    except ValueError as exc:
        raise HTTPException(422, str(exc)) from exc
    return EntryQuery.of(form.flat)


def _that_fit(names: list[str]) -> list[str]:
    """Return the first names, as many as a form can send."""
    sizes = accumulate(len("name=&") + len(quote_plus(name, errors="replace")) for name in names)
    return [name for name, size in zip(names, sizes) if size <= MOST_NAME_BYTES]
