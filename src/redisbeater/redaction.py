"""Redaction: what a key that names a secret holds is blanked where it is shown, never where it is sent or kept.

A value is blanked by its keys, before anything quotes it. Of a text that other code wrote, such as an error, it is
blanked behind each such key, in whatever quotes: ``'token': 'x'``, ``\\"token\\": 5``, ``token=x``, ``Token: x``,
``--token x``. Secrets that are known, such as those among the arguments of a run, are blanked wherever a text has them,
also where ``repr``, JSON or a URL has put escapes into them.
"""

from __future__ import annotations

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

#: A secret that is shorter is not looked for in texts: it may be any part of any word. Words of longer ones are, from
#: ``LEAST_WORD`` characters on, and a long one is known by its begin: other code cuts off what it quotes.
LEAST_LITERAL, LEAST_WORD, MOST_BEGIN = 4, 8, 16

#: Characters of a text of other code that are looked through for secrets; the rest is not shown.
MOST_REDACTED = 20_000

#: Characters of the texts of one run that are looked through for keys, URLs and words of secrets: more would keep a
#: worker busy at the end of a bulk task. What a matching key holds behind them is still blanked, as a whole.
MOST_SEARCHED = 200_000

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


def secrets_of(value: Any, patterns: tuple[str, ...]) -> Iterator[str]:
    """Yield the secrets in a value, at any depth, that are long enough to be looked for, without escapes.

    Those are the texts and numbers that matching keys hold, and their longer words; and what is blanked in other texts,
    such as the password of a URL. Of a large value, the texts behind its first ``MOST_SEARCHED`` characters are not
    looked through: of them only what matching keys hold is yielded.
    """
    searched = 0
    for text, is_secret in _texts_of(value, patterns, is_secret=False):
        found = [text] if is_secret else []
        if searched < MOST_SEARCHED:
            searched += len(text)
            redacted_text(text, patterns, blanked=found)
            found += [word for each in found for word in _BETWEEN_WORDS.split(each) if len(word) >= LEAST_WORD]
        for plain in {_plain(each): None for each in found}:
            if len(plain) >= LEAST_LITERAL and plain not in _NO_SECRETS:
                yield plain


