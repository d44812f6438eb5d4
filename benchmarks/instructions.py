"""Count the instructions of one run in a burst, of beat and of Redis: other load on the machine does not change them.

    python benchmarks/instructions.py            # each contender, by the bare batched loop; five minutes
    python benchmarks/instructions.py --contender "batched loop" --contender redisbeater --runs 100
    python benchmarks/instructions.py --check    # what CI runs: is a run dearer than stored? Half a minute
    python benchmarks/instructions.py --store    # the same, and store what is found

valgrind counts what the process of a contender and its server execute; the kernel is not included. A burst of entries
that have never run is counted, then a later one of the same entries. Instructions are not time: waiting for the server
and for memory comes on top. "untuned": without what beat sets in its own process. "delays wait": beside a million tasks
that wait for their eta, which takes three minutes and 1 GB more.

``--check`` fails if a later run takes over 5 % more than instructions.json says; those of beat are by a call of the
bare batched loop. Needs valgrind (``apt-get install valgrind``) and ``pip install ".[test,benchmark]"``.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from suite import application, machine
from suite.job import Job
from suite.loops import BATCHED, PLAIN, Loop
from suite.population import Population
from suite.redis_subjects import Redisbeater, RedisSubject
from suite.stored_factors import Factors, compare
from suite.subject import drain
from suite.subjects import started

REDISBEATER, UNTUNED, DELAYS = "redisbeater", "redisbeater, untuned", "redisbeater, delays wait"
CONTENDERS = (BATCHED, PLAIN, REDISBEATER, UNTUNED, DELAYS, "celery-redbeat")

#: How many delays wait, how many one script keeps, how long a message is, and the script.
MANY_DELAYS, KEPT_AT_ONCE, MESSAGE_BYTES = 1_000_000, 10_000, 700
KEEP = """
for number = ARGV[1], ARGV[1] + ARGV[2] - 1 do
  redis.call('HSET', KEYS[2], number, string.rep('x', ARGV[3]))
  redis.call('ZADD', KEYS[1], redis.call('TIME')[1] + 86400 + number, number)
