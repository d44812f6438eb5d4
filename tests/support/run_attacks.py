"""Forged and damaged messages, records and log lines of runs; what must hold in the worker and on the pages."""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote

from celery import Celery, signals
from celery.app.task import Context
from celery.app.trace import build_tracer
from celery.exceptions import Ignore, Reject, Retry, TimeLimitExceeded, WorkerLostError
from celery.utils.dispatch import Signal
from click.testing import CliRunner
from hypothesis import strategies as st

from redisbeater import ScheduleStore, runs
from redisbeater.cli import redisbeater
from redisbeater.context import Context as ScheduleContext
from redisbeater.runs.process import flush_all
from support.hostile import SPOOFS, Command, mostly, number_texts, odd_texts, odd_values, raw_texts, some_of
from support.hostile_site import LONGEST_REASON, UNPRINTABLE, captured_log, shown
from support.page_attacks import ENTRIES, HOST, MARKUP, RUNS, Request
from support.page_site import PageSite, no_number

__all__ = ("MESSAGE_ATTACKS", "Message", "MessageAttack", "MessageSite", "Record")

#: What a task does, or what Celery tells of it without executing it.
OF_TASKS = ("returns", "raises", "retries", "rejects", "ignores")
ENDS = (*OF_TASKS, "unknown", "revoked", "expired", "killed", "lost", "cancelled")

told_texts = st.one_of(odd_texts, st.sampled_from([*MARKUP, *SPOOFS, "x" * 100_000, "\ud800", "a: b\n" * 300]))
GOOD = {"redisbeater_attempt": 1, "periodic_task_name": "report", "scheduled_for": "2026-01-01T00:00:00+00:00"}
fire_times = st.sampled_from(["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", "2026", "2026-W01", "", 0])
odd_names = st.sampled_from([":schedule", "b:foo", "x" * 600, "gone", *ENTRIES])
odd_headers = some_of(
    {
        "redisbeater_attempt": odd_values,
        "redisbeater_step": odd_values,
        "periodic_task_name": st.one_of(odd_values, told_texts, odd_names),
        "scheduled_for": st.one_of(odd_values, told_texts, fire_times),
        "redisbeater_x": odd_values,
    }
)
missing = st.sets(st.sampled_from(sorted(GOOD)), max_size=1)
headers = st.builds(
    lambda odd, gone: {name: value for name, value in {**GOOD, **odd}.items() if name not in gone}, odd_headers, missing
)
ids = mostly(st.sampled_from(["a", "b", *RUNS]), st.one_of(told_texts.filter(bool), st.just("x" * 9_000)))


@dataclass(frozen=True)
class Message:
    """A message as a worker gets it, or what Celery tells of it, and how its task ends."""

    id: str
    headers: dict[str, Any]
    end: str
    text: str
    hostname: str = "celery@w1"


hosts = mostly(st.just("celery@w1"), told_texts)
messages = st.builds(Message, ids, headers, st.sampled_from([*ENDS, "returns", "raises"]), told_texts, hosts)

#: What each task is given, and quotes behind the text of its attack.
SECRET = "S3cr3t-of-tasks"

#: A run that nobody attacks, executed after all others.
CONTROL = Message("control", GOOD, "returns", "")


@dataclass(frozen=True)
class Record:
    """A raw command on a key of runs or of a log."""

    key: str
    command: Command

    def commands(self, prefix: bytes) -> Iterator[Command]:
        """Yield what writes it."""
        yield self.command[0], prefix + self.key.encode("utf-8", "replace"), *self.command[1:]


raw = told_texts.map(lambda text: text.encode("utf-8", "replace"))
STATES = (b"SENT", b"STARTED", b"RETRY", b"SUCCESS", b"FAILURE", b"LOST", b"BUFFERED", b"EXPIRED")
states = mostly(st.sampled_from(STATES), raw_texts)

#: When something happened to a run.
TIMES = ("sent_at", "started_at", "seen_at", "finished_at", "fire_time", "expires", "lease_end")

