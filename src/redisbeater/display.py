"""Text as people and terminals may see it: without control characters and secrets, and short."""

from __future__ import annotations

import difflib
import json
import math
import re
import reprlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from datetime import date, timedelta
from enum import Enum
from itertools import islice
from typing import Any

from redisbeater.redaction import BLANK, MOST_REDACTED, hidden, names_secret, redacted_text

#: Characters of a reason, an error or a log line at most.
MOST_CHARACTERS = 500

#: Characters of one value that a message quotes.
MOST_QUOTED = 200

#: Items of a dict among which those are that a message quotes.
MOST_ITEMS = 1_000

#: Lists and objects inside one another that JSON shows; a stored definition may have a hundred, below two of ours.
MOST_LEVELS = 110

#: What drives terminals, besides the control characters that JSON escapes: DEL, C1, separators of lines and paragraphs,
#: and the marks that change the direction of text. A part of a regular expression.
MARKS = "\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069"

#: What must not be in a name: these and C0. They forge log lines, and make one name look like another.
_UNSAFE = re.compile(f"[\x00-\x1f{MARKS}]")


def unsafe_character(text: str) -> str | None:
    """Return the first character that must not be in a name, as ``U+XXXX``; None if there is none."""
    found = None if text.isascii() and text.isprintable() else _UNSAFE.search(text)
    return None if found is None else f"U+{ord(found[0]):04X}"


#: How many names a line of the log shows, and how many characters of each.
SHOWN_NAMES, SHOWN_CHARACTERS = 3, 60


def first_of(names: Sequence[str]) -> str:
    """Return the first few names as text, each cut."""
    parts = [repr(name[:SHOWN_CHARACTERS]) + "..." * (len(name) > SHOWN_CHARACTERS) for name in names[:SHOWN_NAMES]]
    return ", ".join([*parts, *(["..."] if len(names) > SHOWN_NAMES else [])])


def text_of(value: Any, convert: Callable[[Any], str] = str, secrets: Iterable[str] = ()) -> str:
    """Return the text of a value, whose class may be unable to return one; that of an error without secrets."""
    try:
        text = str.__str__(convert(value))  # of a class of texts as well, which may have methods of its own
    except Exception:  # anybody's class
        return f"({'an error' if isinstance(value, BaseException) else type(value).__name__} without a text)"
    return without_secrets(text, secrets) if isinstance(value, BaseException) else text


def without_secrets(text: str, secrets: Iterable[str] = ()) -> str:
    """Return a text of other code, cut to ``MOST_REDACTED``, without what no error of this process shows."""
    return redacted_text(text[:MOST_REDACTED], hidden(), secrets) if text else ""


#: What may differ from time to time in the text of one error: addresses, ids, times.
_VARIABLE = re.compile(r"0x[0-9a-fA-F]+|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|\d+\.\d+|\d{5,}")


def fingerprint(error: str) -> str:
    """Return the text of an error without addresses, ids and times, by which the same error is recognized."""
    return _VARIABLE.sub("#", error)


def shown(value: Any, limit: int | None = MOST_CHARACTERS) -> str:
    """Return the text of a value with escapes for what cannot be printed, such as ``\\x1b``, cut to ``limit``."""
    text = text_of(value)
    head = text if limit is None else text[: limit + 1]
    if not head.isprintable():
        head = "".join(char if char.isprintable() else _escape(char) for char in head)
    return head if limit is None or len(head) <= limit else f"{head[: limit - 3]}..."


def quoted(value: Any, limit: int = MOST_QUOTED, *, at: str = "") -> str:
    """Return the ``repr`` of a value, shortened: of a long text its begin and end, of a list its first items.

    Secrets in it are blanked; all of it where ``at``, the path of the value, leads through a key that names one.
    """
    if at and names_secret(at, hidden()):
        return BLANK
    shortened = _QUOTES.repr(value)
    if isinstance(value, str) and len(shortened) > limit:
        return _shortened_text(value, limit)
    return shown(shortened, limit)


