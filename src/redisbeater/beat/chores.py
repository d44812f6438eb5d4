"""The chores of a pass: what beat does for the schedule after its claims, each for a moment."""

from __future__ import annotations

from typing import Protocol

from redisbeater.exceptions import ImproperlyConfigured, LockNotOwnedError, MayNotLead, StoreUnavailable

#: What ends a pass at once: without Redis, or without the lead, no chore can be done.
ENDS_A_PASS = (StoreUnavailable, LockNotOwnedError, MayNotLead, ImproperlyConfigured)


class Chore(Protocol):
    """A part of beat that has its turn in each pass. It decides by itself whether it is time, and takes a moment."""

    @property
    def is_behind(self) -> bool:
        """Whether it has more to do now: beat does not wait then."""

    def step(self) -> None:
        """Do a part of it, if it is time."""


class Chores:
    """The chores in the order of their turns. One that fails does not keep the others from theirs."""

    def __init__(self, *chores: Chore) -> None:
        self._chores = chores

    @property
    def is_behind(self) -> bool:
        """Whether one of them has more to do now."""
        return any(chore.is_behind for chore in self._chores)

    def step(self) -> None:
        """Give each its turn. The first error is raised behind the last turn.

        Raises:
            StoreUnavailable, LockNotOwnedError, MayNotLead, ImproperlyConfigured: at once.
        """
        first: Exception | None = None
        for chore in self._chores:
            try:
                chore.step()
            except ENDS_A_PASS:
                raise
            except Exception as exc:  # whatever it is, tick() tells a refusal of Redis from a bug
                first = first or exc
        if first is not None:
            raise first
