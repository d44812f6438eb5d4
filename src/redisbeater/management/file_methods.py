"""The methods of ``ScheduleStore`` about files, forecasts and findings."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import datetime

from redisbeater.context import task_options
from redisbeater.editing.edit import Author
from redisbeater.entry import RedisScheduleEntry
from redisbeater.management.app_store import AppStore
from redisbeater.management.entry_filter import Filter
from redisbeater.management.files.apply import apply_changes
from redisbeater.management.files.changes import Applied, Changes
from redisbeater.management.files.collect import collect
from redisbeater.management.files.export import Export
from redisbeater.management.files.plan import Terms, plan_changes
from redisbeater.management.forecast import simulate_schedule
from redisbeater.management.lint import Findings, Linter
from redisbeater.management.search import checked_states
from redisbeater.management.simulation import Simulation
from redisbeater.model.fields import TaskLike
from redisbeater.model.passed_values import as_task

__all__ = ("FileMethods",)


class FileMethods(AppStore):
    """The methods that compare the schedule with files, forecast it, and find what is wrong with it."""

    def export(
        self,
        prefix: str | None = None,
        owner: str | None = None,
        state: bool = False,
        redact: bool = False,
        *,
        progress: Callable[[int], None] | None = None,
    ) -> Export:
        """Return entries as a file has them, all by default; ``to_text`` of the result makes its text.

        Arguments:
            prefix: only names that begin with this text.
            owner: only those that the file of this owner declares.
            state: also run counts, fire times and the identity of the schedule: a backup.
            redact: blank the values of keys that name a secret, as ``redisbeater_redact`` says.
            progress: called with the number of entries that were read.
        """
        found = collect(self._context, prefix=prefix or "", owner=owner or "", state=state, progress=progress)
        return found.without_secrets(self._context.config.redact) if redact else found

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
        progress: Callable[[int], None] | None = None,
    ) -> Changes:
        """Return what :meth:`apply` would change to make the entries of an owner those of a file; write nothing.

        What operators changed stays until the file's own field changes.

        Arguments:
            export: the file, from ``Export.read`` or ``Export.from_text``.
            owner: whose the entries are; by default the one that the file names.
            adopt: take over entries of others that have a name of the file.
            delete: delete the owner's entries that the file has not.
            state: restore a backup, with run counts, fire times and identity. It needs no owner.
            note: why, for the log.
            by: who, for the log.
            progress: called with the number of entries that were planned.

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
        return plan_changes(self._context, export, terms, progress)

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
            states: only stored entries in one of these, as for :meth:`rows`.
            text: only stored entries with this text, as for :meth:`rows`.
            progress: called with the number of entries that were read, then of those whose runs were counted.

        Raises:
            ValueError: ``end`` is not after ``start``, or a state is none.
        """
        wanted, chosen = Filter(prefix=prefix, task=as_task(task), queue=queue, labels=labels), checked_states(states)
        return simulate_schedule(self._app, start, end, entries, wanted, progress, states=chosen, text=text)

    def lint(
        self, file: Export | None = None, progress: Callable[[int], None] | None = None, sentry: bool = False
    ) -> Findings:
        """Return what will not run as its author means, in the schedule or in a file, the worst first.

        Workers are asked which tasks they have registered, for a second; without an answer no task is unknown.

        Arguments:
            file: lint its entries, not those of the schedule.
            progress: called with the number of entries that were read, then of those whose runs were counted.
            sentry: report what the monitors of Sentry cannot say of an entry, too.
        """
        linter = Linter(self._app, progress, for_sentry=sentry)
        return linter.schedule() if file is None else linter.file(file)
