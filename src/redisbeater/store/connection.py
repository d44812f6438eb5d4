"""The connection to Redis: one client, scripts, retries, and errors wrapped once."""

from __future__ import annotations

import hashlib
import re
import threading
from asyncio import CancelledError
from collections.abc import Callable, Sequence
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache, partial
from importlib import resources
from itertools import count
from typing import Any

from redis.exceptions import NoScriptError
from tenacity import Retrying, retry_if_exception, stop_after_delay, wait_random_exponential

from redisbeater.config.settings import Config
from redisbeater.config.urls import Topology
from redisbeater.exceptions import StoreError
from redisbeater.model.run import CLOSED, COUNTED, FINAL, REVISABLE, STATES, State
from redisbeater.store.client import make_client
from redisbeater.store.failure import CLIENT_ERRORS, is_transient, kind_of, right_hint, wrapped
from redisbeater.store.keys import ABSENT

#: Is set once nobody waits for what runs in this context; None: it goes on to its end, whoever waits.
cancelled: ContextVar[threading.Event | None] = ContextVar("cancelled", default=None)


def end_if_cancelled() -> None:
    """End a read that nobody waits for any more.

    Raises:
        CancelledError: nobody does; no handler of errors on the way stops it.
    """
    event = cancelled.get()
    if event is not None and event.is_set():
        raise CancelledError


@dataclass(frozen=True)
class Script:
    """One script. The server keeps it after the first call, and loses it with a restart or a failover."""

    text: str
    sha: str
    #: A key that never exists, which is passed behind the others; empty: none is.
    absent: str = ""

    @classmethod
    def of(cls, text: str, absent: str = "") -> Script:
        """Return the script with this text."""
        return cls(text=text, sha=hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest(), absent=absent)

    def at(self, now: str) -> Script:
        """Return the script with a fixed time, UNIX seconds with six decimals."""
        seconds, _, microseconds = now.partition(".")
        fixed = f"{{'{seconds}', '{microseconds}'}}"
        return Script.of(self.text.replace("redis.call('TIME')", fixed), self.absent)

    def run(self, client: Any, keys: Sequence[str], args: Sequence[str]) -> Any:
        """Run it, sending its text only when the server does not know it."""
        keys = [*keys, self.absent] if self.absent else keys
        # Outside the handler: an error of the second call is no consequence of the first.
        with suppress(NoScriptError):
            return client.evalsha(self.sha, len(keys), *keys, *args)
        return client.eval(self.text, len(keys), *keys, *args)

    def line_of(self, error: str) -> str:
        """Return the line that an error names, which has the refused command; empty when it names none."""
        match = re.search(r"user_script: ?(\d+)", error)
        return self.text.splitlines()[int(match[1]) - 1].strip() if match else ""


def commands_of(line: str) -> set[str]:
    """Return the commands in a line of a script."""
    return set(re.findall(r"redis\.p?call\('(\w+)'", line))


@cache
def load_script(name: str, *, with_runs: bool = False, absent: str = "") -> Script:
    """Return the script of ``lua/<name>.lua``, behind the functions of ``lua/prelude.lua`` that it uses.

    Arguments:
        name: ``commit``, for example; ``runs/start`` for a script of runs.
        with_runs: whether runs are tracked: then ``lua/runs/with_<name>.lua`` has what the script does with them.
        absent: a key that never exists, for a cluster. A script uses keys that are not passed. While their slot is
            moved it would find none of them on the node that it comes to, and write them there a second time; with a
            key that neither node has, Redis answers TRYAGAIN until all keys are on one node.
    """
    folder = resources.files("redisbeater.store").joinpath("lua")
    own = ["with_commit"] if name in ("commit", "delays/commit") else []
    parts = ["prelude", *own, *_parts_of_runs(name, with_runs=with_runs), name]
    texts = (
        _STATES if part == "states" else folder.joinpath(f"{part}.lua").read_text(encoding="utf-8") for part in parts
    )
    text = without_unused("\n".join(texts))
    return Script.of(f"table.remove(KEYS) {text}", absent) if absent else Script.of(text)


