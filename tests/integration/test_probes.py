"""``/live`` and ``/health``: what a probe is answered about a beat in each of its roles, and in each trouble."""

from __future__ import annotations

import json
import re
import socket
import socketserver
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis
from celery import Celery
from due import save_due
from outbox import names, take
from support.ping_service import served
from support.ports import free_port, listen
from support.proxy import Proxy
from support.scrape import Reply, get
from support.servers import Server
from support.waiting import wait_until

from redisbeater import RedisScheduler, ScheduleStore
from redisbeater.broker.broker import LONGEST_RETRY_SECONDS
from redisbeater.context import Context
from redisbeater.exceptions import ImproperlyConfigured
from redisbeater.observe import server
from redisbeater.observe.server import MOST_CLIENTS
from redisbeater.sending import counts

MakeApp = Callable[..., Celery]
MakeScheduler = Callable[..., RedisScheduler]
Pass = Callable[[float], None]


class Probed:
    """A beat that is driven by hand, and its port."""

    def __init__(self, scheduler: RedisScheduler, port: int) -> None:
        self.scheduler = scheduler
        self._port = port
        scheduler.serve(is_embedded=False)
        scheduler.is_served = False  # its ticks wait for nothing

    def ask(self, path: str) -> Reply:
        return get(self._port, path)

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self._port), timeout=4)

    def checks(self, query: str = "") -> dict[str, str]:
        """The checks that failed."""
        found = json.loads(self.ask(f"/health?format=json&{query}").text)["checks"]
        return {check: problem for check, problem in found.items() if problem != "ok"}


@pytest.fixture
def probe(make_app: MakeApp, make_scheduler: MakeScheduler) -> Callable[..., Probed]:
    def make(**settings: Any) -> Probed:
        port = free_port()
        return Probed(make_scheduler(make_app(redisbeater_http=f"127.0.0.1:{port}", **settings)), port)

    return make


@pytest.fixture
def probed(probe: Callable[..., Probed]) -> Probed:
    """A beat that leads."""
    probed = probe()
    probed.scheduler.tick()
    return probed


# Each role


def test_a_leader_is_alive_and_healthy(probed: Probed) -> None:
    live, health = probed.ask("/live"), probed.ask("/health")

    assert (live.status, live.text.startswith("ok: last pass 0."), live.text[-1]) == (200, True, "\n")
    assert health.status == 200
    assert health.text.startswith("ok: last pass 0.")
    assert health.text.endswith(", nothing late\n")


def test_a_standby_is_alive_and_healthy_and_says_what_it_is(probed: Probed, probe: Callable[..., Probed]) -> None:
    standby = probe()
    standby.scheduler.tick()

    assert standby.ask("/live").status == 200
    assert standby.ask("/health").status == 200
    assert standby.ask("/health").text.startswith("ok: standby, last pass ")


def test_a_beat_without_a_lock_is_healthy(probe: Callable[..., Probed]) -> None:
    active = probe(redisbeater_lock_key=None)
    active.scheduler.tick()

    assert active.ask("/health").text.startswith("ok: active, last pass ")


def test_a_paused_schedule_is_healthy_however_late_its_entries_are(probed: Probed) -> None:
    app = probed.scheduler.app
    save_due(app, "report", late=600)
    ScheduleStore(app).pause()
    probed.scheduler.tick()

    health = probed.ask("/health")

    assert (health.status, "paused" in health.text) == (200, True)


def test_a_beat_that_is_part_of_a_worker_answers_too(probe: Callable[..., Probed]) -> None:
    embedded = probe()
    embedded.scheduler.is_embedded = True
    tick = threading.Thread(target=embedded.scheduler.tick)
    tick.start()
    wait_until(lambda: embedded.checks() == {}, "a healthy answer")

    assert embedded.ask("/live").status == 200
    tick.join()  # what it writes later would be found by the next test


# Each trouble


def test_a_beat_that_hangs_is_not_alive(probed: Probed, let_pass: Pass) -> None:
    let_pass(31)

    assert probed.ask("/live") == Reply(503, "unhealthy: no pass for 31 s (limit 30 s)\n")
    assert probed.checks() == {"pass": "no pass for 31 s (limit 30 s)"}


def test_a_long_interval_between_claims_is_no_trouble(probe: Callable[..., Probed], let_pass: Pass) -> None:
    slow = probe(beat_max_loop_interval=60)
    slow.scheduler.tick()
    let_pass(120)

    assert slow.ask("/live").status == 200