#: The fields of a stored run, of any program.
RECORD: dict[str, st.SearchStrategy[bytes]] = {
    "state": states,
    "name": mostly(st.sampled_from([b"report", b"gone", b":own"]), raw),
    **dict.fromkeys(("task", "worker", "error", "result", "note", "by", "restart_of", "holder", "kind"), raw),
    **dict.fromkeys((*TIMES, "attempt", "starts", "pid", "stop", "alone"), number_texts),
}
records = st.tuples(st.sampled_from([*RUNS, "a", "b"]), some_of(RECORD, up_to=6), states).map(
    lambda found: Record(
        f":run:{found[0]}",
        (b"HSET", b"state", found[2], *(part for name, text in found[1].items() for part in (name.encode(), text))),
    )
)
DETAILS = ("by", "note", "reason", "error", "fields", "next", "is_at_least")
details = st.one_of(some_of(dict.fromkeys(DETAILS, odd_values)), odd_values).map(
    lambda value: json.dumps(value).encode()
)
KINDS_OF_LINES = (b"created", b"changed", b"skipped", b"broken", b"failing", b"missed", b"triggered", b"lost")
parts = (
    number_texts,
    number_texts,
    number_texts,
    mostly(st.sampled_from(KINDS_OF_LINES), raw_texts),
    mostly(details, raw_texts),
)
lines = st.one_of(st.tuples(*parts).map(b" ".join), raw_texts)
logs = st.tuples(st.sampled_from([":log", ":log:report", ":log:gone"]), lines).map(
    lambda pair: Record(pair[0], (b"LPUSH", pair[1]))
)
counted = st.one_of(st.sampled_from([b"n.sent", b"failures", b"SENT", b"buffered"]), raw_texts)
lists = st.one_of(
    st.tuples(st.sampled_from([":active", ":resend", ":runs:report"]), number_texts, raw_texts).map(
        lambda found: Record(found[0], (b"ZADD", found[1], found[2]))
    ),
    st.tuples(st.sampled_from([":totals", "report", ":beats"]), counted, number_texts).map(
        lambda found: Record(found[0], (b"HSET", found[1], found[2]))
    ),
)


@dataclass(frozen=True)
class MessageAttack:
    """What other programs write, and then what a worker gets."""

    written: list[Record]
    messages: list[Message]


MESSAGE_ATTACKS = st.builds(
    MessageAttack, st.lists(st.one_of(records, records, logs, lists), max_size=4), st.lists(messages, max_size=3)
)


class Consumer:
    """What sends signals in the main process of a worker."""

    def __init__(self, app: Celery, hostname: str) -> None:
        self.app, self.hostname = app, hostname


class Received:
    """A message as the main process of a worker keeps it."""

    def __init__(self, run_id: str, request: dict[str, Any]) -> None:
        self.id, self.request_dict, self.worker_pid = run_id, request, 1


