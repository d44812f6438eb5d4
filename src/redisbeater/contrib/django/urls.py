"""The web page alone, for ``path("schedule/", include("redisbeater.contrib.django.urls"))``, also without the admin."""

from __future__ import annotations

from django.urls import path

from redisbeater.contrib.django.page import page

urlpatterns = [
    path("", page, name="redisbeater_page"),
    path("<path:path>", page),
]
