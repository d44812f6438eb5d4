"""Chaos: beats, servers and the lines between them are killed, paused and cut off at random; then a ledger is balanced.

    python benchmarks/chaos.py --quick                     # about half a minute
    python benchmarks/chaos.py --minutes 10 --no-lock
    python benchmarks/chaos.py --kills 1000 --json chaos.json
    python benchmarks/chaos.py --faults kill,pause,failover    # the schedule on Sentinel

Real ``celery beat`` processes, one real server for the schedule and one as the broker. For every entry its fire times,
computed from its definition alone, must equal what arrived at the broker and what is recorded as skipped. Exit code 1:
something is missing, early or unaccounted for, a fire time has two ids, or a beat did not end when it was told to.
Needs ``pip install ".[test]"``.
"""

from __future__ import annotations

import argparse
import json
import random
import shlex
import sys
import tempfile
import time
from pathlib import Path

from chaos.cluster import Cluster, Shape
from chaos.director import Director, Script
from chaos.faults import FAULTS
from chaos.inbox import Inbox
from chaos.report import Record, Report, reported
from chaos.roster import Roster
from servers import programs

#: The faults of a run that is not told others: the schedule's server has no replica, and comes back with its data.
USUAL = tuple(name for name in FAULTS if name != "failover")

#: Seconds of faults, and kills at least, of ``--quick``.
QUICK_SECONDS, QUICK_KILLS = 15, 5


def main() -> int:
    options = _options()
    with tempfile.TemporaryDirectory(prefix="chaos-") as temporary:
        folder = Path(temporary) if options.folder is None else options.folder
        folder.mkdir(parents=True, exist_ok=True)
        report = run(options, folder)
    if options.json:
        options.json.write_text(json.dumps(report.to_json(), indent=2, default=str) + "\n")
    print(report.to_text())
    return 0 if report.is_clean else 1


def run(options: argparse.Namespace, folder: Path) -> Report:
    """One run, in a folder of its own."""
    rng = random.Random(options.seed)
    began_at = time.monotonic()
    cluster = Cluster(programs()[0], folder, _shape(options))
    with cluster, Inbox(cluster.broker) as inbox:
        roster = Roster(cluster.app(), rng)
        roster.make(options.entries)
        director = Director(cluster, roster, inbox, _script(options), rng)
        director.run()
        beats = [place.beat for place in cluster.places]
        record = Record(
            command=shlex.join(["python", "benchmarks/chaos.py", *sys.argv[1:]]),
            servers=cluster.schedule.version(),
            seconds=time.monotonic() - began_at,
            caught_up_in=director.caught_up_in,
            faults=director.faults.tally,
            changes=roster.tally,
            kills=director.faults.kills,
            downs=cluster.watch.downs(),
            beats=[beat.name for beat in beats],
            starts=sum(beat.starts for beat in beats),
            deaf=sum(beat.deaf for beat in beats),
            endings=[ending for beat in beats for ending in beat.endings],
            accounts=roster.accounts(),
            messages=inbox.messages(),
        )
    return reported(record)


def _shape(options: argparse.Namespace) -> Shape:
    return Shape(
        beats=options.beats,
        has_lock=options.lock,
        has_proxies="cut" in options.faults,
        has_replica="failover" in options.faults,
    )


def _script(options: argparse.Namespace) -> Script:
    if options.quick:
        kills = QUICK_KILLS if "kill" in options.faults else 0
        return Script(seconds=QUICK_SECONDS, kills=kills, faults=options.faults)
    return Script(seconds=options.minutes * 60, kills=options.kills, faults=options.faults)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a few faults of each kind, for CI")
    parser.add_argument("--minutes", type=float, default=1.0, help="how long faults happen, at least (default: 1)")
    parser.add_argument("--kills", type=int, default=0, help="how many beats are killed, at least")
    parser.add_argument("--beats", type=int, default=3, help="(default: 3)")
    parser.add_argument("--entries", type=int, default=24, help="to begin with (default: 24)")
    parser.add_argument("--lock", action=argparse.BooleanOptionalAction, default=True, help="(default: with a lock)")
    parser.add_argument(
        "--faults", type=_faults, default=USUAL, help=f"of {', '.join(FAULTS)} (default: {','.join(USUAL)})"
    )
    parser.add_argument("--seed", type=int, default=None, help="makes the choices, though not the timing, repeatable")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    parser.add_argument("--folder", type=Path, help="keep logs and data here")
    options = parser.parse_args()
    if options.kills and "kill" not in options.faults:
        parser.error("--kills needs kill among --faults")
    if options.seed is None:
        options.seed = random.SystemRandom().randrange(1 << 16)
        print(f"--seed {options.seed}", file=sys.stderr)
    return options


def _faults(text: str) -> tuple[str, ...]:
    names = tuple(text.split(","))
    unknown = [name for name in names if name not in FAULTS]
    if {"failover", "redis-restart"} <= set(names):
        raise argparse.ArgumentTypeError("failover and redis-restart exclude each other: with a replica it takes over")
    if unknown:
        raise argparse.ArgumentTypeError(f"{', '.join(unknown)}: expected some of {', '.join(FAULTS)}")
    return names


if __name__ == "__main__":
    sys.exit(main())
