"""What the server of a schedule says about itself, in words: its memory, what it evicts, what survives a crash."""

from __future__ import annotations

from datetime import datetime

from redisbeater.store.server import ServerFacts
from redisbeater.times import relative_words

__all__ = ("eviction_words", "memory_words", "persistence_words")

#: What is said of facts that the server keeps to itself.
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
    """Return what the server does when its memory is full, and whether the schedule can be lost by that."""
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
    """Return what the server writes to its disk, and what a crash loses."""
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
