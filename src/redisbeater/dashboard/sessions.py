"""The sessions of people who have logged in: signed cookies, and in Redis those that were ended before their time."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets
import time
from typing import Any, NamedTuple

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from redisbeater.dashboard.address import is_secure, root_of
from redisbeater.store.records import PageKeys

#: How long a login lasts.
SECONDS = 12 * 3600


class Session(NamedTuple):
    """A login: its random id, the name of its person, and until when it lasts, in UNIX seconds."""

    id: str
    name: str
    until: int


class Sessions:
    """The sessions of one page. Every process with the same secrets and the same schedule reads its cookies.

    Cookies know no port. So the name of ours, and its signature, tell apart the pages of a host: by their secrets,
    by the prefix of their schedule, and by the path that they are mounted under.

    Arguments:
        key: signs the cookies; another one ends all sessions.
        prefix: that of the schedule's keys.
        store: keeps which sessions were ended.
    """

    def __init__(self, key: bytes, prefix: str, store: PageKeys) -> None:
        self._key = key
        self._prefix = prefix
        self._store = store

    def begin(self, request: Request, response: Response, name: str) -> None:
        """Set a new session cookie for somebody who has just logged in; keep nothing of a former one."""
        session = Session(secrets.token_urlsafe(16), name, int(time.time()) + SECONDS)
        content = base64.urlsafe_b64encode(json.dumps(session).encode()).decode()
        signed = f"{content}.{self._signature(request, content)}"
        response.set_cookie(self._cookie(request), signed, max_age=SECONDS, **_attributes(request))

    def of(self, request: Request) -> Session | None:
        """Return the session of a request, ended or not; None without a cookie of ours that has not expired."""
        content, _, signature = request.cookies.get(self._cookie(request), "").partition(".")
        if not hmac.compare_digest(signature.encode(), self._signature(request, content).encode()):
            return None
        session = Session(*json.loads(base64.urlsafe_b64decode(content)))
        return session if time.time() < session.until else None

    async def has_ended(self, session: Session) -> bool:
        """Return whether somebody has logged out of a session, in any process.

        Raises:
            StoreError: Redis cannot be asked.
        """
        return await run_in_threadpool(self._store.has_ended, session.id)

    async def end(self, session: Session) -> None:
        """End a session for everybody who has its cookie.

        Raises:
            StoreError: Redis does not keep it, and the session goes on.
        """
        await run_in_threadpool(self._store.end_session, session.id, max(session.until - int(time.time()), 1))

    def forget(self, request: Request, response: Response) -> None:
        """Delete the cookie."""
        response.delete_cookie(self._cookie(request), **_attributes(request))

    def _cookie(self, request: Request) -> str:
        return f"redisbeater_session_{self._signature(request, '')[:12]}"

    def _signature(self, request: Request, content: str) -> str:
        text = json.dumps([self._prefix, root_of(request), content])
        return hmac.new(self._key, text.encode(), hashlib.sha256).hexdigest()


def _attributes(request: Request) -> dict[str, Any]:
    """Return the cookie's attributes: for this mount only, no script reads it, and no other site's form sends it."""
    return {
        "path": root_of(request) or "/",
        "secure": is_secure(request),
        "httponly": True,
        "samesite": "lax",
    }
