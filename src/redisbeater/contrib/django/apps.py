"""What Django reads first of the application."""

from __future__ import annotations

from django.apps import AppConfig


class ScheduleConfig(AppConfig):
    """The application ``redisbeater.contrib.django``, called ``redisbeater`` in permissions."""

    name = "redisbeater.contrib.django"
    label = "redisbeater"
    verbose_name = "Schedule"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Register the system checks."""
        from redisbeater.contrib.django import checks  # noqa: F401
