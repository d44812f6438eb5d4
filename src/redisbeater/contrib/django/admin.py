"""The entries in Django's admin: a list in its own looks, and the whole web page below it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple
from urllib.parse import urlencode

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse

from redisbeater.context import Context
from redisbeater.contrib.django.models import Entry, rights_of
from redisbeater.contrib.django.page import page
from redisbeater.dashboard.auth import Right, User
from redisbeater.dashboard.template_environment import quote_name
from redisbeater.dashboard.words import Outcome, outcome_of, verbs_of_many
from redisbeater.display import shown
from redisbeater.exceptions import RedisBeaterError
from redisbeater.management.entry_view import EntryView, with_results
from redisbeater.management.schedule_store import ScheduleStore
from redisbeater.management.search import RESULTS_ASKED
from redisbeater.management.shown_entries import read_views
from redisbeater.management.verbs import Verb

#: Entries on a page of the list, and errors of one action that are told.
SIZE, MOST_ERRORS = 100, 5


class Row(NamedTuple):
    """An entry in the list; ``value`` is its name as the form sends it, ``link`` its address on the web page."""

    value: str
    name: str
    link: str
    schedule: str
    task: str
    outcome: Outcome
    last: datetime | None
    next: datetime | None


@admin.register(Entry)
class EntryAdmin(admin.ModelAdmin):
    """Entries by the permissions ``redisbeater.view_entry``, ``operate_entry`` and ``change_entry``."""

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Return whether a person may see entries."""
        return Right.VIEW in rights_of(request.user)

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Return whether a person may create entries."""
        return Right.EDIT in rights_of(request.user)

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Return whether a person may change entries."""
        return Right.EDIT in rights_of(request.user)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Return whether a person may delete entries."""
        return Right.EDIT in rights_of(request.user)

    def has_module_permission(self, request: HttpRequest) -> bool:
        """Return whether the index of the admin shows the schedule to a person."""
        return self.has_view_permission(request)

    def get_urls(self) -> list[URLPattern]:
        """Return the addresses of the list and of the web page, in place of those for the rows of a table."""
        return [
            path("", self.admin_site.admin_view(self.changelist_view), name="redisbeater_entry_changelist"),
            path("add/", self.admin_site.admin_view(self.add_view), name="redisbeater_entry_add"),
            path("page/", page, name="redisbeater_entry_page"),
            path("page/<path:path>", page),
        ]

    def add_view(self, request: HttpRequest, form_url: str = "", extra_context: Any = None) -> HttpResponse:
        """Go to the form of the web page."""
        return HttpResponseRedirect(self._page("new"))

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """Show the entries, or do an action to the chosen ones."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        if request.method == "POST":
            return self._act(request)
        asked = {name: request.GET.get(name, "") for name in ("q", "result")}
        results = [asked["result"]] if asked["result"] in RESULTS_ASKED else []
        number = int(text) if (text := request.GET.get("p", "")).isdecimal() and len(text) < 7 else 1
        context = {
            **self._context(request),
            "title": "Entries",
            "query": asked["q"],
            "whole_page": self._page(),
            "verbs": self._verbs(request),
            "has_add_permission": self.has_add_permission(request),
            "filters": [
                (word or "All", word == asked["result"], f"?{urlencode({'q': asked['q'], 'result': word})}")
                for word in ("", *RESULTS_ASKED)
            ],
        }
        try:
            schedule = Context.of()
            found = read_views(schedule, max(number, 1), SIZE, text=asked["q"], results=results)
        except (RedisBeaterError, ValueError) as exc:
            context["problem"] = str(exc)
            return TemplateResponse(request, "redisbeater/entries.html", context, status=503)
        context |= {
            "rows": [self._row(each) for each in with_results(schedule, found.entries)],
            "total": found.total,
            "pages": [
                (each, each == found.number, f"?{urlencode({**asked, 'p': each})}")
                for each in range(max(found.number - 3, 1), min(found.number + 3, found.pages) + 1)
            ],
        }
        return TemplateResponse(request, "redisbeater/entries.html", context)

    def _row(self, found: EntryView) -> Row:
        return Row(
            value=found.name.encode(errors="replace").decode(),
            name=shown(found.name, 200),
            link=self._page(f"entry?name={quote_name(found.name)}"),
            schedule=found.brief,
            task=found.task,
            outcome=outcome_of(found),
            last=found.last_run_at,
            next=found.next,
        )

    def _act(self, request: HttpRequest) -> HttpResponse:
        """Do an action to the chosen entries, after a question where the web page asks one as well."""
        verb, names = self._verbs(request).get(request.POST.get("action", "")), request.POST.getlist("name")
        back = HttpResponseRedirect(request.get_full_path())
        if verb is None or not names:
            messages.warning(request, "Choose an action, and entries for it. Nothing was changed.")
            return back
        if len(names) > verb.most_unasked and "confirmed" not in request.POST:
            chosen = [(name, shown(name, 200)) for name in names]
            title = f"{verb.question or verb.label}: are you sure?"
            context = {**self._context(request), "title": title, "verb": verb, "chosen": chosen}
            return TemplateResponse(request, "redisbeater/confirm.html", context)
        done, errors = _do(verb, names, by=request.user.get_username())
        if done:
            messages.success(request, f"{verb.done.capitalize()}: {', '.join(shown(name, 80) for name in done)}.")
        for error in errors[:MOST_ERRORS]:
            messages.error(request, error)
        if len(errors) > MOST_ERRORS:
            messages.error(request, f"{len(errors) - MOST_ERRORS:,} more were not changed.")
        return back

    def _verbs(self, request: HttpRequest) -> dict[str, Verb]:
        """Return the actions that a person may do to several entries."""
        user = User(request.user.get_username(), rights_of(request.user))
        return {verb.name: verb for verb in verbs_of_many(user)}

    def _context(self, request: HttpRequest) -> dict[str, Any]:
        return {**self.admin_site.each_context(request), "opts": self.model._meta}

    def _page(self, below: str = "") -> str:
        return reverse(f"{self.admin_site.name}:redisbeater_entry_page") + below


def _do(verb: Verb, names: Sequence[str], *, by: str) -> tuple[list[str], list[str]]:
    """Return the names of the entries that a verb was done to, and why it was not done to others."""
    store, done, errors = ScheduleStore(), [], []
    if verb.many:
        for each in verb.many(store, names, by=by):
            if each.error is None:
                done.append(each.name)
            else:
                errors.append(str(each.error))
        return done, errors
    for name in names:
        try:
            verb.one(store, name, by=by)
        except RedisBeaterError as exc:
            errors.append(str(exc))
        else:
            done.append(name)
    return done, errors
