"""Facts in words, as templates ask for them; those of the command line wherever it has the same."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta, timezone, tzinfo
from itertools import repeat
from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple

from redisbeater.dashboard.auth import Right, User
from redisbeater.dashboard.pictures import held_until
from redisbeater.dashboard.site import Clock
from redisbeater.exceptions import InvalidEntry
from redisbeater.management.edit_report import value_words
from redisbeater.management.entry_view import EntryView
from redisbeater.management.future import HeldRuns
from redisbeater.management.moved import Moved
from redisbeater.management.runs.history import end_words, late_words, lateness, note_words, outcome_words, running_time
from redisbeater.management.runs.results import RESULTS, Result
from redisbeater.management.verbs import VERBS, Argument, Verb
from redisbeater.management.why.before import Event
from redisbeater.management.why.facts import line_words, word_of
from redisbeater.model.beat_line import Pause
from redisbeater.model.log_line import LogLine
from redisbeater.model.run import Run, State
from redisbeater.redaction import BLANK
from redisbeater.schedules.zones import read_zone
from redisbeater.times import FAR_FUTURE, date_words, from_iso, from_unix, span_words

if TYPE_CHECKING:
    from redisbeater.dashboard.access import Head

end, note, outcome, span = end_words, note_words, outcome_words, span_words


def span_of_ms(milliseconds: float) -> str:
    """Return a length in words that is measured in milliseconds."""
    return span_words(timedelta(milliseconds=milliseconds))


def late(run: Run) -> str:
    """Return how late a run was sent, or an empty text if that is unknown."""
    length = lateness(run)
    return "" if length is None else late_words(length)


def is_delayed(run: Run) -> bool:
    """Return whether a run was sent a second late or later."""
    length = lateness(run)
    return length is not None and length >= timedelta(seconds=1)


def took(run: Run, now: datetime) -> str:
    """Return how long a run took, or has taken so far, or an empty text if it has not started."""
    length: timedelta | None = running_time(run, now)
    return "" if length is None else span_words(length)


def line(found: LogLine, clock: Clock, zone: tzinfo | None) -> str:
    """Return a log line without its first word, with local times."""
    words = line_words(found, lambda moment: clock.words(moment, zone))
    return words.removeprefix(word_of(found)).lstrip(": ")


def moved(found: LogLine, clock: Clock, zone: tzinfo | None) -> str:
    """Return the next run before and after a change, or an empty text if the change did not move it."""
    if "next" not in found.details:
        return ""
    only = LogLine(what="", details={"next": found.details["next"]})
    return line(only, clock, zone).removeprefix("next ").replace(" -> ", " → ")


def what(found: LogLine, clock: Clock, zone: tzinfo | None) -> str:
    """Return a log line without what has columns of its own: who, why, and the next run before and after."""
    details = {name: value for name, value in found.details.items() if name not in ("by", "note", "next")}
    plain = LogLine(what=found.what, first=found.first, last=found.last, count=found.count, details=details)
    return line_words(plain, lambda moment: clock.words(moment, zone))


def waiting(found: HeldRuns) -> str:
    """Return how many fire times wait for the end of a pause."""
    if not found.entries:
        return "No fire time is waiting."
    least = "At least " if found.is_at_least else ""
    times = "1 fire time is" if found.fire_times == 1 else f"{found.fire_times:,} fire times are"
    return f"{least}{times} waiting{'' if found.entries == 1 else f', of {found.entries:,} entries'}: {_starts(found)}."


def at_its_end(found: HeldRuns) -> str:
    """Return the words about the end of a pause that lasts until a time, or an empty text if nothing comes."""
    least, number = "At least " if found.is_at_least else "", found.fire_times
    times = "1 fire time comes" if number == 1 else f"{number:,} fire times come"
    return f"{least}{times} until then: {_starts(found)}." if found.entries else ""


def resumed(found: HeldRuns) -> str:
    """Return the words about the end of a pause that held back these fire times."""
    least = "at least " if found.is_at_least else ""
    return f"Resumed: {least}{_starts(found)}." if found.entries else "Resumed. No fire time was waiting."


def _starts(found: HeldRuns) -> str:
    """Return how many runs start at the end of a pause, and how many fire times fall away."""
    runs = "1 run starts" if found.runs == 1 else f"{found.runs:,} runs start"
    falls = "1 fire time falls away" if found.fallen == 1 else f"{found.fallen:,} fire times fall away"
    return f"{runs}, {falls}" if found.fallen else runs


def pause_end(pause: Pause | None) -> datetime | None:
    """Return the end of a pause, a far time if it has no end, or None if there is no pause."""
    if pause is None:
        return None
    if pause.until is None:
        return FAR_FUTURE
    return (pause.until + timedelta(seconds=0.5)).replace(microsecond=0)  # it is known by the time that is left


def held(pause: Pause | None, moment: datetime | None, clock: Clock) -> str:
    """Return the words about a run that a pause holds, ``held until 21:45``, or an empty text if it does not."""
    end = pause_end(pause)
    if end is None or moment is None or moment >= end:
        return ""
    return held_until(end, clock.local(end).tzinfo or timezone.utc, clock.now)


def between(clock: Clock, start: datetime, end: datetime) -> str:
    """Return a time from one instant to another: ``Tue 24 Nov 2026 03:15 to 03:30 CET``."""
    first, last = clock.local(start), clock.local(end)
    form = "%H:%M:%S" if first.second or last.second else "%H:%M"
    day = "" if first.date() == last.date() else f"{date_words(last)} "
    return f"{date_words(first)} {first:{form}} to {day}{last:{form} %Z}"


def typed(text: str, local: datetime) -> str:
    """Return a time as people write it where a link has it with its offset; that of a repeated hour stays as it is."""
    is_of_link = from_iso(text) is not None and local.fold == 0
    return f"{local:%Y-%m-%d %H:%M:%S}".removesuffix(":00") if is_of_link else text


def before(event: Event, since: datetime) -> str:
    """Return how long before a moment something happened, or that it went on then."""
    length = since - event.end
    return f"{span_words(length)} before" if length > timedelta() else "at that time"


#: A minute with more runs than this, or with so many times the median, is a herd.
HERD, HERD_TIMES = 100, 3


def is_herd(found: Moved) -> bool:
    """Return whether a change leaves a minute that is far above the others."""
    after, (_, peak) = found.after, found.peaks
    if peak is None or peak.runs < 2:
        return False
    minutes = max(int((found.end - found.start).total_seconds()) // 60, 1)
    usual = median([*after.values(), *repeat(0, max(minutes - len(after), 0))])
    return peak.runs > HERD or (peak.runs > HERD_TIMES * max(usual, 1) and peak.at in _changed(found))


def _changed(found: Moved) -> set[datetime]:
    """Return the minutes that a change gives more runs."""
    return {from_unix(minute) for minute, runs in found.after.items() if runs > found.before.get(minute, 0)}


def plain(found: Any, clock: Clock, zone: tzinfo | None) -> str | None:
    """Return a value of a definition as people write it, or None if only JSON says it."""
    if isinstance(found, bool):
        return "yes" if found else "no"
    if found is None or found in ([], {}):
        return "none"
    if isinstance(found, dict) and all(isinstance(each, str) for each in found.values()) and "__type__" not in found:
        return ", ".join(f"{key}={each}" for key, each in found.items())
    if isinstance(found, dict) and found.get("__type__") == "datetime":
        moment = _moment(found, zone or clock.now.tzinfo)
        return value_words(found) if moment is None else clock.long_words(moment, zone)
    return found if isinstance(found, str) else f"{found:,}" if isinstance(found, int) else None


def _moment(parts: dict[str, Any], zone: tzinfo | None) -> datetime | None:
    """Return a stored time, or None if another program wrote it."""
    numbers = [parts.get(part, 0) for part in ("year", "month", "day", "hour", "minute", "second", "microsecond")]
    try:
        name = parts.get("timezone")
        return datetime(*numbers).replace(tzinfo=zone if name is None else read_zone(name, "timezone"))
    except (TypeError, ValueError, InvalidEntry):
        return None


def value(found: Any, field: str) -> str:
    """Return a value before or after a change in words."""
    return BLANK if found == BLANK else value_words(found)


#: How the words of a schedule become those of a line in a list: a pattern of them, and what stands there instead.
SHORTER = (
    (r"^at (.+) every day", r"\1 daily"),
    (r"^at (\d\d) minutes past every hour", r"hourly at :\1"),
    (r"^at (\d\d:\d\d.*?) on ", r"\1 "),
    (r"\b(Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*day\b", r"\1"),
    (r", (?:\w+/)+(\w+)$", r", \1"),
)

#: The longest text of a schedule in a list; where its words are longer, a cron says it in less.
LONGEST_SCHEDULE = 48


def schedule(found: EntryView) -> str:
    """Return when an entry runs, for a line of a list: ``09:00 Mon to Fri, Vienna``."""
    text = found.brief or found.schedule
    for pattern, short in SHORTER:
        text = re.sub(pattern, short, text)
    return found.cron if found.cron and len(text) > LONGEST_SCHEDULE else text


class Outcome(NamedTuple):
    """What a list shows of an entry: a word, its tone, what there is to say of it, and when a run in the word began."""

    word: str
    tone: str
    detail: str
    began: datetime | None = None


def outcome_of(found: EntryView) -> Outcome:
    """Return the outcome of an entry: that it is broken, disabled or not sent, or else the result of its runs."""
    state, result = found.state, found.result
    if state == "failing":
        return Outcome("not sent", "bad", found.last_error)
    is_over = state == "finished" and result and result.result in (Result.LATE, Result.OK, Result.NEVER)
    if result is None or is_over or state not in ("enabled", "finished"):
        has_failed = state == "disabled" and result and result.result in (Result.FAILED, Result.UNSTABLE)
        return Outcome(state, state, result.words if result and has_failed else found.last_error)
    word, _, detail = re.sub("[:,] ", "\n", result.words, count=1).partition("\n")
    began = found.snapshot.now - result.running if found.snapshot and result.running else None
    return Outcome(word, RESULTS[result.result].tone, detail, began)


def began(*runs: Run) -> datetime | None:
    """Return when the first of some runs began that is executed now, or None if none is."""
    return next((run.started_at for run in runs if run.state is State.STARTED), None)


class Chip(NamedTuple):
    """A number of entries in words, the query of the page that lists these, and whether it is the one that is shown."""

    words: str
    tone: str
    query: str
    is_shown: bool


def chips(head: Head, shown: Mapping[str, str]) -> Iterator[Chip]:
    """Yield the numbers of entries that somebody may look for, those that need attention first.

    Each has its place, also with none, so that nothing moves under the pointer; behind them stands what is seldom.

    Arguments:
        head: has the numbers.
        shown: the filters of the page that is shown, by name.
    """
    status = head.status
    kinds = [
        (status.failed, "failed", "result", "failed"),
        (status.failing, "not sent", "state", "failing"),
        (status.unstarted_entries, "waiting", "result", "waiting"),
        (status.unstable, "unstable", "result", "unstable"),
        (status.running_entries, "running", "result", "running"),
        (head.disabled, "disabled", "state", "disabled"),
    ]
    seldom = [(status.broken, "broken", "state", "broken"), (head.late, "late", "state", "late")]
    for entries, word, field, value in [*kinds, *seldom]:
        tone = RESULTS[Result(value)].tone if field == "result" else "disabled" if value == "disabled" else "bad"
        if entries or shown == {field: value} or (entries, word, field, value) in kinds:
            style = tone if entries else f"{tone} none"
            yield Chip(f"{entries:,} {word}", style, f"?{field}={value}", shown == {field: value})
    yield Chip(f"all {status.entries + status.unstored:,}", "quiet", "", not shown)


def verbs(found: EntryView | Run, user: User) -> list[Verb]:
    """Return the verbs that a person may do to an entry or a run as it is now."""
    return [verb for verb in VERBS.values() if is_for(verb, found) and Right(verb.right) in user.rights]


def verbs_of_many(user: User) -> list[Verb]:
    """Return the verbs that a person may do to many entries at once."""
    able = [verb for verb in VERBS.values() if verb.of == "entries" and verb.when != "deleted" and not verb.is_single]
    return [verb for verb in able if Right(verb.right) in user.rights]


def arguments(found: Iterable[Verb]) -> list[Argument]:
    """Return the arguments of some verbs, each once: a form of them all has one field for it."""
    return list({each.name: each for verb in found for each in verb.takes}.values())


def is_for(verb: Verb, found: EntryView | Run) -> bool:
    """Return whether a verb is offered for an entry or a run as it is now."""
    if isinstance(found, Run):
        holds = {"active": not found.is_final, "ended": found.is_final}
    else:
        holds = {
            "stored": True,
            "readable": found.stored is not None,
            "planned": found.next is not None,
            "enabled": found.is_enabled,
            "disabled": not found.is_enabled,
        }
    return holds.get(verb.when, False)
