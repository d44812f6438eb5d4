"""What the programs load that are no web server.

celery -A proj beat -S redisbeater &
celery -A proj worker &
flask --app site_factory run

curl -X POST   localhost:5000/reminders/tea
curl -X DELETE localhost:5000/reminders/tea
"""

from site_factory import create_app

site = create_app()
app = site.extensions["celery"]
