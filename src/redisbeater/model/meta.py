"""The meta of an entry: what became of it so far; and its stored text.

Only the two fields that RedBeat knows are written: it hands every field of ``meta`` to a constructor that refuses
others, so one more would take the entry away from RedBeat. What we must know besides is told by a blank behind the
text, which JSON ignores and whoever else writes the meta leaves out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from typing import Any

from redisbeater.exceptions import InvalidEntry
from redisbeater.model import json_text
from redisbeater.model.meta_text import read_usual, usual_text
from redisbeater.schedules.datetime_codec import decode_datetime, encode_datetime

__all__ = ("NEW", "Meta")

_OURS = ("last_run_at", "total_run_count")

#: Stands behind a text that we wrote and nobody has written since, where the score counts from its last run.
_MARK = " "


@dataclass(frozen=True, kw_only=True)
class Meta:
    """What became of an entry so far.

    ``last_run_at`` is the fire time of the last run, aware UTC; None before the first. ``is_counted`` says that the
    score counts from it; else the application has set it. ``extra`` holds fields that the application put there; they
    are kept.
    """

    last_run_at: datetime | None = None
    total_run_count: int = 0
    is_counted: bool = False
    extra: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def from_text(cls, text: str | None) -> Meta:
        """The meta of a stored text; none stored is that of an entry that never ran.

        Raises:
            InvalidEntry: it is not JSON, or a field cannot be read.
        """
        if not text:
            return NEW
        is_counted = text.endswith("}" + _MARK)
        usual = read_usual(text.removesuffix(_MARK))
        if usual is not None:
            return cls(last_run_at=usual[0], total_run_count=usual[1], is_counted=is_counted)
        data = json_text.from_text(text, "meta")
        if not isinstance(data, dict):
            raise InvalidEntry("meta", f"expected an object, got {type(data).__name__}")
        count = data.get("total_run_count") or 0
        if not isinstance(count, int):
            raise InvalidEntry("meta.total_run_count", f"expected a whole number, got {count!r}")
        return cls(
            last_run_at=_decode(data.get("last_run_at")),
            total_run_count=count,
            is_counted=is_counted,
            extra={key: value for key, value in data.items() if key not in _OURS},
        )

    def to_text(self) -> str:
        """The stored text, in RedBeat's form."""
        usual = None if self.extra else usual_text(self.last_run_at, self.total_run_count)
        text = usual or json_text.to_text(self._data())
        return text + _MARK if self.is_counted else text

    @property
    def executed_at(self) -> datetime | None:
        """The last run, when the score does not count from it: then the application has set it."""
        return None if self.is_counted else self.last_run_at

    def after_run(self, fire_time: datetime) -> Meta:
        """The meta once one more run was sent, from which the next score counts."""
        count = self.total_run_count + 1
        return Meta(last_run_at=fire_time, total_run_count=count, is_counted=True, extra=self.extra)

    def counted(self) -> Meta:
        """The meta beside a score that counts from its last run; itself when it says so, or has none."""
        return self if self.is_counted or self.last_run_at is None else replace(self, is_counted=True)

    def _data(self) -> dict[str, Any]:
        last_run_at = None if self.last_run_at is None else encode_datetime(self.last_run_at)
        return {"last_run_at": last_run_at, "total_run_count": self.total_run_count, **self.extra}


#: The meta of an entry that never ran.
NEW = Meta()


def _decode(stored: Any) -> datetime | None:
    if stored is None:
        return None
    path = "meta.last_run_at"
    try:
        return decode_datetime(stored, path).astimezone(timezone.utc)
    except OverflowError as exc:
        raise InvalidEntry(path, f"{exc} in UTC") from exc
