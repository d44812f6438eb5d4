"""The settings: which values are accepted, which are refused, and what the error shows."""

from __future__ import annotations

import sys
import traceback
from dataclasses import FrozenInstanceError, fields
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from celery import Celery
from celery.exceptions import ImproperlyConfigured as CeleryImproperlyConfigured
from celery.schedules import BaseSchedule

from redisbeater.config.settings import Config
from redisbeater.config.values import PREFIX, RESERVED_OPTIONS
from redisbeater.context import Context
from redisbeater.exceptions import ImproperlyConfigured, RedisBeaterError
from redisbeater.model.policies import Coalesce
from redisbeater.model.resolved_policy import Defaults

URL = "redis://cache:6379/0"


class Tide(BaseSchedule):
    def to_redisbeater(self) -> None: ...

    @classmethod
    def from_redisbeater(cls, data: Any) -> Tide:
        return cls()


class HalfTide(BaseSchedule):
    def to_redisbeater(self) -> None: ...


def read(broker: Any = "memory://", **settings: Any) -> Config:
    """Return the configuration of an app with these settings, and with a URL unless they have one."""
    app = Celery("proj", broker=broker, set_as_current=False)
    app.conf.update({f"{PREFIX}{name}": value for name, value in {"redis_url": URL, **settings}.items()})
    return Config.from_app(app)


def read_without_url(broker: Any, **conf: Any) -> Config:
    app = Celery("proj", broker=broker, set_as_current=False)
    app.conf.update(conf)
    return Config.from_app(app)


def read_django(**settings: Any) -> Config:
    """Return the configuration of an app that is configured like Django's."""
    app = Celery("proj", broker="memory://", set_as_current=False)
    app.config_from_object(type("settings", (), {"CELERY_REDISBEATER_REDIS_URL": URL, **settings}), namespace="CELERY")
    return Config.from_app(app)


# -- values


