"""What somebody who is new to the API calls by mistake, and the error that shows the right call."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from celery import Celery
from support.definitions import definition_of

from redisbeater import AsyncScheduleStore, Export, InvalidEntry, RedisScheduleEntry, ScheduleStore, describe
from redisbeater.exceptions import ImproperlyConfigured, UnknownField, WrongType

#: Nobody answers there: what is refused is refused before anybody asks Redis.
APP = Celery("proj", set_as_current=False)
APP.conf.update(redisbeater_redis_url="redis://127.0.0.1:1", redisbeater_retry_period=0, redisbeater_track_runs=True)

ENTRY = RedisScheduleEntry("a", "proj.work", 60, app=APP)

NO_APP = "app: expected a Celery app, got str; import it: from proj import app"

#: The call, the class of its error, and how its message begins.
CALLS: dict[str, tuple[Callable[[Any], Any], type[Exception], str]] = {
    "a name instead of an app": (lambda s: ScheduleStore("proj"), TypeError, NO_APP),
    "a name instead of an app, awaited": (lambda s: AsyncScheduleStore("proj"), TypeError, NO_APP),
    "the former name of key_prefix": (
        lambda s: ScheduleStore(APP, prefix="eu:"), TypeError, "ScheduleStore.__init__() got an unexpected"),
    "a prefix without a colon": (
        lambda s: ScheduleStore(APP, key_prefix="eu"), ImproperlyConfigured,
        "key_prefix = 'eu': expected a text that ends with ':' and has no '::'; set it to 'eu:'"),
    "a prefix without a colon, awaited": (
        lambda s: AsyncScheduleStore(APP, key_prefix="eu"), ImproperlyConfigured, "key_prefix = 'eu': expected"),
    "an empty prefix": (
        lambda s: ScheduleStore(APP, key_prefix=""), ImproperlyConfigured, "key_prefix = '': expected a text"),
    "a number as a prefix": (
        lambda s: ScheduleStore(APP, key_prefix=5), TypeError, "key_prefix: expected a text that ends with ':'"),
    "a path instead of an Export": (
        lambda s: s.files.plan("f.yaml"), TypeError, "export: expected an Export: Export.read('f.yaml')"),
    "a Path instead of an Export": (
        lambda s: s.files.plan(Path("f.yaml")), TypeError, "export: expected an Export: Export.read('f.yaml')"),
    "a dict instead of an Export": (
        lambda s: s.files.plan({}), TypeError, "export: expected an Export: Export.read('f.yaml'), got dict"),
    "a path instead of a plan": (
        lambda s: s.files.apply("f.yaml"), TypeError, "changes: expected what files.plan() returned"),
    "an Export instead of a plan": (
        lambda s: s.files.apply(Export(entries={})), TypeError,
        "changes: expected what files.plan() returned"),
    "a path to lint": (
        lambda s: s.lint("f.yaml"), TypeError, "file: expected an Export: Export.read('f.yaml')"),
    "a path to simulate": (
        lambda s: s.simulate(entries="f.yaml"), TypeError, "entries: expected an Export: Export.read("),
    "names to simulate": (
        lambda s: s.simulate(entries=["a"]), TypeError, "entry: expected a RedisScheduleEntry, got 'a'"),
    "a text instead of a path": (lambda s: Export.read(5), TypeError, "path: expected a path"),
    "a path instead of a text": (
        lambda s: Export.from_text(Path("f.yaml")), TypeError, "text: expected the text of a file"),
    "a positional note": (lambda s: s.pause("deploy"), TypeError, "ScheduleStore.pause() takes 1 positional"),
    "a positional note of a change": (
        lambda s: s.update("a", "why"), TypeError, "ScheduleStore.update() takes 2 positional"),
    "a positional note of a run": (lambda s: s.runs.stop("a", "slow"), TypeError, "Runs.stop() takes 2 positional"),
    "a number as a note": (lambda s: s.disable("a", note=5), TypeError, "$.note: expected a text, got int"),
    "a time in words": (
        lambda s: s.pause(until="tomorrow"), InvalidEntry, "$.until: expected a datetime or a timedelta"),
    "a misspelt field": (
        lambda s: s.upsert("a", "proj.work", 60, arg=[1]), UnknownField,
        "$.arg: is not a field of an entry; did you mean 'args'?"),
    "an option as a field": (
        lambda s: s.create("a", "proj.work", 60, queue="low"), UnknownField,
        '$.queue: is not a field of an entry; did you mean options={"queue": ...}?'),
    "an entry for upsert": (lambda s: s.upsert(ENTRY), TypeError, "ScheduleStore.upsert() missing 2 required"),
    "a name to save": (
        lambda s: s.save("a"), TypeError,
        "entry: expected a RedisScheduleEntry, got 'a'; RedisScheduleEntry(name, task, schedule) makes one"),
    "a name to save in a bulk": (
        lambda s: s.bulk().save("a"), TypeError, "entry: expected a RedisScheduleEntry, got 'a'"),
    "an entry instead of its name": (
        lambda s: s.get(ENTRY), TypeError, "$.name: expected a str, got RedisScheduleEntry"),
    "an entry to delete": (lambda s: s.delete(ENTRY), TypeError, "$.name: expected a str, got"),
    "None instead of a name": (lambda s: None in s, TypeError, "$.name: expected a str, got None"),
    "one name for many": (
        lambda s: s.enable_many("a"), TypeError, "names: expected a list of names, got 'a'; for one"),
    "a number for many names": (lambda s: s.delete_many(5), TypeError, "names: expected a list of names, got 5"),
    "one name for the newest runs": (lambda s: s.runs.newest("a"), TypeError, "names: expected a list of names"),
    "one name for results": (lambda s: s.runs.results("a"), TypeError, "names: expected a list of names"),
    "a run instead of its id": (
        lambda s: s.runs.get(None), TypeError, "run_id: expected the id of a run, which is a text; got None"),
    "a number to stop": (lambda s: s.runs.stop(5), TypeError, "run_id: expected the id of a run"),
    "a number to restart": (lambda s: s.runs.restart(5), TypeError, "run_id: expected the id of a run"),
    "a number to wait for": (lambda s: s.runs.wait(5), TypeError, "run_id: expected the id of a run"),
    "a duration in words": (
        lambda s: s.runs.wait("a" * 36, timeout="5s"), TypeError, "timeout: expected seconds, a timedelta or"),
    "a number as an incident": (
        lambda s: s.incidents.acknowledge(5), TypeError, "incident_id: expected the id of an incident"),
    "a number as a delay": (
        lambda s: s.delays.get(5), TypeError, "delay_id: expected the id of a delay, which is a text; got 5"),
    "a task to keep": (
        lambda s: s.delays.add("proj.work", at=datetime.now()), TypeError,
        "signature: expected the signature of a task, such as app.signature('proj.work', args=[...]), got 'proj.work'"),
    "seconds to keep a task": (
        lambda s: s.delays.add(APP.signature("proj.work"), at=60), TypeError, "at: expected a datetime, got 60"),
    "one id of a delay": (
        lambda s: s.delays.cancel("a"), TypeError, "ids: expected a list of ids, got 'a'; for one delay pass ['a']"),
    "a delay instead of its id": (lambda s: s.delays.send([5]), TypeError, "ids: expected ids, which are texts; one"),
    "neither a time nor a shift": (
        lambda s: s.delays.move(["a"]), InvalidEntry, "at: expected a datetime, or shift=, by how much to move each"),
    "seconds of a shift": (
        lambda s: s.delays.move(["a"], shift=60), TypeError, "shift: expected a timedelta, got 60"),
    "a number as arguments of delays": (
        lambda s: s.delays.list(args=5), TypeError, "args: expected a text, or None for all, got 5"),
    "no delays at all": (lambda s: s.delays.list(limit=0), ValueError, "limit: expected a whole number from 1"),
    "a limit in words": (lambda s: s.list(limit="10"), TypeError, "limit: expected a whole number from 1"),
    "no limit at all": (lambda s: s.runs.active(limit=0), ValueError, "limit: expected a whole number from 1"),
    "a made-up cursor": (lambda s: s.list(cursor="2"), ValueError, "cursor: expected the cursor of a page"),
    "a made-up state": (lambda s: s.list(state="paused"), ValueError, "state: expected enabled, disabled"),
    "labels in words": (lambda s: s.list(labels="team=a"), TypeError, "labels: expected texts by name"),
    "seconds in words": (lambda s: s.upcoming(within="1h"), TypeError, "within: expected seconds or a timedelta"),
    "no seconds": (lambda s: s.health(max_late=-1), ValueError, "max_late: expected seconds or a timedelta"),
    "options in a list": (
        lambda s: s.update("a", task_options=["queue"]), TypeError, "$.task_options: expected options by their"),
    "a number as a version": (
        lambda s: s.update("a", if_version=5), TypeError, "$.if_version: expected the version of an entry"),
    "a former name": (lambda s: s.failing(), AttributeError, "'ScheduleStore' object has no attribute"),
    "a run at the store": (lambda s: s.run("x"), AttributeError, "'ScheduleStore' object has no attribute"),
    "the number of entries": (lambda s: len(s), TypeError, "object of type 'ScheduleStore' has no len()"),
    "a method as a field": (
        lambda s: setattr(ENTRY, "enable", True), UnknownField,
        "$.enable: is not a field of an entry; did you mean 'enabled'?"),
    "the state of what was not read": (
        lambda s: RedisScheduleEntry("x", app=APP).state, InvalidEntry,
        "$.state: this entry was not read; use ScheduleStore(app).get('x')"),
    "the JSON text of a definition": (lambda s: RedisScheduleEntry.from_dict("{}"), WrongType, "$: expected a"),
    "a year in a cron text": (lambda s: describe("0 9 * * * 2027 *"), InvalidEntry, "$.schedule: expected 5"),
    "a time as a text": (
        lambda s: s.backfill("a", "2026-01-01", datetime(2026, 1, 2)), TypeError, "$.start: expected a"),
}  # fmt: skip


@pytest.mark.parametrize("mistake", CALLS)
def test_a_wrong_call_is_refused_at_once_and_shows_the_right_one(mistake: str) -> None:
    call, kind, message = CALLS[mistake]

    with pytest.raises(kind) as refused:
        call(ScheduleStore(APP))

    assert str(refused.value).startswith(message)


def test_the_awaitable_store_refuses_the_same(recwarn: pytest.WarningsRecorder) -> None:
    async def main() -> list[BaseException | None]:
        async with AsyncScheduleStore(APP) as store:
            calls: list[Any] = [store.files.plan("f.yaml"), store.runs.get(5), store.list(limit="5")]
            return await asyncio.gather(*calls, store.get(ENTRY), store.save("a"), return_exceptions=True)

    assert [type(error) for error in asyncio.run(main())] == [WrongType] * 5


@pytest.mark.parametrize("field", ["args", "kwargs", "options", "labels", "skip", "enabled", "description", "once"])
def test_a_field_that_has_no_none_is_not_changed_to_it(field: str) -> None:
    definition = definition_of(ENTRY)

    with pytest.raises(InvalidEntry, match=rf"^\$\.{field}: expected .*got None"):
        definition.changed(**{field: None})


def test_a_call_that_nobody_awaits_is_named_by_room_and_method() -> None:
    with pytest.warns(RuntimeWarning, match=r"coroutine 'AsyncRuns\.stop' was never awaited"):
        AsyncScheduleStore(APP).runs.stop("a")
    with pytest.warns(RuntimeWarning, match=r"coroutine 'AsyncScheduleStore\.exists' was never awaited"):
        assert AsyncScheduleStore(APP).exists("a")


def test_an_awaitable_store_has_neither_in_nor_iteration() -> None:
    store: Any = AsyncScheduleStore(APP)

    with pytest.raises(TypeError, match=r"not a container|not iterable"):
        print("a" in store)
    with pytest.raises(TypeError, match="not iterable"):
        list(store)
