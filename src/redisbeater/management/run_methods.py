"""The methods of ``ScheduleStore`` about runs: history, stop, restart, backfill, and waiting for an end."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from datetime import datetime, timedelta

from redisbeater.editing.edit import Author
from redisbeater.entry_name import check_name
from redisbeater.management.app_store import AppStore
from redisbeater.management.blanking import shown_run
from redisbeater.management.runs.backfill import Backfill, plan_backfill, send_backfill
from redisbeater.management.runs.caller import Caller
from redisbeater.management.runs.history import HistoryPage, newest_runs, read_history, read_run
from redisbeater.management.runs.record import Recorded, read_recorded
from redisbeater.management.runs.restart import restart_run
from redisbeater.management.runs.stop import Stopped, stop_run
from redisbeater.management.runs.waiting import wait_for_end
from redisbeater.management.trigger import read_overlap
from redisbeater.model.policies import Overlap, OverlapWord
from redisbeater.model.run import Run, RunBrief, RunCounts

__all__ = ("RunMethods",)


class RunMethods(AppStore):
    """The methods that show runs, stop them and send them; all but :meth:`history` need ``redisbeater_track_runs``.

    Without it these raise :exc:`~redisbeater.ImproperlyConfigured`.
    """

    _run_caller: Caller | None = None

    def history(
        self,
        name: str | None = None,
        limit: int = 20,
        before: datetime | None = None,
        *,
        since: datetime | None = None,
        states: Collection[str] = (),
    ) -> HistoryPage:
        """Return the runs of an entry with the lines of its :meth:`log`, the newest first.

        Without a name, the runs of all entries with the lines of the schedule, for which those of each entry are read.
        Without ``redisbeater_track_runs`` there are lines only.

        Arguments:
            name: the name of the entry, which may be deleted.
            limit: how many, up to 10,000; more where the last ones are of one moment.
            before: only what was sent or happened before; the page's own gets the page after it.
            since: only what was sent or happened from then on. Naive times are in the app's zone.
            states: only runs in these states; ``skipped`` stands for the lines about fire times that were skipped.

        Raises:
            ValueError: an argument is not valid.
        """
        entry = None if name is None else check_name(name)
        before, since = self._instant("before", before), self._instant("since", since)
        return read_history(self._context, entry, limit=limit, before=before, since=since, states=states)

    def newest_runs(self, names: Sequence[str], limit: int = 30) -> dict[str, list[RunBrief]]:
        """Return the newest runs of several entries in brief, each's newest first; empty if runs are not recorded."""
        return newest_runs(self._context, names, limit)

    def active_runs(self, limit: int = 200) -> list[Run]:
        """Return active runs of the whole schedule, those whose lease ends first; empty if runs are not recorded."""
        context = self._context
        if not context.config.track_runs:
            return []
        runs = context.redis.runs
        return [shown_run(context, run) for run in runs.many(runs.active_ids(limit)).values()]

    @property
    def tracks_runs(self) -> bool:
        """Whether runs are recorded: the setting ``redisbeater_track_runs``."""
        return self._context.config.track_runs

    def recorded(self, name: str) -> Recorded | None:
        """Return the newest run of an entry, and how many of its runs came to what; None: runs are not recorded."""
        return read_recorded(self._context, check_name(name))

    def run(self, run_id: str) -> Run:
        """Return a run as it is recorded.

        Raises:
            RunNotFound: none of that id is kept.
        """
        return shown_run(self._context, read_run(self._context, run_id))

    def runs(self, name: str, limit: int = 100) -> list[Run]:
        """Return the runs of an entry that have not ended: sent, started, to be tried again, or waiting to be sent.

        It is empty if runs are not recorded.
        """
        context = self._context
        if not context.config.track_runs:
            return []
        return [shown_run(context, run) for run in context.redis.runs.active(check_name(name), limit)]

    def run_counts(self, name: str) -> RunCounts:
        """Return how many runs of an entry came to what since it was created; all are 0 if runs are not recorded."""
        return self._context.redis.runs.counts(check_name(name))

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

    def stop(self, run_id: str, *, by: str = "", note: str = "") -> Stopped:
        """Stop a run: one that waits for beat at once, any other through its worker, and wait 2 seconds for its end.

        Whatever the worker's pool can, ``redisbeater.runs.stop_requested()`` becomes true in the task.

        Raises:
            RunNotFound: none of that id is kept.
        """
        return stop_run(self._app, run_id, Author.of(by, note))

    def restart(
        self, run_id: str, *, overlap: OverlapWord | Overlap | None = None, by: str = "", note: str = ""
    ) -> str:
        """Send a run that has ended without success again, and return the id of the new run.

        It has the task, the arguments and the options that the other one had when it was sent.

        Arguments:
            run_id: the run that has ended.
            overlap: what decides where another run of the entry is active; None: the entry's own.
            by: who, for the log. Default: user and host of this process.
            note: why, for the log.

        Raises:
            RunNotFound: none of that id is kept.
            RunActive: it has not ended, or another run of the entry is active and its overlap allows no other.
            InvalidEntry: it has succeeded, and its arguments are not kept: trigger its entry.
            SendFailed: the broker did not take it.
        """
        return restart_run(self._caller, run_id, read_overlap(overlap), Author.of(by, note))

    def backfill(
        self,
        name: str,
        start: datetime,
        end: datetime,
        *,
        rate: float | None = None,
        overlap: OverlapWord | Overlap | None = None,
        dry_run: bool = False,
        progress: Callable[[int], None] | None = None,
        by: str = "",
        note: str = "",
    ) -> Backfill:
        """Send a run for each fire time from one time to another that has not succeeded, the oldest first.

        Runs get new ids: workers discard ids that were revoked. What ran already is known from the history of the entry
        alone, so without ``redisbeater_track_runs`` every fire time counts as missing. With an overlap other than
        ``allow`` each run waits for the end of the one before it. Next run and counters stay as they are.

        Arguments:
            name: the name of the entry.
            start: the first time, naive: in the entry's zone.
            end: the last time, included; in the past.
            rate: how many runs a second at most; None: as fast as the broker takes them.
            overlap: what decides where another run of the entry is active; None: the entry's own.
            dry_run: whether nothing is sent.
            progress: called with the number of runs that were sent.
            by: who, for the log. Default: user and host of this process.
            note: why, for the log.

        Raises:
            EntryNotFound, InvalidEntry: there is no such entry, or it is broken.
            ValueError: the span is no span in the past, or has more than 10,000 fire times.
            SendFailed: the broker did not take a run; those before it were sent.
        """
        author, chosen = Author.of(by, note), read_overlap(overlap)
        planned = plan_backfill(self._context, check_name(name), start, end)
        if dry_run:
            return planned
        return send_backfill(self._caller, planned, rate=rate, overlap=chosen, author=author, progress=progress)

    @property
    def _caller(self) -> Caller:
        """What sends runs from this process, of the app that is current."""
        app = self._app
        if self._run_caller is None or self._run_caller.app is not app:
            self._run_caller = Caller(app)
        return self._run_caller
