"""Kill, pause and cut off workers at random; then check what became of the runs that they executed.

    python benchmarks/chaos_of_runs.py --quick       # half a minute: each fault once
    python benchmarks/chaos_of_runs.py               # 200 runs, about five minutes
    python benchmarks/chaos_of_runs.py --no-stop     # without redisbeater_stop_when_cut_off

One beat sends to four prefork workers. They are killed (-9), or one of their children is; they are paused, and cut off
from the Redis of the schedule, for less and for more than ``redisbeater_run_timeout``, which is 10 seconds. Tasks write
into a list of their own that they began, are alive, and ended. In the end every run must be SUCCESS, or FAILURE where
its task raised an error, the counts and the results of entries must agree with that list, and no entry with
``overlap="skip"`` may have had two live leases. With ``redisbeater_stop_when_cut_off`` it may not have had two
executions at once either, but for 5 seconds after the end of a pause that was longer than the lease.

The broker is RabbitMQ, which loses no message with a worker. A worker is killed when no start is under way: Celery
acknowledges a message in the main process, which writes that first, while its child reports the start, and between the
two nobody knows the run; and the task writes a moment later that it began. The same holds for pauses after which a
process ends itself. Nor is a worker killed while it is cut off, nor cut off for so long that a child ends itself which
has executed a whole task meanwhile: what they began then is known to them alone. Exit code 1: something is wrong.
Needs ``pip install ".[test]"`` and a RabbitMQ server.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import sys
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from chaos.run_audit import BEGAN, Line, Meeting, Record, Results, balance, differences, meetings
from chaos.run_workers import KINDS, LEASE_SECONDS, RunFaults, Worker, accepted, busy_children, read_lines
from support.project import Project
from support.rabbitmq import running as running_rabbitmq
from support.servers import programs, running

from redisbeater import ScheduleStore
from redisbeater.context import Context
from redisbeater.model.run import State

#: What happens in the short form, each once, to a worker each.
QUICK_KINDS = ("kill", "kill a child", "long pause", "long cut")

#: The kinds of entries: without a second run at once, with one, and with every other run a failure; and how many runs
#: each of them has, about: fewer than the last ends that it keeps, so that all of these can be compared.
GROUPS, RUNS_OF_EACH = ("skip", "allow", "fail"), 50

#: How many workers may suffer at once, in the long form; how many there are.
AT_ONCE, WORKERS = 2, 4

#: How long all runs may take to end after the last fault: they wait 10, 20, 40 s for their next attempts.
END_TIMEOUT_SECONDS = 400.0

#: How long a long pause takes. A run is found lost up to 12.5 seconds after its last renewal, and sent again 10 later.
QUICK_SECONDS, LONG_SECONDS = (11.0, 12.0), (11.0, 32.0)

#: How long a run must have been seen as sent until it counts as waiting, not as starting.
STARTING_SECONDS = 1.0

#: How many runs of an entry hold a live lease now.
LIVE_LEASES = """
local now, most = redis.call('TIME'), 0
now = now[1] + now[2] / 1e6
for i = 2, #ARGV do
  local live = 0
  for _, key in ipairs(redis.call('SMEMBERS', ARGV[1] .. ':active:' .. ARGV[i])) do
    local ends = tonumber(redis.call('ZSCORE', ARGV[1] .. ':active', key) or 0)
    if ends > now and redis.call('HGET', key, 'state') == 'STARTED' then live = live + 1 end
  end
  most = math.max(most, live)
