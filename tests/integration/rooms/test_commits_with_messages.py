"""The commit script puts the messages of an entry into the broker: with its commit, once, or not at all."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
import redis
from celery import Celery
from due import save_due, stored
from edit_ledger import ServerClock, scripts_by_the_clock_at
from run_site import LEASE, QUEUE, TRACKED, RunSite
from support.proxy import LOOPBACK, Proxy
from support.servers import Server

from redisbeater import ScheduleStore, StoreError
from redisbeater.context import Context
from redisbeater.dispatch.job import Job
from redisbeater.results import Score, State
from redisbeater.store import Claim
from redisbeater.store.claim import Commitment, CommitResult
from redisbeater.store.connection import load_script
from redisbeater.store.schedule import Proof

#: The broker's database, and a key that it holds.
PROOF = Proof("proof", 1)

MakeApp = Callable[..., Celery]


@dataclass
class Flight:
    """The claimed entries of an app, each of which has one message in the commands of its commit."""

    app: Celery
    broker: redis.Redis
    claim: Claim
    jobs: dict[str, Job]

    def commitment(self, name: str, *commands: tuple[str, ...], runs: int = 1, **changes: Any) -> Commitment:
        job = self.jobs[name].first_runs(runs)
        return job.commitment()._replace(push=commands or (("LPUSH", "q", name),), **changes)

    def commit(self, *commitments: Commitment, proof: Proof = PROOF, is_retry: bool = False) -> CommitResult:
        context = Context.of(self.app)
        return context.redis.commit(self.claim, commitments, proof=proof, is_retry=is_retry)

    @property
    def messages(self) -> list[str]:
        return self.broker.lrange("q", 0, -1)[::-1]


@pytest.fixture
def broker(server: Server) -> Iterator[redis.Redis]:
    broker = server.client(PROOF.database)
    broker.flushdb()
    broker.set(PROOF.key, "")
    yield broker
    broker.flushdb()


def mark_in_flight(app: Celery, broker: redis.Redis, *names: str, **fields: Any) -> Flight:
    """Save entries that are due, and claim and plan them."""
    for number, name in enumerate(names):
        save_due(app, name, late=len(names) - number, every=86_400.0, **fields)
    return claimed(app, broker)


def claimed(app: Celery, broker: redis.Redis) -> Flight:
    context = Context.of(app)
    claim = context.redis.claim(token="", limit=100)
    jobs = {each.name: Job.planned(each, claim.now, context, claim.schedule_id) for each in claim.entries}
    return Flight(app, broker, claim, jobs)


@pytest.mark.parametrize("is_tracking", [False, True], ids=["untracked", "tracked"])
def test_messages_are_there_with_the_commit_in_the_order_of_the_entries(
    make_app: MakeApp, broker: redis.Redis, is_tracking: bool
) -> None:
    app = make_app(redisbeater_track_runs=is_tracking)
    flight = mark_in_flight(app, broker, "a", "b")

    result = flight.commit(flight.commitment("a"), flight.commitment("b"))

    assert result == CommitResult(fenced=[], changed={})
    assert flight.messages == ["a", "b"]
    assert [stored(app, name).total_run_count for name in "ab"] == [1, 1]


def test_the_schedule_is_in_its_own_database_afterwards(app: Celery, broker: redis.Redis, client: redis.Redis) -> None:
    flight = mark_in_flight(app, broker, "a")
    flight.commit(flight.commitment("a"))

    assert set(broker.keys()) == {"q", "proof"}
    assert not client.exists("q")


def test_nothing_is_written_of_an_entry_whose_message_is_refused(app: Celery, broker: redis.Redis) -> None:
    flight = mark_in_flight(app, broker, "a", "bad", "c")
    broker.set("text", "")

    result = flight.commit(
        flight.commitment("a"), flight.commitment("bad", ("LPUSH", "text", "bad")), flight.commitment("c")
    )

    assert list(result.rejected) == ["bad"]
    assert "WRONGTYPE" in result.rejected["bad"]
    assert flight.messages == ["a", "c"]
    assert [stored(app, name).total_run_count for name in ("a", "bad", "c")] == [1, 0, 1]
    assert flight.commit(flight.commitment("bad")).rejected == {}


# Most entries are written first, and their messages follow together


def test_messages_keep_their_order_whatever_else_is_written_of_their_entries(app: Celery, broker: redis.Redis) -> None:
    save_due(app, "b", late=3, every=86_400.0, max_runs=1)  # its end is a line of its log
    for name, late in (("a", 4), ("c", 2), ("d", 1)):
        save_due(app, name, late=late, every=86_400.0)
    flight = claimed(app, broker)
    messages = [("LPUSH", "q", name) for name in "acd"]
    messages[1] = ("LPUSH", "other", "c")

    result = flight.commit(
        flight.commitment("a", messages[0]),
        flight.commitment("b"),
        flight.commitment("c", messages[1]),
        flight.commitment("d", messages[2], ("PEXPIRE", "q", "100000")),
    )

    assert result == CommitResult(fenced=[], changed={})
    assert flight.messages == ["a", "b", "d"]
    assert broker.lrange("other", 0, -1) == ["c"]
    assert broker.pttl("q") > 0
    assert [stored(app, name).total_run_count for name in "abcd"] == [1, 1, 1, 1]


def test_hundreds_of_messages_are_put_in_by_a_few_commands(app: Celery, broker: redis.Redis) -> None:
    names = [f"{number:03}" for number in range(250)]
    save_due(app, names[0], every=86_400.0)
    flight = mark_in_flight(app, broker, *names[1:])
    items = [flight.commitment(name) for name in sorted(flight.jobs)]
    before = broker.info("commandstats").get("cmdstat_lpush", {"calls": 0})["calls"]

    flight.commit(*items)

    assert len(flight.jobs) == 100 == len(flight.messages)
    assert flight.messages == sorted(flight.jobs)
    assert broker.info("commandstats")["cmdstat_lpush"]["calls"] - before < 10


@pytest.mark.parametrize("is_due_now", [False, True], ids=["by its schedule", "now"])
def test_an_entry_whose_message_is_refused_is_claimed_as_before(
    app: Celery, broker: redis.Redis, client: redis.Redis, is_due_now: bool
) -> None:
    save_due(app, "a", every=86_400.0)
    keys = Context.of(app).redis.keys
    key = keys.entry("a")
    if is_due_now:
        client.zadd(keys.schedule, {key: 0})
    flight = claimed(app, broker)
    broker.set("text", "")
    before = client.hgetall(key), client.zscore(keys.schedule, key)
    assert ("is_due_now" in before[0]) == is_due_now

    result = flight.commit(flight.commitment("a", ("LPUSH", "text", "bad")))

    assert list(result.rejected) == ["a"]
    assert (client.hgetall(key), client.zscore(keys.schedule, key)) == before
    assert flight.commit(flight.commitment("a")) == CommitResult(fenced=[], changed={})
    assert flight.messages == ["a"]


class Unreadable(Score):
    """A score that Redis refuses."""

    def to_text(self) -> str:
        return "soon"


@pytest.mark.parametrize("fields", [{}, {"max_runs": 1}], ids=["as the others", "with a line of its log"])
def test_what_waits_is_put_in_though_the_entry_behind_it_fails(
    app: Celery, broker: redis.Redis, fields: dict[str, Any]
) -> None:
    save_due(app, "a", late=2, every=86_400.0)
    save_due(app, "b", late=1, every=86_400.0, **fields)
    flight = claimed(app, broker)
    bad = flight.commitment("b", next=Unreadable(fire_time=flight.claim.now))

    result = flight.commit(flight.commitment("a"), bad)

    assert "a" not in result.unwritten
    assert [message for message in flight.messages if message == "a"] == ["a"]
    assert stored(app, "a").total_run_count == 1


def test_an_entry_that_is_listed_as_broken_or_failing_is_listed_no_more(
    app: Celery, broker: redis.Redis, client: redis.Redis
) -> None:
    flight = mark_in_flight(app, broker, "a", "b", "c")
    keys = Context.of(app).redis.keys
    client.hset(keys.broken, "a", "{}")
    client.zadd(keys.failing, {keys.entry("b"): 1})
    try:
        flight.commit(*map(flight.commitment, "abc"))
        assert client.hgetall(keys.broken) == {}
        assert client.zrange(keys.failing, 0, -1) == []
    finally:
        client.delete(keys.broken, keys.failing)

    assert flight.messages == ["a", "b", "c"]
    assert [line.what for line in ScheduleStore(app).log("a")][:1] == ["fixed"]


def test_an_entry_counts_once_its_first_message_is_there(app: Celery, broker: redis.Redis) -> None:
    flight = mark_in_flight(app, broker, "a")
    broker.set("text", "")

    result = flight.commit(flight.commitment("a", ("LPUSH", "q", "1"), ("LPUSH", "text", "2"), ("LPUSH", "q", "3")))

    assert flight.messages == ["1"]
    assert result.begun == {"a": 1}
    assert stored(app, "a").total_run_count == 1


def test_nothing_is_put_into_a_server_without_the_proof(app: Celery, broker: redis.Redis) -> None:
    flight = mark_in_flight(app, broker, "a")
    broker.delete(PROOF.key)

    assert flight.commit(flight.commitment("a")).unproved == {"a"}

    assert flight.messages == []
    assert stored(app, "a").total_run_count == 0
    assert Context.of(app).redis.why_apart(*PROOF) == "the broker is another server"
    broker.set(PROOF.key, "")
    assert Context.of(app).redis.why_apart(*PROOF) == ""


def test_a_commit_that_is_repeated_puts_nothing_in_twice(app: Celery, broker: redis.Redis) -> None:
    flight = mark_in_flight(app, broker, "a")
    first = flight.commitment("a")
    flight.commit(first)
    broker.delete(PROOF.key)  # it may have run out since

    assert flight.commit(first, is_retry=True) == CommitResult(fenced=[], changed={})

    assert flight.messages == ["a"]


def test_a_commit_whose_reply_is_lost_puts_its_message_in_once(
    make_app: MakeApp, broker: redis.Redis, server: Server
) -> None:
    with Proxy(server.port) as proxy:
        url = f"redis://{LOOPBACK}:{proxy.port}/0"
        app = make_app(redisbeater_redis_url=url, redisbeater_redis_options={"socket_timeout": 0.3})
        flight = mark_in_flight(app, broker, "a", "b")
        lost = proxy.lose_reply(b"LPUSH")

        result = flight.commit(flight.commitment("a"), flight.commitment("b"))

        assert lost.is_set()
    assert result == CommitResult(fenced=[], changed={})
    assert flight.messages == ["a", "b"]


def test_a_fenced_entry_puts_nothing_in(app: Celery, broker: redis.Redis, client: redis.Redis) -> None:
    flight = mark_in_flight(app, broker, "taken", "deleted")
    client.hset(Context.of(app).redis.keys.entry("taken"), "claim", "another")
    ScheduleStore(app).delete("deleted")

    result = flight.commit(flight.commitment("taken"), flight.commitment("deleted"))

    assert sorted(result.fenced) == ["deleted", "taken"]
    assert flight.messages == []


def test_an_entry_that_is_edited_meanwhile_puts_nothing_in(app: Celery, broker: redis.Redis) -> None:
    flight = mark_in_flight(app, broker, "a")
    ScheduleStore(app).update("a", args=[1])

    assert list(flight.commit(flight.commitment("a")).changed) == ["a"]

    assert flight.messages == []


@pytest.mark.parametrize("command", ["ltrim", "lpush", "hincrby", "publish"])
@pytest.mark.parametrize("is_tracking", [False, True], ids=["untracked", "tracked"])
def test_a_right_that_is_missing_behind_the_message_costs_the_record_and_not_a_second_message(
    make_app: MakeApp, broker: redis.Redis, client: redis.Redis, server: Server, command: str, is_tracking: bool
) -> None:
    client.execute_command("ACL", "SETUSER", "beat", "on", ">secret", "~*", "&*", "+@all")
    try:
        url = f"redis://beat:secret@{LOOPBACK}:{server.port}/0"
        app = make_app(redisbeater_redis_url=url, redisbeater_track_runs=is_tracking)
        save_due(app, "goes-on", every=86_400.0)
        flight = mark_in_flight(app, broker, "ends", max_runs=1)  # its end is a line of its log
        client.execute_command("ACL", "SETUSER", "beat", f"-{command}")

        commitments = [flight.commitment(name, ("RPUSH", "q", name)) for name in ("ends", "goes-on")]
        for is_retry in (False, True):
            result = flight.commit(*commitments, is_retry=is_retry)
            assert not result.unwritten
    finally:
        client.execute_command("ACL", "DELUSER", "beat")

    assert sorted(flight.messages) == ["ends", "goes-on"]


@pytest.mark.parametrize("command", ["hset", "hdel", "zadd", "del", "zscore", "time"])
def test_without_a_right_that_the_claim_needs_no_message_is_put_in(
    make_app: MakeApp, broker: redis.Redis, client: redis.Redis, server: Server, command: str
) -> None:
    client.execute_command("ACL", "SETUSER", "beat", "on", ">secret", "~*", "&*", "+@all")
    try:
        app = make_app(redisbeater_redis_url=f"redis://beat:secret@{LOOPBACK}:{server.port}/0")
        flight = mark_in_flight(app, broker, "a")
        client.execute_command("ACL", "SETUSER", "beat", f"-{command}")

        with pytest.raises(StoreError):
            flight.commit(flight.commitment("a"))
    finally:
        client.execute_command("ACL", "DELUSER", "beat")

    assert flight.messages == []


@pytest.mark.parametrize("is_tracking", [False, True], ids=["untracked", "tracked"])
def test_whichever_right_is_taken_away_meanwhile_no_message_is_put_in_twice(
    make_app: MakeApp, broker: redis.Redis, client: redis.Redis, server: Server, is_tracking: bool
) -> None:
    url = f"redis://beat:secret@{LOOPBACK}:{server.port}/0"
    text = load_script("commit", with_runs=is_tracking).text
    commands = {*re.findall(r"(?:call|try)\('([A-Z]+)'", text)}
    assert {"TIME", "HSET", "LTRIM", "SELECT"} <= commands
    try:
        for command in sorted(commands):
            client.execute_command("ACL", "SETUSER", "beat", "reset", "on", ">secret", "~*", "&*", "+@all")
            app = make_app(redisbeater_redis_url=url, redisbeater_track_runs=is_tracking)
            names = [f"{command}-{what}" for what in ("deleted", "ends", "goes-on", "kept")]
            for name, fields in zip(names, ({"max_runs": 1, "on_finish": "delete"}, {"max_runs": 1}, {}, {})):
                save_due(app, name, every=86_400.0, **fields)
            flight = claimed(app, broker)
            commitments = [flight.commitment(name, ("RPUSH", "q", name)) for name in names[:3]]
            commitments.append(kept(flight, names[3], ("RPUSH", "q", names[3])))

            client.execute_command("ACL", "SETUSER", "beat", f"-{command}")
            for is_retry in (False, True):
                with suppress(StoreError):
                    flight.commit(*commitments, is_retry=is_retry)
            client.execute_command("ACL", "SETUSER", "beat", f"+{command}")
            result = flight.commit(*commitments, is_retry=True)

            assert (result.unwritten, result.fenced) == (set(), []), command
            assert sorted(broker.lpop("q", 100) or []) == names
            ScheduleStore(app).delete_many(names)
    finally:
        client.execute_command("ACL", "DELUSER", "beat")


def test_a_key_without_rights_is_refused_for_its_entry_alone(
    make_app: MakeApp, broker: redis.Redis, client: redis.Redis, server: Server, prefix: str
) -> None:
    client.execute_command("ACL", "SETUSER", "beat", "on", ">secret", f"~{prefix}*", "~q", "~proof", "&*", "+@all")
    try:
        app = make_app(redisbeater_redis_url=f"redis://beat:secret@{LOOPBACK}:{server.port}/0")
        flight = mark_in_flight(app, broker, "a", "b")

        result = flight.commit(flight.commitment("a"), flight.commitment("b", ("LPUSH", "closed", "b")))
    finally:
        client.execute_command("ACL", "DELUSER", "beat")

    assert list(result.rejected) == ["b"]
    assert flight.messages == ["a"]


def test_a_full_memory_refuses_the_message_and_the_commit(
    app: Celery, broker: redis.Redis, client: redis.Redis
) -> None:
    flight = mark_in_flight(app, broker, "a")
    before = client.config_get("maxmemory-policy")["maxmemory-policy"]
    client.config_set("maxmemory-policy", "noeviction")
    client.config_set("maxmemory", 1)
    try:
        with pytest.raises(StoreError, match=r"OOM|OutOfMemory"):
            flight.commit(flight.commitment("a"))
    finally:
        client.config_set("maxmemory", 0)
        client.config_set("maxmemory-policy", before)

    assert flight.messages == []
    assert flight.commit(flight.commitment("a")) == CommitResult(fenced=[], changed={})
    assert flight.messages == ["a"]


def test_a_message_of_ten_megabytes_is_put_in(app: Celery, broker: redis.Redis) -> None:
    flight = mark_in_flight(app, broker, "a")

    flight.commit(flight.commitment("a", ("LPUSH", "q", "x" * 10_000_000)))

    assert [len(message) for message in flight.messages] == [10_000_000]


# An entry with more runs stays claimed between its commits


def kept(flight: Flight, name: str, *commands: tuple[str, ...]) -> Commitment:
    """Return a commitment of the first run of an entry, behind which others follow a second later each."""
    commitment = flight.commitment(name, *commands, keeps_claim=True)
    next_time = flight.jobs[name].claimed.fire_time + timedelta(seconds=1)
    assert commitment.next is not None
    return commitment._replace(next=commitment.next._replace(fire_time=next_time, look_at=next_time))


def test_an_entry_with_more_runs_stays_claimed_for_them(app: Celery, broker: redis.Redis, client: redis.Redis) -> None:
    flight = mark_in_flight(app, broker, "a")
    key, schedule = Context.of(app).redis.keys.entry("a"), Context.of(app).redis.keys.schedule
    leased_until = client.zscore(schedule, key)
    next_time = flight.jobs["a"].claimed.fire_time + timedelta(seconds=1)
    first = flight.commitment("a", keeps_claim=True)
    assert first.next is not None
    first = first._replace(next=first.next._replace(fire_time=next_time, look_at=next_time))

    result = flight.commit(first)

    claim = result.kept["a"]
    assert claim.startswith(f"{flight.claim.id} ")
    assert client.hmget(key, "claim", "fire_time") == [claim, f"{next_time.timestamp():.6f}"]
    assert client.zscore(schedule, key) == leased_until
    # repeated, it puts nothing in, and says the same
    assert flight.commit(first, is_retry=True).kept == {"a": claim}
    assert flight.messages == ["a"]
    # the next commit needs that claim, and an unchanged entry
    assert flight.commit(flight.commitment("a")).fenced == ["a"]
    entry = flight.jobs["a"].claimed._replace(claim=claim, seen=claim.split()[-1])
    last = flight.commitment("a", ("LPUSH", "q", "second"))
    last = last._replace(entry=entry)
    assert flight.commit(last) == CommitResult(fenced=[], changed={})
    assert flight.messages == ["a", "second"]
    assert client.hget(key, "claim") is None
    assert flight.commit(last, is_retry=True) == CommitResult(fenced=[], changed={})
    assert flight.messages == ["a", "second"]


def test_a_commit_that_is_repeated_is_known_again_though_it_has_counted_nothing(
    app: Celery, broker: redis.Redis
) -> None:
    flight = mark_in_flight(app, broker, "a")
    second_time = flight.jobs["a"].claimed.fire_time + timedelta(seconds=2)
    first = kept(flight, "a")._replace(meta="", recorded_run="")
    claim = flight.commit(first).kept["a"]
    entry = flight.jobs["a"].claimed._replace(claim=claim, seen=claim.split()[-1])
    second = first._replace(entry=entry, next=Score(fire_time=second_time, look_at=second_time))

    for is_retry in (False, True):
        flight.commit(second, is_retry=is_retry)

    assert flight.messages == ["a", "a"]


def test_an_edit_between_two_commits_of_a_claim_is_noticed(app: Celery, broker: redis.Redis) -> None:
    flight = mark_in_flight(app, broker, "a")
    first = flight.commitment("a", keeps_claim=True)
    assert first.next is not None
    first = first._replace(next=first.next._replace(look_at=first.next.fire_time))
    claim = flight.commit(first).kept["a"]
    ScheduleStore(app).update("a", args=[1])

    last = flight.commitment("a")._replace(entry=flight.jobs["a"].claimed._replace(claim=claim, seen=claim.split()[-1]))

    assert list(flight.commit(last).changed) == ["a"]
    assert flight.messages == ["a"]


# Runs that are sent again

#: The commands of the script, by any of which the user of beat may be kept from the records of runs.
COMMANDS = sorted({*re.findall(r"(?:call|try)\('([A-Z]+)'", load_script("commit", with_runs=True).text)} - {"TIME"})


@pytest.mark.parametrize("command", COMMANDS)
def test_whichever_right_is_missing_a_run_that_waited_is_put_in_once(
    make_app: MakeApp, broker: redis.Redis, client: redis.Redis, server: Server, prefix: str, command: str
) -> None:
    client.execute_command("ACL", "SETUSER", "beat", "reset", "on", ">secret", "~*", "&*", "+@all")
    url = f"redis://beat:secret@{LOOPBACK}:{server.port}/0"
    try:
        with scripts_by_the_clock_at(client, f"{prefix}clock"):
            site = RunSite(
                make_app(**TRACKED, redisbeater_redis_url=url), client, ServerClock(client, f"{prefix}clock")
            )
            for name in ("report", "other"):
                site.create(name)
                site.send(f"first-{name}", name)
            site.send("waiting", "other", state=State.BUFFERED)
            site.start("first-other", name="other")
            site.finish("first-other", name="other")
            site.clock.go_on(QUEUE + 1)
            site.lose_overdue(requeue_in=0)

            for right in (f"-{command}", f"-{command}", "+@all"):
                send_again(site, right)
    finally:
        client.execute_command("ACL", "DELUSER", "beat")

    assert sorted(broker.lrange("q", 0, -1)) == ["first-report", "waiting"]


def send_again(site: RunSite, right: str) -> None:
    """Send what is due to be sent again, with one right more or less for its commit, until its lease has ended."""
    claim, taken = site.claim(), site.runs.take(token="", taken="taken")
    messages = {run.id: ("taken", [("RPUSH", "q", run.id)]) for run in taken}
    site.client.execute_command("ACL", "SETUSER", "beat", right)
    with suppress(StoreError):
        site.store.commit(claim, (), taken, messages=messages, proof=PROOF)
    site.client.execute_command("ACL", "SETUSER", "beat", "+@all")
    site.clock.go_on(LEASE)
