"""The entries as people see them, broken ones too: one, those of some names, a page of a list."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from redisbeater.context import Context
from redisbeater.management.blanking import redacted_line
from redisbeater.management.entry_view import EntryView, ViewPage
from redisbeater.management.long_read import long_read
from redisbeater.management.search import RESULTS_ASKED, Filter, Search, checked_states
from redisbeater.management.why.facts import says_disabled
from redisbeater.model.fields import TaskLike
from redisbeater.model.passed_values import as_task


def view_of(context: Context, name: str, *, has_secrets: bool = False) -> EntryView:
    """Return one entry with its last change, or a declaration that could not be stored.

    With ``has_secrets`` the values that ``redisbeater_redact`` names are not blanked.

    Raises:
        EntryNotFound: there is none of that name.
    """
    return Search(context).one(name, has_secrets=has_secrets)


def views_of(context: Context, names: Sequence[str]) -> list[EntryView]:
    """Return entries by their names, without those that there are not."""
    return Search(context).named(names)


#: Lines of a log among which the one is looked for that says who has disabled an entry.
LINES = 5


def disabled_by(context: Context, names: Sequence[str]) -> dict[str, str]:
    """Return who disabled entries, and why, ``anna: moving``, by their names, where their logs say it."""
    found = {}
    for name, lines in zip(names, context.redis.log.of_entries(names, LINES)):
        line = next((line for line in lines if says_disabled(line)), None)
        if line is not None:
            details = redacted_line(context, line).details
            said = (str(details.get("by", "")).partition("@")[0], str(details.get("note", "")))
            found[name] = ": ".join(filter(None, said))
    return found


@long_read
def read_views(context: Context, /, number: int = 1, size: int = 50, **filters: Any) -> ViewPage:
    """Return a page of the entries that filters select, from the first page on.

    The filters are the fields of :class:`Filter`, and ``states``, ``results``, ``sort`` and ``text`` of a search.

    Raises:
        ValueError: one of them is not valid.
    """
    return _search(context, **filters).page(number, size)


@long_read
def changeable_names(context: Context, /, **filters: Any) -> list[str]:
    """Return the names of all entries that :func:`read_views` lists with these filters, but of broken ones, sorted."""
    found = _search(context, **filters).each(None)
    return sorted(entry.name for entry in found if entry.snapshot and entry.snapshot.definition)


def _search(
    context: Context,
    /,
    *,
    states: str | Collection[str] = (),
    results: str | Collection[str] = (),
    task: TaskLike | None = None,
    sort: str = "next",
    text: str = "",
    **wanted: Any,
) -> Search:
    chosen, asked = checked_states(states), checked_states(results, RESULTS_ASKED, "result")
    selected = Filter(task=as_task(task), **wanted)
    return Search(context, selected, states=chosen, results=asked, sort=sort, text=text)


@long_read
def names_like(context: Context, text: str) -> list[str]:
    """Return the names of entries with a text in name, task or description, or with a label as ``team=data``."""
    key, is_label, value = text.partition("=")
    searches = [Search(context, text=text)]
    if is_label:
        searches.append(Search(context, Filter(labels={key.strip(): value.strip()})))
    return sorted({entry.name for search in searches for entry in search.entries()})


def names_from(context: Context, begin: str, most: int) -> list[str]:
    """Return the first names that begin with a text, for completion."""
    return context.redis.contents.names_from(begin, most)


def broken_reports(context: Context) -> Mapping[str, Mapping[str, str]]:
    """Return the quarantined entries by name: ``reason``, ``since``, ``application``."""
    return context.redis.broken.reports()
