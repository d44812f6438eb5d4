"""A leader and a standby over one schedule.

``docker compose up`` runs this application. Without Docker:

    celery -A proj worker &
    celery -A proj beat --loglevel INFO --pidfile= &      # logs "leading as ..."
    celery -A proj beat --loglevel INFO --pidfile= &      # logs "standing by; the leader is ..."

End the first beat, and the second one leads at once.
"""

import os

from celery import Celery

redis_url = os.environ.get("REDIS_URL", "redis://localhost:6379")

app = Celery("proj", broker=f"{redis_url}/0")
app.conf.redisbeater_redis_url = f"{redis_url}/1"
app.conf.redisbeater_http = os.environ.get("REDISBEATER_HTTP")  # where beat serves /live and /metrics; None: nowhere
app.conf.beat_scheduler = "redisbeater.RedisScheduler"
app.conf.beat_schedule = {
    "heartbeat": {"task": "proj.say", "schedule": 1.0, "args": ["still here"]},
}


@app.task(name="proj.say")
def say(text: str) -> None:
    """Print a text, to show that a run was executed."""
    print(text, flush=True)
