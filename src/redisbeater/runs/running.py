"""A run in a worker: what its message says, and how it goes."""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from redisbeater.clock import host_seconds
from redisbeater.entry_name import is_name
from redisbeater.log_lines import get_logger
from redisbeater.model.run import ATTEMPT_HEADER, COALESCED_HEADER, PREVIOUS_HEADER
from redisbeater.store import Execution, Renewal
from redisbeater.times import from_iso

logger = get_logger(__name__)


#: The header of a message that a run itself published, for another try or as a replacement: how often it has done so.
STEP = "redisbeater_step"

#: The headers of a run that all its messages carry.
NAME, FIRE_TIME = "periodic_task_name", "scheduled_for"


def is_tracked(request: Any) -> bool:
    """Return whether the request of a task, a ``celery.app.task.Context``, is that of a run that beat tracks."""
    headers = request.headers
    return isinstance(headers, dict) and ATTEMPT_HEADER in headers and not request.is_eager and _is_storable(request.id)


def is_tracked_request(request: Any) -> bool:
    """Tell whether a ``celery.worker.request.Request``, as a worker's main process has it, is tracked."""
    headers = request.request_dict
    own = headers.get("headers")
    is_marked = ATTEMPT_HEADER in headers or (isinstance(own, dict) and ATTEMPT_HEADER in own)
    return is_marked and _is_storable(request.id)


def add_headers(request: Any, headers: dict[str, Any], *, is_next: bool) -> None:
    """Add the headers of a run to those of another message of it.

    Arguments:
        request: the request of the execution that publishes the message.
        headers: the headers of the message.
        is_next: whether the message is for the next execution; else it is only a copy, which is delivered again later.
    """
    for name in (ATTEMPT_HEADER, STEP, NAME, FIRE_TIME, PREVIOUS_HEADER, COALESCED_HEADER):
        if name in request.headers:
            headers.setdefault(name, request.headers[name])
    if is_next:
        headers[STEP] = _number(request.headers.get(STEP), 0) + 1


def odd_headers(request: Any) -> list[str]:
    """Return the names of headers of a tracked run in which another program has written what beat does not."""
    headers = request.headers
    read = {
        ATTEMPT_HEADER: _number(headers[ATTEMPT_HEADER], 0) > 0,
        STEP: STEP not in headers or _number(headers[STEP], -1) >= 0,
        NAME: bool(_name(headers)),
        FIRE_TIME: from_iso(headers.get(FIRE_TIME)) is not None,
    }
    return [name for name, is_known in read.items() if not is_known]


def execution_of(task: Any, request: Any, holder: str = "", *, is_exclusive: bool = False) -> Execution:
    """Return an execution of a tracked run, as it is reported.

    Arguments:
        task: the task.
        request: its ``celery.app.task.Context``.
        holder: the token of the execution; the prefix of one where only the process is known; empty: none has begun.
        is_exclusive: the task refuses to run beside another execution.
    """
    headers = request.headers
    return Execution(
        run_id=request.id,
        name=_name(headers),
        task=task.name,
        attempt=_number(headers[ATTEMPT_HEADER], 1),
        step=_number(headers.get(STEP), 0),
        holder=holder,
        fire_time=from_iso(headers.get(FIRE_TIME)),
        worker=str(request.hostname or ""),
        pid=os.getpid(),
        acks_late=bool(task.acks_late),
        is_redelivered=bool((request.delivery_info or {}).get("redelivered")),
        is_exclusive=is_exclusive,
    )


def _number(value: Any, least: int) -> int:
    """Return the number in a header; the least one for what another program wrote there."""
    with suppress(TypeError, ValueError, OverflowError):
        return max(int(value), least)
    return least


def _name(headers: Mapping[str, Any]) -> str:
    """Return the name of the entry in the headers; empty where another program wrote what can be none."""
    name: Any = headers.get(NAME)
    return str(name) if _is_storable(name) and is_name(name) else ""


def _is_storable(text: Any) -> bool:
    """Tell whether Redis can store something as a text; names and ids whose bytes are no UTF-8 come back from it."""
    try:
        return isinstance(text, str) and bool(text.encode("utf-8", "surrogateescape"))
    except UnicodeEncodeError:
        return False


#: How many times a lease is renewed within its length.
RENEWALS = 4

#: How many leases are renewed at once, in a few scripts: the reports of tasks wait for them.
RENEWAL_PAGE = 1_000


