"""RabbitMQ as the broker: what arrives there is moved to a server where the inbox looks for it."""

from __future__ import annotations

import contextlib
import json
import threading
from typing import Any

from kombu import Connection, Exchange, Queue
from kombu.exceptions import OperationalError
from support import rabbitmq
from support.waiting import wait_until

from chaos.replicated import ReplicatedServer
from chaos.server import DurableServer

__all__ = ("RabbitServer",)

#: The queue, as Celery declares it.
QUEUE = Queue("celery", Exchange("celery", type="direct"), routing_key="celery")

#: How long an empty queue, or a node that is down, is left alone.
BREAK_SECONDS = 0.01

#: How long the last messages may take on a busy machine.
DRAIN_SECONDS = 60.0


class RabbitServer:
    """A node, and a thread that moves its messages one by one: none is lost, and one may come twice."""

    #: The class and the method of AMQP by which it gets a message.
    publish = b"\x00\x3c\x00\x28"

    def __init__(self, archive: DurableServer | ReplicatedServer) -> None:
        self._archive = archive.client()
        self._stack = contextlib.ExitStack()
        self._is_closing = threading.Event()
        self._thread = threading.Thread(target=self._move, daemon=True)
        self._is_empty = threading.Event()

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

    #: It always ends so: the node has no quicker end.
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
        self._is_empty.clear()
        wait_until(self._is_empty.is_set, "the queue of RabbitMQ to be empty", DRAIN_SECONDS)

    def _move(self) -> None:
        errors = (OSError, OperationalError, *Connection(self.url()).connection_errors)  # also of a node that is down
        while not self._is_closing.is_set():
            with contextlib.suppress(*errors), Connection(self.url()) as link:
                queue = QUEUE(link.default_channel)
                queue.declare()
                while not self._is_closing.is_set():
                    self._move_one(queue)
            self._is_closing.wait(BREAK_SECONDS)

    def _move_one(self, queue: Queue) -> None:
        message = queue.get()
        if message is None:
            self._is_empty.set()
            self._is_closing.wait(BREAK_SECONDS)
            return
        self._archive.lpush("celery", json.dumps({"headers": message.headers}))
        message.ack()
