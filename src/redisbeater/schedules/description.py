"""Schedules in words."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime, time, timedelta, tzinfo
from datetime import timezone as fixed_zone

from celery.schedules import BaseSchedule, crontab, solar
from celery.schedules import schedule as interval

from redisbeater.schedules import crontab as crontab_engine
from redisbeater.schedules.cron_expression import DateRule, Fields, WeekdayRule, cron_expression
from redisbeater.schedules.crontab import is_repeating
from redisbeater.schedules.english import (
    clock_text,
    consecutive,
    date_text,
    every,
    join_words,
    month_names,
    ordinal,
    span_text,
    step_of,
    unbracketed,
    weekday_names,
    zone_text,
)
from redisbeater.schedules.interval import clocked
from redisbeater.schedules.rrule.rrule import rrule
from redisbeater.schedules.rrule_description import rrule_in_words
from redisbeater.schedules.zones import in_zone, is_in_gap, read_zone

#: Up to this many times of the day are always named one by one.
_FEW = 3

#: Up to this many are named one by one if no interval describes them.
_SOME = 8

#: What a schedule does when the clocks change.
_FIXED = "fixed: once for each time of the day, also when the clocks change"
_BY_ELAPSED_TIME = "repeating: by elapsed time, also when the clocks change"
_BY_THE_CLOCK = "repeating: by the clock, so twice at a time that comes twice when the clocks change"


def crontab_in_words(schedule: crontab, zone: str | None) -> str:
    """Describe when a crontab fires, in which zone if it is known, and what it does when the clocks change."""
    return f"{crontab_in_brief(schedule, zone)} ({kind_in_words(is_repeating(schedule), len(schedule.hour))})"


def crontab_in_brief(schedule: crontab, zone: str | None) -> str:
    """Describe when a crontab fires, in which zone if it is known."""
    return ", ".join(filter(None, (_sentence(schedule), zone)))


def kind_in_words(is_repeating: bool, hours: int) -> str:
    """Describe what a schedule does when the clocks change, by its class and its number of hours of the day."""
    if not is_repeating:
        return _FIXED
    return _BY_ELAPSED_TIME if hours == 24 else _BY_THE_CLOCK


def times_in_words(minutes: Sequence[int], hours: Sequence[int]) -> str:
    """Describe the times of the day in the shortest wording that is exact."""
    number = len(minutes) * len(hours)
    if len(hours) == 24:
        return _in_every_hour(minutes)
    if number > _FEW:
        by_interval = _by_hours(minutes, hours) or _by_minutes(minutes, hours)
        if by_interval:
            return by_interval
    if number <= _SOME:
        return f"at {join_words([clock_text(time(hour, minute)) for hour in hours for minute in minutes])}"
    return _in_some_hours(minutes, hours)


def dates_in_words(dates: Sequence[int]) -> str:
    """Describe days of the month by number."""
    return f"day {span_text(consecutive(dates))} of the month"


def days_in_words(
    weekdays: str, dates: str, months: Collection[int], *, is_listed: bool, even_dates: str | None = None
) -> str:
    """Describe the days, after a blank; return "" when every day matches and the sentence is clear without.

    Arguments:
        weekdays: the weekdays in words; "" when all match.
        dates: the days of the month in words; "" when all match.
        months: by number.
        is_listed: whether the times of the day are named one by one.
        even_dates: shorter words for the days of the month, if no weekday comes before them.
    """
    within = f" in {month_names(months)}" if len(months) < 12 else ""
    if weekdays:
        return f" on {weekdays}{within}" + (f", when it is {dates}" if dates else "")
    if dates:
        return f" on {even_dates or dates}{within}"
    return f"{' every day' if is_listed else ''}{within}"


def _sentence(schedule: crontab) -> str:
    fields = (schedule.minute, schedule.hour, schedule.day_of_week, schedule.day_of_month, schedule.month_of_year)
    if not all(fields):
        return "never"
    times = times_in_words(sorted(schedule.minute), sorted(schedule.hour))
    return f"{times}{_days(schedule, is_listed=times.startswith('at ') and len(schedule.hour) < 24)}"


def _in_every_hour(minutes: Sequence[int]) -> str:
    step = _whole_step(minutes)
    return every(step, "minute") if step and len(minutes) > 2 else f"{_past(minutes)} past every hour"


def _by_hours(minutes: Sequence[int], hours: Sequence[int]) -> str | None:
    """Describe one minute of evenly spaced hours; None when the hours are not."""
    step = step_of(hours)
    if step is None or len(minutes) > 1:
        return None
    if hours[0] == 0 and hours[-1] + step == 24:
        return f"{every(step, 'hour')} at {minutes[0]:02} minutes past"
    return f"{every(step, 'hour')} {_from_to(time(hours[0], minutes[0]), time(hours[-1], minutes[0]))}"


def _by_minutes(minutes: Sequence[int], hours: Sequence[int]) -> str | None:
    """Describe an interval that divides the hour, in a few spans of hours; None when there is none."""
    step, spans = _whole_step(minutes), consecutive(hours)
    if step is None or len(spans) > _FEW or len(minutes) * len(hours) <= _FEW * len(spans):
        return None
    texts = [_from_to(time(span[0], minutes[0]), time(span[-1], minutes[-1])) for span in spans]
    return f"{every(step, 'minute')} {join_words(texts)}"


def _in_some_hours(minutes: Sequence[int], hours: Sequence[int]) -> str:
    within = f"the {'hour' if len(hours) == 1 else 'hours'} {span_text(consecutive(hours), _two_digits)}"
    step = _whole_step(minutes)
    return f"{every(step, 'minute')} during {within}" if step else f"{_past(minutes)} past {within}"


def _whole_step(minutes: Sequence[int]) -> int | None:
    """Return the step of minutes that continue evenly into the next hour; else None."""
    step = step_of(minutes)
    return step if step and minutes[0] == 0 and minutes[-1] + step == 60 else None


def _past(minutes: Sequence[int]) -> str:
    step = step_of(minutes)
    if step and len(minutes) > _FEW:
        return f"{every(step, 'minute')} from {minutes[0]:02} to {minutes[-1]:02} minutes"
    return f"at {span_text(consecutive(minutes), _two_digits)} minutes"


def _two_digits(value: int) -> str:
    return f"{value:02}"


def _from_to(first: time, last: time) -> str:
    return f"from {clock_text(first)} to {clock_text(last)}"


def _days(schedule: crontab, is_listed: bool) -> str:
    days = [day or 7 for day in schedule.day_of_week] if len(schedule.day_of_week) < 7 else []
    dates = sorted(schedule.day_of_month) if len(schedule.day_of_month) < 31 else []
    return days_in_words(
        weekday_names(days) if days else "",
        dates_in_words(dates) if dates else "",
        schedule.month_of_year,
        is_listed=is_listed,
        even_dates=_even_dates(dates) if dates else None,
    )


def _even_dates(dates: Sequence[int]) -> str | None:
    step = step_of(dates)
    if step in (None, 1) or len(dates) <= _SOME:
        return None
    return f"every {ordinal(step or 1)} day of the month from day {dates[0]} to {dates[-1]}"


#: Up to this many times of the day are named one by one.
_MOST_TIMES = 8

_MINUTES_FOLLOW = "in these minutes: "


def cron_expression_in_words(schedule: cron_expression, zone: str | None) -> str:
    """Describe when a cron expression fires, in which zone if it is known, and what it does when the clocks change."""
    brief = cron_expression_in_brief(schedule, zone)
    if not schedule.is_bound:
        return brief
    fields = schedule.slots.fields
    return f"{brief} ({kind_in_words(fields.is_repeating, len(fields.hours))})"


def cron_expression_in_brief(schedule: cron_expression, zone: str | None) -> str:
    """Describe when a cron expression fires, in which zone if it is known."""
    if not schedule.is_bound:
        return ", ".join(filter(None, (f'"{schedule.text}", where the name of the entry decides H', zone)))
    fields = schedule.slots.fields
    times = _times_of_fields(fields)
    days = days_in_words(
        _weekdays(fields.weekdays),
        _dates(fields.dates),
        fields.months,
        is_listed=times.rpartition(_MINUTES_FOLLOW)[-1].startswith("at ") and len(fields.hours) < 24,
    )
    return ", ".join(filter(None, (f"{times}{days}", zone)))


def _times_of_fields(fields: Fields) -> str:
    if fields.seconds == (0,):
        return times_in_words(fields.minutes, fields.hours)
    if len(fields.minutes) == 60 and len(fields.hours) == 24:
        seconds = _seconds(fields.seconds)
        return f"{seconds} past every minute" if seconds.startswith("at ") else seconds
    times = [
        time(hour, minute, second) for hour in fields.hours for minute in fields.minutes for second in fields.seconds
    ]
    if len(times) <= _MOST_TIMES:
        return f"at {join_words([clock_text(moment) for moment in times])}"
    return f"{_seconds(fields.seconds)} {_MINUTES_FOLLOW}{times_in_words(fields.minutes, fields.hours)}"


def _seconds(seconds: Sequence[int]) -> str:
    step = step_of(seconds)
    if step and len(seconds) > 2 and seconds[0] == 0 and seconds[-1] + step == 60:
        return every(step, "second")
    return f"at {span_text(consecutive(seconds))} seconds"


def _dates(rule: DateRule) -> str:
    """Describe the days of the month; return "" when all match."""
    if len(rule.days) == 31:
        return ""
    texts = [f"day {span_text(consecutive(rule.days))}"] if rule.days else []
    texts += [f"the workday nearest to day {day}" for day in sorted(rule.nearest_to)]
    texts += [f"the {ordinal(-1 - distance)} day" for distance in sorted(rule.from_end, reverse=True)]
    texts += ["the last workday"] if rule.last_workday else []
    return f"{join_words(texts)} of the month"


def _weekdays(rule: WeekdayRule) -> str:
    """Describe the weekdays; return "" when all match."""
    if len(rule.weekdays) == 7:
        return ""
    texts = [weekday_names([day or 7 for day in rule.weekdays])] if rule.weekdays else []
    texts += [f"the {ordinal(nth)} {_name(day)}" for nth, day in sorted((nth, day) for day, nth in rule.nth)]
    texts += [f"the last {_name(day)}" for day in sorted(rule.last)]
    return f"{join_words(texts)}{' of the month' if rule.nth or rule.last else ''}"


def _name(day: int) -> str:
    return weekday_names([day or 7])


def clock_change_note(schedule: BaseSchedule, zone: tzinfo, fire_time: datetime) -> str:
    """Describe a fire time that a clock change moved, or whose local time comes twice; return "" for any other.

    Arguments:
        schedule: the schedule that fires.
        zone: the zone of the schedule's local times.
        fire_time: aware UTC.
    """
    local = fire_time.astimezone(zone)
    if moved := moved_times(schedule, zone, fire_time):
        verb = "does" if len(moved) == 1 else "do"
        return f"moved from {_clock_times(moved)}, which {verb} not exist on {moved[0]:%Y-%m-%d}"
    if _comes_twice(local):
        pass_ = "second" if local.fold else "first"
        return f"{clock_text(local.time())} comes twice on {local:%Y-%m-%d}; this is the {pass_}"
    return ""


def moved_times(schedule: BaseSchedule, zone: tzinfo, fire_time: datetime) -> list[datetime]:
    """Return the naive local times that a clock change moved to a fire time, because they did not exist."""
    local = fire_time.astimezone(zone).replace(tzinfo=None, fold=0)
    return [time for time in _nominal_times(schedule, zone, fire_time) if time != local]


def _clock_times(moved: Sequence[datetime]) -> str:
    if len(moved) > _MOST_TIMES:
        return f"{len(moved)} times between {clock_text(moved[0].time())} and {clock_text(moved[-1].time())}"
    return join_words([clock_text(moment.time()) for moment in moved])


def _nominal_times(schedule: BaseSchedule, zone: tzinfo, fire_time: datetime) -> tuple[datetime, ...]:
    """Return the local times of the schedule that fire at that instant, as its fields give them."""
    if type(schedule) in (crontab, cron_expression):
        return crontab_engine.nominal_times(schedule, zone, fire_time)
    if isinstance(schedule, rrule):
        nominal = schedule.nominal_time(fire_time)
    elif isinstance(schedule, clocked) and schedule.at.tzinfo in (None, zone):  # else it is no local time of the zone
        nominal = schedule.nominal_time(fire_time, zone)
    else:
        nominal = None
    return () if nominal is None else (nominal,)


def _comes_twice(local: datetime) -> bool:
    return local.replace(fold=0).utcoffset() != local.replace(fold=1).utcoffset()


_SECOND = timedelta(seconds=1)

#: The units to which Celery's relative intervals are rounded down: the longest one that the interval reaches.
_ALIGNMENTS = (
    (timedelta(days=1), "day", "at midnight", "midnight"),
    (timedelta(hours=1), "hour", "on the hour", "the full hour"),
    (timedelta(minutes=1), "minute", "on the minute", "the full minute"),
    (_SECOND, "second", "on the second", "the full second"),
)


def describe(schedule: BaseSchedule | float | timedelta, timezone: str | tzinfo | None = None) -> str:
    """Describe when a schedule fires, in words that need no knowledge of its notation.

    Arguments:
        schedule: any schedule that an entry can have, also seconds or a timedelta.
        timezone: the zone of its local times, named in the text; default: the one that was passed to ``cron()``. An
            rrule and an aware ``clocked`` have their own.

    Raises:
        InvalidEntry: there is no such zone, and the schedule is a ``clocked`` without its own.
    """
    zone = zone_text(timezone)
    if isinstance(schedule, (int, float, timedelta)):
        schedule = interval(schedule)
    if hasattr(schedule, "to_redisbeater"):
        return _repr_text(schedule)
    if isinstance(schedule, interval):
        return _relative(schedule.run_every, zone) if schedule.relative else _interval(schedule.run_every)
    if isinstance(schedule, crontab):
        return crontab_in_words(schedule, zone or getattr(schedule, "timezone", None))
    if isinstance(schedule, cron_expression):
        return cron_expression_in_words(schedule, zone or schedule.timezone)
    if isinstance(schedule, rrule):
        return rrule_in_words(schedule)
    if isinstance(schedule, clocked):
        return _once(schedule.at, read_zone(timezone, "timezone") if isinstance(timezone, str) else timezone)
    if isinstance(schedule, solar):
        return f"at {_event(schedule.event)} at {_degrees(schedule.lat, 'NS')}, {_degrees(schedule.lon, 'EW')}"
    return _repr_text(schedule)


def describe_in_brief(schedule: BaseSchedule, timezone: str | tzinfo | None = None) -> str:
    """Describe when a schedule fires, as :func:`describe`, without what happens when the clocks change."""
    if isinstance(schedule, crontab) and not hasattr(schedule, "to_redisbeater"):
        return crontab_in_brief(schedule, zone_text(timezone) or getattr(schedule, "timezone", None))
    if isinstance(schedule, cron_expression):
        return cron_expression_in_brief(schedule, zone_text(timezone) or schedule.timezone)
    return describe(schedule, timezone)


def _interval(length: timedelta) -> str:
    days, odd = divmod(length, timedelta(days=1))
    if days == 0 or odd:
        return _every(length)
    return f"every {days * 24} hours of elapsed time{f' ({days} days)' if days > 1 else ''}"


def _relative(length: timedelta, zone: str | None) -> str:
    """Describe a relative interval; Celery rounds each fire time, the one before plus the interval, down."""
    for unit, name, aligned, rounded in _ALIGNMENTS:
        if length >= unit:
            units, odd = divmod(length, unit)
            text = f"{_every(length)}, rounded down to {rounded}" if odd else f"{every(units, name)}, {aligned}"
            return f"{text}, {zone}" if zone else text
    return _interval(length)


def _every(length: timedelta) -> str:
    for unit, name in ((timedelta(hours=1), "hour"), (timedelta(minutes=1), "minute"), (_SECOND, "second")):
        number, odd = divmod(length, unit)
        if not odd:
            return every(number, name)
    fraction = f"{length % _SECOND // timedelta(microseconds=1):06}".rstrip("0")
    return f"every {length // _SECOND}.{fraction} seconds"


def _once(at: datetime, zone: tzinfo | None) -> str:
    local = at if at.tzinfo is not None else at.replace(tzinfo=zone)
    named = zone_text(local.tzinfo)
    if local.tzinfo is not None and is_in_gap(local):
        local, skipped = in_zone(local, local.tzinfo).astimezone(local.tzinfo), local
        named = f"{named} (for {clock_text(skipped.time())}, which the clock skips)"
    elif (offset := local.utcoffset()) is not None and offset != local.replace(fold=0).utcoffset():
        named = f"{named} ({zone_text(fixed_zone(offset))})"  # the second pass of a repeated hour
    local = local.replace(microsecond=0)
    return ", ".join(filter(None, ("once", f"on {date_text(local)} at {clock_text(local.time())}", named)))


def _event(name: str) -> str:
    """Return an event of Celery's solar as people say it: ``dawn_civil`` is civil dawn."""
    noun, _, kind = name.partition("_")
    return f"{kind} {noun}" if noun in ("dawn", "dusk") else name.replace("_", " ")


def _degrees(angle: float, sides: str) -> str:
    return f"{abs(angle):.10g} {sides[angle < 0]}"


def _repr_text(schedule: BaseSchedule) -> str:
    """Return its repr; if that has a memory address, only the name of the class."""
    kind = type(schedule)
    try:
        return unbracketed(repr(schedule)).partition(" object at 0x")[0]
    except Exception:  # the application's code: one bad repr must not break a list of entries
        return f"{kind.__module__}.{kind.__qualname__}"
