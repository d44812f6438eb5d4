"""One entry, all of it, as people see it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from typing import Any

from redisbeater.cli.table import View
from redisbeater.display import printable_json, shown
from redisbeater.management.rows import Row
from redisbeater.management.runs.record import Recorded
from redisbeater.management.runs.words import late_words, lateness, outcome_words
from redisbeater.management.why.facts import author_words
from redisbeater.model.fields import given_policies
from redisbeater.model.policies import INHERIT
from redisbeater.model.resolved_policy import Defaults, inherited_policies
from redisbeater.model.run import Run
from redisbeater.times import clock_words, date_words, duration_words, relative_words

__all__ = ("details",)

#: Characters of the arguments of a task; JSON has all of them.
MOST_ARGUMENTS = 200

#: The fields that are durations in seconds.
_DURATIONS = ("misfire_grace_time", "jitter", "deadline")

#: The fields that have lines of their own.
_SHOWN_APART = ("description", "labels", "disabled_until", "skip")


def details(row: Row, view: View, defaults: Defaults, recorded: Recorded | None = None) -> list[str]:
    """Return the lines about one entry: what it is, when it runs, how it fared, with what is recorded of its runs.

    ``defaults``: what it inherits from the settings.
    """
    call = f"{row.task}({_arguments(row)})" if row.task else "-"
    title = "   ".join([shown(row.name), shown(call, None), shown(f"{row.state}, {row.origin}{_version(row)}")])
    return [
        title,
        *(f"  {name:<12} {shown(value, None)}" for name, value in _lines(row, view, defaults, recorded) if value),
    ]


def _lines(row: Row, view: View, defaults: Defaults, recorded: Recorded | None) -> Iterator[tuple[str, str]]:
    yield "description", row.description
    yield "schedule", row.schedule
    yield "cron", row.cron
    yield "disabled", (row.disabled_until and f"until {_moment(row.disabled_until, row, view)}") or ""
    yield "next", _moment(row.next, row, view)
    yield "skips", ", ".join(f"{view.local(each, row.zone):%Y-%m-%d %H:%M:%S %Z}" for each in row.skip)
    yield (
        "last run",
        _last_run(recorded.last, row, view) if recorded and recorded.last else _moment(row.last_run_at, row, view),
    )
    yield "counts", ", ".join(filter(None, _counts(row, view, recorded)))
    yield "policies", "; ".join(_policies(row, defaults))
    yield "changed", _changed(row, view)
    yield "labels", ", ".join(f"{name}={value}" for name, value in row.labels.items())
    yield "options", printable_json(row.fields.options) if row.fields and row.fields.options else ""
    yield "error", row.last_error
    yield "tries", _tries(row, view)
    yield "declaration", row.declaration and f"not stored: {row.declaration}"
    yield "definition", "" if row.fields else row.definition


def _changed(row: Row, view: View) -> str:
    """Return when it was changed last, what, by whom and why."""
    line = row.changed
    if line is None or line.last is None:
        return ""
    local, fields = view.local(line.last, row.zone), line.details.get("fields") or ()
    what = ", ".join(map(str, fields)) or line.what
    when = f"{clock_words(local, view.now_in(row.zone))} {local:%Z}"
    return f"{when}   {what}{author_words(line.details.get('by'), line.details.get('note'))}"


def _last_run(run: Run, row: Row, view: View) -> str:
    """Return when the newest run was due, how late it was sent, what became of it, and its id."""
    fire_time = run.fire_time or run.sent_at
    local = None if fire_time is None else view.local(fire_time, row.zone)
    when = "" if local is None else f"{date_words(local)} {local:%H:%M:%S %Z}"
    late = lateness(run)
    words = outcome_words(run, view.now)
    return "   ".join(filter(None, (when, f"{late_words(late)} late, {words}" if late is not None else words, run.id)))


def _counts(row: Row, view: View, recorded: Recorded | None) -> Iterator[str]:
    if recorded is None:
        yield f"{row.runs:,} {'run' if row.runs == 1 else 'runs'}"
        yield row.skipped
        return
    counts = vars(recorded.counts)
    yield f"{counts['sent']:,} sent"
    for name in ("success", "failure", "lost", "revoked", "expired"):
        yield f"{counts[name]:,} {name}" if counts[name] else ""
    for reason, skipped in row.skips.items():
        last = date_words(view.local(skipped.last, row.zone).date(), view.now_in(row.zone).date())
        yield f"{skipped.count_text} skipped ({reason}, last {last})"
    yield f"{counts['failures']:,} failures in a row" if counts["failures"] > 1 else ""


def _version(row: Row) -> str:
    return f", version {row.version}" if row.version else ""


def _arguments(row: Row) -> str:
    if row.fields is None:
        return ""
    keywords = (f"{name}={value!r}" for name, value in row.fields.kwargs.items())
    return shown(", ".join([*map(repr, row.fields.args), *keywords]), MOST_ARGUMENTS)


def _tries(row: Row, view: View) -> str:
    """Return how often beat has tried to send what a failing entry owes, since when, and when it tries again."""
    if not row.tries:
        return ""
    since = f"the first {relative_words(row.failing_since, view.now, units=2)}" if row.failing_since else ""
    following = f"the next {relative_words(row.retry_at, view.now, units=2)}" if row.retry_at else ""
    return ", ".join(filter(None, (f"{row.tries:,}", since, following)))


def _moment(moment: datetime | None, row: Row, view: View) -> str:
    """Return a time in the entry's zone, in UTC, and as its distance from now."""
    if moment is None:
        return ""
    local = view.local(moment, row.zone)
    universal = moment.astimezone(timezone.utc).replace(tzinfo=None, microsecond=0)
    distance = relative_words(moment, view.now, units=2)
    return f"{date_words(local)} {local:%H:%M:%S %Z}   {universal.isoformat()}Z   {distance}"


def _policies(row: Row, defaults: Defaults) -> Iterator[str]:
    if row.fields is None:
        return
    for name, value in given_policies(row.fields._asdict()).items():
        if name not in _SHOWN_APART and value is not INHERIT:
            yield f"{name} {_policy(name, value)}"
    for name, value in inherited_policies(row.fields, defaults).items():
        yield f"{name} {_policy(name, value)} (setting)"


def _policy(name: str, value: Any) -> str:
    if name in _DURATIONS and isinstance(value, (int, float)) and value >= 1:
        return duration_words(timedelta(seconds=value), units=2)
    return value.isoformat() if isinstance(value, datetime) else "none" if value is None else str(value)
