"""The methods of ``ScheduleStore`` that read the schedule, and pause it."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Literal

from redisbeater.display import quoted
from redisbeater.editing.edit import Author
from redisbeater.editing.stored_entry import failing_of
from redisbeater.editing.upcoming import UpcomingRun
from redisbeater.entry import RedisScheduleEntry
from redisbeater.entry_name import check_name
from redisbeater.management import pausing
from redisbeater.management.agenda import ScheduledRun, next_runs
from redisbeater.management.app_store import AppStore
from redisbeater.management.beats import longest_pass
from redisbeater.management.blanking import redacted_line
from redisbeater.management.clock_changes import next_clock_change
from redisbeater.management.entry_filter import Filter
from redisbeater.management.health import Health, check_health
from redisbeater.management.health import Terms as HealthTerms
from redisbeater.management.held import Held, read_held
from redisbeater.management.listing import EntryPage, Listing
from redisbeater.management.pausing import Resumption
from redisbeater.management.registered import is_registered, task_names
from redisbeater.management.rows import Row, RowPage, page_of_rows, row_of
from redisbeater.management.search import check_sort, checked_states
from redisbeater.management.status import Status, read_status
from redisbeater.management.watching import Watcher
from redisbeater.management.why.answer import Answer
from redisbeater.management.why.explain import explain
from redisbeater.model.beat_line import Pause
from redisbeater.model.fields import TaskLike
from redisbeater.model.log_line import LogLine
from redisbeater.model.meta import Failing
from redisbeater.model.passed_values import as_task
from redisbeater.store import Late

__all__ = ("ScheduleMethods",)

#: The most lines of a log that are read at once.
MOST_LINES_READ = 10_000


class ScheduleMethods(AppStore):
    """The methods that read the schedule as a whole, explain it, and pause it."""

    _listing: Listing | None = None

    def next_clock_change(self, entry: RedisScheduleEntry) -> UpcomingRun | None:
        """Return the first run within a year that a change of the clocks moves, or that falls into a repeated hour."""
        return next_clock_change(entry)

    def is_registered(self, task: TaskLike) -> bool | None:
        """Tell whether the app has that task, or one of that name; imports its modules. None: it cannot."""
        return is_registered(self._app, as_task(task))

    def log(self, name: str | None = None, limit: int = 100) -> list[LogLine]:
        """Return what happened to an entry, or to the schedule without a name: the newest line first.

        An ordinary run is no line; the log says what was changed, by whom and why, what was skipped and what failed.

        Raises:
            ValueError: ``limit`` is not from 1 to 10,000.
        """
        if type(limit) is not int or not 1 <= limit <= MOST_LINES_READ:
            raise ValueError(f"limit: expected a whole number from 1 to {MOST_LINES_READ}, got {quoted(limit)}")
        log = self._context.redis.log
        lines = log.of_schedule(limit) if name is None else log.of_entry(check_name(name), limit)
        return [redacted_line(self._context, line) for line in lines]

    def why(self, name: str, at: datetime | None = None) -> Answer:
        """Return why an entry does not run now, or why it did or did not run at a time, with what proves it.

        It is answered from the entry, its plan, its :meth:`log`, the list of broken entries and the lock. Where these
        prove nothing, the answer says so.

        Arguments:
            name: the name of the entry, or of one that was deleted within seven days.
            at: the time; without seconds the whole minute. A naive one is in the entry's zone.

        Raises:
            EntryNotFound: nothing is known of that name.
        """
        return explain(self._context, check_name(name), at, max_interval=self._app.conf.beat_max_loop_interval or 0)

    def pause(self, note: str = "", by: str = "", until: datetime | timedelta | None = None) -> Pause:
        """Pause the whole schedule: no beat claims anything until :meth:`resume`, or ``until``.

        Waits until what beats are sending is sent, half of ``redisbeater_lease_timeout`` at most; ``still_claimed`` of
        the result says how many entries are left.
        """
        return pausing.pause(self._context, Author.of(by, note), until)

    def resume(self, note: str = "", by: str = "") -> Resumption:
        """End the pause. What came up meanwhile runs by its ``misfire_grace_time`` and ``coalesce``."""
        return pausing.resume(self._context, Author.of(by, note))

    @property
    def is_paused(self) -> Pause | None:
        """The pause of the schedule; None: it is not paused."""
        return pausing.read_pause(self._context)

    def held(self) -> Held:
        """Return how many fire times have come and have not run: while the schedule is paused, they wait."""
        return read_held(self._context)

    def status(self, *, details: bool = False) -> Status:
        """Return who leads, who stands by, what is due, and what the leader reports about itself.

        With ``details`` also the last hour in numbers and what the server says about itself, for which the runs of all
        entries are counted: 20,000 at most.
        """
        return read_status(self._context, details=details)

    def health(
        self,
        max_late: float | timedelta = 60.0,
        require: Literal["leader", "any"] = "leader",
        *,
        self_token: str = "",
        strict: bool = False,
        timeout: float = 3.0,
    ) -> Health:
        """Return whether the schedule is healthy: a beat leads, or one runs, and nothing is later than ``max_late``.

        Never raises for a Redis that does not answer: that is unhealthy. While the schedule is paused, nothing is late.

        Arguments:
            max_late: seconds, or a timedelta.
            require: ``"leader"`` or ``"any"``: that a beat leads, or that one runs.
            self_token: token, or host and process id, of one beat that alone must run.
            strict: whether broken and failing entries are unhealthy, and workers that do not report runs.
            timeout: seconds that Redis may take.

        Raises:
            ValueError: an argument is not valid.
        """
        if require not in ("leader", "any"):
            raise ValueError(f"require: expected 'leader' or 'any', got {quoted(require)}")
        late = timedelta(seconds=_seconds(max_late, "max_late"))
        pass_age = longest_pass(self._app.conf.beat_max_loop_interval or 0)
        terms = HealthTerms(max_late=late, require=require, self_token=self_token, strict=strict, longest_pass=pass_age)
        return check_health(self._context, terms, timeout)

    def upcoming(self, name: str, n: int = 5) -> list[UpcomingRun]:
        """Return the next ``n`` runs of an entry; :meth:`redisbeater.RedisScheduleEntry.upcoming`."""
        return RedisScheduleEntry(name, app=self._app).upcoming(n)

    def next(
        self, within: float | timedelta | None = None, limit: int = 20, *, start: datetime | None = None
    ) -> list[ScheduledRun]:
        """Return the next runs of the whole schedule, in the order of their times, each with its entry and its task.

        Only what they take is read, a page of a thousand entries at least. A run that is overdue comes first.

        Arguments:
            within: only runs that are due within this many seconds from now; None: however far away they are.
            limit: how many at most, up to 10,000.
            start: only runs from this time on; ``within`` counts from it. Naive: in the app's zone.

        Raises:
            ValueError: an argument is not valid.
        """
        span = None if within is None else timedelta(seconds=_seconds(within, "within"))
        return next_runs(self._context, within=span, limit=limit, start=self._instant("start", start))

    def list(
        self,
        prefix: str | None = None,
        task: TaskLike | None = None,
        enabled: bool | None = None,
        limit: int = 100,
        cursor: str | None = None,
        queue: str | None = None,
        labels: Mapping[str, str] | None = None,
        *,
        state: str | Collection[str] | None = None,
        sort: str = "name",
    ) -> EntryPage:
        """Return a page of the entries, in the order of their names or another one.

        Over all pages of a walk by name, each entry that exists from its first page to its last comes exactly once,
        whatever runs or changes. One that is created during the walk may come or not; one that is deleted does not come
        any more. Each entry is as it was when its page was read. In another order an entry that moves in the meantime
        may come twice or not at all, and a page reads again what the pages before it have read.

        Arguments:
            prefix: only names that begin with this text.
            task: only entries of this task: the task or its name.
            enabled: only those that are, or are not; one that is disabled until a time to come is not.
            queue: only entries whose options name this queue.
            labels: only entries that have all of these.
            limit: how many at most, up to 10,000. A page may be shorter, even empty, and have a cursor all the same.
            cursor: the one of the page before, None for the first; the filters and the order must be the same.
            state: only entries in this state, or in one of these: ``enabled``, ``disabled``, ``finished``, ``broken``,
                ``failing``, ``late``. Broken ones that cannot be read are in ``broken`` of the page.
            sort: ``name``; ``next``, by next run; ``last``, the newest last run first; ``late``, the latest first.

        Raises:
            ValueError: an argument is not valid.

        Example::

            page = store.list(task="proj.report")
            while page.cursor is not None:
                page = store.list(task="proj.report", cursor=page.cursor)
        """
        app = self._app
        if self._listing is None or self._listing.app is not app:
            self._listing = Listing(app)
        wanted = Filter(prefix=prefix, task=as_task(task), enabled=enabled, queue=queue, labels=labels)
        check_sort(sort)
        return self._listing.page(wanted, limit=limit, cursor=cursor, states=checked_states(state), sort=sort)

    def rows(
        self,
        number: int = 1,
        size: int = 50,
        *,
        text: str = "",
        prefix: str | None = None,
        task: TaskLike | None = None,
        queue: str | None = None,
        labels: Mapping[str, str] | None = None,
        states: str | Collection[str] = (),
        sort: str = "next",
    ) -> RowPage:
        """Return a page of the entries as people list them, broken ones too: state, next and last run, words.

        Arguments:
            number: which page, from 1 on.
            size: how many entries it has.
            text: only entries with this text in their name, task or description, in any case.
            prefix: only names that begin with this text.
            task: only entries of this task: the task or its name.
            queue: only entries whose options name this queue.
            labels: only entries that have all of these.
            states: only entries in one of these: ``enabled``, ``disabled``, ``finished``, ``broken``, ``failing``,
                ``late``; empty: all.
            sort: ``next``, ``name``, ``last`` or ``late``.

        Raises:
            ValueError: an argument is not valid.
        """
        wanted, chosen = Filter(prefix=prefix, task=as_task(task), queue=queue, labels=labels), checked_states(states)
        check_sort(sort)
        for name, value in (("number", number), ("size", size)):
            if type(value) is not int or value < 1:
                raise ValueError(f"{name}: expected a whole number, at least 1, got {quoted(value)}")
        return page_of_rows(self._context, wanted, number, size, states=chosen, sort=sort, text=text)

    def row(self, name: str, *, has_secrets: bool = False) -> Row:
        """Return one entry as :meth:`rows` has it, with its last change; a broken one, too.

        With ``has_secrets`` the values that ``redisbeater_redact`` names are not blanked.

        Raises:
            EntryNotFound: there is none of that name.
        """
        return row_of(self._context, name, has_secrets=has_secrets)

    def clock(self) -> datetime:
        """Return the time of the Redis server, in the zone of entries without their own."""
        now, zone = self._context.redis.clock()
        return now.astimezone(self._context.in_zone(zone).zone)

    def tasks(self) -> Sequence[str]:
        """Return the names of the tasks of the app, without Celery's own; imports its modules as a worker does."""
        return task_names(self._app)

    def watch(self) -> Watcher:
        """Return what waits for changes of the schedule and of its runs."""
        return Watcher(self._context)

    def names(self) -> Iterator[str]:
        """Return the names of all entries, in no order."""
        return iter(self._context.redis.contents.names())

    def count(self) -> int:
        """Return the number of entries."""
        return self._context.redis.contents.count()

    def broken(self) -> dict[str, str]:
        """Return the entries that were quarantined because they cannot be read or planned: name -> why."""
        return {name: report["reason"] for name, report in self._context.redis.broken.reports().items()}

    def failing(self) -> dict[str, Failing]:
        """Return the entries whose runs cannot be sent, name -> what is known, those that owe the oldest runs first.

        Beat tries them again, at the latest after half a minute, and at once when they are edited. A broker that is
        unavailable makes those entries fail that it was to get when the outage began.
        """
        redis = self._context.redis
        snapshots = (snapshot for names in redis.failing.names() for snapshot in redis.load_many(names))
        found = {snapshot.name: failing_of(snapshot) for snapshot in snapshots}
        return {name: failing for name, failing in found.items() if failing is not None}

    def late(self, more_than: float | timedelta = 60.0) -> Late:
        """Return how many entries were due more than that many seconds ago and have not run, and the oldest lateness.

        ``entries == 0`` is healthy. The number rises when no beat runs, when the broker is down, and with each entry
        that is failing: that is late since the fire time that it owes.

        Raises:
            ValueError: ``more_than`` is negative or no number.
        """
        return self._context.redis.failing.late(_seconds(more_than))


def _seconds(duration: float | timedelta, name: str = "more_than") -> float:
    seconds = duration.total_seconds() if isinstance(duration, timedelta) else duration
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not 0 <= seconds < math.inf:
        raise ValueError(f"{name}: expected seconds or a timedelta, at least 0, got {quoted(duration)}")
    return float(seconds)
