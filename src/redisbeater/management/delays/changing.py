"""Change delays that wait: move, send and cancel them, many at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from redisbeater.broker.message import Message
from redisbeater.context import Context
from redisbeater.deferred_signals import deferred_signals
from redisbeater.display import quoted
from redisbeater.editing.edit import Author
from redisbeater.exceptions import DelayNotFound, EditConflict, InvalidEntry, RedisBeaterError, StoreError
from redisbeater.log_lines import get_logger
from redisbeater.management.delays.found import shown_delay
from redisbeater.model.delay import Delay, eta_of, headers_in, with_eta
from redisbeater.model.run import ATTEMPT_HEADER, State
from redisbeater.revoked import mark_revoked
from redisbeater.store import Execution, pages
from redisbeater.store.delays import CHANGED, PAGE, StoredDelay

logger = get_logger(__name__)

#: More than so many are changed only after a question.
MOST_UNASKED = 10

#: How often a delay is read again that others keep changing.
MOST_TRIES = 5

#: For how long Ctrl-C waits for a page: its results are stored one by one.
PAGE_SECONDS = 10.0

#: How many ids a line of the log has.
MOST_LOGGED = 3


@dataclass(frozen=True, kw_only=True)
class DelayOutcome:
    """What became of one of several delays.

    Attributes:
        id: its task id.
        delay: the delay, of one that was cancelled as it was; None: it was not changed.
        error: why it was not changed; None: it was.
    """

    id: str
    delay: Delay | None = None
    error: RedisBeaterError | None = None


def move_delays(
    context: Context, ids: Sequence[str], at: Callable[[StoredDelay], datetime], author: Author, done: str = "moved"
) -> Iterator[DelayOutcome]:
    """Give delays another eta, and yield what became of each. ``at``: returns the new one; ``done``: a past participle.

    Raises:
        StoreError: Redis failed; the delays behind that one were not changed.
    """

    def move(page: Sequence[str]) -> Iterator[DelayOutcome]:
        known = {each.id: each for each in context.redis.delays.many(page)}
        now, _ = context.redis.clock()
        for delay_id in page:
            try:
                moved = _moved(context, delay_id, known.get(delay_id), at)
            except StoreError:
                raise
            except RedisBeaterError as exc:
                yield DelayOutcome(id=delay_id, error=exc)
            else:
                yield DelayOutcome(id=delay_id, delay=shown_delay(context, moved, now))

    return _logged(context, ids, move, author, done)


def _moved(
    context: Context, delay_id: str, found: StoredDelay | None, at: Callable[[StoredDelay], datetime]
) -> StoredDelay:
    delays = context.redis.delays
    for _ in range(MOST_TRIES):
        if found is None:
            raise DelayNotFound(delay_id)
        eta = at(found)
        try:
            text = with_eta(found.text, eta)
        except ValueError as exc:
            problem = f"another program has damaged it ({exc}); cancel it"
            raise InvalidEntry(f"delay {quoted(delay_id, 80)}", problem) from exc
        if delays.keep(delay_id, eta, text, seen=found.text) != CHANGED:
            return StoredDelay(delay_id, eta, text)
        found = delays.get(delay_id)
    raise EditConflict(f"delay {quoted(delay_id)} was changed by others each time that it was to be moved")


def eta_or_score(stored: StoredDelay) -> datetime:
    """Return the eta of a delay; one that is damaged has the time at which beat looks at it."""
    return eta_of(headers_in(stored.text)) or stored.at


def cancel_delays(context: Context, ids: Sequence[str], author: Author) -> Iterator[DelayOutcome]:
    """Cancel delays, and yield what became of each: their results are REVOKED, and their runs are stopped.

    Raises:
        StoreError: Redis failed; the delays of the pages behind that one were not cancelled.
    """

    def cancel(page: Sequence[str]) -> Iterator[DelayOutcome]:
        known = {each.id: each for each in context.redis.delays.many(page)}
        now, _ = context.redis.clock()
        gone = context.redis.delays.cancel([(delay_id, "") for delay_id in page])
        for delay_id in page:
            text = gone.get(delay_id)
            if text is None:
                yield DelayOutcome(id=delay_id, error=DelayNotFound(delay_id))
                continue
            _revoke(context, delay_id, text, author)
            seen = known.get(delay_id) or StoredDelay(delay_id, now, text)
            yield DelayOutcome(id=delay_id, delay=shown_delay(context, seen._replace(text=text), now))

    return _logged(context, ids, cancel, author, "cancelled")


def _revoke(context: Context, delay_id: str, text: str, author: Author) -> None:
    """Do what a worker does with the message of a task that was revoked."""
    try:
        message = Message.from_text(text)
    except ValueError as exc:
        logger.warning("delay %s was damaged: %s", delay_id, exc)
        return
    mark_revoked(context.app, message)
    if ATTEMPT_HEADER in message.headers and context.config.track_runs:
        _end_run(context, delay_id, author)


def _end_run(context: Context, run_id: str, author: Author) -> None:
    """Record that a tracked run never begins: nobody receives its message any more."""
    runs = context.redis.runs
    try:
        run = runs.stop(run_id, by=author.by, note=author.note)
        if run is not None and not run.is_final:
            runs.finish(Execution(run_id=run_id, name=run.name, task=run.task, attempt=run.attempt), State.REVOKED)
    except StoreError as exc:
        logger.warning("delay %s is cancelled, but the record of its run does not say so: %s", run_id, exc)


def _logged(
    context: Context,
    ids: Iterable[str],
    change: Callable[[Sequence[str]], Iterator[DelayOutcome]],
    author: Author,
    done: str,
) -> Iterator[DelayOutcome]:
    """Change delays page by page, and write one line into the log of the schedule, also where that ends before all."""
    changed = list[str]()
    try:
        for page in pages(list(dict.fromkeys(ids)), PAGE):
            with deferred_signals(PAGE_SECONDS):  # Ctrl-C waits until what was cancelled is revoked, and told of
                outcomes, error = _until_failure(change(page))
                changed += [each.id for each in outcomes if each.error is None]
                yield from outcomes
            if error is not None:
                raise error
    finally:
        if changed:
            _log(context, f"delays_{done}", len(changed), changed[:MOST_LOGGED], author)
            logger.info("delays %s by %s: %d", done, author.by, len(changed))


def _until_failure(outcomes: Iterator[DelayOutcome]) -> tuple[list[DelayOutcome], StoreError | None]:
    """Return the outcomes of a page until Redis failed, and its error."""
    done = list[DelayOutcome]()
    try:
        done.extend(outcomes)
    except StoreError as exc:
        return done, exc
    return done, None


def _log(context: Context, what: str, count: int, ids: Sequence[str], author: Author) -> None:
    details: dict[str, Any] = {"delays": count, "ids": list(ids), "by": author.by, "note": author.note}
    try:
        context.redis.log.add(what, **details)
    except StoreError as exc:
        logger.warning("delays were changed, but the log of the schedule does not say so: %s", exc)


def new_eta(at: datetime | None, shift: timedelta | None) -> Callable[[StoredDelay], datetime]:
    """Return a function that gives a delay another eta: one instant, or its own with a shift."""
    if at is not None:
        return lambda _: at
    if shift is None:
        raise InvalidEntry("at", "expected a datetime, or shift=, by how much to move each")

    def shifted(stored: StoredDelay) -> datetime:
        try:
            return eta_or_score(stored) + shift
        except OverflowError:
            raise InvalidEntry("shift", f"moves delay {quoted(stored.id, 80)} out of the calendar") from None

    return shifted
