"""What is wrong with an entry is an incident: the beat that leads writes from when to when."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from types import SimpleNamespace

import pytest
import redis
from celery import Celery
from click.testing import CliRunner
from outbox import run_due
from support.ended_runs import end_runs, let_wait
from support.waiting import wait_until
from web_site import browse

from redisbeater import RedisScheduleEntry, RedisScheduler, ScheduleStore
from redisbeater.cli import redisbeater
from redisbeater.context import Context
from redisbeater.observe.metrics import create_schedule_registry, exposition_of
from redisbeater.results import Incident
from redisbeater.signals import incident_opened
from redisbeater.store import incidents as store_of_incidents
from redisbeater.store.runs import Execution

MakeApp = Callable[..., Celery]
MakeScheduler = Callable[..., RedisScheduler]
LetPass = Callable[[float], None]


@pytest.fixture
def app(make_app: MakeApp) -> Celery:
    return make_app(redisbeater_track_runs=True)


@pytest.fixture
def beat(app: Celery, make_scheduler: MakeScheduler) -> RedisScheduler:
    scheduler = make_scheduler(app)
    scheduler.tick()
    return scheduler


def look(beat: RedisScheduler, let_pass: LetPass, times: int = 2) -> None:
    """Let beat look so often; on a busy machine a look goes on in the next passes."""
    for _ in range(times):
        let_pass(5.5)
        for _ in range(8):
            beat.tick()


def create(app: Celery, name: str = "feed", **fields: object) -> RedisScheduleEntry:
    entry = RedisScheduleEntry(name, "proj.work", 3600, app=app, **fields)
    entry.save()
    return entry


def opened(app: Celery) -> dict[str, str]:
    return {each.entry: each.kind for each in ScheduleStore(app).incidents.list(only_open=True)}


def only(app: Celery) -> Incident:
    (incident,) = ScheduleStore(app).incidents.list()
    return incident


def test_a_bad_end_opens_one_and_a_good_one_closes_it(app: Celery, beat: RedisScheduler, let_pass: LetPass) -> None:
    create(app)
    (run_id,) = end_runs(app, "feed", "F", traceback="Traceback: here")
    look(beat, let_pass)

    incident = only(app)
    assert (incident.kind, incident.entry, incident.count, incident.closed) == ("failed", "feed", 1, None)
    assert (incident.first["run"], incident.error) == (run_id, "ValueError: cannot parse row 17")
    assert incident.traceback == "Traceback: here"
    end_runs(app, "feed", "F")
    look(beat, let_pass)
    assert (only(app).count, only(app).times) == (2, 1)
    end_runs(app, "feed", "S")
    look(beat, let_pass)
    assert only(app).closed is not None
    assert opened(app) == {}


def test_the_status_and_why_count_what_failed_since_the_last_look_of_a_beat_too(
    app: Celery, beat: RedisScheduler, let_pass: LetPass
) -> None:
    create(app)
    end_runs(app, "feed", "F")
    look(beat, let_pass)
    end_runs(app, "feed", "FFFF")

    store = ScheduleStore(app)
    (told,) = store.status().told_incidents
    assert told.startswith("feed: failed 5 times: ValueError")
    assert store.why("feed").sentence.startswith("Failed the last 5 times")
    assert only(app).count == 5


def test_its_advice_can_be_typed_whatever_the_name(app: Celery, beat: RedisScheduler, let_pass: LetPass) -> None:
    create(app, "stock sync")
    end_runs(app, "stock sync", "F")
    look(beat, let_pass)

    assert only(app).advice == "see why 'stock sync'"


def test_what_fails_again_within_ten_minutes_is_the_same_incident(
    app: Celery, beat: RedisScheduler, let_pass: LetPass
) -> None:
    create(app)
    for letters in ("F", "S", "F"):
        end_runs(app, "feed", letters)
        look(beat, let_pass)

    assert (only(app).times, only(app).closed) == (2, None)


def test_what_failed_and_healed_between_two_looks_is_an_incident_that_is_over(
    app: Celery, beat: RedisScheduler, let_pass: LetPass
) -> None:
    create(app)
    look(beat, let_pass)
    end_runs(app, "feed", "FFS")
    look(beat, let_pass)
    look(beat, let_pass)

    incident = only(app)
    assert (incident.count, incident.times, incident.is_open) == (2, 1, False)


def test_bad_ends_of_an_incident_that_is_over_do_not_count_with_later_ones(
    app: Celery, beat: RedisScheduler, let_pass: LetPass
) -> None:
    create(app, max_failures=2)
    for letters in ("FFF", "S", "FS"):
        end_runs(app, "feed", letters)
        look(beat, let_pass, 1)

    assert (only(app).times, only(app).is_open) == (1, False)


def test_an_entry_that_is_gone_by_then_has_an_incident_too(
    app: Celery, beat: RedisScheduler, let_pass: LetPass, client: redis.Redis, prefix: str
) -> None:
    create(app)
    look(beat, let_pass)
    end_runs(app, "feed", "F")
    client.zrem(f"{prefix}:schedule", f"{prefix}feed")
    client.zrem(f"{prefix}:failed", f"{prefix}feed")
    client.delete(f"{prefix}feed")

    look(beat, let_pass)

    assert (only(app).entry, only(app).is_open) == ("feed", False)


def test_so_many_bad_ends_in_a_row_as_max_failures_allows_are_none(
    app: Celery, beat: RedisScheduler, let_pass: LetPass
) -> None:
    create(app, max_failures=2)
    end_runs(app, "feed", "FF")
    look(beat, let_pass)
    assert opened(app) == {}

    end_runs(app, "feed", "F")
    look(beat, let_pass)

    assert (opened(app), only(app).count) == ({"feed": "failed"}, 3)


@pytest.mark.parametrize("reported", [True, False])
def test_a_run_that_waits_too_long_is_one_of_its_entry_or_of_the_schedule_where_no_worker_has_ever_reported(
    app: Celery, beat: RedisScheduler, let_pass: LetPass, client: redis.Redis, prefix: str, *, reported: bool
) -> None:
    create(app, options={"queue": "slow"})
    create(app, "other", start_within=3600)
    if reported:
        client.hset(f"{prefix}:totals", "STARTED", 1)
    for name in ("feed", "other"):
        let_wait(app, client, name, seconds=400)

    look(beat, let_pass)

    assert opened(app) == {"feed" if reported else "": "waiting"}
    sentence = only(app).sentence
    assert ("runs wait" if reported else "no worker has reported a run") in sentence
    client.delete(f"{prefix}:waiting")
    look(beat, let_pass)
    assert opened(app) == {}


def test_a_run_that_cannot_be_sent_for_a_minute_is_one(
    app: Celery, beat: RedisScheduler, let_pass: LetPass, client: redis.Redis, prefix: str
) -> None:
    create(app)
    since = time.time() - 61
    client.zadd(f"{prefix}:failing", {f"{prefix}feed": since})
    client.hset(f"{prefix}feed", mapping={"failing_since": since, "last_error": "Refused: no queue"})

    look(beat, let_pass)

    assert ("feed", "not_sent", "not sent: Refused: no queue") in [
        (each.entry, each.kind, each.sentence) for each in ScheduleStore(app).incidents.list(only_open=True)
    ]


def test_a_person_who_disables_an_entry_ends_its_incident_and_who_enables_it_begins_none(
    app: Celery, beat: RedisScheduler, let_pass: LetPass
) -> None:
    create(app)
    end_runs(app, "feed", "F")
    look(beat, let_pass)
    ScheduleStore(app).disable("feed")
    look(beat, let_pass)
    assert opened(app) == {}

    ScheduleStore(app).enable("feed")
    look(beat, let_pass)
    look(beat, let_pass)
    assert opened(app) == {}
    end_runs(app, "feed", "F")
    look(beat, let_pass)
    assert opened(app) == {"feed": "failed"}


def test_what_beat_has_disabled_after_failures_stays_one_until_somebody_knows_of_it(
    app: Celery, beat: RedisScheduler, let_pass: LetPass, client: redis.Redis, prefix: str
) -> None:
    create(app, disable_after_failures=2)
    end_runs(app, "feed", "FF")
    client.zadd(f"{prefix}:schedule", {f"{prefix}feed": 1})
    look(beat, let_pass)
    look(beat, let_pass)
    assert not ScheduleStore(app).get("feed").enabled
    assert opened(app) == {"feed": "failed"}

    ScheduleStore(app).incidents.acknowledge(only(app).id)
    look(beat, let_pass)
    look(beat, let_pass)

    assert opened(app) == {}
    assert len(ScheduleStore(app).incidents.list()) == 1


def test_an_incident_that_is_acknowledged_is_quiet_until_it_fails_in_another_way(
    app: Celery, beat: RedisScheduler, let_pass: LetPass
) -> None:
    create(app)
    store = ScheduleStore(app)
    end_runs(app, "feed", "F")
    look(beat, let_pass)
    assert store.health(strict=True).failed == ("results",)

    store.incidents.acknowledge(only(app).id, note="known")
    assert store.health(strict=True).is_healthy
    assert store.status().news == {}
    end_runs(app, "feed", "F")
    look(beat, let_pass)
    assert store.health(strict=True).is_healthy
    end_runs(app, "feed", "F", error="KeyError: 'rate'")
    look(beat, let_pass)

    assert store.health(strict=True).problems == ("1 failed: feed",)
    assert (only(app).error, only(app).count) == ("KeyError: 'rate'", 3)


def test_that_no_run_ends_well_in_time_is_one_until_the_next_that_does(
    app: Celery, beat: RedisScheduler, let_pass: LetPass, client: redis.Redis, prefix: str
) -> None:
    create(app, finish_within=600)
    client.zadd(f"{prefix}:schedule", {f"{prefix}feed": 1})
    look(beat, let_pass)
    promised = client.zscore(f"{prefix}:promises", f"{prefix}feed")
    assert promised is not None
    assert client.hget(f"{prefix}feed", "span") == "600"
    assert opened(app) == {}

    client.zadd(f"{prefix}:promises", {f"{prefix}feed": time.time() - 1})
    look(beat, let_pass)
    assert opened(app) == {"feed": "overdue"}
    assert ScheduleStore(app).why("feed").sentence.startswith("No run has ended well")

    end_runs(app, "feed", "S")
    look(beat, let_pass)
    assert opened(app) == {}
    assert client.zscore(f"{prefix}:promises", f"{prefix}feed") is not None  # the run that was sent is still active


def test_a_run_that_was_lost_and_is_sent_again_is_to_end_well_by_the_same_time(
    app: Celery, beat: RedisScheduler, let_pass: LetPass, client: redis.Redis, prefix: str
) -> None:
    create(app, finish_within=600)
    client.zadd(f"{prefix}:schedule", {f"{prefix}feed": 1})
    (sent,) = run_due(beat)
    runs, promised = Context.of(app).redis.runs, client.zscore(f"{prefix}:promises", f"{prefix}feed")
    runs.start(Execution(run_id=sent.id, name="feed", task="proj.work", holder="w:1:a"))
    run = runs.run(sent.id)
    assert run is not None
    assert runs.lose(run, requeue_in=0.0) == "LOST"

    (again,) = run_due(beat)
    look(beat, let_pass)

    assert again.id == sent.id
    assert client.zscore(f"{prefix}:promises", f"{prefix}feed") == promised
    assert opened(app) == {}, "its end does not count before it is final"


def test_of_too_many_incidents_those_go_that_have_ended(
    make_app: MakeApp, make_scheduler: MakeScheduler, let_pass: LetPass, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_of_incidents, "MOST_INCIDENTS", 2)
    app = make_app(redisbeater_track_runs=True)
    beat = make_scheduler(app)
    for name, letters in {"healed": "F", "first": "F"}.items():
        create(app, name)
        end_runs(app, name, letters)
        look(beat, let_pass)
    end_runs(app, "healed", "S")
    look(beat, let_pass)
    for name in ("second", "third"):
        create(app, name)
        end_runs(app, name, "F")
        look(beat, let_pass)

    assert {each.entry for each in ScheduleStore(app).incidents.list()} == {"first", "second", "third"}


def test_a_promise_that_was_withdrawn_is_forgotten(
    app: Celery, beat: RedisScheduler, let_pass: LetPass, client: redis.Redis, prefix: str
) -> None:
    create(app)
    client.hset(f"{prefix}feed", "span", "600")
    client.zadd(f"{prefix}:promises", {f"{prefix}feed": 1, f"{prefix}gone": 1})

    look(beat, let_pass)

    assert not client.exists(f"{prefix}:promises")
    assert not client.hexists(f"{prefix}feed", "span")
    assert opened(app) == {}


def test_what_cannot_be_read_is_one(
    app: Celery, beat: RedisScheduler, let_pass: LetPass, client: redis.Redis, prefix: str
) -> None:
    client.hset(f"{prefix}odd", "definition", "{")
    client.zadd(f"{prefix}:schedule", {f"{prefix}odd": 1})
    look(beat, let_pass)
    look(beat, let_pass)
    assert opened(app) == {"odd": "broken"}

    ScheduleStore(app).delete("odd")
    look(beat, let_pass)
    assert opened(app) == {}


def test_entries_that_are_late_are_one_of_the_schedule_which_a_pause_ends(
    app: Celery, beat: RedisScheduler, let_pass: LetPass, client: redis.Redis, prefix: str
) -> None:
    create(app)
    client.hset(f"{prefix}feed", mapping={"failing_since": 1, "last_error": "Refused", "tries": 1})
    client.zadd(f"{prefix}:failing", {f"{prefix}feed": time.time() - 100})
    look(beat, let_pass)
    assert "late" in {each.kind for each in ScheduleStore(app).incidents.list(only_open=True)}

    ScheduleStore(app).pause()
    look(beat, let_pass)

    assert "late" not in {each.kind for each in ScheduleStore(app).incidents.list(only_open=True)}


def test_a_gap_of_minutes_is_an_incident_that_is_over_and_why_quotes_it(
    app: Celery, make_scheduler: MakeScheduler, client: redis.Redis, prefix: str
) -> None:
    create(app)
    passed = time.time() - 400
    client.set(f"{prefix}:passed", f"{passed:.6f}")
    client.delete(f"{prefix}:log:feed")  # it says that the entry is new

    make_scheduler(app).tick()

    incident = only(app)
    assert (incident.kind, incident.is_open, incident.why) == ("gap", False, "no beat was running")
    assert "7 min" in incident.sentence
    assert ScheduleStore(app).health().is_healthy
    at = datetime.fromtimestamp(passed + 100, timezone.utc)
    assert "No beat was running from" in ScheduleStore(app).why("feed", at=at).sentence


def test_a_short_gap_is_a_line_and_no_incident_and_one_of_another_version_is_none(
    app: Celery, make_scheduler: MakeScheduler, client: redis.Redis, prefix: str
) -> None:
    store, now = ScheduleStore(app), time.time()
    client.set(f"{prefix}:passed", f"{now - 40:.6f}")
    make_scheduler(app).tick()
    assert [line.what for line in store.log() if line.what == "gap"] == ["gap"]
    assert store.incidents.list() == []
    client.delete(f"{prefix}:lock", f"{prefix}:log")

    client.lpush(f"{prefix}:log", f'{now - 300:.6f} 1 {now - 300:.6f} leading {{"beat":"other:1"}}')
    client.set(f"{prefix}:passed", f"{now - 4000:.6f}")
    make_scheduler(app).tick()
    assert [line.what for line in store.log() if line.what == "gap"] == []


def test_a_beat_that_leads_stores_that_it_claims_whichever_request_has_its_line(
    app: Celery, make_scheduler: MakeScheduler, client: redis.Redis, prefix: str, let_pass: LetPass
) -> None:
    beat = make_scheduler(app)
    told = []
    for _ in range(4):  # each renews the lock, which carries the line before the claim can
        beat.tick()
        told.append(client.get(f"{prefix}:passed"))
        let_pass(5.5)

    assert len(set(told)) == 4


def test_a_beat_that_claims_seldom_makes_no_gaps(
    make_app: MakeApp, make_scheduler: MakeScheduler, client: redis.Redis, prefix: str
) -> None:
    app = make_app(redisbeater_track_runs=True, beat_max_loop_interval=300)
    client.set(f"{prefix}:passed", f"{time.time() - 400:.6f}")

    make_scheduler(app).tick()

    assert [line.what for line in ScheduleStore(app).log() if line.what == "gap"] == []
    assert ScheduleStore(app).incidents.list() == []


def test_a_beat_that_gets_its_lock_again_is_not_said_to_hang(
    app: Celery, make_scheduler: MakeScheduler, client: redis.Redis, prefix: str, let_pass: LetPass
) -> None:
    beat = make_scheduler(app)
    beat.tick()
    (token,) = client.hkeys(f"{prefix}:beats")
    line = client.hget(f"{prefix}:beats", token)
    client.delete(f"{prefix}:lock")  # it has run out while Redis was away
    let_pass(60)

    beat.tick()

    assert client.hget(f"{prefix}:beats", token) != line


def test_a_new_name_takes_the_incidents_along(app: Celery, beat: RedisScheduler, let_pass: LetPass) -> None:
    create(app)
    end_runs(app, "feed", "F")
    look(beat, let_pass)

    ScheduleStore(app).rename("feed", "supply")
    assert opened(app) == {"supply": "failed"}
    end_runs(app, "supply", "S")
    look(beat, let_pass)

    assert opened(app) == {}
    assert len(ScheduleStore(app).incidents.list("supply")) == 1


def test_what_fails_together_is_one_line_of_the_report(app: Celery, beat: RedisScheduler, let_pass: LetPass) -> None:
    for number in range(3):
        create(app, f"feed {number}")
        end_runs(app, f"feed {number}", "F", error=f"ConnectionError: db1 refused {number + 10_000}")
    create(app, "odd")
    end_runs(app, "odd", "F")
    look(beat, let_pass)

    report = ScheduleStore(app).incidents.report(datetime.now(timezone.utc) - timedelta(hours=1))

    (group,) = report.open
    assert (
        group.sentence == "4 entries at worker celery@w, 3 of them: failed 1 time: ConnectionError: db1 refused 10000"
    )


def test_more_incidents_than_a_look_can_write_are_written_in_the_next_passes(
    app: Celery, beat: RedisScheduler, let_pass: LetPass, client: redis.Redis, prefix: str
) -> None:
    for number in range(300):
        create(app, f"feed {number}")
    pipe = client.pipeline()
    for number in range(300):
        pipe.hset(f"{prefix}feed {number}", "ends", "F 1")
        pipe.zadd(f"{prefix}:failed", {f"{prefix}feed {number}": 1})
    pipe.execute()
    look(beat, let_pass)
    wait_until(lambda: beat.tick() is not None and ScheduleStore(app).status().news == {"failed": 300}, "all")

    assert len(ScheduleStore(app).incidents.list(only_open=True, limit=1000)) == 300
    assert "295 more failed" in ScheduleStore(app).status().told_incidents
    pipe.delete(f"{prefix}:failed")
    pipe.execute()
    look(beat, let_pass)
    wait_until(lambda: beat.tick() is not None and not ScheduleStore(app).status().news, "all to be closed")


def test_a_release_is_kept_with_the_run_and_said_once_and_why_names_it(
    make_app: MakeApp, client: redis.Redis, prefix: str
) -> None:
    app = make_app(redisbeater_track_runs=True, redisbeater_release="42")
    create(app)
    store = ScheduleStore(app)
    (good, bad) = end_runs(app, "feed", "SF")

    assert [store.runs.get(run_id).release for run_id in (good, bad)] == ["42", "42"]
    assert list(store.incidents.report(datetime.now(timezone.utc) - timedelta(hours=1)).releases) == ["42"]
    assert [line.details for line in store.log() if line.what == "release"] == [{"release": "42", "worker": "celery@w"}]
    assert "after release 42: ValueError" in store.why("feed").sentence


@pytest.mark.parametrize("variable", ["SENTRY_RELEASE", "HEROKU_RELEASE_VERSION", "GIT_COMMIT"])
def test_a_release_of_the_environment_counts(make_app: MakeApp, monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    monkeypatch.setenv(variable, "7f3c")
    app = make_app(redisbeater_track_runs=True)
    create(app)

    (run_id,) = end_runs(app, "feed", "S")

    assert ScheduleStore(app).runs.get(run_id).release == "7f3c"


def test_without_a_release_nothing_is_kept_of_one(app: Celery, client: redis.Redis, prefix: str) -> None:
    create(app)
    (run_id,) = end_runs(app, "feed", "S")

    assert not client.hexists(f"{prefix}:run:{run_id}", "release")
    assert not client.exists(f"{prefix}:releases")


def test_two_beats_without_a_lock_write_each_incident_once(
    make_app: MakeApp, make_scheduler: MakeScheduler, let_pass: LetPass
) -> None:
    app = make_app(redisbeater_track_runs=True, redisbeater_lock_key=None)
    create(app)
    beats = [make_scheduler(app), make_scheduler(app)]
    heard: list[str] = []
    incident_opened.connect(hear := lambda incident_id, **_: heard.append(incident_id), weak=False)
    end_runs(app, "feed", "F")

    for beat in beats * 2:
        look(beat, let_pass)
    incident_opened.disconnect(hear)

    assert heard == [only(app).id]


def test_a_missing_right_is_logged_once_and_runs_are_sent(
    make_app: MakeApp,
    make_scheduler: MakeScheduler,
    client: redis.Redis,
    let_pass: LetPass,
    prefix: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Beat may use all keys but those of incidents, as one whose rights name its keys one by one."""
    begins = ("[^:]*", ":[^ciop]*", ":calendars", ":changes", ":claim*", ":id", ":pause", ":payload*")
    keys = [f"~{prefix}{begin}" for begin in begins]
    client.execute_command("ACL", "SETUSER", "older", "on", "nopass", "resetkeys", *keys, "&*", "+@all")
    try:
        app = make_app(redisbeater_redis_options={"username": "older"})
        create(app)
        beat = make_scheduler(app)
        client.zadd(f"{prefix}:schedule", {f"{prefix}feed": 1})

        assert [run.name for run in run_due(beat)] == ["feed"]
        look(beat, let_pass)
        look(beat, let_pass)
        assert caplog.text.count("Redis refuses to record incidents") == 1
    finally:
        client.execute_command("ACL", "DELUSER", "older")


