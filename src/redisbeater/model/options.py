"""The options of an entry: the names that ``apply_async`` and a message know, and the values that each accepts."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any, Protocol

from redisbeater.display import did_you_mean, quoted
from redisbeater.exceptions import InvalidEntry
from redisbeater.schedules.zones import decode_datetime, encode_datetime, in_iana_zone
from redisbeater.times import is_seconds

#: The greatest priority that a message can have.
MOST_PRIORITY = 255

#: Task options whose value may be a datetime; it is stored in RedBeat's form.
_DATETIME_OPTIONS = ("eta", "expires")

#: Options that hold signatures of other tasks, which a worker sends.
_LINKS = ("link", "link_error", "chain", "chord")

#: Headers that are the message itself to Celery, which lets those of an option replace its own, and names of fields and
#: methods of its requests, which they hide: ``vars(celery.app.task.Context)`` and what ``as_task_v2`` writes. And the
#: one that its beat adds from 5.7 on.
_HEADERS_OF_CELERY = frozenset((
    "args", "argsrepr", "as_execution_options", "called_directly", "callbacks", "celery_beat_task", "chain", "children",
    "chord", "clear", "compression", "correlation_id", "delivery_info", "errbacks", "eta", "expires", "get", "group",
    "group_index", "headers", "hostname", "id", "ignore_result", "is_eager", "kwargs", "kwargsrepr", "lang",
    "logfile", "loglevel", "origin", "parent_id", "properties", "replaced_task_nesting", "reply_to", "retries",
    "root_id", "shadow", "soft_time_limit", "stamped_headers", "stamps", "task", "taskset", "time_limit",
    "timelimit", "update", "utc", "_children", "_filter_x_death_headers", "_get_custom_headers", "_protected",
))  # fmt: skip

_HEADERS_OF_BEAT = ("periodic_task_name", "scheduled_for", "previous_fire_time", "coalesced")

#: Returns whether a value can be used.
Test = Callable[[Any], bool]


class OptionRules(Protocol):
    """What one application knows about the options of its tasks."""

    def accepts(self, task: str, option: str) -> bool:
        """Tell whether the application's own code takes this option for a task, whatever its value."""

    def serializers(self) -> Collection[str]:
        """Return the names of the serializers."""

    def compressions(self) -> Collection[str]:
        """Return the names of the compression methods."""

    def queues(self) -> Collection[str] | None:
        """Return the names of the queues; None if any other is created when it is needed."""


def check_options(options: Mapping[str, Any], task: str, rules: OptionRules) -> None:
    """Refuse options that no broker could take: unknown names, and values of a wrong type.

    An option that the application's own code takes is not looked at, but for the names of its headers; None means that
    an option is not set.

    Raises:
        InvalidEntry: naming the first such option.
    """
    if not options:
        return
    stamps = options.get("stamped_headers") or ()
    for name, value in options.items():
        if value is None or name in stamps:
            continue
        problem = _problem(name, value, rules)
        if problem is not None and not rules.accepts(task, name):
            raise InvalidEntry(f"$.options.{name}", problem)
    _check_headers(options, "$.options")
    for path, signature in linked_signatures(options):
        _check_headers(signature.get("options"), f"{path}.options")


def owner_of_header(name: Any) -> str:
    """Return who sets a header of messages, ``Celery`` or ``beat``, or an empty text for the application."""
    if name in _HEADERS_OF_BEAT or str(name).startswith("redisbeater_"):
        return "beat"
    return "Celery" if name in _HEADERS_OF_CELERY else ""


