"""Celery's ``solar``: events of the sun at a place, found by Celery itself."""

from __future__ import annotations

import copy
from contextlib import suppress
from datetime import datetime, timedelta, tzinfo
from typing import Any

from celery.schedules import solar

from redisbeater.display import quoted, text_of
from redisbeater.exceptions import InvalidEntry
from redisbeater.schedules.budget import Steps
from redisbeater.schedules.crontab_text import PATH
from redisbeater.schedules.kind import PLANNING, Reading, ScheduleKind, ask, check_fields

#: What a call of Celery's solar takes, and each day that it looks at without success, near a pole.
_STEPS, _DAY_STEPS = 500, 150

#: Celery's solar returns the end of its search, a year later, where an event never happens: at a pole.
_SEASON = timedelta(days=300)

_MINUTE = timedelta(minutes=1)


class SolarKind(ScheduleKind[solar]):
    """Celery's solar."""

    __slots__ = ()

    schedule_class = solar
    name = "solar"
    word = "solar"
    title = "Solar"
    placeholder = "EVENT,LAT,LON"
    sentence = "Run at an event of the sun: sunset,48.2,16.4."
    expected = "event, latitude, longitude: sunset,48.2,16.4"
    stores_subclasses = True
    foreign = ()
    is_memoryless = True

    def encode(self, schedule: solar) -> dict[str, Any]:
        """Return the event and the place."""
        return {"event": schedule.event, "lat": schedule.lat, "lon": schedule.lon}

    def decode(self, data: dict[str, Any]) -> solar:
        """Return the schedule of an event and a place."""
        check_fields(data, ("event", "lat", "lon"))
        try:
            return solar(**data)
        except Exception as exc:  # celery raises five types here; without ephem, ImproperlyConfigured
            raise InvalidEntry(PATH, f"solar: {' '.join(text_of(exc).split())}") from exc

    def next(self, schedule: solar, zone: tzinfo, after: datetime, steps: Steps) -> datetime | None:
        """Return the next event; None at a pole, where Celery returns the end of its search."""
        steps.take(_STEPS)
        local, frozen = after.astimezone(zone), copy.copy(schedule)
        with PLANNING:
            remaining = _wait(frozen, local)
            if remaining is None or remaining <= timedelta():
                return None
            steps.take(remaining.days * _DAY_STEPS)
            if remaining > _SEASON and not _is_event(frozen, local + remaining):
                return None
        return after + remaining

    def has_local_times(self, schedule: solar) -> bool:
        """Return False: the sun knows no zones."""
        return False

    def describe(self, schedule: solar, zone: str | tzinfo | None) -> str:
        """Describe the event and the place."""
        return f"at {_event(schedule.event)} at {_degrees(schedule.lat, 'NS')}, {_degrees(schedule.lon, 'EW')}"

    def text(self, schedule: solar) -> str:
        """Return it as ``sunset,48.2,16.4``."""
        return f"{schedule.event},{schedule.lat},{schedule.lon}"

    def read(self, text: Any, reading: Reading) -> solar:
        """Return the schedule of a text such as ``sunset,48.2,16.4``."""
        event, *angles = (part.strip() for part in str(text).split(","))
        try:
            latitude, longitude = map(float, angles)
        except ValueError:
            example = "an event, latitude and longitude such as sunset,48.2,16.4"
            raise ValueError(f"expected {example}, got {quoted(text)}") from None
        return self.decode({"event": event, "lat": latitude, "lon": longitude})


def _wait(asked: solar, local: datetime) -> timedelta | None:
    """Return how long a solar schedule waits, or None if its event does not happen within a year.

    Celery before 5.7 looks at one day, and raises TypeError where the event does not happen on it: near a pole.
    """
    for day in (timedelta(days=number) for number in range(366)):
        with suppress(TypeError):
            remaining = ask(asked, local + day)
            return None if remaining is None else day + remaining
    return None


def _is_event(asked: solar, local: datetime) -> bool:
    """Tell whether the event of a solar schedule happens at a local time."""
    remaining = ask(asked, local - _MINUTE)
    return remaining is not None and remaining < 2 * _MINUTE


def _event(name: str) -> str:
    """Return an event of Celery's solar as people say it: ``dawn_civil`` is civil dawn."""
    noun, _, kind = name.partition("_")
    return f"{kind} {noun}" if noun in ("dawn", "dusk") else name.replace("_", " ")


def _degrees(angle: float, sides: str) -> str:
    return f"{abs(angle):.10g} {sides[angle < 0]}"
