"""Delays for programs and people: kept by a call, found, moved, sent and cancelled."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
import redis
from celery import Celery, chain, chord, group, signals
from celery.result import AsyncResult
from click.testing import Result

from redisbeater import DelayNotFound, ImproperlyConfigured, InvalidEntry, RedisScheduler, ScheduleStore
from redisbeater.results import Delay, DelayOutcome, Status

HOUR = timedelta(hours=1)


def later(hours: float = 1) -> datetime:
    return datetime.now(timezone.utc) + hours * HOUR


@pytest.fixture
def app(make_app: Callable[..., Celery], server: Any) -> Celery:
    """An app whose broker and results are databases of the server."""
    app = make_app(broker_url=server.url(1), result_backend=server.url(1))

    @app.task(name="proj.remind", shared=False)
    def remind(*args: object, **kwargs: object) -> None:
        """Do nothing."""

    return app


@pytest.fixture
def remind(app: Celery) -> Any:
    return app.tasks["proj.remind"]


def state_of(app: Celery, task_id: str) -> str:
    return str(AsyncResult(task_id, app=app).state)


def headers(client: redis.Redis, prefix: str, task_id: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(str(client.hget(f"{prefix}:delays:messages", task_id)))["headers"]
    return found


# Keep


def test_a_task_is_kept_before_the_call_returns(store: ScheduleStore, remind: Any, server: Any) -> None:
    at = later()

    result = store.delays.add(remind.s(42, text="late").set(queue="mails", priority=3), at=at, id="reminder-42")

    assert isinstance(result, AsyncResult)
    assert result.id == "reminder-42"
    found = store.delays.get("reminder-42")
    assert (found.task, found.args, found.kwargs, found.queue) == ("proj.remind", "(42,)", "{'text': 'late'}", "mails")
    assert (found.at, found.eta, found.state) == (at, at, "waiting")
    assert found.kept is not None
    assert server.client(1).keys() == []


def test_a_kept_task_equals_the_message_that_celery_sends(
    store: ScheduleStore, remind: Any, client: redis.Redis, prefix: str, server: Any
) -> None:
    signature = remind.s(1, pages=[2]).set(serializer="json", compression="zlib", headers={"tenant": "eu"}, priority=5)
    at = later()
    store.delays.add(signature, at=at, id="a")
    signature.apply_async(task_id="a", eta=at)

    kept = json.loads(str(client.hget(f"{prefix}:delays:messages", "a")))
    (queue,) = server.client(1).scan_iter("celery*")
    sent = json.loads(server.client(1).lindex(queue, 0))

    assert kept["headers"] == sent["headers"]
    assert (kept["type"], kept["key"], kept["priority"]) == (sent["content-type"], "celery", 5)
    assert kept["base64"] == sent["body"]
    passing = {"delivery_mode", "delivery_info", "delivery_tag", "body_encoding", "priority"}
    assert kept["properties"] == {name: value for name, value in sent["properties"].items() if name not in passing}


def test_beat_sends_a_kept_task_when_it_is_due(
    store: ScheduleStore, remind: Any, app: Celery, make_scheduler: Callable[..., RedisScheduler], server: Any
) -> None:
    scheduler = make_scheduler(app)
    scheduler.tick()
    store.delays.add(remind.s(1), at=later(-1), id="due")
    store.delays.add(remind.s(2), at=later(), id="later")

    scheduler.tick()

    assert [json.loads(text)["headers"]["id"] for text in server.client(1).lrange("celery", 0, -1)] == ["due"]
    assert [delay.id for delay in store.delays.list()] == ["later"]


def test_the_events_and_signals_of_celery_are_sent_when_a_task_is_kept(
    store: ScheduleStore, remind: Any, app: Celery, server: Any
) -> None:
    app.conf.task_send_sent_event = True
    heard: list[str] = []

    def hear(headers: Any, **_: Any) -> None:
        heard.append(headers["id"])

    events = server.client(1).pubsub()
    events.psubscribe("*celeryev*")
    assert events.get_message(timeout=30)["type"] == "psubscribe"
    signals.before_task_publish.connect(hear)
    try:
        store.delays.add(remind.s(1), at=later(), id="a")
    finally:
        signals.before_task_publish.disconnect(hear)

    assert heard == ["a"]
    assert "task.sent" in str(events.get_message(timeout=30))
    assert [delay.id for delay in store.delays.list()] == ["a"]


def test_a_task_for_another_broker_than_that_of_beat_is_refused(
    store: ScheduleStore, remind: Any, client: redis.Redis, prefix: str
) -> None:
    client.set(f"{prefix}:delays:sender", "redis://elsewhere:6379/0", ex=60)

    with pytest.raises(ImproperlyConfigured, match="broker_url: beat sends delays to redis://elsewhere:6379/0"):
        store.delays.add(remind.s(1), at=later())

    assert store.delays.list() == []


REFUSED: dict[str, tuple[Callable[[Any], Any], dict[str, Any], str]] = {
    "chain": (lambda task: chain(task.s(1), task.s(2)), {}, "signature: expected that of one task, got a chain; add"),
    "group": (lambda task: group(task.s(1), task.s(2)), {}, "signature: expected that of one task, got a group; add"),
    "chord": (lambda task: chord([task.s(1)], task.s()), {}, "signature: expected that of one task, got a chord; add"),
    "countdown": (
        lambda task: task.s(1).set(countdown=5), {}, "signature.options.countdown: at= says when it is due; leave"),
    "exchange": (
        lambda task: task.s(1).set(exchange="news", routing_key="a.b"), {}, "signature.options: is sent by the exch"),
    "expires": (lambda task: task.s(1).set(expires=60), {}, "signature.options.expires: passes before"),
    "large": (lambda task: task.s("x" * 1_100_000), {}, "signature: its message has 1,1"),
    "two ids": (
        lambda task: task.s(1).set(task_id="a"), {"id": "b"}, "id: is 'b', and the signature has the task_id 'a'"),
    "blank id": (lambda task: task.s(1), {"id": " "}, "id: expected a text that is not blank"),
    "no id": (lambda task: task.s(1), {"id": ""}, "id: expected 1 to 512 characters, got 0"),
    "no JSON": (lambda task: task.s(1).set(headers={"x": object()}), {}, "signature.options: a header or a property"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_a_delay_cannot_keep_is_refused_with_the_fix(store: ScheduleStore, remind: Any, case: str) -> None:
    make, options, problem = REFUSED[case]

    with pytest.raises(InvalidEntry) as caught:
        store.delays.add(make(remind), at=later(), **options)

    assert str(caught.value).startswith(problem)
    assert store.delays.list() == []


def test_an_app_that_executes_tasks_at_once_keeps_none(store: ScheduleStore, remind: Any, app: Celery) -> None:
    app.conf.task_always_eager = True

    with pytest.raises(ImproperlyConfigured, match="task_always_eager = True"):
        store.delays.add(remind.s(1), at=later())


# Find


def fill(store: ScheduleStore, remind: Any, app: Celery) -> None:
    store.delays.add(remind.s(4711, password="hunter22"), at=later(1), id="a")
    store.delays.add(remind.s(12).set(queue="mails"), at=later(2), id="b")
    store.delays.add(app.signature("proj.other", args=["4711"]), at=later(3), id="c")


@pytest.mark.parametrize(
    ("terms", "found"),
    [
        ({}, "abc"),
        ({"task": "proj.other"}, "c"),
        ({"queue": "mails"}, "b"),
        ({"args": "4711"}, "ac"),
        ({"args": "hunter22"}, ""),
        ({"before": later(1.5)}, "a"),
        ({"after": later(1.5)}, "bc"),
        ({"after": later(1.5), "before": later(2.5)}, "b"),
        ({"limit": 2}, "ab"),
    ],
    ids=lambda value: ",".join(value) if isinstance(value, dict) else None,
)
def test_delays_are_found(store: ScheduleStore, remind: Any, app: Celery, terms: dict[str, Any], found: str) -> None:
    fill(store, remind, app)

    assert "".join(delay.id for delay in store.delays.list(**terms)) == found


def test_secrets_in_arguments_are_blanked(
    store: ScheduleStore, remind: Any, app: Celery, client: redis.Redis, prefix: str, run: Callable[..., Result]
) -> None:
    fill(store, remind, app)
    body = json.dumps([[], {"password": "hunter22"}, {}])
    text = {"body": body, "type": "application/json", "headers": {"task": "proj.x", "id": "php"}, "key": "celery"}
    client.hset(f"{prefix}:delays:messages", "php", json.dumps(text))
    client.zadd(f"{prefix}:delays", {"php": later(4).timestamp()})

    delays = store.delays.list()

    assert (delays[0].kwargs, delays[-1].kwargs) == ("{'password': '***'}", "{'password': '***'}")
    outputs = [repr(delays), *(run("delays", *words).output for words in (["list"], ["list", "--json"], ["show", "a"]))]
    assert all("***" in text and "hunter22" not in text for text in outputs)


def test_what_another_program_has_damaged_is_shown_and_can_only_be_cancelled(
    store: ScheduleStore, client: redis.Redis, prefix: str
) -> None:
    client.hset(f"{prefix}:delays:messages", "odd", "{")
    client.zadd(f"{prefix}:delays", {"odd": later().timestamp()})

    (moved,) = store.delays.move(["odd"], at=later(2))
    assert str(moved.error).startswith("delay 'odd': another program has damaged it")
    assert store.delays.get("odd").task == ""
    assert [(each.id, each.error) for each in store.delays.cancel(["odd"])] == [("odd", None)]
    assert store.delays.list() == []


# Change


def test_delays_are_moved_with_their_headers(
    store: ScheduleStore, remind: Any, app: Celery, client: redis.Redis, prefix: str
) -> None:
    fill(store, remind, app)
    before, at = store.delays.get("b").at, later(5)

    outcomes = store.delays.move(["a", "gone"], at=at, note="later", by="anna")
    (shifted,) = store.delays.move(["b"], shift=-HOUR)

    assert [(each.id, each.error is None) for each in outcomes] == [("a", True), ("gone", False)]
    assert isinstance(outcomes[1].error, DelayNotFound)
    assert (store.delays.get("a").at, headers(client, prefix, "a")["eta"]) == (at, at.isoformat())
    assert shifted.delay is not None
    assert shifted.delay.at == store.delays.get("b").at == before - HOUR
    line = store.log()[1]
    assert (line.what, line.details) == (
        "delays_moved", {"delays": 1, "ids": ["a"], "by": "anna", "note": "later"},
    )  # fmt: skip


def test_a_failing_delay_is_tried_anew_when_it_is_sent(
    store: ScheduleStore, remind: Any, client: redis.Redis, prefix: str
) -> None:
    store.delays.add(remind.s(1), at=later(), id="a")
    client.hset(f"{prefix}:delays:failing", "a", json.dumps({"error": "refused: password=hunter22", "tries": 3}))
    assert (store.delays.get("a").state, store.delays.get("a").error) == ("failing", "refused: password=***")

    store.delays.send(["a"])

    found = store.delays.get("a")
    assert (found.state, found.error, found.tries) == ("waiting", "", 0)
    assert found.at <= store.now()


def test_a_cancelled_task_is_revoked_and_its_chord_ends(store: ScheduleStore, remind: Any, app: Celery) -> None:
    heard: list[tuple[str, tuple[Any, ...]]] = []

    def hear(request: Any, **_: Any) -> None:
        heard.append((request.id, tuple(request.args)))

    store.delays.add(remind.s(42), at=later(), id="a")
    signals.task_revoked.connect(hear)
    try:
        outcomes = store.delays.cancel(["a", "a", "gone"])
    finally:
        signals.task_revoked.disconnect(hear)

    assert [(each.id, each.error is None) for each in outcomes] == [("a", True), ("gone", False)]
    assert (state_of(app, "a"), heard) == ("REVOKED", [("a", (42,))])
    assert [line.what for line in store.log()] == ["delays_cancelled"]


def test_the_tracked_run_of_a_cancelled_delay_is_revoked(
    make_app: Callable[..., Celery], make_scheduler: Callable[..., RedisScheduler], server: Any
) -> None:
    app = make_app(broker_url=server.url(1), redisbeater_track_runs=True)
    store, broker = ScheduleStore(app), server.client(1)
    store.create("report", "proj.work", 3600, options={"countdown": 600})
    make_scheduler(app).tick()
    run_id = store.trigger("report")
    message = next(each for each in map(json.loads, broker.lrange("celery", 0, -1)) if each["headers"]["id"] == run_id)
    kept = {"base64": message["body"], "type": message["content-type"], "headers": message["headers"], "key": "celery"}
    schedule, prefix = server.client(0), app.conf.redisbeater_key_prefix
    schedule.hset(f"{prefix}:delays:messages", run_id, json.dumps(kept))
    schedule.zadd(f"{prefix}:delays", {run_id: later().timestamp()})
    assert store.runs.get(run_id).state.value == "SENT"

    store.delays.cancel([run_id], note="wrong month", by="anna")

    found = store.runs.get(run_id)
    assert (found.state.value, found.by, found.note) == ("REVOKED", "anna", "wrong month")
    assert store.runs.active("report") == []


# At the command line


def lines(result: Result) -> list[dict[str, Any]]:
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_the_command_line_lists_and_shows_delays(
    store: ScheduleStore, remind: Any, app: Celery, run: Callable[..., Result]
) -> None:
    assert run("delays", "list").stdout == "no delays\n"
    fill(store, remind, app)

    listed = run("delays", "list", "--args", "4711")

    assert [line.split()[0] for line in listed.stdout.splitlines()] == ["ID", "a", "c"]
    assert "proj.other('4711')" in listed.stdout
    assert [each["id"] for each in lines(run("delays", "list", "--before", "+90m", "--json"))] == ["a"]
    shown = json.loads(run("delays", "show", "b", "--json").stdout)
    assert (shown["id"], shown["queue"], shown["state"]) == ("b", "mails", "waiting")
    assert run("delays", "show", "b").stdout.splitlines()[2].split(maxsplit=1) == ["task", "proj.remind(12)"]
    missing = run("delays", "show", "x")
    assert missing.exit_code == 2
    assert missing.stderr == f"Error: {DelayNotFound('x')}; delays list shows those that wait\n"


def test_the_command_line_moves_sends_and_cancels(
    store: ScheduleStore, remind: Any, app: Celery, run: Callable[..., Result]
) -> None:
    fill(store, remind, app)
    before = store.delays.get("b").at

    tried = run("delays", "cancel", "--queue", "mails", "--dry-run")
    assert (tried.stdout, len(store.delays.list())) == ("b: would be cancelled, proj.remind(12)\n", 3)
    assert run("delays", "move", "b", "--shift", "-30m").stdout.startswith("b: moved to ")
    assert store.delays.get("b").at == before - HOUR / 2
    sent = run("delays", "send", "a", "gone", "--note", "now", "--by", "anna", "--json")
    assert ([each["done"] for each in lines(sent)], sent.exit_code) == (["sent"], 2)
    assert sent.stderr == f"Error: {DelayNotFound('gone')}; delays list shows those that wait\n"
    assert run("delays", "cancel", "--task", "proj.other").stdout == "c: cancelled\n"
    assert [line.what for line in store.log()] == ["delays_cancelled", "delays_sent", "delays_moved"]
    assert store.log()[1].details["by"] == "anna"


def test_more_than_ten_are_asked_for(store: ScheduleStore, remind: Any, run: Callable[..., Result]) -> None:
    for number in range(11):
        store.delays.add(remind.s(number), at=later(), id=f"a{number:02}")

    refused = run("delays", "cancel", "--all")
    assert (refused.exit_code, refused.stderr) == (
        2, "Error: this would cancel 11 delays: a00, a01, a02 and 8 more; pass --yes to do it\n",
    )  # fmt: skip
    assert run("delays", "cancel", "--before", "+2h", "--yes").stdout.count("cancelled") == 11


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["cancel"], "expected ids, or one of --task, --queue, --args, --before, --after and --all"),
        (["cancel", "a", "--all"], "expected ids, or one of"),
        (["cancel", "--task", "proj.none"], "no delay is selected"),
        (["move", "a"], "expected --at TIME or --shift LENGTH, one of the two"),
        (["move", "a", "--shift", "1h"], "--shift: expected + or - and a duration, such as +1h or -30m, got '1h'"),
        (["move", "a", "--shift", "+1y"], "--shift: "),
        (["list", "--before", "soon"], "--before "),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_cannot_be_meant_is_refused(run: Callable[..., Result], words: list[str], problem: str) -> None:
    refused = run("delays", *words)

    assert refused.exit_code == 2
    assert refused.stderr.startswith(f"Error: {problem}")


def test_thousands_are_moved_and_cancelled_with_one_line_of_the_log_each(
    store: ScheduleStore, client: redis.Redis, prefix: str, run: Callable[..., Result]
) -> None:
    texts = {
        f"{number:04}": json.dumps({"body": "[[], {}, {}]", "headers": {"task": "proj.x", "id": f"{number:04}"}})
        for number in range(1200)
    }
    client.hset(f"{prefix}:delays:messages", mapping=texts)
    client.zadd(f"{prefix}:delays", dict.fromkeys(texts, later().timestamp()))

    assert [delay.id for delay in store.delays.list()] == sorted(texts)
    assert run("delays", "move", "--all", "--shift", "+1h", "--yes").stdout == "1,200 delays moved\n"
    assert run("delays", "cancel", "--task", "proj.x", "--yes").stdout == "1,200 delays cancelled\n"
    assert [(line.what, line.details["delays"]) for line in store.log()] == [
        ("delays_cancelled", 1200), ("delays_moved", 1200),
    ]  # fmt: skip
    assert client.exists(f"{prefix}:delays", f"{prefix}:delays:messages") == 0


def test_the_values_are_public(store: ScheduleStore, remind: Any) -> None:
    store.delays.add(remind.s(1), at=later(), id="a")

    assert isinstance(store.delays.get("a"), Delay)
    assert isinstance(store.delays.send(["a"])[0], DelayOutcome)
    assert isinstance(store.status(), Status)


# Asked about


def test_status_health_lint_and_why_tell_of_delays(
    store: ScheduleStore, remind: Any, run: Callable[..., Result], client: redis.Redis, prefix: str
) -> None:
    assert store.status().delays is None
    client.set(f"{prefix}:delays:sender", "redis://elsewhere:6379/0", ex=60)
    assert store.status().as_dict()["delays"] == {"waiting": 0, "late": 0, "failing": 0, "next": None}
    client.delete(f"{prefix}:delays:sender")
    at = later()
    store.delays.add(remind.s(1), at=at, id="a")
    assert store.status().as_dict()["delays"] == {"waiting": 1, "late": 0, "failing": 0, "next": at.isoformat()}
    assert re.search(r"^delays +1 waiting, next in ", run("status").stdout, re.MULTILINE)
    assert json.loads(run("why", "--id", "a", "--json").stdout)["verdict"] == "no_leader"
    assert [each.text for each in store.lint() if each.rule == "delays"] == [
        "delays wait (1), and no beat sends them; start one of this version"
    ]
    client.set(f"{prefix}:delays:sender", "redis://elsewhere:6379/0", ex=60)
    assert run("why", "a").stdout.startswith("Waits in the schedule for its time: ")

    store.delays.move(["a"], at=later(-2))

    assert store.why("a").verdict == "late"
    assert re.search(r"^delays +1 waiting, 1 late, oldest 2 h$", run("status").stdout, re.MULTILINE)
    health = store.health(require="any")
    assert [text for check, text in zip(health.failed, health.problems) if check == "delays"] == [
        "delays late: 1, oldest 2 h (limit 1 min)"
    ]

    client.hset(f"{prefix}:delays:failing", "a", json.dumps({"error": "no queue: password=hunter22", "tries": 2}))

    assert store.why("a").sentence == "It cannot be sent, 2 tries so far: no queue: password=***"
    assert "delays not sent: 1" in store.health(strict=True).problems
    assert [each.text for each in store.lint() if each.rule == "delays"] == [
        "delays cannot be sent (1); correct the cause, then send or cancel them: a: no queue: password=***"
    ]


def test_the_name_of_an_entry_wins_over_the_id_of_a_delay(
    store: ScheduleStore, remind: Any, run: Callable[..., Result]
) -> None:
    store.create("report", "proj.work", 60, enabled=False)
    store.delays.add(remind.s(1), at=later(), id="report")

    assert store.why("report").verdict == "disabled"
    assert json.loads(run("why", "--id", "report", "--json").stdout)["verdict"] == "no_leader"
    assert run("why").exit_code == run("why", "report", "--id", "report").exit_code == 2
    assert run("why", "none").exit_code == run("why", "--id", "none").exit_code == 2
