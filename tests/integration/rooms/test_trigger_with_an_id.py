"""Triggers whose callers choose the id of the run: one run for each id, however often it is asked for."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from threading import Barrier
from types import SimpleNamespace
from typing import Any

import pytest
import redis
from celery import Celery
from celery.signals import before_task_publish
from click.testing import CliRunner, Result
from edit_ledger import ServerClock, scripts_by_the_clock_at
from outbox import take
from run_site import TRACKED, RunSite
from support.ports import dead_port

from redisbeater import AsyncScheduleStore, EntryNotFound, InvalidEntry, RunActive, ScheduleStore, SendFailed
from redisbeater.cli import redisbeater
from redisbeater.results import State

#: Longer than a call may take to send a run, and than an id is known.
MINUTE, DAY = 60, 86_400


@pytest.fixture(params=[False, True], ids=["untracked", "tracked"])
def site(
    request: pytest.FixtureRequest, make_app: Callable[..., Celery], client: redis.Redis, prefix: str
) -> Iterator[RunSite]:
    """Make a schedule with an entry, at a time that the test sets; with records of runs, and without."""
    app = make_app(**TRACKED) if request.param else make_app()
    with scripts_by_the_clock_at(client, f"{prefix}:answer:clock"):
        site = RunSite(app, client, ServerClock(client, f"{prefix}:answer:clock"))
        ScheduleStore(app).create("report", "proj.work", 3600, args=[1])
        yield site


@pytest.fixture
def store(site: RunSite) -> ScheduleStore:
    return ScheduleStore(site.app)


def test_the_same_id_is_the_same_run_and_sends_nothing_more(site: RunSite, store: ScheduleStore) -> None:
    given: dict[str, Any] = {"args": (2,), "kwargs": {"pages": 3}, "scheduled_for": datetime(2026, 1, 1, 9)}

    ids = [store.trigger("report", task_id="order-4711", note=note, **given) for note in ("first", "again")]

    assert ids == ["order-4711"] * 2
    (sent,) = take(site.app)
    assert (sent.id, sent.args, sent.kwargs) == ("order-4711", [2], {"pages": 3})
    assert [line.details["note"] for line in store.log("report") if line.what == "triggered"] == ["first"]


def test_other_arguments_with_the_same_id_are_an_error_that_names_both(site: RunSite, store: ScheduleStore) -> None:
    store.create("other", "proj.work", 3600)
    store.trigger("report", args=[1], kwargs={"password": "s3cret"}, task_id="one")

    with pytest.raises(InvalidEntry) as args:
        store.trigger("report", args=[2], task_id="one")
    with pytest.raises(InvalidEntry) as name:
        store.trigger("other", args=[1], task_id="one")

    known = """$.task_id: one was used for 'report' with args [1], kwargs {"password":"***"} within 24 hours"""
    assert str(args.value) == f"{known}, not for 'report' with args [2]; pass another one"
    assert str(name.value) == f"{known}; pass another one"
    assert len(take(site.app)) == 1


def test_an_edit_or_the_end_of_the_entry_makes_no_other_run_of_the_same_call(
    site: RunSite, store: ScheduleStore
) -> None:
    store.trigger("report", task_id="one")
    store.update("report", args=[5])
    assert store.trigger("report", task_id="one") == "one"
    if site.context.config.track_runs:
        site.start("one")
        site.finish("one")
    store.rename("report", "new name")
    assert store.trigger("report", task_id="one") == "one"
    store.delete("new name")
    assert store.trigger("report", task_id="one") == "one"

    assert len(take(site.app)) == 1


def test_an_id_is_known_for_a_day(site: RunSite, store: ScheduleStore) -> None:
    store.trigger("report", task_id="one")

    left = site.client.pttl(site.keys.trigger("one"))
    assert (DAY - MINUTE) * 1000 < left <= DAY * 1000
    assert all(site.client.pttl(key) > 0 for key in site.client.scan_iter(f"{site.keys.prefix}:trigger:*"))


def test_of_two_programs_that_ask_at_the_same_moment_one_sends(site: RunSite) -> None:
    calls = 8
    barrier = Barrier(calls)

    def trigger(_: int) -> str:
        store = ScheduleStore(site.app)
        barrier.wait()
        return store.trigger("report", task_id="one")

    with ThreadPoolExecutor(calls) as pool:
        assert list(pool.map(trigger, range(calls))) == ["one"] * calls

    assert [message.id for message in take(site.app)] == ["one"]


def _die_before_the_message_leaves(app: Celery, task_id: str) -> None:
    """Trigger in a process that is gone once the run is recorded, and before its message leaves."""

    def die(**_: object) -> None:
        os._exit(9)

    def call() -> None:
        before_task_publish.connect(die, weak=False)
        ScheduleStore(app).trigger("report", task_id=task_id)

    process = multiprocessing.get_context("fork").Process(target=call)
    process.start()
    process.join()
    assert process.exitcode == 9


def test_a_run_whose_caller_died_before_it_was_sent_is_sent_by_the_next_call(
    site: RunSite, store: ScheduleStore
) -> None:
    _die_before_the_message_leaves(site.app, "one")
    assert take(site.app) == []
    site.clock.go_on(MINUTE)

    assert [store.trigger("report", task_id="one") for _ in range(2)] == ["one", "one"]

    assert [message.id for message in take(site.app)] == ["one"]
    if site.context.config.track_runs:
        assert [run.id for run in site.runs.history("report")] == ["one"]
        assert (site.runs.counts("report").sent, site.state("one")) == (1, State.SENT)


def test_while_a_call_may_still_be_sending_the_next_one_waits(site: RunSite, store: ScheduleStore) -> None:
    _die_before_the_message_leaves(site.app, "one")

    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(store.trigger, "report", task_id="one")
        site.clock.go_on(1)
        assert not waiting.done()
        site.clock.go_on(MINUTE)
        assert waiting.result() == "one"

    assert [message.id for message in take(site.app)] == ["one"]


def test_what_the_broker_did_not_take_is_sent_by_the_next_call(
    site: RunSite, store: ScheduleStore, make_app: Callable[..., Celery]
) -> None:
    settings = TRACKED if site.context.config.track_runs else {}
    away = make_app(**settings, broker_url=f"amqp://127.0.0.1:{dead_port()}//", redisbeater_publish_timeout=0.2)
    with pytest.raises(SendFailed):
        ScheduleStore(away).trigger("report", task_id="one")

    assert store.trigger("report", task_id="one") == "one"

    assert [message.id for message in take(site.app)] == ["one"]
    if settings:
        assert (site.state("one"), [run.id for run in site.runs.history("report")]) == (State.SENT, ["one"])
        assert site.runs.failures(10) == []


def test_a_call_that_was_refused_leaves_the_id_free(site: RunSite, store: ScheduleStore) -> None:
    with pytest.raises(InvalidEntry):
        store.trigger("report", args="x", task_id="one")  # type: ignore[arg-type]
    with pytest.raises(EntryNotFound):
        store.trigger("no such entry", task_id="one")

    assert store.trigger("report", args=[2], task_id="one") == "one"


@pytest.mark.parametrize("task_id", ["", " one", "a/b", "a b", "x" * 129, "-one", "ä", 7, "one\n"])
def test_an_id_that_cannot_be_one_is_refused(store: ScheduleStore, task_id: Any) -> None:
    with pytest.raises(InvalidEntry, match=r"\$.task_id: expected up to 128 letters"):
        store.trigger("report", task_id=task_id)


async def _trigger_later(app: Celery) -> str:
    async with AsyncScheduleStore(app) as store:
        return await store.trigger("report", task_id="one")


def test_the_awaitable_twin_takes_an_id_too(site: RunSite, store: ScheduleStore) -> None:
    store.trigger("report", task_id="one")
    assert asyncio.run(_trigger_later(site.app)) == "one"
    assert len(take(site.app)) == 1


# where runs are recorded


only_tracked = pytest.mark.parametrize("site", [True], indirect=True, ids=["tracked"])


@only_tracked
def test_the_id_of_another_run_is_refused(site: RunSite, store: ScheduleStore) -> None:
    random = store.trigger("report")

    with pytest.raises(InvalidEntry, match=rf"\$.task_id: {random} is the id of a run of 'report'; pass another one"):
        store.trigger("report", task_id=random)


@only_tracked
def test_a_run_that_a_worker_has_is_not_sent_again(site: RunSite, store: ScheduleStore) -> None:
    store.trigger("report", task_id="one")
    take(site.app)
    site.start("one")
    site.client.hset(site.keys.trigger("one"), "sender", "a call that died after the message had left")

    assert store.trigger("report", task_id="one") == "one"

    assert take(site.app) == []


@only_tracked
def test_the_run_of_a_call_that_died_is_not_in_its_own_way(site: RunSite, store: ScheduleStore) -> None:
    store.update("report", overlap="skip")
    _die_before_the_message_leaves(site.app, "one")
    site.clock.go_on(MINUTE)

    assert store.trigger("report", task_id="one") == "one"
    with pytest.raises(RunActive):
        store.trigger("report", task_id="two")
    site.start("one")
    site.finish("one")
    assert store.trigger("report", task_id="two") == "two"


@only_tracked
def test_a_run_that_waits_for_its_turn_is_not_sent_by_the_next_call(site: RunSite, store: ScheduleStore) -> None:
    store.update("report", overlap="buffer_one")
    store.trigger("report", task_id="one")
    for _ in range(2):
        assert store.trigger("report", task_id="two") == "two"

    assert [message.id for message in take(site.app)] == ["one"]
    assert site.state("two") is State.BUFFERED


# the command line


def test_the_command_takes_the_id_of_one_run(store: ScheduleStore, site: RunSite) -> None:
    store.create("other", "proj.work", 3600)

    def run(*arguments: str) -> Result:
        return CliRunner().invoke(redisbeater, ["trigger", *arguments], obj=SimpleNamespace(app=site.app))

    first, again = (run("report", "--task-id", "one") for _ in range(2))
    several = run("report", "other", "--task-id", "two")

    assert first.output == again.output == "report: triggered, task id one\n"
    assert (several.exit_code, len(take(site.app))) == (2, 1)
    assert "--task-id is the id of one run, and 2 entries are named; name one" in several.output
