"""The errors of redis-py: which of them are transient, and our errors for them."""

from __future__ import annotations

import re
import ssl
import sys
import threading
from collections.abc import Callable, Collection, Sequence
from traceback import walk_stack, walk_tb
from typing import TypeVar

from redis.exceptions import (
    AskError,
    AuthenticationError,
    AuthorizationError,
    ClusterCrossSlotError,
    ClusterError,
    ConnectionError,
    ReadOnlyError,
    RedisClusterException,
    RedisError,
    ResponseError,
    TimeoutError,
    TryAgainError,
)

from redisbeater.display import text_of
from redisbeater.exceptions import StoreError, StoreUnavailable, causes, passed_through

#: All errors of redis-py; those about the topology of a cluster are no RedisErrors.
CLIENT_ERRORS = (RedisError, RedisClusterException)

#: Errors that pass by themselves: a restart, a failover, slots that migrate.
_TRANSIENT = (ConnectionError, TimeoutError, ReadOnlyError, ClusterError, TryAgainError, RedisClusterException)

#: Transient errors without a class of their own. Redis 6.2 reports an error inside a script only as text.
_TRANSIENT_TEXT = re.compile(r"\b(READONLY|MASTERDOWN|CLUSTERDOWN|TRYAGAIN|NOREPLICAS|BUSY)\b|non local key")

#: Connection errors to redis-py, but retrying corrects neither a password nor a certificate.
_REFUSED = (AuthenticationError, AuthorizationError, ssl.SSLError)

#: TLS errors that mean only that the connection was lost.
_LOST = (ssl.SSLEOFError, ssl.SSLZeroReturnError, ssl.SSLSyscallError)

#: Answers that a right is missing, and where they name the command. Before Redis 7.2 those to scripts do not; the
#: shared functions of our scripts do.
_NO_RIGHT = re.compile(r"NOPERM|no permissions to run|can't run this command|ACL failure in script")
_REFUSED_COMMAND = re.compile(r"run the '([\w|]+)' command|user_script:\d+: (\w+): ")

#: Answers that the user may not use a key or a channel, whatever the command is.
_REFUSED_NAME = re.compile(r"access (?:a|one of the|at least one of the) (key|channel)")

_IS_CLUSTER = (
    "the server is part of a Redis Cluster: use redis-cluster:// in redisbeater_redis_url; or, if one address serves "
    "the whole cluster, set redisbeater_key_prefix = '{redisbeater}:'"
)
_IS_MOVING = "the cluster moves the slot of the schedule, which passes; if it lasts, redis-cli --cluster check says why"
_IS_NO_CLUSTER = "the server is no cluster: use redis:// in redisbeater_redis_url"


_NO_HANDSHAKE = "does it speak TLS on this port? If not, use redis:// in redisbeater_redis_url"

#: What to do about an error of TLS, by what OpenSSL says; the first that is found counts.
_TLS_HINTS = {
    "certificate has expired|not yet valid": "renew the server's certificate, or correct the clock of this host",
    "mismatch, certificate": "use a name of the server's certificate in redisbeater_redis_url",
    "CERTIFICATE_VERIFY_FAILED": "set ssl_ca_certs in redisbeater_redis_use_ssl to the authority of the server",
    r"ALERT_\w*CERTIFICATE|ALERT_UNKNOWN_CA": "the server wants another certificate: check ssl_certfile, ssl_keyfile",
    r"\[X509|PEM lib": "check the files of ssl_ca_certs, ssl_certfile and ssl_keyfile",
    "WRONG_VERSION_NUMBER": "the server speaks no TLS on this port: use redis:// in redisbeater_redis_url",
    "handshake operation timed out": _NO_HANDSHAKE,
}

#: What is read of a connection that the server ends, or answers with an alert of TLS, by redis-py.
_ENDED = re.compile(r"reset by peer|[Cc]onnection closed|Broken pipe|Protocol Error: b'\\x15\\x03")

_MAY_WANT_TLS = " (does it want TLS on this port? If so, use rediss:// in redisbeater_redis_url)"


#: The kinds by which errors are counted.
KINDS = ("timeout", "connection", "refused", "readonly")


def kind_of(error: BaseException) -> str:
    """Return whether an error was no answer in time, a lost connection, a server that takes no writes, or a refusal."""
    decisive = _decisive(error)
    if isinstance(decisive, TimeoutError):
        return "timeout"
    if isinstance(decisive, ReadOnlyError) or "READONLY" in str(decisive):
        return "readonly"
    return "connection" if is_transient(error) else "refused"


def is_transient(error: BaseException) -> bool:
    """Return whether the error may pass by itself, so that a retry is worthwhile."""
    if any(isinstance(cause, _REFUSED) and not isinstance(cause, _LOST) for cause in causes(error)):
        return False
    decisive = _decisive(error)
    return isinstance(decisive, _TRANSIENT) or bool(_TRANSIENT_TEXT.search(str(decisive)))


def is_refusal(error: StoreError) -> bool:
    """Return whether the server has answered with this error, as a replica does: it may still answer reads."""
    cause = error.__cause__
    return not isinstance(error, StoreUnavailable) or (
        cause is not None and isinstance(_decisive(cause), ResponseError)
    )


def wrapped(error: BaseException) -> StoreError:
    """Return our error for an error of redis-py, with its text and a hint at the fix."""
    decisive = _decisive(error)
    behind = "" if decisive is error else f": {type(decisive).__name__}: {text_of(decisive)}"
    kind = StoreUnavailable if is_transient(error) else StoreError
    return kind(f"{type(error).__name__}: {text_of(error)}{behind}{_tls_hint(error) or _hint(decisive)}")


