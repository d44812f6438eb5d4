"""The incidents of a schedule, for programs: list, read and acknowledge them."""

from __future__ import annotations

import json
from datetime import datetime, timezone

from redisbeater.editing.edit import Author
from redisbeater.exceptions import IncidentNotFound
from redisbeater.log_lines import event, get_logger
from redisbeater.management.room import Room
from redisbeater.model.incident import Incident
from redisbeater.model.passed_values import check_id, check_number
from redisbeater.signals import incident_closed

logger = get_logger(__name__)

#: How many incidents are listed where nobody says how many.
LIMIT = 100


class Incidents(Room):
    """What did not do what it promises, and since when: ``store.incidents``."""

    def list(self, *, only_open: bool = False, limit: int = LIMIT) -> list[Incident]:
        """Return the newest incidents; with ``only_open`` those that have not ended.

        They are kept for seven days from their end on.

        Raises:
            ValueError: ``limit`` is no number of them.
        """
        check_number("limit", limit)
        return self._context.redis.incidents.newest(limit, only_open=only_open)

    def get(self, incident_id: str) -> Incident:
        """Return an incident.

        Raises:
            IncidentNotFound: none of that id is kept.
        """
        check_id("incident_id", incident_id, "an incident")
        found = self._context.redis.incidents.get(incident_id)
        if found is None:
            raise IncidentNotFound(incident_id)
        return found

    def acknowledge(self, incident_id: str, *, note: str = "", by: str = "") -> Incident:
        """Say that somebody knows of an incident: ``health`` is quiet about it. That the schedule was lost ends so.

        ``note`` and ``by``: why, and who; by default user and host of this process.

        Raises:
            IncidentNotFound: none of that id is kept.
        """
        author = Author.of(by, note)
        redis, found = self._context.redis, self.get(incident_id)
        at = datetime.now(timezone.utc).isoformat(timespec="seconds")
        outcome = redis.incidents.acknowledge(found, json.dumps({"by": author.by, "note": author.note, "at": at}))
        if outcome.word == "MISSING":
            raise IncidentNotFound(incident_id)
        redis.log.add("incident_acknowledged", id=found.id, kind=found.kind, by=author.by, note=author.note)
        if outcome.word == "CLOSED":
            of = {"incident_id": found.id, "kind": found.kind, "entry": found.entry}
            logger.info("incident %s is acknowledged by %s", found.id, author.by, extra=event("incident_closed", **of))
            incident_closed.send(redis.keys.prefix, **of)
        return self.get(incident_id)