def linked_signatures(options: Any, path: str = "$.options") -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the signatures of other tasks in options, and those in their options, each with its path."""
    for name in _LINKS if isinstance(options, Mapping) else ():
        links = options.get(name)
        is_list = isinstance(links, (list, tuple))
        for number, link in enumerate(links if is_list else [links]):
            if isinstance(link, Mapping):
                place = f"{path}.{name}[{number}]" if is_list else f"{path}.{name}"
                yield place, link
                yield from linked_signatures(link.get("options"), f"{place}.options")


def check_expiry(options: Mapping[str, Any], now: datetime) -> None:
    """Refuse an ``expires`` that has passed, for an entry that is created or whose options are changed.

    Raises:
        InvalidEntry: every run would have expired before it is sent.
    """
    expires = options.get("expires")
    if isinstance(expires, datetime) and expires.tzinfo is not None and expires <= now:
        problem = f"{expires.isoformat()} has passed: every run would have expired before it is sent"
        raise InvalidEntry("$.options.expires", f"{problem}; for an age pass seconds")


def storable_options(options: Any) -> Any:
    """Return the options with a relative ``expires`` in seconds, which Celery accepts like a timedelta."""
    if not isinstance(options, Mapping):
        return {} if options is None else options
    return {name: _storable(name, value) for name, value in options.items()}


def _storable(name: str, value: Any) -> Any:
    if name == "expires" and isinstance(value, timedelta):
        return value.total_seconds()
    return in_iana_zone(value, f"$.options.{name}") if isinstance(value, datetime) else value


def encoded_options(options: dict[str, Any]) -> dict[str, Any]:
    """Return the stored form of options."""
    if not options:
        return options
    return {
        key: encode_datetime(value) if key in _DATETIME_OPTIONS and isinstance(value, datetime) else value
        for key, value in options.items()
    }


def decoded_options(options: Any) -> Any:
    """Return the options of a stored form.

    Raises:
        InvalidEntry: a datetime cannot be read.
    """
    if not isinstance(options, dict) or not options:
        return options
    return {
        key: decode_datetime(value, f"$.options.{key}")
        if key in _DATETIME_OPTIONS and isinstance(value, dict)
        else value
        for key, value in options.items()
    }


def option_instant(value: Any, now: datetime) -> datetime | None:
    """Return the instant that an option such as ``expires`` or ``countdown`` means, or None.

    A naive datetime is left to Celery, which reads it in the zone of its app.
    """
    if isinstance(value, datetime):
        return value if value.tzinfo else None
    if isinstance(value, timedelta):
        return now + value
    return now + timedelta(seconds=value) if is_seconds(value, -math.inf, math.inf) else None


def _check_headers(options: Any, path: str) -> None:
    headers = options.get("headers") if isinstance(options, Mapping) else None
    for name in headers if isinstance(headers, Mapping) else ():
        if owner := owner_of_header(name):
            raise InvalidEntry(f"{path}.headers.{name}", f"{owner} itself sets it in each message; use another name")


def _problem(name: str, value: Any, rules: OptionRules) -> str | None:
    if name in _SET_BY_BEAT:
        return _SET_BY_BEAT[name]
    if name not in OPTIONS:
        return (
            f"is not an option of apply_async{did_you_mean(name, OPTIONS)}"
            " (list one that the task's own apply_async takes in redisbeater_task_options)"
        )
    accepts, expected = OPTIONS[name]
    if not accepts(value):
        return f"expected {expected}, got {quoted(value)}"
    return _unknown_name(name, value, rules) if name in _NAMED else None


def _unknown_name(option: str, value: str, rules: OptionRules) -> str | None:
    kind, names_of, remark = _NAMED[option]
    known = names_of(rules)
    if known is None or value in known:
        return None
    choices = f"expected one of {', '.join(map(repr, sorted(known)))}"
    return f"unknown {kind} {quoted(value)}{did_you_mean(value, known) or f'; {choices}'} ({remark})"


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value)


def _is_delay(value: Any) -> bool:
    return is_seconds(value, 0)


def _is_duration(value: Any) -> bool:
    return is_seconds(value, 0) and value > 0


def _is_end(value: Any) -> bool:
    return isinstance(value, datetime) or _is_duration(value)


def _is_count(value: Any) -> bool:
    return type(value) is int and value >= 0


def _is_priority(value: Any) -> bool:
    return type(value) is int and 0 <= value <= MOST_PRIORITY


def _is_bool(value: Any) -> bool:
    return isinstance(value, bool)


def _is_delivery_mode(value: Any) -> bool:
    return value in ("transient", "persistent") or (type(value) is int and value in (1, 2))


def _is_dict(value: Any) -> bool:
    return isinstance(value, Mapping)


def _is_list_of_texts(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and all(isinstance(item, str) for item in value)


def _is_signature(value: Any) -> bool:
    return isinstance(value, Mapping) and isinstance(value.get("task"), str)


def _is_link(value: Any) -> bool:
    return all(map(_is_signature, value)) if isinstance(value, (list, tuple)) else _is_signature(value)


def _is_retry_policy(value: Any) -> bool:
    return isinstance(value, Mapping) and all(
        name in _RETRY_FIELDS and (number is None or is_seconds(number, 0, math.inf)) for name, number in value.items()
    )


def _is_anything(value: Any) -> bool:
    return True


_RETRY_FIELDS = ("max_retries", "interval_start", "interval_step", "interval_max")

_A_TEXT = (_is_text, "a text that is not empty")
_A_BOOL = (_is_bool, "true or false")
_A_DELAY = (_is_delay, "seconds, 0 or more")
_A_DURATION = (_is_duration, "seconds, more than 0")
_A_COUNT = (_is_count, "a whole number, 0 or more")
_A_LINK = (_is_link, "a signature, such as proj.tasks.done.s(), or a list of them")
_ANYTHING = (_is_anything, "")

#: The options of ``Task.apply_async``, ``Celery.send_task`` and kombu's ``Producer.publish``, the properties of AMQP's
#: messages, and those of Amazon SQS: what each accepts, as a function and in words.
OPTIONS: Mapping[str, tuple[Test, str]] = {
    **dict.fromkeys(("queue", "exchange", "exchange_type", "routing_key", "serializer", "compression"), _A_TEXT),
    **dict.fromkeys(("shadow", "argsrepr", "kwargsrepr", "group_id", "root_id", "parent_id", "route_name"), _A_TEXT),
    **dict.fromkeys(("reply_to", "content_type", "content_encoding", "correlation_id", "message_id"), _A_TEXT),
    **dict.fromkeys(("type", "user_id", "app_id", "cluster_id"), _A_TEXT),
    **dict.fromkeys(("retry", "ignore_result", "mandatory", "immediate", "add_to_parent"), _A_BOOL),
    **dict.fromkeys(("countdown", "timeout", "confirm_timeout", "expiration"), _A_DELAY),
    **dict.fromkeys(("time_limit", "soft_time_limit"), _A_DURATION),
    **dict.fromkeys(("retries", "group_index", "replaced_task_nesting", "timestamp"), _A_COUNT),
    **dict.fromkeys(("link", "link_error"), _A_LINK),
    **dict.fromkeys(
        ("MessageGroupId", "MessageDeduplicationId", "MessageAttributes", "DelaySeconds", "delay_seconds"), _ANYTHING
    ),
    "priority": (_is_priority, f"a whole number from 0 to {MOST_PRIORITY}"),
    "expires": (_is_end, "seconds above 0, a timedelta or a datetime"),
    "delivery_mode": (_is_delivery_mode, "1 or 'transient', 2 or 'persistent'"),
    "headers": (_is_dict, "a dict"),
    "stamped_headers": (_is_list_of_texts, "a list of texts"),
    "retry_policy": (_is_retry_policy, f"a dict of numbers, by the names {', '.join(_RETRY_FIELDS)}"),
    "chord": (_is_signature, "a signature"),
    "chain": (_is_link, "a list of signatures"),
}

_NO_OBJECT = "cannot be stored; beat sends with its own connection and router"

#: Options that an entry cannot have, because beat decides them for each run.
_SET_BY_BEAT = {
    "task_id": "cannot be set; beat computes the id of each run from the entry's name and the fire time",
    "eta": "would hold all runs until the same moment; use countdown for a delay, or start_at or clocked()",
    **dict.fromkeys(("connection", "publisher", "router", "result_cls", "event_dispatcher", "declare"), _NO_OBJECT),
    "task_type": _NO_OBJECT,
}

_ELSEWHERE = "one of your own must be registered with kombu in this process, too"

#: Options whose value is the name of something, the names that are known, and a remark about others.
_NAMED: Mapping[str, tuple[str, Callable[[OptionRules], Collection[str] | None], str]] = {
    "serializer": ("serializer", lambda rules: rules.serializers(), _ELSEWHERE),
    "compression": ("compression", lambda rules: rules.compressions(), _ELSEWHERE),
    "queue": ("queue", lambda rules: rules.queues(), "task_create_missing_queues is off"),
}
