"""The policies of an entry and of beat: one enum for each, with a sentence for each member."""

from enum import Enum

__all__ = ("INHERIT", "Coalesce", "EvictionCheck", "Inherit", "OnFinish")


class Coalesce(str, Enum):
    """What becomes of fire times that have passed together; those that are not run are counted as skipped."""

    #: One run, for the newest.
    LATEST = "latest"
    #: One run, for the oldest.
    EARLIEST = "earliest"
    #: A run for each, oldest first; of more than 100 the newest 100.
    ALL = "all"

    def __str__(self) -> str:
        return self.value


class OnFinish(str, Enum):
    """What becomes of an entry that has no fire time left."""

    #: It stays, finished; an edit that gives it more to do revives it.
    KEEP = "keep"
    #: It stays, disabled.
    DISABLE = "disable"
    #: It is deleted.
    DELETE = "delete"

    def __str__(self) -> str:
        return self.value


class EvictionCheck(str, Enum):
    """What is done about a server that may evict the schedule."""

    IGNORE = "ignore"
    WARN = "warn"
    ERROR = "error"
    RAISE = "raise"

    def __str__(self) -> str:
        return self.value


class Inherit(Enum):
    """The value of a field that an entry leaves to the settings of the app, as they are at each run."""

    INHERIT = "inherit"

    def __repr__(self) -> str:
        return self.name


INHERIT = Inherit.INHERIT
