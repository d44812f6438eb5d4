"""One entry's fault is one entry's fault, and an error that nobody foresaw does not end beat."""

from __future__ import annotations

import json
import logging
import signal
import sys
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
import redis
from celery import Celery, Task
from celery.schedules import BaseSchedule
from due import ago, now, save_due, stored
from outbox import Sent, names, run_due, take
from support.signals import end_process
from support.waiting import wait_until

from redisbeater import RedisScheduleEntry, RedisScheduler
from redisbeater.beat.outage import FIRST_BACKOFF_SECONDS, Edits
from redisbeater.context import Context
from redisbeater.dispatch.dispatcher import CATCH_UP_RUNS

MakeApp = Callable[..., Celery]
MakeScheduler = Callable[..., RedisScheduler]
Write = Callable[..., None]

RULE = {"__type__": "rrule", "freq": {"wkday": 7}, "dtstart": 1_700_000_000}
NINES = "9" * 4300


@pytest.fixture
def write(client: redis.Redis, prefix: str) -> Write:
    """Write an entry that is due, unchecked."""

    def write(name: str, *, score: float = 1, schedule: Any = None, meta: str = "", skipped: str = "") -> None:
        schedule = schedule or {"__type__": "interval", "every": 86_400}
        fields = {"definition": json.dumps({"task": "proj.work", "schedule": schedule})}
        more = {field: text for field, text in {"meta": meta, "skipped": skipped}.items() if text}
        client.hset(prefix + name, mapping={**fields, **more})
        client.zadd(f"{prefix}:schedule", {prefix + name: score})

    return write


def reports(app: Celery) -> dict[str, str]:
    return {name: report["reason"] for name, report in Context.of(app).redis.broken.reports().items()}


def lines(caplog: pytest.LogCaptureFixture, text: str) -> list[logging.LogRecord]:
    return [record for record in caplog.records if text in record.getMessage()]


# Of one entry


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        pytest.param({"schedule": RULE}, "$.schedule.freq: ", id="weekday-7"),
        pytest.param({"meta": f'{{"total_run_count": {NINES}}}'}, "meta.total_run_count: ", id="run-count"),
        pytest.param({"meta": '{"total_run_count": -1}'}, "meta.total_run_count: ", id="negative-run-count"),
        pytest.param({"meta": '{"total_run_count": ' + "9" * 5000 + "}"}, "meta: not JSON", id="unreadable-run-count"),
    ],
)
def test_an_entry_that_cannot_be_committed_or_read_is_quarantined_and_the_others_are_sent_once(
    app: Celery, scheduler: RedisScheduler, write: Write, fields: dict[str, Any], reason: str
) -> None:
    write("bad", **fields)
    save_due(app, "good")

    assert names(run_due(scheduler)) == ["good"]
    assert stored(app, "good").total_run_count == 1
    assert list(reports(app)) == ["bad"]
    assert reports(app)["bad"].startswith(reason)
    assert len(reports(app)["bad"]) <= 500


def test_a_record_of_skipped_fire_times_that_cannot_be_right_stops_no_run(
    app: Celery, scheduler: RedisScheduler, write: Write
) -> None:
    last = "2026-01-01T00:00:00+00:00"
    write("late", skipped=f'{{"coalesced": {{"count": {NINES}, "last": "{last}"}}}}')
    save_due(app, "good")

    assert sorted(names(run_due(scheduler))) == ["good", "late"]
    assert 0 < stored(app, "late").skipped["coalesced"].count < 2**53


@pytest.mark.parametrize("identity", ["hello", "", b"\xff\x00"], ids=["text", "empty", "no-text"])
def test_a_schedule_id_that_is_no_uuid_stops_no_run(
    app: Celery, scheduler: RedisScheduler, client: redis.Redis, prefix: str, identity: Any
) -> None:
    client.set(f"{prefix}:id", identity)
    save_due(app, "report")

    assert names(run_due(scheduler)) == ["report"]


