"""A schedule that is lost is an incident: it opens, is told everywhere, and ends; what people delete opens none."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Iterator
from types import SimpleNamespace

import pytest
import redis
from celery import Celery
from click.testing import CliRunner
from due import ago
from outbox import run_due
from redbeat import RedBeatSchedulerEntry
from support.servers import Server
from support.waiting import wait_until
from web_site import browse

from redisbeater import AsyncScheduleStore, IncidentNotFound, RedisScheduleEntry, RedisScheduler, ScheduleStore
from redisbeater.cli import redisbeater
from redisbeater.results import Incident
from redisbeater.signals import incident_closed, incident_opened

MakeApp = Callable[..., Celery]
MakeScheduler = Callable[..., RedisScheduler]
LetPass = Callable[[float], None]

NAMES = ("billing", "cleanup", "report")


@pytest.fixture(params=[":lock", None], ids=["with-lock", "without-lock"])
def lost_app(request: pytest.FixtureRequest, make_app: MakeApp) -> Celery:
    return make_app(redisbeater_lock_key=request.param)


def fill(app: Celery, names: tuple[str, ...] = NAMES) -> None:
    for name in names:
        RedisScheduleEntry(name, "proj.work", 3600, app=app).save()


def look(scheduler: RedisScheduler, let_pass: LetPass) -> None:
    """Let a beat look at the schedule, and do what follows from it."""
    for _ in range(3):
        let_pass(5.5)
        scheduler.tick()


def open_incidents(app: Celery) -> list[Incident]:
    return ScheduleStore(app).incidents.list(only_open=True)


def run_command(app: Celery, *words: str) -> SimpleNamespace:
    result = CliRunner().invoke(redisbeater, words, obj=SimpleNamespace(app=app))
    return SimpleNamespace(code=result.exit_code, output=result.output)


@pytest.fixture
def lost(
    make_app: MakeApp, make_scheduler: MakeScheduler, client: redis.Redis, let_pass: LetPass
) -> tuple[Celery, RedisScheduler]:
    """An app whose schedule was lost, and its beat."""
    app = make_app()
    fill(app)
    scheduler = make_scheduler(app)
    look(scheduler, let_pass)
    client.flushdb()
    look(scheduler, let_pass)
    return app, scheduler


def test_a_flush_opens_an_incident_that_says_how_many_entries_there_were(
    lost_app: Celery,
    make_scheduler: MakeScheduler,
    client: redis.Redis,
    let_pass: LetPass,
    caplog: pytest.LogCaptureFixture,
) -> None:
    fill(lost_app)
    scheduler = make_scheduler(lost_app)
    look(scheduler, let_pass)
    client.flushdb()

    look(scheduler, let_pass)

    (incident,) = open_incidents(lost_app)
    assert (incident.kind, incident.entry, incident.count, incident.times) == ("schedule_lost", "", 3, 1)
    assert [record.levelno for record in caplog.records if "3 entries were in Redis, 0 are left" in record.message] == [
        logging.ERROR
    ]


def test_static_entries_that_beat_has_just_stored_count(
    make_app: MakeApp, make_scheduler: MakeScheduler, client: redis.Redis
) -> None:
    app = make_app(beat_schedule={"nightly": {"task": "proj.clean", "schedule": 3600.0}})
    scheduler = make_scheduler(app)
    scheduler.tick()
    client.flushdb()

    for _ in range(3):
        scheduler.tick()

    assert [incident.count for incident in ScheduleStore(app).incidents.list()] == [1]


def test_health_status_lint_and_metrics_say_it(lost: tuple[Celery, RedisScheduler]) -> None:
    app, _ = lost
    store = ScheduleStore(app)
    (incident,) = open_incidents(app)

    health, strict, status = store.health(), store.health(strict=True), store.status()

    assert health.failed == strict.failed == ("incidents",)
    assert "schedule lost: 3 entries before, 0 left" in health.sentence
    assert f"incidents acknowledge {incident.id}" in health.sentence
    assert [each["id"] for each in status.as_dict()["incidents"]] == [incident.id]
    assert "schedule lost" in run_command(app, "status").output
    assert run_command(app, "health").code == 1
    assert ("incident", "error") in [(each.rule, each.severity) for each in store.lint()]


def test_acknowledging_it_ends_it(lost: tuple[Celery, RedisScheduler], let_pass: LetPass) -> None:
    app, scheduler = lost
    (incident,) = open_incidents(app)
    heard: list[str] = []
    incident_closed.connect(hear := lambda incident_id, **_: heard.append(incident_id), weak=False)

    result = run_command(app, "incidents", "acknowledge", incident.id, "--note", "restored", "--by", "anna")
    incident_closed.disconnect(hear)

    assert (result.code, heard) == (0, [incident.id])
    assert open_incidents(app) == []
    look(scheduler, let_pass)
    assert ScheduleStore(app).health().is_healthy
    (ended,) = ScheduleStore(app).incidents.list()
    assert (ended.acknowledged["by"], ended.acknowledged["note"]) == ("anna", "restored")
    assert ended.closed is not None
    line = next(line for line in ScheduleStore(app).log() if line.what == "incident_acknowledged")
    assert line.details["note"] == "restored"


def test_as_many_entries_again_end_it(
    lost: tuple[Celery, RedisScheduler], let_pass: LetPass, client: redis.Redis, prefix: str
) -> None:
    app, scheduler = lost
    (incident,) = open_incidents(app)
    assert client.ttl(f"{prefix}:incident:{incident.id}") == -1
    fill(app, NAMES[:2])
    look(scheduler, let_pass)
    assert open_incidents(app) == [incident]
    fill(app, NAMES[2:])

    look(scheduler, let_pass)

    assert open_incidents(app) == []
    assert 0 < client.ttl(f"{prefix}:incident:{incident.id}") <= 7 * 86_400


def test_static_entries_that_come_back_end_it(
    make_app: MakeApp, make_scheduler: MakeScheduler, client: redis.Redis, let_pass: LetPass
) -> None:
    app = make_app(beat_schedule={"nightly": {"task": "proj.clean", "schedule": 3600.0}})
    scheduler = make_scheduler(app)
    look(scheduler, let_pass)
    client.flushdb()

    look(scheduler, let_pass)

    (incident,) = ScheduleStore(app).incidents.list()
    assert incident.closed is not None
    assert incident.count == 1


def test_a_standby_opens_it(
    app: Celery, make_scheduler: MakeScheduler, client: redis.Redis, let_pass: LetPass, prefix: str
) -> None:
    """The leader hangs, so that its lock stays where another program puts it back."""
    fill(app)
    leader, standby = make_scheduler(app), make_scheduler(app)
    leader.tick()
    standby.tick()
    lock = client.get(f"{prefix}:lock")
    assert lock is not None
    client.flushdb()
    client.set(f"{prefix}:lock", lock, ex=60)

    look(standby, let_pass)

    (incident,) = open_incidents(app)
    assert incident.count == 3


def test_two_beats_without_a_lock_write_it_once_and_one_of_them_says_so(
    make_app: MakeApp,
    make_scheduler: MakeScheduler,
    client: redis.Redis,
    let_pass: LetPass,
    caplog: pytest.LogCaptureFixture,
) -> None:
    app = make_app(redisbeater_lock_key=None)
    fill(app)
    beats = [make_scheduler(app), make_scheduler(app)]
    for beat in beats:
        look(beat, let_pass)
    heard: list[str] = []
    incident_opened.connect(hear := lambda incident_id, **_: heard.append(incident_id), weak=False)
    client.flushdb()

    for beat in beats:
        look(beat, let_pass)
    incident_opened.disconnect(hear)

    assert [incident.id for incident in ScheduleStore(app).incidents.list()] == heard
    assert len(heard) == 1
    assert caplog.text.count("the schedule is lost") == 1


def test_a_beat_that_sees_it_after_it_was_acknowledged_opens_nothing(
    make_app: MakeApp, make_scheduler: MakeScheduler, client: redis.Redis, let_pass: LetPass
) -> None:
    app = make_app(redisbeater_lock_key=None)
    fill(app)
    beat, suspended = make_scheduler(app), make_scheduler(app)
    for each in (beat, suspended):
        look(each, let_pass)
    client.flushdb()
    look(beat, let_pass)
    (incident,) = open_incidents(app)
    ScheduleStore(app).incidents.acknowledge(incident.id)
    let_pass(700)  # no incident is current any more
    look(beat, let_pass)

    look(suspended, let_pass)

    assert open_incidents(app) == []
    assert len(ScheduleStore(app).incidents.list()) == 1


def delete_by_redbeat(app: Celery, client: redis.Redis, prefix: str) -> None:
    app.conf.update(redbeat_key_prefix=prefix, redbeat_redis_url=app.conf.redisbeater_redis_url)
    for name in NAMES:
        RedBeatSchedulerEntry.from_key(f"{prefix}{name}", app=app).delete()


def delete_plainly(app: Celery, client: redis.Redis, prefix: str) -> None:
    for name in NAMES:
        client.zrem(f"{prefix}:schedule", f"{prefix}{name}")
        client.delete(f"{prefix}{name}")


def delete_hashes_alone(app: Celery, client: redis.Redis, prefix: str) -> None:
    """What somebody forgets to remove from the schedule is due, and a claim finds no hash."""
    client.delete(*(f"{prefix}{name}" for name in NAMES))
    client.zadd(f"{prefix}:schedule", {f"{prefix}{name}": 0 for name in NAMES})


def delete_by_store(app: Celery, client: redis.Redis, prefix: str) -> None:
    ScheduleStore(app).delete_many(NAMES)


@pytest.mark.parametrize("delete", [delete_by_redbeat, delete_plainly, delete_hashes_alone, delete_by_store])
def test_what_people_delete_opens_nothing(
    lost_app: Celery,
    make_scheduler: MakeScheduler,
    client: redis.Redis,
    let_pass: LetPass,
    prefix: str,
    delete: Callable[..., None],
) -> None:
    fill(lost_app)
    scheduler = make_scheduler(lost_app)
    look(scheduler, let_pass)

    delete(lost_app, client, prefix)
    look(scheduler, let_pass)

    assert ScheduleStore(lost_app).incidents.list() == []
    assert client.zcard(f"{prefix}:schedule") == 0


def test_a_backup_that_brings_its_identity_and_fewer_entries_opens_nothing(
    lost: tuple[Celery, RedisScheduler], let_pass: LetPass
) -> None:
    app, scheduler = lost
    store = ScheduleStore(app)
    fill(app, ("kept",))
    backup = store.files.export(state=True)
    for incident in open_incidents(app):
        store.incidents.acknowledge(incident.id)
    other = backup.__class__(**{**vars(backup), "schedule_id": "7b0e8a52-0f43-4f7e-9d29-5a8f7d2f8c11"})
    fill(app)
    look(scheduler, let_pass)

    store.files.apply(store.files.plan(other, state=True))
    store.delete_many(NAMES)
    look(scheduler, let_pass)

    assert open_incidents(app) == []
    assert store.status().id == other.schedule_id


def test_an_identity_that_another_program_deletes_opens_nothing(
    lost_app: Celery, make_scheduler: MakeScheduler, client: redis.Redis, let_pass: LetPass, prefix: str
) -> None:
    fill(lost_app)
    scheduler = make_scheduler(lost_app)
    look(scheduler, let_pass)

    client.delete(f"{prefix}:id")
    look(scheduler, let_pass)

    assert ScheduleStore(lost_app).incidents.list() == []


def test_entries_that_delete_themselves_open_nothing(app: Celery, scheduler: RedisScheduler, let_pass: LetPass) -> None:
    for name in NAMES:
        RedisScheduleEntry(
            name, "proj.work", 60, app=app, last_run_at=ago(minutes=5), max_runs=1, on_finish="delete"
        ).save()
    look(scheduler, let_pass)
    assert ScheduleStore(app).count() == 0

    look(scheduler, let_pass)

    assert ScheduleStore(app).incidents.list() == []


def test_an_incident_that_is_not_kept_is_an_error(app: Celery) -> None:
    store = ScheduleStore(app)
    for act in (store.incidents.get, store.incidents.acknowledge):
        with pytest.raises(IncidentNotFound, match="no incident '12345678' is kept"):
            act("12345678")
    assert run_command(app, "incidents", "acknowledge", "12345678").code == 2


def test_the_command_lists_incidents(lost: tuple[Celery, RedisScheduler]) -> None:
    app, _ = lost
    (incident,) = open_incidents(app)

    as_table, as_json = run_command(app, "incidents"), run_command(app, "incidents", "--open", "--json")

    assert incident.id in as_table.output
    found = json.loads(as_json.output)
    assert (found["id"], found["kind"], found["closed"], found["count"]) == (incident.id, "schedule_lost", None, 3)


def test_no_incident_is_said_so(app: Celery) -> None:
    assert run_command(app, "incidents").output == "no incidents\n"


@pytest.fixture
def evicting(server: Server, client: redis.Redis) -> Iterator[redis.Redis]:
    """A server that evicts any key when its memory is full, and has room now."""
    client.config_set("maxmemory", 0)
    client.config_set("maxmemory-policy", "allkeys-random")
    yield client
    client.config_set("maxmemory", 0)
    client.config_set("maxmemory-policy", "noeviction")


def test_entries_that_redis_evicts_open_it(
    app: Celery, make_scheduler: MakeScheduler, evicting: redis.Redis, let_pass: LetPass, prefix: str
) -> None:
    for number in range(200):
        RedisScheduleEntry(f"entry {number}", "proj.work", 3600, app=app, args=["x" * 2000]).save()
    scheduler = make_scheduler(app)
    look(scheduler, let_pass)
    evicting.config_set("maxmemory", int(evicting.info("memory")["used_memory"]) - 200_000)
    wait_until(lambda: evicting.set(f"{prefix}filler", "x") and evicting.exists(*entry_keys(prefix)) < 200, "evicted")
    evicting.config_set("maxmemory", 2**40)
    evicting.delete(f"{prefix}filler")
    evicting.zadd(f"{prefix}:schedule", dict.fromkeys(entry_keys(prefix), 0))

    look(scheduler, let_pass)

    (incident,) = open_incidents(app)
    assert incident.count >= 200
    assert incident.first["names"]
    assert "evicted" in incident.why


def entry_keys(prefix: str) -> list[str]:
    return [f"{prefix}entry {number}" for number in range(200)]


def test_a_missing_right_is_logged_once_and_the_pass_goes_on(
    make_app: MakeApp,
    make_scheduler: MakeScheduler,
    server: Server,
    client: redis.Redis,
    let_pass: LetPass,
    prefix: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Beat may use all keys but those of incidents, as one whose rights name its keys one by one."""
    keys = [f"~{prefix}{begin}" for begin in ("[^:]*", ":[^ci]*", ":calendars", ":changes", ":claim*", ":id")]
    client.execute_command("ACL", "SETUSER", "lost", "on", "nopass", "resetkeys", *keys, "&*", "+@all")
    try:
        fill(app := make_app(redisbeater_redis_options={"username": "lost"}))
        scheduler = make_scheduler(app)
        look(scheduler, let_pass)
        client.flushdb()
        look(scheduler, let_pass)
        RedisScheduleEntry("later", "proj.work", 60, app=app, last_run_at=ago(minutes=5)).save()

        assert [run.name for run in run_due(scheduler)] == ["later"]
        look(scheduler, let_pass)
        assert caplog.text.count("Redis refuses to record that the schedule is lost") == 1
        assert ScheduleStore(app).incidents is not None
    finally:
        client.execute_command("ACL", "DELUSER", "lost")


