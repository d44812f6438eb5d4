"""Find delays: by their tasks, queues, arguments and times, in the order in which they are due."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice

from redisbeater.context import Context
from redisbeater.display import quoted
from redisbeater.exceptions import DelayNotFound, WrongType
from redisbeater.model.delay import Delay
from redisbeater.model.passed_values import check_id
from redisbeater.store import pages
from redisbeater.store.delays import PAGE, DelayCounts, StoredDelay

#: The parts of a filter that are texts.
_TEXTS = ("task", "queue", "args")


@dataclass(frozen=True, kw_only=True)
class DelayFilter:
    """Selects delays; None selects all.

    Attributes:
        task, queue: the name of the task, and of the queue.
        args: a text that the arguments hold, as they are shown.
        before, after: they are due before an instant, or from one on.
    """

    task: str | None = None
    queue: str | None = None
    args: str | None = None
    before: datetime | None = None
    after: datetime | None = None

    def __post_init__(self) -> None:
        for name in _TEXTS:
            value = getattr(self, name)
            if value is not None and not isinstance(value, str):
                raise WrongType(name, f"expected a text, or None for all, got {quoted(value)}")

    def lets_through(self, delay: Delay) -> bool:
        """Return whether a delay is selected; ``after`` is left to Redis."""
        return (
            self.task in (None, delay.task)
            and self.queue in (None, delay.queue)
            and (self.args is None or self.args in delay.args or self.args in delay.kwargs)
            and (self.before is None or delay.at < self.before)
        )


def find_delays(
    context: Context, wanted: DelayFilter, limit: int | None = None, progress: Callable[[int], None] | None = None
) -> Iterator[Delay]:
    """Yield delays as they are due, page by page; ``progress`` is called with how many were read."""
    now, _ = context.redis.clock()
    read = _counted(context.redis.delays.each(wanted.after, wanted.before), progress)
    return islice(filter(wanted.lets_through, (shown_delay(context, each, now) for each in read)), limit)


#: How many delays that cannot be sent a finding names.
MOST_NAMED = 3


def delay_problems(context: Context, counts: DelayCounts | None) -> Iterator[str]:
    """Yield what is wrong with delays, and what to do."""
    if counts is None:
        return
    delays, now = context.redis.delays, context.redis.clock()[0]
    if counts.waiting and not delays.sender():
        yield f"delays wait ({counts.waiting:,}), and no beat sends them; start one of this version"
    if counts.failing:
        found = [shown_delay(context, each, now) for each in delays.many(delays.failing_ids(MOST_NAMED))]
        named = "; ".join(f"{each.id}: {each.error}" for each in found)
        yield f"delays cannot be sent ({counts.failing:,}); correct the cause, then send or cancel them: {named}"


#: How many delays are looked through for those whose ids begin with a text.
MOST_LOOKED_THROUGH = 10_000


def next_ids(context: Context, start: str, limit: int) -> list[str]:
    """Return ids that begin with a text, among the delays that are due next."""
    found = islice(context.redis.delays.each(), MOST_LOOKED_THROUGH)
    return [*islice((each.id for each in found if each.id.startswith(start)), limit)]


def _counted(found: Iterator[StoredDelay], progress: Callable[[int], None] | None) -> Iterator[StoredDelay]:
    for number, each in enumerate(found, 1):
        if progress is not None and number % PAGE == 0:
            progress(number)
        yield each


def read_delay(context: Context, delay_id: str) -> Delay:
    """Return a delay.

    Raises:
        DelayNotFound: none of that id waits.
    """
    check_id("delay_id", delay_id, "a delay")
    found = context.redis.delays.get(delay_id)
    if found is None:
        raise DelayNotFound(delay_id)
    return shown_delay(context, found, context.redis.clock()[0])


def read_delays(context: Context, ids: Sequence[str]) -> Iterator[tuple[str, Delay | None]]:
    """Yield each of several ids with its delay, or None if there is none."""
    now, _ = context.redis.clock()
    for page in pages(ids, PAGE):
        found = {each.id: shown_delay(context, each, now) for each in context.redis.delays.many(page)}
        yield from ((delay_id, found.get(delay_id)) for delay_id in page)


def shown_delay(context: Context, stored: StoredDelay, now: datetime) -> Delay:
    """Return a stored delay as people see it at a time."""
    return Delay.read(stored.id, stored.at, stored.text, stored.failure, now=now, redact=context.config.redact)