class Failing(BaseSchedule):
    """A custom schedule that raises a given error when it is planned."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error

    def to_redisbeater(self) -> dict[str, Any]:
        return {"error": type(self.error).__name__}

    @classmethod
    def from_redisbeater(cls, data: dict[str, Any]) -> Failing:
        return cls(ERRORS[data["error"]])

    def remaining_estimate(self, last_run_at: datetime) -> timedelta:
        raise self.error


class Mute(Exception):
    def __str__(self) -> str:
        raise OSError("no text")


ERRORS = {
    type(error).__name__: error
    for error in (IndexError("x" * 100_000), RecursionError(), OverflowError(), Mute(), MemoryError("full"))
}


@pytest.fixture
def custom_app(make_app: MakeApp) -> Celery:
    return make_app(redisbeater_schedule_classes=[Failing])


def failing(name: str) -> dict[str, Any]:
    return {"__type__": "custom", "import_path": f"{__name__}.Failing", "data": {"error": name}}


@pytest.mark.parametrize("error", ERRORS)
def test_whatever_the_class_of_a_schedule_raises_is_logged_once_with_its_traceback(
    custom_app: Celery, make_scheduler: MakeScheduler, write: Write, caplog: pytest.LogCaptureFixture, error: str
) -> None:
    scheduler = make_scheduler(custom_app)
    write("bad", schedule=failing(error))
    save_due(custom_app, "good")

    assert names(run_due(scheduler)) == ["good"]
    assert names(run_due(scheduler)) == []
    line, *others = lines(caplog, "'bad'")
    assert {other.name for other in others} <= {"redisbeater.beat.incidents"}
    assert line.exc_info is not None
    assert line.exc_info[0] is type(ERRORS[error])
    assert reports(custom_app)["bad"].startswith(f"$.schedule: {error}")
    assert len(reports(custom_app)["bad"]) <= 500


class Late(RedisScheduler):
    """Fails to send one entry with an error of which Celery cannot make one of its own."""

    def send_task(self, *args: Any, **kwargs: Any) -> Any:
        if args[0] == "proj.mute":
            raise Mute
        return super().send_task(*args, **kwargs)


class Mutes(RedisScheduler):
    """The same, where Celery makes no error of its own."""

    def apply_async(self, entry: Any, **options: Any) -> Any:
        if entry.task == "proj.mute":
            raise Mute
        return super().apply_async(entry, **options)


class Refuses(RedisScheduler):
    """The same, with an answer of the broker that has such a cause."""

    def apply_async(self, entry: Any, **options: Any) -> Any:
        if entry.task == "proj.mute":
            raise self.producer.connection.channel_errors[0]("refused") from Mute()
        return super().apply_async(entry, **options)


@pytest.mark.parametrize("cls", [Late, Mutes, Refuses])
def test_an_error_without_a_text_does_not_count_as_sent(
    app: Celery, make_scheduler: MakeScheduler, cls: type[RedisScheduler]
) -> None:
    scheduler = make_scheduler(app, cls)
    save_due(app, "mute", "proj.mute")
    save_due(app, "good")

    assert names(run_due(scheduler)) == ["good"]
    assert stored(app, "mute").total_run_count == 0
    assert stored(app, "mute").failing is not None
    assert reports(app) == {}


# Of thousands of entries


def test_many_broken_entries_take_few_scripts_and_few_lines(
    app: Celery,
    scheduler: RedisScheduler,
    write: Write,
    client: redis.Redis,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("redisbeater.dispatch.batch.GATHER_SECONDS", 60)  # publish batches are full on a slow machine
    for number in range(600):
        write(f"bad-{number}", meta='{"total_run_count": -1}')
    save_due(app, "good")
    client.config_resetstat()

    assert names(run_due(scheduler)) == ["good"]

    assert len(reports(app)) == 600
    summaries = lines(caplog, "entries are broken, quarantined them")
    assert 0 < len(summaries) <= 5
    assert not lines(caplog, "is broken, quarantined it")
    assert all("celery -A proj redisbeater broken" in line.getMessage() for line in summaries)
    assert all(len(line.getMessage()) < 700 for line in summaries)
    stats = client.info("commandstats")
    scripts = [stats[name] for name in ("cmdstat_eval", "cmdstat_evalsha") if name in stats]
    assert sum(each["calls"] - each["failed_calls"] for each in scripts) < 30  # one that the server lacks is sent again


def test_only_those_that_were_quarantined_are_returned(make_app: MakeApp, client: redis.Redis, prefix: str) -> None:
    app = make_app(redisbeater_lock_key=None)
    store = Context.of(app).redis
    for name in ("broken", "edited", "deleted"):
        save_due(app, name)
    claim = store.claim(token="", limit=3)
    client.hset(f"{prefix}edited", "definition", "{}")
    RedisScheduleEntry("deleted", app=app).delete()

    assert store.quarantine(claim, [(entry, "x" * 1000) for entry in claim.entries]) == {"broken"}
    assert store.quarantine(claim, []) == set()
    assert reports(app) == {"broken": f"{'x' * 497}..."}
    assert [entry.name for entry in store.claim(token="", limit=3).entries] == ["edited"]


# Catching up


def late_by(runs: int, app: Celery, name: str, every: float = 3600.0) -> datetime:
    entry = RedisScheduleEntry(name, "proj.work", every, coalesce="all", app=app)
    entry.last_run_at = ago(seconds=every * (runs + 0.5))
    due_at = entry.save().due_at
    assert due_at is not None
    return due_at


def fire_times(sent: list[Sent], name: str) -> list[datetime]:
    return [run.fire_time for run in sent if run.name == name]


def test_the_first_run_of_every_entry_is_sent_before_the_second_of_any(app: Celery, scheduler: RedisScheduler) -> None:
    late = [f"late-{number}" for number in range(5)]
    for name in late:
        late_by(10, app, name)
    save_due(app, "young")

    sent = names(run_due(scheduler))

    assert set(sent[:6]) == {*late, "young"}
    assert len(sent) == 51


def test_every_run_is_sent_once_and_in_order_however_many_claims_it_takes(
    app: Celery, scheduler: RedisScheduler
) -> None:
    first = {name: late_by(50, app, name) for name in (f"late-{number}" for number in range(20))}

    sent = run_due(scheduler)

    for name, due_at in first.items():
        assert fire_times(sent, name) == [due_at + timedelta(hours=number) for number in range(50)]
        assert stored(app, name).total_run_count == 50
        assert stored(app, name).skipped == {}


def test_an_entry_that_becomes_due_meanwhile_waits_for_no_catch_up(app: Celery, scheduler: RedisScheduler) -> None:
    for number in range(20):
        late_by(90, app, f"late-{number}")
    scheduler.tick()
    assert 20 < len(take(app)) <= 20 + CATCH_UP_RUNS
    scheduler.tick()
    take(app)

    save_due(app, "young", late=0)
    scheduler.tick()

    assert "young" in names(take(app))[:21]


def test_a_claim_of_a_backlog_takes_what_has_just_become_due_too(
    make_app: MakeApp, make_scheduler: MakeScheduler
) -> None:
    app = make_app(redisbeater_batch_size=5)
    scheduler = make_scheduler(app)
    for number in range(5):
        late_by(90, app, f"late-{number}")
    save_due(app, "young")

    scheduler.tick()

    assert names(take(app))[:5] == ["late-0", "late-1", "late-2", "late-3", "young"]


def test_a_claim_that_does_not_fit_into_its_lease_is_followed_by_smaller_ones(
    make_app: MakeApp, make_scheduler: MakeScheduler, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "redisbeater")
    app = make_app(redisbeater_lease_timeout=1)

    class Slow(Task):
        def apply_async(self, *args: Any, **options: Any) -> Any:
            started = now()
            wait_until(lambda: now() - started > timedelta(seconds=0.2), "a slow broker")
            return super().apply_async(*args, **options)

    @app.task(name="proj.slow", base=Slow, shared=False)
    def slow() -> None: ...

    scheduler = make_scheduler(app)
    for number in range(16):
        save_due(app, f"slow-{number}", "proj.slow")

    scheduler.tick()

    assert 0 < len(take(app)) < 16
    scheduler.tick()
    limits = [record.getMessage().rpartition(", ")[2] for record in lines(caplog, "did not fit into its lease")]
    assert limits == ["claiming 8 next", "claiming 4 next"]


# Of a pass


class Broken(RedisScheduler):
    """A scheduler with an override of the application's own that fails while the test says so."""

    fails = True

    def install_default_entries(self, data: dict[str, Any]) -> None:
        if self.fails:
            raise RuntimeError("an override of the application")
        super().install_default_entries(data)


