"""Times as the page shows them: in the zone that its reader chose, with their distance from now."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timezone, tzinfo

from redisbeater.schedules.english import zone_text
from redisbeater.times import clock_words, date_words, relative_words

__all__ = ("CHOICES", "Clock")

#: The zones to choose from: each entry's own; UTC; that of the browser, whose script names it.
CHOICES = ("entry", "utc", "browser")


@dataclass(frozen=True, kw_only=True)
class Clock:
    """The present, and the zone of the times on a page.

    Attributes:
        now: the time of the Redis server, in the zone of entries without their own.
        choice: one of ``CHOICES``, or an IANA name.
        fixed: the zone of all times; None: each entry's own.
    """

    now: datetime
    choice: str
    fixed: tzinfo | None

    def local(self, moment: datetime, zone: tzinfo | None = None) -> datetime:
        """Return an instant in the zone of the page; ``zone`` is that of its entry."""
        return moment.astimezone(self.fixed or zone or self.now.tzinfo)

    def words(self, moment: datetime, zone: tzinfo | None = None) -> str:
        """Return a time as ``Mon 09:00:00 CET``, farther away with its date."""
        local = self.local(moment, zone)
        return f"{clock_words(local, self.now.astimezone(local.tzinfo))} {local:%Z}"

    def long_words(self, moment: datetime, zone: tzinfo | None = None) -> str:
        """Return a time as ``Mon 23 Nov 2026 09:00:00 CET``."""
        local = self.local(moment, zone)
        return f"{date_words(local)} {local:%H:%M:%S %Z}"

    def distance(self, moment: datetime) -> str:
        """Return how far a time is from now: ``in 3 s``, ``7 s ago``."""
        return relative_words(moment, self.now)

    def utc(self, moment: datetime) -> str:
        """Return a time for machines, ISO 8601 in UTC."""
        return moment.astimezone(timezone.utc).isoformat(timespec="seconds").replace("+00:00", "Z")

    @property
    def zone_words(self) -> str:
        """The name of the zone of the page's own times."""
        return zone_text(self.fixed or self.now.tzinfo) or "UTC"
