"""What programs pass as the fields of an entry: what it obviously means, or the call that makes it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from datetime import date, datetime, timedelta, tzinfo
from typing import Any

from celery.schedules import schedule

from redisbeater.display import did_you_mean, quoted
from redisbeater.entry_name import refuse_unsafe
from redisbeater.exceptions import InvalidEntry, UnknownField, WrongType
from redisbeater.model import json_text
from redisbeater.model.meta import MAX_COUNT, NEW, Meta
from redisbeater.model.options import OPTIONS
from redisbeater.schedules.kinds import kind_of
from redisbeater.schedules.zones import in_zone, read_zone, zone_name

#: The object of the entry lies around its arguments.
MOST_ARGUMENT_DEPTH = json_text.MAX_DEPTH - 1

#: The most entries, runs or lines that one call returns.
MOST_LISTED = 10_000

_NUMBER = re.compile(r"\s*\d+(\.\d+)?\s*")

#: What RFC 5545 text holds.
_RULE = re.compile(r"\b(FREQ=|RRULE|DTSTART)", re.IGNORECASE)


#: What an entry begins with, and runs change from then on.
_REPORTED = ("last_run_at", "total_run_count")


def as_schedule(given: Any, *, relative: bool = False) -> Any:
    """Return the interval for a number of seconds or a timedelta; return anything else unchanged.

    Raises:
        InvalidEntry: it is None, a bool, a text, a date or a number that no timedelta can hold.
    """
    if given is None or isinstance(given, (bool, str, date)):
        problem = f"expected seconds, a timedelta or a schedule, got {quoted(given)}"
        raise InvalidEntry("$.schedule", problem + _schedule_advice(given))
    if isinstance(given, (int, float)):
        given = _interval(given)
    return schedule(given, relative) if isinstance(given, timedelta) else given


def as_task(given: Any) -> Any:
    """Return the name of a task object; return anything else unchanged.

    Raises:
        InvalidEntry: it is a signature, whose arguments and options would be lost.
    """
    if isinstance(given, str) or not callable(getattr(given, "apply_async", None)):
        return given
    if isinstance(given, Mapping):
        raise InvalidEntry("$.task", f"expected a task or its name, got {_signature_advice(given)}")
    return getattr(given, "name", given)


#: Tasks of Celery that no message can run, and what they stand for.
_BUILT_BY_CLIENTS = {"celery.chain": "chain", "celery.group": "group"}


def task_problem(task: str) -> str:
    """Return why no worker can execute a task of Celery, and what to do instead; empty if one can."""
    kind = _BUILT_BY_CLIENTS.get(task)
    return "" if kind is None else f"no worker can execute {task}; {_build_advice(kind)}"


def check_new_task(task: str) -> None:
    """Refuse a task that another program may store, but ours must not.

    Raises:
        InvalidEntry: it is blank, holds a control character or a mark of direction, or no worker can execute it.
    """
    refuse_unsafe("$.task", task)
    if problem := task_problem(task):
        raise InvalidEntry("$.task", problem)


def for_entry(given: Any, name: Any) -> Any:
    """Return a schedule as the entry of that name has it: a cron expression with ``H`` is bound to the name.

    Raises:
        InvalidEntry: with the numbers that the name decides, no date matches.
    """
    return kind_of(given).for_entry(given, name) if isinstance(name, str) else given


def zone_of_cron(schedule_: Any) -> str | None:
    """Return the zone that was passed to ``cron()``."""
    return kind_of(schedule_).zone_name(schedule_)


def agreed_zone(given: Any, schedule_: Any) -> str | None:
    """Return the name of the zone that was passed with the entry, with its schedule or with both.

    Raises:
        InvalidEntry: it is no zone, or each has another one.
    """
    given, of_cron = (None if zone is None else _zone_name(zone) for zone in (given, zone_of_cron(schedule_)))
    if given is not None and of_cron is not None and given != of_cron:
        problem = f"is {quoted(given)}, but the schedule has {quoted(of_cron)}; pass only one of them"
        raise InvalidEntry("$.timezone", problem)
    return of_cron if given is None else given


def checked_args(args: Any) -> list[Any]:
    """Return the positional arguments of a task as a new list, if they can be stored.

    Raises:
        InvalidEntry: they are not a list, or hold a value that JSON would change.
    """
    checked = list_or_given(args)
    if type(checked) is not list:
        raise InvalidEntry("$.args", f"expected a list, got {quoted(args)}{args_advice(args)}")
    json_text.check_value(checked, "$.args", max_depth=MOST_ARGUMENT_DEPTH)
    return checked


def checked_kwargs(kwargs: Any) -> dict[str, Any]:
    """Return the keyword arguments of a task as a new dict, if they can be stored.

    Raises:
        InvalidEntry: they are not a dict, or hold a value that JSON would change.
    """
    checked = dict_or_given(kwargs)
    if type(checked) is not dict:
        raise InvalidEntry("$.kwargs", f"expected a dict, got {quoted(kwargs)}")
    json_text.check_value(checked, "$.kwargs", max_depth=MOST_ARGUMENT_DEPTH)
    return checked


def checked_instant(given: Any, zone: tzinfo, path: str) -> datetime:
    """Return the instant of a datetime, a naive one in the zone, as aware UTC.

    Raises:
        InvalidEntry: it is no datetime (also a TypeError), or too near to an end of the calendar.
    """
    if not isinstance(given, datetime):
        raise WrongType(path, f"expected a datetime, got {quoted(given)}")
    try:
        return in_zone(given, zone)
    except OverflowError:
        raise InvalidEntry(path, f"{quoted(given)} is out of range") from None


def check_number(name: str, given: Any, most: int = MOST_LISTED) -> None:
    """Refuse what is no number of things to return.

    Raises:
        ValueError: it is not from 1 to ``most``, or no whole number (also a TypeError).
    """
    problem = f"expected a whole number from 1 to {most}, got {quoted(given)}"
    if type(given) is not int:
        raise WrongType(name, problem)
    if not 1 <= given <= most:
        raise ValueError(f"{name}: {problem}")


def check_id(name: str, given: Any, of: str) -> None:
    """Refuse what cannot be the id of a run, an incident or a delay.

    Raises:
        WrongType: it is no text.
    """
    if not isinstance(given, str):
        raise WrongType(name, f"expected the id of {of}, which is a text; got {quoted(given)}")


#: How long the id of a delay may be, in characters.
MOST_OF_ID = 512


def check_new_id(name: str, given: Any) -> None:
    """Refuse what must not become the id of a delay.

    Raises:
        InvalidEntry: it is no text (also a TypeError), empty or too long, or it holds a control character.
    """
    check_id(name, given, "a delay")
    if not 0 < len(given) <= MOST_OF_ID:
        raise InvalidEntry(name, f"expected 1 to {MOST_OF_ID} characters, got {len(given)}")
    refuse_unsafe(name, given)


def checked_names(given: Iterable[str], what: str = "names", of: str = "entry") -> list[str]:
    """Return the names of several entries, or the ids of several others.

    Raises:
        WrongType: they are one text, whose letters nobody means, no list, or hold something else.
    """
    if isinstance(given, str):
        raise WrongType(what, f"expected a list of {what}, got {quoted(given)}; for one {of} pass [{quoted(given)}]")
    if not isinstance(given, Iterable):
        raise WrongType(what, f"expected a list of {what}, got {quoted(given)}")
    names = list(given)
    for name in names:
        if not isinstance(name, str):
            raise WrongType(what, f"expected {what}, which are texts; one of them is {quoted(name)}")
    return names


def checked_meta(last_run_at: Any, total_run_count: Any, zone: Callable[[], tzinfo]) -> Meta:
    """Return the meta of an entry that begins with this last run and run count; ``zone`` is that of a naive time.

    Raises:
        InvalidEntry: one of the two cannot be stored.
    """
    if last_run_at is None and total_run_count == 0:
        return NEW
    is_count = isinstance(total_run_count, int) and not isinstance(total_run_count, bool)
    if not is_count or not 0 <= total_run_count <= MAX_COUNT:
        expected = f"expected a whole number from 0 to {MAX_COUNT}"
        raise InvalidEntry("$.total_run_count", f"{expected}, got {quoted(total_run_count)}")
    ran_at = None if last_run_at is None else checked_instant(last_run_at, zone(), "$.last_run_at")
    return Meta(last_run_at=ran_at, total_run_count=total_run_count)


def task_or_given(given: Any) -> Any:
    """Return the name of a task object; saving the entry refuses what is neither a task nor its name."""
    try:
        return as_task(given)
    except InvalidEntry:
        return given


def dict_or_given(given: Any) -> Any:
    """Return a mapping as a dict, and an empty one for None; saving the entry refuses anything else."""
    return {} if given is None else dict(given) if isinstance(given, Mapping) else given


def list_or_given(given: Any) -> Any:
    """Return a tuple as a list, and an empty one for None; saving the entry refuses anything else."""
    return [] if given is None else list(given) if isinstance(given, (list, tuple)) else given


def schedule_or_given(given: Any, name: Any, *, relative: bool) -> Any:
    """Return the schedule of an entry of that name; saving the entry refuses what cannot be one."""
    if given is None:  # an object that is about to get the fields of a stored entry
        return None
    try:
        return for_entry(as_schedule(given, relative=relative), name)
    except InvalidEntry:
        return given


def unknown_field(name: str, known: Iterable[str]) -> InvalidEntry:
    """Return the error for a field that no entry has, with the nearest of the known names."""
    if name in _REPORTED:
        advice = "to count from another time use reschedule() or record_execution()"
        problem = f"is not a field of an entry that can be set; {advice}"
        return UnknownField(f"$.{name}", problem)
    if name in OPTIONS:
        return UnknownField(f"$.{name}", f'is not a field of an entry; did you mean options={{"{name}": ...}}?')
    return UnknownField(f"$.{name}", f"is not a field of an entry{did_you_mean(name, known)}")


def task_advice(given: Any) -> str:
    """Return how to make a task of a function; empty for other values."""
    return "; a function becomes a task by the decorator @app.task" if callable(given) else ""


def args_advice(given: Any) -> str:
    """Return how to write arguments that were passed as a text; empty for others."""
    return f"; for one argument pass [{quoted(given, 80)}]" if isinstance(given, str) else ""


def _signature_advice(given: Mapping[str, Any]) -> str:
    """Name a signature, and say how to schedule it: Celery's chains and the like are no tasks."""
    if kind := given.get("subtask_type"):
        return f"a {kind}; {_build_advice(kind)}"
    return "a signature; pass its parts: task=s.task, args=s.args, kwargs=s.kwargs, options=s.options"


def _build_advice(kind: str) -> str:
    return f"schedule a task of yours that builds the {kind} and calls its apply_async()"


def _zone_name(zone: Any) -> str | None:
    return zone_name(read_zone(zone, "$.timezone"))


def _interval(seconds: float) -> timedelta:
    try:
        return timedelta(seconds=seconds)
    except (ValueError, OverflowError) as exc:
        raise InvalidEntry("$.schedule.every", f"expected seconds above 0, got {quoted(seconds)}") from exc


def _schedule_advice(given: Any) -> str:
    """Return the call that makes a schedule of a text or a date; empty if there is none."""
    if isinstance(given, datetime):
        return "; for one run at that time use clocked(...)"
    if isinstance(given, date):
        return "; for one run use clocked(datetime(...))"
    if not isinstance(given, str):
        return ""
    if _NUMBER.fullmatch(given):
        return f"; for an interval pass the number {given.strip()}"
    if _RULE.search(given):
        return f"; for a recurrence rule use rrule({quoted(given, 80)})"
    if len(given.split()) > 1 or given.startswith("@"):
        return f"; for cron text use cron({quoted(given, 80)})"
    return '; for cron text use cron("*/5 * * * *"), for an interval timedelta(minutes=5)'
