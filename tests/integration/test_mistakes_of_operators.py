"""Commands where something is wrong: a name, a file, a key, an encoding. They say which, and write nothing."""

from __future__ import annotations

import contextlib
import io
import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
import redis
from celery import Celery
from click.testing import CliRunner, Result
from support.ports import free_port
from support.servers import Server
from support.tls import Certificates, terminator

from redisbeater import RedisScheduleEntry, ScheduleStore
from redisbeater.cli import BadInput, redisbeater
from redisbeater.cli.terminal import escape_what_cannot_be_printed
from redisbeater.dashboard.serving import Serving, serve
from redisbeater.management.files import export as file_text
from redisbeater.store.quarantine import DECLARATION

Run = Callable[..., Result]

SECRET = {"db_password": "s3cret", "pages": 3}


@pytest.fixture
def report(app: Celery) -> RedisScheduleEntry:
    return RedisScheduleEntry("report", "proj.report", 60, kwargs=SECRET, app=app).save()


# What is blanked


def test_a_file_without_secrets_does_not_take_their_place(
    run: Run, app: Celery, report: RedisScheduleEntry, tmp_path: Path
) -> None:
    path = tmp_path / "shared.json"
    path.write_text(run("export", "--redact").stdout)

    finished = run("apply", str(path), "--owner", "shop", "--adopt")

    assert finished.exit_code == 2
    assert "'report': $.kwargs.db_password: is blanked: *** stands for a secret" in finished.stderr
    assert ScheduleStore(app).get("report").kwargs == SECRET


def test_a_definition_without_secrets_makes_no_entry(
    run: Run, app: Celery, report: RedisScheduleEntry, tmp_path: Path
) -> None:
    path = tmp_path / "report.json"
    path.write_text(run("show", "report", "--definition", "--redact").stdout)

    finished = run("create", "second", "--json-file", str(path))

    assert (finished.exit_code, "$.kwargs.db_password: is blanked" in finished.stderr) == (2, True)
    assert list(ScheduleStore(app).names()) == ["report"]


def test_what_show_has_blanked_is_not_typed_back(run: Run, app: Celery, report: RedisScheduleEntry) -> None:
    finished = run("update", "report", "--kwargs", '{"db_password": "***", "pages": 5}')

    assert (finished.exit_code, "--kwargs db_password: is blanked" in finished.stderr) == (2, True)
    assert ScheduleStore(app).get("report").kwargs == SECRET


# Options and names


@pytest.mark.parametrize(
    ("typed", "problem"),
    [
        ("create new t --every 60 --max-runs 0", "--max-runs: expected a whole number of runs, at least 1, got 0"),
        (
            "create new t --every 60 --deadline 0",
            "--deadline: expected a duration such as 90s, from 1 s to 1000 years, got 0.0",
        ),
        ("create '' t --every 60", "NAME: expected a text that is not empty, got ''"),
        (
            "rename report report",
            "an entry named 'report' exists in the schedule; it is the entry to be renamed; choose another name",
        ),
        ("update report --unset args --args [1]", "--unset args: --args sets it; pass only one of the two"),
        ("health --timeout 0", "--timeout: expected a duration above 0, got 0"),
        (
            "list --state foo",
            "--state: expected enabled, disabled, finished, broken, not-sent, late, deleted, got 'foo'",
        ),
    ],
)
def test_an_error_is_in_words_of_the_command_line(
    run: Run, report: RedisScheduleEntry, typed: str, problem: str
) -> None:
    finished = run(*shlex.split(typed))

    assert (finished.exit_code, finished.stdout, finished.stderr) == (2, "", f"Error: {problem}\n")


def test_a_disabling_until_a_time_that_has_passed_names_its_option(run: Run, report: RedisScheduleEntry) -> None:
    finished = run("disable", "report", "--until", "2020-01-01")

    assert finished.exit_code == 2
    assert finished.stderr.startswith("Error: report: --until: expected a time to come, got 2020-01-01T00:00:00")


@pytest.fixture
def command_line(app: Celery, server: Server, prefix: str, tmp_path: Path) -> list[str]:
    """The words of a real command line of a project with this schedule."""
    settings = {"broker_url": server.url(), "redisbeater_redis_url": server.url(), "redisbeater_key_prefix": prefix}
    source = f"from celery import Celery; app = Celery('proj'); app.conf.update({settings!r})"
    (tmp_path / "proj.py").write_text(source)
    return [sys.executable, "-m", "celery", "--workdir", str(tmp_path), "-A", "proj", "redisbeater"]


