"""A run on its way to the broker: its message, its record, and the message that stops it."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timedelta, timezone
from functools import lru_cache
from hashlib import sha1
from typing import Any

from celery import Celery
from celery.schedules import BaseSchedule, crontab, schedule

from redisbeater.context import Context
from redisbeater.display import shown
from redisbeater.entry import RedisScheduleEntry
from redisbeater.exceptions import InvalidEntry, StoreError
from redisbeater.log_lines import get_logger
from redisbeater.model import json_text
from redisbeater.model.definition import Definition
from redisbeater.model.options import decoded_options, encoded_options, option_instant, owner_of_header
from redisbeater.model.run import ATTEMPT_HEADER, Kind, NewRun, Payload, Run, Span, State
from redisbeater.schedules.zones import decode_datetime, encode_datetime, read_zone

logger = get_logger(__name__)


#: The namespace of schedule ids that are no UUIDs: another program wrote them.
FOREIGN_IDS = uuid.UUID("7fcf8280-6e12-52f9-ab56-c6ac8bfedbce")


def task_id(schedule_id: str, name: str, fire_time: datetime) -> str:
    """Return the task id of a run; every beat gives the same fire time the same id, however often it is sent."""
    return task_id_at(schedule_id, name, fire_time.isoformat())


def task_id_at(schedule_id: str, name: str, fire_time: str) -> str:
    """Return the same for a fire time in ISO 8601: the text of a UUIDv5, which Python makes in twice the time."""
    digest = sha1(_namespace(schedule_id) + f"{name}@{fire_time}".encode(), usedforsecurity=False).hexdigest()
    variant = "89ab"[int(digest[16], 16) & 3]
    return f"{digest[:8]}-{digest[8:12]}-5{digest[13:16]}-{variant}{digest[17:20]}-{digest[20:32]}"


@lru_cache(maxsize=8)
def _namespace(schedule_id: str) -> bytes:
    """Return the namespace of a schedule's task ids: its id, or a hash of an id that is no UUID."""
    try:
        return uuid.UUID(schedule_id).bytes
    except ValueError:
        # backslashreplace: the bytes that another program wrote may be no text.
        return uuid.uuid5(FOREIGN_IDS, schedule_id.encode("utf-8", "backslashreplace").decode()).bytes


def make_run(
    definition: Definition,
    fire_time: datetime,
    *,
    schedule_id: str,
    run_count: int,
    app: Celery,
    entry_class: type[RedisScheduleEntry] = RedisScheduleEntry,
    due_at: datetime | None = None,
    attempt: int,
    now: datetime | None,
    span: Span,
) -> RedisScheduleEntry:
    """Return an entry for one run, with its own copies of all values: Celery, instruments and tasks write into them.

    Arguments:
        definition: the entry's definition.
        fire_time: the run's fire time, aware UTC.
        schedule_id: the id of the schedule, namespace of the task ids.
        run_count: how many runs the entry has had.
        app: the Celery app that sends it.
        entry_class: the class of the run.
        due_at: when it is due, its fire time plus its jitter; for the log.
        attempt: which attempt this is, from 1; the header tells the worker that the run is recorded. 0: it is not.
        now: the server's time, from which an ``expires`` in seconds counts; default: its fire time.
        span: the fire times that it stands for.
    """
    options = _run_options(definition, fire_time, now or fire_time, span)
    if attempt:
        options["headers"][ATTEMPT_HEADER] = attempt
    options["task_id"] = task_id(schedule_id, definition.name, fire_time)
    run = entry_class(
        definition.name,
        definition.task,
        _schedule_in_zone(definition),
        args=[sendable(value) for value in definition.args],
        kwargs={name: sendable(value) for name, value in definition.kwargs.items()},
        options=options,
        app=app,
        timezone=definition.timezone,
        last_run_at=fire_time,
        total_run_count=run_count,
    )
    run._due_at = due_at
    return run


def _run_options(definition: Definition, fire_time: datetime, now: datetime, span: Span) -> dict[str, Any]:
    """Return the options of a run, all but its id: with its headers and its deadline."""
    options: dict[str, Any] = json_text.copied(own_options(definition, fire_time, now))
    if "expires" in options:
        options["expires"] = counted_from(now, options["expires"])
    return with_headers(options, definition.name, fire_time, span)


def own_options(definition: Definition, fire_time: datetime, now: datetime) -> dict[str, Any]:
    """Return the options of a definition with its deadline; the caller must not change them."""
    if definition.deadline is None:
        return definition.options
    deadline = fire_time + timedelta(seconds=definition.deadline)
    return {**definition.options, "expires": _sooner(definition.options.get("expires"), deadline, now)}


def counted_from(now: datetime, expires: Any) -> Any:
    """Return an ``expires`` in seconds as an instant if this host's clock is behind the server's, which shows ``now``.

    Celery counts seconds by this host's clock, and such runs would have expired before a worker gets them. If it is
    ahead, they stay seconds: from an instant Celery computes, by that clock too, how long a broker keeps the message.
    """
    if datetime.now(timezone.utc) >= now:
        return expires
    with suppress(OverflowError):
        return option_instant(expires, now) or expires
    return expires


def with_headers(options: dict[str, Any], name: str, fire_time: datetime, span: Span) -> dict[str, Any]:
    """Return options with what each run has: without retries, and with headers that tell entry and fire times.

    Stored headers that would make it another run, or hide what it is, are left out.
    """
    own = {header: value for header, value in (options.get("headers") or {}).items() if not owner_of_header(header)}
    headers = {**own, "periodic_task_name": name, "scheduled_for": fire_time.isoformat(), **span.to_headers()}
    # retry=False: beat itself releases a run that cannot be sent, and tries it again.
    return {"retry": False, **options, "headers": headers}


