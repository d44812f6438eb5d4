"""What beat does about a server that may evict the schedule."""

from enum import Enum

__all__ = ("EvictionCheck",)


class EvictionCheck(str, Enum):
    """What is done about a server that may evict the schedule."""

    IGNORE = "ignore"
    WARN = "warn"
    ERROR = "error"
    RAISE = "raise"

    def __str__(self) -> str:
        return self.value
