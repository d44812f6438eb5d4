"""Keep the message of a task in the schedule, from any process."""

from __future__ import annotations

import time
import uuid
from dataclasses import replace
from datetime import datetime
from typing import Any

from celery import Celery
from celery.canvas import Signature, maybe_signature
from celery.result import AsyncResult

from redisbeater.broker.capture import Capture
from redisbeater.broker.message import Message
from redisbeater.context import Context
from redisbeater.display import quoted
from redisbeater.editing.edit import Author
from redisbeater.exceptions import ImproperlyConfigured, InvalidEntry, WrongType
from redisbeater.model.delay import eta_of
from redisbeater.model.passed_values import check_new_id
from redisbeater.store.delays import KEPT, NO_BEAT
from redisbeater.times import from_iso

#: The options of a signature that say when it is due, which ``at`` does.
_WHEN = ("countdown", "eta")

#: What to do about a signature whose first messages are several, or known only when it is sent.
_OF_SEVERAL = "add a task of yours that builds the {} and calls its apply_async()"


def add_delay(context: Context, given: object, at: datetime, delay_id: str | None) -> AsyncResult[Any]:
    """Keep the message of a signature until a time; :meth:`redisbeater.results.Delays.add`."""
    app = context.app
    signature = _checked_signature(app, given)
    wanted = _wanted_id(signature, delay_id)
    capture = Capture(app)
    try:
        result: AsyncResult[Any] = signature.apply_async(task_id=wanted, eta=at, producer=capture)
    finally:
        capture.disconnect()
    message = _only_message(capture, wanted)
    _check_message(message, at)
    message = replace(message, kept=time.time(), by=Author.of().by)
    _keep(context, wanted, at, _text_of(context, message), capture.place)
    return result


def _checked_signature(app: Celery, given: object) -> Signature[Any]:
    """Return a signature for this app, if it is that of one task.

    Raises:
        InvalidEntry: it is none; of a wrong type it is a TypeError as well.
        ImproperlyConfigured: the app executes its tasks where they are sent.
    """
    if not isinstance(given, Signature):
        name = getattr(given, "name", given)
        call = f"app.signature({quoted(name)}, args=[...])" if isinstance(name, str) else "proj.report.s(1)"
        raise WrongType("signature", f"expected the signature of a task, such as {call}, got {quoted(given, 80)}")
    kind = given.subtask_type or ("group" if given.task == "celery.group" else "")
    if kind in ("chain", "group", "chord"):
        raise InvalidEntry("signature", f"expected that of one task, got a {kind}; {_OF_SEVERAL.format(kind)}")
    for name in _WHEN:
        if given.options.get(name) is not None:
            raise InvalidEntry(f"signature.options.{name}", "at= says when it is due; leave the option out")
    if app.conf.task_always_eager:
        raise ImproperlyConfigured("task_always_eager = True: tasks are executed where they are sent; unset it")
    return maybe_signature(given, app=app, clone=True)


def _wanted_id(signature: Signature[Any], delay_id: str | None) -> str:
    own = signature.options.get("task_id")
    if delay_id is None:
        return str(own or uuid.uuid4())
    if own and own != delay_id:
        raise InvalidEntry("id", f"is {quoted(delay_id)}, and the signature has the task_id {quoted(own)}; pass one")
    check_new_id("id", delay_id)
    return delay_id


def _only_message(capture: Capture, wanted: str) -> Message:
    """Return the message that an ``apply_async`` has published.

    Raises:
        InvalidEntry: it was none, or several, as an ``apply_async`` of the application may do; or it has another id.
    """
    if len(capture.messages) != 1:
        number = len(capture.messages)
        problem = f"expected a task whose apply_async publishes one message by its producer; it published {number}"
        raise InvalidEntry("signature", problem)
    message = capture.messages[0]
    if eta_of(message.headers) is None:
        raise InvalidEntry("signature", "its message has no eta in its headers; set task_protocol = 2")
    if message.headers["id"] != wanted:
        raise InvalidEntry("id", f"its apply_async has made {quoted(message.headers['id'])} of {quoted(wanted)}")
    return message


def _check_message(message: Message, at: datetime) -> None:
    if message.exchange:
        problem = f"is sent by the exchange {quoted(message.exchange)}, and a delay to one queue; set queue= alone"
        raise InvalidEntry("signature.options", problem)
    if not message.routing_key:
        raise InvalidEntry("signature.options.queue", "expected the name of a queue")
    expires = from_iso(message.headers.get("expires"))
    if expires is not None and expires <= at:
        raise InvalidEntry("signature.options.expires", f"passes before {at.isoformat()}; set a later one")


def _text_of(context: Context, message: Message) -> str:
    try:
        text = message.to_text()
    except (TypeError, ValueError) as exc:
        raise InvalidEntry("signature.options", f"a header or a property is no JSON: {exc}; leave it out") from exc
    most = context.config.max_entry_size
    if (size := len(text.encode())) > most:
        problem = f"its message has {size:,} bytes, and redisbeater_max_entry_size is {most:,}; pass less, or raise it"
        raise InvalidEntry("signature", problem)
    return text


def _keep(context: Context, delay_id: str, at: datetime, text: str, place: str) -> None:
    delays = context.redis.delays
    answer = delays.keep(delay_id, at, text, broker=place)
    if answer == NO_BEAT:  # the next one sends it
        answer = delays.keep(delay_id, at, text)
    if answer != KEPT:
        problem = f"beat sends delays to {answer}, and this program sends to {place}; set the same broker"
        raise ImproperlyConfigured(f"broker_url: {problem}")
