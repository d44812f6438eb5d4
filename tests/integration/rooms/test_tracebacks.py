"""Tracebacks of failed runs: where the error was raised, without secrets, for the newest failures of an entry."""

from __future__ import annotations

import linecache
import tracemalloc
import zlib
from base64 import b85encode
from collections.abc import Callable
from typing import Any

import pytest
import redis
from celery import Celery
from due import save_due
from outbox import run_due
from run_site import TRACKED, RunSite, execute

from redisbeater import RedisScheduler, ScheduleStore
from redisbeater.context import Context
from redisbeater.management.blanking import shown_traceback
from redisbeater.model.run import Payload, error_text, traceback_text
from redisbeater.results import State

Fail = Callable[..., str]


@pytest.fixture
def fail(
    make_app: Callable[..., Celery], make_scheduler: Callable[..., RedisScheduler], reporting: None
) -> Callable[..., str]:
    """Run a task that raises what the test says, as a worker does, and return the stored traceback."""

    def fail(error: Callable[..., Any], kwargs: dict[str, Any] | None = None, **settings: Any) -> str:
        app = make_app(**{**TRACKED, **settings})

        @app.task(name="proj.work", shared=False, ignore_result=True)
        def work(**given: Any) -> None:
            error(**given)

        scheduler = make_scheduler(app)
        run_due(scheduler)
        save_due(app, "report", kwargs=kwargs or {})
        [sent] = run_due(scheduler)
        execute(app, sent)
        return Context.of(app).redis.runs.traceback(sent.id)

    return fail


def test_a_failed_run_keeps_where_its_error_was_raised(fail: Fail) -> None:
    def parse() -> None:
        raise ValueError("cannot parse row 17")

    text = fail(parse)

    assert text.startswith("Traceback (most recent call last):\n")
    assert 'raise ValueError("cannot parse row 17")' in text
    assert text.endswith("ValueError: cannot parse row 17")


def test_nothing_is_kept_where_a_setting_says_so(fail: Fail) -> None:
    def parse() -> None:
        raise ValueError("cannot parse row 17")

    assert fail(parse, redisbeater_run_tracebacks=False) == ""


def test_a_traceback_has_no_secret_that_the_run_was_given(fail: Fail) -> None:
    def log_in(password: str) -> None:
        raise ValueError(f"no login with {password}; password='other-one'")

    text = fail(log_in, {"password": "hunter-2-and-3"})

    assert "hunter-2-and-3" not in text
    assert "other-one" not in text
    assert "ValueError: no login with ***" in text


def test_the_errors_before_an_error_come_first() -> None:
    try:
        try:
            raise KeyError("row")
        except KeyError as exc:
            raise ValueError("no row") from exc
    except ValueError as exc:
        text = traceback_text(exc)

    assert [line for line in text.splitlines() if not line.startswith(" ")] == [
        "Traceback (most recent call last):", "KeyError: 'row'", "",
        "Traceback (most recent call last):", "ValueError: no row",
    ]  # fmt: skip


def test_an_endless_recursion_keeps_its_innermost_frames() -> None:
    def recurse(depth: int) -> None:
        if depth == 0:
            raise ValueError("at the end")
        recurse(depth - 1)

    with pytest.raises(ValueError, match="at the end") as caught:
        recurse(200)

    text = traceback_text(caught.value)
    assert 'raise ValueError("at the end")' in text
    assert 0 < text.count("recurse(depth - 1)") < 20


@pytest.mark.parametrize("text", ["x" * 3_000_000, ""])
def test_the_text_of_an_error_may_be_of_any_length(text: str) -> None:
    try:
        raise ValueError(text)
    except ValueError as exc:
        kept = traceback_text(exc)

    assert len(kept) < 2_000
    assert "raise ValueError(text)" in kept


def caught(code: str, **names: Any) -> BaseException:
    """Return what a piece of code raises; its source lines are those of a file."""
    filename = f"<{hash(code)}>"
    linecache.cache[filename] = (len(code), None, code.splitlines(keepends=True), filename)
    try:
        exec(compile(code, filename, "exec"), names)
    except BaseException as exc:
        return exc
    raise AssertionError("it raises nothing")


def test_the_lines_of_its_source_hold_no_secret() -> None:
    error = caught('def log_in():\n    password = "hunter2"; host = 1; raise ValueError("refused")\nlog_in()')

    text = traceback_text(error)

    assert 'password = "***"; host = 1; raise ValueError("refused")' in text
    assert "hunter2" not in text


def test_a_secret_that_no_quote_ends_hides_its_own_frame_alone() -> None:
    error = caught("def ask(token):\n    raise ValueError(f'x?token={token}')\ndef work():\n    ask(1)\nwork()")

    text = traceback_text(error)

    assert "    raise ValueError(f'x?token=***" in text
    assert "in work" in text
    assert text.endswith("ValueError: x?token=***")


def test_no_line_has_control_characters() -> None:
    error = caught('raise ValueError("red \\x1b[31m, and\\nmore \\u202e")  # \x1b[31m')

    text = traceback_text(error)

    assert all(line.isprintable() for line in text.split("\n"))
    assert text.endswith("ValueError: red \\x1b[31m, and\nmore \\u202e")


def test_a_group_of_errors_has_those_in_it() -> None:
    group = pytest.importorskip("builtins").__dict__.get("ExceptionGroup")
    if group is None:
        pytest.skip("Python 3.11 has groups")
    text = traceback_text(caught("raise G('two of them', [KeyError('a'), ValueError('password=x')])", G=group))

    assert [line for line in text.splitlines() if "Error: " in line or "Group: " in line] == [
        "ValueError: password=***", "KeyError: 'a'", "ExceptionGroup: two of them (2 sub-exceptions)",
    ]  # fmt: skip


