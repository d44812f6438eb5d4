"""Redaction: what a key that names a secret holds is blanked where it is shown, never where it is sent or kept.

A value is blanked by its keys, before anything quotes it. Of a text that other code wrote, such as an error, it is
blanked behind each such key, in whatever quotes: ``'token': 'x'``, ``\\"token\\": 5``, ``token=x``, ``Token: x``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Any

#: What is shown instead of a secret.
BLANK = "***"

#: The keys that name a secret unless ``redisbeater_redact`` says otherwise.
DEFAULT_PATTERNS = (
    "password", "passwd", "secret", "token", "api_key", "apikey", "private_key", "authorization", "cookie",
    "credentials", "_dsn_",
)  # fmt: skip

#: A secret that is shorter is not looked for in texts: it may be any part of any word.
LEAST_LITERAL = 4

#: The patterns that errors and lines of logs of this process obey: Python's loggers and the code that raises belong to
#: no app, so those of every app whose settings are read here count, together.
_hidden: dict[str, None] = dict.fromkeys(DEFAULT_PATTERNS)


def hide(patterns: Iterable[str]) -> None:
    """Let errors and lines of logs of this process obey the patterns of one more app."""
    _hidden.update(dict.fromkeys(patterns))


def hidden() -> tuple[str, ...]:
    """Return the patterns of keys whose values no error and no line of a log shows."""
    return tuple(_hidden)


def redacted(value: Any, patterns: tuple[str, ...], *, in_texts: bool = False) -> Any:
    """Return a value in which what a matching key holds is blanked, at any depth.

    Arguments:
        value: objects and lists within one another; it is not changed.
        patterns: as :func:`names_secret` takes them.
        in_texts: whether the keys in its texts count, too, such as those of JSON in an argument.
    """
    if isinstance(value, dict):
        return {
            key: BLANK if names_secret(str(key), patterns) else redacted(item, patterns, in_texts=in_texts)
            for key, item in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [redacted(item, patterns, in_texts=in_texts) for item in value]
    return redacted_text(value, patterns) if in_texts and isinstance(value, str) else value


def redacted_field(field: str, value: Any, patterns: tuple[str, ...]) -> Any:
    """Return the value of a field, or of a part of one such as ``kwargs.password``, without the secrets in it."""
    is_secret = "." in field and value is not None and names_secret(field.partition(".")[2], patterns)
    return BLANK if is_secret else redacted(value, patterns, in_texts=True)


@lru_cache(maxsize=4096)
def names_secret(key: str, patterns: tuple[str, ...]) -> bool:
    """Return whether a key, or one of those in a path, matches one of the patterns.

    A pattern is a part of the key in any case. ``_`` stands for whatever separates words, also for the step from
    ``api`` to ``Key`` in ``apiKey``, and at its begin or end for that of the key; ``*`` and ``?`` for any characters.
    """
    plain = {_words(key), _words(_HUMP.sub("_", key))}
    return any(fnmatchcase(each, f"*{_words(pattern, '')}*") for pattern in patterns for each in plain)


_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")

_SEPARATOR = re.compile(r"[-\s.$\[\]]")


def _words(key: str, edge: str = "_") -> str:
    return f"{edge}{_SEPARATOR.sub('_', key).lower()}{edge}"


def secrets_of(value: Any, patterns: tuple[str, ...], *, is_secret: bool = False) -> Iterator[str]:
    """Yield the texts and numbers that matching keys hold, at any depth, that are long enough to be looked for."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from secrets_of(item, patterns, is_secret=is_secret or names_secret(str(key), patterns))
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from secrets_of(item, patterns, is_secret=is_secret)
    elif is_secret and type(value) in (str, int, float) and len(text := str(value)) >= LEAST_LITERAL:
        yield text


#: A key and its sign: the end of one in quotes, ``"key":``, ``'key' =>``, ``x["key"] =`` or ``("key",``, or a bare one,
#: ``key=``, ``key: `` or ``key:"``. Not that of ``$.key: problem``: our own errors are redacted as they are made.
_KEY = re.compile(
    r"(?<!\\)(?P<slashes>\\*)(?P<quote>[\"'])(?:\s*(?P<sign>:|=>?(?!=)|,)|\]\s*=(?!=))\s*"
    r"|(?<![\w$.@])(?P<bare>[A-Za-z_][\w.-]{0,60})(?:\s*=(?!=)\s*|(?P<to_line_end>:[ \t]+)|:(?=\\*[\"']))"
)

#: Characters in front of the end of a key among which it begins.
_LONGEST_KEY = 600

_QUOTE = re.compile(r"[bBuUrRfF]{0,2}(?P<slashes>\\*)(?P<quote>[\"'])")
_PIECE = re.compile(r"(?<!\\)(?P<slashes>\\*)(?P<quote>[\"'])|(?P<opened>[\[({])|(?P<closed>[\])}])|[\s,;&<>]")
_BLANKED = re.compile(rf"\\*[\"']?{re.escape(BLANK)}(?:\\*[\"']|[\s,;&)\]}}]|\Z)")
_NEXT_KEY = re.compile(r"\s|[\w.-]+\s*=")
_REST_OF_LINE = re.compile(r"(?:(?!\\+[rn])[^\r\n])*")
_ESCAPE = re.compile(r"\\+(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2}))")

