"""The parts of a beat, and what each of them needs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from redisbeater.beat.calendar_change import CalendarChange
from redisbeater.beat.chores import Chores
from redisbeater.beat.due_runs import DueRuns
from redisbeater.beat.heartbeat import Heartbeat, Passes, ServerClock
from redisbeater.beat.incidents import IncidentWatch
from redisbeater.beat.leadership import Leadership, ScheduleLog
from redisbeater.beat.loss import Loss
from redisbeater.beat.monitor import Monitor
from redisbeater.beat.nodes import Nodes
from redisbeater.beat.notices import Notices
from redisbeater.beat.outage import Edits, Fault, Outage, Pausing
from redisbeater.beat.repair import ForeignKeys, Repair
from redisbeater.beat.unstored import Unstored
from redisbeater.beat.zone_change import ZoneChange
from redisbeater.broker.broker import Broker
from redisbeater.context import Context
from redisbeater.dispatch.dispatcher import Dispatcher
from redisbeater.dispatch.pace import ClaimLimit
from redisbeater.entry import RedisScheduleEntry
from redisbeater.sending.counts import Meter, counts_for
from redisbeater.sending.template import Templates

#: One tick waits this long at most, so that signals, ``inspect ping`` and the lock are attended to.
MAX_WAIT_SECONDS = 1.0


class BeatParts:
    """The parts of one beat. Creating them does no I/O. Probes and monitors read them from other threads.

    Arguments:
        context: the app, and its schedule.
        make_producer: kombu's ``Producer``, or what the scheduler was given instead.
        send: sends one run by Celery's own path; returns the error, or None.
        entry_class: the class of the runs.
        max_interval: seconds between two claims on an idle schedule.
        templates: makes the messages of plain runs.
    """

    def __init__(
        self,
        context: Context,
        *,
        make_producer: Callable[..., Any],
        send: Callable[[RedisScheduleEntry], Exception | None],
        entry_class: type[RedisScheduleEntry],
        max_interval: float,
        templates: Templates,
    ) -> None:
        config, redis = context.config, context.redis
        lock = None if config.lock_key is None else redis.lock()
        self.context, self.max_interval = context, max_interval
        self.max_wait = min(MAX_WAIT_SECONDS, config.lock_timeout / 3)
        self.counts = counts_for(config)
        self.passes = Passes(self.counts)
        self.log = log = ScheduleLog(redis)
        # Lead
        self.leadership = Leadership(lock, context, log)
        self.unstored = Unstored(context)
        self.foreign_keys = ForeignKeys(redis)
        self.zone_change = ZoneChange(context)
        self.calendar_change = CalendarChange(context)
        self.repair = Repair(context, self.foreign_keys)
        # Claim and dispatch
        self.broker = Broker(
            context.app,
            config.publish_timeout,
            make_producer,
            on_return=log.broker_returned,
            on_loss=log.broker_left,
            why_apart=None if config.one_commit is False else redis.why_apart,
            needs_one_step=config.one_commit is True,
        )
        self.dispatcher = Dispatcher(
            context,
            self.broker,
            self.counts,
            send=send,
            renew_lock=self.leadership.renew,
            entry_class=entry_class,
            templates=templates,
        )
        self.claim_limit = ClaimLimit(config.batch_size, self.dispatcher.pace)
        self.pausing = Pausing(log)
        self.clock = ServerClock()
        self.heartbeat = Heartbeat(context, lock, self.counts, self.broker, self.clock)
        self.heartbeat.other_rules = lambda: self.zone_change.other_rules
        self.heartbeat.messages = lambda: templates.words
        self.loss = Loss(context, log, self.heartbeat.token, self.counts)
        # After each claim, and between two
        self.due_runs = DueRuns(context, is_wanted=isinstance(self.counts, Meter))
        self.monitor = Monitor(context, self.counts)
        self.edits = Edits(context)
        self.nodes = Nodes(context, log)
        self.outage = Outage(config.retry_period, self.max_wait, log)
        self.watch = IncidentWatch(
            context,
            log,
            self.heartbeat.token,
            self.counts,
            broker_away=lambda: self.broker.away_seconds,
            is_away=lambda: self.outage.is_on,
            max_interval=max_interval,
        )
        delays = self.dispatcher.delays
        self.notices = Notices(context, self.heartbeat.token, self.counts)
        self.chores = Chores(
            self.loss,
            self.repair,
            self.monitor,
            self.edits,
            self.zone_change,
            self.calendar_change,
            self.nodes,
            delays,
            self.watch,
            self.notices,
        )
        self.notifier = redis.notifier()
        self.fault = Fault()