def ticked(scheduler: RedisScheduler, condition: Callable[[], Any], what: str) -> None:
    wait_until(lambda: (scheduler.tick(), condition())[1], what)


def test_an_error_that_nobody_foresaw_is_logged_once_and_the_pass_repeated(
    app: Celery, make_scheduler: MakeScheduler, caplog: pytest.LogCaptureFixture
) -> None:
    scheduler = make_scheduler(app, Broken)
    save_due(app, "report")

    assert 0.2 < scheduler.tick() <= 0.5
    assert 0 < scheduler.tick() <= 0.5, "beat waits"
    assert not take(app)
    wait_until(lambda: scheduler.tick() > 0.6, "a second failure, and a longer delay")
    [line] = lines(caplog, "this is a bug")
    assert line.exc_info

    scheduler.fails = False
    ticked(scheduler, lambda: take(app), "the run")
    assert len(lines(caplog, "an override of the application") + lines(caplog, "beat still fails")) == 0


def test_a_standby_leads_while_the_pass_of_another_beat_fails(
    app: Celery, make_scheduler: MakeScheduler, let_pass: Callable[[float], None]
) -> None:
    failing, standby = make_scheduler(app, Broken), make_scheduler(app)
    save_due(app, "report")

    failing.tick()
    standby.tick()

    assert names(take(app)) == ["report"]
    failing.fails = False
    let_pass(FIRST_BACKOFF_SECONDS)
    assert failing.tick() > 0, "it stands by, and does not end because it lost the lock"


