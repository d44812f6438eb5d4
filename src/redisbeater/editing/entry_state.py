"""The policies of an entry as attributes, and its state as of the last read or save."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any

from redisbeater.exceptions import RedisBeaterError
from redisbeater.model.definition import Definition
from redisbeater.model.failing import Failing
from redisbeater.model.policies import AnchorLike, CoalesceLike, Inherit, OnFinishLike, OverlapLike
from redisbeater.model.skip import Skipped
from redisbeater.times import to_unix

__all__ = ("EntryPolicies", "EntryState")

#: What an entry has besides its definition.
_NOT_DEFINED = ("app", "last_run_at", "total_run_count")


class EntryPolicies:
    """The policies of an entry, as they were passed to it or as they are stored."""

    start_at: datetime | None
    end_at: datetime | None
    max_runs: int | None
    on_finish: OnFinishLike
    misfire_grace_time: float | timedelta | Inherit | None
    coalesce: CoalesceLike
    jitter: float | timedelta | Inherit
    description: str
    labels: dict[str, str]
    disabled_until: datetime | None
    skip: Sequence[datetime | str]
    overlap: OverlapLike
    requeue_lost: int | Inherit
    anchor: AnchorLike
    deadline: float | timedelta | None
    once: bool
    disable_after_failures: int | None


class EntryState:
    """The state of an entry as of the last read or save; before that, nothing is known."""

    _due_at: datetime | None = None
    _skipped: Mapping[str, Skipped] = MappingProxyType({})
    _state = ""
    _failing: Failing | None = None
    _late = timedelta(0)
    _version = ""

    def definition(self) -> Definition:
        """Check the fields, and return them as they are stored."""
        raise NotImplementedError

    def __eq__(self, other: object) -> bool:
        """Tell whether both have the same definition, name included; app, runs and state make no difference."""
        return self._compared() == other._compared() if isinstance(other, EntryState) else NotImplemented

    __hash__ = None  # type: ignore[assignment]  # it can be changed

    def __repr__(self) -> str:
        try:
            return f"{super().__repr__()}>"  # Celery's, which does not end
        except (AttributeError, TypeError):  # fields that cannot be stored
            return f"<{type(self).__name__}: {vars(self).get('name')!r}, whose fields cannot be shown>"

    def _compared(self) -> Any:
        try:
            return self.definition()
        except RedisBeaterError:  # what cannot be stored is compared as it was passed
            return {name: value for name, value in vars(self).items() if name[0] != "_" and name not in _NOT_DEFINED}

    @property
    def due_at(self) -> datetime | None:
        """When it is next due, aware UTC, as of the last read or save: the next fire time plus its jitter.

        None: unsaved, disabled or finished.
        """
        return self._due_at

    @property
    def score(self) -> float | None:
        """:attr:`due_at` in UNIX seconds, or None."""
        return None if self._due_at is None else float(to_unix(self._due_at))

    @property
    def skipped(self) -> Mapping[str, Skipped]:
        """The fire times that were not run, as of the last read or save: reason -> their count, and the newest of them.

        Reasons are ``missed``, ``coalesced``, ``left_out``, ``max_runs``, ``out_of_bounds``,
        ``disabled_until``, ``skip`` and ``overlap``.
        """
        return self._skipped

    @property
    def state(self) -> str:
        """``enabled``, ``disabled``, ``finished``, or ``failing``: its run cannot be sent, and beat tries again.

        As of the last read or save; empty before. An entry that cannot be read at all, a broken one, has no object.
        """
        return self._state

    @property
    def failing(self) -> Failing | None:
        """What is known of its run that cannot be sent, as of the last read or save; None: nothing failed.

        It has ``error``, ``tries``, ``since``, the ``fire_time`` that is owed, and ``retry_at``.
        """
        return self._failing

    @property
    def last_error(self) -> str:
        """Why its run could not be sent, as of the last read or save; empty when the entry is not failing."""
        return self._failing.error if self._failing else ""

    @property
    def version(self) -> str:
        """The version of the entry as of the last read or save, 8 hex digits; a run does not change it.

        Pass it as ``if_version`` to :meth:`redisbeater.ScheduleStore.update`.
        """
        return self._version

    @property
    def late(self) -> timedelta:
        """How long it had been due at the last read or save; zero when it was not late."""
        return self._late
