"""Count the processor's instructions for one run of a burst: a figure that other load on the machine does not change.

    python benchmarks/instructions.py                                      # about ten minutes
    python benchmarks/instructions.py --contender redisbeater --contender "batched loop"
    python benchmarks/instructions.py --runs 100                           # faster, a little less exact

valgrind counts what the process of a contender executes; the server and the kernel are not included. The figure is the
difference between a burst of three times as many runs and one of as many, so that starting costs nothing. Instructions
are not time: waiting for the server and for memory comes on top. "untuned": without what beat sets in its own process.
Needs valgrind (``apt-get install valgrind``) and ``pip install ".[test,benchmark]"``.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import replace

from suite import application, machine
from suite.job import Job
from suite.loops import BATCHED, PLAIN, loop
from suite.population import Population
from suite.subject import drain
from suite.subjects import started

UNTUNED = "redisbeater, untuned"
CONTENDERS = (BATCHED, PLAIN, "redisbeater", UNTUNED, "celery-redbeat")

#: valgrind makes a process some fifty times slower. Beat must not take that for a slow task, nor for a lease that ends.
LONG_SECONDS = 3600.0


def main() -> None:
    options = _options()
    if options.child:
        _burst(Job.from_text(options.child))
        return
    program = machine.server_program()
    if program is None:
        sys.exit(machine.NO_SERVER)
    if shutil.which("valgrind") is None:
        sys.exit("valgrind is missing; install it: apt-get install valgrind")
    print(machine.describe(program), flush=True)
    first = None
    for contender in options.contender or CONTENDERS:
        least, most = (_instructions(program, contender, runs) for runs in (options.runs, 3 * options.runs))
        each = (most - least) / (2 * options.runs)
        first = first or each
        print(f"{contender:<22}{each / 1e6:8.3f} million a run{each / first:8.2f} x the first", flush=True)


def _instructions(program: machine.Program, contender: str, runs: int) -> int:
    """Return how many instructions a process executes that starts a contender and sends one burst."""
    with machine.running(program) as server, tempfile.TemporaryDirectory(prefix="instructions-") as folder:
        job = Job(case="burst", contender=contender, size=runs, quick=False, port=server.port, folder=folder)
        counting = ["valgrind", "--tool=cachegrind", "--cache-sim=no", f"--cachegrind-out-file={folder}/out"]
        process = subprocess.run(
            [*counting, sys.executable, __file__, "--child", job.to_text()],
            env={**os.environ, "PYTHONHASHSEED": "0"},
            capture_output=True,
            text=True,
        )
    found = re.search(r"I\s+refs:\s+([\d,]+)", process.stderr)
    if process.returncode or found is None:
        sys.exit(f"{contender}: {process.stderr[-2000:]}")
    return int(found[1].replace(",", ""))


def _burst(job: Job) -> None:
    """Send one burst, in a process of its own."""
    if job.contender in (BATCHED, PLAIN):
        loop(job, job.size)
        return
    from redisbeater.beat import process
    from redisbeater.dispatch import batch as planned_entry
    from redisbeater.dispatch import resources as slow_tasks

    planned_entry.GATHER_SECONDS = slow_tasks.SLOW_SECONDS = LONG_SECONDS
    timeouts = {"redisbeater_lease_timeout": LONG_SECONDS, "redisbeater_lock_timeout": LONG_SECONDS}
    usual = application.settings
    application.settings = lambda job: {**usual(job), **timeouts}
    if job.contender == UNTUNED:
        process.tune_process = lambda app: None
        job = replace(job, contender="redisbeater")
    subject = started(job)
    subject.create(Population.due_now(job.size))
    drain(subject, job.size)
    if subject.queue.length() != job.size:
        sys.exit(f"{subject.queue.length()} messages for {job.size} runs: too slow, try fewer with --runs")


def _options() -> argparse.Namespace:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--runs", type=int, default=300, metavar="N", help="size of the smaller burst (default: 300)")
    options.add_argument(
        "--contender", action="append", default=[], choices=CONTENDERS, metavar="NAME", help="may be repeated"
    )
    options.add_argument("--child", help=argparse.SUPPRESS)
    return options.parse_args()


if __name__ == "__main__":
    main()