def _texts_of(value: Any, patterns: tuple[str, ...], *, is_secret: bool) -> Iterator[tuple[str, bool]]:
    """Yield the texts in a value, at any depth, and whether a matching key holds them; numbers only if one does."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _texts_of(item, patterns, is_secret=is_secret or names_secret(str(key), patterns))
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _texts_of(item, patterns, is_secret=is_secret)
    elif type(value) in (str, bytes) or (is_secret and type(value) in (int, float)):
        text = value.decode(errors="replace") if isinstance(value, bytes) else str(value)
        yield text[:MOST_REDACTED], is_secret


_NO_SECRETS = frozenset({"None", "null", "True", "true", "False", "false"})
_BETWEEN_WORDS = re.compile(r"[\s,;&=\"']+")

#: A character as ``repr``, JSON, ``bytes`` and URLs write it, or a text that all of them leave alone.
_SLASHES = r"(?:\\|%(?:25)*5[cC])+"
_SPELLED = re.compile(
    rf"(?P<bytes>(?:(?:{_SLASHES}x|%(?!(?:25)*5[cC])(?:25)*)[0-9a-fA-F]{{2}})+)|(?P<units>(?:{_SLASHES}u[0-9a-fA-F]{{4}})+)"
    rf"|{_SLASHES}(?:U(?P<wide>[0-9a-fA-F]{{8}})|(?P<named>[nrt]?))|(?P<plain>[^\\%+\x80-\U0010ffff]+)|.",
    re.DOTALL,
)
_MARKS = re.compile(rf"{_SLASHES}[xu]|%(?:25)*(?=[0-9a-fA-F]{{2}})")


def _plain(text: str) -> str:
    """Return a text without escapes; most have none."""
    return text if _WITHOUT_ESCAPES.fullmatch(text) else _unescaped(text)[0]


_WITHOUT_ESCAPES = re.compile(r"[^\\%+\x80-\U0010ffff]*")


def _unescaped(text: str) -> tuple[str, list[tuple[int, int]]]:
    """Return a text without escapes, a character for each byte of its UTF-8, and where the text has each of them."""
    pieces: list[str] = []
    places: list[tuple[int, int]] = []
    for found in _SPELLED.finditer(text):
        piece = found[0]
        if found["plain"]:
            places += [(place, place + 1) for place in range(*found.span())]
        else:
            piece = _byte_text(found)
            places += [found.span()] * len(piece)
        pieces.append(piece)
    return "".join(pieces), places


def _byte_text(found: re.Match[str]) -> str:
    kind, text = found.lastgroup, found[0]
    if kind == "units":
        text = bytes.fromhex(_MARKS.sub("", text)).decode("utf-16-be", "replace")
    elif kind == "bytes":
        whole = bytes.fromhex(_MARKS.sub("", text))
        try:
            text = whole.decode()
        except UnicodeDecodeError:  # those of a text, not of its UTF-8
            text = whole.decode("latin-1")
    elif kind == "wide":
        text = chr(min(int(found["wide"], 16), 0x10FFFF))
    elif kind == "named":
        text = {"n": "\n", "r": "\r", "t": "\t", "": ""}[found["named"]]
    return text.replace("+", " ").encode("utf-8", "replace").decode("latin-1")


def _without_literals(text: str, secrets: Iterable[str]) -> str:
    """Return a text in which secrets without escapes are blanked, also those of which it has the first part alone."""
    plain, places = _unescaped(text)
    spans = []
    for secret in set(secrets):
        end = 0
        while (begin := plain.find(secret[:MOST_BEGIN], end)) >= 0:
            end = begin + _common(plain, begin, secret)
            spans.append((places[begin][0], places[end - 1][1]))
    pieces, place = [], 0
    for start, end in sorted(spans):
        if start >= place:
            pieces += [text[place:start], BLANK]
        place = max(place, end)
    return "".join([*pieces, text[place:]])


def _common(text: str, begin: int, secret: str) -> int:
    """Return how many characters of a secret stand in a text, from where its begin does."""
    least, most = min(len(secret), MOST_BEGIN), len(secret)
    while least < most:
        middle = most if text.startswith(secret, begin) else (least + most + 1) // 2
        if text.startswith(secret[:middle], begin):
            least = middle
        else:
            most = middle - 1
    return least


#: What stands between a key and its value. A comparison counts with a text of four characters or more: ``== 'x'`` is
#: how code reads the tokens of a language.
_SIGN = r"(?:[:+]?=>?(?!=)|[!=]=(?=\s*[bBuUrRfF]{0,2}\\*[\"'][^\s\"'\\]{4}))"

#: A key and its sign: the end of one in quotes, ``"key":``, ``'key' =>``, ``x["key"] =``, ``("key",`` or ``"--key",``;
#: a bare one, ``key=``, ``(key)=``, ``key: ``, ``key:"``, ``key:a1`` or that of pydantic's errors; ``--key ``;
#: ``<key>``. Not that of ``$.key: problem``: our own errors are redacted as they are made.
_KEY = re.compile(
    rf"(?<!\\)(?P<slashes>\\*)(?P<quote>[\"'])(?:\s*(?P<sign>:|{_SIGN}|,)|\]\s*{_SIGN})\s*"
    r"|(?<![\w-])--(?P<option>[A-Za-z][\w-]{0,200}(?<!-file)(?<!-path))[ \t]+(?![\s|\]-])"
    r"|<(?:[\w-]{1,60}:)?(?P<tag>[A-Za-z_][\w.-]{0,200})(?:\s[^<>]{0,200})?>(?=[^<\s][^<]{0,2000}</)"
    rf"|(?<![\w.])(?P<bare>[A-Za-z_][\w.-]{{0,200}})(?:\)?\s*{_SIGN}\s*"
    r"|(?P<to_line_end>(?<!Error)(?<!Exception):[ \t]+)|:(?=\\*[\"'\[{])|:(?=\w*[A-Za-z])(?=\w*\d)(?!\w+:)"
    r"|(?:\n|\\+n)[ ]{1,8}[^\n]{0,300}?\[type=\w{1,60}, input_value=)"
)

#: Characters in front of the end of a key among which it begins.
_LONGEST_KEY = 600

_QUOTE = re.compile(
    r"[bBuUrRfF]{0,2}(?P<delimiter>(?P<slashes>\\*)(?P<quote>[\"'])(?P<more>(?:(?P=slashes)(?P=quote)){2})?)"
)
_PIECE = re.compile(r"(?<!\\)(?P<slashes>\\*)(?P<quote>[\"'])|(?P<opened>[\[({<])|(?P<closed>[\])}>])|[\s,;&]")
_NEXT_KEY = re.compile(r"\s|[\w.-]+\s*=")
_REST_OF_LINE = re.compile(r"[|>][-+\d]*[ \t]*(?:\n[ \t]+[^\n]*|\n(?=\n))+|(?:(?!\\+[rn])[^\r\n])*")
_ESCAPE = re.compile(r"(?<!\\)\\+(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2}))")

#: What is blanked whatever the patterns are: a password in a URL, unless a port is there, a long name in its place, and
#: what identifies a caller.
_LOGIN = re.compile(
    r"(?=://[^\s@\"'<>]{0,2305}@)"  # else the rest of a long text is looked through once for each ://
    r"(?:(://[^\s:/?#@\"'<>]{0,256}:)(?!\d{1,5}[/?#])[^\s\"'<>]{1,2048}(?=@)|(://)[^\s:/?#@\"'<>]{20,256}(?=@))"
)
_CREDENTIALS = re.compile(
    r"\b((?:Basic|Bearer)\s+)(?=[^\s\"']{0,256}(?:\d|(?-i:[a-z][A-Z])))[\w.~+/=-]{8,}", re.IGNORECASE
)


def redacted_text(
    text: str, patterns: tuple[str, ...], secrets: Iterable[str] = (), *, blanked: list[str] | None = None
) -> str:
    """Return a text of any code with the values of matching keys blanked; one that is cut off up to the end.

    Arguments:
        text: passwords in URLs, and what follows ``Bearer`` and ``Basic``, are blanked in it as well.
        patterns: as :func:`names_secret` takes them.
        secrets: what is blanked wherever it occurs, as :func:`secrets_of` yields it.
        blanked: a list to which what is blanked otherwise is added.
    """
    blanked = [] if blanked is None else blanked

    def blank(found: re.Match[str]) -> str:
        start = found[found.lastindex or 0]
        blanked.append(found[0][len(start) :])
        return start + BLANK

    secrets = list(secrets)
    text = _without_literals(text, secrets) if secrets else text
    plain = text.lower()
    if "://" in plain:
        text = _LOGIN.sub(blank, text)
    if "bearer" in plain or "basic" in plain:
        text = _CREDENTIALS.sub(blank, text)
    if not any(needle in plain for needle in _needles(patterns)) and not ("\\" in text and _ESCAPE.search(text)):
        return text
    pieces, place = [], 0
    for key in _KEY.finditer(text):
        is_secret = key.start() >= place and (name := _name_of(key)) and names_secret(name, patterns)
        if is_secret and (end := _end_of_value(key, name)) > key.end():
            value = _QUOTE.match(text, key.end())
            delimiter = value["delimiter"] if value else (key["slashes"] or "") + (key["quote"] or "")
            blanked.append(text[value.end() if value else key.end() : end].removesuffix(delimiter))
            pieces += [text[place : key.end()], delimiter, BLANK, delimiter]
            place = end
    return "".join([*pieces, text[place:]])


@lru_cache(maxsize=64)
def _needles(patterns: tuple[str, ...]) -> tuple[str, ...]:
    """Return words of which a text has one if a key without escapes in it matches; few texts have any."""
    return tuple(max(re.split(r"[_*?]+", _words(pattern, "")), key=len) for pattern in patterns)


def _name_of(key: re.Match[str]) -> str:
    """Return the name of a key; empty for what ends in quotes and is none."""
    if not key["quote"]:
        return key["bare"] or key["option"] or key["tag"]
    text, end, level = key.string, key.start(), _level(key["slashes"])
    least = max(end - _LONGEST_KEY, 0)
    begin = text.rfind(key["quote"], least, end)
    while begin >= 0 and _level(slashes := _slashes_before(text, begin)) > level:
        begin = text.rfind(key["quote"], least, begin - len(slashes))
    if begin < 0:
        return ""
    name = _ESCAPE.sub(lambda found: chr(int(found[1] or found[2], 16)), text[begin + 1 : end])
    is_item = key["sign"] == "," and not name.startswith("-")
    return "" if is_item and not text[:begin].rstrip("\\bBuU").endswith("(") else name


def _slashes_before(text: str, place: int) -> str:
    begin = place
    while begin and text[begin - 1] == "\\":
        begin -= 1
    return text[begin:place]


def _level(slashes: str) -> int:
    """Return how many backslashes are a quote's own, by the texts around it: 1, 3, 7; others belong to its text."""
    return (len(slashes) ^ (len(slashes) + 1)) >> 1


