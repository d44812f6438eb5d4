"""Sentry and OpenTelemetry around beat, as the documentation says: real beats and workers, with both packages.

Each instrument is run once, in a process of its own, because both patch Celery; the tests look at what it has seen.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest
from support.pages import block_with
from support.servers import Server
from support.waiting import wait_until

#: Which Redis the schedule is in makes no difference here.
pytestmark = pytest.mark.processes

#: An app with entries that are due, the beat that sends them and the worker that executes them, in one process. The
#: broker refuses the first try of one of them; beat does not know the task of another.
SITE = """
    import json, logging, os, sys, threading, time
    from datetime import datetime
    import redis
    from celery import Celery
    from celery.beat import Service
    from celery.contrib.testing.worker import start_worker
    from celery.schedules import crontab
    from celery.signals import before_task_publish
    from redisbeater import RedisScheduleEntry, RedisScheduler, ScheduleStore, rrule
    from redisbeater.context import Context

    app = Celery("proj", broker="memory://", backend="cache+memory://")
    app.conf.update(
        redisbeater_redis_url=sys.argv[1], redisbeater_key_prefix=sys.argv[2],
        redisbeater_lock_key=None, result_expires=None, timezone="Europe/Vienna",
    )
    nightly, known = crontab(hour=3, minute=7), "proj.work"
    entries = {
        "refused at first": (nightly, known, None),
        "zoned": (nightly, known, "America/New_York"),
        "unknown": (nightly, "proj.elsewhere", None),
        "another": (nightly, known, None),
        "every 5 minutes": (300.0, known, None),
        "every 90 seconds": (90.0, known, None),
        "poll something": (10.0, known, None),
        "rule": (rrule("DAILY", dtstart=datetime(2026, 1, 1, 3)), known, None),
    }
    seen = {"published": [], "executed": []}
    refused = []

    class Producer(app.amqp.Producer):
        def publish(self, body, headers, **options):
            if headers["periodic_task_name"] == "refused at first" and not refused:
                refused.append(headers)
                raise OSError("refused")
            return super().publish(body, headers=headers, **options)

    class Beat(RedisScheduler):
        def __init__(self, app, **options):
            super().__init__(app, Producer=Producer, **options)

    @app.task(name="proj.work", bind=True)
    def work(self):
        seen["executed"].append(self.request.id)

    def record(headers, **_):
        seen["published"].append({"name": headers["periodic_task_name"], "id": headers["id"]})

    def is_done():
        executed = {each["name"] for each in seen["published"] if each["id"] in seen["executed"]}
        return len(executed) == len(entries) - 1

    def run_due():
        before_task_publish.connect(record)
        client = redis.Redis.from_url(sys.argv[1])
        for name, (schedule, task, zone) in entries.items():
            RedisScheduleEntry(name, task, schedule, timezone=zone, app=app).save()
            client.zadd(f"{sys.argv[2]}:schedule", {f"{sys.argv[2]}{name}": 1})
        service = Service(app, scheduler_cls=Beat)
        threading.Thread(target=stop, args=(service,), daemon=True).start()
        with start_worker(app, pool="solo", perform_ping_check=False, shutdown_timeout=30):
            service.start()
        seen["stored options"] = [entry.options for entry in ScheduleStore(app).list().entries]
        print(json.dumps(seen))

    def stop(service):
        deadline = time.monotonic() + 60
        while not is_done() and time.monotonic() < deadline:
            time.sleep(0.01)
        pause()
        service.stop()

    def pause(): ...
"""

SENTRY = """
    import sentry_sdk
    from sentry_sdk.transport import Transport

    seen.update(check_ins=[], warnings=[], logged=[])

    class Collector(Transport):
        def capture_envelope(self, envelope):
            for item in envelope.items:
                if item.headers["type"] == "check_in":
                    seen["check_ins"].append(item.payload.json)

    class Handler(logging.Handler):
        def emit(self, record):
            seen["logged"].append(record.getMessage())

    def note(record):
        seen["warnings"].append(record.getMessage())
        return True

    logger = logging.getLogger("sentry_sdk.errors")
    logger.addFilter(note)
    logger.addHandler(Handler())
    exec(sys.argv[3])
    exec(sys.argv[4])
    client = sentry_sdk.get_client()
    client.transport = Collector()
    client.options.update(debug=True, traces_sample_rate=1.0)

    def trace(headers, **_):
        seen["published"][-1]["trace"] = headers["sentry-trace"].partition("-")[0]

    def pause():
        stored = Context.of(app).redis.pause  # as another process would, without the signals of this one
        stored.begin("{}", None)
        muted.wait(10)
        stored.end()
        heard.wait(10)

    muted, heard = threading.Event(), threading.Event()
    plain = mute

    def mute(names, is_muted):
        plain(names, is_muted)
        (muted if is_muted else heard).set()

    before_task_publish.connect(record)
    before_task_publish.connect(trace)
    run_due()
