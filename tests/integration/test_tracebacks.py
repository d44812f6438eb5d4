"""Tracebacks of failed runs: where the error was raised, without secrets, for the newest failures of an entry."""

from __future__ import annotations

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
from redisbeater.model.run import State, traceback_text

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


@pytest.mark.one_server
def test_a_failed_run_keeps_where_its_error_was_raised(fail: Fail) -> None:
    def parse() -> None:
        raise ValueError("cannot parse row 17")

    text = fail(parse)

    assert text.startswith("Traceback (most recent call last):\n")
    assert 'raise ValueError("cannot parse row 17")' in text
    assert text.endswith("ValueError: cannot parse row 17")


@pytest.mark.one_server
def test_nothing_is_kept_where_a_setting_says_so(fail: Fail) -> None:
    def parse() -> None:
        raise ValueError("cannot parse row 17")

    assert fail(parse, redisbeater_run_tracebacks=False) == ""


@pytest.mark.one_server
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

    assert (run_site.runs.traceback("a"), run_site.runs.traceback("b")) == ("", "")
