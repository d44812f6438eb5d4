"""Django's settings, and Celery's below ``CELERY_``."""

import os

REDIS_URL = os.environ.get("REDIS_URL", "redis://localhost:6379")

SECRET_KEY = "only for the example"
DEBUG = True
ALLOWED_HOSTS = ["localhost", "127.0.0.1"]
ROOT_URLCONF = "proj.urls"
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}}  # there are no tables
INSTALLED_APPS: list[str] = []
USE_TZ = True
TIME_ZONE = "Europe/Vienna"  # the zone of the schedule, too; without it Django takes America/Chicago

CELERY_BROKER_URL = f"{REDIS_URL}/0"
CELERY_BEAT_SCHEDULER = "redisbeater.RedisScheduler"
CELERY_REDISBEATER_REDIS_URL = f"{REDIS_URL}/1"
