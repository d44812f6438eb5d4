"""The transitions of a run in Redis: which there are, what each leaves, and which are refused."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from run_site import LEASE, QUEUE, RunSite, runs_of

from redisbeater import LockNotOwnedError, RunActive, ScheduleStore
from redisbeater.results import RunCounts, State

S = State


@pytest.fixture
def site(run_site: RunSite) -> RunSite:
    return run_site


# -- from beat to the worker


def test_a_run_that_was_sent_is_recorded_with_its_entry(site: RunSite) -> None:
    site.send("a", by="anna", note="why not")

    run = site.runs.run("a")
    assert run is not None
    assert (run.name, run.task, run.state, run.attempt, run.kind.value) == (
        "report",
        "proj.work",
        S.SENT,
        1,
        "schedule",
    )
    assert (run.sent_at, run.fire_time, run.by, run.note) == (site.clock.now, site.clock.now, "anna", "why not")
    assert run.lease_end == site.clock.now + timedelta(seconds=QUEUE)
    assert (site.active(), site.runs.counts("report").sent) == ({"a"}, 1)


def test_a_run_ends_where_its_worker_says(site: RunSite) -> None:
    site.send("a")
    assert site.start("a", worker="celery@w1", pid=7) == "STARTED"
    site.clock.go_on(5)

    assert site.finish("a", result="42", seconds=3.5) == "FINISHED"

    run = site.runs.run("a")
    assert run is not None
    assert (run.state, run.worker, run.pid, run.starts, run.result, run.took) == (
        S.SUCCESS,
        "celery@w1",
        7,
        1,
        "42",
        3.5,
    )
    assert (run.payload, run.lease_end, run.is_final) == ("", None, True)
    assert (site.active(), site.client.exists(site.keys.active)) == (set(), 0)
    assert 0 < site.client.ttl(site.keys.run("a")) <= 7 * 86_400
    assert site.runs.counts("report") == RunCounts(sent=1, success=1)


def test_a_worker_may_be_quicker_than_the_commit(site: RunSite) -> None:
    claim = site.claim()
    site.start("a")
    site.finish("a")

    site.commit(claim, site.new("a"))

    run = site.runs.run("a")
    assert run is not None
    assert (run.state, run.sent_at, run.payload, run.kind.value) == (S.SUCCESS, site.clock.now, "", "schedule")
    assert (site.active(), site.runs.counts("report")) == (set(), RunCounts(sent=1, success=1))


def test_a_commit_that_is_repeated_counts_a_run_once(site: RunSite) -> None:
    site.send("a")
    site.start("a")

    site.send("a")

    assert (site.state("a"), site.runs.counts("report").sent) == (S.STARTED, 1)


@pytest.mark.parametrize(
    ("terms", "seconds"),
    [
        pytest.param({}, QUEUE, id="from-now-on"),
        pytest.param({"eta": 100}, QUEUE + 100, id="from-its-eta-on"),
        pytest.param({"expires": 50}, 50, id="until-it-expires"),
        pytest.param({"expires": QUEUE + 50}, QUEUE, id="which-may-be-later"),
    ],
)
def test_a_run_may_wait_for_its_start(site: RunSite, terms: dict[str, int], seconds: int) -> None:
    site.send("a", **{name: site.clock.now + timedelta(seconds=later) for name, later in terms.items()})

    run = site.runs.run("a")
    assert run is not None
    assert run.lease_end == site.clock.now + timedelta(seconds=seconds)


# -- executions


def test_the_same_start_again_is_the_same_execution(site: RunSite) -> None:
    site.send("a")
    first = site.start("a"), site.start("a")

    run = site.runs.run("a")
    assert run is not None
    assert (first, run.starts) == (("STARTED", "STARTED"), 1)


def test_a_run_with_a_live_lease_runs_already(site: RunSite) -> None:
    site.send("a")
    site.start("a")
    site.clock.go_on(20)

    assert site.runs.start(site.execution("a", "w2:2:b")) == ("RUNNING", LEASE - 20)
    run = site.runs.run("a")
    assert run is not None
    assert (run.holder, run.starts, run.note) == ("w1:1:a", 1, "2 executions")


@pytest.mark.parametrize(
    ("fields", "word"),
    [
        pytest.param({"is_redelivered": True}, "STARTED", id="redelivered"),
        pytest.param({"is_redelivered": True, "is_exclusive": True}, "RUNNING", id="to-a-task-that-refuses"),
        pytest.param({"step": 1}, "STARTED", id="published-by-the-one-before"),
        pytest.param({"step": 1, "is_exclusive": True}, "STARTED", id="which-is-over"),
        pytest.param({"is_exclusive": True}, "RUNNING", id="a-copy"),
    ],
)
def test_who_may_take_a_live_lease_over(site: RunSite, fields: dict[str, int], word: str) -> None:
    site.send("a")
    site.start("a")

    assert site.start("a", "w2:2:b", **fields) == word
    assert site.finish("a") == ("LATE" if word == "STARTED" else "FINISHED")


@pytest.mark.parametrize("state", [S.SUCCESS, S.FAILURE, S.REVOKED])
def test_a_run_that_has_ended_starts_only_when_the_broker_gives_it_out_again(site: RunSite, state: State) -> None:
    site.send("a")
    site.start("a")
    site.finish("a", state)

    assert site.start("a", "w2:2:b") == "DUPLICATE"
    assert site.start("a", "w2:2:b", is_redelivered=True) == ("DUPLICATE" if state is S.SUCCESS else "STARTED")


def test_an_expired_run_that_starts_has_started(site: RunSite) -> None:
    site.send("a", expires=site.clock.now + timedelta(seconds=10))
    site.clock.go_on(11)
    (run,) = site.runs.overdue()
    assert site.runs.lose(run, S.EXPIRED) == "LOST"

    assert site.start("a") == "STARTED"
    assert (site.state("a"), site.client.ttl(site.keys.run("a"))) == (S.STARTED, -1)


def test_another_try_may_start_before_the_end_of_the_first_is_recorded(site: RunSite) -> None:
    site.send("a")
    site.start("a")
    site.start("a", "w2:2:b", step=1)

    assert site.finish("a", S.RETRY) == "FINISHED"
    assert site.finish("a", holder="w2:2:b", step=1) == "FINISHED"
    assert site.finish("a", S.RETRY) == "FINISHED"
    assert site.runs.counts("report").success == 1
    run = site.runs.run("a")
    assert run is not None
    assert (run.state, run.starts, run.note) == (S.SUCCESS, 2, "")


def test_a_try_of_an_attempt_that_was_lost_is_a_second_execution(site: RunSite) -> None:
    site.send("a")
    site.start("a")
    site.start("a", "w2:2:b", attempt=2)
    site.start("a", "w2:2:c", attempt=2, step=1)

    assert site.finish("a", S.RETRY) == "LATE"
    run = site.runs.run("a")
    assert run is not None
    assert (run.state, run.holder, run.note) == (S.STARTED, "w2:2:c", "2 executions")


def test_a_run_that_is_to_be_tried_again_waits_from_then_on(site: RunSite) -> None:
    site.send("a")
    site.start("a")

    site.finish("a", S.RETRY, retry_in=300)

    run = site.runs.run("a")
    assert run is not None
    assert (run.state, run.is_final, site.active()) == (S.RETRY, False, {"a"})
    assert run.lease_end == site.clock.now + timedelta(seconds=300 + QUEUE)
    assert (site.start("a", "w2:2:b", step=1), site.runs.counts("report")) == ("STARTED", RunCounts(sent=1))


def test_an_end_that_is_reported_again_while_a_run_waits_for_its_next_try_is_the_same_end(site: RunSite) -> None:
    """Of two executions one is to be tried again; the other ends, and the reply to its report is lost."""
    site.send("a")
    site.start("a", "w1:1:a")
    site.clock.go_on(LEASE + 1)
    site.start("a", "w2:2:b", is_redelivered=True)
    site.finish("a", S.RETRY, holder="w2:2:b", retry_in=300)

    words = [site.finish("a", S.REVOKED, holder="w1:1:a") for _ in range(2)]

    assert words == ["FINISHED", "FINISHED"]


def test_an_end_is_counted_once(site: RunSite) -> None:
    site.send("a")
    site.start("a")

    words = [site.finish("a", S.FAILURE, error="ValueError: no feed"), site.finish("a", S.FAILURE)]

    assert words == ["FINISHED", "FINISHED"]
    assert site.runs.counts("report") == RunCounts(sent=1, failure=1, failures=1)
    run = site.runs.run("a")
    assert run is not None
    assert (run.error, run.payload != "") == ("ValueError: no feed", True)


@pytest.mark.parametrize("state", [S.SUCCESS, S.FAILURE, S.REVOKED])
def test_an_end_is_not_overwritten_by_another_execution(site: RunSite, state: State) -> None:
    site.send("a")
    site.start("a")
    site.start("a", "w2:2:b", is_redelivered=True)
    site.finish("a", state, "w2:2:b")

    words = [site.finish("a", S.FAILURE if state is S.SUCCESS else S.SUCCESS), site.finish("a", S.EXPIRED, "")]

    counts = site.runs.counts("report")
    assert (words, site.state("a")) == (["LATE", "LATE"], state)
    assert counts.success + counts.failure + counts.revoked == 1


def test_a_run_has_the_worker_that_began_it_last(site: RunSite) -> None:
    site.send("a")
    site.start("a", "w1:1:a", worker="reports@w1", pid=1)
    site.start("a", "w2:2:b", is_redelivered=True, worker="celery@w2", pid=2)

    run = site.runs.run("a")

    assert run is not None
    assert (run.worker, run.pid, run.holder) == ("celery@w2", 2, "w2:2:b")
    assert site.client.hmget(site.keys.run("a"), "worker", "pid") == [None, None]


def test_the_main_process_ends_a_run_of_its_child_by_host_and_process(site: RunSite) -> None:
    site.send("a")
    site.start("a", "w1:12:token")

    words = [site.finish("a", S.REVOKED, holder) for holder in ("w1:1:", "w2:12:", "w1:12:")]

    assert (words, site.state("a")) == (["LATE", "LATE", "FINISHED"], S.REVOKED)


@pytest.mark.parametrize("state", [S.REVOKED, S.EXPIRED])
def test_a_run_that_no_worker_has_started_ends_without_a_holder(site: RunSite, state: State) -> None:
    site.send("a")

    assert [site.finish("a", state, ""), site.finish("a", state, "")] == ["FINISHED", "FINISHED"]
    counts = site.runs.counts("report")
    assert (site.state("a"), counts.revoked + counts.expired, site.active()) == (state, 1, set())


def test_a_run_that_is_executed_does_not_end_without_a_holder(site: RunSite) -> None:
    site.send("a")
    site.start("a")

    assert (site.finish("a", S.REVOKED, ""), site.state("a")) == ("LATE", S.STARTED)


def test_a_run_of_which_nothing_is_stored_is_recorded_at_its_end(site: RunSite) -> None:
    assert site.finish("a", S.FAILURE, error="ValueError: no feed", worker="celery@w1") == "FINISHED"

    run = site.runs.run("a")
    assert run is not None
    assert (run.name, run.state, run.worker, run.error) == ("report", S.FAILURE, "celery@w1", "ValueError: no feed")
    assert site.runs.history("report") == site.runs.history("report", states={S.FAILURE})


@pytest.mark.parametrize("name", ["", ":log", "x" * 513], ids=["empty", "a-key-of-the-schedule", "too-long"])
def test_a_message_with_a_name_that_no_entry_has_is_not_recorded(site: RunSite, name: str) -> None:
    before = set(site.client.scan_iter(f"{site.keys.prefix}*"))

    assert site.start("a", name=name) == "STARTED"
    assert site.finish("a", name=name) == "FINISHED"
    assert site.finish("b", S.EXPIRED, "", name=name) == "FINISHED"

    assert set(site.client.scan_iter(f"{site.keys.prefix}*")) == before


# -- leases


def test_a_lease_is_renewed_by_its_holder_only(site: RunSite) -> None:
    site.send("a")
    site.start("a")
    site.clock.go_on(LEASE - 1)

    ours, others = site.runs.renew({"a": "w1:1:a", "x": "w1:1:a"}), site.runs.renew({"a": "w2:2:b"})

    assert (ours.to_stop, ours.not_ours, others.not_ours) == (frozenset(), frozenset(), {"a"})
    run = site.runs.run("a")
    assert run is not None
    assert (run.seen_at, run.lease_end) == (site.clock.now, site.clock.now + timedelta(seconds=LEASE))


def test_a_dead_execution_holds_its_run_for_ten_seconds_more(site: RunSite) -> None:
    site.send("a")
    site.start("a")
    site.runs.drop(site.execution("a", "w1:1:"), error="WorkerLostError: signal 9")
    site.clock.go_on(9)
    site.runs.drop(site.execution("a", "w1:1:"))
    before = site.lose_overdue()
    site.clock.go_on(2)

    assert (before, site.lose_overdue()) == ([], ["a"])
    run = site.runs.run("a")
    assert run is not None
    assert (run.state, run.error) == (S.LOST, "WorkerLostError: signal 9")
    assert site.runs.drop(site.execution("a")) == "LATE"


def test_an_execution_that_died_before_its_start_could_be_written_is_lost_soon(site: RunSite) -> None:
    site.send("a")
    execution = site.execution("a", "w1:1:", worker="w1", pid=1)
    words = [site.runs.drop(execution, error="WorkerLostError: signal 15") for _ in range(2)]
    begun = site.runs.run("a")
    assert begun is not None
    assert (words, begun.state, begun.starts, begun.worker) == (["DROPPED", "DROPPED"], S.STARTED, 1, "w1")

    site.clock.go_on(11)

    assert site.lose_overdue(requeue_in=10) == ["a"]
    assert site.state("a") == S.LOST


@pytest.mark.parametrize("reports", ["start dead interrupted", "start interrupted dead", "dead start interrupted"])
def test_in_any_order_the_reports_of_a_death_are_one_execution_and_why_it_died(site: RunSite, reports: str) -> None:
    site.send("a")
    steps: dict[str, Callable[[], str]] = {
        "start": lambda: site.start("a"),
        "interrupted": lambda: site.runs.drop(site.execution("a"), error="its task was interrupted"),
        "dead": lambda: site.runs.drop(site.execution("a", "w1:1:"), error="WorkerLostError: exitcode 3"),
    }

    words = {step: steps[step]() for step in reports.split()}

    assert words == {"start": "STARTED", "interrupted": "DROPPED", "dead": "DROPPED"}
    run = site.runs.run("a")
    assert run is not None
    assert (run.state, run.error, run.starts, run.note) == (S.STARTED, "WorkerLostError: exitcode 3", 1, "")
    assert run.lease_end == site.clock.now + timedelta(seconds=10)


@pytest.mark.parametrize("acks_late", [True, False])
def test_a_dead_execution_says_whether_the_broker_gives_its_message_out_again(site: RunSite, acks_late: bool) -> None:
    site.send("a")
    site.start("a", acks_late=True)
    site.runs.drop(site.execution("a", "w1:1:", acks_late=acks_late))
    site.clock.go_on(11)

    [run] = site.runs.overdue()
    assert run.acks_late is acks_late


def test_a_dead_execution_of_an_older_attempt_does_not_touch_the_next(site: RunSite) -> None:
    site.send("a")
    site.start("a")
    site.clock.go_on(LEASE + 1)
    site.lose_overdue(requeue_in=0)
    claim = site.claim()
    site.commit(claim, resent=site.runs.take(token=""))
    assert site.state("a") == S.SENT

    assert site.runs.drop(site.execution("a", "w1:1:")) == "LATE"

    run = site.runs.run("a")
    assert run is not None
    assert (run.state, run.attempt, run.starts) == (S.SENT, 2, 1)


def test_a_lost_run_is_final_without_a_requeue(site: RunSite) -> None:
    site.send("a")
    site.start("a")
    site.clock.go_on(LEASE + 1)

    assert (site.lose_overdue(), site.lose_overdue()) == (["a"], [])
    assert (site.state("a"), site.active(), site.runs.take(token="")) == (S.LOST, set(), [])
    assert site.runs.counts("report") == RunCounts(sent=1, lost=1, failures=1)
    assert site.store.log.of_entry("report")[0].what == "lost"


def test_a_run_that_was_renewed_since_is_alive(site: RunSite) -> None:
    site.send("a")
    site.start("a")
    site.clock.go_on(LEASE + 1)
    (run,) = site.runs.overdue()
    site.runs.renew({"a": "w1:1:a"})

    assert (site.runs.lose(run), site.state("a")) == ("ALIVE", S.STARTED)


def test_a_lost_run_is_sent_again_with_the_next_attempt_and_its_id(site: RunSite) -> None:
    site.send("a")
    site.start("a")
    site.clock.go_on(LEASE + 1)
    site.lose_overdue(requeue_in=10)
    early = site.runs.take(token="")
    assert (early, site.claim().next_resend) == ([], site.clock.now + timedelta(seconds=10))
    site.clock.go_on(10)

    (run,) = site.runs.take(token="")
    assert (run.id, run.attempt, run.state, "proj.work" in run.payload) == ("a", 2, S.LOST, True)
    assert site.runs.take(token="") == []
    site.commit(site.claim(), resent=[run])

    assert (site.state("a"), site.active(), site.runs.counts("report").sent) == (S.SENT, {"a"}, 1)
    assert (site.start("a", "w3:3:c"), site.start("a", "w2:2:b", attempt=2)) == ("DUPLICATE", "STARTED")


def test_what_was_taken_and_never_committed_comes_up_again(site: RunSite) -> None:
    site.send("a")
    site.start("a")
    site.clock.go_on(LEASE + 1)
    site.lose_overdue(requeue_in=0)

    taken = [len(site.runs.take(token="")) for _ in range(3) if site.clock.go_on(20) is None]

    assert taken == [1, 0, 1]


def test_nothing_is_taken_by_a_beat_that_does_not_lead_or_while_the_schedule_is_paused(site: RunSite) -> None:
    site.send("a")
    site.clock.go_on(QUEUE + 1)
    site.lose_overdue(requeue_in=0)
    with pytest.raises(LockNotOwnedError):
        site.runs.take(token="another")
    site.client.set(site.keys.pause, "{}")

    paused = site.runs.take(token="")
    site.client.delete(site.keys.pause)

    assert (paused, [run.id for run in site.runs.take(token="")]) == ([], ["a"])


def test_an_execution_that_was_thought_lost_gets_its_run_back(site: RunSite) -> None:
    site.send("a")
    site.start("a")
    site.clock.go_on(LEASE + 1)
    site.lose_overdue(requeue_in=10)

    assert site.runs.renew({"a": "w1:1:a"}).not_ours == frozenset()

    run = site.runs.run("a")
    assert run is not None
    assert (run.state, run.attempt, run.resend_at, site.active()) == (S.STARTED, 1, None, {"a"})
    site.clock.go_on(10)
    assert (site.runs.take(token=""), site.finish("a")) == ([], "FINISHED")


def test_but_not_once_beat_has_begun_to_send_it_again(site: RunSite) -> None:
    site.send("a")
    site.start("a")
    site.clock.go_on(LEASE + 1)
    site.lose_overdue(requeue_in=0)
    site.runs.take(token="")

    assert (site.runs.renew({"a": "w1:1:a"}).not_ours, site.finish("a", S.FAILURE)) == ({"a"}, "LATE")
    assert site.state("a") is S.LOST


def test_a_late_success_counts_while_the_next_attempt_has_not_started(site: RunSite) -> None:
    site.send("a")
    site.start("a")
    site.clock.go_on(LEASE + 1)
    site.lose_overdue(requeue_in=0)
    site.commit(site.claim(), resent=site.runs.take(token=""))

    assert site.finish("a") == "FINISHED"

    run = site.runs.run("a")
    assert run is not None
    assert (run.state, run.note, site.active()) == (S.SUCCESS, "2 executions", set())
    assert site.start("a", "w2:2:b", attempt=2) == "DUPLICATE"


def test_a_late_success_is_a_note_once_it_has(site: RunSite) -> None:
    site.send("a")
    site.start("a")
    site.clock.go_on(LEASE + 1)
    site.lose_overdue(requeue_in=0)
    site.commit(site.claim(), resent=site.runs.take(token=""))
    site.start("a", "w2:2:b", attempt=2)

    assert site.finish("a") == "LATE"
    run = site.runs.run("a")
    assert run is not None
    assert (run.state, run.holder, run.note) == (S.STARTED, "w2:2:b", "2 executions")


def test_where_one_run_at_a_time_is_wanted_a_dead_lease_is_not_renewed_beside_another(site: RunSite) -> None:
    site.send("a", is_alone=True)
    site.start("a")
    site.clock.go_on(LEASE + 1)
    site.send("b", is_alone=True)
    site.start("b", "w2:2:b")

    assert site.runs.renew({"a": "w1:1:a"}).not_ours == {"a"}
    site.finish("b", holder="w2:2:b")
    assert site.runs.renew({"a": "w1:1:a"}).not_ours == frozenset()


@pytest.mark.parametrize("is_lost", [False, True], ids=["its-time-in-the-queue-is-over", "it-is-lost-for-good"])
def test_where_one_run_at_a_time_is_wanted_a_task_that_refuses_waits_for_a_later_one(
    site: RunSite, is_lost: bool
) -> None:
    site.send("a", is_alone=True)
    if is_lost:
        site.start("a", acks_late=True)
    site.clock.go_on(QUEUE + 1)
    if is_lost:
        assert site.lose_overdue() == ["a"]
    site.send("b", is_alone=True)
    fields = {"is_redelivered": True, "is_exclusive": True}

    assert site.runs.start(site.execution("a", "w3:3:c", **fields)) == ("RUNNING", LEASE)
    site.start("b", "w2:2:b")
    site.clock.go_on(20)
    assert site.runs.start(site.execution("a", "w3:3:c", **fields)) == ("RUNNING", LEASE - 20)
    assert site.active() - {"a"} == {"b"}
    site.finish("b", holder="w2:2:b")
    assert site.start("a", "w3:3:c", **fields) == "STARTED"


# -- one at a time


def test_a_claim_says_what_is_active(site: RunSite) -> None:
    assert site.claim().entries[0].active == ()
    site.send("a")
    site.clock.go_on(60)
    (entry,) = site.claim().entries
    assert (entry.active, entry.buffered, entry.failures, entry.is_abandoned) == (("a",), "", 0, False)
    site.clock.go_on(31)

    (again,) = site.claim().entries

    assert (again.active, again.is_abandoned) == (("a",), True)


def test_a_dead_worker_holds_its_entry_up_no_longer_than_its_lease(site: RunSite) -> None:
    site.send("a")
    site.start("a")
    site.clock.go_on(LEASE)

    assert [entry.active for entry in site.claim().entries] == [()]


def test_a_run_that_waits_is_kept_for_a_year_and_once_it_is_sent_without_a_limit(site: RunSite) -> None:
    site.send("a")
    site.send("b", state=S.BUFFERED)
    keys = (site.keys.run("b"), site.keys.payload_of("b"))
    waiting = [site.client.ttl(key) for key in keys]
    site.start("a")
    site.finish("a")

    site.commit(site.claim(), resent=site.runs.take(token=""))

    assert all(365 * 86_400 < seconds <= 366 * 86_400 for seconds in waiting)
    assert (site.state("b"), [site.client.ttl(key) for key in keys]) == (S.SENT, [-1, -1])


def test_a_buffered_run_is_sent_when_the_one_before_it_ends(site: RunSite) -> None:
    site.send("a")
    site.send("b", state=S.BUFFERED)
    assert (site.state("b"), site.runs.counts("report").buffered, site.active()) == (S.BUFFERED, "b", {"a"})
    site.start("a")
    assert site.runs.take(token="") == []

    site.finish("a")

    assert (site.runs.counts("report").buffered, site.active()) == ("", {"b"})
    taken = site.runs.take(token="")
    site.commit(site.claim(), resent=taken)
    assert ([run.id for run in taken], site.state("b"), site.runs.counts("report").sent) == (["b"], S.SENT, 2)


def test_a_run_that_is_buffered_when_nothing_is_active_any_more_is_sent_at_once(site: RunSite) -> None:
    site.send("a")
    site.clock.go_on(60)
    claim = site.claim()
    site.start("a")
    site.finish("a")

    site.commit(claim, site.new("b", state=S.BUFFERED))

    assert [run.id for run in site.runs.take(token="")] == ["b"]


def test_a_newer_buffered_run_replaces_the_one_that_waits(site: RunSite) -> None:
    site.send("a")
    site.send("b", state=S.BUFFERED)

    site.send("c", state=S.BUFFERED)

    assert (site.state("b"), site.runs.counts("report").buffered) == (None, "c")
    assert {run.id for run in site.runs.history("report")} == {"a", "c"}


def test_what_waits_for_an_entry_that_deletes_itself_is_sent_one_after_the_other(site: RunSite) -> None:
    site.send("a")
    site.send("b", state=S.BUFFERED)
    site.clock.go_on(60)
    site.commit(site.claim(), next=None)
    site.start("a")
    assert (site.client.exists(site.keys.entry("report")), site.runs.take(token="")) == (0, [])
    site.finish("a")
    site.clock.go_on(5)

    taken = site.runs.take(token="")

    assert [run.id for run in taken] == ["b"]
    site.store.commit(site.claim(), [], taken)
    assert (site.state("b"), site.client.exists(site.keys.entry("report"))) == (S.SENT, 0)


# -- stop and reserve


def test_a_run_that_is_to_stop_is_asked_at_its_next_renewal(site: RunSite) -> None:
    site.send("a")
    site.start("a")

    stopped = site.runs.stop("a", by="anna@ops1", note="wrong day")

    assert stopped is not None
    assert (stopped.state, stopped.is_to_stop, stopped.by, stopped.note) == (S.STARTED, True, "anna@ops1", "wrong day")
    assert site.runs.renew({"a": "w1:1:a"}).to_stop == {"a"}
    (line, *_) = site.store.log.of_entry("report")
    assert (line.what, line.details["by"]) == ("stopped", "anna@ops1")


def test_a_run_that_is_to_stop_before_its_start_says_so_at_its_start(site: RunSite) -> None:
    site.send("a")
    site.runs.stop("a")

    assert site.start("a") == "STOP"
    assert site.finish("a", S.REVOKED) == "FINISHED"


def test_a_buffered_run_is_stopped_at_once(site: RunSite) -> None:
    site.send("a")
    site.send("b", state=S.BUFFERED)

    stopped = site.runs.stop("b")

    assert stopped is not None
    assert (stopped.state, site.runs.counts("report").buffered) == (S.REVOKED, "")
    assert (site.runs.stop("x"), site.client.ttl(site.keys.run("b")) > 0) == (None, True)


def test_a_lost_run_that_is_stopped_is_not_sent_again(site: RunSite) -> None:
    site.send("a")
    site.start("a")
    site.clock.go_on(LEASE + 1)
    site.lose_overdue(requeue_in=0)

    stopped = site.runs.stop("a")

    assert stopped is not None
    assert (stopped.state, site.runs.take(token=""), site.active()) == (S.REVOKED, [], set())


def test_a_run_that_has_ended_cannot_be_stopped(site: RunSite) -> None:
    site.send("a")
    site.start("a")
    site.finish("a")

    stopped = site.runs.stop("a")

    assert stopped is not None
    assert (stopped.state, stopped.is_to_stop) == (S.SUCCESS, False)


@pytest.mark.parametrize(
    ("overlap", "outcomes"),
    [
        pytest.param("allow", [("RESERVED", ()), ("RESERVED", ())], id="allow"),
        pytest.param("skip", [("BUSY", ("a",)), ("BUSY", ("a",))], id="skip"),
        pytest.param("buffer_one", [("BUFFERED", ("a",)), ("BUSY", ("a", "b"))], id="buffer_one"),
        pytest.param("cancel_other", [("BUFFERED", ("a",)), ("BUFFERED", ("a",))], id="cancel_other"),
    ],
)
def test_what_a_program_may_send_beside_an_active_run(
    site: RunSite, overlap: str, outcomes: list[tuple[str, tuple[str, ...]]]
) -> None:
    site.send("a")

    found = [site.runs.reserve(site.new(run_id), overlap) for run_id in ("b", "c")]

    assert [(each.outcome, each.active) for each in found] == outcomes


def test_a_program_waits_for_a_claim(site: RunSite) -> None:
    claim = site.claim()

    assert site.runs.reserve(site.new("b"), "skip").outcome == "CLAIMED"
    site.commit(claim)
    assert (site.runs.reserve(site.new("b"), "skip").outcome, site.state("b")) == ("RESERVED", S.SENT)


def test_a_reserved_run_that_could_not_be_sent_is_lost_and_no_failure(site: RunSite) -> None:
    site.runs.reserve(site.new("b"))

    assert site.runs.withdraw("b", error="SendFailed: no broker") == "LOST"
    run = site.runs.run("b")
    assert run is not None
    assert (run.state, run.error, site.runs.counts("report").failures) == (S.LOST, "SendFailed: no broker", 0)
    assert site.active() == set()


# -- records that somebody deletes

#: What is reported of a run, step by step.
STEPS: dict[str, Callable[[RunSite], object]] = {
    "send": lambda site: site.send("a"),
    "start": lambda site: site.start("a"),
    "renew": lambda site: site.runs.renew({"a": "w1:1:a"}),
    "retry": lambda site: site.finish("a", S.RETRY, retry_in=5),
    "try again": lambda site: site.start("a", "w1:1:b", step=1),
    "renew again": lambda site: site.runs.renew({"a": "w1:1:b"}),
    "die": lambda site: site.runs.drop(site.execution("a", "w1:1:b", step=1)),
    "be lost": lambda site: site.clock.go_on(LEASE + 1) or site.lose_overdue(requeue_in=0),
    "be sent again": lambda site: site.store.commit(site.claim(), [], site.runs.take(token="")),
    "be executed again": lambda site: site.start("a", "w2:2:c", attempt=2),
    "be stopped": lambda site: site.runs.stop("a"),
    "end": lambda site: site.finish("a", S.SUCCESS, "w2:2:c", attempt=2, seconds=2.0),
}


@pytest.mark.parametrize("is_flushed", [False, True], ids=["the-record", "the-schedule"])
@pytest.mark.parametrize("after", list(STEPS)[:-1])
def test_what_is_deleted_in_the_middle_of_a_run_leaves_no_half_of_it(
    site: RunSite, after: str, is_flushed: bool
) -> None:
    for step, do in STEPS.items():
        do(site)
        if step == after:
            found = site.client.scan_iter(f"{site.keys.prefix}*") if is_flushed else [site.keys.run("a")]
            site.client.delete(*(key for key in found if not key.endswith("clock")))

    run = site.runs.run("a")
    assert run is not None
    assert (run.state, run.name, run.task, run.holder) == (S.SUCCESS, "report", "proj.work", "w2:2:c")
    assert run.took == 2.0
    assert (site.active(), site.client.exists(site.keys.active, site.keys.resend)) == (set(), 0)
    assert site.client.ttl(site.keys.run("a")) > 0
    assert [each.id for each in site.runs.history("report")] == ["a"]


# -- the entry


def test_a_deleted_entry_leaves_no_run_but_those_that_are_executed(site: RunSite) -> None:
    for run_id in "ab":
        site.send(run_id)
        site.start(run_id)
    site.finish("a")
    site.send("c", state=S.BUFFERED)

    site.store.delete("report")

    assert runs_of(site.client, site.keys) == {"b"}
    assert site.finish("b") == "FINISHED"
    assert (site.client.exists(site.keys.entry("report")), site.client.ttl(site.keys.run("b")) > 0) == (0, True)


def test_a_person_who_disables_an_entry_revokes_what_waits(site: RunSite) -> None:
    site.send("a")
    site.send("b", state=S.BUFFERED)

    ScheduleStore(site.app).disable("report")

    assert (site.state("b"), site.state("a"), site.active()) == (S.REVOKED, S.SENT, {"a"})


def test_a_person_who_enables_an_entry_forgives_its_failures(site: RunSite) -> None:
    site.send("a")
    site.start("a")
    site.finish("a", S.FAILURE)
    store = ScheduleStore(site.app)
    store.disable("report")
    assert site.runs.counts("report").failures == 1

    store.enable("report")

    assert (site.runs.counts("report").failures, site.runs.counts("report").failure) == (0, 1)


def test_the_history_goes_with_a_new_name(site: RunSite) -> None:
    store = ScheduleStore(site.app)
    site.send("a")
    with pytest.raises(RunActive):
        store.rename("report", "weekly")
    site.start("a")
    site.finish("a")

    store.rename("report", "weekly")

    assert [(run.id, run.name) for run in site.runs.history("weekly")] == [("a", "weekly")]
    assert (site.runs.history("report"), site.runs.counts("weekly").success) == ([], 1)


# -- history


def test_the_history_keeps_the_newest_that_have_ended_and_all_that_have_not(site: RunSite) -> None:
    for number in range(9):
        site.clock.go_on(1)
        site.send(f"r{number}")
        if number > 1:
            site.start(f"r{number}")
            site.finish(f"r{number}")

    kept = [run.id for run in site.runs.history("report")]

    assert kept == ["r8", "r7", "r6", "r5", "r4", "r1", "r0"]
    assert runs_of(site.client, site.keys) == set(kept)
    assert [run.id for run in site.runs.history("report", 2, states={S.SUCCESS})] == ["r8", "r7"]
    before = site.runs.history("report", before=site.clock.now - timedelta(seconds=3))
    assert [run.id for run in before] == ["r4", "r1", "r0"]
    assert {run.id for run in site.runs.active("report")} == {"r0", "r1"}


def test_thousands_of_runs_leave_no_more_than_the_cap(site: RunSite) -> None:
    for number in range(1000):
        site.runs.reserve(site.new(f"r{number}"))
        site.start(f"r{number}")
        site.finish(f"r{number}")

    assert len(runs_of(site.client, site.keys)) == len(site.runs.history("report", 1000)) == 5
    assert site.runs.counts("report") == RunCounts(sent=1000, success=1000)


def test_the_totals_count_states_and_durations(site: RunSite) -> None:
    for run_id, seconds in (("a", 0.05), ("b", 7.0), ("c", 100_000.0)):
        site.send(run_id)
        site.start(run_id)
        site.finish(run_id, seconds=seconds)

    assert (site.runs.totals(), site.runs.has_reported()) == (
        {
            "SENT": 3,
            "STARTED": 3,
            "SUCCESS proj.work": 3,
            "<=0.1 proj.work": 1,
            "<=15 proj.work": 1,
            "<=+Inf proj.work": 1,
            "ms proj.work": 100_007_050,
        },
        True,
    )


def test_changes_of_runs_are_published(site: RunSite) -> None:
    listener = site.client.pubsub(ignore_subscribe_messages=True)
    listener.subscribe(site.keys.events, site.keys.changes)
    for _ in range(2):  # the confirmations
        listener.get_message(timeout=1)
    site.send("a")
    site.send("b", state=S.BUFFERED)
    site.start("a")
    site.finish("a")

    messages = []
    while message := listener.get_message(timeout=0.2):
        messages.append((message["channel"].rpartition("::")[2], message["data"]))

    listener.close()
    assert messages == [*[("events", '["report"]')] * 3, ("changes", ":runs"), ("events", '["report"]')]