def test_the_defaults() -> None:
    assert read() == Config(
        redis_url=URL,
        redis_options={},
        redis_use_ssl=False,
        key_prefix="redisbeater:",
        lock_key=":lock",
        lock_timeout=15,
        lock_lost=None,
        lease_timeout=30,
        batch_size=500,
        max_entry_size=1_000_000,
        retry_period=-1,
        misfire_grace_time=None,
        coalesce=Coalesce.LATEST,
        jitter=0,
        schedule_classes={},
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [
        pytest.param("redis_url", "redis://:secret@cache:6379/1", id="url"),
        pytest.param("redis_url", "rediss://cache:6379/1", id="url-tls"),
        pytest.param("redis_url", "unix:///run/redis.sock?db=1", id="url-socket"),
        pytest.param("redis_options", {}, id="no-options"),
        pytest.param("redis_options", {"password": "x", "socket_timeout": 1}, id="options"),
        pytest.param("redis_use_ssl", False, id="ssl-false"),
        pytest.param("key_prefix", "redbeat:", id="prefix-of-redbeat"),
        pytest.param("key_prefix", "{tag}:", id="prefix-with-hash-tag"),
        pytest.param("lock_key", None, id="no-lock"),
        pytest.param("lock_key", "redisbeater::other", id="whole-lock-key"),
        pytest.param("lock_timeout", 1, id="shortest-lock"),
        pytest.param("lock_timeout", 2.5, id="fraction-of-a-second"),
        pytest.param("lock_lost", None, id="lock-lost-by-kind-of-beat"),
        pytest.param("lock_lost", "exit", id="lock-lost-exit"),
        pytest.param("lock_lost", "standby", id="lock-lost-standby"),
        pytest.param("lease_timeout", 1, id="shortest-lease"),
        pytest.param("batch_size", 1, id="smallest-batch"),
        pytest.param("max_entry_size", 10_000, id="smallest-entries"),
        pytest.param("max_entry_size", 16_000_000, id="largest-entries"),
        pytest.param("retry_period", 0, id="no-retry"),
        pytest.param("retry_period", -1, id="retry-forever"),
        pytest.param("retry_period", 60.5, id="retry-for-a-time"),
        pytest.param("misfire_grace_time", None, id="any-lateness"),
        pytest.param("misfire_grace_time", 1, id="shortest-grace"),
        pytest.param("misfire_grace_time", 90.5, id="grace"),
        pytest.param("coalesce", Coalesce.EARLIEST, id="coalesce"),
        pytest.param("jitter", 0, id="no-jitter"),
        pytest.param("jitter", 0.25, id="jitter"),
        pytest.param("schedule_classes", [], id="no-classes"),
    ],
)
def test_a_valid_value_is_accepted(name: str, value: Any) -> None:
    expected = {} if value == [] else value

    assert getattr(read(**{name: value}), name) == expected


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        pytest.param("redis_options", None, {}, id="options"),
        pytest.param("redis_use_ssl", None, False, id="ssl"),
        pytest.param("lock_key", None, None, id="lock"),
    ],
)
def test_none_is_accepted_where_it_means_off(name: str, value: Any, expected: Any) -> None:
    assert getattr(read(**{name: value}), name) == expected


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(pytest.param("redis_url", value, id=f"url-{value!r}") for value in (None, "", 0)),
        *(pytest.param("redis_options", value, id=f"options-{value!r}") for value in ("x", 0, [1])),
        *(pytest.param("redis_use_ssl", value, id=f"ssl-{value!r}") for value in ("yes", 1, [])),
        *(pytest.param("key_prefix", value, id=f"prefix-{value!r}") for value in (None, "", 0, b"x")),
        *(pytest.param("lock_key", value, id=f"lock-{value!r}") for value in ("", 0, False, [])),
        *(
            pytest.param("lock_timeout", value, id=f"timeout-{value!r}")
            for value in (None, 0, 0.9, -1, True, "15", float("nan"), float("inf"), 3601, 10**30)
        ),
        *(pytest.param("lock_lost", value, id=f"lost-{value!r}") for value in ("", 0, False, "stop", [])),
        *(
            pytest.param("lease_timeout", value, id=f"lease-{value!r}")
            for value in (None, 0, -1, True, "30", float("nan"), 3601, 10**30)
        ),
        *(
            pytest.param("batch_size", value, id=f"batch-{value!r}")
            for value in (None, 0, -1, 1.5, True, "10", 10_001, 10**30)
        ),
        *(
            pytest.param("max_entry_size", value, id=f"size-{value!r}")
            for value in (None, 0, 9_999, 16_000_001, 1e6, True, "1000000")
        ),
        *(
            pytest.param("retry_period", value, id=f"retry-{value!r}")
            for value in (None, -2, -0.5, True, "10", float("inf"))
        ),
        *(
            pytest.param("misfire_grace_time", value, id=f"grace-{value!r}")
            for value in (0, 0.9, -1, True, "60", float("nan"), float("inf"), [])
        ),
        *(
            pytest.param("coalesce", value, id=f"coalesce-{value!r}")
            for value in (None, "", "LATEST", "newest", 0, True, [])
        ),
        *(
            pytest.param("jitter", value, id=f"jitter-{value!r}")
            for value in (None, -0.1, True, "60", float("nan"), float("inf"), 367 * 86400)
        ),
        *(pytest.param("schedule_classes", value, id=f"classes-{value!r}") for value in (None, "a.B", 0, b"a")),
    ],
)
def test_an_invalid_value_is_refused_with_what_is_accepted(name: str, value: Any) -> None:
    accepts = next(setting.metadata["accepts"] for setting in fields(Config) if setting.name == name)

    with pytest.raises(ImproperlyConfigured) as refused:
        read(**{name: value})

    assert str(refused.value).startswith(f"redisbeater_{name} = ")
    assert str(refused.value).endswith(f"expected {accepts}")


