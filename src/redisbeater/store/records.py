"""The small records of a schedule: its log, its pause, the lines of its beats, and what the page keeps."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from redisbeater.model.log_line import LogLine, line_text
from redisbeater.store.connection import Connection, unless_wrong_type
from redisbeater.store.keys import PAUSE_CHANGED, Keys
from redisbeater.times import instant_of, to_unix

#: How many lines the log of the schedule keeps.
MOST_LINES = 1000

#: How long the log of a deleted entry is kept.
KEEP_DELETED_SECONDS = 7 * 86_400


class Log:
    """The logs of a schedule. The scripts that change or skip something write the lines of its entry themselves."""

    def __init__(self, connection: Connection, keys: Keys, most_of_entry: int) -> None:
        self._connection = connection
        self._keys = keys
        #: How many lines the log of an entry keeps.
        self.most_of_entry = most_of_entry

    def of_entry(self, name: str, limit: int = -1) -> list[LogLine]:
        """Return the lines of an entry, the newest first; ``limit``: how many, all by default."""
        return self._newest_lines(self._keys.log_of(name), limit)

    def of_entries(self, names: Sequence[str], limit: int = -1) -> list[list[LogLine]]:
        """Return the lines of several entries in one round trip; ``limit``: how many of each, all by default."""
        last = limit if limit < 0 else limit - 1

        def read(client: Any) -> list[Any]:
            pipeline = client.pipeline(transaction=False)
            for name in names:
                pipeline.lrange(self._keys.log_of(name), 0, last)
            replies: list[Any] = pipeline.execute(raise_on_error=False)
            return replies

        replies = self._connection.call(read)
        return [[LogLine.from_text(text) for text in reply] if isinstance(reply, list) else [] for reply in replies]

    def of_schedule(self, limit: int = -1) -> list[LogLine]:
        """Return the lines of the schedule, the newest first; ``limit``: how many, all by default."""
        return self._newest_lines(self._keys.log, limit)

    def add(self, what: str, *, seconds: float = 0.0, **details: object) -> None:
        """Add a line to the log of the schedule; ``seconds``: how long what happened has lasted until now."""
        self._add([self._keys.log], [str(MOST_LINES), line_text(what, **details), f"{seconds:.6f}", "0"])

    def add_to_entry(self, name: str, text: str) -> None:
        """Add a line with that text to the log of an entry, for what changes nothing in its hash."""
        keys, keep = [self._keys.log_of(name), self._keys.entry(name)], str(KEEP_DELETED_SECONDS * 1000)
        self._add(keys, [str(self.most_of_entry), text, "0", keep])

    def _add(self, keys: Sequence[str], args: Sequence[str]) -> None:
        self._connection.run("add_to_log", keys, [*args, "0"], retry_args=[*args, "1"])

    def _newest_lines(self, key: str, limit: int) -> list[LogLine]:
        last = limit if limit < 0 else limit - 1
        texts = unless_wrong_type(self._connection, lambda client: client.lrange(key, 0, last))
        return [LogLine.from_text(text) for text in texts or ()]


#: How many entries are looked at when claims, or late ones, are counted: a few milliseconds of the server.
MOST_COUNTED = 10_000


class PauseKey:
    """The pause of a schedule, as it is stored."""

    def __init__(self, connection: Connection, keys: Keys, lease: float) -> None:
        self._connection = connection
        self._keys = keys
        #: Seconds that a claim lasts.
        self.lease = lease

    def read(self) -> tuple[str, float | None] | None:
        """Return the JSON of the pause and the seconds to its end, if it has one, or None if there is no pause."""
        text = self._get(lambda client: client.get(self._keys.pause))
        if text is None:
            return None
        milliseconds = self._get(lambda client: client.pttl(self._keys.pause))
        return text, None if milliseconds < 0 else milliseconds / 1000

    def begin(self, text: str, seconds_left: float | None, **details: object) -> None:
        """Store the JSON of a pause, record it in the log with these details, and wake beats."""
        left = 0 if seconds_left is None else max(round(seconds_left * 1000), 1)
        self._run("pause", text, str(left), line_text("paused", **details), str(MOST_LINES))

    def end(self, **details: object) -> bool:
        """Delete the pause, record that in the log with these details, and wake beats; tell if there was one."""
        return bool(self._run("resume", line_text("resumed", **details), str(MOST_LINES)) == "RESUMED")

    def let_pass(self, seconds: float) -> None:
        """End a pause with a time limit so many seconds sooner.

        For tests, whose clock moves while that of the server, which ends it, does not.
        """
        pause = self.read()
        if pause is not None and pause[1] is not None:
            left = max(round((pause[1] - seconds) * 1000), 0)  # 0 deletes the key
            self._get(lambda client: client.pexpire(self._keys.pause, left))

    def claimed(self) -> int:
        """Return how many entries beats have claimed and not committed yet."""
        args = [str(self.lease), str(MOST_COUNTED), self._keys.prefix]
        return int(self._connection.run("count_claims", [self._keys.schedule], args))

    def _run(self, script: str, *args: str) -> Any:
        keys = [self._keys.pause, self._keys.log]
        return self._connection.run(script, keys, [*args, self._keys.changes, PAUSE_CHANGED])

    def _get(self, operation: Callable[[Any], Any]) -> Any:
        return unless_wrong_type(self._connection, operation)


#: How long a task id that a caller has chosen stands for what was triggered with it.
KEEP_TRIGGER_SECONDS = 86_400


class TriggerKeys:
    """What was triggered with task ids that callers have chosen."""

    def __init__(self, connection: Connection, keys: Keys) -> None:
        self._connection = connection
        self._keys = keys

    def begin(self, task_id: str, asked: str, words: str, *, token: str, lease: float) -> tuple[str, str]:
        """Return whether the call with that token is to send the run.

        Arguments:
            task_id: the id of the run.
            asked: a digest of what is triggered.
            words: the same for people.
            token: the call.
            lease: seconds for which no other call sends it.

        Returns:
            ``SEND``; ``SENT``: an earlier call has; ``WAIT``: another one is about to; ``OTHER`` and what the id stands
            for; ``TAKEN`` and the name of the entry that has a run of that id.
        """
        terms = [asked, words, token, str(lease), str(KEEP_TRIGGER_SECONDS * 1000)]
        keys = [self._keys.trigger(task_id), self._keys.run(task_id)]
        word, text = self._connection.run("begin_trigger", keys, terms)
        return word, text

    def end(self, task_id: str, outcome: str, *, token: str) -> None:
        """Store what became of the send: ``SENT``, ``UNSENT``, for the next call, or ``REFUSED``: the id is free."""
        terms = [token, outcome, str(KEEP_TRIGGER_SECONDS * 1000)]
        self._connection.run("end_trigger", [self._keys.trigger(task_id)], terms)


#: How many lines are read: a schedule has a few beats, whatever another program writes.
MOST_BEATS = 100


class Beats:
    """The lines of the beats. The scripts of lock and claim write them."""

    def __init__(self, connection: Connection, keys: Keys) -> None:
        self._connection = connection
        self._keys = keys

    def lines(self) -> dict[str, str]:
        """Return the stored lines: token -> JSON."""
        found = unless_wrong_type(self._connection, lambda client: client.hscan(self._keys.beats, count=MOST_BEATS))
        return dict(list(found[1].items())[:MOST_BEATS]) if found else {}

    def remove(self, token: str) -> None:
        """Delete the line of a beat that ends."""
        unless_wrong_type(self._connection, lambda client: client.hdel(self._keys.beats, token))


#: The fields of the rules of zones that are about no zone: another program has planned entries by other rules since
#: the last look, and all entries were looked at once.
AGAIN, LISTED = ":again", ":listed"


class ZoneRulesKey:
    """The rules of zones by which pending fire times were planned."""

    def __init__(self, connection: Connection, keys: Keys) -> None:
        self._connection = connection
        self._key = keys.zone_rules

    def read(self) -> dict[str, str] | None:
        """Return all fields; None if another program has put something else there."""
        found: dict[str, str] | None = unless_wrong_type(self._connection, lambda client: client.hgetall(self._key))
        return found

    def begin(self, fields: Mapping[str, str]) -> None:
        """Record the rules by which entries are planned again from now on, beside those before."""
        self._connection.call(lambda client: client.hdel(self._key, AGAIN))
        if fields:
            self._connection.call(lambda client: client.hset(self._key, mapping=dict(fields)))

    def finish(self, fields: Mapping[str, str], dropped: Sequence[str], *, new: Iterable[str]) -> bool:
        """Record that all entries are planned by these rules, unless another program has planned some by others.

        It may also have done so where it has recorded the rules of a ``new`` zone meanwhile.
        """
        terms = [json.dumps({**fields, LISTED: "1"}), json.dumps(list(dropped)), AGAIN, json.dumps(list(new))]
        return bool(self._connection.run("adopt_rules", [self._key], terms) == "ADOPTED")


#: For how long incidents stay new to somebody who has looked at them.
NEWS = timedelta(hours=1)


class PageKeys:
    """What all processes that serve the web page keep: texts under random ids, and who has looked at incidents."""

    def __init__(self, connection: Connection, keys: Keys) -> None:
        self._connection = connection
        self._keys = keys

    def end_session(self, session_id: str, seconds: int) -> None:
        """Remember that a session was ended, for as long as its cookie would be valid."""
        self._keep(self._keys.logout(session_id), "", seconds)

    def has_ended(self, session_id: str) -> bool:
        """Return whether a session was ended."""
        return self._read(self._keys.logout(session_id)) is not None

    def keep_undo(self, undo_id: str, text: str, seconds: int) -> None:
        """Store the JSON of a change and its undo."""
        self._keep(self._keys.undo(undo_id), text, seconds)

    def undo(self, undo_id: str) -> str | None:
        """Return the stored JSON, or None if it was deleted or its time is over."""
        return self._read(self._keys.undo(undo_id))

    def forget_undo(self, undo_id: str) -> None:
        """Delete it: the change is undone."""
        self._connection.call(lambda client: client.delete(self._keys.undo(undo_id)))

    def new_since(self, person: str, now: datetime, *, is_look: bool) -> datetime | None:
        """Return since when incidents are new to somebody, and record that they look, or None if they never have.

        It moves an hour after a look, to that look.
        """
        key = self._keys.seen
        text = unless_wrong_type(self._connection, lambda client: client.hget(key, person)) or ""
        since, at = map(instant_of, text.partition(" ")[::2])
        if at is not None and now - at < NEWS:
            return since
        if is_look:
            stored = f"{to_unix(at) if at else '-'} {to_unix(now)}"
            unless_wrong_type(self._connection, lambda client: client.hset(key, person, stored))
        return at

    def _keep(self, key: str, text: str, seconds: int) -> None:
        self._connection.call(lambda client: client.set(key, text, ex=seconds))

    def _read(self, key: str) -> str | None:
        found: str | None = unless_wrong_type(self._connection, lambda client: client.get(key))
        return found