#: What is blanked whatever the patterns are: a password in a URL, unless a port is there, and what identifies a caller.
_LOGIN = re.compile(r"(://[^\s:/?#@\"'<>]{0,256}:)(?!\d{1,5}[/?#])[^\s\"'<>]{1,256}(?=@)")
_CREDENTIALS = re.compile(r"\b(Basic|Bearer)(\s+)(?=[^\s\"']{0,256}\d)[\w.~+/=-]{8,}", re.IGNORECASE)


def redacted_text(text: str, patterns: tuple[str, ...], secrets: Iterable[str] = ()) -> str:
    """Return a text of any code with the values of matching keys blanked; one that is cut off up to the end.

    Passwords in URLs, what follows ``Bearer`` and ``Basic``, and ``secrets`` wherever they occur are blanked, too.
    """
    for secret in sorted(secrets, key=len, reverse=True):
        for form in {secret, repr(secret)[1:-1], json.dumps(secret)[1:-1]}:
            text = text.replace(form, BLANK)
    plain = text.lower()
    if "://" in plain:
        text = _LOGIN.sub(rf"\1{BLANK}", text)
    if "bearer" in plain or "basic" in plain:
        text = _CREDENTIALS.sub(rf"\1\2{BLANK}", text)
    if not any(needle in plain for needle in _needles(patterns)) and not ("\\" in text and _ESCAPE.search(text)):
        return text
    pieces, place = [], 0
    for key in _KEY.finditer(text):
        is_secret = key.start() >= place and (name := _name_of(key)) and names_secret(name, patterns)
        if is_secret and (end := _end_of_value(key)):
            value = _QUOTE.match(text, key.end())
            delimiter = value[0].lstrip("bBuUrRfF") if value else (key["slashes"] or "") + (key["quote"] or "")
            pieces += [text[place : key.end()], delimiter, BLANK, delimiter]
            place = end
    return "".join([*pieces, text[place:]])


@lru_cache(maxsize=64)
def _needles(patterns: tuple[str, ...]) -> tuple[str, ...]:
    """Return words of which a text has one if a key without escapes in it matches; few texts have any."""
    return tuple(max(re.split(r"[_*?]+", _words(pattern, "")), key=len) for pattern in patterns)


def _name_of(key: re.Match[str]) -> str:
    """Return the name of a key; empty for what ends in quotes and is none."""
    if key["bare"]:
        return key["bare"]
    text, end, level = key.string, key.start(), _level(key["slashes"])
    least = max(end - _LONGEST_KEY, 0)
    begin = text.rfind(key["quote"], least, end)
    while begin >= 0 and _level(slashes := _slashes_before(text, begin)) > level:
        begin = text.rfind(key["quote"], least, begin - len(slashes))
    if begin < 0 or (key["sign"] == "," and not text[:begin].rstrip("\\bBuU").endswith("(")):
        return ""
    return _ESCAPE.sub(lambda found: chr(int(found[1] or found[2], 16)), text[begin + 1 : end])


def _slashes_before(text: str, place: int) -> str:
    begin = place
    while begin and text[begin - 1] == "\\":
        begin -= 1
    return text[begin:place]


def _level(slashes: str) -> int:
    """Return how many backslashes are a quote's own, by the texts around it: 1, 3, 7; others belong to its text."""
    return (len(slashes) ^ (len(slashes) + 1)) >> 1


def _end_of_value(key: re.Match[str]) -> int:
    """Return where the value of a key ends, or 0 if it is blank already or the two texts are no pair."""
    text, place = key.string, key.end()
    if _BLANKED.match(text, place):
        return 0
    if quote := _QUOTE.match(text, place):
        end = _end_of_quoted(text, quote.end(), quote)
        return end if key["sign"] != "," or text[end:].lstrip()[:1] in (")", "") else 0
    if key["sign"] == ",":
        return 0
    if key["to_line_end"] and text[place : place + 1] not in ("{", "[", "("):
        return _REST_OF_LINE.match(text, place).end()  # type: ignore[union-attr]  # it matches any text
    return _end_of_bare(text, place)


def _end_of_quoted(text: str, place: int, opened: re.Match[str]) -> int:
    """Return where a value in quotes ends: behind them, before the quote that ends the text around it, or with all."""
    level = _level(opened["slashes"])
    for quote in _PIECE.finditer(text, place):
        if quote["quote"] == opened["quote"] and _level(quote["slashes"]) == level:
            return quote.end()
        if quote["quote"] and _level(quote["slashes"]) < level:
            return quote.start()
    return len(text)


def _end_of_bare(text: str, place: int) -> int:
    """Return where a value without quotes ends: at a blank or comma, or at what ends the list around it."""
    depth = 0
    while piece := _PIECE.search(text, place):
        place = piece.end()
        if piece["quote"]:
            place = _end_of_quoted(text, place, piece)
        elif piece["opened"]:
            depth += 1
        elif piece["closed"]:
            depth -= 1
        if depth < 0 or (depth == 0 and not piece["closed"] and _is_end(text, piece)):
            return piece.start()
    return len(text)


def _is_end(text: str, piece: re.Match[str]) -> bool:
    if piece["quote"] or piece["opened"]:
        return False
    return piece[0] != "," or _NEXT_KEY.match(text, piece.end()) is not None
