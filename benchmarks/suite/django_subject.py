"""django-celery-beat on SQLite: all enabled entries in memory, read again after a change. One run a pass."""

from __future__ import annotations

import json
from typing import Any

from suite.application import TASK
from suite.population import EVERY_SECONDS, Population
from suite.subject import Subject

__all__ = ("DjangoDatabase",)


class DjangoDatabase(Subject):
    """The DatabaseScheduler of django-celery-beat, in a project without anything else."""

    scheduler: Any

    def start(self) -> None:
        import django
        from django.conf import settings
        from django.core.management import call_command

        database = {"ENGINE": "django.db.backends.sqlite3", "NAME": str(self.job.path / "django.sqlite3")}
        apps = ["django.contrib.contenttypes", "django_celery_beat"]
        settings.configure(DATABASES={"default": database}, INSTALLED_APPS=apps, USE_TZ=True, TIME_ZONE="UTC")
        django.setup()
        call_command("migrate", verbosity=0)
        from django_celery_beat.schedulers import DatabaseScheduler

        self.scheduler = DatabaseScheduler(self.app)

    def create(self, population: Population) -> None:
        from django_celery_beat.models import IntervalSchedule, PeriodicTask, PeriodicTasks

        PeriodicTask.objects.all().delete()
        hourly, _ = IntervalSchedule.objects.get_or_create(every=int(EVERY_SECONDS), period="seconds")
        rows = (
            PeriodicTask(
                name=f"entry-{number}",
                task=TASK,
                interval=hourly,
                args=json.dumps([str(number)]),
                last_run_at=population.last_run_at(number),
            )
            for number in range(population.count)
        )
        PeriodicTask.objects.bulk_create(rows, batch_size=500)
        PeriodicTasks.update_changed()

    def tick(self) -> float:
        return self.scheduler.tick()
