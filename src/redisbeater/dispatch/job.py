"""A job: the runs that one planned entry is to have now, and what is recorded of them.

Only with ``redisbeater_track_runs``. Redis is asked only for an entry that another beat has claimed and not committed,
and for an interval that counts from the end of its runs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import NamedTuple

from celery import Celery

from redisbeater.broker.publisher_confirms import Command
from redisbeater.context import Context
from redisbeater.entry import RedisScheduleEntry
from redisbeater.exceptions import InvalidEntry
from redisbeater.model.definition import Definition
from redisbeater.model.log_line import LogLine
from redisbeater.model.meta import NEW, Meta, Score
from redisbeater.model.plan import NO_RUNS, Activity, Plan, plan
from redisbeater.model.policies import Anchor, OnFinish
from redisbeater.model.resolved_policy import ResolvedPolicy
from redisbeater.model.run import FINAL, NewRun, Span, State
from redisbeater.model.skip import Reason, Skip, add_skips
from redisbeater.schedules.kind import PLANNING, broken_by_code
from redisbeater.sending.run import make_run, planned_run, task_id, task_id_at
from redisbeater.sending.template import Kept, PlainRun
from redisbeater.store import ClaimedEntry
from redisbeater.store.claim import Commitment
from redisbeater.store.snapshot import version_of


@dataclass(frozen=True, kw_only=True)
class Tracking:
    """What is needed to record the runs of a job, in an app with ``redisbeater_track_runs``.

    Attributes:
        schedule_id: the identity of the schedule.
        now: the server's time at the claim.
        sent_before: fire times whose runs an earlier claim has sent, although it was not committed: they are not sent
            again.
        version: the version of the definition by which the runs are sent.
        gives_up: the entry is disabled, and nothing is sent.
        ids: the ids of the runs that were made, by fire time: computing one takes as long as planning it.
    """

    schedule_id: str
    now: datetime
    version: str = ""
    sent_before: frozenset[datetime] = frozenset()
    gives_up: bool = False
    ids: dict[datetime, str] = field(default_factory=dict)

    def id(self, name: str, fire_time: datetime) -> str:
        """Return the id of the run of an entry at a fire time."""
        return self.ids.get(fire_time) or task_id(self.schedule_id, name, fire_time)


#: The fields of a definition that decide whether a message leaves, and which one.
DECIDES_MESSAGE = ("task", "args", "kwargs", "options", "enabled")


class EarlierRuns:
    """The earlier runs of one claimed entry.

    When a beat died, or could not know whether the broker took a run, the fire time of that run is claimed again. That
    run may be active then, and must not be in its own way.
    """

    def __init__(self, claimed: ClaimedEntry, policy: ResolvedPolicy, context: Context, schedule_id: str) -> None:
        self._claimed, self._policy = claimed, policy
        self._runs, self._schedule_id = context.redis.runs, schedule_id

    @staticmethod
    def matter(claimed: ClaimedEntry, policy: ResolvedPolicy) -> bool:
        """Return whether an entry has earlier runs that may change its plan."""
        return bool(
            claimed.active
            or claimed.buffered
            or claimed.failures
            or claimed.is_abandoned
            or policy.anchor is Anchor.EXECUTION
        )

    def plan(self, plan: Callable[[Activity, datetime], Plan], now: datetime) -> Plan:
        """Return the plan of the entry.

        If only one run may be active at a time, the fire time of a claim that was not committed is planned alone: its
        run may wait in the broker's queue, and no other may be sent beside it.

        Arguments:
            plan: returns the plan for an activity at a time.
            now: the server's time.
        """
        activity, claimed, policy = self._activity(), self._claimed, self._policy
        if claimed.is_abandoned and policy.runs_alone:
            now = min(policy.due_at(claimed.fire_time), now)
        planned = plan(activity, now)
        own = {self._id(each) for each in (claimed.fire_time, planned.handled) if each is not None}
        others = tuple(run for run in activity.active if run not in own)
        if others == activity.active:
            return planned
        without_own = plan(replace(activity, active=others), now)
        is_own = bool(without_own.runs) and self._id(without_own.runs[0]) in own.intersection(activity.active)
        return without_own if is_own else planned

    def sent_before(self, planned: Plan) -> frozenset[datetime]:
        """Return the fire times of a plan whose runs a worker has reported: they are not sent again."""
        claimed = self._claimed
        if not claimed.is_abandoned and not claimed.active:
            return frozenset()
        ids = {self._id(fire_time): fire_time for fire_time in planned.runs}
        known = {run_id for run_id in claimed.active if run_id in ids}
        if claimed.is_abandoned:
            stored = self._runs.many(list(ids))
            known.update(run_id for run_id, run in stored.items() if run.state is not State.BUFFERED)
        return frozenset(ids[run_id] for run_id in known)

    def _activity(self) -> Activity:
        claimed, policy = self._claimed, self._policy
        if not policy.runs_alone:
            return NO_RUNS
        counts_from_end = policy.anchor is Anchor.EXECUTION and not claimed.active
        finished_at = self._last_end() if counts_from_end else None
        return Activity(active=claimed.active, buffered=claimed.buffered, finished_at=finished_at)

    def _last_end(self) -> datetime | None:
        for run in self._runs.history(self._claimed.name, 1, states=FINAL):
            return run.finished_at
        return None

    def _id(self, fire_time: datetime) -> str:
        return task_id(self._schedule_id, self._claimed.name, fire_time)


#: Around what a handler of a signal may interrupt, and what the application's class of entries takes part in.
BY_CODE = broken_by_code("$")


class Job(NamedTuple):
    """One claimed entry with its plan: the runs to send and the next score to commit."""

    context: Context
    claimed: ClaimedEntry
    definition: Definition
    meta: Meta
    plan: Plan
    #: The policy by which it was planned; without one, its runs count as due at their fire times.
    policy: ResolvedPolicy | None = None
    #: Whether another program set the last run while this job was sent. Then the run is counted, and the last run
    #: stays as the other program set it.
    keeps_last_run: bool = False
    #: What is needed to record its runs; None: they are not recorded.
    tracking: Tracking | None = None
    #: The definition by which its runs were sent, where another program has changed it since.
    sent_as: Definition | None = None
    #: The commands that put its messages into the broker, with the commit; None: they have left already.
    push: tuple[Command, ...] | None = None
    #: The whole job, where more of its runs follow under the same claim.
    whole: Job | None = None
    #: The fire time of the run that was sent before those of the plan.
    previous: datetime | None = None
    #: What is remembered of its definition, as long as that is; None: it was not read for this job.
    kept: Kept | None = None
    #: What became of its runs otherwise, by fire time: the id that the task gave the message, or an empty one where the
    #: task declined. All parts of a job share it.
    sent_ids: dict[datetime, str] = {}  # noqa: RUF012  # nobody adds to this one

    @classmethod
    def planned(cls, claimed: ClaimedEntry, now: datetime, context: Context, schedule_id: str = "") -> Job:
        """Read and plan a claimed entry, and return its job.

        Raises:
            InvalidEntry: the entry is broken.
        """
        with BY_CODE:
            definition, policy, kept = context.reader.read_kept(claimed.name, claimed.definition)
            if policy.jitter:  # the reader shares one policy among all runs: each run needs engine steps of its own
                policy = policy.afresh()
            meta = Meta.from_text(claimed.meta, claimed.recorded_run)
        tracking = None
        if context.config.track_runs:
            tracking = Tracking(schedule_id=schedule_id, now=now, version=version_of(claimed.definition))
        if tracking is None:
            planned = _plan(claimed, policy, meta, now)
        else:
            planned, tracking = _plan_after_earlier_runs(claimed, definition, policy, meta, context, tracking)
        return cls(
            context=context,
            claimed=claimed,
            definition=definition,
            meta=meta,
            plan=planned,
            policy=policy,
            tracking=tracking,
            previous=meta.last_run_at,
            sent_ids={},
            kept=kept,
        )

    def plain_runs(
        self,
        schedule_id: str,
        app: Celery,
        first: int,
        end: int,
        now: datetime,
        has_template: Callable[[PlainRun], bool],
    ) -> list[PlainRun]:
        """Return the runs from number ``first`` up to ``end`` for templates, or none where they are not plain.

        A run makes its entry when that is needed; at once if it has no template.

        Raises:
            InvalidEntry: args, kwargs or options are nested too deeply to be sent.
        """
        plan, tracking, kept = self.plan, self.tracking, self.kept
        if kept is None or plan.skipped or plan.buffered is not None or self.sent_ids or self.sent_as is not None:
            return []
        runs, name = [], self.definition.name
        for number, fire_time in enumerate(plan.runs[first:end], first):
            before = plan.runs[number - 1] if number else self.previous
            previous = before if before is not None and before < fire_time else None
            text = fire_time.isoformat()
            run_id = task_id_at(schedule_id, name, text)
            if tracking is not None:
                tracking.ids[fire_time] = run_id
            make = partial(self._entry, schedule_id, app, number, now)
            due_at, is_tracked = self.due_at(fire_time), tracking is not None
            run = PlainRun(self.definition, kept, run_id, fire_time, text, previous, due_at, is_tracked, make)
            if not has_template(run):
                run.make = partial(_itself, make())
            runs.append(run)
        return runs

    def _entry(self, schedule_id: str, app: Celery, number: int, now: datetime) -> RedisScheduleEntry:
        with BY_CODE:
            return self.runs(schedule_id, app, number, number + 1, now=now)[0]

    def runs(
        self,
        schedule_id: str,
        app: Celery,
        first: int = 0,
        end: int | None = None,
        entry_class: type[RedisScheduleEntry] = RedisScheduleEntry,
        now: datetime | None = None,
    ) -> list[RedisScheduleEntry]:
        """Return an entry for each run that is due, or for those from number ``first`` up to ``end``.

        Raises:
            InvalidEntry: args, kwargs or options are nested too deeply to be sent.
        """
        fire_times, definition = self.plan.runs[first:end], self.sent_as or self.definition
        spans = self._spans()
        runs = [
            make_run(
                definition,
                fire_time,
                schedule_id=schedule_id,
                run_count=self.meta.total_run_count,
                app=app,
                entry_class=entry_class,
                due_at=self.due_at(fire_time),
                attempt=0 if self.tracking is None else 1,
                now=now,
                span=spans[fire_time],
            )
            for fire_time in fire_times
        ]
        if self.tracking is not None:
            self.tracking.ids.update((fire_time, run.options["task_id"]) for fire_time, run in zip(fire_times, runs))
        for fire_time, run in zip(fire_times, runs) if self.sent_ids else ():
            run.options["task_id"] = self.sent_ids.get(fire_time) or run.options["task_id"]
        return runs

    def note_sent(self, fire_time: datetime | None, run_id: str | None) -> None:
        """Record what became of the run of a fire time: the id that it has, or an empty one if its task declined."""
        if fire_time is not None and run_id is not None:
            self.sent_ids[fire_time] = run_id

    def settled(self) -> Job:
        """Return the job without the runs that their task declined: these are skipped."""
        declined = [each for each in self.plan.runs if self.sent_ids.get(each) == ""] if self.sent_ids else []
        if not declined:
            return self
        skip = Skip(reason=Reason.DECLINED, count=len(declined), first=declined[0], last=declined[-1])
        runs = tuple(each for each in self.plan.runs if each not in declined)
        plan = self.plan._replace(runs=runs, skipped=(*self.plan.skipped, skip))
        if plan.next.is_finished and self.definition.max_runs is not None:
            plan = plan._replace(next=self._next_of_fewer(plan))
        return self._replace(plan=plan)

    def sent_of_first(self, count: int) -> int:
        """Return how many of its first ``count`` runs were not declined."""
        return count if not self.sent_ids else sum(self.sent_ids.get(each) != "" for each in self.plan.runs[:count])

    def _next_of_fewer(self, plan: Plan) -> Score:
        """Return the next score of a plan that has fewer runs by now, so that ``max_runs`` may leave some."""
        if self.policy is None or plan.handled is None:
            return plan.next
        try:
            return self.policy.afresh().score_after(plan.handled, self.meta.total_run_count + len(plan.counted))
        except (InvalidEntry, OverflowError):  # the next claim reports it
            return Score(fire_time=plan.handled)

    def _spans(self) -> dict[datetime, Span]:
        """Return the fire times for which each of its runs stands; those that were coalesced belong to its only one."""
        buffered, coalesced = self.plan.buffered, 1
        for skip in self.plan.skipped:
            coalesced += skip.count if skip.reason is Reason.COALESCED else 0
        own = self.plan.runs if buffered is None else (*self.plan.runs, buffered.fire_time)
        return {
            fire_time: Span(before if before is not None and before < fire_time else None, coalesced)
            for before, fire_time in zip((self.previous, *own), own)
        }

    def due_at(self, fire_time: datetime) -> datetime:
        """Return when the run of a fire time is due: its jitter may delay it."""
        return self.policy.due_at(fire_time) if self.policy else fire_time

    def due_times(self, first: int = 0) -> tuple[datetime, ...]:
        """Return when its runs are due, from number ``first`` on."""
        runs = self.plan.runs[first:] if first else self.plan.runs
        return tuple(map(self.due_at, runs)) if self.policy and self.policy.jitter else runs

    def first_runs(self, count: int, *, look_at: datetime | None = None) -> Job:
        """Return the job reduced to its first ``count`` runs; the others become due again.

        Arguments:
            count: how many, at least one if there is one.
            look_at: when beat looks at the others; default: at their fire time, which may be older than what all other
                entries wait for.
        """
        if count == len(self.plan.runs):
            return self
        plan = self.plan.first_runs(count)
        return self._replace(plan=plan._replace(next=plan.next._replace(look_at=look_at)))

    def without_runs(self, *, look_at: datetime | None = None) -> Job:
        """Return the job with nothing sent: its entry becomes due again with the same fire time."""
        plan = Plan(next=Score(fire_time=self.claimed.fire_time, look_at=look_at))
        return self._replace(plan=plan, push=(), whole=None)

    def rest(self, claim: str) -> Job:
        """Return the job of the runs that follow, once the commit of this one has kept the claim as ``claim``."""
        whole, meta = self.whole or self, self._meta_after()
        skipped = tuple(skip for skip in whole.plan.skipped if skip not in self.plan.skipped)
        claimed = self.claimed._replace(
            claim=claim,
            seen=claim.rpartition(" ")[2],
            meta=meta.to_text(),
            recorded_run=meta.recorded_run,
            skipped=self._skipped_text(),
            fire_time=self.plan.next.fire_time or self.claimed.fire_time,
            is_due_now=False,
        )
        handled, previous = self.plan.handled, self.plan.runs[-1] if self.plan.runs else self.previous
        runs = tuple(each for each in whole.plan.runs if handled is None or each > handled)
        plan = whole.plan._replace(runs=runs, skipped=skipped)
        return whole._replace(claimed=claimed, meta=meta, plan=plan, previous=previous)

    def _skipped_text(self) -> str:
        return add_skips(self.claimed.skipped, self.plan.skipped) if self.plan.skipped else self.claimed.skipped

    def sends_alike(self, definition: str) -> bool:
        """Return whether another definition would send the same messages."""
        try:
            theirs, _ = self.context.reader.read(self.claimed.name, definition)
        except InvalidEntry:  # the next claim reports it
            return False
        ours = self.sent_as or self.definition
        return all(getattr(theirs, field) == getattr(ours, field) for field in DECIDES_MESSAGE)

    def commitment(self) -> Commitment:
        """Return the commitment to make once all runs of the job are sent."""
        plan, meta, gives_up = self.plan, self._meta_after(), self.gives_up
        ending = self._ending
        tracking = self.tracking
        return Commitment(
            entry=self.claimed,
            next=None if ending is OnFinish.DELETE else plan.next,
            meta="" if meta is self.meta else meta.to_text(),
            recorded_run="" if meta is self.meta else meta.recorded_run,
            definition=self._disabled() if ending is OnFinish.DISABLE or gives_up else "",
            skipped=self._skipped_text() if plan.skipped else "",
            log=self._log_lines(ending) if plan.skipped or plan.next.is_finished or gives_up else (),
            runs=() if tracking is None else self._new_runs(tracking),
            skipped_count=0 if tracking is None else sum(skip.count for skip in plan.skipped),
            span=None if self.policy is None else self.policy.finish_within,
            push=self.push or (),
            keeps_claim=self.whole is not None,
        )

    @property
    def has_left(self) -> bool:
        """Whether its runs have left before the commit, by the broker's connection or in a way of their own."""
        return bool(self.plan.runs) and not self.push

    @property
    def gives_up(self) -> bool:
        """Whether its runs have failed so often in a row that the entry is disabled, and nothing is sent."""
        return self.tracking is not None and self.tracking.gives_up

    @property
    def cancelled(self) -> tuple[str, ...]:
        """The ids of the runs that are asked to stop, because their entry has ``overlap="cancel_other"``."""
        buffered, tracking = self.plan.buffered, self.tracking
        if buffered is None or not buffered.cancels or tracking is None:
            return ()
        return (*self.claimed.active, *(self._id(fire_time, tracking) for fire_time in self.plan.runs))

    def _id(self, fire_time: datetime, tracking: Tracking) -> str:
        return self.sent_ids.get(fire_time) or tracking.id(self.claimed.name, fire_time)

    def _new_runs(self, tracking: Tracking) -> list[NewRun]:
        """Return the records of the runs that were sent, and of the one that is to wait."""
        states = [(fire_time, State.SENT) for fire_time in self.plan.runs]
        if self.plan.buffered is not None:
            states.append((self.plan.buffered.fire_time, State.BUFFERED))
        sent_as = self.sent_as or self.definition
        is_alone = self.policy is not None and self.policy.runs_alone
        options = self.context.task_options
        queue = options.routed_queue(sent_as.task, sent_as.args, sent_as.kwargs, sent_as.options) if states else ""
        spans = self._spans()
        return [
            planned_run(
                sent_as,
                fire_time,
                id=self._id(fire_time, tracking),
                now=tracking.now,
                state=state,
                version=tracking.version,
                queue=queue,
                is_alone=is_alone,
                span=spans[fire_time],
                due_at=self.due_at(fire_time),
            )
            for fire_time, state in states
        ]

    @property
    def _ending(self) -> OnFinish:
        """What happens to the entry if it has no fire time left; it is kept where only a calendar has ended."""
        return self.definition.on_finish if self.plan.next.is_finished and not self._ended_calendar else OnFinish.KEEP

    @property
    def _ended_calendar(self) -> str:
        counted = self.meta.total_run_count + len(self.plan.counted)
        is_known = self.policy is not None and self.definition.calendars
        return self.policy.ended_calendar(counted) if is_known and self.policy is not None else ""

    def _log_lines(self, ending: OnFinish) -> list[LogLine]:
        """Return the lines of the entry's log: what was skipped, and whether it has finished or is disabled."""
        lines = [skip.to_log_line() for skip in self.plan.skipped]
        if self.plan.next.is_finished:
            then, ended = "" if ending is OnFinish.KEEP else ending.value, self._ended_calendar
            lines.append(LogLine(what="finished", details={"then": then, **({"calendar": ended} if ended else {})}))
        if self.gives_up:
            note = f"{self.claimed.failures} failures in a row"
            lines.append(LogLine(what="disabled", details={"by": "redisbeater", "note": note}))
        return lines

    def bare_commitment(self) -> Commitment:
        """Return a commitment that sets the next score alone, for a job whose :meth:`commitment` cannot be computed."""
        is_deleted = self._ending is OnFinish.DELETE
        score = None if is_deleted else self.plan.next
        return Commitment(entry=self.claimed, next=score, push=self.push or (), keeps_claim=self.whole is not None)

    def _meta_after(self) -> Meta:
        """Return the meta to store; the stored one itself when nothing changes."""
        counted, buffered = self.plan.counted, self.plan.buffered
        if not counted and buffered is None:
            return self.meta.followed_by_score() if self._score_follows_last_run else self.meta
        meta = self.meta
        for fire_time in counted:
            meta = meta.after_run(fire_time)
        if buffered is not None:  # also one that replaces another, which was counted
            meta = meta.after_run(buffered.fire_time)._replace(total_run_count=meta.total_run_count)
        if self.keeps_last_run:
            return self.meta._replace(total_run_count=meta.total_run_count)
        return meta

    @property
    def _score_follows_last_run(self) -> bool:
        """Whether the next score of this interval follows from its last run, though nothing was sent."""
        is_moved = self.plan.handled is not None or self.plan.next.fire_time != self.claimed.fire_time
        return is_moved and self.definition.is_interval and not self.keeps_last_run

    def _disabled(self) -> str:
        return self.definition._replace(enabled=False).to_text(self.context.codec)

    def rebased_on(self, definition: str, meta: str, recorded_run: str = "") -> Job:
        """Return this job on top of the texts that another program stored meanwhile.

        What the other program wrote stays, and no run is lost from the count.
        """
        theirs = _meta_or_empty(meta, recorded_run)
        count = max(theirs.total_run_count, self.meta.total_run_count)
        keeps_last_run = theirs.last_run_at is not None and (
            self.keeps_last_run or theirs.last_run_at != self.meta.last_run_at
        )
        rebased = self._replace(
            claimed=self.claimed._replace(definition=definition, meta=meta, recorded_run=recorded_run, seen=""),
            meta=theirs._replace(total_run_count=count),
            keeps_last_run=keeps_last_run,
            whole=None,
        )
        return rebased._replanned(definition)

    def _replanned(self, definition: str) -> Job:
        """Return this job with the same runs, and with the next score by another definition.

        The score of a job that handled no fire time is its fire time, so that beat looks at it again.
        """
        fire_time = self.claimed.fire_time
        try:
            theirs, policy = self.context.reader.read(self.claimed.name, definition)
            score = Score.planned(fire_time, enabled=theirs.enabled)
            if self.plan.handled is not None:
                run_count = self.meta.total_run_count + len(self.plan.counted)
                score = policy.afresh().score_after(self.plan.handled, run_count)
        except (InvalidEntry, OverflowError):  # the next claim reports it
            theirs, score = self.definition._replace(on_finish=OnFinish.KEEP), self._score_of_unreadable()
        return self._replace(
            definition=theirs,
            plan=self.plan._replace(next=score),
            tracking=self.tracking and replace(self.tracking, gives_up=False),
            sent_as=self.sent_as or self.definition,
        )

    def _score_of_unreadable(self) -> Score:
        """Return a score that lets the next claim take the entry at once, but does not send this fire time again."""
        fire_time = self.claimed.fire_time
        if self.plan.handled is None:
            return Score(fire_time=fire_time)
        return self.plan.next if self.plan.next.is_finished else self.plan.next._replace(look_at=fire_time)


