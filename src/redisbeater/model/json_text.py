"""JSON as it is stored: what goes in comes back exactly, or is refused by the path of the value."""

from __future__ import annotations

import json
import math
from typing import Any, NoReturn

from redisbeater.exceptions import InvalidEntry

__all__ = ("check_value", "copied", "from_text", "is_plain", "to_text")

_HINTS = {
    "datetime": "pass value.isoformat()",
    "date": "pass value.isoformat()",
    "timedelta": "pass value.total_seconds()",
    "set": "pass sorted(value)",
    "bytes": "pass a text, for example base64",
    "UUID": "pass str(value)",
    "Decimal": "pass str(value)",
    "BeatLazyFunc": "compute the value in the task",
}


def check_value(value: Any, path: str) -> None:
    """Refuse what JSON would not give back as it was (a tuple comes back as a list).

    Raises:
        InvalidEntry: with the path of the first such value.
    """
    if not is_plain(value):
        _refuse_one_in(value, path)


def is_plain(value: Any) -> bool:
    """Whether JSON gives a value back as it was, at a glance; where it says no, :func:`check_value` looks closely."""
    kind = type(value)
    if kind is str:
        return value.isascii()
    if kind is list:
        return all(map(is_plain, value))
    if kind is dict:
        return all(map(_is_plain_key, value)) and all(map(is_plain, value.values()))
    return kind is int or kind is bool or value is None or (kind is float and math.isfinite(value))


def _is_plain_key(key: Any) -> bool:
    return type(key) is str and key.isascii()


def _refuse_one_in(value: Any, path: str) -> None:
    if value is None or isinstance(value, (bool, int)):
        return
    if isinstance(value, str):
        _check_str(value, path)
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise InvalidEntry(path, f"{value!r} is not JSON")
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            _refuse_one_in(item, f"{path}[{index}]")
    elif isinstance(value, dict):
        _check_dict(value, path)
    else:
        kind = type(value).__name__
        hint = f"; {_HINTS[kind]}" if kind in _HINTS else ""
        raise InvalidEntry(path, f"a {kind} cannot be stored as JSON{hint}")


def _check_str(value: str, path: str) -> None:
    try:
        value.encode()
    except UnicodeEncodeError as exc:
        raise InvalidEntry(path, f"{value!r} is not valid unicode") from exc


def _check_dict(value: dict[Any, Any], path: str) -> None:
    for key, item in value.items():
        if not isinstance(key, str):
            raise InvalidEntry(path, f"the key {key!r} would come back as a text; use a text")
        _check_str(key, path)
        _refuse_one_in(item, f"{path}.{key}")


def to_text(value: Any) -> str:
    """The text of a checked value, without blanks between its parts: Redis keeps every one of them."""
    return _encode(value)


def from_text(text: str, path: str) -> Any:
    """The value of a stored text.

    Raises:
        InvalidEntry: it is not JSON; ``NaN``, ``Infinity`` and ``1e999`` are not.
    """
    try:
        _check_str(text, path)
        return _decode(text)
    except InvalidEntry:
        raise
    except (ValueError, RecursionError) as exc:
        raise InvalidEntry(path, f"not JSON: {exc}") from exc


def _finite(digits: str) -> float:
    number = float(digits)
    return number if math.isfinite(number) else _refuse_constant(digits)


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a finite number")


def copied(value: Any) -> Any:
    """A copy of a value that shares no list or dict with it: whoever gets it may write into it."""
    if isinstance(value, dict):
        return {key: copied(item) for key, item in value.items()}
    return [copied(item) for item in value] if isinstance(value, list) else value


_encode = json.JSONEncoder(allow_nan=False, separators=(",", ":")).encode
_decode = json.JSONDecoder(parse_constant=_refuse_constant, parse_float=_finite).decode
