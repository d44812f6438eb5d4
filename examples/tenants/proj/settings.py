"""Django's settings, those of django-tenants, and Celery's below ``CELERY_``."""

import os

REDIS_URL = os.environ.get("REDIS_URL", "redis://localhost:6379")

SECRET_KEY = "only for the example"
DATABASES = {
    "default": {
        "ENGINE": "django_tenants.postgresql_backend",
        "HOST": os.environ.get("PGHOST", "localhost"),
        "PORT": os.environ.get("PGPORT", "5432"),
        "USER": os.environ.get("PGUSER", "postgres"),
        "PASSWORD": os.environ.get("PGPASSWORD", ""),
        "NAME": os.environ.get("PGDATABASE", "postgres"),
    }
}
DATABASE_ROUTERS = ["django_tenants.routers.TenantSyncRouter"]
SHARED_APPS = ["django_tenants", "proj"]
TENANT_APPS = ["django.contrib.contenttypes"]  # the tables that each tenant has
INSTALLED_APPS = [*SHARED_APPS, *TENANT_APPS]
TENANT_MODEL = "proj.Tenant"
TENANT_DOMAIN_MODEL = "proj.Domain"
DEFAULT_AUTO_FIELD = "django.db.models.AutoField"
USE_TZ = True
TIME_ZONE = "Europe/Vienna"

CELERY_BROKER_URL = f"{REDIS_URL}/0"
CELERY_RESULT_BACKEND = f"{REDIS_URL}/0"
CELERY_BEAT_SCHEDULER = "redisbeater.RedisScheduler"
CELERY_REDISBEATER_REDIS_URL = f"{REDIS_URL}/1"
CELERY_REDISBEATER_TRACK_RUNS = True
CELERY_IMPORTS = ["redisbeater.runs"]
CELERY_BEAT_SCHEDULE = {
    "reports": {"task": "proj.tasks.for_each_tenant", "schedule": 5.0, "args": ["proj.tasks.report"]},
}
