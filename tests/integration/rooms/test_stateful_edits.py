"""Edits, foreign writes and two beats at a few entries, in any order that hypothesis generates, on a real server.

Each step is one of the store's, so that any other may come before the next; an edit is interrupted between its reading
and its writing, too. The server's clock is the test's, and nothing reaches a broker: what would be sent is noted. After
each step what is stored is held against what was written: the edit wins, a deleted entry stays deleted, no run is
uncounted and no fire time lost.

The examples are the same in each run. With ``REDISBEATER_EXAMPLES=5000`` in the environment there are as many others,
which ``--hypothesis-seed=N`` chooses.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
import redis
from celery import Celery
from due import save_due
from edit_ledger import LEASE, Fields, Flight, Known, ServerClock, scripts_by_the_clock_at
from flight import mark_in_flight
from hypothesis import HealthCheck
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test
from support.examples import more_in_the_whole_run, same_examples

from redisbeater import EntryExists, EntryNotFound, InvalidEntry, RedisScheduleEntry, ScheduleStore
from redisbeater.context import Context
from redisbeater.dispatch.job import Job
from redisbeater.model.definition import Definition
from redisbeater.model.meta import Meta
from redisbeater.model.skip import read_skipped
from redisbeater.results import Score
from redisbeater.schedules.zones import encode_datetime
from redisbeater.store import ClaimedEntry, Snapshot
from redisbeater.times import EPOCH, to_unix

#: How much is tried, unless the environment sets another number.
EXAMPLES, STEPS = 70, 50

NAMES = ("a", "b")

BROKEN = "{"

#: A method of the machine, and its arguments.
Step = tuple[Any, ...]

names = st.sampled_from(["a", "a", *NAMES])
beats = st.sampled_from([0, 1])
numbers = st.integers(0, 9)
intervals = st.sampled_from([60, 90, 3600])
#: Seconds until the next try.
delays = st.sampled_from([0, 30])
endings = st.fixed_dictionaries(
    {"max_runs": st.sampled_from([1, 2, 3, None]), "on_finish": st.sampled_from(["delete", "disable", "keep"])}
)
jitters = st.fixed_dictionaries({"jitter": st.sampled_from([20, 0])})
coalesces = st.fixed_dictionaries({"coalesce": st.sampled_from(["all", "latest"])})

EDITS = [
    ("create", names, numbers, intervals),
    ("save", names, numbers),
    ("save", names, numbers),
    ("update_args", names, numbers),
    ("update_schedule", names, intervals),
    ("update_policy", names, endings),
    ("update_policy", names, endings),
    ("update_policy", names, jitters),
    ("update_policy", names, jitters),
    ("update_policy", names, coalesces),
    ("disable", names),
    ("enable", names),
    ("reschedule", names, st.sampled_from([0, 60, 200])),
    ("report_execution", names),
]
WRITES = [
    ("delete", names),
    ("write_definition", names, numbers, intervals, st.booleans()),
    ("break_definition", names),
    ("break_definition", names),
    ("break_definition", names),
    ("write_own_field", names, numbers),
    ("write_last_run", names),
    ("write_score", names, st.sampled_from([-200, -1, 30])),
    ("write_score", names, st.sampled_from([-200, -1, 30])),
    ("write_score_of_zero", names),
]
ACCIDENTS = [
    ("send_without_an_answer", beats, delays),
    ("release", beats, delays),
    ("crash", beats),
]


def _steps(*kinds: Step) -> st.SearchStrategy[Step]:
    return st.one_of([st.tuples(st.just(what), *arguments) for what, *arguments in kinds])


def _any_of(*kinds: st.SearchStrategy[Step]) -> st.SearchStrategy[Step]:
    """Draw from some kinds, each as often as it is listed; ``one_of`` would draw each of their steps as often."""
    return st.sampled_from(kinds).flatmap(lambda kind: kind)


going_on = _steps(("go_on", beats, st.sampled_from([10, 10, 1]), st.booleans()))
time_passing = _any_of(_steps(("fire_time_comes", names)), _steps(("time_passes", st.sampled_from([100, 61, 1, 1000]))))
edits, writes, accidents = _steps(*EDITS), _steps(*WRITES), _steps(*ACCIDENTS)
others = st.lists(_any_of(going_on, going_on, edits, writes, accidents), min_size=1, max_size=2)
interrupted = st.tuples(st.just("interrupted"), edits, others)
steps = _any_of(*[going_on] * 4, *[time_passing] * 2, edits, *[interrupted] * 2, *[writes] * 2, accidents)


class Edits(RuleBasedStateMachine):
    """One rule for all steps: of several rules hypothesis leaves out some, and without beats nothing happens."""

    def __init__(self, app: Celery, client: redis.Redis, clock_key: str) -> None:
        super().__init__()
        client.flushdb()
        self.app, self.client, self.clock = app, client, ServerClock(client, clock_key)
        self.context, self.store = Context.of(app), ScheduleStore(app)
        self.redis = self.context.redis
        self.writes = 0
        self.entries: dict[str, Known] = {}
        #: The same when an edit that is being made read its entry; what is refused is refused by that.
        self.as_read = self.entries
        self.flights: dict[int, Flight] = {}
        self.ids: dict[tuple[str, str], str] = {}
        for name in NAMES:
            self.create(name, 0, 60)

    @rule(step=steps)
    def happens(self, step: Step) -> None:
        self.as_read = self.entries
        self._happens(step)
        self.check()

    def _happens(self, step: Step) -> None:
        what, *arguments = step
        getattr(self, what)(*arguments)

    def time_passes(self, seconds: int) -> None:
        self.clock.go_on(seconds)

    def fire_time_comes(self, name: str) -> None:
        due = self.entries[name].due if name in self.entries else None
        if due is not None and due > self.clock.now:
            self.clock.set(due.replace(microsecond=0) + timedelta(seconds=1))

    # Programs that use the API

    def create(self, name: str, number: int, every: int) -> None:
        fields = Fields(number=number, every=every)
        try:
            self._made(name, fields).create()
        except EntryExists:
            assert name in self.entries or name in self.as_read
        else:
            self._is_new(name, fields)

    def save(self, name: str, number: int) -> None:
        before = self.entries.get(name)
        fields = replace(before.fields if before else Fields(), number=number)
        self._made(name, fields).save()
        known = self.entries.get(name)
        if known is None:
            self._is_new(name, replace(fields, team=None))
        else:
            team = known.fields.team if known.is_readable else None
            self._is_edited(name, replace(fields, team=team))

    def update_args(self, name: str, number: int) -> None:
        if self._is_done(name, lambda: self.store.update(name, args=[number])):
            self._is_edited(name, replace(self.entries[name].fields, number=number))

    def update_schedule(self, name: str, every: int) -> None:
        if self._is_done(name, lambda: self.store.update(name, schedule=every)):
            self._is_edited(name, replace(self.entries[name].fields, every=every))

    def update_policy(self, name: str, policy: dict[str, Any]) -> None:
        if self._is_done(name, lambda: self.store.update(name, **policy)):
            self._is_edited(name, replace(self.entries[name].fields, **policy))

    def disable(self, name: str) -> None:
        if self._is_done(name, lambda: self.store.disable(name)):
            self._is_edited(name, replace(self.entries[name].fields, enabled=False))

    def enable(self, name: str) -> None:
        if self._is_done(name, lambda: self.store.enable(name)):
            self._is_edited(name, replace(self.entries[name].fields, enabled=True))

    def reschedule(self, name: str, late: int) -> None:
        ran_at = self._moment(-60 - late)
        if self._is_done(name, lambda: RedisScheduleEntry(name, app=self.app).reschedule(ran_at)):
            known = self.entries[name]
            known.last_run, known.is_listed = ran_at, False
            is_over = known.is_spent or not known.fields.enabled
            known.set_to(None if is_over else ran_at + timedelta(seconds=known.fields.every))

    def report_execution(self, name: str) -> None:
        if self._is_done(name, lambda: self.store.record_execution(name)):
            known, now = self.entries[name], self.clock.now
            known.is_listed = False
            if known.last_run is None or known.last_run < now:
                known.last_run = now
                known.is_counted_from_now(self._score(name), now)

    def delete(self, name: str) -> None:
        try:
            self.store.delete(name)
        except EntryNotFound:
            assert name not in self.entries
        else:
            del self.entries[name]

    def interrupted(self, edit: Step, others: list[Step]) -> None:
        """Edit slowly: other steps come between what this edit reads and what it writes."""
        with self._between_reading_and_writing(others):
            self._happens(edit)

    # Programs that write to Redis themselves

    def write_definition(self, name: str, number: int, every: int, disables: bool) -> None:
        if name in self.entries:
            known = self.entries[name]
            enabled = known.fields.enabled and not disables
            known.fields, known.is_readable = Fields(number=number, every=every, enabled=enabled, team=number), True
            schedule = {"__type__": "interval", "every": every}
            text = {"task": "proj.work", "args": [number], "schedule": schedule, "enabled": enabled, "team": number}
            self._write(name, definition=json.dumps(text))

    def break_definition(self, name: str) -> None:
        if name in self.entries:
            self.entries[name].is_readable = False
            self._write(name, definition=BROKEN)

    def write_own_field(self, name: str, owner: int) -> None:
        if name in self.entries:
            self.entries[name].owner = owner
            self._write_meta(name, owner=owner)

    def write_last_run(self, name: str) -> None:
        if name in self.entries:
            self.entries[name].last_run = ran_at = self._moment(0)
            self._write_meta(name, last_run_at=encode_datetime(ran_at))

    def write_score(self, name: str, seconds: int) -> None:
        if name in self.entries:
            fire_time = self._moment(seconds)
            self.entries[name].set_to(fire_time)
            self.client.zadd(self.redis.keys.schedule, {self._key(name): to_unix(fire_time)})

    def write_score_of_zero(self, name: str) -> None:
        if name in self.entries:
            self.entries[name].set_to(EPOCH)
            self.client.zadd(self.redis.keys.schedule, {self._key(name): 0})

    # Two beats without a lock

    def go_on(self, beat: int, most: int, is_repeated: bool) -> None:
        """Claim, send what comes next, or commit; at most ``most`` messages, and twice where the reply is lost."""
        flight = self.flights.get(beat)
        if flight is None:
            self._claim(beat, most)
        elif flight.unsent:
            self._dispatch(flight, flight.unsent.pop(0), most)
        elif flight.done:
            self._commit(flight, is_repeated)
        else:
            del self.flights[beat]

    def send_without_an_answer(self, beat: int, delay: int) -> None:
        """Send a run without learning whether the broker has accepted it."""
        flight = self.flights.get(beat)
        if flight is not None and flight.unsent and flight.seen[flight.unsent[0].name].is_readable:
            claimed = flight.unsent.pop(0)
            job = Job.planned(claimed, flight.claim.now, self.context)
            self._note(flight, job.first_runs(min(1, len(job.plan.runs))), is_taken=False)
            self._release(flight, [claimed], delay)

    def release(self, beat: int, delay: int) -> None:
        flight = self.flights.get(beat)
        if flight is not None:
            self._release(flight, flight.unsent, delay)
            flight.unsent = []

    def crash(self, beat: int) -> None:
        self.flights.pop(beat, None)

    # What holds after each step

    def check(self) -> None:
        members = set(self.client.zrange(self.redis.keys.schedule, 0, -1))
        assert members == {self._key(name) for name in self.entries}
        assert set(self.redis.broken.reports()) == {name for name, known in self.entries.items() if known.is_listed}
        for snapshot in self.redis.load_many(NAMES):
            known = self.entries.get(snapshot.name)
            if known is None:
                assert self.client.exists(self._key(snapshot.name)) == 0
            else:
                self._check(known, snapshot)

    def _check(self, known: Known, snapshot: Snapshot) -> None:
        assert known.is_readable == (snapshot.definition != BROKEN)
        if known.is_readable:
            definition = Definition.from_text(snapshot.name, snapshot.definition, self.context.codec)
            assert Fields.of(definition, self.context.defaults) == known.fields
        meta, score = Meta.from_text(snapshot.meta), snapshot.score
        assert (meta.total_run_count, meta.last_run_at) == (known.count, known.last_run)
        assert meta.extra.get("owner") == known.owner
        assert sum(record.count for record in read_skipped(snapshot.skipped).values()) == known.skipped
        assert score is not None
        assert (None if score.dormant else score.fire_time) == known.due

    # What an edit does

    def _made(self, name: str, fields: Fields) -> RedisScheduleEntry:
        return RedisScheduleEntry(name, "proj.work", app=self.app, **fields.arguments())

    def _is_new(self, name: str, fields: Fields) -> None:
        assert name not in self.entries
        due = self.clock.now + timedelta(seconds=fields.every) if fields.enabled else None
        self.entries[name] = Known(fields=fields, due=due)

    def _is_done(self, name: str, edit: Callable[[], Any]) -> bool:
        """Return whether an edit was made; it is refused when there is no entry, or none that can be read."""
        try:
            edit()
        except EntryNotFound:
            assert name not in self.entries or name not in self.as_read
            return False
        except InvalidEntry:
            assert not all(entries[name].is_readable for entries in (self.entries, self.as_read) if name in entries)
            return False
        assert self.entries[name].is_readable
        return True

    def _is_edited(self, name: str, fields: Fields) -> None:
        known = self.entries[name]
        was, known.fields = known.fields, fields
        known.edited(was, self._score(name), self.clock.now)

    @contextmanager
    def _between_reading_and_writing(self, others: list[Step]) -> Iterator[None]:
        read = self.redis.load_many

        def load_many(names: Sequence[str]) -> list[Snapshot]:
            snapshots = read(names)
            patch.undo()
            self.as_read = copy.deepcopy(self.entries)
            for other in others:
                self._happens(other)
            return snapshots

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(self.redis, "load_many", load_many)
            yield

    # What a beat does

    def _claim(self, beat: int, limit: int) -> None:
        claim = self.redis.claim(token="", limit=limit)
        due = sorted(name for name, known in self.entries.items() if known.is_due(claim.now))
        due.sort(key=lambda name: self.entries[name].look_at or self.entries[name].due)
        assert (claim.now, [claimed.name for claimed in claim.entries]) == (self.clock.now, due[:limit])
        for claimed in claim.entries:
            self.entries[claimed.name].claimed(claim, claimed.fire_time)
        seen = {claimed.name: copy.copy(self.entries[claimed.name]) for claimed in claim.entries}
        if seen:
            self.flights[beat] = Flight(claim=claim, seen=seen, unsent=list(claim.entries))

    def _dispatch(self, flight: Flight, claimed: ClaimedEntry, most: int) -> None:
        try:
            job = Job.planned(claimed, flight.claim.now, self.context)
        except InvalidEntry as exc:
            assert not flight.seen[claimed.name].is_readable
            self._quarantine(flight, claimed, str(exc))
        else:
            assert flight.seen[claimed.name].fields.enabled or not job.plan.runs
            job = job.first_runs(min(most, len(job.plan.runs)))
            self._note(flight, job, is_taken=True)
            flight.done.append(job)

    def _note(self, flight: Flight, job: Job, *, is_taken: bool) -> None:
        """Record that the runs of a job are sent; ``is_taken``: the broker has certainly accepted them."""
        known = self.entries.get(job.claimed.name)
        is_excused = not is_taken or not flight.holds(known) or not flight.is_in_time(self.clock.now)
        for run in job.runs(flight.claim.schedule_id, self.app):
            options = run.options
            key = (run.name, options["headers"]["scheduled_for"])
            assert self.ids.setdefault(key, options["task_id"]) == options["task_id"]
            if not is_excused:
                known.is_sent(run.last_run_at)

    def _quarantine(self, flight: Flight, claimed: ClaimedEntry, reason: str) -> None:
        known = self.entries.get(claimed.name)
        is_held, is_as_read = flight.holds(known), self._texts(claimed.name)[0] == claimed.definition
        quarantined = self.redis.quarantine(flight.claim, [(claimed, reason)])
        assert quarantined == ({claimed.name} if is_held and is_as_read else set())
        if is_held and is_as_read:
            known.quarantined()
        elif is_held:
            known.released(known.due)

    def _commit(self, flight: Flight, is_repeated: bool) -> None:
        texts = {job.claimed.name: self._seen_by_commit(job.claimed.name) for job in flight.done}
        result = self.redis.commit(flight.claim, [job.commitment() for job in flight.done])
        if is_repeated:
            again = self.redis.commit(flight.claim, [job.commitment() for job in flight.done])
            assert again.changed == result.changed
        done, flight.done = flight.done, []
        for job in done:
            name, known = job.claimed.name, self.entries.get(job.claimed.name)
            is_as_read = texts[name] == [job.claimed.definition, job.claimed.meta, job.claimed.recorded_run]
            assert (name in result.fenced) == (not flight.holds(known))
            assert (name in result.changed) == (flight.holds(known) and not is_as_read)
            if name in result.changed:
                flight.done.append(job.rebased_on(*result.changed[name]))
            elif flight.holds(known):
                self._is_committed(name, known, job, flight.seen[name])

    def _is_committed(self, name: str, known: Known, job: Job, seen: Known) -> None:
        was_moved = known.look_at is None
        known.committed(job, seen)
        if not was_moved and known.is_finished_by(job):
            if known.fields.on_finish == "delete":
                del self.entries[name]
            elif known.fields.on_finish == "disable":
                known.fields = replace(known.fields, enabled=False)

    def _release(self, flight: Flight, unsent: list[ClaimedEntry], delay: int) -> None:
        self.redis.release(flight.claim, unsent, delay=delay)
        for claimed in unsent:
            known = self.entries.get(claimed.name)
            if flight.holds(known):
                known.released(self.clock.now + timedelta(seconds=delay))

    # What is in Redis

    def _key(self, name: str) -> str:
        return self.redis.keys.entry(name)

    def _texts(self, name: str) -> tuple[str, str]:
        definition, meta = self.client.hmget(self._key(name), "definition", "meta")
        return definition or "", meta or ""

    def _seen_by_commit(self, name: str) -> list[str]:
        """The texts by which a commit notices that another writer changed an entry."""
        texts = self.client.hmget(self._key(name), "definition", "meta", "recorded_run")
        return [text or "" for text in texts]

    def due(self, name: str) -> datetime | None:
        """Return when an entry comes up, as it is stored."""
        score = self._score(name)
        return None if score.dormant else score.fire_time

    def _score(self, name: str) -> Score:
        score = self.redis.load(name).score
        assert score is not None
        return score

    def _write(self, name: str, **fields: str) -> None:
        self.client.hset(self._key(name), mapping=fields)

    def _write_meta(self, name: str, **fields: Any) -> None:
        meta = json.loads(self._texts(name)[1] or "{}")
        self._write(name, meta=json.dumps({**meta, **fields}))

    def _moment(self, seconds: int) -> datetime:
        """Return a moment from now that no other is equal to."""
        self.writes += 1
        return self.clock.now + timedelta(seconds=seconds, microseconds=self.writes)


MakeEdits = Callable[[], Edits]


@pytest.fixture
def make_edits(make_app: Callable[..., Celery], client: redis.Redis, prefix: str) -> Iterator[MakeEdits]:
    """Make machines, one after another, each over an empty schedule."""
    app = make_app(redisbeater_lock_key=None, redisbeater_lease_timeout=LEASE.total_seconds())
    clock_key = f"{prefix}:claim:clock"
    with scripts_by_the_clock_at(client, clock_key):
        yield lambda: Edits(app, client, clock_key)


@more_in_the_whole_run
@pytest.mark.timeout(900)  # where it fails, hypothesis takes minutes to find out which steps it takes
def test_whatever_is_edited_at_whatever_moment_nothing_is_lost(make_edits: MakeEdits) -> None:
    run_state_machine_as_test(
        make_edits,
        settings=same_examples(
            EXAMPLES,
            stateful_step_count=STEPS,
            report_multiple_bugs=False,
            suppress_health_check=list(HealthCheck),
        ),
    )


CLAIM_A = ("go_on", 0, 1, False)
JITTER = {"jitter": 20}


@pytest.mark.parametrize(
    "steps",
    [
        pytest.param(
            [("break_definition", "a"), ("fire_time_comes", "a"), CLAIM_A, ("save", "a", 1), CLAIM_A],
            id="a broken entry that is saved while it is claimed keeps the fire time of the edit",
        ),
        pytest.param(
            [
                ("break_definition", "a"),
                ("fire_time_comes", "a"),
                CLAIM_A,
                ("write_definition", "a", 1, 60, False),
                ("write_score", "a", 30),
                CLAIM_A,
            ],
            id="a broken entry that is written while it is claimed keeps the score that was written",
        ),
        pytest.param(
            [
                ("fire_time_comes", "a"),
                ("interrupted", ("update_policy", "a", JITTER), [CLAIM_A]),
                ("go_on", 1, 10, False),
            ],
            id="an edit of the jitter that is interrupted by a claim lets nobody else claim the entry",
        ),
        pytest.param(
            [("disable", "a"), ("interrupted", ("report_execution", "a"), [("write_score", "a", -1)])],
            id="a score that is written while an execution is reported is not taken back",
        ),
        pytest.param(
            [("write_score_of_zero", "a"), ("update_policy", "a", JITTER), CLAIM_A],
            id="a score of now stays now when the jitter is edited",
        ),
    ],
)
def test_steps_that_once_failed_pass(make_edits: MakeEdits, steps: list[Step]) -> None:
    edits = make_edits()

    for step in steps:
        edits.happens(step)

    assert edits.due("a") == edits.entries["a"].due


def test_a_run_that_was_counted_is_not_sent_again_when_its_definition_was_broken_for_some_time(
    make_app: Callable[..., Celery], client: redis.Redis
) -> None:
    app = make_app(redisbeater_lock_key=None)
    entry = save_due(app, "report")
    definition = client.hget(entry.key, "definition")
    flight = mark_in_flight(app)

    client.hset(entry.key, "definition", BROKEN)
    flight.confirm()
    client.hset(entry.key, "definition", definition)

    assert mark_in_flight(app).job.plan.runs == ()
