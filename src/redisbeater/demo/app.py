"""The Celery app of the demo: what its beat and its worker load."""

from __future__ import annotations

import json
import os
from datetime import datetime, timezone
from typing import Any

from celery import Celery

__all__ = ("EXECUTED", "URL_VARIABLE", "app", "demo_app", "hello")

#: Where the demo tells beat and worker which Redis to use.
URL_VARIABLE = "REDISBEATER_DEMO_URL"

#: What a line of the worker's output begins with that tells of a run.
EXECUTED = "EXECUTED "


def demo_app(url: str) -> Celery:
    """An app with broker and schedule in one Redis, below keys of its own."""
    made = Celery("demo", broker=url)
    made.conf.update(
        redisbeater_key_prefix="redisbeater-demo:",
        task_default_queue="redisbeater-demo",
        task_ignore_result=True,
        broker_connection_retry_on_startup=True,
        worker_redirect_stdouts=False,
    )
    return made


app = demo_app(os.environ.get(URL_VARIABLE, "redis://127.0.0.1:6379/0"))


@app.task(bind=True)
def hello(self: Any, greeting: str) -> None:
    """Tell, in one line, which run this is and how late it came."""
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
