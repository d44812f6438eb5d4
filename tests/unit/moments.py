"""Short forms of instants and schedules for the tables of the unit tests."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timezone, tzinfo
from zoneinfo import ZoneInfo

from celery.schedules import crontab

NEW_YORK = ZoneInfo("America/New_York")


def utc(text: str) -> datetime:
    whole, _, fraction = text.partition(".")  # Python 3.10 reads fractions of three and six digits only
    moment = datetime.fromisoformat(whole).replace(tzinfo=timezone.utc)
    return moment.replace(microsecond=int(fraction.ljust(6, "0")))


def at(text: str, zone: tzinfo = NEW_YORK) -> datetime:
    """Return the instant of a local time that exists once."""
    return utc(text).replace(tzinfo=zone).astimezone(timezone.utc)


def local(instant: datetime, zone: tzinfo) -> str:
    """Return an instant as local time with its offset, which distinguishes the passes of a repeated hour."""
    return instant.astimezone(zone).strftime("%Y-%m-%d %H:%M %z")


def cron(expression: str) -> crontab:
    """Return the crontab of five fields in the order of crontab(5)."""
    minute, hour, day_of_month, month_of_year, day_of_week = expression.split()
    return crontab(minute, hour, day_of_week, day_of_month, month_of_year)


def sequence(following: Callable[[datetime], datetime | None], after: datetime, until: datetime) -> list[datetime]:
    """Return the fire times later than ``after`` and before ``until``."""
    found: list[datetime] = []
    fire_time = following(after)
    while fire_time is not None and fire_time < until:
        found.append(fire_time)
        fire_time = following(fire_time)
    return found
