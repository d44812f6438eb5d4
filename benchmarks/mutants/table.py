"""The mutants: each is one small wrong change of the engine that a user would suffer from.

Short texts stand longest: one line, or a part of one. The tests that ``first`` names are in ``tests/unit`` or
``tests/integration``, need seconds, and find the mutant without help of the others.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ("MUTANTS", "Mutant")


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """One wrong change of the source.

    Attributes:
        name: how the command calls it.
        path: the file, below ``src/redisbeater``.
        old: the text that is there exactly once.
        new: the text in its place.
        harm: what goes wrong for a user.
        first: the test files, below ``tests``, that should find it.
    """

    name: str
    path: str
    old: str
    new: str
    harm: str
    first: tuple[str, ...]


CLAIM = (
    Mutant(
        name="claim-without-lock",
        path="store/lua/claim.lua",
        old="if token ~= '' and text_at(lock) ~= token then return {'FENCED', ''} end\n",
        new="",
        harm="A beat that has lost its lock goes on claiming beside the new leader.",
        first=("integration/test_lock.py",),
    ),
    Mutant(
        name="claim-before-time",
        path="store/lua/claim.lua",
        old="redis.call('ZRANGEBYSCORE', schedule, 0, now, 'WITHSCORES', 'LIMIT', 0, limit)",
        new="redis.call('ZRANGEBYSCORE', schedule, 0, server_time(2), 'WITHSCORES', 'LIMIT', 0, limit)",
        harm="Runs leave up to two seconds before their time.",
        first=("integration/test_scheduler.py",),
    ),
    Mutant(
        name="claim-leaves-the-score",
        path="store/lua/claim.lua",
        old="  redis.call('ZADD', schedule, lease_end, entry.key)\n",
        new="",
        harm="Two beats without a lock claim the same entry, and both send its run.",
        first=("integration/test_scheduler.py",),
    ),
    Mutant(
        name="claim-forgets-the-fire-time",
        path="store/lua/claim.lua",
        old="if not is_later_look(score, entry) then",
        new="if true then",
        harm="A run that comes up again after a dead beat has another fire time, and so another id.",
        first=("integration/test_scheduler.py",),
    ),
    Mutant(
        name="claim-forgets-that-it-is-now",
        path="store/lua/claim.lua",
        old="  if entry.is_due_now then redis.call('HSET', entry.key, 'is_due_now', '1') end\n",
        new="",
        harm="An entry that a program set to 0, and whose first try fails, does not run now but at its next fire time.",
        first=("integration/test_claim_fields.py",),
    ),
    Mutant(
        name="claim-oldest-only",
        path="store/lua/claim.lua",
        old="#due < 2 * limit and 0 or newest\n",
        new="0\n",
        harm="Behind a long backlog, what has just become due waits until all of that was sent.",
        first=("integration/test_faults.py",),
    ),
    Mutant(
        name="claim-of-newer-data",
        path="store/lua/claim.lua",
        old="if newer then return {'OUTDATED', newer} end\n",
        new="",
        harm="A beat that is older than the data goes on, and writes what the newer ones cannot read.",
        first=("integration/test_data_format.py",),
    ),
    Mutant(
        name="claim-makes-another-identity",
        path="store/lua/claim.lua",
        old="redis.call('SET', id, new_id, 'NX')",
        new="redis.call('SET', id, new_id)",
        harm="Each claim has another schedule id, so that a run which is sent twice has two ids.",
        first=("integration/test_scheduler.py",),
    ),
    Mutant(
        name="undo-of-another-claim",
        path="store/lua/undo_claim.lua",
        old="if stored.claim == claim_id and is_later_look",
        new="if is_later_look",
        harm="A beat whose reply was lost gives back what another beat is sending: those runs leave twice.",
        first=("integration/test_claim_fields.py",),
    ),
    Mutant(
        name="lost-claim-is-forgotten",
        path="store/schedule.py",
        old="        self._undo_lost_claims()\n",
        new="",
        harm="When the reply to a claim is lost for good, its entries wait for the whole lease.",
        first=("integration/test_connection.py",),
    ),
)

COMMIT = (
    Mutant(
        name="commit-after-the-lease",
        path="store/lua/commit.lua",
        old="  if stored.claim ~= claim then return {fenced = true, unsure = is_retry == '1' or nil} end\n",
        new="",
        harm="A beat that was paused records its old claim over the one that another beat holds by now.",
        first=("integration/test_scheduler.py",),
    ),
    Mutant(
        name="commit-ignores-an-edit",
        path="store/lua/commit.lua",
        old="if digest(stored) == new.seen then return nil end",
        new="if true then return nil end",
        harm="What a program wrote into the meta while the run was sent is overwritten.",
        first=("integration/test_race.py",),
    ),
    Mutant(
        name="commit-takes-a-new-score-back",
        path="store/lua/commit.lua",
        old="  if is_ours and not is_kept then schedule_next(key, new) end\n",
        new="  if new.score and not is_kept then schedule_next(key, new) end\n",
        harm="An entry that was rescheduled while its run was sent runs by its old time all the same.",
        first=("integration/test_scheduler.py",),
    ),
    Mutant(
        name="commit-deletes-a-rescheduled-entry",
        path="store/lua/commit.lua",
        old="local is_deleted = is_ours and not new.score",
        new="local is_deleted = not new.score",
        harm="A one-off that was moved to a later time while it was sent is deleted, and never runs then.",
        first=("integration/test_edits_in_flight.py",),
    ),
    Mutant(
        name="commit-leaves-a-failure",
        path="store/lua/commit.lua",
        old="  if any_failing then redis.call('ZREM', failing, key) end\n",
        new="",
        harm="An entry that runs again is listed as failing, and alerts go on.",
        first=("integration/test_failing.py",),
    ),
    Mutant(
        name="commit-that-is-repeated-is-fenced",
        path="store/lua/commit.lua",
        old="  if is_retry == '1' and is_written then return {} end\n",
        new="",
        harm="A commit whose reply was lost warns of a run that may come twice, which it cannot.",
        first=("integration/test_lost_replies.py",),
    ),
    Mutant(
        name="commit-of-what-the-broker-did-not-accept",
        path="dispatch/batch.py",
        old="if accepted or not item.messages:",
        new="if True:",
        harm="Runs that the broker has not confirmed count as sent: they are lost.",
        first=("unit/test_batch.py", "integration/test_broker_outage.py"),
    ),
    Mutant(
        name="message-before-the-claim-is-checked",
        path="store/lua/commit.lua",
        old="  if answer then return next(answer) and answer end\n",
        new="  if answer and not new.push then return next(answer) and answer end\n",
        harm="A commit that is repeated, or whose entry was edited or taken, puts its message in all the same.",
        first=("integration/test_commits_with_messages.py",),
    ),
    Mutant(
        name="commit-that-is-repeated-puts-its-message-in-again",
        path="store/lua/commit.lua",
        old="if is_retry == '1' and is_written then return {} end",
        new="if is_retry == '1' and is_written then return nil end",
        harm="A commit whose reply was lost puts its message in twice.",
        first=("integration/test_commits_with_messages.py",),
    ),
    Mutant(
        name="first-runs-are-committed-without-their-claim",
        path="store/lua/commit.lua",
        old="local is_kept = is_ours and new.keep",
        new="local is_kept = false",
        harm="Another beat takes an entry that catches up between two of its commits.",
        first=("integration/test_commits_with_messages.py",),
    ),
    Mutant(
        name="proof-is-given-once",
        path="broker/connection.py",
        old="if channel is not self._channel or channel.has_disconnected or is_old:",
        new="if channel is not self._channel:",
        harm="Beat never notices that broker and schedule have become two servers, or one again.",
        first=("integration/test_one_step.py",),
    ),
    Mutant(
        name="resend-that-can-be-taken-again",
        path="store/lua/runs/with_commit.lua",
        old="  redis.call('HSET', run.key, 'state', 'SENT')\n  return nil, done",
        new="  return nil, done",
        harm="Without a right to the records of runs, a run that was lost is sent again with each lease.",
        first=("integration/test_commits_with_messages.py",),
    ),
    Mutant(
        name="message-that-is-refused-ends-the-commit",
        path="store/lua/with_commit.lua",
        old="redis.pcall(unpack(ARGV, place[1], place[2]))",
        new="redis.call(unpack(ARGV, place[1], place[2]))",
        harm="An entry with a queue that holds no list keeps those behind it from being committed.",
        first=("integration/test_commits_with_messages.py",),
    ),
    Mutant(
        name="record-behind-a-message-ends-the-commit",
        path="store/lua/commit.lua",
        old="new.push and problem_in(record, key, new, is_deleted)",
        new="new.push and record(key, new, is_deleted)",
        harm="Without the right to a command of the log, a run whose message is in the broker is sent again.",
        first=("integration/test_commits_with_messages.py",),
    ),
    Mutant(
        name="message-into-whatever-server",
        path="store/lua/with_commit.lua",
        old="if broker.why_apart then return {unproved = true} end",
        new="if false then return {unproved = true} end",
        harm="After a failover of the broker alone, messages go into the server of the schedule, where no worker is.",
        first=("integration/test_commits_with_messages.py",),
    ),
    Mutant(
        name="resend-that-another-beat-has-taken",
        path="store/lua/runs/with_commit.lua",
        old="local is_ours = run.taken == new.taken and run.attempt == new.attempt",
        new="local is_ours = true",
        harm="A lost run that another beat has taken since is sent by both.",
        first=("integration/test_one_step.py",),
    ),
    Mutant(
        name="claim-that-is-kept-is-not-known-again",
        path="store/lua/commit.lua",
        old="is_retry == '1' and stored.claim ~= claim and is_kept_by(claim_id, stored)",
        new="false",
        harm="A commit whose reply was lost while an entry catches up ends its claim, as if another beat had taken it.",
        first=("integration/test_commits_with_messages.py",),
    ),
    Mutant(
        name="rebased-count-forgets-runs",
        path="dispatch/job.py",
        old="count = max(theirs.total_run_count, self.meta.total_run_count)",
        new="count = theirs.total_run_count",
        harm="A program that writes the meta while a run is sent sets the run count back, and max_runs with it.",
        first=("unit/test_job.py", "integration/test_race.py"),
    ),
)

RELEASE = (
    Mutant(
        name="release-forgets-the-fire-time",
        path="store/lua/release.lua",
        old="    redis.call('HSET', key, 'look_at', retry_at)\n",
        new="",
        harm="A run that the broker refused gets the time of its next try as its fire time, and another id.",
        first=("integration/test_scheduler.py",),
    ),
    Mutant(
        name="release-of-another-claim",
        path="store/lua/release.lua",
        old="  if stored.claim ~= claim_id then return 'FENCED' end\n",
        new="",
        harm="A beat whose lease is over gives back what another beat is sending: those runs leave twice.",
        first=("integration/test_scheduler.py",),
    ),
    Mutant(
        name="requeue-newest-first",
        path="dispatch/batch.py",
        old="self.unsent.extendleft(reversed(entries))",
        new="self.unsent.extendleft(entries)",
        harm="After a publish batch that failed, the newest runs leave before the oldest.",
        first=("unit/test_batch.py",),
    ),
    Mutant(
        name="failing-without-delay",
        path="dispatch/publication.py",
        old="self._store.release(self._claim, [entry], delay=delay, reason=shown(reason))",
        new="self._store.release(self._claim, [entry], reason=shown(reason))",
        harm="A run that cannot be sent is tried again without a pause, and keeps beat and broker busy.",
        first=("integration/test_scheduler.py", "integration/test_unsendable_runs.py", "integration/test_failing.py"),
    ),
    Mutant(
        name="declined-run-sent",
        path="dispatch/batch.py",
        old="job = item.job.first_runs(sent, look_at=self._now).settled()",
        new="job = item.job.first_runs(sent, look_at=self._now)",
        harm="A run that its task never sent counts as sent, and with overlap blocks its entry for an hour.",
        first=("integration/test_declined_runs.py",),
    ),
    Mutant(
        name="task-ends-beat",
        path="sending/sender.py",
        old="except BaseException as exc:  # the broker, or the task's own apply_async; raised again",
        new="except Exception as exc:  # the broker, or the task's own apply_async; raised again",
        harm="sys.exit() in a task's apply_async ends beat, with an exit code by which no supervisor restarts it.",
        first=("integration/test_declined_runs.py",),
    ),
)

LOCK = (
    Mutant(
        name="unlock-of-another-beat",
        path="store/lua/unlock.lua",
        old="if text_at(lock) ~= token then return 'NOT_OWNED' end\n",
        new="",
        harm="A beat that ends releases the lock of the leader, and two lead for a moment.",
        first=("integration/test_lock.py",),
    ),
    Mutant(
        name="renewal-of-another-lock",
        path="store/lua/renew.lua",
        old="if holder ~= token then return {'HELD'",
        new="if false then return {'HELD'",
        harm="A beat that was paused past its timeout goes on as leader beside the one that took over.",
        first=("integration/test_lock.py",),
    ),
    Mutant(
        name="lock-without-end",
        path="store/lua/acquire.lua",
        old="redis.call('SET', lock, token, 'PX', timeout)",
        new="redis.call('SET', lock, token)",
        harm="When the leader is killed, no standby ever takes over.",
        first=("integration/test_lock.py",),
    ),
    Mutant(
        name="lock-taken-though-renewed",
        path="store/lua/acquire.lua",
        old="math.abs(ends_at - tonumber(seen_end)) > 0.1 then",
        new="false then",
        harm="A standby takes the lock from a leader that has renewed it since the standby looked.",
        first=("integration/test_abandoned_lock.py",),
    ),
    Mutant(
        name="lock-trusted-from-the-reply-on",
        path="store/lock.py",
        old='self._asked_at = asked_at if outcome in ("ACQUIRED", "RENEWED")',
        new='self._asked_at = host_seconds() if outcome in ("ACQUIRED", "RENEWED")',
        harm="After a slow reply a beat trusts its lock, and sends, while another one leads already.",
        first=("integration/test_lock.py",),
    ),
    Mutant(
        name="lock-renewed-too-late",
        path="store/lock.py",
        old="RENEWALS_PER_TIMEOUT = 3",
        new="RENEWALS_PER_TIMEOUT = 0.9",
        harm="The leader renews its lock only after it has ended, and standbys take it from a healthy beat.",
        first=("integration/test_lock.py",),
    ),
    Mutant(
        name="lost-lock-is-no-exit",
        path="beat/leadership.py",
        old='if lock_lost == "exit":',
        new="if False:",
        harm="A beat that lost its lock does not end as redisbeater_lock_lost says, and its supervisor sees nothing.",
        first=("integration/test_lock.py",),
    ),
    Mutant(
        name="send-without-renewal",
        path="dispatch/dispatcher.py",
        old="return host_seconds() < self.claim.trusted_until and self._resources.renew_lock()",
        new="return host_seconds() < self.claim.trusted_until",
        harm="A leader that loses its lock in a long batch sends the rest beside the new leader.",
        first=("integration/test_lock.py",),
    ),
    Mutant(
        name="send-on-an-old-lease",
        path="dispatch/dispatcher.py",
        old="return host_seconds() < self.claim.trusted_until and self._resources.renew_lock()",
        new="return self._resources.renew_lock()",
        harm="A slow batch is sent past the end of its lease, while another beat sends the same entries.",
        first=("integration/test_lease.py",),
    ),
    Mutant(
        name="lease-trusted-from-the-reply-on",
        path="store/schedule.py",
        old="trusted_until=asked_at + lease * TRUSTED_SHARE,",
        new="trusted_until=host_seconds() + lease * TRUSTED_SHARE,",
        harm="After a slow reply a beat sends on a lease that is about to end.",
        first=("integration/test_lease.py",),
    ),
)

PLAN = (
    Mutant(
        name="grace-from-the-fire-time",
        path="model/plan.py",
        old="if policy.due_at(newest) < earliest:",
        new="if newest < earliest:",
        harm="A run that only its jitter has delayed is skipped as missed.",
        first=("unit/test_plan.py",),
    ),
    Mutant(
        name="coalesce-to-the-wrong-end",
        path="model/plan.py",
        old="return (newest,), (_skip_before(Reason.COALESCED",
        new="return (oldest,), (_skip_before(Reason.COALESCED",
        harm="After an outage coalesce='latest' runs the oldest fire time instead of the newest.",
        first=("unit/test_plan.py",),
    ),
    Mutant(
        name="left-out-in-silence",
        path="model/plan.py",
        old="return runs, () if runs[0] == oldest else (_skip_before(Reason.LEFT_OUT, oldest, runs[0], policy),)",
        new="return runs, ()",
        harm="Fire times beyond the hundred that catch up are dropped, and nothing says so.",
        first=("unit/test_plan.py",),
    ),
    Mutant(
        name="one-run-too-many",
        path="model/plan.py",
        old="max(policy.max_runs - run_count, 0)",
        new="max(policy.max_runs - run_count + 1, 0)",
        harm="An entry that catches up has one run more than max_runs.",
        first=("unit/test_plan.py",),
    ),
    Mutant(
        name="jitter-does-not-delay",
        path="model/plan.py",
        old="    if policy.due_at(newest) <= now:\n        return newest\n",
        new="    if newest <= now:\n        return newest\n",
        harm="Entries with jitter all run at once at their fire times.",
        first=("unit/test_plan.py",),
    ),
    Mutant(
        name="jitter-past-the-next-fire-time",
        path="model/resolved_policy.py",
        old="self.jitter if following is None else min(self.jitter, following - fire_time)",
        new="self.jitter",
        harm="A jitter longer than the interval delays a run past the next one, and the runs change places.",
        first=("unit/test_resolved_policy.py",),
    ),
    Mutant(
        name="overlap-skip-runs-beside-another",
        path="model/plan.py",
        old="sent = () if activity.active else runs[:1]",
        new="sent = runs[:1]",
        harm="overlap='skip' starts a run while the one before it is still going.",
        first=("unit/test_overlap.py",),
    ),
    Mutant(
        name="overlap-buffers-two",
        path="model/plan.py",
        old="(overlap is Overlap.BUFFER_ONE and not activity.buffered)",
        new="overlap is Overlap.BUFFER_ONE",
        harm="overlap='buffer_one' replaces the run that waits each time, so that the oldest never comes.",
        first=("unit/test_overlap.py",),
    ),
    Mutant(
        name="end-at-is-left-out",
        path="schedules/timetable.py",
        old="return self.end_at is not None and instant > self.end_at",
        new="return self.end_at is not None and instant >= self.end_at",
        harm="The last run, exactly at end_at, never comes.",
        first=("unit/test_timetable.py",),
    ),
    Mutant(
        name="interval-drifts",
        path="schedules/timetable.py",
        old="(until - fire_time) // self.period * self.period if until",
        new="(until - fire_time) if until",
        harm="An interval that beat was late for goes on from that moment, and drifts.",
        first=("unit/test_interval.py", "unit/test_timetable.py"),
    ),
    Mutant(
        name="repeated-hour-fires-twice",
        path="schedules/crontab.py",
        old="return shift.at if slots.is_repeating else max(shift.at, shift.at + repeated)",
        new="return shift.at",
        harm="When the clocks go back, a daily run at half past two leaves twice.",
        first=("unit/test_crontab.py",),
    ),
    Mutant(
        name="skipped-hour-fires-never",
        path="schedules/crontab.py",
        old="if shift.at >= earliest and _has_moved_slots(slots, shift):",
        new="if False:",
        harm="When the clocks go forward, a daily run at half past two is lost on that day.",
        first=("unit/test_crontab.py",),
    ),
    Mutant(
        name="weekday-off-by-one",
        path="schedules/crontab.py",
        old="day.isoweekday() % 7 in schedule.day_of_week",
        new="day.weekday() in schedule.day_of_week",
        harm="Crontabs with a day of the week run a day too late.",
        first=("unit/test_crontab.py",),
    ),
    Mutant(
        name="disabled-until-is-forgotten",
        path="model/resolved_policy.py",
        old="return self.score_at(self.resumed(self.timetable.next(fire_time)), run_count)",
        new="return self.score_at(self.timetable.next(fire_time), run_count)",
        harm="Beat wakes for each fire time of an entry that is disabled until a day, and counts it as skipped.",
        first=("unit/test_resolved_policy.py",),
    ),
)

EDITS = (
    Mutant(
        name="writers-overwrite-each-other",
        path="store/lua/save.lua",
        old="  if digest(stored) ~= (change.seen or '') then return 'CONFLICT' end\n",
        new="",
        harm="Of two programs that edit an entry at once, one loses its edit, and neither is told.",
        first=("integration/test_entry.py",),
    ),
    Mutant(
        name="edit-takes-a-score-back",
        path="store/lua/save.lua",
        old="if planned ~= change.planned or stored.claim",
        new="if stored.claim",
        harm="An entry that a program sets to 0 while another one edits it does not run now.",
        first=("integration/test_race.py",),
    ),
    Mutant(
        name="save-wakes-nobody",
        path="store/lua/save.lua",
        old="if #unwritten < #rows then redis.call('PUBLISH', channel, message) end\n",
        new="",
        harm="A change takes effect at the next poll, seconds later.",
        first=("integration/test_notifier.py",),
    ),
    Mutant(
        name="edited-in-flight-runs-again",
        path="dispatch/job.py",
        old="            if self.plan.handled is not None:\n",
        new="            if False:\n",
        harm="An entry whose definition another program writes while its run is sent runs for that fire time again.",
        first=("integration/test_edits_in_flight.py",),
    ),
    Mutant(
        name="deleted-in-flight-comes-back",
        path="dispatch/job.py",
        old="next=None if ending is OnFinish.DELETE else plan.next,",
        new="next=plan.next,",
        harm="Entries with on_finish='delete' stay for ever.",
        first=("integration/test_policies_on_redis.py",),
    ),
)

SECRETS = (
    Mutant(
        name="secrets-in-lists",
        path="redaction.py",
        old="        return [redacted(item, patterns, in_texts=in_texts) for item in value]",
        new="        return value",
        harm="A password in an object in a list is shown on the page and in the terminal.",
        first=("unit/test_redaction.py",),
    ),
    Mutant(
        name="secrets-in-capitals",
        path="redaction.py",
        old="_SEPARATOR.sub('_', key).lower()",
        new="_SEPARATOR.sub('_', key)",
        harm="The value of API_KEY is shown, because its name is written in capitals.",
        first=("unit/test_redaction.py",),
    ),
    Mutant(
        name="blank-replaces-the-secret",
        path="management/blanking.py",
        old="if item == BLANK and names_secret(str(key), patterns):",
        new="if False:",
        harm="Who edits an entry on the page stores *** instead of its password, and its runs fail.",
        first=("integration/test_mistakes_of_operators.py",),
    ),
)

PAGE = (
    Mutant(
        name="page-without-rights",
        path="dashboard/access.py",
        old="if action.right not in user.rights:",
        new="if False:",
        harm="Who may only look at the page can delete entries.",
        first=("integration/test_web_defences.py",),
    ),
    Mutant(
        name="redirect-leaves-the-site",
        path="dashboard/access.py",
        old='not target.startswith(("//", "/\\\\"))',
        new='not target.startswith("//")',
        harm="A link to the login page sends people on to a site of somebody else.",
        first=("integration/test_web_defences.py",),
    ),
    Mutant(
        name="form-of-another-site",
        path="dashboard/defences.py",
        old='return "" if site == "same-origin" else f"another site',
        new='return "" if site != "cross-site" else f"another site',
        harm="A page on another host of the same domain can change the schedule of who looks at it.",
        first=("integration/test_web_defences.py",),
    ),
    Mutant(
        name="rights-of-a-longer-name",
        path="dashboard/auth.py",
        old="re.fullmatch(pattern, name)",
        new="re.match(pattern, name)",
        harm="Who is called anna2 has the rights of anna.",
        first=("integration/test_web_defences.py",),
    ),
    Mutant(
        name="passwords-are-tried-without-end",
        path="dashboard/access.py",
        old="            site.attempts.failed(who, address)\n",
        new="            pass\n",
        harm="Passwords can be tried out as fast as the page answers.",
        first=("integration/test_web_defences.py",),
    ),
    Mutant(
        name="session-without-end",
        path="dashboard/sessions.py",
        old="return session if time.time() < session.until else None",
        new="return session",
        harm="A cookie that was stolen once lets in for ever.",
        first=("integration/test_web_attacks.py",),
    ),
)

IDS = (
    Mutant(
        name="random-task-id",
        path="sending/run.py",
        old='return str(uuid.uuid5(_namespace(schedule_id), f"{name}@{fire_time.isoformat()}"))',
        new="return str(uuid.uuid4())",
        harm="A run that is sent twice cannot be recognised.",
        first=("unit/test_run.py", "integration/test_scheduler.py"),
    ),
    Mutant(
        name="task-id-of-the-time-alone",
        path="sending/run.py",
        old='f"{name}@{fire_time.isoformat()}"',
        new="fire_time.isoformat()",
        harm="Entries that are due in the same second share an id, and result backends mix them up.",
        first=("integration/test_scheduler.py", "unit/test_run.py"),
    ),
)

STATIC = (
    Mutant(
        name="restart-undoes-operators",
        path="beat/statics.py",
        old="if name not in theirs and each.origin != origins[name]}",
        new="if name not in theirs}",
        harm="Each restart of beat undoes what operators changed of static entries.",
        first=("integration/test_statics.py",),
    ),
    Mutant(
        name="statics-of-others-are-deleted",
        path="beat/statics.py",
        old="    if origin is not None and not _is_ours(context, origin):\n        return\n",
        new="",
        harm="The beat of one application deletes the static entries of another.",
        first=("integration/test_statics.py",),
    ),
    Mutant(
        name="statics-take-names",
        path="beat/statics.py",
        old="return origin is not None and not _is_ours(context, origin) and not is_unclaimed",
        new="return False",
        harm="A static entry overwrites a dynamic one that has its name.",
        first=("integration/test_statics.py",),
    ),
)

QUARANTINE = (
    Mutant(
        name="broken-entry-comes-back",
        path="store/lua/quarantine.lua",
        old="  redis.call('ZADD', schedule, instant(stored.fire_time) and '-' .. stored.fire_time or '-1', entry)\n",
        new="",
        harm="A broken entry comes up at the end of each lease, is logged and alerted each time.",
        first=("integration/test_broken.py",),
    ),
    Mutant(
        name="repaired-entry-is-quarantined",
        path="store/lua/quarantine.lua",
        old="if is_edited(entry, new.definition) then",
        new="if false then",
        harm="An entry that is repaired while beat reads the broken one is quarantined all the same.",
        first=("integration/test_broken.py",),
    ),
    Mutant(
        name="one-broken-entry-stops-all",
        path="schedules/kind.py",
        old="if error is not None and not isinstance(error, InvalidEntry):",
        new="if False:",
        harm="A custom schedule that raises an error keeps all other entries from running.",
        first=("integration/test_broken.py",),
    ),
)

PAUSE = (
    Mutant(
        name="claim-while-paused",
        path="store/lua/claim.lua",
        old="if text_at(pause) then return {'PAUSED', tostring(redis.call('PTTL', pause))} end\n",
        new="",
        harm="A paused schedule goes on sending.",
        first=("integration/test_heartbeat.py",),
    ),
    Mutant(
        name="pause-without-end",
        path="store/lua/pause.lua",
        old="if left ~= '0' then redis.call('PEXPIRE', pause, left) end\n",
        new="",
        harm="A pause until a time never ends.",
        first=("integration/test_heartbeat.py",),
    ),
    Mutant(
        name="resume-wakes-nobody",
        path="store/lua/resume.lua",
        old="redis.call('PUBLISH', channel, message)\n",
        new="",
        harm="After a resume beat sends nothing until its next poll.",
        first=("integration/test_heartbeat.py",),
    ),
    Mutant(
        name="resend-while-paused",
        path="store/lua/runs/take.lua",
        old="local due = text_at(pause) and {} or try(",
        new="local due = try(",
        harm="While the schedule is paused, buffered and lost runs are sent.",
        first=("integration/test_run_transitions.py",),
    ),
)

RUNS = (
    Mutant(
        name="lost-run-fails-twice",
        path="store/lua/runs/finish.lua",
        old="state == 'FAILURE' and not run.counted",
        new="state == 'FAILURE'",
        harm="A lost run that fails when it is sent again counts as two failures, and its entry is disabled too soon.",
        first=("integration/test_twice_lost_runs.py",),
    ),
    Mutant(
        name="once-task-runs-twice",
        path="store/lua/runs/start.lua",
        old="tonumber(attempt) < attempts or CLOSED[run.state] then",
        new="tonumber(attempt) < attempts then",
        harm="A OnceTask whose message the broker gives out again after its success is executed again.",
        first=("integration/test_run_transitions.py",),
    ),
    Mutant(
        name="two-executions-hold-a-run",
        path="store/lua/runs/renew.lua",
        old="if run.holder ~= holder or run.state == 'SENT'",
        new="if run.state == 'SENT'",
        harm="An execution that was thought dead goes on beside the one that replaced it.",
        first=("integration/test_run_transitions.py",),
    ),
    Mutant(
        name="living-run-is-lost",
        path="store/lua/runs/lose.lua",
        old="seen ~= '' and score == seen or",
        new="seen ~= '' or",
        harm="A run whose worker renewed its lease at the last moment is recorded as lost, and sent again.",
        first=("integration/test_run_transitions.py",),
    ),
    Mutant(
        name="history-without-cap",
        path="store/lua/runs/prelude.lua",
        old="  if excess > 0 then remove_ended(prefix, index, excess, buffered) end\n",
        new="",
        harm="The records of runs fill the memory of Redis.",
        first=("integration/test_run_transitions.py",),
    ),
    Mutant(
        name="buffered-run-is-never-sent",
        path="store/lua/runs/prelude.lua",
        old="  if stored and stored.buffered then release_buffered(prefix, run.name, false, stored.buffered) end\n",
        new="",
        harm="A run that waits for the end of the one before it is never sent.",
        first=("integration/test_run_transitions.py",),
    ),
    Mutant(
        name="requeue-with-the-old-attempt",
        path="store/lua/runs/lose.lua",
        old="'attempt', run.attempt + 1, 'finished_at'",
        new="'attempt', run.attempt, 'finished_at'",
        harm="A lost run is sent again as the same attempt, so that the worker that came back writes over it.",
        first=("integration/test_run_transitions.py",),
    ),
    Mutant(
        name="started-run-waits-for-ever",
        path="store/lua/runs/prelude.lua",
        old="  if run and run.state == 'SENT' then try('ZREM', prefix .. ':waiting', run.key) end\n",
        new="",
        harm="Runs that workers execute, or have ended, count as runs that nobody starts.",
        first=("integration/test_results_of_entries.py",),
    ),
    Mutant(
        name="late-report-is-the-result",
        path="store/lua/runs/prelude.lua",
        old="if tonumber(at) < last_at and last_at <= tonumber(server_time()) then",
        new="if false then",
        harm="A run that ended long ago and is reported late decides whether its entry is shown as failed.",
        first=("integration/test_results_of_entries.py",),
    ),
    Mutant(
        name="gone-entry-stays-failed",
        path="store/lua/mend_lists.lua",
        old="  list_problem(schedule, key, is_entry and read(key, 'ends').ends)\n",
        new="",
        harm="An entry that another program has deleted counts as failed for ever.",
        first=("integration/test_results_of_entries.py",),
    ),
)

#: All of them, in the order in which a run passes what they break.
MUTANTS = (
    *CLAIM,
    *COMMIT,
    *RELEASE,
    *LOCK,
    *PLAN,
    *EDITS,
    *SECRETS,
    *PAGE,
    *IDS,
    *STATIC,
    *QUARANTINE,
    *PAUSE,
    *RUNS,
)
