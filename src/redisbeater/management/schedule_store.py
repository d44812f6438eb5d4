"""``ScheduleStore``: the schedule of an app, for programs that create and change entries by name."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from celery import Celery
from celery.app import app_or_default

from redisbeater.config.urls import app_text
from redisbeater.config.values import read_prefix
from redisbeater.context import Context, check_app
from redisbeater.display import quoted
from redisbeater.editing.compare_and_set import delete_entry
from redisbeater.editing.edit import Author
from redisbeater.editing.stored_entry import load
from redisbeater.editing.upcoming import UpcomingRun
from redisbeater.entry import RedisScheduleEntry
from redisbeater.entry_name import check_name, check_stored_name
from redisbeater.exceptions import EntryNotFound, ImproperlyConfigured, WrongType
from redisbeater.health.details import read_last_hour, read_server
from redisbeater.health.status import Status, longest_pass, read_pause, read_status
from redisbeater.health.verdict import Health, HealthLimits, check_health
from redisbeater.management import pausing
from redisbeater.management.blanking import redacted_line
from redisbeater.management.bulk import Bulk, Outcome, checked_entry, delete_many, disable_many, enable_many
from redisbeater.management.delays.room import Delays
from redisbeater.management.edit_report import draft, edit_fields, field_change
from redisbeater.management.files.export import Export
from redisbeater.management.files.room import Files, checked_export
from redisbeater.management.future import NEXT_OF_ENTRY, NEXT_OF_SCHEDULE, next_runs, next_runs_of
from redisbeater.management.incidents.room import Incidents
from redisbeater.management.lint import Findings, Linter
from redisbeater.management.long_read import long_read
from redisbeater.management.pausing import Resumption
from redisbeater.management.renaming import copy_entry, rename_entry, restore_entry, retry
from redisbeater.management.room import instant_of
from redisbeater.management.runs.backfill import Backfill, plan_backfill, send_backfill
from redisbeater.management.runs.history import HistoryPage, read_history
from redisbeater.management.runs.reserved import RunSender, Triggers, read_overlap
from redisbeater.management.runs.room import Runs
from redisbeater.management.search import EntryPage, Filter, Listing, check_sort, checked_states
from redisbeater.management.simulation import Simulation, simulate_schedule
from redisbeater.management.why.facts import Answer
from redisbeater.management.why.past import explain
from redisbeater.model.beat_line import Pause
from redisbeater.model.fields import EntryChanges, EntryFields, ScheduleLike, TaskLike
from redisbeater.model.log_line import LogLine
from redisbeater.model.passed_values import as_task, check_number
from redisbeater.model.policies import Overlap, OverlapWord
from redisbeater.times import is_seconds

if TYPE_CHECKING:  # Python has it from 3.11 on; type checkers bring it along
    from typing_extensions import Unpack


class ScheduleStore:
    """The schedule of an app. Building one does no I/O; one for each process is enough.

    Arguments:
        app: default: the current app at each call, so that a store may be made before the app is.
        key_prefix: of one application's several schedules the one with this key prefix. Default: the setting.

    Every method raises :exc:`~redisbeater.InvalidEntry` for a field that cannot be stored, before anything is written,
    and :exc:`~redisbeater.StoreUnavailable` when Redis cannot be reached.

    Example::

        store = ScheduleStore(app)
        store.create("report", "proj.tasks.report", crontab(hour=9, minute=0), max_runs=10)
        store.update("report", args=["weiss"])
    """

    _run_caller: RunSender | None = None
    _listing: Listing | None = None

    def __init__(self, app: Celery | None = None, *, key_prefix: str | None = None) -> None:
        check_store(app, key_prefix)
        self._given_app, self._key_prefix = app, key_prefix

    def __repr__(self) -> str:
        below = "" if self._key_prefix is None else f" below {self._key_prefix!r}"
        return f"<ScheduleStore of {app_text(app_or_default(self._given_app))}{below}>"

    # Rooms: each is made when it is asked for, so that a store and its rooms do not keep one another alive

    @property
    def runs(self) -> Runs:
        """The runs by their ids, as :class:`~redisbeater.results.Runs` has them."""
        return Runs(self)

    @property
    def files(self) -> Files:
        """Files of entries, as :class:`~redisbeater.results.Files` has them."""
        return Files(self)

    @property
    def incidents(self) -> Incidents:
        """What did not do what it promises, as :class:`~redisbeater.results.Incidents` has it."""
        return Incidents(self)

    @property
    def delays(self) -> Delays:
        """The messages of tasks that wait in the schedule, as :class:`~redisbeater.results.Delays` has them."""
        return Delays(self)

    # Entries

    def create(
        self,
        name: str,
        task: TaskLike,
        schedule: ScheduleLike | float | timedelta,
        *,
        dry_run: bool = False,
        note: str = "",
        by: str = "",
        **fields: Unpack[EntryFields],
    ) -> RedisScheduleEntry:
        """Create an entry; all arguments but these are those of :class:`~redisbeater.RedisScheduleEntry`.

        With ``dry_run`` it is checked and planned, and not written.

        Every change takes a ``note``, why it is made, and ``by``, who makes it: by default user and host of this
        process. They stand in the entry's :meth:`log`.

        Raises:
            EntryExists: there is one of that name.
        """
        entry = self._new(name, task, schedule, fields)
        return draft(self._context, entry) if dry_run else entry.create(note=note, by=by)

    def upsert(
        self,
        name: str,
        task: TaskLike,
        schedule: ScheduleLike | float | timedelta,
        *,
        dry_run: bool = False,
        note: str = "",
        by: str = "",
        **fields: Unpack[EntryFields],
    ) -> RedisScheduleEntry:
        """Create an entry, or make the stored one of that name like this: what a program calls when it starts.

        Fields that are not passed get their defaults, unlike with :meth:`update`. The next fire time moves only when
        the schedule or its zone changed; the counters of an entry that exists stay. ``dry_run`` is that of
        :meth:`create`.
        """
        entry = self._new(name, task, schedule, fields)
        return draft(self._context, entry, only_new=False) if dry_run else entry.save(note=note, by=by)

    def save(self, entry: RedisScheduleEntry, *, note: str = "", by: str = "") -> RedisScheduleEntry:
        """Create an entry, or make the stored one of that name like it: :meth:`redisbeater.RedisScheduleEntry.save`.

        With a store that has a ``key_prefix``, the entry belongs to its schedule from then on.
        """
        entry = checked_entry(entry)
        if self._key_prefix is not None:
            entry._bind(self._context)
        return entry.save(note=note, by=by)

    def update(
        self,
        name: str,
        /,
        *,
        task_options: Mapping[str, Any] | None = None,
        if_version: str | None = None,
        dry_run: bool = False,
        note: str = "",
        by: str = "",
        **changes: Unpack[EntryChanges],
    ) -> RedisScheduleEntry:
        """Change the named fields of an entry; the others stay as they are at that moment.

        Arguments:
            name: the name of the entry.
            task_options: options of the task to change one by one, None removes one; ``options`` replaces them all.
            if_version: the :attr:`~redisbeater.RedisScheduleEntry.version` that was read: an entry that was edited
                since is not changed; a run of it makes no difference.
            dry_run: check the change and return the entry as it would be; write nothing.
            note: why, for the log.
            by: who, for the log. Default: user and host of this process.
            changes: the fields.

        Raises:
            EntryNotFound: there is none of that name.
            EditConflict: it has another version, or others kept changing it.
        """
        if if_version is not None and not isinstance(if_version, str):
            raise WrongType("$.if_version", f"expected the version of an entry, a text, got {quoted(if_version)}")
        return edit_fields(
            self._context, name, task_options=task_options, if_version=if_version, dry_run=dry_run,
            note=note, by=by, **changes,
        ).entry  # fmt: skip

    def _new(
        self, name: str, task: TaskLike, schedule: ScheduleLike | float | timedelta, fields: EntryFields
    ) -> RedisScheduleEntry:
        context = self._context
        return RedisScheduleEntry(name, task, schedule, app=context.app, **fields)._bind(context)

    def bulk(self, *, note: str = "", by: str = "") -> Bulk:
        """Make tens of thousands of changes in seconds.

        The :meth:`log` of each entry that is changed or deleted gets a line, with ``note`` and ``by``. That of a new
        entry gets one only if either is passed: it takes half as much memory as the entry.

        Example::

            with store.bulk() as bulk:
                for customer in customers:
                    bulk.save(RedisScheduleEntry(f"report {customer}", "proj.report", 3600, args=[customer], app=app))
            print(bulk.created, bulk.changed, bulk.unchanged)
        """
        return Bulk(self._context, note=note, by=by)

    def exists(self, name: str) -> bool:
        """Return whether there is an entry of that name, a broken one too; ``name in store`` says the same."""
        return self._context.redis.contents.origins([check_stored_name(name)])[name] is not None

    __contains__ = exists

    def get(self, name: str) -> RedisScheduleEntry:
        """Read an entry.

        Raises:
            EntryNotFound: there is none of that name.
            InvalidEntry: it is broken.
        """
        return RedisScheduleEntry._of(load(self._context, check_name(name)), self._context)

    def delete(self, name: str, *, note: str = "", by: str = "") -> None:
        """Delete an entry. A static one comes back, with its counters, when a beat begins to lead: disable it instead.

        Raises:
            EntryNotFound: there is none of that name.
        """
        if delete_entry(self._context, check_stored_name(name), Author.of(by, note)) is None:
            raise EntryNotFound(name)

    def restore(self, name: str, *, note: str = "", by: str = "") -> RedisScheduleEntry:
        """Put an entry back that was deleted within seven days and is one of the newest 10,000; its state is kept.

        Fire times that passed meanwhile are not run. Entries that a :meth:`bulk` deleted are not kept.

        Raises:
            EntryNotFound: no deleted entry of that name is kept.
            EntryExists: there is an entry of that name.
        """
        return RedisScheduleEntry._of(restore_entry(self._context, name, Author.of(by, note)), self._context)

    def deleted(self) -> dict[str, datetime]:
        """Return the deleted entries that can be restored, name -> when it was deleted, the newest first."""
        return self._context.redis.deleted.names()

    def enable(self, name: str, *, note: str = "", by: str = "") -> RedisScheduleEntry:
        """Let an entry run again; :meth:`redisbeater.RedisScheduleEntry.enable`."""
        return self._unread(name).enable(note=note, by=by)

    def disable(
        self, name: str, *, until: datetime | timedelta | None = None, note: str = "", by: str = ""
    ) -> RedisScheduleEntry:
        """Stop the runs of an entry until it is enabled again; :meth:`redisbeater.RedisScheduleEntry.disable`."""
        return self._unread(name).disable(until=until, note=note, by=by)

    def skip_next(
        self, name: str, n: int = 1, *, undo: bool = False, note: str = "", by: str = ""
    ) -> RedisScheduleEntry:
        """Leave out the next fire times of an entry; :meth:`redisbeater.RedisScheduleEntry.skip_next`."""
        return self._unread(name).skip_next(n, undo=undo, note=note, by=by)

    def rename(self, name: str, new: str, *, note: str = "", by: str = "") -> RedisScheduleEntry:
        """Rename an entry. It keeps its state; its task ids, its jitter and ``H`` in its schedule change.

        Raises:
            EntryNotFound: there is none of that name.
            EntryExists: there is one of the new name.
            RunActive: a beat is sending a run of it.
        """
        return RedisScheduleEntry._of(rename_entry(self._context, name, new, Author.of(by, note)), self._context)

    def copy(
        self,
        name: str,
        new: str,
        *,
        task_options: Mapping[str, Any] | None = None,
        dry_run: bool = False,
        note: str = "",
        by: str = "",
        **changes: Unpack[EntryChanges],
    ) -> RedisScheduleEntry:
        """Create an entry like another one, with some fields changed. It starts again, without runs.

        ``task_options`` and ``dry_run`` are those of :meth:`update`.

        Raises:
            EntryNotFound: there is none of that name.
            EntryExists: there is one of the new name.
        """
        change = field_change(self._context, name, changes, task_options, note, by)
        return RedisScheduleEntry._of(copy_entry(self._context, name, new, change, dry_run=dry_run), self._context)

    def trigger(
        self,
        name: str,
        *,
        args: Sequence[Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
        scheduled_for: datetime | None = None,
        overlap: OverlapWord | Overlap | None = None,
        task_id: str | None = None,
        note: str = "",
        by: str = "",
    ) -> str:
        """Send a run of an entry now, from this process, and return its task id.

        It has the task, the options and the headers of the entry's runs. Its next fire time and its counters stay as
        they are; an entry that is disabled or finished can be triggered too. The entry's :meth:`log` says who did it.

        Arguments:
            name: the name of the entry.
            args: other arguments than the entry's, for this run.
            kwargs: other keyword arguments than the entry's, for this run; they replace all of them.
            scheduled_for: the fire time that the run gets in its header ``scheduled_for``; default: now. A naive one
                is in the entry's zone.
            overlap: ``"allow"``, ``"skip"``, ``"buffer_one"`` or ``"cancel_other"``: what decides where another run of
                the entry is active; None: the entry's own. With ``"buffer_one"`` and ``"cancel_other"`` beat sends the
                run once the other has ended. All but ``"allow"`` need ``redisbeater_track_runs``.
            task_id: the id of the run, for a caller that may have to ask again. A call with the same id and arguments
                within 24 hours returns it and sends nothing, unless the call before died. Default: a random one.
            note: why, for the log.
            by: who, for the log. Default: user and host of this process.

        Raises:
            EntryNotFound: there is none of that name.
            InvalidEntry: the entry is broken, the arguments cannot be sent, or ``task_id`` stands for other arguments.
            RunActive: another run of the entry is active, and the overlap allows no other.
            SendFailed: the broker did not take the run.
        """
        return Triggers(self._caller).trigger(
            check_name(name),
            args=args,
            kwargs=kwargs,
            scheduled_for=scheduled_for,
            overlap=overlap,
            task_id=task_id,
            author=Author.of(by, note),
        )

    def enable_many(self, names: Iterable[str], *, note: str = "", by: str = "") -> list[Outcome]:
        """Enable entries, a page at a time; return what became of each, also of one that cannot be changed."""
        return list(enable_many(self._context, names, author=Author.of(by, note)))

    def disable_many(
        self, names: Iterable[str], *, until: datetime | timedelta | None = None, note: str = "", by: str = ""
    ) -> list[Outcome]:
        """Disable entries, as :meth:`enable_many` enables them; ``until`` is that of :meth:`disable`.

        An entry that is disabled for good, or until a later time, is left as it is, and ``left`` of its outcome says
        so: :meth:`disable` shortens that.
        """
        return list(disable_many(self._context, names, until=until, author=Author.of(by, note)))

    def delete_many(self, names: Iterable[str], *, note: str = "", by: str = "") -> list[Outcome]:
        """Delete entries, a page at a time; return what became of each, also of one that does not exist."""
        return list(delete_many(self._context, names, author=Author.of(by, note)))

    def record_execution(
        self, name: str, at: datetime | None = None, *, note: str = "", by: str = ""
    ) -> RedisScheduleEntry:
        """Record when a task was really executed; :meth:`redisbeater.RedisScheduleEntry.record_execution`."""
        return self._unread(name).record_execution(at, note=note, by=by)

    def retry(self, name: str, *, note: str = "", by: str = "") -> RedisScheduleEntry:
        """Let a broken entry run again whose reason is gone, such as a schedule class that was missing.

        Raises:
            EntryNotFound: there is none of that name.
            InvalidEntry: it is not broken, or still cannot be read.
        """
        return retry(self._context, check_name(name), Author.of(by, note))

    # Runs

    @long_read
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
            EntryNotFound: neither an entry of that name, a deleted one, a run of it nor a line is known.
            ValueError: an argument is not valid.
        """
        entry = None if name is None else check_name(name)
        context = self._context
        before, since = instant_of(context, "before", before), instant_of(context, "since", since)
        return read_history(context, entry, limit=limit, before=before, since=since, states=states)

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
        note: str = "",
        by: str = "",
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
            note: why, for the log.
            by: who, for the log. Default: user and host of this process.

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
    def _caller(self) -> RunSender:
        """The sender of runs from this process, of the app that is current."""
        context = self._context
        if self._run_caller is None or self._run_caller.context is not context:
            self._run_caller = RunSender(context)
        return self._run_caller

    # The schedule

    def log(self, name: str | None = None, limit: int = 100) -> list[LogLine]:
        """Return the log of an entry, or without a name that of the schedule, the newest line first.

        An ordinary run is no line; the log says what was changed, by whom and why, what was skipped and what failed.

        Raises:
            ValueError: ``limit`` is not from 1 to 10,000.
        """
        check_number("limit", limit)
        log = self._context.redis.log
        lines = log.of_schedule(limit) if name is None else log.of_entry(check_name(name), limit)
        return [redacted_line(self._context, line) for line in lines]

    def why(self, name: str, at: datetime | None = None) -> Answer:
        """Return why an entry does not run now, or why it did or did not run at a time, with what proves it.

        It is answered from the entry, its plan, its :meth:`log`, the list of broken entries and the lock. Where these
        prove nothing, the answer says so.

        Arguments:
            name: the name of the entry, or of one that was deleted within seven days; where there is none, the id of a
                delay.
            at: the time; without seconds the whole minute. A naive one is in the entry's zone.

        Raises:
            EntryNotFound: nothing is known of that name.
        """
        return explain(self._context, name, at)

    def pause(self, *, until: datetime | timedelta | None = None, note: str = "", by: str = "") -> Pause:
        """Pause the whole schedule: no beat claims anything until :meth:`resume`, or ``until``.

        Waits until what beats are sending is sent, half of ``redisbeater_lease_timeout`` at most; ``still_claimed`` of
        the result says how many entries are left.
        """
        return pausing.pause(self._context, Author.of(by, note), until)

    def resume(self, *, note: str = "", by: str = "") -> Resumption:
        """End the pause. What came up meanwhile runs by its ``misfire_grace_time`` and ``coalesce``."""
        return pausing.resume(self._context, Author.of(by, note))

    def paused(self) -> Pause | None:
        """Return the pause of the schedule, or None if it is not paused."""
        return read_pause(self._context)

    def status(self, *, details: bool = False) -> Status:
        """Return who leads, who stands by, what is due, and what the leader reports about itself.

        With ``details`` also the last hour in numbers and what the server says about itself, for which the runs of all
        entries are counted: 20,000 at most.
        """
        context = self._context
        found = read_status(context)
        if details:
            return replace(found, server=read_server(context), last_hour=read_last_hour(context, found.now))
        return found

    def health(
        self,
        max_late: float | timedelta = 60.0,
        require: Literal["leader", "any"] = "leader",
        *,
        self_token: str = "",
        strict: bool = False,
        max_failed: int = 0,
        timeout: float = 3.0,
    ) -> Health:
        """Return whether the schedule is healthy: a beat leads, or one runs, and nothing is later than ``max_late``.

        Never raises for a Redis that does not answer: that is unhealthy. While the schedule is paused, nothing is late.

        Arguments:
            max_late: seconds, or a timedelta.
            require: ``"leader"`` or ``"any"``: that a beat leads, or that one runs.
            self_token: token, or host and process id, of one beat that alone must run.
            strict: whether broken and failing entries are unhealthy, workers that do not report runs, and entries of
                which the last run failed.
            max_failed: with ``strict``, how many of the latter there may be.
            timeout: seconds that Redis may take.

        Raises:
            ValueError: an argument is not valid.
        """
        if require not in ("leader", "any"):
            raise ValueError(f"require: expected 'leader' or 'any', got {quoted(require)}")
        late = timedelta(seconds=_seconds(max_late, "max_late"))
        pass_age = longest_pass(self._context.app.conf.beat_max_loop_interval or 0)
        limits = HealthLimits(
            max_late=late,
            require=require,
            self_token=self_token,
            strict=strict,
            max_failed=max_failed,
            longest_pass=pass_age,
        )
        return check_health(self._context, limits, timeout)

    @long_read
    def upcoming(
        self,
        name: str | None = None,
        limit: int | None = None,
        *,
        within: float | timedelta | None = None,
        start: datetime | None = None,
    ) -> list[UpcomingRun]:
        """Return the next runs of an entry, or without a name of the whole schedule, in the order of their times.

        Of the whole schedule only what they take is read, a page of a thousand entries at least. A run that is overdue
        comes first.

        Arguments:
            name: the entry.
            limit: how many at most, up to 10,000; default: 5 of an entry, 20 of the schedule.
            within: only runs that are due within this many seconds from now; None: however far away they are.
            start: only runs from this time on; ``within`` counts from it. Naive: in the app's zone.

        Raises:
            EntryNotFound: there is no such entry.
            ValueError: an argument is not valid.
        """
        span = None if within is None else timedelta(seconds=_seconds(within, "within"))
        begin = instant_of(self._context, "start", start)
        if name is None:
            return next_runs(
                self._context, within=span, limit=NEXT_OF_SCHEDULE if limit is None else limit, start=begin
            )
        number = NEXT_OF_ENTRY if limit is None else limit
        return next_runs_of(self._context, check_name(name), within=span, limit=number, start=begin)

    @long_read
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
        context = self._context
        if self._listing is None or self._listing.context is not context:
            self._listing = Listing(context)
        wanted = Filter(prefix=prefix, task=as_task(task), enabled=enabled, queue=queue, labels=labels)
        check_sort(sort)
        return self._listing.page(wanted, limit=limit, cursor=cursor, states=checked_states(state), sort=sort)

    def now(self) -> datetime:
        """Return the time of the Redis server, in the zone of entries without their own."""
        now, zone = self._context.redis.clock()
        return now.astimezone(self._context.in_zone(zone).zone)

    @long_read
    def names(self) -> Iterator[str]:
        """Return the names of all entries, in no order; ``for name in store`` has the same."""
        return iter(self._context.redis.contents.names())

    __iter__ = names

    def count(self) -> int:
        """Return the number of entries."""
        return self._context.redis.contents.count()

    def broken(self) -> dict[str, str]:
        """Return the entries that were quarantined because they cannot be read or planned: name -> why."""
        return {name: report["reason"] for name, report in self._context.redis.broken.reports().items()}

    # Files, and what is to come

    @long_read
    def simulate(
        self,
        start: datetime | None = None,
        end: datetime | None = None,
        *,
        entries: Iterable[RedisScheduleEntry] | Export | None = None,
        prefix: str | None = None,
        task: TaskLike | None = None,
        queue: str | None = None,
        labels: Mapping[str, str] | None = None,
        states: str | Collection[str] = (),
        text: str = "",
        progress: Callable[[int], None] | None = None,
    ) -> Simulation:
        """Return how many runs there will be from ``start``, now by default, up to ``end``, a day later by default.

        Policies are those of now; what is overdue is left out. Naive times are in the zone of the schedule.

        Arguments:
            start: when it begins.
            end: when it ends, not included.
            entries: instead of the stored ones; as if each was created now.
            prefix: only entries whose name begins with this text.
            task: only entries of this task: the task or its name.
            queue: only entries whose options name this queue.
            labels: only entries that have all of these.
            states: only stored entries in one of these, as for :meth:`list`.
            text: only stored entries with this text, as for :meth:`list`.
            progress: called with the number of entries that were read, then of those whose runs were counted.

        Raises:
            ValueError: ``end`` is not after ``start``, or a state is none.
        """
        if entries is not None and not isinstance(entries, Export):
            entries = _checked_entries(entries)
        wanted, chosen = Filter(prefix=prefix, task=as_task(task), queue=queue, labels=labels), checked_states(states)
        return simulate_schedule(self._context, start, end, entries, wanted, progress, states=chosen, text=text)

    @long_read
    def lint(
        self, file: Export | None = None, progress: Callable[[int], None] | None = None, sentry: bool = False
    ) -> Findings:
        """Return lint findings: what will not run as its author means, the worst first.

        Workers are asked which tasks they have registered, for a second; without an answer no task is unknown.

        Arguments:
            file: lint its entries, not those of the schedule.
            progress: called with the number of entries that were read, then of those whose runs were counted.
            sentry: report what the monitors of Sentry cannot say of an entry, too.
        """
        export = None if file is None else checked_export("file", file)
        linter = Linter(self._context, progress, for_sentry=sentry)
        return linter.schedule() if export is None else linter.file(export)

    @property
    def _context(self) -> Context:
        return Context.of(self._given_app, self._key_prefix)

    def _unread(self, name: str) -> RedisScheduleEntry:
        """Return an entry that has only a name, to be changed."""
        context = self._context
        return RedisScheduleEntry(name, app=context.app)._bind(context)


