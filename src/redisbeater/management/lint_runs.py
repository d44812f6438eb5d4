"""The rules of ``lint`` about runs: what overlaps, what waits without end, and the memory that records take."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta
from itertools import islice, pairwise

from redisbeater.config.settings import Config
from redisbeater.editing.stored_entry import StoredEntry
from redisbeater.management.lint_rules import Finding
from redisbeater.model.definition import Definition
from redisbeater.model.policies import Overlap
from redisbeater.model.reader import tracked_fields
from redisbeater.model.resolved_policy import Defaults, ResolvedPolicy
from redisbeater.model.run import Run
from redisbeater.times import span_words

__all__ = ("memory", "of_policies", "overlapping", "usual_most")

#: Bytes that one kept run takes, with its payload and an error, and how many are worth a warning.
BYTES_OF_RUN, MOST_BYTES = 760, 256 * 1024 * 1024

#: Fewer runs tell nothing about how long one takes.
FEWEST_RUNS = 5

#: Of the durations, this part is not longer.
_MOST_PART = 0.95

_YEAR = timedelta(days=366)

#: Fire times to come between which the shortest time is looked for.
_FIRE_TIMES = 10


def of_policies(definition: Definition, defaults: Defaults) -> Iterator[Finding]:
    """Yield what is to be said of the fields of an entry that concern its runs."""
    if not defaults.track_runs:
        if fields := tracked_fields(definition):
            text = f"{', '.join(fields)}: no effect without redisbeater_track_runs = True"
            yield Finding.of("needs-tracking", definition.name, text)
        return
    overlap = ResolvedPolicy.of(definition, defaults).overlap
    if overlap is not Overlap.ALLOW and definition.deadline is None:
        text = f"overlap {overlap}: a message that is lost holds up the next runs; deadline=3600 bounds that"
        yield Finding.of("no-deadline", definition.name, text)


def overlapping(stored: StoredEntry, defaults: Defaults, runs: Sequence[Run]) -> Iterator[Finding]:
    """Yield whether the runs of an entry take longer than the time between two of its fire times."""
    longest, policy = usual_most(runs), ResolvedPolicy.of(stored.definition, defaults).afresh()
    if longest is None or stored.state not in ("enabled", "failing"):
        return
    shortest = _shortest_gap(stored, policy)
    if shortest is None or longest <= shortest:
        return
    effect = {
        Overlap.ALLOW: "runs of it meet; overlap skip prevents that",
        Overlap.SKIP: "fire times are skipped",
        Overlap.BUFFER_ONE: "runs are buffered, others skipped",
        Overlap.CANCEL_OTHER: "runs are stopped before their end",
    }[policy.overlap]
    times = f"runs take {span_words(longest, units=2)} (p95), the next one comes after {span_words(shortest, units=2)}"
    yield Finding.of("overlaps-self", stored.definition.name, f"{times}: {effect}")


def usual_most(runs: Sequence[Run]) -> timedelta | None:
    """Return the duration that 95 % of runs do not exceed; None: too few have ended."""
    known = sorted(run.took for run in runs if run.took is not None and run.finished_at is not None)
    if len(known) < FEWEST_RUNS:
        return None
    return timedelta(seconds=known[min(int(len(known) * _MOST_PART), len(known) - 1)])


def memory(config: Config, entries: int) -> Iterator[Finding]:
    """Yield whether the records of runs may take much memory of Redis."""
    most = entries * config.run_history_limit * BYTES_OF_RUN
    if config.track_runs and most > MOST_BYTES:
        text = (
            f"{entries:,} entries x {config.run_history_limit:,} runs take up to {most // 1024**2:,} MB of Redis: "
            "lower redisbeater_run_history_limit"
        )
        yield Finding.of("memory", "", text)


def _shortest_gap(stored: StoredEntry, policy: ResolvedPolicy) -> timedelta | None:
    """Return the shortest time between the next fire times of an entry; None: there are no two."""
    try:
        first = stored.fire_time(policy)
        if first is None:
            return None
        following = islice(policy.timetable.between(first, first + _YEAR), _FIRE_TIMES)
        return min((later - sooner for sooner, later in pairwise((first, *following)) if later > sooner), default=None)
    except Exception:  # a custom schedule is the application's code; or its fire times take too many steps
        return None
