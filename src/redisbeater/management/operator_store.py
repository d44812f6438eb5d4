"""The stores of command line and page: what only they need besides the API. None of it is public."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime, tzinfo
from typing import Any, Concatenate

from redisbeater.editing.edit import Author
from redisbeater.editing.upcoming import UpcomingRun
from redisbeater.entry import RedisScheduleEntry
from redisbeater.entry_name import check_name
from redisbeater.management.async_store import AsyncScheduleStore, Awaited, P, R
from redisbeater.management.edit_report import ChangePage, EditReport, read_changes, revert_change
from redisbeater.management.entry_view import EntryView, ViewPage
from redisbeater.management.entry_words import EntryWords, FormWords, drafted, form_words, restored_words
from redisbeater.management.future import HeldRuns, next_clock_change, read_held
from redisbeater.management.lint import Preview, preview_entry
from redisbeater.management.pausing import Watcher
from redisbeater.management.registered import Signature, once_problem, signature_of, task_names, task_problem
from redisbeater.management.runs.history import LEAST_BEGIN, HistoryPage, Recorded, read_history, read_recorded
from redisbeater.management.schedule_store import ScheduleStore
from redisbeater.management.search import RESULTS_ASKED, Filter, Search, checked_states
from redisbeater.management.simulation import due_seconds
from redisbeater.management.status import Status, read_overview
from redisbeater.management.why.facts import Answer
from redisbeater.management.why.past import explain
from redisbeater.model.fields import TaskLike
from redisbeater.model.passed_values import as_task
from redisbeater.store.notifier import Notifier
from redisbeater.store.records import PageKeys


class OperatorStore(ScheduleStore):
    """The schedule of an app, with what people see of it and the texts that they write."""

    def view(self, name: str, *, has_secrets: bool = False) -> EntryView:
        """Return one entry as :meth:`views` has it, with its last change; a broken one, too.

        With ``has_secrets`` the values that ``redisbeater_redact`` names are not blanked.

        Raises:
            EntryNotFound: there is none of that name.
        """
        return Search(self._context).one(name, has_secrets=has_secrets)

    def named(self, names: Sequence[str]) -> list[EntryView]:
        """Return entries as :meth:`views` has them, without those that there are not."""
        return Search(self._context).named(names)

    def views(
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
        results: str | Collection[str] = (),
        sort: str = "next",
    ) -> ViewPage:
        """Return a page of the entries as people list them, broken ones too: state, next and last run, words.

        Arguments:
            number: which page, from 1 on.
            size: how many entries it has.
            text: only entries with this text in their name, task, description or a label, in any case.
            prefix: only names that begin with this text.
            task: only entries of this task: the task or its name.
            queue: only entries whose options name this queue.
            labels: only entries that have all of these.
            states: only entries in one of these: ``enabled``, ``disabled``, ``finished``, ``broken``, ``failing``,
                ``late``; empty: all.
            results: only entries with one of these results of their runs: ``failed``, ``waiting``, ``unstable``,
                ``running``, ``late``, ``ok``, ``never``; empty: all.
            sort: ``next``, ``name``, ``last``, ``late`` or ``result``.

        Raises:
            ValueError: an argument is not valid.
        """
        search = self._search(
            text=text, prefix=prefix, task=task, queue=queue, labels=labels, states=states, results=results, sort=sort
        )
        return search.page(number, size)

    def changeable_names(self, /, **filters: Any) -> list[str]:
        """Return the names of all entries that :meth:`views` lists with these filters, but of broken ones, sorted."""
        found = self._search(**filters).each(None)
        return sorted(entry.name for entry in found if entry.snapshot and entry.snapshot.definition)

    def _search(
        self,
        *,
        states: str | Collection[str],
        results: str | Collection[str],
        task: TaskLike | None,
        sort: str,
        text: str,
        **wanted: Any,
    ) -> Search:
        chosen, asked = checked_states(states), checked_states(results, RESULTS_ASKED, "result")
        selected = Filter(task=as_task(task), **wanted)
        return Search(self._context, selected, states=chosen, results=asked, sort=sort, text=text)

    def names_like(self, text: str) -> list[str]:
        """Return the names of entries with a text in name, task or description, or with a label as ``team=data``."""
        key, is_label, value = text.partition("=")
        searches = [Search(self._context, text=text)]
        if is_label:
            searches.append(Search(self._context, Filter(labels={key.strip(): value.strip()})))
        return sorted({entry.name for search in searches for entry in search.entries()})

    def history_of(
        self,
        names: Sequence[str],
        limit: int,
        before: datetime | None = None,
        *,
        since: datetime | None = None,
        states: Collection[str] = (),
    ) -> HistoryPage:
        """Return the runs of several entries as :meth:`history` does those of all, without log lines."""
        return read_history(self._context, None, names=names, limit=limit, before=before, since=since, states=states)

    def overview(self) -> tuple[Status, tzinfo]:
        """Return the status without what the server says about itself, and the zone of entries without their own."""
        return read_overview(self._context)

    @property
    def address(self) -> str:
        """Where the schedule is looked for, without a password."""
        return self._context.redis.address

    @property
    def prefix(self) -> str:
        """The key prefix of the schedule."""
        return self._context.redis.keys.prefix

    def refusal(self) -> str:
        """Return why the server refuses changes and what to do, or an empty text if it takes them or does not say."""
        return self._context.redis.refusal()

    def is_led(self) -> bool:
        """Return whether a beat holds the lock; without one, any that runs leads."""
        return self._context.config.lock_key is None or bool(self._context.redis.leader())

    def exists(self, name: str) -> bool:
        """Return whether there is an entry of that name, a broken one too."""
        return self._context.redis.contents.origins([name])[name] is not None

    def names_from(self, prefix: str, most: int) -> list[str]:
        """Return the first names that begin with a text, for completion."""
        return self._context.redis.contents.names_from(prefix, most)

    def run_ids(self, prefix: str, most: int) -> list[str]:
        """Return ids of runs that begin with a text, to complete it: with a short one only of those that go on."""
        runs = self._context.redis.runs
        if len(prefix) >= LEAST_BEGIN:
            return list(runs.find(prefix, most).ids)
        return [run_id for run_id in runs.active_ids(most) if run_id.startswith(prefix)]

    def broken_reports(self) -> Mapping[str, Mapping[str, str]]:
        """Return the quarantined entries by name: ``reason``, ``since``, ``application``."""
        return self._context.redis.broken.reports()

    def run_events(self) -> Notifier:
        """Return a listener for what happens to runs."""
        return self._context.redis.runs.events()

    @property
    def page_keys(self) -> PageKeys:
        """What the web page keeps in Redis: ended sessions, and how to undo a change."""
        return self._context.redis.page

    def tasks(self) -> Sequence[str]:
        """Return the names of the tasks of the app, without Celery's own; imports its modules as a worker does."""
        return task_names(self._context.app)

    def signature(self, task: str) -> Signature | None:
        """Return the arguments that a task takes by name, or None if they are not known."""
        return signature_of(self._context.app, task, self._context.config.redact)

    def task_problem(
        self, entry: RedisScheduleEntry, args: Sequence[Any] | None = None, kwargs: Mapping[str, Any] | None = None
    ) -> str:
        """Return why runs of an entry will fail, or one with other arguments, or are not held to ``once``.

        It is empty where nothing is wrong, as far as the tasks of the app tell.
        """
        found, app = entry._definition(), self._context.app
        args, kwargs = found.args if args is None else args, found.kwargs if kwargs is None else kwargs
        refusal = task_problem(app, found.task, args, kwargs)
        return refusal or (once_problem(app, found.task) if found.once else "")

    def held(self) -> HeldRuns:
        """Return how many fire times have come and not run, as they wait while the schedule is paused."""
        return read_held(self._context)

    def recorded(self, name: str) -> Recorded | None:
        """Return the newest run of an entry and its counts by outcome, or None if runs are not recorded."""
        return read_recorded(self._context, check_name(name))

    def changes(
        self,
        name: str = "",
        by: str = "",
        *,
        since: datetime | None = None,
        before: datetime | None = None,
        limit: int = 50,
    ) -> ChangePage:
        """Return who changed what, of entries and people with these texts in their names, the newest first."""
        return read_changes(self._context, name=name, by=by, since=since, before=before, limit=limit)

    def due_seconds(self, names: Sequence[str], start: datetime, end: datetime, most: int) -> dict[str, list[int]]:
        """Return the UNIX seconds of the runs of some entries between two instants, the first ``most`` of each."""
        return due_seconds(self._context, names, start, end, most)

    def explained(self, name: str, at: datetime | None = None, shown_in: tzinfo | None = None) -> Answer:
        """Answer as :meth:`why` does, with times in a zone, by default that of the entry."""
        longest = self._context.app.conf.beat_max_loop_interval or 0
        return explain(self._context, check_name(name), at, max_interval=longest, shown_in=shown_in)

    def revert(self, name: str, at: datetime, *, version: str = "", by: str = "", note: str = "") -> EditReport:
        """Revert the change of an entry that its log has for a time; without a version report what that would do.

        Raises:
            EntryNotFound: there is no such entry.
            EditConflict: it has another version.
            InvalidEntry: no change of that time can be reverted.
        """
        return revert_change(self._context, check_name(name), at, Author.of(by, note), version=version)

    def watch(self) -> Watcher:
        """Return a watcher for changes of the schedule and of its runs."""
        return Watcher(self._context)

    def words(self, words: Mapping[str, Any], name: str = "") -> EntryWords:
        """Read the fields of an entry from words such as ``{"every": "1h30m"}``, those of the command line.

        Arguments:
            words: texts by the names of the options of ``create``.
            name: the entry to change, whose zone local times are in; empty for a new one.
        """
        return EntryWords(self._context, words, name)

    def form_words(self, name: str) -> FormWords:
        """Return an entry as the texts that :meth:`words` reads, with the values of secrets blanked.

        Raises:
            EntryNotFound, InvalidEntry: as for :meth:`get`.
        """
        return form_words(self._context, check_name(name))

    def restored_words(self, name: str, words: Mapping[str, Any]) -> dict[str, Any]:
        """Return words with the stored values where :meth:`form_words` had blanked a secret and nobody changed it.

        Raises:
            EntryNotFound, InvalidEntry: as for :meth:`get`.
        """
        return restored_words(self._context, check_name(name), words)

    def draft(self, name: str, task: str, words: EntryWords) -> RedisScheduleEntry:
        """Return an entry of words, without looking whether there is one of that name; write nothing.

        Raises:
            InvalidEntry: a word cannot be read, or the schedule is missing.
        """
        return drafted(self._context, name, task, words)

    def preview(self, entry: RedisScheduleEntry, n: int = 5) -> Preview:
        """Return a preview of an entry created now: its schedule in words, its next runs, lint findings.

        Raises:
            InvalidEntry: it could not be stored.
        """
        return preview_entry(self._context, entry, n)

    def next_clock_change(self, entry: RedisScheduleEntry) -> UpcomingRun | None:
        """Return the first run within a year that a change of the clocks moves, or that falls into a repeated hour."""
        return next_clock_change(self._context, entry)


