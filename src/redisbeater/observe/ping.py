"""The dead man's switch: a service outside is asked regularly while all is well, and alarms when that stops."""

from __future__ import annotations

import http.client
import threading
import urllib.error
import urllib.request
from collections.abc import Callable
from email.message import Message
from typing import IO, Any
from urllib.parse import urlsplit, urlunsplit

from redisbeater.log_lines import get_logger
from redisbeater.observe.verdict import Verdict

__all__ = ("Ping",)

logger = get_logger(__name__)

#: Seconds that the service has for its answer.
ANSWER_SECONDS = 5.0


class Ping:
    """Asks for a URL at intervals, from a thread of its own.

    Arguments:
        url: the URL.
        interval: seconds from one request to the next.
        leads: returns whether this beat leads; only that one asks.
        health: returns the verdict on the schedule.
    """

    def __init__(self, url: str, interval: float, leads: Callable[[], bool], health: Callable[[], Verdict]) -> None:
        self._url = url
        self._interval = interval
        self._leads = leads
        self._health = health
        self._ended = threading.Event()
        self._was_good = True
        self._problem = ""

    def start(self) -> None:
        """Begin to ask."""
        threading.Thread(target=self._run, name="redisbeater-ping", daemon=True).start()

    def end(self) -> None:
        """Stop asking; does not wait for a request that is under way."""
        self._ended.set()

    def _run(self) -> None:
        while not self._ended.wait(self._interval):
            try:
                self.step()
            except Exception:
                logger.exception("the ping failed; this is a bug")

    def step(self) -> None:
        """Ask once, if this beat leads: for the URL while all is well, for ``/fail`` below it once when it is not."""
        if not self._leads():
            self._was_good = True
            return
        verdict = self._health()
        if verdict.is_good:
            self._was_good = True
            self._send(self._url, None)
        elif self._was_good:
            self._was_good = not self._send(_fail_url(self._url), verdict.sentence.encode("utf-8", "backslashreplace"))

    def _send(self, url: str, body: bytes | None) -> bool:
        """Send a request: GET, or POST with a body. Return whether it was answered well; log a new problem once."""
        request = urllib.request.Request(url, data=body, headers={"User-Agent": "redisbeater"})
        try:
            with _OPENER.open(request, timeout=ANSWER_SECONDS):
                self._problem = ""
                return True
        except (OSError, http.client.HTTPException, ValueError) as exc:
            self._report(exc)
            return False

    def _report(self, error: Exception) -> None:
        # Only the host: who knows the path can silence the alarm.
        problem = f"{type(error).__name__}: {error}"
        if problem != self._problem:
            self._problem = problem
            logger.warning("redisbeater_ping_url at %s does not answer: %s", urlsplit(self._url).hostname, problem)


def _fail_url(url: str) -> str:
    parts = urlsplit(url)
    return urlunsplit(parts._replace(path=f"{parts.path.rstrip('/')}/fail"))


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Takes a redirect for an error: the settings say where the request goes."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: Message, newurl: str
    ) -> Any:
        """Follow nothing."""
        return None


_OPENER = urllib.request.build_opener(_NoRedirects)