def test_an_entry_that_is_late_is_unhealthy_but_beat_is_alive(probed: Probed) -> None:
    save_due(probed.scheduler.app, "report", late=78)

    assert re.fullmatch(r"1 entry late, oldest \d+ s \(limit 1 min\)", probed.checks()["late"])
    assert list(probed.checks()) == ["late"]
    assert probed.ask("/live").status == 200


def test_nobody_who_leads_is_unhealthy_once_a_lock_would_have_expired(
    probe: Callable[..., Probed], client: redis.Redis, prefix: str, let_pass: Pass
) -> None:
    probed = probe(redisbeater_lock_timeout=1)
    probed.scheduler.tick()
    for _ in range(2):  # the second time counts from its own beginning
        client.delete(f"{prefix}:lock", f"{prefix}:beats")
        assert probed.checks() == {}  # another beat may be about to take the lock

        let_pass(7)
        assert probed.checks() == {"lead": "no leader"}

        probed.scheduler.tick()
        assert probed.checks() == {}


@pytest.fixture
def broker(server: Server) -> Iterator[Proxy]:
    """A way to a broker, which may be closed."""
    with Proxy(server.port) as proxy:
        yield proxy


@pytest.fixture
def probe_without_broker(probe: Callable[..., Probed], broker: Proxy) -> Callable[..., Probed]:
    """Make a beat that leads, and whose broker has just gone away."""

    def make(**settings: Any) -> Probed:
        probed = probe(broker_url=f"redis://127.0.0.1:{broker.port}/1", **settings)
        save_due(probed.scheduler.app, "report")
        broker.refuse()
        probed.scheduler.tick()
        ScheduleStore(probed.scheduler.app).delete("report")  # it would be late before long
        return probed

    return make


def test_a_broker_that_is_away_is_unhealthy_after_a_minute_and_beat_stays_alive(
    probe_without_broker: Callable[..., Probed], let_pass: Pass
) -> None:
    probed = probe_without_broker()
    assert probed.checks() == {}

    let_pass(61)
    probed.scheduler.tick()
    assert list(probed.checks()) == ["broker"]
    assert probed.ask("/live").status == 200


def test_a_beat_that_lost_the_lead_while_the_broker_was_away_learns_that_it_is_back(
    probe_without_broker: Callable[..., Probed], broker: Proxy, client: redis.Redis, prefix: str, let_pass: Pass
) -> None:
    probed = probe_without_broker(redisbeater_lock_lost="standby")
    client.set(f"{prefix}:lock", "web9:1:other", px=60_000)
    let_pass(61)
    probed.scheduler.tick()
    assert list(probed.checks()) == ["broker"]

    broker.heal()
    let_pass(LONGEST_RETRY_SECONDS)
    probed.scheduler.tick()

    assert probed.checks() == {}
    assert probed.ask("/health").text.startswith("ok: standby, ")
    assert f'redisbeater_broker_up{{schedule="{prefix}"}} 1.0' in probed.ask("/metrics").text


@pytest.mark.parametrize("trouble", ["away", "hangs"])
def test_a_redis_that_does_not_answer_is_unhealthy_within_seconds_and_beat_stays_alive(
    probe: Callable[..., Probed], server: Server, trouble: str
) -> None:
    with Proxy(server.port) as proxy:
        probed = probe(redisbeater_redis_url=f"redis://127.0.0.1:{proxy.port}/0")
        probed.scheduler.tick()
        proxy.refuse() if trouble == "away" else proxy.swallow()
        began_at = time.monotonic()

        health = probed.ask("/health")

        assert health.status == 503
        assert "Redis" in health.text
        assert time.monotonic() - began_at < 10
        assert probed.ask("/live").status == 200
        proxy.heal()


def test_a_probe_of_life_does_not_wait_for_one_of_health(probe: Callable[..., Probed], server: Server) -> None:
    with Proxy(server.port) as proxy:
        probed = probe(redisbeater_redis_url=f"redis://127.0.0.1:{proxy.port}/0")
        probed.scheduler.tick()
        proxy.swallow()
        answers: list[Reply] = []
        waiting = threading.Thread(target=lambda: answers.append(probed.ask("/health")))
        waiting.start()

        live = probed.ask("/live")

        assert (live.status, answers) == (200, [])
        waiting.join()
        assert answers[0] == Reply(503, "unhealthy: no answer from Redis within 2 s\n")
        proxy.heal()


