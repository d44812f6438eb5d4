"""The lines of the beats of a schedule, and how old one may be."""

from __future__ import annotations

from datetime import timedelta

from redisbeater.context import Context
from redisbeater.model.beat_line import BeatLine

__all__ = ("LONGEST_PASS", "longest_pass", "read_beats")

#: A beat that has written no line for longer than this makes no passes any more.
LONGEST_PASS = timedelta(seconds=30)

#: Where ``beat_max_loop_interval`` is long: without a lock a beat writes its line with each claim, and may miss two.
INTERVALS = 3


def read_beats(context: Context) -> list[BeatLine]:
    """Return the lines of the beats, those that lead first; what another program wrote is left out."""
    read = (BeatLine.from_text(token, text) for token, text in context.redis.beats.lines().items())
    return sorted(filter(None, read), key=lambda beat: (not beat.leads, beat.token))


def longest_pass(max_interval: float) -> timedelta:
    """Return how old the last pass of a beat may be; ``max_interval``: seconds between two of its claims."""
    return max(LONGEST_PASS, INTERVALS * timedelta(seconds=max_interval))
