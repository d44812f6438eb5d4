"""The forecast: how many runs each quarter of an hour of the next day has."""

from __future__ import annotations

from datetime import timezone

from redisbeater.dashboard.pages import Action, Page, Visit
from redisbeater.dashboard.pictures import QUARTERS, forecast_strip

__all__ = ("ACTIONS",)


async def forecast(visit: Visit) -> Page:
    """Show the forecast of all entries, or with ``task`` of those of a task."""
    found = await visit.site.forecasts.get(visit.query("task"))
    strip = forecast_strip(found, visit.clock.fixed or visit.clock.now.tzinfo or timezone.utc)
    data = {
        "start": found.start.isoformat(),
        "runs": found.runs,
        "is_at_least": found.is_at_least,
        "quarters": [found.counts.get(place, 0) for place in range(QUARTERS)],
        "peak": found.peak and [found.peak.at.isoformat(), found.peak.runs],
        "words": strip.words,
    }
    return Page(template="forecast.html", values={"forecast": found}, data=data, fragment="forecast")


ACTIONS = (Action(path="/forecast", answer=forecast),)
