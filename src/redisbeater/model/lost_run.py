"""The verdict on a run whose lease is over: lost for good, to be sent again, or expired. Nothing here reads a clock."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from redisbeater.model.definition import Definition
from redisbeater.model.policies import INHERIT
from redisbeater.model.run import Run, State

#: Seconds until the first requeue; each further one takes twice as long, up to the longest.
FIRST_DELAY_SECONDS, LONGEST_DELAY_SECONDS = 10.0, 300.0

#: A verdict may come so much later than beat looks and workers renew, because a beat or a worker is busy.
SLACK_SECONDS = 5.0


@dataclass(frozen=True, kw_only=True)
class LossDecision:
    """What becomes of a run.

    Attributes:
        state: LOST or EXPIRED.
        requeue_in: seconds until it is sent again; None: it is not.
        note: why, for people.
    """

    state: State
    note: str
    requeue_in: float | None = None


def judge(
    run: Run, definition: Definition | None, now: datetime, requeue_lost: int, period: float = 0.0
) -> LossDecision:
    """Return the verdict on an active run whose lease is over.

    Arguments:
        run: the run, with its payload.
        definition: that of its entry; None: it is deleted, or cannot be read.
        now: the server's time.
        requeue_lost: how often a lost run is sent again where its entry does not say.
        period: seconds between two looks of beat, and between two renewals of a worker.
    """
    if run.state is not State.STARTED:
        if run.expires is not None and run.expires <= now:
            return LossDecision(state=State.EXPIRED, note="nobody has started it before its deadline")
        tried = "its next try was not started" if run.state is State.RETRY else "nobody has started it"
        note = f"{tried}; it may still be in the queue, or its worker died before it could report"
        return LossDecision(state=State.LOST, note=note)
    worker = f"its worker {run.worker} does not renew it" if run.worker else "its worker does not renew it"
    most = requeue_lost if definition is None or definition.requeue_lost is INHERIT else definition.requeue_lost
    if run.is_to_stop:
        return LossDecision(state=State.LOST, note=f"{worker}, and it was asked to stop")
    if run.attempt > int(most) or not run.payload:
        return LossDecision(state=State.LOST, note=worker)
    if run.acks_late and not (definition is not None and definition.once):
        return LossDecision(state=State.LOST, note=f"{worker}; its task has acks_late, so the broker delivers it again")
    delay = max(
        min(FIRST_DELAY_SECONDS * 2 ** (run.attempt - 1), LONGEST_DELAY_SECONDS), _time_to_renew(run, now, period)
    )
    return LossDecision(state=State.LOST, note=f"{worker}; sent again as attempt {run.attempt + 1}", requeue_in=delay)


def _time_to_renew(run: Run, now: datetime, period: float) -> float:
    """Return for how many seconds its worker may still come to renew the lease.

    Beat looks often enough to find a lease that nobody renews soon after its end. If it finds one later, the clock of
    Redis was set, or older data was restored, and the worker has not seen that yet; or no beat has looked.
    """
    late = 0.0 if run.lease_end is None else (now - run.lease_end).total_seconds()
    return period + SLACK_SECONDS if late > period + SLACK_SECONDS else 0.0
