"""``Message``: a task's message as it is kept outside of a broker, and where a broker is."""

from __future__ import annotations

import hashlib
from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kombu import Queue
from kombu.compression import compress, decompress
from kombu.serialization import loads as deserialize
from kombu.serialization import prepare_accept_content
from kombu.utils.json import dumps, loads

#: The properties of a message that are kept as fields of their own, that it has for one delivery only, or that began to
#: count when it was first sent.
_OWN_OR_PASSING = {
    "content_type",
    "content_encoding",
    "application_headers",
    "headers",
    "priority",
    "delivery_mode",
    "delivery_tag",
    "delivery_info",
    "body_encoding",
    "expiration",
}

#: What stored JSON does not say because it is nearly always so: name in JSON -> what a missing one means.
_DEFAULTS: Mapping[str, Any] = {"encoding": "utf-8", "exchange": "", "priority": 0, "mode": 2, "properties": {}}

#: Options of a transport that decide where its messages are.
_OPTIONS_OF_PLACE = ("global_keyprefix", "master_name", "queue_name_prefix", "region")


@dataclass(frozen=True, kw_only=True)
class Message:
    """What a broker gets.

    Attributes:
        properties: what kombu's ``publish()`` takes besides the others.
        kept: since when it is kept, UNIX seconds.
        by: who has kept it.
    """

    body: bytes
    content_type: str
    content_encoding: str
    headers: Mapping[str, Any]
    routing_key: str
    exchange: str = ""
    priority: int = 0
    delivery_mode: int = 2
    properties: Mapping[str, Any] = field(default_factory=dict)
    kept: float = 0.0
    by: str = ""

    @classmethod
    def received(cls, message: Any, *, kept: float, by: str) -> Message:
        """Return a message that a consumer of kombu has received, as it was when it was sent.

        Raises:
            ValueError, TypeError, LookupError: it has no content type, or an unknown compression.
        """
        body, headers = message.body or b"", dict(message.headers)
        body = body.encode(message.content_encoding or "utf-8") if isinstance(body, str) else bytes(body)
        if method := headers.get("compression"):  # kombu has decompressed the body, and left the header
            body, headers["compression"] = compress(body, method)
        if not message.content_type:
            raise ValueError("it has no content type")
        properties, info = message.properties, message.delivery_info
        return cls(
            body=body,
            content_type=message.content_type,
            content_encoding=message.content_encoding or "binary",
            headers=headers,
            routing_key=info["routing_key"],
            exchange=info.get("exchange") or "",
            priority=properties.get("priority") or 0,
            delivery_mode=properties.get("delivery_mode") or 2,
            properties={name: value for name, value in properties.items() if name not in _OWN_OR_PASSING},
            kept=kept,
            by=by,
        )

    def to_text(self) -> str:
        """Return the JSON that is stored.

        Raises:
            TypeError, ValueError: a header is no JSON.
        """
        try:
            body = {"body": self.body.decode()}
        except UnicodeDecodeError:
            body = {"base64": b64encode(self.body).decode()}
        rest = {
            "encoding": self.content_encoding,
            "exchange": self.exchange,
            "priority": self.priority,
            "mode": self.delivery_mode,
            "properties": dict(self.properties),
        }
        said = {name: value for name, value in rest.items() if value != _DEFAULTS[name]}
        stored = {"type": self.content_type, "headers": dict(self.headers), "key": self.routing_key, **said}
        return str(dumps({**body, **stored, "kept": self.kept, "by": self.by}, ensure_ascii=False))

    @classmethod
    def from_text(cls, text: str) -> Message:
        """Return the message that is stored as JSON.

        Raises:
            ValueError: another program has written what is no message; the text names the field.
        """
        try:
            stored = loads(text)
        except (ValueError, TypeError, AttributeError, ArithmeticError, RecursionError) as exc:
            raise ValueError(f"$: {exc}") from exc
        if not isinstance(stored, dict):
            raise ValueError("$: expected an object")
        stored = {**_DEFAULTS, "kept": 0, "by": "", **stored}
        for name, kind, expected in _FIELDS:
            if not isinstance(stored.get(name), kind) or isinstance(stored[name], bool):
                raise ValueError(f"$.{name}: expected {expected}")
        return cls(
            body=_body_of(stored),
            content_type=stored["type"],
            content_encoding=stored["encoding"],
            headers=stored["headers"],
            routing_key=stored["key"],
            exchange=stored["exchange"],
            priority=stored["priority"],
            delivery_mode=stored["mode"],
            properties=stored["properties"],
            kept=stored["kept"],
            by=stored["by"],
        )

    def publish(self, producer: Any, queues: Mapping[str, Queue]) -> None:
        """Send it by a producer of kombu; errors are the transport's.

        Arguments:
            producer: the producer.
            queues: the queues that the application knows, by name; that of the message is declared if it is there.
        """
        queue = None if self.exchange else queues.get(self.routing_key)
        producer.publish(
            self.body,
            exchange=self.exchange,
            routing_key=self.routing_key,
            content_type=self.content_type,
            content_encoding=self.content_encoding,
            headers=dict(self.headers),
            priority=self.priority,
            delivery_mode=self.delivery_mode,
            declare=[] if queue is None else [queue],
            retry=False,
            **self.properties,
        )

    def request(self, accept: Any) -> dict[str, Any]:
        """Return the request of its task, as a worker has it: headers, and arguments and callbacks of the body.

        The body is left out where its content type is not accepted, or where it cannot be read.

        Arguments:
            accept: the content types, or the names of serializers, that the application accepts.
        """
        try:
            body = self.body
            if method := self.headers.get("compression"):
                body = decompress(body, method)
            args, kwargs, embed = deserialize(
                body, self.content_type, self.content_encoding, prepare_accept_content(accept)
            )
            return {**self.headers, "args": args, "kwargs": kwargs, **embed}
        except Exception:  # of any serializer or compression
            return dict(self.headers)


