"""RabbitMQ as the broker: what arrives there is moved to a server where the inbox looks for it."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from typing import Any

from kombu import Connection, Consumer, Exchange, Queue
from kombu.message import Message
from support import rabbitmq
from support.waiting import wait_until

from chaos.server import DurableServer

__all__ = ("RabbitServer",)

#: The queue, as Celery declares it.
QUEUE = Queue("celery", Exchange("celery", type="direct"), routing_key="celery")

#: How long a read waits for a message, and for how long none may arrive before all have.
READ_SECONDS, QUIET_SECONDS = 0.2, 2.0


class RabbitServer:
    """A node, and a thread that moves its messages: none is lost, and one may come twice."""

    def __init__(self, archive: DurableServer) -> None:
        self._archive = archive
        self._stack = contextlib.ExitStack()
        self._is_closing = threading.Event()
        self._thread = threading.Thread(target=self._move, daemon=True)
        self._moved_at = time.monotonic()

    def __enter__(self) -> RabbitServer:
        self._node = self._stack.enter_context(rabbitmq.running())
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_closing.set()
        self._thread.join()
        self._stack.close()

    @property
    def port(self) -> int:
        return self._node.port

    def url(self, port: int | None = None) -> str:
        """Return its URL, or that of a proxy in front of it."""
        return self._node.url(port)

    def broker_settings(self) -> dict[str, Any]:
        """Return the settings with which beats find it, unless a proxy is in between."""
        return {"broker_url": self.url()}

    def kill(self) -> None:
        """Send SIGKILL, as in a crash."""
        self._node.kill()

    #: A node that is asked to end takes a minute, which is no other fault than its crash.
    end = kill

    def start(self) -> None:
        """Start it again after :meth:`kill`, with its data."""
        self._node.start()

    def pause(self) -> None:
        self._node.pause()

    def resume(self) -> None:
        self._node.resume()

    def wait_until_it_answers(self) -> None:
        """Return at once: :meth:`start` has waited."""

    def drain(self) -> None:
        """Wait until all messages have been moved."""
        wait_until(lambda: time.monotonic() > self._moved_at + QUIET_SECONDS, "the queue of RabbitMQ to be empty", 60)

    def _move(self) -> None:
        errors = (OSError, *Connection(self.url()).connection_errors)
        while not self._is_closing.is_set():
            with (
                contextlib.suppress(*errors),
                Connection(self.url()) as link,
                Consumer(link, [QUEUE], callbacks=[self._keep], accept=["json"], prefetch_count=100),
            ):
                self._read(link)
            self._is_closing.wait(READ_SECONDS)  # it is down

    def _read(self, link: Connection) -> None:
        while not self._is_closing.is_set():
            with contextlib.suppress(TimeoutError):
                link.drain_events(timeout=READ_SECONDS)

    def _keep(self, body: object, message: Message) -> None:
        self._archive.client().lpush("celery", json.dumps({"headers": message.headers}))
        self._moved_at = time.monotonic()
        message.ack()
