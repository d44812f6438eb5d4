"""The queue where messages arrive, read from outside."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from kombu import Connection

from suite.job import Job

__all__ = ("MessageQueue", "queue_of")

NAME = "celery"


class MessageQueue(ABC):
    """Celery's default queue."""

    @abstractmethod
    def length(self) -> int:
        """Return the number of messages; 0 if the queue does not exist yet."""

    @abstractmethod
    def clear(self) -> None:
        """Remove all messages."""


class _RedisQueue(MessageQueue):
    def __init__(self, job: Job) -> None:
        self._client: Any = job.broker_client()
        self._client.ping()

    def length(self) -> int:
        return int(self._client.llen(NAME))

    def clear(self) -> None:
        self._client.delete(NAME)


class _RabbitMQQueue(MessageQueue):
    def __init__(self, job: Job) -> None:
        self._connection = Connection(job.broker_url)
        self._channel = self._connection.default_channel

    def length(self) -> int:
        try:
            return int(self._channel.queue_declare(NAME, passive=True).message_count)
        except self._connection.channel_errors:
            return 0

    def clear(self) -> None:
        self._channel.queue_purge(NAME)


def queue_of(job: Job) -> MessageQueue:
    """Return the queue of a job's broker."""
    return _RabbitMQQueue(job) if job.broker.startswith("amqp") else _RedisQueue(job)
