"""The stream of events that keeps open pages live."""

from __future__ import annotations

from contextlib import aclosing
from functools import partial

from starlette.exceptions import HTTPException
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from redisbeater.dashboard.hub import Events, TooManyStreams
from redisbeater.dashboard.pages import Action, Visit
from redisbeater.dashboard.users import Right
from redisbeater.exceptions import StoreError

__all__ = ("ACTIONS",)


async def events(visit: Visit) -> Response:
    """Stream what changes: ``entries``, ``runs``, ``status``.

    Raises:
        HTTPException: 503, there are too many streams; the page asks every ten seconds then.
    """
    headers = {"X-Accel-Buffering": "no"}  # nginx passes it on at once
    if visit.request.method == "HEAD":  # its answer has no end that anybody would wait for
        return Response(media_type="text/event-stream", headers=headers)
    try:
        since, session = visit.request.query_params.get("since"), visit.site.session(visit.request)
        is_known = partial(_is_known, visit, is_by_header=visit.site.can_log_out and session is None)
        stream = visit.site.hub.open(since, session.id if session else "", is_known)
    except TooManyStreams:
        raise HTTPException(503, "too many pages are live; this one asks every ten seconds") from None
    return _Streaming(stream, media_type="text/event-stream", headers=headers)


class _Streaming(StreamingResponse):
    """Closes its events when it ends, also those of a browser that is gone before the first."""

    body_iterator: Events

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with aclosing(self.body_iterator):
            await super().__call__(scope, receive, send)


async def _is_known(visit: Visit, *, is_by_header: bool) -> bool:
    """Return whether the person may still see the page: sessions end, and people lose their rights."""
    if is_by_header:
        return True  # what is in a header expires never, and takes long to check
    try:
        user = await visit.site.user(visit.request)
    except StoreError:  # nobody has logged out because Redis is away
        return True
    return user is not None and Right.VIEW in user.rights


ACTIONS = (Action(path="/events", answer=events, has_json=False),)
