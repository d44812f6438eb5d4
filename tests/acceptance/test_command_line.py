"""``celery -A proj redisbeater ...``."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import datetime, timedelta, timezone

import pytest
import redis
from celery.schedules import crontab
from project import Project
from servers import programs

from redisbeater import RedisScheduleEntry

pytestmark = pytest.mark.parametrize("server", programs()[:1] or [None], indirect=True, ids=["one-server"])


def run(project: Project, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "celery", "-A", "proj", "redisbeater", *arguments]
    return subprocess.run(command, cwd=project.folder, capture_output=True, text=True, timeout=60, check=False)


def test_list_shows_the_next_entry_first_and_marks_broken_ones(
    project: Project, client: redis.Redis, prefix: str
) -> None:
    RedisScheduleEntry("later", "proj.note", 7200, app=project.app()).save()
    RedisScheduleEntry("sooner", "proj.note", 60, app=project.app()).save()
    client.hset(f"{prefix}broken", "definition", "{")
    client.zadd(f"{prefix}:schedule", {f"{prefix}broken": 0})

    rows = [json.loads(line) for line in run(project, "list", "--json").stdout.splitlines()]
    lines = run(project, "list").stdout.splitlines()

    assert [(row["name"], row["state"]) for row in rows] == [
        ("sooner", "enabled"), ("later", "enabled"), ("broken", "broken"),
    ]  # fmt: skip
    assert lines[0].startswith("now ")
    assert [line.split()[0] for line in lines[1:]] == ["NAME", "sooner", "later", "broken"]


def test_an_entry_can_be_shown_disabled_enabled_and_deleted(project: Project) -> None:
    RedisScheduleEntry("report", "proj.note", 60, args=[1], app=project.app()).save()

    assert json.loads(run(project, "show", "report", "--json").stdout)["definition"]["args"] == [1]
    assert run(project, "disable", "report").stdout == "report: disabled\n"
    assert json.loads(run(project, "show", "report", "--json").stdout)["state"] == "disabled"
    assert run(project, "enable", "report").stdout.startswith("report: enabled, next run ")
    assert run(project, "delete", "report").stdout == "report: deleted\n"
    assert run(project, "list", "--json").stdout == ""


def test_an_unknown_name_ends_with_exit_code_2_and_one_line(project: Project) -> None:
    for command in ("show", "upcoming", "enable", "disable", "delete"):
        finished = run(project, command, "nobody")
        assert finished.returncode == 2
        assert finished.stderr == "Error: no entry named 'nobody' in the schedule\n"


def test_broken_lists_the_reason(project: Project, client: redis.Redis, prefix: str) -> None:
    client.hset(f"{prefix}:broken", "odd", json.dumps({"reason": "$.task: is missing", "since": "2026-01-01"}))
    assert run(project, "broken").stdout == "odd: $.task: is missing (since 2026-01-01)\n"
    assert json.loads(run(project, "broken", "--json").stdout)["odd"]["reason"] == "$.task: is missing"


def test_upcoming_shows_the_next_runs_in_utc_and_in_the_zone_of_the_entry(project: Project) -> None:
    noon = crontab(minute=0, hour=12)
    entry = RedisScheduleEntry("report", "proj.note", noon, timezone="Asia/Tokyo", app=project.app()).save()
    runs = entry.upcoming(5)

    lines = run(project, "upcoming", "report").stdout.splitlines()
    two = json.loads(run(project, "upcoming", "report", "-n", "2", "--json").stdout)

    assert lines[0].split() == ["FIRE", "TIME", "(UTC)", "LOCAL", "IN"]
    assert [line[:19] for line in lines[1:]] == [f"{each.fire_time:%Y-%m-%d %H:%M:%S}" for each in runs]
    assert all("12:00:00 JST" in line for line in lines[1:])
    assert two == [each.as_dict() for each in runs[:2]]
    assert two[0]["note"] == two[0]["due_at"] == ""


def test_upcoming_shows_the_effects_of_jitter_and_clock_changes(project: Project) -> None:
    second_sunday_of_march = crontab(minute=30, hour=2, day_of_month="8-14", day_of_week="sun", month_of_year=3)
    RedisScheduleEntry(
        "report", "proj.note", second_sunday_of_march, timezone="America/New_York", jitter=600, app=project.app()
    ).save()

    [header, line] = run(project, "upcoming", "report", "-n", "1").stdout.splitlines()
    [shown] = json.loads(run(project, "upcoming", "report", "-n", "1", "--json").stdout)

    assert header.split()[-2:] == ["SENT", "NOTE"]
    assert line.endswith(shown["note"][:77] + "...") or line.endswith(shown["note"])
    assert " s later  " in line
    assert shown["fire_time"] < shown["due_at"]
    assert "moved from 02:30, which does not exist on" in shown["note"]


def test_upcoming_of_an_entry_that_will_not_run_says_so(project: Project) -> None:
    RedisScheduleEntry("report", "proj.note", 60, enabled=False, app=project.app()).save()

    finished = run(project, "upcoming", "report")

    assert (finished.returncode, finished.stdout) == (0, "none: the entry is disabled or has finished\n")
    assert json.loads(run(project, "upcoming", "report", "--json").stdout) == []


def test_upcoming_refuses_invalid_numbers_with_exit_code_2(project: Project) -> None:
    RedisScheduleEntry("report", "proj.note", 60, app=project.app()).save()

    for number in ("0", "1001", "many"):
        finished = run(project, "upcoming", "report", "-n", number)
        assert finished.returncode == 2
        assert "-n" in finished.stderr


def test_show_counts_skipped_fire_times_by_reason(project: Project, client: redis.Redis, prefix: str) -> None:
    entry = RedisScheduleEntry("report", "proj.note", 60, description="the monthly one", app=project.app()).save()
    last = "2026-01-01T00:00:00+00:00"
    client.hset(
        entry.key,
        "skipped",
        json.dumps({"missed": {"count": 3, "last": last}, "coalesced": {"count": 12, "last": last}}),
    )

    lines = run(project, "show", "report").stdout.splitlines()

    assert "  counts       0 runs, 3 missed, 12 coalesced" in lines
    assert "  description  the monthly one" in lines
    assert json.loads(run(project, "show", "report", "--json").stdout)["skipped"] == "3 missed, 12 coalesced"


def test_show_has_no_line_about_skips_when_nothing_was_skipped(project: Project) -> None:
    RedisScheduleEntry("report", "proj.note", 60, app=project.app()).save()

    assert "skipped" not in run(project, "show", "report").stdout


def test_show_counts_what_a_real_beat_skipped(project: Project) -> None:
    late = RedisScheduleEntry("report", "proj.note", 60, misfire_grace_time=90, app=project.app()).save()
    late.reschedule(datetime.now(timezone.utc) - timedelta(minutes=10, seconds=30))
    beat = project.beat()
    beat.says("proj.note sent. id->")
    beat.end()

    # Ten fire times have passed. The newest is half a minute late, the one before it more than the grace time.
    skipped = json.loads(run(project, "show", "report", "--json").stdout)["skipped"]

    assert skipped.startswith("9 missed")
    assert "skipped 9 fire times (missed)" in beat.output()


# Whatever is stored

#: What another program may have written into a name, a task or a reason.
FORGED = "x\nroot: deleted \x1b[2J\u202e"


def write_raw(client: redis.Redis, prefix: str, name: str, definition: str, score: float = 4e9) -> None:
    client.hset(f"{prefix}{name}", "definition", definition)
    client.zadd(f"{prefix}:schedule", {f"{prefix}{name}": score})


def definition(**changes: object) -> str:
    return json.dumps({"task": "proj.note", "schedule": {"__type__": "interval", "every": 60}, **changes})


def test_nothing_that_is_stored_reaches_the_terminal_as_it_is(
    project: Project, client: redis.Redis, prefix: str
) -> None:
    write_raw(client, prefix, FORGED, definition(task=FORGED, description=FORGED, options={"queue": FORGED}))
    write_raw(client, prefix, f"broken {FORGED}", definition(schedule={"__type__": FORGED}))
    report = json.dumps({"reason": FORGED, "since": FORGED})
    client.hset(f"{prefix}:broken", f"broken {FORGED}", report)

    outputs = [
        run(project, "list"),
        run(project, "show", FORGED),
        run(project, "show", f"broken {FORGED}"),
        run(project, "broken"),
        run(project, "disable", FORGED),
        run(project, "enable", FORGED),
        run(project, "disable", f"unknown {FORGED}"),
        run(project, "disable", f"broken {FORGED}"),
        run(project, "upcoming", FORGED),
        run(project, "delete", FORGED),
    ]

    for output in outputs:
        assert (output.stdout + output.stderr).replace("\n", "").isprintable()
        assert not [line for line in output.stdout.splitlines() if line.startswith("root: ")]
        assert "Traceback" not in output.stderr
    assert len(outputs[0].stdout.splitlines()) == 4
    assert outputs[4].stdout == "x\\x0aroot: deleted \\x1b[2J\\u202e: disabled\n"
    assert [output.returncode for output in outputs] == [0, 0, 0, 0, 0, 0, 2, 2, 0, 0]


def test_a_long_name_does_not_pad_every_row(project: Project, client: redis.Redis, prefix: str) -> None:
    write_raw(client, prefix, "n" * 100_000, definition())
    write_raw(client, prefix, "short", definition())

    lines = run(project, "list").stdout.splitlines()

    assert len(lines) == 4
    assert max(map(len, lines)) < 500


def test_json_is_json_whatever_is_stored(project: Project, client: redis.Redis, prefix: str) -> None:
    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    write_raw(client, prefix, "nan", definition(args=[float("nan")]))
    write_raw(client, prefix, "deep", definition().replace('"task"', f'"more": {"[" * 9000}{"]" * 9000}, "task"'))
    write_raw(client, prefix, "surrogate", definition(description="\udc80", task="\ud800"))
    client.hset(f"{prefix}bytes", "definition", b'{"task": "\xff"}')
    client.zadd(f"{prefix}:schedule", {f"{prefix}bytes": 1, prefix.encode() + b"\xff": 2})
    client.hset(prefix.encode() + b"\xff", "definition", definition())
    client.hset(f"{prefix}:broken", "nan", '{"reason": NaN, "since": [Infinity]}')

    listed = run(project, "list", "--json")
    texts = [
        *listed.stdout.splitlines(),
        run(project, "broken", "--json").stdout,
        *(run(project, "show", name, "--json").stdout for name in ("nan", "deep", "surrogate", "bytes")),
    ]

    shown = run(project, "show", "deep").stdout
    client.flushdb()  # the fixtures cannot read the name that is no unicode

    assert listed.stderr == ""
    parsed = [json.loads(text, parse_constant=refuse) for text in texts]
    json.dumps(parsed, ensure_ascii=False).encode()
    assert [type(each["definition"]) for each in parsed[-4:]] == [str, str, dict, str]
    assert "[[[" in shown


@pytest.mark.parametrize("name", [":schedule", ":lock", ":broken", ""])
def test_delete_refuses_the_keys_of_the_schedule_itself(
    project: Project, client: redis.Redis, prefix: str, name: str
) -> None:
    RedisScheduleEntry("a", "proj.note", 60, app=project.app()).save()
    client.set(f"{prefix}:lock", "a beat", px=60_000)

    finished = run(project, "delete", name)

    assert finished.returncode == 2
    assert finished.stderr.startswith("Error: $.name: ")
    assert client.zcard(f"{prefix}:schedule") == 1
    assert client.get(f"{prefix}:lock") == "a beat"


def test_list_with_a_limit_shows_those_that_run_next(project: Project, client: redis.Redis, prefix: str) -> None:
    app = project.app()
    RedisScheduleEntry("off", "proj.note", 10, enabled=False, app=app).save()
    for number in (3, 1, 2, 4):
        task = "proj.odd" if number % 2 else "proj.even"
        RedisScheduleEntry(f"in {number} h", task, 3600 * number, app=app).save()
    write_raw(client, prefix, "broken", "{", score=1)

    def listed(*arguments: str) -> list[str]:
        return [json.loads(line)["name"] for line in run(project, "list", "--json", *arguments).stdout.splitlines()]

    assert listed("--limit", "2") == ["in 1 h", "in 2 h"]
    assert listed("--limit", "1", "--task", "proj.even") == ["in 2 h"]
    assert listed("--limit", "5") == ["in 1 h", "in 2 h", "in 3 h", "in 4 h", "broken"]
    assert listed("--limit", "9", "--disabled") == ["off"]
    assert listed("--limit", "2", "--prefix", "in 4") == ["in 4 h"]
    assert listed() == ["in 1 h", "in 2 h", "in 3 h", "in 4 h", "broken", "off"]


def test_list_with_a_limit_reads_no_more_than_it_shows(project: Project, client: redis.Redis, prefix: str) -> None:
    pipeline = client.pipeline(transaction=False)
    for number in range(100_000):
        pipeline.zadd(f"{prefix}:schedule", {f"{prefix}{number:06}": 2e9 + number})
        if number < 2000:
            pipeline.hset(f"{prefix}{number:06}", "definition", definition())
    pipeline.execute()
    commands = client.info("commandstats")

    lines = run(project, "list", "--limit", "20", "--json").stdout.splitlines()

    after = client.info("commandstats")
    assert [json.loads(line)["name"] for line in lines] == [f"{number:06}" for number in range(20)]
    assert after["cmdstat_hmget"]["calls"] - commands.get("cmdstat_hmget", {"calls": 0})["calls"] <= 500
    client.delete(f"{prefix}:schedule")


def test_celery_report_shows_no_password(project: Project) -> None:
    project.add_source(
        "\nfrom urllib.parse import urlsplit\n"
        "app.conf.redisbeater_redis_url = 'redis://beat:hunter2@' + urlsplit(app.conf.redisbeater_redis_url).netloc\n"
        "app.conf.redisbeater_redis_options = {'password': 'hunter2', 'sentinel_kwargs': {'password': 'hunter2'}}\n"
    )
    command = [sys.executable, "-m", "celery", "-A", "proj", "report"]
    finished = subprocess.run(command, cwd=project.folder, capture_output=True, text=True, timeout=60, check=True)

    assert "redisbeater_redis_url: '********'" in finished.stdout
    assert "hunter2" not in finished.stdout + finished.stderr


def test_inspect_conf_shows_no_password(project: Project) -> None:
    project.add_source("\napp.conf.redisbeater_redis_url = 'redis://beat:hunter2@nowhere.invalid'\n")
    project.worker().says("ready.")
    command = [sys.executable, "-m", "celery", "-A", "proj", "inspect", "conf", "--json"]
    finished = subprocess.run(command, cwd=project.folder, capture_output=True, text=True, timeout=60, check=True)

    assert '"redisbeater_redis_url": "********"' in finished.stdout
    assert "hunter2" not in finished.stdout
