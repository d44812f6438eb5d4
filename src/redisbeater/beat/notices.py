"""Tell people of incidents: what is to be told is taken, described, and sent by a process of its own."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from typing import NamedTuple

from redisbeater.context import Context
from redisbeater.exceptions import ImproperlyConfigured, StoreError, StoreUnavailable
from redisbeater.health.status import sender_of
from redisbeater.log_lines import Seldom, get_logger
from redisbeater.model.incident import Incident
from redisbeater.model.message import Message, message_of
from redisbeater.notices.delivery import Answer, Delivery, Letter, missing_apprise, service_of
from redisbeater.sending.counts import Counts
from redisbeater.store import pages
from redisbeater.store.notices import ENDED, Notice
from redisbeater.times import duration_words

logger = get_logger(__name__)

#: Seconds between two looks for what is to be told, and how long a part of one takes in a pass.
PERIOD_SECONDS, STEP_SECONDS = 2.0, 0.02

#: How many incidents a message is made from; the others are counted. And how many are read in one step.
MOST_DESCRIBED, PAGE = 1_000, 50

#: How long a beat that ends waits for messages on their way.
END_SECONDS = 1.0


class _Record(NamedTuple):
    """What is still to be recorded of a receiver: that it was told of these, or why not; ``number``: of how many."""

    answer: Answer
    notices: Sequence[Notice]
    number: int


def check_apprise(context: Context) -> None:
    """Refuse to lead where people are to be told, and what sends messages is missing.

    Raises:
        ImproperlyConfigured: it is.
    """
    if context.config.notify and (problem := missing_apprise()):
        raise ImproperlyConfigured(f"redisbeater_notify is set: {problem}")


class Notices:
    """Tells the receivers of incidents, where the settings name any.

    Of several beats one tells each of them. A pass never waits for it: while a process sends messages, each pass asks
    whether it has ended.

    Arguments:
        context: the app whose schedule it is.
        token: names this beat.
        counts: counts the messages.
    """

    def __init__(self, context: Context, token: str, counts: Counts) -> None:
        self._context, self._token, self._counts = context, token, counts
        self._notices = context.redis.notices
        self._receivers = context.config.receivers
        self._look_at = self._again_at = float("-inf")
        #: The making of messages, which goes on in the next pass.
        self._making: Iterator[None] | None = None
        self._delivery: Delivery | None = None
        #: What the messages on their way are about, by their receivers.
        self._sent: dict[str, Sequence[Notice]] = {}
        self._records = deque[_Record]()
        self._check: Delivery | None = None
        self._is_checked = False
        self._seldom = Seldom()

    @property
    def is_behind(self) -> bool:
        """Whether it has more to do now."""
        return time.monotonic() >= self._again_at and (self._making is not None or bool(self._records))

    def step(self, *, leads: bool = True) -> None:
        """Go on for a moment. A beat that does not lead begins nothing, and records what it has sent before.

        Raises:
            StoreUnavailable: Redis cannot be reached; what is to be recorded stays.
        """
        if not self._receivers:
            if leads and not self._is_checked:
                self._guarded(self._notices.forget)
                self._is_checked = True
            return
        if leads:
            self._look_at_urls()
        if time.monotonic() >= self._again_at:
            self._guarded(lambda: self._go_on(leads=leads))

    def end(self) -> None:
        """Record what was sent; what is still on its way then is left to another beat."""
        if self._check is not None:
            self._check.cancel()
        delivery = self._delivery
        if delivery is not None and not delivery.wait(END_SECONDS):
            delivery.cancel()
            self._delivery = None
            for receiver in self._sent:
                self._notices.leave(receiver)
        self._collect()
        while self._records:
            self._record()

    def _guarded(self, act: Callable[[], None]) -> None:
        """Do a part of it; what Redis refuses is logged, and the pass goes on."""
        try:
            act()
        except StoreError as exc:
            self._making, self._again_at = None, time.monotonic() + PERIOD_SECONDS
            if isinstance(exc, StoreUnavailable):
                raise
            if self._seldom.is_due("notices", exc):
                logger.error("Redis refuses to say what is to be told of incidents, trying again: %s", exc)

    def _go_on(self, *, leads: bool) -> None:
        deadline = time.monotonic() + STEP_SECONDS
        self._collect()
        while self._records and time.monotonic() < deadline:
            self._record()
        if self._delivery is not None or self._records or not leads:
            return
        if self._making is None and time.monotonic() >= self._look_at:
            self._look_at = time.monotonic() + PERIOD_SECONDS
            self._making = self._make()
        for _ in self._making or ():
            if time.monotonic() >= deadline:
                return
        self._making = None

    # What is wrong with the settings

    def _look_at_urls(self) -> None:
        """Log once in a process which receivers cannot be told, by their URLs."""
        if not self._is_checked:
            self._is_checked = True
            self._check = Delivery([Letter(receiver, url) for receiver, url in self._receivers.items()])
        elif self._check is not None and self._check.is_done:
            for answer in filter(lambda each: each.problem, self._check.answers):
                logger.error(
                    "redisbeater_notify: %s, %s, cannot be told of incidents: %s; try it: "
                    "celery -A proj redisbeater notify --test",
                    answer.receiver,
                    service_of(self._receivers[answer.receiver]),
                    answer.problem,
                )
            self._check = None

    # Make messages, and send them

    def _make(self) -> Iterator[None]:
        """Take what is to be told, and begin to send it."""
        _, taken = self._notices.take(self._token, list(self._receivers), self._context.config.told())
        letters, self._sent = list[Letter](), {}
        for receiver, notices in taken.items():
            begun, ended = list[Incident](), list[Incident]()
            for page in pages(notices[:MOST_DESCRIBED], PAGE):
                found = self._context.redis.incidents.read([notice.id for notice in page])
                for notice, incident in zip(page, found):
                    if incident is not None:
                        (ended if notice.has_ended else begun).append(incident)
                yield
            self._sent[receiver] = notices
            if begun or ended:
                message = self._message(begun, ended, max(len(notices) - MOST_DESCRIBED, 0))
                letters.append(Letter(receiver, self._receivers[receiver], message))
            else:  # none of them is kept any more
                self._records.append(_Record(Answer(receiver, ""), notices, 0))
        if letters:
            self._delivery = Delivery(letters)

    def _message(self, begun: Sequence[Incident], ended: Sequence[Incident], more: int) -> Message:
        return message_of(begun, ended, more, sender_of(self._context))

    # Record what became of them

    def _collect(self) -> None:
        """Take the answers of messages on their way, once there are."""
        if self._delivery is None or not self._delivery.is_done:
            return
        for answer in self._delivery.answers:
            notices = self._sent.get(answer.receiver, ())
            self._records.append(_Record(answer, notices, len(notices)))
            self._counts.count_message("failed" if answer.problem else "told")
        self._delivery = None

    def _record(self) -> None:
        """Record one page of what a receiver was told of, or why it was not; what is recorded is logged."""
        answer, notices, number = self._records[0]
        if answer.problem:
            failure = self._notices.failed(answer.receiver, answer.problem)
            self._records.popleft()
            logger.warning(
                "cannot tell %s of incidents, %d began or ended, trying again in %s: %s",
                answer.receiver,
                number,
                duration_words(timedelta(seconds=failure.seconds)),
                answer.problem,
            )
            if failure.dropped:
                logger.error(
                    "%s could not be told for a day that %d incidents have ended, and is not any more; "
                    "celery -A proj redisbeater incidents lists them",
                    answer.receiver,
                    failure.dropped,
                )
        else:
            page, rest = notices[:ENDED], notices[ENDED:]
            self._notices.told(answer.receiver, page, is_last=not rest)
            if rest:
                self._records[0] = _Record(answer, rest, number)
            else:
                self._records.popleft()
                if number:
                    logger.info("told %s of incidents: %d began or ended", answer.receiver, number)
