"""The policies of an entry and of beat: one enum for each, with a sentence for each member."""

from __future__ import annotations

from enum import Enum
from typing import Literal

__all__ = (
    "INHERIT",
    "Anchor",
    "AnchorLike",
    "AnchorWord",
    "Coalesce",
    "CoalesceLike",
    "CoalesceWord",
    "EvictionCheck",
    "Inherit",
    "OnFinish",
    "OnFinishLike",
    "OnFinishWord",
    "Overlap",
    "OverlapLike",
    "OverlapWord",
    "TextEnum",
)

#: The values of the enums below, for type checkers.
CoalesceWord = Literal["latest", "earliest", "all"]
OnFinishWord = Literal["keep", "disable", "delete"]
OverlapWord = Literal["allow", "skip", "buffer_one", "cancel_other"]
AnchorWord = Literal["fire_time", "execution"]


class TextEnum(str, Enum):
    """An enum whose members are texts, and are shown as such; Python has one from 3.11 on, ``StrEnum``."""

    def __str__(self) -> str:
        return self.value


class Coalesce(TextEnum):
    """Which of several missed fire times run; the others are counted as skipped."""

    #: Only the newest runs.
    LATEST = "latest"
    #: Only the oldest runs.
    EARLIEST = "earliest"
    #: Each one runs, oldest first; of more than 100, the newest 100 run.
    ALL = "all"


class OnFinish(TextEnum):
    """What happens to an entry that has no fire time left."""

    #: It stays, marked as finished; it resumes when an edit gives it another fire time.
    KEEP = "keep"
    #: It stays, disabled.
    DISABLE = "disable"
    #: It is deleted.
    DELETE = "delete"


class Overlap(TextEnum):
    """What happens to a fire time while a run of the entry is active: sent, and not ended yet."""

    #: It runs beside the other.
    ALLOW = "allow"
    #: It is skipped.
    SKIP = "skip"
    #: It is buffered until the other has ended; while one is buffered, later ones are skipped.
    BUFFER_ONE = "buffer_one"
    #: The other is asked to stop, and it is buffered until then; a later one takes its place.
    CANCEL_OTHER = "cancel_other"


class Anchor(TextEnum):
    """What an interval counts from."""

    #: From one fire time to the next.
    FIRE_TIME = "fire_time"
    #: From the end of a run; none begins while another is active.
    EXECUTION = "execution"


class EvictionCheck(TextEnum):
    """What beat does when the Redis server may evict the schedule."""

    #: Nothing; the server is not asked.
    IGNORE = "ignore"
    #: Log a warning.
    WARN = "warn"
    #: Log an error.
    ERROR = "error"
    #: Refuse to start.
    RAISE = "raise"


class Inherit(Enum):
    """The value of a field for which the settings of the app count, as they are at each run."""

    INHERIT = "inherit"

    def __repr__(self) -> str:
        return self.name


INHERIT = Inherit.INHERIT

#: What an entry takes for each of them: the member, or its value as a text.
CoalesceLike = CoalesceWord | Coalesce | Inherit
OnFinishLike = OnFinishWord | OnFinish
OverlapLike = OverlapWord | Overlap | Inherit
AnchorLike = AnchorWord | Anchor
