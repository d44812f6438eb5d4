"""The admin, which has the schedule, and a view that saves an entry."""

from django.contrib import admin
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.urls import path
from django.views.decorators.csrf import csrf_exempt

from proj.celery import app
from redisbeater import RedisScheduleEntry


@csrf_exempt
@transaction.atomic
def remind(request: HttpRequest, text: str) -> HttpResponse:
    """Save an entry that runs every second, once the transaction is committed: Redis takes no part in it."""
    entry = RedisScheduleEntry(f"remind {text}", "proj.tasks.remind", 1.0, args=[text], app=app)
    transaction.on_commit(entry.save)
    return HttpResponse(status=204)


urlpatterns = [
    path("admin/", admin.site.urls),
    path("reminders/<str:text>", remind),
]