@dataclass(eq=False, kw_only=True)
class Running:
    """An execution of a run, from its start to its end.

    Attributes:
        execution: as it is reported.
        lease: seconds of a lease.
        answer: what Redis answered to its start, as ``RunStore.start()`` returns it; empty: nothing yet.
        rest: seconds that another execution's lease had left then.
        is_to_stop: somebody asked to stop it.
        is_published_again: its task has sent a message with the id of the run, for the next execution.
        is_released: it has given up its lease because of that message.
    """

    execution: Execution
    lease: float
    answer: str = ""
    rest: float = 0.0
    is_to_stop: bool = False
    is_published_again: bool = False
    is_released: bool = False
    began: float = field(default_factory=lambda: time.monotonic())
    #: When its lease ends and when it was renewed last, by the clock of this host, which runs on while the process is
    #: stopped and while the host is suspended.
    lease_end: float = field(init=False)
    renewed: float = field(init=False)

    def __post_init__(self) -> None:
        """Begin the first lease: that of an execution whose start cannot be written is over after as long."""
        self._renewed(host_seconds())

    @property
    def holds(self) -> bool:
        """Whether it has the lease of its run, or may have it."""
        return self.answer in ("", "STARTED", "STOP") and not self.is_released

    @property
    def is_cut_off(self) -> bool:
        """Whether its lease is over: it could not be renewed, or another execution has it."""
        return self.holds and host_seconds() >= self.lease_end

    @property
    def renew_at(self) -> float:
        """When its lease is to be renewed, by the clock of this host."""
        return self.renewed + self.lease / RENEWALS

    def started(self, answer: str, rest: float, asked_at: float) -> None:
        """Take over what Redis answered to its start, which was asked at a time of this host's clock."""
        self.answer, self.rest = answer, rest
        self.is_to_stop |= answer == "STOP"
        if self.holds:
            self._renewed(asked_at)
        else:
            self.lease_end = math.inf

    def renewed_by(self, renewal: Renewal, asked_at: float) -> None:
        """Record what Redis answered to the renewal of its lease."""
        if self.execution.run_id in renewal.not_ours:
            self.taken_over()
        else:
            self.is_to_stop |= self.execution.run_id in renewal.to_stop
            self._renewed(asked_at)

    def taken_over(self) -> None:
        """Record that another execution has taken the run over: the lease of this one is over."""
        logger.warning(
            "run %s of %r was taken over by another execution, or deleted; the task here is asked to stop",
            self.execution.run_id,
            self.execution.name,
        )
        self.lease_end, self.renewed = 0.0, math.inf

    def _renewed(self, asked_at: float) -> None:
        # From before the request: the lease in Redis ends later, never sooner.
        self.renewed = asked_at
        self.lease_end = asked_at + self.lease


class RunningTable:
    """The executions of one process, by the identity of their requests: one run may be executed twice at once."""

    def __init__(self) -> None:
        self._running: dict[int, Running] = {}
        #: When the next lease is to be renewed; earlier if that was the lease of an execution that has ended.
        self._renew_at = math.inf
        self._lock = threading.Lock()

    def add(self, request: object, running: Running) -> None:
        """Add an execution; its request lives until it has ended."""
        with self._lock:
            self._running[id(request)] = running
            self._renew_at = min(self._renew_at, running.renew_at)

    def of(self, request: object) -> Running | None:
        """Return the execution of a request."""
        return self._running.get(id(request))

    def remove(self, request: object) -> Running | None:
        """Remove and return the execution of a request that has ended."""
        return self._running.pop(id(request), None)

    def holding(self) -> list[Running]:
        """Return the executions that have a lease."""
        return [running for running in list(self._running.values()) if running.holds]

    def others(self, running: Running) -> list[Running]:
        """Return other executions of the same run that have its lease, as far as this process knows."""
        run_id = running.execution.run_id
        return [each for each in self.holding() if each is not running and each.execution.run_id == run_id]

    def renew_at(self) -> float:
        """Return when to look for leases to renew, by the clock of this host, or infinity if there are none."""
        return self._renew_at

    def to_renew(self) -> list[Running]:
        """Return the executions to renew in one call: those that are due and, with them, those that soon will be."""
        with self._lock:
            holding = self.holding()
            self._renew_at = min((running.renew_at for running in holding), default=math.inf)
        now = host_seconds()
        if self._renew_at > now:
            return []
        return [each for each in holding if each.renew_at <= now + each.lease / RENEWALS / 2][:RENEWAL_PAGE]

    def first_cut_off(self) -> float:
        """Return when the first lease ends, by the clock of this host, or infinity if nothing is executed."""
        return min((running.lease_end for running in self.holding()), default=math.inf)
