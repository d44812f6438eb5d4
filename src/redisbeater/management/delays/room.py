"""The delays of a schedule, for programs: keep, find, move, send and cancel them."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from celery.canvas import Signature
from celery.result import AsyncResult

from redisbeater.display import quoted
from redisbeater.editing.edit import Author
from redisbeater.exceptions import InvalidEntry, WrongType
from redisbeater.management.delays.adding import add_delay
from redisbeater.management.delays.changing import DelayOutcome, cancel_delays, move_delays, new_eta
from redisbeater.management.delays.found import DelayFilter, find_delays, read_delay
from redisbeater.management.long_read import long_read
from redisbeater.management.room import Room, instant_of
from redisbeater.model.delay import Delay
from redisbeater.model.meta import MAX_COUNT
from redisbeater.model.passed_values import check_number, checked_instant, checked_names


class Delays(Room):
    """The messages of tasks that wait in the schedule until they are due: ``store.delays``.

    Example::

        result = store.delays.add(remind.s(42), at=tomorrow, id="reminder-42")
        store.delays.move(["reminder-42"], shift=timedelta(hours=1))
        store.delays.cancel(["reminder-42"])
    """

    def add(self, signature: Signature[Any], *, at: datetime, id: str | None = None) -> AsyncResult[Any]:
        """Keep the message of a task until a time, and return its result: it is stored when this returns.

        The task needs no worker that imports ``redisbeater.delays``. A delay of that id that waits is replaced.

        Arguments:
            signature: that of one task, such as ``remind.s(42)``, with its options: ``remind.s(42).set(queue="low")``.
            at: when it is due. A naive time is in the app's zone; beat sends one that has passed at once.
            id: the task id; None: a random one.

        Raises:
            InvalidEntry: a delay cannot keep it: a chain or a group, a message that is too large or no JSON, one for an
                exchange, or one that expires before.
            ImproperlyConfigured: beat sends to another broker than this app, or tasks are executed where they are sent.
        """
        return add_delay(self._context, signature, self._instant("at", at), id)

    def get(self, delay_id: str) -> Delay:
        """Return a delay.

        Raises:
            DelayNotFound: none of that id waits.
        """
        return read_delay(self._context, delay_id)

    @long_read
    def list(
        self,
        *,
        task: str | None = None,
        queue: str | None = None,
        args: str | None = None,
        before: datetime | None = None,
        after: datetime | None = None,
        limit: int | None = None,
    ) -> list[Delay]:
        """Return the delays in the order in which they are due.

        Arguments:
            task: only those of this task.
            queue: only those for this queue.
            args: only those whose arguments, as they are shown, hold this text.
            before: only those that are due before. Naive times are in the app's zone.
            after: only those that are due from then on.
            limit: how many at most; None: all.
        """
        if limit is not None:
            check_number("limit", limit, MAX_COUNT)
        first, last = (instant_of(self._context, *each) for each in (("after", after), ("before", before)))
        wanted = DelayFilter(task=task, queue=queue, args=args, before=last, after=first)
        return [*find_delays(self._context, wanted, limit)]

    def move(
        self,
        ids: Iterable[str],
        *,
        at: datetime | None = None,
        shift: timedelta | None = None,
        note: str = "",
        by: str = "",
    ) -> DelayOutcomes:
        """Give delays another eta, and return what became of each; one that is failing is tried anew then.

        If the broker is another server, one that beat is sending at that moment may be executed besides.

        Arguments:
            ids: their task ids.
            at: the new eta of all. A naive time is in the app's zone.
            shift: instead of ``at``, by how much to move each; below zero: to an earlier time.
            note: why, for the log of the schedule.
            by: who, for the log. Default: user and host of this process.
        """
        if (at is None) == (shift is None):
            raise InvalidEntry("at", "expected a datetime, or shift=, by how much to move each; pass one of the two")
        if shift is not None and not isinstance(shift, timedelta):
            raise WrongType("shift", f"expected a timedelta, got {quoted(shift)}")
        moment = None if at is None else self._instant("at", at)
        wanted = checked_names(ids, "ids", "delay")
        return [*move_delays(self._context, wanted, new_eta(moment, shift), Author.of(by, note))]

    def send(self, ids: Iterable[str], *, note: str = "", by: str = "") -> DelayOutcomes:
        """Let beat send delays now, and return what became of each; one that is failing is tried anew."""
        wanted, author = checked_names(ids, "ids", "delay"), Author.of(by, note)
        now, _ = self._context.redis.clock()
        return [*move_delays(self._context, wanted, new_eta(now, None), author, "sent")]

    def cancel(self, ids: Iterable[str], *, note: str = "", by: str = "") -> DelayOutcomes:
        """Delete delays, so that their tasks never run, and return what became of each.

        Their results are ``REVOKED``, a chord that waits for one ends, and ``task_revoked`` is sent in this process.
        If the broker is another server, one that beat is sending at that moment may still be executed.
        """
        return [*cancel_delays(self._context, checked_names(ids, "ids", "delay"), Author.of(by, note))]

    def _instant(self, name: str, given: datetime) -> datetime:
        return checked_instant(given, self._context.zone, name)


#: For signatures in a class that has a method ``list``.
DelayOutcomes = list[DelayOutcome]
