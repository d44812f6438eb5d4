"""The addresses of the project of Django that tests use; imported once that is set up."""

from __future__ import annotations

from django.contrib import admin
from django.http import HttpRequest, HttpResponse
from django.urls import include, path


def _login_page(request: HttpRequest) -> HttpResponse:
    return HttpResponse(f"log in to go on to {request.GET.get('next')}")


urlpatterns = [
    path("accounts/login/", _login_page, name="login"),
    path("admin/", admin.site.urls),
    path("schedule/", include("redisbeater.contrib.django.urls")),
]