def check_store(app: Celery | None, key_prefix: str | None) -> None:
    """Refuse what a store cannot be made of.

    Raises:
        TypeError: one of them has a wrong type.
        ImproperlyConfigured: no schedule can have that prefix.
    """
    if app is not None:
        check_app(app)
    if key_prefix is None:
        return
    if not isinstance(key_prefix, str):
        raise WrongType("key_prefix", f"expected a text that ends with ':', got {quoted(key_prefix)}")
    if not key_prefix:
        raise ImproperlyConfigured("key_prefix = '': expected a text that ends with ':'; None stands for the setting")
    read_prefix("key_prefix", key_prefix)


def _checked_entries(given: Iterable[RedisScheduleEntry]) -> list[RedisScheduleEntry]:
    if isinstance(given, (str, Path)) or not isinstance(given, Iterable):
        checked_export("entries", given)
    return list(map(checked_entry, given))


def _seconds(duration: float | timedelta, name: str) -> float:
    seconds = duration.total_seconds() if isinstance(duration, timedelta) else duration
    problem = f"expected seconds or a timedelta, at least 0, got {quoted(duration)}"
    if not isinstance(seconds, (int, float)):
        raise WrongType(name, problem)
    if not is_seconds(seconds, 0, sys.float_info.max):
        raise ValueError(f"{name}: {problem}")
    return float(seconds)
