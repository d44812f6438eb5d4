"""The methods of ``ScheduleStore`` that make, change and trigger entries."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from redisbeater.context import task_options as rules_of
from redisbeater.editing.changes import FieldChange
from redisbeater.editing.compare_and_set import delete_entry
from redisbeater.editing.edit import Author
from redisbeater.editing.stored_entry import load
from redisbeater.entry import RedisScheduleEntry
from redisbeater.entry_name import check_name, check_stored_name
from redisbeater.exceptions import EntryNotFound
from redisbeater.management.bulk import Bulk
from redisbeater.management.edit_report import EditReport, draft, edit_entry
from redisbeater.management.many import Outcome, delete_many, enable_many
from redisbeater.management.quarantined import retry
from redisbeater.management.renaming import copy_entry, rename_entry
from redisbeater.management.restoring import restore_entry
from redisbeater.management.run_methods import RunMethods
from redisbeater.management.template import checked_entry
from redisbeater.management.trigger import Triggers
from redisbeater.model.fields import EntryChanges, EntryFields, ScheduleLike, TaskLike
from redisbeater.model.policies import Overlap, OverlapWord

if TYPE_CHECKING:  # Python has it from 3.11 on; type checkers bring it along
    from typing_extensions import Unpack


__all__ = ("EntryMethods",)


class EntryMethods(RunMethods):
    """The methods that make, change and trigger entries, each by its name."""

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
        change = self._change(name, changes, task_options, note, by)
        return edit_entry(self._app, replace(change, if_version=if_version), dry_run=dry_run)

    def _change(
        self, name: str, fields: EntryChanges, options: Mapping[str, Any] | None, note: str, by: str
    ) -> FieldChange:
        return FieldChange(
            name=check_name(name),
            fields={**fields},
            options=options or {},
            option_rules=rules_of(self._app),
            author=Author.of(by, note),
        )

    def upsert(self, entry: RedisScheduleEntry, *, note: str = "", by: str = "") -> RedisScheduleEntry:
        """Create an entry, or make the stored one of that name like it: :meth:`redisbeater.RedisScheduleEntry.save`.

        With a store that has a ``prefix``, the entry belongs to its schedule from then on.
        """
        entry = checked_entry(entry)
        if self._prefix is not None:
            entry.app = self._app
        return entry.save(note=note, by=by)

    def bulk(self, *, note: str = "", by: str = "") -> Bulk:
        """Make tens of thousands of changes in seconds.

        The :meth:`log` of each entry that is changed or deleted gets a line, with ``note`` and ``by``. That of a new
        entry gets one only if either is passed: it takes half as much memory as the entry.

        Example::

            with store.bulk() as bulk:
                for customer in customers:
                    bulk.upsert(RedisScheduleEntry(f"report {customer}", "proj.report", 3600, args=[customer], app=app))
            print(bulk.created, bulk.changed, bulk.unchanged)
        """
        return Bulk(self._context, note=note, by=by)

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
        if delete_entry(self._context, check_stored_name(name), Author.of(by, note)) is None:
            raise EntryNotFound(name)

    def restore(self, name: str, *, note: str = "", by: str = "") -> RedisScheduleEntry:
        """Put an entry back that was deleted within seven days and is one of the newest 10,000; its state is kept.

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

        ``task_options`` and ``dry_run`` are those of :meth:`edit`.

        Raises:
            EntryNotFound: there is none of that name.
            EntryExists: there is one of the new name.
        """
        change = self._change(name, changes, task_options, note, by)
        return RedisScheduleEntry.of(copy_entry(self._context, name, new, change, dry_run=dry_run), self._app)

    def trigger(
        self,
        name: str,
        *,
        args: Sequence[Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
        scheduled_for: datetime | None = None,
        overlap: OverlapWord | Overlap | None = None,
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
            overlap: ``"allow"``, ``"skip"``, ``"buffer_one"`` or ``"cancel_other"``: what decides where another run of
                the entry is active; None: the entry's own. With ``"buffer_one"`` and ``"cancel_other"`` beat sends the
                run once the other has ended. All but ``"allow"`` need ``redisbeater_track_runs``.
            by: who, for the log. Default: user and host of this process.
            note: why, for the log.

        Raises:
            EntryNotFound: there is none of that name.
            InvalidEntry: the entry is broken, or the arguments cannot be sent.
            RunActive: another run of the entry is active, and the overlap allows no other.
            SendFailed: the broker did not take the run.
        """
        return Triggers(self._app, self._caller).trigger(
            check_name(name),
            args=args,
            kwargs=kwargs,
            scheduled_for=scheduled_for,
            overlap=overlap,
            author=Author.of(by, note),
        )

    def enable_many(self, names: Iterable[str], *, note: str = "", by: str = "") -> list[Outcome]:
        """Enable entries, a page at a time; return what became of each, also of one that cannot be changed."""
        return list(enable_many(self._app, names, is_enabled=True, author=Author.of(by, note)))

    def disable_many(self, names: Iterable[str], *, note: str = "", by: str = "") -> list[Outcome]:
        """Disable entries, as :meth:`enable_many` enables them."""
        return list(enable_many(self._app, names, is_enabled=False, author=Author.of(by, note)))

    def delete_many(self, names: Iterable[str], *, note: str = "", by: str = "") -> list[Outcome]:
        """Delete entries, a page at a time; return what became of each, also of one that does not exist."""
        return list(delete_many(self._app, names, author=Author.of(by, note)))

    def retry(self, name: str, *, note: str = "", by: str = "") -> RedisScheduleEntry:
        """Let a broken entry run again whose reason is gone, such as a schedule class that was missing.

        Raises:
            EntryNotFound: there is none of that name.
            InvalidEntry: it is not broken, or still cannot be read.
        """
        return retry(self._app, check_name(name), Author.of(by, note))

    def executed(self, name: str, at: datetime | None = None, *, note: str = "", by: str = "") -> RedisScheduleEntry:
        """Record when a task was really executed; :meth:`redisbeater.RedisScheduleEntry.executed`."""
        return RedisScheduleEntry(name, app=self._app).executed(at, note=note, by=by)
