"""The runner: each job in a fresh process against a fresh server, one after the other."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from support.servers import Program, running

from suite.case import Case
from suite.job import Job, Outcome
from suite.results import Results, Sample

__all__ = ("Cores", "run_case", "starting_on")

#: A job is ended after this time, so that a scheduler that hangs does not block the rest.
JOB_TIMEOUT_SECONDS = 600.0

BENCHMARKS = Path(__file__).parents[1]


class Cores(NamedTuple):
    """The cores on which the contender and the server run, by number; None: on whichever the kernel chooses."""

    contender: int | None = None
    server: int | None = None


def run_case(
    case: Case, program: Program, *, quick: bool, repeat: int, progress: Callable[[str], None], cores: Cores
) -> Results:
    """Measure a case and return the results. A job that fails leaves a note, and the others continue."""
    results = Results()
    jobs = case.jobs(quick=quick, repeat=repeat)
    for done, (number, contender, size) in enumerate(jobs, 1):
        began_at = time.monotonic()
        outcome = _run(case, contender, size, program, quick=quick, cores=cores)
        seconds = time.monotonic() - began_at
        sample = Sample(round=number, contender=contender, size=size, seconds=seconds, outcome=outcome)
        results.samples.append(sample)
        progress(f"{case.name} {done}/{len(jobs)}: {contender}, {size:,}: {seconds:.1f} s {outcome.unavailable}")
    return results


def _run(case: Case, contender: str, size: int, program: Program, *, quick: bool, cores: Cores) -> Outcome:
    with tempfile.TemporaryDirectory(prefix="compare-") as folder, ExitStack() as stack:
        with starting_on(cores.server):
            server = stack.enter_context(running(program))
        job = Job(case=case.name, contender=contender, size=size, quick=quick, port=server.port, folder=folder)
        with starting_on(cores.contender):
            return _in_a_process(job)


@contextmanager
def starting_on(core: int | set[int] | None) -> Iterator[None]:
    """Start processes on one core, or on some, and leave them there: this process moves to it, they inherit that."""
    if core is None:
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core} if isinstance(core, int) else core)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def _in_a_process(job: Job) -> Outcome:
    path = os.pathsep.join([str(BENCHMARKS), job.folder])
    environment = {**os.environ, "PYTHONPATH": path}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # else this package alone is compiled at each start
    process = subprocess.Popen(
        [sys.executable, "-m", "suite.child", job.to_text()],
        cwd=job.folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        output, errors = process.communicate(timeout=JOB_TIMEOUT_SECONDS)
    except subprocess.TimeoutExpired:
        process.terminate()
        process.communicate()
        return Outcome(unavailable=f"did not end within {JOB_TIMEOUT_SECONDS:g} s")
    if process.returncode:
        return Outcome(unavailable=f"failed: {_last_line(errors)}")
    return Outcome.from_text(_last_line(output))


def _last_line(text: str) -> str:
    return (text.strip().splitlines() or ["nothing was printed"])[-1]
