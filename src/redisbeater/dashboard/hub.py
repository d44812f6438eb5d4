"""Live updates: one thread of a process listens to the schedule, for all pages that are open in it."""

from __future__ import annotations

import asyncio
import json
import math
import secrets
import threading
import time
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Hashable
from contextlib import suppress
from functools import partial, reduce
from operator import or_

from redisbeater.clock import host_seconds
from redisbeater.context import Context
from redisbeater.exceptions import StoreError
from redisbeater.health.status import read_overview
from redisbeater.log_lines import get_logger
from redisbeater.management.future import read_held
from redisbeater.management.pausing import LiveChanges, Watcher
from redisbeater.management.place import count_late
from redisbeater.management.search import LATE

logger = get_logger(__name__)


#: How many are kept.
MOST_KEPT = 64

#: Tells pages to read everything again, if it is not known what has changed.
EVERYTHING = LiveChanges(names=None, status=True)


class RecentChanges:
    """The changes since a hub began to listen, of which the newest are kept."""

    def __init__(self) -> None:
        #: Begins each mark, so that those of another process, or from before the last start, are not taken for ours.
        self._name = secrets.token_hex(4)
        self._kept: deque[LiveChanges] = deque(maxlen=MOST_KEPT)
        self._number = 0

    def add(self, changes: LiveChanges) -> None:
        """Add changes."""
        self._kept.append(changes)
        self._number += 1

    @property
    def mark(self) -> str:
        """A mark of the present, for :meth:`since`."""
        return f"{self._name}-{self._number}"

    def since(self, mark: str) -> LiveChanges:
        """Return the changes since a mark, or everything if they are not known."""
        name, _, number = mark.partition("-")
        is_known = name == self._name and number.isascii() and number.isdigit() and len(number) < 19
        missed = self._number - int(number) if is_known else -1
        if not 0 <= missed <= len(self._kept):
            return EVERYTHING
        return reduce(or_, list(self._kept)[len(self._kept) - missed :], LiveChanges())


#: Streams of one process at most; further pages ask every ten seconds.
MOST_STREAMS = 200

#: Streams of one browser at most: over HTTP/1.1 it has six connections to a host, and its pages need some of them.
MOST_OF_A_BROWSER = 4

#: Changes are gathered for so long.
GATHER_SECONDS = 0.5

#: Between two looks at what nobody publishes: who leads, what is late, how many runs were sent.
LOOK_SECONDS = 5.0

#: A proxy closes a stream that is silent for long.
COMMENT_SECONDS = 10.0

#: A look that has not ended for so long: Redis hangs, and errors come late.
HANGING_SECONDS = 8.0

#: Between two looks whether the person of a stream is still logged in.
CHECK_SECONDS = 5.0

#: How long one wait for a message lasts: after that the thread looks whether anybody still listens.
WAIT_SECONDS = 0.25

#: How long a page that is about to be drawn waits for the hub to listen, and the hub for its stream to begin.
MARK_SECONDS, LINGER_SECONDS = 0.25, 10.0


class TooManyStreams(Exception):
    """As many pages are open as one process serves, or as one browser has connections for."""


async def _always() -> bool:
    return True


class _Stream:
    """One open page: its unsent changes, and whether its session has ended."""

    def __init__(self, session: str = "", browser: str = "") -> None:
        self.browser = browser
        self.loop = asyncio.get_running_loop()
        #: Whether the hub hears what changes, or cannot because Redis is away; and whether something is to be sent.
        self.is_served, self.ready = asyncio.Event(), asyncio.Event()
        self.pending = LiveChanges()
        self.session, self.has_ended = session, False

    def add(self, changes: LiveChanges) -> None:
        """Add changes; called in the loop of the page."""
        self.pending |= changes
        self.ready.set()

    def take(self) -> LiveChanges:
        """Return the pending changes and clear them."""
        taken, self.pending = self.pending, LiveChanges()
        self.ready.clear()
        return taken

    def end(self) -> None:
        """End with the session; called in the loop of the page."""
        self.has_ended = True
        self.ready.set()

    async def heard(self, is_known: Callable[[], Awaitable[bool]]) -> AsyncIterator[LiveChanges]:
        """Yield changes until the session ends, and an empty one now and then if nothing changes."""
        sent_at = checked_at = time.monotonic()
        check: asyncio.Future[bool] | None = None
        while not self.has_ended:
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self.ready.wait(), min(CHECK_SECONDS, COMMENT_SECONDS))
            now = time.monotonic()
            if check is None and now - checked_at >= CHECK_SECONDS:
                check = asyncio.ensure_future(is_known())  # not awaited: it may ask a Redis that hangs
                check.add_done_callback(lambda _: self.ready.set())
            elif check is not None and check.done():
                self.has_ended, checked_at = self.has_ended or not check.result(), now
                check = None
                if not self.pending:
                    self.ready.clear()
            if not self.has_ended and (self.pending or now - sent_at >= COMMENT_SECONDS):
                sent_at = now
                yield self.take()
        yield LiveChanges(status=True)  # the page asks for all, and learns why it gets nothing