#: How like a name of an entry or a task must be that is proposed, from 0 to 1, as difflib measures it.
NEAR = 0.7


def did_you_mean(name: str, known: Iterable[str], *, cutoff: float = 0.6) -> str:
    """Return ``; did you mean 'queue'?`` with the known name that is nearest to this one; empty if none is near."""
    near = difflib.get_close_matches(name, list(known), n=1, cutoff=cutoff)
    return f"; did you mean {near[0]!r}?" if near else ""


def json_form(value: Any) -> Any:
    """Return a value as JSON has it: times as ISO 8601, spans in seconds, sets in their order, objects by their fields.

    Where a class has ``as_dict()``, that counts.
    """
    if isinstance(value, (str, int, float)) or value is None:
        return value.value if isinstance(value, Enum) else value
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, timedelta):
        return round(value.total_seconds(), 3)
    if isinstance(value, Mapping):
        return {json_form(key): json_form(item) for key, item in value.items()}
    if hasattr(value, "_asdict"):
        return json_form(value._asdict())
    if isinstance(value, (list, tuple, frozenset)):
        return [json_form(item) for item in (sorted(value) if isinstance(value, frozenset) else value)]
    return value.as_dict() if hasattr(value, "as_dict") else json_fields(value)


def json_fields(value: Any, *hidden: str) -> dict[str, Any]:
    """Return the fields of an object of a dataclass as a JSON object, without those that are hidden."""
    return {each.name: json_form(getattr(value, each.name)) for each in fields(value) if each.name not in hidden}


def printable_json(value: Any, *, indent: int | None = None) -> str:
    """Return a value as JSON that every parser takes, whatever other programs have stored.

    ``NaN`` and ``Infinity``, what is nested too deeply, and what JSON does not know become texts. In a text that is not
    valid unicode, the odd bytes are escaped.
    """
    return json.dumps(_plain(value, MOST_LEVELS), indent=indent, allow_nan=False)


def _plain(value: Any, levels: int) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if levels and isinstance(value, Mapping):
        return {_plain(str(key), levels): _plain(item, levels - 1) for key, item in value.items()}
    if levels and isinstance(value, (list, tuple)):
        return [_plain(item, levels - 1) for item in value]
    return quoted(value) if isinstance(value, (Mapping, list, tuple)) else _plain(str(value), levels)


def _shortened_text(text: str, limit: int) -> str:
    quotes = _Quotes()
    quotes.maxstring = limit
    return quotes.repr(text)


def _escape(char: str) -> str:
    code = ord(char)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


class _Quotes(reprlib.Repr):
    def __init__(self) -> None:
        super().__init__()
        self.maxlevel, self.maxstring, self.maxother, self.maxlong = 3, MOST_QUOTED, MOST_QUOTED, 80
        self.maxlist = self.maxtuple = self.maxdict = self.maxset = self.maxfrozenset = 10

    def repr_str(self, value: str, level: int) -> str:
        """Return a text in quotes."""
        return super().repr_str(without_secrets(value), level)

    def repr_dict(self, value: dict[Any, Any], level: int) -> str:
        """Return the first items of a dict."""
        items = islice(value.items(), MOST_ITEMS)
        return super().repr_dict({key: BLANK if _names_secret(key) else item for key, item in items}, level)

    def repr_instance(self, value: Any, level: int) -> str:
        """Return the first and last part of a value's own repr."""
        text, half = without_secrets(text_of(value, repr)), self.maxother // 2 - 2
        return text if len(text) <= self.maxother else f"{text[:half]}...{text[-half:]}"

    def repr_int(self, value: int, level: int) -> str:
        """Return the digits of a number, unless Python refuses to write so many."""
        try:
            return super().repr_int(value, level)
        except ValueError:
            return f"a whole number of {value.bit_length()} bits"


def _names_secret(key: Any) -> bool:
    return isinstance(key, str) and names_secret(key, hidden())


_QUOTES = _Quotes()