@pytest.mark.parametrize(
    ("prefix", "completed"),
    [("myapp", "myapp:"), ("app:staging", "app:staging:"), ("app::", "app:"), ("app::log:", "app:log:"), ("::", ":")],
)
def test_a_prefix_that_another_one_may_begin_with_by_chance_is_refused_with_the_fix(
    prefix: str, completed: str
) -> None:
    with pytest.raises(ImproperlyConfigured) as refused:
        read(key_prefix=prefix)

    assert str(refused.value) == (
        f"redisbeater_key_prefix = {prefix!r}: expected a text that ends with ':' and has no '::'; set it to "
        f"{completed!r}. Entries that are stored there are brought over by: celery -A <app> redisbeater import redbeat "
        f"--prefix {prefix}"
    )
    with pytest.raises(ImproperlyConfigured):
        read().with_prefix(prefix)


@pytest.mark.parametrize("overlap", ["skip", "buffer_one", "cancel_other"])
def test_an_overlap_for_all_entries_needs_records_of_runs(overlap: str) -> None:
    with pytest.raises(
        ImproperlyConfigured, match=rf"redisbeater_overlap = '{overlap}': needs redisbeater_track_runs = True"
    ):
        read(overlap=overlap)

    assert read(overlap=overlap, track_runs=True).overlap == overlap
    assert read(overlap="allow").track_runs is False


def test_the_error_of_a_refused_setting_is_one_of_redisbeater_and_of_celery() -> None:
    assert issubclass(ImproperlyConfigured, RedisBeaterError)
    assert issubclass(ImproperlyConfigured, CeleryImproperlyConfigured)


@pytest.mark.parametrize(
    "option", ["decode_responses", "encoding", "encoding_errors", "retry", "retry_on_error", "retry_on_timeout"]
)
def test_an_option_that_redisbeater_sets_itself_is_refused(option: str) -> None:
    with pytest.raises(ImproperlyConfigured, match=rf"redisbeater_redis_options\['{option}'\]: .*remove it"):
        read(redis_options={option: None})


@pytest.mark.parametrize("value", [True, {"ssl_cert_reqs": "none"}], ids=repr)
def test_tls_options_are_accepted_with_a_tls_url(value: Any) -> None:
    assert read(redis_url="rediss://cache:6379/0", redis_use_ssl=value).redis_use_ssl == value


@pytest.mark.parametrize("url", [URL, "unix:///run/redis.sock"])
def test_tls_options_without_a_tls_url_are_refused(url: str) -> None:
    with pytest.raises(
        ImproperlyConfigured, match=r"use rediss:// in redisbeater_redis_url, or unset redisbeater_redis_use_ssl"
    ):
        read(redis_url=url, redis_use_ssl=True)


@pytest.mark.parametrize(
    ("settings", "where"),
    [
        pytest.param({"key_prefix": "bad\udc80:"}, "key_prefix", id="prefix"),
        pytest.param({"redis_url": "redis://:hunter\udc80@h"}, "redis_url", id="url"),
        pytest.param({"redis_options": {"password": "hunter\udc80"}}, "redis_options['password']", id="password"),
    ],
)
def test_a_text_that_redis_cannot_get_is_refused(settings: dict[str, Any], where: str) -> None:
    with pytest.raises(ImproperlyConfigured) as caught:
        read(**{"redis_url": URL, **settings})

    assert str(caught.value).startswith(f"redisbeater_{where}: U+DC80 is no character, but a byte")
    assert caught.value.__context__ is None


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"sentinel_kwargs": [("password", "hunter2")]}, "['sentinel_kwargs']: expected a dict, not list"),
        ({"sentinel_kwargs": {"retry": None}}, "['sentinel_kwargs']['retry']: redisbeater sets this option itself"),
        ({"sentinel_kwargs": {5: 1}}, "['sentinel_kwargs']: 5 is no name of an option; write a text"),
        ({"sentinel_kwargs": {"password": "\udc80"}}, "['sentinel_kwargs']['password']: U+DC80 is no character"),
        ({"socket_keepalive_options": "x"}, "['socket_keepalive_options']: expected a dict, not str"),
        ({5: 1}, ": 5 is no name of an option; write a text"),
    ],
)
def test_options_within_options_are_checked(options: dict[Any, Any], problem: str) -> None:
    with pytest.raises(ImproperlyConfigured) as caught:
        read(redis_url="sentinel://a", redis_options=options)

    assert str(caught.value).startswith(f"redisbeater_redis_options{problem}")


