"""The details of a status: what the server says about itself, and the last hour in numbers."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from redisbeater.context import Context
from redisbeater.display import json_fields, json_form
from redisbeater.model.run import ENDS, FINAL, SentCounts, State
from redisbeater.store.server import ServerFacts
from redisbeater.times import relative_words

HOUR = timedelta(hours=1)

#: How long after its fire time a run is late: what ``health`` allows by default.
LATE = timedelta(seconds=60)

#: Runs that are counted; with more, the numbers are the least that there can be.
MOST_RUNS = 20_000


@dataclass(frozen=True, kw_only=True)
class LastHour(SentCounts["int | None"]):
    """What the entries of a schedule did in the last hour. Deleted entries do not count.

    Attributes:
        since: when it began.
        sent (int | None): how many runs were sent. The numbers of runs are None where runs are not recorded.
        success, failure, lost, ...: what became of these, by the state that is their end.
        active: how many of these have not ended.
        late: how many of these were sent a minute or more after they were due.
        skipped: how many fire times of this hour were skipped, for whatever reason.
        is_at_least: whether there were more than is kept, or were counted.
    """

    since: datetime
    active: int | None
    late: int | None
    skipped: int
    is_at_least: bool = False

    def as_dict(self) -> dict[str, Any]:
        """Return it as a JSON object."""
        return {"since": "", **json_fields(self)}


def read_last_hour(context: Context, now: datetime) -> LastHour:
    """Return the numbers of the hour before ``now``; at most 20,000 runs are read."""
    since, is_tracked = now - HOUR, context.config.track_runs
    found = context.redis.runs.tally(since, LATE, MOST_RUNS)
    states = found.states
    counts = {end: states[end.upper()] for end in ENDS}
    counts["active"] = sum(states[state.value] for state in State if state not in FINAL | {State.BUFFERED})
    counts |= {"sent": sum(counts.values()), "late": found.late}
    return LastHour(
        since=since,
        skipped=found.skipped,
        is_at_least=found.is_at_least,
        **(counts if is_tracked else dict.fromkeys(counts)),
    )


#: The text for facts that the server does not tell.
UNKNOWN = "unknown: the user of Redis may not ask (+info, +config|get), or this server does not say"

#: What a crash loses, by when the append-only file is written to the disk.
_LOSSES = {
    "always": "a crash loses nothing",
    "everysec": "a crash loses a second at most",
    "no": "a crash loses what the system has not written yet",
}


def memory_words(facts: ServerFacts) -> str:
    """Return how much memory the server uses and may use: ``12.3 MB of 100.0 MB``."""
    if facts.used_memory is None:
        return UNKNOWN if facts.max_memory is None else f"its limit is {_size(facts.max_memory)}"
    used = _size(facts.used_memory)
    if facts.max_memory is None:
        return f"{used}; its limit is unknown"
    return f"{used} of {_size(facts.max_memory)}" if facts.max_memory else f"{used}, no limit"


def eviction_words(facts: ServerFacts) -> str:
    """Describe what the server does when its memory is full, and whether that can lose the schedule."""
    policy = facts.policy
    if not policy:
        return "no limit of memory: nothing is evicted" if facts.max_memory == 0 else UNKNOWN
    if facts.max_memory == 0:
        return f"{policy}, without a limit of memory: nothing is evicted"
    if facts.may_evict:
        return f"{policy}: full memory evicts any key, and the schedule can be lost; set maxmemory-policy noeviction"
    if policy.startswith("volatile"):
        return f"{policy}: full memory evicts no entry, but the lock, runs, deleted entries, and a pause with an end"
    return f"{policy}: full memory refuses changes, and nothing is lost"


def persistence_words(facts: ServerFacts, now: datetime) -> str:
    """Describe what the server writes to its disk, and what a crash loses."""
    problems = "".join(f"; {problem}" for problem in facts.problems)
    if facts.has_log:
        loss = f", fsync {facts.fsync}: {_LOSSES[facts.fsync]}" if facts.fsync in _LOSSES else ""
        return f"append-only file (AOF){loss}{problems}"
    if facts.has_snapshots is False:
        return ("none: a restart of the server loses the schedule" if facts.has_log is False else UNKNOWN) + problems
    if facts.has_snapshots:
        return f"snapshots (RDB){_snapshot(facts, now)}{problems}"
    if facts.has_log is False:
        return f"no append-only file; whether it makes snapshots is unknown{_snapshot(facts, now)}{problems}"
    return UNKNOWN


def _snapshot(facts: ServerFacts, now: datetime) -> str:
    if facts.last_snapshot is None:
        return ""
    last = f", the last {relative_words(facts.last_snapshot, now)}"
    if facts.unsaved is None:
        return last
    return f"{last}: a crash loses {facts.unsaved:,} changes" if facts.unsaved else f"{last}, no change since"


def _size(number: int) -> str:
    """Return bytes as ``512 kB``, ``12.3 MB`` or ``1.5 GB``, in powers of 1,024 as Redis counts them."""
    if number < 1024**2:
        return f"{number / 1024:,.0f} kB"
    return f"{number / 1024**2:,.1f} MB" if number < 1024**3 else f"{number / 1024**3:,.1f} GB"


@dataclass(frozen=True, kw_only=True)
class Server:
    """The server of a schedule.

    Attributes:
        facts: what it says about itself.
        now: its time.
        clock_offset_ms: how far the clock of this host is ahead of its clock, now.
    """

    facts: ServerFacts
    now: datetime
    clock_offset_ms: float

    @property
    def memory(self) -> str:
        """How much memory it uses and may use, in words."""
        return memory_words(self.facts)

    @property
    def eviction(self) -> str:
        """What it does when its memory is full, and whether the schedule can be lost by that, in words."""
        return eviction_words(self.facts)

    @property
    def persistence(self) -> str:
        """What it writes to its disk, and what a crash loses, in words."""
        return persistence_words(self.facts, self.now)

    def as_dict(self) -> dict[str, Any]:
        """Return it as a JSON object, with null or empty for what the server does not say."""
        facts = self.facts
        return {
            "server": facts.name,
            "role": facts.role,
            "used_memory": facts.used_memory,
            "max_memory": facts.max_memory,
            "eviction_policy": facts.policy,
            "may_evict": facts.may_evict,
            "append_only_file": facts.has_log,
            "fsync": facts.fsync,
            "snapshots": facts.has_snapshots,
            "last_snapshot": json_form(facts.last_snapshot),
            "unsaved_changes": facts.unsaved,
            "problems": list(facts.problems),
            "clock_offset_ms": self.clock_offset_ms,
            **{name: getattr(self, name) for name in ("memory", "eviction", "persistence")},
        }


def read_server(context: Context) -> Server:
    facts = context.redis.server_facts()
    asked_at = time.time()
    now, _ = context.redis.clock()
    offset = (asked_at + time.time()) / 2 - now.timestamp()
    return Server(facts=facts, now=now, clock_offset_ms=round(offset * 1000, 3))
