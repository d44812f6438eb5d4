"""The methods of ``ScheduleStore`` that read and write entries as texts: words of people, forms, definitions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from redisbeater.editing.stored_entry import load
from redisbeater.entry import RedisScheduleEntry
from redisbeater.entry_name import check_name
from redisbeater.management.app_store import AppStore
from redisbeater.management.definition_file import read_definition
from redisbeater.management.entry_words import EntryWords, drafted
from redisbeater.management.form_words import FormWords, form_words, restored_words
from redisbeater.management.preview import Preview, preview_entry

__all__ = ("WordMethods",)


class WordMethods(AppStore):
    """The methods that read entries from texts, write them as texts, and say what they would do; none changes one."""

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
        return drafted(self._app, name, task, words)

    def preview(self, entry: RedisScheduleEntry, n: int = 5) -> Preview:
        """Return what an entry would do that is created now: its schedule in words, its next runs, what lint says.

        Raises:
            InvalidEntry: it could not be stored.
        """
        return preview_entry(self._context, entry, n)

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