class MessageSite:
    """A worker in this process that reports its runs, and the page that shows them.

    Arguments:
        url: of the server's database, which is emptied for each attack.
    """

    def __init__(self, url: str) -> None:
        self.page = PageSite(url)
        self.app, self.client, self.prefix = self.page.app, self.page.client, self.page.prefix
        self.figures: Counter[str] = self.page.figures
        self._text = ""
        self._end = ""

        @self.app.task(name="proj.attacked", shared=False, ignore_result=True)
        def attacked(password: str) -> str:
            return self._work(f"{self._text}{password}{self._text}")

    def close(self) -> None:
        """Close what the page has opened."""
        self.page.close()

    def endure(self, attack: MessageAttack) -> None:
        """Write and execute what an attack has, and assert that it harms nobody."""
        self.page.restore()
        with captured_log("celery.utils.dispatch.signal", "celery.app.trace") as log, reporting():
            for record in attack.written:
                for command in record.commands(self.prefix.encode()):
                    self._write(command)
            for message in attack.messages:
                self._tell(message)
            self._tell(CONTROL)
            flush_all()
            self._check_pages(attack)
        self._check_control()
        self._check_secret()
        self._check_log(log.records, len(attack.messages))
        self.figures["attacks"] += 1

    def _write(self, command: Command) -> None:
        with self.client.pipeline(transaction=False) as pipe:
            pipe.execute_command(*command)
            pipe.execute(raise_on_error=False)

    # What a worker gets

    def _work(self, text: str) -> str:
        kinds: dict[str, Exception] = {
            "raises": ValueError(text),
            "retries": Retry(text, ValueError(text), 5),
            "rejects": Reject(text),
            "ignores": Ignore(text),
        }
        if self._end in kinds:
            raise kinds[self._end] from KeyError(text)
        return text

    def _tell(self, message: Message) -> None:
        self.figures["messages"] += 1
        task, self._text, self._end = self.app.tasks["proj.attacked"], message.text, message.end
        request = {
            "id": message.id, "headers": message.headers, "hostname": message.hostname, "delivery_info": {},
            "is_eager": False, "args": [message.text], "kwargs": {"text": message.text},
        }  # fmt: skip
        if message.end in OF_TASKS:
            build_tracer(task.name, task, app=self.app, propagate=False)(message.id, (), {"password": SECRET}, request)
            return
        received, sender = Received(message.id, request), Consumer(self.app, message.hostname)
        signals.task_received.send(sender=sender, request=received)
        context = Context(request)
        told: dict[str, tuple[Signal, dict[str, Any]]] = {
            "revoked": (signals.task_revoked, {"request": context, "terminated": True}),
            "expired": (signals.task_revoked, {"request": context, "expired": True}),
            "killed": (signals.task_failure, {"task_id": message.id, "exception": TimeLimitExceeded(3)}),
            "lost": (signals.task_failure, {"task_id": message.id, "exception": WorkerLostError(message.text)}),
            "cancelled": (signals.task_retry, {"request": context, "reason": None}),
        }
        if message.end in told:
            signal, arguments = told[message.end]
            signal.send(sender=task, **arguments)
        else:
            unknown = SimpleNamespace(headers=message.headers)
            signals.task_unknown.send(sender=sender, message=unknown, name=message.text, id=message.id)

    # What must hold

    def _check_pages(self, attack: MessageAttack) -> None:
        self.page.look("/", "/index.json", "/status", "/status.json", "/history", "/history.json")
        self.page.look("/entry?name=report", "/entry.json?name=report")
        for run_id in ("control", RUNS[0], *(message.id for message in attack.messages)):
            for page in ("/run", "/run.json"):
                address = f"{page}?id={quote(run_id, safe='', errors='replace')}"
                answer = self.page.ask(Request("viewer", "GET", address, (("Host", HOST),)))
                assert answer.status in (200, 400, 404), f"{answer.status} for {shown(address)}"
        for command in (("history",), ("history", "--json"), ("why", "report"), ("status",)):
            self._check_command(command)

    def _check_command(self, command: tuple[str, ...]) -> None:
        result = CliRunner().invoke(redisbeater, list(command), obj=SimpleNamespace(app=self.app))
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        assert SECRET not in result.output, f"{command} shows a secret"
        for line in result.output.splitlines():
            assert not UNPRINTABLE.search(line), f"{command}: {shown(line)}"
        if "--json" in command:
            for line in result.stdout.splitlines():
                json.loads(line, parse_constant=no_number)

    def _check_control(self) -> None:
        run = ScheduleStore(self.app).runs.get("control")
        assert (str(run.state), run.name) == ("SUCCESS", "report"), f"the control run is {run}"

    def _check_secret(self) -> None:
        """Check that no run keeps what its task was given as a password."""
        start = f"{self.prefix}:run:"
        for key in self.client.scan_iter(f"{start}*", _type="hash"):
            run_id = key.decode("utf-8", "replace").removeprefix(start)
            kept = f"{self.client.hgetall(key)} {ScheduleContext.of(self.app).redis.runs.traceback(run_id)}"
            assert SECRET not in kept, f"the run keeps a secret: {shown(kept)}"

    def _check_log(self, records: list[logging.LogRecord], messages: int) -> None:
        """Check that what is odd is named once for each message, in a line that harms no terminal."""
        records = [record for record in records if record.name != "celery.app.trace"]  # what a task itself raises
        lines = [record.getMessage() for record in records]
        for line, record in zip(lines, records):
            error = record.exc_info[1] if record.exc_info else None
            if error is not None or "is a bug" in line:
                raise AssertionError(f"raised: {shown(line)} {error!r}") from error
        for line in lines:
            assert len(line) <= LONGEST_REASON, shown(line)
            assert not UNPRINTABLE.search(line), shown(line)
        twice = [line for line, number in Counter(lines).items() if number > max(messages, 1)]
        assert not twice, f"logged more than once a message: {shown(twice[0])}"


@contextmanager
def reporting() -> Iterator[None]:
    """Report the runs of this process in the block, as a worker does."""
    known = [signal for signal in vars(signals).values() if isinstance(signal, Signal)]
    before = [list(signal.receivers) for signal in known]
    runs.install()
    try:
        yield
    finally:
        for signal, receivers in zip(known, before):
            signal.receivers[:] = receivers
