"""Whether code of Celery and kombu is still their own: instruments and applications replace it at any time."""

from __future__ import annotations

from types import FunctionType, MethodType
from typing import Any

from kombu import Producer
from kombu import serialization as kombu_serialization
from kombu.transport import redis as kombu_redis
from kombu.utils import json as kombu_json

from redisbeater.broker.publisher_confirms import with_declaration_cache


def is_own(holder: Any, name: str, *modules: str) -> bool:
    """Return whether a method, or a function, is as one of these modules defines it.

    A wrapper is not, whatever its name: a function knows the module whose code it is. Neither is what is no function.

    Arguments:
        holder: the object, class or module that has it.
        name: its name.
        modules: the modules, or packages where they end in a dot.
    """
    found = getattr(holder, name, None)
    if type(found) is MethodType:
        found = found.__func__
    if type(found) is not FunctionType:  # by its type, as some wrappers say that they are of another class
        return False
    known = found.__globals__.get("__name__", "")
    is_from_there = any(known.startswith(each) if each.endswith(".") else known == each for each in modules)
    return is_from_there and found.__code__.co_filename == found.__globals__.get("__file__")


#: What kombu does with each message of a task, by the module that defines it.
_OF_PRODUCER = ("publish", "_publish", "_prepare", "_delivery_details")
_OF_VIRTUAL = (
    "basic_publish",
    "_inplace_augment_message",
    "_get_message_priority",
    "_next_delivery_tag",
    "encode_body",
    "prepare_message",
)
_OF_REDIS = ("_put", "_q_for_pri", "priority")


def is_kombus_producer(producer: Any) -> bool:
    """Return whether a producer sends as kombu's own does."""
    is_plain = type(producer) is with_declaration_cache(Producer)
    return is_plain and all(is_own(producer, name, "kombu.messaging") for name in _OF_PRODUCER)


def is_kombus_channel(channel: Any) -> bool:
    """Return whether a channel to Redis makes messages as kombu's own does."""
    return (
        all(is_own(channel, name, "kombu.transport.virtual.base") for name in _OF_VIRTUAL)
        and all(is_own(channel, name, "kombu.transport.redis") for name in _OF_REDIS)
        and kombu_redis.dumps is kombu_json.dumps
        and is_own(kombu_json, "dumps", "kombu.utils.json")
    )


def is_kombus_json() -> bool:
    """Return whether kombu writes arguments in JSON by its own function."""
    return getattr(kombu_serialization.registry._encoders.get("json"), "encoder", None) is kombu_json.dumps


def facts_of_producer(producer: Any) -> tuple[Any, ...]:
    """Return the facts that a producer puts into each message."""
    return producer.serializer, producer.compression, producer.exchange.name, producer.auto_declare


def escaped(text: str) -> str:
    """Return a text as it stands in JSON that kombu writes, without its quotes."""
    if text.isascii() and text.isprintable() and '"' not in text and "\\" not in text:
        return text  # as nearly all
    return str(kombu_json.dumps(text))[1:-1]


def as_json(value: Any) -> str:
    """Return JSON as kombu writes it for a message."""
    return str(kombu_json.dumps(value))


def encoded_body(channel: Any, body: Any) -> str:
    """Return the body of a task's message as it stands in a message of a channel."""
    _, _, text = kombu_serialization.dumps(body, serializer="json")
    encoded, _ = channel.encode_body(text, channel.body_encoding)
    return str(encoded)
