"""The web page as an ASGI application."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from celery import Celery
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from redisbeater.context import Context
from redisbeater.dashboard.access import (
    endpoint,
    form_to_repeat,
    head_of_error,
    log_in,
    log_out,
    login_of,
    show_login,
)
from redisbeater.dashboard.address import TRUSTED_PROXIES, address_of, read_networks
from redisbeater.dashboard.auth import Auth, Login
from redisbeater.dashboard.defences import PROTECTION, Attempts, Defences, check_hosts
from redisbeater.dashboard.hub import Hub
from redisbeater.dashboard.page_store import PageStore
from redisbeater.dashboard.pages import Action
from redisbeater.dashboard.pictures import Forecasts
from redisbeater.dashboard.sessions import Sessions
from redisbeater.dashboard.site import (
    CHOICES,
    Assets,
    Counts,
    HeavyReads,
    JSONAnswer,
    Recent,
    RecentStatus,
    SharedAnswers,
    Site,
    form_fields,
)
from redisbeater.dashboard.template_environment import environment
from redisbeater.dashboard.views import actions, delays, editing, entries, incidents, schedule
from redisbeater.exceptions import (
    CalendarsChanged,
    EditConflict,
    EntryExists,
    EntryNotFound,
    ImproperlyConfigured,
    InvalidEntry,
    RedisBeaterError,
    RunActive,
    RunNotFound,
    SchedulePaused,
    SendFailed,
    StoreError,
    StoreUnavailable,
    ZoneChanging,
)
from redisbeater.management.future import read_held
from redisbeater.management.place import page_keys
from redisbeater.management.shown_entries import read_views
from redisbeater.schedules.zones import read_zone

#: The status of an error of the store.
STATUS: tuple[tuple[type[RedisBeaterError], int], ...] = (
    (EntryNotFound, 404),
    (EditConflict, 409),
    (EntryExists, 409),
    (RunActive, 409),
    (SchedulePaused, 409),
    (CalendarsChanged, 409),
    (ZoneChanging, 409),
    (RunNotFound, 404),
    (ImproperlyConfigured, 404),  # runs are not recorded: there is none
    (SendFailed, 502),
    (InvalidEntry, 422),
    (StoreError, 503),
)

#: The pages.
ACTIONS: tuple[Action, ...] = (
    *entries.ACTIONS,
    *editing.ACTIONS,
    *actions.ACTIONS,
    *schedule.ACTIONS,
    *incidents.ACTIONS,
    *delays.ACTIONS,
)


def create_app(
    celery_app: Celery,
    *,
    auth: Auth,
    read_only: bool = False,
    allowed_hosts: Iterable[str] = (),
    trusted_proxies: Iterable[str] = TRUSTED_PROXIES,
    title: str = "",
    time_zone: str = "entry",
    allow_any_task: bool = False,
    metrics: bool = False,
) -> Starlette:
    """Return the web page of an app's schedule, to be served by itself or mounted under a path.

    Arguments:
        celery_app: whose schedule it shows.
        auth: recognizes who sent a request: :func:`token`, :func:`basic`, :func:`header`, :func:`django`, or an own
            function. There is no default: a page that changes the schedule can run any task.
        read_only: leave everybody the right to view alone.
        allowed_hosts: the host names that it is served under; addresses and ``localhost`` always may.
        trusted_proxies: addresses or networks of the proxies whose ``X-Forwarded-For`` says where somebody comes from
            who fails to log in; default: this machine. The failures of all behind another proxy count together.
        title: shown in the head; default: the name of the app.
        time_zone: the zone of the times on the page: ``"entry"``, each entry's own, or an IANA name.
        allow_any_task: let forms take tasks that ``celery_app`` does not know.
        metrics: serve ``/metrics`` for Prometheus, to which nobody logs in: the metrics of the schedule that a leading
            beat has. Needs the extra ``metrics``.

    Raises:
        ImproperlyConfigured: no host name is allowed, or what is none; a proxy is no address; ``time_zone`` is none; or
            ``metrics`` lacks its extra.
    """
    hosts = tuple(allowed_hosts) or tuple(getattr(auth, "allowed_hosts", ()))
    if not hosts:
        raise ImproperlyConfigured(
            "allowed_hosts is empty: name the hosts of the page, "
            'for example create_app(app, auth=..., allowed_hosts=["jobs.example.com"])'
        )
    try:
        check_hosts(hosts)
    except ValueError as exc:
        raise ImproperlyConfigured(f"allowed_hosts: {exc}") from exc
    try:
        proxies = read_networks(trusted_proxies)
    except ValueError as exc:
        raise ImproperlyConfigured(f'trusted_proxies: {exc}; expected a list such as ["10.0.0.0/8"]') from exc
    if time_zone not in CHOICES:
        try:
            read_zone(time_zone, "time_zone")
        except InvalidEntry as exc:
            raise ImproperlyConfigured(str(exc)) from exc
    context = Context.of(celery_app)
    config = context.config
    make_store = partial(PageStore, celery_app, key_prefix=context.prefix)
    store, heavy, kept = make_store(), make_store(), page_keys(context)
    site = Site(
        store=store,
        heavy_reads=HeavyReads(heavy),
        probe=make_store(),
        auth=auth,
        trusted_proxies=proxies,
        sessions=Sessions(auth.key, config.key_prefix, kept) if isinstance(auth, Login) else None,
        page_keys=kept,
        assets=Assets(),
        attempts=Attempts(),
        templates=environment(),
        prefix=config.key_prefix,
        title=title or celery_app.main or "schedule",
        time_zone=time_zone,
        read_only=read_only,
        allow_any_task=allow_any_task,
        forecasts=Forecasts(heavy),
        status=RecentStatus(store),
        held=Recent(partial(store.ask, read_held)),
        counts=Recent(partial(_count, heavy), times=12),
        shared_answers=SharedAnswers(),
        hub=Hub(partial(Context.of, celery_app, context.prefix)),
        runs_kept=config.run_history_limit,
        form=form_fields(config),
    )
    page = Starlette(
        routes=[*_own_routes(site), *_page_routes(site), *(_metrics_routes(celery_app) if metrics else ())],
        middleware=[Middleware(Defences, allowed_hosts=hosts), Middleware(GZipMiddleware, minimum_size=1_000)],
        exception_handlers={kind: partial(_show_error, site) for kind in (HTTPException, RedisBeaterError, Exception)},
        lifespan=_closing(site),
    )
    page.router.redirect_slashes = False  # its redirects name scheme and host of the request, which no proxy need keep
    return page


async def _count(store: PageStore) -> Counts:
    disabled = await store.ask(read_views, 1, 1, states="disabled")
    return Counts(disabled.total, (await store.status()).broken)


def _own_routes(site: Site) -> list[Route]:
    routes = [
        Route("/healthz", partial(_health, site)),
        Route("/static/{version}/{name}", site.assets.serve),
    ]
    if isinstance(site.auth, Login):
        routes += [
            Route("/login", partial(show_login, site), methods=["GET"]),
            Route("/login", partial(log_in, site), methods=["POST"]),
            Route("/logout", partial(log_out, site), methods=["POST"]),
        ]
    return routes


def _metrics_routes(celery_app: Celery) -> list[Route]:
    try:
        from redisbeater.observe.metrics import CONTENT_TYPE, create_schedule_registry, exposition_of
    except ImportError as exc:
        raise ImproperlyConfigured(
            f"metrics=True needs more packages: pip install 'redisbeater[metrics]' ({exc})"
        ) from exc
    registry = create_schedule_registry(Context.of(celery_app))

    async def metrics(_: Request) -> Response:
        body = await run_in_threadpool(exposition_of, registry)
        return Response(body, headers={"Content-Type": CONTENT_TYPE})

    return [Route("/metrics", metrics)]


def _page_routes(site: Site) -> list[Route]:
    """Return the routes of all pages; each page that is read has a twin in JSON."""
    routes = []
    for action in ACTIONS:
        routes.append(Route(action.path, endpoint(site, action), methods=[action.method]))
        if action.method == "GET" and action.has_json:
            path = "/index.json" if action.path == "/" else f"{action.path}.json"
            routes.append(Route(path, endpoint(site, action, as_json=True)))
    return routes


async def _health(site: Site, request: Request) -> Response:
    """Return ``ok``, or 503 where Redis does not answer; for load balancers, which log in nowhere."""
    try:
        await site.probe.paused()
    except RedisBeaterError:
        return PlainTextResponse("unavailable\n", 503)
    return PlainTextResponse("ok\n")


async def _show_error(site: Site, request: Request, error: Exception) -> Response:
    """Return the page of an error, with its reason and a way on; JSON and texts for programs."""
    if isinstance(error, HTTPException):
        status, reason, headers = error.status_code, str(error.detail), dict(error.headers or {})
    elif isinstance(error, RedisBeaterError):
        status = next((code for kind, code in STATUS if isinstance(error, kind)), 500)
        reason, headers = str(error), {}
    else:  # it comes past the defences, and is logged by the server
        status, reason, headers = 500, "an unexpected error; the log of this process has it", PROTECTION
    if request.url.path.endswith(".json") or "application/json" in request.headers.get("Accept", ""):
        path = {"field": error.path} if isinstance(error, InvalidEntry) else {}
        return JSONAnswer({"error": reason, "status": status, **path}, status, headers)
    cause = error.__cause__ if isinstance(error, HTTPException) else error
    is_refused = isinstance(cause, StoreError) and not isinstance(cause, StoreUnavailable)
    values = {"status": status, "reason": reason, "is_refused": is_refused, "form": None, "is_error": True}
    if status in (401, 503):
        values |= {
            "form": await form_to_repeat(request),
            "login": login_of(site, request),
            "sent_to": address_of(request),
        }
    elif isinstance(error, (HTTPException, RedisBeaterError)) and status != 429:
        values |= await head_of_error(site, request)
    answer = site.render(request, "error.html", values, status=status)
    answer.headers.update(headers)
    return answer


def _closing(site: Site) -> Any:
    @asynccontextmanager
    async def lifespan(_: Starlette) -> Any:
        yield
        for store in (site.store, site.heavy_reads.store, site.probe):
            await store.close()

    return lifespan