def test_what_a_failed_pass_has_sent_is_committed(
    app: Celery, scheduler: RedisScheduler, client: redis.Redis, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_due(app, "report")

    errors, step = [KeyError("after the dispatch")], Edits.step

    def fail_once(edits: Edits) -> None:
        if errors:
            raise errors.pop()
        step(edits)

    monkeypatch.setattr(Edits, "step", fail_once)
    scheduler.tick()

    assert names(take(app)) == ["report"]
    assert stored(app, "report").total_run_count == 1
    ticked(scheduler, lambda: client.exists(f"{prefix}:lock"), "beat to lead again")
    assert take(app) == []


def interrupt() -> None:
    signal.raise_signal(signal.SIGINT)


@pytest.mark.parametrize(("end", "error"), [(end_process, SystemExit), (interrupt, KeyboardInterrupt)])
def test_a_signal_that_ends_the_process_is_no_error(
    app: Celery, make_scheduler: MakeScheduler, end: Callable[[], None], error: type[BaseException]
) -> None:
    class Ending(RedisScheduler):
        def install_default_entries(self, data: dict[str, Any]) -> None:
            end()

    with pytest.raises(error):
        make_scheduler(app, Ending).tick()


def test_a_subclass_that_wants_to_end_the_process_fails_its_pass_alone(
    app: Celery, make_scheduler: MakeScheduler, caplog: pytest.LogCaptureFixture
) -> None:
    ended: list[str] = []

    class Ending(RedisScheduler):
        def install_default_entries(self, data: dict[str, Any]) -> None:
            if not ended:
                ended.append("once")
                sys.exit("no entries")
            super().install_default_entries(data)

    save_due(app, "report")
    scheduler = make_scheduler(app, Ending)

    ticked(scheduler, lambda: stored(app, "report").total_run_count, "the run")
    [line] = lines(caplog, "beat failed, retrying in")
    assert line.exc_info is not None
    assert "SystemExit: no entries" in str(line.exc_info[1])
