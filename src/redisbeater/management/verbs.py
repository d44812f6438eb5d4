"""``VERBS``: what people do to entries and runs by name, each described once.

Commands, routes, buttons, questions and undo are made of this table. A verb that does more than its method says has a
function of its own by its name: in the command line one that is a command already, in the page one in ``OWN``.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from typing import Any, Literal, Protocol

from redisbeater.display import quoted
from redisbeater.exceptions import InvalidEntry
from redisbeater.management.bulk import Outcome
from redisbeater.management.runs.room import Runs
from redisbeater.management.schedule_store import ScheduleStore
from redisbeater.model.fields import Duration, FieldKind, Number, Time
from redisbeater.times import read_duration, read_time


class Change(Protocol):
    """A method of ``ScheduleStore`` that changes one entry by its name, or one of ``Runs`` for a run by its id.

    It takes the arguments of its verb as well.
    """

    __name__: str

    def __call__(self, store: Any, name: str, /, *, note: str = "", by: str = "") -> Any:
        """Return the entry, the id of a run that was sent, or what became of a run."""


class ChangeOfMany(Protocol):
    """A method of the store that changes many entries at once."""

    __name__: str

    def __call__(self, store: ScheduleStore, names: Iterable[str], /, *, note: str = "", by: str = "") -> list[Outcome]:
        """Return the outcome of each."""


@dataclass(frozen=True)
class Argument:
    """What a verb of entries takes besides their names: an option of its command, and a field of its forms.

    Attributes:
        name: what its method, its option and the forms call it.
        kind: what it may be: a text, a number, a duration, a time, or one of some words.
        label: what stands before its field.
        sentence: what it means, with an example: the help of its option.
        example: what may be written, shown in a field that is empty.
        empty: what it is like without it; empty: nothing is to be said of that.
    """

    name: str
    kind: FieldKind
    label: str
    sentence: str
    example: str = ""
    empty: str = ""

    @property
    def placeholder(self) -> str:
        """What a field shows that is empty."""
        return "; ".join(filter(None, (self.example, self.empty and f"empty: {self.empty}")))

    @property
    def choices(self) -> Sequence[str]:
        """The words of which it is one, or none if it may be any."""
        return [str(choice) for choice in getattr(self.kind, "choices", ())]

    @property
    def is_local(self) -> bool:
        """Whether it means something else in another zone."""
        return isinstance(self.kind, Time)

    def read(self, text: str, now: datetime, zone: tzinfo) -> Any:
        """Return the value of a text; local times are those of a zone.

        Raises:
            InvalidEntry: it has none.
        """
        path, read = f"$.{self.name}", _READERS.get(type(self.kind), _as_it_is)
        try:
            value = read(text, now, zone)
        except ValueError as exc:
            raise InvalidEntry(path, str(exc)) from exc
        return self.kind.check(value, path)


def _as_it_is(text: str, _now: datetime, _zone: tzinfo) -> str:
    return text


def _whole(text: str, _now: datetime, _zone: tzinfo) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"expected a whole number, got {quoted(text)}") from None


#: What reads the texts of the kinds of arguments; those of others are as they are.
_READERS: Mapping[type[FieldKind], Callable[[str, datetime, tzinfo], Any]] = {
    Time: lambda text, now, zone: read_time(text, now=now, zone=zone),
    Duration: lambda text, _now, _zone: read_duration(text),
    Number: _whole,
}


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
        takes: what it takes besides names.
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
    takes: Sequence[Argument] = ()
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

    def given(self, texts: Mapping[str, str]) -> dict[str, str]:
        """Return the texts of its arguments among those of a form, as far as they are not empty."""
        found = {each.name: texts.get(each.name, "").strip() for each in self.takes}
        return {name: text for name, text in found.items() if text}

    def read(self, given: Mapping[str, str], now: datetime, zone: tzinfo) -> dict[str, Any]:
        """Return the values of arguments that are given as texts.

        Raises:
            InvalidEntry: one has none.
        """
        return {each.name: each.read(given[each.name], now, zone) for each in self.takes if each.name in given}

    def is_local(self, given: Mapping[str, str]) -> bool:
        """Return whether arguments that are given mean something else in each zone."""
        return any(each.is_local and each.name in given for each in self.takes)


_store = ScheduleStore

VERBS: Mapping[str, Verb] = {
    verb.name: verb
    for verb in (
        Verb("trigger", "Run now", "started", "operate", _store.trigger, when="readable", most_unasked=1,
             is_frequent=True, question="Start a run of",
             warning="Each gets one run now. Its next fire time stays as it is."),
        Verb("disable", "Disable", "disabled", "operate", _store.disable, _store.disable_many, when="enabled",
             undo="enable", is_frequent=True,
             takes=[Argument("until", Time(), "Until", "Until this time, such as 2h or 'mon 09:00'.",
                             example="2h, tomorrow 09:00", empty="until enabled")]),
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


def command_line(begin: Sequence[str], command: str, *names: str, **options: str | bool) -> str:
    """Return the line for a shell that runs a command; empty options are left out, True is one without a value.

    ``begin`` is what stands before the command, such as ``["celery", "-A", "proj", "redisbeater"]``.
    """
    given = [
        part
        for name, value in options.items()
        if value
        for part in (f"--{name.replace('_', '-')}", *([] if value is True else [str(value)]))
    ]
    dashes = ["--"] if any(name.startswith("-") for name in names) else []
    return shlex.join([*begin, command, *given, *dashes, *names])