def test_the_configuration_is_frozen() -> None:
    with pytest.raises(FrozenInstanceError):
        read().batch_size = 1  # type: ignore[misc]


def test_every_setting_documents_its_purpose_and_what_it_accepts() -> None:
    assert all(setting.metadata["doc"] and setting.metadata["accepts"] for setting in fields(Config))


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        pytest.param({}, "redisbeater::lock", id="default"),
        pytest.param({"key_prefix": "p:"}, "p::lock", id="another-prefix"),
        pytest.param({"lock_key": "leader"}, "redisbeater:leader", id="another"),
        pytest.param({"key_prefix": "redbeat:", "lock_key": "redbeat::lock"}, "redbeat::lock", id="whole-key"),
        pytest.param({"lock_key": None}, None, id="none"),
    ],
)
def test_the_key_of_the_lock_begins_with_the_prefix(settings: dict[str, Any], name: str | None) -> None:
    assert read(**settings).lock_name == name


# -- policies


@pytest.mark.parametrize("word", ["latest", "earliest", "all"])
def test_coalesce_is_set_by_its_word(word: str) -> None:
    assert read(coalesce=word).coalesce is Coalesce(word)


def test_django_settings_may_contain_policies() -> None:
    config = read_django(
        CELERY_REDISBEATER_COALESCE="all", CELERY_REDISBEATER_JITTER=5, CELERY_REDISBEATER_MISFIRE_GRACE_TIME=60
    )

    assert (config.coalesce, config.jitter, config.misfire_grace_time) == (Coalesce.ALL, 5, 60)


@pytest.mark.parametrize("value", [1e15, 1e300, 10**400], ids=["longer-than-a-calendar", "1e300", "400-digits"])
@pytest.mark.parametrize("name", ["misfire_grace_time", "jitter"])
def test_seconds_that_no_entry_can_be_planned_with_are_refused(name: str, value: float) -> None:
    with pytest.raises(ImproperlyConfigured, match=rf"^redisbeater_{name} = "):
        read(**{name: value})


def defaults(**conf: Any) -> Defaults:
    """Return the defaults that the entries of an app with these settings inherit."""
    app = Celery("proj", broker="memory://", set_as_current=False)
    app.conf.update({"redisbeater_redis_url": URL, "timezone": "Europe/Vienna", **conf})
    return Context.of(app).defaults


def test_entries_inherit_nothing_special_by_default() -> None:
    assert defaults() == Defaults(zone=ZoneInfo("Europe/Vienna"))


def test_entries_inherit_the_policies_of_the_settings() -> None:
    inherited = defaults(
        redisbeater_misfire_grace_time=60,
        redisbeater_coalesce="all",
        redisbeater_jitter=5,
        beat_cron_starting_deadline=7,
    )

    assert inherited == Defaults(
        zone=ZoneInfo("Europe/Vienna"),
        misfire_grace_time=60,
        crontab_grace_time=7,
        coalesce=Coalesce.ALL,
        jitter=5,
    )


@pytest.mark.parametrize("value", [None, 1, 2.5, 3600], ids=repr)
def test_the_deadline_of_celery_for_crontabs_is_used(value: Any) -> None:
    assert defaults(beat_cron_starting_deadline=value).crontab_grace_time == value


