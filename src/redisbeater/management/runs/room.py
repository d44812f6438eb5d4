"""``Runs``: the runs of a schedule by their ids, ``store.runs``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from redisbeater.editing.edit import Author
from redisbeater.entry_name import check_name
from redisbeater.management.blanking import shown_run, shown_runs
from redisbeater.management.entry_view import with_results
from redisbeater.management.room import Room, instant_of
from redisbeater.management.runs.history import RunDetails, newest_runs, read_details, read_run, wait_for_end
from redisbeater.management.runs.reserved import read_overlap
from redisbeater.management.runs.results import EntryResult, Failures, read_failures
from redisbeater.management.runs.stop import Stopped, restart_run, stop_run
from redisbeater.management.search import Search
from redisbeater.model.passed_values import check_number, checked_names
from redisbeater.model.policies import Overlap, OverlapWord
from redisbeater.model.run import Run, RunBrief, RunCounts, State


class Runs(Room):
    """The runs of a schedule, by their ids: ``store.runs``. With ``redisbeater_track_runs`` they are recorded.

    Example::

        run_id = store.trigger("report")
        print(store.runs.wait(run_id, timeout=60).state)
    """

    def get(self, run_id: str) -> Run:
        """Return a run as it is recorded.

        Instead of its id, this and all methods that take one accept its first 8 characters, or more, where they begin
        no other. That takes a search of a second at most; a whole id is looked up.

        Raises:
            RunNotFound: none of that id is kept, or several begin so.
        """
        return shown_run(self._context, read_run(self._context, run_id))

    def details(self, run_id: str) -> RunDetails:
        """Return a run with its traceback, its arguments and its queue, the runs that repeat it, its entry's result.

        The arguments of a run that has succeeded are those of its entry, unless that was changed since.

        Raises:
            RunNotFound: as for :meth:`get`.
        """
        run = read_run(self._context, run_id)
        return read_details(self._context, run, self.results([run.name]).get(run.name))

    def active(self, name: str | None = None, limit: int = 200) -> list[Run]:
        """Return the runs of an entry, or without a name of the whole schedule, that have not ended.

        They are sent, started, to be tried again, or waiting to be sent. Of the whole schedule those come first whose
        lease ends first. It is empty if runs are not recorded.
        """
        check_number("limit", limit)
        context = self._context
        if not context.config.track_runs:
            return []
        runs = context.redis.runs
        found = runs.many(runs.active_ids(limit)).values() if name is None else runs.active(check_name(name), limit)
        return shown_runs(context, found)

    def newest(self, names: Sequence[str], limit: int = 30) -> dict[str, list[RunBrief]]:
        """Return the newest runs of several entries in brief, each's newest first; empty if runs are not recorded."""
        check_number("limit", limit)
        return newest_runs(self._context, checked_names(names), limit)

    def counts(self, name: str) -> RunCounts:
        """Return the counts of an entry's runs by outcome, since it was created; all 0 if runs are not recorded."""
        return self._context.redis.runs.counts(check_name(name))

    def results(self, names: Sequence[str]) -> dict[str, EntryResult]:
        """Return the results of the last runs of entries that exist, by name; empty if runs are not recorded."""
        found = with_results(self._context, Search(self._context).named(checked_names(names)))
        return {entry.name: entry.result for entry in found if entry.result is not None}

    def failures(self, *, since: datetime | None = None, before: datetime | None = None) -> Failures:
        """Return the newest failures of the schedule, grouped by entry and error, the group of the newest one first.

        The newest 1,000 are known, and of each entry those runs that are kept. Addresses, ids and times make no
        difference between errors. It is empty if runs are not recorded.

        Arguments:
            since: only runs that ended from then on. Naive times are in the app's zone.
            before: only runs that ended before.
        """
        if not self.are_tracked:
            return Failures()
        return read_failures(
            self._context, instant_of(self._context, "since", since), instant_of(self._context, "before", before)
        )

    def timeline(self) -> dict[datetime, Counter[State]]:
        """Return how many runs ended in which state, by the begin of each five minutes of the last six hours.

        Those in which none ended are missing; it is empty if runs are not recorded.
        """
        return self._context.redis.runs.minutes() if self.are_tracked else {}

    def wait(
        self, run_id: str, timeout: float | timedelta | None = None, progress: Callable[[Run], None] | None = None
    ) -> Run:
        """Wait until a run has ended, and return it as it is then; it may not have ended after ``timeout`` seconds.

        ``progress`` is called with the run each second, and when it may have changed. A failover of Redis meanwhile
        does not end the wait.

        Raises:
            RunNotFound: none of that id is kept.
            StoreUnavailable: Redis cannot be reached at the first look, or when the time is over.
        """
        return wait_for_end(self._context, run_id, timeout, progress)

    def stop(self, run_id: str, *, note: str = "", by: str = "") -> Stopped:
        """Stop a run: one that waits for beat at once, any other through its worker, and wait 2 seconds for its end.

        Whatever the worker's pool can, ``redisbeater.runs.stop_requested()`` becomes true in the task.

        Raises:
            RunNotFound: none of that id is kept.
        """
        return stop_run(self._context, run_id, Author.of(by, note))

    def restart(
        self, run_id: str, *, overlap: OverlapWord | Overlap | None = None, note: str = "", by: str = ""
    ) -> str:
        """Send a run that has ended again, and return the id of the new run.

        It has the task, the arguments and the options that the other one had when it was sent. Those of one that has
        succeeded are not kept: its entry has them, unless that was changed since.

        Arguments:
            run_id: the run that has ended.
            overlap: what decides where another run of the entry is active; None: the entry's own.
            note: why, for the log.
            by: who, for the log. Default: user and host of this process.

        Raises:
            RunNotFound: none of that id is kept.
            RunActive: it has not ended, or another run of the entry is active and its overlap allows no other.
            InvalidEntry: it has succeeded, and its entry was changed since: trigger that.
            SendFailed: the broker did not take it.
        """
        return restart_run(self._caller, run_id, read_overlap(overlap), Author.of(by, note))

    @property
    def are_tracked(self) -> bool:
        """Whether runs are recorded, as the setting ``redisbeater_track_runs`` says."""
        return self._context.config.track_runs
