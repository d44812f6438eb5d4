"""The lines that an import prints to undo it, pasted into a shell as they stand."""

from __future__ import annotations

import base64
import json
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

from celery import Celery
from redbeat import RedBeatSchedulerEntry
from support.project import BROKER_DB, Project
from support.waiting import wait_until

from redisbeater import ScheduleStore

#: What a shell could misread is among the names.
NAMES = {"feed", 'it\'s a "report" of $HOME'}

#: A Django project around the module ``proj``, which begins with the first line.
DJANGO = """
import os; os.environ.setdefault("DJANGO_SETTINGS_MODULE", "site_settings")
"""
SETTINGS = """
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": "tasks.sqlite3"}}
INSTALLED_APPS = ["django.contrib.contenttypes", "django_celery_beat"]
DEFAULT_AUTO_FIELD = "django.db.models.AutoField"
SECRET_KEY = "of the tests"
USE_TZ = True
"""
ROWS = f"""
from django_celery_beat.models import IntervalSchedule, PeriodicTask
every = IntervalSchedule.objects.create(every=1, period="hours")
for name in {sorted(NAMES)!r}:
    PeriodicTask.objects.create(name=name, task="proj.note", interval=every)
PeriodicTask.objects.create(name="off", task="proj.note", interval=every, enabled=False)
"""


def run(project: Project, line: str, **more: str) -> str:
    """Run a line in a shell, in the project's folder, and return what it prints."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path, **more}
    done = subprocess.run(["sh", "-c", line], cwd=project.folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def lines_to_paste(output: str) -> list[str]:
    """The two lines at the end of the output of an import, without the words in front of them."""
    *_, first, second = output.splitlines()
    assert (first.partition(": ")[0], second.partition(": ")[0]) == ("to undo", "then"), output
    return [first.partition(": ")[2], second.partition(": ")[2]]


def enabled_in_django(project: Project) -> set[str]:
    with closing(sqlite3.connect(project.folder / "tasks.sqlite3")) as database:
        rows = database.execute("SELECT name FROM django_celery_beat_periodictask WHERE enabled").fetchall()
    return {name for (name,) in rows} - {"celery.backend_cleanup"}


def enabled_in_redbeat(app: Celery) -> set[str]:
    entries = [RedBeatSchedulerEntry.from_key(f"old:{name}", app=app) for name in (*NAMES, "off")]
    return {entry.name for entry in entries if entry.enabled}


def arguments_of_runs(project: Project) -> set[str]:
    bodies = (json.loads(base64.b64decode(json.loads(run)["body"])) for run in project.queued())
    return {args[0] for args, _, _ in bodies}


def test_the_lines_enable_the_tasks_of_django_that_were_disabled_and_delete_what_was_imported(
    project: Project,
) -> None:
    (project.folder / "site_settings.py").write_text(SETTINGS)
    (project.folder / "rows.py").write_text(ROWS)
    (project.folder / "proj.py").write_text(DJANGO + (project.folder / "proj.py").read_text())
    project.add_source('\napp.main = "shop"  # it is not what -A says\n')
    fill = "python -m django migrate --verbosity 0 && python -m django shell < rows.py"
    run(project, fill, DJANGO_SETTINGS_MODULE="site_settings")
    store, broker = ScheduleStore(project.app()), project.server.url(BROKER_DB)

    lines = lines_to_paste(run(project, "celery -A proj redisbeater import django-celery-beat --yes --disable-source"))
    moved = (set(store.names()), enabled_in_django(project))
    (project.folder / "plain.py").write_text(f"{DJANGO}\nfrom celery import Celery; app = Celery(broker={broker!r})\n")
    plain = project.celery("-A", "plain", "beat", "-S", "django")  # an app without settings of redisbeater
    plain.says("nor do 2 tasks that were moved there and are disabled here: feed, it's a ")
    for line in lines:
        run(project, line)

    assert moved == ({*NAMES, "off"}, set())
    assert (set(store.names()), enabled_in_django(project)) == (set(), NAMES)


def test_the_lines_let_redbeat_run_the_entries_that_were_disabled_and_delete_what_was_imported(
    project: Project,
) -> None:
    """Its schedule is in another database, which the settings of the project do not name."""
    app, url = project.app(), project.server.url(BROKER_DB)
    theirs = {"redbeat_redis_url": url, "redbeat_key_prefix": "old:", "redbeat_redis_options": {}}
    app.conf.update(theirs)
    for name in (*NAMES, "off"):
        RedBeatSchedulerEntry(name, "proj.note", 1.0, args=[name], app=app, enabled=name != "off").save()
    store = ScheduleStore(project.app())

    command = f"celery -A proj redisbeater import redbeat --from {url} --prefix old: --yes --disable-source"
    lines = lines_to_paste(run(project, command))
    moved = (set(store.names()), enabled_in_redbeat(app))
    for line in lines:
        run(project, line)

    assert moved == ({*NAMES, "off"}, set())
    assert (set(store.names()), enabled_in_redbeat(app)) == (set(), NAMES)
    project.add_source(f"\napp.conf.update({theirs!r})\n")
    project.beat(scheduler="redbeat.RedBeatScheduler")
    wait_until(lambda: arguments_of_runs(project) >= NAMES, "a run of each by RedBeat")
    assert arguments_of_runs(project) == NAMES
