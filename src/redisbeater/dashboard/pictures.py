"""The pictures of the page, as shapes that templates draw: the forecast, the bars of the newest runs, the two weeks."""

from __future__ import annotations

import asyncio
import json
import math
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta, timezone, tzinfo
from functools import lru_cache
from itertools import chain, pairwise
from typing import Any, NamedTuple
from urllib.parse import quote

from starlette.concurrency import run_in_threadpool

from redisbeater.display import shown
from redisbeater.exceptions import RedisBeaterError
from redisbeater.log_lines import get_logger
from redisbeater.management.async_store import AsyncScheduleStore
from redisbeater.management.moved import Moved
from redisbeater.management.simulation import Band, Peak, Simulation
from redisbeater.management.why.before import Before
from redisbeater.model.run import FAILED, KEPT_BRIEFS, STATES, Kind, Run, RunBrief, State
from redisbeater.times import EPOCH, FAR_FUTURE, date_words, span_words

logger = get_logger(__name__)


#: The timeline has a part for each quarter of an hour of a day.
QUARTER, QUARTERS = timedelta(minutes=15), 96
MINUTE, HOUR, WEEKS = timedelta(minutes=1), timedelta(hours=1), timedelta(days=14)

#: How many quarters of the timeline have passed, where runs are recorded: ``minutes()`` has the last six hours.
PASSED = 24

#: How many seconds the counts of what has passed have each, and how many of them make a part.
COUNTED = timedelta(minutes=5)

#: The pixels of the highest and the lowest part of the timeline, and where its foot is.
TALLEST, SHALLOWEST, FOOT = 34, 2, 48

#: The tones of what has passed, from the foot on.
TONES = ("bad", "quiet", "warn", "busy", "good")

#: The pixels above what is in a lane, and of that.
LANE_TOP, LANE_HEIGHT = 4, 14

#: Ticks that are nearer to each other than this percentage of the picture are drawn as one; the width of a single one.
NEAR, TICK = 0.4, 0.2

#: With more ticks than this a lane is one link, and seconds of a lane that are looked at.
MOST_TICKS, MOST_DUE = 24, 5_000

#: Where in a picture the last label may begin, in percent, so that it fits.
LAST_LABEL = 95

#: The pixels of a bar with the gap behind it.
BAR_WIDTH = 4

#: How many bars there are.
MOST_BARS = 30

#: Lines of a chart that are nearer to each other than this have room for one label.
NEAR_LINES = 14

#: The durations of the lowest and of the highest column, in seconds, where no run has one.
SHORTEST, LONGEST = 0.01, 3600.0


#: A rectangle: its tone, top and height in pixels, place and width in percent.
Shape = tuple[str, float, float, float, float]


class Mark(NamedTuple):
    """A part of a picture that is a link.

    Attributes:
        x, width: its place and width in percent of the picture.
        shapes: its rectangles.
        title: what it is, in words.
        link: where it leads on this site.
    """

    x: float
    width: float
    shapes: Sequence[Shape]
    title: str
    link: str


class Axis(NamedTuple):
    """The time that a picture shows, and what time it is in it; places are in percent of the picture."""

    begin: datetime
    end: datetime
    present: datetime
    zone: tzinfo

    def place(self, moment: datetime) -> float:
        """Return where a moment is."""
        return 100 * (moment - self.begin) / (self.end - self.begin)

    @property
    def now(self) -> float:
        """Where the present is."""
        return round(self.place(self.present), 2)

    @property
    def labels(self) -> list[tuple[float, str]]:
        """Places and texts: each ten minutes of an hour, each second hour of a day, each day of a week."""
        length = self.end - self.begin
        found = []
        for local in self._moments(timedelta(minutes=5) if length <= 2 * HOUR else QUARTER):
            is_midnight = not local.hour and not local.minute
            is_named = not local.minute % 10 if length <= 2 * HOUR else not local.minute and not local.hour % 2
            place = round(self.place(local), 2)
            if (is_midnight or (is_named and length <= 48 * HOUR)) and place < LAST_LABEL:
                found.append((place, f"{local:%a} {local.day}" if is_midnight else f"{local:%H:%M}"))
        return found

    @property
    def changes(self) -> list[float]:
        """The places at which the clocks change."""
        pairs = pairwise(self._moments(QUARTER))
        return [round(self.place(later), 2) for sooner, later in pairs if sooner.utcoffset() != later.utcoffset()]

    def _moments(self, step: timedelta) -> list[datetime]:
        # Steps of an aware time in a zone are those of its wall clock, and two of one zone differ by their wall clocks.
        first = EPOCH - (EPOCH - self.begin) // step * step
        number = (self.end - first) // step + 1
        return [(first + place * step).astimezone(self.zone) for place in range(number)]


class Timeline(NamedTuple):
    """The last and the next hours.

    Attributes:
        marks: one for each quarter of an hour; that of now is two.
        past, coming, busiest: what has run, what will run, and its busiest minute, in words; empty: none.
        failed: how many runs failed, and the link to them.
        highest: how many runs a minute the highest part of what has run is; empty: less than one.
        peak: the label of the busiest minute, its place in percent, and the link to it.
    """

    axis: Axis
    marks: Sequence[Mark]
    past: str
    failed: tuple[str, str]
    coming: str
    busiest: str
    highest: str
    peak: tuple[str, float, str]

    @property
    def words(self) -> str:
        """The same in sentences."""
        past = ", ".join(filter(None, (self.past, self.failed[0])))
        return ". ".join(filter(None, (past, self.coming, self.busiest))) + "."