def without_unused(text: str) -> str:
    """Return a script without the functions and tables of its preludes that it does not use.

    Redis makes all of them anew with each call: without those, the start of a run takes 36 us of it instead of 42
    (``python benchmarks/run_cost.py``).
    """
    names, kept, block = set[str](), list[str](), list[str]()
    for line in reversed(text.split("\n")):
        block.append(line)
        if line and not line.startswith((" ", "end", "else")):  # the first line of what begins here
            defined = _DEFINED.match(line)
            if defined is None or not names.isdisjoint(defined.groups()):
                kept += block
                names.update(*(re.findall(r"\w+", each) for each in block if not each.startswith("--")))
            block = []
    return "\n".join(reversed([*kept, *block]))


#: The first line of a function, or a table in one line, with its name: a script uses only what is above it.
_DEFINED = re.compile(r"local (?:function (\w+)\(|(\w+) = \{.*\}$)")


def _parts_of_runs(name: str, *, with_runs: bool) -> list[str]:
    if with_runs:
        return ["states", "runs/prelude", f"runs/with_{name}"]
    return ["states", "runs/prelude"] if name.startswith("runs/") else []


def _those(fact: str) -> str:
    """Return the states of which a fact is known, as a table of Lua."""
    return "{" + ", ".join(f"{state} = true" for state in State if getattr(STATES[state], fact)) + "}"


#: What scripts of runs know of states. Sets have an order of their own in each process, which must not get into a text:
#: each process would send another script.
_STATES = f"""\
local FINAL = {{{", ".join(f"{state} = {str(state in FINAL).lower()}" for state in State)}}}
local CLOSED = {{{", ".join(f"{state} = true" for state in State if state in CLOSED)}}}
local LETTERS = {{{", ".join(f"{state} = '{STATES[state].letter}'" for state in State if STATES[state].letter)}}}
local REVISABLE = {{{", ".join(f"{state} = true" for state in State if state in REVISABLE)}}}
local FAILURES = {_those("is_failure")}
local REPORTED = {_those("is_reported")}
local REDELIVERED = {_those("needs_redelivery")}
local COUNTED = {{{", ".join(f"'n.{word}'" for word in COUNTED)}}}
"""


#: How long a call is retried: long enough for a restart of the server, far below the lock's timeout.
RETRY_SECONDS = 3.0


@dataclass(frozen=True, kw_only=True)
class UndoScript:
    """The script that reverts another one whose reply was lost. Executing it twice must do no harm."""

    script: str
    keys: Sequence[str]
    args: Sequence[str]


