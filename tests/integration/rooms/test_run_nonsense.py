"""What other programs write into the keys of runs costs a record, but no run, no beat and no worker."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import redis
from run_site import RunSite

from redisbeater import ScheduleStore
from redisbeater.results import RunCounts, State

#: What is written where, and how.
Write = Callable[[redis.Redis, str], object]

WRONG_TYPES = [
    pytest.param(lambda client, key: client.set(key, "x"), id="string"),
    pytest.param(lambda client, key: client.rpush(key, "x"), id="list"),
    pytest.param(lambda client, key: client.hset(key, "x", "y"), id="hash"),
    pytest.param(lambda client, key: client.sadd(key, "x"), id="set"),
    pytest.param(lambda client, key: client.zadd(key, {"x": 1}), id="sorted-set"),
]

#: The keys of runs, below the prefix.
KEYS = [
    ":run:a", ":runs:report", ":active", ":active:report", ":resend", ":totals",
    ":waiting", ":failed", ":unstable", ":failures", ":minutes", ":traceback:a",
]  # fmt: skip


@pytest.fixture
def site(run_site: RunSite, client: redis.Redis, prefix: str) -> Iterator[RunSite]:
    yield run_site
    client.delete(*(prefix + key for key in KEYS), f"{prefix}clock")


def go_through(site: RunSite) -> None:
    """Do everything that beat, a worker and a program do with a run; none of it may raise."""
    runs = site.runs
    site.send("a")
    site.start("a")
    runs.renew({"a": "w1:1:a"})
    runs.drop(site.execution("a"))
    site.clock.go_on(61)
    site.lose_overdue(requeue_in=0)
    site.store.commit(site.claim(), [], runs.take(token=""))
    runs.reserve(site.new("b"), "buffer_one")
    runs.stop("b")
    site.finish("a")
    site.clock.go_on(3601)
    site.lose_overdue()
    runs.history("report")
    runs.active("report")
    runs.counts("report")
    runs.totals()
    site.send("c")
    site.start("c")
    site.finish("c", State.FAILURE, traceback="Traceback")
    for listed in site.keys.corrected:
        site.store.contents.correct(listed, "0")
    runs.failures(10)
    runs.newest_failed(5)
    runs.minutes()
    runs.traceback("c")
    for result in ("failed", "unstable", "waiting", "running"):
        runs.names_of(result)
    measured = site.store.measures.read()
    assert measured.unstarted >= 0
    assert measured.failed >= 0


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("write", WRONG_TYPES)
def test_a_key_of_another_type_ends_nothing(site: RunSite, prefix: str, key: str, write: Write) -> None:
    write(site.client, prefix + key)
    kind = site.client.type(prefix + key)

    go_through(site)

    store = ScheduleStore(site.app)
    assert [entry.name for entry in store.list()] == ["report"]
    store.disable("report")
    store.enable("report")
    assert store.status().failed >= 0
    assert store.delete("report") is None
    store.restore("report")
    assert store.delete("report") is None
    assert site.client.type(prefix + key) in (kind, "none")


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"state": "NONSENSE", "name": "report"}, id="unknown-state"),
        pytest.param({"state": "STARTED"}, id="no-name"),
        pytest.param({"state": "STARTED", "name": ":own"}, id="a-name-of-our-own"),
        pytest.param({"state": "STARTED", "name": "x" * 600}, id="a-long-name"),
        pytest.param({"state": "STARTED", "name": "report", "attempt": "many", "starts": "1e99"}, id="no-numbers"),
        pytest.param({"state": "STARTED", "name": "report", "started_at": "yesterday"}, id="no-time"),
        pytest.param({"state": "LOST", "name": "report", "note": "x" * 100_000, "worker": "\x00\xff"}, id="long-texts"),
        pytest.param({"state": "BUFFERED", "name": "another entry"}, id="of-another-entry"),
    ],
)
def test_a_run_of_nonsense_ends_nothing(site: RunSite, prefix: str, fields: dict[str, str]) -> None:
    site.client.hset(site.keys.run("a"), mapping=fields)
    site.client.zadd(site.keys.active, {site.keys.run("a"): 1, "x": 0})
    site.client.zadd(site.keys.resend, {site.keys.run("a"): 1, "x": 0, "": 0})
    site.client.sadd(site.keys.active_of("report"), site.keys.run("a"), "x")
    site.client.zadd(site.keys.runs_of("report"), {site.keys.run("a"): 1, "x": 0})

    go_through(site)

    assert not {"x", ""} & set(site.client.zrange(site.keys.resend, 0, -1))
    assert "x" not in site.client.zrange(site.keys.active, 0, -1)
    assert all(run.name in ("report", "another entry") for run in site.runs.history("report"))


@pytest.mark.parametrize(("text", "shown"), [("many", 1), ("1.5", 1), ("9223372036854775807", 1), ("", 1)])
def test_a_count_of_nonsense_begins_again(site: RunSite, text: str, shown: int) -> None:
    fields = ("n.sent", "n.success", "failures")
    site.client.hset(site.keys.entry("report"), mapping=dict.fromkeys(fields, text))
    site.client.hset(site.keys.totals, mapping=dict.fromkeys(("SENT", "STARTED", "SUCCESS proj.work"), text))

    site.send("a")
    site.start("a")
    assert site.finish("a") == "FINISHED"

    counts = site.runs.counts("report")
    assert (counts.sent, counts.success, counts.failures) == (shown, shown, 0)
    assert isinstance(site.claim().entries, tuple)


@pytest.mark.parametrize(
    "text",
    [
        "", "x", "SSF", "SSF yesterday", "ssf 1", "SSF -1", "SSF 1e99", "QQQ 1", "S 99999999999", "S" * 5_000 + " 1",
        pytest.param("S 1" + "0" * 400, id="late"),
    ],
)  # fmt: skip
def test_last_ends_of_nonsense_begin_again_with_the_next_end(site: RunSite, text: str) -> None:
    site.client.hset(site.keys.entry("report"), mapping={"ends": text, "tracebacks": text})
    store = ScheduleStore(site.app)
    store.why("report")
    site.store.contents.correct(site.keys.failed, "0")

    site.send("a")
    site.start("a")
    assert site.finish("a", State.FAILURE, traceback="Traceback") == "FINISHED"

    assert site.store.load("report").ends.partition(" ")[0][-1] == "F"
    assert [site.keys.name(key) for key in site.client.zrange(site.keys.failed, 0, -1)] == ["report"]
    store.rename("report", "weekly")
    store.delete("weekly")
    store.restore("weekly")
    assert site.claim() is not None


def test_members_of_nonsense_are_shown_nowhere(site: RunSite) -> None:
    nonsense: dict[str, float] = {"": 1, "x": 2, site.keys.run("x"): 3, site.keys.entry("no"): 4, site.keys.schedule: 5}
    for key in (site.keys.waiting, site.keys.failed, site.keys.unstable, site.keys.failures):
        site.client.zadd(key, nonsense)
    site.client.hset(site.keys.minutes, mapping={"x": "y", "": "", "1 SUCCESS": "many", f"{10**12} SUCCESS": 1})

    go_through(site)

    assert ScheduleStore(site.app).health(strict=True).problems
    assert site.runs.newest_failed(5) == ["report"]
    assert site.client.zrange(site.keys.failed, 0, -1) == [site.keys.entry("report")]
    assert site.client.zrange(site.keys.waiting, 0, -1) == []


def test_a_negative_count_counts_as_none(site: RunSite) -> None:
    site.client.hset(site.keys.entry("report"), mapping={"n.sent": "-3", "n.success": "-3"})

    site.send("a")
    site.start("a")
    site.finish("a")

    counts = site.runs.counts("report")
    assert (counts.sent, counts.success) == (0, 1)


def test_a_buffered_run_that_is_no_run_holds_up_nobody(site: RunSite) -> None:
    site.client.hset(site.keys.entry("report"), "buffered", "nothing")
    site.send("a")
    site.start("a")

    assert site.finish("a") == "FINISHED"
    assert site.runs.counts("report") == RunCounts(sent=1, success=1)


def test_totals_of_many_tasks_are_counted_together(site: RunSite) -> None:
    site.client.hset(site.keys.totals, mapping={f"SUCCESS t{number}": 1 for number in range(1001)})

    site.send("a")
    site.start("a")
    site.finish("a", State.FAILURE)

    totals = site.runs.totals()
    assert (totals["FAILURE other"], "FAILURE proj.work" in totals) == (1, False)