def test_lint_warns_of_promises_that_cannot_be_meant_so(app: Celery) -> None:
    create(app, max_failures=3, disable_after_failures=3)
    create(app, "fine", max_failures=2, disable_after_failures=3)

    found = [each for each in ScheduleStore(app).lint() if each.rule == "odd-promise"]

    assert [(each.name, each.text[:14]) for each in found] == [("feed", "max_failures 3")]


def test_the_command_filters_and_shows_one_with_all_that_is_known(
    app: Celery, beat: RedisScheduler, let_pass: LetPass
) -> None:
    create(app)
    create(app, "odd")
    end_runs(app, "feed", "F", traceback="Traceback: here")
    end_runs(app, "odd", "FS")
    look(beat, let_pass)
    incident = ScheduleStore(app).incidents.list("feed")[0]

    def said(*words: str) -> str:
        return CliRunner().invoke(redisbeater, ["incidents", *words], obj=SimpleNamespace(app=app)).output

    assert incident.id in said("--entry", "feed", "--kind", "failed", "--since", "1h", "--open")
    assert said("--entry", "feed", "--kind", "broken") == "no incidents\n"
    assert "odd" not in said("--open")
    whole = said("--id", incident.id)
    assert "first error: ValueError: cannot parse row 17" in whole
    assert "Traceback: here" in whole
    with pytest.raises(ValueError, match="kind: expected one of"):
        ScheduleStore(app).incidents.list(kind="odd")


