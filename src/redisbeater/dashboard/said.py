"""What the page says after a change, on the next page, and how to undo it: kept in a cookie for half a minute."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from redisbeater.dashboard.address import is_secure, root_of

__all__ = ("Said", "forget", "heard", "say")

COOKIE, SECONDS = "redisbeater_said", 30

#: The paths that an undo may post to: a cookie is data.
UNDOING = frozenset({"/entry", "/entries/enable", "/entries/disable", "/entries/restore", "/entries/skip-next"})

#: Characters of a cookie that every browser takes.
MOST_CHARACTERS = 3_500


@dataclass(frozen=True, kw_only=True)
class Said:
    """A sentence about what was done.

    Attributes:
        text: the sentence.
        undo: the path of the form that undoes it; empty: it cannot be undone.
        fields: the fields of that form.
    """

    text: str
    undo: str = ""
    fields: list[tuple[str, str]] = field(default_factory=list)


def say(request: Request, response: Response, said: Said) -> None:
    """Let the next page say it; without its undo where that is too long."""
    text = _encoded(said)
    if len(text) > MOST_CHARACTERS:
        text = _encoded(Said(text=said.text[:500]))
    response.set_cookie(COOKIE, text, max_age=SECONDS, httponly=True, samesite="strict", **_attributes(request))


def heard(request: Request) -> Said | None:
    """Return what is to be said; None: nothing, or no cookie of ours."""
    try:
        text, undo, fields = json.loads(base64.urlsafe_b64decode(request.cookies.get(COOKIE, "")))
        pairs = [(str(name), str(value)) for name, value in _pairs(fields)]
    except (ValueError, TypeError, binascii.Error, RecursionError):
        return None
    is_ours = isinstance(text, str) and (undo == "" or undo in UNDOING)
    return Said(text=text, undo=undo, fields=pairs) if is_ours else None


def forget(request: Request, response: Response) -> None:
    """Delete what was said."""
    response.delete_cookie(COOKIE, **_attributes(request))


def _encoded(said: Said) -> str:
    return base64.urlsafe_b64encode(json.dumps([said.text, said.undo, said.fields]).encode()).decode()


def _pairs(fields: Any) -> Iterable[Any]:
    return fields if isinstance(fields, list) else []


def _attributes(request: Request) -> dict[str, Any]:
    return {"path": root_of(request) or "/", "secure": is_secure(request)}
