"""The commands over what is stored, in this process."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
import redis
from celery import Celery
from celery.schedules import crontab
from click.testing import Result

from redisbeater import RedisScheduleEntry

Run = Callable[..., Result]


def test_list_shows_the_next_entry_first_and_marks_broken_ones(
    run: Run, app: Celery, client: redis.Redis, prefix: str
) -> None:
    RedisScheduleEntry("later", "proj.note", 7200, app=app).save()
    RedisScheduleEntry("sooner", "proj.note", 60, app=app).save()
    client.hset(f"{prefix}broken", "definition", "{")
    client.zadd(f"{prefix}:schedule", {f"{prefix}broken": 0})

    rows = [json.loads(line) for line in run("list", "--json").output.splitlines()]
    lines = run("list").output.splitlines()

    assert [(row["name"], row["state"]) for row in rows] == [
        ("sooner", "enabled"), ("later", "enabled"), ("broken", "broken"),
    ]  # fmt: skip
    assert lines[0].startswith("now ")
    assert [line.split()[0] for line in lines[1:]] == ["NAME", "sooner", "later", "broken"]
    assert run("list", "--state", "broken", "--names").output == "broken\n"
    assert run("broken").output == (
        "nothing is quarantined; list --state broken also finds what beat has not read yet\n"
    )


def test_an_entry_can_be_shown_disabled_enabled_and_deleted(run: Run, app: Celery) -> None:
    RedisScheduleEntry("report", "proj.note", 60, args=[1], app=app).save()

    assert json.loads(run("show", "report", "--json").output)["definition"]["args"] == [1]
    assert run("disable", "report").output == "report: disabled\n"
    assert json.loads(run("show", "report", "--json").output)["state"] == "disabled"
    assert run("enable", "report").output.startswith("report: enabled, next run ")
    assert run("delete", "report").output == "report: deleted; restore undoes that\n"
    assert '"report"' not in run("list", "--json").output


def test_an_unknown_name_ends_with_exit_code_2_and_one_line(run: Run) -> None:
    for command in ("show", "upcoming", "enable", "disable", "delete"):
        finished = run(command, "nobody")
        assert finished.exit_code == 2
        assert finished.output == "Error: no entry named 'nobody' in the schedule\n"


def test_broken_lists_the_reason(run: Run, client: redis.Redis, prefix: str) -> None:
    client.hset(f"{prefix}:broken", "odd", json.dumps({"reason": "$.task: is missing", "since": "2026-01-01"}))
    assert run("broken").output == "odd: $.task: is missing (since 2026-01-01)\n"
    assert json.loads(run("broken", "--json").output)["odd"]["reason"] == "$.task: is missing"


def test_upcoming_shows_the_next_runs_in_utc_and_in_the_zone_of_the_entry(run: Run, app: Celery) -> None:
    noon = crontab(minute=0, hour=12)
    entry = RedisScheduleEntry("report", "proj.note", noon, timezone="Asia/Tokyo", app=app).save()
    runs = entry.upcoming(5)

    lines = run("upcoming", "report").output.splitlines()
    two = [json.loads(line) for line in run("upcoming", "report", "-n", "2", "--json").output.splitlines()]

    assert lines[0].split() == ["FIRE", "TIME", "(UTC)", "LOCAL", "IN"]
    assert [line[:19] for line in lines[1:]] == [f"{each.fire_time:%Y-%m-%d %H:%M:%S}" for each in runs]
    assert all("12:00:00 JST" in line for line in lines[1:])
    assert two == [each.as_dict() for each in runs[:2]]
    assert (two[0]["note"], two[0]["due_at"]) == ("", two[0]["fire_time"])


def test_upcoming_shows_the_effects_of_jitter_and_clock_changes(run: Run, app: Celery) -> None:
    second_sunday_of_march = crontab(minute=30, hour=2, day_of_month="8-14", day_of_week="sun", month_of_year=3)
    RedisScheduleEntry(
        "report", "proj.note", second_sunday_of_march, timezone="America/New_York", jitter=600, app=app
    ).save()

    [header, line] = run("upcoming", "report", "-n", "1").output.splitlines()
    shown = json.loads(run("upcoming", "report", "-n", "1", "--json").output)

    assert header.split()[-2:] == ["SENT", "NOTE"]
    assert line.endswith(shown["note"][:77] + "...") or line.endswith(shown["note"])
    assert " s later  " in line
    assert shown["fire_time"] < shown["due_at"]
    assert "moved from 02:30, which does not exist on" in shown["note"]


def test_upcoming_of_an_entry_that_will_not_run_says_so(run: Run, app: Celery) -> None:
    RedisScheduleEntry("report", "proj.note", 60, enabled=False, app=app).save()

    finished, as_json = run("upcoming", "report"), run("upcoming", "report", "--json")

    assert (finished.exit_code, finished.output) == (0, "none: the entry is disabled or has finished\n")
    assert (as_json.exit_code, as_json.stdout, as_json.stderr) == (0, "", finished.output)


def test_upcoming_refuses_invalid_numbers_with_exit_code_2(run: Run, app: Celery) -> None:
    RedisScheduleEntry("report", "proj.note", 60, app=app).save()

    for number in ("0", "1001", "many"):
        finished = run("upcoming", "report", "-n", number)
        assert finished.exit_code == 2
        assert "-n" in finished.output


def test_show_counts_skipped_fire_times_by_reason(run: Run, app: Celery, client: redis.Redis, prefix: str) -> None:
    entry = RedisScheduleEntry("report", "proj.note", 60, description="the monthly one", app=app).save()
    last = "2026-01-01T00:00:00+00:00"
    client.hset(
        entry.key,
        "skipped",
        json.dumps({"missed": {"count": 3, "last": last}, "coalesced": {"count": 12, "last": last}}),
    )

    lines = run("show", "report").output.splitlines()

    assert "  counts       0 runs, 3 missed, 12 coalesced" in lines
    assert "  description  the monthly one" in lines
    assert json.loads(run("show", "report", "--json").output)["skipped"] == "3 missed, 12 coalesced"


def test_show_has_no_line_about_skips_when_nothing_was_skipped(run: Run, app: Celery) -> None:
    RedisScheduleEntry("report", "proj.note", 60, app=app).save()

    assert "skipped" not in run("show", "report").output


# Whatever is stored

#: What another program may have written into a name, a task or a reason.
FORGED = "x\nroot: deleted \x1b[2J\u202e"


def write_raw(client: redis.Redis, prefix: str, name: str, definition: str, score: float = 4e9) -> None:
    client.hset(f"{prefix}{name}", "definition", definition)
    client.zadd(f"{prefix}:schedule", {f"{prefix}{name}": score})


def definition(**changes: object) -> str:
    return json.dumps({"task": "proj.note", "schedule": {"__type__": "interval", "every": 60}, **changes})


def test_nothing_that_is_stored_reaches_the_terminal_as_it_is(run: Run, client: redis.Redis, prefix: str) -> None:
    write_raw(client, prefix, FORGED, definition(task=FORGED, description=FORGED, options={"queue": FORGED}))
    write_raw(client, prefix, f"broken {FORGED}", definition(schedule={"__type__": FORGED}))
    report = json.dumps({"reason": FORGED, "since": FORGED})
    client.hset(f"{prefix}:broken", f"broken {FORGED}", report)

    outputs = [
        run("list"),
        run("show", FORGED),
        run("show", f"broken {FORGED}"),
        run("broken"),
        run("disable", FORGED),
        run("enable", FORGED),
        run("disable", f"unknown {FORGED}"),
        run("disable", f"broken {FORGED}"),
        run("upcoming", FORGED),
        run("delete", FORGED),
    ]

    for output in outputs:
        assert output.output.replace("\n", "").isprintable()
        assert not [line for line in output.output.splitlines() if line.startswith("root: ")]
        assert "Traceback" not in output.output
    assert len(outputs[0].output.splitlines()) == 4
    assert outputs[4].output == "x\\x0aroot: deleted \\x1b[2J\\u202e: disabled\n"
    assert [output.exit_code for output in outputs] == [0, 0, 0, 0, 0, 0, 2, 2, 0, 0]


def test_a_long_name_does_not_pad_every_row(run: Run, client: redis.Redis, prefix: str) -> None:
    write_raw(client, prefix, "n" * 100_000, definition())
    write_raw(client, prefix, "short", definition())

    lines = run("list").output.splitlines()

    assert len(lines) == 4
    assert max(map(len, lines)) < 500


def test_json_is_json_whatever_is_stored(run: Run, client: redis.Redis, prefix: str) -> None:
    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    write_raw(client, prefix, "nan", definition(args=[float("nan")]))
    write_raw(client, prefix, "deep", definition().replace('"task"', f'"more": {"[" * 9000}{"]" * 9000}, "task"'))
    write_raw(client, prefix, "surrogate", definition(description="\udc80", task="\ud800"))
    client.hset(f"{prefix}bytes", "definition", b'{"task": "\xff"}')
    client.zadd(f"{prefix}:schedule", {f"{prefix}bytes": 1, prefix.encode() + b"\xff": 2})
    client.hset(prefix.encode() + b"\xff", "definition", definition())
    client.hset(f"{prefix}:broken", "nan", '{"reason": NaN, "since": [Infinity]}')

    texts = [
        *run("list", "--json").output.splitlines(),
        run("broken", "--json").output,
        *(run("show", name, "--json").output for name in ("nan", "deep", "surrogate", "bytes")),
    ]

    shown = run("show", "deep").output
    client.flushdb()  # the fixtures cannot read the name that is no unicode

    parsed = [json.loads(text, parse_constant=refuse) for text in texts]
    json.dumps(parsed, ensure_ascii=False).encode()
    assert [type(each["definition"]) for each in parsed[-4:]] == [str, str, dict, str]
    assert "[[[" in shown


@pytest.mark.parametrize("name", [":schedule", ":lock", ":broken", ""])
def test_delete_refuses_the_keys_of_the_schedule_itself(
    run: Run, app: Celery, client: redis.Redis, prefix: str, name: str
) -> None:
    RedisScheduleEntry("a", "proj.note", 60, app=app).save()
    client.set(f"{prefix}:lock", "a beat", px=60_000)

    finished = run("delete", name)

    assert finished.exit_code == 2
    assert finished.output.startswith("Error: NAME: ")
    assert client.zcard(f"{prefix}:schedule") == 1
    assert client.get(f"{prefix}:lock") == "a beat"


def test_list_with_a_limit_shows_those_that_run_next(run: Run, app: Celery, client: redis.Redis, prefix: str) -> None:
    RedisScheduleEntry("off", "proj.note", 10, enabled=False, app=app).save()
    for number in (3, 1, 2, 4):
        task = "proj.odd" if number % 2 else "proj.even"
        RedisScheduleEntry(f"in {number} h", task, 3600 * number, app=app).save()
    write_raw(client, prefix, "broken", "{", score=1)

    def listed(*arguments: str) -> list[str]:
        return [json.loads(line)["name"] for line in run("list", "--json", *arguments).output.splitlines()]

    assert listed("--limit", "2") == ["in 1 h", "in 2 h"]
    assert listed("--limit", "1", "--task", "proj.even") == ["in 2 h"]
    assert listed("--limit", "5") == ["in 1 h", "in 2 h", "in 3 h", "in 4 h", "broken"]
    assert listed("--limit", "9", "--disabled") == ["off"]
    assert listed("--limit", "2", "--prefix", "in 4") == ["in 4 h"]
    assert listed() == ["in 1 h", "in 2 h", "in 3 h", "in 4 h", "broken", "off"]


def test_list_with_a_limit_reads_no_more_than_it_shows(run: Run, client: redis.Redis, prefix: str) -> None:
    pipeline = client.pipeline(transaction=False)
    for number in range(100_000):
        pipeline.zadd(f"{prefix}:schedule", {f"{prefix}{number:06}": 2e9 + number})
        if number < 2000:
            pipeline.hset(f"{prefix}{number:06}", "definition", definition())
    pipeline.execute()
    commands = client.info("commandstats")

    lines = run("list", "--limit", "20", "--json").output.splitlines()

    after = client.info("commandstats")
    assert [json.loads(line)["name"] for line in lines] == [f"{number:06}" for number in range(20)]
    assert after["cmdstat_hmget"]["calls"] - commands.get("cmdstat_hmget", {"calls": 0})["calls"] <= 500
    client.delete(f"{prefix}:schedule")
