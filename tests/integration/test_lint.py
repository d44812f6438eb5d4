"""What lint finds, in a schedule and in a file."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import redis
from celery import Celery
from celery.contrib.testing.worker import start_worker
from celery.schedules import crontab
from click.testing import CliRunner, Result
from due import UTC, now
from redbeat import RedBeatSchedulerEntry
from support.waiting import wait_until

from redisbeater import RedisScheduleEntry, ScheduleStore, cron
from redisbeater.cli import redisbeater
from redisbeater.management.lint_rules import RULES


@pytest.fixture
def vienna(make_app: Callable[..., Celery]) -> Celery:
    app = make_app("shop", timezone="Europe/Vienna")
    app.task(name="t", shared=False)(anything)
    return app


@pytest.fixture(autouse=True)
def persistent(client: redis.Redis) -> Iterator[None]:
    """Let the server tell that it makes snapshots, once in a day."""
    client.config_set("save", "86400 1000000000")
    yield
    client.config_set("save", "")


@pytest.fixture
def run(vienna: Celery) -> Callable[..., Result]:
    def run(*arguments: str, app: Celery = vienna) -> Result:
        return CliRunner().invoke(redisbeater, ["lint", *arguments], obj=SimpleNamespace(app=app))

    return run


@pytest.fixture
def write(client: redis.Redis, prefix: str) -> Callable[..., None]:
    """Store a definition as another program would, dormant."""

    def write(name: str, **fields: Any) -> None:
        definition = {"task": "t", "schedule": {"__type__": "interval", "every": 60}, **fields}
        client.hset(f"{prefix}{name}", "definition", json.dumps(definition))
        client.zadd(f"{prefix}:schedule", {f"{prefix}{name}": now().timestamp() + 1000})

    return write


def known() -> None: ...


def anything(*args: object, **kwargs: object) -> None: ...


def found(result: Result) -> list[tuple[str, str, str]]:
    return [(each["rule"], each["severity"], each["name"]) for each in json.loads(result.stdout)]


def test_findings_are_drawn_the_worst_first(
    run: Callable[..., Result], vienna: Celery, write: Callable[..., None]
) -> None:
    never = {"__type__": "crontab", "minute": "0", "hour": "0", "day_of_month": "30", "month_of_year": "2"}
    write("import old", schedule=never)
    write("odd", task=5)
    write("far", timezone="Mars/Olympus")
    RedisScheduleEntry("backup", "t", crontab(minute=30, hour=2), app=vienna).save()
    RedisScheduleEntry("ping", "t", crontab(minute="*/5"), app=vienna).save()
    RedisScheduleEntry("hasty", "t", 60, misfire_grace_time=2, app=vienna).save()

    result = run()

    assert result.exit_code == 1
    lines = result.stdout.splitlines()
    assert [line.split()[:3] for line in lines] == [
        ["error", "broken", "odd"],
        ["error", "never-fires", "import"],
        ["error", "unknown-zone", "far"],
        ["warning", "dst-gap", "backup"],
        ["warning", "dst-repeat", "backup"],
        ["warning", "grace-too-short", "hasty"],
    ]
    assert "no month of the crontab has such a day" in lines[1]
    assert "02:30 does not exist on " in lines[3]
    assert lines[3].endswith(": runs at 03:00")
    assert "02:30 comes twice on " in lines[4]
    assert "misfire_grace_time 2 s is shorter than the lock" in lines[5]


def test_nothing_found_is_exit_code_0(run: Callable[..., Result], vienna: Celery) -> None:
    RedisScheduleEntry("ping", "t", 60, app=vienna).save()

    result = run()

    assert (result.exit_code, result.stdout) == (0, "nothing found\n")


def test_a_herd_is_more_than_a_hundred_in_one_second(run: Callable[..., Result], vienna: Celery) -> None:
    with ScheduleStore(vienna).bulk() as bulk:
        for number in range(101):
            bulk.save(RedisScheduleEntry(f"report-{number}", "t", crontab(minute=0, hour=5), app=vienna))

    result = run()

    assert result.stdout == "warning  herd  report*  101 runs start at 05:00:00: jitter=300 spreads them\n"
    assert run("--ignore", "herd").exit_code == 0


def test_entries_that_are_over_and_that_fail_are_found(
    run: Callable[..., Result], vienna: Celery, client: redis.Redis, prefix: str
) -> None:
    RedisScheduleEntry("spent", "t", 60, max_runs=1, last_run_at=now(), total_run_count=1, app=vienna).save()
    RedisScheduleEntry("over", "t", 60, end_at=now() + timedelta(hours=1), app=vienna).save()
    client.zadd(f"{prefix}:schedule", {f"{prefix}over": -1})
    RedisScheduleEntry("sick", "t", 60, app=vienna).save()
    score = client.zscore(f"{prefix}:schedule", f"{prefix}sick")
    failing = {"last_error": "no queue", "tries": "3", "failing_since": str(score - 60)}
    client.hset(f"{prefix}sick", mapping={**failing, "fire_time": str(score - 60), "look_at": str(score)})

    rules = found(run("--json"))

    assert ("past-only", "warning", "spent") in rules
    assert ("failing", "warning", "sick") in rules


@pytest.mark.usefixtures("nothing_of_a_worker_stays")
def test_a_task_that_no_worker_has_is_a_hint_and_one_of_no_app_a_warning(
    run: Callable[..., Result], vienna: Celery
) -> None:
    vienna.task(name="shop.known")(known)
    RedisScheduleEntry("good", "shop.known", 60, app=vienna).save()
    RedisScheduleEntry("bad", "shop.gone", 60, app=vienna).save()
    alone = run()
    text = "this app has no task 'shop.gone': each run fails, unless a worker has it"
    assert (alone.stdout, alone.exit_code) == (f"warning  unknown-task  bad  {text}\n", 1)

    with start_worker(vienna, perform_ping_check=False, pool="solo", shutdown_timeout=30):
        # A busy machine may not answer within the second for which workers are asked.
        wait_until(lambda: found(run("--json")) == [("unknown-task", "hint", "bad")], "the answer of a worker")
        assert run("--json").exit_code == 0


@pytest.mark.usefixtures("nothing_of_a_worker_stays")
def test_a_task_that_no_worker_has_is_an_error_once_a_run_has_failed(
    run: Callable[..., Result], make_app: Callable[..., Celery], client: redis.Redis, prefix: str
) -> None:
    app = make_app("shop", redisbeater_track_runs=True)
    app.task(name="shop.known")(known)
    RedisScheduleEntry("bad", "shop.gone", 60, app=app).save()
    client.hset(f"{prefix}bad", "ends", "F 1795478400.000000")

    with start_worker(app, perform_ping_check=False, pool="solo", shutdown_timeout=30):
        wait_until(
            lambda: found(run("--json", app=app)) == [("unknown-task", "error", "bad")], "the answer of a worker"
        )
        assert run("--json", app=app).exit_code == 1


@pytest.mark.parametrize(("seconds", "is_short"), [(0.001, True), (0.0999, True), (0.1, False)])
def test_an_interval_below_a_tenth_of_a_second_is_found(
    run: Callable[..., Result], vienna: Celery, seconds: float, is_short: bool
) -> None:
    RedisScheduleEntry("ticker", "t", seconds, enabled=False, app=vienna).save()

    expected = [("short-interval", "warning", "ticker")] if is_short else []
    assert found(run("--json", "--ignore", "herd")) == expected


def test_arguments_that_a_task_does_not_take_are_found(
    run: Callable[..., Result], vienna: Celery, tmp_path: Path
) -> None:
    @vienna.task(name="shop.send", shared=False)
    def send(to: str, pages: int = 1) -> None: ...

    for name, args in {"good": ["anna"], "bad": [], "worse": [1, 2, 3]}.items():
        RedisScheduleEntry(name, "shop.send", 60, args=args, app=vienna).save()
    RedisScheduleEntry("unknown", "shop.gone", 60, args=[1, 2, 3], app=vienna).save()
    path = tmp_path / "schedule.yaml"
    path.write_text(ScheduleStore(vienna).files.export().to_text())

    assert run("--ignore", "unknown-task").stdout == (
        "warning  wrong-arguments  bad    send() missing 1 required positional argument: 'to'\n"
        "warning  wrong-arguments  worse  send() takes from 1 to 2 positional arguments but 3 were given\n"
    )
    assert run("--file", str(path), "--json").stdout == run("--json").stdout


@pytest.mark.parametrize("settings", [{}, {"redbeat_key_prefix": "redbeat:"}], ids=["its default", "its setting"])
def test_what_redbeat_cannot_read_is_an_error_below_its_prefix(
    run: Callable[..., Result], make_app: Callable[..., Celery], client: redis.Redis, settings: dict[str, str]
) -> None:
    app = make_app("shop", redisbeater_key_prefix="redbeat:", **settings)
    RedisScheduleEntry("plain", "t", 60, app=app).save()
    RedisScheduleEntry("rich", "t", cron("0 18 * * friL"), jitter=5, timezone="UTC", app=app).save()

    result = run("--ignore", "unknown-task", app=app)
    app.conf.update(redbeat_redis_url=app.conf.redisbeater_redis_url, redbeat_redis_options={})
    assert RedBeatSchedulerEntry.from_key("redbeat:plain", app=app).task == "t"
    with pytest.raises(TypeError, match="unexpected keyword argument"):  # else say so on the page, and in lint
        RedBeatSchedulerEntry.from_key("redbeat:rich", app=app)
    client.delete("redbeat::schedule", "redbeat:plain", "redbeat:rich", *client.keys("redbeat::*"))

    assert (result.exit_code, result.stdout) == (
        1,
        "error  no-redbeat  rich  RedBeat cannot read jitter, timezone, schedule cron, and may stop at it: delete it "
        "before you go back\n",
    )


def test_the_prefix_of_redbeat_is_the_one_of_its_setting(
    run: Callable[..., Result], vienna: Celery, prefix: str
) -> None:
    RedisScheduleEntry("rich", "t", 60, jitter=5, app=vienna).save()

    before = run("--json")
    vienna.conf.redbeat_key_prefix = prefix
    after = run("--json")

    assert found(before) == []
    assert found(after) == [("no-redbeat", "error", "rich")]


def test_hints_count_if_strict(run: Callable[..., Result], vienna: Celery) -> None:
    RedisScheduleEntry("hourly", "t", 3600, app=vienna).save()

    lax, strict = run("--sentry"), run("--sentry", "--strict")

    assert lax.stdout.startswith("hint  sentry-interval  hourly  ")
    assert (lax.exit_code, strict.exit_code) == (0, 1)


def test_an_entry_that_nobody_has_enabled_for_a_month_is_a_hint(
    run: Callable[..., Result], vienna: Celery, client: redis.Redis, prefix: str
) -> None:
    store = ScheduleStore(vienna)
    for name in ("old", "new", "until", "back", "foreign"):
        RedisScheduleEntry(name, "t", 60, app=vienna).save()
    RedisScheduleEntry("never", "t", 60, enabled=False, app=vienna).save(by="ben")
    store.disable("old", by="anna", note="moved")
    store.disable("new")
    store.disable("until", until=now() + timedelta(days=400))
    store.disable("back")
    # Another program has disabled it, nobody knows when.
    stored = json.loads(client.hget(f"{prefix}foreign", "definition") or "")
    client.hset(f"{prefix}foreign", "definition", json.dumps({**stored, "enabled": False}))
    for name, days in {"old": 31, "new": 29, "until": 31, "back": 31, "never": 45, "foreign": 45}.items():
        _age(client, f"{prefix}:log:{name}", days)
    store.enable("back")

    result = run()

    assert [line.split(None, 3) for line in result.stdout.splitlines()] == [
        ["hint", "long-disabled", "never", "disabled for 45 d by ben: enable it, or delete it"],
        ["hint", "long-disabled", "old", 'disabled for 31 d by anna: "moved": enable it, or delete it'],
    ]
    assert result.exit_code == 0


def _age(client: redis.Redis, key: str, days: int) -> None:
    """Let the lines of a log be so many days older."""
    for place, text in enumerate(client.lrange(key, 0, -1)):
        last, count, first, rest = text.split(" ", 3)
        times = [f"{float(each) - days * 86_400:.6f}" for each in (last, first)]
        client.lset(key, place, f"{times[0]} {count} {times[1]} {rest}")


def test_a_server_that_writes_nothing_to_its_disk_is_found(vienna: Celery, client: redis.Redis) -> None:
    client.config_set("save", "")

    (finding,) = ScheduleStore(vienna).lint()

    assert (finding.rule, finding.severity, finding.name) == ("no-persistence", "warning", "")
    assert "set appendonly yes" in finding.text


def test_of_a_server_that_does_not_tell_there_is_no_finding(
    make_app: Callable[..., Celery], client: redis.Redis
) -> None:
    """As hosted ones do, which refuse CONFIG."""
    client.config_set("save", "")
    client.execute_command("ACL", "SETUSER", "hosted", "on", "nopass", "~*", "&*", "+@all", "-config")
    try:
        app = make_app(redisbeater_redis_options={"username": "hosted", "password": "x"})

        assert ScheduleStore(app).lint() == []
    finally:
        client.execute_command("ACL", "DELUSER", "hosted")


def test_a_server_that_may_evict_is_found(run: Callable[..., Result], vienna: Celery, client: redis.Redis) -> None:
    before = client.config_get("maxmemory*")
    client.config_set("maxmemory", "1gb")
    client.config_set("maxmemory-policy", "allkeys-lru")
    try:
        result = run()
    finally:
        client.config_set("maxmemory-policy", before["maxmemory-policy"])
        client.config_set("maxmemory", before["maxmemory"])

    assert result.stdout == (
        "warning  evicting  the schedule  maxmemory-policy allkeys-lru: Redis may evict the schedule; "
        "set maxmemory-policy noeviction\n"
    )


def test_a_file_is_linted_before_it_is_applied(run: Callable[..., Result], tmp_path: Path) -> None:
    file = tmp_path / "schedule.json"
    entries = {
        "backup": {"task": "t", "cron": "30 2 * * *", "timezone": "Europe/Vienna"},
        "bad": {"task": "t", "cron": "61 * * * *"},
        "far": {"task": "t", "every": 60, "timezone": "Mars/Olympus"},
        **{f"h{number}": {"task": "t", "cron": "0 5 * * *"} for number in range(101)},
    }
    file.write_text(json.dumps({"redisbeater": 1, "entries": entries}))

    result = run("--file", str(file), "--json")

    assert found(result) == [
        ("broken", "error", "bad"),
        ("unknown-zone", "error", "far"),
        ("dst-gap", "warning", "backup"),
        ("dst-repeat", "warning", "backup"),
        ("herd", "warning", "h*"),
    ]
    assert json.loads(result.stdout)[0]["text"].startswith("$.cron.minute: ")


def test_the_rules_are_listed(run: Callable[..., Result]) -> None:
    lines = run("--rules").stdout.splitlines()
    assert [line.split(None, 2) for line in lines] == [
        [severity, rule, text] for rule, (severity, text) in RULES.items()
    ]
    assert [each["rule"] for each in json.loads(run("--rules", "--json").stdout)] == list(RULES)


def test_what_sentry_cannot_monitor_is_found_if_asked(
    run: Callable[..., Result], vienna: Celery, tmp_path: Path
) -> None:
    store = ScheduleStore(vienna)
    store.create("nightly", "t", crontab(hour=3))
    store.create("ninety", "t", 90)
    store.create("hourly", "t", 3600)
    store.create("last friday", "t", cron("0 9 * * friL"))
    file = tmp_path / "schedule.json"
    file.write_text(store.files.export().to_text())

    expected = [
        ("no-sentry", "warning", "last friday"),
        ("no-sentry", "warning", "ninety"),
        ("sentry-interval", "hint", "hourly"),
    ]
    assert found(run("--json", "--sentry")) == expected
    assert found(run("--json", "--sentry", "--file", str(file))) == expected
    assert run().exit_code == 0


def test_an_unknown_rule_is_refused_with_the_nearest(run: Callable[..., Result]) -> None:
    result = run("--ignore", "hrd")

    assert (result.exit_code, result.stderr) == (
        2,
        "Error: --ignore hrd: is no rule; did you mean 'herd'?; --rules lists them\n",
    )


def test_the_year_that_is_looked_at_begins_now(vienna: Celery) -> None:
    RedisScheduleEntry("backup", "t", crontab(minute=30, hour=2), app=vienna).save()

    findings = {each.rule: each.text for each in ScheduleStore(vienna).lint()}

    assert set(findings) == {"dst-gap", "dst-repeat"}
    gap, repeat = next_change(3), next_change(10)
    assert findings["dst-gap"] == f"02:30 does not exist on {gap.day} Mar {gap.year}: runs at 03:00"
    assert findings["dst-repeat"] == f"02:30 comes twice on {repeat.day} Oct {repeat.year}: runs the first time only"


def next_change(month: int) -> datetime:
    """Return when the clocks of Vienna change next in a month: on its last Sunday, at 01:00 UTC."""
    now = datetime.now(UTC)
    ends = [datetime(year, month, 31, 1, tzinfo=UTC) for year in (now.year, now.year + 1)]
    return next(at for at in (end - timedelta(days=end.isoweekday() % 7) for end in ends) if at > now)