def test_another_type_at_its_keys_is_said_and_the_pass_goes_on(
    app: Celery,
    make_scheduler: MakeScheduler,
    client: redis.Redis,
    let_pass: LetPass,
    prefix: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    fill(app)
    scheduler = make_scheduler(app)
    look(scheduler, let_pass)
    client.flushdb()
    for key in (":current", ":incidents"):
        client.set(f"{prefix}{key}", "another program's text")

    look(scheduler, let_pass)
    RedisScheduleEntry("later", "proj.work", 60, app=app, last_run_at=ago(minutes=5)).save()

    assert [run.name for run in run_due(scheduler)] == ["later"]
    assert "it is not recorded when the schedule is lost" in caplog.text
    assert (ScheduleStore(app).incidents.list(), ScheduleStore(app).status().incidents) == ([], ())
    client.delete(f"{prefix}:current", f"{prefix}:incidents")


def test_the_page_shows_it_until_somebody_acknowledges_it(lost: tuple[Celery, RedisScheduler]) -> None:
    app, _ = lost
    (incident,) = open_incidents(app)
    web = browse(app)

    assert "schedule lost: 3 entries before, 0 left" in web.get("/").text
    assert [each["id"] for each in web.get("/status.json").json()["incidents"]] == [incident.id]
    assert web.post("/incidents/acknowledge", data={"id": "12345678"}).status_code == 404
    answer = web.post("/incidents/acknowledge", data={"id": incident.id, "note": "known"})

    assert "Acknowledged: schedule lost" in answer.text
    assert open_incidents(app) == []
    assert incident.id not in web.get("/status").text.partition("Log of the schedule")[0]


def test_an_event_loop_awaits_the_same(lost: tuple[Celery, RedisScheduler]) -> None:
    app, _ = lost

    async def acknowledge() -> Incident:
        async with AsyncScheduleStore(app) as store:
            (incident,) = await store.incidents.list(only_open=True)
            assert await store.incidents.get(incident.id) == incident
            return await store.incidents.acknowledge(incident.id)

    assert not asyncio.run(acknowledge()).is_open
