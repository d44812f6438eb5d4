"""``ScheduleStore``: the schedule of an app, for programs that create and change entries by name."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal

from celery import Celery
from celery.app import app_or_default

from redisbeater.config.settings import app_text
from redisbeater.context import Context, task_options
from redisbeater.context import task_options as rules_of
from redisbeater.display import quoted
from redisbeater.editing.author import Author
from redisbeater.editing.changes import FieldChange
from redisbeater.editing.deletion import delete_entry
from redisbeater.editing.stored_entry import failing_of, load
from redisbeater.editing.upcoming import UpcomingRun
from redisbeater.entry import RedisScheduleEntry
from redisbeater.entry_name import check_name
from redisbeater.exceptions import EntryNotFound
from redisbeater.management import pausing
from redisbeater.management.agenda import ScheduledRun, next_runs
from redisbeater.management.bulk import Bulk
from redisbeater.management.clock_changes import next_clock_change
from redisbeater.management.definition_file import read_definition
from redisbeater.management.edit_report import EditReport, draft, edit_entry
from redisbeater.management.entry_words import EntryWords
from redisbeater.management.files.apply import apply_changes
from redisbeater.management.files.changes import Applied, Changes
from redisbeater.management.files.collect import collect
from redisbeater.management.files.export import Export
from redisbeater.management.files.plan import Terms, plan_changes
from redisbeater.management.forecast import simulate_schedule
from redisbeater.management.health import Health, check_health
from redisbeater.management.health import Terms as HealthTerms
from redisbeater.management.lint import Findings, Linter
from redisbeater.management.listing import EntryPage, Filter, Listing
from redisbeater.management.many import Outcome, delete_many, enable_many
from redisbeater.management.pausing import Resumption
from redisbeater.management.quarantined import retry
from redisbeater.management.registered import is_registered
from redisbeater.management.renaming import copy_entry, rename_entry
from redisbeater.management.restoring import restore_entry
from redisbeater.management.simulation import Simulation
from redisbeater.management.status import Status, read_status
from redisbeater.management.trigger import Triggers
from redisbeater.management.why.answer import Answer
from redisbeater.management.why.explain import explain
from redisbeater.management.why.facts import redacted_line
from redisbeater.model.entry_fields import EntryChanges, EntryFields, ScheduleLike, TaskLike
from redisbeater.model.failing import Failing
from redisbeater.model.log_line import LogLine
from redisbeater.model.pause import Pause
from redisbeater.store import Late

if TYPE_CHECKING:  # Python has it from 3.11 on; type checkers bring it along
    from typing_extensions import Unpack

__all__ = ("ScheduleStore",)

#: The most lines of a log that are read at once.
MOST_LINES_READ = 10_000


class ScheduleStore:
    """The schedule of an app. Building one does no I/O; one for each process is enough.

    Arguments:
        app: default: the current app at each call, so that a store may be made before the app is.

    Every method raises :exc:`~redisbeater.InvalidEntry` for a field that cannot be stored, before anything is written,
    and :exc:`~redisbeater.StoreUnavailable` when Redis cannot be reached.

    Example::

        store = ScheduleStore(app)
        store.create("report", "proj.tasks.report", crontab(hour=9, minute=0), max_runs=10)
        store.update("report", args=["weiss"])
    """

    def __init__(self, app: Celery | None = None) -> None:
        self._given_app = app
        self._listing: Listing | None = None
        self._triggers: Triggers | None = None

    def __repr__(self) -> str:
        return f"<ScheduleStore of {app_text(self._app)}>"

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
        entry = RedisScheduleEntry(name, task, schedule, app=self._app, **fields)
        return draft(entry) if dry_run else entry.create(note=note, by=by)

    def update(
        self,
        name: str,
        /,
        *,
        if_version: str | None = None,
        note: str = "",
        by: str = "",
        **changes: Unpack[EntryChanges],
    ) -> RedisScheduleEntry:
        """Change the named fields of an entry; the others stay as they are at that moment.

        With ``if_version``, the :attr:`~redisbeater.RedisScheduleEntry.version` that was read, an entry that was
        edited since is not changed; a run of it makes no difference.

        Raises:
            EntryNotFound: there is none of that name.
            EditConflict: it has another version, or others kept changing it.
        """
        return self.edit(name, if_version=if_version, note=note, by=by, **changes).entry

    def edit(
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
    ) -> EditReport:
        """Change an entry as :meth:`update` does, and report the changed fields and the next run before and after.

        ``task_options`` are options of the task to change one by one, None removes one; ``options`` replaces them all.
        With ``dry_run`` nothing is written.

        Raises:
            EntryNotFound, EditConflict: as for :meth:`update`.
        """
        change = FieldChange(
            name=check_name(name),
            fields={**changes},
            options=task_options or {},
            option_rules=rules_of(self._app),
            author=Author.of(by, note),
            if_version=if_version,
        )
        return edit_entry(self._app, change, dry_run=dry_run)

    def words(self, words: Mapping[str, Any], name: str = "") -> EntryWords:
        """Read the fields of an entry from words such as ``{"every": "1h30m"}``, those of the command line.

        Arguments:
            words: texts by the names of the options of ``create``.
            name: the entry to change, whose zone local times are in; empty for a new one.
        """
        return EntryWords(self._context, words, name)

    def definition(self, name: str) -> dict[str, Any]:
        """Return all that makes an entry what it is, as JSON values: :meth:`read_definition` reads them.

        Raises:
            EntryNotFound, InvalidEntry: as for :meth:`get`.
        """
        return load(self._context, check_name(name)).definition.to_data(self._context.codec)

    def read_definition(self, text: str, name: str = "") -> RedisScheduleEntry:
        """Return the entry of a definition, without writing it; ``name`` takes the place of the name in the text.

        Raises:
            InvalidEntry: it cannot be read, or has a field that no entry has.
        """
        return read_definition(self._app, text, name)

    def next_clock_change(self, entry: RedisScheduleEntry) -> UpcomingRun | None:
        """Return the first run within a year that a change of the clocks moves, or that falls into a repeated hour."""
        return next_clock_change(entry)

    def is_registered(self, task: str) -> bool | None:
        """Tell whether the app has a task of that name; imports its modules as a worker does. None: it cannot."""
        return is_registered(self._app, task)

    def upsert(self, entry: RedisScheduleEntry) -> RedisScheduleEntry:
        """Create an entry, or make the stored one of that name like it: :meth:`redisbeater.RedisScheduleEntry.save`."""
        return entry.save()

    def bulk(self) -> Bulk:
        """Make tens of thousands of changes in seconds.

        Example::

            with store.bulk() as bulk:
                for customer in customers:
                    bulk.upsert(RedisScheduleEntry(f"report {customer}", "proj.report", 3600, args=[customer], app=app))
            print(bulk.created, bulk.changed, bulk.unchanged)
        """
        return Bulk(self._context)

    def get(self, name: str) -> RedisScheduleEntry:
        """Read an entry.

        Raises:
            EntryNotFound: there is none of that name.
            InvalidEntry: it is broken.
        """
        return RedisScheduleEntry.of(load(self._context, check_name(name)), self._app)

    def delete(self, name: str, *, note: str = "", by: str = "") -> None:
        """Delete an entry. A static one comes back, with its counters, when a beat begins to lead: disable it instead.

        Raises:
            EntryNotFound: there is none of that name.
        """
        if delete_entry(self._context, check_name(name), Author.of(by, note)) is None:
            raise EntryNotFound(name)

    def restore(self, name: str, *, note: str = "", by: str = "") -> RedisScheduleEntry:
        """Put an entry back that was deleted within seven days and is one of the newest 100; its state is kept.

        Fire times that passed meanwhile are not run. Entries that a :meth:`bulk` deleted are not kept.

        Raises:
            EntryNotFound: no deleted entry of that name is kept.
            EntryExists: there is an entry of that name.
        """
        return RedisScheduleEntry.of(restore_entry(self._context, name, Author.of(by, note)), self._app)

    def deleted(self) -> dict[str, datetime]:
        """Return the deleted entries that can be restored, name -> when it was deleted, the newest first."""
        return self._context.redis.deleted.names()

    def enable(self, name: str, *, note: str = "", by: str = "") -> RedisScheduleEntry:
        """Let an entry run again; :meth:`redisbeater.RedisScheduleEntry.enable`."""
        return RedisScheduleEntry(name, app=self._app).enable(note=note, by=by)

    def disable(
        self, name: str, *, until: datetime | timedelta | None = None, note: str = "", by: str = ""
    ) -> RedisScheduleEntry:
        """Stop the runs of an entry until it is enabled again; :meth:`redisbeater.RedisScheduleEntry.disable`."""
        return RedisScheduleEntry(name, app=self._app).disable(until=until, note=note, by=by)

    def skip_next(
        self, name: str, n: int = 1, *, undo: bool = False, note: str = "", by: str = ""
    ) -> RedisScheduleEntry:
        """Leave out the next fire times of an entry; :meth:`redisbeater.RedisScheduleEntry.skip_next`."""
        return RedisScheduleEntry(name, app=self._app).skip_next(n, undo=undo, note=note, by=by)

    def rename(self, name: str, new: str, *, note: str = "", by: str = "") -> RedisScheduleEntry:
        """Rename an entry. It keeps its state; its task ids, its jitter and ``H`` in its schedule change.

        Raises:
            EntryNotFound: there is none of that name.
            EntryExists: there is one of the new name.
            RunActive: a beat is sending a run of it.
        """
        return RedisScheduleEntry.of(rename_entry(self._context, name, new, Author.of(by, note)), self._app)

    def copy(
        self, name: str, new: str, *, note: str = "", by: str = "", **changes: Unpack[EntryChanges]
    ) -> RedisScheduleEntry:
        """Create an entry like another one, with some fields changed. It starts again, without runs.

        Raises:
            EntryNotFound: there is none of that name.
            EntryExists: there is one of the new name.
        """
        rules, author = task_options(self._app), Author.of(by, note)
        return RedisScheduleEntry.of(copy_entry(self._context, name, new, {**changes}, rules, author), self._app)

    def trigger(
        self,
        name: str,
        *,
        args: Sequence[Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
        scheduled_for: datetime | None = None,
        by: str = "",
        note: str = "",
    ) -> str:
        """Send a run of an entry now, from this process, and return its task id, which is random.

        It has the task, the options and the headers of the entry's runs. Its next fire time and its counters stay as
        they are; an entry that is disabled or finished can be triggered too. The entry's :meth:`log` says who did it.

        Arguments:
            name: the name of the entry.
            args: other arguments than the entry's, for this run.
            kwargs: other keyword arguments than the entry's, for this run; they replace all of them.
            scheduled_for: the fire time that the run gets in its header ``scheduled_for``; default: now. A naive one
                is in the entry's zone.
            by: who, for the log. Default: user and host of this process.
            note: why, for the log.

        Raises:
            EntryNotFound: there is none of that name.
            InvalidEntry: the entry is broken, or the arguments cannot be sent.
            SendFailed: the broker did not take the run.
        """
        app = self._app
        if self._triggers is None or self._triggers.app is not app:
            self._triggers = Triggers(app)
        author = Author.of(by, note)
        return self._triggers.trigger(
            check_name(name), args=args, kwargs=kwargs, scheduled_for=scheduled_for, author=author
        )

    def enable_many(self, names: Iterable[str], *, note: str = "", by: str = "") -> Iterator[Outcome]:
        """Enable entries, a page at a time; yield what became of each, also of one that cannot be changed."""
        return enable_many(self._app, names, is_enabled=True, author=Author.of(by, note))

    def disable_many(self, names: Iterable[str], *, note: str = "", by: str = "") -> Iterator[Outcome]:
        """Disable entries, as :meth:`enable_many` enables them."""
        return enable_many(self._app, names, is_enabled=False, author=Author.of(by, note))

    def delete_many(self, names: Iterable[str], *, note: str = "", by: str = "") -> Iterator[Outcome]:
        """Delete entries, a page at a time; yield what became of each, also of one that does not exist."""
        return delete_many(self._app, names, author=Author.of(by, note))

    def retry(self, name: str, *, note: str = "", by: str = "") -> RedisScheduleEntry:
        """Let a broken entry run again whose reason is gone, such as a schedule class that was missing.

        Raises:
            EntryNotFound: there is none of that name.
            InvalidEntry: it is not broken, or still cannot be read.
        """
        return retry(self._app, check_name(name), Author.of(by, note))

    def log(self, name: str | None = None, limit: int = 100) -> list[LogLine]:
        """Return what happened to an entry, or to the schedule without a name: the newest line first.

        An ordinary run is no line; the log says what was changed, by whom and why, what was skipped and what failed.

        Raises:
            ValueError: ``limit`` is not from 1 to 10,000.
        """
        if not 1 <= limit <= MOST_LINES_READ:
            raise ValueError(f"limit: expected 1 to {MOST_LINES_READ}, got {limit}")
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
        return explain(self._context, check_name(name), at)

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

    def status(self) -> Status:
        """Return who leads, who stands by, what is due, and how the leader fares."""
        return read_status(self._context)

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
            strict: whether broken and failing entries are unhealthy.
            timeout: seconds that Redis may take.
        """
        late = timedelta(seconds=_seconds(max_late))
        terms = HealthTerms(max_late=late, require=require, self_token=self_token, strict=strict)
        return check_health(self._context, terms, timeout)

    def executed(self, name: str, at: datetime | None = None) -> RedisScheduleEntry:
        """Record when a task was really executed; :meth:`redisbeater.RedisScheduleEntry.executed`."""
        return RedisScheduleEntry(name, app=self._app).executed(at)

    def upcoming(self, name: str, n: int = 5) -> list[UpcomingRun]:
        """Return the next ``n`` runs of an entry; :meth:`redisbeater.RedisScheduleEntry.upcoming`."""
        return RedisScheduleEntry(name, app=self._app).upcoming(n)

    def next(self, within: float | timedelta | None = None, limit: int = 20) -> list[ScheduledRun]:
        """Return the next runs of the whole schedule, in the order of their times, each with its entry and its task.

        Only what they take is read, a page of a thousand entries at least. A run that is overdue comes first.

        Arguments:
            within: only runs that are due within so many seconds from now; None: however late they are due.
            limit: how many at most, up to 10,000.

        Raises:
            ValueError: an argument is not valid.
        """
        span = None if within is None else timedelta(seconds=_seconds(within, "within"))
        return next_runs(self._context, within=span, limit=limit)

    def list(
        self,
        prefix: str | None = None,
        task: str | None = None,
        enabled: bool | None = None,
        limit: int = 100,
        cursor: str | None = None,
        queue: str | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> EntryPage:
        """Return a page of the entries, in the order of their names.

        Over all pages of a walk, each entry that exists from its first page to its last comes exactly once, whatever
        runs or changes. One that is created during the walk may come or not; one that is deleted does not come any
        more. Each entry is as it was when its page was read.

        Arguments:
            prefix: only names that begin with this text.
            task: only entries of this task.
            enabled: only those that are, or are not; one that is disabled until a time to come is not.
            queue: only entries whose options name this queue.
            labels: only entries that have all of these.
            limit: how many at most, up to 10,000. A page may be shorter, even empty, and have a cursor all the same.
            cursor: the one of the page before, None for the first; the filters must be the same.

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
        wanted = Filter(prefix=prefix, task=task, enabled=enabled, queue=queue, labels=labels)
        return self._listing.page(wanted, limit=limit, cursor=cursor)

    def export(self, prefix: str | None = None, owner: str | None = None, state: bool = False) -> Export:
        """Return entries as a file has them, all by default; :meth:`Export.to_text` makes its text.

        Arguments:
            prefix: only names that begin with this text.
            owner: only those that the file of this owner declares.
            state: also run counts, fire times and the identity of the schedule: a backup.
        """
        return collect(self._context, prefix=prefix or "", owner=owner or "", state=state)

    def plan(
        self,
        export: Export,
        owner: str | None = None,
        *,
        adopt: bool = False,
        delete: bool = True,
        state: bool = False,
        note: str = "",
        by: str = "",
    ) -> Changes:
        """Return what :meth:`apply` would change to make the entries of an owner those of a file; write nothing.

        What operators changed stays until the file's own field changes.

        Arguments:
            export: the file, from :meth:`Export.read` or :meth:`Export.from_text`.
            owner: whose the entries are; by default the one that the file names.
            adopt: take over entries of others that have a name of the file.
            delete: delete the owner's entries that the file has not.
            state: restore a backup, with run counts, fire times and identity. It needs no owner.
            note: why, for the log.
            by: who, for the log.

        Raises:
            InvalidEntry: an entry cannot be stored, or belongs to someone else.
        """
        author = Author.of(by, note)
        terms = Terms(
            owner=owner or export.owner,
            author=author,
            rules=task_options(self._app),
            adopts=adopt,
            deletes=delete,
            restores=state,
        )
        return plan_changes(self._context, export, terms)

    def apply(
        self, changes: Changes, done: Applied | None = None, progress: Callable[[int], None] | None = None
    ) -> Applied:
        """Apply what :meth:`plan` returned, deletions last, and return what was done.

        An entry that was changed since the plan was made is left out, and is in ``conflicts``.

        Arguments:
            changes: the plan.
            done: records what was done, also where an exception ends it; planning and applying again does the rest.
            progress: called with the number of entries that are done.
        """
        done = Applied() if done is None else done
        apply_changes(self._context, changes, done, progress)
        return done

    def simulate(
        self,
        start: datetime | None = None,
        end: datetime | None = None,
        *,
        entries: Iterable[RedisScheduleEntry] | Export | None = None,
        prefix: str | None = None,
        task: str | None = None,
    ) -> Simulation:
        """Return how many runs there will be from ``start``, now by default, up to ``end``, a day later by default.

        Policies are those of now; what is overdue is left out. Naive times are in the zone of the schedule.

        Arguments:
            start: when it begins.
            end: when it ends, not included.
            entries: instead of the stored ones; as if each was created now.
            prefix: only entries whose name begins with this text.
            task: only entries of this task.

        Raises:
            ValueError: ``end`` is not after ``start``.
        """
        wanted = Filter(prefix=prefix, task=task)
        return simulate_schedule(self._app, start, end, entries, wanted)

    def lint(self, file: Export | None = None, progress: Callable[[int], None] | None = None) -> Findings:
        """Return what will not run as its author means, in the schedule or in a file, the worst first.

        Workers are asked which tasks they have registered, for a second; without an answer no task is unknown.

        Arguments:
            file: lint its entries, not those of the schedule.
            progress: called with the number of entries that were read.
        """
        linter = Linter(self._app, progress)
        return linter.schedule() if file is None else linter.file(file)

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

    @property
    def _app(self) -> Celery:
        return app_or_default(self._given_app)

    @property
    def _context(self) -> Context:
        return Context.of(self._app)


def _seconds(duration: float | timedelta, name: str = "more_than") -> float:
    seconds = duration.total_seconds() if isinstance(duration, timedelta) else duration
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not 0 <= seconds < math.inf:
        raise ValueError(f"{name}: expected seconds or a timedelta, at least 0, got {quoted(duration)}")
    return float(seconds)