def test_a_reader_that_goes_away_is_no_failure_of_redis(command_line: list[str], app: Celery) -> None:
    store = ScheduleStore(app)
    for number in range(500):
        store.create(f"entry {number:03} {'x' * 200}", "t", 60)

    with subprocess.Popen([*command_line, "list"], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as listing:
        assert listing.stdout is not None
        listing.stdout.readline()
        listing.stdout.close()
        assert listing.stderr is not None
        assert listing.stderr.read() == b""

    assert listing.returncode == 141


def test_a_name_in_another_encoding_than_that_of_the_locale_says_how_to_set_it(command_line: list[str]) -> None:
    c_locale = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}

    for typed in (["create", "ünï", "t", "--every", "60"], ["show", "ünï"], ["history", "ünï"]):
        finished = subprocess.run([*command_line, *typed], env=c_locale, capture_output=True, text=True)

        assert finished.returncode == 2, finished.stderr
        assert finished.stderr.endswith("; what is typed is read as ascii: set LC_ALL=C.UTF-8, or PYTHONUTF8=1\n")


def test_tls_to_a_server_without_it_says_so(make_app: Callable[..., Celery], server: Server) -> None:
    url = server.url().replace("redis://", "rediss://")
    app = make_app(redisbeater_redis_url=url, redisbeater_redis_options={"socket_timeout": 0.5})

    finished = CliRunner().invoke(redisbeater, ["list"], obj=SimpleNamespace(app=app))

    assert finished.exit_code == 1
    assert "(does it speak TLS on this port? If not, use redis:// in redisbeater_redis_url)" in finished.stderr


def test_health_says_why_there_was_no_answer_in_time(make_app: Callable[..., Celery]) -> None:
    app = make_app(redisbeater_redis_url=f"redis://127.0.0.1:{free_port()}/0")

    finished = CliRunner().invoke(redisbeater, ["health", "--timeout", "1s"], obj=SimpleNamespace(app=app))

    assert finished.exit_code == 1
    assert finished.stdout.startswith("unhealthy: no answer from Redis within 1 s: ConnectionError: ")
    assert "Connection refused" in finished.stdout


def test_health_says_in_its_time_that_the_server_may_have_no_tls(
    make_app: Callable[..., Celery], server: Server
) -> None:
    app = make_app(redisbeater_redis_url=server.url().replace("redis://", "rediss://"))

    finished = CliRunner().invoke(redisbeater, ["health", "--timeout", "1s"], obj=SimpleNamespace(app=app))

    assert finished.exit_code == 1
    assert finished.stdout == (
        "unhealthy: no answer from Redis within 1 s (does it speak TLS on this port? If not, use redis:// in "
        "redisbeater_redis_url)\n"
    )


