"""``Work``: what workers execute now, as they report it, and what of the schedule waits in which queue."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from redisbeater.context import Context
from redisbeater.display import json_fields
from redisbeater.management.blanking import shown_runs
from redisbeater.management.entry_view import with_results
from redisbeater.management.runs.results import EntryResult
from redisbeater.management.search import Search
from redisbeater.model.node import Node
from redisbeater.model.run import Run, State
from redisbeater.times import EPOCH

#: Runs that are read: more at once are shown in part.
MOST_ACTIVE = 1_000


@dataclass(frozen=True, kw_only=True)
class WorkerRuns:
    """A worker: what it executes of the schedule, and what it reports of itself.

    Attributes:
        name: the worker.
        runs: what it executes, the longest first.
        reported_at: when it has reported last, of itself or that one of them goes on, aware UTC.
        is_silent: whether that is longer ago than workers take between two reports: it may hang, or be gone.
        node: what its main process reports; None: nothing.
    """

    name: str
    runs: Sequence[Run]
    reported_at: datetime
    is_silent: bool
    node: Node | None = None

    @property
    def places(self) -> str:
        """How many of its places are taken by runs of this schedule, in words, or an empty text if unknown."""
        return f"{len(self.runs):,} of {self.node.slots:,}" if self.node and self.node.slots else ""

    def as_dict(self) -> dict[str, Any]:
        """Return it as a JSON object."""
        node = self.node
        return {
            **json_fields(self, "node"),
            "since": node and node.since.isoformat(),
            "release": node.release if node else "",
            "pool": node.pool if node else "",
            "slots": node.slots if node else 0,
            "queues": list(node.queues) if node else [],
        }


@dataclass(frozen=True, kw_only=True)
class Waiting:
    """Runs of an entry that nobody has started.

    Attributes:
        name: the entry.
        queue: where they wait; empty: beat has not sent them yet.
        runs: how many there are.
        oldest: since when the oldest of them waits, aware UTC.
        workers: those that report and take messages from the queue; None: no worker reports.
    """

    name: str
    queue: str
    runs: int
    oldest: datetime
    workers: Sequence[str] | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return it as a JSON object."""
        return json_fields(self)


@dataclass(frozen=True, kw_only=True)
class Work:
    """What goes on now.

    Attributes:
        workers: those that execute runs, by their names.
        waiting: what waits, by its queue, then the oldest first.
        results: what is known of the entries of both, by name.
        is_part: whether there are more active runs than were read.
    """

    workers: Sequence[WorkerRuns]
    waiting: Sequence[Waiting]
    results: Mapping[str, EntryResult]
    is_part: bool

    @property
    def has_nodes(self) -> bool:
        """Whether a worker reports of itself."""
        return any(each.node for each in self.workers)

    @property
    def running(self) -> int:
        """How many runs are executed."""
        return sum(len(each.runs) for each in self.workers)

    @property
    def waits(self) -> int:
        """How many runs wait."""
        return sum(each.runs for each in self.waiting)

    @property
    def words(self) -> str:
        """The same in words: ``4 running, 2 wait``."""
        wait = "1 waits" if self.waits == 1 else f"{self.waits:,} wait"
        return f"{self.running:,} running, {wait}"

    def as_dict(self) -> dict[str, Any]:
        """Return it as a JSON object."""
        return {
            "workers": [each.as_dict() for each in self.workers],
            "waiting": [each.as_dict() for each in self.waiting],
            "is_part": self.is_part,
        }


def read_work(context: Context) -> Work:
    """Return the work that goes on now, which is none where runs are not recorded."""
    if not context.config.track_runs:
        return Work(workers=(), waiting=(), results={}, is_part=False)
    runs, now = context.redis.runs, context.redis.clock()[0]
    found = shown_runs(context, runs.many(runs.active_ids(MOST_ACTIVE)).values())
    names = sorted({run.name for run in found})
    results = {
        entry.name: entry.result
        for entry in with_results(context, Search(context).named(names))
        if entry.result is not None
    }
    by_worker: dict[str, list[Run]] = {}
    by_entry: dict[tuple[str, str], list[Run]] = {}
    for run in found:
        if run.state is State.STARTED:
            by_worker.setdefault(run.worker, []).append(run)
        elif not run.is_final or run.resend_at:
            by_entry.setdefault((_queue(context, run, results.get(run.name)), run.name), []).append(run)
    nodes = {name: Node.from_text(name, text) for name, text in runs.nodes().items()}
    known = {name: node for name, node in nodes.items() if node is not None}
    waiting = [
        Waiting(
            name=name, queue=queue, runs=len(each), oldest=min(map(_since, each)),
            workers=[node.name for node in known.values() if queue in node.queues] if known and queue else None,
        )
        for (queue, name), each in by_entry.items()
    ]  # fmt: skip
    return Work(
        workers=[
            _worker(context, name, by_worker.get(name, []), known.get(name), now)
            for name in sorted(by_worker.keys() | known.keys())
        ],
        waiting=sorted(waiting, key=lambda each: (each.queue, each.oldest, each.name)),
        results=results,
        is_part=len(found) >= MOST_ACTIVE,
    )


def _worker(context: Context, name: str, runs: Sequence[Run], node: Node | None, now: datetime) -> WorkerRuns:
    reports = [run.seen_at or run.started_at or EPOCH for run in runs] + ([node.seen_at] if node else [])
    silence = timedelta(seconds=context.config.run_timeout / 2)  # workers report twice in that time
    return WorkerRuns(
        name=name, runs=sorted(runs, key=_since), reported_at=max(reports), is_silent=now - max(reports) > silence,
        node=node,
    )  # fmt: skip


def _queue(context: Context, run: Run, result: EntryResult | None) -> str:
    if run.state is State.BUFFERED or run.resend_at:
        return ""
    return run.queue or (result.queue if result else "") or str(context.app.conf.task_default_queue)


def _since(run: Run) -> datetime:
    return run.started_at or run.sent_at or run.fire_time or EPOCH
