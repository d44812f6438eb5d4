"""The settings of redisbeater: each described once, read once from the Celery configuration, checked, frozen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from celery import Celery
from celery.app import app_or_default

from redisbeater.config import hidden, values  # noqa: F401  passwords are hidden from now on
from redisbeater.config.urls import CLUSTER_PREFIX, SCHEMES, RedisUrl, Topology, broker_redis_url, scheme_of
from redisbeater.config.values import (
    PREFIX,
    REDBEAT_PREFIX,
    given_settings,
    read_setting,
    refuse_misspelt,
    refuse_unknown,
)
from redisbeater.exceptions import ImproperlyConfigured
from redisbeater.model.policies import NOBODY, Coalesce, EvictionCheck, Overlap
from redisbeater.redaction import DEFAULT_PATTERNS, hide

#: The most entries of one claim: the server serves nobody else meanwhile, and the reply is one text.
MOST_CLAIMED = 10_000

#: The most seconds of a lock, a lease or a wait for the broker: after a crash nothing runs for that long.
MOST_OUTAGE_SECONDS = 3600.0

#: The most seconds of jitter: a leap year.
MOST_JITTER_SECONDS = 366 * 86400.0


def _setting(default: Any, reader: values.Reader, accepts: str, doc: str, *, secret: bool = False) -> Any:
    """Declare a field of :class:`Config`.

    Arguments:
        default: the value when the setting is not set; a class is called to create it.
        reader: checks and converts what the user set.
        accepts: the accepted values, for errors and the documentation.
        doc: what the setting does, for the documentation.
        secret: the value may hold a password; never show it.
    """
    metadata = {"reader": reader, "accepts": accepts, "doc": doc}
    if callable(default):
        return field(default_factory=default, metadata=metadata, repr=not secret)
    return field(default=default, metadata=metadata, repr=not secret)


@dataclass(frozen=True, kw_only=True)
class Config:
    """All settings, in the form that the rest of the package uses.

    ``None`` and 0 are values; they never mean "not set".
    """

    redis_url: str = _setting(
        None,
        values.read_url,
        "a URL: redis://, rediss://, unix://, sentinel:// or redis-cluster://",
        "The Redis that keeps the schedule. Default: ``broker_url``, if the broker is Redis.",
        secret=True,
    )
    redis_options: Mapping[str, Any] = _setting(
        dict,
        values.read_options,
        "a dict",
        "Options for the Redis client (redis-py): password, username, credential_provider, socket_timeout, ... "
        "For Sentinel also ``service_name``, ``sentinels`` and ``sentinel_kwargs``. The broker's options are not used.",
        secret=True,
    )
    redis_use_ssl: bool | Mapping[str, Any] = _setting(
        False,
        values.read_ssl,
        "a bool or a dict",
        "TLS for ``rediss://`` and for the master behind Sentinels. True, or a dict with ssl_cert_reqs, ssl_ca_certs, "
        "ssl_certfile, ssl_keyfile.",
        secret=True,
    )
    key_prefix: str = _setting(
        "redisbeater:",
        values.read_prefix,
        "a text that ends with ':'",
        "The text that every key begins with; it ends with a colon. ``redbeat:`` takes over a RedBeat schedule. A "
        "cluster needs a hash tag in it, to keep all keys in one slot; the default there is ``{redisbeater}:``. One "
        "application may have several: :ref:`several-schedules`.",
    )
    lock_key: str | None = _setting(
        ":lock",
        values.optional(values.read_text),
        "a text or None",
        "Key of the leader's lock, below the prefix. None: no lock; every beat is active.",
    )
    lock_timeout: float = _setting(
        15.0,
        values.seconds(1, MOST_OUTAGE_SECONDS),
        "seconds, from 1 to 3600",
        "Seconds until a lock that is not renewed expires. After a crash, another beat takes over within this time.",
    )
    lock_lost: str | None = _setting(
        None,
        values.optional(values.one_of("exit", "standby")),
        "'exit', 'standby' or None",
        "What a leader does when another beat holds its lock: ``exit`` or ``standby``. "
        "None: ``exit``, but ``standby`` if beat is embedded in a worker, because an exit would end the worker.",
    )
    lease_timeout: float = _setting(
        30.0,
        values.seconds(1, MOST_OUTAGE_SECONDS),
        "seconds, from 1 to 3600",
        "Seconds until claimed entries that were not committed become due again.",
    )
    batch_size: int = _setting(
        500,
        values.count(MOST_CLAIMED),
        "a whole number, from 1 to 10,000",
        "The largest number of due entries in one claim.",
    )
    max_entry_size: int = _setting(
        1_000_000,
        values.entry_size,
        f"a whole number of bytes, {values.LEAST_ENTRY_SIZE} to {values.MOST_ENTRY_SIZE}",
        "The largest entry that is read, in bytes: its definition, its meta and what beat records of it. A larger one "
        "is quarantined unread, and the API stores none.",
    )
    retry_period: float = _setting(
        -1.0,
        values.read_retry_period,
        "seconds, or -1",
        "Seconds that beat keeps trying while Redis is unreachable, before it exits. -1: without end, because a beat "
        "that waits recovers by itself. 0: exit at once.",
    )
    publish_timeout: float = _setting(
        5.0,
        values.seconds(0.1, MOST_OUTAGE_SECONDS),
        "seconds, from 0.1 to 3600",
        "Seconds to wait for an answer of the broker. After that the send has failed, and the run is sent later. Must "
        "be less than half of ``lock_timeout`` and of ``lease_timeout``; the default is at most a third of each.",
    )
    one_commit: bool | None = _setting(
        None,
        values.optional(values.read_flag),
        "True, False or None",
        "Put the message of a run into the broker and its record into the schedule in one step, so that no fire time "
        "is sent twice: possible where both are one Redis server, with kombu 5.7. None: where it is possible. True: "
        "lead only where it is. False: never.",
    )
    misfire_grace_time: float | None = _setting(
        None,
        values.optional(values.seconds(1)),
        "seconds, at least 1, or None",
        "Seconds that a run may be late. Fire times that are later than that are skipped as missed. None: no limit. "
        "For crontabs, Celery's ``beat_cron_starting_deadline`` takes precedence. An entry may override it.",
    )
    coalesce: Coalesce = _setting(  # noqa: RUF009 - a field like the others, only its default is an enum
        Coalesce.LATEST,
        values.member_of(Coalesce),
        "'latest', 'earliest' or 'all'",
        "Which fire times run when several have passed: ``latest``, ``earliest`` or ``all`` (at most 100). "
        "An entry may override it.",
    )
    jitter: float = _setting(
        0.0,
        values.seconds(0, MOST_JITTER_SECONDS),
        "seconds, at most 31,622,400 (a year)",
        "The longest delay of a run, in seconds. The delay of each run depends only on the entry's name and the fire "
        "time. An entry may override it.",
    )
    max_rate: float | None = _setting(
        None,
        values.optional(values.rate),
        "runs a second, from 0.001 to 1,000,000, or None",
        "How many runs a second leave at most, the oldest first: after an outage or a pause, workers are not flooded. "
        "Without a lock each beat may send so many. A ``trigger`` is not limited. None: no limit.",
    )
    delay_from: float = _setting(
        10.0,
        values.seconds(0),
        "seconds, at least 0",
        "A worker that imports ``redisbeater.delays`` keeps a message in the schedule until its ``eta`` if that is "
        "more than so many seconds away. Nearer ones it holds in its memory, as Celery does.",
    )
    overlap: Overlap = _setting(  # noqa: RUF009 - as above
        Overlap.ALLOW,
        values.member_of(Overlap),
        "'allow', 'skip', 'buffer_one' or 'cancel_other'",
        "What becomes of a fire time while a run of its entry is active: :ref:`overlap`. Any but ``allow`` needs "
        "``redisbeater_track_runs``. An entry may override it.",
    )
    log_limit: int = _setting(
        100,
        values.count(10_000),
        "a whole number, from 1 to 10,000",
        "How many lines the log of an entry keeps: its changes, what was skipped and why, and what failed.",
    )
    key_expiry_check: EvictionCheck = _setting(  # noqa: RUF009 - as above
        EvictionCheck.WARN,
        values.member_of(EvictionCheck),
        "'ignore', 'warn', 'error' or 'raise'",
        "What beat does when it becomes the leader and the server may evict the schedule: ``ignore`` it, ``warn``, "
        "log an ``error``, or ``raise`` and exit.",
    )
    track_runs: bool = _setting(
        False,
        values.read_flag,
        "True or False",
        "Record what becomes of each run: :doc:`runs`. Workers import ``redisbeater.runs`` for that. Off: no field, no "
        "key, no header of a run.",
    )
    run_history_limit: int = _setting(
        30,
        values.count(10_000),
        "a whole number, from 1 to 10,000",
        "How many runs of an entry are kept, besides those that have not ended.",
    )
    run_retention: float = _setting(
        7 * 86_400.0,
        values.seconds(60),
        "seconds, at least 60",
        "Seconds that a run is kept after its last change of state.",
    )
    run_timeout: float = _setting(
        60.0,
        values.seconds(10, MOST_OUTAGE_SECONDS),
        "seconds, from 10 to 3600",
        "Seconds until a run that its worker does not report any more is lost. Workers report four times as often.",
    )
    run_queue_timeout: float = _setting(
        3600.0,
        values.seconds(1),
        "seconds, at least 1",
        "Seconds that a run may wait for a worker, after which it is lost and does not hold up others any more.",
    )
    requeue_lost: int = _setting(
        0,
        values.count(10, least=0),
        "a whole number, from 0 to 10",
        "How often a run whose worker died is sent again. 0: never, as with Celery. An entry may override it.",
    )
    max_failures: int = _setting(
        0,
        values.count(29, least=0),
        "a whole number, from 0 to 29",
        "How many failures in a row are tolerated: :doc:`incidents`. An entry may override it.",
    )
    start_within: float | None = _setting(
        300.0,
        values.optional(values.seconds(1)),
        "seconds, at least 1, or None",
        "Seconds for which a run may wait for a worker until that is an incident. None: for any time. An entry may "
        "override it.",
    )
    finish_within: float | None = _setting(
        None,
        values.optional(values.seconds(1)),
        "seconds, at least 1, or None",
        "Seconds after a run was sent in which one must have ended well, or that is an incident. None: nothing is "
        "promised. An entry may override it.",
    )
    incident_days: int = _setting(
        7,
        values.count(3_650),
        "a whole number, from 1 to 3,650",
        "For how many days an incident is kept after its end.",
    )
    release: str | None = _setting(
        None,
        values.optional(values.read_text),
        "a text or None",
        "The release of the code that workers execute; it is kept with each run, and the log of the schedule says when "
        "it was reported first. None: ``SENTRY_RELEASE``, ``HEROKU_RELEASE_VERSION`` or ``GIT_COMMIT`` of the "
        "environment.",
    )
    stop_signal: str | None = _setting(
        "SIGTERM",
        values.optional(values.read_signal),
        "the name of a signal, such as 'SIGTERM', or None",
        "The signal that ends a run that is stopped, where the worker's pool can. None: its task is asked "
        "alone, and ends by itself where it asks ``stop_requested()``.",
    )
    run_results: bool = _setting(
        False,
        values.read_flag,
        "True or False",
        "Keep the ``repr`` of each run's result, 200 characters of it.",
    )
    run_tracebacks: bool = _setting(
        True,
        values.read_flag,
        "True or False",
        "Keep where the errors of the newest 3 failed runs of an entry were raised: the frames, without locals and "
        "secrets, about 10,000 characters at most.",
    )
    run_write_timeout: float = _setting(
        0.5,
        values.seconds(0.05, 60),
        "seconds, from 0.05 to 60",
        "Seconds that a worker waits for Redis before and after a task. What could not be written is written later.",
    )
    stop_when_cut_off: bool = _setting(
        False,
        values.read_flag,
        "True or False",
        "Whether a prefork worker ends a task whose lease it could not renew for ``run_timeout``: it is cut off from "
        "Redis, and another worker may have been given the run.",
    )
    http: str | None = _setting(
        None,
        values.optional(values.read_address),
        "a text such as '127.0.0.1:9808', ':9808' for all addresses, or None",
        "Where beat serves ``/live``, ``/health`` and, with the extra ``metrics``, ``/metrics``. None: nowhere.",
    )
    heartbeat_file: str | None = _setting(
        None,
        values.optional(values.read_text),
        "the path of a file, or None",
        "A file that beat touches after each pass, once a second at most, for probes that run no Python.",
    )
    metrics_entries: tuple[str, ...] = _setting(
        (),
        values.read_names,
        "a list of patterns",
        "Names of entries that have metrics of their own, with ``*`` and ``?`` for any characters. At most "
        "1,000 have, the first by name; ``redisbeater_entries_without_metrics`` counts the others.",
    )
    ping_url: str | None = _setting(
        None,
        values.optional(values.read_web_url),
        "a URL of http or https, or None",
        "A URL that the beat that leads asks for while the schedule is healthy, so that a service outside notices its "
        "silence. When the schedule becomes unhealthy, it sends why to ``/fail`` below it, once.",
        secret=True,
    )
    ping_interval: float = _setting(
        60.0,
        values.seconds(1, MOST_OUTAGE_SECONDS),
        "seconds, from 1 to 3600",
        "Seconds from one request to ``ping_url`` to the next.",
    )
    notify: Mapping[str, tuple[str, ...]] = _setting(
        dict,
        values.read_receivers,
        "a dict of URLs of Apprise, or lists of them, by name",
        "Who is told of incidents: :doc:`know-that-it-ran`. An entry names one of them with ``notify``; of others, and "
        "of the schedule itself, ``default`` is told, or the first. The leading beat needs the extra ``notify``.",
        secret=True,
    )
    page_url: str | None = _setting(
        None,
        values.optional(values.read_web_url),
        "a URL of http or https, or None",
        "Where people reach the web page: messages of incidents end with it.",
    )
    application: str | None = _setting(
        None,
        values.optional(values.read_text),
        "a text that is not empty, or None",
        "The name of the application that owns the static entries of this app. Applications that share a schedule need "
        "different names. "
        "Default: the name passed to ``Celery()``.",
    )
    schedule_classes: Mapping[str, type] = _setting(
        dict,
        values.read_classes,
        "a list of classes or import paths",
        "Custom schedule classes that may be stored, as classes or import paths.",
    )
    redact: tuple[str, ...] = _setting(
        DEFAULT_PATTERNS,
        values.read_names,
        "a list of patterns",
        "Parts of keys whose values are blanked in what the command line, the web page and the logs show: in "
        "arguments, options, headers, labels, definitions, errors and results, in any case, ``*`` and ``?`` for any "
        "characters, ``_`` for what separates words. Entries are sent and kept as they are; errors, results and "
        "tracebacks of runs are kept without secrets.",
    )
    task_options: tuple[str, ...] = _setting(
        (),
        values.read_names,
        "a list of names",
        "Names of options that ``apply_async`` of your own task classes takes besides Celery's. An entry with any "
        "other unknown option is refused when it is saved.",
    )

    @classmethod
    def from_app(cls, app: Celery | None = None) -> Config:
        """Read and check the settings of an app, without I/O.

        Arguments:
            app: the Celery app; None: the current one.

        Raises:
            ImproperlyConfigured: a setting is unknown, or its value cannot be used.
        """
        app = app_or_default(app)
        given = dict(given_settings(app))
        known = [setting.name for setting in fields(cls)]
        refuse_unknown(given, known)
        refuse_misspelt(app, known)
        if "redis_url" not in given:
            given["redis_url"] = broker_redis_url(app)
        if "key_prefix" not in given and SCHEMES.get(scheme_of(given["redis_url"])) is Topology.CLUSTER:
            given["key_prefix"] = CLUSTER_PREFIX
        config = cls(**{each.name: read_setting(each, given[each.name]) for each in fields(cls) if each.name in given})
        config.url.check_tls(config.redis_use_ssl)
        config.url.check_prefix(config.key_prefix)
        config._check_overlap()
        hide(config.redact)
        return config._with_publish_timeout(is_given="publish_timeout" in given)

    def with_prefix(self, prefix: str) -> Config:
        """Return these settings for another schedule on the same Redis, with a key prefix of its own.

        Raises:
            ImproperlyConfigured: no schedule can have that prefix, or it needs a hash tag.
        """
        [setting] = [each for each in fields(self) if each.name == "key_prefix"]
        config = replace(self, key_prefix=read_setting(setting, prefix))
        config.url.check_prefix(prefix)
        return config

    @property
    def receivers(self) -> dict[str, str]:
        """The URLs of all receivers, each by what it is called: ``ops`` for the first of a name, then ``ops.2``."""
        return {
            called: url
            for name, urls in self.notify.items()
            for called, url in zip(receiver_names(name, len(urls)), urls)
        }

    def told(self, name: str | None = None) -> tuple[str, ...]:
        """Return the receivers that are told about an entry which names these, or none where nobody is.

        Where there is no such name, and of the schedule itself, ``default`` is told, or the first.
        """
        found = next((each for each in (name, "default", *self.notify) if each in self.notify), None)
        return () if found is None or name == NOBODY else receiver_names(found, len(self.notify[found]))

    def _check_overlap(self) -> None:
        if self.overlap is not Overlap.ALLOW and not self.track_runs:
            raise ImproperlyConfigured(
                f"{PREFIX}overlap = {self.overlap.value!r}: needs {PREFIX}track_runs = True, and workers that import "
                "redisbeater.runs; without them nobody knows which runs are active"
            )

    def _with_publish_timeout(self, *, is_given: bool) -> Config:
        """Return the settings with a ``publish_timeout`` that cannot cost beat its lock or its lease."""
        timeout, limits = self.publish_timeout, {"lease_timeout": self.lease_timeout}
        if self.lock_key is not None:
            limits["lock_timeout"] = self.lock_timeout
        if not is_given:
            return replace(self, publish_timeout=min(timeout, *(limit / 3 for limit in limits.values())))
        for name, limit in limits.items():
            if timeout >= limit / 2:
                raise ImproperlyConfigured(
                    f"{PREFIX}publish_timeout = {timeout:g}: expected less than half of {PREFIX}{name}, "
                    f"which is {limit:g}; set it below {limit / 2:g}, or {PREFIX}{name} above {2 * timeout:g}"
                )
        return self

    @property
    def url(self) -> RedisUrl:
        """The parsed ``redis_url``."""
        return RedisUrl.read(f"{PREFIX}redis_url", self.redis_url)

    @property
    def lock_name(self) -> str | None:
        """The full key of the lock; None if there is no lock."""
        if self.lock_key is None or self.lock_key.startswith(self.key_prefix):
            return self.lock_key
        return self.key_prefix + self.lock_key


def receiver_names(name: str, number: int) -> tuple[str, ...]:
    """Return the names of the receivers of one name: it, and with a number behind it."""
    return (name, *(f"{name}.{place}" for place in range(2, number + 1)))[:number]


#: RedBeat's settings with a successor of the same name, besides its prefix.
_SUCCEEDED = ("redis_url", "redis_options", "redis_use_ssl", "lock_key", "lock_timeout")

#: The prefix of RedBeat's keys where none is set.
_DEFAULT_KEY_PREFIX = "redbeat:"


def redbeat_prefix(app: Celery) -> str:
    """Return the prefix of RedBeat's keys, by its own setting or its default."""
    return dict(given_settings(app, REDBEAT_PREFIX)).get("key_prefix") or _DEFAULT_KEY_PREFIX


def leftover_settings(app: Celery) -> tuple[list[str], list[str]]:
    """Return the names of RedBeat's settings that an app has, and what to set instead; nothing if that is set.

    Values are left out, because they may hold passwords; only the prefix, which finds RedBeat's entries, is shown.
    """
    theirs, ours = dict(given_settings(app, REDBEAT_PREFIX)), dict(given_settings(app))
    settings = [f"{PREFIX}{name} as {REDBEAT_PREFIX}{name}" for name in _SUCCEEDED if name in theirs.keys() - ours]
    if theirs and "key_prefix" not in ours:
        settings.append(f"{PREFIX}key_prefix = {redbeat_prefix(app)!r}")
    return (sorted(REDBEAT_PREFIX + name for name in theirs), settings) if settings else ([], [])
