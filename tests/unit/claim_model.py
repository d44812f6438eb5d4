"""The protocol of claim, send, commit and takeover as a model, small enough that every interleaving can be tried.

It says what a beat does, step by step, what may happen between any two steps, and what must hold throughout. A step is
one script, one look at the own clock, or one message to the broker. Time comes in units: a send takes up to one, a
script takes none, and a beat that is paused takes as long as it likes. An entry is a row of fire times, each of which
is run: policies, jitter and broken entries are left out.

Where the broker is the server of the schedule, one script sends and commits. It has two paths: an entry of which only
the usual is new is written first, and its message waits for those of others; any other is sent, then written.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

#: How long a claim and the lock last, and how long a beat trusts them.
LEASE, TRUSTED, LOCK, FRESH = 4, 2, 3, 2

#: Time stands still then: the lease of a claim at the second fire time has ended.
HORIZON = 5

#: The score of an entry with nothing left to run; the token in a free lock; more steps than a healthy beat ever needs.
DORMANT, FREE, ENOUGH_STEPS = -1, -1, 100


class Guard(Enum):
    """A rule of the protocol. The model can leave out any one of them, and must then find what goes wrong."""

    CLAIM_TAKES_WHAT_IS_DUE = "claim takes only entries whose time has come"
    CLAIM_ASKS_FOR_THE_LOCK = "claim takes nothing unless the lock holds the caller's token"
    CLAIM_MOVES_THE_SCORE = "a claimed entry is out of everybody's reach while its lease lasts"
    CLAIM_COMES_UP_AGAIN = "a claimed entry stays in the schedule, at the end of its lease"
    CLAIM_KEEPS_THE_FIRE_TIME = "the fire time is stored with a score that is the end of a lease"
    CLAIM_COUNTS_NOTHING = "a run is counted when it was sent, not when it is claimed"
    LOOK_AT_THE_LEASE = "nothing is sent in the second half of a lease"
    LOOK_AT_THE_LOCK = "nothing is sent on a lock that was not renewed lately"
    SEND_UNDER_ONE_ID = "the id of a run follows from entry and fire time"
    SEND_AGAIN_UNLESS_CONFIRMED = "what the broker did not confirm is released, not committed"
    COMMIT_ASKS_FOR_THE_CLAIM = "commit writes nothing unless the entry holds the caller's claim"
    COMMIT_KEEPS_AN_EDITED_SCORE = "commit sets no score that somebody else has set since the claim"
    COMMIT_SEES_A_CHANGE = "commit plans again where definition or meta were changed since the claim"
    RELEASE_ASKS_FOR_THE_CLAIM = "release changes nothing unless the entry holds the caller's claim"
    UNDO_ASKS_FOR_THE_CLAIM = "undoing a claim changes nothing unless the entry holds the claim whose reply was lost"
    UNLOCK_ASKS_FOR_THE_TOKEN = "a beat that ends gives up no lock but its own"
    MESSAGE_NEEDS_THE_CLAIM = "in one step, no message is put in unless the entry holds the caller's claim, unchanged"
    REFUSED_IS_CLAIMED_AGAIN = "an entry that was written, and whose message is then refused, is claimed as before"
    WAITING_IS_PUT_IN_FIRST = "before anything that may fail, the messages of what was written are put in"
    EDIT_LEAVES_A_CLAIM_ALONE = "an edit that keeps the fire time sets no score while that fire time is claimed"


class Violation(AssertionError):
    """Something that must never be."""


class Entry(NamedTuple):
    """The hash of an entry, and its score. ``fires`` stands for the definition, ``count`` for the meta."""

    fires: tuple[int, ...]
    score: int
    owed: frozenset[int]  # not in Redis: the fire times that must be sent
    fire_time: int = 0
    look_at: int | None = None
    claim: int = 0
    count: int = 0
    counted: frozenset[int] = frozenset()  # not in Redis: the fire times that the count stands for

    @property
    def is_put_off(self) -> bool:
        """Whether the score is only when beat looks again: the end of a lease, or another try."""
        return self.score == self.look_at

    @property
    def due(self) -> int:
        return self.fire_time if self.is_put_off else self.score

    @property
    def texts(self) -> tuple[tuple[int, ...], int]:
        return self.fires, self.count


class Redis(NamedTuple):
    entries: tuple[Entry | None, ...]
    lock: int = FREE
    lock_until: int = 0


class Job(NamedTuple):
    """A claimed entry: which, its fire time, and its texts as they were read."""

    entry: int
    fire_time: int
    read: tuple[tuple[int, ...], int]

    @property
    def run(self) -> tuple[int, int]:
        return self.entry, self.fire_time

    @property
    def next(self) -> int:
        return min((fire for fire in self.read[0] if fire > self.fire_time), default=DORMANT)


class Beat(NamedTuple):
    """idle, claim, look, send, look, send, ... settle (commit, then release), idle."""

    token: int
    phase: str = "idle"
    fresh_until: int = 0
    trusted_until: int = 0
    claim: int = 0
    unsent: tuple[Job, ...] = ()
    done: tuple[Job, ...] = ()
    is_leaving: bool = False
    is_slow: bool = False
    is_paused: bool = False
    is_misled: bool = False  # and cannot know it: Redis has lost the lock that it still trusts

    @property
    def is_urgent(self) -> bool:
        """Whether no time may pass before its next step."""
        return not self.is_paused and (self.phase in ("claim", "look", "settle") or self.is_slow)

    def at_rest(self) -> Beat:
        return Beat(token=self.token, fresh_until=self.fresh_until, is_misled=self.is_misled)


class World(NamedTuple):
    now: int
    redis: Redis
    beats: tuple[Beat, ...]
    accidents: int = 0  # how many more of them there may be
    edits: int = 0
    replica: Redis | None = None  # Redis without its last write
    sent: frozenset[tuple[int, int, int]] = frozenset()  # what the broker has: entry, fire time, id
    excused: frozenset[tuple[int, int]] = frozenset()  # entry, fire time: something happened, it may be sent again

    def with_beat(self, number: int, beat: Beat) -> World:
        return self._replace(beats=(*self.beats[:number], beat, *self.beats[number + 1 :]))


Steps = Iterator[tuple[str, World]]


@dataclass(frozen=True, kw_only=True)
class Model:
    """The protocol for two beats and a few entries, and how much may happen to them."""

    has_lock: bool
    fires: tuple[tuple[int, ...], ...]
    accidents: int = 0
    edits: int = 0
    without: Guard | None = None
    #: Whether a script sends and commits; then the entries of which it has more to write than the usual.
    in_one_step: bool = False
    unusual: frozenset[int] = frozenset()

    def start(self) -> World:
        entries = tuple(Entry(fires=fires, score=fires[0], owed=frozenset(fires)) for fires in self.fires)
        return World(0, Redis(entries), (Beat(token=0), Beat(token=1)), self.accidents, self.edits)

    def steps(self, world: World) -> Steps:
        """All that can happen next.

        Raises:
            Violation: something happened that must not.
        """
        if world.now < HORIZON and not any(beat.is_urgent for beat in world.beats):
            yield f"it is {world.now + 1}", _later(world)
        for number, beat in enumerate(world.beats):
            if beat.is_paused:
                yield f"beat {number} goes on", world.with_beat(number, beat._replace(is_paused=False))
            else:
                yield from self._steps_of(world, number)
        if world.accidents:
            yield from self._accidents(world._replace(accidents=world.accidents - 1))
        if world.edits:
            yield from self._edits(world._replace(edits=world.edits - 1))

    def run_on(self, world: World, fine: set[World]) -> None:
        """Let all beats die and a new one run: then no fire time may be lost.

        Arguments:
            fine: worlds from which none is; the ones passed through are added.

        Raises:
            Violation: one is.
        """
        world = self._with_a_new_beat(world)
        passed: list[World] = []
        while world not in fine and any(entry and entry.score >= 0 for entry in world.redis.entries):
            _check(len(passed) < ENOUGH_STEPS, "an entry does not come to rest")
            passed.append(world)
            world = next((after for _, after in self._steps_of(world, 0)), None) or _later(world)
        sent = {(number, fire_time) for number, fire_time, _ in world.sent}
        for number, entry in enumerate(world.redis.entries):
            if entry is not None and world not in fine:
                _check({(number, fire_time) for fire_time in entry.owed} <= sent, "a fire time is lost")
                _check(entry.count == len(entry.counted), "the count is not that of the runs that were committed")
        fine.update(passed)

    def _with_a_new_beat(self, world: World) -> World:
        owed = {(number, fire) for number, entry in enumerate(world.redis.entries) if entry for fire in entry.owed}
        excused = frozenset(owed | {(number, fire) for number, fire, _ in world.sent})
        beats = (Beat(token=_new_token(world)),)
        return world._replace(beats=beats, accidents=0, edits=0, replica=None, excused=excused)

    # What a beat does

    def _steps_of(self, world: World, number: int) -> Steps:
        beat = world.beats[number]
        for what, after in getattr(self, f"_{beat.phase}")(world, number, beat):
            yield f"beat {number} {what}", after

    def _has(self, guard: Guard) -> bool:
        return guard is not self.without

    def _idle(self, world: World, number: int, beat: Beat) -> Steps:
        """Lead, as soon as something is due; what the claim brings is trusted from before it is asked for."""
        if any(self._is_due(entry, world.now) for entry in world.redis.entries):
            is_leader, world, beat = self._lead(world, beat, lock_may_be_free=True)
            if is_leader:
                trusted = beat._replace(phase="claim", trusted_until=world.now + TRUSTED)
                yield "leads", world.with_beat(number, trusted)

    def _lead(self, world: World, beat: Beat, *, lock_may_be_free: bool) -> tuple[bool, World, Beat]:
        """Whether the lock is ours: acquired, renewed, or renewed lately."""
        if not self.has_lock or world.now < beat.fresh_until:
            return True, world, beat
        if world.redis.lock != beat.token and not (lock_may_be_free and world.redis.lock == FREE):
            return False, world, beat._replace(fresh_until=0)
        renewed = world.redis._replace(lock=beat.token, lock_until=world.now + LOCK)
        return True, _written(world, renewed), beat._replace(fresh_until=world.now + FRESH, is_misled=False)

    def _claim(self, world: World, number: int, beat: Beat) -> Steps:
        """Take what is due; what a claim took whose reply was lost is given back first."""
        is_leader = not self.has_lock or world.redis.lock == beat.token
        if not is_leader and self._has(Guard.CLAIM_ASKS_FOR_THE_LOCK):
            yield "may not claim", world.with_beat(number, Beat(token=beat.token))
            return
        entries, jobs = [self._undone(entry, beat.claim) for entry in world.redis.entries], []
        claim = _new_claim(world)
        for index, entry in enumerate(entries):
            if entry is not None and self._is_due(entry, world.now):
                _check(is_leader, "a deposed leader claims")
                _check(entry.due in entry.owed, "a fire time is claimed that was not planned")
                entries[index] = self._claimed(entry, claim, world.now)
                jobs.append(Job(index, entry.due, entry.texts))
        world = _written(world, world.redis._replace(entries=tuple(entries)))
        taken = beat._replace(phase="look", claim=claim, unsent=tuple(jobs))
        yield f"claims {len(jobs)}", world.with_beat(number, taken if jobs else beat.at_rest())
        if world.accidents and jobs:
            world = world._replace(accidents=world.accidents - 1)
            yield "claims, the reply is lost", world.with_beat(number, beat._replace(claim=claim))

    def _undone(self, entry: Entry | None, lost: int) -> Entry | None:
        if entry is None or not lost or not entry.is_put_off:
            return entry
        is_ours = entry.claim == lost or not self._has(Guard.UNDO_ASKS_FOR_THE_CLAIM)
        return entry._replace(claim=0, score=entry.due) if is_ours else entry

    def _is_due(self, entry: Entry | None, now: int) -> bool:
        early = 0 if self._has(Guard.CLAIM_TAKES_WHAT_IS_DUE) else 1
        return entry is not None and 0 <= entry.score <= now + early

    def _claimed(self, entry: Entry, claim: int, now: int) -> Entry:
        lease_end = now + LEASE if self._has(Guard.CLAIM_MOVES_THE_SCORE) else now
        return entry._replace(
            claim=claim,
            score=lease_end if self._has(Guard.CLAIM_COMES_UP_AGAIN) else DORMANT,
            look_at=lease_end,
            fire_time=entry.due if self._has(Guard.CLAIM_KEEPS_THE_FIRE_TIME) else lease_end,
            count=entry.count if self._has(Guard.CLAIM_COUNTS_NOTHING) else entry.count + 1,
        )

    def _look(self, world: World, number: int, beat: Beat) -> Steps:
        """Before each send: are claim and lock still trusted?"""
        is_leader = True
        if self._has(Guard.LOOK_AT_THE_LOCK):
            is_leader, world, beat = self._lead(world, beat, lock_may_be_free=False)
        is_in_time = world.now < beat.trusted_until or not self._has(Guard.LOOK_AT_THE_LEASE)
        if is_leader and is_in_time:
            yield "may send", world.with_beat(number, beat._replace(phase="send"))
        else:
            yield "may not send", world.with_beat(number, beat._replace(phase="settle"))

    def _send(self, world: World, number: int, beat: Beat) -> Steps:
        """Send a publish batch of one run or more; the broker accepts it, refuses it, or its answer is lost."""
        beat = beat._replace(is_slow=False)
        send = self._put_in if self.in_one_step else self._send_publish_batch
        for size in range(1, len(beat.unsent) + 1):
            yield from send(world, number, beat, beat.unsent[:size])

    def _send_publish_batch(self, world: World, number: int, beat: Beat, jobs: tuple[Job, ...]) -> Steps:
        sent, runs = world, {job.run for job in jobs}
        names = " ".join(str(job.run) for job in jobs)
        for job in jobs:
            sent = self._accepted(sent, beat, job)
        rest = beat.unsent[len(jobs) :]
        after = beat._replace(phase="look" if rest else "settle", unsent=rest, done=beat.done + jobs)
        yield f"sends {names}", sent.with_beat(number, after)
        if world.accidents:
            after = beat._replace(phase="settle") if self._has(Guard.SEND_AGAIN_UNLESS_CONFIRMED) else after
            fewer = world.accidents - 1
            yield f"is refused {names}", world._replace(accidents=fewer).with_beat(number, after)
            unsure = sent._replace(accidents=fewer, excused=sent.excused | runs)
            yield f"sends {names}, the reply is lost", unsure.with_beat(number, after)

    def _put_in(self, world: World, number: int, beat: Beat, jobs: tuple[Job, ...]) -> Steps:
        """Send and commit a publish batch; the broker refuses a message, the script fails, or its answer is lost."""
        names, rest = " ".join(str(job.run) for job in jobs), beat.unsent[len(jobs) :]
        after, again = self._after_script(world, beat, jobs)
        unsent = (*again, *rest)
        yield f"puts in {names}", after.with_beat(number, self._after_send(beat, unsent))
        if world.accidents:
            world = world._replace(accidents=world.accidents - 1)
            after, _ = self._after_script(world, beat, jobs)
            yield f"puts in {names}, the reply is lost", after.with_beat(number, beat)
            settled = beat._replace(phase="settle")
            for job in jobs:
                after, _ = self._after_script(world, beat, jobs, refused=job)
                yield f"puts in {names}, {job.run} is refused", after.with_beat(number, settled)
                if job.entry in self.unusual:
                    after, _ = self._after_script(world, beat, jobs, fails_at=job)
                    yield f"puts in {names}, it fails at {job.run}", after.with_beat(number, settled)

    def _after_send(self, beat: Beat, unsent: tuple[Job, ...]) -> Beat:
        return beat._replace(phase="look", unsent=unsent) if unsent else beat.at_rest()

    def _after_script(
        self,
        world: World,
        beat: Beat,
        jobs: tuple[Job, ...],
        *,
        refused: Job | None = None,
        fails_at: Job | None = None,
    ) -> tuple[World, list[Job]]:
        """Return the world after the script, and the jobs that were changed: they are to be put in again."""
        waiting: list[tuple[Job, Entry | None]] = []
        sent, redis, changed = world, world.redis, list[Job]()

        def put_in_waiting() -> None:
            nonlocal sent, redis
            for job, before in waiting:
                if job != refused:
                    sent = self._accepted(sent, beat, job)
                elif self._has(Guard.REFUSED_IS_CLAIMED_AGAIN):
                    redis = _put(redis, job.entry, before)
            waiting.clear()

        for job in jobs:
            entry = redis.entries[job.entry]
            written, again = self._committed(redis, job, beat.claim)
            is_ours = entry is not None and entry.claim == beat.claim and not again
            if job.entry in self.unusual and self._has(Guard.WAITING_IS_PUT_IN_FIRST):
                put_in_waiting()
            if job == fails_at:
                return _written(sent, redis), changed
            changed += again
            if not is_ours and self._has(Guard.MESSAGE_NEEDS_THE_CLAIM):
                continue
            if job.entry not in self.unusual:
                waiting.append((job, entry))
            elif job == refused:
                continue
            else:
                sent = self._accepted(sent, beat, job)
            redis = _put(redis, job.entry, written.entries[job.entry])
        put_in_waiting()
        return _written(sent, redis), changed

    def _accepted(self, world: World, beat: Beat, job: Job) -> World:
        run_id = 0 if self._has(Guard.SEND_UNDER_ONE_ID) else beat.claim
        ids = {before for *run, before in world.sent if tuple(run) == job.run}
        is_leader = not self.has_lock or world.redis.lock == beat.token
        is_excused = job.run in world.excused
        _check(job.fire_time <= world.now, "a run is sent before its time")
        is_fenced = self.in_one_step  # by the claim: another leader cannot have it
        _check(is_leader or beat.is_misled or is_excused or is_fenced, "a deposed leader sends")
        _check(not ids or is_excused, "a fire time is sent twice without need")
        _check(ids <= {run_id}, "a fire time is sent under two ids")
        return world._replace(sent=world.sent | {(*job.run, run_id)})

    def _settle(self, world: World, number: int, beat: Beat) -> Steps:
        """Commit what was sent, as often as it was changed meanwhile; then release what was not."""
        if beat.done:
            redis, changed = world.redis, []
            for job in beat.done:
                redis, again = self._committed(redis, job, beat.claim)
                changed += again
            pairs = zip(world.redis.entries, redis.entries)
            _check(all(before or after is None for before, after in pairs), "a deleted entry is back")
            committed = _written(world, redis)
            yield "commits", self._settled(committed, number, beat._replace(done=tuple(changed)))
            if world.accidents and redis != world.redis:
                lost = committed._replace(accidents=world.accidents - 1)
                yield "commits, the reply is lost", lost.with_beat(number, beat)
        else:
            released = _written(world, self._released(world, beat))
            yield "releases", self._settled(released, number, beat._replace(unsent=()))

    def _committed(self, redis: Redis, job: Job, claim: int) -> tuple[Redis, list[Job]]:
        """Commit one entry. Return the job as well if the entry was changed, so that it must be committed again."""
        entry = redis.entries[job.entry]
        if self._has(Guard.COMMIT_ASKS_FOR_THE_CLAIM) and (entry is None or entry.claim != claim):
            return redis, []
        entry = entry or Entry(fires=(), score=DORMANT, owed=frozenset())
        if self._has(Guard.COMMIT_SEES_A_CHANGE) and entry.texts != job.read:
            return redis, [job._replace(read=entry.texts)]
        is_ours = entry.is_put_off or not self._has(Guard.COMMIT_KEEPS_AN_EDITED_SCORE)
        after = Entry(
            fires=entry.fires,
            score=job.next if is_ours else entry.score,
            owed=entry.owed,
            count=job.read[1] + 1 if self._has(Guard.CLAIM_COUNTS_NOTHING) else entry.count,
            counted=entry.counted | {job.fire_time},
        )
        return _put(redis, job.entry, after), []

    def _released(self, world: World, beat: Beat) -> Redis:
        """Release entries: they become due again at once, with the same fire time."""
        redis = world.redis
        for job in beat.unsent:
            entry = redis.entries[job.entry]
            if entry is not None and (entry.claim == beat.claim or not self._has(Guard.RELEASE_ASKS_FOR_THE_CLAIM)):
                at = {"score": world.now, "look_at": world.now} if entry.is_put_off else {"look_at": None}
                redis = _put(redis, job.entry, entry._replace(claim=0, **at))
        return redis

    def _settled(self, world: World, number: int, beat: Beat) -> World:
        if beat.done or beat.unsent:
            return world.with_beat(number, beat)
        return self._ended(world, number) if beat.is_leaving else world.with_beat(number, beat.at_rest())

    def _ended(self, world: World, number: int) -> World:
        """A beat gives up its lock and ends; another one is started in its place."""
        if world.redis.lock == world.beats[number].token or not self._has(Guard.UNLOCK_ASKS_FOR_THE_TOKEN):
            world = _written(world, world.redis._replace(lock=FREE, lock_until=0))
        return world.with_beat(number, Beat(token=_new_token(world, number)))

    # What may happen to beats, to Redis and to entries

    def _accidents(self, world: World) -> Steps:
        for number, beat in enumerate(world.beats):
            unsure = {job.run for job in beat.done}
            if beat.phase != "idle" or world.redis.lock == beat.token:
                crashed = world._replace(excused=world.excused | unsure)
                yield f"beat {number} crashes", crashed.with_beat(number, Beat(token=_new_token(world, number)))
            if beat.phase != "idle" and not beat.is_paused:
                is_on_its_way = beat.phase == "send" and not self.in_one_step
                looked = {job.run for job in beat.unsent} if is_on_its_way else set()
                paused = world._replace(excused=world.excused | unsure | looked)
                yield f"beat {number} is paused", paused.with_beat(number, beat._replace(is_paused=True))
            if beat.phase == "look" and not beat.is_paused:
                leaving = beat._replace(phase="settle", is_leaving=True)
                yield f"beat {number} is to end", world.with_beat(number, leaving)
            if beat.phase == "idle" and beat.fresh_until:
                yield f"beat {number} ends", self._ended(world, number)
        if world.replica is not None:
            yield "a failover loses the last write", _failed_over(world, world.replica)

    def _edits(self, world: World) -> Steps:
        for number, entry in enumerate(world.redis.entries):
            for what, edited in self._edited(entry, world.now):
                yield f"entry {number} is {what}", _written(world, _put(world.redis, number, edited))

    def _edited(self, entry: Entry | None, now: int) -> Iterator[tuple[str, Entry | None]]:
        if entry is None:
            yield "created again", Entry(fires=(now + 1,), score=now + 1, owed=frozenset({now + 1}))
            return
        later = max(now, *entry.fires, *entry.owed, 0) + 1
        moved = entry._replace(look_at=None)
        yield "deleted", None
        yield "disabled", moved._replace(fires=(), score=DORMANT, owed=frozenset())
        yield "rescheduled", moved._replace(score=later, owed=frozenset({later}))
        if entry.score >= 0:
            yield "given one more fire time", entry._replace(fires=(*entry.fires, later), owed=entry.owed | {later})
            if not (entry.claim and entry.is_put_off and self._has(Guard.EDIT_LEAVES_A_CLAIM_ALONE)):
                yield "set to the fire time it has", moved._replace(score=entry.due)


def _later(world: World) -> World:
    """One unit of time later; by then a replica has caught up."""
    now, redis = world.now + 1, world.redis
    beats = tuple(
        beat._replace(
            fresh_until=beat.fresh_until if beat.fresh_until > now else 0,
            trusted_until=beat.trusted_until if beat.trusted_until > now else 0,
            is_slow=beat.phase == "send" and not beat.is_paused,
        )
        for beat in world.beats
    )
    unlocked = redis._replace(lock=FREE, lock_until=0) if redis.lock_until <= now else redis
    return world._replace(now=now, redis=unlocked, beats=beats, replica=None)


def _written(world: World, redis: Redis) -> World:
    """Redis after a script; what it was before matters as long as it may come back."""
    if redis == world.redis:
        return world
    return world._replace(redis=redis, replica=world.redis if world.accidents else None)


def _failed_over(world: World, replica: Redis) -> World:
    pairs = enumerate(zip(world.redis.entries, replica.entries))
    unsure = {(number, before.due) for number, (after, before) in pairs if before and after != before}
    is_lock_older = world.redis[1:] != replica[1:]
    beats = tuple(beat._replace(is_misled=is_lock_older and beat.fresh_until > 0) for beat in world.beats)
    return world._replace(redis=replica, replica=None, beats=beats, excused=world.excused | unsure)


def _put(redis: Redis, number: int, entry: Entry | None) -> Redis:
    return redis._replace(entries=(*redis.entries[:number], entry, *redis.entries[number + 1 :]))


def _new_token(world: World, number: int = -1) -> int:
    """A token that nobody has: no other beat, and no lock that a beat left behind."""
    held = {beat.token for index, beat in enumerate(world.beats) if index != number}
    return _unused(held | {redis.lock for redis in (world.redis, world.replica) if redis})


def _new_claim(world: World) -> int:
    marked = {entry.claim for redis in (world.redis, world.replica) if redis for entry in redis.entries if entry}
    return _unused(marked | {beat.claim for beat in world.beats} | {0})


def _unused(numbers: set[int]) -> int:
    return next(number for number in range(len(numbers) + 1) if number not in numbers)


def _check(holds: bool, problem: str) -> None:
    if not holds:
        raise Violation(problem)
