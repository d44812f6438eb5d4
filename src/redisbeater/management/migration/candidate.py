"""``Candidate``: one entry of another scheduler, as it would be imported."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from redisbeater.exceptions import StoreError
from redisbeater.model.definition import Definition
from redisbeater.model.meta import NEW, Meta

__all__ = ("Candidate", "OldEngine", "Source", "SourceError")

#: Yields the fire times after an instant, as the other scheduler itself finds them; the zone is that of the app.
OldEngine = Callable[[datetime], Iterator[datetime]]


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """An entry of another scheduler.

    Attributes:
        name: its name there, and here.
        definition: what would be stored; None where that cannot be.
        meta: its last run and its run count.
        engine: runs its schedule as the other scheduler does; None where that cannot be done.
        engine_key: all that the engine goes by; where it is the same, so are its fire times. Empty: that is not known.
        refused: why it cannot be imported; the field first.
        left_out: why it need not be imported.
    """

    name: str
    definition: Definition | None = None
    meta: Meta = NEW
    engine: OldEngine | None = field(default=None, compare=False, repr=False)
    engine_key: str = ""
    refused: str = ""
    left_out: str = ""


class SourceError(StoreError):
    """The schedule to import cannot be read or written; the message says where it is looked for."""


class Source(Protocol):
    """A schedule that entries are imported from."""

    @property
    def name(self) -> str:
        """The word of the command line for it."""

    @property
    def place(self) -> Sequence[str]:
        """The options of the command line that say where it is, as they were given."""

    def read(self) -> Iterable[Candidate]:
        """Yield its entries, in the order of their names.

        Raises:
            ImproperlyConfigured: a package or a setting is missing; the message says which.
            StoreError: its storage failed.
        """

    def check_switching(self) -> None:
        """Refuse to enable and disable entries there, if that cannot be done.

        Raises:
            ImproperlyConfigured: with the reason.
        """

    def switch(self, names: Sequence[str], *, enabled: bool) -> list[str]:
        """Enable or disable entries there; return the names of those that were not so before.

        Raises:
            StoreError: its storage failed.
        """
