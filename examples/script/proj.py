"""An application in one file, and a script that saves an entry.

    celery -A proj beat -S redisbeater &
    celery -A proj worker &
    python proj.py

The worker prints "hello" every second. ``python proj.py --stop`` deletes the entry.
"""

import os
import sys

from celery import Celery

from redisbeater import RedisScheduleEntry

redis_url = os.environ.get("REDIS_URL", "redis://localhost:6379")

app = Celery("proj", broker=f"{redis_url}/0")
app.conf.redisbeater_redis_url = f"{redis_url}/1"


@app.task(name="proj.say")
def say(text: str) -> None:
    """Print a text, to show that a run was executed."""
    print(text, flush=True)


if __name__ == "__main__":
    entry = RedisScheduleEntry("hello", "proj.say", 1.0, args=["hello"], app=app)
    if "--stop" in sys.argv:
        entry.delete()
        print("deleted")
    else:
        entry.save()
        print("next run at", entry.due_at)
