"""An execution of a run, as its worker reports it, and what the store answers."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from datetime import datetime

from redisbeater.model.run import process_of, stored_time

__all__ = ("Execution", "Renewal", "holder_prefix", "new_holder")


def new_holder(host: str, pid: int) -> str:
    """Return a token for one execution of a run in one process."""
    return f"{holder_prefix(host, pid)}{secrets.token_hex(4)}"


def holder_prefix(host: str, pid: int) -> str:
    """Return what the tokens of all executions in one process begin with; it fences where the token is not known."""
    return f"{host}:{pid}:"


@dataclass(frozen=True, kw_only=True)
class Execution:
    """One execution of a run, as its worker reports it.

    Attributes:
        run_id: the id of the task.
        name, task: the names of the entry and of the task.
        attempt: what the message's header ``redisbeater_attempt`` has.
        step: how often the run was published by itself before, for another try or as a replacement: the execution that
            published it is over, though its end may be recorded later. A copy that is published because another
            execution holds the lease keeps the step of its message.
        holder: :func:`new_holder`; :func:`holder_prefix` where only the process is known; empty: none has begun.
        fire_time: the fire time, aware UTC, for a run of which nothing is stored.
        worker, pid: the name of the worker and its process.
        acks_late: whether the broker gives the message out again when the worker dies.
        is_redelivered: the broker has given the message out before.
        is_exclusive: the task refuses to run beside another execution (``OnceTask``).
    """

    run_id: str
    name: str
    task: str = ""
    attempt: int = 1
    step: int = 0
    holder: str = ""
    fire_time: datetime | None = None
    worker: str = ""
    pid: int = 0
    acks_late: bool = False
    is_redelivered: bool = False
    is_exclusive: bool = False

    def to_fields(self) -> list[str]:
        """Return names and values that are stored with the run; what the holder says of the worker is left out."""
        stored = {"task": self.task}
        if not self.holder or (self.worker, self.pid) != process_of(self.holder):
            stored.update(worker=self.worker, pid=str(self.pid))
        if self.acks_late:
            stored["acks_late"] = "1"
        return [text for pair in stored.items() for text in pair]

    def to_first_fields(self) -> list[str]:
        """Return names and values for a run of which nothing is stored."""
        times = ["fire_time", stored_time(self.fire_time)] if self.fire_time else []
        return ["name", self.name, *self.to_fields(), *times]


@dataclass(frozen=True, kw_only=True)
class Renewal:
    """What became of leases that were to be renewed, as ids of runs.

    Attributes:
        to_stop: somebody asked to stop them.
        not_ours: others have them.
        absent: no start of them is stored: Redis has lost or refused it, or somebody has deleted the record.
    """

    to_stop: frozenset[str] = frozenset()
    not_ours: frozenset[str] = frozenset()
    absent: frozenset[str] = frozenset()
