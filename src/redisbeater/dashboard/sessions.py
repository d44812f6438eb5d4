"""The cookie of somebody who has logged in: signed, so that no process needs to remember it."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from redisbeater.dashboard.address import is_secure, root_of

__all__ = ("Sessions", "session_of")

#: The name of the cookie, and how long a login lasts.
COOKIE, SECONDS = "redisbeater", 12 * 3600


class Sessions:
    """Signs and reads the cookies of one way to log in; every process with the same secrets reads them.

    Arguments:
        secrets: what the key of the signature is derived from. Another secret ends all sessions.
    """

    def __init__(self, *secrets: str) -> None:
        self._key = hashlib.sha256("\0".join(("redisbeater dashboard", *secrets)).encode()).digest()

    def begin(self, request: Request, response: Response, name: str) -> None:
        """Set the cookie of somebody who has just logged in. It is a new one: nothing of a former one is kept."""
        content = base64.urlsafe_b64encode(json.dumps([name, int(time.time()) + SECONDS]).encode()).decode()
        response.set_cookie(COOKIE, f"{content}.{self._signature(content)}", max_age=SECONDS, **_attributes(request))

    def end(self, request: Request, response: Response) -> None:
        """Delete the cookie."""
        response.delete_cookie(COOKIE, **_attributes(request))

    def name(self, request: Request) -> str | None:
        """Return who has logged in; None without a cookie of ours that is still valid."""
        content, _, signature = session_of(request).partition(".")
        if not hmac.compare_digest(signature.encode(), self._signature(content).encode()):
            return None
        name, until = json.loads(base64.urlsafe_b64decode(content))
        return str(name) if time.time() < until else None

    def _signature(self, content: str) -> str:
        return hmac.new(self._key, content.encode(), hashlib.sha256).hexdigest()


def session_of(request: Request) -> str:
    """Return the session of a request as its cookie names it, valid or not; empty: it has none."""
    return request.cookies.get(COOKIE, "")


def _attributes(request: Request) -> dict[str, Any]:
    """Return the cookie's attributes: for this mount only, no script reads it, and no other site's form sends it."""
    return {
        "path": root_of(request) or "/",
        "secure": is_secure(request),
        "httponly": True,
        "samesite": "lax",
    }
