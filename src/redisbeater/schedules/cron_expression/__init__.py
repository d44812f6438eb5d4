"""Cron texts with what Celery's crontab lacks: seconds, ``L``, ``W``, ``#`` and ``H``."""