#: The fields of stored JSON: the type of each, and what to say where it has another one.
_FIELDS: tuple[tuple[str, Any, str], ...] = (
    ("type", str, "a text"),
    ("encoding", str, "a text"),
    ("headers", dict, "an object"),
    ("key", str, "a text"),
    ("exchange", str, "a text"),
    ("priority", int, "a whole number"),
    ("mode", int, "a whole number"),
    ("properties", dict, "an object"),
    ("kept", (int, float), "a number"),
    ("by", str, "a text"),
)


def _body_of(stored: Mapping[str, Any]) -> bytes:
    for name, decode in (("body", str.encode), ("base64", b64decode)):
        if name in stored:
            try:
                return bytes(decode(stored[name]))
            except (TypeError, ValueError) as exc:
                raise ValueError(f"$.{name}: {exc}") from exc
    raise ValueError("$.body: is missing, and so is $.base64")


def place_of(connection: Any) -> str:
    """Return where a connection of kombu leads, without a user or a password, and without connecting.

    That is for each of its hosts kind, host, port and database or virtual host; and the key prefix, or what else its
    transport options say about where queues are.
    """
    hosts = [type(connection)(url) for url in connection.alt] or [connection]
    options = connection.transport_options or {}
    said = [f"{name}={options[name]}" for name in _OPTIONS_OF_PLACE if options.get(name)]
    return " ".join([";".join(map(_host_of, hosts)), *said])


def _host_of(connection: Any) -> str:
    # Not connection.info(), which logs where the host is not named.
    kind, host = connection.transport.driver_type, str(connection.hostname or "localhost")
    defaults = getattr(connection.transport, "default_connection_params", None) or {}
    port = connection.port or defaults.get("port") or ""
    if "://" in host:  # a whole URL, as some transports take it, which may hold a password
        host = hashlib.sha256(host.encode()).hexdigest()[:16]
    database = str(connection.virtual_host or "").strip("/") or ("0" if kind == "redis" else "")
    return f"{kind}://{host}:{port}/{database}"
