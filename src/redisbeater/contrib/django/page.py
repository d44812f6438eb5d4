"""The web page as a view of Django, under WSGI and under ASGI."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from functools import cache
from typing import Any

from celery import Celery, current_app
from django.core.handlers.asgi import ASGIRequest
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.urls import get_script_prefix, set_script_prefix
from starlette.types import ASGIApp, Message, Scope

from redisbeater.contrib.django.models import rights_of
from redisbeater.dashboard import create_app, django

#: How the commands begin that the page shows.
COMMANDS = ("python", "manage.py", "redisbeater")

#: The path of live updates, below that of the page.
EVENTS = "events"


async def page(request: HttpRequest, path: str = "") -> HttpResponseBase:
    """Answer a request below the path of the page; ``path`` is what follows that.

    Under WSGI there is no stream, as each open page would keep a thread of the server: the page asks every ten seconds.
    """
    root = request.path.removesuffix(path).rstrip("/")
    is_live = isinstance(request, ASGIRequest)
    if path == EVENTS and not is_live:
        return HttpResponse(status=404)
    application = _page(current_app._get_current_object())
    answer = _answer(application, _scope(request, root), request.body, get_script_prefix())
    return await (answer if is_live else asyncio.wrap_future(asyncio.run_coroutine_threadsafe(answer, _loop())))


#: The page refuses what another site sends by itself. As attributes: Django 4.2 has no such decorator for coroutines.
page.csrf_exempt = True  # type: ignore[attr-defined]


@cache
def _page(app: Celery) -> ASGIApp:
    """Return the page of an app, created with the first request: threads do not survive a fork."""
    created = create_app(app, auth=django(rights=rights_of))
    created.state.begin = COMMANDS
    return created


@cache
def _loop() -> asyncio.AbstractEventLoop:
    """Return the loop of the page under WSGI, which runs in a thread."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="redisbeater page", daemon=True).start()
    return loop


def _scope(request: HttpRequest, root: str) -> Scope:
    meta = request.META
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": request.method,
        "scheme": request.scheme,
        "path": request.path,
        "root_path": root,
        "query_string": meta.get("QUERY_STRING", "").encode("latin-1"),
        "headers": [(name.lower().encode("latin-1"), text.encode("latin-1")) for name, text in request.headers.items()],
        "client": (meta.get("REMOTE_ADDR", ""), 0),
        "server": (meta.get("SERVER_NAME", ""), int(meta.get("SERVER_PORT") or 80)),
        "state": {"has_stream": isinstance(request, ASGIRequest)},
    }


async def _answer(app: ASGIApp, scope: Scope, body: bytes, script_prefix: str) -> HttpResponseBase:
    """Return the answer of an ASGI application; a stream of events goes on behind it.

    Raises:
        Exception: what the application raised; Django reports it as an error of any view.
    """
    set_script_prefix(script_prefix)  # where the application looks for the log-in page
    exchange = _Exchange(app, scope, body)
    head = await exchange.message()
    headers = [(name.decode("latin-1"), text.decode("latin-1")) for name, text in head["headers"]]
    is_stream = any(name.lower() == "content-type" and text.startswith("text/event-stream") for name, text in headers)
    if is_stream:
        answer: HttpResponseBase = StreamingHttpResponse(exchange.parts(), status=head["status"])
    else:
        answer = HttpResponse(b"".join([part async for part in exchange.parts()]), status=head["status"])
        await exchange.running
    del answer["Content-Type"]
    for name, text in headers:
        if name.lower() == "set-cookie":
            answer.cookies.load(text)
        else:
            answer[name] = text
    return answer


class _Exchange:
    """One request to an ASGI application, and the messages of its answer."""

    def __init__(self, app: ASGIApp, scope: Scope, body: bytes) -> None:
        self._sent: asyncio.Queue[Message] = asyncio.Queue(maxsize=1)
        self._request: Message | None = {"type": "http.request", "body": body, "more_body": False}
        self._gone = asyncio.Event()
        self.running: asyncio.Future[Any] = asyncio.ensure_future(app(scope, self._receive, self._sent.put))

    async def message(self) -> Message:
        """Return the next message of the application."""
        getting = asyncio.ensure_future(self._sent.get())
        await asyncio.wait({getting, self.running}, return_when=asyncio.FIRST_COMPLETED)
        if not getting.done():
            getting.cancel()
            self.running.result()
            raise RuntimeError("the page gave no whole answer")
        return getting.result()

    async def parts(self) -> AsyncIterator[bytes]:
        """Yield the parts of the body, and end the application if nobody wants more."""
        try:
            is_more = True
            while is_more:
                message = await self.message()
                is_more = message.get("more_body", False)
                yield message.get("body", b"")
        finally:
            self._gone.set()

    async def _receive(self) -> Message:
        request, self._request = self._request, None
        if request is not None:
            return request
        await self._gone.wait()
        return {"type": "http.disconnect"}
