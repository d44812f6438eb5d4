"""JSON text as it is stored: a value is read back exactly as it was written, or refused with its path."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from itertools import accumulate, repeat
from typing import Any, NoReturn

from redisbeater.display import quoted
from redisbeater.exceptions import InvalidEntry

#: How many lists and objects may lie inside one another, the outermost included. Python stops at 1000 frames, of which
#: copy.deepcopy, YAML and Celery's own code take several for each level; Ruby's JSON reads no more than 100 levels.
MAX_DEPTH = 100

#: Digits of the longest whole number that Python reads and writes by default: more take too long to convert.
MAX_DIGITS = 4300

_TOO_LARGE = 10**MAX_DIGITS

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

#: A string, which may hold brackets, or a bracket. Without its last ``?``, a cut-off string would be searched again
#: from each of its quotes.
_STRING_OR_BRACKET = re.compile(r'"(?:[^"\\]|\\.)*"?|[][{}]', re.DOTALL)

_FIELD = re.compile(r"[^.[]*(\.[^.[]*)?")

_DEPTH_CHANGES = {"[": 1, "{": 1, "]": -1, "}": -1}


def check_value(value: Any, path: str, *, max_depth: int = MAX_DEPTH) -> None:
    """Refuse a value that JSON would not return as it was; only tuples are accepted, and come back as lists.

    Raises:
        InvalidEntry: with the path of the first such value, or the field that is nested too deeply.
    """
    if not is_plain(value, max_depth):
        _check_closely(value, path, max_depth)


def is_plain(value: Any, max_depth: int = MAX_DEPTH) -> bool:
    """Tell quickly whether JSON returns a value as it was; where it says no, :func:`check_value` looks closely."""
    kind = type(value)
    if kind is str:
        return value.isascii()
    if kind is list:
        return max_depth > 0 and all(map(is_plain, value, repeat(max_depth - 1)))
    if kind is dict:
        return (
            max_depth > 0
            and all(map(_is_plain_key, value))
            and all(map(is_plain, value.values(), repeat(max_depth - 1)))
        )
    if kind is int:
        return -_TOO_LARGE < value < _TOO_LARGE
    return kind is bool or value is None or (kind is float and math.isfinite(value))


def _is_plain_key(key: Any) -> bool:
    return type(key) is str and key.isascii()


def _check_closely(value: Any, path: str, max_depth: int) -> None:
    if value is None or isinstance(value, bool):
        return
    if isinstance(value, int):
        if not -_TOO_LARGE < value < _TOO_LARGE:
            raise InvalidEntry(path, f"is a whole number of more than {MAX_DIGITS} digits; use a text")
    elif isinstance(value, str):
        _check_str(value, path)
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise InvalidEntry(path, f"{quoted(value, at=path)} is not JSON; use None, or a text")
    elif isinstance(value, (list, tuple, dict)):
        _check_container(value, path, max_depth)
    else:
        kind = type(value).__name__
        hint = f"; {_HINTS[kind]}" if kind in _HINTS else ""
        article = "an" if kind[0] in "aeioAEIO" else "a"
        raise InvalidEntry(path, f"{article} {kind} cannot be stored as JSON{hint}")


def _check_container(value: list[Any] | tuple[Any, ...] | dict[Any, Any], path: str, max_depth: int) -> None:
    if max_depth <= 0:
        _refuse_depth(_FIELD.match(path)[0])  # type: ignore[index]  # it matches any text
    if isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str):
                raise InvalidEntry(path, f"the key {quoted(key)} would come back as a text; use a text")
            _check_str(key, path)
            _check_closely(item, f"{path}.{key}", max_depth - 1)
    else:
        for index, item in enumerate(value):
            _check_closely(item, f"{path}[{index}]", max_depth - 1)


def _check_str(value: str, path: str) -> None:
    try:
        value.encode()
    except UnicodeEncodeError as exc:
        raise InvalidEntry(path, f"{quoted(value, at=path)} is not valid unicode") from exc


def _refuse_depth(field: str) -> NoReturn:
    raise InvalidEntry(field, f"nested too deeply; at most {MAX_DEPTH} lists and objects may lie inside one another")


def to_text(value: Any) -> str:
    """Return the text of a checked value, without blanks: Redis stores every one of them."""
    return _encode(value)


def canonical(value: Any) -> str:
    """Return a text that is the same for values that differ only in the order of the keys of their objects."""
    return _encode_sorted(value)


def from_text(text: str, path: str) -> Any:
    """Return the value of a stored text.

    Raises:
        InvalidEntry: it is not JSON (``NaN``, ``Infinity`` and ``1e999`` are not), or nested too deeply.
    """
    return _decoded(text, path, _decode)


def from_person(text: str, path: str) -> Any:
    """Return the value of a text that somebody typed, as :func:`from_text` does; refuse a key that is there twice.

    Raises:
        InvalidEntry: it is not JSON, or nested too deeply, or has a key twice.
    """
    return _decoded(text, path, _decode_unique)


def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return these pairs as an object.

    Raises:
        ValueError: a key is there twice.
    """
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"{quoted(next(key for key in keys if keys.count(key) > 1))} is there twice")
    return found


def _decoded(text: str, path: str, decode: Callable[[str], Any]) -> Any:
    if not text.isascii():
        _check_str(text, path)
    if text.count("[") + text.count("{") > MAX_DEPTH and _depth(text) > MAX_DEPTH:
        _refuse_depth(path)
    try:
        return decode(text)
    except ValueError as exc:
        raise InvalidEntry(path, f"not JSON: {exc}") from exc


def _depth(text: str) -> int:
    """Return how many lists and objects of a text lie inside one another, before a parser recurses into them."""
    return max(accumulate(_DEPTH_CHANGES.get(token, 0) for token in _STRING_OR_BRACKET.findall(text)))


def _finite(digits: str) -> float:
    number = float(digits)
    return number if math.isfinite(number) else _refuse_constant(digits)


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a finite number")


def copied(value: Any) -> Any:
    """Return a copy that shares no list or dict with the value, for a caller that may write into it."""
    if isinstance(value, dict):
        return {key: copied(item) for key, item in value.items()}
    return [copied(item) for item in value] if isinstance(value, list) else value


_encode = json.JSONEncoder(allow_nan=False, separators=(",", ":")).encode
_encode_sorted = json.JSONEncoder(sort_keys=True, separators=(",", ":")).encode
_decode = json.JSONDecoder(parse_constant=_refuse_constant, parse_float=_finite).decode
_decode_unique = json.JSONDecoder(parse_constant=_refuse_constant, parse_float=_finite, object_pairs_hook=unique).decode


def changed_parts(field: str, before: Any, after: Any) -> list[tuple[str, Any, Any]]:
    """Return the parts of a field that have changed, each with its values: arguments and options by name one by one."""
    if field not in ("kwargs", "options") or not (isinstance(before, dict) and isinstance(after, dict)):
        return [(field, before, after)]
    values = ((key, before.get(key), after.get(key)) for key in {**before, **after})
    return [(f"{field}.{key}", was, is_) for key, was, is_ in values if canonical(was) != canonical(is_)]
