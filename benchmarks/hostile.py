"""Measure how late control entries are sent beside what hostile or faulty programs write; or fuzz what strangers reach.

    python benchmarks/hostile.py                        # a table, about three minutes
    python benchmarks/hostile.py --only large-entries
    python benchmarks/hostile.py fuzz                   # all areas, about fifteen minutes
    python benchmarks/hostile.py fuzz --only page --examples 20000

The table: a real ``celery beat`` leads a schedule that another program has filled. Ten control entries, which run every
second and catch up on what they miss, are saved once it leads; what counts is the time from their fire times to their
messages on the broker's queue, on one real server. Target: each is sent, at most 2 seconds late.

The fuzz: attacks of the strategies that the tests use, other ones in each run, each against a schedule of its own. Its
areas are raw writes beside a beat (entries), requests to the web page, schedules whose prefixes begin alike
(neighbours), files of entries, and messages and records of runs. It prints how much was tried, and the smallest attack
of each kind that succeeded. ``--seed`` repeats a run.

Exit code 1: a target is missed, or an attack succeeded. Needs ``pip install ".[test]"``, and a gigabyte of memory.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import statistics
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import redis
from celery import Celery
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.errors import HypothesisWarning
from hypothesis.strategies import SearchStrategy
from suite.machine import NO_SERVER, describe, server_program

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
from support.controls import Controls
from support.fuzz import AREAS, Site
from support.servers import Server, running, stop

ROOT = Path(__file__).resolve().parent.parent
PREFIX = "redisbeater:"
YEAR_SECONDS = 365 * 86_400
CONTROLS = 10

#: Target: how late a control entry may be at most.
TARGET_SECONDS = 2.0

#: How long after the last fire time its message may still arrive.
TAIL_SECONDS = 5.0

#: How many commands are sent at once.
PIPELINE = 1000

START_SECONDS = 60.0

#: How long hypothesis may take to make one attack smaller.
SHRINK_SECONDS = 60.0

#: Between two lines that say how far the fuzz is, and characters of an attack that are shown.
PROGRESS_SECONDS, LONGEST_SHOWN = 10.0, 2_000

SOURCE = """
from celery import Celery
app = Celery("proj", broker={broker!r})
app.conf.update(redisbeater_redis_url={schedule!r}, result_expires=None)
"""

Command = tuple[Any, ...]


def definition(schedule: dict[str, Any], **fields: Any) -> str:
    return json.dumps({"task": "proj.note", "schedule": schedule, "options": {"queue": "others"}, **fields})


INTERVAL = {"__type__": "interval", "every": 3600}


def entry(name: str, text: str | bytes, score: float = 1, **fields: str | bytes) -> Iterator[Command]:
    """Yield the commands for an entry that is due."""
    parts = [part for field in {"definition": text, **fields}.items() for part in field]
    yield "HSET", PREFIX + name, *parts
    yield "ZADD", f"{PREFIX}:schedule", score, PREFIX + name


# The cases


def nothing() -> Iterator[Command]:
    yield from ()


def broken_members() -> Iterator[Command]:
    for number in range(50_000):
        yield from entry(f"broken {number}", "{")


def members_without_hash() -> Iterator[Command]:
    for number in range(50_000):
        yield "ZADD", f"{PREFIX}:schedule", 1, f"{PREFIX}gone {number}"


def unscheduled() -> Iterator[Command]:
    for number in range(6000):
        yield "HSET", f"{PREFIX}unscheduled {number}", "definition", f'{{"name": "unscheduled {number}"}}'


def large_entries() -> Iterator[Command]:
    text = definition(INTERVAL, args=["x" * 50_000_000])
    for number in range(12):
        yield from entry(f"large {number}", text)


def large_metas() -> Iterator[Command]:
    text = json.dumps({"last_run_at": None, "total_run_count": 0, "note": "x" * 50_000_000})
    for number in range(12):
        yield from entry(f"large {number}", definition(INTERVAL), meta=text)


def entries_below_the_bound() -> Iterator[Command]:
    text = definition(INTERVAL, args=["x" * 900_000])
    for number in range(20):
        yield from entry(f"large {number}", text)


def catch_up() -> Iterator[Command]:
    text = definition({"__type__": "interval", "every": 1e-6}, coalesce="all")
    for number in range(500):
        yield from entry(f"microsecond {number}", text, time.time() - YEAR_SECONDS)


RULES = {
    "every second of two weeks since 1970": "DTSTART:19700101T000000Z\nRRULE:FREQ=SECONDLY;BYWEEKNO=40,41",
    "never": "DTSTART:19700101T000000Z\nRRULE:FREQ=SECONDLY;BYMONTH=2;BYMONTHDAY=30",
    "never, hourly": "DTSTART:19700101T000000Z\nRRULE:FREQ=HOURLY;BYMONTH=2;BYMONTHDAY=31",
    "daily since 1970": "DTSTART:19700101T000000Z\nRRULE:FREQ=DAILY",
    "each minute since 2020": "DTSTART:20200101T000000Z\nRRULE:FREQ=MINUTELY",
    "each second but 20,000": "DTSTART:20260101T000000Z\nRRULE:FREQ=SECONDLY\nEXDATE:{dates}",
    "20,000 dates": "DTSTART:20260101T000000Z\nRDATE:{dates}",
}


def rules() -> Iterator[Command]:
    dates = ",".join(f"202601{n // 1440 + 1:02}T{n // 60 % 24:02}{n % 60:02}00Z" for n in range(20_000))
    late = time.time() - 7 * 86_400
    for number in range(5):
        for name, text in RULES.items():
            rule = definition({"__type__": "rrule", "text": text.format(dates=dates)})
            yield from entry(f"{name} {number}", rule, 1 if "1970" in name or "never" in name else late)
        sun = definition({"__type__": "solar", "event": "sunset", "lat": 48.2, "lon": 16.4})
        yield from entry(f"sun {number}", sun, 1)


CASES: dict[str, tuple[str, Callable[[], Iterator[Command]]]] = {
    "nothing": ("nothing else", nothing),
    "broken-members": ("50,000 broken members", broken_members),
    "members-without-hash": ("50,000 members without a hash", members_without_hash),
    "unscheduled": ("6,000 unscheduled broken hashes", unscheduled),
    "large-entries": ("12 entries of 50 MB", large_entries),
    "large-metas": ("12 entries with a meta of 50 MB", large_metas),
    "below-the-bound": ("20 entries of 900 kB", entries_below_the_bound),
    "catch-up": ("500 entries of a microsecond, a year late", catch_up),
    "rules": ("40 rules with a long history, or that never match", rules),
}


# Measure


@dataclass(frozen=True, kw_only=True)
class Row:
    """The figures of a case, in seconds."""

    title: str
    due: int
    lateness: list[float]
    writes: int

    @property
    def is_met(self) -> bool:
        return len(self.lateness) == self.due and self.lateness[-1] <= TARGET_SECONDS

    def cells(self) -> list[str]:
        figures = [statistics.median(self.lateness), self.lateness[-1]] if self.lateness else []
        seconds = [f"{figure:.3f}" for figure in figures] or ["-", "-"]
        verdict = "" if self.is_met else "MISSED"
        return [self.title, f"{self.writes:,}", f"{len(self.lateness)} of {self.due}", *seconds, verdict]


HEADER = ["beside", "writes", "sent of due", "median s", "latest s", ""]


def measure(title: str, load: Callable[[], Iterator[Command]], seconds: float) -> Row:
    """Return the lateness of the control entries in the first seconds after a beat leads."""
    program = server_program()
    assert program is not None
    with running(program) as server, tempfile.TemporaryDirectory() as folder:
        writes = write(server.client(), load())
        with beat(server, folder), Controls(app(server), server.client(1), CONTROLS) as controls:
            since = time.time()
            until = since + seconds
            wait_until_sent(controls, since, until, server.client(1))
            late = controls.lateness(since, until)
    found = sorted(value for value in late if value < float("inf"))
    return Row(title=title, due=len(late), lateness=found, writes=writes)


def wait_until_sent(controls: Controls, since: float, until: float, broker: redis.Redis) -> None:
    """Wait until all that is due was sent, or for as long as it may take; nobody else reads what the others send."""
    while time.time() < until + TAIL_SECONDS:
        if time.time() > until and max(controls.lateness(since, until)) < float("inf"):
            return
        broker.delete("others")
        time.sleep(0.1)


def write(client: redis.Redis, commands: Iterator[Command]) -> int:
    """Send the commands; return how many there were."""
    sent, size, pipe = 0, 0, client.pipeline(transaction=False)
    for command in commands:
        pipe.execute_command(*command)
        sent, size = sent + 1, size + sum(len(part) for part in command if isinstance(part, (str, bytes)))
        if len(pipe) >= PIPELINE or size > 10_000_000:
            pipe.execute()
            size = 0
    pipe.execute()
    return sent


def app(server: Server) -> Celery:
    app = Celery("proj", broker=server.url(1), set_as_current=False)
    app.conf.update(redisbeater_redis_url=server.url(0), result_expires=None)
    return app


@contextlib.contextmanager
def beat(server: Server, folder: str) -> Iterator[None]:
    """Run a beat until the end of the block, which begins when it leads."""
    Path(folder, "proj.py").write_text(SOURCE.format(broker=server.url(1), schedule=server.url(0)))
    command = [sys.executable, "-m", "celery", "-A", "proj", "beat", "-S", "redisbeater", "--pidfile=", "-l", "INFO"]
    with Path(folder, "log").open("wb") as log:
        process = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log)
    deadline = time.monotonic() + START_SECONDS
    try:
        while not server.client().exists(f"{PREFIX}:lock"):
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"beat does not lead:\n{Path(folder, 'log').read_text(errors='replace')[-2000:]}")
            time.sleep(0.01)
        yield
    finally:
        stop(process)


def table(rows: list[list[str]]) -> str:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if column else cell.ljust(width) for column, (cell, width) in enumerate(zip(row, widths))
        )
        for row in rows
    )


def compare(options: argparse.Namespace) -> bool:
    """Measure and print all cases, or one; return whether the target is met."""
    chosen = [options.only] if options.only else list(CASES)
    rows = []
    for name in chosen:
        print(f"{name} ...", file=sys.stderr, flush=True)
        rows.append(measure(*CASES[name], options.seconds))
    print(table([HEADER, *(row.cells() for row in rows)]))
    print(f"target: each control entry is sent, at most {TARGET_SECONDS:g} s late")
    return all(row.is_met for row in rows)


# Fuzz


@dataclass
class Breach:
    """Attacks that succeeded at the same place: how many, and the smallest with what it did."""

    number: int = 0
    attack: object = None
    error: str = ""


@dataclass
class Fuzz:
    """The attacks on one area; hypothesis makes each breach as small as it can, and the others go on."""

    name: str
    site: Site
    examples: int
    seed: int
    attacks: SearchStrategy[Any]
    tried: int = 0
    breaches: dict[str, Breach] = field(default_factory=dict)
    #: The breach that is made smaller just now.
    _shrunk: str = ""
    _shrink_until: float = 0.0
    _told_at: float = 0.0

    def run(self) -> None:
        """Make all attacks."""
        while self.tried < self.examples:
            before, self._shrunk = self.tried, ""
            try:
                self._attack(self.examples - self.tried, self.seed + len(self.breaches))
            except Exception:
                if not self._shrunk:
                    raise
            if self.tried == before:
                break

    def _attack(self, examples: int, number: int) -> None:
        @seed(number)
        @settings(
            max_examples=examples,
            phases=[Phase.generate, Phase.shrink],
            database=None,
            deadline=None,
            report_multiple_bugs=False,
            suppress_health_check=list(HealthCheck),
        )
        @given(attack=self.attacks)
        def check(attack: object) -> None:
            if not self._shrunk:
                self.tried += 1
                self._tell()
            elif time.monotonic() > self._shrink_until:
                return
            try:
                self.site.endure(attack)
            except Exception as exc:
                if self._is_to_shrink(attack, exc):
                    raise

        check()

    def _is_to_shrink(self, attack: object, error: Exception) -> bool:
        """Record an attack that succeeded; return whether it is of the kind that is made smaller."""
        place = place_of(error)
        is_known = place in self.breaches
        breach = self.breaches.setdefault(place, Breach()) if is_known or not self._shrunk else Breach()
        if not self._shrunk:
            breach.number += 1
            self._shrunk, self._shrink_until = "" if is_known else place, time.monotonic() + SHRINK_SECONDS
        if place != self._shrunk:
            return False
        if not breach.error or len(repr(attack)) <= len(repr(breach.attack)):
            breach.attack, breach.error = attack, f"{type(error).__name__}: {' '.join(str(error).split())}"
        return True

    def _tell(self) -> None:
        if time.monotonic() > self._told_at + PROGRESS_SECONDS:
            self._told_at = time.monotonic()
            told = f"{self.tried:,} of {self.examples:,} attacks, {len(self.breaches)} kinds succeeded"
            print(f"{self.name}: {told}", file=sys.stderr, flush=True)


def place_of(error: BaseException) -> str:
    """Return the type of an error and where it was raised first, by which attacks are told apart."""
    while error.__cause__ is not None:
        error = error.__cause__
    frames = [each for each in traceback.extract_tb(error.__traceback__) if ROOT in Path(each.filename).parents]
    last = frames[-1] if frames else None
    return f"{type(error).__name__} in {last and Path(last.filename).relative_to(ROOT)}:{last and last.lineno}"


def fuzz(options: argparse.Namespace) -> bool:
    """Attack all areas, or one, and print what was tried and what succeeded; return whether nothing did."""
    program = server_program()
    assert program is not None
    warnings.simplefilter("ignore", HypothesisWarning)  # of attacks that are large
    is_safe = True
    for name in [options.only] if options.only else list(AREAS):
        area, began = AREAS[name], time.monotonic()
        with running(program) as server, contextlib.closing(area.site(server.url())) as site:
            done = Fuzz(name, site, options.examples or area.examples[0], options.seed, area.attacks)
            done.run()
        print(f"{name}, {area.title}:")
        print(f"  {done.tried} attacks in {time.monotonic() - began:.0f} s, seed {options.seed}")
        print_figures(done)
        is_safe = is_safe and not done.breaches
    return is_safe


def print_figures(done: Fuzz) -> None:
    for what, number in sorted(done.site.figures.items()):
        print(f"  {what}: {number:,}")
    if seconds := getattr(done.site, "slowest_seconds", 0.0):
        print(f"  most processor time: {seconds:.2f} s, {done.site.slowest[:LONGEST_SHOWN]}")
    print(f"  attacks that succeeded: {sum(breach.number for breach in done.breaches.values())}")
    for place, breach in done.breaches.items():
        print(f"    {breach.number} x {place}: {breach.error[:LONGEST_SHOWN]}")
        print(f"      the smallest: {repr(breach.attack)[:LONGEST_SHOWN]}")


def main() -> int:
    defaults = ", ".join(f"{name} {area.examples[0]:,}" for name, area in AREAS.items())
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="?", choices=["table", "fuzz"], default="table", help="default: table")
    parser.add_argument("--only", choices=[*CASES, *AREAS], help="one case of the table, or one area of the fuzz")
    parser.add_argument("--seconds", type=float, default=12.0, help="length of each case (default: 12)")
    parser.add_argument("--examples", type=int, help=f"attacks on each area ({defaults})")
    parser.add_argument("--seed", type=int, default=None, help="of the fuzz (default: the time)")
    options = parser.parse_args()
    known = list(AREAS if options.what == "fuzz" else CASES)
    if options.only and options.only not in known:
        parser.error(f"--only {options.only}: the {options.what} has {', '.join(known)}")
    options.seed = int(time.time()) if options.seed is None else options.seed
    program = server_program()
    if program is None:
        print(NO_SERVER)
        return 1
    print(describe(program))
    return 0 if (fuzz if options.what == "fuzz" else compare)(options) else 1


if __name__ == "__main__":
    sys.exit(main())