class AsyncOperatorStore(AsyncScheduleStore):
    """The same for the page, to be awaited."""

    _kind = OperatorStore

    async def call(self, method: Callable[Concatenate[ScheduleStore, P], R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call a method of the store that a table names, in a thread as all the others."""
        store = self._sync
        return await self._run(lambda: method(store, *args, **kwargs))

    view = Awaited(OperatorStore.view)
    overview = Awaited(OperatorStore.overview)
    named = Awaited(OperatorStore.named)
    views = Awaited(OperatorStore.views, is_long_read=True)
    names_like = Awaited(OperatorStore.names_like, is_long_read=True)
    changeable_names = Awaited(OperatorStore.changeable_names, is_long_read=True)
    history_of = Awaited(OperatorStore.history_of, is_long_read=True)
    tasks = Awaited(OperatorStore.tasks)
    signature = Awaited(OperatorStore.signature)
    task_problem = Awaited(OperatorStore.task_problem)
    held = Awaited(OperatorStore.held, is_long_read=True)
    recorded = Awaited(OperatorStore.recorded)
    changes = Awaited(OperatorStore.changes, is_long_read=True)
    due_seconds = Awaited(OperatorStore.due_seconds, is_long_read=True)
    explained = Awaited(OperatorStore.explained)
    revert = Awaited(OperatorStore.revert)
    watch = Awaited(OperatorStore.watch)
    words = Awaited(OperatorStore.words)
    form_words = Awaited(OperatorStore.form_words)
    restored_words = Awaited(OperatorStore.restored_words)
    draft = Awaited(OperatorStore.draft)
    preview = Awaited(OperatorStore.preview)
    next_clock_change = Awaited(OperatorStore.next_clock_change)
