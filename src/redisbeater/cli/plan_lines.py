"""The plan of a file as people see it: what is created, changed and deleted, with the next runs before and after."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from redisbeater.cli.table import View
from redisbeater.context import Context
from redisbeater.display import printable_json, shown
from redisbeater.editing.stored_entry import StoredEntry
from redisbeater.management.files.changes import Changes, FieldDifference, Override, PlannedChange
from redisbeater.management.files.moments import moment_text
from redisbeater.management.files.schedule_words import words_of
from redisbeater.management.forecast import Forecast
from redisbeater.model.fields import NULLABLE
from redisbeater.redaction import redacted, redacted_field
from redisbeater.schedules.description import describe_in_brief
from redisbeater.times import clock_words, date_words

__all__ = ("changes_as_dict", "forecast_line", "plan_lines")

#: Characters of a value in a difference; JSON has all of it.
MOST_VALUE = 60

_MARKS = {"create": "+", "change": "~", "delete": "-"}


def plan_lines(changes: Changes, title: str, view: View, context: Context) -> list[str]:
    """Return the lines about what a file changes: first the counts, then each entry."""
    counts = [
        f"{len(changes.of_kind(kind)):,} to {kind}" for kind in ("create", "change", "delete") if changes.of_kind(kind)
    ]
    same = len(changes.of_kind("keep"))
    head = ", ".join([*counts, f"{same:,} as {'it is' if same == 1 else 'they are'}"])
    width = max([12, *(len(shown(each.name)) for each in changes.entries if each.kind != "keep" or each.overrides)])
    lines = (line for each in changes.entries for line in _lines(each, width, view, context))
    owner = f", owner {shown(changes.owner)}" if changes.owner else ""
    return [f"{title}{owner}: {head}", *lines]


def forecast_line(forecast: Forecast) -> str:
    """Return how the changes move the runs of the next week."""
    before, after = forecast.busiest_before, forecast.busiest_after
    busiest = ""
    if before is not None and after is not None:
        busiest = (
            f"; busiest minute {before:,} as before" if before == after else f"; busiest minute {before:,} -> {after:,}"
        )
    return f"over the next 7 days: {forecast.more:,} runs more, {forecast.fewer:,} fewer{busiest}"


def changes_as_dict(changes: Changes, context: Context) -> dict[str, Any]:
    """Return what JSON has of a plan."""
    entries = [
        {
            "name": each.name,
            "change": each.kind,
            "fields": [_as_dict(difference, context) for difference in each.fields],
            "next_before": _iso(_due_at(each.before, context)),
            "next_after": _iso(_due_at(each.after, context)),
            "overrides": [{"field": o.field, "what": o.what, "by": o.by, "at": _iso(o.at)} for o in each.overrides],
        }
        for each in changes.entries
    ]
    return {"owner": changes.owner, "entries": entries}


def _as_dict(difference: FieldDifference, context: Context) -> dict[str, Any]:
    path, before, after = difference
    patterns = context.config.redact
    return {
        "field": path,
        "before": redacted_field(path, before, patterns),
        "after": redacted_field(path, after, patterns),
    }


def _lines(each: PlannedChange, width: int, view: View, context: Context) -> Iterator[str]:
    name = shown(each.name).ljust(width)
    if each.kind == "create" and each.after is not None:
        yield f"  + {name}  {'   '.join(_created(each.after, view, context))}"
    elif each.kind == "change":
        yield from _changed(each, name, width, view, context)
    elif each.kind == "delete":
        yield f"  - {name}  {_deleted(each.before, context)}"
    for override in each.overrides:
        yield f"  ! {name}  {_override(override, view)}: stays so"


def _created(after: StoredEntry, view: View, context: Context) -> list[str]:
    definition = after.definition
    due_at = _due_at(after, context)
    args, kwargs = redacted([definition.args, definition.kwargs], context.config.redact, in_texts=True)
    arguments = [*map(repr, args), *(f"{name}={value!r}" for name, value in kwargs.items())]
    call = shown(f"{definition.task}({', '.join(arguments)})", MOST_VALUE)
    zone = definition.zone(context.zone)
    schedule = describe_in_brief(definition.schedule, None if zone == context.zone else zone)
    run = f"first run {_clock(due_at, after, view, context)}" if due_at else "does not run: disabled or finished"
    return [shown(schedule), call, run]


def _changed(each: PlannedChange, name: str, width: int, view: View, context: Context) -> Iterator[str]:
    old, new = _due_at(each.before, context), _due_at(each.after, context)
    before = _clock(old, each.before, view, context)
    after = _clock(new, each.after, view, context)
    run = f"   next run {before} -> {after}" if old != new else f"   next run {after}"
    texts = [_difference(difference, context) for difference in each.fields] or ["run count and next run restored"]
    for number, text in enumerate(texts):
        start = f"  ~ {name}" if number == 0 else " " * (width + 4)
        yield f"{start}  {text}{run if number == 0 else ''}"


def _deleted(before: StoredEntry | None, context: Context) -> str:
    if before is None:
        return "broken"
    runs = before.meta.total_run_count
    return f"{describe_in_brief(before.definition.schedule, None)}, {runs:,} {'run' if runs == 1 else 'runs'}"


def _override(override: Override, view: View) -> str:
    by = f" by {shown(override.by)}" if override.by else ""
    on = ""
    if override.at is not None:
        local = override.at.astimezone(view.zone)
        on = f" on {date_words(local, view.now.astimezone(view.zone))}"
    return f"{shown(override.what)}{by}{on}"


def _difference(difference: FieldDifference, context: Context) -> str:
    old, new = (_value(difference.path, value, context) for value in (difference.before, difference.after))
    return f"{difference.path}  {old} -> {new}"


def _value(path: str, value: Any, context: Context) -> str:
    value = redacted_field(path, value, context.config.redact)
    if value is None:
        return "the setting" if path in NULLABLE else "none"
    if path == "schedule" and isinstance(value, Mapping):
        word, text = next(iter(words_of(value, context.codec, context.zone).items()))
        return shown(text if word == "cron" else f"{word} {text}", MOST_VALUE)
    text = moment_text(value)
    return shown(text if isinstance(text, str) and text is not value else printable_json(value), MOST_VALUE)


def _due_at(entry: StoredEntry | None, context: Context) -> datetime | None:
    if entry is None or not entry.definition.enabled:
        return None
    return entry.due_at(context.in_zone(entry.zone).defaults)


def _clock(moment: datetime | None, entry: StoredEntry | None, view: View, context: Context) -> str:
    if moment is None or entry is None:
        return "none"
    zone = entry.definition.zone(context.zone)
    return clock_words(view.local(moment, zone), view.now_in(zone)).removesuffix(":00")


def _iso(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat(timespec="seconds")
