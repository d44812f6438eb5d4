"""The application that docker-compose.yml runs."""

import os

from celery import Celery

redis_url = os.environ.get("REDIS_URL", "redis://localhost:6379")

app = Celery("proj", broker=f"{redis_url}/0")
app.conf.redisbeater_redis_url = f"{redis_url}/1"
app.conf.beat_scheduler = "redisbeater.RedisScheduler"
app.conf.beat_schedule = {
    "heartbeat": {"task": "proj.say", "schedule": 5.0, "args": ["still here"]},
}


@app.task(name="proj.say")
def say(text: str) -> None:
    """Show that a run was executed."""
    print(text, flush=True)
