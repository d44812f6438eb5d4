"""Sentry and OpenTelemetry around beat, each as a user installs it, in a process of its own: both patch Celery."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
from servers import Server, programs

#: Which Redis the schedule is in makes no difference here.
pytestmark = pytest.mark.parametrize("server", programs()[:1] or [None], indirect=True, ids=["one-server"])

#: An app with three entries that are due, the first of which is refused, and the beat that sends them.
BEAT = """
    import json, sys
    import redis
    from celery import Celery
    from celery.schedules import crontab
    from celery.signals import before_task_publish
    from redisbeater import RedisScheduleEntry, RedisScheduler

    app = Celery("proj", broker="memory://")
    app.conf.update(
        redisbeater_redis_url=sys.argv[1], redisbeater_key_prefix=sys.argv[2],
        redisbeater_lock_key=None, result_expires=None, timezone="Europe/Vienna",
    )
    seen = {}
    zones = {"a refused one": None, "a zoned one": "America/New_York", "another": None}

    class Producer(app.amqp.Producer):
        def publish(self, body, headers, **options):
            if headers["periodic_task_name"] == "a refused one":
                raise OSError("refused")
            return super().publish(body, headers=headers, **options)

    @app.task(name="proj.work")
    def work(): ...

    def run_due():
        scheduler = RedisScheduler(app, Producer=Producer)
        for name, zone in zones.items():
            RedisScheduleEntry(name, "proj.work", crontab(hour=3, minute=7), timezone=zone, app=app).save()
            client = redis.Redis.from_url(sys.argv[1])
            client.zadd(f"{sys.argv[2]}:schedule", {f"{sys.argv[2]}{name}": 1})
        while not scheduler.tick():
            pass
        scheduler.close()
        print(json.dumps(seen))
"""

SENTRY = """
    import sentry_sdk
    from sentry_sdk.integrations.celery import CeleryIntegration
    from sentry_sdk.transport import Transport

    class Collector(Transport):
        def capture_envelope(self, envelope):
            for item in envelope.items:
                if item.headers["type"] == "check_in":
                    check_in = item.payload.json
                    seen.setdefault(check_in["monitor_slug"], {}).update(check_in)

    def record(headers, **_):
        seen[headers["periodic_task_name"]]["trace"] = headers["sentry-trace"].partition("-")[0]

    sentry_sdk.init(
        dsn="https://key@localhost/1", transport=Collector, traces_sample_rate=1.0,
        integrations=[CeleryIntegration(monitor_beat_tasks=True)],
    )
    before_task_publish.connect(record)
    run_due()
"""

OPENTELEMETRY = """
    from opentelemetry import trace
    from opentelemetry.instrumentation.celery import CeleryInstrumentor
    from opentelemetry.sdk.trace import TracerProvider

    def record(headers, **_):
        span = trace.get_current_span()
        seen[headers["periodic_task_name"]] = {
            "trace": f"{span.get_span_context().trace_id:032x}",
            "parent": span.parent and f"{span.parent.span_id:x}",
            "header": headers["traceparent"],
        }

    CeleryInstrumentor().instrument(tracer_provider=TracerProvider())
    before_task_publish.connect(record)
    run_due()
    assert not trace.get_current_span().get_span_context().is_valid
"""


def seen_by(instrument: str, server: Server, prefix: str, folder: Path) -> Any:
    """Run beat with an instrument, and return what that has seen."""
    script = folder / "beat.py"
    script.write_text(textwrap.dedent(BEAT) + textwrap.dedent(instrument))
    beat = subprocess.run(
        [sys.executable, str(script), server.url(0), prefix],
        capture_output=True,
        text=True,
        timeout=100,
        env={**os.environ, "SENTRY_DSN": ""},
    )
    assert beat.returncode == 0, beat.stderr
    return json.loads(beat.stdout)


@pytest.mark.usefixtures("client")
def test_the_monitor_of_sentry_has_the_zone_of_its_entry_and_each_run_is_a_trace(
    server: Server, prefix: str, tmp_path: Path
) -> None:
    seen = seen_by(SENTRY, server, prefix, tmp_path)

    assert {name: each["monitor_config"]["timezone"] for name, each in seen.items()} == {
        "a refused one": "Europe/Vienna",
        "a zoned one": "America/New_York",
        "another": "Europe/Vienna",
    }
    assert {each["monitor_config"]["schedule"]["value"] for each in seen.values()} == {"7 3 * * *"}
    assert {each["status"] for each in seen.values()} == {"in_progress"}
    assert len({each["trace"] for each in seen.values()}) == 3


@pytest.mark.usefixtures("client")
def test_a_run_that_is_refused_leaves_no_span_of_opentelemetry_to_the_next(
    server: Server, prefix: str, tmp_path: Path
) -> None:
    spans = seen_by(OPENTELEMETRY, server, prefix, tmp_path)

    assert {name: span["parent"] for name, span in spans.items()} == {
        "a refused one": None,
        "a zoned one": None,
        "another": None,
    }
    assert len({span["trace"] for span in spans.values()}) == 3
    assert all(span["trace"] in span["header"] for span in spans.values())
