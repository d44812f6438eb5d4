"""Trace the way of six acts through redisbeater's code: how many functions, files and rooms each of them passes.

    python benchmarks/walk.py                      # a table, a few seconds, on a server of its own
    python benchmarks/walk.py --list tick          # the functions of one act in the order in which they are called
    python benchmarks/walk.py --json
    PYTHONPATH=/another/checkout/src python benchmarks/walk.py

The acts: ``save`` stores a new entry, ``change`` one with another schedule; ``tick`` is a pass of beat with one due run
of an entry that has run before, ``idle`` a pass without any; ``update`` is ``celery redisbeater update NAME --every
5s``; ``page`` is ``GET /`` of a page that lists six entries. Each was done before in this process, on other entries, so
that imports and first connections are not counted.

What is counted is a function or method of redisbeater whose body has two lines of code or more, without docstring,
comments and blank lines; generators and comprehensions are left out. ``calls``: of such functions. ``functions`` and
``files``: different ones among them. ``rooms``: their folders. ``to files`` and ``to rooms``: calls that come from
another file, or room, than that of the function they are in. ``depth``: the most of them that wait for one another.
``trips``: commands and pipelines that are sent to the schedule's Redis; a script is one.
"""

from __future__ import annotations

import argparse
import ast
import inspect
import json
import logging
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from functools import cache
from pathlib import Path
from types import CodeType, FrameType, SimpleNamespace
from typing import Any

from click.testing import CliRunner
from starlette.requests import Request
from starlette.testclient import TestClient
from suite import machine
from suite.application import TASK, application
from suite.job import Job
from suite.round_trips import counted

import redisbeater as package
from redisbeater import RedisScheduleEntry, RedisScheduler
from redisbeater.cli import redisbeater
from redisbeater.context import Context
from redisbeater.dashboard import ALL, User, create_app

SOURCE = Path(package.__file__).parent

#: How many entries the page lists.
LISTED = 6

GENERATOR = inspect.CO_GENERATOR | inspect.CO_ASYNC_GENERATOR


@dataclass(frozen=True, order=True)
class Function:
    """A function that an act passes."""

    file: str
    line: int
    name: str

    @property
    def room(self) -> str:
        """The folder of its file."""
        return str(Path(self.file).parent)


@dataclass
class Walk:
    """The way of one act: each call with the function that it comes from, and the depth where it is made."""

    calls: list[tuple[Function, Function | None, int]] = field(default_factory=list)
    trips: int = 0

    def figures(self) -> dict[str, int]:
        """Return the figures of the act, by their names."""
        passed = {function for function, _, _ in self.calls}
        moves = [(function, caller) for function, caller, _ in self.calls if caller is not None]
        return {
            "calls": len(self.calls),
            "functions": len(passed),
            "files": len({function.file for function in passed}),
            "rooms": len({function.room for function in passed}),
            "to files": sum(function.file != caller.file for function, caller in moves),
            "to rooms": sum(function.room != caller.room for function, caller in moves),
            "depth": max((depth for _, _, depth in self.calls), default=0),
            "trips": self.trips,
        }


class Tracer:
    """Records the calls of this process, in all threads that begin after it, while an act goes on."""

    def __init__(self) -> None:
        self._walk: Walk | None = None
        self._resumed: set[FrameType] = set()
        threading.setprofile(self._profile)
        sys.setprofile(self._profile)

    @contextmanager
    def walking(self) -> Iterator[Walk]:
        """Record the calls and the trips of the block."""
        walk = Walk()
        with counted() as trips:
            self._walk = walk
            try:
                yield walk
            finally:
                self._walk = None
                self._resumed.clear()
        walk.trips = trips[0]

    def _profile(self, frame: FrameType, kind: str, _: object) -> None:
        walk = self._walk
        if walk is None or kind != "call" or (function := passed(frame.f_code)) is None or frame in self._resumed:
            return
        if frame.f_code.co_flags & inspect.CO_COROUTINE:
            self._resumed.add(frame)  # it is called once, and resumed often
        callers = list(waiting(frame))
        walk.calls.append((function, callers[0] if callers else None, len(callers) + 1))


def waiting(frame: FrameType) -> Iterator[Function]:
    """Yield the counted functions that wait for the call of a frame, the nearest one first."""
    above = frame.f_back
    while above is not None:
        if function := passed(above.f_code):
            yield function
        above = above.f_back


@cache
def passed(code: CodeType) -> Function | None:
    """Return the function of some code; None unless it is counted."""
    path = Path(code.co_filename)
    if code.co_flags & GENERATOR or path.suffix != ".py" or SOURCE not in path.parents:
        return None
    file = str(path.relative_to(SOURCE))
    lines = lines_of_functions(file).get((code.co_firstlineno, code.co_name), 0)
    name = getattr(code, "co_qualname", code.co_name)  # Python 3.10 has no qualified one
    return Function(file=file, line=code.co_firstlineno, name=name) if lines > 1 else None


