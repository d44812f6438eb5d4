"""The forecast: how many runs each quarter of an hour of the next day has, and those of the busiest entries."""

from __future__ import annotations

from datetime import timezone

from redisbeater.dashboard.pages import Action, Page, Visit
from redisbeater.dashboard.pictures import QUARTERS, band_strip, forecast_strip
from redisbeater.dashboard.views.query import EntryQuery

__all__ = ("ACTIONS",)

#: Runs of a week, going by its first day, that are counted at most while somebody waits for the page.
MOST_OF_A_WEEK = 200_000


async def forecast(visit: Visit) -> Page:
    """Show the forecast of the entries that the filters of the list select."""
    found = await visit.site.forecasts.get(EntryQuery.of(visit.request.query_params).selection)
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


async def bands(visit: Visit) -> Page:
    """Show when the entries with the most runs run, within 24 hours, or with ``within=7d`` within a week.

    A week with too many runs is not counted: its first day is shown.
    """
    everything = EntryQuery().selection
    found, days = await visit.site.forecasts.get(everything), 1
    is_wide = visit.query("within") == "7d"
    if is_wide and not found.is_at_least and 7 * found.runs <= MOST_OF_A_WEEK:
        found, days = await visit.site.forecasts.get(everything, 7), 7
    data = {
        "start": found.start.isoformat(),
        "days": days,
        "is_at_least": found.is_at_least,
        "entries": [{"name": band.name, "runs": band.runs, "quarters": dict(band.quarters)} for band in found.bands],
    }
    zone = visit.clock.fixed or visit.clock.now.tzinfo or timezone.utc
    drawn = [(band.name, band.runs, band_strip(band, found.start, days, zone)) for band in found.bands]
    values = {"bands": drawn, "days": days, "is_at_least": found.is_at_least, "is_cut": is_wide and days == 1}
    return Page(template="bands.html", values=values, data=data, fragment="bands")


ACTIONS = (
    Action(path="/forecast", answer=forecast, is_heavy=lambda _: True),
    Action(path="/bands", answer=bands, is_heavy=lambda _: True),
)
