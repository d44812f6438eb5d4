"""Sentry and OpenTelemetry see every run of a burst whose messages beat could make itself: they keep Celery's way."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap

import kombu
import pytest
from support.servers import Server

#: Each instrument patches Celery for its whole process. Which Redis the schedule is in makes no difference here.
pytestmark = [
    pytest.mark.processes,
    pytest.mark.skipif(not hasattr(kombu.Producer, "batch"), reason="this kombu sends each message at once"),
]

BROKER_DB = 1

#: A beat of an application, and an instrument that begins when beat has made messages itself.
SITE = """
    import json, sys
    from datetime import datetime, timedelta, timezone
    import redis
    from celery import Celery
    from celery.schedules import crontab
    from redisbeater import RedisScheduleEntry, RedisScheduler

    app = Celery("proj", broker=sys.argv[2], set_as_current=True)
    app.conf.update(redisbeater_redis_url=sys.argv[1], redisbeater_key_prefix=sys.argv[3], result_expires=None)

    @app.task(name="proj.work")
    def work(*args): ...

    app.finalize()
    scheduler, broker, saved = RedisScheduler(app), redis.Redis.from_url(sys.argv[2]), []
    broker.flushdb()

    def send(number):
        for _ in range(number):
            saved.append(f"entry-{len(saved)}")
            before = datetime.now(timezone.utc) - timedelta(days=1, seconds=1)
            RedisScheduleEntry(saved[-1], "proj.work", 86400.0, app=app, last_run_at=before).save()
        while not scheduler.tick():
            pass
        messages = [json.loads(text) for text in broker.lrange("celery", 0, -1)]
        broker.delete("celery")
        return messages

    def heads(messages):
        return len({each["properties"]["delivery_tag"][:24] for each in messages})

    send(8), send(8)
    assert heads(send(20)) < 20, "beat makes none itself"
"""

SENTRY = """
    import sentry_sdk
    from sentry_sdk.integrations.celery import CeleryIntegration
    from sentry_sdk.transport import Transport

    class Nowhere(Transport):
        def capture_envelope(self, envelope): ...

    sentry_sdk.init(
        "http://key@localhost:1/1", integrations=[CeleryIntegration(monitor_beat_tasks=True)], traces_sample_rate=1.0,
        transport=Nowhere,
    )
    messages = send(20)
    traced = sum("sentry-trace" in each["headers"] for each in messages)
    print(json.dumps([len(messages), traced, heads(messages)]))
"""

OPENTELEMETRY = """
    from opentelemetry import trace
    from opentelemetry.instrumentation.celery import CeleryInstrumentor
    from opentelemetry.sdk.trace import TracerProvider

    trace.set_tracer_provider(TracerProvider())
    CeleryInstrumentor().instrument()
    messages = send(20)
    traced = sum("traceparent" in each["headers"] for each in messages)
    print(json.dumps([len(messages), traced, heads(messages)]))
"""


@pytest.mark.parametrize("instrument", [SENTRY, OPENTELEMETRY], ids=["Sentry", "OpenTelemetry"])
def test_an_instrument_that_begins_while_beat_runs_sees_every_run(server: Server, prefix: str, instrument: str) -> None:
    script = textwrap.dedent(SITE) + textwrap.dedent(instrument)
    urls = server.url(0), server.url(BROKER_DB)

    done = subprocess.run([sys.executable, "-c", script, *urls, prefix], capture_output=True, text=True, timeout=120)

    assert done.returncode == 0, done.stderr[-3000:]
    assert json.loads(done.stdout) == [20, 20, 20]