class Lane(NamedTuple):
    """The runs of an entry, or of each of a family, how many are to come, the same in words, and when the next is."""

    band: Band
    marks: Sequence[Mark]
    runs: int
    words: str
    next: datetime | None


class Quarters(NamedTuple):
    """What has run, and a simulation of what will run, as much of it as the page shows.

    Attributes:
        start: when the first quarter of an hour begins that has a part in the future.
        now: when the simulation begins, and when it ends.
        counts: the runs of each quarter that has any, by its number from 0 on.
        peaks: the busiest minute of each of them.
        runs: how many there are in all; there are more where ``is_at_least``.
        peak: the busiest minute; None: there is no run.
        whose: the entry, or the family of entries, that has most runs in it, and how many.
        bands: the entries, those with the fewest runs first.
        minutes: how many runs ended in which state, by the begin of five minutes; None: they are not known.
        held_until: when the pause ends that holds back what comes before; None: the schedule is not paused.
        held: the fire times of each quarter that are held back; ``counts``, ``peaks`` and ``peak`` are without them.
        held_peaks: the busiest minute of them.
        is_whole: whether it is of the whole schedule; the past of some entries alone is not known.
        per_minute: the runs of each minute that has some, by its first UNIX second, held ones too.
    """

    start: datetime
    now: datetime
    end: datetime
    counts: Mapping[int, int]
    peaks: Mapping[int, Peak]
    runs: int
    is_at_least: bool
    peak: Peak | None
    whose: tuple[str, int]
    bands: Sequence[Band] = ()
    minutes: Mapping[datetime, Mapping[State, int]] | None = None
    held_until: datetime | None = None
    held: Mapping[int, int] = {}
    held_peaks: Mapping[int, Peak] = {}
    is_whole: bool = True
    per_minute: Mapping[int, int] = {}

    @property
    def begin(self) -> datetime:
        """When the timeline begins."""
        return self.start if self.minutes is None else self.start - PASSED * QUARTER


class Bars(NamedTuple):
    """The newest runs of an entry, the oldest on the left.

    Attributes:
        paths: a shape for each tone that its runs have, with its bars; that of runs that wait is an outline, ``waits``.
        words: the same as a sentence; empty: no runs are recorded.
    """

    paths: Sequence[tuple[str, str]]
    words: str


#: The pixels of a bar that is seen at once, and of one of a run that went as it should.
FULL, LOW = 16, 10

#: The states of runs that nobody executes yet.
WAITING = (State.BUFFERED, State.SENT, State.RETRY)


def history_bars(runs: Sequence[RunBrief], zone: tzinfo) -> Bars:
    """Return the bars of runs, which are passed the newest first: one that failed is as high as the line."""
    newest, shapes = list(runs[:MOST_BARS]), dict[str, list[str]]()
    for place, run in enumerate(reversed(newest)):
        tone, x = STATES[run.state].tone, place * BAR_WIDTH
        if run.state in WAITING:
            shapes.setdefault("waits", []).append(f"M{x}.5 {FULL - LOW}.5h2v{LOW - 1}h-2z")
        else:
            height = LOW if tone in ("good", "busy", "quiet") else FULL
            shapes.setdefault(tone, []).append(f"M{x} {FULL - height}h3v{height}h-3z")
    return Bars([(tone, "".join(found)) for tone, found in sorted(shapes.items())], _bars_words(newest, zone))


def quarters_of(
    found: Simulation,
    minutes: Mapping[datetime, Mapping[State, int]] | None = None,
    held_until: datetime | None = None,
) -> Quarters:
    """Return a simulation in quarters of an hour, from the one in which it begins, and what ran before it."""
    start = floor_quarter(found.start)
    end = int(held_until.timestamp()) if held_until else 0
    counts, peaks = _by_quarter({each: runs for each, runs in found.per_second.items() if each >= end}, start)
    held, held_peaks = _by_quarter({each: runs for each, runs in found.per_second.items() if each < end}, start)
    peak = max(peaks.values(), key=lambda each: each.runs, default=None) if held else found.busiest_minute
    per_minute: Counter[int] = Counter()
    for second, runs in found.per_second.items():
        per_minute[second - second % 60] += runs
    return Quarters(
        start=start,
        now=found.start,
        end=found.end,
        counts=counts,
        peaks=peaks,
        runs=found.runs,
        is_at_least=found.is_at_least,
        peak=peak,
        whose=next(iter(found.peak.items()), ("", 0)) if peak == found.busiest_minute else ("", 0),
        bands=found.bands,
        minutes=minutes,
        held_until=held_until,
        held=held,
        held_peaks=held_peaks,
        per_minute=per_minute,
    )


