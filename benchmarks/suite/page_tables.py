"""Tables as ``docs/performance.rst`` has them, to be put there as they are."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

__all__ = ("cost_table", "list_table", "memory_table", "plan_table", "schedules_table")

#: The share of a core that a Redis, or a beat, may use, so that a burst passes.
MOST_OF_A_CORE = 2 / 3

#: The rates of the plan, in runs a second.
RATES = (1_000, 10_000, 20_000, 30_000)

WORDS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")


def list_table(widths: Sequence[int], rows: Sequence[Sequence[str]]) -> str:
    """Return a ``list-table`` of reStructuredText; the first row is its head."""
    lines = [".. list-table::", "   :header-rows: 1", f"   :widths: {' '.join(map(str, widths))}", ""]
    for row in rows:
        for mark, cell in zip(["   * -", *["     -"] * len(row)], row):
            lines.append(f"{mark} {cell}".rstrip())
    return "\n".join(lines)


def cost_table(found: Sequence[Mapping[str, float]]) -> str:
    """Return what a run costs: among few entries, and among others."""
    few, many = found
    among = f"the same, with {many['others']:,} other entries"
    rows = [
        ("processor time of a run", "microseconds"),
        ("Redis of the schedule: claim and commit", f"{few['redis_us']:.0f}"),
        (among, f"{many['redis_us']:.0f}"),
        ("a beat: claim, plan, publish, commit", f"{few['beat_us']:.0f}"),
        (among, f"{many['beat_us']:.0f}"),
    ]
    return list_table((70, 30), rows)


def memory_table(found: Sequence[Mapping[str, float]]) -> str:
    """Return what an entry takes in Redis."""
    [row] = found
    rows = [
        ("memory of an entry in Redis", "bytes"),
        ("an interval with one argument, new", f"{row['new']:.0f}"),
        ("when it has run", f"{row['ran']:.0f}"),
    ]
    return list_table((70, 30), rows)


def schedules_table(found: Sequence[Mapping[str, float]]) -> str:
    """Return what two schedules beside one make of two beats."""
    texts = {
        "processor time of the busiest Redis for a run": [f"{row['redis_us']:.0f} us" for row in found],
        "processor time of the beats for a run": [f"{row['beat_us']:.0f} us" for row in found],
        "runs a second, all processes on two shared cores": [f"{row['rate']:,.0f}" for row in found],
    }
    rows = [("", "one schedule", "two schedules"), *((text, *cells) for text, cells in texts.items())]
    return list_table((46, 27, 27), rows)


def plan_table(found: Sequence[Mapping[str, float]]) -> str:
    """Return how many beats and which Redis some rates need, by what a run costs."""
    redis_us, beat_us = round(found[0]["redis_us"]), round(found[0]["beat_us"], -1)
    rows: list[tuple[str, ...]] = [("runs a second", "Redis's core", "cores of beats", "so")]
    for rate in RATES:
        core, beats = rate * redis_us / 1e6, rate * beat_us / 1e6
        servers = math.ceil(core / MOST_OF_A_CORE)
        is_first, too_much = rate == RATES[0], ": too much for one" if servers > 1 else ""
        left = f"{rate:,} x {redis_us} us = {_percent(core)}" if is_first else f"{_percent(core)}{too_much}"
        middle = f"{rate:,} x {beat_us:.0f} us = {beats:.2f}" if is_first else f"{beats:.1f}"
        rows.append((f"{rate:,}", left, middle, _advice(core, beats, servers)))
    return list_table((18, 27, 30, 25), rows)


def _advice(core: float, beats: float, servers: int) -> str:
    processes = math.ceil(beats / servers / MOST_OF_A_CORE)
    if servers > 1:
        number, share = _word(servers), _percent(core / servers)
        return f"{number} schedules on {number} Redis, {share} each, with {_word(processes)} beats each"
    if processes == 1:
        return "one leader and a standby; any Redis, the broker's too"
    return f"{_word(processes)} beats without a lock, each with a core; a Redis of its own"


def _percent(share: float) -> str:
    return f"{share * 100:.0f} %"


def _word(number: int) -> str:
    return WORDS[number] if number < len(WORDS) else str(number)
