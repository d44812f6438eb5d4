"""Which of several fire times that passed while nothing could be sent are run."""

from enum import Enum

__all__ = ("Coalesce",)


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
