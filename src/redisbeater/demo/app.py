"""The Celery app of the demo, which its beat and its worker load."""

from __future__ import annotations

import json
import os
import random
import time
from datetime import datetime, timezone
from typing import Any

from celery import Celery, shared_task
from celery.schedules import crontab

__all__ = ("EXECUTED", "LIVE_VARIABLE", "URL_VARIABLE", "app", "demo_app", "hello")

#: The environment variable with the URL of Redis, for beat and worker.
URL_VARIABLE = "REDISBEATER_DEMO_URL"

#: The environment variable that is set where the web page shows the demo: runs are recorded, and code declares entries.
LIVE_VARIABLE = "REDISBEATER_DEMO_LIVE"

#: How many of the calls of a bad neighbour fail.
REFUSED = 0.3

#: A line of the worker's output that reports a run begins with this text.
EXECUTED = "EXECUTED "


def demo_app(url: str) -> Celery:
    """Create an app with broker and schedule in one Redis, below separate keys."""
    created = Celery("demo", broker=url)
    created.conf.update(
        redisbeater_key_prefix="redisbeater-demo:",
        task_default_queue="redisbeater-demo",
        task_ignore_result=True,
        broker_connection_retry_on_startup=True,
        worker_redirect_stdouts=False,
    )
    if os.environ.get(LIVE_VARIABLE):
        created.conf.update(
            redisbeater_track_runs=True,
            redisbeater_application="shop",
            imports=["redisbeater.runs"],
            beat_schedule={
                "backup.nightly": {"task": ping.name, "schedule": crontab(hour="2", minute="30")},
                # What nobody can store: its arguments are no JSON.
                "backup.verify": {"task": ping.name, "schedule": 60.0, "kwargs": {"copy": object()}},
            },
        )
    return created


@shared_task(name="shop.import_rows")
def import_rows(source: str = "orders") -> int:
    """Take some tenths of a second."""
    time.sleep(random.uniform(0.02, 0.6))
    return random.randint(0, 400)


@shared_task(name="shop.call_api")
def call_api(currency: str = "USD") -> float:
    """Ask a service that often refuses."""
    time.sleep(random.uniform(0.1, 1.5))
    if random.random() < REFUSED:
        raise ConnectionError(f"rates.example.com refused {currency}: 503 Service Unavailable")
    return 1.17


@shared_task(name="shop.build")
def build() -> None:
    """Take longer than the interval of the entry that runs it."""
    time.sleep(14)


@shared_task(name="shop.ping")
def ping() -> str:
    """Return at once."""
    return "pong"


app = demo_app(os.environ.get(URL_VARIABLE, "redis://127.0.0.1:6379/0"))


@app.task(bind=True)
def hello(self: Any, greeting: str) -> None:
    """Print in one line which run this is and how late it is."""
    scheduled_for = datetime.fromisoformat(_header(self.request, "scheduled_for"))
    lateness = (datetime.now(timezone.utc) - scheduled_for).total_seconds()
    run = {
        "name": _header(self.request, "periodic_task_name"),
        "greeting": greeting,
        "scheduled_for": scheduled_for.isoformat(),
        "lateness": lateness,
        "id": self.request.id,
    }
    print(EXECUTED + json.dumps(run), flush=True)


def _header(request: Any, name: str) -> str:
    return (request.headers or {})[name]
