"""Signals: what happens to the schedule and to its runs, for receivers in the process where it happens.

They are Celery's signals: ``@run_skipped.connect`` registers a function, which takes keyword arguments. Every
receiver gets ``signal``, ``sender`` and the arguments listed with the signal, and must accept further ones
(``**_``). ``sender`` is the name of the entry, or the key prefix where a signal is about the whole schedule; so
``@run_skipped.connect(sender="nightly report")`` hears of one entry alone. Times are aware datetimes in UTC, durations
are seconds.

What a receiver may rely on, and what it must not do:

- It is called in the process and thread where it happened, after it was recorded in Redis.
- An exception that it raises is logged and changes nothing: the run is sent, the other receivers are called.
- It must not block, because beat and its other receivers wait for it. One that takes longer than 50 ms is named in a
  warning, once. Pass what takes long to a thread, or to a task.
- It is called at least once for what is recorded, and a second time if a step was repeated after a lost reply. A
  process that is killed between the record and the signal calls nothing.
- It sees what its own process does. Beats that share the work have their own receivers, and so has each worker.
- A signal without receivers costs beat one look at an attribute for each batch.

Connect receivers where beat imports them, such as the module of the Celery app.
"""

from __future__ import annotations

import time
from typing import Any

from celery.utils.dispatch import Signal

from redisbeater.code_errors import EndedByCode
from redisbeater.log_lines import get_logger

__all__ = (
    "run_dispatched",
    "run_skipped",
    "run_refused",
    "run_started",
    "run_finished",
    "run_lost",
    "run_requeued",
    "entry_changed",
    "entry_broken",
    "entry_failing",
    "entry_fixed",
    "lead_changed",
    "schedule_paused",
    "schedule_resumed",
    "redis_away",
    "redis_back",
    "broker_away",
    "broker_back",
    "incident_opened",
    "incident_closed",
)


logger = get_logger(__name__)

#: A receiver that takes longer delays the runs that are due noticeably.
SLOW_SECONDS = 0.05


class _Signal(Signal):
    """Celery's signal, which names receivers that fail or block."""

    def __init__(self, name: str, *arguments: str) -> None:
        super().__init__(name=name, providing_args=arguments)
        #: The receivers that were slow, and the errors of receivers whose traceback was logged.
        self._logged: set[tuple[str, str]] = set()

    def send(self, sender: str, **named: Any) -> list[tuple[Any, Any]]:
        """Call all receivers. Return each with its result, or with the exception that it raised; never raise one."""
        if not self.receivers:
            return []
        return [(receiver, self._call(receiver, sender, named)) for receiver in self._live_receivers(sender)]

    send_robust = send

    def _call(self, receiver: Any, sender: str, named: dict[str, Any]) -> Any:
        began_at = time.monotonic()
        try:
            return receiver(signal=self, sender=sender, **named)
        except BaseException as exc:  # the application's receivers
            error = EndedByCode.of(exc)
            self._log_failure(_name_of(receiver), error)
            return error
        finally:
            if (seconds := time.monotonic() - began_at) > SLOW_SECONDS:
                self._warn_of_slow(_name_of(receiver), seconds)

    def _log_failure(self, receiver: str, error: Exception) -> None:
        kind = (receiver, type(error).__qualname__)
        is_known = kind in self._logged
        self._logged.add(kind)
        logger.error(
            "receiver %s of the signal %s failed, and its error is ignored: %s: %s",
            receiver,
            self.name,
            type(error).__name__,
            error,
            exc_info=None if is_known else error,
        )

    def _warn_of_slow(self, receiver: str, seconds: float) -> None:
        if (receiver, "") not in self._logged:
            self._logged.add((receiver, ""))
            logger.warning(
                "receiver %s of the signal %s took %.2f s, and runs waited for it; let a thread do its work",
                receiver,
                self.name,
                seconds,
            )


def _name_of(receiver: Any) -> str:
    """Return where a receiver is defined, ``module.function``; that of its class if it is an object."""
    named = receiver if hasattr(receiver, "__qualname__") else type(receiver)
    return f"{named.__module__}.{named.__qualname__}"


# Of runs, in beat

#: A run was sent to the broker, which accepted it, and was recorded. In beat, after the commit of its batch.
#:
#: ``entry``: the :class:`~redisbeater.RedisScheduleEntry` of this run, with its own arguments, options and headers.
#: ``run_id``: its task id. ``fire_time``: the fire time that it is for. ``kind``: ``"schedule"``, or ``"resend"`` for a
#: run that waited or was lost. ``late``: seconds from when it was due to the commit.
run_dispatched = _Signal("run_dispatched", "entry", "run_id", "fire_time", "kind", "late")

#: Fire times of an entry were not run. In beat, after the commit of its batch.
#:
#: ``name``: the entry. ``reason``: one of those in :doc:`policies`, such as ``"missed"``. ``count``: how many fire
#: times. ``first``, ``last``: the oldest and the newest of them.
run_skipped = _Signal("run_skipped", "name", "reason", "count", "first", "last")

