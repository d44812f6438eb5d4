"""Count the runs that are due soon, by queue, for those that start workers before the queues fill."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta

from redisbeater.clock import host_seconds
from redisbeater.context import Context
from redisbeater.editing.stored_entry import StoredEntry
from redisbeater.exceptions import RedisBeaterError, StoreError, StoreUnavailable
from redisbeater.log_lines import get_logger
from redisbeater.model.resolved_policy import ResolvedPolicy
from redisbeater.schedules.budget import Steps
from redisbeater.schedules.kind import PLANNING
from redisbeater.store import Snapshot

logger = get_logger(__name__)

#: The spans that are counted, from the moment of the count on, by their labels.
WITHIN = {f"{minutes}m": timedelta(minutes=minutes) for minutes in (5, 15, 60)}

#: Seconds from the begin of one count to that of the next, and for how long what was counted is shown.
PERIOD_SECONDS, FRESH_SECONDS = 60.0, 180.0

#: The largest schedule that is counted.
MOST_ENTRIES = 50_000

#: How long one slice may take, when it looks at the clock for the last time, and how many entries it reads at once.
SLICE_SECONDS, SLICE_ENDS_SECONDS, PAGE_ENTRIES = 0.005, 0.003, 16

#: Engine steps for the fire times of one entry: a millisecond. Those beyond are not counted.
MOST_STEPS = 2_000

#: The queues that have numbers of their own; the runs of all others are counted as ``other``.
MOST_QUEUES = 100


class DueRuns:
    """Counts once a minute, in slices, while beat has nothing to do.

    Arguments:
        context: the app, and its schedule.
        is_wanted: whether anybody asks for the numbers.
    """

    def __init__(self, context: Context, *, is_wanted: bool) -> None:
        self._context = context
        self._next_at = 0.0 if is_wanted else float("inf")
        self._counted: Mapping[tuple[str, ...], float] | None = None
        self._counted_at = float("-inf")
        #: What is left of the count that has begun, a step for each entry; None: none has.
        self._rest: Iterator[None] | None = None
        self._queues: set[str] = set()
        #: How long a slice takes here: Redis may be far away.
        self._slice = SLICE_SECONDS

    @property
    def counted(self) -> Mapping[tuple[str, ...], float] | None:
        """The numbers of runs by queue and span, or None if nobody has counted them, or there are too many entries."""
        return self._counted if host_seconds() < self._counted_at + FRESH_SECONDS else None

    def drop(self) -> None:
        """Forget what was counted: the schedule is paused."""
        self._counted, self._rest, self._next_at = None, None, min(self._next_at, host_seconds())

    def step(self, until: float) -> bool:
        """Count for one slice, if it ends before beat has to go on; return whether there is more to count.

        Arguments:
            until: when beat goes on, by the clock of this host.

        Raises:
            StoreUnavailable: Redis cannot be reached.
        """
        began = host_seconds()
        if until - began < self._slice or (self._rest is None and began < self._next_at):
            return False
        if self._rest is None:
            self._rest, self._next_at = self._count(), began + PERIOD_SECONDS
        try:
            for _ in self._rest:
                if host_seconds() - began >= SLICE_ENDS_SECONDS:
                    self._slice = max(SLICE_SECONDS, host_seconds() - began)
                    return True
        except StoreUnavailable:
            self._rest = None
            raise
        except StoreError as exc:  # beat may do without
            logger.debug("the runs that are due soon were not counted: %s", exc)
        self._rest = None
        return False

    def _count(self) -> Iterator[None]:
        """Count, and yield after each entry and each page that was read."""
        redis, found, seen = self._context.redis, Counter[tuple[str, ...]](), set[str]()
        now, _ = redis.clock()
        self._counted = None if (is_too_large := redis.contents.count() > MOST_ENTRIES) else self._counted
        for page in () if is_too_large else redis.contents.names_until(now + max(WITHIN.values())):
            names = deque(name for name in page if name not in seen)
            seen.update(names)
            yield
            while names:
                snapshots = redis.load_many([names.popleft() for _ in range(min(PAGE_ENTRIES, len(names)))])
                yield
                for snapshot in snapshots:
                    with suppress(RedisBeaterError, OverflowError), PLANNING:  # broken, or deleted meanwhile
                        self._add(snapshot, found)
                    yield
        if not is_too_large:
            for queue in self._queues:
                found.update({(queue, within): 0 for within in WITHIN})
            self._counted, self._counted_at = dict(found), host_seconds()

    def _add(self, snapshot: Snapshot, found: Counter[tuple[str, ...]]) -> None:
        """Add the runs of one entry: of fire times that have passed one is sent."""
        stored = StoredEntry.from_snapshot(snapshot, self._context.reader.codec)
        policy = ResolvedPolicy.of(stored.definition, self._context.in_zone(stored.zone).defaults)
        table = replace(policy.timetable, searching=Steps(MOST_STEPS), counting=Steps(MOST_STEPS))
        policy = policy._replace(timetable=table)
        first = stored.fire_time(policy)
        if first is None:
            return
        late = int(first <= stored.now)
        following = table.next(table.newest(first, stored.now)) if late else first
        queue = self._queue(stored)
        for within, span in WITHIN.items():
            end = stored.now + span if table.end_at is None else min(stored.now + span, table.end_at)
            number = late
            if following is not None and following <= end:
                left_out = sum(following <= moment <= end for moment in policy.skip)
                number += max(table.count(following, end).number - left_out, 0)
            if policy.max_runs is not None:
                number = min(number, policy.max_runs - stored.meta.total_run_count)
            found[queue, within] += number

    def _queue(self, stored: StoredEntry) -> str:
        definition, options = stored.definition, self._context.task_options
        routed = options.routed_queue(definition.task, definition.args, definition.kwargs, definition.options)
        queue = str(definition.options.get("queue") or routed or self._context.app.conf.task_default_queue)
        if len(self._queues) < MOST_QUEUES:
            self._queues.add(queue)
        return queue if queue in self._queues else "other"
