"""The alerts that are shipped, on scrapes of a real beat: each fires when its fault happens, and none fires without."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from support import rule_test
from support.ports import free_port
from support.project import Project, wait_until_beats_have_looked
from support.rule_test import Scenario, Shown
from support.scrape import Samples, scrape
from support.servers import Server, programs, running, stop
from support.waiting import wait_until

from redisbeater import RedisScheduleEntry, ScheduleStore

ALERTS = Path(__file__).parents[2] / "docs" / "monitoring" / "alerts.yml"
PREFIX = "alerts:"

#: For how many minutes a pause lasts that somebody forgot.
HOURS = 5 * 60

#: A task without arguments; and what beat reads from Redis is not kept for a quarter of a minute.
SOURCE = """
import redisbeater.observe.metrics
redisbeater.observe.metrics.FRESH_SECONDS = 0.1

@app.task(name="proj.none")
def none(): ...
"""


#: The kinds of incidents that faults here leave behind for a moment.
KINDS = ("broken", "failed", "late", "not_sent", "waiting")


class Faults:
    """A beat with a Redis and a broker of its own, and what it shows in each trouble."""

    def __init__(self, folder: Path, servers: ExitStack) -> None:
        self._servers = servers
        self.redis, self.broker = (servers.enter_context(running(programs()[0])) for _ in range(2))
        self.port = free_port()
        self.project = Project(
            self.redis,
            PREFIX,
            folder,
            broker_url=self.broker.url(),
            redisbeater_http=f"127.0.0.1:{self.port}",
            redisbeater_lock_timeout=2,
            beat_max_loop_interval=0.2,
            redisbeater_track_runs=True,
            imports=["redisbeater.runs"],
        )
        servers.enter_context(self.project)
        self.project.add_source(SOURCE)
        self.store = ScheduleStore(self.project.app())
        self.client = self.redis.client()
        self.scenarios: list[Scenario] = []

    def start(self) -> None:
        self.beat = self.project.beat()
        self.beat.says("leading as")
        self.project.worker("--pool", "threads", "--concurrency", "1")
        self.store.create("fine", "proj.note", 0.2)
        self.healthy = self.shown(lambda found: (found.value("dispatched_total", task="proj.note") or 0) > 2)

    def shown(self, is_so: Callable[[Samples], bool], then: str = "pass_seconds_count", **labels: str) -> Shown:
        """Scrape until something is so, and until it still is so and a counter has grown since."""
        found: list[Samples] = []

        def has_come() -> bool:
            found.append(scrape(self.port))
            return is_so(found[-1])

        def has_grown() -> bool:
            found.append(scrape(self.port))
            return is_so(found[-1]) and (found[-1].value(then, **labels) or 0) > (first.value(then, **labels) or 0)

        wait_until(has_come, "the fault in a scrape")
        first, at = found[-1], time.time()
        wait_until(has_grown, f"{then} to grow")
        return Shown(first=first, second=found[-1], at=at)

    def fires(self, name: str, trouble: Shown | None, *alerts: str) -> None:
        lasts = HOURS if "PausedLong" in alerts else rule_test.TROUBLED
        self.scenarios.append(Scenario(name=name, healthy=self.healthy, trouble=trouble, alerts=alerts, lasts=lasts))

    def wait_until_incidents_are_over(self) -> None:
        """Wait until what the fault before has left is over: a beat looks every five seconds."""
        self.shown(lambda found: not any(found.value("incidents", kind=kind) for kind in KINDS))

    def save_late(self, name: str, task: str, args: list[int]) -> RedisScheduleEntry:
        """Store an entry that was due 90 seconds ago."""
        last = datetime.now(timezone.utc) - timedelta(seconds=3690)
        return RedisScheduleEntry(name, task, 3600, args=args, last_run_at=last, app=self.project.app()).save()

    def restart(self, server: Server) -> Server:
        return self._servers.enter_context(running(server.program, server.port))

    # The faults

    def break_an_entry(self) -> None:
        self.client.hset(f"{PREFIX}odd", "definition", "{")
        self.client.zadd(f"{PREFIX}:schedule", {f"{PREFIX}odd": 0})
        self.fires("broken entry", self.shown(lambda found: found.value("incidents", kind="broken") == 1), "Incident")
        self.store.delete("odd")

    def save_an_entry_that_cannot_be_sent(self) -> None:
        self.save_late("unsendable", "proj.none", [1])
        is_failing = self.shown(
            lambda found: found.value("incidents", kind="late") == 1, "refused_total", reason="error"
        )
        self.fires("entry that cannot be sent", is_failing, "Incident", "Refused")
        self.store.delete("unsendable")

    def damage_a_delay(self) -> None:
        self.client.hset(f"{PREFIX}:delays:messages", "odd", "{")
        self.client.zadd(f"{PREFIX}:delays", {"odd": 0})
        is_failing = self.shown(lambda found: found.value("delays", state="failing") == 1)
        self.fires("delay that cannot be sent", is_failing, "Delays")
        self.store.delays.cancel(["odd"])

    def list_a_failed_entry(self) -> None:
        self.store.create("bad", "proj.note", 3600)
        now = time.time()
        self.client.hset(f"{PREFIX}bad", "ends", f"F {now:.6f}")
        self.client.zadd(f"{PREFIX}:failed", {f"{PREFIX}bad": now})
        has_failed = self.shown(lambda found: found.value("incidents", kind="failed") == 1)
        self.fires("task that fails", has_failed, "Incident")
        self.store.delete("bad")

    def list_a_run_that_waits(self) -> None:
        run, sent_at = f"{PREFIX}:run:a", time.time() - 360
        self.client.hset(run, mapping={"name": "fine", "state": "SENT", "sent_at": f"{sent_at:.6f}"})
        self.client.zadd(f"{PREFIX}:waiting", {run: sent_at})
        self.client.sadd(f"{PREFIX}:active:fine", run)
        self.client.zadd(f"{PREFIX}:active", {run: sent_at + 3600})
        waits = self.shown(lambda found: found.value("incidents", kind="waiting") == 1)
        self.fires("run that nobody starts", waits, "Incident")
        self.client.zrem(f"{PREFIX}:waiting", run)
        self.client.zrem(f"{PREFIX}:active", run)

    def pause(self) -> None:
        self.store.pause()
        self.fires("paused", self.shown(lambda found: found.value("paused") == 1), "PausedLong")
        self.store.resume()

    def stop_the_broker(self) -> None:
        stop(self.broker.process)
        wait_until(lambda: scrape(self.port).value("broker_up") == 0, "the broker to be away")
        self.save_late("owed", "proj.note", [])
        is_late = self.shown(
            lambda found: found.value("incidents", kind="late") == 1, "refused_total", reason="broker_away"
        )
        self.fires("broker away", is_late, "Incident", "Refused")
        self.broker = self.restart(self.broker)
        wait_until(lambda: scrape(self.port).value("broker_up") == 1, "the broker to be back")

    def lose_the_schedule(self) -> None:
        wait_until_beats_have_looked(self.store, 1)
        self.client.flushdb()
        # Its lock was lost with the schedule, and this beat takes it again.
        is_lost = self.shown(
            lambda found: (found.value("incidents", kind="schedule_lost"), found.value("leader")) == (1, 1)
        )
        self.fires("schedule lost", is_lost, "Incident")

    def stop_redis(self) -> None:
        stop(self.redis.process)
        is_down = self.shown(lambda found: (found.value("leader"), found.value("redis_up")) == (0, 0))
        self.fires("Redis stopped", is_down, "NobodyLeads")

    def kill_beat(self) -> None:
        self.beat.kill()
        with pytest.raises(ConnectionRefusedError):
            scrape(self.port)
        self.fires("leader killed", None, "NoBeat")


@pytest.mark.needs("promtool")
def test_each_fault_fires_its_alerts_and_no_others(tmp_path: Path) -> None:
    with ExitStack() as servers:
        faults = Faults(tmp_path, servers)
        faults.start()
        faults.fires("nothing", faults.healthy)
        for fault in (
            faults.break_an_entry,
            faults.save_an_entry_that_cannot_be_sent,
            faults.damage_a_delay,
            faults.list_a_failed_entry,
            faults.list_a_run_that_waits,
            faults.pause,
            faults.stop_the_broker,
            faults.lose_the_schedule,
        ):
            faults.wait_until_incidents_are_over()
            fault()
        faults.stop_redis()
        faults.kill_beat()

    assert len(faults.scenarios) == 11
    assert rule_test.run(ALERTS, faults.scenarios, PREFIX, tmp_path) == ""