def test_health_says_in_its_time_that_the_server_may_want_tls(
    make_app: Callable[..., Celery], server: Server, tmp_path: Path
) -> None:
    with terminator(server.port, Certificates.issued(tmp_path).for_server()) as port:
        app = make_app(redisbeater_redis_url=f"redis://127.0.0.1:{port}/0")
        finished = CliRunner().invoke(redisbeater, ["health", "--timeout", "1s"], obj=SimpleNamespace(app=app))

    assert finished.exit_code == 1
    assert finished.stdout.endswith(" (does it want TLS on this port? If so, use rediss:// in redisbeater_redis_url)\n")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("entries: [a]", "entries: expected an object of names and values, got ['a']"),
        ("entries: {a: {task: t, every: 60, kwargs: [1]}}", "$.kwargs: expected an object, got [1]"),
    ],
)
def test_a_list_in_a_file_is_refused_in_words_of_files(run: Run, tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "schedule.yaml"
    path.write_text(f"redisbeater: 1\nowner: shop\n{text}\n")

    finished = run("apply", str(path))

    assert (finished.exit_code, problem in finished.stderr) == (2, True), finished.stderr


# Names that are misspelt

BY_NAME = [
    *("show {}", "why {}", "history {}", "upcoming {}", "update {} --every 5", "copy {} new", "rename {} new"),
    *("trigger {}", "enable {}", "disable {}", "skip-next {}", "delete {}", "backfill {} --from -1h --to now"),
    *("broken --retry {}", "incidents --entry {}", "simulate --set {} every=5"),
]


@pytest.mark.parametrize("typed", BY_NAME)
def test_every_command_proposes_the_nearest_name(run: Run, app: Celery, typed: str) -> None:
    RedisScheduleEntry("customer-7-mail", "proj.mail", 60, app=app).save()

    finished = run(*typed.format("custmer-7-mail").split())

    assert finished.exit_code == 2
    assert finished.stderr == (
        "Error: no entry named 'custmer-7-mail' in the schedule; did you mean 'customer-7-mail'?\n"
    )


@pytest.mark.parametrize(
    "typed",
    ["custmer-7-mail", "custommer-7-mail", "customer-7-nail", "customer-7-mial", "Customer-7-mail", "customer_7_mail"],
)
def test_it_is_found_in_thousands_without_reading_their_names(
    run: Run, app: Celery, client: redis.Redis, prefix: str, typed: str
) -> None:
    RedisScheduleEntry("customer-7-mail", "proj.mail", 60, app=app).save()
    client.zadd(f"{prefix}:schedule", {f"{prefix}customer {number}": 4e9 for number in range(2_000)})
    client.config_resetstat()

    said = run("show", typed).stderr

    assert said == f"Error: no entry named {typed!r} in the schedule; did you mean 'customer-7-mail'?\n"
    asked = client.info("commandstats")
    assert "cmdstat_zscore" in asked
    assert {"cmdstat_zscan", "cmdstat_zrange", "cmdstat_zrangebyscore"}.isdisjoint(asked)


@pytest.mark.parametrize("typed", ["a", "lock", "x" * 61])
def test_no_name_is_too_odd_to_look_for_another(run: Run, client: redis.Redis, prefix: str, typed: str) -> None:
    client.zadd(f"{prefix}:schedule", {f"{prefix}customer {number}": 4e9 for number in range(2_000)})

    assert run("show", typed).stderr == f"Error: no entry named {typed!r} in the schedule\n"


def test_a_name_that_is_like_none_gets_no_proposal(run: Run, app: Celery) -> None:
    RedisScheduleEntry("report", "proj.report", 60, app=app).save()

    assert run("show", "feed").stderr == "Error: no entry named 'feed' in the schedule\n"


def test_a_misspelt_deleted_entry_gets_the_nearest_of_those_that_are_kept(run: Run, report: RedisScheduleEntry) -> None:
    assert run("delete", "report").exit_code == 0

    finished = run("restore", "rport")

    assert finished.exit_code == 2
    assert finished.stderr.endswith("list --state deleted shows those that are; did you mean 'report'?\n")


# Keys of other programs


def test_a_key_of_another_program_is_not_deleted(run: Run, client: redis.Redis, prefix: str) -> None:
    keys = [f"{prefix}cache", f"{prefix}member"]
    for key in keys:
        client.set(key, "precious")
    client.zadd(f"{prefix}:schedule", {keys[1]: 5})

    finished = [run("delete", name) for name in ("cache", "member")]
    values, members = client.mget(keys), client.zrange(f"{prefix}:schedule", 0, -1)
    client.delete(*keys)

    assert values == ["precious", "precious"]
    assert members == []
    assert [each.exit_code for each in finished] == [2, 2]
    assert finished[1].stderr == "Error: no entry named 'member' in the schedule\n"


def test_no_name_is_offered_in_its_own_place(run: Run, client: redis.Redis, prefix: str) -> None:
    client.zadd(f"{prefix}:schedule", {f"{prefix}gone": 5})
    assert run("show", "gone").stderr == "Error: no entry named 'gone' in the schedule\n"


# Errors that say what they are about


def test_an_error_of_several_entries_says_of_which(run: Run, app: Celery, client: redis.Redis, prefix: str) -> None:
    for name in ("a", "b"):
        RedisScheduleEntry(name, "proj.report", 60, app=app).save()
    client.hset(f"{prefix}a", "definition", "{")

    for command in (("disable", "a", "b"), ("delete", "nobody", "b"), ("disable", "a", "--until", "2h")):
        finished = run(*command)
        assert finished.exit_code == 2
        assert finished.stderr.startswith(("Error: a: $: ", "Error: no entry named 'nobody'")), finished.stderr


def test_the_history_of_a_name_that_is_no_entry_is_an_error(run: Run, app: Celery) -> None:
    RedisScheduleEntry("report", "proj.report", 60, app=app).save()

    finished = run("history", "reportt")

    assert finished.exit_code == 2
    assert finished.stderr == "Error: no entry named 'reportt' in the schedule; did you mean 'report'?\n"
    assert run("delete", "report").exit_code == run("history", "report").exit_code == 0, "its log is kept"


def test_a_change_that_redis_refuses_says_what_to_do(
    run: Run, app: Celery, client: redis.Redis, report: RedisScheduleEntry
) -> None:
    before = client.config_get("maxmemory*")
    client.config_set("maxmemory-policy", "noeviction")
    client.config_set("maxmemory", 1)
    try:
        full = run("disable", "report")
    finally:
        client.config_set("maxmemory", before["maxmemory"])
        client.config_set("maxmemory-policy", before["maxmemory-policy"])
    client.replicaof("127.0.0.1", 1)  # nobody is there, so that it keeps its data
    try:
        replica = run("disable", "report")
        unknown = run("show", "nothere")
    finally:
        client.replicaof("NO", "ONE")

    head = "Error: Redis refuses changes: "
    assert full.stderr.startswith(f"{head}its memory is full; raise maxmemory, or delete what nobody needs (")
    assert replica.stderr.startswith(f"{head}it is a replica; use the address of the master in redisbeater_redis_url")
    assert (full.exit_code, replica.exit_code, unknown.exit_code) == (1, 1, 2)
    assert unknown.stderr == "Error: no entry named 'nothere' in the schedule\n"


def test_restore_says_that_no_such_entry_was_deleted(run: Run, app: Celery) -> None:
    RedisScheduleEntry("report", "proj.report", 60, app=app).save()

    finished = run("restore", "report")

    assert finished.exit_code == 2
    assert finished.stderr.startswith("Error: no deleted entry named 'report' is kept; list --state deleted shows")


def test_a_broken_entry_that_is_restored_is_reported_as_restored(
    run: Run, app: Celery, client: redis.Redis, prefix: str
) -> None:
    RedisScheduleEntry("report", "proj.report", 60, app=app).save()
    client.hset(f"{prefix}report", "definition", "{")
    run("delete", "report")

    finished = run("restore", "report")

    assert finished.exit_code == 0
    assert finished.stdout.startswith("report: restored, broken as it was: $: not JSON")
    assert client.hget(f"{prefix}report", "definition") == "{"


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("update", "report", "--kwargs", '{"a": 1, "a": 2}'), "Error: --kwargs: not JSON: 'a' is there twice"),
        (
            ("trigger", "report", "--kwargs", '{"a": 1, "a": 2}'),
            "Error: --kwargs: not JSON: 'a' is there twice; ",
        ),
    ],
)
def test_the_error_names_the_option(
    run: Run, report: RedisScheduleEntry, arguments: tuple[str, ...], error: str
) -> None:
    finished = run(*arguments)
    assert (finished.exit_code, finished.stderr.startswith(error)) == (2, True), finished.stderr


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("rename", "report", ":x"), "NEW: ':x' starts with ':', which is reserved for redisbeater's own keys"),
        (("copy", "report", ""), "NEW: expected a text that is not empty, got ''"),
        (("broken", "--retry", ""), "--retry: expected a text that is not empty, got ''"),
        (("apply", ""), "FILE: expected the name of a file, got ''"),
        (("export", "-o", ""), "--output: expected the name of a file, got ''"),
        (
            ("simulate", "--set", "report", "every=x"),
            "--set: schedule.every: 'x': expected a duration such as",
        ),
        (
            ("simulate", "--set", "report", "every"),
            "--set report 'every': expected FIELD=VALUE with an option of upda",
        ),
        (("status", "--watch", "10ms"), "--watch: expected at least 0.1 s, got 0.01 s"),
        (("skip-next", "report", "--undo"), "report: no fire time to come is left out"),
        (
            ("delays", "cancel", "x"),
            "no delay 'x' waits in the schedule; it was sent or cancelled, or never kept; ",
        ),
        (("delete", "--prefix", "x"), "no entry is selected; list shows those that there are"),
    ],
    ids=lambda text: text[0] if isinstance(text, tuple) else "",
)
def test_an_error_says_where_it_is_and_what_to_do(
    run: Run, report: RedisScheduleEntry, arguments: tuple[str, ...], error: str
) -> None:
    finished = run(*arguments)

    assert (finished.exit_code, finished.stderr.startswith(f"Error: {error}")) == (2, True), finished.stderr