def _itself(entry: RedisScheduleEntry) -> RedisScheduleEntry:
    return entry


def _plan_after_earlier_runs(
    claimed: ClaimedEntry,
    definition: Definition,
    policy: ResolvedPolicy,
    meta: Meta,
    context: Context,
    tracking: Tracking,
) -> tuple[Plan, Tracking]:
    """Return the plan, as far as earlier runs of the entry allow runs, and what is needed to record its runs."""
    if not EarlierRuns.matter(claimed, policy):
        return _plan(claimed, policy, meta, tracking.now), tracking
    most = definition.disable_after_failures
    if most is not None and claimed.failures >= most:
        dormant = Plan(next=Score.planned(claimed.fire_time, enabled=False))
        return dormant, replace(tracking, gives_up=True)
    earlier = EarlierRuns(claimed, policy, context, tracking.schedule_id)
    planned = earlier.plan(lambda activity, at: _plan(claimed, policy, meta, at, activity), tracking.now)
    return planned, replace(tracking, sent_before=earlier.sent_before(planned))


def _plan(
    claimed: ClaimedEntry, policy: ResolvedPolicy, meta: Meta, now: datetime, activity: Activity = NO_RUNS
) -> Plan:
    with PLANNING:  # a handler may interrupt this too, and the next fire time lie beyond the calendar
        return plan(
            policy,
            claimed.fire_time,
            now,
            run_count=meta.total_run_count,
            meta=NEW if claimed.is_due_now else meta,
            activity=activity,
        )


def _meta_or_empty(text: str, recorded_run: str) -> Meta:
    """Read a meta, or return an empty one if it cannot be read."""
    try:
        return Meta.from_text(text, recorded_run)
    except Exception:  # whatever it is, the run that was sent must be committed
        return Meta()
