"""The policies of an entry and of beat: one enum for each, with a sentence for each member."""

from __future__ import annotations

import re
from enum import Enum
from typing import Literal

#: What the name of those who are told of incidents can be, and the one by which an entry says that nobody is.
RECEIVER_NAME, NOBODY = re.compile(r"[A-Za-z0-9_-]{1,60}"), "none"

#: The values of the enums below, for type checkers.
CoalesceWord = Literal["latest", "earliest", "all"]
OnFinishWord = Literal["keep", "disable", "delete"]
OverlapWord = Literal["allow", "skip", "buffer_one", "cancel_other"]
AnchorWord = Literal["fire_time", "execution"]
RollWord = Literal["next", "previous", "modified"]


class TextEnum(str, Enum):
    """An enum whose members are texts, and are shown as such; Python has one from 3.11 on, ``StrEnum``.

    Attributes:
        sentence: what a member means, for people who choose one; empty where nobody does.
    """

    _value_: str
    sentence: str

    def __new__(cls, value: str, sentence: str = "") -> TextEnum:
        member = str.__new__(cls, value)
        member._value_, member.sentence = value, sentence
        return member

    def __str__(self) -> str:
        return self.value


class Coalesce(TextEnum):
    """Which of several missed fire times run; the others are counted as skipped."""

    LATEST = "latest", "Only the newest fire time runs. The older ones are skipped."
    EARLIEST = "earliest", "Only the oldest fire time runs. The newer ones are skipped."
    ALL = "all", "Each one runs, oldest first. Of more than 100, the newest 100 run."


class OnFinish(TextEnum):
    """What happens to an entry that has no fire time left."""

    KEEP = "keep", "It is kept as finished, and resumes when an edit gives it another fire time."
    DISABLE = "disable", "It is kept, disabled."
    DELETE = "delete", "It is deleted."


class Overlap(TextEnum):
    """What happens to a fire time while a run of the entry is active: sent, and not ended yet."""

    ALLOW = "allow", "The run begins beside the active one."
    SKIP = "skip", "The fire time is skipped."
    BUFFER_ONE = "buffer_one", "The run waits until the active one has ended. Further fire times are skipped."
    CANCEL_OTHER = "cancel_other", "The active run is asked to stop. Only the newest run waits for its end."


class Anchor(TextEnum):
    """What an interval counts from."""

    FIRE_TIME = "fire_time", "From one fire time to the next, however long a run takes."
    EXECUTION = "execution", "From the end of a run. None begins while another is active."


class Roll(TextEnum):
    """What becomes of the fire times of a day that does not count in the calendars of an entry."""

    NEXT = "next", "The run moves to the next day that counts."
    PREVIOUS = "previous", "The run moves to the day before that counts."
    MODIFIED = "modified", "The run moves to the next day that counts; if that is in another month, to the one before."


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
RollLike = RollWord | Roll
