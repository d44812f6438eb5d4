"""``Files``: files of entries, ``store.files``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from redisbeater.display import quoted
from redisbeater.editing.edit import Author
from redisbeater.exceptions import WrongType
from redisbeater.management.files.apply import apply_changes, collect
from redisbeater.management.files.export import Export
from redisbeater.management.files.plan import Applied, ApplyOptions, Changes, plan_changes
from redisbeater.management.long_read import long_read
from redisbeater.management.room import Room


class Files(Room):
    """Files of entries: written from the schedule, and applied to it. ``store.files``.

    Example::

        changes = store.files.plan(Export.read("entries.yaml"), owner="reports")
        store.files.apply(changes)
    """

    @long_read
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

    @long_read
    def plan(
        self,
        export: Export,
        owner: str | None = None,
        *,
        adopt: bool = False,
        delete: bool = True,
        state: bool = False,
        progress: Callable[[int], None] | None = None,
        note: str = "",
        by: str = "",
    ) -> Changes:
        """Return the changes that :meth:`apply` would make to the entries of an owner; write nothing.

        What operators changed stays until the file's own field changes.

        Arguments:
            export: the file, from ``Export.read`` or ``Export.from_text``.
            owner: whose the entries are; by default the one that the file names.
            adopt: take over entries of others that have a name of the file.
            delete: delete the owner's entries that the file has not.
            state: restore a backup, with run counts, fire times and identity. It needs no owner.
            progress: called with the number of entries that were planned.
            note: why, for the log.
            by: who, for the log.

        Raises:
            InvalidEntry: an entry cannot be stored, or belongs to someone else.
        """
        export, author = checked_export("export", export), Author.of(by, note)
        terms = ApplyOptions(
            owner=owner or export.owner,
            author=author,
            rules=self._context.task_options,
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
        if not isinstance(changes, Changes):
            raise WrongType("changes", f"expected what files.plan() returned, got {quoted(changes)}")
        done = Applied() if done is None else done
        apply_changes(self._context, changes, done, progress)
        return done


def checked_export(name: str, given: object) -> Export:
    """Return an argument that must be the content of a file.

    Raises:
        WrongType: it is something else, such as the path of the file.
    """
    if isinstance(given, Export):
        return given
    path = str(given) if isinstance(given, (str, Path)) else "f.yaml"
    raise WrongType(name, f"expected an Export: Export.read({quoted(path)}), got {type(given).__name__}")
