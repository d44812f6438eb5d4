"""``VERBS``: what people do to entries and runs by name, each described once.

Commands, routes, buttons, questions and undo are made of this table. A verb that does more than its method says has a
function of its own by its name: in the command line one that is a command already, in the page one in ``OWN``.
"""

from __future__ import annotations

import inspect
import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, Protocol

from redisbeater.management.bulk import Outcome
from redisbeater.management.runs.room import Runs
from redisbeater.management.schedule_store import ScheduleStore


class Change(Protocol):
    """A method of ``ScheduleStore`` that changes one entry by its name, or one of ``Runs`` for a run by its id."""

    __name__: str

    def __call__(self, store: Any, name: str, /, *, note: str = "", by: str = "") -> Any:
        """Return the entry, the id of a run that was sent, or what became of a run."""


class ChangeOfMany(Protocol):
    """A method of the store that changes many entries at once."""

    __name__: str

    def __call__(self, store: ScheduleStore, names: Iterable[str], /, *, note: str = "", by: str = "") -> list[Outcome]:
        """Return the outcome of each."""


@dataclass(frozen=True)
class Verb:
    """A change of entries or of runs by name.

    Attributes:
        name: what programs and commands call it.
        label: what people choose it by.
        done: what became of an entry or a run, said behind its name.
        right: the right that it needs.
        one: changes one.
        many: changes many entries at once; None: they are changed one by one.
        of: what it changes.
        when: the entries or runs that it is offered for.
        undo: the name of the verb that undoes it; empty: none does.
        most_unasked: the most entries that it changes without a question.
        is_frequent: whether it is shown with each entry, and not in a menu.
        is_single: whether it is offered for one entry at a time only.
        is_destructive: whether it takes something away.
        says_next: whether the next run is said with what became of an entry.
        question: its label where names follow, if that is another.
        warning: what to know before it is done.
        about: what to know of it behind "Delete entries." or the like.
    """

    name: str
    label: str
    done: str
    right: Literal["operate", "edit"]
    one: Change
    many: ChangeOfMany | None = None
    of: Literal["entries", "runs"] = "entries"
    when: Literal["stored", "readable", "planned", "enabled", "disabled", "deleted", "active", "ended"] = "stored"
    undo: str = ""
    most_unasked: int = 20
    is_frequent: bool = False
    is_single: bool = False
    is_destructive: bool = False
    says_next: bool = False
    question: str = ""
    warning: str = ""
    about: str = ""

    @cached_property
    def takes(self) -> Collection[str]:
        """The arguments of its method behind the name."""
        return list(inspect.signature(self.one).parameters)[2:]


_store = ScheduleStore

VERBS: Mapping[str, Verb] = {
    verb.name: verb
    for verb in (
        Verb("trigger", "Run now", "started", "operate", _store.trigger, when="readable", most_unasked=1,
             is_frequent=True, question="Start a run of",
             warning="Each gets one run now. Its next fire time stays as it is."),
        Verb("disable", "Disable", "disabled", "operate", _store.disable, _store.disable_many, when="enabled",
             undo="enable", is_frequent=True),
        Verb("enable", "Enable", "enabled", "operate", _store.enable, _store.enable_many, when="disabled",
             undo="disable", is_frequent=True, says_next=True, about="They run again from their next fire time on."),
        Verb("skip-next", "Skip next", "skipped the next run of", "operate", _store.skip_next, when="planned",
             undo="skip-next", is_single=True, question="Skip the next run of"),
        Verb("delete", "Delete", "deleted", "edit", _store.delete, _store.delete_many, undo="restore", most_unasked=0,
             is_destructive=True,
             warning="It stops running. You can restore it for 7 days. The next beat that leads stores a static entry"
             " again: disable it instead.",
             about="The next beat that leads stores a static entry again; disable it instead."),
        Verb("restore", "Restore", "restored", "edit", _store.restore, when="deleted", undo="delete"),
        Verb("stop", "Stop", "asked to stop", "operate", Runs.stop, of="runs", when="active", most_unasked=0,
             warning="Its worker ends it. In a pool of threads it ends only where its task asks stop_requested()."),
        Verb("restart", "Send again", "sent again", "operate", Runs.restart, of="runs", when="ended"),
    )
}  # fmt: skip


#: How a command begins where nobody knows what ``-A`` the app has.
NO_APP = ("celery", "redisbeater")


def command_line(begin: Sequence[str], command: str, *names: str, **options: str) -> str:
    """Return the line for a shell that runs a command; options that are empty are left out.

    ``begin`` is what stands before the command, such as ``["celery", "-A", "proj", "redisbeater"]``.
    """
    given = [part for name, value in options.items() if value for part in (f"--{name}", value)]
    dashes = ["--"] if any(name.startswith("-") for name in names) else []
    return shlex.join([*begin, command, *given, *dashes, *names])
