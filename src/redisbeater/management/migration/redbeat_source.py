"""RedBeat's schedule, of any prefix, server or database."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from typing import Any

from celery import Celery
from celery.beat import ScheduleEntry

from redisbeater.config.settings import redbeat_prefix
from redisbeater.config.urls import RedisUrl
from redisbeater.config.values import PREFIX, given_settings
from redisbeater.context import Context
from redisbeater.editing.changes import FieldChange
from redisbeater.editing.compare_and_set import write_page
from redisbeater.editing.edit import Author
from redisbeater.editing.stored_entry import StoredEntry
from redisbeater.entry import RedisScheduleEntry
from redisbeater.exceptions import ImproperlyConfigured, InvalidEntry, StoreError
from redisbeater.management.migration.candidate import Candidate, OldEngine, SourceError, engine_app, engine_of
from redisbeater.model import json_text
from redisbeater.schedules.kinds import kind_of
from redisbeater.store import SAVE_PAGE, Snapshot, pages
from redisbeater.store.schedule import RedisSchedule

#: The entry that Celery itself declares: RedBeat stores it, and does not mark it as static.
CLEANUP = "celery.backend_cleanup"

_STATIC = "static: the code declares it, and beat stores it here itself"


class RedBeatSource:
    """A schedule of RedBeat.

    Arguments:
        app: the app that imports.
        url: where it is; default: ``redbeat_redis_url``, else this app's own Redis.
        prefix: below which prefix; default: ``redbeat_key_prefix``, else RedBeat's own default.
    """

    name = "redbeat"

    def __init__(self, app: Celery, url: str | None = None, prefix: str | None = None) -> None:
        self._app = app
        self._prefix = prefix or redbeat_prefix(app)
        self._url = url or dict(given_settings(app, "redbeat_")).get("redis_url")
        self._setting = "--from" if url else "redbeat_redis_url"
        self._given = (url, prefix)

    @property
    def place(self) -> Sequence[str]:
        """The options that say where it is, without the password of a URL; see :class:`Source`."""
        url, prefix = self._given
        if url and ("@" in url or "password" in url):
            url = RedisUrl.read("--from", url).address
        return [*(("--from", url) if url else ()), *(("--prefix", prefix) if prefix else ())]

    def read(self) -> Iterator[Candidate]:
        """Yield its entries; see :class:`Source`."""
        try:
            import redbeat  # noqa: F401
        except ImportError as exc:
            raise ImproperlyConfigured("RedBeat is not installed here: pip install celery-redbeat") from exc
        contents = self._context.redis.contents
        with self._located():
            statics, names = contents.statics(), sorted(contents.names())
            for page in pages(names, SAVE_PAGE):
                for snapshot in self._context.redis.load_many(page):
                    if snapshot.exists:
                        yield self._candidate(snapshot, snapshot.name in statics or snapshot.name == CLEANUP)

    def check_switching(self) -> None:
        """Do nothing: it is always possible."""

    def switch(self, names: Sequence[str], *, enabled: bool) -> list[str]:
        """Store ``enabled``, and a negative score if it is false: RedBeat does not look at it; see :class:`Source`."""
        author = Author.of("", "import undone" if enabled else "imported by redisbeater")
        switched: list[str] = []
        with self._located():
            for page in pages(names, SAVE_PAGE):
                changes = [FieldChange(name=name, fields={"enabled": enabled}, author=author) for name in page]
                written = write_page(self._context, changes, only_differing=True).written
                switched += [name for name in page if name in written and "enabled" in written[name].changed_fields]
        return switched

    @contextmanager
    def _located(self) -> Iterator[None]:
        """Say in errors of its Redis where that is; it may not be the one of this app."""
        try:
            yield
        except StoreError as exc:
            place = f"{self._context.redis.address}, by --from, else redbeat_redis_url, else redisbeater_redis_url"
            raise SourceError(f"{str(exc).rstrip('.')}; RedBeat's schedule is looked for in {place}") from exc

    @cached_property
    def _context(self) -> Context:
        """The context of an app that differs from the importing one only in where its schedule is."""
        ours = Context.of(self._app).config
        app = Celery(self._app.main, set_as_current=False)
        for name, value in given_settings(self._app):
            app.conf[PREFIX + name] = value
        app.conf.timezone, app.conf.enable_utc = self._app.conf.timezone, self._app.conf.enable_utc
        if self._url is not None:
            RedisUrl.read(self._setting, self._url)  # its error names what was set
            app.conf[f"{PREFIX}redis_url"] = self._url
        context = Context.of(app)
        # Not a setting of that app, because RedBeat's prefix need not end with a colon.
        config = replace(context.config, key_prefix=self._prefix, lock_key=f"{self._prefix}:lock")
        config.url.check_prefix(self._prefix)
        if (config.url.hosts, self._prefix) == (ours.url.hosts, ours.key_prefix):
            problem = f"the schedule below the prefix {self._prefix!r} is this app's own: there is nothing to import"
            raise ImproperlyConfigured(f"{problem}; --prefix and --from say where RedBeat's is")
        return replace(context, config=config, redis=RedisSchedule(config))

    def _candidate(self, snapshot: Snapshot, is_static: bool) -> Candidate:
        if is_static:
            return Candidate(name=snapshot.name, left_out=_STATIC)
        try:
            stored = StoredEntry.from_snapshot(snapshot, self._context.reader.codec)
        except InvalidEntry as exc:
            return Candidate(name=snapshot.name, refused=str(exc))
        return Candidate(
            name=snapshot.name,
            definition=stored.definition,
            is_enabled=stored.definition.enabled,
            meta=stored.meta,
            engine=self._engine(snapshot.definition),
            engine_key=json_text.canonical(json_text.from_text(snapshot.definition, "$")["schedule"]),
        )

    def _engine(self, text: str) -> OldEngine:
        from redbeat import RedBeatSchedulerEntry

        def make(app: Celery, last_run_at: object) -> RedBeatSchedulerEntry:
            fields = RedBeatSchedulerEntry.decode_definition(text)
            if hasattr(fields["schedule"], "rrule"):  # dateutil's cache: else each look steps through all dates again
                fields["schedule"].rrule = fields["schedule"].rrule.replace(cache=True)
            return RedBeatSchedulerEntry(app=app, **{**fields, "enabled": True, "last_run_at": last_run_at})

        return engine_of(make, self._engine_app)

    @cached_property
    def _engine_app(self) -> Celery:
        """The app that RedBeat's entries get; it never connects."""
        app = engine_app(self._app)
        app.conf.update(redbeat_redis_url="redis://", redbeat_redis_options={}, redbeat_key_prefix=self._prefix)
        return app