end
return most
"""


class Chaos:
    """The schedule, its beat and workers, from the first run to the end of the last."""

    def __init__(self, options: argparse.Namespace, beat: Project, workers: list[Worker]) -> None:
        self._options = options
        self._rng = random.Random(options.seed)
        self._beat = beat
        self._workers = workers
        self._store = ScheduleStore(beat.app())
        self._redis = Context.of(beat.app()).redis
        self._client = beat.server.client()
        self._sent_since: dict[tuple[str, int], float] = {}
        self._next_fault = 0.0
        self._plan = self._rng.sample(QUICK_KINDS, len(QUICK_KINDS)) if options.quick else []
        self.faults = RunFaults(self._rng, QUICK_SECONDS if options.quick else LONG_SECONDS)
        self.lines: list[Line] = []
        self.samples = self.most_leases = 0
        of_each = max(6, options.runs // RUNS_OF_EACH)
        self._every = 4.0 * of_each / 6
        self.skip, self.allow, self.fail = ([f"{what}-{i}" for i in range(of_each)] for what in GROUPS)

    @property
    def names(self) -> list[str]:
        return [*self.skip, *self.allow, *self.fail]

    def run(self) -> None:
        """Send the runs, do faults meanwhile, and wait until all have ended."""
        self._beat.beat().says("leading as")
        for name in self.names:
            overlap = "skip" if name in self.skip else "allow"
            is_short = self._options.quick or name in self.fail
            seconds = 2.0 if is_short else self._rng.choice((2.0, 4.0, 9.0, 13.0))
            self._store.create(name, "proj.work", self._every, args=[seconds], overlap=overlap, requeue_lost=10)
        while self._sent() < self._options.runs or self._plan:
            self._step()
        for name in self.names:
            self._store.disable(name)
        deadline = time.monotonic() + END_TIMEOUT_SECONDS
        while self._has_runs():
            if time.monotonic() > deadline:
                break
            self._step(has_faults=False)
        self._look()

    def _has_runs(self) -> bool:
        """Return whether a run is active or to be sent, at one instant: runs pass from one list to the other."""
        keys, pipeline = self._redis.keys, self._client.pipeline(transaction=True)
        return any(pipeline.zcard(keys.active).zcard(keys.resend).execute())

    def records(self) -> list[Record]:
        runs = [run for name in self.names for run in self._redis.runs.history(name, 10_000)]
        return [
            Record(
                id=run.id,
                entry=run.name,
                state=run.state.value,
                attempt=run.attempt,
                starts=run.starts,
                ended_at=run.finished_at.timestamp() if run.finished_at else 0.0,
            )
            for run in runs
        ]

    def results(self) -> Results:
        """Read what the results of entries are made of, as it is stored."""
        keys = self._redis.keys

        def members(key: str) -> set[str]:
            found = self._client.zrange(key, 0, -1)
            return {keys.run_id(member).removeprefix(keys.prefix) for member in found}

        return Results(
            ends={name: self._redis.load(name).ends.partition(" ")[0] for name in self.names},
            failed=members(keys.failed),
            unstable=members(keys.unstable),
            waiting=members(keys.waiting),
            failures=members(keys.failures),
            minutes=sum(self._redis.runs.minutes().values(), Counter()),
        )

    def counts(self) -> dict[str, dict[str, Any]]:
        return {name: asdict(self._store.runs.counts(name)) for name in self.names}

    def _sent(self) -> int:
        return sum(self._store.runs.counts(name).sent for name in self.names)

    def _step(self, *, has_faults: bool = True) -> None:
        self._look()
        for worker in self._workers:
            if worker.fault and time.monotonic() >= worker.until:
                self.faults.undo(worker)
        if has_faults and time.monotonic() >= self._next_fault:
            self._do_fault()
        time.sleep(0.05)

    def _look(self) -> None:
        """Read what tasks wrote, and how many leases are live."""
        leases = self._client.eval(LIVE_LEASES, 0, self._redis.keys.prefix, *self.skip)
        self.samples, self.most_leases = self.samples + 1, max(self.most_leases, int(leases))
        self._waiting()

    def _waiting(self) -> bool:
        """Return whether no run is about to start: those that are sent have been so for a while, others have begun."""
        runs = self._redis.runs.many(self._redis.runs.active_ids(1_000)).values()
        self.lines += read_lines(self._beat, len(self.lines))
        began = Counter(line.run for line in self.lines if line.what == BEGAN)
        sent = {(run.id, run.attempt) for run in runs if run.state is State.SENT}
        now = time.monotonic()
        self._sent_since = {key: self._sent_since.get(key, now) for key in sent}
        have_begun = all(run.starts <= began[run.id] for run in runs if run.state is State.STARTED)
        have_begun &= all(number <= began[run] for run, number in accepted(self._beat).items())
        return have_begun and all(now - since >= STARTING_SECONDS for since in self._sent_since.values())

    def _do_fault(self) -> None:
        # In the short form each worker suffers once.
        workers = self._workers[len(QUICK_KINDS) - len(self._plan) :] if self._options.quick else self._workers
        whole = [worker for worker in workers if worker.is_whole]
        room = self._options.quick or len(self._workers) - len(whole) < AT_ONCE
        if not whole or not room or not self.lines or (self._options.quick and not self._plan):
            return
        kind = self._plan[-1] if self._options.quick else self._rng.choices(list(KINDS), list(KINDS.values()))[0]
        worker = whole[0] if self._options.quick else self._rng.choice(whole)
        worker.busy = busy_children(self.lines[-500:], worker.name)
        if self.faults.do(kind, worker, self._waiting):
            self._next_fault = time.monotonic() + (0.1 if self._options.quick else self._rng.uniform(0.5, 3.0))
            if self._plan:
                self._plan.pop()


@contextlib.contextmanager
def site(options: argparse.Namespace, folder: Path) -> Iterator[Chaos]:
    """Run the servers, the beat and the workers."""
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(running(programs()[0]))
        prefix = f"chaos-{uuid.uuid4().hex[:8]}:"
        settings: dict[str, Any] = {
            "broker_url": options.broker or stack.enter_context(running_rabbitmq()).url(),
            "task_default_queue": prefix,
            "result_expires": None,
            "redisbeater_track_runs": True,
            "redisbeater_run_timeout": LEASE_SECONDS,
            "redisbeater_run_history_limit": 1_000,
            "redisbeater_stop_when_cut_off": options.stop,
        }
        workers = []
        for number in range(WORKERS):
            worker = Worker.create(f"w{number}", server, folder / f"w{number}", prefix, **settings)
            stack.callback(worker.close)
            workers.append(worker)
            worker.start()
        (folder / "beat").mkdir()
        beat = stack.enter_context(Project(server, prefix, folder / "beat", **settings))
        for worker in workers:
            assert worker.process is not None
            worker.process.says("ready.")
        yield Chaos(options, beat, workers)


def report(chaos: Chaos, options: argparse.Namespace, seconds: float) -> dict[str, Any]:
    """Return the figures, and what is wrong."""
    records, counts = chaos.records(), chaos.counts()
    results = chaos.results()
    wrong = balance(chaos.lines, records, counts, options.runs) + differences(chaos.lines, records, results)
    met = meetings([line for line in chaos.lines if line.entry in chaos.skip], chaos.faults.pauses, LEASE_SECONDS)
    if chaos.most_leases > 1:
        wrong.append(f"{chaos.most_leases} live leases of an entry with overlap=skip")
    if options.stop:
        wrong += [f"two at once: {meeting}" for meeting in met if not meeting.is_excused]
    return {
        "command": f"python benchmarks/chaos_of_runs.py {' '.join(sys.argv[1:])}".strip(),
        "seed": options.seed,
        "seconds": round(seconds),
        "runs": len(records),
        "success": sum(record.state == "SUCCESS" for record in records),
        "failure": sum(record.state == "FAILURE" for record in records),
        "results": {name: len(getattr(results, name)) for name in ("failed", "unstable", "waiting", "failures")},
        "executions": len({line.execution for line in chaos.lines}),
        "lost": sum(count["lost"] for count in counts.values()),
        "most_attempts": max((record.attempt for record in records), default=0),
        "skipped": sum(count["skipped"] for count in counts.values()),
        "faults": dict(sorted(chaos.faults.tally.items())),
        "samples": chaos.samples,
        "most_leases": chaos.most_leases,
        "met": _met(met),
        "wrong": wrong,
    }


def _met(met: list[Meeting]) -> dict[str, Any]:
    longest = max((meeting.seconds for meeting in met), default=0.0)
    return {"times": len(met), "longest_seconds": round(longest, 2)}


def main() -> int:
    options = _options()
    with tempfile.TemporaryDirectory(prefix="chaos-") as temporary:
        folder = options.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        began = time.monotonic()
        with site(options, folder) as chaos:
            chaos.run()
            figures = report(chaos, options, time.monotonic() - began)
    text = json.dumps(figures, indent=2)
    if options.json:
        options.json.write_text(text + "\n")
    print(text)
    return 1 if figures["wrong"] else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="each fault once, for CI")
    parser.add_argument("--runs", type=int, help="send at least this many (default: 200; with --quick: 24)")
    parser.add_argument("--stop", action=argparse.BooleanOptionalAction, default=True, help="with stop_when_cut_off")
    parser.add_argument("--broker", help="the URL of a RabbitMQ (default: one of its own)")
    parser.add_argument("--seed", type=int, default=None, help="repeat the choices, though not the timing, of a run")
    parser.add_argument("--json", type=Path, help="write the figures to this file as well")
    parser.add_argument("--folder", type=Path, help="keep logs here")
    options = parser.parse_args()
    options.runs = options.runs or (24 if options.quick else 200)
    if options.seed is None:
        options.seed = random.SystemRandom().randrange(1 << 16)
    return options


if __name__ == "__main__":
    sys.exit(main())
