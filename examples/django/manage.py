"""Run Django's commands.

celery -A proj beat &
celery -A proj worker &
python manage.py runserver
curl -X POST localhost:8000/reminders/tea
"""

import os
import sys

from django.core.management import execute_from_command_line

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "proj.settings")
execute_from_command_line(sys.argv)
