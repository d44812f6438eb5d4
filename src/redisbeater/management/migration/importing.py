"""``Import``: the entries of another scheduler, checked, compared and written."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from celery import Celery

from redisbeater.context import Context
from redisbeater.editing.changes import Upsert
from redisbeater.editing.compare_and_set import write_page
from redisbeater.editing.edit import Author
from redisbeater.exceptions import EntryExists, InvalidEntry
from redisbeater.management.lint_rules import warnings
from redisbeater.management.migration.candidate import Candidate, Source
from redisbeater.management.migration.comparison import MOST_FIRE_TIMES, Comparison, Comparisons
from redisbeater.store import SAVE_PAGE, Snapshot, pages


@dataclass(kw_only=True)
class ImportedEntry:
    """What becomes of one entry of the other scheduler.

    Attributes:
        state: ``new``: it is to be imported; ``imported``; ``exists``: there is one of its name, which is skipped;
            ``left out``; ``refused``.
        reason: why it is not imported.
        comparison: its fire times by both engines, once :meth:`Import.compare` has found them.
        warnings: what in its schedule hardly does what its author means, though it runs.
    """

    candidate: Candidate
    state: str
    reason: str = ""
    comparison: Comparison | None = None
    warnings: Sequence[str] = ()
    change: Upsert | None = field(default=None, repr=False)

    @property
    def name(self) -> str:
        """The name of the entry."""
        return self.candidate.name


class Import:
    """An import into the schedule of an app: read it, then compare it, or write it and disable it at its source.

    Arguments:
        app: whose schedule gets the entries.
        source: where they come from.
        skip_existing: leave entries alone that exist; else each is refused.
        by: who imports, for the log of each entry.
        note: why.

    Raises:
        InvalidEntry: ``by`` or ``note`` cannot be stored.
    """

    def __init__(
        self, app: Celery, source: Source, *, skip_existing: bool = False, by: str = "", note: str = ""
    ) -> None:
        self._app = app
        self._context = Context.of(app)
        self._source = source
        self._skip_existing = skip_existing
        self._author = Author.of(by, note or f"imported from {source.name}")
        self.entries: list[ImportedEntry] = []

    def read(self, progress: Callable[[int], object] = lambda count: None) -> None:
        """Read the source, and check each entry as if it were to be written now; ``progress`` gets their number.

        Raises:
            ImproperlyConfigured, StoreError: the source cannot be read.
        """
        existing = set(self._context.redis.contents.names())
        now, zone = self._context.redis.clock()
        self.entries = []
        for candidate in self._source.read():
            self.entries.append(self._checked(candidate, existing, now, zone))
            progress(len(self.entries))

    def compare(self, limit: int = MOST_FIRE_TIMES) -> Iterator[ImportedEntry]:
        """Compare the fire times of each entry that is to be imported; yield each once that is done."""
        now, stored_zone = self._context.redis.clock()
        compared = Comparisons(now, self._context.in_zone(stored_zone).zone, self._context.codec, limit)
        for entry in self.of_state("new"):
            entry.comparison = compared(entry.candidate)
            yield entry

    def write(self, progress: Callable[[int], object] = lambda count: None) -> None:
        """Write what is to be imported; doing it again finishes an interrupted one. ``progress`` gets their number.

        Raises:
            StoreError: Redis failed; the pages before are written.
        """
        for page in pages(self.of_state("new"), SAVE_PAGE):
            result = write_page(self._context, [entry.change for entry in page if entry.change])
            for entry in page:
                failure = result.failures.get(entry.name)
                entry.state, entry.reason = ("imported", "") if failure is None else self._failed(failure)
            progress(len(self.of_state("imported")))

    def disable_source(self) -> list[str]:
        """Disable at the source what was imported and is enabled there; return the names of what was disabled."""
        enabled = (each for each in self.of_state("imported") if each.change and each.change.definition.enabled)
        return self._source.switch([each.name for each in enabled], enabled=False)

    def still_enabled(self) -> list[str]:
        """Return the names of what was not imported, though it could have been wanted, and is enabled at the source."""
        others = (*self.of_state("refused"), *self.of_state("exists"))
        return sorted(entry.name for entry in others if entry.candidate.is_enabled)

    def of_state(self, state: str) -> list[ImportedEntry]:
        """Return the entries of a state."""
        return [entry for entry in self.entries if entry.state == state]

    def _checked(self, candidate: Candidate, existing: set[str], now: datetime, zone: str) -> ImportedEntry:
        if candidate.left_out:
            return ImportedEntry(candidate=candidate, state="left out", reason=candidate.left_out)
        if candidate.name in existing:
            state, reason = self._failed(EntryExists(candidate.name))
            return ImportedEntry(candidate=candidate, state=state, reason=reason)
        if candidate.definition is None:
            return ImportedEntry(candidate=candidate, state="refused", reason=candidate.refused)
        context = self._context.in_zone(zone)
        try:
            change = self._change(candidate)
            empty = Snapshot(name=candidate.name, now=now, definition="", meta="", score=None, zone=zone)
            change.apply(empty, context.defaults, context.codec)
        except InvalidEntry as exc:
            return ImportedEntry(candidate=candidate, state="refused", reason=str(exc))
        return ImportedEntry(candidate=candidate, state="new", warnings=warnings(change.definition), change=change)

    def _change(self, candidate: Candidate) -> Upsert:
        """Return the change that writes an entry, checked like one of a program.

        Raises:
            InvalidEntry: it cannot be stored.
        """
        definition = candidate.definition
        if definition is None:
            raise InvalidEntry("$", candidate.refused)
        definition.check_texts()
        definition.check_options(self._context.task_options)
        return Upsert(
            definition=definition,
            text=definition.to_text(self._context.codec),
            initial_meta=candidate.meta,
            only_new=True,
            has_run_elsewhere=True,
            author=self._author,
        )

    def _failed(self, failure: Exception) -> tuple[str, str]:
        if isinstance(failure, EntryExists):
            reason = "exists in the schedule"
            hint = "--skip-existing keeps it; to import it again, delete it here first"
            return ("exists", reason) if self._skip_existing else ("refused", f"{reason}; {hint}")
        return "refused", str(failure)
