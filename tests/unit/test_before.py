"""What came before a failure: the nearest event of each kind, at most a quarter of an hour before it."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

from redisbeater.management.why.before import Event, near

NOON = datetime(2026, 11, 20, 12, 0, tzinfo=timezone.utc)


def event(kind: str, begin: float, end: float | None = None) -> Event:
    """Return an event that began, and ended, so many minutes before noon."""
    last = begin if end is None else end
    return Event(kind, NOON - timedelta(minutes=begin), NOON - timedelta(minutes=last), kind, f"{kind} {begin}")


def test_of_each_kind_the_nearest_one_is_named_the_nearest_first():
    events = [event("change", 9), event("change", 2), event("beat", 5), event("worker", 1)]
    assert [each.text for each in near(events, NOON)] == ["worker 1", "change 2", "beat 5"]


def test_what_was_longer_ago_or_came_later_is_not_named():
    assert near([event("change", 15.1), event("beat", -0.1)], NOON) == []
    assert len(near([event("change", 15)], NOON)) == 1


def test_a_pause_counts_from_its_end_and_one_that_goes_on_was_at_that_time():
    events = [event("pause", 60, 3), event("change", 4), event("gap", 90, -30)]
    assert [each.kind for each in near(events, NOON)] == ["gap", "pause", "change"]


def test_four_are_named_at_most():
    kinds = ("change", "beat", "worker", "pause", "gap")
    assert len(near([event(kind, place) for place, kind in enumerate(kinds)], NOON)) == 4
