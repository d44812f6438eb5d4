"""Schedules that users define: each wakes an agent, which works on a prompt of that user.

    celery -A proj worker --beat --scheduler redisbeater

``schedules.py`` is what a web site calls.
"""

import os

from celery import Celery

redis_url = os.environ.get("REDIS_URL", "redis://localhost:6379")

app = Celery("proj", broker=f"{redis_url}/0")
app.conf.redisbeater_redis_url = f"{redis_url}/1"
app.conf.redisbeater_max_rate = 20  # agents that wake in a second, however many users chose nine o'clock


@app.task(name="proj.wake")
def wake(user: int, prompt: int) -> None:
    """Let the agent of a user work on a prompt; both are keys of your database."""
    print(f"user {user}: prompt {prompt}", flush=True)