@pytest.mark.parametrize(("option", "said"), [("--foo", "No such option"), ("--sorted", "'--sort'")])
def test_only_an_option_that_the_help_shows_is_proposed(run: Run, option: str, said: str) -> None:
    finished = run("list", option)

    assert finished.exit_code == 2
    assert said in finished.stderr
    assert "--now" not in finished.stderr


def test_a_file_without_an_owner_says_how_to_name_one(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "schedule.json"
    path.write_text('{"redisbeater": 1, "entries": {}}')
    assert "owner: is missing; write owner: NAME into the file, or pass --owner NAME" in run("apply", str(path)).stderr


def test_no_yaml_is_written_that_would_not_be_read(
    run: Run, report: RedisScheduleEntry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_text, "MOST_YAML_BYTES", 50)

    finished = run("export", "-o", str(tmp_path / "backup.yaml"))

    assert (finished.exit_code, list(tmp_path.iterdir())) == (2, [])
    assert "at most 50 are read: write JSON" in finished.stderr


# Terminals of other encodings


def test_a_name_that_the_terminal_cannot_show_is_escaped(app: Celery, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = io.TextIOWrapper(io.BytesIO(), encoding="latin-1")
    monkeypatch.setattr(sys, "stdout", shown)
    escape_what_cannot_be_printed()
    print("é 🎉", file=shown, flush=True)
    assert shown.buffer.getvalue() == b"\xe9 \\U0001f389\n"


def test_every_command_prints_escapes_where_the_encoding_lacks_a_character(app: Celery) -> None:
    RedisScheduleEntry("Grüße 🎉", "proj.report", 60, app=app).save()
    runner = CliRunner(charset="latin-1")
    listed = [runner.invoke(redisbeater, ["list", *form], obj=SimpleNamespace(app=app)) for form in ((), ("--names",))]

    assert [each.exit_code for each in listed] == [0, 0]
    assert listed[1].stdout_bytes.decode("latin-1") == "Grüße \\U0001f389\n"


# Streams that are closed, as ``>&-`` does, or full


@pytest.mark.parametrize(
    ("command", "code"), [("list", 0), ("status", 0), ("simulate", 0), ("health", 1), ("delete --label a", 2)]
)
def test_a_command_needs_no_stream(app: Celery, command: str, code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    RedisScheduleEntry("a", "proj.report", 60, app=app).save()
    for stream in ("stdin", "stdout", "stderr"):
        monkeypatch.setattr(sys, stream, None)

    with pytest.raises(SystemExit) as ended:
        redisbeater.main(command.split(), obj=SimpleNamespace(app=app))

    assert ended.value.code == code


def test_the_web_page_needs_no_stream(app: Celery, monkeypatch: pytest.MonkeyPatch) -> None:
    for stream in ("stdin", "stdout", "stderr"):
        monkeypatch.setattr(sys, stream, None)
    served: list[bool] = []

    def end() -> None:
        served.append(True)
        signal.raise_signal(signal.SIGINT)

    serve(app, Serving(port=free_port(), no_auth=True), end)

    assert served == [True]


def test_entries_are_deleted_without_anybody_to_ask_only_if_that_was_said(
    app: Celery, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b"):
        RedisScheduleEntry(name, "proj.report", 60, app=app).save()
    monkeypatch.setattr(sys, "stdin", None)

    with pytest.raises(BadInput, match="this would delete 2 entries: a, b; pass --yes to do it"):
        redisbeater.main(["delete", "--task", "proj.report"], obj=SimpleNamespace(app=app), standalone_mode=False)

    assert ScheduleStore(app).count() == 2


def test_what_cannot_be_printed_is_one_line(
    app: Celery, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with contextlib.suppress(OSError), open("/dev/full", "w") as full, monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", full)
        with pytest.raises(SystemExit) as ended:
            redisbeater.main(["status"], obj=SimpleNamespace(app=app))

    assert ended.value.code == 1
    assert capsys.readouterr().err == "Error: the output cannot be written: No space left on device\n"


# Names alone


def test_names_in_their_own_order_are_those_of_the_listing_and_no_entry_is_read_for_them(
    run: Run, app: Celery, client: redis.Redis, prefix: str
) -> None:
    for name in ("b", "a", "other"):
        RedisScheduleEntry(name, "proj.report", 60, app=app).save()
    client.zadd(f"{prefix}:schedule", {f"{prefix}gone": 5, f"{prefix}odd": 6})
    client.hset(f"{prefix}odd", "definition", "{")
    report = {"reason": "$.task: is missing", "since": "2026-01-01", "application": "proj"}
    client.hset(f"{prefix}:broken", f"{DECLARATION}unstored", json.dumps(report))
    client.config_resetstat()
    listed = run("list", "--names", "--sort", "name").stdout.split()
    read = client.info("commandstats").get("cmdstat_hmget", {"calls": 0})["calls"]

    described = [json.loads(line)["name"] for line in run("list", "--json", "--sort", "name").stdout.splitlines()]
    assert listed == described == ["a", "b", "gone", "odd", "other", "unstored"]
    assert read == 0
