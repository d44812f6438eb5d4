"""A run as it is recorded: what is needed to send it again, as JSON, and a run built from that."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from celery import Celery

from redisbeater.entry import RedisScheduleEntry
from redisbeater.model import json_text
from redisbeater.model.definition import Definition
from redisbeater.model.options import decoded_options, encoded_options, option_instant
from redisbeater.model.run import ATTEMPT_HEADER, Kind, NewRun, Payload, Run, State
from redisbeater.schedules.datetime_codec import encode_datetime
from redisbeater.sending.run import counted_from, own_options, sendable, with_headers

__all__ = ("new_run", "planned_run", "renewed_expiry", "run_again")

#: The schedule of a run whose entry is gone; Celery's entries have one.
_ANY_SCHEDULE = 3600.0


def new_run(
    run: RedisScheduleEntry,
    now: datetime,
    *,
    kind: Kind = Kind.SCHEDULE,
    by: str = "",
    note: str = "",
    restart_of: str = "",
    is_alone: bool = False,
) -> NewRun:
    """Return the record of a run that a program is about to send for the first time.

    Arguments:
        run: the run, with its id and its fire time.
        now: the server's time, from which relative options count.
        kind: why there is this run.
        by: who wants it.
        note: why.
        restart_of: the id of the run that it repeats.
        is_alone: no other run of its entry may be active beside it.
    """
    options = run.options
    return NewRun(
        id=options["task_id"],
        name=str(run.name),
        task=str(run.task),
        fire_time=run.last_run_at or now,
        payload=_payload(run).to_text(),
        kind=kind,
        eta=option_instant(options.get("eta"), now) or option_instant(options.get("countdown"), now),
        expires=option_instant(options.get("expires"), now),
        by=by,
        note=note,
        restart_of=restart_of,
        is_alone=is_alone,
    )


def planned_run(
    definition: Definition,
    fire_time: datetime,
    *,
    id: str,
    now: datetime,
    state: State = State.SENT,
    is_alone: bool = False,
) -> NewRun:
    """Return the record of the run of an entry at a fire time, which was sent or is to wait.

    Its values are not checked again: they come from what is stored.
    """
    options = own_options(definition, fire_time, now)
    payload = {
        "task": definition.task,
        "args": definition.args,
        "kwargs": definition.kwargs,
        "options": encoded_options(options),
    }
    return NewRun(
        id=id,
        name=definition.name,
        task=definition.task,
        fire_time=fire_time,
        payload=json_text.to_text(payload),
        state=state,
        eta=option_instant(options.get("countdown"), now),
        expires=option_instant(options.get("expires"), now),
        is_alone=is_alone,
    )


def run_again(
    name: str, payload: Payload, fire_time: datetime, *, app: Celery, task_id: str, attempt: int = 1
) -> RedisScheduleEntry:
    """Return a run that was recorded, to be sent again with that id and as that attempt."""
    options = with_headers(decoded_options(dict(payload.options)), name, fire_time)
    options["headers"][ATTEMPT_HEADER] = attempt
    return RedisScheduleEntry(
        name,
        payload.task,
        _ANY_SCHEDULE,
        args=[sendable(value) for value in payload.args],
        kwargs={key: sendable(value) for key, value in payload.kwargs.items()},
        options={**options, "task_id": task_id},
        app=app,
        last_run_at=fire_time,
    )


def renewed_expiry(expires: object, sent: Run, now: datetime) -> dict[str, Any]:
    """Return the option ``expires`` of a run that is sent again: as far from now as it was from the first send.

    For a run of the schedule that time counts from the fire time, as a deadline does. Seconds count from each message.
    That of a run that waits for its first send stays: it had not begun before it expired.
    """
    if not isinstance(expires, datetime):
        return {} if expires is None else {"expires": counted_from(now, expires)}
    begin = (sent.kind is Kind.SCHEDULE and sent.fire_time) or sent.sent_at
    if expires.tzinfo is None or begin is None or sent.state is State.BUFFERED:
        return {}
    return {"expires": now + max(expires - begin, timedelta(0))}


def _payload(run: RedisScheduleEntry) -> Payload:
    return Payload(
        task=str(run.task),
        args=[_storable(value) for value in run.args or ()],
        kwargs={key: _storable(value) for key, value in (run.kwargs or {}).items()},
        options=encoded_options(run.options),
    )


def _storable(value: Any) -> Any:
    """Return an argument in which datetimes are RedBeat's objects, as entries store them."""
    if isinstance(value, datetime):
        return encode_datetime(value)
    if isinstance(value, dict):
        return {key: _storable(item) for key, item in value.items()}
    return [_storable(item) for item in value] if isinstance(value, list) else value
