"""The Celery app of the demo, which its beat and its worker load."""

from __future__ import annotations

import json
import os
from datetime import datetime, timezone
from typing import Any

from celery import Celery

__all__ = ("EXECUTED", "URL_VARIABLE", "app", "demo_app", "hello")

#: The environment variable with the URL of Redis, for beat and worker.
URL_VARIABLE = "REDISBEATER_DEMO_URL"

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
    return created


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
