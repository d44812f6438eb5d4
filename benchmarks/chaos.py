"""Kill, pause and cut off beats, servers and the connections between them at random; then check that no run was lost.

    python benchmarks/chaos.py --quick                     # about half a minute
    python benchmarks/chaos.py --minutes 10 --no-lock
    python benchmarks/chaos.py --kills 1000 --json chaos.json
    python benchmarks/chaos.py --kills 1000 --track-runs --most-minutes 45
    python benchmarks/chaos.py --kills 1000 --one-server   # schedule and broker are one server: no message twice
    python benchmarks/chaos.py --kills 200 --rabbitmq      # the broker is RabbitMQ
    python benchmarks/chaos.py --faults kill,pause,failover    # the schedule behind Sentinels

The beats are real ``celery beat`` processes; one real server keeps the schedule and one is the broker, or, with
``--one-server``, one is both: then a second message for a fire time is a problem. With ``--rabbitmq`` the broker is a
node of RabbitMQ. The fire times of every entry are computed from its definition alone. They must equal the runs that
arrived at the broker plus those that are recorded as skipped. With ``--track-runs`` beats record the runs, and a
thread reports of most of them that they began and ended, as workers would: each record must have its run, a success
stays one, and nothing is kept for ever.

Exit code 1: a run is missing, early or unexpected, a fire time has two ids or, on one server, two messages, a record is
wrong, or a beat did not end on SIGTERM.
Needs ``pip install ".[test]"``.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import shlex
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from chaos.cluster import Cluster, Shape
from chaos.director import Director, Script
from chaos.faults import FAULTS
from chaos.inbox import Inbox
from chaos.ledger import Account, Message, Problem
from chaos.records import audit_records, figures, read_stored
from chaos.report import Record, Report, create_report
from chaos.reporter import Reporter
from chaos.roster import Roster
from support.servers import programs

#: The default faults: the schedule's server has no replica, and comes back with its data.
DEFAULT_FAULTS = tuple(name for name in FAULTS if name != "failover")

#: What every key of the schedule begins with.
PREFIX = "redisbeater:"

#: How long ``--quick`` injects faults, and how many kills it needs at least.
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
    """Run the benchmark in a folder and return the report."""
    rng = random.Random(options.seed)
    began_at = time.monotonic()
    cluster = Cluster(programs()[0], folder, _shape(options))
    with cluster, Inbox(cluster.archive) as inbox:
        roster = Roster(cluster.app(), rng)
        roster.create(options.entries)
        reporter = _start_reporter(cluster, inbox, options) if options.track_runs else None
        director = Director(cluster, roster, inbox, _script(options), rng)
        director.run()
        beats = [place.beat for place in cluster.places]
        accounts, messages = roster.accounts(), inbox.messages()
        records, problems = _recorded(cluster, reporter, roster, accounts, messages) if reporter else ({}, [])
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
            unresponsive=sum(beat.unresponsive for beat in beats),
            endings=[ending for beat in beats for ending in beat.endings],
            accounts=accounts,
            messages=messages,
            is_once=options.one_server,
            records=records,
            record_problems=problems,
        )
    return create_report(record)


def _start_reporter(cluster: Cluster, inbox: Inbox, options: argparse.Namespace) -> Reporter:
    reporter = Reporter(cluster.app(), random.Random(options.seed))
    reporter.start()
    inbox.on_arrival = reporter.arrived
    return reporter


def _recorded(
    cluster: Cluster, reporter: Reporter, roster: Roster, accounts: Sequence[Account], messages: Sequence[Message]
) -> tuple[Mapping[str, int], Sequence[Problem]]:
    """Return what the records of runs have shown, and what is wrong with them."""
    reporter.end()
    stored = read_stored(cluster.schedule.client(), PREFIX, roster.now())
    return figures(stored, reporter.tally), audit_records(stored, messages, accounts, reporter.succeeded)


def _shape(options: argparse.Namespace) -> Shape:
    return Shape(
        beats=options.beats,
        has_lock=options.lock,
        has_proxies="cut" in options.faults,
        has_replica="failover" in options.faults,
        is_one_server=options.one_server,
        has_rabbitmq=options.rabbitmq,
        tracks_runs=options.track_runs,
        has_few_rights=options.few_rights,
    )


def _script(options: argparse.Namespace) -> Script:
    if options.quick:
        kills = QUICK_KILLS if "kill" in options.faults else 0
        return Script(seconds=QUICK_SECONDS, kills=kills, faults=options.faults)
    most = options.most_minutes * 60 if options.most_minutes else math.inf
    return Script(seconds=options.minutes * 60, kills=options.kills, faults=options.faults, most_seconds=most)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a few faults of each kind, for CI")
    parser.add_argument("--minutes", type=float, default=1.0, help="inject faults for at least this long (default: 1)")
    parser.add_argument("--kills", type=int, default=0, help="kill at least this many beats")
    parser.add_argument("--most-minutes", type=float, metavar="MINUTES", help="and stop then, also with fewer kills")
    parser.add_argument("--beats", type=int, default=3, help="number of beats (default: 3)")
    parser.add_argument("--entries", type=int, default=24, help="number of entries at the start (default: 24)")
    parser.add_argument(
        "--lock",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="run one leader, or let all beats send (default: --lock)",
    )
    brokers = parser.add_mutually_exclusive_group()
    brokers.add_argument("--one-server", action="store_true", help="one server is schedule and broker: no repeats")
    brokers.add_argument("--rabbitmq", action="store_true", help="the broker is RabbitMQ")
    parser.add_argument(
        "--few-rights", action="store_true", help="the beats may not trim logs: needs cut among --faults"
    )
    parser.add_argument("--track-runs", action="store_true", help="record the runs, and check the records")
    parser.add_argument(
        "--faults",
        type=_faults,
        default=DEFAULT_FAULTS,
        help=f"some of {', '.join(FAULTS)} (default: {','.join(DEFAULT_FAULTS)})",
    )
    parser.add_argument("--seed", type=int, default=None, help="repeat the choices, though not the timing, of a run")
    parser.add_argument("--json", type=Path, help="write the figures to this file as well")
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