def _by_quarter(per_second: Mapping[int, int], start: datetime) -> tuple[Mapping[int, int], Mapping[int, Peak]]:
    """Return the runs of each quarter of an hour from a time on, and its busiest minute."""
    first, length = int(start.timestamp()), int(QUARTER.total_seconds())
    counts: Counter[int] = Counter()
    in_minute: Counter[int] = Counter()
    for second, runs in per_second.items():
        counts[(second - first) // length] += runs
        in_minute[second - second % 60] += runs
    peaks: dict[int, Peak] = {}
    for minute, runs in sorted(in_minute.items()):
        place = (max(minute, first) - first) // length
        if place not in peaks or runs > peaks[place].runs:
            peaks[place] = Peak(EPOCH + timedelta(seconds=minute), runs)
    return counts, peaks


def held_until(end: datetime, zone: tzinfo, now: datetime) -> str:
    """Return the words about a pause that holds runs: ``held until 21:45``, or only ``held`` if it has no end."""
    if end >= FAR_FUTURE:
        return "held"
    local = end.astimezone(zone)
    days = (local.date() - now.astimezone(zone).date()).days
    day = f"{local:%H:%M}" if not days else f"{local:%a}" if days < 7 else f"{local.day} {local:%b}"
    return f"held until {day}"


def floor_quarter(moment: datetime) -> datetime:
    """Return when the quarter of an hour of a moment begins."""
    return EPOCH + (moment - EPOCH) // QUARTER * QUARTER


def timeline(found: Quarters, zone: tzinfo) -> Timeline:
    """Return the last and the next hours, a mark for each quarter of an hour.

    Its height is that of the busiest minute; of what has run it is a fifth of the busiest five minutes. What has run
    and what comes have scales of their own: one busy quarter of an hour flattens only its own side.
    """
    begin, parts = found.begin, passed(found)
    size = (found.end - begin) / QUARTER
    all_peaks = [*found.peaks.values(), *found.held_peaks.values()]
    most, most_passed = (
        max((peak.runs for peak in all_peaks), default=0),
        max((part.most for part in parts.values()), default=0.0),
    )
    place_of_now = (found.now - begin) / QUARTER

    def mark(
        first: float, last: float, stack: Iterable[tuple[str, float]], highest: float, title: str, link: str
    ) -> Mark:
        x, width, shapes, foot = 100 * first / size, 100 * (last - first) / size, list[Any](), float(FOOT)
        for tone, value in stack:
            height = max(round(value * TALLEST / highest, 1), SHALLOWEST)
            foot -= height
            shapes.append((tone, foot, height, x, max(width - 0.08, 0.1)))
        return Mark(x, width, shapes, title, link)

    marks = []
    for number, part in parts.items():
        start, end = begin + number * QUARTER, min(begin + (number + 1) * QUARTER, found.now)
        link = f"/history?since={_address(start)}&before={_address(end)}"
        marks.append(mark(number, (end - begin) / QUARTER, part.stack, most_passed, part.words(start, end, zone), link))
    offset = round((found.start - begin) / QUARTER)
    for number in range(offset, math.ceil(size)):
        start, end = max(begin + number * QUARTER, found.now.replace(microsecond=0)), begin + (number + 1) * QUARTER
        runs, peak = found.counts.get(number - offset, 0), found.peaks.get(number - offset)
        tone = "busy" if peak is not None and peak == found.peak else "coming"
        held, held_peak = found.held.get(number - offset, 0), found.held_peaks.get(number - offset)
        said = f"{held:,} held" if held and not runs else _runs(runs) + (f", {held:,} held" if held else "")
        title = f"{_span(start, end, zone)}: {said}{_at_most(peak, runs, zone)}"
        link = f"/upcoming?at={_address(start)}&within={round((end - start).total_seconds())}s"
        stack = [(word, each.runs) for word, each in (("held", held_peak), (tone, peak)) if each]
        marks.append(mark(max(number, place_of_now), (end - begin) / QUARTER, stack, most, title, link))
    peak = found.peak
    failed = sum(part.tones["bad"] for part in parts.values())
    ended = f"Last 6 hours: {_runs(sum(part.runs for part in parts.values()))}"
    to_failed = f"/history?state={','.join(sorted(FAILED))}&since={_address(begin)}"
    unknown = "What has run is not recorded" if found.is_whole else ""
    least, number = "at least " if found.is_at_least else "", sum(found.held.values())
    held_words = f", {number:,} {held_until(found.held_until, zone, found.now)}" if found.held_until and number else ""
    return Timeline(
        axis=Axis(begin, found.end, found.now, zone),
        marks=marks,
        past=unknown if found.minutes is None else ended,
        failed=(f"{failed:,} failed" if failed else "", to_failed),
        coming=f"Next {round((found.end - found.now) / HOUR)} hours: {least}{_runs(found.runs - number)}{held_words}",
        busiest=busiest_words(found, zone),
        highest=f"{most_passed:,.0f}/min" if most_passed >= 1 else "",
        peak=_peak_label(peak, (peak.at - begin) / (found.end - begin), zone) if peak else ("", 0.0, ""),
    )


class Part(NamedTuple):
    """The runs that ended in a quarter of an hour, by the tones of their states, and how many a minute at most."""

    tones: Counter[str]
    most: float

    @property
    def runs(self) -> int:
        return sum(self.tones.values())

    @property
    def stack(self) -> list[tuple[str, float]]:
        """The tones from the foot on, and how high each is."""
        return [(tone, self.most * self.tones[tone] / self.runs) for tone in TONES if self.tones[tone]]

    def words(self, start: datetime, end: datetime, zone: tzinfo) -> str:
        failed = f", {self.tones['bad']:,} failed" if self.tones["bad"] else ""
        return f"{_span(start, end, zone)}: {_runs(self.runs)} ended{failed}"


def passed(found: Quarters) -> dict[int, Part]:
    """Return the runs that ended in each quarter of an hour of the timeline, by its number."""
    begin, parts = found.begin, dict[int, Part]()
    if found.minutes is None:
        return parts
    for number in range(math.ceil((found.now - begin) / QUARTER)):
        start = begin + number * QUARTER
        slots = [found.minutes.get(start + place * COUNTED, {}) for place in range(QUARTER // COUNTED)]
        tones: Counter[str] = Counter()
        for state, runs in chain.from_iterable(slot.items() for slot in slots):
            tones[STATES[state].tone] += runs
        parts[number] = Part(tones, max(sum(slot.values()) for slot in slots) / (COUNTED / MINUTE))
    return parts


def lane(
    band: Band, due: Sequence[int], runs: Sequence[RunBrief], axis: Axis, held_until: datetime | None = None
) -> Lane:
    """Return the runs of an entry: those that have begun with their length, those to come as ticks.

    Arguments:
        band: the entry.
        due: UNIX seconds of its runs to come, in their order.
        runs: its newest runs, the newest first.
        axis: the time that the picture shows.
        held_until: when the pause ends that holds back what comes before; None: the schedule is not paused.
    """
    marks, number, zone = list[Mark](), band.runs if len(due) >= MOST_DUE else len(due), axis.zone
    held = bisect_left(due, int(held_until.timestamp())) if held_until else 0
    for run in reversed(runs):
        started = run.started_at or run.sent_at or run.moment
        if started is None:
            continue
        over = run.finished_at or (started + timedelta(seconds=run.took or 0) if run.is_final else axis.present)
        x, until = max(axis.place(started), 0.0), min(axis.place(over), axis.now)
        if until >= 0 and x <= 100:
            width, tone = max(until - x, TICK), str(STATES[run.state].tone)
            if run.state in WAITING:
                tone = "waits"
            elif run.state is State.EXPIRED and not run.started_at:  # nobody has executed it
                x, width = max(until, 0.0), TICK
            link = f"/run?id={quote(run.id, safe='', errors='replace')}"
            marks.append(Mark(x, width, [(tone, LANE_TOP, LANE_HEIGHT, x, width)], _run_words(run, zone), link))
    name = quote(band.name, safe="", errors="replace")
    if len(runs) >= MOST_BARS and marks and marks[0].x > 0:
        x, oldest = marks[0].x, runs[-1].sent_at or runs[-1].moment or axis.present
        link = f"/history?name={name}&before={_address(oldest)}"
        shapes: list[Shape] = [("quiet", LANE_TOP + LANE_HEIGHT / 2 - 1, 2, 0, x)]
        marks.insert(0, Mark(0, x, shapes, f"The runs before the newest {MOST_BARS} are in the history", link))
    ticks: list[list[float]] = []
    for place, second in enumerate(due):
        x = axis.place(EPOCH + timedelta(seconds=second))
        if ticks and place != held and x - ticks[-1][1] <= NEAR:
            ticks[-1][1] = x
        else:
            ticks.append([x, x])
    if len(due) >= MOST_DUE:  # there are more, as near to each other as these
        ticks[-1][1] = 100.0
    end = axis.place(EPOCH + timedelta(seconds=due[held])) if held < len(due) else math.inf
    shapes = [
        (
            "held" if held and first < end else "coming" if last > first else "busy",
            LANE_TOP, LANE_HEIGHT, first, max(last - first, TICK),
        )
        for first, last in ticks
    ]  # fmt: skip
    if len(ticks) > MOST_TICKS or len(due) > len(ticks):
        title = f"{_coming(number, held)} until {_day_and_time(axis.end, zone)}"
        marks.append(Mark(ticks[0][0], ticks[-1][1] - ticks[0][0], shapes, title, f"/upcoming?name={name}"))
    else:
        for place, (second, shape) in enumerate(zip(due, shapes)):
            at, word = EPOCH + timedelta(seconds=second), "held" if place < held else "to come"
            title, link = f"{_day_and_time(at, zone)}, {word}", f"/upcoming?at={_address(at)}&within=1s"
            marks.append(Mark(shape[3], TICK, [shape], title, link))
    following = EPOCH + timedelta(seconds=due[0]) if due else None
    coming = f"{_coming(number, held)} to come" + (f", next {_day_and_time(following, zone)}" if following else "")
    past = _bars_words([run for run in runs if run.moment is None or run.moment >= axis.begin], zone) if runs else ""
    return Lane(band, marks, number - held, ", ".join(filter(None, (past, coming))), following)


#: The hours of the picture of seven days, and its pixels.
WEEK_HOURS, WEEK_HIGH = 168, 40


class Week(NamedTuple):
    """What ended in the last seven days, a column for each hour.

    Attributes:
        axis: the time that it shows.
        paths: a shape for each tone, in a picture of 168 to 40.
        words: the same in words.
    """

    axis: Axis
    paths: Sequence[tuple[str, str]]
    words: str


def seven_days(hours: Mapping[datetime, Mapping[State, int]], now: datetime, zone: tzinfo) -> Week:
    """Return the picture of seven days: what failed stands at the foot of each hour."""
    end = EPOCH + ((now - EPOCH) // HOUR + 1) * HOUR
    begin, tones, shapes = end - WEEK_HOURS * HOUR, Counter[str](), dict[str, list[str]]()
    most = max((sum(found.values()) for moment, found in hours.items() if moment >= begin), default=0)
    for place in range(WEEK_HOURS):
        of_hour: Counter[str] = Counter()
        for state, runs in hours.get(begin + place * HOUR, {}).items():
            of_hour[STATES[state].tone] += runs
        foot = WEEK_HIGH
        for tone in TONES:
            if of_hour[tone]:
                tall = min(max(round(WEEK_HIGH * of_hour[tone] / most), 1), foot)
                foot -= tall
                shapes.setdefault(tone, []).append(f"M{place} {foot}h.8v{tall}h-.8z")
        tones.update(of_hour)
    failed = f", {tones['bad']:,} failed" if tones["bad"] else ""
    words = f"{_runs(sum(tones.values()))} in 7 days{failed}"
    return Week(Axis(begin, end, now, zone), [(tone, "".join(path)) for tone, path in sorted(shapes.items())], words)


#: How long a column of the histogram above the lanes is, by the longest time that is shown.
COLUMNS = ((2 * HOUR, MINUTE), (timedelta(days=2), QUARTER), (WEEKS, 3 * HOUR))


def histogram(found: Quarters, axis: Axis) -> list[Mark]:
    """Return columns of what comes, as high as their busiest minute; the highest one is told from the others."""
    length = next(step for longest, step in COLUMNS if axis.end - axis.begin <= longest)
    seconds, columns, runs = int(length.total_seconds()), dict[int, int](), Counter[int]()
    for minute, number in found.per_minute.items():
        place = minute // seconds
        columns[place] = max(columns.get(place, 0), number)
        runs[place] += number
    most, marks = max(columns.values(), default=1), list[Mark]()
    for place, number in sorted(columns.items()):
        start = max(EPOCH + timedelta(seconds=place * seconds), found.now)
        x, end = axis.place(start), axis.place(EPOCH + timedelta(seconds=(place + 1) * seconds))
        tall, width = max(round(TALLEST * number / most, 1), SHALLOWEST), max(min(end, 100) - x, TICK)
        word = "" if length == MINUTE else f", at most {number:,} in a minute"
        title = f"{_day_and_time(start, axis.zone)}: {_runs(runs[place])}{word}"
        link = f"/upcoming?at={_address(start)}&within={seconds}s"
        tone = "busy" if number == most else "coming"
        marks.append(Mark(x, width, [(tone, TALLEST - tall + 6, tall, x, width * 0.84)], title, link))
    return marks


class Minutes(NamedTuple):
    """How many runs there are now, and after a change, a column for each quarter of an hour.

    Attributes:
        axis: the time that they show.
        rows: the columns of the one and of the other: place, top, width, height, and whether it has the busiest minute.
        said: their busiest minutes, in words.
    """

    axis: Axis
    rows: Sequence[Sequence[tuple[float, float, float, float, bool]]]
    said: Sequence[str]


#: The pixels of a row of what a change moves.
MOVED_HIGH = 40


def moved_minutes(found: Moved, zone: tzinfo) -> Minutes:
    """Return the picture of what a change moves: the height of a column is its busiest minute, on one scale."""
    peaks = [0 if peak is None else peak.runs for peak in found.peaks]
    most, first = max(*peaks, 1), int(found.start.timestamp())
    seconds = (found.end - found.start).total_seconds()
    rows, said = list[Any](), list[str]()
    for minutes, peak, at, word in zip((found.before, found.after), peaks, found.peaks, ("Now", "After")):
        columns: dict[int, int] = {}
        for minute, runs in minutes.items():
            place = max(minute - first, 0) // int(QUARTER.total_seconds())
            columns[place] = max(columns.get(place, 0), runs)
        width = 100 * QUARTER.total_seconds() / seconds
        rows.append(
            [
                (round(place * width, 2), MOVED_HIGH - tall, round(width * 0.84, 2), tall, runs == peak)
                for place, runs in sorted(columns.items())
                if (tall := max(round(MOVED_HIGH * runs / most, 1), 1)) and place * width < 100
            ]
        )
        busiest = f", at {at.at.astimezone(zone):%H:%M}" if at else ""
        said.append(f"{word}: at most {_runs(peak)} in a minute{busiest}")
    return Minutes(Axis(found.start, found.end, found.start, zone), rows, said)


class Step(NamedTuple):
    """A moment of a run, and what came before it.

    Attributes:
        word: ``due``, ``sent``, ``started`` or ``ended``; ``now`` of one that goes on.
        moment: when it was.
        span: how long after the moment before it that was; None: it is the first one.
        tone: that of the time between the two.
        x, width: the place of that time in the picture and its width, in percent.
    """

    word: str
    moment: datetime
    span: timedelta | None
    tone: str
    x: float
    width: float


def steps(run: Run, now: datetime) -> list[Step]:
    """Return the moments of a run that are known; the time between them makes a bar."""
    due = (run.due_at or run.fire_time) if run.kind is Kind.SCHEDULE else None
    known = [("due", due, ""), ("sent", run.sent_at, "rest"), ("started", run.started_at, "coming")]
    known.append(("ended", run.finished_at, STATES[run.state].tone if run.started_at else "held"))
    if not run.is_final:
        known.append(("now", now, "busy" if run.state is State.STARTED else "coming"))
    moments = [(word, moment, tone) for word, moment, tone in known if moment is not None]
    if not moments:
        return []
    begin = moments[0][1]
    whole = max((moments[-1][1] - begin).total_seconds(), 0.000_001)
    found, last = list[Step](), begin
    for place, (word, moment, tone) in enumerate(moments):
        span = max(moment - last, timedelta())
        x, width = 100 * (last - begin).total_seconds() / whole, 100 * span.total_seconds() / whole
        found.append(Step(word, moment, span if place else None, tone, min(x, 100 - TICK), max(width, TICK)))
        last = max(moment, last)
    return found


#: The pixels of the chart of an entry, of the highest and of the lowest column in it, and its share of its place.
CHART, CHART_HIGHEST, CHART_LOWEST, CHART_SHARE = 120, 112, 4, 0.78


class Chart(NamedTuple):
    """The newest runs of an entry, a column each, on a logarithmic scale of their durations.

    Attributes:
        marks: the columns; one that failed stands before a pale one of full height.
        lines: durations in words with their heights above the foot in pixels: the median, and that of 95 % of them, or
            the longest where none has succeeded.
        key: what the lines are; empty: there are none.
        first, last: when the oldest and the newest of them was due; None: not known.
        words: the same in words.
    """

    marks: Sequence[Mark]
    lines: Sequence[tuple[float, str]]
    key: str
    first: datetime | None
    last: datetime | None
    words: str


def run_chart(runs: Sequence[RunBrief], usual: timedelta | None, longest: timedelta | None, zone: tzinfo) -> Chart:
    """Return the chart of the newest runs of an entry, which are passed the newest first.

    Arguments:
        runs: the runs.
        usual: the median of how long they take; None: too few are known.
        longest: the 95th percentile of that.
        zone: that of the times in words.
    """
    newest = list(reversed(runs[:MOST_BARS]))
    known = [run.took for run in newest if run.took is not None]
    least, most = max(min(known, default=SHORTEST), 0.001), max(max(known, default=LONGEST), 0.002)

    def height(seconds: float) -> float:
        share = math.log(max(seconds, least) / least) / math.log(most / least) if most > least else 1.0
        return round(CHART_LOWEST + (CHART_HIGHEST - CHART_LOWEST) * min(share, 1.0), 1)

    marks, place = list[Mark](), 100 / MOST_BARS
    for number, run in enumerate(newest):
        tone, x, width = STATES[run.state].tone, number * place, place * CHART_SHARE
        tall = CHART_LOWEST if run.took is None else height(run.took)
        shapes: list[Shape] = [(tone, CHART - tall, tall, x, width)]
        if tone == "bad":
            shapes.insert(0, ("pale", CHART - CHART_HIGHEST, CHART_HIGHEST, x, width))
        link = f"/run?id={quote(run.id, safe='', errors='replace')}"
        marks.append(Mark(x, place, shapes, _run_words(run, zone), link))
    lines = [
        (height(each.total_seconds()), span_words(each)) for each in dict.fromkeys((usual, longest)) if each is not None
    ]
    if len(lines) == 2 and abs(lines[1][0] - lines[0][0]) < NEAR_LINES:
        lines = lines[:1]
    key = "the lines are the median and what 95 % take at most" if len(lines) > 1 else "the line is the median"
    if known and not lines:
        lines, key = [(height(most), span_words(timedelta(seconds=most)))], "the line is the longest"
    moments = [run.moment for run in newest if run.moment is not None]
    return Chart(
        marks,
        lines,
        key if lines else "",
        min(moments, default=None),
        max(moments, default=None),
        _bars_words(runs, zone),
    )


#: The places of the tracks of a cause line, from its top, in pixels: what happened, and what ran; and their heights.
MARKS_AT, MARKS_HIGH, RUNS_AT, RUNS_HIGH, CAUSE = 4, 12, 28, 24, 60

#: The tones of what happened, by its kind; that of pauses and gaps is the ground of the whole line.
EVENTS = {
    "change": "change", "release": "coming", "beat": "quiet", "worker": "bad", "incident": "pale", "pause": "held",
    "gap": "warn",
}  # fmt: skip

#: Where a mark of an event leads, if not to the status.
_LEADS_TO = {"incident": "/incidents", "release": "/incidents", "worker": "/workers"}

#: How much of the picture a letter of a label takes at most, and what is before the first one, in percent.
LETTER, INDENT = 1.15, 2.0


class CauseLine(NamedTuple):
    """What happened to an entry and to its schedule, on one line.

    Attributes:
        grounds: pauses and gaps, as high as the line.
        marks: what happened, then the failures in a row, then the runs that are kept.
        labels: what some of the marks are called, with their places in percent, and whether they end there.
        fails: the label of the failures in a row and its place; empty: there are none.
    """

    axis: Axis
    grounds: Sequence[Mark]
    marks: Sequence[Mark]
    labels: Sequence[tuple[float, str, bool]]
    fails: tuple[str, float]
    words: str


def cause_line(name: str, found: Before, runs: Sequence[RunBrief], axis: Axis, failed: str = "") -> CauseLine:
    """Return the line of an entry.

    Arguments:
        name: the entry.
        found: what happened.
        runs: its newest runs, the newest first.
        axis: the time that is shown, which ends now.
        failed: how often it has failed in a row, in words; empty: it has not.
    """
    grounds, marks, named = list[Mark](), list[Mark](), list[tuple[float, str]]()
    to_changes = f"/changes?name={quote(name, safe='', errors='replace')}"
    for event in reversed(found.events):
        x, end = max(axis.place(event.begin), 0.0), min(axis.place(event.end), 100.0)
        if end < 0 or x > 100:
            continue
        link = to_changes if event.kind == "change" else _LEADS_TO.get(event.kind, "/status")
        title = f"{_day_and_time(event.begin, axis.zone)}: {event.text}"
        width = max(end - x, TICK)
        if event.kind in ("pause", "gap"):
            grounds.append(Mark(x, width, [(EVENTS[event.kind], 0, CAUSE, x, width)], title, link))
        elif event.kind == "incident":
            marks.append(Mark(x, width, [(EVENTS[event.kind], RUNS_AT, RUNS_HIGH, x, width)], title, link))
        else:
            link = f"/run?id={quote(event.run, safe='', errors='replace')}" if event.run else link
            marks.append(Mark(x, width, [(EVENTS[event.kind], MARKS_AT, MARKS_HIGH, x, 2 * TICK)], title, link))
        named.append((round(x, 2), event.label))
    fails = ("", 0.0)
    if failed and found.since and (x := max(axis.place(found.since), 0.0)) < 100:
        title = f"failed {failed} since {_day_and_time(found.since, axis.zone)}"
        link = f"/history?name={quote(name, safe='', errors='replace')}&state={','.join(sorted(FAILED))}"
        marks.append(Mark(x, 100 - x, [("pale", RUNS_AT, RUNS_HIGH, x, 100 - x)], title, link))
        fails = (f"failed {failed}", round(x, 2))
    for run in reversed(runs[:MOST_BARS]):
        moment = run.finished_at or run.started_at or run.moment
        if moment is not None and 0 <= (x := axis.place(moment)) <= 100:
            tone, link = STATES[run.state].tone, f"/run?id={quote(run.id, safe='', errors='replace')}"
            shape = (tone, RUNS_AT, RUNS_HIGH, min(x, 100 - TICK), TICK)
            marks.append(Mark(min(x, 100 - TICK), TICK, [shape], _run_words(run, axis.zone), link))
    said = [f"{len(found.events):,} {'event' if len(found.events) == 1 else 'events'}", _bars_words(runs, axis.zone)]
    return CauseLine(axis, grounds, marks, _labels(named), fails, ", ".join(said))


def _labels(named: Sequence[tuple[float, str]]) -> list[tuple[float, str, bool]]:
    """Return the labels that touch no other one, those of the newest marks first to have room.

    Each has its place and its text, and whether it ends there: at the right of the picture it stands before its mark.
    """
    taken, labels = list[tuple[float, float]](), list[tuple[float, str, bool]]()
    for x, text in reversed(named):
        needed = INDENT + LETTER * len(text)
        is_before = x + needed > 100
        first, last = (x - needed, x) if is_before else (x, x + needed)
        if first >= 0 and all(last <= begin or first >= end for begin, end in taken):
            taken.append((first, last))
            labels.append((x, text, is_before))
    return sorted(labels)


class Weeks(NamedTuple):
    """The runs of an entry in the next two weeks, and the same as a sentence."""

    axis: Axis
    lane: Lane
    words: str


def two_weeks(
    name: str, fire_times: Sequence[datetime], start: datetime, zone: tzinfo, held_until: datetime | None = None
) -> Weeks:
    """Return 14 days from the midnight before ``start`` in the zone."""
    # Two times of one zone differ by their wall clocks, not by what elapsed.
    local = start.astimezone(zone).replace(hour=0, minute=0, second=0, microsecond=0, fold=0)
    midnight = local.astimezone(timezone.utc)
    axis = Axis(midnight, midnight + WEEKS, start, zone)
    within = [moment for moment in fire_times if midnight <= moment < axis.end]
    due = [(moment - EPOCH) // timedelta(seconds=1) for moment in within]
    days = len({moment.astimezone(zone).date() for moment in within})
    drawn = lane(Band(name, len(due), 0), due, [], axis, held_until)
    return Weeks(axis, drawn, f"Fires on {days or 'none'} of the next 14 days.")


@lru_cache(KEPT_BRIEFS)
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


def _span(begin: datetime, end: datetime, zone: tzinfo) -> str:
    return f"{begin.astimezone(zone):%a %H:%M} to {end.astimezone(zone):%H:%M}"


def _day_and_time(moment: datetime, zone: tzinfo) -> str:
    local = moment.astimezone(zone)
    return f"{local:%a %H:%M:%S}" if local.second else f"{local:%a %H:%M}"


def _at_most(peak: Peak | None, runs: int, zone: tzinfo) -> str:
    """Return the busiest minute of a part, unless it has all of its runs at once."""
    return f", at most {peak.runs:,} in a minute, at {peak.at.astimezone(zone):%H:%M}" if peak and runs > 1 else ""


#: Characters of a name beside a picture, and which part of the busiest minute an entry has at least that is named.
MOST_NAME, TELLING = 60, 5


def busiest_words(found: Quarters, zone: tzinfo) -> str:
    """Return the busiest minute to come in words, and whose runs make it so, or an empty text if no run comes."""
    peak, (name, of_name) = found.peak, found.whose
    if peak is None:
        return ""
    name = shown(name, MOST_NAME) if of_name * TELLING >= peak.runs else ""
    whose = f", {of_name:,} of {name}" if name and of_name < peak.runs else f", all of {name}" if name else ""
    return f"Busiest minute {peak.at.astimezone(zone):%H:%M}: {_runs(peak.runs)}{whose}"


def _peak_label(peak: Peak, share: float, zone: tzinfo) -> tuple[str, float, str]:
    link = f"/upcoming?at={_address(peak.at)}&within=60s"
    return f"{peak.at.astimezone(zone):%H:%M} · {peak.runs:,}/min", round(100 * share, 2), link


def _address(moment: datetime) -> str:
    """Return a time as it stands in an address."""
    return quote(moment.astimezone(timezone.utc).isoformat(), safe=":")


def _coming(number: int, held: int) -> str:
    return f"{_runs(number - held)} and {held:,} held" if held else _runs(number)


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

    def __init__(self, store: AsyncScheduleStore) -> None:
        self._store = store
        self._lock = asyncio.Lock()
        self._kept: dict[str, _Kept] = {}
        self._making: set[asyncio.Task[None]] = set()

    async def get(
        self, selection: Mapping[str, Any], ahead: timedelta | None = None, held_until: datetime | None = None
    ) -> Quarters:
        """Return the forecast of the entries that a filter selects; make it unless there is a fresh one.

        Arguments:
            selection: what ``store.simulate()`` takes to select entries.
            ahead: how far it looks; default: as far as the timeline, which has the past of the whole schedule in it.
            held_until: when the pause ends that holds back what comes before; None: the schedule is not paused.
        """
        key = _key(selection, ahead, held_until)
        async with self._lock:
            kept = self._kept.get(key)
            if kept is None or not kept.is_fresh:
                began = time.monotonic()
                kept = _Kept(
                    await self._simulated(selection, ahead, held_until), time.monotonic(), time.monotonic() - began
                )
                self._kept.pop(key, None)
                self._kept[key] = kept
                while len(self._kept) > MOST_KEPT:
                    del self._kept[next(iter(self._kept))]
            return kept.found

    async def _simulated(
        self, selection: Mapping[str, Any], ahead: timedelta | None, held_until: datetime | None
    ) -> Quarters:
        start, is_whole = await self._store.now(), not any(selection.values())
        minutes = await self._store.runs.timeline() if is_whole and self._store.runs.are_tracked else None
        left = QUARTERS if minutes is None else QUARTERS - PASSED
        end = floor_quarter(start) + left * QUARTER if ahead is None else start + ahead
        simulated = await self._store.simulate(start, end, **selection)
        found = await run_in_threadpool(quarters_of, simulated, minutes, held_until)
        return found if is_whole else found._replace(bands=(), is_whole=False)  # no page draws these

    async def known(self, selection: Mapping[str, Any], held_until: datetime | None = None) -> Quarters | None:
        """Return a fresh forecast, or the last one while it is replaced, or None.

        Nobody waits for one that takes long.
        """
        key = _key(selection, None, held_until)
        kept = self._kept.get(key)
        if kept is None or kept.age > STALE_SECONDS:
            return None
        if kept.took <= QUICK_SECONDS and not self._lock.locked():
            await self._make(selection, held_until)
            return self._kept.get(key, kept).found
        if not kept.is_fresh and not self._making:
            making = asyncio.create_task(self._make(selection, held_until))
            self._making.add(making)
            making.add_done_callback(self._making.discard)
        return kept.found

    async def _make(self, selection: Mapping[str, Any], held_until: datetime | None) -> None:
        try:
            await self.get(selection, held_until=held_until)
        except RedisBeaterError as exc:
            logger.debug("no forecast was made: %s", exc)


def _key(selection: Mapping[str, Any], ahead: timedelta | None, held_until: datetime | None) -> str:
    end = held_until and held_until.isoformat()
    return json.dumps([dict(selection), ahead and ahead.total_seconds(), end], sort_keys=True)
