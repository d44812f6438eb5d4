"""The errors that redisbeater raises, as one tree.

.. code-block:: text

    RedisBeaterError
    ├── ImproperlyConfigured   (also celery's)       a setting is wrong
    ├── InvalidEntry           (also ValueError)     an entry cannot be stored or read
    │   └── WrongType          (also TypeError)          a value has a wrong type
    │       └── UnknownField                                 there is no such field
    ├── EntryNotFound          (also KeyError)       no entry of that name
    ├── EntryExists            (also ValueError)     an entry of that name exists
    ├── RunNotFound            (also KeyError)       no run of that id is kept, or several may be meant
    ├── IncidentNotFound       (also KeyError)       no incident of that id is kept
    ├── DelayNotFound          (also KeyError)       no delay of that id waits
    ├── EditConflict                                 other writers kept changing the entry
    ├── SendFailed                                   the broker did not take a run that a program triggered
    ├── RunActive                                    a run is active, or is being sent
    ├── LockNotOwnedError                            another beat took the lock
    ├── MayNotLead                                   beat must stand by; it catches that itself
    │   └── FormatTooNew                                 a newer beat wrote the data
    ├── CalendarsChanged                             a calendar has changed; beat catches it itself
    ├── ZoneChanging                                 fire times are planned again; beat catches it itself
    ├── SchedulePaused                               no entry may run now; beat catches it itself
    └── StoreError                                   Redis answered with an error
        └── StoreUnavailable   (also ConnectionError)    Redis cannot be reached
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from traceback import walk_tb
from types import ModuleType

from celery import exceptions as celery_exceptions

from redisbeater.display import MOST_CHARACTERS, quoted, shown, text_of

__all__ = (
    "CalendarsChanged",
    "DelayNotFound",
    "EditConflict",
    "EntryExists",
    "EntryNotFound",
    "FormatTooNew",
    "ImproperlyConfigured",
    "IncidentNotFound",
    "InvalidEntry",
    "LockNotOwnedError",
    "MayNotLead",
    "RedisBeaterError",
    "RunActive",
    "RunNotFound",
    "SchedulePaused",
    "SendFailed",
    "StoreError",
    "StoreUnavailable",
    "UnknownField",
    "WrongType",
    "ZoneChanging",
    "causes",
)


#: A field may be named by a key that another program wrote; the rest of a message is for the problem.
MOST_PATH_CHARACTERS = 150


class RedisBeaterError(Exception):
    """The root of all errors that redisbeater raises."""


class ImproperlyConfigured(RedisBeaterError, celery_exceptions.ImproperlyConfigured):
    """A setting has a value that cannot be used."""


class InvalidEntry(RedisBeaterError, ValueError):
    """An entry cannot be stored or read; the message starts with the field, ``$.schedule.minute: ...``.

    The message has at most 500 characters, and escapes for those that cannot be printed: it may quote stored data.
    """

    #: The errors of other fields that were found with it.
    others: tuple[InvalidEntry, ...] = ()

    def __init__(self, path: str, problem: str) -> None:
        self.path = shown(path, MOST_PATH_CHARACTERS)
        self.problem = shown(problem, MOST_CHARACTERS - len(self.path) - len(": "))
        super().__init__(f"{self.path}: {self.problem}")

    def __reduce__(self) -> tuple[type, tuple[str, str]]:
        return type(self), (self.path, self.problem)

    @classmethod
    def of(cls, error: Exception, path: str) -> InvalidEntry:
        """Return an error of other code as one of ours that is still of its class; ``path`` if it names no field."""
        if isinstance(error, InvalidEntry):
            return error
        field, _, problem = str(error).partition(": ")
        kind = WrongType if isinstance(error, TypeError) else InvalidEntry
        return kind(field, problem) if problem and " " not in field.replace(", ", "") else kind(path, str(error))


class WrongType(InvalidEntry, TypeError):
    """A value has a type that its field cannot have."""


class UnknownField(WrongType):
    """A program passed a field that no entry has."""


class Collected(list[InvalidEntry]):
    """Errors of several fields: a ``with`` block adds the one that ends it, so that the next field is read as well.

    The first error of a field counts.
    """

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> bool:
        if not isinstance(error, InvalidEntry):
            return False
        for each in (error, *error.others):
            if each.path not in [known.path for known in self]:
                self.append(each)
        return True

    def raise_first(self) -> None:
        """Raise the first error, which has the others, if there is one."""
        if self:
            self[0].others = tuple(self[1:])
            raise self[0]


class EntryNotFound(RedisBeaterError, KeyError):
    """There is no entry of that name in the schedule, or none among those that were deleted."""

    def __str__(self) -> str:  # KeyError would show the repr
        if len(self.args) > 1:
            return str(self.args[1])
        return f"no entry named {quoted(self.args[0])} in the schedule"


class EntryExists(RedisBeaterError, ValueError):
    """An entry of that name exists already, and the call may only create one; nothing was written."""

    def __init__(self, name: str, advice: str = "update() changes it, upsert() creates or changes it") -> None:
        super().__init__(name, advice)

    def __str__(self) -> str:
        return f"an entry named {quoted(self.args[0])} exists in the schedule; {self.args[1]}"


class EditConflict(RedisBeaterError):
    """Others changed the entry: during each attempt to change it, or since the version that was read.

    Nothing was written. ``expected`` and ``found`` are the versions where one was asked for.
    """

    def __init__(self, problem: str, *, expected: str = "", found: str = "") -> None:
        self.expected, self.found = expected, found
        super().__init__(problem)


class RunActive(RedisBeaterError):
    """A run is active, or is being sent, and the call is for when none is; nothing was done.

    ``runs`` are the ids of the runs in the way, as far as they are known.
    """

    def __init__(self, problem: str, *, runs: tuple[str, ...] = ()) -> None:
        self.runs = runs
        super().__init__(problem)


class RunNotFound(RedisBeaterError, KeyError):
    """No run of that id is kept, or several may be meant; nothing was done.

    ``runs`` are the ids of those that begin so, as far as they are known.
    """

    def __init__(self, run_id: str, problem: str = "", *, runs: tuple[str, ...] = ()) -> None:
        self.problem, self.runs = problem or f"no run {quoted(run_id)} is kept", runs
        super().__init__(run_id)

    def __str__(self) -> str:  # KeyError would show the repr
        return self.problem


class IncidentNotFound(RedisBeaterError, KeyError):
    """No incident of that id is kept."""

    def __str__(self) -> str:  # KeyError would show the repr
        return f"no incident {quoted(self.args[0])} is kept; celery -A proj redisbeater incidents lists them"


class DelayNotFound(RedisBeaterError, KeyError):
    """No delay of that id waits: it was sent, or cancelled, or is held by a worker or the broker."""

    def __str__(self) -> str:  # KeyError would show the repr
        return f"no delay {quoted(self.args[0])} waits in the schedule; it was sent or cancelled, or never kept"


class SendFailed(RedisBeaterError):
    """The broker could not be reached, or refused a run that a program triggered; it may have got it all the same."""


class LockNotOwnedError(RedisBeaterError):
    """Another beat holds the lock, so this one must stop dispatching."""


class MayNotLead(RedisBeaterError):
    """This beat must not lead: ``redisbeater_one_commit`` is True, and the broker is another server, or away."""


class FormatTooNew(MayNotLead):
    """The data in Redis was written by a newer beat: this one must not lead."""


class ZoneChanging(RedisBeaterError):
    """The zone of the schedule has changed, and fire times are still those of the zone before: none may run."""


class CalendarsChanged(RedisBeaterError):
    """A calendar has changed, and this beat still plans by what it was before: it may claim no entry."""


class SchedulePaused(RedisBeaterError):
    """The schedule is paused: no entry may be claimed.

    Attributes:
        seconds_left: until the pause ends by itself; None: it is open.
        passed: when a beat claimed before, and when this one did, aware UTC; None: it is not known.
    """

    def __init__(self, seconds_left: float | None, passed: tuple[datetime, datetime] | None = None) -> None:
        super().__init__("the schedule is paused")
        self.seconds_left, self.passed = seconds_left, passed


class StoreError(RedisBeaterError):
    """Redis answered with an error."""


class StoreUnavailable(StoreError, ConnectionError):
    """Redis cannot be reached, or did not answer in time; the call may have been executed."""


def causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error, then the one that it was raised from, or while it was handled, and so on."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


def passed_through(error: BaseException, module: ModuleType) -> bool:
    """Tell whether an error came through code of a module, by its traceback."""
    frames = (frame for frame, _ in walk_tb(error.__traceback__))
    return any(frame.f_code.co_filename == module.__file__ for frame in frames)


def reason_of(error: BaseException) -> str:
    """Return the text of an error, with that of the one behind it where it says something else.

    Of a broken connection to a Redis broker, kombu's error says only that a batch failed.
    """
    text, last = text_of(error), error
    for cause in causes(error):
        if cause is not error and last.__cause__ is not cause:
            break  # raised while another was handled, which need not be the reason
        if text_of(cause) not in text:
            return f"{text}: {text_of(cause)}"
        last = cause
    return text