class Events:
    """The events of one page, as they are sent. They hold their place until they are closed, also before the first."""

    def __init__(self, events: AsyncGenerator[bytes, None], leave: Callable[[], None]) -> None:
        self._events, self._leave = events, leave

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._events

    def __anext__(self) -> Awaitable[bytes]:
        return self._events.__anext__()

    async def aclose(self) -> None:
        """Free the place for another page."""
        self._leave()
        await self._events.aclose()


class Hub:
    """Hands changes to all open pages. It listens only while there is one, or one is about to open its stream."""

    def __init__(self, context: Callable[[], Context]) -> None:
        self._context = context
        self._lock = threading.Lock()
        self._streams: set[_Stream] = set()
        self._thread: threading.Thread | None = None
        self._listens = False
        self._lingers_until = self._looked_at = 0.0
        self._recent = RecentChanges()

    async def mark(self, *, is_opened: bool) -> str:
        """Return a mark to open a stream from, or an empty text if the hub does not listen.

        ``is_opened``: a browser opens a page, so that a stream will begin soon: the hub begins to listen.
        """
        if is_opened:
            stream = _Stream()
            self._begin(stream, lingers=True)
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(stream.is_served.wait(), MARK_SECONDS)
            self._leave(stream)
        with self._lock:
            return self._recent.mark if self._listens else ""

    def open(
        self,
        since: str | None = None,
        session: str = "",
        is_known: Callable[[], Awaitable[bool]] = _always,
        *,
        browser: str = "",
    ) -> Events:
        """Return the events of one page; the caller closes them.

        Arguments:
            since: the mark of the page; None: it has none, and asks for nothing that happened before.
            session: what :meth:`end` ends it by.
            is_known: tells, every few seconds, whether its person may still see it; if not, the stream ends.
            browser: what tells its browser from others; empty: not known.

        Raises:
            TooManyStreams: there are 200 already, or four of the same browser.
        """
        stream = _Stream(session, browser)
        self._begin(stream, most=MOST_STREAMS)
        return Events(self._events(stream, since, is_known), partial(self._leave, stream))

    def end(self, session: str) -> None:
        """End the streams of a session."""
        self._call(lambda stream: stream.end() if session and stream.session == session else None)

    def publish(self, changes: LiveChanges) -> None:
        """Tell all open pages of changes, and those that open soon."""
        if changes:
            with self._lock:
                self._recent.add(changes)
            self._call(lambda stream: stream.add(changes))

    async def _events(
        self, stream: _Stream, since: str | None, is_known: Callable[[], Awaitable[bool]]
    ) -> AsyncGenerator[bytes, None]:
        try:
            await stream.is_served.wait()  # a change before hello would reach no page
            yield b"retry: 3000\nevent: hello\ndata: {}\n\n"  # a page that never sees it is behind a proxy that buffers
            with self._lock:
                missed = LiveChanges() if since is None else self._recent.since(since)
            if missed:
                stream.add(missed)
            async for changes in stream.heard(is_known):
                is_hanging = time.monotonic() - self._looked_at >= HANGING_SECONDS
                quiet = b"event: hanging\ndata: {}\n\n" if is_hanging else b": still here\n\n"
                yield encoded(changes) if changes else quiet
        finally:
            self._leave(stream)

    def _begin(self, stream: _Stream, *, most: float = math.inf, lingers: bool = False) -> None:
        with self._lock:
            of_browser = sum(each.browser == stream.browser for each in self._streams) if stream.browser else 0
            if len(self._streams) >= most or of_browser >= MOST_OF_A_BROWSER:
                raise TooManyStreams
            self._streams.add(stream)
            if lingers:
                self._lingers_until = time.monotonic() + LINGER_SECONDS
            if self._thread is None:
                self._recent = RecentChanges()
                self._thread = threading.Thread(target=self._listen, name="redisbeater-live", daemon=True)
                self._thread.start()
            elif self._listens:
                stream.is_served.set()

    def _leave(self, stream: _Stream) -> None:
        with self._lock:
            self._streams.discard(stream)

    def _listen(self) -> None:
        """Run the thread of the hub: listen as long as a page is open."""
        context = self._context()
        watcher, looks, outage = Watcher(context), StatusPoller(context), _Outage()
        try:
            with suppress(StoreError):  # the loop says so
                watcher.wait(0)
                looks.changes()
            self._serve()
            while self._is_awaited():
                self._looked_at = time.monotonic()
                self.publish(outage.told(_gathered(watcher, looks)))
        finally:
            watcher.close()

    def _is_awaited(self) -> bool:
        """Return whether a page is open, or about to be; if none is, let the next one start another thread."""
        with self._lock:
            is_awaited = bool(self._streams) or time.monotonic() < self._lingers_until
            if not is_awaited:
                self._thread, self._listens = None, False
            return is_awaited

    def _serve(self) -> None:
        """Let the pages begin that were opened before the thread had begun to listen."""
        with self._lock:
            self._listens = True
        self._call(lambda stream: stream.is_served.set())

    def _call(self, call: Callable[[_Stream], None]) -> None:
        """Call something for each open page, in its loop."""
        with self._lock:
            streams = list(self._streams)
        for stream in streams:
            try:
                stream.loop.call_soon_threadsafe(call, stream)
            except RuntimeError:  # its loop has ended, and its page with it
                self._leave(stream)