def test_broken_and_failing_entries_are_unhealthy_to_the_strict_alone(
    probed: Probed, client: redis.Redis, prefix: str, let_pass: Callable[[float], None]
) -> None:
    client.hset(f"{prefix}odd", "definition", "{")
    client.zadd(f"{prefix}:schedule", {f"{prefix}odd": 0})
    probed.scheduler.tick()
    let_pass(6)
    probed.scheduler.tick()  # looks once more

    assert probed.checks() == {}
    assert probed.checks("strict=1") == {"entries": "1 broken: odd"}


def test_entries_that_failed_are_unhealthy_to_the_strict_alone_up_to_the_number_that_is_asked_for(
    probe: Callable[..., Probed], client: redis.Redis, prefix: str
) -> None:
    probed = probe(redisbeater_track_runs=True)
    for at, name in enumerate("abcdef"):
        ScheduleStore(probed.scheduler.app).create(name, "proj.report", 3600.0)
        client.hset(f"{prefix}{name}", "ends", f"F {at + 1}")
        client.zadd(f"{prefix}:failed", {f"{prefix}{name}": at + 1})
    probed.scheduler.tick()

    assert probed.checks() == {}
    assert probed.checks("strict=1") == {"results": "6 failed: f, e, d, c, b and 1 more"}
    assert probed.checks("strict=1&max_failed=6") == {}
    ScheduleStore(probed.scheduler.app).incidents.acknowledge(
        ScheduleStore(probed.scheduler.app).incidents.list("f")[0].id
    )
    assert probed.checks("strict=1&max_failed=5") == {}
    assert probed.checks("strict=1&max_failed=no") == {"results": "5 failed: e, d, c, b, a"}


def test_where_no_beat_looks_for_incidents_the_strict_says_what_is_listed(
    make_app: MakeApp, client: redis.Redis, prefix: str
) -> None:
    store = ScheduleStore(make_app(redisbeater_track_runs=True))
    store.create("feed", "proj.report", 3600.0)
    client.zadd(f"{prefix}:failed", {f"{prefix}feed": 1})
    client.hset(f"{prefix}:broken", "odd", "{}")

    assert store.health(strict=True).problems[-2:] == ("1 broken", "1 failed: feed")


# The ping


def test_the_beat_that_leads_pings_while_all_is_well_and_says_once_when_it_is_not(
    make_app: MakeApp, make_scheduler: MakeScheduler
) -> None:
    with served() as service:
        app = make_app(redisbeater_ping_url=service.url, redisbeater_ping_interval=1)
        scheduler, standby = make_scheduler(app), make_scheduler(app)
        scheduler.tick()
        standby.tick()
        for beat in (scheduler, standby):
            beat.serve(is_embedded=False)
        wait_until(lambda: service.asked, "a ping")
        save_due(app, "report", late=78)
        wait_until(lambda: len(service.asked) > 1, "a failure")

    asked = [(method, path, re.sub(r"\d+ s ", "78 s ", text)) for method, path, text in service.asked]
    assert asked == [
        ("GET", "/ping/secret", ""),
        ("POST", "/ping/secret/fail", "unhealthy: 1 entry late, oldest 78 s (limit 1 min)"),
    ]


# The server


def test_a_port_that_is_taken_costs_one_error_until_it_is_free_and_beat_goes_on(
    make_app: MakeApp, make_scheduler: MakeScheduler, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "TRY_SECONDS", 0.01)
    with listen() as taken:
        port, tries = taken.getsockname()[1], count_calls(monkeypatch, socketserver.TCPServer, "server_bind")
        app = make_app(redisbeater_http=f"127.0.0.1:{port}")
        save_due(app, "report")
        scheduler = make_scheduler(app)
        scheduler.serve(is_embedded=False)
        scheduler.tick()
        wait_until(lambda: len(tries) > 3, "further tries")

    assert wait_until(lambda: is_served(port), "the port to be served")
    errors = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert len(errors) == 1
    assert errors[0].startswith("cannot serve probes and metrics at redisbeater_http = '127.0.0.1:")
    assert names(take(app)) == ["report"]


def test_a_port_that_stays_taken_is_not_tried_again_by_a_beat_that_has_ended(
    make_app: MakeApp, make_scheduler: MakeScheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "TRY_SECONDS", 0.01)
    with listen() as taken:
        scheduler = make_scheduler(make_app(redisbeater_http=f"127.0.0.1:{taken.getsockname()[1]}"))
        scheduler.serve(is_embedded=False)
        scheduler.close()

        is_over = lambda: "redisbeater-http-again" not in {thread.name for thread in threading.enumerate()}  # noqa: E731
        assert wait_until(is_over, "the end of the tries")


