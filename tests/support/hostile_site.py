"""A beat under attack: it must send the control entries, count them, and leave the keys of others as they are."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import re
import socket
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import Any

import redis
from celery import Celery
from kombu.transport import memory

from redisbeater import RedisScheduleEntry, RedisScheduler
from redisbeater.store.keys import FORMAT
from support.hostile import Attack, Command, Entry, Key, Member, Unpredictable

__all__ = ("LONGEST_REASON", "UNPRINTABLE", "HostileSite", "Log", "captured_log", "is_same", "send_raw", "shown")

#: Control entries of each half of an attack.
CONTROLS = 3

#: Ticks in which all control entries must have been sent: a claim that is too large is made in several.
MOST_TICKS = 10

#: Ticks after which somebody must have said why nothing is sent.
EXCUSE_TICKS = 3

#: Processor time of the test's process in which the control entries must have been sent.
MOST_CPU_SECONDS = 2.0

#: Characters of a reason, and of a line that beat logs.
LONGEST_REASON = 500

#: What a terminal, or a reader of a log, would take for something else: C0, C1, DEL and bidirectional marks.
UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u200e\u200f\u061c\u202a-\u202e\u2066-\u2069\u2028\u2029]")

FOREIGN: tuple[Command, ...] = (
    (b"SET", b"foreign:string", b"text"),
    (b"RPUSH", b"foreign:list", b"a", b"b"),
    (b"SADD", b"foreign:set", b"a", b"b"),
    (b"ZADD", b"foreign:zset", b"1", b"a"),
    (b"HSET", b"foreign:hash", b"definition", b'{"task": "t", "schedule": {"__type__": "interval", "every": 1}}'),
    (b"XADD", b"foreign:stream", b"1-1", b"a", b"b"),
)


class Log(logging.Handler):
    """What beat logs."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        record.getMessage()  # a line that cannot be formatted fails the test
        self.records.append(record)

    @property
    def lines(self) -> list[str]:
        """What beat itself logged, without tracebacks."""
        return [record.getMessage() for record in self.records if record.name.startswith("redisbeater")]

    @property
    def sending(self) -> list[str]:
        """The lines of Celery about each run."""
        return [text for record in self.records if "Sending due task" in (text := record.getMessage())]

    @property
    def unforeseen(self) -> list[str]:
        """The tracebacks of a whole pass: what an entry raises must concern the entry alone."""
        found = [record for record in self.records if record.exc_info and record.name == "redisbeater.scheduler"]
        return [f"{record.getMessage()} {record.exc_info and record.exc_info[1]!r}" for record in found]

    def names(self, key: str) -> bool:
        """Whether a line names a key."""
        return any(key in line for line in self.lines)


@contextlib.contextmanager
def captured_log(*others: str) -> Iterator[Log]:
    """Keep what is logged in the block, and print none of it."""
    log, loggers = Log(), [logging.getLogger(name) for name in ("redisbeater", "celery.beat", *others)]
    before = [(logger.level, logger.propagate) for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.INFO)
        logger.propagate = False
        logger.addHandler(log)
    try:
        yield log
    finally:
        for logger, (level, propagate) in zip(loggers, before):
            logger.removeHandler(log)
            logger.setLevel(level)
            logger.propagate = propagate


def send_raw(client: redis.Redis, writes: list[Entry | Member | Key], prefix: bytes) -> int:
    """Send the commands of the writes; return how many the server accepted."""
    with client.pipeline(transaction=False) as pipe:
        for write in writes:
            for command in write.commands(prefix):
                pipe.execute_command(*command)
        replies = pipe.execute(raise_on_error=False)
    return sum(not isinstance(reply, Exception) for reply in replies)


def is_same(client: redis.Redis, before: bytes | None, after: bytes | None) -> bool:
    """Return whether two dumps hold the same; those of a hash or a set may differ in the order of what they hold."""
    if before is None or after is None or before == after:
        return before == after
    with client.pipeline() as pipe:
        for dump in (before, after):
            pipe.restore("dumped", 0, dump, replace=True)
            pipe.hgetall("dumped")
            pipe.smembers("dumped")
            pipe.delete("dumped")
        replies = pipe.execute(raise_on_error=False)
    found = [[each for each in part if isinstance(each, (dict, set))] for part in (replies[:4], replies[4:])]
    return bool(found[0]) and found[0] == found[1]


def shown(text: str) -> str:
    """Return the start of a text, for a message of a test."""
    return repr(text if len(text) < 300 else f"{text[:300]}... ({len(text)})")


