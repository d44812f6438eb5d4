"""Options that no broker could take: refused when they are saved, read and run as ever where they are stored."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime, timezone
from typing import Any

import pytest
import redis
from celery import Celery
from outbox import run_due

from redisbeater import Export, InvalidEntry, RedisScheduleEntry, RedisScheduler, ScheduleStore
from redisbeater.context import Context

ODD = {"que": "low", "tenant": 1, "task_id": "mine", "priority": 3}
PASSED = {"expires": datetime(2020, 1, 1, tzinfo=timezone.utc)}
PASSED_EVERYWHERE = {"expires": datetime(2020, 1, 1)}
NAIVE = {"expires": datetime(2099, 7, 1, 10, 0)}
IN_A_FILE = {"task": "proj.work", "every": 60, "options": {"expires": "2099-07-01T10:00"}}


@pytest.fixture
def write(client: redis.Redis, prefix: str) -> Callable[..., None]:
    """Write an entry as another program does; it is due."""

    def write(name: str, **fields: Any) -> None:
        interval = {"__type__": "interval", "every": 60.0}
        client.hset(prefix + name, "definition", json.dumps({"task": "proj.work", "schedule": interval, **fields}))
        client.zadd(f"{prefix}:schedule", {prefix + name: 0})

    return write


@pytest.mark.parametrize("options", [{"que": "low"}, {"expires": "soon"}, PASSED, PASSED_EVERYWHERE], ids=str)
def test_odd_options_are_refused_however_they_come(
    app: Celery, store: ScheduleStore, client: redis.Redis, prefix: str, options: dict[str, Any]
) -> None:
    store.create("stored", "proj.work", 60)
    before = client.hgetall(f"{prefix}stored")
    path = rf"^\$\.options\.{next(iter(options))}: "

    with pytest.raises(InvalidEntry, match=path):
        store.create("new", "proj.work", 60, options=options)
    with pytest.raises(InvalidEntry, match=path):
        RedisScheduleEntry("new", "proj.work", 60, options=options, app=app).save()
    with pytest.raises(InvalidEntry, match=path):
        store.update("stored", options=options)
    with pytest.raises(InvalidEntry, match=path), store.bulk() as bulk:
        bulk.save(RedisScheduleEntry("new", "proj.work", 60, options=options, app=app))

    assert (list(store.names()), client.hgetall(f"{prefix}stored")) == (["stored"], before)


def test_an_expiry_without_a_zone_is_in_the_zone_of_the_entry(app: Celery, store: ScheduleStore) -> None:
    zone = "America/New_York"
    created = store.create("created", "proj.work", 60, timezone=zone, options=NAIVE)
    with store.bulk() as bulk:
        bulk.save(RedisScheduleEntry("bulk", "proj.work", 60, timezone=zone, options=NAIVE, app=app))
    store.create("updated", "proj.work", 60, timezone=zone)
    store.update("updated", options=NAIVE)
    store.copy("updated", "copied", options=NAIVE)
    document = json.dumps({"redisbeater": 1, "entries": {"file": {**IN_A_FILE, "timezone": zone}}})
    store.files.apply(store.files.plan(Export.from_text(document), owner="test"))
    inherited = store.create("inherited", "proj.work", 60, options=NAIVE)

    instant = datetime(2099, 7, 1, 14, 0, tzinfo=timezone.utc)
    assert created.options == {"expires": instant}
    assert {store.get(name).options["expires"] for name in ("created", "bulk", "updated", "copied", "file")} == {
        instant
    }
    assert inherited.options["expires"] == NAIVE["expires"].replace(tzinfo=app.timezone)


def test_odd_options_that_are_stored_are_read_and_sent(
    app: Celery, store: ScheduleStore, write: Callable[..., None], make_scheduler: Callable[[Celery], RedisScheduler]
) -> None:
    seen: list[dict[str, Any]] = []

    class Recording(app.Task):  # type: ignore[name-defined]
        def apply_async(self, args: Any = None, kwargs: Any = None, **options: Any) -> Any:
            seen.append({name: options.get(name) for name in ("que", "tenant", "priority")})

    @app.task(name="proj.work", base=Recording, shared=False)
    def work() -> None: ...

    write("odd", options=ODD)

    assert store.get("odd").options == ODD
    make_scheduler(app).tick()
    assert seen == [{"que": "low", "tenant": 1, "priority": 3}]
    assert store.broken() == {}


@pytest.mark.parametrize(
    ("name", "whose"),
    [("task", "Celery"), ("id", "Celery"), ("headers", "Celery"), ("compression", "Celery"), ("scheduled_for", "beat"),
     ("periodic_task_name", "beat"), ("redisbeater_attempt", "beat"), ("redisbeater_step", "beat"),
     ("previous_fire_time", "beat"), ("coalesced", "beat")],
)  # fmt: skip
def test_headers_of_celery_and_of_beat_are_refused_by_their_names(store: ScheduleStore, name: str, whose: str) -> None:
    link = {"task": "proj.done", "options": {"headers": {"tenant": 1, name: "x"}}}
    problem = f"{name}: {whose} itself sets it in each message; use another name"

    with pytest.raises(InvalidEntry) as refused:
        store.create("new", "proj.work", 60, options={"headers": {"tenant": 1, name: "x"}})
    with pytest.raises(InvalidEntry) as linked:
        store.create("new", "proj.work", 60, options={"link": [{"task": "proj.done"}, link]})

    assert str(refused.value) == f"$.options.headers.{problem}"
    assert str(linked.value) == f"$.options.link[1].options.headers.{problem}"
    assert store.count() == 0


def test_stored_headers_of_celery_and_of_beat_replace_nothing(
    make_app: Callable[..., Celery], write: Callable[..., None], make_scheduler: Callable[[Celery], RedisScheduler]
) -> None:
    app = make_app(redisbeater_track_runs=True)
    forged = {
        "task": "proj.fail", "id": "11111111-1111-1111-1111-111111111111", "headers": {"tenant": 2}, "tenant": 1,
        "redisbeater_attempt": 7, "redisbeater_step": 7, "periodic_task_name": "other", "scheduled_for": "2001-01-01",
        "previous_fire_time": "2001-01-01", "coalesced": 7,
    }  # fmt: skip
    write("report", options={"headers": forged})

    [message] = run_due(make_scheduler(app))

    [run] = ScheduleStore(app).history("report")
    assert (message.headers["task"], message.id, message.headers["tenant"]) == ("proj.work", run.id, 1)
    assert message.headers["periodic_task_name"] == "report"
    assert message.headers["scheduled_for"] == run.fire_time.isoformat()
    assert message.headers["redisbeater_attempt"] == 1
    assert not {"headers", "redisbeater_step", "previous_fire_time", "coalesced"} & message.headers.keys()


def test_lint_names_stored_headers_that_are_not_sent(store: ScheduleStore, write: Callable[..., None]) -> None:
    write("report", options={"headers": {"task": "proj.fail", "redisbeater_\x1b": "x", "tenant": 1}})

    [finding] = [each for each in store.lint() if each.rule == "own-headers"]

    assert (finding.name, finding.severity) == ("report", "warning")
    unsent = r"options.headers: task, redisbeater_\x1b are not sent"
    assert finding.text == f"{unsent}, because Celery or beat sets them; use other names"


def test_other_fields_of_an_entry_with_odd_options_can_be_changed(
    store: ScheduleStore, write: Callable[..., None]
) -> None:
    write("odd", options=ODD)

    store.disable("odd")
    changed = store.update("odd", args=[1], enabled=True)

    assert (changed.args, changed.enabled, changed.options) == ([1], True, ODD)
    with pytest.raises(InvalidEntry, match=r"^\$\.options\.que: is not an option of apply_async; did you mean 'queue'"):
        store.update("odd", options=ODD)


def test_a_static_entry_with_odd_options_or_fields_is_listed_as_broken(
    app: Celery, store: ScheduleStore, make_scheduler: Callable[[Celery], RedisScheduler]
) -> None:
    fields = {"task": "proj.work", "schedule": 60}
    app.conf.beat_schedule = {
        "odd": {**fields, "options": {"que": "x"}},
        "odder": {**fields, "queue": "x"},
        "good": fields,
    }

    make_scheduler(app).tick()

    reasons = {name: report["reason"] for name, report in Context.of(app).redis.broken.reports().items()}
    assert store.count() == 1 + ("celery.backend_cleanup" in store.names())
    assert reasons["odd"].startswith("$.options.que: is not an option of apply_async; did you mean 'queue'?")
    assert reasons["odder"] == '$.queue: is not a field of an entry; did you mean options={"queue": ...}?'


def test_an_end_that_has_passed_is_named(store: ScheduleStore) -> None:
    with pytest.raises(InvalidEntry) as refused:
        store.create("a", "proj.work", 60, end_at=datetime(2020, 1, 1, tzinfo=timezone.utc))

    assert str(refused.value) == "$.end_at: 2020-01-01T00:00:00+00:00 has passed; the entry would never run"
