"""What beat does with runs that are recorded: overlap, buffered and lost runs, deadlines, failures, its own death."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest
import redis
from celery import Celery
from edit_ledger import ServerClock, scripts_by_the_clock_at
from outbox import Sent, run_due, take
from run_site import TRACKED, RunSite, execute, runs_of
from support.signals import end_process

from redisbeater import EntryNotFound, InvalidEntry, RedisScheduleEntry, RedisScheduler, ScheduleStore
from redisbeater.beat.monitor import PAGE
from redisbeater.management.runs.history import lateness
from redisbeater.results import State

#: Seconds of the lease of a run, longer than what lies between two fire times in most tests.
LEASE = 300


class BeatSite(RunSite):
    """The same, with a beat that a test drives by hand, whose lease of 30 seconds no test reaches by accident."""

    scheduler: RedisScheduler
    let_pass: Callable[[float], None]

    def save(self, name: str = "report", every: float = 60.0, **fields: Any) -> None:
        """Store an entry whose first fire time is the next one, a minute from now."""
        RedisScheduleEntry(name, "proj.work", every, app=self.app, **fields).save()

    def after(self, seconds: int, beat: RedisScheduler | None = None) -> list[Sent]:
        """Let time pass, and let a beat do what is due then; return what it has sent."""
        self.clock.go_on(seconds)
        return run_due(beat or self.scheduler)

    def monitor(self, seconds: int) -> list[Sent]:
        """Let time pass, also for the beat, which looks for lost runs, and let it do what is due then."""
        self.clock.go_on(seconds)
        self.let_pass(LEASE / 4)
        return run_due(self.scheduler)

    def skipped(self, name: str = "report") -> dict[str, int]:
        return {reason: each.count for reason, each in ScheduleStore(self.app).get(name).skipped.items()}


@pytest.fixture
def make_site(
    make_app: Callable[..., Celery], make_scheduler: Callable[..., RedisScheduler], client: redis.Redis, prefix: str,
    let_pass: Callable[[float], None],
) -> Iterator[Callable[..., BeatSite]]:  # fmt: skip
    """Make a schedule whose runs are tracked, with a beat, at a time that the test sets."""
    with scripts_by_the_clock_at(client, f"{prefix}:answer:clock"):

        def make(**settings: Any) -> BeatSite:
            app = make_app(**{**TRACKED, "redisbeater_run_timeout": LEASE, "result_expires": None, **settings})
            site = BeatSite(app, client, ServerClock(client, f"{prefix}:answer:clock"))
            site.scheduler, site.let_pass = make_scheduler(app), let_pass
            return site

        yield make


@pytest.fixture
def site(make_site: Callable[..., BeatSite]) -> BeatSite:
    return make_site()


# overlap


def test_a_fire_time_is_skipped_while_a_run_is_active_and_the_log_names_it(site: BeatSite) -> None:
    site.save(overlap="skip")
    (first,) = site.after(60)
    site.start(first.id)

    assert site.after(60) == []
    assert site.skipped() == {"overlap": 1}
    lines = site.store.log.of_entry("report", 5)
    assert lines[0].details == {"reason": "overlap", "run": first.id}

    site.finish(first.id)
    (third,) = site.after(60)
    assert third.fire_time == first.fire_time + timedelta(seconds=120)


def test_a_run_that_nobody_has_started_is_active_until_its_time_in_the_queue_is_over(
    make_site: Callable[..., BeatSite],
) -> None:
    site = make_site(redisbeater_run_queue_timeout=150)
    site.save(overlap="skip")
    (first,) = site.after(60)
    assert site.after(60) == []

    (next_one,) = site.monitor(120)
    assert next_one.id != first.id
    assert site.state(first.id) is State.LOST


def test_a_buffered_run_is_sent_the_moment_the_other_ends_and_later_ones_are_skipped(site: BeatSite) -> None:
    site.save(overlap="buffer_one")
    (first,) = site.after(60)
    site.start(first.id)
    assert site.after(60) == site.after(60) == []
    assert site.skipped() == {"overlap": 1}

    site.finish(first.id)
    (second,) = site.after(1)

    assert second.fire_time == first.fire_time + timedelta(seconds=60)
    assert second.headers["redisbeater_attempt"] == 1
    assert site.state(second.id) is State.SENT
    assert ScheduleStore(site.app).get("report").total_run_count == 2


@pytest.mark.parametrize("has_own_id", [False, True], ids=["nothing published", "another id"])
def test_a_buffered_run_that_is_not_sent_as_itself_ends_at_once_and_blocks_nothing(
    site: BeatSite, monkeypatch: pytest.MonkeyPatch, has_own_id: bool
) -> None:
    site.save(overlap="buffer_one")
    (first,) = site.after(60)
    site.start(first.id)
    assert site.after(60) == []
    [buffered] = runs_of(site.client, site.keys) - {first.id}
    send = site.scheduler.apply_async

    def otherwise(entry: Any, **options: Any) -> Any:
        entry.options["task_id"] = "own"
        return send(entry, **options) if has_own_id else None

    site.finish(first.id)
    with monkeypatch.context() as patch:
        patch.setattr(site.scheduler, "apply_async", otherwise)
        sent = site.after(1)

    assert [run.id for run in sent] == ["own"] * has_own_id
    ended = site.runs.run(buffered)
    assert ended
    assert (ended.state, ended.error) == (
        State.LOST,
        "sent as own" if has_own_id else "declined: its apply_async published nothing",
    )
    assert len(site.after(60)) == 1


def test_a_buffered_run_is_sent_after_its_entry_has_deleted_itself(site: BeatSite) -> None:
    site.save(overlap="buffer_one", max_runs=2, on_finish="delete")
    (first,) = site.after(60)
    site.start(first.id)
    assert site.after(60) == []
    with pytest.raises(EntryNotFound):
        ScheduleStore(site.app).get("report")

    site.finish(first.id)
    (second,) = site.after(6)
    assert second.fire_time == first.fire_time + timedelta(seconds=60)


def test_the_other_run_is_asked_to_stop_and_the_newest_waits_for_its_end(site: BeatSite) -> None:
    site.save(overlap="cancel_other")
    (first,) = site.after(60)
    site.start(first.id)
    assert site.after(60) == site.after(60) == []

    stopping = site.runs.run(first.id)
    assert stopping
    assert stopping.is_to_stop
    assert site.runs.counts("report").buffered
    assert ScheduleStore(site.app).get("report").total_run_count == 2

    site.finish(first.id, State.REVOKED)
    (last,) = site.after(1)
    assert last.fire_time == first.fire_time + timedelta(seconds=120)
    assert len(site.runs.history("report")) == 2  # the one that was replaced is forgotten


@pytest.mark.parametrize("overlap", ["skip", "buffer_one", "cancel_other"])
def test_of_all_fire_times_that_passed_one_is_sent(site: BeatSite, overlap: str) -> None:
    site.save(overlap=overlap, coalesce="all")

    sent = site.after(300)

    assert [run.fire_time for run in sent] == [sent[0].fire_time]
    assert len(site.active()) == 1
    assert site.skipped()["overlap"] == (4 if overlap == "skip" else 3)


def test_an_edit_of_the_overlap_holds_at_once(site: BeatSite) -> None:
    site.save()
    (first,) = site.after(60)
    site.start(first.id)
    ScheduleStore(site.app).update("report", overlap="skip")

    assert site.after(60) == []


def test_two_beats_without_a_lock_never_have_two_runs_active(
    site: BeatSite, make_scheduler: Callable[..., RedisScheduler]
) -> None:
    site.save(overlap="skip", every=10.0)
    beats = [site.scheduler, make_scheduler(site.app)]
    most, sent = 0, 0
    for number in range(12):
        site.clock.go_on(10)
        for beat in beats:
            for run in run_due(beat):
                sent += 1
                site.start(run.id)
                most = max(most, len(site.active()))
        if number % 3 == 2:
            for run_id in site.active():
                site.finish(run_id)

    assert (most, sent) == (1, 4)


# lost runs


def test_the_run_of_a_dead_worker_is_sent_again_with_its_id_and_the_next_attempt(
    site: BeatSite, caplog: pytest.LogCaptureFixture
) -> None:
    site.save(every=100_000.0, requeue_lost=1, args=[1], options={"headers": {"tenant": "x"}})
    (first,) = site.after(100_000)
    site.start(first.id, worker="celery@w1")

    with caplog.at_level(logging.INFO):
        assert site.monitor(LEASE - 1) == []
        assert site.monitor(2) == []
        (again,) = site.after(10)

    assert (again.id, again.args, again.task) == (first.id, [1], "proj.work")
    assert again.headers["redisbeater_attempt"] == 2
    assert {**again.headers, "redisbeater_attempt": 1} == first.headers
    assert site.state(first.id) is State.SENT
    assert "its worker celery@w1 does not renew it; sent again as attempt 2" in caplog.text

    site.start(first.id, "w2:1:b", attempt=2)
    assert site.monitor(LEASE + 1) == site.after(300) == []
    assert site.state(first.id) is State.LOST


def test_beat_waits_for_nothing_while_lost_runs_are_left(site: BeatSite) -> None:
    for number in range(PAGE + 20):
        site.save(f"report-{number}", every=3600.0)
    sent = site.after(3600)
    for run in sent:
        site.start(run.id, name=run.name)

    assert site.monitor(LEASE + 1) == []
    assert {site.state(run.id) for run in sent} == {State.LOST}
    assert len(sent) == PAGE + 20


def test_a_dead_worker_blocks_its_entry_no_longer_than_its_lease(site: BeatSite) -> None:
    site.save(overlap="skip", every=100.0)
    (first,) = site.after(100)
    site.start(first.id)
    assert site.after(100) == site.after(100) == []

    (second,) = site.monitor(100)

    assert site.state(first.id) is State.LOST
    assert second.id != first.id


@pytest.mark.parametrize("fields", [{"overlap": "skip"}, {"overlap": "buffer_one"}, {"anchor": "execution"}], ids=str)
def test_a_lost_run_waits_while_a_later_one_is_active(site: BeatSite, fields: dict[str, Any]) -> None:
    site.save(requeue_lost=3, every=200.0, **fields)
    (first,) = site.after(200)
    site.start(first.id)
    site.after(200)
    site.clock.go_on(LEASE - 200)  # its lease is over, and no monitor has looked since

    (second,) = site.after(100)
    site.start(second.id, "w2:1:b")
    assert site.monitor(1) == []
    assert site.state(first.id) is State.LOST
    assert [run.id for run in site.after(90)] == []

    site.finish(second.id, holder="w2:1:b")
    assert [run.id for run in site.after(10)] == [first.id]


def test_a_lost_run_that_a_person_triggered_waits_as_well(site: BeatSite) -> None:
    site.save(requeue_lost=3, every=200.0, overlap="skip")
    triggered = ScheduleStore(site.app).trigger("report")
    take(site.app)
    site.start(triggered)
    site.clock.go_on(LEASE)  # its lease is over, and no monitor has looked since

    (second,) = site.after(100)
    site.start(second.id, "w2:1:b")
    site.monitor(1)
    assert site.state(triggered) is State.LOST
    assert site.after(90) == []

    site.finish(second.id, holder="w2:1:b")
    assert [run.id for run in site.after(10)] == [triggered]


def test_a_step_of_redis_clock_leaves_a_worker_the_time_to_renew_its_lease(site: BeatSite) -> None:
    site.save(every=100_000.0, requeue_lost=1)
    (run,) = site.after(100_000)
    site.start(run.id)

    assert site.monitor(LEASE + 3600) == []
    assert site.state(run.id) is State.LOST
    assert site.after(LEASE // 4) == []  # by then a worker that is alive renews
    site.runs.renew({run.id: "w1:1:a"})

    assert site.state(run.id) is State.STARTED
    assert site.after(60) == []


def test_a_worker_that_was_slow_to_renew_keeps_its_run(site: BeatSite) -> None:
    site.save(every=100_000.0, requeue_lost=3)
    (first,) = site.after(100_000)
    site.start(first.id)
    site.clock.go_on(LEASE - 1)
    site.runs.renew({first.id: "w1:1:a"})

    assert site.monitor(LEASE - 1) == []
    assert site.state(first.id) is State.STARTED


def test_a_lost_run_is_not_sent_while_the_schedule_is_paused(site: BeatSite) -> None:
    site.save(every=100_000.0, requeue_lost=1)
    (first,) = site.after(100_000)
    site.start(first.id)
    site.monitor(LEASE + 1)
    ScheduleStore(site.app).pause()

    assert site.after(60) == []
    ScheduleStore(site.app).resume()
    assert [run.id for run in site.after(1)] == [first.id]


def test_a_damaged_record_is_given_up_and_does_not_hold_up_others(
    site: BeatSite, caplog: pytest.LogCaptureFixture
) -> None:
    site.save("a", every=100_000.0, requeue_lost=1)
    site.save("b", every=100_000.0, requeue_lost=1)
    first, second = site.after(100_000)
    for run in (first, second):
        site.start(run.id, name=run.name)
    site.monitor(LEASE + 1)
    site.client.set(site.keys.payload_of(first.id), "{")

    assert [run.id for run in site.after(10)] == [second.id]
    assert f"run {first.id} cannot be sent again, its record is damaged" in caplog.text
    caplog.clear()
    assert (site.after(300), "damaged" in caplog.text) == ([], False)
    assert (site.state(first.id), site.active("a"), site.runs.counts("a").lost) == (State.LOST, set(), 1)


def test_a_lost_run_that_has_left_before_beat_ends_is_not_sent_again(
    site: BeatSite, make_scheduler: Callable[..., RedisScheduler], monkeypatch: pytest.MonkeyPatch
) -> None:
    site.save("a", every=100_000.0, requeue_lost=1)
    site.save("b", every=100_000.0, requeue_lost=1)
    for run in site.after(100_000):
        site.start(run.id, name=run.name)
    site.monitor(LEASE + 1)
    send, sent = site.scheduler.apply_async, []

    def ending(entry: Any, **options: Any) -> Any:
        if sent:
            end_process()
        sent.append(entry.name)
        return send(entry, **options)

    monkeypatch.setattr(site.scheduler, "apply_async", ending)
    with pytest.raises(SystemExit):
        site.after(10)

    [left] = take(site.app)
    assert site.state(left.id) is State.SENT
    site.scheduler.close()
    [other] = site.after(60, make_scheduler(site.app))
    assert {left.name, other.name} == {"a", "b"}


# deadline


def test_a_run_that_nobody_starts_by_its_deadline_expires_and_blocks_no_longer(site: BeatSite) -> None:
    site.save(overlap="skip", deadline=90)
    (first,) = site.after(60)
    assert site.after(60) == []

    sent = site.monitor(31) or site.after(30)

    assert site.state(first.id) is State.EXPIRED
    assert len(sent) == 1


@pytest.mark.parametrize(
    "fields", [{"deadline": 600}, {"options": {"expires": 600}}], ids=["deadline", "seconds-after-it-was-sent"]
)
def test_the_run_of_a_worker_that_dies_after_the_deadline_has_as_long_again(
    site: BeatSite, fields: dict[str, Any]
) -> None:
    site.save(overlap="skip", every=1000.0, requeue_lost=1, **fields)
    (first,) = site.after(1000)
    site.start(first.id)
    site.clock.go_on(500)
    assert site.runs.renew({first.id: "w1:1:a"}).not_ours == frozenset()

    assert site.monitor(LEASE + 1) == []
    (again,) = site.after(10)

    run, ends = site.runs.run(first.id), site.clock.now + timedelta(seconds=600)
    assert run is not None
    if "deadline" in fields:
        assert datetime.fromisoformat(again.headers["expires"]) == ends
    assert (again.id, run.state, run.expires, run.lease_end) == (first.id, State.SENT, ends, ends)

    assert site.after(300) == []  # the next fire time is skipped: the run waits in the queue
    assert site.monitor(250) == []
    assert site.state(first.id) is State.SENT
    site.monitor(51)
    assert site.state(first.id) is State.EXPIRED


# anchor


def test_an_interval_with_an_anchor_counts_from_the_end_of_its_run_and_skips_nothing(site: BeatSite) -> None:
    site.save(anchor="execution")
    (first,) = site.after(60)
    site.start(first.id)
    for _ in range(10):
        site.runs.renew({first.id: "w1:1:a"})
        assert site.after(30) == []
    site.finish(first.id)
    ended = site.clock.now

    sent = [run for _ in range(7) for run in site.after(10)]

    assert [run.fire_time for run in sent] == [ended + timedelta(seconds=60)]
    assert site.skipped() == {}


def test_an_interval_with_an_anchor_goes_on_after_a_lost_run(site: BeatSite) -> None:
    site.save(anchor="execution")
    (first,) = site.after(60)
    site.start(first.id)

    assert site.monitor(LEASE - 10) == []
    sent = [run for _ in range(4) for run in site.monitor(10)]

    assert site.state(first.id) is State.LOST
    assert len(sent) == 1


# disable_after_failures


def test_an_entry_is_disabled_after_failures_in_a_row_and_enabling_it_counts_from_zero(
    site: BeatSite, caplog: pytest.LogCaptureFixture
) -> None:
    site.save(disable_after_failures=2)
    for end in (State.FAILURE, State.SUCCESS, State.FAILURE, State.FAILURE):
        (run,) = site.after(60)
        site.start(run.id)
        site.finish(run.id, end)

    assert site.after(60) == []
    entry = ScheduleStore(site.app).get("report")
    assert not entry.enabled
    assert "entry 'report' failed 2 times in a row, disabled it" in caplog.text
    line = site.store.log.of_entry("report", 1)[0]
    assert (line.what, line.details["by"], line.details["note"]) == ("disabled", "redisbeater", "2 failures in a row")

    entry.enable()
    assert len(site.after(60)) == 1


# a beat that dies between the broker and the commit


def _dies_before_the_commit(site: BeatSite, monkeypatch: pytest.MonkeyPatch) -> Sent:
    """Let the beat send what is due and end before it commits; return the run."""

    def die(*_: object, **__: object) -> None:
        end_process()

    site.clock.go_on(60)
    with monkeypatch.context() as patch:
        patch.setattr(type(site.store), "commit", die)
        with pytest.raises(SystemExit):
            run_due(site.scheduler)
    (run,) = take(site.app)
    return run


@pytest.mark.parametrize("overlap", ["allow", "skip", "buffer_one", "cancel_other"])
@pytest.mark.parametrize("has_ended", [False, True], ids=["running", "ended"])
def test_a_run_that_a_worker_has_reported_is_not_sent_again_by_the_next_beat(
    site: BeatSite,
    make_scheduler: Callable[..., RedisScheduler],
    monkeypatch: pytest.MonkeyPatch,
    overlap: str,
    has_ended: bool,
) -> None:
    site.save(overlap=overlap, every=1000.0)
    site.clock.go_on(940)
    run = _dies_before_the_commit(site, monkeypatch)
    site.start(run.id)
    if has_ended:
        site.finish(run.id)

    assert site.after(31, make_scheduler(site.app)) == []

    recorded = site.runs.run(run.id)
    assert recorded
    assert recorded.sent_at
    assert recorded.starts == 1
    assert (ScheduleStore(site.app).get("report").total_run_count, site.skipped()) == (1, {})


@pytest.mark.parametrize("every", [1000.0, 10.0])
def test_a_run_that_nobody_has_reported_is_sent_again_with_the_same_id_and_no_other_beside_it(
    site: BeatSite, make_scheduler: Callable[..., RedisScheduler], monkeypatch: pytest.MonkeyPatch, every: float
) -> None:
    site.save(overlap="skip", every=every)
    site.clock.go_on(int(every) - 60)
    run = _dies_before_the_commit(site, monkeypatch)

    sent = site.after(31, make_scheduler(site.app))

    assert [each.id for each in sent] == [run.id]
    assert site.state(run.id) is State.SENT
    assert ScheduleStore(site.app).get("report").total_run_count == 1


# what is refused


@pytest.mark.parametrize(
    "fields",
    [
        {"overlap": "skip"},
        {"once": True},
        {"anchor": "execution"},
        {"requeue_lost": 1},
        {"disable_after_failures": 3},
    ],
    ids=lambda fields: next(iter(fields)),
)
def test_what_needs_records_of_runs_is_refused_without_them(app: Celery, fields: dict[str, Any]) -> None:
    store = ScheduleStore(app)
    store.create("report", "proj.work", 60)
    (name,) = fields
    refusal = rf"^\$\.{name}: needs redisbeater_track_runs = True"

    with pytest.raises(InvalidEntry, match=refusal):
        store.create("other", "proj.work", 60, **fields)
    with pytest.raises(InvalidEntry, match=refusal):
        store.update("report", **fields)
    with pytest.raises(EntryNotFound):
        store.get("other")
    assert store.update("report", overlap="allow", requeue_lost=0, once=False).overlap == "allow"


def test_an_entry_that_has_such_a_field_already_can_be_edited(site: BeatSite, app: Celery) -> None:
    site.save(overlap="skip")

    edited = ScheduleStore(app).update("report", args=[1])

    assert (edited.overlap, edited.args) == ("skip", [1])


def test_beat_logs_once_how_many_entries_run_without_what_they_ask_for(
    site: BeatSite,
    make_app: Callable[..., Celery],
    make_scheduler: Callable[..., RedisScheduler],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    site.save("a", overlap="skip")
    site.save("b", once=True)
    site.save("c")
    beat = make_scheduler(make_app(redisbeater_lock_key=None))
    monkeypatch.setattr("redisbeater.beat.monitor.COUNT_SECONDS", 0.0)

    sent = [*site.after(60, beat), *site.after(60, beat), *site.after(60, beat)]

    assert len(sent) == 9
    errors = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert [error.partition(" have fields")[0] for error in errors] == ["2 entries"]
    assert "the first is 'a', with overlap" in errors[0]


# workers that do not report


def test_beat_logs_once_that_workers_do_not_report(site: BeatSite, caplog: pytest.LogCaptureFixture) -> None:
    site.save(every=10.0)
    for _ in range(25):
        site.monitor(10)

    assert caplog.text.count("no worker has reported a run: is one running, with redisbeater.runs in its imports?") == 1


def test_beat_leaves_workers_the_time_to_start_the_first_runs(site: BeatSite, caplog: pytest.LogCaptureFixture) -> None:
    for number in range(30):
        site.save(f"entry {number}", every=100_000.0)

    assert len(site.monitor(100_000)) == 30
    assert "no worker has reported" not in caplog.text
    site.monitor(LEASE // 4)
    assert "no worker has reported" in caplog.text


def test_beat_says_nothing_of_workers_where_one_has_reported(site: BeatSite, caplog: pytest.LogCaptureFixture) -> None:
    site.save(every=10.0)
    (first,) = site.after(10)
    site.start(first.id)
    for _ in range(25):
        site.monitor(10)

    assert "no worker has reported" not in caplog.text


# the fire times that a run stands for


def window(sent: Sent) -> tuple[str | None, int]:
    """Return the headers that tell a task for which fire times it runs."""
    return sent.headers.get("previous_fire_time"), sent.headers.get("coalesced", 1)


def test_each_run_but_the_first_tells_its_task_the_fire_time_of_the_run_before(site: BeatSite) -> None:
    site.save()
    first, second = (*site.after(60), *site.after(60))

    assert window(first) == (None, 1)
    assert window(second) == (first.fire_time.isoformat(), 1)
    assert "coalesced" not in second.headers


@pytest.mark.parametrize(("coalesce", "fire_time"), [("latest", 240), ("earliest", 60)])
def test_a_run_that_stands_for_several_fire_times_says_how_many(site: BeatSite, coalesce: str, fire_time: int) -> None:
    site.save(coalesce=coalesce)
    (first,) = site.after(60)

    (late,) = site.after(240)

    assert window(late) == (first.fire_time.isoformat(), 4)
    assert late.fire_time == first.fire_time + timedelta(seconds=fire_time)
    (following,) = site.after(60)
    assert window(following) == (late.fire_time.isoformat(), 1)


def test_of_runs_that_catch_up_each_follows_the_one_before(site: BeatSite) -> None:
    site.save(coalesce="all", misfire_grace_time=150)
    (first,) = site.after(60)

    late = site.after(240)

    assert [run.fire_time - first.fire_time for run in late] == [timedelta(seconds=each) for each in (120, 180, 240)]
    assert [window(run) for run in late] == [(run.fire_time.isoformat(), 1) for run in (first, *late[:2])]


def test_a_run_counts_as_late_from_when_its_jitter_lets_it_be_due(site: BeatSite) -> None:
    site.save(every=600.0, jitter=300)
    sent = [run for _ in range(4) for run in site.after(600)]

    runs = [run for each in sent if (run := site.runs.run(each.id)) is not None]

    assert len(runs) >= 3
    for run in runs:
        assert run.fire_time is not None
        assert run.due_at is not None
        assert run.sent_at is not None
        assert timedelta(0) < run.due_at - run.fire_time <= timedelta(seconds=300)
        assert lateness(run) == run.sent_at - run.due_at
    first = min(run.sent_at for run in runs if run.sent_at is not None)
    counted = [site.runs.tally(first, timedelta(seconds=seconds), 1000).late for seconds in (0, 601)]
    assert counted == [len(runs), 0]


def test_a_run_that_is_sent_again_or_had_to_wait_stands_for_the_same_fire_times(site: BeatSite) -> None:
    site.save(every=50.0, overlap="buffer_one", requeue_lost=1)
    (first,) = site.after(50)
    site.start(first.id)
    assert site.after(150) == []
    site.finish(first.id)

    (waited,) = site.after(1)
    assert window(waited) == (first.fire_time.isoformat(), 3)
    site.start(waited.id)
    ScheduleStore(site.app).disable("report")
    (again,) = [*site.monitor(LEASE + 1), *site.after(10)]

    assert (again.id, window(again)) == (waited.id, window(waited))
    assert (run := site.runs.run(waited.id))
    assert (run.previous_fire_time, run.coalesced) == (first.fire_time, 3)


def test_a_run_that_replaces_a_buffered_one_follows_the_run_that_was_sent(site: BeatSite) -> None:
    site.save(overlap="cancel_other")
    (first,) = site.after(60)
    site.start(first.id)
    assert site.after(60) == site.after(60) == []
    site.finish(first.id, State.REVOKED)

    (last,) = site.after(1)
    assert window(last) == (first.fire_time.isoformat(), 1)
    site.start(last.id)
    site.finish(last.id)
    (following,) = site.after(60)
    assert window(following) == (last.fire_time.isoformat(), 1)


def test_a_trigger_follows_the_last_run_and_moves_no_window_of_the_schedule(site: BeatSite) -> None:
    site.save()
    store = ScheduleStore(site.app)
    (first,) = site.after(60)
    site.clock.go_on(20)

    store.trigger("report")
    store.trigger("report", scheduled_for=first.fire_time - timedelta(days=1))
    now, earlier = take(site.app)
    (second,) = site.after(40)

    assert window(now) == window(second) == (first.fire_time.isoformat(), 1)
    assert window(earlier) == (None, 1)


def test_a_backfilled_run_follows_the_fire_time_before_its_own(site: BeatSite) -> None:
    site.save(every=3600.0)
    (first,) = site.after(3600)
    hour = timedelta(hours=1)

    ScheduleStore(site.app).backfill("report", first.fire_time - 3 * hour, first.fire_time - hour)

    sent = take(site.app)
    assert [run.fire_time for run in sent] == [first.fire_time - number * hour for number in (3, 2, 1)]
    assert [window(run) for run in sent] == [((run.fire_time - hour).isoformat(), 1) for run in sent]


@pytest.mark.parametrize("end", [State.FAILURE, State.SUCCESS])
def test_a_restarted_run_stands_for_the_fire_times_of_the_one_that_it_repeats(site: BeatSite, end: State) -> None:
    site.save(every=100.0)
    (first,) = site.after(100)
    (late,) = site.after(300)
    site.start(late.id)
    site.finish(late.id, end)
    site.after(100)

    ScheduleStore(site.app).runs.restart(late.id)

    (again,) = take(site.app)
    assert (window(again), again.fire_time) == (window(late), late.fire_time)
    assert window(late) == (first.fire_time.isoformat(), 3)


def test_another_try_stands_for_the_same_fire_times(site: BeatSite, reporting: None) -> None:
    @site.app.task(name="proj.work", bind=True)
    def work(self: Any) -> None:
        raise self.retry(countdown=1)

    site.save()
    site.after(60)
    (late,) = site.after(180)

    execute(site.app, late)

    (again,) = take(site.app)
    assert (again.id, window(again)) == (late.id, window(late))
    assert window(late)[1] == 3
