"""The lines of the beats of a schedule, and how old one may be."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from redisbeater.context import Context
from redisbeater.model.beat_line import BeatLine
from redisbeater.store import HeldLock

__all__ = ("LONGEST_PASS", "longest_pass", "read_beats", "warning_of_lock")

#: A beat that has written no line for longer than this makes no passes any more.
LONGEST_PASS = timedelta(seconds=30)

#: Where ``beat_max_loop_interval`` is long: without a lock a beat writes its line with each claim, and may miss two.
INTERVALS = 3


def read_beats(context: Context) -> list[BeatLine]:
    """Return the lines of the beats, those that lead first; what another program wrote is left out."""
    read = (BeatLine.from_text(token, text) for token, text in context.redis.beats.lines().items())
    return sorted(filter(None, read), key=lambda beat: (not beat.leads, beat.token))


def warning_of_lock(held: HeldLock, beats: Sequence[BeatLine]) -> str:
    """Return why the lock may keep every beat from leading; empty: its holder has just written that it runs."""
    return "" if held.holder in [beat.token for beat in beats] else held.warning


def longest_pass(max_interval: float) -> timedelta:
    """Return how old the last pass of a beat may be; ``max_interval``: seconds between two of its claims."""
    return max(LONGEST_PASS, INTERVALS * timedelta(seconds=max_interval))
