"""The pause of the schedule, as the claims of a beat find it."""

from __future__ import annotations

from redisbeater.beat.schedule_log import ScheduleLog
from redisbeater.exceptions import SchedulePaused
from redisbeater.log_lines import event, get_logger

__all__ = ("Pausing",)

logger = get_logger(__name__)

#: Beat claims this long after the end of a pause, because Redis counts in milliseconds.
MARGIN_SECONDS = 0.005


class Pausing:
    """Whether the schedule was paused at the last claim; its begin and its end are logged.

    Arguments:
        log: reports both.
    """

    def __init__(self, log: ScheduleLog) -> None:
        self._log = log
        #: Whether the last claim found a pause.
        self.is_on = False

    def began(self, pause: SchedulePaused, longest: float) -> float:
        """Record that a claim found a pause. Return the seconds until the next claim, ``longest`` at most."""
        if not self.is_on:
            logger.warning(
                "the schedule is paused, sending nothing; celery redisbeater resume ends that",
                extra=event("schedule_paused"),
            )
            self._log.paused()
        self.is_on = True
        return longest if pause.seconds_left is None else min(pause.seconds_left + MARGIN_SECONDS, longest)

    def ended(self) -> None:
        """Record that a claim found no pause."""
        if self.is_on:
            logger.info("the schedule is not paused any more", extra=event("schedule_resumed"))
            self._log.resumed()
        self.is_on = False
