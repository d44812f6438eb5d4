"""Datetimes as texts of a file: ISO 8601, and behind it the zone as RFC 9557 writes it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from redisbeater.display import quoted
from redisbeater.exceptions import InvalidEntry
from redisbeater.schedules.zones import decode_datetime, encode_datetime, read_zone

__all__ = ("moment_of", "moment_text")

_ZONED = re.compile(r"(?P<local>[^\[\]]+)\[(?P<zone>[^\[\]]+)\]")


def moment_text(stored: Any) -> Any:
    """Return the text of a stored datetime: ``2026-11-23T09:00:00+01:00[Europe/Vienna]``.

    A naive one has neither offset nor zone. What is no datetime, or would be read otherwise, is returned unchanged.
    """
    if not isinstance(stored, Mapping):
        return stored
    try:
        moment = decode_datetime(dict(stored), "$", None)
        zone = stored.get("timezone")
        text = moment.isoformat() + (f"[{zone}]" if isinstance(zone, str) and zone != "UTC" else "")
        return text if encode_datetime(moment_of(text, "$")) == stored else stored
    except InvalidEntry:
        return stored


def moment_of(value: Any, path: str) -> Any:
    """Return the datetime of a text in the form of ISO 8601, perhaps with a zone; return anything else unchanged.

    Raises:
        InvalidEntry: the text is no such time, or its zone has another offset then.
    """
    if not isinstance(value, str):
        return value
    zoned = _ZONED.fullmatch(value)
    text = zoned["local"] if zoned else value
    text = f"{text[:-1]}+00:00" if text.endswith(("Z", "z")) else text
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as exc:
        raise InvalidEntry(path, f"{quoted(value)}: expected a time such as 2026-11-23T09:00") from exc
    return _in_zone(moment, zoned["zone"], path) if zoned else moment


def _in_zone(moment: datetime, name: str, path: str) -> datetime:
    """Return a time with its zone; the offset in its text tells the two passes of a repeated hour apart.

    Raises:
        InvalidEntry: there is no such zone, or its offset is another one then.
    """
    zone, offset = read_zone(name, path), moment.utcoffset()
    passes = [moment.replace(tzinfo=zone, fold=fold) for fold in (0, 1)]
    for local in passes:
        if offset in (None, local.utcoffset()):
            return local
    raise InvalidEntry(path, f"{name} has another offset then: write {passes[0].isoformat()}[{name}]")
