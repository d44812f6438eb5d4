"""Where a page is run: a folder, an app with its schedule in a real server, and a clock that stands still.

A worker and a beat that the page starts run in this process. They work after each command, and while the clock moves.
"""

from __future__ import annotations

import ast
import contextlib
import importlib
import io
import json
import re
import socket
import sys
import time
import types
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from celery import Celery
from celery.contrib.testing.worker import start_worker
from celery.worker import state
from support.recorded import record, vienna
from support.servers import Server
from support.waiting import wait_until

from redisbeater import RedisScheduleEntry, RedisScheduler, ScheduleStore, delays
from redisbeater.schedules.zones import encode_datetime
from redisbeater.store import connection
from redisbeater.times import to_unix

__all__ = ("NOW", "Site")

#: Now, on every page: Sunday, 22 November 2026, 06:45 in Vienna.
NOW = datetime(2026, 11, 22, 5, 45, tzinfo=timezone.utc)

#: The databases of the pages, by those of the test's server.
_DATABASES = {"redis://localhost:6379/0": 1, "redis://localhost:6379/1": 0}


class Site:
    """The module ``proj`` that pages import, and the names that their blocks share."""

    def __init__(self, server: Server, folder: Path, *, is_on_its_own: bool = True) -> None:
        #: Whether nothing but what the page shows is done: the worker and the beat are then those that it starts.
        self.is_on_its_own = is_on_its_own
        self.server = server
        self.folder = folder
        self.client = server.client(0)
        #: What ends with the page, also with one that fails: its worker, which would take the messages of other tests.
        self.opened = contextlib.ExitStack()
        self.now = NOW
        #: Seconds by which the clock of this host is ahead.
        self._ahead = 0.0
        self.opened.enter_context(self._scripts_by_its_clock())
        self.app = self._default_app()
        #: The beats that the page has started; the first one leads.
        self._beats: list[RedisScheduler] = []
        #: What ends them.
        self._ends = self.opened.enter_context(contextlib.ExitStack())
        self._worker: Any = None
        #: The commands that were run, each with its exit code.
        self.codes: list[tuple[str, int]] = []
        self._settings: dict[str, Any] = {}
        self.names: dict[str, Any] = {"__name__": "proj", "site": self}
        self._module(self.app)

    def run(self, source: str, place: str) -> str:
        """Run the statements of a block one by one, with the settings as they are by then; return what they print."""
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            for statement in ast.parse(self.local(source), place).body:
                self.refresh()
                exec(compile(ast.Module([statement], []), place, "exec"), self.names)
        self._take_app()
        return printed.getvalue()

    def run_file(self, name: str) -> str:
        """Run what a file of the folder does as a program, with the app that is imported; return what it prints."""
        module = importlib.import_module(name.removesuffix(".py"))
        printed, names = io.StringIO(), {**vars(module), "__name__": "__main__"}
        *_, act = ast.parse((self.folder / name).read_text(encoding="utf-8"), name).body
        assert ast.unparse(act).startswith("if __name__ == '__main__':"), act
        with contextlib.redirect_stdout(printed):
            exec(compile(ast.Module([act], []), name, "exec"), names)
        return printed.getvalue()

    def add(self, name: str, source: str) -> None:
        """Add a block to the end of a module of the folder, whose names it has; restart what the page has started.

        A worker goes on with the modules and tasks that it would have after its restart.
        """
        source = self.local(source)
        with (self.folder / name).open("a", encoding="utf-8") as file:
            file.write(f"\n\n{source}")
        self.refresh()
        exec(compile(source, name, "exec"), vars(sys.modules[name.removesuffix(".py")]))
        if self._worker:
            self.app.loader.import_default_modules()
            self._worker.consumer.update_strategies()
        started, self._beats = self._beats, []
        self._ends.close()
        for _ in started:
            self.start("beat")

    def start(self, program: str) -> None:
        """Start a beat of the page, or its one worker; all end with it."""
        if program == "worker" and not self._worker:
            sys.modules["proj"].print = lambda *texts: None  # type: ignore[attr-defined]
            if "redisbeater.delays" in self.app.conf.imports:
                delays.install(self.app)  # what the command does: it sends celeryd_init, this worker does not
            worker = start_worker(self.app, perform_ping_check=False, shutdown_timeout=30)
            self._worker = self.opened.enter_context(worker)
        if program == "beat":
            self._beats.append(RedisScheduler(self.app))
            self._ends.callback(self._beats[-1].close)
        self.work()

    def work(self) -> float:
        """Let beat and worker do all that is to be done now; return the seconds until beat looks again."""
        delays = [60.0, *(self._pass(beat) for beat in self._beats)]
        if self._worker:
            wait_until(self._is_idle, "the end of what was sent")
        return min(delays)

    def _pass(self, beat: RedisScheduler) -> float:
        """Let a beat send all that is due; return the seconds until it looks again."""
        while (delay := beat.tick()) <= 0:
            pass
        return delay

    def pass_time(self, seconds: float) -> None:
        """Move the clock forward, and let beat and worker work on the way."""
        end = self.now + timedelta(seconds=seconds)
        while self.now < end:
            step = min(max(self.work(), seconds / 100), (end - self.now).total_seconds())
            self._ahead += step
            self.advance(seconds=step)
        self.work()

    def _is_idle(self) -> bool:
        """Return whether the worker has no message and no task; those of other queues wait."""
        broker = self.server.client(1)
        return not (broker.llen("celery") or broker.hlen("unacked") or state.active_requests or state.reserved_requests)

    def save(self, name: str, source: str) -> None:
        """Save a block as a file of the folder; the next import of that module reads it."""
        (self.folder / name).write_text(self.local(source), encoding="utf-8")
        sys.modules.pop(name.removesuffix(".py"), None)

    def local(self, text: str) -> str:
        """Return a text of the page with the databases of the test's server."""
        for theirs, ours in _DATABASES.items():
            text = text.replace(theirs, self.server.url(ours))
        return text

    def public(self, text: str) -> str:
        """Return an output with the databases of the page, and a name for the worker, which has none here."""
        text = re.sub(rf"(?<![\w@]){re.escape(socket.gethostname())}(?![\w@]|:\d)", "celery@w1", text)
        for theirs, ours in _DATABASES.items():
            text = text.replace(self.server.url(ours), theirs)
        return text

    def refresh(self) -> None:
        """Let the app have its settings and the time as they are now."""
        settings = {key: self.app.conf[key] for key in list(self.app.conf) if re.match("redisbeater_|timezone", key)}
        if settings != self._settings:
            self.app.__dict__.pop("timezone", None)  # Celery computes it once
            self._settings = settings

    def advance(self, **units: float) -> None:
        """Move the clock forward, for the statements that follow."""
        self.now += timedelta(**units)
        self.refresh()

    def at(self, local: str) -> None:
        """Set the clock to a local time of Vienna in winter."""
        self.now = vienna(local)
        self.refresh()

    def ran(self, name: str, times: int, last: str) -> None:
        """Record that an entry has run so often, the last time at that time of Vienna."""
        meta = {"last_run_at": encode_datetime(vienna(last)), "total_run_count": times}
        recorded = {"meta": json.dumps(meta), "recorded_run": to_unix(vienna(last))}
        self.client.hset(f"redisbeater:{name}", mapping=recorded)

    def due(self, name: str, local: str) -> None:
        """Plan an entry for a time of Vienna."""
        self.client.zadd("redisbeater::schedule", {f"redisbeater:{name}": vienna(local).timestamp()})

    def record(self, name: str, run_id: str, state: str, **fields: Any) -> str:
        """Record a run; its times are those of Vienna."""
        return record(self.client, "redisbeater:", name, run_id, state, **fields)

    def beat(self, token: str, role: str = "leader", **facts: Any) -> None:
        """Let a beat lead, or stand by, as its line in Redis says."""
        now = self.now.timestamp()
        line = {
            "last_pass": now - 0.4, "since": now - 273_600, "role": role, "host": token.partition(":")[0], "pid": 4121,
            "version": "1.0", "celery": "5.7.0", "python": "3.13.1", "redis": "redis://10.0.0.5:6379/1",
            "embedded": False, "sent": 1212, "refused": 34, "skipped": 3, "skipped_by": {"overlap": 3}, "late_ms": 4,
            "late_p50_ms": 4.0, "late_p99_ms": 31.0, "server": "valkey 9.1.0", "clock_offset_ms": 0.8,
            "broker": "redis", "broker_away": 0.0, "delivery": "enqueued in one step with the commit",
        }  # fmt: skip
        self.client.hset("redisbeater::beats", token, json.dumps({**line, **facts}))
        if role == "leader":
            self.client.set("redisbeater::lock", token, px=15_000)

    @contextlib.contextmanager
    def _scripts_by_its_clock(self) -> Iterator[None]:
        """Let the scripts of each app, beat and worker of this process take the clock of the page for the server's.

        The clock of this host goes on, ahead by the time that the page has let pass.
        """
        load_script = connection.load_script

        def load(name: str, **terms: Any) -> connection.Script:
            script = load_script(name, **terms)
            timed = script.at(f"{self.now.timestamp():.6f}")
            vars(timed)["at"] = script.at  # a FakeClock of the page goes before
            return timed

        clock_gettime, monotonic = time.clock_gettime, time.monotonic
        connection.load_script = load
        time.clock_gettime = lambda clock: clock_gettime(clock) + self._ahead
        time.monotonic = lambda: monotonic() + self._ahead
        try:
            yield
        finally:
            connection.load_script = load_script
            time.clock_gettime, time.monotonic = clock_gettime, monotonic

    def _default_app(self) -> Celery:
        app = Celery("proj", broker=self.server.url(1), set_as_current=False)
        app.conf.redisbeater_redis_url = self.server.url(0)
        return app

    def _module(self, app: Celery) -> None:
        """Make an app the one of the module ``proj``, and of the names of the page."""
        if getattr(sys.modules.get("proj"), "app", None) is not app:  # else the page's own file, with its tasks
            module: Any = types.ModuleType("proj")
            module.app = module.celery_app = app
            sys.modules["proj"] = module
        self.names.update(
            app=app, store=ScheduleStore(app), ScheduleStore=ScheduleStore, RedisScheduleEntry=RedisScheduleEntry
        )

    def _take_app(self) -> None:
        """Go on with the app that a block of the page has made."""
        if isinstance(made := self.names["app"], Celery) and made is not self.app:
            self.app = made
            self._settings = {}
            self._module(made)