def _sooner(expires: Any, deadline: datetime, now: datetime) -> Any:
    """Return the sooner of an ``expires`` and a deadline, as Celery takes it."""
    own = option_instant(expires, now)
    return deadline if own is None or deadline <= own else expires


def _schedule_in_zone(definition: Definition) -> BaseSchedule:
    """Return the schedule for Celery and for instruments, which read its zone from its ``tz``.

    A schedule of an entry with a zone of its own is copied: entries of several zones may share one.
    """
    shared = definition.schedule
    if definition.timezone is None or not isinstance(shared, (crontab, schedule)):
        return shared
    copied: BaseSchedule = object.__new__(type(shared))
    vars(copied).update(vars(shared), tz=read_zone(definition.timezone, "$.timezone"))
    return copied


def sendable(value: Any) -> Any:
    """Return a copy of an argument in which RedBeat's objects for datetimes are datetimes, as RedBeat sends them.

    An object that is no date is passed as it is stored: it is an argument that happens to look like one.
    """
    if isinstance(value, dict):
        if value.get("__type__") == "datetime":
            with suppress(InvalidEntry):
                return decode_datetime(value, "$")
        return {name: sendable(item) for name, item in value.items()}
    return [sendable(item) for item in value] if isinstance(value, list) else value


#: The schedule of a run whose entry is gone; Celery's entries have one.
_ANY_SCHEDULE = 3600.0


def new_run(
    run: RedisScheduleEntry,
    now: datetime,
    *,
    kind: Kind,
    by: str,
    note: str,
    restart_of: str,
    version: str,
    queue: str,
    is_alone: bool,
) -> NewRun:
    """Return the record of a run that a program is about to send for the first time.

    Arguments:
        run: the run, with its id and its fire time.
        now: the server's time, from which relative options count.
        kind: why there is this run.
        by: who wants it.
        note: why.
        restart_of: the id of the run that it repeats.
        version: the version of its entry's definition, if its arguments are the ones there.
        queue: where it is routed to, if its options do not say it.
        is_alone: no other run of its entry may be active beside it.
    """
    options = run.options
    return NewRun(
        id=options["task_id"],
        name=run.name,
        task=run.task,
        fire_time=run.last_run_at or now,
        payload=_payload(run).to_text(),
        kind=kind,
        eta=option_instant(options.get("eta"), now) or option_instant(options.get("countdown"), now),
        expires=option_instant(options.get("expires"), now),
        by=by,
        note=note,
        restart_of=restart_of,
        version=version,
        queue=queue,
        is_alone=is_alone,
        span=Span.from_headers(options["headers"]),
    )


def planned_run(
    definition: Definition,
    fire_time: datetime,
    *,
    id: str,
    now: datetime,
    state: State,
    version: str,
    queue: str,
    is_alone: bool,
    span: Span,
    due_at: datetime,
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
        version=version,
        queue=queue,
        is_alone=is_alone,
        span=span,
        due_at=due_at,
    )


def run_again(
    name: str, payload: Payload, fire_time: datetime, *, app: Celery, task_id: str, span: Span, attempt: int = 1
) -> RedisScheduleEntry:
    """Return a run that was recorded, to be sent again with that id and as that attempt."""
    options = with_headers(decoded_options(payload.options), name, fire_time, span)
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
        task=run.task,
        args=[_storable(value) for value in run.args],
        kwargs={key: _storable(value) for key, value in run.kwargs.items()},
        options=encoded_options(run.options),
    )


def _storable(value: Any) -> Any:
    """Return an argument in which datetimes are RedBeat's objects, as entries store them."""
    if isinstance(value, datetime):
        return encode_datetime(value)
    if isinstance(value, dict):
        return {key: _storable(item) for key, item in value.items()}
    return [_storable(item) for item in value] if isinstance(value, list) else value


def cancel(
    context: Context, run_id: str, *, by: str, note: str = "", connection: Callable[[], Any] = lambda: None
) -> Run | None:
    """Ask a run to stop that is in the way of another. Return it as it is then.

    A run that waits for beat ends at once; the end of any other is not awaited. Return None if there is no such run, or
    if its worker could not be reached, which is logged: the worker reads the request when it renews its lease.

    Arguments:
        context: the app, and its schedule.
        run_id: the id of the run.
        by: who asks.
        note: why.
        connection: returns the connection to the broker; None: one of the app's own.

    Raises:
        StoreError: Redis could not be asked.
    """
    run = context.redis.runs.stop(run_id, by=by, note=note)
    if run is None or run.is_final:
        return run
    try:
        revoke(context.app, run, context.config.stop_signal, connection=connection())
    except StoreError:
        raise
    except Exception as exc:  # the broker does not carry the request
        logger.warning("run %s was asked to stop, but its worker could not be reached: %s", run_id, shown(exc))
        return None
    return run


def revoke(app: Celery, run: Run, stop_signal: str | None, **options: Any) -> Any:
    """Tell the workers to end a run, and return what they reply; without a signal they only refuse to start it.

    Arguments:
        app: the app.
        run: the run; while it is executed, only its worker gets that.
        stop_signal: what ends the process that executes it, such as ``SIGTERM``.
        options: more options of Celery's ``control.revoke()``.
    """
    if stop_signal is not None:
        options.update(terminate=True, signal=stop_signal)
    if run.state is State.STARTED and run.worker:
        options["destination"] = [run.worker]
    return app.control.revoke(run.id, **options)
