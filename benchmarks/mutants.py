"""Break the engine in one place after the other, and tell which of these mutants the tests find.

    python benchmarks/mutants.py                           # all of them: an hour or more
    python benchmarks/mutants.py --list
    python benchmarks/mutants.py --only claim-without-lock --only random-task-id
    python benchmarks/mutants.py --first --json found.json   # the tests that each mutant names, no others
    python benchmarks/mutants.py --rest                    # at last the tests with marks, too

Each mutant is one small wrong change of the source that a user would suffer from; ``benchmarks/mutants/table.py`` has
them. For each the command copies the checkout to a temporary folder, makes the change there, and runs the tests until
one fails: first the files that the mutant names, then the README's command for the tests, with ``--rest`` the tests
with marks as well. The test that failed must pass without the change.

Exit code 1: a mutant survived. Exit code 2: its text is not in the source any more, or its tests could not be run.
Needs ``pip install ".[test]"``. ``REDISBEATER_TEST_SERVER=redis-server`` keeps the tests to one of several servers.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import signal
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from mutants.checkout import Checkout, CommandFailed, changed_text, copied
from mutants.table import MUTANTS, Mutant

#: What the README's command for the tests gives pytest.
WHOLE = ("-n", "4", "--dist", "worksteal")

#: The test that each text of the table is in the source finds every mutant.
TABLE_LEFT_OUT = "--ignore=tests/unit/test_mutants.py"

#: What runs the tests that this command leaves out.
REST = ("--rest",)


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What became of one mutant.

    Attributes:
        found_by: the test that found it; empty: it survived.
        stage: among which tests: first, whole or rest.
        error: why nobody knows whether it survives; empty where it is known.
    """

    name: str
    path: str
    harm: str
    found_by: str = ""
    stage: str = ""
    error: str = ""
    seconds: float

    def to_text(self) -> str:
        """Return it as a line."""
        found = f"found by {self.found_by}" if self.found_by else f"SURVIVED: {self.harm}"
        return f"{self.name}: {f'ERROR: {self.error}' if self.error else found} ({self.seconds:.0f} s)"


def main() -> int:
    options = _options()
    chosen = [mutant for mutant in MUTANTS if not options.only or mutant.name in options.only]
    if options.list:
        for mutant in chosen:
            print(f"{mutant.name:<36} {mutant.path:<32} {mutant.harm}")
        return 0
    try:
        for mutant in chosen:
            changed_text(mutant)
    except CommandFailed as exc:
        print(exc, file=sys.stderr)
        return 2
    # In the background of a shell script it is ignored, here and in the tests that send it to themselves.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    verdicts = list(_tried(chosen, options))
    errors = [verdict for verdict in verdicts if verdict.error]
    survivors = [verdict for verdict in verdicts if not verdict.found_by and not verdict.error]
    print(f"{len(verdicts)} mutants, {len(survivors)} survived, {len(errors)} could not be tried")
    if options.json:
        options.json.write_text(json.dumps([asdict(verdict) for verdict in verdicts], indent=2) + "\n")
    return 2 if errors else 1 if survivors else 0


def _tried(chosen: Sequence[Mutant], options: argparse.Namespace) -> Iterator[Verdict]:
    with copied() as unchanged:
        for number, mutant in enumerate(chosen, 1):
            _progress(f"[{number}/{len(chosen)}] {mutant.name}")
            began_at = time.monotonic()
            try:
                found = _find(mutant, unchanged, _stages(mutant, options))
            except CommandFailed as exc:
                found = {"error": str(exc)}
            facts = {"name": mutant.name, "path": mutant.path, "harm": mutant.harm}
            verdict = Verdict(**facts, **found, seconds=time.monotonic() - began_at)
            print(verdict.to_text(), flush=True)
            yield verdict


def _find(mutant: Mutant, unchanged: Checkout, stages: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Run the tests of one stage after the other on a mutant, and return which found it; empty: none."""
    with copied() as checkout:
        checkout.change(mutant)
        for stage, arguments in stages.items():
            _progress(f"    {stage}: pytest {' '.join(arguments)}")
            outcome = checkout.pytest(arguments)
            if outcome.is_empty:
                raise CommandFailed(f"pytest {' '.join(arguments)} selects no test")
            if outcome.failed:
                if unchanged.pytest(outcome.failed[:1]).failed:
                    raise CommandFailed(f"{outcome.failed[0]} fails without the mutant, too; repair that first")
                return {"found_by": outcome.failed[0], "stage": stage}
    return {}


def _stages(mutant: Mutant, options: argparse.Namespace) -> dict[str, Sequence[str]]:
    """Return by name what pytest gets in each stage."""
    stages: dict[str, Sequence[str]] = {"first": [f"tests/{name}" for name in mutant.first]}
    if not options.first:
        stages["whole"] = (*WHOLE, TABLE_LEFT_OUT)
    if options.rest:
        stages["rest"] = (*WHOLE, *REST, TABLE_LEFT_OUT)
    return stages


def _progress(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [mutant.name for mutant in MUTANTS]
    parser.add_argument("--only", action="append", choices=names, metavar="NAME", help="this mutant; may be repeated")
    parser.add_argument("--list", action="store_true", help="print the mutants, and what each one does to a user")
    parser.add_argument("--first", action="store_true", help="run only the test files that the mutants name")
    parser.add_argument("--rest", action="store_true", help="at last run the tests with marks on what has survived")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the verdicts to a file")
    return parser.parse_args()


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        sys.exit(main())
    sys.exit(130)