"""

OPENTELEMETRY = """
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    spans = InMemorySpanExporter()
    trace.set_tracer_provider(TracerProvider())
    trace.get_tracer_provider().add_span_processor(SimpleSpanProcessor(spans))
    exec(sys.argv[3])

    def note_trace(headers, **_):
        seen["published"][-1]["trace"] = headers["traceparent"].split("-")[1]

    def pause():
        seen["spans"] = [
            {
                "kind": span.kind.name, "id": f"{span.context.span_id:x}", "trace": f"{span.context.trace_id:032x}",
                "parent": span.parent and f"{span.parent.span_id:x}", "attributes": dict(span.attributes),
            }
            for span in spans.get_finished_spans()
        ]

    @beat_init.connect(weak=False)
    def after_instrument(**_):
        before_task_publish.connect(record)
        before_task_publish.connect(note_trace, weak=False)

    run_due()
    assert not trace.get_current_span().get_span_context().is_valid
"""


class Monitors(BaseHTTPRequestHandler):
    """Sentry's API of monitors, as far as it is asked here."""

    asked: ClassVar[list[tuple[str, str, Any]]] = []

    def do_PUT(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.asked.append((self.path, self.headers["Authorization"], body))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None: ...


@contextmanager
def monitors() -> Iterator[str]:
    """Serve the API of monitors, and yield its address."""
    Monitors.asked.clear()
    with ThreadingHTTPServer(("127.0.0.1", 0), Monitors) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/monitors"
        server.shutdown()


def seen_by(instrument: str, server: Server, folder: Path, *blocks: str, **environment: str) -> Any:
    """Run beat and a worker with an instrument and with code of the documentation; return what was seen."""
    script = folder / "beat.py"
    script.write_text(textwrap.dedent(SITE) + textwrap.dedent(instrument))
    prefix = f"{folder.name}:"
    try:
        beat = subprocess.run(
            [sys.executable, str(script), server.url(0), prefix, *blocks],
            capture_output=True,
            text=True,
            timeout=100,
            env={**os.environ, "SENTRY_DSN": "https://key@localhost/1", **environment},
        )
    finally:
        client = server.client(0)
        for key in client.scan_iter(f"{prefix}*"):
            client.delete(key)
    assert beat.returncode == 0, beat.stderr
    return json.loads(beat.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def sentry(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("sentry")
    blocks = [block_with("signals.rst", text) for text in ("CeleryIntegration(", "SENTRY_AUTH_TOKEN")]
    with monitors() as url:
        seen = seen_by(SENTRY, server, folder, *blocks, SENTRY_MONITORS=url, SENTRY_AUTH_TOKEN="secret")
        wait_until(lambda: len(Monitors.asked) >= 2, "the monitors")
    return {**seen, "muted": list(Monitors.asked)}


@pytest.fixture(scope="module")
def opentelemetry(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("opentelemetry")
    return seen_by(OPENTELEMETRY, server, folder, block_with("signals.rst", "CeleryInstrumentor"))


def check_ins(seen: Any, name: str, status: str = "in_progress") -> list[dict[str, Any]]:
    return [each for each in seen["check_ins"] if (each["monitor_slug"], each["status"]) == (name, status)]


# Sentry


def test_the_monitor_of_sentry_has_the_zone_and_the_schedule_of_its_entry(sentry: Any) -> None:
    configs = {each["monitor_slug"]: each["monitor_config"] for each in sentry["check_ins"]}

    assert {name: config["timezone"] for name, config in configs.items()} == {
        "refused at first": "Europe/Vienna",
        "zoned": "America/New_York",
        "unknown": "Europe/Vienna",
        "another": "Europe/Vienna",
        "every 5 minutes": "Europe/Vienna",
    }
    assert configs["zoned"]["schedule"] == {"type": "crontab", "value": "7 3 * * *"}
    assert configs["every 5 minutes"]["schedule"] == {"type": "interval", "value": 5, "unit": "minute"}


def test_the_worker_closes_the_check_in_that_beat_has_opened(sentry: Any) -> None:
    for name in ("zoned", "another", "every 5 minutes"):
        [opened], [closed] = check_ins(sentry, name), check_ins(sentry, name, "ok")
        assert opened["check_in_id"] == closed["check_in_id"]
        assert closed["duration"] >= 0


def test_each_run_is_a_trace_of_its_own(sentry: Any) -> None:
    traces = [each["trace"] for each in sentry["published"]]

    assert len(traces) == len(set(traces)) >= 8


def test_what_sentry_adds_to_a_run_is_not_stored_with_its_entry(sentry: Any) -> None:
    assert sentry["stored options"] == [{}] * 8


def test_a_refused_run_has_a_second_check_in_and_the_worker_closes_that_one(sentry: Any) -> None:
    first, second = check_ins(sentry, "refused at first")
    [closed] = check_ins(sentry, "refused at first", "ok")

    assert first["check_in_id"] != second["check_in_id"] == closed["check_in_id"]


def test_what_sentry_cannot_monitor_is_sent_without_a_check_in(sentry: Any) -> None:
    published = {each["name"] for each in sentry["published"]}

    assert {"every 90 seconds", "poll something", "rule"} <= published
    assert not {each["monitor_slug"] for each in sentry["check_ins"]} & {"every 90 seconds", "poll something", "rule"}


def test_the_filter_drops_what_the_sdk_logs_about_schedules_it_cannot_monitor(sentry: Any) -> None:
    warnings = [text for text in sentry["warnings"] if "Sentry Crons" in text]

    assert any("'every 90 seconds'" in text for text in warnings)
    assert any("rrule" in text for text in warnings)
    assert not any("poll something" in text for text in warnings)
    assert sentry["logged"]
    assert not any("Sentry Crons" in text for text in sentry["logged"])


def test_a_pause_mutes_the_monitors_until_the_schedule_is_resumed(sentry: Any) -> None:
    asked = [(path, body["is_muted"]) for path, _, body in sentry["muted"]]

    assert ("/monitors/every-5-minutes/", True) in asked[:8]
    assert ("/monitors/every-5-minutes/", False) in asked[8:]
    assert {token for _, token, _ in sentry["muted"]} == {"Bearer secret"}
    assert [is_muted for _, is_muted in asked] == [True] * 8 + [False] * 8


# OpenTelemetry


def spans_of(seen: Any, name: str, kind: str) -> list[dict[str, Any]]:
    ids = {each["id"] for each in seen["published"] if each["name"] == name}
    return [
        span for span in seen["spans"] if span["kind"] == kind and span["attributes"].get("messaging.message.id") in ids
    ]


def test_the_span_of_the_worker_has_that_of_beat_as_its_parent_and_both_the_id_of_the_run(opentelemetry: Any) -> None:
    for name in ("zoned", "another", "every 90 seconds", "rule"):
        [producer] = spans_of(opentelemetry, name, "PRODUCER")
        [consumer] = spans_of(opentelemetry, name, "CONSUMER")
        assert (consumer["parent"], consumer["trace"]) == (producer["id"], producer["trace"])
        assert producer["attributes"]["messaging.message.id"] in opentelemetry["executed"]


def test_neither_a_refused_run_nor_an_unknown_task_is_the_parent_of_another_run(opentelemetry: Any) -> None:
    published = opentelemetry["published"]
    producers = [span for span in opentelemetry["spans"] if span["kind"] == "PRODUCER"]

    assert {"refused at first", "unknown"} <= {each["name"] for each in published}
    assert {span["parent"] for span in producers} == {None}
    assert len({each["trace"] for each in published}) == len(published) >= 9


def test_the_span_of_an_unknown_task_and_of_each_try_of_a_refused_run_is_exported(opentelemetry: Any) -> None:
    refused = [each["trace"] for each in opentelemetry["published"] if each["name"] == "refused at first"]
    [unknown] = [each["trace"] for each in opentelemetry["published"] if each["name"] == "unknown"]

    assert sorted(span["trace"] for span in spans_of(opentelemetry, "refused at first", "PRODUCER")) == sorted(refused)
    assert [span["trace"] for span in spans_of(opentelemetry, "unknown", "PRODUCER")] == [unknown]
    assert len(refused) == 2


def test_the_receiver_says_which_entry_and_which_fire_time_a_message_is_for(opentelemetry: Any) -> None:
    [span] = spans_of(opentelemetry, "zoned", "PRODUCER")
    attributes = span["attributes"]

    assert (attributes["redisbeater.entry"], attributes["faas.trigger"]) == ("zoned", "timer")
    assert attributes["redisbeater.fire_time"] == attributes["faas.time"]
    assert attributes["faas.time"].endswith("+00:00")