@pytest.mark.parametrize(
    "value",
    [0, 0.5, -1, "60", [], True, float("nan"), float("inf"), 1e300, 10**400],
    ids=lambda value: repr(value)[:20],
)
def test_an_invalid_deadline_for_crontabs_is_refused(value: Any) -> None:
    with pytest.raises(ImproperlyConfigured, match=r"^beat_cron_starting_deadline = .*expected seconds, at least 1"):
        defaults(beat_cron_starting_deadline=value)


# -- names


@pytest.mark.parametrize(
    ("typo", "near"),
    [
        pytest.param("lock_time", "redisbeater_lock_timeout", id="cut-off"),
        pytest.param("batchsize", "redisbeater_batch_size", id="underscore"),
        pytest.param("redis_uri", "redisbeater_redis_url", id="letter"),
        pytest.param("key_perfix", "redisbeater_key_prefix", id="swapped"),
    ],
)
def test_the_error_of_an_unknown_setting_suggests_the_nearest_name(typo: str, near: str) -> None:
    with pytest.raises(ImproperlyConfigured, match=rf"redisbeater_{typo} is not a setting .*did you mean {near}\?"):
        read(**{typo: 1})


@pytest.mark.parametrize(
    "name",
    [
        "redis_beater_redis_url",
        "redbeater_redis_url",
        "REDISBEAT_REDIS_URL",
        "redisbeeter_redis_ulr",
        "CELERY_REDIS_BEATER_REDIS_URL",
        "CELERY_REDISBEATER_REDIS_URL",  # of an app without that namespace
    ],
)
def test_a_setting_whose_name_is_nearly_one_of_ours_is_refused(name: str) -> None:
    with pytest.raises(ImproperlyConfigured, match=f"{name} is not a setting .*did you mean redisbeater_redis_url"):
        read_without_url("redis://", **{name: URL})


def test_a_setting_of_django_whose_name_is_nearly_one_of_ours_is_refused() -> None:
    with pytest.raises(ImproperlyConfigured, match="CELERY_REDIS_BEATER_TRACK_RUNS is not a setting"):
        read_django(CELERY_REDIS_BEATER_TRACK_RUNS=True)


@pytest.mark.parametrize(
    "name", ["redbeat_redis_url", "redis_backend_use_ssl", "redis_url", "redis_beat_interval", "report_redis_url"]
)
def test_a_setting_of_somebody_else_is_left_alone(name: str) -> None:
    assert read_without_url("redis://", **{name: URL}).redis_url == "redis://"


def test_the_error_of_an_unknown_setting_lists_all_names_when_none_is_near() -> None:
    with pytest.raises(ImproperlyConfigured, match=r"redisbeater_zzz is not .*known are redisbeater_redis_url, "):
        read(zzz=1)


def test_settings_of_other_packages_are_ignored() -> None:
    assert read_without_url("redis://broker", redbeat_lock_key=1, beat_max_loop_interval=5).lock_key == ":lock"


def test_names_may_be_upper_case() -> None:
    app = Celery("proj", broker="memory://", set_as_current=False)
    app.conf.update(REDISBEATER_REDIS_URL=URL, REDISBEATER_BATCH_SIZE=7)

    assert Config.from_app(app).batch_size == 7


@pytest.mark.parametrize(
    ("setting", "name", "value"),
    [
        pytest.param("CELERY_REDISBEATER_LOCK_KEY", "lock_key", None, id="explicit-none"),
        pytest.param("CELERY_REDISBEATER_RETRY_PERIOD", "retry_period", 0, id="explicit-zero"),
        pytest.param("CELERY_REDISBEATER_KEY_PREFIX", "key_prefix", "p:", id="text"),
    ],
)
def test_a_django_style_setting_is_read(setting: str, name: str, value: Any) -> None:
    assert getattr(read_django(**{setting: value}), name) == value