@dataclass
class HostileSite:
    """A schedule on a real server that anybody may write to.

    Arguments:
        url: of the server's database, which is emptied for each attack.
    """

    url: str
    prefix: str = "hostile:"
    figures: Counter[str] = field(default_factory=Counter)
    slowest_seconds: float = 0.0
    slowest: str = "until all control entries were sent"

    def __post_init__(self) -> None:
        # Bytes that are no UTF-8 are among what is written and read here.
        self.client = redis.Redis.from_url(self.url)

    def close(self) -> None:
        """Close the connections."""
        self.client.close()

    def endure(self, attack: Attack) -> None:
        """Write what an attack has, and assert that it harms nobody."""
        self.client.flushdb()
        memory.Channel.queues.clear()
        foreign = self._write_foreign()
        scheduler = RedisScheduler(self._app())
        with captured_log() as log:
            try:
                for number, writes in enumerate((attack.before, attack.meanwhile)):
                    self._endure(scheduler, writes, f"control {number}", log)
                scheduler.tick()
            finally:
                scheduler.close()
        assert {key: self.client.dump(key) for key in foreign} == foreign, "a key of others was changed"
        self._check_reports()
        self._check_lines(log)
        self.figures["attacks"] += 1
        self.client.flushdb()

    def _app(self) -> Celery:
        app = Celery("hostile", broker="memory://", set_as_current=False)
        app.conf.update(
            result_expires=None,
            redisbeater_redis_url=self.url,
            redisbeater_key_prefix=self.prefix,
            redisbeater_lock_lost="standby",
            redisbeater_schedule_classes=[Unpredictable],
        )
        return app

    def _write_foreign(self) -> dict[bytes, bytes | None]:
        """Write a key of each type, beside the schedule and below its prefix; return what they are."""
        keys = []
        for verb, key, *rest in FOREIGN:
            below = self.prefix.encode() + key
            fields = [b"colour", *rest[1:]] if verb == b"HSET" else rest  # below the prefix a definition is an entry's
            for each, values in ((key, rest), (below, fields)):
                self.client.execute_command(verb, each, *values)
                keys.append(each)
        return {key: self.client.dump(key) for key in keys}

    def _endure(self, scheduler: RedisScheduler, writes: list[Any], prefix: str, log: Log) -> None:
        names = [f"{prefix} {number}" for number in range(CONTROLS)]
        last_run_at = datetime.now(timezone.utc) - timedelta(seconds=3601)
        controls = [
            RedisScheduleEntry(
                name, "proj.control", 3600.0, app=scheduler.app, last_run_at=last_run_at, options={"queue": "control"}
            ).save()
            for name in names
        ]
        self.figures["commands"] += send_raw(self.client, writes, self.prefix.encode())
        self._run(scheduler, set(names), log)
        for control in controls:
            self._check_committed(control)

    def _run(self, scheduler: RedisScheduler, missing: set[str], log: Log) -> None:
        """Tick until all control entries were sent."""
        began = time.process_time()
        ticks = 0
        while missing and ticks < MOST_TICKS:
            scheduler.tick()
            ticks += 1
            missing -= self._take(scheduler.app)
            if missing and ticks == EXCUSE_TICKS and self._clear_what_decides(log):
                ticks = 0
        took = time.process_time() - began
        self.slowest_seconds = max(self.slowest_seconds, took)
        self.figures["ticks"] += ticks
        assert not missing, f"not sent within {MOST_TICKS} ticks: {missing}; beat says {[shown(x) for x in log.lines]}"
        assert took < MOST_CPU_SECONDS, f"took {took:.1f} s; beat says {[shown(x) for x in log.lines]}"

    def _take(self, app: Celery) -> set[str]:
        """Remove the control entries' messages, and return the names."""
        found = set()
        with app.connection_for_read() as connection:
            inbox = connection.SimpleQueue("control")
            with contextlib.suppress(inbox.Empty):
                while True:
                    message = inbox.get_nowait()
                    message.ack()
                    found.add(message.headers["periodic_task_name"])
        return found

    def _clear_what_decides(self, log: Log) -> bool:
        """Do what an operator would who reads that beat does not lead; return whether there was anything to do."""
        token = re.escape(f"{socket.gethostname()}:{os.getpid()}:") + "[0-9a-f]{16}"
        ours = {":lock": token.encode(), ":format": str(FORMAT).encode()}
        found = [self.prefix + name for name, pattern in ours.items() if not self._holds(self.prefix + name, pattern)]
        for key in found:
            assert log.names(key), f"beat does not lead, and does not name {key}: {[shown(x) for x in log.lines]}"
            self.client.delete(key)
            self.figures["keys that the operator removed"] += 1
        return bool(found)

    def _holds(self, key: str, pattern: bytes) -> bool:
        """Whether a key is missing, or is what beat would write."""
        kind = self.client.type(key)
        return kind == b"none" or (kind == b"string" and re.fullmatch(pattern, self.client.get(key)) is not None)

    def _check_committed(self, control: RedisScheduleEntry) -> None:
        stored = RedisScheduleEntry.from_key(control.key, app=control.app)
        assert (stored.total_run_count, self.client.hexists(control.key, "claim")) == (1, False), control.name
        score = self.client.zscore(f"{self.prefix}:schedule", control.key)
        assert score is not None
        assert score > time.time(), control.name

    def _check_reports(self) -> None:
        """Check the reasons that beat wrote; other programs may have written reports, too."""
        if self.client.type(f"{self.prefix}:broken") != b"hash":
            return
        for report in map(_read_report, self.client.hvals(f"{self.prefix}:broken")):
            if report:
                self.figures["quarantined"] += 1
                assert len(report["reason"]) <= LONGEST_REASON, shown(report["reason"])

    def _check_lines(self, log: Log) -> None:
        for line in log.lines:
            assert len(line) <= LONGEST_REASON, shown(line)
        for line in [*log.lines, *log.sending]:
            assert not UNPRINTABLE.search(line), shown(line)
        assert not log.unforeseen, log.unforeseen


def _read_report(text: bytes) -> dict[str, str] | None:
    """Return a report of this day, which beat has written; None: another program has."""
    try:
        report = json.loads(text)
        since = datetime.fromisoformat(report["since"])
        return report if datetime.now(timezone.utc) - since < timedelta(days=1) else None
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