def count_calls(monkeypatch: pytest.MonkeyPatch, owner: type, name: str) -> list[object]:
    """Count the calls of a method."""
    calls, method = list[object](), getattr(owner, name)
    monkeypatch.setattr(owner, name, lambda self: (calls.append(self), method(self))[1])
    return calls


def is_served(port: int) -> bool:
    """Return whether a beat answers at a port."""
    try:
        return get(port, "/live").status == 200
    except OSError:
        return False


def test_the_port_is_free_when_beat_has_ended(probed: Probed) -> None:
    probed.ask("/live")
    probed.scheduler.close()

    def is_closed() -> bool:
        try:
            probed.ask("/live")
        except OSError:
            return True
        return False

    assert wait_until(is_closed, "the port to be free")


def test_nothing_is_served_without_the_setting(
    app: Celery, make_scheduler: MakeScheduler, caplog: pytest.LogCaptureFixture
) -> None:
    before = threading.active_count()
    make_scheduler(app).serve(is_embedded=False)

    assert threading.active_count() == before
    assert type(counts.counts_for(Context.of(app).config)) is counts.Counts


def test_other_paths_are_not_found_and_other_methods_not_implemented(probed: Probed) -> None:
    assert probed.ask("/").status == 404
    assert probed.ask("/live/../../etc/passwd").status == 404


def test_what_is_no_address_of_a_page_is_answered_as_a_bad_request(probed: Probed) -> None:
    with probed.connect() as client:
        client.sendall(b"GET http://[ HTTP/1.0\r\n\r\n")

        assert client.recv(100).startswith(b"HTTP/1.0 400 ")


def test_clients_that_never_end_their_requests_do_not_use_up_the_connections(probed: Probed) -> None:
    clients = [probed.connect() for _ in range(MOST_CLIENTS)]
    for client in clients:
        client.sendall(b"GET /li")
    last_is_healthy = probed.ask("/health").status == 200

    assert clients[0].recv(100) == b""
    clients[-1].sendall(b"ve HTTP/1.0\r\n\r\n")
    assert (clients[-1].recv(100)[:12], last_is_healthy) == (b"HTTP/1.0 200", True)
    for client in clients:
        client.close()


def test_without_the_package_metrics_say_what_to_install(
    probe: Callable[..., Probed], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counts, "find_spec", lambda name: None)
    probed = probe()
    probed.scheduler.tick()

    advice = "no metrics: pip install 'redisbeater[metrics]' where beat runs, and start beat again\n"
    assert probed.ask("/metrics") == Reply(501, advice)
    assert probed.ask("/health").status == 200


def test_all_addresses_answer_when_no_host_is_named(make_app: MakeApp, make_scheduler: MakeScheduler) -> None:
    port = free_port()
    probed = Probed(make_scheduler(make_app(redisbeater_http=f":{port}")), port)

    assert probed.ask("/live").status == 200


@pytest.mark.parametrize(
    ("bound", "host", "status"),
    [
        ("127.0.0.1", "127.0.0.1:9808", 200),
        ("127.0.0.1", "localhost:9808", 200),
        ("127.0.0.1", "10.1.2.3:9808", 200),  # Kubernetes names a pod by its address
        ("127.0.0.1", "[::1]", 200),
        ("127.0.0.1", "", 200),  # a probe of HTTP/1.0
        ("127.0.0.1", "evil.example:9808", 400),  # a rebound name: a page in a browser reads what only this host may
        ("127.0.0.1", "[::1].evil.example", 400),
        ("localhost", "localhost:9808", 200),
        ("localhost", "evil.example", 400),
        ("", "beat.example:9808", 200),  # Prometheus asks by name
    ],
)
def test_on_loopback_no_other_name_is_served(
    make_app: MakeApp, make_scheduler: MakeScheduler, bound: str, host: str, status: int
) -> None:
    port = free_port()
    scheduler = make_scheduler(make_app(redisbeater_http=f"{bound}:{port}"))
    Probed(scheduler, port).scheduler.tick()

    assert get(port, "/live", host).status == status
    assert get(port, "/nothing", host).status == (404 if status == 200 else status)


@pytest.mark.parametrize("address", ["9808", "host", ":", ":0", ":99999", "http://host:9808", 9808, "::1:9808", ""])
def test_what_is_no_address_is_refused(make_app: MakeApp, address: object) -> None:
    with pytest.raises(ImproperlyConfigured, match=r"^redisbeater_http = .*: expected a text such as '127.0.0.1:9808'"):
        ScheduleStore(make_app(redisbeater_http=address)).count()
