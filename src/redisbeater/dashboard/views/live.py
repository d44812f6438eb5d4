"""The stream of events that keeps open pages live."""

from __future__ import annotations

from starlette.exceptions import HTTPException
from starlette.responses import Response, StreamingResponse

from redisbeater.dashboard.hub import TooManyStreams
from redisbeater.dashboard.pages import Action, Visit

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
        stream = visit.site.hub.open()
    except TooManyStreams:
        raise HTTPException(503, "too many pages are live; this one asks every ten seconds") from None
    return StreamingResponse(stream, media_type="text/event-stream", headers=headers)


ACTIONS = (Action(path="/events", answer=events, has_json=False),)
