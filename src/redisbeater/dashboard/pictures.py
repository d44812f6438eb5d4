"""The pictures of the page, as shapes that templates draw: the forecast, the bars of the newest runs, the two weeks."""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta, tzinfo
from typing import Any, NamedTuple

from starlette.concurrency import run_in_threadpool

from redisbeater.exceptions import RedisBeaterError
from redisbeater.log_lines import get_logger
from redisbeater.management.operator_store import AsyncOperatorStore
from redisbeater.management.simulation import Band, Peak, Simulation
from redisbeater.model.run import STATES, RunBrief, State
from redisbeater.times import EPOCH, date_words, span_words

logger = get_logger(__name__)


#: The forecast has a cell for each quarter of an hour of a day; the two weeks of an entry have one for each hour.
QUARTER, QUARTERS = timedelta(minutes=15), 96
HOUR, HOURS = timedelta(hours=1), 14 * 24

#: How many of its cells the forecast, and the two weeks, have between two labels.
FORECAST_LABEL, WEEKS_LABEL = 12, 24

#: The darkest of the shades of a cell.
MOST_SHADES = 5

#: A strip whose emptiest cell has this share of the fullest shows no difference, but one shade in the middle.
EVEN, EVEN_SHADE = 0.9, 3

#: Where in a strip the last label may begin, so that it fits.
LAST_LABEL = 0.95

#: The pixels of a bar with the gap behind it, and those of the highest and the lowest bar.
BAR_WIDTH, HIGHEST, LOWEST = 4, 22, 3

#: How many bars there are.
MOST_BARS = 30

#: The durations of the lowest and of the highest bar, in seconds; between them the scale is logarithmic.
SHORTEST, LONGEST = 0.01, 3600.0


class Cell(NamedTuple):
    """A span of time: its place in the row, how dark it is, 0 to 5, when it begins, and what is in it, in words."""

    place: int
    shade: int
    start: datetime
    title: str


class Strip(NamedTuple):
    """A row of cells of equal width.

    Attributes:
        cells: those that hold runs.
        size: how many cells wide it is.
        labels: the texts below it, each with its place in percent.
        marks: places of clock changes.
        rests: places where days of the weekend begin, and how many cells those are wide.
        words: the same as a sentence.
        now: the place of the present; None: the strip begins with it.
    """

    cells: Sequence[Cell]
    size: int
    labels: Sequence[tuple[float, str]]
    marks: Sequence[int]
    rests: Sequence[tuple[int, int]]
    words: str
    now: float | None = None


class Quarters(NamedTuple):
    """A simulation of 24 hours, as much of it as the forecast shows.

    Attributes:
        start: when the first quarter of an hour begins.
        counts: the runs of each quarter that has any, by its number from 0 on.
        runs: how many there are in all; there are more where ``is_at_least``.
        peak: the busiest minute; None: there is no run.
        whose: the entry, or the family of entries, that has most runs in it, and how many.
        bands: the entries with the most runs.
    """

    start: datetime
    counts: Mapping[int, int]
    runs: int
    is_at_least: bool
    peak: Peak | None
    whose: tuple[str, int]
    bands: Sequence[Band] = ()


class Bar(NamedTuple):
    """A run: its place from the left and its height in pixels, the tone of its state, and what it was, in words."""

    x: int
    height: int
    tone: str
    title: str
    run_id: str


class Bars(NamedTuple):
    """The newest runs of an entry, the oldest on the left, and the same as a sentence."""

    bars: Sequence[Bar]
    words: str


def history_bars(runs: Sequence[RunBrief], zone: tzinfo) -> Bars:
    """Return the bars of runs, which are passed the newest first; their heights are their durations."""
    newest = list(runs[:MOST_BARS])
    bars = [
        Bar(
            x=(MOST_BARS - len(newest) + place) * BAR_WIDTH,
            height=_height(run.took),
            tone=STATES[run.state].tone,
            title=_run_words(run, zone),
            run_id=run.id,
        )
        for place, run in enumerate(reversed(newest))
    ]
    return Bars(bars, _bars_words(newest, zone))