def right_hint(problem: str, commands: Collection[str] = ()) -> str:
    """Return how to grant the right to a key, a channel or a command; empty if none was refused, or nobody knows which.

    Arguments:
        problem: the text of the error.
        commands: the commands that it can be, where the text does not name it.
    """
    if name := _REFUSED_NAME.search(problem):
        mark = "~" if name[1] == "key" else "&"
        return f" (grant the right to the {name[1]}s: ACL SETUSER <user> {mark}<redisbeater_key_prefix>*)"
    if not _NO_RIGHT.search(problem):
        return ""
    named = _REFUSED_COMMAND.search(problem)
    found = {named[1] or named[2]} if named else {*commands}
    return f" (grant the right: ACL SETUSER <user> +{found.pop().lower()})" if len(found) == 1 else ""


def _tls_hint(error: BaseException) -> str:
    """Return a hint on how to fix TLS, or an empty text if TLS has not failed."""
    problem = " ".join(str(cause) for cause in causes(error) if isinstance(cause, OSError))
    other = _MAY_WANT_TLS if _ends_without_tls(error) else ""
    return next((f" ({hint})" for pattern, hint in _TLS_HINTS.items() if re.search(pattern, problem)), other)


def handshake_hint(thread: threading.Thread) -> str:
    """Return the hint on an unanswered handshake of TLS, if that is what a thread waits for, or an empty text."""
    top = sys._current_frames().get(thread.ident or 0)
    waits = top is not None and any(frame.f_code.co_name == "do_handshake" for frame, _ in walk_stack(top))
    return f" ({_NO_HANDSHAKE})" if waits else ""


def _ends_without_tls(error: BaseException) -> bool:
    """Return whether the server has ended a connection without TLS at its first words, as one with TLS does."""
    frames = (frame for cause in causes(error) for frame, _ in walk_tb(cause.__traceback__))
    is_plain = not any(passed_through(cause, ssl) for cause in causes(error))
    return is_plain and bool(_ENDED.search(str(error))) and any("on_connect" in each.f_code.co_name for each in frames)


def _hint(error: BaseException) -> str:
    # redis-py 5 parses these errors into classes only in its cluster client.
    if isinstance(error, (AskError, ClusterCrossSlotError)) or re.match("(MOVED|ASK|CROSSSLOT) ", str(error)):
        return f" ({_IS_CLUSTER})"
    if "TTL exhausted" in str(error):  # of redis-py's redirections
        return f" ({_IS_MOVING})"
    return f" ({_IS_NO_CLUSTER})" if "cluster support disabled" in str(error) else right_hint(str(error))


def _decisive(error: BaseException) -> BaseException:
    """Return the error that caused it: the cluster client itself reports only that no node was usable."""
    if not isinstance(error, RedisClusterException):
        return error
    return [cause for cause in causes(error) if isinstance(cause, CLIENT_ERRORS)][-1]


Item = TypeVar("Item")

#: Refusals of whatever is written: no memory, or a disk that is full. redis-py has classes for some, and takes the
#: word out of the text.
_FULL = re.compile(r"\b(OOM|OutOfMemoryError|MISCONF)\b")

#: Refusals of a server that takes changes elsewhere, or with more replicas.
_READ_ONLY = re.compile(r"\b(READONLY|ReadOnlyError|NOREPLICAS)\b")

#: Refusals of a command or a key within a script, for a right that is missing, by several versions of Redis.
_NO_COMMAND = re.compile(r"can't (?:run this command|access )|ACL failure in script|NOPERM|NoPermissionError")

#: Refusals of whatever is asked: the user, or the right to run scripts. Within a script only one command is refused.
_NO_RIGHTS = re.compile(r"^(?!.*user_script).*\b(NOAUTH|WRONGPASS|NOPERM|Auth\w+Error|NoPermissionError)\b", re.DOTALL)


class NothingRecorded(StoreError):
    """A right is missing that the commit of every entry needs."""

    def __init__(self, error: StoreError) -> None:
        super().__init__(f"no run can be recorded, so none is sent until that is fixed: {error}")


def lacks_right(error: StoreError) -> bool:
    """Return whether Redis refuses a command because the user has no right to it, or to its key."""
    return bool(_NO_COMMAND.search(str(error)))


def takes_no_changes(error: StoreError) -> bool:
    """Return whether Redis refuses every change: as a replica, without its replicas, or with a full memory or disk."""
    return bool(_FULL.search(str(error)) or _READ_ONLY.search(str(error)))


def will_pass(error: StoreError) -> bool:
    """Return whether Redis refuses everything at this moment, until somebody mends that; not one entry alone."""
    text = str(error)
    is_general = isinstance(error, (StoreUnavailable, NothingRecorded))
    has_no_connection = any(isinstance(cause, ssl.SSLError) for cause in causes(error))
    return is_general or has_no_connection or bool(_FULL.search(text) or _NO_RIGHTS.search(text))


def refused_alone(write: Callable[[Sequence[Item]], None], items: Sequence[Item]) -> list[tuple[Item, StoreError]]:
    """Write items together; where Redis refuses them, write each half alone, down to the items that it refuses.

    Return these, each with the error. Writing an item twice must do no harm: a script that fails has written a part.

    Raises:
        StoreError: Redis refuses everything at this moment.
    """
    try:
        write(items)
    except StoreError as exc:
        if will_pass(exc) or not items:
            raise
        if len(items) == 1:
            return [(items[0], exc)]
        middle = len(items) // 2
        return refused_alone(write, items[:middle]) + refused_alone(write, items[middle:])
    return []
