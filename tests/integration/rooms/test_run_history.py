"""The history of an entry, one run, and what show, why and status say of runs: with a fixed clock."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import datetime, timezone
from types import SimpleNamespace
from typing import Any

import pytest
import redis
from celery import Celery
from celery.schedules import crontab
from click.testing import CliRunner, Result
from support.recorded import NOW, NOW_TEXT, record, vienna

from redisbeater import ImproperlyConfigured, RedisScheduleEntry, Run, RunNotFound, ScheduleStore
from redisbeater.cli import redisbeater
from redisbeater.context import Context
from redisbeater.management.why.past import explain
from redisbeater.times import to_unix

GOING = "91ab0000-0000-4000-8000-000000000001"

Write = Callable[..., str]


@pytest.fixture
def app(make_app: Callable[..., Celery]) -> Celery:
    return make_app("shop", timezone="Europe/Vienna", redisbeater_track_runs=True)


@pytest.fixture
def write(client: redis.Redis, prefix: str) -> Write:
    """Store a run of an entry."""
    return lambda *arguments, **fields: record(client, prefix, *arguments, **fields)


@pytest.fixture
def log(client: redis.Redis, prefix: str) -> Callable[..., None]:
    """Replace the log of an entry: word, local time, count, details; the newest first."""

    def log(name: str, *lines: tuple[str, str, int, dict[str, Any]]) -> None:
        client.delete(f"{prefix}:log:{name}")
        for what, at, count, details in lines:
            moment = to_unix(vienna(at))
            client.rpush(f"{prefix}:log:{name}", f"{moment} {count} {moment} {what} {json.dumps(details)}")

    return log


def run(app: Celery, *arguments: str) -> Result:
    return CliRunner().invoke(redisbeater, [*arguments, "--now", NOW_TEXT], obj=SimpleNamespace(app=app))


def cells(result: Result) -> list[str]:
    """Return the lines with a bar between columns."""
    assert result.exit_code == 0, result.output
    return [re.sub(r" {2,}", "|", line.strip()) for line in result.stdout.splitlines()]


def stock_sync(store: ScheduleStore, write: Write, log: Callable[..., None], client: redis.Redis, prefix: str) -> None:
    """Store an entry, one run of which is still going, so that the fire time after it was skipped."""
    store.create("stock sync", "shop.tasks.sync", crontab(minute="*/5"), overlap="skip")
    client.zadd(f"{prefix}:schedule", {f"{prefix}stock sync": to_unix(vienna("23:35:00"))})
    client.set(f"{prefix}:lock", "web1:4121:abcdef", px=60_000)
    log("stock sync", ("skipped", "23:30:00", 1, {"reason": "overlap", "run": GOING}))
    for number, minute in enumerate((0, 5, 10)):
        write(
            "stock sync", f"ok-{number}", "SUCCESS", fire_time=f"22:{minute:02}:00", started_at=f"22:{minute:02}:01",
            finished_at=f"22:{minute:02}:41", worker="celery@w1", starts=1, late=0.002,
        )  # fmt: skip
    write(
        "stock sync", "failed", "FAILURE", fire_time="23:20:00", started_at="23:20:01", finished_at="23:20:02.200",
        worker="celery@w1", attempt=2, starts=2, late=0.005, error="ValueError: no feed",
        note="1: LOST, celery@w3 gone",
    )  # fmt: skip
    write(
        "stock sync", GOING, "STARTED", fire_time="23:25:00", started_at="23:25:00", seen_at="23:31:03",
        worker="celery@w1", starts=1, late=0.003,
    )  # fmt: skip


def test_history_shows_runs_and_what_did_not_run(
    store: ScheduleStore, app: Celery, write: Write, log: Callable[..., None], client: redis.Redis, prefix: str
) -> None:
    stock_sync(store, write, log, client, prefix)

    assert cells(run(app, "history", "stock sync", "-n", "3")) == [
        "usually takes 40.0 s, 95 % in 40.0 s",
        "FIRE TIME|STATE|LATE|TOOK|WORKER|TRY|NOTE",
        f"23:30:00|skipped|overlap, because of {GOING}",
        "23:25:00|STARTED|3 ms|6 min|celery@w1|1|seen 4 s ago",
        "23:20:00|FAILURE|5 ms|1.2 s|celery@w1|2|ValueError: no feed, 1: LOST, celery@w3 gone",
    ]


def test_history_selects_by_state_and_time_and_shows_ids(
    store: ScheduleStore, app: Celery, write: Write, log: Callable[..., None], client: redis.Redis, prefix: str
) -> None:
    stock_sync(store, write, log, client, prefix)

    failed = cells(run(app, "history", "stock sync", "--state", "failure,skipped", "--long"))
    recent = cells(run(app, "history", "stock sync", "--since", "23:24", "--long"))

    assert [line.rpartition("|")[2] for line in failed[1:]] == [
        "NOTE",
        f"overlap, because of {GOING}",
        "ValueError: no feed, 1: LOST, celery@w3 gone",
    ]
    assert failed[3].split("|")[-2] == "failed"
    assert [line.partition("|")[0] for line in recent[1:]] == ["FIRE TIME", "23:30:00", "23:25:00"]


def test_history_without_a_name_is_that_of_all_entries(store: ScheduleStore, app: Celery, write: Write) -> None:
    for name in ("a", "b"):
        store.create(name, "t", 60)
    write("a", "one", "SUCCESS", fire_time="23:00:00", kind="trigger", by="anna@ops1")
    write("b", "two", "SENT", fire_time="23:10:00")

    lines = cells(run(app, "history"))

    assert lines[0] == "FIRE TIME|NAME|STATE|LATE|WORKER|TRY|NOTE".replace("LATE|", "LATE|TOOK|")
    assert lines[1:] == [
        "23:10:00|b|SENT|0 ms|1|no worker has reported its start",
        "23:00:00|a|SUCCESS|1|trigger by anna@ops1",
    ]


def test_a_history_without_a_match_does_not_say_that_nothing_is_kept(
    store: ScheduleStore, app: Celery, write: Write, log: Callable[..., None]
) -> None:
    assert run(app, "history").stdout == "nothing is kept of the runs of any entry\n"
    store.create("a", "t", 60)
    log("a")  # leaves no line, such as that of its creation
    write("a", "one", "SUCCESS", fire_time="23:00:00")

    for selection in (("--state", "FAILURE"), ("--since", "now")):
        for name in ((), ("a",)):
            words = run(app, "history", *name, *selection).stdout
            assert words == "nothing is kept that --state and --since select; without them all that is kept is shown\n"


def test_history_as_json_is_one_object_a_line(
    store: ScheduleStore, app: Celery, write: Write, log: Callable[..., None], client: redis.Redis, prefix: str
) -> None:
    stock_sync(store, write, log, client, prefix)

    lines = [json.loads(line) for line in run(app, "history", "stock sync", "-n", "2", "--json").stdout.splitlines()]

    assert [(line["type"], line.get("what") or line["state"]) for line in lines] == [
        ("log", "skipped"),
        ("run", "STARTED"),
    ]
    assert lines[0]["details"] == {"reason": "overlap", "run": GOING}
    assert (lines[1]["id"], lines[1]["fire_time"]) == (GOING, vienna("23:25:00").isoformat())
    assert set(lines[0]) == {"type", "what", "count", "first", "last", "details"}
    assert set(lines[1]) == {
        "type", "id", "name", "task", "state", "kind", "fire_time", "attempt", "starts", "acks_late", "sent_at",
        "started_at", "seen_at", "finished_at", "worker", "pid", "error", "result", "note", "by", "restart_of",
        "is_to_stop", "is_alone", "expires", "lease_end", "resend_at", "version", "queue", "previous_fire_time",
        "coalesced", "due_at", "release",
    }  # fmt: skip


def test_a_page_of_the_history_leads_to_the_next_one(
    store: ScheduleStore, write: Write, log: Callable[..., None], client: redis.Redis, prefix: str
) -> None:
    stock_sync(store, write, log, client, prefix)

    first = store.history("stock sync", 2)
    second = store.history("stock sync", 10, first.before)

    assert [getattr(item, "id", "line") for item in (*first, *second)] == [
        "line", GOING, "failed", "ok-2", "ok-1", "ok-0",
    ]  # fmt: skip
    assert second.before is None


def test_a_page_has_all_runs_of_the_moment_of_its_last_one(store: ScheduleStore, app: Celery, write: Write) -> None:
    for name in ("a", "b"):
        store.create(name, "t", 60)
        write(name, f"old {name}", "SUCCESS", fire_time="22:00:00")
        for number in range(30):
            write(name, f"{name} {number:02}", "SUCCESS", fire_time="23:00:00")

    for name, runs in (("a", 30), (None, 60)):
        first = store.history(name, 20, vienna("23:30:00"))
        second = store.history(name, 20, first.before)
        ids = [item.id for item in (*first, *second) if isinstance(item, Run)]

        assert (len(first), first.before) == (runs, vienna("23:00:00"))
        assert sorted(ids) == sorted({*ids})
        assert [each.startswith("old") for each in ids] == [False] * runs + [True] * (runs // 30)
        assert store.history(name, 20, vienna("23:30:00"), since=vienna("22:30:00")).before is None
    assert len(cells(run(app, "history", "a", "-n", "20"))) == 21


def test_secrets_in_errors_are_blanked(store: ScheduleStore, write: Write) -> None:
    store.create("report", "t", 60)
    write("report", "one", "FAILURE", fire_time="23:00:00", error='KeyError: {"password": "hunter2"}')

    assert store.runs.get("one").error == 'KeyError: {"password": "***"}'
    assert [run.error for run in store.history("report", states=["FAILURE"])] == ['KeyError: {"password": "***"}']  # type: ignore[union-attr]


def test_a_bare_duration_behind_since_means_ago(store: ScheduleStore, app: Celery, write: Write) -> None:
    store.create("report", "t", 60)
    write("report", "one", "SUCCESS", fire_time="23:00:00")

    def found(since: str) -> bool:
        return "SUCCESS" in run(app, "history", "report", "--since", since).stdout

    assert [found("25m"), found("1h")] == [False, True]


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("history", "report", "--state", "FAILED"), "Error: --state: expected BUFFERED, SENT, "),
        (("history", "report", "--since", "soon"), "Error: --since 'soon': expected a time"),
        (("history", "report", "--since", "last week"), "Error: --since 'last week': expected a time such as 2026-"),
        (("history", "report", "--since", "+2h"), "Error: --since '+2h': expected a time such as 2026-11-23T09:00, "),
        (("run", "nobody"), "Error: no run 'nobody' is kept; pass a whole id, or 8 characters of its begin"),
    ],
)
def test_wrong_input_is_one_line(store: ScheduleStore, app: Celery, arguments: tuple[str, ...], problem: str) -> None:
    store.create("report", "t", 60)

    result = run(app, *arguments)

    assert (result.exit_code, result.output.startswith(problem)) == (2, True), result.output


def test_without_records_history_has_the_log_and_the_others_say_what_is_missing(
    make_app: Callable[..., Celery],
) -> None:
    app = make_app()
    store = ScheduleStore(app)
    store.create("report", "t", 60, by="anna@ops1")

    result = CliRunner().invoke(redisbeater, ["history", "report"], obj=SimpleNamespace(app=app))

    assert re.sub(r" {2,}", "|", result.stdout.splitlines()[1]).endswith("|created|by anna@ops1")
    assert "redisbeater_track_runs is off" in result.stderr
    for call in (
        lambda: store.runs.get("x"),
        lambda: store.runs.stop("x"),
        lambda: store.runs.restart("x"),
        lambda: store.runs.wait("x"),
    ):
        with pytest.raises(ImproperlyConfigured, match="redisbeater_track_runs = False: runs are not recorded"):
            call()


def test_one_run_is_shown_with_all_that_is_known(store: ScheduleStore, app: Celery, write: Write) -> None:
    store.create("report", "shop.tasks.sync", 60)
    write(
        "report", "one", "FAILURE", fire_time="23:00:00", started_at="23:00:01", finished_at="23:00:42", late=0.5,
        worker="celery@w2", pid=4121, attempt=2, starts=3, error="ValueError: no feed", acks_late=1,
    )  # fmt: skip

    assert cells(run(app, "run", "one")) == [
        "one|report|shop.tasks.sync",
        "state|FAILURE in 41.0 s on celery@w2: ValueError: no feed",
        "fire time|Sat 21 Nov 2026 23:00:00 CET|31 min 7 s ago",
        "sent|Sat 21 Nov 2026 23:00:00 CET|31 min 6 s ago, 500 ms late",
        "started|Sat 21 Nov 2026 23:00:01 CET|31 min 6 s ago",
        "finished|Sat 21 Nov 2026 23:00:42 CET|30 min 25 s ago",
        "attempt|2, 3 executions",
        "worker|celery@w2, process 4121",
        "acks late|yes: the broker sends it again",
        "error|ValueError: no feed",
        "arguments|not kept",
        "traceback|not kept; the newest 3 failures of an entry have one",
        "entry|failed outside of its schedule",
    ]
    assert json.loads(run(app, "run", "one", "--json").stdout)["state"] == "FAILURE"
    with pytest.raises(RunNotFound):
        store.runs.get("two")


def test_show_has_the_last_run_the_policies_and_the_counts(
    store: ScheduleStore, app: Celery, write: Write, client: redis.Redis, prefix: str
) -> None:
    store.create("report", "shop.tasks.report", 3600, overlap="skip", deadline=3600, misfire_grace_time=None)
    skipped = {"overlap": {"count": 1, "last": datetime(2026, 10, 3, 7, tzinfo=timezone.utc).isoformat()}}
    counts = {"n.sent": 318, "n.success": 317, "n.failure": 1}
    client.hset(f"{prefix}report", mapping={"skipped": json.dumps(skipped), **counts})
    write(
        "report", "5f0c9a1e", "SUCCESS", fire_time="2026-11-20T09:00:00", started_at="2026-11-20T09:00:01",
        finished_at="2026-11-20T09:00:42.200", late=0.04, worker="celery@w2", starts=1,
    )  # fmt: skip

    lines = cells(run(app, "show", "report"))
    data = json.loads(run(app, "show", "report", "--json").stdout)

    assert "last run|Fri 20 Nov 2026 09:00:00 CET|0.04 s late, SUCCESS in 41.2 s on celery@w2|5f0c9a1e" in lines
    assert "counts|318 sent, 317 success, 1 failure, 1 skipped (overlap, last 3 Oct)" in lines
    assert "policies|misfire_grace_time none; overlap skip; deadline 1 h; coalesce latest (setting)" in lines
    assert (data["last_run"]["id"], data["counts"]["success"]) == ("5f0c9a1e", 317)


def test_why_names_the_run_in_the_way_and_how_to_end_it(
    store: ScheduleStore, app: Celery, write: Write, log: Callable[..., None], client: redis.Redis, prefix: str
) -> None:
    stock_sync(store, write, log, client, prefix)

    assert cells(run(app, "why", "stock sync")) == [
        "It did not run at 23:30:00: the run before it was still going (overlap skip).",
        f"Sat 23:25:00|run {GOING} STARTED on celery@w1, seen 4 s ago, running for 6 min 7 s (usual: 40 s)",
        f"Sat 23:30:00|skipped: reason overlap, run {GOING}",
        f"Due again: 23:35:00. To let them overlap: update 'stock sync' --overlap allow. To end it: stop {GOING}",
    ]
    assert cells(run(app, "why", "stock sync", "--at", "23:30"))[:2] == [
        "It did not run: the run before it was still going (overlap skip).",
        f"Sat 23:25:00|run {GOING} STARTED on celery@w1, seen 4 s ago, running for 6 min 7 s (usual: 40 s)",
    ]


def test_why_does_not_promise_that_a_run_that_waits_in_a_queue_can_be_ended(
    store: ScheduleStore, app: Celery, write: Write, log: Callable[..., None], client: redis.Redis, prefix: str
) -> None:
    stock_sync(store, write, log, client, prefix)
    write("stock sync", GOING, "SENT", fire_time="23:25:00")
    client.hdel(f"{prefix}:run:{GOING}", "started_at", "seen_at", "worker", "starts")
    client.hset(f"{prefix}:totals", "STARTED", 1)
    look = "Due again: 23:35:00. To send one now: trigger 'stock sync' --overlap allow. stop only asks its worker; "

    assert cells(run(app, "why", "stock sync"))[0] == (
        "It did not run at 23:30:00: no worker has reported the start of the run before it (overlap skip)."
    )
    assert cells(run(app, "why", "stock sync"))[-1] == f"{look}if none gets it, it is in the way until 23:32:07"
    client.zrem(f"{prefix}:active", f"{prefix}:run:{GOING}")
    assert cells(run(app, "why", "stock sync"))[-1].endswith("it is in the way for redisbeater_run_queue_timeout")


@pytest.mark.parametrize(
    ("state", "fields", "answer"),
    [
        (
            "SUCCESS",
            {"started_at": "23:00:01", "finished_at": "23:00:42.200", "worker": "celery@w2"},
            "ran: It ran: sent 0.04 s after its fire time, SUCCESS after 41.2 s.",
        ),
        (
            "FAILURE",
            {"started_at": "23:00:01", "finished_at": "23:00:02.200", "error": "ValueError: no feed"},
            "failed: It ran and failed: sent 0.04 s after its fire time, FAILURE after 1.2 s: ValueError: no feed.",
        ),
        (
            "FAILURE",
            {"error": "NotRegistered: 'proj.sync'"},
            "failed: It did not run: sent 0.04 s after its fire time, FAILURE before its start: NotRegistered: "
            "'proj.sync'.",
        ),
        (
            "STARTED",
            {"started_at": "23:00:01", "seen_at": "23:31:03", "worker": "celery@w2"},
            "running: It runs on celery@w2 for 31 min 6 s.",
        ),
        (
            "SENT",
            {},
            "queued: Sent, and no worker has reported its start (queue reports, 31 min); no worker has reported a run: "
            "is one running, with redisbeater.runs in its imports?",
        ),
        (
            "LOST",
            {"started_at": "23:00:01", "worker": "celery@w3"},
            "lost: Sent, LOST with celery@w3; it is not sent again (requeue_lost).",
        ),
        (
            "LOST",
            {"note": "nobody has started it"},
            "lost: Sent, LOST (nobody has started it); it is not sent again.",
        ),
        ("REVOKED", {}, 'revoked: Stopped 23:05:00 by anna@ops1: "wrong month".'),
        (
            "EXPIRED",
            {},
            "expired: Sent 0.04 s after its fire time, EXPIRED: no worker had started it before its deadline.",
        ),
        (
            "EXPIRED",
            {"attempt": 2, "started_at": "23:00:01"},
            "expired: Sent 0.04 s after its fire time, EXPIRED: no worker had started it again before its deadline. It "
            "is attempt 2: it was LOST before, and sent again.",
        ),
        ("BUFFERED", {}, "buffered: It waits for the end of the run before it (overlap allow)."),
        (
            "SUCCESS",
            {"attempt": 2, "started_at": "23:00:01", "finished_at": "23:00:02"},
            "ran: It ran: sent 0.04 s after its fire time, SUCCESS after 1.0 s. It is attempt 2: it was LOST before, "
            "and sent again.",
        ),
    ],
)
def test_why_says_what_became_of_a_run(
    store: ScheduleStore,
    app: Celery,
    write: Write,
    log: Callable[..., None],
    state: str,
    fields: dict[str, Any],
    answer: str,
) -> None:
    store.create("report", "t", crontab(minute=0, hour="*"), options={"queue": "reports"})
    log("report", ("stopped", "23:05:00", 1, {"by": "anna@ops1", "note": "wrong month", "run": "one"}))
    write("report", "one", state, fire_time="23:00:00", late=0.04, **fields)

    found = explain(Context.of(app), "report", vienna("23:00:00"), now=NOW)

    assert f"{found.verdict}: {found.sentence}" == answer
    assert any("run one" in fact.text for fact in found.evidence)


def test_why_names_the_run_of_a_minute_that_it_answers_for(store: ScheduleStore, app: Celery, write: Write) -> None:
    store.create("report", "t", 10.0)
    for number, second in enumerate((10, 53)):
        moment = f"23:00:{second}"
        write("report", f"run-{number}", "SUCCESS", fire_time=moment, started_at=moment, finished_at=moment, late=0.04)

    found = explain(Context.of(app), "report", vienna("23:00:00"), now=NOW)

    begin = "The last run of that minute is that of Sat 23:00:53 CET. It ran: sent 0.04 s after its fire time"
    assert found.sentence.startswith(begin)
    exact = explain(Context.of(app), "report", vienna("23:00:53"), now=NOW)
    assert exact.sentence.startswith("It ran: ")


def test_why_without_a_time_tells_of_a_run_that_no_worker_has_started(
    store: ScheduleStore, app: Celery, write: Write, client: redis.Redis, prefix: str
) -> None:
    store.create("report", "t", crontab(minute=0, hour="*"))
    client.zadd(f"{prefix}:schedule", {f"{prefix}report": to_unix(vienna("23:59:00"))})
    write("report", "one", "SENT", fire_time="23:00:00")

    assert explain(Context.of(app), "report", now=NOW).verdict == "queued"


def test_workers_that_never_report_are_named(
    store: ScheduleStore, app: Celery, client: redis.Redis, prefix: str
) -> None:
    def says() -> tuple[bool, bool, bool]:
        status = CliRunner().invoke(redisbeater, ["status"], obj=SimpleNamespace(app=app)).stdout
        problems = store.health(strict=True).problems
        return (
            store.status().workers_report,
            "workers    no worker has reported a run: is one running, with redisbeater.runs in its imports?" in status,
            "no worker has reported a run: is one running, with redisbeater.runs in its imports?" in problems,
        )

    client.hset(f"{prefix}:totals", "SENT", 19)
    assert says() == (True, False, False)
    client.hset(f"{prefix}:totals", "SENT", 20)
    assert says() == (False, True, True)
    client.hset(f"{prefix}:totals", "STARTED", 1)
    assert says() == (True, False, False)


# Lint


def findings(app: Celery) -> dict[str, tuple[str, str]]:
    result = CliRunner().invoke(redisbeater, ["lint", "--json"], obj=SimpleNamespace(app=app))
    return {each["rule"]: (each["name"], each["text"]) for each in json.loads(result.stdout)}


def test_lint_finds_runs_that_take_longer_than_the_time_between_them(
    store: ScheduleStore, app: Celery, write: Write
) -> None:
    store.create("sync", "t", 60, overlap="skip", deadline=600)
    for number in range(6):
        minute = f"23:{number:02}"
        write("sync", f"run-{number}", "SUCCESS", fire_time=f"{minute}:00", started_at=f"{minute}:00",
              finished_at=f"23:{number + 1:02}:30")  # fmt: skip

    found = findings(app)

    assert found["overlaps-self"] == (
        "sync", "runs take 1 min 30 s (p95), the next one comes after 1 min: fire times are skipped",
    )  # fmt: skip
    assert "no-deadline" not in found


@pytest.mark.parametrize(
    ("keeps", "text"), [(True, "runs and tracebacks take up to 324 MB"), (False, "runs take up to 323 MB")]
)
def test_lint_advises_a_deadline_and_bounds_the_memory(make_app: Callable[..., Celery], keeps: bool, text: str) -> None:
    settings = {"redisbeater_run_history_limit": 10_000, "redisbeater_run_tracebacks": keeps}
    app = make_app(redisbeater_track_runs=True, **settings)
    with ScheduleStore(app).bulk() as bulk:
        for number in range(43):
            bulk.save(RedisScheduleEntry(f"sync {number}", "t", 60, overlap="skip", app=app, jitter=30))

    found = findings(app)

    assert found["no-deadline"][1].startswith("overlap skip: a message that is lost holds up the next runs")
    assert found["memory"][1].startswith(f"43 entries x 10,000 {text} of Redis")


def test_lint_finds_fields_that_have_no_effect_without_records(make_app: Callable[..., Celery]) -> None:
    ScheduleStore(make_app(redisbeater_track_runs=True)).create("sync", "t", 60, overlap="skip", once=True)

    found = findings(make_app())

    assert found["needs-tracking"] == ("sync", "overlap, once: no effect without redisbeater_track_runs = True")
    assert "no-deadline" not in found