def test_a_beat_that_has_not_seen_how_an_incident_ended_does_not_begin_it_again(
    make_app: MakeApp, make_scheduler: MakeScheduler, let_pass: LetPass
) -> None:
    app = make_app(redisbeater_track_runs=True, redisbeater_lock_key=None)
    create(app)
    end_runs(app, "feed", "F")
    beat = make_scheduler(app)
    look(beat, let_pass)
    ScheduleStore(app).disable("feed")
    look(beat, let_pass)
    ScheduleStore(app).enable("feed")

    look(make_scheduler(app), let_pass)

    assert opened(app) == {}
    assert only(app).times == 1


def test_each_place_names_the_same_incidents(
    app: Celery, beat: RedisScheduler, let_pass: LetPass, client: redis.Redis, prefix: str
) -> None:
    for name in ("feed", "rates", "known"):
        create(app, name)
        end_runs(app, name, "F")
    client.hset(f"{prefix}odd", "definition", "no JSON")
    client.zadd(f"{prefix}:schedule", {f"{prefix}odd": 1})
    store = ScheduleStore(app)
    look(beat, let_pass)
    (known,) = store.incidents.list("known")
    store.incidents.acknowledge(known.id)
    wanted = [("broken", "odd"), ("failed", "feed"), ("failed", "rates")]

    def said(*words: str) -> str:
        return CliRunner().invoke(redisbeater, [*words], obj=SimpleNamespace(app=app)).output

    assert sorted((each.kind, each.entry) for each in store.incidents.list(only_open=True) if each.is_news) == wanted
    assert sorted((each.kind, each.entry) for each in store.status().incidents) == wanted
    assert sorted((each.text.split()[1], each.name) for each in store.lint() if each.rule == "incident") == [
        ("broken:", "odd"), ("failed", "feed"), ("failed", "rates"),
    ]  # fmt: skip
    lines = [line for line in said("status").splitlines() if line.startswith("incident")]
    assert sorted(line.split()[1] for line in lines) == ["feed:", "odd:", "rates:"]
    problems = said("health", "--strict")
    assert "1 broken: odd" in problems
    assert re.search("2 failed: (feed, rates|rates, feed)", problems)
    for name, is_news in {"feed": True, "rates": True, "odd": True, "known": False}.items():
        told = [each.text for each in store.why(name).evidence if re.match(r"incident \w{8}:", each.text)]
        assert len(told) == is_news, name
    head = browse(app).get("/").text.partition("<h1")[0]
    assert "1 broken: odd" in head
    assert re.search("2 failed: (feed, rates|rates, feed)", head)
    assert re.search(r'Incidents <span class="count">3</span>', head)
    figures = exposition_of(create_schedule_registry(Context.of(app))).decode()
    assert re.findall(r'redisbeater_incidents{.*kind="(\w+)".*} ([1-9])', figures) == [("broken", "1"), ("failed", "2")]


@pytest.mark.parametrize("right", ["-zmscore", "+zmscore"])
def test_a_look_finds_what_is_over_whether_it_may_ask_for_many_scores_or_not(
    make_app: MakeApp,
    make_scheduler: MakeScheduler,
    client: redis.Redis,
    let_pass: LetPass,
    right: str,
) -> None:
    client.execute_command("ACL", "SETUSER", "beat", "reset", "on", "nopass", "~*", "&*", "+@all", right)
    try:
        app = make_app(redisbeater_track_runs=True, redisbeater_redis_options={"username": "beat"})
        for name in ("gone", "healed", "off", "left"):
            create(app, name)
            end_runs(app, name, "F")
        beat = make_scheduler(app)
        look(beat, let_pass)
        assert set(opened(app)) == {"gone", "healed", "off", "left"}

        ScheduleStore(app).delete("gone")
        end_runs(app, "healed", "S")
        ScheduleStore(app).disable("off")
        look(beat, let_pass)

        assert opened(app) == {"left": "failed"}
    finally:
        client.execute_command("ACL", "DELUSER", "beat")