def quarters_of(found: Simulation) -> Quarters:
    """Return a simulation in quarters of an hour, from the one in which it begins."""
    start = EPOCH + (found.start - EPOCH) // QUARTER * QUARTER
    first, length = int(start.timestamp()), int(QUARTER.total_seconds())
    counts: Counter[int] = Counter()
    for second, runs in found.per_second.items():
        counts[(second - first) // length] += runs
    return Quarters(
        start=start,
        counts=counts,
        runs=found.runs,
        is_at_least=found.is_at_least,
        peak=found.busiest_minute,
        whose=next(iter(found.peak.items()), ("", 0)),
        bands=found.bands,
    )


def forecast_strip(found: Quarters, zone: tzinfo) -> Strip:
    """Return the next 24 hours in quarters of an hour."""
    strip = _strip(found.counts, found.start, QUARTER, QUARTERS, zone, FORECAST_LABEL)
    return strip._replace(words=_forecast_words(found, zone))


def band_strip(band: Band, start: datetime, days: int, zone: tzinfo) -> Strip:
    """Return the runs of one entry in a day, in quarters of an hour, or in several, in hours."""
    step, size, label = (QUARTER, QUARTERS, FORECAST_LABEL) if days == 1 else (HOUR, 24 * days, WEEKS_LABEL)
    begin = EPOCH + (start - EPOCH) // step * step
    first, length = int(begin.timestamp()), int(step.total_seconds())
    counts: Counter[int] = Counter()
    for second, runs in band.quarters.items():
        counts[(second - first) // length] += runs
    return _strip(counts, begin, step, size, zone, label)._replace(words=f"{band.name}: {_runs(band.runs)}")


def two_weeks(fire_times: Iterable[datetime], start: datetime, zone: tzinfo) -> Strip:
    """Return 14 days in hours, from the midnight before ``start`` in the zone."""
    midnight = start.astimezone(zone).replace(hour=0, minute=0, second=0, microsecond=0, fold=0)
    # Two times of one zone differ by their wall clocks, not by what elapsed.
    midnight = midnight.astimezone(EPOCH.tzinfo)
    counts = Counter((moment - midnight) // HOUR for moment in fire_times)
    strip = _strip(counts, midnight, HOUR, HOURS, zone, WEEKS_LABEL)
    days = len({cell.start.date() for cell in strip.cells})
    words = f"Fires on {days or 'none'} of the next 14 days."
    return strip._replace(words=words, now=round((start - midnight) / HOUR, 1))


def _strip(counts: Mapping[int, int], start: datetime, step: timedelta, size: int, zone: tzinfo, label: int) -> Strip:
    # Steps of an aware time in a zone are those of its wall clock; a cell is a span of elapsed time.
    begins = [(start.astimezone(EPOCH.tzinfo) + place * step).astimezone(zone) for place in range(size)]
    most = max((counts.get(place, 0) for place in range(size)), default=0)
    # The first cell has begun already.
    is_even = most > 1 and min(counts.get(place, 0) for place in range(1, size)) >= EVEN * most
    shades = {place: EVEN_SHADE if is_even else _shade(runs, most) for place, runs in counts.items()}
    cells = [
        Cell(place, shades[place], begin, _cell_words(begin, begin + step, counts[place]))
        for place, begin in enumerate(begins)
        if counts.get(place)
    ]
    is_days = label * step >= timedelta(days=1)
    labels = [(round(100 * place / size, 2), text) for place, text in _labels(begins, label, is_days)]
    marks = [place for place in range(1, size) if begins[place].utcoffset() != begins[place - 1].utcoffset()]
    days = [place for place in range(size) if not place or begins[place].date() != begins[place - 1].date()]
    ends = zip(days, [*days[1:], size], strict=True)
    rests = [(place, end - place) for place, end in ends if is_days and begins[place].weekday() > 4]
    return Strip(cells, size, labels, marks, rests, "")


def _labels(begins: Sequence[datetime], step: int, is_days: bool) -> list[tuple[int, str]]:
    """Return the texts below a strip and their places: days at midnight, hours on the hour; none that is cut off."""
    last = len(begins) * LAST_LABEL
    if is_days:
        places = [place for place in range(len(begins)) if begins[place].date() != (begins[place] - HOUR).date()]
        return [(place, f"{begins[place]:%a} {begins[place].day}") for place in places if place < last]
    first = next((place for place, begin in enumerate(begins) if not begin.minute), 0)
    return [(place, f"{begins[place]:%H:%M}") for place in range(first, len(begins), step) if place < last]


def _shade(runs: int, most: int) -> int:
    """Return a shade by the square root of the runs: one run is seen beside a thousand, and much less dark."""
    return 1 + round((MOST_SHADES - 1) * math.sqrt((runs - 1) / (most - 1))) if most > 1 else MOST_SHADES


def _height(seconds: float | None) -> int:
    if seconds is None:
        return LOWEST
    share = math.log(max(seconds, SHORTEST) / SHORTEST) / math.log(LONGEST / SHORTEST)
    return LOWEST + round((HIGHEST - LOWEST) * min(share, 1.0))


def _run_words(run: RunBrief, zone: tzinfo) -> str:
    when = ""
    if run.moment is not None:
        at = run.moment.astimezone(zone)
        when = f"{date_words(at)} {at.hour:02}:{at.minute:02}:{at.second:02} "  # strftime takes three times as long
    took = f" in {span_words(timedelta(seconds=run.took))}" if run.took is not None and run.is_final else ""
    return f"{when}{run.state.value}{took}"


def _bars_words(newest: Sequence[RunBrief], zone: tzinfo) -> str:
    if not newest:
        return "no runs recorded"
    good = sum(run.state is State.SUCCESS for run in newest)
    words = f"{good} of {len(newest)} succeeded"
    bad = next((run for run in newest if STATES[run.state].tone == "bad"), None)
    return words if bad is None else f"{words}, last {_bad_words(bad, zone)}"


def _bad_words(run: RunBrief, zone: tzinfo) -> str:
    return str(run.state) if run.moment is None else f"{run.state} {run.moment.astimezone(zone):%a %H:%M}"


def _cell_words(begin: datetime, end: datetime, runs: int) -> str:
    return f"{begin:%a %H:%M} to {end:%H:%M}: {_runs(runs)}"


def _forecast_words(found: Quarters, zone: tzinfo) -> str:
    peak = found.peak
    if peak is None:
        return "No runs in the next 24 hours."
    total = f"{'At least ' if found.is_at_least else ''}{_runs(found.runs)} in the next 24 hours"
    name, of_name = found.whose
    whose = f", {of_name:,} of {name}" if name and of_name < peak.runs else f", all of {name}" if name else ""
    return f"{total}; the busiest minute is {peak.at.astimezone(zone):%H:%M} with {_runs(peak.runs)}{whose}."


def _runs(number: int) -> str:
    return f"{number:,} {'run' if number == 1 else 'runs'}"


#: How old a forecast may be before another one is made, and before it is not shown any more.
FRESH_SECONDS, STALE_SECONDS = 60.0, 600.0

#: A forecast is fresh for so many times as long as it took: that of a small schedule is as new as its page.
FRESH_TIMES = 20

#: A forecast that was made in this time is made again while somebody waits for the page that shows it.
QUICK_SECONDS = 0.1

#: Forecasts that are kept, one for each filter that somebody has chosen lately.
MOST_KEPT = 20


class _Kept(NamedTuple):
    found: Quarters
    at: float
    took: float

    @property
    def age(self) -> float:
        """Seconds since it was made."""
        return time.monotonic() - self.at

    @property
    def is_fresh(self) -> bool:
        """Whether no other is made yet."""
        return self.age <= min(FRESH_SECONDS, FRESH_TIMES * self.took)


class Forecasts:
    """The forecasts of one schedule. At most one is made at a time in a process."""

    def __init__(self, store: AsyncOperatorStore) -> None:
        self._store = store
        self._lock = asyncio.Lock()
        self._kept: dict[str, _Kept] = {}
        self._making: set[asyncio.Task[None]] = set()

    async def get(self, selection: Mapping[str, Any], days: int = 1) -> Quarters:
        """Return the forecast of the entries that a filter selects; make it unless there is a fresh one.

        Arguments:
            selection: what ``store.simulate()`` takes to select entries.
            days: how many days it has.
        """
        key = _key(selection, days)
        async with self._lock:
            kept = self._kept.get(key)
            if kept is None or not kept.is_fresh:
                began = time.monotonic()
                start = await self._store.clock()
                simulated = await self._store.simulate(start, start + timedelta(days=days), **selection)
                found = await run_in_threadpool(quarters_of, simulated)
                if any(selection.values()):  # only those of the whole schedule are drawn, and they are large
                    found = found._replace(bands=())
                kept = _Kept(found, time.monotonic(), time.monotonic() - began)
                self._kept.pop(key, None)
                self._kept[key] = kept
                while len(self._kept) > MOST_KEPT:
                    del self._kept[next(iter(self._kept))]
            return kept.found

    async def known(self, selection: Mapping[str, Any]) -> Quarters | None:
        """Return a fresh forecast, or the last one while it is replaced, or None.

        Nobody waits for one that takes long.
        """
        key = _key(selection, 1)
        kept = self._kept.get(key)
        if kept is None or kept.age > STALE_SECONDS:
            return None
        if kept.took <= QUICK_SECONDS and not self._lock.locked():
            await self._make(selection)
            return self._kept.get(key, kept).found
        if not kept.is_fresh and not self._making:
            making = asyncio.create_task(self._make(selection))
            self._making.add(making)
            making.add_done_callback(self._making.discard)
        return kept.found

    async def _make(self, selection: Mapping[str, Any]) -> None:
        try:
            await self.get(selection)
        except RedisBeaterError as exc:
            logger.debug("no forecast was made: %s", exc)


def _key(selection: Mapping[str, Any], days: int) -> str:
    return json.dumps([dict(selection), days], sort_keys=True)
