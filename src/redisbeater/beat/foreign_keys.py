"""``ForeignKeys``: reports keys of the schedule itself that another program has overwritten."""

from __future__ import annotations

import shlex
import uuid

from redisbeater.log_lines import get_logger
from redisbeater.store import RedisSchedule

__all__ = ("ForeignKeys",)

logger = get_logger(__name__)


class ForeignKeys:
    """Reports keys that hold another type than beat writes, once for each type found.

    Beat leaves such a key as it is, and works without it if it can.
    """

    def __init__(self, redis: RedisSchedule) -> None:
        self._redis = redis
        self._reported: dict[str, str] = {}
        keys = redis.keys
        self._effects = {
            keys.schedule: "no entry runs",
            keys.id: "task ids come from a stand-in",
            keys.broken: "broken entries are logged but not listed",
            keys.zone: "entries without a zone of their own follow the timezone of each program's application",
            keys.zone_before: "the zone of the schedule cannot be changed, nor a change of it be finished",
            keys.failing: "failing entries are not listed, and not counted as late",
            keys.log: "what happens to the schedule is not recorded",
            keys.beats: "status and health do not see the beats",
            keys.pause: "the schedule is not paused",
            keys.statics: "static entries that the code no longer declares stay",
            keys.active: "runs are not seen as active: overlap has no effect, and none is found lost",
            keys.resend: "runs that were lost or buffered are not sent",
            keys.totals: "runs are not counted by task",
        }

    def check(self) -> None:
        """Log which keys hold another type than beat writes, unless that was logged before."""
        found = self._redis.foreign_types()
        for key, kind in found.items():
            if self._reported.get(key) != kind:
                logger.error(
                    "%s holds a %s, which beat did not write, so %s; if nobody needs it: %s DEL %s",
                    key,
                    kind,
                    self._effects[key],
                    self._redis.command_line,
                    shlex.quote(key),
                )
        self._reported = found

    def check_identity(self, identity: str) -> None:
        """Log the identity of the schedule if another program wrote it; task ids are computed from it all the same."""
        try:
            uuid.UUID(identity)
        except ValueError:
            key = self._redis.keys.id
            logger.warning("%s holds %r, which beat did not write; task ids are computed from it", key, identity)