def test_notes_follow_their_error() -> None:
    error = ValueError("no row")
    error.__notes__ = ["in file 3", "token=x", 5]  # type: ignore[attr-defined]  # Python 3.11 has add_note()

    assert traceback_text(error).splitlines()[1:] == ["ValueError: no row", "in file 3", "token=***", "5"]


class _Hostile(type):
    @property
    def __name__(cls) -> str:  # type: ignore[override]
        raise ValueError("no name")


class _Text(str):
    def __getitem__(self, _: Any) -> str:
        raise ValueError("no part")


class _Odd(Exception, metaclass=_Hostile):
    def __str__(self) -> str:
        return _Text("its text")


class _Empty(Exception):
    def __bool__(self) -> bool:
        return False


class _NoCause(Exception):
    @property
    def __cause__(self) -> Any:  # type: ignore[override]
        raise ValueError("no cause")


class _Dumb(Exception):
    def __str__(self) -> str:
        return None  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("error", "kept"),
    [
        (_Odd(), "(_Hostile without a text): its text"),
        (_NoCause("its text"), "_NoCause: its text"),
        (_Dumb(), "_Dumb: (an error without a text)"),
        (type("x" * 10_000, (Exception,), {})(), "x" * 497 + "..."),
        (type("Two\nlines", (Exception,), {})("a"), "Two\\x0alines: a"),
    ],
)
def test_an_error_of_any_class_is_kept(error: BaseException, kept: str) -> None:
    assert error_text(error) == kept
    assert len(traceback_text(error)) < 1_000


def test_the_cause_of_an_error_may_be_false() -> None:
    error = ValueError("no row")
    error.__cause__ = _Empty("at first")

    assert "_Empty: at first" in traceback_text(error)


def test_a_traceback_of_long_lines_keeps_its_end() -> None:
    code = "".join(f"def f{n}(): f{n + 1}() # {'x' * 600}\n" for n in range(30)) + "def f30(): 1 / 0\nf0()"

    text = traceback_text(caught(code))

    assert len(text) <= 10_010
    assert text.startswith("...\n")
    assert text.endswith("ZeroDivisionError: division by zero")


def fail_run(site: RunSite, run_id: str) -> None:
    site.send(run_id)
    site.start(run_id)
    site.finish(run_id, State.FAILURE, traceback=f"of {run_id}")


def kept(site: RunSite) -> set[str]:
    """Return the runs of which a traceback is stored."""
    start = site.keys.traceback_of("")
    return {key.removeprefix(start) for key in site.client.scan_iter(f"{start}*")}


def test_an_entry_keeps_the_tracebacks_of_its_newest_three_failures(run_site: RunSite) -> None:
    for run_id in "abcde":
        fail_run(run_site, run_id)

    assert kept(run_site) == {"c", "d", "e"}
    assert run_site.runs.traceback("e") == "of e"
    assert run_site.client.pttl(run_site.keys.traceback_of("e")) > 0


def test_a_run_that_begins_again_has_no_traceback(run_site: RunSite) -> None:
    fail_run(run_site, "a")
    run_site.start("a", holder="w:2:b", is_redelivered=True)

    assert kept(run_site) == set()


def test_a_traceback_goes_with_the_entry(run_site: RunSite) -> None:
    fail_run(run_site, "a")
    ScheduleStore(run_site.app).delete("report")

    assert kept(run_site) == set()


def test_what_another_program_stored_is_no_traceback(run_site: RunSite, client: redis.Redis) -> None:
    client.set(run_site.keys.traceback_of("a"), "anything")
    client.set(run_site.keys.traceback_of("b"), "not base 85: \x00")

    client.set(run_site.keys.traceback_of("c"), b"\xff\xfe")

    assert [run_site.runs.traceback(run_id) for run_id in "abc"] == ["", "", ""]


def test_a_packed_text_that_another_program_stored_is_read_in_part(run_site: RunSite, client: redis.Redis) -> None:
    client.set(run_site.keys.traceback_of("a"), b85encode(zlib.compress(b"x" * 30_000_000)))
    client.set(run_site.keys.traceback_of("b"), b"0" * 30_000_000)
    tracemalloc.start()

    read = [len(run_site.runs.traceback(run_id)) for run_id in "ab"]

    assert read == [40_000, 0]
    assert tracemalloc.get_traced_memory()[1] < 3_000_000
    tracemalloc.stop()


def test_a_traceback_is_shown_without_what_was_named_a_secret_since(
    make_app: Callable[..., Celery], run_site: RunSite
) -> None:
    run_site.send("a", payload=Payload(task="proj.work", args=[], kwargs={"iban": "AT61"}, options={}).to_text())
    run_site.start("a")
    lines = [
        "Traceback (most recent call last):",
        '  File "a.py", line 1, in f',
        "    iban = 'AT62",
        "ValueError: no AT61, \x1b",
    ]
    run_site.finish("a", State.FAILURE, traceback="\n".join(lines))
    run = run_site.runs.run("a")
    assert run is not None
    context = Context.of(make_app(**TRACKED, redisbeater_redact=["iban"]))

    shown = shown_traceback(context, run)

    assert shown.split("\n")[2:] == ["    iban = '***'", "ValueError: no ***, \\x1b"]
