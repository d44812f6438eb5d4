"""Runs in any order of events: beats, workers that die and come back, a monitor, people, and replies that are lost.

The scripts run on a real server, by a clock that stands still until a step moves it. After each step the records are
compared with what must hold of them, and at the end everything that waits has to come to its end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from itertools import count

import pytest
import redis
from celery import Celery
from edit_ledger import ServerClock, scripts_by_the_clock_at
from hypothesis import HealthCheck
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test
from run_site import LEASE, TRACKED, RunSite
from support.examples import examples

from redisbeater import Run
from redisbeater.model.run import STATES, NewRun
from redisbeater.results import Score, State
from redisbeater.store import Claim, ClaimedEntry, Execution
from redisbeater.store.claim import Commitment

S = State


#: The entries, each named by its policy.
POLICIES = ("allow", "skip", "buffer_one", "cancel_other")

#: How many schedules are tried, and how many steps each has.
EXAMPLES, STEPS = 25, 40

#: States of runs that somebody is to report, and of those that are over.
OPEN = {S.SENT, S.STARTED, S.RETRY}
OVER = {S.SUCCESS, S.FAILURE, S.REVOKED, S.EXPIRED}


@dataclass(frozen=True, kw_only=True)
class Message:
    """What the broker has, or gives out again."""

    run_id: str
    name: str
    attempt: int = 1
    step: int = 0


@dataclass(kw_only=True)
class Worker:
    """A process that executes one run; it may be dead, and know nothing of it when it was only paused."""

    message: Message
    holder: str
    is_alive: bool = True


@dataclass(kw_only=True)
class Pass:
    """What a beat has claimed and sent, and not committed yet."""

    claim: Claim
    commitments: list[Commitment] = field(default_factory=list)


def some() -> st.SearchStrategy[int]:
    """Return a number by which a step chooses among what there is."""
    return st.integers(0, 10_000)


class Runs(RuleBasedStateMachine):
    """Each rule is a step of one of the programs."""

    site: RunSite
    ended = 0

    def __init__(self) -> None:
        super().__init__()
        site = self.site
        site.client.flushdb()
        site.clock.set(datetime(2026, 1, 1, tzinfo=timezone.utc))
        for name in POLICIES:
            site.create(name)
        self.numbers = count()
        self.fires = dict.fromkeys(POLICIES, 0)
        self.queue: list[Message] = []
        self.workers: list[Worker] = []
        self.passes: list[Pass] = []
        self.overdue: list[Run] = []
        self.taken: list[Run] = []
        self.unrecorded: list[Run] = []
        self.known: set[str] = set()
        self.succeeded: set[str] = set()
        #: Runs that a worker has reported although they were not active: nobody could know that they would start.
        self.excused: set[str] = set()
        self.before: dict[str, State] = {}

    # Time and beats

    @rule(seconds=st.sampled_from([1, 5, 11, 31, LEASE + 1, 3601]))
    def time_passes(self, seconds: int) -> None:
        self.site.clock.go_on(seconds)

    @rule()
    def a_beat_claims_and_sends(self) -> None:
        claim = self.site.claim()
        items = [self._sent(entry, claim) for entry in claim.entries]
        if items:
            self.passes.append(Pass(claim=claim, commitments=items))

    def _sent(self, entry: ClaimedEntry, claim: Claim) -> Commitment:
        run = self._run(entry.name, f"{entry.name}-{self.fires[entry.name]}")
        others = [run_id for run_id in entry.active if run_id != run.id]
        found = self.site.runs.many([run.id]).get(run.id) if entry.is_abandoned else None
        runs: list[NewRun] = []
        if found is not None and found.state is not S.BUFFERED:
            runs = [run]
        elif entry.name == "allow" or not others:
            self.queue.append(Message(run_id=run.id, name=run.name))
            runs = [run]
        elif entry.name == "cancel_other" or (entry.name == "buffer_one" and not entry.buffered):
            runs = [replace(run, state=S.BUFFERED)]
            for run_id in others if entry.name == "cancel_other" else ():
                self.site.runs.stop(run_id)
        after = claim.now.replace(microsecond=0)
        return Commitment(entry=entry, next=Score.planned(after), meta="{}", runs=runs)

    def _run(self, name: str, run_id: str) -> NewRun:
        self.known.add(run_id)
        return self.site.new(run_id, name, is_alone=name != "allow")

    @precondition(lambda self: self.passes)
    @rule(which=some(), times=st.integers(1, 2))
    def a_beat_commits(self, which: int, times: int) -> None:
        done = self.passes.pop(which % len(self.passes))
        for _ in range(times):
            result = self.site.store.commit(done.claim, done.commitments)
            for item in done.commitments:
                name = item.entry.name
                if name not in result.fenced:
                    self.fires[name] += 1
                    assert name not in result.changed

    @precondition(lambda self: self.passes)
    @rule(which=some())
    def a_beat_dies_between_broker_and_commit(self, which: int) -> None:
        self.passes.pop(which % len(self.passes))

    @rule()
    def a_beat_takes(self) -> None:
        self.taken += self.site.runs.take(token="")

    @precondition(lambda self: self.taken)
    @rule(which=some(), is_sent=st.booleans(), commits=st.integers(0, 2))
    def a_beat_sends_what_it_took(self, which: int, is_sent: bool, commits: int) -> None:
        run = self.taken.pop(which % len(self.taken))
        if is_sent:
            self.queue.append(Message(run_id=run.id, name=run.name, attempt=run.attempt))
            for _ in range(commits):
                self.site.store.commit(self.site.claim(), [], [run])
            if not commits:
                self.unrecorded.append(run)

    @precondition(lambda self: self.unrecorded)
    @rule(which=some())
    def a_slow_beat_commits_what_it_took(self, which: int) -> None:
        run = self.unrecorded.pop(which % len(self.unrecorded))
        self.site.store.commit(self.site.claim(), [], [run])

    # The monitor

    @rule()
    def the_monitor_looks(self) -> None:
        self.overdue += self.site.runs.overdue()

    @precondition(lambda self: self.overdue)
    @rule(which=some(), requeues=st.booleans(), times=st.integers(1, 2))
    def the_monitor_loses(self, which: int, requeues: bool, times: int) -> None:
        run = self.overdue[which % len(self.overdue)]
        if times == 1:
            self.overdue.remove(run)
        self.site.runs.lose(run, requeue_in=5 if requeues and run.attempt < 2 else None)

    # Workers

    @precondition(lambda self: self.queue)
    @rule(which=some(), times=st.integers(1, 2))
    def a_worker_starts(self, which: int, times: int) -> None:
        self._start(self.queue.pop(which % len(self.queue)), times)

    @precondition(lambda self: self.workers)
    @rule(which=some(), refuses=st.booleans())
    def the_broker_gives_a_message_out_again(self, which: int, refuses: bool) -> None:
        self._start(self.workers[which % len(self.workers)].message, 1, is_redelivered=True, is_exclusive=refuses)

    @precondition(lambda self: self.workers)
    @rule(which=some())
    def a_task_that_refuses_gets_a_message_after_a_later_run_was_sent(self, which: int) -> None:
        self.site.clock.go_on(LEASE + 1)
        self.a_beat_claims_and_sends()
        while self.passes:
            self.a_beat_commits(which=0, times=1)
        self.the_broker_gives_a_message_out_again(which=which, refuses=True)

    def _start(self, message: Message, times: int, **flags: bool) -> None:
        holder = f"w{next(self.numbers)}:1:token"
        now, run = self.site.clock.now, self.site.runs.run(message.run_id)
        is_live = run is not None and run.lease_end is not None and run.lease_end > now
        # One that waits to be sent again keeps later runs back, but not one that had begun before.
        is_active = is_live or (run is not None and run.resend_at and not self._is_live(message.name))
        execution = Execution(task="proj.work", holder=holder, **vars(message), **flags)
        words = {self.site.runs.start(execution)[0] for _ in range(times)}
        assert len(words) == 1
        if words <= {"STARTED", "STOP"}:
            self.workers.append(Worker(message=message, holder=holder))
            # Where one run at a time is wanted, a task that refuses looks for others, but cannot see what beat sends.
            is_guarded = bool(flags.get("is_exclusive")) and run is not None and run.is_alone
            if not is_active and not (is_guarded and not self._is_sending(message.name)):
                self.excused.add(message.run_id)

    def _is_live(self, name: str) -> bool:
        """Return whether a run of an entry has a live lease."""
        runs = self.site.runs.many(sorted(self.known)).values()
        return any(run.lease_end and run.lease_end > self.site.clock.now for run in runs if run.name == name)

    def _is_sending(self, name: str) -> bool:
        """Return whether a beat has decided on a run of an entry by what was active before."""
        return any(item.entry.name == name for done in self.passes for item in done.commitments)

    @precondition(lambda self: self.workers)
    @rule(which=some())
    def a_worker_dies_or_comes_back(self, which: int) -> None:
        worker = self.workers[which % len(self.workers)]
        worker.is_alive = not worker.is_alive

    @precondition(lambda self: self.workers)
    @rule(times=st.integers(1, 2))
    def the_living_renew(self, times: int) -> None:
        for _ in range(times):
            renewed: list[str] = []
            for worker in [worker for worker in self.workers if worker.is_alive]:
                run_id = worker.message.run_id
                answer, run = self.site.runs.renew({run_id: worker.holder}), self.site.runs.run(run_id)
                if run_id not in answer.not_ours and run and run.state is S.STARTED:
                    renewed.append(run_id)
            assert len(renewed) == len(set(renewed)), "two executions hold one run"

    @precondition(lambda self: self.workers)
    @rule(which=some())
    def a_child_is_reported_dead(self, which: int) -> None:
        worker = self.workers[which % len(self.workers)]
        self.site.runs.drop(self._execution(worker))

    @precondition(lambda self: self.workers)
    @rule(
        which=some(),
        state=st.sampled_from([S.SUCCESS, S.FAILURE, S.REVOKED, S.RETRY]),
        times=st.integers(1, 2),
        is_early=st.booleans(),
    )
    def a_worker_finishes(self, which: int, state: State, times: int, is_early: bool) -> None:
        worker = self.workers.pop(which % len(self.workers))
        run = self.site.runs.run(worker.message.run_id)
        again = replace(worker.message, step=worker.message.step + 1)
        if state is S.RETRY and is_early:
            self._start(again, 1)
        words = {self.site.runs.finish(self._execution(worker), state) for _ in range(times)}
        assert len(words) == 1
        if state is S.RETRY and not is_early:
            self.queue.append(again)
        is_over = run is not None and (not run.lease_end or run.lease_end <= self.site.clock.now)
        if state is S.RETRY and is_over:  # its message is in the queue, although another run may have begun since
            self.excused.add(worker.message.run_id)

    def _execution(self, worker: Worker) -> Execution:
        return Execution(task="proj.work", holder=worker.holder, **vars(worker.message))

    @precondition(lambda self: self.queue)
    @rule(which=some(), state=st.sampled_from([S.REVOKED, S.EXPIRED]), times=st.integers(1, 2))
    def a_worker_discards(self, which: int, state: State, times: int) -> None:
        message = self.queue.pop(which % len(self.queue))
        for _ in range(times):
            self.site.runs.finish(Execution(task="proj.work", **vars(message)), state)

    # People

    @precondition(lambda self: self.known)
    @rule(which=some())
    def a_person_stops_a_run(self, which: int) -> None:
        self.site.runs.stop(sorted(self.known)[which % len(self.known)])

    @rule(name=st.sampled_from(POLICIES), is_sent=st.booleans())
    def a_person_triggers(self, name: str, is_sent: bool) -> None:
        run = self._run(name, f"{name}-t{next(self.numbers)}")
        found = self.site.runs.reserve(run, name)
        if found.outcome == "RESERVED" and is_sent:
            self.queue.append(Message(run_id=run.id, name=name))
        elif found.outcome == "RESERVED":
            self.site.runs.withdraw(run.id, error="no broker")

    # What must hold

    @invariant()
    def what_is_stored_is_right(self) -> None:
        runs = list(self.site.runs.many(sorted(self.known)).values())
        self._check_lists(runs)
        self._check_counts(runs)
        self._check_changes(runs)
        self._check_leases(runs)

    def _check_lists(self, runs: list[Run]) -> None:
        """What is listed is what is not over, and nothing that waits is forgotten."""
        site = self.site
        active, resend = (set(site.client.zrange(key, 0, -1)) for key in (site.keys.active, site.keys.resend))
        waiting = {site.keys.run(site.runs.counts(name).buffered) for name in POLICIES} - {site.keys.run("")}
        assert active == {site.keys.run(run.id) for run in runs if run.state in OPEN}
        assert resend | waiting >= {site.keys.run(run.id) for run in runs if run.state is S.BUFFERED}
        assert resend <= {site.keys.run(run.id) for run in runs if run.state in (S.BUFFERED, S.LOST)}
        for name in POLICIES:
            ours = {site.keys.run(run.id) for run in runs if run.name == name}
            assert set(site.client.smembers(site.keys.active_of(name))) == ours & (active | resend)
        assert not [run.id for run in runs if run.state in OVER and site.client.ttl(site.keys.run(run.id)) < 0]
        assert not [run.id for run in runs if run.state in OPEN and site.client.ttl(site.keys.run(run.id)) > 0]
        assert not [run.id for run in runs if run.state is S.BUFFERED and site.client.ttl(site.keys.run(run.id)) < 0]

    def _check_counts(self, runs: list[Run]) -> None:
        """A success stays, and is counted once."""
        succeeded = {run.id for run in runs if run.state is S.SUCCESS}
        assert self.succeeded <= succeeded
        self.succeeded = succeeded
        for name in POLICIES:
            counts, ours = self.site.runs.counts(name), [run for run in runs if run.name == name]
            assert counts.success == sum(run.state is S.SUCCESS for run in ours)
            assert counts.sent == sum(run.sent_at is not None for run in ours)

    def _check_changes(self, runs: list[Run]) -> None:
        """One state follows another as the values of the model say."""
        now = {run.id: run.state for run in runs}
        for run_id, state in self.before.items():
            if run_id in now and now[run_id] is not state:
                assert self._follows(state, now[run_id]), f"{run_id}: {state} -> {now[run_id]}"
        self.before = now

    def _follows(self, before: State, after: State) -> bool:
        """Return whether one step may have led from one state to another: a few consist of two transitions."""
        betweens = STATES[after].follows
        return any(before is between or before in STATES[between].follows for between in betweens)

    def _check_leases(self, runs: list[Run]) -> None:
        """Where one run at a time is wanted, one has a live lease."""
        now = self.site.clock.now
        for name in POLICIES[1:]:
            ours = [run for run in runs if run.name == name and run.id not in self.excused]
            live = [run.id for run in ours if run.lease_end and run.lease_end > now]
            assert len(live) <= 1, live

    # The end

    def teardown(self) -> None:
        """Let the time pass, without any accident: whatever waits is sent, and comes to its end."""
        for _ in range(60):
            if not self.site.client.exists(self.site.keys.active, self.site.keys.resend):
                break
            self.site.clock.go_on(3601)
            for run in self.site.runs.overdue():
                self.site.runs.lose(run)
            taken = self.site.runs.take(token="")
            self.site.store.commit(self.site.claim(), [], taken)
            for run in taken:
                done = self.site.execution(run.id, f"end:1:{next(self.numbers)}", name=run.name, attempt=run.attempt)
                assert self.site.runs.start(done)[0] in ("STARTED", "STOP")
                assert self.site.runs.finish(done, S.SUCCESS) == "FINISHED"
        states = {run.id: run.state for run in self.site.runs.many(sorted(self.known)).values()}
        assert {state for state in states.values() if state not in OVER} <= {S.LOST}
        for key in (self.site.keys.active, self.site.keys.resend, *map(self.site.keys.active_of, POLICIES)):
            assert not self.site.client.exists(key)
        assert not [name for name in POLICIES if self.site.runs.counts(name).buffered]
        type(self).ended += 1


@pytest.fixture
def site(make_app: Callable[..., Celery], client: redis.Redis, prefix: str) -> Iterator[RunSite]:
    with scripts_by_the_clock_at(client, f"clock-of-{prefix}"):
        app = make_app(**{**TRACKED, "redisbeater_run_history_limit": 1000})
        yield RunSite(app, client, ServerClock(client, f"clock-of-{prefix}"))


@pytest.mark.timeout(300)
def test_runs_come_to_their_end_in_any_order_of_events(site: RunSite) -> None:
    class Machine(Runs):
        pass

    Machine.site = site
    run_state_machine_as_test(
        Machine,
        settings=examples(
            EXAMPLES, default=EXAMPLES, stateful_step_count=STEPS, suppress_health_check=list(HealthCheck)
        ),
    )

    assert Machine.ended >= EXAMPLES