@cache
def lines_of_functions(file: str) -> dict[tuple[int, str], int]:
    """Return how many lines of code the body of each function of a file has, by its first line and its name."""
    text = (SOURCE / file).read_text(encoding="utf-8")
    lines = [line.strip() for line in text.splitlines()]
    found = {}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            body = node.body[ast.get_docstring(node) is not None :]
            own = lines[body[0].lineno - 1 : node.end_lineno] if body else []
            first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
            found[first, node.name] = sum(bool(line) and not line.startswith("#") for line in own)
    return found


class Acts:
    """What is traced: each act, on entries of its own."""

    def __init__(self, job: Job, tracer: Tracer) -> None:
        self._tracer = tracer
        self._app = application(job)
        self._redis: Any = job.schedule_client()
        self._scheduler = RedisScheduler(self._app)
        self._page = TestClient(create_app(self._app, auth=everybody, allowed_hosts=["testserver"]))

    def save(self, name: str) -> Walk:
        """Store a new entry."""
        entry = self._entry(name)
        return self._walk(entry.save)

    def change(self, name: str) -> Walk:
        """Store an entry again, with another schedule."""
        self._entry(name).save()
        entry = RedisScheduleEntry.from_key(Context.of(self._app).redis.keys.entry(name), self._app)
        entry.schedule = 30.0
        return self._walk(entry.save)

    def tick(self, name: str) -> Walk:
        """Make a pass of beat with one due run, of an entry that has run before."""
        self._run(name)
        self._redis.zadd("redisbeater::schedule", {f"redisbeater:{name}": time.time() - 1})
        return self._walk(self._scheduler.tick)

    def idle(self, name: str) -> Walk:
        """Make the pass after a run, in which nothing is due."""
        self._run(name)
        return self._walk(self._scheduler.tick)

    def update(self, name: str) -> Walk:
        """Change the interval of an entry on the command line."""
        self._entry(name).save()
        words = ["update", name, "--every", "5s"]
        return self._walk(lambda: CliRunner().invoke(redisbeater, words, obj=SimpleNamespace(app=self._app)))

    def page(self, name: str) -> Walk:
        """Open the first page."""
        for number in range(LISTED):
            self._entry(f"{name} {number}").save()
        return self._walk(lambda: self._page.get("/").raise_for_status())

    def clear(self) -> None:
        """Delete all entries; what beat and the schedule know of one another stays."""
        for entry in self._redis.zrange("redisbeater::schedule", 0, -1):
            self._redis.delete(entry)
        self._redis.delete("redisbeater::schedule")

    def _entry(self, name: str) -> RedisScheduleEntry:
        return RedisScheduleEntry(name, TASK, 60.0, args=[1], app=self._app)

    def _run(self, name: str) -> None:
        """Let beat run an entry for the first time, and make passes until it finds nothing due."""
        entry = self._entry(name)
        entry.start_at = datetime.now(timezone.utc) - timedelta(seconds=1)
        entry.save()
        while self._scheduler.tick() == 0:
            pass

    def _walk(self, act: Callable[[], object]) -> Walk:
        with self._tracer.walking() as walk:
            act()
        return walk


ACTS: dict[str, Callable[[Acts, str], Walk]] = {
    "save": Acts.save,
    "change": Acts.change,
    "tick": Acts.tick,
    "idle": Acts.idle,
    "update": Acts.update,
    "page": Acts.page,
}


async def everybody(request: Request) -> User:
    """Let everybody do everything."""
    return User("benchmark", ALL)


def main() -> None:
    options = _options()
    program = machine.server_program()
    if program is None:
        sys.exit(machine.NO_SERVER)
    logging.disable(logging.INFO)  # beat's lines about its runs
    tracer = Tracer()  # before any thread begins
    with machine.running(program) as server, tempfile.TemporaryDirectory(prefix="walk-") as folder:
        job = Job(case="walk", contender="redisbeater", size=1, quick=False, port=server.port, folder=folder)
        acts = Acts(job, tracer)
        walks = {name: _second(acts, name) for name in ([options.list] if options.list else ACTS)}
    if options.list:
        print("\n".join(_lines(walks[options.list])))
    elif options.json:
        print(json.dumps({name: walk.figures() for name, walk in walks.items()}, indent=2))
    else:
        print(_table({name: walk.figures() for name, walk in walks.items()}))


def _second(acts: Acts, name: str) -> Walk:
    """Do an act twice, on other entries, and return the way of the second time."""
    for number in range(2):
        acts.clear()
        walk = ACTS[name](acts, f"report {number}")
    return walk


def _lines(walk: Walk) -> Iterator[str]:
    """Yield a line for each call, moved to the right by its depth."""
    for function, _, depth in walk.calls:
        yield f"{'  ' * (depth - 1)}{function.name}  {function.file}:{function.line}"


def _table(found: dict[str, dict[str, int]]) -> str:
    names = list(next(iter(found.values())))
    lines = [f"{'act':<8}" + "".join(f"{name:>11}" for name in names)]
    lines += [f"{act:<8}" + "".join(f"{figures[name]:>11,}" for name in names) for act, figures in found.items()]
    return "\n".join(lines)


def _options() -> argparse.Namespace:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--json", action="store_true", help="print the figures as JSON")
    options.add_argument("--list", metavar="ACT", choices=list(ACTS), help=f"list its calls: {', '.join(ACTS)}")
    return options.parse_args()


if __name__ == "__main__":
    main()
