"""``cron``: a schedule from a cron text, Celery's crontab if that can hold it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import tzinfo
from functools import partial
from typing import Any

from celery.schedules import crontab

from redisbeater.schedules.cron_expression.expression import cron_expression
from redisbeater.schedules.cron_expression.name_hash import is_hashed
from redisbeater.schedules.crontab.field import make_crontab
from redisbeater.schedules.crontab.text import PATH, celery_field, check_part, pointed_at, split_text
from redisbeater.schedules.zone import read_zone, zone_name

__all__ = ("cron",)


def cron(text: str, timezone: str | tzinfo | None = None) -> crontab | cron_expression:
    """Return the schedule of a text such as ``"0 9 * * mon-fri"``, ``"0 18 * * friL"`` or ``"@daily"``.

    Both day fields must match, as always in Celery, while in crontab(5) one of them is enough: ``"0 9 1-7 * mon"`` is
    the first Monday. Fields may be names, lists, ranges, also around the end (``fri-mon``, ``22-2``), and steps. 7 is
    Sunday, and ``?`` in a day field is ``*``.

    What Celery's crontab lacks: a field of seconds in front; ``L`` (the last day of the month), ``L-2``, ``LW`` (the
    last weekday), ``15W`` (the weekday nearest to day 15); ``fri#1`` (the first Friday), ``friL`` (the last); and
    ``H``, ``H(0-29)``, ``H/15``, which a hash of the entry's name decides.

    Arguments:
        text: second (optional), minute, hour, day of month, month, day of week; or @yearly, @annually, @monthly,
            @weekly, @daily, @midnight, @hourly.
        timezone: zone of its local times, by its IANA name or as a ``ZoneInfo``; the name is stored in the ``timezone``
            of the result, the zone in its ``tz`` for Celery's own beat, which uses it from 5.7 on. Copies keep both.

    Returns:
        Celery's crontab if that can hold it; else a ``cron_expression``, a schedule of this package.

    Raises:
        InvalidEntry: a field cannot be read (the path names it), or there is no such zone.
    """
    fields, zone = split_text(text), None if timezone is None else read_zone(timezone, "$.timezone")
    if _is_extended(fields):
        return cron_expression(text, zone_name(zone))
    with pointed_at(fields):
        for name, value in fields.items():
            check_part(name, value)
        schedule = make_crontab({name: celery_field(name, value) for name, value in fields.items()}, PATH)
    schedule.timezone = zone_name(zone)
    if zone is not None:
        schedule.tz = zone
    # Celery's crontab is copied and pickled as its fields alone; an object's own method comes before its class's.
    vars(schedule)["__reduce__"] = partial(_as_call, text, schedule.timezone)
    return schedule


def _as_call(text: str, zone: str | None) -> tuple[Callable[..., Any], tuple[str, str | None]]:
    return cron, (text, zone)


def _is_extended(fields: Mapping[str, str]) -> bool:
    """Tell whether a text has what Celery's crontab lacks, or what is misspelt for it."""
    dates, weekdays = fields["day_of_month"].upper(), fields["day_of_week"].upper()
    return (
        "second" in fields
        or "L" in dates
        or "W" in dates
        or "#" in weekdays
        or any(part.endswith("L") for part in weekdays.split(","))
        or any(is_hashed(part) for value in fields.values() for part in value.split(","))
    )
