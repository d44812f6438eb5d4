"""Profile a dispatch: the time of each stage of a burst, beside the same stages of a bare batched loop.

    python benchmarks/profile_dispatch.py                      # 10,000 due entries, three rounds
    python benchmarks/profile_dispatch.py --entries 2000
    python benchmarks/profile_dispatch.py --functions 25       # list the slowest functions as well (cProfile)

The time of a stage excludes the other stages inside it. Timing costs about a microsecond per call. "again": entries
that were sent once before, so that their decoded definitions are cached. Needs ``pip install ".[test]"`` and kombu 5.7.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import statistics
import tempfile
from collections.abc import Callable

from suite import machine
from suite.job import Job
from suite.loops import BATCHED, loop
from suite.population import Population
from suite.stages import LOOP_STAGES, STAGES, Stages
from suite.subject import Subject, drain
from suite.subjects import started

#: The microseconds per run of one round, by stage.
Round = dict[str, float]


def main() -> None:
    options = _options()
    program = machine.server_program()
    if program is None:
        raise SystemExit(machine.NO_SERVER)
    print(machine.describe(program))
    with machine.running(program) as server, tempfile.TemporaryDirectory(prefix="profile-") as folder:
        common = {"case": "burst", "size": options.entries, "quick": False, "port": server.port, "folder": folder}
        ours = Job(contender="redisbeater", **common)
        bare = Job(contender=BATCHED, **common)
        first, again, loops = [], [], []
        for _ in range(options.rounds):
            ours.schedule_client().flushall()
            subject = started(ours)
            first.append(_burst(subject, options.entries))
            again.append(_burst(subject, options.entries))
            subject.scheduler.close()  # type: ignore[attr-defined]
            loops.append(_timed(LOOP_STAGES, lambda: loop(bare, options.entries).seconds, options.entries))
        print(_table({"first": first, "again": again, "bare loop": loops}))
        if options.functions:
            _profile(ours, options.functions)


def _burst(subject: Subject, count: int) -> Round:
    subject.create(Population.due_now(count))
    subject.job.broker_client().delete("celery")
    return _timed(STAGES, lambda: drain(subject, count), count)


def _timed(names: dict[str, str], run: Callable[[], float], count: int) -> Round:
    with Stages(names) as stages:
        seconds = run()
    found = {stage: spent / count * 1e6 for stage, spent in stages.seconds.items()}
    return {**found, "the rest": seconds / count * 1e6 - sum(found.values()), "in all": seconds / count * 1e6}


def _table(columns: dict[str, list[Round]]) -> str:
    stages = dict.fromkeys(stage for rounds in columns.values() for stage in rounds[0])
    ordered = [stage for stage in stages if stage not in ("the rest", "in all")] + ["the rest", "in all"]
    lines = ["", f"{'microseconds per run':<34}" + "".join(f"{title:>12}" for title in columns)]
    for stage in ordered:
        cells = (_cell([found[stage] for found in rounds if stage in found]) for rounds in columns.values())
        lines.append(f"{stage:<34}" + "".join(f"{cell:>12}" for cell in cells))
    return "\n".join(lines)


def _cell(values: list[float]) -> str:
    return f"{statistics.median(values):.1f}" if values else "-"


def _profile(job: Job, functions: int) -> None:
    job.schedule_client().flushall()
    subject = started(job)
    subject.create(Population.due_now(job.size))
    profile = cProfile.Profile()
    profile.runcall(drain, subject, job.size)
    pstats.Stats(profile).strip_dirs().sort_stats("tottime").print_stats(functions)


def _options() -> argparse.Namespace:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument(
        "--entries", type=int, default=10_000, metavar="N", help="number of due entries (default: 10,000)"
    )
    options.add_argument(
        "--rounds", type=int, default=3, metavar="N", help="number of rounds; the median is shown (default: 3)"
    )
    options.add_argument(
        "--functions", type=int, default=0, metavar="N", help="list this many of the slowest functions"
    )
    return options.parse_args()


if __name__ == "__main__":
    main()
