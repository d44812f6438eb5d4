"""Outputs as they can be compared: without what differs from one run to the next."""

from __future__ import annotations

import re

__all__ = ("fits",)

_DAY = r"(Mon|Tue|Wed|Thu|Fri|Sat|Sun|mon|tue|wed|thu|fri|sat|sun)"
_DATE = rf"({_DAY} )?\d{{1,2}} [A-Z][a-z]{{2}}( \d{{4}})?"
_ZONE = r"( (CET|CEST|UTC|Europe/Vienna))?"

#: What differs, by the word that takes its place; the order matters.
CHANGING = (
    ("ID", r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"),
    ("VERSION", r"version [0-9a-f]{8}"),
    ("USER", r"\w[\w.-]*@\w[\w.-]*"),
    ("RELEASE", r"(celery|redisbeater|redis|valkey) \d+(\.\d+)+"),
    ("BEAT", r"[a-z][\w.-]*:\d{2,}(:[0-9a-f]+)?"),
    ("TIME", r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?(\.\d+)?(Z|[+-]\d\d:\d\d)?"),
    ("TIME", rf"({_DATE} |{_DAY} )?\d\d:\d\d(:\d\d)?{_ZONE}"),
    ("TIME", _DATE),
    ("SPAN", r"(in )?(now|[\d.,]+ (ms|s|min|h|d)( \d+ (s|min|h))?)( ago)?"),
)


def fits(shown: str, printed: str) -> bool:
    """Return whether a page shows what was printed; ``...`` on the page stands for any text, blanks for any blanks."""
    shown = re.sub(r"\b[0-9a-f]{4}\.\.\.(?! )", "ID", re.sub(r"\b[0-9a-f]{4}\.\.\. ", "ID ", shown))
    parts = [re.escape(_comparable(part)).replace(r"\ ", " ") for part in shown.split("...")]
    pattern = r" ?.*? ?".join(parts)
    return re.fullmatch(pattern, _comparable(printed)) is not None


def _comparable(output: str) -> str:
    for word, pattern in CHANGING:
        output = re.sub(rf"(?<![\w:.]){pattern}(?!\w|:\d)", word, output)
    return " ".join(output.split())
