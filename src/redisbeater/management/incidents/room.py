"""The incidents of a schedule, for programs: list, read and acknowledge them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from redisbeater.display import quoted
from redisbeater.editing.edit import Author
from redisbeater.exceptions import IncidentNotFound
from redisbeater.log_lines import event, get_logger
from redisbeater.management.room import Room
from redisbeater.model.incident import KINDS, Incident, IncidentGroup, grouped
from redisbeater.model.passed_values import check_id, check_number, checked_instant
from redisbeater.signals import incident_closed

logger = get_logger(__name__)

#: How many incidents a report has.
MOST_REPORTED = 10_000

#: How many incidents are listed where nobody says how many.
LIMIT = 100


@dataclass(frozen=True, kw_only=True)
class IncidentReport:
    """What happened since a moment.

    Attributes:
        open: incidents that are open, in groups of those that began together and are alike, the newest first.
        healed: those that have ended since then.
        releases: releases of the code of workers that were reported first since then, and when, the newest first.
    """

    open: tuple[IncidentGroup, ...]
    healed: tuple[IncidentGroup, ...]
    releases: Mapping[str, datetime]

    def as_dict(self) -> dict[str, Any]:
        """Return it as a JSON object."""
        return {
            "open": [group.as_dict() for group in self.open],
            "healed": [group.as_dict() for group in self.healed],
            "releases": {release: at.isoformat() for release, at in self.releases.items()},
        }


class Incidents(Room):
    """What did not do what it promises, and since when: ``store.incidents``."""

    def list(
        self,
        name: str | None = None,
        *,
        only_open: bool = False,
        kind: str = "",
        since: datetime | None = None,
        limit: int = LIMIT,
    ) -> list[Incident]:
        """Return the newest incidents.

        They are kept for ``redisbeater_incident_days`` from their end on.

        Arguments:
            name: only those of that entry; empty: of the schedule itself.
            only_open: only those that have not ended.
            kind: only of that kind, such as ``failed``.
            since: only those that were open then or later; a naive time is one of the application's zone.
            limit: how many.

        Raises:
            ValueError: there is no such kind, ``since`` is out of range, or ``limit`` is no number of them.
        """
        check_number("limit", limit)
        if kind and kind not in KINDS:
            raise ValueError(f"kind: expected one of {', '.join(KINDS)}, got {quoted(kind)}")
        return self._context.redis.incidents.newest(
            limit, only_open=only_open, entry=name, kind=kind, since=since and self._instant(since)
        )

    def report(self, since: datetime, *, limit: int = MOST_REPORTED) -> IncidentReport:
        """Return a report for the morning: what is open, what has healed, and which releases came, since a moment.

        A naive time is one of the application's zone. ``limit``: how many of the newest incidents are looked at.

        Raises:
            ValueError: the time is out of range, or ``limit`` is no number of them.
        """
        moment = self._instant(since)
        return IncidentReport(
            open=grouped(self.list(only_open=True, limit=limit)),
            healed=grouped(each for each in self.list(limit=limit) if each.closed and each.closed >= moment),
            releases=self._context.redis.incidents.releases(moment),
        )

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
        """Say that somebody knows of an incident: ``health`` is quiet about it, until it fails in another way.

        That the schedule was lost ends so, and a failure of an entry that is not to run again.

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

    def _instant(self, since: datetime) -> datetime:
        return checked_instant(since, self._context.zone, "since")
