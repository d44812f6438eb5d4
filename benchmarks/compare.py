"""Compare redisbeater with other schedulers: a table for each case, with its targets met or missed.

    python benchmarks/compare.py --quick                       # under two minutes, wider spreads
    python benchmarks/compare.py                               # five rounds, over an hour on an idle machine
    python benchmarks/compare.py --list
    python benchmarks/compare.py --only burst --only save --repeat 3
    python benchmarks/compare.py --only burst --size 5000 --contender redisbeater --contender "batched loop"
    python benchmarks/compare.py --only burst --cores 0 1      # each contender on the same core
    python benchmarks/compare.py --json figures.json --plots plots

Each measurement runs in a fresh process against a fresh server on this machine. The contenders take turns, so that a
busy minute affects all of them. A cell shows the median of the rounds, with the least and the most in brackets. A ratio
is the median of each round's ratio. Needs ``pip install ".[test,benchmark]"``; a note names each contender that is left
out because it is not installed.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from suite import machine, table
from suite.case import Case
from suite.cases import CASES, case_named
from suite.plots import draw
from suite.results import Results
from suite.runner import Cores, run_case

#: The number of rounds, unless a case has fewer.
REPEAT = 5


def main() -> None:
    options = _options()
    if options.list:
        print("\n".join(f"{case.name:<10} {case.title}\n{'':<10} {case.about}" for case in CASES))
        return
    program = machine.server_program()
    if program is None:
        sys.exit(machine.NO_SERVER)
    began_at = time.monotonic()
    print(machine.describe(program), flush=True)
    results = _run(options, program)
    if options.json:
        cases = [table.to_json(case_named(name), found) for name, found in results.items()]
        options.json.write_text(json.dumps({"machine": machine.facts(program), "cases": cases}, indent=2) + "\n")
    if options.plots:
        for path in draw(results, options.plots):
            _say(f"wrote {path}")
    _say(f"{time.monotonic() - began_at:.0f} s in all")


def _run(options: argparse.Namespace, program: machine.Program) -> dict[str, Results]:
    results = {}
    for case in _cases(options):
        repeat = options.repeat or (case.quick_repeats if options.quick else REPEAT)
        results[case.name] = run_case(
            case, program, quick=options.quick, repeat=repeat, progress=_say, cores=Cores(*options.cores)
        )
        print("\n" + table.to_text(case, results[case.name]), flush=True)
    return results


def _cases(options: argparse.Namespace) -> list[Case]:
    chosen = [case_named(name) for name in options.only] or CASES
    left_out = [case for case in chosen if options.quick and not case.quick_sizes]
    if left_out:
        _say(f"not in the quick mode: {', '.join(case.name for case in left_out)}")
    return [_limited(case, options) for case in chosen if case not in left_out]


def _limited(case: Case, options: argparse.Namespace) -> Case:
    """Return a case with the contenders and sizes that were asked for; all of them if none was."""
    contenders, wanted = options.contender or list(case.sizes), options.size

    def limited(sizes: Mapping[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
        kept = {name: tuple(size for size in sizes[name] if not wanted or size in wanted) for name in sizes}
        return {name: found for name, found in kept.items() if name in contenders and found}

    return replace(case, sizes=limited(case.sizes), quick_sizes=limited(case.quick_sizes))


def _options() -> argparse.Namespace:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--quick", action="store_true", help="smaller sizes, shorter times and mostly one round")
    options.add_argument("--repeat", type=int, metavar="N", help=f"number of rounds (default: {REPEAT}; quick: few)")
    options.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="CASE",
        choices=[case.name for case in CASES],
        help="run this case; may be repeated (see --list)",
    )
    options.add_argument(
        "--contender", action="append", default=[], metavar="NAME", help="only this one; may be repeated"
    )
    options.add_argument(
        "--size", action="append", default=[], type=int, metavar="N", help="only this size; may be repeated"
    )
    options.add_argument(
        "--cores",
        nargs=2,
        type=int,
        default=(None, None),
        metavar=("CONTENDER", "SERVER"),
        help="hold each contender to one core and the server to another, by their numbers (Linux): cores of a shared "
        "machine may differ in speed, and a ratio of two processes then tells which core each of them got",
    )
    options.add_argument("--list", action="store_true", help="list the cases and exit")
    options.add_argument("--json", type=Path, metavar="FILE", help="write every sample to this file")
    options.add_argument("--plots", type=Path, metavar="DIR", help="write SVG plots to this folder (needs matplotlib)")
    return options.parse_args()


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