#: A run could not be sent; beat tries it again, with the same id. In beat, for each try.
#:
#: ``name``: the entry. ``error``: the exception. ``tries``: how often it failed in a row. ``next_try``: when beat tries
#: it again.
run_refused = _Signal("run_refused", "name", "error", "tries", "next_try")

# Of runs that are tracked, with redisbeater_track_runs

#: A worker has begun to execute a run. In the worker's process that executes it, after that was recorded or put aside.
#:
#: ``run``: a :class:`~redisbeater.Run` with what this process knows of it: ``id``, ``name``, ``task``,
#: ``fire_time``, ``attempt``, ``worker``, ... ``state``: ``"STARTED"``. ``duration``: None.
run_started = _Signal("run_started", "run", "state", "duration")

#: A run has ended; one that is to be tried again has not. In the worker, after that was recorded, or put aside while
#: Redis is away; not by an execution whose run another one has by then. In a prefork worker the main process says so of
#: a child that was killed, and beat of a run that nobody has started before its deadline.
#:
#: ``run``: as of :data:`run_started`, with ``error``, ``result`` and ``note``. ``state``: how it ended, such as
#: ``"SUCCESS"``, but never ``"LOST"``. ``duration``: seconds since its start; None: unknown.
run_finished = _Signal("run_finished", "run", "state", "duration")

#: The worker that executed a run has not renewed its lease, or nobody has started it. In the beat that found out.
#:
#: ``run``: a :class:`~redisbeater.Run` as it was stored, with why in its ``note``.
run_lost = _Signal("run_lost", "run")

#: A lost run is to be sent again. In the beat that found out.
#:
#: ``run``: a :class:`~redisbeater.Run` as it was stored; its ``attempt`` is the one that was lost.
run_requeued = _Signal("run_requeued", "run")

# Of entries

#: A program wrote an entry. In the process that did so, after it was stored.
#:
#: ``name``: the entry. ``change``: ``"created"``, ``"changed"``, ``"enabled"``, ``"disabled"``, ``"deleted"``,
#: ``"renamed"`` or ``"restored"``. ``fields``: the names of the changed fields of its definition. ``by``: who made the
#: change; empty: unknown. ``renamed_from``: the name that it had before; empty unless it was renamed.
entry_changed = _Signal("entry_changed", "name", "change", "fields", "by", "renamed_from")

#: An entry, or a declaration in the code, cannot be read or planned, and does not run. In beat.
#:
#: ``name``: the entry. ``reason``: why, beginning with the field.
entry_broken = _Signal("entry_broken", "name", "reason")

#: A run of an entry cannot be sent, for the first time in a row; the broker can be reached. In beat.
#:
#: ``name``: the entry. ``reason``: the text of the error.
entry_failing = _Signal("entry_failing", "name", "reason")

#: An entry that was failing is sent again, in beat; or one that was broken was saved, in the process that did so.
#:
#: ``name``: the entry. ``reason``: ``"sent"`` or ``"saved"``.
entry_fixed = _Signal("entry_fixed", "name", "reason")

# Of the whole schedule

#: A beat leads, or does not lead any more. In that beat.
#:
#: ``role``: ``"leader"``, ``"active"`` where there is no lock, ``"standby"``, ``"lost"``: another beat took the lock,
#: or ``"ended"``. ``token``: what the lock holds while this beat leads; empty without a lock. ``previous``: the role
#: before; empty at first.
lead_changed = _Signal("lead_changed", "role", "token", "previous")

#: The schedule is paused. In the process that paused it, and in each beat that leads and finds it paused.
#:
#: ``by``, ``note``: who paused it, and why.
schedule_paused = _Signal("schedule_paused", "by", "note")

#: The schedule is not paused any more. In the process that resumed it, and in each beat that leads and goes on.
#:
#: ``by``, ``note``: who resumed it, and why; in a beat both are empty.
schedule_resumed = _Signal("schedule_resumed", "by", "note")

#: Redis does not answer, or refuses. In beat, once for each outage.
#:
#: ``seconds``: 0. ``error``: why, as text.
redis_away = _Signal("redis_away", "seconds", "error")

#: Redis answers again. In beat.
#:
#: ``seconds``: how long it was away. ``error``: why it was, as text.
redis_back = _Signal("redis_back", "seconds", "error")

#: The broker cannot be reached. In beat, once for each outage.
#:
#: ``seconds``: 0. ``error``: why, as text.
broker_away = _Signal("broker_away", "seconds", "error")

#: The broker can be reached again. In beat.
#:
#: ``seconds``: how long it was away. ``error``: why it was, as text.
broker_back = _Signal("broker_back", "seconds", "error")

#: An incident begins, or begins again, because something does not do what it promises. In the beat that recorded it.
#:
#: ``incident_id``: its id. ``kind``: what is wrong, such as ``"failed"``. ``entry``: the entry; empty: the schedule.
incident_opened = _Signal("incident_opened", "incident_id", "kind", "entry")

#: An incident is over. In the beat that recorded it, or in the process that acknowledged it.
#:
#: ``incident_id``, ``kind``, ``entry``: as of :data:`incident_opened`.
incident_closed = _Signal("incident_closed", "incident_id", "kind", "entry")
