"""``moon``: phases of the moon, to the hour, by the mean length of its month."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone, tzinfo
from typing import Any

from redisbeater.display import quoted
from redisbeater.exceptions import InvalidEntry
from redisbeater.schedules.crontab_text import PATH
from redisbeater.schedules.kind import OwnSchedule, Reading, ScheduleKind, check_fields, checked_text

_MONTH = timedelta(days=29.530588)

#: A new moon, and the full moon after it.
_SEEN = {
    "new": datetime(2000, 1, 6, 18, 14, tzinfo=timezone.utc),
    "full": datetime(2000, 1, 21, 4, 40, tzinfo=timezone.utc),
}


class moon(OwnSchedule):
    """Fire at each new or full moon.

    Raises:
        InvalidEntry: the phase is another one.
    """

    def __init__(self, phase: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if phase not in _SEEN:
            raise InvalidEntry(f"{PATH}.phase", f"expected {' or '.join(_SEEN)}, got {quoted(phase)}")
        self.phase = phase

    def _following(self, after: datetime) -> datetime:
        seen = _SEEN[self.phase]
        return seen + ((after - seen) // _MONTH + 1) * _MONTH

    def __eq__(self, other: object) -> bool:
        return isinstance(other, moon) and self.phase == other.phase

    def __hash__(self) -> int:
        return hash(self.phase)

    def __reduce__(self) -> tuple[type, tuple[str]]:
        return type(self), (self.phase,)


class MoonKind(ScheduleKind[moon]):
    """Phases of the moon."""

    __slots__ = ()

    schedule_class = moon
    name = word = "moon"
    title = "Moon"
    placeholder = "PHASE"
    sentence = "Run at a phase of the moon: new or full."
    expected = "a phase: new or full"
    is_endless = True
    is_memoryless = True

    def encode(self, schedule: moon) -> dict[str, Any]:
        """Return the phase."""
        return {"phase": schedule.phase}

    def decode(self, data: dict[str, Any]) -> moon:
        """Return the schedule of a phase."""
        check_fields(data, ("phase",))
        return moon(data.get("phase", ""))

    def has_local_times(self, schedule: moon) -> bool:
        """Return False: the moon knows no zones."""
        return False

    def describe(self, schedule: moon, zone: str | tzinfo | None) -> str:
        """Describe the phase."""
        return f"at each {schedule.phase} moon"

    def text(self, schedule: moon) -> str:
        """Return the phase."""
        return schedule.phase

    def read(self, text: Any, reading: Reading) -> moon:
        """Return the schedule of a phase."""
        return moon(checked_text(text, self.expected))