def test_the_error_of_a_mistyped_django_setting_suggests_the_nearest_name() -> None:
    with pytest.raises(ImproperlyConfigured, match=r"did you mean redisbeater_lock_key\?"):
        read_django(CELERY_REDISBEATER_LOCK_KEYS=None)


# -- the URL


@pytest.mark.parametrize(
    ("broker", "url"),
    [
        pytest.param("redis://broker:6379/1", "redis://broker:6379/1", id="redis"),
        pytest.param("rediss://broker:6379/1", "rediss://broker:6379/1", id="tls"),
        pytest.param("redis+socket:///run/redis.sock", "unix:///run/redis.sock", id="kombu-socket"),
        pytest.param("socket:///run/redis.sock", "unix:///run/redis.sock", id="socket"),
        pytest.param("redis://a:6379/0;redis://b:6379/0", "redis://a:6379/0", id="first-of-several"),
        pytest.param(["redis://a:6379/0", "redis://b:6379/0"], "redis://a:6379/0", id="first-of-a-list"),
    ],
)
def test_without_a_url_the_one_of_the_broker_is_used(broker: Any, url: str) -> None:
    assert read_without_url(broker).redis_url == url


def test_the_url_of_the_settings_takes_precedence_over_the_one_of_the_broker() -> None:
    assert read(broker="redis://broker:6379/1").redis_url == URL


def test_a_broker_that_is_not_redis_is_accepted_when_a_url_is_set() -> None:
    assert read(broker="amqp://guest:guest@rabbit").redis_url == URL


@pytest.mark.parametrize("broker", ["amqp://guest:hunter2@rabbit//", "sqs://key:hunter2@", "memory://"])
def test_the_error_of_a_broker_that_is_not_redis_shows_the_fix(broker: str) -> None:
    scheme = broker.split(":", 1)[0]

    with pytest.raises(
        ImproperlyConfigured, match=rf"\({scheme}\) of the app '.*' is not a Redis .*set redisbeater_redis_url = 'redis"
    ):
        read_without_url(broker)


@pytest.mark.parametrize(
    "url",
    ["http://:hunter2@cache", "hunter2", ["redis://:hunter2@a"], "redis://:hunter2[@cache"],
    ids=["other-scheme", "no-scheme", "list", "bracket-in-password"],
)
def test_the_error_of_an_invalid_url_does_not_show_its_password(url: Any) -> None:
    with pytest.raises(ImproperlyConfigured) as refused:
        read(redis_url=url)

    assert "redisbeater_redis_url" in str(refused.value)
    assert "hunter2" not in str(refused.value)
    assert "hunter2" not in repr(refused.value.__context__)


@pytest.mark.parametrize(
    "url",
    [
        pytest.param("redis://:hunter2@cache:port/0", id="port-is-a-word"),
        pytest.param("redis://:hunter2@cache:99999999/0", id="port-out-of-range"),
        pytest.param("redis://:hunter2/x@cache:6379/0", id="slash-in-password"),
        pytest.param("redis://user:hunter2#x@cache:6379/0", id="hash-in-password"),
        pytest.param("redis://user:x?hunter2@cache:6379/0", id="question-mark-in-password"),
        pytest.param("redis://:hunter2@cache:6379/0?socket_timeout=soon", id="option-is-no-number"),
        pytest.param("redis://:hunter2@cache:6379/0?decode_responses=1", id="reserved-option"),
        pytest.param("redis://:hunter2@cache:6379/0?unknown=1", id="unknown-option"),
    ],
)
def test_the_error_of_a_url_that_redis_py_refuses_does_not_show_its_password(url: str) -> None:
    app = Celery("proj", broker="memory://", set_as_current=False)
    app.conf.update(redisbeater_redis_url=url)

    with pytest.raises(ImproperlyConfigured) as refused:
        Context.of(app)

    assert "redisbeater_redis_url" in str(refused.value)
    assert "hunter2" not in "".join(traceback.format_exception(refused.value))
    assert "hunter2" not in repr(refused.value.__context__)


