"""``Capture``: a producer that takes the message of a task instead of sending it."""

from __future__ import annotations

from typing import Any

from celery import Celery
from kombu import Producer
from kombu.compression import compress
from kombu.entity import maybe_delivery_mode
from kombu.serialization import dumps

from redisbeater.broker.message import Message, place_of

#: What ``publish()`` takes about one try to send a message, and what would begin to count now.
_OF_SENDING = (
    "retry", "retry_policy", "declare", "timeout", "confirm_timeout", "mandatory", "immediate", "expiration",
)  # fmt: skip


class Capture(Producer):
    """Takes what Celery publishes by it, and connects to no broker; Celery's own events are sent at once.

    Attributes:
        messages: what was taken; ``kept`` and ``by`` are left empty.
        place: where the broker is, as :func:`~redisbeater.broker.message.place_of` says.
    """

    def __init__(self, app: Celery) -> None:
        connection = app.connection_for_write()
        super().__init__(connection, auto_declare=False)
        self._events = app.conf.event_exchange
        self.messages: list[Message] = []
        self.place = place_of(connection)

    def publish(self, body: Any, **options: Any) -> Any:
        """Take a message, as kombu would send it."""
        given = options.pop("exchange", None)
        exchange = str(getattr(given, "name", given) or "")
        if exchange and exchange == self._events:
            return super().publish(body, exchange=given, **options)
        self.messages.append(_message(body, exchange, {**options}))
        return None

    def disconnect(self) -> None:
        """Close the connection that an event of Celery may have opened."""
        self.connection.release()


def _message(body: Any, exchange: str, options: dict[str, Any]) -> Message:
    for name in _OF_SENDING:
        options.pop(name, None)
    headers = dict(options.pop("headers", None) or {})
    content_type, content_encoding, data = dumps(body, serializer=options.pop("serializer", None))
    data = data.encode(content_encoding) if isinstance(data, str) else bytes(data)
    if method := options.pop("compression", None):
        data, headers["compression"] = compress(data, method)
    return Message(
        body=data,
        content_type=content_type,
        content_encoding=content_encoding,
        headers=headers,
        routing_key=str(options.pop("routing_key", None) or ""),
        exchange=exchange,
        priority=options.pop("priority", None) or 0,
        delivery_mode=maybe_delivery_mode(options.pop("delivery_mode", None)),
        properties={name: value for name, value in options.items() if value is not None},
    )
