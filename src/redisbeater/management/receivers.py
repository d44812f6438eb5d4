"""The receivers of messages about incidents: whether they can be told, and what they were."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from redisbeater.context import Context
from redisbeater.display import did_you_mean, json_fields, json_form, quoted
from redisbeater.exceptions import ImproperlyConfigured
from redisbeater.health.status import sender_of
from redisbeater.model.message import Message, trial_message
from redisbeater.notices.delivery import Answer, Delivery, Letter, missing_apprise, service_of
from redisbeater.store.notices import Receiver


@dataclass(frozen=True, kw_only=True)
class Tried:
    """What became of a test message.

    Attributes:
        receiver: who was told.
        service: as much of its URL as may be shown.
        problem: why it was not; empty: it was.
        seconds: how long that took.
    """

    receiver: str
    service: str
    problem: str
    seconds: float

    @property
    def answer(self) -> str:
        """What became of it, in words."""
        return self.problem or f"told, in {self.seconds:.1f} s"

    def as_dict(self) -> dict[str, Any]:
        """Return it as a JSON object."""
        return {"told": not self.problem, **json_fields(self)}


@dataclass(frozen=True, kw_only=True)
class KnownReceiver:
    """A receiver that the settings name: ``service`` is as much of its URL as may be shown."""

    receiver: str
    service: str
    found: Receiver

    def as_dict(self) -> dict[str, Any]:
        """Return it as a JSON object."""
        known = json_form(self.found)
        del known["name"]
        return {"receiver": self.receiver, "service": self.service, **known}


def read_receivers(context: Context, name: str | None = None) -> list[KnownReceiver]:
    """Return all receivers, or those of a name, and what is known of them.

    Raises:
        ImproperlyConfigured: nobody is to be told.
        ValueError: there is no such name.
    """
    wanted = _wanted(context, name)
    found = {each.name: each for each in context.redis.notices.receivers()}
    return [
        KnownReceiver(receiver=each, service=service_of(url), found=found.get(each, Receiver(each)))
        for each, url in wanted.items()
    ]


def try_receivers(context: Context, name: str | None = None) -> list[Tried]:
    """Send a test message to all receivers, or to those of a name, and return what became of each; waits for that.

    Raises:
        ImproperlyConfigured: nobody is to be told, or what sends messages is missing.
        ValueError: there is no such name.
    """
    wanted = _wanted(context, name)
    if problem := missing_apprise():
        raise ImproperlyConfigured(problem)
    return [
        Tried(
            receiver=each.receiver,
            service=service_of(wanted[each.receiver]),
            problem=each.problem,
            seconds=each.seconds,
        )
        for each in _answers(wanted, trial_message(sender_of(context)))
    ]


def problems_of_receivers(context: Context) -> Iterator[str]:
    """Yield which receivers cannot be told, by their URLs; nothing is sent."""
    receivers = context.config.receivers
    if receivers and (problem := missing_apprise()):
        yield f"redisbeater_notify is set: {problem}"
    elif receivers:
        for answer in _answers(receivers, None):
            if answer.problem:
                yield f"{answer.receiver}, {service_of(receivers[answer.receiver])}: {answer.problem}"


def _wanted(context: Context, name: str | None) -> Mapping[str, str]:
    """Return the URLs of receivers by what these are called."""
    config = context.config
    if not config.notify:
        raise ImproperlyConfigured("redisbeater_notify is not set: nobody is told; set it to {'ops': 'mailto://...'}")
    if name is None:
        return config.receivers
    if name not in config.notify:
        has = f"; it has {', '.join(config.notify)}"
        raise ValueError(f"redisbeater_notify has no {quoted(name)}{did_you_mean(name, config.notify) or has}")
    return {each: config.receivers[each] for each in config.told(name)}


def _answers(receivers: Mapping[str, str], message: Message | None) -> list[Answer]:
    delivery = Delivery([Letter(receiver, url, message) for receiver, url in receivers.items()])
    delivery.wait()
    return delivery.answers