@pytest.mark.parametrize("option", RESERVED_OPTIONS)
def test_an_option_that_redisbeater_sets_itself_is_refused_in_the_url(option: str) -> None:
    with pytest.raises(ImproperlyConfigured, match=rf"redisbeater_redis_url\['{option}'\]: .*remove it"):
        read(redis_url=f"{URL}?{option}=1")


def test_other_options_in_the_url_are_kept() -> None:
    assert read(redis_url=f"{URL}?socket_timeout=2").redis_url == f"{URL}?socket_timeout=2"


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param({"redis_options": ["password", "hunter2"]}, id="options-not-a-dict"),
        pytest.param({"redis_options": {"password": "hunter2", "retry": 1}}, id="reserved-option"),
    ],
)
def test_no_error_shows_a_password_among_the_options(settings: dict[str, Any]) -> None:
    with pytest.raises(ImproperlyConfigured) as refused:
        read(**settings)

    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    "broker", ["amqp://guest:hunter2@rabbit//", "redis+x://:hunter2@cache", "redis://:hunter2[@cache"]
)
def test_no_error_shows_the_password_of_the_broker(broker: str) -> None:
    with pytest.raises(ImproperlyConfigured) as refused:
        read_without_url(broker)

    assert "hunter2" not in str(refused.value)


# -- custom schedules

TIDE = f"{Tide.__module__}.Tide"


@pytest.mark.parametrize("listed", [Tide, TIDE, f"{Tide.__module__}:Tide"], ids=["class", "path", "path-with-colon"])
def test_schedule_classes_are_found_by_their_path(listed: Any) -> None:
    assert read(schedule_classes=[listed]).schedule_classes == {TIDE: Tide}


def test_a_schedule_class_of_the_current_folder_is_found_as_celery_finds_tasks_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A command of Celery has that folder on its path only while it looks for the application and its imports."""
    (tmp_path / "high_water.py").write_text(f"from {Tide.__module__} import Tide\n")
    monkeypatch.chdir(tmp_path)

    assert str(tmp_path) not in sys.path
    assert read(schedule_classes=["high_water.Tide"]).schedule_classes == {TIDE: Tide}


@pytest.mark.parametrize(
    ("listed", "problem"),
    [
        pytest.param("nowhere.Tide", "cannot import 'nowhere.Tide'", id="no-module"),
        pytest.param(f"{Tide.__module__}.Ebb", "cannot import", id="no-class"),
        pytest.param(HalfTide, r"needs a method to_redisbeater\(\) and a class method", id="no-way-back"),
        pytest.param(Tide(), "needs a method", id="an-instance"),
        pytest.param(5, "needs a method", id="a-number"),
    ],
)
def test_a_class_that_cannot_be_stored_is_refused(listed: Any, problem: str) -> None:
    with pytest.raises(ImproperlyConfigured, match=rf"^redisbeater_schedule_classes: .*{problem}"):
        read(schedule_classes=[listed])


def test_the_codec_of_an_app_stores_and_reads_its_classes() -> None:
    app = Celery("proj", set_as_current=False)
    app.conf.update(redisbeater_redis_url=URL, redisbeater_schedule_classes=[Tide])

    stored = Context.of(app).codec.encode(Tide())

    assert isinstance(Context.of(app).codec.decode(stored), Tide)


@pytest.mark.parametrize("lock_key", [":schedule", ":id", ":format", ":changes", "redisbeater::schedule"])
def test_a_lock_that_is_a_key_of_the_schedule_itself_is_refused(lock_key: str) -> None:
    """Beat would advise to delete that key."""
    app = Celery("proj", set_as_current=False)
    app.conf.update(redisbeater_redis_url=URL, redisbeater_lock_key=lock_key)

    with pytest.raises(ImproperlyConfigured, match=r"itself; unset it for 'redisbeater::lock'$"):
        Context.of(app)
