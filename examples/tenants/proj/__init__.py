"""The project; Celery's application is loaded with Django."""

from proj.celery import app as celery_app

__all__ = ("celery_app",)
