"""Runs that programs send, stop, restart and wait for, with workers that report to the same records."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from types import SimpleNamespace
from typing import Any

import pytest
import redis
from celery import Celery
from celery.schedules import crontab
from click.shell_completion import ShellComplete
from click.testing import CliRunner, Result
from outbox import run_due, take
from support.ports import dead_port
from support.proxy import LOOPBACK, Proxy
from support.servers import Server
from support.waiting import WAIT_SECONDS, wait_until

from redisbeater import (
    AsyncScheduleStore,
    ImproperlyConfigured,
    InvalidEntry,
    RedisScheduler,
    RunActive,
    ScheduleStore,
    SendFailed,
    StoreUnavailable,
)
from redisbeater.cli import redisbeater
from redisbeater.context import Context
from redisbeater.results import State
from redisbeater.schedules.zones import encode_datetime
from redisbeater.store import Execution

HOUR = timedelta(hours=1)

#: A datetime as an argument of an entry.
MOMENT = encode_datetime(datetime(2026, 1, 1, tzinfo=timezone.utc))


@pytest.fixture
def app(make_app: Callable[..., Celery]) -> Celery:
    return make_app(redisbeater_track_runs=True)


class Worker:
    """Reports runs of ``report`` as a worker does."""

    def __init__(self, app: Celery) -> None:
        self.runs = Context.of(app).redis.runs

    def start(self, run_id: str) -> None:
        self.runs.start(self._execution(run_id))

    def finish(self, run_id: str, state: State = State.SUCCESS, **fields: Any) -> None:
        self.runs.finish(self._execution(run_id), state, **fields)

    def execute(self, run_id: str, state: State = State.SUCCESS, **fields: Any) -> None:
        self.start(run_id)
        self.finish(run_id, state, **fields)

    @staticmethod
    def _execution(run_id: str) -> Execution:
        return Execution(run_id=run_id, name="report", task="t", holder=f"w1:1:{run_id}", worker="celery@w1", pid=7)


@pytest.fixture
def worker(app: Celery) -> Worker:
    return Worker(app)


def run(app: Celery, *arguments: str) -> Result:
    return CliRunner().invoke(redisbeater, list(arguments), obj=SimpleNamespace(app=app))


# Trigger


def test_a_triggered_run_is_recorded_with_who_wanted_it(store: ScheduleStore, app: Celery) -> None:
    store.create("report", "t", 3600)

    task_id = store.trigger("report", by="anna@ops1", note="for the board")

    (message,) = take(app)
    found = store.runs.get(task_id)
    assert (message.id, message.headers["redisbeater_attempt"]) == (task_id, 1)
    assert (found.state, found.kind, found.by, found.note) == (State.SENT, "trigger", "anna@ops1", "for the board")
    assert [each.id for each in store.runs.active("report")] == [task_id]
    assert store.runs.counts("report").sent == 1
    assert store.get("report").total_run_count == 0


def test_skip_refuses_a_run_while_another_is_active(store: ScheduleStore, app: Celery, worker: Worker) -> None:
    store.create("report", "t", 3600, overlap="skip")
    first = store.trigger("report")
    worker.start(first)

    with pytest.raises(RunActive, match=rf"run {first} of 'report' is active, STARTED .* \(overlap skip\)") as refused:
        store.trigger("report")
    result = run(app, "trigger", "report")

    assert refused.value.runs == (first,)
    assert (result.exit_code, result.output.startswith(f"Error: run {first} of 'report' is active")) == (1, True)
    assert result.output.endswith("; stop it, wait, or pass --overlap allow\n")
    worker.finish(first)
    assert len({first, store.trigger("report")}) == len(take(app)) == 2


def test_another_overlap_can_be_asked_for(store: ScheduleStore, app: Celery) -> None:
    store.create("report", "t", 3600, overlap="skip")
    store.trigger("report")

    store.trigger("report", overlap="allow")

    assert len(take(app)) == 2
    with pytest.raises(InvalidEntry, match=r"\$\.overlap: .*allaw"):
        store.trigger("report", overlap="allaw")


def test_buffer_one_waits_for_the_end_and_beat_sends_it(
    store: ScheduleStore, app: Celery, worker: Worker, scheduler: RedisScheduler
) -> None:
    store.create("report", "t", 3600, overlap="buffer_one")
    first, second = store.trigger("report"), store.trigger("report")
    assert [message.id for message in take(app)] == [first]
    assert store.runs.get(second).state is State.BUFFERED
    with pytest.raises(RunActive, match="one is buffered already"):
        store.trigger("report")

    worker.execute(first)
    sent = run_due(scheduler)

    assert [message.id for message in sent] == [second]
    assert store.runs.get(second).state is State.SENT
    assert [line.details.get("buffered") for line in store.log("report") if line.what == "triggered"] == [True, None]


def test_cancel_other_asks_the_other_to_stop(store: ScheduleStore, app: Celery, worker: Worker) -> None:
    store.create("report", "t", 3600, overlap="cancel_other")
    first = store.trigger("report")
    worker.start(first)

    second = store.trigger("report")

    assert store.runs.get(first).is_to_stop
    assert store.runs.get(second).state is State.BUFFERED


def test_a_run_that_the_broker_refuses_does_not_stay_active(make_app: Callable[..., Celery]) -> None:
    app = make_app(redisbeater_track_runs=True, broker_url=f"redis://127.0.0.1:{dead_port()}/0")
    store = ScheduleStore(app)
    store.create("report", "t", 3600, overlap="skip")

    with pytest.raises(SendFailed, match="entry 'report' was not triggered"):
        store.trigger("report")

    (ended,) = store.history("report", states=["LOST"])
    assert store.runs.active("report") == []
    assert "refused" in ended.note or "refused" in ended.error  # type: ignore[union-attr]


def test_a_deadline_counts_from_the_trigger(store: ScheduleStore, app: Celery) -> None:
    store.create("report", "t", 3600, deadline=600)

    store.trigger("report", scheduled_for=datetime(2020, 1, 1, tzinfo=timezone.utc))

    (message,) = take(app)
    expires = datetime.fromisoformat(message.headers["expires"])
    assert timedelta(seconds=500) < expires - datetime.now(timezone.utc) <= timedelta(seconds=600)


def test_an_overlap_without_records_is_refused(make_app: Callable[..., Celery]) -> None:
    app = make_app()
    ScheduleStore(app).create("report", "t", 3600)

    with pytest.raises(ImproperlyConfigured, match="redisbeater_track_runs = False"):
        ScheduleStore(app).trigger("report", overlap="skip")
    waiting = run(app, "trigger", "report", "--wait")

    assert (waiting.exit_code, "redisbeater_track_runs = False" in waiting.output) == (2, True)
    assert take(app) == []


# Wait


def test_waiting_ends_with_the_run(store: ScheduleStore, app: Celery, worker: Worker) -> None:
    store.create("report", "t", 3600)
    task_id = store.trigger("report")
    seen: list[State] = []
    reporter = threading.Thread(
        target=worker.execute, args=(task_id, State.FAILURE), kwargs={"error": "ValueError: no"}
    )

    def progress(found: Any) -> None:
        if not seen:
            reporter.start()
        seen.append(found.state)

    found = store.runs.wait(task_id, 30, progress)
    reporter.join()

    assert (found.state, found.error, seen[0]) == (State.FAILURE, "ValueError: no", State.SENT)


def test_waiting_ends_with_the_time(store: ScheduleStore) -> None:
    store.create("report", "t", 3600)

    assert store.runs.wait(store.trigger("report"), timedelta(milliseconds=1)).state is State.SENT


@pytest.fixture
def behind_proxy(make_app: Callable[..., Celery], server: Server) -> Iterator[tuple[Celery, Proxy]]:
    """An app whose Redis a test can take away, and what does so."""
    with Proxy(server.port) as proxy:
        url = f"redis://{LOOPBACK}:{proxy.port}/0"
        yield make_app(redisbeater_track_runs=True, redisbeater_redis_url=url, redisbeater_retry_period=0.2), proxy


@pytest.mark.parametrize("is_async", [False, True])
def test_waiting_outlasts_an_outage_of_redis(
    behind_proxy: tuple[Celery, Proxy], app: Celery, worker: Worker, caplog: pytest.LogCaptureFixture, is_async: bool
) -> None:
    client, proxy = behind_proxy
    store = ScheduleStore(client)
    store.create("report", "t", 3600)
    task_id = store.trigger("report")
    looked, found = threading.Event(), []

    def wait() -> None:
        waits = AsyncScheduleStore(client) if is_async else store
        run = waits.runs.wait(task_id, progress=lambda _: looked.set())
        found.append(asyncio.run(run) if is_async else run)

    waiting = threading.Thread(target=wait)
    waiting.start()
    assert looked.wait(WAIT_SECONDS)
    proxy.refuse()
    wait_until(lambda: "still waiting for the end of run" in caplog.text, "a warning")
    worker.execute(task_id, State.SUCCESS)
    proxy.heal()
    waiting.join(WAIT_SECONDS)

    assert [run.state for run in found] == [State.SUCCESS]
    assert caplog.text.count("still waiting") == 1


def test_waiting_ends_with_the_time_in_an_outage_too(behind_proxy: tuple[Celery, Proxy]) -> None:
    client, proxy = behind_proxy
    store = ScheduleStore(client)
    store.create("report", "t", 3600)
    task_id = store.trigger("report")

    with pytest.raises(StoreUnavailable):
        store.runs.wait(task_id, 0.5, progress=lambda _: proxy.refuse())
    with pytest.raises(StoreUnavailable):  # at the first look: the address may be wrong
        store.runs.wait(task_id)


@pytest.mark.parametrize(("state", "code"), [(State.SUCCESS, 0), (State.FAILURE, 1)])
def test_the_command_waits_and_its_exit_code_is_the_end_of_the_run(
    store: ScheduleStore, app: Celery, worker: Worker, state: State, code: int
) -> None:
    store.create("report", "t", 3600)
    ended: list[str] = []

    def report() -> None:
        events = Context.of(app).redis.runs.events()
        events.listen()
        began.set()
        while not (active := store.runs.active("report")):
            events.wait(1)
        worker.execute(active[0].id, state, error="ValueError: no" if code else "")
        ended.append(active[0].id)
        events.close()

    began = threading.Event()
    reporter = threading.Thread(target=report)
    reporter.start()
    began.wait()
    result = run(app, "trigger", "report", "--wait", "30s")
    reporter.join()

    first, last = result.output.splitlines()
    assert (result.exit_code, first) == (code, f"report: triggered, task id {ended[0]}")
    assert last.startswith(f"report: {state} in ")
    assert last.endswith("on celery@w1: ValueError: no" if code else "on celery@w1")


def test_the_command_says_what_has_not_ended_in_time(store: ScheduleStore, app: Celery) -> None:
    store.create("report", "t", 3600)

    result = run(app, "trigger", "report", "--wait", "0.01s", "--json")

    assert (result.exit_code, json.loads(result.output)["state"]) == (1, "SENT")
    assert run(app, "trigger", "report", "--wait", "soon").exit_code == 2


# Stop


def test_a_buffered_run_is_revoked_at_once(store: ScheduleStore, app: Celery, worker: Worker) -> None:
    store.create("report", "t", 3600, overlap="buffer_one")
    worker.start(store.trigger("report"))
    second = store.trigger("report")

    found = store.runs.stop(second, by="anna@ops1", note="wrong month")

    assert (found.outcome, found.run.state) == ("REVOKED", State.REVOKED)
    assert found.sentence == "REVOKED: it had not been sent, and never will be (REVOKED)"
    line = next(line for line in store.log("report") if line.what == "stopped")
    assert line.details == {"run": second, "by": "anna@ops1", "note": "wrong month"}


def test_a_run_that_has_ended_cannot_be_stopped(store: ScheduleStore, app: Celery, worker: Worker) -> None:
    store.create("report", "t", 3600)
    task_id = store.trigger("report")
    worker.execute(task_id)

    found, result = store.runs.stop(task_id), run(app, "stop", task_id, "--json")

    assert (found.outcome, found.run.is_to_stop) == ("CANNOT", False)
    assert "it had ended before (SUCCESS in " in found.sentence
    assert (result.exit_code, json.loads(result.output)["outcome"]) == (1, "CANNOT")


def test_a_run_that_no_worker_has_started_is_asked_to_stop(
    store: ScheduleStore, app: Celery, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("redisbeater.management.runs.stop.WAIT_SECONDS", 0.0)
    store.create("report", "t", 3600)
    task_id = store.trigger("report")

    result = run(app, "stop", task_id)

    assert (result.exit_code, result.output) == (
        0, f"{task_id}: ASKED: no worker has started it. The workers that run now will discard it. "
        "A worker that is started later will run it, with stop_requested() true (SENT)\n",
    )  # fmt: skip
    assert store.runs.get(task_id).is_to_stop


def test_a_worker_that_does_not_answer_is_named(
    store: ScheduleStore, app: Celery, worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("redisbeater.management.runs.stop.WAIT_SECONDS", 0.0)
    monkeypatch.setattr("redisbeater.management.runs.stop.REPLY_SECONDS", 0.05)
    store.create("report", "t", 3600)
    task_id = store.trigger("report")
    worker.start(task_id)

    found = store.runs.stop(task_id)

    assert found.outcome == "ASKED"
    assert found.sentence.startswith("ASKED: celery@w1 does not answer; it ends if it asks stop_requested()")


def test_ids_that_are_wrong_are_one_line_each(store: ScheduleStore, app: Celery) -> None:
    assert run(app, "stop").output == "Error: expected the ids of runs; history NAME --long shows them\n"
    for command in ("stop", "restart"):
        result = run(app, command, "nobody")
        assert (result.exit_code, result.output.startswith("Error: no run 'nobody' is kept")) == (2, True)


# Restart


def test_a_failed_run_is_restarted_with_what_it_had(store: ScheduleStore, app: Celery, worker: Worker) -> None:
    store.create("report", "t", crontab(hour=9, minute=0), args=[1], kwargs={"at": MOMENT}, deadline=600)
    failed = store.trigger("report", scheduled_for=datetime(2026, 11, 20, 9, tzinfo=timezone.utc))
    worker.execute(failed, State.FAILURE, error="ValueError: no feed")
    store.update("report", args=[2])

    result = run(app, "restart", failed, "--note", "feed is back", "--by", "anna@ops1")

    before, after = take(app)
    assert result.output == f"{failed}: restarted, task id {after.id}\n"
    assert after.id != failed
    assert (after.args, after.kwargs, after.fire_time) == (before.args, before.kwargs, before.fire_time)
    assert datetime.fromisoformat(after.headers["expires"]) > datetime.fromisoformat(before.headers["expires"])
    found = store.runs.get(after.id)
    assert (found.kind, found.restart_of, found.note, found.state) == ("restart", failed, "feed is back", State.SENT)
    assert store.log("report")[0].details["as"] == after.id


def test_what_programs_send_knows_the_version_whose_arguments_it_has(
    store: ScheduleStore, app: Celery, worker: Worker
) -> None:
    store.create("report", "t", 60, args=[1])
    app.conf.task_routes = {"t": "slow"}
    version = store.get("report").version

    own, other = store.trigger("report"), store.trigger("report", args=[2])
    worker.execute(own, State.FAILURE)
    again = store.runs.restart(own)
    past = datetime.now(timezone.utc) - HOUR
    made_up = next(iter(store.backfill("report", past, past + timedelta(minutes=1)).sent.values()))

    assert [store.runs.get(each).version for each in (own, other, again, made_up)] == [version, "", version, version]
    assert {store.runs.get(each).queue for each in (own, other, again, made_up)} == {"slow"}


def test_only_a_run_that_has_ended_is_restarted(store: ScheduleStore, app: Celery, worker: Worker) -> None:
    store.create("report", "t", 3600, overlap="skip")
    task_id = store.trigger("report")

    with pytest.raises(RunActive, match=f"run {task_id} of 'report' is SENT: stop it, or wait"):
        store.runs.restart(task_id)
    worker.execute(task_id, State.FAILURE)
    active = store.trigger("report")
    with pytest.raises(RunActive) as refused:
        store.runs.restart(task_id)
    assert refused.value.runs == (active,)
    worker.execute(active)

    assert len(take(app)) == 2
    assert store.runs.restart(task_id, overlap="allow") == take(app)[0].id


def test_a_run_that_has_succeeded_is_restarted_with_what_its_entry_has_until_that_is_changed(
    store: ScheduleStore, app: Celery, worker: Worker
) -> None:
    store.create("report", "t", 3600, args=[1], kwargs={"at": MOMENT}, deadline=600)
    ended = store.trigger("report", scheduled_for=datetime(2026, 11, 20, 9, tzinfo=timezone.utc))
    worker.execute(ended)

    again = store.runs.restart(ended)

    before, after = take(app)
    sent = [(each.args, each.kwargs, each.fire_time) for each in (before, after)]
    assert (after.id, sent[1]) == (again, sent[0])
    assert datetime.fromisoformat(after.headers["expires"]) > datetime.now(timezone.utc)
    assert store.runs.get(again).restart_of == ended
    store.update("report", args=[2])
    with pytest.raises(InvalidEntry, match=r"\$\.run: .* ended with SUCCESS, .*; trigger 'report' instead"):
        store.runs.restart(ended)


def test_a_run_of_an_entry_that_has_deleted_itself_is_restarted(
    store: ScheduleStore, app: Celery, worker: Worker, client: redis.Redis, prefix: str
) -> None:
    store.create("report", "t", 3600, args=[1])
    failed = store.trigger("report")
    worker.execute(failed, State.FAILURE)
    client.delete(f"{prefix}report")

    new_id = store.runs.restart(failed)

    assert [(message.id, message.args) for message in take(app)] == [(failed, [1]), (new_id, [1])]
    assert 0 < client.ttl(f"{prefix}:log:report") <= 7 * 86_400


# Backfill


def at(hour: int) -> datetime:
    return datetime(2026, 11, 20, hour, tzinfo=timezone.utc)


def test_backfill_sends_what_has_not_run(store: ScheduleStore, app: Celery, worker: Worker) -> None:
    store.create("report", "t", crontab(minute=0), deadline=600)
    for hour, state in ((10, State.SUCCESS), (11, State.FAILURE)):
        worker.execute(store.trigger("report", scheduled_for=at(hour)), state)
    take(app)

    planned = store.backfill("report", at(9), at(12), dry_run=True)
    assert take(app) == []
    found = store.backfill("report", at(9), at(12), rate=1000)

    assert planned.fire_times == (at(9), at(10), at(11), at(12))
    assert (planned.done, planned.sent) == ({at(10)}, {})
    sent = take(app)
    assert [message.fire_time for message in sent] == [at(9), at(11), at(12)] == list(found.sent)
    assert [message.id for message in sent] == list(found.sent.values())
    assert {store.runs.get(message.id).kind.value for message in sent} == {"backfill"}
    assert store.log("report")[0].details["runs"] == 3


def test_backfill_waits_for_each_run_where_none_may_overlap(store: ScheduleStore, app: Celery, worker: Worker) -> None:
    store.create("report", "t", crontab(minute=0), overlap="skip")
    active: list[int] = []

    def progress(number: int) -> None:
        runs = store.runs.active("report")
        active.append(len(runs))
        threading.Thread(target=worker.execute, args=(runs[0].id,)).start()

    found = store.backfill("report", at(9), at(11), progress=progress)

    assert active == [1, 1, 1]
    assert len(found.sent) == len(take(app)) == 3


def test_a_deadline_counts_from_the_send_of_each_run_of_a_backfill(store: ScheduleStore, app: Celery) -> None:
    store.create("report", "t", crontab(minute=0), deadline=600)

    found = store.backfill("report", at(9), at(10), rate=4)

    first, second = (datetime.fromisoformat(message.headers["expires"]) for message in take(app))
    assert second - first > timedelta(seconds=0.2)
    assert [store.runs.get(run_id).expires for run_id in found.sent.values()] == [first, second]


def test_backfill_of_an_interval_keeps_its_phase(store: ScheduleStore) -> None:
    entry = store.create("report", "t", 600.0)
    assert entry.due_at
    phase = entry.due_at - HOUR

    found = store.backfill("report", phase - timedelta(minutes=25), phase, dry_run=True)

    assert found.fire_times == tuple(phase - timedelta(minutes=back) for back in (20, 10, 0))


def test_the_command_shows_first_and_sends_with_yes(store: ScheduleStore, app: Celery) -> None:
    store.create("report", "t", crontab(hour=9, minute=0), timezone="Europe/Vienna")
    span = ("--from", "2026-11-16", "--to", "2026-11-18T12:00")

    shown, sent = run(app, "backfill", "report", *span), run(app, "backfill", "report", *span, "--yes")
    again = run(app, "backfill", "report", *span, "--json")

    assert shown.output.startswith("report: 3 fire times, 0 ran already; 3 missing, from ")
    assert shown.output.endswith("; --yes sends them\n")
    assert sent.output == "report: 3 fire times, 0 ran already, 3 sent\n"
    assert [message.headers["scheduled_for"][:16] for message in take(app)] == [
        "2026-11-16T08:00", "2026-11-17T08:00", "2026-11-18T08:00",
    ]  # fmt: skip
    assert len(json.loads(again.output)["done"]) == 3
    assert run(app, "backfill", "report", *span).output == "report: 3 fire times, 3 ran already; nothing is missing\n"


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("report", "--from", "2026-11-18", "--to", "2026-11-16"), "Error: --from, --to: expected a span in the past"),
        (("report", "--from", "now", "--to", "+2h"), "Error: --from, --to: expected a span in the past"),
        (
            ("report", "--from", "2026-01-01", "--to", "now"),
            "Error: --from, --to: more than 10,000 fire times of 'report'",
        ),
        (("report", "--from", "soon", "--to", "now"), "Error: --from 'soon': expected a time"),
        (("report", "--from", "now", "--to", "now", "--rate", "nan/s"), "Error: --rate 'nan/s': expected a number"),
        (("repor", "--from", "now", "--to", "now"), "Error: no entry named 'repor' in the schedule; did you mean"),
    ],
)
def test_wrong_input_of_backfill_is_one_line(
    store: ScheduleStore, app: Celery, arguments: tuple[str, ...], problem: str
) -> None:
    store.create("report", "t", crontab())

    result = run(app, "backfill", *arguments)

    assert (result.exit_code, result.output.startswith(problem)) == (2, True), result.output
    assert take(app) == []


# Completion


def test_ids_of_active_runs_are_completed(
    store: ScheduleStore, app: Celery, worker: Worker, client: redis.Redis
) -> None:
    store.create("report", "t", 3600)
    ended, active = store.trigger("report"), store.trigger("report")
    worker.execute(ended)

    shell = ShellComplete(redisbeater, {"obj": SimpleNamespace(app=app)}, "redisbeater", "_COMPLETE")
    for words in (["stop"], ["restart"], ["run"]):
        assert [item.value for item in shell.get_completions(words, active[:4])] == [active]
        assert shell.get_completions(words, "nothing") == []