class Connection:
    """A connection for one schedule. Creating it does no I/O; threads may share it, and it works after a fork."""

    def __init__(self, config: Config) -> None:
        #: How many tries have failed, by the kinds of :func:`~redisbeater.store.failure.kind_of`.
        self.errors: dict[str, int] = {}
        #: What the newest of them said.
        self.newest_error = ""
        self._client = make_client(config)
        self._absent = f"{config.key_prefix}{ABSENT}" if config.url.topology is Topology.CLUSTER else ""
        #: UNIX seconds that scripts take for the server's time, as text; empty: they ask the server. For tests.
        self.fixed_now = ""
        limit = RETRY_SECONDS if config.retry_period else 0
        is_late = stop_after_delay(limit)
        #: Ends by the clock, and by its own waits where an application has stopped the clock, as its tests do.
        self._attempts = Retrying(
            retry=retry_if_exception(is_transient),
            stop=lambda state: is_late(state) or state.idle_for >= limit,
            wait=wait_random_exponential(multiplier=0.05, max=1),
            reraise=True,
        )

    def run(
        self,
        script: str,
        keys: Sequence[str],
        args: Sequence[str] = (),
        *,
        undo: UndoScript | None = None,
        retry_args: Sequence[str] | None = None,
        with_runs: bool = False,
    ) -> Any:
        """Run a script and return its reply; retry while Redis is unreachable.

        Arguments:
            script: the name of the script.
            keys: its KEYS.
            args: its ARGV.
            undo: the script to run before each retry, for a script that must not be executed twice.
            retry_args: its ARGV of each retry, for a script that must know; default: those of the first attempt.
            with_runs: whether runs are tracked, for a script that does more then.

        Raises:
            StoreUnavailable: Redis is unreachable; the script may have been executed.
            StoreError: Redis refused the script.
        """
        loaded, attempts = self._loaded(script, with_runs=with_runs), count(1)

        def attempt(client: Any) -> Any:
            is_retry = next(attempts) > 1
            if is_retry and undo is not None:
                self._loaded(undo.script).run(client, undo.keys, undo.args)
            return loaded.run(client, keys, retry_args if is_retry and retry_args else args)

        try:
            return self.call(attempt)
        except StoreError as exc:
            if not loaded.line_of(str(exc)):
                raise
            raise type(exc)(_with_place(script, loaded, str(exc))) from exc.__cause__

    def refusal(self, script: str, problem: str, *, with_runs: bool = False) -> StoreError:
        """Return the error for what a script told of commands that were refused, while it did the rest."""
        return StoreError(_with_place(script, self._loaded(script, with_runs=with_runs), problem))

    def call(self, operation: Callable[[Any], Any]) -> Any:
        """Run an operation and return its result; retry the whole of it while Redis is unreachable.

        Arguments:
            operation: takes the client of redis-py. Executing it twice must do no harm.

        Raises:
            StoreUnavailable, StoreError: as for :meth:`run`.
            CancelledError: nobody waits for the read that asks.
        """
        end_if_cancelled()
        try:
            return self._attempts(self._once, operation)
        except CLIENT_ERRORS as exc:
            raise wrapped(exc) from exc

    @property
    def database(self) -> int:
        """The number of the database that the client uses, of one server or of the master behind Sentinels."""
        return int(self._client.get().connection_pool.connection_kwargs.get("db") or 0)

    def subscribe(self, *channels: str) -> Any:
        """Subscribe to channels on one separate connection and return redis-py's subscription; do not retry.

        Raises:
            StoreUnavailable, StoreError: as for :meth:`run`.
        """
        try:
            return self._once(partial(_subscribed, channels=channels))
        except CLIENT_ERRORS as exc:
            raise wrapped(exc) from exc

    def _loaded(self, script: str, *, with_runs: bool = False) -> Script:
        loaded = load_script(script, with_runs=with_runs, absent=self._absent)
        return loaded.at(self.fixed_now) if self.fixed_now else loaded

    def _once(self, operation: Callable[[Any], Any]) -> Any:
        client = self._client.get()
        try:
            return operation(client)
        except CLIENT_ERRORS as exc:
            kind = kind_of(exc)
            self.errors[kind] = self.errors.get(kind, 0) + 1
            self.newest_error = str(wrapped(exc))
            if is_transient(exc):
                self._client.recover(client)
            raise


def _with_place(script: str, loaded: Script, problem: str) -> str:
    """Return the text of an error with the line of the script that it names, and how to grant the right there."""
    line = loaded.line_of(problem)
    hint = right_hint(problem) or right_hint(problem, commands_of(line))
    return f"{problem}{'' if hint in problem else hint}{f' [{script}.lua: {line}]' if line else ''}"


def unless_wrong_type(connection: Connection, operation: Callable[[Any], Any]) -> Any:
    """Return the result of an operation on one key; None where that holds another type than the operation needs."""
    try:
        return connection.call(operation)
    except StoreError as exc:
        if "WRONGTYPE" in str(exc):
            return None
        raise


def _subscribed(client: Any, channels: Sequence[str]) -> Any:
    subscription = client.pubsub(ignore_subscribe_messages=True)
    try:
        subscription.subscribe(*channels)
        # Wait for the confirmations: a change that is published before them is not received.
        for _ in channels:
            subscription.get_message(timeout=1.0)
    except CLIENT_ERRORS:
        subscription.close()
        raise
    return subscription
