"""The meta of an entry: its last run and its run count, and their stored text.

Only the two fields that RedBeat knows are written into the text: RedBeat hands every field of ``meta`` to a constructor
that refuses others, so one more would take the entry away from RedBeat. The run that beat itself recorded last is
therefore stored in a field of the hash, ``recorded_run``.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timezone
from types import MappingProxyType
from typing import Any, NamedTuple

from redisbeater.display import quoted, text_of
from redisbeater.exceptions import InvalidEntry
from redisbeater.model import json_text
from redisbeater.schedules.datetime_codec import decode_datetime, encode_datetime
from redisbeater.times import to_unix

__all__ = ("MAX_COUNT", "NEW", "Meta")

#: The highest count that is read or written: beyond it, programs that hold numbers as floats lose digits. A run each
#: microsecond takes 285 years to get there.
MAX_COUNT = 2**53

_OURS = ("last_run_at", "total_run_count")

_NO_EXTRA: Mapping[str, Any] = MappingProxyType({})


class Meta(NamedTuple):
    """The last run of an entry, and its run count.

    ``last_run_at`` is the fire time of the last run, aware UTC; None before the first. ``score_follows_last_run`` says
    that the score was computed from it; otherwise the application has set it since. ``extra`` holds fields that the
    application put there; they are kept.
    """

    last_run_at: datetime | None = None
    total_run_count: int = 0
    score_follows_last_run: bool = False
    extra: Mapping[str, Any] = _NO_EXTRA

    @classmethod
    def from_text(cls, text: str | None, recorded_run: str = "") -> Meta:
        """Read a stored text; without one, return the meta of an entry that never ran.

        Arguments:
            text: what the field ``meta`` holds.
            recorded_run: the last run that beat itself recorded, as :attr:`recorded_run`. A ``last_run_at`` that
                differs from it was written by the application.

        Raises:
            InvalidEntry: the text is not JSON, or a field cannot be read.
        """
        if not text:
            return NEW
        data = json_text.from_text(text, "meta")
        if not isinstance(data, dict):
            raise InvalidEntry("meta", f"expected an object, got {type(data).__name__}")
        count = data.get("total_run_count") or 0
        if not isinstance(count, int):
            raise InvalidEntry("meta.total_run_count", f"expected a whole number, got {quoted(count)}")
        if not 0 <= count <= MAX_COUNT:
            raise InvalidEntry("meta.total_run_count", f"expected a number from 0 to {MAX_COUNT}")
        last_run_at = _decode(data.get("last_run_at"))
        return cls(
            last_run_at=last_run_at,
            total_run_count=count,
            score_follows_last_run=last_run_at is not None and to_unix(last_run_at) == recorded_run,
            extra={key: value for key, value in data.items() if key not in _OURS},
        )

    def to_text(self) -> str:
        """Return the text to store, in RedBeat's form."""
        last_run_at = None if self.last_run_at is None else encode_datetime(self.last_run_at)
        return json_text.to_text({"last_run_at": last_run_at, "total_run_count": self.total_run_count, **self.extra})

    @property
    def recorded_run(self) -> str:
        """The last run in UNIX seconds, to be stored with the text; empty where the score does not follow it."""
        return to_unix(self.last_run_at) if self.score_follows_last_run and self.last_run_at is not None else ""

    @property
    def executed_at(self) -> datetime | None:
        """The last run if the application has set it, so that the score does not follow it; else None."""
        return None if self.score_follows_last_run else self.last_run_at

    def after_run(self, fire_time: datetime) -> Meta:
        """Return the meta after one more run, which the next score follows."""
        count = min(self.total_run_count + 1, MAX_COUNT)
        return Meta(last_run_at=fire_time, total_run_count=count, score_follows_last_run=True, extra=self.extra)

    def followed_by_score(self) -> Meta:
        """Return the meta to store with a score that follows its last run; ``self`` when nothing changes."""
        is_done = self.score_follows_last_run or self.last_run_at is None
        return self if is_done else self._replace(score_follows_last_run=True)


#: The meta of an entry that never ran.
NEW = Meta()


def _decode(stored: Any) -> datetime | None:
    if stored is None:
        return None
    path = "meta.last_run_at"
    try:
        return decode_datetime(stored, path).astimezone(timezone.utc)
    except OverflowError as exc:
        raise InvalidEntry(path, f"{text_of(exc)} in UTC") from exc
