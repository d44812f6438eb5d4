"""The Celery application of the FastAPI example: what beat and the worker load."""

import os

from celery import Celery

redis_url = os.environ.get("REDIS_URL", "redis://localhost:6379")

app = Celery("proj", broker=f"{redis_url}/0")
app.conf.redisbeater_redis_url = f"{redis_url}/1"


@app.task(name="proj.remind")
def remind(text: str) -> None:
    """Print a reminder."""
    print(f"remember {text}", flush=True)