#: What Celery's own entries know.
_CELERYS = ("task", "schedule", "args", "kwargs", "options", "relative")


class BeatScheduleSource:
    """The static entries that an app declares."""

    name = "beat-schedule"
    place = ()

    def __init__(self, app: Celery) -> None:
        self._app = app
        self._engine_app = engine_app(app)

    def read(self) -> Iterator[Candidate]:
        """Yield its entries; see :class:`Source`."""
        declared = self._app.conf.beat_schedule or {}
        for name in sorted(declared, key=str):
            yield self._candidate(str(name), declared[name])

    def check_switching(self) -> None:
        """Refuse it; see :class:`Source`."""
        problem = "beat_schedule stands in the code, and only you can change its entries there"
        raise ImproperlyConfigured(f"--disable-source, --enable-source: {problem}; import without them")

    def switch(self, names: Sequence[str], *, enabled: bool) -> list[str]:
        """Refuse it; see :class:`Source`."""
        self.check_switching()
        return []

    def _candidate(self, name: str, fields: Any) -> Candidate:
        try:
            entry = fields if isinstance(fields, RedisScheduleEntry) else self._entry(name, fields)
            definition, meta = entry._definition(), entry._initial_meta()
        except (InvalidEntry, TypeError) as exc:
            return Candidate(name=name, refused=str(exc).replace("RedisScheduleEntry.__init__()", "$:"))
        engine, key = self._engine(name, fields), ""
        if engine is not None and kind_of(entry.schedule).is_plain:  # its engine goes by nothing else
            stored = Context.of(self._app).codec.encode(entry.schedule)
            key = json_text.canonical([stored, bool(fields.get("relative"))])
        return Candidate(name=name, definition=definition, meta=meta, engine=engine, engine_key=key)

    def _entry(self, name: str, fields: Mapping[str, Any]) -> RedisScheduleEntry:
        return RedisScheduleEntry(name, app=self._app, **fields)

    def _engine(self, name: str, fields: Any) -> OldEngine | None:
        if not isinstance(fields, Mapping) or not set(fields) <= set(_CELERYS):
            return None

        def make(app: Celery, last_run_at: Any) -> ScheduleEntry:
            return ScheduleEntry(name, app=app, last_run_at=last_run_at, **fields)

        return engine_of(make, self._engine_app)