def _end_of_value(key: re.Match[str], name: str) -> int:
    """Return where the value of a key ends, or 0 if the two texts are no pair."""
    text, place = key.string, key.end()
    if key["tag"]:
        return (text.find("<", place) + 1 or len(text) + 1) - 1
    if quote := _QUOTE.match(text, place):
        end = _end_of_quoted(text, quote.end(), quote)
        return end if key["sign"] != "," or name.startswith("-") or text[end:].lstrip()[:1] in (")", "") else 0
    if key["sign"] == ",":
        return 0
    if key["to_line_end"] and text[place : place + 1] not in ("{", "[", "("):
        return _REST_OF_LINE.match(text, place).end()  # type: ignore[union-attr]  # it matches any text
    return _end_of_bare(text, place)


def _end_of_quoted(text: str, place: int, opened: re.Match[str]) -> int:
    """Return where a value in quotes ends: behind them, before the quote that ends the text around it, or with all."""
    level, is_single = _level(opened["slashes"]), not opened["more"]
    for quote in _PIECE.finditer(text, place):
        if quote["quote"] and _level(quote["slashes"]) < level:
            return quote.start()
        if quote["quote"] != opened["quote"] or _level(quote["slashes"]) != level or quote.start() < place:
            continue
        end = quote.end()
        if is_single and text.startswith(quote[0], end) and not quote["slashes"]:
            place = end + 1  # a quote that is doubled belongs to the text
        elif is_single and quote["slashes"] and not opened["slashes"] and text[end : end + 1].isalnum():
            continue  # so does one behind two backslashes: ``repr`` has doubled the one of JSON
        elif is_single or text.startswith(opened["delimiter"], quote.start()):
            return quote.start() + len(opened["delimiter"] if opened["more"] else quote[0])
    return len(text)


def _end_of_bare(text: str, place: int) -> int:
    """Return where a value without quotes ends: at a blank or comma, or at what ends the list around it."""
    depth = 0
    while piece := _PIECE.search(text, place):
        place = piece.end()
        if quote := _QUOTE.match(text, piece.start()):
            place = _end_of_quoted(text, quote.end(), quote)
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