def encoded(changes: LiveChanges) -> bytes:
    """Return changes as events: ``entries`` with their names, ``runs``, ``status``."""
    lines = []
    if changes.names is None:
        lines.append('event: entries\ndata: {"many": true}\n\n')
    elif changes.names:
        lines.append(f"event: entries\ndata: {json.dumps({'names': sorted(changes.names)})}\n\n")
    if changes.runs:
        lines.append("event: runs\ndata: {}\n\n")
    if changes.status:
        lines.append("event: status\ndata: {}\n\n")
    return "".join(lines).encode()


def _gathered(watcher: Watcher, looks: StatusPoller) -> LiveChanges | None:
    """Wait for a change and gather those that follow it at once; return None if Redis is away."""
    try:
        found = watcher.wait(WAIT_SECONDS)
        until = host_seconds() + GATHER_SECONDS
        while found and (left := until - host_seconds()) > 0:
            found |= watcher.wait(left)
        return found | looks.changes()
    except StoreError as exc:
        logger.debug("the page is not live: %s", exc)
        watcher.close()  # its connection may be that to a server that is gone
        time.sleep(WAIT_SECONDS)
        return None


class _Outage:
    """Tells open pages that Redis is away when that begins, seldom meanwhile, and when it ends: each asks for all."""

    def __init__(self) -> None:
        self._tell_at: float | None = None

    def told(self, found: LiveChanges | None) -> LiveChanges:
        """Return the changes to tell pages; ``found`` is None while Redis is away."""
        if found is not None:
            is_over, self._tell_at = self._tell_at is not None, None
            return EVERYTHING if is_over else found
        if self._tell_at is not None and time.monotonic() < self._tell_at:
            return LiveChanges()
        self._tell_at = time.monotonic() + LOOK_SECONDS
        return EVERYTHING


class StatusPoller:
    """Polls every few seconds for changes that no message reports."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._next = 0.0
        self._known: tuple[Hashable, int] | None = None

    def changes(self) -> LiveChanges:
        """Return the changes since the last look, or none if that was just now."""
        if time.monotonic() < self._next:
            return LiveChanges()
        self._next = time.monotonic() + LOOK_SECONDS
        status, _ = read_overview(self._context)
        # Without its end, which is never quite the same when it is read again.
        pause = status.pause and (status.pause.since, status.pause.by, status.pause.note, read_held(self._context))
        late = count_late(self._context, LATE) if status.oldest >= LATE and not pause else 0
        counts = (status.entries, status.broken, status.failing, status.failed, status.unstable, late)
        incidents = tuple((incident.id, incident.times) for incident in status.incidents)
        head = (status.leader_name, status.is_hanging, pause, counts, status.unstarted_entries, incidents)
        sent = sum(beat.sent for beat in status.beats)
        known, self._known = self._known, (head, sent)
        if known is None:
            return LiveChanges()
        has_run = sent != known[1] and not self._context.config.track_runs  # with records, each run has its message
        return LiveChanges(names=None if has_run else frozenset(), status=head != known[0])