end
"""

#: valgrind makes a process some fifty times slower. Beat must not take that for a slow task, nor for a lease that ends;
#: and what it does every few seconds beside runs would be in a burst that takes that long, or in none.
LONG_SECONDS = 3600.0

#: Seconds between two looks at a file or a process. A counted process that waits executes little in them.
POLL_SECONDS = 0.02

#: Both processes start without counting, which takes a fifth of the time. vgdb is heard after so many blocks of
#: instructions. Of the server only that counts which it does for what it has read: its own clock ticks by the time.
VALGRIND = "valgrind --tool=callgrind --instr-atstart=no --vgdb-poll=50"
SERVER = '#!/bin/sh\nexec {valgrind} --callgrind-out-file={folder}/server --toggle-collect={reads} {server} "$@"\n'
READS = "readQueryFromClient"


def main() -> None:
    options = _options()
    if options.child:
        _work(Job.from_text(options.child))
        return
    program = machine.server_program()
    if program is None:
        sys.exit(machine.NO_SERVER)
    if shutil.which("valgrind") is None:
        sys.exit("valgrind is missing; install it: apt-get install valgrind")
    print(machine.describe(program), flush=True)
    if options.check or options.store:
        sys.exit(not _is_as_cheap_as_stored(program, options))
    usual = [each for each in CONTENDERS if each != DELAYS]
    _counted(program, options.contender or usual, options.runs, first=True)


def _is_as_cheap_as_stored(program: machine.Program, options: argparse.Namespace) -> bool:
    """Compare the later runs with what is stored, say what is found, and return whether no run is dearer."""
    found = _counted(program, (BATCHED, REDISBEATER), options.runs, first=False)
    factors = Factors.of(found[REDISBEATER][-1], found[BATCHED][-1], machine.facts(program))
    if options.store:
        factors.store()
    text, is_good = compare(factors, Factors.stored())
    print(text)
    return is_good


#: What one run takes in a burst: the instructions of the process, and of the server.
Count = tuple[float, float]


def _counted(program: machine.Program, contenders: Sequence[str], runs: int, *, first: bool) -> dict[str, list[Count]]:
    """Count the bursts of contenders, of two at a time; print and return them: the first, if asked for, and a later."""
    with ThreadPoolExecutor(2) as pool:
        counts = pool.map(lambda contender: _bursts(program, contender, runs, first=first), contenders)
        found = dict(zip(contenders, counts))
    print(
        f"{'instructions of a run':<28}{'process':>12}{'by *':>8}{'server':>12}{'by *':>8}   * the first one's process"
    )
    names, bare = ("first", "later")[not first :], found[contenders[0]]
    for contender, counts in found.items():
        for name, ours, others in zip(names, counts, bare):
            process, server = ours[0] / others[0], ours[1] / others[0]
            print(f"{contender + ', ' + name:<28}{ours[0]:>12,.0f}{process:>8.3f}{ours[1]:>12,.0f}{server:>8.3f}")
    return found


def _bursts(program: machine.Program, contender: str, runs: int, *, first: bool) -> list[Count]:
    """Return what a run takes in the first burst of a process, if asked for, and in the next one."""
    with tempfile.TemporaryDirectory(prefix="instructions-") as folder:
        wrapper = Path(folder, "server-program")
        wrapper.write_text(SERVER.format(valgrind=VALGRIND, folder=folder, server=program.path, reads=READS))
        wrapper.chmod(0o700)
        with machine.running(replace(program, path=str(wrapper))) as server:
            job = Job(case="burst", contender=contender, size=runs, quick=False, port=server.port, folder=folder)
            with _process(job) as process:
                counted = [Counted(process, Path(folder, "process")), Counted(server.process, Path(folder, "server"))]
                counts = [_burst(job, 0, process, counted if first else []), _burst(job, 1, process, counted)]
                return [(each[0], each[1]) for each in counts if each]


@contextmanager
def _process(job: Job) -> Iterator[subprocess.Popen[bytes]]:
    """Run the process of a contender until the end of the block."""
    command = [*VALGRIND.split(), f"--callgrind-out-file={job.folder}/process", sys.executable, __file__]
    with Path(job.folder, "log").open("wb") as log:
        process = subprocess.Popen(
            [*command, "--child", job.to_text()],
            env={**os.environ, "PYTHONHASHSEED": "0"},
            stdout=log,
            stderr=log,
        )
        try:
            yield process
        finally:
            process.kill()
            process.wait()


def _burst(job: Job, number: int, process: subprocess.Popen[bytes], counted: Sequence[Counted]) -> list[float]:
    """Let the process send one burst. Return how many instructions each counted one executes for a run."""
    _wait_for(job, f"ready-{number}", process)
    for each in reversed(counted):  # the process last, and it ends first: it looks for files meanwhile
        each.begin()
    Path(job.folder, f"go-{number}").touch()
    _wait_for(job, f"done-{number}", process)
    counts = [each.end() / job.size for each in counted]
    Path(job.folder, f"counted-{number}").touch()
    return counts


def _wait_for(job: Job, name: str, process: subprocess.Popen[bytes]) -> None:
    while not Path(job.folder, name).exists():
        if process.poll() is not None:
            sys.exit(f"{job.contender}: {Path(job.folder, 'log').read_text()[-2000:]}")
        time.sleep(POLL_SECONDS)


class Counted:
    """A process under valgrind, which counts from ``begin()`` to ``end()``."""

    def __init__(self, process: subprocess.Popen[bytes], file: Path) -> None:
        self._process = process
        self._file = file
        self._dumps = 0

    def begin(self) -> None:
        self._say("instrumentation", "on")

    def end(self) -> int:
        """Return the instructions since the beginning."""
        self._say("dump")
        self._say("instrumentation", "off")
        self._dumps += 1
        text = Path(f"{self._file}.{self._dumps}").read_text()
        if not (found := int(text.rpartition("totals: ")[2].split()[0])):
            sys.exit(f"nothing was counted: has the server no function {READS}? Name another: $REDISBEATER_TEST_SERVER")
        return found

    def _say(self, *words: str) -> None:
        """Give valgrind a command, which it hears as soon as the process does something: it never stands still."""
        command = ["vgdb", "--max-invoke-ms=0", f"--pid={self._process.pid}", *words]
        said = subprocess.run(command, capture_output=True, text=True)
        if said.returncode:
            sys.exit(f"valgrind does not do {' '.join(words)}: {said.stderr}")


def _work(job: Job) -> None:
    """Send bursts, in a process of its own, each when it is told to."""
    burst = _loop(job) if job.contender in (BATCHED, PLAIN) else _beat(job)
    for number in range(2):
        send = burst()
        Path(job.folder, f"ready-{number}").touch()
        _wait_until_told(job, f"go-{number}")
        send()
        Path(job.folder, f"done-{number}").touch()
        _wait_until_told(job, f"counted-{number}")


def _wait_until_told(job: Job, name: str) -> None:
    path = f"{job.folder}/{name}"
    while not os.path.exists(path):
        time.sleep(POLL_SECONDS)


def _loop(job: Job) -> Callable[[], Callable[[], object]]:
    """Return a function that prepares a burst of the bare loop and returns the function that sends it."""
    loop = Loop(job)
    return lambda: lambda: loop.send(job.size)


def _beat(job: Job) -> Callable[[], Callable[[], object]]:
    """Return a function that makes the entries due and returns the function that sends their runs."""
    from redisbeater.beat import heartbeat, process
    from redisbeater.beat.chores import Chores
    from redisbeater.dispatch import batch, resources

    _replace(heartbeat, "PERIOD_SECONDS", LONG_SECONDS)
    _replace(batch, "GATHER_SECONDS", LONG_SECONDS)
    _replace(resources, "SLOW_SECONDS", LONG_SECONDS)
    timeouts = {"redisbeater_lease_timeout": LONG_SECONDS, "redisbeater_lock_timeout": LONG_SECONDS}
    usual = application.settings
    _replace(application, "settings", lambda job: {**usual(job), **timeouts})
    if job.contender == UNTUNED:
        _replace(process, "tune_process", lambda app: None)
    keep = job.contender == DELAYS
    if job.contender in (UNTUNED, DELAYS):
        job = replace(job, contender=REDISBEATER)
    subject = started(job)
    assert isinstance(subject, RedisSubject)
    if isinstance(subject, Redisbeater):
        beat = subject.scheduler._beat
        beat.chores = Chores(beat.dispatcher.delays)
    subject.create(Population.due_now(job.size))
    for first in range(0, MANY_DELAYS if keep else 0, KEPT_AT_ONCE):
        keys = [f"{subject.prefix}:delays", f"{subject.prefix}:delays:messages"]
        job.schedule_client().eval(KEEP, len(keys), *keys, first, KEPT_AT_ONCE, MESSAGE_BYTES)

    def prepare() -> Callable[[], object]:
        subject.queue.clear()
        subject.again(Population.due_now(job.size))
        return lambda: drain(subject, job.size)

    return prepare


def _replace(module: Any, name: str, value: object) -> None:
    """Set what a module has; a name that it no longer has would change nothing, and nobody would see it."""
    getattr(module, name)
    setattr(module, name, value)


def _options() -> argparse.Namespace:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--runs", type=int, default=200, metavar="N", help="size of the bursts (default: 200)")
    options.add_argument(
        "--contender", action="append", default=[], choices=CONTENDERS, metavar="NAME", help="may be repeated"
    )
    options.add_argument("--check", action="store_true", help="compare with what is stored; exit with 1 if it is more")
    options.add_argument("--store", action="store_true", help="store what is found, to be compared from now on")
    options.add_argument("--child", help=argparse.SUPPRESS)
    return options.parse_args()


if __name__ == "__main__":
    main()
